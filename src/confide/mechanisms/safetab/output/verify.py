"""``verify`` for SafeTab-P: what follows from the files of a release alone.

``t1`` and ``t2`` are whole, in order and as the plan allows; sums are sums; the tables for people say the same, with
the noise margins that the plan's laws give. What the files cannot tell is whether a group alone exceeds its twin in
combination, since they do not say which iterations are twins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from confide.arrays import Integers
from confide.mechanisms.safetab import settings
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.output.coded import PlannedLevel, read_planned
from confide.mechanisms.safetab.output.released import open_coded, read_measured, verify_coded
from confide.releases import Check, SealedRelease
from confide.releases.certificate import CERTIFICATE
from confide.releases.tabular.checks import TableCopies, no_other_files


def verify(release: SealedRelease) -> Iterator[Check]:
    """Every table: there, the same in every format, in order, whole, and as the others and the plan have it: ``t1`` and
    ``t2`` first, then the tables for people, made anew from them."""
    facts = release.facts
    yield _no_other_files(release.files)
    opened = reading.open_official(release) | {settings.TOTAL_TABLE: open_coded(release, 0)}
    if missing := [name for name, copies in opened.items() if not copies.fits]:
        yield from (_columns(name, opened[name]) for name in missing)
        return
    t1, t2 = reading.read_rows(opened["t1"]), reading.read_rows(opened["t2"])
    for name in ("t1", "t2"):
        yield _columns(name, opened[name])
        yield Check(f"{name}: the same in every format", opened[name].same, opened[name].formats)
    ordered = [
        _in_order("t1: each group once, in order", t1, "groups"),
        _in_order("t2: each cell once, in order", t2, "cells"),
    ]
    yield from ordered
    if not all(check.ok for check in ordered):
        return
    planned = read_planned(release.manifest["plan"])
    shared = frozenset(settings.REGION_TYPES.index(kind) for areas in facts["coterminous"] for kind, _ in areas)
    yield _groups(t1, planned, facts, shared)
    yield from _signs(t1, t2, facts)
    if not facts["tabulation_suppression"]:
        yield from _grids(t1, t2)
    yield from verify_coded(release, t1, t2, read_measured(opened[settings.TOTAL_TABLE]))


def _no_other_files(files: list[str]) -> Check:
    official = [f"{name}/{name}" for name in ("t1", "t2")]
    named = [path for path in files if path.split(".")[0] in official and path.endswith((".parquet", ".csv"))]
    tables = [settings.TOTAL_TABLE, *(grid.table for grid in settings.GRIDS)]
    return no_other_files(tables, files, [CERTIFICATE, *named])


def _columns(name: str, copies: TableCopies) -> Check:
    return Check(f"{name}: columns of the layout", copies.fits, copies.formats or "no file of this table is there")


def _in_order(name: str, rows: reading.GroupTableRows, unit: str) -> Check:
    """Rows rise from each to the next, first by group, then by cell; nothing is unreadable."""
    readable = not (rows.key == reading.UNREADABLE).any() and not (rows.cell == reading.UNREADABLE).any()
    before, after = rows.key[:-1], rows.key[1:]
    rises = (after > before) | ((after == before) & (rows.cell[1:] > rows.cell[:-1]))
    wrong = int((~rises).sum())
    detail = f"{len(rows.key):,} {unit}" if not wrong else f"{wrong:,} repeated or out of order"
    return Check(name, readable and not wrong, detail if readable else "codes that are not of the layout")


def _groups(
    t1: reading.GroupTableRows, planned: list[PlannedLevel], facts: dict[str, Any], shared: frozenset[int]
) -> Check:
    """Region types, areas and iterations are those of the plan's levels, as many as it has, or fewer if some may be
    left out; areas lie in the states of the plan."""
    name, region = "t1: groups of the plan", reading.region_of(t1.key)
    states = np.array(sorted(map(int, facts["states"])), np.int64)
    everything = not facts["tabulation_suppression"]
    for number, kind in enumerate(settings.REGION_TYPES):
        keys = t1.key[region == number]
        levels = [level for level in planned if level.region == number]
        if not levels and len(keys):
            return Check(name, False, f"{kind}: the plan does not have this region type")
        areas, iterations = len(np.unique(keys // reading.CODES)), len(np.unique(reading.code_of(keys)))
        most = max((level.areas for level in levels), default=0)
        if areas > most or (number not in shared and iterations > sum(level.iterations for level in levels)):
            return Check(name, False, f"{kind}: {areas:,} areas and {iterations:,} iterations, more than the plan has")
        complete = everything and number not in shared and all(level.suppressed_up_to is None for level in levels)
        expected = sum(level.areas * level.iterations for level in levels)
        if complete and len(keys) != expected:
            return Check(name, False, f"{kind}: {len(keys):,} groups, and the plan leaves out none of {expected:,}")
        if not in_states(kind, reading.area_of(keys), states):
            return Check(name, False, f"{kind}: an area outside the states of the plan")
    return Check(name, True, f"{len(t1.key):,} groups in {len(np.unique(region))} region types")


def in_states(kind: str, areas: Integers, states: Integers) -> bool:
    """Whether areas of a type lie in the states of a plan, as far as their codes tell."""
    if kind == "AIANNH":
        return True
    if kind == "USA":
        return bool((areas == 1).all())
    state = areas // 10 ** (reading.width_of(kind) - 2)
    return bool(
        (state == int(settings.PUERTO_RICO)).all() if kind in settings.PR_REGIONS else np.isin(state, states).all()
    )


def _signs(t1: reading.GroupTableRows, t2: reading.GroupTableRows, facts: dict[str, Any]) -> Iterator[Check]:
    """No count below zero, where that was asked for."""
    if facts["negative_counts"] and not facts["tabulation_suppression"]:
        return
    below = sum(int((table < 0).sum()) for table in (t1.count, t2.count))
    yield Check("no count below zero", not below, f"{below:,} below zero")


def _grids(t1: reading.GroupTableRows, t2: reading.GroupTableRows) -> Iterator[Check]:
    """Every group of ``t2`` has all rows of one grid and is in ``t1``; its total is the sum of both sexes, and of all
    cells."""
    key, start, level = _levels(t2)
    has_grid = level > 0
    for number, grid in enumerate(settings.GRIDS, start=1):
        pattern = reading.cells_of(grid)
        at = np.flatnonzero(level == number)
        has_grid[at] = (t2.cell[start[at][:, None] + np.arange(len(pattern))] == pattern).all(axis=1)
    broken = int((~has_grid).sum())
    yield Check("t2: whole grids", not broken, f"{broken:,} of {len(key):,} groups with other cells than a grid has")
    place = reading.find(t1.key, key)
    absent = int((place < 0).sum())
    yield Check("t2: groups of t1", not absent, f"{absent:,} of {len(key):,} groups are not in t1")
    if not len(key) or absent:
        return
    of_all = reading.is_sum(t2.cell)
    totals = [np.add.reduceat(np.where(chosen, t2.count, 0), start) for chosen in (of_all, ~of_all)]
    wrong = int(np.logical_or.reduce([total != t1.count[place] for total in totals]).sum())
    yield Check("t1: totals are the sums of t2", not wrong, f"{wrong:,} of {len(key):,} groups with another total")


def _levels(t2: reading.GroupTableRows) -> tuple[Integers, Integers, Integers]:
    """The groups of ``t2``, where their rows begin, and their statistics level by the number of rows; -1 for none."""
    key, start, rows = np.unique(t2.key, return_index=True, return_counts=True)
    level = np.full(len(key), -1, np.int64)
    for number, grid in enumerate(settings.GRIDS, start=1):
        level[rows == len(reading.cells_of(grid))] = number
    return key, start, level
