"""What ``topdown`` really draws, in more than 64 units of a level: as planned, and every planted mistake is noticed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kits.topdown import KEY

import confide
from confide.errors import RunError
from confide.mechanisms.topdown import measure
from confide.noise import DiscreteGaussian, NoiseStream
from confide.releases.ledger import Ledger
from confide.releases.mechanism import NoiseSource
from confide.releases.noise_audit import NoiseAudit

SPEC = """
[release]
name = "many-blocks"
mechanism = "topdown"

[data]
records = "persons.csv"
blocks = "blocks.csv"

[geography]
levels = [{ name = "state", digits = 0 }, { name = "county", digits = 3 }]

[privacy]
ledger = "l"
budget = "1/10"

[topdown]
strategy = "own.toml"
root = "state"
spine = "plain"
"""
OWN = """
id = "own"
title = "Sex and age"
provenance = "Made for a test."
definition = "zcdp"
neighbours = "change-one"
root = "state"
schema = "schema.toml"

[roots.state]
budget = "1/10"
levels     = ["state", "county", "block"]
shares     = ["1/5", "1/5", "3/5"]
estimation = ["root", "below", "below"]
[roots.state.queries]
"sex"      = ["1/2", "1/2", "1/2"]
"detailed" = ["1/2", "1/2", "1/2"]

[estimation.root]
least_squares = [{ queries = ["sex", "detailed"] }]
rounding = [["sex", "detailed"]]
[estimation.below]
least_squares = [{ queries = ["sex", "detailed"] }]
rounding = [["sex", "detailed"]]
"""
SCHEMA = """
id = "s"
provenance = "made up"
[attributes.sex]
levels = [["0", "m"], ["1", "f"]]
[attributes.age]
levels = [["0", "0"], ["1", "1"], ["2", "2"], ["3", "3"]]
"""


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 4,900 blocks whose measurements are published nowhere: the audit draws them again, so that mistakes are
    planted after the run. 900 blocks are alone in their counties, and have the shares of both."""
    folder = tmp_path_factory.mktemp("state")
    blocks = [f"{county:03d}{block:03d}" for county in range(40) for block in range(100)]
    blocks += [f"{county:03d}000" for county in range(40, 940)]
    rows = [f"{blocks[i * 37 % len(blocks)]},{i % 2},{i % 4}" for i in range(500)]
    (folder / "persons.csv").write_text("geocode,sex,age\n" + "\n".join(rows) + "\n")
    (folder / "blocks.csv").write_text("geocode,housing_units\n" + "".join(f"{code},1\n" for code in blocks))
    for name, text in (("spec.toml", SPEC), ("own.toml", OWN), ("schema.toml", SCHEMA)):
        (folder / name).write_text(text)
    Ledger.open_new(folder / "l", data_set="d", definition="zcdp", neighbours="change-one", budget=1)
    return confide.run(folder / "spec.toml", processes=1, insecure_key=KEY).release.parent


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.report.charts.available", lambda: False)


def failed(answer: NoiseAudit) -> set[str]:
    return {check.name for check in answer.checks if not check.ok}


def test_the_noise_is_as_planned_and_three_per_cent_would_be_seen(sealed: Path) -> None:
    answer = confide.audit_noise(sealed)
    assert answer.ok, answer.checks
    assert answer.sees_three_per_cent
    assert {measurement.source for measurement in answer.measurements} == {"drawn again"}
    assert answer.draws == (1 + 40 + 4_900) * 10


def units_become(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[pytest.MonkeyPatch], None]:
    """Coordinates are made with other numbers of units."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        add_noise = measure._PooledChildren._add_noise

        def wrong(self: Any, *arguments: Any) -> Any:
            units, self.units = self.units, change(self.units)
            try:
                return add_noise(self, *arguments)
            finally:
                self.units = units

        patch.setattr(measure._PooledChildren, "_add_noise", wrong)

    return plant


def scale(patch: pytest.MonkeyPatch) -> None:
    draw_at = measure.draw_at

    def wrong(law: Any, *arguments: Any) -> Any:
        return draw_at(DiscreteGaussian(law.sigma2 * Fraction(97, 100) ** 2), *arguments)

    patch.setattr(measure, "draw_at", wrong)


def one_stream_for_all_queries(patch: pytest.MonkeyPatch) -> None:
    stream = NoiseSource.stream

    def wrong(self: NoiseSource, level: str, query: str) -> NoiseStream:
        return stream(self, level, query[:0])

    patch.setattr(NoiseSource, "stream", wrong)


BUGS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "noise ignores the unit": (units_become(lambda units: 0 * units), "draws within a measurement"),
    "units 64 apart share noise": (units_become(lambda units: units % 64), "draws within a measurement"),
    "two units next to each other share noise": (units_become(lambda units: units // 2), "draws within a measurement"),
    "the scale is 3 % too small": (scale, "the scale of the noise"),
    "all queries have one stream": (one_stream_for_all_queries, "draws of different measurements"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_mistake_is_noticed(bug: str, sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = BUGS[bug]
    plant(monkeypatch)
    assert check in failed(confide.audit_noise(sealed))


def test_without_key_and_measurements_there_is_nothing_to_audit(sealed: Path) -> None:
    key = sealed / "confidential" / "key"
    aside = key.rename(key.with_name("aside"))
    try:
        with pytest.raises(RunError, match="do not exist any more"):
            confide.audit_noise(sealed)
    finally:
        aside.rename(key)
