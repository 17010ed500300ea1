"""The frame: public knowledge of where people can be, as files spell it. Reads the block table and builds the spine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confide.confidential import Confidential
from confide.engines import Engine, Source
from confide.engines.protocol import UTF_8, identifier, literal
from confide.engines.texts import misread_header
from confide.errors import Finding, InputError, Place
from confide.geography import Geolevel, Spine, build_spine
from confide.schema import BIDIRECTIONAL, BLANKS, Attribute, Code, Schema, Spelling

# Codes as records spell them, and values that break a rule.
#
# A code is read by SQL that finds the code which is meant, in the words that all engines share; and in the same way for
# texts in memory, where there is no engine to ask.
#
# Values that break a rule are counted and placed for everybody, and shown to the curator alone, who asks at a terminal.
# A finding says how many records break a rule and where the first of them stand, by the lines of a text. The values
# themselves are gathered only inside :func:`gathered_values`, as confidential; no finding, log or JSON holds one.


_WHOLE = re.compile(r"[+-]?0*(\d+)(?:\.0*)?")


def trimmed(text: str) -> str:
    """SQL for a text without the blanks at its ends."""
    return f"trim(BOTH {literal(BLANKS)} FROM {text})"


def column_text(source: Source, name: str) -> str:
    """SQL for our column ``name`` as text, spelled as the source says: codes of places."""
    column = f"CAST({identifier(source.theirs(name))} AS VARCHAR)"
    spelling = source.spelled(name)
    return _meant(column, spelling, spelling.alias_table(()), ()) if spelling else column


def attribute_code(engine: Engine, source: Source, attribute: Attribute, plain: str) -> str:
    """SQL for the code of an attribute that a record means.

    Args:
        engine: Reads whole numbers out of texts.
        source: The records.
        attribute: The attribute, with its spelling.
        plain: The SQL that reads the column as it stands, with the type of the schema.

    Returns:
        ``plain`` where records are read as they stand; otherwise the code that a spelling means, and what is there
        if it is none.
    """
    spelling = attribute.spelling
    if not spelling:
        return plain
    column = f"CAST({identifier(source.theirs(attribute.name))} AS VARCHAR)"
    if attribute.is_integer and engine.kinds(source)[source.theirs(attribute.name)] == "text":
        plain = engine.integer_text(trimmed(column) if spelling.trim else column)
    codes = [str(level.code) for level in attribute.levels]
    return _meant(column, spelling, attribute.alias_table, codes, plain if attribute.is_integer else None)


def reading_facts(schema: Schema | None, source: Source | None, block: str | None = None) -> dict[str, Any]:
    """What a plan says of how the records are read; nothing where every value is read as it stands.

    Args:
        schema: The schema, with the spellings of its attributes.
        source: The records, with their encoding and the sheet.
        block: The column with the codes of the blocks, where it is read.

    Returns:
        A part of the plan's question, ``reading``, or no part at all.
    """
    places = {} if source is None or block is None else source.spelled(block).facts
    of_file = {} if source is None else {"encoding": source.encoding, "sheet": source.sheet}
    facts = {
        "attributes": {} if schema is None else schema.spellings,
        "places": places,
        **{key: value for key, value in of_file.items() if value not in (None, UTF_8)},
    }
    return {"reading": {key: value for key, value in facts.items() if value}} if any(facts.values()) else {}


def reading_in_words(reading: Mapping[str, Any]) -> list[str]:
    """What :func:`reading_facts` says, in a line for each column."""
    lines = [f"the encoding of the file is {reading['encoding']}"] if "encoding" in reading else []
    lines += [f"the sheet is {reading['sheet']!r}"] if "sheet" in reading else []
    named = dict(reading.get("attributes", {})) | ({"areas": reading["places"]} if "places" in reading else {})
    for name, facts in named.items():
        said = ["blanks at either end are ignored"] if facts.get("trim") else []
        said += ["upper and lower case mean the same"] if facts.get("ignore_case") else []
        said += [
            f"{', '.join(map(repr, texts))} {'means' if len(texts) == 1 else 'mean'} {code!r}"
            for code, texts in facts.get("aliases", {}).items()
        ]
        said += [f"an empty value means {facts['missing']!r}"] if "missing" in facts else []
        lines.append(f"{name}: " + "; ".join(said))
    return lines


def _meant(
    column: str, spelling: Spelling, meant: dict[str, Code], codes: Iterable[str], otherwise: str | None = None
) -> str:
    """The code of each spelling; ``otherwise``, or the text as it is compared, where it is the spelling of none."""
    text = trimmed(column) if spelling.trim else column
    capital, small = spelling.letters("".join((*meant, *codes)))
    if capital:
        text = f"translate({text}, {literal(capital)}, {literal(small)})"
    branches = []
    if spelling.missing is not None:
        branches.append(f"WHEN {column} IS NULL OR {trimmed(column)} = '' THEN {literal(spelling.missing)}")
    for code in dict.fromkeys(meant.values()):
        texts = ", ".join(literal(each) for each, of in meant.items() if of == code)
        branches.append(f"WHEN {text} IN ({texts}) THEN {literal(code)}")
    rest = text if otherwise is None else otherwise
    return f"CASE {' '.join(branches)} ELSE {rest} END" if branches else rest


def codes_meant(values: Iterable[str | None], attribute: Attribute, *, blanks_mean: bool = True) -> list[Code | None]:
    """For each text the code that it means; None where it is none of the schema's.

    Args:
        values: What is in the column.
        attribute: The attribute, with its spelling.
        blanks_mean: Whether nothing means what the schema says of it; false for files in which nothing is unknown.

    >>> from confide.schema import Level
    >>> codes_meant(["1", "01", "x", None], Attribute("sex", "Sex", (Level(1, "male"), Level(2, "female"))))
    [1, 1, None, None]
    """
    spelling = attribute.spelling
    by_text = {spelling.compared(str(level.code)): level.code for level in attribute.levels} | attribute.alias_table

    def meant(text: str | None) -> Code | None:
        if text is None or not text.strip(BLANKS):
            return spelling.missing if blanks_mean else None
        compared = spelling.compared(text)
        if compared not in by_text and attribute.is_integer and (number := _WHOLE.fullmatch(text.strip(BLANKS))):
            compared = ("-" if text.strip(BLANKS).startswith("-") else "") + number.group(1)
        return by_text.get(compared)

    known: dict[str | None, Code | None] = {}
    return [known[text] if text in known else known.setdefault(text, meant(text)) for text in values]


# Values that break a rule: counted and placed for everybody, shown to the curator alone, who asks at a terminal.


MOST_SHOWN = 20
"""So many different values of a column are shown."""


@dataclass(frozen=True)
class OffendingValue:
    """A value, how many records have it, and the first of them."""

    value: str | None
    records: int
    place: str


@dataclass(frozen=True)
class OffendingValues:
    """The values of a column that break a rule, the most frequent first."""

    file: str
    column: str
    values: Confidential[tuple[OffendingValue, ...]]


_GATHERED: ContextVar[list[OffendingValues] | None] = ContextVar("offending values", default=None)


@contextmanager
def gathered_values() -> Iterator[list[OffendingValues]]:
    """While it is open, values that break a rule are gathered in the list that it gives."""
    gathered: list[OffendingValues] = []
    token = _GATHERED.set(gathered)
    try:
        yield gathered
    finally:
        _GATHERED.reset(token)


def gather(engine: Engine, source: Source, name: str, condition: str, **others: Path) -> None:
    """Gathers the values of our column ``name`` in records that meet a condition, if anybody asked for them."""
    gathered = _GATHERED.get()
    if gathered is None:
        return
    text = f"CAST({identifier(source.theirs(name))} AS VARCHAR)"
    query = (
        f"SELECT {text} AS value, count(*) AS n FROM records WHERE {condition} "
        f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST_SHOWN}"
    )
    reason = "shown to the curator at a terminal, who asked for it"
    rows = engine.sql(query, records=source, **others).reveal(reason).to_pylist()
    values = []
    for row in rows:
        same = f"{text} IS NULL" if row["value"] is None else f"{text} = {literal(row['value'])}"
        first = engine.first_rows(source, f"({condition}) AND {same}", 1, **others)
        values.append(OffendingValue(row["value"], row["n"], places_of(source, first)))
    gathered.append(OffendingValues(source.file, source.theirs(name), Confidential(tuple(values))))


def places_of(source: Source, rows: Sequence[int]) -> str:
    """Numbers of records as a person finds them: lines of a text, rows of any other file."""
    lines = lines_of(source, rows)
    kind = "rows" if lines is None else "lines"
    return f"{kind}: " + ", ".join(f"{number:,}" for number in (rows if lines is None else lines))


def lines_of(source: Source, rows: Sequence[int]) -> list[int] | None:
    """The lines of a CSV on which records begin; a quoted value may go over several, and empty lines are no records.

    Args:
        source: The file.
        rows: Numbers of records, from one, in rising order.

    Returns:
        A line for each; nothing where the file is no text.
    """
    if source.format != "csv" or not rows:
        return None
    lines: list[int] = []
    record, inside = -1, False
    with source.path.open(encoding=source.encoding, errors="replace", newline="") as file:
        for number, line in enumerate(file, start=1):
            if not inside and line.strip("\r\n\ufeff"):
                record += 1
                if len(lines) < len(rows) and record == rows[len(lines)]:
                    lines.append(number)
            inside ^= source.quoted and line.count('"') % 2 == 1
            if len(lines) == len(rows):
                return lines
    return None


# The frame: public knowledge of where people can be. Reads the block table and builds the spine from it.


BLOCK = "block"
"""The name of the finest level."""

WHOLE = "all"
"""The code of the one unit of a level that takes in every block."""

_CONTROL = re.compile(rf"[\x00-\x1f\x7f-\x9f{BIDIRECTIONAL}]")


@dataclass(frozen=True, slots=True)
class LevelRule:
    """How a level's code is found: the first ``digits`` characters of the block code, or a ``column`` of the block
    table. ``digits = 0`` makes one unit of everything."""

    name: str
    digits: int | None = None
    column: str | None = None
    names: str | None = None
    """The column with the names of its units."""


@dataclass(frozen=True, slots=True)
class AreaRule:
    """An off-spine partition: a column of the block table; blocks with an empty value or the code ``none`` are in no
    area. Where codes repeat from unit to unit of the level ``within``, the unit's code goes before the area's."""

    name: str
    column: str
    none: str | None = None
    within: str | None = None
    names: str | None = None
    """The column with the names of the areas."""


@dataclass(frozen=True)
class Frame:
    """The spine, and a fingerprint of all that it says."""

    spine: Spine
    fingerprint: str
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By level the names of its units, in their order, for the levels that have any. They decide no count, and are in
    no fingerprint of the spine."""


