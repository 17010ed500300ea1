"""The privacy loss distribution of composed discrete Gaussians: a bracket for ε at δ, and for δ at ε.

A record that moves a count by one turns noise P = N_Z(0, σ²) into Q = P + 1. With y = −x the loss ln P(x)/Q(x) is
(1 + 2y)/(2σ²), y ~ N_Z(0, σ²); the reflection x → 1 − x shows that Q against P has the same law, so one direction is
both. Over independent cells losses add up to L, and the whole is (ε, δ(ε)) with
δ(ε) = E[(1 − exp(ε − L))₊] and no less.

Cells with the same σ² are summed on the integers, where nothing is rounded. Different σ² meet on a common grid of
losses: rounded up for the pessimistic end of the bracket, down for the optimistic. Cut tails, wrap-around and floating
point are bounded and widen the bracket (:mod:`confide.privacy.loss_distribution`; ``docs/proofs/accounting.md``,
section 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement
from operator import add

from confide.errors import ParameterError
from confide.exact import Exact, as_delta, integer, nonnegative, positive
from confide.privacy import loss_distribution
from confide.privacy.accountant import BoundedDegree, Event, Measurement, Parallel, Sequential, TruncatedMeasurement
from confide.privacy.definitions import Distribution, Neighbours, bounded_degree, float_down, float_up

_LEAST_DELTA = Fraction(1, 10**300)


@dataclass(frozen=True, init=False, slots=True)
class NoisyCells:
    """Cells that a neighbour changes by one: ``cells`` in each of ``count`` measurements with the same σ²."""

    sigma2: Fraction
    cells: int
    count: int

    def __init__(self, sigma2: Exact, cells: int, count: int = 1) -> None:
        object.__setattr__(self, "sigma2", positive(sigma2, "sigma2"))
        object.__setattr__(self, "cells", integer(cells, "cells"))
        object.__setattr__(self, "count", integer(count, "count"))


@dataclass(frozen=True, slots=True)
class Bracket:
    """The true value lies between the two."""

    optimistic: float
    pessimistic: float


def epsilon_bracket(parts: Iterable[NoisyCells], delta: Exact, interval: Exact = "1e-4") -> Bracket:
    """The smallest ε for which all parts together are (ε, δ), between two numbers; the second is guaranteed.

    Args:
        parts: The cells that the worst neighbour changes (:func:`noisy_cells` finds them for an event).
        delta: δ, exact, strictly between 0 and 1.
        interval: The width of the grid of losses, exact: finer is narrower and slower.

    >>> bracket = epsilon_bracket([NoisyCells(2, cells=2)], "1e-6")
    >>> round(bracket.optimistic, 3), round(bracket.pessimistic, 3)
    (4.917, 4.917)
    """
    groups, d = _grouped(parts), as_delta(delta)
    if d < _LEAST_DELTA:
        raise loss_distribution.too_large("delta is below what double precision can tell", f"delta = {str(delta)[:60]}")
    log = math.log(d.denominator) - math.log(d.numerator)
    low, high = _distributions(groups, math.sqrt(log / _rho(groups)), interval)
    above = high.epsilon_above(float_down(d))
    return Bracket(low.epsilon_below(float_up(d), above), above)


def delta_bracket(parts: Iterable[NoisyCells], epsilon: Exact, interval: Exact = "1e-4") -> Bracket:
    """The smallest δ for which all parts together are (ε, δ), between two numbers; the second is guaranteed.

    Args:
        parts: The cells that the worst neighbour changes (:func:`noisy_cells` finds them for an event).
        epsilon: ε, exact, zero or more.
        interval: The width of the grid of losses, exact: finer is narrower and slower.

    >>> f"{delta_bracket([NoisyCells(2, cells=2)], 4).pessimistic:.3g}"
    '3.2e-05'
    """
    groups, e = _grouped(parts), nonnegative(epsilon, "epsilon")
    rho = _rho(groups)
    low, high = _distributions(groups, max(0.0, (float(e) - rho) / (2 * rho)), interval)
    pessimistic = min(1.0, high.delta(float_down(e), 1) + float(_LEAST_DELTA))  # what underflows is not nothing
    return Bracket(max(0.0, low.delta(float_up(e), -1)), pessimistic)


def noisy_cells(event: Event, neighbours: Neighbours) -> list[NoisyCells]:
    """The cells that the worst neighbour changes in ``event``, for the functions above.

    A family (Parallel, BoundedDegree) has one worst neighbour for every ε only if its members are alike; others are
    refused (but see :mod:`confide.privacy.pld`), and so is noise that is not discrete Gaussian.
    """
    if isinstance(event, Measurement):
        if event.distribution is not Distribution.DISCRETE_GAUSSIAN:
            raise ParameterError("no-loss-distribution/discrete", found=event.distribution.value)
        return [NoisyCells(event.parameter, bounded_degree(event.degree, neighbours).l1, event.times)]
    if isinstance(event, TruncatedMeasurement):
        raise ParameterError("no-loss-distribution/bound", bound=event.bound)
    if isinstance(event, Sequential):
        return [part for member in event.events for part in noisy_cells(member, neighbours)]
    members = {_signature(noisy_cells(member, neighbours)) for member in event.events}
    if len(members) > 1:
        raise ParameterError("no-loss-distribution/family", members=len(members))
    times = min(event.degree, sum(event.copies)) if isinstance(event, BoundedDegree) else 1
    assert isinstance(event, Parallel | BoundedDegree)
    return [NoisyCells(sigma2, cells, times) for member in members for sigma2, cells in member]


def _distributions(
    groups: dict[Fraction, int], theta: float, interval: Exact
) -> tuple[loss_distribution.LossDistribution, loss_distribution.LossDistribution]:
    step = float(positive(interval, "interval"))
    distributions = [
        loss_distribution.lattice_distribution(float(sigma2), cells, theta) for sigma2, cells in groups.items()
    ]
    if len(distributions) == 1:
        return distributions[0], distributions[0]
    return loss_distribution.sum_on_grid(distributions, step, up=False), loss_distribution.sum_on_grid(
        distributions, step, up=True
    )


def _grouped(parts: Iterable[NoisyCells]) -> dict[Fraction, int]:
    """The number of changed cells for every σ²."""
    groups: dict[Fraction, int] = {}
    for part in parts:
        groups[part.sigma2] = groups.get(part.sigma2, 0) + part.cells * part.count
    if not groups:
        raise ParameterError("no-loss-distribution/empty")
    return dict(sorted(groups.items()))


def _signature(parts: list[NoisyCells]) -> tuple[tuple[Fraction, int], ...]:
    return tuple(_grouped(parts).items()) if parts else ()


def _rho(groups: dict[Fraction, int]) -> float:
    return float(sum((cells / (2 * sigma2) for sigma2, cells in groups.items()), Fraction()))


# The privacy loss distribution where a changed record may move between unlike paths.
#
# A record takes part in the measurements of its own path alone. If it moves from path a to path b, one cell of every
# measurement on a goes down by one and one of every measurement on b goes up by one: the loss is the sum of one
# changed cell for each measurement on a and one for each on b. All signs and orders have the same law, so the pair
# (a, b) is the pair (b, a), and ε at δ of the release is the largest over the unordered pairs, a = b included. No
# single pair need be the worst for every δ, and all are looked at.
#
# What a path brings is spread over a grid once, as a spectrum; a pair is a product of two. The upper end of the
# bracket holds for every pair, the lower end for the one that is worst. Derivation: ``docs/proofs/accounting.md``,
# section 5.1.


Cells = Mapping[Fraction, int]
"""The number of changed cells for every σ²."""


def event_epsilon_bracket(event: Event, neighbours: Neighbours, delta: Exact, interval: Exact = "1e-3") -> Bracket:
    """The smallest ε for which ``event`` is (ε, δ), between two numbers; the second is a promise.

    Unlike :func:`confide.privacy.pld.noisy_cells` it takes a Parallel of unlike members, at the outermost place: the
    paths of a plan. ``interval`` is the grid of the upper end; that of the lower end is ten times finer.
    """
    grid = positive(interval, "interval")
    # As the only member of a family an event is the same event, and its upper end is computed more tightly.
    paths = list(_paths(event if isinstance(event, Parallel) else Parallel([event])))
    if not any(paths):
        return epsilon_bracket([], delta)  # refused there: nothing is measured
    ends = 2 if neighbours is Neighbours.CHANGE_ONE else 1
    moves = list(combinations_with_replacement(range(len(paths)), ends))
    worst, epsilon = _worst(paths, moves, delta, float(grid))
    cells = [NoisyCells(sigma2, number) for path in worst for sigma2, number in paths[path].items()]
    return Bracket(epsilon_bracket(cells, delta, grid / 10).optimistic, epsilon)


def _worst(
    paths: Sequence[Cells], moves: Sequence[tuple[int, ...]], delta: Exact, step: float
) -> tuple[tuple[int, ...], float]:
    """The move that needs the largest ε, and an ε that is certainly enough for it and for all others."""
    d = as_delta(delta)
    log = math.log(d.denominator) - math.log(d.numerator)
    rho = max(float(sum((_rho_moves(paths[path]) for path in move), Fraction())) for move in moves)
    theta = math.sqrt(log / rho)
    distributions = {
        key: loss_distribution.lattice_distribution(float(key[0]), key[1], theta)
        for key in {key for path in paths for key in path.items()}
    }
    size = max(
        loss_distribution.circle([distributions[key] for path in move for key in paths[path].items()], step)
        for move in moves
    )
    on_grid = {
        key: loss_distribution.discretise(distribution, step, size) for key, distribution in distributions.items()
    }
    sums: list[loss_distribution.GridSum] = [reduce(add, (on_grid[key] for key in path.items())) for path in paths]
    chance = float_down(d)
    worst, epsilon = moves[0], 0.0
    for move in sorted(moves, key=lambda move: -sum(_rho_moves(paths[path]) for path in move)):
        distribution = reduce(add, (sums[path] for path in move)).distribution()
        if distribution.delta(epsilon, 1) > chance:
            worst, epsilon = move, distribution.epsilon_above(chance)
    return worst, epsilon


def _paths(event: Parallel) -> Iterator[Cells]:
    """What each kind of member has, without those that another one covers."""
    reduced_cells: list[dict[Fraction, int]] = []
    for member in event.events:
        cells: dict[Fraction, int] = {}
        for part in noisy_cells(member, Neighbours.ADD_REMOVE):
            cells[part.sigma2] = cells.get(part.sigma2, 0) + part.cells * part.count
        if cells not in reduced_cells:
            reduced_cells.append(cells)
    for cells in reduced_cells:
        others = (other for other in reduced_cells if other is not cells)
        if not any(all(other.get(sigma2, 0) >= number for sigma2, number in cells.items()) for other in others):
            yield cells


def _rho_moves(cells: Cells) -> Fraction:
    return sum((number / (2 * sigma2) for sigma2, number in cells.items()), Fraction())
