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
from math import pi, sqrt
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.confidential import Confidential
from confide.documents import load_shipped, shipped
from confide.engines.protocol import Engine, Format, Source, cell_index, write_parquet
from confide.errors import Place, ReleaseError, SpecError
from confide.file_system import private_folder, write_text
from confide.geography import OUTSIDE, AreaSet, Geolevel
from confide.inputs.records import column_expressions
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.output.settings import RECORDS
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.strategy import TREE, Strategy, groups_of, resolve
from confide.noise import ReleaseKey
from confide.releases import NoiseSource, Plan, SealedRelease, Workspace
from confide.releases.dossier import LoneFigures
from confide.releases.replay import no_truth, require_sealed
from confide.schema import DETAILED, Query, Schema
from confide.utility import LargestGroup, LargestGroups, metrics
from confide.utility.metrics import LEAST_PEOPLE, POPULATION_BINS, ErrorSums, bin_of

# What an evaluation looks at: the characteristics of the records, and the areas in which they are counted.
#
# Characteristics are the total, every attribute and recode of the schema, the queries of the strategy, and those that
# the file of the schema under ``data/evaluation`` adds, as long as they have few cells. Areas are the units of all
# official levels, the areas beside the spine, and the units that the spine itself makes: block groups, and the parts
# into which it splits official units.


MOST_CELLS = 70
"""Queries with more cells are not looked at."""

MOST_SHOWN = 16
"""Queries with more cells are looked at as a whole, not cell by cell."""

ALL_CELLS = "all cells"


