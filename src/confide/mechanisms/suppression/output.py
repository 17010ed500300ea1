"""The tables of a release: every cell with its figure, or without one where it is suppressed; and what is said of them.

Every cell is listed, zeros too. A suppressed cell has no figure and the status ``suppressed``; why it is suppressed is
not said, and must not be: which cells are primary is part of what is protected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.mechanisms.suppression.programme import HierarchicalTable, described, unit_of
from confide.mechanisms.suppression.statement import suppression_sizes
from confide.mechanisms.suppression.structure import ROOT, Flags
from confide.mechanisms.suppression.units import figure_type, published_figures, units_of
from confide.mechanisms.suppression.variables import Variable
from confide.releases import tabular
from confide.releases.companions import Codebook, CodeHierarchy, DescribedTable, asked
from confide.releases.figure_noise import Draw
from confide.releases.plan import Explanation, Plan, in_plural
from confide.releases.tabular import (
    COUNT,
    PUBLISHED,
    SDMX,
    STATUS,
    SUPPRESSED,
    TOTAL_CODE,
    CodedTable,
    UnlikePlanError,
    figure_column,
    text_column,
)

ONE = Fraction(1)
VALUE = "value"


def figure_columns(*, magnitude: bool, unit: Fraction = ONE) -> tuple[pa.Field, pa.Field]:
    """The columns of the figure and of its status."""
    what = "the sum of the records' values" if magnitude else "records"
    description = f"{what}; empty where suppressed"
    figure = figure_column(VALUE if magnitude else COUNT, description, figure_type(unit), gaps=True)
    return figure, text_column(STATUS, f"{PUBLISHED} or {SUPPRESSED}")


def plain_schema(table: HierarchicalTable, *, magnitude: bool, unit: Fraction = ONE) -> pa.Schema:
    """The columns of a table as rows with keys."""
    columns = [text_column(name, f"{name}; {TOTAL_CODE}: all together") for name in table.columns]
    return pa.schema([*columns, *figure_columns(magnitude=magnitude, unit=unit)])


def plain_rows(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, *, magnitude: bool, unit: Fraction = ONE
) -> Iterator[pa.RecordBatch]:
    """The rows of a table; ``figures``, in units, and ``suppressed`` are those of its layout's cells."""
    _, cells = table.lines
    status = pa.array(np.where(suppressed[cells], SUPPRESSED, PUBLISHED).tolist(), pa.string())
    values = [published_figures(figures[cells], unit, suppressed[cells]), status]
    yield tabular.plain_rows(plain_schema(table, magnitude=magnitude, unit=unit), _labels(table), values)


def coded_table(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, *, magnitude: bool, unit: Fraction = ONE
) -> CodedTable:
    """The table as it is published."""

    def rows() -> Iterator[pa.RecordBatch]:
        return plain_rows(table, figures, suppressed, magnitude=magnitude, unit=unit)

    return CodedTable(table.name, table.title, table.coded, figure_columns(magnitude=magnitude, unit=unit), rows)


def read_table(
    path: Path, format_: str, table: HierarchicalTable, *, magnitude: bool, unit: Fraction = ONE
) -> tuple[Integers, Flags]:
    """The figures, in units, and flags of a written table, for the cells of its structure; cells that are
    not listed are suppressed.

    Raises :class:`UnlikePlanError`.
    """
    rows = _read_rows(path, format_, table, figure_columns(magnitude=magnitude, unit=unit))
    labels, cells = table.lines
    if rows.num_rows != len(labels):
        raise UnlikePlanError("there are more rows, or fewer, than the table has cells")
    for at, name in enumerate(table.columns):
        if rows.column(name).to_pylist() != [label[at] for label in labels]:
            raise UnlikePlanError(f"{name} does not have the labels of the plan in their order")
    status = np.array(rows.column(STATUS).to_pylist(), object)
    if not np.isin(status, [PUBLISHED, SUPPRESSED]).all():
        raise UnlikePlanError("a status is none that a cell can have")
    column = rows.column(len(table.columns))
    figure = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    absent: Flags = np.asarray(figure.is_null().to_numpy(zero_copy_only=False), np.bool_)
    if not np.array_equal(absent, status == SUPPRESSED):
        raise UnlikePlanError("a cell is suppressed and has a figure, or is published and has none")
    values = units_of(figure, unit)
    if values is None:
        raise UnlikePlanError("a figure is no multiple of the unit")
    figures, suppressed = np.zeros(table.layout.cells, np.int64), np.ones(table.layout.cells, np.bool_)
    figures[cells], suppressed[cells] = values, absent
    # Areas may stand on two levels: both rows are one cell.
    if not (np.array_equal(figures[cells], values) and np.array_equal(suppressed[cells], absent)):
        raise UnlikePlanError("one cell that stands in two rows has two figures")
    return figures, suppressed


