"""What a swap draws, and whether the exchanges that a run kept follow from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import Project, findings_of, lay_out

import confide
from confide.mechanisms.swapping import evaluate, swap

ENHANCED = """[swapping]
variant = "enhanced"
rate = "0.33"
key_noise = ["0.1", "0.8", "0.1"]
groups = ["0.5", "0.3", "0.2"]
publish_rate = false
"""


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.report.charts.available", lambda: False)


def released(folder: Path, *, enhanced: bool = False) -> Project:
    project = lay_out("swapping", folder)
    if enhanced:
        text = project.spec.read_text(encoding="utf-8")
        begin, end = text.index("[swapping]"), text.index("[[tables]]")
        project.spec.write_text(text[:begin] + ENHANCED + "\n" + text[end:], encoding="utf-8")
    project.run()
    return project


def failed(project: Project) -> set[str]:
    return {check.name for check in confide.audit_noise(project.run_folder).checks if not check.ok}


def test_both_variants_declare_what_they_drew(tmp_path: Path) -> None:
    answer = confide.audit_noise(released(tmp_path / "enhanced", enhanced=True).run_folder)
    assert answer.ok, answer.checks
    assert {row.query for row in answer.measurements} == {"key", "group", "taken", "partners as drawn"}


def test_partners_that_were_not_drawn_are_noticed(tmp_path: Path) -> None:
    project = released(tmp_path / "p")
    file = project.run_folder / "confidential" / "measured" / "partners.parquet"
    partner = pq.read_table(file).column("partner").to_numpy().copy()
    one = int(np.flatnonzero(partner != np.arange(len(partner)))[0])
    other = int(partner[one])
    partner[[one, other]] = one, other
    pq.write_table(pa.table({"partner": partner}), file)
    assert failed(project) == {"draws are possible"}


def test_scores_that_levels_share_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(swap.Streams):
        def of(self, purpose: str, level: str = "") -> object:  # type: ignore[override]
            return super().of(purpose, level[:0])

    monkeypatch.setattr(swap, "Streams", Shared)
    monkeypatch.setattr(evaluate, "Streams", Shared)
    assert "draws of different measurements" in failed(released(tmp_path / "p"))


def test_scores_of_another_law_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exponentials = swap.exponentials
    for module in (swap, evaluate):
        monkeypatch.setattr(module, "exponentials", lambda source, count: exponentials(source, count) ** 2)
    assert "the shape of the noise" in failed(released(tmp_path / "p"))


def test_without_its_key_nothing_is_there_to_audit(tmp_path: Path) -> None:
    project = released(tmp_path / "p")
    confide.destroy_key(project.run_folder)
    (finding,) = findings_of(lambda: confide.audit_noise(project.run_folder))
    assert finding.code == "no-measurements"
