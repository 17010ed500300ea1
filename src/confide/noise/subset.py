"""Uniform subsets of a given size, and the numbers of groups that are known by their rank among the empty ones.

A sequence of exact uniform integers below ``n`` is read until ``k`` different ones have occurred; these are the subset.
Renaming the integers does not change the law of the sequence, hence all subsets of size ``k`` are equally likely.
Of a subset with more than half of the integers, the complement is drawn.

A uniform integer is the first ``b`` bits of a coordinate's extension word 0, ``b`` the length of ``n - 1``; those that
are not below ``n`` are passed over, never reduced by a remainder.

Derivation: ``docs/proofs/noise.md``, section 8.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from confide.errors import CONFIDENTIAL, Finding, ParameterError
from confide.noise.stream import WordSource

Integers = npt.NDArray[np.int64]

_WORD = 64
_CHUNK = 1 << 22
_LARGEST = 1 << 62


def draw_subset(universe: int, size: int, source: WordSource, start: int) -> Integers:
    """``size`` different numbers of ``0 .. universe - 1`` in ascending order, from the coordinates from ``start`` on.

    Fewer than three coordinates are read, on average, for each number drawn.
    """
    if not 0 <= size <= universe <= _LARGEST:
        raise ParameterError(
            Finding(
                code="bad-subset",
                what="there is no subset of this size",
                found=CONFIDENTIAL,
                expected="a size between zero and the number of elements, which is at most 2**62",
                remedy="check how the counts were made",
            )
        )
    if 2 * size <= universe:
        return np.sort(_first_distinct(universe, size, source, start))
    kept = np.ones(universe, np.bool_)
    kept[_first_distinct(universe, universe - size, source, start)] = False
    return np.flatnonzero(kept).astype(np.int64, copy=False)


def _first_distinct(universe: int, size: int, source: WordSource, start: int) -> Integers:
    """The first ``size`` different integers of the sequence, in the order of their first occurrence.

    How many coordinates are read at a time does not matter: it is the same sequence.
    """
    bits = (universe - 1).bit_length() if universe else 0
    found = np.empty(0, np.int64)
    while len(found) < size:
        missing = size - len(found)
        count = min(_CHUNK, ((missing << bits) // (universe - len(found))) * 9 // 8 + 64)
        words = source.extension(np.arange(start, start + count, dtype=np.uint64), 0)
        start += count
        integers = (words >> np.uint64(_WORD - bits)).astype(np.int64)
        sequence = np.concatenate([found, integers[integers < universe]])
        _, occurrences = np.unique(sequence, return_index=True)
        found = sequence[np.sort(occurrences)[:size]]
    return found


def rank_to_place(ranks: Integers, occupied: Integers, universe: int) -> Integers:
    """The numbers of the groups that have these ranks among the empty ones.

    ``occupied`` are the other groups of ``0 .. universe - 1``, ascending. Before the ``j``-th of them are
    ``occupied[j] - j`` empty ones, so the empty group of rank ``r`` has the number ``r`` plus how many of these are at
    most ``r``.

    >>> rank_to_place(np.array([0, 1, 2]), np.array([0, 2]), 5)
    array([1, 3, 4])
    """
    inside = not len(occupied) or (int(occupied[0]) >= 0 and int(occupied[-1]) < universe)
    if not inside or bool((np.diff(occupied) <= 0).any()):
        raise _bad_numbers("the occupied groups are not different numbers in ascending order within the universe")
    if len(ranks) and (int(ranks.min()) < 0 or int(ranks.max()) >= universe - len(occupied)):
        raise _bad_numbers("a rank is not that of an empty group")
    before = occupied - np.arange(len(occupied), dtype=np.int64)
    return ranks + np.searchsorted(before, ranks, side="right")


def _bad_numbers(what: str) -> ParameterError:
    return ParameterError(
        Finding(
            code="bad-group-numbers",
            what=what,
            found=CONFIDENTIAL,
            expected="occupied groups ascending, and ranks below the number of empty groups",
            remedy="sort the occupied groups and remove repeats",
        )
    )
