"""The description beside tables of cells: their variables, files and columns, and what an attacker knows.

One description serves both ways: tables that are to be protected (``confide suppress``) and tables that somebody has
protected (``confide audit suppression``). It is a TOML file, or the metadata of a table of tau-ARGUS (.rda), or is
guessed from a plain file whose columns have common names. ``docs/concepts/suppression.md`` has all of its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from confide.documents import FileKind, Part, load
from confide.errors import Finding, InputError, ParameterError, Place
from confide.inputs.argus import levels_of_digits, read_hierarchy, read_labels, read_metadata, read_tab
from confide.inputs.argus.beside_table import read_lines

MARKS = ["", "x", "X", ":", "c", "C", "..", "*", "NA", "suppressed"]
"""What commonly stands for a suppressed cell."""

SECONDARY = ["m", "M", "x", "X"]
"""What stands for cells that are suppressed for others' sake in tables of tau-ARGUS and sdcTable."""

NAMES = ("table.toml", "tables.toml", "suppression.toml")

DESCRIPTION = FileKind(
    "description", code="table-description", own_codes=False, remedy="correct the description", error=InputError
)

TOTALS = ("_T", "total", "all", "sum")
"""What totals are commonly called, in any case, in the order of preference."""

Parts = dict[str, list[str]]
"""For each code with parts, these."""


class VariableText(Part):
    """A variable: what its total is called, and which codes have parts."""

    total: str = "_T"
    parts: Parts = Field(default_factory=dict)
    hierarchy: str | None = None
    """The same in a file of tau-ARGUS (.hrc)."""
    lead: str = Field("@", min_length=1)
    also: dict[str, Parts | str] = Field(default_factory=dict)
    """Further hierarchies of the same codes, by name: parts, or a file."""
    unlisted: list[str] = Field(default_factory=list)
    """Codes of the hierarchy that no file has, and that are meant so."""
    adds_up: bool = True
    """Whether figures are added up along this variable at all."""
    title: str = Field("", max_length=200)
    """What people call it."""
    labels: dict[str, str] | str = Field(default_factory=dict)
    """For each code its label: as they stand here, or in a file of tau-ARGUS (.cdl)."""

    @model_validator(mode="after")
    def one_hierarchy(self) -> VariableText:
        if self.parts and self.hierarchy is not None:
            raise ValueError("parts and hierarchy are both given")
        if not self.adds_up and (self.parts or self.hierarchy is not None or self.also):
            raise ValueError("nothing adds up, but codes have parts")
        return self


class TableText(Part):
    """A table in a file."""

    file: str | None = None
    name: str | None = None
    title: str = Field("", max_length=200)
    value: str = "count"
    status: str | None = None
    suppressed: list[str] = Field(default_factory=lambda: list(MARKS))
    columns: dict[str, str] = Field(default_factory=dict)
    variables: list[str] | None = None
    delimiter: str = Field(",", min_length=1, max_length=1)
    missing: Literal["refuse", "zero", "hidden"] = "refuse"
    hidden: int | None = Field(None, ge=0)
    """How many cells are suppressed, if that is known beforehand."""
    metadata: str | None = None
    """The file is a table of tau-ARGUS, described by this one."""
    contributors: str | None = None
    largest: list[str] = Field(default_factory=list)
    decided: str | None = None
    """A column of statuses that the office has given beforehand."""
    cost: str | None = None
    lower: str | None = None
    upper: str | None = None
    sliding: str | None = None
    apriori: str | None = None
    """A file of statuses, costs and levels of tau-ARGUS (.hst)."""
    apriori_delimiter: str = Field(",", min_length=1, max_length=1)
    ignore: list[str] = Field(default_factory=list)
    """Columns that are used for nothing, and that are meant so."""
    statuses: dict[str, Literal["u", "s", "z", ""]] = Field(default_factory=dict)
    """What the statuses of the office mean, where they are called otherwise; nothing: no decision."""


