"""Confide without the modules of POSIX, as on Windows: everything can be imported, a release is made, and locks hold.

The lock of Windows is simulated by the lock of this system, under the name and the words of ``msvcrt``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from confide import file_system

SCRIPT = '''
import builtins, errno, fcntl, os, pkgutil, sys, types
from importlib import import_module

real = fcntl
ABSENT = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "crypt", "syslog", "posix"}
plain = builtins.__import__

def without_posix(name, globals=None, locals=None, fromlist=(), level=0):
    """What Confide asks for is not there; other packages have what they ask for."""
    if name in ABSENT and str((globals or {}).get("__name__", "")).startswith("confide"):
        raise ImportError(name)
    return plain(name, globals, locals, fromlist, level)

builtins.__import__ = without_posix

windows = types.ModuleType("msvcrt")
windows.LK_NBLCK = 2
def locking(descriptor, mode, count):
    assert (mode, count) == (2, 1), "without waiting, one byte"
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 0, "from the beginning"
    try:
        real.flock(descriptor, real.LOCK_EX | real.LOCK_NB)
    except OSError:
        raise OSError(errno.EACCES, "Permission denied") from None
windows.locking = locking

# Only while the one module is imported that asks for either: other packages take these for the name of the system.
sys.modules |= {"fcntl": None, "msvcrt": windows}
from confide import file_system
sys.modules["fcntl"] = real
del sys.modules["msvcrt"]
import confide
assert file_system._FCNTL is None and file_system._MSVCRT is windows
file_system.POSIX = False
modules = [name for _, name, _ in pkgutil.walk_packages(confide.__path__, "confide.") if name != "confide.__main__"]
for name in modules:
    if "spark" not in name:
        import_module(name)

from pathlib import Path
from confide.errors import RunError
from confide.releases.workspace import Workspace
spec = Path(sys.argv[1])
result = confide.run(spec, processes=1)
(result.workspace.confidential / "key").chmod(0o666)  # as bits are on Windows
assert confide.verify(result.release).ok
assert confide.replay(spec, processes=1).ok
with Workspace(result.workspace.root).locked():
    try:
        confide.replay(spec, processes=1)
    except RunError as refused:
        assert refused.findings[0].code == "run-in-progress", refused
    else:
        raise AssertionError("two at once")
print(len(modules), "modules")
'''


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="simulates Windows on POSIX")
def test_a_release_without_the_modules_of_posix(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(project / "spec.toml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "modules" in done.stdout


def test_without_any_lock_nothing_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(file_system, "_FCNTL", None)
    monkeypatch.setattr(file_system, "_MSVCRT", None)
    with (tmp_path / "lock").open("w") as file, pytest.raises(OSError, match="no locks"):
        file_system.lock_now(file.fileno())


def test_bits_of_windows_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert file_system.open_to_others(0o640)
    assert not file_system.open_to_others(0o600)
    monkeypatch.setattr(file_system, "POSIX", False)
    assert not file_system.open_to_others(0o666)
