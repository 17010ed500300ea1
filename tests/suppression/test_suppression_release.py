"""A release by cell suppression from records to verified files: counts with areas, hierarchies, magnitudes."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import remake
from tests.kits.labelled import read_labelled
from typer.testing import CliRunner

import confide
from confide import api, drafting
from confide.cli.main import app
from confide.errors import ConfideError
from confide.mechanisms.suppression.problem import contributions_of, dominance, threshold
from confide.mechanisms.suppression.programme import of_attribute

SCHEMA = """
id = "town"
provenance = "made up for tests"

[attributes.quarter]
title = "quarter of the town"
levels = [["N1", "north, inner"], ["N2", "north, outer"], ["S", "south"]]
[attributes.quarter.recodes.side]
groups = { north = ["N1", "N2"], "all south" = "S" }
[attributes.quarter.recodes.crossing]
groups = { inner = ["N1", "S"], outer = "N2" }

[attributes.age]
title = "age"
range = [0, 79]
[attributes.age.recodes.ten]
starts = [0, 10, 20, 30, 40, 50, 60, 70]
[attributes.age.recodes.twenty]
starts = [0, 20, 40, 60]
[attributes.age.recodes.adults]
groups = { "18 to 39" = "18..39", "40 and over" = "40..79" }

[attributes.work]
title = "work"
levels = [["a", "works"], ["b", "looks for work"], ["c", "neither"]]
"""
SPEC = """
[release]
name = "town"
mechanism = "suppression"
title = "A town"
[data]
records = "people.parquet"
schema = "schema.toml"
[suppression]
threshold = 3
[[tables]]
name = "age"
variables = ["quarter:side", "quarter", "age:twenty", "age:ten"]
[[tables]]
name = "work"
variables = ["quarter:side", "work"]
[output]
formats = ["parquet", "csv", "sdmx-csv"]
"""


def people(number: int = 260, seed: int = 5) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "quarter": pa.array(rng.choice(["N1", "N2", "S"], number, p=[0.5, 0.15, 0.35]).tolist()),
            "age": pa.array(np.minimum(79, rng.gamma(3, 13, number)).astype(np.int64)),
            "work": pa.array(rng.choice(["a", "b", "c"], number, p=[0.7, 0.03, 0.27]).tolist()),
            "turnover": pa.array(np.ceil(rng.pareto(1.2, number) * 100).astype(np.int64)),
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("town")
    pq.write_table(people(), folder / "people.parquet")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(SPEC)
    assert not api.check(folder / "spec.toml").findings
    api.run(folder / "spec.toml")
    return folder


def truth(table: str) -> Counter[tuple[str, ...]]:
    """Every cell of a table with somebody in it, counted by hand."""
    found: Counter[tuple[str, ...]] = Counter()
    quarters = {"N1": ["_T", "north", "north, inner"], "N2": ["_T", "north", "north, outer"], "S": ["_T", "all south"]}
    works = {"a": "works", "b": "looks for work", "c": "neither"}
    for row in people().to_pylist():
        sides = quarters[row["quarter"]]
        if table == "age":
            ten, twenty = row["age"] // 10, row["age"] // 20
            ages = ["_T", f"{20 * twenty} to {20 * twenty + 19}", f"{10 * ten} to {10 * ten + 9}"]
            ages = [text.replace("60 to 79", "60 and over").replace("70 to 79", "70 and over") for text in ages]
        else:
            sides, ages = sides[:2], ["_T", works[row["work"]]]
        found.update((side, age) for side in sides for age in ages)
    return found


def keyed(file: Path) -> list[dict[str, Any]]:
    """The rows of a table by labels; the one group that both groupings have is called as the recode calls it."""
    rows = read_labelled(file).to_pylist()
    return [row | {"quarter": "all south"} if row["quarter"] == "south" else row for row in rows]


def test_what_is_published_is_true_and_small_counts_are_not(made: Path) -> None:
    for name in ("age", "work"):
        true = truth(name)
        rows = keyed(made / "town" / "release" / "tables" / f"{name}.parquet")
        columns = list(rows[0])[:-2]
        cells = [tuple(row[column] for column in columns) for row in rows]
        assert len(set(cells)) == len(cells)
        assert set(true) <= set(cells)
        for cell, row in zip(cells, rows, strict=True):
            assert row["status"] == ("suppressed" if row["count"] is None else "published")
            if row["count"] is None:
                continue
            assert row["count"] == true[cell]
            assert row["count"] == 0 or row["count"] > 3
        hidden = [cell for cell, row in zip(cells, rows, strict=True) if row["count"] is None]
        assert {cell for cell, count in true.items() if count <= 3} <= set(hidden)


def test_south_is_one_code_of_both_groupings(made: Path) -> None:
    """The recode and the attribute have one group in common: it is listed once."""
    rows = pq.read_table(made / "town" / "release" / "tables" / "age.parquet").to_pylist()
    pairs = {(row["quarter"], row["quarter_label"]) for row in rows}
    north = {("N1-N2", "north"), ("N1", "north, inner"), ("N2", "north, outer")}
    assert pairs == {("_T", "_T"), *north, ("S", "south")}
    # The finest grouping that has a group names the margin: those of one name leave nobody out and count nobody twice.
    margins = {row["quarter"]: row["margin"] for row in rows if row["age"] == "_T"}
    assert margins == {"_T": "total", "N1-N2": "by quarter:side"} | dict.fromkeys(("N1", "N2", "S"), "by quarter")


def test_primary_and_complementary_cells_look_the_same(made: Path) -> None:
    """Neither the files nor the manifest say which is which, nor how many there are of each."""
    release = made / "town" / "release"
    for file in release.rglob("*"):
        if file.suffix in (".csv", ".json"):
            text = file.read_text().lower()
            assert "complementary" not in text
            assert '"primary"' not in text
    status = pq.read_table(release / "tables" / "age.parquet")["status"].to_pylist()
    assert set(status) == {"published", "suppressed"}


def test_formats_agree_and_sdmx_has_its_status(made: Path) -> None:
    release = made / "town" / "release"
    parquet = pq.read_table(release / "tables" / "work.parquet")
    csv = pyarrow.csv.read_csv(release / "tables" / "work.csv")
    sdmx = pyarrow.csv.read_csv(release / "sdmx" / "work.csv")
    assert csv["count"].to_pylist() == parquet["count"].to_pylist() == sdmx["OBS_VALUE"].to_pylist()
    assert set(sdmx["STRUCTURE_ID"].to_pylist()) == {"CONFIDE:WORK(1.0)"}
    for name, codes in {"OBS_STATUS": ("A", "Q"), "CONF_STATUS": ("F", "C")}.items():
        code = dict(zip(("published", "suppressed"), codes, strict=True))
        assert sdmx[name].to_pylist() == [code[status] for status in parquet["status"].to_pylist()]


def test_it_verifies_and_can_be_audited_from_its_files(made: Path) -> None:
    verification = api.verify(made / "town" / "release")
    assert verification.ok
    names = [check.name for check in verification.checks]
    assert {"published cells add up", "no hidden cell can be worked out", "no small count is published"} <= set(names)
    result = CliRunner().invoke(app, ["audit", "suppression", str(made / "town" / "release"), "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    rows = pq.read_table(made / "town" / "release" / "tables" / "age.parquet").to_pylist()
    assert found["suppressed"] >= sum(row["count"] is None for row in rows)
    assert found["disclosed"] == 0


def test_the_same_records_make_the_same_bytes(made: Path, tmp_path: Path) -> None:
    for name in ("people.parquet", "schema.toml", "spec.toml"):
        shutil.copy(made / name, tmp_path / name)
    order = np.random.default_rng(1).permutation(260)
    pq.write_table(people().take(pa.array(order)), tmp_path / "people.parquet")
    api.run(tmp_path / "spec.toml")
    for name in ("age", "work"):
        files = [folder / "town" / "release" / "tables" / f"{name}.csv" for folder in (made, tmp_path)]
        assert files[0].read_bytes() == files[1].read_bytes()


def forge(made: Path, folder: Path, table: str, change) -> Path:
    """The release with one CSV and Parquet changed, and a manifest that fits."""
    release = folder / "release"
    shutil.copytree(made / "town" / "release", release)
    manifest = json.loads((release / "manifest.json").read_text())
    rows = change(pq.read_table(release / "tables" / f"{table}.parquet").to_pylist())
    schema = pq.read_table(release / "tables" / f"{table}.parquet").schema
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), release / "tables" / f"{table}.parquet")
    pyarrow.csv.write_csv(pa.Table.from_pylist(rows, schema=schema), release / "tables" / f"{table}.csv")
    for file in [*(release / "sdmx").glob("*.csv")]:
        file.unlink()
    manifest["files"] = [file for file in manifest["files"] if (release / file["path"]).exists()]
    remake(release, manifest)
    return release


def cell_of(row) -> tuple[str, str]:
    """The cell of a row as the truth knows it."""
    return row["quarter_label"].replace("south", "all south"), row["age_label"]


def wrong(release: Path) -> set[str]:
    return {check.name for check in api.verify(release).checks if not check.ok}


def test_verify_finds_what_somebody_changed(made: Path, tmp_path: Path) -> None:
    true = truth("age")

    def as_it_is(rows):
        return rows

    def one_more(rows):
        at = next(n for n, row in enumerate(rows) if row["count"] and cell_of(row) == ("north", "_T"))
        return [row | {"count": row["count"] + 1} if n == at else row for n, row in enumerate(rows)]

    def uncover(rows):
        """Publishes a hidden cell: another one may follow, and a small count stands there."""
        return [
            row | {"count": true[cell_of(row)], "status": "published"} if row["count"] is None else row for row in rows
        ]

    def odd_status(rows):
        return [rows[0] | {"status": "primary"}, *rows[1:]]

    def figure_too(rows):
        at = next(n for n, row in enumerate(rows) if row["count"] is None)
        return [row | {"count": 1} if n == at else row for n, row in enumerate(rows)]

    assert not wrong(forge(made, tmp_path / "a", "age", as_it_is))
    assert wrong(forge(made, tmp_path / "b", "age", one_more)) & {
        "published cells add up",
        "the same cell is the same in every table",
    }
    assert "no small count is published" in wrong(forge(made, tmp_path / "c", "age", uncover))
    for name, change in (("d", odd_status), ("e", figure_too)):
        assert "age: columns, labels and statuses" in wrong(forge(made, tmp_path / name, "age", change))


def test_verify_finds_a_cell_that_follows(made: Path, tmp_path: Path) -> None:
    """Of two hidden cells in a sum the larger is published: the other one, which may be small, follows."""
    true = truth("age")

    def uncover_large(rows):
        return [
            row | {"count": true[cell_of(row)], "status": "published"}
            if row["count"] is None and true[cell_of(row)] > 3
            else row
            for row in rows
        ]

    assert "no hidden cell can be worked out" in wrong(forge(made, tmp_path / "f", "age", uncover_large))


def test_evaluate_tells_the_curator_what_was_lost(made: Path) -> None:
    found = api.evaluate(made / "town").accuracy.reveal("a test")
    true = {name: truth(name) for name in ("age", "work")}
    age = next(row for row in found["suppressed"] if row["name"] == "age")
    small = sum(0 < count <= 3 for count in true["age"].values())
    assert age["primary"] == small
    assert age["hidden"] == age["primary"] + age["complementary"]
    primary = found["intervals"]["primary"]
    assert primary["cells"] == primary["protected"] == primary["contain_the_truth"]
    assert primary["known_exactly"] == found["intervals"]["complementary"]["known_exactly"] == 0
    assert (made / "town" / "dossier-confidential" / "dossier-confidential.html").is_file()


def test_areas_and_magnitudes(population_folder: Path, tmp_path: Path) -> None:
    for name in ("persons.parquet", "blocks.parquet"):
        shutil.copy(population_folder / name, tmp_path / name)
    drafting.new("suppression", tmp_path)
    assert not api.check(tmp_path / "spec.toml").errors
    release = confide.run(tmp_path / "spec.toml").release
    assert api.verify(release).ok
    rows = pq.read_table(release / "tables" / "origin.parquet").to_pylist()
    levels = Counter(row["level"] for row in rows)
    assert set(levels) == {"state", "county", "tract"}
    total = next(row for row in rows if row["level"] == "state" and row["hispanic"] == row["cenrace"] == "_T")
    assert total["count"] == 3_000


def test_a_table_of_everybody(made: Path, tmp_path: Path) -> None:
    for name in ("people.parquet", "schema.toml"):
        shutil.copy(made / name, tmp_path / name)
    (tmp_path / "spec.toml").write_text(SPEC[: SPEC.index("[[tables]]")] + '[[tables]]\nname = "all"\nvariables = []\n')
    release = api.run(tmp_path / "spec.toml").release
    (row,) = pq.read_table(release / "tables" / "all.parquet").to_pylist()
    assert row == {"margin": "cell", "count": 260, "status": "published"}
    assert api.verify(release).ok


def test_magnitudes_by_dominance_and_few_contributors(made: Path, tmp_path: Path) -> None:
    for name in ("people.parquet", "schema.toml"):
        shutil.copy(made / name, tmp_path / name)
    text = SPEC.replace('schema = "schema.toml"', 'schema = "schema.toml"\nvalue = "turnover"')
    text = text.replace("threshold = 3", "threshold = 2\ndominance = { n = 1, k = 60 }\np = 10\nq = 50")
    (tmp_path / "spec.toml").write_text(text)
    release = api.run(tmp_path / "spec.toml").release
    assert api.verify(release).ok
    known = {(row["quarter"], row["work"]): row["value"] for row in keyed(release / "tables" / "work.parquet")}
    records = people().to_pylist()
    inner = [row["turnover"] for row in records if row["quarter"] == "S" and row["work"] == "c"]
    value, parts = contributions_of(np.zeros(len(inner), np.int64), np.array(inner), 1)
    hit = dominance(value, parts, 1, 60).primary[0] or threshold(parts.number, 2).primary[0]
    assert (known["all south", "neither"] is None) or (known["all south", "neither"] == sum(inner) and not hit)
    found = api.evaluate(tmp_path / "town").accuracy.reveal("a test")
    assert found["intervals"]["primary"]["cells"] == found["intervals"]["primary"]["protected"] > 0


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"age:twenty", "age:ten"', '"age:adults"', "incomplete-recode"),
        ('"age:ten"]', '"age:five"]', "unknown-variable"),
        ("threshold = 3", "", "no-rule"),
        ("threshold = 3", "threshold = 3\np = 10", "magnitude-rule"),
        ("threshold = 3", 'threshold = 3\nkeep = ["colour"]', "unknown-margin"),
        ("threshold = 3", 'threshold = 3\nkeep = ["age*work"]', "unknown-margin"),
        ('schema.toml"\n[suppression]', 'schema.toml"\nvalue = "turnover"\n[suppression]\np = 100', "percentage"),
        ('schema.toml"\n[suppression]', 'schema.toml"\nvalue = "turnover"\n[suppression]\nlower = 1', "count-rule"),
        (
            'schema.toml"\n[suppression]',
            'schema.toml"\nvalue = "turnover"\n[suppression]\ndominance = { n = 1, k = 100 }',
            "percentage",
        ),
        ('"quarter:side", "work"]', '"quarter:side", "work"]\nlevels = ["tract"]', "unknown-level"),
        ('"quarter:side", "work"]', '"quarter:side", "work"]\nlevels = ["block"]', "no-blocks"),
        ('name = "work"', 'name = "age"', "duplicate-table"),
        ('schema = "schema.toml"', 'schema = "schema.toml"\nvalue = "wealth"', "no-value"),
        ('schema = "schema.toml"', 'schema = "schema.toml"\ncolumns = { age = "alter" }', "missing-column"),
    ],
)
def test_a_wrong_spec_is_a_finding(made: Path, tmp_path: Path, old: str, new: str, code: str) -> None:
    for name in ("people.parquet", "schema.toml"):
        shutil.copy(made / name, tmp_path / name)
    assert old in SPEC
    (tmp_path / "spec.toml").write_text(SPEC.replace(old, new))
    try:
        findings = api.check(tmp_path / "spec.toml").findings
    except ConfideError as error:
        findings = error.findings
    assert code in [finding.code for finding in findings]


def test_a_primary_sum_that_zeros_publish_is_found_by_check(made: Path, tmp_path: Path) -> None:
    """One person alone in a cell who earns nothing: the sum is zero, which is published, and primary."""
    rows = [row | {"turnover": 0 if row["work"] == "b" else row["turnover"]} for row in people().to_pylist()]
    shutil.copy(made / "schema.toml", tmp_path / "schema.toml")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "people.parquet")
    rules = 'value = "turnover"\n[suppression]\nzeros = "published"\nthreshold = 1000'
    (tmp_path / "spec.toml").write_text(SPEC.replace("[suppression]\nthreshold = 3", rules))
    assert [finding.code for finding in api.check(tmp_path / "spec.toml").findings] == ["kept-primary"]


def test_values_that_are_no_whole_numbers_are_not_said_to_be_missing(made: Path, tmp_path: Path) -> None:
    shutil.copy(made / "schema.toml", tmp_path / "schema.toml")
    (tmp_path / "spec.toml").write_text(SPEC.replace('schema.toml"', 'schema.toml"\nvalue = "turnover"'))
    halves = pa.array(people().column("turnover").to_numpy() / 2)
    pq.write_table(people().drop(["turnover"]).append_column("turnover", halves), tmp_path / "people.parquet")
    (finding,) = api.check(tmp_path / "spec.toml").findings
    assert (finding.code, finding.found) == ("no-value", "a column of another kind")


def test_bad_records_are_findings_without_their_values(made: Path, tmp_path: Path) -> None:
    shutil.copy(made / "schema.toml", tmp_path / "schema.toml")
    (tmp_path / "spec.toml").write_text(SPEC)
    rows = people().to_pylist()
    rows[17]["work"] = "canary"
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "people.parquet")
    findings = api.check(tmp_path / "spec.toml").findings
    assert [finding.code for finding in findings] == ["bad-record"]
    assert findings[0].where.row == 18
    assert "canary" not in str(findings[0])


def test_recodes_make_one_tree() -> None:
    schema = confide.documents.parse_schema(__import__("tomllib").loads(SCHEMA))
    variable = of_attribute([schema.variable("quarter"), schema.variable("quarter:side")])
    assert variable.tree.codes == ("_T", "north", "all south", "north, inner", "north, outer")
    assert variable.tree.parent == (-1, 0, 0, 1, 1)
    assert variable.grouping("quarter").codes.tolist() == [3, 4, 2]
