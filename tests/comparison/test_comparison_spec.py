"""The spec of a comparison: defaults, the commented template, and every problem at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from confide import drafting
from confide.errors import SpecError
from confide.lab.comparison.comparison_spec import DEFAULT, AttackPart, load_comparison


def load(tmp_path: Path, text: str):
    (tmp_path / "spec.toml").write_text(text)
    return load_comparison(tmp_path / "spec.toml")


def findings(tmp_path: Path, text: str):
    with pytest.raises(SpecError) as caught:
        load(tmp_path, text)
    return caught.value.findings


def test_the_template_says_what_the_defaults_are(tmp_path: Path) -> None:
    made = drafting.new("comparison", tmp_path)
    assert made.ledger is None
    spec = load_comparison(made.spec).spec
    assert tuple(spec.protections) == DEFAULT
    assert (spec.attack.noisy_blocks, spec.attack.suppressed_blocks) == (300, 150)
    assert spec.attack == AttackPart()
    assert load_comparison(made.spec).areas == load(tmp_path, "[comparison]\nmade_up = 1000\n").areas


def test_the_true_tables_are_always_there_and_first(tmp_path: Path) -> None:
    text = '[comparison]\nmade_up = 1000\n[[protections]]\nname = "mine"\nmechanism = "cellkey"\n'
    assert [part.name for part in load(tmp_path, text).protections] == ["none", "mine"]
    text += '[[protections]]\nname = "truth"\nmechanism = "none"\n'
    assert [part.name for part in load(tmp_path, text).protections] == ["truth", "mine"]


@pytest.mark.parametrize(
    ("text", "line", "where"),
    [
        ("[comparison]\n", 1, "comparison"),
        ('[comparison]\nmade_up = 1000\n[data]\nrecords = "a"\nblocks = "b"\n', 1, "comparison"),
        ("[comparison]\nmade_up = 1000\nsurprise = 1\n", 3, "comparison.surprise"),
        ("[comparison]\nmade_up = 1000\n[geography]\ncounty = 12\n", 3, "geography"),
        (
            '[comparison]\nmade_up = 1000\n[[protections]]\nname = "t"\nmechanism = "tables"\nbudget = 2.56\n',
            6,
            "protections[0].budget",
        ),
        (
            '[comparison]\nmade_up = 1000\n[[protections]]\nname = "t"\nmechanism = "swapping"\nD = 3\n',
            6,
            "protections[0].D",
        ),
        (
            '[comparison]\nmade_up = 1000\n[[protections]]\nname = "data"\nmechanism = "tables"\n',
            4,
            "protections[0].name",
        ),
        ('[comparison]\nmade_up = 1000\n[attack]\nattacker = "coverage=2"\n', 4, "attack.attacker"),
        ('[comparison]\nmade_up = 1000\n[[protections]]\nname = "x"\nmechanism = "magic"\n', 3, "protections[0]"),
    ],
)
def test_a_problem_is_found_at_its_line(tmp_path: Path, text: str, line: int, where: str) -> None:
    found = findings(tmp_path, text)
    assert [(each.where.line, each.where.path) for each in found] == [(line, where)]
    assert all(each.expected for each in found)


def test_a_file_that_is_no_spec_is_a_finding(tmp_path: Path) -> None:
    assert findings(tmp_path, "[comparison\n")[0].code == "not-toml"
    with pytest.raises(SpecError) as caught:
        load_comparison(tmp_path / "nowhere.toml")
    assert caught.value.findings[0].code == "no-spec"


def test_samples_are_the_smallest_that_is_asked_for() -> None:
    part = AttackPart(blocks=50, noisy_blocks=80, suppressed_blocks=10)
    assert [part.sample(noisy=n, suppressed=h) for n, h in ((False, False), (True, False), (False, True))] == [
        50,
        50,
        10,
    ]
    assert AttackPart(noisy_blocks=None).sample(noisy=True, suppressed=False) is None
