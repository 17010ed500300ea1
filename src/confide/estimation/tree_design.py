"""Variances of least squares on a tree as functions of precisions, with gradients: what a budget buys, and how best to
share it.

Unknown are precisions w ≥ 0, one for each query and level (a unit with an only child takes over what the child would
have had, query by query). The information of every unit is linear in w, so the variance of any count is convex in w and
homogeneous of degree −1. Two questions have closed answers or convex ones:

* with given proportions, the least budget that keeps Var_j ≤ τ_j for all j is max_j Var_j(proportions) / τ_j;
* the best proportions solve min_w max_j Var_j(w)/τ_j, w ≥ 0, Σw = 1, a convex problem (c-optimal design).

**Gradients.** With z(u) = Cov(x̂(u), target) the derivative by the information of a unit is −z(u)z(u)ᵀ. The recursion of
:mod:`confide.estimation.tree_covariances` goes up with vectors r; then, from the root down,

    z(root) = V(root) r(root),      z(c) = V(c⁻)[ r(c) + y(u) ],   y(u) = P⁺ z(u) − r(u).

In a unit that lies inside an area or outside of it as a whole, z(c) = V(c⁻) P⁺ z(u): what it adds to the gradient is
summed up by kinds of units, not one by one.

**A bound.** For any weights μ ≥ 0, Σμ = 1, let L(w) = Σ μ_j Var_j(w)/τ_j and g = max_i −∂L/∂w_i. Since L is convex and
of degree −1, no proportions at all need less than L²/g. The best proportions are returned with this bound.

Derivation: ``docs/proofs/tuning.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError
from confide.estimation.sectors import SectorCount, Sectors
from confide.estimation.tree_covariances import KNOWN, TreeCovariances, applied_by_kind, inverse_of, pseudo_inverse

SHARPNESS = (8.0, 32.0, 128.0, 512.0)
"""The maximum over targets is approached by p-norms, one after the other."""
STEPS = 40
"""Steps of the quasi-Newton method for each of them."""
NEAR = 5e-3
"""Proportions that need at most so much more than the bound are best."""
SMALLEST = 1e-9
"""What is shared out beyond the least shares, at least."""
ENTRIES_AT_ONCE = 1 << 24
"""How many numbers the vectors of one part of the targets may have."""


@dataclass(frozen=True, eq=False)
class AreaFunctions:
    """Linear functions of cells, one for each area: the sum over the area's units of h·x, sector by sector."""

    units: tuple[Integers, ...]
    """For each level of the tree the units that are inside an area as a whole, and their parents are not."""
    areas: tuple[Integers, ...]
    """For each of these its area."""
    vectors: Floats
    """areas x parts x sectors x core: h with the weights of the sectors in it, so that the variance is Σ hᵀVh."""

    @property
    def number(self) -> int:
        """How many areas there are."""
        return len(self.vectors)

    def chosen(self, areas: Integers) -> AreaFunctions:
        """Some of the areas, in the order given."""
        place = np.full(self.number, -1, np.int64)
        place[areas] = np.arange(len(areas))
        kept = [place[area] >= 0 for area in self.areas]
        return AreaFunctions(
            tuple(unit[inside] for unit, inside in zip(self.units, kept, strict=True)),
            tuple(place[area[inside]] for area, inside in zip(self.areas, kept, strict=True)),
            self.vectors[areas],
        )


def joined_counts(parts: Sequence[AreaFunctions]) -> AreaFunctions:
    """Several lists of counts as one, with as many vectors for each as the longest has."""
    shift = np.cumsum([0, *(part.number for part in parts)])
    most = max(part.vectors.shape[1] for part in parts)
    vectors = [np.pad(part.vectors, ((0, 0), (0, most - part.vectors.shape[1]), (0, 0), (0, 0))) for part in parts]
    levels = range(len(parts[0].units))
    units = tuple(np.concatenate([part.units[level] for part in parts]) for level in levels)
    areas = tuple(
        np.concatenate([part.areas[level] + first for part, first in zip(parts, shift, strict=False)])
        for level in levels
    )
    return AreaFunctions(units, areas, np.concatenate(vectors))


