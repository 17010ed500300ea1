"""Where a value stands in a TOML file. The parser of the standard library gives values without their lines; a person
who has to mend a file wants the line.

The scanner follows the grammar of TOML 1.0 as far as it is needed to know where a statement begins and ends: keys,
headers, strings of all four kinds, lists, inline tables, comments. It is asked about files that were parsed before; of
any other text it says what it found until it understood no more.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from confide.errors import Finding, Place, SpecError
from confide.schema import Schema, parse_schema

_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL
)  # a long string may end in up to five quotes, of which two are its own
_PLAIN = re.compile(r"[^\s,\[\]{}#\"'=]+(?: \d[^\s,\[\]{}#\"'=]*)?")
_GAP = re.compile(r"[ \t\r]*")
_GAP_OVER_LINES = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")

_DEEPEST = 100

KeyPath = Sequence[str | int]
_Place = tuple[str | int, ...]


def line_of(text: str, path: KeyPath) -> int | None:
    """The line, from one, of the value at ``path``, or of the nearest thing around it that the file has.

    A path is made of keys and list positions: ``("tables", 1, "levels")`` is the key ``levels`` of the second
    ``[[tables]]``, or of the second table of the list ``tables = [...]``.
    """
    places = _places(text)
    for length in range(len(path), 0, -1):
        found = places.get(tuple(path[:length]))
        if found is not None:
            return text.count("\n", 0, found) + 1
    return None


def parse(text: str) -> dict[str, Any]:
    """The values of a TOML text; floats stay floats, to be refused where an exact number is due."""
    return tomllib.loads(text)


def error_line(error: Exception) -> int | None:
    """The line that a syntax error is on."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found.group(1)) if found else None


@lru_cache(maxsize=2)
def _places(text: str) -> dict[_Place, int]:
    return _Scanner(text).places


class _Scanner:
    """Reads a text once and notes at which character every key, header and element of a list begins."""

    def __init__(self, text: str):
        self._text = text
        self._at = 0
        self._lengths: dict[_Place, int] = {}
        self.places: dict[_Place, int] = {}
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
        if not parts or not self._take("="):
            return False
        for length in range(1, len(parts) + 1):
            self._note((*table, *parts[:length]), start)
        self._skip(_GAP)
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
        if not parts or not self._take("="):
            return None
        for length in range(1, len(parts) + 1):
            self._note((*inside, *parts[:length]), start)
        self._skip(_GAP)
        return (*inside, *parts)

    def _key(self) -> tuple[str, ...]:
        """``a."b c".d``, with the blanks around it; nothing if there is no key."""
        parts: list[str] = []
        while True:
            self._skip(_GAP)
            found = _KEY_PART.match(self._text, self._at)
            if found is None:
                return ()
            parts.append(_unquoted(found.group()))
            self._at = found.end()
            self._skip(_GAP)
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
        found = self._next(text)
        self._at += len(text) if found else 0
        return found

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        found = pattern.match(self._text, self._at)
        if found is None or found.end() == self._at:
            return False
        self._at = found.end()
        return True


def _unquoted(part: str) -> str:
    """A part of a key as the parser reads it."""
    if part.startswith('"') and "\\" in part:
        try:
            return str(next(iter(tomllib.loads(f"key = {part}").values())))
        except ValueError:
            return part[1:-1]
    return part[1:-1] if part[0] in "\"'" else part


# What a value of a TOML file should have been, in plain words.
#
# The models that check such files speak to programmers, of inputs, fields and instances. A person who has to mend the
# file is told what to write instead.


