"""Which tests ``make quick`` leaves out because they take long: measured, not guessed.

``make times`` runs the tests of ``make test``, writes the list ``tests/costly.txt`` and prints what takes most; each
run marks what is on the list as ``costly``. A test is on it if its calls, over all its parameters, take more than
:data:`CALLS` seconds, or if it asks for a fixture that takes more than :data:`FIXTURE` seconds. A test that is not on
the list yet runs. Seconds are those of the processor, of the test and the processes it started and waited for: they
say little about how busy the machine is with other things.

Of the contract, which ``make test`` has, single cases are on it as well, with their parameters: those that take more
than :data:`CASE` seconds, but never all cases of a test. They are left to ``make test-all``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

LIST = Path(__file__).parent.parent / "costly.txt"
CONTRACT = LIST.parent / "contract"
CALLS, FIXTURE = 0.2, 0.7  # in seconds; what remains is 2,600 tests in 40 s of two processors
CASE = 2.0
SHOWN = 150


def name_of(nodeid: str) -> str:
    """A test without its parameters: one line of the list stands for all of them."""
    return nodeid.partition("[")[0]


def processor_seconds() -> float:
    """What this process and those it waited for have used so far."""
    return sum(os.times()[:4])


def costly() -> frozenset[str]:
    """The names on the list, and the cases."""
    return frozenset(LIST.read_text(encoding="utf-8").splitlines()) if LIST.exists() else frozenset()


def is_there(name: str) -> bool:
    """Whether there is a test of this name, or of a case."""
    file, *_, function = name_of(name).split("::")
    path = LIST.parents[1] / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return f"def {function}(" in text or (function == "runTest" and "RuleBasedStateMachine" in text)


def left_out() -> frozenset[str]:
    """The cases on the list."""
    return frozenset(name for name in costly() if name != name_of(name))


def longest(cases: dict[str, float]) -> list[str]:
    """Of the cases of one test those that take too long for ``make test``, which has the shortest in any event."""
    return [case for case in sorted(cases, key=lambda case: cases[case])[1:] if cases[case] > CASE]


def mark_costly(items: list[pytest.Item]) -> None:
    """Marks the tests that are on the list."""
    names = costly()
    for item in items:
        if name_of(item.nodeid) in names:
            item.add_marker("costly")


class Stopwatch:
    """A plugin that measures every test and every fixture, writes the list at the end and prints what takes most.

    A fixture that lives for a session is paid by the first test that asks for it, whichever that is: so it is
    measured for itself, and counted against every test that needs it. The workers of xdist send what they measured
    with the reports, in ``user_properties``; whoever has no workers of its own hears all of them.
    """

    def __init__(self, *, writes: bool) -> None:
        self._writes = writes
        self._fixtures: dict[str, float] = {}
        self._calls: dict[str, float] = defaultdict(float)
        self._needs: dict[str, float] = defaultdict(float)
        self._setups: dict[str, float] = defaultdict(float)
        self._cases: dict[str, dict[str, float]] = defaultdict(dict)
        """Of each test of the contract."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        start = processor_seconds()
        result = yield
        name = f"{fixturedef.baseid}::{fixturedef.argname}"
        self._fixtures[name] = max(processor_seconds() - start, self._fixtures.get(name, 0.0))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        start = processor_seconds()
        result = yield
        item.user_properties.append(("setup", processor_seconds() - start))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Function) -> Generator[None, object, object]:
        definitions = [each for several in item._fixtureinfo.name2fixturedefs.values() for each in several]
        needed = [self._fixtures.get(f"{each.baseid}::{each.argname}", 0.0) for each in definitions]
        item.user_properties.append(("dearest fixture", max(needed, default=0.0)))
        start = processor_seconds()
        result = yield
        item.user_properties.append(("call", processor_seconds() - start))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            name, seconds = name_of(report.nodeid), {key: float(str(value)) for key, value in report.user_properties}
            self._calls[name] += seconds.get("call", report.duration)
            if CONTRACT in Path(report.fspath).absolute().parents:
                self._cases[name][report.nodeid] = seconds.get("call", report.duration)
            self._setups[name] += seconds.get("setup", 0.0)
            self._needs[name] = max(self._needs[name], seconds.get("dearest fixture", 0.0))

    def pytest_sessionfinish(self) -> None:
        if self._writes:
            listed = [name for name in self._calls if self._calls[name] > CALLS or self._needs[name] > FIXTURE]
            # What was not run, because it is slow, keeps its place for as long as it is there.
            listed += [name for name in costly() if name_of(name) not in self._calls and is_there(name)]
            listed += [case for cases in self._cases.values() for case in longest(cases)]
            LIST.write_text("".join(f"{name}\n" for name in sorted(listed)), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._writes:
            total = {name: self._calls[name] + self._setups[name] for name in self._calls}
            terminalreporter.section(f"{sum(total.values()):,.0f} seconds of processors, and who used most")
            for name in sorted(total, key=lambda name: -total[name])[:SHOWN]:
                terminalreporter.write_line(f"{self._setups[name]:7.1f} s set-up {self._calls[name]:7.1f} s  {name}")


def mostly_slow(cases: Iterable[Any], in_make_test: int) -> list[Any]:
    """Parameters of which ``make test`` takes only the first; ``make test-all`` takes all of them.

    Args:
        cases: The parameters, such as seeds.
        in_make_test: How many of them are not slow.

    Returns:
        The same parameters for ``pytest.mark.parametrize``.
    """
    return [
        case if place < in_make_test else pytest.param(*_arguments(case), marks=pytest.mark.slow)
        for place, case in enumerate(cases)
    ]


def _arguments(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
