"""``verify`` for swapped data: what follows from the files of a release alone.

Figures are exact counts of one set of records, so everything has to add up: margins are the sums of their cells, the
levels of the spine come to the same, a cross-classification has the same figures in every table, and tables are the
counts of the records, where these are published. That something stayed as it was before the swap cannot be seen from
the release: only the curator can, with ``evaluate``. What can be seen is whether it follows from the settings, where
these are stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.mechanisms.swapping.output import Described, ReadTable, Unlike, read_released, read_rows
from confide.mechanisms.swapping.problem import HOUSEHOLD
from confide.mechanisms.swapping.settings import swap_settings
from confide.releases.mechanism import Check

Integers = npt.NDArray[np.int64]
DOCUMENTS = {"statement.html", "NOT-FOR-RELEASE.txt"}
Figures = dict[tuple[str, str], tuple[Integers, pa.Array, Integers]]


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table by itself, then what tables and records have in common."""
    question = manifest["plan"]["question"]
    tables = [Described.read(values) for values in question["tables"]]
    files = [file["path"] for file in manifest["files"]]
    known = {path for table in tables for path in _files(files, f"tables/{table.name}")}
    known |= set(_files(files, "microdata/persons")) | DOCUMENTS
    extra = sorted(set(files) - known)
    yield Check("no other files", not extra, ", ".join(extra) or "every file is one of the plan")
    yield _settings(question)
    people = None
    if question["microdata"] is not None:
        people, check = _records(folder, files, question)
        yield check
    seen: Figures = {}
    for table in tables:
        yield from _table(folder, files, table, manifest["plan"]["spine"], seen, people)


def _files(files: list[str], stem: str) -> list[str]:
    return [path for path in files if path.split(".")[0] == stem]


def _settings(question: dict[str, Any]) -> Check:
    """What is stated to stay follows from the settings, where these are stated."""
    facts, name = question["swapping"], "what is stated to stay"
    if facts["settings"] is None:
        return Check(name, True, "the settings are secret; the curator verifies it with evaluate")
    settings = swap_settings(**facts["settings"])
    same = [*settings.kept] == facts["kept_in_blocks"] and [*settings.carry] == facts["carried"]
    return Check(name, same, "as the stated settings imply" if same else "the stated settings do not imply it")


def _table(
    folder: Path, files: list[str], table: Described, spine: list[str], seen: Figures, people: pa.Table | None
) -> Iterator[Check]:
    paths = _files(files, f"tables/{table.name}")
    found, problem = [], "" if paths else "no file of this table is in the release"
    for path in paths:
        try:
            found.append(read_released(folder / path, table))
        except Unlike as error:
            problem = problem or f"{Path(path).suffix[1:]}: {error}"
    yield Check(f"{table.name}: columns and labels", not problem, problem or f"{len(found[0].count):,} rows")
    if problem:
        return
    first, *others = found
    same = all(first.equals(other) for other in others)
    yield Check(f"{table.name}: the same in every format", same, ", ".join(Path(path).suffix[1:] for path in paths))
    positive = int(first.count.min(initial=1)) > 0
    yield Check(f"{table.name}: whole counts of somebody", positive, "cells that are not listed are zero")
    ordered = _in_order(first)
    yield Check(f"{table.name}: every cell once, in order", ordered, f"{len(first.count):,} cells")
    if not ordered:
        return
    by_level = {level: _level(first, place) for place, level in enumerate(table.levels)}
    yield _adds_up(table, by_level)
    yield _levels_agree(table, by_level, spine)
    yield from _repeated(table, by_level, seen)
    if people is not None:
        yield _from_records(table, by_level, people)


def _in_order(rows: ReadTable) -> bool:
    """Levels as in the plan, areas by their codes, margins and cells in their order, and nothing twice."""
    codes = (
        pc.rank(rows.area, tiebreaker="dense").to_numpy().astype(np.int64) if len(rows.area) else np.empty(0, np.int64)
    )
    order = np.lexsort((rows.cell, rows.margin, codes, rows.level))
    if not np.array_equal(order, np.arange(len(order))):
        return False
    keys = np.stack([rows.level, codes, rows.margin, rows.cell])
    return not bool((np.diff(keys, axis=1) == 0).all(axis=0).any())


def _level(rows: ReadTable, place: int) -> ReadTable:
    of = rows.level == place
    return ReadTable(rows.level[of], rows.area.filter(pa.array(of)), rows.margin[of], rows.cell[of], rows.count[of])


def _adds_up(table: Described, by_level: dict[str, ReadTable]) -> Check:
    """Every margin is the sum of the cells of the table itself, the last of the margins."""
    wrong = 0
    inner = len(table.margins) - 1
    for rows in by_level.values():
        area = rows.area.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        own = rows.margin == inner
        for number, margin in enumerate(table.margins[:-1]):
            of = rows.margin == number
            cell = projected(table, margin, rows.cell[own])
            size = table.cells(margin)
            sums = _sums(area[own] * size + cell, rows.count[own])
            wrong += sums != _sums(area[of] * size + rows.cell[of], rows.count[of])
    return Check(f"{table.name}: margins add up", not wrong, f"{len(table.margins)} cross-classifications")


