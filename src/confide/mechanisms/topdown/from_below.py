"""Tree evidence: what a unit and all units below it tell of its cells, for the descent to start from.

Under ``evidence = "tree"`` a child's objective is its law given everything below it, (x − b)ᵀ V⁻¹ (x − b), where b and
V are the best linear unbiased estimate and its covariance from the measurements of the child and of all units below it
(:mod:`~confide.estimation.tree_gls`). A pass before the last takes the marginal law of its queries. What is beside and
above a child enters through the counts of its parent alone, so nothing is used twice.

Measurements, streams, coordinates and price are those of ``evidence = "own"``; the levels whose measurements are
evidence are drawn in full, where the descent would look at a part of them. The blocks are many, and at the shares of
2020 they tell next to nothing of the units above: whether they take part follows from the shares (:func:`levels_used`).
The estimates of the blocks themselves start from their own measurements: nothing is below them. They are looked at
twice, the second time with what the sizes of blocks tell of small cells (``node.expected_cells``).

Proof: ``docs/proofs/topdown.md``, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from confide.arrays import Booleans, Floats, Integers
from confide.engines.protocol import write_parquet
from confide.errors import ParameterError, Place
from confide.estimation.node_problem import marginal_information
from confide.estimation.sectors import MOST_CORE_CELLS, CellVectors, SectorQuery, Sectors
from confide.estimation.tree_covariances import KNOWN, TreeCovariances, TreeLevel, Upward, with_level_between
from confide.estimation.tree_gls import TreeEstimates
from confide.file_system import private_folder, whole_file
from confide.mechanisms.topdown.constraints import known_levels, told_totals
from confide.mechanisms.topdown.node import UnitLaws
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import TREE, LevelStrategy, Pass, Strategy, groups_of, sectors_of
from confide.noise import NoiseDistribution
from confide.releases import Job, Plan
from confide.schema import TOTAL

# A plan on its spine as a tree of least squares: what all measurements of a release tell together, without any data.
#
# The levels of the tree are those of the spine. Where parts of an official unit are known together, as the two parts of
# a State that its AIAN areas split, a level is put in between: the official units, which are not measured, with known
# totals. All parts are children of one parent, so the tree stays a tree.

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
        information = np.stack(matrices) if matrices else sectors.nothing
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


WORTHWHILE = 0.1
"""The blocks take part if they cut the variance of some figure of the units above them by more than this part."""
MOST_BYTES = 1 << 31
"""Matrices of units that are unlike others take at most so much memory; there are a few of each."""
FOLDER = "from-below"
UNITS_AT_ONCE = 4_096
LAWS = pa.schema([("unit", pa.int64()), ("cell", pa.int64()), ("value", pa.list_(pa.int64()))])
"""Unit, kind of its information, and the bits of its mean, core x copies."""
MATRICES = pa.schema([("kind", pa.int64()), ("cell", pa.int64()), ("value", pa.list_(pa.int64()))])
"""Kind, number of the pass, and the bits of the information, sectors x core x core."""
TOTALS = pa.schema([("unit", pa.int64()), ("cell", pa.int64()), ("n", pa.int64())])
"""Unit, and the bits of the precision and of the mean of its number of records."""

FullMeasurements = Iterator[tuple[int, Integers, Integers, Floats]]
"""The number of a query, units, their measured values (units x cells), and the precision of each unit."""


class MeasuredInFull(Protocol):
    """What evidence is gathered from: all measurements of a level, and what is known of numbers of records."""

    def in_full(self, job: Job, level_strategy: LevelStrategy, level: TopDownLevel) -> FullMeasurements:
        """Every query in every measured unit of a level, once."""

    def totals(self, level: TopDownLevel) -> pa.Table | None:
        """As in :class:`~confide.mechanisms.topdown.descent.Evidence`."""


# Which levels take part.


def levels_used(strategy: Strategy, spine: TopDownSpine) -> tuple[str, ...]:
    """The levels whose measurements are evidence for the units above them; none under ``evidence = "own"``."""
    if strategy.evidence != TREE:
        return ()
    try:
        sectors, _ = sectors_of(strategy)
    except ParameterError as error:
        raise ParameterError(
            "too-many-cells/histogram-alike-tree",
            where=Place(path="evidence"),
            seen=error.findings[0].found,
            most_core_cells=MOST_CORE_CELLS,
        ) from None
    names = tuple(level.name for level in spine.levels)
    used = names if worth_of_blocks(strategy, spine) > WORTHWHILE else names[:-1]
    # Every unit above the last level that takes part may be unlike all others, and has matrices of its own then.
    matrices = sum(level.units for level in spine.levels[: len(used) - 1]) * len(sectors.sectors) * sectors.size**2
    if 8 * matrices > MOST_BYTES:
        raise ParameterError(
            "too-many-cells/gib",
            where=Place(path="evidence"),
            matrices=8 * matrices / 2**30,
            most_bytes=MOST_BYTES / 2**30,
        )
    return used


def worth_of_blocks(strategy: Strategy, spine: TopDownSpine) -> float:
    """By which part the blocks cut the variance of a figure of the units above them, where they do the most.

    A unit with the information M has n blocks with M' each, n as it is on average where there are several. So the
    variance of a count g is gᵀM⁻¹g without and gᵀ(M + M'/n)⁻¹g with the blocks. It is a matter of shares alone: a
    larger budget changes both alike. Figures are the cells of all queries that are measured above the blocks.
    """
    if len(spine.levels) < 2:
        return 0.0
    sectors, queries = sectors_of(strategy)
    *_, above, blocks = strategy.levels
    children = np.diff(spine.levels[-2].first_child)
    n = float(children[children > 1].mean()) if (children > 1).any() else 1.0
    without = _information(sectors, queries, above)
    both = without + _information(sectors, queries, blocks) / n
    zero = strategy.constraints.zero_cells(strategy.schema).reshape(sectors.shape)
    cells = np.flatnonzero(~np.asarray(zero.all(axis=sectors.free)).ravel())
    inner = np.ix_(np.arange(len(without)), cells, cells)
    vague = 1e-9 * max(float(np.abs(both).max()), 1e-300) * np.eye(len(cells))
    covariances = [np.linalg.inv(each[inner] + vague) for each in (without, both)]
    worth = 0.0
    for name in dict.fromkeys([TOTAL, *(query.name for level in strategy.levels[:-1] for query in level.queries)]):
        members, weights = queries[name].members[:, cells], sectors.cell_weights(queries[name])
        before, after = (np.einsum("gc,scd,gd,s->g", members, each, members, weights) for each in covariances)
        vary = before > 0
        worth = max(worth, float((1 - after[vary] / before[vary]).max(initial=0.0)))
    return worth


def _information(sectors: Sectors, queries: Mapping[str, SectorQuery], level: LevelStrategy) -> Floats:
    return sectors.information((queries[query.name], float(level.share * query.share)) for query in level.queries)


# From measurements to laws.


@dataclass(frozen=True, eq=False)
class LevelLaws:
    """The laws of the units of one level, in files."""

    folder: Path
    name: str
    sectors: Sectors
    passes: tuple[int, ...]
    """The passes whose objective is a law of cells; empty where measurements of the units themselves are as good."""

    @property
    def laws(self) -> Path:
        """See ``LAWS``."""
        return self.folder / f"{self.name}.laws.parquet"

    @property
    def matrices(self) -> Path:
        """See ``MATRICES``."""
        return self.folder / f"{self.name}.matrices.parquet"

    @property
    def totals(self) -> Path:
        """See ``TOTALS``."""
        return self.folder / f"{self.name}.totals.parquet"

    def of_root(self) -> UnitLaws:
        """The laws of the only unit of the first level."""
        result = UnitLaws(self.sectors, self.passes)
        totals = pq.read_table(self.totals)
        result.read_totals(*(totals.column(name).to_numpy() for name in ("unit", "cell", "n")))
        if self.passes:
            laws, matrices = (pq.read_table(file).combine_chunks() for file in (self.laws, self.matrices))
            unit, kind = (laws.column(name).to_numpy() for name in ("unit", "cell"))
            result.read_laws(unit, kind, laws.column("value").chunk(0))
            kind, number = (matrices.column(name).to_numpy() for name in ("kind", "cell"))
            result.read_matrices(kind, number, matrices.column("value").chunk(0))
        return result


def gather(problem: Any, job: Job, evidence: MeasuredInFull) -> dict[str, LevelLaws]:
    """The laws of all units above the blocks, level by level; none under ``evidence = "own"``.

    Args:
        problem: Strategy, frame and spine of the release (a ``TopDownProblem``).
        job: The run. Laws go to a folder of its own, and what is there already stays.
        evidence: All measurements of the levels that take part.
    """
    strategy, spine = problem.strategy, problem.spine
    used = levels_used(strategy, spine)
    if not used:
        return {}
    sectors, queries = sectors_of(strategy)
    folder = private_folder(job.workspace.measured / FOLDER)
    from_below = {level.name: position + 1 < len(used) for position, level in enumerate(spine.levels[:-1])}
    level_strategies = {name: with_limited_first(strategy, strategy.level(name)) for name in from_below}
    passes = {name: law_passes(level_strategies[name], from_below[name]) for name in from_below}
    result = {name: LevelLaws(folder, name, sectors, passes[name]) for name in from_below}
    if all(laws.totals.exists() for laws in result.values()):
        return result
    with job.progress.stage("Gathering evidence from below", len(used) + 1) as advance, threadpool_limits(1):
        levels, vectors = [], []
        possible = possible_cells(strategy, sectors, spine.levels[-1].units, problem.columns)
        if len(used) < len(spine.levels):
            possible = np.logical_or.reduceat(possible, spine.level(used[-1]).first_block[:-1], axis=0)
        for name in used:
            level, last = spine.level(name), name == used[-1]
            own = CellVectors(sectors, possible) if last else CellVectors.dense(sectors, level.units)
            rows = evidence.in_full(job, strategy.level(name), level)
            levels.append(_tree_level(sectors, queries, strategy.level(name), level, rows, own))
            vectors.append(own)
            advance(1)
        known = _known_totals(problem, evidence, used)
        tree = with_known_totals(strategy, spine, levels, sectors, [each is not None for each in known])
        if tree.between is not None:
            vectors.insert(tree.between, CellVectors.dense(sectors, tree.levels[tree.between].units))
        covariances = TreeCovariances(sectors, tree.levels, possible)
        estimates = TreeEstimates(covariances, vectors, tree.totals(known), from_below=True)
        for name, position in zip(used, tree.position, strict=True):
            if name in result:
                _write(result[name], level_strategies[name], covariances, estimates, position, queries)
        advance(1)
    return result


LEAST_SLACK = Fraction(1, 100)


def with_limited_first(strategy: Strategy, level: LevelStrategy) -> LevelStrategy:
    """The level with the passes that are made: under tree evidence, the root has one more before its last.

    It settles the groups of the query that the frame limits, such as the types of group quarters, from what is known of
    them alone. All cells at once would settle them from thousands of cells that are mostly zero: none of these can be
    estimated below zero, so that small groups come out too large, the more so the more precisely cells are known.
    """
    *before, last = level.estimation.least_squares
    limited = [name for name in strategy.constraints.limited if any(query.name == name for query in level.queries)]
    settled = {name for step in before for name in step.constrain}
    if strategy.evidence != TREE or level is not strategy.levels[0] or not limited or settled & {*limited}:
        return level
    steps = (*before, *(Pass((name,), (name,)) for name in limited), last)
    estimation = replace(level.estimation, least_squares=steps, slack=max(level.estimation.slack, LEAST_SLACK))
    return replace(level, estimation=estimation)


def law_passes(level: LevelStrategy, from_below: bool) -> tuple[int, ...]:
    """The passes of a level whose objective is a law of cells.

    Where nothing is known from below, the law of all cells is what the unit's own measurements say, and passes that
    take the total alone before need no more than its law.
    """
    passes = level.estimation.least_squares
    totals = [step.settles_total for step in passes[:-1]]
    if not from_below and all(totals):
        return ()
    return (*(number for number, total in enumerate(totals) if not total), len(passes) - 1)


def _tree_level(
    sectors: Sectors,
    queries: Mapping[str, SectorQuery],
    level_strategy: LevelStrategy,
    level: TopDownLevel,
    rows: FullMeasurements,
    into: CellVectors,
) -> TreeLevel:
    """Adds up the evidence h = SᵀWy of a level, and finds how its units are measured."""
    names = [query.name for query in level_strategy.queries]
    precision = np.zeros((level.units, len(names)))
    for number, units, values, weights in rows:
        into.add(units, queries[names[number]], values, weights)
        precision[units, number] = weights
    measured = np.full(level.units, -1, np.int64)
    has = precision.any(axis=1)
    kinds, kind = np.unique(precision[has], axis=0, return_inverse=True)
    measured[has] = kind.reshape(-1)
    matrices = [
        sectors.information((queries[name], weight) for name, weight in zip(names, row, strict=True))
        for row in kinds.tolist()
    ]
    empty = np.zeros((0, len(sectors.sectors), sectors.size, sectors.size))
    return TreeLevel(level.parent, measured, np.stack(matrices) if matrices else empty)


def _known_totals(problem: Any, evidence: MeasuredInFull, used: Sequence[str]) -> list[Integers | None]:
    """For each level the known numbers of records: of its units, or of the official units that they are parts of."""
    by_block = told_totals(problem.strategy, problem.columns)
    result: list[Integers | None] = []
    for name in used:
        level = problem.spine.level(name)
        if by_block is not None:
            result.append(problem.spine.roll_up(name, by_block))
            continue
        table = evidence.totals(level)
        result.append(None if table is None else table.column("n").to_numpy().astype(np.int64))
    return result


def _write(
    laws: LevelLaws,
    level_strategy: LevelStrategy,
    covariances: TreeCovariances,
    estimates: TreeEstimates,
    position: int,
    queries: Mapping[str, SectorQuery],
) -> None:
    """The laws of a level. The file of totals comes last: where it is, the others are."""
    own, vectors = covariances.upward[position], estimates.vectors[position]
    sectors = laws.sectors
    if laws.passes:
        matrices = _pass_matrices(laws, level_strategy, covariances, position, queries)
        kinds, passes = np.divmod(np.arange(matrices.shape[0] * matrices.shape[1]), matrices.shape[1])
        flat = _bits(matrices.reshape(len(kinds), -1))
        numbers = np.array(laws.passes, np.int64)[passes]
        write_parquet(pa.table([pa.array(kinds), pa.array(numbers), flat], schema=MATRICES), laws.matrices)
        with whole_file(laws.laws) as temporary, pq.ParquetWriter(temporary, LAWS, compression="none") as writer:
            for units, mean in _means(vectors, sectors):
                batch = [pa.array(units), pa.array(own.kind[units]), _bits(mean)]
                writer.write_batch(pa.record_batch(batch, schema=LAWS))
    mean = np.concatenate([each.sum(axis=1) for _, each in _means(vectors, sectors)])
    weights = _total_precision(own, sectors)[own.kind]
    bits = [np.ascontiguousarray(each, np.float64).view(np.int64) for each in (weights, mean)]
    units = np.arange(len(mean))
    write_parquet(pa.table([pa.array(each) for each in (units, *bits)], schema=TOTALS), laws.totals)


def _pass_matrices(
    laws: LevelLaws,
    level_strategy: LevelStrategy,
    covariances: TreeCovariances,
    position: int,
    queries: Mapping[str, SectorQuery],
) -> Floats:
    """The information of each kind in each pass with a law: kinds x passes x sectors x core x core."""
    own, steps = covariances.upward[position], level_strategy.estimation.least_squares
    of_all_cells = covariances.information_from_below(position)
    result = []
    for number in laws.passes:
        if number == len(steps) - 1:
            result.append(of_all_cells)
            continue
        covariance = own.covariance.copy()
        covariance[:, 0] = own.before_total
        kept = [(queries[name].members, queries[name].kept) for name in steps[number].queries]
        marginal = marginal_information(laws.sectors, covariance, kept)
        marginal[~own.determined] = 0
        result.append(marginal)
    return np.stack(result, axis=1)


def _total_precision(own: Upward, sectors: Sectors) -> Floats:
    """One over the variance of the number of records of each kind, before it is known; zero where nothing tells it."""
    variance = sectors.copies * own.before_total.sum(axis=(1, 2))
    # A total that is known from below has no variance: it is kept as it is, and its weight does not matter.
    least = KNOWN * sectors.copies * sectors.size * np.einsum("kii->k", own.before_total)
    floor = np.maximum(least, np.finfo(np.float64).tiny)
    return np.where(own.determined & (floor > 0), 1 / np.maximum(variance, floor), 0.0)


def _means(vectors: CellVectors, sectors: Sectors) -> Iterator[tuple[Integers, Floats]]:
    """The means of the units of a level in order, some at a time: units x (core x copies)."""
    for first in range(0, len(vectors.pattern), UNITS_AT_ONCE):
        units = np.arange(first, min(first + UNITS_AT_ONCE, len(vectors.pattern)))
        dense = np.zeros((len(units), sectors.size, sectors.copies))
        for number in np.unique(vectors.pattern[units]).tolist():
            rows = np.flatnonzero(vectors.pattern[units] == number)
            dense[np.ix_(rows, vectors.cells[number])] = vectors.arrays[number][vectors.place[units[rows]]]
        yield units, dense.reshape(len(units), -1)


def _bits(values: Floats) -> pa.ListArray:
    """Rows of numbers as lists of their bits: rows travel with whole numbers alone."""
    offsets = pa.array(np.arange(len(values) + 1) * values.shape[1], pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values, np.float64).view(np.int64).ravel()))
