"""The two-level adversary: published examples, exact values of the stated joint law, brute force, other priors."""

from __future__ import annotations

import sys
import time
from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from confide.errors import ParameterError
from confide.lab.risk.bayesian.counts import (
    Flat,
    FlatParent,
    Geometric,
    ListedParent,
    ListedPrior,
    ParentPrior,
    Point,
    PointParent,
    Poisson,
    RestPrior,
    SiblingNoise,
    UniformParent,
    approximation_error,
    gaussian_window,
    parse_count_prior,
    parse_parent_prior,
    sibling_window,
)
from confide.lab.risk.bayesian.two_level import TwoLevel, Variant

# The shares of the 2020 Census of 2.56 for the detailed query: blocks and optimised block groups.
RHO1 = Fraction(64, 25) * Fraction(165, 4099) * Fraction(3945, 4097)
RHO2 = Fraction(64, 25) * Fraction(1256, 4099) * Fraction(1288, 4099)
CENSUS = TwoLevel(RHO1, RHO2, siblings=27)


def brute(model: TwoLevel, x1: int, x2: int, y: int, top: int = 400) -> tuple[float, dict[int, float]]:
    """P(X1 = known+1 | D) and the law of X2, by adding up the joint law as it is written."""
    rho1, rho2, p = float(model.rho1), float(model.rho2), float(model.prior)
    joint: dict[tuple[int, int], float] = {}
    for step, weight in ((0, 1 - p), (1, p)):
        k1 = model.known + step
        rest = model.parent.rest(k1)
        if rest is None:
            continue
        for z, log_weight in enumerate(rest.log_weight(np.arange(top)).tolist()):
            exponent = rho1 * (x1 - k1) ** 2 + rho2 * (x2 - k1 - z) ** 2 + rho1 / model.siblings * (y - z) ** 2
            joint[k1, k1 + z] = weight * exp(log_weight - exponent)
    total = sum(joint.values())
    law: dict[int, float] = {}
    for (_, k2), value in joint.items():
        law[k2] = law.get(k2, 0.0) + value / total
    return sum(value for (k1, _), value in joint.items() if k1 > model.known) / total, law


def test_the_published_release_under_the_joint_law_as_stated() -> None:
    assert float(CENSUS.posterior(2, 1, -1)) == pytest.approx(0.503288, abs=5e-7)
    law = CENSUS.law_of_parent(2, 1, -1)
    expected = [0.129354, 0.386595, 0.297901, 0.139190, 0.039433, 0.006774, 0.000706, 0.000045]
    assert [law.p(k) for k in range(8)] == pytest.approx(expected, abs=6e-7)
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-14)


def test_the_published_release_under_the_sampler_that_forgets_the_restriction() -> None:
    assert float(CENSUS.posterior(2, 1, -1, Variant.UNRESTRICTED)) == pytest.approx(0.577702, abs=5e-7)
    law = CENSUS.law_of_parent(2, 1, -1, Variant.UNRESTRICTED)
    expected = [0.109975, 0.395028, 0.304559, 0.142375, 0.040357, 0.006936, 0.000723, 0.000046]
    assert [law.p(k) for k in range(8)] == pytest.approx(expected, abs=6e-7)
    # As printed from ten thousand draws: 57.0 %, then 11, 40, 30, 14, 4.6, 0.7, 0.08, 0.01 %.
    printed = [0.11, 0.40, 0.30, 0.14, 0.046, 0.007, 0.0008, 0.0001]
    for k, share in enumerate(printed):
        assert abs(law.p(k) - share) < 4 * (law.p(k) / 10**4) ** 0.5 + 0.005 * (share > 0.05)
    assert float(CENSUS.posterior(2, 1, -1, Variant.WITHOUT)) == pytest.approx(0.573875, abs=5e-7)


def test_effective_rho() -> None:
    assert float(CENSUS.effective_rho) == pytest.approx(0.102847, abs=5e-7)
    assert float(RHO1 * 28 / 27) == pytest.approx(0.102901, abs=5e-7)
    assert CENSUS.effective_rho < RHO1 * 28 / 27
    # Far from the boundary, the log odds are those of the closed form.
    far = CENSUS.log_odds([0, 3, -2], [5000, 5003, 4990], [5007, 4990, 4999])
    w = float(CENSUS.weight)
    x = [-1 * float(RHO1) + w * (-15), 5 * float(RHO1) + w * 25, -5 * float(RHO1) + w * (-19)]
    assert far == pytest.approx(x, abs=1e-12)


