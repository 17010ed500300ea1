"""Record keys, and what is known of cells: sums of the keys, weights and values of their members. Confidential.

A record key is a whole number, drawn once for each record and kept with it for ever. A cell's key is the sum of its
members' keys, modulo the number of keys. It depends on who is in the cell and on nothing else: not on the order of
records, on how they were divided into parts, or on the table in which the cell is. So the same members always get
the same noise (SPSN), and sums of parts can be merged. Whole numbers, never fractions: a sum of decimal keys in
floating point depends on its order.

A cell is known by its number; on a geolevel by ``unit * cells + cell``. Only occupied cells are kept, in the order of
their numbers: a country has a hundred thousand areas, most of whose cells are empty. Sums of disjoint sets of records
are added cell by cell, and those of a margin are sums over its parts: keys modulo the number of keys, the largest
contributions of a union among the largest of its parts. So neither the order of records nor how they are divided
matters.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Floats, Integers
from confide.engines import Engine, Source
from confide.errors import Finding, InputError, ParameterError, Place
from confide.file_system import whole_file
from confide.noise import NoiseStream, ReleaseKey, derive_stream
from confide.noise.ptables import LookupRow, PTable
from confide.noise.ptables.ptable import cumulated
from confide.releases.tabular import projected
from confide.schema import Query

_WORD = 64
_CHUNK = 1 << 20


def draw_keys(number: int, keys: int, secret: ReleaseKey | None = None) -> Integers:
    """Independent keys, uniform on ``0 .. keys - 1``: bits that are not below ``keys`` are passed over.

    Args:
        number: How many.
        keys: How many different keys there are.
        secret: A key that the draws follow from, for tests; None: the randomness of the operating system.

    Returns:
        ``number`` whole numbers.

    >>> drawn = draw_keys(1000, 256)
    >>> len(drawn), bool(((0 <= drawn) & (drawn < 256)).all())
    (1000, True)
    """
    stream = derive_stream(
        secret or ReleaseKey.from_system(),
        records_fingerprint=b"record keys",
        plan_hash=b"record keys",
        mechanism="cellkey",
        level="records",
        query="keys",
    )
    return uniform(stream, number, keys)


def uniform(stream: NoiseStream, number: int, below: int) -> Integers:
    """Independent whole numbers, uniform on ``0 .. below - 1``, from the first bits of one extension word each."""
    bits = (below - 1).bit_length()
    drawn: list[Integers] = []
    missing, start = number, 0
    while missing > 0:
        count = min(_CHUNK, 2 * missing + 64)
        words = stream.extension(np.arange(start, start + count, dtype=np.uint64), 0)
        start += count
        values = (words >> np.uint64(_WORD - bits)).astype(np.int64)
        values = values[values < below][:missing]
        drawn.append(values)
        missing -= len(values)
    return np.concatenate(drawn) if drawn else np.zeros(0, np.int64)


def added(sums: Integers, others: Integers, keys: int) -> Integers:
    """Cell keys of the union of disjoint sets of records."""
    total: Integers = (sums + others) % keys
    return total


# Records with keys: a new file with a column more, written once and then kept as the records.


BATCH = 1 << 18


def lower_parts(keys: int) -> list[int]:
    """How many of all keys are in the lower half, quarter and eighth."""
    return [keys // part for part in (2, 4, 8) if keys >= part]


def uneven(number: int, lower: Sequence[int], keys: int) -> bool:
    """Whether far too many drawn keys, or too few, lie in a lower part: more than eight standard errors off.

    Args:
        number: How many keys were drawn.
        lower: How many of them lie in each of the :func:`lower_parts`.
        keys: How many different keys there are.

    >>> uneven(1_000, [503, 248, 130], 10**8), uneven(1_000, [1_000, 1_000, 1_000], 10**8)
    (False, True)
    """
    shares = [Fraction(part, keys) for part in lower_parts(keys)]
    return any(
        (below - number * share) ** 2 > 64 * number * share * (1 - share)
        for below, share in zip(lower, shares, strict=True)
    )


def write_keyed(
    engine: Engine,
    records: Source,
    into: Path,
    *,
    column: str,
    keys: int,
    first: int = 0,
    secret: ReleaseKey | None = None,
) -> int:
    """Writes the records with a key each, as Parquet, for the curator alone.

    Args:
        engine: What reads the records.
        records: The records, without keys.
        into: The new file; there must be none of this name.
        column: What the column of keys is to be called.
        keys: How many different keys there are.
        first: The smallest of them.
        secret: A key that the draws follow from, for tests; None: the randomness of the operating system.

    Returns:
        How many records there are.

    Raises:
        InputError: The records have such a column, or the file is there already.
    """
    if column in engine.kinds(records):
        raise InputError(_keys_there(records, column, in_records=True))
    if into.exists():
        raise InputError(_keys_there(records, column, in_records=False))
    rows = engine.sql("SELECT * FROM records", records=records).reveal("to give each record its key")
    drawn = draw_keys(rows.num_rows, keys, secret) + first
    keyed = rows.append_column(column, pa.array(drawn))
    with whole_file(into, mode=0o600) as temporary:
        pq.write_table(keyed, temporary, compression="zstd", row_group_size=BATCH)
    return int(rows.num_rows)


def _keys_there(records: Source, column: str, *, in_records: bool) -> Finding:
    return Finding.of("keys-there", where=Place(file=records.file, column=column), column=in_records)


# What is known of the occupied cells of a cross-classification: members, keys, weights and values. Confidential.


DENSE = 1 << 22
"""Up to so many cells a sum is taken in an array of all cells; beyond, by sorting what is there."""


@dataclass(frozen=True, eq=False)
class CellValues:
    """The values of the members of each cell: their sum, and what its noise is in proportion to."""

    total: Integers = field(repr=False)
    largest: Integers = field(repr=False)
    """The largest contributions, without their signs, in descending order: a row for each cell."""
    greatest: Integers = field(repr=False)
    least: Integers = field(repr=False)

    def taken(self, at: Integers) -> CellValues:
        """Those of some cells."""
        return CellValues(self.total[at], self.largest[at], self.greatest[at], self.least[at])


@dataclass(frozen=True, eq=False)
class CellSums:
    """The members of every occupied cell: how many, their keys summed, their weights summed, their values."""

    cell: Integers = field(repr=False)
    """The numbers of the cells, ascending."""
    count: Integers = field(repr=False)
    key: Integers = field(repr=False)
    weight: Integers | None = field(repr=False)
    value: CellValues | None = field(default=None, repr=False)

    def plus(self, other: CellSums, keys: int) -> CellSums:
        """The sums of two disjoint sets of records."""
        if np.array_equal(self.cell, other.cell) and self.value is None:
            weight = None if self.weight is None or other.weight is None else self.weight + other.weight
            return CellSums(self.cell, self.count + other.count, added(self.key, other.key, keys), weight)
        return _summed(_joined(self, other), keys)

    def summed(self, larger: Query, query: Query, keys: int) -> CellSums:
        """The sums of ``query`` out of those of a larger cross-classification, unit by unit."""
        unit, within = np.divmod(self.cell, larger.cells)
        return _summed(replace(self, cell=unit * query.cells + projected(larger, query, within)), keys)


def nobody(*, weighted: bool, top: int | None = None) -> CellSums:
    """The sums of no records; ``top``: so many of the largest contributions are kept."""
    none: Integers = np.zeros(0, np.int64)
    value = None if top is None else CellValues(none, np.zeros((0, top), np.int64), none, none)
    return CellSums(none, none, none, none if weighted else None, value)


def of_records(
    cell: Integers, key: Integers, weight: Integers | None, value: Integers | None, cells: int, top: int
) -> CellSums:
    """The sums of records, given the cell of each.

    Args:
        cell: The number of each record's cell.
        key: Its key.
        weight: Its weight in millionths, where there are weights.
        value: Its contribution, where values are added up.
        cells: How many cells there are.
        top: How many of the largest contributions are kept.
    """
    if value is None and cells <= DENSE:
        count = np.bincount(cell, minlength=cells)
        at = np.flatnonzero(count)
        # Sums of at most 2**20 keys below 2**32 are exact in floating point.
        keys = np.bincount(cell, key, cells)[at].astype(np.int64)
        return CellSums(at, count[at].astype(np.int64), keys, None if weight is None else _added(cell, weight, at))
    ones: Integers = np.ones(len(cell), np.int64)
    values = None
    if value is not None:
        largest = np.zeros((len(cell), top), np.int64)
        largest[:, 0] = np.abs(value)
        values = CellValues(value, largest, value, value)
    return _summed(CellSums(cell, ones, key, weight, values), None)


def _joined(one: CellSums, other: CellSums) -> CellSums:
    def both(first: Integers | None, second: Integers | None) -> Integers | None:
        return None if first is None or second is None else np.concatenate([first, second])

    value = None
    if one.value is not None and other.value is not None:
        pairs = zip(vars(one.value).values(), vars(other.value).values(), strict=True)
        value = CellValues(*(np.concatenate(pair) for pair in pairs))
    return CellSums(
        np.concatenate([one.cell, other.cell]),
        np.concatenate([one.count, other.count]),
        np.concatenate([one.key, other.key]),
        both(one.weight, other.weight),
        value,
    )


def _summed(sums: CellSums, keys: int | None) -> CellSums:
    """Entries with the same number put together: each cell once, in order. Keys are sums modulo ``keys``."""
    if sums.value is None and len(sums.cell) and int(sums.cell.max()) < DENSE:
        at = np.flatnonzero(np.bincount(sums.cell))
        key = _added(sums.cell, sums.key, at)
        return CellSums(
            at,
            _added(sums.cell, sums.count, at),
            key if keys is None else key % keys,
            None if sums.weight is None else _added(sums.cell, sums.weight, at),
        )
    order = np.argsort(sums.cell, kind="stable")
    cell = sums.cell[order]
    first = np.flatnonzero(np.diff(cell, prepend=-1))

    def total(values: Integers) -> Integers:
        return np.add.reduceat(values[order], first) if len(first) else values[:0]

    key, value = total(sums.key), None
    if sums.value is not None:
        extremes: Sequence[Integers] = (sums.value.greatest[order], sums.value.least[order])
        greatest, least = (
            (ufunc.reduceat(values, first) if len(first) else values[:0])
            for ufunc, values in zip((np.maximum, np.minimum), extremes, strict=True)
        )
        largest = _largest(cell, first, sums.value.largest[order])
        value = CellValues(total(sums.value.total), largest, greatest, least)
    return CellSums(
        cell[first],
        total(sums.count),
        key if keys is None else key % keys,
        None if sums.weight is None else total(sums.weight),
        value,
    )


def _largest(cell: Integers, first: Integers, largest: Integers) -> Integers:
    """The largest of the entries of each cell: ``first`` has where each cell begins."""
    top = largest.shape[1]
    group = np.repeat(np.arange(len(first)), np.diff([*first.tolist(), len(cell)]))
    flat, of = largest.ravel(), np.repeat(group, top)
    order = np.lexsort((-flat, of))
    rank = np.arange(len(flat)) - np.repeat(first * top, np.diff([*(first * top).tolist(), len(flat)]))
    kept = rank < top
    result = np.zeros((len(first), top), np.int64)
    result[of[order][kept], rank[kept]] = flat[order][kept]
    return result


def _added(cell: Integers, amount: Integers, at: Integers) -> Integers:
    sums = np.zeros(int(at[-1]) + 1 if len(at) else 0, np.int64)
    np.add.at(sums, cell, amount)
    return sums[at]


# What finds the noise of a count and a cell key: one small protocol for every kind of table.
#
# * ``ess``, the European one: :class:`~confide.noise.ptables.PTable`, intervals of keys for each count. A table of the
#   Office for National Statistics is one too: 256 or 4,096 keys, the last rows in turn, and a threshold.
# * ``abs``, the Australian one: :class:`~confide.mechanisms.cellkey.keys.AbsTable`, 256 values made beforehand for
#   a column.
#
# All have sums of whole record keys as cell keys, so that the same members have the same noise, whatever the lookup.


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

    Means are over keys. A threshold belongs to what is published: below it, zero is published.
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
    """How noise is looked up, as the plan says it."""
    if isinstance(lookup, AbsTable):
        return {"lookup": "abs", "big_n": lookup.big_n, "small_n": lookup.small_n, "columns": lookup.size}
    return {"lookup": "ess"}
