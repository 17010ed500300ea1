"""What one record could say instead, if nothing that is published exactly changes (Theorem 1, section 7).

Someone who knows all other records D₋₁ and the invariants I knows of a record r exactly which counts it is part of, and
how much room every bound has left. A modification strategy may replace r by any record of

    allowed(r) = {r' : the same counts; every bound still holds; no edit rule is broken},

and against a release with r replaced, the true release makes posteriors larger or smaller by a factor of at most
exp(2ε). So the attributes that allowed(r) can change are protected at 2ε, and nothing is said about the others.

Bounds make this depend on the data, through two facts for each: whether anybody can *leave* (the number is not at its
least) and whether anybody can *come* (not at its most). A *route* to another value is a set of such facts that is
enough for it. Routes are derived, not listed: for each pair of kinds of records and each distance of places. Elsewhere,
outside the units that the record itself is in, there is taken to be room.

An attribute is FREE if every value can be reached on a route that needs nothing, for every record; FIXED if no other
value can ever be; COARSE if what can be reached depends on the record alone; DATA if a route needs something.
Derivation: ``docs/proofs/invariants.md``, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from confide.privacy.invariants import language

# What is asked about a record: where it is, one geolevel at a time; its attributes; and groupings of attributes.


@dataclass(frozen=True)
class Facet:
    """One question about a record. Its values are numbers, and :meth:`value` is that of a kind at a distance."""

    world: language.World
    name: str
    title: str
    level: int | None = None
    """For a geolevel: how many geolevels from the end, 1 for the blocks."""
    place: int = 0
    """Otherwise: which attribute."""
    groups: tuple[frozenset[str], ...] | None = None
    """For a grouping: its groups."""
    labels: tuple[str, ...] = ()

    def value(self, kind: language.Kind, distance: int = 0) -> int:
        """The value that a record of ``kind`` has at ``distance``.

        For a geolevel: 0 in the unit that distances start from, otherwise the distance. For an attribute: the atom.
        """
        if self.level is not None:
            return distance if distance >= self.level else 0
        atom = kind[self.place]
        return atom if self.groups is None else self._group_of_atom[atom]

    @cached_property
    def values(self) -> frozenset[int]:
        """All values."""
        return frozenset(self.value(kind, far) for kind in self.world.kinds for far in self.world.distances)

    def single(self, value: int) -> bool:
        """Whether a value stands for one thing that the record can say, so that nothing inside it can be changed."""
        return self.level is not None or self.groups is not None or self.world.size(self.place, value) == 1

    def words(self, values: frozenset[int]) -> str:
        """A set of values in words."""
        if self.level is None:
            if self.groups is None:
                return self.world.words(self.place, values)
            return "any" if values == self.values else ", ".join(self.labels[value] for value in sorted(values))
        farthest = max(values)
        geography = self.world.records.geography
        if farthest == len(geography):
            return "any"
        return f"the same {geography[-max(self.level, farthest + 1)].replace('_', ' ')}"

    @cached_property
    def _group_of_atom(self) -> tuple[int, ...]:
        groups = self.groups or ()
        return tuple(
            next(number for number, levels in enumerate(groups) if atom[0] in levels)
            for atom in self.world.atoms[self.place]
        )


def facets(world: language.World) -> Iterable[Facet]:
    """Every question about a record, in the order in which answers are shown."""
    records = world.records
    for number, level in enumerate(records.geography):
        yield Facet(world, level, level.replace("_", " ").capitalize(), level=len(records.geography) - number)
    for place, attribute in enumerate(records.attributes):
        yield Facet(world, attribute.name, attribute.title, place=place)
        for grouping in records.groupings:
            if grouping.attribute == attribute.name:
                yield Facet(
                    world,
                    grouping.name,
                    grouping.title,
                    place=place,
                    groups=tuple(grouping.groups.values()),
                    labels=tuple(grouping.groups),
                )


class Status(StrEnum):
    """What can be said about an attribute."""

    FREE = "free"
    COARSE = "coarse"
    DATA = "data"
    FIXED = "fixed"


class Need(NamedTuple):
    """A fact about the record's own unit: that one can leave a bound's group, or that one can come to it."""

    bound: int
    leaves: bool


Route = frozenset[Need]
Routes = dict[int, tuple[Route, ...]]
"""From an atom to the minimal routes to it. One route that needs nothing is the only one."""


@dataclass(frozen=True, slots=True)
class FixedCase:
    """A situation in which an attribute of some records cannot be changed at all."""

    who: frozenset[language.Kind]
    closed: frozenset[Need]
    when: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """What holds for one attribute, geolevel or grouping."""

    name: str
    title: str
    status: Status
    cells: tuple[str, ...]
    """The sets of values that a record cannot leave, where there is room everywhere; empty if any value will do."""
    depends_on: tuple[str, ...]
    """The situations, in words, in which fewer values are possible."""
    exceptions: tuple[FixedCase, ...]
    stuck: tuple[str, ...] = ()
    """The values that a record that has them can never change, whatever the data."""
    alone: bool = True
    """Whether every record that can have another value can have one while all else that it says stays the same, as far
    as counts are concerned. If not, the change is one of several things, and has the loss of that."""

    @property
    def multiplier(self) -> int | None:
        """The multiple of ε in the exponent of the bound; None where Theorem 1 gives none."""
        return None if self.status is Status.FIXED else 2

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "status": self.status.value,
            "multiplier": self.multiplier,
            "cells": list(self.cells),
            "never_changed": list(self.stuck),
            "depends_on": list(self.depends_on),
            "fixed_where": [list(when) for when in dict.fromkeys(item.when for item in self.exceptions)],
            "alone": self.alone,
        }


def single_record(invariants: language.Invariants) -> dict[str, Answer]:
    """What Theorem 1 says about every geolevel, attribute and grouping, by name."""
    return {facet.name: _answer(facet) for facet in facets(invariants.world)}


def routes(facet: Facet, kind: language.Kind) -> Routes:
    """The routes from a record of ``kind`` to each value of a facet."""
    paths: dict[int, set[Route]] = {}
    for new, distance, needs in _moves(facet.world, kind):
        paths.setdefault(facet.value(new, distance), set()).add(needs)
    return {value: _minimal(needed) for value, needed in paths.items()}


@lru_cache(maxsize=1 << 12)  # every facet of a world asks for the same moves
def _moves(world: language.World, kind: language.Kind) -> tuple[tuple[language.Kind, int, Route], ...]:
    """What a record of ``kind`` can be instead without a count that changes, and where, with what that needs."""
    return tuple(
        (new, distance, _needs(world, kind, new, distance))
        for distance in world.distances
        for new in world.alike[world.counted[kind]]
        if world.same_counts(kind, new, distance)
    )


def blocking(needed: Iterable[Route]) -> tuple[frozenset[Need], ...]:
    """The minimal sets of facts that, if they all fail, close every route: the minimal hitting sets."""
    hitting: list[frozenset[Need]] = [frozenset()]
    for route in needed:
        hitting = list(_minimal(old if old & route else old | {need} for old in hitting for need in sorted(route)))
    return tuple(hitting)


def _needs(world: language.World, old: language.Kind, new: language.Kind, distance: int) -> Route:
    """What has to be possible in the record's own units for it to be ``new`` at ``distance`` instead of ``old``."""
    needed = set()
    for number, bound in enumerate(world.invariants.bounds):
        was, will = world.bound[old][number], world.bound[new][number]
        shared = world.shared(distance, bound.by)
        if was and not (will and shared) and bound.at_least:
            needed.add(Need(number, leaves=True))
        if will and not was and shared and bound.at_most is not None:
            needed.add(Need(number, leaves=False))
    return frozenset(needed)


