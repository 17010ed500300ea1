"""``README.txt`` and ``codebook.html``: what people read first, and what they look things up in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from confide.releases.companions.codebook import (
    Codebook,
    DescribedColumn,
    DescribedFile,
    DescribedTable,
    GivenColumns,
)
from confide.releases.companions.labelled import PROGRAMS
from confide.releases.companions.workbook import MOST_ROWS
from confide.releases.tabular import AREA, AREA_NAME, AREAS, LEVEL, TOTAL_CODE
from confide.report.render import render

MOST_AREAS_SHOWN = 500
R_CLASSES = {"string": "character", "integer": "numeric", "number": "numeric"}
SQL_TYPES = {"string": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE"}
FILES = {
    "codebook.html": "every column, code and label, and how R, pandas and DuckDB read the files",
    "datapackage.json": "the same for programs: a Frictionless data package with the type of each column",
    "csvw-metadata.json": "the same as CSV on the Web",
    "sdmx/structure.json": "SDMX 3.0: concepts, code lists and data structures of the files in sdmx/",
    "tables.xlsx": "the tables as a workbook for Excel or LibreOffice, with codes as text",
    "argus/": "for tau-ARGUS: cells (.tab), columns (.rda), hierarchies (.hrc), labels (.cdl), records (.asc)",
    "registry.json": "a record for a registry of deployments of differential privacy",
    "accuracy.html": "how far off a figure may be, by kind of area and size of the figure: read this first",
    "explore.html": "all tables to look at in a browser, on one page that needs no network",
}


@dataclass(frozen=True)
class CommandLines:
    """How programs read the file of a table."""

    r: str
    duckdb: str


def citation(manifest: Mapping[str, Any]) -> str:
    """How a release is cited: as its office says, or by what identifies it."""
    publication = manifest.get("publication", {})
    if "citation" in publication:
        return str(publication["citation"])
    office = f"{publication['office']}. " if "office" in publication else ""
    return f"{office}{manifest['title']}. Release {manifest['release']!r}, plan {manifest['plan_hash'][:16]}."


def readme(
    manifest: Mapping[str, Any], files: Sequence[Mapping[str, Any]], codebook: Codebook, companions: Sequence[str]
) -> str:
    """What this is, how to read it, how to add up, how to cite."""
    page = "certificate.html" if manifest["privacy"].get("loss") is not None else "statement.html"
    paths = [str(file["path"]) for file in files]
    return render(
        "readme.txt.j2",
        manifest=manifest,
        publication=manifest.get("publication", {}),
        codebook=codebook,
        page=page,
        paths=paths,
        cells=any(path.startswith("cells/") for path in paths),
        sdmx=any(path.startswith("sdmx/") for path in paths),
        companions={path: FILES[path] for path in dict.fromkeys(_listed(path) for path in companions)},
        other_files=dict(_other_files(paths)),
        example=_example(paths),
        width=max([20, *(len(f"tables/{table.name}.*") for table in codebook.tables if codebook.files)]),
        no_workbook="xlsx" in codebook.formats and bool(codebook.tables) and "tables.xlsx" not in companions,
        most_rows=f"{MOST_ROWS:,}",
        citation=citation(manifest),
        total=TOTAL_CODE,
    )


def _listed(path: str) -> str:
    """What a reader is told of: a file, or the folder of those for tau-ARGUS."""
    return "argus/" if path.startswith("argus/") else path


def _other_files(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Files of data in formats of particular programs, and what each is."""
    for path in paths:
        ending = path.rpartition(".")[2]
        if path.startswith("geo/"):
            yield path, "outlines of the areas with their figures, in GeoParquet 1.1"
        elif ending in PROGRAMS:
            yield path, f"the records for {PROGRAMS[ending]}, with labels of variables and values"


def _example(paths: Sequence[str]) -> str:
    """The file that is opened by way of example: cells of a table, or else records."""
    texts = [path for path in paths if path.endswith(".csv")]
    return next((path for start in ("cells/", "tables/") for path in texts if path.startswith(start)), "")


def codebook_page(
    folder: Path, manifest: Mapping[str, Any], files: Sequence[Mapping[str, Any]], codebook: Codebook
) -> str:
    """The page of columns, codes and labels."""
    listed = {file.path for file in codebook.files}
    descriptions = {
        stem: file["columns"]
        for file in files
        if (stem := str(file["path"]).split(".")[0]).startswith("tables/") or stem in listed
    }
    tables = [
        {
            "table": table,
            "columns": [
                (column, descriptions.get(f"tables/{table.name}", {}).get(column.name, ""))
                for column in table.described
            ],
            "commands": command_lines(table, files),
        }
        for table in codebook.tables
    ]
    described = [
        {
            "file": file,
            "columns": [(column, descriptions.get(file.path, {}).get(column.name, "")) for column in file.described],
            "commands": command_lines(file, files),
        }
        for file in codebook.files
    ]
    return render(
        "codebook.html.j2",
        title=f"Codebook: {manifest['title']}",
        banner=f"{manifest['stamp']}: made with a chosen key; its noise protects nobody" if "stamp" in manifest else "",
        manifest=manifest,
        codebook=codebook,
        tables=tables,
        described=described,
        areas=_areas(folder, files),
        total=TOTAL_CODE,
    )


def command_lines(table: DescribedTable | DescribedFile, files: Sequence[Mapping[str, Any]]) -> CommandLines | None:
    """How R and DuckDB read the cells of a table, or a file; None where there is no CSV."""
    if isinstance(table, DescribedFile):
        own, stem = "rows", table.path
    else:
        own = "rows" if isinstance(table.columns, GivenColumns) else "cells"
        stem = f"{'tables' if own == 'rows' else own}/{table.name}"
    paths = [str(file["path"]) for file in files]
    path = next((each for each in paths if each.startswith(f"{stem}.") and each.endswith(".csv")), None)
    if path is None:
        return None
    columns = [column for column in table.described if column.role != "margin"]
    classes = ", ".join(f'"{R_CLASSES[column.kind]}"' for column in columns)
    types = ", ".join(f"'{_quoted(column)}': '{SQL_TYPES[column.kind]}'" for column in columns)
    return CommandLines(
        f'{own} <- read.csv("{path}", colClasses = c({classes}), check.names = FALSE, na.strings = "", '
        'encoding = "UTF-8")',
        f"SELECT * FROM read_csv('{path}', types = {{{types}}}, nullstr = '')",  # noqa: S608 - shown, and not run
    )


def _quoted(column: DescribedColumn) -> str:
    return column.name.replace("'", "''")


def _areas(folder: Path, files: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The areas with names, unless there are too many to look through."""
    file = next((file for file in files if str(file["path"]).split(".")[0] == AREAS), None)
    if file is None or AREA_NAME not in file["columns"] or file["rows"] > MOST_AREAS_SHOWN:
        return []
    types = dict.fromkeys((LEVEL, AREA, AREA_NAME), pa.string())
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    rows = pyarrow.csv.read_csv(folder / str(file["path"]), convert_options=options)
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
