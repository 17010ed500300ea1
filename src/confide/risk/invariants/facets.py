"""What is asked about a record: where it is, one geolevel at a time; its attributes; and groupings of attributes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from confide.risk.invariants.language import Kind, World


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
