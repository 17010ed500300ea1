"""While its key is kept a release can be made again, byte by byte; once it is destroyed the release is final."""

from __future__ import annotations

from pathlib import Path

import confide
from tests.contract.kit import Project, charged_once, findings_of, keyed, tree


def test_it_is_replayed_byte_by_byte_or_says_why_not(sealed: Project) -> None:
    before = tree(sealed.folder)
    if keyed(sealed.name):
        replay = confide.replay(sealed.run_folder, processes=1)
        assert replay.ok
        assert replay.different == ()
        assert replay.files == len(tree(sealed.release))
    else:
        assert findings_of(lambda: confide.replay(sealed.run_folder, processes=1))
    assert tree(sealed.folder) == before


def test_a_replay_finds_a_release_that_was_changed(sealed: Project, tmp_path: Path) -> None:
    if not keyed(sealed.name):
        return
    project = sealed.copy(tmp_path / "copy")
    changed = min(path for path in project.release.rglob("*.html"))
    changed.write_bytes(changed.read_bytes() + b" ")
    replay = confide.replay(project.run_folder, processes=1)
    assert not replay.ok
    assert replay.different == (str(changed.relative_to(project.release)),)


def test_without_its_key_it_is_final(sealed: Project, tmp_path: Path) -> None:
    project = sealed.copy(tmp_path / "copy")
    release = tree(project.release)
    if not keyed(project.name):
        assert findings_of(lambda: confide.destroy_key(project.run_folder))
        assert tree(project.folder) == tree(sealed.folder)
        return
    secret = (project.run_folder / "confidential" / "key").read_text().split()[1]
    confide.destroy_key(project.run_folder)
    assert [path for path, content in tree(project.run_folder).items() if secret.encode() in content] == []
    if project.ledger is None:
        assert not (project.run_folder / "confidential" / "measured").exists(), "it tells as much as the key"
    (finding,) = findings_of(lambda: confide.replay(project.run_folder, processes=1))
    assert finding.code == "key"
    assert "final" in str(finding.remedy)
    assert tree(project.release) == release
    assert confide.verify(project.release, ledger=project.ledger).ok
    told = ["key-destroyed"] if project.ledger is not None else []
    assert project.charges() == charged_once(project.name) + told
    assert project.run().was_sealed_before
