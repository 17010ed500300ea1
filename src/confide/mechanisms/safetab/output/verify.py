"""``verify`` for SafeTab-P: what follows from the files of a release alone.

``t1`` and ``t2`` are whole, in order and as the plan allows; sums are sums; the tables for people say the same, with
the noise margins that the plan's laws give. What the files cannot tell is whether a group alone exceeds its twin in
combination, since they do not say which iterations are twins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.mechanisms.safetab.codes import PlannedIteration
from confide.mechanisms.safetab.output.coded import PlannedLevel, read_planned
from confide.mechanisms.safetab.output.reading import (
    CODES,
    TABLES,
    UNREADABLE,
    GroupTableCopies,
    GroupTableRows,
    TableForPeople,
    area_of,
    cells_of,
    code_of,
    find,
    is_sum,
    open_official,
    open_release,
    read_rows,
    read_table,
    region_of,
    width_of,
)
from confide.mechanisms.safetab.output.released import is_coded, open_coded, read_measured, verify_coded
from confide.mechanisms.safetab.settings import (
    GRIDS,
    ITERATION_LEVELS,
    PR_REGIONS,
    PUERTO_RICO,
    REGION_TYPES,
    SEXES,
    TOTAL_TABLE,
)
from confide.releases.mechanism import Check

# Whether released groups fit a plan: kinds of iterations that no figure of theirs speaks against.
#
# The files do not say whether an iteration is regional or detailed, nor whether it is total-only; these are its
# *kind*. But a kind forbids figures: a total at or below the suppression number of the level, a region type without
# the level, a noise margin of another level. An iteration whose figures leave it no kind, or more iterations of one
# kind than the plan has, is what no run of the plan gives.


Truths = npt.NDArray[np.bool_]

KINDS = tuple((level, total_only) for level in ITERATION_LEVELS for total_only in (False, True))
"""An iteration level, and whether a group gets a total alone."""


@dataclass
class Fits:
    """The kinds that are left to each iteration code, as more is asked of its figures.

    In region types of ``shared``, areas can have the figures of another area: there the kind of an iteration still
    holds, but suppression numbers and margins are those of any region type.
    """

    planned: list[PlannedLevel]
    shared: frozenset[int]
    tables: list[TableForPeople]
    remaining: Truths = field(init=False)

    def __post_init__(self) -> None:
        self.remaining = np.ones((len(KINDS), CODES), np.bool_)

    @cached_property
    def present(self) -> Truths:
        """Which codes occur."""
        result = np.zeros(CODES, np.bool_)
        result[code_of(self.tables[0].key)] = True
        return result

    @property
    def impossible(self) -> int:
        """How many iterations have no kind left."""
        return int((self.present & ~self.remaining.any(axis=0)).sum())

    def of_plan(self) -> None:
        """Only kinds that the plan has in the region type, and with a table no total-only ones."""
        for region, at in self._regions(self.tables[0]):
            codes, tabled = code_of(self.tables[0].key[at]), self.tables[0].level[at] > 0
            for number, (level, total_only) in enumerate(KINDS):
                there = any(planned_level.number(total_only) for planned_level in self._levels(region, level))
                self._forbid(number, codes, tabled if there and total_only else np.full(len(codes), not there))

    def of_suppression(self) -> None:
        """Only kinds by which every total alone would have been shown."""
        for region, at in self._regions(self.tables[0]):
            total, alone = self.tables[0].total[at], self.tables[0].level[at] == 0
            for number, (level, total_only) in enumerate(KINDS):
                numbers = [planned_level.suppressed_up_to for planned_level in self._levels(region, level)]
                if total_only or not numbers or None in numbers:
                    continue
                least = min(planned_level for planned_level in numbers if planned_level is not None)
                self._forbid(number, code_of(self.tables[0].key[at]), alone & (total <= least))

    def of_iterations(self, iterations: Sequence[PlannedIteration]) -> None:
        """Only the kind that the plan says, where it lists iterations."""
        for each in iterations:
            of_plan = np.array([kind == (each.level, each.total_only) for kind in KINDS])
            self.remaining[:, int(each.code)] &= of_plan

    def of_margins(self, probability: Fraction) -> None:
        """Only kinds with the noise margins that are stated."""
        for table in self.tables:
            assert table.margins is not None
            for region, at in self._regions(table):
                for statistics_level in np.unique(table.level[at]).tolist():
                    rows = at[table.level[at] == statistics_level]
                    self._margins(table, rows, region, statistics_level, probability)

    def too_many(self) -> str | None:
        """Where more iterations must be of a kind than the plan has."""
        for region, at in self._regions(self.tables[0]):
            here = np.zeros(CODES, np.bool_)
            here[code_of(self.tables[0].key[at])] = True
            for number, (level, total_only) in enumerate(KINDS):
                forced = int((here & self.remaining[number] & (self.remaining.sum(axis=0) == 1)).sum())
                most = max(
                    (planned_level.number(total_only) for planned_level in self._levels(region, level)), default=0
                )
                if forced > most:
                    return f"{REGION_TYPES[region]}: {forced:,} iterations that the plan has {most:,} of"
        return None

    def _margins(
        self, table: TableForPeople, rows: Integers, region: int, statistics_level: int, probability: Fraction
    ) -> None:
        assert table.margins is not None
        margins = table.margins[rows]
        for number, (level, total_only) in enumerate(KINDS):
            fitting = np.zeros(len(rows), np.bool_)
            for planned_level in self._levels(region, level):
                expected = planned_level.margins(probability, statistics_level, total_only=total_only)
                if expected:
                    fitting |= (margins == np.array(expected[: margins.shape[1]])).all(axis=1)
            self._forbid(number, code_of(table.key[rows]), ~fitting)

    def _levels(self, region: int, iteration_level: int) -> list[PlannedLevel]:
        """The levels that the figures of a region type can come from."""
        return [
            planned_level
            for planned_level in self.planned
            if planned_level.iteration_level == iteration_level
            and (planned_level.region == region or region in self.shared)
        ]

    def _forbid(self, kind: int, codes: Integers, where: Truths) -> None:
        self.remaining[kind, codes[where]] = False

    def _regions(self, table: TableForPeople) -> Iterator[tuple[int, Integers]]:
        """The rows of each region type; rows are in their order."""
        region = region_of(table.key)
        ends = np.searchsorted(region, np.arange(len(REGION_TYPES) + 1))
        for number in range(len(REGION_TYPES)):
            if ends[number] < ends[number + 1]:
                yield number, np.arange(ends[number], ends[number + 1])


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table: there, the same in every format, in order, whole, and as the others and the plan have it."""
    return _verify_coded(folder, manifest) if is_coded(manifest) else _verify_first(folder, manifest)


