"""The best linear unbiased estimates of a tree of counts, from every measurement in it, in two passes.

Each node u has a vector of cells x(u), the sum of those of its children, and may have measurements y = S x(u) + noise
with precisions W: information M = SᵀWS and h = SᵀWy. With b(u⁻), V(u⁻) for the estimate from u and all below it,

    upward:    P = Σ_c V(c⁻),  s = Σ_c b(c⁻);   V(u⁻) = (I + P M)⁻¹ P,   b(u⁻) = s + V(u⁻)(h − M s)
    downward:  A(c) = V(c⁻) P⁺;   b(c) = b(c⁻) + A(c)(b(u) − s),   V(c) = V(c⁻) − A(c)(P − V(u))A(c)ᵀ
    between:   Cov(c, u) = A(c)V(u);   siblings: A(c)V(u)A(d)ᵀ − A(c)V(d⁻);   further down, A is multiplied on.

This form of the update needs no inverse of P, so that known sums (measurements without noise) may make it singular. A
leaf without measurements is unknown before the downward pass; it is what its parent leaves. Proof that this is
generalised least squares: ``docs/proofs/release-risk.md``, section 1. Reference: R. Cumings-Menon, *Full-information
estimation for hierarchical data*, arXiv:2404.13164 (2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from confide.arrays import Floats
from confide.errors import ParameterError

TOLERANCE = 1e-11
"""Eigenvalues below this part of the largest are zero: directions in which a sum is known exactly."""


@dataclass(frozen=True, eq=False)
class NodeInformation:
    """What measurements say of one node: M = SᵀWS and h = SᵀWy."""

    information: Floats
    evidence: Floats

    @classmethod
    def of(cls, strategy: ArrayLike, variances: ArrayLike, values: ArrayLike) -> NodeInformation:
        """From the rows of S, the variance of each, and what was measured."""
        rows, variance = np.asarray(strategy, float), np.asarray(variances, float)
        if (variance <= 0).any():
            raise _wrong("a measurement has no noise", "a variance of zero or less", "give it as a known sum")
        weighted = rows / variance[:, None]
        return cls(weighted.T @ rows, weighted.T @ np.asarray(values, float))


@dataclass(frozen=True, eq=False)
class KnownSums:
    """Sums over a node's cells that are known exactly: rows x = values."""

    rows: Floats
    values: Floats


