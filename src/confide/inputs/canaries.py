"""Canaries: made-up records for an audit in one run, each in a place of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import pyarrow as pa

from confide.arrays import Booleans
from confide.errors import Place, RunError
from confide.privacy import Neighbours
from confide.schema import Attribute


@dataclass(frozen=True, eq=False)
class Canaries:
    """A coin decides of each canary which of two records it is, or whether it is there."""

    base: pa.Table
    """Records that are there whatever coins say, so that every area that a canary is in is measured."""
    heads: pa.Table
    """The record of each canary if its coin shows heads."""
    tails: pa.Table | None
    """The record that it is otherwise; none: it is then not there."""

    @classmethod
    def at(cls, places: Sequence[Mapping[str, Any]], base: pa.Table, neighbours: Neighbours) -> Self:
        """Canaries at all places; where a record is changed, they go from the first half of them to the second."""
        everybody = pa.Table.from_pylist([dict(place) for place in places])
        if neighbours is not Neighbours.CHANGE_ONE:
            return cls(base, everybody, None)
        half = len(places) // 2
        return cls(base, everybody.slice(0, half), everybody.slice(half, half))

    @property
    def number(self) -> int:
        """How many there are."""
        return int(self.heads.num_rows)

    def file(self, heads: Booleans) -> pa.Table:
        """The file in which the coins of some canaries show heads."""
        parts = [self.base, self.heads.filter(pa.array(heads))]
        if self.tails is not None:
            parts.append(self.tails.filter(pa.array(~heads)))
        return pa.concat_tables(parts)


def places_needed(number: int, neighbours: Neighbours) -> int:
    """How many places so many canaries take: two each where a record is changed."""
    return 2 * number if neighbours is Neighbours.CHANGE_ONE else number


def one_in_each(places: Sequence[Mapping[str, Any]], column: str) -> pa.Table:
    """One record for each block that some place is in."""
    return pa.Table.from_pylist(list({place[column]: dict(place) for place in places}.values()))


def canary_places(
    blocks: Sequence[str], column: str, attributes: Sequence[Attribute], number: int
) -> list[dict[str, Any]]:
    """Records of which no two agree in block and attributes, spread evenly over blocks and over cells.

    Place k is in block k mod B, and has the attributes of the cell k mod B + ⌊k / B⌋, counted through: so canaries of
    one block differ in their cells, and canaries of one larger area as far as there are cells.

    Args:
        blocks: The codes of B blocks.
        column: The column of the block.
        attributes: The attributes that are asked for.
        number: How many records.

    Returns:
        The records, as they stand in a file.
    """
    shape = tuple(len(attribute.levels) for attribute in attributes)
    cells = prod(shape)
    require_room(number, len(blocks), cells)
    places = []
    for k in range(number):
        turn, block = divmod(k, len(blocks))
        person: dict[str, Any] = {column: blocks[block]}
        rest = (block + turn) % cells
        # The last attribute turns fastest.
        for attribute in reversed(attributes):
            rest, level = divmod(rest, len(attribute.levels))
            person[attribute.name] = attribute.levels[level].code
        places.append({name: person[name] for name in (column, *(attribute.name for attribute in attributes))})
    return places


def require_room(number: int, areas: int, cells: int) -> None:
    """Raises where there are fewer places than are needed."""
    if number > areas * cells:
        raise RunError(
            "too-many-canaries",
            "there is not enough room for so many canaries in different places",
            where=Place(path="--canaries"),
            found=f"{number:,} places needed",
            expected=f"at most {areas * cells:,}: {areas:,} areas by {cells:,} cells",
            remedy="ask for fewer canaries, or give a longer block table",
        )
