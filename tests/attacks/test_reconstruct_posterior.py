"""The attack on noisy figures against the whole posterior, by trying all histograms; its prior, sizes and seeds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import lgamma
from typing import Any

import numpy as np
import pytest
from tests.kits.reconstruction import CELLS, SMALL, all_histograms, answers, geography, marginal

from confide.lab.attacks.reconstruction import Published, reconstruct
from confide.lab.attacks.reconstruction.integer_program import program_structure
from confide.lab.attacks.reconstruction.posterior import Prior, log_sizes
from confide.lab.attacks.reconstruction.random_walk import proportional_fit
from confide.lab.published.marginals import AdditiveLaw
from confide.noise import DiscreteGaussian, TwoSidedGeometric

TEXTS = {"a*b": DiscreteGaussian("1/2"), "c": TwoSidedGeometric(1), "b*c": DiscreteGaussian(2)}
MATRICES = {text: np.array([answers(SMALL.query(text), row) for row in np.eye(CELLS)]) for text in TEXTS}


def noisy(text: str, truths: list[Any], rng: Any, depth: int = 0, noise: Any = None):
    """A marginal with noise of its law, for some units."""
    law = noise or TEXTS[text]
    spread = float(law.variance()) ** 0.5
    counts = [truth @ MATRICES[text] + np.rint(rng.normal(0, spread, MATRICES[text].shape[1])) for truth in truths]
    made = marginal(SMALL.query(text), counts, depth=depth, variance=Fraction(law.variance()).limit_denominator(10**6))
    return replace(made, law=AdditiveLaw(law))


def posterior(published: Published, shares: Any, people: int) -> tuple[Any, Any]:
    """Every histogram of so many people in block 0, and the logarithm of its posterior: urn times exact laws."""
    every = all_histograms(people)
    alpha = CELLS * shares
    log_prior = np.array(
        [sum(lgamma(x + a) - lgamma(x + 1) - lgamma(a) for x, a in zip(row, alpha, strict=True)) for row in every]
    )
    log_likelihood = np.zeros(len(every))
    for item in published.marginals:
        if item.depth == 0 and item.variance is not None:
            sums = (every @ MATRICES[item.query.name]).astype(int)
            figures = item.counts(0)
            law = TEXTS[item.query.name]
            log_likelihood += np.log(
                [[law.pmf(int(figures[k] - row[k])) for k in range(len(figures))] for row in sums]
            ).sum(axis=1)
    return every, log_prior + log_likelihood


@pytest.mark.parametrize("seed", range(3))
def test_records_are_likeliest_and_confidence_is_the_posterior(seed: int) -> None:
    """Three people, whose number is exact. The tract above has 40 people, most of them of few kinds."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(CELLS, 0.3))
    truths = [rng.multinomial(3, shares) for _ in range(2)]
    tract = rng.multinomial(40, shares)
    total = marginal(SMALL.query("total"), [np.array([3.0])] * 2)
    items = [noisy(text, truths, rng) for text in TEXTS]
    above = [noisy(text, [tract], rng, depth=1, noise=DiscreteGaussian(1)) for text in ("a*b", "b*c")]
    published = Published(SMALL, geography(2, 2), (total, *items, *above))
    found = reconstruct(published, processes=1, repeats=1_500)
    assert found.level == "block"
    prior = Prior(program_structure(published, 0)).of_unit(0, 0)
    every, log_posterior = posterior(published, prior, 3)
    here = np.bincount(found.cell[found.block == 0], minlength=CELLS)
    mine = log_posterior[(every == here).all(axis=1)]
    # A search, and no proof: as likely as the likeliest but for a tenth.
    assert mine == pytest.approx(log_posterior.max(), abs=0.1)
    weight = np.exp(log_posterior - log_posterior.max())
    weight /= weight.sum()
    copies: dict[int, int] = {}
    for cell, confidence in zip(found.cell[found.block == 0], found.confidence[found.block == 0], strict=True):
        copies[cell] = copies.get(cell, 0) + 1
        exact = weight[every[:, cell] >= copies[cell]].sum()
        # 1,500 draws that hang together: three standard deviations of 150 free ones.
        assert confidence == pytest.approx(exact, abs=0.13)


def test_a_proportional_fit_is_the_optimum() -> None:
    """The gradient of the sum of squares and of the distance from the prior is zero at the fit."""
    rng = np.random.default_rng(3)
    matrix = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1]], float)
    figure, variance, prior = np.array([3.0, -1.0, 2.0, 4.0]), np.array([1.0, 2.0, 0.5, 3.0]), rng.random(4) + 0.2
    start, column = np.array([0, 2, 4, 6, 10]), np.array([0, 1, 2, 3, 0, 2, 0, 1, 2, 3])
    x = proportional_fit(start, column, figure, variance, prior, 500)
    gradient = matrix.T @ ((matrix @ x - figure) / variance) + np.log(x / prior)
    assert gradient == pytest.approx(np.zeros(4), abs=2e-3)


