"""Measurements read back, checked and put in order: one row for each unit and query.

Files of ours have the exact parameter of the noise, and the weight of a measurement is then the very number that the
release was estimated with. Public files have a variance of 32 bits, and the weight is one over that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.engines.files import private_folder, whole_file
from confide.errors import ConfideError, Finding, InputError, Place
from confide.noise import DiscreteGaussian
from confide.schema import Schema
from confide.topdown.measurements.folder import MeasurementFolder, UnitsOfLevel
from confide.topdown.measurements.layout import DP_QUERY, QueryLayout, level_folder, plain, query_layout
from confide.topdown.measuring import spread
from confide.topdown.strategies.strategy import DETAILED, LevelStrategy

ROWS_AT_ONCE = 1 << 13
SIGMA2, VARIANCE = "sigma2", "variance"
READ = pa.schema([("unit", pa.int64()), ("query", pa.int64()), ("n", pa.int64()), ("value", pa.list_(pa.int64()))])
"""Unit, number of the query on its level, the bits of the variance that weights it, and the measured counts."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LevelReader:
    """The measurements of one level, as the strategy asks for them."""

    folder: MeasurementFolder
    units: UnitsOfLevel
    layouts: tuple[QueryLayout, ...]
    numbers: Mapping[str, int]
    """From a name in the file to the number of the query; names that the strategy does not measure are not here."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Queries of the file that the strategy does not measure on this level."""
        return tuple(sorted(_names(self.folder, self.units.name) - set(self.numbers)))

    def check(self) -> list[Finding]:
        """What is wrong with the measurements of the level; the first problem of them."""
        try:
            for _ in self._complete():
                pass
        except InputError as error:
            return list(error.findings)
        return []

    def write(self, into: Path) -> None:
        """Everything that is asked for, into one file."""
        private_folder(into.parent)
        with whole_file(into) as temporary, pq.ParquetWriter(temporary, READ, compression="zstd") as writer:
            for batch in self._complete():
                writer.write_batch(batch)

    def _complete(self) -> Iterator[pa.RecordBatch]:
        """The rows; raises unless every measured unit has every query once."""
        seen = np.zeros((len(self.units.ids), len(self.layouts)), np.int64)
        for batch in self._rows():
            np.add.at(seen, (batch.column("unit").to_numpy(), batch.column("query").to_numpy()), 1)
            yield batch
        wrong = seen != self.units.measured[:, None]
        if wrong.any():
            unit, query = (int(place[0]) for place in np.nonzero(wrong))
            times = (
                f"{self.layouts[query].query_name!r} {int(seen[unit, query])} times for {str(self.units.ids[unit])!r}"
            )
            what = f"{int(wrong.sum()):,} measurements are missing or there twice"
            raise InputError(_finding(self.units.name, what, times, "every query once in every measured unit"))

    def _rows(self) -> Iterator[pa.RecordBatch]:
        ids, names = pa.array(self.units.ids), pa.array(list(self.numbers))
        order = np.array(list(self.numbers.values()))
        exact = self._has_sigma2()
        noise = _Noise(exact)
        columns = ["geocode", "query_name", "query_shape", "value", SIGMA2 if exact else VARIANCE]
        for file, batch in self.folder.batches(self.units.name, DP_QUERY, columns, ROWS_AT_ONCE):
            table = pa.table(batch)
            table = table.filter(pc.is_in(table.column("query_name"), value_set=names)).combine_chunks()
            if not table.num_rows:
                continue
            unit = pc.index_in(table.column("geocode"), value_set=ids).to_numpy().astype(np.int64)
            query = order[pc.index_in(table.column("query_name"), value_set=names).to_numpy()]
            weights = noise.bits(table.column(columns[-1]), self.units.name, file)
            for number in np.unique(query).tolist():
                rows = np.flatnonzero(query == number)
                values = self._values(table.take(pa.array(rows)), self.layouts[number], file)
                offsets = pa.array(np.arange(len(rows) + 1) * values.shape[1], pa.int32())
                listed = pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))
                yield pa.record_batch(
                    [pa.array(unit[rows]), pa.array(query[rows]), pa.array(weights[rows]), listed], schema=READ
                )

    def _has_sigma2(self) -> bool:
        return all(SIGMA2 in pq.read_schema(file).names for file in self.folder.files[self.units.name][DP_QUERY])

    def _values(self, table: pa.Table, layout: QueryLayout, file: Path) -> Integers:
        """The counts of some rows of one query, in the query's own order: rows x cells."""
        listed, shapes = table.column("value").combine_chunks(), table.column("query_shape").combine_chunks()
        for shape in _distinct(shapes):
            if prod(shape) != layout.cells or _sizes(shape) != _sizes(layout.shape):
                what = f"the measurement {layout.query_name!r} has another shape"
                raise InputError(_finding(self.units.name, what, str(list(shape)), str(list(layout.shape)), file))
        try:
            values = listed.flatten().cast(pa.int64())
        except pa.ArrowInvalid:
            values = None
        fits = values is not None and not values.null_count and not listed.null_count
        if not fits or not (pc.list_value_length(listed).to_numpy() == layout.cells).all():
            what = f"the values of {layout.query_name!r} are not {layout.cells:,} whole numbers in every unit"
            raise InputError(_finding(self.units.name, what, "others", f"{layout.cells:,} whole numbers", file))
        assert values is not None
        result = np.empty((len(listed), layout.cells), np.int64)
        result[:, layout.order] = values.to_numpy().reshape(len(listed), layout.cells)
        return result


