"""Draws against each other: within a measurement, between measurements, within a unit, and in runs.

Looked for are sums of products of scores that chance does not give, and runs of equal draws. A score u = P(X < x) - P(X
> x) is the mean of a uniform variable on [-1, 1] given x, hence E exp(t u) ≤ exp(t² / 6) for every law. If u and v are
independent, P(|Σ u_i v_i| ≥ c) ≤ 2 exp(-3 c² / (2 Σ v_i²)), without an approximation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log, log2, sqrt
from typing import Any

import numpy as np
import scipy.fft

from confide.arrays import Booleans, Floats, Integers
from confide.releases.mechanism import Check
from confide.releases.noise_audit.laws import ALARM, KINDS, SeenMeasurement, likelier_sign, likeliest, listed
from confide.releases.replay import ResidualLaw

MOST_COMPARED = 1 << 21
"""Of a measurement so many draws are compared with each other."""
COLUMNS_AT_ONCE = 512
MOST_EQUAL = 1_000
"""So many draws of a measurement are looked at for equal ones at every shift."""


@dataclass(frozen=True)
class Peak:
    """A sum of products that chance does not give."""

    log_chance: float
    """The logarithm of a bound of its probability, taken for all sums that were looked at."""
    words: str


def shifts_within(seen: SeenMeasurement, most: int = MOST_COMPARED) -> tuple[Peak | None, int]:
    """The largest sum of products of a measurement's scores with themselves, at any shift; and how many shifts."""
    score = seen.head(most)
    size = len(score)
    if size < 2:
        return None, 0
    products = _correlated(score, score)[1:size]
    energy = float(score @ score)
    if not energy:
        return None, size - 1
    shift = int(np.abs(products).argmax())
    # Every other stretch of ``shift`` draws is given, then the rest: two sums, each with half of the products.
    chance = log(4) - 3 * float(products[shift]) ** 2 / (4 * energy)
    shift += 1
    units, rest = divmod(shift, seen.cells)
    apart = f"{units:,} units apart" if not rest else f"{shift:,} draws apart"
    return Peak(chance, f"{seen.name}: draws {apart} go together"), size - 1


def equal_within(seen: SeenMeasurement, laws: Sequence[ResidualLaw]) -> tuple[Peak | None, int]:
    """The shift at which the most draws of a measurement are equal; and how many shifts there are.

    Draws that a shift k pairs fall into every other stretch of k and the rest: in each half no draw is in two pairs.
    Given the first of a pair, the second is equal with at most the largest probability of its law. So the number of
    equal pairs has at most the tail of a binomial number with the mean b of these: P(share ≥ s) ≤ exp(−n KL(s ‖ b))
    (Chernoff; Hoeffding 1956 for unequal probabilities). Few draws that are shared show here, where sums of products
    would need hundreds.
    """
    if seen.residuals.conditional:
        return None, 0
    value, law = seen.value[:MOST_EQUAL], seen.law[:MOST_EQUAL]
    size = len(value)
    largest = np.array([*(likeliest(law) for law in laws), 0.0])[law]
    best: tuple[float, int] | None = None
    for shift in range(1, size):
        both = (law[:-shift] >= 0) & (law[shift:] >= 0)
        equal, chance = (value[:-shift] == value[shift:]) & both, np.where(both, largest[shift:], 0.0)
        half = np.arange(size - shift) // shift % 2
        for side in (0, 1):
            pairs = both & (half == side)
            number = int(pairs.sum())
            if number:
                share, mean = float(equal[pairs].sum()) / number, float(chance[pairs].sum()) / number
                log_chance = -number * _divergence(share, mean) if share > mean else 0.0
                if best is None or log_chance < best[0]:
                    best = log_chance, shift
    if best is None:
        return None, 0
    units, rest = divmod(best[1], seen.cells)
    apart = f"{units:,} units apart" if not rest else f"{best[1]:,} draws apart"
    return Peak(best[0], f"{seen.name}: draws {apart} are equal"), 2 * (size - 1)


