"""Where a value is in a TOML or JSON file. The parsers of the standard library give values without their lines; a
person who has to mend a file wants the line.

The scanner follows the grammar of TOML 1.0 as far as it is needed to know where a statement begins and ends: keys,
headers, strings of all four kinds, lists, inline tables, comments. A JSON text is one inline table over many lines,
with colons for equal signs. The scanner is asked about files that were parsed before; of any other text it says what it
found until it understood no more.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache

_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL
)  # a long string may end in up to five quotes, of which two are its own
_PLAIN = re.compile(r"[^\s,\[\]{}#\"'=]+(?: \d[^\s,\[\]{}#\"'=]*)?")
_GAP = re.compile(r"[ \t\r]*")
_GAP_OVER_LINES = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")

_DEEPEST = 100

KeyPath = tuple[str | int, ...]
"""Where a value is in a file: keys and list positions."""
_Place = KeyPath


def line_of(text: str, path: Sequence[str | int], *, is_json: bool = False) -> int | None:
    """The line, from one, of the value at ``path``, or of the nearest thing around it that the file has.

    Args:
        text: The text of the file.
        path: Keys and list positions: ``("tables", 1, "levels")`` is the key ``levels`` of the second ``[[tables]]``,
            or of the second table of the list ``tables = [...]``.
        is_json: Whether the text is JSON, and not TOML.

    Returns:
        The line, or nothing if the file has nothing on the way to the path.

    >>> line_of("[privacy]\\nbudget = 1\\n", ("privacy", "budget"))
    2
    >>> line_of('{\\n  "run_us": true\\n}', ("run_us",), is_json=True)
    2
    """
    places = _places(text, is_json)
    for length in range(len(path), 0, -1):
        start = places.get(tuple(path[:length]))
        if start is not None:
            return text.count("\n", 0, start) + 1
    return None


def dotted(path: Sequence[str | int]) -> str:
    """A path as people write it.

    >>> dotted(("tables", 1, "levels"))
    'tables[1].levels'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@lru_cache(maxsize=2)
def _places(text: str, is_json: bool) -> dict[_Place, int]:
    return _Scanner(text, is_json=is_json).places


class _Scanner:
    """Reads a text once and notes at which character every key, header and element of a list begins."""

    def __init__(self, text: str, *, is_json: bool):
        self._text, self._is_json = text, is_json
        self._equals, self._gap = (":", _GAP_OVER_LINES) if is_json else ("=", _GAP)
        self._at = 0
        self._lengths: dict[_Place, int] = {}
        self.places: dict[_Place, int] = {}
        if is_json:
            self._skip(_GAP_OVER_LINES)
            self._value(())
            return
        table: _Place | None = ()
        while table is not None:
            self._skip(_GAP_OVER_LINES)
            if self._at >= len(text):
                return
            table = self._header() if self._next("[") else self._statement(table)

    def _header(self) -> _Place | None:
        """``[a.b]`` or ``[[a.b]]``: the table that the statements after it belong to."""
        start = self._at
        listed = self._text.startswith("[[", start)
        self._at += 2 if listed else 1
        parts = self._key()
        if not parts or not self._take("]" * (2 if listed else 1)):
            return None
        table: _Place = ()
        for part in parts[:-1]:
            table = self._last((*table, part))
        table = (*table, parts[-1])
        if listed:
            self._note(table, start)
            number = self._lengths.get(table, 0)
            self._lengths[table] = number + 1
            table = (*table, number)
        else:
            table = self._last(table)
        self._note(table, start)
        return table

    def _statement(self, table: _Place) -> _Place | None:
        return table if self._pair(table) else None

    def _pair(self, table: _Place) -> bool:
        """``key = value``, the value up to its end."""
        start = self._at
        parts = self._key()
        if not parts or not self._take(self._equals):
            return False
        for length in range(1, len(parts) + 1):
            self._note((*table, *parts[:length]), start)
        self._skip(self._gap)
        return self._value((*table, *parts))

    def _value(self, place: _Place) -> bool:
        """A value up to its end. Open brackets are on a stack of ours, up to more than a person writes."""
        open_: list[tuple[_Place, str]] = []
        at: _Place = place
        while True:
            if len(open_) < _DEEPEST and (self._next("[") or self._next("{")):
                open_.append((at, "]" if self._next("[") else "}"))
                self._at += 1
                self._lengths[at] = 0
            elif not self._skip(_STRING) and not self._skip(_PLAIN):
                return False
            while open_:
                inside, close = open_[-1]
                self._skip(_GAP_OVER_LINES)
                separated = self._take(",") or self._lengths[inside] == 0
                self._skip(_GAP_OVER_LINES)
                if self._take(close):
                    open_.pop()
                    continue
                if not separated:
                    return False
                next_ = self._element(inside, close)
                if next_ is None:
                    return False
                at = next_
                break
            if not open_:
                return True

    def _element(self, inside: _Place, close: str) -> _Place | None:
        """Up to the value of the next element of a list, or of the next key of an inline table."""
        start, number = self._at, self._lengths[inside]
        self._lengths[inside] = number + 1
        if close == "]":
            self._note((*inside, number), start)
            return (*inside, number)
        parts = self._key()
        if not parts or not self._take(self._equals):
            return None
        for length in range(1, len(parts) + 1):
            self._note((*inside, *parts[:length]), start)
        self._skip(self._gap)
        return (*inside, *parts)

    def _key(self) -> tuple[str, ...]:
        """``a."b c".d``, with the blanks around it; nothing if there is no key."""
        parts: list[str] = []
        while True:
            self._skip(self._gap)
            match = _KEY_PART.match(self._text, self._at)
            if match is None:
                return ()
            parts.append(_unquoted(match.group(), is_json=self._is_json))
            self._at = match.end()
            self._skip(self._gap)
            if not self._take("."):
                return tuple(parts)

    def _last(self, table: _Place) -> _Place:
        """The last element of a list of tables; a table itself."""
        return (*table, self._lengths[table] - 1) if self._lengths.get(table) else table

    def _note(self, place: _Place, start: int) -> None:
        self.places.setdefault(place, start)

    def _next(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        is_next = self._next(text)
        self._at += len(text) if is_next else 0
        return is_next

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        if match is None or match.end() == self._at:
            return False
        self._at = match.end()
        return True


def _unquoted(part: str, *, is_json: bool) -> str:
    """A part of a key as the parser reads it."""
    if part.startswith('"') and "\\" in part:
        try:
            return str(json.loads(part) if is_json else next(iter(tomllib.loads(f"key = {part}").values())))
        except ValueError:
            return part[1:-1]
    return part[1:-1] if part[0] in "\"'" else part
