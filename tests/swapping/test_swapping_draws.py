"""What a swap draws has the laws that are said, and is the same for the same key."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.mechanisms.swapping.swap import Streams, apportion, choices, exponentials, random_order, rounded
from confide.noise import ReleaseKey


def streams(number: int = 0) -> Streams:
    return Streams(ReleaseKey.choose("17" * 32), b"people", number.to_bytes(8, "big"))


class Planted:
    """Extension words as they were planted: word j of coordinate c."""

    def __init__(self, *words: list[int]):
        self._words = words

    def extension(self, coordinates: np.ndarray, number: int) -> np.ndarray:
        return np.array([self._words[int(c)][number] for c in coordinates], np.uint64)


def test_von_neumann_by_hand() -> None:
    half = 1 << 63
    source = Planted(
        [half, half],  # a run of one: taken, 0.5
        [half, 5, 9, 7, 7],  # a run of two is passed over: one more; then a run of one
        [9, 8, 7, 8],  # a run of three: taken
    )
    assert exponentials(source, 3).tolist() == [0.5, 1 + 7 * 2.0**-64, 9 * 2.0**-64]


def test_exponentials_have_their_law() -> None:
    drawn = np.sort(exponentials(streams().of("score"), 200_000))
    assert drawn.min() > 0
    distance = np.abs(np.arange(1, 200_001) / 200_000 - (1 - np.exp(-drawn))).max()
    assert distance < 1.95 / 200_000**0.5  # Kolmogorov: exceeded once in a thousand keys
    assert abs(drawn.mean() - 1) < 0.01


def test_the_smallest_of_weighted_exponentials_is_each_with_its_share() -> None:
    """Counts 1, 2, 5: risks 1, 1/2, 1/5, so the first is drawn with shares 10/17, 5/17, 2/17."""
    drawn = exponentials(streams().of("score"), 90_000).reshape(-1, 3) * np.array([1, 2, 5])
    shares = np.bincount(drawn.argmin(axis=1)) / 30_000
    assert np.abs(shares - np.array([10, 5, 2]) / 17).max() < 0.01


def test_choices_are_exact_at_the_edges() -> None:
    quarter, largest = 1 << 62, (1 << 64) - 1
    source = Planted(*[[word, 0, 0] for word in (0, quarter - 1, quarter, 3 * quarter - 1, 3 * quarter, largest)])
    assert choices(source, 6, [Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)]).tolist() == [0, 0, 1, 1, 2, 2]
    assert set(choices(source, 6, [Fraction(0), Fraction(1), Fraction(0)]).tolist()) == {1}


def test_choices_have_their_law() -> None:
    found = np.bincount(choices(streams().of("group"), 100_000, [Fraction(3, 10), Fraction(2, 5), Fraction(3, 10)]))
    assert np.abs(found / 100_000 - [0.3, 0.4, 0.3]).max() < 0.006


def test_every_order_is_as_likely() -> None:
    found = Counter(tuple(random_order(streams(number).of("order"), 3).tolist()) for number in range(3_000))
    assert len(found) == 6
    assert max(abs(times - 500) for times in found.values()) < 100


@given(st.integers(0, 50), st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(0, 10**6))
def test_spread_hands_out_all_and_each_at_most_one_off(total: int, sizes: list[int], number: int) -> None:
    sizes_ = np.array(sizes, np.int64)
    if not sizes_.sum():
        return
    made = streams(number)
    parts = apportion(total, sizes_, made.of("a"), made.of("b"))
    assert parts.sum() == total
    exact = [Fraction(total * size, int(sizes_.sum())) for size in sizes]
    assert all(abs(part - share) < 1 for part, share in zip(parts.tolist(), exact, strict=True))


def test_spread_is_right_on_average() -> None:
    sizes, total = np.array([1, 2, 3, 5], np.int64), 4
    found = sum(apportion(total, sizes, streams(i).of("a"), streams(i).of("b")) for i in range(1_500)) / 1_500
    assert np.abs(found - total * sizes / sizes.sum()).max() < 0.06


def test_rounding_has_the_number_as_its_mean() -> None:
    drawn = [rounded(streams(number).of("total"), Fraction(13, 4)) for number in range(4_000)]
    assert set(drawn) == {3, 4}
    assert sum(drawn) / 4_000 == pytest.approx(3.25, abs=0.03)
    assert rounded(streams().of("total"), Fraction(7)) == 7


def test_streams_differ_by_key_people_question_purpose_and_level() -> None:
    first = streams()
    others = [
        Streams(ReleaseKey.choose("18" * 32), b"people", first.question),
        Streams(first.key, b"others", first.question),
        Streams(first.key, b"people", b"12345678"),
    ]
    words = {tuple(each.of("x").words(0, 8).tolist()) for each in (first, *others)}
    words |= {tuple(first.of("y").words(0, 8).tolist()), tuple(first.of("x", "tract").words(0, 8).tolist())}
    assert len(words) == 6
