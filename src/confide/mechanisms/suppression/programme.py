"""The tables of a release by cell suppression, and everything else that decides it but the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from confide.arrays import Integers
from confide.documents import load_schema
from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, SpecError
from confide.inputs.frame import Frame, read_frame
from confide.inputs.spelled import reading_facts
from confide.mechanisms.suppression.crossing import of_attribute, of_levels, published_codes
from confide.mechanisms.suppression.joint import joint_facts, linked_people
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.mechanisms.suppression.structure import Flags, LinkedTables, TableDimensions
from confide.mechanisms.suppression.variables import Variable, read_variable
from confide.releases import tabular
from confide.releases.spec import LoadedSpec, find_source, frame_rules
from confide.releases.tabular import (
    AREA,
    COUNT,
    LAYOUT,
    LEVEL,
    SDMX,
    STATUS,
    TOTAL_CODE,
    AreaNames,
    CodedColumns,
    area_names,
    placed,
)
from confide.schema import Attribute, Schema

MOST_CELLS = 500_000
"""More cells in all tables together would take the solver days: somebody crossed what should not be crossed."""

PUBLISHED_FIGURES = (COUNT, "value", STATUS)
"""Columns of figures."""


@dataclass(frozen=True, eq=False)
class HierarchicalTable:
    """A table: its variables, areas first, and the groupings of each that it lists."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    listed: tuple[tuple[str, ...], ...]
    named: bool = False
    """Whether areas have names."""

    @cached_property
    def coded(self) -> CodedColumns:
        """The columns of its files."""
        pairs = zip(self.variables, self.listed, strict=True)
        variables = tuple(variable.coded(names) for variable, names in pairs if not variable.areas)
        areas = any(variable.areas for variable in self.variables)
        return CodedColumns(variables, areas, areas and self.named)

    @property
    def levels(self) -> list[str]:
        """The levels that its rows have, that of all areas together with them where it is one of its own."""
        along = [v.entries(names) for v, names in zip(self.variables, self.listed, strict=True) if v.areas]
        return list(dict.fromkeys(level for entries in along for level, _, _ in entries))

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

    @property
    def areas(self) -> list[tuple[str, tuple[str, ...]]]:
        """The levels of all tables, each with the codes of its areas; all areas together are a level of their own where
        no level of a table has them."""
        levels = set().union(*(table.levels for table in self.tables))
        together = [(TOTAL_CODE, (TOTAL_CODE,))] if TOTAL_CODE in levels else []
        places = [variable for variable in self.variables.values() if variable.areas]
        return together + [(each.name, each.labels) for v in places for each in v.groupings if each.name in levels]

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
            question["area_names"] is not None,
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
            | self._explained()
        )

    def _explained(self) -> dict[str, Any]:
        """What explains the tables to their readers."""
        names = self.area_names
        return {
            "layout": LAYOUT,
            "area_names": None if names is None else names.fingerprint,
            "companions": self.spec.output.explained,
        }

    @cached_property
    def area_names(self) -> AreaNames | None:
        """The names of the areas of all tables, where the frame has any."""
        if self.frame is None:
            return None
        levels = dict(self.programme.areas)
        together = {TOTAL_CODE: (levels.pop(TOTAL_CODE), ("",))} if TOTAL_CODE in levels else {}
        spine = [self.frame.spine.level(name) for name in levels]
        names = area_names(self.frame, spine, named=self.spec.geography.has_names)
        return None if names is None else AreaNames({**together, **names.levels})

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
        if SDMX in spec.output.formats:
            tabular.check_area_codes(code for grouping in variables[AREA].groupings for code in grouping.labels)
    for attribute in schema.attributes:
        if attribute.name in used:
            try:
                tabular.check_column_names([attribute], (LEVEL, AREA, *PUBLISHED_FIGURES))
                recodes = used[attribute.name]
                by_table = [[name for name in part.variables if name in recodes] for part in spec.tables]
                variable = of_attribute(list(recodes.values()), [names for names in by_table if names])
                variables[attribute.name] = replace(variable, published=published_codes(variable, [*recodes.values()]))
            except ConfideError as error:
                findings += error.findings
    if findings:
        raise SpecError(findings)
    named = spec.geography.has_names
    tables = tuple(
        replace(_table(part.name, part.title, part.variables, part.levels, variables), named=named)
        for part in spec.tables
    )
    for position, table in enumerate(tables):
        try:
            table.coded.check(PUBLISHED_FIGURES)
        except ConfideError as error:
            findings += placed(error, loaded.place("tables", position, "variables"))
    if findings:
        raise SpecError(findings)
    cells = sum(prod(table.layout.shape) for table in tables)
    if cells > MOST_CELLS:
        raise SpecError("table-too-large/tables", where=loaded.place("tables"), cells=cells, most_cells=MOST_CELLS)
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
    geography = spec.geography
    levels, _ = frame_rules(geography)
    return read_frame(
        engine,
        source,
        geography.block,
        levels,
        [],
        smallest=geography.smallest,
        block_names=geography.block_names,
    )


def _names(variables: tuple[object, ...]) -> list[str]:
    return [str(getattr(variable, "name", "")) for variable in variables]


def margins_unknown(loaded: LoadedSpec, spec: SuppressionSpec, tables: list[set[str]]) -> list[Finding]:
    """Margins that are to be kept must be of some table."""
    known = set().union(*tables)
    return [
        Finding.of(
            "unknown-margin", where=loaded.place("suppression", "keep"), found=text, known=", ".join(sorted(known))
        )
        for text in spec.suppression.keep
        if text != "total" and not any(set(text.split("*")) <= names for names in tables)
    ]
