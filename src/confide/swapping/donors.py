"""The best donor for a household: unused, with the same key, inside a wide area and outside a narrow one.

Households are sorted once by group (key and wide area), narrow area and rank. The households of a group in one narrow
area are a queue; the queues of a group are a heap by their first household. A donor is the first of the best queue
that is not in the household's own area, so that at most one queue is set aside for a moment: a search takes a few steps
of the heap, however many households there are. Households that were used meanwhile are passed over when they come up.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
NOBODY = -1


class Donors:
    """Donors of one profile: ``group`` has its key with the wide area, ``area`` the narrow one, least ``rank`` first.

    ``used`` is shared with whoever swaps and says, at any time, which households are gone.
    """

    def __init__(self, group: Integers, area: Integers, rank: Floats, used: bytearray):
        order = np.lexsort((rank, area, group))
        begins = np.flatnonzero(np.diff(group[order], prepend=-1) | np.diff(area[order], prepend=-1))
        self._group, self._area, self._rank, self._used = group, area, rank, used
        self._order = order
        self._next = begins.copy()
        self._end = np.append(begins[1:], len(order))
        heads = group[order[begins]]
        self._first_queue = np.searchsorted(heads, np.arange(int(group.max(initial=-1)) + 2))
        self._heaps: dict[int, list[tuple[float, int]]] = {}

    def best(self, household: int) -> int:
        """The donor for a household, or ``NOBODY``. It is not marked as used."""
        heap = self._heap(int(self._group[household]))
        own = self._area[household]
        aside: tuple[float, int] | None = None
        found = NOBODY
        while heap:
            rank, queue = heap[0]
            head = self._head(queue)
            if head == NOBODY:
                heappop(heap)
            elif self._rank[head] != rank:
                heapreplace(heap, (float(self._rank[head]), queue))
            elif self._area[head] == own:
                aside = heappop(heap)
            else:
                found = head
                break
        if aside is not None:
            heappush(heap, aside)
        return found

    def _heap(self, group: int) -> list[tuple[float, int]]:
        if group not in self._heaps:
            queues = range(self._first_queue[group], self._first_queue[group + 1])
            heads = self._order[self._next[queues.start : queues.stop]]
            heap = list(zip(self._rank[heads].tolist(), queues, strict=True))
            heapify(heap)
            self._heaps[group] = heap
        return self._heaps[group]

    def _head(self, queue: int) -> int:
        """The first household of a queue that is not used."""
        place, end = int(self._next[queue]), int(self._end[queue])
        while place < end and self._used[self._order[place]]:
            place += 1
        self._next[queue] = place
        return int(self._order[place]) if place < end else NOBODY
