"""The risk of a whole release: effective rho by level and query, what it does to beliefs, and where it is largest.

Everything follows from the plan, the spine and the published records. Between the two ends, someone who knows the
others in one cell and nothing else, and someone who knows everybody else, lies every adversary who knows some counts of
others exactly and nothing of the rest (``docs/proofs/release-risk.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.answers import TypedAnswer
from confide.arrays import Floats, Integers
from confide.exact import Exact, probability
from confide.mechanisms.topdown.released_plan import EffectiveRho, LevelRho, ReleasedPlan, open_release
from confide.privacy import ZCDP
from confide.releases.plan import loss_by_attribute, loss_by_move
from confide.schema import DETAILED

# What an adversary believes afterwards: the expected posterior of the truth, for an effective rho.
#
# The log-odds of "the target is in the cell" go up by ρ(2X − 1), where X is the estimate less the others. With the
# target in the cell X is 1 plus noise of variance 1/(2ρ); an estimate from many counts is as good as Gaussian, so
# that
#
#     m(p, ρ) = E σ(logit p + ρ + √(2ρ) Z),   Z standard normal,   σ(x) = 1/(1 + e⁻ˣ),
#
# and m/p rises from 1 at ρ = 0, never above e^(2ρ) and 1/p. The expectation is a trapezoidal sum, which converges
# faster than any power of its step. Reference: Kazan & Reiter (2024), equation 3.3, for one count with discrete noise
# (``lab.risk.bayesian.one_level``): the two agree to five digits for rho up to a half, to eight up to a third.


_STEP = 1 / 64
_GRID = np.arange(-12, 12 + _STEP, _STEP)
_WEIGHTS = np.exp(-(_GRID**2) / 2) * _STEP / np.sqrt(2 * np.pi)


def expected_posterior(prior: Exact, rho: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """m(p, ρ), for one rho or an array of them; 1 where rho is infinite.

    Args:
        prior: The belief beforehand.
        rho: Effective rhos: one, or an array.

    Returns:
        An array of the shape of ``rho``, at least of one dimension.

    >>> expected_posterior("1/2", 0.1).round(4).tolist()
    [0.5238]
    """
    p = probability(prior, "prior")
    values = np.atleast_1d(np.asarray(rho, float))
    finite = np.where(np.isfinite(values), values, 0.0)[..., None]
    shifted = np.log(float(p / (1 - p))) + finite + np.sqrt(2 * finite) * _GRID
    with np.errstate(over="ignore"):
        mean = (_WEIGHTS / (1 + np.exp(-shifted))).sum(axis=-1) / _WEIGHTS.sum()
    return np.where(np.isposinf(values), 1.0, mean)


# What a release publishes, counted: small cells and the units with the least protection. From its public files alone.
#
# The counts are those of the protected records. That a published cell is one does not say that somebody is alone in
# it: noise makes ones, and unmakes them. How many there are is still the first thing that readers ask.


SIZES = ((0, 0), (1, 1), (2, 2), (3, 9), (10, None))
"""Classes of published counts, from and to."""


def size_name(low: int, high: int | None) -> str:
    """A class of counts in words: 0, 3-9, 10+."""
    return f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True, eq=False)
class PublishedRecords:
    """The published records on the spine and on the official levels."""

    release: ReleasedPlan
    row: Integers
    """For each record the row of its block in the frame."""
    cell: Integers

    @classmethod
    def of(cls, release: ReleasedPlan) -> PublishedRecords:
        return cls(release, *release.records())

    def by_size(self) -> list[dict[str, Any]]:
        """For each official level, how many histogram cells of its units have a published count of each size, and how
        many records are in those. Cells that are structurally zero are left out, and units without a block."""
        strategy, spine = self.release.strategy, self.release.spine
        possible = int((~strategy.constraints.zero_cells(strategy.schema)).sum())
        cells = len(strategy.constraints.zero_cells(strategy.schema))
        result = []
        for level in spine.frame.levels:
            units = len(np.unique(level.unit_of_block[spine.rows]))
            _, counts = np.unique(level.unit_of_block[self.row] * cells + self.cell, return_counts=True)
            classes = {}
            for low, high in SIZES:
                inside = counts[(counts >= low) & ((counts <= high) if high is not None else True)]
                number = len(inside) if low else units * possible - len(counts)
                classes[size_name(low, high)] = {"cells": number, "records": int(inside.sum())}
            result.append({"level": level.name, "units": units, "counts": classes})
        return result

    def by_record(self, effective: EffectiveRho) -> Floats:
        """The effective rho of the histogram cell of its block, for each record."""
        blocks = effective.levels[-1]
        place = np.full(len(self.release.spine.frame.blocks.unit_of_block), -1, np.int64)
        place[self.release.spine.rows] = np.arange(len(self.release.spine.rows))
        rho: Floats = blocks.rho[DETAILED][blocks.kind[place[self.row]], effective.core_of(self.cell)]
        return rho

    def in_units(self, level: LevelRho) -> Integers:
        """The number of records in each unit of a level of the spine."""
        spine = self.release.spine
        place = np.full(len(spine.frame.blocks.unit_of_block), 0, np.int64)
        place[spine.rows] = spine.unit_of_block(level.level.name)
        return np.bincount(place[self.row], minlength=level.level.units)


def least_protected(
    effective: EffectiveRho, level: LevelRho, published: PublishedRecords, most: int
) -> list[dict[str, Any]]:
    """The units of a level with the largest effective rho of a histogram cell: few siblings, a share taken over from an
    only child, or cells that no other unit has.

    Args:
        effective: The effective rho of every count.
        level: The level of the spine.
        published: The published records.
        most: How many units are listed.

    Returns:
        A row for each unit, the least protected first.
    """
    spine = published.release.spine
    rho = np.where(np.isnan(level.rho[DETAILED]), 0.0, level.rho[DETAILED])
    worst = rho.max(axis=1)[level.kind]
    order = np.argsort(-worst, kind="stable")[:most].tolist()
    ids, records = spine.ids(level.level.name), published.in_units(level)
    codes = None if spine.split is not None else spine.official_codes(level.level.name)
    parent = level.level.parent
    siblings = np.bincount(parent)[parent] - 1 if len(parent) else np.zeros(level.level.units, np.int64)
    return [
        {
            "level": level.level.name,
            "unit": str(ids[unit]),
            "code": None if codes is None else str(codes[unit]),
            "cell": effective.core_label(int(rho[level.kind[unit]].argmax())),
            "rho": float(worst[unit]) if np.isfinite(worst[unit]) else None,
            "siblings": int(siblings[unit]),
            "blocks": int(level.level.first_block[unit + 1] - level.level.first_block[unit]),
            "share": str(level.level.shares[unit]),
            "records": int(records[unit]),
        }
        for unit in order
    ]


PRIORS = (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), Fraction(1, 50))
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class ReleaseRisk(TypedAnswer):
    """The risk report of one release; :meth:`as_dict` has all of it."""

    release: ReleasedPlan
    priors: tuple[Fraction, ...]
    worst: int = 3
    public_zeros: bool = True

    @cached_property
    def effective(self) -> EffectiveRho:
        """Effective rho, level by level."""
        plan = self.release
        return EffectiveRho(plan.strategy, plan.spine, plan.plan, plan.columns, public_zeros=self.public_zeros)

    @cached_property
    def published(self) -> PublishedRecords:
        """The published records."""
        return PublishedRecords.of(self.release)

    def everybody_else(self) -> dict[str, Any]:
        """The upper end: rho of someone who knows every other record, for each kind of question.

        ``presence`` compares with no record at all. Where the number of records is known, a record that is not in a
        cell is in another, and ``cell`` is the loss of a change; otherwise it is the presence.
        """
        plan = self.release.plan
        least, most = self.effective.presence
        change = _rho(plan.loss)
        return {
            "cell": change if self.release.strategy.total_is_invariant else most,
            "presence": most,
            "presence_least": least,
            "change_one": change,
            "by_attribute": {name: _rho(loss) for name, loss in loss_by_attribute(plan).items()},
            "by_move_within": {name: _rho(loss) for name, loss in loss_by_move(plan).items()},
        }

    def by_level(self) -> list[dict[str, Any]]:
        """The lower end: for each level and query the effective rho over units and cells, with the posteriors of the
        largest; and for each attribute that of telling two of its levels apart."""
        result = []
        for level in self.effective.levels:
            measured = {query.name for query in self.release.strategy.level(level.level.name).queries}
            queries = [
                {"query": name, "measured": name in measured} | self._summary(level, values)
                for name, values in level.rho.items()
            ]
            between = {name: self._summary(level, values) for name, values in level.between.items()}
            result.append(
                {"level": level.level.name, "units": level.level.units, "queries": queries, "between": between}
            )
        return result

    def by_record(self) -> dict[str, Any]:
        """The effective rho of the block cell that each published record is in: quantiles over records."""
        rho = self.published.by_record(self.effective)
        defined = rho[~np.isnan(rho)]
        quantiles = (
            np.quantile(defined, QUANTILES, method="inverted_cdf") if len(defined) else np.full(len(QUANTILES), np.nan)
        )
        return {
            "records": len(rho),
            "rho": {f"{quantile:g}": _plain(value) for quantile, value in zip(QUANTILES, quantiles, strict=True)},
        }

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return self._values

    @cached_property
    def _values(self) -> dict[str, Any]:
        release = self.release
        everybody = self.everybody_else()
        return {
            "release": release.manifest["release"],
            "title": release.manifest["title"],
            "plan_hash": release.manifest["plan_hash"],
            "record": release.facts["record"],
            "measurements_published": bool(release.facts["measurements"]),
            "neighbours": release.plan.neighbours.value,
            "public_zeros": self.public_zeros,
            "cells": int(np.prod(self.effective.reduction.shape)),
            "priors": [str(prior) for prior in self.priors],
            "knows_everybody_else": everybody | {"posterior_cell": self._posteriors(everybody["cell"])},
            "by_level": self.by_level(),
            "by_record": self.by_record(),
            "published_counts": self.published.by_size(),
            "least_protected": [
                row | {"posterior": self._posteriors(row["rho"])}
                for level in self.effective.levels[1:]
                for row in least_protected(self.effective, level, self.published, self.worst)
            ],
        }

    def _summary(self, level: LevelRho, values: Floats) -> dict[str, Any]:
        """Least, median and largest over units and cells; counts that are published as they are aside."""
        weights = np.repeat(level.units, values.shape[1])
        flat = values.ravel()
        finite = np.isfinite(flat)
        least, median, most = (
            (flat[finite].min(), weighted_median(flat[finite], weights[finite]), flat[finite].max())
            if finite.any()
            else (np.nan, np.nan, np.nan)
        )
        return {
            "rho_least": _plain(least),
            "rho_median": _plain(median),
            "rho_most": _plain(most),
            "as_it_is": bool(np.isposinf(flat).any()),
            "posterior_median": self._posteriors(_plain(median)),
            "posterior_most": self._posteriors(_plain(most)),
        }

    def _posteriors(self, rho: float | None) -> dict[str, float | None]:
        return {str(prior): None if rho is None else float(expected_posterior(prior, rho)[0]) for prior in self.priors}


def release_risk(
    path: str | Path,
    *,
    spec: str | Path | None = None,
    priors: Sequence[Exact] = (),
    worst: int = 3,
    public_zeros: bool = True,
) -> ReleaseRisk:
    """What every noisy measurement of a TopDown release, taken together, says about one person.

    Args:
        path: A sealed release, or the folder of a run.
        spec: The spec of the release, where its strategy does not ship and the folder does not have it.
        priors: What adversaries believe beforehand; without them 1/2, 1/5, 1/10, 1/50 and one over the number of cells.
        worst: How many of the least protected units of each level are listed.
        public_zeros: Whether it is known which kinds of group quarters a block does not have.

    Returns:
        The effective rho of every count by level and query, what it does to beliefs, and where protection is least.
    """
    release = open_release(Path(path), None if spec is None else Path(spec))
    cells = int(np.prod([attribute.size for attribute in release.strategy.schema.attributes]))
    chosen = tuple(probability(prior, "prior") for prior in priors) or (
        *PRIORS,
        *((Fraction(1, cells),) if cells > 2 else ()),
    )
    return ReleaseRisk(release, tuple(dict.fromkeys(chosen)), worst, public_zeros)


def weighted_median(values: Floats, weights: NDArray[np.int64]) -> float:
    """The smallest value that at least half of the weight is not above."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def _rho(loss: object) -> float:
    assert isinstance(loss, ZCDP)
    return float(loss.rho)


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
