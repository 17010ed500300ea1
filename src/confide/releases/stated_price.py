"""The price of a release as a person can weigh it: exact, as epsilon, in a sentence, and beside what others spent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from confide.documents import FileKind, Part, load_named
from confide.exact import exact
from confide.privacy import ZCDP, ApproxDP, Neighbours, PureDP, cks_epsilon
from confide.privacy.statements import factor
from confide.releases.plan import Plan

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
    """What one deployment spent, and its epsilon at the delta of the price that it stands beside."""

    deployment: Deployment
    epsilon: float

    def as_dict(self) -> dict[str, Any]:
        return self.deployment.model_dump() | {"epsilon": self.epsilon}


@dataclass(frozen=True)
class StatedPrice:
    """The price of a release, and what is left of its budget afterwards."""

    loss: PureDP | ZCDP | ApproxDP
    neighbours: Neighbours
    delta: Fraction
    unit: str
    left_after: Fraction | None = None
    """What the ledger has left once the release is charged; none where there is no ledger yet."""

    @classmethod
    def of(cls, plan: Plan, delta: Fraction, left_after: Fraction | None = None) -> StatedPrice:
        """The price of a plan that has a loss.

        Args:
            plan: The plan.
            delta: The delta at which epsilon is stated.
            left_after: What the ledger has left afterwards.
        """
        unit = str(plan.question.get("record", "person"))
        return cls(plan.loss, plan.neighbours, delta, unit, left_after)

    @cached_property
    def epsilon(self) -> float:
        """At ``delta``, rounded up; of a pure loss the epsilon itself."""
        return _epsilon(self.loss, self.delta)

    @property
    def has_delta(self) -> bool:
        """Whether epsilon holds but for a small probability."""
        return not isinstance(self.loss, PureDP)

    @property
    def in_words(self) -> str:
        """One sentence that claims no more than the definition does."""
        plus = f" (plus {float(self.delta):g})" if self.has_delta else ""
        about = "says" if self.neighbours is Neighbours.CHANGE_ONE else "says, or whether it is there at all"
        return (
            f"Whatever test someone applies to this release to find out what one {self.unit}'s record {about}, its "
            f"chance of a correct “yes” is at most {factor(self.epsilon)} times its chance of a false “yes”{plus}."
        )

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
            "left_after": None if self.left_after is None else str(self.left_after),
            "yardsticks": [yardstick.as_dict() for yardstick in self.yardsticks()],
        }


def _loss_of(deployment: Deployment) -> PureDP | ZCDP:
    amount = exact(deployment.loss, "loss")
    return ZCDP(amount) if deployment.definition == "zcdp" else PureDP(amount)


def _epsilon(loss: PureDP | ZCDP | ApproxDP, delta: Fraction) -> float:
    return cks_epsilon(loss.rho, delta) if isinstance(loss, ZCDP) else float(loss.epsilon)
