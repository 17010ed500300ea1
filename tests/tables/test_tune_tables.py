"""``confide tune --target``: noise margins as targets, exact shares of tables and levels."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kits.commands import codes, run, run_json

from confide.mechanisms.tables.tuning import tune_tables
from confide.releases.ledger import Ledger

EXAMPLE = Path(__file__).parents[1] / "contract" / "examples" / "tables"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "project")
    return tmp_path / "project"


def test_targets_are_met_shares_are_exact_and_check_accepts_them(project: Path) -> None:
    out = project / "tuned" / "spec2.toml"  # in another folder: files, and the ledger that is opened later, are found
    out.parent.mkdir()
    arguments = ("--total", "3", "--target", "margin<=10 in county", "--target", "tongue <= 12 in block @90%")
    answer = run_json("tune", project / "spec.toml", *arguments, "--out", out)
    shares = {(row["table"], row["level"]): row for row in answer["shares"]}
    assert sum(Fraction(row["share"]) for row in answer["shares"]) == 1
    assert Fraction(answer["total"]) == 3
    for table in ("age-by-sex", "work-by-sex"):
        assert shares[table, "county"]["margin"] <= 10
        assert shares[table, "county"]["target"] == "margin<=10 in county"
    assert shares["tongue", "block"]["margin"] <= 12
    assert shares["age-by-sex", "tract"]["target"] is None
    # Tables and levels without a target keep their proportions.
    free = [row for row in answer["shares"] if row["target"] is None]
    assert len({Fraction(row["share"]) / Fraction(row["present_share"]) for row in free}) == 1
    Ledger.open_new(
        project / "data-set.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=3
    )
    checked = run_json("check", out)
    assert checked["ok"] is True
    assert Fraction(checked["cost"]) == 3
    again = tune_tables(out, ["margin<=10 in county"])
    assert {(row.table, row.level): row.present for row in again.rows} == {
        key: Fraction(row["share"]) for key, row in shares.items()
    }


def test_the_noise_is_the_widest_with_the_margin(project: Path) -> None:
    """A little less than what the targets need is too little; where every table has one, more makes all better."""
    needed = tune_tables(project / "spec.toml", ["margin <= 10 in county"]).needed
    row = next(
        row for row in tune_tables(project / "spec.toml", ["margin <= 10 in county"]).rows if row.level == "county"
    )
    assert row.margin == 10
    everything = "margin <= 10 in nation, state, county, tract, place, block"
    least = tune_tables(project / "spec.toml", [everything])
    assert least.total == least.needed > needed
    assert {row.margin for row in least.rows} <= set(range(11))
    more = tune_tables(project / "spec.toml", [everything], total=2 * least.needed)
    assert all(after.margin < before.margin for before, after in zip(least.rows, more.rows, strict=True))
    dear = ("--total", str(least.needed * Fraction(999, 1000)), "--target", everything)
    assert codes("tune", project / "spec.toml", *dear) == ["targets-too-dear"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("margin <= 10 in countyy", "did you mean 'county'?"),
        ("age-by-sexx <= 10 in county", "did you mean 'age-by-sex'?"),
        ("margin <= 5pp in county", "whole number"),
        ("work-by-sex <= 5 in tract", "is not published for"),
        ("margin 10 in county", "no limit"),
    ],
)
def test_mistakes_are_findings(project: Path, target: str, said: str) -> None:
    with pytest.raises(Exception, match="--target") as raised:
        tune_tables(project / "spec.toml", [target])
    assert said in str(raised.value)


def test_words_for_people(project: Path) -> None:
    text = run("tune", project / "spec.toml", "--target", "margin<=10 in county")
    assert "±10" in text
    for option in (
        ("--move", "budget=1"),
        ("--set", "budget=1"),
        ("--lock", "x"),
        ("--prior", "0.1"),
        ("--budget-follows",),
    ):
        both = ("--target", "margin<=10 in county", *option)
        assert codes("tune", project / "spec.toml", *both) == ["targets-and-rows"], option
    assert codes("tune", project / "spec.toml", "--keep", "1/50") == ["option-without-effect"]
    entries = run_json("tune", project / "spec.toml", "--total", "1")["entries"]
    assert entries["budget"] == "1"