def read_frame(
    engine: Engine,
    source: Source,
    block: str,
    levels: Sequence[LevelRule],
    areas: Sequence[AreaRule],
    block_names: str | None = None,
    smallest: str = BLOCK,
) -> Frame:
    """The frame of a block table. Every problem is a finding of one :class:`InputError`.

    ``block_names`` is the column with the names of the blocks, and ``smallest`` the office's word for a block: the name
    of the last level, in tables and messages.
    """
    named = {rule.name: rule.names for rule in levels if rule.names}
    named |= {rule.name: rule.names for rule in areas if rule.names}
    named |= {smallest: block_names} if block_names else {}
    wanted = {block, *(rule.column for rule in levels if rule.column), *(rule.column for rule in areas)}
    wanted |= set(named.values())
    missing = missing_columns(engine, source, sorted(wanted))
    if missing:
        raise InputError(missing)
    wrong = wrong_code_types(engine, source, sorted(wanted))
    if wrong:
        raise InputError(wrong)
    own = replace(source, spellings={name: replace(source.spelled(name), aliases=()) for name in wanted})
    columns = ", ".join(f"{column_text(own, name)} AS {identifier(name)}" for name in wanted)
    table = engine.sql(f"SELECT {columns} FROM blocks", blocks=source).reveal("the block table is public knowledge")
    codes = {name: _shared(table.column(name)) for name in wanted}
    findings = _empty_codes(source, codes, {block, *(rule.column for rule in levels if rule.column)})
    findings += _control_characters(source, codes)
    if not findings:
        findings = _short_codes(source, codes[block], levels, source.theirs(block))
        findings += _wrong_aliases(source, codes[block], block)
    if not table.num_rows:
        findings.append(Finding.of("no-blocks/rows", where=Place(file=source.file)))
    if findings:
        raise InputError(findings)
    of_level = {rule.name: _codes(rule, codes, block) for rule in levels}
    merged = [finding for rule in areas for finding in _merged_areas(source, rule, codes[rule.column], of_level)]
    if merged:
        raise InputError(merged)
    spine = build_spine(
        of_level | {smallest: codes[block]},
        {rule.name: _area_codes(rule, codes[rule.column], of_level) for rule in areas},
        file=source.file,
    )
    names: dict[str, tuple[str, ...]] = {}
    for level, column in named.items():
        names[level], split = _unit_names(spine.level(level), codes[column], source, column)
        findings += split
    if findings:
        raise InputError(findings)
    return Frame(spine, fingerprint(spine), names)


