"""An office's files together: records and areas, with the schema, the geography and the tables that would fit them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from math import prod
from pathlib import Path

from confide.documents import load_schema, parse_schema
from confide.engines import Join, LocalEngine
from confide.errors import ConfideError, Finding, InputError, Place
from confide.inputs import column_proposal, place_proposal
from confide.inputs import records as input_records
from confide.inputs.frame import codes_meant
from confide.inputs.place_proposal import AreaTree, AreaUnit, propose_record_places, record_tree
from confide.schema import Code

MOST_CELLS = 5_000
"""So many cells a histogram may have that is estimated for every place; attributes beyond are left out of it."""
MOST_TABLE_CELLS = 400
TOTALS = frozenset(files("confide").joinpath("data/proposals/totals.txt").read_text("utf-8").splitlines())


@dataclass(frozen=True)
class OfficeFiles:
    """What a spec and a schema can be written from."""

    records: column_proposal.FileLook
    areas: column_proposal.FileLook | None
    columns: tuple[column_proposal.ColumnProposal, ...]
    places: place_proposal.PlacesProposal | None
    household: str | None = None
    schema: str | None = None
    """The text of a schema that was given in place of the proposal."""
    households: column_proposal.FileLook | None = None
    """The second file, where persons and households are in two; the records then have its columns as well."""

    @property
    def attributes(self) -> list[column_proposal.ColumnProposal]:
        """The columns that the schema has."""
        return [column for column in self.columns if not column.left_out]

    @property
    def left_out(self) -> list[column_proposal.ColumnProposal]:
        """The columns that it has not."""
        return [column for column in self.columns if column.left_out]

    @property
    def few_attributes(self) -> list[column_proposal.ColumnProposal]:
        """Attributes whose crossed levels are few enough to be estimated in every place, the smallest first kept."""
        kept: list[column_proposal.ColumnProposal] = []
        for attribute in sorted(self.attributes, key=lambda each: each.size):
            if prod(each.size for each in (*kept, attribute)) <= MOST_CELLS:
                kept.append(attribute)
        return [attribute for attribute in self.attributes if attribute in kept]

    @property
    def tables(self) -> list[tuple[str, list[str], str]]:
        """Names, variables and titles of tables: the first two attributes crossed, and each of the others by itself."""
        attributes = self.attributes
        crossed = [attribute for attribute in attributes if attribute.size <= MOST_TABLE_CELLS][:2]
        groups = [crossed] if len(crossed) == 2 else [[each] for each in crossed]
        groups += [[attribute] for attribute in attributes if attribute not in crossed]
        named = [([each.name for each in group], [each.variable for each in group]) for group in groups]
        return [(table_name(names), variables, " by ".join(names)) for names, variables in named]

    def renamed(self) -> dict[str, str]:
        """Our name of a column = theirs, where a name of theirs cannot be one of an attribute."""
        return {
            column_proposal.free_name(each.name): each.name
            for each in self.attributes
            if column_proposal.free_name(each.name) != each.name
        }

    def block_layout(self) -> dict[str, str]:
        """Keys of ``[data]`` on how the file of areas is read, where the records are a Parquet file of ours."""
        if self.areas is None or self.places is None or self.places.table is not None:
            return {}
        return column_proposal.layout_keys(self.areas, "block_")

    def layout(self) -> dict[str, str]:
        """Keys of ``[data]`` on how the files are read."""
        keys = column_proposal.layout_keys(self.records)
        if self.households is not None:
            usual = {"household_delimiter": ",", "household_encoding": "utf-8"}
            own = column_proposal.layout_keys(self.households, "household_")
            keys |= {key: value for key, value in usual.items() if key.removeprefix("household_") in keys} | own
        if self.areas is None or self.places is None or self.places.table is not None:
            other = {"block_delimiter": ",", "block_encoding": "utf-8"}
            return keys | {key: value for key, value in other.items() if key.removeprefix("block_") in keys}
        source = self.areas.source
        if source.format == "csv":
            if source.delimiter != keys.get("delimiter", ","):
                keys["block_delimiter"] = source.delimiter
            if source.encoding != keys.get("encoding", "utf-8"):
                keys["block_encoding"] = source.encoding
        if source.sheet is not None:
            keys["block_sheet"] = source.sheet
        return keys


def table_name(names: list[str]) -> str:
    """The name of a table, which is also that of a file."""
    text = re.sub(r"[^a-z0-9]+", "-", input_records.without_accents("-by-".join(names).lower())).strip("-")
    return text[:60].strip("-") or "table"


def propose_schema(
    records: column_proposal.FileLook, engine: LocalEngine, without: Mapping[str, str] | None = None
) -> list[column_proposal.ColumnProposal]:
    """A proposal for every column; those ``without`` are left out for the reason given."""
    reasons = without or {}
    return [
        column_proposal.ColumnProposal(name, left_out=reasons[name])
        if name in reasons
        else column_proposal.propose_column(name, records.values(engine, name))
        for name in records.columns
    ]


def _no_row_of_totals(
    records: column_proposal.FileLook, places: place_proposal.PlacesProposal, engine: LocalEngine
) -> None:
    """Raises if records have a total in place of an area: it would be published as one more area."""
    known = {code for codes in places.aliases.values() for code in codes}
    rows = {
        text: count
        for text, count in records.values(engine, places.block).items()
        if text.lower() in TOTALS and text not in known and (places.proposed or places.unknown)
    }
    if rows:
        raise InputError(
            "total-row", where=Place(file=records.source.file, column=places.block), rows=sum(rows.values())
        )


def _no_households(
    records: column_proposal.FileLook,
    areas: column_proposal.FileLook | None,
    places: place_proposal.PlacesProposal,
    engine: LocalEngine,
    household: str | None,
) -> None:
    """Raises if the areas are households: their numbers and their tables would be published."""
    counts = records.values(engine, places.block)
    own = household == places.block
    if household is not None and not own:
        pairs = [(place, home) for place, home, _ in records.counted_pairs(engine, places.block, household) if home]
        own = len(pairs) == len({place for place, _ in pairs}) >= input_records.FEWEST_PLACES
    listed = (
        sum(1 for _ in place_proposal.area_paths(areas, places, engine)[1]) if areas is not None else places.proposed
    )
    finding = input_records.household_areas(
        (areas or records).source.file,
        {places.block, places.block_column},
        () if areas is None else areas.columns,
        input_records.PlaceCounts.of((rows for place, rows in counts.items() if place), listed),
        households=own,
    )
    if finding is not None:
        raise InputError(finding)


def _given_schema(file: Path, look: column_proposal.FileLook) -> tuple[str, tuple[column_proposal.ColumnProposal, ...]]:
    """The text of a schema file, and its attributes as columns of the records."""
    schema = load_schema(str(file.absolute()), Path())
    theirs = {column_proposal.free_name(name): name for name in look.columns}
    absent = [each.name for each in schema.attributes if each.name not in theirs]
    if absent:
        raise InputError(
            "missing-column/attribute", where=Place(file=look.source.file, column=absent[0]), absent=", ".join(absent)
        )
    columns = [
        column_proposal.ColumnProposal(
            theirs[each.name],
            levels=tuple((level.code, level.label) for level in each.levels),
            recodes={
                recode.name.removeprefix(f"{each.name}:"): ()
                for recode in schema.recodes
                if recode.attribute.name == each.name
            },
        )
        for each in schema.attributes
    ]
    return file.read_text(encoding="utf-8"), tuple(columns)


@dataclass(frozen=True)
class ColumnReading:
    """How a schema reads a column: what is wrong, and for each text of the records the level that it means."""

    findings: tuple[Finding, ...]
    meant: Mapping[str, Code | None] = field(default_factory=dict)
    """Confidential: by the texts of the records."""
    levels: tuple[tuple[Code, str, int], ...] = ()
    """Confidential: the levels with their labels and how many records each has."""
    missing: Code | None = None
    """The level of records in which the value is missing."""


def read_column(column: column_proposal.ColumnProposal, values: Mapping[str, int]) -> ColumnReading:
    """Reads a column by the attribute that a schema would have for it.

    Args:
        column: The attribute, proposed or changed by hand.
        values: How often each text occurs, as :meth:`FileLook.values` gives it.

    Returns:
        Findings on the attribute and on texts that it does not explain; none of them has a value of a record.
    """
    if column.left_out:
        return ColumnReading(())
    document = {
        "id": "one",
        "provenance": "one column",
        "attributes": {column_proposal.free_name(column.name): column.schema_values},
    }
    try:
        (attribute,) = parse_schema(document).attributes
        meant = dict(zip(values, codes_meant(values, attribute), strict=True))
    except ConfideError as error:
        return ColumnReading(tuple(replace(each, where=Place(column=column.name)) for each in error.findings))
    counts = Counter[Code]()
    for text, code in meant.items():
        if code is not None:
            counts[code] += values[text]
    return ColumnReading(
        tuple(_unread(column.name, values, meant)), meant,
        tuple((level.code, level.label, counts[level.code]) for level in attribute.levels),
        attribute.spelling.missing,
    )  # fmt: skip


def _unread(name: str, values: Mapping[str, int], meant: Mapping[str, Code | None]) -> Iterator[Finding]:
    unread = [text for text, code in meant.items() if code is None]
    empty = sum(values[text] for text in unread if not text)
    if empty:
        yield Finding.of("empty-values", where=Place(column=name), empty=empty)
    if rows := sum(values[text] for text in unread if text):
        yield Finding.of(
            "unknown-values", where=Place(column=name), rows=rows, unread=len([text for text in unread if text])
        )


def area_tree(
    records: column_proposal.FileLook,
    areas: column_proposal.FileLook | None,
    places: place_proposal.PlacesProposal | None,
    engine: LocalEngine,
    place: str | None,
) -> AreaTree:
    """All areas with their records, also those that do not nest or that the file of areas lacks. It is confidential.

    Args:
        records: The records.
        areas: The file of areas, if there is one.
        places: What was proposed, if that came to an end.
        engine: Reads both.
        place: The column with the code of the smallest place; by default it is guessed.
    """
    if areas is None or places is None:
        return record_tree(records, engine, place)
    levels, paths = place_proposal.area_paths(areas, places, engine)
    now = {old: code for code, codes in places.aliases.items() for old in codes}
    counts = Counter[str]()
    for text, rows in records.values(engine, places.block).items():
        counts[now.get(text, text)] += rows
    listed = [AreaUnit(code, name, counts.get(code, 0), path) for code, (name, path) in paths.items()]
    unknown = sorted(text for text in counts if text and text not in paths)
    lacking = [AreaUnit(code, code, counts[code], ("",) * len(levels), known=False) for code in unknown]
    return AreaTree((*levels, places.block_column), (*listed, *lacking))


def propose_office(
    records: Path,
    areas: Path | None,
    engine: LocalEngine,
    *,
    merged: Mapping[str, str] | None = None,
    household: str | None = None,
    households: Path | None = None,
    place: str | None = None,
    schema: Path | None = None,
    with_places: bool = True,
) -> OfficeFiles:
    """Looks at an office's files, and proposes all that a release needs to know.

    Args:
        records: One row for each person.
        areas: One row for each of the smallest places, or a code list in which each names the one above; without it,
            the areas are looked for in the columns of the records.
        engine: Reads both.
        merged: Old codes of places, and the code that each has now.
        household: The column that says who lives together; by default one that is called so.
        households: A second file, one row for each household, which has that column too.
        place: Without ``areas``: the column with the code of the smallest place; by default it is guessed.
        schema: A schema file that somebody has looked at: its attributes are taken in place of a proposal.
        with_places: Whether a geography is wanted; otherwise the schema alone is proposed.

    Returns:
        The proposal.
    """
    look, home, household = look_at_people(records, households, household, engine)
    without = {} if household is None else {household: "it identifies households"}
    if not with_places:
        return OfficeFiles(look, None, tuple(propose_schema(look, engine, without)), None, household, households=home)
    area_look = None if areas is None else column_proposal.look_at_file(areas, engine)
    if area_look is None:
        places = propose_record_places(look, engine, merged, place)
    else:
        places = place_proposal.propose_places(look, area_look, engine, merged)
    _no_row_of_totals(look, places, engine)
    _no_households(look, area_look, places, engine, household)
    without |= dict.fromkeys(places.left_out, "it follows from the area") | {places.block: "it is the area"}
    if schema is not None:
        text, columns = _given_schema(schema, look)
        return OfficeFiles(look, area_look, columns, places, household, text, home)
    columns = tuple(propose_schema(look, engine, without))
    if all(column.left_out for column in columns):
        raise InputError(
            "no-attributes",
            where=Place(file=look.source.file),
            found="; ".join(f"{column.name}: {column.left_out}" for column in columns),
        )
    return OfficeFiles(look, area_look, columns, places, household, households=home)


def look_at_people(
    records: Path, households: Path | None, household: str | None, engine: LocalEngine
) -> tuple[column_proposal.FileLook, column_proposal.FileLook | None, str | None]:
    """The file of persons, each with the columns of its household where these are in a second file; that file; and the
    column that identifies households.

    Args:
        records: One row for each person.
        households: One row for each household.
        household: The column that says who lives together; by default one that is called so, in both files.
        engine: Reads both.
    """
    look = column_proposal.look_at_file(records, engine)
    if not look.values(engine, look.columns[0]):
        raise InputError("no-records/file", where=Place(file=look.source.file))
    if household is not None and household not in look.columns:
        raise InputError(
            "missing-column/records", where=Place(file=look.source.file, column=household), columns=len(look.columns)
        )
    homes = None if households is None else column_proposal.look_at_file(households, engine)
    named = [name for name in look.columns if homes is None or name in homes.columns]
    key = household or next((name for name in named if input_records.identifies_households(name)), None)
    if homes is None:
        return look, None, key
    if key is None or key not in homes.columns:
        raise InputError(
            "join-unknown", where=Place(file=homes.source.file, column=key), columns=len(homes.columns), named=key
        )
    source = replace(look.source, joined=Join(homes.source, key))
    kinds = engine.kinds(source)
    return column_proposal.FileLook(source, tuple(kinds), kinds), homes, key
