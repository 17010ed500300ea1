"""The counts of the Census Bureau's PHSafe, row by row: its worked cases, and its output of a run without noise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kits.phsafe import SHARED, derived, expected_rows, files_of, joined, needs_shared

from confide.mechanisms.phsafe import settings as tables

pytestmark = needs_shared
CASES = sorted((SHARED / "phsafe_unit_cases").glob("case*"))


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:  # type: ignore[type-arg]
    """The counts of every table of the large input, households truncated as in production."""
    golden = SHARED / "golden_phsafe"
    config = json.loads((golden / "config_tau_production.json").read_text())
    with joined(files_of(golden / "input"), config["state_filter"], tmp_path_factory.mktemp("golden")) as households:
        counts = {
            each.name: households.counts(each.name, config["tau"].get(each.name)) for each in tables.measured_tables()
        }
    derived_tables = [each for each in tables.tables() if not each.measured]
    return counts | {each.name: derived(counts[each.derived_from], each.name) for each in derived_tables}


@pytest.mark.parametrize("name", [each.name for each in tables.tables()])
def test_the_counts_of_the_peer_row_by_row(production: dict[str, dict], name: str) -> None:  # type: ignore[type-arg]
    expected = expected_rows(SHARED / "golden_phsafe" / "private_tau_production" / f"{name}.csv", "|")
    assert expected
    assert production[name] == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_worked_cases_of_the_peer_with_their_sums(case: Path, tmp_path: Path) -> None:
    processed = (case / "geo_processed.csv").read_text().split()[1:]
    places = [line.split(",") for line in processed]
    for name in ("persons.csv", "units.csv"):
        (tmp_path / name).write_text((case / name).read_text())
    geo = "".join(f"2,{mafid},{state}\n" for mafid, _, state in places)
    (tmp_path / "geo.csv").write_text(f"RTYPE,MAFID,TABBLKST\n{geo}")
    with joined(files_of(tmp_path), sorted({state for *_, state in places}), tmp_path) as households:
        for file in case.glob("expected_*.csv"):
            assert households.exact(file.stem.removeprefix("expected_")) == expected_rows(file, ",")


def test_the_whole_program_without_noise(tmp_path: Path) -> None:
    folder = SHARED / "phsafe_end_to_end" / "test1"
    states = json.loads((folder / "config.json").read_text())["state_filter"]
    with joined(files_of(folder), states, tmp_path) as households:
        for each in tables.tables():
            expected = expected_rows(folder / "expected_outputs" / f"{each.name}.csv", "|")
            assert households.exact(each.name) == expected
