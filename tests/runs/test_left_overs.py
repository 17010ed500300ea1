"""What lies in a run folder and is not of this run: never published, never sealed, never drawn twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kits.small import KEY

import confide
from confide.errors import ConfideError
from confide.mechanisms.tables.mechanism import Tables
from confide.releases.ledger import Ledger
from confide.releases.workspace import RunIdentity


class StopHere(Exception):  # noqa: N818
    """Stands for a power cut."""


def kinds(project: Path) -> list[str]:
    return [entry.kind for entry in Ledger(project / "people.ledger").history()]


def refused(verb: Callable[[], object]) -> list[str]:
    """The codes that a verb refuses with."""
    with pytest.raises(ConfideError) as refusal:
        verb()
    assert all(finding.remedy for finding in refusal.value.findings)
    return [finding.code for finding in refusal.value.findings]


def stopped_before(step: str, spec: Path, **options: Any) -> None:
    """A run that comes as far as a step, and no further."""

    def interrupted(*_: object, **__: object) -> None:
        raise StopHere

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, interrupted)
        with pytest.raises(StopHere):
            confide.run(spec, **options)


def other_spec(project: Path, **changes: str) -> Path:
    """The spec with some texts replaced, beside the first."""
    text = (project / "spec.toml").read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    file = project / "other.toml"
    file.write_text(text)
    return file


PUBLISH = "confide.mechanisms.tables.mechanism.Tables.publish"


@pytest.mark.parametrize("gone", [("run.json", "key"), ("run.json",)], ids=["without its key", "with its key"])
def test_measurements_of_a_run_that_is_gone_are_not_published_at_another_price(
    project: Path, gone: tuple[str, ...]
) -> None:
    stopped_before(PUBLISH, project / "spec.toml")
    for name in gone:
        (project / "small/confidential" / name).unlink()
    spec = other_spec(project, **{'budget = "1/2"': 'budget = "1/1000"'})
    before = kinds(project)
    assert refused(lambda: confide.run(spec)) == ["run-folder"]
    assert [finding.code for finding in confide.check(spec).errors] == ["run-folder"]
    assert kinds(project) == before
    assert not (project / "small/release").exists()


def test_counts_and_measurements_of_another_run_are_made_anew(project: Path) -> None:
    """Those of a run at another price are put in the place of our own, with the marks that they carry."""
    dear = other_spec(project, small="dear", **{'budget = "1/2"': 'budget = "1/4"'})
    stopped_before(PUBLISH, dear, insecure_key=KEY)
    stopped_before(PUBLISH, project / "spec.toml", insecure_key=KEY)
    own, foreign = project / "small/confidential", project / "dear/confidential"
    for name in ("counts", "measured"):
        shutil.rmtree(own / name)
        shutil.copytree(foreign / name, own / name)
    shutil.copy(foreign / "counts.read", own / "counts.read")
    result = confide.run(project / "spec.toml", insecure_key=KEY)
    assert confide.verify(result.release).ok
    assert confide.replay(result.workspace.root).ok
    assert kinds(project) == ["open", "reserve", "measured", "reserve", "measured", "sealed"]


def test_what_is_left_of_a_run_bears_its_question_records_and_key() -> None:
    """Counts and measurements with another imprint are made anew: none of the four may be missing from it."""
    digest = "ab" * 32
    identity = RunIdentity("run", "spec.toml", "name", "tables", digest, digest, False, key_commitment=digest)
    other = "cd" * 32
    changes: list[dict[str, Any]] = [
        {"run_id": "another"},
        {"plan_hash": other},
        {"records_fingerprint": other},
        {"key_commitment": other},
    ]
    assert len({identity.imprint, *(replace(identity, **change).imprint for change in changes)}) == 5


def test_a_release_of_another_run_is_never_sealed(project: Path) -> None:
    first = confide.run(project / "spec.toml")
    twin = other_spec(project, small="twin")
    stopped_before(PUBLISH, twin)
    shutil.copytree(first.release, project / "twin/release")
    before = kinds(project)
    assert refused(lambda: confide.run(twin)) == ["release-changed"]
    assert kinds(project) == before
    shutil.move(project / "twin/release", project / "put-away")
    result = confide.run(twin)
    assert confide.verify(result.release, ledger=project / "people.ledger").ok
    assert kinds(project)[-1] == "sealed"


def test_a_release_that_was_changed_before_it_was_sealed_is_not_sealed(project: Path) -> None:
    """The process dies when the release has its name, and the ledger has not heard of it."""
    stopped_before("confide.releases.ledger.book.Ledger.mark_sealed", project / "spec.toml")
    table = project / "small/release/tables/sex.csv"
    content = table.read_bytes()
    table.write_bytes(content + b"\n")
    assert refused(lambda: confide.run(project / "spec.toml")) == ["release-changed"]
    table.write_bytes(content)
    (project / "small/release/more").mkdir()
    assert refused(lambda: confide.run(project / "spec.toml")) == ["release-changed"]
    (project / "small/release/more").rmdir()
    assert not confide.run(project / "spec.toml").was_sealed_before
    assert kinds(project) == ["open", "reserve", "measured", "sealed"]


@pytest.mark.parametrize("through", [True, False], ids=["sealed", "measured"])
def test_a_copied_folder_draws_no_second_noise_for_one_charge(
    project: Path, monkeypatch: pytest.MonkeyPatch, through: bool
) -> None:
    """Copied when it was charged and had no key yet; the copy is about to draw when the first run has drawn."""
    stopped_before("confide.releases.run.keep_key", project / "spec.toml")
    shutil.copytree(project / "small", project / "copy")
    copied = other_spec(project, **{"[data]": '[output]\nfolder = "copy"\n\n[data]'})
    count, counted = Tables.count, []

    def first_the_other(*arguments: Any) -> None:
        if not counted:
            counted.append("the copy")
            if through:
                confide.run(project / "spec.toml")
            else:
                stopped_before(PUBLISH, project / "spec.toml")
        count(*arguments)

    monkeypatch.setattr(Tables, "count", first_the_other)
    assert refused(lambda: confide.run(copied)) == ["ledger-other-key"]
    assert not (project / "copy/release").exists()
    assert not (project / "copy/confidential/measured").exists()
    assert kinds(project) == ["open", "reserve", "measured", "sealed"][: 3 + through]
    ledger = project / "people.ledger"
    codes = {finding.code for finding in confide.reconcile(ledger, [project / "small", project / "copy"])}
    assert {"reconcile-other-key", "reconcile-twice"} <= codes
    assert confide.reconcile(ledger, [project / "small"]) == ()


def test_a_key_that_was_exchanged_is_refused(project: Path) -> None:
    stopped_before(PUBLISH, project / "spec.toml")
    key = project / "small/confidential/key"
    own = key.read_text()
    key.write_text("system " + "77" * 32 + "\n")
    assert refused(lambda: confide.run(project / "spec.toml")) == ["run-changed"]
    # Also where the record of the run was exchanged with it.
    record = project / "small/confidential/run.json"
    kept = record.read_text()
    held = Ledger(project / "people.ledger").account()
    (run,) = held.runs.values()
    assert run.key_commitment is not None
    record.write_text(kept.replace(run.key_commitment, confide.ReleaseKey(bytes.fromhex("77" * 32)).commitment))
    assert refused(lambda: confide.run(project / "spec.toml")) == ["ledger-other-key"]
    key.write_text(own)
    record.write_text(kept)
    assert confide.replay(confide.run(project / "spec.toml").workspace.root).ok


def test_a_replay_with_another_key_is_refused(sealed_copy: Path) -> None:
    (sealed_copy / "small/confidential/key").write_text("system " + "77" * 32 + "\n")
    assert refused(lambda: confide.replay(sealed_copy / "small")) == ["run-changed"]


def test_what_a_killed_process_has_half_written_goes(sealed_copy: Path) -> None:
    zone = sealed_copy / "small/confidential"
    secret = (zone / "key").read_text().split()[1]
    partials = [zone / f".key.{'ab' * 8}.partial", zone / f".run.json.{'cd' * 8}.partial", zone / "measured/.x.partial"]
    for partial in partials:
        partial.write_text(secret)
    # Another name for the same bytes of the disk stands for whoever reads what was deleted.
    beside = sealed_copy / "undeleted"
    beside.hardlink_to(partials[0])
    confide.destroy_key(sealed_copy / "small")
    assert not partials[0].exists()
    assert secret.encode() not in beside.read_bytes()
    assert not (zone / "key").exists()
    confide.run(sealed_copy / "spec.toml")
    assert not any(partial.exists() for partial in partials)
    files = [path for path in (sealed_copy / "small").rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_a_run_folder_of_before_can_be_finished(project: Path) -> None:
    """Older versions wrote neither commitments nor marks of the run; what they left is made again from the key."""
    stopped_before(PUBLISH, project / "spec.toml")
    zone = project / "small/confidential"
    values = json.loads((zone / "run.json").read_text())
    later = ("key_commitment", "manifest_sha256")
    (zone / "run.json").write_text(json.dumps({name: values[name] for name in values if name not in later}))
    (zone / "counts.read").write_text(values["records_fingerprint"] + "\n")
    (zone / "measured/.run").unlink()
    result = confide.run(project / "spec.toml")
    assert confide.replay(result.workspace.root).ok
