"""``evaluate``: the released records against the truth, for the curator alone.

Both are counted by block and cell of the histogram, sparsely, and added up to the areas of each geography in turn; then
one characteristic after the other is looked at in all areas. So memory holds the non-zero counts of one geography and
a few numbers for each of its areas.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from confide.arrays import Floats, Integers
from confide.confidential import Confidential
from confide.engines import Engine, Source
from confide.engines.protocol import Format, cell_index, private_folder, write_parquet, write_text
from confide.errors import ParameterError, Place, ReleaseError, RunError
from confide.estimation.sectors import SectorCount, Sectors
from confide.geography.spine import OUTSIDE
from confide.inputs.records import column_expressions
from confide.mechanisms.topdown.characteristics import (
    ALL_CELLS,
    MOST_SHOWN,
    AreaAccuracy,
    Characteristic,
    EvaluationGeography,
    EvaluationMeasures,
    accuracy,
    characteristics,
    geographies,
    measures_of,
    pooled,
)
from confide.mechanisms.topdown.constraints import invariant_level, known_together
from confide.mechanisms.topdown.measure import Children, LevelQuery, TrueCounts, measure_fully
from confide.mechanisms.topdown.measurements.folder import find_measurements
from confide.mechanisms.topdown.measurements.layout import DP_QUERY, FOLDER, level_folder, query_layout
from confide.mechanisms.topdown.output.settings import RECORDS
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import TREE, LevelStrategy, law_of
from confide.mechanisms.topdown.whole_tree import PlannedTree, grouping_of, planned_tree, sectors_of
from confide.noise import NoiseDistribution, ReleaseKey
from confide.releases.evaluate import no_truth, require_sealed
from confide.releases.folder import MANIFEST, sha256_of
from confide.releases.mechanism import Job, NoiseSource, Residuals
from confide.releases.plan import Plan
from confide.releases.workspace import Workspace
from confide.report.certificate import LoneFigures
from confide.schema import DETAILED, TOTAL
from confide.utility import LargestGroup, LargestGroups
from confide.utility.metrics import LEAST_PEOPLE, POPULATION_BINS, ErrorSums, bin_of

if TYPE_CHECKING:
    from confide.mechanisms.topdown.expected_errors import ReleasedNoise

# The noise alone: the variance of a count if estimates were least squares and nothing else.
#
# Without non-negativity, bounds and rounding, the best linear estimate of any count of any area is least squares on the
# whole tree (``confide.estimation.tree_covariances``), and its variance follows from the plan alone.
#
# A histogram with too many cells that are not alike is not inverted. There it is the variance of least squares that go
# down the spine and learn nothing from below, in two steps.
#
# **Within a unit.** Measured queries q with variances σ_q² and matrices M_q give the histogram the covariance
# C = (Σ_q M_qᵀM_q / σ_q²)⁻¹. A characteristic is a sum over a set of cells, with indicator s. Its variance is
#
#     v = sᵀCs;   v = v⊥ = sᵀCs − (sᵀC1)² / 1ᵀC1   where the total is known;   v = v⊥ + (sᵀC1 / 1ᵀC1)² σ_T²
#
# where the total is estimated in a pass of its own, from a measurement with variance σ_T². Of a histogram that is too
# large even for that, the variance is that of the inverse-variance mean of all queries q that determine the
# characteristic, by n_q of their N_q cells each: 1 / Σ_q 1 / (n_q σ_q²), which is no smaller than that of one fit to
# all. Where the total is known, n_q (N_q − n_q) / N_q stands for n_q; a total with a pass of its own has σ_T².
#
# **Along the spine.** The children c of a unit u add up to it. Their covariances are alike but for a factor λ_c (units
# that took over the share of an only child have less noise), so that, with Λ = Σ_c λ_c, the error of a child is
# E_c = ε_c + (λ_c / Λ)(E_u − Σ ε), ε_c of variance λ_c v. The error of an area A within u is a_u E_u + η_u, where
#
#     a_u = Σ_c a_c λ_c / Λ,   Var η_u = Σ_c Var η_c + v · (Σ_c a_c² λ_c − (Σ_c a_c λ_c)² / Λ),
#
# with a = 1 in the blocks of A and 0 in others. So the variance of A is Σ_ℓ k_ℓ(A) v_ℓ over the levels ℓ, and k does
# not depend on the characteristic. Proof and limits: ``docs/concepts/evaluation.md``.


MOST_CELLS = 4_096
"""The largest histogram that is inverted."""

ROUNDING = 1e-9
"""A contribution below this, of at least one where a unit is cut at all, is a rounding error."""

SMALLEST = 1e-12
"""Stands for the variance of noise that is always zero."""


class LeastSquaresNoise:
    """The variances of least squares: on the whole tree, or down the spine where the histogram is too large for it."""

    def __init__(self, problem: TopDownProblem, characteristics: Sequence[Characteristic]):
        self._problem, self._characteristics = problem, characteristics
        self._sectors: Sectors | None = None
        try:
            self._sectors = sectors_of(problem.strategy)[0]
        except ParameterError:
            self._theory = NoiseTheory(problem)

    def variances(self, geography: EvaluationGeography) -> Mapping[str, Floats]:
        """For each characteristic the variances of its cells: cells x areas; NaN where nothing tells a count."""
        return self._down_the_spine(geography) if self._sectors is None else self._on_the_tree(geography)

    @cached_property
    def _plan(self) -> Plan:
        return plan_problem(self._problem)

    @cached_property
    def _tree(self) -> PlannedTree:
        problem = self._problem
        return planned_tree(problem.strategy, problem.spine, self._plan, problem.columns, variance=_variance)

    @cached_property
    def _counts(self) -> dict[str, list[SectorCount]]:
        """For each characteristic its cells, each a product of sets of levels."""
        assert self._sectors is not None
        names = [attribute.name for attribute in self._problem.strategy.schema.attributes]
        result = {}
        for one in self._characteristics:
            groups = grouping_of(names, self._problem.strategy.query(one.name))
            listed = product(*([(axis, g == k) for k in range(int(g.max()) + 1)] for axis, g in groups.items()))
            result[one.name] = [self._sectors.count(dict(cell)) for cell in listed]
        return result

    def _on_the_tree(self, geography: EvaluationGeography) -> dict[str, Floats]:
        assert self._sectors is not None
        spine, sectors = self._problem.spine, self._sectors
        area = geography.unit_of_block[spine.rows]
        block = np.flatnonzero(area != OUTSIDE)
        vectors: dict[bytes, Floats] = {}  # gᵀVg by sector, for each core vector g that is asked for

        of_spine = _level_of(spine, area)

        def forms(core: Floats) -> Floats:
            key = core.tobytes()
            if key not in vectors:
                by_sector = np.zeros((geography.units, len(sectors.sectors)))
                if of_spine is None:
                    of_areas = self._tree.covariances.area_forms(block, area[block], geography.units, core[None])
                    by_sector = of_areas[:, :, 0, 0]
                else:  # units of one level are alike by the thousand
                    position, area_of_unit = of_spine
                    inside = area_of_unit != OUTSIDE
                    of_units = self._tree.covariances.unit_forms(self._tree.position[position], core)
                    by_sector[area_of_unit[inside]] = of_units[inside]
                vectors[key] = np.maximum(by_sector, 0)
            return vectors[key]

        result = {
            name: np.stack([forms(count.core) @ sectors.weights(count) for count in counts])
            for name, counts in self._counts.items()
        }
        smallest = min(_variance(measure.unbounded) for measure in self._plan.measures)
        return {name: np.where(each < ROUNDING * smallest, 0.0, each) for name, each in result.items()}

    def _down_the_spine(self, geography: EvaluationGeography) -> dict[str, Floats]:
        parts = {
            total: self._theory.contributions(geography.unit_of_block, geography.units, total=total)
            for total in (True, False)
        }
        return {
            name: np.stack([_noise(parts[name == "total"], variance) for variance in within])
            for name, within in self._within.items()
        }

    @cached_property
    def _within(self) -> dict[str, Floats]:
        """For each query the variances of its cells within a unit of each level: cells x levels."""
        sets = [one.groups[None, :] == np.arange(one.cells)[:, None] for one in self._characteristics]
        stacked = self._theory.variances(np.concatenate(sets))
        parts = np.split(stacked, np.cumsum([len(part) for part in sets])[:-1])
        return {one.name: part for one, part in zip(self._characteristics, parts, strict=True)}


def _level_of(spine: TopDownSpine, area: Integers) -> tuple[int, Integers] | None:
    """The level of the spine whose units are the areas of these blocks, and the area of each of its units; None if the
    areas are not units of one level."""
    for position, level in enumerate(spine.levels):
        area_of_unit = area[level.first_block[:-1]]
        inside = area_of_unit[area_of_unit != OUTSIDE]
        if len(np.unique(inside)) == len(inside) and (area_of_unit[spine.unit_of_block(level.name)] == area).all():
            return position, area_of_unit
    return None


def _variance(law: NoiseDistribution) -> float:
    return max(law.variance(), SMALLEST)


class NoiseTheory:
    """The noise-only variances of one plan, without what lower levels tell of upper ones."""

    def __init__(self, problem: TopDownProblem):
        self._problem = problem
        self._scales = [_scales(level_strategy, level) for level_strategy, level in problem.levels()]
        strategy = problem.strategy
        names = list(strategy.level_names)
        total_of_frame = any(i.query == "total" and i.frame for i in strategy.constraints.invariants)
        lowest = invariant_level(strategy)
        last = len(names) if total_of_frame else 0 if lowest is None else names.index(lowest) + 1
        self._known = [position < last for position in range(len(names))]
        split = not total_of_frame and lowest is not None and problem.spine.split is not None and last > 1
        self._together = known_together(strategy, problem.spine.levels[last - 1]) if split else None

    def known(self, level: int) -> bool:
        """Whether the totals of the units of a level are published as they are."""
        return self._known[level]

    @property
    def together(self) -> bool:
        """Whether parts of units are known together only."""
        return self._together is not None

    def contributions(self, unit_of_row: NDArray[np.int64], units: int, *, total: bool) -> Floats:
        """k of each unit of a partition of the frame's rows: units x levels."""
        spine = self._problem.spine
        return contributions(spine, self._scales, unit_of_row[spine.rows], units, self.known_with(total=total))

    def known_with(self, *, total: bool) -> tuple[int, NDArray[np.int64]] | None:
        """The level on which groups of units have a known sum, and the group of each unit; for totals alone."""
        if not total or self._together is None:
            return None
        return (self._known.index(False) - 1 if False in self._known else len(self._known) - 1, self._together)

    def variances(self, sets: NDArray[np.bool_]) -> Floats:
        """v of each characteristic on each level: characteristics x levels. ``sets`` is characteristics x cells, and
        the first is the total."""
        columns = []
        for (level_strategy, _), total_known in zip(self._problem.levels(), self._known, strict=True):
            v = within_unit(self._problem, level_strategy, sets, total_known=total_known)
            if total_known and self._together is not None:
                v[:1] = within_unit(self._problem, level_strategy, sets[:1], total_known=False)
            columns.append(v)
        return np.stack(columns, axis=1)


