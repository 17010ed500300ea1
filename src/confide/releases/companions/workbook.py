"""``tables.xlsx``: the tables as a workbook, written by ourselves so that the same tables give the same bytes anywhere.

Codes and labels are cells of text: no program takes ``007`` for a number or ``1-2`` for a date. Nothing is compressed,
because compression differs from library to library. Reference: ECMA-376 (Office Open XML), part 1.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from confide.releases.companions.codebook import Codebook
from confide.releases.tabular import read_described, table_path

Value = str | int | float | Decimal | None

MOST_ROWS = 100_000
"""Of all sheets together: larger releases have no workbook."""
MOST_COLUMNS = 256
_MADE = (1980, 1, 1, 0, 0, 0)
_NO_SHEET = re.compile(r"[\[\]:*?/\\']")
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_PART = "application/vnd.openxmlformats-officedocument.spreadsheetml"


@dataclass(frozen=True)
class WorkSheet:
    """A sheet: its name, the heads of its columns, and its rows."""

    name: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Value]]


def tables_workbook(
    folder: Path, manifest: Mapping[str, Any], files: Sequence[Mapping[str, Any]], codebook: Codebook
) -> bytes | None:
    """The workbook; none where its sheets would have more rows than a workbook is good for."""
    paths = {name: path for name in (table.name for table in codebook.tables) if (path := table_path(name, files))}
    rows = {str(file["path"]): int(file["rows"]) for file in files}
    if not codebook.tables or sum(rows[path] for path in paths.values()) > MOST_ROWS:
        return None
    lines = [str(manifest["title"]), *([str(manifest["stamp"])] if "stamp" in manifest else [])]
    lines += [codebook.protection, *codebook.notes, "README.txt says more, and codebook.html explains each column."]
    codes = [
        (variable.name, code, label)
        for variable in codebook.variables
        for code, label in zip(variable.codes, variable.labels, strict=True)
    ]
    sheets = [
        WorkSheet("read me", ["about these tables"], [[line] for line in lines]),
        WorkSheet("codes", ["variable", "code", "label"], codes),
    ]
    for table in codebook.tables:
        if table.name in paths:
            content = read_described(folder / paths[table.name], table)
            columns = [column.to_pylist() for column in content.columns]
            sheets.append(WorkSheet(table.name, content.column_names, list(zip(*columns, strict=True))))
    return workbook(sheets)


# The workbook itself.


def workbook(sheets: Sequence[WorkSheet]) -> bytes:
    """A workbook of sheets, the same bytes for the same sheets."""
    names = _sheet_names([sheet.name for sheet in sheets])
    numbers = range(1, len(sheets) + 1)
    parts = {
        "[Content_Types].xml": _types(numbers),
        "_rels/.rels": _relations([("officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": _book(names),
        "xl/_rels/workbook.xml.rels": _relations(
            [*(("worksheet", f"worksheets/sheet{number}.xml") for number in numbers), ("styles", "styles.xml")]
        ),
        "xl/styles.xml": _styles(),
    }
    parts |= {f"xl/worksheets/sheet{at}.xml": _sheet(sheet) for at, sheet in zip(numbers, sheets, strict=True)}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for path, text in parts.items():
            entry = zipfile.ZipInfo(path, _MADE)
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            archive.writestr(entry, text.encode())
    return content.getvalue()


def _sheet_names(wanted: Iterable[str]) -> list[str]:
    """Names that a workbook takes: at most 31 characters, none of a few, and each once whatever the case."""
    names: list[str] = []
    for number, text in enumerate(wanted, start=1):
        name = _NO_SHEET.sub("_", text)[:31] or f"sheet {number}"
        taken = {other.lower() for other in names}
        names.append(name if name.lower() not in taken else f"{name[:24]} ({number})")
    return names


def _sheet(sheet: WorkSheet) -> str:
    last = _column(len(sheet.heads)) + str(len(sheet.rows) + 1)
    widths = "".join(
        f'<col min="{at}" max="{at}" width="{min(60, max(10, len(head) + 3))}" customWidth="1" style="0"/>'
        for at, head in enumerate(sheet.heads, start=1)
    )
    lines = [_row(1, sheet.heads, style=1)]
    lines += [_row(number, row, style=2) for number, row in enumerate(sheet.rows, start=2)]
    return (
        f'{_HEAD}<worksheet {_MAIN}><dimension ref="A1:{last}"/>'
        '<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" '
        f'state="frozen"/></sheetView></sheetViews><cols>{widths}</cols><sheetData>{"".join(lines)}</sheetData>'
        f'<autoFilter ref="A1:{last}"/></worksheet>'
    )


def _row(number: int, values: Sequence[Value], style: int) -> str:
    return f'<row r="{number}">' + "".join(_cells(number, values, style)) + "</row>"


def _cells(number: int, values: Sequence[Value], style: int) -> Iterator[str]:
    for at, value in enumerate(values, start=1):
        place = f"{_column(at)}{number}"
        if isinstance(value, str):
            text = escape(_NO_XML.sub("�", value))
            yield f'<c r="{place}" s="{style}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
        elif value is not None:
            yield (
                f'<c r="{place}"><v>{value!r}</v></c>'
                if isinstance(value, float)
                else f'<c r="{place}"><v>{value}</v></c>'
            )


def _column(number: int) -> str:
    """The letters of a column: 1 is A, 27 is AA."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _book(names: Sequence[str]) -> str:
    sheets = "".join(
        f'<sheet name="{escape(name, {chr(34): "&quot;"})}" sheetId="{at}" r:id="rId{at}"/>'
        for at, name in enumerate(names, start=1)
    )
    return f'{_HEAD}<workbook {_MAIN} xmlns:r="{_OFFICE}"><sheets>{sheets}</sheets></workbook>'


def _relations(parts: Sequence[tuple[str, str]]) -> str:
    inner = "".join(
        f'<Relationship Id="rId{at}" Type="{_OFFICE}/{kind}" Target="{path}"/>'
        for at, (kind, path) in enumerate(parts, start=1)
    )
    return f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships">{inner}</Relationships>'


def _types(numbers: Iterable[int]) -> str:
    sheets = "".join(
        f'<Override PartName="/xl/worksheets/sheet{at}.xml" ContentType="{_PART}.worksheet+xml"/>' for at in numbers
    )
    return (
        f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_PART}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{_PART}.styles+xml"/>{sheets}</Types>'
    )


def _styles() -> str:
    """Three styles: plain, bold for heads, and text that stays text when it is edited."""
    return (
        f'{_HEAD}<styleSheet {_MAIN}><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>'
        '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>'
        '<fills count="2"><fill><patternFill patternType="none"/></fill>'
        '<fill><patternFill patternType="gray125"/></fill></fills>'
        '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="3">'
        '<xf xfId="0"/><xf xfId="0" fontId="1" applyFont="1" numFmtId="49" applyNumberFormat="1"/>'
        '<xf xfId="0" numFmtId="49" applyNumberFormat="1"/></cellXfs>'
        '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
    )
