"""The release explorer: for those who use the figures, and have a release folder and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel

from confide import api
from confide.errors import ConfideError, InputError, ParameterError, Place
from confide.file_system import write_text
from confide.opened import Estimate, OpenedTable, Release
from confide.releases import Spec, Verification
from confide.report import charts
from confide.report.charts import read_features
from confide.studio import table_view as figures
from confide.studio import table_view as tables
from confide.studio.door import DOCUMENT_POLICY
from confide.studio.opened_folder import HERE, FoundFile, OpenedFolder
from confide.studio.pages import address, figure_answer, page
from confide.studio.table_view import TableReader, View, ViewDimension
from confide.trade_offs import tunable

Show = Literal["table", "cross", "bars", "lines", "pyramid", "map"]
SHOWN: dict[Show, str] = {
    "table": "Rows",
    "cross": "Cross-table",
    "bars": "Bars",
    "lines": "Lines",
    "pyramid": "Pyramid",
    "map": "Map",
}
MAPS = "maps"
"""Where maps that are uploaded are kept, in the folder that was opened."""
_MAP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,80}\.geojson")
DOCUMENTS = ("certificate.html", "statement.html", "codebook.html", "README.txt", "manifest.json")


class TableAnswer(BaseModel):
    """A table of a release."""

    name: str
    title: str
    rows: int
    columns: list[str]
    dimensions: dict[str, dict[str, str]]
    """By column its codes with their labels; of areas none."""


class RowsAnswer(BaseModel):
    """A page of rows, as published."""

    total: int
    page: int
    pages: int
    rows: list[dict[str, Any]]


class EstimateAnswer(BaseModel):
    """A number from published figures with its margin; ``null`` where it is not known, and then the note says why."""

    value: float | None
    margin: float | None
    probability: str
    note: str
    in_words: str

    @classmethod
    def of(cls, estimate: Estimate) -> EstimateAnswer:
        plain = estimate.as_dict()
        named = {name: plain[name] for name in ("value", "margin", "probability", "note")}
        return cls(**named, in_words=str(estimate))


class EstimatesAnswer(BaseModel):
    """Sum of the cells ``a``; with ``b`` their sum, the difference and the ratio as well."""

    a: EstimateAnswer
    b: EstimateAnswer | None = None
    difference: EstimateAnswer | None = None
    ratio: EstimateAnswer | None = None


class SealAnswer(BaseModel):
    """What `confide verify` says of the release."""

    ok: bool
    verdict: str
    checks: list[dict[str, Any]]


class UploadedMap(BaseModel):
    """A map that was put into the folder."""

    name: str
    areas: int


@dataclass(frozen=True)
class Asked:
    """A view of a table as an address asks for it."""

    release_name: str
    release: Release
    reader: TableReader
    view: View
    show: Show = "table"
    down: str = ""
    across: str = ""
    measure: figures.Measure = "value"
    map: str = ""
    a: tuple[int, ...] = ()
    b: tuple[int, ...] = ()

    @property
    def table(self) -> OpenedTable:
        return self.reader.table

    def at(self, path: str = "/explore/table", **changes: Any) -> str:
        """The address of this view, with changes."""
        values: dict[str, Any] = {
            "release": self.release_name,
            "table": self.table.name,
            "chosen": 1,
            "show": self.show,
            "where": [f"{column}={code}" for column, code in self.view.where],
            "search": self.view.search,
            "order": self.view.order,
            "descending": self.view.descending,
            "page": self.view.page if self.view.page > 1 else None,
            "down": self.down,
            "across": self.across,
            "measure": self.measure if self.measure != "value" else None,
            "map": self.map,
            "a": list(self.a),
            "b": list(self.b),
        }
        return address(path, **values | changes)


async def opened_folder(request: Request) -> OpenedFolder:
    """The folder that the application was made for; nothing to wait for, so no thread of its own."""
    folder = request.app.state.folder
    assert isinstance(folder, OpenedFolder)
    return folder


Folder = Annotated[OpenedFolder, Depends(opened_folder)]


def asked(
    folder: Folder,
    table: str,
    release: str = HERE,
    chosen: Annotated[bool, Query(description="Whether `where` is all that is chosen.")] = False,
    where: Annotated[Sequence[str], Query(description="COLUMN=CODE, repeated.")] = (),
    search: Annotated[str, Query(max_length=200, description="Part of a code or a name of an area.")] = "",
    order: str = "",
    descending: bool = False,
    page: Annotated[int, Query(ge=1, le=10**9)] = 1,
    show: Show = "table",
    down: str = "",
    across: str = "",
    measure: figures.Measure = "value",
    geometry: Annotated[str, Query(alias="map", description="A map in the folder.")] = "",
    a: Annotated[Sequence[int], Query(max_length=2000, description="Rows that are added.")] = (),
    b: Annotated[Sequence[int], Query(max_length=2000, description="Rows that they are compared with.")] = (),
) -> Asked:
    """An address as a view of a table."""
    opened = folder.release(release)
    reader = _reader(opened.tables[table])
    choice = tuple(_pair(reader, text) for text in where if text) if where or chosen else reader.first_look().where
    view = View(choice, search, order, descending, page)
    return Asked(release, opened, reader, view, show, down, across, measure, geometry, tuple(a), tuple(b))


AskedView = Annotated[Asked, Depends(asked)]
router = APIRouter(tags=["explorer"])


@router.get("/explore", include_in_schema=False)
def overview(folder: Folder, release: str = HERE) -> HTMLResponse:
    """The tables and documents of a release."""
    opened = folder.release(release)
    return page(
        "studio_release.html.j2",
        opened.manifest["title"],
        release=opened,
        name=release,
        tables=list(opened.tables.values()),
        documents=_documents(opened),
        noise=opened.noise if isinstance(opened.noise, str) else "",
    )


@router.get("/explore/table", include_in_schema=False)
def shown(view: AskedView, folder: Folder) -> HTMLResponse:
    """A table, as somebody wants to look at it."""
    return page("studio_table.html.j2", view.table.title, crumbs=_crumbs(view), **_shown(view, folder))


@router.get("/explore/figure.svg", include_in_schema=False)
def figure(view: AskedView, folder: Folder) -> Response:
    """The picture of a view."""
    return figure_answer(_figure(view, folder).svg())


@router.get("/explore/file", include_in_schema=False)
def download(view: AskedView, format_: Annotated[Literal["csv", "parquet", "xlsx"], Query(alias="format")]) -> Response:
    """A view as a file."""
    content = tables.as_file(view.reader.all_rows(view.view), format_, view.table.name)
    named = {"content-disposition": f'attachment; filename="{view.table.name}.{format_}"'}
    return Response(content, media_type=tables.FORMATS[format_], headers=named)


@router.get("/explore/seal", include_in_schema=False)
def seal_page(folder: Folder, release: str = HERE) -> HTMLResponse:
    """What `confide verify` says."""
    opened, crumbs = folder.release(release), [("Release", address("/explore", release=release))]
    verification = _verify(folder, release)
    return page(
        "studio_seal.html.j2", "The seal", crumbs=crumbs, verification=verification, name=release, release=opened
    )


@router.get("/explore/document", include_in_schema=False)
def document(folder: Folder, file: str, release: str = HERE) -> Response:
    """A document of a release, which may do nothing."""
    opened = folder.release(release)
    if file not in _documents(opened):
        raise ParameterError("no-document", found=file[:60], documents=", ".join(DOCUMENTS))
    content = (opened.folder / file).read_bytes()
    kind = {"html": "text/html", "json": "application/json"}.get(file.rpartition(".")[2], "text/plain")
    policy = {"content-security-policy": DOCUMENT_POLICY}
    return Response(content, media_type=f"{kind}; charset=utf-8", headers=policy)


@router.get("/explore/explore.html", include_in_schema=False)
def explore_file(folder: Folder, release: str = HERE) -> Response:
    """The release as one page, to keep."""
    named = {"content-disposition": 'attachment; filename="explore.html"'}
    text = folder.release(release).page().text
    return Response(text, media_type="text/html; charset=utf-8", headers=named)


@router.get("/api/tables")
def listed(folder: Folder, release: str = HERE) -> list[TableAnswer]:
    """The tables of a release, with the codes and labels of their variables."""
    readers = [_reader(table) for table in folder.release(release).tables.values()]
    return [
        TableAnswer(
            name=reader.table.name,
            title=reader.table.title,
            rows=reader.table.listed_rows,
            columns=reader.columns,
            dimensions={each.column: dict(each.options) for each in reader.dimensions},
        )
        for reader in readers
    ]


@router.get("/api/rows")
def rows(view: AskedView) -> RowsAnswer:
    """A page of the rows that were chosen; ``where=COLUMN=CODE`` is repeated for each choice."""
    part = view.reader.page(view.view)
    return RowsAnswer(total=part.total, page=part.page, pages=part.pages, rows=[dict(row) for row in part.rows])


@router.get("/api/estimate")
def estimate(view: AskedView) -> EstimatesAnswer:
    """Sum, difference and ratio of chosen cells, which are known by ``#row``."""
    answer = tables.estimates(view.release, view.reader, view.a, view.b)
    if answer is None:
        raise ParameterError("nothing-chosen")
    parts = (answer.sum_b, answer.difference, answer.ratio)
    b, difference, ratio = (None if each is None else EstimateAnswer.of(each) for each in parts)
    return EstimatesAnswer(a=EstimateAnswer.of(answer.sum_a), b=b, difference=difference, ratio=ratio)


