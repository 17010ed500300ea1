"""Sums of products of scores that chance does not give, and runs of equal draws.

A score u = P(X < x) - P(X > x) is the mean of a uniform variable on [-1, 1] given x, hence E exp(t u) ≤ exp(t² / 6) for
every law. If u and v are independent, P(|Σ u_i v_i| ≥ c) ≤ 2 exp(-3 c² / (2 Σ v_i²)), without an approximation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
import scipy.fft

from confide.arrays import Booleans, Floats, Integers
from confide.risk.noise_audit.seen import SeenMeasurement

MOST_COMPARED = 1 << 21
"""Of a measurement so many draws are compared with each other."""
COLUMNS_AT_ONCE = 512


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


def _correlated(one: Floats, other: Floats) -> Floats:
    """Σ_i one[i] other[i + k] for k = 0, 1, ...; negative k from the end."""
    size = scipy.fft.next_fast_len(len(one) + len(other), real=True)
    product = np.conj(scipy.fft.rfft(one, size)) * scipy.fft.rfft(other, size)
    return np.asarray(scipy.fft.irfft(product, size))


def shifts_between(measurements: Sequence[SeenMeasurement], most: int) -> Iterator[tuple[Peak, int]]:
    """For each measurement the largest sum of products with all others, at any shift; and how many sums there are.

    The others stand one after the other, so that one transform goes over all of them.
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