PARENTS: list[ParentPrior] = [
    FlatParent(),
    UniformParent(10),
    UniformParent(2),
    PointParent(3),
    ListedParent(ListedPrior(["1/2", "1/4", 0, "1/8", "1/8"])),
    ListedParent(ListedPrior([1, 2, 5], first=4)),
    RestPrior(Geometric("0.1")),
    RestPrior(Geometric(20)),
    RestPrior(Poisson("1/10")),
    RestPrior(Poisson(30)),
    RestPrior(ListedPrior([0, 1, 5, 1])),
]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(PARENTS),
    st.fractions("1/50", 2, max_denominator=100),
    st.fractions("1/50", 3, max_denominator=100),
    st.integers(1, 40),
    st.fractions("1/20", "19/20", max_denominator=20),
    st.integers(0, 2),
    st.tuples(st.integers(-6, 9), st.integers(-9, 15), st.integers(-20, 25)),
)
def test_the_sum_is_that_of_the_joint_law(
    parent: ParentPrior, rho1: Fraction, rho2: Fraction, d: int, p: Fraction, known: int, released: tuple[int, int, int]
) -> None:
    model = TwoLevel(rho1, rho2, d, p, known=known, parent=parent)
    posterior, law = brute(model, *released)
    assert float(model.posterior(*released)) == pytest.approx(posterior, rel=1e-10)
    found = model.law_of_parent(*released)
    for k2, chance in law.items():
        assert found.p(k2) == pytest.approx(chance, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(PARENTS[:5]),
    st.integers(1, 30),
    st.tuples(st.integers(-3, 5), st.integers(-4, 12), st.integers(-12, 12)),
)
def test_the_unrestricted_law_is_stationary(parent: ParentPrior, d: int, released: tuple[int, int, int]) -> None:
    """One sweep of the sampler, X2 given X1 and X1 given X2 by (3.8), maps it to itself."""
    x1, x2, y = released
    model = TwoLevel("1/10", "1/4", d, "1/3", parent=parent)
    present = float(model.posterior(x1, x2, y, Variant.UNRESTRICTED))
    after = 0.0
    for k1, share in ((0, 1 - present), (1, present)):
        rest = parent.rest(k1)
        assert rest is not None
        z = np.arange(200)
        weights = np.exp(rest.log_weight(z) - 0.25 * (x2 - k1 - z) ** 2 - 0.1 / d * (y - z) ** 2)
        step = expit(log(1 / 2) + 0.1 * (2 * x1 - 1) + 0.1 / d * (2 * (k1 + z - y) - 1))
        after += share * float(weights @ step / weights.sum())
    assert after == pytest.approx(present, abs=1e-12)


def test_what_is_known_of_others_only_shifts_counts() -> None:
    for variant in Variant:
        moved = TwoLevel(RHO1, RHO2, 27, known=5).posterior(7, 6, -1, variant)
        assert float(moved) == pytest.approx(float(CENSUS.posterior(2, 1, -1, variant)), abs=1e-14)
    ten = TwoLevel(RHO1, RHO2, 27, known=5, parent=UniformParent(10))
    assert ten.law_of_parent(7, 6, -1).first == 5
    assert ten.law_of_parent(7, 6, -1).p(11) == 0


def test_an_impossible_count_has_no_posterior() -> None:
    nobody = TwoLevel(RHO1, RHO2, 27, parent=PointParent(0))
    assert float(nobody.posterior(9, 9, -9)) == 0
    assert nobody.law_of_parent(9, 9, -9).p(0) == 1
    with pytest.raises(ParameterError, match="no room"):
        TwoLevel(RHO1, RHO2, 27, known=3, parent=PointParent(2))


def test_nothing_underflows() -> None:
    extreme = TwoLevel(100, 400, 3)
    found = extreme.log_odds([0, 1, 50, -50], [-300, 400, 10**6, 3], [5000, -5000, 10**6, -(10**6)])
    assert np.isfinite(found).all()
    wide = TwoLevel("1e-6", "1e-6", 5)
    assert float(wide.posterior(3, 100, 50)) == pytest.approx(brute(wide, 3, 100, 50, top=20_000)[0], rel=1e-9)
    for variant in Variant:
        assert np.isfinite(extreme.log_odds(9, [-30, 30], [30, -30], variant)).all()


