"""A release whose process is killed, at whatever moment, goes on to the bytes that are written down, charged once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.kit import Project, charged_once, digests
from tests.contract.moments import STRIDE, few_steps, killed, of_stages
from tests.contract.test_bytes import differences, expected

STRAIGHT = 40
"""After one death of so many, the release is also made to its end at once."""


def assert_sealed(project: Project, after: str) -> None:
    assert differences(digests(project.release), expected(project.name)) == [], after
    assert project.charges() == charged_once(project.name), after
    assert not list(project.run_folder.glob("release.*")), after
    assert not list(project.run_folder.rglob("scratch")), after


@pytest.mark.process
def test_killed_again_and_again_it_goes_on_to_the_same_bytes(
    project: Project, moments: list[str], tmp_path: Path
) -> None:
    """Each life goes on where the one before was killed, and is killed at the next moment."""
    die_often(project, moments, tmp_path, STRIDE.get(project.name, 1))


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", STRIDE)
def test_killed_at_every_moment(project: Project, moments: list[str], tmp_path: Path) -> None:
    die_often(project, moments, tmp_path, 1)


def die_often(project: Project, moments: list[str], folder: Path, stride: int) -> None:
    survived: list[str] = []
    deaths: list[str] = []
    while new := killed(project, survived, stride):
        survived += new
        deaths.append(moment := new[-1])
        assert not project.release.exists() or "ledger" in moment, moment
        if len(deaths) % STRAIGHT == 1:
            straight = project.copy(folder / f"after death {len(deaths)}")
            straight.run()
            assert_sealed(straight, moment)
    assert_sealed(project, "all deaths")
    assert len(deaths) >= len(of_stages(moments)) // stride
    if stride > 1:
        return
    assert set(of_stages(moments)) <= set(deaths)
    names = {path.name for path in (project.run_folder, project.run_folder / "confidential") for path in path.iterdir()}
    for name in {"run.json", "key", "release"} & names:
        assert any(f"{name} gets its name" in death for death in deaths), name
    if project.ledger is not None:
        # Before anything is reserved, before the draw, and when the release is there and not yet in the ledger.
        for entries in (1, 2, 3):
            assert f"ledger opened, with {entries} entries" in deaths


def test_a_release_that_is_sealed_is_not_made_again(sealed: Project, tmp_path: Path) -> None:
    project = sealed.copy(tmp_path / "copy")
    before = {path: path.stat().st_mtime_ns for path in project.release.rglob("*")}
    again = project.run()
    assert again.was_sealed_before
    assert_sealed(project, "sealed")
    assert {path: path.stat().st_mtime_ns for path in project.release.rglob("*")} == before


def test_few_steps_of_many_are_chosen() -> None:
    moments = ["beginning of A", *(f"step {n} of A" for n in range(1, 8)), "end of A", "beginning of B", "end of B"]
    assert [moments[number] for number in few_steps(moments)] == [
        "beginning of A", "step 1 of A", "step 4 of A", "step 7 of A", "end of A", "beginning of B", "end of B",
    ]  # fmt: skip
