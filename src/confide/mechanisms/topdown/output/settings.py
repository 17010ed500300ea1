"""What a TopDown release contains apart from the plain records: a layout of microdata, and tables.

Both are decided by the spec, the strategy and public definitions before a record is read. They are part of the plan's
question, whole, so that the plan hash binds them and a release can be checked from its own files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from confide.documents import FileKind, load_named
from confide.errors import ConfideError, Finding, SpecError
from confide.geography import Spine
from confide.inputs.frame import Frame
from confide.mechanisms.topdown.output.tabulation import (
    FIGURES,
    RESERVED,
    Axes,
    CrossedTables,
    TabulatedTable,
    TabulationFile,
    axes_of,
    expand,
    plan_crossed,
)
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.mechanisms.topdown.strategy import ALIKE, Strategy
from confide.releases import LoadedSpec, Name, Part, Problem
from confide.releases.companions.programs import absent
from confide.releases.tabular import SDMX, CodedVariable, area_names, check_area_codes, placed
from confide.releases.tabular.table import in_dictionaries, in_dictionary
from confide.schema import Schema

# Layouts of microdata: the records with the columns and codes that another system gives them, such as the MDF.
#
# A layout is a list of columns. Each is a constant, a part of the block code, a running number, or an attribute in
# other codes. Rows that are known from the frame alone, such as facilities in a file of units, can follow the records.
# Layouts are files: shipped by name, or the user's (``docs/concepts/topdown-output.md``).


ROWS_AT_ONCE = 1 << 18


class ColumnPart(Part):
    """A column: exactly one of `constant`, `block`, `number` and `attribute`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]
    title: str = Field(min_length=1, max_length=200)
    constant: str | None = Field(None, description="The same text in every row.")
    block: list[int] | None = Field(
        None, min_length=2, max_length=2, description="A part of the block code: the first character, and how many."
    )
    number: bool = Field(False, description="The number of the row, from 1.")
    attribute: str | None = Field(None, description="An attribute of the records, in other codes:")
    codes: dict[str, str] = Field(default_factory=dict, description="Its code, or a range of codes = the text here.")
    plus: int | None = Field(None, description="Or: the text is its code plus this number,")
    width: int = Field(1, ge=1, le=20, description="with leading zeros to this width.")

    @property
    def kinds(self) -> int:
        """How many of the four the column says it is."""
        return sum((self.constant is not None, self.block is not None, self.number, self.attribute is not None))

    def texts(self, codes: Any) -> list[str | None]:
        """For each code of the attribute, in order, the text that stands for it."""
        if self.plus is not None:
            return [str(code + self.plus).zfill(self.width) if isinstance(code, int) else None for code in codes]
        integer_codes = isinstance(codes[0], int)
        meant: dict[Any, str] = {}
        for key, text in self.codes.items():
            for code in expand(codes, [key]):
                meant[int(code) if integer_codes else code] = text
        return [meant.get(code) for code in codes]


class AppendedPart(Part):
    """Rows from the frame after the records: as many in each block as its columns count."""

    frame: list[str] = Field(min_length=1, description="Columns of the block table, added up.")
    values: dict[str, str] = Field(description="The text in each column that is an attribute of the records.")


class LayoutFile(Part):
    """A layout file."""

    id: Name
    title: str = Field(min_length=1, max_length=200)
    provenance: str = Field(min_length=1, description="One sentence: where the layout comes from.")
    block_digits: int = Field(ge=1, le=100, description="The block codes must be so many digits.")
    columns: list[ColumnPart] = Field(min_length=1)
    appended: AppendedPart | None = None

    def problems(self, axes: Axes, frame_columns: tuple[str, ...]) -> Iterator[Problem]:
        """What is wrong with the layout, or keeps it from being used with a schema and a frame."""
        names = [column.name for column in self.columns]
        for position, column in enumerate(self.columns):
            path = ("columns", position)
            if names.count(column.name) > 1:
                yield Problem.of((*path, "name"), "layout-column/two", column=column.name)
            if column.kinds != 1:
                yield Problem.of(path, "layout-column/clear", column=column.name)
            elif column.block and not 1 <= column.block[0] <= sum(column.block) - 1 <= self.block_digits:
                yield Problem.of((*path, "block"), "layout-column/part", block_digits=self.block_digits)
            elif column.attribute is not None:
                yield from _attribute(path, column, axes)
        if self.appended is not None:
            attributes = {column.name for column in self.columns if column.attribute is not None}
            if set(self.appended.values) != attributes:
                yield Problem.of(
                    ("appended", "values"), "layout-appended/rows", attributes=", ".join(sorted(attributes))
                )
            for name in self.appended.frame:
                if name not in frame_columns:
                    yield Problem.of(
                        ("appended", "frame"),
                        "layout-appended/strategy",
                        found=repr(name),
                        name=name,
                        frame_columns=", ".join(frame_columns),
                    )


