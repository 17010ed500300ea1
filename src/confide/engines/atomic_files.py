"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> Path:
    """A folder that only its owner can open, made if it is not there, with every folder made on the way."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    path.chmod(PRIVATE_FOLDER)
    return path


@contextmanager
def whole_file(path: Path, *, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """A temporary path to write to; it takes the name ``path`` only when the block ends well and is on the disk."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    temporary.touch(mode=mode)
    try:
        yield temporary
        temporary.chmod(mode)
        flush(temporary)
        temporary.replace(path)
        flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Waits until a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """A text file, whole or not at all."""
    with whole_file(path, mode=mode) as temporary:
        temporary.write_text(text, encoding="utf-8")
