"""``confide risk profile``: the largest rho for a profile of posteriors, and the side that binds."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from tests.kits.commands import codes, run, run_json

from confide.lab.risk import tune_risk
from confide.lab.risk.bayesian import assess, evidence_of, gaussian_for, gaussian_marginal
from confide.lab.risk.bayesian.decision_map import expected_posteriors


def test_a_ratio_for_all_priors_has_a_closed_form() -> None:
    answer = run_json("risk", "profile", "--profile", "posterior<=3*prior")
    assert Fraction(answer["rho"]) <= Fraction(log(3) / 2) < Fraction(answer["rho"]) + Fraction(1, 10**6)
    assert answer["binding"]["target"] == "presence"
    assert answer["binding"]["side"] == "upper"
    assert answer["binding"]["prior"] == 0
    assert answer["holds_for"] == "every rho-zCDP release"
    assert [side["side"] for side in answer["sides"]] == ["upper", "lower"]
    assert exp(2 * answer["rho_decimal"]) <= 3


@pytest.mark.parametrize(
    "profile", ["posterior <= 3*prior where prior >= 1/10", "posterior <= 1/2 where prior <= 1/10"]
)
def test_the_posterior_is_just_within_the_profile(profile: str) -> None:
    """By code of its own: a sum over discrete noise, and quadrature by Hermite polynomials."""
    answer = tune_risk(profile)
    assert answer.binding.prior == pytest.approx(0.1)
    limit = 0.3 if "3*prior" in profile else 0.5
    assert gaussian_marginal("1/10", answer.rho) == pytest.approx(limit, rel=1e-4)
    assert gaussian_marginal("1/10", answer.rho * Fraction(101, 100)) > limit
    if answer.rho < 1:
        (risk,) = assess(evidence_of(gaussian_for(answer.rho)), ["1/10"])
        assert risk.marginal_posterior == pytest.approx(limit, rel=0.02)


def test_the_side_of_those_who_are_not_there_can_bind() -> None:
    answer = tune_risk(["posterior <= 9*prior where prior >= 1/10", "posterior >= prior*9/10"])
    assert answer.binding.name == "absence, lower"
    priors = np.linspace(0.01, 0.99, 99)
    present = expected_posteriors(priors, float(answer.rho))
    absent = (1 - present) / (1 - priors)
    assert absent.min() == pytest.approx(0.9, abs=1e-3)
    assert "absence, lower side binds" in run("risk", "profile", "--profile", "posterior >= 9/10*prior")


@pytest.mark.parametrize(("profile", "upper"), [("posterior <= 3*prior", True), ("posterior >= prior/3", False)])
def test_both_sides_are_those_of_an_adversary_who_sees_one_noisy_count(profile: str, upper: bool) -> None:
    """Bayes' theorem for a count with Gaussian noise, integrated over what is seen: no code of ours. With the rho that
    is found no prior passes the limit, the binding one reaches it, and one per cent more passes it."""

    def ratio(prior: float, rho: float) -> float:
        sd = sqrt(1 / (2 * rho))
        there, not_there = norm(1, sd).pdf, norm(0, sd).pdf

        def expectation(seen: float) -> float:
            both = prior * there(seen) + (1 - prior) * not_there(seen)
            return float((there if upper else not_there)(seen) * there(seen) / both)

        middle = 1.0 if upper else 0.0
        return float(quad(expectation, middle - 11 * sd, middle + 11 * sd, limit=200)[0])

    answer = tune_risk(profile)
    side = next(side for side in answer.sides if side.limit.upper is upper)
    assert answer.binding.rho == min(each.rho for each in answer.sides)
    prior, limit = max(side.prior, 1e-6), 3.0 if upper else 1 / 3
    assert ratio(prior, side.rho) == pytest.approx(limit, rel=1e-4)
    others = [ratio(each, side.rho) for each in (0.01, 0.1, 0.3, 0.5, 0.7, 0.95)]
    assert max(others) <= limit * 1.0001 if upper else min(others) >= limit * 0.9999
    beyond = ratio(prior, side.rho * 1.01)
    assert beyond > limit if upper else beyond < limit


def test_a_stricter_profile_has_a_smaller_rho() -> None:
    rhos = [tune_risk(f"posterior <= {times}*prior").rho for times in (2, 3, 10)]
    assert rhos == sorted(rhos)
    both = tune_risk(["posterior <= 10*prior", "posterior <= 3*prior where prior >= 1/10"])
    assert both.rho == min(rhos[2], tune_risk("posterior <= 3*prior where prior >= 1/10").rho)


@pytest.mark.parametrize(
    "profile",
    ["posterior <= prior", "posterior <= 1/2", "posterior <= 1/2*prior", "posterior >= 2*prior", "belief <= 3", "",
     "posterior <= 1/2 where prior <= 2", "posterior <= 3*prior where it rains"],
)  # fmt: skip
def test_what_is_no_profile_is_refused(profile: str) -> None:
    assert codes("risk", "profile", "--profile", profile) == ["bad-profile"]
