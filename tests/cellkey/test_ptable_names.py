"""One set of names for specs, commands and Python; and settings that nobody could have meant are findings."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError, ParameterError
from confide.noise.ptables.ptable_answer import perturbation_table


def test_names_are_those_of_the_spec_and_of_the_command() -> None:
    answer = perturbation_table(D=4, V="3/2", js=1, pstay="1/5", mono=False)
    assert answer.design is not None
    told = answer.design.settings.as_dict()
    assert (told["D"], told["V_exact"], told["js"], told["pstay"], told["mono"]) == (4, "3/2", 1, "1/5", False)
    shown = CliRunner().invoke(
        app, ["cellkey", "ptable", "-D", "4", "-V", "3/2", "--js", "1", "--pstay", "1/5", "--no-mono", "--json"]
    )
    assert answer.table.fingerprint in shown.stdout


def test_python_shuffles_as_a_spec_does() -> None:
    people = {"sex": ["f", "m"] * 50, "record_key": [at * 977_777 for at in range(100)]}
    found = {}
    for shuffle in ("derived", "none", "5a" * 32):
        answer = confide.protect(people, {"sex": ["f", "m"]}, method="cellkey", shuffle=shuffle, D=40, V=200)
        found[shuffle] = [row["count"] for row in answer.counts.to_pylist()]
    assert found["derived"] == [
        row["count"]
        for row in confide.protect(people, {"sex": ["f", "m"]}, method="cellkey", D=40, V=200).counts.to_pylist()
    ]
    assert len({tuple(counts) for counts in found.values()}) == 3
    with pytest.raises(ParameterError, match="no such order"):
        confide.protect(people, {"sex": ["f", "m"]}, method="cellkey", shuffle="alphabetical")


ABSURD = (
    "1e400",
    "1e-400",
    "1e9999",
    "-1e400",
    "nan",
    "inf",
    "-inf",
    "0",
    "-2",
    "",
    "1/0",
    "9" * 5000,
    "0x10",
    "2e",
    "1e15.5",
)
"""Variances that are none."""


@pytest.mark.parametrize("V", ABSURD)
def test_an_absurd_variance_is_a_finding(V: str) -> None:
    shown = CliRunner().invoke(
        app, ["cellkey", "ptable", "-D", "5", f"-V{V}"] if V else ["cellkey", "ptable", "-D", "5", "-V", ""]
    )
    assert isinstance(shown.exception, ConfideError), V[:20]
    assert all(len(finding.found or "") < 200 for finding in shown.exception.findings)
    with pytest.raises(ConfideError):
        perturbation_table(5, V)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-D", "99999999999999999999999"],
        ["-D", "0"],
        ["-D", "-7"],
        ["-D", "5", "--js", "99999999999999999999"],
        ["-D", "5", "--js", "-1"],
        ["-D", "5", "--keys", "0"],
        ["-D", "5", "--keys", "-8"],
        ["-D", "5", "--keys", "99999999999999999999999"],
        ["-D", "5", "--pstay", "1e400"],
        ["-D", "5", "--pstay", "nan"],
        ["-D", "5", "--pstay", "-1"],
        ["-D", "5", "--modify", "1e-400"],
        ["-D", "5", "--modify", "1e400"],
        ["-D", "5", "--icat", "1,5", "--step", "99999999999999"],
        ["-D", "5", "--icat", "1,5", "--step", "-1"],
        ["-D", "5", "--icat", "99999,5"],
    ],
)
def test_other_absurd_sizes_are_findings(arguments: list[str]) -> None:
    shown = CliRunner().invoke(app, ["cellkey", "ptable", *arguments, "-V", "2"])
    assert isinstance(shown.exception, ConfideError)
