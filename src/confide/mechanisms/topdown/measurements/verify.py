"""What ``verify`` looks at in a published measurement file: that it is what the plan says, and near the records.

Every measured unit has every query once, with whole numbers in the planned shape and with the planned noise, in as many
units as were planned. At the root the sum of a query's counts is the number of records plus noise of known variance,
and that number itself where it is an invariant. And released figures are no further from their measurements than noise,
estimation, non-negativity and rounding explain (:class:`Watchdog`), which a run asks before it seals, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log, prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.errors import Finding, Place, RunError
from confide.geography import AreaSet
from confide.mechanisms.topdown.descent import Evidence, estimates_folder
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.measurements.layout import (
    CONSTRAINT,
    DP_QUERY,
    FOLDER,
    KNOWN_TOTAL,
    MEASURED_SUFFIX,
    SUMMED_OUT,
    UNIT,
    FileLayout,
    level_folder,
)
from confide.mechanisms.topdown.output.settings import RECORDS
from confide.mechanisms.topdown.output.tabulation import estimated, histograms
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.released_problem import released_problem
from confide.mechanisms.topdown.spine import TopDownLevel
from confide.mechanisms.topdown.strategy import TREE, LevelStrategy
from confide.privacy import ZCDP
from confide.releases.folder import SealedRelease
from confide.releases.mechanism import Check, Job
from confide.releases.plan import PlannedMeasurement, read_plan
from confide.schema import DETAILED

ROWS_AT_ONCE = 1 << 14
FURTHEST = 6
"""How many standard deviations a sum may be away: one in a thousand million true ones is further."""


def verify_measurements(folder: Path, manifest: dict[str, Any], counts: Any) -> Iterator[Check]:
    """The measurements of every level against the plan and the records.

    Args:
        folder: That of the release.
        manifest: Its manifest.
        counts: The histograms of the records: blocks in the order of their codes x cells.
    """
    plan = read_plan(manifest["plan"])
    problem = released_problem(SealedRelease(folder, manifest))
    watchdog = Watchdog(problem, counts[problem.spine.rows])
    codes, layout = plan.question["output"]["codes"], FileLayout.read(plan.question["measurements"])
    records = next(f["rows"] for f in manifest["files"] if f["path"].startswith(f"tables/{RECORDS}."))
    for level in plan.spine:
        files = {kind: _files(folder, manifest, level, kind) for kind in (DP_QUERY, CONSTRAINT, UNIT)}
        sizes = {attribute: len(listed) for attribute, listed in codes.items()}
        looked = _Level([m for m in plan.measures if m.level == level], sizes, layout, watchdog)
        units = np.concatenate([pq.read_table(f, partitioning=None).column("geocode").to_numpy() for f in files[UNIT]])
        for file in files[DP_QUERY]:
            looked.read(file)
        yield from looked.checks(level, set(units.tolist()))
        if level == plan.spine[0]:
            if _total_is_known(plan.question["strategy"]["constraints"]):
                yield _near(looked, records)
            yield from _known(files[CONSTRAINT], records)
    yield from watchdog.checks()


def _files(folder: Path, manifest: dict[str, Any], level: str, kind: str) -> list[Path]:
    place = f"{FOLDER}/{level_folder(level)}/{kind}/"
    return [folder / path for path in sorted(f["path"] for f in manifest["files"]) if path.startswith(place)]


class _Level:
    """The measurements of one level, read once."""

    def __init__(
        self,
        measures: list[PlannedMeasurement],
        sizes: dict[str, int],
        layout: FileLayout,
        watchdog: Watchdog,
    ):
        self._sizes, self._layout = sizes, layout
        self._watched = None if not measures else watchdog.reader(measures[0].level)
        self._planned: Counter[tuple[int, str, str, float]] = Counter()
        self.names = list(dict.fromkeys(measure.query for measure in measures))
        self._cells = np.array([next(m.cells for m in measures if m.query == name) for name in self.names], np.int64)
        for m in measures:
            assert isinstance(m.loss, ZCDP)
            variance = float(np.float32(m.law.variance()))
            self._planned[self.names.index(m.query), str(m.law.parameter), str(m.loss.rho), variance] += m.units
        self._found: Counter[tuple[int, str, str, float]] = Counter()
        self.rows = 0
        self.integers = self.shaped = self.once = True
        self.sums: dict[str, int] = {}
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._last = ""
        self._ids: list[str] = []

    def read(self, file: Path) -> None:
        """All rows of a file."""
        expected = pa.array([self._layout.spelled(name) + MEASURED_SUFFIX for name in self.names])
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(ROWS_AT_ONCE):
                table = pa.table(batch)
                query = pc.fill_null(pc.index_in(table.column("query_name"), value_set=expected), -1).to_numpy()
                if (query < 0).any():
                    self.once = False
                    return
                self._read_order(query, table.column("geocode").combine_chunks())
                self._read_shapes(query.astype(np.int64), table)
                self._read_noise(query, table)
                self.rows += table.num_rows

    def _read_order(self, query: NDArray[Any], ids: pa.Array) -> None:
        """Units rise, and each has all queries in the order of the plan."""
        self.once &= bool((query == (self.rows + np.arange(len(query))) % len(self.names)).all())
        before = pa.concat_arrays([pa.array([self._last], ids.type), ids.slice(0, len(ids) - 1)])
        first = pa.array(query == 0)
        self.once &= bool(pc.all(pc.if_else(first, pc.greater(ids, before), pc.equal(ids, before))).as_py())
        self._last = ids[-1].as_py()
        self._ids += ids.filter(first).to_pylist()

    def _read_noise(self, query: NDArray[Any], table: pa.Table) -> None:
        """How often each query has each law and loss."""
        laws = ["sigma2", "plb", "variance"]
        counted = table.select(laws).append_column("query", pa.array(query)).group_by(["query", *laws])
        for row in counted.aggregate([([], "count_all")]).to_pylist():
            self._found[row["query"], row["sigma2"], row["plb"], row["variance"]] += row["count_all"]

    def _read_shapes(self, query: Integers, table: pa.Table) -> None:
        values, shapes = (table.column(name).combine_chunks() for name in ("value", "query_shape"))
        flat = values.flatten()
        self.integers &= pa.types.is_int64(flat.type) and not flat.null_count and not values.null_count
        lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy()
        self.shaped &= bool((lengths == self._cells[query]).all())
        widths = pc.fill_null(pc.list_value_length(shapes), -1).to_numpy()
        self.shaped &= bool((widths == len(self._sizes)).all())
        if not self.shaped or not self.integers:
            return
        starts = np.cumsum(lengths) - lengths
        sums = np.add.reduceat(flat.to_numpy(), starts)
        of_attributes = shapes.flatten().to_numpy().reshape(len(query), -1)
        for number in np.unique(query).tolist():
            rows = np.flatnonzero(query == number)
            if number not in self._shapes:
                self._shapes[number] = tuple(of_attributes[rows[0]].tolist())
                self.sums[self.names[number]] = int(sums[rows[0]])
                self.shaped &= self._fits(number, table.slice(int(rows[0]), 1).to_pylist()[0])
            self.shaped &= bool((of_attributes[rows] == self._shapes[number]).all())
            if self.shaped and self._watched is not None:
                values = flat.to_numpy()[starts[rows][:, None] + np.arange(self._cells[number])]
                ids, variance = (table.column(name).to_numpy()[rows] for name in ("geocode", "variance"))
                self._watched(self.names[number], ids.astype(str), values, np.sqrt(variance.astype(np.float64)))

    def _fits(self, number: int, row: dict[str, Any]) -> bool:
        """Whether the shape of a query is what its columns say."""
        shape = self._shapes[number]
        said = {SUMMED_OUT: dict.fromkeys(self._sizes, 1), DETAILED: self._sizes}
        said |= {name: {name: size} for name, size in self._sizes.items()}
        fits = all(
            said.get(row[name], {}).get(name, size) == size for name, size in zip(self._sizes, shape, strict=True)
        )
        return fits and prod(shape) == int(self._cells[number])

    def checks(self, level: str, units: set[str]) -> Iterator[Check]:
        """What was found of the level."""
        measured = self.rows // max(1, len(self.names))
        detail = f"{measured:,} of {len(units):,} units, {len(self.names)} queries"
        on_spine = set(self._ids) <= units
        yield Check(f"measurements of {level}: every query once", self.once and on_spine, detail)
        yield Check(f"measurements of {level}: whole numbers, shapes", self.integers and self.shaped, detail)
        same = self._found == self._planned
        yield Check(f"measurements of {level}: noise as planned", same, f"{len(self._found):,} laws and queries")

    def cells_and_variance(self, name: str) -> tuple[int, float]:
        """The cells of a query and the variance of its noise, where all units have the same."""
        number = self.names.index(name)
        return int(self._cells[number]), max(of[3] for of in self._planned if of[0] == number)


def _total_is_known(constraints: Mapping[str, Any]) -> bool:
    """Whether the number of records is the true one. An estimate of it may be any number of standard deviations away
    from a measured sum: counts are not negative, limits and zeros hold, and a pass may use other queries."""
    return any(invariant["query"] == "total" for invariant in constraints["invariants"])


def _near(root: _Level, records: int) -> Check:
    """The sum of a query's counts at the root, in standard deviations from the number of records."""
    furthest = 0.0
    for name, total in root.sums.items():
        cells, variance = root.cells_and_variance(name)
        # Without noise, or nearly so, the sum is the number itself.
        furthest = max(furthest, abs(total - records) / sqrt(max(cells * variance, 1 / FURTHEST**2)))
    detail = f"the furthest sum of a query is {furthest:.1f} standard deviations from the number of records"
    return Check("measurements of the root: near the records", furthest <= FURTHEST, detail)


