"""Perturbation tables keep every condition, no law has more entropy, and infeasible settings are refused."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from tests.kits.times import mostly_slow

from confide.errors import ParameterError
from confide.noise.max_entropy import (
    Multipliers,
    NoiseRow,
    certify,
    free_variance,
    solve_row,
    symmetric_row,
    violations,
)
from confide.noise.ptables import RowProblem, count_settings, generate, magnitude_settings
from confide.noise.ptables.design import variance_range

CONDITIONS = 1e-12

# Rows that the R package ptable prints for these settings, to six decimals.
PUBLISHED: list[tuple[dict[str, Any], int, list[float]]] = [
    ({"D": 2, "V": "1"}, 1, [0.366486, 0.366486, 0.167572, 0.099457]),
    ({"D": 2, "V": "1"}, 2, [0.063827, 0.244691, 0.382963, 0.244691, 0.063827]),
    ({"D": 2, "V": "1", "mono": False}, 1, [0.398065, 0.305806, 0.194194, 0.101935]),
    ({"D": 2, "V": "9/10"}, 1, [0.3625, 0.3625, 0.1875, 0.0875]),
    ({"D": 2, "V": "0.9"}, 2, [0.051546, 0.243816, 0.409277, 0.243816, 0.051546]),
    (
        {"D": 5, "V": "2"},
        1,
        [0.388938, 0.388938, 0.122093, 0.056394, 0.026048, 0.012031, 0.005557],
    ),
    (
        {"D": 5, "V": "2"},
        2,
        [0.157144, 0.240902, 0.258272, 0.193646, 0.101539, 0.037235, 0.009549, 0.001713],
    ),
    (
        {"D": 5, "V": "2"},
        3,
        [0.034339, 0.110449, 0.221353, 0.276411, 0.215066, 0.104264, 0.031495, 0.005928, 0.000695],
    ),
    (
        {"D": 5, "V": "2"},
        4,
        [0.005345, 0.030293, 0.104550, 0.219716, 0.281165, 0.219090, 0.103955, 0.030035, 0.005284, 0.000566],
    ),
    ({"D": 5, "V": "3", "js": 2}, 1, [0.734470, 0.136720, 0.072796, 0.037430, 0.018584]),
    ({"D": 5, "V": "3", "js": 2}, 2, [0.408807, 0.406644, 0.147624, 0.032319, 0.004267, 0.000340]),
    (
        {"D": 5, "V": "3", "js": 2},
        4,
        [0.084855, 0.277921, 0.277921, 0.189394, 0.105125, 0.045455, 0.015311, 0.004017],
    ),
    (
        {"D": 5, "V": "3", "js": 2},
        7,
        [0.018439, 0.055484, 0.121621, 0.194208, 0.225914, 0.191441, 0.118180, 0.053146, 0.017411, 0.004155],
    ),
]


@pytest.mark.parametrize(("asked", "i", "expected"), PUBLISHED)
def test_published_rows(asked: dict[str, Any], i: int, expected: list[float]) -> None:
    row = generate(count_settings(**asked)).rows[i]
    assert row.i == i
    assert row.p == pytest.approx(expected, abs=1e-6)
    assert sum(map(Fraction, row.p)) == pytest.approx(1, abs=1e-15)


def test_the_unit_test_of_the_package() -> None:
    design = generate(count_settings(2, "1.05", 1, mono=[True, True, False, True]))
    assert [len(row.p) for row in design.rows] == [1, 3, 4, 4, 5]
    found = [p for row in design.rows[1:] for p in row.p]
    expected = [0.50833333, 0.475, 0.01666667, 0.16155827, 0.55565037, 0.24246618, 0.04032518, 0.41231301, 0.28806097]
    expected += [0.18693903, 0.11268699, 0.07012498, 0.24450007, 0.3707499, 0.24450007, 0.07012498]
    assert found == pytest.approx(expected, abs=1e-8)
    # Row 1 has three values and three conditions: it can be solved by hand.
    assert found[:3] == pytest.approx([61 / 120, 57 / 120, 2 / 120], abs=1e-15)


def test_targets_and_rows() -> None:
    plain, blocked = count_settings(5, 2), count_settings(5, 3, 2)
    assert plain.counts == tuple(range(6))
    assert blocked.counts == tuple(range(9))
    assert plain.problem(1).noise == (-1, 0, 1, 2, 3, 4, 5)
    assert blocked.problem(2).noise == (-2, 1, 2, 3, 4, 5)
    assert blocked.problem(7).noise == (-4, -3, -2, -1, 0, 1, 2, 3, 4, 5)
    assert blocked.problem(8).noise == tuple(range(-5, 6))
    grid = magnitude_settings(5, 2, step=4, icat=[1, 3, 5])
    assert grid.problem(1).noise == tuple(range(-4, 21))
    assert grid.problem(1).variance == 32


@pytest.mark.parametrize(
    ("bound", "variance", "b"),
    [(2, "1", 0.44794), (5, "2", 0.24968), (5, "3", 0.16400), (10, "2", 0.25), (10, "3", 0.16667)],
)
def test_symmetric_rows(bound: int, variance: str, b: float) -> None:
    """One parameter: p is proportional to exp(-b v^2), exactly symmetric."""
    row = generate(count_settings(bound, variance)).symmetric
    assert row.p == row.p[::-1] == symmetric_row(bound, variance).probabilities
    assert row.solved is not None
    assert row.solved.multipliers is not None
    assert row.solved.multipliers.b == pytest.approx(b, abs=1e-5)
    ratios = [math.log(row.p[bound] / row.p[bound + v]) / v**2 for v in range(1, bound + 1)]
    assert ratios == pytest.approx([row.solved.multipliers.b] * bound, rel=1e-12)


def test_no_floor_under_small_probabilities() -> None:
    """Programs with a floor of 1e-8 cannot show this tail."""
    assert generate(count_settings(10, 2)).symmetric.p[0] == pytest.approx(3.9e-12, rel=0.02)


@pytest.mark.parametrize("variance", ["10", "10.5", "1000"])
def test_uniform_limit(variance: str) -> None:
    """From V = D (D + 1) / 3 on the last row is uniform."""
    row = generate(count_settings(5, variance)).symmetric
    assert row.p == pytest.approx([1 / 11] * 11, abs=1e-15)
    assert row.variance == pytest.approx(10, abs=1e-13)
    assert row.attained is (variance == "10")


@pytest.mark.parametrize(
    ("bound", "largest"), [(2, 0.93188), (3, 1.10728), (4, 1.22497), (5, 1.30247), (7, 1.38311), (10, 1.4192)]
)
def test_unattained_variance_is_reported(bound: int, largest: float) -> None:
    design = generate(count_settings(bound, 2))
    row = design.rows[1]
    assert row.attained is False
    assert row.variance == pytest.approx(largest, abs=1e-5)
    assert row.largest_variance == pytest.approx(largest, abs=1e-5)
    (warning,) = [finding for finding in design.findings() if finding.where.path == "row 1"]
    assert (warning.code, warning.severity) == ("variance-not-attained", "warning")


def test_largest_variance_of_other_rows() -> None:
    rows = generate(count_settings(5, 2)).rows
    assert rows[2].largest_variance == pytest.approx(3.278, abs=1e-3)
    assert rows[2].attained is True
    free = generate(count_settings(5, 2, mono=False)).rows[1]
    assert free.largest_variance == pytest.approx(1.72149, abs=1e-5)


def test_equality_reaches_what_a_bound_does_not() -> None:
    """As in row 1 of a published table with D = 7, V = 4, js = 2; with more variance still the tail rises."""
    design = generate(count_settings(7, 4, 2, equality=True))
    assert design.rows[1].p[1:] == pytest.approx([0.0874, 0.0508, 0.0323, 0.0226, 0.0173, 0.0146], abs=5e-5)
    assert all(row.attained for row in design.rows[1:])
    rising = generate(count_settings(5, "2.7", equality=True)).rows[1].p
    assert rising[-1] > rising[-2] > rising[-3]
    assert rising[0] == rising[1]


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        ({"D": 5, "V": 3, "js": 3}, "ptable-infeasible", ("smallest feasible V is 4;", "count 2")),
        ({"D": 5, "V": "1.99", "js": 2}, "ptable-infeasible", ("smallest feasible V is 2;", "count 1")),
        ({"D": 9, "V": 5, "js": 4}, "ptable-infeasible", ("smallest feasible V is 6;", "count 2")),
        ({"D": 9, "V": "1/2", "js": 1}, "ptable-infeasible", ("smallest feasible V is 1;", "count 1")),
        ({"D": 5, "V": 3, "equality": True}, "ptable-infeasible", ("30/11", "count 1")),
        (
            {"D": 5, "V": 4, "js": 3, "equality": True, "pstay": "9/10"},
            "ptable-infeasible",
            ("no V is feasible", "count 2", "count 6"),
        ),
        ({"D": 3, "V": 3, "js": 3}, "bad-ptable-setting", ("js + 1", "D of at least 4")),
        ({"D": 3, "V": 0}, "bad-ptable-setting", ("positive",)),
        ({"D": 3, "V": "1e400"}, "bad-ptable-setting", ("far too large or too small", "1e-300 to 1e+15")),
        ({"D": 3, "V": "1e-400"}, "bad-ptable-setting", ("far too large or too small", "1e-300 to 1e+15")),
        ({"D": 0, "V": 1}, "bad-ptable-setting", ("-D",)),
        ({"D": 3, "V": 1, "pstay": "1"}, "bad-ptable-setting", ("less than one",)),
        ({"D": 3, "V": 1, "pstay": ["0.5", "0.5"]}, "bad-ptable-setting", ("each of the 3 rows",)),
        ({"D": 3, "V": 1.5}, "float-refused", ("V",)),
    ],
)
def test_what_is_refused(asked: dict[str, Any], code: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError) as caught:
        generate(count_settings(**asked))
    assert [finding.code for finding in caught.value.findings] == [code]
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("js", "smallest"), [(1, 1), (2, 2), (3, 4), (4, 6), (5, 9)])
def test_the_smallest_feasible_variance_is_feasible(js: int, smallest: int) -> None:
    """At it some row has two values; a little below it there is no table."""
    design = generate(count_settings(8, smallest, js))
    assert design.as_dict()["smallest_feasible_V"] == smallest == (js + 1) ** 2 // 4
    assert any(row.on_the_boundary for row in design.rows)
    assert {finding.code for finding in design.findings()} >= {"variance-on-the-boundary"}
    with pytest.raises(ParameterError):
        generate(count_settings(8, smallest - Fraction(1, 10**9), js))
    assert not any(row.on_the_boundary for row in generate(count_settings(8, smallest + Fraction(1, 10**6), js)).rows)


def test_probability_to_stay() -> None:
    design = generate(count_settings(5, 3, 2, pstay="1/2"))
    for row in design.rows[3:]:
        assert row.p[row.units.index(0)] == pytest.approx(0.5, abs=1e-15)
        assert row.active[:2] == ["variance", "stay"]
    assert design.rows[1].p == generate(count_settings(5, 3, 2)).rows[1].p
    mixed = generate(count_settings(2, "1", pstay=["1/3", "9/10"]))
    assert mixed.rows[1].p == pytest.approx(generate(count_settings(2, 1)).rows[1].p)
    assert mixed.rows[2].p == pytest.approx([1 / 40, 1 / 40, 9 / 10, 1 / 40, 1 / 40])
    assert mixed.rows[2].attained is False


def test_magnitudes() -> None:
    design = generate(magnitude_settings(5, 2, step=4, icat=[1, 3, 5]))
    assert [row.i for row in design.rows] == [0, 1, 3, 5]
    assert design.rows[1].noise[0] == -1
    assert design.rows[1].noise[1] == Fraction(-3, 4)
    assert len(set(design.rows[1].p[:5])) == 1  # the monotonicity ties all that is not above zero
    assert design.rows[1].p[4] > design.rows[1].p[5]
    assert design.symmetric.p == design.symmetric.p[::-1]
    assert design.symmetric.variance == pytest.approx(2, abs=1e-13)
    # On a grid of one step the rows are those of counts.
    same = generate(magnitude_settings(5, 2, step=1, icat=[1, 2, 5]))
    counts = generate(count_settings(5, 2))
    assert same.rows[2].p == counts.rows[2].p
    with pytest.raises(ParameterError, match="first 1 and the last"):
        magnitude_settings(5, 2, step=4, icat=[1, 3])
    with pytest.raises(ParameterError, match="below 50"):
        magnitude_settings(5, 2, step=10, icat=[1, 5])


@st.composite
def problems(draw: st.DrawFn) -> RowProblem:
    """A row of a random table, with a variance from the edge of the feasible ones to beyond them."""
    bound = draw(st.integers(1, 12))
    js = draw(st.integers(0, min(4, bound - 1)))
    asked = count_settings(
        bound,
        1,
        js,
        pstay=draw(st.none() | st.fractions("1/100", "99/100", max_denominator=100)),
        mono=draw(st.booleans()),
        equality=draw(st.booleans()),
    )
    problem = asked.problem(draw(st.integers(1, len(asked.counts) - 1)))
    found = variance_range(problem)
    assert found is not None
    share = draw(st.fractions("1/1000000", "999999/1000000", max_denominator=10**6))
    return replace(problem, variance=found.smallest + share * (found.largest - found.smallest))


def solved(problem: RowProblem) -> NoiseRow:
    found = variance_range(problem)
    assert found is not None
    return solve_row(problem, found.smallest)


@given(problems())
@example(RowProblem((-1, 0, 1, 2, 3, 4, 5), Fraction(2)))
@example(RowProblem(tuple(range(-30, 31)), Fraction(1, 10**4)))
@example(RowProblem(tuple(range(-10, 11)), Fraction(9, 5), p_stay=Fraction(97, 100)))
@example(RowProblem(tuple(range(-1, 6)), Fraction(2), p_stay=1 - Fraction(1, 10**9)))
@example(RowProblem((-1, 0, 1, 2, 3, 4, 5), Fraction(30, 11) - Fraction(1, 10**14), equality=True))
@settings(max_examples=100, deadline=None)
def test_every_condition_holds(problem: RowProblem) -> None:
    law = solved(problem)
    assert max(violations(problem, law.probabilities).values()) < CONDITIONS
    assert law.certificate.primal < CONDITIONS
    assert law.certificate.dual < CONDITIONS
    assert abs(law.certificate.gap) < 1e-11


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_no_other_law_has_more_entropy(problem: RowProblem, seed: int) -> None:
    """Towards random corners of the feasible laws, found without any of our code, the entropy falls."""
    law = solved(problem)
    generator = np.random.default_rng(seed)
    for _ in range(4):
        corner = linear_optimum(problem, generator.normal(size=len(problem.noise)))
        for share in (1e-3, 0.1, 1.0):
            other = (1 - share) * np.array(law.probabilities) + share * corner
            assert entropy(other) <= law.entropy + 1e-9


@given(problems())
@settings(max_examples=40, deadline=None)
def test_variance_ranges_are_those_of_a_linear_program(problem: RowProblem) -> None:
    squares = np.array(problem.noise, float) ** 2
    free = replace(problem, variance=Fraction(10**6), equality=False)
    found = variance_range(problem)
    assert found is not None
    for sign, expected in ((1, found.smallest), (-1, found.largest)):
        assert squares @ linear_optimum(free, sign * squares) == pytest.approx(float(expected), abs=1e-7)


@pytest.mark.parametrize("seed", mostly_slow(range(6), 2))
def test_the_full_dual_agrees(seed: int) -> None:
    """All multipliers, those of the monotonicity included, by a solver that knows nothing of pooling."""
    generator = np.random.default_rng(seed)
    bound = int(generator.integers(2, 7))
    asked = count_settings(bound, "1.2", pstay=None if seed % 2 else "2/5")
    problem = asked.problem(int(generator.integers(1, bound + 1)))
    v = np.array(problem.noise, float)
    rows = [v, v**2, -(v == 0).astype(float)]
    rows += [np.eye(len(v))[k] - np.eye(len(v))[k + 1] for k in range(problem.tied - 1)]
    matrix, limits = np.array(rows), np.zeros(len(rows))
    limits[1], limits[2] = float(problem.variance), -float(problem.stay)

    def dual(x: np.ndarray) -> tuple[float, np.ndarray]:
        exponents = -(x @ matrix)
        top = exponents.max()
        weights = np.exp(exponents - top)
        return top + math.log(weights.sum()) + x @ limits, limits - matrix @ (weights / weights.sum())

    bounds = [(None, None)] + [(0, None)] * (len(rows) - 1)
    found = minimize(dual, np.zeros(len(rows)), jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15})
    assert found.fun / math.log(2) == pytest.approx(solved(problem).entropy, abs=1e-6)


def test_the_certificate_notices_a_worse_law() -> None:
    problem = count_settings(5, 2).problem(5)
    best = solved(problem)
    assert best.multipliers is not None
    worse = tuple(0.5 if abs(v) == 1 else 0.0 for v in problem.noise)
    assert certify(problem, best.probabilities, best.multipliers).holds
    found = certify(problem, worse, best.multipliers)
    assert found.primal > 0.1  # it rises to both sides of zero, against the monotonicity
    assert found.gap == pytest.approx(best.entropy - 1, abs=1e-9)
    biased = (best.probabilities[0] + 1e-9, *best.probabilities[1:-1], best.probabilities[-1] - 1e-9)
    assert not certify(problem, biased, best.multipliers).holds
    wrong = Multipliers(0.0, -1.0, 0.0, ())
    assert certify(problem, best.probabilities, wrong).dual == 1.0


def test_free_variance_needs_no_bound() -> None:
    problem = count_settings(4, 1).problem(4)
    assert free_variance(problem) == pytest.approx(20 / 3)


def test_a_wide_table_is_made_quickly_and_well() -> None:
    design = generate(count_settings(25, "40", 4, pstay="1/10"))
    assert design.certified
    assert max(row.certificate.primal for row in design.rows) < CONDITIONS


def test_the_examples_of_the_page_are_true() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "ptables.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (failed, tried) == (0, 6)


def entropy(p: np.ndarray) -> float:
    return -math.fsum(x * math.log2(x) for x in p.tolist() if x > 0)


def linear_optimum(problem: RowProblem, costs: np.ndarray) -> np.ndarray:
    """The feasible law of least cost, by a library."""
    v = np.array(problem.noise, float)
    m = len(v)
    equal, equals = [np.ones(m), v], [1.0, 0.0]
    less, limits = [], []
    if problem.equality:
        equal.append(v**2)
        equals.append(float(problem.variance))
    else:
        less.append(v**2)
        limits.append(float(problem.variance))
    for k in range(problem.tied - 1):
        less.append(np.eye(m)[k] - np.eye(m)[k + 1])
        limits.append(0.0)
    lower = [float(problem.stay) if value == 0 else 0.0 for value in problem.noise]
    found = linprog(
        costs,
        A_ub=np.array(less) if less else None,
        b_ub=limits or None,
        A_eq=np.array(equal),
        b_eq=equals,
        bounds=[(low, 1) for low in lower],
    )
    assume(found.status == 0)
    return np.asarray(found.x)