_KINDS = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number that is finite",
    "bool_type": "true or false",
    "list_type": "a list, in square brackets",
    "tuple_type": "a list, in square brackets",
    "dict_type": "a table of keys with values",
    "model_type": "a table of keys with values",
    "model_attributes_type": "a table of keys with values",
}
_LIMITS = {
    "greater_than": ("gt", "greater than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "string_too_short": ("min_length", "text of at least {} characters"),
    "string_too_long": ("max_length", "text of at most {} characters"),
    "too_short": ("min_length", "at least {} of them"),
    "too_long": ("max_length", "at most {} of them"),
    "literal_error": ("expected", "{}"),
    "enum": ("expected", "{}"),
    "union_tag_invalid": ("expected_tags", "{}"),
}


def expected_in_words(problem: Mapping[str, Any]) -> str:
    """What a validation error of pydantic (one of ``ValidationError.errors()``) asks for.

    >>> expected_in_words({"type": "list_type", "msg": "Input should be a valid list"})
    'a list, in square brackets'
    >>> expected_in_words({"type": "too_short", "ctx": {"min_length": 1}, "msg": "List should have ..."})
    'at least one'
    """
    kind, context = str(problem["type"]), problem.get("ctx", {})
    if kind in _KINDS:
        return _KINDS[kind]
    if context.get("min_length") == 1:
        return "at least one character" if kind == "string_too_short" else "at least one"
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        if name in context:
            return words.format(context[name])
    message = str(problem["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


# Reading a settings file while collecting everything that is wrong with it.


class CollectingReader:
    """Notes what is wrong, place by place, and raises all of it at the end."""

    def __init__(self, file: str, *, code: str, remedy: str):
        self._file, self._code, self._remedy = file, code, remedy
        self._findings: list[Finding] = []

    def wrong(self, path: str, what: str, found: object, expected: str) -> None:
        """Note that something is wrong at a path of the file."""
        where = Place(file=self._file, path=path)
        self._findings.append(Finding(self._code, what, where, str(found)[:80], expected, self._remedy))

    def finish(self) -> None:
        """Raise what was noted, if anything was."""
        if self._findings:
            raise SpecError(self._findings)


# Data files: those that ship with Confide, by name, and the user's own, by path.


FOLDER = resources.files("confide") / "data"


def shipped(kind: str) -> list[str]:
    """The names of the shipped files of one kind (``schemas``)."""
    return sorted(file.name.removesuffix(".toml") for file in (FOLDER / kind).iterdir() if file.name.endswith(".toml"))


def load_shipped(kind: str, name: str) -> dict[str, Any]:
    """The values of a shipped file."""
    return tomllib.loads((FOLDER / kind / f"{name}.toml").read_text(encoding="utf-8"))


def load_schema(name: str, base: Path) -> Schema:
    """The schema shipped under ``name``, or read from the path ``name`` relative to ``base``."""
    if name in shipped("schemas"):
        return parse_schema(load_shipped("schemas", name))
    path = base / name
    values = read_toml(path, kind="schema", known=shipped("schemas"))
    try:
        return parse_schema(values)
    except SpecError as error:
        raise SpecError(
            replace(finding, where=replace(finding.where, file=path.name)) for finding in error.findings
        ) from None


def read_toml(path: Path, *, kind: str, known: list[str]) -> dict[str, Any]:
    """The values of a TOML file of the user's own."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        raise SpecError(
            f"no-{kind}",
            f"there is no {kind} of this name and no such file",
            found=str(path.name),
            expected=f"the path of a TOML file, or one of {', '.join(known)}",
            remedy=f"correct the name of the {kind}",
        ) from None
    except (ValueError, RecursionError, OSError) as error:
        line = re.search(r"at line (\d+)", str(error))
        raise SpecError(
            f"bad-{kind}",
            f"the {kind} file cannot be read",
            where=Place(file=path.name, line=int(line.group(1)) if line else None),
            found=str(error) if isinstance(error, tomllib.TOMLDecodeError) else _in_short(error),
            expected="a TOML file in UTF-8",
            remedy="correct the file",
        ) from None


def _in_short(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "bytes that are not UTF-8" if isinstance(error, UnicodeDecodeError) else "values that no parser takes"
