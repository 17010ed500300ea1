"""A table as the plan of a release describes it: from its columns and figures it is written, read and explained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa
import pyarrow.csv
from pydantic import Field

from confide.documents import load_schema
from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, Place
from confide.geography import Geolevel, Spine
from confide.inputs.frame import Frame, read_frame
from confide.releases.folder import ReleaseWriter, SealedRelease
from confide.releases.spec import GeographyPart, LoadedSpec, Name, Part, Problem, find_source, frame_rules
from confide.releases.tabular import rows as tabular_rows
from confide.releases.tabular import table as tabular_table
from confide.schema import Attribute, Schema

CELLS, AREAS = "cells", "areas"
"""The folder of the tables without their margins, and the file of areas."""
T = TypeVar("T")
Rows = Callable[[], Iterator[pa.RecordBatch]]
Kind = Literal["string", "integer", "number"]
Role = Literal["level", "area", "name", "margin", "code", "label", "figure", "member"]
"""``member`` is the code of a record: one of those of its variable, and never that of a total."""


class TableFormats(Protocol):
    """What a spec says of the formats of tables."""

    @property
    def formats(self) -> Sequence[str]:
        """The formats that are asked for."""

    @property
    def agency(self) -> str:
        """The agency in SDMX."""


@dataclass(frozen=True)
class DescribedColumn:
    """A column of a table: what kind of values it has, and what these are."""

    name: str
    kind: Kind
    role: Role
    variable: tabular_table.CodedVariable | None = None
    """The variable whose codes or labels it has."""
    gaps: bool = False
    """Whether some of its values are missing."""


@dataclass(frozen=True, eq=False)
class CodeHierarchy:
    """What the codes of a column are parts of, for formats that know hierarchies. Areas are one column there."""

    codes: Mapping[tuple[str, ...], str]
    """What is in a row, a code or a level and an area, and the code for it. Rows that are not in it have none."""
    parent: Mapping[str, str]
    """Of each code but the total, a code after those that it is a part of."""
    total: str

    @property
    def parts(self) -> dict[str, list[str]]:
        """The parts of the total and of every other code that has some."""
        parts: dict[str, list[str]] = {self.total: []}
        for code, above in self.parent.items():
            parts.setdefault(above, []).append(code)
        return parts

    @classmethod
    def flat(cls, codes: Sequence[str], total: str, levels: Sequence[str] | None = None) -> CodeHierarchy:
        """Codes that are parts of the total alone; of areas with their levels."""
        keys = [(code,) for code in codes] if levels is None else list(zip(levels, codes, strict=True))
        known = {(total,): total} | dict(zip(keys, codes, strict=True))
        return cls(known, dict.fromkeys(codes, total), total)


@dataclass(frozen=True)
class GivenColumns:
    """The columns of a table whose codes are those of a file that an office gave: no plan has them, and which of them
    are totals is not known."""

    names: tuple[str, ...]
    variables: tuple[tabular_table.CodedVariable, ...] = ()
    areas: bool = False
    named: bool = False


@dataclass(frozen=True, eq=False)
class DescribedTable:
    """A table of a release as its plan describes it: written, read and explained by this alone."""

    name: str
    title: str
    columns: tabular_table.CodedColumns | GivenColumns
    figures: tuple[pa.Field, ...]
    levels: tuple[str, ...] = ()
    hierarchies: Mapping[str, CodeHierarchy] = field(default_factory=dict)
    """Of columns whose codes are not all parts of the total alone."""
    layout: tabular_table.Table | None = None
    """Its margins, where it is a table of margins."""

    @property
    def described(self) -> tuple[DescribedColumn, ...]:
        """Its columns, in order."""
        roles: dict[str, Role] = {
            tabular_table.LEVEL: "level",
            tabular_table.AREA: "area",
            tabular_table.AREA_NAME: "name",
            tabular_table.MARGIN: "margin",
        }
        roles = {} if isinstance(self.columns, GivenColumns) else roles
        named = {variable.name: variable for variable in self.columns.variables}
        labels = {variable.label_column: variable for variable in self.columns.variables}
        columns = [
            DescribedColumn(
                name,
                "string",
                "code" if name in named else "label" if name in labels else roles.get(name, "code"),
                named.get(name) or labels.get(name),
            )
            for name in self.columns.names
        ]
        return (*columns, *(_figure(figure) for figure in self.figures))

    @classmethod
    def of(cls, table: tabular_table.Table, figures: Sequence[pa.Field]) -> DescribedTable:
        """A table as a plan describes it."""
        return cls(table.name, table.title, table.coded, tuple(figures), table.levels, layout=table)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of its figures."""
        return {figure.name: figure.type for figure in self.figures}

    def publish(
        self, release: ReleaseWriter, rows: Rows, output: TableFormats, names: tabular_table.AreaNames | None
    ) -> None:
        """Writes ``tables/NAME`` with all rows, ``cells/NAME`` with the cells of the table itself, which can be added
        up, and ``sdmx/NAME.csv`` where it is asked for.

        Args:
            release: The folder of the release.
            rows: The rows with labels, made anew at each call.
            output: The formats that are asked for, and the agency in SDMX.
            names: The names of areas, where they have any.
        """
        columns = self.columns
        assert isinstance(columns, tabular_table.CodedColumns)
        schema = columns.schema(self.figures)
        readers = [format_ for format_ in output.formats if format_ in ("parquet", "csv")]

        def coded() -> Iterator[pa.RecordBatch]:
            return (columns.coded(batch, names, schema) for batch in rows())

        if readers:
            release.table(self.name, schema, coded(), readers, self.title)
            alone = schema.remove(schema.get_field_index(tabular_table.MARGIN))
            cells = (tabular_table.cells_alone(batch) for batch in coded())
            release.table(self.name, alone, cells, readers, f"{self.title}, cells alone", folder=CELLS)
        if tabular_rows.SDMX in output.formats:
            observations = tabular_rows.sdmx_columns(columns, self.figures)
            batches = tabular_rows.sdmx_batches(rows(), columns, observations, output.agency, self.name, names)
            release.text(f"sdmx/{self.name}", observations, batches, self.title, ",", quoted=True)

    def read(self, path: Path, format_: str) -> pa.Table:
        """All rows of a file of the table, with labels. Raises :class:`UnlikePlanError`."""
        columns, gaps = self.columns, any(figure.nullable for figure in self.figures)
        assert isinstance(columns, tabular_table.CodedColumns)
        if format_ == tabular_rows.SDMX:
            return tabular_rows.read_observations(path, self.name, columns, self.types, gaps=gaps)
        return columns.labelled(
            tabular_rows.read_columns(path, dict.fromkeys(columns.names, pa.string()) | self.types, gaps=gaps)
        )

    def placed(self, path: Path, format_: str) -> tabular_rows.TableRows:
        """The same, every row put back into its cell."""
        assert self.layout is not None
        return tabular_rows.placed_rows(self.read(path, format_), self.layout, self.types)


