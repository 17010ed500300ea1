"""``make audit-tests``: the kinds of test that look between the parts, for every mechanism, as a table.

    python -m tests.contract

Runs exactly these tests, prints a line for each mechanism and a column for each kind, and ends with 1 if one fails.
Tests that are about all mechanisms together have a line of their own.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.contract.kit import NAMES

ROOT = Path(__file__).parents[2]
KINDS = {
    "byte replay": ["tests/contract/test_replay_of_neighbours.py"],
    "small parts": ["tests/contract/test_small_parts.py"],
    "order": ["tests/contract/test_order.py", "tests/topdown/test_query_order.py"],
    "two rooms": ["tests/contract/test_two_rooms.py", "tests/topdown/test_one_number.py"],
    "scripts": ["tests/contract/test_random_specs.py"],
}
"""For each kind the files that have its tests."""
ALL = "all together"
WIDTH = 16


class Outcomes:
    """A plugin that notes what the tests of each mechanism and kind come to."""

    def __init__(self) -> None:
        self.passed: dict[tuple[str, str], int] = defaultdict(int)
        self.failed: dict[tuple[str, str], list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        place = place_of(report.nodeid)
        if report.failed:
            self.failed[place].append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed[place] += 1

    def table(self) -> str:
        lines = ["".join(f"{title:<{WIDTH}}" for title in ("", *KINDS)).rstrip()]
        for name in (*NAMES, ALL):
            cells = [self.cell((name, kind)) for kind in KINDS]
            lines.append("".join(f"{cell:<{WIDTH}}" for cell in (name, *cells)).rstrip())
        return "\n".join(lines)

    def cell(self, place: tuple[str, str]) -> str:
        if failed := len(self.failed[place]):
            return f"FAILED {failed} of {failed + self.passed[place]}"
        return f"ok {self.passed[place]}" if self.passed[place] else "-"


def place_of(nodeid: str) -> tuple[str, str]:
    """The mechanism and the kind of a test: a parameter names the mechanism, or its folder does."""
    file, _, test = nodeid.partition("::")
    kind = next(kind for kind, files in KINDS.items() if file in files)
    given = test.partition("[")[2].rstrip("]")
    named = [
        name
        for name in sorted(NAMES, key=len, reverse=True)  # safetab-h before safetab
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", given) or f"/{name.replace('-', '_')}/" in file
    ]
    return (named[0] if named else ALL), kind


def main() -> int:
    """The table, on standard output, after what pytest says."""
    outcomes = Outcomes()
    files = [str(ROOT / file) for listed in KINDS.values() for file in listed]
    code = pytest.main(["-q", "--no-header", "-m", "not slow", *files], plugins=[outcomes])
    sys.stdout.write(f"\n{outcomes.table()}\n")
    for nodeid in sorted(node for nodes in outcomes.failed.values() for node in nodes):
        sys.stdout.write(f"FAILED {nodeid}\n")
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main())
