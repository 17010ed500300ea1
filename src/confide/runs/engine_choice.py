"""Which engine a run is made with: that of this machine, or Spark. Both make the same release, byte by byte."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from confide.engines import Engine, LocalEngine, SparkEngine
from confide.errors import Finding, ParameterError, Place
from confide.runs.execute import OpenEngine

EngineName = Literal["local", "spark"]

ON_SPARK = ("tables", "topdown", "safetab", "cellkey", "postprocess")
"""The mechanisms whose releases are compared byte by byte with those of the local engine, by
``tests/engines/test_spark_releases.py``. Others are refused before anything is spent."""


def choose_engine(
    name: EngineName, mechanism: str, *, processes: int | None, memory: str, spark_master: str | None = None
) -> OpenEngine:
    """Opens the engine that was asked for; raises a :class:`ParameterError` where it is not for this mechanism."""
    if name == "local":
        if spark_master is not None:
            raise _refused("--spark-master", "a master of Spark is given, and the engine is local", spark_master)
        return lambda scratch: LocalEngine(scratch, processes=processes, memory=memory)
    if name != "spark":
        raise _refused("--engine", "there is no such engine", repr(name))
    if mechanism not in ON_SPARK:
        what = f"the mechanism {mechanism} does not run on Spark; nothing was done and nothing spent"
        raise _refused("--engine", what, f"the mechanism {mechanism}")

    def open_spark(scratch: Path) -> AbstractContextManager[Engine]:
        return SparkEngine(scratch, processes=processes, memory=memory, master=spark_master)

    return open_spark


def _refused(option: str, what: str, found: str) -> ParameterError:
    return ParameterError(
        Finding(
            code="engine",
            what=what,
            where=Place(path=option),
            found=found,
            expected="local; or spark, for " + ", ".join(ON_SPARK),
            remedy="run with --engine local, or leave the option out",
        )
    )
