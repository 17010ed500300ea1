"""What people read first, look things up in and explore, and the same for programs; and all explanations together."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files as resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.messages import Messages
from confide.releases import tabular
from confide.releases.companions.geoparquet import GEO, read_outlines
from confide.releases.companions.programs import MOST_ROWS, PROGRAMS, argus_files, sdmx_structure, tables_workbook
from confide.releases.folder import SealedRelease, rehearsal_banner
from confide.report.charts import Polygons, planar_outlines
from confide.report.rendering import environment, messages_of, render

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


def readme(release: SealedRelease, codebook: tabular.Codebook, companions: Sequence[str]) -> str:
    """What this is, how to read it, how to add up, how to cite."""
    manifest = release.manifest
    page = "certificate.html" if manifest["privacy"].get("loss") is not None else "statement.html"
    paths = [file["path"] for file in release.data]
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
        total=tabular.TOTAL_CODE,
    )


def _listed(path: str) -> str:
    """What a page explains to its reader: a file, or the folder of those for tau-ARGUS."""
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


def codebook_page(release: SealedRelease, codebook: tabular.Codebook) -> str:
    """The page of columns, codes and labels."""
    manifest, files = release.manifest, release.data
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
        areas=_areas(release),
        total=tabular.TOTAL_CODE,
    )


def command_lines(
    table: tabular.DescribedTable | tabular.DescribedFile, files: Sequence[Mapping[str, Any]]
) -> CommandLines | None:
    """How R and DuckDB read the cells of a table, or a file; None where there is no CSV."""
    if isinstance(table, tabular.DescribedFile):
        own, stem = "rows", table.path
    else:
        own = "rows" if isinstance(table.columns, tabular.GivenColumns) else "cells"
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


def _quoted(column: tabular.DescribedColumn) -> str:
    return column.name.replace("'", "''")


def _areas(release: SealedRelease) -> list[tuple[str, ...]]:
    """The areas with names, unless there are too many to look through."""
    rows = tabular.listed_areas(release, MOST_AREAS_SHOWN)
    if rows is None or tabular.AREA_NAME not in rows.column_names:
        return []
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


def data_package(release: SealedRelease, codebook: tabular.Codebook) -> str:
    """``datapackage.json``: the CSV files of tables, cells and areas with their columns, types, codes and hashes."""
    manifest, files = release.manifest, release.data
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


def _is_table(path: str, codebook: tabular.Codebook) -> bool:
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


def _columns(stem: str, codebook: tabular.Codebook) -> tuple[Sequence[tabular.DescribedColumn], str, list[str] | None]:
    """The columns of a file of a table, of its cells alone, of all areas, or of its own kind; its title, and what tells
    its rows apart."""
    folder, _, name = stem.partition("/")
    if folder == "areas":
        columns = [
            tabular.DescribedColumn(tabular.LEVEL, "string", "level"),
            tabular.DescribedColumn(tabular.AREA, "string", "area"),
        ]
        columns += [tabular.DescribedColumn(tabular.AREA_NAME, "string", "name")] if codebook.named else []
        return columns, "Areas", [tabular.LEVEL, tabular.AREA]
    for file in codebook.files:
        if file.path == stem:
            return file.described, file.title, [*file.key] or None
    table = next(table for table in codebook.tables if table.name == name)
    columns = [column for column in table.described if folder == "tables" or column.role != "margin"]
    return columns, table.title, [column.name for column in columns if column.role in ("level", "area", "code")]


def _field(column: tabular.DescribedColumn, description: str) -> dict[str, Any]:
    field: dict[str, Any] = {"name": column.name, "type": column.kind, "description": description}
    if column.variable is not None:
        field["title"] = column.variable.title or column.variable.name
        if column.role == "member":
            return field | _members(column)
        values = column.variable.codes if column.role == "code" else column.variable.labels
        if len(values) <= MOST_CODES:
            field["constraints"] = {"required": True, "enum": [*values, tabular.TOTAL_CODE]}
    elif column.name == tabular.STATUS and column.role == "figure":
        field["constraints"] = {"required": True, "enum": [tabular.PUBLISHED, tabular.SUPPRESSED]}
    elif column.role in ("level", "area", "margin", "figure") and not column.gaps:
        field["constraints"] = {"required": True}
    return field


def _members(column: tabular.DescribedColumn) -> dict[str, Any]:
    """What is said of a code of a record: those that there are, each with its label (``categories`` of version 2)."""
    assert column.variable is not None
    codes = [int(code) if column.kind == "integer" else code for code in column.variable.codes]
    if len(codes) > MOST_CODES:
        return {"constraints": {"required": True}}
    labelled = [{"value": code, "label": label} for code, label in zip(codes, column.variable.labels, strict=True)]
    return {"constraints": {"required": True, "enum": codes}, "categories": labelled}


def csv_on_the_web(release: SealedRelease, codebook: tabular.Codebook) -> str:
    """``csvw-metadata.json``: the same for readers of CSV on the Web."""
    tables = []
    for file in release.data:
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
    return _json({"@context": context, "dc:title": release.manifest["title"], "dialect": dialect, "tables": tables})


def _numbered(names: Sequence[str], columns: Sequence[tabular.DescribedColumn], key: Sequence[str]) -> list[str]:
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


def registry_record(manifest: Mapping[str, Any], codebook: tabular.Codebook) -> str:
    """The record of a release; what only its office knows is there as null, to be filled in."""
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
        "privacy_unit": plan["question"].get("record", plan.get("unit", "person")),
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


def _kind(codebook: tabular.Codebook) -> str:
    """What is published: records, tables, or both, and what the tables are of."""
    figures = " and ".join(dict.fromkeys(f"{table.figures[0].name}s" for table in codebook.tables))
    return f"records, and tables of {figures or 'counts'}" if codebook.files else f"tables of {figures}"


# ``explore.html``: a release as one page that needs no server and no network.
#
# The page has the published rows, each variable by the places of its codes, and a script that filters, sorts, crosses
# and draws them as they are. It adds nothing up: sums with margins are the library's, and the page shows the code for
# them. Outlines that the release has (:mod:`.geoparquet`) are on it as well, so that it draws a map; for other levels a
# reader chooses a GeoJSON file, which the script reads where it is.
#
# A small release has the page in its folder: one whose tables have at most :data:`MOST_ROWS` rows together, which
# anybody can count who has the tables, or any whose spec asks for it. Its manifest says so, and ``verify`` makes the
# page anew.


PAGE = "explore.html"
EXPLORE, VERSION = "explore", "confide/explore/v1"
"""The entry of a manifest whose release has the page, and what it says."""
MOST_PAGE_ROWS = 50_000
"""Of all tables together: larger releases have the page only where a spec asks for it."""
MOST_BYTES = 3_000_000
"""Of a page: what opens at once on any machine, and goes by mail."""
FIGURES = ("count", "value", "noise_margin", "low", "high")
WORDS = (
    "across", "all", "along", "bars", "colour", "cross", "down", "each", "figure", "first", "large", "line", "lines",
    "local", "map", "margin", "no_codes", "no_outlines", "nothing", "number", "outlines", "pyramid", "rows", "search",
    "show", "suppressed", "table", "tiles", "to", "together", "without",
)  # fmt: skip
"""What the script says, by the last part of the key of each message."""
DATA = resources("confide") / "data"
_ROLES = {tabular.LEVEL: "level", tabular.AREA: "area"}


@dataclass(frozen=True)
class ExplorePage:
    """A release as one page."""

    text: str
    rows: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Tables that are too large for one page, with their rows."""


