"""Released figures are compared with their measurements: a wrong estimate is not sealed, and a right one always is."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix
from tests.kits.crossed_topdown import CrossedProject
from tests.kits.random_specs.project import toml

import confide
from confide.errors import RunError
from confide.estimation import sectors
from confide.inference.inferring import infer
from confide.inference.opened_source import open_source
from confide.mechanisms.topdown import descent
from confide.mechanisms.topdown.measurements.verify import verify_measurements
from confide.mechanisms.topdown.measurements.watchdog import FALSE_ALARMS, Watchdog, explained
from confide.mechanisms.topdown.released_problem import released_problem
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


def furthest(spec: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """How far the figures of a run are, at most, as a part of what is explained."""
    ratios: list[float] = []
    checks = Watchdog.checks

    def noted(self: Watchdog) -> Any:
        ratios.extend(distance.furthest for distance in self.distances.values())
        return checks(self)

    with monkeypatch.context() as watched:
        watched.setattr(Watchdog, "checks", noted)
        run(spec)
    return max(ratios)


def rewritten(spec: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The project with another strategy."""
    file = spec.parent / "own.toml"
    strategy = tomllib.loads(file.read_text(encoding="utf-8"))
    change(strategy)
    file.write_text(toml(strategy), encoding="utf-8")
    return spec


def records_that_cannot_be(project: CrossedProject, folder: Path) -> Path:
    """Structural zeros forbid a part of the records."""
    (first, of_first), (second, of_second), *_ = project.attributes.items()

    def forbid(strategy: dict[str, Any]) -> None:
        strategy["zeros"] = [{"name": "nobody", "where": {first: of_first[:1], second: of_second[:1]}}]

    return rewritten(project.write(folder), forbid)


def empty_places(project: CrossedProject, folder: Path) -> Path:
    """The frame has places with one person each at least for a kind of people that has left one of the regions."""
    name, codes = next(iter(project.attributes.items()))
    gone = project.blocks[0][0]
    project.records = [row for row in project.records if row[name] != codes[0] or row["geocode"][0] != gone]

    def inhabit(strategy: dict[str, Any]) -> None:
        frame = {str(codes[0]): "places"}
        strategy["bounds"] = [{"name": "inhabited", "variable": name, "side": "lower", "per_unit": 1, "frame": frame}]
        for part in strategy["estimation"].values():
            part["rounding"] = [["total"], [name], ["detailed"]]

    spec = rewritten(project.write(folder), inhabit)
    blocks = pq.read_table(folder / "blocks.parquet")
    pq.write_table(blocks.append_column("places", pa.array([40] * blocks.num_rows)), folder / "blocks.parquet")
    return spec


CONTRADICTING = [records_that_cannot_be, empty_places]


