"""Who may open what: under any umask, and in folders that were open to others before."""

from __future__ import annotations

import copy
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import confide
from confide.confidential import Confidential
from confide.file_system import private_umask


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def assert_private(run: Path) -> None:
    """The root and both zones are their owner's alone; the release can be read by all and changed by none."""
    assert mode(run) == 0o700, run
    for zone in (run / "confidential", run / "dossier-confidential"):
        for path in (zone, *zone.rglob("*")) if zone.exists() else ():
            assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    for path in (run / "release", *(run / "release").rglob("*")):
        assert mode(path) == (0o755 if path.is_dir() else 0o644), path


RUN_UNDER = """
import os, sys
from pathlib import Path
import confide
project = Path(sys.argv[1])
for text in sys.argv[2:]:
    os.umask(int(text, 8))
    spec = (project / "spec.toml").read_text().replace('"small"', f'"run-{text}"').replace('"1/2"', '"1/4"')
    (project / "spec.toml").chmod(0o600)
    file = project / f"{text}.toml"
    file.touch()
    file.chmod(0o600)
    file.write_text(spec)
    result = confide.run(file, processes=1)
    confide.check(file, processes=1)
    confide.evaluate(result.workspace.root, processes=1)
    assert os.umask(0o022) == int(text, 8), "the umask is not as it was"
"""


@pytest.mark.process
def test_under_any_umask_what_is_confidential_is_private(project: Path) -> None:
    umasks = ["000", "777"]
    subprocess.run([sys.executable, "-c", RUN_UNDER, project, *umasks], check=True, capture_output=True, timeout=300)
    for text in umasks:
        assert_private(project / f"run-{text}")
        assert confide.verify(project / f"run-{text}/release", ledger=project / "people.ledger").ok


def test_folders_that_were_open_to_others_are_closed(project: Path) -> None:
    zones = [project / "small" / zone for zone in ("confidential", "dossier-confidential")]
    for folder in (*zones, zones[0] / "counts/deep", zones[0] / "measured/age-by-sex/state", zones[1] / "maps"):
        folder.mkdir(parents=True, exist_ok=True)
        for path in (folder, *folder.parents):
            if project in path.parents:
                path.chmod(0o777)
    result = confide.run(project / "spec.toml")
    confide.evaluate(result.workspace.root)
    assert_private(result.workspace.root)
    for path in (zones[0], zones[0] / "measured", project / "small"):
        path.chmod(0o777)
    confide.replay(result.workspace.root)
    assert_private(result.workspace.root)


def test_the_umask_comes_back_when_the_last_one_leaves() -> None:
    before = os.umask(0o022)
    try:
        first, second = private_umask(), private_umask()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert os.umask(0o077) == 0o077
        second.__exit__(None, None, None)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_confidential_value_is_neither_pickled_nor_copied() -> None:
    value = Confidential({"secret": "CANARY42"})
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="neither pickled nor copied") as refusal:
            pickle.dumps(value, protocol)
        assert "CANARY42" not in str(refusal.value)
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither pickled nor copied"):
            duplicate(value)
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        pickle.dumps([{"inside": value}])
