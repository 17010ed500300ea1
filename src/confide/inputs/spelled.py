"""Codes as records spell them: SQL that reads the code which is meant, in the words that all engines share; and the
same for texts in memory, where there is no engine to ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from confide.engines import Engine, Source
from confide.engines.protocol import UTF_8, identifier, literal
from confide.schema import BLANKS, Attribute, Code, Schema, Spelling

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
        ``plain`` where records are read as they stand; otherwise the code that a spelling means, and what stands there
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
        values: What stands in the column.
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
