"""``suppression``: counts of few people are left out, and others with them, so that none can be worked out.

The tables of an area are protected together by the core of the mechanism ``suppression``: nothing follows from them
about a hidden count but an interval that is wide enough. Areas are protected one by one. That blocks add up to a tract
is not taken into account: a pattern that does hides more, from the users and from the outsider. It takes a second or
so for an area, so that of the blocks only those are protected that are attacked.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from confide.comparison.attacking import sample
from confide.comparison.figures import Figures, Flags, Integers, Key
from confide.comparison.programme import LEVELS
from confide.comparison.protections.making import Made, Making
from confide.comparison.protections.suppressing import frame
from confide.comparison.spec import SuppressionProtection
from confide.engines.files import private_folder, whole_file
from confide.engines.groups import end_with_parent, worker_died

PATTERN = "pattern-of-{}-blocks-confidential.parquet"
_Area = tuple[str, int, list[Integers], int]
"""A level, a unit, the counts of its tables, and the threshold."""


def make(part: SuppressionProtection, making: Making) -> Made:
    """Counts of 1 to ``threshold`` are primary; zeros may be hidden beside them, as may totals."""
    population = making.population
    tables, truth = population.programme.tables, population.truth
    blocks = sample(population, making.blocks, making.seed)
    covered = {level: blocks if level == "block" else np.arange(len(population.areas.codes[level])) for level in LEVELS}
    published: dict[Key, Flags] = {
        (level, table.name): np.zeros(truth.counts[level, table.name].shape, np.bool_)
        for level in LEVELS
        for table in tables
    }
    ends = np.cumsum([table.query.cells for table in tables])[:-1]
    for level, unit, hidden in _patterns(part, making, covered):
        for table, flags in zip(tables, np.split(hidden, ends), strict=True):
            published[level, table.name][unit] = ~flags
    counts = {key: np.where(flags, truth.counts[key], 0) for key, flags in published.items()}
    few = f"1 to {part.threshold}" if part.threshold > 1 else "1"
    return Made(
        Figures(counts, published, covered=covered),
        part.title or f"Suppression of counts up to {part.threshold}",
        f"No bound on what follows about a person: counts of {few} are withheld, and others so that the tables of the "
        f"same area leave for each of them an interval {part.threshold} wide or wider; what is published is true.",
        {"threshold": part.threshold},
    )


def _patterns(
    part: SuppressionProtection, making: Making, covered: dict[str, Integers]
) -> Iterator[tuple[str, int, Flags]]:
    """For each area which cells are hidden, over all tables; found before, or found now and kept."""
    file = private_folder(making.folder) / PATTERN.format(len(covered["block"]))
    if not file.exists():
        truth, tables = making.population.truth, making.population.programme.tables
        areas: list[_Area] = [
            (level, int(unit), [truth.counts[level, table.name][unit] for table in tables], part.threshold)
            for level in LEVELS
            for unit in covered[level]
        ]
        with making.progress.stage("Suppressing", len(areas)) as advance:
            rows = []
            for row in _all(areas, making.processes or os.cpu_count() or 1):
                rows.append(row)
                advance(1)
        _write(file, rows)
    kept = pq.read_table(file)
    for level, unit, bits in zip(*(kept.column(name).to_pylist() for name in kept.column_names), strict=True):
        cells = making.population.programme.cells
        yield level, unit, np.unpackbits(np.frombuffer(bits, np.uint8), count=cells).astype(np.bool_)


def _write(file: Path, rows: Sequence[tuple[str, int, Flags]]) -> None:
    level, unit, hidden = zip(*rows, strict=True)
    packed = [np.packbits(flags).tobytes() for flags in hidden]
    with whole_file(file) as temporary:
        pq.write_table(pa.table({"level": level, "unit": unit, "hidden": pa.array(packed, pa.binary())}), temporary)


def _all(areas: Sequence[_Area], processes: int) -> Iterator[tuple[str, int, Flags]]:
    if processes == 1:
        with threadpool_limits(1):
            yield from map(_protect, areas)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(os.getpid(),))
    try:
        yield from pool.map(_protect, areas, chunksize=2)
    except BrokenProcessPool:
        raise worker_died() from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    end_with_parent(parent)
    threadpool_limits(1)


def _protect(area: _Area) -> tuple[str, int, Flags]:
    level, unit, counts, maximum = area
    return level, unit, np.concatenate(frame().hidden(counts, maximum))
