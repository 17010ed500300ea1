"""Serves the studio on this machine, until somebody stops it."""

from __future__ import annotations

import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from confide.answers import AnswerPart, TypedAnswer
from confide.errors import ParameterError, Place
from confide.file_system import private_folder, write_text
from confide.studio.door import ADDRESS, Door, Guard
from confide.studio.opened_folder import OpenedFolder

NEEDED = ("fastapi", "uvicorn", "markdown_it")
SECONDS_TO_END = 3


def require_extra() -> None:
    """Refuses where the extra ``studio`` is not installed."""
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise ParameterError("no-studio", where=Place(path="confide studio"), missing=", ".join(missing))


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


@dataclass(frozen=True)
class Served(TypedAnswer):
    """A studio that was stopped."""

    address: str
    """Where it was; nobody answers there any more."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without the token that let a browser in."""
        return {"address": self.address.partition("?")[0]}

    def described(self) -> Iterator[AnswerPart]:
        """That it was stopped."""
        yield "\nStopped."


def announced(address: str) -> None:
    """Says on the standard output where a studio is."""
    sys.stdout.write(f"Confide studio: {address}\nThe address lets one browser in, once. Ctrl-C stops the studio.\n")
    sys.stdout.flush()


def serve(
    folder: str | Path = ".",
    *,
    port: int = 0,
    browser: bool = True,
    announce: Callable[[str], None] = announced,
) -> Served:
    """Serves the studio for a folder until Ctrl-C.

    Args:
        folder: The folder to open; nothing outside it is read or written.
        port: The port on this machine; 0: one that nobody uses.
        browser: Whether to open it in a browser; without, the address is printed alone.
        announce: Receives the address, once the studio listens; prints it by default.

    Returns:
        Where it was.
    """
    server = StudioServer(Path(folder), port)
    announce(server.address)
    with tempfile.TemporaryDirectory(prefix="confide-studio-") as own, suppress(KeyboardInterrupt):  # how it is stopped
        if browser:
            _show(server.address, Path(own))
        server.run()
    return Served(server.address)


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
