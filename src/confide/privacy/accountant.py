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
Weighted        times · loss(Δ)      the same; both sensitivities are stated
Sequential      sum                  sum
Parallel        largest              twice the largest w
BoundedDegree   sum of the d largest twice the sum of the d largest w
=============== ==================== ==============================================

with w = max(a, c/2). For measurements c = 2a, and then the last column is the largest, or the sum of the d largest, c.
Derivation: ``docs/proofs/accounting.md``, section 3 (Lemmas 3 to 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from confide.errors import BudgetExceededError, ConfideError, Finding, ParameterError
from confide.exact import Exact, as_delta, integer, positive, rounded_up
from confide.noise.bounded import TruncatedDistribution
from confide.noise.distributions import DiscreteGaussian, TwoSidedGeometric
from confide.noise.release_noise import ReleaseNoise, beyond_mass, outside_mass
from confide.privacy import definitions
from confide.privacy.conversion import cks_epsilon

# Events: what a plan will do with the records, as far as privacy is concerned.
#
# An event is a frozen value without data. The accountant prices it; its plain form is hashed into the plan. The
# compatibility law: an event is never removed and its fields never change meaning, so that a plan written today is
# priced the same for ever. A new meaning is a new event, and what a version does not know it refuses.
#
# * :class:`Measurement`: noise added to the counts of one query;
# * :class:`TruncatedMeasurement`: the same with noise that has a bound, which has no loss but an (ε, δ);
# * :class:`WeightedMeasurement`: noise on counts, some of which one unit of privacy may change by more than one;
# * :class:`Sequential`: events on the same records, each possibly chosen by the outcomes of those before it;
# * :class:`Parallel`: events on disjoint sets of records, such as the areas of one geolevel;
# * :class:`BoundedDegree`: events on overlapping sets of records, a record being in at most ``degree`` of them.
#
# For Parallel and BoundedDegree the sets are described by the values of a record alone (its area, its groups), and are
# fixed before the records are read. Derivation: ``docs/proofs/accounting.md``, section 3.


_PARAMETER = {definitions.Distribution.DISCRETE_GAUSSIAN: "sigma2", definitions.Distribution.GEOMETRIC: "epsilon"}


@dataclass(frozen=True, init=False, slots=True)
class Measurement:
    """Independent noise on every cell of one counting query.

    ``parameter`` is the σ² of the discrete Gaussian or the ε per cell of the geometric distribution. Each record counts
    in at most ``degree`` cells. The whole query is measured ``times`` times. ``label`` is for readers and has no cost.
    """

    distribution: definitions.Distribution
    parameter: Fraction
    degree: int
    times: int
    label: str

    def __init__(
        self, distribution: definitions.Distribution, parameter: Exact, degree: int = 1, times: int = 1, label: str = ""
    ) -> None:
        if not isinstance(distribution, definitions.Distribution):
            raise ParameterError("unsupported-event/version-price", distribution=distribution)
        object.__setattr__(self, "distribution", distribution)
        object.__setattr__(self, "parameter", positive(parameter, _PARAMETER[distribution]))
        object.__setattr__(self, "degree", integer(degree, "degree"))
        object.__setattr__(self, "times", integer(times, "times"))
        object.__setattr__(self, "label", label)

    @classmethod
    def discrete_gaussian(cls, sigma2: Exact, degree: int = 1, times: int = 1, label: str = "") -> Measurement:
        """A measurement with P[noise = k] proportional to exp(−k²/2σ²)."""
        return cls(definitions.Distribution.DISCRETE_GAUSSIAN, sigma2, degree, times, label)

    @classmethod
    def geometric(cls, epsilon: Exact, degree: int = 1, times: int = 1, label: str = "") -> Measurement:
        """A measurement with P[noise = k] proportional to exp(−ε|k|)."""
        return cls(definitions.Distribution.GEOMETRIC, epsilon, degree, times, label)

    def as_dict(self) -> dict[str, Any]:
        return {
            "event": "measurement",
            "distribution": self.distribution.value,
            _PARAMETER[self.distribution]: str(self.parameter),
            "degree": self.degree,
            "times": self.times,
            "label": self.label,
        }


@dataclass(frozen=True, init=False, slots=True)
class TruncatedMeasurement:
    """A measurement whose noise is that of ``measurement`` given that it stays within ±``bound``.

    ``outside`` is the probability of the one result at the edge that a count which differs by one cannot have, and
    ``beyond`` the probability with which the noise would pass the bound if it had none; neither is below the truth.
    """

    measurement: Measurement
    bound: int
    outside: Fraction
    beyond: Fraction

    def __init__(self, measurement: Measurement, bound: int, outside: Exact, beyond: Exact) -> None:
        object.__setattr__(self, "measurement", measurement)
        object.__setattr__(self, "bound", integer(bound, "bound"))
        object.__setattr__(self, "outside", positive(outside, "outside"))
        object.__setattr__(self, "beyond", positive(beyond, "beyond"))

    def as_dict(self) -> dict[str, Any]:
        return {
            "event": "truncated-measurement",
            "measurement": self.measurement.as_dict(),
            "bound": self.bound,
            "outside": str(self.outside),
            "beyond": str(self.beyond),
        }


@dataclass(frozen=True, init=False, slots=True)
class WeightedMeasurement:
    """Independent noise on every cell of a query whose sensitivity is stated, not counted.

    For queries in which what is protected moves a count by more than one: a person whose whole household counts
    otherwise without it, once households are cut down to so many persons. ``times`` and ``label`` are as in
    :class:`Measurement`. Derivation: ``docs/proofs/accounting.md``, section 3.1.
    """

    distribution: definitions.Distribution
    parameter: Fraction
    sensitivity: definitions.StatedSensitivity
    times: int
    label: str

    def __init__(
        self,
        distribution: definitions.Distribution,
        parameter: Exact,
        sensitivity: definitions.StatedSensitivity,
        times: int = 1,
        label: str = "",
    ) -> None:
        noise = Measurement(distribution, parameter, times=times, label=label)
        object.__setattr__(self, "distribution", noise.distribution)
        object.__setattr__(self, "parameter", noise.parameter)
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "times", noise.times)
        object.__setattr__(self, "label", label)

    def as_dict(self) -> dict[str, Any]:
        return {
            "event": "weighted-measurement",
            "distribution": self.distribution.value,
            _PARAMETER[self.distribution]: str(self.parameter),
            **self.sensitivity.as_dict(),
            "times": self.times,
            "label": self.label,
        }


