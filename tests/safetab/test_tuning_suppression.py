"""Suppression and bias: the theory against plain sums, and against the sampler that makes releases."""

from __future__ import annotations

from fractions import Fraction
from math import exp, fsum, pi, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.small import KEY

from confide.mechanisms.safetab.tuning import production_tuning, tune
from confide.mechanisms.safetab.tuning.answer import (
    by_budget,
    by_size,
    release_bias,
    suppression_probability,
    suppression_threshold,
)
from confide.mechanisms.safetab.tuning.question import law_of
from confide.noise import DiscreteGaussian, NoiseDistribution, ReleaseKey, TwoSidedGeometric, derive_stream, draw
from confide.privacy import Definition

LAWS = [DiscreteGaussian("0.5"), DiscreteGaussian("2.343"), DiscreteGaussian("31.4"), TwoSidedGeometric("0.3")]
LAWS += [TwoSidedGeometric("2")]


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("t", [-30, -5, -1, 0, 1, 4, 12])
def test_bias_is_the_plain_sum(law: NoiseDistribution, t: int) -> None:
    values = range(t + 1, 160)
    weights = [law.pmf(x) for x in values]
    plain = fsum(x * weight for x, weight in zip(values, weights, strict=True)) / fsum(weights)
    assert release_bias(law, 40, 40 - t) == pytest.approx(plain, rel=1e-9, abs=1e-13)


@given(size=st.integers(0, 400), scale=st.integers(1, 4000))
def test_bias_brings_a_released_total_above_the_threshold(size: int, scale: int) -> None:
    law = DiscreteGaussian(Fraction(scale, 4))
    threshold = suppression_threshold(law, Fraction("0.9999"))
    assert threshold is not None
    bias = release_bias(law, threshold, size)
    assert bias >= 0
    assert size + bias >= threshold + 1 - 1e-9


def test_far_in_the_tail_nothing_underflows() -> None:
    assert release_bias(DiscreteGaussian(1), 200, 0) == pytest.approx(201, abs=1e-6)


def test_bias_is_close_to_the_continuous_formula_for_wide_noise() -> None:
    """Equation 13 of the paper, with the step at half a person."""
    law, threshold, normal = DiscreteGaussian(625), 93, NormalDist()
    for size in (0, 50, 93, 140):
        z = (threshold + 0.5 - size) / 25
        continuous = 25 * exp(-z * z / 2) / sqrt(2 * pi) / (1 - normal.cdf(z))
        assert release_bias(law, threshold, size) == pytest.approx(continuous, abs=0.02)


def test_true_zeros_are_suppressed_as_often_as_promised_and_no_threshold_is_lower() -> None:
    for law in LAWS[1:]:
        threshold = suppression_threshold(law, Fraction("0.9999"))
        assert threshold is not None
        assert suppression_probability(law, threshold, 0) >= 0.9999
        assert suppression_probability(law, threshold - 1, 0) < 0.9999


def agrees(noise: npt.NDArray[np.int64], law: NoiseDistribution, threshold: int) -> bool:
    """Whether suppression and bias of simulated groups of several sizes are within five standard errors of theory."""
    for size in (0, threshold // 2, threshold, 3 * threshold // 2):
        kept = noise[noise + size > threshold]
        expected = suppression_probability(law, threshold, size)
        share = 1 - len(kept) / len(noise)
        if abs(share - expected) > 5 * sqrt(expected * (1 - expected) / len(noise)):
            return False
        error = float(np.std(kept)) / sqrt(len(kept)) if len(kept) else 0.0
        if len(kept) > 50 and abs(float(np.mean(kept)) - release_bias(law, threshold, size)) > 5 * error:
            return False
    return True


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("definition", "budget"),
    [(Definition.ZCDP, "2.134"), (Definition.ZCDP, "0.159"), (Definition.ZCDP, "0.008"), (Definition.PURE, "2.43")],
)
def test_simulated_groups(definition: Definition, budget: str) -> None:
    """A million groups of each size with the sampler of releases; false alarms below 1 in 100,000 over all keys.

    The same draws refute noise that is 10 % wider or narrower.
    """
    law = law_of(definition, 9, Fraction(9, 10) * Fraction(budget))
    threshold = suppression_threshold(law, Fraction("0.9999"))
    assert threshold is not None
    stream = derive_stream(
        ReleaseKey.choose(KEY),
        records_fingerprint=b"simulated",
        plan_hash=b"simulated",
        mechanism="safetab",
        level="TRACT-2",
        query=f"stage 2 {law!r}",
    )
    noise = draw(law, stream, 0, 1_000_000)
    assert agrees(noise, law, threshold)
    for factor in (Fraction(11, 10), Fraction(9, 10)):
        wrong = (
            DiscreteGaussian(law.parameter * factor**2)
            if isinstance(law, DiscreteGaussian)
            else TwoSidedGeometric(law.parameter / factor)
        )
        assert not agrees(noise, wrong, threshold)
        assert not agrees(draw(wrong, stream, 0, 1_000_000), law, threshold)


def test_curves_are_those_of_figures_1_and_2() -> None:
    answer = tune(production_tuning())
    rows = by_size(answer)
    assert {row["threshold"] for row in rows} == {6, 21, 93}
    for threshold in (6, 21, 93):
        curve = [row for row in rows if row["threshold"] == threshold]
        assert [row["of_threshold"] for row in curve][:: len(curve) - 1] == [0, 2]
        assert curve[0]["suppressed"] >= 0.9999
        assert curve[-1]["suppressed"] < 0.001
        assert 1 < curve[0]["bias_of_threshold"] < 1.2
        at_threshold = next(row for row in curve if row["size"] == threshold)
        assert 0.5 < at_threshold["suppressed"] < 0.64  # P(X ≤ 0), which is above a half
        for name in ("suppressed", "bias_of_threshold"):
            values = [row[name] for row in curve]
            assert values == sorted(values, reverse=True)


def test_margins_by_budget_go_through_those_of_the_levels() -> None:
    rows = by_budget(tune(production_tuning()))
    own = {(row["budget"], row["what"]): row["persons"] for row in rows if row["own"]}
    assert own[0.159, "95 % noise margin"] == 11
    assert own[0.008, "suppression threshold"] == 93
    assert len(own) == 6
