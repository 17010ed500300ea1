"""The risk of a whole TopDown release: dense least squares over everything that was measured, and the report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits import commands
from tests.kits.topdown_strategy import strategy_text

from confide import api
from confide.errors import ParameterError, ReleaseError
from confide.estimation import Sectors, TreeCovariances, TreeLevel
from confide.lab.risk.bayesian import LawEvidence, marginal_risk
from confide.lab.risk.release_risk import (
    EffectiveRho,
    ReleasedPlan,
    expected_posterior,
    release_risk,
    released_plan,
    rho_from_covariance,
    weighted_median,
)
from confide.mechanisms.topdown.constraints import Invariant
from confide.mechanisms.topdown.strategy import Strategy, groups_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.noise import DiscreteGaussian
from confide.releases.ledger import Ledger
from confide.releases.plan import Plan, loss_by_attribute
from confide.report import charts

STRATEGY = strategy_text(
    "hamlets",
    "A few hamlets",
    attributes="""
[schema.attributes.home]
title = "Home"
levels = [[0, "house"], [1, "barracks"]]
""",
    estimation=["root", "below", "below"],
    rest="""
"total"      = ["-",   "1/2", "1/5"]
"tongue:two" = ["1/4", "1/8", "1/10"]
"home*work"  = ["1/4", "1/8", "1/10"]
"detailed"   = ["1/2", "1/4", "3/5"]

[estimation.root]
least_squares = [{ queries = ["tongue:two", "home*work", "detailed"] }]
rounding = [["total", "home", "detailed"]]
[estimation.below]
least_squares = [{ queries = ["total", "tongue:two", "home*work", "detailed"] }]
rounding = [["total", "home", "detailed"]]

[[invariants]]
name = "population"
level = "land"
query = "total"

[[bounds]]
name = "barracks"
variable = "home"
side = "upper"
per_unit = 5000
frame = { 1 = "barracks" }

