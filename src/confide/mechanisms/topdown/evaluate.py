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
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.confidential import Confidential
from confide.engines import Engine, Source
from confide.engines.protocol import Format, cell_index, private_folder, write_parquet, write_text
from confide.errors import Place, ReleaseError
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
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.output.settings import RECORDS
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.strategy import TREE
from confide.noise import ReleaseKey
from confide.releases.folder import MANIFEST, sha256_of
from confide.releases.mechanism import NoiseSource
from confide.releases.plan import Plan
from confide.releases.replay import no_truth, require_sealed
from confide.releases.workspace import Workspace
from confide.report.certificate import LoneFigures
from confide.schema import DETAILED
from confide.utility import LargestGroup, LargestGroups
from confide.utility.metrics import LEAST_PEOPLE, POPULATION_BINS, ErrorSums, bin_of

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
        self._groups = {one.name: problem.strategy.grouping(one.name) for one in self.characteristics}
        self._best, self._in_use = TopDownNoise(problem, TREE), TopDownNoise(problem)

    def noise(self, geography: EvaluationGeography) -> Mapping[str, tuple[Floats, Floats]]:
        """For each characteristic the variances of its cells without constraints, of the best linear estimates and of
        the estimator in use: cells x areas each."""
        result = {}
        for name, groups in self._groups.items():
            in_use = self._in_use.variances(groups, geography.areas).T
            same = self._best.method == self._in_use.method
            result[name] = in_use if same else self._best.variances(groups, geography.areas).T, in_use
        return result


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
        lone: Receives records that are alone with all their attributes in an area of an official level, or of one of
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
        noise = comparison.noise(geography)
        ((true_total, total),) = counts.cells_of(looked_at[0])
        if geography.name in totals_of:
            totals[geography.name] = AreaTotals(geography.codes, true_total, total)
        if lone is not None and (geography.kind == "level" or geography.name in totals_of):
            lone.add(geography.name, geography.codes, counts.area, counts.truth, counts.released)
        population = bin_of(POPULATION_BINS, true_total)
        for one in looked_at:
            sums = None if made_up is None else made_up.sums[geography.name, one.name]
            accuracies, largest = _look_at(one, geography, counts, population, noise[one.name], sums)
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
    raise ReleaseError("no-records/compare", where=Place(file=str(workspace.release)), records=RECORDS)


def _counts(engine: Engine, pairs: Path, places: Path, number: int, geography: EvaluationGeography) -> _Counts:
    text = (
        f"SELECT g{number} AS area, cell, CAST(sum(t) AS INTEGER) AS t, CAST(sum(r) AS INTEGER) AS r "
        f"FROM pairs JOIN places USING (place) WHERE g{number} >= 0 GROUP BY 1, 2"
    )
    rows = engine.sql(text, pairs=pairs, places=places).reveal("an evaluation compares the release with the truth")
    return _Counts(geography.units, *(rows.column(name).to_numpy() for name in ("area", "cell", "t", "r")))
