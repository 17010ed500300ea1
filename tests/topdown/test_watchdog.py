"""Released figures are compared with their measurements: a wrong estimate is not sealed, and a right one always is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.kits.crossed_topdown import CrossedProject

import confide
from confide.errors import RunError
from confide.estimation import sectors
from confide.inference.inferring import infer
from confide.inference.opened_source import open_source
from confide.mechanisms.topdown import descent
from confide.mechanisms.topdown.measurements import verify as watching
from confide.mechanisms.topdown.measurements.verify import FALSE_ALARMS, Watchdog, explained
from confide.releases.folder import SealedRelease, read_manifest
from confide.releases.ledger import Ledger

KEY = "ab" * 32
SEED = 5
"""Three attributes of three, two and four levels, with names in three scripts."""
NAMES = ("пол", "العمر", "职业")


def run(spec: Path) -> Path:
    return Path(confide.run(spec, processes=1, insecure_key=KEY).release)


def transposed(patch: pytest.MonkeyPatch) -> None:
    """What units below tell of a two-way table goes into the tree with its axes exchanged."""
    add = sectors.CellVectors.add

    def add_wrongly(self: Any, units: Any, query: Any, values: Any, precision: Any) -> None:
        if values.shape[1] == 12:  # three by four
            values = values.reshape(-1, 3, 4).swapaxes(1, 2).reshape(len(values), -1)
        add(self, units, query, values, precision)

    patch.setattr(sectors.CellVectors, "add", add_wrongly)


def exchanged(patch: pytest.MonkeyPatch) -> None:
    """Siblings get each other's people: every sum over them is right."""
    estimate = descent.EstimateGroup._estimate

    def estimate_wrongly(self: Any, node: Any, measured: Any, laws: Any) -> Any:
        rows, tally = estimate(self, node, measured, laws)
        turned = dict(zip(node.units.tolist(), node.units[::-1].tolist(), strict=True))
        rows[:, 0] = [turned[unit] for unit in rows[:, 0].tolist()]
        return rows[np.lexsort([rows[:, 1], rows[:, 0]])], tally

    patch.setattr(descent.EstimateGroup, "_estimate", estimate_wrongly)


@pytest.mark.parametrize(("plant", "evidence"), [(transposed, "tree"), (exchanged, "own"), (exchanged, "tree")])
def test_wrong_estimates_are_not_sealed_and_right_ones_follow_at_no_cost(
    plant: Callable[[pytest.MonkeyPatch], None], evidence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = CrossedProject(SEED, evidence, people=400, budget="4").write(tmp_path / "a")
    ledger = next(spec.parent.glob("*.ledger"))
    with monkeypatch.context() as planted:
        plant(planted)
        with pytest.raises(RunError) as refused:
            run(spec)
    findings = refused.value.findings
    assert {finding.code for finding in findings} == {"far-from-measurements"}
    said = " ".join(f"{finding.what} {finding.found}" for finding in findings)
    assert "country" in said if plant is transposed else "region" in said or "block" in said
    assert any(name in said for name in NAMES)
    assert not list(spec.parent.glob("*/release*"))
    assert [entry.kind for entry in Ledger(ledger).history()] == ["open", "reserve", "measured"]
    release = run(spec)
    assert confide.verify(release, ledger=ledger).ok
    assert [entry.kind for entry in Ledger(ledger).history()] == ["open", "reserve", "measured", "sealed"]


@pytest.mark.parametrize("evidence", ["own", "tree"])
@pytest.mark.parametrize(("people", "budget"), [(6, "1/100"), (300, "1"), (20_000, "10"), (300, "1000000")])
def test_right_estimates_are_sealed_with_room_to_spare_and_not_with_too_much(
    evidence: str, people: int, budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = []
    checks = Watchdog.checks

    def noted(self: Watchdog) -> Any:
        ratios.extend(distance.furthest for distance in self.distances.values())
        return checks(self)

    monkeypatch.setattr(Watchdog, "checks", noted)
    for seed in (2, 7):
        run(CrossedProject(seed, evidence, people=people, budget=budget).write(tmp_path / str(seed)))
    assert len(ratios) > 0
    assert max(ratios) < 0.7
    assert budget == "1000000" or max(ratios) > 0.05


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(CrossedProject(SEED, "tree", people=400, budget="4").write(tmp_path_factory.mktemp("watched") / "a"))


def test_a_release_with_measurements_is_compared_by_verify(sealed: Path) -> None:
    """Every level, whatever else is asked; figures of two regions that were exchanged are named."""
    looked = [check for check in confide.verify(sealed).checks if "near their measurements" in check.name]
    assert [check.name.partition(":")[0] for check in looked] == ["country", "region", "block"]
    assert all(check.ok for check in looked)
    manifest = read_manifest(sealed)
    problem = watching.released_problem(SealedRelease(sealed, manifest))
    records = pq.read_table(next(sealed.glob("tables/records*.parquet")))
    places = {code: place for place, code in enumerate(problem.frame.spine.blocks.codes)}
    cells = np.zeros(records.num_rows, np.int64)
    for name, codes in manifest["plan"]["question"]["output"]["codes"].items():
        number = {code: place for place, code in enumerate(codes)}
        cells = cells * len(codes) + [number[code] for code in records.column(name).to_pylist()]
    counts = np.zeros((len(places), problem.cells), np.int64)
    np.add.at(counts, ([places[code] for code in records.column(0).to_pylist()], cells), 1)

    def wrong(changed: Any) -> list[str]:
        checked = watching.verify_measurements(sealed, manifest, watching.sp.csr_matrix(changed))
        return [check.name.partition(":")[0] for check in checked if not check.ok]

    assert wrong(counts) == []
    assert "block" in wrong(counts[::-1])
    assert {"country", "region"} <= set(wrong(np.roll(counts, 7, axis=1)))


def test_infer_says_that_released_figures_are_far_from_least_squares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = CrossedProject(SEED, "tree", people=400, budget="4").write(tmp_path / "a")
    with monkeypatch.context() as planted:
        transposed(planted)
        planted.setattr("confide.mechanisms.topdown.mechanism.require_near", lambda *_: None)
        planted.setattr(Watchdog, "checks", lambda _: iter(()))
        release = run(spec)
    for folder, far in (
        (release, True),
        (run(CrossedProject(SEED, people=400, budget="4").write(tmp_path / "b")), False),
    ):
        inferred = infer(open_source(folder))
        for kind in inferred.kinds:
            inferred.table(kind.kind)
        assert any("further from least squares" in warning for warning in inferred.warnings) is far
        assert any(number > 0 for number in inferred.far.values()) is far
    assert not [check for check in confide.verify(release).checks if check.ok is False and "near" not in check.name]


def test_what_is_explained_is_passed_by_chance_no_oftener_than_is_said() -> None:
    """The quantile is that of sub-Gaussian tails: with the largest of N normal errors on either side, the chance to
    pass it is below the stated one, and above a thousandth of it per thousand of N."""
    figures = 10_000
    reach = float(explained(np.ones(1), np.ones(1), np.zeros(1), figures, 0.0)[0])
    both = 4 * figures * np.exp(-((reach / 2) ** 2) / 2)
    assert both == pytest.approx(FALSE_ALARMS)
    rng = np.random.default_rng(5)
    noise, error = rng.normal(size=(2, 200, figures))
    assert np.abs(noise - error).max() < reach
    wider = explained(np.full(1, 3.0), np.full(1, 2.0), np.full(1, 400.0), figures, 1.5)
    assert float(wider[0]) == pytest.approx((reach / 2 + 10) * 5 + 1.5)
