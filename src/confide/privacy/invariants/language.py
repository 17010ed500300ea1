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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Literal, Protocol, TypeAlias

from confide.errors import ParameterError
from confide.messages import Messages, messages

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


# What the question of a plan says is published exactly, in this language.
#
# Published answers are counts, bounds of the frame are bounds, structural zeros are combinations that no record has.
# What the language cannot say, or the plan does not tell, is named and not guessed.


MOST_CELLS = 64
"""A published query that the plan does not take apart itself is taken apart if it has no more cells than this."""


class StatedMeasurement(Protocol):
    """One measurement of a plan, as far as it tells how many levels attributes have."""

    @property
    def query(self) -> str: ...
    @property
    def cells(self) -> int: ...
    @property
    def attributes(self) -> tuple[str, ...]: ...


class StatedPlan(Protocol):
    """What a plan says of itself (:class:`confide.releases.plan.Plan` is one)."""

    @property
    def spine(self) -> tuple[str, ...]: ...
    @property
    def question(self) -> Mapping[str, Any]: ...
    @property
    def measures(self) -> Sequence[StatedMeasurement]: ...


@dataclass(frozen=True)
class InvariantTranslation:
    """The invariants of a plan in the language, and those that it cannot express: by name, what they look at."""

    invariants: Invariants
    not_said: Mapping[str, InvariantReach]

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of what is not expressed."""
        return tuple(self.not_said)


@dataclass(frozen=True)
class InvariantReach:
    """How far an invariant that the language cannot express may reach: a level (None: any) and attributes (None: any).

    Bounds and structural zeros take no value from anybody whatever the data: they reach nothing.
    """

    level: str | None = None
    attributes: frozenset[str] | None = frozenset()


def stated_constraints(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """The constraints of a plan's question; empty where it has none."""
    constraints: Mapping[str, Any] = question.get("strategy", {}).get("constraints", {})
    return constraints


def translate(plan: StatedPlan, text: Messages | None = None) -> InvariantTranslation:
    """The constraints of a plan in the language of invariants."""
    said = _Translator(plan, text or messages())
    counts = tuple(said.counts())
    bounds = tuple(said.bounds())
    never = tuple(said.never())
    used = {count.by for count in counts} | {plan.spine[-1]}
    geography = tuple(level for level in plan.spine[1:] if level in used) or plan.spine[-1:]
    constraints = stated_constraints(plan.question)
    records = Records(str(plan.question["strategy"]["id"]), geography, said.attributes())
    names = tuple(str(item["name"]) for item in constraints.get("invariants", ()))
    return InvariantTranslation(Invariants(names, records, counts, bounds, never), said.not_said)


