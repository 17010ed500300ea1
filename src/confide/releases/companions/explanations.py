"""What people read first and look things up in, ``README.txt`` and ``codebook.html``; and the same for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from confide.releases.companions.codebook import Codebook, DescribedFile
from confide.releases.companions.labelled import PROGRAMS
from confide.releases.companions.workbook import MOST_ROWS
from confide.releases.tabular import (
    AREA,
    AREA_NAME,
    AREAS,
    LEVEL,
    PUBLISHED,
    STATUS,
    SUPPRESSED,
    TOTAL_CODE,
    DescribedColumn,
    DescribedTable,
    GivenColumns,
)
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


# Descriptions for programs: a Frictionless data package, CSV on the Web, a record for a registry.
#
# Every column has its type, so that codes stay texts and keep their leading zeros. ``registry.json`` has what a
# registry of deployments of differential privacy asks for, as far as a release says it: Dwork, Kohli and Mulligan
# (2019) proposed such a registry, and arXiv 2509.13509 describes what its records hold: what is published, whose
# privacy is protected, by which definition, at which loss, by which mechanism.
# References: https://specs.frictionlessdata.io/tabular-data-package/, https://www.w3.org/TR/tabular-metadata/.


XSD = {"string": "string", "integer": "integer", "number": "double"}
MOST_CODES = 1000
"""Longer lists of codes are left to the codebook."""


def data_package(manifest: Mapping[str, Any], files: Sequence[Mapping[str, Any]], codebook: Codebook) -> str:
    """``datapackage.json``: the CSV files of tables, cells and areas with their columns, types, codes and hashes."""
    resources = []
    for file in files:
        path = str(file["path"])
        if not _is_table(path, codebook):
            continue
        stem = path.split(".")[0]
        columns, title, key = _columns(stem, codebook)
        resources.append(
            {
                "name": stem.replace("/", "-").lower(),
                "title": title,
                "path": path,
                "profile": "tabular-data-resource",
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "bytes": file["bytes"],
                "hash": f"sha256:{file['sha256']}",
                "schema": {
                    "fields": [_field(column, str(file["columns"].get(column.name, ""))) for column in columns],
                    "missingValues": [""],
                    **({} if key is None else {"primaryKey": key}),
                },
            }
        )
    package: dict[str, Any] = {
        "profile": "tabular-data-package" if resources else "data-package",
        "name": manifest["release"],
        "title": manifest["title"],
        "description": codebook.protection,
        "version": manifest["plan_hash"],
    }
    publication = manifest.get("publication", {})
    if "office" in publication:
        package["contributors"] = [{"title": publication["office"], "role": "publisher"}]
    if "licence" in publication:
        package["licenses"] = [{"title": publication["licence"], "name": "other-open"}]
    return _json(package | {"resources": resources or _plain_resources(files)})


def _is_table(path: str, codebook: Codebook) -> bool:
    """Whether a file is a CSV of a table, of its cells alone or of the areas."""
    stems = {f"{folder}/{table.name}" for table in codebook.tables for folder in ("tables", "cells")} | {"areas"}
    stems |= {file.path for file in codebook.files}
    return path.endswith(".csv") and path.split(".")[0] in stems


def _plain_resources(files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where there is no CSV: files that carry their types themselves."""
    return [
        {
            "name": str(file["path"]).split(".")[0].replace("/", "-"),
            "path": file["path"],
            "bytes": file["bytes"],
            "hash": f"sha256:{file['sha256']}",
        }
        for file in files
    ]


def _columns(stem: str, codebook: Codebook) -> tuple[Sequence[DescribedColumn], str, list[str] | None]:
    """The columns of a file of a table, of its cells alone, of all areas, or of its own kind; its title, and what tells
    its rows apart."""
    folder, _, name = stem.partition("/")
    if folder == "areas":
        columns = [DescribedColumn(LEVEL, "string", "level"), DescribedColumn(AREA, "string", "area")]
        columns += [DescribedColumn(AREA_NAME, "string", "name")] if codebook.named else []
        return columns, "Areas", [LEVEL, AREA]
    for file in codebook.files:
        if file.path == stem:
            return file.described, file.title, [*file.key] or None
    table = next(table for table in codebook.tables if table.name == name)
    columns = [column for column in table.described if folder == "tables" or column.role != "margin"]
    return columns, table.title, [column.name for column in columns if column.role in ("level", "area", "code")]


