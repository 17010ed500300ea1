"""The small files of tau-ARGUS that lie beside a table, and the one way in which such a file is refused.

Hierarchies (.hrc) have a code on each line, as many leading strings before it as it is deep; code lists (.cdl) have a
code, a comma, and its label. A-priori information (.hst, .hist) is what is known of single cells before any rule: the
codes of a cell and then a letter, with numbers after it:

========================  ===================================================================
``u``                     the cell is unsafe: hidden for its own sake
``u, lower, upper``       the same, with its protection levels
``s``                     the cell is safe: no rule makes it unsafe (a waiver)
``z`` or ``p``            the cell is protected: never hidden
``c, cost``               what it costs to hide the cell
``pl, lower, upper``      its protection levels
========================  ===================================================================
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

from confide.errors import CONFIDENTIAL, InputError, Place
from confide.file_system import write_text

CODE = "argus-file"


def read_lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8 or, as Windows writes it, in Latin 1; without their ends."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise refused("argus-file/beside", path) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise refused("argus-file/read", path, found=found) from None
    if b"\0" in content:
        raise refused("argus-file/text", path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.splitlines()


def refused(key: str, path: Path, line: int | None = None, /, found: str = CONFIDENTIAL, **facts: object) -> InputError:
    """A file of tau-ARGUS that cannot be read. What stands in a table is confidential."""
    return InputError(key, where=Place(file=path.name, line=line), found=found, **facts)


def unquoted(text: str) -> str:
    """A text without the quotation marks around it."""
    text = text.strip()
    for mark in ('"', "'", "“", "”"):
        if text.startswith(mark):
            return text.strip("\"'“”")
    return text


# Hierarchies and labels.


LEAD = "@"


def read_hierarchy(path: str | Path, total: str, lead: str = LEAD) -> dict[str, list[str]]:
    """For the total and every other code with parts, these parts.

    Args:
        path: The file.
        total: The code of the total, which the file does not have.
        lead: What stands before a code once for each level that it is below the parts of the total.

    Returns:
        The parts of each code that has some, in the order of the file.

    Raises:
        InputError: With the line: a code deeper by more than one, or twice, or an empty file.
    """
    path = Path(path)
    parts: dict[str, list[str]] = {total: []}
    chain = [total]
    seen = {total}
    if not lead:
        raise refused("argus-file/leading", path)
    for number, text in enumerate(read_lines(path), start=1):
        rest, depth = text.strip(), 0
        if not rest:
            continue
        while rest.startswith(lead):
            rest, depth = rest[len(lead) :], depth + 1
        code = rest.strip()
        if not code:
            raise refused("argus-file/line-code", path, number, found=repr(text.strip()), lead=lead)
        if depth >= len(chain):
            raise refused("argus-file/deeper", path, number, its_code=code, depth=depth)
        if code in seen:
            raise refused("argus-file/code-hierarchy", path, number, found=repr(code))
        seen.add(code)
        chain = [*chain[: depth + 1], code]
        parts.setdefault(chain[depth], []).append(code)
    if not parts[total]:
        raise refused("argus-file/hierarchy-codes", path)
    return parts


def hierarchy_text(parts: Mapping[str, Sequence[str]], total: str, lead: str = LEAD) -> str:
    """A hierarchy as :func:`read_hierarchy` reads it.

    Args:
        parts: The parts of the total and of every other code that has some.
        total: The code of the total.
        lead: What stands before a code once for each level that it is below the parts of the total.

    >>> hierarchy_text({"_T": ["N", "S"], "N": ["N1", "N2"]}, "_T").splitlines()
    ['N', '@N1', '@N2', 'S']
    """
    lines: list[str] = []
    waiting = [(0, code) for code in reversed(parts[total])]
    while waiting:
        depth, code = waiting.pop()
        lines.append(lead * depth + code)
        waiting += [(depth + 1, part) for part in reversed(parts.get(code, ()))]
    return "\n".join(lines) + "\n"


def free_lead(codes: Iterable[str]) -> str:
    """A leading string that no code begins with: ``@`` where it can be."""
    every = list(codes)
    return next(lead for lead in _leads() if not any(code.startswith(lead[0]) for code in every))


def _leads() -> Iterator[str]:
    yield from (LEAD, "$", "%", "~", "^", "!")
    yield from map(chr, range(0x2190, 0x2200))


def read_labels(path: str | Path) -> dict[str, str]:
    """For each code of a code list its label; where a label has a comma, all of what stands behind the first.

    Raises:
        InputError: With the line: a code twice, or no comma.
    """
    path = Path(path)
    labels: dict[str, str] = {}
    for number, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        code, comma, label = text.partition(",")
        code, label = unquoted(code), unquoted(label)
        if not comma or not code:
            raise refused("argus-file/label", path, number, found=repr(text.strip()[:40]))
        if code in labels:
            raise refused("argus-file/labels", path, number, found=repr(code))
        labels[code] = label or code
    return labels


# What is known of single cells before any rule.


What = Literal["u", "s", "z", "c", "pl"]
LETTERS: dict[str, What] = {"u": "u", "s": "s", "z": "z", "p": "z", "c": "c", "pl": "pl"}
NUMBERS: dict[What, tuple[int, ...]] = {"u": (0, 2), "s": (0,), "z": (0,), "c": (1,), "pl": (2,)}


@dataclass(frozen=True)
class AprioriLine:
    """What is said of one cell."""

    codes: tuple[str, ...]
    what: What
    numbers: tuple[str, ...]
    line: int


def read_apriori(path: str | Path, variables: int, separator: str = ",") -> list[AprioriLine]:
    """What is known of single cells.

    Args:
        path: The file.
        variables: How many variables the table has.
        separator: What stands between the values of a line.

    Returns:
        The lines in their order.

    Raises:
        InputError: With the line that cannot be read.
    """
    path = Path(path)
    read: list[AprioriLine] = []
    for number, values in enumerate(csv.reader(read_lines(path), delimiter=separator), start=1):
        texts = [text.strip() for text in values]
        if not any(texts):
            continue
        while texts and not texts[-1]:
            texts.pop()
        if len(texts) <= variables:
            raise refused("argus-file/line-status-after", path, number, texts=len(texts), variables=variables)
        letter = LETTERS.get(texts[variables].lower())
        if letter is None:
            raise refused("argus-file/tau", path, number, found=repr(texts[variables]))
        numbers = tuple(texts[variables + 1 :])
        if len(numbers) not in NUMBERS[letter] or not all(_is_number(text) for text in numbers):
            raise refused(
                "argus-file/numbers-after-read",
                path,
                number,
                letter=letter,
                number=" or ".join(str(times) for times in NUMBERS[letter]),
            )
        read.append(AprioriLine(tuple(texts[:variables]), letter, numbers, number))
    return read


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


# The exchange format of solvers for cell suppression (.jj): cells one by one, and the sums between them.
#
# ::
#
#     0
#     4                                                   the number of cells
#     0 20 20 s 0 40 0 0 0                                number, figure, cost, status, bounds, levels
#     1 3 3 u 0 40 1 1 0
#     …
#     1                                                   the number of sums
#     0 3 : 0 (-1) 1 (1) 2 (1)                            right side, number of terms, terms
#
# The status is ``u`` (unsafe), ``s`` (safe), ``z`` (never hidden), or ``m`` (hidden for others). The bounds are what
# anybody knows of the figure beforehand, the levels how far its interval must reach: below, above, and in all. As
# sdcTable writes it (``writeJJFormat``) there is no column of statuses: cells with a level are unsafe then.


Status = Literal["u", "s", "z", "m"]
STATUSES: dict[str, Status] = {"u": "u", "s": "s", "z": "z", "m": "m", "x": "m"}
TERM = re.compile(r"(\d+)\s*\(\s*([+-]?\d+(?:\.0*)?)\s*\)")
FIELDS = 9


@dataclass(frozen=True)
class JJCell:
    """One cell."""

    number: int
    value: Decimal
    cost: Decimal
    status: Status
    low: Decimal
    high: Decimal
    lower: Decimal
    upper: Decimal
    sliding: Decimal


@dataclass(frozen=True)
class JJSum:
    """Cells that add up: coefficient times figure, together the right side."""

    right: Decimal
    terms: tuple[tuple[int, int], ...]
    """The number of a cell, and its coefficient."""


@dataclass(frozen=True)
class JJProblem:
    """All cells and all sums of a problem. Confidential."""

    cells: tuple[JJCell, ...] = field(repr=False)
    sums: tuple[JJSum, ...] = field(repr=False)


def read_jj(path: str | Path) -> JJProblem:
    """A problem in the exchange format.

    Args:
        path: The .jj file.

    Returns:
        Its cells and sums. Every sum was checked to hold.

    Raises:
        InputError: With the line that cannot be read, or whose cells do not add up.
    """
    path = Path(path)
    lines = iter([(number, text) for number, text in enumerate(read_lines(path), start=1) if text.strip()])
    number, text = _next(path, lines, "the line 0")
    if text.split() != ["0"]:
        raise refused("argus-file/begin", path, number, found=repr(text.strip()[:20]))
    cells: dict[int, JJCell] = {}
    for _ in range(_count(path, lines, "cells")):
        number, text = _next(path, lines, "a cell")
        cell = _cell(path, number, text)
        if cell.number in cells:
            raise refused("argus-file/cell", path, number, found=str(cell.number))
        cells[cell.number] = cell
    sums = [_sum(path, *_next(path, lines, "a sum"), cells) for _ in range(_count(path, lines, "sums"))]
    more = next(lines, None)
    if more is not None:
        raise refused("argus-file/lines", path, more[0])
    return JJProblem(tuple(cells.values()), tuple(sums))


def write_jj(problem: JJProblem, path: str | Path) -> None:
    """Writes a problem in the exchange format. CONFIDENTIAL: the file has every figure.

    Args:
        problem: Cells and sums.
        path: The file; it appears whole or not at all.
    """
    lines = ["0", str(len(problem.cells))]
    lines += [
        " ".join(
            [
                str(cell.number),
                *map(_plain, (cell.value, cell.cost)),
                cell.status,
                *map(_plain, (cell.low, cell.high, cell.lower, cell.upper, cell.sliding)),
            ]
        )
        for cell in problem.cells
    ]
    lines.append(str(len(problem.sums)))
    for each in problem.sums:
        terms = " ".join(f"{number} ({coefficient})" for number, coefficient in each.terms)
        lines.append(f"{_plain(each.right)} {len(each.terms)} : {terms}")
    write_text(Path(path), "\n".join(lines) + "\n")


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


Lines = Iterator[tuple[int, str]]


def _next(path: Path, lines: Lines, what: str) -> tuple[int, str]:
    line = next(lines, None)
    if line is None:
        raise refused("argus-file/early", path, expected=what)
    return line


def _count(path: Path, lines: Lines, what: str) -> int:
    number, text = _next(path, lines, f"the number of {what}")
    if not text.strip().isdigit():
        raise refused("argus-file/number-read", path, number, what=what)
    return int(text)


def _decimals(path: Path, line: int, texts: Sequence[str]) -> list[Decimal]:
    try:
        numbers = [Decimal(text) for text in texts]
    except InvalidOperation:
        numbers = []
    if len(numbers) != len(texts) or not all(number.is_finite() for number in numbers):
        raise refused("argus-file/figure-cost-bounds", path, line)
    return numbers


def _cell(path: Path, line: int, text: str) -> JJCell:
    words = text.split()
    if len(words) not in (FIELDS, FIELDS - 1) or not words[0].isdigit():
        raise refused("argus-file/cell-cells", path, line, words=len(words))
    written = words[3].lower() if len(words) == FIELDS else ""
    if len(words) == FIELDS and written not in STATUSES:
        raise refused("argus-file/status-none-format", path, line, found=repr(words[3]))
    rest = words[4:] if len(words) == FIELDS else words[3:]
    value, cost, low, high, lower, upper, sliding = _decimals(path, line, [*words[1:3], *rest])
    levels = any(level > 0 for level in (lower, upper, sliding))
    status: Status = STATUSES[written] if written else "u" if levels else "s"
    if min(lower, upper, sliding) < 0 or cost < 0:
        raise refused("argus-file/cost", path, line)
    if not low <= value <= high:
        raise refused("argus-file/figure", path, line)
    return JJCell(int(words[0]), value, cost, status, low, high, lower, upper, sliding)


def _sum(path: Path, line: int, text: str, cells: dict[int, JJCell]) -> JJSum:
    head, colon, tail = text.partition(":")
    words = head.split()
    terms = [(int(number), int(float(times))) for number, times in TERM.findall(tail)]
    if not colon or len(words) != 2 or TERM.sub("", tail).strip() or not words[1].isdigit():
        raise refused("argus-file/sum-read", path, line)
    (right,) = _decimals(path, line, words[:1])
    if len(terms) != int(words[1]):
        raise refused("argus-file/terms", path, line, terms=len(terms), expected=words[1])
    unknown = next((number for number, _ in terms if number not in cells), None)
    if unknown is not None:
        raise refused("argus-file/sum-cell", path, line, found=str(unknown))
    if len({number for number, _ in terms}) < len(terms):
        raise refused("argus-file/correct-line", path, line)
    if sum(times * cells[number].value for number, times in terms) != right:
        raise refused("argus-file/add", path, line)
    return JJSum(right, tuple(terms))