def _unit_names(
    level: Geolevel, texts: Sequence[str | None], source: Source, column: str
) -> tuple[tuple[str, ...], list[Finding]]:
    """The name of each unit of a level, from the names of its blocks, and a finding where a unit has two."""
    names: list[str | None] = [None] * level.units
    for row, (unit, text) in enumerate(zip(level.unit_of_block.tolist(), texts, strict=True), start=1):
        if unit < 0 or not (text or "").strip():
            continue
        name = " ".join(str(text).split())
        if names[unit] not in (None, name):
            return (), [
                Finding.of(
                    "two-names",
                    where=Place(file=source.file, column=source.theirs(column), row=row),
                    level=level.name,
                    name=names[unit],
                    name_found=name,
                    its_code=level.codes[unit],
                )
            ]
        names[unit] = name
    return tuple(name or "" for name in names), []


def fingerprint(spine: Spine) -> str:
    """SHA-256 of every level's name, codes and blocks: two frames with the same one ask the same question."""
    digest = hashlib.sha256(b"confide/frame/v1")
    order = spine.blocks.unit_of_block.argsort()
    for level in (*spine.levels, *spine.areas):
        for text in (level.name, *level.codes):
            digest.update(len(text.encode()).to_bytes(4, "big") + text.encode())
        digest.update(level.unit_of_block[order].astype("<i8").tobytes())
    return digest.hexdigest()


