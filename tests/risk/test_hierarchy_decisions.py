"""Decisions of the two-level adversary: gains, losses, accuracy, ties, and what sampling makes of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.lab.risk.bayesian.counts import Geometric, ParentPrior, PointParent, Poisson, UniformParent
from confide.lab.risk.bayesian.decision_map import DecisionMap, ReleaseRegion, Ties, decision_accuracy, switches
from confide.lab.risk.bayesian.sibling_detail import sibling_detail_accuracy
from confide.lab.risk.bayesian.two_level import TwoLevel, Variant

RHO1 = Fraction(64, 25) * Fraction(165, 4099) * Fraction(3945, 4097)
RHO2 = Fraction(64, 25) * Fraction(1256, 4099) * Fraction(1288, 4099)
CENSUS = TwoLevel(RHO1, RHO2, siblings=27)


@pytest.mark.parametrize(
    ("variant", "gain", "loss", "correct"),
    [(Variant.STATED, 0.002130, 0.272800, 0.318191), (Variant.UNRESTRICTED, 0.023776, 0.018051, 0.594586)],
)
def test_what_the_hierarchy_changes_for_a_unique_person(
    variant: Variant, gain: float, loss: float, correct: float
) -> None:
    seen = DecisionMap(CENSUS, 1, 1, variant)
    changes = seen.changes()
    assert (changes.gain, changes.loss) == (pytest.approx(gain, abs=6e-7), pytest.approx(loss, abs=6e-7))
    assert seen.correct() == pytest.approx(correct, abs=6e-7)
    without = DecisionMap(CENSUS, 1, 1, Variant.WITHOUT).correct()
    assert without == pytest.approx(0.588860, abs=6e-7)
    assert seen.correct() - without == pytest.approx(changes.gain - changes.loss, abs=1e-12)


def test_the_region_that_the_paper_plots() -> None:
    inside = DecisionMap(CENSUS, 1, 1, Variant.UNRESTRICTED, ReleaseRegion()).changes()
    assert inside.mass == pytest.approx(0.9898, abs=5e-5)
    assert inside.gain == pytest.approx(0.022983, abs=6e-7)
    assert inside.loss == pytest.approx(0.017215, abs=6e-7)


def test_accuracy_by_the_parents_count() -> None:
    def present(x2: int, variant: Variant) -> float:
        return DecisionMap(CENSUS, 1, x2, variant).correct()

    assert present(4, Variant.UNRESTRICTED) == pytest.approx(0.590092, abs=6e-7)
    assert present(8, Variant.UNRESTRICTED) == pytest.approx(0.589726, abs=6e-7)
    assert present(4, Variant.STATED) == pytest.approx(0.5619, abs=5e-5)
    assert present(10, Variant.STATED) == pytest.approx(0.589726, abs=6e-7)
    assert DecisionMap(CENSUS, 0, 0).correct() == pytest.approx(0.889271, abs=6e-7)
    # A posterior from the right prior never loses on average; here it gains, though it loses if the target is present.
    near = decision_accuracy(CENSUS, 0)
    assert near.average == pytest.approx((0.318191 + 0.889271) / 2, abs=1e-6)
    far = decision_accuracy(CENSUS, 40)
    assert far.average == pytest.approx(0.589726, abs=6e-7)
    assert far.present == pytest.approx(far.absent, abs=1e-12)


@pytest.mark.parametrize("variant", [Variant.STATED, Variant.UNRESTRICTED])
def test_a_parent_with_hardly_any_noise_makes_ties(variant: Variant) -> None:
    seen = DecisionMap(TwoLevel(RHO1, 100, 27), 1, 1, variant)
    assert seen.correct(Ties.ZERO) == pytest.approx(0.586777, abs=6e-7)
    assert seen.correct(Ties.ONE) == pytest.approx(0.592715, abs=6e-7)
    assert seen.correct(Ties.SPLIT) == pytest.approx((0.586777 + 0.592715) / 2, abs=1e-6)
    assert seen.ties() == pytest.approx(0.592715 - 0.586777, abs=1e-6)
    # With an even number of siblings there are none.
    assert DecisionMap(TwoLevel(RHO1, 100, 26), 1, 1, variant).ties() < 1e-30


@pytest.mark.parametrize(
    ("parent", "x", "zero", "one"),
    [
        (PointParent(1), 1, 0.586777, 0.592715),
        (PointParent(25), 1, 0.729468, 0.734625),
        (PointParent(25), 0, 0.431284, 0.425207),
        (UniformParent(10), 1, 0.389694, 0.389694),
        (UniformParent(10), 0, 0.848858, 0.848858),
    ],
)
def test_other_priors(parent: ParentPrior, x: int, zero: float, one: float) -> None:
    seen = DecisionMap(TwoLevel(RHO1, RHO2, 27, parent=parent), x, x)
    assert seen.correct(Ties.ZERO) == pytest.approx(zero, abs=6e-7)
    assert seen.correct(Ties.ONE) == pytest.approx(one, abs=6e-7)


def test_other_priors_in_the_sampler_that_forgets_the_restriction() -> None:
    ten = TwoLevel(RHO1, RHO2, 27, parent=UniformParent(10))
    assert DecisionMap(ten, 1, 1, Variant.UNRESTRICTED).correct() == pytest.approx(0.594586, abs=6e-7)


def test_a_wrong_prior_does_not_help_on_average() -> None:
    wrong = decision_accuracy(TwoLevel(RHO1, RHO2, 27, parent=PointParent(25)), 0)
    assert wrong.average == pytest.approx(0.58, abs=5e-3)
    assert wrong.average < 0.588860
    # 74 and 42 % are reached with ties to "present" and y* cut off at -30 and 20.
    cut = ReleaseRegion((-100, 100), (-30, 20))
    for x, printed in ((1, 0.7401), (0, 0.4192)):
        seen = DecisionMap(TwoLevel(RHO1, RHO2, 27, parent=PointParent(25)), x, x, region=cut)
        assert seen.correct(Ties.ONE) / seen.mass == pytest.approx(printed, abs=5e-5)


def test_the_releases_that_sampling_decides_by_coin() -> None:
    assert float(CENSUS.posterior(0, 114, 100)) == pytest.approx(0.49964, abs=5e-6)
    assert float(CENSUS.posterior(1, 100, 113)) == pytest.approx(0.50036, abs=5e-6)


@pytest.mark.parametrize(("x2", "expected", "printed"), [(1, 0.595444, 0.5954), (8, 0.590556, 0.5905)])
def test_a_thousand_draws_with_ties_to_present_give_the_printed_figures(
    x2: int, expected: float, printed: float
) -> None:
    found = DecisionMap(CENSUS, 1, x2, Variant.UNRESTRICTED).sampled(1000, Ties.ONE)
    assert found == pytest.approx(expected, abs=6e-7)
    assert found == pytest.approx(printed, abs=6e-5)


def test_where_decisions_switch() -> None:
    x2 = np.arange(-3, 6)

    def edges(x1: int, variant: Variant) -> list[int | None]:
        return [row["last_present"] for row in switches(CENSUS, x1, x2, (-60, 60), variant)]

    assert edges(0, Variant.UNRESTRICTED) == [-14, -14, -14, -13, -13, -12, -12, -11, -10]
    assert edges(1, Variant.UNRESTRICTED) == [13, 13, 13, 14, 14, 15, 16, 17, 18]
    assert edges(0, Variant.STATED) == [None, None, None, None, None, -42, -18, -12, -10]
    assert edges(1, Variant.STATED)[5:] == [-1, 12, 16, 18]
    tied = switches(TwoLevel(RHO1, RHO2, 27, parent=PointParent(1)), 0, np.array([0]), (-60, 60))
    assert tied == [{"x2": 0, "last_present": -14, "tie": -13}]
    with pytest.raises(ParameterError, match="empty"):
        switches(CENSUS, 0, x2, (1, 0))


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(list(Variant)),
    st.fractions("1/3", 2, max_denominator=12),
    st.fractions("1/3", 2, max_denominator=12),
    st.integers(1, 4),
    st.sampled_from(["1/2", "1/5", "9/10"]),
    st.integers(0, 1),
    st.integers(0, 3),
    st.sampled_from(list(Ties)),
)
def test_accuracy_is_the_sum_over_all_releases(
    variant: Variant, rho1: Fraction, rho2: Fraction, d: int, p: str, x1: int, rest: int, ties: Ties
) -> None:
    model = TwoLevel(rho1, rho2, d, p)
    seen = DecisionMap(model, x1, x1 + rest, variant)
    x, k, y = np.meshgrid(seen.x1, seen.x2, seen.y, indexing="ij")
    mass = np.exp(
        -float(rho1) * (x - x1) ** 2.0 - float(rho2) * (k - x1 - rest) ** 2.0 - float(rho1 / d) * (y - rest) ** 2.0
    )
    odds = model.log_odds(x, k, y, variant)
    present = np.where(np.abs(odds) <= 1e-11, ties.share, odds > 0)
    right = present if x1 else 1 - present
    assert seen.correct(ties) == pytest.approx(float((mass * right).sum() / mass.sum()), abs=1e-12)
    base = model.log_odds(x, k, y, Variant.WITHOUT)
    before = np.where(np.abs(base) <= 1e-11, ties.share, base > 0)
    was_right = before if x1 else 1 - before
    gain = float((mass * (1 - was_right) * right).sum() / mass.sum())
    assert seen.changes(ties).gain == pytest.approx(gain, abs=1e-12)


def test_too_many_releases_are_refused() -> None:
    with pytest.raises(ParameterError, match="too many"):
        DecisionMap(TwoLevel("1e-5", "1e-5", 27), 1, 1)


def test_decisions_for_every_release() -> None:
    seen = DecisionMap(CENSUS, 1, 1, region=ReleaseRegion())
    decided = seen.decisions(Ties.ZERO)
    assert decided.shape == (9, 61, len(seen.x1))
    odds = CENSUS.log_odds(seen.x1, seen.x2[:, None, None], seen.y[:, None])
    assert (decided == (odds > 0)).all()


def test_truths_that_cannot_be() -> None:
    for x1, x2 in ((2, 2), (1, 0), (-1, 0)):
        with pytest.raises(ParameterError):
            DecisionMap(CENSUS, x1, x2)


def test_siblings_one_by_one_with_a_sparse_prior() -> None:
    tenth = sibling_detail_accuracy(RHO1, RHO2, [0] * 27, Geometric("0.1"), draws=2000)
    assert tenth.average == pytest.approx(0.595, abs=0.002)
    assert tenth.average == pytest.approx(0.59358, abs=4 * tenth.standard_error)
    hundredth = sibling_detail_accuracy(RHO1, RHO2, [0] * 27, Geometric("0.01"), draws=1000)
    assert hundredth.average == pytest.approx(0.661, abs=0.001)
    # In the limit all siblings are known to be empty: one noise with ρ1 + ρ2.
    limit = sibling_detail_accuracy(RHO1, RHO2, [0] * 27, Geometric("1e-9"), draws=2)
    assert limit.average == pytest.approx(0.661207, abs=2e-4)
    both = TwoLevel(RHO1, RHO2, 1, parent=PointParent(1))
    assert limit.average > decision_accuracy(both, 0).average


def test_one_sibling_of_its_own_is_the_two_level_adversary() -> None:
    """With d = 1 and the same prior, the simulation has the exact sum for its mean."""
    law = Poisson("1/2")
    found = sibling_detail_accuracy("1/2", "1/3", [1], law, "1/3", draws=4000, seed=3)
    rho1, rho2, z = 0.5, 1 / 3, np.arange(60)
    noise = np.arange(-12, 13)
    chance = np.exp(-rho1 * noise**2.0)
    chance /= chance.sum()
    wide = np.arange(-14, 15)
    above = np.exp(-rho2 * wide**2.0)
    above /= above.sum()
    right = {0: 0.0, 1: 0.0}
    for x1 in right:
        for e2, p2 in zip(wide, above, strict=True):
            for e, p in zip(noise, chance, strict=True):
                x2, y = x1 + 1 + e2, 1 + e
                logs = law.log_weight(z) - rho1 * (y - z) ** 2.0
                s = [float(np.exp(logs - rho2 * (x2 - k - z) ** 2.0).sum()) for k in (0, 1)]
                odds = np.log(0.5) + rho1 * (2 * (x1 + noise) - 1) + np.log(s[1] / s[0])
                right[x1] += p2 * p * float(chance @ ((odds > 0) == x1))
    expected = right[1] / 3 + right[0] * 2 / 3
    assert found.average == pytest.approx(expected, abs=4.5 * found.standard_error)


def test_siblings_need_counts_and_a_proper_prior() -> None:
    with pytest.raises(ParameterError):
        sibling_detail_accuracy("1/2", "1/3", [], Geometric(1))
