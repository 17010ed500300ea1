"""Starting Spark quietly and privately, and stopping it.

A process has one Java machine, begun when Spark is first asked for, and one Spark context at a time, shared by the
engines that are open and stopped with the last of them. Spark writes what does not fit into its memory to the scratch
folder of the first of them, encrypted; it keeps no log, shows no progress and opens no page. Where this process is the
whole of Spark (``local[N]``), it listens on the loopback interface alone.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from confide.engines.protocol import Source, no_room, unreadable
from confide.errors import ConfideError, Finding, InputError, ParameterError, Place, RunError
from confide.file_system import private_folder
from confide.version import __version__

LEAST_MEMORY = 512 << 20
"""In bytes: with less, Spark does not start."""

_OF_A_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Only columns of codes and numbers are read; a column of times beside them must not stand in the way.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}
_PRIVATE = (
    ("spark.authenticate",),
    ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"),
    ("spark.io.encryption.enabled",),
)
"""What a cluster must have switched on, one setting of each: who speaks is known, and nobody else can listen."""

_LOCAL = re.compile(r"local(\[[^\]]*\])?")
"""The masters that are this process and no other: ``local``, ``local[4]``; not ``local-cluster[2, 1, 1024]``."""

LOOK_SECONDS = 0.25
_WAITING_TIME = "spark.scheduler.maxRegisteredResourcesWaitingTime"
"""Spark's own setting of how long executors may take to come."""

_NOTHING = logging.CRITICAL + 1
_lock = threading.Lock()
_users = 0
_shared: Any = None


def open_session(scratch: Path, *, processes: int, memory: int, master: str | None = None) -> Any:
    """A session of its own for an engine. Each one that is opened must be closed by :func:`close_session`."""
    global _shared, _users  # there is one Spark context in a process, whoever asks for it
    _check_installed()
    with _lock:
        if _shared is None:
            settings = _settings(private_folder(scratch), processes, memory, master or f"local[{processes}]")
            started = _start(settings)
            try:
                require_private(started.sparkContext)
                _require_workers(started.sparkContext, scratch)
            except BaseException:
                started.stop()
                raise
            _shared = started
        _users += 1
        return own_session(_shared)


def close_session(session: Any) -> None:
    """Gives a session back. With the last one, Spark stops and removes what it wrote."""
    global _shared, _users
    with _lock:
        _users -= 1
        if _users == 0:
            _shared = None
            session.stop()


def own_session(session: Any) -> Any:
    """A session in the same context, with names and settings of its own. A context on an open network is refused."""
    require_private(session.sparkContext)
    _silence()
    own = session.newSession()
    for name, value in _OF_A_SESSION.items():
        own.conf.set(name, value)
    return own


def require_private(context: Any) -> None:
    """Raises unless what the machines of a cluster say to each other is authenticated and encrypted.

    Asked of the context that lives, whoever has set it up: confidential rows travel between its machines, and Spark
    hands them the key with which they encrypt their disks.
    """
    conf = context.getConf()
    master = conf.get("spark.master", "")
    if _LOCAL.fullmatch(master):
        return
    off = [" or ".join(names) for names in _PRIVATE if not any(_is_on(conf.get(name)) for name in names)]
    if off:
        raise ParameterError("spark-open-wire", where=Place(path="--spark-master"), master=master, off=", ".join(off))


