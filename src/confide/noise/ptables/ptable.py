"""The perturbation table in the form that noise is looked up in: whole numbers only.

A row belongs to a count ``i`` and divides the keys ``0 .. modulus - 1`` into half-open intervals, one after the other;
the noise of a key is that of the first interval with ``key < bound``. All keys are equally likely, hence the
probability of a noise value is the length of its intervals, divided by ``modulus``: exactly. Counts above the last row
``n`` use row ``n``, or in turn the last ``cycle`` rows: row ``((i - 1) mod cycle) + n - cycle + 1``. Zero stays zero.

Noise is held in units of ``1 / step``; for counts ``step`` is one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.errors import CONFIDENTIAL, Finding, ParameterError, Place
from confide.exact import Exact, exact
from confide.noise.stream import NoiseStream, ReleaseKey, derive_stream

# What can be wrong with a perturbation table, whoever made it: errors, and warnings about bias.


LARGEST_WHOLE = 1 << 53
TYPES = ("all", "even", "odd")

Where = Callable[[int, int], Place]
"""The place, in a file, of an interval: row of the table and number of the interval."""


class PTableRowLike(Protocol):
    """A row as it is checked."""

    @property
    def i(self) -> int: ...
    @property
    def noise(self) -> tuple[int, ...]: ...
    @property
    def bounds(self) -> tuple[int, ...]: ...
    @property
    def lengths(self) -> tuple[int, ...]: ...


class PTableLike(Protocol):
    """What is checked: a table, or what a file says that it is."""

    @property
    def rows(self) -> Sequence[PTableRowLike]: ...
    @property
    def modulus(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def cycle(self) -> int: ...


def in_table(row: int, interval: int) -> Place:
    """The place of an interval where there is no file."""
    return Place(path=f"row {row}, interval {interval + 1}")


def table_findings(table: PTableLike, where: Where = in_table) -> Iterator[Finding]:
    """Everything that is wrong with a table as a whole, then row by row."""
    if not 1 <= table.modulus <= LARGEST_WHOLE or table.modulus * (len(table.rows) + 1) >= 1 << 63:
        yield Finding.of("bad-whole/number", found=str(table.modulus))
    if not 1 <= table.step <= 1_000 or table.kind not in TYPES:
        yield Finding.of("bad-step/type", step=table.step, kind=table.kind[:20])
    if not table.rows or table.rows[0].i != 0 or any(a.i >= b.i for a, b in pairwise(table.rows)):
        yield Finding.of("bad-rows/table", where=where(0, 0), rows=", ".join(str(row.i) for row in table.rows[:8]))
        return
    if not 1 <= table.cycle <= max(1, len(table.rows) - 1):
        yield Finding.of("bad-cycle/counts", found=str(table.cycle))
    for number, row in enumerate(table.rows):
        yield from _row_findings(table, number, row, where)


def _row_findings(table: PTableLike, number: int, row: PTableRowLike, where: Where) -> Iterator[Finding]:
    if not row.noise or len(row.noise) != len(row.bounds):
        yield Finding.of("bad-row/intervals", where=where(number, 0), found=str(len(row.noise)), i=row.i)
        return
    before = 0
    for k, (value, bound) in enumerate(zip(row.noise, row.bounds, strict=True)):
        if bound < before:
            found = f"{_share(bound, table)} after {_share(before, table)}"
            yield Finding.of(
                "bounds-not-increasing/upper",
                where=where(number, k),
                i=row.i,
                bound=_share(bound, table),
                before=_share(before, table),
            )
        if value < -row.i * table.step:
            found = _signed(value, table)
            yield Finding.of("negative-result/noise", where=where(number, k), found=found, i=row.i, i_expected=-row.i)
        before = bound
    if row.bounds[-1] != table.modulus:
        found = _share(row.bounds[-1], table)
        yield Finding.of("not-one/probabilities", where=where(number, len(row.bounds) - 1), found=found, i=row.i)
        return
    if row.i == 0:
        if any(value for value, keys in zip(row.noise, row.lengths, strict=True) if keys):
            yield Finding.of("zero-perturbed/count", where=where(number, 0))
        return
    bias = sum(value * keys for value, keys in zip(row.noise, row.lengths, strict=True))
    # Each inner bound was rounded by at most a half and moves the mean by that times the step between its neighbours.
    if 2 * abs(bias) > sum(abs(b - a) for a, b in pairwise(row.noise)):
        yield Finding.of(
            "biased-row",
            where=where(number, 0),
            severity="warning",
            i=row.i,
            bias=float(Fraction(bias, table.modulus * table.step)),
        )


def _share(bound: int, table: PTableLike) -> str:
    return f"{bound / table.modulus:.12g}"


def _signed(value: int, table: PTableLike) -> str:
    return f"{float(Fraction(value, table.step)):+g}"


DECIMAL = 10**8
"""The default number of keys: bounds with eight decimals, as other programs have them."""


@dataclass(frozen=True, slots=True)
class LookupRow:
    """The intervals of one count: ``noise[k]`` for the keys with ``bounds[k - 1] <= key < bounds[k]``."""

    i: int
    noise: tuple[int, ...]
    bounds: tuple[int, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many keys each interval has."""
        return tuple(after - before for before, after in zip((0, *self.bounds), self.bounds, strict=False))

    def key_counts(self) -> dict[int, int]:
        """Each noise value of the row, ascending, with its number of keys; values without keys are left out."""
        counts: dict[int, int] = {}
        for value, length in sorted(zip(self.noise, self.lengths, strict=True)):
            if length:
                counts[value] = counts.get(value, 0) + length
        return counts


