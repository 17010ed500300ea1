"""The tables of a release by cell suppression, and everything else that decides it but the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.documents import load_schema
from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, SpecError
from confide.inputs.frame import Frame, LevelRule, read_frame
from confide.inputs.spelled import reading_facts
from confide.mechanisms.suppression.crossing import of_attribute, of_levels
from confide.mechanisms.suppression.joint import joint_facts, linked_people
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.mechanisms.suppression.structure import (
    Flags,
    Integers,
    LinkedTables,
    TableDimensions,
)
from confide.mechanisms.suppression.units import figure_type, published_figures, units_of
from confide.mechanisms.suppression.variables import Variable, read_variable
from confide.releases import tabular
from confide.releases.spec import LoadedSpec, find_source
from confide.releases.tabular import (
    AREA,
    COUNT,
    DATAFLOW,
    LEVEL,
    OBSERVATION,
    SDMX,
    TOTAL_CODE,
    UnlikePlanError,
    figure_column,
    placed,
    text_column,
)
from confide.schema import Attribute, Schema

MOST_CELLS = 500_000
"""More cells in all tables together would take the solver days: somebody crossed what should not be crossed."""

COLUMNS = (LEVEL, AREA, COUNT, "value", "status", DATAFLOW, OBSERVATION, "OBS_STATUS")
"""Columns of our own, plain and in SDMX-CSV."""


@dataclass(frozen=True, eq=False)
class HierarchicalTable:
    """A table: its variables, areas first, and the groupings of each that it lists."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    listed: tuple[tuple[str, ...], ...]

    @cached_property
    def layout(self) -> TableDimensions:
        pairs = list(zip(self.variables, self.listed, strict=True))
        dimensions = tuple(variable.cut(names) for variable, names in pairs)
        return TableDimensions(self.name, dimensions, tuple(variable.listed(names) for variable, names in pairs))

    @cached_property
    def places(self) -> Integers:
        """For each cell of the layout the codes of its variables, by their numbers in the release."""
        kept = [variable.kept(names) for variable, names in zip(self.variables, self.listed, strict=True)]
        places = self.layout.places
        columns = [codes[places[:, axis]] for axis, codes in enumerate(kept)]
        return np.column_stack(columns) if columns else places

    def codes_of(self, variable: Variable, grouping: str) -> Integers:
        """The codes of a grouping, by their numbers in the layout."""
        names = self.listed[self.variables.index(variable)]
        number = {old: new for new, old in enumerate(variable.kept(names).tolist())}
        return np.array([number[code] for code in variable.grouping(grouping).codes.tolist()], np.int64)

    @property
    def columns(self) -> list[str]:
        """The columns that say which cell a row is."""
        return [c for variable in self.variables for c in ([LEVEL, AREA] if variable.areas else [variable.name])]

    @cached_property
    def lines(self) -> tuple[list[tuple[str, ...]], Integers]:
        """The rows of the table: the labels in its columns, and the cell of the layout. Totals first."""
        along = [variable.entries(names) for variable, names in zip(self.variables, self.listed, strict=True)]
        labels, cells = [], []
        for each in product(*along):
            labels.append(
                tuple(
                    text
                    for variable, (grouping, label, _) in zip(self.variables, each, strict=True)
                    for text in ((grouping, label) if variable.areas else (label,))
                )
            )
            cells.append(tuple(code for _, _, code in each))
        places = np.array(cells, np.int64).reshape(len(cells), len(along))
        if not along:
            return labels, np.zeros(1, np.int64)
        at: Integers = np.asarray(np.ravel_multi_index(tuple(places.T), self.layout.shape), np.int64)
        return labels, at

    def as_dict(self) -> dict[str, Any]:
        listed = {v.name: list(names) for v, names in zip(self.variables, self.listed, strict=True)}
        return {"name": self.name, "title": self.title, "variables": listed}


