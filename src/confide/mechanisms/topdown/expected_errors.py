"""How far off released figures may be expected to be, from the plan alone: nothing here looks at a record.

If estimates were least squares and nothing else, the error of a released figure would be a sum of independent noise:
over the levels of the spine, how much of each level's noise the area has (:class:`~.evaluate.NoiseTheory`), times the
variance v of the figure in a unit of the level. With the information M of the level's measurements in sectors,
C = M⁻¹ on possible cells, s the figure's cells and 1 all cells,

    v = sᵀCs − (sᵀC1)²/1ᵀC1 + (sᵀC1/1ᵀC1)² σ_T²,

σ_T² being the variance of the total where it has a pass of its own, zero where it is known, and 1ᵀC1 elsewhere. It is
what ``evaluate`` has as the noise alone, without a matrix of all cells.

A histogram with too many cells that are not alike has no such C. Then v is the variance of the inverse-variance mean of
all measured queries that determine the figure (:class:`MeansOfQueries`), which is no smaller: the method is named
beside the figures.

With tree evidence (``from_below``) estimates learn from below as well. Without constraints they are least squares on
the whole tree, and the variance of a figure in an area is that (:class:`_OnTheTree`).

Figures are never below zero, which takes errors away where people are few. So for figures of a size the expected
error is that of max(0, n + E), E normal with the variance of the figure: ``docs/concepts/inference.md``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError
from confide.estimation.sectors import Sectors
from confide.estimation.tree_covariances import LevelAnswers
from confide.estimation.tree_gls import SectorCells
from confide.mechanisms.topdown.evaluate import SMALLEST, NoiseTheory
from confide.mechanisms.topdown.output.settings import Output
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem
from confide.mechanisms.topdown.strategy import TREE, LevelStrategy, law_of
from confide.mechanisms.topdown.whole_tree import PlannedTree, grouping_of, planned_tree, sectors_of
from confide.schema import NO_GROUP, TOTAL

KNOWN = 1e-9
"""A variance below this part of another is none."""
UNDETERMINED = 1e-6
"""A count of which the measurements leave more than this part open is determined by none of them."""
IN_SECTORS, MEANS_OF_QUERIES, ON_THE_TREE = "least-squares", "means-of-queries", "least-squares-on-the-tree"
"""The methods, by the names that a manifest has for them."""

Grouping = Mapping[int, Integers]
"""A query: for each axis that is not summed out the group of each level."""


class _NoiseWithin(Protocol):
    """The noise of a figure within one unit."""

    method: str

    def within(self, groups: Grouping) -> Floats:
        """v of each cell of a query in a unit with the share of its level, levels x cells; NaN where nothing that is
        measured on the level determines it, and zero where nothing is measured: units are then their parents, or
        their parents' rest."""

    def alike(self, groups: Grouping) -> Hashable:
        """The same for queries whose cells have the same noise."""


class ReleasedNoise:
    """The noise of released figures, by level of the spine and by area."""

    def __init__(self, problem: TopDownProblem):
        self._theory = NoiseTheory(problem)
        self._within: dict[Hashable, Floats] = {}
        self.tree = _OnTheTree(problem) if problem.strategy.evidence == TREE else None
        """The noise on the whole tree, where estimates have learnt from it."""
        self._model: _NoiseWithin
        try:
            self._model = InSectors(problem, self._theory)
        except ParameterError:
            self._model = MeansOfQueries(problem, self._theory)

    @property
    def method(self) -> str:
        """How the noise is worked out: one of the methods."""
        return self._model.method if self.tree is None else ON_THE_TREE

    def variances(self, groups: Grouping, areas: Integers, number: int) -> Floats:
        """The variance of the cells of a query in areas: areas x cells, in the order of the axes; NaN where nothing
        that is measured determines a cell.

        Args:
            groups: The query: for each axis that is not summed out the group of each level.
            areas: For each row of the frame its area, or −1 for none.
            number: How many areas there are.
        """
        if self.tree is not None:
            return self.tree.variances(groups, areas, number)
        return combined(self.parts(areas, number, total=not groups), self.within(groups))

    def mean_variance(self, groups: Grouping, areas: Integers, number: int) -> float:
        """The mean of :meth:`variances` over areas and cells."""
        if self.tree is None:
            return float(self.variances(groups, areas, number).mean())
        variances, kind = self.tree.by_kind(groups, areas, number)
        return float(np.bincount(kind, minlength=len(variances)) @ variances.mean(axis=1) / number)

    def within(self, groups: Grouping) -> Floats:
        """v of the cells of a query in a unit of each level: levels x cells."""
        key = self._model.alike(groups)
        if key not in self._within:
            self._within[key] = self._model.within(groups)
        return self._within[key]

    def parts(self, areas: Integers, number: int, *, total: bool) -> Floats:
        """How much of each level's noise each area has: areas x levels."""
        return self._theory.contributions(areas, number, total=total)


