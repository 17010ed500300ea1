"""Magnitudes against those who contribute to them: no firm bounds another more tightly than the rule, and no union of
hidden cells that everybody knows is sensitive. The attacker is the kit's own."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from tests.kits.magnitudes import RULES, Firms, Rule, random_firms

from confide.errors import ParameterError
from confide.mechanisms.suppression.flows import FeasibleFlow, FeasibleFlows
from confide.mechanisms.suppression.heuristic import Protection, known_unions, protect, sensitive_unions
from confide.mechanisms.suppression.optimal import optimal
from confide.mechanisms.suppression.problem import SOLVABLE, ProtectionNeed, in_steps, step_of
from confide.mechanisms.suppression.suppress import solve

TABLES = 200
LIGHT = 20


def drawn(seed: int, most: int = 22) -> tuple[Firms, Rule]:
    """Tables of five shapes and six rules; in some a firm has several records, in some values are negative."""
    return random_firms(seed, most=most, several=seed % 3 == 0, below=seed % 7 == 5), RULES[seed // 5 % len(RULES)]


def hidden_cells(firms: Firms, rule: Rule, method: str = "heuristic", **options) -> set:
    posed, linked, of_number = firms.posed(rule, **options)
    suppressed = solve(posed, linked, method=method).pattern.suppressed
    assert len(suppressed) == len(of_number)
    return {of_number[at] for at in np.flatnonzero(suppressed).tolist()}


def one_row(*amounts: list[int], **options) -> Firms:
    """A sum of cells, each with its contributions."""
    codes = [f"k{at}" for at in range(len(amounts))]
    of = [{"k": code} for code, parts in zip(codes, amounts, strict=True) for _ in parts]
    every = [x for parts in amounts for x in parts]
    return Firms({"k": {"_T": codes}}, [("k",)], of, every, list(range(len(every))), **options)


@pytest.mark.parametrize("part", range(2))
def test_no_firm_bounds_another_too_tightly(part: int) -> None:
    hidden = 0
    for seed in range(part, LIGHT, 2):
        firms, rule = drawn(seed)
        found = hidden_cells(firms, rule)
        assert not firms.too_tight(found, rule), seed
        hidden += len(found)
    assert hidden > 80


@pytest.mark.slow
@pytest.mark.parametrize("method", ["heuristic", "modular", "optimal"])
def test_no_firm_bounds_another_too_tightly_in_200_tables(method: str) -> None:
    for seed in range(TABLES if method == "heuristic" else TABLES // 5):
        firms, rule = drawn(1_000 + seed, 40)
        assert not firms.too_tight(hidden_cells(firms, rule, method), rule), seed


@pytest.mark.parametrize("method", ["modular", "optimal"])
def test_no_method_lets_a_firm_bound_another(method: str) -> None:
    for seed in (0, 11):
        firms, rule = drawn(seed)
        assert not firms.too_tight(hidden_cells(firms, rule, method), rule), seed


def test_the_attacker_of_these_tests_can_succeed() -> None:
    """Without contributors in mind, every other pattern gives some firm's contribution away."""
    found = []
    for seed in range(0, 16, 2):
        firms, rule = drawn(seed)
        found.append(bool(firms.too_tight(hidden_cells(firms, rule, insiders=False, unions=False), rule)))
    assert sum(found) >= 3


def test_a_firm_alone_in_a_cell_does_not_bound_its_rival() -> None:
    """1,000,000 | 900,000 | five of 1 | 195,000 in all: the movement that hides one rival from the other is a tenth of
    it, not one."""
    firms, rule = one_row([1_000_000], [900_000], [1] * 5, [5_000] * 39), Rule(p=10)
    cells = {at: frozenset({("k", f"k{at}")}) for at in range(4)}
    before = {cells[0], cells[1], cells[2]}
    assert ("estimated", 1, cells[0], 1_000_005.0) in firms.too_tight(before, rule)
    for method in ("heuristic", "modular", "optimal"):
        # Contributors alone are enough to see it, without the rule for unions.
        found = hidden_cells(firms, rule, method, unions=False)
        assert not firms.too_tight(found, rule)
        assert cells[3] in found


def test_somebody_who_gave_most_of_a_cell_is_thought_of_too() -> None:
    """The second cell has three contributors, but 900 of its 902 are one firm's, who knows that it cannot fall."""
    firms, rule = one_row([1_000, 1], [900, 1, 1], [60] * 20, [80] * 15), Rule(p=10)
    pair = {frozenset({("k", f"k{at}")}) for at in range(2)}
    assert any(wrong[0] == "estimated" for wrong in firms.too_tight(pair, rule))
    found = hidden_cells(firms, rule, unions=False)
    assert len(found) == 3
    assert not firms.too_tight(found, rule)


def test_cells_of_one_firm_are_a_union_that_is_looked_at() -> None:
    """A holding has most of three cells. Each can move, at the cost of the others: all of them it makes up together."""
    firms = one_row([100, 6], [100, 6], [100, 6], [50] * 9, [40] * 12)
    firms = Firms(firms.trees, firms.tables, firms.codes, firms.amount, [0, 1, 0, 2, 0, 3, *range(4, 25)])
    rule = Rule(p=10)
    own = {frozenset({("k", f"k{at}")}) for at in range(3)}
    assert [wrong[0] for wrong in firms.too_tight(own, rule)] == ["union"]
    assert hidden_cells(firms, rule, unions=False) == own
    found = hidden_cells(firms, rule)
    assert own < found
    assert not firms.too_tight(found, rule)


