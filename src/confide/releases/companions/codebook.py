"""What the tables of a release hold, said once for every file that explains them.

A mechanism says it from its manifest alone (:meth:`confide.releases.plan.Explanation.codebook`), so that everybody
who has a release can make its explanations anew, and ``verify`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.releases.tabular import AREA, AREA_NAME, LEVEL, MARGIN, CodedColumns, CodedVariable, Table

Kind = Literal["string", "integer", "number"]
Role = Literal["level", "area", "name", "margin", "code", "label", "figure", "member"]
"""``member`` is the code of a record: one of those of its variable, and never that of a total."""


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
    """A table of a release, of its own or of given cells."""

    name: str
    title: str
    columns: CodedColumns | GivenColumns
    figures: tuple[pa.Field, ...]
    levels: tuple[str, ...] = ()
    hierarchies: Mapping[str, CodeHierarchy] = field(default_factory=dict)
    """Of columns whose codes are not all parts of the total alone."""

    @property
    def described(self) -> tuple[DescribedColumn, ...]:
        """Its columns, in order."""
        roles: dict[str, Role] = {LEVEL: "level", AREA: "area", AREA_NAME: "name", MARGIN: "margin"}
        roles = {} if isinstance(self.columns, GivenColumns) else roles
        named = {variable.column: variable for variable in self.columns.variables}
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
        return cls(table.name, table.title, CodedColumns.of(table), tuple(figures), table.levels)


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


def _figure(figure: pa.Field) -> DescribedColumn:
    if pa.types.is_string(figure.type):
        return DescribedColumn(figure.name, "string", "figure")
    kind: Kind = "integer" if pa.types.is_integer(figure.type) else "number"
    return DescribedColumn(figure.name, kind, "figure", gaps=figure.nullable)


@dataclass(frozen=True, eq=False)
class Codebook:
    """Everything that has to be known to read a release."""

    tables: tuple[DescribedTable, ...]
    levels: Mapping[str, int] = field(default_factory=dict)
    """The levels and areas of the tables, with their numbers of areas."""
    formats: tuple[str, ...] = ()
    """What was asked for besides: ``argus``, ``csvw``, ``registry``, ``sdmx-csv``, ``xlsx``."""
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
    def variables(self) -> tuple[CodedVariable, ...]:
        """The variables of all tables and records, each once: a column has the same codes and labels in all of them."""
        of_files = [column.variable for file in self.files for column in file.described if column.variable is not None]
        of_tables = [variable for table in self.tables for variable in table.columns.variables]
        known: dict[tuple[str, tuple[str, ...], tuple[str, ...]], CodedVariable] = {}
        for each in (*of_files, *of_tables):
            known.setdefault((each.column, each.codes, each.labels), each)
        return tuple(known.values())


def asked(question: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """What the plan of a release says of its explanations: formats and agency."""
    stated = question["companions"]
    return tuple(stated["formats"]), str(stated["agency"])


def table_path(name: str, files: Sequence[Mapping[str, Any]]) -> str | None:
    """The file of a table with all its rows: Parquet, or CSV."""
    paths = [str(file["path"]) for file in files if str(file["path"]).split(".")[0] == f"tables/{name}"]
    return min(paths, key=lambda path: not path.endswith(".parquet"), default=None)


def read_described(path: Path, table: DescribedTable) -> pa.Table:
    """The rows of a file of a table, every column of the type that is described."""
    if path.suffix == ".parquet":
        return pq.read_table(path).replace_schema_metadata(None)
    types = {column.name: pa.string() for column in table.described} | {
        field.name: field.type for field in table.figures
    }
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return pyarrow.csv.read_csv(path, convert_options=options)
