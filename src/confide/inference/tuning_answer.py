"""The answer to targets of TopDown: budgets that targets need, the best shares, and what else changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.answers import TypedAnswer
from confide.errors import Finding
from confide.mechanisms.topdown.strategy import Strategy
from confide.mechanisms.topdown.targets import Target
from confide.privacy import epsilons

ESTIMATOR = "least squares on the whole tree, before non-negativity"


@dataclass(frozen=True)
class BindingArea:
    """The area that needs the largest budget."""

    code: str
    people: float | None
    sd: float
    """Of its figure, with the budget that the target needs."""

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "people": self.people, "sd": self.sd}


@dataclass(frozen=True)
class NeededBudget:
    """The budget that a target needs in one kind of area with some shares."""

    rho: float
    """For every area."""
    rho_on_average: float
    """For the target's probability on average over the areas."""
    binding: BindingArea

    def as_dict(self) -> dict[str, Any]:
        return {"rho": self.rho, "rho_on_average": self.rho_on_average, "binding": self.binding.as_dict()}


@dataclass(frozen=True)
class TunedTarget:
    """A target in one kind of area."""

    target: Target
    kind: str
    areas: int
    present: NeededBudget
    best: NeededBudget | None = None
    elasticity: float | None = None
    """By how many per cent the least budget falls if the limit's square rises by one per cent."""
    price: float | None = None
    """d(rho)/d(limit): what one more record, or one more point, of margin saves."""

    def as_dict(self) -> dict[str, Any]:
        target = self.target
        return {
            "target": target.text,
            "kind": self.kind,
            "areas": self.areas,
            "query": target.query,
            "limit": float(target.limit * (100 if target.of_share or target.relative else 1)),
            "unit": target.unit,
            "probability": float(target.chance),
            "least_people": target.least,
            "present": self.present.as_dict(),
            "best": None if self.best is None else self.best.as_dict(),
            "elasticity": self.elasticity,
            "price": self.price,
        }


@dataclass(frozen=True)
class ExpectedChange:
    """Expected absolute errors of one query in one kind of area: before non-negativity, and those of runs after it."""

    kind: str
    areas: int
    query: str
    now: float
    """With the strategy and the budget of the spec."""
    present: float | None
    """With the present shares and the budget that these need for the targets."""
    best: float | None
    """With the best shares and their budget."""
    present_after: float | None = None
    """Of records, after non-negativity: the mean over the runs that confirm the answer."""
    best_after: float | None = None

    def with_records(self, shares: str, error: float) -> ExpectedChange:
        """With the errors of records of runs with the ``present`` or the ``best`` shares."""
        return replace(self, present_after=error) if shares == "present" else replace(self, best_after=error)

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "areas": self.areas,
            "query": self.query,
            "now": self.now,
            "present": self.present,
            "best": self.best,
            "present_after": self.present_after,
            "best_after": self.best_after,
        }


@dataclass(frozen=True)
class ConfirmedTarget:
    """What runs on people who are not confidential made of a target: records, after non-negativity and rounding."""

    target: Target
    kind: str
    strategy: str
    """``present`` or ``best``."""
    rho: Fraction
    runs: int
    met: float
    """The share of areas whose figures were within the limit."""
    error: float
    """The mean absolute error of the target's figures."""
    total_error: float
    """The mean absolute error of totals there."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "target": self.target.text,
            "kind": self.kind,
            "strategy": self.strategy,
            "rho": str(self.rho),
            "runs": self.runs,
            "met": self.met,
            "mean_absolute_error": self.error,
            "mean_absolute_error_of_totals": self.total_error,
        }


@dataclass(frozen=True, eq=False)
class TopDownTuning(TypedAnswer):
    """The answer of :func:`tune_topdown`."""

    spec: Path
    now: Strategy
    """The strategy of the spec, with its budget."""
    people: str
    """Where sizes of areas come from, in words."""
    delta: Fraction
    targets: tuple[TunedTarget, ...] = ()
    present: Fraction | None = None
    """The budget that the present shares need."""
    best: Strategy | None = None
    """The strategy with the best shares."""
    needed: Fraction | None = None
    """The budget that these need."""
    bound: float | None = None
    """No shares at all need less."""
    errors: tuple[ExpectedChange, ...] = ()
    confirmed: tuple[ConfirmedTarget, ...] = ()
    prices: tuple[Mapping[str, Any], ...] = ()
    written: Path | None = None
    warnings: tuple[Finding, ...] = field(default=())

    def epsilon(self, rho: Fraction) -> Mapping[str, float]:
        """Epsilon at delta, in three ways."""
        return epsilons(rho, self.delta)

    def _budget(self, rho: Fraction | None) -> dict[str, Any] | None:
        if rho is None:
            return None
        return {"rho": str(rho), "rho_decimal": float(rho), "epsilon": dict(self.epsilon(rho))}

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``; the keys are listed in ``docs/concepts/tuning.md``."""
        best = self._budget(self.needed)
        if best is not None and self.best is not None:
            levels = {
                level.name: {
                    "share": str(level.share),
                    "queries": {query.name: str(query.share) for query in level.queries},
                }
                for level in self.best.levels
            }
            best |= {"bound": self.bound, "budget": str(self.best.budget), "shares": levels}
        return {
            "ok": True,
            "spec": str(self.spec),
            "strategy": self.now.id,
            "root": self.now.root,
            "estimator": ESTIMATOR,
            "evidence": {"now": self.now.evidence, "best": None if self.best is None else self.best.evidence},
            "people": self.people,
            "delta": str(self.delta),
            "now": self._budget(self.now.budget),
            "present": self._budget(self.present),
            "best": best,
            "targets": [target.as_dict() for target in self.targets],
            "errors": [row.as_dict() for row in self.errors],
            "confirmed": [row.as_dict() for row in self.confirmed],
            "prices": [dict(row) for row in self.prices],
            "written": None if self.written is None else str(self.written),
            "charged": None,
            "warnings": [finding.as_dict() for finding in self.warnings],
        }
