"""Patterns: safe by definition, optimal where all can be tried, singletons, linked tables, known examples."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from tests.kits.suppression import is_safe, plain_interval, problem, random_table, shaped, table, two_way
from tests.kits.times import mostly_slow

from confide.errors import ConfideError, ParameterError
from confide.mechanisms.suppression import modular, suppress_tables
from confide.mechanisms.suppression.heuristic import Protection, heuristic, protect
from confide.mechanisms.suppression.optimal import optimal
from confide.mechanisms.suppression.problem import Levels
from confide.mechanisms.suppression.structure import TableDimensions, flat, link, tree
from confide.mechanisms.suppression.suppress import joined, pose, solve, with_totals

TABLES = 200


def audited(posed, hidden) -> bool:
    """By our own audit: the intervals of a separate attacker against the protection levels."""
    found = posed.attacker(hidden).intervals()
    return is_safe(posed, hidden, lambda cell: (found.low[cell], found.high[cell]))


@pytest.mark.parametrize("part", mostly_slow(range(8), 2))
def test_no_primary_cell_of_200_hierarchical_tables_can_be_bounded_too_tightly(part: int) -> None:
    hidden_cells = 0
    for seed in range(part, TABLES, 8):
        linked, value = random_table(1_000 + seed)
        zeros = ("secondary", "published", "primary")[seed % 3]
        posed = problem(linked, value, 2 + seed % 3, zeros=zeros, singles=seed % 2 == 0)
        found = protect(posed)
        assert found.safe()
        seen = posed.attacker(found.suppressed).intervals()
        assert is_safe(posed, found.suppressed, lambda cell, seen=seen: (seen.low[cell], seen.high[cell]))
        assert (posed.levels.primary <= found.suppressed).all()
        others = found.suppressed & ~posed.levels.primary
        hidden_cells += int(others.sum())
        # A cell that is hidden for others is a secret itself: otherwise it would be hidden in vain.
        assert (seen.width[others] > 1 - 1e-6).all()
    assert hidden_cells


@pytest.mark.parametrize("seed", range(0, 12, 2))
def test_nobody_who_is_alone_in_a_cell_knows_another_cell_by_it(seed: int) -> None:
    """By definition: with all that one person knows published, every other primary cell of somebody stays open."""
    linked, value = random_table(1_000 + seed)
    posed = problem(linked, value, singles=True)
    hidden = protect(posed).suppressed
    for person in set(posed.persons[posed.persons >= 0].tolist()):
        own = np.flatnonzero(posed.persons == person)
        for cell in np.setdiff1d(np.flatnonzero(posed.levels.primary), own):
            low, high = plain_interval(posed, hidden, cell, known=own)
            assert high - low > 1 - 1e-6


def test_a_weaker_pattern_does_not_pass_the_audit() -> None:
    """The audit can say no: every pattern with one cell less that a thinned-out one has is unsafe, or not cheaper."""
    refused = 0
    for seed in range(8):
        linked, value = random_table(1_000 + seed)
        posed = problem(linked, value)
        hidden = heuristic(posed).suppressed
        for cell in np.flatnonzero(hidden & ~posed.begun)[:4]:
            less = hidden.copy()
            less[cell] = False
            refused += not audited(posed, less)
    assert refused > 10


def cheapest_by_trying(posed) -> float:
    """The cost of the cheapest safe pattern, out of all there are."""
    others = np.flatnonzero(~posed.begun & ~posed.keep)
    every = [chosen for size in range(len(others) + 1) for chosen in combinations(others.tolist(), size)]
    matrix = abs(posed.structure.matrix).toarray()
    for chosen in sorted(every, key=lambda cells: posed.weight[list(cells)].sum()):
        hidden = posed.begun.copy()
        hidden[list(chosen)] = True
        # A primary cell alone in an equation needs no programme to be found out.
        alone = (matrix @ hidden == 1) & (matrix @ posed.levels.primary == 1)
        if not alone.any() and is_safe(posed, hidden):
            return float(posed.weight[list(chosen)].sum())
    raise AssertionError("no pattern is safe")


@pytest.mark.parametrize("weight", ["constant", "value", "log"])
@pytest.mark.parametrize("seed", range(4))
def test_optimal_patterns_cost_what_the_best_of_all_costs(seed: int, weight: str) -> None:
    rng = np.random.default_rng(seed)
    inner = rng.integers(0, 12, (2, 3)) if seed % 2 else rng.integers(1, 9, (3, 2))
    inner[0, 0] = 1 + seed % 3
    _, posed = two_way(inner, weight=weight)
    best = optimal(posed)
    assert best.gap == 0
    assert is_safe(posed, best.suppressed)
    assert best.cost == pytest.approx(cheapest_by_trying(posed))
    assert heuristic(posed).cost >= best.cost - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_optimal_patterns_cost_no_more_than_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dimensions = [tree("x", {"_T": ["a", "b"], "a": ["a1", "a2"], "b": ["b1", "b2", "b3"]}), flat("y", list("pqr"))]
    linked, value = table(dimensions, rng.poisson(rng.gamma(0.8, 8, (5, 3))))
    posed = problem(linked, value, weight="constant", singles=True)
    best = optimal(posed)
    assert best.gap == 0
    assert audited(posed, best.suppressed)
    for other in (heuristic(posed), modular(posed, linked)):
        assert audited(posed, other.suppressed)
        assert other.cost >= best.cost - 1e-9


def test_a_square_is_the_cheapest_way_to_hide_one_cell() -> None:
    """Three more cells, and of all squares the one with the least in it."""
    linked, posed = two_way([[2, 30, 9], [40, 50, 60], [8, 70, 7]], weight="value")
    hidden = shaped(linked, optimal(posed).suppressed)
    assert sorted(map(tuple, np.argwhere(hidden).tolist())) == [(1, 1), (1, 3), (3, 1), (3, 3)]
    assert np.array_equal(shaped(linked, heuristic(posed).suppressed), hidden)


def test_small_neighbours_cannot_hide_a_cell_and_are_not_asked_to() -> None:
    """For the interval of a 2 to reach 4 its neighbours must be able to fall by 2: zeros and ones cannot."""
    linked, posed = two_way([[2, 0, 9, 7], [0, 5, 5, 5], [9, 5, 8, 9], [7, 5, 9, 9]], weight="constant")
    found = optimal(posed)
    hidden = shaped(linked, found.suppressed)
    assert not hidden[1, 2]
    assert is_safe(posed, found.suppressed)


def test_published_zeros_are_known_not_to_be_hidden() -> None:
    linked, posed = two_way([[2, 0, 9], [4, 6, 6], [9, 5, 8]], zeros="published")
    hidden = shaped(linked, heuristic(posed).suppressed)
    assert not hidden[1, 2]
    # What is hidden is known to be at least one, and the attacker was given that.
    low, _ = plain_interval(
        posed, posed.begun | heuristic(posed).suppressed, int(linked.numbers[0].reshape(4, 4)[1, 1])
    )
    assert low >= 1


def test_a_lone_contributor_does_not_undo_a_pair() -> None:
    """Two primary cells in a row, one of them a single person: who knows it would know the other."""
    inner = [[1, 3, 30], [9, 8, 40], [60, 50, 70]]
    _, alone = two_way(inner, weight="constant")
    _, thought_of = two_way(inner, weight="constant", singles=True)
    plain, safe = optimal(alone), optimal(thought_of)
    single = int(np.flatnonzero(alone.value == 1)[0])
    others = [cell for cell in np.flatnonzero(alone.levels.primary) if cell != single]

    def known(hidden) -> list[int]:
        found = [plain_interval(alone, hidden, cell, known=[single]) for cell in others]
        return [cell for cell, (low, high) in zip(others, found, strict=True) if high - low < 1 - 1e-6]

    assert known(plain.suppressed)
    assert not known(safe.suppressed)
    assert not known(heuristic(thought_of).suppressed)
    assert safe.cost > plain.cost
    assert safe.cost <= heuristic(thought_of).cost


def test_who_is_alone_in_a_cell_is_thought_of_unless_one_says_not_to() -> None:
    dimensions = [flat("area", ["n", "s", "w"]), flat("job", ["yes", "no", "none"])]
    tables = {"jobs": (dimensions, with_totals(dimensions, [[1, 3, 30], [9, 8, 40], [60, 50, 70]]))}
    thought_of, not_thought_of = (
        suppress_tables(tables, weight="constant", singletons=singletons).suppressed for singletons in (True, False)
    )
    assert suppress_tables(tables, weight="constant").suppressed == thought_of > not_thought_of


def test_a_pattern_that_nobody_proved_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a method comes up with is proved before it is handed out; this one hides the primary cells alone."""
    dimensions = [flat("area", ["n", "s"]), flat("job", ["yes", "no"])]
    tables = {"jobs": (dimensions, with_totals(dimensions, [[2, 9], [8, 7]]))}
    monkeypatch.setattr(
        "confide.mechanisms.suppression.suppress.protect", lambda problem, advance=None: Protection(problem)
    )
    with pytest.raises(ConfideError, match="could not be proved safe"):
        suppress_tables(tables, method="heuristic")


