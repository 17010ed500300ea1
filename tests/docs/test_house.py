"""The house keeps its promises: one word means one thing, rooms are few, the walk is short, and nobody asks a mechanism
for its name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "confide"
MODULES = sorted(path for path in HOUSE.rglob("*.py"))
EXAMPLES = ROOT / "tests" / "contract" / "examples"
WALKS = {"tables": 45, "topdown": 85}
"""The most files between `confide run` and the sealed folder."""


def classes(path: Path) -> list[str]:
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    return [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for name in classes(path):
            places[name].append(str(path.relative_to(HOUSE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_module_name_stands_twice_outside_mechanisms() -> None:
    places = defaultdict(list)
    for path in MODULES:
        inside = path.relative_to(HOUSE)
        if inside.parts[0] != "mechanisms" and path.stem not in ("__init__", "__main__"):
            places[path.stem].append(str(inside))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_there_are_few_modules() -> None:
    assert len(MODULES) <= 330


def test_nothing_outside_its_folder_asks_a_mechanism_for_its_name() -> None:
    asking = [
        f"{path.relative_to(HOUSE)}: {line.strip()}"
        for path in MODULES
        if path.relative_to(HOUSE).parts[0] != "mechanisms"
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"mechanism(\.name)?\"?\]? (==|!=)", line)
    ]
    assert asking == []


def test_the_picture_of_the_layers_is_the_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = page.partition("```\n")[2].partition("```")[0].splitlines()
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("layers = [")[2].partition("]")[0]
    layers = [re.findall(r"\w+", line) for line in contract.strip().splitlines()]
    assert len(layers) == len(picture) <= 7
    for names, line in zip(layers, picture, strict=True):
        assert [name for name in names if name not in line] == []


@pytest.mark.process
@pytest.mark.parametrize("mechanism", ["tables", pytest.param("topdown", marks=pytest.mark.slow)])
def test_the_walk_is_short(mechanism: str) -> None:
    spec = EXAMPLES / mechanism / "spec.toml"
    command = [sys.executable, "-m", "confide.walk", str(spec), "--files"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].startswith("cli/")
    assert "releases/run.py" in lines
    assert f"mechanisms/{mechanism}/mechanism.py" in lines
    files = [line for line in lines if line.endswith(".py")]
    assert len(files) <= WALKS[mechanism], lines[-1]
    assert not list(spec.parent.glob("*.ledger")), "a walk spends nothing and keeps nothing"