@pytest.mark.parametrize("evidence", ["own", "tree"])
@pytest.mark.parametrize("budget", ["1/10", "40", "4000"])
@pytest.mark.parametrize("broken", CONTRADICTING)
def test_right_estimates_from_records_that_contradict_the_frame_are_sealed(
    broken: Callable[[CrossedProject, Path], Path],
    budget: str,
    evidence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A census has some such records: estimates keep the limits all the same, and others are moved as much."""
    spec = broken(CrossedProject(SEED, evidence, people=60, budget=budget), tmp_path / "a")
    assert furthest(spec, monkeypatch) < 0.8


@pytest.mark.parametrize("broken", CONTRADICTING)
def test_what_such_records_move_is_far_from_measurements(
    broken: Callable[[CrossedProject, Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watchdog, "forced", lambda self, place, _: np.zeros(self._problem.spine.levels[place].units))
    with pytest.raises(RunError, match="released figures near their measurements"):
        run(broken(CrossedProject(SEED, "own", people=60, budget="4000"), tmp_path / "a"))


def test_noise_at_the_limits_of_a_frame_excuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many cells that are zero in truth, as structural zeros say: what was measured of them is noise."""
    project = CrossedProject(SEED, "own", people=60, budget="1/10", regions=6)
    (first, of_first), (second, of_second), *_ = project.attributes.items()
    where = {first: of_first[:1], second: of_second[:1]}
    project.records = [row for row in project.records if any(row[name] not in codes for name, codes in where.items())]
    spec = rewritten(project.write(tmp_path / "a"), lambda s: s.update(zeros=[{"name": "nobody", "where": where}]))
    forced, allowed = [], Watchdog.forced

    def noted(self: Watchdog, place: int, above: Any) -> Any:
        forced.append(allowed(self, place, above))
        return forced[-1]

    monkeypatch.setattr(Watchdog, "forced", noted)
    run(spec)
    assert len(forced) == 2 * 3, "before it is sealed, and by verify"
    assert max(float(each.max()) for each in forced) == 0


def test_a_group_at_a_limit_of_the_frame_is_one_more_count_that_noise_pushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the region that a kind of people has left, its count is the least one in every block."""
    project = CrossedProject(SEED, "own", people=60, budget="4000")
    with monkeypatch.context() as watched:
        dogs: list[Watchdog] = []
        checks = Watchdog.checks
        watched.setattr(Watchdog, "checks", lambda self: (dogs.append(self), checks(self))[1])
        run(empty_places(project, tmp_path / "a"))
    dog = dogs[0]
    unlimited = Watchdog(dog._problem, dog._counts)
    monkeypatch.setattr(unlimited, "_limits", lambda _: iter(()))
    last = len(dog._problem.spine.levels) - 1
    gone = np.array([code[0] == project.blocks[0][0] for code in dog._problem.spine.ids("block").tolist()])
    more = dog._zeros_of(last) - unlimited._zeros_of(last)
    assert gone.any()
    assert (more[gone] == 1).all()
    assert not more[~gone].any()


def test_what_a_rough_first_pass_has_settled_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query with a thousandth of the budget is settled first, and the cells, which are known well, keep it."""

    def settled_roughly(strategy: dict[str, Any]) -> None:
        rows = strategy["roots"]["top"]["queries"]
        rough = next(name for name in rows if name != "detailed")
        asked = {"detailed": ["999/1000"] * 3, rough: ["1/1000"] * 3}
        strategy["roots"]["top"]["queries"] = asked
        for part in strategy["estimation"].values():
            part["least_squares"] = [{"queries": [rough], "constrain": [rough]}, {"queries": ["detailed"]}]
            part["slack"] = "1/100"

    for seed in range(4):
        project = CrossedProject(seed, "own", people=60, budget="40")
        assert furthest(rewritten(project.write(tmp_path / str(seed)), settled_roughly), monkeypatch) < 0.8


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(CrossedProject(SEED, "tree", people=400, budget="4").write(tmp_path_factory.mktemp("watched") / "a"))


def test_a_release_with_measurements_is_compared_by_verify(sealed: Path) -> None:
    """Every level, whatever else is asked; figures of two regions that were exchanged are named."""
    looked = [check for check in confide.verify(sealed).checks if "near their measurements" in check.name]
    assert [check.name.partition(":")[0] for check in looked] == ["country", "region", "block"]
    assert all(check.ok for check in looked)
    manifest = read_manifest(sealed)
    problem = released_problem(SealedRelease(sealed, manifest))
    records = pq.read_table(next(sealed.glob("tables/records*.parquet")))
    places = {code: place for place, code in enumerate(problem.frame.spine.blocks.codes)}
    cells = np.zeros(records.num_rows, np.int64)
    for name, codes in manifest["plan"]["question"]["output"]["codes"].items():
        number = {code: place for place, code in enumerate(codes)}
        cells = cells * len(codes) + [number[code] for code in records.column(name).to_pylist()]
    counts = np.zeros((len(places), problem.cells), np.int64)
    np.add.at(counts, ([places[code] for code in records.column(0).to_pylist()], cells), 1)

    def wrong(changed: Any) -> list[str]:
        checked = verify_measurements(sealed, manifest, problem, csr_matrix(changed))
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
