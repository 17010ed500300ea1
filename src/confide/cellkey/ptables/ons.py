"""The form of the Office for National Statistics: a line for each count and key, ``pcv,ckey,pvalue``.

``pcv`` goes from 1 to 750 and larger counts use the last 250 rows in turn; ``ckey`` goes from 0 to 255, or to 4095. A
table with one last row fills the lines above it with that row. Reference: the package ``cell-key-perturbation``.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv

from confide.cellkey.ptables.checks import table_findings
from confide.cellkey.ptables.parse import MOST_FINDINGS, Draft, Layout
from confide.cellkey.ptables.table import LookupRow, PTable
from confide.errors import Finding, InputError, ParameterError, Place

COLUMNS = ("pcv", "ckey", "pvalue")
ROWS, CYCLE = 750, 250
KEYS = 256
MOST_KEYS = 4096
MOST_ROWS = 10_000
_INTEGER = re.compile(r"[+-]?\d{1,12}")

Integers = npt.NDArray[np.int64]


def export_ons(table: PTable) -> str:
    """A table for counts over at most 4,096 keys as ``pcv,ckey,pvalue``."""
    fits = table.for_counts and table.whole <= MOST_KEYS and table.top <= ROWS and table.cycle in (1, CYCLE)
    if not fits or (table.cycle == CYCLE and table.top != ROWS):
        raise ParameterError(
            Finding(
                code="not-ons",
                what="this table has no form with a line for each count and key",
                where=Place(path="--format"),
                found=f"{table.whole} keys, rows up to {table.top}, noise in steps of 1/{table.step}",
                expected=f"counts, at most {MOST_KEYS} keys and {ROWS} rows",
                remedy=f"make the table for counts with --keys {KEYS} or --keys {MOST_KEYS}",
            )
        )
    keys = np.arange(table.whole)
    parts = [",".join(COLUMNS) + "\n"]
    for count in range(1, ROWS + 1):
        noise = table.lookup(np.full(table.whole, count), keys).tolist()
        parts += [f"{count},{key},{value}\n" for key, value in enumerate(noise)]
    return "".join(parts)


def read_ons(text: str, file: str) -> tuple[PTable, tuple[Finding, ...]]:
    """The table of such a file, in its shortest form, and warnings. Lines may be in any order."""
    numbers, lines = _numbers(text, file)
    pcv, ckey, pvalue = numbers.T
    bad = np.flatnonzero((pcv < 1) | (pcv > MOST_ROWS) | (ckey < 0) | (ckey >= MOST_KEYS))
    if len(bad):
        expected = f"pcv from 1 to {MOST_ROWS} and ckey from 0 to {MOST_KEYS - 1}"
        raise _problems("bad-place", "count or key is out of range", file, numbers, lines, bad, expected)
    whole, top = int(ckey.max()) + 1, int(pcv.max())
    places = (pcv - 1) * whole + ckey
    times = np.bincount(places, minlength=whole * top)
    if times.max() > 1:
        bad = np.flatnonzero(times[places] > 1)[1:]
        expected = "one line for each count and key"
        raise _problems("twice", "count and key occur more than once", file, numbers, lines, bad, expected)
    if times.min() == 0:
        missing = divmod(int(np.argmin(times)), whole)
        found = f"no line for {missing[0] + 1}, {missing[1]}"
        expected = f"every count from 1 to {top} with every key from 0 to {whole - 1}"
        raise InputError(_finding("missing-key", "a count has no noise for a key", file, 1, found, expected))
    order = np.argsort(places, kind="stable")
    noise, line_of = pvalue[order].reshape(top, whole), lines[order].reshape(top, whole)
    rows = [LookupRow(0, (0,), (whole,)), *(_row(k + 1, noise[k]) for k in range(top))]
    last = {(row.noise, row.bounds) for row in rows[-CYCLE:]}
    cycle = CYCLE if top == ROWS and len(last) > 1 else 1
    draft = Draft(tuple(rows), whole, 1, "all", cycle, Layout(COLUMNS, ","), (), ())

    def where(row: int, interval: int) -> Place:
        key = rows[row].bounds[interval - 1] if interval else 0
        return Place(file=file, line=int(line_of[row - 1, key]) if row else 1, column="pvalue")

    checked = list(table_findings(draft, where))
    errors = [finding for finding in checked if finding.severity == "error"]
    if errors:
        raise InputError(errors[:MOST_FINDINGS])
    return PTable(tuple(rows), whole, cycle=cycle).compact(), tuple(checked)


def _numbers(text: str, file: str) -> tuple[Integers, Integers]:
    """The three columns and the line of each row. What the quick reader refuses is read again, line by line."""
    header, _, rest = text.partition("\n")
    names = [name.strip().strip('"').lower() for name in header.split(",")]
    if not rest.strip():
        expected = "a line for each count and key"
        raise InputError(_finding("no-rows", "the file has no rows", file, 1, "a header alone", expected))
    try:
        read = pacsv.read_csv(
            pa.py_buffer(rest.encode()),
            read_options=pacsv.ReadOptions(column_names=names),
            parse_options=pacsv.ParseOptions(ignore_empty_lines=False),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.int64()), include_columns=list(COLUMNS), null_values=[]
            ),
        )
    except pa.ArrowInvalid:
        return _slowly(rest, names, file)
    columns = [read.column(name).to_numpy() for name in COLUMNS]
    return np.column_stack(columns), np.arange(2, len(columns[0]) + 2)


def _slowly(rest: str, names: list[str], file: str) -> tuple[Integers, Integers]:
    places = [names.index(name) for name in COLUMNS]
    findings, rows, lines = [], [], []
    for number, line in enumerate(rest.splitlines(), start=2):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        chosen = [cells[place] for place in places] if len(cells) == len(names) else []
        if not chosen or not all(_INTEGER.fullmatch(cell) for cell in chosen):
            expected = f"{len(names)} values, those of {', '.join(COLUMNS)} whole numbers"
            findings.append(_finding("not-a-number", "a value is not a whole number", file, number, line, expected))
            if len(findings) == MOST_FINDINGS:
                break
            continue
        rows.append([int(cell) for cell in chosen])
        lines.append(number)
    if findings:
        raise InputError(findings)
    return np.array(rows, np.int64), np.array(lines, np.int64)


def _problems(
    code: str, what: str, file: str, numbers: Integers, lines: Integers, bad: Integers, expected: str
) -> InputError:
    return InputError(
        _finding(code, what, file, int(lines[k]), f"{numbers[k, 0]}, {numbers[k, 1]}", expected)
        for k in bad[:MOST_FINDINGS]
    )


def _row(pcv: int, noise: Integers) -> LookupRow:
    """Runs of the same noise become intervals."""
    ends = [*(np.flatnonzero(np.diff(noise)) + 1).tolist(), len(noise)]
    return LookupRow(pcv, tuple(int(noise[end - 1]) for end in ends), tuple(ends))


def _finding(code: str, what: str, file: str, line: int, found: str, expected: str) -> Finding:
    return Finding(code, what, Place(file=file, line=line), found[:40], expected, "correct the file, or export it anew")
