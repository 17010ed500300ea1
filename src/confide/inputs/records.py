"""The records: confidential rows. Checks that every one of them fits the schema and the frame, without showing one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from unicodedata import combining, normalize

import pyarrow as pa

from confide.engines import Engine, Source
from confide.engines.protocol import group_index, identifier, literal
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.geography import Spine
from confide.inputs import frame as inputs_frame
from confide.schema import Attribute, identity

ROWS_NAMED = 5
"""So many rows are named that break a rule."""
MOST_BRANCHES = 50
"""With ``listed``, an attribute with more codes than this is looked up in a list."""
_CHUNK = 1 << 22
_KINDS = {"integer": "whole numbers", "text": "text", "other": "floating-point numbers, dates or another type"}


def column_expressions(engine: Engine, source: Source, attributes: Sequence[Attribute], block: str) -> dict[str, str]:
    """For each attribute, and for the block, the SQL that reads it from the source with the type of the schema."""
    kinds = engine.kinds(source)
    result = {block: inputs_frame.column_text(source, block)}
    for attribute in attributes:
        column = identifier(source.theirs(attribute.name))
        if not attribute.is_integer:
            plain = f"CAST({column} AS VARCHAR)"
        elif kinds[source.theirs(attribute.name)] == "text":
            plain = engine.integer_text(column)
        else:
            plain = f"CAST({column} AS BIGINT)"
        result[attribute.name] = inputs_frame.attribute_code(engine, source, attribute, plain)
    return result


def integer_expression(engine: Engine, source: Source, name: str) -> str:
    """SQL for a column of whole numbers, whatever type it has; NULL where there is none."""
    column = identifier(source.theirs(name))
    is_text = engine.kinds(source)[source.theirs(name)] == "text"
    return engine.integer_text(column) if is_text else f"TRY_CAST({column} AS BIGINT)"


def code_expressions(
    engine: Engine, source: Source, attributes: Sequence[Attribute], *, listed: bool = False
) -> dict[str, str]:
    """SQL for each attribute as the number of its level, NULL where the code is none of the schema's.

    ``listed``: attributes with many codes are looked up in a list that the engine joins; with thousands of codes,
    branches take long. Such an expression cannot be grouped by.
    """
    expressions = {}
    for attribute in attributes:
        column = identifier(source.theirs(attribute.name))
        if listed and not attribute.is_integer and attribute.size > MOST_BRANCHES:
            rows = ", ".join(f"({literal(level.code)}, {number})" for number, level in enumerate(attribute.levels))
            text = inputs_frame.attribute_code(engine, source, attribute, f"CAST({column} AS VARCHAR)")
            expressions[attribute.name] = (
                f"(SELECT listed.n FROM (VALUES {rows}) AS listed(code, n) WHERE listed.code = {text})"
            )
            continue
        integer = attribute.is_integer
        value = integer_expression(engine, source, attribute.name) if integer else f"CAST({column} AS VARCHAR)"
        value = inputs_frame.attribute_code(engine, source, attribute, value)
        expressions[attribute.name] = f"CAST({group_index(identity(attribute), value)} AS BIGINT)"
    return expressions


def count_rows(
    engine: Engine, source: Source, conditions: Sequence[str], aggregates: Sequence[str] = (), **tables: Path
) -> tuple[int, list[int], list[Any]]:
    """One scan of the records: how many there are, how many meet each condition, and other aggregates."""
    met = [
        f"coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) AS rule_{position}"
        for position, condition in enumerate(conditions)
    ]
    others = [f"{aggregate} AS other_{position}" for position, aggregate in enumerate(aggregates)]
    text = f"SELECT {', '.join(['count(*) AS rows_in_all', *met, *others])} FROM records"
    (row,) = engine.sql(text, records=source, **tables).reveal("to count rows that break a rule").to_pylist()
    broken = [int(row[f"rule_{position}"]) for position in range(len(met))]
    return row["rows_in_all"], broken, [row[f"other_{position}"] for position in range(len(others))]


def check_columns(engine: Engine, source: Source, attributes: Sequence[Attribute], block: str | None) -> list[Finding]:
    """Every problem of the records' columns, that of the blocks with them if it is looked at. No record is read."""
    names = [*([] if block is None else [block]), *(attribute.name for attribute in attributes)]
    missing = inputs_frame.missing_columns(engine, source, names, confidential=True)
    if any(finding.code != "missing-column" for finding in missing):
        return missing  # the first line was misread, and tells nothing of any column
    lacking = {finding.where.column for finding in missing}
    there = [attribute for attribute in attributes if source.theirs(attribute.name) not in lacking]
    blocks = [] if block is None or source.theirs(block) in lacking else [block]
    wrong = inputs_frame.wrong_code_types(engine, source, blocks)
    key = None if source.joined is None else source.theirs(source.joined.key)
    numbers = [
        Finding.of("two-files/attribute", where=Place(file=source.file, column=key), name=attribute.name)
        for attribute in there
        if source.theirs(attribute.name) == key
    ]
    return missing + wrong + numbers + _wrong_types(engine, source, there)


