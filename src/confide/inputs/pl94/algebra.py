"""From the published tables to people: the cross-classification that P1 to P4 determine.

For a block and a set of races, let P1 count everybody, P2 those not Hispanic, P3 those aged 18 and over and P4 those
both. Inclusion and exclusion give the four parts of votingage x hispanic:

    not Hispanic, 18 and over   P4
    Hispanic, 18 and over       P3 - P4
    not Hispanic, under 18      P2 - P4
    Hispanic, under 18          P1 - P2 - P3 + P4

The map is one to one, so the records made from it tabulate back to every published cell (docs/concepts/pl94.md).
Nothing else about a person is determined. A negative part means that the tables contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from confide.inputs.pl94.findings import Findings
from confide.inputs.pl94.layout import CELLS, RACES, CellArray, IntArray, PublishedTable, table_layout
from confide.inputs.pl94.reader import Pl94File
from confide.inputs.pl94.sparse import SparseRows, pieces

PARTS = (
    ("not Hispanic, under 18", "P2 - P4"),
    ("Hispanic, under 18", "P1 - P2 - P3 + P4"),
    ("not Hispanic, 18 and over", "P4"),
    ("Hispanic, 18 and over", "P3 - P4"),
)


def people(p1: CellArray, p2: CellArray, p3: CellArray, p4: CellArray) -> CellArray:
    """Counts of shape (areas, 2, 2, 63), axes votingage, hispanic, cenrace, from the race lines of P1 to P4."""
    return np.stack([p2 - p4, p1 - p2 - p3 + p4, p4, p3 - p4], axis=1).reshape(len(p1), 2, 2, -1)


def persons_from_pl94(file: Pl94File, *, limit: int = 20) -> SparseRows:
    """Counts of people by block: a row for each block in order of geocode, 252 = 2 x 2 x 63 cells in C order.

    Raises :class:`InputError` naming block, race line and tables where a count would be negative.
    """
    findings = Findings(file.path.name, limit)
    counts = SparseRows.gather(CELLS, _counts(file, findings))
    findings.stop_if_any()
    return counts


def _counts(file: Pl94File, findings: Findings) -> Iterator[CellArray]:
    layout = table_layout()
    tables = [layout.tables[name] for name in ("P1", "P2", "P3", "P4")]
    done = 0
    for rows in pieces(file.rows("block")):
        segments = [segment.dense(rows) for segment in file.segments]
        counts = people(*(segments[table.segment - 1][:, layout.race_columns(table)] for table in tables))
        if int(counts.min()) < 0:
            _negative(file, findings, counts, rows, done, tables)
        done += len(rows)
        yield np.maximum(counts, 0).reshape(len(rows), CELLS)


def _negative(
    file: Pl94File, findings: Findings, counts: CellArray, rows: IntArray, done: int, tables: list[PublishedTable]
) -> None:
    layout, codes = table_layout(), file.geocodes("block")
    flat = counts.reshape(len(rows), 4, RACES)
    for row, part, race in np.argwhere(flat < 0).tolist():
        who, formula = PARTS[part]
        used = [table for table in tables if table.name in formula]
        cells = [(table, int(layout.race_columns(table)[race]) - table.first) for table in used]
        values = [f"{layout.cell_name(t, c)} = {file.dense(t, rows[row : row + 1])[0, c]}" for t, c in cells]
        findings.add(
            "negative",
            f"Tables {', '.join(t.name for t in used)} of block {codes[done + row].as_py()} contradict each other: "
            f"the number of people {who}, {formula}, is negative.",
            member=file.members[f"{used[-1].segment:05}"],
            line=int(file.lines[rows[row]]),
            column=layout.cell_name(*cells[-1]),
            found=f"{', '.join(values)}: {flat[row, part, race]}",
            expected="at least 0",
            remedy="Use a file as published: files changed by hand or by noise may have no people behind them.",
        )
