"""Plants bugs one by one in copies of the project, and says which tests noticed them.

The project is never touched: each worker has a copy, with bytecode, compiled kernels and examples of hypothesis of its
own. A bug counts as killed if a test *fails* with it; a module that cannot be imported, or a name that does not exist,
is a bug that was written wrongly, and says so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tests.planted import warm
from tests.planted.corpus import Bug, CorpusError
from tests.planted.warm import HUNG

if TYPE_CHECKING:
    from collections.abc import Iterator

COPIED = (
    "src",
    "tests",
    "docs",
    "benchmarks",
    "examples",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
"""What tests read of the project, as far as it is there."""
PYTEST = (
    "-x",
    "-q",
    "--no-header",
    "-rfE",
    *(f"-pno:{name}" for name in ("cacheprovider", "randomly", "anyio", "cov", "xdist")),
)
"""Plugins that have no part in what one process tests take a third of a second to import."""
IN_MAKE_TEST = ("-m", "not slow")
"""A bug that ``make test`` lets pass is not held: what ``make test-all`` would say comes too late."""
PROPERTIES = ("--hypothesis-profile=unshrunk", "--hypothesis-seed=0")
"""A bug is killed each time or never: properties try the same examples. None is made smaller, which takes minutes."""
SHORT = "not slow and not costly and not statistical and not process"
ROOMS = {"releases": ("runs", "contract"), "ledger": ("ledger", "runs"), "faces": ("cli", "in_memory")}
"""Where the tests of a room are, if not in a folder of its name."""
WARM = Path(warm.__file__)
LONGEST = 600.0
"""Seconds after which a run of tests is taken to hang."""
MISWRITTEN = ("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "UnboundLocalError")


@dataclass(frozen=True)
class Outcome:
    """What became of one bug."""

    bug: Bug
    killed_by: str | None
    """The first test that failed, or none."""
    named: bool
    """Whether it is one of the tests that the corpus names."""
    seconds: float
    problem: str = ""
    """Why the bug could not be tried, if it could not."""


@dataclass
class Tested:
    """One run of pytest."""

    code: int
    output: str
    seconds: float

    @property
    def failure(self) -> str | None:
        """The first test that failed, with what it said."""
        lines = re.findall(r"^(?:FAILED|ERROR) (.*)$", self.output, re.MULTILINE)
        return lines[0] if lines else None


@dataclass
class House:
    """A copy of the project that one worker works in."""

    root: Path
    original: Path
    short_passes: dict[str, bool] = field(default_factory=dict)
    _warm: subprocess.Popen[str] | None = None

    @classmethod
    def build(cls, original: Path, root: Path) -> House:
        """Copies the project, without what Python and numba have left in it."""
        root.mkdir()
        without = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.pyc", "*.nbi", "*.nbc")
        for name in COPIED:
            if (original / name).is_dir():
                shutil.copytree(original / name, root / name, ignore=without)
            elif (original / name).exists():
                shutil.copy2(original / name, root / name)
        return cls(root, original)

    def test(self, nodes: Iterable[str], *options: str) -> Tested:
        """Runs some tests in the copy."""
        return self._ask(*PYTEST, *PROPERTIES, *options, *nodes)

    def short_suite(self, room: str) -> Tested | None:
        """The light tests of a room; none where they do not pass without a bug, or where there are none."""
        folders = [f"tests/{name}" for name in ROOMS.get(room, (room,)) if (self.root / "tests" / name).is_dir()]
        if not folders or not self.short_passes.get(room, True):
            return None
        return self.test(folders, "-m", SHORT)

    @contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        """The bug, for as long as it is looked at. Neither bytecode nor kernels of the one version serve the other."""
        path, changed = bug.path(self.root), bug.planted(self.root)
        before, times = path.read_bytes(), path.stat()
        try:
            path.write_text(changed, encoding="utf-8")
            _forget_compiled(path)
            # Two versions within the same second must not look alike.
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**10))
            yield
        finally:
            path.write_bytes(before)
            _forget_compiled(path)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _ask(self, *arguments: str) -> Tested:
        """One run of pytest by the interpreter of the house, which is started when it is first needed."""
        if self._warm is None:
            outside = ("PYTEST_", "COV_", "COVERAGE_", "NUMBA_CACHE", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
            environment = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
            environment["PYTHONPATH"] = str(self.root / "src")
            self._warm = subprocess.Popen(
                [sys.executable, "-P", str(WARM)],
                cwd=self.root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._warm.stdin is not None
        assert self._warm.stdout is not None
        output, began = self.root.parent / f"{self.root.name}.txt", time.monotonic()
        asked = {"arguments": arguments, "output": str(output), "seconds": LONGEST}
        self._warm.stdin.write(json.dumps(asked) + "\n")
        self._warm.stdin.flush()
        answer = self._warm.stdout.readline()
        if not answer.strip().lstrip("-").isdigit():
            raise CorpusError(f"tests cannot be run in {self.root}: {answer.strip() or 'no answer'}")
        code = int(answer)
        said = output.read_text(encoding="utf-8", errors="replace")
        if code == HUNG:
            said += f"\nno end after {LONGEST:.0f} s"
        return Tested(code, said, time.monotonic() - began)

    def close(self) -> None:
        """Lets the interpreter go."""
        if self._warm is not None:
            self._warm.communicate()
            self._warm = None


def _forget_compiled(path: Path) -> None:
    cache = path.parent / "__pycache__"
    for file in cache.glob(f"{path.stem}.*"):
        file.unlink(missing_ok=True)


def try_bug(house: House, bug: Bug) -> Outcome:
    """Plants one bug, runs its tests, and the short suite of its room where these did not notice."""
    began = time.monotonic()

    def outcome(killed_by: str | None, *, named: bool = True, problem: str = "") -> Outcome:
        return Outcome(bug, killed_by, named, time.monotonic() - began, problem)

    try:
        with house.planted(bug):
            tested = house.test(bug.killed_by, *IN_MAKE_TEST)
            if tested.code == 1:
                return _killed(tested, outcome)
            if tested.code != 0:
                return outcome(None, problem=f"the tests did not run: {_tail(tested.output)}")
        if house.short_passes.get(bug.room) is None:
            clean = house.short_suite(bug.room)
            house.short_passes[bug.room] = clean is not None and clean.code == 0
        with house.planted(bug):
            short = house.short_suite(bug.room)
            if short is not None and short.code == 1:
                return outcome((short.failure or "").partition(" - ")[0], named=False)
        return outcome(None)
    except CorpusError as error:
        return outcome(None, problem=str(error))


def _killed(tested: Tested, outcome: Callable[..., Outcome]) -> Outcome:
    node, _, said = (tested.failure or "").partition(" - ")
    if said.startswith(MISWRITTEN):
        return outcome(None, problem=f"written wrongly: {said}")
    return outcome(node)


def try_all(
    bugs: Sequence[Bug], original: Path, folder: Path, workers: int, report: Callable[[str], None]
) -> list[Outcome]:
    """Tries every bug. The tests that bugs name are run without a bug first: they must pass.

    Args:
        bugs: What is planted.
        original: The project.
        folder: Where the copies are made.
        workers: How many copies work at a time.
        report: Is told of every step.

    Returns:
        One outcome for each bug, in order.
    """
    workers = max(1, min(workers, len(bugs)))
    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:
        began = time.monotonic()
        houses = list(pool.map(lambda number: House.build(original, folder / f"copy-{number}"), range(workers)))
        stack.callback(lambda: [house.close() for house in houses])
        report(f"{workers} copies of the project in {folder}; the tests that bugs name, without a bug:")
        _pass_without_bugs(houses, bugs, pool)
        report(f"all pass ({time.monotonic() - began:.0f} s)")
        free: SimpleQueue[House] = SimpleQueue()
        for house in houses:
            free.put(house)
        lock, began, seen = threading.Lock(), time.monotonic(), 0

        def one(bug: Bug) -> Outcome:
            nonlocal seen
            house = free.get()
            try:
                outcome = try_bug(house, bug)
            finally:
                free.put(house)
            with lock:
                seen += 1
                left = (time.monotonic() - began) / seen * (len(bugs) - seen)
                report(f"{seen:3}/{len(bugs)}  {verdict(outcome):9} {bug.name}  {outcome.seconds:.0f} s{_about(left)}")
            return outcome

        return list(pool.map(one, bugs))


def _pass_without_bugs(houses: list[House], bugs: Sequence[Bug], pool: ThreadPoolExecutor) -> None:
    nodes = list(dict.fromkeys(node for bug in bugs for node in bug.killed_by))
    files = list(dict.fromkeys(node.partition("::")[0] for node in nodes))
    shares = [
        [node for node in nodes if files.index(node.partition("::")[0]) % len(houses) == place]
        for place in range(len(houses))
    ]
    pairs = [(house, share) for house, share in zip(houses, shares, strict=True) if share]
    runs = pool.map(lambda pair: pair[0].test(pair[1], "-rs", *IN_MAKE_TEST), pairs)
    for tested, (_, share) in zip(runs, pairs, strict=True):
        if tested.code != 0:
            raise CorpusError(f"tests fail without a bug: {_tail(tested.output)}")
        if "skipped" in tested.output.strip().splitlines()[-1]:
            raise CorpusError(f"tests that bugs name were skipped: {_tail(tested.output)}")
        if "passed" not in tested.output:
            raise CorpusError(f"no test was run of {share}")


def verdict(outcome: Outcome) -> str:
    """One word for what became of a bug."""
    if outcome.problem:
        return "NOT TRIED"
    return "killed" if outcome.killed_by else "SURVIVED"


def _about(left: float) -> str:
    return f", about {left / 60:.0f} min left" if left >= 60 else f", about {left:.0f} s left" if left else ""


def _tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-25:])
