"""The guide «How to add a mechanism» of docs/architecture.md, followed to the letter: the planted mechanism passes the
whole contract suite, in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "architecture.md"
NAME = "headcount"
SAME_PEOPLE = Path(__file__).parent / "examples" / "tables"


def blocks_of_code() -> tuple[str, str, str]:
    """The mechanism, its line and its example, as the guide has them."""
    text = GUIDE.read_text(encoding="utf-8")
    guide = text.partition("## How to add a mechanism")[2].partition("\n## ")[0]
    mechanism, line, spec = re.findall(r"```(?:python|toml)\n(.*?)```", guide, re.DOTALL)
    return mechanism, line, spec


@pytest.fixture(scope="module")
def house() -> Iterator[Path]:
    """A copy of the package with the planted mechanism: a folder, a line, an example. Others may read it, because one
    test of the suite is somebody else."""
    with tempfile.TemporaryDirectory(prefix="house-") as folder:
        Path(folder).chmod(0o755)
        yield plant(Path(folder))


def plant(root: Path) -> Path:
    mechanism, line, spec = blocks_of_code()
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "confide", root / "src" / "confide", ignore=without)
    (root / "tests").mkdir()
    for name in ("__init__.py", "conftest.py", "slow.txt"):
        shutil.copy(ROOT / "tests" / name, root / "tests")
    for kit in ("contract", "kits", "planted"):
        if (ROOT / "tests" / kit).is_dir():
            shutil.copytree(ROOT / "tests" / kit, root / "tests" / kit, ignore=without)
    (root / "tests" / "contract" / Path(__file__).name).unlink()
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "threat-model.md", root / "docs")
    folder = root / "src" / "confide" / "mechanisms" / NAME
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "mechanism.py").write_text(mechanism, encoding="utf-8")
    registry = folder.parent / "__init__.py"
    listed = registry.read_text(encoding="utf-8")
    first = '        "tables": '
    assert listed.count(first) == 1
    registry.write_text(listed.replace(first, f"        {line.strip()}\n{first}"), encoding="utf-8")
    example = root / "tests" / "contract" / "examples" / NAME
    example.mkdir()
    (example / "spec.toml").write_text(spec, encoding="utf-8")
    for name in ("persons.csv", "blocks.csv"):
        shutil.copy(SAME_PEOPLE / name, example)
    return root


def run(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(house / "src")}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, *arguments], cwd=house, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.process
def test_a_mechanism_added_by_the_guide_passes_the_contract(house: Path) -> None:
    written = run(house, "-m", "tests.contract.write_bytes", NAME)
    assert written.returncode == 0, written.stdout + written.stderr
    light = ("-m", "not slow", "-k", NAME)
    tested = run(house, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/contract", *light)
    assert tested.returncode == 0, tested.stdout[-4000:] + tested.stderr[-2000:]
    passed = re.search(r"(\d+) passed", tested.stdout)
    assert passed is not None
    assert int(passed[1]) >= 2, "the contract suite has taken it in without a line of test code"
