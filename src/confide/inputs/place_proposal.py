"""A file of areas, and the geography that would fit it: the smallest places, the levels above, codes that merged.

The file has one row for each of the smallest places and columns for those around it; or it is a code list in which each
row names the one above it, of any depth, which is laid out in columns first.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confide.engines import LocalEngine, identifier
from confide.errors import InputError, ParameterError, Place
from confide.inputs import place_proposal
from confide.inputs.column_proposal import FileLook
from confide.inputs.frame import BLOCK, trimmed
from confide.inputs.records import vocabulary, without_accents

ENOUGH = 0.5
"""At least this share of the records' codes must be in the file of areas."""
RECORDS_A_PLACE = 5
"""With fewer records to a place, a column that follows from it may do so by chance."""
ALMOST = 0.9
"""A column of words with more than this share of values to places has their names: two places may share one."""
NAME = "_name"
"""What the columns of names end in, where a code list is laid out in columns."""
_NO_WORD = re.compile("codes?|kod|codigo|código|ids?|key|geo", re.IGNORECASE)
"""Names of a column that say nothing of the areas in it: then the records' own name for it is the office's word."""
_NAMES = re.compile("nam|nom|label|titel|title|bezeichnung", re.IGNORECASE)
MOST_AREAS = 0.5
"""A partition has at most this share of areas to places; otherwise a column is a name or a number."""


