"""The node problem: what one parent, or the root, asks of the least squares.

A parent with whole counts ``p`` (one for each cell) is to be shared out among its children. With ``x[i, c]`` the
estimate of cell i in child c, and with queries that are partitions of the cells,

    minimise    sum over queries q, groups g and children c of  w[q, c] * (sum of x[i, c] over i in g  -  y[q, g, c])^2
    subject to  x >= 0, and x[i, c] = 0 where ``allowed`` is false                    (structural zeros)
                sum over c of x[i, c] = p[i]                                          (parent sums)
                lower <= sum of x[i, c] over a group of cells <= upper, for a child   (:class:`GroupBounds`)
                lower <= sum of x[i, c] over a group of children <= upper             (:class:`ChildSums`)

Instead of queries a problem may have a normal law of the cells of each child (:class:`CellLaw`).
The root has one unit and no parent: ``parent`` is None, and the total may be fixed instead. Weights are one over the
variance of a measurement, and 0 where a child was not measured. Nothing here knows the truth.
Reference: Abowd et al. (2022), The 2020 Census Disclosure Avoidance System TopDown Algorithm, sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError, Place
from confide.estimation.sectors import Sectors


def _as_groups(groups: npt.ArrayLike, where: str) -> Integers:
    array = np.asarray(groups)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise ParameterError("node-problem/ids", where=Place(path=where), found=str(array.dtype))
    result = array.astype(np.int64)
    if result.size and result.min() < -1:
        raise ParameterError("node-problem/id", where=Place(path=where), found=str(int(result.min())))
    return result


@dataclass(frozen=True, eq=False)
class MeasuredQuery:
    """One query on every child: ``groups[i]`` is the group of cell i, or -1; ``measured[g, c]`` the measurement.

    ``weights[c]`` is one over the variance in child c; with 0 the values of that child are not looked at.
    """

    name: str
    groups: Integers
    measured: Floats
    weights: Floats

    def __post_init__(self) -> None:
        groups = _as_groups(self.groups, self.name)
        measured, weights = np.asarray(self.measured, np.float64), np.asarray(self.weights, np.float64)
        if measured.ndim != 2 or weights.shape != measured.shape[1:]:
            raise ParameterError(
                "node-problem/values", where=Place(path=self.name), shape=measured.shape, weights_shape=weights.shape
            )
        if groups.size and groups.max() >= len(measured):
            raise ParameterError(
                "node-problem/group-measured-value",
                where=Place(path=self.name),
                found=str(int(groups.max())),
                measured=len(measured),
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ParameterError("node-problem/weight", where=Place(path=self.name))
        measured = np.where(weights > 0, measured, 0.0)
        if not np.isfinite(measured).all():
            raise ParameterError("node-problem/measured-value-finite", where=Place(path=self.name))
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "measured", measured)
        object.__setattr__(self, "weights", weights)


@dataclass(frozen=True, eq=False)
class GroupBounds:
    """``lower[g, c] <= sum of x[i, c] over cells i of group g <= upper[g, c]``. Infinite where there is no bound."""

    name: str
    groups: Integers
    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        groups = _as_groups(self.groups, self.name)
        lower, upper = np.asarray(self.lower, np.float64), np.asarray(self.upper, np.float64)
        if lower.ndim != 2 or lower.shape != upper.shape or (groups.size and groups.max() >= len(lower)):
            raise ParameterError(
                "node-problem/lower-upper-bounds",
                where=Place(path=self.name),
                shape=lower.shape,
                upper_shape=upper.shape,
            )
        if np.isnan(lower).any() or np.isnan(upper).any():
            raise ParameterError("node-problem/bound", where=Place(path=self.name))
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)


@dataclass(frozen=True, eq=False)
class ChildSums:
    """``lower[k] <= sum of all cells of the children c with members[c] = k <= upper[k]``; -1: in no group."""

    name: str
    members: Integers
    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        members = _as_groups(self.members, self.name)
        lower, upper = np.asarray(self.lower, np.float64), np.asarray(self.upper, np.float64)
        if lower.ndim != 1 or lower.shape != upper.shape or (members.size and members.max() >= len(lower)):
            raise ParameterError(
                "node-problem/groups", where=Place(path=self.name), shape=lower.shape, upper_shape=upper.shape
            )
        if np.isnan(lower).any() or np.isnan(upper).any():
            raise ParameterError("node-problem/bound", where=Place(path=self.name))
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)


# A normal law of the cells of each child as the objective of a node: a Hessian given by core matrices in sectors.
#
# With b the mean and J the information (the inverse of the covariance) of a child's cells, the objective is the sum
# over children of
#
#     (x − b)ᵀ J (x − b),     J = Σ over sectors s of  J_s ⊗ (for each free axis of n levels  11ᵀ/n  or  I − 11ᵀ/n),
#
# with one matrix J_s on the core for each sector (``sectors``). Cells that the parent has not are zero in x, and b and
# J have them all the same: that they are zero is news about the others. With S the cells that the parent has, d = x − b
# on S, and b₀ the mean with zeros on S,
#
#     f = dᵀ J_SS d − 2 dᵀ(J b₀)_S + b₀ᵀ J b₀.
#
# A product with J needs no sector coordinates: 11ᵀ/n and I span the same as the two projections, so that J is a sum
# over subsets T of the free axes of B_T ⊗ (I on the axes of T, 11ᵀ on the others): the cells are added up over the axes
# that are not in T, multiplied by a small matrix, and handed back to all levels of those axes.
#
# Derivation: ``docs/proofs/whole-tree.md``, section 8.


DENSE = 250_000
"""Matrices of the parent's cells are kept if a product with them takes at most this many multiplications."""
NOTHING = 1e-10
"""An eigenvalue below this part of the largest is a rounding error."""
BELOW_ALL = 1 - 1e-9
"""Takes rounding errors off a bound that has to be below a smallest eigenvalue."""


