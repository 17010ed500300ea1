"""Which margin a figure gets: a rule that is fixed before any figure is looked at.

There are two estimates of every count of an area. Least squares is unbiased and its margin is exact; the released
records also use the fact that no count is negative, which helps most where people are few. The rule, in this order,
for a *kind* of area, a query, and a class of released figures:

    1. what is known exactly is said to be exact;
    2. the total of units of the spine above blocks, and of areas that the spine follows: least squares;
    3. least squares if its standard deviation, which follows from the plan alone, is not above the root mean squared
       error of released figures of the class in replicates, and the least figure of the class is at least three such
       standard deviations; otherwise the records.

All numbers of step 3 are those of a class, not of a cell. To take for each cell whichever margin happens to be smaller
would lose coverage: cells are then chosen for their errors. The last condition is for the same reason: that a release
shows a small count above zero says that noise had rather moved it up, and the margin of least squares does not know it.

Margins of records are those of a class of figures of the same kind of area and query, learnt from replicates and from
made-up people (:mod:`~confide.inference.pooled_errors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from confide.arrays import Booleans, Floats, Integers
from confide.estimation.unified_intervals import WholeIntervals
from confide.inference.pooled_errors import DEGREES, QUANTILES
from confide.mechanisms.topdown.figure_noise import SIZES, size_class, size_names
from confide.schema import TOTAL

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
