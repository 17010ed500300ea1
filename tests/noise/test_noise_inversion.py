"""Inversion: ties at any depth, endless supports, wide enclosures; bulk draws agree with single ones."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.noise import STREAM
from tests.kits.sparse_noise import PlantedExtensions, around

from confide.noise.stream import Enclose, Inverse, Steps, draw_one


@cache
def cdf(k: int) -> Fraction:
    """The geometric law of ratio 2/3: no value of it is dyadic."""
    return 1 - Fraction(2, 3) ** (k + 1)


@cache
def enclosing(slack: int) -> Enclose:
    """Enclosures that are ``slack`` bits wider than they need be, for as many outcomes as these bits can tell."""

    @cache
    def enclose(bits: int) -> Steps:
        width = 1 << slack
        values, k = [], 0
        while (1 - cdf(k)) * (1 << bits) > width:
            values.append(cdf(k).numerator * (1 << bits) // cdf(k).denominator)
            k += 1
        return Steps.ascending(bits, [value - width for value in values], [value + 1 + width for value in values])

    return enclose


@settings(max_examples=60, deadline=None)
@given(k=st.integers(0, 500), words=st.integers(1, 6), slack=st.sampled_from([0, 5, 60, 127]))
def test_ties_are_decided_at_any_depth(k: int, words: int, slack: int) -> None:
    scale = 1 << 64 * words
    planted = [u for u in around(cdf(k), words) if u < scale]
    source = PlantedExtensions(planted, words)
    expected = [next(j for j in range(1_000) if Fraction(u, scale) < cdf(j)) for u in planted]
    coordinates = np.arange(len(planted), dtype=np.uint64)
    assert Inverse.prepare(enclosing(slack)).draw(source, coordinates).tolist() == expected
    assert [draw_one(enclosing(slack), source, i) for i in range(len(planted))] == expected


def test_a_tie_reads_more_bits_and_the_far_tail_goes_on() -> None:
    below, above = around(cdf(4), 5)
    source = PlantedExtensions([below, above, (1 << 320) - 1], 5)
    outcomes = Inverse.prepare(enclosing(0)).draw(source, np.arange(3, dtype=np.uint64))
    assert outcomes[:2].tolist() == [4, 5]
    # 1 - U = 2**-320, and (2/3)**(k + 1) first falls below that at k = 547.
    assert outcomes[2] == 547
    assert source.deepest >= 4


def test_exact_thresholds_are_decided_on_the_spot() -> None:
    """``U < F(k)``, not ``U <= F(k)``: a ``U`` on a dyadic threshold belongs to the next outcome."""
    fair = Inverse.prepare(lambda bits: Steps(bits, [1 << bits - 1, 1 << bits], [1 << bits - 1, 1 << bits], first=7))
    source = PlantedExtensions([0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1], 1)
    assert fair.draw(source, np.arange(4, dtype=np.uint64)).tolist() == [7, 7, 8, 8]


def test_nothing_is_decided_below_the_first_listed_outcome() -> None:
    def enclose(bits: int) -> Steps:
        """Uniform on 0 .. 3, of which the lower two are listed from 256 bits on."""
        quarter = 1 << bits - 2
        exact = [quarter, 2 * quarter, 3 * quarter, 4 * quarter]
        return Steps(bits, exact, exact) if bits >= 256 else Steps(bits, [0, *exact[2:]], exact[1:], first=1)

    source = PlantedExtensions([0, 1 << 62, 1 << 63, 3 << 62], 1)
    assert Inverse.prepare(enclose).draw(source, np.arange(4, dtype=np.uint64)).tolist() == [0, 1, 2, 3]


def test_steps_are_put_in_order() -> None:
    steps = Steps.ascending(4, [-2, 5, 3, 9], [6, 4, 12, 20])
    assert (steps.lower, steps.upper) == ([0, 5, 5, 9], [4, 4, 12, 16])


@pytest.mark.parametrize("slack", [0, 100])
def test_bulk_draws_are_the_single_draws(slack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinates = np.arange(5_000, dtype=np.uint64) * np.uint64(3)
    outcomes = Inverse.prepare(enclosing(slack)).draw(STREAM, coordinates)
    assert outcomes[:40].tolist() == [draw_one(enclosing(slack), STREAM, int(c)) for c in coordinates[:40]]
    monkeypatch.setattr("confide.noise.release_noise._CHUNK", 7)
    assert np.array_equal(Inverse.prepare(enclosing(slack)).draw(STREAM, coordinates), outcomes)
    assert len(Inverse.prepare(enclosing(0)).draw(STREAM, coordinates[:0])) == 0
