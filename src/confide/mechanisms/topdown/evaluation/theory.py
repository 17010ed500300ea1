"""The noise alone: the variance of a count if estimates were least squares and nothing else.

Without non-negativity, bounds and rounding, the descent is linear in the measurements, and the variance of any count
of any area follows from the plan alone. Two steps.

**Within a unit.** Measured queries q with variances σ_q² and matrices M_q give the histogram the covariance
C = (Σ_q M_qᵀM_q / σ_q²)⁻¹. A characteristic is a sum over a set of cells, with indicator s. Its variance is

    v = sᵀCs;   v = v⊥ = sᵀCs − (sᵀC1)² / 1ᵀC1   where the total is known;   v = v⊥ + (sᵀC1 / 1ᵀC1)² σ_T²

where the total is estimated in a pass of its own, from a measurement with variance σ_T². Of a histogram that is too
large to invert, the variance is that of the inverse-variance mean of all queries q that determine the characteristic,
by n_q cells each: 1 / Σ_q 1 / (n_q σ_q²), which is no smaller.

**Along the spine.** The children c of a unit u add up to it. Their covariances are alike but for a factor λ_c (units
that took over the share of an only child have less noise), so that, with Λ = Σ_c λ_c, the error of a child is
E_c = ε_c + (λ_c / Λ)(E_u − Σ ε), ε_c of variance λ_c v. The error of an area A within u is a_u E_u + η_u, where

    a_u = Σ_c a_c λ_c / Λ,   Var η_u = Σ_c Var η_c + v · (Σ_c a_c² λ_c − (Σ_c a_c λ_c)² / Λ),

with a = 1 in the blocks of A and 0 in others. So the variance of A is Σ_ℓ k_ℓ(A) v_ℓ over the levels ℓ, and k does not
depend on the characteristic. Proof and limits: ``docs/concepts/evaluation.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from confide.geography.spine import OUTSIDE
from confide.mechanisms.topdown.invariant_totals import invariant_level, known_together
from confide.mechanisms.topdown.problem import Question
from confide.mechanisms.topdown.spine.tree import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategies.accounting import law_of
from confide.mechanisms.topdown.strategies.strategy import LevelStrategy

Floats = NDArray[np.float64]

MOST_CELLS = 4_096
"""The largest histogram that is inverted."""

ROUNDING = 1e-9
"""A contribution below this, of at least one where a unit is cut at all, is a rounding error."""

SMALLEST = 1e-12
"""Stands for the variance of noise that is always zero."""


class Theory:
    """The noise-only variances of one plan."""

    def __init__(self, question: Question):
        self._question = question
        self._scales = [_scales(asked, level) for asked, level in question.levels()]
        strategy = question.strategy
        names = list(strategy.level_names)
        told = any(i.query == "total" and i.frame for i in strategy.constraints.invariants)
        lowest = invariant_level(strategy)
        last = len(names) if told else 0 if lowest is None else names.index(lowest) + 1
        self._known = [position < last for position in range(len(names))]
        split = not told and lowest is not None and question.spine.split is not None and last > 1
        self._together = known_together(strategy, question.spine.levels[last - 1]) if split else None

    def contributions(self, unit_of_row: NDArray[np.int64], units: int, *, total: bool) -> Floats:
        """k of each unit of a partition of the frame's rows: units x levels."""
        together = None
        if total and self._together is not None:
            together = (self._known.index(False) - 1 if False in self._known else len(self._known) - 1, self._together)
        spine = self._question.spine
        return contributions(spine, self._scales, unit_of_row[spine.rows], units, together)

    def variances(self, sets: NDArray[np.bool_]) -> Floats:
        """v of each characteristic on each level: characteristics x levels. ``sets`` is characteristics x cells, and
        the first is the total."""
        columns = []
        for (asked, _), known in zip(self._question.levels(), self._known, strict=True):
            v = within_unit(self._question, asked, sets, total_known=known)
            if known and self._together is not None:
                v[:1] = within_unit(self._question, asked, sets[:1], total_known=False)
            columns.append(v)
        return np.stack(columns, axis=1)


