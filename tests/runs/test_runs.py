"""A run: once, again, interrupted, in parallel, replayed, made final."""

from __future__ import annotations

import json
import os
import platform
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kits.small import KEY

import confide
from confide.confidential import Confidential
from confide.errors import RunError
from confide.releases.folder import ReleaseWriter
from confide.releases.ledger import Ledger
from confide.releases.replay import compare

RUN = [sys.executable, "-m", "confide", "run", "--json", "--processes", "2"]


def kinds(project: Path) -> list[str]:
    return [entry.kind for entry in Ledger(project / "people.ledger").history()]


def test_a_run_ends_in_a_sealed_and_verified_release(project: Path) -> None:
    result = confide.run(project / "spec.toml")
    assert confide.verify(result.release).ok
    assert kinds(project) == ["open", "reserve", "measured", "sealed"]
    assert result.account.left == Fraction(1, 2)


def test_the_manifest_has_the_statistics_of_the_mechanism(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"levels": {}, "whole": 3}
    monkeypatch.setattr("confide.mechanisms.tables.mechanism.Tables.statistics", lambda *_: told)
    assert json.loads((confide.run(project / "spec.toml").release / "manifest.json").read_text())["statistics"] == told


def test_tables_have_no_statistics_and_no_invariants(sealed_project: Path) -> None:
    release = sealed_project / "small/release"
    assert json.loads((release / "manifest.json").read_text())["statistics"] == {}
    page = (release / "certificate.html").read_text()
    assert "None: every figure of this release has noise." in page
    assert "published counts, each with its own noise" in page
    assert "How the estimates were made" not in page


def test_a_second_run_does_nothing_and_costs_nothing(project: Path) -> None:
    first = confide.run(project / "spec.toml")
    before = (first.release / "manifest.json").read_bytes()
    second = confide.run(project / "spec.toml")
    assert second.was_sealed_before
    assert (second.release / "manifest.json").read_bytes() == before
    assert kinds(project) == ["open", "reserve", "measured", "sealed"]


def test_two_releases_have_different_keys_and_different_noise(project: Path) -> None:
    first = confide.run(project / "spec.toml")
    text = (project / "spec.toml").read_text().replace('name = "small"', 'name = "other"')
    (project / "spec.toml").write_text(text)
    second = confide.run(project / "spec.toml")
    assert first.workspace.key_file.read_text() != second.workspace.key_file.read_text()
    assert "tables/sex.parquet" in compare(first.release, second.release).different
    assert second.account.left == 0


