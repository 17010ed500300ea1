"""What a process and those it started use, as Linux tells it; zero where the system does not tell."""

from __future__ import annotations

import os
import resource
import threading
from contextlib import suppress
from pathlib import Path


def family(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found += [member for child in task.read_text().split() for member in family(int(child))]
    return found


def memory_of(process: int, measure: str) -> int:
    """Bytes in memory: ``Rss`` counts pages shared by several processes in each, ``Pss`` once among all of them."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{measure}:"))
    return 0


def processor_time() -> float:
    """Of this process, of workers that have ended, and of those that live."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used) + sum(map(_time_of, family(os.getpid())[1:]))


def _time_of(process: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Memory(threading.Thread):
    """Looks at the memory of a process and of all below it together, again and again."""

    def __init__(self, process: int | None = None, *, measure: str = "Pss", seconds: float = 1.0) -> None:
        super().__init__(daemon=True)
        self.largest = 0
        self._process = os.getpid() if process is None else process
        self._measure, self._seconds = measure, seconds
        self._done = threading.Event()

    def run(self) -> None:
        """Looks until :meth:`stop`."""
        while not self._done.wait(self._seconds):
            now = sum(memory_of(process, self._measure) for process in family(self._process))
            self.largest = max(self.largest, now)

    def stop(self) -> int:
        """The largest sum, in bytes."""
        self._done.set()
        self.join()
        return self.largest
