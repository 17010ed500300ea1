"""What a question gets back: a typed answer, the same for a program, a page and a terminal.

Every question that a command asks is a function of the library, and what the function returns is a
:class:`TypedAnswer`: a frozen dataclass whose fields are exact where the numbers are. :meth:`TypedAnswer.as_dict` has
plain values, the JSON that the command prints. :meth:`TypedAnswer.described` says the same to people, in sentences and
tables of text: a terminal, a notebook and ``print`` show these, and put nothing together themselves.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from itertools import islice
from typing import Any, ClassVar

from confide.errors import Finding

MOST_ROWS = 200
"""A table in a notebook, or printed from Python, has at most so many rows; how many are left out is said."""


class Tone(StrEnum):
    """How the beginning of a sentence is set off."""

    STRONG = "bold"
    GOOD = "bold green"
    BAD = "bold red"
    CAREFUL = "bold yellow"
    NOTE = "yellow"
    QUIET = "dim"


@dataclass(frozen=True)
class Said:
    """A sentence whose beginning is set off: a verdict, a note, a stamp.

    Args:
        lead: What is set off.
        rest: What follows.
        tone: How it is set off.
        aside: Whether it is said beside the answer, as a stamp is: a terminal prints it to the error stream.
    """

    lead: str
    rest: str = ""
    tone: Tone = Tone.STRONG
    aside: bool = False


def note(text: str, *, aside: bool = False) -> Said:
    """A reservation about an answer.

    Args:
        text: What to keep in mind.
        aside: Whether it is said beside the answer.

    >>> note("few records").rest
    ' few records'
    """
    return Said("note", f" {text}", Tone.NOTE, aside)


@dataclass(frozen=True)
class ShownTable:
    """A table of an answer.

    Args:
        columns: The heads; a head that ends in a space is of numbers. Without heads, a row begins with its own.
        rows: A text, or what has one, for each column.
        title: What the table shows.
        folded: The only column whose texts are broken into lines where there is no room for all of them.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    folded: str | None = None


AnswerPart = str | Said | ShownTable | Finding
"""What an answer is described by; an empty text keeps what follows apart."""


class TypedAnswer(ABC):
    """The answer to a question: typed fields, plain values, and what they come to in sentences and tables.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum(TypedAnswer):
    ...     a: int
    ...     b: int
    ...     def as_dict(self):
    ...         return {"a": self.a, "b": self.b, "sum": self.a + self.b}
    >>> Sum(1, 2).as_dict()
    {'a': 1, 'b': 2, 'sum': 3}
    >>> next(Sum(1, 2).described()).rows
    [('a', '1'), ('b', '2'), ('sum', '3')]
    >>> Sum(1, 2)._repr_html_()[:35]
    '<table><caption>Sum</caption><tbody'
    """

    __slots__ = ()
    only: ClassVar[str | None] = None
    """The one name of an answer that is nothing but a list: ``--json`` prints the list alone."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Plain values: numbers, texts, lists and dictionaries, as ``--json`` prints them."""

    def described(self) -> Iterator[AnswerPart]:
        """The answer for people; unless it says more, its plain values as tables."""
        return plain_tables(type(self).__name__, self.as_dict())

    def __str__(self) -> str:
        return text_of(self.described())

    def _repr_html_(self) -> str:
        return html_of(self.described(), type(self).__name__)


class Values(dict[str, Any], TypedAnswer):
    """An answer that is plain values and nothing else, such as a JSON Schema.

    >>> print(Values(a=1))
    {
      "a": 1
    }
    """

    def as_dict(self) -> dict[str, Any]:
        """The values."""
        return dict(self)

    def described(self) -> Iterator[AnswerPart]:
        """The values as JSON."""
        yield json.dumps(self, indent=2, ensure_ascii=False)


