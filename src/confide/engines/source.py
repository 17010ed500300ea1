"""Sources: files of rows with a declared layout. Nothing about a file is guessed from its content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

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
