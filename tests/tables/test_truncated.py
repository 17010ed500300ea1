"""Any distribution for the same static programme: parameters from a risk or a utility, and what they promise."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb, exp, fsum
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from confide.cli.main import app
from confide.errors import ParameterError
from confide.lab.risk.noise_comparison import (
    NoiseSetting,
    _setting_row,
    changed_counts,
    changed_counts_of,
    compare_noise,
    guarantee,
    margin_driven,
    risk_driven,
    utility_driven,
)
from confide.noise import (
    BoundedDistribution,
    DiscreteGaussian,
    FiniteDistribution,
    TruncatedDistribution,
    TruncatedGaussian,
    TruncatedGeometric,
    TwoSidedGeometric,
    epsilon_delta,
    outside_mass,
)
from confide.noise.fitting import NoiseKind, make_noise, of_margin, of_variance
from confide.noise.max_entropy import symmetric_row
from confide.privacy import ZCDP, Definition, Neighbours, cks_epsilon
from confide.releases.plan import Plan, PlannedMeasurement


def confide(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.stdout


def row_of(bound: int, variance: str) -> FiniteDistribution:
    return FiniteDistribution.symmetric(Fraction(p) for p in symmetric_row(bound, variance).probabilities)


def true_delta(noise: BoundedDistribution, epsilon: Fraction, counts: int) -> float:
    """The exact delta of some counts, each moved by one, summed over all joint results."""
    law = {x: noise.pmf(x) for x in range(-noise.bound, noise.bound + 1)}
    total, factor = 0.0, float(mpmath.exp(float(epsilon)))
    for outcome in product(law, repeat=counts):
        one, other = (np.prod([law.get(x - moved, 0.0) for x in outcome]) for moved in (0, 1))
        total += max(0.0, float(one - factor * other))
    return total


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(list(NoiseKind)), st.integers(2, 12), st.fractions(Fraction(1, 100), Fraction(19, 20)))
def test_the_variance_is_kept_and_no_wider_law_keeps_it(kind: NoiseKind, bound: int, share: Fraction) -> None:
    limit = share * Fraction(bound * (bound + 1), 3)
    edge = bound if kind.bounded else None
    noise = of_variance(kind, limit, edge)
    assert noise.variance_bounds()[1] <= limit
    parameter = Fraction(noise.as_dict()["epsilon" if kind.by_epsilon else "sigma2"])
    wider = parameter * (1 - Fraction(1, 10**7) if kind.by_epsilon else 1 + Fraction(1, 10**7))
    assert make_noise(kind, wider, edge).variance_bounds()[0] > limit


@pytest.mark.parametrize("kind", list(NoiseKind))
@pytest.mark.parametrize(("margin", "level"), [(0, "0.4"), (3, "0.95"), (7, "0.99")])
def test_the_margin_is_kept_and_no_wider_law_keeps_it(kind: NoiseKind, margin: int, level: str) -> None:
    edge = 10 if kind.bounded else None
    noise = of_margin(kind, margin, level, edge)
    assert noise.noise_margin(level) == margin
    parameter = Fraction(noise.as_dict()["epsilon" if kind.by_epsilon else "sigma2"])
    wider = parameter * (1 - Fraction(1, 10**7) if kind.by_epsilon else 1 + Fraction(1, 10**7))
    assert make_noise(kind, wider, edge).noise_margin(level) == margin + 1


@pytest.mark.parametrize(
    ("bound", "variance", "epsilon", "delta"),
    [
        (2, "1", 1.344, 0.0638),
        (5, "2", 2.247, 5.49e-4),
        (5, "3", 1.476, 3.79e-3),
        (10, "2", 4.75, 3.9e-12),
        (10, "3", 3.167, 1.33e-8),
    ],
)
def test_a_row_of_a_perturbation_table_is_a_truncated_gaussian(
    bound: int, variance: str, epsilon: float, delta: float
) -> None:
    """(b (2 D - 1), p(D)) for large counts, computed before by other means; both peers agree on it."""
    row, truncated = row_of(bound, variance), of_variance(NoiseKind.TRUNCATED_GAUSSIAN, variance, bound)
    for noise in (row, truncated):
        pair = epsilon_delta(noise)
        assert pair is not None
        assert float(pair.epsilon) == pytest.approx(epsilon, abs=6e-4)
        assert float(pair.delta) == pytest.approx(delta, rel=1.5e-2)
    for x in range(bound + 1):
        assert row.pmf(x) == pytest.approx(truncated.pmf(x), rel=1e-6)


def test_changed_counts_of_a_programme() -> None:
    assert changed_counts(2775) == 2775
    assert changed_counts(2775, Neighbours.CHANGE_ONE) == 5550
    measures = tuple(
        PlannedMeasurement("block", q, 10, 4, DiscreteGaussian(2), ZCDP("1/4")) for q in ("sex", "age", "sex*age")
    )
    plan = Plan("tables", Neighbours.CHANGE_ONE, Definition.ZCDP, measures, ("block",), {})
    assert changed_counts_of(plan) == 6
    # Records that take part in some of the measurements alone change fewer counts; a plan without any changes none.
    for other in (replace(plan, paths=((0, 1), (2,))), replace(plan, measures=())):
        with pytest.raises(ParameterError, match="only a static programme"):
            changed_counts_of(other)


def test_a_listed_law_has_no_event_for_the_accountant() -> None:
    with pytest.raises(TypeError):
        _ = PlannedMeasurement("block", "sex", 1, 2, row_of(5, "2"), ZCDP(1)).event  # type: ignore[arg-type]


@pytest.mark.parametrize("counts", [1, 2, 3])
@pytest.mark.parametrize(
    "noise",
    [
        TruncatedGaussian("1/2", 3),
        TruncatedGaussian(4, 3),
        TruncatedGeometric("7/10", 4),
        FiniteDistribution.symmetric([1, 6, 9, 6, 1]),
    ],
    ids=repr,
)
def test_a_promise_is_kept_by_the_sum_over_all_results(noise: BoundedDistribution, counts: int) -> None:
    remaining = outside_mass(noise, counts)
    for spare in (Fraction(0), Fraction(1, 1000), Fraction(1, 20), Fraction(1, 4)):
        if remaining + spare < 1:
            pair = guarantee(noise, counts, remaining + spare)
            assert pair is not None
            assert pair.delta <= remaining + spare
            assert true_delta(noise, pair.epsilon, counts) <= float(pair.delta) * (1 + 1e-9)
    assert guarantee(noise, counts, remaining * Fraction(999, 1000)) is None


@pytest.mark.parametrize(
    "noise",
    [FiniteDistribution.symmetric([Fraction(4, 5) ** abs(x) for x in range(-40, 41)]), TruncatedGeometric("2/9", 40)],
    ids=["row", "truncated"],
)
def test_the_promise_for_a_hundred_counts_is_kept_and_close(noise: BoundedDistribution) -> None:
    """Every loss is plus or minus the largest one, so the exact delta is a binomial sum."""
    counts, loss = 100, float(noise.largest_loss)
    up, down = (float(noise.share_bounds(a, b)[0]) for a, b in ((-39, 0), (1, 40)))
    remaining = outside_mass(noise, counts)

    def true(epsilon: float) -> float:
        gains = (
            comb(counts, j) * up**j * down ** (counts - j) * max(0.0, 1 - exp(epsilon - (2 * j - counts) * loss))
            for j in range(counts + 1)
        )
        return float(remaining) + fsum(gains)

    for spare in ("1e-6", "1e-3"):
        pair = guarantee(noise, counts, remaining + Fraction(spare))
        assert pair is not None
        assert pair.epsilon < counts * noise.largest_loss
        assert true(float(pair.epsilon)) <= float(pair.delta)
        assert true(float(pair.epsilon) * 0.8) > float(pair.delta)


def test_truncation_takes_its_part_of_delta() -> None:
    """delta <= outside + delta' / G**k with G from the sum over the weights; rounded so that nothing is given away."""
    noise, changed, allowed = TruncatedGaussian(50, 20), 40, Fraction(1, 10)
    weights = {x: exp(-x * x / 100) for x in range(-200, 201)}
    inside = fsum(w for x, w in weights.items() if abs(x) <= 20)
    kept, outside = (inside / fsum(weights.values())) ** changed, 1 - (1 - weights[20] / inside) ** changed
    pair = guarantee(noise, changed, allowed)
    assert pair is not None
    spare = Fraction((0.1 - outside) * kept)
    assert float(pair.epsilon) == pytest.approx(cks_epsilon(Fraction(changed, 100), spare), rel=1e-9)
    assert 0.5 < kept < 0.95


