"""``check`` finds what stops a run that was begun, and what stops any: the same as ``run``, with nothing spent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.small import KEY

import confide
from confide.errors import ConfideError
from confide.releases.ledger import Ledger, entries
from confide.releases.workspace import Workspace


def die(project: Path, monkeypatch: pytest.MonkeyPatch, stage: str, **options: str) -> None:
    """A run that is charged and dies in a stage."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"confide.mechanisms.tables.mechanism.Tables.{stage}", stop)
        with pytest.raises(KeyboardInterrupt):
            confide.run(project / "spec.toml", **options)


def both(spec: Path) -> list[str]:
    """What ``check`` finds; ``run`` must refuse with the same, and with nothing charged."""
    account = Ledger(spec.parent / "people.ledger").history()
    found = [finding.code for finding in confide.check(spec).errors]
    with pytest.raises(ConfideError) as refusal:
        confide.run(spec)
    assert [finding.code for finding in refusal.value.findings if finding.severity == "error"] == found
    assert Ledger(spec.parent / "people.ledger").history() == account
    return found


def one_record(project: Path) -> None:
    people = pq.read_table(project / "persons.parquet")
    pq.write_table(pa.concat_tables([people.slice(1), people.slice(0, 1)]), project / "persons.parquet")


def budget(project: Path) -> None:
    spec = project / "spec.toml"
    spec.write_text(spec.read_text().replace('"1/2"', '"1/3"'))


def block(project: Path) -> None:
    blocks = pq.read_table(project / "blocks.parquet")
    last = blocks.slice(blocks.num_rows - 1).to_pylist()[0]
    key = next(name for name in blocks.column_names if isinstance(last[name], str) and last[name][-1:].isdigit())
    more = pa.Table.from_pylist([last | {key: last[key][:-1] + ("8" if last[key][-1] != "8" else "7")}], blocks.schema)
    pq.write_table(pa.concat_tables([blocks, more]), project / "blocks.parquet")


@pytest.mark.parametrize("stage", ["count", "measure", "publish"])
@pytest.mark.parametrize("change", [one_record, budget, block])
def test_whatever_was_changed_is_found_before_the_run(
    project: Path, monkeypatch: pytest.MonkeyPatch, stage: str, change: Callable[[Path], None]
) -> None:
    die(project, monkeypatch, stage)
    assert not confide.check(project / "spec.toml").findings, "it goes on"
    change(project)
    assert both(project / "spec.toml") == ["run-changed"]


def test_a_copied_run_folder_is_found_under_another_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die(project, monkeypatch, "publish")
    shutil.copytree(project / "small", project / "other")
    spec = project / "other.toml"
    spec.write_text((project / "spec.toml").read_text().replace('"small"', '"other"'))
    assert "run-changed" in both(spec)
    assert any("another release" in finding.what for finding in confide.check(spec).errors)


def test_the_run_of_a_trial_does_not_go_on_as_a_release(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die(project, monkeypatch, "publish", insecure_key=KEY)
    assert both(project / "spec.toml") == ["run-changed"]
    confide.run(project / "spec.toml", insecure_key=KEY)


def test_a_key_that_is_gone_or_another_is_found(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die(project, monkeypatch, "publish")
    key = Workspace(project / "small").key_file
    kept = key.read_text()
    key.write_text(kept[:-2] + ("0" if kept[-2] != "0" else "1") + "\n")
    assert both(project / "spec.toml") == ["run-changed"]
    key.unlink()
    assert both(project / "spec.toml") == ["key"]


def test_a_run_that_was_never_charged_binds_nobody(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "reserve", refuse)
        with pytest.raises(KeyboardInterrupt):
            confide.run(project / "spec.toml")
    budget(project)
    assert not confide.check(project / "spec.toml").findings
    confide.run(project / "spec.toml")


def test_the_spec_of_a_rehearsal_is_found(project: Path) -> None:
    spec = project / "spec.toml"
    spec.write_text(spec.read_text().replace("[release]\n", "[release]\nrehearsal = true\n", 1))
    assert both(spec) == ["rehearsal-spec"]


@pytest.mark.parametrize("closed", ["books/people.ledger", "books"])
def test_a_ledger_that_cannot_be_charged_is_found(project: Path, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    (project / "books").mkdir()
    shutil.move(project / "people.ledger", project / "books/people.ledger")
    spec = project / "spec.toml"
    spec.write_text(spec.read_text().replace("people.ledger", "books/people.ledger"))
    real, path = os.access, (project / closed).resolve()

    def access(asked: Path, mode: int, **options: bool) -> bool:
        return real(asked, mode, **options) and not (mode & os.W_OK and Path(asked).resolve() == path)

    monkeypatch.setattr(entries.os, "access", access)
    assert [finding.code for finding in confide.check(spec).errors] == ["ledger-read-only"]
    with pytest.raises(ConfideError, match="cannot be written"):
        confide.run(spec)


def test_a_ledger_on_a_full_disk_is_found(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "ROOM", 1 << 62)
    assert both(project / "spec.toml") == ["ledger-disk-full"]
