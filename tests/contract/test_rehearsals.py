"""Every mechanism that reads records can be rehearsed without them: stamped, verified, and nothing touched."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import confide
from confide.report import charts
from tests.contract.kit import NAMES, findings_of, lay_out, mechanism_of, tree


def _says_so(path: Path) -> bool:
    """Of a file whose name is that of a layout: whether it says so inside."""
    return pq.read_schema(path).metadata[b"stamp"] == b"NOT FOR RELEASE"


EACH = [pytest.param(name, marks=pytest.mark.slow if name == "topdown" else ()) for name in NAMES]


@pytest.mark.parametrize("name", EACH)
def test_a_release_is_rehearsed_without_records_and_without_a_charge(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "available", lambda: False)
    project = lay_out(name, tmp_path / "project")
    mechanism = mechanism_of(name)
    if "rehearsal" not in mechanism.can:
        assert [each.code for each in findings_of(lambda: confide.rehearse(project.spec))] == ["no-rehearsal"]
        return
    for file in project.inputs:
        file.unlink()
    before = tree(project.folder)
    answer = confide.rehearse(project.spec, persons=700, out=tmp_path / "rehearsal", processes=1)
    assert tree(project.folder) == before
    assert answer.verification.ok, [check for check in answer.verification.checks if not check.ok]
    assert answer.verification.stamp == "NOT FOR RELEASE"
    assert answer.records > 0
    release = answer.run.release
    tables = [path for path in release.rglob("*") if path.is_file() and path.suffix in (".csv", ".parquet")]
    assert tables
    assert all("NOT-FOR-RELEASE" in path.name or _says_so(path) for path in tables)
    for page in (answer.document, answer.evaluated.dossier, release / "NOT-FOR-RELEASE.txt"):
        assert "NOT FOR RELEASE: a rehearsal on made-up records" in page.read_text(encoding="utf-8"), page
