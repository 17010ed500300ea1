"""The figures of given tables and what is beside them, cell by cell, and the problem that they pose. Confidential.

Totals that are missing are computed, totals that are there must add up. What the office has decided goes before the
rules: a cell that is ``u`` (unsafe) is primary whatever they say, one that is ``s`` (safe, a waiver) or ``z``
(protected) is not, and the latter is never hidden. A required level makes a cell primary too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.arrays import Floats, Integers
from confide.documents.argus import JJCell, JJProblem, JJSum, read_apriori
from confide.errors import CONFIDENTIAL, ConfideError, Finding, InputError, Place
from confide.mechanisms.suppression import problem as suppression_problem
from confide.mechanisms.suppression.counting import Truth, magnitude_levels, primary_levels
from confide.mechanisms.suppression.given.description import CellCodes, repeated
from confide.mechanisms.suppression.given.tables import GivenTablesProblem
from confide.mechanisms.suppression.joint import people_behind
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProblem
from confide.mechanisms.suppression.spec import MOST_DIGITS, digits_of, published_figures
from confide.mechanisms.suppression.structure import Flags
from confide.mechanisms.suppression.suppress import pose

UNSAFE, SAFE, PROTECTED = "u", "s", "z"
WAIVER = "waiver"
STATUSES = {
    "": "",
    "u": UNSAFE,
    "unsafe": UNSAFE,
    "primary": UNSAFE,
    "s": SAFE,
    "safe": SAFE,
    WAIVER: SAFE,
    "z": PROTECTED,
    "p": PROTECTED,
    "protected": PROTECTED,
}
"""What statuses are commonly called, in lower case."""

LOWER, UPPER, SLIDING = "lower", "upper", "sliding"
ROWS_NAMED = 5
LARGEST = 1 << 40
"""Larger figures would leave 64 bits when all cells of a table are added."""
Texts = npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class GivenTruth(Truth):
    """What the tables say of every distinct cell, with what was decided beforehand."""

    status: Texts = field(repr=False, default_factory=lambda: np.zeros(0, "<U1"))
    cost: Floats = field(repr=False, default_factory=lambda: np.zeros(0))
    """No number where none is given."""
    levels: suppression_problem.Levels = field(repr=False, default_factory=lambda: suppression_problem.Levels.none(0))


@dataclass(eq=False)
class _Cells:
    """The columns of one table, over the cells of its layout; ``known`` where a row has the cell."""

    known: Flags
    row: Integers
    """The row of a cell, -1 where it has none."""
    value: Integers
    number: Integers
    largest: Integers
    status: Texts
    cost: Floats
    levels: dict[str, Integers]
    blanket: Flags
    """Where a cell is called safe in a column that says something of every cell: that may be no decision."""


def check_given(problem: GivenTablesProblem) -> list[Finding]:
    """Every problem of the tables."""
    try:
        read_given(problem)
    except InputError as error:
        return list(error.findings)
    return []


def read_given(problem: GivenTablesProblem) -> GivenTruth:
    """The figures of every cell of the linked structure. Raises with findings, which name rows and no figures."""
    top = _tops(problem)
    findings: list[Finding] = []
    read: list[_Cells] = []
    for rows, table in zip(problem.rows, problem.programme.tables, strict=True):
        try:
            cells = _read_cells(rows, table, top, problem.spec.data.unit, contributors=problem.magnitude)
            _apriori(problem, rows, table, cells)
            _complete(rows, table, cells)
            _contradictions(rows, table, cells, contributors=problem.magnitude)
            read.append(cells)
        except InputError as error:
            findings += error.findings
    if findings:
        raise InputError(findings)
    truth = _together(problem, read)
    findings = _doubtful_waivers(problem, read, truth)
    if findings:
        raise InputError(findings)
    return truth


def _tops(problem: GivenTablesProblem) -> int:
    """How many of the largest contributions the rules need; raises where a table does not have them."""
    part = problem.spec.suppression
    needed = max(2 if part.p is not None else 0, part.dominance.n if part.dominance is not None else 0)
    findings = []
    for rows in problem.rows:
        place = Place(file=rows.path.name)
        if len(rows.text.largest) < needed:
            findings.append(Finding.of("no-contributions", where=place, largest=len(rows.text.largest), needed=needed))
        if problem.magnitude and rows.text.contributors is None and (part.threshold is not None or part.singletons):
            findings.append(Finding.of("no-contributors", where=place))
    if findings:
        raise InputError(findings)
    return max(2, needed)


def _read_cells(rows: CellCodes, table: HierarchicalTable, top: int, unit: Fraction, *, contributors: bool) -> _Cells:
    layout, text = table.layout, rows.text
    at, twice = rows.places(layout)
    if twice is not None:
        raise repeated(rows, twice)
    cells = layout.cells

    def laid(column: Integers | Floats | Texts, empty: float | str) -> npt.NDArray[np.generic]:
        over = np.full(cells, empty, column.dtype)
        over[at] = column
        return over

    known = np.zeros(cells, np.bool_)
    known[at] = True
    row = np.full(cells, -1, np.int64)
    row[at] = np.arange(rows.rows)
    value = np.asarray(laid(_whole_numbers(rows, text.value, unit, empty=None), 0), np.int64)
    number = value.copy()
    if contributors:
        column = np.zeros(rows.rows, np.int64)
        if text.contributors is not None:
            column = _whole_numbers(rows, text.contributors, empty=None)
        number = np.asarray(laid(column, 0), np.int64)
    largest = np.zeros((cells, max(top, len(text.largest))), np.int64)
    for place, name in enumerate(text.largest):
        largest[at, place] = _whole_numbers(rows, name, unit, empty=0)
    _check_largest(rows, text.largest, at, value, largest)
    status = np.asarray(laid(_statuses(rows), ""), "<U1")
    cost = np.asarray(laid(_costs(rows), np.nan), np.float64)
    levels = {
        kind: np.asarray(laid(_whole_numbers(rows, name, unit, empty=0, up=True), 0), np.int64)
        if name is not None
        else np.zeros(cells, np.int64)
        for kind, name in ((LOWER, text.lower), (UPPER, text.upper), (SLIDING, text.sliding))
    }
    blanket = np.zeros(cells, np.bool_)
    blanket[at] = _blanket(rows)
    return _Cells(known, row, value, number, -np.sort(-largest, axis=1), status, cost, levels, blanket)


def _whole_numbers(
    rows: CellCodes, column: str, unit: Fraction = Fraction(1), *, empty: int | None, up: bool = False
) -> Integers:
    """A column of numbers of at least zero, as whole numbers of the unit; ``empty`` where nothing is, refused if
    that is None. With ``up`` a part of a unit is rounded up to one."""
    numbers = np.zeros(rows.rows, np.int64)
    wrong: list[int] = []
    digits = 0
    for row, text in enumerate(rows.columns[column]):
        if not text and empty is not None:
            numbers[row] = empty
            continue
        try:
            number = int(text) if text.isascii() and text.isdigit() else Fraction(_decimal(text))
            number = number if unit == 1 else Fraction(number) / unit
            if not 0 <= number <= LARGEST or (number.denominator != 1 and not up):
                digits = max(digits, digits_of(Fraction(number) * unit) or 0)
                raise ValueError
            numbers[row] = ceil(number)
        except (ValueError, OverflowError, InvalidOperation):
            wrong.append(row)
    if wrong:
        finer, remedy = f"1/{10**digits}", "correct it, and take a larger unit for larger figures"
        if 0 < digits <= MOST_DIGITS:
            remedy = f'declare the unit of decimals: --unit {finer}, or unit = "{finer}" in [data]'
        raise InputError(
            Finding.of(
                "bad-figure/whole",
                where=Place(file=rows.path.name, row=row + 1, column=column),
                found=CONFIDENTIAL,
                unit=unit,
                one=unit == 1,
                largest=LARGEST,
                remedy=remedy,
            )
            for row in wrong[:ROWS_NAMED]
        )
    return numbers


def _decimal(text: str) -> Decimal:
    """A number of few digits; anything else is none."""
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not -2 * MOST_DIGITS <= exponent <= MOST_DIGITS:
        raise ValueError
    return number


def _check_largest(rows: CellCodes, names: Sequence[str], at: Integers, value: Integers, largest: Integers) -> None:
    if not names:
        return
    wrong = np.flatnonzero(largest[at].sum(axis=1) > value[at])
    if len(wrong):
        place = Place(file=rows.path.name, row=int(wrong[0]) + 1, column=names[0])
        raise InputError("bad-contributions", where=place, found=CONFIDENTIAL)


def _statuses(rows: CellCodes) -> Texts:
    statuses = np.zeros(rows.rows, "<U1")
    if rows.text.decided is None:
        return statuses
    own = {text.lower(): meaning for text, meaning in rows.text.statuses.items()}
    known: dict[str, str] = {**STATUSES, **own}
    for row, text in enumerate(rows.columns[rows.text.decided]):
        if text.lower() not in known:
            place = Place(file=rows.path.name, row=row + 1, column=rows.text.decided)
            raise InputError("bad-status", where=place, found=CONFIDENTIAL)
        statuses[row] = known[text.lower()]
    return statuses


def _blanket(rows: CellCodes) -> Flags:
    """The rows that a column of statuses calls safe, if it has a status in every row: there, safe may say no more than
    that nothing was found so far, and not that somebody waived the rules. A ``waiver`` is one in any case."""
    texts = rows.columns[rows.text.decided] if rows.text.decided is not None else []
    if not texts or not all(texts):
        return np.zeros(rows.rows, np.bool_)
    waived = [text.lower() == WAIVER for text in texts]
    return np.asarray((_statuses(rows) == SAFE) & ~np.array(waived, np.bool_), np.bool_)


def _doubtful_waivers(problem: GivenTablesProblem, read: Sequence[_Cells], truth: GivenTruth) -> list[Finding]:
    """Cells that a rule calls sensitive and a column of statuses safe, though it has a status for every cell."""
    by_rule = primary_levels(problem, truth).primary
    findings = []
    for rows, cells, numbers in zip(problem.rows, read, problem.programme.linked.numbers, strict=True):
        doubtful = np.flatnonzero(cells.blanket & by_rule[numbers])
        if len(doubtful):
            place = Place(file=rows.path.name, row=int(cells.row[doubtful[0]]) + 1, column=rows.text.decided)
            findings.append(Finding.of("doubtful-waiver", where=place, found=CONFIDENTIAL))
    return findings


def _costs(rows: CellCodes) -> Floats:
    costs = np.full(rows.rows, np.nan)
    if rows.text.cost is None:
        return costs
    for row, text in enumerate(rows.columns[rows.text.cost]):
        if not text:
            continue
        try:
            costs[row] = float(text)
        except ValueError:
            costs[row] = -1.0
        if not 0 <= costs[row] <= LARGEST:
            place = Place(file=rows.path.name, row=row + 1, column=rows.text.cost)
            raise InputError("bad-cost", where=place, found=CONFIDENTIAL, largest=LARGEST)
    return costs


def _apriori(problem: GivenTablesProblem, rows: CellCodes, table: HierarchicalTable, cells: _Cells) -> None:
    """What a file of tau-ARGUS says of single cells goes before the columns of the table."""
    if rows.text.apriori is None:
        return
    path = problem.given.beside(rows.text.apriori)
    number = [{code: at for at, code in enumerate(dimension.codes)} for dimension in table.layout.dimensions]
    for line in read_apriori(path, len(rows.variables), rows.text.apriori_delimiter):
        codes = [
            (variable.total if code == "" else code) for variable, code in zip(table.variables, line.codes, strict=True)
        ]
        unknown = next((code for code, known in zip(codes, number, strict=True) if code not in known), None)
        if unknown is not None:
            place = Place(file=path.name, line=line.line)
            raise InputError("unknown-code/none", where=place, found=repr(unknown))
        places = tuple(known[code] for code, known in zip(codes, number, strict=True))
        cell = int(np.ravel_multi_index(places, table.layout.shape))
        if line.what == "c":
            cells.cost[cell] = float(line.numbers[0])
            continue
        if line.what in (UNSAFE, SAFE, PROTECTED):
            cells.status[cell] = line.what
            cells.blanket[cell] = False
        for kind, text in zip((LOWER, UPPER), line.numbers, strict=False):
            cells.levels[kind][cell] = ceil(Fraction(text) / problem.spec.data.unit)


def _complete(rows: CellCodes, table: HierarchicalTable, cells: _Cells) -> None:
    """Totals that are missing, from their parts; what is then missing is zero, or refused."""
    shape, dimensions = table.layout.shape, table.layout.dimensions
    leaf = np.ones(table.layout.cells, np.bool_)
    for axis, dimension in enumerate(dimensions):
        divided = np.zeros(dimension.size, np.bool_)
        divided[[code for _, code, _ in dimension.divisions]] = True
        leaf &= ~divided[table.layout.places[:, axis]]
    missing = leaf & ~cells.known
    if missing.any() and rows.text.missing == "zero":
        cells.known |= missing
    elif missing.any():
        hidden = rows.text.missing == "hidden"
        raise InputError(
            "missing-cells/parts",
            where=Place(file=rows.path.name),
            hidden=hidden,
            missing=int(missing.sum()),
            leaf=int(leaf.sum()),
        )
    known, value, number = (array.reshape(shape) for array in (cells.known, cells.value, cells.number))
    largest = cells.largest.reshape(*shape, -1)
    for axis, dimension in enumerate(dimensions):
        along = [np.moveaxis(array, axis, 0) for array in (known, value, number, largest)]
        for _, code, parts in sorted(dimension.divisions, key=lambda division: -division[1]):
            at = list(parts)
            fill = ~along[0][code] & along[0][at].all(axis=0)
            if not fill.any():
                continue
            for array in along[1:3]:
                array[code][fill] = array[at].sum(axis=0)[fill]
            tops = np.concatenate([along[3][part] for part in at], axis=-1)
            along[3][code][fill] = -np.sort(-tops, axis=-1)[..., : largest.shape[-1]][fill]
            along[0][code] |= fill
    if not cells.known.all():
        raise InputError("missing-cells/totals", where=Place(file=rows.path.name), known=int((~cells.known).sum()))


def _contradictions(rows: CellCodes, table: HierarchicalTable, cells: _Cells, *, contributors: bool) -> None:
    """What numbers of contributors and largest contributions cannot be: they decide what is hidden.

    A figure has a contributor. A part has no more than its whole, and the whole no more than all parts together; the
    largest contributor of a whole is at least that of each part, and at most all of those together.
    """
    shape, text = table.layout.shape, rows.text
    wrong: list[tuple[Integers, str | None, str, str]] = []
    if contributors and text.contributors is not None:
        alone = np.flatnonzero((cells.value > 0) & (cells.number == 0))
        what = "a figure has no contributor, so that no rule would hide it"
        wrong.append((alone, text.contributors, what, "a contributor for every figure above zero"))
        what, expected = "contributors of a whole and of its parts contradict each other", "part ≤ whole ≤ sum of parts"
        wrong.append((_beyond_parts(table, cells.number.reshape(shape)), text.contributors, what, expected))
    if text.largest:
        what = "the largest contribution to a whole is below that to a part, or above those to all parts together"
        expected = "largest of a part ≤ largest of the whole ≤ largest of all parts, added up"
        wrong.append((_beyond_parts(table, cells.largest[:, 0].reshape(shape)), text.largest[0], what, expected))
    findings = []
    for at, column, what, expected in wrong:
        if len(at):
            place = replace(_place(rows, cells, at), column=column)
            findings.append(
                Finding.of("bad-contributors", where=place, found=CONFIDENTIAL, what=what, expected=expected)
            )
    if findings:
        raise InputError(findings)


def _beyond_parts(table: HierarchicalTable, numbers: Integers) -> Integers:
    """Wholes that are less than one of their parts, or more than all together."""
    off = np.zeros(numbers.shape, np.bool_)
    for axis, dimension in enumerate(table.layout.dimensions):
        along, flags = np.moveaxis(numbers, axis, 0), np.moveaxis(off, axis, 0)
        for _, code, parts in dimension.divisions:
            of_parts = along[list(parts)]
            flags[code] |= (along[code] < of_parts.max(axis=0)) | (along[code] > of_parts.sum(axis=0))
    return np.flatnonzero(off.ravel())


def _together(problem: GivenTablesProblem, read: Sequence[_Cells]) -> GivenTruth:
    """One set of figures for all tables: they must agree, and add up."""
    linked = problem.programme.linked
    size = linked.structure.cells
    top = max(cells.largest.shape[1] for cells in read)
    value, number = np.zeros(size, np.int64), np.zeros(size, np.int64)
    largest, cost = np.zeros((size, top), np.int64), np.full(size, np.nan)
    status = np.zeros(size, "<U1")
    levels = {kind: np.zeros(size, np.int64) for kind in (LOWER, UPPER, SLIDING)}
    seen = np.zeros(size, np.bool_)
    findings: list[Finding] = []
    for rows, cells, numbers in zip(problem.rows, read, linked.numbers, strict=True):
        apart = seen[numbers] & ((value[numbers] != cells.value) | (number[numbers] != cells.number))
        clash = seen[numbers] & (status[numbers] != "") & (cells.status != "") & (status[numbers] != cells.status)
        for wrong, what in ((apart, "a cell has another figure"), (clash, "a cell has another status")):
            if wrong.any():
                place = _place(rows, cells, np.flatnonzero(wrong))
                findings.append(Finding.of("tables-disagree/table-before", where=place, found=CONFIDENTIAL, what=what))
        value[numbers], number[numbers], seen[numbers] = cells.value, cells.number, True
        largest[numbers, : cells.largest.shape[1]] = cells.largest
        status[numbers] = np.where(cells.status != "", cells.status, status[numbers])
        cost[numbers] = np.where(np.isnan(cells.cost), cost[numbers], cells.cost)
        for kind, of_all in levels.items():
            of_all[numbers] = np.maximum(of_all[numbers], cells.levels[kind])
    findings += [] if findings else _sums(problem, read, value)
    if findings:
        raise InputError(findings)
    _add_people(problem, value)
    contributions = suppression_problem.Contributions(number, largest) if problem.magnitude else None
    if contributions is None:
        number = value
    given = suppression_problem.Levels(
        levels[LOWER] + levels[UPPER] + levels[SLIDING] > 0, levels[LOWER], levels[UPPER], levels[SLIDING]
    )
    who = np.zeros(size, np.int64)
    return GivenTruth(value, number, who, contributions, status=status, cost=cost, levels=given)


def _sums(problem: GivenTablesProblem, read: Sequence[_Cells], value: Integers) -> list[Finding]:
    """Totals that their parts do not add up to, by row."""
    structure = problem.programme.linked.structure.plain
    off = np.flatnonzero(np.asarray(structure.matrix.astype(np.int64) @ value))
    findings = []
    names = list(dict.fromkeys(name for rows in problem.rows for name in rows.variables))
    for row in off[:ROWS_NAMED].tolist():
        total = int(structure.total[row])
        for rows, cells, numbers in zip(problem.rows, read, problem.programme.linked.numbers, strict=True):
            here = np.flatnonzero(numbers == total)
            if len(here):
                place = _place(rows, cells, here)
                findings.append(
                    Finding.of(
                        "does-not-add-up/parts",
                        where=place,
                        found=CONFIDENTIAL,
                        name=names[structure.axis[row]],
                        off=len(off),
                        several=len(off) > 1,
                    )
                )
                break
    return findings


def _add_people(problem: GivenTablesProblem, value: Integers) -> None:
    """Figures for the kinds of people behind the tables, in place: some that the tables are margins of."""
    linked = problem.programme.linked
    if not linked.joint:
        return
    try:
        people = people_behind(linked, value)
    except ConfideError as error:
        raise InputError(error.findings) from None
    if people is None:
        raise InputError("no-whole-people", where=Place(file=problem.rows[0].path.name), found=CONFIDENTIAL)
    value[linked.own_cells :] = people


def _place(rows: CellCodes, cells: _Cells, at: Integers) -> Place:
    """The first row of some cells; the file, where they were computed."""
    given = cells.row[at][cells.row[at] >= 0]
    return Place(file=rows.path.name, row=int(given[0]) + 1 if len(given) else None, column=rows.text.value)


# The problem that given tables pose: primary cells with their levels, costs, and what is left of it for the curator.
#
# What the office has decided goes before the rules. Beside the release, the confidential zone gets a list of all cells
# with the reason why each is primary, and the problem with its pattern in the exchange format of solvers (.jj): cells
# are numbered as in the linked structure, unsafe ones are ``u`` with their levels, those that are hidden for others
# ``m``, those that are never hidden ``z``; figures are numbers of the declared unit. The format wants an upper bound
# for each figure: it is far above all.


def given_levels(problem: GivenTablesProblem, truth: GivenTruth) -> suppression_problem.Levels:
    """The cells that are primary, by the rules and by what was decided, with their protection levels."""
    by_rule = primary_levels(problem, truth)
    waived = (truth.status == SAFE) | (truth.status == PROTECTED)
    asked = truth.levels.primary
    decided = truth.status == UNSAFE
    percent = problem.spec.suppression.range
    away = np.array([max(1, ceil(percent / suppression_problem.MOST * int(x))) for x in truth.value], np.int64)
    bare = decided & ~asked & ~by_rule.primary
    own = suppression_problem.Levels(
        decided | asked,
        np.where(bare, np.minimum(away, truth.value), truth.levels.lower),
        np.where(bare, away, truth.levels.upper),
        truth.levels.sliding,
    )
    levels = by_rule.also(own)
    return suppression_problem.Levels(
        levels.primary & ~waived,
        *(np.where(waived, 0, level) for level in (levels.lower, levels.upper, levels.sliding)),
    )


def pose_given(problem: GivenTablesProblem, truth: GivenTruth) -> suppression_problem.PatternProblem:
    """Primary cells, what is never hidden, and what it costs to hide others."""
    part, programme = problem.spec.suppression, problem.programme
    single: Flags = (truth.number == 1) if part.singletons else np.zeros(len(truth.value), np.bool_)
    keep = programme.kept(part.keep) | (truth.status == PROTECTED)
    levels = given_levels(problem, truth)
    posed = pose(
        programme.linked,
        truth.value,
        levels,
        zeros=part.zeros,
        weight=part.weights,
        single=single,
        keep=keep & ~levels.primary,
        inhabited=truth.number > 0,
    )
    posed = replace(posed, weight=np.where(np.isnan(truth.cost), posed.weight, truth.cost))
    return posed if truth.contributions is None else with_given_contributors(problem, truth.contributions, posed)


# Contributors of given magnitude tables, of whom only the largest contributions to each cell are known.
#
# Who they are is not known: each is taken for somebody else, but for those who are alone in a cell and in a total of
# it. What the largest have not given is taken for many equal contributions, each no larger than the smallest that is
# known: as many as there are contributors, or as few as can be. So a union of cells has its whole figure, and the rules
# never see a contributor who is larger than any can be. Confidential.


MOST_OTHERS = 100
"""So many of the smaller contributors are enough for any threshold."""


def with_given_contributors(
    problem: SuppressionProblem,
    contributions: suppression_problem.Contributions,
    posed: suppression_problem.PatternProblem,
) -> suppression_problem.PatternProblem:
    """The problem with those who contribute to its cells, as far as tables tell, and the rule for unions of cells."""
    cells = np.flatnonzero(contributions.number > 0)
    number, largest = contributions.number[cells], contributions.largest[cells].copy()
    alone = number == 1
    largest[alone, 0] = posed.value[cells[alone]]
    largest[alone, 1:] = 0
    known = _entries(posed, cells, number, largest)
    everybody = _entries(posed, cells, number, largest, others=posed.value[cells] - largest.sum(axis=1))
    rule = suppression_problem.UnionRule(everybody, partial(magnitude_levels, problem))
    insiders = known if problem.spec.suppression.singletons else None
    return replace(posed, contributors=insiders, union_rule=rule)


def _entries(
    posed: suppression_problem.PatternProblem,
    cells: Integers,
    number: Integers,
    largest: Integers,
    others: Integers | None = None,
) -> suppression_problem.Contributors:
    """The contributors of cells; with what the ``others`` gave, these too."""
    top = largest.shape[1]
    there = (np.arange(top)[None, :] < number[:, None]) & (largest > 0)
    cell = [np.repeat(cells, there.sum(axis=1))]
    amount = [largest[there]]
    if others is not None:
        smallest = np.where(there.any(axis=1), np.where(there, largest, np.iinfo(np.int64).max).min(axis=1), others)
        unlisted = np.maximum(number - there.sum(axis=1), 0)
        parts = np.maximum(np.minimum(unlisted, MOST_OTHERS), -(-others // np.maximum(smallest, 1)))
        parts = np.where(others > 0, np.maximum(parts, 1), 0)
        each = np.repeat(others // np.maximum(parts, 1), parts)
        # What does not divide goes to the first ones.
        first = np.arange(len(each)) - np.repeat(np.cumsum(parts) - parts, parts)
        amount.append(each + (first < np.repeat(others % np.maximum(parts, 1), parts)))
        cell.append(np.repeat(cells, parts))
    of_cell, amounts = np.concatenate(cell), np.concatenate(amount)
    # Who is alone in a cell is alone in its parts: one person, as far as sums tell.
    person = len(posed.value) + np.arange(len(of_cell), dtype=np.int64)
    same = posed.persons[of_cell] >= 0
    person[same] = posed.persons[of_cell[same]]
    return suppression_problem.contributors_of(of_cell, person, amounts, amounts, np.zeros(len(posed.value), np.int64))


# What is left for the curator.


REASONS = "cells.parquet"
"""The file of the confidential zone that says which cells are primary, and why."""


def reasons(
    problem: GivenTablesProblem, truth: GivenTruth, posed: suppression_problem.PatternProblem, suppressed: Flags
) -> pa.Table:
    """Every listed cell of every table with its figure, whether and why it is primary, its levels, and whether it is
    hidden. Confidential: for the curator alone."""
    by_rule = primary_levels(problem, truth).primary
    words = {SAFE: "safe by decision", PROTECTED: "protected by decision", UNSAFE: "unsafe by decision"}
    why = np.array(
        [
            words[status] if status else "a rule" if rule else "a required level" if level else ""
            for status, rule, level in zip(truth.status.tolist(), by_rule, truth.levels.primary, strict=True)
        ]
    )
    programme, unit = problem.programme, problem.spec.data.unit
    parts = []
    for table, numbers in zip(programme.tables, programme.linked.numbers, strict=True):
        labels, cells = table.lines
        at = numbers[cells]
        levels = posed.levels.taken(at)
        named = [
            ", ".join(f"{name} = {label}" for name, label in zip(table.columns, each, strict=True)) for each in labels
        ]
        parts.append(
            pa.table(
                {
                    "table": pa.array([table.name] * len(at)),
                    "cell": pa.array(named),
                    "figure": published_figures(truth.value[at], unit),
                    "primary": pa.array(levels.primary),
                    "why": pa.array(why[at].tolist()),
                    "lower": published_figures(levels.lower, unit),
                    "upper": published_figures(levels.upper, unit),
                    "sliding": published_figures(levels.sliding, unit),
                    "cost": pa.array(posed.weight[at]),
                    "hidden": pa.array(suppressed[at]),
                }
            )
        )
    return pa.concat_tables(parts)


PROBLEM = "problem.jj"
"""The file of the confidential zone."""
FAR = 10


def jj_of(problem: suppression_problem.PatternProblem, suppressed: Flags) -> JJProblem:
    """A problem with a pattern.

    Args:
        problem: Figures, levels and costs of all distinct cells.
        suppressed: Which of them are hidden.

    Returns:
        Cells and sums, for :func:`confide.documents.argus.write_jj`.
    """
    levels = problem.levels
    far = Decimal(FAR * (int(problem.value.max(initial=0)) + int(levels.upper.max(initial=0)) + 1))
    status = np.where(problem.keep, "z", "s")
    status = np.where(suppressed, "m", status)
    status = np.where(levels.primary, "u", status)
    zero = Decimal(0)
    columns = (problem.value, problem.weight, status, problem.low, levels.lower, levels.upper, levels.sliding)
    cells = tuple(
        JJCell(number, Decimal(value), Decimal(repr(cost)), kind, Decimal(low), far, *map(Decimal, levels_of))
        for number, (value, cost, kind, low, *levels_of) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
    )
    matrix = problem.structure.matrix
    sums = tuple(
        JJSum(
            zero,
            tuple(
                (int(cell), int(times))
                for cell, times in zip(
                    matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]],
                    matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]],
                    strict=True,
                )
            ),
        )
        for row in range(problem.structure.rows)
    )
    return JJProblem(cells, sums)
