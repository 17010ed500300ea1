"""A forger's tool: the manifest of a release written again as Confide writes it, after its files were changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import confide
from confide.file_system import sha256_of
from confide.mechanisms import MECHANISMS
from confide.releases.companions.explanations import companions
from confide.releases.folder import MANIFEST, SealedRelease, manifest_text
from confide.releases.tabular import cells_alone


def failed(release: Path, ledger: Path | None = None) -> list[str]:
    """The names of the checks that fail."""
    return [check.name for check in confide.verify(release, ledger=ledger).checks if not check.ok]


def edited(table: pa.Table, column: str, row: int, value: Callable[[Any], Any]) -> pa.Table:
    """The table with one other value."""
    values = table.column(column).to_pylist()
    values[row] = value(values[row])
    field = table.schema.field(column)
    return table.set_column(table.column_names.index(column), field, pa.array(values, field.type))


def restated(release: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the manifest, and gives it the hashes of the files that are there."""
    manifest = json.loads((release / MANIFEST).read_text(encoding="utf-8"))
    change(manifest)
    rehash(release, manifest)


def rehash(release: Path, manifest: dict[str, Any] | None = None) -> None:
    """Writes a manifest, by default the one that is there, with hashes and sizes of the files as they are now."""
    content = manifest or json.loads((release / MANIFEST).read_text(encoding="utf-8"))
    for file in content["files"]:
        path = release / file["path"]
        file |= {"sha256": sha256_of(path), "bytes": path.stat().st_size}
        if "rows" in file and path.with_suffix(".parquet").exists():
            file["rows"] = pq.read_metadata(path.with_suffix(".parquet")).num_rows
    content["files"].sort(key=lambda file: str(file["path"]))
    (release / MANIFEST).write_text(manifest_text(content), encoding="utf-8")


def remake(release: Path, manifest: dict[str, Any] | None = None) -> None:
    """The same, after all that follows from the tables was made anew: files of cells, and what explains the release."""
    content = manifest or json.loads((release / MANIFEST).read_text(encoding="utf-8"))
    for file in (release / "cells").glob("*.parquet"):
        table = pq.read_table(release / "tables" / file.name)
        title = pq.read_schema(file).metadata[b"title"]
        cells = cells_alone(table)
        cells = cells.replace_schema_metadata({**(table.schema.metadata or {}), b"title": title})
        pq.write_table(cells, file, compression="zstd")
        pyarrow.csv.write_csv(cells, file.with_suffix(".csv"), pyarrow.csv.WriteOptions(quoting_style="needed"))
    rehash(release, content)
    codebook = MECHANISMS[content["mechanism"]].explain.codebook(content)
    if codebook is not None:
        for name, text in companions(SealedRelease(release, content), codebook).items():
            (release / name).write_bytes(text)
        rehash(release, content)
