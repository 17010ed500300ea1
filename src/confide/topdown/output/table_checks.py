"""Released tables against the records: made again, and added up from children to parents, from the written rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.geography import Geolevel
from confide.runs.mechanism import Check
from confide.topdown.output.reading import Copies
from confide.topdown.output.tabulating import Tabulator, table_schema
from confide.topdown.output.tabulation import Table

Integers = NDArray[np.int64]


@dataclass
class _Seen:
    """What one pass over the rows of a table has found so far."""

    rows: int = 0
    equal: bool = True
    negative: int = 0
    sums: int = 0
    unequal_sums: int = 0


def verify_tables(
    folder: Path, manifest: dict[str, Any], tables: Sequence[Table], tabulator: Tabulator, spine: Sequence[str]
) -> Iterator[Check]:
    """Every table: there, the same in every format, what the records come to, non-negative, and adding up.

    ``spine`` names the tabulated levels that nest, root first; areas need not add up to anything.
    """
    for table in tables:
        copies = Copies.open(folder, manifest, table.name, table_schema(table))
        if not copies.there:
            detail = f"files: {copies.formats or 'none'}; not with the lines of the plan"
            yield Check(f"{table.name}: there", False, detail)
            continue
        seen = _pass(table, tabulator, spine, copies)
        complete = copies.at_end()
        yield Check(f"{table.name}: the same in every format", copies.same, copies.formats)
        yield Check(f"{table.name}: what the records come to", seen.equal and complete, f"{seen.rows:,} rows")
        yield Check(f"{table.name}: no negative count", not seen.negative, f"{seen.negative:,} negative counts")
        detail = f"{seen.unequal_sums:,} of {seen.sums:,} sums over children differ from their parent"
        yield Check(f"{table.name}: children add up to parents", not seen.unequal_sums, detail)


def _pass(table: Table, tabulator: Tabulator, spine: Sequence[str], copies: Copies) -> _Seen:
    seen = _Seen()
    above: tuple[Geolevel, Integers] | None = None
    for level in tabulator.levels:
        nests = level.name in spine
        sums = _SumsOfChildren(level, *above) if nests and above is not None else None
        kept = []
        for expected in tabulator.level_batches(table, level):
            found = copies.take(expected.num_rows)
            seen.rows += found.num_rows
            seen.equal &= found.equals(pa.Table.from_batches([expected]).cast(found.schema))
            if found.num_rows < expected.num_rows:
                return seen
            lines = np.stack([found.column(column).to_numpy() for column in table.columns], axis=1)
            seen.negative += int((lines < 0).sum())
            if sums is not None:
                sums.add(lines)
            if nests and level.name != spine[-1]:  # the blocks are nobody's parents, and too many to keep
                kept.append(lines)
        if sums is not None:
            seen.sums += sums.wanted.size
            seen.unequal_sums += sums.different
        if kept:
            above = level, np.concatenate(kept)
    return seen


class _SumsOfChildren:
    """The lines of a level's units, added up over the units of a level above, as they come."""

    def __init__(self, level: Geolevel, above: Geolevel, wanted: Integers):
        self.wanted = wanted
        self._parent = np.zeros(level.units, np.int64)
        self._parent[level.unit_of_block] = above.unit_of_block
        self._sums = np.zeros_like(wanted)
        self._done = 0

    def add(self, lines: Integers) -> None:
        """The next units of the level."""
        parents = self._parent[self._done : self._done + len(lines)]
        np.add.at(self._sums, parents, lines)
        self._done += len(lines)

    @property
    def different(self) -> int:
        """How many sums are not what the level above has."""
        return int((self._sums != self.wanted).sum())
