"""The sentences of certificates and statements: for each language a file of messages, and how messages are filled.

A message is a text with named places, ``{delta}``. The files under ``data/messages`` have the same keys and the same
places (``tests/report/test_messages.py``), so a new language is a new file and no code. Words that come from a spec, a
schema or a frame (titles, levels, labels) are the office's own and are never translated.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

FOLDER = resources.files("confide") / "data" / "messages"
ENGLISH = "en"
LANGUAGES = ("en", "de", "fr")
"""The languages that pages can be written in, by the code of ISO 639-1 that a spec names."""

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