def page_version(files: Sequence[Mapping[str, Any]], codebook: tabular.Codebook, asked: bool | None) -> str | None:
    """The version of the page that a release has, if it has one.

    Args:
        files: Its files with rows.
        codebook: What its mechanism says of the tables.
        asked: What the spec says; if nothing, the number of published rows decides, which everybody can count.
    """
    rows = _listed_rows(files, codebook)
    wanted = sum(rows.values()) <= MOST_PAGE_ROWS if asked is None else asked
    return VERSION if rows and wanted else None


def explore_page(release: SealedRelease, codebook: tabular.Codebook, *, in_release: bool = True) -> ExplorePage:
    """The page of a release.

    Args:
        release: The release.
        codebook: What its mechanism says of the tables.
        in_release: Whether the page is in the release, beside the tables and the other pages.

    Returns:
        The page with all tables, or with as many as fit, the smallest first.
    """
    manifest, files = release.manifest, release.data
    text, rows = messages_of(manifest), _listed_rows(files, codebook)
    tables, left_out, size = {}, dict[str, int](), len(_style()) + len(_script()) + 20_000
    named = {table.name: table for table in codebook.tables if table.name in rows}
    for name in sorted(named, key=lambda each: rows[each]):
        if rows[name] * 4 <= MOST_BYTES:
            path = tabular.table_path(name, files)
            assert path is not None
            packed = _json_in_page(_packed(_read(release.folder / path, named[name]), named[name], text))
            if size + len(packed.encode()) <= MOST_BYTES:
                tables[name], size = packed, size + len(packed.encode())
                continue
        left_out[name] = rows[name]
    words = {key: text.texts[f"explore.word_{key}"] for key in WORDS}
    said = _json_in_page({"language": text.language, "words": words})
    content = f'{said[:-1]},"tables":[{",".join(tables[name] for name in named if name in tables)}]'
    content += f"{_outlines(release, MOST_BYTES - size)}}}"
    page = environment(text.language).get_template("explore.html.j2")
    chosen = text.text("page.stamp_noise", stamp=manifest["stamp"]) if "stamp" in manifest else ""
    return ExplorePage(
        page.render(
            manifest=manifest,
            banner=rehearsal_banner(manifest) or chosen,
            promise="certificate.html" if manifest["privacy"].get("loss") is not None else "statement.html",
            in_release=in_release,
            left_out=left_out,
            style=_style(),
            script=_script(),
            content=content,
        ),
        sum(rows[name] for name in tables),
        left_out,
    )


