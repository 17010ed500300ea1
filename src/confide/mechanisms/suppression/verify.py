"""``verify`` for cell suppression: what follows from the files of a release alone.

Every table is read in every format. Published cells must add up; the same cell must be published, or suppressed, in
every table that has it; and then the attacker's programmes are solved again from the files: no suppressed cell may be
known exactly, and none may be known to be a small count. Which cells are primary, and their true values, cannot be seen
from the files; that each has its full protection is proved when the release is made (``docs/proofs/suppression.md``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from confide.arrays import Floats, Integers
from confide.errors import ConfideError
from confide.mechanisms.suppression.attacker import TOLERANCE, Attacker
from confide.mechanisms.suppression.output import read_table
from confide.mechanisms.suppression.problem import step_of
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, described, unit_of
from confide.mechanisms.suppression.structure import Flags, Structure
from confide.releases import tabular
from confide.releases.mechanism import Check

FURTHEST_BELOW = float(1 << 40)
"""Below this no figure of values that can be negative is looked for."""

OFF = 1e-3
"""By how much of a step a sum of very large figures may be off."""

TableContent = tuple[Integers, Flags]
"""The figures of a table's cells, and which of them are suppressed."""


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table by itself, then all together."""
    question = manifest["plan"]["question"]
    programme = described(question)
    files = {file["path"] for file in manifest["files"]}
    names = [table.name for table in programme.tables]
    yield tabular.no_other_files(names, files)
    yield tabular.every_format(names, files)
    read: list[TableContent] = []
    for table in programme.tables:
        yield from _table(folder, files, table, read, question)
    levels = {level: len(codes) for level, codes in programme.areas}
    yield from tabular.cells_and_areas(folder, names, files, levels, question["area_names"])
    if len(read) == len(programme.tables):
        yield from _together(programme, read, question)


def _table(
    folder: Path, files: set[str], table: HierarchicalTable, read: list[TableContent], question: Mapping[str, Any]
) -> Iterator[Check]:
    if not tabular.table_files(table.name, files):
        return  # said of all tables together
    reading = partial(read_table, table=table, magnitude=question["value"] is not None, unit=unit_of(question))
    contents, problem = tabular.read_formats(folder, table.name, files, reading)
    yield Check(f"{table.name}: columns, labels and statuses", not problem, problem or f"{len(table.lines[0]):,} rows")
    yield tabular.unique_keys(table.name, table.columns, _keys(table))
    if not problem:
        yield tabular.same_formats(table.name, contents, _same_content)
        read.append(next(iter(contents.values())))


def _keys(table: HierarchicalTable) -> list[tuple[str, ...]]:
    """What tells the rows of a table apart: level, area and codes."""
    codes = {
        variable.column: dict(zip(variable.keys, variable.codes, strict=True)) for variable in table.coded.variables
    }
    return [
        tuple(codes.get(name, {}).get(text, text) for name, text in zip(table.columns, line, strict=True))
        for line in table.lines[0]
    ]


def _same_content(one: TableContent, other: TableContent) -> bool:
    return np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


def gathered(programme: SuppressionProgramme, read: list[TableContent]) -> tuple[Integers, Flags, bool]:
    """The figures of all distinct cells, in units, and which are suppressed, and whether tables agree about both."""
    linked = programme.linked
    value, suppressed = np.zeros(linked.structure.cells, np.int64), np.ones(linked.structure.cells, np.bool_)
    each = [
        (numbers[table.listed_cells], figures[table.listed_cells], flags[table.listed_cells])
        for table, numbers, (figures, flags) in zip(linked.tables, linked.numbers, read, strict=True)
    ]
    for at, figures, flags in each:
        value[at], suppressed[at] = figures, flags
    agree = all(bool((value[at] == figures).all() and (suppressed[at] == flags).all()) for at, figures, flags in each)
    return value, suppressed, agree


def bounds(programme: SuppressionProgramme, question: Mapping[str, Any]) -> Floats:
    """What everybody knows of a suppressed cell: not below zero, or not zero either where zeros are always published.
    Where values can be negative, how far depends on how many are in a cell, which is not published: as far as figures
    can be at all."""
    low = np.zeros(programme.linked.structure.cells)
    if question.get("below_zero") is not None:
        low -= FURTHEST_BELOW
    if question["suppression"]["zeros"] == "published":
        low[programme.linked.listed] = 1.0
    return low


def _together(programme: SuppressionProgramme, read: list[TableContent], question: dict[str, Any]) -> Iterator[Check]:
    linked = programme.linked
    value, suppressed, agree = gathered(programme, read)
    yield Check("the same cell is the same in every table", agree, f"{int(linked.listed.sum()):,} distinct cells")
    complete = np.asarray(abs(linked.structure.matrix) @ suppressed.astype(np.float64)) == 0
    # Whole numbers, however large: in a float, two sums of sixteen digits could agree that do not.
    sums = (linked.structure.matrix.astype(np.int64) @ np.where(suppressed, 0, value))[complete]
    detail = f"{int(complete.sum()):,} sums of published cells alone"
    yield Check("published cells add up", not sums.any(), detail)
    threshold = question["suppression"]["threshold"]
    if threshold is not None and question["value"] is None and not _decided(question):
        small = linked.listed & ~suppressed & (value > 0) & (value <= threshold)
        yield Check("no small count is published", not small.any(), f"none from 1 to {threshold:,}")
    left_out = "; ".join(", ".join(names) for names in linked.beyond)
    if left_out:
        detail = f"too many kinds of people for {left_out}: what follows from their sums is looked at"
        yield Check("tables count the same people: looked at as far as the statement says", True, detail)
    if agree and not sums.any():
        yield from _attack(programme, value, suppressed, question)


def _decided(question: Mapping[str, Any]) -> bool:
    """Whether the office decided of single cells: a small count can be published then, or need not be hidden."""
    return bool(question.get("given", {}).get("statuses", False))


def _attack(
    programme: SuppressionProgramme, value: Integers, suppressed: Flags, question: dict[str, Any]
) -> Iterator[Check]:
    linked, part = programme.linked, question["suppression"]
    low = bounds(programme, question)
    try:
        attacker, single = _attacker(linked.structure, value, suppressed, low)
        few = part["threshold"] if question["value"] is None else None
        wanted = np.zeros(attacker.structure.cells, np.bool_)
        wanted[: len(value)] = suppressed & linked.listed
        intervals = attacker.intervals(wanted=wanted, enough=partial(_open, threshold=few))
    except ConfideError as error:
        yield Check("hidden cells can have figures", False, error.findings[0].what)
        return
    listed = suppressed & linked.listed
    exact = listed & (intervals.width[: len(value)] <= single)
    detail = f"{int(listed.sum()):,} hidden cells, {intervals.programmes:,} programmes solved"
    detail += f", of which {int(exact.sum()):,} are known exactly" if exact.any() else ": none is known exactly"
    yield Check("no hidden cell can be worked out", not exact.any(), detail)
    if part["threshold"] is not None and question["value"] is None and not _decided(question):
        small = listed & (intervals.low >= 1) & (intervals.high <= part["threshold"])
        how_many = f"{int(small.sum()):,} are" if small.any() else "none is"
        detail = f"{how_many} known to be from 1 to {part['threshold']:,}"
        yield Check("no hidden cell is known to be small", not small.any(), detail)


def _open(low: Floats, high: Floats, *, threshold: int | None) -> Flags:
    """Cells that can have two whole figures for certain, and with a threshold one that is not small."""
    least, most = np.ceil(low - TOLERANCE), np.floor(high + TOLERANCE)
    return (most > least) & (True if threshold is None else (least <= 0) | (most > threshold))


def _attacker(structure: Structure, value: Integers, suppressed: Flags, low: Floats) -> tuple[Attacker, float]:
    """Somebody who has the published figures, and how narrow an interval is a single figure.

    Where figures have too many digits for the solver, what is published leaves to the hidden cells of each sum is
    worked out in whole numbers first, and told in steps: 2^40 of them make the largest figure. Each sum may be off by a
    small part of a step, so that intervals are too wide by that, and one of half a step is a single figure.
    """
    high = np.full(len(value), np.inf)
    step = step_of(value)
    if step == 1:
        return Attacker(structure, value.astype(np.float64), suppressed, low, high, integer=True), 0.0
    remainder = structure.matrix.astype(np.int64) @ np.where(suppressed, 0, value)
    hidden = structure.matrix @ sparse.diags_array(suppressed.astype(np.float64))
    one = sparse.eye_array(structure.rows)
    reduced = Structure(sparse.csr_array(sparse.hstack([hidden, one, one])), structure.total, structure.axis)
    known, off = np.zeros(structure.rows, np.bool_), np.full(structure.rows, OFF)
    figures = np.concatenate([np.where(suppressed, 0, value) / step, remainder / step, 0.0 * off])
    attacker = Attacker(
        reduced,
        figures,
        np.concatenate([suppressed, known, ~known]),
        np.concatenate([low / step, 0.0 * off, -off]),
        np.concatenate([high, 0.0 * off, off]),
    )
    return attacker, 0.5
