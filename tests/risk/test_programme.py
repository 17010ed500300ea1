"""Programme files: the European one, and mistakes in those of a user."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from confide.errors import ParameterError, SpecError
from confide.lab.risk.bounded_noise import BreakdownRule, load_programme

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_shared = [
    pytest.mark.shared,
    pytest.mark.skipif(
        not (SHARED / "eu_census_2021_tables.csv").exists(), reason="../shared/data has no EU programme"
    ),
]


def test_the_european_programme() -> None:
    europe = load_programme("eu-2021")
    assert sum(len(tables) for tables in europe.tables.values()) == 119
    persons = europe.of_unit()
    assert len(persons) == 103
    assert persons["9.2"] == ("GEO.M", "SEX", "AGE.M", "YAE.H")
    assert [number for number, table in persons.items() if "SEX" not in table] == ["13.3", "13.4", "13.5"]
    used = {name for table in persons.values() for name in table}
    assert len(used) == 37
    assert {name for tables in europe.tables.values() for table in tables.values() for name in table} | {
        "NOR",
        "DRM",
    } == set(europe.breakdowns)
    areas = europe.areas("MT")
    assert areas == {"NUTS1": 1, "NUTS2": 1, "NUTS3": 2, "LAU": 68}
    assert europe.areas() == {"NUTS1": 16, "NUTS2": 38, "NUTS3": 401, "LAU": 11130}
    assert europe.cells(persons["3.1"], areas, margins=False) == 68 * 2 * 21
    assert europe.cells(persons["3.1"], areas) == 69 * 3 * 22


def test_regions_add_up_to_those_of_the_union() -> None:
    """NUTS 2016 has 104, 281 and 1,348 regions, of which 12, 41 and 179 were in the United Kingdom."""
    countries = load_programme("eu-2021").countries or {}
    assert len(countries) == 27
    sums = [sum(areas[name] for areas in countries.values()) for name in ("NUTS1", "NUTS2", "NUTS3")]
    assert sums == [104 - 12, 281 - 41, 1348 - 179]


def test_levels_under_both_rules() -> None:
    europe = load_programme("eu-2021")
    areas = europe.areas("DE")
    assert [(level.name, level.size) for level in europe.levels("ROY", areas)] == [("ROY", 6)]
    inner = {
        "ROY": [("ROY:4", 4), ("ROY:5", 5), ("ROY", 6)],
        "GEO.L": [("GEO.L:NUTS1", 16), ("GEO.L", 38)],
        "LPW.L": [("LPW.N", 5), ("LPW.L:NUTS1+5", 21), ("LPW.L:NUTS1+5(2)", 21), ("LPW.L", 43)],
        "POB.L": [("POB.L", 5)],
        "GEO.N": [],
    }
    for name, expected in inner.items():
        assert [
            (level.name, level.size) for level in europe.levels(name, areas, BreakdownRule.INNER_LEVELS)
        ] == expected


def test_own_areas_and_left_out_breakdowns() -> None:
    europe = load_programme("eu-2021")
    assert europe.areas("MT", {"LAU": 70})["LAU"] == 70
    own = {"NUTS1": 1, "NUTS2": 7, "NUTS3": 26, "LAU": 2100}
    assert europe.areas("CH", own) == own
    for country, numbers in (("CH", None), ("CH", {"LAU": 5}), (None, {"COUNTY": 3})):
        with pytest.raises(ParameterError):
            europe.areas(country, numbers)
    assert europe.leave_out(["GEO.M"]).of_unit()["9.2"] == ("SEX", "AGE.M", "YAE.H")
    with pytest.raises(ParameterError, match="breakdown"):
        europe.leave_out(["FOO"])
    with pytest.raises(ParameterError, match="unit"):
        europe.of_unit("dogs")


def places(folder: Path, text: str) -> list[str | None]:
    (folder / "bad.toml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_programme("bad.toml", folder)
    assert all(finding.where.file == "bad.toml" and finding.remedy for finding in caught.value.findings)
    assert {finding.code for finding in caught.value.findings} == {"bad-programme"}
    return sorted({finding.where.path for finding in caught.value.findings})


BAD = """
id = 3
colour = "red"
geography = ["AREA"]
unit = "dogs"
country = "ZZ"
with_inner_levels = ["NONE"]
[countries]
AA = [1, 2]
BB = [0]
[breakdowns]
SEX = 2
AGE = { categories = "PLACE", shade = 1 }
JOB = -3
[tables.persons]
1 = ["SEX AGE", "SEX SEX", "SEX WORK"]
"""


def test_every_value_of_the_wrong_form_is_found_at_once(tmp_path: Path) -> None:
    assert places(tmp_path, BAD) == ["breakdowns.AGE.shade", "colour", "countries.BB[0]", "id"]


def test_every_mistake_of_right_values_is_found_at_once(tmp_path: Path) -> None:
    text = BAD.replace("id = 3", "").replace('colour = "red"', "").replace(", shade = 1", "").replace("BB = [0]", "")
    assert places(tmp_path, text) == [
        "breakdowns.AGE",
        "breakdowns.JOB",
        "countries.AA",
        "country",
        "tables.persons.1",
        "unit",
        "with_inner_levels",
    ]


@pytest.mark.parametrize(
    "text", ["", "id = 'x'", "[breakdowns]\nA = 2", "tables = 3", "[tables]\npersons = 4", "x = ["]
)
def test_files_that_are_no_programmes(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(SpecError):
        load_programme("bad.toml", tmp_path)
    with pytest.raises(SpecError, match="no such file"):
        load_programme("none.toml", tmp_path)


def rows(name: str) -> list[dict[str, str]]:
    with (SHARED / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


class TestShared:
    """The regulation, against a second transcription of it, and against the recomputed tables of the paper."""

    pytestmark = needs_shared

    def test_tables_and_sizes(self) -> None:
        europe = load_programme("eu-2021")
        mine = {number: " ".join(table) for tables in europe.tables.values() for number, table in tables.items()}
        theirs = {
            row["table"]: " ".join(word.split("|")[0] for word in row["breakdowns"].split())
            for row in rows("eu_census_2021_tables.csv")
        }
        assert mine == theirs
        sizes = {row["breakdown"]: row["n_leaf_categories_excl_total"] for row in rows("eu_census_2021_breakdowns.csv")}
        assert {
            name: {"LAU": "LAU"}.get(breakdown.categories, breakdown.categories)
            for name, breakdown in europe.breakdowns.items()
        } == sizes

    def test_table_one(self) -> None:
        from confide.lab.risk.bounded_noise import CountingScheme, representations
        from confide.lab.risk.bounded_noise.averaging import parse_target

        europe = load_programme("eu-2021")
        for row in rows("bach_table1_check.csv"):
            goal = parse_target(row["statistic"].replace("+", " "))
            same_noise = row["spsn"] == "True"
            plain = representations(europe, europe.areas("DE"), CountingScheme(BreakdownRule.PLAIN, same_noise), goal)[
                goal
            ]
            assert plain.t == int(row["t_plain_names"])
            for country in ("DE", "MT"):
                inner = representations(
                    europe, europe.areas(country), CountingScheme(BreakdownRule.INNER_LEVELS, same_noise), goal
                )[goal]
                assert inner.t == int(row["t_reconstructed"])
                assert inner.k == pytest.approx(float(row[f"k_{country}_rec"]), rel=4e-4)

    def test_table_two(self) -> None:
        from confide.lab.risk.bounded_noise import CountingScheme, representations
        from confide.lab.risk.bounded_noise.averaging import parse_target

        europe = load_programme("eu-2021")
        seen = 0
        for row in rows("bach_table2_check.csv"):
            goal = parse_target(row["statistic"].replace("+", " "))
            dropped = "dropped" in row["note"]
            tables = europe.leave_out(["GEO.L"]) if dropped else europe
            count = CountingScheme(BreakdownRule.INNER_LEVELS, row["spsn"] == "True")
            mean = representations(tables, europe.areas(row["country"]), count, goal)[goal].mean()
            assert (mean.t, mean.k) == (int(row["t_at_stop"]), int(row["K_at_stop"]))
            assert mean.ratio == pytest.approx(float(row["rec_greedy_k_over_t2"]), abs=6e-6)
            seen += 1
        assert seen == 14