class _OnTheTree:
    """Least squares on the whole tree, for any area: with what lower levels tell of upper ones, and public zeros."""

    def __init__(self, problem: TopDownProblem):
        self._problem = problem
        self._matrices: dict[bytes, Floats] = {}

    @cached_property
    def _tree(self) -> PlannedTree:
        problem = self._problem
        return planned_tree(
            problem.strategy,
            problem.spine,
            plan_problem(problem),
            problem.columns,
            variance=lambda law: max(law.variance(), SMALLEST),
        )

    @cached_property
    def _smallest(self) -> float:
        """The least variance of a measurement."""
        return min(max(measure.unbounded.variance(), SMALLEST) for measure in plan_problem(self._problem).measures)

    @cached_property
    def _blocks(self) -> LevelAnswers:
        """V of every kind of block, once for all queries."""
        covariances = self._tree.covariances
        return covariances.evaluate(len(covariances.levels) - 1, lambda covariance: covariance)

    def alike(self, groups: Grouping) -> Hashable:
        """The same for queries whose cells have the same noise."""
        return _alike_in(self._tree.sectors, groups)

    def variances(self, groups: Grouping, areas: Integers, number: int) -> Floats:
        """The variance of the cells of a query in areas, as in :meth:`ReleasedNoise.variances`."""
        variances, kind = self.by_kind(groups, areas, number)
        return np.asarray(variances[kind], np.float64)

    def by_kind(self, groups: Grouping, areas: Integers, number: int) -> tuple[Floats, Integers]:
        """The same for kinds of areas, and the kind of each area: blocks are alike by the thousand."""
        cells = SectorCells(self._tree.sectors, groups)
        spine = self._problem.spine
        area = areas[spine.rows]
        inside = np.flatnonzero(area >= 0)
        if len(inside) == len(np.unique(area[inside])):  # every area is a block, or has none: nobody, and no noise
            kinds, of_blocks = np.unique(self._blocks.kind[inside], return_inverse=True)
            kind = np.full(number, len(kinds), np.int64)
            kind[area[inside]] = of_blocks.reshape(-1)
            matrices = self._blocks.values[kinds]
            if len(inside) < number:
                matrices = np.concatenate([matrices, np.zeros_like(self._blocks.values[:1])])
        else:
            key = area.tobytes()
            if key not in self._matrices:
                self._matrices[key] = self._tree.covariances.area_matrices(inside, area[inside], number)
            kind, matrices = np.arange(number), self._matrices[key]
        variances = cells.variances(matrices)
        # What is left of a known figure is a rounding error.
        return np.where(variances < KNOWN * self._smallest, 0.0, variances), kind


def combined(parts: Floats, within: Floats) -> Floats:
    """Σ_ℓ k_ℓ v_ℓ: areas x cells. What is not determined on a level matters where an area has a part of its noise."""
    open_ = np.isnan(within)
    result = parts @ np.where(open_, 0.0, within)
    if open_.any():
        result[(parts > 0).astype(float) @ open_ > 0] = np.nan
    return np.asarray(result, np.float64)


