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
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from confide.arrays import Floats
from confide.errors import ParameterError
from confide.exact import Exact, as_delta, exact, integer, nonnegative, positive
from confide.noise import DiscreteGaussian
from confide.privacy.conversion import bun_steinke_epsilon, cks_epsilon
from confide.privacy.invariants import language
from confide.privacy.statements import factor, rounded_up
from confide.schema import NO_GROUP, Code, Query, Schema

# The smallest group whose records can be replaced together so that what is fixed for one becomes possible to change.
#
# If the records of a group S are taken out and the gap is filled so that nothing published exactly changes, posteriors
# and odds move by a factor of at most exp(2|S|ε) (Theorems 2 and 3, section 10). A group is good for a person A in it
# if the gap leaves open what A was: every *signature*, that is every combination of counts that a record at A's place
# or at one other place can be part of, must be possible for A. What is meant by possible is a :class:`Mode`:
#
# * ``PRODUCT``: signatures are permuted within S, so S has to contain all of them;
# * ``REFILL``: the gap may be filled with any records that keep counts, bounds and edit rules (Definition 3), which can
#   need fewer. The smallest S is the optimum of a small integer programme;
# * ``PAIRWISE``: one alternative at a time, as in Theorem 3, whose odds are those of two secrets. Two records are
# always enough, since A can change places with somebody who is what A might have been;
# * ``PRINTED``: as PRODUCT, but as long as all counts look at nothing but where and how somebody lives (place and
#   attributes marked ``residence``), these are exchanged as one bundle, which has two values: A's and another's. This
#   rule gives the eight values that the paper prints.
#
# Where a bound binds, more can be fixed for A than its signature. Every such facet then needs one other possible
# value. Bounds that are not said to bind are taken to have room for everyone in S. Derivation:
# ``docs/proofs/invariants.md``, 3.

# The integer programmes behind the smallest group: which records to take out, and how to fill the gap.
#
# Records fall into classes t that play the same part. Let s_t be how many of class t are taken out, A among them. For
# a target τ, a set of classes that must remain possible for A, the gap is filled with A as some class a ∈ τ and y_t
# others:
#
#     minimise Σ s_t   subject to   s_A ≥ 1,   and for every τ:   Σ y_t = Σ s_t − 1,
#     every published count:   Φ s = Φ (y + a),
#     a bound that nobody can leave:   Ψ (y + a) ≥ Ψ s;   that nobody can come to:   Ψ (y + a) ≤ Ψ s,
#
# all whole and not negative. The group is the same for all targets; the fill is not. Classes are few, and so HiGHS,
# which ``scipy.optimize.milp`` calls, takes milliseconds. With more than :data:`MOST_TARGETS` targets the programme
# is not solved: a group with one record in each, whose members are permuted, is a solution, and its size is given
# instead.


MOST_TARGETS = 24


@dataclass(frozen=True, slots=True)
class RecordClass:
    """Records that play the same part for A: distance, the counts they are in, the closed bounds, what differs."""

    distance: int
    signature: tuple[int | None, ...]
    """For each count: None if the record is not part of it, otherwise the distance of the unit that it counts in."""
    bound: tuple[bool, ...]
    """For each closed bound, whether the record is part of it in A's own unit."""
    differs: tuple[bool, ...]
    """For each facet that a bound fixes, whether the record has another value than A."""


class CoverProblem:
    """The smallest groups for one person A, whose class is the first. ``leaves``: for each closed bound, which way."""

    def __init__(self, classes: Sequence[RecordClass], leaves: Sequence[bool]):
        self.classes = tuple(classes)
        self.leaves = tuple(leaves)

    def cover(self, targets: Iterable[frozenset[int]]) -> int:
        """The fewest records, A's among them, that have one in every target: a group whose members are permuted."""
        return _cover(len(self.classes), tuple(targets))

    def pair(self, target: frozenset[int]) -> int:
        """The fewest records for one target: A alone, if A can be replaced by itself, otherwise A and one of it."""
        return 1 if any(self._replaces(self.classes[number]) for number in target) else 2

    def _replaces(self, other: RecordClass) -> bool:
        a = self.classes[0]
        bounded = zip(self.leaves, a.bound, other.bound, strict=True)
        return a.signature == other.signature and all(
            new >= old if leaves else new <= old for leaves, old, new in bounded
        )

    def refill(self, targets: Sequence[frozenset[int]]) -> int:
        """The fewest records whose gap can be filled with A in every target."""
        if len(targets) > MOST_TARGETS:
            return self.cover(targets)
        return _refill(self.classes, self.leaves, tuple(targets))


@lru_cache(maxsize=1024)
def _cover(kinds: int, targets: tuple[frozenset[int], ...]) -> int:
    rows = np.array([[float(n in target) for n in range(kinds)] for target in targets])
    return _solve(np.ones(kinds), rows, np.ones(len(rows)), np.full(len(rows), np.inf))


