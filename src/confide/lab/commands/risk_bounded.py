"""``confide risk bound|averaging|areas|region``: what bounded noise gives away, before anything is published; and
``confide account noise compare``: all distributions for the same programme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from confide.cli.accounts import TITLES
from confide.cli.commands import setting
from confide.cli.requests import PICTURES, Given, command
from confide.cli.show import out, table
from confide.errors import ParameterError, Place
from confide.exact import shortened_up
from confide.lab.risk import areas as answer_areas
from confide.lab.risk import averaging as answer_averaging
from confide.lab.risk import bound as answer_bound
from confide.lab.risk import tune_cellkey as answer_region
from confide.lab.risk.bounded_noise import programme_risks
from confide.lab.risk.bounded_noise.averaging import Optimum, target_name
from confide.lab.risk.bounded_noise.noise_rows import SizeClass, read_populations, success_probability
from confide.lab.risk.bounded_noise.withstanding import ProtectedRegion
from confide.lab.risk.noise_comparison import NoiseComparison, NoiseSetting, compare_noise
from confide.noise import EpsilonDelta, FiniteDistribution, epsilon_delta
from confide.noise.fitting import NoiseKind


def own_areas(texts: list[str] | None) -> dict[str, int]:
    """Numbers of areas, from NAME=NUMBER as typed."""
    own: dict[str, int] = {}
    for text in texts or ():
        name, equals, digits = text.partition("=")
        if not equals or not (digits.isascii() and digits.isdigit() and 0 < len(digits) < 10 and int(digits)):
            raise ParameterError("not-areas", where=Place(path="--areas"), found=text[:60])
        own[name] = int(digits)
    return own


def show_bound(answer: programme_risks.BoundAnswer) -> None:
    """The chance of one triple, the triples that are needed, and what there is."""
    risk, row = answer.risk, answer.risk.row
    out.print(f"[bold]Noise within ±{row.bound}, variance {row.variance:.4g}.[/]")
    if not row.attained:
        out.print(
            f"  A variance of {float(row.variance_limit):g} is more than this bound allows: the noise is uniform."
        )
    rows = [
        ("a triple F + M = T reveals the bound with probability", f"{risk.p1:.3g}"),
        (f"triples that reveal it with probability {risk.level:g}", _large(risk.log10_m, risk.m)),
        ("triples that the programme has", f"{answer.triples:,}"),
        ("probability that they reveal it", _chance(answer.revealed)),
        ("triples expected to give their counts away, if it is known", f"{answer.triples_given_away:.2g}"),
    ]
    table(["", " "], rows)
    verdict = "[bold green]The bound is protected[/]" if answer.protected else "[bold red]The bound is not protected[/]"
    out.print(f"{verdict} at the level {risk.level:g}.")


@dataclass(frozen=True)
class NoiseSharing:
    """Whether the same members have the same noise: a title, and which risks of an answer are meant."""

    title: str
    of: Callable[[programme_risks.TargetAveraging], programme_risks.AveragingRisk | None]

    def risks(
        self, answer: programme_risks.AveragingAnswer
    ) -> Iterator[tuple[programme_risks.TargetAveraging, programme_risks.AveragingRisk]]:
        """The statistics that there are ways to have."""
        for target in answer.targets:
            risk = self.of(target)
            if risk is not None:
                yield target, risk


WITH_SPSN = NoiseSharing("Same members, same noise", lambda target: target.with_spsn)
WITHOUT_SPSN = NoiseSharing("Noise of its own in every table", lambda target: target.without_spsn)


def show_averaging(answer: programme_risks.AveragingAnswer, top: int) -> None:
    """The riskiest statistics, and the variance that averaging asks for."""
    programme, where = answer.programme, ", ".join(f"{number:,} {name}" for name, number in answer.areas.items())
    out.print(f"[bold]{programme.title or programme.id}[/], rule {answer.rule.value}{', ' + where if where else ''}.\n")
    for kind in (WITH_SPSN, WITHOUT_SPSN):
        listed = sorted(kind.risks(answer), key=lambda pair: pair[1].variance_needed, reverse=True)[:top]
        rows = [
            (
                target_name(target.target),
                f"{risk.representations.t:,}",
                _short(risk.representations.k),
                *(f"{risk.means[optimum].ratio:.4g}" for optimum in Optimum if optimum is not Optimum.ALL),
                f"{risk.variance_needed:.3f}",
                f"{risk.epsilon_allowed:.3f}",
            )
            for target, risk in listed
        ]
        columns = ["statistic", "t ", "k ", "k/t²: greedy ", "prefix ", "weighted ", "V from ", "ε to "]
        table(columns, rows, title=kind.title)
        out.print()
    worst = min((risk.means[Optimum.GREEDY].ratio for _, risk in WITH_SPSN.risks(answer)), default=1.0)
    chances = ", ".join(f"{success_probability(v, worst):.0%} at V {v}" for v in (1, 2, 3, 5))
    text = f"V and ε: for a probability of {answer.level:g} to find the count."
    out.print(f"{text} The riskiest is found with {chances}.")


def show_areas(answer: programme_risks.AreasAnswer) -> None:
    """What ε keeps small areas close, and how many would be far off."""
    number, bound = answer.areas, answer.bound
    text = f"{number:,} areas stay within ±{bound} with probability {answer.level:g}"
    out.print(f"{text} from ε = {answer.epsilon_at_least:.3f} on.")
    rows = [(f"ε {text}", f"{chance:.3g}", f"{number * chance:,.3g}") for text, chance in answer.exceeded.items()]
    table(["", f"noise above {bound} ", "areas expected "], rows)
    by_epsilon: dict[float, list[SizeClass]] = {}
    for size_class in answer.size_classes:
        by_epsilon.setdefault(size_class.epsilon, []).append(size_class)
    for epsilon, classes in by_epsilon.items():
        errors = list(dict.fromkeys(item.relative_error for item in classes))
        lines = []
        for above, to, areas in dict.fromkeys((item.above, item.to, item.areas) for item in classes):
            name = f"above {above:,}" if to is None else f"{above:,} to {to:,}"
            counts = [item.expected for item in classes if (item.above, item.to) == (above, to)]
            lines.append((name, f"{areas:,}", *(f"{count:,.1f}" for count in counts)))
        columns = ["people", "areas ", *(f"off by {error:.0%} " for error in errors)]
        out.print()
        table(columns, lines, title=f"Areas expected to be off by at least so much, ε = {epsilon:g}")


def _short(value: int) -> str:
    return f"{value:,}" if value < 100_000 else f"{value:.2e}".replace("e+0", "e")


def _large(exponent: float, value: int) -> str:
    return f"{value:,}" if exponent < 9 else f"about 10^{exponent:.1f}"


def _chance(probability: float) -> str:
    return "over 99.9 %" if probability > 0.999 else f"{100 * probability:.3g} %"


# ``confide risk region``: bound and variance of a cell key release, from what its programme would give away.


def _show_region(region: ProtectedRegion) -> None:
    question, worst = region.question, region.with_same_noise[0]
    where = ", ".join(f"{number:,} {name}" for name, number in question.areas.items())
    out.print(f"[bold]{question.programme.title or question.programme.id}[/]{', ' + where if where else ''}.\n")
    mean = worst.mean(question.optimum)
    low = region.least_variance(question.optimum)
    out.print(
        f"Averaging: the riskiest statistic is {target_name(worst.target)}, k/t² = {mean.ratio:.4g} "
        f"({mean.t:,} representations, {mean.k:,} cells): V at least {float(low):g}."
    )
    best = region.least_variance(Optimum.INVERSE_VARIANCE)
    if best > low:
        out.print(f"  An attacker who weights representations by their size is withstood from V {float(best):g} on.")
    out.print(f"Revealing the bound: {region.triples:,} triples F + M = T; V at most, by D, below.")
    out.print(f"Utility: D at most {question.largest_noise}.\n")
    rows = [
        (row.bound, _span(row.low, row.high, ok=row.strict), _span(row.relaxed_low, row.relaxed_high, ok=row.relaxed))
        for row in region.rows
        if row.useful
    ]
    table(["D ", "V, all limits", "V, relaxed limits"], rows)
    recommended = region.recommended
    if recommended is None:
        out.print("\n[bold red]Nothing is left.[/] Publish less, or accept more noise.")
    else:
        limits = "all limits" if recommended.strict else "relaxed limits alone"
        out.print(
            f"\n[bold green]D = {recommended.risk.row.bound}, V = {float(recommended.variance):g}[/] "
            f"satisfies {limits}: "
            f"the bound is revealed with probability {recommended.risk.revealed(region.triples):.2g}."
        )
        plain = region.least_noise(question.optimum)
        if plain is not None and plain.variance != recommended.variance:
            out.print(
                f"It withstands weighted means too. Against the {question.optimum.value} mean alone, "
                f"D = {plain.risk.row.bound}, V = {float(plain.variance):g} would be enough."
            )
    _show_epsilon(region)


def _show_epsilon(region: ProtectedRegion) -> None:
    limits, bound = region.epsilon, region.question.small_area_bound
    least, most = limits["utility_at_least"], limits["averaging_at_most"]
    second = limits["relaxed_averaging_at_most"]
    assert most is not None
    assert second is not None
    text = f"Noise without a bound (Laplace, noise of its own in every table): averaging allows ε up to {most:.3f}"
    if second != most:
        text += f" ({second:.3f} for the second statistic)"
    if least is not None:
        text += f"; small areas stay within ±{bound} from ε {least:.3f} on"
        text += ": a band is left." if least <= most else ": no ε satisfies both."
    out.print(text)


def _span(low: Fraction, high: Fraction, *, ok: bool) -> str:
    return f"{float(low):.3f} to {float(high):.3f}" if ok else "none"


OPTIONS: dict[str, Given | str] = {
    "areas": Given("--areas NAME=NUMBER", own_areas),
    "leave_out": "--leave-out BREAKDOWN",
}
bound = command(
    "How many triples F + M = T reveal the largest noise, and what knowing it would give away.",
    answer_bound,
    show_bound,
    settings="alpha country areas unit rule available",
    options={
        "areas": OPTIONS["areas"],
        "bound": "-D --bound",
        "variance": "-V --variance",
        "available": Given("--triples", least=0),
    },
    pictures=PICTURES,
)
averaging = command(
    """Count the ways to have each statistic of a programme, and what averaging them would find.

    With the same noise for the same members (SPSN) and without.
    """,
    answer_averaging,
    show_averaging,
    settings="rule areas single optimum unit leave_out alpha",
    options={**OPTIONS, "programme": "--programme NAME", "targets": "--target LEVELS"},
    pictures=PICTURES,
    extra={"top": (Annotated[int, setting("--top", min=1, help="How many statistics are shown as text.")], 10)},
)
areas = command(
    "What unbounded noise does to small areas: bounds that hold with some probability, and counts that are far off.",
    answer_areas,
    show_areas,
    settings="country number populations alpha",
    options={
        "epsilons": "--epsilon",
        "bound": Given("-E --bound", least=1),
        "number": Given(least=1),
        "populations": Given("--populations FILE", read_populations, Path),
    },
    pictures=PICTURES,
)
region = command(
    """Bounds D and variances V that withstand averaging and protect the bound, for a programme and a country.

    A recommended pair, and the band that is left for the ε of noise without a bound.
    """,
    answer_region,
    lambda answer: _show_region(answer.region),
    settings="areas unit leave_out rule optimum largest_noise small_areas area_bound alpha relaxed",
    options={
        **OPTIONS,
        "programme": "--programme NAME",
        "largest_noise": Given(least=1, most=100),
        "small_areas": Given(least=1),
        "area_bound": Given(least=1),
    },
    pictures=PICTURES,
)


def _of_one_thing(values: dict[str, Any]) -> None:
    given = [name for name in ("variance", "margin", "epsilon") if name in values]
    if len(given) != 1 or ("bound" not in values) != ("epsilon" in values):
        raise typer.BadParameter("give --variance and --bound, or --margin and --bound, or --epsilon")


def show_comparison(answer: NoiseComparison) -> None:
    """A row for each kind of noise."""
    heads = ["distribution", "parameter", "V ", "D ", "one count: ε, δ ", "programme: ε, δ "]
    table(heads, [_row(setting) for setting in answer.settings])
    delta = f"{float(answer.delta):g}"
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


compare = command(
    """All distributions for the same static programme: from a variance or margin and a bound, or from epsilon.

    The last row of a perturbation table is compared with them where a variance and a bound are given.
    """,
    compare_noise,
    show_comparison,
    settings="margin level delta neighbours",
    options={
        "variance": "-V --variance",
        "bound": "-D --bound",
        "measurements": Given("-t --measurements", least=1),
    },
    prepare=_of_one_thing,
)
