"""What Spark reports, in our words. Its own may quote a value of the records, so they are never passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from confide.engines.source import Source
from confide.engines.troubles import no_room, unreadable
from confide.errors import ConfideError, Finding, InputError, Place, RunError

T = TypeVar("T")


def in_our_words(answer: Callable[[], T], sources: Iterable[Source | Path]) -> T:
    """What ``answer`` gives, or an error of ours, raised after Spark's own has been let go."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import AnalysisException, PySparkException

    problem: ConfideError | OSError
    try:
        return answer()
    except AnalysisException:
        problem = RunError(_not_understood())
    except (PySparkException, Py4JJavaError) as error:
        problem = _failed(str(error), sources)
    except (Py4JError, ConnectionError):
        problem = RunError(gone())
    raise problem


def _failed(message: str, sources: Iterable[Source | Path]) -> ConfideError | OSError:
    if "OutOfMemoryError" in message or "SparkOutOfMemory" in message:
        return RunError(
            Finding(
                code="out-of-memory",
                what="the tabulation does not fit into the memory that Spark was given",
                expected="room for the rows that each process has at hand",
                remedy="raise --memory, or run with fewer --processes",
            )
        )
    return no_room(message) or InputError(unreadable(sources, "Spark"))


def unknown_type(source: Source | Path) -> InputError:
    """A file that DuckDB can read and Spark cannot, such as one with a column of times of day."""
    return InputError(
        Finding(
            code="spark-type",
            what="the file has a column of a type that Spark does not have",
            where=Place(file=source.file if isinstance(source, Source) else source.name),
            found="a Parquet file that Spark cannot open",
            expected="columns of texts and numbers",
            remedy="write the file without that column, or run with --engine local",
        )
    )


def gone() -> Finding:
    """Spark ended while it worked."""
    return Finding(
        code="spark-gone",
        what="Spark ended in the middle of its work",
        found="a connection that is closed",
        expected="a Spark that lives until the run ends",
        remedy="most often memory was used up: run again with more --memory or fewer --processes, and it goes on",
    )


def _not_understood() -> Finding:
    return Finding(
        code="spark-dialect",
        what="Spark does not understand a query of this mechanism",
        found="a query in another dialect, or a column that is not there",
        expected="SQL that both engines understand",
        remedy="run with --engine local; this is a gap in Confide and worth reporting",
    )