@dataclass(frozen=True, init=False, slots=True)
class Sequential:
    """Events on the same records. Costs add up."""

    events: tuple[Event, ...]

    def __init__(self, events: Iterable[Event]) -> None:
        object.__setattr__(self, "events", _members(events))

    def as_dict(self) -> dict[str, Any]:
        return {"event": "sequential", "events": [event.as_dict() for event in self.events]}


@dataclass(frozen=True, init=False, slots=True)
class Parallel:
    """Events on disjoint sets of records. The costliest counts; alike members need be listed only once."""

    events: tuple[Event, ...]

    def __init__(self, events: Iterable[Event]) -> None:
        object.__setattr__(self, "events", _members(events))

    def as_dict(self) -> dict[str, Any]:
        return {"event": "parallel", "events": [event.as_dict() for event in self.events]}


@dataclass(frozen=True, init=False, slots=True)
class BoundedDegree:
    """Events on sets of records that overlap: each record is in at most ``degree`` of the sets.

    The ``degree`` costliest members count. ``copies`` says for each event how many members of the family are like it;
    unlike in :class:`Parallel` the number matters, so it is never guessed. Absent, there is one of each.
    """

    events: tuple[Event, ...]
    degree: int
    copies: tuple[int, ...]

    def __init__(self, events: Iterable[Event], degree: int, copies: Iterable[int] | None = None) -> None:
        members = _members(events)
        numbers = (1,) * len(members) if copies is None else tuple(integer(number, "copies") for number in copies)
        if len(numbers) != len(members):
            raise ParameterError("copies-do-not-match", numbers=len(numbers), members=len(members))
        object.__setattr__(self, "events", members)
        object.__setattr__(self, "degree", integer(degree, "degree"))
        object.__setattr__(self, "copies", numbers)

    def as_dict(self) -> dict[str, Any]:
        return {
            "event": "bounded-degree",
            "degree": self.degree,
            "copies": list(self.copies),
            "events": [event.as_dict() for event in self.events],
        }


Noisy: TypeAlias = Measurement | TruncatedMeasurement | WeightedMeasurement
"""Events that measure; the others put events together."""
Event: TypeAlias = Noisy | Sequential | Parallel | BoundedDegree
EVENTS = (Measurement, TruncatedMeasurement, WeightedMeasurement, Sequential, Parallel, BoundedDegree)