@dataclass(frozen=True, eq=False)
class CellLaw:
    """The laws of the cells of some children.

    Args:
        sectors: Core and free axes of the histogram.
        support: The cells of the histogram, in C order, that x has rows for.
        kind: For each child the number of its information.
        information: J: kinds x sectors x core x core, zero where a core cell cannot be other than zero.
        mean: b: children x core x copies, all cells of the histogram.

    >>> sectors = Sectors((2,), (0,))
    >>> law = CellLaw(sectors, np.arange(2), np.zeros(1, int), np.array([[[[3.0]], [[1.0]]]]), np.array([[[4.0, 2.0]]]))
    >>> law.matrix(0), law.value(np.array([[4.0], [3.0]]))
    (array([[2., 1.],
           [1., 2.]]), 2.0)
    """

    sectors: Sectors
    support: Integers
    kind: Integers
    information: Floats
    mean: Floats

    @cached_property
    def _places(self) -> tuple[Integers, tuple[Integers, ...]]:
        """For each row of x its core cell, and its level on each free axis."""
        index = np.unravel_index(self.support, self.sectors.shape)
        core = np.zeros(len(self.support), np.int64)
        for axis, size in zip(self.sectors.core, self.sectors.core_shape, strict=True):
            core = core * size + index[axis]
        return core, tuple(index[axis].astype(np.int64) for axis in self.sectors.free)

    @cached_property
    def _rows(self) -> tuple[Integers, Integers]:
        """For each row of x its core cell and its copy."""
        core, levels = self._places
        copy = np.zeros(len(self.support), np.int64)
        for size, level in zip(self.sectors.free_shape, levels, strict=True):
            copy = copy * size + level
        return core, copy

    @cached_property
    def _parts(self) -> tuple[tuple[tuple[bool, ...], Floats], ...]:
        """For each subset T of the free axes, as a mask, B_T of every kind."""
        return tuple(subset_matrices(self.sectors, self.information))

    # The cells that the parent has: a box of core cells and levels that holds them, without what no cell has.

    @cached_property
    def box(self) -> tuple[Integers, tuple[int, ...], Integers]:
        """The core cells of the box, its shape on the free axes, and the place of each row of x in it."""
        core, levels = self._places
        cells, place = np.unique(core, return_inverse=True)
        shape = []
        for level in levels:
            used, number = np.unique(level, return_inverse=True)
            shape.append(len(used))
            place = place.reshape(-1) * len(used) + number.reshape(-1)
        return cells, tuple(shape), place.reshape(-1)

    @cached_property
    def box_parts(self) -> tuple[tuple[tuple[bool, ...], Floats], ...]:
        """For each subset T of the free axes B_T on the core cells of the box, once where all kinds are alike."""
        cells = self.box[0]
        return tuple((mask, _one_if_alike(part[:, cells[:, None], cells])) for mask, part in self._parts)

    @cached_property
    def _dense(self) -> Floats | None:
        """J_SS of every kind, where that is the faster way."""
        size = len(self.support)
        if size * size * max(len(self.kind), len(self.information)) > DENSE:
            return None
        return np.stack([self.matrix(number) for number in range(len(self.information))])

    def matrix(self, kind: int) -> Floats:
        """J_SS of a kind, cells x cells."""
        core, levels = self._places
        result = np.zeros((len(self.support), len(self.support)))
        for mask, part in self._parts:
            alike = np.ones(result.shape, bool)
            for kept, level in zip(mask, levels, strict=True):
                if kept:
                    alike &= level[:, None] == level[None, :]
            result += np.where(alike, part[kind][core[:, None], core], 0.0)
        return result

    def product(self, v: Floats) -> Floats:
        """J_SS v, for each child: cells x children."""
        if self._dense is not None:
            if len(self._dense) == 1:
                return np.asarray(self._dense[0] @ v)
            return np.asarray((self._dense[self.kind] @ v.T[:, :, None])[:, :, 0].T)
        cells, shape, place = self.box
        box = np.zeros((len(self.kind), len(cells) * prod(shape)))
        box[:, place] = v.T
        image = self._applied(self.box_parts, box.reshape(len(self.kind), len(cells), *shape))
        return np.asarray(image.reshape(len(self.kind), -1)[:, place].T)

    def _applied(self, parts: Sequence[tuple[tuple[bool, ...], Floats]], box: Floats) -> Floats:
        """J on children x core x free axes."""
        result = np.zeros_like(box)
        for mask, part in parts:
            summed = tuple(2 + axis for axis, kept in enumerate(mask) if not kept)
            sums = box.sum(axis=summed, keepdims=True) if summed else box
            matrices = part[0] if len(part) == 1 else part[self.kind]
            flat = matrices @ sums.reshape(*sums.shape[:2], -1)
            result += flat.reshape(sums.shape)
        return result

    @cached_property
    def centre(self) -> Floats:
        """b on the rows of x: cells x children."""
        core, copy = self._rows
        return np.ascontiguousarray(self.mean[:, core, copy].T)

    @cached_property
    def _beside(self) -> tuple[Floats, float]:
        """(J b₀)_S and b₀ᵀ J b₀."""
        core, copy = self._rows
        rest = self.mean.copy()
        rest[:, core, copy] = 0.0
        box = rest.reshape(*rest.shape[:2], *self.sectors.free_shape)
        image = self._applied(self._parts, box).reshape(rest.shape)
        return np.ascontiguousarray(image[:, core, copy].T), float(np.einsum("ucf,ucf->", image, rest))

    def gradient(self, x: Floats) -> Floats:
        """2 (J (x − b))_S."""
        return 2.0 * (self.product(x - self.centre) - self._beside[0])

    def value(self, x: Floats) -> float:
        """f(x)."""
        off = x - self.centre
        pull, constant = self._beside
        return float((off * (self.product(off) - 2.0 * pull)).sum()) + constant

    # What a solver wants to know of J.

    @cached_property
    def full_diagonal(self) -> Floats:
        """The diagonal of J_SS: cells x children."""
        shares = [((1 / n, 1 - 1 / n) if n > 1 else (1.0, 0.0)) for n in self.sectors.free_shape]
        weights = np.array([prod(shares[axis][d] for axis, d in enumerate(s)) for s in self.sectors.sectors])
        by_kind = np.einsum("s,kscc->kc", weights, self.information)
        return np.ascontiguousarray(by_kind[self.kind][:, self._places[0]].T)

    @cached_property
    def diagonal(self) -> Floats:
        """D ≥ 0 with J − D positive semidefinite: what each cell weighs by itself whatever the others are."""
        below = np.zeros((len(self.information), self.sectors.size))
        for kind, matrices in enumerate(self.information):
            by_sector = np.einsum("scc->sc", matrices)
            own = np.maximum(by_sector.min(axis=0), 0.0)  # rounding may leave next to nothing below zero
            cells = np.flatnonzero(by_sector.max(axis=0) > 0)
            scale = np.sqrt(own[cells])
            if len(cells) and scale.min() > 0:
                scaled = matrices[:, cells[:, None], cells] / (scale[:, None] * scale)
                least = float(np.linalg.eigvalsh(scaled).min())
                below[kind, cells] = max(0.0, least * BELOW_ALL) * own[cells]
        return np.ascontiguousarray(below[self.kind][:, self._places[0]].T)

    @cached_property
    def condition(self) -> float:
        """How unlike directions are: the largest over the smallest eigenvalue of J, each cell in units of its weight.

        Directions in which nothing is known do not count.
        """
        worst = 1.0
        for matrices in self.information:
            own = np.einsum("scc->c", matrices)
            cells = np.flatnonzero(own > 0)
            if len(cells):
                scale = np.sqrt(own[cells])
                values = np.linalg.eigvalsh(matrices[:, cells[:, None], cells] / (scale[:, None] * scale))
                largest = float(values.max())
                worst = max(worst, largest / float(values[values > NOTHING * largest].min(initial=largest)))
        return worst

    def largest(self) -> float:
        """The largest eigenvalue of J over all kinds: an upper bound of those of J_SS."""
        return float(np.linalg.eigvalsh(self.information).max(initial=0.0)) if self.information.size else 0.0

    def reach(self, value: float) -> Floats:
        """For every cell a bound that no x with f(x) ≤ ``value`` exceeds: b + √(value · (J⁻¹)_ii); cells x children."""
        shares = [((1 / n, 1 - 1 / n) if n > 1 else (1.0, 0.0)) for n in self.sectors.free_shape]
        weights = np.array([prod(shares[axis][d] for axis, d in enumerate(s)) for s in self.sectors.sectors])
        variance = np.full((len(self.information), self.sectors.size), np.inf)
        for kind, matrices in enumerate(self.information):
            cells = np.flatnonzero(np.einsum("scc->c", matrices) > 0)
            inner = matrices[:, cells[:, None], cells]
            if len(cells) and float(np.linalg.eigvalsh(inner).min()) > 1e-12 * float(np.abs(inner).max()):
                variance[kind, cells] = np.einsum("s,scc->c", weights, np.linalg.inv(inner))
        own = variance[self.kind][:, self._places[0]].T
        # What nothing is known of has no bound, also where the value is zero.
        away = np.where(np.isinf(own), np.inf, np.sqrt(value * np.where(np.isinf(own), 0.0, own)))
        return np.maximum(self.centre + away, 0.0)

    @cached_property
    def scale(self) -> float:
        """f where every cell is missed by 0.01: what counts as nothing."""
        return 1e-4 * float(self.full_diagonal.sum())


