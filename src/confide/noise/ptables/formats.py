"""Perturbation tables as text, in the columns of tau-ARGUS, of the R package ``ptable``, of SAS, and in our own.

One interval for each line, rows of ascending count one after the other:

* ``i`` count, ``j`` target, ``v`` noise, ``p`` probability, ``p_int_ub`` (older: ``p_ij_ub``) upper and ``p_int_lb``
  lower bound of the interval, ``type`` for magnitudes; decimals, separated by semicolons or commas;
* our own form has the bounds as whole numbers, ``key_from`` and ``key_below`` of ``keys``, and so needs no decimals.

Bounds decide. A probability that is stated beside them must agree with them as far as its digits go; it is kept as it
was written, so that a file that was read can be written again byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from confide.arrays import Integers
from confide.errors import Finding, InputError, ParameterError, Place
from confide.noise.ptables.ptable import TYPES, LookupRow, PTable, table_findings

# The text of a perturbation table, line by line: every mistake with its line, column, value, and what was expected.

UPPER = ("p_int_ub", "p_ij_ub", "key_below")
KNOWN = ("i", "j", "v", "p", "p_int_lb", *UPPER, "key_from", "keys", "type")
MOST_FINDINGS = 20
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_LONGEST = 40
_DECIMALS = 15
_MOST_STEPS = 49
_MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class PTableLayout:
    """How a file is written: columns, separator, quoted names, columns padded to a width, line ends."""

    columns: tuple[str, ...]
    separator: str
    quoted: bool = False
    padded: bool = False
    newline: str = "\n"
    ends: bool = True


@dataclass(frozen=True)
class PTableDraft:
    """What a file says, checked: everything that a table is made of."""

    rows: tuple[LookupRow, ...]
    modulus: int
    step: int
    kind: str
    cycle: int
    layout: PTableLayout
    probabilities: tuple[tuple[str, ...], ...]
    warnings: tuple[Finding, ...]


@dataclass(slots=True)
class _Line:
    number: int
    values: dict[str, Fraction]
    texts: dict[str, str]


@dataclass(slots=True)
class _Problems:
    """Findings of a file, up to a number that a person wants to read."""

    file: str
    findings: list[Finding] = field(default_factory=list)

    def collect(self, key: str, line: int, column: str | None = None, found: str | None = None, **facts: Any) -> None:
        place = Place(file=self.file, line=line, column=column)
        self.findings.append(Finding.of(key, where=place, found=None if found is None else found[:_LONGEST], **facts))

    def stop(self) -> None:
        if self.findings:
            raise InputError(self.findings[:MOST_FINDINGS])


def parse(text: str, file: str, kind: str | None = None) -> PTableDraft:
    """A table of one of the forms with an interval in each line."""
    problems = _Problems(file)
    layout, extra = _layout(text, problems)
    lines = _lines(text, layout, extra, problems)
    problems.stop()
    lines, kind = _of_kind(lines, kind, problems)
    modulus, step = _modulus(lines, layout, problems), _step(lines, problems)
    problems.stop()
    upper = next(name for name in UPPER if name in layout.columns)
    groups: list[list[_Line]] = []
    for line in lines:
        i = line.values["i"]
        if i.denominator != 1 or i < 0:
            problems.collect("bad-count", line.number, "i", line.texts["i"])
        if not groups or groups[-1][0].values["i"] != i:
            groups.append([])
        groups[-1].append(line)
        _check_line(line, problems)
    if len(groups) > _MOST_ROWS:
        problems.collect("too-many-rows", 1, "i", str(len(groups)), most=_MOST_ROWS)
    problems.stop()
    scale: Callable[[Fraction], int] = (lambda x: int(x)) if upper == "key_below" else (lambda x: int(x * modulus))
    rows = tuple(
        LookupRow(
            int(group[0].values["i"]),
            tuple(round(line.values["v"] * step) for line in group),
            tuple(scale(line.values[upper]) for line in group),
        )
        for group in groups
    )
    probabilities = tuple(tuple(line.texts.get("p", "") for line in group) for group in groups)
    draft = PTableDraft(rows, modulus, step, kind, 1, layout, probabilities, ())
    where = _where(file, groups, upper)
    findings = list(table_findings(draft, where))
    problems.findings += [finding for finding in findings if finding.severity == "error"]
    _check_shares(groups, rows, modulus, problems)
    problems.stop()
    return PTableDraft(
        rows, modulus, step, kind, 1, layout, probabilities, tuple(f for f in findings if f.severity == "warning")
    )


def _layout(text: str, problems: _Problems) -> tuple[PTableLayout, tuple[str, ...]]:
    """The layout that the header shows, and all columns, including those that are passed over."""
    newline = "\r\n" if "\r\n" in text else "\n"
    first, _, body = text.partition(newline)
    separator = ";" if ";" in first else ","
    written = tuple(name.strip() for name in first.split(separator))
    names = tuple(name.strip('"').strip() for name in written)
    columns = tuple(name for name in names if name in KNOWN)
    uppers = [name for name in UPPER if name in names]
    if not {"i", "v"} <= set(names) or len(uppers) != 1 or len(set(columns)) != len(columns):
        problems.collect("bad-header/columns", 1, found=first)
    elif ("key_below" in uppers) != ("keys" in names):
        problems.collect("bad-header/together", 1, found=first)
    problems.stop()
    quoted = all(name.startswith('"') for name in written)
    padded = any(separator + " " in line for line in body.split(newline))
    decimals = {
        len(line.split(separator)[names.index(uppers[0])].partition(".")[2])
        for line in _full(body, newline, names, separator)
    }
    padded = padded or (len(decimals) == 1 and decimals != {0})
    return PTableLayout(columns, separator, quoted, padded, newline, text.endswith(newline)), names


def _full(body: str, newline: str, names: tuple[str, ...], separator: str) -> list[str]:
    return [line for line in body.split(newline) if line.count(separator) == len(names) - 1]


def _lines(text: str, layout: PTableLayout, names: tuple[str, ...], problems: _Problems) -> list[_Line]:
    lines = []
    for number, written in enumerate(text.split(layout.newline)[1:], start=2):
        if not written.strip():
            continue
        cells = [cell.strip().strip('"') for cell in written.split(layout.separator)]
        if len(cells) != len(names):
            problems.collect("bad-line", number, found=str(len(cells)), columns=len(names), separator=layout.separator)
            continue
        texts = {name: cell for name, cell in zip(names, cells, strict=True) if name in KNOWN}
        values = {}
        for name, cell in texts.items():
            if name == "type":
                if cell not in TYPES:
                    problems.collect("bad-type", number, name, cell)
            elif len(cell) <= _LONGEST and _NUMBER.fullmatch(cell):
                values[name] = Fraction(cell)
            else:
                problems.collect("not-a-number/decimal", number, name, cell)
        lines.append(_Line(number, values, texts))
    if not lines and not problems.findings:
        problems.collect("no-rows/intervals", 1)
    return lines


def _of_kind(lines: list[_Line], kind: str | None, problems: _Problems) -> tuple[list[_Line], str]:
    """The lines of one type; row zero is common to all."""
    kinds = sorted({line.texts.get("type", "all") for line in lines if line.values["i"]} or {"all"})
    if kind is None and len(kinds) == 1:
        return lines, kinds[0]
    if kind not in kinds:
        problems.collect("several-types", 1, "type", ", ".join(kinds))
        problems.stop()
    assert kind is not None
    zero = {line.texts.get("type", "all") for line in lines if not line.values["i"]}
    of_zero = kind if kind in zero else min(zero, default=kind)
    return [line for line in lines if line.texts.get("type", "all") == (kind if line.values["i"] else of_zero)], kind


def _modulus(lines: list[_Line], layout: PTableLayout, problems: _Problems) -> int:
    """The number of keys: stated, or 10 to the number of decimals; of trimmed decimals at least eight."""
    if "keys" in layout.columns:
        for line in lines:
            if line.texts["keys"] != lines[0].texts["keys"] or line.values["keys"].denominator != 1:
                problems.collect("bad-keys", line.number, "keys", line.texts["keys"], keys=lines[0].texts["keys"])
                break
        return max(1, int(lines[0].values["keys"]))
    upper = next(name for name in UPPER if name in layout.columns)
    most = 0
    for line in lines:
        share = line.values[upper]
        digits = next((d for d in range(_DECIMALS + 1) if (share * 10**d).denominator == 1), None)
        if digits is None:
            problems.collect("too-many-decimals", line.number, upper, line.texts[upper], most=_DECIMALS)
            continue
        written = len(line.texts[upper].partition(".")[2]) if "e" not in line.texts[upper].lower() else 0
        most = max(most, digits, min(written, _DECIMALS))
    return int(10 ** (most if layout.padded and most else max(8, most)))


def _step(lines: list[_Line], problems: _Problems) -> int:
    """The smallest number of steps to one on whose grid all noise lies."""
    for step in range(1, _MOST_STEPS + 1):
        if all(abs(line.values["v"] * step - round(line.values["v"] * step)) <= Fraction(1, 10**5) for line in lines):
            return step
    line = lines[0]
    problems.collect("bad-grid", line.number, "v", line.texts["v"], most=_MOST_STEPS)
    return 1


def _check_line(line: _Line, problems: _Problems) -> None:
    values = line.values
    if "j" in values and abs(values["j"] - values["i"] - values["v"]) > Fraction(1, 10**5):
        total = float(values["i"] + values["v"])
        problems.collect("bad-target/sum", line.number, "j", line.texts["j"], sum=total)
    if "p" in values and not 0 <= values["p"] <= 1:
        problems.collect("bad-probability/line", line.number, "p", line.texts["p"])


def _check_shares(groups: list[list[_Line]], rows: tuple[LookupRow, ...], modulus: int, problems: _Problems) -> None:
    """Stated probabilities and lower bounds against the bounds; the last digit of either may be lost."""
    digits = max(len(line.texts.get("p", "").partition(".")[2]) for group in groups for line in group)
    slack = Fraction(1, modulus) + Fraction(1, 10 ** min(digits or 8, _DECIMALS)) + Fraction(1, 10**12)
    for group, row in zip(groups, rows, strict=True):
        below = 0
        for line, bound in zip(group, row.bounds, strict=True):
            length = Fraction(bound - below, modulus)
            if "p" in line.values and abs(line.values["p"] - length) > slack:
                problems.collect(
                    "probability-differs", line.number, "p", line.texts["p"], row=row.i, length=float(length)
                )
            for name, unit in (("p_int_lb", modulus), ("key_from", 1)):
                if name in line.values and line.values[name] * unit != below:
                    lower = below / modulus if unit == modulus else below
                    problems.collect("bad-lower-bound", line.number, name, line.texts[name], lower=lower)
            below = bound


def _where(file: str, groups: list[list[_Line]], upper: str) -> Callable[[int, int], Place]:
    def where(row: int, interval: int) -> Place:
        group = groups[row]
        return Place(file=file, line=group[min(interval, len(group) - 1)].number, column=upper)

    return where


# The form of the Office for National Statistics: a line for each count and key, ``pcv,ckey,pvalue``.
#
# ``pcv`` goes from 1 to 750 and larger counts use the last 250 rows in turn; ``ckey`` goes from 0 to 255, or to 4095.
# A table with one last row fills the lines above it with that row. Reference: the package ``cell-key-perturbation``.


COLUMNS = ("pcv", "ckey", "pvalue")
ROWS, CYCLE = 750, 250
KEYS = 256
MOST_KEYS = 4096
MOST_ROWS = 10_000
_INTEGER = re.compile(r"[+-]?\d{1,12}")


def export_ons(table: PTable) -> str:
    """A table for counts over at most 4,096 keys as ``pcv,ckey,pvalue``."""
    fits = table.for_counts and table.modulus <= MOST_KEYS and table.top <= ROWS and table.cycle in (1, CYCLE)
    if not fits or (table.cycle == CYCLE and table.top != ROWS):
        raise ParameterError(
            "not-ons",
            where=Place(path="--format"),
            modulus=table.modulus,
            top=table.top,
            step=table.step,
            most_keys=MOST_KEYS,
            rows=ROWS,
            keys=KEYS,
        )
    keys = np.arange(table.modulus)
    parts = [",".join(COLUMNS) + "\n"]
    for count in range(1, ROWS + 1):
        noise = table.lookup(np.full(table.modulus, count), keys).tolist()
        parts += [f"{count},{key},{value}\n" for key, value in enumerate(noise)]
    return "".join(parts)


def read_ons(text: str, file: str) -> tuple[PTable, tuple[Finding, ...]]:
    """The table of such a file, in its shortest form, and warnings. Lines may be in any order."""
    numbers, lines = _numbers(text, file)
    pcv, ckey, pvalue = numbers.T
    bad = np.flatnonzero((pcv < 1) | (pcv > MOST_ROWS) | (ckey < 0) | (ckey >= MOST_KEYS))
    if len(bad):
        raise _problems("bad-place", file, numbers, lines, bad, most_rows=MOST_ROWS, most_key=MOST_KEYS - 1)
    modulus, top = int(ckey.max()) + 1, int(pcv.max())
    places = (pcv - 1) * modulus + ckey
    times = np.bincount(places, minlength=modulus * top)
    if times.max() > 1:
        bad = np.flatnonzero(times[places] > 1)[1:]
        raise _problems("twice/line", file, numbers, lines, bad)
    if times.min() == 0:
        missing = divmod(int(np.argmin(times)), modulus)
        raise InputError(
            "missing-key/count",
            where=Place(file=file, line=1),
            count=missing[0] + 1,
            key=missing[1],
            top=top,
            modulus=modulus - 1,
        )
    order = np.argsort(places, kind="stable")
    noise, line_of = pvalue[order].reshape(top, modulus), lines[order].reshape(top, modulus)
    rows = [LookupRow(0, (0,), (modulus,)), *(_row(k + 1, noise[k]) for k in range(top))]
    last = {(row.noise, row.bounds) for row in rows[-CYCLE:]}
    cycle = CYCLE if top == ROWS and len(last) > 1 else 1
    draft = PTableDraft(tuple(rows), modulus, 1, "all", cycle, PTableLayout(COLUMNS, ","), (), ())

    def where(row: int, interval: int) -> Place:
        key = rows[row].bounds[interval - 1] if interval else 0
        return Place(file=file, line=int(line_of[row - 1, key]) if row else 1, column="pvalue")

    checked = list(table_findings(draft, where))
    errors = [finding for finding in checked if finding.severity == "error"]
    if errors:
        raise InputError(errors[:MOST_FINDINGS])
    return PTable(tuple(rows), modulus, cycle=cycle).compact(), tuple(checked)


def _numbers(text: str, file: str) -> tuple[Integers, Integers]:
    """The three columns and the line of each row. What the quick reader refuses is read again, line by line."""
    header, _, body = text.partition("\n")
    names = [name.strip().strip('"').lower() for name in header.split(",")]
    if not body.strip():
        raise InputError("no-rows/file", where=Place(file=file, line=1))
    try:
        read = pacsv.read_csv(
            pa.py_buffer(body.encode()),
            read_options=pacsv.ReadOptions(column_names=names),
            parse_options=pacsv.ParseOptions(ignore_empty_lines=False),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.int64()), include_columns=list(COLUMNS), null_values=[]
            ),
        )
    except pa.ArrowInvalid:
        return _slowly(body, names, file)
    columns = [read.column(name).to_numpy() for name in COLUMNS]
    return np.column_stack(columns), np.arange(2, len(columns[0]) + 2)


def _slowly(body: str, names: list[str], file: str) -> tuple[Integers, Integers]:
    places = [names.index(name) for name in COLUMNS]
    findings, rows, lines = [], [], []
    for number, line in enumerate(body.splitlines(), start=2):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        values = [cells[place] for place in places] if len(cells) == len(names) else []
        if not values or not all(_INTEGER.fullmatch(cell) for cell in values):
            findings.append(
                Finding.of(
                    "not-a-number/whole",
                    where=Place(file=file, line=number),
                    found=line[:40],
                    names=len(names),
                    columns=", ".join(COLUMNS),
                )
            )
            if len(findings) == MOST_FINDINGS:
                break
            continue
        rows.append([int(cell) for cell in values])
        lines.append(number)
    if findings:
        raise InputError(findings)
    return np.array(rows, np.int64), np.array(lines, np.int64)


def _problems(key: str, file: str, numbers: Integers, lines: Integers, bad: Integers, **facts: Any) -> InputError:
    places = [(Place(file=file, line=int(lines[k])), f"{numbers[k, 0]}, {numbers[k, 1]}") for k in bad[:MOST_FINDINGS]]
    return InputError(Finding.of(key, where=where, found=found[:40], **facts) for where, found in places)


def _row(pcv: int, noise: Integers) -> LookupRow:
    """Runs of the same noise become intervals."""
    ends = [*(np.flatnonzero(np.diff(noise)) + 1).tolist(), len(noise)]
    return LookupRow(pcv, tuple(int(noise[end - 1]) for end in ends), tuple(ends))


Form = Literal["tau-argus", "sas", "csv"]

LARGEST_FILE = 1 << 28
MOST_DECIMALS = 15


@dataclass(frozen=True)
class PTableFile:
    """A table as it was read: with its layout, the probabilities as they were written, and warnings."""

    table: PTable
    layout: PTableLayout
    probabilities: tuple[tuple[str, ...], ...]
    findings: tuple[Finding, ...] = ()

    def text(self) -> str:
        """The file again: the same characters if it was written by one of the programs named above."""
        return _written(self.table, self.layout, self.probabilities)


def read_table(path: Path | str, kind: str | None = None) -> PTableFile:
    """Read a table of any of the forms; all mistakes are reported, with their line and column.

    ``kind`` chooses among the types of a file that has several.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError("unreadable-ptable/large", where=Place(file=str(path)))
        if path.is_fifo():
            raise InputError("unreadable-ptable/pipe", where=Place(file=str(path)))
        # newline="" keeps the line ends, which are part of the layout.
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except OSError as problem:
        raise InputError("unreadable-ptable/readable", where=Place(file=str(path)), strerror=problem.strerror) from None
    except UnicodeDecodeError:
        raise InputError("unreadable-ptable/text", where=Place(file=str(path))) from None
    header = [name.strip().strip('"').lower() for name in text.partition("\n")[0].strip().split(",")]
    if set(COLUMNS) <= set(header):
        table, warnings = read_ons(text, str(path))
        return PTableFile(table, PTableLayout(COLUMNS, ","), (), warnings)
    draft: PTableDraft = parse(text, str(path), kind)
    table = PTable(draft.rows, draft.modulus, draft.step, draft.kind)
    return PTableFile(table, draft.layout, draft.probabilities, draft.warnings)