class HierarchicalBlue:
    """Estimates and covariances of all nodes of a tree.

    Args:
        parents: For each node u its parent, −1 for the root.
        measured: For each node what its measurements say; None where nothing is measured.
        known: Sums over the cells of a node that are known exactly, by node.

    >>> half = NodeInformation.of([[1.0]], [2.0], [10.0])      # one cell, measured as 10 with variance 2
    >>> tree = HierarchicalBlue([-1, 0, 0], [half, NodeInformation.of([[1.0]], [1.0], [4.0]), half])
    >>> tree.estimate(0).round(3), tree.covariance(1).round(3)
    (array([11.6]), array([[0.8]]))
    """

    def __init__(
        self,
        parents: Sequence[int],
        measured: Sequence[NodeInformation | None],
        known: Mapping[int, KnownSums] | None = None,
    ):
        self._parents = list(parents)
        self._measured = list(measured)
        self._known = dict(known or {})
        self._children: list[list[int]] = [[] for _ in parents]
        for node, parent in enumerate(self._parents):
            if parent >= 0:
                self._children[parent].append(node)
        order = _from_the_root(self._parents, self._children)
        nodes = len(self._parents)
        self._upward: list[tuple[Floats, Floats] | None] = [None] * nodes
        self._below: list[tuple[Floats, Floats] | None] = [None] * nodes
        self._gain: list[Floats | None] = [None] * nodes
        self._estimate: list[Floats | None] = [None] * nodes
        self._covariance: list[Floats | None] = [None] * nodes
        for node in reversed(order):
            self._up(node)
        root = self._upward[order[0]]
        if root is None:
            raise _wrong("nothing tells the cells of the root", "no measurement", "measure the root or what is below")
        self._estimate[order[0]], self._covariance[order[0]] = root
        for node in order:
            self._down(node)

    def estimate(self, node: int) -> Floats:
        """The cells of a node; NaN where several unmeasured siblings leave them open."""
        estimate = self._estimate[node]
        assert estimate is not None
        return estimate

    def covariance(self, node: int, other: int | None = None) -> Floats:
        """The covariance of the estimates of a node, or of two."""
        if other is None or other == node:
            covariance = self._covariance[node]
            assert covariance is not None
            return covariance
        above, path = self._to_common(node, other)
        beside, other_path = self._to_common(other, node)
        if not path and not other_path:
            raise AssertionError("two nodes, one place")
        if not path:
            return (_along(self._gains(other_path), self.covariance(above))).T
        if not other_path:
            return _along(self._gains(path), self.covariance(beside))
        between = self._siblings(path[-1], other_path[-1])
        return _along(self._gains(other_path[:-1]), _along(self._gains(path[:-1]), between).T).T

    def union(self, nodes: Sequence[int]) -> tuple[Floats, Floats]:
        """Cells and covariance of an area made of several nodes, none within another."""
        total = np.sum([self.estimate(node) for node in nodes], axis=0)
        blocks = [self.covariance(one, other) for one in nodes for other in nodes]
        return total, np.sum(blocks, axis=0)

    def _up(self, node: int) -> None:
        measured, below = self._measured[node], None
        upward = [self._upward[child] for child in self._children[node]]
        estimates = [child for child in upward if child is not None]
        if estimates and len(estimates) == len(upward):
            below = (np.sum([b for b, _ in estimates], axis=0), np.sum([v for _, v in estimates], axis=0))
        self._below[node] = below
        if below is None and measured is None:
            return
        if below is None:
            assert measured is not None
            covariance = _inverse(measured.information)
            estimate = covariance @ measured.evidence
        elif measured is None:
            estimate, covariance = below
        else:
            total, covariance_below = below
            covariance = np.linalg.solve(np.eye(len(total)) + covariance_below @ measured.information, covariance_below)
            covariance = (covariance + covariance.T) / 2
            estimate = total + covariance @ (measured.evidence - measured.information @ total)
        if node in self._known:
            estimate, covariance = conditioned(estimate, covariance, self._known[node])
        self._upward[node] = (estimate, covariance)

    def _down(self, node: int) -> None:
        estimate, covariance = self.estimate(node), self.covariance(node)
        below = self._below[node]
        for child in self._children[node]:
            upward = self._upward[child]
            if below is not None:
                assert upward is not None
                total, covariance_below = below
                gain = upward[1] @ np.linalg.pinv(covariance_below, rcond=TOLERANCE, hermitian=True)
                self._estimate[child] = upward[0] + gain @ (estimate - total)
                self._covariance[child] = upward[1] - gain @ (covariance_below - covariance) @ gain.T
            elif upward is not None:
                gain = np.zeros_like(covariance)
                self._estimate[child], self._covariance[child] = upward
            else:
                gain = np.eye(len(estimate))
                self._estimate[child], self._covariance[child] = self._left_over(node, child)
            self._gain[child] = gain

    def _left_over(self, node: int, child: int) -> tuple[Floats, Floats]:
        """An unmeasured child: what its parent has beyond the other children."""
        others = [self._upward[other] for other in self._children[node] if other != child]
        estimate, covariance = self.estimate(node), self.covariance(node)
        if any(other is None for other in others):
            return np.full_like(estimate, np.nan), np.full_like(covariance, np.inf)
        siblings = [other for other in others if other is not None]
        return (
            estimate - np.sum([b for b, _ in siblings], axis=0) if siblings else estimate,
            covariance + np.sum([v for _, v in siblings], axis=0) if siblings else covariance,
        )

    def _siblings(self, one: int, other: int) -> Floats:
        if self._upward[other] is None:
            return self._siblings(other, one).T
        gain, other_gain, upward = self._gain[one], self._gain[other], self._upward[other]
        assert gain is not None
        assert other_gain is not None
        assert upward is not None
        parent = self.covariance(self._parents[one])
        result: Floats = gain @ parent @ other_gain.T - gain @ upward[1]
        return result

    def _to_common(self, node: int, other: int) -> tuple[int, list[int]]:
        """The lowest node above both (or one of them), and the path from ``node`` up to just below it."""
        above = {other}
        while (other := self._parents[other]) >= 0:
            above.add(other)
        path = []
        while node not in above:
            path.append(node)
            node = self._parents[node]
        return node, path

    def _gains(self, path: Sequence[int]) -> list[Floats]:
        gains = [self._gain[node] for node in path]
        return [gain for gain in gains if gain is not None]


def conditioned(estimate: Floats, covariance: Floats, known: KnownSums) -> tuple[Floats, Floats]:
    """An estimate once some sums are known exactly."""
    across = covariance @ known.rows.T
    inner = np.linalg.pinv(known.rows @ across, rcond=TOLERANCE, hermitian=True)
    gain = across @ inner
    return estimate + gain @ (known.values - known.rows @ estimate), covariance - gain @ across.T


def count_interval(estimate: float, variance: float, confidence: float) -> tuple[int, int]:
    """The whole, non-negative counts within z standard deviations of an estimate; empty (low > high) if there is none.

    It covers the count with at least this probability as far as the error is Gaussian, since the count is whole.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    reach = z * float(np.sqrt(variance))
    return max(0, int(np.ceil(estimate - reach))), int(np.floor(estimate + reach))


def _along(gains: Sequence[Floats], covariance: Floats) -> Floats:
    for gain in reversed(gains):
        covariance = gain @ covariance
    return covariance


def _from_the_root(parents: Sequence[int], children: Sequence[Sequence[int]]) -> list[int]:
    roots = [node for node, parent in enumerate(parents) if parent < 0]
    order = list(roots)
    for node in order:
        order += children[node]
    if len(roots) != 1 or len(order) != len(parents):
        raise _wrong("this is not a tree", f"{len(roots)} roots", "give each node but one a parent")
    return order


def _inverse(information: Floats) -> Floats:
    values = np.linalg.eigvalsh(information)
    if values[0] <= TOLERANCE * max(values[-1], 0):
        raise _wrong("the measurements of a node with nothing below do not tell its cells", "a singular matrix", "")
    return np.asarray(np.linalg.inv(information), np.float64)


def _wrong(what: str, found: str, remedy: str) -> ParameterError:
    return ParameterError(
        "not-estimable",
        what,
        found=found,
        expected="measurements that determine every cell",
        remedy=remedy or "measure every cell there, or nothing",
    )
