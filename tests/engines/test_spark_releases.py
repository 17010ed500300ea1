"""Whole releases by both engines, byte by byte: every mechanism that may run on Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.cellkey import people, tree, write_project
from tests.kits.small import KEY
from tests.kits.topdown import COUNTED, write_spec

import confide
from confide import api, official_runs
from confide.engines import SparkEngine, protocol
from confide.lab.population import Population, write_official, write_population
from confide.releases.ledger import Ledger

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test in which Spark was never asked for anything."""
    asked, original = [0], SparkEngine._answered

    def counted(self: SparkEngine, *arguments: Any, **options: Any) -> Any:
        asked[0] += 1
        return original(self, *arguments, **options)

    monkeypatch.setattr(SparkEngine, "_answered", counted)
    yield
    assert asked[0]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    write_population(Population(3_000, 5), folder)
    return folder


def same_by_both(folder: Path, other: Path, spec: str = "spec.toml", key: str | None = KEY) -> dict[str, bytes]:
    """Runs the spec in ``folder`` here and in a copy on Spark; the release, if it is the same byte by byte."""
    shutil.copytree(folder, other)
    here = api.run(folder / spec, processes=1, insecure_key=key)
    there = api.run(other / spec, processes=2, insecure_key=key, engine="spark")
    assert not there.was_sealed_before
    found, expected = tree(there.release), tree(here.release)
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []
    assert confide.verify(there.release).ok
    return expected


@pytest.mark.parametrize("seed", [1, 2])
def test_cellkey_gives_the_same_bytes_on_spark_after_shuffling(tmp_path: Path, seed: int) -> None:
    records = people()
    here = confide.run(write_project(tmp_path / "here", records, data='weight = "weight"'), processes=1).release
    shuffled = records.take(np.random.default_rng(seed).permutation(records.num_rows))
    spec = write_project(tmp_path / "there", shuffled, data='weight = "weight"')
    assert confide.check(spec, engine="spark").errors == ()
    there = confide.run(spec, processes=2, engine="spark").release
    assert tree(there) == tree(here)
    assert len([name for name in tree(here) if name.startswith("tables/")]) >= 8


def test_cellkey_from_text_with_weights_that_have_to_be_rounded(tmp_path: Path) -> None:
    records = people(1_500)
    draw = np.random.default_rng(3)
    weights = draw.integers(0, 4 * 10**9, records.num_rows) / 1e7
    for name, column in {
        "number": pa.array(weights),
        "text": pa.array([f"{weight:.7f}" for weight in weights]),
    }.items():
        place = records.column_names.index("weight")
        spec = write_project(tmp_path / name, records.set_column(place, "weight", column), data='weight = "weight"')
        if name == "text":
            pyarrow.csv.write_csv(pq.read_table(tmp_path / name / "town.parquet"), tmp_path / name / "town.csv")
            spec.write_text(spec.read_text().replace("town.parquet", "town.csv"))
        same_by_both(tmp_path / name, tmp_path / f"{name}-spark", key=None)


def test_cellkey_looks_up_codes_of_which_there_are_many(tmp_path: Path) -> None:
    """With thousands of codes the number of a level is looked up in a list, not found by branches."""
    codes = [f"{number:04d}" for number in range(3_000)]
    levels = ", ".join(f'["{code}", "{code}"]' for code in codes)
    schema = f'id = "jobs"\nprovenance = "made up"\n[attributes.job]\ntitle = "job"\nlevels = [{levels}]\n'
    draw = np.random.default_rng(4)
    table = people(2_000)
    records = pa.table({"job": draw.choice(codes, 2_000), "record_key": table.column("record_key")})
    write_project(tmp_path / "jobs", records, tables=(("jobs", ["job"]),), schema=schema)
    same_by_both(tmp_path / "jobs", tmp_path / "spark", key=None)


