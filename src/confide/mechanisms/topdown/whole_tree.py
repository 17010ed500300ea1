"""A plan on its spine as a tree of least squares: what all measurements of a release tell together, without any data.

The levels of the tree are those of the spine. Where parts of an official unit are known together, as the two parts of
a State that its AIAN areas split, a level is put in between: the official units, which are not measured, with known
totals. All parts are children of one parent, so the tree stays a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from confide.arrays import Booleans, Floats, Integers
from confide.estimation.sectors import SectorQuery, Sectors, check_core
from confide.estimation.tree_covariances import TreeCovariances, TreeLevel
from confide.mechanisms.topdown.constraints import invariant_level
from confide.mechanisms.topdown.spine import TopDownSpine
from confide.mechanisms.topdown.strategy import Strategy, groups_of
from confide.noise import NoiseDistribution
from confide.releases.plan import Plan
from confide.schema import DETAILED, TOTAL

VarianceOf = Callable[[NoiseDistribution], float]


@dataclass(frozen=True, eq=False)
class PlannedTree:
    """The tree of a plan."""

    sectors: Sectors
    queries: Mapping[str, SectorQuery]
    """Everything that is measured on some level, the total and the histogram."""
    covariances: TreeCovariances
    position: tuple[int, ...]
    """For each level of the spine its place among the levels of the tree."""


def sectors_of(strategy: Strategy, *, public_zeros: bool = True) -> tuple[Sectors, dict[str, SectorQuery]]:
    """Core and free axes of a strategy, and its queries; raises if the core is too large.

    ``public_zeros``: whether cells that the frame makes impossible in a block are used.
    """
    names = [attribute.name for attribute in strategy.schema.attributes]
    groupings = {name: strategy.grouping(name) for name in dict.fromkeys((TOTAL, *strategy.measured, DETAILED))}
    apart = {name for zero in strategy.constraints.zeros for name in zero.where}
    for query in strategy.constraints.limited if public_zeros else ():
        apart |= {variable.attribute.name for variable in strategy.query(query).variables}
    shape = [attribute.size for attribute in strategy.schema.attributes]
    sectors = Sectors.of(shape, groupings.values(), {names.index(name) for name in apart})
    check_core(sectors)
    return sectors, {name: sectors.query(grouping) for name, grouping in groupings.items()}


def possible_cells(
    strategy: Strategy,
    sectors: Sectors,
    blocks: int,
    columns: Mapping[str, Integers],
    *,
    public_zeros: bool = True,
) -> Booleans:
    """For each block and core cell, whether it can be other than zero."""
    zero = strategy.constraints.zero_cells(strategy.schema).reshape(sectors.shape)
    of_core = np.asarray(zero.all(axis=sectors.free)).ravel()
    result = np.repeat(~of_core[None, :], blocks, axis=0)
    for name in strategy.constraints.limited if public_zeros else ():
        query = strategy.query(name)
        _, largest = strategy.constraints.limits(name, query.cells, columns)
        groups = groups_of(strategy.schema, query).reshape(sectors.shape)
        core = np.moveaxis(groups, sectors.free, range(len(sectors.free))).reshape(-1, sectors.size)[0]
        inside = core >= 0
        result[:, inside] &= largest[:, core[inside]] > 0
    return result


def planned_tree(
    strategy: Strategy,
    spine: TopDownSpine,
    plan: Plan,
    columns: Mapping[str, Integers],
    *,
    public_zeros: bool = True,
    variance: VarianceOf = lambda law: law.variance(),
) -> PlannedTree:
    """The tree of a plan.

    Args:
        strategy: What is measured and kept.
        spine: Units and their shares.
        plan: The noise of every measurement.
        columns: Counts of the frame that constraints use, in the order of the spine's blocks.
        public_zeros: Whether cells that the frame makes impossible in a block are known to be zero.
        variance: What is taken for the variance of a law.
    """
    sectors, queries = sectors_of(strategy, public_zeros=public_zeros)
    levels = []
    for level in spine.levels:
        measured = [number for number, share in enumerate(level.shares.table) if share]
        place = np.full(len(level.shares.table), -1, np.int64)
        place[measured] = np.arange(len(measured))
        laws = {share.name: plan.laws(level.name, share.name) for share in strategy.level(level.name).queries}
        matrices = [
            sectors.information((queries[name], 1 / variance(by_class[number])) for name, by_class in laws.items())
            for number in range(len(measured))
        ]
        information = np.stack(matrices) if matrices else _nothing(sectors)
        levels.append(TreeLevel(level.parent, place[level.shares.index], information))
    possible = possible_cells(strategy, sectors, spine.levels[-1].units, columns, public_zeros=public_zeros)
    tree = with_known_totals(strategy, spine, levels, sectors)
    return PlannedTree(sectors, queries, TreeCovariances(sectors, tree.levels, possible), tree.position)


@dataclass(frozen=True, eq=False)
class KnownTotalsTree:
    """The levels of a tree with the numbers of records that are known, and with a level for those known together."""

    levels: list[TreeLevel]
    position: tuple[int, ...]
    """For each level of the spine its place among the levels of the tree."""
    between: int | None
    """The place of the level that was put in."""
    together: Integers | None
    """For each unit of the level below it the number of its group."""

    def totals(self, known: Sequence[Integers | None]) -> list[Floats | None]:
        """The known numbers, level by level, from those of the levels of the spine: for each unit that of its group."""
        result = [None if each is None else each.astype(np.float64) for each in known]
        if self.between is not None and self.together is not None:
            of_units = result[self.between]
            assert of_units is not None
            of_groups = np.zeros(self.levels[self.between].units)
            of_groups[self.together] = of_units
            result.insert(self.between, of_groups)
        return result


def with_known_totals(
    strategy: Strategy,
    spine: TopDownSpine,
    levels: Sequence[TreeLevel],
    sectors: Sectors,
    at_hand: Sequence[bool] | None = None,
) -> KnownTotalsTree:
    """The levels of a tree with what the strategy makes known of numbers of records.

    Args:
        strategy: What is kept.
        spine: Units, level by level.
        levels: The levels of the tree, the root first; there may be fewer than the spine has.
        sectors: Core and free axes.
        at_hand: For each level whether its numbers are at hand; without it, all are.
    """
    at_hand = [True] * len(levels) if at_hand is None else at_hand
    last, together = known_levels(strategy, spine)
    at = last - 1
    with_totals = [
        TreeLevel(
            level.parent,
            level.measured,
            level.information,
            np.full(level.units, at_hand[place] and place < last and not (place == at and together is not None)),
        )
        for place, level in enumerate(levels)
    ]
    if together is None or at >= len(levels) or not at_hand[at]:
        return KnownTotalsTree(with_totals, tuple(range(len(levels))), None, None)
    between = with_level_between(with_totals, at, together, sectors)
    position_of = tuple(position + (position >= at) for position in range(len(levels)))
    return KnownTotalsTree(between, position_of, at, together)


def with_level_between(
    levels: Sequence[TreeLevel], at: int, together: Integers, sectors: Sectors, known: Booleans | None = None
) -> list[TreeLevel]:
    """The levels with one more above that at a place: groups of its units, not measured, whose totals are known.

    Args:
        levels: The levels of a tree, the root first.
        at: The level whose units are grouped; not the root.
        together: For each unit the number of its group, from 0, each in one parent.
        sectors: Core and free axes.
        known: For each group whether its total is known; without it, all are.
    """
    level, groups = levels[at], np.unique(together)
    assert np.array_equal(groups, np.arange(len(groups))), "groups are numbered from zero, without gaps"
    parent = np.empty(len(groups), np.int64)
    parent[together] = level.parent
    total_known = np.ones(len(groups), bool) if known is None else known
    between = TreeLevel(parent, np.full(len(groups), -1, np.int64), _nothing(sectors), total_known)
    below = TreeLevel(together, level.measured, level.information, level.total_known)
    return [*levels[:at], between, below, *levels[at + 1 :]]


def _nothing(sectors: Sectors) -> Floats:
    return np.zeros((0, len(sectors.sectors), sectors.size, sectors.size))


def known_levels(strategy: Strategy, spine: TopDownSpine) -> tuple[int, Integers | None]:
    """On how many levels, from the root down, the numbers of records are published as they are; and for each unit of
    the last of them the number of its group, where parts of official units are known together only."""
    if any(i.query == TOTAL and i.frame for i in strategy.constraints.invariants):
        return len(spine.levels), None
    lowest = invariant_level(strategy)
    last = 0 if lowest is None else spine.names.index(lowest) + 1
    official = spine.levels[last - 1].official if last > 1 else None
    if official is None or len(np.unique(official)) == len(official):
        return last, None
    return last, np.unique(official, return_inverse=True)[1].reshape(-1).astype(np.int64)
