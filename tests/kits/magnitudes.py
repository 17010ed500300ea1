"""Firms in tables of magnitudes, and an attacker of their own: a firm that knows what it gave, and plain programmes.

Nothing here asks the mechanism which cells there are, how they add up, or what a rule says: all of it is worked out
again from the records, as sets of codes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array

from confide.mechanisms.suppression.problem import (
    Contributions,
    Contributors,
    Levels,
    PatternProblem,
    UnionRule,
    Weights,
    contributors_of,
    dominance,
    pq,
)
from confide.mechanisms.suppression.problem import threshold as few
from confide.mechanisms.suppression.structure import LinkedTables, TableDimensions, link, tree
from confide.mechanisms.suppression.suppress import pose

SMALL = 1e-5
INFEASIBLE = 2
Cell = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Rule:
    """Rules as a curator asks for them; what is not asked for is None."""

    p: int | None = None
    q: int = 100
    n: int = 1
    k: int | None = None
    threshold: int | None = None
    range: int = 10

    def level(self, amounts: list[int]) -> int:
        """How far the figure of a cell with these contributions must be kept away; zero where it may be published."""
        amounts = sorted((abs(x) for x in amounts), reverse=True)
        total, needs = sum(amounts), [Fraction(0)]
        if self.p is not None and amounts:
            needs.append(Fraction(self.p, self.q) * amounts[0] - (total - sum(amounts[:2])))
        if self.k is not None:
            needs.append(Fraction(100, self.k) * sum(amounts[: self.n]) - total)
        if self.threshold is not None and 0 < len(amounts) <= self.threshold:
            needs.append(max(Fraction(1), Fraction(self.range, 100) * total))
        return max(0, ceil(max(needs)))

    def ours(self, contributors: Contributors) -> Levels:
        """The same by the code under test."""
        number, largest = contributors.largest(max(2, self.n))
        parts, size = Contributions(number, largest), contributors.size
        levels = Levels.none(contributors.cells)
        if self.p is not None:
            levels = levels.also(pq(size, parts, self.p, self.q))
        if self.k is not None:
            levels = levels.also(dominance(size, parts, self.n, self.k))
        if self.threshold is not None:
            hit = few(number, self.threshold).primary
            away = np.array([max(1, ceil(Fraction(self.range, 100) * int(x))) for x in size])
            level = np.where(hit, away, 0)
            levels = levels.also(Levels(hit, np.minimum(level, size), level, np.zeros_like(level)))
        return levels


@dataclass
class Firms:
    """Records of firms, variables as trees (for each code its parts, the total is ``_T``), and tables of variables."""

    trees: dict[str, dict[str, list[str]]]
    tables: list[tuple[str, ...]]
    codes: list[dict[str, str]]
    amount: list[int]
    owner: list[int]
    below: int = 0
    """No record adds less than minus this, as everybody knows."""
    parent: dict[str, dict[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.parent = {
            name: {part: above for above, parts in of.items() for part in parts} for name, of in self.trees.items()
        }
        self.cells: dict[Cell, dict[int, int]] = {}
        self.records: dict[Cell, int] = defaultdict(int)
        self.own: dict[tuple[Cell, int], int] = defaultdict(int)
        for table in self.tables:
            for chosen in product(*(["_T", *self.parent[name]] for name in table)):
                self.cells.setdefault(cell_of(zip(table, chosen, strict=True)), {})
        for codes, amount, owner in zip(self.codes, self.amount, self.owner, strict=True):
            own = {
                cell_of(zip(table, chosen, strict=True))
                for table in self.tables
                for chosen in product(*(self.above(name, codes[name]) for name in table))
            }
            for cell in own:
                self.cells[cell][owner] = self.cells[cell].get(owner, 0) + amount
                self.records[cell] += 1
                self.own[cell, owner] += 1
        self.sums = {
            (cell_of(zip(table, chosen, strict=True)), name): [
                cell_of(zip(table, (*chosen[:at], part, *chosen[at + 1 :]), strict=True)) for part in parts
            ]
            for table in self.tables
            for at, name in enumerate(table)
            for chosen in product(*(["_T", *self.parent[each]] for each in table))
            for parts in [self.trees[name].get(chosen[at], [])]
            if parts
        }

    def above(self, name: str, code: str) -> list[str]:
        """A code and all that it is a part of."""
        chain = [code]
        while chain[-1] != "_T":
            chain.append(self.parent[name][chain[-1]])
        return chain

    def figure(self, cell: Cell) -> int:
        return sum(self.cells[cell].values())

    def posed(
        self, rule: Rule, *, insiders: bool = True, unions: bool = True, weight: Weights = "log"
    ) -> tuple[PatternProblem, LinkedTables, dict[int, Cell]]:
        """The problem for the mechanism, and the cell of each of its numbers."""
        layouts = [
            TableDimensions("*".join(table), tuple(tree(name, self.trees[name]) for name in table))
            for table in self.tables
        ]
        linked = link(layouts)
        of_number: dict[int, Cell] = {}
        for layout, numbers in zip(linked.tables, linked.numbers, strict=True):
            for places, number in zip(layout.places, numbers.tolist(), strict=True):
                named = [(d.name, d.codes[at]) for d, at in zip(layout.dimensions, places, strict=True)]
                of_number[number] = cell_of(named)
        value = np.array([self.figure(of_number[at]) for at in range(len(of_number))], np.int64)
        rows = [(at, who, x) for at, cell in of_number.items() for who, x in self.cells[cell].items()]
        base = np.array([-self.below * self.records[of_number[at]] for at in range(len(of_number))], np.int64)
        each = [self._lift(of_number[at], who) for at, who, _ in rows]
        columns = (np.array([row[k] for row in rows], np.int64) for k in range(3))
        cell, who, x = columns
        contributors = contributors_of(cell, who, np.abs(x), np.array(each, np.int64), base)
        problem = pose(
            linked,
            value,
            rule.ours(contributors),
            zeros="secondary",
            weight=weight,
            single=(np.diff(contributors.start) == 1) if insiders else np.zeros(len(value), np.bool_),
            who=contributors.alone,
            inhabited=np.diff(contributors.start) > 0,
            base=base,
            contributors=contributors if insiders else None,
            union_rule=UnionRule(contributors, rule.ours) if unions else None,
        )
        return problem, linked, of_number

    def _lift(self, cell: Cell, who: int) -> int:
        """By how much somebody's own records lift what they know of a cell above what everybody knows."""
        return self.cells[cell][who] + self.below * self.own[cell, who]

    # The attacker.

    def intervals(
        self, hidden: set[Cell], knower: int | None, wanted: dict[Cell, int]
    ) -> dict[Cell, tuple[float, float]]:
        """What a firm, or nobody in particular, can bound hidden cells by, knowing what it gave to each; upwards no
        further than so much above the figure, which is all that is asked.

        One programme for all: a copy of the hidden cells for each end that is looked for.
        """
        if not wanted:
            return {}
        order = sorted(hidden, key=sorted)
        at = {cell: number for number, cell in enumerate(order)}
        rows: list[int] = []
        columns: list[int] = []
        data: list[float] = []
        right: list[int] = []
        for (total, _), parts in self.sums.items():
            if not hidden & {total, *parts}:
                continue
            known = 0
            for cell, sign in [(total, -1), *((part, 1) for part in parts)]:
                if cell in hidden:
                    rows.append(len(right))
                    columns.append(at[cell])
                    data.append(float(sign))
                else:
                    known += sign * self.figure(cell)
            right.append(-known)
        matrix = csr_array((data, (rows, columns)), shape=(len(right), len(order)))
        bounds: list[tuple[int, float]] = []
        for cell in order:
            everybody = -self.below * self.records[cell]
            if knower is not None and set(self.cells[cell]) == {knower}:
                bounds.append((self.figure(cell), self.figure(cell)))
            elif knower is not None and knower in self.cells[cell]:
                bounds.append((everybody + self._lift(cell, knower), np.inf))
            else:
                bounds.append((everybody, np.inf))
        every, cost = [], []
        for cell, beyond in wanted.items():
            for sign in (1, -1):
                own, price = list(bounds), np.zeros(len(order))
                price[at[cell]] = sign
                if sign < 0:
                    own[at[cell]] = (own[at[cell]][0], min(own[at[cell]][1], self.figure(cell) + beyond))
                every.extend(own)
                cost.append(price)
        copies = len(cost)
        whole = block_diag([matrix] * copies, format="csr")
        asked = {"A_eq": whole, "b_eq": right * copies, "bounds": every, "method": "highs"}
        solved = linprog(np.concatenate(cost), **asked)
        if solved.status == INFEASIBLE:  # the truth is a solution; presolve of HiGHS before 1.12 does not always see it
            solved = linprog(np.concatenate(cost), **asked, options={"presolve": False})
        assert solved.status == 0, solved.message
        found = solved.x.reshape(copies, len(order))
        ends = iter([float(copy[np.flatnonzero(price)[0]]) for copy, price in zip(found, cost, strict=True)])
        return {cell: (next(ends), next(ends)) for cell in wanted}

    def too_tight(self, hidden: set[Cell], rule: Rule) -> list[tuple[object, ...]]:
        """Everything that some firm, or anybody, can bound more tightly than the rule allows.

        Of every cell, hidden or not: by the p % rule, no firm may bound another's contribution to within p % above.
        Of every sensitive cell: nobody's interval may end before the protection level. Of every sum with a published
        total: what is hidden in it may not be sensitive together.
        """
        wrong: list[tuple[object, ...]] = []
        level = {cell: rule.level(list(of.values())) for cell, of in self.cells.items()}
        wrong += [("published", cell) for cell in self.cells if level[cell] and cell not in hidden]
        sensitive = [cell for cell in hidden if level[cell]]
        everyone = [None, *sorted({who for cell in hidden for who in self.cells[cell]})]
        for knower in everyone if hidden else []:
            others = {cell: level[cell] + 1 for cell in sensitive if set(self.cells[cell]) != {knower}}
            for cell, (low, high) in self.intervals(hidden, knower, others).items():
                figure, slack = self.figure(cell), SMALL * max(1.0, abs(self.figure(cell)))
                own = self._lift(cell, knower) if knower is not None and knower in self.cells[cell] else 0
                least = max(figure - level[cell], -self.below * self.records[cell] + own)
                if high < figure + level[cell] - slack or low > least + slack:
                    wrong.append(("bounded", knower, cell, low, high))
                if rule.p is not None and rule.q == 100 and not self.below:
                    rivals = [x for who, x in self.cells[cell].items() if who != knower]
                    mine = 0 if knower is None else self.cells[cell].get(knower, 0)
                    if any(high - mine < x * (1 + rule.p / 100) - slack for x in rivals):
                        wrong.append(("estimated", knower, cell, high))
        for (total, _), parts in self.sums.items():
            inside = [part for part in parts if part in hidden]
            if total in hidden or not inside:
                continue
            together: dict[int, int] = defaultdict(int)
            for part in inside:
                for who, x in self.cells[part].items():
                    together[who] += abs(x)
            if rule.level(list(together.values())):
                wrong.append(("union", total, tuple(inside)))
        return wrong


