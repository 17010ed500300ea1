"""The integer programmes behind the smallest group: which records to take out, and how to fill the gap.

Records fall into classes t that play the same part. Let s_t be how many of class t are taken out, A among them. For a
target τ, a set of classes that must remain possible for A, the gap is filled with A as some class a ∈ τ and y_t others:

    minimise Σ s_t   subject to   s_A ≥ 1,   and for every τ:   Σ y_t = Σ s_t − 1,
    every published count:   Φ s = Φ (y + a),
    a bound that nobody can leave:   Ψ (y + a) ≥ Ψ s;   that nobody can come to:   Ψ (y + a) ≤ Ψ s,

all whole and not negative. The group is the same for all targets; the fill is not. Classes are few, and so HiGHS, which
``scipy.optimize.milp`` calls, takes milliseconds. With more than :data:`MOST_TARGETS` targets the programme is not
solved: a group with one record in each, whose members are permuted, is a solution, and its size is given instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

Matrix = NDArray[np.float64]
MOST_TARGETS = 24


@dataclass(frozen=True, slots=True)
class RecordClass:
    """Records that play the same part for A: distance, the counts they are in, the closed bounds, what differs."""

    distance: int
    signature: tuple[int | None, ...]
    """For each count: None if the record is not part of it, otherwise the distance of the unit that it counts in."""
    bound: tuple[bool, ...]
    """For each closed bound, whether the record is part of it in A's own unit."""
    differs: tuple[bool, ...]
    """For each facet that a bound fixes, whether the record has another value than A."""


class Programme:
    """The smallest groups for one person A, whose class is the first. ``leaves``: for each closed bound, which way."""

    def __init__(self, classes: Sequence[RecordClass], leaves: Sequence[bool]):
        self.classes = tuple(classes)
        self.leaves = tuple(leaves)

    def cover(self, targets: Iterable[frozenset[int]]) -> int:
        """The fewest records, A's among them, that have one in every target: a group whose members are permuted."""
        return _cover(len(self.classes), tuple(targets))

    def pair(self, target: frozenset[int]) -> int:
        """The fewest records for one target: A alone, if A can be replaced by itself, otherwise A and one of it."""
        return 1 if any(self._replaces(self.classes[number]) for number in target) else 2

    def _replaces(self, other: RecordClass) -> bool:
        a = self.classes[0]
        kept = zip(self.leaves, a.bound, other.bound, strict=True)
        return a.signature == other.signature and all(new >= old if leaves else new <= old for leaves, old, new in kept)

    def refill(self, targets: Sequence[frozenset[int]]) -> int:
        """The fewest records whose gap can be filled with A in every target."""
        if len(targets) > MOST_TARGETS:
            return self.cover(targets)
        return _refill(self.classes, self.leaves, tuple(targets))


@lru_cache(maxsize=1024)
def _cover(kinds: int, targets: tuple[frozenset[int], ...]) -> int:
    rows = np.array([[float(n in target) for n in range(kinds)] for target in targets])
    return _solve(np.ones(kinds), rows, np.ones(len(rows)), np.full(len(rows), np.inf))


@lru_cache(maxsize=1024)
def _refill(classes: tuple[RecordClass, ...], leaves: tuple[bool, ...], targets: tuple[frozenset[int], ...]) -> int:
    kinds, number = len(classes), len(targets)
    equal = np.vstack([_counts(classes), np.ones((1, kinds))])  # the last row: as many records as before
    kept = np.array([[float(item.bound[n]) for item in classes] for n in range(len(leaves))]).reshape(-1, kinds)
    low, high = np.where(leaves, 0.0, -np.inf), np.where(leaves, np.inf, 0.0)
    rows: list[Matrix] = []
    least: list[Matrix] = []
    most: list[Matrix] = []

    def add(taken: Matrix, at: int, filled: Matrix, a: Matrix, lower: Matrix, upper: Matrix) -> None:
        block = np.zeros((len(taken), kinds * (1 + 2 * number)))
        block[:, :kinds] = taken
        start = kinds * (1 + 2 * at)
        block[:, start : start + kinds] = filled
        block[:, start + kinds : start + 2 * kinds] = a
        rows.append(block)
        least.append(lower)
        most.append(upper)

    for at, target in enumerate(targets):
        zero, none = np.zeros(len(equal)), np.zeros((1, kinds))
        add(-equal, at, equal, equal, zero, zero)
        if len(kept):
            add(-kept, at, kept, kept, low, high)
        chosen = np.array([[float(n in target) for n in range(kinds)]])
        add(none, at, none, chosen, np.ones(1), np.ones(1))
        add(none, at, none, 1 - chosen, np.zeros(1), np.zeros(1))
    cost = np.zeros(kinds * (1 + 2 * number))
    cost[:kinds] = 1
    return _solve(cost, np.vstack(rows), np.concatenate(least), np.concatenate(most))


def _counts(classes: Sequence[RecordClass]) -> Matrix:
    """One row for each unit of each published count: who is part of it."""
    width = len(classes[0].signature)
    units = dict.fromkeys((n, item.signature[n]) for item in classes for n in range(width))
    rows = [[float(item.signature[n] == unit) for item in classes] for n, unit in units if unit is not None]
    return np.array(rows).reshape(-1, len(classes))


def _solve(cost: Matrix, rows: Matrix, least: Matrix, most: Matrix) -> int:
    """The optimum; the first variable, A's own class, is at least one."""
    lower = np.zeros(len(cost))
    lower[0] = 1
    result = milp(
        cost,
        constraints=LinearConstraint(rows, least, most) if len(rows) else (),
        integrality=np.ones(len(cost)),
        bounds=Bounds(lower, np.inf),
    )
    # A permutation of one record of every class is always a solution, so the programme has an optimum.
    assert result.success, result.message
    return round(float(result.fun))
