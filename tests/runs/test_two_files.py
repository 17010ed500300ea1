"""Persons and households in two files: what is counted, what is refused, and what never leaves."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import confide
from confide.engines import Engine, Join, LocalEngine, Source
from confide.errors import ConfideError, InputError, SpecError
from confide.inputs.records import records_fingerprint
from confide.releases.ledger import Ledger

SCHEMA = """
id = "homes"
provenance = "made up"
[attributes.sex]
levels = [["m", "male"], ["f", "female"]]
missing = { label = "nobody lives there" }
[attributes.tenure]
levels = [["1", "owned"], ["2", "rented"]]
missing = { label = "in no household" }
"""
SPEC = """
release = {{ name = "out", mechanism = "tables" }}
data = {{ records = "persons.{ending}", blocks = "areas.csv", schema = "schema.toml", {two} }}
geography.block = "{block}"
geography.levels = [{{ name = "country", digits = 0 }}, {{ name = "district", column = "district" }}]
privacy = {{ ledger = "made-up.ledger", budget = "1000000000"{unit} }}
[[tables]]
name = "sex-by-tenure"
variables = ["sex", "tenure"]
levels = ["country", "district"]
"""
TWO = 'households = "households.csv", join = "HHID"'
HOUSEHOLDS = f'{TWO}, counts = "households", householder = {{ RELSHIP = "20" }}'
AREAS = ("Юг-01", "Юг-02", "北-01")
SECRET = "CANARY"
"""Stands in every number of a household."""


@dataclass(frozen=True)
class Homes:
    """An office's files."""

    folder: Path

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.folder / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def write(self, name: str, rows: list[dict[str, str]]) -> None:
        with (self.folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def spec(self, two: str = TWO, *, block: str = "area", ending: str = "csv", unit: str | None = None) -> Path:
        path = self.folder / "spec.toml"
        unit = ', unit = "household"' if unit is None and "counts" in two else unit or ""
        path.write_text(SPEC.format(two=two, block=block, ending=ending, unit=unit), encoding="utf-8")
        return path

    def counted(self, two: str = TWO, *, ending: str = "csv") -> dict[tuple[str, str], int]:
        """The inner cells of the country, as a release without noise worth a word has them."""
        released = confide.run(self.spec(two, ending=ending)).release
        with next((released / "tables").glob("*.csv")).open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if (row["level"], row["margin"]) == ("country", "cell")]
        return {(row["sex"], row["tenure"]): int(row["count"]) for row in rows}


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    chance, office = random.Random(7), Homes(tmp_path)
    households, persons = [], []
    for number in range(60):
        key = f"{SECRET}{number:03d}"
        households.append({"HHID": key, "area": chance.choice(AREAS), "tenure": chance.choice("12")})
        persons += [
            {"HHID": key, "RELSHIP": "20" if place == 0 else "25", "sex": chance.choice("mf")}
            for place in range(chance.randrange(4))
        ]
    chance.shuffle(persons)
    office.write("households.csv", households)
    office.write("persons.csv", persons)
    office.write("areas.csv", [{"area": area, "district": area[:1]} for area in AREAS])
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    confide.open_ledger(tmp_path / "made-up.ledger", data_set="made up", budget=10**10)
    return office


def by_hand(homes: Homes, *, of_households: bool = False) -> dict[tuple[str, str], int]:
    """The same counts from the files, by other means."""
    of = {row["HHID"]: row for row in homes.rows("households.csv")}
    persons = homes.rows("persons.csv")
    if of_households:
        head = {row["HHID"]: row["sex"] for row in persons if row["RELSHIP"] == "20"}
        counts = Counter((head.get(key, "_U"), row["tenure"]) for key, row in of.items())
    else:
        counts = Counter((row["sex"], of[row["HHID"]]["tenure"]) for row in persons)
    return {(sex, tenure): counts[sex, tenure] for sex in ("m", "f", "_U") for tenure in ("1", "2", "_U")}


def test_persons_have_the_columns_of_their_household(homes: Homes) -> None:
    assert homes.counted() == by_hand(homes)


def test_households_have_the_columns_of_their_householder(homes: Homes) -> None:
    assert homes.counted(HOUSEHOLDS) == by_hand(homes, of_households=True)


def test_neither_the_order_of_rows_nor_the_kind_of_file_changes_a_count(homes: Homes) -> None:
    expected = by_hand(homes)
    homes.write("households.csv", homes.rows("households.csv")[::-1])
    persons = pa.csv.read_csv(homes.folder / "persons.csv")
    pq.write_table(persons.take(list(range(persons.num_rows))[::-1]), homes.folder / "persons.parquet")
    assert homes.counted(ending="parquet") == expected