def _divergence(share: float, mean: float) -> float:
    """KL(s ‖ b) of two shares."""
    if mean >= 1:
        return 0.0
    first = share * log(share / mean) if share > 0 else 0.0
    return first + ((1 - share) * log((1 - share) / (1 - mean)) if share < 1 else 0.0)


def _correlated(one: Floats, other: Floats) -> Floats:
    """Σ_i one[i] other[i + k] for k = 0, 1, ...; negative k from the end."""
    size = scipy.fft.next_fast_len(len(one) + len(other), real=True)
    product = np.conj(scipy.fft.rfft(one, size)) * scipy.fft.rfft(other, size)
    return np.asarray(scipy.fft.irfft(product, size))


def shifts_between(measurements: Sequence[SeenMeasurement], most: int) -> Iterator[tuple[Peak, int]]:
    """For each measurement the largest sum of products with all others, at any shift; and how many sums there are.

    The others are one after the other, so that one transform goes over all of them.
    """
    parts = [seen.head(most) for seen in measurements]
    starts = np.cumsum([0, *(len(part) for part in parts)])
    total = int(starts[-1])
    size = scipy.fft.next_fast_len(total + max(len(part) for part in parts), real=True)
    together = scipy.fft.rfft(np.concatenate(parts), size)
    for number, (seen, part) in enumerate(zip(measurements, parts, strict=True)):
        energy = float(part @ part)
        if not energy:
            continue
        products = np.asarray(scipy.fft.irfft(np.conj(scipy.fft.rfft(part, size)) * together, size))
        # What the measurement has with itself is not meant here.
        own = _correlated(part, part)
        shifts = np.arange(1 - len(part), len(part))
        products[starts[number] + shifts] -= own[shifts]
        reach = np.arange(1 - len(part), total)
        place = int(reach[np.abs(products[reach]).argmax()])
        chance = log(2) - 3 * float(products[place]) ** 2 / (2 * energy)
        # The measurement that has most of the sum: the one that most of the shifted draws lie in.
        overlaps = np.minimum(starts[1:], place + len(part)) - np.maximum(starts[:-1], place)
        overlaps[number] = -1
        partner = int(overlaps.argmax())
        shift = place - int(starts[partner])
        where = "draw by draw" if not shift else f"shifted by {abs(shift):,} draws"
        yield Peak(chance, f"{seen.name} and {measurements[partner].name} go together, {where}"), len(reach)


def within_units(measurements: Sequence[SeenMeasurement]) -> tuple[Peak | None, int]:
    """The largest sum over units of products of two cells, or of two sums of all cells, of measurements that have the
    same units; and how many pairs there are."""
    columns, names, blocks = [], [], []
    for number, seen in enumerate(measurements):
        table = seen.score.reshape(-1, seen.cells)
        columns.append(table)
        names += [f"{seen.name}, cell {cell}" for cell in range(seen.cells)]
        blocks += [(number, 1)] * seen.cells
        if seen.cells > 1:
            columns.append(table.sum(axis=1, keepdims=True) / sqrt(seen.cells))
            names.append(f"the sums of {seen.name}")
            blocks.append((number, 0))
    matrix = np.concatenate(columns, axis=1)
    energy = np.einsum("uc,uc->c", matrix, matrix)
    of, single = np.array(blocks).T
    numbers = np.arange(len(names))
    largest, pair = 0.0, (0, 0)
    for first in range(0, len(names), COLUMNS_AT_ONCE):
        rows = slice(first, first + COLUMNS_AT_ONCE)
        products = matrix[:, rows].T @ matrix
        # A sum of cells has each of its own cells in it.
        dependent = (of[rows, None] == of[None, :]) & ((single[rows, None] * single[None, :]) == 0)
        dependent |= numbers[rows, None] == numbers[None, :]
        smaller = np.minimum(energy[rows, None], energy[None, :])
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.where(dependent | (smaller == 0), 0.0, 1.5 * products**2 / smaller)
        one, other = divmod(int(exponent.argmax()), len(names))
        if exponent[one, other] > largest:
            largest, pair = float(exponent[one, other]), (first + one, other)
    pairs = len(names) * (len(names) - 1) // 2
    if not largest:
        return None, pairs
    return Peak(log(2) - largest, f"{names[pair[0]]} and {names[pair[1]]} go together, unit by unit"), pairs