class _Translator:
    """Reads the constraints of a plan one after the other, and keeps what it cannot express."""

    def __init__(self, plan: StatedPlan, text: Messages):
        self._plan, self._text = plan, text
        self._constraints = stated_constraints(plan.question)
        measured = dict.fromkeys(name for measure in plan.measures for name in measure.attributes)
        self._titles: Mapping[str, str] = plan.question.get("attributes") or {name: name for name in measured}
        stated = plan.question.get("output", {}).get("codes", {})
        self._listed = {name: [str(code) for code in stated[name]] for name in self._titles if name in stated}
        self._sizes = {name: len(codes) for name, codes in self._listed.items()} | self._measured_sizes()
        self._codes = {name: list(dict.fromkeys(self._named(name))) for name in self._titles}
        self.not_said: dict[str, InvariantReach] = {}

    def _named(self, name: str) -> Iterator[str]:
        """Every code of an attribute that a constraint names."""
        facts = self._plan.question
        for bound in facts.get("bounds", ()):
            if bound["attribute"] == name:
                yield from (str(code) for group in bound["groups"] for code in group["codes"])
        wheres = [zero["where"] for zero in self._constraints.get("zeros", ())]
        wheres += [cell["where"] for item in facts.get("told", ()) for cell in item["cells"]]
        yield from (str(code) for where in wheres for code in where.get(name, ()))
        yield from self._listed.get(name, ())

    def _measured_sizes(self) -> dict[str, int]:
        """How many levels attributes have: the cells of a query that has one alone, as it is."""
        sizes: dict[str, int] = {}
        for measure in self._plan.measures:
            if len(measure.attributes) == 1 and measure.query in (measure.attributes[0], "detailed"):
                sizes[measure.attributes[0]] = measure.cells
        return {name: size for name, size in sizes.items() if name in self._titles}

    def _where(self, where: Mapping[str, Any]) -> dict[str, frozenset[str]] | None:
        """Codes by attribute as levels; None where the plan has no such attribute."""
        if not set(where) <= set(self._titles):
            return None
        return {name: frozenset(map(str, codes)) for name, codes in where.items()}

    def counts(self) -> Iterator[InvariantCount]:
        cells_of = {item["name"]: item["cells"] for item in self._plan.question.get("told", ())}
        for invariant in self._constraints.get("invariants", ()):
            name, level, query = invariant["name"], invariant["level"], invariant["query"]
            if query is None:
                continue  # counts of the frame: about the records they say what bounds say
            conditions = [self._where(cell["where"]) for cell in cells_of.get(name, ())]
            wheres = conditions or self._cells(query)
            if level not in self._plan.spine or not wheres or None in wheres:
                looks_at = {
                    attribute for m in self._plan.measures if m.query == query for attribute in m.attributes
                } | {part for part in query.split("*") if part in self._titles}
                known = len(looks_at) == len(query.split("*"))
                on = level if level in self._plan.spine else None
                self.not_said[name] = InvariantReach(on, frozenset(looks_at) if known else None)
                continue
            for where in wheres:
                assert where is not None
                yield InvariantCount(None if level == self._plan.spine[0] else level, where, name)
        yield from self._met()

    def _met(self) -> Iterator[InvariantCount]:
        """Groups whose least and largest counts are the same count of the frame: published exactly, by two bounds."""
        limits: dict[tuple[str, str, frozenset[str], int], dict[str, str]] = {}
        for item in self._plan.question.get("bounds", ()):
            for group in item["groups"]:
                codes = frozenset(map(str, group["codes"]))
                met = limits.setdefault((item["attribute"], group["column"], codes, int(item["per_unit"])), {})
                met[item["side"]] = item["name"]
        for (attribute, _, codes, _), met in limits.items():
            if len(met) == len(("lower", "upper")) and attribute in self._titles:
                name = f"{met['lower']} and {met['upper']}"
                yield InvariantCount(self._plan.spine[-1], {attribute: codes}, name)

    def _cells(self, query: str) -> list[dict[str, frozenset[str]] | None] | None:
        """The cells of a query of whole attributes; None if it has recodes, or too many cells."""
        names = [] if query == "total" else query.split("*")
        if not set(names) <= set(self._sizes) or prod(self._sizes[name] for name in names) > MOST_CELLS:
            return None
        levels = [list(self._levels(name)) for name in names]
        return [dict(zip(names, (frozenset({one}) for one in cell), strict=True)) for cell in product(*levels)]

    def bounds(self) -> Iterator[InvariantBound]:
        stated = {item["name"]: item for item in self._plan.question.get("bounds", ())}
        for bound in self._constraints.get("bounds", ()):
            item = stated.get(bound["name"])
            for group in item["groups"] if item else [None]:
                where = self._where({item["attribute"]: group["codes"]}) if item and group else None
                if item is None or group is None or where is None:
                    self.not_said[bound["name"]] = InvariantReach()
                    continue
                yield _bound(item, group["column"], where, self._plan.spine[-1], self._text)

    def never(self) -> Iterator[Never]:
        for zero in self._constraints.get("zeros", ()):
            where = self._where(zero["where"])
            if where is None:
                self.not_said[zero["name"]] = InvariantReach()
            else:
                yield Never(where)

    def attributes(self) -> tuple[InvariantAttribute, ...]:
        return tuple(
            InvariantAttribute(name, title.replace("_", " "), dict.fromkeys(self._levels(name), 1), {})
            for name, title in self._titles.items()
        )

    def _levels(self, name: str) -> Iterator[str]:
        """The codes that are named, and others, up to the number of levels.

        Where the plan does not tell the number, there is one other level: it can be changed into nothing that is not
        told apart from it, so that no more is claimed than holds. An attribute without any named level has two.
        """
        named = self._codes[name]
        yield from named
        size = self._sizes.get(name, len(named) + 1 if named else 2)
        yield from (f"#{number}" for number in range(len(named), size))


def _bound(
    item: Mapping[str, Any], column: str, where: Mapping[str, frozenset[str]], block: str, m: Messages
) -> InvariantBound:
    names = [group["column"] for group in item["groups"]]
    columns = ", ".join(names) if len(names) < 4 else f"{names[0]}, …, {names[-1]}"
    per_unit = int(item["per_unit"])
    lower = item["side"] == "lower"
    side = "topdown.says_least" if lower else "topdown.says_most"
    says = m.text(side, name=item["name"], number=per_unit, columns=columns)
    return InvariantBound(
        item["name"],
        block,
        where,
        column,
        at_least=per_unit if lower else 0,
        at_most=None if lower else per_unit,
        when_least=m.text("topdown.when_least", block=block, says=says),
        when_full=m.text("topdown.when_full", block=block, says=says),
    )
