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

from confide.exact import Exact, probability
from confide.privacy import ZCDP
from confide.risk.releases.effective import Effective, LevelEffective
from confide.risk.releases.posterior import expected_posterior
from confide.risk.releases.published import Published, least_protected
from confide.risk.releases.reading import ReadRelease, open_release
from confide.runs.semantics import loss_by_attribute, loss_by_move

Floats = NDArray[np.float64]
PRIORS = (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), Fraction(1, 50))
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class ReleaseRisk:
    """The risk report of one release; :meth:`as_dict` has all of it."""

    release: ReadRelease
    priors: tuple[Fraction, ...]
    worst: int = 3
    public_zeros: bool = True

    @cached_property
    def effective(self) -> Effective:
        """Effective rho, level by level."""
        found = self.release
        return Effective(found.strategy, found.spine, found.plan, found.columns, public_zeros=self.public_zeros)

    @cached_property
    def published(self) -> Published:
        """The published records."""
        return Published.of(self.release)

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
            asked = {asked.name for asked in self.release.strategy.level(level.level.name).queries}
            queries = [
                {"query": name, "measured": name in asked} | self._summary(level, values)
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
        told = rho[~np.isnan(rho)]
        quantiles = (
            np.quantile(told, QUANTILES, method="inverted_cdf") if len(told) else np.full(len(QUANTILES), np.nan)
        )
        return {
            "records": len(rho),
            "rho": {f"{quantile:g}": _plain(value) for quantile, value in zip(QUANTILES, quantiles, strict=True)},
        }

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        found = self.release
        everybody = self.everybody_else()
        return {
            "release": found.manifest["release"],
            "title": found.manifest["title"],
            "plan_hash": found.manifest["plan_hash"],
            "record": found.facts["record"],
            "measurements_published": found.facts["measurements"],
            "neighbours": found.plan.neighbours.value,
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

    def _summary(self, level: LevelEffective, values: Floats) -> dict[str, Any]:
        """Least, median and largest over units and cells; counts that are published as they are aside."""
        weights = np.repeat(level.units, values.shape[1])
        flat = values.ravel()
        told = np.isfinite(flat)
        least, median, most = (
            (flat[told].min(), weighted_median(flat[told], weights[told]), flat[told].max())
            if told.any()
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
    path: Path,
    *,
    spec: Path | None = None,
    priors: Sequence[Exact] = (),
    worst: int = 3,
    public_zeros: bool = True,
) -> ReleaseRisk:
    """The risk of the release, or of the release of the run, in a folder. Without ``priors``: ½, 1/5, 1/10, 1/50 and
    one over the number of cells."""
    release = open_release(path, spec)
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
