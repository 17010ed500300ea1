"""A full disk and a closed folder: refused without a trace, and what is begun goes on once there is room."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.kit import Project, charged_once, digests, findings_of, lay_out, tree
from tests.contract.moments import STRIDE, Watched
from tests.contract.test_bytes import differences, expected
from tests.kits.small_disk import FILLER, fill, make_room, mounted_disk

NOBODY = 65534


def assert_goes_on(project: Project) -> None:
    project.run()
    assert differences(digests(project.release), expected(project.name)) == []
    assert project.charges() == charged_once(project.name)


# A full disk


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of a few megabytes."""
    with mounted_disk(32) as folder:
        yield folder


def test_a_disk_that_is_full_before_it_begins_leaves_no_trace(sealed: Project, small_disk: Path) -> None:
    project = lay_out(sealed.name, small_disk / "project")
    before = tree(project.folder)
    fill(small_disk)
    findings = findings_of(project.run)
    assert any("disk-full" in finding.code for finding in findings), findings
    assert tree(project.folder) == before
    assert not project.run_folder.exists()
    make_room(small_disk)
    assert_goes_on(project)


def test_a_disk_that_fills_up_at_every_stage_is_refused_and_goes_on(
    name: str, moments: list[str], small_disk: Path
) -> None:
    """Each try finds room until the next stage begins, and then none. The ledger lies on the same disk."""
    run_out_of_room(name, moments, small_disk, STRIDE.get(name, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", STRIDE)
def test_a_disk_that_fills_up_at_every_single_stage(name: str, moments: list[str], small_disk: Path) -> None:
    run_out_of_room(name, moments, small_disk, 1)


def run_out_of_room(name: str, moments: list[str], small_disk: Path, stride: int) -> None:
    """Of ``stride`` stages, one finds the disk full when it begins."""
    project = lay_out(name, small_disk / "project")
    chosen = [moment for moment in moments if moment.startswith("beginning")][::stride]
    tried: list[str] = []

    def at(moment: str) -> None:
        if moment in chosen and moment not in tried and not (small_disk / FILLER).exists():
            tried.append(moment)
            fill(small_disk)

    while findings := findings_of(lambda: project.run(progress=Watched(at))):
        assert any("disk-full" in finding.code for finding in findings), (tried[-1], findings)
        assert not list(project.run_folder.glob("release*")), tried[-1]
        assert not list(project.run_folder.rglob("*.partial")), tried[-1]
        assert not list(project.run_folder.rglob("scratch")), tried[-1]
        if not (project.run_folder / "confidential" / "run.json").exists():
            assert not project.run_folder.exists(), tried[-1]
            assert project.charges() in ([], ["open"]), tried[-1]
        assert (small_disk / FILLER).exists(), findings
        make_room(small_disk)
    assert tried == chosen
    assert_goes_on(project)


# A closed folder


@pytest.fixture
def ordinary_project(sealed: Project) -> Iterator[Project]:
    """The example of a user who is bound by permissions (root is not), and the rest of the test as that user.

    The release of the example was made before, so that everything is imported that this user may not be able to read.
    """
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield lay_out(sealed.name, folder / "project")
    finally:
        if root:
            os.seteuid(0)
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(folder)


def test_a_folder_that_may_not_be_written_is_refused_without_a_trace(ordinary_project: Project) -> None:
    before = tree(ordinary_project.folder)
    ordinary_project.folder.chmod(0o500)
    findings = findings_of(ordinary_project.run)
    assert [finding.code for finding in findings] == ["run-folder"]
    ordinary_project.folder.chmod(0o700)
    assert tree(ordinary_project.folder) == before
    assert_goes_on(ordinary_project)


def test_a_folder_that_is_closed_on_the_way_goes_on_when_it_is_open(ordinary_project: Project) -> None:
    folders = ordinary_project.run_folder, ordinary_project.run_folder / "confidential"

    def at(moment: str) -> None:
        if moment.startswith("beginning"):
            for folder in folders:
                folder.chmod(0o500)

    findings = findings_of(lambda: ordinary_project.run(progress=Watched(at)))
    assert [finding.code for finding in findings] == ["cannot-write"]
    for folder in folders:
        if folder.exists():
            folder.chmod(0o700)
    assert not list(ordinary_project.run_folder.glob("release*"))
    assert ordinary_project.charges() in ([], ["open"])
    assert_goes_on(ordinary_project)
