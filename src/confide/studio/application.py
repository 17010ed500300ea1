"""The application: the first page, the pages of each screen, and the interface for programs (``/api``)."""

from __future__ import annotations

import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel

from confide.engines.protocol import private_folder, write_text
from confide.errors import ConfideError, Finding, ParameterError, Place
from confide.lazy_names import STUDIO_PAGES, named
from confide.studio import board_pages, cockpit, doctor, explorer
from confide.studio.door import ADDRESS, Door, Guard, RefusedError
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


# Serves the studio on this machine, until somebody stops it.

NEEDED = ("fastapi", "uvicorn", "markdown_it")
SECONDS_TO_END = 3


def require_extra() -> None:
    """Refuses where the extra ``studio`` is not installed."""
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise ParameterError("no-studio", where=Place(path="confide studio"), missing=" and no ".join(missing))


class StudioServer:
    """The studio for one folder, listening, but not yet answering.

    Args:
        folder: The folder that is opened; nothing outside it is read or written.
        port: The port on 127.0.0.1; 0 for one that is free.
    """

    def __init__(self, folder: Path, port: int = 0):
        require_extra()
        import uvicorn

        from confide.studio.application import application

        opened = OpenedFolder(folder)
        self._listener = _listening(port)
        door = Door(self._listener.getsockname()[1])
        self.address = f"http://{door.hosts[0]}/?token={door.new_token()}"
        """Lets one browser in, once."""
        config = uvicorn.Config(
            Guard(application(opened, door), door, _tell),
            log_level="error",
            access_log=False,  # an address may hold the token
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=SECONDS_TO_END,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Answers until Ctrl-C, or :meth:`stop`."""
        with self._listener:
            self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """Ends :meth:`run`, from another thread."""
        self._server.should_exit = True


def serve(folder: Path, *, port: int, open_browser: bool, announce: Callable[[str], None]) -> None:
    """Serves the studio for a folder until Ctrl-C.

    Args:
        folder: The folder that is opened.
        port: The port on 127.0.0.1; 0 for one that is free.
        open_browser: Whether to open it in a browser.
        announce: Receives the address, once the studio listens.
    """
    server = StudioServer(folder, port)
    announce(server.address)
    with tempfile.TemporaryDirectory(prefix="confide-studio-") as own:
        if open_browser:
            _show(server.address, Path(own))
        server.run()


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ParameterError("port-in-use", where=Place(path="--port"), port=port, strerror=error.strerror) from None
    return listener


def _show(address: str, own: Path) -> None:
    """Opens a browser by way of a file that only its owner can read: arguments of programs are seen by everybody."""
    file = private_folder(own) / "studio.html"
    leads = f'<meta http-equiv="refresh" content="0;url={escape(address)}">'
    write_text(file, f"<!doctype html>{leads}<title>Studio</title>")
    webbrowser.open(file.as_uri())


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
