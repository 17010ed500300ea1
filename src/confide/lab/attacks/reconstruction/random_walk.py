"""The compiled loops of the attack on noisy figures: a proportional fit, a random walk over whole people, an ascent.

A histogram x over n cells is counted by rows: row r has the count (A x)_r, and its figure a likelihood
(:class:`confide.releases.figure_noise.LikelihoodTable`). The prior of x is that of an urn: people come one after the
other, and the next one is of kind v with a probability proportional to x_v + α_v. Target of the walk:

    P(x | figures) ∝ P(N) · Π over people of (x_v + α_v) / (N + Σα) · Π over rows of P(figure_r | (A x)_r) .

The walk moves people one by one or two by two (Metropolis and Hastings): someone becomes of another kind, drawn from a
proposal q; someone changes one attribute; two people exchange one; somebody comes or goes. Derivation:
``docs/proofs/reconstruction.md``, 6. Its randomness protects nobody: it is a fixed sequence (splitmix64) that follows
from the seed, the same on every machine.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from confide.arrays import Floats, Integers

COME_OR_GO, OTHER_KIND, OTHER_LEVEL = 0.12, 0.40, 0.75
"""Of all steps: somebody comes or goes up to the first, becomes of another kind up to the second, changes one attribute
up to the third; the rest are exchanges of two people."""
NEWTON, LARGEST_STEP = 30, 2.0


@numba.njit(cache=True, nogil=True)
def proportional_fit(
    start: Integers, column: Integers, figure: Floats, variance: Floats, prior: Floats, sweeps: int
) -> Floats:
    """The counts x ≥ 0, not whole, that minimise Σ (row · x − figure)² / (2 variance) + Σ x log(x / prior) − x + prior.

    One row after the other is brought to its optimum by a factor exp(−d) for all cells that it counts, where
    s exp(−d) − figure − variance (λ + d) = 0 with s the row's sum and λ the sum of its earlier d: iterative
    proportional fitting for figures that are not to be believed to the last person.

    Args:
        start: Row r counts the cells ``column[start[r]:start[r + 1]]``, shape (rows + 1,).
        column: Cells, shape (entries,).
        figure: Shape (rows,); NaN: the row says nothing.
        variance: Shape (rows,), above zero.
        prior: Shape (cells,).
        sweeps: How often all rows are gone through at most.
    """
    x = prior.copy()
    multiplier = np.zeros(len(figure))
    for _ in range(sweeps):
        largest = 0.0
        for r in range(len(figure)):
            if np.isnan(figure[r]):
                continue
            # s, what the row counts now.
            total = 0.0
            for k in range(start[r], start[r + 1]):
                total += x[column[k]]
            if total <= 0.0:
                continue
            # The d that solves the row's equation, by Newton's method with steps that are kept short.
            d = 0.0
            for _newton in range(NEWTON):
                shrunk = total * np.exp(-d)
                step = (shrunk - figure[r] - variance[r] * (multiplier[r] + d)) / (shrunk + variance[r])
                step = min(max(step, -LARGEST_STEP), LARGEST_STEP)
                d += step
                if abs(step) < 1e-9:
                    break
            # λ grows by it, and every cell of the row shrinks by its factor.
            multiplier[r] += d
            factor = np.exp(-d)
            for k in range(start[r], start[r + 1]):
                x[column[k]] *= factor
            largest = max(largest, abs(d))
        # No row moved by more than a ten-thousandth: this is the optimum.
        if largest < 1e-4:
            break
    return x


@numba.njit(cache=True, nogil=True)
def _uniform(state: Any) -> float:
    """The next number in [0, 1) of splitmix64 (Steele, Lea and Flood 2014)."""
    # The state moves by the golden ratio; three mixing steps spread its bits; the upper 53 of them are the number.
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@numba.njit(cache=True, nogil=True)
def _log_likelihood(rows: Any, r: int, count: int) -> Any:
    """The likelihood of a row's figure at a count, from its table or beyond the ends of it."""
    place, low, length, values, slopes = rows
    at = count - low[r]
    # Beyond an end the logarithm goes on as a straight line with the slope of that end.
    if at < 0:
        return values[place[r]] + at * slopes[r, 0]
    if at >= length[r]:
        return values[place[r] + length[r] - 1] - (at - length[r] + 1) * slopes[r, 1]
    return values[place[r] + at]


