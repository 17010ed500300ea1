"""A second ledger for the same records, or one that was set back, is noticed where something still knows better."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.kits.small import KEY

import confide
from confide.errors import ConfideError
from confide.releases.ledger import Ledger

WITNESS = ".persons.parquet.witness.json"


def named(project: Path, name: str, ledger: str = "people.ledger") -> Path:
    """The spec of another release of a quarter, with a ledger."""
    text = (project / "spec.toml").read_text().replace('"small"', f'"{name}"').replace('"1/2"', '"1/4"')
    file = project / f"{name}.toml"
    file.write_text(text.replace("people.ledger", ledger))
    return file


def open_ledger(project: Path, name: str) -> Ledger:
    return Ledger.open_new(
        project / name, data_set="people", definition="zcdp", neighbours="change-one", budget=1, note=name
    )


def codes(spec: Path, **options: bool) -> list[str]:
    """What ``check`` finds, and ``run`` refuses with, before anything is spent."""
    found = [finding.code for finding in confide.check(spec, **options).errors]
    with pytest.raises(ConfideError) as refusal:
        confide.run(spec, **options)
    assert [finding.code for finding in refusal.value.findings if finding.severity == "error"] == found
    assert all("--accept-ledger" in str(finding.remedy) for finding in refusal.value.findings)
    return found


def test_a_witness_is_private_small_and_tells_nothing_of_the_records(sealed_project: Path) -> None:
    file = sealed_project / WITNESS
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.stat().st_size < 500
    run = json.loads((sealed_project / "small/confidential/run.json").read_text())
    assert run["records_fingerprint"] not in file.read_text()
    ((noted,), last) = json.loads(file.read_text())["ledgers"], Ledger(sealed_project / "people.ledger").verify()
    assert (noted["hash"], noted["sequence"]) == (last.hash, last.sequence)
    assert noted["ledger_id"] == run["ledger_id"]


@pytest.mark.parametrize("gone", [None, WITNESS, "small"], ids=["both", "run folder alone", "witness alone"])
def test_a_ledger_that_was_set_back_is_refused(project: Path, gone: str | None) -> None:
    shutil.copy(project / "people.ledger", project / "older")
    confide.run(project / "spec.toml")
    shutil.copy(project / "older", project / "people.ledger")
    if gone is not None:
        path = project / gone
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = (project / "people.ledger").read_bytes()
    assert codes(named(project, "next")) == ["ledger-set-back"]
    assert (project / "people.ledger").read_bytes() == before
    assert not (project / "next").exists()
    # An office that has lost the newer copy writes it off, once.
    confide.run(named(project, "next"), accept_ledger=True)
    if gone == "small":
        confide.run(named(project, "further"))


@pytest.mark.parametrize("gone", [None, WITNESS, "small"], ids=["both", "run folder alone", "witness alone"])
def test_a_second_ledger_for_the_same_records_is_refused(project: Path, gone: str | None) -> None:
    confide.run(project / "spec.toml")
    if gone is not None:
        path = project / gone
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    second = open_ledger(project, "second.ledger")
    spec = named(project, "next", "second.ledger")
    assert codes(spec) == ["ledger-second"]
    assert [entry.kind for entry in second.history()] == ["open"]
    # A decision of the office, which is noted where the records are: from then on both may be used.
    warnings = [finding.code for finding in confide.check(spec, accept_ledger=True).findings]
    assert warnings == ["ledger-second"]
    confide.run(spec, accept_ledger=True)
    if gone is None:
        confide.run(named(project, "third", "second.ledger"))
        confide.run(named(project, "fourth", "people.ledger"))


def test_a_ledger_that_was_moved_is_the_same_ledger(project: Path) -> None:
    confide.run(project / "spec.toml")
    (project / "archive").mkdir()
    shutil.move(project / "people.ledger", project / "archive/people.ledger")
    confide.run(named(project, "next", "archive/people.ledger"))


def test_a_trial_neither_asks_nor_leaves_a_witness(project: Path) -> None:
    open_ledger(project, "trial.ledger")
    confide.run(named(project, "trial", "trial.ledger"), insecure_key=KEY)
    assert not (project / WITNESS).exists()
    confide.run(project / "spec.toml")
    confide.run(named(project, "another-trial", "trial.ledger"), insecure_key=KEY)
    assert len(json.loads((project / WITNESS).read_text())["ledgers"]) == 1


def test_a_run_that_died_has_left_its_witness(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise was drawn: a ledger that is put back now has forgotten it as well."""
    shutil.copy(project / "people.ledger", project / "older")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("confide.mechanisms.tables.mechanism.Tables.publish", stop)
    with pytest.raises(KeyboardInterrupt):
        confide.run(project / "spec.toml")
    monkeypatch.undo()
    last = Ledger(project / "people.ledger").verify()
    assert last.kind == "measured"
    (noted,) = json.loads((project / WITNESS).read_text())["ledgers"]
    assert (noted["hash"], noted["sequence"]) == (last.hash, last.sequence)
    shutil.rmtree(project / "small")
    shutil.copy(project / "older", project / "people.ledger")
    assert codes(project / "spec.toml") == ["ledger-set-back"]


