"""What other programs read: a workbook, the files of tau-ARGUS, and records for Stata and SPSS.

``tables.xlsx`` is written by ourselves so that the same tables give the same bytes anywhere. Codes and labels are cells
of text: no program takes ``007`` for a number or ``1-2`` for a date. Nothing is compressed, because compression differs
from library to library. Reference: ECMA-376 (Office Open XML), part 1.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from confide.documents import argus
from confide.errors import Finding, Place
from confide.releases import tabular
from confide.releases.folder import SealedRelease
from confide.releases.mechanism import Check
from confide.releases.tabular import flow_name, sdmx_name
from confide.releases.tabular.rows import ACTION, STRUCTURE, STRUCTURE_ID

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


def tables_workbook(release: SealedRelease, codebook: tabular.Codebook) -> bytes | None:
    """The workbook; none where its sheets would have more rows than a workbook is good for."""
    manifest = release.manifest
    paths = {table.name: path for table in codebook.tables if (path := release.table(f"tables/{table.name}."))}
    if not codebook.tables or sum(map(release.rows_of, paths.values())) > MOST_ROWS:
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
            content = tabular.read_described(paths[table.name], table)
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
            text = escape(_NO_XML.sub("�", value), quote=False)
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
        f'<sheet name="{escape(name, quote=False).replace(chr(34), "&quot;")}" sheetId="{at}" r:id="rId{at}"/>'
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


# ``argus/``: the tables as tau-ARGUS and its users exchange them; and records that are released.
#
# =====================  ===============================================================================================
# ``TABLE.tab``          the cells, one line for each: codes, figure, status (``S`` published, ``U`` suppressed)
# ``TABLE.rda``          its columns
# ``TABLE.COLUMN.hrc``   the hierarchy of a column that has one
# ``TABLE.COLUMN.cdl``   the labels of its codes
# ``persons.records.*``  released records (.asc), their values at fixed places of a line, and which these are (.rda)
# =====================  ===============================================================================================
#
# A suppressed figure is left out here as everywhere: its place is empty. Levels and areas are one column. Where codes
# of a column have several hierarchies, the files have one and the rows of its codes. Where figures do not add up over
# areas, as with noise, a table has a file for each level, ``TABLE.LEVEL.tab``. No name of a table has a point, so that
# no two files have one name. All of it is read by :mod:`confide.documents.argus`.


FOLDER, STAMPED = "argus", ".NOT-FOR-RELEASE"
SAFE, UNSAFE, PROTECTED = "S", "U", "P"
MOST_RECORDS = 2_000_000
"""Larger files of records are left out."""


def argus_files(release: SealedRelease, codebook: tabular.Codebook) -> dict[str, bytes]:
    """The content of each file by its path."""
    stamp = STAMPED if "stamp" in release.manifest else ""
    texts: dict[str, str] = {}
    for table in codebook.tables:
        path = release.table(f"tables/{table.name}.")
        if path is None:
            continue
        rows = tabular.read_described(path, table)
        for name, part, described in _parts(table, rows):
            texts |= _table(name, part, described, stamp)
    if codebook.records is not None:
        texts |= _records(release, codebook.records, stamp)
    return {f"{FOLDER}/{name}": text.encode() for name, text in texts.items()}


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of codes: its name, the code of each row or nothing, its hierarchy, and the labels of its codes."""

    name: str
    codes: list[str | None]
    hierarchy: tabular.CodeHierarchy
    labels: Mapping[str, str]


def _parts(table: tabular.DescribedTable, rows: pa.Table) -> Iterator[tuple[str, pa.Table, tabular.DescribedTable]]:
    """The files of a table: one, or where areas have no hierarchy, one for each level."""
    if not table.columns.areas or tabular.AREA in table.hierarchies:
        yield table.name, rows, table
        return
    for level in table.levels:
        yield f"{table.name}.{level}", rows.filter(pc.equal(rows.column(tabular.LEVEL), level)), table


