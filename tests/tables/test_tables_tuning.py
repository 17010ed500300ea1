"""Parts of a budget and margins, either from the other: exactly what the plan of the tuned spec has."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from tests.contract.kit import EXAMPLES

from confide import api
from confide.errors import ConfideError
from confide.lab.risk.bayesian.evidence import evidence_of
from confide.lab.risk.bayesian.one_level import marginal_risk
from confide.lab.risk.testing.curve_answer import expected_posterior, protection
from confide.mechanisms import MECHANISMS
from confide.mechanisms.tables.programme import TablesSpec, build_table, plan_programme
from confide.mechanisms.tables.tuning import TablesTuning
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP, Neighbours, PureDP
from confide.releases.boards import declared_board

SPEC = EXAMPLES / "tables" / "spec.toml"
FIRST, OTHER = ("age-by-sex", "county"), ("tongue", "block")


@pytest.fixture(scope="module")
def tuning() -> TablesTuning:
    board = declared_board(MECHANISMS["tables"], api.load(SPEC))
    assert isinstance(board, TablesTuning)
    return board


def independent(tuning: TablesTuning) -> TablesTuning:
    """The same programme with noise of its own in every table."""
    part = tuning.programme.spec.programme.model_copy(update={"repeated": "independent"})
    spec = tuning.programme.spec.model_copy(update={"programme": part})
    return TablesTuning.of(replace(tuning.programme, spec=spec))


def planned_laws(tuning: TablesTuning, values: dict[str, Any]) -> dict[Any, Any]:
    """The noise of each row in the plan of a spec with these values."""
    spec = TablesSpec.model_validate(values)
    schema, spine = tuning.programme.schema, tuning.programme.spine
    tables = tuple(build_table(part, schema, spec=spec, spine=spine) for part in spec.tables)
    problem = replace(tuning.programme, spec=spec, tables=tables)
    plan = plan_programme(problem)
    assert plan.loss == tuning.loss
    return {
        (table.name, level.name): plan.measure(level.name, problem.query_key(table, table.query)).law
        for table in problem.tables
        for level in table.levels
    }


def test_the_board_begins_with_what_the_plan_has(tuning: TablesTuning) -> None:
    laws = planned_laws(tuning, dict(api.load(SPEC).values))
    assert {row: tuning.law(row) for row in tuning.budgets} == laws
    assert tuning.total == Fraction(3, 2)


def test_the_tuned_spec_has_the_noise_that_was_promised(tuning: TablesTuning) -> None:
    moved = tuning.with_row(FIRST, margin=7, locked=[OTHER])
    laws = planned_laws(moved, moved.spec_values(api.load(SPEC).values))
    assert {row: moved.law(row) for row in moved.budgets} == laws
    assert laws[FIRST].noise_margin("0.95") <= 7


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("keep_total", [True, False])
def test_a_margin_is_reached_and_the_rest_follows_exactly(tuning: TablesTuning, pooled: bool, keep_total: bool) -> None:
    start = tuning if pooled else independent(tuning)
    moved = start.with_row(FIRST, margin=8, locked=[OTHER], keep_total=keep_total)
    rows = {row.name: row for row in moved.tuned_rows}
    assert rows[FIRST].margin <= 8 < {row.name: row for row in start.tuned_rows}[FIRST].margin
    assert moved.budgets[OTHER] == start.budgets[OTHER]
    assert moved.total == sum(moved.budgets.values())
    others = [row for row in start.budgets if row not in (FIRST, OTHER)]
    if keep_total:
        assert moved.total == start.total, "to the last digit"
        factors = [moved.budgets[row] / start.budgets[row] for row in others]
        assert max(factors) - min(factors) < Fraction(1, 10**3)
    else:
        assert {row: moved.budgets[row] for row in others} == {row: start.budgets[row] for row in others}
    if not pooled:
        less = start.with_row(FIRST, budget=moved.budgets[FIRST] - Fraction(1, 10**6), keep_total=False)
        assert {row.name: row for row in less.tuned_rows}[FIRST].margin > 8, "the smallest part that gives it"


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_is_moved_the_parts_are_the_budget(tuning: TablesTuning, data: st.DataObject) -> None:
    names = list(tuning.budgets)
    moved, total = tuning, tuning.total
    for _ in range(3):
        row = data.draw(st.sampled_from(names))
        locked = data.draw(st.sets(st.sampled_from(names), max_size=3)) - {row}
        try:
            if data.draw(st.booleans()):
                moved = moved.with_row(row, margin=data.draw(st.integers(3, 200)), locked=locked)
            else:
                total = Fraction(data.draw(st.integers(1, 10**4)), 1000)
                moved = moved.with_total(total, locked)
        except ConfideError as error:
            if error.findings[0].code not in ("budget-too-small", "nothing-follows"):
                raise
            total = moved.total
        assert moved.total == total
        assert min(moved.budgets.values()) > 0


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"margin": 0}, "margin-range"),
        ({"margin": 1}, "budget-too-small"),
        ({"budget": Fraction(0)}, "budget-too-small"),
        ({"budget": Fraction(2)}, "budget-too-small"),
    ],
)
def test_what_cannot_be_is_a_finding(tuning: TablesTuning, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfideError) as error:
        tuning.with_row(FIRST, **asked)
    assert error.value.findings[0].code == code


def test_rows_that_are_not_there_and_rows_all_locked_are_findings(tuning: TablesTuning) -> None:
    with pytest.raises(ConfideError) as error:
        tuning.with_row(("age-by-sex", "moon"), margin=3)
    assert error.value.findings[0].code == "no-row"
    with pytest.raises(ConfideError) as error:
        tuning.with_total(Fraction(2), list(tuning.budgets))
    assert error.value.findings[0].code == "nothing-follows"


def test_weights_of_a_level_that_a_table_does_not_have_are_a_finding(tmp_path: Path) -> None:
    text = SPEC.read_text(encoding="utf-8").replace(
        'name = "work-by-sex"', 'name = "work-by-sex"\nlevel_weights = { block = 2 }'
    )
    (tmp_path / "spec.toml").write_text(text)
    with pytest.raises(ConfideError) as error:
        api.load(tmp_path / "spec.toml")
    assert [finding.code for finding in error.value.findings] == ["unknown-level"]


@pytest.mark.parametrize("rho", ["1/100", "1/10", "1/2", "2"])
def test_a_belief_rises_no_further_than_the_bound(rho: str) -> None:
    """Against the exact posterior of a discrete Gaussian count; for small priors the bound is next to tight."""
    exact = Fraction(rho)
    evidence = evidence_of(DiscreteGaussian(1 / (2 * exact)))
    priors = ["1e-9", "0.01", "0.1", "0.5", "0.9"]
    expected = marginal_risk(evidence, priors).posterior
    bounds = np.array([expected_posterior(ZCDP(exact), prior) for prior in priors])
    assert (expected <= bounds * (1 + 1e-9)).all()
    assert expected[0] > 0.9 * bounds[0] or exact >= 2, "and not further from it than it must be"


@pytest.mark.parametrize("cells", [2, 10, 1000])
@pytest.mark.parametrize("sigma", [1.5, 3.0])
def test_no_guess_of_a_record_is_right_more_often_than_the_bound(cells: int, sigma: float) -> None:
    """Against the best guess where Gaussian noise is in every cell that the record could be in: the largest count."""
    places = np.linspace(-8 * sigma, 1 + 8 * sigma, 20_001)
    density = norm.pdf(places, 1, sigma) * norm.cdf(places, 0, sigma) ** (cells - 1)
    right = float(np.trapezoid(density, places))
    figures = protection(ZCDP(Fraction(1 / sigma**2)), Neighbours.CHANGE_ONE, prior=Fraction(1, cells))
    assert 1 / cells < right <= figures.reconstruction
    assert figures.reconstruction < 12 * right, "and not further from it than it must be"
    assert figures.as_dict()["reconstruction"] == figures.reconstruction


def test_protection_says_what_a_loss_means() -> None:
    figures = protection(PureDP(1), Neighbours.ADD_REMOVE, prior="1/2")
    assert figures.posterior == pytest.approx(np.e / (1 + np.e))
    assert figures.power == pytest.approx(0.05 * np.e)
    assert figures.as_dict()["delta"] is None
    assert len(figures.yardsticks) >= 4