def contributions(
    spine: TopDownSpine,
    scales: Sequence[Floats],
    area_of_block: NDArray[np.int64],
    areas: int,
    together: tuple[int, NDArray[np.int64]] | None = None,
) -> Floats:
    """k of each area and level, from the blocks up.

    ``scales`` gives λ of the units of each level; ``area_of_block`` the area of each block of the spine. ``together``
    is a level on which groups of units, rather than the children of a unit, have a known sum; nothing above matters.
    """
    result = np.zeros((areas, len(spine.levels)))
    inside = area_of_block != OUTSIDE
    unit, area = np.flatnonzero(inside), area_of_block[inside]
    part = np.ones(len(unit))
    for position in range(len(spine.levels) - 1, -1, -1):
        level, scale = spine.levels[position], scales[position]
        stops = together is not None and together[0] == position
        if position == 0 and not stops:
            np.add.at(result[:, 0], area, part * part * scale[unit])
            break
        group = together[1] if together is not None and stops else level.parent
        group_scale = np.bincount(group, scale)
        key, pair = np.unique(group[unit] * areas + area, return_inverse=True)
        first = np.bincount(pair, part * scale[unit])
        second = np.bincount(pair, part * part * scale[unit])
        unit, area = np.divmod(key, areas)
        np.add.at(result[:, position], area, second - first * first / group_scale[unit])
        if stops:
            break
        part = first / group_scale[unit]
    # What is left of a difference of equal numbers is nothing.
    result[result < ROUNDING] = 0
    return result


