"""The official folders of made-up people: layout, settings, complete or not there, quick to make."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from confide.errors import ParameterError, RunError
from confide.lab.population import OfficialFiles, Population, load_settings, write_official, write_population
from confide.lab.population import official as official_module

PERSONS, SEED = 20_000, 7

PERSON_PATTERNS = {
    "QAGE": r"\d|\d\d|10\d|11[0-5]",
    "QSEX": r"[12]",
    "HOUSEHOLDER": r"True|False",
    "TABBLKST": r"01",
    "TABBLKCOU": r"\d{3}",
    "TABTRACTCE": r"\d{6}",
    "TABBLK": r"\d{4}",
    "CENRACE": r"0[1-9]|[1-5]\d|6[0-3]",
    "QRACE1": r"[1-9]\d{3}",
    **{f"QRACE{number}": r"[1-9]\d{3}|Null" for number in range(2, 9)},
    "QSPAN": r"[1-9]\d{3}",
}
GEOGRAPHY_PATTERNS = {
    "TABBLKST": r"01",
    "TABBLKCOU": r"\d{3}",
    "TABTRACTCE": r"\d{6}",
    "TABBLK": r"\d{4}",
    "PLACEFP": r"\d{5}",
    "AIANNHCE": r"\d{4}",
}
BLOCK = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")

Row = dict[str, str]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> OfficialFiles:
    return write_official(Population(PERSONS, SEED), tmp_path_factory.mktemp("official"))


def read(path: Path) -> list[Row]:
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    return [dict(zip(header.split("|"), line.split("|"), strict=True)) for line in lines]


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("name", "patterns"), [("person-records.txt", PERSON_PATTERNS), ("GRF-C.txt", GEOGRAPHY_PATTERNS)]
)
def test_columns_and_values_have_the_official_form(written: OfficialFiles, name: str, patterns: Row) -> None:
    rows = read(written.data / name)
    assert list(rows[0]) == list(patterns)
    compiled = {column: re.compile(pattern) for column, pattern in patterns.items()}
    for column, pattern in compiled.items():
        assert all(pattern.fullmatch(value) for value in {row[column] for row in rows}), column
    assert b"\r" not in (written.data / name).read_bytes()
    assert b'"' not in (written.data / name).read_bytes()


def test_the_files_say_what_the_records_say(written: OfficialFiles) -> None:
    population = Population(PERSONS, SEED)
    rows = read(written.data / "person-records.txt")
    records = [row for batch in population.person_batches() for row in batch.to_pylist()]
    assert len(rows) == len(records) == PERSONS
    for row, record in zip(rows, records, strict=True):
        assert "".join(row[name] for name in BLOCK) == "01" + record["geocode"][2:]
        assert (int(row["QAGE"]), int(row["QSEX"])) == (record["age"], record["sex"])
        assert row["HOUSEHOLDER"] == str(record["relationship"] == 0)
        assert int(row["CENRACE"]) == record["cenrace"] + 1
    geography = read(written.data / "GRF-C.txt")
    for row, block in zip(geography, population.blocks().to_pylist(), strict=True):
        assert "".join(row[name] for name in BLOCK) == "01" + block["geocode"][2:]
        assert (row["PLACEFP"], row["AIANNHCE"]) == (block["place"], block["aiannh"])


def test_every_person_is_in_a_block_of_the_geography(written: OfficialFiles) -> None:
    blocks = [tuple(row[name] for name in BLOCK) for row in read(written.data / "GRF-C.txt")]
    assert len(blocks) == len(set(blocks))
    assert {tuple(row[name] for name in BLOCK) for row in read(written.data / "person-records.txt")} <= set(blocks)


def test_the_config_has_the_published_budgets_and_our_thresholds(written: OfficialFiles) -> None:
    text = (written.parameters / "config.json").read_text(encoding="utf-8")
    config = json.loads(text, parse_float=Decimal)
    budgets = {key: value for key, value in config.items() if key.startswith("privacy_budget_p_level")}
    assert len(budgets) == 20
    united_states = sum(value for key, value in budgets.items() if "_pr_" not in key)
    assert united_states == Decimal("4.944")
    assert sum(budgets.values()) - united_states == Decimal("2.643")
    assert budgets["privacy_budget_p_level_1_aiannh"] == 0
    assert budgets["privacy_budget_p_level_2_pr_state"] == Decimal("2.134")
    assert len(config["thresholds_p"]) == 20
    for cuts in config["thresholds_p"].values():
        assert len(cuts) == 3
        assert cuts == sorted(cuts)
    assert config["thresholds_p"]["(USA, 2)"] == [50, 100, 700]
    rest = {key: value for key, value in config.items() if key not in budgets and key != "thresholds_p"}
    assert rest == {
        "max_race_codes": 8,
        "privacy_budget_p_stage_1_fraction": Decimal("0.1"),
        "zero_suppression_chance": Decimal("0.9999"),
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": False,
        "reader": "csv",
        "state_filter_us": ["01"],
        "privacy_defn": "zcdp",
    }


COUNTS = """
with
race as (select * from read_csv($races, delim = '|', header = true, all_varchar = true)),
pair as (select * from read_csv($pairs, delim = '|', header = true, all_varchar = true)),
common as (
    select ITERATION_CODE, ALONE, RACE_ETH_CODE from race join pair using (ITERATION_CODE)
    where LEVEL = '2' and DETAILED_ONLY = 'False' and COARSE_ONLY = 'False'
),
person as (
    select row_number() over () as id, TABBLKST as state, TABBLKCOU as county, TABTRACTCE as tract, TABBLK as block,
        list_filter(
            [QRACE1, QRACE2, QRACE3, QRACE4, QRACE5, QRACE6, QRACE7, QRACE8], lambda code: code <> 'Null'
        ) as codes
    from read_parquet($persons)
),
given as (select * exclude (codes), unnest(codes) as RACE_ETH_CODE, len(codes) as number from person),
member as (
    select id, any_value(COLUMNS(['state', 'county', 'tract', 'block'])), ITERATION_CODE
    from given join common using (RACE_ETH_CODE)
    group by id, ITERATION_CODE, ALONE, number
    having ALONE = 'False' or count(*) = number
)
select case when grouping(PLACEFP) = 0 then 'PLACE' when grouping(tract) = 0 then 'TRACT'
        when grouping(county) = 0 then 'COUNTY' else 'STATE' end as kind, count(*) as persons
