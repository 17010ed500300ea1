"""The published numbers of the Bayesian adversary at one level, and exact ones with more digits."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest

from confide.lab.risk.bayesian import (
    JointDecision,
    assess,
    combined_risk,
    combined_risk_at,
    equal_priors,
    evidence_of,
    gaussian_for,
    histogram_risk,
    in_sequence,
    marginal_risk,
    posterior,
    risk_at,
    two_cells,
)
from confide.lab.risk.bayesian.evidence import LawEvidence
from confide.lab.risk.bayesian.sequential import PRIORS
from confide.privacy import Neighbours

# Shares of rho 2.56, of a level and of its most detailed query: block, block group, tract, county, state, nation.
SHARES = [
    ("165/4099", "3945/4097"),
    ("1256/4099", "1288/4099"),
    ("687/4099", "241/2051"),
    ("447/4099", "754/4097"),
    ("1440/4099", "230/4097"),
    ("104/4099", "189/241"),
]
RHOS = [Fraction("2.56") * Fraction(level) * Fraction(query) for level, query in SHARES]
BLOCK = RHOS[0]


def released_with(rho: Fraction, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> LawEvidence:
    found = evidence_of(gaussian_for(rho, neighbours))
    assert isinstance(found, LawEvidence)
    return found


def test_rhos_of_the_levels() -> None:
    expected = [0.099226354, 0.246484510, 0.050416207, 0.051377735, 0.050487796, 0.050937796]
    assert [float(rho) for rho in RHOS] == pytest.approx(expected, abs=6e-10)
    assert float(sum(RHOS)) == pytest.approx(0.548930397, abs=6e-10)


# Table 4. The paper labels its mass column "given X1 = 1" (.161 .119 .073 .036 .015) and prints the one given X1 = 0.
MASS_WITH = [0.177721, 0.160933, 0.119499, 0.072761, 0.036328]
MASS_WITHOUT = [0.160933, 0.119499, 0.072761, 0.036328, 0.014873]
POSTERIORS = [
    [0.524786, 0.573875, 0.621550, 0.666986, 0.709517],
    [0.216349, 0.251879, 0.291076, 0.333653, 0.379127],
    [0.109292, 0.130160, 0.154323, 0.182032, 0.213461],
    [0.022040, 0.026749, 0.032430, 0.039270, 0.047481],
]
RISKS_AT = [
    [1.049573, 1.147750, 1.243100, 1.333972, 1.419033],
    [1.081747, 1.259396, 1.455381, 1.668264, 1.895633],
    [1.092915, 1.301599, 1.543226, 1.820321, 2.134611],
    [1.102017, 1.337455, 1.621524, 1.963494, 2.374044],
    [1.104183, 1.346189, 1.641136, 2.000555, 2.438466],
]


def test_posteriors_and_risks_at_released_counts() -> None:
    seen = released_with(BLOCK)
    assert posterior(seen, PRIORS[:4], range(1, 6)) == pytest.approx(np.array(POSTERIORS), abs=6e-7)
    assert risk_at(seen, PRIORS, range(1, 6)) == pytest.approx(np.array(RISKS_AT), abs=6e-7)


def test_how_likely_these_counts_are() -> None:
    law = gaussian_for(BLOCK)
    assert [law.pmf(x - 1) for x in range(1, 6)] == pytest.approx(MASS_WITH, abs=6e-7)
    assert [law.pmf(x) for x in range(1, 6)] == pytest.approx(MASS_WITHOUT, abs=6e-7)


# Table 5, with six digits: expected posterior and risk.
TABLE_5 = [(0.523666, 1.047333), (0.225423, 1.127115), (0.116761, 1.167606), (0.024159, 1.207971), (0.001411, 1.218828)]


def test_expected_posteriors_and_risks() -> None:
    found = assess(released_with(BLOCK), PRIORS)
    assert [(each.marginal_posterior, each.risk) for each in found] == [pytest.approx(row, abs=6e-7) for row in TABLE_5]
    assert [round(each.risk, 2) for each in found] == [1.05, 1.13, 1.17, 1.21, 1.22]


def test_the_rounded_rho_of_the_captions_gives_other_digits() -> None:
    found = assess(released_with(Fraction("0.099")), PRIORS)
    expected = [
        (0.523615, 1.04723),
        (0.225365, 1.126826),
        (0.116721, 1.167209),
        (0.024149, 1.207456),
        (0.00141, 1.218278),
    ]
    assert [(each.marginal_posterior, each.risk) for each in found] == [
        pytest.approx(row, abs=6e-7) for row in expected
    ]
    assert found[0].decision.given_1 == pytest.approx(0.588759, abs=6e-7)
    assert float(risk_at(released_with(Fraction("0.099")), ["1/864"], [5])[0, 0]) == pytest.approx(2.4335, abs=6e-5)


def test_noise_for_neighbours_that_change_one() -> None:
    seen = released_with(BLOCK, Neighbours.CHANGE_ONE)
    assert gaussian_for(BLOCK, Neighbours.CHANGE_ONE).sigma2 == 1 / BLOCK
    assert gaussian_for(BLOCK).sigma2 == 1 / (2 * BLOCK)
    assert list(marginal_risk(seen, PRIORS).risk) == pytest.approx([1.0242, 1.0636, 1.0821, 1.0996, 1.1040], abs=6e-5)
    both = combined_risk(two_cells(seen), PRIORS)
    assert [each.risk for each in both] == pytest.approx([risk for _, risk in TABLE_5], abs=6e-7)


@pytest.mark.parametrize(
    ("rho", "prior", "threshold", "right"),
    [
        (BLOCK, "1/2", 1, 0.588860),
        (Fraction("0.5"), "1/5", 2, 0.300529),
        (Fraction("0.6"), "1/5", 2, 0.281490),
        (BLOCK, "1/5", 8, 0.001752),
    ],
)
def test_decisions(rho: Fraction, prior: str, threshold: int, right: float) -> None:
    (found,) = assess(released_with(rho), [prior])
    assert found.decision.region.threshold == threshold
    assert found.decision.given_1 == pytest.approx(right, abs=6e-7)


def test_a_sceptical_adversary_hardly_ever_decides_for_the_target() -> None:
    (found,) = assess(released_with(BLOCK), ["1/10"])
    assert found.decision.region.threshold == 12
    assert found.decision.given_1 == pytest.approx(1.2e-6, rel=0.01)
    assert 0.9 <= found.decision.average < 0.9000001


LEVELS = [
    (0.099226, [1.047333, 1.127115, 1.167606, 1.207971, 1.218828], 1.219514),
    (0.345711, [1.149094, 1.435723, 1.628373, 1.892686, 1.989716], 1.996552),
    (0.396127, [1.167692, 1.496610, 1.727609, 2.064830, 2.198585], 2.208369),
    (0.447505, [1.185992, 1.557721, 1.829748, 2.251839, 2.433468], 2.447359),
    (0.497993, [1.203375, 1.616819, 1.930850, 2.446992, 2.688006], 2.707390),
    (0.548930, [1.220345, 1.675463, 2.033356, 2.655235, 2.970869], 2.997746),
]
LEVELS_POSTERIOR = [
    [0.523666, 0.225423, 0.116761, 0.024159, 0.001411],
    [0.574547, 0.287145, 0.162837, 0.037854, 0.002303],
    [0.583846, 0.299322, 0.172761, 0.041297, 0.002545],
    [0.592996, 0.311544, 0.182975, 0.045037, 0.002817],
    [0.601687, 0.323364, 0.193085, 0.048940, 0.003111],
    [0.610173, 0.335093, 0.203336, 0.053105, 0.003439],
]


@pytest.mark.parametrize("levels", range(1, 7))
def test_a_target_known_to_be_unique_at_several_levels(levels: int) -> None:
    total, risks, limit = LEVELS[levels - 1]
    assert float(sum(RHOS[:levels])) == pytest.approx(total, abs=6e-7)
    found = combined_risk([released_with(rho) for rho in RHOS[:levels]], PRIORS)
    assert [each.risk for each in found] == pytest.approx(risks, abs=6e-7)
    assert [each.marginal_posterior for each in found] == pytest.approx(LEVELS_POSTERIOR[levels - 1], abs=6e-7)
    assert exp(2 * float(sum(RHOS[:levels]))) == pytest.approx(limit, abs=6e-7)
    assert max(each.risk for each in found) < limit
    assert max(each.error for each in found) < 1e-14


def test_decisions_from_two_levels() -> None:
    # Continuous noise would give Phi(sqrt((rho1 + rho2) / 2)) = .661207; counts are discrete.
    right = JointDecision([released_with(rho) for rho in RHOS[:2]]).decide("1/2")
    assert right is not None
    assert right[0] == pytest.approx(0.661207, abs=2e-4)
    assert right[0] == pytest.approx(right[1], abs=1e-12)


def test_risk_at_what_is_released_multiplies() -> None:
    steps = in_sequence([released_with(BLOCK)] * 3, "1/2", [2, 3, 0])
    assert [step.prior for step in steps] == pytest.approx([0.5, 0.573875, 0.688649], abs=6e-7)
    assert [step.risk_at for step in steps] == pytest.approx([1.147750, 1.199998, 0.968543], abs=6e-7)
    product = steps[0].risk_at * steps[1].risk_at * steps[2].risk_at
    assert product == pytest.approx(1.333972, abs=6e-7)
    assert float(combined_risk_at([released_with(BLOCK)] * 3, ["1/2"], [2, 3, 0])[0]) == pytest.approx(
        product, rel=1e-13
    )


def test_expected_risk_does_not_multiply() -> None:
    (one,) = combined_risk([released_with(BLOCK)], ["1/2"])
    (two,) = combined_risk([released_with(BLOCK)] * 2, ["1/2"])
    assert two.risk == pytest.approx(1.090692, abs=6e-7)
    assert one.risk**2 == pytest.approx(1.096906, abs=6e-7)


def test_looking_at_all_cells() -> None:
    assert histogram_risk(released_with(BLOCK), equal_priors(864)) == pytest.approx(1.2191368, abs=1e-7)
    assert histogram_risk(released_with(BLOCK, Neighbours.CHANGE_ONE), equal_priors(864)) == pytest.approx(
        1.104, abs=5e-4
    )
    far = histogram_risk(released_with(BLOCK), equal_priors(20_000))
    assert far == pytest.approx(exp(2 * float(BLOCK)), abs=5e-5)
