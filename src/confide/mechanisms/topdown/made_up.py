"""Made-up people of a TopDown release, and what a release makes of them.

**Drawn from the frame**, for rehearsals and tuning: as many and of such kinds as it leaves room for, block by block.

**The people of a release, moved**, whose truth is known, for the errors that the release makes. The records of a
release are smoother than those that it was made from. Noise is taken off by making counts fit together, and that takes
from large blocks and gives to small ones; and where a rare group survives is where noise was kind to it. People who are
released once more lose less than the true ones did. So before they are,

* **homes are exchanged** at random within units two levels above the blocks, which scatters rare groups again;
* **blocks are resized**: with s the slope of the sizes of blocks after a release on those before, both as deviations
  from the mean of their parent, deviations are multiplied by 1/s, so that a release of the made-up people has blocks
  about as uneven as the release has.

Both keep what the frame says of every block, and all counts of larger units. Seeded generators are right here: nobody
is protected by them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Booleans, Floats, Integers
from confide.documents.settings_file import FileKind
from confide.engines.protocol import Engine
from confide.file_system import write_text
from confide.inputs.made_up import MadeUpPeople, MeasuredCells, RecordForm
from confide.mechanisms.topdown.descent import descend, estimates_folder
from confide.mechanisms.topdown.mechanism import DrawnEvidence, write_counts
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.releases import Job, LoadedSpec, MadeUpRecords, NoiseSource, Plan, Silent, Workspace


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
        list(_measured(problem)),
    )


def _measured(problem: TopDownProblem) -> Iterator[MeasuredCells]:
    """Every query of every level, in the units that are measured there."""
    for level_strategy, level in problem.levels():
        unit = problem.spine.unit_of_block(level.name)
        seen = np.where(level.measured[unit], unit, -1)
        for query_share in level_strategy.queries:
            yield MeasuredCells(seen, query_share.query.variables)


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


# The people of a release, moved.


LEAST_SLOPE = 0.5
"""Blocks are never made more than twice as uneven."""


def counted(key: Integers, cells: int) -> pa.Table:
    """Histograms of blocks, from ``block * cells + cell`` of each person: ``unit``, ``cell``, ``n``."""
    listed, count = np.unique(key, return_counts=True)
    return pa.table({"unit": listed // cells, "cell": listed % cells, "n": count})


def _people(histogram: pa.Table) -> tuple[Integers, Integers]:
    """Block and cell of each person."""
    unit, cell, count = (histogram.column(name).to_numpy() for name in ("unit", "cell", "n"))
    return np.repeat(unit, count), np.repeat(cell, count)


def exchanged_homes(problem: TopDownProblem, histogram: pa.Table, seed: int) -> pa.Table:
    """People exchange their homes at random within the units two levels above the blocks.

    Two people exchange homes only if the frame limits them alike, so that every block keeps its number of people and
    everything that the frame says of it, and every larger unit keeps all its counts.

    Args:
        problem: Strategy, frame and spine.
        histogram: ``unit``, ``cell`` and ``n`` of the people.
        seed: The same seed gives the same exchange.

    Returns:
        The histogram afterwards.
    """
    block, kind = _people(histogram)
    alike = _above(problem, 3)[block]
    for name in problem.strategy.constraints.limited:
        groups = problem.groups(name)
        alike = alike * (int(groups.max()) + 2) + groups[kind] + 1
    generator = np.random.default_rng(seed)
    by_class = np.argsort(alike, kind="stable")
    mixed = np.lexsort((generator.random(len(alike)), alike))
    moved = np.empty_like(kind)
    moved[by_class] = kind[mixed]
    return counted(block * problem.cells + moved, problem.cells)


def shrinkage(problem: TopDownProblem, before: pa.Table, after: pa.Table) -> float:
    """The slope of sizes of blocks after a release on those before, as deviations from the mean of their parent.

    Args:
        problem: Strategy, frame and spine.
        before: The people that were released.
        after: Their release.

    Returns:
        A number from 0.5 to 1; 1 where sizes do not differ.
    """
    old, new = (_deviations(problem, _sizes(problem, _people(people)[0])) for people in (before, after))
    squares = float(old @ old)
    return float(np.clip(old @ new / squares, LEAST_SLOPE, 1.0)) if squares else 1.0


def resized_blocks(problem: TopDownProblem, histogram: pa.Table, times: float, seed: int) -> pa.Table:
    """People move between blocks of the same parent, so that blocks differ from the mean of their parent by ``times``
    as much, as far as the frame allows.

    Args:
        problem: Strategy, frame and spine.
        histogram: ``unit``, ``cell`` and ``n`` of the people.
        times: What deviations are multiplied by, 1 or more.
        seed: The same seed gives the same moves.

    Returns:
        The histogram afterwards.
    """
    block, kind = _people(histogram)
    generator = np.random.default_rng(seed)
    parent = _above(problem, 2)
    blocks = len(parent)
    limits = problem.limits(problem.spine.levels[-1])
    present = {name: np.zeros(least.shape, np.int64) for name, (least, _) in limits.items()}
    joint = np.zeros(len(block), np.int64)
    for name, numbers in present.items():
        groups = problem.groups(name)[kind]
        np.add.at(numbers, (block, groups), 1)
        joint = joint * (int(groups.max()) + 1) + groups
    moved = block.copy()
    # People of one class after the other: all that the frame limits together, so that each move can be looked at.
    for code in np.unique(joint).tolist():
        members = np.flatnonzero(joint == code)
        group = {name: int(problem.groups(name)[kind[members[0]]]) for name in limits}
        number = np.bincount(block[members], minlength=blocks)
        gain, lose = np.full(blocks, len(block)), number.copy()
        for name, (least, largest) in limits.items():
            column = present[name][:, group[name]]
            gain = np.minimum(gain, np.maximum(largest[:, group[name]] - column, 0))
            lose = np.minimum(lose, np.maximum(column - least[:, group[name]], 0))
        possible = (gain > 0) | (number > 0)
        wanted = _stretched(number, parent, possible, times)
        rounded = np.floor(wanted + generator.random(blocks)).astype(np.int64)
        leaving = np.clip(number - rounded, 0, lose)
        arriving = np.where(possible, np.clip(rounded - number, 0, gain), 0)
        movers, homes = _matched(block[members], leaving, arriving, parent, generator)
        change = np.bincount(homes, minlength=blocks) - np.bincount(block[members[movers]], minlength=blocks)
        for name in limits:
            present[name][:, group[name]] += change
        moved[members[movers]] = homes
    return counted(moved * problem.cells + kind, problem.cells)


def _stretched(number: Integers, parent: Integers, possible: Booleans, times: float) -> Floats:
    """Numbers whose deviations from the mean of possible blocks of the parent are larger, not below zero, with the
    same sums."""
    units = int(parent.max()) + 1
    size = np.maximum(np.bincount(parent, possible, minlength=units), 1)
    total = np.bincount(parent, number, minlength=units)
    mean = (total / size)[parent]
    wanted = np.where(possible, np.maximum(mean + times * (number - mean), 0.0), 0.0)
    return np.asarray(wanted * (total / np.maximum(np.bincount(parent, wanted, minlength=units), 1e-9))[parent])


def _matched(
    block: Integers, leaving: Integers, arriving: Integers, parent: Integers, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """Who moves (positions in ``block``), and where to: as many as both leave and arrive in a parent, at random."""
    order = np.lexsort((generator.random(len(block)), block))
    of_block = block[order]
    rank = np.arange(len(order)) - np.searchsorted(of_block, of_block)
    movers = order[rank < leaving[of_block]]
    homes = np.repeat(np.arange(len(arriving)), arriving)
    movers = movers[np.lexsort((generator.random(len(movers)), parent[block[movers]]))]
    homes = homes[np.lexsort((generator.random(len(homes)), parent[homes]))]
    units = int(parent.max()) + 1
    from_parent, to_parent = parent[block[movers]], parent[homes]
    pairs = np.minimum(np.bincount(from_parent, minlength=units), np.bincount(to_parent, minlength=units))
    chosen = [np.arange(len(side)) - np.searchsorted(side, side) < pairs[side] for side in (from_parent, to_parent)]
    return movers[chosen[0]], homes[chosen[1]]


def _above(problem: TopDownProblem, steps: int) -> Integers:
    """For each block its unit on the level that many places from the last, or on the first."""
    names = problem.spine.names
    return problem.spine.unit_of_block(names[max(len(names) - steps, 0)])


def _sizes(problem: TopDownProblem, block: Integers) -> Floats:
    return np.bincount(block, minlength=len(problem.spine.rows)).astype(np.float64)


def _deviations(problem: TopDownProblem, sizes: Floats) -> Floats:
    parent = _above(problem, 2)
    return np.asarray(sizes - (np.bincount(parent, sizes) / np.bincount(parent))[parent])


# What a release makes of people.


def release_of_people(
    problem: TopDownProblem,
    plan: Plan,
    people: pa.Table,
    noise: NoiseSource,
    engine: Engine,
    workspace: Workspace,
) -> pa.Table:
    """One run of TopDown on people who are made up or published: the counts that it would release.

    Args:
        problem: Strategy, frame and spine.
        plan: Its plan.
        people: ``unit`` (a block of the spine), ``cell`` and ``n``.
        noise: The noise, under a public key.
        engine: What maps over units.
        workspace: A folder of its own, which is gone afterwards.

    Returns:
        ``unit``, ``cell`` and ``n`` of the release.
    """
    if not (workspace.counts / "written").exists():
        write_counts(problem, workspace, people)
        write_text(workspace.counts / "written", "all levels\n")
    loaded = LoadedSpec(FileKind("spec", code="bad-spec"), workspace.root / "spec.toml", "", {}, value=problem.spec)
    descend(problem, Job(loaded, plan, engine, workspace, Silent()), DrawnEvidence(problem, plan, noise, workspace))
    estimates = estimates_folder(workspace, problem.spine.levels[-1])
    parts = [pq.read_table(file, columns=["unit", "cell", "n"]) for file in sorted(estimates.glob("*.parquet"))]
    rows = pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
    shutil.rmtree(workspace.root, ignore_errors=True)
    return rows.sort_by([("unit", "ascending"), ("cell", "ascending")])


class TopDownRehearsal(MadeUpRecords[TopDownProblem]):
    """Made-up records in the blocks of the spine, as the frame has them."""

    def record_form(self, problem: TopDownProblem) -> RecordForm:
        return record_form(problem)

    def made_up_people(self, problem: TopDownProblem, people: MadeUpPeople) -> pa.Table:
        """Made-up records that keep what the frame says of every block."""
        return keeping_constraints(problem, people).table(problem.records.theirs)

    def rehearsed(self, values: dict[str, Any]) -> None:
        """Made-up records have a row each, also where the office's come counted."""
        values["data"].pop("counted", None)