def subset_matrices(sectors: Sectors, information: Floats) -> Iterator[tuple[tuple[bool, ...], Floats]]:
    """For each subset T of the free axes, as a mask, B_T of J = Σ_T B_T ⊗ (I on T, 11ᵀ elsewhere).

    On an axis of n levels the projections are 11ᵀ/n and I − 11ᵀ/n: I has the matrix of deviations, 11ᵀ an n-th of what
    that of the mean has more.
    """
    number = {sector: place for place, sector in enumerate(sectors.sectors)}
    for mask in product((True, False), repeat=len(sectors.free)):
        # An axis with one level has a mean and nothing else.
        if any(n == 1 and not kept for n, kept in zip(sectors.free_shape, mask, strict=True)):
            continue
        result = np.zeros(information.shape[:1] + information.shape[2:])
        choices = [
            ((False, 1.0),) if n == 1 else ((True, 1.0),) if kept else ((False, 1 / n), (True, -1 / n))
            for n, kept in zip(sectors.free_shape, mask, strict=True)
        ]
        for choice in product(*choices):
            factor = prod(part[1] for part in choice)
            result += factor * information[:, number[tuple(part[0] for part in choice)]]
        yield mask, result


def _one_if_alike(matrices: Floats) -> Floats:
    return matrices[:1] if len(matrices) == 1 or bool((matrices == matrices[:1]).all()) else matrices


