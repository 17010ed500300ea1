"""Several counts, other questions, all cells of a histogram: each against enumeration of all worlds and releases."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.lab.risk.bayesian import (
    AdversaryQuestion,
    CountEvidence,
    JointDecision,
    LawEvidence,
    combined_risk,
    combined_risk_at,
    decide,
    equal_priors,
    evidence_of,
    gaussian_for,
    gaussian_marginal,
    geometric_for,
    histogram_posterior,
    histogram_risk,
    in_sequence,
    marginal_risk,
    posterior,
    reduce_question,
    two_cells,
)
from confide.noise import FiniteDistribution, TruncatedGaussian

REACH = 14


def pmf(rho: float) -> dict[int, float]:
    weights = {x: exp(-rho * x * x) for x in range(-REACH, REACH + 1)}
    total = sum(weights.values())
    return {x: w / total for x, w in weights.items()}


def enumerated(rhos: list[float], prior: float) -> tuple[float, float, float]:
    """Expected posterior and right decisions over all combinations of released counts."""
    expected = right_1 = right_0 = 0.0
    laws = [pmf(rho) for rho in rhos]
    for released in product(range(-REACH, REACH + 2), repeat=len(rhos)):
        one = prod(law.get(k - 1, 0.0) for law, k in zip(laws, released, strict=True))
        other = prod(law.get(k, 0.0) for law, k in zip(laws, released, strict=True))
        if one + other == 0:
            continue
        log_odds = sum(rho * (2 * k - 1) for rho, k in zip(rhos, released, strict=True))
        after = prior / (prior + (1 - prior) * exp(-log_odds))
        expected += one * after
        right_1 += one * (after > 0.5 + 1e-12)
        right_0 += other * (after <= 0.5 + 1e-12)
    return expected, right_1, right_0


@pytest.mark.parametrize("rhos", [["1/2", "1/2"], ["1/3", "3/4"], ["1/2", "1", "3/2"], ["3", "1/2"]])
@pytest.mark.parametrize("prior", ["1/2", "1/50", "9/10"])
def test_several_releases_against_enumeration(rhos: list[str], prior: str) -> None:
    expected, right_1, right_0 = enumerated([float(Fraction(r)) for r in rhos], float(Fraction(prior)))
    seen = [evidence_of(gaussian_for(rho)) for rho in rhos]
    (found,) = combined_risk(seen, [prior])
    assert found.marginal_posterior == pytest.approx(expected, rel=1e-12)
    right = JointDecision(seen).decide(prior)
    assert right is not None
    assert right[:2] == pytest.approx((right_1, right_0), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.fractions(Fraction(1, 10**6), 200, max_denominator=10**6),
    st.fractions(Fraction(1, 10**9), Fraction(999, 1000), max_denominator=10**9),
)
def test_one_release_is_the_sum_of_one_level(rho: Fraction, prior: Fraction) -> None:
    seen = evidence_of(gaussian_for(rho))
    (found,) = combined_risk([seen], [prior])
    assert found.marginal_posterior == pytest.approx(marginal_risk(seen, [prior]).posterior[0], rel=1e-11)


def test_one_release_of_other_laws() -> None:
    for law in (geometric_for("1/3"), TruncatedGaussian(2, 6), FiniteDistribution([-3, 0, 3], ["1/4", "1/2", "1/4"])):
        seen = evidence_of(law)
        for prior in ("1/1000", "1/2", "4/5"):
            (found,) = combined_risk([seen], [prior])
            assert found.marginal_posterior == pytest.approx(marginal_risk(seen, [prior]).posterior[0], rel=1e-12)
            right, single = JointDecision([seen]).decide(prior), decide(seen, prior)
            assert right is not None
            assert right[:2] == pytest.approx((single.given_1, single.given_0), abs=1e-12)


def test_only_the_sum_of_small_rhos_matters() -> None:
    split = [["1/5"], ["1/10"] * 2, ["1/50", "9/50"]]
    found = [combined_risk([evidence_of(gaussian_for(rho)) for rho in rhos], ["1/10"])[0].risk for rhos in split]
    assert found == pytest.approx([10 * gaussian_marginal("1/10", "1/5")] * 3, rel=1e-12)


def test_the_order_of_releases_does_not_matter_and_ratios_multiply() -> None:
    seen: list[CountEvidence] = [
        evidence_of(gaussian_for("1/3")),
        evidence_of(geometric_for(1)),
        evidence_of(gaussian_for("1/7")),
    ]
    steps = in_sequence(seen, "1/5", [2, -1, 4], [1, 0, 3])
    back = in_sequence(seen[::-1], "1/5", [4, -1, 2], [3, 0, 1])
    assert prod(s.risk_at for s in steps) == pytest.approx(prod(s.risk_at for s in back), rel=1e-13)
    assert steps[-1].posterior == pytest.approx(back[-1].posterior, rel=1e-13)
    assert [s.prior for s in steps[1:]] == [s.posterior for s in steps[:-1]]
    # Each step is one count with the belief that the step before left.
    for step, one, known in zip(steps, seen, [1, 0, 3], strict=True):
        prior = Fraction(step.prior)
        assert posterior(one, [prior], [step.released], known)[0, 0] == pytest.approx(step.posterior, rel=1e-12)
    assert combined_risk_at(seen, ["1/5"], [2, -1, 4], [1, 0, 3])[0] == pytest.approx(
        prod(s.risk_at for s in steps), rel=1e-13
    )


def test_even_combinations_decide_against_the_target() -> None:
    together = JointDecision([evidence_of(gaussian_for("1/10"))] * 2)
    right = together.decide("1/2")
    assert right is not None
    # k1 + k2 = 1 is an even posterior; that is the mass between the two rules.
    law = gaussian_for("1/10")
    even = sum(law.pmf(k - 1) * law.pmf(1 - k - 1) for k in range(-40, 41))
    assert right[1] - right[0] == pytest.approx(even, rel=1e-9)
    assert right[2] == pytest.approx(even, rel=1e-9)


def test_too_many_combinations_are_not_listed() -> None:
    wide = JointDecision([evidence_of(gaussian_for("1/100000"))] * 6)
    assert not wide.feasible
    assert wide.decide("1/2") is None


def bayes_over_worlds(
    worlds: list[tuple[float, tuple[int, ...]]], released: tuple[int, ...], rho: float
) -> list[float]:
    """Posterior of each possible data set, given noisy counts of its cells."""
    likely = [p * prod(exp(-rho * (x - n) ** 2) for x, n in zip(released, counts, strict=True)) for p, counts in worlds]
    return [one / sum(likely) for one in likely]


@pytest.mark.parametrize("question", list(AdversaryQuestion))
@pytest.mark.parametrize("released", [-2, 0, 1, 3, 9])
def test_questions_with_the_same_answer(question: AdversaryQuestion, released: int) -> None:
    """Worlds written out: four people in the block, three of them in the cell with the target."""
    people = {"ann": "c", "bob": "c", "target": "c", "eve": "d"}

    def in_cell(records: dict[str, str]) -> tuple[int]:
        return (sum(value == "c" for value in records.values()),)

    others = {name: value for name, value in people.items() if name != "target"}
    elsewhere = {
        AdversaryQuestion.CHARACTERISTICS: people | {"target": "d"},
        AdversaryQuestion.RESPONSE: others,
        AdversaryQuestion.TRUTHFUL_ANSWER: people | {"target": "e"},
        AdversaryQuestion.VARIABLE: people | {"target": "f"},
    }[question]
    known = in_cell(people if question.count_has_target else others)[0]
    expected = bayes_over_worlds([(0.3, in_cell(people)), (0.7, in_cell(elsewhere))], (released,), 0.2)[0]
    asked = reduce_question(question, "3/10", known)
    found = posterior(evidence_of(gaussian_for("1/5")), [asked.prior], [released], asked.known)[0, 0]
    assert asked.known == 2
    assert found == pytest.approx(expected, rel=1e-13)


def test_a_count_with_the_target_is_not_empty() -> None:
    with pytest.raises(ParameterError):
        reduce_question(AdversaryQuestion.RESPONSE, "1/2", 0)


def test_all_cells_against_worlds() -> None:
    priors, known, released = ["1/2", "1/3", "1/6"], (4, 0, 1), (4, 2, 1)
    worlds = [(float(Fraction(p)), tuple(n + (i == j) for j, n in enumerate(known))) for i, p in enumerate(priors)]
    expected = bayes_over_worlds(worlds, released, 0.25)
    found = histogram_posterior(evidence_of(gaussian_for("1/4")), priors, released, known)
    assert list(found) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("cell", [0, 1, 2])
def test_expected_risk_over_all_cells_against_enumeration(cell: int) -> None:
    priors, rho = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)], 0.8
    law = {x: p for x, p in pmf(rho).items() if abs(x) <= 7}
    expected = 0.0
    for noise in product(law, repeat=3):
        weight = [
            float(p) * exp(rho * (2 * (n + (j == cell)) - 1))
            for j, (p, n) in enumerate(zip(priors, noise, strict=True))
        ]
        expected += prod(law[n] for n in noise) * weight[cell] / sum(weight)
    found = histogram_risk(evidence_of(gaussian_for("4/5")), priors, cell)
    assert found == pytest.approx(expected / float(priors[cell]), rel=1e-10)


def test_two_cells_are_two_releases() -> None:
    seen = evidence_of(gaussian_for("1/7"))
    assert isinstance(seen, LawEvidence)
    for prior in ("1/2", "1/5", "1/100"):
        p = Fraction(prior)
        (found,) = combined_risk(two_cells(seen), [p])
        assert histogram_risk(seen, [p, 1 - p]) == pytest.approx(found.risk, rel=1e-12)


def test_an_unlikely_cell_gains_up_to_the_loss_of_a_changed_record() -> None:
    """Two counts differ between two cells: exp(4 rho), where one count alone has at most exp(2 rho)."""
    seen = evidence_of(gaussian_for("1/5"))
    tiny = Fraction(1, 10**7)
    found = histogram_risk(seen, [tiny, 1 - tiny])
    assert found == pytest.approx(exp(4 / 5), rel=1e-5)
    assert found <= exp(4 / 5)
    for own in (Fraction(1, 3), Fraction(1, 50)):
        rest = (1 - own) / 4
        assert 1 <= histogram_risk(seen, [own, *[rest] * 4]) <= exp(4 / 5)


def test_all_cells_of_geometric_noise_against_binomial_sums() -> None:
    """Log-ratios are +-epsilon, so that the number of cells with the larger one is binomial."""
    epsilon, cells = 0.5, 12
    up, q = exp(epsilon), exp(-epsilon)
    high = 1 / (1 + q)  # P(noise >= 0)
    others = np.array([1.0])
    for _ in range(cells - 1):
        others = np.convolve(others, [high, 1 - high])  # a cell without the target is up where its noise is at least 1
    expected = 0.0
    for place, chance in enumerate(others):
        total = place * up + (cells - 1 - place) / up
        expected += chance * (high * up / (up + total) + (1 - high) / up / (1 / up + total))
    found = histogram_risk(evidence_of(geometric_for("1/2")), equal_priors(cells))
    assert found == pytest.approx(cells * expected, rel=1e-12)


def test_a_bounded_law_can_give_the_cell_away() -> None:
    seen = evidence_of(FiniteDistribution([-1, 0, 1], ["1/4", "1/2", "1/4"]))
    assert list(histogram_posterior(seen, equal_priors(3), [0, 2, 1])) == [0, 1, 0]
    law = {-1: 0.25, 0: 0.5, 1: 0.25}
    expected = 0.0
    for noise in product(law, repeat=2):
        one = law.get(noise[0], 0) * law.get(noise[1], 0)
        other = law.get(noise[0] + 1, 0) * law.get(noise[1] - 1, 0)
        expected += one * one / (one + other)
    assert histogram_risk(seen, equal_priors(2)) == pytest.approx(2 * expected, rel=1e-12)


def test_wrong_numbers_of_things() -> None:
    seen = evidence_of(gaussian_for(1))
    with pytest.raises(ParameterError):
        in_sequence([seen] * 2, "1/2", [1])
    with pytest.raises(ParameterError):
        combined_risk([], ["1/2"])
    with pytest.raises(ParameterError):
        histogram_risk(seen, ["1/2", "1/3"])
    with pytest.raises(ParameterError):
        histogram_posterior(seen, ["1/2", "1/2"], [1])
    with pytest.raises(ParameterError):
        equal_priors(1)
