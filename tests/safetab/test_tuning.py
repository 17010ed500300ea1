"""Tuning: the published figures, found from the laws and the accountant, and what they rest on."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.mechanisms.safetab.tallies import margin_of_sum
from confide.mechanisms.safetab.tuning import (
    BudgetRule,
    LevelQuestion,
    TuningQuestion,
    production_settings,
    production_tuning,
    question_of,
    tune,
    tune_safetab,
)
from confide.mechanisms.safetab.tuning.answer import TABLES, size_for, suppression_threshold
from confide.mechanisms.safetab.tuning.question import (
    floor_margin,
    formula_budget,
    law_of,
    level_event,
    margin_of,
    smallest_budget,
)
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.privacy import Definition, Neighbours, price

SHARE = Fraction(9, 10)
OFFICIAL = Path(__file__).resolve().parents[3] / "shared/data/safetab/safetab_p_production_spec/config.json"


def released(budget: str, definition: Definition = Definition.ZCDP) -> NoiseDistribution:
    return law_of(definition, 9, SHARE * Fraction(budget))


@pytest.mark.parametrize(("rho", "threshold"), [("0.008", 93), ("0.159", 21), ("0.543", 11), ("2.134", 6)])
def test_thresholds_of_table_6(rho: str, threshold: int) -> None:
    assert suppression_threshold(released(rho), Fraction("0.9999")) == threshold


@pytest.mark.parametrize(("epsilon", "threshold"), [("0.54", 158), ("2.43", 35), ("5.4", 16)])
def test_thresholds_under_pure_differential_privacy(epsilon: str, threshold: int) -> None:
    assert suppression_threshold(released(epsilon, Definition.PURE), Fraction("0.9999")) == threshold


def test_threshold_at_the_median_and_without_suppression() -> None:
    assert suppression_threshold(released("0.159"), Fraction(1, 2)) == 0
    assert suppression_threshold(released("0.159"), Fraction(0)) is None


@pytest.mark.parametrize(
    ("rho", "target", "exact", "floor"), [("2.134", 3, 3, 3), ("0.159", 11, 11, 10), ("0.008", 50, 49, 49)]
)
def test_margins_of_table_7(rho: str, target: int, exact: int, floor: int) -> None:
    law = released(rho)
    assert (margin_of(law), floor_margin(law)) == (exact, floor)
    assert law.folded_cdf_bounds(target)[0] >= Fraction(95, 100)
    assert round(formula_budget(target, 9, SHARE), 3) == Fraction(rho)


def test_the_floor_formula_is_not_always_a_margin() -> None:
    assert released("0.159").folded_cdf_bounds(10)[1] < Fraction(94, 100)


def test_corollary_2() -> None:
    """With 1.92/MOE² and with 1.96²/(2 MOE²) the noise is within MOE in at least 95 of 100 cases."""
    for target in (*range(1, 60), 100, 333, 1000):
        assert margin_of(DiscreteGaussian(1 / (2 * formula_budget(target, 1, Fraction(1))))) <= target
        assert margin_of(DiscreteGaussian(Fraction(target**2) / (2 * Fraction("1.92")))) <= target


def test_totals_come_from_the_accountant() -> None:
    answer = tune(production_tuning(puerto_rico=True))
    assert [str(loss.amount) for loss in answer.totals_of("US").values()] == ["618/125", "1236/125"]
    assert [str(loss.amount) for loss in answer.totals_of("PR").values()] == ["2643/1000", "2643/500"]
    assert answer.totals() == answer.totals_of("US")  # nobody is in both
    plain = answer.as_dict()["totals"]
    assert (plain["rho_unbounded"], plain["rho_bounded"]) == (4.944, 9.888)
    # Bun and Steinke's formula by hand: rho + 2 sqrt(rho ln(1/delta))
    by_hand = 4.944 + 2 * (4.944 * np.log(1e10)) ** 0.5
    assert plain["epsilon_unbounded_by"]["bun_steinke"] == pytest.approx(by_hand, rel=1e-12)
    assert plain["epsilon_unbounded"] < by_hand


def test_the_cost_is_that_of_the_noise_not_of_the_budget() -> None:
    """If a person were in ten groups but noise was made for nine, the level would cost ten ninths."""
    (level,) = tune(TuningQuestion(Definition.ZCDP, (LevelQuestion("STATE", 2, Fraction(9)),))).levels
    wrong = level_event(10, level.stage_1, level.stage_2, level.total_only)
    for event, cost in ((level.event, 9), (wrong, 10)):
        assert price(event, Neighbours.ADD_REMOVE, Definition.ZCDP).as_dict()["rho"] == str(cost)


def test_total_only_groups_cost_what_the_others_do() -> None:
    (level,) = tune(TuningQuestion(Definition.PURE, (LevelQuestion("USA", 1, Fraction(2)),), stability=4)).levels
    assert level.total_only == TwoSidedGeometric("1/2")
    wide = level_event(4, level.stage_1, level.stage_2, TwoSidedGeometric("1/1000"))
    narrow = level_event(4, level.stage_1, level.stage_2, TwoSidedGeometric("1"))
    costs = [price(e, Neighbours.ADD_REMOVE, Definition.PURE).as_dict()["epsilon"] for e in (level.event, wide, narrow)]
    assert costs == ["2", "2", "4"]


def test_targets_give_the_budgets_of_table_7_and_back() -> None:
    answer = tune(production_tuning(by="target"))
    assert [level.budget for level in answer.levels] == [level.budget for level in tune(production_tuning()).levels]
    assert all(level.target_holds for level in answer.levels)
    assert answer.totals()["unbounded"].amount == Fraction("4.944")


@given(
    target=st.integers(1, 80),
    stability=st.integers(1, 12),
    definition=st.sampled_from([Definition.ZCDP, Definition.PURE]),
)
def test_the_smallest_budget_is_the_smallest(target: int, stability: int, definition: Definition) -> None:
    budget = smallest_budget(definition, target, stability, SHARE, 3)
    assert margin_of(law_of(definition, stability, SHARE * budget)) <= target
    less = budget - Fraction(1, 1000)
    assert not less or margin_of(law_of(definition, stability, SHARE * less)) > target


def test_rule_smallest_spends_less_than_the_formula_for_small_margins() -> None:
    asked = replace(production_tuning(by="target"), rule=BudgetRule.smallest)
    budgets = {level.level_question.target: level.budget for level in tune(asked).levels}
    assert budgets == {3: Fraction("1.529"), 11: Fraction("0.145"), 50: Fraction("0.008")}


@pytest.mark.parametrize(("codes", "stability"), [(1, 3), (2, 3), (3, 4), (8, 9)])
def test_race_codes(codes: int, stability: int) -> None:
    asked = replace(production_tuning(), max_race_codes=codes)
    assert asked.groups_per_person == stability
    assert replace(asked, stability=5).groups_per_person == 5
    assert tune(asked).totals()["unbounded"].amount == Fraction("4.944")  # the noise changes, not the cost


def test_three_race_codes_cut_the_margin_by_a_third() -> None:
    """As section 6.3.1 of the paper says."""
    eight, three = (law_of(Definition.ZCDP, s, Fraction("0.0072")).variance() for s in (9, 4))
    assert (three / eight) ** 0.5 == pytest.approx(2 / 3, rel=1e-6)


def test_sizes_at_a_relative_error() -> None:
    (level,) = tune(TuningQuestion(Definition.ZCDP, (LevelQuestion("TRACT", 2, Fraction("0.159")),))).levels
    assert {name: size["cell"] for name, size in level.sizes().items()} == {
        name: 11 * cells * 20 for name, cells in TABLES.items()
    }
    assert TABLES == {"T01001": 1, "T02001": 8, "T02002": 18, "T02003": 46}
    assert size_for(10, 3, Fraction(7, 100)) == 429  # 30 / 0.07 = 428.6


@pytest.mark.parametrize("law", [DiscreteGaussian("2.343"), DiscreteGaussian("31.4"), TwoSidedGeometric("0.2")])
@pytest.mark.parametrize("cells", [2, 8])
def test_margin_of_a_sum(law: NoiseDistribution, cells: int) -> None:
    one = np.array([law.pmf(x) for x in range(-250, 251)])
    total = np.ones(1)
    for _ in range(cells):
        total = np.convolve(total, one)
    middle = len(total) // 2
    within = [total[middle - m : middle + m + 1].sum() for m in range(200)]
    assert margin_of_sum(law, cells, Fraction(19, 20)) == next(m for m, share in enumerate(within) if share >= 0.95)


def test_margin_of_a_wide_sum() -> None:
    assert margin_of_sum(DiscreteGaussian(10**8), 9, Fraction(19, 20)) == pytest.approx(1.96 * 3 * 10**4, rel=2e-3)


def test_which_table_a_group_gets() -> None:
    level = tune(production_tuning()).levels[1]
    assert level.level_question.name == "USA-2"
    found = level.group_of(971)["table_probability"]
    assert sum(found.values()) == pytest.approx(1)
    # A noisy total equal to a threshold reaches it, so the upper side has the probability of a zero more.
    zero = level.stage_1.pmf(0)
    assert found["T02002"] == pytest.approx((1 + zero) / 2, rel=1e-12)
    assert level.group_of(0)["table_probability"]["T01001"] == pytest.approx(1)


def test_more_budget_never_makes_anything_worse() -> None:
    asked = TuningQuestion(Definition.ZCDP, tuple(LevelQuestion("TRACT", 2, Fraction(rho, 1000)) for rho in (8,)))
    levels = [
        tune(replace(asked, levels=(LevelQuestion("TRACT", 2, Fraction(rho, 1000)),))).levels[0]
        for rho in (8, 50, 159, 543, 2134)
    ]
    for less, more in pairwise(levels):
        assert more.margin <= less.margin
        assert (more.threshold or 0) <= (less.threshold or 0)
        assert more.group_of(20)["bias_if_released"] <= less.group_of(20)["bias_if_released"]


def question(**changes: object) -> TuningQuestion:
    return replace(production_tuning(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"stage_1_fraction": Fraction(0)}, "gamma-out-of-range"),
        ({"stage_1_fraction": Fraction(1)}, "gamma-out-of-range"),
        ({"max_race_codes": 9}, "race-codes-out-of-range"),
        ({"stability": 0}, "stability-out-of-range"),
        ({"zero_suppression": Fraction(1)}, "suppression-out-of-range"),
        ({"relative_error": Fraction(0)}, "relative-error-out-of-range"),
        ({"delta": Fraction(0)}, "delta-out-of-range"),
        ({"sizes": (-1,)}, "size-out-of-range"),
        ({"decimals": 10}, "decimals-out-of-range"),
        ({"definition": Definition.APPROXIMATE}, "definition-out-of-range"),
        ({"levels": ()}, "no-levels"),
        ({"levels": (LevelQuestion("STAAT", 2, Fraction(1)),)}, "unknown-region-type"),
        ({"levels": (LevelQuestion("STATE", 0, Fraction(1)),)}, "unknown-iteration-level"),
        ({"levels": (LevelQuestion("STATE", 2),)}, "neither-budget-nor-target"),
        ({"levels": (LevelQuestion("STATE", 2, Fraction(-1)),)}, "budget-out-of-range"),
        ({"levels": (LevelQuestion("STATE", 2, None, 0),)}, "target-out-of-range"),
        ({"levels": (LevelQuestion("STATE", 2, Fraction(1)), LevelQuestion("STATE", 2, None, 3))}, "level-twice"),
    ],
)
def test_bad_questions(changes: dict[str, object], code: str) -> None:
    with pytest.raises(ParameterError) as caught:
        question(**changes)
    (finding,) = caught.value.findings
    assert finding.code == code
    assert finding.expected
    assert finding.remedy


def test_all_findings_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        question(stage_1_fraction=Fraction(2), max_race_codes=0, delta=Fraction(2))
    assert len(caught.value.findings) == 3


def test_a_budget_that_rounds_to_nothing() -> None:
    asked = question(levels=(LevelQuestion("STATE", 1, None, 500),))
    with pytest.raises(ParameterError, match="rounds to nothing"):
        tune(asked)
    assert tune(replace(asked, decimals=6)).levels[0].budget == Fraction("0.000077")


def test_settings_of_a_release_ask_the_same() -> None:
    asked = question_of(production_settings())
    assert [level.name for level in asked.levels] == [
        level.name for level in production_tuning(puerto_rico=True).levels
    ]
    assert tune(asked).totals()["bounded"].amount == Fraction("9.888")


@pytest.mark.shared
@pytest.mark.skipif(not OFFICIAL.exists(), reason="../shared/data/safetab is not there")
def test_production_settings_are_those_of_the_official_configuration() -> None:
    official = json.loads(OFFICIAL.read_text(), parse_float=Fraction)
    settings = production_settings()
    assert settings.stage_1_fraction == official["privacy_budget_p_stage_1_fraction"]
    assert settings.zero_suppression == official["zero_suppression_chance"]
    assert settings.max_race_codes == official["max_race_codes"]
    assert settings.negative_counts is official["allow_negative_counts"]
    assert list(settings.states) == official["state_filter_us"]
    ours = {(level.region_type, level.iteration_level): level for level in settings.levels}
    for key, thresholds in official["thresholds_p"].items():
        region_type, number = key.strip("()").split(", ")
        region = region_type.lower().replace("-", "_")
        budget = official[f"privacy_budget_p_level_{number}_{region}"]
        level = ours.pop((region_type, int(number)), None)
        assert budget == (0 if level is None else level.budget), key
        assert level is None or list(level.thresholds) == thresholds
    assert not ours


def test_totals_of_tables_have_margins_of_their_own() -> None:
    """A target of 50 for counts is far more for the totals of groups that earn a table."""
    level = tune_safetab(targets={("COUNTY", 2): 50}).release.levels[0]
    assert level.margin == 49
    assert level.total_margins == {"T01001": 49, "T02001": 139, "T02002": 208, "T02003": 332}
    assert level.as_dict()["moe_of_totals"] == level.total_margins


def test_published_totals_mean_what_they_mean_given_that_they_were_published() -> None:
    small, large = tune_safetab(budgets={("COUNTY", 2): "0.159", ("STATE", 2): "0.159"}).release.levels
    assert small.as_dict()["published_totals"][0] == {"figure": 22, "low": 0, "high": 30}
    assert [row["figure"] for row in small.as_dict()["published_totals"]] == small.shown_figures
    last = small.shown_figures[-1]
    assert small.interval_of(last) == (last - 11, last + 11)
    assert large.as_dict()["published_totals"] == []
    assert large.interval_of(22) == (11, 33)