def linked_example():
    """Sex by region and sex by job. Each protected alone hides a sex total that the other one shows."""
    sex, region, job = flat("sex", ["f", "m"]), flat("region", ["n", "s"]), flat("job", ["yes", "no"])
    one = with_totals([sex, region], [[11, 10], [0, 1]])
    two = with_totals([sex, job], [[19, 2], [0, 1]])
    return {"one": ([sex, region], one), "two": ([sex, job], two)}


def test_tables_protected_one_by_one_undo_each_other_and_together_do_not() -> None:
    tables = linked_example()
    linked = link([TableDimensions(name, tuple(of)) for name, (of, _) in tables.items()])
    value = joined(linked, [counts for _, counts in tables.values()])
    together = suppress_tables(tables, weight="value", singletons=False)
    apart = {
        name: suppress_tables({name: each}, weight="value", singletons=False).published[name]
        for name, each in tables.items()
    }
    hidden = np.ones(len(value), np.bool_)
    for numbers, published in zip(linked.numbers, apart.values(), strict=True):
        hidden[numbers[published.reshape(-1)]] = False
    posed = together.problem.reveal("to test it")
    assert all(is_safe_alone(tables, name, apart[name]) for name in tables)
    assert not is_safe(posed, hidden)
    assert is_safe(posed, together.pattern.suppressed)
    assert together.published["one"][1, 0] == together.published["two"][1, 0]