@pytest.mark.parametrize(
    ("two", "unit"),
    [(HOUSEHOLDS, ', unit = "person"'), (HOUSEHOLDS, ', unit = "record"'), (TWO, ', unit = "household"')],
)
def test_what_is_counted_is_what_is_protected_and_charged(homes: Homes, two: str, unit: str) -> None:
    with pytest.raises(ConfideError) as raised:
        confide.run(homes.spec(two, unit=unit))
    assert "two-files" in {finding.code for finding in raised.value.findings}
    assert confide.check(homes.spec(two, unit=unit)).account.spent == 0


@pytest.mark.parametrize(("neighbours", "times"), [("add-remove", 1), ("change-one", 4)])
def test_households_on_a_ledger_of_persons_cost_what_one_person_changes(
    homes: Homes, neighbours: str, times: int
) -> None:
    """Who comes changes one household; who moves changes two of them, maybe alike."""
    ledger = homes.folder / "made-up.ledger"
    ledger.unlink()
    confide.open_ledger(ledger, data_set="made up", budget=10**10, unit="person", neighbours=neighbours)
    checked = confide.check(homes.spec(HOUSEHOLDS))
    assert checked.cost.amount == times * checked.plan.loss.parameters()["rho"]


def test_who_lives_in_no_household_has_no_value_of_one(homes: Homes) -> None:
    two = f'{TWO}, household_columns = {{ where = "area" }}'
    persons = [{**row, "area": AREAS[0]} for row in homes.rows("persons.csv")]
    homes.write("persons.csv", [*persons, {"HHID": "", "RELSHIP": "37", "sex": "f", "area": AREAS[0]}])
    counted = homes.counted(two)
    assert counted["f", "_U"] == 1
    assert sum(counted.values()) == len(persons) + 1


def test_the_number_of_a_household_never_leaves(homes: Homes) -> None:
    release = confide.run(homes.spec()).release
    assert [file.name for file in release.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()] == []


def test_check_says_what_is_assumed(homes: Homes) -> None:
    persons = [{**row, "area": AREAS[0]} for row in homes.rows("persons.csv")]
    homes.write("persons.csv", persons)
    codes = {finding.code: finding for finding in confide.check(homes.spec()).findings}
    assert set(codes) == {"columns-of-both", "household-without-persons", "protects-persons"}
    assert all(finding.severity == "warning" for finding in codes.values())
    assert "area" in codes["columns-of-both"].what
    assert {finding.code for finding in confide.check(homes.spec(HOUSEHOLDS)).findings} >= {"protects-households"}


BAD = {
    "a doubled number": ("households.csv", lambda rows: [*rows, rows[3]], TWO, "household-twice", 4),
    "no number": (
        "households.csv",
        lambda rows: [*rows, {**rows[3], "HHID": " "}],
        TWO,
        "household-without-number",
        61,
    ),
    "an orphan": (
        "persons.csv",
        lambda rows: [{**rows[0], "HHID": f"{SECRET}-none"}, *rows],
        TWO,
        "no-such-household",
        1,
    ),
    "two householders": (
        "persons.csv",
        lambda rows: [*rows, next(row for row in rows if row["RELSHIP"] == "20")],
        HOUSEHOLDS,
        "household-twice",
        None,
    ),
    "one file twice": (
        "persons.csv",
        lambda rows: rows,
        TWO.replace("households.csv", "persons.csv"),
        "records-twice",
        None,
    ),
    "no such column": ("persons.csv", lambda rows: rows, TWO.replace("HHID", "home"), "join-column", None),
}


@pytest.mark.parametrize("case", BAD)
def test_two_files_that_do_not_fit_are_refused(homes: Homes, case: str) -> None:
    name, change, two, code, row = BAD[case]
    homes.write(name, change(homes.rows(name)))
    before = sorted(homes.folder.rglob("*"))
    with pytest.raises(ConfideError) as raised:
        confide.run(homes.spec(two))
    finding = next(each for each in raised.value.findings if each.code == code)
    assert row is None or finding.where.row == row
    assert SECRET not in str(raised.value)
    after = [path for path in homes.folder.rglob("*") if path.is_file() and path.name != "spec.toml"]
    assert [path for path in after if path not in before] == []


def _text(name: str, change: Callable[[str], str | bytes]) -> Callable[[Path], object]:
    def write(folder: Path) -> object:
        given = change((folder / name).read_text(encoding="utf-8"))
        return (folder / name).write_bytes(given if isinstance(given, bytes) else given.encode())

    return write


