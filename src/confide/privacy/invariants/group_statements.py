"""What the promise becomes for a group of records, in numbers and in words.

Pure: every posterior and, for a pair of secrets, every ratio of odds moves by a factor of at most exp(2kε) against a
release with the k records replaced (Theorems 1 to 3). zCDP: k records are ρ_k apart, with ρ_k ≤ k²ρ, or what
:mod:`confide.privacy.invariants.group_statements` finds. Two things follow:

* (ε, δ) by :func:`confide.privacy.conversion.cks_epsilon`, the smallest ε that ρ_k implies at δ;
* the posterior of what is true is multiplied by more than exp(2ε') with a probability of at most 2δ, and likewise
  divided, where ε' is :func:`confide.privacy.conversion.bun_steinke_epsilon`. The smaller ε above will not do: it
  bounds the (ε, δ) curve, not the probability of a large loss. The expected logarithm of the factor is at most ρ_k.

Every number is rounded up. Derivation: ``docs/proofs/invariants.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from confide.errors import ParameterError
from confide.exact import Exact, as_delta, exact, integer, nonnegative, positive
from confide.noise import DiscreteGaussian
from confide.privacy.conversion import bun_steinke_epsilon, cks_epsilon
from confide.privacy.invariants.indistinguishable import Mode, RecordGroup
from confide.privacy.invariants.single_record import Answer, Status
from confide.privacy.statements import factor, rounded_up
from confide.schema import NO_GROUP, Code, Query, Schema

# What it really costs to change several records: ρ of a modification, from the measurements themselves.
#
# If D becomes D', a measurement with discrete Gaussian noise of parameter σ² in every cell tells them apart at ‖Q(D)
# − Q(D')‖²/(2σ²) in zCDP, and a release at the sum over its measurements. For k records this is never more than k²ρ,
# and k²ρ is reached only if all k leave the same cells and come to the same cells. Records that change between
# different cells cost kρ at most; records that exchange places cost nothing in any unit that contains both places.
# Derivation: ``docs/proofs/invariants.md``, section 4.


@dataclass(frozen=True)
class Record:
    """A record as measurements see it: its unit on every level, the root first, and its codes by attribute.

    ``path`` says which kind of path its block lies on, where a plan has several.
    """

    units: tuple[str, ...]
    values: Mapping[str, Code]
    path: int = 0


@dataclass(frozen=True)
class QueryMeasurement:
    """A query measured in every unit of a level (a place in ``Record.units``), with its noise.

    ``paths`` are the kinds of paths whose records take part; None for all.
    """

    level: int
    query: Query
    sigma2: Fraction
    paths: frozenset[int] | None = None

    def cell(self, record: Record) -> tuple[object, ...] | None:
        """The cell that a record counts in: the unit and the group of every variable; None if it does not count."""
        if self.paths is not None and record.path not in self.paths:
            return None
        groups = [int(v.assignment[v.attribute.index[record.values[v.attribute.name]]]) for v in self.query.variables]
        return None if NO_GROUP in groups else (record.units[self.level], *groups)


def rho_of_modification(
    measurements: Iterable[QueryMeasurement], before: Sequence[Record], after: Sequence[Record]
) -> Fraction:
    """The ρ between the data with the records ``before`` and the same data with ``after`` in their place, exactly."""
    total = Fraction(0)
    for measurement in measurements:
        change: dict[tuple[object, ...], int] = {}
        for records, step in ((before, -1), (after, 1)):
            for record in records:
                cell = measurement.cell(record)
                if cell is not None:
                    change[cell] = change.get(cell, 0) + step
        total += Fraction(sum(number**2 for number in change.values())) / (2 * measurement.sigma2)
    return total


class SpineMeasurement(Protocol):
    """One measurement of a plan, as far as it matters here."""

    @property
    def level(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def law(self) -> object: ...


class SpineMeasurements(Protocol):
    """The measurements of a plan and the spine they run along (:class:`confide.releases.plan.Plan` is one)."""

    @property
    def spine(self) -> Sequence[str]: ...
    @property
    def measures(self) -> Sequence[SpineMeasurement]: ...
    @property
    def paths(self) -> Sequence[Sequence[int]] | None: ...


def measurements_of(plan: SpineMeasurements, schema: Schema) -> list[QueryMeasurement]:
    """The measurements of a plan with discrete Gaussian noise, for :func:`rho_of_modification`."""
    measurements = []
    for number, measure in enumerate(plan.measures):
        if not isinstance(measure.law, DiscreteGaussian) or measure.level not in plan.spine:
            raise _not_on_a_spine(f"{measure.level} {measure.query}: {type(measure.law).__name__}")
        everything = measure.query == "detailed"
        query = schema.query("*".join(a.name for a in schema.attributes) if everything else measure.query)
        paths = frozenset(n for n, path in enumerate(plan.paths) if number in path) if plan.paths else None
        measurements.append(QueryMeasurement(plan.spine.index(measure.level), query, measure.law.sigma2, paths))
    return measurements


def exchange_rho(plan: SpineMeasurements, within: str | None = None) -> Fraction:
    """At most what it costs that two records exchange their places, exactly: the blocks being in one unit of ``within``
    (None: anywhere) and in different ones below.

    Above, nothing changes. Below, on each of the two paths one record leaves and one comes: two cells of every query.
    """
    first = 0 if within is None else plan.spine.index(within) + 1
    below = set(plan.spine[first:])
    paths = plan.paths or (tuple(range(len(plan.measures))),)
    return 2 * max(
        sum((_precision(plan, n) for n in path if plan.measures[n].level in below), Fraction(0)) for path in paths
    )


def worst_rho(rho: Fraction, records: int) -> Fraction:
    """k²ρ: what k records cost at most, whatever they are changed into."""
    return integer(records, "records") ** 2 * nonnegative(rho, "rho")


def distinct_rho(rho: Fraction, records: int) -> Fraction:
    """kρ: what k records cost at most if no two leave, or come to, the same cell."""
    return integer(records, "records") * nonnegative(rho, "rho")


def _precision(plan: SpineMeasurements, number: int) -> Fraction:
    measure = plan.measures[number]
    if not isinstance(measure.law, DiscreteGaussian):
        raise _not_on_a_spine(f"{measure.level} {measure.query}: {type(measure.law).__name__}")
    return 1 / measure.law.sigma2


def _not_on_a_spine(found: str) -> ParameterError:
    return ParameterError("not-on-a-spine", found=found)


DELTA = "1e-10"


@dataclass(frozen=True, slots=True)
class GroupConcentration:
    """What ρ says about ``records`` records that are replaced together, and ``rho`` apart."""

    records: int
    rho: Fraction
    delta: Fraction

    @property
    def epsilon(self) -> float:
        """The smallest ε at δ that ρ implies (Canonne, Kamath & Steinke), rounded up."""
        return cks_epsilon(self.rho, self.delta)

    @property
    def log_factor(self) -> float:
        """2ε': the posterior of what is true grows by more than its exponential with probability at most 2δ."""
        return 2 * bun_steinke_epsilon(self.rho, self.delta)

    def as_dict(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "rho": str(self.rho),
            "epsilon": self.epsilon,
            "log_factor": self.log_factor,
            "probability_at_least": float(1 - 2 * self.delta),
        }


