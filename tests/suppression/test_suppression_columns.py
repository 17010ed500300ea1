"""No column of a given table is passed over: found by common names with a description too, told first, or refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow.csv
import pytest
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError
from confide.mechanisms.suppression.given.assumed import is_time

MAGNITUDES = """region,sex,value,contributors,top1,top2
Total,Total,1000,12,400,300
Total,f,440,2,400,40
Total,m,560,10,300,100
N,Total,500,3,400,60
S,Total,500,9,300,100
N,f,400,1,400,0
S,f,40,1,40,0
N,m,100,2,60,40
S,m,460,8,300,100
"""
TOTALS = '[variables.region]\ntotal = "Total"\n[variables.sex]\ntotal = "Total"\n'
DESCRIBED = TOTALS + '[[tables]]\nfile = "mag.csv"\nvalue = "value"\n'


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def command(folder: Path, *words: str) -> tuple[int, str]:
    shown = CliRunner().invoke(app, ["suppress", *words, "--out", str(folder / "o")])
    return shown.exit_code, shown.output


def released(folder: Path, name: str = "mag") -> dict[tuple[str, ...], str]:
    rows = pyarrow.csv.read_csv(folder / "o" / "release" / "tables" / f"{name}.csv").to_pylist()
    keys = [key for key in rows[0] if key not in ("value", "count", "status", "margin") and not key.endswith("_label")]
    return {tuple(str(row[key]) for key in keys): row["status"] for row in rows}


def codes_of(table: Path, out: Path, **options: object) -> list[str]:
    try:
        confide.suppress(table, out=out, **{"rule": "threshold=2"} | options)  # type: ignore[arg-type]
    except ConfideError as error:
        assert not (out / "release").exists()
        return [finding.code for finding in error.findings if finding.severity == "error"]
    return []


@pytest.mark.parametrize("description", [None, TOTALS, DESCRIBED], ids=["none", "totals alone", "totals and figures"])
def test_a_description_that_names_totals_hides_the_single_firms(tmp_path: Path, description: str | None) -> None:
    write(tmp_path, mag__csv=MAGNITUDES)
    if description is not None:
        write(tmp_path, mag__toml=description)
    exit_code, said = command(tmp_path, str(tmp_path / "mag.csv"), "--rule", "threshold=2")
    assert exit_code == 0, said
    status = released(tmp_path)
    for cell in (("N", "f"), ("S", "f"), ("N", "m")):
        assert status[cell] == "suppressed", cell
    assert said.index("contributors: the number of contributors") < said.index("Sealed")
    assert "top1: a largest contribution" in said
    assert " cells suppressed" in said
    assert "0 cells suppressed" not in said


def test_the_description_may_be_given_itself_and_what_is_assumed_is_told_by_check_too(tmp_path: Path) -> None:
    write(tmp_path, mag__csv=MAGNITUDES, mag__toml=DESCRIBED)
    exit_code, said = command(tmp_path, str(tmp_path / "mag.toml"), "--rule", "threshold=2")
    assert exit_code == 0, said
    assert released(tmp_path)["N", "f"] == "suppressed"
    assert "contributors: the number of contributors" in said
    (warning,) = [f for f in confide.check(tmp_path / "o" / "spec.toml").findings if f.code == "columns-assumed"]
    assert warning.severity == "warning"
    assert "contributors" in str(warning.found)


def hierarchy_table() -> tuple[str, str]:
    regions = {"AT1": ["AT11", "AT12"], "AT2": ["AT21", "AT22"]}
    firms = {
        ("AT11", "C11"): (1009, 1),
        ("AT11", "C12"): (900, 9),
        ("AT12", "C11"): (800, 8),
        ("AT12", "C12"): (700, 7),
    }
    firms |= {
        ("AT21", "C11"): (600, 9),
        ("AT21", "C12"): (500, 8),
        ("AT22", "C11"): (400, 7),
        ("AT22", "C12"): (300, 6),
    }
    cells: dict[tuple[str, str], tuple[int, int]] = {}
    for (region, nace), (value, number) in firms.items():
        above = next(code for code, parts in regions.items() if region in parts)
        for place in (region, above, "AT"):
            for branch in (nace, "C"):
                before = cells.get((place, branch), (0, 0))
                cells[place, branch] = before[0] + value, before[1] + number
    rows = "\n".join(f"{place},{branch},{value},{number}" for (place, branch), (value, number) in cells.items())
    description = '[variables.region]\ntotal = "AT"\nparts = { AT = ["AT1", "AT2"], '
    description += 'AT1 = ["AT11", "AT12"], AT2 = ["AT21", "AT22"] }\n[variables.nace]\ntotal = "C"\n'
    return f"region,nace,turnover,contributors\n{rows}\n", description + '[[tables]]\nvalue = "turnover"\n'


def test_a_description_with_a_hierarchy_hides_the_single_firm(tmp_path: Path) -> None:
    table, description = hierarchy_table()
    write(tmp_path, firms__csv=table, firms__toml=description)
    exit_code, said = command(tmp_path, str(tmp_path / "firms.csv"), "--rule", "threshold=2")
    assert exit_code == 0, said
    assert released(tmp_path, "firms")["AT11", "C11"] == "suppressed"


def test_a_cell_that_the_office_calls_unsafe_is_hidden_with_a_description_too(tmp_path: Path) -> None:
    rows = {("AT11", "C11"): 40, ("AT11", "C12"): 50, ("AT12", "C11"): 40, ("AT12", "C12"): 60}
    table = "region,nace,count,status\n" + "".join(
        f"{region},{nace},{count},{'u' if (region, nace) == ('AT12', 'C11') else ''}\n"
        for (region, nace), count in rows.items()
    )
    description = (
        '[variables.region]\nparts = { AT1 = ["AT11", "AT12"] }\n[variables.nace]\n[[tables]]\nvalue = "count"\n'
    )
    write(tmp_path, jobs__csv=table, jobs__toml=description)
    exit_code, said = command(tmp_path, str(tmp_path / "jobs.csv"), "--rule", "threshold=2")
    assert exit_code == 0, said
    assert released(tmp_path, "jobs")["AT12", "C11"] == "suppressed"
    assert "status: a status that was decided beforehand" in said


@pytest.mark.parametrize("column", ["contributors", "contribs", "N_Units", "Contributors"])
@pytest.mark.parametrize("turned", [False, True])
def test_contributors_are_found_whatever_the_order_of_columns_and_rows(
    tmp_path: Path, column: str, turned: bool
) -> None:
    lines = [line.split(",") for line in MAGNITUDES.replace("contributors", column).splitlines()]
    rows = lines[1:]
    random.Random(5).shuffle(rows)
    order = [5, 3, 2, 1, 0, 4] if turned else range(6)
    text = "\n".join(",".join(line[at] for at in order) for line in [lines[0], *rows])
    write(tmp_path, mag__csv=text + "\n", mag__toml=DESCRIBED)
    exit_code, said = command(tmp_path, str(tmp_path / "mag.csv"), "--rule", "threshold=2")
    assert exit_code == 0, said
    status = released(tmp_path)
    assert "suppressed" in {status.get(("N", "f")), status.get(("f", "N"))}


def test_a_column_that_is_used_for_nothing_is_refused_unless_it_is_ignored(tmp_path: Path) -> None:
    lines = MAGNITUDES.splitlines()
    table = "\n".join([lines[0] + ",firms", *(f"{line},{at}" for at, line in enumerate(lines[1:]))]) + "\n"
    write(tmp_path, mag__csv=table, mag__toml=DESCRIBED)
    assert codes_of(tmp_path / "mag.csv", tmp_path / "o") == ["unused-column"]
    assert codes_of(tmp_path / "mag.toml", tmp_path / "o") == ["unused-column"]
    write(tmp_path, mag__toml=DESCRIBED + 'ignore = ["firms"]\n')
    assert codes_of(tmp_path / "mag.csv", tmp_path / "p") == []
    write(tmp_path, mag__toml=DESCRIBED + 'ignore = ["nothing"]\n')
    assert codes_of(tmp_path / "mag.csv", tmp_path / "q") == ["no-column"]


def test_contributors_can_be_ignored_on_purpose_and_then_it_is_said_loudly_that_nothing_is_hidden(
    tmp_path: Path,
) -> None:
    write(tmp_path, mag__csv=MAGNITUDES, mag__toml=DESCRIBED + 'ignore = ["contributors", "top1", "top2"]\n')
    exit_code, said = command(tmp_path, str(tmp_path / "mag.csv"), "--rule", "threshold=2")
    assert exit_code == 0, said
    assert "0 cells suppressed: every figure is published" in said
    assert "left out" not in said
    shown = CliRunner().invoke(app, ["suppress", str(tmp_path / "mag.csv"), "--rule", "threshold=2", "--out",
                                     str(tmp_path / "o"), "--json"])  # fmt: skip
    assert json.loads(shown.stdout)["suppressed"] == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("N,f,400,1,400,0", "N,f,400,0,400,0"),
        ("N,f,400,1,400,0", "N,f,400,7,400,0"),
        ("N,Total,500,3,400,60", "N,Total,500,2,400,60"),
        ("Total,Total,1000,12,400,300", "Total,Total,1000,13,400,300"),
        ("Total,f,440,2,400,40", "Total,f,440,2,30,10"),
        ("S,m,460,8,300,100", "S,m,460,8,300,200"),
    ],
    ids=["nobody", "part above whole", "whole below parts", "whole above sum", "largest of whole", "above the figure"],
)
@pytest.mark.parametrize("described", [False, True])
def test_contradictions_are_refused(tmp_path: Path, old: str, new: str, described: bool) -> None:
    assert old in MAGNITUDES
    wrong = MAGNITUDES.replace(old, new)
    if old.startswith("N,Total"):
        wrong = wrong.replace("N,m,100,2,60,40", "N,m,100,3,60,20").replace("Total,m,560,10", "Total,m,560,11")
    write(tmp_path, mag__csv=wrong)
    if described:
        write(tmp_path, mag__toml=DESCRIBED)
    codes = codes_of(tmp_path / "mag.csv", tmp_path / "o")
    assert set(codes) in ({"bad-contributors"}, {"bad-contributions"}), codes


def test_a_figure_without_a_contributor_is_refused_where_totals_are_computed(tmp_path: Path) -> None:
    inner = "region,sex,value,contributors\nN,f,400,0\nS,f,40,4\nN,m,100,5\nS,m,460,8\n"
    write(tmp_path, mag__csv=inner)
    assert codes_of(tmp_path / "mag.csv", tmp_path / "o") == ["bad-contributors"]
    write(tmp_path, mag__csv=inner.replace("N,f,400,0", "N,f,0,0"))
    assert codes_of(tmp_path / "mag.csv", tmp_path / "p") == []


TIMES = ["year", "TIME_PERIOD", "Jahr", "année", "quarter", "año", "год", "年", "साल", "السنة"]


@pytest.mark.parametrize("name", TIMES)
def test_time_is_not_added_up_until_somebody_says_so(tmp_path: Path, name: str) -> None:
    table = f"{name},region,count\n2011,N,31\n2011,S,22\n2021,N,35\n2021,S,27\n"
    assert is_time(name)
    write(tmp_path, people__csv=table)
    file = tmp_path / "people.csv"
    assert codes_of(file, tmp_path / "o") == ["time-added-up"]
    assert codes_of(file, tmp_path / "p", total={name: "_T"}) == []
    key = json.dumps(name, ensure_ascii=False)
    write(tmp_path, people__toml=f"[variables.{key}]\n[variables.region]\n")
    assert codes_of(file, tmp_path / "q") == ["time-added-up"]
    write(tmp_path, people__toml=f"[variables.{key}]\nadds_up = false\n[variables.region]\n")
    assert codes_of(file, tmp_path / "r") == []
    totals = table + "_T,N,66\n_T,S,49\n"
    write(tmp_path / "t", people__csv=totals)
    assert codes_of(tmp_path / "t" / "people.csv", tmp_path / "s") == []


@pytest.mark.parametrize("name", ["region", "yearling", "birth_year_group", "timeuse", "sex", "måltid", "区域", "пол"])
def test_other_names_are_no_time(name: str) -> None:
    assert not is_time(name)


def test_labels_beside_codes_are_named_as_such(tmp_path: Path) -> None:
    table = "region,region_name,sex,count\n" + "".join(
        f"{code},{label},{sex},{count}\n"
        for code, label in (("1", "North"), ("2", "South"), ("3", "West"))
        for sex, count in (("f", 11), ("m", 12))
    )
    write(tmp_path, people__csv=table)
    with pytest.raises(ConfideError) as error:
        confide.suppress(tmp_path / "people.csv", out=tmp_path / "o", rule="threshold=2")
    (finding,) = error.value.findings
    assert (finding.code, finding.where.column) == ("label-column", "region_name")
    assert "missing" not in finding.remedy
    assert codes_of(tmp_path / "people.csv", tmp_path / "p", ignore=["region_name"]) == []
    write(tmp_path, people__toml="[variables.region]\n[variables.sex]\n")
    with pytest.raises(ConfideError) as error:
        confide.suppress(tmp_path / "people.csv", out=tmp_path / "q", rule="threshold=2")
    assert "runs along with 'region'" in error.value.findings[0].what


def test_totals_that_a_description_does_not_name_are_found_as_without_one(tmp_path: Path) -> None:
    write(tmp_path, mag__csv=MAGNITUDES, mag__toml="[variables.region]\n[variables.sex]\n[[tables]]\n")
    exit_code, said = command(tmp_path, str(tmp_path / "mag.csv"), "--rule", "threshold=2")
    assert exit_code == 0, said
    assert "region: a variable with the total Total" in said
    assert released(tmp_path)["N", "f"] == "suppressed"
