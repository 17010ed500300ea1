"""A release of swapped data: the same bytes for the same key, exact counts, and nothing that tells who moved."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.labelled import read_labelled
from tests.kits.swapping import KEY, TARGETED, block_table, release_of, town, tree, write_project
from typer.testing import CliRunner

import confide
from confide import api, drafting
from confide.cli.main import app
from confide.errors import RunError
from confide.lab.population import Population
from confide.mechanisms.swapping import load_settings, swap_records, swap_settings
from confide.mechanisms.swapping import mechanism as pipeline_module
from confide.noise import ReleaseKey

HEAVY = 'settings = "heavy"\npublish_rate = true'


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_of(tmp_path_factory.mktemp("town"))


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_of(tmp_path_factory.mktemp("heavy"), swapping=HEAVY)


def records_of(release: Path) -> pa.Table:
    (path,) = (release / "microdata").glob("persons*.parquet")
    return pq.read_table(path)


def table_of(release: Path, name: str) -> list[dict[str, object]]:
    (path,) = (release / "tables").glob(f"{name}.*parquet")
    return read_labelled(path).to_pylist()


def text_of(page: Path) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.read_text()))


# --- what is published ---------------------------------------------------------------------------------------------


def test_tables_are_exact_counts_of_the_swapped_records(release: Path) -> None:
    rows = records_of(release).to_pylist()
    labels = {"a": "race a", "b": "race b", "c": "race c"}
    expected: Counter[tuple[str, str, str, str]] = Counter()
    for row in rows:
        for level in ("state", "county", "geocode", "place"):
            area, name = row[level], "block" if level == "geocode" else level
            sex, race = {1: "men", 2: "women"}[row["sex"]], labels[row["race"]]
            if area is not None:
                expected.update((name, area, s, r) for s in (sex, "_T") for r in (race, "_T"))
    found = {(row["level"], row["area"], row["sex"], row["race"]): row["count"] for row in table_of(release, "race")}
    assert found == expected


def test_the_records_are_the_same_people_with_others_as_neighbours(release: Path) -> None:
    before, after = town(), records_of(release)
    names = ["sex", "age", "race", "tenure", "hhgq"]
    assert Counter(map(str, before.select(names).to_pylist())) == Counter(map(str, after.select(names).to_pylist()))
    assert Counter(before.column("geocode").to_pylist()) == Counter(after.column("geocode").to_pylist())
    key = ["geocode", *names]
    assert Counter(map(str, before.select(key).to_pylist())) != Counter(map(str, after.select(key).to_pylist()))
    together = [
        Counter(
            tuple(sorted(members))
            for members in _households(table, column).values()
        )
        for table, column in ((before, "household_id"), (after, "household"))
    ]  # fmt: skip
    assert together[0] == together[1]


def _households(table: pa.Table, column: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row in table.to_pylist():
        if row["hhgq"] == 0:
            found.setdefault(row[column], []).append(f"{row['sex']} {row['age']} {row['race']}")
    return found


def test_it_is_the_swap_of_the_pure_function_up_to_what_draws_are_bound_to(release: Path) -> None:
    """Block populations and adults stay, as the pure function keeps them, and about a fifth has moved."""
    asked = swap_settings(variant="targeted", rate="1/5", risk=["race"], within="state")
    pure = swap_records(town(), block_table(), asked, ReleaseKey.choose(KEY))
    adults = [
        Counter(row["geocode"] for row in table.to_pylist() if row["age"] >= 18)
        for table in (town(), pure, records_of(release))
    ]
    assert adults[0] == adults[1] == adults[2]
    tally = json.loads((release.parent / "confidential/measured/swap-confidential.json").read_text())
    assert 78 <= tally["moved"] <= 82


def test_households_are_numbered_anew_in_an_order_of_content(release: Path) -> None:
    rows = [row for row in records_of(release).to_pylist() if row["household"] is not None]
    numbers = [row["household"] for row in rows]
    assert sorted(set(numbers)) == list(range(1, 401))
    assert numbers == sorted(numbers)
    households: dict[int, tuple[str, int, list[tuple[object, ...]]]] = {}
    for row in rows:
        content = (row["sex"], row["age"], row["race"], row["tenure"], row["hhgq"])
        block, size, members = households.get(row["household"], (row["geocode"], 0, []))
        households[row["household"]] = (block, size + 1, [*members, content])
    assert list(households.values()) == sorted(households.values())


def test_whoever_lives_in_no_household_stays(release: Path) -> None:
    names = ["geocode", "sex", "age", "race"]
    before = town().filter(pa.compute.equal(town().column("hhgq"), 1))
    after = records_of(release).filter(pa.compute.is_null(records_of(release).column("household")))
    assert Counter(map(str, before.select(names).to_pylist())) == Counter(map(str, after.select(names).to_pylist()))


# --- the same bytes ------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_neither_do_processes_or_a_csv(release: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path)
    pyarrow.csv.write_csv(town(), tmp_path / "town.csv")
    spec.write_text(spec.read_text().replace("town.parquet", "town.csv"))
    assert tree(confide.run(spec, processes=2, insecure_key=KEY).release) == tree(release)


def test_another_key_gives_another_release_and_a_system_key_no_stamp(release: Path, tmp_path: Path) -> None:
    other = release_of(tmp_path / "other", key="66" * 32)
    assert (
        tree(other)["microdata/persons.NOT-FOR-RELEASE.csv"] != tree(release)["microdata/persons.NOT-FOR-RELEASE.csv"]
    )
    assert "NOT-FOR-RELEASE.txt" in tree(release)
    assert json.loads((release / "manifest.json").read_text())["stamp"] == "NOT FOR RELEASE"
    assert "NOT FOR RELEASE" in (release / "statement.html").read_text()
    assert confide.verify(release).ok
    system = release_of(tmp_path / "system", key=None)
    assert not [name for name in tree(system) if "NOT-FOR-RELEASE" in name]
    assert "stamp" not in json.loads((system / "manifest.json").read_text())
    key = system.parent / "confidential/key"
    assert key.read_text().startswith("system ")
    assert key.stat().st_mode & 0o077 == 0
    assert confide.verify(system).ok


def test_killed_without_a_chosen_key_it_goes_on_with_the_key_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_project(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline_module, "swap_people", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            confide.run(spec, processes=1)
    key = (tmp_path / "town/confidential/key").read_bytes()
    confide.run(spec, processes=1)
    assert (tmp_path / "town/confidential/key").read_bytes() == key
    assert api.replay(spec, processes=1).ok


def test_replay_and_then_no_more(tmp_path: Path) -> None:
    release = release_of(tmp_path)
    assert api.replay(tmp_path / "spec.toml", processes=1).ok
    shown = CliRunner().invoke(app, ["seal", str(tmp_path / "spec.toml"), "--destroy-key"])
    assert "ledger" not in shown.stdout
    assert "destroyed" in shown.stdout
    assert not (release.parent / "confidential/key").exists()
    assert not list((release.parent / "confidential").rglob("*.parquet"))
    with pytest.raises(RunError, match="key of this run is gone"):
        api.replay(tmp_path / "spec.toml", processes=1)
    numbers = api.evaluate(tmp_path / "spec.toml", processes=1).accuracy.reveal("a test")
    assert numbers["swap"] is None
    assert confide.run(tmp_path / "spec.toml", processes=1, insecure_key=KEY).was_sealed_before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spec: spec.write_text(spec.read_text().replace("1/5", "1/4")), "the records are not the ones"),
        (lambda spec: pq.write_table(town(399), spec.parent / "town.parquet"), "the records are not the ones"),
    ],
)
def test_another_rate_or_other_records_are_another_run(tmp_path: Path, change: object, words: str) -> None:
    release_of(tmp_path)
    change(tmp_path / "spec.toml")  # type: ignore[operator]
    with pytest.raises(RunError, match=words):
        confide.run(tmp_path / "spec.toml", processes=1, insecure_key=KEY)


def test_another_kind_of_key_is_another_run(tmp_path: Path) -> None:
    release_of(tmp_path)
    with pytest.raises(RunError, match="another kind of key"):
        confide.run(tmp_path / "spec.toml", processes=1)


# --- what is not told ----------------------------------------------------------------------------------------------


def test_rate_and_settings_are_nowhere_in_the_release(release: Path, tmp_path: Path) -> None:
    """Another rate changes places, and no word of what is said."""
    other = release_of(tmp_path, swapping=TARGETED.replace("1/5", "1/3"))
    first, second = (json.loads((each / "manifest.json").read_text()) for each in (release, other))
    assert first["plan"] == second["plan"]
    assert first["plan"]["question"]["swapping"]["settings"] is None
    assert (release / "statement.html").read_text() == (other / "statement.html").read_text()
    assert first["statistics"] == {}
    for name, content in tree(release).items():
        if name.endswith((".json", ".html", ".txt")):
            assert b"1/5" not in content
            assert b"household_id" not in content
    assert "household_id" not in records_of(release).column_names


def test_settings_are_stated_where_the_spec_says_so(heavy: Path) -> None:
    page = text_of(heavy / "statement.html")
    for words in ("50 %", "-1 with 0.25, 0 with 0.5, +1 with 0.25", "0.3, 0.4, 0.3"):
        assert words in page, words
    assert (
        json.loads((heavy / "manifest.json").read_text())["plan"]["question"]["swapping"]["settings"]["rate"] == "1/2"
    )


def test_what_is_kept_in_the_run_is_private(release: Path) -> None:
    kept = [path for path in (release.parent / "confidential").rglob("*") if path.is_file()]
    assert kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


# --- what a reader gets --------------------------------------------------------------------------------------------


def test_the_statement_says_what_stays(release: Path) -> None:
    assert not (release / "certificate.html").exists()
    page = text_of(release / "statement.html")
    for words in (
        "no privacy loss is certified",
        "No differential privacy is promised, and no budget was spent.",
        "The number of households in every block.",
        "The number of people in every block",
        "The number of people aged 18 or more in every block",
        "Every figure at the level state: no household left its unit.",
        "no household moves twice",
        "the office does not publish it",
    ):
        assert words in page, words


def test_with_noise_in_the_key_it_says_that_nothing_stays(heavy: Path) -> None:
    page = text_of(heavy / "statement.html")
    assert "not even their number: partners may differ in size" in page
    assert "The number of people in every block" not in page
    assert "The number of households in every block." in page


def test_evaluate_counts_again_what_is_said_to_stay(release: Path, heavy: Path) -> None:
    for each, kept in ((release, ["households", "size", "adults"]), (heavy, ["households"])):
        evaluated = api.evaluate(each.parent.parent / "spec.toml", processes=1)
        numbers = evaluated.accuracy.reveal("a test")
        assert [(row["name"], row["changed"]) for row in numbers["kept"]] == [(name, 0) for name in kept]
        assert numbers["exact"]
        assert not any(row["changed"] for row in numbers["exact"])
        assert numbers["swap"]["left_unit"]["state"] == 0
        assert numbers["swap"]["households_moved"] == numbers["swap"]["left_unit"]["block"] > 0
        totals = {row["level"]: row for row in numbers["tables"] if (row["table"], row["query"]) == ("ages", "total")}
        assert (totals["block"]["changed"] == 0) == (each == release)
        assert "CONFIDENTIAL" in evaluated.dossier.read_text()
        assert str(each) not in str(evaluated.dossier)
        assert evaluated.dossier.parent.name == "dossier-confidential"
    race = {row["level"]: row for row in numbers["tables"] if (row["table"], row["query"]) == ("race", "sex*race")}
    assert race["state"]["mean_absolute_error"] == 0 < race["block"]["mean_absolute_error"]


def test_evaluate_finds_a_release_that_is_not_what_stays(tmp_path: Path) -> None:
    """A released count that was changed by hand shows up among those that are said to stay."""
    release = release_of(tmp_path)
    (path,) = (release / "tables").glob("race.*.parquet")
    table = pq.read_table(path)
    counts = table.column("count").to_pylist()
    assert table.column("level")[0].as_py() == "state"
    counts[0] += 1
    place = table.column_names.index("count")
    pq.write_table(table.set_column(place, table.schema.field("count"), pa.array(counts)), path)
    numbers = api.evaluate(tmp_path / "spec.toml", processes=1).accuracy.reveal("a test")
    assert sum(row["changed"] for row in numbers["exact"]) == 1


def test_check_and_run_say_that_no_budget_is_spent(tmp_path: Path) -> None:
    spec = write_project(tmp_path)
    shown = CliRunner().invoke(app, ["check", str(spec)])
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert "3 tables of swapped records, with" in text
    assert "No budget is spent, because no differential privacy is promised." in text
    data = json.loads(CliRunner().invoke(app, ["run", str(spec), "--json"]).stdout)
    assert (data["ok"], data["cost"], data["left"]) == (True, None, None)


@pytest.mark.parametrize("product", [None, "light", "heavy"])
def test_a_new_spec_can_be_run_on_made_up_people(population_folder: Path, tmp_path: Path, product: str | None) -> None:
    made = drafting.new("swapping", tmp_path / "new", product=product)
    assert made.ledger is None
    assert made.spec.stat().st_mode & 0o077 == 0
    for name in ("persons.parquet", "blocks.parquet"):
        (tmp_path / "new" / name).write_bytes((population_folder / name).read_bytes())
    assert confide.check(made.spec, processes=1).findings == ()
    assert confide.verify(confide.run(made.spec, processes=1).release).ok


def test_the_settings_of_a_targeted_swap_in_words(tmp_path: Path) -> None:
    swapping = TARGETED + '\nk_anonymity = 2\nnear = false\nlevels = ["county", "block"]\npublish_rate = true'
    swapping = swapping.replace('["race"]', '["race", "age"]')
    swapping = swapping.replace('[["size", "adults"]]', '[["size", "sex"], ["size", "adults"]]')
    release = release_of(tmp_path, swapping=swapping, output='formats = ["csv"]')
    page = text_of(release / "statement.html")
    for words in (
        "20 %",
        "people alike in race, age",
        "people whose combination of these fewer than 2 people have",
        "size, sex; then size, adults",
        "anywhere",
        "county, block",
        "The number of people in every block",
    ):
        assert words in page, words
    assert "aged 18 or more" not in page  # the first profile does not keep adults
    assert confide.verify(release).ok
    numbers = api.evaluate(tmp_path / "spec.toml", processes=1).accuracy.reveal("a test")
    assert not any(row["changed"] for row in (*numbers["kept"], *numbers["exact"]))
    assert numbers["swap"]["wanted"]["at risk: block"] > 0


def test_records_alone_and_places_with_their_tenure(tmp_path: Path) -> None:
    release = release_of(tmp_path, swapping=TARGETED + '\ncarry = ["tenure"]', tables="")
    assert confide.verify(release).ok
    assert not (release / "tables").exists()
    homes = [
        Counter((row["geocode"], row["tenure"]) for row in table.to_pylist()) for table in (town(), records_of(release))
    ]
    assert homes[0] == homes[1]
    assert "These stayed with the place: tenure." in text_of(release / "statement.html")
    assert api.evaluate(tmp_path / "spec.toml", processes=1).accuracy.reveal("a test")["tables"] == []


@pytest.mark.slow
def test_three_hundred_thousand_people_in_half_a_minute() -> None:
    """A million takes a few seconds on an idle machine; the bound is wide, and a search through all donors is not."""
    people = Population(300_000, 7)
    parts = [people.unit(unit) for unit in people.units]
    blocks = pa.Table.from_batches([part[0] for part in parts])
    persons = pa.Table.from_batches([part[1] for part in parts])
    risky = swap_settings(
        variant="targeted", rate="0.5", risk=["cenrace", "hispanic", "age"], k_anonymity=2, near=False
    )
    begun = time.monotonic()
    for asked in (risky, load_settings("heavy")):
        assert not swap_records(persons, blocks, asked, ReleaseKey.choose(KEY)).equals(persons)
    assert time.monotonic() - begun < 30
