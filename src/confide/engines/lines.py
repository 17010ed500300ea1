"""The lines of a text without quoting, looked at byte by byte before an engine reads them.

A reader of CSV alone will not do: strict, DuckDB's refuses a file whose line ends differ and lets an empty value too
many pass; lenient, it drops every value too many without a word. Here all the bad lines are found in one pass of about
a second for a gigabyte, and nothing of what they hold is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from confide.engines.protocol import Source
from confide.errors import Finding, Place

LINES_NAMED = 5
LONGEST_LINE = 2_000_000
"""In bytes: what DuckDB holds a line to."""

_CHUNK = 1 << 20  # small enough for the intermediate arrays to stay in the processor's cache
_FEED, _RETURN = 10, 13
_NOT_ASCII = 0x80

SHORT, LONG, RETURN, ENCODING, ENDLESS = "short-line", "long-line", "lone-return", "encoding", "endless-line"
_MESSAGES = {
    SHORT: ("a line has too few values", "{values:,} values in every line, as in the first", "complete the lines"),
    LONG: (
        "a line has too many values",
        "{values:,} values in every line, as in the first",
        "take the delimiter {delimiter!r} out of values, and from the ends of lines",
    ),
    RETURN: (
        "a carriage return stands inside a line",
        "lines that end in LF or in CRLF",
        "write the file with one of these line ends",
    ),
    ENCODING: ("a line is not UTF-8 text", "a text in UTF-8", "write the file in UTF-8"),
    ENDLESS: (
        "a line is too long to be one",
        f"lines of at most {LONGEST_LINE:,} bytes",
        "check that the file is what it should be, with lines that end in LF or in CRLF",
    ),
}


@dataclass
class BadLines:
    """How many lines break a rule, and the first of them."""

    number: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, lines: npt.NDArray[np.int64]) -> None:
        self.number += len(lines)
        self.first += lines[: LINES_NAMED - len(self.first)].tolist()


@dataclass
class Lines:
    """What a pass over the lines of a file has seen: how many there are, how many end in CRLF, and the bad ones."""

    number: int = 0
    crlf: int = 0
    broken: dict[str, BadLines] = field(default_factory=lambda: {code: BadLines() for code in _MESSAGES})

    @property
    def mixed(self) -> bool:
        """Whether some lines end in LF and others in CRLF."""
        return 0 < self.crlf < self.number

    def findings(self, source: Source, values: int) -> list[Finding]:
        """A finding for each way in which lines are bad. It gives their numbers and nothing of what they hold."""
        return [_finding(source, code, bad, values) for code, bad in self.broken.items() if bad.number]


def look_at_lines(source: Source, values: int) -> Lines:
    """Looks for lines of an unquoted text that are not lines of ``values`` values.

    Lines end in LF or CRLF, also both in one file; the last one may lack its end; empty lines are no lines. A carriage
    return elsewhere is refused, because readers differ in what they make of it.
    """
    delimiter = source.delimiter.encode()
    assert len(delimiter) == 1, "an unquoted text has a delimiter of one byte"
    seen = Lines()
    with source.path.open("rb") as file:
        for piece in _pieces(file):
            if len(piece) > LONGEST_LINE + _CHUNK:
                seen.broken[ENDLESS].add(np.array([seen.number + 1]))
                break
            _look(piece, delimiter[0], values, seen)
    return seen


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The bytes in runs of whole lines; a last line without an end gets that of the line before."""
    rest, end = b"", b"\n"
    while chunk := file.read(_CHUNK):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            piece = rest + chunk[:cut]
            end = b"\r\n" if piece.endswith(b"\r\n") else b"\n"
            yield piece
            rest = chunk[cut:]
        else:
            rest += chunk
            if len(rest) > LONGEST_LINE + _CHUNK:
                break
    if rest:
        yield rest + (b"\n" if rest.endswith(b"\r") else end)


def _look(piece: bytes, delimiter: int, values: int, seen: Lines) -> None:
    """Looks at a run of whole lines, and adds to what was seen before."""
    line, broken = seen.number + 1, seen.broken
    text = np.frombuffer(piece, np.uint8)
    separators = np.flatnonzero((text == delimiter) | (text == _FEED))
    which = np.flatnonzero(text[separators] == _FEED)
    counts = np.diff(which, prepend=-1)
    wrong = np.flatnonzero(counts != values)
    if len(wrong):
        ends = separators[which]
        starts = np.concatenate([[0], ends[:-1] + 1])[wrong]
        length = ends[wrong] - starts
        wrong = wrong[~((length == 0) | ((length == 1) & (text[starts] == _RETURN)))]
        broken[SHORT].add(wrong[counts[wrong] < values] + line)
        broken[LONG].add(wrong[counts[wrong] > values] + line)
    returns = np.flatnonzero(text == _RETURN)
    if len(returns):
        alone = returns[text[returns + 1] != _FEED]
        seen.crlf += len(returns) - len(alone)
        broken[RETURN].add(np.unique(np.searchsorted(separators[which], alone)) + line)
    if text.max() >= _NOT_ASCII:
        broken[ENCODING].add(np.array(list(_undecodable(piece)), np.int64) + line)
    seen.number += len(which)


def _undecodable(piece: bytes) -> Iterator[int]:
    """The numbers, from zero, of the lines that are not UTF-8."""
    try:
        piece.decode()
    except UnicodeDecodeError:
        for number, line in enumerate(piece.split(b"\n")):
            try:
                line.decode()
            except UnicodeDecodeError:
                yield number


def _finding(source: Source, code: str, bad: BadLines, values: int) -> Finding:
    what, expected, remedy = _MESSAGES[code]
    shown = ", ".join(f"{number:,}" for number in bad.first)
    return Finding(
        code=code,
        what=f"{what} (the first such lines: {shown})",
        where=Place(file=source.file, line=bad.first[0]),
        found="1 such line" if bad.number == 1 else f"{bad.number:,} such lines",
        expected=expected.format(values=values),
        remedy=remedy.format(delimiter=source.delimiter),
    )
