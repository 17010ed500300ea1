"""``python -m tests.planted [NAME ...]``: plants the bugs of the corpus, or those named, and prints who noticed.

A name is that of a bug, of a room (``ledger``), or a pattern (``tables-*``). Exit code 1 if a bug survives or cannot be
planted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from fnmatch import fnmatchcase
from pathlib import Path

from tests.planted.corpus import ROOT, Bug, CorpusError, read_corpus
from tests.planted.running import Outcome, try_all, verdict


def main(arguments: list[str]) -> int:
    """Runs the corpus and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a bug, a room, or a pattern; all without one")
    parser.add_argument("--workers", type=int, default=2, help="how many copies of the project work at a time")
    parser.add_argument("--list", action="store_true", help="print the bugs and plant none")
    asked = parser.parse_args(arguments)
    try:
        bugs = chosen(read_corpus(), asked.names)
        if asked.list:
            say("\n".join(f"{bug.name:48} {bug.harm}" for bug in bugs))
            return 0
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            Path(folder).chmod(0o755)  # one test of the ledger is somebody else
            outcomes = try_all(bugs, ROOT, Path(folder), asked.workers, say)
    except CorpusError as error:
        say(str(error))
        return 1
    say(table(outcomes))
    say(summary(outcomes, time.monotonic() - began, sum(os.times()[:4])))
    return 0 if all(outcome.killed_by for outcome in outcomes) else 1


def chosen(bugs: list[Bug], names: list[str]) -> list[Bug]:
    """The bugs that were asked for."""
    unknown = [name for name in names if not any(_meant(bug, name) for bug in bugs)]
    if unknown:
        raise CorpusError(f"there is no bug and no room of this name: {', '.join(unknown)}")
    return [bug for bug in bugs if not names or any(_meant(bug, name) for name in names)]


def _meant(bug: Bug, name: str) -> bool:
    return bug.room == name or fnmatchcase(bug.name, name)


def table(outcomes: list[Outcome]) -> str:
    """Bug, what it would do, who noticed it, and how long that took."""
    lines = []
    for outcome in outcomes:
        lines.append(f"\n{verdict(outcome):9} {outcome.bug.room}: {outcome.bug.name}  ({outcome.seconds:.1f} s)")
        lines.append(f"          would: {outcome.bug.harm}")
        if outcome.problem:
            lines.append(f"          {outcome.problem}")
        elif outcome.killed_by:
            unnamed = "" if outcome.named else "   (not named in the corpus: name it)"
            lines.append(f"          killed by: {outcome.killed_by}{unnamed}")
    return "\n".join(lines)


def summary(outcomes: list[Outcome], seconds: float, of_processors: float) -> str:
    """How many were killed, and which were not; how long that took, and how long on a machine that is not busy."""
    alive = [outcome.bug.name for outcome in outcomes if not outcome.killed_by]
    end = f"; not killed: {', '.join(alive)}" if alive else ""
    took = f"{seconds / 60:.1f} min ({of_processors / 60:.1f} min of processors)"
    return f"\n{len(outcomes) - len(alive)} of {len(outcomes)} planted bugs killed in {took}{end}"


def say(text: str) -> None:
    """To the terminal, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