@pytest.mark.process
def test_the_number_of_processes_does_not_change_a_byte(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    releases = []
    for processes in (1, 3):
        folder = tmp_path_factory.mktemp(f"p{processes}")
        shutil.copytree(project, folder, dirs_exist_ok=True)
        releases.append(confide.run(folder / "spec.toml", insecure_key=KEY, processes=processes).release)
    assert compare(*releases).ok


def test_a_chosen_key_stamps_everything(project: Path) -> None:
    release = confide.run(project / "spec.toml", insecure_key=KEY).release
    assert (release / "NOT-FOR-RELEASE.txt").exists()
    assert json.loads((release / "manifest.json").read_text())["stamp"] == "NOT FOR RELEASE"
    assert "NOT FOR RELEASE" in (release / "certificate.html").read_text()
    assert all("NOT-FOR-RELEASE" in file.name for file in (release / "tables").iterdir())


def test_a_system_key_stamps_nothing(sealed_project: Path) -> None:
    release = sealed_project / "small/release"
    assert not any("NOT-FOR-RELEASE" in file.name for file in release.rglob("*"))
    assert "NOT FOR RELEASE" not in (release / "certificate.html").read_text()


def test_files_of_the_confidential_zone_are_private(project: Path) -> None:
    result = confide.run(project / "spec.toml")
    confide.evaluate(result.workspace.root)
    for zone in (result.workspace.confidential, result.workspace.dossier):
        for path in (zone, *zone.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


TRACES = {
    "a date": r"(?<!\d)(19|20)\d\d-[01]\d-[0-3]\d(?!\d)",
    "a time of day": r"(?<!\d)[0-2]\d:[0-5]\d:[0-5]\d(?!\d)",
    "a compact date": r"(?<![\w.])20\d\d[01]\d[0-3]\d(?:T\d{4,6}Z?)?(?!\w)",
    "seconds since 1970": r"(?<![\w.])[12]\d{9}(?:\d{3}|\d{6}|\.\d+)?(?!\w)",
    "a path": r"(?<![\w.:/<*])/(home|root|tmp|var|usr|opt|mnt|work|Users|private)/",
    "this user or host": r"x7q9",
}


def traces(release: Path, *secrets: str) -> set[str]:
    """What the files of a release say about when, where and by whom it was made."""
    found = set()
    for file in (path for path in release.rglob("*") if path.is_file()):
        text = file.read_bytes().decode("latin-1")
        found |= {what for what, pattern in TRACES.items() if re.search(pattern, text)}
        found |= {secret for secret in secrets if secret in text}
    return found


def test_the_release_names_neither_time_nor_place(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME", "USERNAME", "HOSTNAME"):
        monkeypatch.setenv(name, "x7q9")
    monkeypatch.setattr(socket, "gethostname", lambda: "x7q9")
    monkeypatch.setattr(platform, "node", lambda: "x7q9")
    release = confide.run(project / "spec.toml").release
    fingerprint = json.loads((project / "small/confidential/run.json").read_text())["records_fingerprint"]
    assert traces(release, str(project), fingerprint) == set()


@pytest.mark.parametrize(
    ("planted", "what"),
    [
        ("2027-03-01T10:00:00", {"a date", "a time of day"}),
        ("1999-12-31", {"a date"}),
        ("20270301T100000Z", {"a compact date"}),
        (1803895200.25, {"seconds since 1970"}),
        (1803895200, {"seconds since 1970"}),
        ("/home/somebody/census", {"a path"}),
        ("x7q9", {"this user or host"}),
    ],
)
def test_a_manifest_that_names_a_time_or_a_place_is_noticed(tmp_path: Path, planted: object, what: set[str]) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"made": planted, "budget": "1/2"}))
    assert traces(tmp_path) == what


def test_a_replay_is_the_same_byte_for_byte(sealed_copy: Path) -> None:
    replayed = confide.replay(sealed_copy / "small")
    assert replayed.ok
    assert replayed.files == 15
    assert kinds(sealed_copy) == ["open", "reserve", "measured", "sealed"]


def test_a_replay_finds_a_changed_release(sealed_copy: Path) -> None:
    with (sealed_copy / "small/release/tables/sex.csv").open("a") as file:
        file.write("more\n")
    assert confide.replay(sealed_copy / "small").different == ("tables/sex.csv",)


def test_a_destroyed_key_makes_the_release_final(project: Path) -> None:
    result = confide.run(project / "spec.toml")
    confide.destroy_key(result.workspace.root)
    assert not result.workspace.key_file.exists()
    assert kinds(project)[-1] == "key-destroyed"
    assert confide.verify(result.release).ok
    with pytest.raises(RunError, match="key of this run is gone"):
        confide.replay(result.workspace.root)
    assert confide.run(project / "spec.toml").was_sealed_before


def test_a_writer_refuses_what_is_confidential(tmp_path: Path) -> None:
    writer = ReleaseWriter(tmp_path / "release", stamped=False, metadata={})
    with pytest.raises(TypeError, match="confidential"):
        writer.table("t", None, Confidential([]), ["csv"], "t")  # type: ignore[arg-type]


def test_reconcile_agrees_after_a_run_and_finds_a_ledger_that_was_put_back(project: Path) -> None:
    shutil.copy(project / "people.ledger", project / "older.ledger")
    result = confide.run(project / "spec.toml")
    assert confide.reconcile(project / "people.ledger", [result.workspace.root]) == ()
    findings = confide.reconcile(project / "older.ledger", [result.workspace.root])
    assert findings
    assert findings[0].severity == "error"


