"""Draws: known answers, forced ties, random access, chunking, processes, threads, and refusals."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.noise import SIX_LAWS, STREAM, PlantedSource, integer_thresholds, named

from confide.errors import ParameterError
from confide.noise import (
    COORDINATES,
    DiscreteGaussian,
    NoiseDistribution,
    Tally,
    TwoSidedGeometric,
    add_noise,
    draw,
    draw_at,
    table_for,
)
from confide.noise.sample import CELL_BITS

WIDE = DiscreteGaussian(10**12)

KNOWN_ANSWERS = [
    (DiscreteGaussian(1), "a43da0151ee6701540427eb36f458b968504df36123223aad56b5e4e0e2e2db7"),
    (DiscreteGaussian("256/25"), "3df512b8d3d0465849c14ce93562c711ac6707534a122c880cbeb5725f44918d"),
    (DiscreteGaussian(289), "cad5d037e14c93a71a99f64e83faa566cb231513ad921bfd20e6eddbdeb49548"),
    (DiscreteGaussian(3600), "d3e5f5efba34b055734521d0a12c669d4be0d42ae729ef848aa259cf6441823c"),
    (TwoSidedGeometric("1/10"), "c4d73b4f56c2c4172fcf4db53d37ebbc5ee754760c3ed946e81f98079cd0964f"),
    (TwoSidedGeometric(1), "877dcc554c19ce865b0adbb44a779eb52f13524516c3639f5aa56b21be9b4c33"),
    (DiscreteGaussian(4000**2), "f5f370bfb6b39d73d9ee83c549a975e4d19e68b70ca66655d8f0e576f58d2419"),
]


def fingerprint(noise: np.ndarray) -> str:
    return hashlib.sha256(noise.astype("<i8").tobytes()).hexdigest()


@pytest.mark.parametrize(("law", "sha256"), KNOWN_ANSWERS, ids=str)
def test_known_answers(law: NoiseDistribution, sha256: str) -> None:
    """Twice in a row, in two pieces and at random: a stream has no memory."""
    count = 3_000_001
    noise = draw(law, STREAM, 0, count)
    assert fingerprint(noise) == sha256
    assert (
        fingerprint(np.concatenate([draw(law, STREAM, 0, 1_234_567), draw(law, STREAM, 1_234_567, count - 1_234_567)]))
        == sha256
    )
    places = np.random.default_rng(5).integers(0, count, 300_000)
    assert np.array_equal(draw_at(law, STREAM, places), noise[places])


def test_known_first_draws() -> None:
    assert draw(DiscreteGaussian(289), STREAM, 0, 16).tolist() == [
        -3, -9, 13, -15, -28, 23, 8, 0, 19, -8, -10, -21, -30, 9, -12, 11,
    ]  # fmt: skip
    assert draw(WIDE, STREAM, 5, 5).tolist() == [1539418, -1007001, -1357873, -1505137, 2678627]
    assert draw(TwoSidedGeometric("1/1000000"), STREAM, 0, 4).tolist() == [-280563, -1881934, -578921, -69434]


@pytest.mark.parametrize("law", [*SIX_LAWS, DiscreteGaussian(4000)], ids=named)
def test_forced_ties_are_decided_as_an_800_bit_oracle_does(law: NoiseDistribution) -> None:
    """``U`` agrees with a threshold in its first 79, 143 or 207 bits and leaves it afterwards, upwards or downwards."""
    words = 12
    bits = CELL_BITS + 64 * words
    thresholds = integer_thresholds(law, bits)
    chance = random.Random(11)
    borders = [m for m, threshold in enumerate(thresholds) if (1 << bits) - threshold > 1 << bits - 70]
    numbers = []
    for m in chance.sample(borders, min(25, len(borders))) + borders[:2] + borders[-4:]:
        for tied in (79, 143, 207):
            free = bits - tied
            rest = thresholds[m] & (1 << free) - 1
            near = [max(0, rest - 1), rest + 1, 0, (1 << free) - 1, chance.getrandbits(free), chance.getrandbits(free)]
            numbers += [thresholds[m] >> free << free | min(value, (1 << free) - 1) for value in near]
    signs = [chance.getrandbits(1) for _ in numbers]
    source = PlantedSource(numbers, signs, words)
    tally = Tally()
    noise = draw(law, source, 0, len(numbers), tally)

    oracle = [next(m for m, threshold in enumerate(thresholds) if number < threshold) for number in numbers]
    assert noise.tolist() == [-m if sign else m for m, sign in zip(oracle, signs, strict=True)]
    assert draw_at(law, source, np.arange(len(numbers))).tolist() == noise.tolist()
    assert tally.exact == len(numbers) >= 150
    assert source.deepest >= 3


@settings(max_examples=60, deadline=None)
@given(
    law=st.sampled_from([DiscreteGaussian(289), TwoSidedGeometric(1), WIDE]),
    start=st.one_of(st.integers(0, 10**6), st.integers(0, COORDINATES - 5000)),
    count=st.integers(1, 300),
    data=st.data(),
)
def test_random_access_equals_sequential(law: NoiseDistribution, start: int, count: int, data: st.DataObject) -> None:
    noise = draw(law, STREAM, start, count)
    places = data.draw(st.lists(st.integers(0, count - 1), max_size=50))
    kind = data.draw(st.sampled_from([np.uint64, np.int64]))
    coordinates = np.array([start + place for place in places], kind)
    assert draw_at(law, STREAM, coordinates).tolist() == noise[places].tolist()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 1_100_000), max_size=6))
def test_any_chunking_gives_the_same_noise(cuts: list[int]) -> None:
    law, count = DiscreteGaussian(3600), 1_100_000
    whole = np.arange(count)
    add_noise(whole, law, STREAM, 17)
    parts = np.arange(count)
    edges = [0, *sorted(cuts), count]
    for begin, end in pairwise(edges):
        add_noise(parts[begin:end], law, STREAM, 17 + begin)
    assert np.array_equal(whole, parts)
    assert np.array_equal(whole - np.arange(count), draw(law, STREAM, 17, count))


def test_shapes_follow_memory_order() -> None:
    values = np.zeros((3, 5), np.int64)
    add_noise(values, DiscreteGaussian(289), STREAM, 100)
    assert values.reshape(-1).tolist() == draw(DiscreteGaussian(289), STREAM, 100, 15).tolist()


@pytest.mark.parametrize("law", [DiscreteGaussian("1/1000000"), TwoSidedGeometric(10**6)], ids=named)
def test_tiny_scales_give_zeros(law: NoiseDistribution) -> None:
    assert not draw(law, STREAM, 0, 1_000_000).any()


def test_wide_laws_use_the_reference_sampler() -> None:
    tally = Tally()
    noise = draw(WIDE, STREAM, 0, 3000, tally)
    assert tally == Tally(draws=3000, reference=3000)
    # Three thousand draws: the standard deviation is within 7 % with all but certainty (5 sigma).
    assert noise.std() == pytest.approx(10**6, rel=0.07)


def test_wide_noise_does_not_begin_anew_after_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.noise.sample._REFERENCE_CHUNK", 16)
    noise = draw(WIDE, STREAM, 5, 100)
    assert noise.tolist() == draw_at(WIDE, STREAM, np.arange(5, 105)).tolist()
    assert noise.tolist() == [int(draw(WIDE, STREAM, place, 1)[0]) for place in range(5, 105)]


def test_the_tally_agrees_with_its_expectation() -> None:
    tally = Tally()
    law = DiscreteGaussian(3600)
    draw(law, STREAM, 0, 2_000_000, tally)
    draw_at(law, STREAM, np.arange(2_000_000, 4_000_000), tally)
    expected = 4_000_000 * table_for(law).undecided_share
    assert tally.draws == 4_000_000
    assert abs(tally.extended - expected) < 5 * float(expected) ** 0.5
    assert tally.exact == 0


def _child(start: int) -> list[int]:
    return draw(DiscreteGaussian(289), STREAM, start, 50_000).tolist()


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_four_forked_children_never_share_a_draw() -> None:
    """The children inherit one stream object. Each has its own coordinates, and nobody else's noise."""
    with multiprocessing.get_context("fork").Pool(4) as pool:
        own = pool.map(_child, [0, 50_000, 100_000, 150_000], chunksize=1)
        same = pool.map(_child, [0, 0, 0, 0], chunksize=1)
    assert list(chain.from_iterable(own)) == draw(DiscreteGaussian(289), STREAM, 0, 200_000).tolist()
    for i in range(4):
        for j in range(i):
            equal = sum(a == b for a, b in zip(own[i], own[j], strict=True))
            # Two independent draws agree with probability 1.66 %: 830 of 50,000, and never 1,000 (6 sigma).
            assert equal < 1000
    assert same == [own[0]] * 4, "the same coordinate has the same noise in every process: that is the design"


