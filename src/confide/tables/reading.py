"""Released tables, read again from their files a run of rows at a time, whatever their size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.runs.rows import RowsInOrder

WHOLE_NUMBERS = ("count", "noise_margin")
_BATCH_BYTES = 1 << 24
_BATCH_ROWS = 1 << 17


class Rows:
    """The rows of a released table in order. Text columns come as text, counts as 64-bit integers."""

    def __init__(self, path: Path):
        self.path = path
        self.names, batches = _open(path)
        self._rows = RowsInOrder(batches, pa.table({name: [] for name in self.names}))

    def take(self, rows: int) -> pa.Table:
        """The next ``rows`` rows, or as many as are left."""
        return self._rows.take(rows)


def _open(path: Path) -> tuple[list[str], Iterator[pa.Table]]:
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        plain = pa.schema([pa.field(field.name, field.type) for field in file.schema_arrow])
        return plain.names, (pa.table(batch).cast(plain) for batch in file.iter_batches(_BATCH_ROWS))
    return _open_csv(path)


def _open_csv(path: Path) -> tuple[list[str], Iterator[pa.Table]]:
    header: list[str] = pyarrow.csv.open_csv(path).schema.names
    types: dict[str, Any] = {name: pa.int64() if name in WHOLE_NUMBERS else pa.string() for name in header}
    reader = pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=_BATCH_BYTES),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )
    return header, (pa.table(batch) for batch in reader)