class InSectors:
    """Least squares on the histogram, in sectors."""

    method = IN_SECTORS

    def __init__(self, problem: TopDownProblem, theory: NoiseTheory):
        strategy, levels = problem.strategy, [level for level, _ in problem.levels()]
        self.sectors, queries = sectors_of(strategy, public_zeros=False)
        zero = strategy.constraints.zero_cells(strategy.schema).reshape(self.sectors.shape)
        self._possible = np.flatnonzero(~np.asarray(zero.all(axis=self.sectors.free)).ravel())
        self._queries = queries
        self._cells: dict[Hashable, SectorCells] = {}
        self._opened: dict[SectorCells, Booleans] = {}
        self._mean_forms: dict[str, tuple[Floats, Floats, Booleans]] = {}
        self._information: dict[str, tuple[Floats, Floats]] = {}
        shape = (len(levels), len(self.sectors.sectors), self.sectors.size, self.sectors.size)
        # For each level C in sectors, and what of each core vector the measurements leave open.
        self._covariance, self._rest = np.zeros(shape), np.zeros(shape)
        self._measured = np.array([bool(level.share) for level in levels])
        known = np.array([theory.known(place) for place in range(len(levels))])
        self._known = {True: known & (not theory.together), False: known}
        self._of_total = np.full(len(levels), np.nan)
        for place, level in enumerate(levels):
            if not level.share:
                continue
            variances, of_total = measured_variances(problem, level)
            self._covariance[place], self._rest[place] = self.covariance(variances)
            self._of_total[place] = np.nan if of_total is None else of_total

    def covariance(self, variances: Mapping[str, float]) -> tuple[Floats, Floats]:
        """C of a level with these variances of its measurements, and what of each core vector they leave open."""
        return self.covariances([variances])[0]

    def covariances(self, levels: Sequence[Mapping[str, float]]) -> list[tuple[Floats, Floats]]:
        """The same for several levels at once."""
        information = np.zeros((len(levels), len(self.sectors.sectors), *[len(self._possible)] * 2))
        for place, variances in enumerate(levels):
            for name, variance in variances.items():
                factors, alike = self._told(name)
                information[place] += (1 / variance * factors)[:, None, None] * alike
        shape = (len(levels), len(self.sectors.sectors), self.sectors.size, self.sectors.size)
        covariance, rest = np.zeros(shape), np.zeros(shape)
        inner = np.ix_(*map(np.arange, shape[:2]), self._possible, self._possible)
        covariance[inner] = inverse = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
        rest[inner] = np.eye(len(self._possible)) - inverse @ information
        return list(zip(covariance, rest, strict=True))

    def _told(self, name: str) -> tuple[Floats, Floats]:
        """What a query tells of possible cells, worked out once: it does not depend on noise."""
        if name not in self._information:
            factors, alike = self.sectors.information_of(self._queries[name])
            self._information[name] = factors, alike[np.ix_(self._possible, self._possible)]
        return self._information[name]

    def with_levels(self, levels: Sequence[tuple[Floats, Floats, float | None]]) -> InSectors:
        """The same with other noise: for each level its covariance, what is left open, and the variance of a total
        with a pass of its own."""
        changed = {
            "_covariance": np.stack([covariance for covariance, _, _ in levels]),
            "_rest": np.stack([rest for _, rest, _ in levels]),
            "_of_total": np.array([np.nan if total is None else total for _, _, total in levels]),
        }
        other = copy(self)
        vars(other).update(changed)
        return other

    def alike(self, groups: Grouping) -> Hashable:
        return _alike_in(self.sectors, groups)

    def within(self, groups: Grouping) -> Floats:
        cells = self._cells_of(groups)
        known, of_total = self._known[not groups][:, None], self._of_total[:, None]
        alone = ~np.isnan(of_total)
        if not groups:
            everybody = cells.variances(self._covariance)
            result = np.where(alone, of_total, np.where(self._open(cells), np.nan, everybody))
            return np.where(known | ~self._measured[:, None], 0.0, result)
        own, with_total = cells.variances(self._covariance), cells.total_covariances(self._covariance)
        everybody = (self._covariance[:, 0].sum(axis=(1, 2)) * self.sectors.copies)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(with_total == 0, 0.0, with_total / everybody)
        beside = own - with_total * share
        beside[beside < KNOWN * own] = 0
        result = np.where(known, beside, np.where(alone, beside + share**2 * np.nan_to_num(of_total), own))
        return np.where(self._open(cells), np.nan, result)

    def of_functions(self, vectors: Floats, *, total: bool) -> Floats:
        """v of linear functions of cells in a unit of each level, as :meth:`within` of cells: levels x functions.

        Args:
            vectors: functions x parts x sectors x core: h with Σ hᵀCh as variance, as
                :func:`~confide.estimation.tree_design.vectors_of` makes them.
            total: Whether the functions are totals, of which parts may be known together only.
        """
        own = np.einsum("fpsc,lscd,fpsd->lf", vectors, self._covariance, vectors, optimize=True)
        rows = self._covariance[:, 0].sum(axis=2) * np.sqrt(self.sectors.copies)
        with_total = (np.einsum("fpc,lc->lfp", vectors[:, :, 0], rows) ** 2).sum(axis=2)
        everybody = (rows.sum(axis=1) * np.sqrt(self.sectors.copies))[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(with_total == 0, 0.0, with_total / everybody)
            shared = np.where(with_total == 0, 0.0, share / everybody) * np.nan_to_num(self._of_total)[:, None]
        beside = own - share
        beside[beside < KNOWN * own] = 0
        alone = ~np.isnan(self._of_total)[:, None]
        result = np.where(self._known[total][:, None], beside, np.where(alone, beside + shared, own))
        rest = np.abs(np.einsum("fpsc,lscd->lfpsd", vectors, self._rest, optimize=True)).max(axis=(2, 3, 4))
        determined = rest <= UNDETERMINED * np.abs(vectors).max(axis=(1, 2, 3))
        # A total with a pass of its own is determined by it.
        determined |= alone & (beside == 0) & (with_total > 0)
        return np.where(self._measured[:, None], np.where(determined, result, np.nan), 0.0)

    def mean_within(self, queries: Mapping[str, Grouping]) -> dict[str, Floats]:
        """The mean of :meth:`within` over the cells of each query, level by level, without a number for each cell.

        The sum of gᵀVg over cells is linear in V, and that of the squared covariances with the total a quadratic form
        of its row sums: what these are made of does not depend on noise, and is worked out once.
        """
        grouped = {name: groups for name, groups in queries.items() if groups}
        result = {name: self.within(groups).mean(axis=1) for name, groups in queries.items() if not groups}
        if not grouped:
            return result
        for name in grouped.keys() - self._mean_forms.keys():
            cells = self._cells_of(grouped[name])
            members, counts = cells.base.members, cells.free_counts()
            alike = members.T @ members / len(members)
            form = (alike * cells.weights.mean(axis=0)[:, None, None]).ravel()
            self._mean_forms[name] = (
                form,
                alike.ravel() * float((counts**2).mean()),
                np.asarray(self._open(cells).any(axis=1)),
            )
        forms, squares, undetermined = (
            np.stack(part, axis=1) for part in zip(*(self._mean_forms[name] for name in grouped), strict=True)
        )
        own = self._covariance.reshape(len(self._covariance), -1) @ forms
        rows = self._covariance[:, 0].sum(axis=2)
        everybody = (rows.sum(axis=1) * self.sectors.copies)[:, None]
        with_total = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1) @ squares
        with np.errstate(divide="ignore", invalid="ignore"):
            beside = own - np.where(with_total == 0, 0.0, with_total / everybody)
            shared = np.where(with_total == 0, 0.0, with_total / everybody**2) * np.nan_to_num(self._of_total)[:, None]
        beside[beside < KNOWN * own] = 0
        alone = ~np.isnan(self._of_total)[:, None]
        means = np.where(self._known[False][:, None], beside, np.where(alone, beside + shared, own))
        means = np.where(undetermined, np.nan, means)
        return result | {name: means[:, place] for place, name in enumerate(grouped)}

    def _cells_of(self, groups: Grouping) -> SectorCells:
        key = tuple((axis, groups[axis].tobytes()) for axis in sorted(groups))
        if key not in self._cells:
            self._cells[key] = SectorCells(self.sectors, groups)
        return self._cells[key]

    def _open(self, cells: SectorCells) -> Booleans:
        """The cells that the measurements of a level do not determine: levels x cells. How large their noise is does
        not matter to it."""
        if cells not in self._opened:
            self._opened[cells] = self._undetermined(cells)
        return self._opened[cells]

    def _undetermined(self, cells: SectorCells) -> Booleans:
        kept = np.abs(cells.base.members @ self._rest).max(axis=3) > UNDETERMINED
        free = (cells.weights > 0).astype(float)
        return cells.arranged(np.moveaxis(kept, 1, 2).astype(float) @ free.T) > 0


