"""``verify`` for SafeTab-H: what follows from the files of a release alone.

The tables in the Bureau's layout are whole, in order and as the plan allows: each group has all rows of its tables, one
of household type and one of tenure, and there are as many groups with each table as the plan has measured. Sums are
sums. The tables for people say the same, with the intervals that the plan's laws give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Booleans, Integers
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.output.verify import in_states
from confide.mechanisms.safetab.settings import REGION_TYPES
from confide.mechanisms.safetab_h import output
from confide.mechanisms.safetab_h.settings import FAMILIES, TABLES, TABLES_OF, HouseholdTable
from confide.releases import Check, SealedRelease
from confide.releases.certificate import CERTIFICATE
from confide.releases.tabular import cells_and_areas
from confide.releases.tabular.checks import TableCopies, no_other_files, released_names, remade

NAMES = [table.name for table in TABLES]


@dataclass(frozen=True, eq=False)
class OfficialTable:
    """A table as it was read: the number of each group (:mod:`confide.mechanisms.safetab.output.reading`), and a row of
    figures for each."""

    table: HouseholdTable
    key: Integers
    figures: Integers

    def in_region(self, number: int) -> OfficialTable:
        """Those of one region type."""
        return self._take(reading.region_of(self.key) == number)

    def of_groups(self, keys: Integers) -> OfficialTable:
        """Those of some groups."""
        return self._take(np.isin(self.key, keys))

    def _take(self, here: Booleans) -> OfficialTable:
        return OfficialTable(self.table, self.key[here], self.figures[here])


def open_official(release: SealedRelease) -> dict[str, TableCopies]:
    """The six tables in the Bureau's layout."""
    return {
        table.name: TableCopies.open(release, output.official_place(table), output.official_schema(table), "|")
        for table in TABLES
    }


def read_official(table: HouseholdTable, copies: TableCopies) -> OfficialTable | str:
    """The rows of a table, each group once and whole; or what is wrong with them."""
    cells = np.array([cell.code for cell in table.rows])
    parts: list[tuple[Integers, ...]] = [(np.zeros(0, np.int64),) * 3]
    for batch in copies.batches():
        columns = (batch.column(name).to_numpy() for name in (output.DATA_CELL[table.family], "COUNT"))
        parts.append((reading.group_keys(batch), *(np.asarray(column, np.int64) for column in columns)))
    key, cell, count = (np.concatenate(column) for column in zip(*parts, strict=True))
    if (key == reading.UNREADABLE).any():
        return "codes that are not of the layout"
    if len(key) % len(cells) or not (cell.reshape(-1, len(cells)) == cells).all():
        return "groups that have other rows than the table"
    by_group = key.reshape(-1, len(cells))
    if not (by_group == by_group[:, :1]).all() or not (np.diff(by_group[:, 0]) > 0).all():
        return "groups that are repeated or out of order"
    return OfficialTable(table, by_group[:, 0], count.reshape(-1, len(cells)))


def verify(release: SealedRelease) -> Iterator[Check]:
    """Every table: there, the same in every format, whole, in order, and as the others and the plan have it."""
    facts, layout = release.facts, output.HouseholdLayout.of(release.manifest["plan"])
    official = release.paths(*(f"{output.official_place(table)}." for table in TABLES))
    named = [path for path in official if path.endswith((".parquet", ".csv"))]
    yield no_other_files(NAMES, release.files, [CERTIFICATE, *named])
    tables: list[OfficialTable] = []
    for table, copies in zip(TABLES, open_official(release).values(), strict=True):
        name = f"{table.family}/{table.name}"
        yield Check(f"{name}: columns of the layout", copies.fits, copies.formats or "no file of this table is there")
        if not copies.fits:
            return
        read = read_official(table, copies)
        yield Check(
            f"{name}: each group whole, in order",
            not isinstance(read, str),
            read if isinstance(read, str) else _groups(read),
        )
        yield Check(f"{name}: the same in every format", copies.same, copies.formats)
        if isinstance(read, OfficialTable):
            tables.append(read)
    if len(tables) < len(TABLES):
        return
    yield from _as_planned(tables, layout, facts)
    yield from _sums(tables, facts)
    names = released_names(release) if layout.named else None
    for each in tables:
        groups = list(_coded(each, layout))
        rows = partial(layout.rows, each.table, groups)
        yield from remade(release, layout.described(each.table), rows, names, "t3, t4 and the plan")
    yield from cells_and_areas(release.folder, NAMES, release.files, layout.areas, facts["area_names"])


