"""Mapping a pure function over groups of rows on Spark.

A task is one group. It reads its rows from the file, calls the function and writes the result, by the very code that a
process of the local engine runs; so the bytes are the same, a second try of a task changes nothing, and no row passes
through the driver. Every machine must see the run's folder under the same path.
"""

from __future__ import annotations

import pickle
import sys
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from confide.engines.groups import _map_one, private_folder
from confide.engines.protocol import Advance, GroupFunction
from confide.engines.spark_session import in_our_words
from confide.errors import Finding, RunError

MOST_TASKS = 10_000
LOOK_SECONDS = 0.25

Outcome = bytes | None
"""None for a group that is done; or its error, pickled."""


class Part:
    """What a task does with each of its groups: a function that Spark sends to where the task runs.

    The function to be mapped is pickled by itself, and unpickled after the path for modules has been taken over, as a
    spawned process would.
    """

    def __init__(self, function: bytes, rows: str, key: str):
        self.function, self.rows, self.key = function, rows, key
        self.modules = list(sys.path)

    def __call__(self, groups: Iterator[tuple[int, str]]) -> Iterator[Outcome]:
        sys.path += [folder for folder in self.modules if folder not in sys.path]
        function: GroupFunction = pickle.loads(self.function)  # noqa: S301 - our own, from the driver of this run
        for group, file in groups:
            yield self._map(function, group, Path(file))

    def _map(self, function: GroupFunction, group: int, file: Path) -> Outcome:
        if file.exists():
            return None
        try:
            _map_one(function, Path(self.rows), self.key, group, file)
        except Exception as error:  # noqa: BLE001 - raised again by the driver, where the local engine would raise it
            return _pickled(error)
        return None


def map_groups_on_spark(
    context: Any,
    function: GroupFunction,
    rows: Path,
    key: str,
    groups: Sequence[int],
    into: Path,
    advance: Advance | None = None,
) -> list[Path]:
    """See :meth:`confide.engines.protocol.Engine.map_groups`."""
    from pyspark import cloudpickle

    private_folder(into)
    files = [(into / f"{group:08d}.parquet").absolute() for group in groups]
    missing = [(int(group), str(file)) for group, file in zip(groups, files, strict=True) if not file.exists()]
    report = advance or (lambda _: None)
    report(len(groups) - len(missing))
    if missing:
        part = Part(cloudpickle.dumps(function), str(rows.absolute()), key)
        _run(context, part, missing, rows, report)
    return [into / file.name for file in files]


def _run(context: Any, part: Part, missing: list[tuple[int, str]], rows: Path, report: Advance) -> None:
    """Runs the tasks, and tells of files as they appear."""
    name = f"confide-{uuid.uuid4()}"

    def work() -> list[Outcome]:
        context.setJobGroup(name, "groups", interruptOnCancel=True)
        tasks = context.parallelize(missing, min(len(missing), MOST_TASKS))
        outcomes: list[Outcome] = tasks.mapPartitions(part).collect()
        return outcomes

    waiting, told = {Path(file) for _, file in missing}, 0
    with ThreadPoolExecutor(1) as thread:
        running: Future[list[Outcome]] = thread.submit(work)
        try:
            while wait([running], LOOK_SECONDS).not_done:
                done = {file for file in waiting if file.exists()}
                waiting -= done
                told += len(done)
                if done:
                    report(len(done))
        except BaseException:
            context.cancelJobGroup(name)
            raise
        outcomes = in_our_words(running.result, [rows])
    for outcome in outcomes:
        if outcome is not None:
            raise pickle.loads(outcome)  # noqa: S301
    report(len(missing) - told)


def _pickled(error: Exception) -> bytes:
    try:
        text = pickle.dumps(error)
        pickle.loads(text)  # noqa: S301
    except Exception:  # noqa: BLE001 - an error that cannot travel is told by its kind alone
        finding = Finding(
            code="group-failed",
            what="a part of the run failed",
            found=type(error).__name__,
            expected="a part that gives its rows",
            remedy="run with --engine local, which says more",
        )
        return pickle.dumps(RunError(finding))
    return text
