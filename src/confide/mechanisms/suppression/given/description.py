"""The description beside tables of cells: their variables, files and columns, and what an attacker knows.

One description serves both ways: tables that are to be protected (``confide suppress``) and tables that somebody has
protected (``confide audit suppression``). It is a TOML file, or the metadata of a table of tau-ARGUS (.rda), or is
guessed from a plain file whose columns have common names. ``docs/concepts/suppression.md`` has all of its keys.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from confide.arrays import Floats, Integers
from confide.documents import FileKind, Part, load
from confide.documents.argus import levels_of_digits, read_hierarchy, read_labels, read_lines, read_metadata, read_tab
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place
from confide.mechanisms.suppression.structure import NOT_HERE, Dimension, Flags, TableDimensions, tree
from confide.mechanisms.suppression.variables import Variable, VariableGrouping

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
    """Whether nobody wrote it: Confide assumed what such tables usually have."""
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
    """What is between the values of a file of statuses: the separator of the metadata, if its first line has it,
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


# Tables of cells in files, read as their description says: every row a cell, with its codes and a figure or a mark.
#
# The codes of all tables make one dimension for each variable (:func:`variables_of`): the hierarchies of the
# description, as far down as any table goes, and below the total whatever codes no hierarchy has.


LARGEST = 1 << 50
"""Larger figures would leave the range in which the solver can be trusted."""


def read_columns(path: Path, delimiter: str) -> dict[str, list[str]]:
    """All columns as texts, empty where there is nothing."""
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            names, lists = table.column_names, [column.cast(pa.string()).to_pylist() for column in table.columns]
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
            names = rows[0] if rows else []
            uneven = next((at for at, row in enumerate(rows) if len(row) != len(names)), None)
            if uneven is not None:
                raise InputError(
                    "table-description/header",
                    where=Place(file=path.name, row=uneven),
                    row=len(rows[uneven]),
                    names=len(names),
                )
            lists = [list(column) for column in zip(*rows[1:], strict=True)]
    except FileNotFoundError:
        raise InputError("table-description/file", where=Place(file=path.name, row=None)) from None
    except (OSError, pa.ArrowException, ValueError, csv.Error):
        raise InputError(
            "table-description/csv-parquet-file",
            where=Place(file=path.name, row=None),
            is_parquet=path.suffix == ".parquet",
        ) from None
    if not lists or not lists[0]:
        raise InputError("table-description/rows", where=Place(file=path.name, row=None))
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise InputError("table-description/two", where=Place(file=path.name, row=None), twice=twice)
    return {
        name: ["" if text is None else text.strip() for text in texts] for name, texts in zip(names, lists, strict=True)
    }


def columns_of(given: TableInput, text: TableText, path: Path) -> dict[str, list[str]]:
    """The columns of a table, whatever its file is."""
    if text.metadata is not None:
        return read_tab(path, read_metadata(given.beside(text.metadata)))
    return read_columns(path, text.delimiter)


def read_numbers(path: Path, column: str, texts: Sequence[str], suppressed: Flags, *, secret: bool) -> Floats:
    """Figures as numbers; zero where a cell is suppressed, or, among true figures, where there is none."""
    numbers = np.zeros(len(texts))
    for row, text in enumerate(texts):
        if suppressed[row] or (secret and not text):
            continue
        try:
            numbers[row] = float(text)
            if not np.isfinite(numbers[row]) or abs(numbers[row]) > LARGEST:
                raise ValueError
        except ValueError:
            place = Place(file=path.name, row=row + 1, column=column)
            raise InputError(
                "bad-figure/mark", where=place, found=CONFIDENTIAL if secret else repr(text), largest=LARGEST
            ) from None
    return numbers


