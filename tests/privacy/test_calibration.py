"""Noise to loss and back."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.privacy import (
    ZCDP,
    Neighbours,
    PureDP,
    bounded_degree,
    gaussian_loss,
    gaussian_sigma2,
    geometric_epsilon,
    geometric_loss,
    geometric_zcdp_loss,
    partition_marginal,
)

fractions = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)


@given(fractions, st.integers(1, 20), st.sampled_from(Neighbours))
def test_there_and_back(number: Fraction, degree: int, neighbours: Neighbours) -> None:
    sensitivity = bounded_degree(degree, neighbours)
    assert gaussian_sigma2(gaussian_loss(number, sensitivity), sensitivity) == number
    assert gaussian_loss(gaussian_sigma2(ZCDP(number), sensitivity), sensitivity) == ZCDP(number)
    assert geometric_epsilon(geometric_loss(number, sensitivity), sensitivity) == number
    assert geometric_zcdp_loss(number, sensitivity) <= geometric_loss(number, sensitivity).to_zcdp()


def test_production_scale_of_2020() -> None:
    """Change-one, one marginal: ρ = 1/σ², and the whole budget was 1/(339/542)²."""
    sensitivity = partition_marginal(Neighbours.CHANGE_ONE)
    assert gaussian_loss(Fraction(339, 542) ** 2, sensitivity) == ZCDP("293764/114921")
    share = Fraction(1440, 4099) * Fraction(3773, 4097)
    assert float(gaussian_sigma2(ZCDP("293764/114921") * share, sensitivity)) == pytest.approx(1.209, abs=5e-4)


def test_safetab_scales() -> None:
    """s = 9 groups for a person, added or removed: σ² = s/(2ρ), and geometric noise with scale s/ε."""
    sensitivity = bounded_degree(9, Neighbours.ADD_REMOVE)
    assert gaussian_sigma2(ZCDP("0.9") * Fraction("0.159"), sensitivity) == Fraction(9) / (2 * Fraction("0.1431"))
    assert geometric_epsilon(PureDP("5.4"), sensitivity) == Fraction("0.6")


@pytest.mark.parametrize("alpha", [1.01, 1.5, 2, 5, 40])
@pytest.mark.parametrize("sigma2", ["1/10", "1/2", "3", "40"])
def test_the_gaussian_loss_bounds_the_renyi_divergence(sigma2: str, alpha: float) -> None:
    """From the definition: D_α(N_Z(0,σ²) ‖ N_Z(1,σ²)) ≤ αρ, summed term by term."""
    with mpmath.workdps(50):
        s2, order = mpmath.mpf(Fraction(sigma2).numerator) / Fraction(sigma2).denominator, mpmath.mpf(alpha)
        support = range(-200, 260)
        total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s2)) for x in support)
        moment = mpmath.fsum(
            mpmath.exp((-order * mpmath.mpf(x) ** 2 + (order - 1) * mpmath.mpf(x - 1) ** 2) / (2 * s2)) for x in support
        )
        divergence = mpmath.log(moment / total) / (order - 1)
        bound = order * gaussian_loss(sigma2, partition_marginal(Neighbours.ADD_REMOVE)).rho.numerator
        bound /= gaussian_loss(sigma2, partition_marginal(Neighbours.ADD_REMOVE)).rho.denominator
        assert divergence <= bound + mpmath.mpf("1e-45")
        assert divergence >= 0


@pytest.mark.parametrize("alpha", [1.01, 1.5, 2, 5, 40])
@pytest.mark.parametrize("epsilon", ["1/100", "1", "5"])
def test_the_geometric_loss_in_zcdp_bounds_the_renyi_divergence(epsilon: str, alpha: float) -> None:
    """Two cells changed by one: the divergence of both is at most αε², and less than the whole converted at once."""
    e, reach = float(Fraction(epsilon)), 4000
    one = mpmath.mpf(0)
    with mpmath.workdps(40):
        total = (1 + mpmath.exp(-e)) / (1 - mpmath.exp(-e))
        one = mpmath.fsum(mpmath.exp(-e * (alpha * abs(x) + (1 - alpha) * abs(x - 1))) for x in range(-reach, reach))
        divergence = 2 * mpmath.log(one / total) / (alpha - 1)
        loss = geometric_zcdp_loss(epsilon, partition_marginal(Neighbours.CHANGE_ONE))
        assert loss == ZCDP(Fraction(epsilon) ** 2)
        assert divergence <= alpha * mpmath.mpf(loss.rho.numerator) / loss.rho.denominator


def test_nothing_buys_nothing() -> None:
    sensitivity = partition_marginal(Neighbours.ADD_REMOVE)
    for act in (
        lambda: gaussian_sigma2(ZCDP(0), sensitivity),
        lambda: geometric_epsilon(PureDP(0), sensitivity),
    ):
        with pytest.raises(ParameterError) as error:
            act()
        assert error.value.findings[0].code == "nothing-to-spend"
    with pytest.raises(ParameterError):
        gaussian_loss(0, sensitivity)