@router.get("/api/verify")
def seal(folder: Folder, release: str = HERE) -> SealAnswer:
    """Whether the release is as it was sealed."""
    verification = _verify(folder, release)
    checks = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in verification.checks]
    return SealAnswer(ok=verification.ok, verdict=verification.verdict, checks=checks)


@router.put("/api/maps/{name}")
async def upload(folder: Folder, name: str, request: Request) -> UploadedMap:
    """Puts a map (GeoJSON) into the folder, under ``maps/``. A file that is there stays."""
    if not _MAP_NAME.fullmatch(name):
        raise ParameterError("map-name", found=name[:60])
    content = b"".join([part async for part in request.stream()])
    return await run_in_threadpool(_keep_map, folder, name, content)


def home_values(folder: OpenedFolder) -> dict[str, Any]:
    """What the first page shows of the folder."""
    contents = folder.contents()
    releases = [(file, *_opened(folder, file)) for file in contents.releases]
    specs = [(file, *_loaded(file)) for file in contents.specs]
    named = {spec.release.mechanism for _, spec, _ in specs if spec is not None}
    movable = [name for name in named if name in tunable()]
    listed = {"folder": folder, "contents": contents, "releases": releases, "specs": specs}
    return listed | {"tunable": movable, "demonstration": "confide studio demo"}