def export_text(table: PTable, form: Form = "tau-argus") -> str:
    """A table as text. Decimal forms need a number of keys that is a power of ten, up to 10**15.

    Args:
        table: The table.
        form: ``tau-argus``, ``sas`` or ``csv``, our own, which has whole numbers.

    >>> from confide.noise.ptables import count_settings, generate
    >>> print(export_text(generate(count_settings(1, "1/2")).table(100), "csv"), end="")
    i,j,v,p,key_from,key_below,keys,type
    0,0,0,1,0,100,100,all
    1,0,-1,0.25,0,25,100,all
    1,1,0,0.5,25,75,100,all
    1,2,1,0.25,75,100,100,all
    """
    extra = ("type",) if table.step > 1 or table.kind != "all" else ()
    layouts = {
        "tau-argus": PTableLayout(("i", "j", "p", "v", "p_int_ub", *extra), ";", padded=True),
        "sas": PTableLayout(("i", "j", "p", "v", "p_int_lb", "p_int_ub", *extra), ";", padded=True),
        "csv": PTableLayout(("i", "j", "v", "p", "key_from", "key_below", "keys", "type"), ","),
    }
    if form != "csv" and (10 ** (len(str(table.modulus)) - 1) != table.modulus or table.modulus > 10**MOST_DECIMALS):
        raise ParameterError("not-decimal", where=Place(path="--format"), modulus=table.modulus)
    if table.cycle != 1:
        raise ParameterError("no-such-rule", where=Place(path="--format"), cycle=table.cycle)
    return _written(table, layouts[form], None)


