"""The experiments of the risk laboratory: from numbers to figures, tables and pictures, by the verbs of the library.

``data/studio/laboratory.toml`` says what each asks and what it is about; here it is carried out. Nothing is computed
that ``lab/risk`` or ``lab/attacks`` does not compute, and each gives the command that prints the same.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from shlex import quote
from typing import Any

from confide.answers import ShownTable, TypedAnswer
from confide.errors import ParameterError, Place
from confide.exact import exact, up
from confide.exact import exact_text as _text
from confide.lab import risk
from confide.lab.attacks import StatisticsReconstruction, reconstruct_statistics
from confide.lab.risk.bayesian.two_level import Variant
from confide.lab.risk.bounded_noise.averaging import Optimum, target_name
from confide.lab.risk.bounded_noise.noise_rows import read_populations, success_probability
from confide.lab.risk.bounded_noise.programme_risks import AveragingAnswer, CellKeyTuning
from confide.lab.risk.invariant_sets import InvariantsAnswer, chain
from confide.lab.risk.testing.curve_answer import DELTA, epsilon_chart, epsilon_curve, power_chart, power_curve
from confide.report.charts import Pictures

OWN = "own.toml"
"""The file of the invariants that somebody writes on the page."""
ROWS = 5
"""So many counts of one's own a page has at most."""


@dataclass(frozen=True)
class Chosen:
    """What somebody chose: exact numbers, words, and what was ticked, by name."""

    numbers: Mapping[str, Fraction]
    words: Mapping[str, str]
    ticked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """An experiment that was carried out."""

    figures: dict[str, tuple[str, str]]
    """By title the figure, and what it means."""
    command: str
    answer: dict[str, Any]
    pictures: Pictures = field(default_factory=dict)
    tables: tuple[ShownTable, ...] = ()
    sentences: tuple[str, ...] = ()
    file: str = ""
    """The text of a file that the command names: :data:`OWN`."""
    steps: StatisticsReconstruction | None = None


def _belief(given: Chosen) -> Shown:
    rho, prior, released = given.numbers["rho"], given.numbers["prior"], int(given.numbers["released"])
    answer = risk.bayes(rho, [prior], [released])
    (adversary,) = answer.adversaries
    assert adversary.belief is not None
    figures = {
        "Belief after this count": (f"{adversary.belief.posterior[0]:.4f}", f"it was {float(prior):g}"),
        "Risk of this count, R′": (f"{adversary.belief.risk_at[0]:.4f}", "belief after over belief before"),
        "Belief expected, if it is right": (f"{adversary.marginal_posterior:.4f}", "on average over the noise"),
        "Risk, R": (f"{adversary.risk:.4f}", f"that over the prior; at most {answer.risk_limit:.4f} for any prior"),
        "Right decisions": (f"{_known(adversary.average_accuracy):.4f}", "on average, by the prior"),
    }
    command = f"confide risk bayes --rho {_text(rho)} --prior {_text(prior)} --released={released}"
    return Shown(figures, command, answer.as_dict(), answer.pictures())


def _levels(given: Chosen) -> Shown:
    rhos, counts, prior = _list(given, "rhos"), _list(given, "counts"), given.numbers["prior"]
    if len(rhos) != len(counts) or not 2 <= len(rhos) <= 8 or any(each.denominator != 1 for each in counts):
        raise ParameterError("slider-range/released", where=Place(path="counts"), rhos=len(rhos), counts=len(counts))
    answer = risk.bayes(rhos[0], [prior], [int(each) for each in counts], also_rho=rhos[1:])
    (adversary,) = answer.adversaries
    assert adversary.belief is not None
    figures = {
        "Belief after all counts": (f"{adversary.belief.posterior[0]:.4f}", f"it was {float(prior):g}"),
        "Belief expected, if it is right": (f"{adversary.marginal_posterior:.4f}", "on average over the noise"),
        "Risk, R": (f"{adversary.risk:.4f}", f"that over the prior; at most {answer.risk_limit:.4f} for any prior"),
        "Budgets together": (f"{float(sum(rhos)):.4g}", "their sum"),
    }
    also = " ".join(f"--also-rho {_text(each)}" for each in rhos[1:])
    released = ",".join(str(int(each)) for each in counts)
    command = f"confide risk bayes --rho {_text(rhos[0])} {also} --prior {_text(prior)} --released={released}"
    return Shown(figures, command, answer.as_dict(), answer.pictures(), _tables(answer))