def _known(files: list[Path], records: int) -> Iterator[Check]:
    for file in files:
        rows = pq.read_table(file, columns=["query_name", "value"], partitioning=None)
        for (value,) in rows.filter(pc.equal(rows.column("query_name"), KNOWN_TOTAL)).column("value").to_pylist():
            yield Check("known total of the root", value == records, f"{value:,}, and {records:,} records")


# Released figures against the measurements that they were made from: a watchdog over everything that estimates.

FALSE_ALARMS = 1e-6
"""The largest probability that a release that was estimated as it should be is called far from its measurements."""
MOST_FIGURES = 1 << 19
"""A query of a level with more figures than this is not compared: the levels above it are."""


def explained(noise: Floats, estimate: Floats, zeros: Floats, figures: int, rounding: float) -> Floats:
    """How far a released figure may be from what was measured of it.

    The distance is noise less error: |y − x| ≤ |y − t| + |x − t|, t being the truth. Discrete Gaussian noise and the
    error of a linear estimate are sub-Gaussian, so that of N figures none is further than z (σ + s) from the truth but
    with probability 4 N exp(−z²/2). Counts that must not be negative take in what noise has taken from the others: of Z
    cells that came out as zero, √Z/2 standard deviations at the most. Derivation: ``docs/proofs/topdown.md``.

    Args:
        noise: σ, the standard deviation of the measurement.
        estimate: s, that of the released figure if nothing had to be non-negative or whole.
        zeros: Z, the cells of the unit, or of a unit above it, that may be above zero and are not.
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
        self.distances: dict[tuple[str, str], Distance] = {}
        self._narrowed = dict(self._compared())
        measured = {level.name: int(level.measured.sum()) for level in problem.spine.levels}
        self._figures = sum(measured[name] * strategy.cells for name, strategy in self._narrowed.items())

    def levels(self) -> Iterator[tuple[LevelStrategy, TopDownLevel]]:
        """The levels that are compared, each with the queries that are."""
        for _, level in self._problem.levels():
            if level.name in self._narrowed:
                yield self._narrowed[level.name], level

    def reader(self, name: str) -> Callable[[str, NDArray[np.str_], Integers, Floats], None] | None:
        """What takes the measurements of a level as a file has them, by the ids of units; none where the level is not
        compared."""
        if name not in self._narrowed:
            return None
        level, ids = self._problem.spine.level(name), self._problem.spine.ids(name)
        asked = {share.name for share in self._narrowed[name].queries}

        def read(query: str, of: NDArray[np.str_], values: Integers, noise: Floats) -> None:
            units = np.minimum(np.searchsorted(ids, of), len(ids) - 1)
            if query in asked and (ids[units] == of).all():  # units off the spine are another check's
                self.look(level, query, units, values, noise)

        return read

    def look(self, level: TopDownLevel, query: str, units: Integers, values: Integers, noise: Floats) -> None:
        """Compares one query in some measured units.

        Args:
            level: The level of the units.
            query: The query, as the strategy calls it.
            units: The units, by their numbers.
            values: What was measured: units x cells of the query.
            noise: The standard deviation of each unit's noise.
        """
        released, allowed = self._of_query(self._problem.spine.names.index(level.name), query)
        self.distances.setdefault((level.name, query), Distance()).add(
            np.abs(values - released[units].toarray()), allowed(noise[:, None], units)
        )

    @lru_cache(maxsize=16)  # noqa: B019 - a watchdog lives as long as one comparison
    def _of_query(self, place: int, query: str) -> tuple[Any, Callable[[Floats, Integers], Floats]]:
        """The released figures of a query on a level, and what is allowed in some units with noise of these sizes."""
        problem, groups = self._problem, self._problem.groups(query)
        level = problem.spine.levels[place]
        members = sp.csr_matrix((np.ones(len(groups), np.int64), (np.arange(len(groups)), groups)))
        codes = [str(unit) for unit in range(level.units)]
        areas = AreaSet(level.name, tuple(codes), problem.spine.rows, problem.spine.unit_of_block(level.name))
        estimate = np.sqrt(self._noise.variances(problem.strategy.grouping(query), areas))
        zeros, rounding = self._zeros_of(place)[:, None], self._rounding(place, query, groups)

        def allowed(noise: Floats, units: Integers) -> Floats:
            return explained(noise, estimate[units], zeros[units], self._figures, rounding)

        return self._of_level(place) @ members, allowed

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
        apart = (self._problem.groups(share.name)[self._possible] for share in strategy.queries)
        return any(len(np.unique(groups)) == len(groups) for groups in apart)

    @lru_cache(maxsize=2)  # noqa: B019 - a level and the one above it
    def _of_level(self, place: int) -> Any:
        """The released histograms of the units of a level."""
        level, blocks = self._problem.spine.levels[place], len(self._problem.spine.rows)
        ones = np.ones(blocks, np.int64)
        return sp.csr_matrix((ones, np.arange(blocks), level.first_block), (level.units, blocks)) @ self._counts

    @lru_cache(maxsize=16)  # noqa: B019
    def _zeros_of(self, place: int) -> Floats:
        """For each unit of a level how many cells have nobody there, though the unit above has somebody; or how many
        the unit above has, if it has more."""
        filled = np.diff(self._of_level(place).indptr)
        if place == 0:
            return np.asarray(len(self._possible) - filled, np.float64)
        parent = self._problem.spine.levels[place].parent
        own = np.diff(self._of_level(place - 1).indptr)[parent] - filled
        return np.asarray(np.maximum(own, self._zeros_of(place - 1)[parent]), np.float64)

    def _rounding(self, place: int, query: str, groups: Integers) -> float:
        """By how much rounding moves a figure, here and in all units above: by less than one where the query is in the
        chain, else by that in each of its cells, at random."""
        above = self._problem.levels()[: place + 1]
        size = int(np.bincount(groups[self._possible]).max(initial=1))
        return sum(1.0 if query in strategy.estimation.chain else rounding_of_sum(size) for strategy, _ in above)


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
