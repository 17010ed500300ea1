"""``verify`` for SafeTab-H: whoever changes a release, and writes a manifest for it, is found out by plan and sums."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.kit import KEY, Project, lay_out
from tests.kits.forged import rehash

import confide

Rows = list[list[str]]


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A sealed release in text alone, with negative counts as they are."""
    project = lay_out("safetab-h", tmp_path_factory.mktemp("sealed") / "project")
    text = project.spec.read_text().replace("negative_counts = false", "negative_counts = true")
    project.spec.write_text(text.replace('formats = ["parquet", "csv"]', 'formats = ["csv"]'))
    project.run(insecure_key=KEY)
    return project


def changed(file: str, change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    """Other lines of one file of the release, the header first."""

    def act(release: Path) -> None:
        (path,) = release.glob(f"{file}.*csv")
        header, *lines = path.read_text().splitlines()
        path.write_text("\n".join([header, *change(lines)]) + "\n")

    return act


def without_group(lines: list[str]) -> list[str]:
    group = lines[0].rsplit("|", 2)[0]
    return [line for line in lines if not line.startswith(group + "|")]


def one_more(line: str) -> str:
    name, _, count = line.rpartition("|")
    return f"{name}|{int(count) + 1}"


CHANGES = {
    "a cell": ("t3/T03004/T03004", lambda lines: [*lines[:2], one_more(lines[2]), *lines[3:]], "sums are those"),
    "a sum": ("t3/T03004/T03004", lambda lines: [one_more(lines[0]), *lines[1:]], "sums are those"),
    "a total alone": ("t3/T03001/T03001", lambda lines: [one_more(lines[0]), *lines[1:]], "T03001: says what"),
    "a group less": ("t4/T04002/T04002", without_group, "groups of the plan"),
    "a row less": ("t4/T04002/T04002", lambda lines: lines[1:], "t4/T04002: each group whole"),
    "another order": (
        "t3/T03004/T03004", lambda lines: [*lines[9:18], *lines[:9], *lines[18:]], "t3/T03004: each group",
    ),
    "a group twice": ("t3/T03001/T03001", lambda lines: [lines[0], *lines], "t3/T03001: each group"),
    "another cell": ("t4/T04002/T04002", lambda lines: [lines[0].replace("|0|", "|4|"), *lines[1:]], "t4/T04002: each"),
    "another state": (
        "t3/T03004/T03004", lambda lines: [line.replace("02|STATE", "48|STATE") for line in lines], "groups of the",
    ),
}  # fmt: skip


def test_a_release_as_it_was_made_verifies(sealed: Project) -> None:
    assert confide.verify(sealed.release, ledger=sealed.ledger).ok


@pytest.mark.parametrize("change", CHANGES)
def test_a_release_that_was_changed_does_not_verify(change: str, sealed: Project, tmp_path: Path) -> None:
    """With a manifest that agrees with its files: hashes alone would pass."""
    file, edit, check = CHANGES[change]
    release = Path(shutil.copytree(sealed.release, tmp_path / "release"))
    before = {path: path.read_bytes() for path in release.rglob("*") if path.is_file()}
    changed(file, edit)(release)
    assert {path: path.read_bytes() for path in release.rglob("*") if path.is_file()} != before
    rehash(release)
    wrong = [each.name for each in confide.verify(release).checks if not each.ok]
    assert any(name.startswith(check) for name in wrong), wrong