def test_a_witness_that_was_changed_is_refused(sealed_copy: Path) -> None:
    for content in ("", "{}", "[]", '{"format": "confide/witness/v1", "ledgers": [{}]}'):
        (sealed_copy / WITNESS).write_text(content)
        assert [finding.code for finding in confide.check(named(sealed_copy, "next")).errors] == ["ledger-witness"]


def test_a_folder_that_cannot_be_written_costs_no_release(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("confide.releases.ledger.book.write_text", refuse)
    assert confide.verify(confide.run(project / "spec.toml").release, ledger=project / "people.ledger").ok
    assert not (project / WITNESS).exists()


def of_others(project: Path, name: str, rows: slice, ledger: str = "people.ledger") -> Path:
    """The spec of a release of other records, in a file of their own."""
    people = pq.read_table(project / "persons.parquet")
    pq.write_table(people.take(list(range(people.num_rows))[rows]), project / f"{name}.parquet")
    spec = named(project, name, ledger)
    spec.write_text(spec.read_text().replace("persons.parquet", f"{name}.parquet"))
    return spec


@pytest.mark.parametrize("rows", [slice(0, 900), slice(1, None), slice(None, None, -1)])
def test_a_ledger_that_paid_for_other_records_does_not_pay_for_these(project: Path, rows: slice) -> None:
    """Other people, one person less, or the same people in another order: a ledger cannot tell, and asks."""
    confide.run(project / "spec.toml")
    spec = of_others(project, "others", rows)
    before = (project / "people.ledger").read_bytes()
    assert codes(spec) == ["ledger-other-records"]
    with pytest.raises(ConfideError, match="charged for other records"):
        confide.run(spec, insecure_key=KEY)  # a trial would take from the budget all the same
    assert (project / "people.ledger").read_bytes() == before
    assert not (project / "others").exists()
    warnings = [finding.code for finding in confide.check(spec, accept_ledger=True).findings]
    assert warnings == ["ledger-other-records"]
    confide.run(spec, accept_ledger=True)
    assert not confide.check(named(project, "again")).errors, "both are known from now on"
    assert not confide.check(of_others(project, "once-more", rows)).errors


def test_a_first_release_asks_nothing_nor_does_one_that_goes_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = of_others(project, "others", slice(0, 900))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("confide.mechanisms.tables.mechanism.Tables.publish", stop)
    for name in (project / "spec.toml", spec):
        with pytest.raises(KeyboardInterrupt):
            confide.run(name, accept_ledger=name == spec)
    monkeypatch.undo()
    for name in (spec, project / "spec.toml"):
        assert not confide.check(name).findings
        confide.run(name)