def _table(name: str, rows: pa.Table, table: tabular.DescribedTable, stamp: str) -> dict[str, str]:
    columns = list(_columns(rows, table))
    figures = [rows.column(field.name).to_pylist() for field in table.figures]
    names = argus.column_names([*(column.name for column in columns), *(field.name for field in table.figures)])
    lines: dict[tuple[str | None, ...], list[str]] = {}
    for codes, values in zip(
        zip(*(column.codes for column in columns), strict=True) if columns else [()] * rows.num_rows,
        zip(*figures, strict=True),
        strict=True,
    ):
        if None not in codes:  # an area that two levels have is there once
            lines.setdefault(codes, [*map(str, codes), *map(_figure, table.figures, values)])
    separator = argus.free_separator(text for line in lines.values() for text in line)
    texts: dict[str, str] = {}
    variables = []
    for own, column in zip(names, columns, strict=False):
        parts, lead = column.hierarchy.parts, argus.free_lead(column.hierarchy.parent)
        labels = {code: label for code, label in column.labels.items() if label and label != code}
        hierarchy = f"{name}.{own}{stamp}.hrc" if len(parts) > 1 else None
        listed = f"{name}.{own}{stamp}.cdl" if labels and not any("," in code for code in labels) else None
        variables.append(
            argus.ArgusVariable(
                own, "variable", column.hierarchy.total, hierarchy, lead if hierarchy else "@", labels=listed
            )
        )
        if hierarchy is not None:
            texts[hierarchy] = argus.hierarchy_text(parts, column.hierarchy.total, lead)
        if listed is not None:
            texts[listed] = "".join(f"{code},{label}\n" for code, label in labels.items())
    for own, field in zip(names[len(columns) :], table.figures, strict=True):
        kind = "status" if field.name == tabular.STATUS else "value" if field is table.figures[0] else "shadow"
        decimals = field.type.scale if pa.types.is_decimal(field.type) else 6 if pa.types.is_floating(field.type) else 0
        variables.append(argus.ArgusVariable(own, kind, decimals=decimals))  # type: ignore[arg-type]
    metadata = argus.ArgusMetadata(tuple(variables), separator, {SAFE: "s", UNSAFE: "u", PROTECTED: "z"})
    texts[f"{name}{stamp}.rda"] = argus.metadata_text(metadata)
    return texts | {f"{name}{stamp}.tab": argus.tab_text(lines.values(), separator)}


def _figure(field: pa.Field, value: object) -> str:
    if field.name == tabular.STATUS:
        return UNSAFE if value == tabular.SUPPRESSED else SAFE
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def _columns(rows: pa.Table, table: tabular.DescribedTable) -> Iterator[_Column]:
    """The columns of codes, that of areas first."""
    if table.columns.areas:
        places = [rows.column(tabular.LEVEL).to_pylist(), rows.column(tabular.AREA).to_pylist()]
        names = rows.column(tabular.AREA_NAME).to_pylist() if table.columns.named else [""] * rows.num_rows
        hierarchy = table.hierarchies.get(tabular.AREA) or tabular.CodeHierarchy.flat(
            places[1], tabular.TOTAL_CODE, places[0]
        )
        codes = [hierarchy.codes.get(each) for each in zip(*places, strict=True)]
        labels = {code: name for code, name in zip(codes, names, strict=True) if code is not None}
        yield _Column(tabular.AREA, codes, hierarchy, labels)
    for variable in table.columns.variables:
        hierarchy = table.hierarchies.get(variable.name) or tabular.CodeHierarchy.flat(
            variable.codes, tabular.TOTAL_CODE
        )
        codes = [hierarchy.codes.get((code,)) for code in rows.column(variable.name).to_pylist()]
        yield _Column(variable.name, codes, hierarchy, dict(zip(variable.codes, variable.labels, strict=True)))


def _records(release: SealedRelease, place: str, stamp: str) -> dict[str, str]:
    """The records of a release at fixed places of a line."""
    path = release.table(f"{place}.")
    if path is None or release.rows_of(path) > MOST_RECORDS:
        return {}
    name = place.rsplit("/", maxsplit=1)[-1] + ".records"
    records = _as_texts(path)
    variables, columns, start = [], [], 1
    for own, column in zip(argus.column_names(records.column_names), records.columns, strict=True):
        width = max(1, pc.max(pc.utf8_length(column)).as_py() or 1)
        variables.append(argus.ArgusVariable(own, "variable", start=start, width=width))
        columns.append(pc.utf8_rpad(column, width, " ").combine_chunks())
        start += width
    lines = pc.binary_join_element_wise(*columns, "") if columns else pa.array([], pa.string())
    text = "".join(f"{line}\n" for line in lines.to_pylist())
    metadata = argus.metadata_text(argus.ArgusMetadata(tuple(variables)))
    return {f"{name}{stamp}.rda": metadata, f"{name}{stamp}.asc": text}


