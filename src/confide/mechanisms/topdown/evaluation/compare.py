"""``evaluate``: the released records against the truth, for the curator alone.

Both are counted by block and cell of the histogram, sparsely, and added up to the areas of each geography in turn; then
one characteristic after the other is looked at in all areas. So memory holds the non-zero counts of one geography and
a few numbers for each of its areas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.confidential import Confidential
from confide.engines import Engine, Source
from confide.engines.groups import private_folder, write_parquet
from confide.engines.protocol import Format, cell_index
from confide.errors import Place, ReleaseError
from confide.inputs.records import column_expressions
from confide.mechanisms.topdown.evaluation.characteristics import (
    ALL_CELLS,
    MOST_SHOWN,
    Accuracy,
    Characteristic,
    Geography,
    Measures,
    accuracy,
    characteristics,
    geographies,
    measures_of,
    pooled,
)
from confide.mechanisms.topdown.evaluation.theory import Theory
from confide.mechanisms.topdown.output.settings import RECORDS
from confide.mechanisms.topdown.problem import Question
from confide.mechanisms.topdown.strategies.strategy import DETAILED
from confide.releases.evaluate import no_truth, require_sealed
from confide.releases.workspace import Workspace
from confide.utility import LargestGroup, LargestGroups
from confide.utility.metrics import LEAST_PEOPLE, POPULATION_BINS, bin_of

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

FIXED = frozenset({"areas", "number_of_cells", "zeros", "mean_truth", "noise_alone", "units", "least_people"})
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
class Evaluation:
    """Everything that one release says when it is held against the truth."""

    noun: str
    geographies: tuple[Geography, ...]
    characteristics: tuple[Characteristic, ...]
    accuracy: tuple[Accuracy, ...]
    largest_group: tuple[LargestGroupShare, ...]
    totals: dict[str, AreaTotals]

    def as_dict(self) -> dict[str, Any]:
        return {
            "noun": self.noun,
            "geographies": [{"name": g.name, "kind": g.kind, "units": g.units} for g in self.geographies],
            "queries": [{"name": c.name, "title": c.title, "number_of_cells": c.cells} for c in self.characteristics],
            "accuracy": [row.as_dict() for row in self.accuracy],
            "largest_group": [row.as_dict() for row in self.largest_group],
        }


@dataclass(frozen=True)
class _Counts:
    """The non-zero counts of the areas of a geography: area, cell of the histogram, true and released count."""

    areas: int
    area: NDArray[np.int32]
    cell: NDArray[np.int32]
    truth: NDArray[np.int32]
    released: NDArray[np.int32]

    def cells_of(self, asked: Characteristic) -> Iterator[tuple[Integers, Integers]]:
        """For each cell of a query its true and its released count in every area."""
        group = asked.groups.astype(np.int32)[self.cell]
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(asked.cells + 1))
        for first, last in pairwise(ends):
            rows = order[first:last]
            yield self._summed(rows, self.truth), self._summed(rows, self.released)

    def _summed(self, rows: NDArray[np.intp], counts: NDArray[np.int32]) -> Integers:
        # Sums of whole numbers as doubles are exact far beyond any count of people.
        return np.bincount(self.area[rows], counts[rows], minlength=self.areas).astype(np.int64)


class Comparison:
    """What is compared, and the noise alone: the same for every release of a question."""

    def __init__(self, question: Question):
        self.question = question
        self.geographies = geographies(question)
        self.measures = measures_of(question.strategy.schema)
        also = (*self.measures.queries, *self.measures.largest_group)
        self.characteristics = characteristics(question.strategy, also)
        self._theory = Theory(question)

    @cached_property
    def variances(self) -> dict[str, Floats]:
        """For each query the variances of its cells within a unit of each level: cells x levels."""
        sets = [one.groups[None, :] == np.arange(one.cells)[:, None] for one in self.characteristics]
        stacked = self._theory.variances(np.concatenate(sets))
        parts = np.split(stacked, np.cumsum([len(part) for part in sets])[:-1])
        return {one.name: part for one, part in zip(self.characteristics, parts, strict=True)}

    def noise(self, geography: Geography) -> dict[bool, Floats]:
        """What each level adds to the variance of each unit: for the total, and for what is not the total."""
        return {
            total: self._theory.contributions(geography.unit_of_block, geography.units, total=total)
            for total in (True, False)
        }


def evaluate(
    comparison: Comparison,
    workspace: Workspace,
    engine: Engine,
    *,
    totals_of: Collection[str] = (),
    advance: Callable[[int], None] = lambda _: None,
) -> Confidential[Evaluation]:
    """Compares the released records with the true ones. The result tells of the truth and stays with the curator.

    ``totals_of`` names geographies whose totals are kept area by area. ``advance`` is called once for each geography.
    """
    require_sealed(workspace)
    histogram = workspace.counts / "histogram.parquet"
    if not histogram.exists():
        raise no_truth(histogram)
    measures, asked = comparison.measures, comparison.characteristics
    folder = private_folder(workspace.scratch / "evaluation")
    places = _write_places(comparison, folder)
    pairs = _write_pairs(comparison.question, workspace, engine, histogram, folder)
    rows: list[Accuracy] = []
    shares: list[LargestGroupShare] = []
    totals: dict[str, AreaTotals] = {}
    for number, geography in enumerate(comparison.geographies):
        counts = _counts(engine, pairs, places, number, geography)
        noise = comparison.noise(geography)
        ((true_total, total),) = counts.cells_of(asked[0])
        if geography.name in totals_of:
            totals[geography.name] = AreaTotals(geography.codes, true_total, total)
        population = bin_of(POPULATION_BINS, true_total)
        for one in asked:
            of_cells, of_levels = comparison.variances[one.name], noise[one.name == "total"]
            found, largest = _look_at(one, geography, counts, population, of_cells, of_levels)
            rows += found
            shares += _shares(one, geography, largest, measures)
        advance(1)
    shares.sort(key=lambda share: measures.largest_group.index(share.query))
    return Confidential(
        Evaluation(measures.noun, tuple(comparison.geographies), tuple(asked), tuple(rows), tuple(shares), totals)
    )


def _look_at(
    asked: Characteristic,
    geography: Geography,
    counts: _Counts,
    population: Integers,
    variances: Floats,
    contributions: Floats,
) -> tuple[list[Accuracy], LargestGroups]:
    """All cells of a query, as a whole and, if they are not many, each of them; and the largest groups."""
    parts, largest = [], LargestGroups(counts.areas)
    for label, variance, (truth, released) in zip(asked.labels, variances, counts.cells_of(asked), strict=True):
        largest.add(truth, released)
        named = (geography.name, asked.name, label)
        parts.append(accuracy(named, truth, released, population, _noise(contributions, variance)))
    shown = parts if asked.cells <= MOST_SHOWN else []
    return ([pooled(parts, ALL_CELLS), *shown] if asked.cells > 1 else shown), largest


def _shares(
    asked: Characteristic, geography: Geography, largest: LargestGroups, measures: Measures
) -> list[LargestGroupShare]:
    if asked.name not in measures.largest_group:
        return []
    return [LargestGroupShare(geography.name, asked.name, least, largest.result(least)) for least in (0, LEAST_PEOPLE)]


def _noise(contributions: Floats, variances: Floats) -> Floats:
    """Σ_ℓ k_ℓ v_ℓ for each area; a level that adds nothing need not have a variance."""
    needed = (contributions > 0).any(axis=0)
    result: Floats = contributions[:, needed] @ variances[needed]
    return result


def _write_places(comparison: Comparison, folder: Path) -> Path:
    """Every block of the frame, with its unit in each geography."""
    blocks = comparison.question.frame.spine.blocks
    columns = {"code": pa.array(np.array(blocks.codes)[blocks.unit_of_block].tolist())}
    for number, geography in enumerate(comparison.geographies):
        columns[f"g{number}"] = pa.array(geography.unit_of_block, pa.int32())
    columns["place"] = pa.array(np.arange(len(blocks.unit_of_block)), pa.int32())
    path = folder / "places.parquet"
    write_parquet(pa.table(columns), path)
    return path


def _write_pairs(question: Question, workspace: Workspace, engine: Engine, histogram: Path, folder: Path) -> Path:
    """True and released counts by block and cell, where either is not zero."""
    source = _records(workspace)
    block, strategy = question.spec.geography.block, question.strategy
    columns = column_expressions(engine, source, strategy.schema.attributes, block)
    keys = {"code": columns[block], "cell": cell_index(strategy.query(DETAILED), columns)}
    released = folder / "released.parquet"
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
        "the release has no records that could be compared with the true ones",
        where=Place(file=str(workspace.release)),
        found=f"no file tables/{RECORDS}.*",
        expected="the release as it was sealed",
        remedy="`confide verify` says what is missing; `confide replay` makes it again",
    )


def _counts(engine: Engine, pairs: Path, places: Path, number: int, geography: Geography) -> _Counts:
    text = (
        f"SELECT g{number} AS area, cell, CAST(sum(t) AS INTEGER) AS t, CAST(sum(r) AS INTEGER) AS r "
        f"FROM pairs JOIN places USING (place) WHERE g{number} >= 0 GROUP BY 1, 2"
    )
    rows = engine.sql(text, pairs=pairs, places=places).reveal("an evaluation compares the release with the truth")
    return _Counts(geography.units, *(rows.column(name).to_numpy() for name in ("area", "cell", "t", "r")))
