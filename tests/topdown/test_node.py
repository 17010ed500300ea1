"""The estimate of one node: what an earlier pass has settled, later passes and the rounding keep."""

from __future__ import annotations

import numpy as np
import pytest

from confide.estimation.node_problem import MeasuredQuery
from confide.mechanisms.topdown.node import EstimationNode, Limits, NodeRules, estimate
from confide.mechanisms.topdown.strategy import Pass

CELLS = 4
GROUPS = {"total": np.zeros(CELLS, np.int64), "pairs": np.arange(CELLS) // 2, "detailed": np.arange(CELLS)}
PARENT = np.full(CELLS, 20)
MISLED = np.array([[0.0, 20.0]] * CELLS)
"""Noisy cells that put everybody into the second child."""


def node(first: str, settled: np.ndarray, limits: dict[str, Limits] | None = None) -> EstimationNode:
    """Two children: a first query that says ``settled`` with little noise, and cells with much that say otherwise."""
    measured = (
        MeasuredQuery(first, GROUPS[first], settled, np.full(2, 100.0)),
        MeasuredQuery("detailed", GROUPS["detailed"], MISLED, np.full(2, 0.01)),
    )
    return EstimationNode(np.arange(CELLS), PARENT, measured, limits or {}, 2)


def rules(first: str, *, keeps: bool = True) -> NodeRules:
    passes = (Pass((first,), (first,) if keeps else ()), Pass(("detailed",), ()))
    rounding = ((first,), ("detailed",))
    return NodeRules(passes, 0.01, rounding, GROUPS, frozenset({"detailed"}), GROUPS, np.zeros(CELLS, np.bool_))


@pytest.mark.parametrize(
    ("first", "settled"),
    [("total", [[50.0, 30.0]]), ("pairs", [[30.0, 10.0], [5.0, 35.0]])],
    ids=["totals, which have a solver of their own", "groups of cells"],
)
def test_what_a_pass_has_settled_is_kept(first: str, settled: list[list[float]]) -> None:
    """Else the noisiest measurements would move what most of the budget was spent on."""
    expected = np.array(settled)
    counts, tally = estimate(node(first, expected), rules(first))
    sums = np.zeros_like(expected)
    np.add.at(sums, GROUPS[first], counts)
    assert sums.tolist() == settled
    assert counts.sum(axis=1).tolist() == PARENT.tolist()
    assert tally.nodes == 1
    # Without the promise to keep it, the last pass does as it likes.
    free, _ = estimate(node(first, expected), rules(first, keeps=False))
    assert free.tolist() == MISLED.tolist()


def test_limits_are_kept_against_every_measurement() -> None:
    limits = {"pairs": Limits(np.array([[7, 0], [0, 0]]), np.array([[40, 40], [40, 25]]))}
    counts, _ = estimate(node("total", np.array([[0.0, 80.0]]), limits), rules("total"))
    first, second = counts[:2].sum(axis=0), counts[2:].sum(axis=0)
    assert first[0] >= 7
    assert second[1] <= 25
    assert counts.sum(axis=1).tolist() == PARENT.tolist()
