"""What finds the noise of a count and a cell key: one small protocol for every kind of table.

* ``ess``, the European one: :class:`~confide.noise.ptables.PTable`, intervals of keys for each count. A table of the
  Office for National Statistics is one too: 256 or 4,096 keys, the last rows in turn, and a threshold.
* ``abs``, the Australian one: :class:`~confide.mechanisms.cellkey.lookups.AbsTable`, 256 values made beforehand for
  a column.

All have sums of whole record keys as cell keys, so that the same members have the same noise, whatever the lookup.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arrays import Floats, Integers
from confide.errors import Finding, InputError, ParameterError, Place
from confide.mechanisms.cellkey.keys import uniform
from confide.noise import ReleaseKey, derive_stream
from confide.noise.ptables import LookupRow, PTable
from confide.noise.ptables.ptable import cumulated

# The lookup of the Australian Bureau of Statistics: noise drawn beforehand, 256 values for each column.
#
#     row     the four bytes of the cell key, combined by exclusive or: 0 .. 255
#     column  n if n <= size - small_n, else size - small_n + 1 + (n mod small_n)
#
# Record keys are whole numbers from 1; a cell key is their sum modulo ``big_n``, a large prime. With 30 columns and a
# ``small_n`` of 10, counts from 1 to 20 have a column each, and larger ones use the last ten by their last digit: 25
# the column 26. Zero stays zero. Of the key it is the bytes that are combined, never those of the count.
#
# The columns are made from a perturbation table: *allocated*, so that each noise value has its share of the 256 rows
# up to rounding; or *drawn*, 256 times independently, so that shares and mean scatter. References: the documentation
# of SuperSTAR; for the two ways to fill columns, the R package ``ptable``.


ROWS = 256
BIG_N, SMALL_N, SIZE = 17_312_941, 10, 30
LARGEST_BIG_N = 1 << 32
MOST_COLUMNS, MOST_FINDINGS = 10_000, 20
LAYOUT = "confide/ptable/abs/v1"
_INTEGER = re.compile(r"[+-]?\d{1,9}")


@dataclass(frozen=True, eq=False)
class AbsTable:
    """A matrix of noise, 256 rows, a column for each count or class of counts."""

    matrix: Integers = field(repr=False)
    small_n: int = SMALL_N
    big_n: int = BIG_N

    def __post_init__(self) -> None:
        size = self.matrix.shape[1] if self.matrix.ndim == 2 else 0
        if len(self.matrix) != ROWS or not 1 <= self.small_n < size <= MOST_COLUMNS:
            raise ParameterError(
                "bad-abs-table/noise",
                where=Place(path="cellkey"),
                matrix=len(self.matrix),
                size=size,
                small_n=self.small_n,
                rows=ROWS,
            )
        if not ROWS <= self.big_n <= LARGEST_BIG_N:
            raise ParameterError(
                "bad-abs-table/big",
                where=Place(path="cellkey"),
                found=str(self.big_n),
                rows=ROWS,
                largest_big_n=LARGEST_BIG_N,
            )
        self.matrix.setflags(write=False)
        assert self.by_byte.modulus == ROWS  # made now, so that noise that would make counts negative is refused now

    @property
    def size(self) -> int:
        """The number of columns."""
        return int(self.matrix.shape[1])

    @property
    def modulus(self) -> int:
        """Cell keys are sums modulo this."""
        return self.big_n

    @property
    def largest_noise(self) -> Fraction:
        """The largest absolute noise."""
        return self.by_byte.largest_noise

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides a lookup."""
        head = f"{LAYOUT},{self.big_n},{self.small_n},{self.size};".encode()
        return hashlib.sha256(head + self.matrix.astype("<i8").tobytes()).hexdigest()

    def column_of(self, counts: npt.ArrayLike) -> Integers:
        """The columns, from one, that counts above zero use."""
        given, alone = np.asarray(counts, np.int64), self.size - self.small_n
        return np.where(given <= alone, given, alone + 1 + given % self.small_n)

    @cached_property
    def by_byte(self) -> PTable:
        """The same as a perturbation table over the 256 values of the byte.

        Its last row is a multiple of ``small_n``: then "the last ``small_n`` rows in turn" is the rule of the columns.
        """
        last = -(-self.size // self.small_n) * self.small_n
        columns = self.column_of(np.arange(1, last + 1))
        rows = [LookupRow(0, (0,), (ROWS,))]
        for count, column in enumerate(columns.tolist(), start=1):
            noise = self.matrix[:, column - 1]
            ends = [*(np.flatnonzero(np.diff(noise)) + 1).tolist(), ROWS]
            rows.append(LookupRow(count, tuple(int(noise[end - 1]) for end in ends), tuple(ends)))
        same = (self.matrix[:, -self.small_n :] == self.matrix[:, -1:]).all()
        return PTable(tuple(rows), ROWS, cycle=1 if same else self.small_n).compact()

    def row_of(self, counts: npt.ArrayLike) -> Integers:
        """The places of the rows of :attr:`by_byte` that counts use."""
        return self.by_byte.row_of(counts)

    def probabilities(self, place: int) -> dict[Fraction, Fraction]:
        """The law of such a row, if all bytes are equally likely."""
        return self.by_byte.probabilities(place)

    def lookup(self, counts: npt.ArrayLike, keys: npt.ArrayLike) -> Integers:
        """The noise of true counts with cell keys from ``0 .. big_n - 1``, element by element; zero gets zero."""
        return self.by_byte.lookup(counts, folded(keys))


def folded(keys: npt.ArrayLike) -> Integers:
    """The four bytes of a 32-bit key, combined by exclusive or."""
    given = np.asarray(keys, np.int64)
    return (given ^ given >> 8 ^ given >> 16 ^ given >> 24) & 0xFF


def allocate(ptable: PTable, size: int = SIZE, small_n: int = SMALL_N, big_n: int = BIG_N) -> AbsTable:
    """Every column in proportion to the law of its row: bounds of shares are within half of a row of 256."""
    columns = []
    for place in _places(ptable, size, small_n):
        law = ptable.rows[place].key_counts()
        bounds = cumulated([Fraction(keys) for keys in law.values()], ROWS)
        columns.append(np.repeat(list(law), np.diff([0, *bounds])))
    return AbsTable(np.stack(columns, axis=1).astype(np.int64), small_n, big_n)


def draw_columns(
    ptable: PTable, key: ReleaseKey, size: int = SIZE, small_n: int = SMALL_N, big_n: int = BIG_N
) -> AbsTable:
    """Every entry drawn from the law of its row, independently."""
    columns = []
    for number, place in enumerate(_places(ptable, size, small_n), start=1):
        stream = derive_stream(
            key,
            records_fingerprint=bytes.fromhex(ptable.fingerprint),
            plan_hash=LAYOUT.encode(),
            mechanism="cellkey",
            level="ptable",
            query=f"column {number}",
        )
        columns.append(ptable.lookup_rows(np.full(ROWS, place), uniform(stream, ROWS, ptable.modulus)))
    return AbsTable(np.stack(columns, axis=1), small_n, big_n)


def read_abs(path: Path, small_n: int = SMALL_N, big_n: int = BIG_N) -> AbsTable:
    """The table of a text file: 256 lines of whole numbers with commas between them, no header."""
    try:
        if path.is_fifo():
            raise OSError(errno.ESPIPE, "a pipe")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError("no-table/noise", where=Place(file=str(path))) from None
    while lines and not lines[-1].strip():
        lines.pop()
    cells = [[cell.strip() for cell in line.split(",")] for line in lines[: ROWS + 1]]
    width = len(cells[0]) if cells else 0
    findings = []
    if len(lines) != ROWS or width > MOST_COLUMNS:
        findings.append(
            Finding.of(
                "bad-abs-table/right-size",
                where=Place(file=str(path), line=None),
                lines=len(lines),
                width=width,
                rows=ROWS,
            )
        )
    for number, row in enumerate(cells, start=1):
        if len(row) != width or not all(_INTEGER.fullmatch(cell) for cell in row):
            findings.append(
                Finding.of(
                    "bad-abs-table/line",
                    where=Place(file=str(path), line=number),
                    found=",".join(row)[:40],
                    width=width,
                )
            )
    if findings:
        raise InputError(findings[:MOST_FINDINGS])
    return AbsTable(np.array(cells, np.int64), small_n, big_n)


def abs_text(table: AbsTable) -> str:
    """The table as :func:`read_abs` reads it."""
    return "".join(",".join(map(str, row)) + "\n" for row in table.matrix.tolist())


def bias_findings(table: AbsTable) -> list[Finding]:
    """A warning if a column's mean is not zero, which 256 rows can seldom avoid."""
    means = np.abs(table.matrix.sum(axis=0))
    worst = int(means.argmax())
    if not means[worst]:
        return []
    place = Place(path="cellkey.lookup")
    return [Finding.of("biased-columns", where=place, severity="warning", mean=means[worst] / ROWS, worst=worst + 1)]


def _places(ptable: PTable, size: int, small_n: int) -> list[int]:
    """The row of the perturbation table for each column: the last one for all columns that counts share."""
    shared = size - small_n + 1
    if not ptable.for_counts or ptable.cycle != 1 or not 1 <= small_n < size <= MOST_COLUMNS or shared < ptable.top:
        raise ParameterError(
            "too-few-columns", top=ptable.top, size=size, small_n=small_n, top_expected=ptable.top + small_n - 1
        )
    return [min(column, ptable.top) for column in range(1, size + 1)]


class Lookup(Protocol):
    """A table in which noise is looked up. It belongs to the release and holds nothing of the records."""

    @property
    def modulus(self) -> int:
        """Cell keys are sums of record keys modulo this."""

    @property
    def largest_noise(self) -> Fraction:
        """The bound of the noise, D."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides a lookup."""

    def row_of(self, counts: npt.ArrayLike) -> Integers:
        """The place of the law that each count uses; zero for a count of zero."""

    def probabilities(self, place: int) -> dict[Fraction, Fraction]:
        """The law at a place: noise and probability, if all keys are equally likely."""

    def lookup(self, counts: npt.ArrayLike, keys: npt.ArrayLike) -> Integers:
        """The noise of counts with cell keys, element by element. A count of zero gets none."""


def expected_errors(lookup: Lookup, counts: Integers, threshold: int | None) -> tuple[Floats, Floats]:
    """For each true count the mean of \\|published − true\\|, and the probability that zero is published.

    Means are over keys. A threshold belongs to what is published: below it stands zero.
    """
    error, zero = np.zeros(len(counts)), np.zeros(len(counts))
    places = lookup.row_of(counts)
    for place in np.unique(places).tolist():
        at = np.flatnonzero(places == place)
        for noise, probability in lookup.probabilities(place).items():
            published = counts[at] + int(noise)
            published[published < (threshold or 0)] = 0
            error[at] += float(probability) * np.abs(published - counts[at])
            zero[at] += float(probability) * (published == 0)
    return error, zero


def facts(lookup: Lookup) -> Mapping[str, Any]:
    """How noise is looked up, as it stands in the plan."""
    if isinstance(lookup, AbsTable):
        return {"lookup": "abs", "big_n": lookup.big_n, "small_n": lookup.small_n, "columns": lookup.size}
    return {"lookup": "ess"}