def contributions(
    spine: TopDownSpine,
    scales: Sequence[Floats],
    area_of_block: NDArray[np.int64],
    areas: int,
    together: tuple[int, NDArray[np.int64]] | None = None,
) -> Floats:
    """k of each area and level, from the blocks up.

    ``scales`` gives λ of the units of each level; ``area_of_block`` the area of each block of the spine. ``together``
    is a level on which groups of units, rather than the children of a unit, have a known sum; nothing above matters.
    """
    result = np.zeros((areas, len(spine.levels)))
    inside = area_of_block != OUTSIDE
    unit, area = np.flatnonzero(inside), area_of_block[inside]
    part = np.ones(len(unit))
    for position in range(len(spine.levels) - 1, -1, -1):
        level, scale = spine.levels[position], scales[position]
        stops = together is not None and together[0] == position
        if position == 0 and not stops:
            np.add.at(result[:, 0], area, part * part * scale[unit])
            break
        group = together[1] if together is not None and stops else level.parent
        whole = np.bincount(group, scale)
        key, pair = np.unique(group[unit] * areas + area, return_inverse=True)
        first = np.bincount(pair, part * scale[unit])
        second = np.bincount(pair, part * part * scale[unit])
        unit, area = np.divmod(key, areas)
        np.add.at(result[:, position], area, second - first * first / whole[unit])
        if stops:
            break
        part = first / whole[unit]
    # What is left of a difference of equal numbers is nothing.
    result[result < ROUNDING] = 0
    return result


def within_unit(question: Question, asked: LevelStrategy, sets: NDArray[np.bool_], *, total_known: bool) -> Floats:
    """v of each characteristic (a row of ``sets``) in a unit with the share of its level; NaN where not determined."""
    if not asked.share:
        return np.full(len(sets), np.nan)
    variances = {
        query.name: max(law_of(question.strategy, asked, query).variance(), SMALLEST) for query in asked.queries
    }
    own_pass = asked.estimation.least_squares[0]
    alone = own_pass.queries == own_pass.constrain == ("total",) and "total" in variances
    of_total = variances.pop("total") if alone else None
    possible = ~question.strategy.constraints.zero_cells(question.strategy.schema)
    groups = {name: question.groups(name) for name in variances}
    covariance = _covariance(groups, variances, sets, possible)
    if covariance is None:
        if of_total is not None:
            variances["total"], groups["total"] = of_total, question.groups("total")
        return _inverse_variance_means(groups, variances, sets, possible)
    own, with_total, total = covariance
    beside_total = own - with_total**2 / total
    beside_total[beside_total < ROUNDING * own] = 0
    if total_known:
        return beside_total
    return own if of_total is None else beside_total + (with_total / total) ** 2 * of_total


def _covariance(
    groups: dict[str, NDArray[np.int64]],
    variances: dict[str, float],
    sets: NDArray[np.bool_],
    possible: NDArray[np.bool_],
) -> tuple[Floats, Floats, float] | None:
    """sᵀCs and sᵀC1 of each characteristic, and 1ᵀC1; None where C is too large or the queries do not determine it."""
    if len(possible) > MOST_CELLS or not variances:
        return None
    smallest = min(variances.values())
    information = np.zeros((int(possible.sum()),) * 2)
    for name, variance in variances.items():
        group = groups[name][possible]
        information[group[:, None] == group[None, :]] += smallest / variance
    try:
        factor = cho_factor(information, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    wanted = np.vstack([sets[:, possible], np.ones(int(possible.sum()), bool)]).astype(float)
    solved = smallest * cho_solve(factor, wanted.T)
    own = np.einsum("cs,sc->c", wanted, solved)
    return own[:-1], wanted[:-1] @ solved[:, -1], float(own[-1])


def _inverse_variance_means(
    groups: dict[str, NDArray[np.int64]],
    variances: dict[str, float],
    sets: NDArray[np.bool_],
    possible: NDArray[np.bool_],
) -> Floats:
    weights = np.zeros(len(sets))
    for name, variance in variances.items():
        group = groups[name][possible]
        sizes = np.bincount(group)
        for number, chosen in enumerate(sets[:, possible]):
            inside = np.bincount(group, chosen, minlength=len(sizes))
            if ((inside == 0) | (inside == sizes)).all():
                weights[number] += 1 / (max(1, int(((inside > 0) & (sizes > 0)).sum())) * variance)
    with np.errstate(divide="ignore"):
        return np.where(weights > 0, 1 / weights, np.nan)


def _scales(asked: LevelStrategy, level: TopDownLevel) -> Floats:
    """λ of each unit: the share of the level by the unit's. An only child without a share follows its parent."""
    table = [float(asked.share / share) if share and asked.share else 1.0 for share in level.shares.table]
    return np.array(table)[level.shares.index]