def _loaded(file: FoundFile) -> tuple[Spec | None, str]:
    """A spec, or why it cannot be read."""
    try:
        return api.load(file.path).spec, ""
    except ConfideError as error:
        return None, error.findings[0].what


def _opened(folder: OpenedFolder, file: FoundFile) -> tuple[Release | None, str]:
    """A release, or why it cannot be opened."""
    try:
        return folder.release(file.name), ""
    except ConfideError as error:
        return None, error.findings[0].what


def _pair(reader: TableReader, text: str) -> tuple[str, str]:
    """COLUMN=CODE; a column may have an equals sign in its name."""
    fitting = [each.column for each in reader.dimensions if text.startswith(f"{each.column}=")]
    column = max(fitting, key=len, default=text.partition("=")[0])
    return reader.dimension(column).column, text[len(column) + 1 :]


@lru_cache(maxsize=24)
def _reader(table: OpenedTable) -> TableReader:
    return TableReader(table)


def _verify(folder: OpenedFolder, name: str) -> Verification:
    """Verified anew each time: files may have changed under a manifest that has not."""
    return api.verify(folder.release(name).folder)


def _crumbs(view: Asked) -> list[tuple[str, str]]:
    return [(str(view.release.manifest["title"]), address("/explore", release=view.release_name))]


