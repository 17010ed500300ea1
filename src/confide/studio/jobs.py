"""Verbs that take long, each in a process of its own: it goes on when the page is closed and when the studio stops.

A job writes how far it is into a private folder of the opened one, ``.confide-studio``, as plain JSON without any value
of a record. There is one job at a time for a spec, held by a lock that goes with the process: after a crash the lock is
free, and the same job can be begun again. What a run has charged it does not charge again
(:mod:`confide.releases.run`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confide import api, rehearsal
from confide.engines import Advance
from confide.errors import ConfideError, Finding, Place, RunError
from confide.file_system import private_folder, write_text
from confide.lazy_names import STUDIO_JOBS, named
from confide.releases.check import Checked
from confide.releases.ledger import Ledger
from confide.releases.workspace import one_process, out_of_memory

OWN = ".confide-studio"
"""The folder of jobs, in the folder that was opened."""
LOCK = "lock"
EVERY = 0.2
"""Seconds between two notes of how far a stage is."""
PATIENCE = 60.0
"""Seconds until a process must have said that it has begun."""


@dataclass(frozen=True)
class JobState:
    """How far a job is, as it was last written down."""

    action: str
    spec: str
    job: str
    state: str
    """``running``, ``done`` or ``failed``; ``interrupted`` where a running one is no more."""
    begun: float
    stages: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] | None = None
    stamp: int = 0
    """Of the spec when the job began: what it found of another spec says nothing."""

    @property
    def seconds_left(self) -> float | None:
        """Of the stage that runs, if it goes on as it began."""
        if self.state != "running" or not self.stages or not self.stages[-1]["done"]:
            return None
        stage = self.stages[-1]
        taken = max(0.0, time.time() - stage["begun"])
        return float(taken / stage["done"] * max(0, stage["steps"] - stage["done"]))


class Jobs:
    """The jobs of an opened folder."""

    def __init__(self, root: Path):
        self._root = root

    def start(self, action: str, spec: Path, **given: Any) -> None:
        """Begins a job, and returns once it has; while one of this spec is running, another is refused in words.

        The same one is at work already then, which the page shows.

        Args:
            action: What to do: a key of :data:`ACTIONS`.
            spec: The spec.
            given: What else the action needs, such as the name that was typed.
        """
        folder = private_folder(private_folder(self._root / OWN) / _key(self._root, spec))
        if self._busy(folder):
            return self._require_same(action, spec)
        job = secrets.token_hex(8)
        asked = {"action": action, "spec": str(spec), "folder": str(folder), "job": job, "given": given}
        child = subprocess.Popen(
            [sys.executable, "-m", "confide.studio.jobs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal of the studio is not for it
            cwd=self._root,
        )
        assert child.stdin is not None
        with suppress(BrokenPipeError):
            child.stdin.write(json.dumps(asked).encode())
            child.stdin.close()
        threading.Thread(target=child.wait, daemon=True).start()  # nobody else asks how it ended
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and child.poll() is None:
            if self._is(folder, action, job):
                return None
            time.sleep(0.05)
        if not self._is(folder, action, job):  # another job was faster, and holds the lock
            self._require_same(action, spec)
        return None

    def _require_same(self, action: str, spec: Path) -> None:
        running = [state.action for state in self.states(spec).values() if state.state == "running"]
        if action in running:
            return
        raise RunError("job-in-progress", where=Place(file=spec.name), action=action, running=", ".join(running))

    @staticmethod
    def _is(folder: Path, action: str, job: str) -> bool:
        state = _read(folder / f"{action}.json")
        return state is not None and state.job == job

    def states(self, spec: Path) -> dict[str, JobState]:
        """The last job of each action."""
        folder = self._root / OWN / _key(self._root, spec)
        busy = self._busy(folder)
        states = {}
        for action in (*ACTIONS, *STUDIO_JOBS):
            if (state := _read(folder / f"{action}.json")) is not None:
                gone = state.state == "running" and not busy
                states[action] = JobState(**{**state.__dict__, "state": "interrupted"}) if gone else state
        return states

    @staticmethod
    def _busy(folder: Path) -> bool:
        """Whether a process holds the lock of a spec."""
        if not (folder / LOCK).exists():
            return False
        try:
            with one_process(folder / LOCK, folder):
                return False
        except RunError:
            return True


def _key(root: Path, spec: Path) -> str:
    return hashlib.sha256(spec.relative_to(root).as_posix().encode()).hexdigest()[:16]


def _read(file: Path) -> JobState | None:
    try:
        values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        values |= {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return JobState(**values)
    except (OSError, ValueError, TypeError):
        return None


# In the process of a job.


@dataclass
class Noting:
    """Progress that is written down."""

    file: Path
    values: dict[str, Any]
    _noted: float = field(default=0.0)

    @contextmanager
    def stage(self, title: str, steps: int) -> Iterator[Advance]:
        """See :class:`confide.releases.workspace.Progress`."""
        stage: dict[str, Any] = {"title": title, "steps": steps, "done": 0, "begun": time.time(), "ended": None}
        self.values["stages"].append(stage)
        self.write()

        def advance(done: int) -> None:
            stage["done"] += done
            if time.monotonic() - self._noted > EVERY:
                self.write()

        yield advance
        stage["done"], stage["ended"] = steps, time.time()
        self.write()

    def note(self, text: str) -> None:
        """See :class:`confide.releases.workspace.Progress`."""
        self.values["notes"].append(text)
        self.write()

    def write(self) -> None:
        """What is known now, whole or not at all."""
        self._noted = time.monotonic()
        write_text(self.file, json.dumps(self.values))


def _check(spec: Path, progress: Noting, given: Mapping[str, Any]) -> dict[str, Any]:
    checked = api.check(spec, accept_ledger=_same_people(spec, given), progress=progress)
    summary = checked.summary
    shown = (
        {}
        if summary is None
        else {"columns": list(summary.columns), "rows": [list(map(str, row)) for row in summary.rows]}
        | {"notes": list(summary.notes), "sentence": summary.sentence}
    )
    plain = checked.as_dict()
    kept = {key: plain[key] for key in ("ok", "findings", "cost", "delta", "left", "price")}
    return kept | {"summary": shown, "plan": None if checked.plan is None else checked.plan.hash}


def _rehearse(spec: Path, progress: Noting, given: Mapping[str, Any]) -> dict[str, Any]:
    return rehearsal.rehearse(spec, persons=given.get("persons"), progress=progress).as_dict()


def _run(spec: Path, progress: Noting, given: Mapping[str, Any]) -> dict[str, Any]:
    require_name(spec, str(given.get("typed", "")))
    require_unchanged(spec, given.get("stamp"))

    def same_price(checked: Checked) -> None:
        if given.get("plan") and checked.plan is not None and given["plan"] != checked.plan.hash:
            raise RunError("spec-changed/release-checked-nothing", where=Place(path="release"))
        if given.get("cost") != str(checked.cost.amount if checked.cost else None):
            raise RunError(
                "price-changed", where=Place(path="privacy.budget"), found=str(checked.cost), given=given.get("cost")
            )

    accepted = _same_people(spec, given)
    return api.run(spec, accept_ledger=accepted, confirm=same_price, progress=progress).as_dict()


def _evaluate(spec: Path, progress: Noting, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    return {"dossier": str(api.evaluate(spec, progress=progress).dossier)}


def _destroy(spec: Path, progress: Noting, given: Mapping[str, Any]) -> dict[str, Any]:
    require_name(spec, str(given.get("typed", "")))
    with progress.stage("Destroying the key", 1) as advance:
        ledger_told = api.destroy_key(spec)
        advance(1)
    return {"ledger_told": ledger_told}


ACTIONS: dict[str, Callable[[Path, Noting, Mapping[str, Any]], dict[str, Any]]] = {
    "check": _check,
    "rehearse": _rehearse,
    "run": _run,
    "evaluate": _evaluate,
    "destroy": _destroy,
}
"""What a job can do, beside what the laboratory brings (:data:`confide.lazy_names.STUDIO_JOBS`)."""


def _same_people(spec: Path, given: Mapping[str, Any]) -> bool:
    """Whether somebody typed the name of the ledger's data set: what ``--accept-ledger`` is at a terminal."""
    if not (typed := str(given.get("data_set", "")).strip()):
        return False
    loaded = api.load(spec)
    if not api.MECHANISMS[loaded.spec.release.mechanism].accounted:
        return False
    require_data_set(Ledger(loaded.resolve(loaded.spec.privacy.ledger)).account().data_set, typed)
    return True


