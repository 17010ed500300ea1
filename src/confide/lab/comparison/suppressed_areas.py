"""Suppression in a comparison: counts of few people are left out, and others with them, so that none can be worked out.

The tables of an area are protected together by the core of the mechanism ``suppression``: nothing follows from them
about a suppressed count but an interval that is wide enough. Areas are protected one by one. That blocks add up to a
tract is not taken into account: a pattern that does leaves out more, for the users and for the outsider. It takes a
second or so for an area, so that of the blocks only those are protected that are attacked.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse
from threadpoolctl import threadpool_limits

from confide.arrays import Integers
from confide.engines.protocol import begin_work, deaths_said, worker_died
from confide.file_system import private_folder, whole_file
from confide.lab.comparison.attacking import sample
from confide.lab.comparison.common_tables import CommonTable, CommonTables
from confide.lab.comparison.compared_people import ComparedPopulation
from confide.lab.comparison.figures import AreaFigures, Flags, Key
from confide.lab.comparison.programme_file import BLOCK
from confide.mechanisms.suppression import Dimension, LinkedTables, TableDimensions, link, threshold
from confide.mechanisms.suppression.suppress import pose, solve
from confide.releases.workspace import Progress
from confide.schema import TOTAL_CODE, Recode

# The tables of one area as linked tables, and the pattern that protects them.
#
# Every group of every variable that the programme uses is a node of a tree: a variable's groups are sets of codes,
# one below another where it is part of it. A table has the nodes above its own groups too, unlisted: what follows
# from two tables together is found through these.


_Node = frozenset[Any]


@dataclass(frozen=True, eq=False)
class AreaStructure:
    """The structure of the tables of an area."""

    linked: LinkedTables
    numbers: tuple[Integers, ...] = field(repr=False)
    """For each table, and each of its cells, the number of the distinct cell."""
    sums: Any = field(repr=False)
    """A sparse matrix from the cells of all tables, one after the other, to the distinct cells."""

    def suppressed(self, counts: Sequence[Integers], maximum: int) -> list[Flags]:
        """For each table of one area which cells must be left out."""
        value = np.rint(self.sums @ np.concatenate(counts)).astype(np.int64)
        levels = threshold(value, maximum)
        if not (levels.primary & self.linked.listed).any():
            return [np.zeros(len(each), np.bool_) for each in counts]
        single = np.zeros(len(value), np.bool_)
        problem = pose(self.linked, value, levels, zeros="secondary", weight="log", single=single)
        pattern = solve(problem, self.linked, method="heuristic").pattern
        return [pattern.suppressed[numbers] for numbers in self.numbers]


@cache
def area_structure(programme: CommonTables) -> AreaStructure:
    """The structure of a programme; the same for every area."""
    trees = {attribute.name: _nodes(programme, attribute.name) for attribute in programme.schema.attributes}
    layouts, groups = [], []
    for table in programme.tables:
        layout, positions = _layout(table, trees)
        layouts.append(layout)
        groups.append(positions)
    linked = link(layouts)
    numbers = tuple(
        of.reshape(layout.shape)[np.ix_(*positions)].reshape(-1)
        for of, layout, positions in zip(linked.numbers, layouts, groups, strict=True)
    )
    return AreaStructure(linked, numbers, _sums(programme, linked, layouts))


def _nodes(programme: CommonTables, attribute: str) -> list[_Node]:
    """All groups of an attribute that any table has, as sets of codes; those that others are part of first."""
    nodes: dict[_Node, None] = {}
    for table in programme.tables:
        for variable in table.query.variables:
            if variable.attribute.name == attribute:
                nodes |= dict.fromkeys(frozenset(group.codes) for group in variable.groups)
    return sorted(nodes, key=lambda node: (-len(node), min(node)))


def _layout(table: CommonTable, trees: dict[str, list[_Node]]) -> tuple[TableDimensions, list[list[int]]]:
    """A table with the nodes above its groups, and for each variable the place of each group among the nodes."""
    dimensions, listed, positions = [], [], []
    for variable in table.query.variables:
        groups = [frozenset(group.codes) for group in variable.groups]
        nodes = [node for node in trees[variable.attribute.name] if any(group <= node for group in groups)]
        dimensions.append(_dimension(variable, nodes))
        place = [1 + nodes.index(group) for group in groups]
        listed.append(np.isin(np.arange(len(nodes) + 1), place))
        positions.append(place)
    if not dimensions:
        dimensions = [Dimension(next(iter(trees)), (TOTAL_CODE,), (-1,))]  # any: a total is that of each of them
        listed, positions = [np.ones(1, np.bool_)], [[0]]
    return TableDimensions(table.name, tuple(dimensions), tuple(listed)), positions


def _dimension(variable: Recode, nodes: list[_Node]) -> Dimension:
    parents = [-1]
    for at, node in enumerate(nodes):
        above = [place for place in range(at) if node < nodes[place]]
        parents.append(1 + above[-1] if above else 0)
    names = [f"{min(node)}+{len(node)}" for node in nodes]
    return Dimension(variable.attribute.name, (TOTAL_CODE, *names), tuple(parents))


def _sums(programme: CommonTables, linked: LinkedTables, layouts: Sequence[TableDimensions]) -> Any:
    """Distinct cells as sums of the cells of the first table that has them."""
    blocks, taken = [], np.zeros(linked.structure.cells, np.bool_)
    for table, layout, numbers in zip(programme.tables, layouts, linked.numbers, strict=True):
        members: Any = sparse.csr_array(np.ones((1, 1)))
        for variable, dimension in zip(table.query.variables, layout.dimensions, strict=False):
            members = sparse.kron(members, _members(variable, dimension), format="csr")
        new = ~taken[numbers]
        taken[numbers] = True
        rows = np.flatnonzero(new)
        place = sparse.csr_array(
            (np.ones(len(rows)), (numbers[rows], rows)), shape=(linked.structure.cells, len(numbers))
        )
        blocks.append(place @ members)
    return sparse.hstack(blocks, format="csr")


def _members(variable: Recode, dimension: Dimension) -> Any:
    """For each node of a dimension the groups of a variable that are in it."""
    groups = {f"{min(group.codes)}+{len(group.codes)}": at for at, group in enumerate(variable.groups)}
    matrix = np.zeros((dimension.size, variable.size))
    for at in range(dimension.size - 1, -1, -1):
        if dimension.codes[at] in groups:
            matrix[at, groups[dimension.codes[at]]] = 1.0
        for part in dimension.children[at]:
            matrix[at] += matrix[part]
    return sparse.csr_array(matrix)


PATTERN = "pattern-of-{}-blocks-confidential.parquet"
_Area = tuple[str, int, list[Integers], int]
"""A level, a unit, the counts of its tables, and the threshold."""


def suppress_areas(
    population: ComparedPopulation,
    folder: Path,
    threshold: int,
    number: int | None,
    seed: int,
    processes: int | None,
    progress: Progress,
) -> AreaFigures:
    """The true tables without the cells that must be suppressed; of the blocks, so many as are drawn from the seed.

    The pattern is written to ``folder``, and found there when it is asked for again.
    """
    tables, truth = population.programme.tables, population.truth
    blocks = sample(population, number, seed)
    levels = population.programme.levels
    covered = {level: blocks if level == BLOCK else np.arange(len(population.areas.codes[level])) for level in levels}
    published: dict[Key, Flags] = {
        (level, table.name): np.zeros(truth.counts[level, table.name].shape, np.bool_)
        for level in levels
        for table in tables
    }
    file = private_folder(folder) / PATTERN.format(len(blocks))
    if not file.exists():
        areas: list[_Area] = [
            (level, int(unit), [truth.counts[level, table.name][unit] for table in tables], threshold)
            for level in levels
            for unit in covered[level]
        ]
        with progress.stage("Suppressing", len(areas)) as advance:
            rows = []
            for row in _all(areas, population.programme, processes or os.cpu_count() or 1):
                rows.append(row)
                advance(1)
        _write(file, rows)
    ends = np.cumsum([table.query.cells for table in tables])[:-1]
    for level, unit, suppressed in _patterns(file, population.programme.cells):
        for table, flags in zip(tables, np.split(suppressed, ends), strict=True):
            published[level, table.name][unit] = ~flags
    counts = {key: np.where(flags, truth.counts[key], 0) for key, flags in published.items()}
    return AreaFigures(counts, published, covered=covered)


def _patterns(file: Path, cells: int) -> Iterator[tuple[str, int, Flags]]:
    """For each area which cells are suppressed, over all tables."""
    pattern = pq.read_table(file)
    for level, unit, bits in zip(*(pattern.column(name).to_pylist() for name in pattern.column_names), strict=True):
        yield level, unit, np.unpackbits(np.frombuffer(bits, np.uint8), count=cells).astype(np.bool_)


def _write(file: Path, rows: Sequence[tuple[str, int, Flags]]) -> None:
    level, unit, suppressed = zip(*rows, strict=True)
    packed = [np.packbits(flags).tobytes() for flags in suppressed]
    with whole_file(file) as temporary:
        pq.write_table(pa.table({"level": level, "unit": unit, "hidden": pa.array(packed, pa.binary())}), temporary)


def _all(areas: Sequence[_Area], programme: CommonTables, processes: int) -> Iterator[tuple[str, int, Flags]]:
    if processes == 1:
        with threadpool_limits(1):
            yield from (_protect(programme, area) for area in areas)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(os.getpid(), programme))
    try:
        with deaths_said(pool):
            yield from pool.map(_protect_in_worker, areas, chunksize=2)
    except BrokenProcessPool:
        raise worker_died() from None
    finally:
        pool.shutdown(cancel_futures=True)


_of_worker: list[CommonTables] = []
"""The programme that a worker process was started with: its structure is made once in each."""


def _begin(parent: int, programme: CommonTables) -> None:
    begin_work(parent)
    threadpool_limits(1)
    _of_worker[:] = [programme]


def _protect_in_worker(area: _Area) -> tuple[str, int, Flags]:
    return _protect(_of_worker[0], area)


def _protect(programme: CommonTables, area: _Area) -> tuple[str, int, Flags]:
    level, unit, counts, maximum = area
    return level, unit, np.concatenate(area_structure(programme).suppressed(counts, maximum))
