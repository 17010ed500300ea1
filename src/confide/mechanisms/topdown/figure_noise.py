"""The noise of figures: the standard deviation of any query in any areas, from the plan alone.

Board, ``tune``, the accuracy that a release states, ``evaluate``, ``infer`` and ``verify`` ask :class:`TopDownNoise`
and nothing else. It is the noise before non-negativity and rounding, by the estimator that the strategy has.

**Evidence "tree".** Without constraints estimates are least squares on the whole tree, and the variance of a figure is
that of :class:`~confide.estimation.tree_gls.TreeAnswers`.

**Evidence "own".** Estimates go down the spine and learn nothing from below. The error of a figure is a sum of
independent noise: over the levels of the spine, how much of each level's noise the area has, times the variance v of
the figure in a unit of the level, so that the variance is Σ_ℓ k_ℓ v_ℓ.

*Within a unit.* With the information M of the level's measurements, C = M⁻¹ on possible cells, s the figure's cells
and 1 all cells,

    v = sᵀCs − (sᵀC1)²/1ᵀC1 + (sᵀC1/1ᵀC1)² σ_T²,

σ_T² being the variance of the total where it has a pass of its own, zero where it is known, and 1ᵀC1 elsewhere. M is
inverted in sectors (:class:`_InSectors`). A histogram with too many cells that are not alike has no such C; then v is
the variance of the inverse-variance mean of all measured queries that determine the figure (:class:`_MeansOfQueries`),
which is no smaller. Releases name the method.

*Along the spine.* The children c of a unit u add up to it. Their covariances are alike but for a factor λ_c (units that
took over the share of an only child have less noise), so that, with Λ = Σ_c λ_c, the error of a child is
E_c = ε_c + (λ_c / Λ)(E_u − Σ ε), ε_c of variance λ_c v. The error of an area A within u is a_u E_u + η_u, where

    a_u = Σ_c a_c λ_c / Λ,   Var η_u = Σ_c Var η_c + v · (Σ_c a_c² λ_c − (Σ_c a_c λ_c)² / Λ),

with a = 1 in the blocks of A and 0 in others. So k does not depend on the figure (:class:`AreaParts`). Proof and
limits: ``docs/concepts/evaluation.md``.

*Only children bypassed query by query.* A unit that took over such shares has its queries in other proportions than its
level, and λ_c is the variance of the figure there, from the unit's own measurements, as a part of v: another one for
each figure. That is exact in the units themselves, and wherever a figure is estimated from queries that change alike;
else it is approximate in how siblings divide what their parent is off by.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from scipy.sparse import csr_matrix

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError
from confide.estimation.sectors import Grouping, SectorCells, Sectors, grouping_key
from confide.estimation.tree_gls import PlacedAreas, SpineUnits, TreeAnswers
from confide.geography import OUTSIDE, AreaSet
from confide.mechanisms.topdown.constraints import known_levels
from confide.mechanisms.topdown.from_below import planned_tree
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import BY_QUERY, TREE, LevelStrategy, law_of, sectors_of
from confide.noise import NoiseDistribution
from confide.schema import NO_GROUP, TOTAL

SMALLEST = 1e-12
"""Stands for the variance of noise that is always zero."""
KNOWN = 1e-9
"""A variance below this part of another is none."""
UNDETERMINED = 1e-6
"""No measurement determines a count if they leave more than this part of it open."""
EXACT_BELOW = 1.5
"""From this variance parameter on, the variance of a discrete Gaussian is the parameter itself, to ten digits."""
MOST_KEPT = 2048
"""Covariances of so many levels with other shares are kept."""
IN_SECTORS, MEANS_OF_QUERIES, ON_THE_TREE = "least-squares", "means-of-queries", "least-squares-on-the-tree"
"""The methods, by the names that a manifest has for them."""


def variance_of(law: NoiseDistribution) -> float:
    """The variance of a law, never quite zero."""
    parameter = law.parameter
    return float(parameter) if parameter > EXACT_BELOW else max(law.variance(), SMALLEST)


class TopDownNoise:
    """The noise of figures of a problem.

    Args:
        problem: Strategy, frame and spine; no record is looked at.
        evidence: What estimates start from; without it, what the strategy says. ``tree`` asks for the best that linear
            estimates can be, also of a strategy that does not use it; a histogram that is too large for it has the
            noise of ``own``.
    """

    def __init__(self, problem: TopDownProblem, evidence: str | None = None):
        self.problem = problem
        self._on_the_tree = (evidence or problem.strategy.evidence) == TREE
        if self._on_the_tree:
            try:
                sectors_of(problem.strategy)
            except ParameterError:
                self._on_the_tree = False
        self._parts: dict[tuple[AreaSet, bool], AreaParts] = {}
        self._contributed: dict[AreaParts, Floats] = {}
        self._placed: dict[AreaSet, PlacedAreas] = {}
        self._within: dict[Hashable, Floats] = {}
        self._known, self._together = known_levels(problem.strategy, problem.spine)
        self._levels = self._measured(problem)
        self._spread: dict[tuple[AreaParts, bytes], Floats] = {}

    def with_parts(self, parts: Mapping[tuple[str, ...], Fraction]) -> TopDownNoise:
        """The noise with another part of the budget for each query on each level, by the names of both."""
        other = copy(self)
        problem = self.problem.with_parts(parts)
        levels = self._measured(problem)
        vars(other).update(problem=problem, _levels=levels, _within={}, _contributed={}, _spread={})
        for result in ("_answers", "_smallest", "_model", "_of_classes"):
            vars(other).pop(result, None)
        if not self._on_the_tree:
            vars(other).update(_model=self._model.with_levels(levels))
        return other

    @property
    def method(self) -> str:
        """How the noise is worked out: one of the methods."""
        return ON_THE_TREE if self._on_the_tree else self._model.method

    @cached_property
    def _model(self) -> _InSectors | _MeansOfQueries:
        try:
            return _InSectors(self.problem, self._levels)
        except ParameterError:
            return _MeansOfQueries(self.problem, self._levels)

    @cached_property
    def _answers(self) -> TreeAnswers:
        problem = self.problem
        tree = planned_tree(
            problem.strategy, problem.spine, plan_problem(problem), problem.columns, variance=variance_of
        )
        return TreeAnswers(tree.covariances)

    @cached_property
    def _smallest(self) -> float:
        """The least variance of a measurement."""
        return min(variance_of(measure.unbounded) for measure in plan_problem(self.problem).measures)

    # Answers.

    def variances(self, query: Grouping, areas: AreaSet) -> Floats:
        """The variance of the cells of a query: areas x cells, in the order of the axes; NaN where nothing that is
        measured determines a cell.

        Args:
            query: For each axis that is not summed out the group of each level.
            areas: Areas over the rows of the frame.
        """
        variances, kind = self.by_kind(query, areas)
        return np.asarray(variances[kind], np.float64)

    def by_kind(self, query: Grouping, areas: AreaSet) -> tuple[Floats, Integers]:
        """The same for kinds of areas, and the kind of each area: areas are alike by the thousand."""
        if self._on_the_tree:
            values, kind = self._answers.by_kind(self._on_spine(areas), np.arange(areas.areas), query)
            # What is left of a known figure is a rounding error.
            return np.where(values < KNOWN * self._smallest, 0.0, values), kind
        parts = self.parts(areas, total=not query)
        if self._of_classes:
            of_classes = [model.within(query) for model in self._of_classes]
            return self._figure_by_figure(parts, self.within(query), of_classes), parts.kind
        return _combined(self._contributions(parts), self.within(query)), parts.kind

    def mean_variance(self, query: Grouping, areas: AreaSet) -> float:
        """The mean of :meth:`variances` over areas and cells."""
        if self._on_the_tree or self._of_classes:
            values, kind = self.by_kind(query, areas)
            return float(np.bincount(kind, minlength=len(values)) @ values.mean(axis=1) / areas.areas)
        parts = self.parts(areas, total=not query)
        contributions = np.bincount(parts.kind)[None] / areas.areas @ self._contributions(parts)
        return float(_combined(contributions, self.within(query).mean(axis=1)[:, None])[0, 0])

    def of_functions(self, vectors: Floats, areas: AreaSet, area: Integers, *, total: bool) -> Floats:
        """The variances of linear functions of the cells of areas, where every unit is estimated from its own
        measurements; infinite where nothing determines one.

        Args:
            vectors: functions x parts x sectors x core: h with Σ hᵀCh as variance, as
                :func:`~confide.estimation.tree_design.vectors_of` makes them.
            areas: Areas over the rows of the frame.
            area: For each function its area.
            total: Whether the functions are totals.
        """
        assert isinstance(self._model, _InSectors)
        assert not self._on_the_tree
        within = self._model.of_functions(vectors, total=total)
        if self._of_classes:
            of_classes = [
                model.of_functions(vectors, total=total) for model in self._of_classes if isinstance(model, _InSectors)
            ]
            made_of = self.parts(areas, total=total)
            variances = self._figure_by_figure(made_of, within, of_classes)[made_of.kind[area], np.arange(len(area))]
            return np.where(np.isnan(variances), np.inf, variances)
        parts, within = self.contributions(areas, total=total)[area], within.T
        noise = np.where(parts > 0, parts * np.where(np.isnan(within), np.inf, within), 0.0)
        return np.asarray(noise.sum(axis=1), np.float64)

    def alike(self, query: Grouping) -> Hashable:
        """The same for queries whose cells have the same noise."""
        return _alike_in(self._answers.covariances.sectors, query) if self._on_the_tree else self._model.alike(query)

    @property
    def sectors(self) -> Sectors:
        """Core and free axes of what is measured."""
        assert isinstance(self._model, _InSectors)
        return self._model.sectors

    def within(self, query: Grouping) -> Floats:
        """v of the cells of a query in a unit of each level that has the share of the level: levels x cells. NaN where
        nothing that is measured on the level determines a cell, and zero where nothing is measured: units are then
        their parents, or their parents' rest."""
        key = self._model.alike(query)
        if key not in self._within:
            self._within[key] = self._model.within(query)
        return self._within[key]

    def contributions(self, areas: AreaSet, *, total: bool = False) -> Floats:
        """How much of each level's noise areas have, whatever the estimator in use is: areas x levels. Of totals, sums
        that are known for several units together have none."""
        parts = self.parts(areas, total=total)
        return np.asarray(self._contributions(parts)[parts.kind], np.float64)

    def parts(self, areas: AreaSet, *, total: bool) -> AreaParts:
        """What areas are made of, level by level."""
        total &= self._together is not None
        if (areas, total) not in self._parts:
            stop = (self._known - 1, self._together) if total and self._together is not None else None
            block = self.problem.spine.block_of_row[areas.block]
            there = block != OUTSIDE
            self._parts[areas, total] = AreaParts(
                self.problem.spine, block[there], areas.area[there], areas.areas, stop
            )
        return self._parts[areas, total]

    def _on_spine(self, areas: AreaSet) -> PlacedAreas:
        if areas not in self._placed:
            units = SpineUnits(self._answers.covariances.parents)
            self._placed[areas] = PlacedAreas.on(areas, self.problem.spine.block_of_row, units)
        return self._placed[areas]

    def _contributions(self, parts: AreaParts) -> Floats:
        """How much of each level's noise each kind of area has: worked out once, whatever figures are asked for."""
        if parts not in self._contributed:
            self._contributed[parts] = parts.contributions([level.scales for level in self._levels])
        return self._contributed[parts]

    @cached_property
    def _of_classes(self) -> list[_InSectors | _MeansOfQueries]:
        """What a unit of the first class of each level tells, of the second, and so on; none where the units of every
        level have their queries in the same proportions."""
        if not any(level.classes for level in self._levels):
            return []
        most = max(len(level.scales) for level in self._levels)
        return [self._model.with_levels([level.of_class(number) for level in self._levels]) for number in range(most)]

    def _figure_by_figure(self, parts: AreaParts, within: Floats, of_classes: Sequence[Floats]) -> Floats:
        """The variance of figures in each kind of area, where λ of a class of units is another one for each.

        Args:
            parts: The kinds of areas.
            within: v of the figures in a unit with the share of its level: levels x figures.
            of_classes: The same in a unit of the first class, of the second, and so on.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.stack(of_classes) / within  # classes x levels x figures
        usual = [np.resize(level.scales, len(of_classes)) for level in self._levels]  # more are of no class
        scales = np.where(np.isfinite(ratios) & (within > 0), ratios, np.stack(usual, axis=1)[:, :, None])
        alike, place = np.unique(np.round(scales, 12), axis=2, return_inverse=True)
        result = np.empty((int(parts.kind.max(initial=-1)) + 1, within.shape[1]))
        for number in range(alike.shape[2]):
            some, key = np.flatnonzero(place.reshape(-1) == number), (parts, alike[:, :, number].tobytes())
            if key not in self._spread:
                of_levels = zip(alike[:, :, number].T, self._levels, strict=True)
                self._spread[key] = parts.contributions([scale[: len(level.scales)] for scale, level in of_levels])
            result[:, some] = _combined(self._spread[key], within[:, some])
        return result

    def _measured(self, problem: TopDownProblem) -> list[_MeasuredLevel]:
        known = [place < self._known for place in range(len(problem.spine.levels))]
        alone = self._together is None
        levels = zip(problem.levels(), known, strict=True)
        by_class = problem.strategy.bypass == BY_QUERY and not self._on_the_tree
        return [_measured_level(problem, *level, (each, each and alone), by_class) for level, each in levels]


SIZES = ((0, 0), (1, 4), (5, 19), (20, 99), (100, 999), (1000, None))
"""Classes of figures, from and to."""
EDGES = np.array([low for low, _ in SIZES[1:]])


def size_names() -> list[str]:
    """The classes in words: 0, 1-4, …, 1000+."""
    return [f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}" for low, high in SIZES]


def size_class(counts: Integers) -> Integers:
    """The class of each figure."""
    return np.asarray(np.searchsorted(EDGES, counts, side="right"))


def areas_there(spine: TopDownSpine) -> dict[str, AreaSet]:
    """The areas of all official levels and other areas of the frame that have a block on the spine, by their kind."""
    result = {}
    for level in (*spine.frame.levels, *spine.frame.areas):
        there = np.unique(level.unit_of_block[spine.rows])
        there = there[there != OUTSIDE]
        if len(there):
            result[level.name] = AreaSet.some(level.name, level.codes, level.unit_of_block, there)
    return result


def _combined(parts: Floats, within: Floats) -> Floats:
    """Σ_ℓ k_ℓ v_ℓ: areas x cells. What is not determined on a level matters where an area has a part of its noise."""
    open_ = np.isnan(within)
    result = parts @ np.where(open_, 0.0, within)
    if open_.any():
        result[(parts > 0).astype(float) @ open_ > 0] = np.nan
    return np.asarray(result, np.float64)


# Along the spine.


@dataclass(frozen=True, eq=False)
class _Step:
    """From the parts of areas in units of a level to those in the units above: what does not depend on noise.

    Parts that are alike are one: areas are alike by the thousand, as what counts are the classes of their units, and
    of the units beside these.
    """

    position: int
    below: Integers
    """Of each kind of part what it was on the level below, and"""
    unit_class: Integers
    """the class of its unit."""
    inside: csr_matrix | None
    """How many parts of each kind make up each kind of part above; none at the root, above which nothing is."""
    beside: Integers
    """For each kind of part above how many units of each class the unit above has in all."""


class AreaParts:
    """How areas are made of the units of a spine, from the blocks up.

    Args:
        spine: The levels and the classes of their units.
        unit: Blocks of the spine.
        area: The area that each of these is in. A block may be listed for several areas.
        areas: How many areas there are.
        stop: A level on which groups of units, rather than the children of a unit, have a known sum, and the group of
            each; nothing above matters.
    """

    kind: Integers
    """Of each area its kind."""

    def __init__(
        self, spine: TopDownSpine, unit: Integers, area: Integers, areas: int, stop: tuple[int, Integers] | None = None
    ):
        alike = np.zeros(len(unit), np.int64)
        self._steps: list[_Step] = []
        self._levels = len(spine.levels)
        last = 0 if stop is None else stop[0]
        for position in range(self._levels - 1, last - 1, -1):
            level = spine.levels[position]
            index, classes = level.shares.index.astype(np.int64), len(level.shares.table)
            kinds, own = np.unique(alike * classes + index[unit], return_inverse=True)
            below, unit_class = np.divmod(kinds, classes)
            if position == 0 and stop is None:
                alike = own.reshape(-1)
                self._steps.append(_Step(0, below, unit_class, None, np.zeros((0, classes), np.int64)))
                break
            group = stop[1] if stop is not None and position == last else level.parent
            key, pair = np.unique(group[unit] * areas + area, return_inverse=True)
            unit, area = np.divmod(key, areas)
            beside = np.bincount(group * classes + index, minlength=(int(group.max()) + 1) * classes)
            beside = beside.reshape(-1, classes)
            of_parts, made_of = _made_of(pair.reshape(-1), own.reshape(-1), len(key), len(kinds))
            siblings = np.unique(beside, axis=0, return_inverse=True)[1].reshape(-1)
            _, first, alike = np.unique(
                of_parts * (len(beside) + 1) + siblings[unit], return_index=True, return_inverse=True
            )
            alike = alike.reshape(-1)
            self._steps.append(_Step(position, below, unit_class, made_of[of_parts[first]], beside[unit[first]]))
        kinds_of_parts = int(alike.max(initial=0)) + 1
        self.kind, self._last = _made_of(area, alike, areas, kinds_of_parts)

    def contributions(self, scales: Sequence[Floats]) -> Floats:
        """k of each kind of area: kinds x levels.

        Args:
            scales: For each level λ of the classes of its units.
        """
        if not self._steps[0].below.size:  # no block at all
            return np.zeros((self._last.shape[0], self._levels))
        result, part = np.zeros((1, self._levels)), np.ones(1)
        for step in self._steps:
            before, scale = part[step.below], scales[step.position]
            first = before * scale[step.unit_class]
            second = first * before
            result = result[step.below]
            if step.inside is None:
                result[:, step.position] = second
                continue
            sum_of_firsts, sum_of_seconds = step.inside @ first, step.inside @ second
            part = sum_of_firsts / (step.beside @ scale)
            result = step.inside @ result
            remaining = sum_of_seconds - sum_of_firsts * part
            # What is left of a difference of equal numbers is nothing.
            result[:, step.position] = np.where(remaining < KNOWN * sum_of_seconds, 0.0, remaining)
        return np.asarray(self._last @ result, np.float64)


def _made_of(row: Integers, part: Integers, rows: int, parts: int) -> tuple[Integers, csr_matrix]:
    """Of each row a kind, which rows that are made of the same parts share; and how often each kind has each part.

    >>> kind, made_of = _made_of(np.array([0, 0, 1, 2, 2]), np.array([1, 0, 1, 0, 1]), 4, 2)
    >>> made_of.toarray()[kind].tolist()
    [[1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    """
    lines, times = np.unique(row * parts + part, return_counts=True)
    row, part = np.divmod(lines, parts)
    entry = _numbered(part * (int(times.max(initial=0)) + 1) + times)
    sizes = np.bincount(row, minlength=rows)
    start = np.cumsum(sizes) - sizes
    kind: Integers = np.minimum(sizes, 1)
    for place in range(int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > place)
        kind[longer] = _numbered(kind[longer] * (len(lines) + 1) + entry[start[longer] + place]) + 1
    kind = _numbered(kind * (int(sizes.max(initial=0)) + 1) + sizes)
    first = np.unique(kind, return_index=True)[1]
    matrix = csr_matrix((times.astype(float), part, np.append(start, len(lines))), shape=(rows, parts))
    return kind, matrix[first]


def _numbered(keys: Integers) -> Integers:
    return np.asarray(np.unique(keys, return_inverse=True)[1], np.int64).reshape(-1)


# Within a unit.


@dataclass(frozen=True)
class _MeasuredLevel:
    """What a unit with the share of its level tells."""

    variances: Mapping[str, float]
    """Of its measurements, without that of a total that has a pass of its own."""
    of_total: float
    """The variance of such a total; NaN where it has none."""
    known: tuple[bool, bool]
    """Whether the number of its records is known, when other figures are asked for and when the number itself is."""
    scales: Floats
    """λ of each class of units: the share of the level by theirs. An only child without a share follows its parent."""
    classes: tuple[_MeasuredLevel, ...] = ()
    """What units of each class tell, where some have their queries in other proportions than the level."""

    def of_class(self, number: int) -> _MeasuredLevel:
        """What a unit of a class tells; where classes differ in scale alone, or there is none, that of the level."""
        return self.classes[number] if number < len(self.classes) else self

    @property
    def measured(self) -> bool:
        """Whether it is measured at all."""
        return bool(self.variances) or not np.isnan(self.of_total)


def _measured_level(
    problem: TopDownProblem, own: LevelStrategy, level: TopDownLevel, known: tuple[bool, bool], by_class: bool
) -> _MeasuredLevel:
    usual = _in_a_unit(problem, own, own.share, known)
    table = level.shares.table
    scales = np.array([float(own.share / share) if share and own.share else 1.0 for share in table])
    classes: list[_MeasuredLevel] = []
    if by_class and own.share:
        # An only child without a share follows its parent.
        classes = [_in_a_unit(problem, own, share, known) if share else usual for share in table]
    return replace(usual, scales=scales, classes=tuple(classes))


def _in_a_unit(
    problem: TopDownProblem, own: LevelStrategy, share: Fraction, known: tuple[bool, bool]
) -> _MeasuredLevel:
    """What a unit of a level with this share tells."""
    laws = {query.name: law_of(problem.strategy, own, query, share) for query in own.queries} if own.share else {}
    variances = {name: variance_of(law) for name, law in laws.items()}
    alone = own.estimation.least_squares[0].settles_total and TOTAL in variances
    return _MeasuredLevel(variances, variances.pop(TOTAL) if alone else np.nan, known, np.ones(1))


class _InSectors:
    """Least squares on the histogram, in sectors."""

    method = IN_SECTORS

    def __init__(self, problem: TopDownProblem, levels: Sequence[_MeasuredLevel]):
        strategy = problem.strategy
        self.sectors, self._queries = sectors_of(strategy, public_zeros=False)
        zero = strategy.constraints.zero_cells(strategy.schema).reshape(self.sectors.shape)
        self._possible = np.flatnonzero(~np.asarray(zero.all(axis=self.sectors.free)).ravel())
        self._cells: dict[Hashable, SectorCells] = {}
        self._information: dict[str, tuple[Floats, Floats]] = {}
        self._inverses: dict[Hashable, tuple[Floats, Floats]] = {}
        self._levels = levels

    def with_levels(self, levels: Sequence[_MeasuredLevel]) -> _InSectors:
        """The same with other noise."""
        other = copy(self)
        vars(other).update(_levels=levels)
        vars(other).pop("_solved", None)
        return other

    @cached_property
    def _solved(self) -> tuple[Floats, Floats]:
        """For each level C in sectors, and what of each core vector the measurements leave open."""
        solved = [self._of_level(place, level.variances) for place, level in enumerate(self._levels)]
        covariance, rest = (np.stack(part) for part in zip(*solved, strict=True))
        return covariance, rest

    def _of_level(self, place: int, variances: Mapping[str, float]) -> tuple[Floats, Floats]:
        """C and what is left open: the same but for a factor where variances have the same proportions."""
        scale = next(iter(variances.values()), 1.0)
        relative = {name: variance / scale for name, variance in variances.items()}
        key = (place, tuple(round(each, 10) for each in relative.values()))
        known = self._inverses.get(key)
        if known is None:
            if len(self._inverses) > MOST_KEPT:
                self._inverses.clear()
            self._inverses[key] = known = self._inverted(relative)
        return known[0] * scale, known[1]

    def _inverted(self, variances: Mapping[str, float]) -> tuple[Floats, Floats]:
        covariance, rest = np.zeros(self.sectors.matrices), np.zeros(self.sectors.matrices)
        information = np.zeros((len(covariance), *[len(self._possible)] * 2))
        for name, variance in variances.items():
            factors, alike = self._told(name)
            information += (1 / variance * factors)[:, None, None] * alike
        inner = np.ix_(np.arange(len(covariance)), self._possible, self._possible)
        covariance[inner] = inverse = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
        rest[inner] = np.eye(len(self._possible)) - inverse @ information
        return covariance, rest

    def _told(self, name: str) -> tuple[Floats, Floats]:
        """What a query tells of possible cells, worked out once: it does not depend on noise."""
        if name not in self._information:
            factors, alike = self.sectors.information_of(self._queries[name])
            self._information[name] = factors, alike[np.ix_(self._possible, self._possible)]
        return self._information[name]

    def alike(self, query: Grouping) -> Hashable:
        return _alike_in(self.sectors, query)

    def within(self, query: Grouping) -> Floats:
        (covariance, rest), key = self._solved, grouping_key(query)
        if key not in self._cells:
            self._cells[key] = SectorCells(self.sectors, query)
        cells = self._cells[key]
        kept = np.abs(cells.base.members @ rest).max(axis=3) > UNDETERMINED
        free = (cells.weights > 0).astype(float)
        open_ = cells.arranged(np.moveaxis(kept, 1, 2).astype(float) @ free.T) > 0
        own, with_total = cells.variances(covariance), cells.total_covariances(covariance)
        result = self._given_totals(own, with_total**2, open_, total=not query)
        for level, variances in zip(self._levels, result, strict=True):
            if not query and not np.isnan(level.of_total):
                variances[0] = 0.0 if level.known[1] else level.of_total  # also where nothing else is measured
        return result

    def of_functions(self, vectors: Floats, *, total: bool) -> Floats:
        """v of linear functions of cells in a unit of each level, as :meth:`within` of cells: levels x functions."""
        covariance, rest = self._solved
        own = np.einsum("fpsc,lscd,fpsd->lf", vectors, covariance, vectors, optimize=True)
        rows = covariance[:, 0].sum(axis=2) * np.sqrt(self.sectors.copies)
        squares = (np.einsum("fpc,lc->lfp", vectors[:, :, 0], rows) ** 2).sum(axis=2)
        remaining = np.abs(np.einsum("fpsc,lscd->lfpsd", vectors, rest, optimize=True)).max(axis=(2, 3, 4))
        open_ = remaining > UNDETERMINED * np.abs(vectors).max(axis=(1, 2, 3))
        return self._given_totals(own, squares, open_, total=total)

    def _given_totals(self, own: Floats, squares: Floats, open_: Booleans, *, total: bool) -> Floats:
        """v from sᵀCs and (sᵀC1)², levels x figures; NaN where a figure is open."""
        everybody = (self._solved[0][:, 0].sum(axis=(1, 2)) * self.sectors.copies)[:, None]
        totals = np.array([level.of_total for level in self._levels])[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(squares == 0, 0.0, squares / everybody)
            of_total = np.where(squares == 0, 0.0, share / everybody) * np.nan_to_num(totals)
        beside = own - share
        beside[beside < KNOWN * own] = 0
        known, alone = np.array([level.known[int(total)] for level in self._levels])[:, None], ~np.isnan(totals)
        result = np.where(known, beside, np.where(alone, beside + of_total, own))
        if total:  # one that is known, or has a pass of its own, needs nothing else
            open_ = open_ & ~((known | alone) & (beside == 0) & (squares > 0))
        return np.where([[level.measured] for level in self._levels], np.where(open_, np.nan, result), 0.0)


def _alike_in(sectors: Sectors, query: Grouping) -> Hashable:
    """Of a free axis it does not matter which levels are in a group, but how many."""
    return tuple(
        (axis, query[axis].tobytes() if axis in sectors.core else _sizes(query[axis]).tobytes())
        for axis in sorted(query)
    )


def _sizes(groups: Integers) -> Integers:
    """How many levels each group has."""
    return np.bincount(groups[groups != NO_GROUP], minlength=int(groups.max()) + 1)


class _MeansOfQueries:
    """The inverse-variance mean of all measured queries that determine a figure, for histograms of any size.

    A figure that is n of the N cells of a query has n times the variance of a cell; where the sum of all N is known,
    what it is off by is divided among them, and n (N − n) / N times is left. Structural zeros are not used.
    """

    method = MEANS_OF_QUERIES

    def __init__(self, problem: TopDownProblem, levels: Sequence[_MeasuredLevel]):
        self._levels = levels
        strategy = problem.strategy
        self._shape = [attribute.size for attribute in strategy.schema.attributes]
        self._measured = {name: strategy.grouping(name) for name in strategy.measured}
        self._known: dict[tuple[str, int, bytes], Integers | None] = {}

    def with_levels(self, levels: Sequence[_MeasuredLevel]) -> _MeansOfQueries:
        """The same with other noise."""
        other = copy(self)
        vars(other).update(_levels=levels)
        return other

    def alike(self, query: Grouping) -> Hashable:
        return grouping_key(query)

    def within(self, query: Grouping) -> Floats:
        summed = {name: self._summed(name, query) for name in self._measured}
        return np.stack([self._on_level(level, query, summed) for level in self._levels])

    def _on_level(self, level: _MeasuredLevel, query: Grouping, summed: Mapping[str, Floats | None]) -> Floats:
        cells = int(np.prod([int(groups.max()) + 1 for groups in query.values()], dtype=np.int64))
        known, alone = level.known[int(not query)], not np.isnan(level.of_total)
        if not level.measured:
            return np.zeros(cells)
        if not query and (known or alone):
            return np.array([0.0 if known else level.of_total])
        weight = np.zeros(cells)
        for name, variance in level.variances.items():
            times = summed[name]
            if times is not None:
                number = float(np.prod([int(g.max()) + 1 for g in self._measured[name].values()]))
                with np.errstate(divide="ignore"):
                    weight += 1 / ((times * (number - times) / number if known else times) * variance)
        with np.errstate(divide="ignore"):
            return np.where(weight > 0, 1 / weight, np.nan)

    def _summed(self, measured: str, query: Grouping) -> Floats | None:
        """How many cells of a measured query each cell is; None where they are not made of whole ones."""
        counts = []
        factor = 1
        for axis in range(len(self._shape)):
            inside = self._inside(measured, axis, query.get(axis))
            if inside is None:
                return None
            if axis in query:
                counts.append(inside)
            else:
                factor *= int(inside[0])
        multiplied = reduce(lambda one, other: np.multiply.outer(one, other).ravel(), counts, np.array([factor]))
        return np.asarray(multiplied, np.float64)

    def _inside(self, measured: str, axis: int, asked: Integers | None) -> Integers | None:
        """How many groups of a measured query each group that is asked for has on an axis; None where they are not
        made of whole ones. Thousands of figures are of the same few groups of each axis."""
        key = (measured, axis, b"" if asked is None else asked.tobytes())
        if key not in self._known:
            coarse = np.zeros(self._shape[axis], np.int64) if asked is None else asked
            fine = self._measured[measured].get(axis, np.zeros(self._shape[axis], np.int64))
            pairs = np.unique(np.stack([fine, coarse]), axis=1)
            pairs = pairs[:, pairs[0] != NO_GROUP]
            left_out = bool(((coarse != NO_GROUP) & (fine == NO_GROUP)).any())
            divided = len(np.unique(pairs[0])) < pairs.shape[1]
            inside = np.bincount(pairs[1][pairs[1] != NO_GROUP], minlength=int(coarse.max()) + 1)
            self._known[key] = None if left_out or divided else inside
        return self._known[key]