def blocks_with(own: float, levels: bool) -> Published:
    """Five blocks; the figures of the first are multiplied by ``own``."""
    rng = np.random.default_rng(5)
    truths = [rng.multinomial(20, np.full(CELLS, 1 / CELLS)) for _ in range(5)]
    item = noisy("a*b", truths, rng)
    value = item.value.copy()
    value[: item.start[1]] *= own
    items = [replace(item, value=value)]
    if levels:
        items.append(noisy("b*c", [np.sum(truths, axis=0)], rng, depth=1))
    return Published(SMALL, geography(5, 5 if levels else 0), tuple(items))


@pytest.mark.parametrize("levels", [False, True])
def test_the_figures_of_a_block_are_no_part_of_its_prior(levels: bool) -> None:
    plain, changed = (Prior(program_structure(blocks_with(own, levels), 0)) for own in (1.0, 3.0))
    assert plain.of_unit(0, 0).tolist() == pytest.approx(changed.of_unit(0, 0).tolist(), rel=1e-9)
    if not levels:
        assert not np.allclose(plain.of_unit(1, 1), changed.of_unit(1, 1))
    assert plain.of_unit(0, 0).sum() == pytest.approx(1)


def test_kinds_come_from_the_areas_above() -> None:
    """Only a1 lives in the tract: the block, whose own figures tell nothing of a, gets people of a1."""
    rng = np.random.default_rng(2)
    tract = np.zeros(CELLS, int)
    tract[8:] = 30
    item = marginal(SMALL.query("a*b"), [np.full(8, 3.0)], variance=Fraction(400))
    above = noisy("a*b", [tract], rng, depth=1)
    found = reconstruct(Published(SMALL, geography(1, 1), (item, above)), processes=1)
    kinds = found.records().column("a").to_pylist()
    assert kinds.count(1) > 0.8 * len(kinds) > 0


def many_blocks(seed: int = 11) -> tuple[Published, int]:
    """Blocks of four to sixteen people beside empty ones, noise of variance 9 in every figure."""
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([np.zeros(60, int), rng.integers(4, 17, 100)])
    truths = [rng.multinomial(size, np.full(CELLS, 1 / CELLS)) for size in sizes]
    law = DiscreteGaussian(9)
    items = [noisy(text, truths, rng, noise=law) for text in ("a*b", "c", "b*c")]
    totals = [np.array([size + round(rng.normal(0, 3))], float) for size in sizes]
    total = replace(marginal(SMALL.query("total"), totals, variance=Fraction(9)), law=AdditiveLaw(law))
    return Published(SMALL, geography(len(sizes)), (*items, total)), int(sizes.sum())


@pytest.mark.parametrize("seed", [11, 12])
def test_sizes_are_those_of_the_figures(seed: int) -> None:
    """Noise above zero peoples no empty blocks: all sizes together are within 2 % of the best estimate of them, the
    weighted mean of the sums of all tables, which is off by noise alone."""
    published, people = many_blocks(seed)
    found = reconstruct(published, processes=1)
    weights = [1 / (float(item.variance) * item.query.cells) for item in published.marginals]
    best = sum(w * item.totals.sum() for w, item in zip(weights, published.marginals, strict=True)) / sum(weights)
    assert best == pytest.approx(people, abs=4 * (len(published.geography.blocks) / sum(weights)) ** 0.5)
    assert found.persons == pytest.approx(best, rel=0.02)
    assert (found.confidence >= 0).all()
    assert found.expected_matches == pytest.approx(found.confidence.sum())


def test_the_distribution_of_sizes_knows_how_many_are_empty() -> None:
    rng = np.random.default_rng(4)
    sizes = np.concatenate([np.zeros(500), np.full(500, 40)])
    chance = np.exp(log_sizes(sizes + rng.normal(0, 3, 1_000), 9.0))
    assert chance.sum() == pytest.approx(1, abs=1e-6)
    assert chance[:5].sum() == pytest.approx(0.5, abs=0.05)
    assert chance[10:30].sum() < 0.05


@pytest.mark.process
@pytest.mark.slow
def test_the_number_of_processes_changes_nothing() -> None:
    published, _ = many_blocks()
    one, two = (reconstruct(published, processes=number) for number in (1, 2))
    for name in ("block", "cell", "confidence"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist()
    other = reconstruct(published, processes=1, seed=1)
    assert other.confidence.tolist() != one.confidence.tolist()