@lru_cache(maxsize=1024)
def _refill(classes: tuple[RecordClass, ...], leaves: tuple[bool, ...], targets: tuple[frozenset[int], ...]) -> int:
    kinds, number = len(classes), len(targets)
    equal = np.vstack([_counts(classes), np.ones((1, kinds))])  # the last row: as many records as before
    bounded = np.array([[float(item.bound[n]) for item in classes] for n in range(len(leaves))]).reshape(-1, kinds)
    low, high = np.where(leaves, 0.0, -np.inf), np.where(leaves, np.inf, 0.0)
    rows: list[Floats] = []
    least: list[Floats] = []
    most: list[Floats] = []

    def add(removed: Floats, at: int, filled: Floats, a: Floats, lower: Floats, upper: Floats) -> None:
        block = np.zeros((len(removed), kinds * (1 + 2 * number)))
        block[:, :kinds] = removed
        start = kinds * (1 + 2 * at)
        block[:, start : start + kinds] = filled
        block[:, start + kinds : start + 2 * kinds] = a
        rows.append(block)
        least.append(lower)
        most.append(upper)

    for at, target in enumerate(targets):
        zero, none = np.zeros(len(equal)), np.zeros((1, kinds))
        add(-equal, at, equal, equal, zero, zero)
        if len(bounded):
            add(-bounded, at, bounded, bounded, low, high)
        members = np.array([[float(n in target) for n in range(kinds)]])
        add(none, at, none, members, np.ones(1), np.ones(1))
        add(none, at, none, 1 - members, np.zeros(1), np.zeros(1))
    cost = np.zeros(kinds * (1 + 2 * number))
    cost[:kinds] = 1
    return _solve(cost, np.vstack(rows), np.concatenate(least), np.concatenate(most))


def _counts(classes: Sequence[RecordClass]) -> Floats:
    """One row for each unit of each published count: who is part of it."""
    width = len(classes[0].signature)
    units = dict.fromkeys((n, item.signature[n]) for item in classes for n in range(width))
    rows = [[float(item.signature[n] == unit) for item in classes] for n, unit in units if unit is not None]
    return np.array(rows).reshape(-1, len(classes))


def _solve(cost: Floats, rows: Floats, least: Floats, most: Floats) -> int:
    """The optimum; the first variable, A's own class, is at least one."""
    lower = np.zeros(len(cost))
    lower[0] = 1
    from scipy.optimize import Bounds, LinearConstraint, milp

    result = milp(
        cost,
        constraints=LinearConstraint(rows, least, most) if len(rows) else (),
        integrality=np.ones(len(cost)),
        bounds=Bounds(lower, np.inf),
    )
    # A permutation of one record of every class is always a solution, so the programme has an optimum.
    assert result.success, result.message
    return round(float(result.fun))


class Mode(StrEnum):
    """What it means that the group leaves open what somebody was."""

    PRINTED = "as-printed"
    PRODUCT = "permutation-product"
    REFILL = "refill"
    PAIRWISE = "pairwise"


@dataclass(frozen=True, slots=True)
class Situation:
    """A person of some kind, and what cannot be done in the person's own units."""

    kind: language.Kind
    closed: frozenset[language.Need] = frozenset()


@dataclass(frozen=True)
class RecordGroup:
    """The size of the smallest group: where every bound has room, and in the situations where one has not."""

    mode: Mode
    size: int
    exceptions: tuple[tuple[tuple[str, ...], int], ...] = ()

    @property
    def multiplier(self) -> int:
        """The multiple of ε in the exponent of the bound."""
        return 2 * self.size

    def as_dict(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "multiplier": self.multiplier,
            "exceptions": [
                {"when": list(when), "size": size, "multiplier": 2 * size} for when, size in self.exceptions
            ],
        }


def record_groups(invariants: language.Invariants) -> dict[Mode, RecordGroup]:
    """The smallest groups in all modes: the largest over all kinds of persons A."""
    world = invariants.world
    plain = {world.counted[kind]: kind for kind in world.kinds}
    sizes = [_sizes(invariants, Situation(kind)) for kind in plain.values()]
    exceptional: dict[tuple[str, ...], list[dict[Mode, int]]] = {}
    for when, situation in _situations(invariants):
        exceptional.setdefault(when, []).append(_sizes(invariants, situation))

    def group(mode: Mode) -> RecordGroup:
        exceptions = tuple(
            (when, max(sizes_by_mode[mode] for sizes_by_mode in many)) for when, many in exceptional.items()
        )
        return RecordGroup(mode, max(sizes_by_mode[mode] for sizes_by_mode in sizes), exceptions)

    return {mode: group(mode) for mode in Mode}


def group_size(invariants: language.Invariants, mode: Mode, situation: Situation) -> int:
    """The size of the smallest group for one person in one situation."""
    return _sizes(invariants, situation)[mode]


