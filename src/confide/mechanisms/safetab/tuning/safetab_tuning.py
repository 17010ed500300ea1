"""Budgets and noise margins of a SafeTab-P release, either from the other: the answer of ``confide safetab tune``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import ParameterError, Place
from confide.exact import Exact, exact, fraction_up, up
from confide.mechanisms.safetab.settings import GRIDS, ITERATION_LEVELS, TOTAL_TABLE, SafeTabSettings
from confide.mechanisms.safetab.tuning.answer import LevelTuning, ReleaseTuning, by_budget, by_size, tune
from confide.mechanisms.safetab.tuning.question import (
    BudgetRule,
    LevelQuestion,
    TuningQuestion,
    floor_margin,
    law_of,
    level_event,
    margin_of,
    production_tuning,
    question_of,
    release_event,
    smallest_budget,
)
from confide.noise import TwoSidedGeometric
from confide.privacy import Bracket, Definition, Neighbours, NoisyCells, cks_epsilon, epsilon_bracket, price
from confide.report.charts import Pictures, chart

# The privacy loss distribution of geometric noise: a bracket for epsilon at delta.
#
# A record that moves a count by one turns noise P(x) ∝ exp(−ε|x|) into Q(x) = P(x − 1), and ln P(x)/Q(x) is +ε for x
# ≤ 0 and −ε for x ≥ 1: two values, the first with probability 1/(1 + exp(−ε)). Over n cells with the same ε the loss
# is ε(2K − n) with K binomial. Cells with different ε add up; they meet on a grid of losses, rounded up for the
# pessimistic end of the bracket and down for the optimistic, and δ(ε) = E[(1 − exp(ε − L))₊]. All terms are positive,
# so double precision is right to about 1e-10 of δ, which is added and subtracted too.


_DOUBT = 1e-9
_MOST_POINTS = 1 << 20


def geometric_bracket(cells: Mapping[Fraction, int], delta: Fraction, interval: float = 1e-4) -> Bracket:
    """The smallest ε for which the changed ``cells``, a number for each parameter, are (ε, δ), between two numbers."""
    total = float(sum(parameter * number for parameter, number in cells.items()))
    step = max(interval, 2.5 * total / _MOST_POINTS)
    low, high = (_law(cells, step, up) for up in (False, True))
    chance = float(delta)
    optimistic, _ = _epsilon(*low, chance * (1 + _DOUBT))
    _, pessimistic = _epsilon(*high, chance * (1 - _DOUBT))
    return Bracket(optimistic, min(math.nextafter(total, math.inf), pessimistic))  # no loss is above the total


def _law(
    cells: Mapping[Fraction, int], step: float, up: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Losses and their probabilities, on the grid."""
    start, mass = 0, np.ones(1)
    for parameter, number in cells.items():
        epsilon = float(parameter)
        k = np.arange(number + 1)
        losses = epsilon * (2 * k - number) / step
        # A millionth of a step is far more than the error of the division, so the direction is kept for certain.
        places = (np.ceil(losses + 1e-6) if up else np.floor(losses - 1e-6)).astype(np.int64)
        log_yes = -math.log1p(math.exp(-epsilon))
        logs = [math.lgamma(number + 1) - math.lgamma(i + 1) - math.lgamma(number - i + 1) for i in range(number + 1)]
        weights = np.exp(np.array(logs) + k * log_yes + (number - k) * (log_yes - epsilon))
        added = np.zeros(len(mass) + int(places[-1] - places[0]))
        for place, weight in zip(places - places[0], weights, strict=True):
            added[place : place + len(mass)] += weight * mass
        start, mass = start + int(places[0]), added
    return step * np.arange(start, start + len(mass), dtype=np.float64), mass


def _epsilon(losses: npt.NDArray[np.float64], mass: npt.NDArray[np.float64], delta: float) -> tuple[float, float]:
    """Two ε next to each other with δ(ε) above ``delta`` at the first alone; zeros if it is nowhere above."""

    def excess(epsilon: float) -> float:
        above = losses > epsilon
        return float(np.sum(mass[above] * -np.expm1(epsilon - losses[above]))) - delta

    low, high = 0.0, max(0.0, float(losses[-1]))
    if excess(low) <= 0:
        return 0.0, 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low, high


_DECIMALS = 6
_INTERVAL = Fraction(1, 2000)
"""The grid of losses: with six different laws it makes an epsilon larger by 0.003 at most."""

