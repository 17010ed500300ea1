"""What ``verify`` finds in a release of tables that was made again by a forger, hashes and all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import failed, remake

import confide
from confide.lab.population import Population, write_population


def forge(release: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Changes a table in both formats and corrects the manifest."""
    table = change(pq.read_table(release / f"tables/{name}.parquet"))
    pq.write_table(table, release / f"tables/{name}.parquet")
    pyarrow.csv.write_csv(table, release / f"tables/{name}.csv")
    remake(release)


def with_counts(table: pa.Table, counts: np.ndarray) -> pa.Table:
    return table.set_column(
        table.column_names.index("count"), table.schema.field("count"), pa.array(counts, pa.int64())
    )


def cells(table: pa.Table) -> np.ndarray:
    """The counts by area and row of the table sex, whose rows are all, male, female."""
    return table.column("count").to_numpy().reshape(-1, 3).copy()


def exact_margins(table: pa.Table) -> pa.Table:
    counts = cells(table)
    counts[:, 0] = counts[:, 1] + counts[:, 2]
    return with_counts(table, counts.ravel())


def louder(table: pa.Table) -> pa.Table:
    counts = cells(table)
    counts[:, 0] += 2 * (counts[:, 0] - counts[:, 1] - counts[:, 2])
    return with_counts(table, counts.ravel())


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (exact_margins, "sex: noise as promised"),
        (louder, "sex: noise as promised"),
        (lambda t: pa.concat_tables([t.slice(3, 3), t.slice(0, 3), t.slice(6)]), "sex: complete"),
    ],
)
def test_a_forgery_is_found(project: Path, change: Callable[[pa.Table], pa.Table], check: str) -> None:
    write_population(Population(12_000, 3), project)
    release = confide.run(project / "spec.toml").release
    forge(release, "sex", change)
    assert check in failed(release)
