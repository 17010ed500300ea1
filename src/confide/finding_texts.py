"""The texts of findings: for each code what is wrong, what was found and expected, and what to do.

The texts are in ``data/messages/findings.en.toml``, by code. A code that is used for several mistakes has a variant for
each, ``code/variant``, which takes what it does not say from the code itself. A text has named places for the facts of
the one case: ``{name}``, with a format where it needs one (``{rows:,}``, ``{name!r}``), and ``{fact:?this|that}``,
which is ``this`` where the fact is true and ``that`` where it is not. A text that comes out empty is left out.

Another language is another file, ``findings.de.toml``, with the same keys and places; what it lacks is said in English.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from string import Formatter
from typing import Any

ENGLISH = "en"
FIELDS = ("what", "found", "expected", "remedy")
Texts = Mapping[str, str]
"""The texts of one key, by field."""
_FORM = Formatter()


def fill(text: str, facts: Mapping[str, object]) -> str:
    """A text with its places filled; None fills a place with nothing.

    >>> fill("{one:?one row|{rows:,} rows} of {name!r}", {"one": False, "rows": 1200, "name": "A"})
    "1,200 rows of 'A'"
    """
    return "".join(_filled(text, facts))


def _filled(text: str, facts: Mapping[str, object]) -> Iterator[str]:
    for before, name, form, conversion in _FORM.parse(text):
        yield before
        if name is None:
            continue
        if form and form.startswith("?"):
            yield from _filled(choices(form)[0 if facts[name] else 1], facts)
            continue
        value = _FORM.convert_field(facts[name], conversion)
        yield "" if value is None else format(value, form or "")


def choices(form: str) -> tuple[str, str]:
    """The two texts of a choice, which may have choices themselves.

    >>> choices("?{one:?a row|rows}|none")
    ('{one:?a row|rows}', 'none')
    """
    depth = 0
    for position, sign in enumerate(form):
        depth += (sign == "{") - (sign == "}")
        if sign == "|" and not depth:
            return form[1:position], form[position + 1 :]
    raise ValueError(f"a choice without its second text: {form}")


def code_of(key: str) -> str:
    """The code of a key: what comes before the slash.

    >>> code_of("unreadable/workbook")
    'unreadable'
    """
    return key.partition("/")[0]


def say(key: str, facts: Mapping[str, object]) -> dict[str, str]:
    """What a finding says, field by field, without the fields that have nothing to say.

    >>> say("bad-array", {"dtype": "float64"})["found"]
    'an array of float64'
    """
    said = {field: fill(text, facts) for field, text in texts_of_findings()[key].items()}
    return {field: text for field, text in said.items() if text}


@cache
def texts_of_findings(language: str = ENGLISH) -> Mapping[str, Texts]:
    """All texts of findings in a language, by key; in English where the language lacks one."""
    english = {} if language == ENGLISH else texts_of_findings()
    return {**english, **dict(_keyed(read_texts(language)))}


def read_texts(language: str) -> dict[str, Any]:
    """The file of a language as it is written: a table for each code, and in it one for each variant."""
    file = resources.files("confide") / "data" / "messages" / f"findings.{language}.toml"
    return tomllib.loads(file.read_text("utf-8"))


def _keyed(codes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Texts]]:
    for code, entry in codes.items():
        common = {field: text for field, text in entry.items() if field in FIELDS}
        if "what" in common:
            yield code, common
        for variant, own in entry.items():
            if variant not in FIELDS:
                yield f"{code}/{variant}", {**common, **own}