def _figure(figure: pa.Field) -> DescribedColumn:
    if pa.types.is_string(figure.type):
        return DescribedColumn(figure.name, "string", "figure")
    kind: Kind = "integer" if pa.types.is_integer(figure.type) else "number"
    return DescribedColumn(figure.name, kind, "figure", gaps=figure.nullable)


def table_path(name: str, files: Sequence[Mapping[str, Any]]) -> str | None:
    """The file of a table with all its rows: Parquet, or CSV."""
    paths = [str(file["path"]) for file in files if str(file["path"]).split(".")[0] == f"tables/{name}"]
    return min(paths, key=lambda path: not path.endswith(".parquet"), default=None)


def read_described(path: Path, table: DescribedTable) -> pa.Table:
    """The rows of a file of a table, every column of the type that is described."""
    return tabular_rows.read_file(path, table.types)


def listed_areas(release: SealedRelease, most: int | None = None) -> pa.Table | None:
    """What ``areas.csv`` lists; nothing where it is not there, or has more than so many."""
    path = release.table(f"{AREAS}.")
    return None if path is None or (most is not None and release.rows_of(path) > most) else tabular_rows.read_file(path)


def publish_areas(
    release: ReleaseWriter, levels: Sequence[tuple[str, Sequence[str]]], names: tabular_table.AreaNames | None
) -> None:
    """Writes ``areas.csv``: the codes of all areas, level by level, with their names where the frame has them."""
    fields = [
        tabular_table.text_column(tabular_table.LEVEL, "geolevel"),
        tabular_table.text_column(tabular_table.AREA, "code of the geounit or area"),
    ]
    if names is not None:
        fields.append(tabular_table.text_column(tabular_table.AREA_NAME, "name of the geounit or area"))
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for level, codes in levels:
            columns = [pa.array([level] * len(codes), pa.string()), pa.array(codes, pa.string())]
            if names is not None:
                columns.append(names.column(*columns))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    release.text(AREAS, schema, batches(), "Areas", ",", quoted=True)


# What the tables of a release hold, said once for every file that explains them.
#
# A mechanism says it from its manifest alone (:meth:`confide.releases.plan.Explanation.codebook`), so that everybody
# who has a release can make its explanations anew, and ``verify`` does.


