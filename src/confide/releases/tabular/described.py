"""A table as the plan of a release describes it: from its columns and figures it is written, read and explained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.geography import Geolevel
from confide.inputs.frame import Frame
from confide.releases.folder import ReleaseWriter
from confide.releases.tabular.coded import (
    AREA,
    AREA_NAME,
    LEVEL,
    MARGIN,
    AreaNames,
    CodedColumns,
    CodedVariable,
    cells_alone,
    text_column,
)
from confide.releases.tabular.rows import SDMX, TableRows, placed_rows, read_columns
from confide.releases.tabular.sdmx import read_observations, sdmx_batches, sdmx_columns
from confide.releases.tabular.table import Table

CELLS, AREAS = "cells", "areas"
"""The folder of the tables without their margins, and the file of areas."""
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
    variable: CodedVariable | None = None
    """The variable whose codes or labels it has."""
    gaps: bool = False
    """Whether some of its values are missing."""


@dataclass(frozen=True, eq=False)
class CodeHierarchy:
    """What the codes of a column are parts of, for formats that know hierarchies. Areas are one column there."""

    codes: Mapping[tuple[str, ...], str]
    """What stands in a row, a code or a level and an area, and the code for it. Rows that are not in it have none."""
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
    variables: tuple[CodedVariable, ...] = ()
    areas: bool = False
    named: bool = False


@dataclass(frozen=True, eq=False)
class DescribedTable:
    """A table of a release as its plan describes it: written, read and explained by this alone."""

    name: str
    title: str
    columns: CodedColumns | GivenColumns
    figures: tuple[pa.Field, ...]
    levels: tuple[str, ...] = ()
    hierarchies: Mapping[str, CodeHierarchy] = field(default_factory=dict)
    """Of columns whose codes are not all parts of the total alone."""
    layout: Table | None = None
    """Its margins, where it is a table of margins."""

    @property
    def described(self) -> tuple[DescribedColumn, ...]:
        """Its columns, in order."""
        roles: dict[str, Role] = {LEVEL: "level", AREA: "area", AREA_NAME: "name", MARGIN: "margin"}
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
    def of(cls, table: Table, figures: Sequence[pa.Field]) -> DescribedTable:
        """A table as a plan describes it."""
        return cls(table.name, table.title, table.coded, tuple(figures), table.levels, layout=table)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of its figures."""
        return {figure.name: figure.type for figure in self.figures}

    def publish(self, release: ReleaseWriter, rows: Rows, output: TableFormats, names: AreaNames | None) -> None:
        """Writes ``tables/NAME`` with all rows, ``cells/NAME`` with the cells of the table itself, which can be added
        up, and ``sdmx/NAME.csv`` where it is asked for.

        Args:
            release: The folder of the release.
            rows: The rows with labels, made anew at each call.
            output: The formats that are asked for, and the agency in SDMX.
            names: The names of areas, where they have any.
        """
        columns = self.columns
        assert isinstance(columns, CodedColumns)
        schema = columns.schema(self.figures)
        readers = [format_ for format_ in output.formats if format_ in ("parquet", "csv")]

        def coded() -> Iterator[pa.RecordBatch]:
            return (columns.coded(batch, names, schema) for batch in rows())

        if readers:
            release.table(self.name, schema, coded(), readers, self.title)
            alone = schema.remove(schema.get_field_index(MARGIN))
            cells = (cells_alone(batch) for batch in coded())
            release.table(self.name, alone, cells, readers, f"{self.title}, cells alone", folder=CELLS)
        if SDMX in output.formats:
            observations = sdmx_columns(columns, self.figures)
            batches = sdmx_batches(rows(), columns, observations, output.agency, self.name, names)
            release.text(f"sdmx/{self.name}", observations, batches, self.title, ",", quoted=True)

    def read(self, path: Path, format_: str) -> pa.Table:
        """All rows of a file of the table, with labels. Raises :class:`UnlikePlanError`."""
        columns, gaps = self.columns, any(figure.nullable for figure in self.figures)
        assert isinstance(columns, CodedColumns)
        if format_ == SDMX:
            return read_observations(path, self.name, columns, self.types, gaps=gaps)
        return columns.labelled(read_columns(path, dict.fromkeys(columns.names, pa.string()) | self.types, gaps=gaps))

    def placed(self, path: Path, format_: str) -> TableRows:
        """The same, every row put back into its cell."""
        assert self.layout is not None
        return placed_rows(self.read(path, format_), self.layout, self.types)


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
    if path.suffix == ".parquet":
        return pq.read_table(path).replace_schema_metadata(None)
    types = {column.name: pa.string() for column in table.described} | table.types
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return pyarrow.csv.read_csv(path, convert_options=options)


def area_names(frame: Frame | None, levels: Iterable[Geolevel], *, named: bool) -> AreaNames | None:
    """The names of the areas of some levels, as the frame has them; none where a spec names no column of names."""
    if frame is None or not named:
        return None
    return AreaNames({level.name: (level.codes, frame.names.get(level.name, ("",) * level.units)) for level in levels})


def publish_areas(release: ReleaseWriter, levels: Sequence[tuple[str, Sequence[str]]], names: AreaNames | None) -> None:
    """Writes ``areas.csv``: the codes of all areas, level by level, with their names where the frame has them."""
    fields = [text_column(LEVEL, "geolevel"), text_column(AREA, "code of the geounit or area")]
    if names is not None:
        fields.append(text_column(AREA_NAME, "name of the geounit or area"))
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for level, codes in levels:
            columns = [pa.array([level] * len(codes), pa.string()), pa.array(codes, pa.string())]
            if names is not None:
                columns.append(names.column(*columns))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    release.text(AREAS, schema, batches(), "Areas", ",", quoted=True)
