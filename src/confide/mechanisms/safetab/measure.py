"""Truth plus noise: the two stages of SafeTab-P (paper, Algorithms 1 to 3), a part of a level at a time.

For a group that is not total-only, with true count n and cells c:

* stage 1: ``n + X``, X ~ first law; the statistics level is the number of thresholds that this reaches;
* stage 2: at level 0 ``n + Y``; at levels 1 to 3 ``c + Y`` in every cell of the grid; Y ~ second law, independent.

A total-only group has one total, with noise of the third law. What comes out has a row for every measured count of
stage 2 that may be published: ``group``, ``level``, ``cell`` and ``count``. A total at or below the suppression number
is left out; that is post-processing, done here so that it need not be stored.

Noise by coordinate: group g has coordinate g in the streams of totals, and ``g * cells + cell`` in that of a grid.
Where suppression makes it rare that an empty group is published, empty groups are not drawn one by one: see
:mod:`confide.noise.sparse`. The law is the same; which way is taken follows from public settings alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.arrays import Integers
from confide.mechanisms.safetab.problem import GroupLevel, empty_rule, is_sparse, query_key
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL, CHOICE, GRIDS, TABLE, TOTAL_ONLY, TOTAL_TABLE, Grid
from confide.noise import NoiseDistribution, NoiseStream, draw, draw_at, draw_survivors, fits_table, rank_to_place
from confide.releases.mechanism import NoiseSource

# The groups of a part that have anybody in them, with their true counts. Confidential.


@dataclass(frozen=True, eq=False)
class OccupiedGroups:
    """Groups in ascending order; those of group i have the counts ``n[starts[i] : starts[i + 1]]`` in the cells of sex
    by 23 ages that ``cell`` gives. A table of cells is made only for groups that get one: most have a few persons."""

    groups: Integers = field(repr=False)
    starts: Integers = field(repr=False)
    cell: Integers = field(repr=False)
    n: Integers = field(repr=False)

    @classmethod
    def read(cls, rows: pa.Table) -> Self:
        """Rows of :mod:`confide.mechanisms.safetab.tabulate`, sorted by group and cell."""
        of_row, cell, n = (np.asarray(rows.column(name).to_numpy(), np.int64) for name in ("group", "cell", "n"))
        first = np.flatnonzero(np.diff(of_row, prepend=-1))
        return cls(of_row[first], np.append(first, len(of_row)), cell, n)

    @cached_property
    def totals(self) -> Integers:
        """The true total of each group."""
        until = np.concatenate([[0], np.cumsum(self.n)])
        totals: Integers = np.diff(until[self.starts])
        return totals

    def take(self, chosen: npt.NDArray[np.bool_]) -> OccupiedGroups:
        """Some of the groups."""
        if chosen.all():
            return self
        lengths = np.diff(self.starts)
        rows = np.repeat(chosen, lengths)
        starts = np.concatenate([[0], np.cumsum(lengths[chosen])])
        return OccupiedGroups(self.groups[chosen], starts, self.cell[rows], self.n[rows])

    def cells_of(self, groups: Integers, grid: Grid) -> Integers:
        """The true counts in the cells of a grid, a row for each of ``groups``, whether anybody is in it or not."""
        counts = np.zeros((len(groups), grid.cells), np.int64)
        place = np.searchsorted(self.groups, groups)
        there = np.flatnonzero(place < len(self.groups))
        there = there[self.groups[place[there]] == groups[there]]
        begin, lengths = self.starts[place[there]], np.diff(self.starts)[place[there]]
        ends = np.cumsum(lengths)
        rows = np.repeat(begin - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
        np.add.at(counts, (np.repeat(there, lengths), grid.of_finest[self.cell[rows]]), self.n[rows])
        return counts


GROUPS_AT_ONCE = 1 << 16
"""How many groups get the cells of a grid at a time."""

DENSE = 4
"""Coordinates are dense if their span is at most so many times their number."""

ROWS = pa.schema([("group", pa.int64()), ("level", pa.int8()), ("cell", pa.int16()), ("count", pa.int64())])


@dataclass(frozen=True, eq=False)
class MeasureGroups:
    """Measures one part of a level: a pure function of its arguments, sent to whatever process does the part."""

    level: GroupLevel
    streams: Mapping[str, NoiseStream]
    empty: Mapping[int, NoiseStream]
    """For each part the stream of its empty groups; none where all groups are drawn one by one."""

    def __call__(self, part: int, rows: pa.Table) -> pa.Table:
        level = self.level
        # The groups of the part are numbered area by area; only those with anybody in them have rows.
        occupied = OccupiedGroups.read(rows)
        first = part * len(level.iterations)
        last = min(part + level.areas_per_part, level.areas) * len(level.iterations)
        # Total-only groups are measured once, with the whole budget of their level.
        total_only = level.total_only[occupied.groups % len(level.iterations)]
        pieces = [self._total_only(first, last, occupied.groups[total_only], occupied.totals[total_only])]
        # The others are measured twice. Empty ones too: drawn as survivors of suppression, or one by one.
        adaptive = occupied.take(~total_only)
        if self.empty:
            pieces += self._sparse(part, first, last, adaptive)
        else:
            universe = np.arange(first, last)
            universe = universe[~level.total_only[universe % len(level.iterations)]]
            totals = np.zeros(len(universe), np.int64)
            totals[np.searchsorted(universe, adaptive.groups)] = adaptive.totals
            pieces += self._stages(universe, totals, adaptive)
        merged = pa.concat_tables([piece for piece in pieces if piece.num_rows] or [ROWS.empty_table()])
        return merged.sort_by([("group", "ascending"), ("cell", "ascending")])

    def _total_only(self, first: int, last: int, groups: Integers, counts: Integers) -> pa.Table:
        """One total with the whole budget for each total-only group; those in ``groups`` have true ``counts``."""
        universe = np.arange(first, last)
        universe = universe[self.level.total_only[universe % len(self.level.iterations)]]
        totals = np.zeros(len(universe), np.int64)
        totals[np.searchsorted(universe, groups)] = counts
        if len(universe):
            totals += noise_at(self.level.total, self.streams[TOTAL_ONLY], universe)
        return _rows(universe, 0, np.zeros_like(universe), totals)

    def _stages(self, groups: Integers, totals: Integers, occupied: OccupiedGroups) -> list[pa.Table]:
        """Both stages for ``groups`` with true ``totals``; ``occupied`` are those with anybody."""
        # Stage 1: a noisy total, which is not published, chooses the table of the group by the thresholds.
        noisy = totals + noise_at(self.level.first, self.streams[CHOICE], groups)
        chosen = np.searchsorted(np.array(self.level.settings.thresholds), noisy, side="right")
        # Stage 2: fresh noise for the total, or for every cell of the table that was chosen.
        pieces = [self._totals(groups[chosen == 0], totals[chosen == 0])]
        for number in range(1, len(CELLS_OF_LEVEL)):
            pieces += self._grid(number, groups[chosen == number], occupied)
        return pieces

    def _totals(self, groups: Integers, totals: Integers) -> pa.Table:
        """Statistics level 0: a total, published if it is above the suppression number."""
        counts = totals + noise_at(self.level.second, self.streams[TOTAL_TABLE], groups)
        if self.level.suppressed_up_to is not None:
            published = counts > self.level.suppressed_up_to
            groups, counts = groups[published], counts[published]
        return _rows(groups, 0, np.zeros_like(groups), counts)

    def _grid(self, number: int, groups: Integers, occupied: OccupiedGroups) -> list[pa.Table]:
        """Statistics levels 1 to 3: every cell of the grid, zeros included."""
        grid = GRIDS[number - 1]
        pieces = []
        for begin in range(0, len(groups), GROUPS_AT_ONCE):
            some = groups[begin : begin + GROUPS_AT_ONCE]
            coordinates = (some[:, None] * grid.cells + np.arange(grid.cells)).reshape(-1)
            noise = noise_at(self.level.second, self.streams[grid.table], coordinates)
            noisy = occupied.cells_of(some, grid).reshape(-1) + noise
            pieces.append(_rows(np.repeat(some, grid.cells), number, np.tile(np.arange(grid.cells), len(some)), noisy))
        return pieces

    def _sparse(self, part: int, first: int, last: int, occupied: OccupiedGroups) -> list[pa.Table]:
        """Groups with anybody in them one by one; of the empty ones only those that are published."""
        pieces = self._stages(occupied.groups, occupied.totals, occupied)
        survivors = draw_survivors(empty_rule(self.level), self.empty[part], last - first - len(occupied.groups))
        places = first + rank_to_place(survivors.places, occupied.groups - first, last - first)
        at_zero = survivors.levels == 0
        pieces.append(_rows(places[at_zero], 0, np.zeros(int(at_zero.sum()), np.int64), survivors.values[at_zero]))
        for number in range(1, len(CELLS_OF_LEVEL)):
            pieces += self._grid(number, places[survivors.levels == number], occupied)
        return pieces


def noise_at(law: NoiseDistribution, stream: NoiseStream, places: Integers) -> Integers:
    """The noise of ascending coordinates, which must differ. Where they are dense, the whole span is drawn: from a
    table, that costs far less for each coordinate. The noise of a coordinate is the same either way."""
    if not len(places):
        return np.zeros(0, np.int64)
    first, span = int(places[0]), int(places[-1] - places[0]) + 1
    if span > (DENSE if fits_table(law) else 1) * len(places):
        return draw_at(law, stream, places)
    noise = draw(law, stream, first, span)
    return noise if span == len(places) else noise[places - first]


def measure_groups(level: GroupLevel, noise: NoiseSource) -> MeasureGroups:
    """The function that measures the parts of a level, with the noise streams it needs."""
    region, table = level.settings.region_type, query_key(level, TABLE)
    streams = {query: noise.stream(region, query_key(level, query)) for query in (CHOICE, TOTAL_ONLY)}
    for name in (TOTAL_TABLE, *(grid.table for grid in GRIDS)):
        streams[name] = noise.stream(region, f"{table} {name}")
    parts = level.parts if is_sparse(level) else ()
    return MeasureGroups(
        level, streams, {part: noise.stream(region, f"{table}, empty groups from area {part}") for part in parts}
    )


def _rows(groups: Integers, level: int, cells: Any, counts: Integers) -> pa.Table:
    return pa.table([groups, np.full(len(groups), level, np.int8), cells.astype(np.int16), counts], schema=ROWS)
