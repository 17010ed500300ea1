"""Record keys: a whole number for each record, drawn once and kept with it for ever.

A cell's key is the sum of its members' keys, modulo the number of keys. It depends on who is in the cell and on nothing
else: not on the order of records, on how they were divided into parts, or on the table in which the cell stands. So the
same members always get the same noise (SPSN), and sums of parts can be merged. Whole numbers, never fractions: a sum of
decimal keys in floating point depends on its order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from confide.noise import NoiseStream, ReleaseKey, derive_stream

Integers = npt.NDArray[np.int64]
_WORD = 64
_CHUNK = 1 << 20


def draw_keys(number: int, keys: int, secret: ReleaseKey | None = None) -> Integers:
    """Independent keys, uniform on ``0 .. keys - 1``: bits that are not below ``keys`` are passed over.

    They are made from the randomness of the operating system; a chosen ``secret`` is for tests.
    """
    stream = derive_stream(
        secret or ReleaseKey.from_system(),
        records_fingerprint=b"record keys",
        plan_hash=b"record keys",
        mechanism="cellkey",
        level="records",
        query="keys",
    )
    return uniform(stream, number, keys)


def uniform(stream: NoiseStream, number: int, below: int) -> Integers:
    """Independent whole numbers, uniform on ``0 .. below - 1``, from the first bits of one extension word each."""
    bits = (below - 1).bit_length()
    drawn: list[Integers] = []
    missing, start = number, 0
    while missing > 0:
        count = min(_CHUNK, 2 * missing + 64)
        words = stream.extension(np.arange(start, start + count, dtype=np.uint64), 0)
        start += count
        values = (words >> np.uint64(_WORD - bits)).astype(np.int64)
        values = values[values < below][:missing]
        drawn.append(values)
        missing -= len(values)
    return np.concatenate(drawn) if drawn else np.zeros(0, np.int64)


def added(sums: Integers, others: Integers, keys: int) -> Integers:
    """Cell keys of the union of disjoint sets of records."""
    total: Integers = (sums + others) % keys
    return total