def _hierarchy(given: Chosen) -> Shown:
    rho1, rho2, siblings, prior = (given.numbers[name] for name in ("rho", "above", "siblings", "prior"))
    counts = (int(given.numbers["released"]), int(given.numbers["parent"]), int(given.numbers["others"]))
    about = given.words["belief"]
    answer = risk.hierarchy(rho1, rho2, int(siblings), prior=prior, released=counts, prior_x2=about)
    belief, model = answer.belief, answer.model
    assert belief is not None
    figures = {
        "Belief after all counts": (f"{belief.posterior[Variant.STATED]:.4f}", f"it was {float(prior):g}"),
        "Belief after the block's count alone": (
            f"{belief.posterior[Variant.WITHOUT]:.4f}",
            "without the area around it",
        ),
        "Effective rho": (
            f"{float(model.effective_rho):.4g}",
            f"of one count that says as much, far from zero; alone {float(rho1):g}",
        ),
    }
    command = (
        f"confide risk hierarchy --rho1 {_text(rho1)} --rho2 {_text(rho2)} --siblings {int(siblings)} "
        f"--prior {_text(prior)} --prior-x2 {about} --released={','.join(map(str, counts))}"
    )
    return Shown(figures, command, answer.as_dict(), answer.pictures(), _tables(answer))


def _tables(answer: TypedAnswer) -> tuple[ShownTable, ...]:
    """The titled tables by which an answer describes itself."""
    return tuple(part for part in answer.described() if isinstance(part, ShownTable) and part.title)


def _test(given: Chosen) -> Shown:
    rho, level = given.numbers["rho"], given.numbers["level"]
    (point,), epsilons = power_curve(rho, [level]), epsilon_curve(rho, [DELTA])
    figures = {
        "Any release with this budget": (up(point.zcdp, 4), "of cases noticed at most, whatever the mechanism"),
        "Gaussian noise": (up(point.gaussian, 4), "of cases noticed, if all noise is Gaussian"),
        "Blind guessing": (f"{float(level):.4f}", "notices as often as it raises false alarms"),
    }
    rows = tuple(
        (f"{float(each.delta):g}", *(up(each.ways[way], 2) for way in ("bun_steinke", "canonne_kamath_steinke")))
        for each in epsilons
    )
    table = ShownTable(("delta", "Bun and Steinke", "Canonne, Kamath and Steinke"), rows, "Epsilon")
    command = f"confide risk curve --rho {_text(rho)} --level {_text(level)}"
    answer = point.as_dict() | {"rho": str(rho), "epsilons": [each.as_dict() for each in epsilons]}
    pictures: Pictures = {
        "power": lambda: power_chart(power_curve(rho)),
        "epsilon": lambda: epsilon_chart(epsilon_curve(rho)),
    }
    return Shown(figures, command, answer, pictures, (table,))


def _invariants(given: Chosen) -> Shown:
    rho, sets, own = given.numbers["rho"], given.ticked.get("set", ()), own_counts(given)
    records = given.words["records"]
    names = [*sets, *([OWN] if own else [])]
    if not names:
        return Shown({"Nothing is published exactly": ("2 ε", "one record is protected in all it says")}, "", {})
    text = _own_file(records, own) if own else ""
    answer = _statement(tuple(sets), text, rho)
    sizes = {mode.value: group for mode, group in answer.groups.items()}
    fixed = [each.title for each in answer.single_record.values() if each.multiplier is None]
    figures = {
        "Fixed for one record": (", ".join(fixed) or "nothing", "what no change of one record leaves open"),
        "Group to hide in": (str(sizes["refill"].size), "records, where all that is fixed is to stay open together"),
        "One secret pair": (str(sizes["pairwise"].size), "records, where two answers are compared"),
    }
    command = f"confide risk invariants {' '.join(names)} --rho {_text(rho)} --explain"
    return Shown(figures, command, answer.as_dict(), {}, _tables(answer), answer.sentences, text)


@lru_cache(maxsize=64)
def _statement(sets: tuple[str, ...], own: str, rho: Fraction) -> InvariantsAnswer:
    more = {OWN: tomllib.loads(own)} if own else {}
    return risk.invariants([*sets, *more], rho=rho, explained=True, own=more)


def own_counts(given: Chosen) -> list[tuple[str, dict[str, str]]]:
    """The counts that were written into the table: of every area of a level, and of whom."""
    counts = []
    for place in range(ROWS):
        level = given.words.get(f"by-{place}", "")
        if level:
            named = [given.words.get(f"{kind}-{place}", "") for kind in ("who", "and")]
            counts.append((level, dict(each.split("=", 1) for each in named if "=" in each)))
    return counts


