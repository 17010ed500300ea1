"""What ``tables`` really draws, of 4,000 blocks in several parts: as planned, and every planted mistake is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import confide
from confide.mechanisms.tables import mechanism, programme
from confide.noise import DiscreteGaussian, NoiseStream, derive_stream
from confide.releases.ledger import Ledger
from confide.releases.mechanism import NoiseSource
from confide.releases.noise_audit import NoiseAudit

KEY = "5a" * 32
BLOCKS = [f"{county:02d}{block:03d}" for county in range(8) for block in range(500)]
SPEC = """
[release]
name = "many-blocks"
mechanism = "tables"

[data]
records = "persons.csv"
blocks = "blocks.csv"
schema = "schema.toml"

[geography]
levels = [{ name = "county", digits = 2 }]

[privacy]
ledger = "l"
budget = "1/50"

[[tables]]
name = "people"
variables = ["sex", "age"]
levels = ["county", "block"]

[output]
formats = ["parquet"]
"""
SCHEMA = """
id = "s"
provenance = "made up"
[attributes.sex]
levels = [["m", "m"], ["f", "f"]]
[attributes.age]
levels = [["0", "0"], ["1", "1"], ["2", "2"], ["3", "3"]]
"""


def lay_out(folder: Path, *, budget: str = "1/50", other_record: bool = False) -> Path:
    """Some hundred made-up people in 4,000 blocks."""
    folder.mkdir()
    rows = [[BLOCKS[i * 37 % len(BLOCKS)], "mf"[i % 2], str(i % 4)] for i in range(700)]
    if other_record:
        rows[0][1] = "f"
    (folder / "persons.csv").write_text("geocode,sex,age\n" + "\n".join(map(",".join, rows)) + "\n")
    (folder / "blocks.csv").write_text("geocode\n" + "\n".join(BLOCKS) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(SPEC.replace("1/50", budget))
    Ledger.open_new(folder / "l", data_set="d", definition="zcdp", neighbours="change-one", budget=10)
    return folder / "spec.toml"


def run(spec: Path) -> Path:
    return confide.run(spec, processes=1, insecure_key=KEY).release.parent


def failed(answer: NoiseAudit) -> set[str]:
    return {check.name for check in answer.checks if not check.ok}


@pytest.fixture(autouse=True)
def _several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programme, "PART_CELLS", 12_000)
    monkeypatch.setattr("confide.report.charts.available", lambda: False)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The run without a mistake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programme, "PART_CELLS", 12_000)
        yield run(lay_out(tmp_path_factory.mktemp("sealed") / "p"))


def test_the_noise_is_as_planned_and_three_per_cent_would_be_seen(sealed: Path) -> None:
    answer = confide.audit_noise(sealed)
    assert answer.ok, answer.checks
    assert answer.sees_three_per_cent
    assert answer.draws == 4_008 * 15
    assert {measurement.source for measurement in answer.measurements} == {"released"}


def scaled(error: Fraction) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        perturb = mechanism.perturb

        def wrong(counts: Any, noise: Any, stream: NoiseStream, start: int = 0) -> Any:
            return perturb(counts, DiscreteGaussian(noise.sigma2 * error**2), stream, start)

        patch.setattr(mechanism, "perturb", wrong)

    return plant


def last_variable_only(patch: pytest.MonkeyPatch) -> None:
    stream = NoiseSource.stream

    def wrong(self: NoiseSource, level: str, query: str) -> NoiseStream:
        table, _, variables = query.rpartition("/")
        return stream(self, level, f"{table}/{variables.split('*')[-1]}")

    patch.setattr(NoiseSource, "stream", wrong)


def no_level(patch: pytest.MonkeyPatch) -> None:
    stream = NoiseSource.stream
    patch.setattr(NoiseSource, "stream", lambda self, level, query: stream(self, "", query))


def restart(patch: pytest.MonkeyPatch) -> None:
    perturb = mechanism.perturb
    patch.setattr(
        mechanism,
        "perturb",
        lambda counts, noise, stream, start=0: perturb(counts, noise, stream, 0),
    )


def clamp(patch: pytest.MonkeyPatch) -> None:
    read = mechanism.read_measured
    patch.setattr(mechanism, "read_measured", lambda *place: np.maximum(read(*place), 0))


def no_noise_in_totals(patch: pytest.MonkeyPatch) -> None:
    """In one margin of the larger areas alone: eight counts."""
    perturb = mechanism.perturb

    def wrong(counts: Any, noise: Any, stream: NoiseStream, start: int = 0) -> Any:
        return counts if len(counts) == 8 * 8 else perturb(counts, noise, stream, start)

    patch.setattr(mechanism, "perturb", wrong)


def margins_of_noisy_cells(patch: pytest.MonkeyPatch) -> None:
    """Margins are summed from the noisy table: they agree, and are not what was planned."""
    read = mechanism.read_measured

    def wrong(*place: Any) -> Any:
        rows = read(*place).reshape(-1, 15).copy()
        rows[:, 0] = rows[:, 7:].sum(axis=1)
        return rows.ravel()

    patch.setattr(mechanism, "read_measured", wrong)


BUGS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "the scale is 3 % too small": (scaled(Fraction(97, 100)), "the scale of the noise"),
    "the scale is 3 % too large": (scaled(Fraction(103, 100)), "the scale of the noise"),
    "a table and its margin share noise": (last_variable_only, "draws of different measurements"),
    "two levels share noise": (no_level, "runs of equal values"),
    "noise restarts in every part": (restart, "draws within a measurement"),
    "negatives are set to zero before publication": (clamp, "the shape of the noise"),
    "one table of large areas has no noise": (no_noise_in_totals, "the scale of the noise"),
    "margins are sums of noisy cells": (margins_of_noisy_cells, "cells of the same unit"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_mistake_is_noticed(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = BUGS[bug]
    spec = lay_out(tmp_path / "p")
    with monkeypatch.context() as patch:
        plant(patch)
        # What verify sees of such a mistake already is not sealed; here the audit is asked.
        patch.setattr("confide.releases.run.verify_staged", lambda *_: ())
        folder = run(spec)
    assert check in failed(confide.audit_noise(folder))


def not_bound(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        def wrong(self: NoiseSource, level: str, query: str) -> NoiseStream:
            bound = {
                "records_fingerprint": bytes.fromhex(self.records_fingerprint),
                "plan_hash": bytes.fromhex(self.plan_hash),
            }
            return derive_stream(
                self.key, **bound | {name: b"the same"}, mechanism=self.mechanism, level=level, query=query
            )

        patch.setattr(NoiseSource, "stream", wrong)

    return plant


@pytest.mark.parametrize(
    ("name", "changes"),
    [("records_fingerprint", {"other_record": True}), ("plan_hash", {"budget": "1/51"})],
    ids=["other records", "another plan"],
)
def test_noise_that_two_runs_share_is_noticed(
    name: str, changes: dict[str, Any], sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one key: the fingerprint of the records, or the hash of the plan, is not bound into the noise."""
    right = run(lay_out(tmp_path / "right", **changes))
    assert confide.audit_noise(sealed, right).ok
    with monkeypatch.context() as patch:
        not_bound(name)(patch)
        one, other = (run(lay_out(tmp_path / folder, **some)) for folder, some in (("one", {}), ("other", changes)))
    assert "draws of different measurements" in failed(confide.audit_noise(one, other))


def test_a_run_is_not_held_against_itself(sealed: Path) -> None:
    with pytest.raises(confide.errors.RunError, match="given twice"):
        confide.audit_noise(sealed, sealed)


@pytest.mark.parametrize("law", ["truncated-discrete-gaussian", "truncated-two-sided-geometric"])
def test_bounded_noise_is_audited_too(law: str, tmp_path: Path) -> None:
    spec = lay_out(tmp_path / "p")
    text = spec.read_text().replace('budget = "1/50"', 'definition = "approximate"\nbudget = "500"\ndelta = "0.9"')
    spec.write_text(text + f'\n[noise]\nlaw = "{law}"\nvariance = 4\nbound = 6\n')
    (spec.parent / "l").unlink()
    Ledger.open_new(
        spec.parent / "l",
        data_set="d",
        definition="approximate",
        neighbours="change-one",
        budget=1_000,
        delta=Fraction(19, 20),
    )
    answer = confide.audit_noise(run(spec))
    assert answer.ok, answer.checks
    assert law in answer.measurements[0].law
