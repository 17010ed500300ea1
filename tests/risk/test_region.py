"""Success models, small areas, and the region that is left."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.kits.times import mostly_slow

from confide.errors import ParameterError
from confide.lab.risk.bounded_noise import (
    BreakdownRule,
    Model,
    Optimum,
    ProtectedRegion,
    RegionQuestion,
    StaticProgramme,
    bound_risk,
    distortions,
    epsilon_for_bound,
    laplace_epsilon,
    load_programme,
    success_probability,
    variance_needed,
)
from confide.lab.risk.bounded_noise.noise_rows import (
    bound_for_epsilon,
    exceedance,
    geometric_exceedance,
    reconstruction_epsilon,
)


@pytest.fixture(scope="module")
def europe() -> StaticProgramme:
    return load_programme("eu-2021")


@pytest.mark.parametrize(
    ("ratio", "variance", "epsilon"),
    [
        (0.0867, 2.916, 0.828),
        (0.0884, 2.860, 0.836),
        (0.0916, 2.760, 0.851),
        (0.108, 2.341, 0.924),
        (0.112, 2.257, 0.941),
        (0.0118, 21.42, 0.3055),
        (0.0170, 14.87, 0.3667),
        (0.0234, 10.80, 0.430),
        (0.0237, 10.67, 0.433),
    ],
)
def test_variances_and_epsilons_that_averaging_asks_for(ratio: float, variance: float, epsilon: float) -> None:
    assert variance_needed(ratio) == pytest.approx(variance, rel=5e-4)
    assert laplace_epsilon(variance_needed(ratio)) == pytest.approx(epsilon, abs=5e-4)


def test_chebyshev_asks_for_less() -> None:
    assert variance_needed(0.0867, model=Model.CHEBYSHEV) == pytest.approx(0.923, abs=5e-4)
    assert variance_needed(0.0118, model=Model.CHEBYSHEV) == pytest.approx(6.78, abs=5e-3)
    assert success_probability(0.5, 0.1, Model.CHEBYSHEV) == pytest.approx(0.8)
    assert success_probability(50, 0.1, Model.CHEBYSHEV) == 0


def test_probabilities_of_averaging() -> None:
    assert success_probability(2, 0.1) == pytest.approx(0.7364, abs=5e-5)
    found = [success_probability(variance, 0.0867) for variance in range(1, 6)]
    assert found == pytest.approx([0.911, 0.770, 0.673, 0.604, 0.552], abs=6e-4)
    for ratio in (0.01, 0.2):
        assert success_probability(variance_needed(ratio, 0.9), ratio) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("areas", "at_10", "at_20", "at_50"),
    [
        (110_000, 1.275, 0.637, 0.255),
        (37_000, 1.166, 0.583, 0.233),
        (11_000, 1.045, 0.522, 0.209),
        (68, 0.536, 0.268, 0.107),
    ],
)
def test_the_epsilon_that_a_bound_needs(areas: int, at_10: float, at_20: float, at_50: float) -> None:
    found = [epsilon_for_bound(bound, areas) for bound in (10, 20, 50)]
    assert found == pytest.approx([at_10, at_20, at_50], abs=6e-4)
    assert bound_for_epsilon(Fraction(str(round(found[1], 9))), areas) == pytest.approx(20, rel=1e-6)


def test_bounds_that_an_epsilon_has() -> None:
    assert [round(bound_for_epsilon("0.3", n), 1) for n in (110_000, 37_000, 68)] == [42.5, 38.9, 17.9]
    assert reconstruction_epsilon(10**6, 0.99) == pytest.approx(0.02367, abs=5e-6)


def test_distortions_of_the_published_example() -> None:
    assert exceedance("0.1", 40) == pytest.approx(0.0183, abs=5e-5)
    rows = distortions([70] * 11_680, ["0.1"], ["0.5"], (60, 80))
    (inside, above) = rows
    assert inside.areas == 11_680
    assert round(inside.at_least) == 214
    assert inside.expected == pytest.approx(11_680 * np.exp(-3.5))
    assert above.areas == 0


def test_size_classes_hold_their_upper_end_and_leave_out_nobody() -> None:
    sizes = [0, 1, 20, 21, 40, 500, 501]
    rows = distortions(sizes, [1], [1])
    by_class = {(row.above, row.to): row.areas for row in rows}
    assert by_class[(0, 20)] == 2
    assert by_class[(20, 40)] == 2
    assert by_class[(400, 500)] == 1
    assert by_class[(500, None)] == 1
    assert sum(by_class.values()) == 6


@pytest.mark.statistical
def test_distortions_agree_with_noise_that_is_drawn() -> None:
    """Five standard errors on 40,000 areas, with a fixed seed."""
    draw = np.random.default_rng(5)
    number, size, epsilon, error = 40_000, 60, 0.05, 0.5
    noise = draw.laplace(scale=1 / epsilon, size=(3, number))
    far = np.abs(noise[0]) >= error * size
    (row,) = [row for row in distortions([size] * number, ["0.05"], ["0.5"]) if row.areas]
    assert abs(far.sum() - row.expected) < 5 * np.sqrt(row.expected)
    # F = 25, M = 35, T = 60: all three far off in one direction.
    parts = np.array([25, 35, 60])[:, None] * error
    same = (noise >= parts).all(axis=0) | (noise <= -parts).all(axis=0)
    assert abs(same.sum() - row.same_direction) < 5 * np.sqrt(row.same_direction)
    whole = draw.geometric(1 - np.exp(-epsilon), size=number) - draw.geometric(1 - np.exp(-epsilon), size=number)
    chance = geometric_exceedance("0.05", 30)
    assert abs((np.abs(whole) > 30).mean() - chance) < 5 * np.sqrt(chance / number)


def test_the_region_of_malta(europe: StaticProgramme) -> None:
    region = ProtectedRegion(RegionQuestion(europe, europe.areas("MT")))
    answer = region.as_dict()
    best = answer["recommended"]
    assert (best["D"], best["V"], best["strict"]) == (8, 6.9, True)
    by_mean = answer["least_noise_by_optimum"]
    assert best == by_mean["inverse-variance"]
    assert (by_mean["greedy"]["D"], by_mean["greedy"]["V"]) == (6, 3.2)
    assert answer["epsilon"]["utility_at_least"] == pytest.approx(0.268, abs=5e-4)
    assert [row["D"] for row in answer["region"] if row["strict"]] == [6, 7, 8, 9, 10]
    assert answer["limits"]["averaging"]["target"] == "total"


@pytest.mark.parametrize("country", mostly_slow(["MT", "DE"], 1))
@pytest.mark.parametrize("optimum", [Optimum.GREEDY, Optimum.INVERSE_VARIANCE])
def test_what_is_recommended_satisfies_every_limit(europe: StaticProgramme, country: str, optimum: Optimum) -> None:
    region = ProtectedRegion(RegionQuestion(europe, europe.areas(country), optimum=optimum))
    best = region.recommended
    assert best is not None
    assert best.strict
    assert success_probability(float(best.variance), region.ratio) <= 0.68
    assert best.variance >= region.least_variance(Optimum.INVERSE_VARIANCE)
    assert best.risk.m > region.triples
    assert best.risk.row.attained
    assert best.risk.row.bound <= 10
    smaller = bound_risk(best.risk.row.bound - 1, best.variance)
    assert smaller.m <= region.triples


def test_the_limits_of_unbounded_noise_without_areas_in_the_tables(europe: StaticProgramme) -> None:
    """Without geography the smallest k/t² is the same for all countries, as in the paper: 0.3055 and 0.3667 there."""
    tables = europe.leave_out(["GEO.L", "GEO.M", "GEO.H"])
    region = ProtectedRegion(RegionQuestion(tables, europe.areas("MT"), bounds=(6,)))
    limits = region.epsilon
    assert limits["averaging_at_most"] == pytest.approx(0.3055, abs=0.005)
    assert limits["relaxed_averaging_at_most"] == pytest.approx(0.3667, abs=0.007)
    band = region.as_dict()["epsilon"]["band"]
    assert band["strict"] == pytest.approx([0.268, 0.301], abs=5e-4)


def test_nothing_is_left_if_users_accept_no_noise(europe: StaticProgramme) -> None:
    region = ProtectedRegion(RegionQuestion(europe, europe.areas("MT"), largest_noise=3, bounds=(1, 2, 3, 4)))
    assert region.recommended is None
    assert region.as_dict()["recommended"] is None


def test_the_relaxed_region_holds_the_strict_one(europe: StaticProgramme) -> None:
    for row in ProtectedRegion(RegionQuestion(europe, europe.areas("DE"), rule=BreakdownRule.PLAIN)).rows:
        assert row.relaxed_low <= row.low
        assert row.high <= row.relaxed_high


def test_levels_are_checked(europe: StaticProgramme) -> None:
    for levels in ({"level": 1.0}, {"level": 0.0}, {"level": 0.7, "relaxed_level": 0.6}):
        with pytest.raises(ParameterError, match=r"level|relaxed"):
            RegionQuestion(europe, {}, **levels)