def test_many_counts_with_truncated_noise_cost_hardly_more_than_without_the_bound() -> None:
    """Where nearly nothing is beyond the bound, truncating changes nothing that matters; a row knows less of itself."""
    plain = guarantee(DiscreteGaussian(50), 40, "1e-8")
    cut = guarantee(TruncatedGaussian(50, 70), 40, "1e-8")
    assert plain is not None
    assert cut is not None
    assert plain.epsilon < cut.epsilon < plain.epsilon * Fraction(1001, 1000)
    assert cut.epsilon < 40 * TruncatedGaussian(50, 70).largest_loss / 4
    pure = guarantee(TwoSidedGeometric("1/10"), 5, "1e-8")
    assert pure == (Fraction(1, 2), 0)


@pytest.mark.parametrize(("epsilon", "delta", "changed"), [("1", "1e-6", 10), ("1/2", "1e-4", 1), ("3", "1e-10", 60)])
def test_risk_driven_noise_keeps_the_promise_with_the_smallest_bound(epsilon: str, delta: str, changed: int) -> None:
    found = risk_driven(epsilon, delta, changed)
    assert [setting.noise.name for setting in found] == [
        "two-sided-geometric",
        "truncated-two-sided-geometric",
        "discrete-gaussian",
        "truncated-discrete-gaussian",
    ]
    for setting in found:
        kept = guarantee(setting.noise, changed, delta)
        assert kept is not None
        assert kept.epsilon <= Fraction(epsilon)
        if isinstance(setting.noise, TruncatedDistribution):
            narrower = type(setting.noise)(setting.noise.parameter, setting.noise.bound - 1)
            missed = guarantee(narrower, changed, delta)
            assert missed is None or missed.epsilon > Fraction(epsilon)
    geometric, gaussian = found[0].noise, found[2].noise
    assert geometric.as_dict()["epsilon"] == str(Fraction(epsilon) / changed)
    # Nothing is given away: one part in a million less noise breaks the promise.
    broken = guarantee(
        DiscreteGaussian(Fraction(gaussian.as_dict()["sigma2"]) * Fraction(999_999, 10**6)), changed, delta
    )
    assert broken is not None
    assert broken.epsilon > Fraction(epsilon)


