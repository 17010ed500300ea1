"""What takes long to make, such as the sealed release of an example, is made once for all processes of a run of tests.

Each process works on a copy of its own: some tests lock the folder of a run, or look at when its files were opened.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


class MadeOnce:
    """Folders by name, made by whoever asks first; xdist's workers share them."""

    def __init__(self, factory: pytest.TempPathFactory):
        base = factory.getbasetemp()
        shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        self._shared, self._own = shared / "made-once", base / "own"
        for folder in (self._shared, self._own):
            folder.mkdir(exist_ok=True)

    def folder(self, name: str, make: Callable[[Path], object]) -> Path:
        """A copy of a folder, to look at and not to change: other tests of this process have the same.

        Args:
            name: What it is: two callers that give one name want one content.
            make: Makes the content at a path that is not there yet.
        """
        own, shared = self._own / name, self._shared / name
        if not own.exists():
            with (self._shared / f"{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                done = self._shared / f"{name}.done"
                if not done.exists():  # a test that was killed in the middle has left a part
                    shutil.rmtree(shared, ignore_errors=True)
                    make(shared)
                    done.touch()
            shutil.copytree(shared, own, symlinks=True)
        return own
