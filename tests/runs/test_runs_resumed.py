"""A run that goes on: only with the records, the plan and the key it was begun with, whoever else would have refused
it; charged before its first draw; and in folders that nobody else may open, whatever they were before."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.contract.kit import lay_out
from tests.kits.small import KEY

import confide
from confide import api
from confide.engines import LocalEngine
from confide.errors import RunError
from confide.file_system import whole_file
from confide.mechanisms import MECHANISMS
from confide.releases.ledger import Ledger


class StopHere(Exception):  # noqa: N818
    """Stands for a power cut."""


def stop(*_: object) -> None:
    raise StopHere


def test_records_that_changed_are_refused_before_the_ledger_is_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("confide.mechanisms.tables.mechanism.Tables.count", stop)
    with pytest.raises(StopHere):
        confide.run(project / "spec.toml", insecure_key=KEY)
    pq.write_table(pq.read_table(project / "persons.parquet").slice(1), project / "persons.parquet")
    monkeypatch.setattr(Ledger, "reserve", stop)
    with pytest.raises(RunError, match="the records are not the ones this run started with"):
        confide.run(project / "spec.toml", insecure_key=KEY)


@pytest.mark.parametrize("mechanism", ["swapping", "suppression"])
def test_records_that_changed_are_refused_where_there_is_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    example = lay_out(mechanism, tmp_path / mechanism)
    with monkeypatch.context() as patch:
        patch.setattr(type(MECHANISMS[mechanism]), "measure", stop)
        with pytest.raises(StopHere):
            example.run()
    (records,) = example.inputs
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join([lines[0], *lines[2:], lines[1]]))
    with pytest.raises(RunError, match="the records are not the ones this run started with"):
        example.run()


def test_another_plan_is_refused_before_the_ledger_is_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.mechanisms.tables.mechanism.Tables.count", stop)
    with pytest.raises(StopHere):
        confide.run(project / "spec.toml", insecure_key=KEY)
    spec = (project / "spec.toml").read_text()
    (project / "spec.toml").write_text(spec.replace('variables = ["sex"]', 'variables = ["votingage"]'))
    monkeypatch.setattr(Ledger, "reserve", stop)
    with pytest.raises(RunError, match="the plan is not the one this run started with"):
        confide.run(project / "spec.toml", insecure_key=KEY)


def test_the_ledger_knows_before_the_first_draw(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has seen noise cannot give its budget back, however it ended."""
    kinds: list[str] = []

    def first_draw(*_: object, **__: object) -> None:
        kinds.extend(entry.kind for entry in Ledger(project / "people.ledger").history())
        raise StopHere

    monkeypatch.setattr("confide.mechanisms.tables.mechanism.perturb", first_draw)
    with pytest.raises(StopHere):
        confide.run(project / "spec.toml", insecure_key=KEY, processes=1)
    assert kinds == ["open", "reserve", "measured"]


