"""The smallest group whose records can be replaced together so that what is fixed for one becomes possible to change.

If the records of a group S are taken out and the gap is filled so that nothing published exactly changes, posteriors
and odds move by a factor of at most exp(2|S|ε) (Theorems 2 and 3, section 10). A group is good for a person A in it if
the gap leaves open what A was: every *signature*, that is every combination of counts that a record at A's place or
at one other place can be part of, must be possible for A. What is meant by possible is a :class:`Mode`:

* ``PRODUCT``: signatures are permuted within S, so S has to contain all of them;
* ``REFILL``: the gap may be filled with any records that keep counts, bounds and edit rules (Definition 3), which can
  need fewer. The smallest S is the optimum of a small integer programme;
* ``PAIRWISE``: one alternative at a time, as in Theorem 3, whose odds are those of two secrets. Two records are always
  enough, since A can change places with somebody who is what A might have been;
* ``PRINTED``: as PRODUCT, but as long as all counts look at nothing but where and how somebody lives (place and
  attributes marked ``residence``), these are exchanged as one bundle, which has two values: A's and another's. This
  rule gives the eight values that the paper prints.

Where a bound binds, more can be fixed for A than its signature. Every such facet then needs one other possible value.
Bounds that are not said to bind are taken to have room for everyone in S. Derivation: ``docs/proofs/invariants.md``, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np

from confide.arrays import Floats
from confide.privacy.invariants.language import ANY, Invariants, Kind, World
from confide.privacy.invariants.single_record import Facet, Need, facets, routes, single_record

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

    kind: Kind
    closed: frozenset[Need] = frozenset()


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


def record_groups(invariants: Invariants) -> dict[Mode, RecordGroup]:
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


def group_size(invariants: Invariants, mode: Mode, situation: Situation) -> int:
    """The size of the smallest group for one person in one situation."""
    return _sizes(invariants, situation)[mode]


def _sizes(invariants: Invariants, situation: Situation) -> dict[Mode, int]:
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


def _situations(invariants: Invariants) -> Iterator[tuple[tuple[str, ...], Situation]]:
    """Every situation in which a bound fixes something, in words and by person."""
    situations = set()
    for answer in single_record(invariants).values():
        for stuck in answer.exceptions:
            for kind in sorted(stuck.who):
                if (kind, stuck.closed) not in situations:
                    situations.add((kind, stuck.closed))
                    yield stuck.when, Situation(kind, stuck.closed)


def _fixed(world: World, situation: Situation) -> list[Facet]:
    """The facets that a bound fixes for the person: with room everywhere they could be changed."""
    fixed = []
    for facet in facets(world) if situation.closed else ():
        own = facet.value(situation.kind)
        ways = [route for value, many in routes(facet, situation.kind).items() if value != own for route in many]
        if facet.single(own) and ways and all(route & situation.closed for route in ways):
            fixed.append(facet)
    return fixed


def _bundled(invariants: Invariants) -> bool:
    living = {attribute.name for attribute in invariants.records.attributes if attribute.residence}
    return all(set(count.where) <= living for count in invariants.counts)


def _classes(world: World, situation: Situation, fixed: Sequence[Facet]) -> list[RecordClass]:
    """The classes of records at A's own place and at every distance from it; that of A itself is the first.

    Where the frame says that nobody is in a group, no record is of that class, in the group or in any fill.
    """
    bounds = world.invariants.bounds
    nobody = [need.bound for need in situation.closed if not need.leaves and bounds[need.bound].at_most == ANY]

    def possible(kind: Kind, distance: int) -> bool:
        return not any(world.bound[kind][n] and world.shared(distance, bounds[n].by) for n in nobody)

    def of(kind: Kind, distance: int) -> RecordClass:
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
