"""What a strategy costs and how noisy it is, from the events of its measurements: nothing here is a published figure.

A changed record leaves one cell of a query and enters another: squared L2 sensitivity 2. Noise with σ² = 1/(ρ·s·q)
therefore costs ρ·s·q for a query with share q on a level with share s. The accountant adds up; the parts of the
promise (one attribute, a move within a unit) are those of ``runs.semantics``. Proof: ``docs/proofs/accounting.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.answers import TypedAnswer
from confide.exact import Exact, positive, positive_within
from confide.mechanisms.topdown.strategies.file import load_strategy
from confide.mechanisms.topdown.strategies.strategy import LevelStrategy, QueryShare, Strategy
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP, calibrate, epsilons
from confide.releases.plan import Plan, PlannedMeasurement, loss_by_attribute, loss_by_move

DELTA = Fraction(1, 10**10)
"""The δ at which the certificates of the 2020 Census state ε."""
SMALLEST, LARGEST = Fraction(1, 10**50), Fraction(10**6)


@dataclass(frozen=True, slots=True)
class Stated:
    """A loss: exact, and as ε at a δ in three ways, each rounded up."""

    rho: Fraction
    epsilon: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {"rho": str(self.rho), "rho_decimal": float(self.rho), "epsilon": dict(self.epsilon)}


@dataclass(frozen=True)
class Account(TypedAnswer):
    """What a strategy promises, and the noise that it takes."""

    strategy: Strategy
    delta: Fraction
    whole: Stated
    by_attribute: Mapping[str, Stated]
    """For each attribute: if one record differs in it alone. A query of a recode looks at the attribute."""
    by_move_within: Mapping[str, Stated]
    """For each level: if one record lies in another block of the same unit of the level."""
    measures: tuple[PlannedMeasurement, ...]

    def as_dict(self) -> dict[str, Any]:
        strategy = self.strategy
        return {
            "strategy": strategy.id,
            "title": strategy.title,
            "provenance": strategy.provenance,
            "root": strategy.root,
            "levels": list(strategy.level_names),
            "definition": strategy.definition.value,
            "neighbours": strategy.neighbours.value,
            "budget": str(strategy.budget),
            "delta": str(self.delta),
            **self.whole.as_dict(),
            "by_attribute": {name: stated.as_dict() for name, stated in self.by_attribute.items()},
            "by_move_within": {name: stated.as_dict() for name, stated in self.by_move_within.items()},
            "variance": self._table(lambda measure: measure.law.variance()),
            "sigma2": self._table(lambda measure: str(measure.law.parameter)),
            "cells": self._table(lambda measure: measure.cells),
        }

    def _table(self, value: Callable[[PlannedMeasurement], Any]) -> dict[str, dict[str, Any]]:
        """A value of each measurement, by level and query."""
        table: dict[str, dict[str, Any]] = {name: {} for name in self.strategy.level_names}
        for measure in self.measures:
            table[measure.level][measure.query] = value(measure)
        return table


def law_of(
    strategy: Strategy, level: LevelStrategy, asked: QueryShare, share: Fraction | None = None
) -> DiscreteGaussian:
    """The noise of a query in a unit of a level; ``share`` where the unit took over that of its only child."""
    loss = ZCDP(strategy.budget * (level.share if share is None else share) * asked.share)
    law = calibrate(loss, strategy.neighbours)
    assert isinstance(law, DiscreteGaussian)
    return law


def measures_of(strategy: Strategy, units: Mapping[str, int] | None = None) -> tuple[PlannedMeasurement, ...]:
    """Every measurement, level by level, in units that have the share of their level.

    ``units`` is the number of units of each level; without it there is one on each, which costs the same.
    """
    return tuple(
        PlannedMeasurement(
            level.name,
            asked.name,
            1 if units is None else units[level.name],
            asked.query.cells,
            law_of(strategy, level, asked),
            ZCDP(strategy.budget * level.share * asked.share),
            tuple(variable.attribute.name for variable in asked.query.variables),
        )
        for level in strategy.levels
        for asked in level.queries
    )


def plan_of(strategy: Strategy, units: Mapping[str, int] | None = None, **question: Any) -> Plan:
    """The plan of a release whose units all have the share of their level; ``question`` is what else decides it."""
    asked = {"strategy": strategy.as_dict()} | question
    measures = measures_of(strategy, units)
    return Plan("topdown", strategy.neighbours, strategy.definition, measures, strategy.level_names, asked)


def account_of(strategy: Strategy, delta: Exact = DELTA) -> Account:
    """The account of a strategy at a δ, composed from its measurements."""
    chance = positive(delta, "delta")
    plan = plan_of(strategy)

    def stated(loss: object) -> Stated:
        assert isinstance(loss, ZCDP)
        return Stated(loss.rho, epsilons(loss.rho, chance))

    parts = loss_by_attribute(plan)
    names = (attribute.name for attribute in strategy.schema.attributes)
    return Account(
        strategy,
        chance,
        stated(plan.loss),
        {name: stated(parts[name]) for name in names if name in parts},
        {name: stated(loss) for name, loss in loss_by_move(plan).items()},
        plan.measures,
    )


def account_strategy(
    name: str,
    *,
    root: str | None = None,
    budget: Exact | None = None,
    renormalise: bool | None = None,
    delta: Exact = DELTA,
) -> Account:
    """The cost of a TopDown strategy, whole and in parts, and the variance of each of its measurements.

    Args:
        name: A strategy that ships, or the path of a strategy file.
        root: The root: of the shipped ones ``us``, ``pr``, or ``state`` for one state on its own.
        budget: A rho in place of the strategy's own; the shares stay.
        renormalise: For a root cut from another: whether to spend the whole budget, or to keep the noise and spend
            less.
        delta: The delta at which epsilon is stated.

    Returns:
        The loss exactly and as epsilon, by attribute and by move, and the variances.

    >>> account_strategy("pl94-persons").whole.rho
    Fraction(64, 25)
    """
    amount = None if budget is None else positive_within(budget, "budget", SMALLEST, LARGEST)
    chosen = load_strategy(name, root=root, budget=amount, renormalise=renormalise)
    return account_of(chosen, positive_within(delta, "delta", SMALLEST, Fraction(1, 2)))
