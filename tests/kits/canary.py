"""The canary scan: distinctive values planted in records, and a search of everything that is not the records."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import pickle
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

TEXT = "Zaunkönig-7f3a"
NUMBER = 731_937_193_731
BLOCK = "77319-7f3c"
CANARIES = (TEXT, NUMBER, BLOCK)

WATCHED: set[str] = set()
_watching = False


def spellings(canary: str | int) -> list[bytes]:
    """How a value may look when it leaks: plain, grouped, escaped, in another encoding or in hexadecimal."""
    if isinstance(canary, int):
        texts = [str(canary), f"{canary:,}", f"{canary:_}", f"{canary}.0"]
        return [text.encode() for text in texts] + [canary.to_bytes(8, "little"), canary.to_bytes(8, "big")]
    texts = [canary, repr(canary)[1:-1], ascii(canary)[1:-1], canary.upper(), canary.lower()]
    encoded = [text.encode() for text in texts] + [canary.encode("utf-16-le"), canary.encode("latin-1")]
    return [*encoded, canary.encode().hex().encode()]


def leaks(text: str | bytes, canaries: Iterable[str | int] = CANARIES) -> list[str | int]:
    """The canaries that a text shows, however it spells them."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return [canary for canary in canaries if any(spelling in data for spelling in spellings(canary))]


def names_of(folder: Path) -> str:
    return "\n".join(str(path.relative_to(folder)) for path in folder.rglob("*"))


def public_content(folder: Path) -> Iterator[tuple[str, str | bytes]]:
    """Everything in the files of a folder: bytes as they are, and what is compressed taken out of it."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        data = path.read_bytes()
        yield path.name, data
        if path.suffix == ".parquet":
            yield from parquet_content(path.name, data)
        elif path.suffix == ".gz":
            yield path.name, gzip.decompress(data)
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield from ((f"{path.name} {name}", archive.read(name)) for name in archive.namelist())


def parquet_content(name: str, data: bytes) -> Iterator[tuple[str, str]]:
    """What a Parquet file says: its columns, its dictionaries with values that no row has, and its statistics."""
    file = pq.ParquetFile(io.BytesIO(data))
    yield name, f"{file.metadata} {file.schema} {file.schema_arrow.metadata}"
    texts = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
    table = pq.ParquetFile(io.BytesIO(data), read_dictionary=texts).read()
    for column_name, column in zip(table.column_names, table.columns, strict=True):
        dictionaries = [chunk.dictionary.to_pylist() for chunk in column.chunks if hasattr(chunk, "dictionary")]
        yield f"{name} {column_name}", "\n".join(str(value) for value in [*column.to_pylist(), *dictionaries])
    for group in range(file.metadata.num_row_groups):
        for column in range(file.metadata.num_columns):
            yield f"{name} statistics", str(file.metadata.row_group(group).column(column).statistics)


def tables_in(value: Any, depth: int = 4) -> Iterator[pa.Table]:
    """The Arrow tables in an answer of the library."""
    if isinstance(value, pa.Table):
        yield value
    elif depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            yield from tables_in(getattr(value, part.name), depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tables_in(item, depth - 1)


def carried_away(answer: Any) -> Iterator[tuple[str, str | bytes]]:
    """Every form in which an answer can leave: memory, pickle, the files of Arrow, Parquet, CSV, JSON, HTML, text."""
    yield "pickle", pickle.dumps(answer)
    yield "text", reprs(answer)
    if hasattr(answer, "as_dict"):
        yield "JSON", json.dumps(answer.as_dict(), default=str)
    if hasattr(answer, "_repr_html_"):
        yield "HTML", answer._repr_html_()
    for table in tables_in(answer):
        for name, column in zip(table.column_names, table.columns, strict=True):
            for buffer in (buffer for chunk in column.chunks for buffer in buffers_of(chunk)):
                yield f"memory of {name}", buffer
        for form, compression in (("feather", "uncompressed"), ("parquet", "none")):
            target = io.BytesIO()
            if form == "feather":
                pyarrow.feather.write_feather(table, target, compression=compression)
            else:
                pq.write_table(table, target, compression=compression)
                yield from parquet_content("parquet", target.getvalue())
            yield form, target.getvalue()
        target = io.BytesIO()
        pyarrow.csv.write_csv(table, target)
        yield "csv", target.getvalue()


def buffers_of(array: pa.Array) -> Iterator[bytes]:
    """All memory of an array, that of its dictionary too."""
    yield from (buffer.to_pybytes() for buffer in array.buffers() if buffer is not None)
    if pa.types.is_dictionary(array.type):
        yield from buffers_of(array.dictionary)


def residues(table: pa.Table | pa.RecordBatch) -> list[str]:
    """What the memory of a table has beyond its rows: numbers below nulls, and values of a dictionary that no row
    has. Slices of a table are not looked beyond: rows on their way into a file are cut in parts."""
    problems = []
    for name, column in zip(table.schema.names, table.columns, strict=True):
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            problems += [f"{name}: {problem}" for problem in _residues_of(chunk)]
    return problems


def _residues_of(array: pa.Array) -> Iterator[str]:
    if pa.types.is_dictionary(array.type):
        if array.null_count < len(array) and len(array.indices.unique().drop_null()) < len(array.dictionary):
            yield "a value of the dictionary that no row has"
    elif array.null_count and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        width = array.type.bit_width // 8
        memory = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, width)[array.offset :][: len(array)]
        if memory[array.is_null().to_numpy(zero_copy_only=False)].any():
            yield "a number below a null"
    elif pa.types.is_list(array.type):
        yield from _residues_of(array.flatten())


def chain(error: BaseException) -> str:
    """An error with every error behind it, also those that are kept from being printed."""
    found: list[str] = []
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            found += [str(one), repr(one), repr(one.args), repr(vars(one))]
            found += getattr(one, "__notes__", [])
            waiting += [one.__cause__, one.__context__]
    return "\n".join(found)


def reprs(value: Any, depth: int = 4) -> str:
    """What an object says of itself, and the objects in it."""
    found = [repr(value), str(value)]
    if depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        found += [reprs(getattr(value, part.name), depth - 1) for part in dataclasses.fields(value)]
    elif depth and isinstance(value, list | tuple):
        found += [reprs(part, depth - 1) for part in value[:50]]
    elif depth and hasattr(value, "__dict__"):
        found += [reprs(part, depth - 1) for part in vars(value).values()]
    return "\n".join(found)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in {"open", "os.mkdir", "os.rename", "os.link", "os.symlink", "tempfile.mkdtemp"}:
        WATCHED.update(str(argument) for argument in arguments[:2])


sys.addaudithook(_audit)


@contextmanager
def watched_files() -> Iterator[set[str]]:
    """The names of all files that this process opens, makes or renames meanwhile."""
    global _watching
    WATCHED.clear()
    _watching = True
    try:
        yield WATCHED
    finally:
        _watching = False


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of our own for everything temporary, to look into."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
        yield Path(folder)
