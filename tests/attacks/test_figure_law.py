"""What a figure says of its count: each law against its exact probabilities."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
import pytest

from confide.lab.published.marginals import IMPOSSIBLE, AdditiveLaw, LikelihoodTable, PTableLaw, SpreadLaw
from confide.noise import DiscreteGaussian, TruncatedGaussian, TruncatedGeometric, TwoSidedGeometric
from confide.noise.ptables import count_settings, generate

COUNTS = np.arange(0, 12)


@pytest.mark.parametrize(
    "noise",
    [DiscreteGaussian("9.375"), TwoSidedGeometric("1/2"), TruncatedGaussian(2, 4), TruncatedGeometric("0.7", 3)],
)
@pytest.mark.parametrize("figure", [-2, 0, 5])
def test_noise_that_is_added(noise, figure: int) -> None:
    found = AdditiveLaw(noise).log_likelihood(figure, COUNTS)
    exact = np.array([noise.pmf(figure - int(count)) for count in COUNTS])
    assert ((found == -np.inf) == (exact == 0)).all()
    there = exact > 0
    if there.any():
        assert found[there] - found[there][0] == pytest.approx(np.log(exact[there] / exact[there][0]), abs=1e-9)


@pytest.mark.parametrize("noise", [DiscreteGaussian(4), TwoSidedGeometric("1/3")])
def test_a_figure_that_was_put_to_zero_is_a_tail(noise) -> None:
    found = AdditiveLaw(noise, floored=True).log_likelihood(0, COUNTS)
    exact = np.array([noise.cdf(-int(count)) for count in COUNTS])
    assert found - found[0] == pytest.approx(np.log(exact / exact[0]), abs=1e-6)
    other = AdditiveLaw(noise).log_likelihood(3, COUNTS)
    assert AdditiveLaw(noise, floored=True).log_likelihood(3, COUNTS).tolist() == other.tolist()


def test_a_perturbation_table_has_a_row_for_each_count() -> None:
    table = generate(count_settings(3, 1)).table()
    for figure in range(7):
        found = PTableLaw(table).log_likelihood(figure, COUNTS)
        for count, value in zip(COUNTS.tolist(), found.tolist(), strict=True):
            p = table.probabilities(min(count, table.top)).get(Fraction(figure - count), Fraction(0))
            assert value == (pytest.approx(log(float(p))) if p else -np.inf)
    assert PTableLaw(table).log_likelihood(2, np.array([0]))[0] == -np.inf  # nobody stays nobody


def test_a_table_of_a_likelihood_falls_beyond_its_ends_and_where_nothing_can_be() -> None:
    table = LikelihoodTable.of(SpreadLaw(2.0, 2, zeros_kept=True), 2.0, 2.0, 2)
    assert table.low == 0
    assert table.values[0] < table.values[1:5].min() - IMPOSSIBLE / 2
    assert table.values[1:5].tolist() == [-0.25, 0.0, -0.25, -1.0]
    assert (np.diff(table.values[4:]) < -IMPOSSIBLE / 2).all()
    assert min(table.slopes) > 0
    wide = LikelihoodTable.of(SpreadLaw(1e12), 5.0, 1e12)
    assert len(wide.values) < 5_000
