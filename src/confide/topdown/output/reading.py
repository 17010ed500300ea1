"""Released tables read again from their files, some rows at a time, in every format at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.runs.rows import RowsInOrder

_BATCH_BYTES = 1 << 24
_BATCH_ROWS = 1 << 16


class Rows:
    """The rows of one file in order, in the columns and types that it should have."""

    def __init__(self, path: Path, schema: pa.Schema):
        self.schema = pa.schema([pa.field(field.name, field.type) for field in schema])
        self.fits = True
        self._rows = RowsInOrder(self._open(path), self.schema.empty_table())

    def take(self, rows: int) -> pa.Table:
        """The next ``rows`` rows, or as many as are left."""
        return self._rows.take(rows)

    def _open(self, path: Path) -> Iterator[pa.Table]:
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            plain = pa.schema([pa.field(field.name, field.type) for field in file.schema_arrow])
            self.fits = plain.equals(self.schema)
            return (pa.table(batch).cast(plain) for batch in file.iter_batches(_BATCH_ROWS)) if self.fits else iter(())
        types: dict[str, Any] = {field.name: field.type for field in self.schema}
        self.fits = pyarrow.csv.open_csv(path).schema.names == self.schema.names
        reader = pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(block_size=_BATCH_BYTES),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
        return (pa.table(batch) for batch in reader) if self.fits else iter(())


@dataclass
class Copies:
    """The files of one table, one for each format, read together and compared as they are read."""

    files: tuple[Rows, ...]
    formats: str
    same: bool = True

    @classmethod
    def open(cls, folder: Path, manifest: dict[str, Any], name: str, schema: pa.Schema) -> Copies:
        """The files that the manifest lists for a table."""
        paths = [folder / file["path"] for file in manifest["files"] if file["path"].startswith(f"tables/{name}.")]
        paths.sort(key=lambda path: path.suffix != ".parquet")
        return cls(tuple(Rows(path, schema) for path in paths), ", ".join(path.suffix[1:] for path in paths))

    @property
    def there(self) -> bool:
        """Whether there is a file, and every file has the columns that it should have."""
        return bool(self.files) and all(file.fits for file in self.files)

    def take(self, rows: int) -> pa.Table:
        """The next rows of the first file. The others are read along."""
        first, *others = (file.take(rows) for file in self.files)
        self.same = self.same and all(other.equals(first) for other in others)
        return first

    def batches(self, rows: int) -> Iterator[pa.Table]:
        """All rows that are left."""
        while (taken := self.take(rows)).num_rows:
            yield taken

    def at_end(self) -> bool:
        """Whether no file has a row left."""
        return not any(file.take(1).num_rows for file in self.files)