def _verify_first(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    facts = manifest["plan"]["question"]
    margins = facts["noise_margin"] is not None
    opened = open_release(folder, manifest, margins=margins)
    if missing := [name for name, copies in opened.items() if not copies.fits]:
        yield from (_columns(name, opened[name]) for name in missing)
        return
    t1, t2 = read_rows(opened["t1"]), read_rows(opened["t2"])
    left_out = bool(facts["tabulation_suppression"])
    tables = {name: read_table(name, opened[name], margins=margins, left_out=left_out) for name in TABLES}
    for name, copies in opened.items():
        yield _columns(name, copies)
        yield Check(f"{name}: the same in every format", copies.same, copies.formats)
    ordered = [
        _in_order("t1: each group once, in order", t1, "groups"),
        _in_order("t2: each cell once, in order", t2, "cells"),
        *(
            _in_order(
                f"{name}: each group once, in order",
                GroupTableRows(table.key, np.zeros_like(table.key), table.total),
                "groups",
            )
            for name, table in tables.items()
        ),
    ]
    yield from ordered
    if not all(check.ok for check in ordered):
        return
    planned = read_planned(manifest["plan"])
    shared = frozenset(REGION_TYPES.index(kind) for areas in facts["coterminous"] for kind, _ in areas)
    yield _groups(t1, planned, facts, shared)
    yield from _signs(t1, t2, tables, facts)
    if not left_out:
        yield from _grids(t1, t2)
    yield _as_t1(t1, t2, tables[TOTAL_TABLE])
    for number, grid in enumerate(GRIDS, start=1):
        yield _sums(grid.table, tables[grid.table], grid.ages, left_out=left_out)
        yield _as_t2(number, t2, tables, left_out=left_out)
    yield _names(tables)
    yield from _kinds(Fits(planned, shared, list(tables.values())), facts)


def _verify_coded(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """The same in the second layout: ``t1`` and ``t2`` first, then the tables for people, made anew from them."""
    facts = manifest["plan"]["question"]
    opened = open_official(folder, manifest) | {TOTAL_TABLE: open_coded(folder, manifest, 0)}
    if missing := [name for name, copies in opened.items() if not copies.fits]:
        yield from (_columns(name, opened[name]) for name in missing)
        return
    t1, t2 = read_rows(opened["t1"]), read_rows(opened["t2"])
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
    planned = read_planned(manifest["plan"])
    shared = frozenset(REGION_TYPES.index(kind) for areas in facts["coterminous"] for kind, _ in areas)
    yield _groups(t1, planned, facts, shared)
    yield from _signs(t1, t2, {}, facts)
    if not facts["tabulation_suppression"]:
        yield from _grids(t1, t2)
    yield from verify_coded(folder, manifest, t1, t2, read_measured(opened[TOTAL_TABLE]))


def _columns(name: str, copies: GroupTableCopies) -> Check:
    return Check(f"{name}: columns of the layout", copies.fits, copies.formats or "no file of this table is there")


def _in_order(name: str, rows: GroupTableRows, unit: str) -> Check:
    """Rows rise from each to the next, first by group, then by cell; nothing is unreadable."""
    readable = not (rows.key == UNREADABLE).any() and not (rows.cell == UNREADABLE).any()
    before, after = rows.key[:-1], rows.key[1:]
    rises = (after > before) | ((after == before) & (rows.cell[1:] > rows.cell[:-1]))
    wrong = int((~rises).sum())
    detail = f"{len(rows.key):,} {unit}" if not wrong else f"{wrong:,} repeated or out of order"
    return Check(name, readable and not wrong, detail if readable else "codes that are not of the layout")


def _groups(t1: GroupTableRows, planned: list[PlannedLevel], facts: dict[str, Any], shared: frozenset[int]) -> Check:
    """Region types, areas and iterations are those of the plan's levels, as many as it has, or fewer if some may be
    left out; areas lie in the states of the plan."""
    name, region = "t1: groups of the plan", region_of(t1.key)
    states = np.array(sorted(map(int, facts["states"])), np.int64)
    everything = not facts["tabulation_suppression"]
    for number, kind in enumerate(REGION_TYPES):
        keys = t1.key[region == number]
        levels = [level for level in planned if level.region == number]
        if not levels and len(keys):
            return Check(name, False, f"{kind}: the plan does not have this region type")
        areas, iterations = len(np.unique(keys // CODES)), len(np.unique(code_of(keys)))
        most = max((level.areas for level in levels), default=0)
        if areas > most or (number not in shared and iterations > sum(level.iterations for level in levels)):
            return Check(name, False, f"{kind}: {areas:,} areas and {iterations:,} iterations, more than the plan has")
        complete = everything and number not in shared and all(level.suppressed_up_to is None for level in levels)
        expected = sum(level.areas * level.iterations for level in levels)
        if complete and len(keys) != expected:
            return Check(name, False, f"{kind}: {len(keys):,} groups, and the plan leaves out none of {expected:,}")
        if not _in_states(kind, area_of(keys), states):
            return Check(name, False, f"{kind}: an area outside the states of the plan")
    return Check(name, True, f"{len(t1.key):,} groups in {len(np.unique(region))} region types")


def _in_states(kind: str, areas: Integers, states: Integers) -> bool:
    if kind == "AIANNH":
        return True
    if kind == "USA":
        return bool((areas == 1).all())
    state = areas // 10 ** (width_of(kind) - 2)
    return bool((state == int(PUERTO_RICO)).all() if kind in PR_REGIONS else np.isin(state, states).all())


def _signs(
    t1: GroupTableRows, t2: GroupTableRows, tables: dict[str, TableForPeople], facts: dict[str, Any]
) -> Iterator[Check]:
    """No count below zero, where that was asked for."""
    if facts["negative_counts"] and not facts["tabulation_suppression"]:
        return
    counts = [t1.count, t2.count]
    if not facts["negative_counts"]:
        counts += [figures for table in tables.values() for figures in (table.total, table.figures)]
    below = sum(int((table < 0).sum()) for table in counts)
    yield Check("no count below zero", not below, f"{below:,} below zero")


def _grids(t1: GroupTableRows, t2: GroupTableRows) -> Iterator[Check]:
    """Every group of ``t2`` has all rows of one grid and is in ``t1``; its total is the sum of both sexes, and of all
    cells."""
    key, start, level = _levels(t2)
    has_grid = level > 0
    for number, grid in enumerate(GRIDS, start=1):
        pattern = cells_of(grid)
        at = np.flatnonzero(level == number)
        has_grid[at] = (t2.cell[start[at][:, None] + np.arange(len(pattern))] == pattern).all(axis=1)
    broken = int((~has_grid).sum())
    yield Check("t2: whole grids", not broken, f"{broken:,} of {len(key):,} groups with other cells than a grid has")
    place = find(t1.key, key)
    absent = int((place < 0).sum())
    yield Check("t2: groups of t1", not absent, f"{absent:,} of {len(key):,} groups are not in t1")
    if not len(key) or absent:
        return
    of_all = is_sum(t2.cell)
    totals = [np.add.reduceat(np.where(chosen, t2.count, 0), start) for chosen in (of_all, ~of_all)]
    wrong = int(np.logical_or.reduce([total != t1.count[place] for total in totals]).sum())
    yield Check("t1: totals are the sums of t2", not wrong, f"{wrong:,} of {len(key):,} groups with another total")


def _levels(t2: GroupTableRows) -> tuple[Integers, Integers, Integers]:
    """The groups of ``t2``, where their rows begin, and their statistics level by the number of rows; -1 for none."""
    key, start, rows = np.unique(t2.key, return_index=True, return_counts=True)
    level = np.full(len(key), -1, np.int64)
    for number, grid in enumerate(GRIDS, start=1):
        level[rows == len(cells_of(grid))] = number
    return key, start, level


def _as_t1(t1: GroupTableRows, t2: GroupTableRows, table: TableForPeople) -> Check:
    """``T01001`` has the groups and totals of ``t1``, and calls those sums that are in ``t2``."""
    same = np.array_equal(t1.key, table.key) and np.array_equal(t1.count, table.total)
    tabled = np.array_equal(table.key[table.level > 0], np.unique(t2.key))
    ok = same and tabled and not (table.level < 0).any()
    return Check(f"{TOTAL_TABLE}: says what t1 and t2 say", ok, f"{len(table.key):,} groups")


def _sums(name: str, table: TableForPeople, ages: int, *, left_out: bool) -> Check:
    """Sexes are sums of ages and totals of sexes, in every group of which no figure was left out."""
    by_sex = table.figures.reshape(len(table.key), len(SEXES), ages + 1)
    wrong = (by_sex[:, :, 1:].sum(axis=2) != by_sex[:, :, 0]).any(axis=1) | (by_sex[:, :, 0].sum(axis=1) != table.total)
    if left_out:
        wrong &= (table.figures >= 0).all(axis=1)
    return Check(f"{name}: sums are sums", not wrong.any(), f"{int(wrong.sum()):,} of {len(wrong):,} groups are not")


def _as_t2(number: int, t2: GroupTableRows, tables: dict[str, TableForPeople], *, left_out: bool) -> Check:
    """A table of sex by age has the groups that ``T01001`` says, with their totals, and every row of ``t2``.

    ``left_out``: the tabulation system left counts below zero out of ``t2``.
    """
    grid, totals = GRIDS[number - 1], tables[TOTAL_TABLE]
    table, chosen = tables[grid.table], totals.level == number
    same = np.array_equal(table.key, totals.key[chosen]) and np.array_equal(table.total, totals.total[chosen])
    pattern = cells_of(grid)
    expected = GroupTableRows(
        np.repeat(table.key, len(pattern)), np.tile(pattern, len(table.key)), table.figures.reshape(-1)
    )
    if left_out:
        expected = expected.take(expected.count >= 0)
    released = t2.take(np.isin(t2.key, table.key))
    ok = same and released.same_as(expected)
    return Check(f"{grid.table}: says what t2 says", ok, f"{len(table.key):,} groups")


def _names(tables: dict[str, TableForPeople]) -> Check:
    """An iteration has one name, the same in every table."""
    names: dict[int, set[str]] = {}
    for table in tables.values():
        for code, given in table.names.items():
            names.setdefault(code, set()).update(given)
    several = sum(len(given) > 1 for given in names.values())
    return Check("one name for each iteration", not several, f"{several:,} of {len(names):,} have several")


def _kinds(fits: Fits, facts: dict[str, Any]) -> Iterator[Check]:
    """Suppression and noise margins, as strictly as the files tell which iteration is regional and which detailed."""
    fits.of_plan()
    before = fits.impossible
    detail = f"{before:,} iterations that fit none of the plan's levels"
    yield Check("iterations of the plan's levels", not before, detail)
    if any(level.suppressed_up_to is not None for level in fits.planned):
        fits.of_suppression()
        contradicted = fits.impossible - before
        detail = f"{contradicted:,} iterations with a total that would have been left out"
        yield Check("totals above the suppression number", not contradicted, detail)
        before += contradicted
    if facts["noise_margin"] is not None:
        fits.of_margins(Fraction(facts["noise_margin"]))
        other = fits.impossible - before
        detail = f"{facts['noise_margin']}: {other:,} iterations with other margins than their noise has"
        yield Check("noise margins", not other, detail)
    if not fits.impossible:
        problem = fits.too_many()
        yield Check("as many iterations of each kind as planned", problem is None, problem or "no more")