def missing_columns(
    engine: Engine, source: Source, wanted: Sequence[str], *, confidential: bool = False
) -> list[Finding]:
    """A finding for every column that the file lacks. The names that a ``confidential`` file has are only counted: in
    a CSV without a first line of names, they are a record."""
    present = engine.kinds(source)
    theirs = [source.theirs(name) for name in wanted]
    misread = misread_header(source, theirs, present) if any(name not in present for name in theirs) else None
    if misread is not None:
        return [misread]
    alike = {" ".join(name.split()).lower(): name for name in present}
    return [
        Finding.of(
            "missing-column/file",
            where=Place(file=source.file, column=source.theirs(name)),
            name=source.theirs(name),
            present=len(present),
            present_found=None if confidential else ", ".join(sorted(present)),
            confidential=confidential,
            name_expected=name,
            alike=alike.get(" ".join(source.theirs(name).split()).lower(), "..."),
        )
        for name in wanted
        if source.theirs(name) not in present
    ]


def wrong_code_types(engine: Engine, source: Source, wanted: Sequence[str]) -> list[Finding]:
    """A finding for every column of geographic codes that holds neither text nor whole numbers."""
    kinds = engine.kinds(source)
    return [
        Finding.of("column-type/wrong-codes", where=Place(file=source.file, column=source.theirs(name)))
        for name in wanted
        if kinds[source.theirs(name)] == "other"
    ]


def _codes(rule: LevelRule, codes: dict[str, list[str]], block: str) -> list[str]:
    if rule.column is not None:
        return codes[rule.column]
    if rule.digits == 0:
        return [WHOLE] * len(codes[block])
    known: dict[str, str] = {}
    return [known.setdefault(code, code) for code in (code[: rule.digits] for code in codes[block])]