def test_tables_give_the_same_bytes(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = same_by_both(project, tmp_path_factory.mktemp("spark") / "project")
    assert any(name.startswith("tables/age-by-sex") for name in found)


def test_tables_from_text(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in ("persons", "blocks"):
        pyarrow.csv.write_csv(pq.read_table(project / f"{name}.parquet"), project / f"{name}.csv")
    spec = project / "spec.toml"
    spec.write_text(spec.read_text().replace("s.parquet", "s.csv"))
    same_by_both(project, tmp_path_factory.mktemp("spark") / "project")


def test_topdown_and_what_is_made_of_its_measurements(tmp_path: Path, few: Path) -> None:
    shutil.copytree(few, tmp_path / "here")
    write_spec(tmp_path / "here", output="measurements = true")
    found = same_by_both(tmp_path / "here", tmp_path / "there")
    assert any(name.startswith("measurements/") for name in found)
    measured = next((tmp_path / "here").rglob("measurements"))
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "spec.toml").write_text(
        f'[release]\nname = "again"\nmechanism = "postprocess"\n[data]\nmeasurements = "{measured}"\n'
        '[geography]\nlevels = [{ name = "state", digits = 2 }, { name = "county", digits = 5 }, '
        '{ name = "tract", digits = 11 }, { name = "block_group", digits = 12 }]\n'
        '[topdown]\nstrategy = "pl94-persons"\nroot = "state"\n'
    )
    same_by_both(tmp_path / "again", tmp_path / "again-spark", key=None)


def test_topdown_of_units_that_come_counted(tmp_path: Path, few: Path) -> None:
    shutil.copytree(few, tmp_path / "here")
    write_spec(tmp_path / "here", product="pl94-units", records="blocks.parquet", data=COUNTED)
    same_by_both(tmp_path / "here", tmp_path / "there")


def test_safetab_gives_the_same_bytes(tmp_path: Path) -> None:
    write_official(Population(3_000, 11), tmp_path / "people")
    spec = official_runs.convert(tmp_path / "people" / "parameters", tmp_path / "people" / "data", tmp_path / "here")
    same_by_both(tmp_path / "here", tmp_path / "there", spec.name)


def test_findings_are_the_same(project: Path) -> None:
    """Bad records are told by the same rows, in the same words; nothing of them is shown."""
    records = pq.read_table(project / "persons.parquet")
    sex = records.column("sex").to_pylist()
    codes = records.column("geocode").to_pylist()
    for row in (3, 700, 2_999):
        sex[row] = 9
    codes[5] = "CANARY"
    changed = records.set_column(records.column_names.index("sex"), "sex", pa.array(sex, pa.int8()))
    changed = changed.set_column(changed.column_names.index("geocode"), "geocode", pa.array(codes))
    pq.write_table(changed, project / "persons.parquet", row_group_size=500)
    here = [finding.as_dict() for finding in api.check(project / "spec.toml", processes=1).findings]
    there = [finding.as_dict() for finding in api.check(project / "spec.toml", engine="spark").findings]
    assert here == there
    assert "CANARY" not in json.dumps(there)
    assert {finding["where"].get("row") for finding in there} == {4, 6}


class StopHereError(Exception):
    """An interruption."""


def test_a_run_that_stopped_goes_on_with_the_other_engine(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "project"
    shutil.copytree(project, other)
    expected = tree(api.run(project / "spec.toml", processes=1, insecure_key=KEY).release)
    with pytest.MonkeyPatch.context() as patch:
        original, left = protocol._map_one, [2]

        def interrupted(*arguments: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise StopHereError
            original(*arguments)  # type: ignore[arg-type]

        patch.setattr(protocol, "_map_one", interrupted)
        with pytest.raises(StopHereError):
            api.run(other / "spec.toml", processes=1, insecure_key=KEY)
    result = api.run(other / "spec.toml", insecure_key=KEY, engine="spark")
    assert not result.was_sealed_before
    assert tree(result.release) == expected
    assert [entry.kind for entry in Ledger(other / "people.ledger").history()] == [
        "open",
        "reserve",
        "measured",
        "sealed",
    ]