def _groups(table: OfficialTable) -> str:
    return f"{len(table.key):,} groups"


def _as_planned(
    tables: list[OfficialTable], layout: output.HouseholdLayout, facts: Mapping[str, Any]
) -> Iterator[Check]:
    """Groups are of the plan's levels, as many with each table as it has; each has one table of a kind, and both kinds
    have the same groups where both are made."""
    states = np.array(sorted(map(int, facts["states"])), np.int64)
    wrong = [_of_levels(table, layout) or _of_states(table, states) for table in tables]
    problem = next((each for each in wrong if each), "")
    total = sum(len(table.key) for table in tables)
    yield Check("groups of the plan", not problem, problem or f"{total:,} groups of six tables")
    kinds = [[table.key for table in tables if table.table.family == family] for family in FAMILIES]
    once = all(len(np.unique(np.concatenate(keys))) == sum(map(len, keys)) for keys in kinds)
    yield Check("one table of a kind for each group", once, "t3 and t4")
    both = {level.region_type for level in layout.levels if set(level.laws) < set(FAMILIES)}
    if once and not both:
        first, second = (np.sort(np.concatenate(keys)) for keys in kinds)
        same = np.array_equal(first, second)
        yield Check("household type and tenure of the same groups", same, "t3 and t4")


def _of_levels(table: OfficialTable, layout: output.HouseholdLayout) -> str:
    """How many groups each level has, by region type and iteration level."""
    code = reading.code_of(table.key)
    level_of, tabulated = np.full((2, reading.CODES), -1, np.int64)
    for each in layout.iterations:
        level_of[int(each.code)] = each.level
    expected = 0
    for level in layout.levels:
        tabulated[:] = 0
        for each in layout.iterations:
            tabulated[int(each.code)] = each.tabulated(level.region_type)
        here = reading.region_of(table.key) == REGION_TYPES.index(level.region_type)
        here &= (level_of[code] == level.iteration_level) & (tabulated[code] == 1)
        planned = level.groups.get(table.table.family, (0,) * len(TABLES_OF[table.table.family]))[table.table.level]
        if int(here.sum()) != planned:
            return (
                f"{table.table.name}: {int(here.sum()):,} groups of {level.region_type}, and the plan has {planned:,}"
            )
        expected += planned
    return "" if expected == len(table.key) else f"{table.table.name}: groups that fit none of the plan's levels"


def _of_states(table: OfficialTable, states: Integers) -> str:
    for number, kind in enumerate(REGION_TYPES):
        areas = reading.area_of(table.key[reading.region_of(table.key) == number])
        if len(areas) and not in_states(kind, areas, states):
            return f"{table.table.name}: an area of {kind} outside the states of the plan"
    return ""


def _sums(tables: list[OfficialTable], facts: Mapping[str, Any]) -> Iterator[Check]:
    """Sums are sums of the cells that are measured, and no count is below zero where that was asked for."""
    wrong = 0
    for each in tables:
        rows = [each.table.rows.index(cell) for cell in each.table.measured]
        wrong += int((each.figures[:, rows] @ each.table.parts.T != each.figures).any(axis=1).sum())
    yield Check("sums are those of their cells", not wrong, f"{wrong:,} groups with another sum")
    if not facts["negative_counts"]:
        below = sum(int((each.figures < 0).sum()) for each in tables)
        yield Check("no count below zero", not below, f"{below:,} below zero")


def _coded(table: OfficialTable, layout: output.HouseholdLayout) -> Iterator[output.TableFigures]:
    """The groups as they were published, region type by region type."""
    place = np.full(reading.CODES, -1, np.int64)
    place[[int(each.code) for each in layout.iterations]] = np.arange(len(layout.iterations))
    for number in np.unique(reading.region_of(table.key)).tolist():
        here, kind = table.in_region(number), REGION_TYPES[number]
        codes = pc.utf8_lpad(pa.array(reading.area_of(here.key)).cast(pa.string()), reading.width_of(kind), "0")
        yield output.TableFigures(kind, codes, place[reading.code_of(here.key)], here.figures)