def event_from_dict(values: Mapping[str, Any]) -> Event:
    """The event that ``as_dict`` wrote; whatever is not exactly that is refused.

    Args:
        values: Plain values, as a plan or a manifest has them.

    Returns:
        The event.

    >>> from confide.privacy.definitions import Distribution
    >>> event = Measurement(Distribution.DISCRETE_GAUSSIAN, 2, label="sex by county")
    >>> event_from_dict(event.as_dict()) == event
    True
    """
    try:
        event = _read(values)
    except ConfideError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ParameterError("unsupported-event/measurement-discrete-gaussian", found=str(values)[:200]) from None
    if event.as_dict() != values:
        raise ParameterError("unsupported-event/plain", values=str(values)[:200])
    return event


def _read(values: Mapping[str, Any]) -> Event:
    name = values["event"]
    if name == "measurement":
        distribution = definitions.Distribution(values["distribution"])
        return Measurement(
            distribution, values[_PARAMETER[distribution]], values["degree"], values["times"], values["label"]
        )
    if name == "truncated-measurement":
        measurement = _read(values["measurement"])
        if not isinstance(measurement, Measurement):
            raise ParameterError("unsupported-event/measurement-discrete-gaussian", found=str(values)[:200])
        return TruncatedMeasurement(measurement, values["bound"], values["outside"], values["beyond"])
    if name == "weighted-measurement":
        distribution = definitions.Distribution(values["distribution"])
        sensitivity = definitions.StatedSensitivity.from_dict(values)
        parameter = values[_PARAMETER[distribution]]
        return WeightedMeasurement(distribution, parameter, sensitivity, values["times"], values["label"])
    if name not in ("sequential", "parallel", "bounded-degree"):
        raise ParameterError("unsupported-event/use-version-confide", name=name)
    members = [event_from_dict(member) for member in values["events"]]
    if name == "sequential":
        return Sequential(members)
    if name == "parallel":
        return Parallel(members)
    return BoundedDegree(members, values["degree"], values["copies"])


@lru_cache(maxsize=4096)
def event_of_noise(
    distribution: ReleaseNoise, label: str = "", sensitivity: definitions.StatedSensitivity | None = None
) -> Noisy:
    """The event of a query measured with this noise.

    Args:
        distribution: Noise that the accountant has a price for; truncated noise has one in approximate alone.
        label: For readers of the plan.
        sensitivity: How far the query moves; by default each record counts in at most one cell.

    >>> event_of_noise(DiscreteGaussian(2)).as_dict()["sigma2"]
    '2'
    """
    free = distribution.untruncated if isinstance(distribution, TruncatedDistribution) else distribution
    if isinstance(free, DiscreteGaussian):
        event = Measurement.discrete_gaussian(free.sigma2, label=label)
    elif isinstance(free, TwoSidedGeometric):
        event = Measurement.geometric(free.epsilon, label=label)
    else:
        raise TypeError(f"no event for {distribution!r}")
    if sensitivity is not None:
        if isinstance(distribution, TruncatedDistribution):
            raise TypeError("noise with a bound has no price where a count may change by more than one")
        return WeightedMeasurement(event.distribution, event.parameter, sensitivity, label=label)
    if not isinstance(distribution, TruncatedDistribution):
        return event
    outside, beyond = outside_mass(distribution), beyond_mass(free, distribution.bound)
    return TruncatedMeasurement(event, distribution.bound, rounded_up(outside), rounded_up(beyond))


def unsupported(found: str) -> ParameterError:
    """The error for an event that this version cannot price."""
    return ParameterError("unsupported-event/measurement-discrete-gaussian", found=found)


def _members(events: Iterable[Event]) -> tuple[Event, ...]:
    members = tuple(events)
    for member in members:
        if not isinstance(member, EVENTS):
            raise ParameterError("unsupported-event/measurement-discrete-gaussian", found=type(member).__name__)
    return members


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


def approximate_sums(event: Noisy, sensitivity: definitions.Sensitivity) -> ApproximateSums:
    """What one measurement adds to the sums, each record moving its counts so far."""
    measurement = event.measurement if isinstance(event, TruncatedMeasurement) else event
    outside, beyond = Fraction(0), Fraction(0)
    if isinstance(event, TruncatedMeasurement):
        outside, beyond = event.outside, event.beyond
    times, changed = measurement.times, measurement.times * sensitivity.l1
    bounds = changed * outside, changed * beyond
    if measurement.distribution is definitions.Distribution.DISCRETE_GAUSSIAN:
        rho = times * definitions.gaussian_loss(measurement.parameter, sensitivity).rho
        return ApproximateSums(Fraction(0), Fraction(0), rho, *bounds)
    pure = times * definitions.geometric_loss(measurement.parameter, sensitivity).epsilon
    rho = times * definitions.geometric_zcdp_loss(measurement.parameter, sensitivity).rho
    return ApproximateSums(pure, rho, Fraction(0), *bounds)