def _as_texts(path: Path) -> pa.Table:
    """Records with every value as text, empty where there is none."""
    rows = tabular.read_file(path)
    return pa.table({name: pc.fill_null(rows.column(name).cast(pa.string()), "") for name in rows.column_names})


# Records for Stata (``.dta``) and SPSS (``.sav``), with labels of variables and of values; written by pyreadstat.
#
# Codes that are whole numbers stay as they are, with value labels. Codes that are texts stay texts in SPSS, which has
# value labels for texts. Stata has none: there such a variable holds the numbers 1, 2, ... with the labels, and a
# second one, named ``_code``, the codes. Both programs take few characters in names of variables; the label of a
# variable that had to be renamed begins with its own name. Files have no date, so that the same records are the same
# bytes.
#
# References: Stata, dta 118; IBM, SPSS system files as ReadStat writes them.


LABELLED = {"dta": "stata", "sav": "spss"}
"""The formats, and the folder of each."""
PROGRAMS = {"dta": "Stata", "sav": "SPSS"}
STATA_VERSION = 14
"""The oldest that has Unicode; every later version of Stata reads its files."""
LONGEST_NAME, LONGEST_LABEL, LONGEST_VALUE_LABEL = 28, 80, 120
LARGEST_CODE = 2_147_483_620
"""The largest whole number that Stata takes a value label for."""
RESERVED = frozenset((
    "all", "and", "by", "byte", "double", "eq", "float", "ge", "gt", "if", "in", "int", "le", "long", "lt", "ne", "not",
    "or", "str", "strl", "to", "using", "with",
))  # fmt: skip
"""Words that no variable can be called in one of the programs."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_]")
_STATA_DATE, _NO_STATA_DATE = re.compile(rb"<timestamp>\x11(.{17})</timestamp>"), b"01 Jan 1970 00:00"
_SPSS_DATE, _NO_SPSS_DATE = slice(92, 109), b"01 Jan 7000:00:00"


@dataclass(frozen=True)
class LabelledColumn:
    """A variable of a file: the column of the records that it is made of, its name and its labels."""

    source: str
    name: str
    label: str
    values: Mapping[int | str, str]
    """The labels of its values, if they have any."""
    places: tuple[str, ...] = ()
    """Codes, where the variable holds the number of each, from 1, in place of the code."""


def absent(formats: Sequence[str], where: Place) -> list[Finding]:
    """A finding where files for Stata or SPSS are asked for, and what writes them is not installed."""
    wanted = [PROGRAMS[format_] for format_ in LABELLED if format_ in formats]
    if not wanted or all(importlib.util.find_spec(name) is not None for name in ("pyreadstat", "pandas")):
        return []
    return [Finding.of("no-pyreadstat", where=where, wanted=" and ".join(wanted))]


def labelled_columns(
    schema: pa.Schema, variables: Mapping[str, tabular.CodedVariable], format_: str
) -> tuple[LabelledColumn, ...]:
    """The variables of a file for records with these columns."""
    columns: list[LabelledColumn] = []
    for field in schema:
        label = (field.metadata or {}).get(b"description", b"").decode() or field.name
        for ending, values, places in _forms(variables.get(field.name), field, format_):
            name = _free_name(field.name, ending, {column.name.lower() for column in columns})
            plain = label if name in (field.name, field.name + ending) else f"{field.name}: {label}"
            columns.append(LabelledColumn(field.name, name, plain[:LONGEST_LABEL], values, places))
    return tuple(columns)


def _forms(
    variable: tabular.CodedVariable | None, field: pa.Field, format_: str
) -> Iterator[tuple[str, dict[int | str, str], tuple[str, ...]]]:
    """How a file has a column, once or twice: the ending of its name, value labels, and codes by number."""
    if variable is None:
        yield "", {}, ()
        return
    labels = [_cut(label) for label in variable.labels]
    numbered = pa.types.is_integer(field.type) and all(abs(int(code)) <= LARGEST_CODE for code in variable.codes)
    if numbered:
        yield "", {int(code): label for code, label in zip(variable.codes, labels, strict=True)}, ()
    elif format_ == "sav" and pa.types.is_string(field.type):
        yield "", dict(zip(variable.codes, labels, strict=True)), ()
    else:
        yield "", dict(enumerate(labels, start=1)), variable.codes
        yield "_code", {}, ()


def _cut(text: str) -> str:
    """A label of a value as long as both programs take it."""
    return text.encode()[:LONGEST_VALUE_LABEL].decode(errors="ignore")


def _free_name(name: str, ending: str, taken: set[str]) -> str:
    """A name that both programs take, and that no other variable has."""
    plain = _NO_NAME.sub("_", name)[:LONGEST_NAME]
    if not plain[:1].isalpha() or plain.lower() in RESERVED:
        plain = f"v_{plain}"[:LONGEST_NAME]
    names = (plain + ending, *(f"{plain[:24]}{ending}_{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each.lower() not in taken)


def write_labelled(
    path: Path, records: pa.Table, variables: Mapping[str, tabular.CodedVariable], title: str, format_: str
) -> None:
    """Writes records, whose columns are described, for Stata or SPSS."""
    import pyreadstat

    columns = labelled_columns(records.schema, variables, format_)
    labels = {column.name: column.label for column in columns}
    values = {column.name: dict(column.values) for column in columns if column.values}
    frame, head = _frame(records, columns), title[:LONGEST_LABEL]
    if format_ == "dta":
        pyreadstat.write_dta(
            frame, str(path), head, column_labels=labels, version=STATA_VERSION, variable_value_labels=values
        )
    else:
        pyreadstat.write_sav(
            frame, str(path), _cut(head)[:64], column_labels=labels, variable_value_labels=values, row_compress=True
        )
    _without_date(path, format_)


def _frame(records: pa.Table, columns: Sequence[LabelledColumn]) -> Any:
    """Records as a data frame: numbers of codes, codes, or texts."""
    import pandas as pd

    values: dict[str, Any] = {}
    for column in columns:
        array = records.column(column.source)
        if column.places:
            place = pc.index_in(array.cast(pa.string()), pa.array(column.places, pa.string()))
            values[column.name] = place.to_numpy().astype(np.int32) + 1
        elif column.values and pa.types.is_integer(array.type):
            values[column.name] = array.to_numpy().astype(np.int32)
        elif pa.types.is_integer(array.type):
            values[column.name] = array.to_pandas()
        else:
            values[column.name] = pc.fill_null(array, "").to_pandas()
    return pd.DataFrame(values)


def _without_date(path: Path, format_: str) -> None:
    """Takes the date out of the head of a file."""
    with path.open("r+b") as file:
        head = file.read(4096)
        if format_ == "dta":
            date = _STATA_DATE.search(head)
            assert date is not None
            file.seek(date.start(1))
            file.write(_NO_STATA_DATE)
        else:
            file.seek(_SPSS_DATE.start)
            file.write(_NO_SPSS_DATE)


def _same(one: Any, other: Any) -> Any:
    """Value by value whether two columns agree; a value that is missing agrees with none but another missing one."""
    return (one == other) | (one.isna() & other.isna())


def labelled_check(
    path: Path, records: pa.Table, variables: Mapping[str, tabular.CodedVariable], format_: str, name: str
) -> Check:
    """Whether a file for Stata or SPSS says what the records say, value by value and label by label.

    It is read again, and not made again: another version of pyreadstat may write the same with other bytes.
    """
    title = f"{name}: {PROGRAMS[format_]} says what the records say"
    if absent([format_], Place()):
        return Check(title, True, "not read again, because pyreadstat is not installed here; the SHA-256 is right")
    import pyreadstat

    columns = labelled_columns(records.schema, variables, format_)
    try:
        read = pyreadstat.read_dta if format_ == "dta" else pyreadstat.read_sav
        frame, said = read(str(path))
    except (pyreadstat.ReadstatError, ValueError):
        return Check(title, False, f"{PROGRAMS[format_]} cannot read it")
    if [*frame.columns] != [column.name for column in columns] or len(frame) != records.num_rows:
        return Check(title, False, "other variables or another number of records")
    expected = _frame(records, columns)
    wrong = [name for name in expected if not (_same(frame[name], expected[name])).all()]
    wrong += [column.name for column in columns if said.column_names_to_labels[column.name] != column.label]
    labels = said.variable_value_labels
    wrong += [column.name for column in columns if dict(labels.get(column.name, {})) != dict(column.values)]
    return Check(title, not wrong, ", ".join(dict.fromkeys(wrong)) or f"{len(frame):,} records, with their labels")


# ``sdmx/structure.json``: what SDMX has to know of the tables, in SDMX-JSON 2.0, the form of SDMX 3.0.
#
# One scheme of concepts, a code list for each variable and for the levels, one for the areas unless these are too many
# or their codes are no identifiers, and for each table a data structure and a data flow. With it a file
# ``sdmx/TABLE.csv`` can be loaded and validated.


VERSION = "1.0"
MOST_AREAS = 20_000
NO_DATE = "1970-01-01T00:00:00Z"
"""When it was prepared must be said, and a release has no date: the same release is the same file at any time."""
SCHEMA = "https://json.sdmx.org/2.0.0/sdmx-json-structure-schema.json"
CONCEPTS = "CONCEPTS"
STATUSES = {"OBS_STATUS": "Observation status", "CONF_STATUS": "Confidentiality status"}
STATUS_NAMES = {
    "A": "Normal value",
    "Q": "Missing value; suppressed",
    "F": "Free (free for publication)",
    "C": "Confidential statistical information",
}
"""As the code lists CL_OBS_STATUS and CL_CONF_STATUS of SDMX have them."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9_@$-]+")
_TYPES = {"string": "String", "integer": "BigInteger", "number": "Double"}


