"""Perturbation tables as text, in the columns of tau-ARGUS, of the R package ``ptable``, of SAS, and in our own.

One interval for each line, rows of ascending count one after the other:

* ``i`` count, ``j`` target, ``v`` noise, ``p`` probability, ``p_int_ub`` (older: ``p_ij_ub``) upper and ``p_int_lb``
  lower bound of the interval, ``type`` for magnitudes; decimals, separated by semicolons or commas;
* our own form has the bounds as whole numbers, ``key_from`` and ``key_below`` of ``keys``, and so needs no decimals.

Bounds decide. A probability that is stated beside them must agree with them as far as its digits go; it is kept as it
was written, so that a file that was read can be written again byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Literal

from confide.cellkey.ptables.ons import COLUMNS as ONS_COLUMNS
from confide.cellkey.ptables.ons import export_ons, read_ons
from confide.cellkey.ptables.parse import Draft, Layout, parse
from confide.cellkey.ptables.table import PTable
from confide.errors import Finding, InputError, ParameterError, Place

Form = Literal["tau-argus", "sas", "csv"]

LARGEST_FILE = 1 << 28
MOST_DECIMALS = 15


@dataclass(frozen=True)
class PTableFile:
    """A table as it was read: with its layout, the probabilities as they were written, and warnings."""

    table: PTable
    layout: Layout
    stated: tuple[tuple[str, ...], ...]
    findings: tuple[Finding, ...] = ()

    def text(self) -> str:
        """The file again: the same characters if it was written by one of the programs named above."""
        return _written(self.table, self.layout, self.stated)


def read_table(path: Path | str, kind: str | None = None) -> PTableFile:
    """Read a table of any of the forms; all mistakes are reported, with their line and column.

    ``kind`` chooses among the types of a file that has several.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(_unreadable(path, "the file is too large", "at most 256 MiB"))
        # newline="" keeps the line ends, which are part of the layout.
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except OSError as problem:
        raise InputError(_unreadable(path, problem.strerror or "the file cannot be read", "a readable file")) from None
    except UnicodeDecodeError:
        raise InputError(_unreadable(path, "the file is not text", "UTF-8 text")) from None
    header = [name.strip().strip('"').lower() for name in text.partition("\n")[0].strip().split(",")]
    if set(ONS_COLUMNS) <= set(header):
        table, warnings = read_ons(text, str(path))
        return PTableFile(table, Layout(ONS_COLUMNS, ","), (), warnings)
    draft: Draft = parse(text, str(path), kind)
    table = PTable(draft.rows, draft.whole, draft.step, draft.kind)
    return PTableFile(table, draft.layout, draft.stated, draft.warnings)


def export_text(table: PTable, form: Form = "tau-argus") -> str:
    """A table as text. Decimal forms need a number of keys that is a power of ten, up to 10**15."""
    extra = ("type",) if table.step > 1 or table.kind != "all" else ()
    layouts = {
        "tau-argus": Layout(("i", "j", "p", "v", "p_int_ub", *extra), ";", padded=True),
        "sas": Layout(("i", "j", "p", "v", "p_int_lb", "p_int_ub", *extra), ";", padded=True),
        "csv": Layout(("i", "j", "v", "p", "key_from", "key_below", "keys", "type"), ","),
    }
    if form != "csv" and (10 ** (len(str(table.whole)) - 1) != table.whole or table.whole > 10**MOST_DECIMALS):
        raise ParameterError(
            Finding(
                code="not-decimal",
                what="the bounds of this table are not decimals",
                where=Place(path="--format"),
                found=f"{table.whole} keys",
                expected="10, 100, ... or 10**15 keys",
                remedy="make the table with 100000000 keys, or use the csv form, which has whole numbers",
            )
        )
    if table.cycle != 1:
        raise ParameterError(
            Finding(
                code="no-such-rule",
                what="this form has no rule for large counts that use several rows in turn",
                where=Place(path="--format"),
                found=f"the last {table.cycle} rows in turn",
                expected="one last row for all larger counts",
                remedy="use the ons form",
            )
        )
    return _written(table, layouts[form], None)


def _written(table: PTable, layout: Layout, stated: tuple[tuple[str, ...], ...] | None) -> str:
    if layout.columns == ONS_COLUMNS:
        return export_ons(table)
    lines = list(_cells(table, layout, stated))
    if layout.padded:
        columns = [_justified(list(column)) for column in zip(*lines, strict=True)]
        lines = [list(line) for line in zip(*columns, strict=True)]
    header = layout.separator.join(f'"{name}"' if layout.quoted else name for name in layout.columns)
    rows = [layout.separator.join(line) for line in lines]
    return layout.newline.join([header, *rows]) + (layout.newline if layout.ends else "")


def _cells(table: PTable, layout: Layout, stated: tuple[tuple[str, ...], ...] | None) -> Iterator[list[str]]:
    digits = len(str(table.whole)) - 1 if layout.padded else None
    for number, row in enumerate(table.rows):
        below = 0
        for k, (value, bound) in enumerate(zip(row.noise, row.bounds, strict=True)):
            cells = {
                "i": str(row.i),
                "j": _noise(row.i * table.step + value, table.step),
                "v": _noise(value, table.step),
                "p": stated[number][k] if stated else _decimal(bound - below, table.whole, digits),
                "p_int_lb": _decimal(below, table.whole, digits),
                "p_int_ub": _decimal(bound, table.whole, digits),
                "p_ij_ub": _decimal(bound, table.whole, digits),
                "key_from": str(below),
                "key_below": str(bound),
                "keys": str(table.whole),
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


def _decimal(keys: int, whole: int, digits: int | None) -> str:
    """A number of keys as a share: with all digits, or without trailing zeros; a finite decimal, or 17 digits of it."""
    share = Fraction(keys, whole)
    if digits is not None:
        return f"{Decimal(keys).scaleb(-digits):.{digits}f}"
    denominator = share.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1 or share.denominator > 10**MOST_DECIMALS:
        return repr(float(share))
    return _trimmed(f"{Decimal(share.numerator) / Decimal(share.denominator):f}")


def _noise(units: int, step: int) -> str:
    return str(units // step) if units % step == 0 else _trimmed(f"{units / step:.8f}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _unreadable(path: Path, what: str, expected: str) -> Finding:
    return Finding("unreadable-ptable", what, Place(file=str(path)), None, expected, "check the path and the file")
