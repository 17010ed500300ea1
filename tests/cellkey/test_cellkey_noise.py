"""What the cell key method draws: keys that are even and independent, and the noise of its perturbation table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import Project, lay_out

import confide
from confide.mechanisms.cellkey import keyed_records
from confide.releases.noise_audit import NoiseAudit

KEYS = 100_000_000


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.report.charts.available", lambda: False)


def failed(answer: NoiseAudit) -> dict[str, str]:
    return {check.name: check.detail for check in answer.checks if not check.ok}


def with_keys(project: Project, keys: Any) -> None:
    (file,) = project.inputs
    table = pq.read_table(file)
    place = table.column_names.index("record_key")
    pq.write_table(table.set_column(place, "record_key", pa.array(keys(table.num_rows).astype(np.int64))), file)


def in_turn(number: int) -> np.ndarray:
    """Even, and each 20 records the same again."""
    return (np.arange(number) % 20) * (KEYS // 20) + 7


def of_few_classes(number: int) -> np.ndarray:
    """As many in the lower half, quarter and eighth as there should be, and nowhere near the upper end."""
    keys = np.random.default_rng(2).integers(0, KEYS, number)
    return np.where(keys < KEYS // 2, keys, KEYS // 2 + (keys - KEYS // 2) // 5)


@pytest.mark.parametrize(
    ("keys", "check"),
    [(in_turn, "draws within a measurement"), (of_few_classes, "the shape of the noise")],
    ids=["in turn", "not near the end"],
)
def test_keys_that_were_not_drawn_are_noticed(keys: Callable[[int], np.ndarray], check: str, tmp_path: Path) -> None:
    project = lay_out("cellkey", tmp_path / "p")
    with_keys(project, keys)
    project.run()
    wrong = failed(confide.audit_noise(project.run_folder))
    assert "record key" in wrong[check]


def test_noise_that_is_not_that_of_the_table_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that goes up only."""
    project = lay_out("cellkey", tmp_path / "p")
    text = project.spec.read_text(encoding="utf-8")
    project.spec.write_text(text.replace('"sex", "age:broad"]', '"sex", "age"]'), encoding="utf-8")

    class Upwards:
        modulus = KEYS

        def __init__(self, lookup: Any):
            self._lookup = lookup

        def lookup(self, counts: Any, keys: Any) -> Any:
            return np.abs(self._lookup.lookup(counts, keys))

    perturb = keyed_records.perturb
    monkeypatch.setattr(
        "confide.mechanisms.cellkey.keyed_records.perturb",
        lambda sums, lookup, *rest: perturb(sums, Upwards(lookup), *rest),
    )
    project.run()
    assert "the shape of the noise" in failed(confide.audit_noise(project.run_folder))


def test_a_threshold_belongs_to_the_law(tmp_path: Path) -> None:
    project = lay_out("cellkey", tmp_path / "p")
    text = project.spec.read_text(encoding="utf-8")
    project.spec.write_text(text.replace("[cellkey] ", "[cellkey]\nthreshold = 6\n#"), encoding="utf-8")
    project.run()
    answer = confide.audit_noise(project.run_folder)
    assert answer.ok, answer.checks