def _household(**changes: str) -> Callable[[Path], object]:
    """Other values in the household of the first person."""

    def change(folder: Path) -> object:
        homes = Homes(folder)
        first = homes.rows("persons.csv")[0]["HHID"]
        return homes.write(
            "households.csv",
            [row | changes if row["HHID"] == first else row for row in homes.rows("households.csv")],
        )

    return change


BROKEN = {
    "no file": (lambda folder: (folder / "households.csv").unlink(), TWO),
    "a folder in its place": (
        lambda folder: [(folder / "households.csv").unlink(), (folder / "households.csv").mkdir()],
        TWO,
    ),
    "nothing in it": (_text("households.csv", lambda _: ""), TWO),
    "a header alone": (_text("households.csv", lambda text: text.splitlines()[0] + "\n"), TWO),
    "no text": (_text("households.csv", lambda text: text.encode() + b"\xff\xfe\x00" * 40), TWO),
    "a row too short": (_text("households.csv", lambda text: text + f"{SECRET}999\n"), TWO),
    "a row too long": (_text("households.csv", lambda text: text + f"{SECRET}999,Юг-01,1,2,3\n"), TWO),
    "an unknown tenure": (_household(tenure="7"), TWO),
    "an unknown area": (_household(area="Юг-99"), TWO),
    "no area": (_household(area=""), TWO),
    "another name of the number": (_text("households.csv", lambda text: text.replace("HHID", "hhid", 1)), TWO),
    "a column twice": (_text("households.csv", lambda text: text.replace("tenure", "area", 1)), TWO),
    "no column of the householder": (_text("persons.csv", lambda text: text.replace("RELSHIP", "KIN", 1)), HOUSEHOLDS),
    "a person with another sex": (_text("persons.csv", lambda text: text.replace(",m\n", ",x\n", 1)), TWO),
    "a number of nobody": (_text("persons.csv", lambda text: text.replace(f"\n{SECRET}", "\n", 1)), TWO),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_told_with_a_place_and_a_remedy(homes: Homes, case: str) -> None:
    """Nothing is written, nothing charged, and no number of a household is shown."""
    change, two = BROKEN[case]
    change(homes.folder)
    spec, ledger = homes.spec(two), Ledger(homes.folder / "made-up.ledger")
    before, account = sorted(homes.folder.rglob("*")), ledger.account()
    with pytest.raises(ConfideError) as raised:
        confide.run(spec)
    errors = [finding for finding in raised.value.findings if finding.severity == "error"]
    assert errors
    for finding in errors:
        assert finding.where.file or finding.where.path
        assert finding.remedy
        assert finding.expected
    said = json.dumps([finding.as_dict() for finding in raised.value.findings], ensure_ascii=False)
    assert SECRET not in said
    assert not ({"Юг-99"} & set(said.split('"')))
    assert [path for path in sorted(homes.folder.rglob("*")) if path not in before and "witness" not in path.name] == []
    assert ledger.account() == account
    assert confide.check(spec).findings != ()


@pytest.mark.parametrize(
    ("two", "path"),
    [
        ('join = "HHID"', "data.join"),
        ('households = "households.csv"', "data.households"),
        (f'{TWO}, counts = "households"', "data.householder"),
        (f'{TWO}, householder = {{ RELSHIP = "20" }}', "data.householder"),
        (f'{TWO}, columns = {{ a = "tenure" }}, household_columns = {{ a = "tenure" }}', "data.household_columns.a"),
        (f'{HOUSEHOLDS}, household_columns = {{ a = "tenure" }}', "data.household_columns"),
    ],
)
def test_keys_that_contradict_each_other_are_findings(homes: Homes, two: str, path: str) -> None:
    with pytest.raises(SpecError) as raised:
        confide.check(homes.spec(two))
    assert [(finding.code, finding.where.path) for finding in raised.value.findings] == [("two-files", path)]


def test_a_household_is_no_area_and_no_attribute(homes: Homes) -> None:
    with pytest.raises(SpecError) as raised:
        confide.check(homes.spec(block="HHID"))
    assert [finding.where.path for finding in raised.value.findings] == ["data.join"]
    schema = homes.folder / "schema.toml"
    schema.write_text(schema.read_text("utf-8").replace("attributes.sex", "attributes.HHID"), encoding="utf-8")
    spec = homes.spec()
    spec.write_text(spec.read_text("utf-8").replace('"sex", ', '"HHID", '), encoding="utf-8")
    assert "two-files" in {each.code for each in confide.check(spec).findings}


def test_households_are_no_table_of_areas(homes: Homes) -> None:
    spec = homes.spec()
    spec.write_text(spec.read_text("utf-8").replace("areas.csv", "households.csv"), encoding="utf-8")
    assert "records-as-frame" in {each.code for each in confide.check(spec).findings}


def test_the_fingerprint_is_that_of_both_files_and_of_how_they_are_joined(homes: Homes) -> None:
    persons, households = (Source(homes.folder / f"{name}.csv", "csv") for name in ("persons", "households"))
    joined = replace(persons, joined=Join(households, "HHID"))
    turned = replace(households, joined=Join(persons, "HHID", ("RELSHIP", "20")))
    other = replace(persons, joined=Join(households, "HHID", named=(("home", "tenure"),)))
    known = [records_fingerprint(each) for each in (persons, joined, turned, other)]
    homes.write("households.csv", homes.rows("households.csv")[::-1])
    known.append(records_fingerprint(joined))
    assert len(set(known)) == 5
    assert records_fingerprint(persons) == known[0] == records_fingerprint(persons.path)


def test_a_second_file_that_changes_is_read_again(homes: Homes, tmp_path: Path) -> None:
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        source = replace(
            Source(homes.folder / "persons.csv", "csv"),
            joined=Join(Source(homes.folder / "households.csv", "csv"), "HHID"),
        )
        before = _owned(engine, source)
        homes.write("households.csv", [{**row, "tenure": "1"} for row in homes.rows("households.csv")])
        assert before < _owned(engine, source) == len(homes.rows("persons.csv"))


def _owned(engine: Engine, source: Source) -> int:
    table = engine.sql("SELECT count(*) AS n FROM records WHERE tenure = '1'", records=source)
    return int(table.reveal("made-up records").column("n")[0].as_py())


def test_rows_are_numbered_as_in_the_file_of_persons(tmp_path: Path) -> None:
    rows, wrong = 300_000, 262_145
    keys = pa.array([f"{(place * 7919) % 1000:03d}" for place in range(rows)])
    sexes = pa.array(["x" if place == wrong else "m" for place in range(rows)])
    pq.write_table(pa.table({"HHID": keys, "sex": sexes}), tmp_path / "persons.parquet", row_group_size=50_000)
    homes = pa.table({"HHID": [f"{place:03d}" for place in range(1000)], "tenure": ["1"] * 1000})
    pq.write_table(homes, tmp_path / "households.parquet")
    households = Source(tmp_path / "households.parquet", "parquet")
    source = Source(tmp_path / "persons.parquet", "parquet", joined=Join(households, "HHID"))
    with LocalEngine(tmp_path / "scratch", processes=2) as engine:
        assert engine.first_rows(source, "sex = 'x' AND tenure = '1'", 5) == [wrong + 1]


def test_a_name_of_ours_is_not_that_of_a_column_of_the_first_file(homes: Homes, tmp_path: Path) -> None:
    households = Source(homes.folder / "households.csv", "csv")
    source = Source(homes.folder / "persons.csv", "csv", joined=Join(households, "HHID", named=(("SEX", "tenure"),)))
    with LocalEngine(tmp_path / "scratch", processes=1) as engine, pytest.raises(InputError) as raised:
        engine.kinds(source)
    assert [finding.code for finding in raised.value.findings] == ["join-name"]


def test_a_spec_is_drafted_from_two_files_and_runs(homes: Homes) -> None:
    drafted = confide.new(
        "tables",
        homes.folder / "office",
        from_file=homes.folder / "persons.csv",
        households=homes.folder / "households.csv",
        geography=homes.folder / "areas.csv",
    )
    text = drafted.spec.read_text(encoding="utf-8")
    assert 'join = "HHID"' in text
    schema = (homes.folder / "office" / "schema.toml").read_text(encoding="utf-8")
    assert "tenure" in schema
    assert SECRET not in text + schema
    assert confide.run(drafted.spec).release.is_dir()


def test_a_draft_says_which_column_is_missing(homes: Homes) -> None:
    with pytest.raises(InputError) as raised:
        confide.new(
            "tables",
            homes.folder / "office",
            from_file=homes.folder / "persons.csv",
            households=homes.folder / "areas.csv",
        )
    assert [finding.code for finding in raised.value.findings] == ["join-unknown"]
    assert not (homes.folder / "office").exists()


def test_a_rehearsal_needs_neither_file(homes: Homes) -> None:
    spec = homes.spec()
    for name in ("persons.csv", "households.csv"):
        (homes.folder / name).unlink()
    rehearsed = confide.rehearse(spec, persons=200)
    assert rehearsed.verification.ok
