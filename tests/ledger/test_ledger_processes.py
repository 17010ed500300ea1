"""Many processes at once, and processes that are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kits.ledger import new_ledger

from confide.releases.ledger import Ledger, entries

pytestmark = pytest.mark.process

ROOT = str(Path(__file__).parents[2])
START_UP = """
import os, sys
sys.path.insert(0, sys.argv[2])
from confide.errors import BudgetExceededError
from confide.releases.ledger import Ledger
from tests.kits.ledger import MANIFEST, new_ledger, reserve
path = sys.argv[1]
"""

RACE = """
print("ready", flush=True)
sys.stdin.readline()
ledger = Ledger(path)
try:
    reserve(ledger, sys.argv[3], "1/4")
except BudgetExceededError:
    print("refused")
else:
    print("reserved")
"""


def start(path: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", START_UP + script, str(path), ROOT, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_sixteen_processes_race_for_the_last_part_of_a_budget(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "census.ledger", budget="23/16")  # room for five quarters, and some
    processes = [start(ledger.path, RACE, f"run-{number}") for number in range(16)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # all are waiting: let them go at once
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60) for process in processes]
    assert [error for _, error in answers if error] == []
    outcomes = [out.strip() for out, _ in answers]
    assert sorted(outcomes) == ["refused"] * 11 + ["reserved"] * 5
    account = ledger.account()
    assert set(account.runs) == {f"run-{number}" for number, outcome in enumerate(outcomes) if outcome == "reserved"}
    assert account.left == Fraction(3, 16)


def test_whoever_writes_has_the_lock_before_reading(tmp_path: Path) -> None:
    """By chance alone sixteen processes meet between reading and writing; here another one always tries there."""
    ledger = new_ledger(tmp_path / "census.ledger", budget="1")
    with (
        entries.writing(ledger.path, timeout=5),
        closing(sqlite3.connect(ledger.path, timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("BEGIN IMMEDIATE")
    with entries.reading(ledger.path, timeout=5), closing(sqlite3.connect(ledger.path, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")


# One start of Python serves many deaths: a child is forked for each life, and tells of each step once it is done.
LIVES = """
for life in range(int(sys.argv[3])):
    sys.stdin.readline()
    child = os.fork()
    if child == 0:
        ledger = Ledger(path)
        os.write(1, f"born {os.getpid()}\\n".encode())
        for number in range(10_000):
            run_id = f"{life}-{number}"
            for step in (
                lambda: reserve(ledger, run_id, "1/1000000"),
                lambda: ledger.mark_measured(run_id),
                lambda: ledger.mark_sealed(run_id, MANIFEST),
            ):
                os.write(1, f"{run_id} {step().state}\\n".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.write(1, b"dead\\n")
"""
ORDER = ("reserved", "measured", "sealed")


def test_killed_at_random_moments_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "census.ledger")
    lives, chance = 30, random.Random(20300401)
    acknowledged: dict[str, str] = {}
    with start(ledger.path, LIVES, str(lives)) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        for _ in range(lives):
            parent.stdin.write("go\n")
            parent.stdin.flush()
            child = int(parent.stdout.readline().removeprefix("born "))
            started, steps = time.monotonic(), chance.randrange(1, 8)
            lines = [parent.stdout.readline() for _ in range(steps)]
            time.sleep(chance.uniform(0, 1.2) * (time.monotonic() - started) / steps)  # anywhere in the next step
            os.kill(child, signal.SIGKILL)
            while (line := parent.stdout.readline()) != "dead\n":
                lines.append(line)
            acknowledged |= dict(line.split() for line in lines)
            runs = ledger.account().runs  # rolls back what was half-written, verifies the chain, checks the rules
            for run_id, state in acknowledged.items():
                assert ORDER.index(runs[run_id].state) >= ORDER.index(state)
            unheard = [run_id for run_id in runs if run_id not in acknowledged]
            assert len(unheard) <= lives  # at most one entry in each life was written and not heard of
            assert ledger.account().spent == Fraction(len(runs), 1_000_000)
        parent.stdin.close()
        assert parent.wait(timeout=30) == 0
        assert parent.stderr is not None
        assert parent.stderr.read() == ""
    assert len(acknowledged) >= lives


# Killed just before the n-th statement that SQLite is given: at every point of the transaction, one after the other.
STATEMENTS = """
import signal, sqlite3
from confide.releases.ledger import entries as store
connect = store._connect
def watched(path, timeout):
    connection = connect(path, timeout)
    connection.set_trace_callback(count)
    return connection
def count(statement):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
for point in range(40):
    left = 10**9
    ledger = Ledger(path)
    store._connect = watched
    child = os.fork()
    if child == 0:
        left = point
        try:
            reserve(ledger, f"run-{point}", "1/1000")
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    store._connect = connect
    kept = f"run-{point}" in Ledger(path).account().runs
    print("killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), kept)
    if status == 0:
        break
"""


def test_killed_before_each_statement(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "census.ledger")
    out, error = start(ledger.path, STATEMENTS).communicate(timeout=60)
    assert error == ""
    *killed, last = out.splitlines()
    assert len(killed) >= 5  # begin, header, chain, schema, insert, commit
    assert set(killed) == {"killed False"}
    assert last == "0 True"
    assert len(ledger.account().runs) == 1


OPENING = "new_ledger(__import__('pathlib').Path(path)); print('open')"
RESERVING = "reserve(Ledger(path)); print('reserved')"
CALLS = ("pwrite64", "fsync", "fdatasync", "link", "unlink")  # none of which Python makes while it starts


def strace_works() -> bool:
    program = shutil.which("strace")
    if program is None:
        return False
    return subprocess.run([program, "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not strace_works(), reason="strace is not there or not allowed")
@pytest.mark.parametrize("script", [OPENING, RESERVING], ids=["opening", "reserving"])
def test_killed_at_each_system_call_that_touches_the_disk(tmp_path: Path, script: str) -> None:
    """Killed on entering the n-th fsync (unlink, ...), for every n, until nothing is left to be killed."""
    deaths = {call: killed_at_each(call, script, tmp_path / call) for call in CALLS}
    assert deaths["pwrite64"] >= 3
    assert deaths["fdatasync"] + deaths["fsync"] >= 3
    assert deaths["unlink"] >= 1


def killed_at_each(call: str, script: str, folder: Path) -> int:
    """How often it was killed. Each time what is there has to be whole, and from one n on the work has to be done."""
    kept = []
    for number in range(1, 100):
        path = folder / str(number) / "census.ledger"
        path.parent.mkdir(parents=True)
        if script == RESERVING:
            new_ledger(path)
        strace = ["strace", "-f", "-o", os.devnull, "-e", f"inject={call}:signal=SIGKILL:when={number}"]
        command = [*strace, sys.executable, "-B", "-c", START_UP + script, str(path), ROOT]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        kept.append(len(Ledger(path).history()) if path.exists() else 0)
        assert path.exists() or script == OPENING
        if done.returncode == 0:
            assert done.stdout
            break
    assert kept == sorted(kept)
    assert kept[-1] == (2 if script == RESERVING else 1)
    return len(kept) - 1
