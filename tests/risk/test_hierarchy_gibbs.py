"""The published Gibbs sampler as an oracle: the right one finds the stated law, the incompatible one the other.

Many chains side by side; only their last states are used, so that these are independent. Seeds are fixed; for a random
seed a test fails with a probability below 1e-4 (four and a half standard errors, a few comparisons).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from confide.lab.risk.bayesian.two_level import TwoLevel, Variant

RHO1 = Fraction(64, 25) * Fraction(165, 4099) * Fraction(3945, 4097)
RHO2 = Fraction(64, 25) * Fraction(1256, 4099) * Fraction(1288, 4099)
_CHAINS, _SWEEPS, _TOP = 20_000, 40, 60


def gibbs(
    model: TwoLevel, released: tuple[int, int, int], *, restricted: bool, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The last (X1, X2) of many chains, from the full conditionals (3.8) and (3.9)."""
    x1, x2, y = released
    draw = np.random.default_rng(seed)
    rho1, rho2, d = float(model.rho1), float(model.rho2), model.siblings
    grid = np.arange(_TOP)
    laws = []
    for k1 in (0, 1):
        weights = np.exp(-rho2 * (x2 - grid) ** 2 - rho1 / d * (y + k1 - grid) ** 2) * (grid >= k1)
        laws.append(np.cumsum(weights) / weights.sum())
    one = draw.integers(0, 2, _CHAINS)
    two = np.zeros(_CHAINS, np.int64)
    for _ in range(_SWEEPS):
        uniform = draw.random(_CHAINS)
        two = np.where(one == 1, np.searchsorted(laws[1], uniform), np.searchsorted(laws[0], uniform))
        chance = expit(rho1 * (2 * x1 - 1) + rho1 / d * (2 * (two - y) - 1))
        if restricted:
            chance = np.where(two >= 1, chance, 0.0)
        one = (draw.random(_CHAINS) < chance).astype(np.int64)
    # X2 once more, so that X1 and X2 belong to the same state of the chain "X1, then X2".
    uniform = draw.random(_CHAINS)
    return one, np.where(one == 1, np.searchsorted(laws[1], uniform), np.searchsorted(laws[0], uniform))


@pytest.mark.statistical
@pytest.mark.parametrize("released", [(2, 1, -1), (1, 4, 6)])
@pytest.mark.parametrize(("restricted", "variant"), [(True, Variant.STATED), (False, Variant.UNRESTRICTED)])
def test_samplers_settle_in_the_exact_laws(released: tuple[int, int, int], restricted: bool, variant: Variant) -> None:
    model = TwoLevel(RHO1, RHO2, 27)
    one, two = gibbs(model, released, restricted=restricted, seed=7)
    exact_one = float(model.posterior(*released, variant))
    law = model.law_of_parent(*released, variant)
    assert one.mean() == pytest.approx(exact_one, abs=4.5 * 0.5 / _CHAINS**0.5)
    for k2 in range(6):
        p = law.p(k2)
        assert (two == k2).mean() == pytest.approx(p, abs=4.5 * (p * (1 - p) / _CHAINS) ** 0.5 + 1e-12)


def test_the_two_samplers_are_not_the_same() -> None:
    model = TwoLevel(RHO1, RHO2, 27)
    right = gibbs(model, (2, 1, -1), restricted=True, seed=1)[0].mean()
    forgetful = gibbs(model, (2, 1, -1), restricted=False, seed=1)[0].mean()
    assert forgetful - right > 0.05
    # The paper prints 57.0 % from ten thousand draws: that of the second, thirteen standard errors from the first.
    assert abs(0.570 - forgetful) < 0.02 < abs(0.570 - right)
