"""``explore.html``: a release as one page that needs no server and no network.

The page has the published rows, each variable by the places of its codes, and a script that filters, sorts, crosses and
draws them as they are. It adds nothing up: sums with margins are the library's, and the page shows the code for them.
Outlines that the release has (:mod:`.geoparquet`) are on it as well, so that it draws a map; for other levels a reader
chooses a GeoJSON file, which the script reads where it is.

A small release has the page in its folder: one whose tables have at most :data:`MOST_ROWS` rows together, which anybody
can count who has the tables, or any whose spec asks for it. Its manifest says so, and ``verify`` makes the page anew.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
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
from confide.releases.companions.codebook import Codebook
from confide.releases.companions.geoparquet import GEO, read_outlines
from confide.releases.folder import rehearsal_banner
from confide.releases.tabular import AREA, AREA_NAME, LEVEL, DescribedTable, read_described, table_path
from confide.report.certificate import messages_of
from confide.report.geometry import Polygons, planar_outlines
from confide.report.render import environment
from confide.schema import TOTAL_CODE

PAGE = "explore.html"
EXPLORE, VERSION = "explore", "confide/explore/v1"
"""The entry of a manifest whose release has the page, and what it says."""
MOST_ROWS = 50_000
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
_ROLES = {LEVEL: "level", AREA: "area"}


@dataclass(frozen=True)
class ExplorePage:
    """A release as one page."""

    text: str
    rows: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Tables that are too large for one page, with their rows."""


def page_version(files: Sequence[Mapping[str, Any]], codebook: Codebook, asked: bool | None) -> str | None:
    """The version of the page that a release has, if it has one.

    Args:
        files: Its files with rows.
        codebook: What its mechanism says of the tables.
        asked: What the spec says; if nothing, the number of published rows decides, which everybody can count.
    """
    rows = _listed_rows(files, codebook)
    wanted = sum(rows.values()) <= MOST_ROWS if asked is None else asked
    return VERSION if rows and wanted else None


def explore_page(
    folder: Path,
    manifest: Mapping[str, Any],
    files: Sequence[Mapping[str, Any]],
    codebook: Codebook,
    *,
    in_release: bool = True,
) -> ExplorePage:
    """The page of a release.

    Args:
        folder: Where its tables are.
        manifest: Its manifest.
        files: The entries of the manifest with rows.
        codebook: What its mechanism says of the tables.
        in_release: Whether the page stands in the release, beside the tables and the other pages.

    Returns:
        The page with all tables, or with as many as fit, the smallest first.
    """
    text, rows = messages_of(manifest), _listed_rows(files, codebook)
    tables, left_out, size = {}, dict[str, int](), len(_style()) + len(_script()) + 20_000
    named = {table.name: table for table in codebook.tables if table.name in rows}
    for name in sorted(named, key=lambda each: rows[each]):
        if rows[name] * 4 <= MOST_BYTES:
            path = table_path(name, files)
            assert path is not None
            packed = _json(_packed(_read(folder / path, named[name]), named[name], text))
            if size + len(packed.encode()) <= MOST_BYTES:
                tables[name], size = packed, size + len(packed.encode())
                continue
        left_out[name] = rows[name]
    words = {key: text.texts[f"explore.word_{key}"] for key in WORDS}
    said = _json({"language": text.language, "words": words})
    content = f'{said[:-1]},"tables":[{",".join(tables[name] for name in named if name in tables)}]'
    content += f"{_outlines(folder, files, MOST_BYTES - size)}}}"
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


def _listed_rows(files: Sequence[Mapping[str, Any]], codebook: Codebook) -> dict[str, int]:
    """The tables of the codebook that are there, with their rows."""
    rows = {str(file["path"]): int(file["rows"]) for file in files if "rows" in file}
    named = ((table.name, table_path(table.name, files)) for table in codebook.tables)
    return {name: rows[path] for name, path in named if path is not None}


def _read(path: Path, table: DescribedTable) -> pa.Table:
    """The rows of a table, texts by the dictionaries of the file."""
    if path.suffix != ".parquet":
        return read_described(path, table)
    texts = [column.name for column in table.described if column.kind == "string"]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        return file.read(use_threads=False)  # beginning threads takes longer than reading some thousand rows


def _packed(rows: pa.Table, table: DescribedTable, text: Messages) -> dict[str, Any]:
    """A table as columns: of each variable the places of its codes, of each figure its values."""
    there = set(rows.column_names)
    dimensions = []
    for column in table.described:
        name, variable = column.name, column.variable
        if column.role in ("level", "area"):
            title, label = text.texts[f"explore.{column.role}"], AREA_NAME if column.role == "area" else None
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


def _outlines(folder: Path, files: Sequence[Mapping[str, Any]], most: int) -> str:
    """Outlines of the areas of each level that the release has, as a part of the content; nothing if there are none.

    Polygons are lists of rings, a ring is x and y in turns on a plane, y upwards.

    Args:
        folder: Where the files are.
        files: The entries of the manifest with rows.
        most: How many bytes there may be; what is larger is left out, and the page shows tiles.
    """
    levels: dict[str, dict[str, Polygons]] = {}
    for file in files:
        place, _, name = str(file["path"]).partition("/")
        if place == GEO:
            levels.setdefault(name.split(".")[0], {}).update(read_outlines(folder / str(file["path"])))
    written = []
    for level, polygons in levels.items():
        outlines = planar_outlines(polygons)
        flat = [[each.code, [[[*chain(*ring)] for ring in rings] for rings in each.polygons]] for each in outlines]
        packed = _json({level: flat})[1:-1]
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
        "codes": [[code, together if code == TOTAL_CODE else label] for code, label in listed],
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


def _json(value: Any) -> str:
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
