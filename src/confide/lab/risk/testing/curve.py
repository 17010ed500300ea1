"""The guarantee as curves: ε over δ, and power over level, by every way that is known.

One pair (ε, δ) says little about a test: with ε = 17.16 and δ = 10⁻¹⁰ every power up to 1 is allowed. The curves say
what the pair leaves out. Ways that hold for every ρ-zCDP release: ``bun_steinke``, ``canonne_kamath_steinke``,
``zcdp``. For Gaussian noise alone: ``gaussian_limit``, ``gaussian``. For the measurements given and no others:
``exact``, between two numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any

from confide.errors import ParameterError
from confide.exact import Exact, as_delta, nonnegative
from confide.lab.risk.testing.loss_test import LossTest, gaussian_power, level_of, zcdp_power
from confide.privacy import ZCDP, Bracket, Event, Neighbours, epsilons, event_epsilon_bracket, price
from confide.privacy.definitions import Definition
from confide.releases.plan import Plan, events_by_attribute, events_by_move

DELTAS = tuple(Fraction(1, 10**power) for power in range(2, 16))
"""The δ of a picture."""
LEVELS = tuple(Fraction(step, 10**power) for power in (4, 3, 2) for step in range(1, 10)) + tuple(
    Fraction(step, 20) for step in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 19, 20)
)
"""The levels of a picture."""


@dataclass(frozen=True, slots=True)
class EpsilonPoint:
    """ε at one δ, in several ways, each rounded up."""

    delta: Fraction
    ways: dict[str, float]
    exact: Bracket | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"delta": float(self.delta)} | self.ways | _ends(self.exact)


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """The largest power at one level, in several ways, each rounded up."""

    level: Fraction
    zcdp: float
    gaussian: float
    exact: Bracket | None = None

    def as_dict(self) -> dict[str, Any]:
        numbers = {"level": float(self.level), "zcdp_power": self.zcdp, "gaussian_power": self.gaussian}
        return numbers | _ends(self.exact)


def epsilon_curve(
    rho: Exact,
    deltas: Iterable[Exact] = DELTAS,
    *,
    event: Event | None = None,
    neighbours: Neighbours = Neighbours.CHANGE_ONE,
) -> list[EpsilonPoint]:
    """ε over δ by Bun & Steinke, by Canonne, Kamath & Steinke and for Gaussian noise; with an event, its own too.

    Args:
        rho: The loss in zCDP.
        deltas: The deltas.
        event: Measurements whose own epsilon is wanted too.
        neighbours: What they are compared for.

    Returns:
        A point for each delta, every bound rounded up.

    >>> round(epsilon_curve("2.56", ["1e-10"])[0].ways["canonne_kamath_steinke"], 2)
    17.16
    """
    r = nonnegative(rho, "rho")
    points = []
    for delta in deltas:
        chance = as_delta(delta)
        own = None
        if event is not None and r:
            own = event_epsilon_bracket(event, neighbours, chance)
        points.append(EpsilonPoint(chance, epsilons(r, chance), own))
    return points


def power_curve(rho: Exact, levels: Sequence[Exact] = LEVELS, *, best: LossTest | None = None) -> list[PowerPoint]:
    """The largest power over the level: for every ρ-zCDP release, for Gaussian noise, and for one list of cells.

    Args:
        rho: The loss in zCDP.
        levels: The levels of the test.
        best: The best test against one list of cells, if its power is wanted too.

    Returns:
        A point for each level, every bound rounded up.

    >>> round(power_curve("2.56", ["0.05"])[0].gaussian, 4)
    0.7317
    """
    r = nonnegative(rho, "rho")
    return [
        PowerPoint(
            level_of(level), zcdp_power(r, level), gaussian_power(r, level), None if best is None else best.power(level)
        )
        for level in levels
    ]


def _ends(bracket: Bracket | None) -> dict[str, float]:
    return {} if bracket is None else {"exact_low": bracket.optimistic, "exact_high": bracket.pessimistic}


# The curves for parts of a promise: one attribute, another block of the same unit, being in the data or not.
#
# A test need not be about a whole record. If H₁ differs from H₀ in one attribute, or in the block within a county,
# only the measurements that can tell the difference count (:mod:`confide.releases.plan`), and the power is smaller.
# Under change-one neighbours, being in the data or not costs half: one count differs in each measurement, not two.
# Invariants are not part of any of this.


class DifferenceKind(StrEnum):
    """What the two hypotheses differ in."""

    EVERYTHING = "everything"
    MEMBERSHIP = "membership"
    ATTRIBUTE = "attribute"
    BLOCK_WITHIN = "block-within"


@dataclass(frozen=True)
class GuaranteePart:
    """One kind of difference between two data sets, and the measurements that can tell it."""

    kind: DifferenceKind
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
            DifferenceKind.EVERYTHING: "in everything",
            DifferenceKind.MEMBERSHIP: "in being there or not",
            DifferenceKind.ATTRIBUTE: f"in {self.name} alone",
            DifferenceKind.BLOCK_WITHIN: f"in its block, same {self.name}",
        }[self.kind]

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "name": self.name, "rho": str(self.rho), "rho_decimal": float(self.rho)}


def parts_of(plan: Plan) -> tuple[GuaranteePart, ...]:
    """A plan as one guarantee and its parts: everything, being in the data or not, by attribute, by block.

    Args:
        plan: A plan with a loss in zCDP.

    Returns:
        The parts, everything first.
    """
    if not plan.has_loss or plan.definition is not Definition.ZCDP:
        raise ParameterError(
            "no-zcdp-loss", definition=plan.definition.value if plan.has_loss else None, has_loss=plan.has_loss
        )
    change = Neighbours.CHANGE_ONE
    everything = GuaranteePart(DifferenceKind.EVERYTHING, "", plan.event, plan.neighbours)
    parts = [everything] if plan.neighbours is not change else [everything, _membership(plan)]
    parts += [
        GuaranteePart(DifferenceKind.ATTRIBUTE, name, event, change)
        for name, event in events_by_attribute(plan).items()
    ]
    parts += [
        GuaranteePart(DifferenceKind.BLOCK_WITHIN, name, event, change) for name, event in events_by_move(plan).items()
    ]
    return tuple(parts)


def _membership(plan: Plan) -> GuaranteePart:
    return GuaranteePart(DifferenceKind.MEMBERSHIP, "", plan.event, Neighbours.ADD_REMOVE)
