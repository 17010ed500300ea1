"""From people back to the published tables, and whether the two agree.

:func:`tabulate` computes P1 to P4 of any area from its counts of people; :func:`compare` reads a written person file
and sets its tabulations against every published cell, level by level; :func:`check_consistency` asks the same of the
sums inside the published tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from confide.errors import Finding, InputError, Place
from confide.inputs.pl94.findings import Findings
from confide.inputs.pl94.layout import (
    CELLS,
    RACES,
    CellArray,
    IntArray,
    Level,
    PublishedTable,
    geo_layout,
    table_layout,
)
from confide.inputs.pl94.reader import Pl94File
from confide.inputs.pl94.sparse import SparseRows, pieces

PERSON_TABLES = ("P1", "P2", "P3", "P4")


@dataclass(frozen=True, slots=True)
class LevelComparison:
    """How one level's published cells compare with a tabulation of the person file."""

    level: str
    areas: int
    cells: int
    different: int

    @property
    def ok(self) -> bool:
        return self.different == 0


def race_table(counts: CellArray | IntArray) -> CellArray | IntArray:
    """The 71 lines of a table by race, from counts of shape (areas, 63)."""
    layout = table_layout()
    lines = np.zeros((len(counts), layout.tables["P1"].lines), counts.dtype)
    lines[:, layout.race_lines - 1] = counts
    for subtotal in layout.subtotals:
        lines[:, subtotal.line - 1] = counts[:, subtotal.start : subtotal.stop].sum(axis=1)
    lines[:, layout.total - 1] = counts.sum(axis=1)
    return lines


def tabulate(counts: CellArray | IntArray, table: PublishedTable) -> CellArray | IntArray:
    """The lines of P1, P2, P3 or P4 from counts of people, of shape (areas, 252) or (areas, 2, 2, 63)."""
    layout = table_layout()
    people = counts.reshape(len(counts), 2, 2, RACES)
    people = people[:, 1] if table.universe == "adults" else people.sum(axis=1, dtype=counts.dtype)
    if table.by == "race":
        return race_table(people.sum(axis=1, dtype=counts.dtype))
    not_hispanic = race_table(people[:, 0])
    lines = np.zeros((len(counts), table.lines), counts.dtype)
    lines[:, layout.hispanic - 1] = people[:, 1].sum(axis=1)
    lines[:, layout.shift :] = not_hispanic  # its total lands on the line "not Hispanic"
    lines[:, layout.total - 1] = lines[:, layout.hispanic - 1] + not_hispanic[:, layout.total - 1]
    return lines


def count_persons(persons: Path, geocodes: pa.Array, *, batch: int = 1 << 20) -> SparseRows:
    """Counts of people by block from a person file: a row for each of the sorted ``geocodes``."""
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    with parquet.ParquetFile(persons, read_dictionary=["geocode"]) as file:
        for rows in file.iter_batches(batch, columns=["geocode", "votingage", "hispanic", "cenrace"]):
            codes = rows["geocode"]
            block = pc.index_in(codes.dictionary, value_set=geocodes).take(codes.indices)
            if block.null_count:
                raise InputError(
                    Finding("pl94.persons", "A person is in a block that is not in the file.", Place(file=persons.name))
                )
            key = block.to_numpy().astype(np.int64)
            for name, size in (("votingage", 2), ("hispanic", 2), ("cenrace", RACES)):
                code = rows[name].to_numpy()
                if len(code) and not 0 <= int(code.min()) <= int(code.max()) < size:
                    raise InputError(
                        Finding(
                            "pl94.persons",
                            "A code is not in the range of its column.",
                            Place(file=persons.name, column=name),
                            expected=f"0 to {size - 1}",
                        )
                    )
                key = key * size + code
            unique, times = np.unique(key, return_counts=True)
            keys.append(unique)
            counts.append(times)
    cell, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(cell), np.int64)
    np.add.at(total, inverse, np.concatenate(counts))
    starts = np.searchsorted(cell, np.arange(len(geocodes) + 1, dtype=np.int64) * CELLS)
    return SparseRows(CELLS, starts.astype(np.int64), (cell % CELLS).astype(np.uint16), total.astype(np.int32))


def compare(file: Pl94File, counts: SparseRows, *, findings: Findings | None = None) -> tuple[LevelComparison, ...]:
    """Set tabulations of people by block against the published P1 to P4 of every level that is verified.

    ``counts`` is what :func:`count_persons` or :func:`persons_from_pl94` gives. Differences go into ``findings``.
    """
    findings = Findings(file.path.name) if findings is None else findings
    return tuple(
        _compare_level(file, counts, level, findings) for level in geo_layout().levels.values() if level.verify
    )


def _compare_level(file: Pl94File, counts: SparseRows, level: Level, findings: Findings) -> LevelComparison:
    layout = table_layout()
    codes, rows = file.geocodes(level.name), file.rows(level.name)
    area = _area_of_block(file, level, findings)
    cells = different = 0
    for start, piece, people in _sums(counts, area, rows, level.name == "block"):
        for name in PERSON_TABLES:
            table = layout.tables[name]
            made, published = tabulate(people, table), file.dense(table, piece)
            cells += published.size
            wrong = np.argwhere(made != published)
            different += len(wrong)
            for row, line in wrong.tolist():
                findings.add(
                    "tabulation",
                    f"The people in the blocks of {level.name} {codes[start + row].as_py()} do not add up to its "
                    "published cell.",
                    member=file.members[f"{table.segment:05}"],
                    line=int(file.lines[piece[row]]),
                    column=layout.cell_name(table, line),
                    found=int(made[row, line]),
                    expected=int(published[row, line]),
                )
    return LevelComparison(level.name, len(rows), cells, different)


def _sums(
    counts: SparseRows, area: IntArray, rows: IntArray, blocks: bool
) -> Iterator[tuple[int, IntArray, CellArray | IntArray]]:
    """Pieces of a level: where it starts, its rows in the file, and its counts of people."""
    done = 0
    for piece in pieces(rows):
        here = np.arange(done, done + len(piece))
        if blocks:
            yield done, piece, counts.dense(here)
        else:
            inside = np.flatnonzero((area >= done) & (area < done + len(piece)))
            yield done, piece, counts.sums(inside, area[inside] - done, len(piece))
        done += len(piece)


def _area_of_block(file: Pl94File, level: Level, findings: Findings) -> IntArray:
    """For each block in order of geocode, the place of its area among the level's sorted rows; -1 for none."""
    codes = file.codes(level, file.rows("block"))
    place = pc.index_in(codes, value_set=file.geocodes(level.name))
    lost = pc.is_null(place)
    if level.none is not None:
        lost = pc.and_(lost, pc.invert(pc.ends_with(codes, pattern=level.none)))
    for code in pc.unique(codes.filter(lost)).to_pylist():
        findings.add(
            "area",
            f"Blocks are in {level.name} {code}, which has no row of its own (summary level {level.sumlev}).",
            member=file.members["geo"],
        )
    return np.asarray(pc.fill_null(place, -1).to_numpy(), dtype=np.int64)
