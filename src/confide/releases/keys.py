"""The release key: made once by the operating system, kept 0600 while a release may be replayed, then destroyed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from confide.engines.atomic_files import flush, write_text
from confide.errors import CONFIDENTIAL, Place, RunError
from confide.noise import ReleaseKey

STAMP = "NOT FOR RELEASE"
"""What is written on everything made with a chosen key."""
CHOSEN = "chosen"
"""What the manifest calls such a key."""


def keep(key: ReleaseKey, path: Path) -> None:
    """Writes the key so that only its owner can read it."""
    write_text(path, f"{'chosen' if key.chosen else 'system'} {key.secret.hex()}\n")


def recall(path: Path) -> ReleaseKey:
    """The key that was kept."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        content = path.read_bytes()
    except FileNotFoundError:
        raise _unusable(
            path,
            "the key of this run is gone",
            "nothing",
            "the key file, until the release is final",
            "restore it from a backup. If it was destroyed, the release is final and cannot be replayed; if it was "
            "lost before the run was sealed, its noise cannot be drawn again: make a new release, with a new charge",
        ) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        remedy = "run as the user who began the run"
        raise _unusable(path, "the key cannot be read", found, "a file that may be read", remedy) from None
    if mode & 0o077:
        found, remedy = f"permissions {mode:04o}", f"find out who has read it; if nobody has: chmod 600 {path}"
        raise _unusable(path, "the key can be read by others", found, "permissions 0600", remedy)
    found_key = _read(content)
    if found_key is None:
        remedy = "restore it from a backup"
        raise _unusable(path, "the key file is damaged", CONFIDENTIAL, "the file as it was written", remedy)
    return found_key


def _read(content: bytes) -> ReleaseKey | None:
    """The key in the content of a key file. What is wrong with it is not said: an error could show a part of it."""
    try:
        kind, digits = content.decode("ascii").split()
        return ReleaseKey(bytes.fromhex(digits), chosen=kind == "chosen") if kind in {"chosen", "system"} else None
    except ValueError:
        return None


def destroy(path: Path) -> None:
    """Overwrites the key and removes it. On media that keep old versions (snapshots, flash), destroy those as well."""
    with path.open("r+b") as file:
        length = path.stat().st_size
        file.write(os.urandom(length))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    flush(path.parent)


def _unusable(path: Path, what: str, found: str, expected: str, remedy: str) -> RunError:
    return RunError("key", what, Place(file=str(path)), found, expected, remedy)
