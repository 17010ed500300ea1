"""What is to be solved: cells with their values, those that must be protected, and what it costs to suppress others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from confide.arrays import Floats, Integers
from confide.errors import CONFIDENTIAL, ParameterError
from confide.exact import Exact, exact
from confide.mechanisms.suppression.attacker import Attacker
from confide.mechanisms.suppression.structure import Flags, Structure

if TYPE_CHECKING:
    from confide.mechanisms.suppression.variables import Kinds


# Who contributes to the cells of a magnitude table, and what each of them knows by it. Confidential.
#
# A contributor f knows what it gave to every cell, x_f(c). No contribution is below ``lowest`` (zero, unless the spec
# says otherwise), so f knows of the figure of a cell with n contributions that
#
#     y_c >= x_f(c) + (n - n_f) · lowest,
#
# where n_f of them are its own; and alone in a cell, f knows y_c. A pattern is safe only if every primary cell can move
# as far as its protection levels ask in figures that keep this, for each f. Then no contributor can bound another's
# contribution more tightly than the rule allows (``docs/proofs/suppression.md``, 7).


NOBODY = -1
LEAST = -(1 << 62)
"""Below every figure."""


@dataclass(frozen=True, eq=False, repr=False)
class Contributors:
    """For each cell its contributors, those who know most of it first."""

    start: Integers
    """Where the entries of each cell begin, and the number of entries at the end."""
    person: Integers
    """The contributor of each entry, as a number."""
    amount: Integers
    """What it gave to the cell, as the rules see it: at least zero."""
    floor: Integers
    """What it knows the figure of the cell not to be below, falling within a cell."""

    @property
    def cells(self) -> int:
        return len(self.start) - 1

    @cached_property
    def alone(self) -> Integers:
        """For each cell the one contributor that it has, or -1."""
        one = np.diff(self.start) == 1
        owner = np.full(self.cells, NOBODY, np.int64)
        owner[one] = self.person[self.start[:-1][one]]
        return owner

    @cached_property
    def size(self) -> Integers:
        """For each cell all amounts together: its figure, if nothing in it is negative."""
        size = np.zeros(self.cells, np.int64)
        np.add.at(size, self._cell_of_entry, self.amount)
        return size

    @cached_property
    def highest(self) -> Integers:
        """For each cell with several contributors the most that one of them knows it not to be below; for others less
        than any figure."""
        highest = np.full(self.cells, LEAST, np.int64)
        several = np.diff(self.start) > 1
        highest[several] = self.floor[self.start[:-1][several]]
        return highest

    @cached_property
    def everybody(self) -> set[int]:
        """All contributors."""
        return set(np.unique(self.person).tolist())

    def above(self, cell: int, figure: int) -> list[int]:
        """Those who know that a cell is more than so much."""
        begin, end = int(self.start[cell]), int(self.start[cell + 1])
        if begin == end or self.floor[begin] <= figure:
            return []
        number = int(np.searchsorted(-self.floor[begin:end], -figure, side="left"))
        known: list[int] = self.person[begin : begin + number].tolist()
        return known

    def known_by(self, person: int) -> dict[int, int]:
        """The cells that somebody contributes to, each with what its figure is known not to be below."""
        entries = self._by_person[slice(*np.searchsorted(self._persons, (person, person + 1)))]
        return dict(zip(self._cell_of_entry[entries].tolist(), self.floor[entries].tolist(), strict=True))

    def taken(self, cells: Integers) -> Contributors:
        """Those of some cells, which are numbered anew in this order."""
        sizes = np.diff(self.start)[cells]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        entries = np.repeat(self.start[:-1][cells] - start[:-1], sizes) + np.arange(int(start[-1]))
        return Contributors(start, self.person[entries], self.amount[entries], self.floor[entries])

    def merged(self, cells: Integers, group: Integers, groups: int, low: Integers) -> Contributors:
        """Cells put together: of each group the contributors of its cells, with all that they gave to them.

        Args:
            cells: The cells, one after the other.
            group: For each the number of its group.
            groups: How many groups there are.
            low: For each what everybody knows of it: what somebody knows who gave nothing to it.
        """
        own = self.taken(cells)
        of_cell = np.repeat(group, np.diff(own.start))
        base = np.zeros(groups, np.int64)
        np.add.at(base, group, low)
        # What is known of a group is the sum of what is known of its cells: of those without a contribution, the low.
        more = own.floor - np.repeat(low, np.diff(own.start))
        merged = contributors_of(of_cell, own.person, own.amount, np.maximum(more, 0), np.zeros(groups, np.int64))
        floor = merged.floor + np.repeat(base, np.diff(merged.start))
        return Contributors(merged.start, merged.person, merged.amount, floor)

    def followed_by(self, others: Contributors) -> Contributors:
        """These cells and others after them; persons of the same number are the same."""
        return Contributors(
            np.concatenate([self.start, others.start[1:] + self.start[-1]]),
            np.concatenate([self.person, others.person]),
            np.concatenate([self.amount, others.amount]),
            np.concatenate([self.floor, others.floor]),
        )

    def largest(self, top: int) -> tuple[Integers, Integers]:
        """For each cell the number of its contributors, and the largest amounts, falling, zero where there are no
        more."""
        number: Integers = np.diff(self.start).astype(np.int64)
        order = np.lexsort((-self.amount, self._cell_of_entry))
        rank = np.arange(len(order)) - self.start[:-1][self._cell_of_entry]
        within = rank < top
        largest = np.zeros((self.cells, top), np.int64)
        largest[self._cell_of_entry[within], rank[within]] = self.amount[order][within]
        return number, largest

    @cached_property
    def _cell_of_entry(self) -> Integers:
        return np.repeat(np.arange(self.cells, dtype=np.int64), np.diff(self.start))

    @cached_property
    def _by_person(self) -> Integers:
        order: Integers = np.argsort(self.person, kind="stable")
        return order

    @cached_property
    def _persons(self) -> Integers:
        return self.person[self._by_person]


def contributors_of(
    cell: Integers, person: Integers, amount: Integers, known: Integers, base: Integers
) -> Contributors:
    """The contributors of cells, from one row for each contribution.

    Args:
        cell: The cell that a row adds to.
        person: Whose it is, as a number of at least zero; several rows of one contributor in a cell are added up.
        amount: How much it counts for the rules, at least zero.
        known: By how much it lifts what its owner knows of the cell, at least zero.
        base: For each cell what everybody knows its figure not to be below.

    Returns:
        The contributors of each cell.

    >>> cell, person, amount = np.array([0, 0]), np.array([7, 8]), np.array([3, 5])
    >>> contributors_of(cell, person, amount, amount, np.zeros(1, np.int64)).person.tolist()
    [8, 7]
    """
    order = np.lexsort((person, cell))
    cell, person, amount, known = cell[order], person[order], amount[order], known[order]
    new = np.ones(len(cell), np.bool_)
    new[1:] = (cell[1:] != cell[:-1]) | (person[1:] != person[:-1])
    first = np.flatnonzero(new)
    # Several rows of one contributor in a cell are one contribution.
    amounts = np.add.reduceat(amount, first) if len(first) else amount
    floors = (np.add.reduceat(known, first) if len(first) else known) + base[cell[first]]
    cell, person = cell[first], person[first]
    order = np.lexsort((person, -floors, cell))
    sizes = np.bincount(cell, minlength=len(base))
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Contributors(start, person[order].astype(np.int64), amounts[order], floors[order])


def contributors_of_largest(largest: Integers, number: Integers, base: Integers) -> Contributors:
    """Contributors of whom only the largest contributions to each cell are known, and not who they are: each is taken
    for somebody else.

    In one table nothing is lost by that: what somebody gave to a cell is known to be in every total of it. Somebody who
    is alone in cells of several tables is taken for several persons.
    """
    cells, top = largest.shape
    there = np.arange(top)[None, :] < number[:, None]
    cell = np.repeat(np.arange(cells, dtype=np.int64), top).reshape(cells, top)[there]
    amount = largest[there]
    return contributors_of(cell, np.arange(len(cell), dtype=np.int64), amount, amount, base)


# Primary rules: which cells would disclose something, and how far an attacker must be kept from their values.
#
# ========  ==========================================================================================================
# rule      a cell is primary where
# ========  ==========================================================================================================
# threshold  0 < n <= maximum; with ``zeros`` also n = 0
# (n, k)     the n largest contributions are more than k % of the cell: x_1 + ... + x_n > k/100 · X
# p %        someone can estimate a contribution to within p %: X - x_1 - x_2 < p/100 · x_1
# pq         the same for an attacker who knows each contribution beforehand to within q %: q/100 · (X - x_1 - x_2) <
#            p/100 · x_1
# ========  ==========================================================================================================
#
# Each gives protection levels: the attacker's interval [lo, hi] of a primary cell with the value X must have ``lo <=
# X - lower``, ``hi >= X + upper`` and ``hi - lo >= sliding``. For the threshold these make the cell look as if it
# could be one that need not be suppressed: hi >= maximum + 1, and an interval at least as wide as the maximum. For
# magnitudes they keep the estimate of the largest contribution by the second largest contributor outside p %
# (Hundepool et al., "Statistical Disclosure Control", 2012, table 4.3):
#
#     (n, k)  100/k · (x_1 + ... + x_n) - X
#     p %     p/100 · x_1 - (X - x_1 - x_2)
#     pq      p/q · x_1 - (X - x_1 - x_2)
#
# upwards and downwards alike. Levels are whole numbers, rounded up.


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
            raise ParameterError("contributions", found=str(self.largest.shape[1]), number=number)
        sums: Integers = self.largest[:, :number].sum(axis=1)
        return sums


def threshold(counts: Integers, maximum: int, *, zeros: bool = False, lower: int = 0) -> Levels:
    """Cells of few: 0 < n <= maximum.

    Args:
        counts: The contributors of every cell.
        maximum: The largest count that is primary.
        zeros: Whether cells of nobody are primary too.
        lower: How far below n an attacker's interval must reach, as far as zero allows.

    Returns:
        The primary cells with their protection levels.

    >>> threshold(np.array([0, 2, 7]), 3).primary.tolist()
    [False, True, False]
    """
    if maximum < 1:
        raise ParameterError("primary-rule/maximum", found=str(maximum))
    primary = (counts <= maximum) & ((counts > 0) | zeros)
    upper = np.where(primary, maximum + 1 - counts, 0)
    down = np.where(primary, np.minimum(lower, counts), 0)
    return Levels(primary, down, upper, np.where(primary, maximum, 0))


def dominance(values: Integers, contributions: Contributions, number: int, percent: Exact) -> Levels:
    """The (n, k) rule: the ``number`` largest contributions are more than ``percent`` % of the cell.

    Args:
        values: The magnitude of every cell.
        contributions: The largest contributions of every cell, at least ``number`` of them.
        number: n, at least 1.
        percent: k, more than 0 and at most 100; exact, never a float.

    >>> dominance(np.array([100]), Contributions(np.array([3]), np.array([[90, 6]])), 1, 80).upper.tolist()
    [13]
    """
    k = _percent("percent", percent)
    if number < 1:
        raise ParameterError("primary-rule/number", found=str(number))
    need = [MOST / k * int(top) - int(x) for top, x in zip(contributions.top(number), values, strict=True)]
    return _both_ways(need)


def p_percent(values: Integers, contributions: Contributions, percent: Exact) -> Levels:
    """The p % rule: pq with q = 100.

    >>> p_percent(np.array([100]), Contributions(np.array([3]), np.array([[90, 6]])), 10).upper.tolist()
    [5]
    """
    return pq(values, contributions, percent, MOST)


def pq(values: Integers, contributions: Contributions, percent: Exact, prior: Exact) -> Levels:
    """The pq rule: p ``percent`` for an attacker who knows contributions to within q ``prior`` % beforehand.

    Args:
        values: The magnitude of every cell.
        contributions: The two largest contributions of every cell, or more.
        percent: p, more than 0 and less than the prior; exact, never a float.
        prior: q, at most 100.
    """
    p, q = exact(percent, "percent"), _percent("prior", prior)
    if not 0 < p < q:
        raise ParameterError("primary-rule/percent", found=str(percent))
    others = values - contributions.top(2)
    first = contributions.largest[:, 0]
    return _both_ways([p / q * int(x) - int(r) for x, r in zip(first, others, strict=True)])


def _both_ways(need: list[Fraction]) -> Levels:
    """Primary is what needs to be kept at a distance at all."""
    if max(need, default=Fraction(0)) > LARGEST:
        raise ParameterError("primary-rule/level", found=str(CONFIDENTIAL), largest=LARGEST)
    level = np.array([max(0, ceil(distance)) for distance in need], np.int64)
    return Levels(level > 0, level, level, np.zeros_like(level))


def _percent(name: str, value: Exact) -> Fraction:
    number = exact(value, name)
    if not 0 < number <= MOST:
        raise ParameterError("primary-rule/percent-most", found=str(value), name=name)
    return number


def contributions_of(cell: Integers, value: Integers, cells: int, *, top: int = 2) -> tuple[Integers, Contributions]:
    """The values of cells, and their contributions, from one row for each contributor: its cell and what it adds."""
    if (value < 0).any():
        raise ParameterError("negative/contribution")
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


Weights = Literal["constant", "value", "log"]


@dataclass(frozen=True, eq=False, repr=False)
class UnionRule:
    """The primary rules for cells that are put together: who contributes to each cell, and what the rules say of
    the contributors of several."""

    contributors: Contributors
    levels: Callable[[Contributors], Levels]


PRECISION = 1e-9

LARGEST = 1 << 62
"""Larger figures would leave 64 bits when they are added."""

SOLVABLE = 1 << 40
"""Larger figures would leave the range in which the solver can be trusted: movements go in larger steps then."""


@dataclass(frozen=True, eq=False, repr=False)
class PatternProblem:
    """The cell suppression problem (CSP) of a structure: which pattern is safe and costs least. Confidential.

    All values are whole numbers of at least ``low``.
    """

    structure: Structure
    value: Integers
    levels: Levels
    weight: Floats
    """What it costs to suppress a cell that need not be suppressed."""
    low: Integers
    """What an attacker knows of a suppressed cell: it is not below this."""
    keep: Flags
    """Cells that must not be suppressed."""
    unlisted: Flags
    """Cells that are in no published table: suppressed from the beginning, at no cost."""
    single: Flags
    """Cells of one contributor, who knows the value; all False if this is not to be thought of."""
    who: Integers | None = None
    """Where a cell is single, a number for its contributor; None where the records are not at hand."""
    inhabited: Flags | None = None
    """Cells that somebody is in; None: those with a figure other than zero."""
    kinds: Kinds | None = None
    """The kinds of people that the tables tell apart, for movements of the last resort."""
    along: tuple[int, Integers] | None = None
    """The variable with most codes, and for each cell its code: large regions are looked through in part first."""
    contributors: Contributors | None = None
    """Magnitudes: who gave what to which cell; None for counts, or if this is not to be thought of."""
    union_rule: UnionRule | None = None
    """Magnitudes: the rules that hidden cells in one sum must meet together; None: they need not."""

    def __post_init__(self) -> None:
        if (self.value < self.low).any() or (np.abs(self.value) > LARGEST).any():
            raise ParameterError("values", found=CONFIDENTIAL, largest=LARGEST)
        if (self.structure.matrix.astype(np.int64) @ self.value).any():
            raise ParameterError("not-additive", found=CONFIDENTIAL)
        if (self.levels.primary & self.keep).any():
            raise ParameterError("kept-primary", found=CONFIDENTIAL)

    @property
    def begun(self) -> Flags:
        """What is suppressed whatever else is decided."""
        return self.levels.primary | self.unlisted

    @property
    def high(self) -> Floats:
        return np.full(len(self.value), np.inf)

    @cached_property
    def persons(self) -> Integers:
        """For each cell of a single contributor who that is, as a number; -1 for others.

        Without the records, as far as the structure tells: a total of one and its part of one are the same person, who
        knows both.
        """
        if self.who is not None:
            return np.where(self.single, self.who, NOBODY)
        matrix = sparse.coo_array(self.structure.matrix)
        row, cell = matrix.coords
        total = self.structure.total[row]
        same = (total >= 0) & self.single[cell] & self.single[total]
        size = self.structure.cells
        graph = sparse.csr_array((np.ones(int(same.sum())), (cell[same], total[same])), shape=(size, size))
        _, labels = csgraph.connected_components(graph, directed=False)
        return np.where(self.single, labels.astype(np.int64), NOBODY)

    @cached_property
    def insiders(self) -> Contributors | None:
        """Those who must be kept as far from every primary cell as everybody else, knowing what they contribute.

        Where no contributors are given, those who are alone in a cell, unless all of them count as one: then figures
        are counts, and what somebody alone in a cell must not know is another count exactly.
        """
        if self.contributors is not None or (self.value[self.single] == 1).all():
            return self.contributors
        cells = np.flatnonzero(self.single)
        amount = self.value[cells]
        return contributors_of(cells, self.persons[cells], np.abs(amount), amount - self.low[cells], self.low)

    def fixed_by(self, person: int) -> Flags:
        """The cells whose figure somebody knows, being alone in them; none for nobody."""
        if person == NOBODY:
            return np.zeros(len(self.value), np.bool_)
        owner = self.persons if self.insiders is None else self.insiders.alone
        fixed: Flags = owner == person
        return fixed

    def low_for(self, person: int) -> Integers:
        """What somebody knows figures not to be below: their own contributions are in them."""
        if person == NOBODY or self.insiders is None:
            return self.low
        low = self.low.copy()
        known = self.insiders.known_by(person)
        at = np.fromiter(known, np.int64, len(known))
        low[at] = np.maximum(low[at], np.fromiter(known.values(), np.int64, len(known)))
        return low

    @property
    def about_somebody(self) -> Flags:
        """Cells whose figure says something of somebody. That nobody is in a cell says nothing about anybody; a sum of
        zero that somebody contributes to does."""
        return self.value != 0 if self.inhabited is None else self.inhabited

    def cost(self, suppressed: Flags) -> float:
        """What is paid for suppressing cells that are not primary."""
        return float(self.weight[suppressed & ~self.begun].sum())

    def attacker(self, suppressed: Flags) -> Attacker:
        """Somebody who has seen the tables without the suppressed cells."""
        value = self.value.astype(np.float64)
        return Attacker(self.structure, value, suppressed, self.low.astype(np.float64), self.high)

    def needs(self) -> list[ProtectionNeed]:
        """What every primary cell must be able to do, the highest totals and the largest distances first."""
        levels = self.levels
        plain = self.structure.plain.total
        parts = np.bincount(plain[plain >= 0], minlength=self.structure.cells)
        needs = []
        for cell in np.flatnonzero(levels.primary).tolist():
            lower = min(int(levels.lower[cell]), int(self.value[cell] - self.low[cell]))
            needs.append(ProtectionNeed(cell, lower, int(levels.upper[cell]), max(1, int(levels.sliding[cell]))))
        return sorted(needs, key=lambda need: (not parts[need.cell], -need.upper - need.lower, need.cell))


@dataclass(frozen=True, slots=True)
class ProtectionNeed:
    """A cell whose value must be able to fall by ``lower``, to rise by ``upper`` and to do both by ``sliding``, for all
    that an attacker knows."""

    cell: int
    lower: int
    upper: int
    sliding: int

    def within(self, room: int) -> ProtectionNeed:
        """The same for somebody who knows that the cell cannot fall further than this."""
        return replace(self, lower=min(self.lower, room))

    def met(self, down: float, up: float) -> bool:
        """Whether a cell that can fall and rise so far is protected."""
        return down >= self.lower and up >= self.upper and down + up >= self.sliding


def step_of(value: Integers) -> int:
    """The steps in which the solver can be trusted with such figures: 1, unless they are very large."""
    return max(1, -(-int(np.abs(value).max(initial=0)) // SOLVABLE))


def in_steps(problem: PatternProblem) -> PatternProblem:
    """The same problem in steps that the solver can be trusted with: itself, unless figures are very large.

    With steps of g, a movement of e steps is one of g · e, so that e need only keep e >= -floor((a - low) / g), and
    protection levels are ceil(level / g). What e is at is not asked: figures are taken to be zero, and bounds with
    them. A movement that this problem proves is, times g, one of the other.
    """
    step = step_of(problem.value)
    if step == 1:
        return problem
    room = (problem.value - problem.low) // step

    def levels(of: Levels) -> Levels:
        return Levels(of.primary, -(-of.lower // step), -(-of.upper // step), -(-of.sliding // step))

    def contributors(of: Contributors) -> Contributors:
        value = np.repeat(problem.value, np.diff(of.start))
        return replace(of, floor=-((value - of.floor) // step))

    rule = problem.union_rule
    return replace(
        problem,
        value=np.zeros_like(problem.value),
        low=-room,
        levels=levels(problem.levels),
        inhabited=problem.about_somebody,
        contributors=None if problem.insiders is None else contributors(problem.insiders),
        union_rule=None
        if rule is None
        else UnionRule(contributors(rule.contributors), lambda merged: levels(rule.levels(merged))),
    )


def weights(value: Integers, kind: Weights) -> Floats:
    """What it costs to suppress a cell: 1, its value, or log(1 + value). A zero costs as much as a one.

    >>> weights(np.array([0, 5]), "value").tolist()
    [1.0, 5.0]
    """
    at_least_one = np.maximum(np.abs(value), 1).astype(np.float64)
    if kind == "constant":
        return np.ones(len(value))
    return at_least_one if kind == "value" else np.log1p(at_least_one)


@dataclass(frozen=True, eq=False, repr=False)
class Pattern:
    """Which cells are suppressed, and how good that is known to be."""

    suppressed: Flags
    cost: float
    method: str
    bound: float | None = None
    """No safe pattern costs less; None where that is not known."""

    @property
    def gap(self) -> float | None:
        """How much dearer than the best it may be, as a share; zero: proved to be the best."""
        if self.bound is None:
            return None
        gap = (self.cost - self.bound) / self.cost if self.cost > 0 else 0.0
        return gap if gap > PRECISION else 0.0


def cannot_protect(number: int) -> ParameterError:
    """Some cells cannot be protected, whatever is suppressed. Which ones is confidential."""
    return ParameterError("cannot-protect", number=number)


def not_found(number: int) -> ParameterError:
    """Some cells could be protected by fractions of people, and no movement in whole numbers was found."""
    return ParameterError("no-whole-pattern", number=number)
