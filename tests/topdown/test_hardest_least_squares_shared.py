"""The hardest fifty least-squares problems of a real run, against other solvers: the bar of the made-up ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.kits.least_squares import Assembled
from tests.kits.rhode_island import KEYS, NEEDED, lay_out_as_published

from confide import api
from confide.arrays import Floats
from confide.estimation.least_squares import SolveOutcome, SolveReport, interior_point, projected_gradient, solve
from confide.estimation.node_problem import NodeProblem
from confide.estimation.prepare import prepare, reference_point
from confide.mechanisms.topdown import node
from confide.mechanisms.topdown.spec import with_tree_evidence

pytestmark = [*NEEDED]


@dataclass(frozen=True, eq=False)
class Solved:
    """A problem as the run met it, with what the run made of it."""

    number: int
    problem: NodeProblem
    x: Floats
    report: SolveReport

    @property
    def steps(self) -> int:
        return sum(attempt.steps for attempt in self.report.attempts)

    @property
    def size(self) -> int:
        return int(self.problem.allowed.sum())

    @property
    def doubt(self) -> tuple[int, float]:
        """Methods that failed, then how far from the optimum it may be."""
        return self.report.fallbacks, self.report.certificate.relative_gap


def hardest(solved: list[Solved], number: int = 50) -> list[Solved]:
    """By steps, by size and by doubt in turn, each once."""
    orders = [sorted(solved, key=lambda one: getattr(one, by), reverse=True) for by in ("steps", "size", "doubt")]
    chosen: dict[int, Solved] = {}
    for rank in range(len(solved)):
        for order in orders:
            if len(chosen) < number:
                chosen.setdefault(order[rank].number, order[rank])
    return list(chosen.values())


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> list[Solved]:
    """Every problem of more than one method's notice that a run of the real state gives to the solvers."""
    return run_watched(lay_out_as_published(tmp_path_factory.mktemp("real")))[0]


def run_watched(spec: Path) -> tuple[list[Solved], list[Solved]]:
    """The hardest problems of a run, and all those whose objective is a law of cells."""
    found: list[Solved] = []
    laws: list[Solved] = []
    numbers = iter(range(10**6))

    def watched(problem: NodeProblem) -> tuple[Floats, SolveReport]:
        x, report = solve(problem)
        found.append(Solved(next(numbers), problem, x, report))
        if problem.law is not None:
            laws.append(found[-1])
        if len(found) > 400:
            found[:] = hardest(found, 100)
        return x, report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "solve", watched)
        api.run(spec, processes=1, insecure_key=KEYS[0])
    assert next(numbers) > 1_000
    return hardest(found), laws


def test_the_hardest_fifty_problems_of_a_run_with_tree_evidence(tmp_path: Path) -> None:
    """Proved to be within 1e-7 of the optimum, and within 1e-6 of every constraint; so are all with a law."""
    spec = lay_out_as_published(tmp_path)
    (tmp_path / "tree.toml").write_text(with_tree_evidence("pl94-persons"), encoding="utf-8")
    spec.write_text(spec.read_text().replace('strategy = "pl94-persons"', 'strategy = "tree.toml"'))
    chosen, laws = run_watched(spec)
    assert len(chosen) == 50
    assert len(laws) >= 7
    for one in (*chosen, *laws):
        assert one.report.outcome is not SolveOutcome.INEXACT, one.number
        assert one.report.certificate.relative_gap <= 1e-7, one.number
        assert one.problem.violation(one.x) <= 1e-6, one.number


def test_the_hardest_fifty_problems_of_a_real_run(met: list[Solved]) -> None:
    assert len(met) == 50
    for one in met:
        within_the_bar(one)


def within_the_bar(one: Solved) -> None:
    """Constraints to 1e-7; the objective within 1e-6 of the best of the interior point method, projected gradients
    and, in small problems, two solvers that share no code with us; and of the lower bound of a linear program."""
    problem = one.problem
    assert one.report.outcome is not SolveOutcome.INEXACT, one.number
    assert problem.violation(one.x) <= 1e-7, one.number
    ours = problem.objective(one.x)
    prepared, oracle = prepare(problem), Assembled(problem)
    start = reference_point(prepared)
    others = [interior_point(prepared, start).x, projected_gradient(prepared, start).x]
    others += [oracle.by_piqp()] if oracle.count <= 500 else []
    others += [oracle.by_slsqp()] if oracle.count <= 100 else []
    best = min([problem.objective(x) for x in others if problem.violation(x) <= 1e-7], default=ours)
    assert ours <= best + 1e-6 * (best + problem.scale), one.number
    assert oracle.linear_bound(one.x) <= 1e-6 * (ours + problem.scale), one.number
