"""``explore.html``: a release as one page that needs no server and no network.

The page has the published rows, each variable by the places of its codes, and a script that filters, sorts, crosses and
draws them as they are. It adds nothing up: sums with margins are the library's, and the page shows the code for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa

from confide.answers import TypedAnswer
from confide.engines.groups import write_text
from confide.errors import ParameterError, Place
from confide.opened import OpenedTable, Release, open_release
from confide.releases.folder import PUBLIC_FILE
from confide.releases.tabular import AREA, AREA_NAME, LEVEL, STATUS
from confide.report.render import environment
from confide.schema import TOTAL_CODE
from confide.version import __version__

MOST_BYTES = 3_000_000
"""Of a page: what opens at once on any machine, and goes by mail."""
FIGURES = ("count", "value", "noise_margin", "low", "high")
FOLDER = files("confide") / "data" / "studio"
LOOK = files("confide") / "data" / "templates"


@dataclass(frozen=True)
class ExploreFile(TypedAnswer):
    """The page that was written."""

    file: Path
    bytes: int
    rows: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Tables that are too large for one page, with their rows."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"file": str(self.file), "bytes": self.bytes, "rows": self.rows, "left_out": dict(self.left_out)}


def write_explore(release: str | Path, file: str | Path) -> ExploreFile:
    """Writes a release as one page.

    Args:
        release: The release folder, or the folder of its run. It stays as it was sealed: the page lies outside it.
        file: The page; a file that is there is replaced.

    Returns:
        What was written, and which tables were left out.
    """
    opened, into = open_release(release), Path(file)
    if into.resolve().is_relative_to(opened.folder.resolve()):
        raise ParameterError(
            "into-release",
            "the page would lie in the release, which is sealed",
            where=Place(path="--out"),
            found=str(file),
            expected="a file outside the release folder",
            remedy="choose another place",
        )
    tables, left_out = _fitting(opened)
    text = _page(opened, tables, left_out)
    try:
        write_text(into, text, mode=PUBLIC_FILE)
    except OSError as error:
        raise ParameterError(
            "explore-file",
            "the page cannot be written there",
            where=Place(path="--out"),
            found=error.strerror or type(error).__name__,
            expected="a file in a folder that can be written to",
            remedy="choose another place",
        ) from None
    return ExploreFile(into, len(text.encode()), sum(len(table["figures"][0]) for table in tables), left_out)


def explore_page(release: Release) -> str:
    """The page of a release, as text."""
    return _page(release, *_fitting(release))


def _fitting(release: Release) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The tables that a codebook describes, smallest first, as far as they fit on a page."""
    described = [table for table in release.tables.values() if table.described is not None]
    tables, left_out, size = {}, dict[str, int](), len(_style()) + len(_script()) + 20_000
    for table in sorted(described, key=lambda each: each.listed_rows):
        if table.listed_rows * 4 > MOST_BYTES:
            left_out[table.name] = table.listed_rows
            continue
        packed = _packed(table)
        taken = len(_json(packed).encode())
        if size + taken > MOST_BYTES:
            left_out[table.name] = table.listed_rows
        else:
            tables[table.name], size = packed, size + taken
    return [tables[table.name] for table in described if table.name in tables], left_out


def _packed(table: OpenedTable) -> dict[str, Any]:
    """A table as columns: of each variable the places of its codes, of each figure its values."""
    rows, described = table.arrow(), table.described
    assert described is not None
    names = rows.column_names
    dimensions = []
    if LEVEL in names:
        dimensions.append(_dimension(rows, LEVEL, "Level", None))
        dimensions.append(_dimension(rows, AREA, "Area", AREA_NAME if AREA_NAME in names else None))
    for variable in described.columns.variables:
        title = variable.title or variable.column
        dimensions.append(_dimension(rows, variable.column, title, variable.label_column))
    figures = [name for name in FIGURES if name in names]
    return {
        "name": table.name,
        "title": table.title,
        "dimensions": dimensions,
        "heads": figures,
        "figures": [rows.column(name).to_pylist() for name in figures],
        "status": rows.column(STATUS).to_pylist() if STATUS in names else None,
    }


def _dimension(rows: pa.Table, column: str, title: str, labels: str | None) -> dict[str, Any]:
    codes = rows.column(column).cast(pa.string()).to_pylist()
    places: dict[str, int] = {}
    texts: list[list[str]] = []
    named = codes if labels is None else rows.column(labels).to_pylist()
    for code, label in zip(codes, named, strict=True):
        if code not in places:
            places[code] = len(places)
            texts.append([code, "all together" if code == TOTAL_CODE else str(label)])
    return {"column": column, "title": title, "codes": texts, "places": [places[code] for code in codes]}


def _page(release: Release, tables: list[dict[str, Any]], left_out: Mapping[str, int]) -> str:
    manifest = release.manifest
    template = environment().get_template("explore.html.j2")
    return template.render(
        title=str(manifest["title"]),
        release=str(manifest["release"]),
        mechanism=str(manifest["mechanism"]),
        banner=str(manifest.get("stamp", "")),
        noise=release.noise if isinstance(release.noise, str) else "",
        folder=release.folder.name,
        plan=str(manifest.get("plan_hash", "")),
        left_out=left_out,
        version=__version__,
        style=_style(),
        script=_script(),
        content=_json({"tables": tables}),
    )


def _json(value: Any) -> str:
    """JSON that may stand between tags: nothing in it can end them."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _style() -> str:
    look = (LOOK / "look.css").read_text(encoding="utf-8")
    printed = (LOOK / "look_print.css").read_text(encoding="utf-8")
    return "\n".join([look, printed, (FOLDER / "studio.css").read_text(encoding="utf-8")])


@cache
def _script() -> str:
    return (FOLDER / "explore.js").read_text(encoding="utf-8")