def require_data_set(name: str, typed: str) -> None:
    """Refuses where somebody did not type the name of the data set that a ledger is kept for.

    Args:
        name: The name, as the ledger has it.
        typed: What was typed.
    """
    if typed.strip() != name:
        raise RunError("not-confirmed/whose", where=Place(path="data_set"), typed=typed.strip(), name=name)


def require_name(spec: Path, typed: str) -> None:
    """Refuses where somebody did not type the name of the release."""
    name = api.load(spec).spec.release.name
    if typed.strip() != name:
        raise RunError("not-confirmed/name", where=Place(path="release.name"), typed=typed.strip(), name=name)


def require_unchanged(spec: Path, stamp: Any) -> None:
    """Refuses where the spec is another than the one that somebody was shown.

    Args:
        spec: The spec.
        stamp: When it was last changed, as it was shown; nothing where it was not.
    """
    if stamp and str(stamp) != str(spec.stat().st_mtime_ns):
        raise RunError("spec-changed/after-check", where=Place(path="release"))


def work(asked: Mapping[str, Any]) -> None:
    """One job, from beginning to end. A second one of the same spec ends before it begins.

    Args:
        asked: The action, the spec, the folder of its notes, the number of the job, and what the action needs.
    """
    folder, spec = Path(asked["folder"]), Path(asked["spec"])
    with one_process(folder / LOCK, folder):
        values: dict[str, Any] = {
            "action": asked["action"],
            "spec": spec.name,
            "job": asked["job"],
            "state": "running",
            "begun": time.time(),
            "stages": [],
            "notes": [],
            "findings": [],
            "result": None,
            "stamp": spec.stat().st_mtime_ns if spec.is_file() else 0,
        }
        progress = Noting(folder / f"{asked['action']}.json", values)
        progress.write()
        try:
            action = ACTIONS.get(asked["action"]) or named(STUDIO_JOBS[asked["action"]])
            values["result"] = action(spec, progress, asked["given"])
            values["state"] = "done"
        except ConfideError as error:
            values |= {"state": "failed", "findings": [finding.as_dict() for finding in error.findings]}
        except MemoryError:
            values |= {"state": "failed", "findings": [out_of_memory(spec.parent).as_dict()]}
        except Exception as error:  # noqa: BLE001 - the last resort: a traceback might show a value
            last = traceback.extract_tb(error.__traceback__)[-1]
            values |= {
                "state": "failed",
                "findings": [
                    Finding.of(
                        "internal/confide",
                        name=type(error).__name__,
                        filename_name=Path(last.filename).name,
                        lineno=last.lineno,
                    ).as_dict()
                ],
            }
        progress.write()


if __name__ == "__main__":
    os.umask(0o077)
    with suppress(RunError):  # another process works on this spec already: its notes are the ones that count
        work(json.loads(sys.stdin.read()))
