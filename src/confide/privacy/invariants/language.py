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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Literal, TypeAlias

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
