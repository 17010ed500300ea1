"""Noisy tables: least absolute deviation, exact tables kept, nothing claimed of uniqueness."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.attacks.reconstruct_kit import CELLS, SMALL, all_histograms, answers, geography, marginal

from confide.attacks.reconstruction import Published, reconstruct


def test_the_fit_has_the_least_deviation_of_all_histograms() -> None:
    rng = np.random.default_rng(8)
    queries = {"a*c": Fraction(1, 4), "b:halves*c": Fraction(4), "a": Fraction(1)}
    matrices = {text: np.array([answers(SMALL.query(text), row) for row in np.eye(CELLS)]) for text in queries}
    for _ in range(5):
        truth = rng.multinomial(4, np.full(CELLS, 1 / CELLS))
        noisy = {text: truth @ matrices[text] + rng.normal(0, float(v) ** 0.5) for text, v in queries.items()}
        noisy = {text: counts + rng.normal(0, 1, len(counts)) for text, counts in noisy.items()}
        total = marginal(SMALL.query("total"), [np.array([4.0])])
        made = [marginal(SMALL.query(text), [noisy[text]], variance=v) for text, v in queries.items()]
        found = reconstruct(Published(SMALL, geography(1), (total, *made)), processes=1)
        deviations = [
            np.abs(all_histograms(4) @ matrices[text] - noisy[text]).sum(axis=1) / float(v) ** 0.5
            for text, v in queries.items()
        ]
        best = np.sum(deviations, axis=0).min()
        assert found.deviation == pytest.approx(best, rel=2e-3)
        assert found.persons == 4  # an exact table is kept
        assert not found.exact
        assert list(found.variability.values()) == [None]
        assert found.as_dict()["mean_solution_variability"] is None


def test_negative_and_fractional_counts_are_fitted_by_people() -> None:
    query = SMALL.query("a")
    made = marginal(query, [np.array([-3.2, 5.4])], variance=Fraction(2))
    found = reconstruct(Published(SMALL, geography(1), (made,)), processes=1, repeats=3)
    assert np.bincount(found.cell, minlength=2).tolist() == [0, 5]
    assert found.deviation == pytest.approx((3.2 + 0.4) / 2**0.5)
