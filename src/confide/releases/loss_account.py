"""What a budget means, and what a release cost: the answers of ``confide account convert`` and ``release``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from confide.answers import TypedAnswer
from confide.exact import Exact, positive_within
from confide.privacy import ZCDP, Bracket, cks_rho, epsilons, event_epsilon_bracket
from confide.releases.folder import read_manifest, release_of
from confide.releases.plan import Plan, read_plan

DELTA = "1e-10"
"""The delta at which the certificates of the 2020 Census state epsilon."""


@dataclass(frozen=True)
class EpsilonOfRho(TypedAnswer):
    """The epsilon of a zCDP budget at a delta, in three ways, each rounded up."""

    rho: Fraction
    delta: Fraction
    epsilons: dict[str, float]
    """By Bun and Steinke, by Canonne, Kamath and Steinke, and for Gaussian noise alone."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"rho": str(self.rho), "delta": str(self.delta)} | self.epsilons


@dataclass(frozen=True)
class RhoOfEpsilon(TypedAnswer):
    """The largest rho that keeps an epsilon at a delta, rounded down."""

    epsilon: Exact
    delta: Exact
    rho: Fraction

    def as_dict(self) -> dict[str, Any]:
        """Plain values; epsilon and delta as they were given."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "rho": str(self.rho),
            "rho_decimal": float(self.rho),
        }


@dataclass(frozen=True)
class ReleaseAccount(TypedAnswer):
    """The loss of a release, composed anew from the measurements in its plan."""

    plan: Plan
    delta: Fraction

    @property
    def epsilons(self) -> dict[str, float] | None:
        """The epsilon at delta, in three ways, of a loss in zCDP; none for a loss that has an epsilon already."""
        loss = self.plan.loss if self.plan.has_loss else None
        return epsilons(loss.rho, self.delta) if isinstance(loss, ZCDP) else None

    @cached_property
    def loss_distribution(self) -> Bracket | None:
        """The epsilon that the privacy loss distribution gives, between two numbers.

        None where groups overlap and are unlike: they have no distribution that we could compute. The bounds of
        :attr:`epsilons` hold all the same.
        """
        if self.epsilons is None or self.plan.families:
            return None
        return event_epsilon_bracket(self.plan.event, self.plan.neighbours, self.delta)

    def as_dict(self) -> dict[str, Any]:
        """Plain values; ``loss`` is None for a release that promises no differential privacy."""
        plan = self.plan
        if not plan.has_loss:
            return {"loss": None}
        values = {"loss": plan.loss.as_dict(), "neighbours": plan.neighbours.value, "delta": str(self.delta)}
        if self.epsilons is None:
            return values
        ends = self.loss_distribution
        distribution = None if ends is None else {"lower": ends.optimistic, "upper": ends.pessimistic}
        return values | self.epsilons | {"privacy_loss_distribution": distribution}


def epsilon_of_rho(rho: Exact, delta: Exact = DELTA) -> EpsilonOfRho:
    """The epsilon of a zCDP budget at a delta, in three ways.

    Args:
        rho: The budget.
        delta: The delta at which epsilon is stated.

    Returns:
        Three bounds, each rounded up; that of Canonne, Kamath and Steinke is the one to quote.

    >>> round(epsilon_of_rho("2.56").epsilons["canonne_kamath_steinke"], 2)
    17.16
    """
    cost, chance = positive_within(rho, "rho"), positive_within(delta, "delta")
    return EpsilonOfRho(cost, chance, epsilons(cost, chance))


def rho_of_epsilon(epsilon: Exact, delta: Exact = DELTA) -> RhoOfEpsilon:
    """The largest rho of zCDP that keeps an epsilon at a delta.

    Args:
        epsilon: The epsilon that is to be kept.
        delta: The delta at which it is stated.

    Returns:
        The rho, rounded down.

    >>> round(float(rho_of_epsilon(10).rho), 2)
    0.99
    """
    return RhoOfEpsilon(epsilon, delta, cks_rho(positive_within(epsilon, "epsilon"), positive_within(delta, "delta")))


def account_release(folder: str | Path, delta: Exact = DELTA) -> ReleaseAccount:
    """The loss of a sealed release, composed anew from its measurements, with its privacy loss distribution.

    Args:
        folder: The release.
        delta: The delta at which epsilon is stated.

    Returns:
        The loss, the bounds for epsilon, and the bracket of its privacy loss distribution.
    """
    plan = read_plan(read_manifest(release_of(Path(folder)))["plan"])
    return ReleaseAccount(plan, positive_within(delta, "delta"))