def _sizes(invariants: language.Invariants, situation: Situation) -> dict[Mode, int]:
    world = invariants.world
    fixed = _fixed(world, situation)
    problem = CoverProblem(_classes(world, situation, fixed), tuple(need.leaves for need in sorted(situation.closed)))
    classes = list(enumerate(problem.classes))
    signatures = dict.fromkeys(item.signature for _, item in classes if item.distance in (0, world.distances[-1]))
    targets = [frozenset(n for n, item in classes if item.signature == signature) for signature in signatures]
    other = [frozenset(n for n, item in classes if item.differs[number]) for number in range(len(fixed))]
    bundle = targets
    if len(targets) > 1 and _bundled(invariants):
        bundle = [targets[0], frozenset(range(len(classes))) - targets[0]]
    return {
        Mode.PRINTED: problem.cover([*bundle, *other]),
        Mode.PRODUCT: problem.cover([*targets, *other]),
        Mode.REFILL: problem.refill([*targets, *other]),
        Mode.PAIRWISE: max(problem.pair(target) for target in (*targets, *other)),
    }


def _situations(invariants: language.Invariants) -> Iterator[tuple[tuple[str, ...], Situation]]:
    """Every situation in which a bound fixes something, in words and by person."""
    situations = set()
    for answer in language.single_record(invariants).values():
        for stuck in answer.exceptions:
            for kind in sorted(stuck.who):
                if (kind, stuck.closed) not in situations:
                    situations.add((kind, stuck.closed))
                    yield stuck.when, Situation(kind, stuck.closed)


def _fixed(world: language.World, situation: Situation) -> list[language.Facet]:
    """The facets that a bound fixes for the person: with room everywhere they could be changed."""
    fixed = []
    for facet in language.facets(world) if situation.closed else ():
        own = facet.value(situation.kind)
        ways = [
            route for value, many in language.routes(facet, situation.kind).items() if value != own for route in many
        ]
        if facet.single(own) and ways and all(route & situation.closed for route in ways):
            fixed.append(facet)
    return fixed


def _bundled(invariants: language.Invariants) -> bool:
    living = {attribute.name for attribute in invariants.records.attributes if attribute.residence}
    return all(set(count.where) <= living for count in invariants.counts)


def _classes(world: language.World, situation: Situation, fixed: Sequence[language.Facet]) -> list[RecordClass]:
    """The classes of records at A's own place and at every distance from it; that of A itself is the first.

    Where the frame says that nobody is in a group, no record is of that class, in the group or in any fill.
    """
    bounds = world.invariants.bounds
    nobody = [need.bound for need in situation.closed if not need.leaves and bounds[need.bound].at_most == language.ANY]

    def possible(kind: language.Kind, distance: int) -> bool:
        return not any(world.bound[kind][n] and world.shared(distance, bounds[n].by) for n in nobody)

    def of(kind: language.Kind, distance: int) -> RecordClass:
        counts = zip(world.invariants.counts, world.counted[kind], strict=True)
        return RecordClass(
            distance,
            tuple((0 if world.shared(distance, c.by) else distance) if part else None for c, part in counts),
            tuple(
                world.bound[kind][need.bound] and world.shared(distance, bounds[need.bound].by)
                for need in sorted(situation.closed)
            ),
            tuple(facet.value(kind, distance) != facet.value(situation.kind) for facet in fixed),
        )

    every = (of(kind, far) for far in world.distances for kind in world.kinds if possible(kind, far))
    return list(dict.fromkeys([of(situation.kind, 0), *every]))


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
    answers: Mapping[str, language.Answer],
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


def _one_record(answers: Mapping[str, language.Answer], loss: RecordLoss, record: str) -> Iterator[str]:
    able = [answer for answer in answers.values() if answer.status is not language.Status.FIXED]
    if able:
        yield (
            f"Compare the release with one in which one {record}'s record had said something else and every figure that"
            " is published exactly had been the same. What somebody believes about the record differs between the two"
            f" by {loss.words(1)}. So far, the invariants cost nothing."
        )
    free = [answer.title for answer in able if answer.status is language.Status.FREE]
    if free:
        yield f"This holds for {_listed(free)}, whatever the data."
    said: dict[str, list[str]] = {}
    for answer in able:
        inside = f" inside of what the invariants tell apart ({'; '.join(answer.cells)})" if answer.cells else ""
        if answer.status is language.Status.COARSE:
            said.setdefault(f"it holds{inside}.", []).append(answer.title)
        elif answer.status is language.Status.DATA:
            said.setdefault(f"it holds{inside}, {_where_not(answer)}", []).append(answer.title)
    for text, titles in said.items():
        yield f"{_listed(titles)}: {text}"


def _where_not(answer: language.Answer) -> str:
    text = f"with fewer possible values where {_either(answer.depends_on)}."
    stuck = list(dict.fromkeys(" and ".join(item.when) for item in answer.exceptions))
    if stuck:
        text += f" None but the true one may be left where {_either(stuck)}; then nothing is promised for one record."
    return text


def _group(
    answers: Mapping[str, language.Answer], groups: Mapping[Mode, RecordGroup], loss: RecordLoss, record: str
) -> Iterator[str]:
    fixed = [a.title for a in answers.values() if a.status is language.Status.FIXED]
    partly = [answer for answer in answers.values() if answer.stuck and answer.status is not language.Status.FIXED]
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
