"""An interpreter that has the libraries of others in memory, and tests the project as it is at the moment.

To import numpy, pyarrow, numba and the rest takes longer than most tests that notice a bug. This one imports them once
and forks for each run, so that every run has a process of its own, with nothing of the project in it: neither
``confide`` nor a test may be imported before the fork.

It is started as a file, ``python -P tests/planted/warm.py``. A line of JSON asks for a run: ``arguments`` of pytest,
the file that takes its ``output``, and the ``seconds`` after which it is taken to hang. The answer is the exit code, −1
for a run that did not end.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

LIBRARIES = (
    "numpy", "scipy.optimize", "scipy.sparse.linalg", "scipy.special", "scipy.stats", "numba", "pyarrow.parquet",
    "pyarrow.csv", "pyarrow.compute", "duckdb", "piqp", "pydantic", "typer.testing", "rich.console", "jinja2",
    "cryptography.hazmat.primitives.ciphers", "pytest", "_pytest.doctest", "sqlite3", "mpmath", "pandas",
)  # fmt: skip
"""What most tests import; pyarrow looks for pandas by itself. Plugins of pytest are not among them: it wants to see
them first."""
OURS = {"confide", "tests", "benchmarks"}
HUNG = -1


def main() -> None:
    """Answers until nobody asks any more."""
    for name in LIBRARIES:
        if find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    project = find_spec("confide")
    if project is None or not Path(project.origin or "").resolve().is_relative_to(Path.cwd().resolve()):
        sys.stdout.write("the copy is not what is imported\n")
        sys.exit(1)
    gc.freeze()  # what is there already is nothing to collect in the processes to come
    assert not OURS & {name.partition(".")[0] for name in sys.modules}
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(f"{_run(asked['arguments'], Path(asked['output']), asked['seconds'])}\n")
        sys.stdout.flush()
    os._exit(0)  # libraries that count what was never collected would complain


def _run(arguments: list[str], output: Path, seconds: float) -> int:
    child = os.fork()
    if child == 0:
        _test(arguments, output)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
    except BaseException:
        _kill(child)
        raise
    _kill(child)
    return HUNG


def _kill(child: int) -> None:
    """Ends a run with all processes that it started."""
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _test(arguments: list[str], output: Path) -> NoReturn:
    """One run of pytest, in the process that was forked for it."""
    os.setsid()
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    import pytest

    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["pytest", *arguments]
    # What stands in buffers is written, threads and finalizers are left: as good as a process that was killed.
    code = 3
    try:
        code = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
