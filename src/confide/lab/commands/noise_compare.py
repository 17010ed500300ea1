"""``confide account noise compare``: all distributions for the same programme."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import typer

from confide.cli.commands import setting
from confide.cli.noise import TITLES
from confide.cli.show import Json, out, show_answer, table
from confide.exact import shortened_up
from confide.lab.risk.noise_comparison import NoiseComparison, NoiseSetting, compare_noise
from confide.noise import EpsilonDelta, FiniteDistribution, epsilon_delta
from confide.noise.fitting import NoiseKind
from confide.privacy import Neighbours


def compare(
    variance: Annotated[str | None, typer.Option("-V", "--variance", help="Utility-driven: the variance.")] = None,
    margin: Annotated[int | None, setting("--margin", help="Utility-driven: the noise margin instead.")] = None,
    level: Annotated[str, setting("--level", help="How often the noise keeps within the margin.")] = "0.95",
    bound: Annotated[int | None, typer.Option("-D", "--bound", help="Utility-driven: the largest noise.")] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="Risk-driven: epsilon of the programme.")] = None,
    delta: Annotated[str, setting("--delta", help="The delta of the programme.")] = "1e-10",
    measurements: Annotated[
        int, typer.Option("-t", "--measurements", min=1, help="Cross-classifications that each count a record once.")
    ] = 1,
    neighbours: Annotated[Neighbours, setting(help="What the promise compares.")] = Neighbours.ADD_REMOVE,
    as_json: Json = False,
) -> None:
    """All distributions for the same static programme: from a variance or margin and a bound, or from epsilon.

    The last row of a perturbation table is compared with them where a variance and a bound are given.
    """
    given = [name for name, value in (("variance", variance), ("margin", margin), ("epsilon", epsilon)) if value]
    if len(given) != 1 or (bound is None) != (epsilon is not None):
        raise typer.BadParameter("give --variance and --bound, or --margin and --bound, or --epsilon")
    answer = compare_noise(
        variance=variance,
        margin=margin,
        epsilon=epsilon,
        bound=bound,
        level=level,
        delta=delta,
        measurements=measurements,
        neighbours=neighbours,
    )
    show_answer(answer, lambda: show_comparison(answer, delta), as_json=as_json)


def show_comparison(answer: NoiseComparison, delta: str) -> None:
    """A row for each kind of noise."""
    heads = ["distribution", "parameter", "V ", "D ", "one count: ε, δ ", "programme: ε, δ "]
    table(heads, [_row(setting) for setting in answer.settings])
    counts = "one count" if answer.changed == 1 else f"{answer.changed:,} counts"
    out.print(
        f"A record changes {counts} by one. V is the variance, D the largest noise. ε and δ are for independent noise "
        f"in every count, rounded up; δ above {delta} is what no ε takes away. Truncated noise has no pure loss and no "
        "ρ: a release with it is charged to a ledger of approximate differential privacy, with its ε and δ. "
        "Noise of a perturbation table is charged to no ledger."
    )
    if any(isinstance(setting.noise, FiniteDistribution) for setting in answer.settings):
        out.print(
            "The p-table row is the truncated Gaussian: of all noise with this variance and bound that of largest "
            "entropy. Its digits are those of a perturbation table, in floating point."
        )


def _row(setting: NoiseSetting) -> tuple[str, ...]:
    noise, law = setting.noise, setting.noise.as_dict()
    letters = {"epsilon": "ε", "sigma2": "σ²"}
    parameter = [f"{letter} {float(Fraction(law[key])):.5g}" for key, letter in letters.items() if key in law]
    return (
        "p-table row" if isinstance(noise, FiniteDistribution) else TITLES[NoiseKind(noise.name)],
        "".join(parameter),
        f"{noise.variance():.5g}",
        "–" if noise.bound is None else f"{noise.bound:,}",
        _shown(setting.of_count),
        _shown(setting.of_programme or epsilon_delta(noise, setting.changed)),
    )


def _shown(pair: EpsilonDelta | None) -> str:
    return "none" if pair is None else f"{shortened_up(pair.epsilon, 4)}, {shortened_up(pair.delta, 3)}"