@dataclass(frozen=True, eq=False, repr=False)
class CellCodes:
    """The codes of the rows of a table, one list for each variable."""

    text: TableText
    path: Path
    variables: list[str]
    codes: list[list[str]]
    columns: Mapping[str, list[str]]

    @property
    def name(self) -> str:
        return self.text.name or self.path.stem

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def places(self, layout: TableDimensions, *, secret: bool = False) -> tuple[Integers, int | None]:
        """The cell of every row, and the first row whose cell another has already."""
        at = np.zeros(self.rows, np.int64)
        for dimension, codes in zip(layout.dimensions, self.codes, strict=True):
            number = {code: position for position, code in enumerate(dimension.codes)}
            unknown = next((row for row, code in enumerate(codes) if code not in number), None)
            if unknown is not None:
                found = CONFIDENTIAL if secret else repr(codes[unknown])
                raise _unknown_code(self, unknown, dimension.name, found)
            at = at * dimension.size + np.array([number[code] for code in codes], np.int64)
        _, first = np.unique(at, return_index=True)
        others = np.setdiff1d(np.arange(len(at)), first)
        return at, int(others[0]) if len(others) else None


def read_codes(given: TableInput, text: TableText, path: Path, needed: Sequence[str]) -> CellCodes:
    """A table's rows by their codes. Raises where a variable, or a column that is needed, is not there."""
    rows = columns_of(given, text, path)
    known = given.description.variables
    variables = text.variables if text.variables is not None else [n for n in known if text.columns.get(n, n) in rows]
    unknown = [name for name in variables if name not in known]
    wanted = [*(text.columns.get(name, name) for name in variables), *needed]
    lacking = [name for name in wanted if name not in rows]
    if unknown or lacking:
        names = ", ".join(map(repr, unknown or lacking))
        what = "a variable is not described" if unknown else "the table lacks a column"
        raise InputError(wrong(path, what, names, "a column for each variable, and for the figures"))
    twice = next((name for name in wanted if wanted.count(name) > 1), None)
    if twice is not None:
        raise InputError(wrong(path, "one column is said to be two things", repr(twice), "a column for each"))
    codes = [rows[text.columns.get(name, name)] for name in variables]
    for name, of_variable in zip(variables, codes, strict=True):
        blank = next((row for row, code in enumerate(of_variable) if not code), None)
        if blank is not None:
            place = Place(file=path.name, row=blank + 1, column=text.columns.get(name, name))
            what = "a row has no code"
            raise InputError("no-code", where=place)
    return CellCodes(text, path, variables, codes, rows)


def variables_of(given: TableInput, tables: Sequence[CellCodes]) -> dict[str, Variable]:
    """The variables of tables: for each a grouping called as every table that lists some of its codes."""
    variables = {}
    for name, text in given.description.variables.items():
        having = [table for table in tables if name in table.variables]
        if not having:
            continue
        dimension = _dimension(given, name, having)
        number = {code: at for at, code in enumerate(dimension.codes)}
        groupings = []
        for table in having:
            listed = dict.fromkeys(table.codes[table.variables.index(name)])
            codes = sorted(number[code] for code in listed if code != text.total)
            labels = tuple(dimension.codes[code] for code in codes)
            groupings.append(VariableGrouping(table.name, labels, np.array(codes, np.int64)))
        variables[name] = Variable(
            dimension,
            tuple(groupings),
            total=text.total,
            given=True,
            summed=text.adds_up,
            full=_crossed(dimension, groupings),
        )
    return variables


def _crossed(dimension: Dimension, groupings: Sequence[VariableGrouping]) -> bool:
    """Whether tables list codes of different hierarchies, so that what they have in common is seen in the codes that
    both are made of alone. Tables that list these are no matter."""
    divided = {code for _, code, _ in dimension.divisions}
    leaves = set(range(1, dimension.size)) - divided
    partial = [codes for each in groupings if not leaves <= (codes := set(each.codes.tolist()))]
    ways = [{code for code, above in enumerate(way) if above != NOT_HERE} for way in dimension.hierarchies]
    return not any(all(codes <= way for codes in partial) for way in ways)


