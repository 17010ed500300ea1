"""From posterior to posterior: bounds, and worlds small enough to compute every posterior in."""

from __future__ import annotations

import math

import numpy as np
import pytest

from confide.lab.risk.testing import posterior_factor
from confide.privacy import ZCDP, PureDP, bun_steinke_epsilon


def test_pure() -> None:
    bound = posterior_factor(PureDP("1/2"))
    assert bound.log_factor == 1
    assert bound.exceeded == 0
    assert bound.words == "2.72"
    assert bound.expected_log_ratio == PureDP("1/8").epsilon
    assert posterior_factor(PureDP("5")).expected_log_ratio == 5


def test_zcdp() -> None:
    bound = posterior_factor(ZCDP("2.56"), "1e-10")
    assert bound.log_factor == 2 * bun_steinke_epsilon("2.56", "1e-10")
    assert 1e-10 <= bound.exceeded <= 2e-10
    assert bound.as_dict()["expected_log_ratio_at_most"] == 2.56
    assert posterior_factor(ZCDP(0)).exceeded == posterior_factor(ZCDP(0)).log_factor == 0


def _worlds(rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The joint laws of a statement and the release, under a prior: with the record as it is, and replaced."""
    draw = np.random.default_rng(seed)
    statements, others = 3, 4
    joint = draw.dirichlet(np.full(statements * others * 2, 0.3)).reshape(statements, others, 2)
    reach = min(60, int(math.sqrt(600 / rho)) - 4)  # beyond, probabilities are below the smallest float
    outcomes = np.arange(-reach, reach + 1)
    noise = np.exp(-rho * (outcomes[None, :] - np.arange(others + 1)[:, None]) ** 2)
    noise /= noise.sum(axis=1, keepdims=True)
    counted = np.arange(others)[:, None] + np.arange(2)[None, :]
    actual = np.einsum("tob,obs->ts", joint, noise[counted])
    replaced = np.einsum("tob,os->ts", joint, noise[:others])  # the record counts nowhere, whatever it says
    return actual, replaced


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rho", [0.05, 0.5, 2.0])
def test_in_small_worlds(rho: float, seed: int) -> None:
    """All posteriors by enumeration: the expected logarithm, and how often the factor is exceeded."""
    actual, replaced = _worlds(rho, seed)
    ratio = (actual / actual.sum(axis=0)) / (replaced / replaced.sum(axis=0))
    logs = np.log(ratio)
    expected = float((actual * logs).sum())
    assert -1e-12 <= expected <= rho
    for delta in ("0.3", "0.05", "1e-3"):
        bound = posterior_factor(ZCDP(str(rho)), delta)
        assert float(actual[logs > bound.log_factor].sum()) <= bound.exceeded
        assert float(actual[logs < -bound.log_factor].sum()) <= bound.exceeded


def test_twice_epsilon_is_needed() -> None:
    """One e^ε would be wrong: a rare statement about the record, and a replacement that says the opposite."""
    tells = math.e / (1 + math.e)  # randomised response with ε = 1
    prior = 1e-3
    actual = prior * tells / (prior * tells + (1 - prior) * (1 - tells))
    replaced = prior * (1 - tells) / (prior * (1 - tells) + (1 - prior) * tells)
    assert 2.7 * math.e < actual / replaced <= math.exp(posterior_factor(PureDP("1")).log_factor)