def same_in_sdmx(codebook: tabular.Codebook) -> str | None:
    """Two columns that would have one identifier in SDMX, in words; none where every identifier is of one column.

    Identifiers of concepts and code lists are those of the whole release: two variables called alike in two tables
    would have one list of codes, and readers would take the one for the other.
    """
    figures = dict.fromkeys(each.name for table in codebook.tables for each in table.figures[1:])
    taken = {name: name for figure in figures for name in tabular.sdmx_attributes(figure)} | {
        tabular.OBSERVATION: tabular.OBSERVATION
    }
    taken |= {name: name for name in (STRUCTURE, STRUCTURE_ID, ACTION)}
    taken |= {sdmx_name(name): name for name in ((tabular.LEVEL, tabular.AREA) if codebook.levels else ())}
    for variable in codebook.variables:
        name = sdmx_name(variable.name)
        if (other := taken.setdefault(name, variable.name)) != variable.name:
            return f"{other} and {variable.name}: both {name}"
    return None


def sdmx_structure(release: SealedRelease, codebook: tabular.Codebook) -> str:
    """The structure message of a release."""
    manifest, agency = release.manifest, codebook.agency
    concepts = {
        tabular.OBSERVATION: "Observation",
        **({sdmx_name(tabular.LEVEL): "Geographic level", sdmx_name(tabular.AREA): "Area"} if codebook.levels else {}),
    }
    concepts |= {sdmx_name(each.name): each.title or each.name for each in codebook.variables}
    figures = dict.fromkeys(each.name for table in codebook.tables for each in table.figures[1:])
    concepts |= {name: STATUSES.get(name, figure) for figure in figures for name in tabular.sdmx_attributes(figure)}
    lists = {_list_of(variable): _codes(variable) for variable in codebook.variables}
    if codebook.levels:
        lists["CL_LEVEL"] = [(level, level) for level in codebook.levels]
    if tabular.STATUS in figures:
        lists |= {
            f"CL_{name}": [(code, STATUS_NAMES[code]) for code in codes.values()]
            for name, codes in tabular.STATUS_CODES.items()
        }
    areas = _areas(release)
    if areas:
        lists["CL_AREA"] = areas
    message = {
        "meta": {
            "id": _identifier(str(manifest["release"])),
            "schema": SCHEMA,
            "prepared": NO_DATE,
            "test": "stamp" in manifest,
            "contentLanguages": ["en"],
            "sender": {"id": agency},
        },
        "data": {
            "conceptSchemes": [
                _named(agency, CONCEPTS, "Concepts")
                | {"concepts": [{"id": name, "name": title} for name, title in concepts.items()]}
            ],
            "codelists": [
                _named(agency, name, name) | {"codes": [{"id": code, "name": label or code} for code, label in codes]}
                for name, codes in lists.items()
            ],
            "dataStructures": [_data_structure(table, agency, set(lists)) for table in codebook.tables],
            "dataflows": [
                _named(agency, flow_name(table.name), table.title) | {"structure": _urn(agency, table)}
                for table in codebook.tables
            ],
        },
    }
    return json.dumps(message, indent=1, ensure_ascii=False) + "\n"


