"""Small official files for tests: geographic reference files and person records, as text and as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Source
from confide.mechanisms.safetab.settings import SafeTabSettings
from confide.privacy import Definition

GRFC = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "PLACEFP", "AIANNHCE")

BLOCKS = (
    "01|001|000100|1000|22800|0010",
    "01|001|000100|1001|22800|9999",
    "01|001|000200|1000|99999|9999",
    "01|003|000100|1000|99999|0020",
    "02|001|000100|1000|22800|0020",
    "72|031|050901|2040|99999|0030",
    "72|031|050902|2041|10001|9999",
)
"""Two states and Puerto Rico. AIANNH 0020 lies in both states, the code of place 22800 in two of them."""


def text(path: Path, header: Sequence[str], rows: Iterable[str], end: str = "\n") -> Source:
    """A text file in the official layout."""
    path.write_bytes(end.join(["|".join(header), *rows, ""]).encode())
    return Source(path, "csv", delimiter="|", quoted=False)


def parquet(path: Path, header: Sequence[str], rows: Iterable[str]) -> Source:
    """The same content as Parquet, every column text."""
    columns = list(zip(*(row.split("|") for row in rows), strict=True))
    pq.write_table(pa.table({name: pa.array(column) for name, column in zip(header, columns, strict=True)}), path)
    return Source(path, "parquet")


def settings_for(states: Sequence[str], *, puerto_rico: bool) -> SafeTabSettings:
    """Settings of which only the state filter matters."""
    return SafeTabSettings(
        definition=Definition.ZCDP,
        levels=(),
        stage_1_fraction=Fraction(1, 10),
        max_race_codes=8,
        zero_suppression=Fraction(0),
        negative_counts=True,
        states=tuple(states),
        puerto_rico=puerto_rico,
    )