def _shared(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column, equal ones as one object: a nation has millions of blocks and few places."""
    coded = column.combine_chunks().dictionary_encode()
    values = [*coded.dictionary.to_pylist(), None]
    return [values[index] for index in pc.fill_null(coded.indices, len(values) - 1).to_numpy().tolist()]


def _area_codes(rule: AreaRule, codes: Sequence[str | None], of_level: Mapping[str, Sequence[str]]) -> list[str | None]:
    own = [None if code in (None, "", rule.none) else code for code in codes]
    if rule.within is None:
        return own
    return [None if code is None else unit + code for unit, code in zip(of_level[rule.within], own, strict=True)]


def _merged_areas(
    source: Source, rule: AreaRule, codes: Sequence[str | None], of_level: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """An area within a level is known by two codes, and is published under both as one text: a text that two areas
    have, such as ``1`` and ``12``, ``11`` and ``2``, would make one area of them."""
    if rule.within is None:
        return []
    met: dict[str, tuple[str, str]] = {}
    for row, (unit, code) in enumerate(zip(of_level[rule.within], codes, strict=True), start=1):
        if code not in (None, "", rule.none) and met.setdefault(unit + code, (unit, code)) != (unit, code):
            other = met[unit + code]
            return [
                Finding.of(
                    "merged-areas",
                    where=Place(file=source.file, column=source.theirs(rule.column), row=row),
                    rule=rule.name,
                    within=rule.within,
                    other=other[0],
                    other_found=other[1],
                    unit=unit,
                    its_code=code,
                    unit_found=unit + code,
                )
            ]
    return []


def _control_characters(source: Source, codes: Mapping[str, Sequence[str | None]]) -> list[Finding]:
    """Codes that files and other programs would cut, or show as one."""
    rows = {
        name: row
        for name, column in sorted(codes.items())
        if (row := next((at for at, code in enumerate(column, start=1) if code and _CONTROL.search(code)), None))
    }
    return [
        Finding.of("control-character", where=Place(file=source.file, column=source.theirs(name), row=row))
        for name, row in rows.items()
    ]


def _empty_codes(source: Source, codes: dict[str, list[str | None]], names: set[str]) -> list[Finding]:
    empty = {name: [row for row, code in enumerate(codes[name], start=1) if not code] for name in sorted(names)}
    return [
        Finding.of("empty-code", where=Place(file=source.file, column=source.theirs(name), row=rows[0]), rows=len(rows))
        for name, rows in empty.items()
        if rows
    ]


def _short_codes(source: Source, blocks: Sequence[str], levels: Sequence[LevelRule], column: str) -> list[Finding]:
    digits = max((rule.digits for rule in levels if rule.digits is not None), default=0)
    short = next((row for row, code in enumerate(blocks, start=1) if len(code) < digits), None)
    if short is None:
        return []
    return [
        Finding.of(
            "short-code",
            where=Place(file=source.file, row=short, column=column),
            found=repr(blocks[short - 1]),
            digits=digits,
        )
    ]


def _wrong_aliases(source: Source, blocks: Sequence[str], block: str) -> list[Finding]:
    """Other codes of a block that are those of another, or of a block that is not there."""
    known = set(blocks)
    return [
        Finding.of(
            "block-alias",
            where=Place(file=source.file, column=source.theirs(block)),
            text=text,
            its_code=code,
            text_known=text in known,
        )
        for text, code in source.spelled(block).aliases
        if text in known or code not in known
    ]


def read_counts(engine: Engine, source: Source, names: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Whole numbers of the block table, such as housing units, in the order of its rows."""
    missing = missing_columns(engine, source, names)
    if missing:
        raise InputError(missing)
    if not names:
        return {}
    kinds = engine.kinds(source)

    def integer_column(name: str) -> str:
        column = identifier(source.theirs(name))
        read = engine.integer_text(column) if kinds[source.theirs(name)] == "text" else f"TRY_CAST({column} AS BIGINT)"
        return f"{read} AS {identifier(name)}"

    text = f"SELECT {', '.join(integer_column(name) for name in names)} FROM blocks"
    table = engine.sql(text, blocks=source).reveal("the block table is public knowledge")
    findings = []
    for name in names:
        column = table.column(name)
        wrong = next((row for row, n in enumerate(column.to_pylist(), start=1) if n is None or n < 0), None)
        if wrong is not None or kinds[source.theirs(name)] == "other":
            findings.append(
                Finding.of(
                    "bad-count/block",
                    where=Place(file=source.file, column=source.theirs(name), row=wrong),
                    column=column[wrong - 1].as_py() if wrong is not None else None,
                    with_wrong=wrong is not None,
                )
            )
    if findings:
        raise InputError(findings)
    return {name: table.column(name).to_numpy().astype(np.int64) for name in names}
