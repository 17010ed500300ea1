"""The perturbation table in the form that noise is looked up in: whole numbers only.

A row belongs to a count ``i`` and divides the keys ``0 .. whole - 1`` into half-open intervals, one after the other;
the noise of a key is that of the first interval with ``key < bound``. All keys are equally likely, hence the
probability of a noise value is the length of its intervals, divided by ``whole``: exactly. Counts above the last row
``n`` use row ``n``, or in turn the last ``cycle`` rows: row ``((i - 1) mod cycle) + n - cycle + 1``. Zero stays zero.

Noise is held in units of ``1 / step``; for counts ``step`` is one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from confide.cellkey.ptables.checks import table_findings
from confide.errors import CONFIDENTIAL, Finding, ParameterError

Integers = npt.NDArray[np.int64]

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

    def law(self) -> dict[int, int]:
        """Each noise value of the row, ascending, with its number of keys; values without keys are left out."""
        found: dict[int, int] = {}
        for value, length in sorted(zip(self.noise, self.lengths, strict=True)):
            if length:
                found[value] = found.get(value, 0) + length
        return found


@dataclass(frozen=True)
class PTable:
    """A perturbation table: rows of ascending count, the first of them zero, over the keys ``0 .. whole - 1``."""

    rows: tuple[LookupRow, ...]
    whole: int = DECIMAL
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
        law = self.rows[place].law()
        return {Fraction(value, self.step): Fraction(keys, self.whole) for value, keys in law.items()}

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
            self.whole,
            self.step,
            self.kind,
            self.cycle,
            [[row.i, list(row.noise), list(row.bounds)] for row in self.rows],
        ]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()

    def row_of(self, counts: npt.ArrayLike) -> Integers:
        """The places of the rows that counts of zero or more use."""
        if not self.for_counts:
            raise ParameterError(
                Finding(
                    code="not-for-counts",
                    what="this perturbation table has no row for every count",
                    found=f"rows {', '.join(str(row.i) for row in self.rows[:8])}, noise in steps of 1/{self.step}",
                    expected="rows 0, 1, 2, ... and whole noise",
                    remedy="use a table for counts, or give the rows yourself to lookup_rows",
                )
            )
        given = _whole_numbers(counts)
        _check_range(given, None, "a count is negative")
        return np.where(given <= self.top, given, (given - 1) % self.cycle + self.top - self.cycle + 1)

    def lookup(self, counts: npt.ArrayLike, keys: npt.ArrayLike) -> Integers:
        """The noise of true counts with cell keys from ``0 .. whole - 1``, element by element; zero gets zero."""
        return self.lookup_rows(self.row_of(counts), keys)

    def lookup_rows(self, places: npt.ArrayLike, keys: npt.ArrayLike) -> Integers:
        """The noise, in units of ``1 / step``, of keys in the rows with these places: ``0 .. len(rows) - 1``."""
        rows, given = _whole_numbers(places), _whole_numbers(keys)
        _check_range(rows, len(self.rows), "there is no such row")
        _check_range(given, self.whole, "a cell key is not one of the table's keys")
        flat_bounds, flat_noise = self._flat
        # The rows lie one behind the other; "right" passes over every bound that is at most the key.
        return flat_noise[np.searchsorted(flat_bounds, rows * self.whole + given, side="right")]

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
        return PTable(tuple(rows), self.whole, self.step, self.kind, self.cycle)

    @cached_property
    def _flat(self) -> tuple[Integers, Integers]:
        bounds = [place * self.whole + bound for place, row in enumerate(self.rows) for bound in row.bounds]
        noise = [value for row in self.rows for value in row.noise]
        return np.array(bounds, np.int64), np.array(noise, np.int64)


def cumulated(probabilities: Iterable[Fraction | float], whole: int) -> tuple[int, ...]:
    """Upper bounds of intervals with these probabilities: cumulated exactly, divided by their sum, then rounded.

    The last is ``whole``, so the lengths sum to it; each bound is within a half of where it would be without rounding.
    """
    parts = [Fraction(p) for p in probabilities]
    total = sum(parts, Fraction(0))
    running, bounds = Fraction(0), []
    for part in parts:
        running += part
        bounds.append(round(running / total * whole))
    return tuple(bounds)


def _merged(row: LookupRow) -> LookupRow:
    kept: list[tuple[int, int]] = []
    for value, bound, length in zip(row.noise, row.bounds, row.lengths, strict=True):
        if length and kept and kept[-1][0] == value:
            kept[-1] = (value, bound)
        elif length:
            kept.append((value, bound))
    return LookupRow(row.i, tuple(value for value, _ in kept), tuple(bound for _, bound in kept))


def _whole_numbers(values: npt.ArrayLike) -> Integers:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ParameterError(
            Finding(
                code="not-whole-numbers",
                what="counts and cell keys are whole numbers",
                found=f"an array of type {array.dtype}",
                expected="integers",
                remedy="scale keys to whole numbers; never convert them through floating point",
            )
        )
    return array.astype(np.int64, copy=False)


def _check_range(values: Integers, end: int | None, what: str) -> None:
    if values.size and (int(values.min()) < 0 or (end is not None and int(values.max()) >= end)):
        raise ParameterError(
            Finding(
                code="out-of-range",
                what=what,
                found=CONFIDENTIAL,
                expected="a number of at least zero" + ("" if end is None else f" and below {end}"),
                remedy="check how counts and keys were made; keys are taken modulo the table's number of keys",
            )
        )
