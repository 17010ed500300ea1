"""``confide run`` on a terminal: the price in words, and the name of the release typed before anything is spent."""

from __future__ import annotations

import os
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kits.commands import run, run_json
from typer.testing import CliRunner

from confide.cli import verbs
from confide.cli.main import app
from confide.errors import RunError
from confide.releases.ledger import Ledger
from confide.releases.stated_price import deployments

POSIX_TERMINAL = os.name == "posix"


def kinds(project: Path) -> list[str]:
    return [entry.kind for entry in Ledger(project / "people.ledger").history()]


@pytest.mark.parametrize("answer", ["", "\n", "Small\n", "small-\n", "yes\n"])
def test_nothing_is_charged_unless_the_name_is_typed(
    project: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(verbs, "can_answer", lambda: True)
    done = CliRunner().invoke(app, ["run", str(project / "spec.toml")], input=answer)
    assert isinstance(done.exception, RunError)
    assert [finding.code for finding in done.exception.findings] == ["not-confirmed"]
    assert kinds(project) == ["open"]
    assert not (project / "small").exists()


def test_the_name_makes_the_release_and_nobody_is_asked_twice(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "can_answer", lambda: True)
    done = CliRunner().invoke(app, ["run", str(project / "spec.toml")], input=" small \n")
    assert done.exit_code == 0, done.output
    assert "Price: zcdp rho = " in done.output
    assert "times its chance of a false" in done.output
    assert kinds(project) == ["open", "reserve", "measured", "sealed"]
    again = CliRunner().invoke(app, ["run", str(project / "spec.toml")], input="")
    assert again.exit_code == 0, "nothing is charged, so nobody is asked"


def test_programs_are_not_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "can_answer", lambda: True)
    assert run_json("run", project / "spec.toml", "--yes", "--json")["ok"] is True


@pytest.mark.process
@pytest.mark.skipif(not POSIX_TERMINAL, reason="a terminal of POSIX is opened")
@pytest.mark.parametrize(("answer", "code", "charged"), [(b"other\n", 1, 1), (b"\x04", 1, 1), (b"small\n", 0, 4)])
def test_a_real_terminal(project: Path, answer: bytes, code: int, charged: int) -> None:
    import pty

    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-m", "confide", "run", str(project / "spec.toml")])
    shown, sent = b"", False
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
        if b"type its name" in shown and not sent:
            os.write(terminal, answer)
            sent = True
    _, status = os.waitpid(process, 0)
    assert sent, shown
    assert os.waitstatus_to_exitcode(status) == code, shown
    assert len(kinds(project)) == charged


def test_check_states_the_price_beside_yardsticks_and_what_is_left(project: Path) -> None:
    answer = run_json("check", project / "spec.toml", "--json")
    price = answer["price"]
    assert price["loss"]["definition"] == "zcdp"
    assert price["left_after"] == str(1 - Fraction(answer["cost"]))
    persons = price["yardsticks"][0]
    assert persons["loss"] == "293764/114921"
    assert 17.14 <= persons["epsilon"] < 17.15, "the tight conversion at 1e-10"
    assert all(yardstick["source"] for yardstick in price["yardsticks"])
    assert len(price["yardsticks"]) == len(deployments())
    said = run("check", project / "spec.toml")
    assert "that is epsilon = " in said
    assert "2020 U.S. Census, redistricting: persons (2021)" in said
    assert "This release would cost " in said
    assert " and leave " in said
