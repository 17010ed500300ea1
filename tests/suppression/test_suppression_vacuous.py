"""An audit that looks at nothing finds nothing: descriptions that do not fit their files are refused, every one.

Good descriptions of three sets of tables are changed systematically, one thing at a time: codes, totals, variables,
columns, marks, files. Each good one passes, so that each refusal is the change's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from confide.errors import ConfideError
from confide.lab.attacks.audit_files import read_subject
from confide.mechanisms.suppression.given.tables import toml_value

Files = dict[str, Any]
"""By name: the text of a file, or a description as plain values."""

FIGURES = {
    "_T": (44, 22, 22),
    "North": (20, 9, 11),
    "South": (24, 13, 11),
    "N1": (8, 3, 5),
    "N2": (12, 6, 6),
    "S1": (10, 4, 6),
    "S2": (14, 9, 5),
}
SEXES = ("all", "f", "m")
HIDDEN = {(area, sex) for area in ("North", "South", "N1", "S1") for sex in ("f", "m")}
PARTS = {"North": ["N1", "N2"], "South": ["S1", "S2"]}


def jobs(mark: str = "x", *, status: bool = False) -> str:
    lines = ["region,sex,count,year" + (",flag" if status else "")]
    for area, figures in FIGURES.items():
        for sex, figure in zip(SEXES, figures, strict=True):
            hidden = (area, sex) in HIDDEN
            shown = figure if status or not hidden else mark
            lines.append(f"{area},{sex},{shown},2020" + (f",{'c' if hidden else 'p'}" if status else ""))
    return "\n".join(lines) + "\n"


def marked() -> Files:
    description = {
        "variables": {"region": {"total": "_T", "parts": deepcopy(PARTS)}, "sex": {"total": "all"}},
        "tables": [{"file": "jobs.csv", "value": "count", "suppressed": ["x"]}],
    }
    return {"jobs.csv": jobs(), "table.toml": description}


def with_status() -> Files:
    description = {
        "variables": {"region": {"total": "_T", "parts": deepcopy(PARTS)}, "sex": {"total": "all"}},
        "tables": [{"file": "jobs.csv", "value": "count", "status": "flag", "suppressed": ["c"], "hidden": 8}],
    }
    return {"jobs.csv": jobs(status=True), "table.toml": description}


def linked() -> Files:
    """Two tables, crossed with regions alone: hidden pairs in each."""
    ages = "region,age,count\n_T,_T,44\n_T,young,24\n_T,old,20\n" + "".join(
        f"{area},_T,{total}\n{area},young,x\n{area},old,x\n" for area, total in (("North", 20), ("South", 24))
    )
    description = {
        "variables": {
            "region": {"total": "_T", "parts": deepcopy(PARTS)},
            "sex": {"total": "all"},
            "age": {"total": "_T"},
        },
        "tables": [
            {"file": "jobs.csv", "value": "count", "variables": ["region", "sex"]},
            {"file": "ages.csv", "value": "count", "variables": ["region", "age"]},
        ],
    }
    return {"jobs.csv": jobs(), "ages.csv": ages, "table.toml": description}


GOOD: dict[str, Callable[[], Files]] = {"marked": marked, "status": with_status, "linked": linked}


def changes(name: str) -> Iterator[tuple[str, Files]]:
    """Every wrong version of a good set of files, with what was done to it."""

    def changed(what: str, change: Callable[[dict[str, Any]], object]) -> tuple[str, Files]:
        files = GOOD[name]()
        change(files["table.toml"])
        return f"{name}: {what}", files

    good = GOOD[name]()["table.toml"]
    for code in ("North", "South", "N1", "N2", "S1", "S2"):
        for other in (code.lower(), f"0{code}", f"{code} ", code.replace("1", "9").replace("2", "8").replace("th", "")):
            yield changed(
                f"{code} is called {other!r}", lambda d, c=code, o=other: _rename(d["variables"]["region"], c, o)
            )
    for variable in good["variables"]:
        for total in ("000", "Total", "TOTAL", "T", ""):
            yield changed(
                f"the total of {variable} is {total!r}",
                lambda d, v=variable, t=total: d["variables"][v].update(total=t),
            )
        yield changed(f"without {variable}", lambda d, v=variable: d["variables"].pop(v))
        yield changed(
            f"{variable} misspelt", lambda d, v=variable: d["variables"].update({v + "s": d["variables"].pop(v)})
        )
        yield changed(
            f"nothing adds up along {variable}", lambda d, v=variable: d["variables"][v].update(adds_up=False, parts={})
        )
        yield changed(
            f"{variable} has a code too many", lambda d, v=variable: d["variables"][v].update(unlisted=["nowhere"])
        )
    yield changed("a variable more", lambda d: d["variables"].update(colour={}))
    for wrong in ({"North": ["N1"], "South": ["S1", "S2"]}, {"North": ["N1", "S1"], "South": ["N2", "S2"]},
                  {"North": ["N1", "N2"]}, {}, {"South": ["N1", "N2"], "North": ["S1", "S2"]},
                  {"_T": ["N1", "N2", "S1", "S2", "North", "South"]}, {"_T": ["North"], **PARTS},
                  {"North": ["N1", "N2", "South"], "South": ["S1", "S2"]}):  # fmt: skip
        yield changed(f"parts {wrong}", lambda d, w=wrong: d["variables"]["region"].update(parts=w))
    columns = [{"region": "sex", "sex": "region"}, {"region": "year"}, {"sex": "year"}, {"region": "count"}]
    for swapped in columns:
        yield changed(f"columns {swapped}", lambda d, s=swapped: d["tables"][0].update(columns=s))
    for key, values in {
        "value": ["year", "region", "figure"],
        "suppressed": [["-"], ["*"], ["q", "hidden"], []],
        "delimiter": [";", "\t"],
        "file": ["job.csv", "table.toml"],
        "hidden": [0, 7, 9],
        "status": ["year", "region", "sex"],
        "variables": [["region"], ["sex"], ["region", "sex", "year"], []],
    }.items():
        for value in values:
            yield changed(f"{key} = {value!r}", lambda d, k=key, v=value: d["tables"][0].update({k: v}))


def _rename(variable: dict[str, Any], code: str, other: str) -> None:
    variable["parts"] = {
        (other if above == code else above): [other if part == code else part for part in parts]
        for above, parts in variable["parts"].items()
    }


WRONG = {what: files for name in GOOD for what, files in changes(name)}


def written(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        if isinstance(content, dict):
            lines = [f"[variables.{name}]\n" + "".join(f"{k} = {toml_value(v)}\n" for k, v in variable.items())
                     for name, variable in content["variables"].items()]  # fmt: skip
            lines += [
                "[[tables]]\n" + "".join(f"{k} = {toml_value(v)}\n" for k, v in table.items())
                for table in content["tables"]
            ]
            content = "\n".join(lines)
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize("name", GOOD)
def test_the_good_ones_are_audited(tmp_path: Path, name: str) -> None:
    found = read_subject(written(tmp_path, GOOD[name]())).audit()
    assert found.ok
    assert found.suspect.suppressed.sum() >= 8


def test_there_are_more_than_a_hundred_wrong_ones() -> None:
    assert len(WRONG) >= 100


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused(tmp_path: Path, what: str) -> None:
    folder = written(tmp_path, WRONG[what])
    with pytest.raises(ConfideError) as caught:
        read_subject(folder).audit()
    for finding in caught.value.findings:
        assert finding.what
        assert finding.remedy


@pytest.mark.parametrize("total", ["Gesamt", "Ensemble", "000", "TOT", "TT", "Totaal", "99", "A-Z"])
def test_a_plain_file_whose_totals_have_another_name_is_refused(tmp_path: Path, total: str) -> None:
    (tmp_path / "jobs.csv").write_text(f"area,count\n{total},10\nN,3\nS,\nW,\n")
    with pytest.raises(ConfideError) as caught:
        read_subject(tmp_path / "jobs.csv")
    assert caught.value.findings[0].code == "nothing-added-up"
    (tmp_path / "jobs.toml").write_text(f'[variables.area]\ntotal = "{total}"\n[[tables]]\n')
    assert read_subject(tmp_path / "jobs.csv").audit().ok


def test_a_plain_file_without_a_hidden_cell_is_refused_unless_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("area,count,status\n_T,10,p\nN,3,p\nS,7,hush\n")
    with pytest.raises(ConfideError) as caught:
        read_subject(tmp_path / "jobs.csv")
    assert [finding.code for finding in caught.value.findings] == ["nothing-hidden"]
    description = '[variables.area]\n[[tables]]\nstatus = "status"\nhidden = 0\n'
    (tmp_path / "jobs.toml").write_text(description)
    # Nothing is wrong, and nothing was looked at: a cell that should be hidden would not have been found.
    audit = read_subject(tmp_path / "jobs.csv").audit()
    assert (audit.ok, audit.verdict, audit.power.missing) == (False, "no power", False)


def test_codes_that_are_in_no_file_can_be_meant_so(tmp_path: Path) -> None:
    """Everybody knows that there is a West, and nobody publishes it: what is hidden follows less well."""
    (tmp_path / "jobs.csv").write_text("area,count\n_T,10\nN,3\nS,\n")
    parts = '[variables.area]\nparts = { _T = ["N", "S", "W"] }\n'
    (tmp_path / "jobs.toml").write_text(parts + "[[tables]]\n")
    with pytest.raises(ConfideError) as caught:
        read_subject(tmp_path / "jobs.csv")
    assert caught.value.findings[0].code == "code-not-found"
    (tmp_path / "jobs.toml").write_text(parts + 'unlisted = ["W"]\n[[tables]]\n')
    found = read_subject(tmp_path / "jobs.csv").audit()
    assert [(row["lower"], row["upper"]) for row in found.as_dict()["intervals"]] == [(0, 7)]