STAGE_1 = {"share": "same share", "margin": "as accurate"}
ACCOUNTINGS = {
    "converted": "each by its own definition",
    "zcdp": "both by zCDP",
    "distribution": "both by their loss distributions",
}


@dataclass(frozen=True, slots=True)
class NoiseCostComparison:
    """Two epsilons at the same delta, both for one record added or removed."""

    stage_1: str
    accounting: str
    gaussian: float
    geometric: float

    @property
    def saving(self) -> float:
        """By how much less the Gaussian costs, as a share of the geometric; below zero if it costs more."""
        return 1 - self.gaussian / self.geometric

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage_1": self.stage_1,
            "accounting": self.accounting,
            "epsilon_gaussian": self.gaussian,
            "epsilon_geometric": self.geometric,
            "gaussian_costs_less_by": self.saving,
        }


def compare_noise_costs(answer: ReleaseTuning) -> list[NoiseCostComparison]:
    """The costliest pass of a zCDP answer, against geometric noise with the same margins (the targets, if given)."""
    if answer.question.definition is not Definition.ZCDP:
        raise ParameterError("nothing-to-compare", definition=answer.question.definition.value)
    levels = max(answer.passes.values(), key=lambda members: sum(member.budget for member in members))
    delta, s = answer.question.delta, answer.question.groups_per_person
    noisy = [NoisyCells(law.parameter, s) for level in levels for law in (level.stage_1, level.stage_2)]
    tightest = epsilon_bracket(noisy, delta, _INTERVAL).pessimistic
    return [row for stage_1 in STAGE_1 for row in _rows(answer, levels, stage_1, tightest)]


def _rows(
    answer: ReleaseTuning, levels: Iterable[LevelTuning], stage_1: str, tightest: float
) -> Iterable[NoiseCostComparison]:
    delta, s = answer.question.delta, answer.question.groups_per_person
    pairs = [(level, *_geometric(level, stage_1)) for level in levels]
    gaussian = release_event({"": [level_event(s, level.stage_1, level.stage_2, None) for level, _, _ in pairs]})
    geometric = release_event({"": [level_event(s, first, second, None) for _, first, second in pairs]})
    rho = price(gaussian, Neighbours.ADD_REMOVE, Definition.ZCDP).as_dict()["rho"]
    pure = price(geometric, Neighbours.ADD_REMOVE, Definition.PURE).as_dict()["epsilon"]
    geometric_rho = price(geometric, Neighbours.ADD_REMOVE, Definition.ZCDP).as_dict()["rho"]
    converted = cks_epsilon(rho, delta)
    yield NoiseCostComparison(stage_1, "converted", converted, float(Fraction(pure)))
    yield NoiseCostComparison(stage_1, "zcdp", converted, cks_epsilon(geometric_rho, delta))
    cells: Counter[Fraction] = Counter()
    for _, first, second in pairs:
        cells[first.epsilon] += s
        cells[second.epsilon] += s
    yield NoiseCostComparison(
        stage_1, "distribution", tightest, geometric_bracket(cells, delta, float(_INTERVAL)).pessimistic
    )


def _geometric(level: LevelTuning, stage_1: str) -> tuple[TwoSidedGeometric, TwoSidedGeometric]:
    """Geometric noise for both stages that is as accurate as the Gaussian noise of the level."""
    question = level.question
    s, share = question.groups_per_person, question.stage_1_fraction
    margin = level.margin if level.level_question.target is None else level.level_question.target
    budget = smallest_budget(Definition.PURE, margin, s, question.stage_2_share, _DECIMALS)
    second = law_of(Definition.PURE, s, question.stage_2_share * budget)
    if stage_1 == "margin":
        budget = smallest_budget(Definition.PURE, margin_of(level.stage_1), s, share, _DECIMALS)
    first = law_of(Definition.PURE, s, share * budget)
    assert isinstance(first, TwoSidedGeometric)
    assert isinstance(second, TwoSidedGeometric)
    return first, second


LevelKey = tuple[str, int]
"""A population group level: a region type and an iteration level, such as ``("STATE", 2)``."""


