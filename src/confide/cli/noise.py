"""``confide noise``: the noise laws, exactly, and what they promise side by side."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import typer

from confide.cli.show import Json, out, print_json, table
from confide.noise import CountNoise, EpsilonDelta, FiniteLaw, epsilon_delta
from confide.noise.fitting import Kind, make_noise
from confide.noise.ptables import symmetric_law
from confide.privacy import Neighbours
from confide.privacy.conversion import probability
from confide.risk.noise_comparison import (
    NoiseSetting,
    changed_counts,
    float_above,
    margin_driven,
    risk_driven,
    utility_driven,
)

app = typer.Typer(help="The noise laws: probabilities, quantiles, noise margins, promises.", no_args_is_help=True)

LawOption = Annotated[Kind, typer.Option("--law", help="The noise law.")]
Sigma2 = Annotated[str | None, typer.Option("--sigma2", help="The parameter of a discrete Gaussian (exact).")]
Epsilon = Annotated[str | None, typer.Option("--epsilon", help="The parameter of a two-sided geometric (exact).")]
Bound = Annotated[int | None, typer.Option("--bound", help="The largest noise, for a truncated law.")]
Probability = Annotated[str, typer.Option("-p", "--probability", help="A probability between 0 and 1 (exact).")]

_TITLES = {
    Kind.GEOMETRIC: "geometric",
    Kind.GAUSSIAN: "Gaussian",
    Kind.TRUNCATED_GEOMETRIC: "truncated geometric",
    Kind.TRUNCATED_GAUSSIAN: "truncated Gaussian",
}

LARGEST_ROW = 50
"""Perturbation tables have bounds of this order; a wider row would be no cell key noise."""


def _law(kind: Kind, sigma2: str | None, epsilon: str | None, bound: int | None) -> CountNoise:
    wanted, other = (epsilon, sigma2) if kind.falling else (sigma2, epsilon)
    if wanted is None or other is not None:
        raise typer.BadParameter(f"{kind.value} takes {'--epsilon' if kind.falling else '--sigma2'}")
    if kind.bounded != (bound is not None):
        raise typer.BadParameter(f"{kind.value} takes {'a' if kind.bounded else 'no'} --bound")
    return make_noise(kind, wanted, bound)


@app.command()
def pmf(
    law: LawOption,
    at: Annotated[str, typer.Option(help="Whole numbers, separated by commas.")],
    sigma2: Sigma2 = None,
    epsilon: Epsilon = None,
    bound: Bound = None,
    as_json: Json = False,
) -> None:
    """The probability of values of the noise, and of values up to them."""
    chosen = _law(law, sigma2, epsilon, bound)
    try:
        points = [int(point) for point in at.split(",")]
    except ValueError:
        raise typer.BadParameter("--at takes whole numbers, separated by commas") from None
    rows = [{"x": x, "pmf": chosen.pmf(x), "cdf": chosen.cdf(x)} for x in points]
    if as_json:
        print_json({"law": chosen.as_dict(), "at": rows, "pmf": [row["pmf"] for row in rows]})
        return
    table(["x ", "P(noise = x) ", "P(noise ≤ x) "], [(r["x"], f"{r['pmf']:.10g}", f"{r['cdf']:.10g}") for r in rows])


@app.command()
def quantile(
    law: LawOption,
    probability: Probability,
    sigma2: Sigma2 = None,
    epsilon: Epsilon = None,
    bound: Bound = None,
    as_json: Json = False,
) -> None:
    """The smallest value that the noise stays at or below with a probability."""
    chosen = _law(law, sigma2, epsilon, bound)
    value = chosen.quantile(probability)
    if as_json:
        print_json({"law": chosen.as_dict(), "probability": probability, "quantile": value})
    else:
        out.print(f"The noise is at most {value} with probability {probability}.")


@app.command()
def margin(
    law: LawOption,
    probability: Probability = "0.95",
    sigma2: Sigma2 = None,
    epsilon: Epsilon = None,
    bound: Bound = None,
    as_json: Json = False,
) -> None:
    """The noise margin: the smallest distance from zero that the noise keeps within with a probability."""
    chosen = _law(law, sigma2, epsilon, bound)
    value = chosen.noise_margin(probability)
    if as_json:
        variance = chosen.variance()
        print_json({"law": chosen.as_dict(), "probability": probability, "noise_margin": value, "variance": variance})
    else:
        out.print(
            f"The noise is within ±{value} with probability {probability}; its variance is {chosen.variance():.6g}."
        )


@app.command()
def compare(
    variance: Annotated[str | None, typer.Option("-V", "--variance", help="Utility-driven: the variance.")] = None,
    margin: Annotated[int | None, typer.Option("--margin", help="Utility-driven: the noise margin instead.")] = None,
    level: Annotated[str, typer.Option("--level", help="How often the noise keeps within the margin.")] = "0.95",
    bound: Annotated[int | None, typer.Option("-D", "--bound", help="Utility-driven: the largest noise.")] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="Risk-driven: epsilon of the programme.")] = None,
    delta: Annotated[str, typer.Option("--delta", help="The delta of the programme.")] = "1e-10",
    measurements: Annotated[
        int, typer.Option("-t", "--measurements", min=1, help="Cross-classifications that each count a record once.")
    ] = 1,
    neighbours: Annotated[Neighbours, typer.Option(help="What the promise compares.")] = Neighbours.ADD_REMOVE,
    as_json: Json = False,
) -> None:
    """All distributions for the same static programme: from a variance or margin and a bound, or from epsilon.

    The last row of a perturbation table is compared with them where a variance and a bound are given.
    """
    chosen = [name for name, given in (("variance", variance), ("margin", margin), ("epsilon", epsilon)) if given]
    if len(chosen) != 1 or (bound is None) != (epsilon is not None):
        raise typer.BadParameter("give --variance and --bound, or --margin and --bound, or --epsilon")
    changed, allowed = changed_counts(measurements, neighbours), probability(delta)
    if epsilon is not None:
        settings = risk_driven(epsilon, allowed, changed)
    else:
        assert bound is not None
        if variance is not None:
            rows = [_table_row(bound, variance)] if bound <= LARGEST_ROW else []
            settings = utility_driven(variance, bound, changed, allowed, rows)
        else:
            assert margin is not None
            settings = margin_driven(margin, level, bound, changed, allowed)
    if as_json:
        listed = [setting.as_dict() | {"name": _name(setting.noise)} for setting in settings]
        print_json({"driven_by": chosen[0], "changed": changed, "delta": str(allowed), "distributions": listed})
        return
    heads = ["distribution", "parameter", "V ", "E ", "one count: ε, δ ", "programme: ε, δ "]
    table(heads, [_row(setting) for setting in settings])
    counts = "one count" if changed == 1 else f"{changed:,} counts"
    out.print(
        f"A record changes {counts} by one. V is the variance, E the largest noise. ε and δ are for independent noise "
        f"in every count, rounded up; δ above {delta} is what no ε takes away. "
        "Bounded noise cannot be charged to a ledger."
    )


def _table_row(bound: int, variance: str) -> FiniteLaw:
    """The last row of the perturbation table with D and V, its floating-point probabilities taken as they are."""
    return FiniteLaw.symmetric(Fraction(p) for p in symmetric_law(bound, variance).p)


def _name(noise: CountNoise) -> str:
    return "perturbation-table" if isinstance(noise, FiniteLaw) else noise.name


def _row(setting: NoiseSetting) -> tuple[str, ...]:
    noise, law = setting.noise, setting.noise.as_dict()
    letters = {"epsilon": "ε", "sigma2": "σ²"}
    parameter = [f"{letter} {float(Fraction(law[key])):.5g}" for key, letter in letters.items() if key in law]
    return (
        "p-table row" if isinstance(noise, FiniteLaw) else _TITLES[Kind(noise.name)],
        "".join(parameter),
        f"{noise.variance():.5g}",
        "–" if noise.largest is None else f"{noise.largest:,}",
        _shown(setting.of_count),
        _shown(setting.of_programme or epsilon_delta(noise, setting.changed)),
    )


def _shown(pair: EpsilonDelta | None) -> str:
    return "none" if pair is None else f"{float_above(pair.epsilon):.4g}, {float_above(pair.delta):.3g}"
