"""Record keys: a whole number for each record, drawn once and kept with it for ever.

A cell's key is the sum of its members' keys, modulo the number of keys. It depends on who is in the cell and on nothing
else: not on the order of records, on how they were divided into parts, or on the table in which the cell stands. So the
same members always get the same noise (SPSN), and sums of parts can be merged. Whole numbers, never fractions: a sum of
decimal keys in floating point depends on its order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Engine, Source
from confide.engines.groups import whole_file
from confide.errors import Finding, InputError, Place
from confide.noise import NoiseStream, ReleaseKey, derive_stream

Integers = npt.NDArray[np.int64]
_WORD = 64
_CHUNK = 1 << 20


def draw_keys(number: int, keys: int, secret: ReleaseKey | None = None) -> Integers:
    """Independent keys, uniform on ``0 .. keys - 1``: bits that are not below ``keys`` are passed over.

    Args:
        number: How many.
        keys: How many different keys there are.
        secret: A key that the draws follow from, for tests; None: the randomness of the operating system.

    Returns:
        ``number`` whole numbers.

    >>> drawn = draw_keys(1000, 256)
    >>> len(drawn), bool(((0 <= drawn) & (drawn < 256)).all())
    (1000, True)
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


# Records with keys: a new file with a column more, written once and then kept as the records.


BATCH = 1 << 18


def write_keyed(
    engine: Engine,
    records: Source,
    into: Path,
    *,
    column: str,
    keys: int,
    first: int = 0,
    secret: ReleaseKey | None = None,
) -> int:
    """Writes the records with a key each, as Parquet, for the curator alone.

    Args:
        engine: What reads the records.
        records: The records, without keys.
        into: The new file; there must be none of this name.
        column: What the column of keys is to be called.
        keys: How many different keys there are.
        first: The smallest of them.
        secret: A key that the draws follow from, for tests; None: the randomness of the operating system.

    Returns:
        How many records there are.

    Raises:
        InputError: The records have such a column, or the file is there already.
    """
    if column in engine.kinds(records):
        raise InputError(_found(records, column, "the records have keys already, which must never change"))
    if into.exists():
        raise InputError(_found(records, column, "there is such a file already, and keys in it would be lost"))
    rows = engine.sql("SELECT * FROM records", records=records).reveal("to give each record its key")
    drawn = draw_keys(rows.num_rows, keys, secret) + first
    keyed = rows.append_column(column, pa.array(drawn))
    with whole_file(into, mode=0o600) as temporary:
        pq.write_table(keyed, temporary, compression="zstd", row_group_size=BATCH)
    return int(rows.num_rows)


def _found(records: Source, column: str, what: str) -> Finding:
    return Finding(
        code="keys-there",
        what=what,
        where=Place(file=records.file, column=column),
        found="a file or column of this name",
        expected="keys that are drawn once",
        remedy="use the keys that are there; for other records name another file or column",
    )
