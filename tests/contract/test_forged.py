"""A table that somebody wrote again, in every format or in one, with hashes, files of cells and pages that fit:
``verify`` finds it in the table itself, whichever mechanism made it.

What a forger can do to the figures of one mechanism alone is tried in its own room.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.contract.kit import MANIFEST, NAMES, Project
from tests.kits.forged import edited, failed, rehash, remake, restated

Change = Callable[[pa.Table], pa.Table]
BESIDE_THE_TABLE = ("cells alone", "pages as the manifest has them")
"""Ends of the names of checks that see a forged table by what was made of it: the table itself has to show."""


def first_text(table: pa.Table) -> str:
    return next(field.name for field in table.schema if pa.types.is_string(field.type))


def as_floats(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("count"), "count", table.column("count").cast(pa.float64()))


def one_more(table: pa.Table) -> pa.Table:
    """Somebody more, in the first cell that is published."""
    known = [value is not None for value in table.column("count").to_pylist()]
    return edited(table, "count", known.index(True), lambda value: value + 1)


CHANGES: dict[str, Change] = {
    "a row is gone": lambda t: t.slice(1),
    "the last row is gone": lambda t: t.slice(0, t.num_rows - 1),
    "no row is left": lambda t: t.slice(0, 0),
    "a row is there twice": lambda t: pa.concat_tables([t.slice(0, 1), t]),
    "two rows have changed places": lambda t: t.take([1, 0, *range(2, t.num_rows)]),
    "the first row is the last one": lambda t: pa.concat_tables([t.slice(1), t.slice(0, 1)]),
    "a column has another name": lambda t: t.rename_columns([f"{t.column_names[0]}_", *t.column_names[1:]]),
    "two columns have changed places": lambda t: t.select(
        [t.column_names[at] for at in (1, 0, *range(2, len(t.schema)))]
    ),
    "a column is gone": lambda t: t.drop_columns([t.column_names[-1]]),
    "a column more": lambda t: t.append_column("true_count", t.column("count")),
    "counts are no whole numbers": as_floats,
    "a code that there is not": lambda t: edited(t, first_text(t), t.num_rows - 1, lambda _: "elsewhere"),
}
FORMATS = ("parquet", "csv")
PRICES = ("rho", "epsilon", "delta")


def forge(table: Path, change: Change, *formats: str) -> None:
    """Writes the table again, given by its Parquet file, in these formats; and all that follows from it, as far as it
    does: of a table that is none any more no files of cells can be made."""
    other = change(pq.read_table(table))
    if "parquet" in formats:
        pq.write_table(other, table, compression="zstd")
    if "csv" in formats:
        pyarrow.csv.write_csv(other, table.with_suffix(".csv"), pyarrow.csv.WriteOptions(quoting_style="needed"))
    try:
        remake(table.parents[1])
    except (LookupError, pa.ArrowException):
        rehash(table.parents[1])


def first_table(release: Path) -> Path:
    """The Parquet file of a table that is there as text too."""
    return next(file for file in sorted(release.glob("tables/*.parquet")) if file.with_suffix(".csv").exists())


def of_the_table(names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(BESIDE_THE_TABLE)]


@pytest.fixture
def release(sealed: Project, tmp_path: Path) -> Path:
    """A copy of the release of an example, to be forged."""
    return sealed.copy(tmp_path / "copy").release


def test_a_table_that_is_written_as_it_was_agrees(release: Path) -> None:
    forge(first_table(release), lambda table: table, *FORMATS)
    assert failed(release) == []


def test_a_table_that_is_another_is_found(sealed: Project, tmp_path: Path) -> None:
    unnoticed = []
    for number, (change, made) in enumerate(CHANGES.items()):
        release = sealed.copy(tmp_path / str(number)).release
        forge(first_table(release), made, *FORMATS)
        if not of_the_table(failed(release)):
            unnoticed.append(change)
    assert unnoticed == []


def test_two_formats_that_differ_are_found(sealed: Project, tmp_path: Path) -> None:
    for format_ in FORMATS:
        release = sealed.copy(tmp_path / format_).release
        forge(first_table(release), one_more, format_)
        assert any(name.endswith("the same in every format") for name in failed(release)), format_


def test_a_table_too_many_and_a_table_too_few_are_found(release: Path) -> None:
    manifest = json.loads((release / MANIFEST).read_text(encoding="utf-8"))
    files = [file for file in manifest["files"] if file["path"].startswith(f"tables/{first_table(release).stem}.")]
    for file in files:
        more = str(file["path"]).replace("tables/", "tables/more-")
        shutil.copy(release / str(file["path"]), release / more)
        rehash(release, manifest | {"files": [*manifest["files"], {**file, "path": more}]})
        assert of_the_table(failed(release)) != []
        (release / more).unlink()
    for file in files:
        (release / str(file["path"])).unlink()
    rehash(release, manifest | {"files": [file for file in manifest["files"] if file not in files]})
    assert of_the_table(failed(release)) != []


def test_the_ledger_knows_its_release_from_one_that_was_made_again(sealed: Project, release: Path) -> None:
    """Whatever a forger writes so well that the release agrees with itself, it is not the one that was sealed."""
    if sealed.ledger is None:
        pytest.skip("a release without a ledger: its office keeps or publishes the hash of its manifest")
    assert failed(release, sealed.ledger) == []
    restated(release, lambda manifest: manifest.update(run=manifest.get("run", "") + "0"))
    (at_least,) = set(failed(release, sealed.ledger)) - set(failed(release))
    assert at_least.startswith("in the ledger of ")


def test_a_cheaper_price_in_the_manifest_is_found(release: Path) -> None:
    """However the manifest states it."""

    def cheaper(values: Any) -> Any:
        return {name: cheaper(value) if isinstance(value, dict) else "1/1000" if name in PRICES else value
                for name, value in values.items()}  # fmt: skip

    manifest = json.loads((release / MANIFEST).read_text(encoding="utf-8"))
    if manifest["privacy"].get("loss") is None:
        pytest.skip("a release without a price")
    restated(release, lambda manifest: manifest["privacy"].update(loss=cheaper(manifest["privacy"]["loss"])))
    assert "cost of the plan" in failed(release)


def test_every_mechanism_has_a_table_to_forge(name: str, sealed: Project) -> None:
    assert name in NAMES
    assert pq.read_metadata(first_table(sealed.release)).num_rows > 2
