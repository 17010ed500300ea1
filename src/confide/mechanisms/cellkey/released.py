"""The published cells of a run beside the true ones, for evaluations and audits. Confidential.

The truth is not kept by a run: it follows from the records, or from the files of given cells, at any time. Published
figures are read from the files of the release, as anybody has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.engines import Engine
from confide.engines.protocol import private_folder
from confide.mechanisms.cellkey.counting import count_cells, value_scale
from confide.mechanisms.cellkey.given import GivenTable, read_given
from confide.mechanisms.cellkey.keyed_records import write_coded
from confide.mechanisms.cellkey.keys import CellSums
from confide.mechanisms.cellkey.output import figure_columns, read_cells, read_table, renumbered
from confide.mechanisms.cellkey.programme import CellKeyProblem, counted_name
from confide.releases.tabular import COUNT, TableRows, UnlikePlanError, released, unlike_plan
from confide.releases.workspace import Workspace
from confide.schema import Query

CODED = "coded.parquet"


@dataclass(frozen=True, eq=False)
class ReleasedMargin:
    """The cells of one cross-classification where the true or the published figure is not zero."""

    name: str
    """Of the cross-classification, with its level: the same in every table that has it."""
    level: str | None
    cell: Integers = field(repr=False)
    true: Integers = field(repr=False)
    published: Integers = field(repr=False)
    cells: int
    """How many cells there are in all."""


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A table, margin by margin."""

    name: str
    title: str
    margins: tuple[ReleasedMargin, ...]


def code_records(problem: CellKeyProblem, engine: Engine, workspace: Workspace) -> Path:
    """The records as numbers, in a private file."""
    scratch = private_folder(workspace.scratch)
    write_coded(engine, problem, scratch / CODED, scratch)
    return scratch / CODED


def released_tables(
    problem: CellKeyProblem, engine: Engine, release: Path, coded: Path | None
) -> Iterator[ReleasedTable]:
    """Every table of a run; ``coded`` is the file of coded records, where there are records."""
    truth = {}
    if coded is not None:
        truth = {counted.name: _figures(problem, sums) for counted, sums in count_cells(problem, coded)}
    columns = figure_columns(problem)
    for table in problem.tables:
        read = partial(read_table, table=table.layout, columns=columns)
        rows = released(release, table.name, problem.spec.output.formats, read)
        margins = []
        for place, level in enumerate(table.levels or (None,)):
            here = rows if level is None else rows.on_level(place)
            for number, query in enumerate(table.margins):
                canonical = problem.canonical(query)
                name = counted_name(level, canonical.name)
                margins.append(_margin(problem, (name, level), here.where(here.margin == number), truth[name], query))
        yield ReleasedTable(table.name, table.title, tuple(margins))
    for given in problem.given:
        yield ReleasedTable(given.name, given.title, (_given(problem, engine, release, given),))


def _figures(problem: CellKeyProblem, sums: CellSums) -> tuple[Integers, Integers]:
    """Cells with their true counts, or with their true values in whole numbers of the last decimal."""
    if problem.magnitude is None or sums.value is None:
        return sums.cell, sums.count
    finer = value_scale(problem, problem.magnitude) // problem.magnitude.unit
    return sums.cell, (2 * sums.value.total + finer) // (2 * finer)


def _margin(
    problem: CellKeyProblem,
    named: tuple[str, str | None],
    rows: TableRows,
    truth: tuple[Integers, Integers],
    query: Query,
) -> ReleasedMargin:
    name, level = named
    geolevel = problem.level(level)
    cell = rows.cell
    if geolevel is not None:
        unit = pc.index_in(rows.area, pa.array(geolevel.codes, pa.string()))
        if unit.null_count:
            raise unlike_plan(name, UnlikePlanError("an area is not in the frame"))
        cell = unit.to_numpy().astype(np.int64) * query.cells + cell
    # Numbered as they were counted: a cross-classification is the same array in every table that has it.
    cell, true_cell = renumbered(cell, query, problem.canonical(query)), truth[0]
    cells = query.cells * (1 if geolevel is None else geolevel.units)
    both = np.union1d(true_cell, cell)
    true, published = np.zeros(len(both), np.int64), np.zeros(len(both), np.int64)
    true[np.searchsorted(both, true_cell)] = truth[1]
    published[np.searchsorted(both, cell)] = rows.count
    return ReleasedMargin(name, level, both, true, published, cells)


def _given(problem: CellKeyProblem, engine: Engine, release: Path, table: GivenTable) -> ReleasedMargin:
    sums, labels = read_given(engine, table, problem.modulus).reveal("to compare given cells")
    read = partial(read_cells, table=table, columns=figure_columns(problem))
    rows = released(release, table.name, problem.spec.output.formats, read)
    listed = zip(*(rows.column(name).to_pylist() for name in table.variables), strict=True)
    counts = dict(zip(listed, rows.column(COUNT).to_pylist(), strict=True))
    cells = zip(*(labels.column(name).to_pylist() for name in table.variables), strict=True)
    published = np.array([counts.get(cell, 0) for cell in cells], np.int64)
    return ReleasedMargin(table.name, None, sums.cell, sums.count, published, len(sums.cell))