def _listed_rows(files: Sequence[Mapping[str, Any]], codebook: tabular.Codebook) -> dict[str, int]:
    """The tables of the codebook that are there, with their rows."""
    rows = {str(file["path"]): int(file["rows"]) for file in files if "rows" in file}
    named = ((table.name, tabular.table_path(table.name, files)) for table in codebook.tables)
    return {name: rows[path] for name, path in named if path is not None}


def _read(path: Path, table: tabular.DescribedTable) -> pa.Table:
    """The rows of a table, texts by the dictionaries of the file."""
    if path.suffix != ".parquet":
        return tabular.read_described(path, table)
    texts = [column.name for column in table.described if column.kind == "string"]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        return file.read(use_threads=False)  # beginning threads takes longer than reading some thousand rows


def _packed(rows: pa.Table, table: tabular.DescribedTable, text: Messages) -> dict[str, Any]:
    """A table as columns: of each variable the places of its codes, of each figure its values."""
    there = set(rows.column_names)
    dimensions = []
    for column in table.described:
        name, variable = column.name, column.variable
        if column.role in ("level", "area"):
            title, label = text.texts[f"explore.{column.role}"], tabular.AREA_NAME if column.role == "area" else None
        elif column.role == "code":
            title, label = (variable.title, variable.label_column) if variable is not None else ("", None)
        else:
            continue
        dimension = _dimension(rows, name, label if label in there else None, text)
        dimensions.append({"column": name, "title": title or name, "role": _ROLES.get(name, "variable")} | dimension)
    figures = [name for name in FIGURES if name in there]
    return {
        "name": table.name,
        "title": table.title,
        "dimensions": dimensions,
        "heads": figures,
        "figures": [_numbers(rows.column(name)) for name in figures],
    }