def _is_on(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def _require_workers(context: Any, folder: Path) -> None:
    """Raises unless the workers of a cluster run this Confide and see the folder of the run."""
    if _LOCAL.fullmatch(context.master):
        return
    tasks = context.parallelize(range(context.defaultParallelism), context.defaultParallelism)
    work = partial(_unlike_driver, __version__, str(folder))
    unlike = in_our_words(context, lambda: tasks.mapPartitions(work).collect(), [])
    if unlike:
        raise RunError("spark-worker/workers-cluster-set", where=Place(path="--spark-master"), found=unlike[0])


def _unlike_driver(version: str, folder: str, _: Iterable[int]) -> Iterator[str]:
    """On a worker: what is not there as it is on the driver."""
    if version != __version__:
        yield f"Confide {__version__} on a worker, and {version} on the driver"
    if not Path(folder).is_dir():
        yield "a worker that does not see the folder of the run"


def _silence() -> None:
    """Keeps pyspark from writing errors of queries to the error stream, with the values that they quote."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(_NOTHING)
    logging.getLogger("py4j").setLevel(_NOTHING)


def _start(settings: dict[str, str]) -> Any:
    """The first session of a context that lives: one whose master nobody answers for ends at once."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - the only way to ask without beginning one
        raise _busy()
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    context, given_up = None, threading.Event()

    def begin() -> Any:
        nonlocal context
        gateway = _java_machine(conf)
        if given_up.is_set():
            return None
        context = SparkContext(conf=conf, gateway=gateway)
        return SparkSession(context)

    def give_up() -> None:
        """Ends the Java machine, which may be waiting for a master. The next session begins another."""
        given_up.set()
        if SparkContext._gateway is not None:  # noqa: SLF001
            SparkContext._gateway.proc.kill()  # noqa: SLF001
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001

    try:
        return _aside(begin, give_up)
    except (PySparkException, Py4JError, OSError):
        # What Spark says may name files and machines at length; ours is enough to begin with.
        problem = RunError("spark-start", where=Place(path="--spark-master"), master=settings["spark.master"])
    if context is not None:
        context.stop()
    raise problem


def _java_machine(conf: Any) -> Any:
    """The connection to the one Java machine of this process, whose output goes nowhere: it may quote values."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:  # noqa: SLF001
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with _without("SPARK_LOCAL_DIRS"):
            return launch_gateway(conf, popen_kwargs=silent)
    return SparkContext._gateway  # noqa: SLF001


def _settings(scratch: Path, processes: int, memory: int, master: str) -> dict[str, str]:
    """The settings of Spark before it starts."""
    quiet = files("confide") / "data" / "spark" / "log4j2.properties"
    java = f'-Dlog4j2.configurationFile="file:{quiet}" -XX:-UsePerfData'
    heap = f"{max(memory, LEAST_MEMORY) >> 20}m"
    settings = {
        "spark.master": master,
        "spark.app.name": "confide",
        "spark.submit.deployMode": "client",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "false",
        "spark.log.level": "OFF",
        "spark.local.dir": str(scratch),
        "spark.io.encryption.enabled": "true",
        "spark.driver.extraJavaOptions": f'{java} -Djava.io.tmpdir="{_java_folder()}"',
        "spark.executor.extraJavaOptions": java,
        "spark.driver.memory": heap,
        "spark.executor.memory": heap,
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
    }
    if not _LOCAL.fullmatch(master):
        # A peer that does not speak the encrypted protocol is refused, and not answered in plain text.
        settings["spark.network.crypto.saslFallback"] = "false"
    else:
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(processes),
        }
    return settings


@cache
def _java_folder() -> str:
    """A private folder for as long as this process lives, for libraries that Java takes out of its archives."""
    folder = tempfile.mkdtemp(prefix="confide-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _without(name: str) -> Iterator[None]:
    """The environment without a variable that would take the place of a setting."""
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value


def has_spark() -> bool:
    """Whether the engine can be used here: pyspark is installed, and there is a Java to run it."""
    return find_spec("pyspark") is not None and _has_java()


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return (home is not None and (Path(home) / "bin" / "java").exists()) or shutil.which("java") is not None


def _check_installed() -> None:
    # What pyspark has to say about later versions of other packages is no matter of whoever makes a release.
    warnings.filterwarnings("ignore", "PySpark ", FutureWarning)
    if find_spec("pyspark") is None:
        raise ParameterError("no-spark/pyspark", where=Place(path="--engine"))
    if not _has_java():
        raise ParameterError("no-spark/java", where=Place(path="--engine"))


def _busy() -> ParameterError:
    return ParameterError("spark-busy", where=Place(path="--engine"))


# What Spark reports, in our words. Its own may quote a value of the records, so they are never passed on.


T = TypeVar("T")


def in_our_words(
    context: Any, answer: Callable[[], T], sources: Iterable[Source | Path], look: Callable[[str], object] = str
) -> T:
    """What Spark answers, or an error of ours, raised after Spark's own has been let go.

    Spark is asked in a thread, so that this one can look whether anybody works, and can be interrupted.

    Args:
        context: Where the jobs of the answer run.
        answer: Asks Spark.
        sources: What is read, for messages.
        look: Called again and again with the name of the group of jobs, while the answer is waited for.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import AnalysisException, PySparkException

    problem: ConfideError | OSError
    try:
        return _watched(context, answer, look)
    except AnalysisException:
        problem = RunError("spark-dialect/understand-query-mechanism")
    except (PySparkException, Py4JJavaError) as error:
        problem = _failed(str(error), sources)
    except (Py4JError, ConnectionError):
        problem = RunError(gone())
    raise problem


def _watched(context: Any, answer: Callable[[], T], look: Callable[[str], object]) -> T:
    """What ``answer`` gives. A job that no executor of a cluster works on is given up, in the time that Spark has for
    executors to come."""
    group = f"confide-{uuid.uuid4()}"

    def work() -> T:
        context.setJobGroup(group, "confide", interruptOnCancel=True)
        return answer()

    alone = _LOCAL.fullmatch(context.master) is not None
    patience = 0 if alone else context._jsc.sc().conf().getTimeAsSeconds(_WAITING_TIME, "30s")  # noqa: SLF001
    worked = time.monotonic()

    def watch() -> None:
        nonlocal worked
        look(group)
        if alone or not context.statusTracker().getActiveJobsIds() or _executors(context):
            worked = time.monotonic()
        elif time.monotonic() - worked > patience:
            raise RunError(
                "spark-no-executor",
                where=Place(path="--spark-master"),
                seconds=patience,
                memory=context.getConf().get("spark.executor.memory", "1g"),
                waiting_time=_WAITING_TIME,
            )

    return _aside(work, lambda: context.cancelJobGroup(group), watch)


def _aside(work: Callable[[], T], give_up: Callable[[], object], watch: Callable[[], object] | None = None) -> T:
    """What ``work`` gives. Another thread speaks to Java, so that an interruption finds this one between two words.

    Args:
        work: What is done.
        give_up: Ends the work from outside, where ``watch`` raises or somebody interrupts.
        watch: Called again and again while the work is done.
    """
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(work)
        try:
            while wait([running], LOOK_SECONDS).not_done:
                if watch is not None:
                    threads.submit(watch).result()
        except BaseException:
            # What Spark says of such an end is nobody's matter; nor that it has ended already.
            logging.disable()
            try:
                with suppress(Exception):
                    give_up()
                wait([running])
            finally:
                logging.disable(logging.NOTSET)
            raise
        return running.result()


def _executors(context: Any) -> int:
    """How many there are. Spark counts the driver among those that hold memory."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # noqa: SLF001


def _failed(message: str, sources: Iterable[Source | Path]) -> ConfideError | OSError:
    if "OutOfMemoryError" in message or "SparkOutOfMemory" in message:
        return RunError("out-of-memory/spark")
    if "ModuleNotFoundError" in message or "PYTHON_VERSION_MISMATCH" in message or "Cannot run program" in message:
        return RunError("spark-worker/another", where=Place(path="--spark-master"))
    return no_room(message) or InputError(unreadable(sources, "Spark"))


def unknown_type(source: Source | Path) -> InputError:
    """A file that DuckDB can read and Spark cannot, such as one with a column of times of day."""
    return InputError("spark-type", where=Place(file=source.file if isinstance(source, Source) else source.name))


def gone() -> Finding:
    """Spark ended while it worked."""
    return Finding.of("spark-gone")
