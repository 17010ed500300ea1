"""What SafeTab draws in both stages, and that mistakes planted in it are noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.contract.kit import lay_out, noise_of

import confide
from confide.mechanisms.safetab import measure
from confide.noise import DiscreteGaussian


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.report.charts.available", lambda: False)


def scale(patch: pytest.MonkeyPatch) -> None:
    noise_at = measure.noise_at
    patch.setattr(
        measure,
        "noise_at",
        lambda law, *place: noise_at(DiscreteGaussian(law.sigma2 * Fraction(7, 10) ** 2), *place),
    )


def wide_choice(patch: pytest.MonkeyPatch) -> None:
    """Everybody gets the most detailed table that there is."""
    stages = measure.MeasureGroups._stages

    def wrong(self: Any, groups: Any, totals: Any, occupied: Any) -> Any:
        settings = replace(self.level.settings, thresholds=(-99, -98, -97))
        return stages(replace(self, level=replace(self.level, settings=settings)), groups, totals, occupied)

    patch.setattr(measure.MeasureGroups, "_stages", wrong)


BUGS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "the scale is 30 % too small": (scale, "the scale of the noise"),
    "the choice of tables ignores the thresholds": (wide_choice, "the shape of the noise"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_mistake_is_noticed(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = BUGS[bug]
    project = lay_out("safetab", tmp_path / "p")
    with monkeypatch.context() as patch:
        plant(patch)
        project.run()
    answer = confide.audit_noise(project.run_folder)
    assert check in {one.name for one in answer.checks if not one.ok}


def test_a_total_is_seen_only_above_the_suppression_number(tmp_path: Path) -> None:
    project = lay_out("safetab", tmp_path / "p")
    project.run()
    plan, arrays = noise_of(project)
    limits = {facts["region_type"]: facts["suppressed_up_to"] for facts in plan.question["levels"].values()}
    totals = [array for array in arrays if array.query.endswith("T01001")]
    assert {limits[array.level] is None for array in totals} == {True, False}
    for array in totals:
        assert (array.above is None) == (limits[array.level] is None)
        assert array.above is None or (array.noise > array.above).all()
        assert array.above is None or (array.above <= limits[array.level]).all()