@dataclass(frozen=True)
class SafeTabTuning(TypedAnswer):
    """What each level's budget buys, what all levels cost and, if asked for, what geometric noise would cost."""

    release: ReleaseTuning
    comparison: tuple[NoiseCostComparison, ...] | None = None

    @property
    def question(self) -> TuningQuestion:
        """What was asked."""
        return self.release.question

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        values = self.release.as_dict()
        if self.comparison is not None:
            values["comparison"] = [row.as_dict() for row in self.comparison]
        return values

    def described(self) -> Iterator[AnswerPart]:
        """The tuning of a release and, if asked for, what geometric noise would cost."""
        yield from _described_release(self.release)
        if self.comparison is not None:
            yield from _described_costs(self.comparison, self.question)

    def pictures(self) -> Pictures:
        """Margins by budget, and those of suppression if there is any, by name."""
        drawn: Pictures = {
            "margin-by-budget": lambda: chart("tune-margin-by-budget", by_budget(self.release), unit=self.question.unit)
        }
        if sizes := by_size(self.release):
            rows = [row | {"curve": f"{row['budget']} (T = {row['threshold']:,})"} for row in sizes]
            drawn["suppression-by-size"] = lambda: chart("tune-suppression-by-size", rows)
            drawn["bias-by-size"] = lambda: chart("tune-bias-by-size", rows)
        return drawn


def tune_safetab(
    settings: SafeTabSettings | None = None,
    *,
    budgets: Mapping[LevelKey, Exact] | None = None,
    targets: Mapping[LevelKey, int] | None = None,
    add: bool = False,
    from_targets: bool = False,
    definition: Definition | str | None = None,
    gamma: Exact | None = None,
    race_codes: int | None = None,
    stability: int | None = None,
    suppression: Exact | None = None,
    relative_error: Exact = "0.05",
    sizes: Sequence[int] = (),
    delta: Exact = "1e-10",
    rule: BudgetRule | str = BudgetRule.formula,
    decimals: int = 3,
    puerto_rico: bool = False,
    compare: bool = False,
) -> SafeTabTuning:
    """Budgets and noise margins of a SafeTab-P release, either from the other; suppression, bias, and the total.

    Without arguments: the production settings of the 2020 Census, United States. No records are read.

    Args:
        settings: Settings of a release to begin with, in place of those of 2020.
        budgets: Levels with their budgets, by region type and iteration level: ``{("STATE", 2): "2.134"}``.
        targets: Levels with their target margins in persons: ``{("STATE", 2): 3}``.
        add: Whether these levels change or add to the ones to begin with, instead of replacing them; a budget of 0
            takes a level away.
        from_targets: For the levels of 2020: find budgets from the published targets.
        definition: ``zcdp`` (discrete Gaussian noise) or ``pure`` (two-sided geometric noise).
        gamma: The share of a level's budget that chooses the table of a group.
        race_codes: How many race codes of a person count.
        stability: Groups of a level that a person can be in, if unusual.
        suppression: The probability of suppressing a true zero.
        relative_error: The largest relative error of a cell that is accepted.
        sizes: Sizes of groups to look at.
        delta: The delta at which epsilon is stated.
        rule: From target to budget: the paper's ``formula``, or the ``smallest`` that holds.
        decimals: Decimals of a budget that is found.
        puerto_rico: Whether the Puerto Rico levels of 2020 are there as well.
        compare: Whether to compare with geometric noise that is as accurate.

    Returns:
        For each level its noise, margin and suppression; the losses of everything; the comparison.

    >>> answer = tune_safetab(targets={("STATE", 2): 3})
    >>> level = answer.release.levels[0]
    >>> float(level.budget), level.margin
    (2.134, 3)
    """
    kind = None if definition is None else _definition(definition)
    if settings is None:
        kind = kind or Definition.ZCDP
        by = "target" if from_targets or kind is Definition.PURE else "budget"
        begin = production_tuning(puerto_rico=puerto_rico, by=by)
    else:
        begin = question_of(settings)
    base = begin.levels if add or not (budgets or targets) else ()
    given = _levels(budgets or {}, targets or {}, base)
    question = replace(
        begin,
        definition=kind or begin.definition,
        levels=_joined(base, given),
        stage_1_fraction=begin.stage_1_fraction if gamma is None else exact(gamma, "gamma"),
        max_race_codes=begin.max_race_codes if race_codes is None else race_codes,
        zero_suppression=begin.zero_suppression if suppression is None else exact(suppression, "suppression"),
        relative_error=exact(relative_error, "relative error"),
        sizes=tuple(sizes) or begin.sizes,
        delta=exact(delta, "delta"),
        rule=BudgetRule(rule),
        decimals=decimals,
        stability=stability,
    )
    release = tune(question)
    return SafeTabTuning(release, tuple(compare_noise_costs(release)) if compare else None)


