"""Survivors among empty groups: the same joint law as drawing every group, and no other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate, product
from math import comb

import numpy as np
import pytest
from tests.kits.noise import STREAM, named
from tests.kits.sparse_noise import ALARM, PlantedExtensions, around, chi_square, two_samples
from tests.kits.times import mostly_slow

from confide.errors import ParameterError
from confide.noise import (
    DiscreteGaussian,
    NoiseDistribution,
    NoiseStream,
    Survivors,
    TwoSidedGeometric,
    TwoStageRule,
    WordSource,
    draw,
    draw_survivors,
    sparse,
)
from confide.noise.sparse import level_steps, tail_steps
from confide.noise.stream import draw_one

GAUSSIAN = TwoStageRule(DiscreteGaussian(81), (22, 25, 28), DiscreteGaussian(9), DiscreteGaussian(9).quantile("0.99"))
GEOMETRIC = TwoStageRule(
    TwoSidedGeometric("1/8"), (33, 37, 42), TwoSidedGeometric("1/2"), TwoSidedGeometric("1/2").quantile("0.99")
)
RULES = (GAUSSIAN, GEOMETRIC)

PRODUCTION = TwoStageRule(
    DiscreteGaussian(Fraction(9) / (2 * Fraction("0.0159"))),
    (971, 4971, 19971),
    DiscreteGaussian(Fraction(9) / (2 * Fraction("0.1431"))),
    21,
)
"""Budget 0.159, a tenth of it for the first noise, stability 9; a true zero is suppressed with probability 0.9999."""


def title(rule: TwoStageRule) -> str:
    return named(rule.first)


def stream(number: int) -> NoiseStream:
    """The streams of the tests, by number."""
    digest = hashlib.sha512(b"sparse test %d" % number).digest()
    return NoiseStream(digest[:32], digest[32:])


def rescaled(law: NoiseDistribution, factor: Fraction) -> NoiseDistribution:
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 * factor**2)
    assert isinstance(law, TwoSidedGeometric)
    return TwoSidedGeometric(law.epsilon / factor)


def dense(rule: TwoStageRule, first: WordSource, second: WordSource, empty: int) -> Survivors:
    """Both noises of every group, from two streams; then the rule, word for word."""
    x1, x2 = draw(rule.first, first, 0, empty), draw(rule.second, second, 0, empty)
    levels = np.searchsorted(np.array(rule.thresholds), x1, side="right")
    kept = np.flatnonzero((levels > 0) | (x2 > rule.above))
    return Survivors(kept, levels[kept].astype(np.int8), np.where(levels[kept] > 0, 0, x2[kept]))


Sample = dict[str, np.ndarray]


def sparsely(rule: TwoStageRule, empty: int, repeats: int) -> Sample:
    """How many survived in each of many repeats; and the places, levels and values of all."""
    drawn = [draw_survivors(rule, stream(i), empty) for i in range(repeats)]
    return {
        "number": np.array([len(one) for one in drawn]),
        "places": np.concatenate([one.places for one in drawn]),
        "levels": np.concatenate([one.levels for one in drawn]).astype(np.int64),
        "values": np.concatenate([one.values for one in drawn]),
    }


def densely(rule: TwoStageRule, empty: int, repeats: int) -> Sample:
    """The same from both noises of every group."""
    drawn = dense(rule, stream(-1), stream(-2), empty * repeats)
    return {
        "number": np.bincount(drawn.places // empty, minlength=repeats),
        "places": drawn.places % empty,
        "levels": drawn.levels.astype(np.int64),
        "values": drawn.values,
    }


def p_values(one: Sample, other: Sample) -> dict[str, float]:
    return {name: two_samples(one[name], other[name]) for name in one}


@pytest.mark.statistical
@pytest.mark.parametrize("rule", mostly_slow(RULES, 2), ids=title)
def test_the_sparse_way_agrees_with_the_dense_way_and_a_wrong_scale_does_not(rule: TwoStageRule) -> None:
    """Two samples; then scales 10 % too small and too large, in either noise, which a smaller sample rejects."""
    empty = 1_000
    every = densely(rule, empty, 4_000)
    assert set(np.unique(every["levels"])) == {0, 1, 2, 3}
    assert min(p_values(sparsely(rule, empty, 1_500), every).values()) > ALARM
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        wrong_first = TwoStageRule(rescaled(rule.first, factor), rule.thresholds, rule.second, rule.above)
        p = p_values(sparsely(wrong_first, empty, 600), every)
        assert max(p["number"], p["levels"]) < ALARM
        wrong_second = TwoStageRule(rule.first, rule.thresholds, rescaled(rule.second, factor), rule.above)
        p = p_values(sparsely(wrong_second, empty, 600), every)
        assert max(p["number"], p["values"]) < ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("rule", RULES, ids=title)
def test_the_joint_law_of_three_groups(rule: TwoStageRule) -> None:
    """All 5**3 joint fates of three groups against the product of exact probabilities."""
    rule = TwoStageRule(rule.first, (4, 9, 14), rule.second, 1)
    reached = [rule.first.tail(threshold - 1) for threshold in rule.thresholds]
    second = rule.second.tail(rule.above)
    fates = [(1 - reached[0]) * (1 - second), (1 - reached[0]) * second]
    fates += [reached[0] - reached[1], reached[1] - reached[2], reached[2]]
    assert 1 - fates[0] == pytest.approx(rule.survival(), rel=1e-12)
    repeats = 4_000
    counts = np.zeros((5, 5, 5))
    for i in range(repeats):
        survivors = draw_survivors(rule, stream(i), 3)
        fate = np.zeros(3, np.int64)
        fate[survivors.places] = survivors.levels + 1
        counts[tuple(fate)] += 1
    expected = repeats * np.array([a * b * c for a, b, c in product(fates, repeat=3)])
    assert chi_square(counts.reshape(-1), expected) > ALARM
    turned = [fates[0], *fates[2:], fates[1]]
    wrong = repeats * np.array([a * b * c for a, b, c in product(fates, fates, turned)])
    assert chi_square(counts.reshape(-1), wrong) < ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("law", [DiscreteGaussian(9), DiscreteGaussian(625), TwoSidedGeometric("1/10")], ids=named)
@pytest.mark.parametrize("above", [-40, 0, 6])
def test_values_fit_the_tail_of_the_law(law: NoiseDistribution, above: int) -> None:
    never = 1 << 40
    values = draw_survivors(TwoStageRule(law, (never, never, never), law, above), STREAM, 400_000).values
    assert values.min() > above
    assert values.max() < 400
    expected = len(values) / law.tail(above) * np.array([law.pmf(x) for x in range(above + 1, 400)])
    assert chi_square(np.bincount(values - above - 1, minlength=399 - above), expected) > ALARM


@pytest.mark.parametrize("law", [DiscreteGaussian("10.24"), DiscreteGaussian("1/50"), TwoSidedGeometric(1)], ids=named)
@pytest.mark.parametrize("above", [-200, -3, -1, 0, 7, 20])
@pytest.mark.parametrize("bits", [192, 256])
def test_the_steps_of_a_tail_hold_the_exact_numbers(law: NoiseDistribution, above: int, bits: int) -> None:
    more = 4 * bits + 20_000 * (law == DiscreteGaussian("1/50"))
    steps = tail_steps(law, above, bits)
    whole = law.tail_bounds(above, more)
    assert steps.first > above
    for i in range(0, len(steps.lower), 3):
        tail = law.tail_bounds(steps.first + i, more)
        assert steps.lower[i] <= (1 - tail[0] / whole[1]) * (1 << bits)
        assert (1 - tail[1] / whole[0]) * (1 << bits) <= steps.upper[i]
        assert steps.upper[i] - steps.lower[i] < 1 << 32 or (i == 0 and steps.first > above + 1)
    assert (1 << bits) - steps.lower[-1] < 1 << 32


@pytest.mark.parametrize("rule", [*RULES, PRODUCTION], ids=title)
def test_ties_of_a_level_and_of_a_value_are_decided_exactly(rule: TwoStageRule) -> None:
    """``U`` agrees with a threshold in 64, 192 or 320 bits and then leaves it, upwards or downwards."""
    q = rule.survival_bounds(1_000)[0]
    whole = rule.second.tail_bounds(rule.above, 1_000)[0]
    for words in (1, 3, 5):
        for k in range(3 if rule is not PRODUCTION else 0):
            border = 1 - rule.first.tail_bounds(rule.thresholds[k] - 1, 1_000)[0] / q
            source = PlantedExtensions(around(border, words), words)
            assert [draw_one(lambda bits: level_steps(rule, bits), source, i) for i in (0, 1)] == [k, k + 1]
        for x in range(rule.above + 1, rule.above + 6):
            border = 1 - rule.second.tail_bounds(x, 1_000)[0] / whole
            source = PlantedExtensions(around(border, words), words)
            assert [draw_one(lambda bits: tail_steps(rule.second, rule.above, bits), source, i) for i in (0, 1)] == [
                x,
                x + 1,
            ]


def test_values_far_below_zero_are_not_forgotten() -> None:
    """``P(X < 0)`` is about 2**-722, and nothing but a great many zeros tells that ``U`` is below it."""
    law, words = DiscreteGaussian("1/1000"), 14
    source = PlantedExtensions(around(law.cdf_bounds(-1, 2_000)[0], words), words)
    assert [draw_one(lambda bits: tail_steps(law, -200, bits), source, i) for i in (0, 1)] == [-1, 0]
    assert source.deepest >= 11


def test_known_answers() -> None:
    """The layout of the stream is published: these numbers never change."""
    survivors = draw_survivors(GAUSSIAN, STREAM, 1_000)
    assert survivors.places.tolist() == [40, 75, 228, 260, 263, 331, 388, 677, 828, 837]
    assert survivors.levels.tolist() == [0, 1, 1, 1, 1, 1, 1, 2, 1, 0]
    assert survivors.values.tolist() == [11, 0, 0, 0, 0, 0, 0, 0, 0, 9]


@pytest.mark.parametrize("rule", RULES, ids=title)
def test_anybody_can_follow_the_layout(rule: TwoStageRule) -> None:
    """The survivors among 300 groups, worked out from the words of the documented coordinates alone."""
    range_, empty = 1 << 60, 300

    def uniform(coordinate: int) -> Fraction:
        return Fraction(int(STREAM.extension(np.array([coordinate], np.uint64), 0)[0]), 1 << 64)

    def inverse(u: Fraction, probabilities: Iterable[Fraction]) -> int:
        return next(i for i, total in enumerate(accumulate(probabilities)) if u < total)

    q = rule.survival_bounds()[0]
    number = inverse(uniform(0), (comb(empty, k) * q**k * (1 - q) ** (empty - k) for k in range(empty + 1)))
    sequence = (int(uniform(range_ + i) * 512) for i in range(1_000))
    places = sorted(list(dict.fromkeys(place for place in sequence if place < empty))[:number])
    reached = [rule.first.tail_bounds(threshold - 1)[0] / q for threshold in rule.thresholds]
    shares = [1 - reached[0], reached[0] - reached[1], reached[1] - reached[2], reached[2]]
    levels = [inverse(uniform(2 * range_ + i), shares) for i in range(number)]
    tail = rule.second.tail_bounds(rule.above)[0]
    beyond = [rule.second.pmf_bounds(x)[0] / tail for x in range(rule.above + 1, rule.above + 200)]
    values = [
        0 if level else rule.above + 1 + inverse(uniform(3 * range_ + i), beyond) for i, level in enumerate(levels)
    ]
    survivors = draw_survivors(rule, STREAM, empty)
    assert number > 0
    assert survivors.places.tolist() == places
    assert survivors.levels.tolist() == levels
    assert survivors.values.tolist() == values


def test_the_size_of_the_census() -> None:
    """Two hundred million empty groups: the number within five standard deviations, and hardly any work."""
    survivors = draw_survivors(PRODUCTION, STREAM, 200_000_000)
    assert PRODUCTION.above == PRODUCTION.second.quantile("0.9999")
    mean = 200_000_000 * PRODUCTION.survival()
    assert abs(len(survivors) - mean) < 5 * mean**0.5
    assert survivors.values.min() == 22
    assert not survivors.levels.any()
    assert (np.diff(survivors.places) > 0).all()
    assert survivors.places[-1] < 200_000_000
    again = draw_survivors(PRODUCTION, STREAM, 200_000_000)
    assert all(np.array_equal(getattr(survivors, n), getattr(again, n)) for n in ("places", "levels", "values"))
    other = draw_survivors(PRODUCTION, stream(1), 200_000_000)
    assert not np.array_equal(survivors.places[:10], other.places[:10])


class Recording:
    """Passes the bits of a stream on and keeps the coordinates that were asked for."""

    def __init__(self) -> None:
        self.asked: list[np.ndarray] = []

    def words(self, start: int, count: int) -> np.ndarray:
        raise AssertionError("only extension words are used")

    def words_at(self, coordinates: np.ndarray) -> np.ndarray:
        raise AssertionError("only extension words are used")

    def extension(self, coordinates: np.ndarray, number: int) -> np.ndarray:
        self.asked.append(coordinates)
        return STREAM.extension(coordinates, number)


def test_no_two_draws_share_a_coordinate() -> None:
    source = Recording()
    survivors = draw_survivors(GAUSSIAN, source, 20_000)
    asked = np.concatenate(source.asked)
    assert len(np.unique(asked)) == len(asked)
    ranges, counts = np.unique(asked >> np.uint64(60), return_counts=True)
    assert ranges.tolist() == [0, 1, 2, 3]
    assert counts[0] == 1
    assert counts[1] >= counts[2] == len(survivors)
    assert counts[3] == (survivors.levels == 0).sum()


def test_preparation_is_remembered_and_does_not_matter() -> None:
    before = draw_survivors(GEOMETRIC, STREAM, 5_000)
    for prepared in (sparse._survival, sparse._levels, sparse._tail):
        prepared.cache_clear()
    after = draw_survivors(GEOMETRIC, STREAM, 5_000)
    assert np.array_equal(before.values, after.values)
    assert np.array_equal(before.places, after.places)


def test_no_groups_and_no_survivors() -> None:
    for survivors in (draw_survivors(GAUSSIAN, STREAM, 0), draw_survivors(PRODUCTION, STREAM, 1)):
        assert len(survivors) == len(survivors.levels) == len(survivors.values) == 0
        assert [a.dtype for a in (survivors.places, survivors.levels, survivors.values)] == [
            np.int64,
            np.int8,
            np.int64,
        ]
    hopeless = TwoStageRule(DiscreteGaussian(4), (10**9,) * 3, DiscreteGaussian(4), 10**9)
    assert hopeless.survival() == 0.0
    assert len(draw_survivors(hopeless, STREAM, 10**9)) == 0


def test_nearly_all_survive() -> None:
    everything = TwoStageRule(DiscreteGaussian(4), (-10, -9, 50), DiscreteGaussian(4), -100)
    survivors = draw_survivors(everything, STREAM, 5_000)
    assert survivors.places.tolist() == list(range(5_000))
    assert set(survivors.levels.tolist()) == {2}
    often = TwoStageRule(DiscreteGaussian(100), (40, 41, 42), DiscreteGaussian(100), -(10**6))
    survivors = draw_survivors(often, STREAM, 5_000)
    assert survivors.places.tolist() == list(range(5_000))
    assert abs(survivors.values.mean()) < 5 * (100 / 5_000) ** 0.5
    mostly = draw_survivors(
        TwoStageRule(DiscreteGaussian(100), (40, 41, 42), DiscreteGaussian(100), -10), STREAM, 5_000
    )
    assert 4_000 < len(mostly) < 4_500
    assert (np.diff(mostly.places) > 0).all()


def test_equal_thresholds_leave_no_level_between() -> None:
    survivors = draw_survivors(TwoStageRule(DiscreteGaussian(9), (2, 2, 4), DiscreteGaussian(9), 3), STREAM, 20_000)
    assert set(survivors.levels.tolist()) == {0, 2, 3}


def test_a_repr_shows_nothing() -> None:
    assert repr(draw_survivors(GAUSSIAN, STREAM, 1_000)) == "Survivors()"


@pytest.mark.parametrize(
    ("thresholds", "second", "above"),
    [
        ((3, 2, 4), DiscreteGaussian(9), 3),
        ((2, 3, 1 << 63), DiscreteGaussian(9), 3),
        ((2, 3, 4), DiscreteGaussian(9), -(1 << 63)),
        ((2, 3, 4), DiscreteGaussian(10**9), 3),
        ((2, 3, 4), TwoSidedGeometric("1/5000"), 3),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(
    thresholds: tuple[int, int, int], second: NoiseDistribution, above: int
) -> None:
    with pytest.raises(ParameterError):
        TwoStageRule(DiscreteGaussian(9), thresholds, second, above)