@dataclass(frozen=True)
class MicrodataLayout:
    """A layout for records of known attributes."""

    file: LayoutFile
    axes: Axes

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, all text but running numbers."""
        return pa.schema(
            pa.field(column.name, pa.int64() if column.number else pa.string(), False, {"description": column.title})
            for column in self.file.columns
        )

    def encode(self, records: pa.RecordBatch | pa.Table, block: str, first: int) -> pa.RecordBatch:
        """The same rows in this layout, with texts in dictionaries; ``first`` is the number of the first. Codes must be
        those of the attributes."""
        table = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records
        blocks = table.column(block).combine_chunks().dictionary_encode()
        if isinstance(blocks, pa.ChunkedArray):
            blocks = blocks.combine_chunks()
        texts: dict[str, pa.Array] = {}
        for column in self.file.columns:
            if column.attribute is not None:
                codes = self.axes[column.attribute]
                index = pc.index_in(table.column(column.attribute), value_set=pa.array(codes))
                listed = pa.array(column.texts(codes), pa.string())
                texts[column.name] = pa.DictionaryArray.from_arrays(index.combine_chunks(), listed)
        return self._batch(blocks, texts, first, len(table))

    def appended(self, blocks: pa.Array, times: NDArray[np.int64], first: int) -> Iterator[pa.RecordBatch]:
        """The rows that the frame tells: ``times`` for each block, in the order of the blocks."""
        assert self.file.appended is not None, "the layout has no such rows"
        rows = np.repeat(np.arange(len(times), dtype=np.int32), times)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            here = rows[start : start + ROWS_AT_ONCE]
            used, index = np.unique(here, return_inverse=True)
            coded = pa.DictionaryArray.from_arrays(index.astype(np.int32), blocks.take(pa.array(used)))
            texts = {name: _constant(text, len(here)) for name, text in self.file.appended.values.items()}
            yield self._batch(coded, texts, first + start, len(here))

    def _batch(self, blocks: pa.DictionaryArray, texts: dict[str, pa.Array], first: int, rows: int) -> pa.RecordBatch:
        columns = []
        for column in self.file.columns:
            if column.constant is not None:
                columns.append(_constant(column.constant, rows))
            elif column.number:
                columns.append(pa.array(np.arange(first, first + rows, dtype=np.int64)))
            elif column.block is not None:
                start, length = column.block
                part = pc.utf8_slice_codeunits(blocks.dictionary, start - 1, start - 1 + length)
                columns.append(pa.DictionaryArray.from_arrays(blocks.indices, part))
            else:
                columns.append(texts[column.name])
        return pa.RecordBatch.from_arrays(columns, schema=in_dictionaries(self.schema))


def _constant(text: str, rows: int) -> pa.Array:
    return in_dictionary([text], np.zeros(rows, np.int64))


def _attribute(path: tuple[str | int, ...], column: ColumnPart, axes: Axes) -> Iterator[Problem]:
    name = column.attribute
    assert name is not None
    if name not in axes:
        yield Problem.of(
            (*path, "attribute"), "unknown-attribute/spec", found=repr(name), name=name, axes=", ".join(axes)
        )
        return
    codes = list(axes[name])
    try:
        texts = column.texts(codes)
    except ValueError:
        texts = [None]
    if (column.plus is None) == (not column.codes) or None in texts:
        missing = [code for code, text in zip(codes, texts, strict=False) if text is None]
        yield Problem.of((*path, "attribute"), "layout-codes", name=name, missing=missing[:5])


LAYOUT, TABULATION = (
    FileKind(name, code=f"bad-{name}", own_codes=False, shipped=f"{name}s", remedy=f"correct the {name} file")
    for name in ("layout", "tabulation")
)
RECORDS, UNITS, MDF = RESERVED
"""The tables of a release that count nothing: protected records, what the frame says of the blocks, and the layout."""

Model = TypeVar("Model", bound=Part)


@dataclass(frozen=True)
class ExplainedRelease:
    """What a release has beside records and tables of lines: labels, crossed tables, and files that explain."""

    attributes: tuple[CodedVariable, ...] = ()
    """The attributes of the records, with codes and labels."""
    crossed: CrossedTables = field(default_factory=CrossedTables)
    units: Mapping[str, int] = field(default_factory=dict)
    """All levels and areas of the frame, with their numbers of units."""
    area_names: str | None = None
    """The fingerprint of the names of areas, where they have any."""
    companions: Mapping[str, Any] = field(default_factory=dict)
    """What is asked for: formats and agency."""

    @property
    def by_name(self) -> dict[str, CodedVariable]:
        """The attributes by their names."""
        return {attribute.name: attribute for attribute in self.attributes}

    @property
    def formats(self) -> tuple[str, ...]:
        """What is asked for beside the tables."""
        return tuple(self.companions["formats"])

    def as_dict(self) -> dict[str, Any]:
        """All of it in a plan."""
        return {
            "labels": {
                attribute.name: {"title": attribute.title, "labels": list(attribute.labels)}
                for attribute in self.attributes
            },
            "units": dict(self.units),
            "area_names": self.area_names,
            "companions": dict(self.companions),
        } | self.crossed.as_dict()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], axes: Axes) -> ExplainedRelease:
        """From the plan of a release, whose records have these attributes."""
        attributes = tuple(
            CodedVariable(name, tuple(str(code) for code in axes[name]), tuple(said["labels"]), said["title"])
            for name, said in values["labels"].items()
        )
        crossed = CrossedTables.read(values)
        return cls(attributes, crossed, values["units"], values["area_names"], values["companions"])


@dataclass(frozen=True)
class Output:
    """The layout of the microdata beside the records, and the tables, each for these levels and areas."""

    axes: Axes = field(default_factory=dict)
    layout: LayoutFile | None = None
    tabulation: TabulationFile | None = None
    levels: tuple[str, ...] = ()
    explained: ExplainedRelease = field(default_factory=ExplainedRelease)

    @cached_property
    def tables(self) -> tuple[TabulatedTable, ...]:
        """The tables, with the cells of each line."""
        return () if self.tabulation is None else self.tabulation.build(self.axes)

    @property
    def microdata(self) -> MicrodataLayout | None:
        """The layout, for the attributes of the records."""
        return None if self.layout is None else MicrodataLayout(self.layout, self.axes)

    def as_dict(self) -> dict[str, Any]:
        """Everything that decides what is written, for the plan."""
        return {
            "codes": {name: list(codes) for name, codes in self.axes.items()},
            "layout": None if self.layout is None else self.layout.model_dump(exclude_defaults=True),
            "tabulation": None if self.tabulation is None else self.tabulation.model_dump(exclude_defaults=True),
            "levels": list(self.levels),
            "explained": self.explained.as_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Output:
        """From the plan of a release."""
        layout, tabulation = values["layout"], values["tabulation"]
        return cls(
            dict(values["codes"]),
            None if layout is None else LayoutFile.model_validate(layout),
            None if tabulation is None else TabulationFile.model_validate(tabulation),
            tuple(values["levels"]),
            ExplainedRelease.from_dict(values["explained"], values["codes"]),
        )


def prepare_output(loaded: LoadedSpec, strategy: Strategy, frame: Frame) -> Output:
    """The output that a spec asks for. Raises with all findings."""
    spec, spine = loaded.spec, frame.spine
    assert isinstance(spec, TopDownSpec)
    choices, axes = spec.output, axes_of(strategy.schema)
    findings = list(_clashes(loaded, spine, strategy.constraints.frame_columns))
    findings += absent(choices.formats, loaded.place("output", "formats"))
    layout = tabulation = None
    if choices.microdata is None or MDF in choices.microdata:
        must = choices.microdata is not None or choices.layout is not None
        name = choices.layout or f"mdf-{ALIKE.get(strategy.id, strategy.id)}"
        columns = strategy.constraints.frame_columns
        layout, wrong = _load(loaded, LAYOUT, name, LayoutFile, lambda file: file.problems(axes, columns), must)
        if layout is not None and not _fits(layout, spine):
            wrong = [_digits(loaded, layout)] if must else []
            layout = None
        findings += wrong
    if choices.tables is None or choices.tables:
        must = choices.tabulation is not None or choices.tables is not None
        name = choices.tabulation or ALIKE.get(strategy.id, strategy.id)
        tabulation, wrong = _load(
            loaded, TABULATION, name, TabulationFile, lambda file: file.complete().problems(axes), must
        )
        tabulation = None if tabulation is None else tabulation.complete()
        findings += wrong
    if tabulation is not None and choices.tables is not None:
        names = [table.name for table in tabulation.tables]
        for position, table in enumerate(choices.tables):
            if table not in names:
                place = loaded.place("output", "tables", position)
                findings.append(
                    Finding.of("unknown-table", where=place, found=repr(table), table=table, names=", ".join(names))
                )
        if not findings:
            tabulation = tabulation.only(choices.tables)
    if findings:
        raise SpecError(findings)
    levels = [name for name in spine.names if choices.table_levels is None or name in choices.table_levels]
    explained = _explained(loaded, strategy, frame, {name: spine.level(name).units for name in levels}, tabulation)
    return Output(axes, layout, tabulation, tuple(levels if tabulation else ()), explained)


def _explained(
    loaded: LoadedSpec, strategy: Strategy, frame: Frame, units: Mapping[str, int], tabulation: TabulationFile | None
) -> ExplainedRelease:
    """Labels and crossed tables, for the levels in ``units``. Raises with a finding."""
    spec = loaded.spec
    assert isinstance(spec, TopDownSpec)
    choices, levels = spec.output, [*frame.spine.levels, *frame.spine.areas]
    names = area_names(frame, levels, named=spec.geography.has_names)
    taken = {*RESERVED, *(table.name for table in (tabulation.tables if tabulation else ()))}
    try:
        attributes = _attributes(strategy.schema)
        crossed = plan_crossed(
            strategy, units, choices.ways, choices.crossed_rows, taken=taken, named=names is not None
        )
        for table in crossed.tables:
            table.columns.check(figure.name for figure in FIGURES)
        if SDMX in choices.formats:
            check_area_codes(code for level in levels for code in level.codes)
    except ConfideError as error:
        remedy = "or leave these tables out: [output] crossed_tables = 0, without sdmx-csv"
        findings = [replace(finding, remedy=f"{finding.remedy}; {remedy}") for finding in error.findings]
        raise SpecError(placed(SpecError(findings), loaded.place("topdown", "strategy"))) from None
    return ExplainedRelease(
        attributes,
        crossed,
        {level.name: level.units for level in levels},
        None if names is None else names.fingerprint,
        choices.explained,
    )


def _attributes(schema: Schema) -> tuple[CodedVariable, ...]:
    return tuple(
        CodedVariable(
            attribute.name,
            tuple(str(level.code) for level in attribute.levels),
            tuple(level.label for level in attribute.levels),
            attribute.title,
        )
        for attribute in schema.attributes
    )


def _load(
    loaded: LoadedSpec,
    kind: FileKind,
    name: str,
    model: type[Model],
    problems: Callable[[Model], Iterable[Problem]],
    must: bool,
) -> tuple[Model | None, list[Finding]]:
    """A definition, shipped or the user's; or none, and why. One that nobody asked for may be absent or not fit."""
    if name not in kind.names and not must:
        return None, []
    key = kind.name
    try:
        read = load_named(name, loaded.path.parent, model, kind=kind, where=loaded.place("output", key))
    except SpecError as error:
        return None, list(error.findings)
    remedy = f"correct the {key}, or name another under [output] {key}"
    wrong = [read.finding(replace(problem, remedy=remedy)) for problem in problems(read.value)]
    return (None, wrong if must else []) if wrong else (read.value, [])


def _fits(layout: LayoutFile, spine: Spine) -> bool:
    """Whether every block code has the digits that the layout cuts."""
    codes = np.array(spine.blocks.codes)
    return bool((np.char.str_len(codes) == layout.block_digits).all() and np.char.isdigit(codes).all())


def _digits(loaded: LoadedSpec, layout: LayoutFile) -> Finding:
    return Finding.of(
        "layout-blocks", where=loaded.place("output", "microdata"), layout=layout.id, block_digits=layout.block_digits
    )


def _clashes(loaded: LoadedSpec, spine: Spine, columns: tuple[str, ...]) -> Iterable[Finding]:
    """Levels, areas and counts of the frame are beside the block code in one released table."""
    spec = loaded.spec
    taken = {spec.geography.block, *columns}
    for name in (level.name for level in (*spine.levels[:-1], *spine.areas)):
        if name in taken:
            yield Finding.of(
                "level-name",
                where=loaded.place("geography"),
                found=repr(name),
                name=name,
                taken=", ".join(sorted(taken)),
            )