[[zeros]]
name = "no-c-in-barracks"
where = { home = [1], tongue = ["c"] }
""",
)

SPEC = """
[release]
name = "hamlets"
title = "A few hamlets"
mechanism = "topdown"
[data]
records = "persons.parquet"
blocks = "blocks.parquet"
[geography]
levels = [{ name = "land", digits = 0 }, { name = "county", digits = 2 }]
[privacy]
ledger = "people.ledger"
budget = "2"
[topdown]
strategy = "strategy.toml"
spine = "plain"
"""

BLOCKS = {"01a": 1, "01b": 0, "01c": 0, "02a": 1, "03a": 0, "03b": 0}
"""Whether there are barracks. The second county has one block, so that its share passes to the county."""


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hamlets")
    draw = np.random.default_rng(5)
    codes = list(BLOCKS)
    pq.write_table(pa.table({"geocode": codes, "barracks": list(BLOCKS.values())}), folder / "blocks.parquet")
    places = [codes[place] for place in draw.integers(0, len(codes), 300)]
    home = [int(BLOCKS[code] and draw.random() < 0.4) for code in places]
    people = {
        "geocode": places,
        "home": home,
        "work": draw.integers(0, 2, 300),
        "tongue": [str(draw.choice(list("ab" if lodged else "abc"))) for lodged in home],
    }
    pq.write_table(pa.table(people), folder / "persons.parquet")
    (folder / "strategy.toml").write_text(STRATEGY)
    (folder / "spec.toml").write_text(SPEC)
    Ledger.open_new(
        folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=10**6
    )
    api.run(folder / "spec.toml", processes=1, insecure_key="5e" * 32)
    return folder / "hamlets"


@pytest.fixture(scope="module")
def opened(run_folder: Path) -> ReleasedPlan:
    return released_plan(run_folder)


def matrix(strategy: Strategy, query: str) -> np.ndarray:
    groups = groups_of(strategy.schema, strategy.query(query))
    return (groups[None, :] == np.arange(groups.max() + 1)[:, None]).astype(float)


class Dense:
    """Every measurement of a plan as one regression on the cells of all blocks."""

    def __init__(self, found: ReleasedPlan, plan: Plan, known: int, *, public_zeros: bool):
        strategy, spine = found.strategy, found.spine
        blocks, cells = len(spine.rows), len(groups_of(strategy.schema, strategy.query("detailed")))
        self.cells = cells
        self.of: dict[tuple[int, int], np.ndarray] = {}
        self.information = np.zeros((blocks * cells,) * 2)
        fixed = []
        for position, level in enumerate(spine.levels):
            classes = [number for number, share in enumerate(level.shares.table) if share]
            for unit in range(level.units):
                inside = np.zeros(blocks)
                inside[level.blocks(unit)] = 1
                self.of[position, unit] = np.kron(inside[None, :], np.eye(cells))
                if position <= known:
                    fixed.append(np.ones((1, cells)) @ self.of[position, unit])
                place = int(level.shares.index[unit])
                if place not in classes:
                    continue
                for asked in strategy.level(level.name).queries:
                    law = plan.laws(level.name, asked.name)[classes.index(place)]
                    rows = matrix(strategy, asked.name) @ self.of[position, unit]
                    self.information += rows.T @ rows / float(law.parameter)
        zero = np.tile(strategy.constraints.zero_cells(strategy.schema), (blocks, 1))
        if public_zeros:
            lodged = matrix(strategy, "home")[1].astype(bool)
            zero |= (found.columns["barracks"] == 0)[:, None] & lodged[None, :]
        self.zero = zero.ravel()
        fixed.append(np.eye(blocks * cells)[self.zero])
        _, values, vectors = np.linalg.svd(np.vstack(fixed))
        basis = vectors[int((values > 1e-9).sum()) :].T
        self.covariance = basis @ np.linalg.inv(basis.T @ self.information @ basis) @ basis.T

    def of_unit(self, position: int, unit: int, rows: np.ndarray) -> np.ndarray:
        chosen = rows @ self.of[position, unit]
        return chosen @ self.covariance @ chosen.T


def effective_of(found: ReleasedPlan, plan: Plan, known: int, *, public_zeros: bool) -> EffectiveRho:
    level = () if known < 0 else (Invariant("population", found.spine.names[known], "total"),)
    strategy = replace(found.strategy, constraints=replace(found.strategy.constraints, invariants=level))
    return EffectiveRho(strategy, found.spine, plan, found.columns, public_zeros=public_zeros)


@pytest.mark.parametrize("public_zeros", [True, False])
@pytest.mark.parametrize("known", [-1, 0, 1])
def test_effective_rho_is_that_of_dense_least_squares(opened: ReleasedPlan, known: int, public_zeros: bool) -> None:
    dense = Dense(opened, opened.plan, known, public_zeros=public_zeros)
    effective = effective_of(opened, opened.plan, known, public_zeros=public_zeros)
    cells = np.arange(dense.cells)
    shape = (2, 2, 3)
    assert effective.reduction.free == (1,)
    for position, level in enumerate(effective.levels):
        for unit in range(level.level.units):
            whole = dense.of_unit(position, unit, np.eye(dense.cells))
            found = level.rho["detailed"][level.kind[unit], effective.core_of(cells)]
            impossible = dense.of[position, unit][:, ~dense.zero].sum(axis=1) == 0
            assert (np.isnan(found) == impossible).all()
            assert found[~impossible] == pytest.approx(1 / (2 * np.diag(whole)[~impossible]), rel=1e-8)
            total = level.rho["total"][level.kind[unit], 0]
            if position <= known or (known == 1 and position == 2 and unit == 3):
                assert total == np.inf  # the block that is a county has the county's total
            else:
                assert total == pytest.approx(1 / (2 * whole.sum()), rel=1e-8)
            index = np.array(np.unravel_index(cells, shape))
            for axis, name in enumerate(("home", "work", "tongue")):
                expected = [
                    rho_from_covariance(whole[np.ix_([one, other], [one, other])], [1, -1])
                    for one in cells
                    for other in cells
                    if one < other and set(np.flatnonzero(index[:, one] != index[:, other])) == {axis}
                    if not impossible[one] and not impossible[other]
                ]
                values = level.between[name][level.kind[unit]]
                told = values[~np.isnan(values)]
                assert bool(len(told)) == bool(expected)
                if expected:
                    assert [told.min(), told.max()] == pytest.approx([min(expected), max(expected)], rel=1e-7)


def test_it_is_never_above_the_loss_of_the_plan(opened: ReleasedPlan) -> None:
    for known in (-1, 0, 1):
        for public_zeros in (True, False):
            effective = effective_of(opened, opened.plan, known, public_zeros=public_zeros)
            bound = effective.presence[1] if known < 0 else float(opened.plan.loss.rho)  # type: ignore[union-attr]
            for level in effective.levels:
                values = np.concatenate([values.ravel() for values in level.rho.values()])
                assert (values[np.isfinite(values)] <= bound + 1e-9).all()
            parts = loss_by_attribute(opened.plan)
            for name, values in effective.levels[-1].between.items():
                assert (values[np.isfinite(values)] <= float(parts[name].rho) + 1e-9).all()  # type: ignore[union-attr]
    assert effective.presence == pytest.approx((1.0, 1.0))


def path_sums(found: ReleasedPlan, plan: Plan) -> list[Fraction]:
    """½ Σ 1/σ² along the spine, block by block, from what each unit is measured with."""
    sums = []
    for block in range(found.spine.levels[-1].units):
        total, unit = Fraction(), block
        for position in reversed(range(len(found.spine.levels))):
            level = found.spine.levels[position]
            classes = [number for number, share in enumerate(level.shares.table) if share]
            if (place := int(level.shares.index[unit])) in classes:
                for asked in found.strategy.level(level.name).queries:
                    law = plan.laws(level.name, asked.name)[classes.index(place)]
                    total += 1 / (2 * law.sigma2)
            unit = int(level.parent[unit]) if position else unit
        sums.append(total)
    return sums


def test_presence_has_the_cheapest_and_the_dearest_path(opened: ReleasedPlan) -> None:
    """Where paths differ, since counties that are measured for their only block too have wider noise here."""
    paths = opened.plan.paths
    assert len(paths) > 1
    everywhere = set(paths[0]).intersection(*paths[1:])
    for changed in (sorted(set(paths[0]) - everywhere), sorted(set(paths[-1]) - everywhere)):
        wider = tuple(
            replace(measure, law=DiscreteGaussian(measure.law.sigma2 * 3)) if number in changed else measure
            for number, measure in enumerate(opened.plan.measures)
        )
        plan = replace(opened.plan, measures=wider)
        sums = path_sums(opened, plan)
        assert min(sums) < max(sums)
        effective = effective_of(opened, plan, -1, public_zeros=False)
        assert effective.presence == (float(min(sums)), float(max(sums)))
        # Someone who knows everybody else knows no less than someone who knows nobody, path by path.
        blocks = effective.levels[-1]
        for block, most in enumerate(sums):
            values = np.concatenate([values[blocks.kind[block]] for values in blocks.rho.values()])
            assert (values[np.isfinite(values)] <= float(most) + 1e-9).all()


def test_presence_without_paths_has_every_measurement_once(opened: ReleasedPlan) -> None:
    first = tuple(opened.plan.measures[number] for number in opened.plan.paths[0])
    plan = replace(opened.plan, paths=(), measures=first)
    whole = float(sum(1 / (2 * measure.law.sigma2) for measure in plan.measures))
    assert effective_of(opened, plan, -1, public_zeros=False).presence == (whole, whole)


def test_the_report_gives_the_dearest_path_as_what_is_told_at_most(run_folder: Path) -> None:
    report = release_risk(run_folder)
    report.effective.__dict__["presence"] = (0.25, 0.75)
    everybody = report.everybody_else()
    assert (everybody["presence_least"], everybody["presence"]) == (0.25, 0.75)


def test_someone_who_knows_all_others_has_the_loss_of_the_plan(opened: ReleasedPlan) -> None:
    """½ dᵀId of one more record, and of one that changes everything and moves to another county."""
    dense = Dense(opened, opened.plan, -1, public_zeros=False)
    record = np.zeros(len(dense.information))
    record[0] = 1
    assert record @ dense.information @ record / 2 == pytest.approx(1.0)
    moved = record.copy()
    moved[-1] = -1
    far = moved @ dense.information @ moved / 2
    at_root = dense.of[0, 0] @ moved
    assert far == pytest.approx(2.0, abs=1e-9)
    assert np.count_nonzero(at_root) == 2


def with_laws(plan: Plan, factors: Mapping[int, Fraction]) -> Plan:
    """The plan with other noise: σ² of some measurements divided by a factor."""
    measures = list(plan.measures)
    for number, factor in factors.items():
        law = measures[number].law
        assert isinstance(law, DiscreteGaussian)
        measures[number] = replace(measures[number], law=DiscreteGaussian(law.sigma2 / factor))
    return replace(plan, measures=tuple(measures))


def every_rho(effective: EffectiveRho) -> list[np.ndarray]:
    return [
        np.nan_to_num(values, nan=0.0, posinf=1e9)
        for level in effective.levels
        for values in (*level.rho.values(), *level.between.values())
    ]


def by_unit(effective: EffectiveRho) -> list[np.ndarray]:
    return [
        np.nan_to_num(values, nan=0.0, posinf=1e9)[level.kind]
        for level in effective.levels
        for values in (*level.rho.values(), *level.between.values())
    ]


def test_it_scales_with_the_budget(opened: ReleasedPlan) -> None:
    scaled = with_laws(opened.plan, dict.fromkeys(range(len(opened.plan.measures)), Fraction(3)))
    before = effective_of(opened, opened.plan, -1, public_zeros=True)
    after = effective_of(opened, scaled, -1, public_zeros=True)
    for one, other in zip(every_rho(before), every_rho(after), strict=True):
        assert other == pytest.approx(3 * one, rel=1e-8)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_less_noise_anywhere_and_more_knowledge_never_lower_it(opened: ReleasedPlan, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(opened.plan.measures) - 1))
    factor = data.draw(st.sampled_from([Fraction(11, 10), Fraction(4), Fraction(50)]))
    known = data.draw(st.integers(-1, 0))
    quieter = with_laws(opened.plan, {number: factor})
    before = effective_of(opened, opened.plan, known, public_zeros=False)
    for plan, told, zeros in ((quieter, known, False), (opened.plan, known, True), (opened.plan, known + 1, False)):
        after = effective_of(opened, plan, told, public_zeros=zeros)
        first, second = before.levels[-1], after.levels[-1]
        one = np.nan_to_num(first.rho["detailed"], nan=0.0)[first.kind][:, : before.reduction.size]
        other = second.rho["detailed"][second.kind]
        assert (np.isnan(other) | (other >= one - 1e-12)).all()


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_knowing_more_counts_never_lowers_rho(seed: int) -> None:
    """One count, two counts, all counts, all of everybody: each knows what the one before knows."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T + 0.1 * np.eye(5)
    change = np.array([1.0, -1.0, 0.0, 0.0, 0.0])
    contrast = float(change @ covariance @ change)
    steps = [rho_from_covariance(covariance[:k, :k], change[:k]) for k in (1, 2, 5)]
    assert all(one <= other + 1e-9 for one, other in pairwise(steps))
    assert 2 / contrast <= steps[1] + 1e-9  # who knows the difference alone: it changes by two
    assert steps[-1] == pytest.approx(change @ np.linalg.inv(covariance) @ change / 2)
    # The least of all changes that look the same in the counts that are known.
    free = rng.normal(size=(50, 4))
    alike = np.hstack([np.ones((50, 1)), free])
    information = np.linalg.inv(covariance)
    assert (np.einsum("ki,ij,kj->k", alike, information, alike) / 2 >= steps[0] - 1e-9).all()


