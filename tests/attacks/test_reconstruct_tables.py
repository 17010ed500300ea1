"""A folder of tables: its description, its files, and findings that name file, row and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.errors import ConfideError, Finding
from confide.lab.attacks.reconstruction import read_source, read_tables, reconstruct

PROGRAMMERS = re.compile(
    "(?i)input should|field required|extra inputs|valid (string|list|dict)|instance of|value error"
)
"""How the library that checks values speaks, which is not for users."""

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
NO_COLUMN = ("no-column", "total.csv", None)


def write(folder: Path, **changes: str) -> Path:
    texts = {"tables.toml": DESCRIPTION, "total.csv": TOTAL, "sex-age.csv": SEX_AGE, "ages.csv": AGES}
    for name, text in texts.items():
        (folder / name).write_text(changes.get(name.replace(".", "_").replace("-", "_"), text))
    return folder


def findings(folder: Path) -> list[tuple[str, str | None, int | None]]:
    with pytest.raises(ConfideError) as caught:
        read_tables(folder)
    for finding in caught.value.findings:
        assert finding.found, finding
        assert finding.expected, finding
        assert finding.remedy, finding
        assert not PROGRAMMERS.search(str(finding)), finding
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
        ({"total_csv": "street,count,count\n1a,2,2\n1b,1,1\n"}, ("column-twice", "total.csv", None)),
        ({"total_csv": "street,count\n1a,2\n,1\n"}, ("no-unit", "total.csv", 2)),
        ({"total_csv": "street,count\n1a,2\n1b,9e15\n"}, ("not-a-count", "total.csv", 2)),
        (
            {"total_csv": "street,count\n", "sex_age_csv": "street,sex,age,count\n", "ages_csv": "town,age,count\n"},
            ("geography", None, None),
        ),
        ({"tables_toml": DESCRIPTION.replace('name = "total"', 'name = "total"\ncount = "N"')}, NO_COLUMN),
        (
            {"tables_toml": DESCRIPTION.replace('name = "total"', 'name = "total"\ncolumns = { street = "S" }')},
            NO_COLUMN,
        ),
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


def problem(folder: Path, toml: str) -> Finding:
    """The only finding of a description."""
    assert len(findings(write(folder, tables_toml=toml))) == 1
    with pytest.raises(ConfideError) as caught:
        read_tables(folder)
    return caught.value.findings[0]


@pytest.mark.parametrize(
    ("old", "new", "line", "path", "expected"),
    [
        ('title = "Two streets"', "title = 3", 2, "title", "text in quotes"),
        ('queries = ["total"]', 'queries = "total"', 20, "tables[0].queries", "a list, in square brackets"),
        ('queries = ["total"]', "queries = []", 20, "tables[0].queries", "at least one"),
        ('queries = ["total"]', "queries = [1]", 20, "tables[0].queries[0]", "text in quotes"),
        ('queries = ["total"]', "", 17, "tables[0].queries", "a value for tables[0].queries"),
        ('name = "total"', 'name = ""', 18, "tables[0].name", "at least one character"),
        ("digits = 1", "digits = 0", 15, "geography.levels[0].digits", "at least 1"),
        ("digits = 1", 'digits = "1"', 15, "geography.levels[0].digits", "a whole number"),
        ('level = "town"', 'level = "town"\nabsent = "maybe"', 31, "tables[2].absent", "'zero' or 'unknown'"),
        ('level = "town"', 'level = "town"\nvariance = 2.5', 31, "tables[2].variance", "an exact number: an"),
        ('level = "town"', 'level = "town"\nbound = true', 31, "tables[2].bound", "a whole number"),
        ('queries = ["total"]', 'queries = ["total", "total"]', 20, "tables[0].queries[1]", "each query once"),
        ('name = "total"', 'name = "total"\ncolumns = { height = "x" }', 19, "tables[0].columns.height", "one of sex"),
        ('name = "town"', 'name = "block"', 15, "geography.levels[0].name", "names that differ"),
    ],
)
def test_a_description_is_mended_by_what_the_finding_says(
    tmp_path: Path, old: str, new: str, line: int, path: str, expected: str
) -> None:
    text = DESCRIPTION.replace('level = "town"\n', "") if path.endswith("levels[0].name") else DESCRIPTION
    found = problem(tmp_path, text.replace(old, new, 1))
    assert (found.where.line, found.where.path) == (line, path)
    assert found.expected is not None
    assert found.expected.startswith(expected)


def test_an_unknown_key_is_guessed(tmp_path: Path) -> None:
    found = problem(tmp_path, DESCRIPTION.replace("block = ", "blok = "))
    assert found.remedy == 'did you mean "block"?'
    assert found.expected == "one of block, blocks, levels"


@pytest.mark.parametrize(
    "where",
    ["{}", "{ sex = [] }", "{ age = [1.5] }", '{ age = ["9..3"] }', '{ age = ["0..99999999999"] }', "{ h = [1] }"],
)
def test_zeros_that_say_nothing_or_everything(tmp_path: Path, where: str) -> None:
    assert problem(tmp_path, DESCRIPTION + f"\n[[zeros]]\nwhere = {where}\n").code == "bad-description"


@pytest.mark.parametrize("name", ["age-bins", "no-such"])
def test_a_schema_that_is_none(tmp_path: Path, name: str) -> None:
    text = f'schema = "{name}"\n[[tables]]\nname = "t"\nfile = "total.csv"\nqueries = ["sex"]\n'
    found = problem(tmp_path, text)
    assert found.code == "no-schema"
    assert (found.where.file, found.where.path) == ("tables.toml", "schema")
    assert "age-bins" not in str(found.expected)


def test_an_attribute_that_is_none(tmp_path: Path) -> None:
    text = DESCRIPTION.replace('[attributes.sex]\nlevels = [[1, "men"], [2, "women"]]', '[attributes]\nsex = "x"')
    found = problem(tmp_path, text)
    assert (found.where.file, found.where.path) == ("tables.toml", "attributes.sex")


def test_labels_of_a_row_that_is_no_cell_are_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfideError) as caught:
        read_tables(write(tmp_path, sex_age_csv=SEX_AGE.replace("1a,men,all", "1a,Men,all")))
    assert caught.value.findings[0].found == "sex 'Men', age 'all'; 1 such row"


def test_a_named_column_hides_one_of_our_name(tmp_path: Path) -> None:
    text = DESCRIPTION.replace('name = "total"', 'name = "total"\ncount = "N"')
    published = read_tables(write(tmp_path, tables_toml=text, total_csv="street,count,N\n1a,70,2\n1b,70,1\n"))
    assert reconstruct(published, processes=1).persons == 3


def test_parquet_of_every_type(tmp_path: Path) -> None:
    text = DESCRIPTION.replace("total.csv", "total.parquet")
    codes = pa.array(["1a", "1b"])
    for counts in (
        pa.array([2, 1], pa.int32()),
        pa.array([2, 1], pa.uint64()),
        pa.array([2.0, 1.0]),
        pa.array([2, 1]).dictionary_encode(),
        pa.array(["2", "1"], pa.large_string()),
    ):
        pq.write_table(pa.table({"street": codes.dictionary_encode(), "count": counts}), tmp_path / "total.parquet")
        assert reconstruct(read_tables(write(tmp_path, tables_toml=text)), processes=1).persons == 3
    for column, code in ((pa.array([[2], [1]]), "column-type"), (pa.array([2, -1]), "not-a-count")):
        pq.write_table(pa.table({"street": codes, "count": column}), tmp_path / "total.parquet")
        assert findings(tmp_path)[0][0] == code
    pq.write_table(pa.table({"street": ["1a", None], "count": [2, 1]}), tmp_path / "total.parquet")
    assert findings(tmp_path) == [("no-unit", "total.parquet", 2)]


@pytest.mark.parametrize(
    ("blocks", "row", "what"),
    [
        ("street,town\n1a,1\n1b,1\n1a,1\n", 3, "listed twice"),
        ("street,town\n1a,1\n1b,\n", 2, "no code in the column 'town'"),
        ("street,town,region\n1a,1,x\n1b,2,x\n1c,2,y\n", None, "do not lie in units of"),
    ],
)
def test_a_file_of_blocks_that_is_wrong(tmp_path: Path, blocks: str, row: int | None, what: str) -> None:
    levels = '{ name = "town", column = "town" }'
    if "region" in blocks:
        levels += ', { name = "region", column = "region" }'
    text = DESCRIPTION.replace('{ name = "town", digits = 1 }', levels)
    text = text.replace("[geography]", '[geography]\nblocks = "streets.csv"')
    (tmp_path / "streets.csv").write_text(blocks)
    found = problem(tmp_path, text)
    assert (found.code, found.where.row) == ("geography", row)
    assert what in found.what
