"""Which block lies in which unit: by the first digits of its code, or by a column of a file of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from confide.attacks.reconstruction.description import BLOCK, GeographyPart
from confide.attacks.reconstruction.marginals import Geography, Integers, group_of_unit
from confide.attacks.reconstruction.table_files import read_text
from confide.errors import Finding, InputError, Place


def find_geography(folder: Path, part: GeographyPart, units: Mapping[str, Sequence[str]]) -> Geography:
    """The geography of a description; ``units`` has the codes that tables of each level name.

    Where no table is of blocks and no file lists them, the finest level with tables takes their place.
    """
    columns = _columns(folder, part, units)
    if not columns[BLOCK]:
        left = [level for level in part.levels if units.get(level.name)]
        if not left:
            raise _wrong(None, "the tables have no unit at all", "no rows", "a row for each unit that has people")
        finest = max(left, key=lambda level: level.digits or 0)
        columns = {finest.name: list(units[finest.name])}
        for level in part.levels:
            if level.name != finest.name and level.digits is not None and level.digits < (finest.digits or 0):
                columns[level.name] = [code[: level.digits] for code in columns[finest.name]]
        return nested(columns, finest.name)
    return nested(columns, BLOCK)


def _columns(folder: Path, part: GeographyPart, units: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """For each block its code and the code of its unit on every level."""
    blocks = list(units.get(BLOCK, ()))
    listed = None if part.blocks is None else read_text(folder / part.blocks)
    if listed is not None:
        wanted = [part.block, *(level.column for level in part.levels if level.column is not None)]
        lacking = [name for name in wanted if name not in listed.column_names]
        if lacking:
            found = "columns " + ", ".join(listed.column_names[:12])
            what = f"the file of blocks has no column {lacking[0]!r}"
            raise _wrong(part.blocks, what, found, "a column for each level")
        for name in wanted:
            codes = listed.column(name).to_pylist()
            blank = [row for row, code in enumerate(codes) if not (code or "").strip()]
            if blank:
                what = f"a row has no code in the column {name!r}"
                raise _wrong(part.blocks, what, f"{len(blank):,} without", "a code in every row", row=blank[0] + 1)
        known: dict[str, int] = {}
        for row, code in enumerate(listed.column(part.block).to_pylist()):
            if known.setdefault(code, row) < row:
                raise _wrong(part.blocks, "a block is listed twice", f"block {code}", "each block once", row=row + 1)
        unknown = [code for code in blocks if code not in known]
        if unknown:
            what, found = "a block of the tables is not listed", f"block {unknown[0]}, one of {len(unknown):,}"
            raise _wrong(part.blocks, what, found, "every block")
        blocks = list(known)
    columns = {BLOCK: blocks}
    for level in sorted(part.levels, key=lambda each: -(each.digits or 0)):
        if level.digits is not None:
            columns[level.name] = [code[: level.digits] for code in blocks]
        elif listed is not None:
            columns[level.name] = listed.column(level.column).to_pylist()
    return columns


def nested(columns: Mapping[str, Sequence[str]], finest: str) -> Geography:
    """A geography from the codes of each block on every level; the levels must nest. Where two have as many units, the
    one named first is the finer."""
    blocks = sorted(dict.fromkeys(columns[finest]))
    row = {code: position for position, code in enumerate(columns[finest])}
    codes = {name: [column[row[block]] for block in blocks] for name, column in columns.items()}
    names = [finest, *sorted((n for n in codes if n != finest), key=lambda name: -len(set(codes[name])))]
    units = [tuple(blocks if name == finest else sorted(set(codes[name]))) for name in names]
    of_block = [group_of_unit(codes[name], listed) for name, listed in zip(names, units, strict=True)]
    for (lower, below), (upper, above) in pairwise(zip(names, of_block, strict=True)):
        pairs = np.unique(np.stack([below, above]), axis=1)
        if len(np.unique(pairs[0])) < pairs.shape[1]:
            across = _across(pairs, units[names.index(lower)])
            found = f"{lower} {across[0]} in several of them, one of {len(across):,}"
            raise _wrong(None, f"the units of {lower} do not lie in units of {upper}", found, "levels that nest")
    return Geography(tuple(names), tuple(units), tuple(of_block))


def _across(pairs: Integers, units: Sequence[str]) -> list[str]:
    """The units (first row) that are paired with several others (second row)."""
    number, times = np.unique(pairs[0], return_counts=True)
    return [units[unit] for unit in number[times > 1].tolist()]


def _wrong(file: str | None, what: str, found: str, expected: str, row: int | None = None) -> InputError:
    remedy = "correct the geography of the description, or the file of blocks"
    return InputError(Finding("geography", what, Place(file=file, row=row), found, expected, remedy))
