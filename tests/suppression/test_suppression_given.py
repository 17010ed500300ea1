"""``confide suppress``: tables of cells as an office has them, protected, sealed, verified, audited and attacked."""

from __future__ import annotations

import csv
import doctest
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.optimize import linprog
from tests.kits.commands import codes, run, run_json
from tests.kits.labelled import read_labelled
from tests.kits.suppression import intervals_by_programmes

import confide
from confide import api
from confide.errors import ConfideError
from confide.lab.attacks.reconstruction import read_source, reconstruct
from confide.mechanisms.suppression.given.tables import parse_rules
from confide.mechanisms.suppression.output import SuppressionExplained

JOBS = """region,sex,count
Total,Total,30
Total,f,12
Total,m,18
N,Total,11
N,f,2
N,m,9
S,Total,19
S,f,10
S,m,9
"""


def rows_of(release: Path, table: str) -> dict[tuple[str, ...], int | None]:
    rows = read_labelled(release / "tables" / f"{table}.parquet").to_pylist()
    figure = "count" if "count" in rows[0] else "value"
    keys = [name for name in rows[0] if name not in (figure, "status")]
    for row in rows:
        assert (row[figure] is None) == (row["status"] == "suppressed")
    return {tuple(row[key] for key in keys): row[figure] for row in rows}


def protect(
    folder: Path, tables: dict[str, str], *rules: str, **options: object
) -> confide.suppressing.SuppressedTables:
    for name, text in tables.items():
        (folder / name).write_text(text)
    files = [folder / name for name in tables if name.endswith((".csv", ".tab"))]
    given = [folder / name for name in tables if name.endswith(".toml")] or files
    return confide.suppress(given, out=folder / "out", rule=list(rules), **options)