def _answer(facet: Facet) -> Answer:
    world = facet.world
    routes_of = {kind: routes(facet, kind) for kind in world.kinds}
    conditional = any(route for by_value in routes_of.values() for many in by_value.values() for route in many)
    reached = {kind: frozenset(by_value) for kind, by_value in routes_of.items()}
    stuck = {
        kind: reach for kind, reach in reached.items() if reach == {facet.value(kind)} and facet.single(min(reach))
    }
    if conditional:
        status = Status.DATA
    elif len(stuck) == len(reached):
        status = Status.FIXED
    elif all(reach == facet.values for reach in reached.values()):
        status = Status.FREE
    else:
        status = Status.COARSE
    cells = tuple(facet.words(reach) for reach in dict.fromkeys(reached.values()))
    return Answer(
        facet.name,
        facet.title,
        status,
        () if status is Status.FREE or cells == ("any",) else cells,
        _situations(
            world, (need for by in routes_of.values() for many in by.values() for route in many for need in route)
        ),
        tuple(_exceptions(facet, routes_of)) if conditional else (),
        tuple(dict.fromkeys(facet.words(reach) for reach in stuck.values())),
        all(_alone(facet, kind) for kind in world.kinds if kind not in stuck),
    )


def _alone(facet: Facet, kind: language.Kind) -> bool:
    """Whether a record can change this facet and nothing else without a count that changes."""
    world = facet.world
    if facet.level is not None:
        return any(facet.value(kind, far) and world.same_counts(kind, kind, far) for far in world.distances)
    if facet.groups is None and world.size(facet.place, kind[facet.place]) > 1:
        return True  # inside of its atom
    others = ((*kind[: facet.place], atom, *kind[facet.place + 1 :]) for atom in range(len(world.atoms[facet.place])))
    return any(
        world.counts_of(other) == world.counted[kind] for other in others if facet.value(other) != facet.value(kind)
    )


def _exceptions(facet: Facet, routes_of: dict[language.Kind, Routes]) -> Iterator[FixedCase]:
    """The situations in which only the record's own value is left, and whose records these are."""
    who: dict[frozenset[Need], set[language.Kind]] = {}
    for kind, by_value in routes_of.items():
        others = [route for value, many in by_value.items() if value != facet.value(kind) for route in many]
        if facet.single(facet.value(kind)) and others and all(others):
            for closed in _blocking(frozenset(others)):
                who.setdefault(closed, set()).add(kind)
    for closed, kinds in who.items():
        yield FixedCase(frozenset(kinds), closed, _situations(facet.world, closed))


@lru_cache(maxsize=4096)
def _blocking(needed: frozenset[Route]) -> tuple[frozenset[Need], ...]:
    return blocking(sorted(needed, key=sorted))


def _situations(world: language.World, closed: Iterable[Need]) -> tuple[str, ...]:
    """Facts that fail, in words."""
    bounds = world.invariants.bounds
    words = (bounds[need.bound].when_least if need.leaves else bounds[need.bound].when_full for need in sorted(closed))
    return tuple(dict.fromkeys(words))


def _minimal(sets: Iterable[Route]) -> tuple[Route, ...]:
    minimal: list[Route] = []
    for item in sorted(set(sets), key=lambda needed: (len(needed), sorted(needed))):
        if not any(smaller <= item for smaller in minimal):
            minimal.append(item)
    return tuple(minimal)
