"""``confide audit suppression``: anyone's table, described in a few lines, judged by what follows from it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from confide.cli.main import app
from confide.errors import ConfideError
from confide.lab.attacks.audit_files import read_required, read_suspect
from confide.lab.attacks.suppression_audit import audit
from confide.mechanisms.suppression.given.description import describe

DESCRIPTION = """
[variables.region]
parts = { North = ["N1", "N2"], South = ["S1", "S2"] }

[variables.sex]
total = "all"

[[tables]]
file = "jobs.csv"
"""
ROWS = {
    "_T": (40, 20, 20),
    "North": (20, 9, 11),
    "South": (20, 11, 9),
    "N1": (8, 3, 5),
    "N2": (12, 6, 6),
    "S1": (10, 4, 6),
    "S2": (10, 7, 3),
}
SEXES = ("all", "f", "m")
SAFE = {(area, sex) for area in ("North", "South", "N1", "S1") for sex in ("f", "m")}
OPEN = {("N1", "f"), ("N1", "m"), ("S1", "f")}


def write(folder: Path, hidden: set[tuple[str, str]], mark: str = "x", name: str = "jobs.csv", **other) -> Path:
    lines = ["region,sex,count"]
    for area, figures in ROWS.items():
        for sex, figure in zip(SEXES, figures, strict=True):
            shown = other.get(f"{area}_{sex}", figure)
            lines.append(f"{area},{sex},{mark if (area, sex) in hidden else shown}")
    (folder / name).write_text("\n".join(lines) + "\n")
    (folder / "table.toml").write_text(DESCRIPTION)
    return folder


def told(path: Path, *options: str) -> tuple[int, dict]:
    result = CliRunner().invoke(app, ["audit", "suppression", str(path), "--json", *options])
    if isinstance(result.exception, ConfideError):
        return 1, {"findings": [finding.as_dict() for finding in result.exception.findings]}
    return result.exit_code, json.loads(result.stdout)


def pairs(rows: pa.Table) -> list[tuple[str, str]]:
    return list(zip(rows["region"].to_pylist(), rows["sex"].to_pylist(), strict=True))


def interval(found: dict, **cell: str) -> tuple[float, float | None]:
    (row,) = [row for row in found["intervals"] if row["cell"] == cell]
    return row["lower"], row["upper"]


def test_a_safe_table(tmp_path: Path) -> None:
    code, found = told(write(tmp_path, SAFE))
    assert code == 0
    assert found["ok"]
    assert (found["cells"], found["published"], found["suppressed"], found["sums"]) == (21, 13, 8, 16)
    assert (found["disclosed"], found["too_narrow"], found["confidential"]) == (0, 0, False)
    assert interval(found, region="N1", sex="f") == (0, 7)
    assert interval(found, region="North", sex="f") == (6, 13)
    text = CliRunner().invoke(app, ["audit", "suppression", str(tmp_path)])
    assert text.exit_code == 0
    assert "No suppressed cell is known" in text.stdout


def test_a_table_that_gives_its_cells_away(tmp_path: Path) -> None:
    code, found = told(write(tmp_path, OPEN, mark=":"))
    assert code == 1
    assert not found["ok"]
    assert found["disclosed"] == 3
    assert interval(found, region="S1", sex="f") == (4, 4)
    text = CliRunner().invoke(app, ["audit", "suppression", str(tmp_path)])
    assert text.exit_code == 1
    assert "3 suppressed cells are known exactly" in text.stdout


def test_parquet_a_status_column_and_other_names(tmp_path: Path) -> None:
    rows = pa.csv.read_csv(write(tmp_path, set()) / "jobs.csv")
    status = ["c" if pair in SAFE else "p" for pair in pairs(rows)]
    renamed = rows.append_column("flag", pa.array(status)).rename_columns(["REG", "SEX", "N", "flag"])
    pq.write_table(renamed, tmp_path / "other.parquet")
    (tmp_path / "other.toml").write_text(
        DESCRIPTION.replace(
            'file = "jobs.csv"',
            'columns = { region = "REG", sex = "SEX" }\nvalue = "N"\nstatus = "flag"\nsuppressed = ["c"]',
        )
    )
    code, found = told(tmp_path / "other.parquet")
    assert code == 0
    assert interval(found, region="N1", sex="f") == (0, 7)


def test_required_widths_and_bounds_known_beforehand(tmp_path: Path) -> None:
    write(tmp_path, SAFE)
    for more, narrow in (("[protection]\nwidth = 7\n", 0), ("[protection]\nwidth = 8\n", 8)):
        (tmp_path / "table.toml").write_text(DESCRIPTION + more)
        code, found = told(tmp_path)
        assert found["too_narrow"] == narrow
        assert code == bool(narrow)
    (tmp_path / "table.toml").write_text(DESCRIPTION + "[attacker]\nlow = 1\nhigh = 12\n")
    _, found = told(tmp_path)
    # N2 has 6 of both: North at most 12 leaves N1 at most 6, and so at least 2, of its 8.
    assert interval(found, region="N1", sex="f") == (2, 6)
    assert interval(found, region="North", sex="f") == (8, 12)


def test_the_truth_judges_and_is_never_shown(tmp_path: Path) -> None:
    write(tmp_path, SAFE)
    write(tmp_path, set(), name="truth.csv")
    (tmp_path / "table.toml").write_text(DESCRIPTION + "[protection]\nthreshold = 3\n")
    code, found = told(tmp_path, "--truth", str(tmp_path / "truth.csv"))
    assert code == 0
    assert found["confidential"]
    assert all(set(row) == {"table", "cell", "lower", "upper", "exact", "too_narrow"} for row in found["intervals"])
    (tmp_path / "table.toml").write_text(DESCRIPTION + "[protection]\nthreshold = 7\n")
    assert told(tmp_path, "--truth", str(tmp_path / "truth.csv"))[1]["too_narrow"] > 0
    (tmp_path / "table.toml").write_text(DESCRIPTION + "[protection]\npercent = 50\n")
    found = told(tmp_path, "--truth", str(tmp_path / "truth.csv"))[1]
    # North, women: 9 in 6 to 13 is not 50 % off downwards; N1, women: 3 in 0 to 7 is.
    narrow = {(row["cell"]["region"], row["cell"]["sex"]) for row in found["intervals"] if row["too_narrow"]}
    assert ("North", "f") in narrow
    assert ("N1", "f") not in narrow
    write(tmp_path, set(), name="truth.csv", N1_f=9)
    (tmp_path / "table.toml").write_text(DESCRIPTION)
    code, found = told(tmp_path, "--truth", str(tmp_path / "truth.csv"))
    assert code == 1
    assert found["outside"] == 1


def test_a_truth_below_what_everybody_knows_does_not_belong_to_the_table(tmp_path: Path) -> None:
    """Everybody is said to know that hidden counts are two at least, and one is not: no interval is too narrow."""
    write(tmp_path, SAFE)
    for women, outside in ((2, 0), (1, 1)):
        write(tmp_path, set(), name="truth.csv", N1_f=women)
        (tmp_path / "table.toml").write_text(DESCRIPTION + "[attacker]\nlow = 2\n")
        code, found = told(tmp_path, "--truth", str(tmp_path / "truth.csv"))
        assert (code, found["outside"], found["disclosed"], found["too_narrow"]) == (outside, outside, 0, 0)


def test_protection_levels_of_the_curator(tmp_path: Path) -> None:
    write(tmp_path, SAFE)
    write(tmp_path, set(), name="plain.csv")
    rows = pa.csv.read_csv(tmp_path / "plain.csv")
    for upper, narrow in ((4, 0), (5, 1)):
        levels = [upper if pair == ("N1", "f") else 0 for pair in pairs(rows)]
        pa.csv.write_csv(rows.append_column("upper", pa.array(levels)), tmp_path / "truth.csv")
        assert told(tmp_path, "--truth", str(tmp_path / "truth.csv"))[1]["too_narrow"] == narrow


@pytest.mark.parametrize(
    ("column", "cell", "enough", "too_much"),
    [("lower", ("North", "f"), 3, 4), ("upper", ("North", "f"), 4, 5), ("sliding", ("N1", "f"), 7, 8)],
)
def test_each_protection_level_is_asked_for_by_itself(
    tmp_path: Path, column: str, cell: tuple[str, str], enough: int, too_much: int
) -> None:
    """Women of the North: 9, known to be from 6 to 13; women of N1: 3, known to be from 0 to 7."""
    write(tmp_path, SAFE)
    write(tmp_path, set(), name="plain.csv")
    rows = pa.csv.read_csv(tmp_path / "plain.csv")
    for level, narrow in ((enough, 0), (too_much, 1)):
        levels = pa.array([level if pair == cell else 0 for pair in pairs(rows)])
        pa.csv.write_csv(rows.append_column(column, levels), tmp_path / "truth.csv")
        assert told(tmp_path, "--truth", str(tmp_path / "truth.csv"))[1]["too_narrow"] == narrow


def test_linked_tables_give_away_what_one_alone_does_not(tmp_path: Path) -> None:
    (tmp_path / "table.toml").write_text(
        "[variables.sex]\n[variables.region]\n[variables.job]\n"
        '[[tables]]\nfile = "one.csv"\n[[tables]]\nfile = "two.csv"\n'
    )
    (tmp_path / "one.csv").write_text(
        "sex,region,count\n_T,_T,22\n_T,n,11\n_T,s,11\nf,_T,x\nm,_T,x\nf,n,11\nf,s,x\nm,n,0\nm,s,x\n"
    )
    (tmp_path / "two.csv").write_text(
        "sex,job,count\n_T,_T,22\n_T,yes,19\n_T,no,3\nf,_T,21\nm,_T,1\nf,yes,19\nf,no,2\nm,yes,0\nm,no,1\n"
    )
    code, found = told(tmp_path)
    assert code == 1
    assert found["disclosed"] == 2
    (tmp_path / "table.toml").write_text('[variables.sex]\n[variables.region]\n[[tables]]\nfile = "one.csv"\n')
    assert told(tmp_path)[0] == 0


def test_rounded_figures(tmp_path: Path) -> None:
    """Shares of a percent that add up to 100.1: an error, unless it is said that they are rounded."""
    (tmp_path / "shares.csv").write_text("party,share\n_T,100.0\na,33.4\nb,33.4\nc,33.3\n")
    text = '[variables.party]\n[[tables]]\nvalue = "share"\n[attacker]\ninteger = false\n'
    (tmp_path / "shares.toml").write_text(text)
    code, found = told(tmp_path / "shares.csv")
    assert code == 1
    assert found["findings"][0]["code"] == "does-not-add-up"
    (tmp_path / "shares.toml").write_text(text + "rounding = 0.1\n")
    assert told(tmp_path / "shares.csv")[1]["findings"][0]["code"] == "nothing-hidden"
    (tmp_path / "shares.toml").write_text(text.replace("[attacker]", "hidden = 0\n[attacker]") + "rounding = 0.1\n")
    code, answer = told(tmp_path / "shares.csv")
    assert (code, answer["findings"], answer["verdict"]) == (1, [], "no power"), "it adds up, and nothing is hidden"
    (tmp_path / "shares.toml").write_text(text + "rounding = 0.1\n")
    (tmp_path / "shares.csv").write_text("party,share\n_T,100.0\na,33.4\nb,x\nc,33.3\n")
    _, found = told(tmp_path / "shares.csv")
    low, high = interval(found, party="b")
    assert low == pytest.approx(33.15)
    assert high == pytest.approx(33.45)


def test_a_table_without_some_cells_must_say_what_that_means(tmp_path: Path) -> None:
    write(tmp_path, SAFE)
    lines = (tmp_path / "jobs.csv").read_text().splitlines()
    (tmp_path / "jobs.csv").write_text("\n".join(line for line in lines if not line.startswith("S2,f")) + "\n")
    assert told(tmp_path)[1]["findings"][0]["code"] == "missing-cells"
    (tmp_path / "table.toml").write_text(DESCRIPTION + 'missing = "hidden"\n')
    found = told(tmp_path)[1]
    # Nobody knows S2 for women: S2 has a total and men, so it follows.
    assert interval(found, region="S2", sex="f") == (7, 7)
    (tmp_path / "table.toml").write_text(DESCRIPTION + 'missing = "zero"\n')
    assert told(tmp_path)[1]["findings"][0]["code"] == "does-not-add-up"


def test_totals_that_are_nowhere_are_nobodys_knowledge(tmp_path: Path) -> None:
    write(tmp_path, {("N1", "f")})
    lines = (tmp_path / "jobs.csv").read_text().splitlines()
    (tmp_path / "jobs.csv").write_text("\n".join(line for line in lines if ",all," not in line) + "\n")
    assert told(tmp_path)[1]["findings"][0]["code"] == "nothing-added-up"
    (tmp_path / "table.toml").write_text(DESCRIPTION.replace('total = "all"', "adds_up = false"))
    _, found = told(tmp_path)
    assert interval(found, region="N1", sex="f") == (3, 3)
    # Unknown to everybody, but nobody has suppressed them.
    assert (found["suppressed"], found["unlisted"]) == (1, 7)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"jobs.csv": ("N1,f,3", "N1,f,four")}, "bad-figure"),
        ({"jobs.csv": ("N1,f,3", "N9,f,3")}, "missing-cells"),
        ({"jobs.csv": ("N1,f,3", "N2,f,3")}, "repeated-cell"),
        ({"jobs.csv": ("N1,f,3", "N1,f,4")}, "does-not-add-up"),
        ({"table.toml": ("sex]", "gender]")}, "variable-not-found"),
        ({"table.toml": ('"jobs.csv"', '"job.csv"')}, "table-description"),
        ({"table.toml": ('"jobs.csv"', '"jobs.csv"\nvalue = "n"')}, "table-description"),
        ({"table.toml": ('"jobs.csv"', '"jobs.csv"\ncolour = "n"')}, "table-description"),
        ({"table.toml": ("[[tables]]", "[[tables")}, "table-description"),
        ({"table.toml": ('["N1", "N2"]', '["N1", "N2", "S1"]')}, "hierarchy"),
    ],
)
def test_what_does_not_fit_is_a_finding(tmp_path: Path, change: dict[str, tuple[str, str]], code: str) -> None:
    write(tmp_path, set())
    for name, (old, new) in change.items():
        text = (tmp_path / name).read_text()
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new))
    exit_code, found = told(tmp_path)
    assert exit_code == 1
    assert found["findings"][0]["code"] == code


def test_a_folder_without_a_description(tmp_path: Path) -> None:
    assert told(tmp_path)[1]["findings"][0]["code"] == "no-description"
    assert told(tmp_path / "nothing.csv")[1]["findings"][0]["code"] == "no-description"


def test_as_python(tmp_path: Path) -> None:
    described = describe(write(tmp_path, SAFE))
    suspect = read_suspect(described)
    write(tmp_path, set(), name="truth.csv")
    required = read_required(described, suspect, tmp_path / "truth.csv")
    found = audit(suspect, required, sharpen=True)
    assert found.ok
    assert np.array_equal(required.truth[~suspect.unknown], suspect.value[~suspect.unknown])
    assert "3" not in repr(required)
