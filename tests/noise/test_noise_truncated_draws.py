"""Bounded noise as it is drawn: by coordinate, exactly, with the right scale."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.kits.noise import STREAM, chi_square_p

from confide.errors import ParameterError
from confide.noise import (
    BoundedDistribution,
    CountNoise,
    DiscreteGaussian,
    FiniteDistribution,
    TruncatedGaussian,
    TruncatedGeometric,
    TwoSidedGeometric,
    draw,
    perturb,
)
from confide.noise.release_noise import steps

PEERS: tuple[CountNoise, ...] = (
    TwoSidedGeometric("9/10"),
    DiscreteGaussian(2),
    TruncatedGeometric("9/10", 5),
    TruncatedGaussian(2, 5),
    FiniteDistribution.symmetric([1, 0, 3, 9, 3, 0, 1]),
)
ALARM = 1e-6
"""False alarm rate of one comparison, had the keys been drawn anew. The keys are fixed."""


class Planted:
    """A source whose extension words are given: word ``j`` of coordinate ``i`` is ``numbers[i][j]``."""

    def __init__(self, numbers: list[list[int]]):
        self.numbers = numbers

    def words(self, start: int, count: int) -> np.ndarray:
        raise AssertionError("bounded noise takes no 16-bit words")

    words_at = words

    def extension(self, coordinates: np.ndarray, number: int) -> np.ndarray:
        return np.array([self.numbers[int(c)][number] for c in coordinates], np.uint64)


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.int64)


@pytest.mark.parametrize("noise", PEERS, ids=repr)
def test_noise_belongs_to_its_coordinate(noise: CountNoise) -> None:
    counts = np.arange(60, dtype=np.int64).reshape(5, 12)
    whole = perturb(counts, noise, STREAM, 100)
    assert counts.tolist() == np.arange(60).reshape(5, 12).tolist()
    assert whole.shape == (5, 12)
    parts = [perturb(counts.reshape(-1)[a:b], noise, STREAM, 100 + a) for a, b in ((0, 7), (7, 8), (8, 60))]
    assert np.concatenate(parts).tolist() == whole.reshape(-1).tolist()
    if noise.bound is not None:
        assert np.abs(whole - counts).max() <= noise.bound


@pytest.mark.parametrize("noise", PEERS[2:], ids=repr)
def test_bounded_noise_does_not_begin_anew_after_a_chunk(noise: CountNoise, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = perturb(zeros(100), noise, STREAM, 7)
    for room in ("release_noise", "stream"):
        monkeypatch.setattr(f"confide.noise.{room}._CHUNK", 16)
    assert perturb(zeros(100), noise, STREAM, 7).tolist() == whole.tolist()
    assert whole[:16].tolist() != whole[16:32].tolist()


def test_laws_without_a_bound_are_drawn_as_ever() -> None:
    law = DiscreteGaussian(2)
    assert perturb(zeros(50), law, STREAM, 3).tolist() == draw(law, STREAM, 3, 50).tolist()


@pytest.mark.parametrize("noise", PEERS[2:], ids=repr)
def test_a_draw_is_the_inverse_of_the_first_word(noise: BoundedDistribution) -> None:
    drawn = perturb(zeros(500), noise, STREAM, 40)
    words = STREAM.extension(np.arange(40, 540, dtype=np.uint64), 0)
    for x, word in zip(drawn.tolist(), words.tolist(), strict=True):
        uniform = Fraction(word, 2**64)
        assert noise.cdf_bounds(x - 1)[0] <= uniform < noise.cdf_bounds(x)[1]


def test_ties_are_decided_by_more_bits_or_exactly() -> None:
    """Right at a threshold: 1/4 and 3/4 are whole words; exp(-1/2) / (1 + 2 exp(-1/2)) is not, and takes three."""
    quarters, top = FiniteDistribution([-1, 0, 1], ["1/4", "1/2", "1/4"]), 2**64 - 1
    planted = Planted([[2**62 - 1, top], [2**62, 0], [3 * 2**62 - 1, top], [3 * 2**62, 0], [0, 0], [top, top]])
    assert perturb(zeros(6), quarters, planted).tolist() == [-1, 0, 0, 1, -1, 1]

    noise = TruncatedGeometric("1/2", 1)
    lower, upper = noise.cdf_bounds(-1, 400)
    digits = lower.numerator * 2**192 // lower.denominator
    assert digits == upper.numerator * 2**192 // upper.denominator
    words = [[number >> 64 * (2 - j) & top for j in range(3)] + [0] * 4 for number in (digits, digits + 1)]
    assert perturb(zeros(2), noise, Planted(words)).tolist() == [-1, 0]


@pytest.mark.parametrize("noise", [*PEERS[2:], FiniteDistribution.symmetric([1, 1, 1])], ids=repr)
@pytest.mark.parametrize("bits", [128, 192])
def test_thresholds_are_enclosed(noise: BoundedDistribution, bits: int) -> None:
    found, whole = steps(noise, bits), 2**bits
    assert (found.first, found.lower[-1], found.upper[-1]) == (-noise.bound, whole, whole)
    for i, (lower, upper) in enumerate(zip(found.lower, found.upper, strict=True)):
        true = noise.cdf_bounds(found.first + i, 400)
        assert Fraction(lower, whole) <= true[0]
        assert true[1] <= Fraction(upper, whole)
        assert upper - lower <= 1


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "others"),
    [
        (
            TruncatedGaussian(2, 5),
            [TruncatedGaussian("1.88", 5), TruncatedGaussian("2.12", 5)],
        ),
        (
            TruncatedGeometric("9/10", 5),
            [TruncatedGeometric("0.873", 5), TruncatedGeometric("0.927", 5)],
        ),
        (
            PEERS[4],
            [FiniteDistribution.symmetric([1, 0, 3, 8, 3, 0, 1]), FiniteDistribution.symmetric([1, 0, 3, 10, 3, 0, 1])],
        ),
    ],
    ids=["gaussian", "geometric", "listed"],
)
def test_two_million_draws_fit_the_law_and_no_other(
    noise: BoundedDistribution, others: list[BoundedDistribution]
) -> None:
    """Scales 3 % to both sides are rejected; the bound is reached and kept; mean and variance are right."""
    count = 2_000_000
    drawn = perturb(zeros(count), noise, STREAM, 10**12)
    counts = np.bincount(drawn + 6, minlength=13)

    def expected(law: BoundedDistribution) -> np.ndarray:
        return count * np.array([law.pmf(x) for x in range(-6, 7)])

    assert counts[expected(noise) == 0].sum() == 0
    assert (drawn.min(), drawn.max()) == (-noise.bound, noise.bound)
    assert chi_square_p(counts, expected(noise)) > ALARM
    for other in others:
        assert chi_square_p(counts, expected(other)) < 1e-30
    variance = noise.variance()
    assert abs(drawn.mean()) < 4.9 * (variance / count) ** 0.5
    fourth = sum(x**4 * noise.pmf(x) for x in range(-6, 7))
    assert abs((drawn * drawn).mean() - variance) < 4.9 * ((fourth - variance**2) / count) ** 0.5


@pytest.mark.parametrize("noise", PEERS, ids=repr)
def test_counts_that_are_not_whole_numbers_are_refused(noise: CountNoise) -> None:
    with pytest.raises(ParameterError):
        perturb(np.zeros(3), noise, STREAM)
    with pytest.raises(ParameterError):
        perturb(np.full(3, 2**62 + 1, np.int64), noise, STREAM)
    with pytest.raises(ParameterError):
        perturb(zeros(3), noise, STREAM, 2**63 - 1)
