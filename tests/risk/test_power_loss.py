"""The best test against discrete Gaussian noise, compared with tests that are made by hand."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from confide.errors import ParameterError
from confide.lab.risk.testing import LossTest, gaussian_power, zcdp_power
from confide.privacy import Measurement, Neighbours, NoisyCells, Parallel, Sequential, delta_bracket

LEVELS = ("1e-6", "0.01", "0.05", "0.1", "0.5", "0.9")


def neyman_pearson(cells: list[float], level: float, reach: int = 40) -> float:
    """The power of the best test: outcomes in the order of their likelihood ratios, the last one with a coin."""
    laws = []
    for sigma2 in cells:
        ks = range(-reach, reach + 1)
        total = math.fsum(math.exp(-k * k / (2 * sigma2)) for k in ks)
        laws.append(
            [(math.exp(-k * k / (2 * sigma2)) / total, math.exp(-((k - 1) ** 2) / (2 * sigma2)) / total) for k in ks]
        )
    outcomes = [
        (math.prod(cell[0] for cell in each), math.prod(cell[1] for cell in each)) for each in itertools.product(*laws)
    ]
    outcomes = [pair for pair in outcomes if pair[0] > 0]
    outcomes.sort(key=lambda pair: pair[1] / pair[0], reverse=True)
    left, power = level, 0.0
    for null, other in outcomes:
        share = min(1.0, left / null)
        left -= share * null
        power += share * other
        if share < 1:
            break
    return power


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "cells",
    [
        [NoisyCells("1/2", 1)],
        [NoisyCells("5.04", 1)],
        [NoisyCells("3", 2)],
        [NoisyCells("2", 1), NoisyCells("7/3", 1)],
        [NoisyCells("1/3", 1), NoisyCells("40", 1)],
    ],
)
def test_against_tests_made_by_hand(cells: list[NoisyCells], level: str) -> None:
    sigmas = [float(part.sigma2) for part in cells for _ in range(part.cells)]
    true = neyman_pearson(sigmas, float(level))
    bracket = LossTest(cells).power(level)
    assert bracket.optimistic - 1e-12 <= true <= bracket.pessimistic + 1e-12
    assert bracket.pessimistic - bracket.optimistic < (1e-10 if len(cells) == 1 else 5e-5)


def test_three_unlike_cells() -> None:
    cells = [NoisyCells("1", 1), NoisyCells("2", 1), NoisyCells("3", 1)]
    true = neyman_pearson([1, 2, 3], 0.05, reach=12)
    bracket = LossTest(cells).power("0.05")
    assert bracket.optimistic - 1e-9 <= true <= bracket.pessimistic + 1e-9


def test_finer_grids_give_narrower_brackets_within_each_other() -> None:
    cells = [NoisyCells("1", 1), NoisyCells("2.7", 3), NoisyCells("31", 2)]
    brackets = [LossTest(cells, interval).power("0.05") for interval in ("1e-2", "1e-3", "1e-4")]
    for wide, narrow in itertools.pairwise(brackets):
        assert wide.optimistic <= narrow.pessimistic
        assert narrow.optimistic <= wide.pessimistic
        assert narrow.pessimistic - narrow.optimistic < 0.2 * (wide.pessimistic - wide.optimistic)


@pytest.mark.parametrize("level", ["0.01", "0.05", "0.1"])
def test_many_small_measurements_come_close_to_gaussian_noise(level: str) -> None:
    best = LossTest([NoisyCells("78.125", 2, 200)])
    assert best.rho == Fraction("2.56")
    assert best.power(level).pessimistic == pytest.approx(gaussian_power("2.56", level), abs=3e-6)
    assert best.power(level).pessimistic < zcdp_power("2.56", level)


def test_few_discrete_measurements_do_not() -> None:
    """One count with sigma2 = 1/2 has rho = 1; at some levels it allows more than Gaussian noise, at others less."""
    best = LossTest([NoisyCells("1/2", 1)])
    differences = [best.power(level).optimistic - gaussian_power("1", level) for level in ("0.02", "0.05", "0.2")]
    assert max(abs(each) for each in differences) > 0.01
    for level in LEVELS:
        assert best.power(level).pessimistic <= zcdp_power("1", level)


def test_the_advantage_is_delta_at_zero() -> None:
    for cells in ([NoisyCells("5.04", 1)], [NoisyCells("2", 1), NoisyCells("7/3", 1)]):
        ends, deltas = LossTest(cells).advantage, delta_bracket(cells, 0)
        assert ends.optimistic <= deltas.pessimistic
        assert deltas.optimistic <= ends.pessimistic
        assert ends.pessimistic - ends.optimistic < 5e-5


def test_ends_and_nothing() -> None:
    best = LossTest([NoisyCells("1/100", 1)])
    assert best.power(0).pessimistic == 0
    assert best.power(1).optimistic == 1
    assert best.power("0.05").optimistic > 0.999  # rho = 50
    assert LossTest([]).power("0.05").pessimistic == pytest.approx(0.05)
    assert LossTest([]).advantage.pessimistic == 0


def test_events() -> None:
    event = Sequential([Measurement.discrete_gaussian("8"), Parallel([Measurement.discrete_gaussian("8")])])
    changed = LossTest.of_event(event, Neighbours.CHANGE_ONE)
    added = LossTest.of_event(event, Neighbours.ADD_REMOVE)
    assert (changed.rho, added.rho) == (Fraction(1, 4), Fraction(1, 8))
    assert changed.power("0.05").optimistic > added.power("0.05").pessimistic
    with pytest.raises(ParameterError, match="discrete Gaussian"):
        LossTest.of_event(Measurement.geometric("1/2"), Neighbours.CHANGE_ONE)