def _alike_in(sectors: Sectors, groups: Grouping) -> Hashable:
    """Of a free axis it does not matter which levels are in a group, but how many."""
    return tuple(
        (axis, groups[axis].tobytes() if axis in sectors.core else _sizes(groups[axis]).tobytes())
        for axis in sorted(groups)
    )


def _sizes(groups: Integers) -> Integers:
    """How many levels each group has."""
    return np.bincount(groups[groups != NO_GROUP], minlength=int(groups.max()) + 1)


def measured_variances(problem: TopDownProblem, level: LevelStrategy) -> tuple[dict[str, float], float | None]:
    """The variances of a level's measurements, and apart from them that of a total that has a pass of its own."""
    laws = {query.name: law_of(problem.strategy, level, query) for query in level.queries}
    variances = {name: max(law.variance(), SMALLEST) for name, law in laws.items()}
    own_pass = level.estimation.least_squares[0]
    alone = own_pass.queries == own_pass.constrain == (TOTAL,) and TOTAL in variances
    return variances, variances.pop(TOTAL) if alone else None


class MeansOfQueries:
    """The inverse-variance mean of all measured queries that determine a figure, for histograms of any size.

    A figure that is n of the N cells of a query has n times the variance of a cell; where the sum of all N is known,
    what it is off by is divided among them, and n (N − n) / N times is left. Structural zeros are not used.
    """

    method = MEANS_OF_QUERIES

    def __init__(self, problem: TopDownProblem, theory: NoiseTheory):
        self._problem, self._theory = problem, theory
        strategy = problem.strategy
        self._shape = [attribute.size for attribute in strategy.schema.attributes]
        names = [attribute.name for attribute in strategy.schema.attributes]
        measured = dict.fromkeys(share.name for level in strategy.levels for share in level.queries)
        self._measured = {name: grouping_of(names, strategy.query(name)) for name in measured}

    def alike(self, groups: Grouping) -> Hashable:
        return tuple((axis, groups[axis].tobytes()) for axis in sorted(groups))

    def mean_within(self, queries: Mapping[str, Grouping]) -> dict[str, Floats]:
        """The mean over the cells of each query, level by level."""
        return {name: np.asarray(self.within(groups).mean(axis=1)) for name, groups in queries.items()}

    def within(self, groups: Grouping) -> Floats:
        return np.stack([self._on_level(place, groups) for place in range(len(self._problem.levels()))])

    def _on_level(self, place: int, groups: Grouping) -> Floats:
        level, _ = self._problem.levels()[place]
        sizes = [int(groups[axis].max()) + 1 for axis in sorted(groups)]
        weight: Floats = np.zeros(int(np.prod(sizes, dtype=np.int64)))
        if not level.share:
            return np.zeros(len(weight))
        total = not groups
        known = self._theory.known(place) and not (total and self._theory.together)
        variances, of_total = measured_variances(self._problem, level)
        if total and (known or of_total is not None):
            return np.array([0.0 if known or of_total is None else of_total])
        for name, variance in variances.items():
            cells = self._summed(self._measured[name], groups)
            if cells is not None:
                number = float(np.prod([int(g.max()) + 1 for g in self._measured[name].values()]))
                times = cells * (number - cells) / number if known else cells
                with np.errstate(divide="ignore"):
                    weight += 1 / (times * variance)
        with np.errstate(divide="ignore"):
            return np.where(weight > 0, 1 / weight, np.nan)

    def _summed(self, measured: Grouping, groups: Grouping) -> Floats | None:
        """How many cells of a measured query each cell is; None where they are not made of whole ones."""
        counts = []
        factor = 1
        for axis, size in enumerate(self._shape):
            fine = measured.get(axis, np.zeros(size, np.int64))
            coarse = groups.get(axis, np.zeros(size, np.int64))
            if ((coarse != NO_GROUP) & (fine == NO_GROUP)).any():
                return None
            pairs = np.unique(np.stack([fine, coarse]), axis=1)
            pairs = pairs[:, pairs[0] != NO_GROUP]
            if len(np.unique(pairs[0])) < pairs.shape[1]:
                return None
            inside = np.bincount(pairs[1][pairs[1] != NO_GROUP], minlength=int(coarse.max()) + 1)
            if axis in groups:
                counts.append(inside)
            else:
                factor *= int(inside[0])
        return reduce(lambda one, other: np.multiply.outer(one, other).ravel(), counts, np.array([factor])).astype(
            float
        )


