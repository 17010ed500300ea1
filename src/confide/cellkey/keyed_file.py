"""Records with keys: a new file with a column more, written once and then kept as the records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from confide.cellkey.keys import draw_keys
from confide.engines import Engine, Source
from confide.engines.files import whole_file
from confide.errors import Finding, InputError, Place
from confide.noise import ReleaseKey

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
    """Writes the records with a key each, as Parquet, for the curator alone. Returns how many there are.

    There are ``keys`` different keys, the smallest of them ``first``.
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