def _levels_agree(table: Described, by_level: dict[str, ReadTable], spine: list[str]) -> Check:
    """Over all areas, the levels of the spine have the same counts: they have the same people."""
    inner = len(table.margins) - 1
    whole = [
        _sums(rows.cell[rows.margin == inner], rows.count[rows.margin == inner])
        for level, rows in by_level.items()
        if level in spine
    ]
    same = all(each == whole[0] for each in whole)
    return Check(f"{table.name}: levels come to the same", same, f"{len(whole)} levels of the spine")


def _repeated(table: Described, by_level: dict[str, ReadTable], seen: Figures) -> Iterator[Check]:
    again = wrong = 0
    for level, rows in by_level.items():
        for number, name in enumerate(table.names):
            of = rows.margin == number
            figures = rows.cell[of], rows.area.filter(pa.array(of)), rows.count[of]
            before = seen.setdefault((level, name), figures)
            if before is figures:
                continue
            again += 1
            same = np.array_equal(before[0], figures[0]) and np.array_equal(before[2], figures[2])
            wrong += not (same and before[1].equals(figures[1]))
    if again:
        detail = f"{again} cross-classifications that tables before it have too"
        yield Check(f"{table.name}: the same as in other tables", not wrong, detail)


def _records(folder: Path, files: list[str], question: dict[str, Any]) -> tuple[pa.Table | None, Check]:
    facts, name = question["microdata"], "records"
    columns = [HOUSEHOLD, *facts["levels"], *facts["areas"], facts["block"], *facts["attributes"]]
    # Numbers in an attribute are codes: as text they are the same in every format.
    types = {each: pa.string() for each in columns} | {HOUSEHOLD: pa.int64()}
    found = []
    for path in _files(files, "microdata/persons"):
        try:
            found.append(read_rows(folder / path, types))
        except (Unlike, pa.ArrowException) as error:
            return None, Check(name, False, str(error) if isinstance(error, Unlike) else "a file that cannot be read")
    if not found:
        return None, Check(name, False, "no file of the records is in the release")
    # A level is looked up by its name, also that of the blocks.
    names = [HOUSEHOLD, *facts["levels"], *facts["areas"], "block", *facts["attributes"]]
    filled = [_filled(table).rename_columns(names) for table in found]
    if not all(table.equals(filled[0]) for table in filled):
        return None, Check(name, False, "formats differ")
    first = filled[0]
    lived = first.filter(pc.is_valid(first.column(HOUSEHOLD)))
    pairs = lived.group_by([HOUSEHOLD, "block"]).aggregate([]).num_rows
    numbers = pc.unique(lived.column(HOUSEHOLD))
    together = pairs == len(numbers) and (not len(numbers) or pc.max(numbers).as_py() == len(numbers))
    return (first if together else None), Check(
        name, together, f"{first.num_rows:,} records; each household in one block"
    )


def _filled(table: pa.Table) -> pa.Table:
    """Without the difference of no area and an empty text, which CSV does not know."""
    columns = [column if pa.types.is_integer(column.type) else pc.fill_null(column, "") for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _from_records(table: Described, by_level: dict[str, ReadTable], people: pa.Table) -> Check:
    """The table counted again from the published records."""
    cell = np.zeros(people.num_rows, np.int64)
    for groups, name in zip(table.codes, table.variables, strict=True):
        known = pa.array([str(code) for group in groups for code in group], pa.string())
        group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        place = pc.index_in(people.column(name).combine_chunks(), known)
        if place.null_count:
            return Check(f"{table.name}: as the records have it", False, f"a code of {name} that the plan has not")
        cell = cell * len(groups) + group_of[place.to_numpy(zero_copy_only=False).astype(np.int64)]
    wrong = 0
    inner = len(table.margins) - 1
    for level, rows in by_level.items():
        area = people.column(level).combine_chunks()
        inside = pc.not_equal(area, "").to_numpy(zero_copy_only=False)
        codes = pc.unique(pa.concat_arrays([area, rows.area]))
        own = rows.margin == inner
        size = table.cells(table.margins[inner])
        told = _index(rows.area.filter(pa.array(own)), codes) * size + rows.cell[own]
        counted = _index(area, codes) * size + cell
        ones = np.ones(int(inside.sum()), np.int64)
        wrong += _sums(told, rows.count[own]) != _sums(counted[inside], ones)
    return Check(f"{table.name}: as the records have it", not wrong, f"{people.num_rows:,} records counted again")


def _index(column: pa.Array, codes: pa.Array) -> Integers:
    found: Integers = pc.index_in(column, codes).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _sums(key: Integers, count: Integers) -> dict[int, int]:
    distinct, place = np.unique(key, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, count)
    return dict(zip(distinct.tolist(), sums.tolist(), strict=True))


def projected(table: Described, margin: tuple[str, ...], cells: Integers) -> Integers:
    """The cells of a margin that cells of the whole table lie in."""
    shape = table.shape(tuple(table.variables))
    places = np.unravel_index(cells, shape) if shape else ()
    result: Integers = np.zeros(len(cells), np.int64)
    for name, place in zip(table.variables, places, strict=True):
        if name in margin:
            result = result * len(table.variables[name]) + place
    return result
