"""Tables of cells in files, read as their description says: every row a cell, with its codes and a figure or a mark.

The codes of all tables make one dimension for each variable (:func:`variables_of`): the hierarchies of the description,
as far down as any table goes, and below the total whatever codes no hierarchy has.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Floats, Integers
from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.inputs.argus import read_metadata, read_tab
from confide.mechanisms.suppression.given.description import Parts, TableInput, TableText, wrong
from confide.mechanisms.suppression.structure import NOT_HERE, Dimension, Flags, TableDimensions, tree
from confide.mechanisms.suppression.variables import Variable, VariableGrouping

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
    """A cell that stands in the table twice."""
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
