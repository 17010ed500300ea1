"""The tables of a release, of records or of given cells: every cell that is not zero, with all margins.

A cell that is not listed is published as zero, whether nobody is in it or noise made it so: which of the two cannot be
seen. Figures do not add up: each cell has noise of its own members.

Tables of given cells are written and read again here as well, with what ``verify`` asks of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.engines import Engine
from confide.exact import exact_text
from confide.file_system import private_folder
from confide.geography import Geolevel
from confide.mechanisms.cellkey.given import GivenTable, read_given, sdmx_names
from confide.mechanisms.cellkey.keyed_records import PerturbedFigures, count_cells, value_scale, write_coded
from confide.mechanisms.cellkey.keys import CellSums
from confide.mechanisms.cellkey.programme import CellKeyProblem, PerturbedTables, counted_name, describe
from confide.mechanisms.cellkey.spec import WEIGHT_UNIT
from confide.releases import Check, ReleaseWriter, SealedRelease, Workspace, tabular
from confide.releases.tabular import Margin, Table, TableRows, projected
from confide.schema import Query

WEIGHTED, WEIGHTED_OBSERVATION, VALUE = "weighted", "OBS_VALUE_WEIGHTED", "value"
BATCH = 1 << 18
Recall = Mapping[str, PerturbedFigures]
Rows = tuple[list[pa.Array], list[pa.Array]]
"""Columns of labels, and of figures."""


@dataclass(frozen=True)
class FigureColumns:
    """The columns of figures that the tables of a release have: counts and weighted ones, or values."""

    weighted: bool = False
    decimals: int | None = None
    """Of values; None: counts."""

    @property
    def kind(self) -> pa.DataType:
        """The type of the first column: whole numbers, or exact decimals."""
        return pa.decimal128(38, self.decimals) if self.decimals else pa.int64()

    @property
    def name(self) -> str:
        """The name of the first column."""
        return tabular.COUNT if self.decimals is None else VALUE

    def plain(self) -> list[pa.Field]:
        """For readers."""
        what = "records, perturbed" if self.decimals is None else "the sum of the records' values, perturbed"
        figure = tabular.figure_column(self.name, f"{what}; cells that are not listed are 0", self.kind)
        mean = tabular.figure_column(
            WEIGHTED, "the perturbed count times the cell's mean weight, rounded", pa.float64()
        )
        return [figure, *([mean] if self.weighted else ())]

    def sdmx(self) -> list[pa.Field]:
        """For SDMX-CSV, of given cells."""
        mean = tabular.figure_column(WEIGHTED_OBSERVATION, kind=pa.float64())
        return [tabular.figure_column(tabular.OBSERVATION, kind=self.kind), *([mean] if self.weighted else ())]

    def arrays(self, figures: PerturbedFigures) -> list[pa.Array]:
        """The figures of cells as columns."""
        if self.decimals:
            columns = [pa.array([_decimal(value, self.decimals) for value in figures.figure.tolist()], self.kind)]
        else:
            columns = [pa.array(figures.figure)]
        if figures.weighted is not None:
            columns.append(pa.array(figures.weighted / WEIGHT_UNIT))
        return columns


def _decimal(value: int, decimals: int) -> Decimal:
    return Decimal(value).scaleb(-decimals)


def columns_of(described: PerturbedTables) -> FigureColumns:
    """Those that a plan has."""
    decimals = None if described.magnitude is None else described.magnitude["decimals"]
    return FigureColumns(described.weighted and decimals is None, decimals)


def figure_columns(problem: CellKeyProblem) -> FigureColumns:
    """Those of a problem."""
    if problem.magnitude is not None:
        return FigureColumns(decimals=problem.magnitude.decimals)
    return FigureColumns(problem.spec.data.weight is not None)


def plain_schema(table: tabular.QueryTable, columns: FigureColumns) -> pa.Schema:
    """The columns of a table for its readers."""
    return tabular.plain_schema(table.layout, *columns.plain())


def plain_rows(problem: CellKeyProblem, table: tabular.QueryTable, figures: Recall) -> Iterator[pa.RecordBatch]:
    """The rows of a table: margin by margin, the total first; on levels area by area."""
    columns = figure_columns(problem)
    for labels, values in table_rows(problem, table, figures, columns):
        yield tabular.plain_rows(plain_schema(table, columns), labels, values)


def table_rows(
    problem: CellKeyProblem, table: tabular.QueryTable, figures: Recall, columns: FigureColumns
) -> Iterator[Rows]:
    """Labels and figures of the cells that are not zero."""
    layout = table.layout
    for name in table.levels or (None,):
        level = problem.level(name)
        parts = [
            in_order(figures[counted_name(name, canonical.name)].listed(), canonical, query)
            for query, canonical in ((query, problem.canonical(query)) for query in table.margins)
        ]
        if level is None:
            for margin, part in zip(layout.margins, parts, strict=True):
                yield layout.labels(layout.places(margin, part.cell)), columns.arrays(part)
        else:
            yield from _area_rows(layout, level, parts, columns)


def _area_rows(
    layout: tabular.Table, level: Geolevel, parts: Sequence[PerturbedFigures], columns: FigureColumns
) -> Iterator[Rows]:
    """The rows of a level: by area, by margin, by cell."""
    sizes = [margin.cells for margin in layout.margins]
    unit = np.concatenate([part.cell // size for part, size in zip(parts, sizes, strict=True)])
    cell = np.concatenate([part.cell % size for part, size in zip(parts, sizes, strict=True)])
    margin = np.repeat(np.arange(len(parts)), [len(part.cell) for part in parts])
    figure = np.concatenate([part.figure for part in parts])
    weighted = [part.weighted for part in parts if part.weighted is not None]
    weights = np.concatenate(weighted) if weighted else None
    order = np.lexsort((cell, margin, unit))
    codes = pa.array(level.codes, pa.string())
    for first in range(0, len(order), BATCH):
        at = order[first : first + BATCH]
        labels = layout.labels(layout.mixed_places(margin[at], cell[at]))
        part = PerturbedFigures(cell[at], figure[at], None if weights is None else weights[at])
        area = codes.take(pa.array(unit[at]))
        yield [tabular.repeated(level.name, len(at)), area, *labels], columns.arrays(part)


def in_order(figures: PerturbedFigures, canonical: Query, query: Query) -> PerturbedFigures:
    """Figures of cells numbered by one order of variables, numbered by another, and in its order."""
    cell = renumbered(figures.cell, canonical, query)
    if cell is figures.cell:
        return figures
    at = np.argsort(cell, kind="stable")
    return PerturbedFigures(cell[at], figures.figure[at], None if figures.weighted is None else figures.weighted[at])


def renumbered(cell: Integers, canonical: Query, query: Query) -> Integers:
    """The numbers of cells, unit by unit, in the order of the variables of ``query``."""
    names = [variable.name for variable in query.variables]
    if names == [variable.name for variable in canonical.variables]:
        return cell
    unit, within = np.divmod(cell, canonical.cells)
    places = dict(zip((v.name for v in canonical.variables), np.unravel_index(within, canonical.shape), strict=True))
    inner = np.ravel_multi_index(tuple(places[name] for name in names), query.shape)
    result: Integers = unit * query.cells + inner
    return result


def read_table(path: Path, format_: str, table: tabular.Table, columns: FigureColumns) -> tabular.TableRows:
    """A released table in one of its formats; weighted figures in millionths, values in whole numbers of their last
    decimal, both under the name of counts and ``weighted``. Raises :class:`UnlikePlanError`."""
    rows = tabular.DescribedTable.of(table, columns.plain()).placed(path, format_)
    figures = dict(rows.figures)
    if columns.decimals is not None:
        values = figures[VALUE]
        figures = {tabular.COUNT: whole_numbers(values, columns.decimals) if columns.decimals else values}
    elif columns.weighted:
        figures[WEIGHTED] = millionths(figures[WEIGHTED])
    return replace(rows, figures=figures)


def whole_numbers(values: npt.NDArray[Any], decimals: int) -> Integers:
    """Values as whole numbers of their last decimal."""
    scaled = [int(value.scaleb(decimals)) for value in values.tolist()]
    if any(abs(value) >= 1 << 62 for value in scaled):
        raise tabular.UnlikePlanError("a value is larger than any sum")
    return np.array(scaled, np.int64)


def millionths(values: npt.NDArray[Any]) -> Integers:
    """Weighted figures as whole numbers; those of a release have no more than six decimals."""
    scaled = np.rint(values * WEIGHT_UNIT)
    if not np.isfinite(values).all() or not np.array_equal(scaled / WEIGHT_UNIT, values):
        raise tabular.UnlikePlanError("a weighted figure is not one of millionths")
    result: Integers = scaled.astype(np.int64)
    return result


# The tables of given cells in a release: written, read again, and what ``verify`` asks of them.


DATAFLOW = "DATAFLOW"


def publish_given(
    release: ReleaseWriter,
    formats: Sequence[str],
    agency: str,
    table: GivenTable,
    labels: pa.Table,
    figures: PerturbedFigures,
    columns: FigureColumns,
) -> None:
    """Writes the cells that are not zero, with their labels: for readers, and in SDMX-CSV 1.0."""
    texts, values = [column.combine_chunks() for column in labels.columns], columns.arrays(figures)
    readers = [format_ for format_ in formats if format_ in ("parquet", "csv")]
    if readers:
        plain = pa.schema([*(tabular.text_column(name, name) for name in table.variables), *columns.plain()])
        rows = pa.RecordBatch.from_arrays([*texts, *values], schema=plain)
        release.table(table.name, plain, [rows], readers, table.title)
    if tabular.SDMX in formats:
        dimensions = [tabular.text_column(name, "") for name in (DATAFLOW, *sdmx_names(table.variables))]
        sdmx = pa.schema([*dimensions, *columns.sdmx()])
        flow = tabular.repeated(f"{agency}:{tabular.flow_name(table.name)}(1.0)", len(figures.cell))
        rows = pa.RecordBatch.from_arrays([flow, *texts, *values], schema=sdmx)
        release.text(f"sdmx/{table.name}", sdmx, [rows], table.title, ",", quoted=True)


def read_cells(path: Path, format_: str, table: GivenTable, columns: FigureColumns) -> pa.Table:
    """A released table of given cells, under the names of the plain form. Raises :class:`UnlikePlanError`."""
    fields = columns.plain()
    if format_ == tabular.SDMX:
        types = dict.fromkeys([DATAFLOW, *sdmx_names(table.variables)], pa.string())
        rows = tabular.read_columns(path, types | {field.name: field.type for field in columns.sdmx()})
        tabular.check_flow(rows.column(DATAFLOW), table.name)
        rows = rows.drop_columns([DATAFLOW]).rename_columns([*table.variables, *(field.name for field in fields)])
    else:
        types = dict.fromkeys(table.variables, pa.string())
        rows = tabular.read_columns(path, types | {field.name: field.type for field in fields})
    if columns.weighted:
        at = rows.column_names.index(WEIGHTED)
        rows = rows.set_column(at, WEIGHTED, pa.array(millionths(rows.column(WEIGHTED).to_numpy())))
    return rows.replace_schema_metadata(None)


def verify_given(folder: Path, files: set[str], described: PerturbedTables, table: GivenTable) -> Iterator[Check]:
    """A table of given cells: its columns, each cell once and in order, counts that may be published."""
    columns = FigureColumns(described.weighted)
    read = partial(read_cells, table=table, columns=columns)
    contents, problem = tabular.read_formats(folder, table.name, files, read)
    yield Check(f"{table.name}: columns", not problem, problem or ", ".join(table.variables))
    if problem:
        return
    yield tabular.same_formats(table.name, contents, _same)
    rows = next(iter(contents.values()))
    detail = f"{rows.num_rows:,} cells that are not zero"
    yield Check(f"{table.name}: every cell once, in order", _ascending(rows.select(table.variables)), detail)
    counts = rows.column(tabular.COUNT).to_numpy()
    least = int(counts.min(initial=described.smallest))
    step = int(described.weighted_step * WEIGHT_UNIT)
    coarse = not described.weighted or not (rows.column(WEIGHTED).to_numpy() % step).any()
    yield Check(
        f"{table.name}: counts that may be published",
        least >= described.smallest and coarse,
        f"none below {described.smallest:,} but zeros",
    )


def _same(one: pa.Table, other: pa.Table) -> bool:
    return bool(one.cast(other.schema).equals(other))


def _ascending(labels: pa.Table) -> bool:
    """Whether each row comes after the one before it, by the labels of the columns from the first to the last."""
    if labels.num_rows < 2:
        return True
    decided = np.zeros(labels.num_rows - 1, np.bool_)
    for column in labels.columns:
        values = column.combine_chunks()
        before, after = values.slice(0, len(values) - 1), values.slice(1)
        if (~decided & pc.less(after, before).to_numpy(zero_copy_only=False)).any():
            return False
        decided |= pc.greater(after, before).to_numpy(zero_copy_only=False)
    return bool(decided.all())


# The published cells of a run beside the true ones, for evaluations and audits. Confidential.
#
# The truth is not kept by a run: it follows from the records, or from the files of given cells, at any time. Published
# figures are read from the files of the release, as anybody has them.


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
        rows = tabular.released(release, table.name, problem.spec.output.formats, read)
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
    rows: tabular.TableRows,
    truth: tuple[Integers, Integers],
    query: Query,
) -> ReleasedMargin:
    name, level = named
    geolevel = problem.level(level)
    cell = rows.cell
    if geolevel is not None:
        unit = pc.index_in(rows.area, pa.array(geolevel.codes, pa.string()))
        if unit.null_count:
            raise tabular.unlike_plan(name, tabular.UnlikePlanError("an area is not in the frame"))
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
    rows = tabular.released(release, table.name, problem.spec.output.formats, read)
    listed = zip(*(rows.column(name).to_pylist() for name in table.variables), strict=True)
    counts = dict(zip(listed, rows.column(tabular.COUNT).to_pylist(), strict=True))
    cells = zip(*(labels.column(name).to_pylist() for name in table.variables), strict=True)
    published = np.array([counts.get(cell, 0) for cell in cells], np.int64)
    return ReleasedMargin(table.name, None, sums.cell, sums.count, published, len(sums.cell))


# ``verify`` for the cell key method: what follows from the files of a release alone.
#
# Every table is read in every format. Its cells must be those of the plan, each once and in order; its counts such as
# the perturbation table and the threshold let through; the same cell must have the same figure in every table (SPSN);
# and a cell must be as near to the sum of its parts as bounded noise allows: a true count lies within D of a published
# one, so the intervals of a cell and of its parts, added up, have a whole number in common
# (``docs/proofs/cellkey.md``).


def verify(release: SealedRelease) -> Iterator[Check]:
    """Every table by itself, then what tables have in common."""
    folder, files, question = release.folder, set(release.files), release.facts
    described = describe(question)
    names = [*(table.name for table in described.tables), *(table.name for table in described.given)]
    yield tabular.no_other_files(names, files)
    yield tabular.every_format(names, files)
    shared = tabular.SharedFigures.of(described.tables)
    for table in described.tables:
        yield from _table(folder, files, described, table, shared)
    coded = [table.name for table in described.tables]
    yield from tabular.cells_and_areas(folder, coded, files, question["levels"], question["area_names"])
    for given in described.given:
        if tabular.table_files(given.name, files):
            yield from verify_given(folder, files, described, given)


def _table(
    folder: Path, files: set[str], described: PerturbedTables, table: Table, shared: tabular.SharedFigures
) -> Iterator[Check]:
    if not tabular.table_files(table.name, files):
        return  # said of all tables together
    read = partial(read_table, table=table, columns=columns_of(described))
    rows = yield from tabular.checked_rows(folder, table, files, read, described.cells(table))
    if rows is None:
        return
    yield _counts(described, table, rows)
    figures = dict(tabular.margin_rows(table, rows))
    if table.levels:
        yield _areas(described, table, rows)
    yield from shared.check(table, figures, "the same members, the same noise")
    if len(table.margins) > 1 and described.magnitude is None:
        yield _near(described, table, figures)


def _counts(described: PerturbedTables, table: Table, rows: TableRows) -> Check:
    if described.magnitude is not None:
        ok = not (rows.count == 0).any() and (described.magnitude["negative"] or not (rows.count < 0).any())
        return Check(f"{table.name}: values that may be published", ok, "no zero is listed, and no sign that cannot be")
    least = int(rows.count.min(initial=described.smallest))
    weighted = rows.figures.get(WEIGHTED, np.zeros(0, np.int64))
    coarse = not (weighted % int(described.weighted_step * WEIGHT_UNIT)).any()
    ok = least >= described.smallest and int(weighted.min(initial=0)) >= 0 and coarse
    detail = f"none below {described.smallest:,} but zeros"
    detail += "" if coarse else f"; a weighted figure is no multiple of {exact_text(described.weighted_step)}"
    return Check(f"{table.name}: counts that may be published", ok, detail)


def _areas(described: PerturbedTables, table: Table, rows: TableRows) -> Check:
    """No level has more areas than the frame."""
    assert rows.area is not None
    numbers = {level: pc.count_distinct(rows.on_level(place).area).as_py() for place, level in enumerate(table.levels)}
    wrong = [level for level, number in numbers.items() if number > described.units[level]]
    detail = ", ".join(f"{level}: {number:,} of {described.units[level]:,}" for level, number in numbers.items())
    return Check(f"{table.name}: areas of the frame", not wrong, detail)


def _near(
    described: PerturbedTables, table: Table, figures: Mapping[tuple[str | None, str], tabular.MarginRows]
) -> Check:
    """Every cell against its parts by one variable more; variables that leave somebody out do not add up."""
    comparisons, wrong = 0, 0
    for level in table.levels or (None,):
        for margin in table.margins:
            for variable in table.variables:
                larger = Margin(tuple(each for each in table.variables if each in margin.variables or each is variable))
                incomplete = variable.name in described.partial
                if variable in margin.variables or incomplete or (level, larger.name) not in figures:
                    continue
                margin_rows, parts = figures[level, margin.name], figures[level, larger.name]
                groups = margin.cells * (1 if margin_rows.areas is None else len(margin_rows.areas))
                low, high = _range(described, margin_rows.rows, margin_rows.cell, groups, 1)
                within = projected(larger, margin, parts.cell % larger.cells)
                group = parts.cell // larger.cells * margin.cells + within
                parts_low, parts_high = _range(described, parts.rows, group, groups, variable.size)
                wrong += int(((parts_low > high) | (low > parts_high)).sum())
                comparisons += groups
    bound = int(described.largest_noise)
    detail = f"{comparisons:,} cells against the sums of their parts"
    detail += f", of which {wrong:,} are too far" if wrong else f": nowhere further than noise of {bound}"
    return Check(f"{table.name}: noise within its bound", not wrong, detail)


def _range(
    described: PerturbedTables, rows: TableRows, group: Integers, groups: int, parts: int
) -> tuple[Integers, Integers]:
    """For each group of cells the least and the largest that its true counts can come to together.

    A published count x comes from one between max(1, x - D) and x + D; one that is not listed from at most D, or D plus
    what the threshold hides.
    """
    bound = int(described.largest_noise)
    unlisted = bound + max(0, described.threshold - 1)
    listed = np.bincount(group, minlength=groups)
    low, high = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(low, group, np.maximum(1, rows.count - bound))
    np.add.at(high, group, rows.count + bound)
    return low, high + (parts - listed) * unlisted