def _definition(name: Definition | str) -> Definition:
    if name in (Definition.ZCDP, Definition.PURE):
        return Definition(name)
    raise ParameterError("unknown-definition", where=Place(path="--definition"), found=str(name)[:40])


def _levels(
    budgets: Mapping[LevelKey, Exact], targets: Mapping[LevelKey, int], base: Sequence[LevelQuestion]
) -> dict[LevelKey, LevelQuestion]:
    """The levels that were given, with the thresholds that those have which they change."""
    for region_type, iteration_level in budgets.keys() & targets.keys():
        raise ParameterError(
            "budget-and-target/level",
            where=Place(path="--moe"),
            region_type=region_type,
            iteration_level=iteration_level,
        )
    thresholds = {(level.region_type, level.iteration_level): level.thresholds for level in base}
    levels = {
        key: LevelQuestion(*key, exact(budget, f"--level {key[0]}:{key[1]}"), None, thresholds.get(key))
        for key, budget in budgets.items()
    }
    return levels | {key: LevelQuestion(*key, None, target, thresholds.get(key)) for key, target in targets.items()}


def _joined(base: Sequence[LevelQuestion], given: dict[LevelKey, LevelQuestion]) -> tuple[LevelQuestion, ...]:
    levels = {(level.region_type, level.iteration_level): level for level in base} | given
    return tuple(level for level in levels.values() if level.budget is None or level.budget != Fraction(0))


# The answer in sentences and tables.


REGION_NAMES = {"USA": "nation", "AIANNH": "AIANNH", "PR-STATE": "Puerto Rico"}
COMPARED = {
    "unbounded": "one person more or fewer (unbounded)",
    "bounded": "one person's answers changed (bounded)",
}


def _described_release(answer: ReleaseTuning) -> Iterator[AnswerPart]:
    """What each level buys, where tables begin to be worth it, what suppression does, and what all of it costs."""
    question, alike = answer.question, _alike(answer.levels)
    noise = "discrete Gaussian" if question.definition is Definition.ZCDP else "two-sided geometric"
    yield (
        f"SafeTab-P, {noise} noise. A person is in up to {question.groups_per_person} groups of a level; "
        f"{_percent(float(question.stage_1_fraction))} of a level's budget chooses the table of a group.\n"
    )
    yield from _described_levels(question, alike)
    yield from _sizes_needed(question, alike)
    yield from _described_groups(question, alike)
    yield from _described_totals(answer)


def _described_levels(question: TuningQuestion, alike: dict[str, LevelTuning]) -> Iterator[AnswerPart]:
    rows = []
    for title, level in alike.items():
        target, floor = level.level_question.target, floor_margin(level.stage_2)
        holds = "" if target is None else f"±{target:,} {'holds' if level.target_holds else 'DOES NOT HOLD'}"
        threshold = (
            "nothing" if level.level_question.is_large or level.threshold is None else f"up to {level.threshold:,}"
        )
        rows.append(
            (
                title,
                fraction_up(level.budget),
                f"±{level.margin:,}",
                ", ".join(f"±{margin:,}" for name, margin in level.total_margins.items() if name != TOTAL_TABLE),
                "" if floor is None else f"±{floor:,}",
                holds,
                threshold,
            )
        )
    columns = ["level", f"{question.unit} ", "a count ", "totals of tables ", "⌊1.96σ⌋ ", "target ", "suppressed "]
    ages = ", ".join(str(grid.ages) for grid in GRIDS[:-1]) + f" or {GRIDS[-1].ages}"
    yield ShownTable(columns, rows, title="Noise is within these margins in 95 of 100 cases")
    yield (
        "A count is a cell of a table, or a total that stands alone; targets are for counts. The total of a group with "
        f"sex by {ages} ages is the sum of its noisy cells: its margin is one of the wider three.\n"
    )


def _sizes_needed(question: TuningQuestion, alike: dict[str, LevelTuning]) -> Iterator[AnswerPart]:
    rows = [(title, *(f"{size['cell']:,}" for size in level.sizes().values())) for title, level in alike.items()]
    columns = ["level", "total ", *(f"sex by {grid.ages} ages " for grid in GRIDS)]
    wanted = _percent(float(question.relative_error))
    yield ShownTable(
        columns, rows, title=f"Persons that a group needs for an average cell to have a margin of {wanted} of itself"
    )
    yield ""


