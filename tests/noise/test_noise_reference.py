"""The reference samplers, choice by choice."""

from __future__ import annotations

import math
import random

import pytest

from confide.noise.sample import UniformBits, bernoulli_exp


def test_bits_are_taken_in_order_and_once() -> None:
    words = iter([0x0123456789ABCDEF, 0xFEDCBA9876543210])
    bits = UniformBits(words.__next__)
    assert [bits.take(4) for _ in range(4)] == [0xF, 0xE, 0xD, 0xC]
    assert bits.take(48) == 0x0123456789AB
    assert bits.take(64) == 0xFEDCBA9876543210
    assert bits.take(0) == 0


def test_below_rejects_rather_than_folds() -> None:
    words = iter([0b111_110_101_100_011])
    bits = UniformBits(words.__next__)
    assert [bits.below(6) for _ in range(3)] == [3, 4, 5]
    assert UniformBits(iter([0b0_11_10_11]).__next__).below(3) == 2
    assert UniformBits(iter([]).__next__).below(1) == 0


@pytest.mark.statistical
@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 3), (1, 1), (7, 2)])
def test_bernoulli_of_an_exponential(numerator: int, denominator: int) -> None:
    """False alarm rate one in a million for a fresh seed (4.9 sigma); the seed is fixed."""
    supply = random.Random(3)
    bits = UniformBits(lambda: supply.getrandbits(64))
    count = 50_000
    p = math.exp(-numerator / denominator)
    hits = sum(bernoulli_exp(numerator, denominator, bits) for _ in range(count))
    assert abs(hits - count * p) <= 4.9 * (count * p * (1 - p)) ** 0.5