def _data_structure(table: tabular.DescribedTable, agency: str, lists: set[str]) -> dict[str, Any]:
    dimensions = []
    if table.columns.areas:
        dimensions.append(_component(agency, tabular.LEVEL, "CL_LEVEL"))
        dimensions.append(_component(agency, tabular.AREA, "CL_AREA" if "CL_AREA" in lists else None))
    dimensions += [_component(agency, each.name, _list_of(each)) for each in table.columns.variables]
    for position, dimension in enumerate(dimensions, start=1):
        dimension["position"] = position
    kinds = {column.name: _TYPES[column.kind] for column in table.described}
    first, *others = table.figures
    components: dict[str, Any] = {
        "dimensionList": {"id": "DimensionDescriptor", "dimensions": dimensions},
        "measureList": {
            "id": "MeasureDescriptor",
            "measures": [_component(agency, tabular.OBSERVATION) | {"localRepresentation": _plain(kinds[first.name])}],
        },
    }
    if others:
        related = {"attributeRelationship": {"observation": {}}, "measureRelationship": [tabular.OBSERVATION]}
        attributes = [
            (
                _component(agency, name, f"CL_{name}")
                if each.name == tabular.STATUS
                else _component(agency, each.name) | {"localRepresentation": _plain(kinds[each.name])}
            )
            | related
            | {"usage": "optional"}
            for each in others
            for name in tabular.sdmx_attributes(each.name)
        ]
        components["attributeList"] = {"id": "AttributeDescriptor", "attributes": attributes}
    return _named(agency, flow_name(table.name), table.title) | {"dataStructureComponents": components}