def within_unit(
    problem: TopDownProblem, level_strategy: LevelStrategy, sets: NDArray[np.bool_], *, total_known: bool
) -> Floats:
    """v of each characteristic (a row of ``sets``) in a unit with the share of its level; NaN where not determined."""
    if not level_strategy.share:
        return np.full(len(sets), np.nan)
    variances = {
        query.name: max(law_of(problem.strategy, level_strategy, query).variance(), SMALLEST)
        for query in level_strategy.queries
    }
    own_pass = level_strategy.estimation.least_squares[0]
    alone = own_pass.queries == own_pass.constrain == ("total",) and "total" in variances
    of_total = variances.pop("total") if alone else None
    possible = ~problem.strategy.constraints.zero_cells(problem.strategy.schema)
    groups = {name: problem.groups(name) for name in variances}
    covariance = _covariance(groups, variances, sets, possible)
    if covariance is None:
        means = _inverse_variance_means(groups, variances, sets, possible, total_known=total_known)
        if of_total is not None and not total_known:
            means[sets[:, possible].all(axis=1)] = of_total
        return means
    own, with_total, total = covariance
    beside_total = own - with_total**2 / total
    beside_total[beside_total < ROUNDING * own] = 0
    if total_known:
        return beside_total
    return own if of_total is None else beside_total + (with_total / total) ** 2 * of_total


