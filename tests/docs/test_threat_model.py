"""Every sentence of SECURITY.md about what is protected has its test, or the reason why it has none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import HOLDING
from tests.kits.times import costly
from tests.planted.corpus import read_corpus

ROOT = Path(__file__).parents[2]
SECURITY = ROOT / "SECURITY.md"
PAGE = ROOT / "docs" / "threat-model.md"
SECTIONS = ("Threat model", "What is covered", "What is not covered", "What a privacy bug is")
NO_TEST = "documented, no test: "


def section(page: Path, title: str) -> str:
    return page.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def sentences(title: str) -> list[str]:
    """The sentences of a section of SECURITY.md, one a line, as a person reads them."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", section(SECURITY, title)).replace("**", "").replace("`", "")
    return [line for line in (re.sub(r"^\s*- ", "", line).strip() for line in plain.splitlines()) if line]


def rows(title: str) -> list[tuple[str, str]]:
    """The rows of the table of a section: the sentence, or a part of it, and what holds it."""
    lines = [line for line in section(PAGE, title).splitlines() if line.startswith("| ")][1:]
    return [(cells[1].strip(), cells[2].strip()) for cells in (line.split("|") for line in lines)]


def missing(title: str) -> list[str]:
    """Sentences of a section of which some words stand in no row."""
    parts = sorted((part for part, _ in rows(title)), key=len, reverse=True)
    uncovered = []
    for sentence in sentences(title):
        rest = sentence
        for part in parts:
            rest = rest.replace(part, "")
        if re.search(r"\w", rest):
            uncovered.append(sentence)
    return uncovered


HELD = [(title, part, held) for title in SECTIONS for part, held in rows(title)]


@pytest.mark.parametrize("title", SECTIONS)
def test_every_sentence_of_the_threat_model_has_its_row(title: str) -> None:
    assert sentences(title)
    assert missing(title) == []
    text = "\n".join(sentences(title))
    assert [part for part, _ in rows(title) if part not in text] == [], "a row of a sentence that is not there any more"


@pytest.mark.parametrize(("title", "part", "held"), HELD, ids=[f"{title}: {part[:40]}" for title, part, _ in HELD])
def test_a_sentence_has_tests_or_a_reason(title: str, part: str, held: str) -> None:
    if held.startswith(NO_TEST):
        assert len(held) > len(NO_TEST), "a reason"
        assert title != "What is covered", "what is covered is tested"
        return
    named = HOLDING.findall(held)
    assert named, f"{part} has neither tests nor a reason"
    assert HOLDING.sub("", held).replace("<br>", "").strip() == ""


def collected(files: list[str]) -> frozenset[str]:
    """The tests of some files that ``make test`` runs, without their parameters: pytest says it, with all the marks and
    lists that it goes by."""
    suite = re.search(
        r"^suite:.*\n.*pytest.*?-m \"([^\"]+)\"", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert suite is not None
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", suite[1]]
    answer = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    tests = frozenset(line.partition("[")[0] for line in answer.stdout.splitlines() if "::" in line)
    assert tests, answer.stdout + answer.stderr
    return tests


def test_a_sentence_without_a_row_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "SECURITY.md"
    text = SECURITY.read_text(encoding="utf-8")
    changed.write_text(text.replace("- **Floating-point leaks**", "- **Everything else.**\n- **Floating-point leaks**"))
    monkeypatch.setattr(f"{__name__}.SECURITY", changed)
    assert missing("What is covered") == ["Everything else."]


@pytest.mark.process
def test_every_test_that_is_named_runs_with_make_test() -> None:
    """And what the list or a mark takes out of it is known to be out."""
    named = {f"{file}::{name}" for _, _, held in HELD for file, name in HOLDING.findall(held)}
    killers = {node.partition("[")[0] for bug in read_corpus() for node in bug.killed_by}
    by_list = next(name for name in sorted(costly() - killers - named) if name.startswith("tests/runs/"))
    by_mark = "tests/inference/test_infer_coverage.py"
    files = {test.partition("::")[0] for test in {*named, by_list, by_mark}}
    tests = collected(sorted(file for file in files if (ROOT / file).exists()))
    assert sorted(named - tests) == []
    assert not [test for test in tests if test == by_list or test.startswith(by_mark)]