def test_the_command_as_it_is_typed(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    found = run_json("suppress", tmp_path / "jobs.csv", "--rule", "threshold=3", "--out", tmp_path / "D")
    assert found["ok"]
    assert found["tables"] == ["jobs"]
    assert all(check["ok"] for check in found["checks"])
    release = tmp_path / "D" / "release"
    table = rows_of(release, "jobs")
    hidden = {cell for cell, figure in table.items() if figure is None}
    assert hidden == {("N", "f"), ("N", "m"), ("S", "f"), ("S", "m")}
    for line in csv.DictReader(JOBS.splitlines()):
        cell = tuple("_T" if line[name] == "Total" else line[name] for name in ("region", "sex"))
        assert table[cell] in (None, int(line["count"]))
    explained = {"README.txt", "cells", "codebook.html", "datapackage.json", "explore.html"}
    assert {path.name for path in release.iterdir()} == {"manifest.json", "statement.html", "tables"} | explained
    assert run_json("verify", release)["ok"]
    audited = run_json("audit", "suppression", release)
    assert (audited["suppressed"], audited["disclosed"]) == (4, 0)
    attacked = run_json("attack", "reconstruct", release)
    assert (attacked["persons"], attacked["exact"]) == (30, True)
    # What is written can be checked and run again, by the same file.
    assert run_json("check", tmp_path / "D" / "spec.toml")["ok"]
    assert run_json("run", tmp_path / "D" / "spec.toml")["was_sealed_before"]
    again = run_json("suppress", tmp_path / "jobs.csv", "--rule", "threshold=3", "--out", tmp_path / "D")
    assert again["manifest_sha256"] == found["manifest_sha256"]
    assert codes("suppress", tmp_path / "jobs.csv", "--rule", "threshold=5", "--out", tmp_path / "D") == [
        "there-already"
    ]
    text = run("suppress", tmp_path / "jobs.csv", "--rule", "threshold=3", "--out", tmp_path / "D")
    assert "verified" in text
    evaluated = api.evaluate(tmp_path / "D").accuracy.reveal("a test")
    assert evaluated["intervals"]["primary"] | {"cells": 1, "protected": 1} == evaluated["intervals"]["primary"]


def test_what_is_confidential_stays_in_its_zone(tmp_path: Path) -> None:
    text = JOBS.replace("N,f,2", "N,f,2").replace("count\n", "count,decided\n", 1)
    lines = text.splitlines()
    lines = [lines[0], *(line + (",u" if line.startswith("S,m") else ",") for line in lines[1:])]
    done = protect(tmp_path, {"jobs.csv": "\n".join(lines) + "\n"}, "threshold=3")
    confidential = done.run.workspace.confidential
    cells = pq.read_table(confidential / "cells.parquet").to_pylist()
    assert {row["cell"]: row["why"] for row in cells if row["primary"]} == {
        "region = N, sex = f": "a rule",
        "region = S, sex = m": "unsafe by decision",
    }
    assert (confidential.stat().st_mode & 0o077) == 0
    assert ((confidential / "cells.parquet").stat().st_mode & 0o077) == 0
    public = b"".join(
        path.read_bytes() for path in done.release.rglob("*") if path.suffix in (".json", ".html", ".csv")
    )
    assert b"decision of" not in public
    assert b"unsafe" not in public.replace(b"'unsafe-inline'", b""), "but for the rule of the page for its own script"
    assert b'"decided"' not in public
    question = json.loads((done.release / "manifest.json").read_text())["plan"]["question"]
    assert question["given"] == {"statuses": True, "costs": False, "levels": False}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_random_tables_are_as_safe_as_those_of_records(tmp_path: Path, seed: int) -> None:
    """Without totals in the file: they are computed. The attacker is one of its own."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(4, (4, 3))
    lines = ["area,age,n"] + [f"a{i},g{j},{counts[i, j]}" for i in range(4) for j in range(3)]
    done = protect(tmp_path, {"t.csv": "\n".join(lines) + "\n"}, "threshold=3", singletons=False)
    table = rows_of(done.release, "t")
    for i in range(4):
        for j in range(3):
            assert table[f"a{i}", f"g{j}"] in (None, counts[i, j])
    assert table["_T", "_T"] in (None, counts.sum())
    whole = np.zeros((5, 4), np.int64)
    whole[1:, 1:] = counts
    whole[0, 1:], whole[1:, 0], whole[0, 0] = counts.sum(0), counts.sum(1), counts.sum()
    hidden = np.array([
        [table[("_T" if not i else f"a{i - 1}"), ("_T" if not j else f"g{j - 1}")] is None for j in range(4)]
        for i in range(5)
    ])  # fmt: skip
    for i, j in np.argwhere((whole > 0) & (whole <= 3)):
        assert hidden[i, j]
        low, high = intervals_by_programmes(whole, hidden, (i, j))
        assert high >= 4 - 1e-6
        assert high - low >= 3 - 1e-6


def test_statuses_costs_and_levels_of_cells(tmp_path: Path) -> None:
    """A waiver publishes a small count, a protected cell is never hidden, a level makes a cell primary, and a cost
    turns the choice of the others."""
    head = "region,sex,count,decided,cost,upper,lower"
    base = {("N", "f"): 2, ("N", "m"): 9, ("S", "f"): 10, ("S", "m"): 9, ("W", "f"): 8, ("W", "m"): 7}

    def table(**beside: dict[tuple[str, str], object]) -> str:
        lines = [head]
        for cell, figure in base.items():
            more = [str(beside.get(kind, {}).get(cell, "")) for kind in ("decided", "cost", "upper", "lower")]
            lines.append(",".join([*cell, str(figure), *more]))
        return "\n".join(lines) + "\n"

    def hidden(name: str, text: str) -> set[tuple[str, ...]]:
        folder = tmp_path / name
        folder.mkdir()
        done = protect(folder, {"t.csv": text}, "threshold=3", singletons=False)
        assert done.ok
        return {cell for cell, figure in rows_of(done.release, "t").items() if figure is None}

    assert hidden("plain", table()) == {("N", "f"), ("N", "m"), ("W", "f"), ("W", "m")}
    assert hidden("waiver", table(decided={("N", "f"): "s"})) == set()
    assert hidden("cheap", table(cost={("S", "f"): 0, ("S", "m"): "0"})) == {
        ("N", "f"),
        ("N", "m"),
        ("S", "f"),
        ("S", "m"),
    }
    kept = hidden("kept", table(decided={("W", "f"): "z", ("N", "m"): "Z"}))
    assert not kept & {("W", "f"), ("N", "m")}
    assert ("N", "f") in kept
    level = hidden("level", table(decided={("N", "f"): "waiver"}, upper={("S", "m"): 5}, lower={("S", "m"): 5}))
    assert ("S", "m") in level
    assert ("N", "f") not in level - {("N", "f")}
    unsafe = hidden("unsafe", table(decided={("N", "f"): "safe", ("W", "m"): "UNSAFE"}))
    assert ("W", "m") in unsafe


MAGNITUDES = """branch,size,value,contributors,top1,top2
a,small,100,4,40,30
a,large,900,3,700,150
b,small,300,9,60,50
b,large,500,8,90,80
c,small,210,7,50,45
c,large,450,6,120,110
"""


@pytest.mark.parametrize(
    ("rules", "primary"),
    [
        (["p=10"], {("a", "large")}),
        (["dominance=1,75"], {("a", "large")}),
        (["dominance=2,99"], set()),
        (["pq=10,50"], {("a", "large")}),
        (["threshold=3"], {("a", "large")}),
        (["threshold=4"], {("a", "large"), ("a", "small")}),
    ],
)
def test_rules_for_magnitudes_by_their_definitions(
    tmp_path: Path, rules: list[str], primary: set[tuple[str, str]]
) -> None:
    done = protect(tmp_path, {"t.csv": MAGNITUDES}, *rules)
    assert done.ok
    cells = pq.read_table(done.run.workspace.confidential / "cells.parquet").to_pylist()
    inner = {
        tuple(part.split(" = ")[1] for part in row["cell"].split(", "))
        for row in cells
        if row["primary"] and "_T" not in row["cell"]
    }
    assert inner == primary
    assert rows_of(done.release, "t")["_T", "_T"] in (None, 2460)


def test_the_largest_contributions_of_computed_totals_are_those_of_their_parts(tmp_path: Path) -> None:
    """Branch a as a whole: 700, 150, 40 ... of 1000. Nobody knows 700 to within 10 %; to within 25 % somebody does."""
    for p, primary in ((10, False), (25, True)):
        folder = tmp_path / str(p)
        folder.mkdir()
        done = protect(folder, {"t.csv": MAGNITUDES}, f"p={p}", singletons=False)
        cells = pq.read_table(done.run.workspace.confidential / "cells.parquet").to_pylist()
        (row,) = [row for row in cells if row["cell"] == "branch = a, size = _T"]
        assert row["primary"] is primary
        assert row["upper"] == (0.25 * 700 - 150 if primary else 0)


LINKED = {
    "ages.csv": "region,age,count\n_T,_T,30\n_T,young,14\n_T,old,16\n"
    "N,_T,11\nN,young,4\nN,old,7\nS,_T,19\nS,young,10\nS,old,9\n",
    "sexes.csv": JOBS.replace("Total", "_T"),
}


def test_several_files_are_linked(tmp_path: Path) -> None:
    done = protect(tmp_path, LINKED, "threshold=3")
    question = done.run.plan.question
    assert [table["name"] for table in question["tables"]] == ["ages", "sexes"]
    ages, sexes = rows_of(done.release, "ages"), rows_of(done.release, "sexes")
    for region in ("_T", "N", "S"):
        assert ages[region, "_T"] == sexes[region, "_T"]
    assert SuppressionExplained().contents(done.run.plan).startswith("2 tables of 15 distinct cells")
    wrong = LINKED | {"ages.csv": LINKED["ages.csv"].replace("N,_T,11", "N,_T,12").replace("N,old,7", "N,old,8")}
    (tmp_path / "b").mkdir()
    with pytest.raises(ConfideError) as caught:
        protect(tmp_path / "b", wrong, "threshold=3")
    assert {finding.code for finding in caught.value.findings} <= {"tables-disagree", "does-not-add-up"}


CROSSING = """
[variables.town]
total = "All"
parts = { a = ["a1", "a2"], b = ["b1", "b2"] }
also = { size = { small = ["a1", "b1"], large = ["a2", "b2"] } }
[variables.sex]
total = "All"
[[tables]]
file = "towns.csv"
missing = "zero"
"""


def test_two_hierarchies_of_one_variable_and_hierarchies_in_files(tmp_path: Path) -> None:
    lines = ["town,sex,count"]
    counts = {
        ("a1", "f"): 2,
        ("a1", "m"): 8,
        ("a2", "f"): 9,
        ("a2", "m"): 7,
        ("b1", "f"): 6,
        ("b1", "m"): 9,
        ("b2", "f"): 11,
    }
    lines += [f"{town},{sex},{figure}" for (town, sex), figure in counts.items()]
    files = {"towns.csv": "\n".join(lines) + "\n", "towns.toml": CROSSING}
    done = protect(tmp_path, files, "threshold=3")
    table = rows_of(done.release, "towns")
    assert {town for town, _ in table} == {"_T", "a", "b", "small", "large", "a1", "a2", "b1", "b2"}
    assert len(table) == 27
    for (town, sex), figure in counts.items():
        assert table[town, sex] in (None, figure)
    assert table["small", "_T"] in (None, 25)
    assert table["b2", "m"] in (None, 0)
    # The only small count: both of its hierarchies must be open, by an attacker who adds up along both.
    audited = run_json("audit", "suppression", done.release)
    assert audited["disclosed"] == 0
    (tmp_path / "county.hrc").write_text("a\n@a1\n@a2\nb\n@b1\n@b2\n")
    (tmp_path / "size.hrc").write_text("small\n@a1\n@b1\nlarge\n@a2\n@b2\n")
    text = CROSSING.replace('parts = { a = ["a1", "a2"], b = ["b1", "b2"] }', 'hierarchy = "county.hrc"')
    text = text.replace('{ small = ["a1", "b1"], large = ["a2", "b2"] }', '"size.hrc"')
    (tmp_path / "towns.toml").write_text(text)
    again = confide.suppress(tmp_path / "towns.toml", out=tmp_path / "again", rule="threshold=3")
    assert rows_of(again.release, "towns") == table
    published = read_source(done.release)
    assert reconstruct(published, processes=1, time_limit=20).persons == sum(counts.values())


def test_a_variable_along_which_nothing_adds_up(tmp_path: Path) -> None:
    text = JOBS + JOBS.split("\n", 1)[1]
    rows = [line for line in text.splitlines()[1:] if line]
    lines = ["year,region,sex,count"] + [f"{2020 + at // 9},{line}" for at, line in enumerate(rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    description = '[variables.year]\nadds_up = false\n[variables.region]\ntotal = "Total"\n'
    description += '[variables.sex]\ntotal = "Total"\n[[tables]]\n'
    (tmp_path / "t.toml").write_text(description)
    done = confide.suppress(tmp_path / "t.csv", out=tmp_path / "out", rule="threshold=3")
    table = rows_of(done.release, "t")
    assert {year for year, _, _ in table} == {"2020", "2021"}
    assert sum(figure is None for figure in table.values()) == 8
    assert run_json("verify", done.release)["ok"]


@pytest.mark.parametrize(
    ("old", "new", "code", "row"),
    [
        ("N,f,2", "N,f,two", "bad-figure", 5),
        ("N,f,2", "N,f,2.5", "bad-figure", 5),
        ("N,f,2", "N,f,-2", "bad-figure", 5),
        ("N,f,2", "N,f,", "bad-figure", 5),
        ("N,f,2", "N,f,1e400", "bad-figure", 5),
        ("N,f,2", "N,f,3", "does-not-add-up", None),
        ("N,f,2", "N,m,2", "repeated-cell", None),
        ("N,f,2", ",f,2", "no-code", 5),
        ("N,f,2\n", "", "missing-cells", None),
        ("region,sex,count", "region,sex,sex", "table-description", None),
        ("region,sex,count", "region,sex,many", "no-description", None),
        ("region,sex,count", "re*gion,sex,count", "reserved-name", None),
        ("region,sex,count", "region,Region,count", "reserved-name", None),
    ],
)
def test_what_is_wrong_with_a_table_is_a_finding_with_its_row(
    tmp_path: Path, old: str, new: str, code: str, row: int | None
) -> None:
    assert old in JOBS
    with pytest.raises(ConfideError) as caught:
        protect(tmp_path, {"jobs.csv": JOBS.replace(old, new)}, "threshold=3")
    finding = caught.value.findings[0]
    assert finding.code == code
    assert row is None or finding.where.row == row
    assert finding.remedy
    assert not (tmp_path / "out" / "release").exists()
    for each in caught.value.findings:
        assert "2.5" not in str(each)


@pytest.mark.parametrize(
    "rule", ["threshold", "threshold=x", "p=10,20", "pq=10", "dominance=1", "nk=a,b", "colour=3", "p=-1"]
)
def test_rules_that_are_none(tmp_path: Path, rule: str) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    found = codes("suppress", tmp_path / "jobs.csv", "--rule", rule, "--out", tmp_path / "D")
    assert found == ["primary-rule"]
    assert not (tmp_path / "D").exists()


def test_rules_for_magnitudes_need_their_columns(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    found = codes("suppress", tmp_path / "jobs.csv", "--rule", "p=10", "--out", tmp_path / "D")
    assert found == ["no-contributions", "no-contributors"]
    assert parse_rules(["nk=1,75", "threshold=2"]) == {"dominance": {"n": 1, "k": "75"}, "threshold": 2}


def test_nothing_is_published_that_nothing_protects_and_a_refusal_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    assert codes("suppress", tmp_path / "jobs.csv", "--out", tmp_path / "D") == ["no-rule"]
    assert not (tmp_path / "D").exists() or not list((tmp_path / "D").glob("*.toml"))
    assert confide.suppress(tmp_path / "jobs.csv", out=tmp_path / "D", rule="threshold=3").ok


def test_without_a_rule_the_statuses_decide(tmp_path: Path) -> None:
    lines = JOBS.replace("count\n", "count,status\n", 1).splitlines()
    lines = [lines[0], *(line + (",u" if line.startswith("S,f") else ",s") for line in lines[1:])]
    done = protect(tmp_path, {"jobs.csv": "\n".join(lines) + "\n"})
    table = rows_of(done.release, "jobs")
    assert table["S", "f"] is None
    assert sum(figure is None for figure in table.values()) == 4


def test_other_names_by_options(tmp_path: Path) -> None:
    text = JOBS.replace("count", "many").replace("Total", "Ensemble")
    (tmp_path / "jobs.csv").write_text(text)
    (tmp_path / "r.hrc").write_text("N\nS\n")
    arguments = ["suppress", tmp_path / "jobs.csv", "--rule", "threshold=3", "--value", "many"]
    arguments += [
        "--total",
        "region=Ensemble",
        "--total",
        "sex=Ensemble",
        "--hierarchy",
        f"region={tmp_path / 'r.hrc'}",
    ]
    found = run_json(*arguments, "--out", tmp_path / "D")
    assert found["ok"]
    assert rows_of(Path(found["release"]), "jobs")["_T", "_T"] == 30
    assert codes(*arguments, "--total", "colour=all", "--out", tmp_path / "E") == ["unknown-variable"]


def test_parquet_and_a_table_larger_than_the_programme_solves_to_the_best(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    counts = rng.poisson(9, (30, 24))
    table = pa.table(
        {
            "area": [f"a{i:02}" for i in range(30) for _ in range(24)],
            "age": [f"g{j:02}" for _ in range(30) for j in range(24)],
            "count": counts.reshape(-1),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    done = confide.suppress(tmp_path / "t.parquet", out=tmp_path / "out", rule="threshold=3")
    assert done.ok
    hidden = sum(figure is None for figure in rows_of(done.release, "t").values())
    assert int(((counts > 0) & (counts <= 3)).sum()) < hidden < 200


def test_changed_tables_are_another_release(tmp_path: Path) -> None:
    done = protect(tmp_path, {"jobs.csv": JOBS}, "threshold=3")
    shutil.rmtree(done.release)
    (tmp_path / "jobs.csv").write_text(
        JOBS.replace("S,f,10", "S,f,9")
        .replace("S,m,9", "S,m,10")
        .replace("l,f,12", "l,f,11")
        .replace("l,m,18", "l,m,19")
    )
    with pytest.raises(ConfideError):
        confide.run(done.spec)


def test_the_example_of_the_page_is_true() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "suppression.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (failed, tried) == (0, 7)


# What plain files of offices look like, and what would be mistaken in them.


def test_a_file_with_other_separators_is_read(tmp_path: Path) -> None:
    for name, mark in (("semicolons", ";"), ("tabs", "\t"), ("bars", "|")):
        folder = tmp_path / name
        folder.mkdir()
        done = protect(folder, {"jobs.csv": JOBS.replace(",", mark)}, "threshold=3")
        assert rows_of(done.release, "jobs")["N", "f"] is None
        public = folder / "public.csv"
        public.write_text((done.release / "tables" / "jobs.csv").read_text().replace(",", mark))
        assert confide.audit_suppression(public).as_dict()["disclosed"] == 0


@pytest.mark.parametrize("total", ["Alle", "00", "both"])
def test_a_total_that_is_not_called_so_is_refused_and_not_protected_as_a_code(tmp_path: Path, total: str) -> None:
    """As a code among others its equation would be unknown, and the table be published with twice its total."""
    text = JOBS.replace("Total", total)
    with pytest.raises(ConfideError) as refused:
        protect(tmp_path, {"jobs.csv": text}, "threshold=3")
    assert {finding.code for finding in refused.value.findings} == {"unnamed-total"}
    assert f"--total region={total}" in refused.value.findings[0].remedy
    assert not (tmp_path / "out").exists()
    done = protect(tmp_path, {"jobs.csv": text}, "threshold=3", total={"region": total, "sex": total})
    assert rows_of(done.release, "jobs")["_T", "_T"] == 30
    assert confide.audit_suppression(done.release).as_dict()["cells"] == 9


def test_a_sub_total_among_codes_is_refused_unless_somebody_says_that_it_is_none(tmp_path: Path) -> None:
    rows = {"North": (11, 14), "N1": (2, 9), "N2": (9, 5), "S1": (10, 7)}
    text = "region,sex,n\n" + "".join(
        f"{at},{sex},{n}\n" for at, two in rows.items() for sex, n in zip("fm", two, strict=True)
    )
    with pytest.raises(ConfideError) as refused:
        protect(tmp_path, {"t.csv": text}, "threshold=3")
    (finding,) = refused.value.findings
    assert finding.code == "unnamed-total"
    assert finding.found == "'North', the sum of 'N1', 'N2'"
    done = protect(tmp_path, {"t.csv": text}, "threshold=3", total={"region": "_T"})
    assert rows_of(done.release, "t")["_T", "_T"] == 67


STATUSES = "region,sex,count,{column}\n" + "".join(
    f"{line},{'{unsafe}' if line == 'S,m,9' else '{safe}'}\n" for line in JOBS.splitlines()[1:]
)


def test_that_nothing_was_found_so_far_is_no_waiver(tmp_path: Path) -> None:
    """sdcTable calls every cell ``s`` that it has not found unsafe: rules go before that, and a small count stays
    hidden. In a column of another name the same is refused where it matters."""
    frame = STATUSES.format(column="sdcStatus", safe="s", unsafe="u")
    (tmp_path / "a").mkdir()
    done = protect(tmp_path / "a", {"jobs.csv": frame}, "threshold=3")
    assert rows_of(done.release, "jobs")["N", "f"] is None
    assert rows_of(done.release, "jobs")["S", "m"] is None
    for column in ("status", "decided"):
        full = STATUSES.format(column=column, safe="s", unsafe="u")
        (tmp_path / column).mkdir()
        with pytest.raises(ConfideError) as refused:
            protect(tmp_path / column, {"jobs.csv": full}, "threshold=3")
        (finding,) = refused.value.findings
        assert (finding.code, finding.where.row) == ("doubtful-waiver", 5)
        assert not (tmp_path / column / "out").exists()
        # Without a rule the statuses decide; a waiver by its name, and statuses of exceptions alone, are decisions.
        protect(tmp_path / column, {"jobs.csv": full}, singletons=False)
        for number, text in enumerate((full.replace("N,f,2,s", "N,f,2,waiver"), full.replace(",s\n", ",\n"))):
            folder = tmp_path / f"{column}{number}"
            folder.mkdir()
            waived = text if number == 0 else text.replace("N,f,2,\n", "N,f,2,s\n")
            table = rows_of(protect(folder, {"jobs.csv": waived}, "threshold=3", keep=["total"]).release, "jobs")
            assert (
                pq.read_table(folder / "out" / "confidential" / "cells.parquet")
                .filter(pc.field("why") == "safe by decision")
                .column("primary")
                .to_pylist()
                .count(True)
                == 0
            )
            assert table["S", "m"] is None


DECIMALS = """region,sector,turnover,contributors,top1,top2
N,a,100.50,4,40.25,30
N,b,900.25,2,800,100.25
S,a,210.00,7,50.5,45
S,b,450.75,6,120,110
"""


def test_figures_with_decimals_are_multiples_of_a_declared_unit(tmp_path: Path) -> None:
    """The same table in hundredths, as whole numbers, has the same pattern and figures a hundred times as large."""
    rules = ("p=10", "threshold=2")
    with pytest.raises(ConfideError) as refused:
        protect(tmp_path, {"t.csv": DECIMALS}, *rules, value="turnover")
    assert refused.value.findings[0].code == "bad-figure"
    assert "--unit 1/100" in refused.value.findings[0].remedy
    done = protect(tmp_path, {"t.csv": DECIMALS}, *rules, value="turnover", unit="0.01")
    assert done.ok
    (tmp_path / "b").mkdir()
    lines = [line.split(",") for line in DECIMALS.splitlines()]
    hundredths = [
        [*a[:2], f"{float(a[2]) * 100:.0f}", a[3], *(f"{float(x) * 100:.0f}" for x in a[4:])] for a in lines[1:]
    ]
    text = "\n".join(map(",".join, [lines[0], *hundredths])) + "\n"
    other = rows_of(protect(tmp_path / "b", {"t.csv": text}, *rules, value="turnover").release, "t")
    table = rows_of(done.release, "t")
    assert {cell: None if figure is None else int(figure * 100) for cell, figure in table.items()} == other
    assert [figure is None for figure in table.values()].count(True) >= 4
    primary = pq.read_table(tmp_path / "out" / "confidential" / "cells.parquet", filters=[("primary", "=", True)])
    asked = {row["cell"]: (float(row["figure"]), float(row["upper"])) for row in primary.to_pylist()}
    assert asked["region = N, sector = b"] == (900.25, 90.03)  # 10 % of the figure, in whole hundredths
    counts = DECIMALS.replace(",contributors,top1,top2", "")
    counts = "\n".join(",".join(line.split(",")[:3]) for line in counts.splitlines())
    (tmp_path / "c").mkdir()
    with pytest.raises(ConfideError) as refused:
        protect(tmp_path / "c", {"c.csv": counts}, "threshold=3", value="turnover", unit="0.01")
    assert refused.value.findings[0].code == "magnitude-rule"


ALONE = """a,b,value,contributors,top1,top2
r0,c0,103,1,103,0
r0,c1,24,1,24,0
r2,c0,3,1,3,0
r2,c1,39,1,39,0
"""


@pytest.mark.parametrize("method", ["heuristic", "optimal"])
def test_who_is_alone_in_a_cell_is_known_to_be_in_its_totals(tmp_path: Path, method: str) -> None:
    """Nobody can be asked to believe a total to be less than what they gave to a part of it: with all hidden there is
    nothing that could not be protected. The attackers are programmes of the test's own, one for each firm."""
    done = protect(tmp_path, {"t.csv": ALONE}, "p=20", "threshold=2", method=method)
    table = rows_of(done.release, "t")
    cells = {("r0", "c0"): 103, ("r0", "c1"): 24, ("r2", "c0"): 3, ("r2", "c1"): 39}
    within = {cell: [all(c in ("_T", k) for c, k in zip(cell, kind, strict=True)) for kind in cells] for cell in table}
    masks = {cell: np.array(flags, float) for cell, flags in within.items()}
    given = np.array(list(cells.values()), float)
    shown = [cell for cell, figure in table.items() if figure is not None]
    for cell, mask in masks.items():
        if mask @ given == 169:
            continue  # four firms, none of which is most of it
        assert cell not in shown
        for firm, own in enumerate(given):
            others = [own_part for part, own_part in enumerate(given) if part != firm and mask[part]]
            if not others:
                continue
            fixed = [(x, x) if part == firm else (0, None) for part, x in enumerate(given)]
            equal = {"A_eq": np.array([masks[c] for c in shown]), "b_eq": [masks[c] @ given for c in shown]}
            most = linprog(-mask, bounds=fixed, **(equal if shown else {}), method="highs")
            bound = np.inf if most.status == 3 else -most.fun
            assert bound - own * mask[firm] >= 1.2 * max(others) - 1e-6