def vectors_of(sectors: Sectors, counts: Sequence[SectorCount], coefficients: Floats) -> Floats:
    """The vectors of Σ_n coefficient_n · count_n: areas x parts x sectors x core.

    Args:
        sectors: Core and free axes.
        counts: Counts of cells.
        coefficients: areas x counts.

    Returns:
        Vectors h whose Σ hᵀVh is the variance of the sum; one part where all counts have one core vector.
    """
    cores = np.stack([count.core for count in counts])
    weights = np.array([[sectors.weights(one, other) for other in counts] for one in counts])
    if (cores == cores[0]).all():
        scale = np.einsum("an,nms,am->as", coefficients, weights, coefficients, optimize=True)
        return np.asarray(np.sqrt(np.maximum(scale, 0))[:, None, :, None] * cores[0], np.float64)
    values, rotation = np.linalg.eigh(weights.transpose(2, 0, 1))
    roots = rotation * np.sqrt(np.maximum(values, 0))[:, None, :]
    return np.asarray(np.einsum("an,snk,nc->aksc", coefficients, roots, cores, optimize=True), np.float64)


@dataclass(frozen=True, eq=False)
class _Kinds:
    """The kinds of units of a level, as seen from below."""

    kind: Integers
    """For each unit."""
    parent: Integers
    """For each unit, one level up."""
    measured: Integers
    """For each kind the class of its measurements, or −1."""
    total: Booleans
    """For each kind whether its total is known."""
    lowest: Booleans
    """For each kind whether nothing below it is measured: blocks, and units with an only child down to a block."""
    possible: Booleans
    above: Integers
    """Pairs of kinds of parents and children: the kind of the parent,"""
    below: Integers
    """that of the child, a row of the next level,"""
    times: Floats
    """and how many such children a parent has."""


@dataclass(frozen=True, eq=False)
class _Upward:
    """Numbers by kind, for one choice of precisions."""

    covariance: Floats
    inverse: Floats


@dataclass(frozen=True, eq=False)
class _Step:
    """One level of the recursion, kept for the way back."""

    unit: Integers
    starts: Booleans
    vectors: Floats
    moved: Floats
    pair: Integers


