"""What differs between file systems of POSIX and of Windows: locks, permission bits, and what can be synced.

===========  =========================================  ==============================================================
             POSIX                                      Windows
===========  =========================================  ==============================================================
lock         ``flock``; goes with the process           the first byte, by ``msvcrt``; goes with the process
permissions  0600 and 0700, set and checked             what the access list of the folder says; nothing is checked
durable      a file, and the names in a folder          a file; names are in the journal of the file system
===========  =========================================  ==============================================================
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

POSIX = os.name == "posix"
"""Whether files have permission bits, and the names in a folder can be synced."""
DISK_FULL = frozenset(getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name))
"""What a system says of a disk that is full, or of a quota that is used up."""


def open_to_others(mode: int) -> bool:
    """Whether permission bits let others than the owner read or change a file; those of Windows say nothing of it."""
    return POSIX and bool(mode & 0o077)


def flush(path: Path) -> None:
    """Waits until a file, or the list of names in a folder, is on the disk."""
    if not POSIX and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if POSIX else os.O_RDWR)  # Windows syncs only what may be written
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def destroy_file(path: Path) -> None:
    """Overwrites a key and removes it. On media that keep old versions (snapshots, flash), destroy those as well."""
    with path.open("r+b") as file:
        length = path.stat().st_size
        file.write(os.urandom(length))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    flush(path.parent)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


_FCNTL, _MSVCRT = _module("fcntl"), _module("msvcrt")


def lock_now(descriptor: int) -> None:
    """Locks an open file for this process, until the descriptor is closed.

    Args:
        descriptor: Of a file that is open for writing.

    Raises:
        BlockingIOError: If another process has it locked.
        OSError: If the file system knows no locks.
    """
    if _FCNTL is not None:
        _FCNTL.flock(descriptor, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB)
        return
    if _MSVCRT is None:
        raise OSError("this system has no locks for files that Confide knows")
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        _MSVCRT.locking(descriptor, _MSVCRT.LK_NBLCK, 1)
    except OSError as error:  # EACCES or EDEADLOCK: Windows does not tell a held lock from a closed file
        raise BlockingIOError(error.errno, "the file is locked") from None


# Files that are there whole or not at all.
PRIVATE_FILE = 0o600


PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> Path:
    """A folder that only its owner can open, made if it is not there, with every folder made on the way."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folder.chmod(PRIVATE_FOLDER)  # also what an odd umask took away
    path.chmod(PRIVATE_FOLDER)
    return path


PRIVATE_UMASK = 0o077


_umask_lock = threading.Lock()


_umask_before: list[int] = []
"""The umask that somebody else had set, once for each who works in private at this moment."""


@contextmanager
def private_umask() -> Iterator[None]:
    """Inside, files and folders are made for their owner alone, by whatever library, whatever umask was set before.

    A umask belongs to the whole process: other threads make private files too until the last one leaves.
    """
    with _umask_lock:
        before = os.umask(PRIVATE_UMASK)
        _umask_before.append(_umask_before[0] if _umask_before else before)
    try:
        yield
    finally:
        with _umask_lock:
            before = _umask_before.pop()
            if not _umask_before:
                os.umask(before)


@contextmanager
def whole_file(path: Path, *, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """A temporary path to write to; it takes the name ``path`` only when the block ends well and is on the disk."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    temporary.touch(mode=mode)
    try:
        temporary.chmod(mode)
        yield temporary
        temporary.chmod(mode)
        flush(temporary)
        temporary.replace(path)
        flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """A text file, whole or not at all."""
    with whole_file(path, mode=mode) as temporary:
        # One form of the end of a line on every system: bytes are hashed and compared.
        temporary.write_text(text, encoding="utf-8", newline="\n")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
