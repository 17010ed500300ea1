"""Sheets of Excel workbooks as rows of text, every value as a person sees it: a code keeps its leading zeros."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

from confide.engines.protocol import Source
from confide.errors import Finding, InputError, Place, RunError

_ZEROS = re.compile(r"0{2,}")


def sheet_names(source: Source) -> list[str]:
    """The names of the sheets of a workbook that people see."""
    with _opened(source) as book:
        return [sheet.title for sheet in book.worksheets if sheet.sheet_state == "visible"]


def workbook_rows(source: Source) -> Iterator[list[str]]:
    """The rows of the sheet that a source names, or of the only one.

    The first row has the names of the columns. Columns right of the last name, and rows without any value, are none.

    Raises:
        InputError: if there is no such sheet, or several and none is named.
    """
    with _opened(source) as book:
        visible = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
        names = [sheet.title for sheet in visible]
        chosen = [sheet for sheet in visible if source.sheet in (None, sheet.title)]
        if len(chosen) != 1:
            raise InputError(_which_sheet(source, names))
        rows = ([_text(cell) for cell in row] for row in chosen[0].iter_rows())
        width = 0
        for row in rows:
            if not any(row):
                continue
            if not width:
                width = max(at for at, value in enumerate(row, start=1) if value)
            beyond = row[width:]
            if any(beyond):
                raise InputError(_beyond(source, width))
            yield (row + [""] * width)[:width]


def _opened(source: Source) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise RunError(
            "no-openpyxl",
            "openpyxl, which reads Excel files, is not installed",
            where=Place(file=source.file),
            found="no such module",
            expected="the extra `excel`",
            remedy="pip install 'confide[excel]'; or save the sheet as CSV in UTF-8",
        ) from None
    try:
        return _Closing(openpyxl.load_workbook(source.path, read_only=True, data_only=True))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError):
        bad = Finding(
            "unreadable",
            "the file is not a workbook that Confide can read",
            Place(file=source.file),
            "a damaged file, a password, or another format",
            "an .xlsx file without a password",
            "open it in Excel, and save it again as .xlsx without a password, or as CSV in UTF-8",
        )
    raise InputError(bad)


class _Closing:
    """A workbook that is closed when nobody looks at it any more."""

    def __init__(self, book: Any):
        self.book = book

    def __enter__(self) -> Any:
        return self.book

    def __exit__(self, *_: object) -> None:
        self.book.close()


def _text(cell: Any) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and _ZEROS.fullmatch(cell.number_format or ""):
        return f"{value:0{len(cell.number_format)}d}"
    return str(value)


def _which_sheet(source: Source, names: list[str]) -> Finding:
    listed = ", ".join(repr(name) for name in names)
    if source.sheet is None:
        what, found = "the workbook has several sheets, and none is named", f"the sheets {listed}"
    else:
        what, found = f"the workbook has no sheet {source.sheet!r}", f"the sheets {listed}"
    remedy = f'name the sheet in the spec: [data] sheet = "{names[0] if names else "..."}"'
    expected = "the name of one of its sheets"
    return Finding(
        "sheet", what, Place(file=source.file), found, expected, remedy + "; of the block table, block_sheet"
    )


def _beyond(source: Source, width: int) -> Finding:
    return Finding(
        "csv-header",
        "a row has values in columns that have no name",
        Place(file=source.file, line=1),
        f"names for {width:,} columns, and values further right",
        "a name for every column, in the first row",
        "name every column in the first row, with no title above it and no merged cells; remove notes next to the "
        "table",
    )