@dataclass(frozen=True)
class PTable:
    """A perturbation table: rows of ascending count, the first of them zero, over the keys ``0 .. modulus - 1``.

    Args:
        rows: The intervals of each count; every row divides all keys.
        modulus: How many keys there are: cell keys are sums of record keys modulo it.
        step: Noise is held in units of ``1 / step``; one for counts.
        kind: ``all``, ``even`` or ``odd``.
        cycle: How many of the last rows counts above them use in turn.

    Raises:
        ParameterError: With everything that is wrong with the table.

    >>> row = LookupRow(1, noise=(-1, 0, 1), bounds=(25, 75, 100))
    >>> table = PTable((LookupRow(0, (0,), (100,)), row), modulus=100)
    >>> table.lookup([1, 1, 1, 0], [0, 50, 99, 99]), table.variance(1)
    (array([-1,  0,  1,  0]), Fraction(1, 2))
    """

    rows: tuple[LookupRow, ...]
    modulus: int = DECIMAL
    step: int = 1
    kind: str = "all"
    cycle: int = 1

    def __post_init__(self) -> None:
        errors = [finding for finding in table_findings(self) if finding.severity == "error"]
        if errors:
            raise ParameterError(errors)

    @property
    def top(self) -> int:
        """The count of the last row."""
        return self.rows[-1].i

    @property
    def for_counts(self) -> bool:
        """Whether every count from zero to the last has a row and the noise is whole."""
        return self.step == 1 and all(row.i == place for place, row in enumerate(self.rows))

    @property
    def largest_noise(self) -> Fraction:
        """The largest absolute noise, D."""
        return Fraction(max(abs(value) for row in self.rows for value in row.noise), self.step)

    def probabilities(self, place: int) -> dict[Fraction, Fraction]:
        """The law of a row, exactly: noise value and probability."""
        key_counts = self.rows[place].key_counts()
        return {Fraction(value, self.step): Fraction(keys, self.modulus) for value, keys in key_counts.items()}

    def mean(self, place: int) -> Fraction:
        """The exact mean of the noise of a row; that of a rounded table is zero up to its rounding."""
        return sum((value * p for value, p in self.probabilities(place).items()), Fraction(0))

    def variance(self, place: int) -> Fraction:
        """The exact variance of the noise of a row."""
        second = sum((value**2 * p for value, p in self.probabilities(place).items()), Fraction(0))
        return second - self.mean(place) ** 2

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides a lookup."""
        content = [
            "confide/ptable/v1",
            self.modulus,
            self.step,
            self.kind,
            self.cycle,
            [[row.i, list(row.noise), list(row.bounds)] for row in self.rows],
        ]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()

    def row_of(self, counts: npt.ArrayLike) -> Integers:
        """The places of the rows that counts of zero or more use."""
        if not self.for_counts:
            raise ParameterError("not-for-counts", rows=", ".join(str(row.i) for row in self.rows[:8]), step=self.step)
        integers = _whole_numbers(counts)
        _check_range(integers, None, "a count is negative")
        return np.where(integers <= self.top, integers, (integers - 1) % self.cycle + self.top - self.cycle + 1)

    def lookup(self, counts: npt.ArrayLike, keys: npt.ArrayLike) -> Integers:
        """The noise of true counts with cell keys, element by element; zero gets zero.

        Args:
            counts: Whole numbers of zero or more.
            keys: Cell keys from ``0 .. modulus - 1``, in the same shape.

        Returns:
            Whole noise in the same shape.
        """
        return self.lookup_rows(self.row_of(counts), keys)

    def lookup_rows(self, places: npt.ArrayLike, keys: npt.ArrayLike) -> Integers:
        """The noise, in units of ``1 / step``, of keys in the rows with these places: ``0 .. len(rows) - 1``."""
        rows, integers = _whole_numbers(places), _whole_numbers(keys)
        _check_range(rows, len(self.rows), "there is no such row")
        _check_range(integers, self.modulus, "a cell key is not one of the table's keys")
        flat_bounds, flat_noise = self._flat
        # The rows lie one behind the other; "right" passes over every bound that is at most the key.
        return flat_noise[np.searchsorted(flat_bounds, rows * self.modulus + integers, side="right")]

    def compact(self) -> PTable:
        """The same lookups with the fewest intervals and rows: none empty, none with the noise of its neighbour, and,
        where one row serves all larger counts, none before it that says the same."""
        rows = [_merged(row) for row in self.rows]
        while (
            self.cycle == 1
            and len(rows) > 2
            and rows[-1].noise == rows[-2].noise
            and rows[-1].bounds == rows[-2].bounds
        ):
            rows.pop()
        return PTable(tuple(rows), self.modulus, self.step, self.kind, self.cycle)

    @cached_property
    def _flat(self) -> tuple[Integers, Integers]:
        bounds = [place * self.modulus + bound for place, row in enumerate(self.rows) for bound in row.bounds]
        noise = [value for row in self.rows for value in row.noise]
        return np.array(bounds, np.int64), np.array(noise, np.int64)


def cumulated(probabilities: Iterable[Fraction | float], modulus: int) -> tuple[int, ...]:
    """Upper bounds of intervals with these probabilities: cumulated exactly, divided by their sum, then rounded.

    Args:
        probabilities: Of the intervals, in their order.
        modulus: How many keys there are.

    Returns:
        One bound for each interval. The last is ``modulus``, so the lengths sum to it; each bound is within a half of
        where it would be without rounding.

    >>> cumulated([0.25, 0.5, 0.25], 100)
    (25, 75, 100)
    """
    parts = [Fraction(p) for p in probabilities]
    total = sum(parts, Fraction(0))
    running, bounds = Fraction(0), []
    for part in parts:
        running += part
        bounds.append(round(running / total * modulus))
    return tuple(bounds)


def _merged(row: LookupRow) -> LookupRow:
    intervals: list[tuple[int, int]] = []
    for value, bound, length in zip(row.noise, row.bounds, row.lengths, strict=True):
        if length and intervals and intervals[-1][0] == value:
            intervals[-1] = (value, bound)
        elif length:
            intervals.append((value, bound))
    return LookupRow(row.i, tuple(value for value, _ in intervals), tuple(bound for _, bound in intervals))


def _whole_numbers(values: npt.ArrayLike) -> Integers:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ParameterError("not-whole-numbers", dtype=array.dtype)
    return array.astype(np.int64, copy=False)


def _check_range(values: Integers, end: int | None, what: str) -> None:
    if values.size and (int(values.min()) < 0 or (end is not None and int(values.max()) >= end)):
        raise ParameterError(
            "out-of-range/number-least", found=CONFIDENTIAL, what=what, end=end, with_end=end is not None
        )


# Modified tables: the same law in another layout, so that keys that lie close together say less about each other.
#
# Every interval of at least ``threshold * modulus`` keys is cut into pieces of that many keys and a remainder; the
# pieces of a row are put into an order that a key decides. Lengths are whole numbers, so the law of every row stays,
# exactly.
#
# The order is a Fisher-Yates shuffle: for ``k = m - 1 .. 1`` the pieces ``k`` and ``j`` change places, ``j`` uniform
# on ``0 .. k``, read from the first bits of the extension words of coordinate ``k``; a number above ``k`` is passed
# over.


LAYOUT = "confide/ptable/modified/v1"
_WORD = 64


def key_of(seed: str | None) -> ReleaseKey:
    """The key of a seed of up to 64 hexadecimal digits, zeros before it; without one, from the operating system."""
    return ReleaseKey.from_system() if seed is None else ReleaseKey.choose(seed.strip().rjust(64, "0"))


def modify(table: PTable, threshold: Exact, key: ReleaseKey) -> PTable:
    """The table with its intervals cut at ``threshold`` and put into the order that the key decides.

    Args:
        table: Any table; the distribution of every row stays, exactly.
        threshold: The length of a piece as a share of the keys: exact, and a whole number of keys.
        key: Decides the order.
    """
    share = exact(threshold, "threshold")
    piece = share * table.modulus
    if not 0 < share < 1 or piece < 1:
        raise ParameterError(
            "bad-threshold/out", where=Place(path="--modify"), found=str(threshold), modulus=table.modulus
        )
    if piece.denominator != 1:
        raise ParameterError("bad-threshold/divide", where=Place(path="--modify"), share=share, modulus=table.modulus)
    rows = []
    for row in table.rows:
        stream = derive_stream(
            key,
            records_fingerprint=bytes.fromhex(table.fingerprint),
            plan_hash=LAYOUT.encode(),
            mechanism="cellkey",
            level="ptable",
            query=f"row {row.i}, threshold {share}",
        )
        pieces = _pieces(row, int(piece), table.modulus)
        order = permutation(len(pieces), stream)
        noise, lengths = zip(*(pieces[k] for k in order), strict=True)
        rows.append(LookupRow(row.i, noise, tuple(int(bound) for bound in np.cumsum(lengths))))
    return PTable(tuple(rows), table.modulus, table.step, table.kind, table.cycle)


def _pieces(row: LookupRow, piece: int, modulus: int) -> list[tuple[int, int]]:
    """Noise and length of each piece; intervals without keys are left out."""
    pieces: list[tuple[int, int]] = []
    for value, length in zip(row.noise, row.lengths, strict=True):
        if length == modulus:
            return [(value, length)]
        cut, remainder = divmod(length, piece)
        pieces += [(value, piece)] * cut
        if remainder:
            pieces.append((value, remainder))
    return pieces


def permutation(size: int, stream: NoiseStream) -> list[int]:
    """An order of ``size`` things, all orders equally likely, that a stream decides."""
    order = list(range(size))
    for k in range(size - 1, 0, -1):
        j = _uniform(k + 1, k, stream)
        order[k], order[j] = order[j], order[k]
    return order


def _uniform(below: int, coordinate: int, stream: NoiseStream) -> int:
    bits = (below - 1).bit_length()
    number = 0
    while True:
        word = int(stream.extension(np.array([coordinate], np.uint64), number)[0])
        drawn = word >> (_WORD - bits)
        if drawn < below:
            return drawn
        number += 1


def same_distribution(one: PTable, other: PTable) -> bool:
    """Whether two tables have the same law in every row, exactly, whatever their layout."""
    if one.step != other.step or [row.i for row in one.rows] != [row.i for row in other.rows]:
        return False
    return all(
        {value: Fraction(keys, one.modulus) for value, keys in a.key_counts().items()}
        == {value: Fraction(keys, other.modulus) for value, keys in b.key_counts().items()}
        for a, b in zip(one.rows, other.rows, strict=True)
    )
