"""The sentences of certificates, statements and findings: for each language a file, and how its texts are filled.

A message is a text with named places, ``{delta}``. The files under ``data/messages`` have the same keys and the same
places (``tests/report/test_messages.py``), so a new language is a new file and no code. Words that come from a spec, a
schema or a frame (titles, levels, labels) are the office's own and are never translated.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from string import Formatter
from typing import Any

FOLDER = resources.files("confide") / "data" / "messages"
ENGLISH = "en"
LANGUAGES = ("en", "de", "fr")
"""The languages that pages can be written in, by the code of ISO 639-1 that a spec names."""
OWN_FILE = ".toml"
"""What the name of a language ends in that is a file of an office's own, for findings alone."""

_NUMBER = re.compile(r"(?P<number>[±+\-−]? ?\d+(,\d{3})*(\.\d+)?)(?P<rest>( × 10\^\d+)?( %)?)")


@dataclass(frozen=True)
class Messages:
    """All messages of one language."""

    language: str
    texts: Mapping[str, str]
    """Messages by key, such as ``certificate.kind``."""
    smallest: str = "block"
    """The office's word for its smallest places."""

    def calling(self, smallest: str) -> Messages:
        """The same messages for an office that calls its smallest places so.

        >>> messages("de").calling("Gemeinde").text("swapping.kept_households")
        'Die Zahl der Haushalte in jeder Einheit der Ebene Gemeinde.'
        """
        return replace(self, smallest=smallest)

    @property
    def places(self) -> dict[str, str]:
        """How the smallest places are spoken of: ``every_block`` and the like, as messages have them in braces."""
        start = "places.block." if self.smallest == "block" else "places.other."
        return {
            f"{key.removeprefix(start)}_block": text.format(smallest=self.smallest)
            for key, text in self.texts.items()
            if key.startswith(start)
        }

    def text(self, key: str, /, **values: Any) -> str:
        """A message with its places filled; numbers are written as the language writes them."""
        message = self.texts[key]
        if "_block}" in message:
            values = self.places | values
        return message.format(**{name: self.number(value) for name, value in values.items()})

    def counted(self, key: str, number: int, /, **values: Any) -> str:
        """The message for one thing, or that for several."""
        return self.text(f"{key}_one" if number == 1 else f"{key}_many", number=number, **values)

    def number(self, value: Any) -> Any:
        """A number with this language's marks for decimals and thousands; whatever is not a number as it is.

        >>> messages("de").number("1,234.5"), messages("de").number(1234), messages("de").number("v1.0")
        ('1\u202f234,5', '1\u202f234', 'v1.0')
        """
        if isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:,}"
        if not isinstance(value, str) or (match := _NUMBER.fullmatch(value)) is None:
            return value
        marks = {",": self.texts["language.thousands"], ".": self.texts["language.decimal"]}
        return "".join(marks.get(sign, sign) for sign in match["number"]) + match["rest"]

    def unit(self, name: str) -> str:
        """What one record describes: the language's own word where it has one, otherwise the office's."""
        return self.texts.get(f"units.{name.replace(' ', '_')}", name)

    def listed(self, words: Sequence[str]) -> str:
        """All of them: "a, b and c"."""
        return self._joined("lists.and", words)

    def either(self, words: Sequence[str]) -> str:
        """One of them: "a, b or c"."""
        return self._joined("lists.or", words)

    def _joined(self, key: str, words: Sequence[str]) -> str:
        if len(words) < 2:
            return "".join(words)
        return self.texts[key].format(first=", ".join(words[:-1]), last=words[-1])