def is_safe_alone(tables, name, published) -> bool:
    linked = link([TableDimensions(name, tuple(tables[name][0]))])
    value = joined(linked, [tables[name][1]])
    hidden = np.zeros(len(value), np.bool_)
    hidden[linked.numbers[0]] = ~published.reshape(-1)
    return is_safe(problem(linked, value), hidden)


def test_the_same_tables_have_the_same_pattern() -> None:
    linked, value = random_table(1_003)
    for method in ("heuristic", "modular", "optimal"):
        if method == "optimal" and len(value) > 60:
            continue
        patterns = [solve(problem(linked, value), linked, method=method).pattern.suppressed for _ in range(2)]
        assert np.array_equal(*patterns)


def test_magnitudes_are_kept_as_far_away_as_asked() -> None:
    linked, value = table(
        [flat("x", list("abc")), flat("y", list("pqr"))], [[120, 40, 80], [60, 90, 70], [50, 30, 110]]
    )
    primary = np.zeros(len(value), np.bool_)
    primary[linked.numbers[0].reshape(4, 4)[1, 1]] = True
    level = np.where(primary, 25, 0)
    levels = Levels(primary, level, level, np.zeros_like(level))
    none = np.zeros(len(value), np.bool_)
    posed = pose(linked, value, levels, zeros="secondary", weight="value", single=none)
    for pattern in (optimal(posed), heuristic(posed)):
        low, high = plain_interval(posed, pattern.suppressed, int(np.flatnonzero(primary)[0]))
        assert low <= 95
        assert high >= 145
    assert optimal(posed).cost == pytest.approx(cheapest_square(posed, linked))


def cheapest_square(posed, linked) -> float:
    """Every other corner must be able to fall or rise by 25: all here can, so the cheapest square is the answer."""
    inner = shaped(linked, posed.value)[1:, 1:]
    return float(min(inner[0, k] + inner[j, 0] + inner[j, k] for j in (1, 2) for k in (1, 2)))


def test_what_cannot_be_protected_is_refused_without_a_word_about_which() -> None:
    linked, value = table([flat("x", ["a", "b"])], [2, 9])
    levels = problem(linked, value).levels
    keep = ~levels.primary
    none = np.zeros(3, np.bool_)
    posed = pose(linked, value, levels, zeros="secondary", weight="log", single=none, keep=keep)
    with pytest.raises(ParameterError, match="cannot be protected") as caught:
        heuristic(posed)
    assert caught.value.findings[0].found == "1 cells"


def test_kept_margins_are_published() -> None:
    for seed in range(5):
        linked, value = random_table(1_000 + seed)
        keep = np.zeros(len(value), np.bool_)
        keep[linked.numbers[0][0]] = True
        posed = problem(linked, value)
        if posed.levels.primary[keep].any():
            continue
        none = np.zeros(len(value), np.bool_)
        kept = pose(linked, value, posed.levels, zeros="secondary", weight="log", single=none, keep=keep)
        try:
            found = heuristic(kept)
        except ParameterError:
            continue
        assert not found.suppressed[keep].any()
        assert audited(kept, found.suppressed)


@pytest.mark.slow
def test_no_primary_cell_of_200_larger_tables_can_be_bounded_too_tightly() -> None:
    for seed in range(TABLES):
        linked, value = random_table(2_000 + seed, (20, 12, 5))
        posed = problem(linked, value, 2 + seed % 3, zeros=("secondary", "published")[seed % 2], singles=seed % 4 < 2)
        found = protect(posed)
        assert found.safe()
        assert audited(posed, found.suppressed)


@pytest.mark.slow
def test_a_large_hierarchical_table_is_protected_in_reasonable_time() -> None:
    rng = np.random.default_rng(1)
    geo = {"_T": [f"c{i}" for i in range(10)]} | {f"c{i}": [f"c{i}t{j}" for j in range(10)] for i in range(10)}
    ages = {"_T": list("abcd")} | {group: [f"{group}{k}" for k in range(5)] for group in "abcd"}
    dimensions = [tree("geo", geo), tree("age", ages), flat("sex", ["f", "m"])]
    linked, value = table(dimensions, rng.poisson(rng.gamma(0.5, 30, (100, 20, 2))))
    posed = problem(linked, value)
    found = protect(posed)
    assert found.safe()
    assert audited(posed, found.suppressed)