def check_records(
    engine: Engine, source: Source, attributes: Sequence[Attribute], block: str, spine: Spine, frame: Path
) -> list[Finding]:
    """Every problem of the records. ``frame`` is a Parquet file of ours with the column ``code`` of all blocks.

    One scan counts the rows that break each rule; only a broken rule is looked up row by row.
    """
    findings = check_columns(engine, source, attributes, block)
    if findings:
        return findings
    code = column_expressions(engine, source, (), block)[block]
    rules = [f"({number}) IS NULL" for number in code_expressions(engine, source, attributes).values()]
    unknown = f"{code} IS NULL OR {code} NOT IN (SELECT code FROM frame)"
    records, broken, _ = count_rows(engine, source, [*rules, unknown], frame=frame)
    if not records:
        return [Finding.of("no-records/contains", where=Place(file=source.file))]
    for attribute, rule, number in zip(attributes, rules, broken[:-1], strict=True):
        if number:
            findings.append(unknown_code(engine, source, attribute, rule, number))
    if broken[-1]:
        rows = engine.first_rows(source, unknown, ROWS_NAMED, frame=frame)
        inputs_frame.gather(engine, source, block, unknown, frame=frame)
        word = spine.blocks.name
        key = "bad-record/unlisted"
        if not _some(engine, source, f"({unknown}) AND trim(coalesce({code}, '')) <> ''", frame):
            key = "bad-record/no-place"
        elif _lost_zeros(engine, source, code, unknown, frame):
            key = "bad-record/lost-zeros"
        findings.append(
            bad_record(
                key,
                source,
                block,
                rows,
                number=broken[-1],
                word=word,
                vowel=word[0] in "aeiou",
                units=spine.blocks.units,
            )
        )
    return findings


def _lost_zeros(engine: Engine, source: Source, code: str, unknown: str, frame: Path) -> bool:
    """Whether every unknown block would be known, were it not for leading zeros."""
    plain, known = f"trim(LEADING '0' FROM {code})", "SELECT trim(LEADING '0' FROM code) FROM frame"
    return not _some(engine, source, f"({unknown}) AND coalesce({plain} NOT IN ({known}), TRUE)", frame)


def _some(engine: Engine, source: Source, condition: str, frame: Path) -> bool:
    """Whether a condition holds for any record."""
    query = f"SELECT count(*) AS n FROM records WHERE {condition}"
    answer = engine.sql(query, records=source, frame=frame).reveal("what is wrong with codes of places, for a remedy")
    return bool(answer.column("n")[0].as_py())


def check_codes(engine: Engine, source: Source, attributes: Sequence[Attribute]) -> list[Finding]:
    """Every problem of the records' attributes, where their blocks are not looked at."""
    if not attributes:
        return []
    findings = check_columns(engine, source, attributes, None)
    if findings:
        return findings
    rules = [f"({number}) IS NULL" for number in code_expressions(engine, source, attributes).values()]
    _, broken, _ = count_rows(engine, source, rules)
    return [
        unknown_code(engine, source, attribute, rule, number)
        for attribute, rule, number in zip(attributes, rules, broken, strict=True)
        if number
    ]


def unknown_code(engine: Engine, source: Source, attribute: Attribute, rule: str, number: int) -> Finding:
    """The finding for codes that are none of the schema's, in ``number`` records that meet ``rule``."""
    rows = engine.first_rows(source, rule, ROWS_NAMED)
    inputs_frame.gather(engine, source, attribute.name, rule)
    key = "bad-record/unknown-code"
    zeros = [str(level.code).lstrip("0") for level in attribute.levels if str(level.code).startswith("0")]
    if zeros and not attribute.is_integer:
        text = f"CAST({identifier(source.theirs(attribute.name))} AS VARCHAR)"
        lost = f"{text} IN ({', '.join(map(literal, zeros))})"
        if not count_rows(engine, source, [f"({rule}) AND NOT coalesce({lost}, FALSE)"])[1][0]:
            key = "bad-record/lost-zeros-of-code"
    return bad_record(key, source, attribute.name, rows, number=number, codes=attribute.describe_codes())


