"""Intervals for counts with bounds: published values, an independent computation, and coverage that fails both ways."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from confide.errors import ParameterError
from confide.estimation.unified_intervals import (
    KNOT,
    LatticeIntervals,
    accepted,
    count_intervals,
    mixed_margin,
    unified_intervals,
)
from confide.noise import DiscreteGaussian, TwoSidedGeometric

PUBLISHED = {-3.0: (0.0, 0.26), -1.0: (0.0, 0.81), 0.0: (0.0, 1.64), 1.0: (0.0, 2.64), 1.3: (0.02, 2.94)} | {
    1.5: (0.22, 3.14),
    2.0: (0.58, 3.64),
    3.0: (1.37, 4.64),
}
"""Feldman and Cousins (1998), the table for a Gaussian with a boundary at the origin, 90 %."""


def _by_brute_force(x: float, top: float, level: float) -> tuple[float, float]:
    """Acceptance regions by adding up a density on a grid in the order of the ratio: no formula is shared."""
    step = 0.004
    grid = np.arange(-9, min(top, 12) + 9, step)
    best = np.clip(grid, 0, top)
    taken = []
    for mu in np.arange(0, min(top, 9) + 1e-9, 0.02):
        ratio = norm.logpdf(grid - mu) - norm.logpdf(grid - best)
        order = np.argsort(-ratio, kind="stable")
        chosen = order[: np.searchsorted(np.cumsum(norm.pdf(grid[order] - mu) * step), level) + 1]
        if grid[chosen].min() - step <= x <= grid[chosen].max() + step:
            taken.append(mu)
    return min(taken), max(taken)


@pytest.mark.parametrize("x", PUBLISHED)
def test_the_published_table(x: float) -> None:
    ends = unified_intervals(x, 1.0, 0.9)
    # The publication cuts off after two digits.
    assert ends.low == pytest.approx(PUBLISHED[x][0], abs=0.006)
    assert ends.high == pytest.approx(PUBLISHED[x][1], abs=0.006)


@pytest.mark.parametrize(
    ("x", "top", "level"),
    [
        (-2.5, np.inf, 0.9),
        (0.7, np.inf, 0.68),
        (2.2, np.inf, 0.95),
        (-1.0, 1.5, 0.9),
        (1.2, 2.0, 0.9),
        (4.0, 5.0, 0.95),
        (7.5, 6.0, 0.9),
        (0.4, 0.6, 0.5),
        (5.1, 6.5, 0.9),
    ],
)
def test_an_independent_computation(x: float, top: float, level: float) -> None:
    ends = unified_intervals(x, 1.0, level, most=top)
    assert (ends.low, ends.high) == pytest.approx(_by_brute_force(x, top, level), abs=0.03)


@settings(max_examples=60, deadline=None)
@given(
    x=st.floats(-60, 60),
    sd=st.floats(0.05, 30),
    level=st.sampled_from([0.5, 0.9, 0.95, 0.99]),
    most=st.one_of(st.just(np.inf), st.integers(0, 60)),
)
def test_whole_ends_are_those_that_the_test_accepts(x: float, sd: float, level: float, most: float) -> None:
    ends = count_intervals(x, sd, level, most=most)
    counts = np.arange(0, min(most, 300) + 1)
    at, top = np.full(len(counts), x / sd), np.full(len(counts), most / sd)
    taken = counts[accepted(at, counts / sd, top, level)]
    expected = (taken.min(), taken.max()) if len(taken) else (np.clip(np.rint(x), 0, most),) * 2
    assert (int(ends.low), int(ends.high)) == expected
    assert 0 <= ends.low <= ends.high <= most


def test_ends_lie_between_knots_within_the_stated_error() -> None:
    x = np.linspace(-45, 6, 4001)
    ends = unified_intervals(x, 1.0, 0.9)
    inside, outside = (accepted(x, ends.high + way * KNOT / 4, np.full_like(x, np.inf), 0.9) for way in (-1, 1))
    assert inside.all()
    assert not outside.any()


def test_mirrored_and_shifted_bounds_say_the_same() -> None:
    x = np.linspace(-20, 40, 301)
    plain = count_intervals(x, 3.0, 0.9)
    shifted = count_intervals(x + 7, 3.0, 0.9, least=7)
    mirrored = count_intervals(-x, 3.0, 0.9, least=-np.inf, most=0)
    assert (shifted.low == plain.low + 7).all()
    assert (shifted.high == plain.high + 7).all()
    assert (mirrored.low == -plain.high).all()
    assert (mirrored.high == -plain.low).all()


def test_without_bounds_it_is_the_plain_interval_and_what_is_known_is_exact() -> None:
    ends = count_intervals([-3.2, 7.0], 2.0, 0.9, least=-np.inf)
    assert ends.low.tolist() == [-6, 4]
    assert ends.high.tolist() == [0, 10]
    known = count_intervals([5.0, 0.0], 0.0, 0.9)
    assert known.low.tolist() == known.high.tolist() == [5, 0]
    assert count_intervals(3.4, 2.0, 0.9, least=4, most=4).low == 4


@pytest.mark.statistical
@pytest.mark.parametrize("level", [0.9, 0.95])
@pytest.mark.parametrize("sd", [0.6, 1.4, 4.3, 31.0])
def test_coverage_by_true_count(level: float, sd: float) -> None:
    """60,000 draws for each class: four standard errors are 0.5 points; a false alarm once in 16,000 classes."""
    rng = np.random.default_rng(11)
    for low, high in ((0, 0), (1, 4), (5, 19), (20, 99), (100, 999)):
        truth = rng.integers(low, high + 1, 60_000)
        ends = count_intervals(truth + sd * rng.standard_normal(len(truth)), sd, level)
        assert (ends.low <= ends.high).all()
        assert ends.covers(truth).mean() == pytest.approx(level, abs=0.005)


@pytest.mark.statistical
@pytest.mark.parametrize("most", [3, 12, 60])
def test_coverage_with_a_known_total(most: int) -> None:
    """As above, at every true count from 0 to the total."""
    rng = np.random.default_rng(12)
    truth = np.repeat(np.arange(most + 1), 130_000 // (most + 1))
    ends = count_intervals(truth + 5 * rng.standard_normal(len(truth)), 5.0, 0.9, most=most)
    covered = ends.covers(truth).reshape(most + 1, -1).mean(axis=1)
    size = len(truth) // (most + 1)
    assert covered == pytest.approx(np.full(most + 1, 0.9), abs=4.5 * 0.3 / size**0.5)


def _lattice_coverage(law: DiscreteGaussian, of: LatticeIntervals, truths: Sequence[int]) -> list[float]:
    errors = np.arange(-60, 61)
    chance = np.array([law.pmf(int(k)) for k in errors])
    return [float(chance[of.of(truth + errors).covers(truth)].sum()) for truth in truths]


@pytest.mark.parametrize("most", [None, 2, 7, 30])
@pytest.mark.parametrize("sigma2", ["0.5", "1.21", "3.07", "10.09"])
def test_a_single_measurement_is_covered_exactly(sigma2: str, most: int | None) -> None:
    law = DiscreteGaussian(sigma2)
    of = LatticeIntervals(law, "0.9", most=most)
    everything = of.of(np.arange(-200, 200))
    assert (everything.low <= everything.high).all()
    assert everything.low.min() == 0
    if most is not None:
        assert everything.high.max() == most
    largest = law.pmf(0)
    for covered in _lattice_coverage(law, of, range(most + 1 if most is not None else 25)):
        # Not below the level, and above it by no more than one more pair of values would bring.
        assert 0.9 - 1e-12 <= covered <= 0.9 + 2 * largest


def test_the_lattice_needs_more_than_z() -> None:
    # A rounded normal interval would cover .8425 at this variance.
    of = LatticeIntervals(DiscreteGaussian("1.21"), "0.9")
    assert of.margin == 2
    mass = np.exp(-(np.arange(-40, 41) ** 2) / 2.42)
    assert of.coverage() == pytest.approx(mass[38:43].sum() / mass.sum(), abs=1e-12)
    assert _lattice_coverage(DiscreteGaussian("1.21"), of, [20]) == pytest.approx([of.coverage()])
    naive = DiscreteGaussian("1.21")
    assert 1 - 2 * naive.tail(1) == pytest.approx(0.8425, abs=1e-4)


def test_other_lattice_noise_and_a_far_measurement() -> None:
    of = LatticeIntervals(TwoSidedGeometric("0.7"), Fraction(9, 10))
    ends = of.of([-1000, 0, 1000])
    assert (ends.low[0], ends.high[0]) == (0, int(of.of(-50).high))
    assert (ends.low[2], ends.high[2]) == (1000 - of.margin, 1000 + of.margin)


@pytest.mark.statistical
def test_a_measurement_with_a_normal_rest() -> None:
    """One million draws: four standard errors are 0.12 points."""
    law = DiscreteGaussian("1.21")
    rng = np.random.default_rng(5)
    values = np.arange(-12, 13)
    noise = rng.choice(values, 1_000_000, p=np.array([law.pmf(int(k)) for k in values]) / 1.0)
    error = 0.85 * noise + 0.2 * rng.standard_normal(len(noise))
    margin = mixed_margin(law, 0.85, 0.04, 0.9)
    assert (np.abs(error) <= margin).mean() == pytest.approx(0.9, abs=0.0012)
    z = norm.ppf(0.95) * np.sqrt(0.85**2 * law.variance() + 0.04)
    assert abs((np.abs(error) <= z).mean() - 0.9) > 0.003


@pytest.mark.parametrize(
    ("estimate", "sd", "level", "bounds"),
    [
        (np.nan, 1.0, 0.9, {}),
        (1.0, -1.0, 0.9, {}),
        (1.0, 1.0, 1.0, {}),
        (1.0, 1.0, 0.9, {"least": 3, "most": 2}),
        (1e17, 1.0, 0.9, {}),
    ],
)
def test_what_makes_no_sense_is_refused(estimate: float, sd: float, level: float, bounds: dict[str, float]) -> None:
    with pytest.raises(ParameterError) as error:
        count_intervals(estimate, sd, level, **bounds)
    assert error.value.findings[0].code == "bad-interval"


def test_a_rest_without_variance_is_refused() -> None:
    with pytest.raises(ParameterError, match="LatticeIntervals"):
        mixed_margin(DiscreteGaussian(2), 1.0, 0.0, 0.9)
