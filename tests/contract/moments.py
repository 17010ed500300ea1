"""The moments of a run: where stages begin, step and end, where files get their names, where the ledger is opened.

They are seen from outside, through the display of progress and Python's audit events, so that nothing here has to know
how a run is made.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tests.contract.kit import Project

SECONDS = 120
"""No life of a release of these examples takes so long."""


class Watched:
    """A display of progress that says every moment to a function, which may do what it likes then."""

    def __init__(self, at: Callable[[str], object]):
        self._at = at

    @contextmanager
    def stage(self, title: str, steps: int) -> Iterator[Callable[[int], None]]:
        done = 0

        def advance(steps: int) -> None:
            nonlocal done
            done += steps
            self._at(f"step {done} of {title}")

        self._at(f"beginning of {title}")
        yield advance
        self._at(f"end of {title}")

    def note(self, text: str) -> None:
        """Not a moment."""


def of_stages(moments: Collection[str]) -> list[str]:
    """Beginnings and ends alone."""
    return [moment for moment in moments if not moment.startswith("step")]


def few_steps(moments: Collection[str]) -> list[int]:
    """The numbers of the moments, of the steps of a stage the first, one in the middle and the last."""
    chosen: list[int] = []
    steps: list[int] = []
    for number, moment in enumerate(moments):
        if moment.startswith("step"):
            steps.append(number)
            continue
        if steps:
            chosen += sorted({steps[0], steps[len(steps) // 2], steps[-1]})
            steps = []
        chosen.append(number)
    return chosen


# Death


STRIDE = {"topdown": 4}
"""Examples that take long: of so many moments only one is tried by make test, and all of them by make test-all."""


def killed(project: Project, survived: Collection[str], stride: int = 1) -> list[str]:
    """A child runs the release, and is killed at the first moment that is not among those ``survived``.

    Moments are beginnings and ends of stages; and, told apart by what the ledger holds then, every file that gets its
    name in the folder of the run or just below, and every time that the ledger is opened.

    Args:
        project: The release.
        survived: The moments that came before in earlier lives.
        stride: Of so many new moments the child survives all but the last.

    Returns:
        The new moments, that of its death last; none if it has sealed the release.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # From 3.12 Python warns of threads that a fork leaves behind. Those of Arrow begin anew, and the others sleep.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        _live(project, survived, writer, stride)
    os.close(writer)
    last_words = b""
    try:
        while select.select([reader], [], [], SECONDS)[0]:
            heard = os.read(reader, 1 << 16)
            if not heard:
                break
            last_words += heard
        else:
            os.kill(child, signal.SIGKILL)
            raise AssertionError(f"the child has not ended within {SECONDS} seconds; it said {last_words!r}")
    finally:
        os.close(reader)
        status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, last_words
        return last_words.decode().splitlines()
    assert os.WEXITSTATUS(status) == 0, last_words.decode()
    return []


def _live(project: Project, survived: Collection[str], writer: int, stride: int) -> NoReturn:
    """The life of a child, which ends here."""
    looking, new = False, []

    def at(moment: str) -> None:
        if not moment.startswith("step") and moment not in survived and moment not in new:
            new.append(moment)
            if len(new) == stride:
                os.write(writer, "\n".join(new).encode())
                os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal looking
        if looking or event not in ("os.rename", "sqlite3.connect"):
            return
        looking = True
        try:
            entries = len(project.charges())
            if event == "sqlite3.connect":
                at(f"ledger opened, with {entries} entries")
            else:
                target = Path(os.path.relpath(os.fsdecode(arguments[1]), project.run_folder))
                if len(target.parts) <= 2 and ".." not in target.parts:
                    at(f"{target} gets its name, with {entries} entries in the ledger")
        finally:
            looking = False

    try:
        sys.addaudithook(heard)
        project.run(progress=Watched(at))
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        os.write(writer, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
