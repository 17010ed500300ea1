"""A watchdog over everything that estimates: released figures against the measurements that they were made from.

Figures are no further from their measurements than noise, estimation, non-negativity, rounding and limits that records
break explain. A run asks before it seals, and ``verify`` where measurements are published beside a release. The bound
is derived in ``docs/proofs/topdown.md``, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.errors import Finding, Place, RunError
from confide.geography import AreaSet
from confide.mechanisms.topdown.descent import Evidence, estimates_folder
from confide.mechanisms.topdown.figure_noise import TopDownNoise, variance_of
from confide.mechanisms.topdown.output.tabulation import estimated, histograms
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spine import TopDownLevel
from confide.mechanisms.topdown.strategy import TREE, LevelStrategy, law_of
from confide.releases.mechanism import Check, Job
from confide.schema import NO_GROUP

FALSE_ALARMS = 1e-6
"""The largest probability that a release that was estimated as it should be is called far from its measurements."""
MOST_FIGURES = 1 << 19
"""A query of a level with more figures than this is not compared: the levels above it are."""
CLEARLY = 6.0
"""So many standard deviations beyond a limit are more than noise."""


class _AboveZero(NamedTuple):
    mean: float
    variance: float


ABOVE_ZERO = _AboveZero(sqrt(2 / pi), 1 - 2 / pi)
"""Mean and variance of normal noise that is known to be above zero, in those of the noise."""


def explained(noise: Floats, estimate: Floats, zeros: Floats, figures: int, rounding: float) -> Floats:
    """How far a released figure may be from what was measured of it.

    The distance is noise less error: |y − x| ≤ |y − t| + |x − t|, t being the truth. Discrete Gaussian noise and the
    error of a linear estimate are sub-Gaussian, so that of N figures none is further than z (σ + s) from the truth but
    with probability 4 N exp(−z²/2). Counts that have a limit take in what noise has taken from the others: of Z that
    came out at theirs, √Z/2 standard deviations at the most. That is so of records that keep the limits of the frame;
    what limits add that they break is :meth:`Watchdog.forced`. Derivation: ``docs/proofs/topdown.md``.

    Args:
        noise: σ, the standard deviation of the measurement.
        estimate: s, that of the released figure if nothing had to be non-negative or whole.
        zeros: Z, the cells of the unit, or of a unit above it, that may be above zero and are not, and the groups of
            cells that are at the least or the largest count that the frame allows.
        figures: N, how many figures are looked at.
        rounding: By how much whole numbers may differ from the estimate.

    Returns:
        The largest distance that needs no other explanation.
    """
    reach = sqrt(2 * log(4 * max(figures, 1) / FALSE_ALARMS))
    return np.asarray((reach + np.sqrt(zeros) / 2) * (noise + estimate) + rounding, np.float64)


def rounding_of_sum(cells: float) -> float:
    """By how much rounding may move a sum of so many cells on one level: each by less than one, at random."""
    return 1 + 4 * sqrt(cells)


@dataclass
class Distance:
    """How the released figures of a query on a level lie to their measurements."""

    figures: int = 0
    far: int = 0
    furthest: float = 0.0
    """The largest distance, as a multiple of what is explained."""

    def add(self, distance: Floats, allowed: Floats) -> None:
        """Takes in some figures; those that nothing determines have no allowance, and are passed over."""
        known = np.isfinite(allowed)
        ratio = distance[known] / allowed[known]
        self.figures += int(known.sum())
        self.far += int((ratio > 1).sum())
        self.furthest = max(self.furthest, float(ratio.max(initial=0.0)))


class _Residuals(NamedTuple):
    """What was measured of a query in some units, less what was released (units x cells), and the noise of each."""

    units: Integers
    off: Integers
    noise: Floats


def _adding_up(groups: Integers, size: int) -> Any:
    """What adds up the cells of each group: cells x groups, without those that are in none of the first ``size``."""
    cells = np.flatnonzero((groups != NO_GROUP) & (groups < size))
    return sp.csr_matrix((np.ones(len(cells), np.int64), (cells, groups[cells])), (len(groups), size))


class Watchdog:
    """Compares released figures with their measurements, query by query on every level.

    It shares no code with the estimates that it watches: figures are sums of the histogram, measurements are taken as
    they were drawn. Below a level that does not determine every cell, constraints of the cells above bind figures in a
    way that nothing bounds; the comparison ends there.
    """

    def __init__(self, problem: TopDownProblem, counts: Any):
        """``counts``: the released histograms, blocks of the spine x cells."""
        self._problem, self._counts = problem, counts
        self._noise = TopDownNoise(problem)
        zero = problem.strategy.constraints.zero_cells(problem.strategy.schema)
        self._possible = np.flatnonzero(~zero)
        self._looked: dict[tuple[str, str], list[_Residuals]] = {}
        self._figures_of: dict[tuple[str, str], Any] = {}
        self._narrowed = dict(self._compared())
        measured = {level.name: int(level.measured.sum()) for level in problem.spine.levels}
        self._figures = sum(measured[name] * strategy.cells for name, strategy in self._narrowed.items())

    def levels(self) -> Iterator[tuple[LevelStrategy, TopDownLevel]]:
        """The levels that are compared, each with the queries that are."""
        for _, level in self._problem.levels():
            if level.name in self._narrowed:
                yield self._narrowed[level.name], level

    def reader(self, name: str) -> WatchedLevel | None:
        """What takes the measurements of a level as a file has them; none where the level is not compared."""
        if name not in self._narrowed:
            return None
        queries = frozenset(share.name for share in self._narrowed[name].queries)
        return WatchedLevel(self, self._problem.spine.level(name), self._problem.spine.ids(name), queries)

    def look(self, level: TopDownLevel, query: str, units: Integers, values: Integers, noise: Floats) -> None:
        """Takes in the measurements of one query in some units.

        Args:
            level: The level of the units.
            query: The query, as the strategy calls it.
            units: The units, by their numbers.
            values: What was measured: units x cells of the query.
            noise: The standard deviation of each unit's noise.
        """
        released = self._released(level.name, query)[units].toarray()
        self._looked.setdefault((level.name, query), []).append(_Residuals(units, values - released, noise))

    @cached_property
    def distances(self) -> dict[tuple[str, str], Distance]:
        """How the released figures lie to all measurements that were looked at, by level and query."""
        distances, forced, problem = {}, np.zeros(1), self._problem
        for place, level in enumerate(problem.spine.levels):
            forced = self.forced(place, forced)
            codes = tuple(str(unit) for unit in range(level.units))
            areas = AreaSet(level.name, codes, problem.spine.rows, problem.spine.unit_of_block(level.name))
            for query in (name for of, name in self._looked if of == level.name):
                distance = distances[level.name, query] = Distance()
                allowed = self._allowed(place, query, areas)
                for units, off, noise in self._looked[level.name, query]:
                    distance.add(np.abs(off), allowed(noise[:, None], units) + forced[units][:, None])
        return distances

    def _released(self, name: str, query: str) -> Any:
        """The released figures of a query in all units of a level: units x cells, sparse."""
        if (name, query) not in self._figures_of:
            groups, place = self._problem.groups(query), self._problem.spine.names.index(name)
            self._figures_of[name, query] = self._of_level(place) @ _adding_up(groups, int(groups.max()) + 1)
        return self._figures_of[name, query]

    def _allowed(self, place: int, query: str, areas: AreaSet) -> Callable[[Floats, Integers], Floats]:
        """What is allowed for a query in some units of a level, which are the areas, with noise of these sizes."""
        problem, groups = self._problem, self._problem.groups(query)
        estimate = np.sqrt(self._noise.variances(problem.strategy.grouping(query), areas)) + self._held(place)
        zeros, rounding = self._zeros_of(place)[:, None], self._rounding(place, query, groups)

        def allowed(noise: Floats, units: Integers) -> Floats:
            return explained(noise, estimate[units], zeros[units], self._figures, rounding)

        return allowed

    def _held(self, place: int) -> float:
        """By how many persons, as a standard deviation, earlier passes may have moved a figure, here and above.

        A pass estimates from its own queries alone, and later ones keep its answers, however much better they know
        them: a figure is off by no more than all held cells together. Laws from below have all evidence in them, and
        the first pass on totals is a part of what the noise of figures takes into account.
        """
        if self._problem.strategy.evidence == TREE:
            return 0.0
        variance = 0.0
        for strategy, _ in self._problem.levels()[: place + 1]:
            passes = [step for step in strategy.estimation.least_squares if not step.settles_total]
            held = {name for step in passes for name in step.constrain}
            shares = [share for share in strategy.queries if share.name in held and strategy.share]
            laws = [law_of(self._problem.strategy, strategy, share) for share in shares]
            variance += sum(share.query.cells * variance_of(law) for share, law in zip(shares, laws, strict=True))
        return sqrt(variance)

    def forced(self, place: int, above: Floats) -> Floats:
        """By how much the limits of the frame and structural zeros may have moved any figure of each unit of a level
        because the records break them.

        Where a group is released at its limit, what was measured of it lies beyond by the noise alone if the records
        keep the limit. Whatever is further beyond was moved, and as the siblings have the counts of their parent,
        others have been moved as much: twice, as noise may hide a part. Least counts move no more than they are, such
        as one person for each facility. What noise hides wholly is not looked for. Without a query that tells a group
        at its limit there is no bound.

        Args:
            place: The number of the level.
            above: The same of the units of the level above.
        """
        level = self._problem.spine.levels[place]
        beyond = np.zeros((level.units, 5))
        for groups, least, largest, rounding in self._limits(place):
            beyond += self._beyond(place, groups, least, largest, rounding)
        parent = level.parent if place else np.zeros(level.units, np.int64)
        of_siblings = np.zeros((len(above), beyond.shape[1]))
        np.add.at(of_siblings, parent, beyond)
        surely, together, noise, variance, least_counts = of_siblings.T
        together = together - ABOVE_ZERO.mean * noise
        together = np.where(together > CLEARLY * np.sqrt(ABOVE_ZERO.variance * variance), together, 0.0)
        return np.asarray((above + np.maximum(2 * np.maximum(surely, together), least_counts))[parent], np.float64)

    def _limits(self, place: int) -> Iterator[tuple[Integers, Integers, Integers, float]]:
        """Groups of cells, the least and the largest counts of each in the units of a level, and by how much rounding
        may take a group off its limit."""
        level = self._problem.spine.levels[place]
        for name, (least, largest) in self._problem.limits(level).items():
            groups = self._problem.groups(name)
            yield groups, least, largest, self._rounding(place, name, groups)
        # Each impossible cell by itself where a query tells them apart; else nothing tells them, and they are a part of
        # those of the unit above, which cannot cancel out.
        possible = np.zeros(self._problem.cells, np.bool_)
        possible[self._possible] = True
        impossible = np.flatnonzero(~possible)
        groups = np.full(self._problem.cells, NO_GROUP)
        groups[impossible] = np.arange(len(impossible))
        if self._telling(place, groups, len(impossible)) is not None:
            nobody = np.zeros((level.units, len(impossible)), np.int64)
            yield groups, nobody, nobody, 0.0

    def _beyond(self, place: int, groups: Integers, least: Integers, largest: Integers, rounding: float) -> Floats:
        """How far the measured counts of groups lie beyond limits that the released ones are at, for each unit: the sum
        of what noise does not explain, the sum of all, the sums of standard deviations and of variances, and the sum of
        least counts that are no exact counts."""
        level, size = self._problem.spine.levels[place], least.shape[1]
        released = (self._of_level(place) @ _adding_up(groups, size)).toarray()
        at_least = (least > 0) & (released <= least + rounding)
        at_most = released >= largest - rounding
        result = np.zeros((level.units, 5))
        result[:, 4] = (least * (at_least & (least < largest))).sum(axis=1)
        telling = self._telling(place, groups, size)
        if telling is None:
            result[:, 0] = np.where((at_least | at_most).any(axis=1), np.inf, 0.0)
            return result
        query, group_of = telling
        into, cells = _adding_up(group_of, size), np.bincount(group_of, minlength=size)[:size]
        for units, off, noise in self._looked[level.name, query]:
            summed = off @ into
            moved = np.where(summed < 0, at_least[units], at_most[units])
            by_noise = moved * noise[:, None] * np.sqrt(cells)
            beyond = moved * np.abs(summed)
            surely = np.where(beyond > CLEARLY * by_noise, beyond, 0.0)
            result[units, :4] = np.stack([part.sum(axis=1) for part in (surely, beyond, by_noise, by_noise**2)], axis=1)
        return result

    def _telling(self, place: int, groups: Integers, size: int) -> tuple[str, Integers] | None:
        """The query that tells the counts of groups with the least noise, and for each of its cells the group that it
        is a part of."""
        level = self._problem.spine.levels[place]
        finer = [(name, self._group_of(name, groups, size)) for of, name in self._looked if of == level.name]
        telling = [(name, group_of) for name, group_of in finer if group_of is not None]

        def variance(pair: tuple[str, Integers]) -> float:
            noise = np.concatenate([residuals.noise for residuals in self._looked[level.name, pair[0]]])
            return float(np.square(noise).mean()) * float(np.bincount(pair[1], minlength=size)[:size].mean())

        return min(telling, key=variance, default=None)

    def _group_of(self, query: str, groups: Integers, size: int) -> Integers | None:
        """For each cell of a query the group that it is a part of, or ``size`` where it is a part of none; None where
        it is a part of two, or no cell is a part of any."""
        if self._problem.cell_groups(query).max() + 1 < size:
            return None  # too few cells to tell so many groups
        own = self._problem.groups(query)
        group_of = np.full(int(own.max()) + 1 - NO_GROUP, size)
        wanted = np.where(groups == NO_GROUP, size, groups)
        group_of[own - NO_GROUP] = wanted
        if (group_of[own - NO_GROUP] != wanted).any() or (wanted == size).all():
            return None
        return group_of[-NO_GROUP:]

    def checks(self) -> Iterator[Check]:
        """One for each level that was compared."""
        for level in dict.fromkeys(name for name, _ in self.distances):
            of_level = {query: distance for (name, query), distance in self.distances.items() if name == level}
            figures = sum(distance.figures for distance in of_level.values())
            query, furthest = max(of_level.items(), key=lambda item: item[1].furthest)
            far = [f"{name!r}: {each.far:,} of {each.figures:,}" for name, each in of_level.items() if each.far]
            detail = (
                f"further from their measurements than noise, estimation and rounding explain: {', '.join(far)} "
                f"figures, the furthest {furthest.furthest:.3g} times as far, of {query!r}"
                if far
                else f"{figures:,} figures, the furthest at {furthest.furthest:.2f} of what is explained"
            )
            yield Check(f"{level}: released figures near their measurements", not far, detail)

    def _compared(self) -> Iterator[tuple[str, LevelStrategy]]:
        """The levels down to the first that does not determine every cell, with the queries that are not too large."""
        pairs = self._problem.levels()
        determined = [self._determined(strategy, level) for strategy, level in pairs]
        for place, (strategy, level) in enumerate(pairs):
            units, passes = int(level.measured.sum()), strategy.estimation.least_squares
            # What neither the last pass looks at nor an earlier one has fixed does not bind the estimate.
            binding = {*passes[-1].queries, *(name for each in passes for name in each.constrain)}
            chosen = tuple(
                share
                for share in strategy.queries
                if share.name in binding and units * share.query.cells <= MOST_FIGURES
            )
            if units and chosen:
                yield level.name, replace(strategy, queries=chosen)
            known = determined[place:] if self._problem.strategy.evidence == TREE else determined[place : place + 1]
            if not any(known):
                return

    def _determined(self, strategy: LevelStrategy, level: TopDownLevel) -> bool:
        """Whether a query of the level tells every possible cell apart, wherever its units have more than one child."""
        if not level.measured.all() and not strategy.share:
            return False
        enough = (share for share in strategy.queries if share.query.cells >= len(self._possible))
        apart = (self._problem.cell_groups(share.name)[self._possible] for share in enough)
        return any(np.bincount(groups - NO_GROUP).max(initial=0) <= 1 for groups in apart)

    @lru_cache(maxsize=2)  # noqa: B019 - a level and the one above it
    def _of_level(self, place: int) -> Any:
        """The released histograms of the units of a level."""
        level, blocks = self._problem.spine.levels[place], len(self._problem.spine.rows)
        ones = np.ones(blocks, np.int64)
        return sp.csr_matrix((ones, np.arange(blocks), level.first_block), (level.units, blocks)) @ self._counts

    @lru_cache(maxsize=16)  # noqa: B019
    def _zeros_of(self, place: int) -> Floats:
        """For each unit of a level how many counts are at a limit: cells that have nobody there, though the unit above
        has somebody, and groups at a limit of the frame; or how many the unit above has, if it has more."""
        filled = np.diff(self._of_level(place).indptr)
        limited = sum((self._at_limits(place, *limits) for limits in self._limits(place)), np.zeros(len(filled)))
        if place == 0:
            return np.asarray(len(self._possible) - filled + limited, np.float64)
        parent = self._problem.spine.levels[place].parent
        own = np.diff(self._of_level(place - 1).indptr)[parent] - filled + limited
        return np.asarray(np.maximum(own, self._zeros_of(place - 1)[parent]), np.float64)

    def _at_limits(
        self, place: int, groups: Integers, least: Integers, largest: Integers, rounding: float
    ) -> NDArray[np.float64]:
        """How many groups of each unit are at a limit that leaves them room; a least count of zero is the cells'."""
        if not (least < largest).any():
            return np.zeros(len(least))
        released = (self._of_level(place) @ _adding_up(groups, least.shape[1])).toarray()
        at_limit = ((least > 0) & (released <= least + rounding)) | (released >= largest - rounding)
        return np.asarray((at_limit & (least < largest)).sum(axis=1), np.float64)

    def _rounding(self, place: int, query: str, groups: Integers) -> float:
        """By how much rounding moves a figure, here and in all units above: by less than one where the query is in the
        chain, else by that in each of its cells, at random."""
        above = self._problem.levels()[: place + 1]
        size = int(np.bincount(groups[self._possible]).max(initial=1))
        return sum(1.0 if query in strategy.estimation.chain else rounding_of_sum(size) for strategy, _ in above)


