"""What a mechanism asks of an engine: a handful of verbs over SQL text and Arrow.

An engine on one machine and one on a cluster answer the same verbs with the same rows; ``tests/engines`` holds the
conformance tests that every engine passes. A mechanism never names an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from confide.confidential import Confidential

# Sources: files of rows with a declared layout. Nothing about a file is guessed from its content.


Format = Literal["parquet", "csv"]


@dataclass(frozen=True)
class Source:
    """A Parquet or CSV file, and our names for its columns (``columns`` maps ours to theirs).

    A CSV is read as text, every column: a code keeps its leading zeros, and what is a number is said by the schema.
    Where it is not ``quoted`` there is no way to quote: a quotation mark is a character like any other, and a value
    holds neither delimiter nor line end.
    """

    path: Path
    format: Format
    columns: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ","
    quoted: bool = True

    @property
    def file(self) -> str:
        """The file's name for messages."""
        return self.path.name

    def theirs(self, name: str) -> str:
        """What the file calls our column ``name``."""
        return self.columns.get(name, name)


def format_of(path: Path) -> Format | None:
    """The format that a file's name announces, or None."""
    suffix = path.suffix.lower()
    if suffix in {".parquet", ".pq"}:
        return "parquet"
    return "csv" if suffix in {".csv", ".txt"} else None


GroupFunction = Callable[[int, pa.Table], pa.Table]
"""A pure function from the number of a group and its rows to the rows that come of it. It must be picklable and must
not depend on anything but its arguments, so that a retry on another machine gives the same bytes."""

Advance = Callable[[int], None]
"""Called with the number of groups just finished."""


class Engine(Protocol):
    """Scans, counts and maps, out of core and in parallel."""

    name: str

    def kinds(self, source: Source) -> dict[str, str]:
        """The file's own column names, each with its kind: ``integer``, ``text`` or ``other``."""

    def sql(self, text: str, **sources: Source | Path) -> Confidential[pa.Table]:
        """The rows of a query whose ``FROM`` names the given sources. A path is a Parquet file or folder of ours."""

    def count_by(self, source: Source | Path, keys: Mapping[str, str], into: Path, *, where: str | None = None) -> None:
        """How many rows share each combination of ``keys`` (name to SQL expression), written to a Parquet file with
        the keys and ``n``."""

    def explode_count(self, source: Source | Path, listed: str, keys: Mapping[str, str], into: Path) -> None:
        """As :meth:`count_by`, after taking the list column ``listed`` apart: a row counts once for every element."""

    def write(self, text: str, into: Path, *, rows_per_group: int | None = None, **sources: Source | Path) -> None:
        """The rows of a query, written to one Parquet file in the order the query gives. ``rows_per_group`` is for rows
        with long lists: a reader holds a group of rows."""

    def map_groups(
        self,
        function: GroupFunction,
        rows: Path,
        key: str,
        groups: Sequence[int],
        into: Path,
        *,
        advance: Advance | None = None,
    ) -> list[Path]:
        """``function`` on every group, one Parquet file each in ``into``, in the order of ``groups``.

        The groups are given, not found in the rows: a group without rows is mapped like any other. A file that is
        there already is left as it is, so that an interrupted map goes on where it stopped.
        """

    def first_rows(self, source: Source, where: str, limit: int, **others: Source | Path) -> list[int]:
        """The numbers, from one, of the first rows of which ``where`` is true, for messages about records. The
        condition may look up ``others``."""

    def integer_text(self, column: str) -> str:
        """SQL for the whole number that a text column spells, NULL where it spells none."""
