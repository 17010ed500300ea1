"""The tables of a release as arrays: what ``verify``, ``evaluate`` and attacks look at.

Figures are taken from ``t1`` and ``t2``, and ``T01001`` says how each total was measured, and for which type of area;
``verify`` holds that the tables for people say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.mechanisms.safetab.output import coded, reading
from confide.mechanisms.safetab.output.coded import GROUP_COLUMNS, MEASURED
from confide.mechanisms.safetab.settings import GRIDS, REGION_TYPES, TOTAL_TABLE
from confide.releases import Check, SealedRelease
from confide.releases.tabular import AREA, LEVEL, cells_and_areas
from confide.releases.tabular.checks import TableCopies, open_described, released_names, remade

LEFT_OUT = -1


def released_tables(release: SealedRelease) -> dict[str, reading.TableForPeople]:
    """The tables for people by their names. Raises a :class:`LookupError` with the name of one that is not there, or
    has other columns than its layout."""
    copies = reading.open_official(release) | {TOTAL_TABLE: open_coded(release, 0)}
    for name, each in copies.items():
        if not each.fits:
            raise LookupError(name)
    t1, t2 = reading.read_rows(copies["t1"]), reading.read_rows(copies["t2"])
    return tables_for_people(t1, t2, read_measured(copies[TOTAL_TABLE]))


def open_coded(release: SealedRelease, number: int) -> TableCopies:
    """The files of a table for people, but for SDMX-CSV."""
    return open_described(release, coded.CodedLayout.of(release.manifest["plan"]).described(number))


@dataclass(frozen=True, eq=False)
class MeasuredTotals:
    """What ``T01001`` says of each group: how its total was measured, and in areas of which type."""

    key: Integers
    level: Integers
    """The statistics level; -1 where ``measured_as`` is none of the words."""
    region: Integers
    """The position of the region type; -1 where ``measured_in`` is none."""


def read_measured(copies: TableCopies) -> MeasuredTotals:
    """The groups of ``T01001``."""
    words = pa.array([MEASURED[level] for level in sorted(MEASURED)])
    parts = [(np.zeros(0, np.int64),) * 3]
    for batch in copies.batches():
        keys = coded_keys(batch)
        level = pc.fill_null(pc.index_in(batch.column(coded.MEASURED_AS), words), -1).to_numpy().astype(np.int64)
        region = reading.region_of(keys)
        if coded.MEASURED_IN in batch.column_names:
            place = pc.index_in(batch.column(coded.MEASURED_IN), pa.array(REGION_TYPES))
            region = pc.fill_null(place, -1).to_numpy().astype(np.int64)
        parts.append((keys, level, region))
    return MeasuredTotals(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def coded_keys(rows: pa.Table) -> Integers:
    """The number of each row's group, or ``UNREADABLE``."""
    return reading.group_keys(rows.select([AREA, LEVEL, coded.ITERATION]).rename_columns([*GROUP_COLUMNS]))


def tables_for_people(
    t1: reading.GroupTableRows, t2: reading.GroupTableRows, measured: MeasuredTotals
) -> dict[str, reading.TableForPeople]:
    """The tables that ``t1`` and ``t2`` give, with what ``T01001`` says of totals."""
    place = (
        reading.find(measured.key, t1.key)
        if (np.diff(measured.key) > 0).all()
        else np.full(len(t1.key), reading.UNREADABLE)
    )
    level = np.where(place >= 0, np.append(measured.level, -1)[place], -1)
    tables = {}
    for number, name in enumerate(reading.TABLES):
        at = np.arange(len(t1.key)) if number == 0 else np.flatnonzero(level == number)
        key = t1.key[at]
        figures = np.zeros((len(at), 0), np.int64) if number == 0 else _figures(number, key, t2)
        tables[name] = reading.TableForPeople(key, t1.count[at], figures, level[at])
    return tables


def _figures(number: int, keys: Integers, t2: reading.GroupTableRows) -> Integers:
    """Of some groups men, men by age, women and women by age: those of ``t2``, and -1 for what it leaves out."""
    pattern = reading.cells_of(GRIDS[number - 1])
    figures = np.full((len(keys), len(pattern)), LEFT_OUT, np.int64)
    group, cell = reading.find(keys, t2.key), reading.find(pattern, t2.cell)
    there = (group >= 0) & (cell >= 0)
    figures[group[there], cell[there]] = t2.count[there]
    return figures


# ``verify`` for the tables for people: they are made anew from ``t1``, ``t2`` and the plan.
#
# What the tables say beyond that is looked at first: how each total was measured, and in which type of area. The rest,
# intervals and labels included, follows, and is compared row by row in every format.


