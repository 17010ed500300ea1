"""What figures of a release are off by, learnt from replicates: pooled by kind of area, query and size.

A replicate is the release made again with fresh noise, its own records taken for the truth: with r0 the figure of the
release and r that of a replicate, r - r0 is an error whose truth is known. There are two questions, and two classes:

    of a figure whose true size is known     errors with r0 in the class:  bias, mse, sd
    of a figure that *shows* this size       errors with r in the class:   mse_shown, and quantiles of |r - r0|

The second is what a reader has: figures are looked at because of what they show, and a figure that shows 3 is more
often one that gained than one that lost. Pooled over all cells of a class the numbers are far less noisy than those of
one cell in 25 replicates, and they are never zero because one cell happened not to move.

Histograms are sparse (blocks x cells); all sums are whole numbers, so that no order of replicates shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from scipy.special import stdtrit

from confide.arrays import Floats, Integers
from confide.estimation.tree_gls import PlacedAreas, SpineUnits
from confide.estimation.unified_intervals import WholeIntervals, checked_level, normal_quantile
from confide.geography import AreaSet
from confide.mechanisms.topdown.figure_noise import EDGES, SIZES, areas_there, size_class, size_names
from confide.mechanisms.topdown.output.accuracy import described
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.schema import NO_GROUP

QUANTILES = (0.9, 0.95, 0.99)
ZERO_FLOOR = 0.95
"""The margin of a figure that shows zero is not below this quantile of its class."""
DEGREES = 5
"""Degrees of freedom of the t law that multiplies a root mean squared error: errors have heavier tails than normal."""
OFF_SPINE = "off the spine"
ON_SPINE = 0.8
"""A kind of area is on the spine if at least this share of its areas are single units of it."""


@dataclass(frozen=True, eq=False)
class AreaKind:
    """The areas of one kind: an official level of the frame, or areas beside it."""

    name: str
    codes: tuple[str, ...]
    members: Any
    """Areas x blocks of the spine, sparse, ones and zeros; areas without a block of the spine are left out."""
    single: float
    """The share of the areas that are single units of the spine."""

    @property
    def on_spine(self) -> bool:
        return self.single >= ON_SPINE

    @property
    def areas(self) -> int:
        return int(self.members.shape[0])


def area_kind(problem: TopDownProblem, areas: AreaSet) -> AreaKind:
    """Areas over the rows of the frame, without those that have no block on the spine."""
    spine = problem.spine
    members = counts_of_spine(areas.members(len(spine.block_of_row)), spine.rows)
    there = np.flatnonzero(members.getnnz(axis=1))
    level = PlacedAreas.on(areas, spine.block_of_row, SpineUnits(spine.parents)).level[there]
    codes = tuple(areas.codes[number] for number in there.tolist())
    return AreaKind(areas.kind, codes, members[there], float((level >= 0).mean()) if len(there) else 0.0)


def area_kinds(problem: TopDownProblem) -> list[AreaKind]:
    """Every official level and every kind of area of the frame."""
    return [area_kind(problem, areas) for areas in areas_there(problem.spine).values()]


def query_matrix(problem: TopDownProblem, query: str) -> Any:
    """Cells of the histogram x cells of a query, sparse."""
    groups = problem.groups(query)
    counted = np.flatnonzero(groups != NO_GROUP)
    width = problem.strategy.query(query).cells
    return sp.csr_matrix((np.ones(len(counted), np.int64), (counted, groups[counted])), shape=(problem.cells, width))


class PossibleCells:
    """How many cells of a query the areas of a kind can have: neither structural zeros, nor what the frame excludes."""

    def __init__(self, problem: TopDownProblem):
        allowed = ~problem.strategy.constraints.zero_cells(problem.strategy.schema)
        limits = problem.limits(problem.spine.levels[-1])
        names = list(limits)
        open_groups = [limits[name][1] > 0 for name in names]
        patterns = np.concatenate([np.ones((len(problem.spine.rows), 1), bool), *open_groups], axis=1)
        listed, kind = np.unique(patterns, axis=0, return_inverse=True)
        start = 1
        cells = np.repeat(allowed[None], len(listed), axis=0)
        for name, groups in zip(names, open_groups, strict=True):
            own = listed[:, start : start + groups.shape[1]]
            cells &= own[:, problem.groups(name)]
            start += groups.shape[1]
        rows = np.arange(len(problem.spine.rows))
        self._cells = cells
        self._kind = sp.csr_matrix((np.ones(len(rows), np.int64), (rows, kind.reshape(-1))))

    def number(self, kind: AreaKind, query: Any) -> int:
        """Possible cells of a query, all areas of a kind together."""
        present = (kind.members @ self._kind).toarray() > 0
        sets, times = np.unique(present, axis=0, return_counts=True)
        reached = np.asarray((self._cells.astype(np.int64) @ query) > 0)
        return int(sum(count * reached[row].any(axis=0).sum() for row, count in zip(sets, times, strict=True)))


@dataclass(eq=False)
class ReplicateTally:
    """The errors of one query in all areas of one kind, replicate after replicate."""

    released: Any
    """The figures of the release: areas x cells of the query, sparse."""
    possible: int
    replicates: int = 0
    total: Integers = field(default_factory=lambda: np.zeros(len(SIZES), np.int64))
    squares: Integers = field(default_factory=lambda: np.zeros(len(SIZES), np.int64))
    shown: Integers = field(default_factory=lambda: np.zeros(len(SIZES), np.int64))
    shown_squares: Integers = field(default_factory=lambda: np.zeros(len(SIZES), np.int64))
    moved: list[Integers] = field(default_factory=lambda: [np.zeros(1, np.int64) for _ in SIZES])
    """By class that is shown, how many errors have each absolute value; zeros are counted at the end."""
    errors: ErrorTable = field(default_factory=lambda: ErrorTable(len(SIZES)))
    """The same errors by the class of the truth and that of what is shown."""

    def __post_init__(self) -> None:
        self._keys, self._values = _entries(self.released)
        self._by_cell = np.zeros(len(self._keys), np.int64)
        self._other: list[tuple[Integers, Integers]] = []

    @cached_property
    def cells(self) -> Integers:
        """How many figures of the release are of each class."""
        sizes = np.bincount(size_class(self._values), minlength=len(SIZES))
        sizes[0] = self.possible - len(self._values)
        return sizes

    def add(self, figures: Any) -> None:
        """One more replicate."""
        keys, values = _entries(figures)
        place = np.searchsorted(self._keys, keys)
        known = np.zeros(len(keys), bool)
        inside = place < len(self._keys)
        known[inside] = self._keys[place[inside]] == keys[inside]
        before = np.zeros(len(keys), np.int64)
        before[known] = self._values[place[known]]
        # Figures of the release that the replicate has as zero.
        lost = np.ones(len(self._keys), bool)
        lost[place[known]] = False
        error = np.concatenate([values - before, -self._values[lost]])
        was = np.concatenate([before, self._values[lost]])
        shows = np.concatenate([values, np.zeros(int(lost.sum()), np.int64)])
        old, new = size_class(was), size_class(shows)
        _add(self.total, old, error)
        _add(self.squares, old, error * error)
        _add(self.shown_squares, new, error * error)
        _add(self.shown, size_class(values), np.ones(len(values), np.int64))
        self.shown[0] += self.possible - len(values)
        for number in range(len(SIZES)):
            self.moved[number] = _longer(self.moved[number], np.bincount(np.abs(error[new == number])))
        self.errors.add(old, new, -error, self.possible - len(error))
        self._by_cell[place[known]] += (values[known] - before[known]) ** 2
        self._by_cell[lost] += self._values[lost] ** 2
        self._other.append((keys[~known], values[~known] ** 2))
        self.replicates += 1

    def rows(self, made_up: ReplicateTally | None = None) -> list[dict[str, Any]]:
        """One row for each class that some figure of the release, or of a replicate, is of.

        Margins hold in replicates, and in releases of made-up people if their tally is given.
        """
        result = []
        cell_roots = self._roots()
        margins = self._margins(cell_roots[0], [] if made_up is None else [made_up.errors])
        for number, (size, (low, high)) in enumerate(zip(size_names(), SIZES, strict=True)):
            cells, shown = int(self.cells[number]), int(self.shown[number])
            if not (cells or shown):
                continue
            draws = cells * self.replicates
            bias, mse = (float(sums[number] / draws) if draws else 0.0 for sums in (self.total, self.squares))
            quantiles = _quantiles(self.moved[number], shown)
            floor = _quantile_with_zeros(cell_roots[number], cells, ZERO_FLOOR)
            result.append(
                {
                    "size": size,
                    "low": low,
                    "high": high,
                    "cells": cells,
                    "bias": bias if draws else None,
                    "mse": mse if draws else None,
                    "sd": float(np.sqrt(max(mse - bias * bias, 0.0))) if draws else None,
                    "rmse_p95": floor if draws else None,
                    "shown": shown,
                    "mse_shown": float(self.shown_squares[number] / shown) if shown else None,
                    **{
                        f"p{round(100 * q)}_shown": value if shown else None
                        for q, value in zip(QUANTILES, quantiles, strict=True)
                    },
                    **{name: int(ends[number]) if shown else None for name, ends in margins.items()},
                    "mse_made_up": None if made_up is None else made_up.mse_shown(number),
                }
            )
        return result

    def mse_shown(self, number: int) -> float | None:
        """The mean squared error of figures that show a class; none where too few do."""
        shown = int(self.shown[number])
        enough = shown >= LEAST_FIGURES * max(self.replicates, 1)
        return float(self.shown_squares[number] / shown) if enough else None

    def _margins(self, zero_roots: Floats, others: list[ErrorTable]) -> dict[str, Integers]:
        """How far below and above a figure of each class the truth may be, for each level: no less for a higher one."""
        floor = _quantile_with_zeros(zero_roots, int(self.cells[0]), ZERO_FLOOR)
        result: dict[str, Integers] = {}
        last = np.zeros((2, len(SIZES)), np.int64)
        for q in QUANTILES:
            ends = class_margins([self.errors, *others], q, zero_floor=floor, zero_most=int(EDGES[1]) - 1)
            last = np.maximum(last, [ends.below, ends.above])
            result |= {f"below_{round(100 * q)}": last[0], f"above_{round(100 * q)}": last[1]}
        return result

    def _roots(self) -> list[Floats]:
        """By class, the root mean squared error of each cell that ever moved."""
        classes = size_class(self._values)
        roots = [np.sqrt(self._by_cell[classes == number] / max(self.replicates, 1)) for number in range(len(SIZES))]
        if self._other:
            keys = np.concatenate([key for key, _ in self._other])
            squares = np.concatenate([square for _, square in self._other])
            _, place = np.unique(keys, return_inverse=True)
            roots[0] = np.sqrt(np.bincount(place.reshape(-1), squares) / max(self.replicates, 1))
        return roots


def _entries(matrix: Any) -> tuple[Integers, Integers]:
    """Places (row times width plus column, rising) and values of a sparse matrix, without zeros."""
    by_row = matrix.tocsr()
    by_row.sum_duplicates()
    by_row.eliminate_zeros()
    row = np.repeat(np.arange(by_row.shape[0], dtype=np.int64), np.diff(by_row.indptr))
    return row * by_row.shape[1] + by_row.indices, by_row.data.astype(np.int64)


def _add(into: Integers, classes: Integers, values: Integers) -> None:
    np.add.at(into, classes, values)


def _longer(one: Integers, other: Integers) -> Integers:
    """The sum of two lists of counts, the shorter filled with zeros."""
    result = np.zeros(max(len(one), len(other)), np.int64)
    result[: len(one)] += one
    result[: len(other)] += other
    return result


def _quantiles(moved: Integers, number: int) -> list[int]:
    """The smallest m that so many absolute errors do not exceed; ``moved`` has the errors that are not zero."""
    if not number:
        return [0 for _ in QUANTILES]
    counts = moved.copy()
    counts[0] += number - moved.sum()
    reached = np.cumsum(counts)
    return [int(np.searchsorted(reached, q * number)) for q in QUANTILES]


def _quantile_with_zeros(values: Floats, number: int, q: float) -> float:
    """The quantile of ``number`` values; those that are not listed are zero."""
    place = int(np.ceil(q * number)) - 1 - (number - len(values))
    return float(np.sort(values)[place]) if place >= 0 and len(values) else 0.0


Tallies = Mapping[tuple[str, str], ReplicateTally]
"""By kind of area and query."""


def tallied(problem: TopDownProblem, truth: Any, releases: Iterable[Any]) -> Tallies:
    """The errors of releases whose truth is known, for every kind of area and query.

    Args:
        problem: Strategy, frame and spine.
        truth: Histograms, blocks of the spine x cells, sparse: those of the release, or of made-up people.
        releases: Those of each replicate, or release of made-up people; read once.
    """
    areas = area_kinds(problem)
    queries = {name: query_matrix(problem, name) for name in problem.strategy.measured}
    possible = PossibleCells(problem)
    tallies = {
        (kind.name, name): ReplicateTally(kind.members @ truth @ matrix, possible.number(kind, matrix))
        for kind in areas
        for name, matrix in queries.items()
    }
    for histograms in releases:
        for kind in areas:
            of_areas = kind.members @ histograms
            for name, matrix in queries.items():
                tallies[kind.name, name].add(of_areas @ matrix)
    return tallies


def pooled_rows(problem: TopDownProblem, replicates: Tallies, made_up: Tallies | None = None) -> list[dict[str, Any]]:
    """The pooled errors of every kind of area, query and size class, with their margins.

    Args:
        problem: Strategy, frame and spine.
        replicates: The errors of replicates (:func:`tallied`).
        made_up: Those of releases of made-up people, if there are any.
    """
    kinds = {kind.name: kind for kind in area_kinds(problem)}
    return [
        {"kind": name, "areas": kinds[name].areas, "on_spine": kinds[name].on_spine, "query": query} | row
        for (name, query), tally in replicates.items()
        for row in tally.rows(None if made_up is None else made_up[name, query])
    ]


@dataclass(frozen=True)
class CalibratedFactor:
    """How much larger errors are than replicates say, for some areas and one query: from people of known truth."""

    areas_of: str
    """``off the spine``, or the smallest areas by their name."""
    query: str
    areas: int
    ratio: float
    """Of root mean squared errors: realised over those of replicates."""
    standard_error: float
    """Of the ratio, from what differs between areas."""

    @property
    def factor(self) -> float:
        """What errors of these areas are multiplied by, where a class has none of its own: never less than 1."""
        return max(1.0, self.ratio)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "areas_of": self.areas_of,
            "query": self.query,
            "areas": self.areas,
            "ratio": self.ratio,
            "standard_error": self.standard_error,
            "factor": self.factor,
        }


def calibrated_factors(
    problem: TopDownProblem, rows: Sequence[Mapping[str, Any]], truth: Any, releases: Iterable[Any]
) -> list[CalibratedFactor]:
    """The ratios for every query, off the spine and in the smallest areas, from made-up people and releases of them.

    The squared error of a figure is divided by the mean squared error that replicates have for figures
    of its kind of area that show its size; the mean of these quotients is the square of the ratio. Figures that show
    zero are left out: most of them are cells that nobody is in.

    Args:
        problem: Strategy, frame and spine.
        rows: The pooled errors of replicates (:func:`pooled_rows`).
        truth: The histograms of the made-up people, blocks x cells, sparse.
        releases: Those of their releases.
    """
    kinds = [kind for kind in area_kinds(problem) if calibrated_with(problem, kind) is not None]
    expected = {(row["kind"], row["query"], row["size"]): row["mse_shown"] or 0.0 for row in rows}
    queries = {name: query_matrix(problem, name) for name in problem.strategy.measured}
    sums = {(kind.name, query): np.zeros((2, kind.areas)) for kind in kinds for query in queries}
    for histograms in releases:
        for kind in kinds:
            figures = [kind.members @ counts for counts in (truth, histograms)]
            for query, matrix in queries.items():
                mse = np.array([expected.get((kind.name, query, size), 0.0) for size in size_names()])
                was, shows = (figure @ matrix for figure in figures)
                sums[kind.name, query] += _quotients(was, shows, mse)
    result = []
    for name in dict.fromkeys(calibrated_with(problem, kind) for kind in kinds):
        together = [kind.name for kind in kinds if calibrated_with(problem, kind) == name]
        for query in queries:
            quotients, number = np.concatenate([sums[kind, query] for kind in together], axis=1)
            if number.sum() and quotients.sum():
                squared = quotients.sum() / number.sum()
                error = float(np.sqrt(((quotients - squared * number) ** 2).sum()) / number.sum())
                ratio, areas = float(np.sqrt(squared)), int((number > 0).sum())
                result.append(CalibratedFactor(str(name), query, areas, ratio, error / (2 * ratio)))
    return result


def calibrated_with(problem: TopDownProblem, kind: AreaKind) -> str | None:
    """Whose factor the areas of a kind have: all off the spine have one, the smallest areas another; others none."""
    if not kind.on_spine:
        return OFF_SPINE
    return kind.name if kind.name == problem.frame.spine.levels[-1].name else None


def class_factor(row: Mapping[str, Any], otherwise: float) -> float:
    """What the root mean squared error of a class is multiplied by: never less than 1.

    Args:
        row: Pooled errors of the class, of replicates and of made-up people.
        otherwise: The factor where the class has too few figures of made-up people for one of its own.
    """
    if row["mse_made_up"] is None or not row["mse_shown"]:
        return otherwise
    return max(1.0, float(np.sqrt(row["mse_made_up"] / row["mse_shown"])))


def _quotients(truth: Any, released: Any, mse: Floats) -> Floats:
    """For each area the sum of squared errors over their expectation, and how many there are: 2 x areas."""
    (was, true), (keys, shows) = _entries(truth), _entries(released)
    before = np.zeros(len(keys), np.int64)
    place = np.searchsorted(was, keys)
    known = place < len(was)
    known[known] = was[place[known]] == keys[known]
    before[known] = true[place[known]]
    expected = mse[size_class(shows)]
    usable = expected > 0
    quotient = (shows - before)[usable].astype(np.float64) ** 2 / expected[usable]
    area, areas = keys[usable] // released.shape[1], released.shape[0]
    return np.array([np.bincount(area, quotient, minlength=areas), np.bincount(area, minlength=areas)])


def record_intervals(
    released: Integers, rmse: Floats, level: float, *, floor: Floats | float = 0.0, factor: float = 1.0
) -> WholeIntervals:
    """Margins for figures of the records: r ± t·rmse outward to whole numbers, not below zero.

    Args:
        released: Figures of the release.
        rmse: For each its root mean squared error, from its cell or pooled.
        level: The coverage.
        floor: The least half width; for figures that are zero the ``rmse_p95`` of their class.
        factor: What the half width is multiplied by.
    """
    half = factor * np.maximum(stdtrit(DEGREES, (1 + checked_level(level)) / 2) * np.asarray(rmse), floor)
    low = np.maximum(np.floor(released - half), 0).astype(np.int64)
    return WholeIntervals(low, np.ceil(released + half).astype(np.int64))


def rows_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Pooled errors as a table, with what each column is."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


SCHEMA = pa.schema(
    [
        described("kind", "kind of area: a level of the frame, or areas beside it", pa.string()),
        described("areas", "how many areas of the kind have somebody who could live there", pa.int64()),
        described("on_spine", "whether the areas are units of the spine", pa.bool_()),
        described("query", "query of the strategy", pa.string()),
        described("size", "class of figures", pa.string()),
        described("low", "least figure of the class", pa.int64()),
        described("high", "largest figure of the class", pa.int64()),
        described("cells", "figures of the release in the class", pa.int64()),
        described("bias", "mean error of replicates, for figures of the release in the class", pa.float64()),
        described("mse", "mean squared error of replicates about the release, for these", pa.float64()),
        described("sd", "root of what is left of it without the bias", pa.float64()),
        described(
            "rmse_p95", "95th percentile, over these figures, of the root mean squared error of one", pa.float64()
        ),
        described("shown", "figures of replicates in the class", pa.int64()),
        described("mse_shown", "mean squared error of these", pa.float64()),
        *(
            described(f"p{round(100 * q)}_shown", f"what {q:.0%} of their absolute errors do not exceed", pa.int64())
            for q in QUANTILES
        ),
        *(
            described(
                f"{side}_{round(100 * q)}",
                f"how far {side} a figure that shows this size the truth may be, at {q:.0%}",
                pa.int64(),
            )
            for q in QUANTILES
            for side in ("below", "above")
        ),
        described("mse_made_up", "mean squared error of figures of made-up releases in the class", pa.float64()),
        described("factor", "how much larger errors are than replicates say, from made-up people", pa.float64()),
    ]
)


def counts_of_spine(counts: Any, rows: Integers) -> Any:
    """Columns for the blocks of a frame as columns for those of its spine: ``rows`` are the blocks that it has."""
    return counts.tocsc()[:, rows].tocsr()


# How far the truth may be from a released figure: margins that hold for what is shown, and for what is true.
#
# Figures are pooled by kind of area, query and class of size. Two people ask two questions of the same margins:
#
#     whoever looks at a figure because of what it shows:   of the figures that *show* a size, how many are covered?
#     whoever had a group in mind before looking:           of the figures that *have* a size, how many are covered?
#
# A margin that is learnt from the first question alone says of a block that shows nobody of a group that there is
# nobody, which is right for nearly all such blocks and wrong for most of the small groups that there are. So margins
# answer both. They are learnt where the truth is known: from replicates, whose truth is the release, and from releases
# of made-up people (:mod:`confide.mechanisms.topdown.made_up`), which are as uneven as the true ones. For a class c of
# figures that are shown, an interval is from r - below(c) to r + above(c):
#
# 1. *By what is shown.* The shortest interval that covers a share q of the figures of the class in each of the two
#    sets: q = p + z sqrt(p (1 - p) / n) for a class of n figures in a release. It is a *tolerance limit*: few figures
#    say little of all that could be, so that more of them must be covered. With z = 1.645 a fixed interval that covers
#    a share q of n figures covers a share p of all with a confidence of 95 per cent; that the shortest is taken costs
#    some.
# 2. *By what is true.* As long as fewer than 0.9 p + 0.1 of the figures of some true size are covered in one of the
#    sets, the end of some class is moved outward: whichever covers most of what is missing for the width that it costs.
#    The interval of zeros is widened for the sake of the next class alone, and no other class so far that nearly all of
#    its figures are covered; what is then still missing stays so.
#
# Both are fixed by class before any figure is looked at, and neither uses the truth of the release. What they cover was
# measured against it: ``docs/concepts/inference.md``.


CONFIDENCE = normal_quantile(0.9)
"""z: so many standard errors of a share are added to it; a confidence of 95 per cent on one side."""
MOST_OF_THE_REST = 0.7
"""No class that is shown, but for zeros, is covered beyond this share of the way from the level to 1 in both sets
because of what is true: 0.97 for 0.9, which is the most that we aim at."""
SPARSER = 0.1
"""The share of figures of a true size is asked to be higher by so much of the rest, 0.91 for 0.9: small groups that a
release has are those that noise was kind to, and it loses true ones a little more often. Tried with others on releases
that serve for nothing else: ``docs/concepts/replicates.md``."""
LEAST_FIGURES = 100
"""True sizes that fewer figures of a release have are not looked at by themselves."""


@dataclass(eq=False)
class ErrorTable:
    """How far the truth is from what is shown, for every pair of a true class and one that is shown."""

    classes: int
    releases: int = 0
    both_zero: int = 0
    """Figures that are zero and show zero; they are in no pair."""
    _pairs: dict[tuple[int, int], Integers] = field(default_factory=dict)

    def add(self, true: Integers, shown: Integers, distance: Integers, both_zero: int) -> None:
        """The figures of one more release: the class that each has, the class that it shows, truth minus shown."""
        for pair in np.unique(true * self.classes + shown).tolist():
            key = divmod(pair, self.classes)
            own = distance[(true == key[0]) & (shown == key[1])]
            reach = int(np.abs(own).max())
            self._pairs[key] = _sum(self._pairs.get(key), np.bincount(own + reach, minlength=2 * reach + 1))
        self.both_zero += both_zero
        self.releases += 1

    @property
    def reach(self) -> int:
        """The largest distance."""
        return max((len(counts) // 2 for counts in self._pairs.values()), default=0)

    def counts(self, reach: int) -> Integers:
        """How many figures: classes that are true x classes that are shown x distances from -reach to reach."""
        result = np.zeros((self.classes, self.classes, 2 * reach + 1), np.int64)
        for key, counts in self._pairs.items():
            far = len(counts) // 2
            result[key][reach - far : reach + far + 1] = counts
        result[0, 0, reach] += self.both_zero
        return result


def _sum(one: Integers | None, other: Integers) -> Integers:
    """The sum of two lists of counts whose middle is zero."""
    if one is None:
        return other
    short, long = sorted((one, other), key=len)
    result, gap = long.copy(), (len(long) - len(short)) // 2
    result[gap : gap + len(short)] += short
    return result


@dataclass(frozen=True, eq=False)
class ClassMargins:
    """How far below and above a figure the truth may be, by class that is shown."""

    below: Integers
    above: Integers


def class_margins(
    tables: Sequence[ErrorTable], level: float, *, zero_floor: float = 0.0, zero_most: int = 4
) -> ClassMargins:
    """Margins of the stated coverage, by what is shown and by what is true.

    Args:
        tables: The errors of replicates, and those of releases of made-up people if there are any.
        level: The coverage.
        zero_floor: What the margin of a figure that shows zero is at least.
        zero_most: How far step 2 may widen it: the largest figure of the next class.

    Returns:
        Both margins of each class; zero for classes that nothing shows.
    """
    checked_level(level)
    reach = max((table.reach for table in tables), default=0)
    known = [_Known(table.counts(reach), reach, table.releases) for table in tables if table.releases]
    ends = [_shortest(known, size, level) for size in range(tables[0].classes)]
    below, above = (np.array(side, np.int64) for side in zip(*ends, strict=True))
    if any(one.shown[0] for one in known):
        above[0] = max(above[0], int(np.ceil(zero_floor)))
    margins = ClassMargins(below, above)
    while (better := _extended(known, margins, level, zero_most)) is not None:
        margins = better
    return margins


class _Known:
    """Errors of one set of releases, summed up so that what an interval covers is a difference."""

    def __init__(self, counts: Integers, reach: int, releases: int):
        self.middle = reach
        self.up_to = np.cumsum(counts, axis=2)
        self.shown = counts.sum(axis=(0, 2))
        self.true = counts.sum(axis=(1, 2))
        self.releases = releases

    def needed_above(self, size: int, level: float) -> Integers:
        """Step 1: for each margin below, from 0 on, the smallest one above; beyond the largest where there is none."""
        of_class = self.up_to[:, size].sum(axis=0)
        left_out = np.concatenate([of_class[: self.middle][::-1], [0]])
        asked = float(_asked(level, np.array(self.shown[size] / self.releases))) * self.shown[size]
        place = np.searchsorted(of_class, left_out + asked)
        return np.where(place < len(of_class), np.maximum(place - self.middle, 0), 2 * self.middle + 1)

    def covered(self, margins: ClassMargins) -> Integers:
        """How many figures intervals cover: classes that are true x classes that are shown."""
        classes = np.arange(len(self.shown))
        top = self.up_to[:, classes, np.minimum(self.middle + margins.above, 2 * self.middle)]
        bottom = self.middle - margins.below - 1
        return np.asarray(top - np.where(bottom >= 0, self.up_to[:, classes, np.maximum(bottom, 0)], 0))

    def missing(self, covered: Integers, level: float) -> Floats:
        """Step 2: how many figures of each true class more must be covered; none of classes with few figures."""
        asked = (level + SPARSER * (1 - level)) * self.true
        enough = self.true >= LEAST_FIGURES * self.releases
        return np.where(enough, np.maximum(asked - covered.sum(axis=1), 0.0), 0.0)


def _shortest(known: Sequence[_Known], size: int, level: float) -> tuple[int, int]:
    """The shortest interval of errors that is long enough in each set; of equally short ones the most even."""
    if not any(one.shown[size] for one in known):
        return 0, 0
    above = np.max([one.needed_above(size, level) for one in known], axis=0)
    below = np.arange(len(above))
    best = np.lexsort((np.abs(above - below), below + above))[0]
    return int(below[best]), int(above[best])


def _asked(level: float, figures: Floats) -> Floats:
    """The share of figures that must be covered, for so many figures in a release."""
    standard_error = np.sqrt(level * (1 - level) / np.maximum(figures, 1e-9))
    return np.asarray(np.minimum(level + CONFIDENCE * standard_error, 1.0))


def _extended(known: Sequence[_Known], margins: ClassMargins, level: float, zero_most: int) -> ClassMargins | None:
    """One end of one class moved outward; None if nothing is missing, or nothing helps."""
    covered = [one.covered(margins) for one in known]
    missing = [one.missing(number, level) for one, number in zip(known, covered, strict=True)]
    if not any(number.any() for number in missing):
        return None
    shown = np.sum([one.shown / one.releases for one in known], axis=0)
    most = level + MOST_OF_THE_REST * (1 - level)
    best: tuple[float, ClassMargins] | None = None
    for size in np.flatnonzero(shown).tolist():
        for side in ("below", "above"):
            room = zero_most - int(margins.above[0]) if size == 0 else known[0].middle
            step = 1
            while step <= room:
                ends = {"below": margins.below.copy(), "above": margins.above.copy()}
                ends[side][size] += step
                tried = ClassMargins(**ends)
                after = [one.covered(tried) for one in known]
                if size and all(c[:, size].sum() > most * one.shown[size] for c, one in zip(after, known, strict=True)):
                    break
                gain = 0.0
                for one, now, before, lacks in zip(known, after, covered, missing, strict=True):
                    more = now.sum(axis=1) - before.sum(axis=1)
                    gain += float((np.minimum(more, lacks) / np.maximum(one.true, 1)).sum())
                worth = gain / (step * float(shown[size]))
                if gain > 0 and (best is None or worth > best[0]):
                    best = worth, tried
                step += max(1, step // 2)
    return None if best is None else best[1]