def expected_absolute_error(size: Floats | float, sd: Floats | float) -> Floats:
    """E|max(0, n + E) − n| for E ~ N(0, sd²): how far a figure that cannot be below zero is off on average.

    Args:
        size: The true figure n.
        sd: The standard deviation of its noise.

    >>> expected_absolute_error(np.array([0.0, 1000.0]), 2.0).round(3)
    array([0.798, 1.596])
    """
    n, s = np.broadcast_arrays(np.asarray(size, np.float64), np.asarray(sd, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(s > 0, n / s, np.inf)
    density = np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    # The upper half, the part down to zero, and everything below zero, which is off by n.
    upper, middle = s / np.sqrt(2 * np.pi), s * (1 / np.sqrt(2 * np.pi) - density)
    return np.asarray(upper + middle + np.where(s > 0, n * ndtr(-t), 0.0), np.float64)


SIZES = ((0, 0), (1, 4), (5, 19), (20, 99), (100, 999), (1000, None))
"""Classes of figures, from and to."""
MOST_ACCURACY_CELLS = 300
MARGIN = 1.6448536269514722
"""Half the width of a 90 % interval, in standard deviations."""
AT_ONCE = 1 << 16
"""Expected errors of so many areas and cells are worked out together."""
DIGITS = 4
"""To so many digits figures are written: the same on every machine, whatever the last bits of its arithmetic."""


@dataclass(frozen=True, eq=False)
class AccuracyLine:
    """What expected errors are given for: a query, with all its cells, or one line of a table of the product."""

    query: str
    groups: Grouping
    cells: int
    line: str = ""
    label: str = ""


def accuracy_lines(problem: TopDownProblem, output: Output | None = None) -> Iterator[AccuracyLine]:
    """The queries of at most 300 cells that are measured on some level, and the lines of the tables of the product."""
    strategy = problem.strategy
    names = [attribute.name for attribute in strategy.schema.attributes]
    measured = (share.name for level in strategy.levels for share in level.queries)
    for name in dict.fromkeys((TOTAL, *measured)):
        query = strategy.query(name)
        if query.cells <= MOST_ACCURACY_CELLS:
            yield AccuracyLine(name, grouping_of(names, query), query.cells)
    for table in () if output is None else output.tables:
        for column, label, levels in zip(table.columns, table.labels, table.levels, strict=True):
            sets = enumerate(zip(levels, strategy.schema.attributes, strict=True))
            groups = {axis: _one_group(some, a.size) for axis, (some, a) in sets if len(some) < a.size}
            if all(len(some) for some in levels):
                yield AccuracyLine(table.name, groups, 1, column, label)


def _one_group(levels: Integers, size: int) -> Integers:
    groups = np.full(size, NO_GROUP, np.int64)
    groups[levels] = 0
    return groups


def accuracy_table(problem: TopDownProblem, output: Output | None = None) -> pa.Table:
    """Expected errors of released figures, by kind of area, query or line and size of the figure: from the plan alone.

    Args:
        problem: Strategy, frame and spine; no record is looked at.
        output: What is written: the tables of the product, whose lines have rows of their own.

    Returns:
        One row for each query or line, official level or kind of area, and class of figures, with the columns of
        :data:`ACCURACY`.
    """
    noise, frame = ReleasedNoise(problem), problem.frame.spine
    kinds = []
    for level in (*frame.levels, *frame.areas):
        there = np.unique(level.unit_of_block[problem.spine.rows])
        there = there[there >= 0]
        if len(there):
            parts = {
                total: _alike(noise.parts(level.unit_of_block, level.units, total=total)[there])
                for total in (True, False)
            }
            alike, times = parts[False]
            # Of the smallest places, the noise of their own level is what an area has of single ones.
            loose = 0.0 if level is frame.blocks else float(alike[:, -1] @ times) / len(there)
            place = np.full(level.units, -1, np.int64)
            place[there] = np.arange(len(there))
            kinds.append((level.name, len(there), loose, parts, np.append(place, -1)[level.unit_of_block]))
    classes = list(size_classes())
    columns: dict[str, list[Any]] = {name: [] for name in ACCURACY.names}
    known: dict[tuple[str, bool, Hashable], dict[str, list[Any]]] = {}
    for asked in accuracy_lines(problem, output):
        within = noise.within(asked.groups) if noise.tree is None else None
        same_noise = id(within) if noise.tree is None else noise.tree.alike(asked.groups)
        for name, areas, loose, parts, area in kinds:
            key = (name, not asked.groups, same_noise)
            if key not in known and noise.tree is not None:
                variance, kind = noise.tree.by_kind(asked.groups, area, areas)
                share = np.bincount(kind)[:, None] / (areas * variance.shape[1])
                known[key] = _expected(variance, np.broadcast_to(share, variance.shape))
            elif key not in known and within is not None:
                known[key] = _expected_of_parts(*parts[not asked.groups], *_alike(within.T))
            same: dict[str, Any] = {"geography": name, "areas": areas, "loose_blocks": _written(loose)}
            same |= {"query": asked.query, "line": asked.line, "label": asked.label, "cells": asked.cells}
            for column, value in same.items():
                columns[column] += [value] * len(classes)
            for column, values in known[key].items():
                columns[column] += values
    return pa.Table.from_pydict(columns, schema=ACCURACY)


def size_classes() -> Iterator[tuple[str, float]]:
    """The names of the classes of figures, and the figure that stands for each."""
    for low, high in SIZES:
        name = f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"
        yield name, float(low) if high is None else float(np.sqrt(max(low, 1) * high)) if high else 0.0


def _alike(rows: Floats) -> tuple[Floats, Integers]:
    """Rows that differ in more than the last bits, and how many there are of each."""
    with np.errstate(divide="ignore"):
        digits = 9 - np.floor(np.log10(np.where(rows > 0, rows, 1.0)))
    scale = 10.0**digits
    distinct, times = np.unique(np.round(rows * scale) / scale, axis=0, return_counts=True)
    return distinct, times


def _expected_of_parts(parts: Floats, areas: Integers, within: Floats, cells: Integers) -> dict[str, list[Any]]:
    """The same from the noise of levels: areas and cells that are alike stand there once."""
    return _expected(combined(parts, within.T), np.multiply.outer(areas, cells) / (areas.sum() * cells.sum()))


def _expected(variance: Floats, weights: Floats) -> dict[str, list[Any]]:
    """What the table has of figures of each class, over areas and cells: root mean variance and expected errors."""
    sd = float(np.sqrt((variance * weights).sum()))
    each, share = np.sqrt(np.maximum(variance, 0.0)).ravel(), weights.ravel()
    sizes, figures = zip(*size_classes(), strict=True)
    errors = np.zeros(len(sizes))
    for begin in range(0, len(each), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        errors += (expected_absolute_error(np.array(figures)[:, None], each[some]) * share[some]).sum(axis=1)
    columns: dict[str, list[Any]] = {}
    for size, figure, error in zip(sizes, figures, errors.tolist(), strict=True):
        row = {
            "size": size,
            "figure": _written(figure),
            "sd": _written(sd),
            "margin_90": _written(MARGIN * sd),
            "expected_error": _written(error),
            "expected_percent": _written(100 * error / figure) if figure else None,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns


def _written(value: float) -> float | None:
    """A figure to some digits; none where nothing determines it."""
    return None if np.isnan(value) else float(f"{value:.{DIGITS}g}")


def _column(name: str, kind: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, kind, metadata={"description": description})


ACCURACY = pa.schema(
    [
        _column("geography", pa.string(), "level or kind of area"),
        _column("areas", pa.int64(), "how many there are"),
        _column(
            "loose_blocks", pa.float64(), "of how many single smallest places an area has the own noise, on average"
        ),
        _column("query", pa.string(), "what is counted: a query, or a table of the product"),
        _column("line", pa.string(), "line of that table; empty for all cells of a query"),
        _column("label", pa.string(), "whom the line counts"),
        _column("cells", pa.int64(), "figures of an area"),
        _column("size", pa.string(), "class of figures"),
        _column("figure", pa.float64(), "the figure that stands for the class"),
        _column("sd", pa.float64(), "root of the mean variance of the noise alone"),
        _column("margin_90", pa.float64(), "90 per cent of such noise is within this of zero"),
        _column("expected_error", pa.float64(), "expected absolute error of a figure that cannot be below zero"),
        _column("expected_percent", pa.float64(), "the same in per cent of the figure"),
    ]
)
"""The columns of :func:`accuracy_table`."""
