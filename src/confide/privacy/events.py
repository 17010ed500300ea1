"""Events: what a plan will do with the records, as far as privacy is concerned.

An event is a frozen value without data. The accountant prices it; its plain form is hashed into the plan. The
compatibility law: an event is never removed and its fields never change meaning, so that a plan written today is priced
the same for ever. A new meaning is a new event, and what a version does not know it refuses.

* :class:`Measurement`: noise added to the counts of one query;
* :class:`TruncatedMeasurement`: the same with noise that has a bound, which has no loss but an (ε, δ);
* :class:`Sequential`: events on the same records, each possibly chosen by the outcomes of those before it;
* :class:`Parallel`: events on disjoint sets of records, such as the areas of one geolevel;
* :class:`BoundedDegree`: events on overlapping sets of records, a record being in at most ``degree`` of them.

For Parallel and BoundedDegree the sets are described by the values of a record alone (its area, its groups), and are
fixed before the records are read. Derivation: ``docs/proofs/accounting.md``, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from confide.errors import ConfideError, ParameterError
from confide.exact import Exact, integer, positive, rounded_up
from confide.noise.bounded import TruncatedDistribution
from confide.noise.distributions import DiscreteGaussian, TwoSidedGeometric
from confide.noise.release_noise import ReleaseNoise, beyond_mass, outside_mass
from confide.privacy.definitions import Distribution

_PARAMETER = {Distribution.DISCRETE_GAUSSIAN: "sigma2", Distribution.GEOMETRIC: "epsilon"}


@dataclass(frozen=True, init=False, slots=True)
class Measurement:
    """Independent noise on every cell of one counting query.

    ``parameter`` is the σ² of the discrete Gaussian or the ε per cell of the geometric distribution. Each record counts
    in at most ``degree`` cells. The whole query is measured ``times`` times. ``label`` is for readers and has no cost.
    """

    distribution: Distribution
    parameter: Fraction
    degree: int
    times: int
    label: str

    def __init__(
        self, distribution: Distribution, parameter: Exact, degree: int = 1, times: int = 1, label: str = ""
    ) -> None:
        if not isinstance(distribution, Distribution):
            raise unsupported(f"distribution {distribution!r}")
        object.__setattr__(self, "distribution", distribution)
        object.__setattr__(self, "parameter", positive(parameter, _PARAMETER[distribution]))
        object.__setattr__(self, "degree", integer(degree, "degree"))
        object.__setattr__(self, "times", integer(times, "times"))
        object.__setattr__(self, "label", label)

    @classmethod
    def discrete_gaussian(cls, sigma2: Exact, degree: int = 1, times: int = 1, label: str = "") -> Measurement:
        """A measurement with P[noise = k] proportional to exp(−k²/2σ²)."""
        return cls(Distribution.DISCRETE_GAUSSIAN, sigma2, degree, times, label)

    @classmethod
    def geometric(cls, epsilon: Exact, degree: int = 1, times: int = 1, label: str = "") -> Measurement:
        """A measurement with P[noise = k] proportional to exp(−ε|k|)."""
        return cls(Distribution.GEOMETRIC, epsilon, degree, times, label)

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
            raise ParameterError(
                "copies-do-not-match",
                "there must be one number of copies for each event of the family",
                found=f"{len(numbers)} numbers for {len(members)} events",
                expected=f"{len(members)} numbers",
                remedy="give the number of members for each event",
            )
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


Event: TypeAlias = Measurement | TruncatedMeasurement | Sequential | Parallel | BoundedDegree
EVENTS = (Measurement, TruncatedMeasurement, Sequential, Parallel, BoundedDegree)


def event_from_dict(values: Mapping[str, Any]) -> Event:
    """The event that ``as_dict`` wrote; whatever is not exactly that is refused."""
    try:
        event = _read(values)
    except ConfideError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise unsupported(str(values)[:200]) from None
    if event.as_dict() != values:
        raise unsupported(f"{str(values)[:200]}, which is not the plain form of what it seems to be")
    return event


def _read(values: Mapping[str, Any]) -> Event:
    name = values["event"]
    if name == "measurement":
        distribution = Distribution(values["distribution"])
        return Measurement(
            distribution, values[_PARAMETER[distribution]], values["degree"], values["times"], values["label"]
        )
    if name == "truncated-measurement":
        measurement = _read(values["measurement"])
        if not isinstance(measurement, Measurement):
            raise unsupported(str(values)[:200])
        return TruncatedMeasurement(measurement, values["bound"], values["outside"], values["beyond"])
    if name not in ("sequential", "parallel", "bounded-degree"):
        raise unsupported(f"event {name!r}")
    members = [event_from_dict(member) for member in values["events"]]
    if name == "sequential":
        return Sequential(members)
    if name == "parallel":
        return Parallel(members)
    return BoundedDegree(members, values["degree"], values["copies"])


@lru_cache(maxsize=4096)
def event_of_noise(distribution: ReleaseNoise, label: str = "") -> Measurement | TruncatedMeasurement:
    """The event of a query in which each record counts in at most one cell, measured with this noise.

    Args:
        distribution: Noise that the accountant has a price for; truncated noise has one in approximate alone.
        label: For readers of the plan.

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
    if not isinstance(distribution, TruncatedDistribution):
        return event
    outside, beyond = outside_mass(distribution), beyond_mass(free, distribution.bound)
    return TruncatedMeasurement(event, distribution.bound, rounded_up(outside), rounded_up(beyond))


def unsupported(found: str) -> ParameterError:
    """The error for an event that this version cannot price."""
    return ParameterError(
        "unsupported-event",
        "this version cannot price the event",
        found=found,
        expected="measurement (discrete-gaussian or two-sided-geometric), truncated-measurement, sequential, "
        "parallel or bounded-degree",
        remedy="use the version of Confide that wrote the plan, or plan with the events listed",
    )


def _members(events: Iterable[Event]) -> tuple[Event, ...]:
    members = tuple(events)
    for member in members:
        if not isinstance(member, EVENTS):
            raise unsupported(type(member).__name__)
    return members