@pytest.mark.parametrize("victim", ["tables/sex.csv", "certificate.html", "manifest.json", "tables/age-by-sex.parquet"])
def test_verify_finds_one_changed_byte(sealed_copy: Path, victim: str) -> None:
    release = sealed_copy / "small/release"
    assert confide.verify(release).ok
    content = bytearray((release / victim).read_bytes())
    place = content.rindex(b"1") if victim != "manifest.json" else content.index(b'"sha256": "') + 12
    content[place] ^= 1
    (release / victim).write_bytes(content)
    assert not confide.verify(release).ok


class StopHere(Exception):  # noqa: N818
    """Stands for a power cut."""


@pytest.fixture(scope="module")
def undisturbed(sealed_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release that a run with the key of the tests ends in, made once."""
    folder = tmp_path_factory.mktemp("calm")
    for name in ("persons.parquet", "blocks.parquet", "spec.toml"):
        shutil.copy(sealed_project / name, folder / name)
    Ledger.open_new(folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=1)
    return confide.run(folder / "spec.toml", insecure_key=KEY, processes=1).release


STEPS = [
    "confide.releases.ledger.book.Ledger.reserve",
    "confide.releases.workspace.Workspace.note_reservation",
    "confide.releases.run.keep_key",
    "confide.mechanisms.tables.mechanism.Tables.count",
    "confide.releases.ledger.book.Ledger.mark_measured",
    "confide.mechanisms.tables.mechanism.Tables.measure",
    "confide.mechanisms.tables.mechanism.Tables.publish",
    "confide.releases.folder.ReleaseWriter.seal",
    "confide.releases.ledger.book.Ledger.mark_sealed",
]


# After a step: tests/contract kills every mechanism between all of them.
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.rsplit(".", 1)[-1])
def test_stopped_at_any_step_the_run_goes_on_to_the_same_bytes(
    project: Path, undisturbed: Path, step: str, after: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        original = _resolve(step)

        def interrupted(*arguments: object, **named: object) -> object:
            if after:
                original(*arguments, **named)
            raise StopHere

        patch.setattr(step, interrupted)
        with pytest.raises(StopHere):
            confide.run(project / "spec.toml", insecure_key=KEY, processes=1)
    assert not (project / "small/release").exists() or step.endswith(("seal", "mark_sealed"))
    result = confide.run(project / "spec.toml", insecure_key=KEY, processes=1)
    assert compare(undisturbed, result.release).ok
    assert kinds(project) == ["open", "reserve", "measured", "sealed"]


def _resolve(name: str) -> object:
    import importlib

    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("times", [5, 20])
def test_killed_at_random_moments_the_run_ends_in_the_same_bytes(
    project: Path, tmp_path_factory: pytest.TempPathFactory, times: int
) -> None:
    """kill -9 of the whole process group, at moments spread over a run; then the same command again."""
    calm = tmp_path_factory.mktemp("calm")
    shutil.copytree(project, calm, dirs_exist_ok=True)
    command = [*RUN, "--insecure-key", KEY]
    began = time.monotonic()
    subprocess.run([*command, calm / "spec.toml"], check=True, capture_output=True)
    duration = time.monotonic() - began
    moments = random.Random(20260401)
    killed = 0
    for number in range(times):
        folder = tmp_path_factory.mktemp(f"killed{number}")
        shutil.copytree(project, folder, dirs_exist_ok=True)
        process = subprocess.Popen(
            [*command, folder / "spec.toml"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(duration * (0.2 + 0.8 * (number + moments.random()) / times))
        if process.poll() is None:
            killed += 1
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done = subprocess.run([*command, folder / "spec.toml"], check=True, capture_output=True, text=True)
        assert json.loads(done.stdout)["ok"]
        assert compare(calm / "small/release", folder / "small/release").ok
        assert kinds(folder) == ["open", "reserve", "measured", "sealed"]
        assert not (folder / "small/release.partial").exists()
    assert killed >= times // 2