def _covariance(
    groups: dict[str, NDArray[np.int64]],
    variances: dict[str, float],
    sets: NDArray[np.bool_],
    possible: NDArray[np.bool_],
) -> tuple[Floats, Floats, float] | None:
    """sᵀCs and sᵀC1 of each characteristic, and 1ᵀC1; None where C is too large or the queries do not determine it."""
    if len(possible) > MOST_CELLS or not variances:
        return None
    smallest = min(variances.values())
    information = np.zeros((int(possible.sum()),) * 2)
    for name, variance in variances.items():
        group = groups[name][possible]
        information[group[:, None] == group[None, :]] += smallest / variance
    try:
        factor = cho_factor(information, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    wanted = np.vstack([sets[:, possible], np.ones(int(possible.sum()), bool)]).astype(float)
    solved = smallest * cho_solve(factor, wanted.T)
    own = np.einsum("cs,sc->c", wanted, solved)
    return own[:-1], wanted[:-1] @ solved[:, -1], float(own[-1])


def _inverse_variance_means(
    groups: dict[str, NDArray[np.int64]],
    variances: dict[str, float],
    sets: NDArray[np.bool_],
    possible: NDArray[np.bool_],
    *,
    total_known: bool,
) -> Floats:
    """The variance of the mean of all queries that determine a characteristic; NaN where none does.

    The sum of n of the N cells of a query has n times the variance of a cell; where the sum of all N is known, the
    difference is divided among them, and n (N − n) / N times is left: nothing for the total itself.
    """
    weights = np.zeros(len(sets))
    for name, variance in variances.items():
        group = groups[name][possible]
        sizes = np.bincount(group)
        cells = int((sizes > 0).sum())
        for number, chosen in enumerate(sets[:, possible]):
            inside = np.bincount(group, chosen, minlength=len(sizes))
            if ((inside == 0) | (inside == sizes)).all():
                summed = int((inside > 0).sum())
                times = summed * (cells - summed) / cells if total_known else summed
                weights[number] += 1 / (times * variance) if times else np.inf
    with np.errstate(divide="ignore"):
        return np.where(weights > 0, 1 / weights, np.nan)


def _scales(level_strategy: LevelStrategy, level: TopDownLevel) -> Floats:
    """λ of each unit: the share of the level by the unit's. An only child without a share follows its parent."""
    table = [
        float(level_strategy.share / share) if share and level_strategy.share else 1.0 for share in level.shares.table
    ]
    return np.array(table)[level.shares.index]


FIXED = frozenset(
    {
        *("areas", "number_of_cells", "zeros", "mean_truth", "noise_alone", "noise_of_estimator", "made_up"),
        *("units", "least_people"),
    }
)
"""Names of what is the same for every key."""


@dataclass(frozen=True)
class LargestGroupShare:
    """The measure of :mod:`confide.utility.metrics` for one query in one geography."""

    geography: str
    query: str
    least_people: int
    result: LargestGroup

    def as_dict(self) -> dict[str, Any]:
        named = {"geography": self.geography, "query": self.query, "least_people": self.least_people}
        return named | self.result.as_dict()


@dataclass(frozen=True)
class AreaTotals:
    """True and released totals of the areas of one geography, for a map."""

    codes: tuple[str, ...]
    truth: Integers
    released: Integers


@dataclass(frozen=True)
class TopDownEvaluation:
    """Everything that one release says when it is held against the truth."""

    noun: str
    geographies: tuple[EvaluationGeography, ...]
    characteristics: tuple[Characteristic, ...]
    accuracy: tuple[AreaAccuracy, ...]
    largest_group: tuple[LargestGroupShare, ...]
    totals: dict[str, AreaTotals]
    made_up: MadeUpErrors | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "noun": self.noun,
            "geographies": [{"name": g.name, "kind": g.kind, "units": g.units} for g in self.geographies],
            "queries": [{"name": c.name, "title": c.title, "number_of_cells": c.cells} for c in self.characteristics],
            "accuracy": [row.as_dict() for row in self.accuracy],
            "largest_group": [row.as_dict() for row in self.largest_group],
            "made_up": None if self.made_up is None else self.made_up.as_dict(),
        }


