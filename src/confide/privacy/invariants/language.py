"""A small language for what is published without noise about records, and what of it a changed record would break.

A set of invariants is made of three kinds of sentences about records with attributes:

* a :class:`InvariantCount`: Σ 1[record in W] is published exactly, for every unit of a geolevel or for all records
  together;
* a :class:`InvariantBound`: at_least·u ≤ Σ 1[record in G] ≤ at_most·u in every unit, where u is a count of the frame,
  such as housing units. ``at_most`` may be :data:`ANY`: no limit where u > 0, and nobody where u = 0;
* a :class:`Never`: a combination of levels that no record has (an edit rule).

Levels that no sentence tells apart behave alike. :class:`World` merges them into *atoms*, and a *kind* is a record up
to its atoms, without its place; sizes of levels matter only where an atom with one level leaves nothing to change.
Ashmead, Kifer, Leclerc, Machanavajjhala & Sexton (2019), Effective privacy after adjusting for invariants with
applications to the 2020 Census. The form of the file: ``docs/concepts/invariants.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias

from confide.errors import ParameterError

ANY: Literal["any"] = "any"
"""As an upper limit per unit: as many as one likes where there is a unit, nobody where there is none."""

MOST_KINDS = 1000
"""Kinds of records are compared pair by pair."""

Where: TypeAlias = Mapping[str, frozenset[str]]
"""For each attribute that is looked at, the levels that are meant."""

Kind: TypeAlias = tuple[int, ...]
"""The atom of every attribute, in order."""


@dataclass(frozen=True)
class InvariantAttribute:
    """One thing that a record says: its levels, each standing for so many codes, and names for groups of levels."""

    name: str
    title: str
    levels: Mapping[str, int]
    groups: Mapping[str, frozenset[str]]
    residence: bool = False
    """Whether it says where somebody lives, as the block does (:mod:`confide.privacy.invariants.group_statements`)."""

    def named(self, name: str) -> frozenset[str]:
        """The levels that the name of a level or of a group stands for."""
        return self.groups[name] if name in self.groups else frozenset({name})


@dataclass(frozen=True)
class LevelGrouping:
    """A coarser look at an attribute that is of interest by itself, such as voting age: a partition of its levels."""

    name: str
    title: str
    attribute: str
    groups: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Records:
    """What a record says: geolevels from the largest units to the blocks, attributes, and groupings of some."""

    id: str
    geography: tuple[str, ...]
    attributes: tuple[InvariantAttribute, ...]
    groupings: tuple[LevelGrouping, ...] = ()

    def attribute(self, name: str) -> InvariantAttribute:
        """The attribute of that name."""
        return next(attribute for attribute in self.attributes if attribute.name == name)


@dataclass(frozen=True)
class InvariantCount:
    """The number of records in ``where``, published as it is for every unit of ``by``; for all together if None."""

    by: str | None
    where: Where
    name: str = ""
    """The invariant that it belongs to."""


@dataclass(frozen=True)
class InvariantBound:
    """Limits of a number of records from a count of the frame, in every unit of ``by``."""

    name: str
    by: str
    where: Where
    units: str
    at_least: int = 0
    at_most: int | Literal["any"] | None = None
    when_least: str = ""
    """The situation where nobody can leave, in words."""
    when_full: str = ""
    """The situation where nobody can come, in words."""


@dataclass(frozen=True)
class Never:
    """Levels that no record has together."""

    where: Where


@dataclass(frozen=True)
class Invariants:
    """Everything that is published without noise, or known, about records of one form."""

    names: tuple[str, ...]
    records: Records
    counts: tuple[InvariantCount, ...] = ()
    bounds: tuple[InvariantBound, ...] = ()
    never: tuple[Never, ...] = ()

    @cached_property
    def world(self) -> World:
        """Atoms and kinds of records under these invariants."""
        return World(self)


class World:
    """The kinds of records that a set of invariants can tell apart, and where each counts."""

    def __init__(self, invariants: Invariants):
        self.invariants = invariants
        self.records = invariants.records
        self.atoms = tuple(self._atoms(attribute) for attribute in self.records.attributes)
        if (number := prod(len(atoms) for atoms in self.atoms)) > MOST_KINDS:
            raise ParameterError("too-many-kinds", number=number, most_kinds=MOST_KINDS)
        every = product(*(range(len(atoms)) for atoms in self.atoms))
        self.kinds: tuple[Kind, ...] = tuple(
            kind for kind in every if not any(self._meets(kind, never.where) for never in invariants.never)
        )
        self.counted = {
            kind: tuple(self._meets(kind, count.where) for count in invariants.counts) for kind in self.kinds
        }
        """For each kind, the counts that it is part of."""
        self.bound = {kind: tuple(self._meets(kind, bound.where) for bound in invariants.bounds) for kind in self.kinds}
        """For each kind, the bounds that it is part of."""
        self.alike: dict[tuple[bool, ...], list[Kind]] = {}
        """The kinds that are part of the same counts."""
        for kind, counted in self.counted.items():
            self.alike.setdefault(counted, []).append(kind)

    def counts_of(self, kind: Kind) -> tuple[bool, ...]:
        """The counts that a record of a kind would be part of, also if an edit rule forbids the kind."""
        return tuple(self._meets(kind, count.where) for count in self.invariants.counts)

    def _atoms(self, attribute: InvariantAttribute) -> tuple[tuple[str, ...], ...]:
        """The levels of an attribute, those together that neither a sentence nor a grouping tells apart."""
        said = self.invariants
        meant = [*(c.where for c in said.counts), *(b.where for b in said.bounds), *(n.where for n in said.never)]
        distinguished = [where[attribute.name] for where in meant if attribute.name in where]
        distinguished += [
            levels for g in self.records.groupings if g.attribute == attribute.name for levels in g.groups.values()
        ]
        atoms: dict[tuple[bool, ...], list[str]] = {}
        for level in attribute.levels:
            atoms.setdefault(tuple(level in levels for levels in distinguished), []).append(level)
        return tuple(tuple(levels) for levels in atoms.values())

    def _meets(self, kind: Kind, where: Where) -> bool:
        """Whether all records of a kind are in ``where``; if not, none is."""
        return all(
            attribute.name not in where or self.atoms[place][atom][0] in where[attribute.name]
            for place, (attribute, atom) in enumerate(zip(self.records.attributes, kind, strict=True))
        )

    def size(self, place: int, atom: int) -> int:
        """How many codes an atom of the attribute at ``place`` stands for."""
        levels = self.records.attributes[place].levels
        return sum(levels[level] for level in self.atoms[place][atom])

    def words(self, place: int, atoms: frozenset[int]) -> str:
        """A set of atoms in words: the names of groups and levels that make it up."""
        attribute = self.records.attributes[place]
        possible = {level for atom in atoms for level in self.atoms[place][atom]}
        if possible == set(attribute.levels):
            return "any"
        names = []
        for name, levels in sorted(attribute.groups.items(), key=lambda item: -len(item[1])):
            if levels <= possible and levels:
                names.append(name)
                possible -= levels
        return ", ".join(names + [level for level in attribute.levels if level in possible])

    def shared(self, distance: int, by: str | None) -> bool:
        """Whether a place at ``distance`` from a record is in the same unit of ``by``.

        At distance 0 is the record's own block; at distance d the finest d geolevels differ.
        """
        geography = self.records.geography
        return by is None or geography.index(by) < len(geography) - distance

    @property
    def distances(self) -> range:
        """The distances that a place can be at."""
        return range(len(self.records.geography) + 1)

    def same_counts(self, old: Kind, new: Kind, distance: int) -> bool:
        """Whether a record can be of kind ``new`` at ``distance`` instead of ``old`` and no count changes."""
        pairs = zip(self.invariants.counts, self.counted[old], self.counted[new], strict=True)
        return all(was == will and (not was or self.shared(distance, count.by)) for count, was, will in pairs)


# What one record could say instead, if nothing that is published exactly changes (Theorem 1, section 7).
#
# Someone who knows all other records D₋₁ and the invariants I knows of a record r exactly which counts it is part of,
# and how much room every bound has left. A modification strategy may replace r by any record of
#
#     allowed(r) = {r' : the same counts; every bound still holds; no edit rule is broken},
#
# and against a release with r replaced, the true release makes posteriors larger or smaller by a factor of at most
# exp(2ε). So the attributes that allowed(r) can change are protected at 2ε, and nothing is said about the others.
#
# Bounds make this depend on the data, through two facts for each: whether anybody can *leave* (the number is not at its
# least) and whether anybody can *come* (not at its most). A *route* to another value is a set of such facts that is
# enough for it. Routes are derived, not listed: for each pair of kinds of records and each distance of places.
# Elsewhere, outside the units that the record itself is in, there is taken to be room.
#
# An attribute is FREE if every value can be reached on a route that needs nothing, for every record; FIXED if no other
# value can ever be; COARSE if what can be reached depends on the record alone; DATA if a route needs something.
# Derivation: ``docs/proofs/invariants.md``, sections 1 and 2.


# What is asked about a record: where it is, one geolevel at a time; its attributes; and groupings of attributes.


@dataclass(frozen=True)
class Facet:
    """One question about a record. Its values are numbers, and :meth:`value` is that of a kind at a distance."""

    world: World
    name: str
    title: str
    level: int | None = None
    """For a geolevel: how many geolevels from the end, 1 for the blocks."""
    place: int = 0
    """Otherwise: which attribute."""
    groups: tuple[frozenset[str], ...] | None = None
    """For a grouping: its groups."""
    labels: tuple[str, ...] = ()

    def value(self, kind: Kind, distance: int = 0) -> int:
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


def facets(world: World) -> Iterable[Facet]:
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

    who: frozenset[Kind]
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


def single_record(invariants: Invariants) -> dict[str, Answer]:
    """What Theorem 1 says about every geolevel, attribute and grouping, by name."""
    return {facet.name: _answer(facet) for facet in facets(invariants.world)}


def routes(facet: Facet, kind: Kind) -> Routes:
    """The routes from a record of ``kind`` to each value of a facet."""
    paths: dict[int, set[Route]] = {}
    for new, distance, needs in _moves(facet.world, kind):
        paths.setdefault(facet.value(new, distance), set()).add(needs)
    return {value: _minimal(needed) for value, needed in paths.items()}


@lru_cache(maxsize=1 << 12)  # every facet of a world asks for the same moves
def _moves(world: World, kind: Kind) -> tuple[tuple[Kind, int, Route], ...]:
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


def _needs(world: World, old: Kind, new: Kind, distance: int) -> Route:
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


def _alone(facet: Facet, kind: Kind) -> bool:
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


def _exceptions(facet: Facet, routes_of: dict[Kind, Routes]) -> Iterator[FixedCase]:
    """The situations in which only the record's own value is left, and whose records these are."""
    who: dict[frozenset[Need], set[Kind]] = {}
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


def _situations(world: World, closed: Iterable[Need]) -> tuple[str, ...]:
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
