"""Suppressed tables in files as anybody sees them, and true figures beside them; refused where an audit would be empty.

The tables are read as their description says (:mod:`confide.mechanisms.suppression.given.description`). An audit that
looks at nothing would find nothing: codes that no file has, variables along which nothing is added up and tables
without a hidden cell mean that the description speaks of another table, and are refused (:func:`read_suspect`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy import sparse

from confide.arrays import Floats, Integers
from confide.documents.argus import JJProblem, read_jj
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place, ReleaseError
from confide.lab.attacks.suppression_audit import Audit, Required, Suspect, audit, wrong_sums
from confide.mechanisms.suppression.given import description as given_description
from confide.mechanisms.suppression.given.assumed import assumed, read_plain
from confide.mechanisms.suppression.joint import linked_people
from confide.mechanisms.suppression.output import bounds, gathered, read_table
from confide.mechanisms.suppression.problem import SOLVABLE, step_of
from confide.mechanisms.suppression.programme import described, unit_of
from confide.mechanisms.suppression.structure import ROOT, Flags, LinkedTables, Structure, TableDimensions, flat, link
from confide.mechanisms.suppression.variables import Variable
from confide.releases.folder import SealedRelease
from confide.releases.tabular import UnlikePlanError, table_files

LOWER, UPPER, SLIDING = "lower", "upper", "sliding"


def require_whole(path: Path, column: str, texts: Sequence[str], value: Floats) -> None:
    """Figures that are said to be whole numbers must be; intervals are rounded on that word."""
    wrong_ones = np.flatnonzero(value != np.rint(value))
    if len(wrong_ones):
        row = int(wrong_ones[0])
        place = Place(file=path.name, row=row + 1, column=column)
        raise InputError("not-whole/figure", where=place, found=repr(texts[row]))


@dataclass(frozen=True, eq=False)
class _Read:
    """A table as read: its codes, the figure of every row, whether it is suppressed; and other columns of numbers."""

    table: given_description.CellCodes
    value: Floats
    suppressed: Flags
    beside: int
    """How many suppressed cells have a figure all the same, beside their mark."""
    levels: dict[str, Floats]


def read_suspect(given: given_description.TableInput) -> Suspect:
    """The tables of a description. Raises with a finding for everything that does not fit."""
    description = given.description
    read = [_read_table(given, text, given.path_of(text), with_marks=True) for text in description.tables]
    _refuse(given_description.unused(given, [each.table for each in read]))
    variables = given_description.variables_of(given, [each.table for each in read])
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
    """Refuses tables where an audit would look at nothing, or at other cells than were meant."""
    if findings:
        raise InputError(findings)


def _unsummed(given: given_description.TableInput, read: Sequence[_Read], linked: LinkedTables) -> list[Finding]:
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
                    Finding.of("nothing-added-up/over", where=place, dimension=dimension.name, total=text.total)
                )
            elif not text.adds_up and summed:
                findings.append(
                    Finding.of("nothing-added-up/add", where=place, found=repr(text.total), dimension=dimension.name)
                )
    for name, text in given.description.variables.items():
        without = [each.table for each in read if name not in each.table.variables]
        if not text.adds_up and without:
            place = Place(file=without[0].path.name, column=name)
            findings.append(Finding.of("nothing-added-up/lacks", where=place, name=name))
    return findings


def _unhidden(read: Sequence[_Read], cells: Sequence[int]) -> list[Finding]:
    """Tables without a suppressed cell that were said to have some, or with another number than was said.
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
            findings.append(Finding.of("nothing-hidden/another", where=place, number=number, hidden=text.hidden))
        elif text.hidden is None and not number and _told(text):
            findings.append(
                Finding.of("nothing-hidden/mark", where=place, marks=", ".join(repr(mark) for mark in text.suppressed))
            )
    if not findings and not any(numbers) and all(e.table.text.hidden is None for e in read):
        first = read[0].table
        place = Place(file=first.path.name, column=first.text.status or first.text.value)
        findings.append(
            Finding.of(
                "nothing-hidden/cell-table-suppressed",
                where=place,
                marks=", ".join(repr(mark) for mark in first.text.suppressed),
            )
        )
    return findings


def _told(text: given_description.TableText) -> bool:
    """Whether the description says what marks suppressed cells."""
    return "suppressed" in text.model_fields_set or text.status is not None


