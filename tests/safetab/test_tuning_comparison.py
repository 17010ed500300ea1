"""Gaussian against geometric noise: the loss distribution of the geometric, and the figures of the documentation."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, exp, expm1

import pytest

from confide.errors import ParameterError
from confide.mechanisms.safetab.tuning import (
    LevelQuestion,
    TuningQuestion,
    compare_noise_costs,
    production_tuning,
    tune,
)
from confide.mechanisms.safetab.tuning.safetab_tuning import geometric_bracket
from confide.noise import TwoSidedGeometric
from confide.privacy import Definition, cks_epsilon


def exact_delta(cells: dict[Fraction, int], epsilon: float) -> float:
    """E[(1 − exp(ε − L))₊], every combination of binomials one by one."""
    delta = 0.0
    for wins in product(*(range(number + 1) for number in cells.values())):
        loss, chance = 0.0, 1.0
        for (parameter, number), k in zip(cells.items(), wins, strict=True):
            yes = 1 / (1 + exp(-float(parameter)))
            loss += float(parameter) * (2 * k - number)
            chance *= comb(number, k) * yes**k * (1 - yes) ** (number - k)
        if loss > epsilon:
            delta += chance * -expm1(epsilon - loss)
    return delta


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-10"])
@pytest.mark.parametrize(
    "cells", [{Fraction(1, 2): 9}, {Fraction(92, 100): 18, Fraction(1, 10): 18}, {Fraction(3): 2, Fraction(1, 7): 5}]
)
def test_the_bracket_holds_the_exact_epsilon(cells: dict[Fraction, int], delta: str) -> None:
    bracket = geometric_bracket(cells, Fraction(delta))
    assert exact_delta(cells, bracket.pessimistic) <= float(delta) * (1 + 1e-9)
    assert exact_delta(cells, bracket.optimistic - 1e-6) > float(delta)
    assert 0 <= bracket.pessimistic - bracket.optimistic < 1e-3
    largest = float(sum(parameter * number for parameter, number in cells.items()))
    assert bracket.pessimistic <= largest * (1 + 1e-12)


def test_one_cell_is_a_randomised_response() -> None:
    """The loss of a shift by one has two values, each with the probability that the law gives to one side."""
    law, losses = TwoSidedGeometric("0.7"), Counter[float]()
    for x in range(-60, 61):
        losses[round(0.7 * (abs(x - 1) - abs(x)), 9)] += law.pmf(x)
    assert losses[0.7] == pytest.approx(1 / (1 + exp(-0.7)), rel=1e-12)
    assert losses[-0.7] == pytest.approx(1 - losses[0.7], rel=1e-9)


def test_production_at_equal_margins() -> None:
    """The figures of docs/concepts/safetab-tuning.md at delta = 1e-10."""
    rows = {(row.stage_1, row.accounting): row for row in compare_noise_costs(tune(production_tuning()))}
    converted = rows["share", "converted"]
    assert converted.gaussian == cks_epsilon("4.944", "1e-10")
    assert converted.geometric == pytest.approx(29.994, abs=1e-3)
    found = {key: round(100 * row.saving, 1) for key, row in rows.items()}
    assert found == {
        ("share", "converted"): 15.4,
        ("share", "zcdp"): 23.3,
        ("share", "distribution"): -1.7,
        ("margin", "converted"): 31.0,
        ("margin", "zcdp"): 28.7,
        ("margin", "distribution"): 11.0,
    }
    for row in rows.values():
        tightest = rows[row.stage_1, "distribution"]
        assert tightest.gaussian <= row.gaussian
        assert tightest.geometric <= row.geometric


def test_both_stages_count_when_they_are_alike() -> None:
    """With half the budget for either stage, eighteen cells have the same noise."""
    level = LevelQuestion("TRACT", 2, Fraction("0.159"))
    rows = compare_noise_costs(tune(TuningQuestion(Definition.ZCDP, (level,), stage_1_fraction=Fraction(1, 2))))
    added_up, tightest = rows[0].geometric, rows[2].geometric
    assert tightest == pytest.approx(
        geometric_bracket({Fraction(added_up) / 18: 18}, Fraction(1, 10**10)).pessimistic, abs=2e-3
    )


def test_pure_has_nothing_to_compare() -> None:
    answer = tune(TuningQuestion(Definition.PURE, (LevelQuestion("STATE", 2, Fraction(1)),)))
    with pytest.raises(ParameterError, match="begins with discrete Gaussian"):
        compare_noise_costs(answer)
