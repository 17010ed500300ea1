"""The accountant: composes events into one loss, exactly.

For every event two numbers are found by going through its parts once:

* a: the loss when one record is added or removed,
* c: the loss when one record is changed into another,

in units of ε (pure) or ρ (zCDP), or as the parts of an (ε, δ) (:mod:`confide.privacy.accountant`), which go through
the same table part by part. Both are needed even if only one is asked for, because a changed record may leave one
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
from functools import lru_cache
from typing import NamedTuple

from confide.errors import BudgetExceededError, Finding, ParameterError
from confide.exact import Exact, as_delta, rounded_up
from confide.privacy.conversion import cks_epsilon
from confide.privacy.definitions import (
    ZCDP,
    ApproxDP,
    Definition,
    Distribution,
    Neighbours,
    PureDP,
    Sensitivity,
    bounded_degree,
    gaussian_loss,
    geometric_loss,
    geometric_zcdp_loss,
)
from confide.privacy.events import (
    EVENTS,
    BoundedDegree,
    Event,
    Measurement,
    Parallel,
    Sequential,
    TruncatedMeasurement,
    unsupported,
)

# (ε, δ) of a whole plan, out of parts that add up.
#
# Noise with a bound has no pure loss and no ρ: some results are possible for one of two neighbouring counts alone.
# What a list of measurements promises at a δ is found from five sums over the counts that a neighbour changes, each
# exact:
#
#   pure      ε         of geometric noise, truncated or not
#   pure_rho  ε²/2      of the same noise: its ρ
#   rho       1/(2σ²)   of discrete Gaussian noise, truncated or not
#   outside   P[X = E]  of truncated noise, by the truncated law
#   beyond    P[|X| > E]  of truncated noise, by the law without a bound
#
# With δ' = (δ − outside)(1 − beyond), each of these holds, and the smallest ε is taken:
#
# * (pure, outside), if there is no Gaussian noise;
# * (pure + ε_CKS(rho, δ'), δ) and (ε_CKS(rho + pure_rho, δ'), δ), if δ' > 0,
#
# where ε_CKS is :func:`confide.privacy.conversion.cks_epsilon`; such an ε is rounded up to twelve digits. Derivation:
# ``docs/proofs/accounting.md``, section 7.


class ApproximateSums(NamedTuple):
    """The five sums."""

    pure: Fraction
    pure_rho: Fraction
    rho: Fraction
    outside: Fraction
    beyond: Fraction


def approximate_sums(event: Measurement | TruncatedMeasurement, sensitivity: Sensitivity) -> ApproximateSums:
    """What one measurement adds to the sums, each record being in a fixed number of its cells."""
    measurement = event if isinstance(event, Measurement) else event.measurement
    outside, beyond = (Fraction(0), Fraction(0)) if isinstance(event, Measurement) else (event.outside, event.beyond)
    times, changed = measurement.times, measurement.times * sensitivity.l1
    bounds = changed * outside, changed * beyond
    if measurement.distribution is Distribution.DISCRETE_GAUSSIAN:
        rho = times * gaussian_loss(measurement.parameter, sensitivity).rho
        return ApproximateSums(Fraction(0), Fraction(0), rho, *bounds)
    pure = times * geometric_loss(measurement.parameter, sensitivity).epsilon
    rho = times * geometric_zcdp_loss(measurement.parameter, sensitivity).rho
    return ApproximateSums(pure, rho, Fraction(0), *bounds)


def approximate_loss(parts: ApproximateSums, delta: Exact | None) -> ApproxDP:
    """The smallest ε that is known to hold with a δ of at most ``delta``, and that δ. Without one: Gaussian noise has
    no ε."""
    losses = [] if parts.rho else [ApproxDP(parts.pure, parts.outside)]
    if delta is not None:
        limit = as_delta(delta)
        spare = (limit - parts.outside) * (1 - parts.beyond) if parts.beyond < 1 else Fraction(0)
        if spare > 0 and parts.rho + parts.pure_rho:
            mixed = parts.pure + Fraction(cks_epsilon(parts.rho, spare))
            alone = Fraction(cks_epsilon(parts.rho + parts.pure_rho, spare))
            losses.append(ApproxDP(rounded_up(min(mixed, alone)), limit))
    if not losses:
        raise ParameterError(_no_epsilon(parts, delta))
    return min(losses, key=lambda loss: (loss.epsilon, loss.delta))


def _no_epsilon(parts: ApproximateSums, delta: Exact | None) -> Finding:
    if delta is None:
        return Finding(
            code="no-pure-loss",
            what="discrete Gaussian noise has an epsilon at a delta only",
            found="no delta",
            expected='a delta such as "1e-10"',
            remedy="name a delta, account in zcdp, or plan geometric noise",
        )
    return Finding(
        code="delta-too-small",
        what="the bound of the noise gives away more than delta allows, whatever epsilon is",
        found=f"delta = {delta}; results that only one of two neighbours can have: {float(parts.outside):.3g}",
        expected="results at the edge that are rarer than delta",
        remedy="take a larger bound, a larger delta, or noise without a bound",
    )


Loss = PureDP | ZCDP | ApproxDP


Amounts = tuple[Fraction, ...]
"""ε or ρ alone, or the parts of an (ε, δ)."""


class _Cost(NamedTuple):
    """Loss when a record is added or removed, and when it is changed."""

    touched: Amounts
    changed: Amounts


def price(event: Event, neighbours: Neighbours, definition: Definition, delta: Exact | None = None) -> Loss:
    """The loss of ``event`` in ``definition``, found before anything is measured.

    In zCDP geometric noise is converted exactly. In pure, discrete Gaussian noise is refused: it has no pure loss; and
    truncated noise, which has neither, is priced in approximate alone. There ``delta`` is the largest δ of the whole,
    and without it Gaussian noise is refused.

    Args:
        event: One measurement, or several put together.
        neighbours: What the guarantee compares.
        definition: The kind of loss.
        delta: In approximate: the largest δ, exact.

    Returns:
        An exact loss of that kind.

    >>> twice = Measurement.discrete_gaussian(4, times=2)
    >>> price(twice, Neighbours.ADD_REMOVE, Definition.ZCDP)
    ZCDP(rho=Fraction(1, 4))
    """
    cost = _cost(event, definition)
    amounts = cost.changed if neighbours is Neighbours.CHANGE_ONE else cost.touched
    if definition is Definition.APPROXIMATE:
        return approximate_loss(ApproximateSums(*amounts), delta)
    (number,) = amounts
    return ZCDP(number) if definition is Definition.ZCDP else PureDP(number)


@dataclass(frozen=True, slots=True)
class Accountant:
    """What has been composed so far, as a value.

    :meth:`compose` prices everything, compares it with the budget and only then returns the new account. An error
    leaves the old one as it was.

    >>> account = Accountant(Neighbours.ADD_REMOVE, Definition.ZCDP, budget=ZCDP(1))
    >>> account.compose(Measurement.discrete_gaussian(2)).remaining
    ZCDP(rho=Fraction(3, 4))
    """

    neighbours: Neighbours
    definition: Definition
    budget: Loss | None = None
    events: tuple[Event, ...] = ()
    spent: Loss = field(init=False)

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget.definition is not self.definition:
            raise ParameterError(
                "budget-of-another-kind",
                "the budget is not a loss of the kind that is accounted",
                found=self.budget.definition.value,
                expected=self.definition.value,
                remedy="convert the budget before opening the account",
            )
        delta = self.budget.delta if isinstance(self.budget, ApproxDP) and 0 < self.budget.delta < 1 else None
        spent = price(Sequential(self.events), self.neighbours, self.definition, delta)
        if self.budget is not None and not spent <= self.budget:
            raise BudgetExceededError(
                "budget-exceeded",
                "the events cost more than the budget",
                found=str(spent),
                expected=f"at most {self.budget}",
                remedy="plan fewer or noisier measurements, or decide on a larger budget",
            )
        object.__setattr__(self, "spent", spent)

    def compose(self, events: Event | Iterable[Event]) -> Accountant:
        """The account after ``events``, one after the other, on top of what is there."""
        added = (events,) if isinstance(events, EVENTS) else tuple(events)
        return Accountant(self.neighbours, self.definition, self.budget, self.events + added)

    @property
    def remaining(self) -> Loss | None:
        """What is left of the budget; None where no budget was set."""
        return None if self.budget is None else self.budget - self.spent


def _cost(event: Event, definition: Definition) -> _Cost:
    if isinstance(event, Measurement | TruncatedMeasurement):
        degree = event.degree if isinstance(event, Measurement) else event.measurement.degree
        return _Cost(
            _measured(event, bounded_degree(degree, Neighbours.ADD_REMOVE), definition),
            _measured(event, bounded_degree(degree, Neighbours.CHANGE_ONE), definition),
        )
    if isinstance(event, Sequential):
        parts = [_cost(part, definition) for part in event.events]
        return _Cost(_sum((p.touched for p in parts), definition), _sum((p.changed for p in parts), definition))
    if isinstance(event, Parallel):
        return _largest([(_cost(part, definition), 1) for part in event.events], 1, definition)
    if isinstance(event, BoundedDegree):
        members = [_cost(part, definition) for part in event.events]
        return _largest(list(zip(members, event.copies, strict=True)), event.degree, definition)
    raise unsupported(type(event).__name__)


def _sum(amounts: Iterable[Amounts], definition: Definition) -> Amounts:
    return tuple(sum(part, Fraction()) for part in zip(_nothing(definition), *amounts, strict=True))


def _nothing(definition: Definition) -> Amounts:
    return (Fraction(0),) * (len(ApproximateSums._fields) if definition is Definition.APPROXIMATE else 1)


def _largest(members: Sequence[tuple[_Cost, int]], degree: int, definition: Definition) -> _Cost:
    """The family in which a record is in at most ``degree`` members; each cost with its number of copies.

    Where a cost has parts, each part is the largest by itself, which no choice of members exceeds.
    """
    if not members:
        return _Cost(_nothing(definition), _nothing(definition))
    copies = [number for _, number in members]
    touched = [cost.touched for cost, _ in members]
    weights = [tuple(max(a, c / 2) for a, c in zip(cost.touched, cost.changed, strict=True)) for cost, _ in members]
    return _Cost(
        tuple(_top(zip(part, copies, strict=True), degree) for part in zip(*touched, strict=True)),
        tuple(2 * _top(zip(part, copies, strict=True), degree) for part in zip(*weights, strict=True)),
    )


def _top(values: Iterable[tuple[Fraction, int]], places: int) -> Fraction:
    """The sum of the ``places`` largest values, counted with their copies."""
    total = Fraction()
    for value, copies in sorted(values, reverse=True):
        counted = min(copies, places)
        total += counted * value
        places -= counted
    return total


@lru_cache(maxsize=1 << 12)  # a certificate asks for the price of the same measurements in many combinations
def _measured(event: Measurement | TruncatedMeasurement, sensitivity: Sensitivity, definition: Definition) -> Amounts:
    if definition is Definition.APPROXIMATE:
        return approximate_sums(event, sensitivity)
    if isinstance(event, TruncatedMeasurement):
        raise ParameterError(
            "bounded-noise",
            f"noise with a bound cannot be accounted in {definition.value}",
            found=f"measurement {event.measurement.label!r} with noise of at most ±{event.bound}",
            expected="noise without a bound",
            remedy="account in approximate, with an epsilon and a delta, or plan noise without a bound",
        )
    if event.distribution is Distribution.DISCRETE_GAUSSIAN:
        if definition is Definition.PURE:
            raise ParameterError(
                "no-pure-loss",
                "discrete Gaussian noise cannot be accounted in pure differential privacy",
                found=f"measurement {event.label!r} with sigma2 = {event.parameter}",
                expected="geometric noise",
                remedy="account in zcdp and convert the total to epsilon at a delta, or plan geometric noise",
            )
        return (event.times * gaussian_loss(event.parameter, sensitivity).rho,)
    if definition is Definition.ZCDP:
        return (event.times * geometric_zcdp_loss(event.parameter, sensitivity).rho,)
    return (event.times * geometric_loss(event.parameter, sensitivity).epsilon,)
