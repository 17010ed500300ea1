"""What is installed, built and shipped: locks with hashes, the wheel of the image, the bill of materials, pins."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from confide.version import __version__

ROOT = Path(__file__).parents[2]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("supply_chain", ROOT / "tools" / "supply_chain.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = tool()
SETS = sorted(TOOL.SETS)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def installed(name: str) -> list[str] | None:
    try:
        return requires(name)
    except PackageNotFoundError:
        return None


@pytest.mark.parametrize("name", SETS)
def test_a_lock_has_every_package_with_its_hashes_and_no_address(name: str) -> None:
    file = ROOT / "locks" / f"{name}.txt"
    text = file.read_text(encoding="utf-8")
    locked, versions = TOOL.pinned(file), TOOL.pinned(ROOT / "constraints.txt")
    assert locked == {each: versions[each] for each in locked}, "make lock"
    assert "://" not in text
    assert "-i " not in text
    for entry in re.split(r"\n(?=\S)", text.strip())[2:]:
        first, *hashes = entry.replace("\\\n", "").split()
        assert re.fullmatch(r"[a-z0-9-]+==\S+", first)
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), first


@pytest.mark.parametrize("name", SETS)
def test_a_lock_covers_what_is_asked_for_by_any_python(name: str) -> None:
    """As far as the metadata of what is needed is installed here."""
    needed = TOOL.closure(TOOL.requirements(name, PROJECT), installed)
    assert sorted(needed - set(TOOL.pinned(ROOT / "locks" / f"{name}.txt"))) == [], "make lock"
    assert len(needed) > 20


def test_what_only_another_python_or_an_extra_needs_is_found() -> None:
    needs = {
        "a": ["b; python_version < '3.12'", "c; python_version < '3.9'", "d[x]", "e; sys_platform == 'win32'"],
        "d": ["f; extra == 'x'", "g; extra == 'y'", "a"],
    }
    assert TOOL.closure(["A>=1"], needs.get) == {"a", "b", "d", "f"}


# What the image is built from


def copied() -> list[tuple[str, str]]:
    """The files and folders that the Dockerfile copies, each with the place where it goes."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split()[1:] for line in lines if line.startswith("COPY")]
    return [(source, target) for *sources, target in words for source in sources]


def image_files(folder: Path) -> Path:
    """What the builder of the image sees, laid out as in the image."""
    for source, target in copied():
        place = folder / target / (Path(source).name if target.endswith("/") else "")
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, place)
    return folder


def test_the_image_has_everything_that_the_wheel_is_made_of(tmp_path: Path) -> None:
    folder, wheel = image_files(tmp_path / "image"), PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = [*wheel["packages"], *wheel["force-include"], PROJECT["tool"]["hatch"]["version"]["path"]]
    named += [PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]]
    assert [name for name in named if not (folder / name).exists()] == []


def test_the_wheel_is_built_from_exactly_the_files_of_the_image(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="needs hatchling, of the group test: make setup")
    folder = image_files(tmp_path / "image")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for part in ("proofs", "concepts"):
        for page in (ROOT / "docs" / part).glob("*.md"):
            assert f"confide/data/docs/{part}/{page.name}" in names
    package = ROOT / "src" / "confide"
    sources = {f"confide/{path.relative_to(package)}" for path in package.rglob("*.py")}
    assert sources <= names


def test_the_image_takes_hashed_files_alone_with_studio_excel_and_formats() -> None:
    runs = re.findall(r"pip install ([^\\&\n]+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert all("--require-hashes" in run or {"--no-deps", "--no-build-isolation"} <= set(run.split()) for run in runs)
    assert {"fastapi", "openpyxl", "pyreadstat", "pandas", "hatchling"} <= set(
        TOOL.pinned(ROOT / "locks" / "image.txt")
    )


# The bill of materials


def test_the_bill_of_materials_names_every_locked_package_and_is_the_same_each_time() -> None:
    command = [sys.executable, str(ROOT / "tools" / "supply_chain.py"), "sbom"]
    first, second = (subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2))
    assert first == second
    bill: dict[str, Any] = json.loads(first)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == __version__
    locked = TOOL.pinned(ROOT / "locks" / "image.txt")
    assert {each["name"]: each["version"] for each in bill["components"]} == locked
    references = {each["bom-ref"] for each in bill["components"]}
    (own,) = bill["dependencies"]
    assert set(own["dependsOn"]) <= references
    assert any("cryptography" in each for each in own["dependsOn"])


# Pins

COMMIT, DIGEST = "c" * 40, "sha256:" + "d" * 64
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=[file.name for file in WORKFLOWS])
def test_actions_are_pinned_by_the_commit_of_their_tag(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    once = TOOL.pins_of_actions(text, lambda _, __: COMMIT)
    assert once.count(f"@{COMMIT} # v") == text.count("uses: ")
    tags: list[str] = []
    again = TOOL.pins_of_actions(once, lambda _, tag: tags.append(tag) or "e" * 40)
    assert COMMIT not in again
    assert all(tag.startswith("v") for tag in tags), "the tag is asked again, not the commit of before"


def test_the_base_image_is_pinned_by_its_digest() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    once = TOOL.pins_of_images(text, lambda _, __: DIGEST)
    assert re.search(rf"^FROM python:3\.12-slim@{DIGEST}$", once, re.MULTILINE)
    assert TOOL.pins_of_images(once, lambda image, tag: f"{image} {tag}").count("python 3.12-slim") == 1


def test_workflows_install_hashed_files_and_the_nightly_one_runs_everything() -> None:
    for file in WORKFLOWS:
        text = file.read_text(encoding="utf-8")
        assert 'LOCKED: "1"' in text
        assert "permissions:\n  contents: read" in text
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    for part in ("make test-all", "make planted", "make setup-spark", "docker build", "make sbom", "r-base", "tcpdump"):
        assert part in nightly
