"""Kill -9 in the middle of every level, with one process and with two: the run goes on to the same bytes, once paid."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.kits.topdown import KEY, charges, write_small_state, write_spec

from confide import api
from confide.releases.replay import compare

pytestmark = pytest.mark.process

LEVELS = ["state", "county", "tract", "block_group", "block"]
CHILDREN = 2
"""So few children in a group that every level with several parents has several groups."""

# The command line as it is, with small groups. In the level that is named, a file that is not the first (or the first,
# where there is one alone) is left half written, and the process that writes it stops there. Workers are spawned, and
# read this file as well.
DRIVER = """
import time
from confide.engines import groups
from confide.engines.protocol import whole_file
from confide.mechanisms.topdown import descent

whole = groups.write_parquet

def half(table, file, **options):
    first = file.with_name("00000000.parquet")
    if file.parent.name == "LEVEL" and (file != first or "LEVEL" in ("state", "county")):
        while file != first and not first.exists():
            time.sleep(0.01)
        with whole_file(file) as temporary:
            temporary.write_bytes(b"PAR1 and no more")
            (file.parent / "stopped.here").touch()
            time.sleep(600)
    whole(table, file, **options)

groups.write_parquet = descent.write_parquet = half
descent.CHILDREN_PER_GROUP = CHILDREN

if __name__ == "__main__":
    from confide.cli.main import main

    main()
"""


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_state(tmp_path_factory.mktemp("few"), 900, 3)


def lay_out(folder: Path, few: Path) -> Path:
    blocks, persons = few / "blocks.parquet", few / "persons.parquet"
    return write_spec(folder, records=str(persons), blocks=str(blocks), output='formats = ["parquet"]')


def start(spec: Path, level: str, processes: int) -> subprocess.Popen[bytes]:
    driver = spec.parent / f"stops_in_{level}.py"
    driver.write_text(DRIVER.replace("LEVEL", level).replace("= CHILDREN", f"= {CHILDREN}"))
    arguments = ["run", str(spec), "--json", "--insecure-key", KEY, "--processes", str(processes)]
    return subprocess.Popen(
        [sys.executable, str(driver), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def killed_in(spec: Path, level: str, processes: int) -> None:
    """Kills a run (the process that was started, and no other) when it has come to the middle of a level."""
    folder = spec.parent / "descent" / "confidential" / "measured" / level
    process = start(spec, level, processes)
    try:
        deadline = time.monotonic() + 120
        while not (folder / "stopped.here").exists():
            assert process.poll() is None, f"the run ended before {level}"
            assert time.monotonic() < deadline, f"the run never came to {level}"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    finally:
        # A worker that is left ends by itself; the next run must not depend on how soon.
        process.kill()
        process.wait()
    (folder / "stopped.here").unlink()
    whole = len(list(folder.glob("[0-9]*.parquet")))
    below = LEVELS[LEVELS.index(level) + 1 :]
    assert whole == 0 if level in ("state", "county") else whole >= 1
    assert not any((folder.parent / name).exists() for name in below)
    assert not (spec.parent / "descent" / "release").exists()


def finished(spec: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("confide.mechanisms.topdown.descent.CHILDREN_PER_GROUP", CHILDREN)
        return api.run(spec, processes=1, insecure_key=KEY).release


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, few: Path) -> Path:
    release = finished(lay_out(tmp_path_factory.mktemp("calm"), few))
    measured = release.parent / "confidential" / "measured"
    groups = {level: len(list((measured / level).glob("*.parquet"))) for level in LEVELS}
    assert groups["state"] == groups["county"] == 1
    assert min(groups[level] for level in LEVELS[2:]) > 1
    return release


@pytest.mark.parametrize(
    ("processes", "levels"),
    [
        # One process is killed at every stage by tests/contract.
        pytest.param(1, LEVELS, marks=pytest.mark.slow),
        pytest.param(2, ["tract", "block"], marks=pytest.mark.slow),
        pytest.param(4, LEVELS, marks=pytest.mark.slow),
    ],
    ids=["one process", "two processes", "four processes"],
)
def test_killed_in_every_level_one_after_the_other_a_run_ends_in_the_same_bytes(
    tmp_path: Path, few: Path, undisturbed: Path, processes: int, levels: list[str]
) -> None:
    spec = lay_out(tmp_path, few)
    for level in levels:
        killed_in(spec, level, processes)
        assert charges(tmp_path) == ["open", "reserve", "measured"]
    assert compare(undisturbed, finished(spec)).ok
    assert charges(tmp_path) == ["open", "reserve", "measured", "sealed"]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("level", LEVELS)
def test_killed_in_one_level_a_run_ends_in_the_same_bytes(
    tmp_path: Path, few: Path, undisturbed: Path, level: str, processes: int
) -> None:
    spec = lay_out(tmp_path, few)
    killed_in(spec, level, processes)
    again = start(spec, "nowhere", processes)
    assert again.wait(300) == 0
    assert compare(undisturbed, tmp_path / "descent" / "release").ok
    assert charges(tmp_path) == ["open", "reserve", "measured", "sealed"]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_with_all_its_workers_at_any_moment_a_run_ends_in_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, few: Path, undisturbed: Path, processes: int
) -> None:
    began = time.monotonic()
    calm = start(lay_out(tmp_path_factory.mktemp("timed"), few), "nowhere", processes)
    assert calm.wait(300) == 0
    duration = time.monotonic() - began
    moments, killed = random.Random(20260402), 0
    for number in range(10):
        folder = tmp_path_factory.mktemp("moment")
        spec = lay_out(folder, few)
        process = start(spec, "nowhere", processes)
        time.sleep(duration * (0.3 + 0.7 * (number + moments.random()) / 10))
        if process.poll() is None:
            killed += 1
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert compare(undisturbed, finished(spec)).ok
        assert charges(folder) == ["open", "reserve", "measured", "sealed"]
    assert killed >= 3
