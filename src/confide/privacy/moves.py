"""The privacy loss distribution where a changed record may move between unlike paths.

A record takes part in the measurements of its own path alone. If it moves from path a to path b, one cell of every
measurement on a goes down by one and one of every measurement on b goes up by one: the loss is the sum of one changed
cell for each measurement on a and one for each on b. All signs and orders have the same law, so the pair (a, b) is the
pair (b, a), and ε at δ of the release is the largest over the unordered pairs, a = b included. No single pair need be
the worst for every δ, and all are looked at.

What a path brings is spread over a grid once, as a spectrum; a pair is a product of two. The upper end of the bracket
holds for every pair, the lower end for the one that is worst. Derivation: ``docs/proofs/accounting.md``, section 5.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement
from operator import add

from confide.exact import Exact, positive
from confide.privacy.conversion import probability
from confide.privacy.definitions import Neighbours
from confide.privacy.directed import float_down
from confide.privacy.events import Event, Parallel
from confide.privacy.losslaw import SpreadSum, circle, lattice_law, spread
from confide.privacy.pld import Bracket, NoisyCells, epsilon_bracket, noisy_cells

Cells = Mapping[Fraction, int]
"""The number of changed cells for every σ²."""


def event_epsilon_bracket(event: Event, neighbours: Neighbours, delta: Exact, interval: Exact = "1e-3") -> Bracket:
    """The smallest ε for which ``event`` is (ε, δ), between two numbers; the second is a promise.

    Unlike :func:`confide.privacy.pld.noisy_cells` it takes a Parallel of unlike members, at the outermost place: the
    paths of a plan. ``interval`` is the grid of the upper end; that of the lower end is ten times finer.
    """
    grid = positive(interval, "interval")
    if not isinstance(event, Parallel):
        return epsilon_bracket(noisy_cells(event, neighbours), delta, grid / 10)
    paths = list(_paths(event))
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
    d = probability(delta)
    log = math.log(d.denominator) - math.log(d.numerator)
    rho = max(float(sum((_rho(paths[path]) for path in move), Fraction())) for move in moves)
    theta = math.sqrt(log / rho)
    laws = {key: lattice_law(float(key[0]), key[1], theta) for key in {key for path in paths for key in path.items()}}
    size = max(circle([laws[key] for path in move for key in paths[path].items()], step) for move in moves)
    placed = {key: spread(law, step, size) for key, law in laws.items()}
    sums: list[SpreadSum] = [reduce(add, (placed[key] for key in path.items())) for path in paths]
    chance = float_down(d)
    worst, epsilon = moves[0], 0.0
    for move in sorted(moves, key=lambda move: -sum(_rho(paths[path]) for path in move)):
        law = reduce(add, (sums[path] for path in move)).law()
        if law.delta(epsilon, 1) > chance:
            worst, epsilon = move, law.epsilon_above(chance)
    return worst, epsilon


def _paths(event: Parallel) -> Iterator[Cells]:
    """What each kind of member has, without those that another one covers."""
    found: list[dict[Fraction, int]] = []
    for member in event.events:
        cells: dict[Fraction, int] = {}
        for part in noisy_cells(member, Neighbours.ADD_REMOVE):
            cells[part.sigma2] = cells.get(part.sigma2, 0) + part.cells * part.count
        if cells not in found:
            found.append(cells)
    for cells in found:
        others = (other for other in found if other is not cells)
        if not any(all(other.get(sigma2, 0) >= number for sigma2, number in cells.items()) for other in others):
            yield cells


def _rho(cells: Cells) -> Fraction:
    return sum((number / (2 * sigma2) for sigma2, number in cells.items()), Fraction())