def test_a_sum_that_is_known_gives_a_change_away() -> None:
    tied = [[2.0, -2.0], [-2.0, 2.0]]
    assert rho_from_covariance(tied, [1, -1]) == pytest.approx(1 / 4)
    assert rho_from_covariance(tied, [1, 0]) == float("inf")


# Kazan & Reiter (2024): rho of the race query of a block in 2020, and its sum over the six levels.
@pytest.mark.parametrize(
    ("rho", "prior", "posterior"),
    [
        (0.099226354, "1/2", 0.523666),
        (0.099226354, "1/5", 0.225423),
        (0.099226354, "1/10", 0.116761),
        (0.099226354, "1/50", 0.024159),
        (0.099226354, "1/864", 0.001411),
        (0.345710864, "1/2", 0.574547),
        (0.548930397, "1/2", 0.610173),
        (0.548930397, "1/50", 0.053105),
        (0.548930397, "1/864", 0.003439),
    ],
)
def test_posteriors_of_the_literature(rho: float, prior: str, posterior: float) -> None:
    found = float(expected_posterior(prior, rho)[0])
    assert found == pytest.approx(posterior, abs=6e-7)
    p = float(Fraction(prior))
    assert p <= found <= min(1.0, p * np.exp(2 * rho))


@pytest.mark.parametrize("rho", ["1/1000", "1/20", "1/3", "1/2"])
def test_posteriors_of_one_discrete_count(rho: str) -> None:
    """The Gaussian formula against the sums over one count with discrete noise."""
    priors = ["1/2", "1/10", "1/2016"]
    exact_sums = marginal_risk(LawEvidence(DiscreteGaussian(1 / (2 * Fraction(rho)))), priors).posterior
    found = [float(expected_posterior(prior, float(Fraction(rho)))[0]) for prior in priors]
    assert found == pytest.approx(exact_sums.tolist(), rel=5e-6 if rho == "1/2" else 5e-9)


