"""The exchange format of solvers for cell suppression (.jj): cells one by one, and the sums between them.

::

    0
    4                                                   the number of cells
    0 20 20 s 0 40 0 0 0                                number, figure, cost, status, bounds, levels
    1 3 3 u 0 40 1 1 0
    …
    1                                                   the number of sums
    0 3 : 0 (-1) 1 (1) 2 (1)                            right side, number of terms, terms

The status is ``u`` (unsafe), ``s`` (safe), ``z`` (never hidden), or ``m`` (hidden for others). The bounds are what
anybody knows of the figure beforehand, the levels how far its interval must reach: below, above, and in all. As
sdcTable writes it (``writeJJFormat``) there is no column of statuses: cells with a level are unsafe then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

from confide.engines.groups import write_text
from confide.inputs.argus.beside_table import read_lines, refused

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
        raise refused(path, number, "the file does not begin as a JJ file", repr(text.strip()[:20]), "a line with 0")
    cells: dict[int, JJCell] = {}
    for _ in range(_count(path, lines, "cells")):
        number, text = _next(path, lines, "a cell")
        cell = _cell(path, number, text)
        if cell.number in cells:
            raise refused(path, number, "a cell stands there twice", str(cell.number), "each number once")
        cells[cell.number] = cell
    sums = [_sum(path, *_next(path, lines, "a sum"), cells) for _ in range(_count(path, lines, "sums"))]
    more = next(lines, None)
    if more is not None:
        raise refused(path, more[0], "there are more lines than the file announces", None, "an end after the sums")
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
        raise refused(path, None, "the file ends too early", "its end", what)
    return line


def _count(path: Path, lines: Lines, what: str) -> int:
    number, text = _next(path, lines, f"the number of {what}")
    if not text.strip().isdigit():
        raise refused(path, number, f"the number of {what} cannot be read", None, "a whole number alone on its line")
    return int(text)


def _decimals(path: Path, line: int, texts: Sequence[str]) -> list[Decimal]:
    try:
        numbers = [Decimal(text) for text in texts]
    except InvalidOperation:
        numbers = []
    if len(numbers) != len(texts) or not all(number.is_finite() for number in numbers):
        raise refused(path, line, "a number cannot be read", None, "figure, cost, bounds and levels as numbers")
    return numbers


def _cell(path: Path, line: int, text: str) -> JJCell:
    words = text.split()
    if len(words) not in (FIELDS, FIELDS - 1) or not words[0].isdigit():
        expected = "number, figure, cost, status, two bounds and three levels"
        raise refused(path, line, "a cell does not have what cells have", f"{len(words)} values", expected)
    written = words[3].lower() if len(words) == FIELDS else ""
    if len(words) == FIELDS and written not in STATUSES:
        raise refused(path, line, "a status is none of the format", repr(words[3]), "u, s, z or m")
    rest = words[4:] if len(words) == FIELDS else words[3:]
    value, cost, low, high, lower, upper, sliding = _decimals(path, line, [*words[1:3], *rest])
    levels = any(level > 0 for level in (lower, upper, sliding))
    status: Status = STATUSES[written] if written else "u" if levels else "s"
    if min(lower, upper, sliding) < 0 or cost < 0:
        raise refused(path, line, "a cost or a level is negative", None, "at least zero")
    if not low <= value <= high:
        raise refused(path, line, "the figure of a cell is outside of its bounds", None, "a figure between them")
    return JJCell(int(words[0]), value, cost, status, low, high, lower, upper, sliding)


def _sum(path: Path, line: int, text: str, cells: dict[int, JJCell]) -> JJSum:
    head, colon, tail = text.partition(":")
    words = head.split()
    terms = [(int(number), int(float(times))) for number, times in TERM.findall(tail)]
    if not colon or len(words) != 2 or TERM.sub("", tail).strip() or not words[1].isdigit():
        raise refused(path, line, "a sum cannot be read", None, "right side, number of terms, :, and number (1) …")
    (right,) = _decimals(path, line, words[:1])
    if len(terms) != int(words[1]):
        raise refused(path, line, "a sum has other terms than it announces", f"{len(terms)} terms", words[1])
    unknown = next((number for number, _ in terms if number not in cells), None)
    if unknown is not None:
        raise refused(path, line, "a sum names a cell that is not there", str(unknown), "numbers of cells")
    if len({number for number, _ in terms}) < len(terms):
        raise refused(path, line, "a sum names a cell twice", None, "each cell once")
    if sum(times * cells[number].value for number, times in terms) != right:
        raise refused(path, line, "the cells of a sum do not add up", None, "cells whose figures fit")
    return JJSum(right, tuple(terms))
