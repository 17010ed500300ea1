"""The areas that are asked for: official levels of a frame, areas beside them, units of the spine, or whatever a file
with a block code and an area code in each line says; and known totals of units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.arrays import Booleans, Integers
from confide.errors import Finding, InputError, Place
from confide.geography import AreaSet

MOST_PIECES = 9
"""An area of at most so many units is followed by the spine, unless the settings of the release say otherwise."""


@dataclass(frozen=True)
class Area:
    """Some blocks by their codes, under a name."""

    name: str
    blocks: tuple[str, ...]

    @classmethod
    def from_blocks(cls, blocks: Iterable[str], name: str = "area") -> Area:
        """An area of these blocks."""
        return cls(name, tuple(blocks))


def read_areas(file: Path, block_codes: NDArray[np.str_]) -> list[AreaSet]:
    """Kinds of area from a CSV or Parquet file: a column of block codes, and for each kind a column of area codes.

    A block that is not listed, or has an empty area, is outside. A block may be listed for several areas.

    Args:
        file: The file; of a CSV all columns are text, so that codes keep their leading zeros.
        block_codes: The codes of the blocks of the source.

    Returns:
        The kinds of area by the names of their columns. Raises an :class:`InputError` with findings.
    """
    table, place = _text_table(file), Place(file=file.name)
    names = table.column_names
    if table.num_columns < 2:
        found = f"one column, {names[0]!r}" if names else "no column"
        raise InputError("bad-areas/file", where=place, name=names[0] if names else None)
    again = [name for at, name in enumerate(names) if name in names[:at] or not name.strip()]
    if again:
        found = ", ".join(map(repr, names))
        raise InputError("bad-areas/columns", where=place, found=found)
    if np.isin(np.array([names[0]], np.str_), block_codes).any():
        found = f"the block {names[0]!r}"
        raise InputError("bad-areas/first", where=Place(file=file.name, row=1), name=names[0])
    codes = table.column(0).to_numpy(zero_copy_only=False).astype(str)
    number = _numbers(codes, block_codes)
    unknown = np.flatnonzero(number < 0)
    if len(unknown):
        one, width = str(codes[unknown[0]]), int(np.strings.str_len(block_codes).max())
        lost = bool((_numbers(np.strings.zfill(codes[unknown], width), block_codes) >= 0).all())
        where = Place(file=file.name, row=int(unknown[0]) + 2)
        raise InputError(
            "bad-areas/lines",
            where=where,
            unknown=len(unknown),
            one=one,
            name=names[0],
            block_code=str(block_codes[0]),
            lost=lost,
        )
    result = []
    for name in names[1:]:
        listed = table.column(name).to_numpy(zero_copy_only=False).astype(str)
        inside = np.flatnonzero(listed != "")
        areas, area = np.unique(listed[inside], return_inverse=True)
        if not len(areas):
            raise InputError("bad-areas/column", where=place, name=name)
        block, area = number[inside], area.reshape(-1)
        _, first = np.unique(block * len(areas) + area, return_index=True)
        twice = np.delete(inside, first)
        if len(twice):
            found = f"{str(codes[twice[0]])!r} for {listed[twice[0]]!s}"
            where = Place(file=file.name, row=int(twice[0]) + 2)
            raise InputError("bad-areas/listed", where=where, its_code=str(codes[twice[0]]), listed=listed[twice[0]])
        result.append(AreaSet(name, tuple(areas.tolist()), block, area))
    return result


def _numbers(codes: NDArray[np.str_], block_codes: NDArray[np.str_]) -> Integers:
    """For each code its place among those of the blocks, or −1."""
    order = np.argsort(block_codes)
    number = order[np.minimum(np.searchsorted(block_codes[order], codes), len(order) - 1)]
    return np.asarray(np.where(block_codes[number] == codes, number, -1), np.int64)


def _text_table(file: Path) -> pa.Table:
    try:
        if file.suffix == ".parquet":
            table = pq.read_table(file)
        else:
            names = pyarrow.csv.open_csv(file).schema.names
            types: dict[str, Any] = dict.fromkeys(names, pa.string())
            options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
            table = pyarrow.csv.read_csv(file, convert_options=options)
        columns = [pa.array(["" if v is None else str(v) for v in column.to_pylist()]) for column in table.columns]
    except (OSError, pa.ArrowException, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        raise InputError(
            "bad-areas/read",
            where=Place(file=file.name),
            partition=None if missing else str(error).partition("\n")[0][:120] or type(error).__name__,
            missing=missing,
        ) from None
    return pa.table(columns, names=table.column_names)


def chosen(areas: Sequence[AreaSet], kinds: Sequence[str]) -> list[AreaSet]:
    """The kinds of area that are asked for; raises with a finding if there is no such kind."""
    known = {one.kind: one for one in areas}
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        where = Place(path="--geography")
        raise InputError(
            "no-geography/correct", where=where, found=unknown[0], unknown=unknown[0], known=", ".join(known)
        )
    return [known[kind] for kind in kinds]


def outside(area: Area, block_codes: NDArray[np.str_]) -> Booleans:
    """Which blocks of an area the source does not have."""
    return np.asarray(~np.isin(np.array(area.blocks, np.str_), block_codes))


def read_totals(file: Path) -> dict[str, int]:
    """Known numbers of records from a CSV file: the code of a unit, and its number; the first line may name them.

    Raises an :class:`InputError` with a finding for each line that is not so.
    """
    place = Place(file=file.name)
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError("no-totals/read", where=place) from None
    result: dict[str, int] = {}
    findings = []
    for number, line in enumerate(lines, start=1):
        code, _, total = (part.strip().strip('"') for part in line.partition(","))
        if not line.strip() or (number == 1 and not any(letter.isdecimal() for letter in total)):
            continue  # the header, which may be missing
        if not total.isdecimal() or not code or code in result:
            where = Place(file=file.name, row=number)
            findings.append(Finding.of("bad-total/code", where=where, found=repr(line[:80]), code_known=code in result))
            continue
        result[code] = int(total)
    if findings or not result:
        empty = Finding.of("no-totals/file", where=place)
        raise InputError(findings or [empty])
    return result
