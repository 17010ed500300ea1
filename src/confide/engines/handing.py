"""Worker processes that hold something large from the start.

What a pool is given as arguments of its initializer is written to a pipe that the parent keeps open at both ends, so
that a worker which dies before it reads leaves the parent waiting for ever. Here workers begin with nothing but a
pipe to read from, one after the other; one that dies breaks the pool, which is noticed.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import Any

from confide.engines.groups import end_with_parent


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
