"""The corpus of planted bugs fits source and tests as they are; and what plants them tells killed from alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted.__main__ import chosen, summary, table
from tests.planted.corpus import ROOT, Bug, CorpusError, misfits, missing_test, read_corpus
from tests.planted.running import try_all, verdict

CORPUS = read_corpus()
ROOMS = {bug.room for bug in CORPUS}
SURVIVORS = {
    "tables-scale-three-percent-small",
    "tables-stream-by-last-variable",
    "noise-not-bound-to-records",
    "noise-not-bound-to-plan",
    "resume-does-not-compare-records",
    "topdown-noise-ignores-the-unit",
    "delta-of-truncated-noise-without-beyond",
    "open-confidential-folder-stays-open",
    "tables-noise-restarts-in-every-part",
}
"""Bugs that an earlier suite let pass."""


def test_every_bug_still_applies() -> None:
    """`make planted` plants them; this says at once which of them a change of the source has left behind."""
    assert misfits(CORPUS, ROOT) == []


def test_every_bug_names_tests_that_exist() -> None:
    assert all(bug.killed_by for bug in CORPUS)
    nodes = {node: bug.name for bug in CORPUS for node in bug.killed_by}
    assert [f"{nodes[node]}: {problem}" for node in nodes if (problem := missing_test(ROOT, node))] == []


def test_names_are_unique_and_the_worst_are_there() -> None:
    names = [bug.name for bug in CORPUS]
    assert len(set(names)) == len(names)
    assert set(names) >= SURVIVORS
    assert len(names) >= 60
    assert not ROOMS & set(names), "a room and a bug of one name could not be told apart"


def test_bugs_are_chosen_by_name_room_or_pattern() -> None:
    assert chosen(CORPUS, []) == CORPUS
    assert {bug.room for bug in chosen(CORPUS, ["privacy"])} == {"privacy"}
    assert len(chosen(CORPUS, ["topdown-units-64-*"])) == 1
    with pytest.raises(CorpusError, match="no bug and no room"):
        chosen(CORPUS, ["nothing"])


SOURCE = "def doubled(x: int) -> int:\n    return 2 * x\n\n\ndef tripled(x: int) -> int:\n    return 3 * x\n"
TESTS = """
import pytest
from confide import doubled, tripled

def test_doubled():
    assert doubled(3) == 6

def test_tripled():
    assert tripled(0) == 0

@pytest.mark.slow
def test_slowly():
    assert doubled(3) == 6
"""


def bug(name: str, old: str, new: str, test: str) -> Bug:
    return Bug("numbers", name, "__init__.py", "wrong numbers", old, new, (f"tests/numbers/test_numbers.py::{test}",))


@pytest.fixture
def little_project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in ("src/confide", "tests/numbers"):
        (root / folder).mkdir(parents=True)
    (root / "src/confide/__init__.py").write_text(SOURCE)
    (root / "tests/numbers/test_numbers.py").write_text(TESTS)
    (root / "tests/conftest.py").write_text(
        'from hypothesis import settings\n\nsettings.register_profile("unshrunk")\n'
    )
    (root / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["slow: s", "costly: c", "statistical: s", "process: p"]\n'
    )
    return root


def test_what_does_not_fit_is_named_whatever_else_is_planted_in_the_file(little_project: Path) -> None:
    right = [bug("a", "2 * x", "2 + x", "test_doubled"), bug("b", "3 * x", "3 + x", "test_tripled")]
    crossing = bug("c", "return 2 * x", "return x", "test_doubled")
    wrong = [
        bug("not-once", "return", "yield", "test_doubled"),
        bug("no-python", "return 2 * x", "return 2 *", "test_doubled"),
        bug("no-change", "return 2 * x", "return  2 *  x", "test_doubled"),
    ]
    assert misfits([*right, crossing], little_project) == []
    assert [text.partition(":")[0] for text in misfits([*right, *wrong], little_project)] == [one.name for one in wrong]
    assert len(misfits([Bug("numbers", "d", "gone.py", "", "a", "b", ())], little_project)) == 1


@pytest.mark.process
def test_killed_bugs_living_bugs_and_bugs_that_are_written_wrongly_are_told_apart(
    little_project: Path, tmp_path: Path
) -> None:
    bugs = [
        bug("killed", "return 2 * x", "return 2 + x", "test_doubled"),
        bug("alive", "return 3 * x", "return 4 * x", "test_tripled"),
        bug("killed-by-another", "return 2 * x", "return 5 * x", "test_tripled"),
        bug("not-once", "return", "yield", "test_doubled"),
        bug("no-name", "return 2 * x", "return two * x", "test_doubled"),
        bug("no-python", "return 2 * x", "return 2 *", "test_doubled"),
        bug("seen-by-slow-tests-alone", "return 2 * x", "return 2 + x", "test_slowly"),
        bug("no-change", "return 2 * x", "return  2 *  x", "test_doubled"),
    ]
    said: list[str] = []
    outcomes = try_all(bugs, little_project, tmp_path, 1, said.append)
    assert [verdict(outcome) for outcome in outcomes] == ["killed", "SURVIVED", "killed", *["NOT TRIED"] * 5]
    assert [outcome.named for outcome in outcomes if outcome.killed_by] == [True, False]
    assert outcomes[0].killed_by == "tests/numbers/test_numbers.py::test_doubled"
    assert "2 of 8 planted bugs killed in 1.0 min (2.0 min of processors)" in summary(outcomes, 60, 120)
    assert "written wrongly: NameError" in table(outcomes)
    copy = tmp_path / "copy-0" / "src/confide/__init__.py"
    assert copy.read_text() == (little_project / "src/confide/__init__.py").read_text() == SOURCE


@pytest.mark.process
def test_tests_that_fail_without_a_bug_are_said(little_project: Path, tmp_path: Path) -> None:
    (little_project / "tests/numbers/test_numbers.py").write_text(TESTS.replace("== 6", "== 7"))
    wrong = bug("killed", "return 2 * x", "return 2 + x", "test_doubled")
    with pytest.raises(CorpusError, match="tests fail without a bug"):
        try_all([wrong], little_project, tmp_path, 1, lambda _: None)
