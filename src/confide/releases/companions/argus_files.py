"""``argus/``: the tables as tau-ARGUS and its users exchange them; and records that are released.

=====================  ===============================================================================================
``TABLE.tab``          the cells, one line for each: codes, figure, status (``S`` published, ``U`` suppressed)
``TABLE.rda``          its columns
``TABLE.COLUMN.hrc``   the hierarchy of a column that has one
``TABLE.COLUMN.cdl``   the labels of its codes
``persons.records.*``  released records (.asc), their values at fixed places of a line, and which these are (.rda)
=====================  ===============================================================================================

A suppressed figure is left out here as everywhere: its place is empty. Levels and areas are one column. Where codes of
a column have several hierarchies, the files have one and the rows of its codes. Where figures do not add up over
areas, as with noise, a table has a file for each level, ``TABLE.LEVEL.tab``. No name of a table has a point, so that no
two files have one name. All of it is read by :mod:`confide.inputs.argus`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.inputs.argus import (
    ArgusMetadata,
    ArgusVariable,
    column_names,
    free_lead,
    free_separator,
    hierarchy_text,
    metadata_text,
    tab_text,
)
from confide.releases.companions.codebook import Codebook
from confide.releases.tabular import (
    AREA,
    AREA_NAME,
    LEVEL,
    STATUS,
    SUPPRESSED,
    TOTAL_CODE,
    CodeHierarchy,
    DescribedTable,
    read_described,
    table_path,
)

FOLDER, STAMPED = "argus", ".NOT-FOR-RELEASE"
SAFE, UNSAFE, PROTECTED = "S", "U", "P"
MOST_RECORDS = 2_000_000
"""Larger files of records are left out."""


def argus_files(
    folder: Path, manifest: Mapping[str, Any], files: Sequence[Mapping[str, Any]], codebook: Codebook
) -> dict[str, bytes]:
    """The content of each file by its path."""
    stamp = STAMPED if "stamp" in manifest else ""
    texts: dict[str, str] = {}
    for table in codebook.tables:
        path = table_path(table.name, files)
        if path is None:
            continue
        rows = read_described(folder / path, table)
        for name, part, described in _parts(table, rows):
            texts |= _table(name, part, described, stamp)
    if codebook.records is not None:
        texts |= _records(folder, files, codebook.records, stamp)
    return {f"{FOLDER}/{name}": text.encode() for name, text in texts.items()}


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of codes: its name, the code of each row or nothing, its hierarchy, and the labels of its codes."""

    name: str
    codes: list[str | None]
    hierarchy: CodeHierarchy
    labels: Mapping[str, str]


def _parts(table: DescribedTable, rows: pa.Table) -> Iterator[tuple[str, pa.Table, DescribedTable]]:
    """The files of a table: one, or where areas have no hierarchy, one for each level."""
    if not table.columns.areas or AREA in table.hierarchies:
        yield table.name, rows, table
        return
    for level in table.levels:
        yield f"{table.name}.{level}", rows.filter(pc.equal(rows.column(LEVEL), level)), table


