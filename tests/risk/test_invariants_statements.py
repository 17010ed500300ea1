"""Numbers and words of the promise for groups, the true cost of a modification, and the example that gives all away."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.documents import parse_schema
from confide.errors import ParameterError
from confide.lab.risk.invariant_sets import chain, estimates, load_invariants
from confide.mechanisms.topdown.strategy import plan_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.noise import TwoSidedGeometric
from confide.privacy import ZCDP, Definition, Neighbours, PureDP, cks_delta
from confide.privacy.invariants import (
    QueryMeasurement,
    Record,
    RecordLoss,
    exchange_rho,
    explain,
    group_concentration,
    measurements_of,
    record_groups,
    rho_of_modification,
    single_record,
    worst_rho,
)
from confide.releases.plan import Plan, PlannedMeasurement

BLOCK_RHO = Fraction("0.099226354")  # detailed query of the blocks, of 2.56


@pytest.mark.parametrize(
    ("rho", "worst", "distinct"),
    [
        ("2.56", (17.16, 39.82, 100.78, 284.53), (17.16, 25.91, 39.82, 62.56)),
        (BLOCK_RHO, (2.87, 6.03, 13.03, 29.55), (2.87, 4.15, 6.03, 8.82)),
    ],
)
def test_epsilons_of_one_two_four_and_eight(
    rho: str | Fraction, worst: tuple[float, ...], distinct: tuple[float, ...]
) -> None:
    for records, all_one_cell, no_two in zip((1, 2, 4, 8), worst, distinct, strict=True):
        at_worst, apart = group_concentration(records, rho)
        assert at_worst.rho == records**2 * Fraction(rho)
        assert apart.rho == records * Fraction(rho)
        assert at_worst.epsilon == pytest.approx(all_one_cell, abs=0.006)
        assert apart.epsilon == pytest.approx(no_two, abs=0.006)


def test_conversions_are_rounded_up() -> None:
    with localcontext() as context:
        context.prec = 60
        for records in (1, 2, 4, 8):
            worst, _ = group_concentration(records, "2.56")
            assert cks_delta(worst.rho, Fraction(worst.epsilon)) <= 1e-10
            assert cks_delta(worst.rho, Fraction(worst.epsilon) * (1 - Fraction(1, 10**9))) > 1e-10
            rho = Decimal(worst.rho.numerator) / worst.rho.denominator
            exact = 2 * (rho + 2 * (rho * (Decimal(10) ** 10).ln()).sqrt())
            assert exact <= Decimal(worst.log_factor) < exact * (1 + Decimal("1e-12"))


def test_a_float_is_no_loss() -> None:
    with pytest.raises(ParameterError, match="floating-point"):
        group_concentration(2, 2.56)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="whole number"):
        group_concentration(0, "2.56")


def test_the_posterior_of_what_is_true() -> None:
    """One bit with discrete Gaussian noise against a release without it: the bound holds, half of it does not."""
    sigma2, delta = 0.5, Fraction(1, 20)
    (bound, _) = group_concentration(1, Fraction(1), delta)
    k = np.arange(-12, 14)
    law = np.exp(-((k - np.array([0, 1])[:, None]) ** 2) / (2 * sigma2))
    law /= law.sum(axis=1, keepdims=True)
    for prior in (0.5, 0.1, 1e-4):
        weights = np.array([1 - prior, prior])
        # The counterfactual release knows nothing of the bit: posterior = prior.
        gained = np.log(law) - np.log(weights @ law)
        joint = weights[:, None] * law
        assert joint[gained > bound.log_factor].sum() <= 2 * delta
        assert joint[gained < -bound.log_factor].sum() <= 2 * delta
        assert (joint * gained).sum() <= bound.rho
    assert law[1][np.log(law[1] / law[0]) > 1.5].sum() > delta  # a factor well below exp(2 epsilon') is exceeded


def test_sentences_for_the_cases() -> None:
    chosen = load_invariants(["C1", "C2"])
    plain = " ".join(explain(single_record(chosen), record_groups(chosen)))
    assert "exp(2 epsilon)" in plain
    assert "To leave open all combinations by permuting the records of the group takes a group of 4" in plain
    assert "exp(8 epsilon)" in plain
    assert "one alternative at a time takes a group of 2: a factor of at most exp(4 epsilon)" in plain
    assert "Age: it holds inside of what the invariants tell apart (under 18; 18 and over)" in plain
    assert "Block and Voting age: somebody who knows all other records can calculate it" in plain
    pure = " ".join(explain(single_record(chosen), record_groups(chosen), RecordLoss(epsilon="1/2")))
    assert f"which is {math.ceil(math.exp(4) * 100) / 100}" in pure
    zcdp = " ".join(explain(single_record(chosen), record_groups(chosen), RecordLoss(rho="2.56")))
    assert "rho = 40.9600, epsilon = 100.79" in zcdp
    assert "rho = 10.2400, epsilon = 39.83" in zcdp


# --- The cost of a modification ---

SCHEMA = parse_schema(
    {
        "id": "small",
        "provenance": "made up",
        "attributes": {
            "sex": {"levels": [[0, "m"], [1, "f"]]},
            "age": {"levels": [[0, "a"], [1, "b"], [2, "c"]], "recodes": {"two": {"groups": {"x": [0, 1], "y": [2]}}}},
        },
    }
)
QUERIES = ["total", "sex", "age:two", "sex*age"]
people = st.builds(
    lambda block, sex, age: Record(("all", f"county {block // 2}", f"block {block}"), {"sex": sex, "age": age}),
    st.integers(0, 3),
    st.integers(0, 1),
    st.integers(0, 2),
)


@settings(max_examples=60, deadline=None)
@given(before=st.lists(people, max_size=4), after=st.lists(people, max_size=4))
def test_against_histograms_of_the_two_data_sets(before: list[Record], after: list[Record]) -> None:
    measured, expected = [], Fraction(0)
    for level in range(3):
        for number, query in enumerate(QUERIES):
            sigma2 = Fraction(level + 1, number + 2)
            measured.append(QueryMeasurement(level, SCHEMA.query(query), sigma2))
            old, new = (Counter(cell_of(query, level, r) for r in records) for records in (before, after))
            expected += Fraction(sum((old[c] - new[c]) ** 2 for c in old | new)) / (2 * sigma2)
    assert rho_of_modification(measured, before, after) == expected


def cell_of(query: str, level: int, record: Record) -> tuple[object, ...]:
    answers = {"sex": record.values["sex"], "age": record.values["age"], "age:two": record.values["age"] == 2}
    names = [] if query == "total" else query.split("*")
    return (record.units[level], *(answers[name] for name in names))


@pytest.fixture(scope="module")
def production() -> Plan:
    return plan_of(load_strategy("pl94-persons", Path(), root="us"))


def person(path: str, hhgq: int, voting: int, hispanic: int, race: int) -> Record:
    """A person whose units are named by the beginnings of a path of five digits."""
    units = ("us", *(path[:length] for length in range(1, 6)))
    return Record(units, {"hhgq": hhgq, "votingage": voting, "hispanic": hispanic, "cenrace": race})


def test_one_record_that_changes_in_everything_costs_the_loss_of_the_plan(production: Plan) -> None:
    measured = measurements_of(production, load_strategy("pl94-persons", Path(), root="us").schema)
    before, after = person("11111", 0, 0, 0, 0), person("22222", 1, 1, 1, 5)
    assert isinstance(production.loss, ZCDP)
    rho = production.loss.rho
    assert rho_of_modification(measured, [before], [after]) == rho
    assert rho_of_modification(measured, [before] * 3, [after] * 3) == worst_rho(rho, 3)
    # Where one comes to the cell that the other leaves, as in the nation's counts by voting age, it cancels.
    other = person("33333", 2, 1, 1, 7), person("44444", 5, 0, 0, 9)
    two = rho_of_modification(measured, [before, other[0]], [after, other[1]])
    assert rho < two < 2 * rho < worst_rho(rho, 2)


def test_an_exchange_costs_nothing_above_the_unit_that_has_both(production: Plan) -> None:
    strategy = load_strategy("pl94-persons", Path(), root="us")
    measured = measurements_of(production, strategy.schema)
    costs = {}
    for level, (one, other) in enumerate(
        [("11111", "22222"), ("11111", "12222"), ("11111", "11222"), ("11111", "11122"), ("11111", "11112")]
    ):
        a, b = (0, 1, 0, 0), (1, 0, 1, 5)
        before = [person(one, *a), person(other, *b)]
        after = [person(other, *a), person(one, *b)]
        costs[level] = rho_of_modification(measured, before, after)
        within = production.spine[level]
        lower = [m for m in measured if m.level > level and m.query.variables]
        assert costs[level] == sum((2 / m.sigma2 for m in lower), Fraction(0))  # totals stay the same
        assert costs[level] <= exchange_rho(production, within)
        assert exchange_rho(production, within) == sum((2 / m.sigma2 for m in measured if m.level > level), Fraction(0))
    assert sorted(costs.values(), reverse=True) == list(costs.values())
    same = [person("11111", 0, 1, 0, 0), person("22222", 0, 1, 0, 0)]
    assert rho_of_modification(measured, same, same[::-1]) == 0


def test_an_exchange_of_units_reaches_its_bound() -> None:
    strategy = load_strategy("pl94-units", Path(), root="us")
    plan = plan_of(strategy)
    units = [("us", *(path[:length] for length in range(1, 6))) for path in ("11111", "22222")]
    before = [Record(units[0], {"h1": 0}), Record(units[1], {"h1": 1})]
    after = [Record(units[1], {"h1": 0}), Record(units[0], {"h1": 1})]
    assert rho_of_modification(measurements_of(plan, strategy.schema), before, after) == exchange_rho(plan, "us")


def test_records_count_on_their_own_path_only() -> None:
    total = SCHEMA.query("total")
    measured = [
        QueryMeasurement(2, total, Fraction(1), frozenset({0})),
        QueryMeasurement(2, total, Fraction(4), frozenset({1})),
    ]
    here = Record(("all", "c", "block 0"), {"sex": 0, "age": 0}, path=0)
    there = Record(("all", "c", "block 1"), {"sex": 0, "age": 0}, path=1)
    assert rho_of_modification(measured, [here], [there]) == Fraction(1, 2) + Fraction(1, 8)


def test_other_noise_is_refused() -> None:
    law = TwoSidedGeometric(Fraction(1))
    measures = (PlannedMeasurement("all", "sex", 1, 2, law, PureDP(2), ("sex",)),)
    plan = Plan("tables", Neighbours.CHANGE_ONE, Definition.PURE, measures, ("all",), {})
    with pytest.raises(ParameterError, match="Gaussian"):
        measurements_of(plan, SCHEMA)
    with pytest.raises(ParameterError, match="Gaussian"):
        exchange_rho(plan)


# --- The example of Kifer and Machanavajjhala ---


def test_the_numbers_of_the_example() -> None:
    example = chain(1000, 10, "1/10")
    assert example.single_variance == 20_000
    assert example.mean_variance == 20
    assert example.counterfactual_error == Fraction("20.0001")
    assert example.median_variance == 10
    assert (example.group, example.multiplier) == (1000, 2000)


def test_every_noisy_value_estimates_the_first() -> None:
    values = np.array([3.0, 7, 0, 10, 2])
    assert np.array_equal(estimates(values, values[:-1] + values[1:]), np.full(5, 3.0))


@pytest.mark.statistical
def test_the_example_in_simulation() -> None:
    """Mean, median and replaced record over 4,000 releases. False alarm rate below 1e-6: five standard errors."""
    rng = np.random.default_rng(11)
    n, k, epsilon, runs = 200, 10, 0.1, 4000
    example = chain(n, k, "1/10")
    values = rng.integers(0, k + 1, n).astype(float)
    values[0] = 0
    noise = rng.laplace(0, k / epsilon, (runs, n))
    sums = np.broadcast_to(values[:-1] + values[1:], (runs, n - 1))
    found = estimates(values + noise, sums)
    spread = 5 * math.sqrt(2 / runs)
    assert np.mean(found.mean(axis=1) ** 2) == pytest.approx(float(example.mean_variance), rel=spread)
    assert np.mean(np.median(found, axis=1) ** 2) == pytest.approx(float(example.median_variance), rel=0.1 + spread)
    replaced = values.copy()
    replaced[0] = k  # the record is scrubbed, the sums are the true ones
    error = np.mean(estimates(replaced + noise, sums).mean(axis=1) ** 2)
    assert error <= float(example.counterfactual_error) * (1 + spread)