def test_utility_driven_noise_side_by_side() -> None:
    """With V = 2 and E = 5 a count is well protected; the 2,775 counts of a person in a census programme are not."""
    one = {s.noise.name: s for s in utility_driven(2, 5, 1, "1e-3", [row_of(5, "2")])}
    assert float(one["two-sided-geometric"].noise.variance()) == pytest.approx(2, abs=1e-7)
    pair = one["truncated-discrete-gaussian"].of_programme
    assert pair is not None
    assert pair.delta <= Fraction(1, 1000)
    assert pair.epsilon <= Fraction(2248, 1000)
    assert one["truncated-two-sided-geometric"].of_programme is None
    many = {s.noise.name: s for s in utility_driven(2, 5, 2775, rows=[row_of(5, "2")])}
    # 1 - (1 - 5.4857e-4)**2775
    assert float(many["truncated-discrete-gaussian"].remaining) == pytest.approx(0.78188, abs=1e-4)
    assert float(many["finite"].remaining) == pytest.approx(0.78188, abs=1e-4)
    assert many["discrete-gaussian"].remaining == 0
    margins = margin_driven(3, "0.95", 10)
    assert [setting.noise.noise_margin("0.95") for setting in margins] == [3, 3, 3, 3]
    assert isinstance(margins[0], NoiseSetting)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: of_variance(NoiseKind.TRUNCATED_GAUSSIAN, 10, 5),
        lambda: of_variance(NoiseKind.GAUSSIAN, 2, 5),
        lambda: of_variance(NoiseKind.TRUNCATED_GAUSSIAN, 2),
        lambda: of_variance(NoiseKind.GAUSSIAN, 0.5),
        lambda: of_margin(NoiseKind.TRUNCATED_GEOMETRIC, 10, "0.95", 10),
        lambda: of_margin(NoiseKind.GEOMETRIC, 3, "1"),
        lambda: risk_driven("1e-9", "1e-10", 1),
        lambda: risk_driven("0", "1e-10", 1),
        lambda: risk_driven("1", "1", 3),
        lambda: risk_driven("1e-30", "1e-300", 3),
        lambda: utility_driven(2, 5, 1, "0"),
    ],
)
def test_what_cannot_be_is_refused(ask: Any) -> None:
    with pytest.raises(ParameterError):
        ask()