class TreeDesign:
    """The variances of counts on a tree, and their gradients by precisions.

    Args:
        tree: The tree with any precisions: kinds of units are taken from it, and do not depend on how much is measured.
        queries: The information of each query if it is measured with precision one: queries x sectors x core x core.
    """

    def __init__(self, tree: TreeCovariances, queries: Floats):
        self.sectors, self.queries = tree.sectors, queries
        self._levels = [self._kinds(tree, position) for position in range(len(tree.levels))]

    def _kinds(self, tree: TreeCovariances, position: int) -> _Kinds:
        own, last = tree.upward[position], position == len(tree.levels) - 1
        number = len(own.measured)
        representative = np.zeros(number, np.int64)
        representative[own.kind] = np.arange(len(own.kind))
        total = tree.known[position][representative]
        lowest, above, below, times = np.ones(number, bool), *(np.zeros(0, np.int64) for _ in range(2)), np.zeros(0)
        if not last:
            child, parent = tree.upward[position + 1], tree.levels[position + 1].parent
            lowest = own.open_children > 0
            if (lowest & (np.bincount(own.kind[parent], minlength=number) > np.bincount(own.kind))).any():
                raise ParameterError("not-estimable/units")
            # Children of one unit of each kind stand for those of all.
            chosen = np.flatnonzero((representative[own.kind[parent]] == parent) & ~lowest[own.kind[parent]])
            width = len(child.measured)
            pairs, count = np.unique(own.kind[parent[chosen]] * width + child.kind[chosen], return_counts=True)
            above, below, times = pairs // width, pairs % width, count.astype(np.float64)
        return _Kinds(
            own.kind, tree.levels[position].parent, own.measured, total, lowest, own.possible, above, below, times
        )

    # Areas.

    def area_counts(self, area_of_block: Integers, vectors: Floats) -> AreaFunctions:
        """Counts of areas that no two share a block of.

        Args:
            area_of_block: For each unit of the last level its area, or −1.
            vectors: areas x parts x sectors x core, as :func:`vectors_of` makes them.
        """
        label, labels = area_of_block, [area_of_block]
        for level in reversed(self._levels[1:]):
            units = int(level.parent.max()) + 1
            least, most = np.full(units, np.iinfo(np.int64).max), np.full(units, -2, np.int64)
            np.minimum.at(least, level.parent, label)
            np.maximum.at(most, level.parent, label)
            label = np.where(least == most, least, -1)
            labels.insert(0, label)
        units_of, areas_of = [], []
        for position, own in enumerate(labels):
            inside = own >= 0
            if position:
                inside &= labels[position - 1][self._levels[position].parent] < 0
            units_of.append(np.flatnonzero(inside))
            areas_of.append(own[inside])
        return AreaFunctions(tuple(units_of), tuple(areas_of), vectors)

    # Numbers.

    def _up(self, precisions: Sequence[Floats]) -> list[_Upward]:
        result: list[_Upward] = []
        size = self.sectors.size
        shape = (len(self.sectors.sectors), size, size)
        for level, precision in zip(reversed(self._levels), reversed(precisions), strict=True):
            information = np.concatenate([np.tensordot(precision, self.queries, axes=1), np.zeros((1, *shape))])[
                level.measured
            ]
            sums = np.zeros((len(level.measured), *shape))
            if len(level.above):
                children = result[0].covariance[level.below] * level.times[:, None, None, None]
                np.add.at(sums, level.above, children)
            covariance = np.linalg.solve(np.eye(size) + sums @ information, sums)
            for number in np.flatnonzero(level.lowest & (level.measured >= 0)).tolist():
                cells = np.flatnonzero(level.possible[number])
                cut = np.ix_(np.arange(shape[0]), cells, cells)
                covariance[number] = 0.0
                covariance[number][cut] = inverse_of(information[number][cut])
            first = covariance[:, 0]
            across = first.sum(axis=2)
            variance = across.sum(axis=1)
            known = level.total & (variance > KNOWN * np.einsum("kii->k", first) * size)
            gain = np.where(known[:, None], across / np.where(known, variance, 1.0)[:, None], 0.0)
            covariance[:, 0] = first - gain[:, :, None] * across[:, None, :]
            covariance = (covariance + covariance.swapaxes(-1, -2)) / 2
            result.insert(0, _Upward(covariance, pseudo_inverse(sums) if len(level.above) else sums))
        return result

    def variances(self, precisions: Sequence[Floats], *counts: AreaFunctions) -> list[Floats]:
        """The variance of every count, list by list.

        Args:
            precisions: For each level, classes of measurements x queries.
            counts: What is counted.
        """
        upward = self._up(precisions)
        return [np.concatenate([self._forms(upward, part)[0] for part in self._parts(one)]) for one in counts]

    def gradient(
        self, precisions: Sequence[Floats], counts: AreaFunctions, weigh: Callable[[Floats], Floats]
    ) -> tuple[Floats, Floats, list[Floats]]:
        """Variances, weights that follow from them, and the gradient of Σ weight · variance by the precisions.

        Args:
            precisions: For each level, classes of measurements x queries.
            counts: What is counted.
            weigh: A function from variances to weights.

        Returns:
            The variances, the weights, and for each level an array of the form of its precisions.
        """
        variances, slope = self.differentiable(precisions, counts)
        weights = np.asarray(weigh(variances), np.float64)
        return variances, weights, slope(weights)

    def differentiable(
        self, precisions: Sequence[Floats], counts: AreaFunctions
    ) -> tuple[Floats, Callable[[Floats], list[Floats]]]:
        """The variances, and a function from weights to the gradient of Σ weight · variance: as :meth:`gradient`, for
        weights that follow from more than these variances."""
        upward = self._up(precisions)
        parts = list(self._parts(counts))
        forms = [self._forms(upward, part) for part in parts]

        def slope(weights: Floats) -> list[Floats]:
            own = [np.zeros_like(level.covariance) for level in upward]
            free, cut = [np.zeros_like(each) for each in own], [np.zeros_like(each) for each in own]
            first = 0
            for part, (_, steps) in zip(parts, forms, strict=True):
                self._back(upward, steps, weights[first : first + part.number], (own, free, cut))
                first += part.number
            for position, level in enumerate(self._levels[:-1]):
                if len(level.above):
                    inverse, below = upward[position].inverse, upward[position + 1].covariance[level.below]
                    moment = (cut[position] + inverse @ free[position] @ inverse)[level.above]
                    given = level.times[:, None, None, None] * (below @ moment @ below)
                    np.add.at(own[position + 1], level.below, given)
                    np.add.at(free[position + 1], level.below, given)
            result = []
            for level, precision, moment in zip(self._levels, precisions, own, strict=True):
                by_kind = -np.einsum("kscd,qscd->kq", moment, self.queries, optimize=True)
                of_class = np.zeros_like(precision)
                inside = level.measured >= 0
                np.add.at(of_class, level.measured[inside], by_kind[inside])
                result.append(of_class)
            return result

        return np.concatenate([variance for variance, _ in forms]), slope

    def _parts(self, counts: AreaFunctions) -> list[AreaFunctions]:
        """The counts in parts whose vectors take little memory."""
        entries = np.zeros(counts.number, np.int64)
        for areas in counts.areas:
            entries += np.bincount(areas, minlength=counts.number)
        size = (entries + len(self._levels)) * int(np.prod(counts.vectors.shape[1:]))
        part = np.cumsum(size) // ENTRIES_AT_ONCE
        if not len(part) or part[-1] == part[0]:
            return [counts]
        ends = np.append(np.flatnonzero(np.diff(part)) + 1, counts.number)
        starts = np.append(0, ends[:-1])
        return [counts.chosen(np.arange(a, b)) for a, b in zip(starts, ends, strict=True)]

    def _forms(self, upward: Sequence[_Upward], counts: AreaFunctions) -> tuple[Floats, list[_Step]]:
        """The variances, by the recursion of areas, and its steps from the last level up to the root."""
        number, result, steps = counts.number, np.zeros(counts.number), []
        unit, area = np.zeros(0, np.int64), np.zeros(0, np.int64)
        vectors = np.zeros((0, *counts.vectors.shape[1:]))
        for position in range(len(self._levels) - 1, -1, -1):
            begun = counts.areas[position]
            starts = np.append(np.zeros(len(unit), bool), np.ones(len(begun), bool))
            unit, area = np.append(unit, counts.units[position]), np.append(area, begun)
            vectors = np.concatenate([vectors, counts.vectors[begun]])
            level = self._levels[position]
            moved = applied_by_kind(upward[position].covariance, level.kind[unit], vectors)
            squares = np.einsum("eksc,eksc->e", vectors, moved, optimize=True)
            np.add.at(result, area, squares)
            if not position:
                steps.append(_Step(unit, starts, vectors, moved, area))
                break
            key, pair = np.unique(level.parent[unit] * number + area, return_inverse=True)
            pair = pair.reshape(-1)
            steps.append(_Step(unit, starts, vectors, moved, pair))
            sums = np.zeros((len(key), *vectors.shape[1:]))
            np.add.at(sums, pair, moved)
            unit, area = key // number, key % number
            vectors = applied_by_kind(upward[position - 1].inverse, self._levels[position - 1].kind[unit], sums)
            np.add.at(result, area, -np.einsum("eksc,eksc->e", sums, vectors, optimize=True))
        return result, steps

    def _back(
        self,
        upward: Sequence[_Upward],
        steps: Sequence[_Step],
        weights: Floats,
        moments: tuple[list[Floats], list[Floats], list[Floats]],
    ) -> None:
        """Adds the second moments of z, weighted, to those of kinds of units: ``own`` for the unit itself, ``free`` for
        what is below units that no area cuts, ``cut`` (of y) for all children of those that one does."""
        own, free, cut = moments
        areas = steps[-1].pair
        covariances = steps[-1].moved
        root = np.sqrt(weights[areas])[:, None, None, None]
        _add_moments(own[0], self._levels[0].kind[steps[-1].unit], root * covariances)
        ends = steps[-1].starts
        _add_moments(free[0], self._levels[0].kind[steps[-1].unit[ends]], (root * covariances)[ends])
        above, above_area = steps[-1], areas
        for position in range(1, len(self._levels)):
            step, level = steps[len(self._levels) - 1 - position], self._levels[position]
            kinds = self._levels[position - 1].kind
            inner = np.flatnonzero(~above.starts)  # the units above that an area cuts, in the order of the pairs below
            inverse = applied_by_kind(upward[position - 1].inverse, kinds[above.unit[inner]], covariances[inner])
            rest = inverse - above.vectors[inner]
            area = above_area[inner]
            scale = np.sqrt(weights[area])[:, None, None, None]
            _add_moments(cut[position - 1], kinds[above.unit[inner]], scale * rest)
            kind = level.kind[step.unit]
            freely = applied_by_kind(upward[position].covariance, kind, rest[step.pair])
            covariances = step.moved + freely
            of_pair = scale[step.pair]
            for into in (own[position], free[position]):
                _add_moments(into, kind, of_pair * freely, -1.0)
            _add_moments(own[position], kind, of_pair * covariances)
            ends = step.starts
            _add_moments(free[position], kind[ends], (of_pair * covariances)[ends])
            above, above_area = step, area[step.pair]