def approximate_loss(parts: ApproximateSums, delta: Exact | None) -> definitions.ApproxDP:
    """The smallest ε that is known to hold with a δ of at most ``delta``, and that δ. Without one: Gaussian noise has
    no ε."""
    losses = [] if parts.rho else [definitions.ApproxDP(parts.pure, parts.outside)]
    if delta is not None:
        limit = as_delta(delta)
        spare = (limit - parts.outside) * (1 - parts.beyond) if parts.beyond < 1 else Fraction(0)
        if spare > 0 and parts.rho + parts.pure_rho:
            mixed = parts.pure + Fraction(cks_epsilon(parts.rho, spare))
            alone = Fraction(cks_epsilon(parts.rho + parts.pure_rho, spare))
            losses.append(definitions.ApproxDP(rounded_up(min(mixed, alone)), limit))
    if not losses:
        raise ParameterError(_no_epsilon(parts, delta))
    return min(losses, key=lambda loss: (loss.epsilon, loss.delta))


def _no_epsilon(parts: ApproximateSums, delta: Exact | None) -> Finding:
    if delta is None:
        return Finding.of("no-pure-loss/epsilon")
    return Finding.of("delta-too-small", delta=delta, outside=float(parts.outside))


Loss = definitions.PureDP | definitions.ZCDP | definitions.ApproxDP


Amounts = tuple[Fraction, ...]
"""ε or ρ alone, or the parts of an (ε, δ)."""


class _Cost(NamedTuple):
    """Loss when a record is added or removed, and when it is changed."""

    touched: Amounts
    changed: Amounts