@dataclass(frozen=True, eq=False)
class SuppressionProgramme:
    """Tables with their variables, as a spec or the plan of a release has them."""

    variables: Mapping[str, Variable]
    tables: tuple[HierarchicalTable, ...]

    @cached_property
    def linked(self) -> LinkedTables:
        return linked_people([table.layout for table in self.tables])

    def kept(self, margins: Sequence[str]) -> Flags:
        """The cells of margins that are never suppressed, each named by its variables, such as total or area*sex."""
        wanted = {frozenset() if text == "total" else frozenset(text.split("*")) for text in margins}
        keep = np.zeros(self.linked.structure.cells, np.bool_)
        for table, numbers in zip(self.tables, self.linked.numbers, strict=True):
            inner = table.layout.places > 0
            names = np.array([variable.name for variable in table.variables], object)
            for pattern in np.unique(inner, axis=0):
                if frozenset(names[pattern].tolist()) in wanted:
                    keep[numbers[(inner == pattern).all(axis=1)]] = True
        return keep


def unit_of(question: Mapping[str, Any]) -> Fraction:
    """What every figure of a plan is a multiple of."""
    return Fraction(question.get("unit", 1))


def described(question: Mapping[str, Any]) -> SuppressionProgramme:
    """The programme of a plan's ``question``."""
    variables = {name: read_variable(name, plain) for name, plain in question["variables"].items()}
    tables = tuple(
        HierarchicalTable(
            plain["name"],
            plain["title"],
            tuple(variables[name] for name in plain["variables"]),
            tuple(tuple(names) for names in plain["variables"].values()),
        )
        for plain in question["tables"]
    )
    return SuppressionProgramme(variables, tables)


@dataclass(frozen=True, eq=False)
class SuppressionProblem:
    """Everything that decides the release but the records."""

    spec: SuppressionSpec
    schema: Schema
    records: Source
    frame: Frame | None
    programme: SuppressionProgramme

    @property
    def value(self) -> str | None:
        """The column of magnitudes; None where tables count."""
        return self.spec.data.value

    @property
    def attributes(self) -> list[Attribute]:
        """The attributes that some table uses, in the order of the schema."""
        return [attribute for attribute in self.schema.attributes if attribute.name in self.programme.variables]

    def facts(self) -> Mapping[str, Any]:
        """What stands in the plan: all of it public."""
        part = self.spec.suppression
        joint = joint_facts(self.programme.linked)
        rules = part.model_dump(mode="json", exclude={"range"} if self.value is None else set())
        return (
            self._of_values()
            | {
                "record": "person" if self.value is None else "contributor",
                "schema": {"id": self.schema.id, "sha256": self.schema.fingerprint},
                "frame": None if self.frame is None else self.frame.fingerprint,
                "attributes": {attribute.name: attribute.title for attribute in self.attributes},
                "value": self.value,
                "suppression": rules,
                "variables": {name: variable.as_dict() for name, variable in self.programme.variables.items()},
                "tables": [table.as_dict() for table in self.programme.tables],
            }
            | ({} if joint is None else {"joint": joint})
            | reading_facts(self.schema, self.records, None if self.frame is None else self.spec.geography.block)
        )

    def _of_values(self) -> dict[str, Any]:
        """What stands in the plan of magnitudes besides: what is declared of values, and against whom it protects."""
        data = self.spec.data
        if self.value is None:
            return {}
        declared = {"contributor": data.contributor, "weight": data.weight}
        declared["below_zero"] = None if data.below_zero is None else str(data.below_zero)
        declared["unit"] = None if data.figure_unit == 1 else str(data.figure_unit)
        against = {"insiders": self.spec.suppression.singletons, "unions": True}
        return {key: value for key, value in declared.items() if value is not None} | against


