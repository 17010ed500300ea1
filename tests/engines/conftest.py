"""One Spark for all tests of a process: to begin one takes seconds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from confide.engines import SparkEngine
from confide.engines.spark_session import has_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """An open engine; while it is open, others share its Spark."""
    if not has_spark():
        pytest.skip("needs Java and the extra spark: pip install 'confide[spark]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        engine = SparkEngine(tmp_path_factory.mktemp("spark"), processes=2, memory="1GiB")
    yield engine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        engine.__exit__(None, None, None)
