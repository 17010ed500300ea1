"""Released tables beside true counts, level by level: nothing is done group by group.

Only groups with anybody in them, and groups that were released, are ever listed; how many others there are follows from
the universe. Counts that were measured are compared: totals of groups that got nothing else, and the cells of tables.
Sums of them, by sex or altogether, are not measured and not compared, but for the total of the headline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.confidential import Confidential
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.output.released import released_tables
from confide.mechanisms.safetab.problem import GroupLevel, SafeTabProblem
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL, GRIDS, REGION_TYPES, SEXES, TOTAL_TABLE
from confide.mechanisms.safetab.tabulate import counts_file
from confide.mechanisms.safetab.tallies import (
    COVERAGE,
    SIZES,
    Errors,
    GroupSizeClass,
    LevelTally,
    SafeTabEvaluation,
    SuppressionCurve,
    intervals,
    sum_intervals,
)
from confide.noise import DiscreteGaussian, NoiseDistribution
from confide.releases import SealedRelease, Workspace
from confide.releases.dossier import AreaSums, LoneFigures
from confide.releases.replay import no_truth
from confide.utility.metrics import bin_of

# What the plan's laws say of a group with n persons, for many n at once, in double precision.
#
# With X of the first law, Y of the second, thresholds θ₁ ≤ θ₂ ≤ θ₃ and the suppression number T:
#
# * P(statistics level k) = P(θ_k ≤ n + X < θ_{k+1}), where θ₀ = −∞ and θ₄ = ∞;
# * P(suppressed) = P(n + X < θ₁) · P(Y ≤ T − n): the two stages are independent;
# * the bias of a total that is published is E[Y | n + Y > T]; where counts below zero become zero, E[max(Y, −n) | …].
#
# These are for a report that shows a few digits; what is published rests on exact numbers
# (:class:`confide.noise.NoiseDistribution`).


Numbers = npt.NDArray[np.float64]

_SMALLEST = 300.0
"""Values with a probability below exp(−300) of the largest are left out."""
_NEGLIGIBLE = 50.0
"""The same for sums of draws, where only the mean of the absolute value is asked."""


class NoiseMass:
    """A law as an array of probabilities for the values from −reach to reach."""

    def __init__(self, law: NoiseDistribution):
        self.law = law
        self.reach = _reach(law, _SMALLEST)
        self._mass = _mass(law, self.reach)

    def at_most(self, x: Integers) -> Numbers:
        """P(X ≤ x)."""
        return self._below[self._place(x)]

    def above(self, x: Integers) -> Numbers:
        """P(X > x), with all digits where it is small."""
        return self._sums[0][self._place(x)]

    def given_above(self, t: Integers, least: Integers | None = None) -> tuple[Numbers, Numbers]:
        """Mean and variance of X, or of max(X, least), given X > t; both 0 where X > t does not happen."""
        at = self._place(t)
        chance, first, second = (sums[at] for sums in self._sums)
        if least is not None:
            floor = least.astype(np.float64)
            place = self._place(np.maximum(t, least))
            low = chance - self._sums[0][place]
            first = self._sums[1][place] + low * floor
            second = self._sums[2][place] + low * floor**2
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(chance > 0, first / chance, 0.0)
            square = np.where(chance > 0, second / chance, 0.0)
        return mean, np.maximum(square - mean**2, 0.0)

    def mean_absolute(self, cells: int = 1) -> float:
        """E|X₁ + … + X_cells|: how far noise alone puts a sum off."""
        reach = min(self.reach, _reach(self.law, _NEGLIGIBLE))
        size = 1 << (2 * cells * reach + 1).bit_length()
        one = np.zeros(size)
        one[: 2 * reach + 1] = _mass(self.law, reach)
        summed = np.fft.irfft(np.fft.rfft(one) ** cells, size)[: 2 * cells * reach + 1]
        return float(np.abs(np.arange(-cells * reach, cells * reach + 1)) @ summed)

    def _place(self, x: Integers) -> Integers:
        """Where the sums for a number stand; the first is for everything below the values that are listed."""
        return np.asarray(np.clip(x, -self.reach - 1, self.reach) + self.reach + 1)

    @cached_property
    def _below(self) -> Numbers:
        return np.concatenate([[0.0], np.cumsum(self._mass)])

    @cached_property
    def _sums(self) -> list[Numbers]:
        """P(X > x), E[X; X > x] and E[X²; X > x], added up from the far end."""
        values = np.arange(-self.reach, self.reach + 1, dtype=np.float64)
        return [np.concatenate([np.cumsum((self._mass * values**power)[::-1])[::-1], [0.0]]) for power in range(3)]


class LevelTheory:
    """A population group level by the true size of a group."""

    def __init__(self, level: GroupLevel, *, clamped: bool):
        self._level = level
        self._clamped = clamped
        self._first, self._second, self._total = (NoiseMass(law) for law in (level.first, level.second, level.total))

    def chances(self, sizes: Integers) -> Numbers:
        """For each size the probabilities of the four statistics levels, one row for each size."""
        reached = [self._first.above(threshold - 1 - sizes) for threshold in self._level.settings.thresholds]
        bounds = [np.ones(len(sizes)), *reached, np.zeros(len(sizes))]
        return np.stack([high - low for high, low in pairwise(bounds)], axis=1)

    def suppressed(self, sizes: Integers) -> Numbers:
        """For each size the probability that the group is left out."""
        limit = self._level.suppressed_up_to
        if limit is None:
            return np.zeros(len(sizes))
        chosen = self._first.at_most(self._level.settings.thresholds[0] - 1 - sizes)
        return np.asarray(chosen * self._second.at_most(limit - sizes))

    def bias(self, sizes: Integers, *, total_only: bool) -> tuple[Numbers, Numbers]:
        """Mean and variance of the error of a published total that was measured itself."""
        noise = self._total if total_only else self._second
        limit = None if total_only else self._level.suppressed_up_to
        lowest = np.full(len(sizes), -noise.reach - 1)
        return noise.given_above(lowest if limit is None else limit - sizes, -sizes if self._clamped else None)

    def mean_absolute(self, cells: int, *, total_only: bool) -> float:
        """The mean absolute noise of a total: measured itself (one cell), or the sum of so many."""
        return (self._total if total_only else self._second).mean_absolute(cells)


def _reach(law: NoiseDistribution, exponent: float) -> int:
    parameter = float(law.parameter)
    return 1 + ceil(sqrt(2 * parameter * exponent) if isinstance(law, DiscreteGaussian) else exponent / parameter)


def _mass(law: NoiseDistribution, reach: int) -> Numbers:
    values, parameter = np.abs(np.arange(-reach, reach + 1)).astype(np.float64), float(law.parameter)
    exponent = values**2 / (2 * parameter) if isinstance(law, DiscreteGaussian) else values * parameter
    mass = np.exp(-exponent)
    return np.asarray(mass / mass.sum())


Truths = npt.NDArray[np.bool_]
_CELLS = np.array(CELLS_OF_LEVEL)


def evaluate(
    problem: SafeTabProblem,
    workspace: Workspace,
    advance: Callable[[int], None],
    by_area: AreaSums | None = None,
    lone: LoneFigures | None = None,
) -> Confidential[SafeTabEvaluation]:
    """A sealed release against the truth. The result uses the truth and stays with the curator; ``by_area`` receives
    how far the totals of each area are off, and ``lone`` of groups of one person."""
    tables = released_tables(SealedRelease.of(workspace.release))
    shared = {kind for areas in problem.coterminous for kind, _ in areas}
    tallies, theory = [], []
    for level in problem.levels:
        own = level.settings.region_type not in shared and not problem.spec.output.tabulation_suppression
        expected = LevelTheory(level, clamped=not problem.settings.negative_counts)
        compared = _Level(problem, level, workspace, tables, expected)
        tallies.append(compared.tally())
        if by_area is not None:
            codes = problem.regions.areas[level.settings.region_type]
            by_area.add(level.settings.region_type, codes, *compared.off_by_area())
        if lone is not None:
            codes = problem.regions.areas[level.settings.region_type]
            lone.add(level.settings.region_type, codes, *compared.totals_by_area())
        theory.append(own)
        advance(1)
    return Confidential(SafeTabEvaluation(problem.levels, tallies, theory))


@dataclass(frozen=True, eq=False)
class TrueGroups:
    """The true counts of a level: a row for each group and finest cell with anybody."""

    group: Integers
    cell: Integers
    n: Integers

    @classmethod
    def read(cls, workspace: Workspace, level: GroupLevel) -> TrueGroups:
        file = counts_file(workspace, level)
        try:
            rows = pq.read_table(file, columns=["group", "cell", "n"])
        except FileNotFoundError:
            raise no_truth(file) from None
        return cls(*(np.asarray(rows.column(name).to_numpy(), np.int64) for name in ("group", "cell", "n")))

    def sizes(self) -> tuple[Integers, Integers]:
        """The groups with anybody, sorted, and how many each has."""
        groups, start = np.unique(self.group, return_index=True)
        if not len(groups):
            return groups, groups
        return groups, np.add.reduceat(self.n, start)

    def cells(self, groups: Integers, number: int) -> Integers:
        """For sorted groups the counts of the cells of a grid, a row for each group."""
        grid = GRIDS[number - 1]
        place = reading.find(groups, self.group)
        there = place >= 0
        counts = np.zeros((len(groups), grid.cells), np.int64)
        np.add.at(counts, (place[there], grid.of_finest[self.cell[there]]), self.n[there])
        return counts


class _Level:
    """One level of one run."""

    def __init__(
        self,
        problem: SafeTabProblem,
        level: GroupLevel,
        workspace: Workspace,
        tables: dict[str, reading.TableForPeople],
        theory: LevelTheory,
    ):
        self._level = level
        self._theory = theory
        self._left_out = problem.spec.output.tabulation_suppression
        self._clamped = not problem.settings.negative_counts
        # Figures of other areas, or compared with others before they are shown: no interval is stated for them here.
        self._shared = self._left_out or any(
            level.settings.region_type == kind for areas in problem.coterminous for kind, _ in areas
        )
        self._truth = TrueGroups.read(workspace, level)
        self._occupied, self._sizes = self._truth.sizes()
        self._numbers = _Numbers(problem, level)
        rows, self._released = self._numbers.of(tables[TOTAL_TABLE])
        self._totals, self._chosen = tables[TOTAL_TABLE].total[rows], tables[TOTAL_TABLE].level[rows]
        self._tables = tables

    def off_by_area(self) -> tuple[Integers, Integers]:
        """For each published total the place of its area, and how far it is off."""
        off = np.abs(self._totals - self._size_of(self._released))
        return self._released // len(self._level.iterations), off

    def totals_by_area(self) -> tuple[Integers, Integers, Integers]:
        """For each group with anybody, or a published total: the place of its area, its true and its published total.
        What is left out is -1."""
        groups = np.union1d(self._occupied, self._released)
        published = np.full(len(groups), -1, np.int64)
        published[np.searchsorted(groups, self._released)] = self._totals
        return groups // len(self._level.iterations), self._size_of(groups), published

    def tally(self) -> LevelTally:
        true, total_only = self._size_of(self._released), self._is_total_only(self._released)
        classes: dict[tuple[bool, int], GroupSizeClass] = {}
        for kind in (False, True):
            if (self._level.total_only == kind).any():
                classes |= {(kind, size): size_class for size, size_class in self._classes(kind).items()}
        for number in range(len(CELLS_OF_LEVEL)):
            for key, (errors, held) in self._errors(number, true, total_only).items():
                empty = [Errors()] * len(CELLS_OF_LEVEL)
                errors_by_table = (*empty[:number], errors, *empty[number + 1 :])
                classes[key] += GroupSizeClass(errors=errors_by_table, counts_held=held)
        for key, number, held in self._held_totals(true, total_only):
            classes[key] += GroupSizeClass(totals=number, totals_held=held)
        return LevelTally(
            classes, Errors.of(self._totals - true), int(true.sum()), self._noise_alone(total_only), self._curve()
        )

    def _classes(self, total_only: bool) -> dict[int, GroupSizeClass]:
        """Groups of one kind by size: which table they got, what was suppressed, and what theory says of that."""
        sizes, groups = self._by_size(total_only)
        at = np.flatnonzero(self._is_total_only(self._released) == total_only)
        place = np.searchsorted(sizes, self._size_of(self._released[at]))
        chosen = np.zeros((len(sizes), len(CELLS_OF_LEVEL)), np.int64)
        np.add.at(chosen, (place, self._chosen[at]), 1)
        expected = np.zeros(chosen.shape)
        if total_only:
            expected[:, 0], out = 1, np.zeros(len(sizes))
        else:
            expected, out = self._theory.chances(sizes), self._theory.suppressed(sizes)
            expected[:, 0] -= out
        mean, variance = self._theory.bias(sizes, total_only=total_only)
        result: dict[int, GroupSizeClass] = {}
        for size in np.unique(bin_of(SIZES, sizes)).tolist():
            of = bin_of(SIZES, sizes) == size
            number = int(groups[of].sum())
            result[size] = GroupSizeClass(
                number,
                chosen[of].sum(axis=0),
                number - int(chosen[of].sum()),
                expected=groups[of] @ expected[of],
                expected_suppressed=float(groups[of] @ out[of]),
                variance_suppressed=float(groups[of] @ (out[of] * (1 - out[of]))),
                expected_error=float(chosen[of, 0] @ mean[of]),
                variance_error=float(chosen[of, 0] @ variance[of]),
            )
        return result

    def _by_size(self, total_only: bool) -> tuple[Integers, Integers]:
        """The distinct sizes of groups of one kind, and how many have each; empty ones follow from the universe."""
        sizes, groups = np.unique(self._sizes[self._is_total_only(self._occupied) == total_only], return_counts=True)
        universe = self._level.areas * int((self._level.total_only == total_only).sum())
        empty = universe - int(groups.sum())
        return np.concatenate([[0], sizes]), np.concatenate([[empty], groups]).astype(np.int64)

    def _held(self, figures: Integers, truth: Integers, number: int, cells: int, *, total_only: bool) -> Truths:
        """Whether the truth is in the interval that a figure gives: a measured count, or a sum of so many."""
        law = self._level.total if total_only else self._level.second
        if cells > 1:
            low, high = sum_intervals(law, figures, cells, Fraction(COVERAGE), clamped=self._clamped)
        else:
            above = self._level.suppressed_up_to if number == 0 and not total_only else None
            low, high = intervals(law, figures, Fraction(COVERAGE), above)
        return np.asarray((low <= truth) & (truth <= high))

    def _held_totals(self, true: Integers, total_only: Truths) -> Iterator[tuple[tuple[bool, int], int, int]]:
        """By class how many totals were published, and how many have the truth in their interval."""
        size, held = bin_of(SIZES, true), np.zeros(len(true), np.bool_)
        if self._shared:
            return
        for number, cells in enumerate(CELLS_OF_LEVEL):
            for kind in (False, True):
                at = np.flatnonzero((self._chosen == number) & (total_only == kind))
                if len(at):
                    held[at] = self._held(self._totals[at], true[at], number, cells, total_only=kind)
        for kind in np.unique(total_only).tolist():
            for each in np.unique(size[total_only == kind]).tolist():
                here = (total_only == kind) & (size == each)
                yield (kind, each), int(here.sum()), int(held[here].sum())

    def _errors(self, number: int, true: Integers, total_only: Truths) -> dict[tuple[bool, int], tuple[Errors, int]]:
        """By class the errors of measured counts in the tables of one statistics level, and how many have the truth in
        their interval."""
        at = np.flatnonzero(self._chosen == number)
        size = bin_of(SIZES, true[at])
        published: npt.NDArray[np.bool_] = np.ones((len(at), 1), np.bool_)
        if number == 0:
            released, truth = self._totals[at][:, None], true[at][:, None]
        else:
            table = self._tables[GRIDS[number - 1].table]
            rows, groups = self._numbers.of(table)
            grid = GRIDS[number - 1]
            released = table.figures[rows].reshape(len(rows), len(SEXES), grid.ages + 1)[:, :, 1:]
            released = released.reshape(len(rows), grid.cells)
            truth = self._truth.cells(groups, number)
            if self._left_out:
                published = released >= 0
        published = np.broadcast_to(published, released.shape)
        by_class = {}
        for kind in np.unique(total_only[at]).tolist():
            for size_number in np.unique(size[total_only[at] == kind]).tolist():
                here = published & ((total_only[at] == kind) & (size == size_number))[:, None]
                held = 0
                if not self._shared:
                    held = int(self._held(released[here], truth[here], number, 1, total_only=kind).sum())
                by_class[kind, size_number] = Errors.of(released[here] - truth[here]), held
        return by_class

    def _noise_alone(self, total_only: npt.NDArray[np.bool_]) -> float:
        alone = 0.0
        for kind in (False, True):
            times = np.bincount(self._chosen[total_only == kind], minlength=len(CELLS_OF_LEVEL))
            alone += sum(
                int(number) * self._theory.mean_absolute(cells, total_only=kind)
                for number, cells in zip(times, CELLS_OF_LEVEL, strict=True)
                if number
            )
        return alone

    def _curve(self) -> SuppressionCurve | None:
        """Suppression by size, up to twice the number up to which totals are suppressed."""
        limit = self._level.suppressed_up_to
        if limit is None or limit <= 0:
            return None
        end = 2 * limit + 1
        sizes, groups = self._by_size(False)
        released = self._size_of(self._released[~self._is_total_only(self._released)])
        there, of_size = np.zeros(end, np.int64), sizes < end
        there[sizes[of_size]] = groups[of_size]
        published = np.bincount(released[released < end], minlength=end)
        return SuppressionCurve(there, there - published, self._theory.suppressed(np.arange(end)))

    def _size_of(self, groups: Integers) -> Integers:
        place = reading.find(self._occupied, groups)
        sizes = np.concatenate([self._sizes, [0]])
        return np.asarray(sizes[place])

    def _is_total_only(self, groups: Integers) -> npt.NDArray[np.bool_]:
        return np.asarray(self._level.total_only[groups % len(self._level.iterations)])


class _Numbers:
    """From groups as files name them to their numbers in a level."""

    def __init__(self, problem: SafeTabProblem, level: GroupLevel):
        self._region = REGION_TYPES.index(level.settings.region_type)
        self._areas = np.array([int(area) for area in problem.regions.areas[level.settings.region_type]], np.int64)
        self._position = np.full(reading.CODES, -1, np.int64)
        codes = [int(problem.lists.iterations[number].code) for number in level.iterations]
        self._position[codes] = np.arange(len(codes))

    def of(self, table: reading.TableForPeople) -> tuple[Integers, Integers]:
        """The rows of a table that are of this level, and the numbers of their groups, sorted as the rows are."""
        rows = np.flatnonzero(reading.region_of(table.key) == self._region)
        position = self._position[reading.code_of(table.key[rows])]
        rows, position = rows[position >= 0], position[position >= 0]
        area = reading.find(self._areas, reading.area_of(table.key[rows]))
        return rows, area * int((self._position >= 0).sum()) + position