def test_posteriors_at_the_ends() -> None:
    assert expected_posterior("1/7", np.array([0.0, 400.0, np.inf])) == pytest.approx([1 / 7, 1, 1])
    for wrong in (0.5, "0", "1", "3/2"):
        with pytest.raises(ParameterError):
            expected_posterior(wrong, 0.1)  # type: ignore[arg-type]


def test_medians_are_weighted() -> None:
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.array([5, 1, 1])) == 3
    assert weighted_median(np.array([3.0, 1.0]), np.array([1, 1])) == 1


@pytest.mark.slow
def test_the_real_histogram_in_four_sectors() -> None:
    """2,016 cells, measured as in the blocks of 2020, against one dense inverse."""
    strategy = load_strategy("pl94-persons", root="state")
    asked = strategy.level("block").queries
    axes = [attribute.name for attribute in strategy.schema.attributes]
    queries = [
        {axes.index(v.attribute.name): v.assignment.astype(np.int64) for v in each.query.variables} for each in asked
    ]
    sectors = Sectors.of((8, 2, 2, 63), queries, {0, 1})
    assert (sectors.size, sectors.copies, len(sectors.sectors)) == (16, 126, 4)
    precisions = [float(strategy.budget * strategy.level("block").share * each.share) for each in asked]
    measured = [sectors.query(query) for query in queries]
    information = sectors.information(zip(measured, precisions, strict=True))
    possible = ~strategy.constraints.zero_cells(strategy.schema)
    level = TreeLevel(np.empty(0, np.int64), np.zeros(1, np.int64), information[None])
    tree = TreeCovariances(sectors, [level], possible.reshape(16, 126)[:, :1].T)
    weights = sectors.cell_weights(measured[-1])
    found = tree.evaluate(0, lambda covariance: np.einsum("s,ksmm->km", weights, covariance))
    dense = np.zeros((2016, 2016))
    for each, precision in zip(asked, precisions, strict=True):
        groups = groups_of(strategy.schema, each.query)
        dense[groups[:, None] == groups[None, :]] += precision
    expected = np.zeros(2016)
    expected[possible] = np.diag(np.linalg.inv(dense[np.ix_(possible, possible)]))
    assert np.repeat(found.values[0], 126) == pytest.approx(expected, rel=1e-9)


