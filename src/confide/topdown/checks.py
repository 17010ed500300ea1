"""What ``verify`` looks at in a TopDown release: everything that is promised exactly, from the written files alone.

Records are whole and non-negative by being records, and every table made of them adds up. What is left to check is that
both formats hold the same records, that bounds and structural zeros hold in every block, and that the records lie in
the blocks of the frame in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.runs.mechanism import Check
from confide.topdown.constraints import Side

RECORDS, UNITS = "records", "units"
"""The tables of a release: the protected records, and the counts of the frame that they keep to."""


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every constraint of the strategy, block by block."""
    facts = manifest["plan"]["question"]
    block = facts["layout"]["block"]
    records, units = (_tables(folder, manifest, name) for name in (RECORDS, UNITS))
    for name, read in ((RECORDS, records), (UNITS, units)):
        same = len(read) > 0 and all(table.equals(next(iter(read.values()))) for table in read.values())
        yield Check(f"{name}: the same in every format", same, ", ".join(read) or "no file")
    if not records or not units:
        return
    people, frame = next(iter(records.values())), next(iter(units.values()))
    codes = frame.column(block)
    yield Check("units: each block once, in order", _rising(codes), f"{frame.num_rows:,} blocks")
    place = pc.index_in(people.column(block), codes).to_numpy(zero_copy_only=False)
    known = bool(np.isfinite(place.astype(float)).all())
    yield Check("records: in blocks of the frame", known, f"{people.num_rows:,} records")
    if not known:
        return
    position = place.astype(np.int64)
    for zero in facts["strategy"]["constraints"]["zeros"]:
        found = _matching(people, zero["where"])
        yield Check(f"structural zero {zero['name']}", not found.any(), f"{int(found.sum()):,} records")
    for bound in facts["bounds"]:
        broken = sum(_broken(bound, group, people, position, frame) for group in bound["groups"])
        yield Check(f"bound {bound['name']}", not broken, f"{broken:,} blocks out of bounds")


def _tables(folder: Path, manifest: dict[str, Any], name: str) -> dict[str, pa.Table]:
    paths = [folder / file["path"] for file in manifest["files"] if file["path"].startswith(f"tables/{name}.")]
    return {path.suffix[1:]: _read(path, paths) for path in paths}


def _read(path: Path, paths: list[Path]) -> pa.Table:
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return table.cast(pa.schema([pa.field(field.name, field.type) for field in table.schema])).combine_chunks()
    parquet = next((other for other in paths if other.suffix == ".parquet"), None)
    types = {} if parquet is None else {field.name: field.type for field in pq.read_schema(parquet)}
    first = pyarrow.csv.open_csv(path).schema.names[0]
    options = pyarrow.csv.ConvertOptions(column_types=types or {first: pa.string()}, strings_can_be_null=False)
    return pyarrow.csv.read_csv(path, convert_options=options).combine_chunks()


def _rising(codes: pa.ChunkedArray) -> bool:
    listed = codes.to_pylist()
    return bool(listed == sorted(set(listed)))


def _matching(people: pa.Table, where: dict[str, list[Any]]) -> NDArray[np.bool_]:
    chosen = np.ones(people.num_rows, bool)
    for name, codes in where.items():
        chosen &= pc.is_in(people.column(name), pa.array(codes)).to_numpy(zero_copy_only=False)
    return chosen


def _broken(
    bound: dict[str, Any], group: dict[str, Any], people: pa.Table, position: NDArray[np.int64], frame: pa.Table
) -> int:
    """The number of blocks in which a group has fewer, or more, records than the frame's count allows."""
    chosen = _matching(people, {bound["attribute"]: group["codes"]})
    counts = np.bincount(position[chosen], minlength=frame.num_rows)
    limit = bound["per_unit"] * frame.column(group["column"]).to_numpy()
    return int((counts < limit).sum() if bound["side"] == Side.LOWER.value else (counts > limit).sum())