def test_threads_share_one_stream() -> None:
    law = DiscreteGaussian(289)
    starts = list(range(0, 2_000_000, 250_000))
    with ThreadPoolExecutor(4) as pool:
        pieces = list(pool.map(lambda start: draw(law, STREAM, start, 250_000), starts))
    assert np.array_equal(np.concatenate(pieces), draw(law, STREAM, 0, 2_000_000))


def test_only_whole_64_bit_counts_are_taken() -> None:
    law = DiscreteGaussian(1)
    for values in (np.zeros(3), np.zeros(3, np.int32), np.zeros((4, 4), np.int64)[:, 1], np.zeros(3, ">i8")):
        with pytest.raises(ParameterError, match="whole numbers only"):
            add_noise(values, law, STREAM, 0)  # type: ignore[arg-type]
    frozen = np.zeros(3, np.int64)
    frozen.setflags(write=False)
    with pytest.raises(ParameterError, match="whole numbers only"):
        add_noise(frozen, law, STREAM, 0)


@pytest.mark.parametrize("value", [2**62 + 1, -(2**62) - 1, 2**63 - 1, -(2**63)])
def test_overflow_is_refused_before_anything_changes_and_without_the_value(value: int) -> None:
    values = np.array([5, -7, value])
    with pytest.raises(ParameterError) as refusal:
        add_noise(values, DiscreteGaussian(1), STREAM, 0)
    assert str(abs(value)) not in str(refusal.value)
    assert values.tolist() == [5, -7, value]