def _shows(reader: TableReader) -> list[Show]:
    """The ways in which a table can be looked at."""
    drawn = bool(reader.figure) and any(each.kind != "level" for each in reader.dimensions)
    pyramid = drawn and figures.sex_and_age(reader) is not None
    areas = drawn and any(each.kind == "area" for each in reader.dimensions)
    lines = drawn and bool(_ordered(reader))
    fitting = {"table": True, "cross": drawn, "bars": drawn, "lines": lines, "pyramid": pyramid, "map": areas}
    return [each for each in SHOWN if fitting[each]]


def _ordered(reader: TableReader) -> list[ViewDimension]:
    """What lines can be drawn over."""
    return [each for each in reader.dimensions if each.kind == "variable" and figures.ordered(each)]


def _completed(view: Asked) -> Asked:
    """The view with what nobody chose: the first two dimensions, and rows where the table cannot be drawn."""
    crossable = [each for each in view.reader.dimensions if each.kind != "level"]
    show = view.show if view.show in _shows(view.reader) else "table"
    down = view.down or (crossable[0].column if crossable else "")
    if show == "lines" and down not in (over := [each.column for each in _ordered(view.reader)]):
        down = over[0]
    across = view.across or next((x.column for x in crossable if x.kind == "variable" and x.column != down), "")
    return replace(view, show=show, down=down, across=across)


def _shown(view: Asked, folder: OpenedFolder) -> dict[str, Any]:
    """What the page of a table shows."""
    reader, completed = view.reader, _completed(view)
    show, down, across = completed.show, completed.down, completed.across
    return {
        "asked": completed,
        "reader": reader,
        "shows": [(each, SHOWN[each]) for each in _shows(reader)],
        "crossable": [each for each in reader.dimensions if each.kind != "level"],
        "ordered": _ordered(reader),
        "has_areas": any(each.kind == "area" for each in reader.dimensions),
        "estimates": tables.estimates(view.release, reader, view.a, view.b) if reader.figure else None,
        "chosen_a": reader.rows_at(view.a),
        "chosen_b": reader.rows_at(view.b),
        "pandas_code": tables.pandas_code(view.table, view.view),
        "r_code": tables.r_code(view.table, view.view),
        "maps": [file.name for file in folder.contents().maps] if show == "map" else [],
        "noise": view.release.noise if isinstance(view.release.noise, str) else "",
        "drawable": charts.available(),
        "page_rows": tables.PAGE_ROWS,
        "rows": reader.page(view.view) if show == "table" else None,
        "crossed": reader.crossed(view.view, down, across) if show == "cross" else None,
    }


def _figure(asked_view: Asked, folder: OpenedFolder) -> charts.Chart:
    view = _completed(asked_view)
    if view.show == "pyramid":
        return figures.pyramid(view.reader, view.view)
    if view.show == "lines":
        return figures.lines(view.reader, view.view, view.down, view.across)
    if view.show == "map":
        geometry = folder.inside(view.map) if view.map else None
        return figures.area_map(view.reader, view.view, view.measure, geometry)
    return figures.bars(view.reader, view.view, view.down, view.across)


def _documents(release: Release) -> list[str]:
    listed = {str(file["path"]) for file in release.manifest["files"]} | {"manifest.json"}
    return [name for name in DOCUMENTS if name in listed and (release.folder / name).is_file()]


def _keep_map(folder: OpenedFolder, name: str, content: bytes) -> UploadedMap:
    into = folder.inside(f"{MAPS}/{name}")
    if into.exists():
        raise InputError("map-there", where=Place(file=f"{MAPS}/{name}"))
    areas = read_features(content, name)
    into.parent.mkdir(exist_ok=True)
    write_text(into, content.decode("utf-8-sig"))
    return UploadedMap(name=f"{MAPS}/{name}", areas=len(areas))