def records_fingerprint(records: Source | Path) -> str:
    """SHA-256 of the file of records. Any change of it is a change of the data, and asks for new noise. Of records in
    two files it is that of both, and of how they are joined."""
    source = records if isinstance(records, Source) else Source(records, "csv")
    if source.joined is not None:
        join = source.joined
        one, other = records_fingerprint(replace(source, joined=None)), records_fingerprint(join.other)
        layout = [sorted(each.columns.items()) for each in (source, join.other)]
        said = json.dumps([one, other, join.key, join.only, join.named, layout])
        return hashlib.sha256(b"confide/joined-records/v1" + said.encode()).hexdigest()
    digest = hashlib.sha256(b"confide/records/v1")
    for part in source.files:
        with part.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def fingerprint_of_files(files: Mapping[str, Path]) -> str:
    """One fingerprint of all files of records of a run, by what each is: one alone has the one it always had."""
    if len(files) == 1:
        return records_fingerprint(*files.values())
    digest = hashlib.sha256(b"confide/records-of-files/v1")
    for name, path in sorted(files.items()):
        digest.update(f"{name} {records_fingerprint(path)}\n".encode())
    return digest.hexdigest()


def blocks_table(spine: Spine) -> pa.Table:
    """The blocks and their unit on every level, as rows for joins: ``code``, ``block`` and one column per level."""
    order = spine.blocks.unit_of_block.argsort()
    columns = {"code": pa.array(spine.blocks.codes), "block": pa.array(range(spine.blocks.units), pa.int64())}
    for level in (*spine.levels[:-1], *spine.areas):
        columns[f"unit_{level.name}"] = pa.array(level.unit_of_block[order], pa.int64())
    return pa.table(columns)


def _wrong_types(engine: Engine, source: Source, attributes: Sequence[Attribute]) -> list[Finding]:
    kinds = engine.kinds(source)
    return [
        wrong_type(source, attribute.name, kinds, "the codes of the attribute", integer=attribute.is_integer)
        for attribute in attributes
        if kinds[source.theirs(attribute.name)] == "other"
        or (not attribute.is_integer and kinds[source.theirs(attribute.name)] != "text")
    ]


def wrong_type(source: Source, name: str, kinds: Mapping[str, str], what: str, *, integer: bool) -> Finding:
    """A column that cannot hold what is to be read from it: a conversion would round it without a word."""
    return Finding.of(
        "column-type/wrong",
        where=Place(file=source.file, column=source.theirs(name)),
        what=what,
        kind=_KINDS[kinds[source.theirs(name)]],
        integer=integer,
    )


def bad_record(
    key: str, source: Source, name: str, rows: Sequence[int], /, *, number: int | None = None, **facts: Any
) -> Finding:
    """A rule that ``number`` records break, with the first that do; what these have is never shown.

    Their places are lines of a CSV, and numbers of rows in any other file.
    """
    lines = inputs_frame.lines_of(source, rows)
    where = Place(
        file=source.file,
        line=lines[0] if lines else None,
        column=source.theirs(name),
        row=rows[0] if rows else None,
    )
    places = inputs_frame.places_of(source, rows)
    return Finding.of(key, where=where, found=CONFIDENTIAL, number=number, one=number == 1, places=places, **facts)


# Households that are given for areas: their numbers, and tables of their members, would be published as those of areas.
#
# A household has a handful of members, and so have some true areas. What tells a file of households is a handful in
# nearly every row, none of them empty, with hardly one that has more; or a handful on average together with a name that
# says so: of the column with the codes, or of columns that describe dwellings and people. A census block has 28 people
# on average in the United States, most blocks of a prairie state have none, and many a block has hundreds.
HANDFUL = 10
"""So many records are at most in a household, on average over those that are there."""
MEMBERS, CROWD, FEW_CROWDS = 5, 12, 0.01
"""Places without a telling name are households if they have at most so many records on average, and if at most this
share of them has more than a crowd."""
INHABITED = 0.95
"""And if this share of them is inhabited at least: a file of areas lists empty ones too."""
FEWEST_PLACES, FEWEST_DESCRIBED = 50, 20
"""With fewer places than this, numbers alone tell nothing, nor do columns that describe dwellings: a small file of
areas may count their rooms."""
_NUMBERED = re.compile(r"^(?:id|no|nr|num|number)(?=[^a-z])|s?[^a-z]*(?:ids?|no|nr|num|number)$")


def _plain(name: str) -> str:
    return without_accents(name.casefold())


def identifies_households(column: str) -> bool:
    """Whether the name of a column says that it tells one household, family or dwelling from the others.

    >>> [identifies_households(name) for name in ("HHID", "id_ménage", "Household No", "Өрх", "house_district", "bag")]
    [True, True, True, True, False, False]
    """
    plain = _plain(column)
    bare = _NUMBERED.sub("", _NUMBERED.sub("", plain))
    return any(re.sub(r"[\W_]+", "", text) in vocabulary("households.txt") for text in (plain, bare))


