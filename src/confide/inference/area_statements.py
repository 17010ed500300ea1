"""What is said of areas apart from their figures, by least squares: shares, differences, quantiles, ranks, covariances.

All of it needs the covariance of counts, of one area or of two. That of two areas of a kind follows from variances:
with a + b the two together, 2 Cov(a, b) = Var(a + b) − Var(a) − Var(b).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError, Place
from confide.estimation import linear_statements
from confide.estimation.unified_intervals import WholeIntervals
from confide.geography import AreaSet
from confide.inference.asked import AskedQuery
from confide.inference.opened_source import NOT_TOLD, InferenceSource, no_measurements
from confide.inference.pooled_errors import DEGREES, QUANTILES
from confide.mechanisms.topdown.figure_noise import SIZES, size_class, size_names
from confide.releases.tabular import masked
from confide.schema import TOTAL

MOST_PAIRED = 400
"""So many areas of a kind are compared with one another."""
BLOCKS_AT_ONCE = 1 << 17
"""So many blocks of pairs of areas are looked at at once."""


@dataclass(frozen=True, eq=False)
class AreaStatements:
    """Statements about the areas of one kind."""

    source: InferenceSource
    kind: AreaSet

    @cached_property
    def blocks(self) -> list[Integers]:
        """For each area its blocks in the tree."""
        order = np.argsort(self.kind.area, kind="stable")
        ends = np.searchsorted(self.kind.area[order], np.arange(self.kind.areas + 1))
        listed = [self.source.tree_block[self.kind.block[order[a:b]]] for a, b in pairwise(ends)]
        return [blocks[blocks >= 0] for blocks in listed]

    def _estimated(self) -> None:
        if self.source.tree is None:
            raise no_measurements(self.source.folder)

    def _areas(self, counts: Sequence[Mapping[int, Floats]]) -> Iterator[tuple[str, Floats, Floats]]:
        """Every area in which somebody can be: its code, the estimates of some counts there, and their covariances."""
        self._estimated()
        answers, placed = self.source.answers, self.source.placed(self.kind)
        figures = answers.counted_in(placed, counts)
        for area, covariance in enumerate(answers.covariances_in(placed, counts)):
            if placed.pieces[area]:
                yield self.kind.codes[area], figures[area], covariance

    def shares(self, part: str, base: str, levels: Sequence[float]) -> Iterator[dict[str, Any]]:
        """The share of one count in another in every area, with Fieller's intervals, and how strongly the estimates say
        that it is more than half."""
        counts = [self.source.vocabulary.count(part), self.source.vocabulary.count(base)]
        for code, figures, v in self._areas(counts):
            x, y = figures.tolist()
            a, b = max(v[0, 0], 0.0), max(v[1, 1], 0.0)
            half = float(linear_statements.probability_majority([x], [y], a, b, v[0, 1])[0])
            for level in levels:
                interval = linear_statements.share_intervals([x], [y], a, b, v[0, 1], level)
                yield {
                    "geography": self.kind.kind,
                    "code": code,
                    "part": part,
                    "base": base,
                    "share": x / y if y else None,
                    "low": float(interval.low[0]),
                    "high": float(interval.high[0]),
                    "bounded": bool(interval.bounded[0]),
                    "level": level,
                    "more_than_half": half,
                }

    def difference(
        self, queries: Sequence[AskedQuery], one: str, other: str, levels: Sequence[float]
    ) -> list[dict[str, Any]]:
        """What one area has more than another, query by query: the difference of each figure, with its interval."""
        self._estimated()
        answers = self.source.answers
        missing = [code for code in (one, other) if code not in self.kind.codes]
        if missing:
            raise ParameterError(
                "bad-inference/codes",
                where=Place(path="--difference"),
                found=missing[0],
                kind=self.kind.kind,
                missing=missing[0],
            )
        blocks = [self.blocks[self.kind.codes.index(code)] for code in (one, other)]
        rows = []
        for query in queries:
            for words, count in zip(query.in_words(), query.counts(), strict=True):
                x, y = (float(answers.counted(part, [count])[0]) for part in blocks)
                v = answers.covariance(blocks, [count, count])
                a, b = max(v[0, 0], 0.0), max(v[1, 1], 0.0)
                for level in levels:
                    ends = linear_statements.difference_intervals([x], [y], a, b, v[0, 1], level)
                    rows.append(
                        {
                            "query": query.name,
                            "cell": words,
                            "difference": x - y,
                            "sd": float(np.sqrt(max(0.0, a + b - 2 * v[0, 1]))),
                            "low": int(ends.low[0]),
                            "high": int(ends.high[0]),
                            "level": level,
                            "first_is_larger": float(linear_statements.probability_larger([x], [y], a, b, v[0, 1])[0]),
                        }
                    )
        return rows

    def quantiles(self, attribute: str, share: float, levels: Sequence[float]) -> Iterator[dict[str, Any]]:
        """Between which levels of an ordered attribute the median lies in every area, or another quantile."""
        query = self.source.vocabulary.query(attribute)
        if len(query.variables) != 1:
            raise ParameterError("bad-inference/quantile-attribute", where=Place(path="--quantile"), found=attribute)
        (variable,) = query.variables
        counts = list(query.counts())
        for code, figures, covariance in self._areas(counts):
            for level in levels:
                ends = linear_statements.quantile_intervals(figures, covariance, share, level)
                yield {
                    "geography": self.kind.kind,
                    "code": code,
                    "attribute": attribute,
                    "quantile": share,
                    "low": variable.labels[int(ends.low)],
                    "high": variable.labels[int(ends.high)],
                    "level": level,
                }

    def ranks(self, query: AskedQuery, levels: Sequence[float]) -> Iterator[dict[str, Any]]:
        """The ranks that areas may have among those of their kind, 1 for the largest, cell by cell; and how strongly
        the estimates say that an area has the most."""
        self._estimated()
        figures = self.source.answers.figures(self.source.placed(self.kind), np.arange(self.kind.areas), query.groups)
        covariance = self.covariances(query)
        for cell, words in enumerate(query.in_words()):
            of_cell = covariance[:, :, cell]
            # An area in which nobody can be is known to have nobody.
            most = linear_statements.rank_probabilities(figures[:, cell], of_cell)[:, 0]
            order = np.argsort(np.argsort(-figures[:, cell], kind="stable"), kind="stable")
            for level in levels:
                ends = linear_statements.rank_intervals(figures[:, cell], of_cell, level)
                for area, code in enumerate(self.kind.codes):
                    yield {
                        "geography": self.kind.kind,
                        "code": code,
                        "query": query.name,
                        "cell": words,
                        "estimate": float(figures[area, cell]),
                        "rank": int(order[area]) + 1,
                        "low": int(ends.low[area]),
                        "high": int(ends.high[area]),
                        "level": level,
                        "has_the_most": float(most[area]),
                    }

    def require_pairs(self) -> None:
        """Raises where areas overlap, or are too many to be compared with one another."""
        kind = self.kind
        if kind.areas > MOST_PAIRED:
            raise ParameterError(
                "bad-inference/many",
                where=Place(path="--covariances"),
                areas=kind.areas,
                kind=kind.kind,
                most_paired=MOST_PAIRED,
            )
        if len(np.unique(kind.block)) < len(kind.block):
            raise ParameterError("bad-inference/overlap", where=Place(path="--covariances"), kind=kind.kind)

    def covariances(self, query: AskedQuery) -> Floats:
        """The covariances of the errors of a query between areas: areas x areas x cells; NaN where nothing tells them.
        Raises where areas overlap, or are too many."""
        self.require_pairs()
        kind, answers = self.kind, self.source.answers
        own = answers.variances(self.source.placed(kind), np.arange(kind.areas), query.groups)
        result = np.zeros((kind.areas, kind.areas, query.cells))
        place = np.arange(kind.areas)
        result[place, place] = own
        for pairs in self._pairs():
            parts = [np.concatenate([self.blocks[i], self.blocks[j]]) for i, j in pairs]
            pair = np.repeat(np.arange(len(pairs)), [len(part) for part in parts])
            both = answers.of_blocks(np.concatenate(parts), pair, len(pairs), query.groups)
            for (i, j), together in zip(pairs, both, strict=True):
                result[i, j] = result[j, i] = (together - own[i] - own[j]) / 2
        result[np.abs(result) > NOT_TOLD] = np.nan
        return result

    def _pairs(self) -> Iterator[list[tuple[int, int]]]:
        """All pairs of areas that have blocks, some at a time."""
        listed: list[tuple[int, int]] = []
        number = 0
        there = [area for area, blocks in enumerate(self.blocks) if len(blocks)]
        for i, j in combinations(there, 2):
            listed.append((i, j))
            number += len(self.blocks[i]) + len(self.blocks[j])
            if number > BLOCKS_AT_ONCE:
                yield listed
                listed, number = [], 0
        if listed:
            yield listed

    def covariance_rows(self, query: AskedQuery) -> pa.Table:
        """The same as rows: each pair of areas once, the variances among them."""
        matrix = self.covariances(query)
        one, other = np.triu_indices(self.kind.areas)
        codes, words = pa.array(self.kind.codes, pa.string()), query.in_words()
        cells = np.tile(np.arange(query.cells), len(one))
        values = matrix[one, other].ravel()
        return pa.table(
            {
                "query": pa.repeat(query.name, len(values)),
                "cell": pa.array(words, pa.string()).take(pa.array(cells)),
                "code": codes.take(pa.array(np.repeat(one, query.cells))),
                "other": codes.take(pa.array(np.repeat(other, query.cells))),
                "covariance": masked(values, np.isnan(values)),
            }
        )


# Which margin a figure gets: a rule that is fixed before any figure is looked at.
#
# There are two estimates of every count of an area. Least squares is unbiased and its margin is exact; the released
# records also use the fact that no count is negative, which helps most where people are few. The rule, in this order,
# for a *kind* of area, a query, and a class of released figures:
#
#     1. what is known exactly is said to be exact;
#     2. the total of units of the spine above blocks, and of areas that the spine follows: least squares;
#     3. least squares if its standard deviation, which follows from the plan alone, is not above the root mean squared
#        error of released figures of the class in replicates, and the least figure of the class is at least three such
#        standard deviations; otherwise the records.
#
# All numbers of step 3 are those of a class, not of a cell. To take for each cell whichever margin happens to be
# smaller would lose coverage: cells are then chosen for their errors. The last condition is for the same reason: that a
# release shows a small count above zero says that noise had rather moved it up, and the margin of least squares does
# not know it.
#
# Margins of records are those of a class of figures of the same kind of area and query, learnt from replicates and from
# made-up people (:mod:`~confide.inference.pooled_errors`).


Method = Literal["auto", "gls", "release"]
EXACT, LEAST_SQUARES, RECORDS, RECORDS_PLAN, RECORDS_ALONE = "exact", "gls", "release+amc", "release+plan", "release"
EYE = 3.0
"""Released figures above zero and below so many standard deviations of least squares are small, and often noise."""
METHODS = {
    EXACT: "known without error",
    LEAST_SQUARES: "least squares over all noisy measurements; the margin is exact before anybody looks at figures",
    RECORDS: "the released records; the margin is learnt from replicates",
    RECORDS_PLAN: "the released records; the margin is that of the noise alone, from the plan: an approximation",
    RECORDS_ALONE: "the released records; nothing is known of their error",
}


@dataclass(frozen=True, eq=False)
class ClassErrors:
    """What released figures of one kind of area and query are off by, by class of figures that are shown."""

    rmse: Floats
    """With the factor that was found with made-up people."""
    bias: Floats
    below: Floats
    """How far below a figure the truth may be: classes x ``QUANTILES``."""
    above: Floats
    """How far above."""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> ClassErrors | None:
        """From the pooled errors of replicates; none where there are no rows."""
        if not rows:
            return None
        by_size = {row["size"]: row for row in rows}
        rmse, bias = np.zeros(len(SIZES)), np.zeros(len(SIZES))
        below, above = np.zeros((2, len(SIZES), len(QUANTILES)))
        for number, size in enumerate(size_names()):
            row = by_size.get(size)
            if row is None or row["mse_shown"] is None:
                # No replicate shows a figure of the class: what the class below has is the nearest there is.
                if number:
                    for numbers in (rmse, bias, below, above):
                        numbers[number] = numbers[number - 1]
                continue
            rmse[number] = row["factor"] * float(np.sqrt(row["mse_shown"]))
            bias[number] = float(row["bias"] or 0.0)
            for ends, side in ((below, "below"), (above, "above")):
                ends[number] = [float(row[f"{side}_{round(100 * q)}"]) for q in QUANTILES]
        return cls(rmse, bias, below, above)

    def intervals(self, released: Integers, level: float) -> WholeIntervals:
        """Intervals for released figures, outward to whole numbers and not below zero.

        The margins of a class are those of the next tabulated level; beyond the last they grow as the t law does.
        """
        next_level = [place for place, q in enumerate(QUANTILES) if q >= level - 1e-9]
        ends = np.array([side[:, next_level[0] if next_level else -1] for side in (self.below, self.above)])
        if not next_level:
            ends *= stdtrit(DEGREES, (1 + level) / 2) / stdtrit(DEGREES, (1 + QUANTILES[-1]) / 2)
        below, above = ends[:, size_class(released)]
        low = np.maximum(np.floor(released - below), 0).astype(np.int64)
        return WholeIntervals(low, np.ceil(released + above).astype(np.int64))


@dataclass(frozen=True)
class Choice:
    """Which margin figures of one class get, and why."""

    geography: str
    query: str
    size: str
    method: str
    gls_sd: float | None
    """The root of the mean variance of least squares, from the plan alone."""
    release_rmse: float | None
    """The root mean squared error of the records in replicates."""
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Rule:
    """The choices of one kind of area and query, by class of released figures."""

    choices: tuple[Choice, ...]

    def by_least_squares(self, released: Integers) -> Booleans:
        """For each released figure whether its margin is that of least squares."""
        table = np.array([choice.method == LEAST_SQUARES for choice in self.choices])
        return np.asarray(table[size_class(released)])


def choose(
    geography: str,
    query: str,
    *,
    method: Method,
    followed: bool,
    gls_sd: float | None,
    estimated: bool,
    errors: ClassErrors | None,
    otherwise: str,
) -> Rule:
    """The choices for a kind of area and a query.

    Args:
        geography: The kind of area.
        query: The query.
        method: What was asked for.
        followed: Whether the areas are units of the spine, or few pieces of it.
        gls_sd: The root of the mean variance of least squares; none where there is no plan.
        estimated: Whether there are measurements to estimate from.
        errors: The errors of the records in replicates, if there are replicates.
        otherwise: The method where least squares is not taken.
    """
    result = []
    for number, size in enumerate(size_names()):
        rmse = None if errors is None else float(errors.rmse[number])
        least = SIZES[number][0]
        taken, reason = _one(method, query, least, followed=followed, gls_sd=gls_sd, estimated=estimated, rmse=rmse)
        result.append(Choice(geography, query, size, LEAST_SQUARES if taken else otherwise, gls_sd, rmse, reason))
    return Rule(tuple(result))


def _one(
    method: Method, query: str, least: int, *, followed: bool, gls_sd: float | None, estimated: bool, rmse: float | None
) -> tuple[bool, str]:
    if method != "auto":
        return method == "gls", "asked for"
    if not estimated:
        return False, "there are no measurements to estimate from"
    if query == TOTAL and followed:
        return True, "the total of areas that the spine follows"
    if rmse is None:
        return True, "there are no replicates, which would say how far off the records are"
    if gls_sd is not None and gls_sd <= rmse:
        if least < EYE * gls_sd:
            return False, "small positive counts are often noise"
        return True, "least squares is expected to be at least as near"
    return False, "the records are expected to be nearer"