def test_unions_are_the_hidden_parts_of_published_totals() -> None:
    firms = one_row([100, 6], [100], [50] * 9, [40] * 12)
    posed, _, of_number = firms.posed(Rule(p=10))
    hidden = posed.begun.copy()
    at = {cell: number for number, cell in of_number.items()}
    parts = [at[frozenset({("k", f"k{k}")})] for k in range(4)]
    assert [sorted(union.tolist()) for union in known_unions(posed, hidden)] == [sorted(parts[:2])]
    found = sensitive_unions(posed, hidden)
    assert found is not None
    # 206, of which one of the two largest knows 106 that are not its own: six of them are not the other's.
    assert found.levels.upper.tolist() == [4]
    hidden[at[frozenset()]] = True
    assert known_unions(posed, hidden) == []
    assert known_unions(posed, np.ones(5, np.bool_)) == []


def test_a_sum_that_cannot_be_opened_is_refused() -> None:
    firms = one_row([100], [90], [50] * 9)
    posed, linked, of_number = firms.posed(Rule(p=10))
    third = next(at for at, cell in of_number.items() if cell == frozenset({("k", "k2")}))
    posed.keep[[third, next(at for at, cell in of_number.items() if not cell)]] = True
    with pytest.raises(ParameterError, match="cannot be protected"):
        solve(posed, linked, method="heuristic")


@pytest.mark.parametrize("seed", range(3))
def test_optimal_costs_what_the_best_of_all_patterns_costs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    firms = one_row(*[np.ceil(rng.pareto(0.8, int(rng.integers(1, 4))) * 40).astype(int).tolist() for _ in range(6)])
    rule = Rule(p=20)
    posed, _, of_number = firms.posed(rule, unions=False, weight="value")
    best = optimal(posed)
    assert best.gap == 0
    others = np.flatnonzero(~posed.begun).tolist()
    costs = []
    for size in range(len(others) + 1):
        for chosen in combinations(others, size):
            hidden = {of_number[at] for at in [*np.flatnonzero(posed.begun).tolist(), *chosen]}
            if not [wrong for wrong in firms.too_tight(hidden, rule) if wrong[0] != "union"]:
                costs.append(float(posed.weight[list(chosen)].sum()))
    assert best.cost == pytest.approx(min(costs))


def test_a_proof_is_not_one_for_a_contributor_who_knows_more() -> None:
    """The movements of a pattern that is safe from readers prove nothing against the firms of A2."""
    firms = one_row([1_000_000], [900_000], [1] * 5, [5_000] * 39)
    posed, _, of_number = firms.posed(Rule(p=10))
    hidden = np.array([of_number[at] != frozenset({("k", "k3")}) and bool(of_number[at]) for at in range(5)])
    proof = Protection(posed, hidden)
    assert proof.complete(new=False)
    assert proof.unserved
    assert not proof.safe()
    whole = protect(posed)
    assert whole.safe()
    assert all(whole.proved(cell) for cell in whole.needs)


def test_whoever_knows_a_cell_rules_out_that_it_moves() -> None:
    """One firm falls and its rival rises: the rival, alone in its cell, knows that it did not; others do not."""
    posed, _, of_number = one_row([1_000_000], [900_000], [1] * 5, [5_000] * 39).posed(Rule(p=10))
    at = {cell: number for number, cell in of_number.items()}
    first, second = (at[frozenset({("k", f"k{k}")})] for k in range(2))
    flows = FeasibleFlows(posed)
    flows.add(FeasibleFlow(np.array([first, second]), np.array([-1, 1])))
    need = ProtectionNeed(first, 100_000, 0, 1)
    rival, other = 1, 20
    assert flows.reach(first)[0] >= 100_000
    assert flows.serves(need, other)
    assert not flows.serves(need, rival)
    assert flows.reach(first, known=rival) == (0, 0)
    assert flows.suspects(need) == {rival}


@pytest.mark.parametrize("factor", [1, 3, (1 << 58) // 10**6 + 1])
def test_figures_of_any_size_have_patterns_as_safe(factor: int) -> None:
    """Figures beyond what the solver can be trusted with go in larger steps; every movement of these is one."""
    for seed in (1, 6):
        firms, rule = drawn(seed)
        large = Firms(firms.trees, firms.tables, firms.codes, [factor * x for x in firms.amount], firms.owner)
        posed, linked, of_number = large.posed(rule)
        stepped = in_steps(posed)
        assert (stepped is posed) == (np.abs(posed.value).max() <= SOLVABLE)
        proved = solve(posed, linked, method="heuristic")
        step = step_of(posed.value)
        matrix = posed.structure.matrix.astype(np.int64).toarray().astype(object)
        for flow in proved.protection.flows:
            moved = np.zeros(len(posed.value), object)
            for cell, by in flow.of_cell.items():
                if cell < len(moved):
                    moved[cell] = int(by) * step
            assert not (matrix @ moved).any()
            assert (posed.value.astype(object) + moved >= posed.low).all()
        small = {of_number[at] for at in np.flatnonzero(proved.pattern.suppressed).tolist()}
        # The same table in another unit: what is safe there is safe here, to within a step.
        assert not firms.too_tight(small, rule) or factor == 1
