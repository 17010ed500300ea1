"""The audit of a plain file that nobody has described."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kits.commands import codes
from typer.testing import CliRunner

from confide.cli.main import app
from confide.errors import ConfideError
from confide.lab.attacks.audit_files import describe_or_assume, read_suspect
from confide.lab.attacks.suppression_audit import audit

TEMPLATE = """area,age,{v}
{r},{g},30
{r},young,12
{r},old,18
N,{g},14
N,young,
N,old,x
S,{g},16
S,young,:
S,old,..
"""
SAFE = TEMPLATE.format(v="count", r="_T", g="_T")


def intervals(path: Path) -> dict[str, tuple[float, float]]:
    found = audit(read_suspect(describe_or_assume(path))).as_dict()
    return {"/".join(row["cell"].values()): (row["lower"], row["upper"]) for row in found["intervals"]}


def test_the_intervals_are_those_of_a_plain_table(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(SAFE)
    expected = {"N/young": (0, 12), "N/old": (2, 14), "S/young": (0, 12), "S/old": (4, 16)}
    assert intervals(tmp_path / "jobs.csv") == expected
    other = TEMPLATE.format(v="OBS_VALUE", r="Total", g="ALL")
    (tmp_path / "other.csv").write_text(other)
    assert intervals(tmp_path / "other.csv") == expected


def test_a_status_says_what_is_suppressed(tmp_path: Path) -> None:
    text = "area,n,status\nall,10,\nN,3,\nS,,c\nW,,c\n"
    (tmp_path / "areas.csv").write_text(text)
    assert intervals(tmp_path / "areas.csv") == {"S": (0, 7), "W": (0, 7)}


def test_what_was_taken_for_what_is_told(tmp_path: Path) -> None:
    (tmp_path / "areas.csv").write_text("area,n\nall,10\nN,3\nS,\n")
    shown = CliRunner().invoke(app, ["audit", "suppression", str(tmp_path / "areas.csv"), "--json"])
    assert shown.exit_code == 1
    assert '"disclosed": 1' in shown.stdout
    assert '"area": "a variable with the total all"' in shown.stdout
    assert "no description" in shown.stderr


def test_a_description_beside_it_goes_first(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(SAFE)
    (tmp_path / "jobs.toml").write_text("[variables.area]\n[variables.age]\n[[tables]]\n[attacker]\nhigh = 7\n")
    assert not describe_or_assume(tmp_path / "jobs.csv").assumed
    with pytest.raises(ConfideError):  # no more than seven, and yet 14 and 16 in two cells each
        intervals(tmp_path / "jobs.csv")


@pytest.mark.parametrize("text", ["area,age\nN,young\n", "count\n3\n", "area,how many\nN,3\n"])
def test_columns_that_say_nothing_need_a_description(tmp_path: Path, text: str) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    assert codes("audit", "suppression", tmp_path / "jobs.csv") == ["no-description"]


def test_a_hierarchy_that_was_not_described_does_not_add_up(tmp_path: Path) -> None:
    (tmp_path / "areas.csv").write_text("area,count\n_T,10\nN,6\nN1,2\nN2,4\nS,4\n")
    with pytest.raises(ConfideError) as caught:
        intervals(tmp_path / "areas.csv")
    assert "hierarch" in str(caught.value.findings[0].remedy)