class _Noise:
    """What measurements are weighted by, as the bits of a float: the same bits as in the release they come from."""

    def __init__(self, exact: bool):
        self._exact = exact
        self._known: dict[Any, int] = {}

    def bits(self, column: pa.ChunkedArray, level: str, file: Path) -> Integers:
        """For each row the bits of its variance."""
        coded = column.combine_chunks().dictionary_encode()
        table = np.array([self._one(value, level, file) for value in coded.dictionary.to_pylist()], np.int64)
        if coded.null_count:
            raise InputError(_bad_noise(level, "nothing", file))
        result: Integers = table[coded.indices.to_numpy()]
        return result

    def _one(self, value: Any, level: str, file: Path) -> int:
        if value not in self._known:
            try:
                variance = spread(DiscreteGaussian(value)) if self._exact else float(value)
            except (ConfideError, ValueError):
                variance = 0.0
            if not 0 < variance < np.inf:
                raise InputError(_bad_noise(level, repr(value), file))
            self._known[value] = int(np.float64(variance).view(np.int64))
        return self._known[value]


def level_reader(
    folder: MeasurementFolder, units: UnitsOfLevel, asked: LevelStrategy, schema: Schema, recodes: Mapping[str, str]
) -> LevelReader:
    """The measurements of a level. Queries are known by their variables, in whatever order they are named."""
    layouts = tuple(query_layout(schema, one.name, one.query) for one in asked.queries)
    ours = {theirs: own for own, theirs in recodes.items()}
    everything = frozenset(attribute.name for attribute in schema.attributes)
    wanted = {_parts(layout.name, {}, everything): number for number, layout in enumerate(layouts)}
    numbers = {
        name: wanted[parts]
        for name in _names(folder, units.name)
        if (parts := _parts(plain(name), ours, everything)) in wanted
    }
    missing = [layouts[number] for number in set(range(len(layouts))) - set(numbers.values())]
    if missing and units.measured.any():
        found = ", ".join(sorted(_names(folder, units.name))) or "nothing"
        raise InputError(
            [
                _finding(units.name, f"{layout.name!r} is not measured", found, repr(layout.query_name))
                for layout in missing
            ]
        )
    return LevelReader(folder, units, layouts, numbers)


def _parts(name: str, ours: Mapping[str, str], everything: frozenset[str]) -> frozenset[str]:
    """The variables of a query by name; recodes by our names."""
    if name == DETAILED:
        return everything
    return frozenset(ours.get(part, part) for part in name.split("*"))


def _names(folder: MeasurementFolder, level: str) -> set[str]:
    names: set[str] = set()
    for file in folder.files[level][DP_QUERY]:
        column = pq.read_table(file, columns=["query_name"], partitioning=None).column(0)
        names |= set(pc.unique(column).to_pylist())
    return names


def _distinct(shapes: pa.ListArray) -> set[tuple[int, ...]]:
    return {tuple(shape or ()) for shape in shapes.to_pylist()}


def _sizes(shape: Sequence[int]) -> list[int]:
    """A shape without the attributes that are summed out."""
    return [size for size in shape if size != 1]


def _bad_noise(level: str, found: str, file: Path) -> Finding:
    return _finding(level, "the variance of a measurement is not a positive number", found, "a positive number", file)


def _finding(level: str, what: str, found: str, expected: str, file: Path | None = None) -> Finding:
    where = Place(file=f"{level_folder(level)}/{DP_QUERY}" if file is None else file.name)
    remedy = "give the measurements as they were published, or the strategy that they were made with"
    return Finding("measurements", what, where, found, expected, remedy)
