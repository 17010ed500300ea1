"""Releases that an earlier version has sealed still verify, and say what is no longer compared.

``sealed-by-0.1.0/`` has one small release of made-up people for each of four mechanisms, as version 0.1.0 wrote it;
that of the cell key method is ``tests/cellkey/first-layout``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.kits.forged import rehash

import confide
from confide.version import __version__

SEALED = Path(__file__).parent / "sealed-by-0.1.0"
RELEASES = [*sorted(SEALED.iterdir()), Path(__file__).parents[1] / "cellkey" / "first-layout" / "release"]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_an_earlier_release_verifies(release: Path) -> None:
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["confide"] == "0.1.0" != __version__
    verification = confide.verify(release)
    assert verification.ok, [check for check in verification.checks if not check.ok]
    (pages,) = [check for check in verification.checks if check.name == "pages as the manifest has them"]
    assert "made by Confide 0.1.0" in pages.detail
    assert "not compared" in pages.detail


@pytest.mark.parametrize(
    ("mechanism", "path", "value"),
    [
        ("tables", ("privacy", "loss", "rho"), "1/4000"),
        ("topdown", ("privacy", "by_attribute"), {}),
        ("suppression", ("noise", "key"), "chosen"),
        ("swapping", ("privacy", "loss"), {"rho": "1"}),
    ],
)
def test_its_numbers_are_still_held_against_its_plan(
    mechanism: str, path: tuple[str, ...], value: object, tmp_path: Path
) -> None:
    release = Path(shutil.copytree(SEALED / mechanism, tmp_path / "release"))
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    inner = manifest
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    rehash(release, manifest)
    assert not confide.verify(release).ok
