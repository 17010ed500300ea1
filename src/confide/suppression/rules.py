"""Primary rules: which cells would disclose something, and how far an attacker must be kept from their values.

========  ==========================================================================================================
rule      a cell is primary where
========  ==========================================================================================================
threshold  0 < n <= maximum; with ``zeros`` also n = 0
(n, k)     the n largest contributions are more than k % of the cell: x_1 + ... + x_n > k/100 · X
p %        someone can estimate a contribution to within p %: X - x_1 - x_2 < p/100 · x_1
pq         the same for an attacker who knows each contribution beforehand to within q %: q/100 · (X - x_1 - x_2) <
           p/100 · x_1
========  ==========================================================================================================

Each gives protection levels: the attacker's interval [lo, hi] of a primary cell with the value X must have
``lo <= X - lower``, ``hi >= X + upper`` and ``hi - lo >= sliding``. For the threshold these make the cell look as if it
could be one that need not be hidden: hi >= maximum + 1, and an interval at least as wide as the maximum. For magnitudes
they keep the estimate of the largest contribution by the second largest contributor outside p % (Hundepool et al.,
"Statistical Disclosure Control", 2012, table 4.3):

    (n, k)  100/k · (x_1 + ... + x_n) - X
    p %     p/100 · x_1 - (X - x_1 - x_2)
    pq      p/q · x_1 - (X - x_1 - x_2)

upwards and downwards alike. Levels are whole numbers, rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from confide.errors import Finding, ParameterError
from confide.exact import Exact, exact
from confide.suppression.structure import Flags, Integers

MOST = 100


@dataclass(frozen=True, eq=False, repr=False)
class Levels:
    """Primary cells and their protection levels, one entry for each cell of a structure; zero where not primary."""

    primary: Flags
    lower: Integers
    upper: Integers
    sliding: Integers

    @staticmethod
    def none(cells: int) -> Levels:
        """No primary cell."""
        zero = np.zeros(cells, np.int64)
        return Levels(np.zeros(cells, np.bool_), zero, zero, zero)

    def also(self, other: Levels) -> Levels:
        """The cells of both, each with the larger levels."""
        return Levels(
            self.primary | other.primary,
            np.maximum(self.lower, other.lower),
            np.maximum(self.upper, other.upper),
            np.maximum(self.sliding, other.sliding),
        )

    def taken(self, cells: Integers) -> Levels:
        """The levels of some cells."""
        return Levels(self.primary[cells], self.lower[cells], self.upper[cells], self.sliding[cells])


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """What the cells of a magnitude table are made of: contributors, and the largest contributions, falling."""

    number: Integers
    largest: Integers
    """One row for a cell: x_1, x_2, ... as far as a rule needs them, zero where there are no more."""

    def top(self, number: int) -> Integers:
        """The sum of the largest so many."""
        if number > self.largest.shape[1]:
            what, expected = "a rule needs more contributions than were counted", f"at least {number} for a cell"
            raise ParameterError(Finding("contributions", what, found=str(self.largest.shape[1]), expected=expected))
        sums: Integers = self.largest[:, :number].sum(axis=1)
        return sums


def threshold(counts: Integers, maximum: int, *, zeros: bool = False, lower: int = 0) -> Levels:
    """Cells of few: 0 < n <= maximum. ``lower`` is how far below n an attacker's interval must reach, as far as zero
    allows."""
    if maximum < 1:
        raise _wrong("maximum", maximum, "a whole number of at least 1")
    primary = (counts <= maximum) & ((counts > 0) | zeros)
    upper = np.where(primary, maximum + 1 - counts, 0)
    down = np.where(primary, np.minimum(lower, counts), 0)
    return Levels(primary, down, upper, np.where(primary, maximum, 0))


def dominance(values: Integers, contributions: Contributions, number: int, percent: Exact) -> Levels:
    """The (n, k) rule."""
    k = _percent("percent", percent)
    if number < 1:
        raise _wrong("number", number, "a whole number of at least 1")
    need = [MOST / k * int(top) - int(x) for top, x in zip(contributions.top(number), values, strict=True)]
    return _both_ways(need)


def p_percent(values: Integers, contributions: Contributions, percent: Exact) -> Levels:
    """The p % rule: pq with q = 100."""
    return pq(values, contributions, percent, MOST)


def pq(values: Integers, contributions: Contributions, percent: Exact, prior: Exact) -> Levels:
    """The pq rule: p ``percent`` for an attacker who knows contributions to within q ``prior`` % beforehand."""
    p, q = exact(percent, "percent"), _percent("prior", prior)
    if not 0 < p < q:
        raise _wrong("percent", percent, "more than 0 and less than the prior knowledge")
    rest = values - contributions.top(2)
    first = contributions.largest[:, 0]
    return _both_ways([p / q * int(x) - int(r) for x, r in zip(first, rest, strict=True)])


def _both_ways(need: list[Fraction]) -> Levels:
    """Primary is what needs to be kept at a distance at all."""
    level = np.array([max(0, ceil(each)) for each in need], np.int64)
    return Levels(level > 0, level, level, np.zeros_like(level))


def _percent(name: str, value: Exact) -> Fraction:
    number = exact(value, name)
    if not 0 < number <= MOST:
        raise _wrong(name, value, "a number of percent, more than 0 and at most 100")
    return number


def _wrong(name: str, found: object, expected: str) -> ParameterError:
    what = f"{name} is not what a primary rule can have"
    return ParameterError(Finding("primary-rule", what, found=str(found), expected=expected, remedy="correct it"))


def contributions_of(cell: Integers, value: Integers, cells: int, *, top: int = 2) -> tuple[Integers, Contributions]:
    """The values of cells, and their contributions, from one row for each contributor: its cell and what it adds."""
    if (value < 0).any():
        raise ParameterError(Finding("negative", "a contribution is negative", expected="at least zero for everybody"))
    order = np.lexsort((-value, cell))
    sorted_cell, sorted_value = cell[order], value[order]
    number: npt.NDArray[np.int64] = np.bincount(cell, minlength=cells).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(number)[:-1]])
    rank = np.arange(len(order)) - starts[sorted_cell]
    largest = np.zeros((cells, top), np.int64)
    within = rank < top
    largest[sorted_cell[within], rank[within]] = sorted_value[within]
    total = np.zeros(cells, np.int64)
    np.add.at(total, cell, value)
    return total, Contributions(number, largest)
