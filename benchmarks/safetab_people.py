"""Made-up people for the benchmark of SafeTab-P: any geography, any code lists, quick and without structure.

Codes follow Zipf's law, the same everywhere and independently of each other. Real people of one origin live near each
other and give few combinations of codes: here more groups are inhabited, and there are more combinations to map, than
in a census of the same size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from confide.mechanisms.safetab.codes import CodeLists

Integers = npt.NDArray[np.int64]
ROWS = 1 << 19
"""Persons made at a time."""

NUMBER_OF_CODES = (0.80, 0.13, 0.04, 0.01, 0.008, 0.006, 0.004, 0.002)
"""How many race codes people give: one to eight."""

NOT_HISPANIC = 0.8
ZIPF = 1.1
IN_A_PLACE = 0.8
SEED = 20200401
RACE_COLUMNS = tuple(f"QRACE{number}" for number in range(1, 9))


@dataclass(frozen=True)
class Size:
    """How large a made-up country is."""

    persons: int
    states: tuple[str, ...]
    counties: int
    tracts: int
    places: int
    aiannh: int
    blocks: int


class Country:
    """Blocks in tracts, counties and states, each with about as many as the others; places and AIANNH areas across."""

    def __init__(self, size: Size, lists: CodeLists):
        self.size = size
        self._rng = np.random.default_rng(SEED)
        block = np.arange(size.blocks)
        tract = block * size.tracts // size.blocks
        county = tract * size.counties // size.tracts
        state = county * len(size.states) // size.counties
        in_place = self._rng.random(size.blocks) < IN_A_PLACE
        place = np.where(in_place, block * size.places // size.blocks, -1)
        in_area = block % 50 == 0
        aiannh = np.where(in_area, block * size.aiannh // size.blocks, -1)
        self.blocks = {
            "TABBLKST": _coded(size.states, state),
            "TABBLKCOU": _numbered(county + 1, 3),
            "TABTRACTCE": _numbered(tract + 1, 6),
            "TABBLK": _numbered(1000 + block - np.searchsorted(tract, tract), 4),
            "PLACEFP": _coded([f"{number + 1:05d}" for number in range(size.places)] + ["99999"], place),
            "AIANNHCE": _coded([f"{number + 1:04d}" for number in range(size.aiannh)] + ["9999"], aiannh),
        }
        weight = self._rng.lognormal(sigma=1.0, size=size.blocks) * (self._rng.random(size.blocks) < 0.7)
        self._until = np.cumsum(self._rng.multinomial(size.persons, weight / weight.sum()))
        self._races, self._origins, self._not_hispanic = _codes(lists, self._rng)

    def persons(self) -> Iterator[pa.RecordBatch]:
        """All persons in the order of blocks; columns of text are dictionaries."""
        for begin in range(0, self.size.persons, ROWS):
            yield self._batch(np.arange(begin, min(begin + ROWS, self.size.persons)))

    def _batch(self, person: Integers) -> pa.RecordBatch:
        rng, count = self._rng, len(person)
        block = pa.array(np.searchsorted(self._until, person, side="right").astype(np.int32))
        columns: dict[str, pa.Array] = {
            "QAGE": pa.array(np.minimum(rng.gamma(2.2, 18.0, count), 115).astype(np.int32)),
            "QSEX": _coded(["1", "2"], rng.integers(0, 2, count)),
            "HOUSEHOLDER": _coded(["False", "True"], rng.random(count) < 0.4),
        }
        columns |= {name: self.blocks[name].take(block) for name in ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")}
        columns["CENRACE"] = _coded([f"{number:02d}" for number in range(1, 64)], rng.integers(0, 63, count))
        codes = rng.choice(len(NUMBER_OF_CODES), count, p=NUMBER_OF_CODES)
        listed = [*self._races, "Null"]
        for place, name in enumerate(RACE_COLUMNS):
            drawn = np.full(count, len(self._races))
            given = codes >= place
            drawn[given] = _zipf(rng, len(self._races), int(given.sum()))
            columns[name] = _coded(listed, drawn)
        origin = np.where(rng.random(count) < NOT_HISPANIC, len(self._origins), _zipf(rng, len(self._origins), count))
        columns["QSPAN"] = _coded([*self._origins, self._not_hispanic], origin)
        return pa.record_batch(columns)


def write_country(size: Size, lists: CodeLists, folder: Path, *, text: bool) -> None:
    """``person-records`` and ``GRF-C``, as text or as Parquet."""
    country = Country(size, lists)
    folder.mkdir(parents=True, exist_ok=True)
    for name, batches in (
        ("GRF-C", iter([pa.record_batch(country.blocks)])),
        ("person-records", country.persons()),
    ):
        if text:
            _write_text(folder / f"{name}.txt", batches)
        else:
            _write_parquet(folder / f"{name}.parquet", batches)


def _write_text(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    options = csv.WriteOptions(delimiter="|", quoting_style="none", quoting_header="none")
    first = _plain(next(batches))
    with csv.CSVWriter(path, first.schema, write_options=options) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(_plain(batch))


def _write_parquet(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    with pq.ParquetWriter(path, first.schema, compression="zstd", store_schema=False) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary.take(column.indices) if isinstance(column, pa.DictionaryArray) else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def _codes(lists: CodeLists, rng: np.random.Generator) -> tuple[list[str], list[str], str]:
    """Race codes and codes of Hispanic origins, each in some order, and the code of no such origin.

    A code is of an origin if it counts in a detailed ethnicity iteration; the last code of the lists is that of none.
    """
    codes = np.array(lists.codes)
    of_origin = lists.groups("ethnicity", 2, large=True) >= 0
    return rng.permutation(codes[:-1]).tolist(), rng.permutation(codes[of_origin]).tolist(), str(codes[-1])


def _zipf(rng: np.random.Generator, ranks: int, count: int) -> Integers:
    until = np.cumsum(np.arange(1, ranks + 1) ** -ZIPF)
    return np.searchsorted(until, rng.random(count) * until[-1], side="right")


def _coded(values: list[str] | tuple[str, ...], numbers: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> pa.Array:
    """A dictionary column; the number -1 is the last value."""
    places = np.where(numbers < 0, len(values) - 1, numbers).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(places), pa.array(values))


def _numbered(numbers: Integers, digits: int) -> pa.Array:
    distinct, places = np.unique(numbers, return_inverse=True)
    return pa.DictionaryArray.from_arrays(
        pa.array(places.astype(np.int32)), pa.array([f"{number:0{digits}d}" for number in distinct.tolist()])
    )
