"""Whether the numbers of a PL 94-171 file agree with each other, at every level.

In each table by race: every subtotal is the sum of its race lines, and the total the sum of all. In each table by
origin: the same for people not Hispanic, and the total is Hispanic plus not Hispanic. Between tables: P1 and P2 have
the same total, P3 and P4 too. H1 is occupied plus vacant. The header's POP100 and HU100 are the totals of P1 and H1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from confide.inputs.pl94.findings import Findings
from confide.inputs.pl94.layout import CellArray, IntArray, PublishedTable, geo_layout, table_layout
from confide.inputs.pl94.reader import Pl94File
from confide.inputs.pl94.sparse import pieces

Sum = tuple[PublishedTable, int, CellArray | IntArray, str]
"""A table, a line counted from 1, what it must be, and that in words."""


def check_consistency(file: Pl94File, *, limit: int = 20) -> None:
    """Raise :class:`InputError` with every contradiction, up to ``limit``."""
    findings = Findings(file.path.name, limit)
    layout = table_layout()
    for level in geo_layout().levels:
        codes, done = file.geocodes(level), 0
        for rows in pieces(file.rows(level)):
            segments = [segment.dense(rows) for segment in file.segments]
            cells = {name: segments[table.segment - 1][:, table.cells] for name, table in layout.tables.items()}
            for table, line, expected, words in _sums(file, cells, rows):
                found = cells[table.name][:, line - 1]
                for row in np.flatnonzero(found != expected).tolist():
                    findings.add(
                        "sum",
                        f"Table {table.name} of {level} {codes[done + row].as_py()} contradicts {words}.",
                        member=file.members[f"{table.segment:05}"],
                        line=int(file.lines[rows[row]]),
                        column=layout.cell_name(table, line - 1),
                        found=int(found[row]),
                        expected=int(expected[row]),
                    )
            done += len(rows)
    findings.stop_if_any()


def _sums(file: Pl94File, cells: dict[str, CellArray], rows: IntArray) -> Iterator[Sum]:
    """Everything that must hold, for a piece of rows."""
    layout = table_layout()
    tables = layout.tables
    for name in ("P1", "P2", "P3", "P4"):
        table, shift = tables[name], layout.shift if tables[name].by == "origin" else 0
        races = cells[name][:, layout.race_lines - 1 + shift]
        for part in layout.subtotals:
            yield table, part.line + shift, races[:, part.start : part.stop].sum(axis=1), "the sum of its race lines"
        yield table, layout.total + shift, races.sum(axis=1), "the sum of its race lines"
        if shift:
            both = cells[name][:, layout.hispanic - 1] + cells[name][:, layout.total + shift - 1]
            yield table, layout.total, both, "the sum of Hispanic and not Hispanic"
    for name, other in (("P2", "P1"), ("P4", "P3")):
        yield tables[name], layout.total, cells[other][:, layout.total - 1], f"the total of {other}"
    units, line = cells["H1"], layout.occupancy
    both = units[:, line["occupied"] - 1] + units[:, line["vacant"] - 1]
    yield tables["H1"], line["total"], both, "the sum of occupied and vacant"
    yield tables["P1"], layout.total, file.header.population[rows], "the header's POP100"
    yield tables["H1"], line["total"], file.header.housing_units[rows], "the header's HU100"
