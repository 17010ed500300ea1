"""What a question gets back: a typed answer, the same for a program, a page and a terminal.

Every question that a command asks is a function of the library, and what the function returns is a
:class:`TypedAnswer`: a frozen dataclass whose fields are exact where the numbers are. :meth:`TypedAnswer.as_dict` has
plain values, the JSON that the command prints; a notebook shows the same values as tables.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

MOST_ROWS = 200
"""A table in a notebook has at most so many rows; how many are left out is said."""


class TypedAnswer(ABC):
    """The answer to a question: typed fields, plain values, and tables for a notebook.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum(TypedAnswer):
    ...     a: int
    ...     b: int
    ...     def as_dict(self):
    ...         return {"a": self.a, "b": self.b, "sum": self.a + self.b}
    >>> Sum(1, 2).as_dict()
    {'a': 1, 'b': 2, 'sum': 3}
    >>> Sum(1, 2)._repr_html_()[:35]
    '<table><caption>Sum</caption><tbody'
    """

    __slots__ = ()

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Plain values: numbers, texts, lists and dictionaries, as ``--json`` prints them."""

    def _repr_html_(self) -> str:
        return html_tables(type(self).__name__, self.as_dict())


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


def html_tables(title: str, values: Mapping[str, Any]) -> str:
    """Plain values as accessible HTML tables, every text escaped.

    Values that are single stand in one table, a row each. A list of dictionaries is a table with a column for each
    key; a dictionary is a table of its own. What is nested deeper stands in its cell as JSON.

    Args:
        title: The caption of the first table; captions of the others are names of keys.
        values: Plain values, as :meth:`TypedAnswer.as_dict` gives them.

    Returns:
        HTML with a caption for each table and headers that say what they are headers of.

    >>> html_tables("A & B", {"x": 1})
    '<table><caption>A &amp; B</caption><tbody><tr><th scope="row">x</th><td>1</td></tr></tbody></table>'
    """
    single = {key: value for key, value in values.items() if not _is_table(value)}
    tables = [_by_row(title, single)] if single or not values else []
    for key, value in values.items():
        if _is_table(value):
            rows = value if isinstance(value, Sequence) else [{"": name} | row for name, row in value.items()]
            tables.append(_by_column(key, rows))
    return "".join(tables)


def _is_table(value: Any) -> bool:
    """Whether a value is a list of dictionaries, or a dictionary of them."""
    rows: Iterable[Any] = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    listed = list(rows)
    return bool(listed) and all(isinstance(row, Mapping) for row in listed)


def _by_row(caption: str, values: Mapping[str, Any]) -> str:
    rows = (f'<tr><th scope="row">{escape(str(key))}</th>{_cell(value)}</tr>' for key, value in values.items())
    return f"<table><caption>{escape(caption)}</caption><tbody>{''.join(rows)}</tbody></table>"


def _by_column(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f'<th scope="col">{escape(str(column))}</th>' for column in columns)
    body = "".join(
        f"<tr>{''.join(_cell(row.get(column)) for column in columns)}</tr>" for row in islice(rows, MOST_ROWS)
    )
    more = len(rows) - MOST_ROWS
    foot = f'<tfoot><tr><td colspan="{len(columns)}">and {more:,} more</td></tr></tfoot>' if more > 0 else ""
    head = f"<thead><tr>{head}</tr></thead>"
    return f"<table><caption>{escape(caption)}</caption>{head}<tbody>{body}</tbody>{foot}</table>"


def _cell(value: Any) -> str:
    if value is None:
        text = ""
    elif isinstance(value, str):
        text = value
    elif isinstance(value, list) and not any(isinstance(item, list | Mapping) for item in value):
        text = ", ".join(str(item) for item in value)
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return f"<td>{escape(text)}</td>"