def _table(name: str, rows: pa.Table, table: DescribedTable, stamp: str) -> dict[str, str]:
    columns = list(_columns(rows, table))
    figures = [rows.column(field.name).to_pylist() for field in table.figures]
    names = column_names([*(column.name for column in columns), *(field.name for field in table.figures)])
    lines: dict[tuple[str | None, ...], list[str]] = {}
    for codes, values in zip(
        zip(*(column.codes for column in columns), strict=True) if columns else [()] * rows.num_rows,
        zip(*figures, strict=True),
        strict=True,
    ):
        if None not in codes:  # an area that two levels have stands there once
            lines.setdefault(codes, [*map(str, codes), *map(_figure, table.figures, values)])
    separator = free_separator(text for line in lines.values() for text in line)
    texts: dict[str, str] = {}
    variables = []
    for own, column in zip(names, columns, strict=False):
        parts, lead = column.hierarchy.parts, free_lead(column.hierarchy.parent)
        labels = {code: label for code, label in column.labels.items() if label and label != code}
        hierarchy = f"{name}.{own}{stamp}.hrc" if len(parts) > 1 else None
        listed = f"{name}.{own}{stamp}.cdl" if labels and not any("," in code for code in labels) else None
        variables.append(
            ArgusVariable(own, "variable", column.hierarchy.total, hierarchy, lead if hierarchy else "@", labels=listed)
        )
        if hierarchy is not None:
            texts[hierarchy] = hierarchy_text(parts, column.hierarchy.total, lead)
        if listed is not None:
            texts[listed] = "".join(f"{code},{label}\n" for code, label in labels.items())
    for own, field in zip(names[len(columns) :], table.figures, strict=True):
        kind = "status" if field.name == STATUS else "value" if field is table.figures[0] else "shadow"
        decimals = field.type.scale if pa.types.is_decimal(field.type) else 6 if pa.types.is_floating(field.type) else 0
        variables.append(ArgusVariable(own, kind, decimals=decimals))  # type: ignore[arg-type]
    metadata = ArgusMetadata(tuple(variables), separator, {SAFE: "s", UNSAFE: "u", PROTECTED: "z"})
    texts[f"{name}{stamp}.rda"] = metadata_text(metadata)
    return texts | {f"{name}{stamp}.tab": tab_text(lines.values(), separator)}


def _figure(field: pa.Field, value: object) -> str:
    if field.name == STATUS:
        return UNSAFE if value == SUPPRESSED else SAFE
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def _columns(rows: pa.Table, table: DescribedTable) -> Iterator[_Column]:
    """The columns of codes, that of areas first."""
    if table.columns.areas:
        places = [rows.column(LEVEL).to_pylist(), rows.column(AREA).to_pylist()]
        names = rows.column(AREA_NAME).to_pylist() if table.columns.named else [""] * rows.num_rows
        hierarchy = table.hierarchies.get(AREA) or CodeHierarchy.flat(places[1], TOTAL_CODE, places[0])
        codes = [hierarchy.codes.get(each) for each in zip(*places, strict=True)]
        labels = {code: name for code, name in zip(codes, names, strict=True) if code is not None}
        yield _Column(AREA, codes, hierarchy, labels)
    for variable in table.columns.variables:
        hierarchy = table.hierarchies.get(variable.name) or CodeHierarchy.flat(variable.codes, TOTAL_CODE)
        codes = [hierarchy.codes.get((code,)) for code in rows.column(variable.name).to_pylist()]
        yield _Column(variable.name, codes, hierarchy, dict(zip(variable.codes, variable.labels, strict=True)))


def _records(folder: Path, files: Sequence[Mapping[str, Any]], place: str, stamp: str) -> dict[str, str]:
    """The records of a release at fixed places of a line."""
    paths = [str(file["path"]) for file in files if str(file["path"]).split(".")[0] == place]
    path = min(paths, key=lambda each: not each.endswith(".parquet"), default=None)
    if path is None or next(int(file["rows"]) for file in files if file["path"] == path) > MOST_RECORDS:
        return {}
    name = place.rsplit("/", maxsplit=1)[-1] + ".records"
    records = _as_texts(folder / path)
    variables, columns, start = [], [], 1
    for own, column in zip(column_names(records.column_names), records.columns, strict=True):
        width = max(1, pc.max(pc.utf8_length(column)).as_py() or 1)
        variables.append(ArgusVariable(own, "variable", start=start, width=width))
        columns.append(pc.utf8_rpad(column, width, " ").combine_chunks())
        start += width
    lines = pc.binary_join_element_wise(*columns, "") if columns else pa.array([], pa.string())
    text = "".join(f"{line}\n" for line in lines.to_pylist())
    metadata = metadata_text(ArgusMetadata(tuple(variables)))
    return {f"{name}{stamp}.rda": metadata, f"{name}{stamp}.asc": text}


def _as_texts(path: Path) -> pa.Table:
    """Records with every value as text, empty where there is none."""
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
    else:
        names = pyarrow.csv.open_csv(path).schema.names
        types = dict.fromkeys(names, pa.string())
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        rows = pyarrow.csv.read_csv(path, convert_options=options)
    return pa.table({name: pc.fill_null(rows.column(name).cast(pa.string()), "") for name in rows.column_names})