def _own_file(records: str, counts: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    lines = ['id = "own"', f"records = {json.dumps(records)}"]
    for level, where in counts:
        lines += ["", "[[counts]]", f"by = {json.dumps(level)}"]
        if where:
            inner = ", ".join(f"{name} = {json.dumps([value], ensure_ascii=False)}" for name, value in where.items())
            lines.append(f"where = {{ {inner} }}")
    return "\n".join(lines) + "\n"


def _chain(given: Chosen) -> Shown:
    number, most, epsilon = int(given.numbers["n"]), given.numbers["k"], given.numbers["epsilon"]
    answer = chain(number, most, epsilon)
    figures = {
        "Standard error of one noisy value": (f"{float(answer.single_variance) ** 0.5:.4g}", f"values go up to {most}"),
        "Standard error of the mean of all": (f"{float(answer.mean_variance) ** 0.5:.4g}", "what exact sums give away"),
        "If the record is replaced": (
            f"{float(answer.counterfactual_error) ** 0.5:.4g}",
            "at most, the error remains: one record cannot hide",
        ),
        "By the median": (f"{float(answer.median_variance) ** 0.5:.4g}", "better still, for many records"),
        "Group to hide in": (f"{answer.group:,}", f"records: everybody, a factor of e^({answer.multiplier:,} ε)"),
    }
    plain = {name: str(getattr(answer, name)) for name in ("single_variance", "mean_variance", "median_variance")}
    plain |= {"counterfactual_error": str(answer.counterfactual_error), "group": str(answer.group)}
    command = (
        f'python -c "from confide.lab.risk.invariant_sets import chain; '
        f"print(float(chain({number}, '{_text(most)}', '{_text(epsilon)}').mean_variance))\""
    )
    return Shown(figures, command, plain)


def _bound(given: Chosen) -> Shown:
    largest, variance, country = int(given.numbers["bound"]), given.numbers["variance"], given.words["country"] or None
    answer = risk.bound(largest, variance, country=country)
    figures = {
        "The bound is": ("protected" if answer.protected else "not protected", f"at the level {answer.risk.level:g}"),
        "Sums that are needed": (_large(answer.risk.m, answer.risk.log10_m), "to find the bound with that probability"),
        "Sums that there are": (f"{answer.triples:,}", "women, men and all, in the whole programme"),
        "They find it": (f"{answer.revealed:.2g}", "the probability"),
        "Counts given away": (
            f"{answer.triples_given_away:.2g}",
            "sums expected to, once it is known",
        ),
    }
    command = f"confide risk bound -D {largest} -V {_text(variance)}" + _of(country)
    return Shown(figures, command, answer.as_dict(), answer.pictures())


def _averaging(given: Chosen) -> Shown:
    country, rule, variance = given.words["country"] or None, given.words["rule"], given.numbers["variance"]
    answer = _averaged(country, rule)
    target, worst = max(
        ((each.target, each.with_spsn) for each in answer.targets if each.with_spsn is not None),
        key=lambda pair: pair[1].variance_needed,
    )
    ratio = worst.means[Optimum.GREEDY].ratio
    figures = {
        "Riskiest statistic": (target_name(target), f"k/t² = {ratio:.4g}"),
        "Found with this variance": (f"{success_probability(float(variance), ratio):.4f}", "the probability"),
        "Variance that withstands": (f"{worst.variance_needed:.3f}", f"at the level {answer.level:g}"),
        "Statistics": (f"{len(answer.targets):,}", "of the programme"),
    }
    command = "confide risk averaging --rule " + rule + _of(country)
    return Shown(figures, command, answer.as_dict(), answer.pictures(), _tables(answer))


@lru_cache(maxsize=32)
def _averaged(country: str | None, rule: str) -> AveragingAnswer:
    """Counted once for each country: no number of the page changes it."""
    return risk.averaging(country=country, rule=rule)


def _areas(given: Chosen) -> Shown:
    epsilon, limit, country = given.numbers["epsilon"], int(given.numbers["bound"]), given.words["country"] or None
    sizes = given.words["sizes"]
    populations = read_populations(Path(given.words["sizes_file"])) if sizes else []
    answer = risk.areas([_text(epsilon)], bound=limit, country=country, populations=populations)
    (exceeded,) = answer.exceeded.values()
    figures = {
        "Epsilon for all areas within": (
            f"{answer.epsilon_at_least:.3f}",
            f"±{limit}, at level {answer.level:g}",
        ),
        "One area is farther off": (f"{exceeded:.3g}", "the probability, with this epsilon"),
        "Areas expected to be": (f"{answer.areas * exceeded:,.3g}", f"of {answer.areas:,}"),
    }
    pictures = {("distortions" if "distortions" in name else name): draw for name, draw in answer.pictures().items()}
    command = f"confide risk areas --epsilon {_text(epsilon)} -E {limit}" + _of(country)
    return Shown(figures, command + (f" --populations {quote(sizes)}" if sizes else ""), answer.as_dict(), pictures)


def _cellkey(given: Chosen) -> Shown:
    largest, variance, country = int(given.numbers["bound"]), given.numbers["variance"], given.words["country"] or None
    tuning = tuned(country)
    region = tuning.region
    row = next((each for each in region.rows if each.bound == largest), None)
    verdict, spans_left = "no", "beyond what is looked at"
    if row is not None:
        strict = row.strict and row.low <= variance <= row.high
        relaxed = row.relaxed and row.relaxed_low <= variance <= row.relaxed_high
        verdict = "yes" if strict else "under relaxed limits" if relaxed else "no"
        spans = ((row.low, row.high, row.strict), (row.relaxed_low, row.relaxed_high, row.relaxed))
        words = [f"V from {float(low):.3g} to {float(high):.3g}" if holds else "no V" for low, high, holds in spans]
        spans_left = f"with D = {largest}: {words[0]}; relaxed: {words[1]}"
    revealed = risk.bound(largest, variance, country=country)
    best = region.recommended
    figures = {
        "Withstands both attacks, and is useful": (verdict, spans_left),
        "The bound is given away": (
            f"{revealed.revealed:.2g}",
            f"the probability, by {region.triples:,} sums that are published",
        ),
    }
    if best is not None:
        pair = f"D = {best.risk.row.bound}, V = {float(best.variance):g}"
        figures["Recommended"] = (pair, "against weighted means too" if best.strict else "under relaxed limits")
    answer = _tuned_values(country) | {"asked": revealed.as_dict()}
    return Shown(figures, "confide risk region" + _of(country), answer, tuning.pictures())


@lru_cache(maxsize=32)
def tuned(country: str | None) -> CellKeyTuning:
    """The region of the programme that ships, for a country; it takes some seconds once."""
    return risk.tune_cellkey(country=country)


@lru_cache(maxsize=32)
def _tuned_values(country: str | None) -> dict[str, Any]:
    return tuned(country).as_dict()


def _reconstruction(given: Chosen) -> Shown:
    without, digits = given.ticked.get("leave", ()), int(given.words["digits"])
    answer = _people(without, digits)
    number = answer.solutions
    figures = {
        "Sets of people with these figures": ("too many" if number is None else f"{number:,}", _verdict(number)),
        "Groups published": (f"{len(answer.groups) - len(without)}", f"of {len(answer.groups)}"),
    }
    options = " ".join(f"--leave-out {quote(name)}" for name in without)
    command = " ".join(filter(None, ("confide attack statistics", options, f"--digits {digits}")))
    return Shown(figures, command, answer.as_dict(), steps=answer)


@lru_cache(maxsize=128)
def _people(without: tuple[str, ...], digits: int) -> StatisticsReconstruction:
    return reconstruct_statistics(leave_out=without, digits=digits)


def _verdict(number: int | None) -> str:
    if number is None:
        return "to look at: the attack stops"
    return "everybody is found" if number == 1 else "nobody fits" if not number else "are left to choose from"


EXPERIMENTS: Mapping[str, Callable[[Chosen], Shown]] = {
    "belief": _belief,
    "levels": _levels,
    "hierarchy": _hierarchy,
    "test": _test,
    "invariants": _invariants,
    "chain": _chain,
    "bound": _bound,
    "averaging": _averaging,
    "areas": _areas,
    "cellkey": _cellkey,
    "reconstruction": _reconstruction,
}
"""Every experiment by name."""


def _list(given: Chosen, name: str) -> list[Fraction]:
    """Exact numbers with commas between them."""
    return [exact(part.strip(), name) for part in _parts(given.words[name])]


def _parts(text: str) -> Iterable[str]:
    return [part for part in text.replace(";", ",").split(",") if part.strip()][:20]


def _of(country: str | None) -> str:
    return f" --country {country}" if country else ""


def _large(number: int, exponent: float) -> str:
    return f"{number:,}" if exponent < 9 else f"10^{exponent:.1f}"


def _known(value: float | None) -> float:
    assert value is not None
    return value
