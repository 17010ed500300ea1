"""The accountant: composes events into one loss, exactly.

For every event two numbers are found by going through its parts once:

* a: the loss when one record is added or removed,
* c: the loss when one record is changed into another,

in units of ε (pure) or ρ (zCDP). Both are needed even if only one is asked for, because a changed record may leave one
member of a family and enter another: for the members that is a removal and an addition.

=============== ==================== ==============================================
event           a                    c
=============== ==================== ==============================================
Measurement     times · loss(Δ)      times · loss(Δ), each with its own sensitivity
Sequential      sum                  sum
Parallel        largest              twice the largest w
BoundedDegree   sum of the d largest twice the sum of the d largest w
=============== ==================== ==============================================

with w = max(a, c/2). For measurements c = 2a, and then the last column is the largest, or the sum of the d largest, c.
Derivation: ``docs/proofs/accounting.md``, section 3 (Lemmas 3 to 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from confide.errors import BudgetExceededError, Finding, ParameterError
from confide.privacy.calibration import Distribution, gaussian_loss, geometric_loss, geometric_zcdp_loss
from confide.privacy.definitions import ZCDP, ApproxDP, Definition, Neighbours, PureDP
from confide.privacy.events import BoundedDegree, Event, Measurement, Parallel, Sequential, unsupported
from confide.privacy.sensitivity import Sensitivity, bounded_degree

Loss = PureDP | ZCDP | ApproxDP


class _Cost(NamedTuple):
    """Loss when a record is added or removed, and when it is changed."""

    touched: Fraction
    changed: Fraction


def price(event: Event, neighbours: Neighbours, definition: Definition) -> Loss:
    """The loss of ``event`` in ``definition``, found before anything is measured.

    In zCDP geometric noise is converted exactly. In pure and approximate, discrete Gaussian noise is refused: it has no
    pure loss, and what it has at a δ must be found for the total, not measurement by measurement.
    """
    cost = _cost(event, definition)
    number = cost.changed if neighbours is Neighbours.CHANGE_ONE else cost.touched
    if definition is Definition.ZCDP:
        return ZCDP(number)
    return PureDP(number) if definition is Definition.PURE else PureDP(number).to_approximate()


@dataclass(frozen=True, slots=True)
class Accountant:
    """What has been composed so far, as a value.

    :meth:`compose` prices everything, compares it with the budget and only then returns the new account. An error
    leaves the old one as it was.
    """

    neighbours: Neighbours
    definition: Definition
    budget: Loss | None = None
    events: tuple[Event, ...] = ()
    spent: Loss = field(init=False)

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget.definition is not self.definition:
            raise ParameterError(
                Finding(
                    code="budget-of-another-kind",
                    what="the budget is not a loss of the kind that is accounted",
                    found=self.budget.definition.value,
                    expected=self.definition.value,
                    remedy="convert the budget before opening the account",
                )
            )
        spent = price(Sequential(self.events), self.neighbours, self.definition)
        if self.budget is not None and not spent <= self.budget:
            raise BudgetExceededError(
                Finding(
                    code="budget-exceeded",
                    what="the events cost more than the budget",
                    found=str(spent),
                    expected=f"at most {self.budget}",
                    remedy="plan fewer or noisier measurements, or decide on a larger budget",
                )
            )
        object.__setattr__(self, "spent", spent)

    def compose(self, events: Event | Iterable[Event]) -> Accountant:
        """The account after ``events``, one after the other, on top of what is there."""
        added = (events,) if isinstance(events, Measurement | Sequential | Parallel | BoundedDegree) else tuple(events)
        return Accountant(self.neighbours, self.definition, self.budget, self.events + added)

    @property
    def remaining(self) -> Loss | None:
        """What is left of the budget; None where no budget was set."""
        return None if self.budget is None else self.budget - self.spent


def _cost(event: Event, definition: Definition) -> _Cost:
    if isinstance(event, Measurement):
        return _Cost(
            _measured(event, bounded_degree(event.degree, Neighbours.ADD_REMOVE), definition),
            _measured(event, bounded_degree(event.degree, Neighbours.CHANGE_ONE), definition),
        )
    if isinstance(event, Sequential):
        parts = [_cost(part, definition) for part in event.events]
        return _Cost(sum((p.touched for p in parts), Fraction()), sum((p.changed for p in parts), Fraction()))
    if isinstance(event, Parallel):
        return _largest([(_cost(part, definition), 1) for part in event.events], 1)
    if isinstance(event, BoundedDegree):
        members = [_cost(part, definition) for part in event.events]
        return _largest(list(zip(members, event.copies, strict=True)), event.degree)
    raise unsupported(type(event).__name__)


def _largest(members: Sequence[tuple[_Cost, int]], degree: int) -> _Cost:
    """The family in which a record is in at most ``degree`` members; each cost with its number of copies."""
    touched = _top([(cost.touched, copies) for cost, copies in members], degree)
    weight = _top([(max(cost.touched, cost.changed / 2), copies) for cost, copies in members], degree)
    return _Cost(touched, 2 * weight)


def _top(values: Iterable[tuple[Fraction, int]], places: int) -> Fraction:
    """The sum of the ``places`` largest values, counted with their copies."""
    total = Fraction()
    for value, copies in sorted(values, reverse=True):
        taken = min(copies, places)
        total += taken * value
        places -= taken
    return total


def _measured(event: Measurement, sensitivity: Sensitivity, definition: Definition) -> Fraction:
    if event.distribution is Distribution.DISCRETE_GAUSSIAN:
        if definition is not Definition.ZCDP:
            raise ParameterError(
                Finding(
                    code="no-pure-loss",
                    what=f"discrete Gaussian noise cannot be accounted in {definition.value} differential privacy",
                    found=f"measurement {event.label!r} with sigma2 = {event.parameter}",
                    expected="geometric noise",
                    remedy="account in zcdp and convert the total to epsilon at a delta, or plan geometric noise",
                )
            )
        return event.times * gaussian_loss(event.parameter, sensitivity).rho
    if definition is Definition.ZCDP:
        return event.times * geometric_zcdp_loss(event.parameter, sensitivity).rho
    return event.times * geometric_loss(event.parameter, sensitivity).epsilon
