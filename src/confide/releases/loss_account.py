"""What a budget means, and what a release costs: exact, as epsilon, in a sentence, and beside what others spent.

They are the answers of ``confide account convert`` and ``release``, and the price that ``confide check`` states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from confide import privacy
from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.documents import FileKind, Part, load_named
from confide.exact import Exact, down, exact, positive_within, up
from confide.privacy import epsilons
from confide.privacy.statements import factor, short_probability
from confide.releases.plan import NO_BUDGET, Plan

YARDSTICKS = FileKind("yardsticks", code="yardsticks", unreadable="yardsticks", shipped="yardsticks")


class Deployment(Part):
    """A release that somebody published with its loss."""

    name: str = Field(description="What was published.")
    office: str
    year: int
    unit: str = Field(description="What one record describes.")
    definition: Literal["zcdp", "pure"]
    loss: str = Field(description="rho for zcdp, epsilon for pure, as published.")
    neighbours: Literal["change-one", "add-remove"]
    source: str = Field(description="Where the loss is stated.")


class Deployments(Part):
    """The whole file."""

    deployments: list[Deployment] = Field(min_length=1)


@cache
def deployments() -> tuple[Deployment, ...]:
    """The shipped yardsticks.

    >>> deployments()[0].name
    '2020 U.S. Census, redistricting: persons'
    """
    return tuple(load_named("deployments", Path(), Deployments, kind=YARDSTICKS).value.deployments)


@dataclass(frozen=True)
class Yardstick:
    """What one deployment spent, and its epsilon at the delta of the price that it is beside."""

    deployment: Deployment
    epsilon: float

    def as_dict(self) -> dict[str, Any]:
        return self.deployment.model_dump() | {"epsilon": self.epsilon}


@dataclass(frozen=True)
class StatedPrice:
    """The price of a release, and what is left of its budget afterwards."""

    loss: privacy.PureDP | privacy.ZCDP | privacy.ApproxDP
    neighbours: privacy.Neighbours
    delta: Fraction
    unit: str
    left_after: Fraction | None = None
    """What the ledger has left once the release is charged; none where there is no ledger yet."""
    not_protected: tuple[str, ...] = ()
    """The parts of a record that invariants give away, or leave less of, in words."""

    @classmethod
    def of(cls, plan: Plan, delta: Fraction, left_after: Fraction | None = None) -> StatedPrice:
        """The price of a plan that has a loss.

        Args:
            plan: The plan.
            delta: The delta at which epsilon is stated.
            left_after: What the ledger has left afterwards.
        """
        return cls(plan.loss, plan.neighbours, delta, plan.record, left_after, plan.not_protected)

    @cached_property
    def epsilon(self) -> float:
        """At ``delta``, rounded up; of a pure loss the epsilon itself."""
        return _epsilon(self.loss, self.delta)

    @property
    def has_delta(self) -> bool:
        """Whether epsilon holds but for a small probability."""
        return not isinstance(self.loss, privacy.PureDP)

    @property
    def in_words(self) -> str:
        """One sentence that claims no more than the definition does."""
        plus = f" (plus {float(self.delta):g})" if self.has_delta else ""
        about = "says" if self.neighbours is privacy.Neighbours.CHANGE_ONE else "says, or whether it is there at all"
        text = (
            f"Whatever test someone applies to this release to find out what one {self.unit}'s record {about}, its "
            f"chance of a correct “yes” is at most {factor(self.epsilon)} times its chance of a false “yes”{plus}."
        )
        if self.not_protected:
            parts = "; ".join(self.not_protected)
            text += f" This holds as far as figures that are published exactly leave it open, which limit it: {parts}."
        return text

    def yardsticks(self) -> list[Yardstick]:
        """What others spent."""
        return [Yardstick(each, _epsilon(_loss_of(each), self.delta)) for each in deployments()]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "loss": self.loss.as_dict(),
            "neighbours": self.neighbours.value,
            "epsilon": self.epsilon,
            "delta": str(self.delta) if self.has_delta else None,
            "in_words": self.in_words,
            **({"not_protected": list(self.not_protected)} if self.not_protected else {}),
            "left_after": None if self.left_after is None else str(self.left_after),
            "yardsticks": [yardstick.as_dict() for yardstick in self.yardsticks()],
        }

    def described(self) -> Iterator[AnswerPart]:
        """The price as rho and epsilon, in words, and beside what others spent."""
        at = f" at delta {short_probability(self.delta)}" if self.has_delta else ""
        yield (f"Price: {self.loss} ({self.neighbours.value}), that is epsilon = {_two_digits(self.epsilon)}{at}.")
        yield self.in_words
        rows = [("this release", _short_loss(self.loss.parameters()), _two_digits(self.epsilon))]
        for yardstick in self.yardsticks():
            spent = yardstick.deployment
            amount = _short_loss({"rho" if spent.definition == "zcdp" else "epsilon": Fraction(spent.loss)})
            rows.append((f"{spent.name} ({spent.year})", amount, _two_digits(yardstick.epsilon)))
        yield ShownTable(["compared with other releases", "loss", "epsilon "], rows)


def _short_loss(parameters: Mapping[str, Fraction]) -> str:
    return ", ".join(f"{name} = {float(value):.4g}" for name, value in parameters.items())


def _two_digits(epsilon: float) -> str:
    """Rounded up, but for what a decimal loses in a floating-point number."""
    return f"{math.ceil(round(100 * epsilon, 6)) / 100:,.2f}"


def _loss_of(deployment: Deployment) -> privacy.PureDP | privacy.ZCDP:
    amount = exact(deployment.loss, "loss")
    return privacy.ZCDP(amount) if deployment.definition == "zcdp" else privacy.PureDP(amount)


def _epsilon(loss: privacy.PureDP | privacy.ZCDP | privacy.ApproxDP, delta: Fraction) -> float:
    return privacy.cks_epsilon(loss.rho, delta) if isinstance(loss, privacy.ZCDP) else float(loss.epsilon)


# What a budget means, and what a release cost: the answers of ``confide account convert`` and ``release``.


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

    def described(self) -> Iterator[AnswerPart]:
        yield from _ways(self.epsilons)
        yield f"\nrho = {self.rho} at delta = {float(self.delta):g}; every figure is rounded up."


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

    def described(self) -> Iterator[AnswerPart]:
        text = f"rho = {self.rho} (about {float(self.rho):.6g})"
        yield f"{text} gives at most epsilon {self.epsilon} at delta {self.delta}."


@dataclass(frozen=True)
class ReleaseAccount(TypedAnswer):
    """The loss of a release, composed anew from the measurements in its plan."""

    plan: Plan
    delta: Fraction
    unaccounted: str = NO_BUDGET
    """Why nothing is spent, where the plan has no loss."""

    @property
    def epsilons(self) -> dict[str, float] | None:
        """The epsilon at delta, in three ways, of a loss in zCDP; none for a loss that has an epsilon already."""
        loss = self.plan.loss if self.plan.has_loss else None
        return epsilons(loss.rho, self.delta) if isinstance(loss, privacy.ZCDP) else None

    @cached_property
    def loss_distribution(self) -> privacy.Bracket | None:
        """The epsilon that the privacy loss distribution gives, between two numbers.

        None where groups overlap and are unlike, or a count may change by more than one: they have no distribution
        that we could compute. The bounds of :attr:`epsilons` hold all the same.
        """
        stated = any(measure.sensitivity is not None for measure in self.plan.measures)
        if self.epsilons is None or self.plan.families or stated:
            return None
        return privacy.event_epsilon_bracket(self.plan.event, self.plan.neighbours, self.delta)

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

    def described(self) -> Iterator[AnswerPart]:
        """The cost of a release, in every way that it can be stated."""
        plan, ways, bracket = self.plan, self.epsilons, self.loss_distribution
        if not plan.has_loss:
            none = "No privacy loss is accounted for: this release promises no differential privacy."
            yield none if self.unaccounted == NO_BUDGET else self.unaccounted
            return
        if ways is None:
            holds = "; it holds with delta = 0" if isinstance(plan.loss, privacy.PureDP) else ""
            yield f"{plan.loss} ({plan.neighbours.value}){holds}."
            return
        yield from _ways(ways)
        if bracket is None:
            of = "groups that overlap" if plan.families else "counts of which some may change by more than one"
            yield f"\nThe privacy loss distribution is not computed for {of}."
        else:
            exact = f"{down(bracket.optimistic, 4)} to {up(bracket.pessimistic, 4)}"
            yield f"\nThe privacy loss distribution of these {len(plan.measures):,} measurements gives {exact}."
        if bracket is not None and len(plan.paths) > 1:
            yield f"It is that of the worst move between {len(plan.paths):,} kinds of places with different noise."
        ends = "" if bracket is None else ", the lower end down"
        stated = f"{plan.loss} ({plan.neighbours.value}) at delta = {float(self.delta):g}"
        yield f"{stated}; every bound is rounded up{ends}."


WORDS = {
    "bun_steinke": "Bun and Steinke (2016): the simplest bound; older documents use it",
    "canonne_kamath_steinke": "Canonne, Kamath and Steinke (2020): the bound to quote",
    "gaussian_limit": "what a continuous Gaussian mechanism of this cost has; for comparison",
}


def _ways(ways: Mapping[str, float]) -> Iterator[AnswerPart]:
    yield ShownTable(["epsilon ", "by"], [(up(value, 4), WORDS[name]) for name, value in ways.items()])


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
    return RhoOfEpsilon(
        epsilon, delta, privacy.cks_rho(positive_within(epsilon, "epsilon"), positive_within(delta, "delta"))
    )
