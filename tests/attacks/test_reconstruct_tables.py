"""A folder of tables: its description, its files, and findings that name file, row and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from confide.attacks.reconstruction import read_source, read_tables, reconstruct
from confide.errors import ConfideError

DESCRIPTION = """
title = "Two streets"

[attributes.sex]
levels = [[1, "men"], [2, "women"]]

[attributes.age]
range = [0, 9]

[recodes.age.half]
starts = [0, 5]

[geography]
block = "street"
levels = [{ name = "town", digits = 1 }]

[[tables]]
name = "total"
file = "total.csv"
queries = ["total"]

[[tables]]
name = "sex-age"
file = "sex-age.csv"
queries = ["sex*age:half", "sex"]

[[tables]]
name = "ages"
file = "ages.csv"
level = "town"
queries = ["age"]
"""
TOTAL = "street,count\n1a,2\n1b,1\n"
SEX_AGE = """street,sex,age,count
1a,men,0 to 4,1
1a,women,5 and over,1
1a,men,all,1
1a,2,all,1
1b,women,0 to 4,1
1b,women,all,1
"""
AGES = "town,age,count\n1,0,1\n1,3,1\n1,7,1\n"


BAD = ("bad-description", "tables.toml", None)


def write(folder: Path, **changes: str) -> Path:
    texts = {"tables.toml": DESCRIPTION, "total.csv": TOTAL, "sex-age.csv": SEX_AGE, "ages.csv": AGES}
    for name, text in texts.items():
        (folder / name).write_text(changes.get(name.replace(".", "_").replace("-", "_"), text))
    return folder


def findings(folder: Path) -> list[tuple[str, str | None, int | None]]:
    with pytest.raises(ConfideError) as caught:
        read_tables(folder)
    assert all(finding.remedy for finding in caught.value.findings)
    return [(finding.code, finding.where.file, finding.where.row) for finding in caught.value.findings]


def test_a_folder_by_hand(tmp_path: Path) -> None:
    published = read_source(write(tmp_path))
    assert published.source == "Two streets"
    assert published.tables == ("total", "sex-age", "ages")
    assert published.geography.levels == ("block", "town")
    assert published.geography.units == (("1a", "1b"), ("1",))
    found = reconstruct(published, processes=1)
    rows = found.records().to_pylist()
    assert [(row["geocode"], row["sex"], row["age_bin"]) for row in rows] == [
        ("1a", 1, "0 to 4"),
        ("1a", 2, "5 and over"),
        ("1b", 2, "0 to 4"),
    ]
    assert rows[1]["age"] == 7  # the town has one person of 5 and over
    assert {row["solution_variability"] for row in rows} == {0.0}
    assert found.as_dict()["solution_variability"] == {"1a": 0.0, "1b": 0.0}


def test_without_geography(tmp_path: Path) -> None:
    text = DESCRIPTION.replace('[geography]\nblock = "street"\nlevels = [{ name = "town", digits = 1 }]\n', "")
    text = text.replace('level = "town"\n', "")
    sex_age = "sex,age,count\nmen,0 to 4,1\nwomen,5 and over,1\nwomen,0 to 4,1\nmen,all,1\nwomen,all,2\n"
    folder = write(
        tmp_path, tables_toml=text, total_csv="count\n3\n", sex_age_csv=sex_age, ages_csv="age,count\n0,1\n3,1\n7,1\n"
    )
    found = reconstruct(read_tables(folder), processes=1)
    assert found.persons == 3
    assert set(found.records().column("geocode").to_pylist()) == {"all"}


def test_levels_by_a_file_of_blocks(tmp_path: Path) -> None:
    text = DESCRIPTION.replace('{ name = "town", digits = 1 }', '{ name = "town", column = "town" }')
    text = text.replace("[geography]", '[geography]\nblocks = "streets.csv"')
    (tmp_path / "streets.csv").write_text("street,town\n1a,1\n1b,1\n9z,1\n")
    published = read_tables(write(tmp_path, tables_toml=text))
    assert published.geography.blocks == ("1a", "1b", "9z")
    assert reconstruct(published, processes=1).as_dict()["empty_blocks"] == 1
    (tmp_path / "streets.csv").write_text("street,town\n1a,1\n")
    assert findings(tmp_path)[0][0] == "geography"


def test_blank_counts_are_suppressed_and_absent_ones_can_be(tmp_path: Path) -> None:
    hidden = SEX_AGE.replace("1a,men,0 to 4,1", "1a,men,0 to 4,").replace(
        "1a,women,5 and over,1", "1a,women,5 and over,"
    )
    hidden += "1a,men,5 and over,\n1a,women,0 to 4,\n"
    published = read_tables(write(tmp_path, sex_age_csv=hidden))
    found = reconstruct(published, processes=1)
    assert found.variability[0] is not None
    assert found.variability[0].at_most == 100.0  # he is old and she young, or the other way round
    text = DESCRIPTION.replace(
        'queries = ["sex*age:half", "sex"]', 'absent = "unknown"\nqueries = ["sex*age:half", "sex"]'
    )
    rows = "street,sex,age,count\n1a,men,all,1\n1a,women,all,1\n1b,women,0 to 4,1\n"
    looser = reconstruct(read_tables(write(tmp_path, tables_toml=text, sex_age_csv=rows)), processes=1)
    assert looser.variability[0] is not None
    assert looser.variability[0].at_most == 100.0
    assert looser.variability[1] is not None
    assert looser.variability[1].unique


def test_noise_is_declared(tmp_path: Path) -> None:
    text = DESCRIPTION.replace('name = "sex-age"', 'name = "sex-age"\nvariance = "2.5"')
    noisy = SEX_AGE.replace("1a,men,0 to 4,1", "1a,men,0 to 4,-1.5")
    published = read_tables(write(tmp_path, tables_toml=text, sex_age_csv=noisy))
    assert not published.exact
    found = reconstruct(published, processes=1)
    assert found.level == "block"
    assert found.persons == 3  # the totals are exact
    assert found.deviation > 0
    assert BAD in findings(write(tmp_path, tables_toml=text.replace('"2.5"', "2.5"), sex_age_csv=noisy))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"total_csv": "street,count\n1a,3\n1b,1\n"}, ("totals-differ", None, None)),
        ({"ages_csv": "town,age,count\n1,0,1\n"}, ("totals-differ", None, None)),
        ({"total_csv": "street,number\n1a,2\n"}, ("no-column", "total.csv", None)),
        ({"total_csv": "street,count\n1a,2\n1b,x\n"}, ("not-a-number", "total.csv", 2)),
        ({"total_csv": "street,count\n1a,2\n1b,-1\n"}, ("not-a-count", "total.csv", 2)),
        ({"total_csv": "street,count\n1a,2\n1b,1.5\n"}, ("not-a-count", "total.csv", 2)),
        ({"total_csv": "street,count\n1a,2\n1b,1\n1a,2\n"}, ("cell-twice", "total.csv", 3)),
        ({"sex_age_csv": SEX_AGE.replace("1a,men,all", "1a,man,all")}, ("no-cell", "sex-age.csv", 3)),
        ({"sex_age_csv": SEX_AGE.replace("1a,men,all", "1a,all,all")}, ("no-cell", "sex-age.csv", 3)),
        ({"ages_csv": AGES + "2,5,1\n"}, ("no-blocks", "ages.csv", 4)),
        ({"ages_csv": ""}, ("bad-table", "ages.csv", None)),
        ({"tables_toml": DESCRIPTION.replace("total.csv", "none.csv")}, ("bad-table", "none.csv", None)),
        ({"tables_toml": DESCRIPTION.replace("total.csv", "none.xls")}, ("bad-table", "none.xls", None)),
        (
            {"tables_toml": DESCRIPTION.replace('level = "town"', 'level = "city"')},
            BAD,
        ),
        ({"tables_toml": DESCRIPTION.replace("age:half", "age:third")}, BAD),
        (
            {"tables_toml": DESCRIPTION.replace('name = "ages"', 'name = "total"')},
            BAD,
        ),
        (
            {"tables_toml": DESCRIPTION.replace("[recodes.age", "[recodes.height")},
            BAD,
        ),
        ({"tables_toml": 'schema = "persons"\n' + DESCRIPTION}, BAD),
        ({"tables_toml": "nothing = 1\n"}, BAD),
        ({"tables_toml": "[["}, BAD),
        (
            {"tables_toml": DESCRIPTION + "\n[[zeros]]\nwhere = { age = [99] }\n"},
            BAD,
        ),
    ],
)
def test_every_problem_is_a_finding(
    tmp_path: Path, changes: dict[str, str], expected: tuple[str, str | None, int | None]
) -> None:
    assert expected in findings(write(tmp_path, **changes))


def test_all_problems_of_the_files_at_once(tmp_path: Path) -> None:
    found = findings(write(tmp_path, total_csv="x\n1\n", ages_csv="y\n1\n"))
    assert {file for _, file, _ in found} == {"total.csv", "ages.csv"}


def test_totals_that_differ_say_where_and_how(tmp_path: Path) -> None:
    folder = write(tmp_path, total_csv="street,count\n1a,3\n1b,1\n")
    with pytest.raises(ConfideError) as caught:
        read_tables(folder)
    first = caught.value.findings[0]
    assert "block 1a" in first.what
    assert first.found is not None
    assert first.found.startswith("3 and 2")
    assert "total (total)" in str(first.where)


def test_a_folder_without_tables(tmp_path: Path) -> None:
    with pytest.raises(ConfideError) as caught:
        read_source(tmp_path)
    assert caught.value.findings[0].code == "no-tables"
