"""Budgets and noise margins of a SafeTab-P release, either from the other: the answer of ``confide tune safetab``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from confide.answers import TypedAnswer
from confide.errors import ParameterError, Place
from confide.exact import Exact, exact
from confide.mechanisms.safetab.settings import SafeTabSettings
from confide.mechanisms.safetab.tuning.answer import ReleaseTuning, tune
from confide.mechanisms.safetab.tuning.comparison import NoiseCostComparison, compare_noise_costs
from confide.mechanisms.safetab.tuning.question import (
    BudgetRule,
    LevelQuestion,
    TuningQuestion,
    production_tuning,
    question_of,
)
from confide.privacy import Definition

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
    raise ParameterError(
        "unknown-definition",
        "this is not a definition that SafeTab-P has noise for",
        where=Place(path="--definition"),
        found=str(name)[:40],
        expected="zcdp or pure",
        remedy="correct --definition",
    )


def _levels(
    budgets: Mapping[LevelKey, Exact], targets: Mapping[LevelKey, int], base: Sequence[LevelQuestion]
) -> dict[LevelKey, LevelQuestion]:
    """The levels that were given, with the thresholds that those have which they change."""
    for region_type, iteration_level in budgets.keys() & targets.keys():
        raise ParameterError(
            "budget-and-target",
            "a level has both a budget and a target margin",
            where=Place(path="--moe"),
            found=f"{region_type}:{iteration_level}",
            expected="a budget or a target for each level, once; each determines the other",
            remedy="leave one of them out",
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
