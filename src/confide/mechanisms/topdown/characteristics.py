"""What an evaluation looks at: the characteristics of the records, and the areas in which they are counted.

Characteristics are the total, every attribute and recode of the schema, the queries of the strategy, and those that the
file of the schema under ``data/evaluation`` adds, as long as they have few cells. Areas are the units of all official
levels, the areas beside the spine, and the units that the spine itself makes: block groups, and the parts into which
it splits official units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.documents import load_shipped, shipped
from confide.errors import SpecError
from confide.geography import OUTSIDE, AreaSet, Geolevel
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.strategy import Strategy, groups_of, resolve
from confide.schema import Query, Schema
from confide.utility import metrics

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