def read_required(given: given_description.TableInput, suspect: Suspect, truth: Path) -> Required:
    """True figures, and how far the intervals must reach. Confidential: no figure of it is ever in a message."""
    description, linked = given.description, suspect.linked
    cells = linked.structure.cells
    value = np.full(cells, np.nan)
    levels = {name: np.zeros(cells) for name in (LOWER, UPPER, SLIDING)}
    for text, layout, numbers in zip(description.tables, linked.tables, linked.numbers, strict=True):
        if not truth.exists():
            raise InputError("table-description/read", where=Place(file=truth.name, row=None))
        single = len(description.tables) == 1 and truth.is_file()
        folder = truth.parent if single else truth
        name = truth.name if single else text.file or given.path_of(text).name
        each = _read_table(given, text, folder / name, with_marks=False)
        at, _ = each.table.places(layout, secret=True)
        value[numbers[at]] = each.value
        for level, column in each.levels.items():
            levels[level][numbers[at]] = column
    if np.isnan(value[suspect.suppressed]).any():
        raise InputError("truth", where=Place(file=truth.name), found=CONFIDENTIAL)
    _rules(description.protection, value, levels)
    return Required(np.where(np.isnan(value), 0.0, value), levels[LOWER], levels[UPPER], levels[SLIDING])


def _rules(rules: given_description.ProtectionText, value: Floats, levels: dict[str, Floats]) -> None:
    if rules.threshold is not None:
        small = (value > 0) & (value <= rules.threshold)
        levels[UPPER] = np.maximum(levels[UPPER], np.where(small, rules.threshold + 1 - value, 0.0))
        levels[SLIDING] = np.maximum(levels[SLIDING], np.where(small, rules.threshold, 0.0))
    if rules.percent is not None:
        away = np.where(np.isnan(value), 0.0, np.abs(value)) * rules.percent / 100
        levels[LOWER], levels[UPPER] = np.maximum(levels[LOWER], away), np.maximum(levels[UPPER], away)


def _read_table(
    given: given_description.TableInput, text: given_description.TableText, path: Path, *, with_marks: bool
) -> _Read:
    needed = [text.value, *([text.status] if text.status is not None and with_marks else [])]
    table = given_description.read_codes(given, text, path, needed)
    rows = table.columns
    suppressed = _suppressed(text, rows[text.value], rows[text.status or text.value]) if with_marks else None
    none = np.zeros(table.rows, np.bool_)
    hidden = none if suppressed is None else suppressed
    value = given_description.read_numbers(path, text.value, rows[text.value], hidden, secret=not with_marks)
    if with_marks and given.description.attacker.integer and not given.description.attacker.rounding:
        require_whole(path, text.value, rows[text.value], value)
    levels = (
        {}
        if with_marks
        else {
            name: given_description.read_numbers(path, name, rows[name], none, secret=True)
            for name in (LOWER, UPPER, SLIDING)
            if name in rows
        }
    )
    beside = sum(
        bool(rows[text.value][at]) and rows[text.value][at] not in text.suppressed for at in np.flatnonzero(hidden)
    )
    return _Read(table, value, hidden, beside, levels)


def _suppressed(text: given_description.TableText, figures: Sequence[str], marks: Sequence[str]) -> Flags:
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


def _layout(table: given_description.CellCodes, variables: dict[str, Variable]) -> tuple[TableDimensions, Integers]:
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
        raise given_description.repeated(table, twice)
    return layout, at


def _fill(read: _Read, layout: TableDimensions, at: Integers, numbers: Integers, value: Floats, unknown: Flags) -> None:
    """Figures of one table into those of all cells."""
    absent = layout.listed_cells
    absent[at] = False
    missing = read.table.text.missing
    if absent.any() and missing == "refuse":
        raise InputError(
            "missing-cells/table",
            where=Place(file=read.table.path.name),
            absent=int(absent.sum()),
            listed_cells=int(layout.listed_cells.sum()),
        )
    published = at[~read.suppressed]
    before, now = value[numbers[published]], read.value[~read.suppressed]
    clash = ~np.isnan(before) & (np.abs(before - now) > 0)
    if clash.any():
        row = int(np.flatnonzero(~read.suppressed)[np.flatnonzero(clash)[0]]) + 1
        raise InputError("tables-disagree/cell", where=Place(file=read.table.path.name, row=row))
    value[numbers[published]] = now
    unknown[numbers[published]] = False
    if missing == "zero":
        clash = np.nan_to_num(value[numbers[absent]]) != 0
        if clash.any():
            raise InputError("tables-disagree/cells", where=Place(file=read.table.path.name), clash=int(clash.sum()))
        value[numbers[absent]] = 0.0
        unknown[numbers[absent]] = False


