"""Suppressed tables in files as anybody sees them, and true figures beside them; refused where an audit would be empty.

The tables are read as their description says (:mod:`confide.mechanisms.suppression.given.description`). An audit that
looks at nothing would find nothing: codes that no file has, variables along which nothing is added up and tables
without a hidden cell mean that the description speaks of another table, and are refused (:func:`read_suspect`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from confide.attacks.suppression.suppression_audit import Required, Suspect, wrong_sums
from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.mechanisms.suppression.given.cell_rows import (
    CellCodes,
    read_codes,
    read_numbers,
    repeated,
    unreadable,
    unused,
    variables_of,
)
from confide.mechanisms.suppression.given.description import ProtectionText, TableInput, TableText
from confide.mechanisms.suppression.joint import linked_people
from confide.mechanisms.suppression.structure import (
    ROOT,
    Flags,
    Floats,
    Integers,
    LinkedTables,
    TableDimensions,
    link,
)
from confide.mechanisms.suppression.variables import Variable

LOWER, UPPER, SLIDING = "lower", "upper", "sliding"


def require_whole(path: Path, column: str, texts: Sequence[str], value: Floats) -> None:
    """Figures that are said to be whole numbers must be; intervals are rounded on that word."""
    wrong_ones = np.flatnonzero(value != np.rint(value))
    if len(wrong_ones):
        row = int(wrong_ones[0])
        place = Place(file=path.name, row=row + 1, column=column)
        what = "a figure is no whole number, and the description does not say that figures need not be"
        remedy = "write integer = false in [attacker]"
        raise InputError("not-whole", what, place, repr(texts[row]), "whole numbers", remedy)


@dataclass(frozen=True, eq=False)
class _Read:
    """A table as read: its codes, the figure of every row, whether it is suppressed; and other columns of numbers."""

    table: CellCodes
    value: Floats
    suppressed: Flags
    beside: int
    """How many suppressed cells have a figure all the same, beside their mark."""
    levels: dict[str, Floats]


def read_suspect(given: TableInput) -> Suspect:
    """The tables of a description. Raises with a finding for everything that does not fit."""
    description = given.description
    read = [_read_table(given, text, given.path_of(text), with_marks=True) for text in description.tables]
    _refuse(unused(given, [each.table for each in read]))
    variables = variables_of(given, [each.table for each in read])
    layouts = [_layout(each.table, variables) for each in read]
    # Where figures may be negative, that tables count the same people says no more than their sums do.
    tables = [layout for layout, _ in layouts]
    linked = linked_people(tables) if description.attacker.low >= 0 else link(tables)
    value, unknown = np.full(linked.structure.cells, np.nan), np.ones(linked.structure.cells, np.bool_)
    for each, (layout, at), numbers in zip(read, layouts, linked.numbers, strict=True):
        _fill(each, layout, at, numbers, value, unknown)
    low = np.full(len(value), description.attacker.low)
    high = np.full(len(value), np.inf if description.attacker.high is None else description.attacker.high)
    low[linked.own_cells :], high[linked.own_cells :] = 0.0, np.inf
    part = description.attacker
    filled = np.where(np.isnan(value), 0.0, value)
    width, beside = description.protection.width, sum(each.beside for each in read)
    suspect = Suspect(linked, filled, unknown, low, high, part.integer, part.rounding, width, beside)
    empty = _unsummed(given, read, linked)
    empty += _unhidden(read, [int(layout.listed_cells.sum()) for layout, _ in layouts])
    # That a table does not add up says more of what is wrong with it.
    _refuse((list(wrong_sums(suspect)) if empty else []) or empty)
    return suspect


def _refuse(findings: list[Finding]) -> None:
    """Refuses tables of which an audit would look at nothing, or at other cells than were meant."""
    if findings:
        raise InputError(findings)


def _unsummed(given: TableInput, read: Sequence[_Read], linked: LinkedTables) -> list[Finding]:
    """Variables of a table along which no cell that some table lists is the sum of others that it lists, or whose total
    is nowhere: it is called otherwise, or nobody publishes it."""
    structure, findings = linked.structure, []
    axes = list(dict.fromkeys(dimension.name for table in linked.tables for dimension in table.dimensions))
    listed = linked.listed
    for each, table, numbers in zip(read, linked.tables, linked.numbers, strict=True):
        own = np.zeros(structure.cells, np.bool_)
        own[numbers[table.listed_cells]] = True
        has_part = np.asarray(structure.matrix @ own.astype(np.float64)) + own[structure.total] > 0
        for axis, dimension in enumerate(table.dimensions):
            text = given.description.variables[dimension.name]
            along = structure.axis == axes.index(dimension.name)
            summed = bool((along & listed[structure.total] & has_part).any())
            if text.total not in text.unlisted:
                summed = summed and bool(listed[numbers[table.places[:, axis] == ROOT]].any())
            place = Place(file=each.table.path.name, column=dimension.name)
            if text.adds_up and not summed and dimension.size > 1:
                findings.append(
                    Finding(
                        "nothing-added-up",
                        f"the table has no total over {dimension.name!r}",
                        place,
                        f"no row with the code {text.total!r}",
                        "a total, so that something follows from the table",
                        f"write how the total is called, [variables.{dimension.name}] total; where nobody knows one, "
                        "name it in unlisted, or write adds_up = false",
                    )
                )
            elif not text.adds_up and summed:
                what = f"{dimension.name!r} is said not to add up, and its total is there"
                remedy = "leave adds_up out, or say how the total is called"
                findings.append(Finding("nothing-added-up", what, place, repr(text.total), "no total", remedy))
    for name, text in given.description.variables.items():
        without = [each.table for each in read if name not in each.table.variables]
        if not text.adds_up and without:
            what = f"a table lacks the variable {name!r}, along which nothing adds up: whose figures are these?"
            place = Place(file=without[0].path.name, column=name)
            remedy = "add the variable, or audit the tables one by one"
            findings.append(Finding("nothing-added-up", what, place, "no such column", "the variable", remedy))
    return findings


def _unhidden(read: Sequence[_Read], cells: Sequence[int]) -> list[Finding]:
    """Tables without a suppressed cell that were said to have some, or with others than the number that was told.
    ``cells``: how many each has; those that are in no row are hidden where the description says so."""
    findings = []
    numbers = [
        int(each.suppressed.sum()) + (all_cells - each.table.rows) * (each.table.text.missing == "hidden")
        for each, all_cells in zip(read, cells, strict=True)
    ]
    for each, number in zip(read, numbers, strict=True):
        text = each.table.text
        place = Place(file=each.table.path.name, column=text.status or text.value)
        if text.hidden is not None and text.hidden != number:
            what = "the table has another number of suppressed cells than its description says"
            remedy = "correct hidden in [[tables]], or name all marks in suppressed"
            findings.append(Finding("nothing-hidden", what, place, f"{number:,}", f"{text.hidden:,}", remedy))
        elif text.hidden is None and not number and _told(text):
            findings.append(_nothing_hidden("no cell has the mark of a suppressed one", place, text))
    if not findings and not any(numbers) and all(e.table.text.hidden is None for e in read):
        first = read[0].table
        place = Place(file=first.path.name, column=first.text.status or first.text.value)
        findings.append(_nothing_hidden("no cell of any table is suppressed", place, first.text))
    return findings


def _told(text: TableText) -> bool:
    """Whether the description says what marks suppressed cells."""
    return "suppressed" in text.model_fields_set or text.status is not None


def _nothing_hidden(what: str, place: Place, text: TableText) -> Finding:
    marks = ", ".join(repr(mark) for mark in text.suppressed)
    remedy = "name the marks in suppressed, or the column that has them in status; hidden = 0 says that none is meant"
    return Finding("nothing-hidden", what, place, "none", f"one of the marks {marks}", remedy)


def read_required(given: TableInput, suspect: Suspect, truth: Path) -> Required:
    """True figures, and how far the intervals must reach. Confidential: no figure of it is ever in a message."""
    description, linked = given.description, suspect.linked
    cells = linked.structure.cells
    value = np.full(cells, np.nan)
    levels = {name: np.zeros(cells) for name in (LOWER, UPPER, SLIDING)}
    for text, layout, numbers in zip(description.tables, linked.tables, linked.numbers, strict=True):
        if not truth.exists():
            raise unreadable(truth, "no such file or folder")
        single = len(description.tables) == 1 and truth.is_file()
        folder = truth.parent if single else truth
        name = truth.name if single else text.file or given.path_of(text).name
        each = _read_table(given, text, folder / name, with_marks=False)
        at, _ = each.table.places(layout, secret=True)
        value[numbers[at]] = each.value
        for level, column in each.levels.items():
            levels[level][numbers[at]] = column
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


def _read_table(given: TableInput, text: TableText, path: Path, *, with_marks: bool) -> _Read:
    needed = [text.value, *([text.status] if text.status is not None and with_marks else [])]
    table = read_codes(given, text, path, needed)
    rows = table.columns
    suppressed = _suppressed(text, rows[text.value], rows[text.status or text.value]) if with_marks else None
    none = np.zeros(table.rows, np.bool_)
    hidden = none if suppressed is None else suppressed
    value = read_numbers(path, text.value, rows[text.value], hidden, secret=not with_marks)
    if with_marks and given.description.attacker.integer and not given.description.attacker.rounding:
        require_whole(path, text.value, rows[text.value], value)
    levels = (
        {}
        if with_marks
        else {
            name: read_numbers(path, name, rows[name], none, secret=True)
            for name in (LOWER, UPPER, SLIDING)
            if name in rows
        }
    )
    beside = sum(
        bool(rows[text.value][at]) and rows[text.value][at] not in text.suppressed for at in np.flatnonzero(hidden)
    )
    return _Read(table, value, hidden, beside, levels)


def _suppressed(text: TableText, figures: Sequence[str], marks: Sequence[str]) -> Flags:
    """The cells whose mark says that they are suppressed. In a column of statuses nothing is not a mark as such: a cell
    with a figure and no status is published."""
    bare = text.status is not None and "suppressed" not in text.model_fields_set
    return np.array(
        [
            mark in text.suppressed and not (bare and not mark and figure)
            for mark, figure in zip(marks, figures, strict=True)
        ],
        np.bool_,
    )


def _layout(table: CellCodes, variables: dict[str, Variable]) -> tuple[TableDimensions, Integers]:
    """The dimensions of a table: those of the description and of all tables, as far down as this one goes."""
    own = [variables[name] for name in table.variables]
    dimensions = tuple(variable.cut([table.name]) for variable in own)
    listed = []
    for variable, codes in zip(own, table.codes, strict=True):
        there = set(codes)
        listed.append(np.array([variable.tree.codes[at] in there for at in variable.kept([table.name])], np.bool_))
    layout = TableDimensions(table.name, dimensions, tuple(listed))
    at, twice = table.places(layout)
    if twice is not None:
        raise repeated(table, twice)
    return layout, at


def _fill(read: _Read, layout: TableDimensions, at: Integers, numbers: Integers, value: Floats, unknown: Flags) -> None:
    """Figures of one table into those of all cells."""
    absent = layout.listed_cells
    absent[at] = False
    missing = read.table.text.missing
    if absent.any() and missing == "refuse":
        what = "cells of the table are not in the file, and nothing says what that means"
        raise InputError(
            "missing-cells",
            what,
            where=Place(file=read.table.path.name),
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
        raise InputError("tables-disagree", what, Place(file=read.table.path.name, row=row), None, expected, remedy)
    value[numbers[published]] = now
    unknown[numbers[published]] = False
    if missing == "zero":
        clash = np.nan_to_num(value[numbers[absent]]) != 0
        if clash.any():
            what = "cells that are not in the file, and so are zero, have another figure in a table before"
            found, expected = f"{int(clash.sum()):,} cells", "one figure for one cell"
            raise InputError(
                "tables-disagree", what, Place(file=read.table.path.name), found, expected, "correct `missing`"
            )
        value[numbers[absent]] = 0.0
        unknown[numbers[absent]] = False