@cache
def messages(language: str = ENGLISH) -> Messages:
    """The messages of a language: one of :data:`LANGUAGES`."""
    if language not in LANGUAGES:
        raise LookupError(f"there are no messages in {language!r}")
    return Messages(language, dict(_flat(tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8")))))


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


# The texts of findings (``findings.en.toml``): for each code what is wrong, what was found and expected, what to do.
#
# A code that is used for several mistakes has a variant for each, ``code/variant``, which takes what it does not say
# from the code itself. A text has places for the facts of the one case: ``{name}``, with a format where it needs one
# (``{rows:,}``, ``{name!r}``), and ``{fact:?this|that}``, which is ``this`` where the fact is true and ``that`` where
# it is not. A text that comes out empty is left out. Another language is another file, ``findings.de.toml``, with the
# same keys and places. Whoever runs Confide chooses the language (:data:`SPOKEN`), one of ours or a file of their own:
# findings are for people, and no part of a release. A file of one's own may have a part of the keys.

SPOKEN = "CONFIDE_LANGUAGE"
"""The environment variable with the language of findings; processes that a run begins have it, too."""

FIELDS = ("what", "found", "expected", "remedy")
WORDS = "words"
"""The table of an office's own file with the names of fields and places: found, remedy, row and so on."""
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


def spoken() -> str:
    """The language of findings: that of the environment variable, which may be an office's own file; English where it
    names none that can be spoken."""
    language = os.environ.get(SPOKEN, ENGLISH)
    return language if language in LANGUAGES or (language.endswith(OWN_FILE) and _speakable(language)) else ENGLISH


@cache
def _speakable(file: str) -> bool:
    try:
        return not list(unknown_places(file))
    except (OSError, ValueError, AttributeError):  # the command line says what is wrong with it
        return False


def word(key: str) -> str:
    """The name of a field of a finding or of a place, in the language of findings.

    >>> word("remedy")
    'remedy'
    """
    language = spoken()
    own = read_texts(language).get(WORDS, {}).get(key) if language.endswith(OWN_FILE) else None
    return str(own or messages(language if language in LANGUAGES else ENGLISH).texts[f"findings.{key}"])


def say(key: str, facts: Mapping[str, object]) -> dict[str, str]:
    """What a finding says, field by field, without the fields that have nothing to say.

    >>> say("bad-array", {"dtype": "float64"})["found"]
    'an array of float64'
    """
    said = {field: fill(text, facts) for field, text in texts_of_findings(spoken())[key].items()}
    return {field: text for field, text in said.items() if text}


@cache
def texts_of_findings(language: str = ENGLISH) -> Mapping[str, Texts]:
    """All texts of findings in a language, by key; in English where the language lacks one."""
    english = {} if language == ENGLISH else texts_of_findings()
    own = dict(_keyed(read_texts(language)))
    return {**english, **{key: {**english.get(key, {}), **texts} for key, texts in own.items()}}


@cache
def read_texts(language: str) -> dict[str, Any]:
    """The file of a language as it is written: a table for each code, and in it one for each variant."""
    file = Path(language) if language.endswith(OWN_FILE) else FOLDER / f"findings.{language}.toml"
    return tomllib.loads(file.read_text("utf-8"))


def places_of(text: str) -> set[str]:
    """The names of the places of a text, with those inside of choices.

    >>> sorted(places_of("{one:?a row|{rows:,} rows} of {name!r}"))
    ['name', 'one', 'rows']
    """
    names = set()
    for _, name, form, _ in _FORM.parse(text):
        if name is not None:
            names.add(name)
            names = names.union(*map(places_of, choices(form) if form and form.startswith("?") else ()))
    return names


def unknown_places(language: str) -> Iterator[tuple[str, str, str]]:
    """What the file of a language says that cannot be said: the key, the field, and what is wrong.

    Args:
        language: A language, or an office's own file.

    Yields:
        A key that there is not, or a place that the English text does not have.
    """
    english = texts_of_findings()
    for key, texts in _keyed(read_texts(language)):
        for field, text in texts.items():
            known = set().union(*map(places_of, english.get(key, {}).values()))
            if key not in english and code_of(key) not in map(code_of, english):
                yield key, field, ""
            elif unknown := places_of(text) - known:
                yield key, field, ", ".join(sorted(unknown))


def _keyed(codes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Texts]]:
    for code, entry in codes.items():
        if code == WORDS:
            continue
        common = {field: text for field, text in entry.items() if field in FIELDS}
        if "what" in common:
            yield code, common
        for variant, own in entry.items():
            if variant not in FIELDS:
                yield f"{code}/{variant}", {**common, **own}
