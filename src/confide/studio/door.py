"""Who may come in, and what no answer goes without.

The studio listens on 127.0.0.1. That keeps other machines out, and neither other programs of this machine nor other web
pages in the same browser, which may send requests to 127.0.0.1 as well. So a request is answered only if

- its ``Host`` is the studio's own: a page of another name that was made to lead to 127.0.0.1 (DNS rebinding) is not;
- its ``Origin``, where there is one, is the studio's own, and there is one on everything that changes something;
- it carries the session that a token was exchanged for. A token is in the address that ``confide studio`` prints,
  serves once, and is forgotten when the studio stops.

Every answer forbids scripts that are not the studio's own, other hosts, frames, and copies in a cache.
"""

from __future__ import annotations

import hmac
import secrets
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

ADDRESS = "127.0.0.1"
ASSETS = "/assets/"
"""What everybody may have: style and script of the pages, the same for every folder."""
LARGEST_BODY = 32 << 20
"""The most bytes that a request may bring: an upload is a map, never records."""
SAFE = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)
"""For pages of a release: a file of somebody else's, which may look as it likes and may do nothing."""
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # without any, browsers send forms with the origin null
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_ENTERED = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/">'
    '<link rel="icon" href="data:,"><title>Confide studio</title>'
    '<main><h1>Confide studio</h1><p><a href="/">Open the studio</a></p></main></html>'
)


class Door:
    """The tokens that have not been used yet, and the sessions of those who came in.

    >>> door = Door(8000)
    >>> token = door.new_token()
    >>> session = door.exchange(token)
    >>> door.knows(session), door.exchange(token)
    (True, None)
    """

    def __init__(self, port: int):
        self.hosts = (f"{ADDRESS}:{port}", f"localhost:{port}")
        self.cookie = f"confide-studio-{port}"
        self._tokens: set[str] = set()
        self._sessions: set[str] = set()
        self._lock = Lock()

    def new_token(self) -> str:
        """A token that lets one browser in, once."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens.add(token)
        return token

    def exchange(self, token: str) -> str | None:
        """A session for a token that has not been used; none for any other."""
        with self._lock:
            known = [each for each in self._tokens if hmac.compare_digest(each.encode(), token.encode())]
            if not known:
                return None
            self._tokens.discard(known[0])
            session = secrets.token_urlsafe(32)
            self._sessions.add(session)
        return session

    def knows(self, session: str | None) -> bool:
        """Whether somebody with this session came in by a token."""
        with self._lock:
            return session is not None and any(
                hmac.compare_digest(each.encode(), session.encode()) for each in self._sessions
            )


class RefusedError(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, what: str, remedy: str):
        super().__init__(what)
        self.status, self.what, self.remedy = status, what, remedy


class Guard:
    """The application behind its door.

    Args:
        application: What is guarded.
        door: Who may come in.
        tell: Receives mistakes of ours: the kind and the place, no value.
    """

    def __init__(self, application: Application, door: Door, tell: Callable[[str], None]):
        self._application, self._door, self._tell = application, door, tell

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        try:
            headers = _headers(scope)
            self._check_origin(scope, headers)
            length = _check_length(headers)
            session = _cookie(headers.get("cookie", ""), self._door.cookie)
            if await self._enter(scope, session, send):
                return
            if not self._door.knows(session) and not scope["path"].startswith(ASSETS):
                raise RefusedError(
                    403,
                    "This browser has not come in through the address that was printed.",
                    "Open the address that `confide studio` printed; it serves one browser, once. "
                    "For another browser, ask for a new address on the studio's first page, or start the studio again.",
                )
            await self._run(scope, _limited(receive, length), _with_headers(send))
        except RefusedError as refusal:
            await _answer(send, refusal.status, _refused(refusal))

    async def _run(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            await self._application(scope, receive, send)
        except RefusedError:
            raise
        except Exception as error:  # noqa: BLE001 - the last resort: a traceback might show a value
            last = traceback.extract_tb(error.__traceback__)[-1]
            self._tell(f"Internal error ({type(error).__name__} at {Path(last.filename).name}:{last.lineno}).")

    def _check_origin(self, scope: Message, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if host not in self._door.hosts:
            raise RefusedError(
                421, "The request is for another host.", f"The studio is at http://{self._door.hosts[0]} alone."
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        foreign = origin is not None and origin != f"http://{host}"
        entering = scope["method"] == "GET" and scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        if foreign or (site not in ("same-origin", "none") and not entering):
            raise RefusedError(403, "The request comes from another page.", "Use the studio's own pages.")
        if scope["method"] not in SAFE and origin is None:
            raise RefusedError(403, "The request does not say where it comes from.", f"Send Origin: http://{host}.")

    async def _enter(self, scope: Message, session: str | None, send: Send) -> bool:
        """Exchanges the token in the address, if there is one, and leads to an address without it."""
        token = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if scope["method"] != "GET" or scope["path"] != "/" or not token:
            return False
        more = []
        if not self._door.knows(session):
            entered = self._door.exchange(token)
            if entered is None:
                raise RefusedError(
                    403,
                    "This address was used before, or is of a studio that has stopped.",
                    "An address serves one browser, once. Start the studio again, or ask for a new address on its "
                    "first page.",
                )
            more = [("set-cookie", f"{self._door.cookie}={entered}; Path=/; HttpOnly; SameSite=Strict")]
        # A page that goes on by itself, not a redirect: a browser that came here from elsewhere sends a strict cookie
        # only with what this page asks for.
        await _answer(send, 200, _ENTERED, more)
        return True


def _headers(scope: Message) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in headers and key in ("host", "origin", "content-length"):
            raise RefusedError(400, "A header of the request is there twice.", "Send it once.")
        joined = "; ".join((headers[key], value.decode("latin-1"))) if key in headers else value.decode("latin-1")
        headers[key] = joined
    return headers


def _cookie(text: str, name: str) -> str | None:
    try:
        cookies = SimpleCookie(text)
    except CookieError:
        return None
    return cookies[name].value if name in cookies else None


def _check_length(headers: dict[str, str]) -> int:
    text = headers.get("content-length", "0")
    length = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else LARGEST_BODY + 1
    if length > LARGEST_BODY:
        raise _too_large()
    return LARGEST_BODY if "transfer-encoding" in headers else length


def _limited(receive: Receive, most: int) -> Receive:
    """What comes in, up to the number of bytes that was said."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise _too_large()
        return message

    return limited


def _too_large() -> RefusedError:
    return RefusedError(
        413, "The request is too large.", f"A file may have up to {LARGEST_BODY >> 20} MB; records are never uploaded."
    )


def _with_headers(send: Send) -> Send:
    """What is sent, with the headers that no answer goes without; one that is set already stays."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message.get("headers", [])}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in there]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, page: str, more: list[tuple[str, str]] | None = None) -> None:
    body = page.encode()
    headers = {**HEADERS, "content-type": "text/html; charset=utf-8", "content-length": str(len(body))}
    pairs = [(name.encode(), value.encode()) for name, value in (*headers.items(), *(more or []))]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _refused(refusal: RefusedError) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Confide studio: refused</title>'
        f'<link rel="stylesheet" href="{ASSETS}studio.css"><link rel="icon" href="data:,"></head>'
        '<body><main class="refused">'
        f"<h1>Refused</h1><p>{escape(refusal.what)}</p><p>{escape(refusal.remedy)}</p></main></body></html>"
    )