def _outlines(release: SealedRelease, most: int) -> str:
    """Outlines of the areas of each level that the release has, as a part of the content; nothing if there are none.

    Polygons are lists of rings, a ring is x and y in turns on a plane, y upwards.

    Args:
        release: The release.
        most: How many bytes there may be; what is larger is left out, and the page shows tiles.
    """
    levels: dict[str, dict[str, Polygons]] = {}
    for path in release.paths(f"{GEO}/"):
        level = path.removeprefix(f"{GEO}/").split(".")[0]
        levels.setdefault(level, {}).update(read_outlines(release.folder / path))
    written = []
    for level, polygons in levels.items():
        outlines = planar_outlines(polygons)
        flat = [[each.code, [[[*chain(*ring)] for ring in rings] for rings in each.polygons]] for each in outlines]
        packed = _json_in_page({level: flat})[1:-1]
        if len(packed.encode()) < most:
            written.append(packed)
            most -= len(packed.encode()) + 1
    return f',"outlines":{{{",".join(written)}}}' if written else ""


def _numbers(column: pa.ChunkedArray) -> list[int | float | None]:
    plain: list[int | float | None] = column.to_pylist()
    return [None if each is None else float(each) for each in plain] if pa.types.is_decimal(column.type) else plain


def _dimension(rows: pa.Table, column: str, labels: str | None, text: Messages) -> dict[str, Any]:
    """A column by its codes with their labels, in the order in which they come, and the place of each row's among them.

    A code may have two labels: that of an area on one level may be that of another on the next. The places are whole
    numbers of one, two or four bytes, the lowest first, in base64: shorter than digits, and read at once.
    """
    codes, of_codes = _encoded(rows.column(column))
    names, of_names = (codes, of_codes) if labels is None else _encoded(rows.column(labels))
    pairs, first, places = np.unique(of_codes * (len(names) + 1) + of_names, return_index=True, return_inverse=True)
    order = np.argsort(first)  # by first appearance
    together = text.texts["explore.word_together"]
    listed = [(codes[of_codes[row]], names[of_names[row]]) for row in first[order]]
    width = 1 if len(pairs) <= 1 << 8 else 2 if len(pairs) <= 1 << 16 else 4
    numbers = np.argsort(order)[places].astype(f"<u{width}")
    return {
        "codes": [[code, together if code == tabular.TOTAL_CODE else label] for code, label in listed],
        "width": width,
        "places": b64encode(numbers.tobytes()).decode(),
    }


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], Integers]:
    """The different texts of a column, and which of them each row has."""
    if not pa.types.is_dictionary(column.type) or column.null_count:
        column = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    encoded = column.unify_dictionaries()
    if not len(encoded):
        return [], np.zeros(0, np.int64)
    parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return encoded.chunk(0).dictionary.to_pylist(), np.concatenate(parts).astype(np.int64)


def _json_in_page(value: Any) -> str:
    """JSON that may stand between tags: nothing in it can end them."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _style() -> str:
    parts = ("templates/look.css", "templates/look_print.css", "studio/explore.css")
    return "\n".join((DATA / part).read_text(encoding="utf-8").strip() for part in parts)


@cache
def _script() -> str:
    return (DATA / "studio/explore.js").read_text(encoding="utf-8").strip()


# All explanations of a release.


def companions(release: SealedRelease, codebook: tabular.Codebook) -> dict[str, bytes]:
    """The explanations of a release.

    Args:
        release: The release; of the files that it lists only those with rows are looked at.
        codebook: What its mechanism says of the tables.

    Returns:
        The content of each file by its path.
    """
    texts = {"datapackage.json": data_package(release, codebook)}
    if "csvw" in codebook.formats:
        texts["csvw-metadata.json"] = csv_on_the_web(release, codebook)
    if "sdmx-csv" in codebook.formats and codebook.coded:
        texts["sdmx/structure.json"] = sdmx_structure(release, codebook)
    if "registry" in codebook.formats:
        texts["registry.json"] = registry_record(release.manifest, codebook)
    contents = {path: text.encode() for path, text in texts.items()}
    if "xlsx" in codebook.formats and (book := tables_workbook(release, codebook)) is not None:
        contents["tables.xlsx"] = book
    if "argus" in codebook.formats:
        contents |= argus_files(release, codebook)
    if EXPLORE in release.manifest:
        contents[PAGE] = explore_page(release, codebook).text.encode()
    contents |= {name: page(release.folder, release.manifest).encode() for name, page in codebook.pages.items()}
    contents["codebook.html"] = codebook_page(release, codebook).encode()
    return contents | {"README.txt": readme(release, codebook, sorted(contents)).encode()}