def marginal_information(
    sectors: Sectors, covariance: Floats, kept: Sequence[tuple[Floats, tuple[bool, ...]]]
) -> Floats:
    """The information about the answers to some queries, as information about the cells: kinds x sectors x core x core.

    With V the covariance of the cells and W rows that span the answers, it is Wᵀ(W V Wᵀ)⁺W: that of the marginal law of
    the answers, whatever else is known of the cells.

    Args:
        sectors: Core and free axes.
        covariance: V: kinds x sectors x core x core.
        kept: For each query its groups as indicators of core cells, and for each free axis whether it is kept.
    """
    result = np.zeros_like(covariance)
    for number, sector in enumerate(sectors.sectors):
        alive = [
            members
            for members, keeps in kept
            if all(own or not deviates for own, deviates in zip(keeps, sector, strict=True))
        ]
        if not alive:
            continue
        _, values, rows = np.linalg.svd(np.concatenate(alive), full_matrices=False)
        rows = rows[values > 1e-9 * values[0]]
        inner = np.linalg.pinv(rows @ covariance[:, number] @ rows.T, rcond=1e-13, hermitian=True)
        result[:, number] = rows.T @ inner @ rows
    return result


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """A parent and its children (``parent`` given), or the root (``parent`` None, one column in ``allowed``)."""

    parent: Integers | None
    allowed: Booleans
    queries: tuple[MeasuredQuery, ...]
    bounds: tuple[GroupBounds, ...] = ()
    child_sums: tuple[ChildSums, ...] = ()
    total: int | None = None
    children: tuple[str, ...] = ()
    law: CellLaw | None = None
    """A normal law of the cells of each child, in place of the queries: ``(x - b)' J (x - b)`` is minimised."""

    def __post_init__(self) -> None:
        allowed = np.asarray(self.allowed, np.bool_)
        if allowed.ndim != 2 or allowed.shape[1] == 0:
            raise ParameterError("node-problem/table", where=Place(path="allowed"), found=str(allowed.shape))
        cells, children = allowed.shape
        object.__setattr__(self, "allowed", allowed)
        if self.parent is None:
            if children != 1:
                raise ParameterError("node-problem/root", where=Place(path="parent"), children=children)
            if self.total is not None and self.total < 0:
                raise ParameterError("node-problem/total-negative", where=Place(path="total"), found=str(self.total))
        else:
            parent = np.asarray(self.parent)
            if parent.shape != (cells,) or not (np.issubdtype(parent.dtype, np.integer) or cells == 0):
                raise ParameterError(
                    "node-problem/counts", where=Place(path="parent"), found=str(parent.shape), cells=cells
                )
            if cells and parent.min() < 0:
                raise ParameterError("node-problem/count", where=Place(path="parent"), found=str(int(parent.min())))
            if self.total is not None:
                raise ParameterError("node-problem/beside", where=Place(path="total"), found=str(self.total))
            object.__setattr__(self, "parent", parent.astype(np.int64))
        if self.children and len(self.children) != children:
            raise ParameterError(
                "node-problem/children", where=Place(path="children"), found=str(len(self.children)), children=children
            )
        shapes = [(query.name, len(query.groups), query.measured.shape[1]) for query in self.queries]
        shapes += [(bound.name, len(bound.groups), bound.lower.shape[1]) for bound in self.bounds]
        for name, *shape in shapes:
            if shape != [cells, children]:
                raise ParameterError(
                    "node-problem/shape",
                    where=Place(path=name),
                    shape=shape[0],
                    shape_found=shape[1],
                    cells=cells,
                    children=children,
                )
        if self.law is not None and (self.queries or self.law.centre.shape != (cells, children)):
            raise ParameterError(
                "node-problem/law",
                where=Place(path="law"),
                queries=len(self.queries),
                shape=self.law.centre.shape[0],
                shape_found=self.law.centre.shape[1],
                cells=cells,
                children=children,
            )
        for sums in self.child_sums:
            if sums.members.shape != (children,):
                raise ParameterError(
                    "node-problem/members", where=Place(path=sums.name), found=str(len(sums.members)), children=children
                )

    @property
    def cells(self) -> int:
        """The number of cells."""
        return int(self.allowed.shape[0])

    @property
    def units(self) -> int:
        """The number of children."""
        return int(self.allowed.shape[1])

    @cached_property
    def scale(self) -> float:
        """The objective at which every measured value is missed by 0.01: what counts as nothing (see the proofs)."""
        if self.law is not None:
            return self.law.scale
        return 1e-4 * sum(float(query.weights.sum()) * len(query.measured) for query in self.queries)

    def child_name(self, child: int) -> str:
        """The name of a child for messages."""
        return self.children[child] if self.children else f"child {child}"

    def objective(self, x: Floats) -> float:
        """The weighted sum of squares at x."""
        value = 0.0 if self.law is None else self.law.value(x)
        for query in self.queries:
            residual = group_sums(query.groups, x, len(query.measured)) - query.measured
            value += float((query.weights * residual * residual).sum())
        return value

    def violations(self, x: Floats) -> dict[str, float]:
        """The largest violation of every kind of constraint, by name; 0 where it holds."""
        violations = {"non-negativity": float(max(0.0, -x.min(initial=0.0)))}
        violations["structural zeros"] = float(np.abs(x[~self.allowed]).max(initial=0.0))
        if self.parent is not None:
            violations["parent sums"] = float(np.abs(x.sum(1) - self.parent).max(initial=0.0))
        elif self.total is not None:
            violations["total"] = abs(float(x.sum()) - self.total)
        for bound in self.bounds:
            sums = group_sums(bound.groups, x, len(bound.lower))
            violations[bound.name] = _outside(sums, bound.lower, bound.upper)
        for part in self.child_sums:
            sums = group_sums(part.members, x.sum(0)[:, None], len(part.lower))[:, 0]
            violations[part.name] = _outside(sums, part.lower, part.upper)
        return violations

    def violation(self, x: Floats) -> float:
        """The largest violation of any constraint."""
        return max(self.violations(x).values())