@dataclass(frozen=True)
class _Counts:
    """The non-zero counts of the areas of a geography: area, cell of the histogram, true and released count."""

    areas: int
    area: NDArray[np.int32] | Integers
    cell: NDArray[np.int32] | Integers
    truth: NDArray[np.int32] | Integers
    released: NDArray[np.int32] | Integers

    def cells_of(self, characteristic: Characteristic) -> Iterator[tuple[Integers, Integers]]:
        """For each cell of a query its true and its released count in every area."""
        group = characteristic.groups.astype(np.int32)[self.cell]
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(characteristic.cells + 1))
        for first, last in pairwise(ends):
            rows = order[first:last]
            yield self._summed(rows, self.truth), self._summed(rows, self.released)

    def _summed(self, rows: NDArray[np.intp], counts: NDArray[np.int32] | Integers) -> Integers:
        # Sums of whole numbers as doubles are exact far beyond any count of people.
        return np.bincount(self.area[rows], counts[rows], minlength=self.areas).astype(np.int64)


MOST_MADE_UP = 100_000
"""With more blocks on the spine no run on made-up people is made: it takes as long as the release did."""
MADE_UP_FILE = "made-up-errors.json"


@dataclass(frozen=True)
class MadeUpErrors:
    """What one run on made-up people, with the plan of the release, was off by: after non-negativity and rounding.

    The people are those of the release, who exchanged their homes (:func:`.made_up.exchanged_homes`): no truth has a
    part in it, anybody could make the run, and it costs nothing. The key is public and follows from the release.
    """

    people: int
    sums: Mapping[tuple[str, str], tuple[ErrorSums, ...]]
    """By geography and query, the sums of each cell."""

    def as_dict(self) -> dict[str, Any]:
        return {"people": self.people, "runs": 1, "who": "the people of the release, who exchanged their homes"}

    @classmethod
    def of_release(cls, comparison: TruthComparison, released: Path, asked: tuple[Plan, Engine, Workspace]) -> Self:
        """The errors of a run on people made of a release's records, or those that the dossier has already.

        Args:
            comparison: What is looked at.
            released: The records of the release, counted: ``code``, ``cell`` and ``n``.
            asked: The plan, the engine, and the run that is evaluated.
        """
        from confide.mechanisms.topdown.made_up import exchanged_homes, release_of_people

        plan, engine, run = asked
        problem, manifest = comparison.problem, sha256_of(run.release / MANIFEST)
        cache = run.dossier / MADE_UP_FILE
        with suppress(OSError, ValueError, KeyError, TypeError):
            stated = json.loads(cache.read_text(encoding="utf-8"))
            kept = {
                (kind, query): tuple(ErrorSums(cells=each[0], absolute=each[1], squared=each[2]) for each in cells)
                for kind, query, cells in stated["sums"]
            }
            asked_for = {(kind.name, one.name) for kind in comparison.geographies for one in comparison.characteristics}
            if stated["manifest_sha256"] == manifest and kept.keys() == asked_for:
                return cls(stated["people"], kept)
        rows = pq.read_table(released)
        codes = pa.array(problem.spine.block_codes.tolist())
        unit = pc.index_in(rows.column("code").cast(pa.string()), value_set=codes).cast(pa.int64())
        own = {"unit": unit} | {name: rows.column(name).cast(pa.int64()) for name in ("cell", "n")}
        people = exchanged_homes(problem, pa.table(own), int(manifest[:16], 16))
        key = ReleaseKey.choose(hashlib.sha256(f"confide/evaluate/{manifest}".encode()).hexdigest())
        noise = NoiseSource(key, manifest, plan.hash, "evaluation")
        after = release_of_people(problem, plan, people, noise, engine, Workspace(run.scratch / "made-up"))
        errors = cls(int(pc.sum(people.column("n")).as_py() or 0), _error_sums(comparison, people, after))
        listed = [[*name, [[s.cells, s.absolute, s.squared] for s in sums]] for name, sums in errors.sums.items()]
        values = {"manifest_sha256": manifest, "people": errors.people, "sums": listed}
        private_folder(run.dossier)
        write_text(cache, json.dumps(values))
        return errors


def _error_sums(
    comparison: TruthComparison, before: pa.Table, after: pa.Table
) -> dict[tuple[str, str], tuple[ErrorSums, ...]]:
    """The errors of made-up people's counts, by geography and query."""
    problem, result = comparison.problem, {}
    columns = {name: [rows.column(name).to_numpy() for rows in (before, after)] for name in ("unit", "cell", "n")}
    block, cell = (np.concatenate(columns[name]).astype(np.int64) for name in ("unit", "cell"))
    error = np.concatenate([-columns["n"][0].astype(np.int64), columns["n"][1].astype(np.int64)])
    for geography in comparison.geographies:
        area = geography.unit_of_block[problem.spine.rows][block]
        inside = area != OUTSIDE
        counts = _Counts(geography.units, area[inside], cell[inside], error[inside], error[inside])
        for one in comparison.characteristics:
            off = (each for each, _ in counts.cells_of(one))
            sums = ((int(np.abs(each).sum()), int(each @ each)) for each in off)
            result[geography.name, one.name] = tuple(
                ErrorSums(cells=geography.units, absolute=absolute, squared=squared) for absolute, squared in sums
            )
    return result


