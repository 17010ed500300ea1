"""Rows of a released file in order, taken by number and not by the batches they come in."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


class RowsInOrder:
    """Takes rows from an iterator of tables; ``empty`` is a table without rows, for when there is none."""

    def __init__(self, batches: Iterator[pa.Table], empty: pa.Table):
        self._batches = batches
        self._empty = empty
        self._held: list[pa.Table] = []
        self._rows = 0

    def take(self, rows: int) -> pa.Table:
        """The next ``rows`` rows, or as many as are left."""
        while self._rows < rows:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._held.append(batch)
            self._rows += batch.num_rows
        whole = pa.concat_tables(self._held) if self._held else self._empty
        taken, rest = whole.slice(0, rows), whole.slice(rows)
        self._held, self._rows = [rest], rest.num_rows
        return taken.combine_chunks()