def _outside(sums: Floats, lower: Floats, upper: Floats) -> float:
    return float(max((lower - sums).max(initial=0.0), (sums - upper).max(initial=0.0)))


def group_sums(groups: Integers, x: Floats, count: int) -> Floats:
    """The sums of the rows of x over the groups; rows with group -1 are left out."""
    result = np.zeros((count, x.shape[1]))
    inside = groups >= 0
    np.add.at(result, groups[inside], x[inside])
    return result


# Sums over groups, compiled: a matrix of zeros and ones times a table, and what measured groups add to an objective.
#
# Node problems are small and many: a general sparse product takes longer to find out what it is given than to add it
# up. Everything is added in the order of the rows and columns, so that the last digits are the same on every machine.
# Apart from :mod:`~confide.estimation.tree_gls`, so that what is only planned loads no compiler.


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """A matrix of zeros and ones, by rows.

    >>> sums = GroupSums.of(np.array([1, 0, 1]), np.array([0, 1, 2]), (2, 3))
    >>> sums @ np.array([[1.0], [2.0], [4.0]])
    array([[2.],
           [5.]])
    """

    pointer: Integers
    """Where the columns of each row begin, and where those of the last end."""
    columns: Integers
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: Integers, columns: Integers, shape: tuple[int, int]) -> GroupSums:
        """The matrix with ones at these places."""
        order = np.argsort(rows, kind="stable")
        pointer = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=pointer[1:])
        return cls(pointer, np.ascontiguousarray(columns[order], np.int64), shape)

    def __matmul__(self, table: Floats) -> Floats:
        result = np.zeros((self.shape[0], table.shape[1]))
        _add_rows(self.pointer, self.columns, np.ascontiguousarray(table, np.float64), result)
        return result

    def sparse(self) -> sp.csr_array:
        """The same as a general sparse matrix."""
        return sp.csr_array((np.ones(len(self.columns)), self.columns, self.pointer), shape=self.shape)


