"""Made-up people whose truth is known, for the errors that a release makes: the people of the release, moved.

The records of a release are smoother than those that it was made from. Noise is taken off by making counts fit
together, and that takes from large blocks and gives to small ones; and where a rare group survives is where noise was
kind to it. People who are released once more lose less than the true ones did. So before they are,

* **homes are exchanged** at random within units two levels above the blocks, which scatters rare groups again;
* **blocks are resized**: with s the slope of the sizes of blocks after a release on those before, both as deviations
  from the mean of their parent, deviations are multiplied by 1/s, so that a release of the made-up people has blocks
  about as uneven as the release has.

Both keep what the frame says of every block, and all counts of larger units. Seeded generators are right here: nobody
is protected by them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from confide.arrays import Booleans, Floats, Integers
from confide.mechanisms.topdown.problem import TopDownProblem

LEAST_SLOPE = 0.5
"""Blocks are never made more than twice as uneven."""


def counted(key: Integers, cells: int) -> pa.Table:
    """Histograms of blocks, from ``block * cells + cell`` of each person: ``unit``, ``cell``, ``n``."""
    listed, count = np.unique(key, return_counts=True)
    return pa.table({"unit": listed // cells, "cell": listed % cells, "n": count})


def _people(histogram: pa.Table) -> tuple[Integers, Integers]:
    """Block and cell of each person."""
    unit, cell, count = (histogram.column(name).to_numpy() for name in ("unit", "cell", "n"))
    return np.repeat(unit, count), np.repeat(cell, count)


def exchanged_homes(problem: TopDownProblem, histogram: pa.Table, seed: int) -> pa.Table:
    """People exchange their homes at random within the units two levels above the blocks.

    Two people exchange homes only if the frame limits them alike, so that every block keeps its number of people and
    everything that the frame says of it, and every larger unit keeps all its counts.

    Args:
        problem: Strategy, frame and spine.
        histogram: ``unit``, ``cell`` and ``n`` of the people.
        seed: The same seed gives the same exchange.

    Returns:
        The histogram afterwards.
    """
    block, kind = _people(histogram)
    alike = _above(problem, 3)[block]
    for name in problem.strategy.constraints.limited:
        groups = problem.groups(name)
        alike = alike * (int(groups.max()) + 2) + groups[kind] + 1
    generator = np.random.default_rng(seed)
    by_class = np.argsort(alike, kind="stable")
    mixed = np.lexsort((generator.random(len(alike)), alike))
    moved = np.empty_like(kind)
    moved[by_class] = kind[mixed]
    return counted(block * problem.cells + moved, problem.cells)


def shrinkage(problem: TopDownProblem, before: pa.Table, after: pa.Table) -> float:
    """The slope of sizes of blocks after a release on those before, as deviations from the mean of their parent.

    Args:
        problem: Strategy, frame and spine.
        before: The people that were released.
        after: Their release.

    Returns:
        A number from 0.5 to 1; 1 where sizes do not differ.
    """
    old, new = (_deviations(problem, _sizes(problem, _people(people)[0])) for people in (before, after))
    squares = float(old @ old)
    return float(np.clip(old @ new / squares, LEAST_SLOPE, 1.0)) if squares else 1.0


def resized_blocks(problem: TopDownProblem, histogram: pa.Table, times: float, seed: int) -> pa.Table:
    """People move between blocks of the same parent, so that blocks differ from the mean of their parent by ``times``
    as much, as far as the frame allows.

    Args:
        problem: Strategy, frame and spine.
        histogram: ``unit``, ``cell`` and ``n`` of the people.
        times: What deviations are multiplied by, 1 or more.
        seed: The same seed gives the same moves.

    Returns:
        The histogram afterwards.
    """
    block, kind = _people(histogram)
    generator = np.random.default_rng(seed)
    parent = _above(problem, 2)
    blocks = len(parent)
    limits = problem.limits(problem.spine.levels[-1])
    present = {name: np.zeros(least.shape, np.int64) for name, (least, _) in limits.items()}
    joint = np.zeros(len(block), np.int64)
    for name, numbers in present.items():
        groups = problem.groups(name)[kind]
        np.add.at(numbers, (block, groups), 1)
        joint = joint * numbers.shape[1] + groups
    moved = block.copy()
    # People of one class after the other: all that the frame limits together, so that each move can be looked at.
    for code in np.unique(joint).tolist():
        members = np.flatnonzero(joint == code)
        group = {name: int(problem.groups(name)[kind[members[0]]]) for name in limits}
        number = np.bincount(block[members], minlength=blocks)
        gain, lose = np.full(blocks, len(block)), number.copy()
        for name, (least, largest) in limits.items():
            column = present[name][:, group[name]]
            gain = np.minimum(gain, np.maximum(largest[:, group[name]] - column, 0))
            lose = np.minimum(lose, np.maximum(column - least[:, group[name]], 0))
        possible = (gain > 0) | (number > 0)
        wanted = _stretched(number, parent, possible, times)
        rounded = np.floor(wanted + generator.random(blocks)).astype(np.int64)
        leaving = np.clip(number - rounded, 0, lose)
        arriving = np.where(possible, np.clip(rounded - number, 0, gain), 0)
        movers, homes = _matched(block[members], leaving, arriving, parent, generator)
        for name in limits:
            np.subtract.at(present[name], (block[members[movers]], group[name]), 1)
            np.add.at(present[name], (homes, group[name]), 1)
        moved[members[movers]] = homes
    return counted(moved * problem.cells + kind, problem.cells)


def _stretched(number: Integers, parent: Integers, possible: Booleans, times: float) -> Floats:
    """Numbers whose deviations from the mean of possible blocks of the parent are larger, not below zero, with the
    same sums."""
    units = int(parent.max()) + 1
    size = np.maximum(np.bincount(parent, possible, minlength=units), 1)
    total = np.bincount(parent, number, minlength=units)
    mean = (total / size)[parent]
    wanted = np.where(possible, np.maximum(mean + times * (number - mean), 0.0), 0.0)
    return np.asarray(wanted * (total / np.maximum(np.bincount(parent, wanted, minlength=units), 1e-9))[parent])


def _matched(
    block: Integers, leaving: Integers, arriving: Integers, parent: Integers, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """Who moves (positions in ``block``), and where to: as many as both leave and arrive in a parent, at random."""
    order = np.lexsort((generator.random(len(block)), block))
    of_block = block[order]
    rank = np.arange(len(order)) - np.searchsorted(of_block, of_block)
    movers = order[rank < leaving[of_block]]
    homes = np.repeat(np.arange(len(arriving)), arriving)
    movers = movers[np.lexsort((generator.random(len(movers)), parent[block[movers]]))]
    homes = homes[np.lexsort((generator.random(len(homes)), parent[homes]))]
    units = int(parent.max()) + 1
    from_parent, to_parent = parent[block[movers]], parent[homes]
    pairs = np.minimum(np.bincount(from_parent, minlength=units), np.bincount(to_parent, minlength=units))
    chosen = [np.arange(len(side)) - np.searchsorted(side, side) < pairs[side] for side in (from_parent, to_parent)]
    return movers[chosen[0]], homes[chosen[1]]


def _above(problem: TopDownProblem, steps: int) -> Integers:
    """For each block its unit on the level that many places from the last, or on the first."""
    names = problem.spine.names
    return problem.spine.unit_of_block(names[max(len(names) - steps, 0)])


def _sizes(problem: TopDownProblem, block: Integers) -> Floats:
    return np.bincount(block, minlength=len(problem.spine.rows)).astype(np.float64)


def _deviations(problem: TopDownProblem, sizes: Floats) -> Floats:
    parent = _above(problem, 2)
    return np.asarray(sizes - (np.bincount(parent, sizes) / np.bincount(parent))[parent])