@dataclass(frozen=True, eq=False)
class DescribedFile:
    """A file of a release that has columns of its own: records, what the frame says of places, tables of lines."""

    path: str
    """Without its ending: ``tables/records``."""
    title: str
    described: tuple[DescribedColumn, ...]
    key: tuple[str, ...] = ()
    """The columns that tell its rows apart, if any do."""

    @property
    def name(self) -> str:
        """What it is called after its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, eq=False)
class Codebook:
    """Everything that has to be known to read a release."""

    tables: tuple[DescribedTable, ...]
    levels: Mapping[str, int] = field(default_factory=dict)
    """The levels and areas of the tables, with their numbers of areas."""
    formats: tuple[str, ...] = ()
    """What was also asked for: ``argus``, ``csvw``, ``registry``, ``sdmx-csv``, ``xlsx``."""
    agency: str = "CONFIDE"
    protection: str = ""
    """How the figures are protected, in one sentence."""
    notes: tuple[str, ...] = ()
    """What a reader has to know of the figures, a sentence or two each."""
    records: str | None = None
    """The file of released records, without its ending, where there is one."""
    adding: tuple[str, ...] = ()
    """How counts are added up, where that is not the same as in all tables of counts."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Folders with the same figures in the layout of another system, and what they are."""
    files: tuple[DescribedFile, ...] = ()
    """Files beside the tables."""
    consistent: bool = False
    """Whether a margin that several tables have is the same in all of them."""
    area_names: bool | None = None
    """Whether areas have names; without it, as the first table has them."""
    pages: Mapping[str, Callable[[Path, Mapping[str, Any]], str]] = field(default_factory=dict)
    """Further pages by name, each made from the files of the release and its manifest."""

    @property
    def named(self) -> bool:
        """Whether areas have names."""
        return self.tables[0].columns.named if self.area_names is None else self.area_names

    @property
    def coded(self) -> bool:
        """Whether tables have codes and labels, and say which rows are totals."""
        return bool(self.tables) and not any(isinstance(table.columns, GivenColumns) for table in self.tables)

    @property
    def variables(self) -> tuple[tabular_table.CodedVariable, ...]:
        """The variables of all tables and records, each once: a column has the same codes and labels in all of them."""
        of_files = [column.variable for file in self.files for column in file.described if column.variable is not None]
        of_tables = [variable for table in self.tables for variable in table.columns.variables]
        known: dict[tuple[str, tuple[str, ...], tuple[str, ...]], tabular_table.CodedVariable] = {}
        for each in (*of_files, *of_tables):
            known.setdefault((each.name, each.codes, each.labels), each)
        return tuple(known.values())