def cell_of(named: Iterable[tuple[str, str]]) -> Cell:
    """A cell is what it is not the total of."""
    return frozenset((name, code) for name, code in named if code != "_T")


def random_firms(seed: int, *, most: int = 40, several: bool = False, below: bool = False) -> Firms:
    """Few firms in small tables, many of them alone: one to three variables, hierarchies, linked tables."""
    rng = np.random.default_rng(seed)
    shape = seed % 5
    flat = {name: {"_T": [f"{name}{k}" for k in range(int(rng.integers(2, 5)))]} for name in "abc"}
    deep = {"_T": ["g", "h"], "g": ["g1", "g2"], "h": ["h1", "h2", "h3"]}
    trees: dict[str, dict[str, list[str]]]
    tables: list[tuple[str, ...]]
    if shape == 0:
        trees, tables = {"a": {"_T": [f"a{k}" for k in range(6)]}}, [("a",)]
    elif shape == 1:
        trees, tables = flat, [("a", "b")]
    elif shape == 2:
        trees, tables = {"a": deep, "b": flat["b"]}, [("a", "b")]
    elif shape == 3:
        trees, tables = flat, [("a", "b"), ("a", "c")]
    else:
        trees, tables = {"a": deep, "b": flat["b"], "c": {"_T": ["c0", "c1"]}}, [("a", "c"), ("b", "c")]
    leaves = {name: sorted({part for parts in of.values() for part in parts} - set(of)) for name, of in trees.items()}
    number = int(rng.integers(8, most))
    codes = [{name: str(rng.choice(of)) for name, of in leaves.items()} for _ in range(number)]
    amount = np.ceil(rng.pareto(0.9, number) * 50).astype(int)
    least = int(rng.integers(1, 60)) if below else 0
    if below:
        amount = np.maximum(amount * rng.choice([1, 1, -1], number), -least)
    owner = rng.integers(0, max(2, number // 2), number) if several else np.arange(number)
    return Firms(trees, tables, codes, amount.tolist(), owner.tolist(), least)


RULES = (
    Rule(p=10),
    Rule(p=15, q=50),
    Rule(k=75),
    Rule(n=2, k=80),
    Rule(p=20, threshold=2),
    Rule(threshold=3, range=15),
)