# What is audited: a release of ours, files with or without a description, or a problem in the format of solvers (.jj).
#
# A problem in that format has cells without variables, and their sums. Cells that are unsafe (``u``) or hidden for
# others (``m``) are taken for suppressed, all others for published. The file has every figure and level, so that each
# interval is judged by them: what comes out is confidential.


HIDDEN = ("u", "m")


def read_jj_subject(path: Path) -> tuple[Suspect, Required]:
    """The cells of a problem as anybody would see them, and how far their intervals must reach. Confidential.

    Args:
        path: The .jj file.

    Returns:
        What is published, with the bounds of the file; and the true figures with their levels.

    Raises:
        InputError: The file cannot be read, or an audit of it would look at nothing.
    """
    problem = read_jj(path)
    findings = _empty(path, problem)
    if findings:
        raise InputError(findings)
    cells = problem.cells
    number = {cell.number: at + 1 for at, cell in enumerate(cells)}  # the first is a total of everything, in no sum
    row, column, times, total = [], [], [], []
    for at, each in enumerate(problem.sums):
        row += [at] * len(each.terms)
        column += [number[cell] for cell, _ in each.terms]
        times += [float(coefficient) for _, coefficient in each.terms]
        total.append(number[next((cell for cell, coefficient in each.terms if coefficient < 0), each.terms[0][0])])
    shape = (len(problem.sums), len(cells) + 1)
    matrix = sparse.csr_array((np.array(times), (np.array(row), np.array(column))), shape=shape)
    structure = Structure(matrix, np.array(total, np.int64), np.zeros(len(total), np.int64))
    table = TableDimensions(
        path.stem,
        (flat("cell", [str(cell.number) for cell in cells]),),
        (np.arange(len(cells) + 1) > 0,),
    )
    numbers = np.arange(len(cells) + 1, dtype=np.int64)
    linked = LinkedTables((table,), structure, (numbers,), numbers > 0)

    def column_of(name: str, first: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([first, *(float(getattr(cell, name)) for cell in cells)])

    value = column_of("value", 0.0)
    hidden = np.array([True, *(cell.status in HIDDEN for cell in cells)], np.bool_)
    whole_numbers = bool((value == np.rint(value)).all())
    suspect = Suspect(linked, value, hidden, column_of("low", 0.0), column_of("high", np.inf), whole_numbers)
    unsafe = np.array([False, *(cell.status == "u" for cell in cells)], np.bool_)
    levels = [np.where(unsafe, column_of(name, 0.0), 0.0) for name in ("lower", "upper", "sliding")]
    return suspect, Required(value, *levels)


def _empty(path: Path, problem: JJProblem) -> list[Finding]:
    """Problems where an audit would look at nothing, and sums that it cannot use."""
    place, findings = Place(file=path.name), []
    if not problem.sums:
        findings.append(Finding.of("nothing-added-up/sums", where=place))
    if not any(cell.status in HIDDEN for cell in problem.cells):
        findings.append(Finding.of("nothing-hidden/cell-suppressed", where=place))
    if any(each.right for each in problem.sums):
        findings.append(Finding.of("argus-file/sum", where=place))
    return findings


# A release of ours, from its files alone, or files with or without a description.


def suspect_of_release(release: SealedRelease) -> Suspect:
    """The tables of a release and what its plan says that everybody knows."""
    folder, question = release.folder, release.facts
    if "suppression" not in question:
        mechanism = release.manifest["mechanism"]
        raise ReleaseError("not-suppressed/release-cells", where=Place(file=str(folder)), mechanism=mechanism)
    programme, magnitude = described(question), question["value"] is not None
    read = []
    for table in programme.tables:
        format_, path = next(iter(table_files(table.name, release.files).items()), ("", ""))
        try:
            read.append(read_table(folder / path, format_, table, magnitude=magnitude, unit=unit_of(question)))
        except (UnlikePlanError, OSError) as error:
            raise ReleaseError(
                "not-suppressed/tables-sealed",
                where=Place(file=str(folder)),
                error=error,
                error_found=isinstance(error, UnlikePlanError),
            ) from None
    value, unknown, agree = gathered(programme, read)
    if not agree:
        raise ReleaseError("not-suppressed/tables", where=Place(file=str(folder)))
    if step_of(value) > 1:
        raise ReleaseError("figures-too-large", where=Place(file=str(folder)), solvable=SOLVABLE)
    high, unit = np.full(len(value), np.inf), unit_of(question)
    # Figures and intervals are given as they are published. Multiples of a part of one are no whole numbers.
    low = bounds(programme, question) * float(unit)
    figures = value.astype(np.float64) * float(unit)
    return Suspect(programme.linked, figures, unknown, low, high, integer=unit.denominator == 1)


@dataclass(frozen=True, eq=False)
class AuditSubject:
    """Tables that are to be audited, as they were read."""

    suspect: Suspect
    required: Required | None = None
    taken_for: Mapping[str, str] = field(default_factory=dict)
    """For a table without a description what its columns were taken for."""

    def audit(self, *, sharpen: bool = False) -> Audit:
        """What an attacker can work out: see :func:`confide.lab.attacks.suppression_audit.audit`."""
        return replace(audit(self.suspect, self.required, sharpen=sharpen), taken_for=self.taken_for)


def audit_suppression(
    tables: str | Path,
    truth: str | Path | None = None,
    *,
    sharpen: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Audit:
    """What follows from tables about their suppressed cells (``confide audit suppression``).

    Args:
        tables: A folder with a description (``table.toml``), a CSV or Parquet file with or without one, or a release.
        truth: CONFIDENTIAL: the true figures, in the same form, to judge each interval by them.
        sharpen: Use in every sum that figures are whole numbers; slow, small parts only.
        note: Takes what was read as the description says, and may not be what was meant.

    Returns:
        The smallest interval for each suppressed cell, by linear programming, and whether it is too narrow.

    >>> import confide
    >>> table = tmp_path / "table.csv"
    >>> rows = "f,a, f,b,7 f,total,10 m,a, m,b,5 m,total,9 total,a,7 total,b,12 total,total,19".split()
    >>> with table.open("w") as file:
    ...     print("sex,age,count", *rows, sep=chr(10), file=file)
    >>> confide.audit_suppression(table).ok
    False
    """
    return read_subject(Path(tables), None if truth is None else Path(truth), note).audit(sharpen=sharpen)


def read_subject(tables: Path, truth: Path | None = None, note: Callable[[str], None] = lambda _: None) -> AuditSubject:
    """The tables of a folder, a file or a release, ready to be audited.

    Args:
        tables: A folder with a description, a file or a release.
        truth: CONFIDENTIAL: the true figures, in the same form.
        note: Receives at once what was assumed of the tables.

    Returns:
        The tables, to be audited.

    >>> rows = "f,a, f,b,7 f,total,10 m,a, m,b,5 m,total,9 total,a,7 total,b,12 total,total,19".split()
    >>> with (tmp_path / "table.csv").open("w") as file:
    ...     print("sex,age,count", *rows, sep=chr(10), file=file)
    >>> read_subject(tmp_path / "table.csv").audit().ok
    False
    """
    if (release := SealedRelease.at(tables)) is not None:
        if truth is not None:
            raise ParameterError("no-truth/release", where=Place(path="--truth"))
        suspect = suspect_of_release(release)
        _note_doubts(suspect, note)
        return AuditSubject(suspect)
    if tables.suffix.lower() == ".jj" and tables.is_file():
        if truth is not None:
            raise ParameterError("no-truth/problem", where=Place(path="--truth"))
        return AuditSubject(*read_jj_subject(tables))
    read = describe_or_assume(tables)
    columns = {name: what for of_file in read.taken_for.values() for name, what in of_file.items()}
    if columns:
        listed = "; ".join(f"{name}: {what}" for name, what in columns.items())
        note(f"no description, so taken for a table without hierarchies: {listed}.")
    suspect = read_suspect(read)
    if truth is None and (read.description.protection.threshold or read.description.protection.percent):
        note("threshold and percent are judged by true figures: give --truth")
    required = None if truth is None else read_required(read, suspect, truth)
    _note_doubts(suspect, note)
    return AuditSubject(suspect, required, columns)


def _note_doubts(suspect: Suspect, note: Callable[[str], None]) -> None:
    if suspect.without_totals:
        names = ", ".join(suspect.without_totals)
        remedy = "If it is called otherwise, write so as `total` in the description."
        note(f"no table has the total of {names}: nothing was added up to it. {remedy}")
    if suspect.beside:
        number = f"{suspect.beside:,} {'cell is' if suspect.beside == 1 else 'cells are'} marked as suppressed"
        note(f"{number} with a figure beside the mark: it was not looked at. Do not publish it.")


def describe_or_assume(path: Path) -> given_description.TableInput:
    """The description of a table; for a single file without one, what it is taken for."""
    described = path.suffix.lower() in (".toml", ".rda", ".tab") or path.with_suffix(".toml").is_file()
    return (
        assumed(path, *read_plain(path), protect=False)
        if path.is_file() and not described
        else given_description.describe(path)
    )
