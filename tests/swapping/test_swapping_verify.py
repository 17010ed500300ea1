"""``verify`` finds what a forger would do to swapped tables and records."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import edited, failed, rehash, remake
from tests.kits.swapping import release_of

Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_of(
        tmp_path_factory.mktemp("sealed"), key=None, swapping='settings = "light"\nrate = "1/2"\npublish_rate = true'
    )


@pytest.fixture
def release(sealed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sealed, tmp_path / "release"))


def forge(release: Path, path: str, change: Change, *formats: str) -> None:
    table = change(pq.read_table(release / f"{path}.parquet"))
    if "parquet" in (formats or ("parquet",)):
        pq.write_table(table, release / f"{path}.parquet")
    if "csv" in (formats or ("csv",)):
        pyarrow.csv.write_csv(table, release / f"{path}.csv")
    remake(release)


@pytest.mark.parametrize("row", [0, 5, -1])
def test_a_count_that_does_not_add_up(release: Path, row: int) -> None:
    forge(release, "tables/race", lambda t: edited(t, "count", row, lambda n: n + 1))
    assert set(failed(release)) & {
        "race: margins add up",
        "race: levels come to the same",
        "race: as the records have it",
    }


def test_a_table_that_disagrees_with_another(release: Path) -> None:
    """The inner cells alone have no margins: only other tables and the records speak against it."""
    forge(
        release, "tables/races", lambda t: edited(edited(t, "count", 0, lambda n: n + 1), "count", 1, lambda n: n - 1)
    )
    assert "races: the same as in other tables" in failed(release)
    assert "races: as the records have it" in failed(release)


def test_zeros(release: Path) -> None:
    forge(release, "tables/races", lambda t: edited(t, "count", 0, lambda _: 0))
    assert "races: whole counts of somebody" in failed(release)


def test_records_that_are_not_those_of_the_tables(release: Path) -> None:
    forge(release, "microdata/persons", lambda t: edited(t, "race", 0, lambda code: "b" if code == "a" else "a"))
    assert set(failed(release)) == {"race: as the records have it", "races: as the records have it"}


def test_a_household_torn_apart(release: Path) -> None:
    def tear(table: pa.Table) -> pa.Table:
        numbers = table.column("household").to_pylist()
        row = next(row for row, number in enumerate(numbers) if number is not None and numbers.count(number) > 1)
        return edited(table, "geocode", row, lambda code: "0112" if code != "0112" else "0000")

    forge(release, "microdata/persons", tear)
    assert failed(release) == ["records"]


def test_a_statement_of_what_stays_that_the_settings_do_not_imply(release: Path) -> None:
    manifest = json.loads((release / "manifest.json").read_text())
    manifest["plan"]["question"]["swapping"]["kept_in_blocks"].append("adults")
    rehash(release, manifest)
    assert "what is stated to stay" in failed(release)