@numba.njit(cache=True, nogil=True)
def _add(cells: Any, rows: Any, count: Integers, v: int, by: int) -> float:
    """Adds somebody of kind v to all rows that count them, or takes them out; what that adds to the likelihood."""
    # Only the rows that count this kind change: their likelihoods before and after.
    start, row = cells
    gain = 0.0
    for k in range(start[v], start[v + 1]):
        r = row[k]
        gain += _log_likelihood(rows, r, count[r] + by) - _log_likelihood(rows, r, count[r])
        count[r] += by
    return gain


@numba.njit(cache=True, nogil=True)
def _with_level(keys: Integers, v: int, other: int, shape: Integers, stride: Integers, axis: int) -> int:
    """The kind that has everything of v but the level of ``other`` on one axis; -1 if there is none, or it is v."""
    # The levels of both on the axis, as digits of their keys.
    level = (keys[v] // stride[axis]) % shape[axis]
    new = (keys[other] // stride[axis]) % shape[axis]
    if level == new:
        return -1
    # The key with the other digit, looked for by halving: not every combination of levels is a kind.
    key = keys[v] + (new - level) * stride[axis]
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1


@numba.njit(cache=True, nogil=True)
def walk(
    person: Integers,
    people: int,
    x: Integers,
    count: Integers,
    cells: Any,
    rows: Any,
    prior: Any,
    proposal: Any,
    space: Any,
    seed: Any,
    steps: int,
    coldness: Any,
    fixed: bool,
) -> tuple[int, float]:
    """So many steps of the walk; changes ``person``, ``x`` and ``count``.

    Args:
        person: The kind of each person, with room for more.
        people: How many there are.
        x: How many people each kind has, shape (kinds,).
        count: The count of each row, shape (rows,).
        cells: For each kind the rows that count it: ``start``, shape (kinds + 1,), and ``row``.
        rows: The likelihoods: ``place``, ``low``, ``length``, shape (rows,), ``values``, ``slopes``, shape (rows, 2).
        prior: ``alpha``, shape (kinds,); its sum; and ``log_size``, the logarithm of P(N) for N = 0, 1, …
        proposal: ``q``, shape (kinds,), its sums, and for each axis the sums of q by level with where they begin.
        space: ``keys`` of the kinds, ascending, with ``shape`` and ``stride`` of the axes.
        seed: The state of the generator, an array of one; it is moved on.
        steps: How many.
        coldness: The power to which the posterior is raised at the first and at the last step: 1 draws from it, more
            looks for its maximum.
        fixed: Nobody comes or goes.

    Returns:
        How many people there are now, and their mean number over the steps.
    """
    alpha, alpha_sum, log_size = prior
    q, q_sums, q_axis, axis_start = proposal
    keys, shape, stride = space
    kinds, largest = len(alpha), len(log_size) - 1
    mean = 0.0
    for step in range(steps):
        # How cold it is rises or falls from the first to the last step by a constant factor.
        mean += people
        cold = coldness[0] * (coldness[1] / coldness[0]) ** (step / steps)
        move = _uniform(seed)
        if move < COME_OR_GO:
            if fixed:
                continue
            # Somebody comes, of a kind drawn from q: likelihood, P(N) and the urn, against how likely the draw was.
            if _uniform(seed) < 0.5:
                if people >= len(person):
                    continue
                v = min(np.searchsorted(q_sums, _uniform(seed) * q_sums[-1], side="right"), kinds - 1)
                gain = _add(cells, rows, count, v, 1)
                gain += log_size[min(people + 1, largest)] - log_size[min(people, largest)]
                gain += np.log((x[v] + alpha[v]) / (people + alpha_sum))
                if np.log(_uniform(seed) + 1e-300) < cold * gain - np.log(q[v]):
                    person[people] = v
                    people += 1
                    x[v] += 1
                else:
                    _add(cells, rows, count, v, -1)
            else:
                # Somebody goes, drawn from all: the same backwards, and the last person takes the free place.
                if people == 0:
                    continue
                i = int(_uniform(seed) * people)
                v = person[i]
                gain = _add(cells, rows, count, v, -1)
                gain += log_size[min(people - 1, largest)] - log_size[min(people, largest)]
                gain -= np.log((x[v] - 1 + alpha[v]) / (people - 1 + alpha_sum))
                if np.log(_uniform(seed) + 1e-300) < cold * gain + np.log(q[v]):
                    person[i] = person[people - 1]
                    people -= 1
                    x[v] -= 1
                else:
                    _add(cells, rows, count, v, 1)
        elif people == 0:
            continue
        elif move < OTHER_LEVEL:
            # One person and another kind, drawn from q; of it all is taken over, or one attribute alone. ``back`` is
            # how much likelier the way back would have been proposed.
            i = int(_uniform(seed) * people)
            v = person[i]
            w = min(np.searchsorted(q_sums, _uniform(seed) * q_sums[-1], side="right"), kinds - 1)
            if move < OTHER_KIND:
                back = np.log(q[v] / q[w])
            else:
                axis = int(_uniform(seed) * len(shape))
                old, new = (keys[v] // stride[axis]) % shape[axis], (keys[w] // stride[axis]) % shape[axis]
                w = _with_level(keys, v, w, shape, stride, axis)
                back = np.log(q_axis[axis_start[axis] + old] / q_axis[axis_start[axis] + new])
            if w < 0 or w == v:
                continue
            # The rows change at once; what is refused is taken back.
            gain = _add(cells, rows, count, v, -1) + _add(cells, rows, count, w, 1)
            gain += np.log((x[w] + alpha[w]) / (x[v] - 1 + alpha[v]))
            if np.log(_uniform(seed) + 1e-300) < cold * gain + back:
                person[i] = w
                x[v] -= 1
                x[w] += 1
            else:
                _add(cells, rows, count, w, -1)
                _add(cells, rows, count, v, 1)
        else:
            # Two people exchange their levels on one axis, if both new kinds exist. Both ways are equally likely.
            i, j = int(_uniform(seed) * people), int(_uniform(seed) * people)
            axis = int(_uniform(seed) * len(shape))
            one, two = person[i], person[j]
            new_one = _with_level(keys, one, two, shape, stride, axis)
            new_two = _with_level(keys, two, one, shape, stride, axis)
            if i == j or new_one < 0 or new_two < 0:
                continue
            # Out and in one after the other, so that the urn sees the other one's change where kinds are the same.
            gain = 0.0
            for v in (one, two):
                gain += _add(cells, rows, count, v, -1)
                x[v] -= 1
                gain -= np.log(x[v] + alpha[v])
            for v in (new_one, new_two):
                gain += _add(cells, rows, count, v, 1) + np.log(x[v] + alpha[v])
                x[v] += 1
            if np.log(_uniform(seed) + 1e-300) < cold * gain:
                person[i], person[j] = new_one, new_two
            else:
                for v in (new_one, new_two):
                    _add(cells, rows, count, v, -1)
                    x[v] -= 1
                for v in (one, two):
                    _add(cells, rows, count, v, 1)
                    x[v] += 1
    return people, mean / max(steps, 1)


@numba.njit(cache=True, nogil=True)
def ascend(
    person: Integers, people: int, x: Integers, count: Integers, cells: Any, rows: Any, alpha: Floats, sweeps: int
) -> None:
    """Gives one person after the other the kind that makes the histogram likeliest, until nobody moves.

    The histogram, not the list of people: with x_v people of kind v there are N! / Π x_v! lists, so that the next
    person of kind v adds log (x_v + α_v) / (x_v + 1).
    """
    start, row = cells
    gain = np.zeros(len(count))
    for _ in range(sweeps):
        moved = False
        for i in range(people):
            # The person is taken out, and what one more in each row would add is worked out once for all kinds.
            v = person[i]
            _add(cells, rows, count, v, -1)
            x[v] -= 1
            for r in range(len(count)):
                gain[r] = _log_likelihood(rows, r, count[r] + 1) - _log_likelihood(rows, r, count[r])
            # The kind that adds most: the histogram's own part, and that of the rows that count the kind.
            best, at = -np.inf, v
            here = -np.inf
            for w in range(len(alpha)):
                value = np.log((x[w] + alpha[w]) / (x[w] + 1.0))
                for k in range(start[w], start[w + 1]):
                    value += gain[row[k]]
                if value > best:
                    best, at = value, w
                if w == v:
                    here = value
            # Without a gain the person stays, so that this ends.
            if best <= here + 1e-9:
                at = v
            moved = moved or at != v
            _add(cells, rows, count, at, 1)
            x[at] += 1
            person[i] = at
        if not moved:
            break
