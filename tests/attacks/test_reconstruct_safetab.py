"""Releases of SafeTab-P under attack: every group by itself, over areas that nest."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.commands import codes, run_json
from tests.kits.safetab_releases import read, write_people

from confide import api, official_runs
from confide.lab.attacks.reconstruction import read_source, reconstruct
from confide.lab.published.safetab import GroupAreas, levels_of
from confide.mechanisms.safetab.output.reading import group_key
from confide.mechanisms.safetab.output.verify import read_planned
from confide.mechanisms.safetab.settings import REGION_TYPES
from confide.releases.folder import read_manifest
from confide.releases.ledger import Ledger

KEY = "31" * 32
NEST = {"USA": 0, "STATE": 2, "COUNTY": 5, "TRACT": 11}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groups")
    write_people(folder / "people")
    return folder


def release(people: Path, name: str, *, times: int = 1, output: str = "", regions: str = ".*") -> Path:
    """A run with budgets larger by a factor, with more lines of its output, and of some region types alone."""
    spec = official_runs.convert(people / "people/parameters", people / "people/data", people / name)
    text, _, end = spec.read_text().partition("[output]")
    assert end
    head, *levels = re.split(r"(?m)^\[\[levels\]\]\n", text)
    kept = [level for level in levels if re.search(f'region = "{regions}"', level)]
    kept = [
        re.sub(r'budget = "(.*?)"', lambda found: f'budget = "{times * Fraction(found[1])}"', each) for each in kept
    ]
    spent = sum(Fraction(found) for level in kept for found in re.findall(r'budget = "(.*?)"', level))
    head = re.sub(r'(?m)^budget = ".*?"', f'budget = "{spent}"', head)
    for line in output.split("\n"):
        end = re.sub(rf"(?m)^(# )?{line.partition(' ')[0]} = .*$", "", end) if line else end
    spec.write_text("[[levels]]\n".join([head, *kept]) + f"[output]\n{output}{end}")
    ledger = spec.parent / "data-set.ledger"
    ledger.unlink()
    Ledger.open_new(ledger, data_set="people", definition="zcdp", neighbours="add-remove", budget=spent)
    return api.run(spec, processes=1, insecure_key=KEY).release


def quiet(people: Path, **more: Any) -> Path:
    """A release in which noise is all but gone."""
    return release(people, more.pop("name", "quiet"), times=10**7, **more)


def test_without_noise_every_figure_is_met(people: Path) -> None:
    folder = quiet(people)
    published = read_source(folder)
    assert not published.exact
    found = reconstruct(published, processes=1)
    assert found.level == "nation"
    assert found.unsolved == 0
    assert found.deviation == 0
    rows = found.records()
    totals = Counter[tuple[str, str]]()
    for code, group in zip(rows.column("geocode").to_pylist(), rows.column("group").to_pylist(), strict=True):
        for width in NEST.values():
            totals["1" if width == 0 else code[:width], group] += width <= len(code) or width == 0
    shown = {
        (row["REGION_ID"], row["ITERATION_CODE"]): row["COUNT"]
        for row in read(folder, "t1").to_pylist()
        if row["REGION_TYPE"] in NEST
    }
    assert len(shown) > 100
    assert {key: count for key, count in totals.items() if key in shown and count} == {
        key: count for key, count in shown.items() if count
    }
    cells = Counter(
        (row["geocode"], row["group"], str(row["sex"]), row["age_low"], row["age_high"])
        for row in rows.to_pylist()
        if row["geolevel"] == "tract"
    )
    fine = [row for row in read(folder, "t2").to_pylist() if row["REGION_TYPE"] == "TRACT" and row["AGESTART"] != "*"]
    assert fine
    for row in fine:
        first, last = int(row["AGESTART"]), int(row["AGEEND"])
        inside = [
            count
            for (area, group, sex, low, high), count in cells.items()
            if (area, group, sex) == (row["REGION_ID"], row["ITERATION_CODE"], row["SEX"])
            and first <= low
            and high <= last
        ]
        assert sum(inside) == row["COUNT"]


def test_with_noise_it_is_a_fit_that_says_so(people: Path, tmp_path: Path) -> None:
    folder = release(people, "noisy", times=20)
    answer = run_json("attack", "reconstruct", folder, "--out", tmp_path / "records.parquet", "--processes", "1")
    assert answer["ok"]
    assert answer["exact"] is False
    assert answer["deviation"] > 0
    assert answer["mean_solution_variability"] is None
    assert 0 < answer["guessed_persons"] <= answer["persons"]
    assert any("overlap" in note for note in answer["notes"])
    assert any("PLACE" in note for note in answer["notes"])
    assert all(re.fullmatch(r"\d{4}:\d+", block) for block in answer["solution_variability"])
    rows = pq.read_table(tmp_path / "records.parquet")
    assert rows.num_rows == answer["persons"]
    assert rows.column_names[:4] == ["group", "group_name", "geolevel", "geocode"]
    in_state = Counter(rows.filter(rows.column("geolevel").to_numpy() != "nation").column("group").to_pylist())
    for row in read(folder, "t1").to_pylist():
        if row["REGION_TYPE"] == "USA" and row["COUNT"] > 500:
            assert in_state[row["ITERATION_CODE"]] == pytest.approx(row["COUNT"], rel=0.1)


@pytest.mark.slow
def test_groups_are_chosen_by_code(people: Path, tmp_path: Path) -> None:
    folder = quiet(people, name="chosen")
    group = read(folder, "t1").column("ITERATION_CODE")[0].as_py()
    whole = reconstruct(read_source(folder), processes=1).records()
    some = reconstruct(read_source(folder, groups=[group]), processes=1).records()
    # Figures decide how many people of a group an area has; what none tells is a walk's, by the number of the unit.
    keys = ["geocode", "group"]
    mine, theirs = (Counter(zip(*(t.column(k).to_pylist() for k in keys), strict=True)) for t in (some, whole))
    assert mine == Counter({key: count for key, count in theirs.items() if key[1] == group})
    assert codes("attack", "reconstruct", str(folder), "--group", "0007") == ["no-group"]
    (tmp_path / "tables.toml").write_text("")
    assert codes("attack", "reconstruct", str(tmp_path), "--group", group) == ["no-groups"]
    assert codes("attack", "reconstruct", str(tmp_path), "--schema", "other.toml") == ["schema-twice"]


@pytest.mark.slow
def test_copies_of_figures_count_once(people: Path) -> None:
    folder = quiet(people, name="copies", output='coterminous = "derived"')
    sets = read_manifest(folder)["plan"]["question"]["coterminous"]
    assert [area for areas in sets for area in areas if area[0] in NEST and isinstance(area[1], str)]
    found = reconstruct(read_source(folder), processes=1)
    assert found.deviation == 0
    both = [{kind: code for kind, code in areas if kind in NEST} for areas in sets]
    larger = {codes_[kind] for codes_ in both for kind in list(codes_)[:-1]}
    assert larger
    assert not larger & set(found.records().column("geocode").to_pylist())


def test_the_variance_is_that_of_the_level(people: Path) -> None:
    folder = release(people, "margins", output='noise_margin = "0.9"')
    published = read_source(folder)
    planned = read_planned(read_manifest(folder)["plan"])
    names = {"nation": "USA"}
    for depth, called in enumerate(published.geography.levels):
        region = REGION_TYPES.index(names.get(called, called.upper()))
        laws = [law for level in planned if level.region == region for law in (level.law, level.total_law) if law]
        expected = {round(law.variance(), 6) for law in laws}
        found = {round(float(m.variance), 6) for m in published.marginals if m.depth == depth and m.variance}
        assert found
        assert found <= expected


def fewer_columns(file: Path) -> None:
    if file.suffix == ".csv":
        file.write_text("REGION_ID\n1\n")
    else:
        table = pq.read_table(file)
        pq.write_table(table.select(table.column_names[:-1]), file)


def again(file: Path) -> None:
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        pq.write_table(pa.concat_tables([table, table]), file)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize("change", [fewer_columns, again, cut, Path.unlink])
@pytest.mark.slow
def test_a_release_that_is_not_whole_is_refused(people: Path, change: Callable[[Path], None]) -> None:
    folder = people / f"changed-{change.__name__}"
    shutil.copytree(release(people, f"whole-{change.__name__}", regions="STATE"), folder)
    for file in (folder / "tables").glob("T01001.*"):
        change(file)
    assert codes("attack", "reconstruct", folder) == ["release-tables"]


def key(kind: str, area: str, code: str = "1001") -> int:
    return group_key(kind, area, code)


def labels(areas: GroupAreas) -> list[dict[str, str]]:
    geography = areas.geography({1001: "Northern"})
    return [
        {name: geography.units[d][geography.unit_of_block[d][b]] for d, name in enumerate(geography.levels)}
        for b in range(len(geography.blocks))
    ]


TREE = [
    key("USA", "1"),
    key("STATE", "01"),
    key("COUNTY", "01001"),
    key("TRACT", "01001000100"),
    key("TRACT", "01001000200"),
    key("TRACT", "02020000100"),
    key("PR-STATE", "72"),
    key("PR-TRACT", "72001000100"),
]
LEVELS = ("TRACT", "COUNTY", "STATE", "USA")


def test_areas_lie_in_one_another_and_the_rest_has_the_code_of_the_area() -> None:
    areas = GroupAreas.of(np.array(TREE), LEVELS)
    assert areas.split == 0
    found = {row["tract"]: row for row in labels(areas)}
    assert found["1001:01001000200"] == {
        "tract": "1001:01001000200",
        "county": "1001:01001",
        "state": "1001:01",
        "nation": "1001:1",
    }
    assert found["1001:01001"] == {
        "tract": "1001:01001",
        "county": "1001:01001",
        "state": "1001:01",
        "nation": "1001:1",
    }
    assert found["1001:01"]["county"] == "1001:01"
    assert found["1001:02020000100"]["nation"] == "1001:1"
    assert found["1001:72001000100"]["nation"] == "1001:72" == found["1001:72"]["nation"]
    depth, unit = areas.place(np.array(TREE))
    assert depth.tolist() == [3, 2, 1, 0, 0, 0, 2, 0]
    assert [areas.geography({}).units[d][u] for d, u in zip(depth, unit, strict=True)][:3] == [
        "1001:1",
        "1001:01",
        "1001:01001",
    ]


def test_too_many_blocks_are_fitted_area_by_area() -> None:
    areas = GroupAreas.of(np.array(TREE), LEVELS, most=3)
    assert areas.split == 2  # nation and state 01 have six and four blocks
    found = {row["tract"]: row for row in labels(areas)}
    assert "1001:01" not in found
    assert found["1001:01001000100"]["nation"] == found["1001:01001"]["nation"] == "1001:01001"
    assert found["1001:02020000100"]["nation"] == "1001:02"
    assert found["1001:72001000100"]["nation"] == "1001:72"
    _, unit = areas.place(np.array(TREE))
    assert (unit < 0).tolist() == [True, True, False, False, False, False, False, False]


def test_region_types_that_nest_or_else_the_first() -> None:
    assert levels_of(["USA", "STATE", "PLACE", "PR-TRACT"]) == ("TRACT", "STATE", "USA")
    assert levels_of(["PLACE", "AIANNH"]) == ("PLACE",)


def test_places_alone_are_attacked_as_they_are(people: Path) -> None:
    published = read_source(release(people, "places", regions="PLACE"))
    assert published.geography.levels == ("place",)
    assert published.marginals
