"""Truth plus noise, a part of a level at a time: every cell of the table that a group gets, whether anybody is in it or
not.

The noise of group i of those with the same table (:attr:`GroupTables.rank`) has the coordinates ``i * cells + cell`` in
the stream of this table and level. What comes out has a row for every measured count: ``group`` (its place among the
groups of the level with a published total), ``table``, ``cell`` and ``count``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.mechanisms.safetab_h.problem import HouseholdGroups, query_key
from confide.mechanisms.safetab_h.settings import FINEST, TABLES, HouseholdTable
from confide.noise import NoiseStream, perturb
from confide.releases import NoiseSource, Workspace

ROWS = pa.schema([("group", pa.int64()), ("table", pa.int8()), ("cell", pa.int8()), ("count", pa.int64())])
GROUPS_AT_ONCE = 1 << 17
"""How many groups are measured at a time: each has up to five counts of household type and three of tenure."""


def measured_folder(workspace: Workspace, level: HouseholdGroups) -> Path:
    """Where the measurements of a level are, one file for each part."""
    return workspace.measured / level.name


@dataclass(frozen=True, eq=False)
class HouseholdCounts:
    """The true counts of groups by household type and tenure, for those that have anybody. Confidential."""

    group: Integers = field(repr=False)
    cell: Integers = field(repr=False)
    n: Integers = field(repr=False)

    @classmethod
    def read(cls, rows: pa.Table, level: HouseholdGroups) -> HouseholdCounts:
        """Rows of :mod:`confide.mechanisms.safetab.tabulate`, of the groups that have a published total, each by its
        place among these."""
        of_row, cell, n = (np.asarray(rows.column(name).to_numpy(), np.int64) for name in ("group", "cell", "n"))
        place = np.minimum(np.searchsorted(level.group, of_row), max(len(level.group) - 1, 0))
        known = level.group[place] == of_row
        return cls(place[known], cell[known], n[known])

    def cells_of(self, first: int, last: int, table: HouseholdTable) -> Integers:
        """The measured cells of a table for the groups of these places, a row for each."""
        begin, end = np.searchsorted(self.group, (first, last))
        counts = np.zeros((last - first, FINEST), np.int64)
        np.add.at(counts, (self.group[begin:end] - first, self.cell[begin:end]), self.n[begin:end])
        return np.asarray(counts @ np.eye(table.cells, dtype=np.int64)[table.of_finest])


@dataclass(frozen=True, eq=False)
class MeasureHouseholds:
    """Measures the parts of one level."""

    level: HouseholdGroups
    streams: Mapping[str, NoiseStream]

    def __call__(self, part: int, rows: pa.Table) -> pa.Table:
        """The measured counts of the groups of a part, from their true counts."""
        true, here = HouseholdCounts.read(rows, self.level), self.level.within(part)
        pieces = [ROWS.empty_table()]
        for begin in range(here.start, here.stop, GROUPS_AT_ONCE):
            end = min(begin + GROUPS_AT_ONCE, here.stop)
            pieces += self._measured(true, begin, end)
        return pa.concat_tables(pieces)

    def _measured(self, true: HouseholdCounts, begin: int, end: int) -> Iterator[pa.Table]:
        for table, tables in self.level.measured():
            at = np.flatnonzero(tables.level[begin:end] == table.level) + begin
            if not len(at):
                continue
            counts = true.cells_of(begin, end, table)[at - begin]
            # Groups with one table follow each other in rank, so that their coordinates are a stretch of the stream.
            start = int(tables.rank[at[0]]) * table.cells
            yield _rows(at, table, perturb(counts.reshape(-1), tables.law, self.streams[table.name], start))


def measure_households(level: HouseholdGroups, noise: NoiseSource) -> MeasureHouseholds:
    """The function that measures the parts of a level, with the noise streams it needs."""
    streams = {
        table.name: noise.stream(level.region_type, query_key(level.settings, table)) for table, _ in level.measured()
    }
    return MeasureHouseholds(level, streams)


def _rows(groups: Integers, table: HouseholdTable, counts: Integers) -> pa.Table:
    cells = np.tile(np.arange(table.cells, dtype=np.int8), len(groups))
    tables = np.full(len(counts), TABLES.index(table), np.int8)
    return pa.table([np.repeat(groups, table.cells), tables, cells, counts], schema=ROWS)
