"""No run seals what ``verify`` would call wrong: it keeps what it measured, and goes on at no further cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from confide.releases.folder import SealedRelease
from tests.contract.kit import Check, Project, accounted, charged_once, digests, findings_of, mechanism_of
from tests.contract.test_bytes import differences, expected

UNSEALED = ["open", "reserve", "measured"]


def spoiled(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the mechanism write another figure than it measured: the first table loses its last row."""
    kind = type(mechanism_of(project.name))
    publish = kind.publish

    def lose_a_row(self: Any, problem: Any, job: Any, release: Any) -> None:
        write, spoilt = release._write, []

        def without_its_end(paths: Any, schema: Any, batches: Any, *rest: Any, **named: Any) -> None:
            rows = [batch for batch in batches if batch.num_rows]
            place = next(iter(paths.values()))
            if rows and not spoilt and place.startswith(("tables/", "t1/")):
                spoilt.append(place)
                rows[-1] = rows[-1].slice(0, rows[-1].num_rows - 1)
            write(paths, schema, iter(rows), *rest, **named)

        release._write = without_its_end
        publish(self, problem, job, release)
        assert spoilt

    monkeypatch.setattr(kind, "publish", lose_a_row)


def test_a_release_with_a_wrong_table_is_not_sealed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as planted:
        spoiled(project, planted)
        findings = findings_of(project.run)
    assert {finding.code for finding in findings} == {"not-verified"}
    assert not project.release.exists()
    assert not list(project.run_folder.glob("release*"))
    assert project.charges() == (UNSEALED if accounted(project.name) else [])
    project.run()
    assert differences(digests(project.release), expected(project.name)) == []
    assert project.charges() == charged_once(project.name)


def test_what_verify_finds_is_what_the_run_says(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, release: SealedRelease) -> Iterator[Check]:
        yield Check("a table", True, "as it should be")
        yield Check("another table", False, "3 rows too many")

    monkeypatch.setattr(type(mechanism_of(project.name)), "verify", refuse)
    (finding,) = findings_of(project.run)
    assert "another table" in finding.what
    assert finding.found == "3 rows too many"
    assert "nothing more is charged" in str(finding.remedy)
    assert not project.release.exists()
