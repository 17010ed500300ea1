"""What can be wrong with a perturbation table, whoever made it: errors, and warnings about bias."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

from confide.errors import Finding, Place

LARGEST_WHOLE = 1 << 53
TYPES = ("all", "even", "odd")

Where = Callable[[int, int], Place]
"""The place, in a file, of an interval: row of the table and number of the interval."""


class Row(Protocol):
    """A row as it is checked."""

    @property
    def i(self) -> int: ...
    @property
    def noise(self) -> tuple[int, ...]: ...
    @property
    def bounds(self) -> tuple[int, ...]: ...
    @property
    def lengths(self) -> tuple[int, ...]: ...


class Parts(Protocol):
    """What is checked: a table, or what a file says that it is."""

    @property
    def rows(self) -> Sequence[Row]: ...
    @property
    def whole(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def cycle(self) -> int: ...


def in_table(row: int, interval: int) -> Place:
    """The place of an interval where there is no file."""
    return Place(path=f"row {row}, interval {interval + 1}")


def table_findings(table: Parts, where: Where = in_table) -> Iterator[Finding]:
    """Everything that is wrong with a table as a whole, then row by row."""
    if not 1 <= table.whole <= LARGEST_WHOLE or table.whole * (len(table.rows) + 1) >= 1 << 63:
        yield _finding("bad-whole", "the number of keys is out of range", str(table.whole), "from 1 to 2**53", Place())
    if not 1 <= table.step <= 1_000 or table.kind not in TYPES:
        expected = "a step from 1 to 1,000 and the type all, even or odd"
        yield _finding("bad-step", "step or type is wrong", f"{table.step}, {table.kind[:20]}", expected, Place())
    if not table.rows or table.rows[0].i != 0 or any(a.i >= b.i for a, b in pairwise(table.rows)):
        found = ", ".join(str(row.i) for row in table.rows[:8]) or "no rows"
        expected = "row 0, then rows of ascending counts"
        yield _finding("bad-rows", "the rows of the table are not in order", found, expected, where(0, 0))
        return
    if not 1 <= table.cycle <= max(1, len(table.rows) - 1):
        expected = "between one and the number of rows above zero"
        yield _finding("bad-cycle", "counts above the last row use no row", str(table.cycle), expected, Place())
    for number, row in enumerate(table.rows):
        yield from _row_findings(table, number, row, where)


def _row_findings(table: Parts, number: int, row: Row, where: Where) -> Iterator[Finding]:
    if not row.noise or len(row.noise) != len(row.bounds):
        yield _finding("bad-row", f"row {row.i} has no intervals", str(len(row.noise)), "one or more", where(number, 0))
        return
    before = 0
    for k, (value, bound) in enumerate(zip(row.noise, row.bounds, strict=True)):
        if bound < before:
            what = f"the upper bounds of row {row.i} do not increase"
            found = f"{_share(bound, table)} after {_share(before, table)}"
            yield _finding(
                "bounds-not-increasing", what, found, "an upper bound not below the one before", where(number, k)
            )
        if value < -row.i * table.step:
            what = f"noise of row {row.i} makes a negative result"
            found = _signed(value, table)
            yield _finding("negative-result", what, found, f"noise of at least {-row.i}", where(number, k))
        before = bound
    if row.bounds[-1] != table.whole:
        what = f"the probabilities of row {row.i} do not sum to one"
        found = _share(row.bounds[-1], table)
        yield _finding("not-one", what, found, "a last upper bound of exactly 1", where(number, len(row.bounds) - 1))
        return
    if row.i == 0:
        if any(value for value, keys in zip(row.noise, row.lengths, strict=True) if keys):
            yield _finding("zero-perturbed", "a count of zero gets noise", "noise in row 0", "none", where(number, 0))
        return
    bias = sum(value * keys for value, keys in zip(row.noise, row.lengths, strict=True))
    # Each inner bound was rounded by at most a half and moves the mean by that times the step between its neighbours.
    if 2 * abs(bias) > sum(abs(b - a) for a, b in pairwise(row.noise)):
        yield Finding(
            code="biased-row",
            what=f"the noise of row {row.i} has a mean that rounding does not explain",
            where=where(number, 0),
            found=f"a mean of {float(Fraction(bias, table.whole * table.step)):.6g}",
            expected="a mean of zero",
            remedy="expect totals over many small cells to be biased, or make the table anew",
            severity="warning",
        )


def _share(bound: int, table: Parts) -> str:
    return f"{bound / table.whole:.12g}"


def _signed(value: int, table: Parts) -> str:
    return f"{float(Fraction(value, table.step)):+g}"


def _finding(code: str, what: str, found: str, expected: str, where: Place) -> Finding:
    return Finding(code, what, where, found, expected, "correct the table, or make it anew with confide ptable")