def _add_moments(into: Floats, kind: Integers, vectors: Floats, sign: float = 1.0) -> None:
    """Adds Σ vvᵀ of the entries of each kind, sector by sector."""
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(kind[order]) != 0)) if len(order) else np.zeros(0, np.int64)
    for rows in np.split(order, starts[1:]):
        if len(rows):
            chosen = vectors[rows].transpose(2, 0, 1, 3).reshape(vectors.shape[2], -1, vectors.shape[3])
            into[kind[rows[0]]] += sign * (chosen.swapaxes(-1, -2) @ chosen)


# The best proportions.


@dataclass(frozen=True, eq=False)
class LinearPrecisions:
    """Precisions of all classes of measurements as linear functions of shares: one share for each query and level."""

    loads: tuple[Floats, ...]
    """For each level of the tree: classes x queries x shares."""

    def of(self, shares: Floats) -> list[Floats]:
        """The precisions with these shares of a budget of one."""
        return [load @ shares for load in self.loads]

    def back(self, gradient: Sequence[Floats]) -> Floats:
        """From a gradient by precisions to one by shares."""
        total = np.zeros(self.loads[0].shape[-1])
        for load, each in zip(self.loads, gradient, strict=True):
            total += np.einsum("cqi,cq->i", load, each, optimize=True)
        return total


