"""Households that are given for areas are refused, by whatever name and in whatever script; true areas are not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.studio import entered

import confide
from confide import drafting
from confide.errors import ConfideError
from confide.inputs.records import PlaceCounts, household_areas, identifies_households

CODE = "household-areas"
NAMES = [
    ("HHID", []), ("id_ménage", []), ("Haushalt-Nr", []), ("vivienda", []), ("Өрх", []), ("семья", []), ("户号", []),
    ("الأسرة", []), ("code", ["TENURE", "ROOMS"]), ("code", ["Өрөө"]), ("code", ["房间"]), ("code", ["nbPieces"]),
    ("code", []), ("κωδικός", []),
]  # fmt: skip
"""What the column of codes is called, and other columns of the file; the last tell nothing."""


def two_files(folder: Path, sizes: list[int], key: str = "code", others: list[str] | None = None) -> tuple[Path, Path]:
    """A file of persons, and one with a row for each size."""
    draw = random.Random(len(sizes))
    areas = [",".join([key, "region", *(others or [])])]
    people = [f"person,{key},sex,age"]
    for place, size in enumerate(sizes):
        areas.append(",".join([f"p{place:05d}", f"r{place % 4}", *(str(draw.randint(1, 3)) for _ in others or [])]))
        people += [f"{len(people) + n},p{place:05d},{draw.choice('fm')},{draw.randint(0, 80)}" for n in range(size)]
    (folder / "areas.csv").write_text("\n".join(areas) + "\n", encoding="utf-8")
    (folder / "people.csv").write_text("\n".join(people) + "\n", encoding="utf-8")
    return folder / "people.csv", folder / "areas.csv"


def households(number: int) -> list[int]:
    draw = random.Random(number)
    return [draw.choice([1, 1, 2, 2, 3, 4, 5, 7]) for _ in range(number)]


def blocks(number: int) -> list[int]:
    """Blocks of a prairie: more than half are empty, most others have a dozen people, some hundreds."""
    draw = random.Random(number)
    return [0 if draw.random() < 0.55 else int(draw.lognormvariate(2.2, 1.1)) + 1 for _ in range(number)]


@pytest.mark.parametrize(("key", "others"), NAMES)
def test_a_file_of_households_is_no_file_of_areas(tmp_path: Path, key: str, others: list[str]) -> None:
    people, areas = two_files(tmp_path, households(80), key, others)
    for given_areas in ({"geography": areas}, {"place": key}):
        if "place" in given_areas and others:
            continue
        with pytest.raises(ConfideError) as refusal:
            drafting.new("tables", tmp_path / "out", from_file=people, **given_areas)
        (finding,) = refusal.value.findings
        assert finding.code == CODE
        assert "--household" in str(finding.remedy)
        assert "p0" not in str(finding)
    assert not (tmp_path / "out/spec.toml").exists()


@pytest.mark.parametrize("number", [12, 80, 400])
def test_true_areas_are_taken_however_small(tmp_path: Path, number: int) -> None:
    people, areas = two_files(tmp_path, blocks(number), "block")
    drafted = drafting.new("tables", tmp_path / "out", from_file=people, geography=areas)
    assert not [finding for finding in confide.check(drafted.spec).findings if finding.code == CODE]


@pytest.mark.parametrize(("key", "others", "number"), [("code", [], 80), ("code", ["TENURE"], 20), ("HHID", [], 20)])
def test_a_spec_that_somebody_wrote_is_refused_too(tmp_path: Path, key: str, others: list[str], number: int) -> None:
    """``check`` and ``run`` look at the files that a spec names, however it came to name them."""
    people, areas = two_files(tmp_path, [*blocks(60), 300], key)
    if key != "code":
        areas.write_text(areas.read_text().replace(key, "code", 1))
        people.write_text(people.read_text().replace(key, "code", 1))
    drafted = drafting.new("tables", tmp_path / "out", from_file=people, geography=areas)
    assert not confide.check(drafted.spec).errors
    two_files(tmp_path, [*households(number)], key, others)
    if key != "code":
        text = drafted.spec.read_text()
        drafted.spec.write_text(text.replace("[data]\n", f'[data]\ncolumns = {{ code = "{key}" }}\n', 1))
    assert [finding.code for finding in confide.check(drafted.spec).errors] == [CODE]
    with pytest.raises(ConfideError):
        confide.run(drafted.spec)
    assert not list(tmp_path.rglob("release"))


def test_the_doctor_says_so_and_writes_no_spec(tmp_path: Path) -> None:
    two_files(tmp_path, households(80), "HHID", ["TENURE"])
    answer = entered(tmp_path).get("/api/doctor", params={"file": "people.csv", "areas": "areas.csv"}).json()
    assert [finding["code"] for finding in answer["findings"]] == [CODE]


def test_a_place_that_holds_one_household_each_is_one(tmp_path: Path) -> None:
    """With more members than households have elsewhere: the records' own column of households tells."""
    people, _ = two_files(tmp_path, [9] * 60, "dwelling_point")
    lines = people.read_text().splitlines()
    people.write_text("\n".join([lines[0] + ",hh", *(f"{line},h{line.split(',')[1]}" for line in lines[1:])]))
    with pytest.raises(ConfideError, match="households or dwellings"):
        drafting.new("tables", tmp_path / "out", from_file=people, geography=tmp_path / "areas.csv")


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6) | st.integers(1, 12), min_size=50, max_size=120),
    empty=st.sampled_from([0, 1, 4, 40, 400]),
    crowd=st.sampled_from([0, 0, 1, 3, 30]),
)
def test_numbers_alone_tell_households_only_where_nothing_else_explains_them(
    sizes: list[int], empty: int, crowd: int
) -> None:
    """Places of which many are empty, or one in a hundred crowded, are areas, unless a name says otherwise."""
    places = [*sizes, *[13] * crowd]
    counts = PlaceCounts.of(places, len(places) + empty)
    mean = sum(places) / len(places)
    alike = mean <= 5 and crowd * 100 <= len(places) and len(places) >= 0.95 * (len(places) + empty)
    assert (household_areas("a.csv", ["code"], ["code", "region"], counts) is not None) == alike
    assert (household_areas("a.csv", ["hh"], ["hh"], counts) is not None) == (mean <= 10)
    assert (household_areas("a.csv", ["code"], ["code", "rooms"], counts) is not None) == (mean <= 10)


def test_a_small_file_of_areas_may_count_rooms() -> None:
    few, more = PlaceCounts.of([8] * 4, 4), PlaceCounts.of([8] * 20, 20)
    assert household_areas("a.csv", ["block"], ["block", "beds", "rooms"], few) is None
    assert household_areas("a.csv", ["block"], ["block", "beds", "rooms"], more) is not None


def test_what_is_called_a_household() -> None:
    for name in (
        "hh",
        "HH_ID",
        "household",
        "Household number",
        "id ménage",
        "hushållsnr",
        "no_hogar",
        "hhno",
        "famil",
    ):
        assert identifies_households(name), name
    for name in ("block", "hhincome", "houses", "family doctor", "commune", "county", "person", "age", "id", ""):
        assert not identifies_households(name), name
