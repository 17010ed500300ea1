"""Noisy tables: exact tables and bounds kept, nothing claimed of uniqueness, contradictions found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.kits.reconstruction import CELLS, SMALL, all_histograms, answers, folded, geography, marginal

from confide.errors import ConfideError
from confide.lab.attacks.reconstruction import NoiseBound, Published, read_tables, reconstruct


def test_exact_tables_beside_noisy_ones_are_kept() -> None:
    rng = np.random.default_rng(8)
    queries = {"a*c": Fraction(1, 4), "b:halves*c": Fraction(4), "a": Fraction(1)}
    matrices = {text: np.array([answers(SMALL.query(text), row) for row in np.eye(CELLS)]) for text in queries}
    for _ in range(5):
        truth = rng.multinomial(4, np.full(CELLS, 1 / CELLS))
        noisy = {text: truth @ matrices[text] + rng.normal(0, float(v) ** 0.5) for text, v in queries.items()}
        total = marginal(SMALL.query("total"), [np.array([4.0])])
        made = [marginal(SMALL.query(text), [noisy[text]], variance=v) for text, v in queries.items()]
        found = reconstruct(Published(SMALL, geography(1), (total, *made)), processes=1)
        assert found.persons == 4
        assert not found.exact
        assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
        assert list(found.variability.values()) == [None]
        assert found.as_dict()["mean_solution_variability"] is None


def test_negative_and_fractional_counts_are_fitted_by_people() -> None:
    query = SMALL.query("a")
    made = marginal(query, [np.array([-3.2, 5.4])], variance=Fraction(2))
    found = reconstruct(Published(SMALL, geography(1), (made,)), processes=1, repeats=3)
    assert np.bincount(found.cell, minlength=2).tolist() == [0, 5]
    assert found.deviation == pytest.approx((3.2 + 0.4) / 2**0.5)


def within(bound: NoiseBound, figures: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Which histograms, given their counts, noise with a bound can have taken to some figures."""
    far = np.abs(counts - figures) <= bound.largest
    return (far & ((counts > 0) | (figures <= 0) | (not bound.zeros_kept))).all(axis=1)


@pytest.mark.parametrize("zeros_kept", [False, True])
def test_a_bound_is_kept(zeros_kept: bool) -> None:
    """Against every histogram of four people: what is found is one of those that the bound allows."""
    rng = np.random.default_rng(17)
    bound = NoiseBound(1, zeros_kept)
    texts = ("a*c", "b:halves*c", "b:odd")
    matrices = {text: np.array([answers(SMALL.query(text), row) for row in np.eye(CELLS)]) for text in texts}
    narrower = 0
    for _ in range(20):
        truth = rng.multinomial(4, np.full(CELLS, 1 / CELLS))
        noisy = {}
        for text in texts:
            counts = truth @ matrices[text]
            noise = rng.integers(-1, 2, len(counts)) * ((counts > 0) | (not zeros_kept))
            noisy[text] = np.maximum(counts + noise, 0) if zeros_kept else counts + noise
        total = marginal(SMALL.query("total"), [np.array([4.0])])
        made = [
            replace(marginal(SMALL.query(text), [noisy[text]], variance=Fraction(1)), bound=bound) for text in texts
        ]
        found = reconstruct(Published(SMALL, geography(1), (total, *made)), processes=1)
        every = all_histograms(4)
        allowed = np.all([within(bound, noisy[text], every @ matrices[text]) for text in texts], axis=0)
        assert allowed.any()
        mine = folded(every, found.space)[allowed]
        here = np.bincount(found.cell, minlength=found.space.cells)
        assert (mine == here).all(axis=1).any()
        narrower += (~allowed).any()
    assert narrower  # the bound decides something


def test_noise_beyond_its_bound_is_a_finding() -> None:
    total = marginal(SMALL.query("total"), [np.array([9.0])])
    made = replace(marginal(SMALL.query("a"), [np.array([1.0, 2.0])], variance=Fraction(1)), bound=NoiseBound(2))
    with pytest.raises(ConfideError) as caught:
        reconstruct(Published(SMALL, geography(1), (total, made)), processes=1)
    finding = caught.value.findings[0]
    assert finding.code == "no-solution"
    assert "a (a)" in str(finding.found)
    assert "bound" in str(finding.remedy)


FOLDER = """
title = "with noise"
[attributes.sex]
levels = [[1, "men"], [2, "women"]]

[[tables]]
name = "sexes"
file = "sexes.csv"
queries = ["sex"]
variance = "2"
bound = 3
zeros_kept = true
"""


def test_a_description_can_give_a_bound(tmp_path: Path) -> None:
    (tmp_path / "sexes.csv").write_text("sex,count\nmen,0\nwomen,4\n")
    (tmp_path / "tables.toml").write_text(FOLDER)
    published = read_tables(tmp_path)
    assert [marginal.bound for marginal in published.marginals] == [NoiseBound(3, zeros_kept=True)]
    for lost in ('variance = "2"\n', "bound = 3\n"):
        (tmp_path / "tables.toml").write_text(FOLDER.replace(lost, ""))
        with pytest.raises(ConfideError) as caught:
            read_tables(tmp_path)
        assert [finding.code for finding in caught.value.findings] == ["bad-description"]


def test_billions_of_people_are_a_finding(tmp_path: Path) -> None:
    (tmp_path / "sexes.csv").write_text("sex,count\nmen,0\nwomen,4000000000\n")
    (tmp_path / "tables.toml").write_text(FOLDER[: FOLDER.index("variance")])
    with pytest.raises(ConfideError) as caught:
        reconstruct(read_tables(tmp_path), processes=1)
    assert [finding.code for finding in caught.value.findings] == ["too-many-people"]