def _describes_dwellings(column: str) -> bool:
    """Whether the name of a column says that it describes a dwelling, a household or a person.

    >>> [_describes_dwellings(name) for name in ("TENURE", "nb_pieces", "housing_units", "population", "AWATER")]
    [True, True, False, False, False]
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
    words = re.findall(r"[^\W\d_]+", _plain(apart))
    return any(word in vocabulary("dwellings.txt") for word in (*words, "".join(words)))


@dataclass(frozen=True)
class PlaceCounts:
    """How records lie over places. It is confidential."""

    places: int
    inhabited: int
    records: int
    crowded: int
    """Places with more than :data:`CROWD` records."""

    @classmethod
    def of(cls, counts: Iterable[int], places: int) -> PlaceCounts:
        """From the number of records of each inhabited place, and how many places there are."""
        each = list(counts)
        return cls(max(places, len(each)), len(each), sum(each), sum(number > CROWD for number in each))

    @property
    def handful(self) -> bool:
        return self.records <= HANDFUL * self.inhabited

    @property
    def like_households(self) -> bool:
        """Whether the numbers alone show it."""
        return (
            self.inhabited >= max(FEWEST_PLACES, INHABITED * self.places)
            and self.records <= MEMBERS * self.inhabited
            and self.crowded <= FEW_CROWDS * self.inhabited
        )


def household_areas(
    file: str, codes: Iterable[str], columns: Iterable[str], counts: PlaceCounts, *, households: bool = False
) -> Finding | None:
    """A finding if the smallest areas are the households of the records. It says the rule, and no number of records.

    Args:
        file: The file of areas.
        codes: The columns with the codes of the smallest areas, in the records and in the file of areas.
        columns: All columns of the file of areas.
        counts: How the records lie over the areas.
        households: Whether it is known that each area holds one household.
    """
    named = sorted(column for column in codes if identifies_households(column))
    telling = sorted(column for column in columns if _describes_dwellings(column) or identifies_households(column))
    if counts.places < FEWEST_DESCRIBED:
        telling = []
    if not counts.handful or not (households or named or telling or counts.like_households):
        return None
    found = "a handful of records in each of the smallest areas"
    if named:
        found += f", and a column {named[0]!r} with their codes"
    elif telling:
        found += f", and columns that describe dwellings or people: {', '.join(map(repr, telling))}"
    return Finding.of("household-areas", where=Place(file=file), found=found)


def check_areas(engine: Engine, records: Source, blocks: Source, block: str) -> list[Finding]:
    """:func:`household_areas` for the two files of a spec, whose records have passed the other checks.

    Args:
        engine: Reads both.
        records: One row for each person.
        blocks: The file of areas.
        block: The spec's name for the column with the codes of the smallest areas.
    """

    def numbers(text: str, **tables: Source) -> list[int]:
        (row,) = engine.sql(text, **tables).reveal("whether areas are households; no number is shown").to_pylist()
        return [int(value or 0) for value in row.values()]

    if any(source.theirs(block) not in engine.kinds(source) for source in (records, blocks)):
        return []  # files of another layout, such as the Bureau's own
    (places,) = numbers("SELECT count(*) AS n FROM blocks", blocks=blocks)
    (rows,) = numbers("SELECT count(*) AS n FROM records", records=records)
    if rows > HANDFUL * places:
        return []
    counted = f"SELECT {inputs_frame.column_text(records, block)} AS code, count(*) AS n FROM records GROUP BY 1"
    text = (
        f"SELECT count(*) AS a, sum(n) AS b, sum(CASE WHEN n > {CROWD} THEN 1 ELSE 0 END) AS c FROM ({counted}) AS each"
    )
    counts = PlaceCounts(places, *numbers(text, records=records))
    names = {records.theirs(block), blocks.theirs(block)}
    finding = household_areas(blocks.file, names, engine.kinds(blocks), counts)
    return [] if finding is None else [finding]


def without_accents(text: str) -> str:
    """A text in the letters that file names may have anywhere.

    >>> without_accents("län")
    'lan'
    """
    return "".join(sign for sign in normalize("NFKD", text) if not combining(sign))


@cache
def vocabulary(file: str) -> frozenset[str]:
    """The words of a file of ``data/proposals``, plain, without its comments."""
    lines = files("confide").joinpath(f"data/proposals/{file}").read_text("utf-8").splitlines()
    return frozenset(without_accents(word) for line in lines if not line.startswith("#") for word in line.split())