def _read_rows(path: Path, format_: str, table: HierarchicalTable, fields: Sequence[pa.Field]) -> pa.Table:
    """The rows of a file with keys, figure and status, whatever its format."""
    figures = {field.name: field.type for field in fields}
    if format_ == SDMX:
        return tabular.read_observations(path, table.name, table.coded, figures, gaps=True)
    named = dict.fromkeys(table.coded.names, pa.string()) | figures
    return table.coded.labelled(tabular.read_columns(path, named, gaps=True))


def _labels(table: HierarchicalTable) -> list[pa.Array]:
    labels, _ = table.lines
    return [pa.array([label[at] for label in labels], pa.string()) for at in range(len(table.columns))]


# What is said to the readers of a release.


PROTECTION = (
    "Some figures are left out, so that small ones cannot be worked out from the others. The statement says what this "
    "promises, and what it does not."
)
NOTES = (
    f"status is {PUBLISHED!r} or {SUPPRESSED!r}. A suppressed figure is left out: it is unknown, and it is not zero.",
    "Published figures are exact. Cells add up to their totals where all of them are published; where one is "
    "suppressed, take the total from the table.",
    "Whether a figure is suppressed for its own sake or to protect another one is not said.",
)
SHARED_NOTE = (
    "Where a column has groups of several groupings, margin names the finest that a group belongs to; a group that two "
    "groupings have in common is listed once, under the finer."
)
VALUE_NOTE = "value is the sum of what the records say, and not a number of records."
WEIGHT_NOTE = "Values are weighted: a record counts its weight times its value."


def codebook(question: Mapping[str, Any]) -> Codebook:
    """What the tables of a release hold."""
    programme, magnitude = described(question), question["value"] is not None
    figures = figure_columns(magnitude=magnitude, unit=unit_of(question))
    tables = tuple(
        DescribedTable(table.name, table.title, table.coded, figures, tuple(table.levels), hierarchies(table))
        for table in programme.tables
    )
    notes = [*NOTES, *([VALUE_NOTE] if magnitude else []), *([WEIGHT_NOTE] if question.get("weight") else [])]
    if any(len(variable.kinds) > 1 for table in tables for variable in table.columns.variables):
        notes.append(SHARED_NOTE)
    formats, agency = asked(question)
    levels = {level: len(codes) for level, codes in programme.areas}
    return Codebook(tables, levels, formats, agency, PROTECTION, tuple(notes))


def hierarchies(table: HierarchicalTable) -> dict[str, CodeHierarchy]:
    """Of every column of a table the hierarchy that has most of the codes that the table lists."""
    return {
        variable.name: _hierarchy(variable, names)
        for variable, names in zip(table.variables, table.listed, strict=True)
    }


def _hierarchy(variable: Variable, names: Sequence[str]) -> CodeHierarchy:
    entries, kept = variable.entries(names), variable.kept(names).tolist()
    places = {at for _, _, at in entries}
    way = max(variable.cut(names).hierarchies, key=lambda each: sum(each[at] >= 0 for at in places))
    if variable.areas:
        times = Counter(label for label, _ in {(label, at) for _, label, at in entries})
        text = {at: label if times[label] == 1 else f"{level} {label}" for level, label, at in reversed(entries)}
        keys: list[tuple[tuple[str, ...], int]] = [((level, label), at) for level, label, at in entries]
    else:
        assert variable.published is not None
        codes = variable.published.codes
        text = {at: codes[kept[at]] for _, _, at in entries}
        keys = [((text[at],), at) for _, _, at in entries]
    listed = {at for at in text if at == ROOT or way[at] >= 0}
    parent = {}
    for at in sorted(listed - {ROOT}):
        above = way[at]
        while above != ROOT and above not in listed:
            above = way[above]
        parent[text[at]] = text.get(above, TOTAL_CODE)
    return CodeHierarchy({key: text[at] for key, at in keys if at in listed}, parent, text.get(ROOT, TOTAL_CODE))


@dataclass(frozen=True)
class ExactFigures:
    """That published figures have no noise: what a sum of them is off by is nothing."""

    figure: str
    note: str = "exact"

    def draws(self, table: str, row: Mapping[str, Any]) -> Sequence[Draw]:  # noqa: ARG002 - the same of every row
        """No noise."""
        return ()


def figure_noise(question: Mapping[str, Any]) -> ExactFigures:
    """What is known of the noise of figures: there is none."""
    return ExactFigures(COUNT if question["value"] is None else VALUE)


class SuppressionExplained(Explanation):
    """What releases with suppressed cells say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:
        return codebook(manifest["plan"]["question"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> ExactFigures:
        return figure_noise(manifest["plan"]["question"])

    def contents(self, plan: Plan) -> str:
        extent = suppression_sizes(described(plan.question))
        return f"{in_plural(extent['tables'], 'table')} of {extent['cells']:,} distinct cells, without what discloses"