@pytest.mark.parametrize(("rho", "d"), [(0.1, 27), (1.0, 27), (1.0, 5), (3.0, 4), (20.0, 6)])
def test_the_exact_noise_of_the_siblings(rho: float, d: int) -> None:
    _, one = gaussian_window(rho)
    law = one
    for _ in range(d - 1):
        law = np.convolve(law, one)
    middle = len(law) // 2
    values, found = sibling_window(rho, d, SiblingNoise.EXACT)
    inside = np.abs(values) <= middle
    assert found[inside] == pytest.approx(law[values[inside] + middle], abs=1e-14)


def test_how_good_the_approximation_of_the_siblings_is() -> None:
    assert approximation_error(float(RHO1), 27) < 1e-14
    assert approximation_error(1.0, 27) == pytest.approx(5.7e-4, rel=0.01)
    exact_noise = TwoLevel(RHO1, RHO2, 27, noise=SiblingNoise.EXACT)
    for variant in (Variant.STATED, Variant.UNRESTRICTED):
        expected = float(CENSUS.posterior(2, 1, -1, variant))
        assert float(exact_noise.posterior(2, 1, -1, variant)) == pytest.approx(expected, abs=1e-13)


def test_exact_sibling_noise_is_that_of_siblings_of_their_own() -> None:
    """With d = 2 the sum of two noises is brute force over both."""
    rho1, rho2 = 1.5, 0.5
    model = TwoLevel("3/2", "1/2", 2, "1/3", noise=SiblingNoise.EXACT)
    weights = {0: 0.0, 1: 0.0}
    for k1, p in ((0, 2 / 3), (1, 1 / 3)):
        for z in range(60):
            noise = sum(exp(-rho1 * (i**2 + (1 - z - i) ** 2)) for i in range(-60, 61))  # two noises with sum y* − z
            weights[k1] += p * exp(-rho1 * (2 - k1) ** 2 - rho2 * (3 - k1 - z) ** 2) * noise
    assert float(model.posterior(2, 3, 1)) == pytest.approx(weights[1] / (weights[0] + weights[1]), abs=1e-13)


def test_refusals() -> None:
    for bad in ((0.1, "1/4", 27), ("0", "1/4", 27), ("1/10", "1/4", 0), ("1/10", "1/4", 27, "1")):
        with pytest.raises(ParameterError):
            TwoLevel(*bad)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="whole"):
        CENSUS.posterior(1.5, 0, 0)
    for text in ("uniform", "uniform:-1", "point:x", "flat:3:4", "normal:1", "geometric:0", "poisson:abc"):
        with pytest.raises(ParameterError):
            parse_parent_prior(text)
    with pytest.raises(ParameterError):
        ListedPrior([])
    with pytest.raises(ParameterError):
        ListedPrior([1, -1])
    with pytest.raises(ParameterError):
        ListedPrior([0.5, 0.5])  # type: ignore[list-item]
    assert parse_parent_prior("uniform:10") == UniformParent(10)
    assert parse_count_prior("flat:7") == Flat(7)
    assert parse_count_prior("point:2") == Point(2)


def test_priors_are_laws() -> None:
    counts = np.arange(-3, 4000)
    for prior in (
        Flat(9),
        Point(4),
        Geometric("1/10"),
        Geometric(50),
        Poisson("1/3"),
        Poisson(200),
        ListedPrior([1, 0, 3]),
    ):
        weights = np.exp(prior.log_weight(counts))
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert weights[:3].sum() == 0
    assert np.exp(Geometric("1/10").log_weight(counts)) @ counts == pytest.approx(0.1)
    assert np.exp(Poisson(200).log_weight(counts)) @ counts == pytest.approx(200)


def test_a_posterior_takes_less_than_a_hundred_microseconds(capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(1)
    released = draw.integers(-5, 8, 20_000), draw.integers(-3, 8, 20_000), draw.integers(-30, 31, 20_000)
    CENSUS.posterior(*released)
    begin = time.process_time()
    CENSUS.posterior(*released)
    each = (time.process_time() - begin) / 20_000 * 1e6
    with capsys.disabled():
        sys.stdout.write(f"\n{each:.1f} microseconds for a posterior, in bulk\n")
    assert each < 100
