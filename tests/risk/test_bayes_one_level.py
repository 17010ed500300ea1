"""The Bayesian adversary at one level: bounds, shapes, extremes, and brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import exp, inf, isclose, log

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.lab.risk.bayesian import (
    CountEvidence,
    ListedEvidence,
    assess,
    decide,
    evidence_of,
    evidence_of_rows,
    gaussian_for,
    gaussian_marginal,
    geometric_for,
    marginal_risk,
    posterior,
    risk_at,
)
from confide.lab.risk.bayesian.evidence import exceeds_even_odds
from confide.noise import DiscreteGaussian, FiniteDistribution, TruncatedGaussian, TruncatedGeometric, TwoSidedGeometric
from confide.privacy import Neighbours

rhos = st.fractions(Fraction(1, 200), 5, max_denominator=400)
priors = st.fractions(Fraction(1, 10**6), Fraction(999, 1000), max_denominator=10**6)


def brute(weights: dict[int, float], prior: float) -> tuple[float, float, float]:
    """Expected posterior and right decisions, term by term from the definitions."""
    expected = right_1 = right_0 = 0.0
    for k in range(min(weights), max(weights) + 2):
        one, other = weights.get(k - 1, 0.0), weights.get(k, 0.0)
        if one + other < 1e-290:
            continue
        after = prior * one / (prior * one + (1 - prior) * other)
        expected += one * after
        right_1 += one * (after > 0.5)
        right_0 += other * (after <= 0.5)
    return expected, right_1, right_0


@settings(max_examples=40, deadline=None)
@given(rhos, priors)
def test_discrete_gaussian_against_brute_force(rho: Fraction, prior: Fraction) -> None:
    weights = {x: exp(-float(rho) * x * x) for x in range(-400, 401)}
    total = sum(weights.values())
    expected, right_1, right_0 = brute({x: w / total for x, w in weights.items()}, float(prior))
    (found,) = assess(evidence_of(gaussian_for(rho)), [prior])
    assert isclose(found.marginal_posterior, expected, rel_tol=1e-9)
    assert isclose(found.decision.given_1, right_1, rel_tol=1e-9, abs_tol=1e-12)
    assert isclose(found.decision.given_0, right_0, rel_tol=1e-9, abs_tol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.fractions(Fraction(1, 5), 6, max_denominator=50), priors)
def test_geometric_against_brute_force(epsilon: Fraction, prior: Fraction) -> None:
    q = exp(-float(epsilon))
    # The odds must not be even by chance of rounding.
    assume(abs(abs(log(float(prior / (1 - prior)))) - float(epsilon)) > 1e-9)
    law = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-200, 201)}
    expected, right_1, right_0 = brute(law, float(prior))
    (found,) = assess(evidence_of(geometric_for(epsilon)), [prior])
    assert isclose(found.marginal_posterior, expected, rel_tol=1e-9)
    assert isclose(found.decision.given_1, right_1, rel_tol=1e-9, abs_tol=1e-12)
    assert isclose(found.decision.given_0, right_0, rel_tol=1e-9, abs_tol=1e-12)
    ratios = set(np.round(evidence_of(geometric_for(epsilon)).log_ratio(np.arange(-5, 6)), 12))
    assert ratios == {round(float(epsilon), 12), round(-float(epsilon), 12)}


@settings(max_examples=60, deadline=None)
@given(rhos, st.lists(priors, min_size=2, max_size=5, unique=True))
def test_the_risk_falls_with_the_prior_and_stays_below_its_limit(rho: Fraction, some: list[Fraction]) -> None:
    seen = evidence_of(gaussian_for(rho))
    rising = sorted(some)
    excess = marginal_risk(seen, rising).excess
    assert all(larger > smaller * (1 - 1e-12) for larger, smaller in pairwise(excess))
    assert excess[-1] > 0
    assert excess[0] <= np.expm1(2 * float(rho)) * (1 + 1e-12)
    assert isclose(seen.limit, exp(2 * float(rho)), rel_tol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.fractions(Fraction(1, 20), 3, max_denominator=50), priors)
def test_every_law_stays_below_exp_of_twice_its_rho(epsilon: Fraction, prior: Fraction) -> None:
    # Pure epsilon is epsilon**2 / 2 zCDP.
    risk = marginal_risk(evidence_of(TwoSidedGeometric(epsilon)), [prior]).risk[0]
    assert 1 <= risk <= exp(float(epsilon) ** 2) * (1 + 1e-12)


@pytest.mark.parametrize("rho", ["1e-9", "1/10", "1", "3/2", "7", "30", "100"])
def test_the_limit_is_a_sum_over_unlikely_values(rho: str) -> None:
    seen = evidence_of(gaussian_for(rho))
    by_sum = seen.transform(np.array([1.0 + 0j]))[0].real
    assert seen.limit == pytest.approx(exp(2 * float(Fraction(rho))), rel=1e-12)
    assert by_sum == pytest.approx(seen.limit, rel=1e-12)
    assert evidence_of(gaussian_for(400)).limit == inf


def test_the_risk_need_not_rise_with_rho() -> None:
    """Noise is discrete: with little of it, a sceptic learns less from a larger rho. The average decision is alike."""
    wide, narrow = (marginal_risk(evidence_of(gaussian_for(rho)), ["1/864"]).posterior[0] for rho in ("2.8", "3.2"))
    assert (wide, narrow) == pytest.approx((0.062091, 0.061170), abs=6e-7)


def test_the_risk_is_convex_in_the_prior() -> None:
    grid = [Fraction(k, 200) for k in range(1, 200)]
    risk = marginal_risk(evidence_of(gaussian_for("0.7")), grid).risk
    assert (np.diff(risk, 2) > 0).all()


@settings(max_examples=30, deadline=None)
@given(rhos, priors, st.integers(-30, 30))
def test_log_odds_add_up(rho: Fraction, prior: Fraction, released: int) -> None:
    after = posterior(evidence_of(gaussian_for(rho)), [prior], [released])[0, 0]
    expected = log(float(prior / (1 - prior))) + float(rho) * (2 * released - 1)
    assume(abs(expected) < 25)
    assert log(after / (1 - after)) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_the_known_count_only_shifts() -> None:
    seen = evidence_of(gaussian_for("1/10"))
    assert (posterior(seen, ["1/5"], [7, 9], known=7) == posterior(seen, ["1/5"], [0, 2])).all()


@pytest.mark.parametrize("rho", ["1e-9", "1e-5", "1/10", "2", "100"])
@pytest.mark.parametrize("prior", ["1/1000000000", "1/5", "999999/1000000"])
def test_extremes_against_many_digits(rho: str, prior: str) -> None:
    found = marginal_risk(evidence_of(gaussian_for(rho)), [prior])
    with mpmath.workdps(40):
        rate, p = mpmath.mpf(rho) if "/" not in rho else mpmath.mpf(1) / 10, mpmath.mpf(1)
        top, _, bottom = prior.partition("/")
        p = mpmath.mpf(int(top)) / int(bottom)
        if rate < mpmath.mpf("0.01"):
            # Wide noise: the sum is an integral to more digits than are compared.
            def term(x: mpmath.mpf) -> mpmath.mpf:
                back = mpmath.exp(-rate * (2 * x - 1))
                return mpmath.exp(-rate * (x - 1) ** 2) * (1 / (p + (1 - p) * back) - 1)

            sigma = 1 / mpmath.sqrt(2 * rate)
            points = [sigma * step for step in range(-14, 15)]
            excess = mpmath.quad(term, points) * mpmath.sqrt(rate / mpmath.pi)
        else:
            grid = range(-60, 62)
            weight = {k: mpmath.exp(-rate * (k - 1) ** 2) for k in grid}
            total = sum(weight.values())
            excess = (
                sum(w * (1 / (p + (1 - p) * mpmath.exp(-rate * (2 * k - 1))) - 1) for k, w in weight.items()) / total
            )
        expected = float(excess)
    assert found.excess[0] == pytest.approx(expected, rel=1e-11)
    assert found.error[0] < 1e-12 * found.excess[0]


def test_many_priors_and_values_at_once() -> None:
    seen = evidence_of(gaussian_for("1/10"))
    some = [Fraction(k, 1001) for k in range(1, 1001)]
    table = risk_at(seen, some, range(-50, 51))
    assert table.shape == (1000, 101)
    assert (np.diff(table, axis=1) > 0).all()
    one_by_one = [marginal_risk(seen, [p]).risk[0] for p in some[::250]]
    assert list(marginal_risk(seen, some).risk[::250]) == pytest.approx(one_by_one, rel=1e-14)


def test_the_average_is_at_least_the_better_guess() -> None:
    for law in (DiscreteGaussian(3), TwoSidedGeometric("1/2"), TruncatedGaussian(2, 4), TruncatedGeometric("1/2", 3)):
        for prior in ("1/10", "1/2", "4/5"):
            p = float(Fraction(prior))
            assert decide(evidence_of(law), prior).average >= max(p, 1 - p) - 1e-15


def test_ties_decide_against_the_target() -> None:
    assert not exceeds_even_odds(Fraction(0), Fraction(1, 2))
    # log 4 lies strictly between these two, which differ in the twentieth digit.
    low, high = Fraction("1.38629436111989061883"), Fraction("1.38629436111989061884")
    assert not exceeds_even_odds(low, Fraction(1, 5))
    assert exceeds_even_odds(high, Fraction(1, 5))
    assert exceeds_even_odds(-low, Fraction(4, 5))
    assert not exceeds_even_odds(-high, Fraction(4, 5))
    flat = evidence_of(FiniteDistribution([-1, 0, 1], ["1/3", "1/3", "1/3"]))
    found = decide(flat, "1/2")
    assert found.region.values == (2,)
    assert (found.given_1, found.given_0) == pytest.approx((1 / 3, 1.0))


def test_geometric_decisions_are_all_or_nothing() -> None:
    seen = evidence_of(TwoSidedGeometric(1))
    assert decide(seen, "1/2").region.threshold == 1
    assert decide(seen, "1/5").region.threshold == inf
    assert decide(seen, "1/5").given_0 == 1
    assert decide(seen, "4/5").region.kind == "always"
    assert decide(seen, "4/5").given_1 == 1


@pytest.mark.parametrize("law", [TruncatedGaussian(2, 5), TruncatedGeometric("1/2", 4)])
@pytest.mark.parametrize("prior", ["1/100", "1/3", "1/2", "9/10"])
def test_truncated_laws_against_their_lists(law: TruncatedGaussian | TruncatedGeometric, prior: str) -> None:
    listed = {x: law.pmf(x) for x in range(-law.bound, law.bound + 1)}
    expected, right_1, right_0 = brute(listed, float(Fraction(prior)))
    (found,) = assess(evidence_of(law), [prior])
    assert found.marginal_posterior == pytest.approx(expected, rel=1e-12)
    assert found.decision.given_1 == pytest.approx(right_1, rel=1e-12)
    assert found.decision.given_0 == pytest.approx(right_0, rel=1e-12)
    seen = evidence_of(law)
    assert seen.limit == inf
    # A value that only the target explains is certain knowledge.
    assert posterior(seen, [prior], [law.bound + 1])[0, 0] == pytest.approx(1)
    assert posterior(seen, [prior], [-law.bound])[0, 0] == 0
    with pytest.raises(ParameterError):
        posterior(seen, [prior], [law.bound + 2])


def test_a_region_that_no_threshold_describes() -> None:
    law = FiniteDistribution([-3, 0, 3], ["1/4", "1/2", "1/4"])
    found = decide(evidence_of(law), "1/2")
    assert found.region.kind == "set"
    assert found.region.threshold is None
    assert found.region.values == (-2, 1, 4)
    assert (found.given_1, found.given_0) == (1, 1)
    (all_told,) = assess(evidence_of(law), ["1/2"])
    assert all_told.marginal_posterior == 1


def test_rows_of_a_perturbation_table_differ() -> None:
    """The row of the known count and the row of the next one are two laws."""
    row_1 = {-1: "1/4", 0: "1/2", 1: "1/4"}
    row_2 = {-2: "1/10", -1: "2/10", 0: "4/10", 1: "2/10", 2: "1/10"}
    seen = evidence_of_rows(row_1, row_2)
    assert isinstance(seen, ListedEvidence)
    # k = -1: 1/10 with, 1/4 without; the prior is even.
    assert posterior(seen, ["1/2"], [-1, 0, 1, 2])[0] == pytest.approx([2 / 7, 2 / 7, 8 / 13, 1])
    # Zero stays zero: whoever is alone in a cell is seen as soon as the cell is not empty.
    empty = evidence_of_rows({0: 1}, {-1: "1/2", 1: "1/2"})
    assert posterior(empty, ["1/10"], [0, 2])[0] == pytest.approx([1 / 19, 1])


def test_gaussian_identity() -> None:
    exact_one = marginal_risk(evidence_of(gaussian_for("1/10")), ["1/5"]).posterior[0]
    assert gaussian_marginal("1/5", "1/10") == pytest.approx(exact_one, rel=1e-13)
    at_two = marginal_risk(evidence_of(gaussian_for(2)), ["1/5"]).posterior[0]
    assert abs(gaussian_marginal("1/5", 2) - at_two) > 5e-3


def test_scales_of_the_geometric_law() -> None:
    assert geometric_for(1).epsilon == 1
    assert geometric_for(1, Neighbours.CHANGE_ONE).epsilon == Fraction(1, 2)


@pytest.mark.parametrize("prior", [0, 1, "3/2", "-1/2", "1e-400"])
def test_certain_adversaries_are_refused(prior: str) -> None:
    with pytest.raises(ParameterError):
        marginal_risk(evidence_of(gaussian_for(1)), [prior])


def test_floats_and_wrong_numbers_are_refused() -> None:
    seen: CountEvidence = evidence_of(gaussian_for(1))
    with pytest.raises(ParameterError):
        marginal_risk(seen, [0.5])  # type: ignore[list-item]
    with pytest.raises(ParameterError):
        gaussian_for(0.1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        gaussian_for(0)
    with pytest.raises(ParameterError):
        marginal_risk(seen, [])
    with pytest.raises(ParameterError):
        posterior(seen, ["1/2"], [1.5])  # type: ignore[list-item]
    with pytest.raises(ParameterError):
        evidence_of_rows({0: "1/2"}, {0: 1})
    with pytest.raises(ParameterError):
        marginal_risk(evidence_of(gaussian_for("1e-20")), ["1/2"])
    with pytest.raises(ParameterError):
        evidence_of(object())  # type: ignore[arg-type]
