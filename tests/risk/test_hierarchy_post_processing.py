"""What post-processing leaves of the risk: published curve, exact values, the bound, brute force."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.lab.risk.bayesian.counts import SiblingNoise
from confide.lab.risk.bayesian.two_level import HalfRounding, PostProcessing

RHO1 = Fraction(64, 25) * Fraction(165, 4099) * Fraction(3945, 4097)
CENSUS = PostProcessing(RHO1, siblings=27)


@pytest.mark.parametrize(
    ("published", "risk"),
    [
        (0, 1.000000),
        (1, 1.032219),
        (2, 1.036473),
        (3, 1.038994),
        (4, 1.040153),
        (5, 1.040716),
        (10, 1.041723),
        (20, 1.043343),
        (30, 1.044601),
        (50, 1.046353),
        (75, 1.047479),
        (100, 1.047947),
        (200, 1.048235),
    ],
)
def test_risk_by_the_published_parent(published: int, risk: float) -> None:
    assert CENSUS.risk(published).risk == pytest.approx(risk, abs=6e-7)


def test_what_post_processing_can_and_cannot_exceed() -> None:
    assert CENSUS.without() == pytest.approx(1.047333, abs=6e-7)
    assert CENSUS.bound() == pytest.approx(1.049005, abs=6e-7)
    # "Bounded above by the risk without post-processing" does not hold: y* and x2 say something too.
    assert CENSUS.risk(75).risk > CENSUS.without() > CENSUS.risk(50).risk
    # The bound is that of one noise with ρ1(1+1/d).
    assert PostProcessing(CENSUS.effective_rho, 27).without() == pytest.approx(CENSUS.bound(), abs=1e-12)


def test_where_the_reduction_is_not_minor() -> None:
    strong = PostProcessing(2, 27)
    assert strong.without() == pytest.approx(1.6239, abs=5e-5)
    assert strong.risk(100).risk == pytest.approx(1.3787, abs=5e-5)


def test_halves() -> None:
    up = PostProcessing(RHO1, 27, rounding=HalfRounding.HALF_UP)
    for published in (2, 5, 10, 50):
        difference = up.risk(published).risk - CENSUS.risk(published).risk
        assert 1e-5 < abs(difference) < 1e-3
    # A parent published as nobody leaves nothing to learn.
    assert CENSUS.risk(0).risk == up.risk(0).risk == pytest.approx(1, abs=1e-13)


def rounded(value: Fraction, rounding: HalfRounding) -> int:
    return round(value) if rounding is HalfRounding.HALF_EVEN else floor(value + Fraction(1, 2))


@settings(max_examples=25, deadline=None)
@given(
    st.fractions("1/4", 2, max_denominator=8),
    st.integers(1, 6),
    st.sampled_from(["1/2", "1/7"]),
    st.integers(0, 12),
    st.integers(1, 4),
    st.sampled_from(list(HalfRounding)),
)
def test_the_risk_is_the_sum_over_all_releases(
    rho1: Fraction, d: int, p: str, published: int, x2: int, rounding: HalfRounding
) -> None:
    rho = float(rho1)
    own = range(-ceil((40 / rho) ** 0.5), ceil((40 / rho) ** 0.5) + 1)
    rest = range(-ceil((40 * d / rho) ** 0.5), ceil((40 * d / rho) ** 0.5) + 1)
    laws: list[dict[int, float]] = []
    for k1 in (0, 1):
        law: dict[int, float] = {}
        for e in own:
            for n in rest:
                xbar = Fraction(d * (k1 + e) + published - (x2 - k1 + n), d + 1)
                value = 0 if xbar < 0 else published if xbar > published else rounded(xbar, rounding)
                law[value] = law.get(value, 0.0) + exp(-rho * e**2 - rho / d * n**2)
        total = sum(law.values())
        laws.append({value: weight / total for value, weight in law.items()})
    prior = float(Fraction(p))
    expected = sum(
        chance * prior * chance / (prior * chance + (1 - prior) * laws[0].get(value, 0.0))
        for value, chance in laws[1].items()
    )
    model = PostProcessing(rho1, d, p, x2=x2, rounding=rounding)
    found = model.risk(published)
    assert found.risk == pytest.approx(expected / prior, abs=1e-11)
    assert found.risk <= model.bound() + 1e-12
    assert found.present.probabilities.sum() == pytest.approx(1, abs=1e-12)


def test_what_is_known_of_others_shifts_counts_and_the_exact_noise_can_be_had() -> None:
    shifted = PostProcessing(RHO1, 27, x2=6, known=5)
    assert shifted.bound() == pytest.approx(CENSUS.bound(), abs=1e-13)
    assert shifted.risk(500).risk <= shifted.bound()
    exact_noise = PostProcessing(RHO1, 27, noise=SiblingNoise.EXACT)
    assert exact_noise.bound() == pytest.approx(CENSUS.bound(), abs=1e-12)
    assert exact_noise.risk(10).risk == pytest.approx(CENSUS.risk(10).risk, abs=1e-12)
    strong = PostProcessing(2, 27, noise=SiblingNoise.EXACT)
    assert strong.bound() != pytest.approx(PostProcessing(2, 27).bound(), abs=1e-5)
    assert strong.risk(100).risk < strong.bound()


def test_refusals() -> None:
    with pytest.raises(ParameterError):
        PostProcessing(RHO1, 27, x2=0)
    with pytest.raises(ParameterError):
        PostProcessing(RHO1, 0)
    with pytest.raises(ParameterError):
        CENSUS.risk(-1)
