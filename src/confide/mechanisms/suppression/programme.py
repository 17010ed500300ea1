"""The tables of a release by cell suppression, and everything else that decides it but the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from confide.documents import load_schema
from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, SpecError
from confide.inputs.frame import Frame, LevelRule, read_frame
from confide.mechanisms.suppression.hierarchies import AREA, LEVEL, Variable, of_attribute, of_levels, read_variable
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.mechanisms.suppression.structure import Flags, Integers, Layout, Linked, link
from confide.releases.load_spec import LoadedSpec, find_source
from confide.schema import Attribute, Schema

MOST_CELLS = 500_000
"""More cells in all tables together would take the solver days: somebody crossed what should not be crossed."""

RESERVED = {"count", "value", "status", AREA, LEVEL, "dataflow", "obs_value", "obs_status", "total"}
"""Columns of our own, in lower case."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table: its variables, areas first, and the groupings of each that it lists."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    listed: tuple[tuple[str, ...], ...]

    @cached_property
    def layout(self) -> Layout:
        pairs = list(zip(self.variables, self.listed, strict=True))
        dimensions = tuple(variable.cut(names[-1]) for variable, names in pairs)
        return Layout(self.name, dimensions, tuple(variable.listed(names) for variable, names in pairs))

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
class Programme:
    """Tables with their variables, as a spec or the plan of a release has them."""

    variables: Mapping[str, Variable]
    tables: tuple[Table, ...]

    @cached_property
    def linked(self) -> Linked:
        return link([table.layout for table in self.tables])

    def kept(self, margins: Sequence[str]) -> Flags:
        """The cells of margins that are never hidden, each named by its variables, such as total or area*sex."""
        wanted = {frozenset() if text == "total" else frozenset(text.split("*")) for text in margins}
        keep = np.zeros(self.linked.structure.cells, np.bool_)
        for table, numbers in zip(self.tables, self.linked.numbers, strict=True):
            inner = table.layout.places > 0
            names = np.array([variable.name for variable in table.variables], object)
            for pattern in np.unique(inner, axis=0):
                if frozenset(names[pattern].tolist()) in wanted:
                    keep[numbers[(inner == pattern).all(axis=1)]] = True
        return keep


def described(question: Mapping[str, Any]) -> Programme:
    """The programme of a plan's ``question``."""
    variables = {name: read_variable(name, plain) for name, plain in question["variables"].items()}
    tables = tuple(
        Table(
            plain["name"],
            plain["title"],
            tuple(variables[name] for name in plain["variables"]),
            tuple(tuple(names) for names in plain["variables"].values()),
        )
        for plain in question["tables"]
    )
    return Programme(variables, tables)


@dataclass(frozen=True, eq=False)
class SuppressionQuestion:
    """Everything that decides the release but the records."""

    spec: SuppressionSpec
    schema: Schema
    records: Source
    frame: Frame | None
    programme: Programme

    @property
    def attributes(self) -> list[Attribute]:
        """The attributes that some table uses, in the order of the schema."""
        return [attribute for attribute in self.schema.attributes if attribute.name in self.programme.variables]

    def facts(self) -> Mapping[str, Any]:
        """What stands in the plan: all of it public."""
        part = self.spec.suppression
        rules = part.model_dump(mode="json", exclude={"range"} if self.spec.data.value is None else set())
        return {
            "record": "person" if self.spec.data.value is None else "contributor",
            "schema": {"id": self.schema.id, "sha256": self.schema.fingerprint},
            "frame": None if self.frame is None else self.frame.fingerprint,
            "attributes": {attribute.name: attribute.title for attribute in self.attributes},
            "value": self.spec.data.value,
            "suppression": rules,
            "variables": {name: variable.as_dict() for name, variable in self.programme.variables.items()},
            "tables": [table.as_dict() for table in self.programme.tables],
        }


def build(loaded: LoadedSpec, spec: SuppressionSpec, schema: Schema, frame: Frame | None) -> Programme:
    """The tables of a spec. Raises with a finding for each that cannot be."""
    findings: list[Finding] = []
    used: dict[str, dict[str, Any]] = {}
    for position, part in enumerate(spec.tables):
        try:
            for name in part.variables:
                recode = schema.variable(name)
                used.setdefault(recode.attribute.name, {})[name] = recode
        except ConfideError as error:
            findings += [replace(each, where=loaded.place("tables", position, "variables")) for each in error.findings]
    variables: dict[str, Variable] = {}
    wanted = {level for part in spec.tables for level in part.levels}
    if frame is not None and wanted:
        variables[AREA] = of_levels([level for level in frame.spine.levels if level.name in wanted])
    for attribute in schema.attributes:
        if attribute.name in used:
            findings += _reserved(attribute)
            try:
                variables[attribute.name] = of_attribute(list(used[attribute.name].values()))
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
    return Programme(variables, tables)


def _table(name: str, title: str, asked: list[str], levels: list[str], variables: Mapping[str, Variable]) -> Table:
    chosen, listed = [], []
    for variable in variables.values():
        names = levels if variable.areas else asked
        of_variable = tuple(each.name for each in variable.groupings if each.name in names)
        if of_variable:
            chosen.append(variable)
            listed.append(of_variable)
    return Table(name, title or name, tuple(chosen), tuple(listed))


def _reserved(attribute: Attribute) -> list[Finding]:
    if attribute.name.lower() not in RESERVED:
        return []
    what = f"an attribute cannot be called {attribute.name!r}: tables have a column of that name"
    expected = "a name other than " + ", ".join(sorted(RESERVED))
    remedy = "rename the attribute in the schema, and map it in [data] columns"
    return [Finding("reserved-name", what, found=attribute.name, expected=expected, remedy=remedy)]


# From a spec to its question: schema, frame and tables, with every problem of them at once.


def prepare(loaded: LoadedSpec, engine: Engine) -> SuppressionQuestion:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, SuppressionSpec)
    findings: list[Finding] = []
    records = find_source(loaded, "records")
    if isinstance(records, Finding):
        findings.append(records)
    schema, frame = None, None
    try:
        schema = load_schema(spec.data.schema_, loaded.path.parent, loaded.place("data", "schema"))
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
    findings = _margins(loaded, spec, [set(_names(table.variables)) for table in programme.tables])
    if findings:
        raise SpecError(findings)
    return SuppressionQuestion(spec, schema, records, frame, programme)


def _frame(loaded: LoadedSpec, spec: SuppressionSpec, engine: Engine) -> Frame:
    source = find_source(loaded, "blocks")
    if isinstance(source, Finding):
        raise SpecError(source)
    levels = [LevelRule(level.name, level.digits, level.column) for level in spec.geography.levels]
    return read_frame(engine, source, spec.geography.block, levels, [])


def _names(variables: tuple[object, ...]) -> list[str]:
    return [str(getattr(variable, "name", "")) for variable in variables]


def _margins(loaded: LoadedSpec, spec: SuppressionSpec, tables: list[set[str]]) -> list[Finding]:
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