def asked(question: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """What the plan of a release says of its explanations: formats and agency."""
    stated = question["companions"]
    return tuple(stated["formats"]), str(stated["agency"])


# From a spec to what its tables are made of, with every problem of it at once.


class AskedTable(Part):
    """One table that a spec asks for."""

    name: Name = Field(description="The name of the table, and of its file.")
    title: str = Field("", max_length=200, description="A title for people.")
    variables: list[str] = Field(
        description="The variables crossed: attributes of the schema, or recodes such as age:five-year."
    )
    levels: list[str] = Field(min_length=1, description="The geolevels and areas the table is published for.")
    margins: Literal["all", "none"] = Field("all", description="all: every margin too; none: the inner cells alone.")


def levels_of(geography: GeographyPart) -> list[str]:
    """The names of the levels, and of the areas beside them, that tables can be published for."""
    beside = [area.name for area in geography.areas]
    return [geography.smallest, *(level.name for level in geography.levels), *beside]


def level_problems(tables: Iterable[Any], geography: GeographyPart, *, nested: bool = False) -> Iterator[Problem]:
    """Levels of tables that there are none of, and those that are there twice.

    Args:
        tables: The parts of a spec that ask for tables.
        geography: The levels and areas that there are.
        nested: Whether areas beside the levels will not do, because they do not nest.
    """
    known = [name for name in levels_of(geography) if not nested or name not in {a.name for a in geography.areas}]
    key = "unknown-level/spine" if nested else "unknown-level/correct-spec"
    for position, table in enumerate(tables):
        for place, level in enumerate(table.levels):
            path = ("tables", position, "levels", place)
            if level not in known:
                yield Problem.of(path, key, found=repr(level), level=level, known=", ".join(known))
            elif level in table.levels[:place]:
                yield Problem.of(path, "repeated-level/twice", level=level)


@dataclass(frozen=True, eq=False)
class PublicFiles:
    """What a spec and its public files say, as far as they can be read, and what is wrong with the others."""

    sources: Mapping[str, Source]
    """The files that are there, ``records`` and ``blocks``."""
    schema: Schema | None
    frame: Frame | None
    findings: list[Finding]

    @classmethod
    def of(
        cls, loaded: LoadedSpec, engine: Engine, *, records: bool = True, blocks: bool = True, areas: bool = True
    ) -> PublicFiles:
        """The files of a spec.

        Args:
            loaded: The spec.
            engine: Reads the block table.
            records: Whether there are records, with a schema.
            blocks: Whether there is a frame.
            areas: Whether the frame has the areas of the spec that are no levels.
        """
        sources, findings = dict[str, Source](), list[Finding]()
        for key in (*(["records"] if records else []), *(["blocks"] if blocks else [])):
            source = find_source(loaded, key)
            if isinstance(source, Finding):
                findings.append(source)
            else:
                sources[key] = source
        spec, where = loaded.spec, partial(loaded.place, "data", "schema")
        schema = None
        if records:
            schema = noting(findings, lambda: load_schema(spec.data.schema_, loaded.path.parent, where))  # type: ignore[attr-defined]
        frame, geography = None, spec.geography
        if "blocks" in sources:
            levels, partitions = frame_rules(geography)
            rules = levels, partitions if areas else []
            block, names, smallest = sources["blocks"], geography.block_names, geography.smallest
            frame = noting(findings, lambda: read_frame(engine, block, geography.block, *rules, names, smallest))
        return cls(sources, schema, frame, findings)

    def tables(self, loaded: LoadedSpec, build: Callable[[Any, Schema], T | None]) -> tuple[T, ...]:
        """Every table that a spec asks for and that can be; what is wrong with the others is noted at its place."""
        if self.schema is None:
            return ()
        schema = self.schema
        asked = [
            noting(self.findings, partial(build, part, schema), partial(loaded.place, "tables", position, "variables"))
            for position, part in enumerate(loaded.spec.tables)  # type: ignore[attr-defined]
        ]
        return tuple(table for table in asked if table is not None)


class TabularProblem:
    """What the problems of mechanisms that publish tables of margins have in common."""

    spec: Any
    frame: Frame | None
    tables: Sequence[Any]

    @property
    def spine(self) -> Spine:
        """The levels of the frame."""
        assert self.frame is not None
        return self.frame.spine

    @property
    def attributes(self) -> Sequence[Attribute]:
        """The attributes that some table uses, in the order of the schema."""
        used = {variable.attribute.name for table in self.tables for variable in table.query.variables}
        schema: Schema | None = getattr(self, "schema", None)
        return [] if schema is None else [attribute for attribute in schema.attributes if attribute.name in used]

    @property
    def published_levels(self) -> list[Geolevel]:
        """The levels and areas that some table is published for, each once."""
        names = dict.fromkeys(name for table in self.tables for name in table.layout.levels)
        return [self.spine.level(name) for name in names]

    @property
    def areas(self) -> list[tuple[str, Sequence[str]]]:
        """The codes of all areas of the tables, level by level."""
        return [(level.name, level.codes) for level in self.published_levels]

    @cached_property
    def area_names(self) -> tabular_table.AreaNames | None:
        """The names of the areas of all tables, where the frame has any."""
        return area_names(self.frame, self.published_levels, named=self.spec.geography.has_names)

    @property
    def explained(self) -> dict[str, Any]:
        """What is in the plan of what explains the tables to their readers."""
        names = self.area_names
        return {
            "area_names": None if names is None else names.fingerprint,
            "companions": self.spec.output.explained,
        }


def check_published(
    table: tabular_table.Table, figures: Iterable[str], formats: Collection[str], spine: Spine | None
) -> None:
    """Refuses a table that has two columns of one name, or areas whose codes a format cannot tell from their names."""
    table.coded.check(figures)
    if tabular_rows.SDMX in formats and spine is not None:
        tabular_rows.check_area_codes(code for level in table.levels for code in spine.level(level).codes)


def area_names(frame: Frame | None, levels: Iterable[Geolevel], *, named: bool) -> tabular_table.AreaNames | None:
    """The names of the areas of some levels, as the frame has them; none where a spec names no column of names."""
    if frame is None or not named:
        return None
    return tabular_table.AreaNames(
        {level.name: (level.codes, frame.names.get(level.name, ("",) * level.units)) for level in levels}
    )


def noting(findings: list[Finding], make: Callable[[], T], where: Callable[[], Place] | None = None) -> T | None:
    """What a call gives; nothing where it raises, with what is wrong noted.

    Args:
        findings: What is wrong so far; the findings of the call are added.
        make: The call.
        where: Gives the place in the spec that its findings are about, unless they say it themselves.

    Returns:
        The result, or nothing.
    """
    try:
        return make()
    except ConfideError as error:
        findings += error.findings if where is None else placed(error, where())
        return None


def placed(error: ConfideError, where: Place) -> list[Finding]:
    """The findings of an error, at the place in the spec that they are about."""
    return [replace(finding, where=where) for finding in error.findings]