from member join read_parquet($blocks) on (state, county, tract, block) = (TABBLKST, TABBLKCOU, TABTRACTCE, TABBLK)
group by ITERATION_CODE, grouping sets ((), (county), (county, tract), (PLACEFP))
having coalesce(PLACEFP, '') <> '99999'
"""


def test_two_hundred_thousand_persons_reach_every_table(tmp_path: Path) -> None:
    """True counts of common detailed race groups against the thresholds: every statistics level in every area type."""
    files = write_official(Population(200_000, SEED), tmp_path, format="parquet")
    cuts = json.loads((files.parameters / "config.json").read_text())["thresholds_p"]
    names = {
        "races": files.parameters / "race-characteristic-iterations.txt",
        "pairs": files.parameters / "race-and-ethnicity-code-to-iteration.txt",
        "persons": files.data / "person-records.parquet",
        "blocks": files.data / "GRF-C.parquet",
    }
    levels = defaultdict(set)
    for kind, persons in duckdb.execute(COUNTS, {name: str(path) for name, path in names.items()}).fetchall():
        levels[kind].add(sum(persons >= cut for cut in cuts[f"({kind}, 2)"]))
    assert levels == {kind: {0, 1, 2, 3} for kind in ("STATE", "COUNTY", "TRACT", "PLACE")}


def test_the_same_population_gives_the_same_bytes(written: OfficialFiles, tmp_path: Path) -> None:
    again = write_official(Population(PERSONS, SEED), tmp_path / "again")
    assert digests(again.data.parent) == digests(written.data.parent)
    assert sorted(digests(tmp_path / "again")) == [
        "data/GRF-C.txt",
        "data/person-records.txt",
        "parameters/config.json",
        "parameters/ethnicity-characteristic-iterations.txt",
        "parameters/race-and-ethnicity-code-to-iteration.txt",
        "parameters/race-and-ethnicity-codes.txt",
        "parameters/race-characteristic-iterations.txt",
    ]
    other = write_official(Population(PERSONS, SEED + 1), tmp_path / "other")
    assert (other.data / "person-records.txt").read_bytes() != (written.data / "person-records.txt").read_bytes()


def test_the_usual_files_are_the_same_bytes_beside_them(tmp_path: Path) -> None:
    population = Population(PERSONS, SEED)
    write_official(population, tmp_path / "both")
    write_population(population, tmp_path / "both")
    write_population(Population(PERSONS, SEED), tmp_path / "one")
    for name in ("persons.parquet", "blocks.parquet"):
        assert (tmp_path / "both" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


def test_parquet_holds_the_same(written: OfficialFiles, tmp_path: Path) -> None:
    files = write_official(Population(PERSONS, SEED), tmp_path, format="parquet")
    for name in ("person-records", "GRF-C"):
        rows = pq.read_table(files.data / f"{name}.parquet").to_pylist()
        assert [{key: str(value) for key, value in row.items()} for row in rows] == read(written.data / f"{name}.txt")
    assert digests(files.parameters) == digests(written.parameters)


def test_states_take_real_codes_in_order_and_must_not_run_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_settings().model_dump()
    spine = {**whole["spine"], "first_state": 30, "states_at_most": 60, "persons_per_state": 3_000}
    settings = type(load_settings()).model_validate({**whole, "spine": spine})
    files = write_official(Population(9_000, SEED, settings), tmp_path / "three")
    assert json.loads((files.parameters / "config.json").read_text())["state_filter_us"] == ["01", "02", "04"]
    assert {row["TABBLKST"] for row in read(files.data / "person-records.txt")} == {"01", "02", "04"}
    with pytest.raises(ParameterError) as caught:
        write_official(Population(52 * 3_000, SEED, settings), tmp_path / "many")
    assert caught.value.findings[0].code == "too-many-states"
    assert digests(tmp_path / "many") == {}


class Display:
    """A display of progress that counts, and stops the work when it is told to."""

    def __init__(self, stop_after: int | None = None):
        self.done = 0
        self._stop_after = stop_after

    @contextmanager
    def stage(self, _title: str, steps: int) -> Iterator[Callable[[int], None]]:
        self.steps = steps
        yield self._advance

    def _advance(self, persons: int) -> None:
        self.done += persons
        if self._stop_after is not None and self.done > self._stop_after:
            raise KeyboardInterrupt


def test_progress_ends_at_all_persons_and_an_interrupted_run_changes_nothing(tmp_path: Path) -> None:
    display = Display()
    write_official(Population(30_000, 1), tmp_path, progress=display)
    assert display.steps == display.done == 30_000
    before = digests(tmp_path)
    for form in ("text", "parquet"):
        with pytest.raises(KeyboardInterrupt):
            write_official(Population(60_000, 7), tmp_path, format=form, progress=Display(stop_after=20_000))
        assert digests(tmp_path) == before


def test_a_folder_that_cannot_be_made_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError) as caught:
        write_official(Population(1_000, 7), tmp_path / "file")
    assert caught.value.findings[0].code == "cannot-write-population"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_is_a_finding_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = official_module._Parts.new

    def full(self: official_module._Parts, target: Path) -> Path:
        part = real(self, target)
        if target.name == "person-records.txt":
            part.symlink_to("/dev/full")
        return part

    monkeypatch.setattr(official_module._Parts, "new", full)
    with pytest.raises(RunError) as caught:
        write_official(Population(20_000, 7), tmp_path)
    assert caught.value.findings[0].code == "cannot-write-population"
    assert digests(tmp_path) == {}


@pytest.mark.slow
def test_a_million_persons_take_seconds(tmp_path: Path) -> None:
    """A generous bound for a busy machine: it takes about two."""
    start = time.perf_counter()
    write_official(Population(1_000_000, 7), tmp_path)
    assert time.perf_counter() - start < 15