def build(loaded: LoadedSpec, spec: SuppressionSpec, schema: Schema, frame: Frame | None) -> SuppressionProgramme:
    """The tables of a spec. Raises with a finding for each that cannot be."""
    findings: list[Finding] = []
    used: dict[str, dict[str, Any]] = {}
    for position, part in enumerate(spec.tables):
        try:
            for name in part.variables:
                recode = schema.variable(name)
                used.setdefault(recode.attribute.name, {})[name] = recode
        except ConfideError as error:
            findings += placed(error, loaded.place("tables", position, "variables"))
    variables: dict[str, Variable] = {}
    wanted = {level for part in spec.tables for level in part.levels}
    if frame is not None and wanted:
        variables[AREA] = of_levels([level for level in frame.spine.levels if level.name in wanted])
    for attribute in schema.attributes:
        if attribute.name in used:
            try:
                tabular.check_column_names([attribute], COLUMNS)
                recodes = used[attribute.name]
                by_table = [[name for name in part.variables if name in recodes] for part in spec.tables]
                variables[attribute.name] = of_attribute(list(recodes.values()), [names for names in by_table if names])
            except ConfideError as error:
                findings += error.findings
    if findings:
        raise SpecError(findings)
    tables = tuple(_table(part.name, part.title, part.variables, part.levels, variables) for part in spec.tables)
    cells = sum(prod(table.layout.shape) for table in tables)
    if cells > MOST_CELLS:
        what, expected = "the tables have too many cells", f"at most {MOST_CELLS:,} together"
        remedy = "use coarser recodes or fewer levels, or split the release"
        raise SpecError("table-too-large", what, loaded.place("tables"), f"{cells:,} cells", expected, remedy)
    return SuppressionProgramme(variables, tables)


def _table(
    name: str, title: str, asked: list[str], levels: list[str], variables: Mapping[str, Variable]
) -> HierarchicalTable:
    chosen, listed = [], []
    for variable in variables.values():
        names = levels if variable.areas else asked
        of_variable = tuple(each.name for each in variable.groupings if each.name in names)
        if of_variable:
            chosen.append(variable)
            listed.append(of_variable)
    return HierarchicalTable(name, title or name, tuple(chosen), tuple(listed))


# From a spec to its prepared problem: schema, frame and tables, with every problem of them at once.


def prepare(loaded: LoadedSpec, engine: Engine) -> SuppressionProblem:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, SuppressionSpec)
    findings: list[Finding] = []
    records = find_source(loaded, "records")
    if isinstance(records, Finding):
        findings.append(records)
    schema, frame = None, None
    try:
        schema = load_schema(spec.data.schema_, loaded.path.parent, partial(loaded.place, "data", "schema"))
    except ConfideError as error:
        findings += error.findings
    if any(table.levels for table in spec.tables):
        try:
            frame = _frame(loaded, spec, engine)
        except ConfideError as error:
            findings += error.findings
    programme = None
    if schema is not None:
        try:
            programme = build(loaded, spec, schema, frame)
        except ConfideError as error:
            findings += error.findings
    if findings or schema is None or programme is None or isinstance(records, Finding):
        raise SpecError(findings)
    findings = margins_unknown(loaded, spec, [set(_names(table.variables)) for table in programme.tables])
    if findings:
        raise SpecError(findings)
    return SuppressionProblem(spec, schema, records, frame, programme)


def _frame(loaded: LoadedSpec, spec: SuppressionSpec, engine: Engine) -> Frame:
    source = find_source(loaded, "blocks")
    if isinstance(source, Finding):
        raise SpecError(source)
    levels = [LevelRule(level.name, level.digits, level.column) for level in spec.geography.levels]
    return read_frame(engine, source, spec.geography.block, levels, [], smallest=spec.geography.smallest)


def _names(variables: tuple[object, ...]) -> list[str]:
    return [str(getattr(variable, "name", "")) for variable in variables]


def margins_unknown(loaded: LoadedSpec, spec: SuppressionSpec, tables: list[set[str]]) -> list[Finding]:
    """Margins that are to be kept must be of some table."""
    known = set().union(*tables)
    return [
        Finding(
            code="unknown-margin",
            what="a margin to be kept is none of any table",
            where=loaded.place("suppression", "keep"),
            found=text,
            expected="total, or names such as " + ", ".join(sorted(known)) + ", joined by * if a table crosses them",
            remedy="correct the name",
        )
        for text in spec.suppression.keep
        if text != "total" and not any(set(text.split("*")) <= names for names in tables)
    ]


# The tables of a release: every cell with its figure, or without one where it is suppressed.
#
# Every cell is listed, zeros too. A suppressed cell has no figure and the status ``suppressed``; why it is suppressed
# is
# not said, and must not be: which cells are primary is part of what is protected.


