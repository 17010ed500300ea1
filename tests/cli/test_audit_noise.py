"""``confide audit noise``: what it prints, what it leaves, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import Project
from typer.testing import CliRunner

from confide.cli.main import app


@pytest.fixture
def run_folder(seal: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a sealed run that a test may change."""
    folder = seal("tables").parent.parent
    return Project("tables", folder).copy(tmp_path / "copy").run_folder


def test_noise_as_planned(run_folder: Path) -> None:
    result = CliRunner().invoke(app, ["audit", "noise", str(run_folder)])
    assert result.exit_code == 0, result.output
    assert "the noise is as planned" in result.stdout
    assert "Too few draws to see 3 %" in " ".join(result.stdout.split())
    assert "CONFIDENTIAL" in result.stderr
    page = run_folder / "dossier-confidential" / "noise-audit-confidential.html"
    text = page.read_text(encoding="utf-8")
    assert "CONFIDENTIAL" in text
    assert "The noise is as planned." in text
    assert "<svg" in text
    numbers = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert numbers["warning"].startswith("CONFIDENTIAL")
    for file in (page, page.with_suffix(".json")):
        assert file.stat().st_mode & 0o777 == 0o600


def test_noise_that_is_not_as_planned(run_folder: Path) -> None:
    """Somebody has set negatives to zero in the released files."""
    for file in (run_folder / "release" / "tables").glob("*.parquet"):
        file.chmod(0o644)
        table = pq.read_table(file)
        zeroed = pa.array(np.maximum(table.column("count").to_numpy(), 6))
        table = table.set_column(table.column_names.index("count"), "count", zeroed)
        pq.write_table(table, file)
    result = CliRunner().invoke(app, ["audit", "noise", str(run_folder), "--json"])
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    assert answer["ok"] is False
    assert answer["confidential"] is True
    assert "small laws, value by value" in [check["name"] for check in answer["checks"] if not check["ok"]]
    assert Path(answer["page"]).is_file()
    shown = CliRunner().invoke(app, ["audit", "noise", str(run_folder)])
    assert shown.exit_code == 1
    assert "not as planned" in shown.stdout
    assert "WRONG" in shown.stdout


def test_a_run_that_is_not_sealed_is_refused(run_folder: Path) -> None:
    (run_folder / "release").rename(run_folder / "aside")
    result = CliRunner().invoke(app, ["audit", "noise", str(run_folder)])
    assert result.exit_code != 0
    assert [finding.code for finding in result.exception.findings] == ["not-sealed"]  # type: ignore[union-attr]