def _field(column: DescribedColumn, description: str) -> dict[str, Any]:
    field: dict[str, Any] = {"name": column.name, "type": column.kind, "description": description}
    if column.variable is not None:
        field["title"] = column.variable.title or column.variable.name
        if column.role == "member":
            return field | _members(column)
        values = column.variable.codes if column.role == "code" else column.variable.labels
        if len(values) <= MOST_CODES:
            field["constraints"] = {"required": True, "enum": [*values, TOTAL_CODE]}
    elif column.name == STATUS and column.role == "figure":
        field["constraints"] = {"required": True, "enum": [PUBLISHED, SUPPRESSED]}
    elif column.role in ("level", "area", "margin", "figure") and not column.gaps:
        field["constraints"] = {"required": True}
    return field


def _members(column: DescribedColumn) -> dict[str, Any]:
    """What is said of a code of a record: those that there are, each with its label (``categories`` of version 2)."""
    assert column.variable is not None
    codes = [int(code) if column.kind == "integer" else code for code in column.variable.codes]
    if len(codes) > MOST_CODES:
        return {"constraints": {"required": True}}
    labelled = [{"value": code, "label": label} for code, label in zip(codes, column.variable.labels, strict=True)]
    return {"constraints": {"required": True, "enum": codes}, "categories": labelled}


def csv_on_the_web(manifest: Mapping[str, Any], files: Sequence[Mapping[str, Any]], codebook: Codebook) -> str:
    """``csvw-metadata.json``: the same for readers of CSV on the Web."""
    tables = []
    for file in files:
        path = str(file["path"])
        if not _is_table(path, codebook):
            continue
        columns, title, key = _columns(path.split(".")[0], codebook)
        names = [f"column{number}" for number in range(1, len(columns) + 1)]
        tables.append(
            {
                "url": path,
                "dc:title": title,
                "tableSchema": {
                    "columns": [
                        {
                            "name": name,
                            "titles": column.name,
                            "dc:description": str(file["columns"].get(column.name, "")),
                            "datatype": XSD[column.kind],
                            "required": not column.gaps and column.role != "name",
                        }
                        for name, column in zip(names, columns, strict=True)
                    ],
                    **({} if key is None else {"primaryKey": _numbered(names, columns, key)}),
                },
            }
        )
    context = ["http://www.w3.org/ns/csvw", {"@language": "en"}]
    dialect = {"delimiter": ",", "encoding": "utf-8", "header": True}
    return _json({"@context": context, "dc:title": manifest["title"], "dialect": dialect, "tables": tables})


def _numbered(names: Sequence[str], columns: Sequence[DescribedColumn], key: Sequence[str]) -> list[str]:
    return [name for name, column in zip(names, columns, strict=True) if column.name in key]


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


# A record for a registry of deployments.


FORMAT = "confide/registry/v1"
DEFINITIONS = {
    "zcdp": "zero-concentrated differential privacy",
    "pure": "pure differential privacy",
    "approximate": "approximate differential privacy",
}


def registry_record(manifest: Mapping[str, Any], codebook: Codebook) -> str:
    """The record of a release; what only its office knows stands there as null, to be filled in."""
    plan, privacy, publication = manifest["plan"], manifest["privacy"], manifest.get("publication", {})
    loss = privacy.get("loss")
    formal = loss is not None
    record = {
        "format": FORMAT,
        "name": manifest["title"],
        "identifier": manifest["release"],
        "data_curator": publication.get("office"),
        "contact": publication.get("contact"),
        "licence": publication.get("licence"),
        "intended_use": None,
        "publication_date": None,
        "data_product": {
            "kind": _kind(codebook),
            "tables": [
                *({"name": file.name, "title": file.title} for file in codebook.files),
                *({"name": table.name, "title": table.title} for table in codebook.tables),
            ],
            "access": "everybody, once",
        },
        "differentially_private": formal,
        "protection": codebook.protection,
        "privacy_unit": plan["question"].get("record", "person"),
        "neighbouring_relation": privacy.get("neighbours") if formal else None,
        "definition": DEFINITIONS.get(plan.get("definition", "")) if formal else None,
        "privacy_loss": loss,
        "epsilon_at_delta": privacy.get("epsilon_at_delta"),
        "loss_by_attribute": privacy.get("by_attribute"),
        "deployment_model": "central: one curator holds all records",
        "mechanism": {
            "name": manifest["mechanism"],
            "noise": sorted({measure["law"]["law"] for measure in plan.get("measures", ())}),
            "measurements": len(plan.get("measures", ())),
        },
        "implementation": {
            "software": "Confide",
            "version": manifest["confide"],
            "sampler": manifest["noise"].get("sampler"),
        },
        "plan_sha256": manifest["plan_hash"],
        "trial": "stamp" in manifest,
    }
    return _json(record)


def _kind(codebook: Codebook) -> str:
    """What is published: records, tables, or both, and what the tables are of."""
    figures = " and ".join(dict.fromkeys(f"{table.figures[0].name}s" for table in codebook.tables))
    return f"records, and tables of {figures or 'counts'}" if codebook.files else f"tables of {figures}"
