"""Workers that hold something large: all of them have it, and one that dies is noticed."""

from __future__ import annotations

import os
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker

import pytest

from confide.engines.protocol import deaths_said, workers_with

SIZE = 1 << 21
_held: list[bytes] = []


def hold(large: bytes) -> None:
    _held.append(large)


def fall(_: bytes) -> None:
    os._exit(1)


def held(_: int) -> tuple[int, int]:
    return os.getpid(), len(_held[0])


def test_every_worker_holds_it() -> None:
    with workers_with(bytes(SIZE), 2, hold) as pool:
        found = list(pool.map(held, range(20)))
    assert {size for _, size in found} == {SIZE}
    assert os.getpid() not in {process for process, _ in found}


# The pool's own thread may count processes while another one is started, and says so in its own way.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.process
def test_a_worker_that_cannot_begin_breaks_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    resource_tracker.ensure_running()  # of all pools of this process: it has to begin
    monkeypatch.setenv("PYTHONHOME", "/nowhere")  # the interpreter ends before it reads anything
    with pytest.raises(BrokenProcessPool), workers_with(bytes(SIZE), 2, hold) as pool:
        list(pool.map(held, range(4)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.process
def test_a_worker_that_dies_while_it_takes_hold_breaks_the_pool() -> None:
    with pytest.raises(BrokenProcessPool), workers_with(bytes(SIZE), 2, fall) as pool:
        list(pool.map(held, range(4)))


class Dead:
    """A pool that has found out that a worker is dead."""

    def submit(self, *_: object) -> None:
        raise BrokenProcessPool


class Alive:
    def submit(self, *_: object) -> None:
        """Takes the task."""


@pytest.mark.parametrize("error", [OSError("handle is closed"), ValueError("bad value(s) in fds_to_keep")])
@pytest.mark.parametrize("pool", [Dead(), Alive()])
def test_closed_pipes_of_a_broken_pool_are_a_death_and_all_others_an_error(
    pool: Dead | Alive, error: Exception
) -> None:
    raised = BrokenProcessPool if isinstance(pool, Dead) else type(error)
    with pytest.raises(raised), deaths_said(pool):  # type: ignore[arg-type]
        raise error
