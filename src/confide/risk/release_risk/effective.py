"""The effective rho of a count, given every noisy measurement of a release.

Someone who knows how many *others* are in a cell, and nothing about any other cell, learns whether the target is in it
as well as from one Gaussian count of variance Var, the variance of generalised least squares (``spine_variances``):

    effective rho = 1 / (2 Var).

Someone who knows the others in two cells, of which the target is in one, has dᵀV⁻¹d/2 with d = (1, −1) and V the
covariance of the two. Someone who knows all others has the whole loss of the plan for that change, which is never less.
Other knowledge lies between: ``docs/proofs/release-risk.md``, section 2. Units, cells and pairs of cells are as many
as they are; rho follows from plan, spine and public zeros alone, and never from the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from confide.errors import ParameterError
from confide.estimation.spine_variances import Exchangeable, Grouping, LevelVariances, SpineLevel, spine_variances
from confide.mechanisms.topdown.constraints import invariant_level
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import Strategy, groups_of
from confide.noise import DiscreteGaussian
from confide.releases.plan import Plan
from confide.schema import DETAILED, Query

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST_CORE_CELLS = 1_024
"""The largest matrix that is inverted for every kind of unit."""

NOTHING = 1e-9
"""A variance below this part of the smallest noise is none: the count is published as it is."""

TELLS_NOTHING = 1e6
"""A variance above this multiple of the largest noise comes from the vague prior: nothing tells the count."""

TOTAL = "total"


@dataclass(frozen=True, eq=False)
class LevelRho:
    """Effective rho on one level, by kinds of units that are alike.

    Infinite where a count is published as it is; NaN where it is zero by public knowledge; zero where nothing tells it.
    """

    level: TopDownLevel
    kind: Integers
    """For each unit its kind."""
    rho: Mapping[str, Floats]
    """For each query: kinds x groups of cells that are alike."""
    between: Mapping[str, Floats]
    """For each attribute: kinds x pairs of histogram cells that differ in it alone."""

    @property
    def units(self) -> Integers:
        """The number of units of each kind."""
        return np.bincount(self.kind, minlength=len(next(iter(self.rho.values()))))


class EffectiveRho:
    """The effective rho of every query on every level of a plan.

    ``public_zeros``: whether the adversary uses cells that the frame makes impossible in a block, such as group
    quarters of a type that it does not have. Structural zeros and known totals are always used.
    """

    def __init__(
        self,
        strategy: Strategy,
        spine: TopDownSpine,
        plan: Plan,
        columns: Mapping[str, Integers],
        *,
        public_zeros: bool = True,
    ):
        self._strategy, self._spine, self._plan, self._columns = strategy, spine, plan, columns
        self._public_zeros = public_zeros
        names = [share.name for level in strategy.levels for share in level.queries]
        self.queries = tuple(dict.fromkeys((TOTAL, *names, DETAILED)))
        self._axes = [attribute.name for attribute in strategy.schema.attributes]
        self._groupings = {name: self._grouping(strategy.query(name)) for name in self.queries}
        self.reduction = Exchangeable.of(
            tuple(attribute.size for attribute in strategy.schema.attributes),
            list(self._groupings.values()),
            self._distinguished_axes(),
        )
        if self.reduction.size > MOST_CORE_CELLS:
            raise _too_large(self.reduction.size)

    @cached_property
    def levels(self) -> tuple[LevelRho, ...]:
        """Level by level, root first."""
        by_level = spine_variances(self._levels(), self._possible(), self._evaluate, self.reduction.total)
        return tuple(
            self._effective(level, variances) for level, variances in zip(self._spine.levels, by_level, strict=True)
        )

    @cached_property
    def presence(self) -> tuple[float, float]:
        """½ Σ 1/σ² over the measurements of a path, least and most: rho of someone who knows everybody else, and asks
        whether one more record is there."""
        paths = self._plan.paths or (tuple(range(len(self._plan.measures))),)
        sums = [sum((1 / (2 * _sigma2(self._plan, number)) for number in path), Fraction()) for path in paths]
        return float(min(sums)), float(max(sums))

    def core_of(self, cell: Integers) -> Integers:
        """For cells of the histogram, the column of ``rho[DETAILED]`` that has them."""
        index = np.unravel_index(cell, self.reduction.shape)
        if not self.reduction.core:
            return np.zeros(len(cell), np.int64)
        core = [index[axis] for axis in self.reduction.core]
        return np.asarray(np.ravel_multi_index(core, self.reduction.core_shape), np.int64)

    def core_label(self, core: int) -> str:
        """The levels that the cells of a column of ``rho[DETAILED]`` have in common, in words."""
        attributes = [self._strategy.schema.attributes[axis] for axis in self.reduction.core]
        index = np.unravel_index(core, self.reduction.core_shape) if attributes else ()
        labels = (attribute.levels[int(i)].label for attribute, i in zip(attributes, index, strict=True))
        return ", ".join(labels) or "every cell"

    def _grouping(self, query: Query) -> Grouping:
        return {self._axes.index(v.attribute.name): v.assignment.astype(np.int64) for v in query.variables}

    def _distinguished_axes(self) -> set[int]:
        constraints = self._strategy.constraints
        names = {name for zero in constraints.zeros for name in zero.where}
        for query in constraints.limited if self._public_zeros else ():
            names |= {variable.attribute.name for variable in self._strategy.query(query).variables}
        return {self._axes.index(name) for name in names}

    def _levels(self) -> list[SpineLevel]:
        strategy, known = self._strategy, self._known_totals()
        result = []
        for position, level in enumerate(self._spine.levels):
            queries = strategy.level(level.name).queries
            measured = [number for number, share in enumerate(level.shares.table) if share]
            place = np.full(len(level.shares.table), -1, np.int64)
            place[measured] = np.arange(len(measured))
            laws = {query.name: self._plan.laws(level.name, query.name) for query in queries}
            kinds = [
                self.reduction.information(
                    [
                        (self._groupings[name], float(1 / _parameter(by_class[number])))
                        for name, by_class in laws.items()
                    ]
                )
                for number in range(len(measured))
            ]
            empty = np.zeros((0, len(self.reduction.sectors), self.reduction.size, self.reduction.size))
            information = np.stack(kinds) if kinds else empty
            result.append(SpineLevel(level.parent, place[level.shares.index], information, known[position]))
        return result

    def _known_totals(self) -> list[bool]:
        """The levels whose totals are published as they are. Parts of a unit whose total is known count as known: the
        adversary is taken to know a little more than is published."""
        strategy, names = self._strategy, self._spine.names
        if any(i.query == TOTAL and i.frame for i in strategy.constraints.invariants):
            return [True] * len(names)
        lowest = invariant_level(strategy)
        last = -1 if lowest is None else names.index(lowest)
        return [position <= last for position in range(len(names))]

    def _possible(self) -> Bools:
        """For each block and core cell, whether it can be other than zero."""
        strategy, blocks = self._strategy, self._spine.levels[-1].units
        zero = strategy.constraints.zero_cells(strategy.schema).reshape(self.reduction.shape)
        of_core = np.asarray(zero.all(axis=self.reduction.free)).ravel()
        result = np.repeat(~of_core[None, :], blocks, axis=0)
        if not self._public_zeros:
            return result
        for name in strategy.constraints.limited:
            query = strategy.query(name)
            _, largest = strategy.constraints.limits(name, query.cells, self._columns)
            groups = groups_of(strategy.schema, query).reshape(self.reduction.shape)
            core = np.moveaxis(groups, self.reduction.free, range(len(self.reduction.free)))
            core = core.reshape(-1, self.reduction.size)[0]
            inside = core >= 0
            result[:, inside] &= largest[:, core[inside]] > 0
        return result

    def _evaluate(self, covariance: Floats) -> Floats:
        """Variances of all queries, then for each attribute the rho between two of its levels, side by side."""
        parts = []
        for name in self.queries:
            members, weights = self._members[name], self.reduction.weights(self._groupings[name])
            mixed = np.einsum("s,ksmn->kmn", weights, covariance)
            parts.append(np.einsum("gm,kmn,gn->kg", members, mixed, members))
        weights = self.reduction.weights(self._groupings[DETAILED])
        own = np.einsum("s,ksmn->kmn", weights, covariance)
        diagonal = np.einsum("kmm->km", own)
        for axis, pairs in self._pairs.items():
            one, other = pairs
            if axis in self.reduction.free:
                across = np.einsum(
                    "s,ksmm->km", self.reduction.weights_across(self._groupings[DETAILED], axis), covariance
                )
                parts.append(_between(diagonal, diagonal, across))
            else:
                parts.append(_between(diagonal[:, one], diagonal[:, other], own[:, one, other]))
        return np.concatenate(parts, axis=1)

    @cached_property
    def _members(self) -> dict[str, Floats]:
        return {name: self.reduction.members(grouping) for name, grouping in self._groupings.items()}

    @cached_property
    def _pairs(self) -> dict[int, tuple[Integers, Integers]]:
        """For each attribute, pairs of core cells that differ in it alone; a core cell and itself if it is free."""
        cells = np.arange(self.reduction.size)
        index = np.indices(self.reduction.core_shape).reshape(-1, len(cells))
        result = {}
        for axis, size in enumerate(self.reduction.shape):
            if size < 2:
                continue
            if axis in self.reduction.free:
                result[axis] = (cells, cells)
                continue
            place = self.reduction.core.index(axis)
            others = np.delete(index, place, axis=0)
            one, other = np.nonzero(np.triu((others[:, :, None] == others[:, None, :]).all(axis=0), 1))
            result[axis] = (one, other)
        return result

    def _effective(self, level: TopDownLevel, variances: LevelVariances) -> LevelRho:
        rho, between = {}, {}
        start = 0
        for name in self.queries:
            members = self._members[name]
            values = variances.values[:, start : start + len(members)]
            start += len(members)
            possible = (variances.possible.astype(float) @ members.T) > 0
            rho[name] = np.where(possible, self._rho(values), np.nan)
        for axis, (one, other) in self._pairs.items():
            values = variances.values[:, start : start + len(one)]
            start += len(one)
            possible = variances.possible[:, one] & variances.possible[:, other]
            between[self._axes[axis]] = np.where(possible, np.nan_to_num(values, posinf=np.inf), np.nan)
        return LevelRho(level, variances.kind, rho, between)

    def _rho(self, variance: Floats) -> Floats:
        smallest, largest = self._noise
        known, open_ = variance < NOTHING * smallest, ~(variance < TELLS_NOTHING * largest)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(known, np.inf, np.where(open_, 0.0, 1 / (2 * variance)))

    @cached_property
    def _noise(self) -> tuple[float, float]:
        parameters = [_parameter(measure.law) * measure.cells for measure in self._plan.measures]
        plain = [_parameter(measure.law) for measure in self._plan.measures]
        return float(min(plain)), float(max(parameters))


def _between(one: Floats, other: Floats, across: Floats) -> Floats:
    """dᵀV⁺d/2 for d = (1, −1); where the sum of the two is known, one tells the other."""
    determinant = one * other - across**2
    tied = determinant <= NOTHING * one * other
    with np.errstate(divide="ignore", invalid="ignore"):
        free: Floats = (one + other + 2 * across) / (2 * determinant)
        return np.where(tied, 1 / (2 * np.maximum(one, other)), free)


def rho_from_covariance(covariance: Sequence[Sequence[float]] | Floats, change: Sequence[float] | Floats) -> float:
    """δᵀV⁺δ/2: effective rho of someone who knows the others in some counts that change by δ, and nothing else.

    Args:
        covariance: Of the estimates of the counts, of shape (counts, counts).
        change: By how much each count changes with the target.

    Returns:
        The effective rho; infinite where a sum that is known would change.

    >>> rho_from_covariance([[2.0]], [1.0])
    0.25
    """
    matrix, delta = np.asarray(covariance, float), np.asarray(change, float)
    inverse = np.linalg.pinv(matrix, rcond=NOTHING, hermitian=True)
    if not np.allclose(matrix @ inverse @ delta, delta, atol=1e-6):
        return float("inf")  # a sum that is known would change
    return float(delta @ inverse @ delta) / 2


def _sigma2(plan: Plan, number: int) -> Fraction:
    return _parameter(plan.measures[number].law)


def _parameter(law: object) -> Fraction:
    assert isinstance(law, DiscreteGaussian)
    return law.sigma2


def _too_large(cells: int) -> ParameterError:
    return ParameterError(
        "too-many-cells",
        "the histogram has too many cells that are not alike",
        found=f"{cells:,} cells",
        expected=f"at most {MOST_CORE_CELLS:,}, once attributes without recodes and zeros are set aside",
        remedy="leave out recodes of attributes with many levels",
    )
