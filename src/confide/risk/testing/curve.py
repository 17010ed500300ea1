"""The guarantee as curves: ε over δ, and power over level, by every way that is known.

One pair (ε, δ) says little about a test: with ε = 17.16 and δ = 10⁻¹⁰ every power up to 1 is allowed. The curves say
what the pair leaves out. Ways that hold for every ρ-zCDP release: ``bun_steinke``, ``canonne_kamath_steinke``,
``zcdp``. For Gaussian noise alone: ``gaussian_limit``, ``gaussian``. For the measurements given and no others:
``exact``, between two numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.exact import Exact
from confide.privacy import Bracket, Event, Neighbours, Parallel, event_epsilon_bracket
from confide.privacy.conversion import probability
from confide.privacy.definitions import nonnegative
from confide.risk.testing.level_power import gaussian_power, level_of
from confide.risk.testing.loss_test import LossTest
from confide.risk.testing.renyi import zcdp_power
from confide.runs.manifest import epsilons

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
    """ε over δ by Bun & Steinke, by Canonne, Kamath & Steinke and for Gaussian noise; with an event, its own too."""
    r = nonnegative(rho, "rho")
    found = []
    for delta in deltas:
        chance = probability(delta)
        own = None
        if event is not None and r:
            # As the only member of a family it is the same event, and its upper end is computed more tightly.
            family = event if isinstance(event, Parallel) else Parallel([event])
            own = event_epsilon_bracket(family, neighbours, chance)
        found.append(EpsilonPoint(chance, epsilons(r, chance), own))
    return found


def power_curve(rho: Exact, levels: Sequence[Exact] = LEVELS, *, best: LossTest | None = None) -> list[PowerPoint]:
    """The largest power over the level: for every ρ-zCDP release, for Gaussian noise, and for one list of cells."""
    r = nonnegative(rho, "rho")
    return [
        PowerPoint(
            level_of(level), zcdp_power(r, level), gaussian_power(r, level), None if best is None else best.power(level)
        )
        for level in levels
    ]


def _ends(bracket: Bracket | None) -> dict[str, float]:
    return {} if bracket is None else {"exact_low": bracket.optimistic, "exact_high": bracket.pessimistic}