@dataclass(frozen=True)
class PlacesProposal:
    """What a spec could say of geography.

    Attributes:
        block: The column of the records with the code of the smallest place.
        block_column: The same in the file of areas.
        levels: Names and columns of the levels above, root first; the root takes in everything and has no column.
        areas: Columns of partitions that do not nest.
        aliases: Codes that only records have, by the code they merged into.
        unknown: How many codes of the records the file lacks, with no place to go.
        table: The block table as CSV, where it had to be laid out anew.
        left_out: Columns of the records that follow from the place.
        called: For a column of codes, that of the names which go with them.
        without_place: How many records have no code of a place.
        proposed: How many places the table has, if it was read from the records; 0 where a file of areas was given.
        by_name: How many codes of ``aliases`` were guessed from the names that records have beside them.
    """

    block: str
    block_column: str
    smallest: str
    levels: tuple[tuple[str, str | None], ...]
    areas: tuple[str, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: int = 0
    table: str | None = None
    left_out: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    without_place: int = 0
    proposed: int = 0
    by_name: int = 0


def propose_places(
    records: FileLook, areas: FileLook, engine: LocalEngine, merged: Mapping[str, str] | None = None
) -> PlacesProposal:
    """The geography that a file of areas gives to records.

    Args:
        records: The records.
        areas: The file of areas.
        engine: Reads both.
        merged: Old codes that records have, and the code that each has now.

    Returns:
        A proposal.

    Raises:
        InputError: if no column of the records has codes of the file of areas.
    """
    rows = _rows(areas, engine)
    if not any(rows.values()):
        raise InputError("no-areas/file", where=Place(file=areas.source.file))
    table: str | None = None
    named: dict[str, list[str]] = {}
    parent = _parent_column(rows)
    if parent is not None:
        rows, named = _laid_out(rows, *parent)
        table = table_text(rows | named)
    key, block, codes = _joined(records, rows, areas, engine)
    known = set(rows[key])
    levels, partitions, called = levels_of(rows, key)
    if named:
        called = {column: f"{column}{NAME}" for column in (key, *levels)}
        rows = rows | named
    old = _old_codes(rows, key, codes - known) | dict(merged or {})
    by_name = _same_names(records, block, engine, rows, key, called.get(key), codes - known - set(old) - {""})
    old |= by_name
    aliases = aliases_of(old, known, areas.source.file)
    names = {column: level_name(column, position) for position, column in enumerate(levels)}
    return PlacesProposal(
        block,
        key,
        place_name(block if _NO_WORD.fullmatch(key) else key, len(levels)),
        (("country", None), *((names[column], column) for column in levels)),
        tuple(partitions),
        aliases,
        len(codes - known - set(old) - {""}),
        table,
        tuple(_following(records, block, engine, set(rows))),
        called if table is None or named else {},
        by_name=len(by_name),
    )


def area_paths(
    areas: FileLook, places: PlacesProposal, engine: LocalEngine
) -> tuple[tuple[str, ...], dict[str, tuple[str, tuple[str, ...]]]]:
    """The levels of a file of areas, and for each of its smallest areas the name and the areas around it.

    Args:
        areas: The file of areas.
        places: What was proposed of it.
        engine: Reads it.
    """
    rows: Mapping[str, Sequence[str]] = _rows(areas, engine)
    if places.table is not None:
        lines = list(csv.DictReader(io.StringIO(places.table)))
        rows = {name: [line[name] for line in lines] for name in lines[0]} if lines else rows
    columns = [column for _, column in places.levels if column is not None]
    names = rows.get(places.called.get(places.block_column, ""), rows[places.block_column])
    paths = zip(*(rows[column] for column in columns), strict=True) if columns else iter([()] * len(names))
    listed = zip(rows[places.block_column], names, paths, strict=True)
    return tuple(columns), {code: (name, tuple(path)) for code, name, path in listed}


def _rows(areas: FileLook, engine: LocalEngine) -> dict[str, list[str]]:
    texts = [
        f"coalesce({trimmed(f'CAST({identifier(name)} AS VARCHAR)')}, '') AS c{at}"
        for at, name in enumerate(areas.columns)
    ]
    table = engine.sql(f"SELECT {', '.join(texts)} FROM rows", rows=areas.source).reveal("areas are public knowledge")
    return {name: table.column(f"c{at}").to_pylist() for at, name in enumerate(areas.columns)}


def _unique(values: Sequence[str]) -> bool:
    return all(values) and len(set(values)) == len(values)


def _parent_column(rows: Mapping[str, list[str]]) -> tuple[str, str] | None:
    """The column of codes and that of the code above, if each row names another row of the same file."""
    for code, codes in rows.items():
        known = set(codes)
        for above, values in rows.items():
            named = {value for value in values if value}
            itself = sum(value == own for value, own in zip(values, codes, strict=True))
            if above != code and _unique(codes) and named and named < known and itself <= 1 and len(named) > 1:
                return code, above
    return None


def _laid_out(
    rows: Mapping[str, list[str]], code: str, above: str
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """One row for each code that is above no other, with those around it in columns; a short line repeats its last.

    Beside it, the names of all these codes in columns of their own, where the code list has a column of names.
    """
    parent = {own: up for own, up in zip(rows[code], rows[above], strict=True) if up and up != own}
    leaves = [own for own in rows[code] if own not in set(parent.values())]
    lines = []
    for leaf in leaves:
        line = [leaf]
        while line[0] in parent and len(line) <= len(parent):
            line.insert(0, parent[line[0]])
        lines.append(line)
    depth = max(len(line) for line in lines)
    full = [line + [line[-1]] * (depth - len(line)) for line in lines]
    columns = {f"level_{at + 1}": [line[at] for line in full] for at in range(depth - 1)}
    laid_out = {code: [line[-1] for line in lines], **columns}
    others = [name for name in rows if name not in (code, above) and all(rows[name])]
    names = next((name for name in others if _are_words(rows[name]) or _NAMES.search(name)), None)
    if names is None:
        return laid_out, {}
    name_of = dict(zip(rows[code], rows[names], strict=True))
    return laid_out, {f"{each}{NAME}": [name_of[own] for own in codes] for each, codes in laid_out.items()}


def table_text(rows: Mapping[str, list[str]]) -> str:
    """A table of areas as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows)
    writer.writerows(zip(*rows.values(), strict=True))
    return text.getvalue()


def _joined(
    records: FileLook, rows: Mapping[str, list[str]], areas: FileLook, engine: LocalEngine
) -> tuple[str, str, set[str]]:
    """The column of areas, and that of records, whose codes are the same; and the codes of the records."""
    keys = {name: set(values) for name, values in rows.items() if _unique(values)}
    values = {column: records.values(engine, column) for column in records.columns}
    best: tuple[str, str, set[str]] | None = None
    for key, known in keys.items():  # the first that fits: codes stand before names
        fits = {}
        for column, counts in values.items():
            answered = sum(count for value, count in counts.items() if value)
            shared = sum(count for value, count in counts.items() if value in known)
            fits[column] = (shared / answered if answered else 0.0, column.lower() == key.lower())
        column = max(fits, key=lambda each: fits[each])
        if fits[column][0] >= ENOUGH:
            best = key, column, set(values[column])
            break
    if best is None:
        raise InputError("no-common-codes", where=Place(file=areas.source.file), keys=len(keys))
    return best


def _old_codes(rows: Mapping[str, list[str]], key: str, missing: set[str]) -> dict[str, str]:
    """Codes of records that another column of the areas has, such as that of codes before a merger."""
    old: dict[str, str] = {}
    for name, values in rows.items():
        for own, value in zip(rows[key], values, strict=True) if name != key else ():
            for text in (value.strip() for value in re.split(r"[,;|+ ]+", value)):
                if text and text in missing:
                    old[text] = own
    return old


def _same_names(
    records: FileLook,
    block: str,
    engine: LocalEngine,
    rows: Mapping[str, list[str]],
    key: str,
    names: str | None,
    missing: set[str],
) -> dict[str, str]:
    """Codes of records that the areas lack and whose records have the name of one area: those that merged into it."""
    if names is None or not missing:
        return {}
    of_name: dict[str, set[str]] = {}
    for own, name in zip(rows[key], rows[names], strict=True):
        of_name.setdefault(name, set()).add(own)
    for column in (column for column in records.columns if column != block):
        pairs = [(code, name) for code, name, _ in records.counted_pairs(engine, block, column) if name]
        if not pairs or not all(name in of_name for _, name in pairs):
            continue
        names_of = {code: {name for own, name in pairs if own == code} for code in missing}
        areas = {code: of_name[next(iter(each))] for code, each in names_of.items() if len(each) == 1}
        return {code: next(iter(area)) for code, area in areas.items() if len(area) == 1}
    return {}


def aliases_of(old: Mapping[str, str], known: set[str], file: str) -> dict[str, tuple[str, ...]]:
    """Old codes by the code that each has now; raises if the code of now is that of no area."""
    wrong = {code for code in old.values() if code not in known}
    if wrong:
        raise ParameterError("merged", where=Place(file=file), found=", ".join(sorted(wrong)))
    aliases: dict[str, tuple[str, ...]] = {}
    for before, now in sorted(old.items()):
        if before not in known:
            aliases[now] = (*aliases.get(now, ()), before)
    return aliases


def enough_records(rows: int, places: int) -> bool:
    """Whether a column that follows from the place hardly does so by chance."""
    return rows >= RECORDS_A_PLACE * places


def determines(finer: Sequence[str], coarser: Sequence[str]) -> bool:
    """Whether every area of one column lies in one area of another."""
    of: dict[str, str] = {}
    return all(of.setdefault(own, up) == up for own, up in zip(finer, coarser, strict=True))


def levels_of(rows: Mapping[str, list[str]], key: str) -> tuple[list[str], list[str], dict[str, str]]:
    """The columns that nest, coarsest first; those that divide the places otherwise; and the names of codes.

    Of columns that divide alike, which are codes and their names, the shorter texts are the codes.
    """
    places = len(rows[key])
    complete = [name for name, values in rows.items() if name != key and all(values) and 1 < len(set(values)) < places]
    complete.sort(key=lambda name: (len(set(rows[name])), sum(map(len, rows[name]))))
    names_of_places = [
        name
        for name, values in rows.items()
        if name != key and all(values) and len(set(values)) > ALMOST * places and _are_words(values)
    ]
    called: dict[str, str] = {key: names_of_places[0]} if names_of_places else {}
    kept: list[str] = []
    for name in complete:
        alike = [other for other in kept if determines(rows[name], rows[other]) and determines(rows[other], rows[name])]
        if alike:
            called.setdefault(alike[0], name)
        elif name not in names_of_places:
            kept.append(name)
    chains: dict[str, list[str]] = {}
    for name in kept:  # from the coarsest: the longest chain that ends in this column
        below = [chains[other] for other in chains if determines(rows[name], rows[other])]
        chains[name] = [*max(below, key=len, default=[]), name]
    levels = max(chains.values(), key=len, default=[])
    others = [name for name in kept if name not in levels and len(set(rows[name])) <= MOST_AREAS * places]
    return levels, others, called


def _are_words(values: Sequence[str]) -> bool:
    """Whether these are names rather than numbers or codes: most have two letters in a row, and none a digit."""
    named = sum(bool(re.search(r"[^\W\d_]{2}", value)) and not re.search(r"\d", value) for value in values)
    return named > 0.9 * len(values)


def level_name(column: str, position: int) -> str:
    """A name of a level: small letters, digits and underscores."""
    plain = re.sub(r"[^a-z0-9_]+", "_", without_accents(column.lower())).strip("_")[:31]
    if not plain or not plain[0].isalpha() or plain in ("country", "block", "frame", "histogram", "all"):
        return f"level_{position + 1}"
    return plain


def place_name(column: str, position: int) -> str:
    """The same for the smallest places, which may be called blocks."""
    return BLOCK if column.strip().lower() == BLOCK else level_name(column, position)


def _following(records: FileLook, block: str, engine: LocalEngine, names: set[str]) -> list[str]:
    """Columns of the records that say again where the place lies, or what it is called."""
    following = []
    lower = {name.lower() for name in names}
    for column in records.columns:
        if column == block:
            continue
        if column.lower() in lower:
            following.append(column)
            continue
        pairs = records.counted_pairs(engine, block, column)
        places, values = {place for place, _, _ in pairs}, {value for _, value, _ in pairs}
        if (
            len(pairs) == len(places)
            and len(values) > 1
            and len(places) > 2
            and enough_records(sum(count for _, _, count in pairs), len(places))
        ):
            following.append(column)
    return following


# The geography that records carry in their own columns, as a table of areas for the curator to look at and keep.
#
# Offices often have no file of areas: each record names its municipality, its district and its region. The columns are
# known by their names, in the words of many languages, and their nesting by what occurs: a column lies above another if
# every code of the lower one occurs with one code of the upper one.
#
# What occurs in records is confidential. The table is a proposal: it becomes the public frame of a release only when
# the curator has looked at it, has added the areas in which nobody was counted, and keeps it.


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
    """A column beside that of the places: for each place the code that mostly goes with it, and what contradicts it."""

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