def test_the_report(run_folder: Path) -> None:
    found = release_risk(run_folder, priors=["1/2", "1/12"], worst=1).as_dict()
    json.dumps(found, allow_nan=False)
    everybody = found["knows_everybody_else"]
    assert (everybody["presence"], everybody["change_one"], everybody["cell"]) == pytest.approx((1, 2, 2))
    assert [level["level"] for level in found["by_level"]] == ["land", "county", "block"]
    (total,) = (row for row in found["by_level"][0]["queries"] if row["query"] == "total")
    assert total["as_it_is"]
    assert total["rho_most"] is None
    for level in found["by_level"]:
        for row in (*level["queries"], *level["between"].values()):
            if row["rho_most"] is not None:
                assert 0 < row["rho_least"] <= row["rho_median"] <= row["rho_most"] <= 2
                assert row["posterior_most"]["1/2"] > 0.5
    for row in found["published_counts"]:
        assert sum(part["records"] for part in row["counts"].values()) == 300
        assert sum(part["cells"] for part in row["counts"].values()) == row["units"] * 10
    assert found["by_record"]["records"] == 300
    quantiles = list(found["by_record"]["rho"].values())
    assert quantiles == sorted(quantiles)
    assert [row["level"] for row in found["least_protected"]] == ["county", "block"]
    listed = release_risk(run_folder, worst=6).as_dict()["least_protected"]
    for name in ("county", "block"):
        rhos = [row["rho"] for row in listed if row["level"] == name]
        assert rhos == sorted(rhos, reverse=True)
        detailed = next(level for level in found["by_level"] if level["level"] == name)["queries"][-1]
        assert rhos[0] == pytest.approx(detailed["rho_most"])
    # The county of one block has its block's share as well, and the block is the county.
    (county,) = (row for row in listed if (row["level"], row["blocks"]) == ("county", 1))
    (block,) = (row for row in listed if (row["level"], row["siblings"]) == ("block", 0))
    assert (county["unit"], county["share"], block["share"]) == ("02", "4/5", "0")
    assert block["rho"] == pytest.approx(county["rho"])
    assert block["records"] == county["records"] > 0