@pytest.mark.parametrize("checked", [True, False])
def test_a_run_that_has_drawn_and_lost_its_key_draws_no_second_time(
    project: Path, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """The check says so, and the run itself does where a key is lost after the check."""
    with monkeypatch.context() as patch:
        patch.setattr("confide.mechanisms.tables.mechanism.Tables.publish", stop)
        with pytest.raises(StopHere):
            confide.run(project / "spec.toml")
    (project / "small" / "confidential" / "key").unlink()
    if not checked:
        monkeypatch.setattr("confide.releases.check._not_the_run", lambda *_: iter(()))
    with pytest.raises(RunError, match="the key of this run is gone"):
        confide.run(project / "spec.toml")


def test_a_release_that_is_not_the_sealed_one_is_not_called_sealed(sealed_copy: Path) -> None:
    manifest = sealed_copy / "small" / "release" / "manifest.json"
    manifest.write_text(manifest.read_text() + " ")
    with pytest.raises(RunError, match="the release in the folder is a different one"):
        confide.run(sealed_copy / "spec.toml")


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_a_sealed_release_of_which_a_file_is_another_is_not_called_sealed(sealed_copy: Path, change: str) -> None:
    """Its manifest is the sealed one, so the ledger alone has nothing to say."""
    tables = sealed_copy / "small" / "release" / "tables"
    victim = min(tables.glob("*.csv"))
    if change == "added":
        victim = tables / "true-counts.csv"
        victim.write_text("block,count\n")
    elif change == "removed":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(RunError, match="the release in the folder is a different one") as caught:
        confide.run(sealed_copy / "spec.toml")
    assert victim.name in caught.value.findings[0].found


def test_a_key_that_others_could_have_read_is_refused(sealed_copy: Path) -> None:
    (sealed_copy / "small" / "confidential" / "key").chmod(0o640)
    with pytest.raises(RunError, match="the key can be read by others"):
        confide.replay(sealed_copy / "small")


def test_a_destroyed_key_is_overwritten_and_not_only_unlinked(sealed_copy: Path) -> None:
    """Another name for the same bytes of the disk stands for whoever reads what was deleted."""
    key, other = sealed_copy / "small" / "confidential" / "key", sealed_copy / "other-name"
    secret = key.read_bytes()
    os.link(key, other)
    confide.destroy_key(sealed_copy / "small")
    left = other.read_bytes()
    assert len(left) == len(secret)
    assert sum(one == another for one, another in zip(left, secret, strict=True)) < len(secret) / 2


def test_a_key_is_not_destroyed_before_its_run_is_sealed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("confide.mechanisms.tables.mechanism.Tables.publish", stop)
        with pytest.raises(StopHere):
            confide.run(project / "spec.toml")
    with pytest.raises(RunError, match="the run is not sealed yet"):
        confide.destroy_key(project / "small")
    assert (project / "small" / "confidential" / "key").exists()


def test_spilled_rows_do_not_outlive_their_process(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.mechanisms.tables.mechanism.Tables.publish", stop)
    with pytest.raises(StopHere):
        confide.run(project / "spec.toml", insecure_key=KEY)
    assert (project / "small" / "confidential" / "measured").exists()
    assert not (project / "small" / "confidential" / "scratch").exists()


def test_a_file_has_its_name_when_it_is_whole_and_not_before(tmp_path: Path) -> None:
    path, seen = tmp_path / "counts.parquet", []

    def half() -> None:
        with whole_file(path) as temporary:
            temporary.write_text("half")
            seen.append(path.exists())
            raise StopHere

    with pytest.raises(StopHere):
        half()
    assert seen == [False]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_links_out_of_a_release_is_not_part_of_it(sealed_copy: Path) -> None:
    table = sealed_copy / "small" / "release" / "tables" / "sex.csv"
    shutil.move(table, sealed_copy / "elsewhere.csv")
    table.symlink_to(sealed_copy / "elsewhere.csv")
    assert not confide.verify(sealed_copy / "small" / "release").ok


def test_folders_that_were_open_to_all_are_closed_before_anything_is_written(project: Path) -> None:
    confidential = project / "small" / "confidential"
    before = os.umask(0)
    try:
        for name in ("counts", "scratch"):
            (confidential / name).mkdir(parents=True, exist_ok=True)
        result = confide.run(project / "spec.toml", insecure_key=KEY)
        confide.evaluate(result.workspace.root)
    finally:
        os.umask(before)
    for zone in (confidential, result.workspace.dossier):
        for path in (zone, *zone.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


FREE = {"area_names", "bounds", "companions", "evidence", "frame_columns", "iterations", "measurements", "noise_margin"}
FREE |= {"frame_counts", "output", "tabulation_suppression"}
"""Parts of the question of a plan that decide what is made of measurements, and nothing that is measured."""


@pytest.mark.parametrize("name", [name for name in MECHANISMS.own if MECHANISMS[name].accounted])
def test_a_charged_run_may_change_nothing_that_is_measured(tmp_path: Path, name: str) -> None:
    """How records are read, what the schema and the frame say: another one is another question, with a new charge."""
    loaded = api.load(lay_out(name, tmp_path / name).spec)
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        plan = MECHANISMS[name].plan(MECHANISMS[name].prepare(loaded, engine))
    other = {part: {**said, "more": 1} if isinstance(said, dict) else "another" for part, said in plan.question.items()}
    changed = {part: replace(plan, question={**plan.question, part: said}) for part, said in other.items()}
    assert {part for part, asked in changed.items() if asked.measured_hash == plan.measured_hash} <= FREE
    assert all(asked.hash != plan.hash for asked in changed.values())
