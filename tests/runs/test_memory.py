"""Memory that is full, or will be, is said in words, before anything is spent where it can be known."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

import confide
from confide.errors import ConfideError
from confide.releases import workspace
from confide.releases.ledger import Ledger
from confide.releases.workspace import MEGABYTE, memory_forecast, memory_limits

FULL = [MemoryError(), pa.ArrowMemoryError("malloc failed"), OSError(errno.ENOMEM, "Cannot allocate memory")]


@pytest.mark.parametrize("error", FULL, ids=["python", "arrow", "system"])
@pytest.mark.parametrize("stage", ["prepare", "plan", "fingerprint", "check", "count", "measure", "publish"])
def test_memory_that_is_full_is_a_finding_in_every_stage(
    project: Path, monkeypatch: pytest.MonkeyPatch, stage: str, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(f"confide.mechanisms.tables.mechanism.Tables.{stage}", fail)
        with pytest.raises(ConfideError) as refusal:
            confide.run(project / "spec.toml")
        (finding,) = refusal.value.findings
        assert finding.code == "out-of-memory"
        assert all((finding.found, finding.expected, finding.remedy))
        if stage in ("prepare", "plan", "check"):
            assert len(Ledger(project / "people.ledger").history()) == 1, "nothing was charged"
            with pytest.raises(ConfideError, match="memory"):
                confide.check(project / "spec.toml")
    confide.run(project / "spec.toml")
    assert [entry.kind for entry in Ledger(project / "people.ledger").history()].count("reserve") == 1


@pytest.mark.parametrize("kind", ["memory", "addresses"])
def test_the_forecast_follows_limits_and_areas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    def severity(megabytes: int, blocks: int) -> list[str]:
        monkeypatch.setattr(workspace, "memory_limits", lambda: {kind: megabytes * MEGABYTE})
        return [finding.severity for finding in memory_forecast(tmp_path, blocks)]

    assert severity(100, 0) == ["error"]
    assert severity(64_000, 0) == []
    order = {"error": 0, "warning": 1}
    for blocks in (0, 10_000, 1_000_000, 11_000_000):
        steps = [order.get((severity(1 << power, blocks) or ["none"])[0], 2) for power in range(6, 20)]
        assert steps == sorted(steps), "more memory is never worse"
        assert set(steps) >= {0, 2}
    assert severity(4_000, 11_000_000) == ["error"], "the blocks of a nation"


def test_too_little_memory_is_found_before_anything_is_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "memory_limits", lambda: {"addresses": 900_000 * 1024})
    assert [finding.code for finding in confide.check(project / "spec.toml").errors] == ["out-of-memory"]
    with pytest.raises(ConfideError, match="memory"):
        confide.run(project / "spec.toml")
    assert len(Ledger(project / "people.ledger").history()) == 1


def test_the_limits_of_this_process_are_known() -> None:
    assert all(limit > MEGABYTE for limit in memory_limits().values())
