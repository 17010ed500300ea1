"""The application: the first page, the pages of each screen, and the interface for programs (``/api``)."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel

from confide.errors import ConfideError, Finding
from confide.lazy_names import STUDIO_PAGES, named
from confide.studio import board_pages, cockpit, doctor, explorer
from confide.studio.door import Door, RefusedError
from confide.studio.opened_folder import OpenedFolder
from confide.studio.pages import ASSETS, asset_answer, findings_page, page
from confide.version import __version__

INTERFACE = "/api/openapi.json"
ABOUT = (
    "What the pages of the studio ask, for programs. A program comes in as a browser does: it asks for the address "
    "that `confide studio` printed and keeps the cookie. What changes something needs the header Origin."
)


class FolderAnswer(BaseModel):
    """What is in the folder that was opened: names are paths below it."""

    folder: str
    releases: list[str]
    specs: list[str]
    ledgers: list[str]
    maps: list[str]
    records: list[str]


class NewAddress(BaseModel):
    """An address that lets one more browser in, once."""

    address: str


class FindingsAnswer(BaseModel):
    """Why a request cannot be answered."""

    ok: Literal[False] = False
    findings: list[dict[str, Any]]


def application(folder: OpenedFolder, door: Door) -> FastAPI:
    """Everything behind the door.

    Args:
        folder: The folder that was opened.
        door: Gives addresses for more browsers.

    Returns:
        The application; :class:`confide.studio.door.Guard` is before it.
    """
    app = FastAPI(
        title="Confide studio",
        version=__version__,
        description=ABOUT,
        openapi_url=INTERFACE,
        docs_url=None,
        redoc_url=None,
        responses={400: {"model": FindingsAnswer}},
    )
    app.state.folder = folder
    app.include_router(explorer.router)
    app.include_router(board_pages.router)
    app.include_router(cockpit.router)
    app.include_router(doctor.router)
    for pages in STUDIO_PAGES:
        app.include_router(named(pages))

    @app.get("/", include_in_schema=False)
    def home() -> HTMLResponse:
        job = cockpit.demonstrating(folder)
        return page("studio_home.html.j2", "Studio", job=job, **explorer.home_values(folder))

    @app.get("/api", include_in_schema=False)
    def interface() -> HTMLResponse:
        paths = [
            (method.upper(), path, what.get("summary", ""), what.get("description", ""))
            for path, methods in sorted(app.openapi()["paths"].items())
            for method, what in methods.items()
        ]
        return page("studio_api.html.j2", "Interface for programs", about=ABOUT, paths=paths, file=INTERFACE)

    @app.get("/api/folder", tags=["folder"])
    def contents() -> FolderAnswer:
        """What is in the folder that was opened."""
        inside = folder.contents()
        lists = {"releases": inside.releases, "specs": inside.specs, "ledgers": inside.ledgers}
        lists |= {"maps": inside.maps, "records": inside.records}
        named = {kind: [each.name for each in files] for kind, files in lists.items()}
        return FolderAnswer(folder=folder.name, **named)

    @app.post("/another-browser", include_in_schema=False)
    def another_page() -> HTMLResponse:
        return page("studio_another.html.j2", "Another browser", link=another().address)

    @app.post("/api/another-browser", tags=["folder"])
    def another() -> NewAddress:
        """An address that lets one more browser on this machine in, once."""
        return NewAddress(address=f"http://{door.hosts[0]}/?token={door.new_token()}")

    @app.get("/assets/{name}", include_in_schema=False)
    def assets(name: str) -> Response:
        return asset_answer(name) if name in ASSETS else _no_page()

    _answer_mistakes(app)
    return app


def _answer_mistakes(app: FastAPI) -> None:
    """What is wrong comes as findings, to people as a page and to programs as JSON; nothing shows a value."""

    def answer(request: Request, findings: list[Finding], status: int) -> Response:
        if request.url.path.startswith("/api/"):
            listed = [finding.as_dict() for finding in findings]
            return JSONResponse(FindingsAnswer(findings=listed).model_dump(), status)
        return findings_page(findings, status)

    @app.exception_handler(ConfideError)
    def mistake(request: Request, error: ConfideError) -> Response:
        return answer(request, list(error.findings), 400)

    @app.exception_handler(RefusedError)
    def refused(request: Request, error: RefusedError) -> Response:
        return answer(request, [Finding.of("refused", what=error.what, remedy=error.remedy)], error.status)

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> Response:
        if request.url.path.startswith("/api/"):
            return await request_validation_exception_handler(request, error)
        wrong = sorted({str(each["loc"][-1])[:40] for each in error.errors()})
        _what, _remedy = "the address asks for something that there is not", "go back, and use the controls of the page"
        return findings_page([Finding.of("wrong-address", found=", ".join(wrong))], 400)

    @app.exception_handler(404)
    def missing(request: Request, _: Exception) -> Response:
        finding = Finding.of("no-page")
        return answer(request, [finding], 404)

    @app.exception_handler(Exception)
    def internal(request: Request, error: Exception) -> Response:
        return answer(request, [Finding.of("internal/studio", name=type(error).__name__)], 500)


def _no_page() -> Response:
    finding = Finding.of("no-page")
    return findings_page([finding], 404)
