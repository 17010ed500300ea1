"""Which margin a figure gets: a rule that is fixed before any figure is looked at.

There are two estimates of every count of an area. Least squares is unbiased and its margin is exact; the released
records use besides that nobody is counted less than zero times, which helps most where people are few. The rule, in
this order, for a *kind* of area, a query, and a class of released figures:

    1. what is known exactly is said to be exact;
    2. the total of units of the spine above blocks, and of areas that the spine follows: least squares;
    3. least squares if its standard deviation, which follows from the plan alone, is not above the root mean squared
       error of released figures of the class in replicates; otherwise the records.

Both numbers of step 3 are those of a class, not of a cell. To take for each cell whichever margin happens to be smaller
would lose coverage: cells are then chosen for their errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from confide.arrays import Booleans, Floats, Integers
from confide.inference.pooled_errors import SIZES, size_class, size_names
from confide.schema import TOTAL

Method = Literal["auto", "gls", "release"]
EXACT, LEAST_SQUARES, RECORDS, RECORDS_PLAN, RECORDS_ALONE = "exact", "gls", "release+amc", "release+plan", "release"
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
    bias: Floats
    floor: Floats
    """The least half width: of zeros what their class has; zero for other classes."""
    factor: float
    """What margins are multiplied by off the spine."""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> ClassErrors | None:
        """From the pooled errors of replicates; none where there are no rows."""
        if not rows:
            return None
        by_size = {row["size"]: row for row in rows}
        rmse, bias, floor = (np.zeros(len(SIZES)) for _ in range(3))
        for number, size in enumerate(size_names()):
            row = by_size.get(size)
            if row is None or row["mse_shown"] is None:
                # No replicate shows a figure of the class: what the class below has is the nearest there is.
                rmse[number], bias[number] = (rmse[number - 1], bias[number - 1]) if number else (0.0, 0.0)
                continue
            rmse[number], bias[number] = float(np.sqrt(row["mse_shown"])), float(row["bias"] or 0.0)
            if row["high"] == 0:
                floor[number] = float(row["rmse_p95"] or 0.0)
        return cls(rmse, bias, floor, float(rows[0]["factor"]))


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
        return {
            "geography": self.geography,
            "query": self.query,
            "size": self.size,
            "method": self.method,
            "gls_sd": self.gls_sd,
            "release_rmse": self.release_rmse,
            "reason": self.reason,
        }


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
        rmse = None if errors is None else float(errors.factor * errors.rmse[number])
        taken, reason = _one(method, query, followed=followed, gls_sd=gls_sd, estimated=estimated, rmse=rmse)
        result.append(Choice(geography, query, size, LEAST_SQUARES if taken else otherwise, gls_sd, rmse, reason))
    return Rule(tuple(result))


def _one(
    method: Method, query: str, *, followed: bool, gls_sd: float | None, estimated: bool, rmse: float | None
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
        return True, "least squares is expected to be at least as near"
    return False, "the records are expected to be nearer"
