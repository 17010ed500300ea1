"""The kit of the noise audit: its bounds hold for every law, and it sees what it says it sees."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import factorial

import numpy as np
import pytest

from confide.noise import (
    CountNoise,
    DiscreteGaussian,
    FiniteDistribution,
    NoiseStream,
    ReleaseNoise,
    TruncatedGaussian,
    TruncatedGeometric,
    TwoSidedGeometric,
    draw,
    perturb,
)
from confide.privacy import ZCDP, Definition, Neighbours
from confide.releases.noise_audit import NoiseAudit, audit
from confide.releases.noise_audit.laws import (
    is_wide,
    law_mass,
    likelihood_evidence,
    scale_evidence,
    scaled,
    shape_evidence,
    tails,
    value_evidence,
)
from confide.releases.plan import Plan, PlannedMeasurement
from confide.releases.replay import ChoiceLaw, OutcomeLaw, ResidualLaw, Residuals, SurvivorLaw

LAWS = [
    DiscreteGaussian("1/4"),
    DiscreteGaussian(2),
    DiscreteGaussian(300),
    TwoSidedGeometric("1/10"),
    TwoSidedGeometric(2),
    TruncatedGaussian(4, 5),
    TruncatedGeometric("1/5", 20),
    FiniteDistribution([-1, 0, 2], ["1/2", "1/4", "1/4"]),
]
LISTED = OutcomeLaw((-1, 0, 3), (0.7, 0.1, 0.2))
UNPRICED = Plan.without_loss("study", {})
WIDER, NARROWER = DiscreteGaussian(300), DiscreteGaussian(17)


def drawn(law: CountNoise, count: int, seed: str = "") -> np.ndarray:
    return perturb(np.zeros(count, np.int64), law, NoiseStream.fresh(f"{law!r} {seed}"))


def array(noise: np.ndarray, law: ResidualLaw = WIDER, cells: int = 10, query: str = "age") -> Residuals:
    return Residuals("block", query, noise.reshape(-1, cells), (law,), "measured")


def audited(*arrays: Residuals, plan: Plan = UNPRICED) -> NoiseAudit:
    return audit({"study": (plan, arrays)})


def failed(answer: NoiseAudit) -> set[str]:
    return {check.name for check in answer.checks if not check.ok}


# Probabilities and bounds


@pytest.mark.parametrize("law", [*LAWS, DiscreteGaussian(10**8), TwoSidedGeometric("1/10000")], ids=repr)
def test_tails_are_those_of_the_law(law: ReleaseNoise) -> None:
    width = int(law.noise_margin("0.999"))
    x = np.unique(np.linspace(-width, width, 9).astype(np.int64))
    below, at, over = tails(law, x)
    np.testing.assert_allclose(below, [law.cdf(int(v) - 1) for v in x], rtol=1e-6, atol=1e-15)
    np.testing.assert_allclose(at, [law.pmf(int(v)) for v in x], rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(over, [law.cdf(-int(v) - 1) for v in x] if isinstance(law, DiscreteGaussian) else over)
    np.testing.assert_allclose(below + at + over, 1, rtol=1e-9)


def test_tails_given_that_a_draw_is_seen() -> None:
    law, above = DiscreteGaussian(9), np.full(40, 2)
    x = np.arange(-10, 30)
    below, at, over = tails(law, x, above)
    chance = 1 - law.cdf(2)
    np.testing.assert_allclose(at, [law.pmf(int(v)) / chance if v > 2 else 0 for v in x], atol=1e-12)
    np.testing.assert_allclose((below + at + over)[x > 2], 1)
    assert float(at.sum()) == pytest.approx(1)


def test_tails_given_that_a_draw_lies_between_two_numbers() -> None:
    law, x = TwoSidedGeometric("1/3"), np.arange(-30, 31)
    for above, up_to in ((-4, 7), (-25, -20), (20, 26), (3, 4)):
        below, at, over = tails(law, x, np.full(61, above), np.full(61, up_to))
        inside = (x > above) & (x <= up_to)
        chance = sum(law.pmf(int(v)) for v in x[inside])
        np.testing.assert_allclose(at, [law.pmf(int(v)) / chance if i else 0 for v, i in zip(x, inside, strict=True)])
        np.testing.assert_allclose((below + at + over)[inside], 1)
        np.testing.assert_allclose(below[inside], np.cumsum(at[inside]) - at[inside], atol=1e-9)


@pytest.mark.parametrize("scale", [Fraction("0.97"), Fraction("1.7"), Fraction(5)])
def test_likelihood_evidence_has_the_mean_one(scale: Fraction) -> None:
    """For conditional laws, choices and survivors: so a product of it exceeds 1/a with probability at most a."""
    gaussian = DiscreteGaussian(6)
    choice = ChoiceLaw(gaussian, (2, 4, 9), DiscreteGaussian(2), 1)
    for law, x, limits in (
        (gaussian, np.arange(-3, 5), (np.full(8, -4), np.full(8, 4))),
        (choice, np.arange(-1, 4), (None, None)),
        (choice, np.arange(0, 4), (np.full(4, -1), None)),
        (SurvivorLaw(12, choice), np.arange(13), (None, None)),
    ):
        wrong = scaled(law, scale)
        assert wrong is not None
        at = tails(law, x, *limits)[1]
        evidence = likelihood_evidence(at, tails(wrong, x, *limits)[1][None, :])
        np.testing.assert_allclose(np.exp(evidence) @ at, 1, rtol=1e-9)


@pytest.mark.parametrize("law", [*LAWS, LISTED], ids=repr)
def test_evidence_has_the_mean_one_under_the_law(law: ResidualLaw) -> None:
    """So that noise as planned fails with the stated probability at most, whatever the law and the number of draws."""
    mass = law_mass(law)
    likely = mass.at > 0
    parts = mass.below[likely], mass.at[likely], mass.over[likely]
    for evidence in (scale_evidence(*parts), shape_evidence(*parts)):
        np.testing.assert_allclose(np.exp(evidence) @ parts[1], 1, rtol=1e-9)


def test_evidence_by_value_has_the_mean_one() -> None:
    probabilities, draws = np.array([0.5, 0.3, 0.2]), 5
    mean = 0.0
    for counts in product(range(draws + 1), repeat=3):
        if sum(counts) == draws:
            ways = factorial(draws) / np.prod([factorial(c) for c in counts])
            chance = ways * float(np.prod(probabilities ** np.array(counts)))
            mean += chance * float(np.exp(value_evidence(np.array(counts, float), probabilities)))
    assert mean == pytest.approx(1)


@pytest.mark.parametrize("law", [*LAWS, LISTED], ids=repr)
def test_scores_have_the_tails_of_a_uniform_variable_at_most(law: ResidualLaw) -> None:
    mass = law_mass(law)
    score = mass.below - mass.over
    assert float(mass.at @ score) == pytest.approx(0, abs=1e-12)
    for t in (-20, -3, -0.5, 0.5, 3, 20):
        assert float(mass.at @ np.exp(t * score)) <= np.exp(t**2 / 6) * (1 + 1e-12)


# Noise as planned


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_noise_as_planned_passes(law: CountNoise) -> None:
    answer = audited(array(drawn(law, 70_000), law), array(drawn(law, 5_000, "other"), law, cells=5, query="sex"))
    assert answer.ok, answer.checks
    assert answer.draws == 75_000


@pytest.mark.statistical
def test_of_many_small_audits_none_fails() -> None:
    for number in range(40):
        law = LAWS[number % len(LAWS)]
        arrays = [array(drawn(law, 400, f"{number} {k}"), law, query=str(k)) for k in range(4)]
        assert audited(*arrays).ok, number


# Noise that is not as planned


@pytest.mark.parametrize("law", LAWS[:6], ids=repr)
@pytest.mark.parametrize("error", [Fraction(97, 100), Fraction(103, 100)], ids=["3 % too small", "3 % too large"])
def test_a_scale_that_is_three_per_cent_off_is_seen(law: ResidualLaw, error: Fraction) -> None:
    wrong: CountNoise
    if isinstance(law, DiscreteGaussian):
        wrong = DiscreteGaussian(law.sigma2 * error**2)
    elif isinstance(law, TruncatedGaussian):
        wrong = TruncatedGaussian(law.sigma2 * error**2, law.bound)
    else:
        assert isinstance(law, TwoSidedGeometric)
        wrong = TwoSidedGeometric(law.epsilon / error)
    count = 110_000
    assert audited(array(drawn(law, count), law)).sees_three_per_cent
    assert "the scale of the noise" in failed(audited(array(drawn(wrong, count, "wrong"), law)))


def test_too_few_draws_are_said_to_be_too_few() -> None:
    answer = audited(array(drawn(WIDER, 2_000)))
    assert answer.ok
    assert not answer.sees_three_per_cent
    assert answer.smallest_error == 0.15
    assert any("Too few draws to see 3 %" in note for note in answer.notes)
    few = audited(array(drawn(WIDER, 20)))
    assert few.smallest_error is None
    assert any("off by half" in note for note in few.notes)


STREAM = NoiseStream.fresh("shared")
SHARED = draw(WIDER, STREAM, 0, 3_000)
POISSON = np.random.default_rng(1).poisson(3, 3_000)
BUGS: dict[str, tuple[Callable[[], list[Residuals]], str]] = {
    "a table and its margin share a stream": (
        lambda: [array(SHARED), array(draw(NARROWER, STREAM, 0, 300), NARROWER, 1, "total")],
        "draws of different measurements",
    ),
    "they share it with a shift": (
        lambda: [array(SHARED), array(draw(NARROWER, STREAM, 1_234, 300), NARROWER, 1, "total")],
        "draws of different measurements",
    ),
    "two of one size share it with a shift": (
        lambda: [array(SHARED), array(draw(NARROWER, STREAM, 700, 3_000), NARROWER, query="sex")],
        "draws of different measurements",
    ),
    "a margin has the noise of a cell": (
        lambda: [array(SHARED), array(SHARED.reshape(-1, 10)[:, 3].copy(), cells=1, query="total")],
        "cells of the same unit",
    ),
    "a margin is the sum of noisy cells": (
        lambda: [
            array(SHARED),
            array(SHARED.reshape(-1, 10).sum(axis=1), DiscreteGaussian(3_000), 1, "total"),
        ],
        "cells of the same unit",
    ),
    "noise restarts in every part": (
        lambda: [array(np.concatenate([SHARED[:500]] * 6))],
        "draws within a measurement",
    ),
    "noise restarts after the most of it": (
        lambda: [array(np.concatenate([SHARED, SHARED[:150]]))],
        "runs of equal values",
    ),
    "noise ignores the unit": (lambda: [array(np.tile(SHARED[:10], 100))], "draws within a measurement"),
    "noise ignores the cell": (
        lambda: [array(np.repeat(SHARED[:300], 10))],
        "draws within a measurement",
    ),
    "noise has opposite signs in two queries": (
        lambda: [array(SHARED), array(-SHARED, query="sex")],
        "draws of different measurements",
    ),
    "negatives are set to zero": (
        lambda: [array(np.maximum(POISSON + SHARED, 0) - POISSON)],
        "the shape of the noise",
    ),
    "there is no noise": (lambda: [array(np.zeros(60, np.int64))], "the scale of the noise"),
    "noise goes up only": (lambda: [array(np.abs(SHARED[:200]))], "the shape of the noise"),
    "a bound is passed": (
        lambda: [array(np.array([0, 1, 2, -6]), TruncatedGaussian(4, 5), 1)],
        "draws are possible",
    ),
    "a small law lacks a value": (
        lambda: [
            array(
                np.where(drawn(DiscreteGaussian(1), 60_000) == 3, 2, drawn(DiscreteGaussian(1), 60_000)),
                DiscreteGaussian(1),
            )
        ],
        "small laws, value by value",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_noise_that_is_not_as_planned_fails(bug: str) -> None:
    arrays, check = BUGS[bug]
    assert check in failed(audited(*arrays()))


def test_two_runs_have_nothing_in_common() -> None:
    one, other = array(SHARED), array(draw(WIDER, NoiseStream.fresh("other"), 0, 3_000))
    assert audit({"one": (UNPRICED, [one]), "other": (UNPRICED, [other])}).ok
    same = audit({"one": (UNPRICED, [one]), "other": (UNPRICED, [array(SHARED.copy())])})
    assert {"draws of different measurements", "runs of equal values"} <= failed(same)


def test_draws_of_different_families_are_not_compared() -> None:
    arrays = [Residuals("records", query, SHARED.reshape(-1, 10), (WIDER,), "released", family=query) for query in "ab"]
    assert audited(*arrays).ok


def test_units_that_are_not_measured_keep_their_places() -> None:
    """Units 64 apart that share their noise are 64 units apart, whichever of them are measured."""
    units = np.flatnonzero(np.arange(256) % 7 != 3)
    noise = np.tile(SHARED[:640].reshape(64, 10), (4, 1))[units]
    answer = audited(Residuals("block", "age", noise, (WIDER,), "measured", units=units))
    detail = next(check.detail for check in answer.checks if check.name == "draws within a measurement")
    assert "64 units apart" in detail


def test_what_is_seen_only_above_a_number_has_the_law_given_that() -> None:
    above = np.full((6_000, 1), 5)
    seen = drawn(WIDER, 20_000)
    seen = seen[seen > 5][:6_000].reshape(-1, 1)
    assert audited(Residuals("area", "total", seen, (WIDER,), "measured", above=above)).ok
    assert not audited(Residuals("area", "total", seen, (WIDER,), "measured")).ok
    wrong = audited(Residuals("area", "total", seen, (WIDER,), "measured", above=above - 3))
    assert "the shape of the noise" in failed(wrong)


def test_laws_may_differ_by_unit() -> None:
    noise = np.concatenate([drawn(WIDER, 3_000).reshape(-1, 10), drawn(NARROWER, 3_000).reshape(-1, 10)])
    law_of = np.repeat([0, 1], 300)[:, None]
    laws = (WIDER, NARROWER)
    assert audited(Residuals("block", "age", noise, laws, "measured", law_of=law_of)).ok
    assert not audited(Residuals("block", "age", noise, laws, "measured", law_of=1 - law_of)).ok
    without = np.where(np.arange(600)[:, None] < 300, 0, -1)
    answer = audited(Residuals("block", "age", noise, laws, "measured", law_of=without))
    assert answer.ok
    assert answer.draws == 3_000


# The plan


def planned(*queries: str, law: ReleaseNoise = WIDER) -> Plan:
    measures = [PlannedMeasurement("block", query, 300, 10, law, ZCDP(Fraction(1, 100))) for query in queries]
    return Plan("study", Neighbours.CHANGE_ONE, Definition.ZCDP, tuple(measures), ("block",), {})


def test_measurements_are_exactly_those_of_the_plan() -> None:
    one, other = array(SHARED), array(drawn(WIDER, 3_000), query="sex")
    assert audited(one, other, plan=planned("age", "sex")).ok
    for arrays, plan in [
        ([one], planned("age", "sex")),
        ([one, other], planned("age")),
        ([one], planned("age", law=NARROWER)),
        ([array(SHARED[:2_000])], planned("age")),
        ([array(np.concatenate([SHARED, drawn(WIDER, 3_000)]))], planned("age")),
    ]:
        assert "exactly the planned measurements" in failed(audited(*arrays, plan=plan))


def test_a_measurement_may_be_published_twice_if_it_is_the_same() -> None:
    assert audited(array(SHARED), array(SHARED.copy()), plan=planned("age")).ok
    again = SHARED.copy()
    again[7] += 1
    assert "exactly the planned measurements" in failed(audited(array(SHARED), array(again), plan=planned("age")))


def test_an_answer_has_plain_values() -> None:
    answer = audited(array(SHARED))
    plain = answer.as_dict()
    assert plain["confidential"] is True
    assert plain["ok"] is True
    assert {check["name"] for check in plain["checks"]} >= {"the scale of the noise", "cells of the same unit"}
    assert plain["measurements"][0]["draws"] == 3_000
    assert "<table>" in answer._repr_html_()


def test_wide_laws_are_taken_for_continuous_ones() -> None:
    law = DiscreteGaussian(10**8)
    assert is_wide(law)
    noise = np.rint(np.random.default_rng(3).normal(0, 10_000, 40_000)).astype(np.int64)
    assert audited(array(noise, law)).ok
    assert "the scale of the noise" in failed(audited(array((noise * 1.06).astype(np.int64), law)))