def _written(table: PTable, layout: PTableLayout, probabilities: tuple[tuple[str, ...], ...] | None) -> str:
    if layout.columns == COLUMNS:
        return export_ons(table)
    lines = list(_cells(table, layout, probabilities))
    if layout.padded:
        columns = [_justified(list(column)) for column in zip(*lines, strict=True)]
        lines = [list(line) for line in zip(*columns, strict=True)]
    header = layout.separator.join(f'"{name}"' if layout.quoted else name for name in layout.columns)
    rows = [layout.separator.join(line) for line in lines]
    return layout.newline.join([header, *rows]) + (layout.newline if layout.ends else "")


def _cells(
    table: PTable, layout: PTableLayout, probabilities: tuple[tuple[str, ...], ...] | None
) -> Iterator[list[str]]:
    digits = len(str(table.modulus)) - 1 if layout.padded else None
    for number, row in enumerate(table.rows):
        below = 0
        for k, (value, bound) in enumerate(zip(row.noise, row.bounds, strict=True)):
            cells = {
                "i": str(row.i),
                "j": _noise(row.i * table.step + value, table.step),
                "v": _noise(value, table.step),
                "p": probabilities[number][k] if probabilities else _decimal(bound - below, table.modulus, digits),
                "p_int_lb": _decimal(below, table.modulus, digits),
                "p_int_ub": _decimal(bound, table.modulus, digits),
                "p_ij_ub": _decimal(bound, table.modulus, digits),
                "key_from": str(below),
                "key_below": str(bound),
                "keys": str(table.modulus),
                "type": f'"{table.kind}"' if layout.quoted else table.kind,
            }
            yield [cells[name] for name in layout.columns]
            below = bound


def _justified(column: list[str]) -> list[str]:
    """Right-justified to a common width, with a common number of decimals."""
    decimals = max(len(text.partition(".")[2]) for text in column)
    if decimals and all(text.lstrip("-").replace(".", "").isdigit() for text in column):
        column = [f"{Decimal(text):.{decimals}f}" for text in column]
    width = max(map(len, column))
    return [text.rjust(width) for text in column]


SHARES = Context(prec=28)
"""The digits of a share: the same in every program, whatever precision it works with."""


def _decimal(keys: int, modulus: int, digits: int | None) -> str:
    """A number of keys as a share: with all digits, or without trailing zeros; a finite decimal, or 17 digits of it."""
    share = Fraction(keys, modulus)
    if digits is not None:
        return f"{SHARES.scaleb(Decimal(keys), -digits):.{digits}f}"
    denominator = share.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1 or share.denominator > 10**MOST_DECIMALS:
        return repr(float(share))
    quotient = SHARES.divide(Decimal(share.numerator), Decimal(share.denominator))
    return _trimmed(f"{quotient:f}")


def _noise(units: int, step: int) -> str:
    return str(units // step) if units % step == 0 else _trimmed(f"{units / step:.8f}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
