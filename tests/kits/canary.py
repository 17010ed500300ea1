"""The canary scan: distinctive values planted in records, and a search of everything that is not the records."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

TEXT = "Zaunkönig-7f3a"
NUMBER = 731_937_193_731
BLOCK = "77319-7f3c"
CANARIES = (TEXT, NUMBER, BLOCK)

WATCHED: set[str] = set()
_watching = False


def spellings(canary: str | int) -> list[bytes]:
    """How a value may look when it leaks: plain, grouped, escaped, in another encoding or in hexadecimal."""
    if isinstance(canary, int):
        texts = [str(canary), f"{canary:,}", f"{canary:_}", f"{canary}.0"]
        return [text.encode() for text in texts] + [canary.to_bytes(8, "little"), canary.to_bytes(8, "big")]
    texts = [canary, repr(canary)[1:-1], ascii(canary)[1:-1], canary.upper(), canary.lower()]
    encoded = [text.encode() for text in texts] + [canary.encode("utf-16-le"), canary.encode("latin-1")]
    return [*encoded, canary.encode().hex().encode()]


def leaks(text: str | bytes, canaries: Iterable[str | int] = CANARIES) -> list[str | int]:
    """The canaries that a text shows, however it spells them."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return [canary for canary in canaries if any(spelling in data for spelling in spellings(canary))]


def names_of(folder: Path) -> str:
    return "\n".join(str(path.relative_to(folder)) for path in folder.rglob("*"))


def public_content(folder: Path) -> Iterator[tuple[str, str | bytes]]:
    """Everything in the files of a folder: bytes as they are, and Parquet taken out of its compression."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        yield path.name, path.read_bytes()
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            yield path.name, f"{file.metadata} {file.schema} {file.schema_arrow.metadata}"
            table = file.read()
            for name in table.column_names:
                yield f"{path.name} {name}", "\n".join(str(value) for value in table.column(name).to_pylist())


def chain(error: BaseException) -> str:
    """An error with every error behind it, also those that are kept from being printed."""
    found: list[str] = []
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            found += [str(one), repr(one), repr(one.args), repr(vars(one))]
            found += getattr(one, "__notes__", [])
            waiting += [one.__cause__, one.__context__]
    return "\n".join(found)


def reprs(value: Any, depth: int = 4) -> str:
    """What an object says of itself, and the objects in it."""
    found = [repr(value), str(value)]
    if depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        found += [reprs(getattr(value, part.name), depth - 1) for part in dataclasses.fields(value)]
    elif depth and isinstance(value, list | tuple):
        found += [reprs(part, depth - 1) for part in value[:50]]
    elif depth and hasattr(value, "__dict__"):
        found += [reprs(part, depth - 1) for part in vars(value).values()]
    return "\n".join(found)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in {"open", "os.mkdir", "os.rename", "os.link", "os.symlink", "tempfile.mkdtemp"}:
        WATCHED.update(str(argument) for argument in arguments[:2])


sys.addaudithook(_audit)


@contextmanager
def watched_files() -> Iterator[set[str]]:
    """The names of all files that this process opens, makes or renames meanwhile."""
    global _watching
    WATCHED.clear()
    _watching = True
    try:
        yield WATCHED
    finally:
        _watching = False


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of our own for everything temporary, to look into."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
        yield Path(folder)
