"""A cluster that is not there: what Spark is given is pickled and kept, as it would be sent, and done here."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PRIVATE = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
"""The settings of a cluster on which nobody can listen."""


class FakeContext:
    """The part of Spark's context that Confide uses."""

    def __init__(self, master: str = "spark://host:7077", settings: dict[str, str] | None = None, executors: int = 2):
        self.master, self.executors, self.defaultParallelism = master, executors, 2
        self.settings = {"spark.master": master} | (PRIVATE if settings is None else settings)
        self.wire: list[bytes] = []
        self.cancelled = threading.Event()
        self.patience = 30
        self.at_work: Callable[[], object] = lambda: None
        """Called when a worker begins."""
        self._jsc = SimpleNamespace(sc=lambda: self)

    def getConf(self) -> Any:  # noqa: N802 - Spark's name, as are those below
        return self.settings

    def conf(self) -> Any:
        return self

    def getTimeAsSeconds(self, _: str, __: str) -> int:  # noqa: N802
        return self.patience

    def getExecutorMemoryStatus(self) -> Any:  # noqa: N802
        return SimpleNamespace(size=lambda: self.executors + 1)

    def setJobGroup(self, *_: Any, **__: Any) -> None:  # noqa: N802
        return

    def cancelJobGroup(self, _: str) -> None:  # noqa: N802
        self.cancelled.set()

    def statusTracker(self) -> Any:  # noqa: N802
        return SimpleNamespace(getActiveJobsIds=lambda: [1], getJobIdsForGroup=lambda _: [])

    def parallelize(self, items: Iterable[Any], _: int) -> Any:
        return SimpleNamespace(mapPartitions=lambda part: SimpleNamespace(collect=lambda: self._collect(items, part)))

    def _collect(self, items: Iterable[Any], part: Callable[[Any], Iterable[Any]]) -> list[Any]:
        self.wire += [pickle.dumps(list(items)), pickle.dumps(part)]
        self.at_work()
        there = pickle.loads(self.wire[-1])(iter(pickle.loads(self.wire[-2])))
        self.wire.append(pickle.dumps(list(there)))
        return list(pickle.loads(self.wire[-1]))


class FakeSession:
    """A session in such a context, that can be begun and ended."""

    def __init__(self, context: FakeContext):
        self.sparkContext, self.stopped = context, False
        self.conf = SimpleNamespace(set=lambda _, __: None)

    def newSession(self) -> FakeSession:  # noqa: N802
        return self

    def stop(self) -> None:
        self.stopped = True


def without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts modules in the place of pyspark's that have its errors and nothing else."""
    errors = {name: type(name, (Exception,), {}) for name in ("AnalysisException", "PySparkException")}
    java = {"Py4JError": type("Py4JError", (Exception,), {})}
    java["Py4JJavaError"] = type("Py4JJavaError", (java["Py4JError"],), {})
    logger = SimpleNamespace(getLogger=lambda _: SimpleNamespace(setLevel=lambda __: None))
    contents: dict[str, Mapping[str, object]] = {
        "py4j": {},
        "py4j.protocol": java,
        "pyspark": {},
        "pyspark.errors": errors,
        "pyspark.logger": {"PySparkLogger": logger},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)


def documented_settings(secret: str) -> str:
    """The file of settings that docs/concepts/engines.md shows to operators."""
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "engines.md").read_text(encoding="utf-8")
    (block,) = (text for text in page.split("```") if "conf/spark-defaults.conf, 0600" in text)
    return block.strip().replace("SECRET", secret) + "\n"
