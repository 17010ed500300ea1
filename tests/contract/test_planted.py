"""The package of the guide «How to add a mechanism» of docs/architecture.md, installed from its folder: its mechanism
passes the whole contract suite, beside a copy of Confide."""

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
PACKAGE = ROOT / "examples" / "headcount"


def blocks_of_code() -> tuple[str, str, str]:
    """The mechanism, its entry point and its example, as the guide has them."""
    text = GUIDE.read_text(encoding="utf-8")
    guide = text.partition("## How to add a mechanism")[2].partition("\n## ")[0]
    mechanism, entry, spec = re.findall(r"```(?:python|toml)\n(.*?)```", guide, re.DOTALL)
    return mechanism, entry, spec


def test_the_guide_shows_the_files_of_the_package() -> None:
    mechanism, entry, spec = blocks_of_code()
    assert mechanism == (PACKAGE / "src" / "confide_headcount" / "mechanism.py").read_text(encoding="utf-8")
    assert entry in (PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
    assert spec == (PACKAGE / "spec.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def house() -> Iterator[Path]:
    """A copy of Confide with the package installed beside it. Others may read it, because one test of the suite is
    somebody else."""
    with tempfile.TemporaryDirectory(prefix="house-") as folder:
        Path(folder).chmod(0o755)
        yield plant(Path(folder))


def plant(root: Path) -> Path:
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "confide", root / "src" / "confide", ignore=without)
    (root / "tests").mkdir()
    for name in ("__init__.py", "conftest.py", "costly.txt"):
        shutil.copy(ROOT / "tests" / name, root / "tests")
    for kit in ("contract", "kits", "planted"):
        if (ROOT / "tests" / kit).is_dir():
            shutil.copytree(ROOT / "tests" / kit, root / "tests" / kit, ignore=without)
    (root / "tests" / "contract" / Path(__file__).name).unlink()
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "threat-model.md", root / "docs")
    shutil.copytree(PACKAGE, root / "package", ignore=without)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    pip += ["--no-build-isolation", "--target", str(root / "src"), str(root / "package")]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    example = root / "tests" / "contract" / "examples" / NAME
    example.mkdir()
    for name in ("spec.toml", "persons.csv", "blocks.csv"):
        shutil.copy(PACKAGE / name, example)
    return root


def run(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(house / "src")}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, *arguments], cwd=house, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.process
def test_a_mechanism_added_by_the_guide_passes_the_contract(house: Path) -> None:
    written = run(house, "-m", "tests.contract.write_bytes", NAME)
    assert written.returncode == 0, written.stdout + written.stderr
    light = ("-m", "not slow", "-k", NAME)
    tested = run(house, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/contract", *light)
    assert tested.returncode == 0, tested.stdout[-4000:] + tested.stderr[-2000:]
    passed = re.search(r"(\d+) passed", tested.stdout)
    assert passed is not None
    assert int(passed[1]) >= 50, "the contract suite has taken it in without a line of test code"
