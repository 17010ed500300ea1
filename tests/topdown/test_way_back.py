"""After a failure of ours: what is made of the measurements may be changed, and these are charged once and stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.own_strategy import bound, lay_out, released_by_block

import confide
from confide.errors import ConfideError, Finding
from confide.estimation.active_set import InfeasibleError
from confide.mechanisms.topdown import descent, mechanism
from confide.releases.folder import SealedRelease
from confide.releases.ledger import Ledger
from confide.releases.mechanism import NoiseSource

PEOPLE = [[5, 3], [4, 2], [6, 1], [5, 3], [9, 2]]
COLUMNS = {"beds": [9, 9, 9, 9, 9]}
BOUNDS = bound("beds", "upper", 1, {1: "beds"})
ONCE = ["open", "reserve", "measured", "sealed"]


def kinds(folder: Path) -> list[str]:
    return [entry.kind for entry in Ledger(folder / "people.ledger").history()]


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was charged and measured, and whose estimation failed below the root."""
    return fail_below_the_root(lay_out(tmp_path, PEOPLE, COLUMNS, BOUNDS, budget="1"), monkeypatch)


def fail_below_the_root(spec: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs a spec as far as the root."""

    def fail(*_: object) -> None:
        raise InfeasibleError(Finding("planted", "a failure of ours", remedy="none"))

    with monkeypatch.context() as planted:
        planted.setattr(descent, "_write_nodes", fail)
        with pytest.raises(InfeasibleError, match="a failure of ours"):
            confide.run(spec, processes=1)
    assert kinds(spec.parent) == ["open", "reserve", "measured"]
    return spec


CHANGES = {
    "estimation": ("own.toml", 'least_squares = [{ queries = ["total", "detailed"] }]', ""),
    "a bound": ("own.toml", "per_unit = 1", "per_unit = 2"),
    "evidence": ("own.toml", 'definition = "zcdp"', 'definition = "zcdp"\nevidence = "tree"'),
    "output": ("spec.toml", 'spine = "plain"', 'spine = "plain"\n[output]\nmeasurements = true\nformats = ["csv"]'),
}
PASSES = 'least_squares = [{ queries = ["total"], constrain = ["total"] }, { queries = ["detailed"] }]\nslack = "1/100"'


def apply(folder: Path, name: str) -> None:
    file, old, new = CHANGES[name]
    if name == "estimation":  # that of the levels below the root
        text = (folder / file).read_text()
        head, tail = text.split("[estimation.below]")
        assert old in tail
        (folder / file).write_text(head + "[estimation.below]" + tail.replace(old, PASSES))
    else:
        change(folder / file, old, new)


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_free_may_be_changed_without_a_second_charge(
    failed: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder, drawn = failed.parent, []
    streams = NoiseSource.stream

    def noted(self: NoiseSource, level: str, query: str) -> Any:
        drawn.append(self.plan_hash)
        return streams(self, level, query)

    begun = json.loads((folder / "own/confidential/run.json").read_text())
    key = (folder / "own/confidential/key").read_text()
    apply(folder, name)
    with monkeypatch.context() as watched:
        watched.setattr(NoiseSource, "stream", noted)
        result = confide.run(failed, processes=1)
    assert kinds(folder) == ONCE
    # The noise is that of the plan which was charged, from the same key; the manifest has the plan that is published.
    assert set(drawn) == {begun["plan_hash"]}
    assert (folder / "own/confidential/key").read_text() == key
    manifest = json.loads((result.release / "manifest.json").read_text())
    assert manifest["plan_hash"] != begun["plan_hash"]
    assert confide.verify(result.release, ledger=folder / "people.ledger").ok
    assert confide.replay(failed, processes=1).ok
    assert not confide.reconcile(folder / "people.ledger", [folder / "own"])
    # Sealed is sealed.
    change(folder / "own.toml", "per_unit = ", "per_unit = 1")
    with pytest.raises(ConfideError) as caught:
        confide.run(failed, processes=1)
    assert caught.value.findings[0].code == "run-changed"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("spec.toml", 'budget = "1"', 'budget = "1/2"'),
        ("own.toml", '"detailed" = ["1/2", "1/2", "1/2"]', '"detailed" = ["1/2", "1/4", "1/2"]'),
        ("own.toml", 'shares     = ["1/3", "1/3", "1/3"]', 'shares     = ["1/2", "1/4", "1/4"]'),
        ("own.toml", '"kind 1"', '"another"'),
    ],
)
def test_what_was_charged_may_not(failed: Path, file: str, old: str, new: str) -> None:
    change(failed.parent / file, old, new)
    if "1/4" in new and "detailed" in new:
        change(failed.parent / file, '"total"    = ["1/2", "1/2", "1/2"]', '"total"    = ["1/2", "3/4", "1/2"]')
    with pytest.raises(ConfideError) as caught:
        confide.run(failed, processes=1)
    assert caught.value.findings[0].code == "run-changed"
    assert kinds(failed.parent) == ["open", "reserve", "measured"]


def test_what_was_estimated_before_a_bound_was_changed_is_estimated_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimates of every level lie there when the bound becomes a thousand times tighter, with noise that passes it."""

    def stop(*_: object) -> None:
        raise InfeasibleError(Finding("planted", "the power goes off", remedy="none"))

    def loose(folder: Path) -> Path:
        folder.mkdir()
        spec = lay_out(folder, PEOPLE, COLUMNS, BOUNDS, budget="1/1000")
        change(folder / "own.toml", "per_unit = 1", "per_unit = 1000")
        return spec

    def largest(release: Path) -> int:
        return max(kinds_there.get(1, 0) for kinds_there in released_by_block(release).values())

    # Noise changes with the plan, so a key is looked for with which the loose bound is made use of.
    keys = [f"{number:02x}" * 32 for number in range(1, 20)]
    run_loose = (confide.run(loose(tmp_path / f"loose-{key[:2]}"), processes=1, insecure_key=key) for key in keys)
    key = next(key for key, result in zip(keys, run_loose, strict=True) if largest(result.release) > 9)
    spec = loose(tmp_path / "stopped")
    with monkeypatch.context() as planted:
        planted.setattr(mechanism.TopDown, "publish", stop)
        with pytest.raises(InfeasibleError):
            confide.run(spec, processes=1, insecure_key=key)
    change(spec.parent / "own.toml", "per_unit = 1000", "per_unit = 1")
    release = confide.run(spec, processes=1, insecure_key=key).release
    assert largest(release) <= 9
    assert confide.verify(release).ok
    assert kinds(spec.parent) == ONCE


def test_no_further_total_is_published_and_no_block_moves_to_another_county(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both leave every measurement, its units and its price as they were. But true totals that nobody was charged for
    would be published; and the same noise would lie over counties of other people."""
    columns = COLUMNS | {"county": [1, 1, 1, 2, 2]}
    spec = lay_out(tmp_path, PEOPLE, columns, BOUNDS, budget="1", level="state")
    change(spec, '{ name = "county", digits = 2 }', '{ name = "county", column = "county" }')
    fail_below_the_root(spec, monkeypatch)
    plan = confide.check(spec, processes=1).plan
    assert plan is not None
    strategy, blocks = (tmp_path / "own.toml").read_text(), pq.read_table(tmp_path / "blocks.parquet")
    moved = blocks.set_column(blocks.column_names.index("county"), "county", pa.array([2, 1, 1, 2, 1]))
    for changed_strategy, changed_blocks in (
        (strategy.replace('level = "state"', 'level = "county"'), blocks),
        (strategy, moved),
    ):
        (tmp_path / "own.toml").write_text(changed_strategy)
        pq.write_table(changed_blocks, tmp_path / "blocks.parquet")
        other = confide.check(spec, processes=1).plan
        assert other is not None
        assert (other.measures, other.loss) == (plan.measures, plan.loss)
        with pytest.raises(ConfideError) as caught:
            confide.run(spec, processes=1)
        assert caught.value.findings[0].code == "run-changed"
    (tmp_path / "own.toml").write_text(strategy)
    pq.write_table(blocks, tmp_path / "blocks.parquet")
    assert confide.verify(confide.run(spec, processes=1).release).ok
    assert kinds(tmp_path) == ONCE


def test_the_measurements_are_those_of_an_undisturbed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed, and changed back: byte by byte what the run would have released."""
    key, releases = "3d" * 32, []
    for name in ("straight", "disturbed"):
        folder = tmp_path / name
        folder.mkdir()
        spec = lay_out(folder, PEOPLE, COLUMNS, BOUNDS, budget="1")
        if name == "disturbed":
            with monkeypatch.context() as planted:
                planted.setattr(
                    mechanism, "descend", lambda *_: (_ for _ in ()).throw(InfeasibleError(Finding("x", "ours")))
                )
                for per_unit in ("1", "2"):
                    with pytest.raises(InfeasibleError):
                        confide.run(spec, processes=1, insecure_key=key)
                    other = "2" if per_unit == "1" else "1"
                    change(folder / "own.toml", f"per_unit = {per_unit}", f"per_unit = {other}")
        releases.append(confide.run(spec, processes=1, insecure_key=key).release)
    straight, disturbed = ((release / "manifest.json").read_bytes() for release in releases)
    assert straight == disturbed


STAGES = ("descend", "publish")
"""Where the power goes off: below the root, and when every level is estimated."""


def interrupted(spec: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was charged and measured, and died at a stage."""
    if stage == "descend":
        return fail_below_the_root(spec, monkeypatch)

    def stop(*_: object) -> None:
        raise InfeasibleError(Finding("planted", "the power goes off", remedy="none"))

    with monkeypatch.context() as planted:
        planted.setattr(mechanism.TopDown, "publish", stop)
        with pytest.raises(InfeasibleError):
            confide.run(spec, processes=1)
    return spec


def recount(folder: Path, name: str, counts: list[int]) -> None:
    """Other counts in a column of the block table."""
    blocks = pq.read_table(folder / "blocks.parquet")
    changed = blocks.set_column(blocks.column_names.index(name), name, pa.array(counts))
    pq.write_table(changed, folder / "blocks.parquet")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("evidence", ["own", "tree"])
def test_other_counts_of_the_frame_are_kept_to_in_every_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, evidence: str
) -> None:
    """The counts that limit figures change while a run lies interrupted: what was estimated with the old ones is
    estimated anew, from the same measurements, and the release is one that keeps to the new ones."""
    least = bound("beds", "lower", 1, {1: "beds"})
    spec = lay_out(tmp_path, PEOPLE, {"beds": [0, 0, 0, 0, 0]}, least, budget="1")
    if evidence == "tree":
        apply(tmp_path, "evidence")
    begun = confide.check(spec, processes=1).plan
    interrupted(spec, stage, monkeypatch)
    recount(tmp_path, "beds", [1, 2, 1, 3, 2])
    again = confide.check(spec, processes=1).plan
    assert begun is not None
    assert again is not None
    assert again.hash != begun.hash
    assert again.measured_hash == begun.measured_hash
    release = confide.run(spec, processes=1).release
    assert confide.verify(release, ledger=tmp_path / "people.ledger").ok
    assert kinds(tmp_path) == ONCE
    beds = dict(zip(sorted(released_by_block(release)), [1, 2, 1, 3, 2], strict=True))
    assert all(people.get(1, 0) >= beds[block] for block, people in released_by_block(release).items())


def test_a_plan_knows_the_counts_of_its_frame_and_verify_asks_for_them(tmp_path: Path) -> None:
    """Any one count of any column makes another plan; a table of blocks with other counts is not that of the plan."""
    spec = lay_out(tmp_path, PEOPLE, COLUMNS, BOUNDS, budget="1")
    hashes = {confide.check(spec, processes=1).plan.hash}  # type: ignore[union-attr]
    for place in range(len(PEOPLE)):
        recount(tmp_path, "beds", [9 + (number == place) for number in range(len(PEOPLE))])
        hashes.add(confide.check(spec, processes=1).plan.hash)  # type: ignore[union-attr]
    assert len(hashes) == len(PEOPLE) + 1
    release = confide.run(spec, processes=1, insecure_key="2e" * 32).release
    manifest = json.loads((release / "manifest.json").read_text())
    assert all(check.ok for check in mechanism.TopDown().verify(SealedRelease(release, manifest)))
    counts = manifest["plan"]["question"]["frame_counts"]
    counts["beds"] = "00" * 32
    wrong = [check.name for check in mechanism.TopDown().verify(SealedRelease(release, manifest)) if not check.ok]
    assert wrong == ["units: counts of the frame as planned"]


def test_counts_that_tell_an_invariant_may_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are published as they are, so other ones are another release, as other totals would be."""
    columns = {"nobody": [5, 4, 6, 5, 9], "somebody": [3, 2, 1, 3, 2]}
    told = '\n[[invariants]]\nname = "told"\nlevel = "block"\nquery = "kind"\nframe = ["nobody", "somebody"]\n'
    spec = lay_out(tmp_path, PEOPLE, columns, told, budget="1")
    fail_below_the_root(spec, monkeypatch)
    recount(tmp_path, "somebody", [3, 2, 1, 2, 3])
    with pytest.raises(ConfideError):
        confide.run(spec, processes=1)
    assert kinds(tmp_path) == ["open", "reserve", "measured"]
    recount(tmp_path, "somebody", columns["somebody"])
    release = confide.run(spec, processes=1).release
    assert confide.verify(release, ledger=tmp_path / "people.ledger").ok
