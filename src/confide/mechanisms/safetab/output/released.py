"""The tables of a release as arrays, whatever their layout: what ``verify``, ``evaluate`` and attacks look at.

In the first layout the tables for people have everything. In the second, figures are taken from ``t1`` and ``t2``, and
``T01001`` says how each total was measured, and for which type of area; :mod:`~.verify_coded` holds that the tables for
people say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.mechanisms.safetab.output.coded import ITERATION, MEASURED_AS, MEASURED_IN, CodedLayout
from confide.mechanisms.safetab.output.reading import (
    TABLES,
    UNREADABLE,
    GroupTableCopies,
    GroupTableRows,
    TableForPeople,
    cells_of,
    code_of,
    find,
    group_keys,
    open_official,
    open_table,
    paths_of,
    read_rows,
    read_table,
    region_of,
)
from confide.mechanisms.safetab.output.rows import GROUP_COLUMNS, MEASURED
from confide.mechanisms.safetab.settings import GRIDS, REGION_TYPES, TOTAL_TABLE
from confide.releases.tabular import AREA, LEVEL

Integers = npt.NDArray[np.int64]
LEFT_OUT = -1


def is_coded(manifest: Mapping[str, Any]) -> bool:
    """Whether a release is in the second layout."""
    return "companions" in manifest["plan"]["question"]


def released_tables(folder: Path, manifest: Mapping[str, Any]) -> dict[str, TableForPeople]:
    """The tables for people by their names. Raises a :class:`LookupError` with the name of one that is not there, or
    has other columns than its layout."""
    question = manifest["plan"]["question"]
    margins, left_out = question["noise_margin"] is not None, bool(question["tabulation_suppression"])
    if is_coded(manifest):
        copies = open_official(folder, manifest) | {TOTAL_TABLE: open_coded(folder, manifest, 0)}
        for name, each in copies.items():
            if not each.fits:
                raise LookupError(name)
        t1, t2 = read_rows(copies["t1"]), read_rows(copies["t2"])
        return tables_for_people(t1, t2, read_measured(copies[TOTAL_TABLE]), CodedLayout.of(manifest["plan"]))
    tables = {}
    for name in TABLES:
        each = open_table(folder, dict(manifest), name, margins=margins)
        if not each.fits:
            raise LookupError(name)
        tables[name] = read_table(name, each, margins=margins, left_out=left_out)
    return tables


def open_coded(folder: Path, manifest: Mapping[str, Any], number: int) -> GroupTableCopies:
    """The files of a table for people in the second layout, but for SDMX-CSV."""
    layout = CodedLayout.of(manifest["plan"])
    schema = layout.columns(number).schema(layout.figures(number))
    return GroupTableCopies.open(folder, paths_of(manifest, f"tables/{TABLES[number]}"), schema)


@dataclass(frozen=True, eq=False)
class MeasuredTotals:
    """What ``T01001`` says of each group: how its total was measured, and in areas of which type."""

    key: Integers
    level: Integers
    """The statistics level; -1 where ``measured_as`` is none of the words."""
    region: Integers
    """The position of the region type; -1 where ``measured_in`` is none."""


def read_measured(copies: GroupTableCopies) -> MeasuredTotals:
    """The groups of ``T01001`` in the second layout."""
    words = pa.array([MEASURED[level] for level in sorted(MEASURED)])
    parts = [(np.zeros(0, np.int64),) * 3]
    for batch in copies.batches():
        keys = coded_keys(batch)
        level = pc.fill_null(pc.index_in(batch.column(MEASURED_AS), words), -1).to_numpy().astype(np.int64)
        region = region_of(keys)
        if MEASURED_IN in batch.column_names:
            place = pc.index_in(batch.column(MEASURED_IN), pa.array(REGION_TYPES))
            region = pc.fill_null(place, -1).to_numpy().astype(np.int64)
        parts.append((keys, level, region))
    return MeasuredTotals(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def coded_keys(rows: pa.Table) -> Integers:
    """The number of each row's group, or ``UNREADABLE``."""
    return group_keys(rows.select([AREA, LEVEL, ITERATION]).rename_columns([*GROUP_COLUMNS]))


def tables_for_people(
    t1: GroupTableRows, t2: GroupTableRows, measured: MeasuredTotals, layout: CodedLayout
) -> dict[str, TableForPeople]:
    """The tables that ``t1`` and ``t2`` give, with what ``T01001`` says of totals."""
    place = find(measured.key, t1.key) if (np.diff(measured.key) > 0).all() else np.full(len(t1.key), UNREADABLE)
    level = np.where(place >= 0, np.append(measured.level, -1)[place], -1)
    names = {int(each.code): frozenset([each.label]) for each in layout.iterations}
    tables = {}
    for number, name in enumerate(TABLES):
        at = np.arange(len(t1.key)) if number == 0 else np.flatnonzero(level == number)
        key = t1.key[at]
        figures = np.zeros((len(at), 0), np.int64) if number == 0 else _figures(number, key, t2)
        here = {code: names[code] for code in np.unique(code_of(key[key >= 0])).tolist() if code in names}
        tables[name] = TableForPeople(key, t1.count[at], figures, level[at], None, here)
    return tables


def _figures(number: int, keys: Integers, t2: GroupTableRows) -> Integers:
    """Of some groups men, men by age, women and women by age: those of ``t2``, and -1 for what it leaves out."""
    pattern = cells_of(GRIDS[number - 1])
    figures = np.full((len(keys), len(pattern)), LEFT_OUT, np.int64)
    group, cell = find(keys, t2.key), find(pattern, t2.cell)
    there = (group >= 0) & (cell >= 0)
    figures[group[there], cell[there]] = t2.count[there]
    return figures