class AttackerText(Part):
    """What an attacker knows beforehand of a suppressed cell."""

    low: float = Field(0.0, allow_inf_nan=False)
    high: float | None = Field(None, allow_inf_nan=False)
    integer: bool = True
    rounding: float = Field(0.0, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def in_order(self) -> AttackerText:
        if self.high is not None and self.high < self.low:
            raise ValueError("high is less than low")
        return self


class ProtectionText(Part):
    """What is required of intervals: of all, or, with true figures, of small counts or in percent."""

    width: float = Field(0.0, ge=0, allow_inf_nan=False)
    threshold: int | None = Field(None, ge=1)
    percent: float | None = Field(None, gt=0, le=100)


class SuppressionDescription(Part):
    """The whole description."""

    variables: dict[str, VariableText]
    tables: list[TableText] = Field(default_factory=lambda: [TableText()], min_length=1)
    """Left out: the file beside the description."""
    attacker: AttackerText = AttackerText()
    protection: ProtectionText = ProtectionText()


@dataclass(frozen=True, eq=False)
class TableInput:
    """A description and the folder that its files are in."""

    description: SuppressionDescription
    folder: Path
    file: Path
    data: Path | None
    assumed: bool = False
    """Whether nobody wrote it: the table was taken for what such tables commonly are."""
    hierarchies: Mapping[str, Mapping[str, Parts]] = field(default_factory=dict)
    """For each variable its hierarchies by name, those of files with them; the first is the one called as nothing."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each variable the labels of its codes, those of files with them."""
    taken_for: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each file what its columns were taken for that nobody named."""

    @property
    def files(self) -> list[Path]:
        """Every file that belongs to it, each once."""
        paths = [self.file] if self.file.is_file() and self.file.suffix in (".toml", ".rda") else []
        for variable in self.description.variables.values():
            named = [variable.hierarchy, *(each for each in variable.also.values() if isinstance(each, str))]
            named.append(variable.labels if isinstance(variable.labels, str) else None)
            paths += [self.beside(name) for name in named if name is not None]
        for table in self.description.tables:
            named = [table.metadata, table.apriori]
            paths += [self.path_of(table), *(self.beside(name) for name in named if name is not None)]
        return list(dict.fromkeys(paths))

    def path_of(self, table: TableText) -> Path:
        """The file of a table."""
        if table.file is None:
            return self.data or self.folder / self.file.with_suffix(".csv").name
        return self.folder / table.file

    def beside(self, name: str) -> Path:
        """A file that another one names: as it says, or, where it was written on another machine, under the same name
        in the folder of the description."""
        path = self.folder / name
        return path if path.is_file() else self.folder / name.replace("\\", "/").rsplit("/", maxsplit=1)[-1]


def describe(path: Path) -> TableInput:
    """The description of a table: the file itself, one beside the data, or one in the folder."""
    if path.suffix.lower() in (".rda", ".tab"):
        return with_hierarchies(describe_argus(path))
    data = None
    if path.is_dir():
        named = [path / name for name in NAMES if (path / name).is_file()] or sorted(path.glob("*.toml"))
        file = named[0] if len(named) == 1 or (named and named[0].name in NAMES) else None
    elif path.suffix == ".toml":
        file = path if path.is_file() else None
    else:
        data, file = path, path.with_suffix(".toml")
        file = file if path.is_file() and file.is_file() else None
    if file is None:
        raise ParameterError("no-description/table", where=Place(file=str(path)), exists=path.exists(), name=NAMES[0])
    return with_hierarchies(
        TableInput(load(file, SuppressionDescription, kind=DESCRIPTION).value, file.parent, file, data)
    )


def with_hierarchies(given: TableInput) -> TableInput:
    """The same with the hierarchies and labels of its files read."""
    hierarchies: dict[str, dict[str, Parts]] = {}
    labels: dict[str, Mapping[str, str]] = {}
    for name, text in given.description.variables.items():
        labels[name] = read_labels(given.beside(text.labels)) if isinstance(text.labels, str) else text.labels
        first = text.parts
        if text.hierarchy is not None:
            first = read_hierarchy(given.beside(text.hierarchy), text.total, text.lead)
        of_variable = {"": dict(first)}
        for other, parts in text.also.items():
            if isinstance(parts, str):
                parts = read_hierarchy(given.beside(parts), text.total, text.lead)
            of_variable[other or "also"] = dict(parts)
        hierarchies[name] = {**of_variable, "": {**of_variable[""], **given.hierarchies.get(name, {}).get("", {})}}
    return replace(given, hierarchies=hierarchies, labels=labels)


def describe_argus(path: Path) -> TableInput:
    """A table of tau-ARGUS by its metadata; the other file has the same name and another ending."""
    metadata_file, tab = path.with_suffix(".rda"), path.with_suffix(".tab")
    metadata = read_metadata(metadata_file)
    values, statuses = metadata.of_kind("value"), metadata.of_kind("status")
    counts = metadata.of_kind("contributors")
    variables = metadata.of_kind("variable")
    if not variables or len(values) > 1 or not (values or counts) or len(statuses) > 1:
        raise InputError(
            "argus-file/metadata-describe-table",
            where=Place(file=metadata_file.name),
            variables=len(variables),
            values=len(values),
            statuses=len(statuses),
        )
    rows = read_tab(tab, metadata)
    apriori = next((file for ending in (".hst", ".hist") if (file := path.with_suffix(ending)).is_file()), None)
    levels = {kind: [column.name for column in metadata.of_kind(kind)] for kind in ("cost", "lower", "upper")}
    description = SuppressionDescription(
        variables={
            column.name: VariableText(
                total=column.total or total_of(rows[column.name]) or "Total",
                hierarchy=column.hierarchy,
                lead=column.lead,
                labels=column.labels or {},
            )
            for column in variables
        },
        tables=[
            TableText(
                file=tab.name,
                name=path.stem,
                metadata=metadata_file.name,
                value=(values or counts)[0].name,
                variables=[column.name for column in variables],
                contributors=counts[0].name if values and counts else None,
                largest=[column.name for column in metadata.of_kind("largest")],
                status=statuses[0].name if statuses else None,
                suppressed=[*(text for text, meaning in metadata.statuses.items() if meaning == "u"), *SECONDARY],
                decided=statuses[0].name if statuses else None,
                statuses=dict(metadata.statuses),
                cost=next(iter(levels["cost"]), None),
                lower=next(iter(levels["lower"]), None),
                upper=next(iter(levels["upper"]), None),
                missing="zero",
                apriori=None if apriori is None else apriori.name,
                apriori_delimiter=_between(apriori, metadata.separator),
            )
        ],
    )
    by_digits = {
        column.name: {"": levels_of_digits(rows[column.name], column.digits, description.variables[column.name].total)}
        for column in variables
        if column.digits
    }
    return TableInput(description, path.parent, metadata_file, None, hierarchies=by_digits)


def _between(apriori: Path | None, separator: str) -> str:
    """What stands between the values of a file of statuses: the separator of the metadata, if its first line has it,
    or a comma."""
    lines = [] if apriori is None else read_lines(apriori)
    return separator if any(separator in line for line in lines[:1]) else ","


def total_of(codes: Sequence[str]) -> str | None:
    """The code that totals commonly have, if one of them is there."""
    return first_of(TOTALS, codes)


def first_of(names: Sequence[str], there: Sequence[str]) -> str | None:
    """The first of some names that is there, in any case, as it is written there."""
    written = {each.lower(): each for each in reversed(there)}
    return next((written[name.lower()] for name in names if name.lower() in written), None)


def wrong(path: Path, what: str, found: str | None, expected: str) -> Finding:
    """A description that does not fit its files."""
    return Finding.of(
        "table-description/correct", where=Place(file=path.name), found=found, what=what, expected=expected
    )
