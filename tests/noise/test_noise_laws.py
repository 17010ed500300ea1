"""The laws: probabilities, quantiles, noise margins, text and refusals."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.noise import as_mpf, folded_cdf, named, weight
from tests.kits.times import mostly_slow

from confide.errors import ParameterError
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric

LAWS: list[NoiseDistribution] = [
    *(DiscreteGaussian(sigma2) for sigma2 in ("1/10", 1, "10.24", "31.446540880503143", 289, 3600)),
    *(TwoSidedGeometric(epsilon) for epsilon in ("1/10", 1, "5/2")),
]


def holds(bounds: tuple[Fraction, Fraction], value: mpmath.mpf) -> bool:
    return bool(as_mpf(bounds[0]) <= value <= as_mpf(bounds[1]))


@pytest.mark.parametrize("law", mostly_slow(LAWS, 5), ids=named)
def test_probabilities_hold_the_1600_bit_values_and_round_to_the_nearest_float(law: NoiseDistribution) -> None:
    with mpmath.workprec(1600):
        folded = folded_cdf(law, 1500)
        for x in (-9, -1, 0, 1, 2, 25):
            if abs(x) >= len(folded):
                continue
            pmf = weight(law, abs(x)) * folded[0]
            cdf = (1 + folded[x]) / 2 if x >= 0 else (1 - folded[-x - 1]) / 2
            assert holds(law.pmf_bounds(x, 300), pmf)
            assert holds(law.cdf_bounds(x, 300), cdf)
            assert holds(law.tail_bounds(x, 300), 1 - cdf)
            assert (law.pmf(x), law.cdf(x), law.tail(x)) == (float(pmf), float(cdf), float(1 - cdf))
            lower, upper = law.cdf_bounds(x, 300)
            assert upper - lower <= Fraction(1, 1 << 300)


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_variance_holds_the_500_bit_value(law: NoiseDistribution) -> None:
    with mpmath.workprec(500):
        folded = folded_cdf(law, 400)
        variance = sum(2 * m * m * weight(law, m) for m in range(1, len(folded) + 400)) * folded[0]
        # The exact value may be closer to sigma2 than 500 bits can tell.
        lower, upper = law.variance_bounds(200)
        assert as_mpf(lower) - mpmath.mpf(2) ** -300 <= variance <= as_mpf(upper) + mpmath.mpf(2) ** -300
        assert law.variance() == float(variance)


def test_far_tails_keep_every_digit() -> None:
    law = DiscreteGaussian(1)
    with mpmath.workprec(4000):
        total = mpmath.jtheta(3, 0, mpmath.exp(-mpmath.mpf(1) / 2))
        assert law.tail(37) == float(sum(mpmath.exp(-mpmath.mpf(n * n) / 2) for n in range(38, 80)) / total)
        assert law.pmf(38) == float(mpmath.exp(-mpmath.mpf(38 * 38) / 2) / total) > 0
    assert law.pmf(10**6) == 0.0


@pytest.mark.parametrize("sigma2", [10**12, "1e30", Fraction(10**24, 7)])
def test_huge_scales(sigma2: int | str | Fraction) -> None:
    law = DiscreteGaussian(sigma2)
    scale = math.sqrt(law.sigma2)
    # At this scale the law is the continuous one to far more digits than a float has.
    assert law.pmf(0) == pytest.approx(1 / (scale * math.sqrt(2 * math.pi)), rel=1e-14)
    assert law.variance() == float(law.sigma2)
    assert law.noise_margin("0.95") == pytest.approx(1.959963984540054 * scale, rel=1e-5)
    assert law.cdf(round(scale)) == pytest.approx(0.8413447460685429, rel=1e-6)
    geometric = TwoSidedGeometric(1 / law.sigma2)
    assert geometric.variance() == pytest.approx(2 * float(law.sigma2) ** 2, rel=1e-12)
    assert geometric.noise_margin("0.95") == pytest.approx(math.log(20) * float(law.sigma2), rel=1e-9)


@pytest.mark.parametrize("law", [DiscreteGaussian("1/1000000"), TwoSidedGeometric(10**6)], ids=named)
def test_tiny_scales(law: NoiseDistribution) -> None:
    assert law.pmf(0) == law.cdf(0) == 1.0
    assert law.cdf(-1) == law.pmf(1) == law.variance() == 0.0
    assert law.noise_margin("0.999999") == law.quantile("1e-9") == 0


def test_known_quantile() -> None:
    assert DiscreteGaussian("31.446540880503143").quantile("0.9999") == 21


@pytest.mark.parametrize("law", LAWS, ids=named)
@pytest.mark.parametrize(
    "p", mostly_slow(["1e-30", "0.25", "1/2", "0.9999", "1", "0.001", "0.499", "0.501", "0.9", "0.99999999999"], 5)
)
def test_a_quantile_is_the_smallest_x_that_reaches_p(law: NoiseDistribution, p: str) -> None:
    if p == "1":
        with pytest.raises(ParameterError, match="less than one"):
            law.quantile(p)
        return
    x = law.quantile(p)
    with mpmath.workprec(500):
        folded = folded_cdf(law, 400)

        def cdf(at: int) -> mpmath.mpf:
            return (1 + folded[at]) / 2 if at >= 0 else (1 - folded[-at - 1]) / 2

        assert cdf(x - 1) < as_mpf(Fraction(p)) <= cdf(x)


@pytest.mark.parametrize("law", LAWS, ids=named)
@pytest.mark.parametrize("level", mostly_slow(["0.01", "0.95", "0.9999999", "0.5", "0.9", "0.99"], 3))
def test_a_noise_margin_is_the_smallest_that_reaches_its_level(law: NoiseDistribution, level: str) -> None:
    m = law.noise_margin(level)
    with mpmath.workprec(500):
        folded = folded_cdf(law, 400)
        assert folded[m] >= as_mpf(Fraction(level))
        assert m == 0 or folded[m - 1] < as_mpf(Fraction(level))


def test_known_noise_margins() -> None:
    assert [DiscreteGaussian(289).noise_margin(level) for level in ("0.9", "0.95", "0.99")] == [28, 33, 44]
    assert [TwoSidedGeometric("1/10").noise_margin(level) for level in ("0.9", "0.95", "0.99")] == [23, 30, 46]


@settings(max_examples=40)
@given(st.fractions(min_value=Fraction(1, 1000), max_value=10**7), st.booleans())
def test_any_rational_parameter_works(parameter: Fraction, gaussian: bool) -> None:
    if parameter == 0:
        return
    law: NoiseDistribution = DiscreteGaussian(parameter) if gaussian else TwoSidedGeometric(parameter)
    assert NoiseDistribution.from_dict(law.as_dict()) == law
    m = law.noise_margin("0.9")
    _, upper = law.folded_cdf_bounds(m, 40)
    assert upper >= Fraction(9, 10)
    assert law.cdf(m) + law.tail(m) == pytest.approx(1)
    assert law.quantile("0.95") == m


def test_text_goes_there_and_back() -> None:
    assert DiscreteGaussian("64.5").as_dict() == {"law": "discrete-gaussian", "sigma2": "129/2"}
    assert NoiseDistribution.from_dict({"law": "two-sided-geometric", "epsilon": "0.1"}) == TwoSidedGeometric("1/10")
    assert repr(DiscreteGaussian("64.5")) == "DiscreteGaussian('129/2')"
    assert pickle.loads(pickle.dumps(TwoSidedGeometric(1))) == TwoSidedGeometric(1)
    assert DiscreteGaussian(1) != TwoSidedGeometric(1)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"law": "gaussian", "sigma2": "1"},
        {"law": "discrete-gaussian", "epsilon": "1"},
        {"law": "discrete-gaussian", "sigma2": 1.0},
        {"law": "discrete-gaussian", "sigma2": "1", "epsilon": "1"},
    ],
)
def test_what_is_not_a_law_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="does not describe a noise law"):
        NoiseDistribution.from_dict(values)


@pytest.mark.parametrize("kind", [DiscreteGaussian, TwoSidedGeometric])
def test_parameters_are_exact_and_positive(kind: type) -> None:
    with pytest.raises(ParameterError, match="floating-point"):
        kind(0.1)
    with pytest.raises(ParameterError, match="greater than zero"):
        kind(0)
    with pytest.raises(ParameterError, match="floating-point"):
        kind(1).noise_margin(0.95)


def test_descriptions() -> None:
    assert DiscreteGaussian(289).describe() == (
        "Discrete Gaussian noise with sigma2 = 289: standard deviation 17, within ±33 in at least 95 % of draws"
    )
    assert TwoSidedGeometric("1/10").describe().startswith("Two-sided geometric noise with epsilon = 1/10: ")