@dataclass(frozen=True, eq=False)
class WatchedLevel:
    """Takes the measurements of a level for the watchdog as a file has them, by the ids of units."""

    watchdog: Watchdog
    level: TopDownLevel
    ids: NDArray[np.str_]
    queries: frozenset[str]
    """Those that are compared."""

    def units(self, ids: pa.Array) -> Integers:
        """The numbers of the units with these ids, -1 off the spine."""
        coded = ids.dictionary_encode()  # each unit has many queries
        of = np.array(coded.dictionary.to_pylist(), np.str_)
        units = np.minimum(np.searchsorted(self.ids, of), len(self.ids) - 1)
        return np.asarray(np.where(self.ids[units] == of, units, -1)[coded.indices.to_numpy()], np.int64)

    def look(self, query: str, units: Integers, values: Integers, noise: Floats) -> None:
        """Takes in one query in some units; those off the spine are another check's."""
        if (units >= 0).all():
            self.watchdog.look(self.level, query, units, values, noise)


def require_near(problem: TopDownProblem, job: Job, evidence: Evidence) -> None:
    """Raises if the estimates of a run are further from its measurements than anything explains.

    Args:
        problem: Strategy, frame and spine.
        job: The run, with the estimates of all levels.
        evidence: What it was estimated from.
    """
    blocks = problem.spine.levels[-1]
    files = sorted(estimates_folder(job.workspace, blocks).glob("*.parquet"))
    counts = histograms(blocks.units, problem.cells, estimated(files, np.arange(blocks.units)))
    watchdog = Watchdog(problem, counts)
    levels = list(watchdog.levels())
    with job.progress.stage("Comparing with measurements", len(levels)) as advance:
        for strategy, level in levels:
            for number, units, values, precision in evidence.in_full(job, strategy, level):
                watchdog.look(level, strategy.queries[number].name, units, values, 1 / np.sqrt(precision))
            advance(1)
    far = [check for check in watchdog.checks() if not check.ok]
    if far:
        # Wrong estimates must not be found by the next try: they are made again from the same measurements.
        job.workspace.discard_estimates()
        raise RunError(
            Finding.of(
                "far-from-measurements",
                where=Place(file=str(job.workspace.root)),
                found=check.detail,
                check=check.name,
                false_alarms=FALSE_ALARMS,
            )
            for check in far
        )
