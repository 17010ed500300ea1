"""A PL 94-171 file in memory: geography and published cells by summary level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.errors import ParameterError
from confide.lab.pl94.archive import SIZE_LIMIT, Archive, Findings, Progress
from confide.lab.pl94.segments import (
    CellArray,
    Header,
    IntArray,
    PublishedTable,
    SparseRows,
    SummaryLevel,
    geo_layout,
    read_header,
    read_segment,
    table_layout,
)


@dataclass(frozen=True, eq=False, repr=False)
class Pl94File:
    """The rows of the summary levels in ``data/pl94/geo2010.toml``, sorted by geocode within each level."""

    path: Path
    header: Header
    segments: tuple[SparseRows, SparseRows]
    members: dict[str, str]

    def __repr__(self) -> str:
        return f"<PL 94-171 file {self.path.name}: {self.header.state}, {len(self.header.level):,} rows>"

    @property
    def state(self) -> str:
        """The state's two letters."""
        return self.header.state

    @cached_property
    def lines(self) -> IntArray:
        """The line, in every member, of each kept row."""
        return np.flatnonzero(self.header.kept) + 1

    @cached_property
    def _levels(self) -> dict[str, tuple[IntArray, pa.Array]]:
        """By level: the kept rows in order of geocode, and the geocodes."""
        result = {}
        for number, level in enumerate(geo_layout().levels.values()):
            rows = np.flatnonzero(self.header.level == number)
            codes = self.codes(level, rows)
            order = pc.sort_indices(codes).to_numpy()
            result[level.name] = (rows[order], codes.take(order))
        return result

    def codes(self, level: SummaryLevel, rows: IntArray) -> pa.Array:
        """The geocodes at ``level`` of kept rows: of a block's row, the code of the area the block is in."""
        parts = [
            self.header.geography[name].take(rows).combine_chunks() for name in geo_layout().geocode_columns(level)
        ]
        return pc.binary_join_element_wise(*parts, "")

    def _level(self, level: str) -> tuple[IntArray, pa.Array]:
        try:
            return self._levels[level]
        except KeyError:
            names = ", ".join(self._levels)
            raise ParameterError("pl94.level", found=repr(level), names=names) from None

    def rows(self, level: str) -> IntArray:
        """The positions, among the kept rows, of a level's rows in order of geocode."""
        return self._level(level)[0]

    def geocodes(self, level: str) -> pa.Array:
        """The geocodes of a level, sorted."""
        return self._level(level)[1]

    def geography(self, level: str) -> pa.Table:
        """The geography of a level: geocode, outer codes, areas in square metres, interior point, name."""
        rows, codes = self._level(level)
        columns = [name for name, column in geo_layout().columns.items() if column.kind != "geocode"]
        return self.header.geography.select(columns).take(rows).add_column(0, "geocode", codes).combine_chunks()

    def cells(self, level: str, table: str) -> CellArray:
        """The published cells of a table (``P1`` to ``P4``, ``H1``), of shape (areas of the level, lines)."""
        published = published_table(table)
        return self.dense(published, self.rows(level))

    def dense(self, table: PublishedTable, rows: IntArray) -> CellArray:
        """The published cells of a table for kept rows."""
        return self.segments[table.segment - 1].dense(rows)[:, table.cells]

    def blocks(self) -> pa.Table:
        """The frame of blocks: geography and housing units. It holds no count of people."""
        units = self.cells("block", "H1")
        frame = self.geography("block")
        line = table_layout().occupancy
        place = frame.schema.get_field_index("land_area")
        frame = frame.add_column(place, "occupied_units", pa.array(units[:, line["occupied"] - 1]))
        return frame.add_column(place, "housing_units", pa.array(units[:, line["total"] - 1]))


def published_table(name: str) -> PublishedTable:
    """A published table by name."""
    tables = table_layout().tables
    if name not in tables:
        raise ParameterError("pl94.table", found=repr(name), tables=", ".join(tables))
    return tables[name]


def read_pl94(
    path: Path | str, *, limit: int = 20, size_limit: int = SIZE_LIMIT, progress: Progress | None = None
) -> Pl94File:
    """Read a state's 2010 PL 94-171 zip.

    Whether its numbers agree with each other is asked by :func:`confide.lab.pl94.check_consistency`.

    Args:
        path: The zip, as the Census Bureau publishes it.
        limit: How many findings are gathered before the reading stops.
        size_limit: The most bytes that the files may have when they are unpacked.
        progress: A display, if one is wanted.

    Raises:
        InputError: With everything that is wrong with its form.
    """
    path = Path(path)
    findings = Findings(path.name, limit)
    with Archive(path, findings, size_limit=size_limit, progress=progress) as archive:
        header = read_header(archive)
        segments = (read_segment(archive, 1, header), read_segment(archive, 2, header))
        members = {part: archive.name(part) for part in archive.members}
    file = Pl94File(path, header, segments, members)
    _check_codes(file, findings)
    findings.stop_if_any()
    return file


def _check_codes(file: Pl94File, findings: Findings) -> None:
    """A state and blocks are there; no geocode is there twice; block codes are 15 digits."""
    layout = geo_layout()
    for level in layout.levels.values():
        rows, codes = file.rows(level.name), file.geocodes(level.name)
        if not len(rows) and level.name in ("state", "block"):
            findings.add("level", f"The file has no {level.name} row (summary level {level.sumlev}).")
        twice = np.flatnonzero(pc.equal(codes[1:], codes[:-1]).to_numpy(zero_copy_only=False)) if len(rows) else ()
        for row in twice:
            findings.add(
                "geocode",
                f"A {level.name} is there twice.",
                member=file.members["geo"],
                line=int(file.lines[rows[row + 1]]),
                found=codes[int(row) + 1].as_py(),
            )
    rows, codes = file.rows("block"), file.geocodes("block")
    group = file.header.geography["BLKGRP"].take(rows).combine_chunks()
    good = pc.and_(
        pc.match_substring_regex(codes, "^[0-9]{15}$"), pc.equal(pc.utf8_slice_codeunits(codes, 11, 12), group)
    )
    for row in np.flatnonzero(~good.to_numpy(zero_copy_only=False)):
        findings.add(
            "geocode",
            "A block's code is not 15 digits, the twelfth of which is its block group.",
            member=file.members["geo"],
            line=int(file.lines[rows[row]]),
            found=f"{codes[int(row)].as_py()}, block group {group[int(row)].as_py()}",
        )
