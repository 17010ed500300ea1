"""Values that break a rule: counted and placed for everybody, shown to the curator alone, who asks at a terminal.

A finding says how many records break a rule and where the first of them stand, by the lines of a text. The values
themselves are gathered only inside :func:`gathered_values`, as confidential; no finding, log or JSON holds one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from confide.confidential import Confidential
from confide.engines import Engine, Source
from confide.engines.protocol import identifier, literal

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
