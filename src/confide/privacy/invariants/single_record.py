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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from confide.errors import ParameterError
from confide.messages import Messages, messages
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


# What invariants leave of the promise about a part of a record: the one place that says what may be claimed.
#
# A release states the loss for a record that differs in one attribute alone, and for one that lies in another block of
# the same unit. Such a statement is about data sets that agree in everything published exactly. It may be made if every
# record has such a neighbour as far as counts are concerned: bounds and edit rules, which are public, may still leave a
# record none, and the sentences of a certificate say where. Proof: ``docs/proofs/invariants.md``, section 7.


class Holding(StrEnum):
    """How far the promise about a part of a record holds beside what is published exactly."""

    HOLDS = "holds"
    INSIDE = "inside"
    """Among values that the counts do not tell apart."""
    TOGETHER = "together"
    """Only if something else changes along with it, at the loss of that."""
    PARTLY = "partly"
    """Not for all records."""
    FIXED = "fixed"
    UNKNOWN = "not-worked-out"


@dataclass(frozen=True)
class PartLeft:
    """What invariants leave of the promise about one attribute, or about the unit of one level."""

    name: str
    title: str
    holding: Holding
    by: tuple[str, ...] = ()
    """The invariants that take the rest."""
    never_changed: tuple[str, ...] = ()
    """The values that a record that has them cannot change; empty where that is all of them, or none."""

    @property
    def claimed(self) -> bool:
        """Whether the loss of the part may be stated as what protects it."""
        return self.holding in (Holding.HOLDS, Holding.INSIDE)

    def words(self, text: Messages | None = None) -> str:
        """What is to be said of the part where the promise does not simply hold."""
        m = text or messages()
        names = ", ".join(self.by)
        title = m.text("statements.part_by", title=self.title, names=names) if names else self.title
        return m.text(f"statements.part_{self.holding.value.replace('-', '_')}", part=title)

    def as_dict(self) -> dict[str, Any]:
        return {
            "holds": self.holding.value,
            "because_of": list(self.by),
            **({"never_changed": list(self.never_changed)} if self.never_changed else {}),
        }


@dataclass(frozen=True)
class WhatIsLeft:
    """What the invariants of a plan leave: for each attribute, and for each level below the root."""

    attributes: Mapping[str, PartLeft]
    places: Mapping[str, PartLeft]
    """For each level: whether a record can be in another of its units, in the same unit of the level above."""
    invariants: language.Invariants | None = None
    answers: Mapping[str, Answer] | None = None
    """As ``confide risk invariants`` has them; none where there are no constraints, or too many to look at."""
    left_out: tuple[str, ...] = ()

    @property
    def limited(self) -> tuple[PartLeft, ...]:
        """The parts of which less than the promise is left. Of the levels whose unit is given away the finest is
        named: it tells those above."""
        away = [part for part in self.places.values() if not part.claimed]
        return (*away[-1:], *(part for part in self.attributes.values() if part.holding is not Holding.HOLDS))

    def as_dict(self) -> dict[str, Any]:
        """The parts of which less than the promise is left; empty where all of it is."""
        return {
            kind: limited
            for kind, parts in (("attributes", self.attributes), ("places", self.places))
            if (limited := {name: part.as_dict() for name, part in parts.items() if part.holding is not Holding.HOLDS})
        }


def what_is_left(plan: language.StatedPlan, text: Messages | None = None) -> WhatIsLeft:
    """What the figures that a plan publishes without noise leave of its promise, part by part.

    Args:
        plan: Its ``question`` has the constraints, its ``spine`` the levels.
        text: The messages of a language, for the situations of bounds.

    Returns:
        For every attribute and level how far the promise holds, with the answers that this follows from.
    """
    titles = plan.question.get("attributes") or {name: name for m in plan.measures for name in m.attributes}
    constraints = language.stated_constraints(plan.question)
    if not plan.spine or not any(constraints.get(kind) for kind in ("invariants", "bounds", "zeros")):
        holds = Holding.HOLDS
        places = {level: PartLeft(level, _level_title(level), holds) for level in plan.spine[1:]}
        return WhatIsLeft({name: PartLeft(name, title, holds) for name, title in titles.items()}, places)
    translated = language.translate(plan, text)
    answers: Mapping[str, Answer] | None
    try:
        answers = single_record(translated.invariants)
    except ParameterError:  # too many kinds of records
        answers = None
    return WhatIsLeft(
        {name: _attribute_left(name, title, translated, answers) for name, title in titles.items()},
        {level: _place_left(level, plan.spine, translated, many=answers is None) for level in plan.spine[1:]},
        translated.invariants,
        answers,
        translated.left_out,
    )


def _attribute_left(
    name: str, title: str, translated: language.InvariantTranslation, answers: Mapping[str, Answer] | None
) -> PartLeft:
    counts = translated.invariants.counts
    by = list(dict.fromkeys(count.name for count in counts if name in count.where))
    unknown = [
        invariant
        for invariant, reach in translated.not_said.items()
        if reach.attributes is None or name in reach.attributes
    ]
    if unknown or (answers is None and by):
        return PartLeft(name, title, Holding.UNKNOWN, (*by, *unknown))
    if answers is None or not by:  # what no count looks at, no count gives away
        return PartLeft(name, title, Holding.HOLDS)
    answer = answers[name]
    if answer.status is Status.FIXED:
        return PartLeft(name, title, Holding.FIXED, tuple(by))
    if answer.stuck:
        return PartLeft(name, title, Holding.PARTLY, tuple(by), answer.stuck)
    if not answer.alone:
        return PartLeft(name, title, Holding.TOGETHER, tuple(by))
    return PartLeft(name, title, Holding.INSIDE, tuple(by))


def _place_left(
    level: str, spine: tuple[str, ...], translated: language.InvariantTranslation, *, many: bool
) -> PartLeft:
    """Whether a record can lie in another unit of ``level``, in the same unit of the level above, by the counts."""
    title, position = _level_title(level), spine.index(level)

    def tells(by: str | None) -> bool:
        return by is not None and spine.index(by) >= position

    numbers = [number for number, count in enumerate(translated.invariants.counts) if tells(count.by)]
    names = list(dict.fromkeys(translated.invariants.counts[number].name for number in numbers))
    unknown = [name for name, reach in translated.not_said.items() if _may_tell(reach, position, spine)]
    if unknown or (many and names):
        return PartLeft(level, title, Holding.UNKNOWN, (*names, *unknown))
    if not numbers:
        return PartLeft(level, title, Holding.HOLDS)
    world = translated.invariants.world
    held = [any(counted[number] for number in numbers) for counted in world.counted.values()]
    if not any(held):
        return PartLeft(level, title, Holding.HOLDS)
    return PartLeft(level, title, Holding.FIXED if all(held) else Holding.PARTLY, tuple(names))


def _may_tell(reach: language.InvariantReach, position: int, spine: tuple[str, ...]) -> bool:
    """Whether an invariant that could not be expressed may tell units of a level apart."""
    if reach.attributes == frozenset():
        return False
    return reach.level is None or spine.index(reach.level) >= position


def _level_title(level: str) -> str:
    return level.replace("_", " ").capitalize()
