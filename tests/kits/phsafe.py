"""Households for tests of PHSafe: the public fixtures where they are, small made-up files, and counts of them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from confide.engines import Source
from confide.engines.local import LocalEngine
from confide.mechanisms.phsafe import settings as tables
from confide.mechanisms.phsafe import tabulate

_PLACE = Path("shared/data/households")
SHARED = next((up / _PLACE for up in Path(__file__).resolve().parents if (up / _PLACE).is_dir()), Path("/nonexistent"))
"""The public fixtures of the Census Bureau's program, which are never part of the project."""
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason=f"{_PLACE} is not beside the project")

Key = tuple[str, str, str, int]
"""Area, level, iteration and cell."""


def files_of(folder: Path) -> tabulate.HouseholdFiles:
    """The three files in a folder."""
    return tabulate.HouseholdFiles(*(Source(folder / f"{name}.csv", "csv") for name in ("persons", "units", "geo")))


@dataclass(frozen=True)
class Joined:
    """Units and persons of some states, joined."""

    engine: LocalEngine
    folder: Path
    states: list[str]

    @property
    def persons(self) -> Path:
        return self.folder / "persons.parquet"

    @property
    def units(self) -> Path:
        return self.folder / "units.parquet"

    def counts(self, name: str, tau: int | None) -> dict[Key, int]:
        """The true counts of the interior cells of a table, zeros among them."""
        counted, into = tables.table(name), self.folder / "counts.parquet"
        rows = self.persons if counted.of_persons else self.units
        tabulate.count_table(self.engine, counted, tau, rows, into)
        counts, cells = pq.read_table(into), [cell.code for cell in counted.interior]
        return {
            (area, level, each.code, cell): int(array[at, place, column])
            for level in tables.LEVELS
            for iteration_level in counted.iteration_levels
            for array in [tabulate.dense(counts, level, iteration_level, self.states, cells)]
            for at, area in enumerate([tables.NATION_CODE] if level == tables.NATION else self.states)
            for place, each in enumerate(tables.iterations_of(iteration_level))
            for column, cell in enumerate(cells)
        }

    def exact(self, name: str) -> dict[Key, int]:
        """The exact table."""
        rows = tabulate.exact_rows(self.engine, self.persons, self.units, self.states, tables.table(name))
        return {tuple(row[:4]): row[4] for row in rows}  # type: ignore[misc]


@contextmanager
def joined(files: tabulate.HouseholdFiles, states: Sequence[str], folder: Path) -> Iterator[Joined]:
    """The persons and units of three files."""
    with LocalEngine(folder / "scratch", processes=1, memory="1GiB") as engine:
        result = Joined(engine, folder, sorted(states))
        tabulate.write_units(engine, files, result.states, result.units)
        tabulate.write_persons(engine, files, result.units, result.persons)
        yield result


def derived(counts: Mapping[Key, int], name: str) -> dict[Key, int]:
    """The counts of a table that is made of those of another one."""
    cells = tables.table(name).derived_cells or {}
    groups = {key[:3] for key in counts}
    return {
        (*group, cell): sum(counts[(*group, part)] for part in parts)
        for cell, parts in cells.items()
        for group in groups
    }


def expected_rows(path: Path, delimiter: str) -> dict[Key, int]:
    """The rows of an expected table of the Census Bureau's program."""
    with path.open() as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    result = {}
    for row in rows:
        (column,) = (name for name in row if name.endswith("_DATA_CELL"))
        area = tables.NATION_CODE if row["REGION_TYPE"] == tables.NATION else row["REGION_ID"]
        key = area, row["REGION_TYPE"], row.get("ITERATION_CODE", "*"), int(row[column])
        result[key] = int(row["COUNT"])
    return result
