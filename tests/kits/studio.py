"""The studio for tests: behind its door without a network, or served for a real browser."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.studio.application import application
from confide.studio.door import Door, Guard
from confide.studio.opened_folder import OpenedFolder
from confide.studio.serving import StudioServer
from tests.kits import pages

PORT = 8123
HOME = f"http://127.0.0.1:{PORT}"
ORIGIN = {"origin": HOME}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Visitor:
    """Somebody who asks an application as a browser would, without a network, and keeps cookies."""

    def __init__(self, application: Any):
        self.application = application
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **asked: Any) -> Answer:
        return self.ask("GET", path, **asked)

    def post(self, path: str, **asked: Any) -> Answer:
        return self.ask("POST", path, **asked)

    def put(self, path: str, **asked: Any) -> Answer:
        return self.ask("PUT", path, **asked)

    def ask(
        self,
        method: str,
        address: str,
        *,
        params: Mapping[str, Any] | Sequence[tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, Any] | None = None,
        content: bytes | Iterable[bytes] = b"",
    ) -> Answer:
        parts = urlsplit(address)
        query = "&".join(each for each in (parts.query, urlencode(params or {}, doseq=True)) if each)
        named = {"host": f"127.0.0.1:{PORT}"} | dict(headers or {})
        if form is not None:
            content = urlencode(form, doseq=True).encode()
            named["content-type"] = "application/x-www-form-urlencoded"
        if isinstance(content, bytes):
            named.setdefault("content-length", str(len(content)))
        else:
            named["transfer-encoding"] = "chunked"
        if self.cookies:
            named["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        scope = _scope(method, parts.path, query, named)
        return self._answer(asyncio.run(self._sent(scope, [content] if isinstance(content, bytes) else content)))

    def at_once(self, path: str, asked: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """What several people get who ask for pages of a path at the same time, as one server answers them."""
        host, cookie = f"127.0.0.1:{PORT}", "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        scopes = [_scope("GET", path, urlencode(each, doseq=True), {"host": host, "cookie": cookie}) for each in asked]

        async def everybody() -> list[list[Any]]:
            return await asyncio.gather(*(self._sent(scope, [b""]) for scope in scopes))

        return [self._answer(sent) for sent in asyncio.run(everybody())]

    async def _sent(self, scope: dict[str, Any], content: Iterable[bytes]) -> list[Any]:
        return await _exchange(self.application, scope, content)

    def _answer(self, sent: list[Any]) -> Answer:
        head = next(message for message in sent if message["type"] == "http.response.start")
        got = {name.decode(): value.decode() for name, value in head["headers"]}
        if "set-cookie" in got:
            self.cookies |= {name: each.value for name, each in SimpleCookie(got["set-cookie"]).items()}
        body = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        return Answer(head["status"], got, body)


def _scope(method: str, path: str, query: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", PORT),
    }


async def _exchange(application: Any, scope: dict[str, Any], content: Iterable[bytes]) -> list[Any]:
    sent: list[Any] = []
    parts = iter(content)

    async def receive() -> dict[str, Any]:
        part = next(parts, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return sent


def studio_of(folder: Path) -> tuple[Visitor, Door, list[str]]:
    """A studio behind its door, a browser that has not come in, and what the studio says on the terminal."""
    door, said = Door(PORT), list[str]()
    guarded = Guard(application(OpenedFolder(folder), door), door, said.append)
    return Visitor(guarded), door, said


def entered(folder: Path) -> Visitor:
    """A browser that has come in."""
    browser, door, _ = studio_of(folder)
    assert browser.get("/", params={"token": door.new_token()}).status_code == 200
    return browser


def forged(release: Path, *, labels: str, titles: str) -> None:
    """Puts a text into the labels and titles of a release, with a manifest that agrees: whoever publishes may."""
    file = release / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest["title"] = titles
    for table in manifest["plan"]["question"]["tables"]:
        table["title"] = titles
    for listed in manifest["files"]:
        path = release / listed["path"]
        if path.parent.name == "tables" and path.suffix == ".parquet":
            rows = pq.read_table(path)
            for name in rows.column_names:
                if name.endswith("_label"):
                    column = pa.array([labels] * rows.num_rows)
                    rows = rows.set_column(rows.column_names.index(name), name, column)
            pq.write_table(rows, path)
            listed["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            if "bytes" in listed:
                listed["bytes"] = path.stat().st_size
    file.write_text(json.dumps(manifest), encoding="utf-8")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a studio that is served on this machine."""
    server = StudioServer(folder)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join(timeout=20)


def missing() -> str:
    """Why pages cannot be tried in a browser here; nothing where they can."""
    return pages.missing()


class Watched:
    """A page in Chromium, and all that it asked for and complained of."""

    def __init__(self, page: Any, address: str):
        self.page, self.home = page, address.partition("/?")[0]
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.goto(address)
        page.wait_for_url(f"{self.home}/")

    def outside(self) -> list[str]:
        """What it asked of anybody else."""
        return [url for url in self.requests if not url.startswith((self.home, "data:"))]

    def serious(self) -> list[Any]:
        """What axe-core finds that is serious."""
        script = pages.axe_script()
        assert script is not None
        self.page.evaluate(script.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            (each["id"], [node["html"][:120] for node in each["nodes"]][:4])
            for each in found["violations"]
            if each["impact"] in pages.SERIOUS
        ]


@contextmanager
def browsing(folder: Path, *, width: int = 1280, height: int = 860, dark: bool = False) -> Iterator[Watched]:
    """A page of Chromium that has come into a studio for a folder."""
    from playwright.sync_api import sync_playwright

    with served(folder) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=pages.browser(), args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
        )
        yield Watched(context.new_page(), address)
        browser.close()


def enlarged(release: Path, table: str, rows: int) -> None:
    """Makes a table of a release as long as that, with areas of other codes, and a manifest that agrees."""
    file = release / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest["files"] = [
        each
        for each in manifest["files"]
        if not (each["path"].startswith(f"tables/{table}.") and each["path"].endswith(".csv"))
    ]
    (listed,) = [each for each in manifest["files"] if each["path"].startswith(f"tables/{table}.")]
    path = release / listed["path"]
    own = pq.read_table(path)
    times = -(-rows // own.num_rows)
    parts = []
    for number in range(times):
        area = pc.binary_join_element_wise(own.column("area"), f"{number:05d}", "-")
        parts.append(own.set_column(own.column_names.index("area"), own.schema.field("area"), area))
    pq.write_table(pa.concat_tables(parts).slice(0, rows), path)
    listed |= {
        "rows": rows, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size
    }  # fmt: skip
    file.write_text(json.dumps(manifest), encoding="utf-8")