def equal_runs(symbols: Integers, usable: Booleans, length: int) -> tuple[int, int] | None:
    """The first two places from which ``length`` symbols are the same; places where one is not usable do not count.

    Args:
        symbols: Whole numbers.
        usable: Whether each may be part of a run.
        length: How many.

    Returns:
        Two places, or none.
    """
    size = len(symbols) - length + 1
    if size < 2:
        return None
    blocked = np.concatenate([[0], np.cumsum(~usable)])
    starts = np.flatnonzero(blocked[length:] == blocked[: len(blocked) - length])
    if len(starts) < 2:
        return None
    mixed = (symbols.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    digest = np.zeros(len(starts), np.uint64)
    for step in range(length):
        digest = digest * np.uint64(0x2545F4914F6CDD1D) + mixed[starts + step]
    order = np.argsort(digest, kind="stable")
    same = np.flatnonzero(digest[order[1:]] == digest[order[:-1]])
    for place in same.tolist():
        one, other = sorted((int(starts[order[place]]), int(starts[order[place + 1]])))
        if np.array_equal(symbols[one : one + length], symbols[other : other + length]):
            return one, other
    return None


# Which draws are compared with which.


MOST_POINTS = 100_000_000
"""Points of Fourier transforms between measurements: some ten seconds."""
MOST_PRODUCTS = 20_000_000_000
MOST_IN_RUNS = 1 << 24
MOST_ALIKE = 2_000
"""Longer runs of equal draws are not looked for: a law that gives them has next to one value."""


class DrawComparison:
    """Draws against each other."""

    def __init__(self, seen: Sequence[SeenMeasurement], laws: Sequence[ResidualLaw]):
        self._laws = laws
        self._seen = [one for one in seen if one.draws]
        families: dict[str, list[SeenMeasurement]] = {}
        for one in self._seen:
            families.setdefault(one.residuals.family, []).append(one)
        self._families = list(families.values())
        self.notes: list[str] = []

    def checks(self) -> Iterator[Check]:
        yield self._check("draws within a measurement", self._within(), "shifts")
        yield self._check(
            "draws that two counts share", (equal_within(one, self._laws) for one in self._seen), "shifts"
        )
        yield self._check("draws of different measurements", self._between(), "shifts")
        yield self._check("cells of the same unit", self._aligned(), "pairs")
        yield self._runs("runs of equal values", self._by_law())
        yield self._runs("runs of equal signs", self._by_sign())

    def _check(self, name: str, peaks: Iterable[tuple[Peak | None, int]], unit: str) -> Check:
        every_peak = list(peaks)
        tests = sum(number for _, number in every_peak)
        limit = log(ALARM / KINDS / max(1, tests))
        wrong = sorted(
            (peak for peak, _ in every_peak if peak is not None and peak.log_chance < limit),
            key=lambda peak: peak.log_chance,
        )
        detail = (
            listed([peak.words for peak in wrong], 3)
            if wrong
            else f"nothing in common at {tests:,} {unit}"
            if tests
            else "none to compare"
        )
        return Check(name, not wrong, detail)

    def _within(self) -> Iterator[tuple[Peak | None, int]]:
        for one in self._seen:
            if len(one.score) > MOST_COMPARED:
                self.notes.append(f"Of {one.name} the first {MOST_COMPARED:,} draws are compared with each other.")
            yield shifts_within(one)

    def _between(self) -> Iterator[tuple[Peak | None, int]]:
        for members in self._families:
            if len(members) < 2:
                continue
            most = MOST_COMPARED
            while len(members) * sum(min(len(one.score), most) for one in members) > MOST_POINTS and most > 1 << 10:
                most //= 2
            if any(len(one.score) > most for one in members):
                self.notes.append(f"Of each measurement the first {most:,} draws are compared with those of others.")
            yield from shifts_between(members, most)

    def _aligned(self) -> Iterator[tuple[Peak | None, int]]:
        for members in self._families:
            alike: dict[tuple[str, int], list[SeenMeasurement]] = {}
            for one in members:
                alike.setdefault((one.residuals.level, one.units), []).append(one)
            for (level, units), some in alike.items():
                cells = sum(one.cells + 1 for one in some)
                if units * cells**2 > MOST_PRODUCTS or cells > 12_000:
                    self.notes.append(f"Cells of the same unit are not compared on the level {level}: {cells:,} cells.")
                elif cells > 1 and units > 1:
                    yield within_units(some)

    def _runs(self, name: str, parts: Iterable[tuple[Integers, Booleans, int, list[tuple[int, str]]]]) -> Check:
        wrong, looked = [], 0
        for symbols, usable, length, starts in parts:
            looked += int(usable.sum())
            places = equal_runs(symbols, usable, length)
            if places is not None:
                first, second = (next(text for at, text in reversed(starts) if at <= place) for place in places)
                wrong.append(f"{length} in a row are the same in {first} and in {second}")
        return Check(name, not wrong, listed(wrong) if wrong else f"none among {looked:,} draws")

    def _by_law(self) -> Iterator[tuple[Integers, Booleans, int, list[tuple[int, str]]]]:
        """The draws of each law, and how many equal ones in a row chance does not give."""
        for members in self._families:
            used = {number for one in members for number in np.unique(one.law).tolist() if number >= 0}
            for number in sorted(used):
                law = self._laws[number]
                largest = likeliest(law)
                parts = [one for one in members if (one.law == number).any()]
                symbols, usable, starts = self._joined(parts, lambda one: one.value, lambda one, n=number: one.law == n)
                if largest > 0.999 or not len(symbols):
                    continue
                tests = max(2.0, float(usable.sum()) ** 2 / 2) * len(used) * KINDS * len(self._families)
                length = ceil(log(tests / ALARM) / -log(largest)) if largest < 1 else 0
                if length <= MOST_ALIKE:
                    yield symbols, usable, length, starts

    def _by_sign(self) -> Iterator[tuple[Integers, Booleans, int, list[tuple[int, str]]]]:
        """The signs of scores: the same for draws of the same bits, whatever their laws."""
        for members in self._families:
            symbols, usable, starts = self._joined(
                members, lambda one: np.sign(one.score).astype(np.int64), lambda one: one.score != 0
            )
            if len(symbols):
                tests = max(2.0, float(usable.sum()) ** 2 / 2) * KINDS * len(self._families)
                used = {number for one in members for number in np.unique(one.law).tolist() if number >= 0}
                length = ceil(log2(tests / ALARM) / -log2(max(likelier_sign(self._laws[number]) for number in used)))
                if length <= MOST_ALIKE:
                    yield symbols, usable, length, starts

    def _joined(
        self, parts: Sequence[SeenMeasurement], values: Any, usable: Any
    ) -> tuple[Integers, Booleans, list[tuple[int, str]]]:
        """Arrays one after the other, with a place between them that is not usable."""
        symbols, usables, starts, place = [], [], [], 0
        for one in parts:
            room = MOST_IN_RUNS - place
            if room <= 0:
                self.notes.append(f"Runs are looked for among the first {MOST_IN_RUNS:,} draws.")
                break
            some = values(one)[:room]
            symbols += [some, np.zeros(1, np.int64)]
            usables += [usable(one)[:room], np.zeros(1, np.bool_)]
            starts.append((place, one.name))
            place += len(some) + 1
        if not symbols:
            return np.zeros(0, np.int64), np.zeros(0, np.bool_), []
        return np.concatenate(symbols), np.concatenate(usables), starts
