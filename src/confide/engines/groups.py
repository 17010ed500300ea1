"""Mapping a pure function over groups of rows, in this process or in a pool of processes."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from confide.engines.protocol import Advance, GroupFunction
from confide.errors import RunError
from confide.file_system import flush as flush

ORPHAN_CHECK_SECONDS = 0.5
MAPPED = "mapped-function-"
"""How the name of a file begins that holds a function to be mapped, and so keys of the noise that it draws."""


class Workers:
    """A pool of processes, begun when first asked for and kept: to begin one costs seconds, and a run maps often.

    While they begin, whoever asks can work: :meth:`begun` says when the first of them is ready.
    """

    def __init__(self, processes: int):
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._begun: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pool(self) -> ProcessPoolExecutor:
        """The pool, of processes that are spawned, not forked: a fork would copy the threads' locks of DuckDB and Arrow
        in whatever state they are."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.processes, context, initializer=end_with_parent, initargs=(os.getpid(),)
            )
        return self._pool

    def begun(self, function: GroupFunction) -> Future[None]:
        """Begins the processes where none have begun. Done when one of them has imported what the function needs.

        All begin here, as a pool begins one for each task while it has too few: one that begins while the pool finds
        out that another has died would be waited for without end.
        """
        if self._begun is None:
            self._begun, *_ = [self.pool().submit(_imported, function) for _ in range(self.processes)]
        return self._begun

    def close(self) -> None:
        """Ends the processes, after what each has at hand. Asked again, a new pool is begun."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = self._begun = None


def _imported(function: GroupFunction) -> None:
    """Nothing: a function that has come to a worker is imported there."""


def files_of_groups(groups: Sequence[int], into: Path) -> tuple[list[Path], list[tuple[int, Path]]]:
    """The file of every group in a private folder, and those of them that are still to be made, with their groups."""
    private_folder(into)
    files = [into / f"{group:08d}.parquet" for group in groups]
    return files, [(group, file) for group, file in zip(groups, files, strict=True) if not file.exists()]


def map_groups(
    function: GroupFunction,
    rows: Path,
    key: str,
    groups: Sequence[int],
    into: Path,
    *,
    workers: Workers,
    advance: Advance | None = None,
) -> list[Path]:
    """See :meth:`confide.engines.protocol.Engine.map_groups`."""
    files, missing = files_of_groups(groups, into)
    report = advance or (lambda _: None)
    report(len(groups) - len(missing))
    alone = workers.processes == 1 or len(missing) <= 1
    try:
        # This process works as well until the first of the others is ready: to begin them takes some seconds.
        begun = None if alone else workers.begun(function)
        while missing and (begun is None or not begun.done()):
            _map_one(function, rows, key, *missing.pop(0))
            report(1)
        if begun is not None and missing:
            begun.result()
            pool = workers.pool()
            for task in as_completed([pool.submit(_map_one, function, rows, key, *each) for each in missing]):
                task.result()
                report(1)
    except BrokenProcessPool:
        workers.close()
        raise worker_died() from None
    except BaseException:
        workers.close()
        raise
    return files


def worker_died() -> RunError:
    return RunError(
        "worker-died",
        "another program stopped one of the worker processes",
        found="a process that stopped",
        expected="worker processes that finish their part",
        remedy="usually the memory was full: run again with fewer --processes, and the run continues; in a Python "
        'script, call Confide under `if __name__ == "__main__":`, because worker processes import the script',
    )


def _map_one(function: GroupFunction, rows: Path, key: str, group: int, file: Path) -> None:
    table = pq.read_table(rows, filters=[(key, "=", group)], use_threads=False)
    # Threads of a linear algebra library add up in another order, and so to other last digits.
    with threadpool_limits(1):
        result = function(group, table)
    write_parquet(result, file)


def write_parquet(table: pa.Table, file: Path, *, mode: int = 0o600) -> None:
    """A Parquet file whose bytes depend on the table alone."""
    with whole_file(file, mode=mode) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_statistics=True, row_group_size=1 << 20)


def end_with_parent(parent: int) -> None:
    """A worker whose parent was killed has nobody to work for; without this it would wait for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(ORPHAN_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# Worker processes that hold something large from the start.
#
# What a pool is given as arguments of its initializer is written to a pipe that the parent keeps open at both ends,
# so that a worker which dies before it reads leaves the parent waiting for ever. Here workers begin with nothing but
# a pipe to read from, one after the other; one that dies breaks the pool, which is noticed.


@contextmanager
def workers_with(large: Any, processes: int, hold: Callable[[Any], None]) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, in each of which ``hold`` was called with ``large``. Both can be pickled.

    Raises nothing of its own: a worker that dies makes the tasks of the pool raise ``BrokenProcessPool``.
    """
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    arguments = (os.getpid(), reader, context.Lock(), hold)
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=arguments)
    sender = Thread(target=_send, args=(writer, large, processes), daemon=True)
    sender.start()
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        reader.close()  # with the workers gone, the sender has nobody to wait for
        sender.join()
        writer.close()


def _send(writer: Any, large: Any, times: int) -> None:
    try:
        for _ in range(times):
            writer.send(large)
    except BrokenPipeError:
        return  # nobody is left who could read: the pool says why


def _begin(parent: int, reader: Any, one_at_a_time: Any, hold: Callable[[Any], None]) -> None:
    end_with_parent(parent)
    with one_at_a_time:
        large = reader.recv()
    hold(large)


# Files that are there whole or not at all.
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> Path:
    """A folder that only its owner can open, made if it is not there, with every folder made on the way."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folder.chmod(PRIVATE_FOLDER)  # also what an odd umask took away
    path.chmod(PRIVATE_FOLDER)
    return path


PRIVATE_UMASK = 0o077
_umask_lock = threading.Lock()
_umask_before: list[int] = []
"""The umask that somebody else had set, once for each who works in private at this moment."""


@contextmanager
def private_umask() -> Iterator[None]:
    """Inside, files and folders are made for their owner alone, by whatever library, whatever umask was set before.

    A umask belongs to the whole process: other threads make private files too until the last one leaves.
    """
    with _umask_lock:
        before = os.umask(PRIVATE_UMASK)
        _umask_before.append(_umask_before[0] if _umask_before else before)
    try:
        yield
    finally:
        with _umask_lock:
            before = _umask_before.pop()
            if not _umask_before:
                os.umask(before)


@contextmanager
def whole_file(path: Path, *, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """A temporary path to write to; it takes the name ``path`` only when the block ends well and is on the disk."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    temporary.touch(mode=mode)
    try:
        temporary.chmod(mode)
        yield temporary
        temporary.chmod(mode)
        flush(temporary)
        temporary.replace(path)
        flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """A text file, whole or not at all."""
    with whole_file(path, mode=mode) as temporary:
        # One form of the end of a line on every system: bytes are hashed and compared.
        temporary.write_text(text, encoding="utf-8", newline="\n")