@dataclass(frozen=True)
class Characteristic:
    """A query, and for each cell of the histogram the cell of the query that it adds to, or ``NO_GROUP``."""

    name: str
    title: str
    """What the query is about, for people."""
    labels: tuple[str, ...]
    groups: NDArray[np.int64]

    @property
    def cells(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class EvaluationMeasures:
    """What the shipped file of a schema says of its evaluation."""

    noun: str
    queries: tuple[str, ...]
    largest_group: tuple[str, ...]


def measures_of(schema: Schema) -> EvaluationMeasures:
    """The measures of a schema; for one of the user's own, every attribute has a largest group."""
    attributes = tuple(a.name for a in schema.attributes if 1 < a.size <= MOST_SHOWN)
    if schema.id not in shipped("evaluation"):
        return EvaluationMeasures("records", (), attributes)
    values: Mapping[str, Any] = load_shipped("evaluation", schema.id)
    listed = {key: tuple(name for name in values[key] if _known(schema, name)) for key in ("queries", "largest_group")}
    return EvaluationMeasures(str(values["noun"]), listed["queries"], listed["largest_group"] or attributes)


def characteristics(strategy: Strategy, also: tuple[str, ...] = ()) -> list[Characteristic]:
    """Everything that is looked at, the total first, each once."""
    schema = strategy.schema
    names = dict.fromkeys(("total", *schema.variables, *also, *strategy.measured))
    queries = [(name, resolve(schema, name)) for name in names]
    return [characteristic(schema, name, query) for name, query in queries if query.cells <= MOST_CELLS]


def characteristic(schema: Schema, name: str, query: Query) -> Characteristic:
    """A query as a characteristic."""
    labels = (", ".join(parts) for parts in product(*(variable.labels for variable in query.variables)))
    return Characteristic(name, _title(query), tuple(label or "total" for label in labels), groups_of(schema, query))


def _title(query: Query) -> str:
    """The titles of the attributes, each with the name of its recode."""
    titles = [
        variable.attribute.title + (f" ({variable.name.partition(':')[2]})" if ":" in variable.name else "")
        for variable in query.variables
    ]
    return " by ".join([*titles[:1], *(title[:1].lower() + title[1:] for title in titles[1:])]) or "Total"


@dataclass(frozen=True)
class EvaluationGeography:
    """A partition of the frame's blocks: official, or made by the spine."""

    name: str
    kind: str
    """``level`` or ``area`` of the frame; ``made`` or ``part`` for units of the spine."""
    codes: tuple[str, ...]
    unit_of_block: NDArray[np.int64]
    """For each row of the frame its unit, or ``OUTSIDE``."""

    @property
    def units(self) -> int:
        return len(self.codes)

    @cached_property
    def areas(self) -> AreaSet:
        """The same as sets of rows of the frame."""
        return AreaSet.partition(self.name, self.codes, self.unit_of_block)


def geographies(problem: TopDownProblem) -> list[EvaluationGeography]:
    """All areas of an evaluation: official levels, what the spine makes, areas beside it, and the blocks last. Areas
    that are declared, but have no unit in this frame, are none."""
    frame, spine = problem.frame.spine, problem.spine
    result = [_official(level, "level") for level in frame.levels[:-1]]
    for level in spine.levels[1:-1]:
        official = level.official
        optimised = official is None
        if official is None or (spine.split is not None and level.units > len(np.unique(official))):
            units = np.full(len(frame.blocks.unit_of_block), OUTSIDE, np.int64)
            units[spine.rows] = spine.unit_of_block(level.name)
            name = f"{level.name} ({'made' if optimised else 'AIAN parts'})"
            ids = tuple(spine.ids(level.name).tolist())
            result.append(EvaluationGeography(name, "made" if optimised else "part", ids, units))
    result += [_official(area, "area") for area in frame.areas if area.units]
    return [*result, _official(frame.blocks, "level")]


def _official(level: Geolevel, kind: str) -> EvaluationGeography:
    return EvaluationGeography(level.name, kind, level.codes, level.unit_of_block)


def _known(schema: Schema, name: str) -> bool:
    try:
        resolve(schema, name)
    except SpecError:
        return False
    return True


# The accuracy of one characteristic in the areas of one geography: tallies of errors, and the noise alone beside.


@dataclass(frozen=True)
class NoiseAlone:
    """Sums over areas, by population class, of the variance and the standard deviation that the noise alone gives."""

    areas: Integers
    variance: Floats
    deviation: Floats

    def __add__(self, other: NoiseAlone) -> NoiseAlone:
        return NoiseAlone(self.areas + other.areas, self.variance + other.variance, self.deviation + other.deviation)

    def as_dict(self, population: int | None = None) -> dict[str, float] | None:
        """Expected errors, of all areas or of one class: of a normal error with deviation σ, |e| is √(2/π) σ."""
        chosen = slice(None) if population is None else slice(population, population + 1)
        areas, variance = int(self.areas[chosen].sum()), float(self.variance[chosen].sum())
        if not areas or np.isnan(variance):
            return None
        return {
            "root_mean_squared_error": sqrt(variance / areas),
            "mean_absolute_error": sqrt(2 / pi) * float(self.deviation[chosen].sum()) / areas,
        }


@dataclass(frozen=True)
class AreaAccuracy:
    """The errors of one cell of a query (or of all its cells) in the areas of a geography, by classes of areas."""

    geography: str
    query: str
    cell: str
    tallies: Mapping[tuple[int, int], metrics.ErrorTally]
    """By population class of the area, and by size class of the true count."""
    noise: NoiseAlone
    """Of the best linear estimates."""
    noise_of_estimator: NoiseAlone
    """Of what the release starts from: with ``evidence = "own"`` it learns nothing from below."""
    made_up: metrics.ErrorSums | None = None
    """The same cell in a run on made-up people, over all areas."""

    @property
    def overall(self) -> metrics.ErrorTally:
        """All areas."""
        return metrics.add_tallies(self.tallies.values())

    def by_population(self) -> dict[int, metrics.ErrorTally]:
        """By the true total of the area."""
        return {
            number: metrics.add_tallies(t for (population, _), t in self.tallies.items() if population == number)
            for number in sorted({population for population, _ in self.tallies})
        }

    def by_size(self, starts: tuple[int, ...] = metrics.SIZE_BINS) -> dict[int, metrics.ErrorTally]:
        """By the true count itself, in classes that are unions of the size classes."""
        of_class = metrics.bin_of(starts, np.array(metrics.SIZE_BINS))
        return {
            number: metrics.add_tallies(t for (_, size), t in self.tallies.items() if of_class[size] == number)
            for number in sorted({int(of_class[size]) for _, size in self.tallies})
        }

    def as_dict(self) -> dict[str, Any]:
        named = {"geography": self.geography, "query": self.query, "cell": self.cell}
        return (
            named
            | self.overall.as_dict(quantiles=True)
            | {
                "noise_alone": self.noise.as_dict(),
                "noise_of_estimator": self.noise_of_estimator.as_dict(),
                "after_non_negativity": None if self.made_up is None else _mean_errors(self.made_up),
                "by_population": [
                    {"population": metrics.bin_label(metrics.POPULATION_BINS, number)}
                    | part.as_dict(quantiles=True)
                    | {"noise_alone": self.noise.as_dict(number)}
                    for number, part in self.by_population().items()
                ],
                "by_count": [
                    {"count": metrics.bin_label(metrics.COUNT_BINS, number)} | part.as_dict()
                    for number, part in self.by_size(metrics.COUNT_BINS).items()
                ],
                "by_true_size": [
                    {"true_size": metrics.bin_label(metrics.SIZE_BINS, number)} | part.as_dict()
                    for number, part in self.by_size().items()
                ],
            }
        )


def _mean_errors(sums: metrics.ErrorSums) -> dict[str, float] | None:
    if not sums.cells:
        return None
    names = ("root_mean_squared_error", "mean_absolute_error")
    return {name: float(getattr(sums, name)) for name in names}


def accuracy(
    named: tuple[str, str, str],
    truth: Integers,
    released: Integers,
    population: Integers,
    variances: tuple[Floats, Floats],
    made_up: metrics.ErrorSums | None = None,
) -> AreaAccuracy:
    """The accuracy for counts of areas in population classes, with the variances in each area of the noise alone and of
    the estimator in use, and the errors of a run on made-up people."""
    classes = population * len(metrics.SIZE_BINS) + metrics.bin_of(metrics.SIZE_BINS, truth)
    tallies = {
        divmod(key, len(metrics.SIZE_BINS)): part for key, part in metrics.tally_by(truth, released, classes).items()
    }
    bins = len(metrics.POPULATION_BINS)
    noise, of_estimator = (
        NoiseAlone(
            np.bincount(population, minlength=bins),
            np.bincount(population, variance, minlength=bins).astype(np.float64),
            np.bincount(population, np.sqrt(variance), minlength=bins).astype(np.float64),
        )
        for variance in variances
    )
    return AreaAccuracy(*named, tallies, noise, of_estimator, made_up)


def pooled(parts: list[AreaAccuracy], cell: str) -> AreaAccuracy:
    """Several cells of one query as one: each area counts once for each cell."""
    tallies: dict[tuple[int, int], list[metrics.ErrorTally]] = {}
    for part in parts:
        for key, one in part.tallies.items():
            tallies.setdefault(key, []).append(one)
    noise, of_estimator, made_up = parts[0].noise, parts[0].noise_of_estimator, parts[0].made_up
    for part in parts[1:]:
        noise, of_estimator = noise + part.noise, of_estimator + part.noise_of_estimator
        made_up = None if made_up is None or part.made_up is None else made_up + part.made_up
    added = {key: metrics.add_tallies(listed) for key, listed in tallies.items()}
    return AreaAccuracy(parts[0].geography, parts[0].query, cell, added, noise, of_estimator, made_up)


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
        problem, manifest = comparison.problem, SealedRelease.of(run.release).manifest_sha256
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