@dataclass(frozen=True)
class AuditPower:
    """What an audit would have found here. One that would not notice missing protection must not say that all is well.

    Every audit has it as its field ``power``, puts it into its plain values by :meth:`as_dict`, and takes its verdict
    from :meth:`verdict`: ``ok`` needs both, nothing wrong and power against protection that is missing altogether.
    """

    missing: bool
    """Whether protection that is missing altogether, such as noise that is zero, would have been found."""
    least: float | None
    """The least fault that would have been found with the probability ``chance``, as a part of what is stated: 0.3 is a
    scale that is 30 % too small. 1 is missing noise; None is nothing."""
    chance: float
    words: str
    """The same in a sentence."""

    def verdict(self, *, wrong: bool) -> str:
        """``wrong``, ``no power`` or ``ok``."""
        return WRONG if wrong else OK if self.missing else NO_POWER

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for ``--json``."""
        return {
            "finds_missing": self.missing,
            "least_fault": self.least,
            "with_probability": self.chance,
            "in_words": self.words,
        }


OK, WRONG, NO_POWER = "ok", "wrong", "no power"
"""The verdicts of audits."""


def plain_tables(title: str, values: Mapping[str, Any]) -> Iterator[ShownTable]:
    """Plain values as tables.

    Values that are single are in one table, a row each. A list of dictionaries is a table with a column for each key; a
    dictionary of them is a table of its own. What is nested deeper is in its cell as JSON.

    Args:
        title: What the first table shows; the others have the names of their keys.
        values: Plain values, as :meth:`TypedAnswer.as_dict` gives them.

    >>> [table.title for table in plain_tables("A", {"x": 1, "y": [{"z": 2}]})]
    ['A', 'y']
    """
    single = [(str(key), _text(value)) for key, value in values.items() if not _is_table(value)]
    if single or not values:
        yield ShownTable((), single, title)
    for key, value in values.items():
        if _is_table(value):
            rows = value if isinstance(value, Sequence) else [{"": name} | row for name, row in value.items()]
            columns = list(dict.fromkeys(str(column) for row in rows for column in row))
            yield ShownTable(columns, [[_text(row.get(column)) for column in columns] for row in rows], str(key))


def text_of(parts: Iterable[AnswerPart]) -> str:
    """What an answer is described by as plain text.

    Args:
        parts: The parts.

    Returns:
        A line for each sentence, and for each table its title, its heads and its rows in columns.

    >>> print(text_of([Said("Sealed", " now"), ShownTable(["area", "count "], [("A", 5), ("B", 12)])]))
    Sealed now
    area  count
    A         5
    B        12
    """
    return "\n".join(line for part in parts for line in _text_lines(part))


def _text_lines(part: AnswerPart) -> Iterator[str]:
    if isinstance(part, Said):
        yield part.lead + part.rest
    elif not isinstance(part, ShownTable):
        yield str(part)
    else:
        if part.title:
            yield part.title.strip()
        rows = [[str(cell) for cell in row] for row in islice(part.rows, MOST_ROWS)]
        lines = [[column.strip() for column in part.columns], *rows] if part.columns else rows
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        ends = [column.endswith(" ") for column in part.columns] or [False] * len(widths)
        for line in lines:
            cells = zip(line, widths, ends, strict=True)
            yield "  ".join(text.rjust(width) if end else text.ljust(width) for text, width, end in cells).rstrip()
        if len(part.rows) > MOST_ROWS:
            yield f"and {len(part.rows) - MOST_ROWS:,} more"


def html_of(parts: Iterable[AnswerPart], title: str) -> str:
    """What an answer is described by as accessible HTML, every text escaped.

    Args:
        parts: The parts.
        title: The caption of tables that have no title.

    Returns:
        A paragraph for each sentence, and a caption for each table, with headers that say what they are headers of.

    >>> html_of(["1 < 2", Said("Sealed", " now"), ShownTable((), [("x", 1)])], "A")[:64]
    '<p>1 &lt; 2</p><p><strong>Sealed</strong> now</p><table><caption'
    """
    return "".join(_html(part, title) for part in parts if part)


def _html(part: AnswerPart, title: str) -> str:
    if isinstance(part, ShownTable):
        return _html_table(part, title)
    if isinstance(part, Said):
        return f"<p><strong>{escape(part.lead.strip())}</strong>{escape(part.rest)}</p>"
    return f"<p>{escape(str(part).strip())}</p>"


def _html_table(table: ShownTable, title: str) -> str:
    """Numbers of a column are aligned by whoever shows it; a table without heads has them in front of its rows."""
    heads = "".join(f'<th scope="col">{escape(column.strip())}</th>' for column in table.columns)
    body = "".join(f"<tr>{''.join(_cells(row, headed=not heads))}</tr>" for row in islice(table.rows, MOST_ROWS))
    more, caption = len(table.rows) - MOST_ROWS, escape((table.title or title).strip())
    width = len(table.columns or table.rows[0]) if more > 0 else 0
    foot = f'<tfoot><tr><td colspan="{width}">and {more:,} more</td></tr></tfoot>' if more > 0 else ""
    head = f"<thead><tr>{heads}</tr></thead>" if heads else ""
    return f"<table><caption>{caption}</caption>{head}<tbody>{body}</tbody>{foot}</table>"


def _cells(row: Sequence[Any], *, headed: bool) -> Iterator[str]:
    for place, value in enumerate(row):
        text = escape(str(value))
        yield f'<th scope="row">{text}</th>' if headed and not place else f"<td>{text}</td>"


def _is_table(value: Any) -> bool:
    """Whether a value is a list of dictionaries, or a dictionary of them."""
    rows: Iterable[Any] = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    listed = list(rows)
    return bool(listed) and all(isinstance(row, Mapping) for row in listed)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and not any(isinstance(item, list | Mapping) for item in value):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, ensure_ascii=False, default=str)