def test_the_command_compares_all_of_them() -> None:
    found = json.loads(confide("account", "noise", "compare", "--variance", 2, "--bound", 5, "--json"))
    by_name = {entry["name"]: entry for entry in found["distributions"]}
    assert set(by_name) == {kind.value for kind in NoiseKind} | {"perturbation-table"}
    assert by_name["truncated-discrete-gaussian"]["count"]["epsilon"] == pytest.approx(2.2472, abs=1e-3)
    assert by_name["perturbation-table"]["remaining_delta"] == pytest.approx(5.49e-4, rel=1e-2)
    assert by_name["two-sided-geometric"]["largest"] is None
    risk = json.loads(confide("account", "noise", "compare", "--epsilon", 1, "--delta", "1e-6", "-t", 5, "--json"))
    assert (risk["driven_by"], risk["changed"]) == ("epsilon", 5)
    assert all(entry["programme"]["epsilon"] <= 1 for entry in risk["distributions"])
    changed = ["--neighbours", "change-one", "-t", 5]
    by_margin = confide("account", "noise", "compare", "--margin", 3, "--bound", 9, *changed)
    assert "10 counts" in by_margin
    assert "charged to a ledger of approximate" in by_margin
    assert "The p-table row is the truncated Gaussian" not in by_margin  # a margin says no row
    assert "The p-table row is the truncated Gaussian" in confide("account", "noise", "compare", "-V", 2, "-D", 5)


@pytest.mark.parametrize("measurements", [1, 7, 2775])
def test_what_the_command_prints_as_rounded_up_is_not_below_what_was_computed(measurements: int) -> None:
    for setting in compare_noise(variance="2.3", bound=6, measurements=measurements).settings:
        shown = _setting_row(setting)[-2:]
        for pair, text in zip((setting.of_count, setting.of_programme), shown, strict=True):
            if pair is not None:
                epsilon, delta = (Fraction(number) for number in text.split(", "))
                assert pair.epsilon <= epsilon <= pair.epsilon * Fraction("1.001")
                assert pair.delta <= delta <= pair.delta * Fraction("1.01")


def test_the_other_noise_commands_know_truncated_laws() -> None:
    law = ["--law", "truncated-discrete-gaussian", "--sigma2", 2, "--bound", 5]
    assert json.loads(confide("account", "noise", "pmf", *law, "--at", "5,6", "--json"))["pmf"] == [
        TruncatedGaussian(2, 5).pmf(5),
        0.0,
    ]
    assert json.loads(confide("account", "noise", "margin", *law, "--json"))["noise_margin"] == 3
    assert json.loads(confide("account", "noise", "quantile", *law, "-p", "0.9999", "--json"))["quantile"] == 5
    for wrong in (["--sigma2", 2], ["--epsilon", 1, "--bound", 5]):
        confide("account", "noise", "margin", "--law", "truncated-discrete-gaussian", *wrong, code=2)
    confide("account", "noise", "compare", "--variance", 2, code=2)
    confide("account", "noise", "compare", "--variance", 2, "--margin", 3, "--bound", 5, code=2)


def test_the_page_shows_what_the_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "distributions.md").read_text(encoding="utf-8")
    shown = re.findall(r"```\n\$ confide (.+)\n((?:.+\n)+)```", page)
    assert len(shown) == 3
    for command, printed in shown:
        assert confide(*command.split()).startswith(printed)