def _described_groups(question: TuningQuestion, alike: dict[str, LevelTuning]) -> Iterator[AnswerPart]:
    small = {title: level for title, level in alike.items() if not level.level_question.is_large}
    if not small or not question.zero_suppression or not question.sizes:
        return
    rows = []
    for title, level in small.items():
        groups = [level.group_of(size) for size in question.sizes]
        rows.append(
            (title, *(f"{_chance(row['suppression_probability'])}, +{row['bias_if_released']:.1f}" for row in groups))
        )
    yield from _published_totals(small)
    chance = _percent(float(question.zero_suppression))
    columns = ["level", *(f"{size:,} persons " for size in question.sizes)]
    yield ShownTable(
        columns,
        rows,
        title=f"How often a group is suppressed, if {chance} of the empty ones are, and how much too high it is if not",
    )
    yield ""


def _published_totals(small: dict[str, LevelTuning]) -> Iterator[AnswerPart]:
    rows = []
    for title, level in small.items():
        explained = [(figure, *level.interval_of(figure)) for figure in level.shown_figures]
        means = [f"{figure:,}: {low:,} to {high:,}" for figure, low, high in explained]
        rows.append((title, *means, *[""] * (4 - len(means))))
    columns = ["level", "the smallest ", "", "", "as if all were shown "]
    yield ShownTable(
        columns, rows, title="What a published total that stands alone means: the true count, in 95 of 100 cases"
    )
    yield ""


def _described_totals(answer: ReleaseTuning) -> Iterator[AnswerPart]:
    question = answer.question
    named = {"all": answer.totals()} if len(answer.passes) == 1 else {}
    if not named:
        named = {name: answer.totals_of(name) for name in answer.passes} | {"all": answer.totals()}
    rows = []
    for name, both in named.items():
        for side, loss in both.items():
            what = COMPARED[side] if len(named) == 1 else f"{name}: {COMPARED[side]}"
            more = () if loss.epsilon is None else (up(loss.epsilon["canonne_kamath_steinke"], 2),)
            rows.append((what, fraction_up(loss.amount), *more))
    epsilon = () if question.definition is not Definition.ZCDP else (f"epsilon at delta {float(question.delta):g} ",)
    yield ShownTable(["what is compared", f"{question.unit} ", *epsilon], rows, title="The cost of all levels together")


def _described_costs(rows: Iterable[NoiseCostComparison], question: TuningQuestion) -> Iterator[AnswerPart]:
    """Gaussian and geometric noise at the same margins."""
    costs = [
        (
            STAGE_1[row.stage_1],
            ACCOUNTINGS[row.accounting],
            up(row.gaussian, 2),
            up(row.geometric, 2),
            f"{100 * abs(row.saving):.1f} % {'less' if row.saving >= 0 else 'more'}",
        )
        for row in rows
    ]
    yield ""
    columns = ["stage 1", "accounting", "Gaussian ", "geometric ", "Gaussian costs "]
    yield ShownTable(columns, costs, title=f"Epsilon at delta {float(question.delta):g} for the same noise margins")


def _alike(levels: Iterable[LevelTuning]) -> dict[str, LevelTuning]:
    """One level for all that differ in their name alone, under a title that names them all; largest budgets first."""
    groups: dict[object, list[LevelTuning]] = {}
    for level in levels:
        asked = level.level_question
        key = (asked.of_puerto_rico, asked.iteration_level, level.budget, asked.target, asked.is_large)
        groups.setdefault(key, []).append(level)
    ordered = sorted(
        groups.values(),
        key=lambda members: (
            members[0].level_question.of_puerto_rico,
            -members[0].budget,
            not members[0].level_question.is_large,
        ),
    )
    return {_title(members): members[0] for members in ordered}


def _title(levels: list[LevelTuning]) -> str:
    names = [
        REGION_NAMES.get(level.level_question.region_type, level.level_question.region_type.lower()) for level in levels
    ]
    names = [name.replace("pr-", "PR ") for name in names]
    return f"{', '.join(names)} ({ITERATION_LEVELS[levels[0].level_question.iteration_level]})"


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def _chance(probability: float) -> str:
    """A probability in per cent that never claims certainty."""
    if probability < 0.0005:
        return "under 0.1 %"
    return "over 99.9 %" if probability > 0.9995 else f"{100 * probability:.1f} %"