def _dimension(given: TableInput, name: str, tables: Sequence[CellCodes]) -> Dimension:
    """The codes of a variable with its hierarchies. Codes that no hierarchy mentions are parts of the total, unless its
    parts are listed."""
    text = given.description.variables[name]
    hierarchies = {way: dict(parts) for way, parts in given.hierarchies[name].items()}
    mentioned = {code for parts in hierarchies.values() for code in (*parts, *(c for cs in parts.values() for c in cs))}
    tops: list[str] = []
    for table in tables:
        codes = table.codes[table.variables.index(name)]
        for row, code in enumerate(codes):
            if code in mentioned or code == text.total:
                continue
            if text.total in hierarchies[""]:
                raise _unknown_code(table, row, name, repr(code))
            mentioned.add(code)
            tops.append(code)
    ways = []
    for way, parts in hierarchies.items():
        below = {code for codes in parts.values() for code in codes}
        own = [code for code in parts if code != text.total and code not in below]
        first = {text.total: [*own, *(tops if way == "" else ())]}
        ways.append(tree(name, {code: codes for code, codes in (first | parts).items() if codes}, text.total))
    return ways[0] if len(ways) == 1 else _together(name, list(hierarchies), ways)


def _together(name: str, called: Sequence[str], ways: Sequence[Dimension]) -> Dimension:
    """Several trees of the same codes as one dimension: every code after everything that it is a part of."""
    above: dict[str, set[str]] = {}
    for way in ways:
        for at, code in enumerate(way.codes):
            above.setdefault(code, set()).update({way.codes[way.parent[at]]} if at else ())
    order: list[str] = []
    waiting = list(above)
    while waiting:
        ready = [code for code in waiting if above[code] <= set(order)]
        if not ready:
            raise InputError("hierarchy/hierarchies", found=waiting[0], name=name)
        order += ready
        waiting = [code for code in waiting if code not in set(ready)]
    number = {code: at for at, code in enumerate(order)}
    parents = []
    for way in ways:
        parent = [-1] + [NOT_HERE] * (len(order) - 1)
        for at, code in enumerate(way.codes[1:], start=1):
            parent[number[code]] = number[way.codes[way.parent[at]]]
        parents.append(tuple(parent))
    return Dimension(name, tuple(order), parents[0], tuple(parents[1:]), tuple(called))


def parts_in(parts: Parts) -> set[str]:
    """Every code that a hierarchy mentions."""
    return {*parts, *(code for codes in parts.values() for code in codes)}


def repeated(table: CellCodes, row: int) -> InputError:
    """A cell that is in the table twice."""
    return InputError("repeated-cell", where=Place(file=table.path.name, row=row + 1))


def _unknown_code(table: CellCodes, row: int, variable: str, found: str) -> InputError:
    place = Place(file=table.path.name, row=row + 1, column=variable)
    return InputError("unknown-code/hierarchy", where=place, found=found, variable=variable)


def unused(given: TableInput, tables: Sequence[CellCodes], *, computed: bool = False) -> list[Finding]:
    """Variables that no table has, and codes of hierarchies that no table lists: the description speaks of others.
    Where totals are ``computed``, a code with parts need not be listed."""
    findings = []
    for name, text in given.description.variables.items():
        having = [table for table in tables if name in table.variables]
        place = Place(file=given.file.name, path=f"variables.{name}")
        if not having:
            findings.append(Finding.of("variable-not-found", where=place, name=name))
            continue
        there = {code for table in having for code in table.codes[table.variables.index(name)]}
        mentioned = {code for parts in given.hierarchies[name].values() for code in parts_in(parts)} - {text.total}
        divided = {code for parts in given.hierarchies[name].values() for code in parts} if computed else set()
        absent = sorted(mentioned - there - divided - set(text.unlisted))
        if absent:
            findings.append(
                Finding.of(
                    "code-not-found/occur",
                    where=Place(file=given.file.name, path=f"variables.{name}.parts"),
                    name=name,
                    absent=", ".join(map(repr, absent[:5])),
                    absent_found=len(absent) - 5 if len(absent) > 5 else None,
                    more=len(absent) > 5,
                )
            )
        strange = sorted(set(text.unlisted) - mentioned - {text.total})
        if strange:
            found = ", ".join(map(repr, strange[:5]))
            findings.append(Finding.of("code-not-found/codes-file-hierarchy", where=place, found=found, name=name))
    return findings