def _component(agency: str, column: str, codes: str | None = None) -> dict[str, Any]:
    name = column if column == tabular.OBSERVATION else sdmx_name(column)
    concept = f"urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept={agency}:{CONCEPTS}({VERSION}).{name}"
    listed = f"urn:sdmx:org.sdmx.infomodel.codelist.Codelist={agency}:{codes}({VERSION})"
    return {
        "id": name,
        "conceptIdentity": concept,
        "localRepresentation": _plain("String") if codes is None else {"enumeration": listed},
    }


def _plain(kind: str) -> dict[str, Any]:
    return {"format": {"dataType": kind}}


def _named(agency: str, name: str, title: str) -> dict[str, Any]:
    return {"id": name, "agencyID": agency, "version": VERSION, "name": title}


def _urn(agency: str, table: tabular.DescribedTable) -> str:
    return f"urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure={agency}:{flow_name(table.name)}({VERSION})"


def _list_of(variable: tabular.CodedVariable) -> str:
    return f"CL_{sdmx_name(variable.name)}"


def _codes(variable: tabular.CodedVariable) -> list[tuple[str, str]]:
    return [(tabular.TOTAL_CODE, "total"), *zip(tabular.sdmx_codes(variable.codes), variable.labels, strict=True)]


def _areas(release: SealedRelease) -> list[tuple[str, str]]:
    """The areas of all levels, where they can be one list: not too many, and a code has one name on every level."""
    rows = tabular.listed_areas(release, MOST_AREAS)
    if rows is None:
        return []
    codes = rows.column(tabular.AREA).to_pylist()
    named = rows.column(tabular.AREA_NAME).to_pylist() if tabular.AREA_NAME in rows.column_names else codes
    areas: dict[str, str] = {}
    for code, name in zip(codes, named, strict=True):
        if not _IDENTIFIER.fullmatch(code) or areas.setdefault(code, name) != name:
            return []
    return list(areas.items())


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_@$-]", "_", text)