def add_alike(into: Floats, groups: Integers, weight: float) -> None:
    """Adds ``weight`` to every pair of cells that lie in one group of a query; −1 is no group."""
    _add_pairs(into, np.ascontiguousarray(groups, np.int64), weight)


def add_cells(weight: Floats, weighted: Floats, groups: Integers, of_units: Floats, measured: Floats) -> None:
    """Adds a query whose groups are single cells to the weight of each cell and unit and to what was measured of it,
    times its weight; −1 is no group."""
    _add_cells(
        weight,
        weighted,
        np.ascontiguousarray(groups, np.int64),
        np.ascontiguousarray(of_units, np.float64),
        np.ascontiguousarray(measured, np.float64),
    )


@numba.njit("void(int64[::1], int64[::1], float64[:, ::1], float64[:, ::1])", cache=True, nogil=True, boundscheck=False)
def _add_rows(
    pointer: Integers, columns: Integers, table: npt.NDArray[np.float64], result: npt.NDArray[np.float64]
) -> None:
    # Row by row of the sparse matrix, whose entries are all one: the rows of the table at its columns are added up.
    width = table.shape[1]
    for row in range(result.shape[0]):
        for place in range(pointer[row], pointer[row + 1]):
            column = columns[place]
            for unit in range(width):
                result[row, unit] += table[column, unit]


@numba.njit("void(float64[:, ::1], int64[::1], float64)", cache=True, nogil=True, boundscheck=False)
def _add_pairs(into: npt.NDArray[np.float64], groups: Integers, weight: float) -> None:
    # Every pair of cells of one group; cells of no group, below zero, are in no pair.
    for cell in range(groups.shape[0]):
        group = groups[cell]
        if group < 0:
            continue
        for other in range(groups.shape[0]):
            if groups[other] == group:
                into[cell, other] += weight


@numba.njit(
    "void(float64[:, ::1], float64[:, ::1], int64[::1], float64[::1], float64[:, ::1])",
    cache=True,
    nogil=True,
    boundscheck=False,
)
def _add_cells(
    weight: npt.NDArray[np.float64],
    weighted: npt.NDArray[np.float64],
    groups: Integers,
    of_units: npt.NDArray[np.float64],
    measured: npt.NDArray[np.float64],
) -> None:
    # Each cell of a group gets the weight of the query in each unit, and that weight times what was measured.
    for cell in range(groups.shape[0]):
        group = groups[cell]
        if group < 0:
            continue
        for unit in range(of_units.shape[0]):
            weight[cell, unit] += of_units[unit]
            weighted[cell, unit] += of_units[unit] * measured[group, unit]
