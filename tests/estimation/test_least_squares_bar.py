"""The bar: random problems of all shapes, within 1e-6 of the best of three independent solvers, constraints to 1e-7."""

from __future__ import annotations

import pytest
from tests.kits.least_squares import Assembled, random_problem
from tests.kits.times import mostly_slow

from confide.estimation.least_squares import SolveOutcome, interior_point, solve
from confide.estimation.prepare import prepare, reference_point

SMALL = 60
"""Up to this many variables SLSQP is asked too; it is cubic in them."""


def within_the_bar(seed: int, largest: int) -> SolveOutcome:
    """Solves problem ``seed``, and asks the others: PIQP, scipy's SLSQP where small, and HiGHS for a lower bound."""
    problem = random_problem(seed, largest)
    x, report = solve(problem)
    ours = problem.objective(x)
    assert problem.violation(x) <= 1e-7, seed
    oracle = Assembled(problem)
    prepared = prepare(problem)
    others = [oracle.by_piqp()] if oracle.count <= 300 else [interior_point(prepared, reference_point(prepared)).x]
    others += [oracle.by_slsqp()] if oracle.count <= SMALL else []
    # A solver that cuts a corner can have a lower objective: only points as feasible as ours are to be compared.
    best = min([problem.objective(other) for other in others if problem.violation(other) <= 1e-7], default=ours)
    assert ours <= best + 1e-6 * (best + problem.scale), seed
    if problem.parent is not None or problem.total is not None:
        assert oracle.linear_bound(x) <= 1e-6 * (ours + problem.scale), seed
    return report.outcome


@pytest.mark.parametrize("part", mostly_slow(range(4), 1))
def test_sixty_problems(part: int) -> None:
    outcomes = [within_the_bar(seed, largest=800) for seed in range(part, 60, 4)]
    assert SolveOutcome.INEXACT not in outcomes


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_five_hundred_problems(part: int) -> None:
    outcomes = [within_the_bar(seed, largest=6000) for seed in range(part, 500, 10)]
    assert SolveOutcome.INEXACT not in outcomes
