"""The covariances of two-pass least squares on a whole spine: no data, only what is measured where.

The recursion is that of :mod:`confide.estimation.hierarchical_blue`, in every sector of an exchangeable covariance at
once. A covariance follows from the plan and the shape of the tree, so units that are alike are computed once. Upwards,
two units are alike if they are measured alike and have as many children of each kind; downwards, if besides that their
parents are alike. Hundreds of thousands of blocks are a few kinds.

Cells that are zero by public knowledge have the variance zero: they are cut out at the leaves, and nothing brings them
back. Totals that are published as they are, from a level upwards, are conditioned on. Leaves whose measurements do not
tell every cell get a vague prior besides (``VAGUE``), so that what nothing tells has a very large variance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from confide.arrays import Booleans, Floats, Integers
from confide.estimation.hierarchical_blue import TOLERANCE

Evaluate = Callable[[Floats], Floats]

AT_ONCE = 2_048
VAGUE = 1e-9
"""The precision of the vague prior, as a part of the largest precision there is."""


@dataclass(frozen=True, eq=False)
class SpineLevel:
    """What is measured in the units of one level."""

    parent: Integers
    """For each unit its parent, one level up; empty for the root."""
    measured: Integers
    """For each unit the kind of its measurements: a row of ``information``, or −1 for none."""
    information: Floats
    """M of each kind: kinds x sectors x core x core."""
    total_known: bool = False

    @property
    def units(self) -> int:
        return len(self.measured)


@dataclass(frozen=True, eq=False)
class LevelVariances:
    """What was asked of the covariances of a level: kinds of units, and for each kind the answer."""

    kind: Integers
    """For each unit its kind."""
    values: Floats
    """kinds x whatever was evaluated; NaN where nothing tells the cells."""
    possible: Booleans
    """kinds x core: cells that are not zero by public knowledge."""

    @property
    def units(self) -> Integers:
        """The number of units of each kind."""
        return np.bincount(self.kind, minlength=len(self.values))


@dataclass(eq=False)
class _Upward:
    """Kinds of units as seen from below."""

    kind: Integers
    covariance: Floats
    determined: Booleans
    """Whether the kind has a covariance: something is measured in it, or in all that is below."""
    possible: Booleans
    below: Floats
    below_determined: Booleans


def spine_variances(
    levels: Sequence[SpineLevel], possible: Booleans, evaluate: Evaluate, total: Floats
) -> list[LevelVariances]:
    """Variances of the least-squares estimates on a whole spine, without any data.

    Args:
        levels: What is measured on each level, the root first.
        possible: (units of the last level, core): whether a core cell of a unit can be other than zero.
        evaluate: What is asked of a covariance: from (kinds, sectors, core, core) to (kinds, ...).
        total: The vector of the known total in the first sector, (core,).

    Returns:
        One answer for each level, the root first.
    """
    upward: list[_Upward] = []
    for level in reversed(levels):
        below = upward[0] if upward else None
        child_parent = levels[-len(upward)].parent if upward else None
        upward.insert(0, _upward(level, below, child_parent, possible, total))
    return list(_downward(levels, upward, evaluate))


def _upward(
    level: SpineLevel, below: _Upward | None, child_parent: Integers | None, possible: Booleans, total: Floats
) -> _Upward:
    _, sectors, size, _ = level.information.shape
    if below is None:
        patterns, pattern = np.unique(possible, axis=0, return_inverse=True)
        keys = np.stack([level.measured, pattern.reshape(-1)], axis=1)
        rows, kind = np.unique(keys, axis=0, return_inverse=True)
        measured, can = rows[:, 0], patterns[rows[:, 1]]
        sums = np.zeros((len(rows), sectors, size, size))
        sums_determined = np.zeros(len(rows), bool)
    else:
        assert child_parent is not None
        kind, measured, listed = _kinds(level.measured, child_parent, below.kind)
        sums = np.stack([np.tensordot(n, below.covariance[kinds], axes=1) for kinds, n in listed])
        sums_determined = np.array([bool(below.determined[kinds].all()) for kinds, _ in listed])
        can = np.stack([below.possible[kinds].any(axis=0) for kinds, _ in listed])
    determined = sums_determined | (measured >= 0)
    covariance = np.zeros_like(sums)
    for first in range(0, len(measured), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        covariance[part] = _combined(level, measured[part], sums[part], sums_determined[part], can[part])
    if level.total_known:
        covariance[:, 0] = _without_total(covariance[:, 0], total)
    return _Upward(kind.reshape(-1), covariance, determined, can, sums, sums_determined)


def _combined(
    level: SpineLevel, measured: Integers, sums: Floats, sums_determined: Booleans, possible: Booleans
) -> Floats:
    """V(u⁻) from what is measured in the unit and what is known from below."""
    result = sums.copy()
    both = sums_determined & (measured >= 0)
    if both.any():
        inner = sums[both] @ level.information[measured[both]]
        result[both] = np.linalg.solve(np.eye(sums.shape[-1]) + inner, sums[both])
    alone = ~sums_determined & (measured >= 0)
    for number in np.flatnonzero(alone).tolist():
        cells = np.flatnonzero(possible[number])
        cut = np.ix_(np.arange(sums.shape[1]), cells, cells)
        result[number][cut] = _inverse(level.information[measured[number]][cut])
    return (result + result.swapaxes(-1, -2)) / 2


def _inverse(information: Floats) -> Floats:
    if not information.shape[-1]:
        return information
    values = np.linalg.eigvalsh(information)
    largest = values[..., -1].max()
    vague = np.where(values[..., 0] <= TOLERANCE * largest, VAGUE * largest, 0.0)
    prior = vague[..., None, None] * np.eye(information.shape[-1])
    return np.asarray(np.linalg.inv(information + prior), np.float64)


def _without_total(covariance: Floats, total: Floats) -> Floats:
    across = covariance @ total
    own = across @ total
    scale = np.einsum("kii->k", covariance) * (total @ total)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(own > TOLERANCE * scale, 1 / own, 0.0)
    return covariance - factor[:, None, None] * across[:, :, None] * across[:, None, :]


def _kinds(
    measured: Integers, parent: Integers, child_kind: Integers
) -> tuple[Integers, Integers, list[tuple[Integers, Floats]]]:
    """Units by how they are measured and how many children of each kind they have."""
    width = int(child_kind.max()) + 1
    pairs, times = np.unique(parent * width + child_kind, return_counts=True)
    starts = np.searchsorted(pairs // width, np.arange(len(measured) + 1))
    kinds_of = pairs % width
    numbers: dict[tuple[int, bytes, bytes], int] = {}
    kind = np.empty(len(measured), np.int64)
    listed: list[tuple[Integers, Floats]] = []
    how: list[int] = []
    for unit in range(len(measured)):
        part = slice(starts[unit], starts[unit + 1])
        key = (int(measured[unit]), kinds_of[part].tobytes(), times[part].tobytes())
        if key not in numbers:
            numbers[key] = len(listed)
            listed.append((kinds_of[part], times[part].astype(float)))
            how.append(key[0])
        kind[unit] = numbers[key]
    return kind, np.array(how, np.int64), listed


def _downward(levels: Sequence[SpineLevel], upward: list[_Upward], evaluate: Evaluate) -> Iterator[LevelVariances]:
    root = upward[0]
    kind, covariance, upward_kind = root.kind, root.covariance, np.arange(len(root.covariance))
    yield LevelVariances(kind, evaluate(covariance), root.possible)
    for position, level in enumerate(levels[1:], start=1):
        above, own = upward[position - 1], upward[position]
        width = len(own.covariance)
        pairs, new = np.unique(kind[level.parent] * width + own.kind, return_inverse=True)
        parent_kind, own_kind = pairs // width, pairs % width
        last = position == len(levels) - 1
        inverse = _pseudo_inverses(above)
        children = np.bincount(level.parent)
        siblings = np.zeros(len(covariance), np.int64)
        siblings[kind] = children  # alike units have as many children
        parts, answers = [], []
        for first in range(0, len(pairs), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            refined = _refined(
                own, above, own_kind[part], upward_kind[parent_kind[part]], covariance[parent_kind[part]], inverse
            )
            open_ = ~above.below_determined[upward_kind[parent_kind[part]]] & ~own.determined[own_kind[part]]
            refined[open_ & (siblings[parent_kind[part]] > 1)] = np.nan
            answers.append(evaluate(refined))
            parts += [] if last else [refined]
        kind, upward_kind = new.reshape(-1), own_kind
        covariance = covariance[:0] if last else np.concatenate(parts)
        yield LevelVariances(kind, np.concatenate(answers), own.possible[own_kind])


def _pseudo_inverses(above: _Upward) -> Floats:
    result = np.zeros_like(above.below)
    for first in range(0, len(result), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        result[part] = np.linalg.pinv(above.below[part], rcond=TOLERANCE, hermitian=True)
    return result


def _refined(
    own: _Upward, above: _Upward, own_kind: Integers, above_kind: Integers, parent: Floats, inverse: Floats
) -> Floats:
    """V of units from V(u⁻) and what is known of their parents."""
    covariance = own.covariance[own_kind]
    gain = covariance @ inverse[above_kind]
    conditioned = covariance - gain @ (above.below[above_kind] - parent) @ gain.swapaxes(-1, -2)
    below_known = above.below_determined[above_kind][:, None, None, None]
    determined = own.determined[own_kind][:, None, None, None]
    # A child that nothing tells is its parent, if it is the only one; the others are left as they are.
    return np.where(below_known, conditioned, np.where(determined, covariance, parent))


# Measurements of marginals, seen through their symmetry: large histograms as a few small problems.
#
# A histogram has one axis for each attribute. A query sums an axis out, keeps it as it is, or groups its levels. An
# axis
# that no query groups, and that nothing else tells levels of apart, is *free*: all measurements together look the
# same
# after any permutation of its levels. On a free axis of size n every query acts as one number on the mean, and as
# another
# on deviations from it:
#
#     kept:  1 and 1;      summed out:  n and 0
#
# since the matrix of ones has the eigenvalue n once, and 0 otherwise. So the information matrix SᵀWS is block-
# diagonal
# with one *sector* for each choice of mean or deviation on every free axis, and the block of a sector is a matrix M
# on
# the *core*, the cells of the other axes, the same for all deviations. Sums over the children of a unit, inverses and
# everything else that two-pass least squares does stay within sectors. For the redistricting histogram, 2,016 cells,
# the
# core has 16 and there are 4 sectors. Proof: ``docs/proofs/release-risk.md``, section 3.


Grouping = Mapping[int, Integers]
"""A query: for each axis that it does not sum out, the group of each level (−1: in none)."""


@dataclass(frozen=True)
class Exchangeable:
    """The free axes and the core of a histogram."""

    shape: tuple[int, ...]
    free: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int], queries: Iterable[Grouping], told_apart: Collection[int] = ()) -> Exchangeable:
        """What is free for these queries. ``told_apart``: axes whose levels are not alike for another reason."""
        grouped = {axis for query in queries for axis, groups in query.items() if not _keeps_levels(groups)}
        free = tuple(axis for axis in range(len(shape)) if axis not in grouped and axis not in told_apart)
        return cls(tuple(shape), free)

    @cached_property
    def core(self) -> tuple[int, ...]:
        """The axes that are not free."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.free)

    @cached_property
    def core_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.core)

    @property
    def size(self) -> int:
        """The number of core cells."""
        return prod(self.core_shape)

    @property
    def copies(self) -> int:
        """How many cells of the histogram each core cell stands for."""
        return prod(self.shape[axis] for axis in self.free)

    @cached_property
    def sectors(self) -> tuple[tuple[bool, ...], ...]:
        """For each sector, whether each free axis deviates. The first is the mean on all of them; an axis with one
        level has no deviations."""
        return tuple(product(*((False, True) if self.shape[axis] > 1 else (False,) for axis in self.free)))

    def groups(self, query: Grouping) -> Integers:
        """For each core cell the group that it adds to, counted without the free axes, or −1."""
        result = np.zeros(self.core_shape, np.int64)
        outside = np.zeros(self.core_shape, bool)
        for place, axis in enumerate(self.core):
            if axis not in query:
                continue
            shape = [-1 if other == place else 1 for other in range(len(self.core))]
            assigned = query[axis].reshape(shape)
            result = result * (int(query[axis].max()) + 1) + assigned
            outside |= assigned < 0
        result[outside] = -1
        return np.unique(result.ravel(), return_inverse=True)[1].reshape(-1) - int(outside.any())

    def members(self, query: Grouping) -> Floats:
        """The groups of a query as indicators of core cells: groups x core."""
        groups = self.groups(query)
        inside: NDArray[np.bool_] = groups[None, :] == np.arange(groups.max() + 1)[:, None]
        return inside.astype(float)

    def information(self, queries: Sequence[tuple[Grouping, float]]) -> Floats:
        """M of each sector for queries measured with these precisions: sectors x core x core."""
        result = np.zeros((len(self.sectors), self.size, self.size))
        for query, precision in queries:
            members = self.members(query)
            alike = members.T @ members
            for number, sector in enumerate(self.sectors):
                result[number] += precision * self._factor(query, sector) * alike
        return result

    def weights(self, query: Grouping) -> Floats:
        """w with Var(count) = Σ_sectors w · gᵀVg, for one count of a query whose core cells have the indicator g."""
        return self._weights(query)

    def weights_across(self, query: Grouping, axis: int) -> Floats:
        """The same for the covariance of two counts that differ in the level of a free axis alone."""
        return self._weights(query, axis)

    @property
    def total(self) -> Floats:
        """The number of everybody, up to a factor, as a vector of the first sector."""
        return np.ones(self.size)

    def _factor(self, query: Grouping, sector: Sequence[bool]) -> float:
        kept = (
            1.0 if axis in query else 0.0 if deviates else float(self.shape[axis])
            for axis, deviates in self._of(sector)
        )
        return prod(kept)

    def _weights(self, query: Grouping, across: int | None = None) -> Floats:
        result = []
        for sector in self.sectors:
            weight = 1.0
            for axis, deviates in self._of(sector):
                n = self.shape[axis]
                if axis not in query:
                    weight *= 0.0 if deviates else n
                elif axis == across:
                    weight *= -1 / n if deviates else 1 / n
                else:
                    weight *= 1 - 1 / n if deviates else 1 / n
            result.append(weight)
        return np.array(result)

    def _of(self, sector: Sequence[bool]) -> Iterable[tuple[int, bool]]:
        return zip(self.free, sector, strict=True)


def _keeps_levels(groups: Integers) -> bool:
    return bool((groups >= 0).all()) and len(np.unique(groups)) == len(groups)