class TruthComparison:
    """What is compared, and the noise alone: the same for every release of a problem."""

    def __init__(self, problem: TopDownProblem):
        self.problem = problem
        self.geographies = geographies(problem)
        self.measures = measures_of(problem.strategy.schema)
        also = (*self.measures.queries, *self.measures.largest_group)
        self.characteristics = characteristics(problem.strategy, also)
        self.noise = LeastSquaresNoise(problem, self.characteristics)

    @cached_property
    def _down_the_spine(self) -> ReleasedNoise:
        from confide.mechanisms.topdown.expected_errors import ReleasedNoise

        return ReleasedNoise(self.problem)

    def noise_of_estimator(self, geography: EvaluationGeography, best: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """The variances that the estimator in use has without constraints: cells x areas. With tree evidence they are
        the best there are; with own measurements, those of least squares that go down the spine."""
        strategy = self.problem.strategy
        if strategy.evidence == TREE:
            return best
        from confide.mechanisms.topdown.expected_errors import combined

        noise, names = self._down_the_spine, [attribute.name for attribute in strategy.schema.attributes]
        parts = {total: noise.parts(geography.unit_of_block, geography.units, total=total) for total in (True, False)}
        groups = {one.name: grouping_of(names, strategy.query(one.name)) for one in self.characteristics}
        return {name: combined(parts[name == TOTAL], noise.within(each)).T for name, each in groups.items()}


def evaluate(
    comparison: TruthComparison,
    workspace: Workspace,
    engine: Engine,
    *,
    plan: Plan | None = None,
    totals_of: Collection[str] = (),
    lone: LoneFigures | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Confidential[TopDownEvaluation]:
    """Compares the released records with the true ones. The result tells of the truth and stays with the curator.

    Args:
        comparison: What is compared.
        workspace: The run.
        engine: What counts records.
        plan: The plan of the release, where a run on made-up people is to say what to expect of records.
        totals_of: Geographies whose totals are kept area by area.
        lone: Is told of records that are alone with all their attributes in an area of an official level, or of one of
            those geographies.
        advance: Called once for each geography.
    """
    require_sealed(workspace)
    histogram = workspace.counts / "histogram.parquet"
    if not histogram.exists():
        raise no_truth(histogram)
    measures, looked_at = comparison.measures, comparison.characteristics
    folder = private_folder(workspace.scratch / "evaluation")
    places = _write_places(comparison, folder)
    pairs = _write_pairs(comparison.problem, workspace, engine, histogram, folder)
    made_up = None
    if plan is not None and len(comparison.problem.spine.rows) <= MOST_MADE_UP:
        made_up = MadeUpErrors.of_release(comparison, folder / RELEASED, (plan, engine, workspace))
    rows: list[AreaAccuracy] = []
    shares: list[LargestGroupShare] = []
    totals: dict[str, AreaTotals] = {}
    for number, geography in enumerate(comparison.geographies):
        counts = _counts(engine, pairs, places, number, geography)
        noise = comparison.noise.variances(geography)
        of_estimator = comparison.noise_of_estimator(geography, noise)
        ((true_total, total),) = counts.cells_of(looked_at[0])
        if geography.name in totals_of:
            totals[geography.name] = AreaTotals(geography.codes, true_total, total)
        if lone is not None and (geography.kind == "level" or geography.name in totals_of):
            lone.add(geography.name, geography.codes, counts.area, counts.truth, counts.released)
        population = bin_of(POPULATION_BINS, true_total)
        for one in looked_at:
            sums = None if made_up is None else made_up.sums[geography.name, one.name]
            variances = (noise[one.name], of_estimator[one.name])
            accuracies, largest = _look_at(one, geography, counts, population, variances, sums)
            rows += accuracies
            shares += _shares(one, geography, largest, measures)
        advance(1)
    shares.sort(key=lambda share: measures.largest_group.index(share.query))
    return Confidential(
        TopDownEvaluation(
            measures.noun, tuple(comparison.geographies), tuple(looked_at), tuple(rows), tuple(shares), totals, made_up
        )
    )


RELEASED = "released.parquet"
"""The released records, counted by block and cell."""
MOST_RESIDUALS = 1 << 23
"""Of a measurement about so many draws are looked at, those of the first units."""


def residuals(
    problem: TopDownProblem,
    job: Job,
    drawn_again: Callable[[LevelStrategy, TopDownLevel], tuple[LevelQuery, ...]] | None,
) -> Iterator[Residuals]:
    """Measured minus true of every query on every level.

    Args:
        problem: Strategy, frame and spine of the release.
        job: The run, with its plan and its workspace.
        drawn_again: Gives the queries of a level with their noise streams; none where the key is gone. It is asked only
            where no measurements are published.
    """
    require_sealed(job.workspace)
    published = problem.spec.output.measurements
    if not published and drawn_again is None:
        raise RunError(
            "no-measurements",
            "the measurements of this run do not exist any more: they were not published, and the key that could "
            "draw them again is gone",
            where=Place(file=str(job.workspace.root)),
            found="a release without measurements, and no key",
            expected="output.measurements = true, or a key that is not destroyed yet",
            remedy="audit the noise of a run before its key is destroyed",
        )
    for level_strategy, level in problem.levels():
        if not level.measured.any():
            continue
        widest = max(query.query.cells for query in level_strategy.queries)
        units = np.flatnonzero(level.measured)[: max(1, MOST_RESIDUALS // widest)]
        truth = _true_rows(job.workspace, level, units)
        if published:
            measured = _published_measurements(problem, job.workspace, level_strategy, level, units)
        else:
            assert drawn_again is not None
            queries, classes = drawn_again(level_strategy, level), level.shares.index[units].astype(np.int64)
            everything = Children(Confidential(truth), units, classes, truth.cell[:0])
            measured = measure_fully(queries, everything)
        for number, query_share in enumerate(level_strategy.queries):
            noise, name = measured[number], query_share.name
            np.subtract.at(noise, (truth.position, problem.groups(name)[truth.cell]), truth.count)
            planned = iter(range(len(level.shares.table)))
            law_of = np.array([next(planned) if share else -1 for share in level.shares.table])
            yield Residuals(
                level.name,
                name,
                noise,
                tuple(job.plan.laws(level.name, name)),
                "released" if published else "drawn again",
                law_of=law_of[level.shares.index[units]][:, None],
                units=units,
                complete=len(units) == int(level.measured.sum()),
            )


def _true_rows(workspace: Workspace, level: TopDownLevel, units: Integers) -> TrueCounts:
    """The true counts of some units, by their places among them."""
    file = workspace.counts / f"{level.name}.parquet"
    try:
        rows = pq.read_table(file)
    except FileNotFoundError:
        raise no_truth(file) from None
    unit, cell, n = (rows.column(name).to_numpy().astype(np.int64) for name in ("unit", "cell", "n"))
    place = np.minimum(np.searchsorted(units, unit), len(units) - 1)
    inside = units[place] == unit
    return TrueCounts(place[inside], cell[inside], n[inside])


def _published_measurements(
    problem: TopDownProblem, workspace: Workspace, level_strategy: LevelStrategy, level: TopDownLevel, units: Integers
) -> list[Integers]:
    """What the release has of every query in some units: units x cells."""
    schema = problem.strategy.schema
    layouts = [query_layout(schema, share.name, share.query, problem.file_layout) for share in level_strategy.queries]
    names, ids = pa.array([layout.query_name for layout in layouts]), pa.array(problem.spine.ids(level.name)[units])
    measured = [np.zeros((len(units), layout.cells), np.int64) for layout in layouts]
    times = np.zeros((len(layouts), len(units)), np.int64)
    place = Place(file=str(workspace.release / FOLDER))
    folder = find_measurements(workspace.release / FOLDER, (level.name,), place)
    for _, batch in folder.batches(level.name, DP_QUERY, ["geocode", "query_name", "value"], 1 << 12):
        unit = pc.index_in(batch.column("geocode"), value_set=ids).to_numpy(zero_copy_only=False)
        query = pc.index_in(batch.column("query_name"), value_set=names).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~np.isnan(unit.astype(np.float64))).tolist():
            number, at = int(query[row]), int(unit[row])
            measured[number][at] = batch.column("value")[row].values.to_numpy()
            times[number, at] += 1
    if (times != 1).any():
        raise ReleaseError(
            "measurements",
            f"{int((times != 1).sum()):,} measurements are missing or duplicated",
            where=Place(file=str(workspace.release / FOLDER / level_folder(level.name))),
            found="other rows",
            expected="every query once in every measured unit",
            remedy="`confide verify` says what is wrong; `confide replay` makes the release again",
        )
    return measured


def _look_at(
    characteristic: Characteristic,
    geography: EvaluationGeography,
    counts: _Counts,
    population: Integers,
    variances: tuple[Floats, Floats],
    made_up: Sequence[ErrorSums] | None,
) -> tuple[list[AreaAccuracy], LargestGroups]:
    """All cells of a query, as a whole and, if they are not many, each of them; and the largest groups."""
    parts, largest = [], LargestGroups(counts.areas)
    sums_of_cells: Sequence[ErrorSums | None] = made_up or [None] * characteristic.cells
    for label, best, own, sums, (truth, released) in zip(
        characteristic.labels, *variances, sums_of_cells, counts.cells_of(characteristic), strict=True
    ):
        largest.add(truth, released)
        named = (geography.name, characteristic.name, label)
        parts.append(accuracy(named, truth, released, population, (best, own), sums))
    single_cells = parts if characteristic.cells <= MOST_SHOWN else []
    return ([pooled(parts, ALL_CELLS), *single_cells] if characteristic.cells > 1 else single_cells), largest


def _shares(
    characteristic: Characteristic, geography: EvaluationGeography, largest: LargestGroups, measures: EvaluationMeasures
) -> list[LargestGroupShare]:
    if characteristic.name not in measures.largest_group:
        return []
    return [
        LargestGroupShare(geography.name, characteristic.name, least, largest.result(least))
        for least in (0, LEAST_PEOPLE)
    ]


def _noise(contributions: Floats, variances: Floats) -> Floats:
    """Σ_ℓ k_ℓ v_ℓ for each area; a level that adds nothing need not have a variance."""
    needed = (contributions > 0).any(axis=0)
    result: Floats = contributions[:, needed] @ variances[needed]
    return result


def _write_places(comparison: TruthComparison, folder: Path) -> Path:
    """Every block of the frame, with its unit in each geography."""
    blocks = comparison.problem.frame.spine.blocks
    columns = {"code": pa.array(np.array(blocks.codes)[blocks.unit_of_block].tolist())}
    for number, geography in enumerate(comparison.geographies):
        columns[f"g{number}"] = pa.array(geography.unit_of_block, pa.int32())
    columns["place"] = pa.array(np.arange(len(blocks.unit_of_block)), pa.int32())
    path = folder / "places.parquet"
    write_parquet(pa.table(columns), path)
    return path


def _write_pairs(problem: TopDownProblem, workspace: Workspace, engine: Engine, histogram: Path, folder: Path) -> Path:
    """True and released counts by block and cell, where either is not zero."""
    source = _records(workspace)
    block, strategy = problem.spec.geography.block, problem.strategy
    columns = column_expressions(engine, source, strategy.schema.attributes, block)
    keys = {"code": columns[block], "cell": cell_index(strategy.query(DETAILED), columns)}
    released = folder / RELEASED
    engine.count_by(source, keys, released)
    pairs = folder / "pairs.parquet"
    engine.write(
        "SELECT place, CAST(cell AS INTEGER) AS cell, CAST(sum(t) AS INTEGER) AS t, CAST(sum(r) AS INTEGER) AS r FROM ("
        "SELECT code, cell, n AS t, 0 AS r FROM truth UNION ALL SELECT code, cell, 0, n FROM released) AS counted "
        "JOIN places USING (code) GROUP BY 1, 2",
        pairs,
        truth=histogram,
        released=released,
        places=folder / "places.parquet",
    )
    return pairs


def _records(workspace: Workspace) -> Source:
    """The released records, in Parquet if there are both."""
    formats: tuple[Format, ...] = ("parquet", "csv")
    for format_ in formats:
        for file in sorted((workspace.release / "tables").glob(f"{RECORDS}.*{format_}")):
            return Source(file, format_)
    raise ReleaseError(
        "no-records",
        "the release has no records to compare with the true ones",
        where=Place(file=str(workspace.release)),
        found=f"no file tables/{RECORDS}.*",
        expected="the release as it was sealed",
        remedy="`confide verify` says what is missing; `confide replay` makes it again",
    )


def _counts(engine: Engine, pairs: Path, places: Path, number: int, geography: EvaluationGeography) -> _Counts:
    text = (
        f"SELECT g{number} AS area, cell, CAST(sum(t) AS INTEGER) AS t, CAST(sum(r) AS INTEGER) AS r "
        f"FROM pairs JOIN places USING (place) WHERE g{number} >= 0 GROUP BY 1, 2"
    )
    rows = engine.sql(text, pairs=pairs, places=places).reveal("an evaluation compares the release with the truth")
    return _Counts(geography.units, *(rows.column(name).to_numpy() for name in ("area", "cell", "t", "r")))