def price(
    event: Event, neighbours: definitions.Neighbours, definition: definitions.Definition, delta: Exact | None = None
) -> Loss:
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

    >>> from confide.privacy import Definition, Neighbours
    >>> twice = Measurement.discrete_gaussian(4, times=2)
    >>> price(twice, Neighbours.ADD_REMOVE, Definition.ZCDP)
    ZCDP(rho=Fraction(1, 4))
    """
    cost = _cost(event, definition)
    amounts = cost.changed if neighbours is definitions.Neighbours.CHANGE_ONE else cost.touched
    return _loss(amounts, definition, delta)


def price_for(
    one: definitions.PrivacyUnit,
    event: Event,
    unit: definitions.PrivacyUnit,
    neighbours: definitions.Neighbours,
    definition: definitions.Definition,
    delta: Exact | None = None,
) -> Loss:
    """What ``event`` costs an account that is kept in units ``one``, the event being priced for a ``unit``.

    An account kept in records takes what a release says of its own unit. One that is kept in persons charges a release
    of households what a person may do to their file: change one row in any way, or two if it may have moved. What a
    household may do to a file of persons has no bound, and is refused. Derivation: ``docs/proofs/accounting.md``,
    section 3.2.

    Args:
        one: The unit of the account.
        event: What the release measures.
        unit: The unit of the release: what comes, goes or is changed in :func:`price`.
        neighbours: What the account compares.
        definition: The kind of loss.
        delta: In approximate: the largest δ, exact.

    Returns:
        An exact loss.

    >>> from confide.privacy import Definition, Neighbours, PrivacyUnit
    >>> tenure = Measurement.discrete_gaussian(2)
    >>> price_for(PrivacyUnit.PERSON, tenure, PrivacyUnit.HOUSEHOLD, Neighbours.ADD_REMOVE, Definition.ZCDP)
    ZCDP(rho=Fraction(1, 2))
    """
    if one in (definitions.PrivacyUnit.RECORD, unit):
        return price(event, neighbours, definition, delta)
    if (one, unit) != (definitions.PrivacyUnit.PERSON, definitions.PrivacyUnit.HOUSEHOLD):
        raise ParameterError("unit-of-account/none", unit=unit.value, one=one.value)
    cost = _cost(event, definition)
    amounts = tuple(map(max, cost.touched, cost.changed))
    if neighbours is definitions.Neighbours.CHANGE_ONE:
        if definition is definitions.Definition.APPROXIMATE:
            raise ParameterError("unit-of-account/moved")
        times = 4 if definition is definitions.Definition.ZCDP else 2
        amounts = tuple(times * amount for amount in amounts)
    return _loss(amounts, definition, delta)


def _loss(amounts: Amounts, definition: definitions.Definition, delta: Exact | None) -> Loss:
    if definition is definitions.Definition.APPROXIMATE:
        return approximate_loss(ApproximateSums(*amounts), delta)
    (number,) = amounts
    return definitions.ZCDP(number) if definition is definitions.Definition.ZCDP else definitions.PureDP(number)


@dataclass(frozen=True, slots=True)
class Accountant:
    """What has been composed so far, as a value.

    :meth:`compose` prices everything, compares it with the budget and only then returns the new account. An error
    leaves the old one as it was.

    >>> from confide.privacy import ZCDP, Definition, Neighbours
    >>> account = Accountant(Neighbours.ADD_REMOVE, Definition.ZCDP, budget=ZCDP(1))
    >>> account.compose(Measurement.discrete_gaussian(2)).remaining
    ZCDP(rho=Fraction(3, 4))
    """

    neighbours: definitions.Neighbours
    definition: definitions.Definition
    budget: Loss | None = None
    events: tuple[Event, ...] = ()
    spent: Loss = field(init=False)

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget.definition is not self.definition:
            raise ParameterError(
                "budget-of-another-kind", found=self.budget.definition.value, definition=self.definition.value
            )
        delta = (
            self.budget.delta if isinstance(self.budget, definitions.ApproxDP) and 0 < self.budget.delta < 1 else None
        )
        spent = price(Sequential(self.events), self.neighbours, self.definition, delta)
        if self.budget is not None and not spent <= self.budget:
            raise BudgetExceededError("budget-exceeded/events", found=str(spent), budget=self.budget)
        object.__setattr__(self, "spent", spent)

    def compose(self, events: Event | Iterable[Event]) -> Accountant:
        """The account after ``events``, one after the other, on top of what is there."""
        added = (events,) if isinstance(events, EVENTS) else tuple(events)
        return Accountant(self.neighbours, self.definition, self.budget, self.events + added)

    @property
    def remaining(self) -> Loss | None:
        """What is left of the budget; None where no budget was set."""
        return None if self.budget is None else self.budget - self.spent


def _cost(event: Event, definition: definitions.Definition) -> _Cost:
    if isinstance(event, WeightedMeasurement):
        stated = event.sensitivity
        return _Cost(_measured(event, stated.added, definition), _measured(event, stated.changed, definition))
    if isinstance(event, Measurement | TruncatedMeasurement):
        degree = event.degree if isinstance(event, Measurement) else event.measurement.degree
        return _Cost(
            _measured(event, definitions.bounded_degree(degree, definitions.Neighbours.ADD_REMOVE), definition),
            _measured(event, definitions.bounded_degree(degree, definitions.Neighbours.CHANGE_ONE), definition),
        )
    if isinstance(event, Sequential):
        parts = [_cost(part, definition) for part in event.events]
        return _Cost(_sum((p.touched for p in parts), definition), _sum((p.changed for p in parts), definition))
    if isinstance(event, Parallel):
        return _largest([(_cost(part, definition), 1) for part in event.events], 1, definition)
    if isinstance(event, BoundedDegree):
        members = [_cost(part, definition) for part in event.events]
        return _largest(list(zip(members, event.copies, strict=True)), event.degree, definition)
    raise ParameterError("unsupported-event/measurement-discrete-gaussian", found=type(event).__name__)


def _sum(amounts: Iterable[Amounts], definition: definitions.Definition) -> Amounts:
    return tuple(sum(part, Fraction()) for part in zip(_nothing(definition), *amounts, strict=True))


def _nothing(definition: definitions.Definition) -> Amounts:
    return (Fraction(0),) * (len(ApproximateSums._fields) if definition is definitions.Definition.APPROXIMATE else 1)


def _largest(members: Sequence[tuple[_Cost, int]], degree: int, definition: definitions.Definition) -> _Cost:
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
def _measured(event: Noisy, sensitivity: definitions.Sensitivity, definition: definitions.Definition) -> Amounts:
    if definition is definitions.Definition.APPROXIMATE:
        return approximate_sums(event, sensitivity)
    if isinstance(event, TruncatedMeasurement):
        raise ParameterError(
            "bounded-noise", definition=definition.value, measurement_label=event.measurement.label, bound=event.bound
        )
    if event.distribution is definitions.Distribution.DISCRETE_GAUSSIAN:
        if definition is definitions.Definition.PURE:
            raise ParameterError("no-pure-loss/accounted", event_label=event.label, parameter=event.parameter)
        return (event.times * definitions.gaussian_loss(event.parameter, sensitivity).rho,)
    if definition is definitions.Definition.ZCDP:
        return (event.times * definitions.geometric_zcdp_loss(event.parameter, sensitivity).rho,)
    return (event.times * definitions.geometric_loss(event.parameter, sensitivity).epsilon,)
