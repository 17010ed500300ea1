"""How a table is laid out for its readers: one row for each level, area, cell and margin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.geography import Geolevel
from confide.mechanisms.tables.programme import NOISE_MARGIN, MeasuredTable, TablesProblem
from confide.releases.plan import Plan
from confide.releases.tabular import COUNT, RowsInOrder, figure_column, plain_schema


class NoisyTable:
    """The columns of one table: geography, variables, count, noise margin.

    Every area has the same rows in the same order, margins first: the labels of one area are made once and repeated.
    """

    def __init__(self, programme: TablesProblem, plan: Plan, table: MeasuredTable):
        self._table = table
        self._margin_level = programme.spec.output.noise_margin
        self._places = [places.astype(np.int32) for places in table.layout.unit_places]
        self._margins = {level.name: _noise_margins(programme, plan, table, level) for level in table.levels}
        figures = [figure_column(COUNT, "count with noise; may be negative")]
        if self._margin_level is not None:
            words = f"the noise is at most this far from zero with probability {self._margin_level}"
            figures.append(figure_column(NOISE_MARGIN, words))
        self.schema = plain_schema(table.layout, *figures)

    def batch(self, level: Geolevel, first: int, counts: np.ndarray[Any, Any]) -> pa.RecordBatch:
        """The rows of the units from ``first`` on."""
        layout, rows = self._table.layout, self._table.rows_per_unit
        units = len(counts) // rows
        columns = [
            pa.DictionaryArray.from_arrays(np.zeros(len(counts), np.int32), pa.array([level.name])),
            pa.DictionaryArray.from_arrays(
                np.repeat(np.arange(units, dtype=np.int32), rows), pa.array(level.codes[first : first + units])
            ),
            *(
                pa.DictionaryArray.from_arrays(np.tile(places, units), pa.array(layout.label_texts(variable)))
                for variable, places in zip(layout.variables, self._places, strict=True)
            ),
            pa.array(counts, pa.int64()),
        ]
        if self._margin_level is not None:
            columns.append(pa.array(np.tile(self._margins[level.name], units), pa.int64()))
        plain = [column.cast(self.schema.field(i).type) for i, column in enumerate(columns)]
        return pa.RecordBatch.from_arrays(plain, schema=self.schema)


def _noise_margins(programme: TablesProblem, plan: Plan, table: MeasuredTable, level: Geolevel) -> np.ndarray[Any, Any]:
    probability = programme.spec.output.noise_margin
    if probability is None:
        return np.empty(0, np.int64)
    margins = [
        plan.measure(level.name, programme.query_key(table, margin)).law.noise_margin(probability)
        for margin in table.margins
    ]
    return np.repeat(np.array(margins, np.int64), [margin.cells for margin in table.margins])


# Released tables, read again from their files a run of rows at a time, whatever their size.


WHOLE_NUMBERS = (COUNT, NOISE_MARGIN)
_BATCH_BYTES = 1 << 24
_BATCH_ROWS = 1 << 17


class NoisyRows:
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
