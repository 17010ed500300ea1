"""Made-up records of a TopDown release: as many and of such kinds as the frame leaves room for, block by block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from confide.arrays import Booleans, Floats, Integers
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.topdown.problem import TopDownProblem


def record_form(problem: TopDownProblem) -> RecordForm:
    """Records in the blocks of the spine, in proportion to what the frame counts there; where the frame tells how many
    records there are, as many."""
    spine, schema = problem.spine, problem.strategy.schema
    official = problem.frame.spine
    areas = {
        level.name: (level.codes, level.unit_of_block[spine.rows]) for level in (*official.levels, *official.areas)
    }
    sizes: Floats | None = None
    if problem.columns:
        sizes = np.sum([column.astype(np.float64) for column in problem.columns.values()], axis=0)
    counts = _counts_of_frame(problem)
    return RecordForm(
        schema.attributes,
        schema.variables,
        problem.spec.geography.block,
        [str(code) for code in spine.block_codes],
        areas,
        sizes,
        None if counts is None else int(counts[1].sum()),
    )


def keeping_constraints(problem: TopDownProblem, people: MadeUpPeople) -> MadeUpPeople:
    """The same people, mended: nobody is what nobody can be, or where nobody of the kind can be; and everybody is there
    of whom the frame tells."""
    attributes = problem.strategy.schema.attributes
    shape = tuple(attribute.size for attribute in attributes)
    cell: Integers = np.ravel_multi_index([people.levels[attribute.name] for attribute in attributes], shape)
    assert people.block is not None
    block = people.block
    possible = ~problem.strategy.constraints.zero_cells(problem.strategy.schema)
    drawn = _Kinds(cell[possible[cell]], np.flatnonzero(possible), people.random)
    counts = _counts_of_frame(problem)
    if counts is None:
        cell = np.where(possible[cell], cell, drawn.any_of(len(cell)))
        for name in problem.strategy.constraints.limited:
            block, cell = _within_limits(problem, name, drawn, block, cell)
    else:
        groups, by_block = counts
        place = np.repeat(np.arange(by_block.size), by_block.ravel())
        block, cell = place // by_block.shape[1], drawn.of_groups(groups, place % by_block.shape[1])
    levels = dict(zip((attribute.name for attribute in attributes), np.unravel_index(cell, shape), strict=True))
    return replace(people, number=len(cell), block=block, levels=levels)


class _Kinds:
    """Kinds of people to draw from: those that were drawn before, and any that there can be where these have none."""

    def __init__(self, drawn: Integers, possible: Integers, random: np.random.Generator):
        self._drawn, self._possible, self.random = drawn, possible, random

    def any_of(self, number: int) -> Integers:
        """Cells of anybody."""
        return np.asarray(self.random.choice(self._drawn if len(self._drawn) else self._possible, number))

    def of_groups(self, groups: Integers, wanted: Integers) -> Integers:
        """For each wanted group of a query, the cell of somebody in it."""
        cell = np.zeros(len(wanted), np.int64)
        for group in np.unique(wanted).tolist():
            among = self._drawn[groups[self._drawn] == group]
            if not len(among):
                among = self._possible[groups[self._possible] == group]
            chosen = np.flatnonzero(wanted == group)
            cell[chosen] = self.random.choice(among, len(chosen))
        return cell


def _counts_of_frame(problem: TopDownProblem) -> tuple[Integers, Integers] | None:
    """Where the frame tells how many records there are: the groups of histogram cells, and the counts, blocks x groups;
    of several such invariants the one with the most groups."""
    known = [i for i in problem.strategy.constraints.invariants if i.query is not None and i.frame]
    if not known:
        return None
    finest = max(known, key=lambda invariant: len(invariant.frame))
    assert finest.query is not None
    return problem.groups(finest.query), np.stack([problem.columns[name] for name in finest.frame], axis=1)


def _within_limits(
    problem: TopDownProblem, name: str, kinds: _Kinds, block: Integers, cell: Integers
) -> tuple[Integers, Integers]:
    """People moved to other kinds, left out or added until every block keeps the limits of one query."""
    groups = problem.groups(name)
    least, largest = problem.limits(problem.spine.levels[-1])[name]
    room: Booleans = (largest > 0) & ~problem.impossible(name)
    block, cell = _into_rooms(kinds, groups, room, block, cell)
    # Whoever is in no group of the query is limited by nothing.
    group, width = groups[cell], least.shape[1]
    place = np.where(group < 0, -1, block * width + group)
    order = np.argsort(place, kind="stable")
    rank = np.arange(len(order)) - np.searchsorted(place[order], place[order])
    kept = order[(place[order] < 0) | (rank < largest.ravel()[place[order]])]
    block, cell, place = block[kept], cell[kept], place[kept]
    counted = np.bincount(place[place >= 0], minlength=least.size).reshape(least.shape)
    # More than the least: a block with exactly as many people as facilities would look like a count of them.
    more = np.where(least > 0, 1 + kinds.random.integers(0, 2 * np.maximum(least, 1) + 1), 0)
    lacking = np.maximum(np.minimum(least + more, largest) - counted, 0)
    added = np.repeat(np.arange(lacking.size), lacking.ravel())
    return np.append(block, added // width), np.append(cell, kinds.of_groups(groups, added % width))


def _into_rooms(
    kinds: _Kinds, groups: Integers, room: Booleans, block: Integers, cell: Integers
) -> tuple[Integers, Integers]:
    """Everybody whose group their block has no room for, in a group that it has room for; nobody where it has none."""
    group = groups[cell]
    homeless = np.flatnonzero((group >= 0) & ~room[block, group])
    if not len(homeless):
        return block, cell
    housed = room[block[homeless]].any(axis=1)
    moved, gone = homeless[housed], homeless[~housed]
    scores = kinds.random.random((len(moved), room.shape[1])) * room[block[moved]]
    cell = cell.copy()
    cell[moved] = kinds.of_groups(groups, scores.argmax(axis=1))
    return np.delete(block, gone), np.delete(cell, gone)
