"""What a figure says of its count: intervals against laws that are summed up here, by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from tests.kits.safetab import level_of, measured, same_size

from confide.mechanisms.safetab.tallies import (
    count_interval,
    excess_of_sum,
    intervals,
    inverted,
    margin_of_sum,
    sum_intervals,
)
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.privacy import Definition

P = Fraction(19, 20)
HALF = 0.025
TINY = 1e-9
FAR = 10**6

COUNTY = DiscreteGaussian("5000/159")
REGIONAL = DiscreteGaussian(625)
GEOMETRIC = TwoSidedGeometric("1/10")
CASES = [
    (COUNTY, 21),
    (REGIONAL, 93),
    (DiscreteGaussian("2500/1067"), 6),
    (DiscreteGaussian("1/4"), 1),
    (DiscreteGaussian(2_500), 186),
    (GEOMETRIC, 85),
    (TwoSidedGeometric(2), 4),
    (COUNTY, None),
    (GEOMETRIC, None),
    (COUNTY, 0),
    (COUNTY, -5),
    (GEOMETRIC, -20),
    (TwoSidedGeometric("1/40"), 40),
]

Floats = npt.NDArray[np.float64]


class Law:
    """A noise law as plain numbers: an oracle that shares no code with what is tested."""

    def __init__(self, law: NoiseDistribution):
        parameter = float(law.parameter)
        gaussian = isinstance(law, DiscreteGaussian)
        self.reach = int(14 * parameter**0.5 + 20 if gaussian else 45 / parameter + 20)
        x = np.abs(np.arange(-self.reach, self.reach + 1)).astype(float)
        mass = np.exp(-(x**2) / (2 * parameter) if gaussian else -x * parameter)
        self.mass = mass / mass.sum()

    def figures(self, n: int, above: int | None) -> tuple[npt.NDArray[np.int64], Floats]:
        """The figures that a group of n persons can be published with, and how likely each is, given that it is."""
        figures = n + np.arange(-self.reach, self.reach + 1)
        shown = np.ones(len(figures), bool) if above is None else figures > above
        return figures[shown], self.mass[shown] / self.mass[shown].sum()

    def at_least(self, figure: int, n: int, above: int | None) -> float:
        figures, mass = self.figures(n, above)
        return float(mass[figures >= figure].sum())

    def at_most(self, figure: int, n: int, above: int | None) -> float:
        figures, mass = self.figures(n, above)
        return float(mass[figures <= figure].sum())


@pytest.mark.parametrize(
    ("figure", "interval"),
    [(22, (0, 30)), (26, (0, 37)), (28, (7, 39)), (30, (14, 41)), (39, (28, 50)), (40, (29, 51)), (900, (889, 911))],
)
def test_of_small_totals_of_2020(figure: int, interval: tuple[int, int]) -> None:
    assert count_interval(COUNTY, figure, P, above=21) == interval


def test_where_all_are_shown_it_is_the_figure_with_its_margin() -> None:
    for law in (COUNTY, GEOMETRIC):
        margin = law.noise_margin(P)
        for figure in (0, 3, margin, 1_000):
            assert count_interval(law, figure, P) == (max(0, figure - margin), figure + margin)


@pytest.mark.parametrize(("law", "above"), CASES)
def test_whatever_the_count_is_95_of_100_intervals_have_it(law: NoiseDistribution, above: int | None) -> None:
    oracle, margin = Law(law), law.noise_margin(P)
    for n in sorted({*range(12), *range(0, (above or 0) + 6 * margin, max(1, margin // 6))}):
        figures, mass = oracle.figures(n, above)
        low, high = intervals(law, figures, P, above)
        assert mass[low > n].sum() <= HALF + TINY, n
        assert mass[high < n].sum() <= HALF + TINY, n


@pytest.mark.parametrize(("law", "above"), CASES)
def test_no_count_is_in_it_that_the_figure_speaks_against(law: NoiseDistribution, above: int | None) -> None:
    """So it is as short as two tests of half the level let it be, and with a wider law it would not be."""
    oracle, margin = Law(law), law.noise_margin(P)
    first = -3 * margin if above is None else above + 1
    for figure in range(first, first + 7 * margin, max(1, margin // 4)):
        low, high = count_interval(law, figure, P, above)
        assert 0 <= low <= high
        assert oracle.at_least(figure, low, above) > HALF - TINY
        if low:
            assert oracle.at_least(figure, low - 1, above) <= HALF + TINY
        nobody = 2 * HALF * oracle.at_most(figure, 0, above)
        assert oracle.at_most(figure, high, above) > min(HALF, nobody) - TINY
        assert oracle.at_most(figure, high + 1, above) <= min(HALF, nobody) + TINY


@pytest.mark.parametrize(("law", "above"), CASES)
def test_larger_figures_never_mean_smaller_counts(law: NoiseDistribution, above: int | None) -> None:
    start = -200 if above is None else above + 1
    low, high = intervals(law, np.arange(start, start + 400), P, above)
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()


@pytest.mark.parametrize(("law", "above"), [case for case in CASES if case[1] is not None])
def test_one_by_one_and_all_at_once(law: NoiseDistribution, above: int) -> None:
    figures = np.arange(above + 1, above + 300, 7)[::-1]
    inverted.cache_clear()
    together = np.stack(intervals(law, figures, P, above), axis=1).tolist()
    inverted.cache_clear()
    assert [list(count_interval(law, figure, P, above)) for figure in figures.tolist()] == together


def test_at_other_probabilities() -> None:
    wide, narrow = count_interval(COUNTY, 26, Fraction(99, 100), 21), count_interval(COUNTY, 26, Fraction(1, 2), 21)
    assert wide[0] == 0
    assert wide[1] > 37 > narrow[1] >= narrow[0] > 0


def test_very_wide_noise_is_read_too() -> None:
    """A figure just above a number of many thousands: no count from nobody to the number itself is ruled out."""
    law = DiscreteGaussian(49 * 10**6)
    above = law.quantile("0.9999")
    low, high = count_interval(law, above + 1, P, above)
    assert low == 0
    assert above < high < above + 1 + law.noise_margin(P)


@pytest.mark.parametrize("law", [DiscreteGaussian(Fraction(1, 10**6)), TwoSidedGeometric(5000)])
def test_where_there_is_hardly_any_noise_a_figure_is_the_count(law: NoiseDistribution) -> None:
    """Nobody is published so rarely that no number of bits tells how rarely: the search for the largest count ends all
    the same, and would raise if it did not."""
    inverted.cache_clear()
    assert count_interval(law, 12, P, 3) == (12, 12)
    low, high = count_interval(law, 4, P, 3)
    assert (low <= 4, high) == (True, 4)


# Sums


def convolved(parts: Iterator[Floats]) -> Floats:
    summed = np.ones(1)
    for part in parts:
        summed = np.convolve(summed, part)
    return summed


@pytest.mark.parametrize("law", [COUNTY, TwoSidedGeometric("1/5")])
@pytest.mark.parametrize("cells", [[0] * 8, [0] * 7 + [100], [3] * 8, [0, 1, 2, 4, 8, 16, 32, 64], [60] * 8])
def test_a_sum_of_counts_set_to_zero_is_held_whatever_its_cells(law: NoiseDistribution, cells: list[int]) -> None:
    """The law of each count that was set to zero where it fell below is summed up by itself."""
    oracle = Law(law)

    def clamped(count: int) -> Floats:
        figures, mass = oracle.figures(count, None)
        law_of_figure = np.zeros(int(figures[-1]) + 1)
        np.add.at(law_of_figure, np.maximum(figures, 0), mass)
        return law_of_figure

    mass = convolved(clamped(count) for count in cells)
    low, high = sum_intervals(law, np.arange(len(mass)), 8, P, clamped=True)
    assert mass[low > sum(cells)].sum() <= HALF + TINY
    assert mass[high < sum(cells)].sum() <= HALF + TINY
    naive, _ = sum_intervals(law, np.arange(len(mass)), 8, P)
    if not any(cells):
        assert mass[naive > 0].sum() > 2 * HALF  # with the margin of the noise alone


@pytest.mark.parametrize("cells", [1, 2, 9, 46])
def test_a_sum_is_held_where_counts_may_be_negative(cells: int) -> None:
    oracle = Law(COUNTY)
    mass = convolved(oracle.mass for _ in range(cells))
    figures = 40 + np.arange(-cells * oracle.reach, cells * oracle.reach + 1)
    low, high = sum_intervals(COUNTY, figures, cells, P)
    held = mass[(low <= 40) & (high >= 40)].sum()
    assert held >= 0.95 - TINY
    margin = margin_of_sum(COUNTY, cells, P)
    assert (high[figures >= 0] == figures[figures >= 0] + margin).all()
    assert (high[figures < 0] == margin).all()


def test_the_excess_of_wide_noise_is_rounded_up_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    law = DiscreteGaussian(3_600)
    exact = excess_of_sum(law, 8, P)
    monkeypatch.setattr("confide.mechanisms.safetab.tallies.WIDEST", law.noise_margin(1 - Fraction(1, 10**13)) // 4)
    excess_of_sum.cache_clear()
    scaled = excess_of_sum(law, 8, P)
    excess_of_sum.cache_clear()
    assert exact <= scaled <= 1.15 * exact


# As they are drawn


@pytest.mark.statistical
@pytest.mark.parametrize("definition", [Definition.ZCDP, Definition.PURE])
@pytest.mark.parametrize("size", [1, 5, 10, 15, 20, 25, 40])
def test_published_totals_of_small_groups(definition: Definition, size: int) -> None:
    """Both stages as a release draws them, with enough groups that some are published whatever their size. The share
    is off by three standard errors once in 700 tries, and the law is exact; the margin of the noise fails."""
    level = level_of(
        areas=20_000,
        iterations=10,
        budget="0.159" if definition is Definition.ZCDP else "2",
        steps=(FAR,) * 3,
        suppression=Fraction("0.99"),
        definition=definition,
    )
    rows = measured(level, same_size(range(level.groups), size), key=size)
    figures = rows.column("count").to_numpy()
    assert len(figures) > 1_000
    low, high = intervals(level.second, figures, P, level.suppressed_up_to)
    held = np.mean((low <= size) & (size <= high))
    assert held >= 0.95 - 3 * (0.95 * 0.05 / len(figures)) ** 0.5
    if size == 1:
        margin = level.second.noise_margin(P)
        assert np.mean(np.abs(figures - size) <= margin) < 0.7
