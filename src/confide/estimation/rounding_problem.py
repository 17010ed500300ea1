"""What controlled rounding is asked: a real solution, sums that must hold, and a chain of partitions to stay close to.

Let ``X`` (cells × children, non-negative) be the least-squares solution below one parent, ``f = floor(X)`` and
``r = X - f``. Every cell of every child is rounded down or up: the result is ``f + b`` with ``b`` in {0, 1}, such that

* the children sum to the parent, ``Σ_c (f + b)[i, c] = parent[i]`` (left out at the root, which has no parent);
* every bounded group of a partition keeps its whole-number bounds, child by child;
* the totals of groups of children are kept where they are given (the population of a state in two parts, say).

Among these, ``b`` minimises, pass after pass, the distance to the rounded fractional parts of the pass's queries,
``Σ_c Σ_k |(Q b_c)_k - round_half_even((Q r_c)_k)|``, and after the last pass ``Σ (1 - 2 r) b``: of all equally good
roundings the one nearest to ``r``. The queries are a chain of partitions of the cells, each refining the one before,
and the cells themselves. That is what makes the problem a network (``docs/proofs/rounding.md``).

``X`` is first quantised to millionths, so that everything after is in whole numbers and exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import Finding, ParameterError, Place

MILLION = 1_000_000
HALF = MILLION // 2
_LARGEST = 2**43
"""Counts below this, in millionths, are held exactly enough by a float and add up within int64."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """One query of the chain: the group of every cell, and whole-number bounds for its groups where there are any.

    ``lower`` and ``upper`` are groups × children; groups that have no cell may be there. ``weight`` is how often the
    query counts in its pass; with 0 it only carries bounds.
    """

    name: str
    groups: Ints
    in_pass: int = 0
    weight: int = 1
    lower: Ints | None = None
    upper: Ints | None = None

    @property
    def bounded(self) -> bool:
        """Whether there are bounds to keep."""
        return self.lower is not None or self.upper is not None


@dataclass(frozen=True, slots=True, eq=False)
class RoundingProblem:
    """The rounding below one parent. Partitions run from coarse to fine; the cells are the implied last query.

    ``parent`` is None at the root. ``allowed`` marks the cells that may be positive (all, if None).
    ``child_group`` gives the group of every child, or -1; ``group_totals`` the total that each group must have.
    """

    estimate: Floats
    parent: Ints | None
    partitions: tuple[Partition, ...]
    cell_weight: int = 1
    cell_pass: int = 0
    allowed: Bools | None = None
    child_group: Ints | None = None
    group_totals: Ints | None = None

    def __post_init__(self) -> None:
        findings = [*_shape_findings(self)] or crossings(self.partitions)
        if findings:
            raise ParameterError(findings)

    @property
    def cells(self) -> int:
        """The number of cells of one child."""
        return int(self.estimate.shape[0])

    @property
    def children(self) -> int:
        """The number of children."""
        return int(self.estimate.shape[1])

    @property
    def passes(self) -> int:
        """The number of passes: one more than the largest pass of a query."""
        return 1 + max([self.cell_pass, *(partition.in_pass for partition in self.partitions)])


def crossings(partitions: Sequence[Partition]) -> list[Finding]:
    """Findings about partitions that do not refine the ones before them: for use when a strategy is checked.

    A chain of refining partitions of one child's cells is a laminar family: two of its groups are nested or disjoint.
    A group that crosses another makes the rounding a three-way problem, which is hard in general and is refused.
    """
    findings = []
    for number, fine in enumerate(partitions):
        for coarse in partitions[:number]:
            crossing = _first_crossing(coarse.groups, fine.groups)
            if crossing is None:
                continue
            group, one, other = crossing
            swapped = _first_crossing(fine.groups, coarse.groups) is None
            findings.append(
                Finding(
                    "rounding-order" if swapped else "rounding-crossing",
                    f"the rounding query {fine.name!r} does not refine {coarse.name!r}",
                    Place(path="rounding queries"),
                    found=f"group {group} of {fine.name!r} has cells in groups {one} and {other} of {coarse.name!r}",
                    expected="queries from coarse to fine, each refining all before it",
                    remedy=f"put {fine.name!r} before {coarse.name!r}"
                    if swapped
                    else f"leave out {fine.name!r} or {coarse.name!r}, or cross {fine.name!r} with {coarse.name!r}",
                )
            )
    return findings


def _first_crossing(coarse: Ints, fine: Ints) -> tuple[int, int, int] | None:
    """A group of ``fine`` and two groups of ``coarse`` that it has cells in, or None if it refines."""
    if not len(fine):
        return None
    within = np.zeros(int(fine.max()) + 1, np.int64)
    within[fine] = coarse
    other = np.flatnonzero(within[fine] != coarse)
    if not len(other):
        return None
    cell = int(other[0])
    group = int(fine[cell])
    return group, int(coarse[cell]), int(within[group])


def _shape_findings(problem: RoundingProblem) -> list[Finding]:
    """Everything about shapes, types and ranges that the definition does not allow."""
    wrong: list[Finding] = []

    def expect(holds: bool, what: str, expected: str) -> None:
        if not holds:
            wrong.append(Finding("rounding-problem", what, expected=expected))

    estimate = problem.estimate
    if estimate.ndim != 2 or estimate.dtype != np.float64:
        expect(False, "the estimate has another form", "a matrix of float64: cells × children")
        return wrong
    cells, children = estimate.shape
    in_range = estimate.size == 0 or (estimate.min() >= 0 and estimate.max() < _LARGEST)  # false for a nan, too
    expect(bool(in_range), "the estimate has values that are no counts", "finite numbers from 0 to 2**43")
    expect(
        problem.cell_weight >= 0 and problem.cell_pass >= 0, "the weight or pass of the cells is negative", "0 or more"
    )
    _expect_integers(expect, "parent", problem.parent, (cells,))
    allowed = problem.allowed
    expect(
        allowed is None or (allowed.shape == estimate.shape and allowed.dtype == np.bool_),
        "the allowed cells have another form",
        "a matrix of booleans like the estimate",
    )
    group, totals = problem.child_group, problem.group_totals
    if group is None or totals is None:
        expect(group is totals, "child groups and group totals come together", "both or neither")
    else:
        _expect_integers(expect, "child_group", group, (children,))
        _expect_integers(expect, "group_totals", totals, (len(totals),))
        inside = not group.size or (group.min() >= -1 and group.max() < len(totals))
        expect(bool(inside), "a child is in a group that has no total", f"-1 to {len(totals) - 1}")
    for partition in problem.partitions:
        name, ids = partition.name, partition.groups
        _expect_integers(expect, f"partition {name!r}", ids, (cells,))
        expect(not ids.size or bool(ids.min() >= 0), f"partition {name!r} has negative groups", "0 or more")
        expect(
            partition.weight >= 0 and partition.in_pass >= 0,
            f"partition {name!r} has a negative weight or pass",
            "0 or more",
        )
        for bound in (partition.lower, partition.upper):
            if bound is not None:
                _expect_integers(expect, f"a bound of {name!r}", bound, (len(bound), children))
                expect(not ids.size or int(ids.max()) < len(bound), f"a bound of {name!r} is too short", "every group")
    return wrong


def _expect_integers(
    expect: Callable[[bool, str, str], None], name: str, values: Ints | None, shape: tuple[int, ...]
) -> None:
    holds = values is None or (values.shape == shape and values.dtype == np.int64)
    expect(holds, f"{name} has another form", f"int64 of the shape {shape}")
