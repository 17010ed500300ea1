"""The geographic header: fixed-width records of 500 bytes in Latin-1, one for each area of each summary level.

Bytes are cut out of a whole chunk of lines at once. Rows of other summary levels, and of geographic components (parts
such as "urban"), are passed over, but their logical record numbers are kept: the segments have a row for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.inputs.pl94.archive import ONLY_2010, Archive
from confide.inputs.pl94.layout import GeoLayout, IntArray, geo_layout

WHOLE = b"00"  # geographic component: the whole area
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """The header's rows: ``records`` for all of them, the rest for the rows that are kept, in file order."""

    state: str
    records: IntArray
    kept: npt.NDArray[np.bool_]
    level: npt.NDArray[np.int8]
    geography: pa.Table
    population: IntArray
    housing_units: IntArray


class _Lines:
    """The lines of one chunk, and how to cut fields out of them."""

    def __init__(self, chunk: bytes, first_line: int, layout: GeoLayout):
        self.bytes = np.frombuffer(chunk, np.uint8)
        ends = np.flatnonzero(self.bytes == ord("\n"))
        self.starts = np.concatenate(([0], ends[:-1] + 1))
        self.lengths = ends - (self.bytes[ends - 1] == ord("\r")) - self.starts
        self.numbers = np.arange(first_line, first_line + len(ends))
        self.layout = layout

    def keep(self, which: npt.NDArray[np.bool_]) -> None:
        self.starts, self.numbers = self.starts[which], self.numbers[which]

    def cut(self, field: str) -> Bytes:
        start, width = self.layout.fields[field]
        return self.bytes[(self.starts + start)[:, None] + np.arange(width)]

    def raw(self, field: str) -> npt.NDArray[np.bytes_]:
        cut = self.cut(field)
        return cut.view(f"S{cut.shape[1]}").ravel()

    def text(self, *fields: str) -> pa.Array:
        """The fields, joined, without surrounding blanks."""
        cut = np.ascontiguousarray(np.concatenate([self.cut(field) for field in fields], axis=1))
        raw = cut.view(f"S{cut.shape[1]}").ravel()
        if cut.size and int(cut.max()) >= 128:
            return pc.utf8_trim_whitespace(pa.array(np.char.decode(raw, self.layout.encoding).tolist(), pa.string()))
        return pc.utf8_trim_whitespace(pa.array(raw, pa.binary()).cast(pa.string()))

    def integers(self, field: str) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """The field as integers, right-aligned in blanks, and which rows are not that."""
        cut = self.cut(field)
        digit = (cut >= ord("0")) & (cut <= ord("9"))
        blank_first = (cut == ord(" ")) & (np.cumsum(digit, axis=1) == 0)
        wrong = ~((digit | blank_first).all(axis=1) & digit[:, -1])
        powers = 10 ** np.arange(cut.shape[1] - 1, -1, -1, dtype=np.int64)
        return np.where(digit, cut - ord("0"), 0).astype(np.int64) @ powers, wrong


def read_header(archive: Archive) -> Header:
    """Read the header; rows that are not as the layout says are findings of the archive."""
    layout, findings, member = geo_layout(), archive.findings, archive.name("geo")
    sumlevs = np.array([level.sumlev.encode() for level in layout.levels.values()])
    order = np.argsort(sumlevs)
    integers = ["LOGRECNO", "POP100", "HU100"]
    integers += [column.fields[0] for column in layout.columns.values() if column.kind == "integer"]
    records, kept, levels, tables = [], [], [], []
    counts: dict[str, list[IntArray]] = {"POP100": [], "HU100": []}
    states: set[bytes] = set()
    lines_seen = 0
    for chunk in archive.chunks("geo"):
        if not lines_seen and b"|" in chunk[: chunk.index(b"\n")]:
            raise findings.fail(
                "layout",
                f"The geographic header is separated by '|', as in 2020. {ONLY_2010}",
                member=member,
                line=1,
                remedy="Give the 2010 file of the state.",
            )
        lines = _Lines(chunk, lines_seen + 1, layout)
        lines_seen += len(lines.numbers)
        wrong = lines.lengths != layout.record_length
        if wrong.any():
            for row in np.flatnonzero(wrong):
                findings.add(
                    "line",
                    "A header record has the wrong length.",
                    member=member,
                    line=int(lines.numbers[row]),
                    found=f"{lines.lengths[row]} bytes",
                    expected=f"{layout.record_length} bytes",
                )
            continue
        numbers, wrong = lines.integers("LOGRECNO")
        sumlev = lines.raw("SUMLEV")
        place = np.minimum(np.searchsorted(sumlevs[order], sumlev), len(sumlevs) - 1)
        keep = (sumlevs[order][place] == sumlev) & (lines.raw("GEOCOMP") == WHOLE)
        records.append(numbers)
        kept.append(keep)
        levels.append(order[place[keep]].astype(np.int8))
        lines.keep(keep | wrong)
        values: dict[str, IntArray] = {}
        for field in integers:
            values[field], wrong = lines.integers(field)
            for row in np.flatnonzero(wrong):
                findings.add(
                    "number",
                    "A header field is not a number.",
                    member=member,
                    line=int(lines.numbers[row]),
                    column=field,
                    found=repr(lines.cut(field)[row].tobytes().decode(layout.encoding)),
                    expected="digits, right-aligned",
                )
        for field, list_of in counts.items():
            list_of.append(values[field])
        states.update(np.unique(lines.raw("STUSAB")).tolist())
        tables.append(_geography(lines, values))
    if len(states) != 1 and not findings.items:
        findings.add(
            "states",
            "The header names several states, or none." if lines_seen else "The header is empty.",
            member=member,
            found=", ".join(sorted(state.decode("latin-1") for state in states)) or "none",
            expected="one",
        )
    findings.stop_if_any()
    return Header(
        state=states.pop().decode("latin-1"),
        records=np.concatenate(records),
        kept=np.concatenate(kept),
        level=np.concatenate(levels),
        geography=pa.concat_tables(tables),
        population=np.concatenate(counts["POP100"]),
        housing_units=np.concatenate(counts["HU100"]),
    )


def _geography(lines: _Lines, integers: dict[str, IntArray]) -> pa.Table:
    """The columns of the layout but the geocode, which depends on the level, and the codes of block group and block."""
    columns: dict[str, pa.Array] = {}
    for column in lines.layout.columns.values():
        if column.kind == "text":
            columns[column.name] = lines.text(*column.fields)
        elif column.kind == "integer":
            columns[column.name] = pa.array(integers[column.fields[0]])
        elif column.kind == "decimal":
            columns[column.name] = pa.array(_decimals(lines.text(*column.fields)), pa.float64())
    columns |= {field: lines.text(field) for field in ("BLKGRP", "BLOCK")}
    return pa.table(columns)


def _decimals(text: pa.Array) -> pa.Array:
    """Signed decimals such as ``+41.5978358``; what is no number is null."""
    number = pc.match_substring_regex(text, r"^[+-]?[0-9]+(\.[0-9]+)?$")
    bare = pc.utf8_ltrim(pc.if_else(number, text, None), characters="+")
    return pc.cast(bare, pa.float64())
