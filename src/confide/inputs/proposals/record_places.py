"""The geography that records carry in their own columns, as a table of areas for the curator to look at and keep.

Offices often have no file of areas: each record names its municipality, its district and its region. The columns are
known by their names, in the words of many languages, and their nesting by what occurs: a column lies above another if
every code of the lower one stands with one code of the upper one.

What occurs in records is confidential. The table is a proposal: it becomes the public frame of a release only when the
curator has looked at it, has added the areas in which nobody was counted, and keeps it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from confide.engines import LocalEngine
from confide.errors import InputError, Place
from confide.inputs.proposals import place_proposal
from confide.inputs.proposals.column_proposal import FileLook
from confide.inputs.records import vocabulary, without_accents

MISTAKES = 0.1
"""Up to this share of records, a second upper area is a mistake; beyond it, the column says something else."""


AREAS, ELSEWHERE = vocabulary("areas.txt"), vocabulary("elsewhere.txt")


def is_called_like_an_area(column: str) -> bool:
    """Whether the name of a column says that it holds areas, and those in which a person is counted.

    >>> [is_called_like_an_area(name) for name in ("Kommunkod", "code_commune", "region of birth", "sex", "DEP")]
    [True, True, False, False, True]
    """
    plain = without_accents(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)).lower().replace("ß", "ss")
    words = re.findall(r"[a-z]+\d?", plain)

    def has(vocabulary: frozenset[str]) -> bool:
        return any(
            word in vocabulary or any(len(known) >= 4 and word.startswith(known) for known in vocabulary)
            for word in words
        )

    return has(AREAS) and not has(ELSEWHERE)


@dataclass(frozen=True)
class _Upper:
    """A column beside that of the places: for each place the code it mostly stands with, and what contradicts that."""

    column: str
    of_place: Mapping[str, str]
    split_places: int
    split_rows: int
    rows: int
    split: Mapping[str, Mapping[str, int]]
    """For each place in several areas, those that fewer of its records name, with how many."""

    @property
    def follows(self) -> bool:
        return not self.split_places

    @property
    def nearly_follows(self) -> bool:
        return self.split_rows <= MISTAKES * self.rows and 2 * self.split_places <= len(self.of_place)


def propose_record_places(
    records: FileLook, engine: LocalEngine, merged: Mapping[str, str] | None = None, place: str | None = None
) -> place_proposal.PlacesProposal:
    """The geography that the records carry themselves.

    Args:
        records: The records.
        engine: Reads them.
        merged: Old codes of places that records have, and the code that each has now.
        place: The column with the code of the smallest place; by default the column with the most codes of those that
            are called like an area.

    Returns:
        A proposal, with the table of areas as CSV.

    Raises:
        InputError: if no column is called like an area, or if areas do not nest.
    """
    values = {column: records.values(engine, column) for column in records.columns}
    rows = sum(next(iter(values.values()), {}).values())
    codes = {column: sum(1 for value in values[column] if value) for column in records.columns}
    place, usable = _area_columns(records, values, place)
    called = [column for column in records.columns if is_called_like_an_area(column)]
    uppers = [_upper(records, engine, place, column) for column in records.columns if column != place]
    above = [upper for upper in uppers if upper.column in usable]
    _nested(records, place, above, codes, given=place not in called)
    known = {value for value in values[place] if value} - set(merged or {})
    aliases = place_proposal.aliases_of(dict(merged or {}), known, records.source.file)
    follows = [upper for upper in uppers if upper.follows and codes[upper.column] > 1]
    areas = [upper for upper in follows if upper.column in usable]
    others = (
        [upper for upper in follows if upper not in areas] if place_proposal.enough_records(rows, codes[place]) else []
    )
    order = sorted(known)
    table = {place: order} | {each.column: [each.of_place.get(code, "") for code in order] for each in areas}
    levels, partitions, names = place_proposal.levels_of(table, place)
    for each in others:
        column = [each.of_place.get(code, "") for code in order]
        with_name = [level for level in (place, *levels) if level not in names and _alike(table[level], column)]
        table[each.column] = column
        if with_name:
            names |= {with_name[0]: each.column}
        elif all(column) and each.column not in names.values():
            at = _position(table, levels, each.column)
            partitions += [each.column] if at is None else []
            levels[at or 0 : at or 0] = [] if at is None else [each.column]
    return place_proposal.PlacesProposal(
        place,
        place,
        place_proposal.place_name(place, len(levels)),
        (("country", None), *((place_proposal.level_name(column, at), column) for at, column in enumerate(levels))),
        tuple(partitions),
        aliases,
        0,
        place_proposal.table_text(table),
        tuple(each.column for each in (*areas, *others)),
        names,
        values[place].get("", 0),
        len(order),
    )


def _area_columns(
    records: FileLook, values: Mapping[str, Mapping[str, int]], place: str | None
) -> tuple[str, list[str]]:
    """The column of the smallest places, and all columns that are called like areas and could hold some."""
    rows = sum(next(iter(values.values()), {}).values())
    codes = {column: sum(1 for value in values[column] if value) for column in records.columns}
    called = [column for column in records.columns if is_called_like_an_area(column)]
    usable = [column for column in called if codes[column] > 1 and not (rows > 100 and codes[column] > 0.9 * rows)]
    if place is None and not usable:
        raise InputError("no-geography/column", where=Place(file=records.source.file), columns=len(records.columns))
    if place is not None and place not in records.columns:
        raise InputError(
            "missing-column/columns", where=Place(file=records.source.file, column=place), columns=len(records.columns)
        )
    return place or min(usable, key=lambda column: (-codes[column], sum(map(len, values[column])))), usable


@dataclass(frozen=True)
class AreaUnit:
    """One of the smallest areas, where it lies, and what speaks against it."""

    code: str
    name: str
    records: int
    path: tuple[str, ...]
    """The areas around it, the largest first: of several, that in which most of its records are."""
    others: tuple[tuple[str, str, int], ...] = ()
    """A column, another area in it that records of this place name, and how many do: then it does not nest."""
    known: bool = True
    """Whether the file of areas has it."""

    @property
    def nests(self) -> bool:
        return self.known and not self.others


@dataclass(frozen=True)
class AreaTree:
    """The areas as records and files have them, also where they do not nest."""

    levels: tuple[str, ...]
    """The columns, from the largest areas to the smallest."""
    units: tuple[AreaUnit, ...]

    @property
    def wrong(self) -> tuple[AreaUnit, ...]:
        """Those that do not nest, or that the file of areas lacks."""
        return tuple(unit for unit in self.units if not unit.nests)


def record_tree(records: FileLook, engine: LocalEngine, place: str | None = None) -> AreaTree:
    """The areas that records name, each in the one around it that most of its records name.

    Args:
        records: The records.
        engine: Reads them.
        place: The column with the code of the smallest place; by default it is guessed.

    Returns:
        Every place with a code. It is confidential, as the records are.

    Raises:
        InputError: if no column is called like an area.
    """
    values = {column: records.values(engine, column) for column in records.columns}
    place, usable = _area_columns(records, values, place)
    uppers = [_upper(records, engine, place, column) for column in usable if column != place]
    above = sorted(
        (each for each in uppers if each.follows or each.nearly_follows),
        key=lambda each: len({*each.of_place.values()}),
    )
    units = [
        AreaUnit(
            code,
            code,
            values[place][code],
            tuple(each.of_place.get(code, "") for each in above),
            tuple((each.column, other, rows) for each in above for other, rows in each.split.get(code, {}).items()),
        )
        for code in sorted(values[place])
        if code
    ]
    return AreaTree((*(each.column for each in above), place), tuple(units))


def _upper(records: FileLook, engine: LocalEngine, place: str, column: str) -> _Upper:
    """How far a column follows from the place; records in which either is empty say nothing of it."""
    by_place: dict[str, Counter[str]] = {}
    for code, value, count in records.counted_pairs(engine, place, column):
        if code and value:
            by_place.setdefault(code, Counter())[value] += count
    split = {code: dict(counts.most_common()[1:]) for code, counts in by_place.items() if len(counts) > 1}
    return _Upper(
        column,
        {code: counts.most_common(1)[0][0] for code, counts in by_place.items()},
        len(split),
        sum(sum(counts.values()) for counts in split.values()),
        sum(counts.total() for counts in by_place.values()),
        split,
    )


def _alike(first: list[str], second: list[str]) -> bool:
    """Whether two columns divide the places alike: codes, and the names that go with them."""
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len(set(first)) == len(set(second))


def _position(table: Mapping[str, list[str]], levels: list[str], column: str) -> int | None:
    """Where a column fits into a chain of levels, below the first of them; none where it divides the places otherwise,
    or could be any property of a place."""
    upper = [level for level in levels if place_proposal.determines(table[column], table[level])]
    lower = [level for level in levels if place_proposal.determines(table[level], table[column])]
    is_finer = len(set(table[column])) <= place_proposal.MOST_AREAS * len(table[column])
    return len(upper) if upper and is_finer and len(upper) + len(lower) == len(levels) else None


def _nested(records: FileLook, place: str, above: list[_Upper], codes: Mapping[str, int], *, given: bool) -> None:
    """Raises one error if areas do not nest; a column that says something else is none of them."""
    wrong = [each for each in above if not each.follows and each.nearly_follows]
    if wrong:
        listed = "; ".join(
            f"{each.split_places:,} of {codes[place]:,} codes of {place!r} occur with several codes of "
            f"{each.column!r}, and {each.split_rows:,} rows disagree with the majority"
            for each in wrong
        )
        raise InputError(
            "not-nested/areas", where=Place(file=records.source.file, column=wrong[0].column), found=listed, place=place
        )
    repeated = [each for each in above if not each.follows and 2 * each.split_places > codes[place]]
    if repeated and not given:
        column = repeated[0].column
        raise InputError(
            "repeated-codes",
            where=Place(file=records.source.file, column=place),
            place=place,
            column=column,
            split_places=repeated[0].split_places,
            its_code=codes[place],
        )
