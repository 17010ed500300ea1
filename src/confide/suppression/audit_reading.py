"""Files of suppressed tables as columns of texts and numbers, with a reason for each that cannot be read."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.suppression.solving import Floats
from confide.suppression.structure import Flags

LARGEST = 1 << 50
"""Larger figures would leave the range in which the solver can be trusted."""

EXPECTED = f"a number of at most {LARGEST:,}; take thousands or millions for more"


def read_columns(path: Path, delimiter: str) -> dict[str, list[str]]:
    """All columns as texts, empty where there is nothing."""
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            names, lists = table.column_names, [column.cast(pa.string()).to_pylist() for column in table.columns]
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
            names = rows[0] if rows else []
            uneven = next((at for at, row in enumerate(rows) if len(row) != len(names)), None)
            if uneven is not None:
                raise unreadable(path, f"{len(rows[uneven])} columns, {len(names)} in the header", row=uneven)
            lists = [list(column) for column in zip(*rows[1:], strict=True)]
    except FileNotFoundError:
        raise unreadable(path, "no such file") from None
    except (OSError, pa.ArrowException, ValueError, csv.Error):
        raise unreadable(path, f"not {'Parquet' if path.suffix == '.parquet' else 'CSV in UTF-8'}") from None
    if not lists or not lists[0]:
        raise unreadable(path, "no rows")
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise unreadable(path, f"two columns {twice!r}")
    return {
        name: ["" if text is None else text.strip() for text in texts] for name, texts in zip(names, lists, strict=True)
    }


def read_numbers(path: Path, column: str, texts: list[str], hidden: Flags, *, secret: bool) -> Floats:
    found = np.zeros(len(texts))
    for row, text in enumerate(texts):
        if hidden[row] or (secret and not text):
            continue
        try:
            found[row] = float(text)
            if not np.isfinite(found[row]) or abs(found[row]) > LARGEST:
                raise ValueError
        except ValueError:
            place = Place(file=path.name, row=row + 1, column=column)
            what = "this is neither a figure nor a mark of a suppressed cell"
            remedy = "list the marks in `suppressed`; write figures without separators of thousands"
            raise InputError(
                Finding("bad-figure", what, place, CONFIDENTIAL if secret else repr(text), EXPECTED, remedy)
            ) from None
    return found


def require_whole(path: Path, column: str, texts: list[str], value: Floats) -> None:
    """Figures that are said to be whole numbers must be; intervals are rounded on that word."""
    wrong_ones = np.flatnonzero(value != np.rint(value))
    if len(wrong_ones):
        row = int(wrong_ones[0])
        place = Place(file=path.name, row=row + 1, column=column)
        what = "a figure is no whole number, and the description does not say that figures need not be"
        remedy = "write integer = false in [attacker]"
        raise InputError(Finding("not-whole", what, place, repr(texts[row]), "whole numbers", remedy))


def unreadable(path: Path, found: str, *, row: int | None = None) -> InputError:
    what, expected = "the table cannot be read", "a CSV or Parquet file with rows, and columns of different names"
    remedy = "correct the file, or its name and delimiter in the description"
    return InputError(Finding("table-description", what, Place(file=path.name, row=row), found, expected, remedy))
