"""What stands in the workbook of a release: a sheet to begin with, the codes, and a sheet for each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.releases.companions.codebook import Codebook, DescribedTable
from confide.releases.companions.workbook import MOST_ROWS, WorkSheet, workbook


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
        (variable.column, code, label)
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


def table_path(name: str, files: Sequence[Mapping[str, Any]]) -> str | None:
    """The file of a table with all its rows: Parquet, or CSV."""
    paths = [str(file["path"]) for file in files if str(file["path"]).split(".")[0] == f"tables/{name}"]
    return min(paths, key=lambda path: not path.endswith(".parquet"), default=None)


def read_described(path: Path, table: DescribedTable) -> pa.Table:
    """The rows of a file of a table, every column of the type that is described."""
    if path.suffix == ".parquet":
        return pq.read_table(path).replace_schema_metadata(None)
    types = {column.name: pa.string() for column in table.described} | {
        field.name: field.type for field in table.figures
    }
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return pyarrow.csv.read_csv(path, convert_options=options)
