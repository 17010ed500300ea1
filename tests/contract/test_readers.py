"""A release is held against the truth, and attacked; or the mechanism says why that cannot be."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import confide
from confide.mechanisms.topdown.evaluate import MADE_UP_FILE
from tests.contract.kit import Project, evaluable, findings_of, keyed, read_source, reconstruct, tree

CONFIDENTIAL = "CONFIDENTIAL"


@pytest.fixture
def copy(sealed: Project, tmp_path: Path) -> Project:
    """The sealed release with its confidential files, to be written beside."""
    return sealed.copy(tmp_path / "copy")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_evaluated_for_the_curator_alone_or_says_why_not(copy: Project) -> None:
    before = tree(copy.folder)
    if not evaluable(copy.name):
        assert findings_of(lambda: confide.evaluate(copy.run_folder, processes=1))
        assert tree(copy.folder) == before
        return
    evaluated = confide.evaluate(copy.run_folder, processes=1)
    folder = evaluated.dossier.parent
    assert folder.parent == copy.run_folder
    assert evaluated.dossier.is_file()
    accuracy = evaluated.accuracy.reveal("to look for it in what is printed")
    assert accuracy
    assert repr(accuracy)[1:40] not in repr(evaluated) + str(evaluated)
    for path in (folder, *folder.rglob("*")):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path.name
        if path.name == MADE_UP_FILE:  # errors of made-up people say nothing of the records
            continue
        assert "confidential" in path.name
        if path.is_file():
            assert CONFIDENTIAL in path.read_text(encoding="utf-8")
    written = {path for path in tree(copy.folder) if (copy.folder / path).is_relative_to(folder)}
    assert {path: content for path, content in tree(copy.folder).items() if path not in written} == before


def test_a_release_that_is_not_there_yet_is_not_evaluated_or_replayed(project: Project) -> None:
    project.run_folder.mkdir()
    assert findings_of(lambda: confide.evaluate(project.run_folder, processes=1))
    assert findings_of(lambda: confide.replay(project.run_folder, processes=1))
    assert tree(project.run_folder) == {}


def test_confidential_files_are_for_their_owner_alone(sealed: Project) -> None:
    folder = sealed.run_folder / "confidential"
    assert mode(folder) == 0o700
    assert (folder / "key").exists() == keyed(sealed.name)
    for path in folder.rglob("*"):
        assert mode(path) & 0o077 == 0, path.name
    for path in sealed.release.rglob("*"):
        assert mode(path) == (0o755 if path.is_dir() else 0o644), path.name


def test_it_can_be_read_by_the_attack_or_says_why_not(sealed: Project) -> None:
    before = tree(sealed.folder)
    read = []
    findings = findings_of(lambda: read.append(read_source(sealed.release, sealed.schema)))
    if not findings:
        (published,) = read
        assert published.marginals
        reconstruction = reconstruct(published, processes=1)
        assert reconstruction is not None
    assert tree(sealed.folder) == before