ONE = Fraction(1)
PUBLISHED, SUPPRESSED = "published", "suppressed"
VALUE, STATUS = "value", "status"
OBSERVATION_STATUS = "OBS_STATUS"
NORMAL, MISSING = "A", "Q"
"""Codes of the SDMX list of observation status: a normal value, a missing one that is suppressed."""


def plain_schema(table: HierarchicalTable, *, magnitude: bool, unit: Fraction = ONE) -> pa.Schema:
    """The columns of a table for its readers."""
    columns = [text_column(name, f"{name}; {TOTAL_CODE}: all together") for name in table.columns]
    what = "the sum of the records' values" if magnitude else "records"
    description = f"{what}; empty where suppressed"
    figure = figure_column(VALUE if magnitude else COUNT, description, figure_type(unit), gaps=True)
    return pa.schema([*columns, figure, text_column(STATUS, f"{PUBLISHED} or {SUPPRESSED}")])


def sdmx_schema(table: HierarchicalTable, *, unit: Fraction = ONE) -> pa.Schema:
    """The columns of SDMX-CSV."""
    figure = figure_column(OBSERVATION, kind=figure_type(unit), gaps=True)
    return tabular.sdmx_schema(table.columns, figure, text_column(OBSERVATION_STATUS, ""))


def plain_rows(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, *, magnitude: bool, unit: Fraction = ONE
) -> Iterator[pa.RecordBatch]:
    """The rows of a table; ``figures``, in units, and ``suppressed`` are those of its layout's cells."""
    values = _values(table, figures, suppressed, PUBLISHED, SUPPRESSED, unit)
    yield tabular.plain_rows(plain_schema(table, magnitude=magnitude, unit=unit), _labels(table), values)


def sdmx_rows(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, agency: str, *, unit: Fraction = ONE
) -> Iterator[pa.RecordBatch]:
    """The same rows as SDMX-CSV."""
    values = _values(table, figures, suppressed, NORMAL, MISSING, unit)
    yield tabular.sdmx_rows(sdmx_schema(table, unit=unit), agency, table.name, _labels(table), values)


def read_table(
    path: Path, format_: str, table: HierarchicalTable, *, magnitude: bool, unit: Fraction = ONE
) -> tuple[Integers, Flags]:
    """The figures, in units, and flags of a written table, for the cells of its layout; cells that are not listed are
    suppressed.

    Raises :class:`UnlikePlanError`.
    """
    sdmx = format_ == SDMX
    schema = sdmx_schema(table, unit=unit) if sdmx else plain_schema(table, magnitude=magnitude, unit=unit)
    rows = tabular.read_columns(path, {field.name: field.type for field in schema}, gaps=True)
    if sdmx:
        tabular.check_flow(rows, table.name)
    labels, cells = table.lines
    if rows.num_rows != len(labels):
        raise UnlikePlanError("there are more rows, or fewer, than the table has cells")
    columns = [name.upper() for name in table.columns] if sdmx else table.columns
    for at, name in enumerate(columns):
        if rows.column(name).to_pylist() != [label[at] for label in labels]:
            raise UnlikePlanError(f"{name} does not have the labels of the plan in their order")
    status = np.array(rows.column(OBSERVATION_STATUS if sdmx else STATUS).to_pylist(), object)
    normal, missing = (NORMAL, MISSING) if sdmx else (PUBLISHED, SUPPRESSED)
    if not np.isin(status, [normal, missing]).all():
        raise UnlikePlanError("a status is none that a cell can have")
    figure = rows.column(len(schema) - 2).combine_chunks()
    absent: Flags = np.asarray(figure.is_null().to_numpy(zero_copy_only=False), np.bool_)
    if not np.array_equal(absent, status == missing):
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


def _labels(table: HierarchicalTable) -> list[pa.Array]:
    labels, _ = table.lines
    return [pa.array([label[at] for label in labels], pa.string()) for at in range(len(table.columns))]


def _values(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, normal: str, missing: str, unit: Fraction
) -> list[pa.Array]:
    _, cells = table.lines
    status = np.where(suppressed[cells], missing, normal).tolist()
    return [published_figures(figures[cells], unit, suppressed[cells]), pa.array(status, pa.string())]
