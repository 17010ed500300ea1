"""Suppressed tables in files, read as their description says: every row a cell, with a figure or a mark."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from confide.attacks.suppression.suppression_audit import Required, Suspect
from confide.documents import FileKind, Part, load
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place
from confide.mechanisms.suppression.structure import (
    ROOT,
    Dimension,
    Flags,
    Floats,
    Integers,
    TableDimensions,
    link,
    tree,
)

# Files of suppressed tables as columns of texts and numbers, with a reason for each that cannot be read.


LARGEST = 1 << 50
"""Larger figures would leave the range in which the solver can be trusted."""

EXPECTED = f"a number of at most {LARGEST:,}; take thousands or millions for more"


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
                raise unreadable(path, f"{len(rows[uneven])} columns, {len(names)} in the header", row=uneven)
            lists = [list(column) for column in zip(*rows[1:], strict=True)]
    except FileNotFoundError:
        raise unreadable(path, "no such file") from None
    except (OSError, pa.ArrowException, ValueError, csv.Error):
        raise unreadable(path, f"not {'Parquet' if path.suffix == '.parquet' else 'CSV in UTF-8'}") from None
    if not lists or not lists[0]:
        raise unreadable(path, "no rows")
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise unreadable(path, f"two columns {twice!r}")
    return {
        name: ["" if text is None else text.strip() for text in texts] for name, texts in zip(names, lists, strict=True)
    }


def read_numbers(path: Path, column: str, texts: list[str], suppressed: Flags, *, secret: bool) -> Floats:
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
            what = "this is neither a figure nor a mark of a suppressed cell"
            remedy = "list the marks in `suppressed`; write figures without separators of thousands"
            raise InputError(
                "bad-figure", what, place, CONFIDENTIAL if secret else repr(text), EXPECTED, remedy
            ) from None
    return numbers


def require_whole(path: Path, column: str, texts: list[str], value: Floats) -> None:
    """Figures that are said to be whole numbers must be; intervals are rounded on that word."""
    wrong_ones = np.flatnonzero(value != np.rint(value))
    if len(wrong_ones):
        row = int(wrong_ones[0])
        place = Place(file=path.name, row=row + 1, column=column)
        what = "a figure is no whole number, and the description does not say that figures need not be"
        remedy = "write integer = false in [attacker]"
        raise InputError("not-whole", what, place, repr(texts[row]), "whole numbers", remedy)


def unreadable(path: Path, found: str, *, row: int | None = None) -> InputError:
    what, expected = "the table cannot be read", "a CSV or Parquet file with rows, and columns of different names"
    remedy = "correct the file, or its name and delimiter in the description"
    return InputError("table-description", what, Place(file=path.name, row=row), found, expected, remedy)


LOWER, UPPER, SLIDING = "lower", "upper", "sliding"


@dataclass(frozen=True, eq=False)
class _Read:
    """A table as read: codes of every row, its figure, whether it is suppressed; and other columns of numbers."""

    text: TableText
    variables: list[str]
    codes: list[list[str]]
    value: Floats
    suppressed: Flags
    beside: int
    """How many suppressed cells have a figure all the same, beside their mark."""
    file: str
    levels: dict[str, Floats]


def read_suspect(described: AuditInput) -> Suspect:
    """The tables of a description. Raises with a finding for everything that does not fit."""
    description = described.description
    read = [_read_table(described, text, described.folder, with_marks=True) for text in description.tables]
    layouts = [_layout(described, each, read) for each in read]
    linked = link([layout for layout, _ in layouts])
    value, unknown = np.full(linked.structure.cells, np.nan), np.ones(linked.structure.cells, np.bool_)
    for each, (layout, at), numbers in zip(read, layouts, linked.numbers, strict=True):
        _fill(each, layout, at, numbers, value, unknown)
    low = np.full(len(value), description.attacker.low)
    high = np.full(len(value), np.inf if description.attacker.high is None else description.attacker.high)
    part = description.attacker
    filled = np.where(np.isnan(value), 0.0, value)
    width, beside = description.protection.width, sum(each.beside for each in read)
    return Suspect(linked, filled, unknown, low, high, part.integer, part.rounding, width, beside)


def read_required(described: AuditInput, suspect: Suspect, truth: Path) -> Required:
    """True figures, and how far the intervals must reach. Confidential: no figure of it is ever in a message."""
    description, linked = described.description, suspect.linked
    cells = linked.structure.cells
    value = np.full(cells, np.nan)
    levels = {name: np.zeros(cells) for name in (LOWER, UPPER, SLIDING)}
    for text, layout, numbers in zip(description.tables, linked.tables, linked.numbers, strict=True):
        if not truth.exists():
            raise unreadable(truth, "no such file or folder")
        single = len(description.tables) == 1 and truth.is_file()
        folder = truth.parent if single else truth
        of_table = text.model_copy(update={"file": truth.name}) if single else text
        each = _read_table(described, of_table, folder, with_marks=False)
        at, _ = _places(each, layout, secret=True)
        value[numbers[at]] = each.value
        for name, column in each.levels.items():
            levels[name][numbers[at]] = column
    if np.isnan(value[suspect.suppressed]).any():
        what, expected = "the truth lacks cells that are suppressed", "a true figure for every suppressed cell"
        raise InputError("truth", what, Place(file=truth.name), CONFIDENTIAL, expected, "add them to the truth")
    _rules(description.protection, value, levels)
    return Required(np.where(np.isnan(value), 0.0, value), levels[LOWER], levels[UPPER], levels[SLIDING])


def _rules(rules: ProtectionText, value: Floats, levels: dict[str, Floats]) -> None:
    if rules.threshold is not None:
        small = (value > 0) & (value <= rules.threshold)
        levels[UPPER] = np.maximum(levels[UPPER], np.where(small, rules.threshold + 1 - value, 0.0))
        levels[SLIDING] = np.maximum(levels[SLIDING], np.where(small, rules.threshold, 0.0))
    if rules.percent is not None:
        away = np.where(np.isnan(value), 0.0, np.abs(value)) * rules.percent / 100
        levels[LOWER], levels[UPPER] = np.maximum(levels[LOWER], away), np.maximum(levels[UPPER], away)


def _read_table(described: AuditInput, text: TableText, folder: Path, *, with_marks: bool) -> _Read:
    data = described.data if with_marks and text.file is None else None
    path = data or folder / (text.file or described.file.with_suffix(".csv").name)
    rows = read_columns(path, text.delimiter)
    known = described.description.variables
    variables = text.variables if text.variables is not None else [n for n in known if text.columns.get(n, n) in rows]
    unknown = [name for name in variables if name not in known]
    wanted = [text.columns.get(name, name) for name in variables] + [text.value]
    wanted += [text.status] if text.status is not None and with_marks else []
    lacking = [name for name in wanted if name not in rows]
    if unknown or lacking:
        names = ", ".join(map(repr, unknown or lacking))
        what = "a variable is not described" if unknown else "the table lacks a column"
        raise InputError(wrong(path, what, names, "a column for each variable, and for the figures"))
    suppressed = _suppressed(text, rows) if with_marks else np.zeros(len(rows[text.value]), np.bool_)
    value = read_numbers(path, text.value, rows[text.value], suppressed, secret=not with_marks)
    if with_marks and described.description.attacker.integer and not described.description.attacker.rounding:
        require_whole(path, text.value, rows[text.value], value)
    none = np.zeros(len(suppressed), np.bool_)
    levels = (
        {}
        if with_marks
        else {
            name: read_numbers(path, name, rows[name], none, secret=True)
            for name in (LOWER, UPPER, SLIDING)
            if name in rows
        }
    )
    codes = [rows[text.columns.get(name, name)] for name in variables]
    beside = sum(
        bool(rows[text.value][at]) and rows[text.value][at] not in text.suppressed for at in np.flatnonzero(suppressed)
    )
    return _Read(text, variables, codes, value, suppressed, beside, path.name, levels)


def _suppressed(text: TableText, rows: dict[str, list[str]]) -> Flags:
    """The cells whose mark says that they are suppressed. In a column of statuses nothing is not a mark as such: a cell
    with a figure and no status is published."""
    marks = rows[text.value if text.status is None else text.status]
    bare = text.status is not None and "suppressed" not in text.model_fields_set
    return np.array(
        [
            mark in text.suppressed and not (bare and not mark and figure)
            for mark, figure in zip(marks, rows[text.value], strict=True)
        ],
        np.bool_,
    )


def _layout(described: AuditInput, read: _Read, every: Sequence[_Read]) -> tuple[TableDimensions, Integers]:
    """The dimensions of a table: those of the description and of all tables, as far down as this one goes."""
    dimensions, listed = [], []
    for name, codes in zip(read.variables, read.codes, strict=True):
        present = set(codes)
        dimension = _pruned(_dimension(described, name, every), present)
        dimensions.append(dimension)
        listed.append(np.array([code in present for code in dimension.codes], np.bool_))
    layout = TableDimensions(read.text.name or Path(read.file).stem, tuple(dimensions), tuple(listed))
    at, twice = _places(read, layout)
    if twice is not None:
        what, expected = "a cell stands in the table twice", "one row for each cell"
        remedy = "leave out all but one, or name the variable that tells them apart"
        raise InputError("repeated-cell", what, Place(file=read.file, row=twice + 1), None, expected, remedy)
    return layout, at


def _dimension(described: AuditInput, name: str, every: Sequence[_Read]) -> Dimension:
    """The tree of a variable. Codes that no hierarchy mentions are parts of the total, unless its parts are listed."""
    text = described.description.variables[name]
    below = {part for parts in text.parts.values() for part in parts}
    tops = [code for code in text.parts if code != text.total and code not in below]
    codes_in_tree = {*below, *text.parts, text.total}
    for read in every:
        codes = read.codes[read.variables.index(name)] if name in read.variables else []
        for row, code in enumerate(codes):
            if code in codes_in_tree:
                continue
            if text.total in text.parts:
                place = Place(file=read.file, row=row + 1, column=name)
                what, expected = "a code is not in the hierarchy", f"codes of [variables.{name}] parts"
                raise InputError("unknown-code", what, place, repr(code), expected, "add it to the hierarchy")
            codes_in_tree.add(code)
            tops.append(code)
    return tree(name, {text.total: tops} | text.parts, text.total)


def _pruned(dimension: Dimension, present: set[str]) -> Dimension:
    """Without codes below which the table has nothing: it is not divided so far."""
    used = np.array([code in present for code in dimension.codes], np.bool_)
    for at in range(dimension.size - 1, 0, -1):
        if used[at]:
            used[dimension.parent[at]] = True
    keep = [
        at
        for at in range(dimension.size)
        if at == ROOT or any(used[c] for c in dimension.children[dimension.parent[at]])
    ]
    kept = [at for at in keep if at == ROOT or dimension.parent[at] in set(keep)]
    number = {old: new for new, old in enumerate(kept)}
    parent = tuple(-1 if at == ROOT else number[dimension.parent[at]] for at in kept)
    return Dimension(dimension.name, tuple(dimension.codes[at] for at in kept), parent)


def _places(read: _Read, layout: TableDimensions, *, secret: bool = False) -> tuple[Integers, int | None]:
    """The cell of every row, and the first row whose cell another has already."""
    at = np.zeros(len(read.value), np.int64)
    for dimension, codes in zip(layout.dimensions, read.codes, strict=True):
        number = {code: position for position, code in enumerate(dimension.codes)}
        unknown = next((row for row, code in enumerate(codes) if code not in number), None)
        if unknown is not None:
            place = Place(file=read.file, row=unknown + 1, column=dimension.name)
            what, expected = "a code is not in the hierarchy", "codes of the description"
            remedy = "add it to the hierarchy, or correct the row"
            found = CONFIDENTIAL if secret else repr(codes[unknown])
            raise InputError("unknown-code", what, place, found, expected, remedy)
        at = at * dimension.size + np.array([number[code] for code in codes], np.int64)
    _, first = np.unique(at, return_index=True)
    others = np.setdiff1d(np.arange(len(at)), first)
    return at, int(others[0]) if len(others) else None


def _fill(read: _Read, layout: TableDimensions, at: Integers, numbers: Integers, value: Floats, unknown: Flags) -> None:
    """Figures of one table into those of all cells."""
    absent = layout.listed_cells
    absent[at] = False
    missing = read.text.missing
    if absent.any() and missing == "refuse":
        what = "cells of the table are not in the file, and nothing says what that means"
        raise InputError(
            "missing-cells",
            what,
            where=Place(file=read.file),
            found=f"{int(absent.sum()):,} of {int(layout.listed_cells.sum()):,} cells",
            expected="every combination of codes, or `missing` in [[tables]]",
            remedy='write missing = "zero" if they are published as zero, or "hidden" if nobody knows them',
        )
    published = at[~read.suppressed]
    before, now = value[numbers[published]], read.value[~read.suppressed]
    clash = ~np.isnan(before) & (np.abs(before - now) > 0)
    if clash.any():
        row = int(np.flatnonzero(~read.suppressed)[np.flatnonzero(clash)[0]]) + 1
        what, expected = "a cell has another figure than in a table before", "one figure for one cell"
        remedy = "correct the tables, or give variables that differ different names"
        raise InputError("tables-disagree", what, Place(file=read.file, row=row), None, expected, remedy)
    value[numbers[published]] = now
    unknown[numbers[published]] = False
    if missing == "zero":
        clash = np.nan_to_num(value[numbers[absent]]) != 0
        if clash.any():
            what = "cells that are not in the file, and so are zero, have another figure in a table before"
            found, expected = f"{int(clash.sum()):,} cells", "one figure for one cell"
            raise InputError("tables-disagree", what, Place(file=read.file), found, expected, "correct `missing`")
        value[numbers[absent]] = 0.0
        unknown[numbers[absent]] = False


# The description beside a suppressed table that is to be audited: its variables, files, and what an attacker knows.
#
# It is a TOML file; ``docs/concepts/suppression.md`` has all of its keys.


MARKS = ["", "x", "X", ":", "c", "C", "..", "suppressed"]
"""What commonly stands for a suppressed cell."""

NAMES = ("table.toml", "tables.toml", "suppression.toml")


AUDIT = FileKind(
    "description", code="table-description", own_codes=False, remedy="correct the description", error=InputError
)


class VariableText(Part):
    """A variable: what its total is called, and which codes have parts."""

    total: str = "_T"
    parts: dict[str, list[str]] = Field(default_factory=dict)


class TableText(Part):
    """A table in a file."""

    file: str | None = None
    name: str | None = None
    value: str = "count"
    status: str | None = None
    suppressed: list[str] = Field(default_factory=lambda: list(MARKS))
    columns: dict[str, str] = Field(default_factory=dict)
    variables: list[str] | None = None
    delimiter: str = Field(",", min_length=1, max_length=1)
    missing: Literal["refuse", "zero", "hidden"] = "refuse"


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
    tables: list[TableText] = Field(min_length=1)
    attacker: AttackerText = AttackerText()
    protection: ProtectionText = ProtectionText()


@dataclass(frozen=True, eq=False)
class AuditInput:
    """A description and the folder that its files are in."""

    description: SuppressionDescription
    folder: Path
    file: Path
    data: Path | None
    assumed: bool = False
    """Whether nobody wrote it: the table was taken for what such tables commonly are."""


def describe(path: Path) -> AuditInput:
    """The description of a table: the file itself, one beside the data, or one in the folder."""
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
        raise ParameterError(
            "no-description",
            "there is no description of the table",
            where=Place(file=str(path)),
            found="no TOML file" if path.exists() else "no such file or folder",
            expected=f"{NAMES[0]} in the folder, or a TOML file beside the data that bears its name",
            remedy="write one: [variables.NAME] for each variable and [[tables]] with file and value",
        )
    return AuditInput(load(file, SuppressionDescription, kind=AUDIT).value, file.parent, file, data)


def wrong(path: Path, what: str, found: str | None, expected: str) -> Finding:
    return Finding("table-description", what, Place(file=path.name), found, expected, "correct the description")