def group_concentration(
    records: int, rho: Exact, delta: Exact = DELTA
) -> tuple[GroupConcentration, GroupConcentration]:
    """For k records of a ρ-zCDP release: the worst case k²ρ, and kρ where no two share a cell."""
    number, chance = exact(rho, "rho"), as_delta(delta)
    worst, distinct = worst_rho(number, records), distinct_rho(number, records)
    return GroupConcentration(records, worst, chance), GroupConcentration(records, distinct, chance)


def numbers(multiplier: int, *, epsilon: Exact | None, rho: Exact | None, delta: Exact = DELTA) -> dict[str, Any]:
    """The bounds for a multiplier 2k of ε, for a loss in either definition."""
    values: dict[str, Any] = {}
    if epsilon is not None:
        exponent = multiplier * positive(epsilon, "epsilon")
        values |= {"exponent": str(exponent), "log_factor": math.nextafter(float(exponent), math.inf)}
    if rho is not None:
        worst, distinct = group_concentration(multiplier // 2, positive(rho, "rho"), delta)
        values |= {"worst": worst.as_dict(), "distinct_cells": distinct.as_dict()}
    return values


@dataclass(frozen=True)
class RecordLoss:
    """The loss that sentences are to give numbers for: an ε, a ρ with a δ, or none."""

    epsilon: Exact | None = None
    rho: Exact | None = None
    delta: Exact = DELTA

    def words(self, records: int) -> str:
        """The bound for so many records that are replaced together."""
        text = f"a factor of at most exp({2 * records} epsilon)"
        if self.epsilon is not None:
            return f"{text}, which is {factor(2 * records * positive(self.epsilon, 'epsilon'))}"
        if self.rho is None:
            return text
        worst, distinct = group_concentration(records, positive(self.rho, "rho"), self.delta)
        text = f"rho = {rounded_up(worst.rho)}, epsilon = {rounded_up(worst.epsilon, 2)}"
        if records > 1:
            text += f"; if no two share a cell, rho = {rounded_up(distinct.rho)}"
            text += f", epsilon = {rounded_up(distinct.epsilon, 2)}"
        return f"a factor of at most {factor(worst.log_factor)} but for a probability of 2 delta ({text})"


def explain(
    answers: Mapping[str, Answer],
    groups: Mapping[Mode, RecordGroup],
    loss: RecordLoss | None = None,
    *,
    record: str = "person",
) -> list[str]:
    """What the invariants do to the promise, in plain sentences."""
    record_loss = loss or RecordLoss()
    at = "" if record_loss.rho is None else f" Every epsilon is stated at delta = {record_loss.delta}."
    return [
        *_one_record(answers, record_loss, record),
        *_group(answers, groups, record_loss, record),
        "What the invariants give away by themselves is not limited by any of this: it depends on what somebody knows "
        f"beforehand. The bounds are about what the noisy figures add to it.{at}",
    ]


def _one_record(answers: Mapping[str, Answer], loss: RecordLoss, record: str) -> Iterator[str]:
    able = [answer for answer in answers.values() if answer.status is not Status.FIXED]
    if able:
        yield (
            f"Compare the release with one in which one {record}'s record had said something else and every figure that"
            " is published exactly had been the same. What somebody believes about the record differs between the two"
            f" by {loss.words(1)}. So far, the invariants cost nothing."
        )
    free = [answer.title for answer in able if answer.status is Status.FREE]
    if free:
        yield f"This holds for {_listed(free)}, whatever the data."
    said: dict[str, list[str]] = {}
    for answer in able:
        inside = f" inside of what the invariants tell apart ({'; '.join(answer.cells)})" if answer.cells else ""
        if answer.status is Status.COARSE:
            said.setdefault(f"it holds{inside}.", []).append(answer.title)
        elif answer.status is Status.DATA:
            said.setdefault(f"it holds{inside}, {_where_not(answer)}", []).append(answer.title)
    for text, titles in said.items():
        yield f"{_listed(titles)}: {text}"


def _where_not(answer: Answer) -> str:
    text = f"with fewer possible values where {_either(answer.depends_on)}."
    stuck = list(dict.fromkeys(" and ".join(item.when) for item in answer.exceptions))
    if stuck:
        text += f" None but the true one may be left where {_either(stuck)}; then nothing is promised for one record."
    return text


def _group(
    answers: Mapping[str, Answer], groups: Mapping[Mode, RecordGroup], loss: RecordLoss, record: str
) -> Iterator[str]:
    fixed = [a.title for a in answers.values() if a.status is Status.FIXED]
    partly = [answer for answer in answers.values() if answer.stuck and answer.status is not Status.FIXED]
    fixed += [f"{answer.title} (if {' or '.join(answer.stuck)})" for answer in partly]
    if fixed:
        yield (
            f"{_listed(fixed)}: somebody who knows all other records can calculate it from the invariants. A {record} "
            "is hidden only among others: if the records of a group are replaced together and every figure that is "
            "published exactly stays the same, the group's own totals remain known, but not which of them was whose."
        )
    sizes: set[tuple[int, tuple[tuple[tuple[str, ...], int], ...]]] = set()
    for mode, words in _MEANT.items():
        group = groups[mode]
        if (group.size, group.exceptions) in sizes:
            continue  # a stronger meaning for the same price has been told
        sizes.add((group.size, group.exceptions))
        if group.size > 1:
            yield f"{words} takes a group of {group.size}: {loss.words(group.size)}."
        for when, size in group.exceptions:
            if size > group.size:
                yield f"{words} takes a group of {size} where {' and '.join(when)}: {loss.words(size)}."


_MEANT = {
    Mode.PRODUCT: "To leave open all combinations by permuting the records of the group",
    Mode.REFILL: "To leave open all combinations",
    Mode.PRINTED: "To leave open where and how somebody lives, as one thing,",
    Mode.PAIRWISE: "To leave open one alternative at a time",
}


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _either(words: Sequence[str]) -> str:
    return "; or ".join(words)
