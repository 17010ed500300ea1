"""The curves for parts of a promise: one attribute, another block of the same unit, being in the data or not.

A test need not be about a whole record. If H₁ differs from H₀ in one attribute, or in the block within a county, only
the measurements that can tell the difference count (:mod:`confide.runs.semantics`), and the power is smaller.
Under change-one neighbours, being in the data or not costs half: one count differs in each measurement, not two.
Invariants are not part of any of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any

from confide.errors import Finding, ParameterError
from confide.exact import Exact
from confide.privacy import ZCDP, Event, Neighbours, price
from confide.privacy.definitions import Definition
from confide.risk.testing.curve import DELTAS, LEVELS, EpsilonPoint, PowerPoint, epsilon_curve, power_curve
from confide.risk.testing.loss_test import LossTest
from confide.runs.plan import Plan
from confide.runs.semantics import events_by_attribute, events_by_move


class Kind(StrEnum):
    """What the two hypotheses differ in."""

    EVERYTHING = "everything"
    MEMBERSHIP = "membership"
    ATTRIBUTE = "attribute"
    BLOCK_WITHIN = "block-within"


@dataclass(frozen=True)
class Part:
    """One kind of difference between two data sets, and the measurements that can tell it."""

    kind: Kind
    name: str
    event: Event
    neighbours: Neighbours

    @cached_property
    def rho(self) -> Fraction:
        loss = price(self.event, self.neighbours, Definition.ZCDP)
        assert isinstance(loss, ZCDP)
        return loss.rho

    @cached_property
    def best(self) -> LossTest | None:
        """The best test against these measurements; None where no single neighbour is the worst for every level."""
        try:
            return LossTest.of_event(self.event, self.neighbours)
        except ParameterError:
            return None

    def epsilons(self, deltas: Iterable[Exact] = DELTAS, *, exact: bool = False) -> list[EpsilonPoint]:
        """ε over δ; ``exact`` adds what the distribution of the loss itself gives, which takes seconds."""
        event = self.event if exact and self.best is not None else None
        return epsilon_curve(self.rho, deltas, event=event, neighbours=self.neighbours)

    def powers(self, levels: Sequence[Exact] = LEVELS, *, exact: bool = True) -> list[PowerPoint]:
        """The largest power over the level."""
        return power_curve(self.rho, levels, best=self.best if exact else None)

    @property
    def words(self) -> str:
        """What one record differs in, for people."""
        return {
            Kind.EVERYTHING: "in everything",
            Kind.MEMBERSHIP: "in being there or not",
            Kind.ATTRIBUTE: f"in {self.name} alone",
            Kind.BLOCK_WITHIN: f"in its block, same {self.name}",
        }[self.kind]

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "name": self.name, "rho": str(self.rho), "rho_decimal": float(self.rho)}


def parts_of(plan: Plan) -> tuple[Part, ...]:
    """The whole of a plan and its parts: whole, in the data or not, by attribute, by block within each level."""
    if not plan.accounted or plan.definition is not Definition.ZCDP:
        raise ParameterError(
            Finding(
                code="no-zcdp-loss",
                what="the curves need a plan with a loss in zCDP",
                found=plan.definition.value if plan.accounted else "no loss",
                expected="a plan of discrete Gaussian noise, accounted in zcdp",
                remedy="for pure differential privacy use pure_power, which needs the epsilon alone",
            )
        )
    change = Neighbours.CHANGE_ONE
    whole = Part(Kind.EVERYTHING, "", plan.event, plan.neighbours)
    parts = [whole] if plan.neighbours is not change else [whole, _membership(plan)]
    parts += [Part(Kind.ATTRIBUTE, name, event, change) for name, event in events_by_attribute(plan).items()]
    parts += [Part(Kind.BLOCK_WITHIN, name, event, change) for name, event in events_by_move(plan).items()]
    return tuple(parts)


def _membership(plan: Plan) -> Part:
    return Part(Kind.MEMBERSHIP, "", plan.event, Neighbours.ADD_REMOVE)
