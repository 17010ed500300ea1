"""A disk of a few megabytes, which can be filled."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

FILLER = "filler"


@contextmanager
def mounted_disk(megabytes: int) -> Iterator[Path]:
    """Such a disk, as the folder that it is mounted on; the test is skipped where none can be mounted."""
    folder = Path(tempfile.mkdtemp())
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        folder.rmdir()
        pytest.skip("a small disk can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def fill(disk: Path) -> None:
    """Writes until nothing fits any more."""
    with (disk / FILLER).open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert shutil.disk_usage(disk).free == 0


def make_room(disk: Path) -> None:
    """Takes away what filled it."""
    (disk / FILLER).unlink()