@dataclass(frozen=True, eq=False)
class BestShares:
    """Shares that need (almost) the least budget, and proof of it."""

    shares: Floats
    """They sum to one."""
    needed: float
    """The budget that they need."""
    bound: float
    """No shares at all need less."""
    multipliers: Floats
    """For each limit, by how many per cent the budget falls if it rises by one per cent; they sum to one."""
    evaluations: int


@dataclass(frozen=True, eq=False)
class LimitedVariances:
    """What shares have to keep on one tree: variances, or weighted means of them, within limits."""

    design: TreeDesign
    linear: LinearPrecisions
    """Precisions by shares."""
    counts: AreaFunctions
    limits: Floats
    """The largest variance of each count; or, with ``means``, the largest of each mean."""
    means: sp.csr_matrix | None = None
    """means x counts: nonnegative weights; without it each count has a limit of its own."""

    def ratios(self, shares: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        """What is limited over its limit, with a budget of one; and from weights of these the slope by shares."""
        variances, slope = self.design.differentiable(self.linear.of(shares), self.counts)
        means = variances if self.means is None else self.means @ variances

        def by_shares(weights: Floats) -> Floats:
            scaled = weights / self.limits
            return self.linear.back(slope(scaled if self.means is None else self.means.T @ scaled))

        return np.asarray(means / self.limits, np.float64), by_shares


def best_shares(
    cases: Sequence[LimitedVariances],
    begin: Floats,
    least: Floats,
    sharpness: Sequence[float] = SHARPNESS,
    steps: int = STEPS,
) -> BestShares:
    """The shares with which the least budget keeps everything within its limits, on all trees together.

    Args:
        cases: What is limited, on one tree or on several that are to be served by the same shares.
        begin: Shares to begin with, summing to one.
        least: What no share goes below; sums to less than one.
        sharpness: The p-norms that stand for the maximum, one after the other.
        steps: Steps of the quasi-Newton method for each of them, at most.

    Returns:
        The shares, the budget that they need, and a bound that holds for all shares.
    """
    evaluations, room = 0, 1.0 - float(least.sum())
    best: BestShares | None = None

    def objective(logs: Floats, power: float) -> tuple[float, Floats]:
        """log of the p-norm of Var/τ with the shares least + room·x, x = exp(logs)/Σexp(logs), and its slope."""
        nonlocal evaluations, best
        x = np.exp(logs - logs.max())
        x /= x.sum()
        shares = least + room * x
        parts = [case.ratios(shares) for case in cases]
        ratio = np.concatenate([each for each, _ in parts])
        largest = float(ratio.max())
        weight = (ratio / largest) ** (power - 1)
        weight /= weight.sum()
        ends = np.cumsum([len(each) for each, _ in parts])[:-1]
        slope = sum(
            (by_shares(own) for own, (_, by_shares) in zip(np.split(weight, ends), parts, strict=True)),
            np.zeros(len(x)),
        )
        evaluations += 1
        mean = float(weight @ ratio)
        bound = mean**2 / float((-slope).max())
        if best is None or largest < best.needed:
            best = BestShares(shares, largest, max(bound, best.bound if best else 0.0), weight * ratio / mean, 0)
        elif bound > best.bound:
            best = replace(best, bound=bound)
        value = float(np.log(largest) + np.log(((ratio / largest) ** power).sum()) / power)
        # d log‖R‖_p = Σ R^(p−1) dR / ΣR^p; the weights are R^(p−1) up to their sum, and shares fall as others rise.
        return value, np.asarray(room * x * (slope - slope @ x) / mean, np.float64)

    from scipy.optimize import minimize  # not for those who ask what given shares need

    # Shares differ by orders of magnitude, so steps are taken on their logarithms. The problem is convex in the shares,
    # and a point without a slope in the one is without one in the other.
    logs = np.log(np.maximum(begin, SMALLEST))
    options = {"maxiter": steps, "ftol": 1e-10, "gtol": 1e-7}
    for power in sharpness:
        limited = [(np.log(SMALLEST), 0.0)] * len(logs)
        solved = minimize(objective, logs, args=(power,), jac=True, method="L-BFGS-B", bounds=limited, options=options)
        logs = np.maximum(solved.x - np.log(np.exp(solved.x).sum()), np.log(SMALLEST))
        assert best is not None
        if best.needed <= best.bound * (1 + NEAR):
            break
    assert best is not None
    return replace(best, evaluations=evaluations)