def test_a_release_alone_does_with_an_own_strategy(run_folder: Path) -> None:
    alone = released_plan(run_folder / "release")
    assert alone.strategy.as_dict()["levels"] == released_plan(run_folder).strategy.as_dict()["levels"]
    assert alone.spine.fingerprint() == released_plan(run_folder).spine.fingerprint()


def test_a_shipped_strategy_needs_no_spec(tmp_path: Path) -> None:
    from tests.kits.topdown import write_small_state, write_spec

    write_small_state(tmp_path, 400, 3)
    spec = write_spec(tmp_path, around=["place"], output='formats = ["csv"]')
    result = api.run(spec, processes=1, insecure_key="5e" * 32)
    found = release_risk(result.release)
    assert found.release.spine.fingerprint() == found.release.facts["spine"]
    numbers = found.as_dict()
    assert numbers["cells"] == 2016
    assert numbers["by_record"]["records"] == 400
    loss = numbers["knows_everybody_else"]["change_one"]
    for level in numbers["by_level"]:
        for row in level["queries"]:
            assert row["rho_most"] is None or row["rho_most"] <= loss + 1e-9
    plain = release_risk(result.release, public_zeros=False).effective
    parts = numbers["knows_everybody_else"]["by_attribute"]
    for level in plain.levels:
        for name, values in level.between.items():
            assert np.nanmax(values) <= parts[name] + 1e-9


def test_the_command(run_folder: Path, tmp_path: Path) -> None:
    text = commands.run("risk", "release", run_folder, "--worst", 6)
    for words in ("A few hamlets", "knows all others", "Effective rho", "at its parent", "No confidential record"):
        assert words in text
    ask = partial(commands.run_json, "risk", "release", run_folder)
    found = ask("--prior", "1/3", "--worst", 1)
    assert found["priors"] == ["1/3"]
    without = ask("--without-public-zeros")
    assert not without["public_zeros"]
    assert without["by_level"][2]["queries"][0]["rho_most"] <= found["by_level"][2]["queries"][0]["rho_most"]
    if charts.available():
        drawn = ask("--plots", tmp_path / "pictures")["plots"]
        assert [Path(name).name for name in drawn] == ["beliefs.svg", "effective-rho.svg"]
        assert all(Path(name).read_text().startswith("<svg") for name in drawn)


def test_other_folders_are_refused(tmp_path: Path, run_folder: Path) -> None:
    assert commands.codes("risk", "release", tmp_path) == ["not-a-release"]
    copied = tmp_path / "release"
    copied.mkdir()
    manifest = json.loads((run_folder / "release" / "manifest.json").read_text())

    def planned(**plan: Any) -> None:
        (copied / "manifest.json").write_text(json.dumps(manifest | {"plan": manifest["plan"] | plan}))

    facts = manifest["plan"]["question"]
    for other in ({"measures": []}, {"question": {name: fact for name, fact in facts.items() if name != "strategy"}}):
        planned(**other)
        with pytest.raises(ReleaseError, match="not a release of the TopDown"):
            released_plan(copied)
    (copied / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ReleaseError, match="cannot be read"):
        released_plan(copied)
    planned(question=facts | {"strategy": "another form"})
    with pytest.raises(ReleaseError, match="how it was made"):
        released_plan(copied)