def test_large_and_negative_values_within_the_limits_are_fine() -> None:
    values = np.array([2**62, -(2**62), -1, 0])
    add_noise(values, DiscreteGaussian("1/1000000"), STREAM, 0)
    assert values.tolist() == [2**62, -(2**62), -1, 0]


@pytest.mark.parametrize("law", [DiscreteGaussian(2**101), TwoSidedGeometric(f"1/{2**51}")], ids=named)
def test_noise_too_wide_for_64_bits_is_refused(law: NoiseDistribution) -> None:
    with pytest.raises(ParameterError, match="does not fit into 64-bit"):
        draw(law, STREAM, 0, 1)
    with pytest.raises(ParameterError, match="does not fit into 64-bit"):
        draw_at(law, STREAM, np.array([0]))


@pytest.mark.parametrize(
    "coordinates",
    [np.array([0.0]), np.array([[0]]), np.array([-1]), np.array([COORDINATES], np.uint64), np.array([1], np.int32)],
    ids=str,
)
def test_bad_coordinates_are_refused(coordinates: np.ndarray) -> None:
    with pytest.raises(ParameterError, match="coordinates"):
        draw_at(DiscreteGaussian(1), STREAM, coordinates)


def test_nothing_is_drawn_for_nothing() -> None:
    assert draw(DiscreteGaussian(1), STREAM, 9, 0).shape == (0,)
    assert draw_at(DiscreteGaussian(1), STREAM, np.array([], np.uint64)).shape == (0,)
    add_noise(np.array([], np.int64), DiscreteGaussian(1), STREAM, 0)