def verify_coded(
    release: SealedRelease, t1: reading.GroupTableRows, t2: reading.GroupTableRows, measured: MeasuredTotals
) -> Iterator[Check]:
    """What is asked of the tables for people; ``t1`` and ``t2`` are in order and readable."""
    question, layout = release.facts, coded.CodedLayout.of(release.manifest["plan"])
    same = np.array_equal(measured.key, t1.key)
    yield Check(f"{TOTAL_TABLE}: the groups of t1, in order", same, f"{len(measured.key):,} groups")
    if not same:
        return
    tables = tables_for_people(t1, t2, measured)
    checks = [
        _tables_of(tables[TOTAL_TABLE], t2, left_out=layout.selected),
        _iterations(layout, measured),
        _measured_in(question, measured),
    ]
    if all(check.ok for check in checks):
        checks.append(_suppression(layout, tables[TOTAL_TABLE], measured))
    yield from checks
    if not all(check.ok for check in checks):
        return
    groups = list(_groups(layout, tables, measured))
    names = released_names(release) if layout.named else None
    for number in range(len(reading.TABLES)):
        rows = partial(layout.rows, number, groups)
        yield from remade(release, layout.described(number), rows, names, "t1, t2 and the plan")
    yield from cells_and_areas(release.folder, reading.TABLES, release.files, layout.areas, question["area_names"])


def _tables_of(totals: reading.TableForPeople, t2: reading.GroupTableRows, *, left_out: bool) -> Check:
    """Groups whose total is said to be a sum of cells are those of ``t2``, with a grid of so many cells."""
    keys, rows = np.unique(t2.key, return_counts=True)
    tabled = totals.key[totals.level > 0]
    ok = bool((totals.level >= 0).all()) and (np.isin(keys, tabled).all() if left_out else np.array_equal(tabled, keys))
    if ok and not left_out:
        wide = np.array([0, *(2 * (grid.ages + 1) for grid in GRIDS)])
        ok = bool((wide[totals.level[totals.level > 0]] == rows).all())
    return Check(f"{TOTAL_TABLE}: sums where t2 has a table", bool(ok), f"{len(tabled):,} groups with a table")


def _iterations(layout: coded.CodedLayout, measured: MeasuredTotals) -> Check:
    """Every group is of an iteration that areas of the type it was measured for have, on a level of the plan."""
    wrong = int((_origins(layout, measured) < 0).sum())
    alone = np.array([each.total_only for each in layout.iterations], np.bool_)[_places(layout, measured.key)]
    wrong += int((alone & (measured.level > 0)).sum())
    return Check("iterations of the plan's levels", not wrong, f"{wrong:,} groups that fit none of the plan's levels")


def _measured_in(question: Mapping[str, Any], measured: MeasuredTotals) -> Check:
    """Figures are an area's own, or those of another one of the same extent."""
    own = measured.region == reading.region_of(measured.key)
    for areas in question["coterminous"]:
        kinds = [REGION_TYPES.index(kind) for kind, _ in areas]
        members = [reading.group_key(kind, code, "0") // reading.CODES for kind, code in areas]
        own |= np.isin(measured.key // reading.CODES, members) & np.isin(measured.region, kinds)
    wrong = int((~own).sum())
    return Check("figures of areas of the same extent", not wrong, f"{wrong:,} groups with figures of other areas")


def _suppression(layout: coded.CodedLayout, totals: reading.TableForPeople, measured: MeasuredTotals) -> Check:
    """No total is published that would have been left out."""
    origin = _origins(layout, measured)
    alone = np.array([each.total_only for each in layout.iterations], np.bool_)[_places(layout, measured.key)]
    wrong = 0
    for number, level in enumerate(layout.levels):
        above = coded.published_above(level, 0, alone=False)
        if above is not None:
            wrong += int(((origin == number) & ~alone & (totals.level == 0) & (totals.total <= above)).sum())
    return Check("totals above the suppression number", not wrong, f"{wrong:,} totals that would have been left out")


def _places(layout: coded.CodedLayout, keys: Integers) -> Integers:
    """For each group the place of its iteration in the plan; -1 where it is none."""
    place = np.full(reading.CODES, -1, np.int64)
    place[[int(each.code) for each in layout.iterations]] = np.arange(len(layout.iterations))
    return np.asarray(place[reading.code_of(keys)])


def _origins(layout: coded.CodedLayout, measured: MeasuredTotals) -> Integers:
    """For each group the place of the population group level where it was measured; -1 where there is none."""
    result = np.full((len(REGION_TYPES), len(layout.iterations) + 1), -1, np.int64)
    for number, level in enumerate(layout.levels):
        fits = [each.level == level.iteration_level and each.tabulated(level.region_type) for each in layout.iterations]
        result[level.region, np.flatnonzero(fits)] = number
    return np.where(measured.region >= 0, result[measured.region, _places(layout, measured.key)], -1)


def _groups(
    layout: coded.CodedLayout, tables: Mapping[str, reading.TableForPeople], measured: MeasuredTotals
) -> Iterator[coded.CodedGroups]:
    """The groups as they were published, region type by region type."""
    totals = tables[TOTAL_TABLE]
    region, origin, place = reading.region_of(totals.key), _origins(layout, measured), _places(layout, totals.key)
    for number in np.unique(region).tolist():
        at, kind = np.flatnonzero(region == number), REGION_TYPES[number]
        figures = {
            level: tables[name].figures[reading.region_of(tables[name].key) == number]
            for level, name in enumerate(reading.TABLES)
            if level
        }
        width = reading.width_of(kind)
        area = pa.array([f"{code:0{width}d}" for code in reading.area_of(totals.key[at]).tolist()], pa.string())
        yield coded.CodedGroups(kind, area, place[at], totals.level[at], origin[at], totals.total[at], figures)
