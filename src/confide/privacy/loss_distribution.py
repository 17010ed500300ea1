"""Laws of a privacy loss under exponential tilting, with a bound for everything that is not exact.

A :class:`LossDistribution` holds P[L = l] exp(θl)/E[exp(θL)] on equidistant losses l. Mass that is missing, wrapped
around or misplaced under this tilted law by at most ``doubt`` (in L1) moves δ(ε) = E[(1 − exp(ε − L))₊] by at most
E[exp(θL)] exp(−θε) · doubt, because (1 − exp(ε − l))₊ ≤ exp(θ(l − ε)) for θ ≥ 0. Derivation:
``docs/proofs/accounting.md``, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations_with_replacement
from operator import add

import numpy as np
import numpy.typing as npt

from confide.arrays import Floats
from confide.errors import ParameterError
from confide.exact import Exact, as_delta, integer, nonnegative, positive
from confide.privacy import accountant
from confide.privacy.definitions import Distribution, Neighbours, bounded_degree, float_down, float_up

MOST_POINTS = 1 << 23
"""The largest array that is built, 64 MB. What would need more is refused."""
LEAST_SIGMA2 = 1e-3
"""Below this one cell alone loses more than ε = 500, and its weights leave the range of double precision."""
_UNIT = 2.0**-53
_LOG_TAIL = 60.0  # a tail that is cut off holds at most 2 exp(−60) of the tilted law
_FFT = 16.0  # error of a transform, in units of 2^-53 log2(length); Higham (2002), Theorem 24.2, proves about 7
_LARGEST_POWER = 650.0


@dataclass(frozen=True)
class LossDistribution:
    """The tilted law: ``mass[i]`` belongs to the loss ``start + i·step``.

    ``variance`` and ``wobble`` describe its tails: P[|L − mean| ≥ r] ≤ 2 exp(wobble − r²/(2·variance)) when tilted.
    """

    start: float
    step: float
    mass: Floats
    theta: float
    log_moment: float
    doubt: float
    variance: float
    wobble: float

    def delta(self, epsilon: float, side: int) -> float:
        """δ(ε) for ε ≥ 0, with the doubt added (side 1), subtracted (side −1) or left out (side 0)."""
        losses, weights = self._positive
        first = int(np.searchsorted(losses, epsilon))
        value = float(np.sum(weights[first:] * -np.expm1(epsilon - losses[first:])))
        # exp of a rounded argument of size t is off by t units of rounding, a sum by the logarithm of its length
        size = abs(self.log_moment) + (1 + self.theta) * (abs(self.start) + self.step * len(self.mass)) + 64
        chernoff = math.exp(min(_LARGEST_POWER, self.log_moment - self.theta * epsilon + 1e-9))
        return value * (1 + side * 8 * _UNIT * size) + side * self.doubt * chernoff

    def epsilon_above(self, delta: float) -> float:
        """An ε that is certainly enough for δ."""
        high = max(0.0, self._end)
        while self.delta(high, 1) > delta:
            high = 2 * high + 1  # ends: with θ > 0 the doubt falls exponentially, and beyond the law it is all there is
            if high > 1e12:
                raise too_large("delta is below what double precision can tell", f"delta = {delta}")
        return self._crossing(delta, 1, 0.0, high)[1]

    def epsilon_below(self, delta: float, above: float) -> float:
        """An ε that is certainly not enough for δ, or zero; ``above`` is one that is enough.

        The search goes down from ``above``, in steps that double, to the first ε that is certainly not enough. It does
        not start at zero: far below the tilt the masses are rounding errors times a large number, of any sign.
        """
        enough, step = above, 1e-12
        while enough > 0:
            candidate = max(0.0, above - step)
            if self.delta(candidate, -1) > delta:
                return self._crossing(delta, -1, candidate, enough)[0]
            enough, step = candidate, 2 * step
        return 0.0

    def _crossing(self, delta: float, side: int, low: float, high: float) -> tuple[float, float]:
        """Neighbouring ε with δ(low) > δ ≥ δ(high), by bisection; (low, low) if low is enough already."""
        if self.delta(low, side) <= delta:
            return low, low
        for _ in range(60):
            middle = (low + high) / 2
            if not low < middle < high or high - low < 1e-13 * high:
                break
            low, high = (low, middle) if self.delta(middle, side) <= delta else (middle, high)
        return low, high

    @property
    def _end(self) -> float:
        return self.start + self.step * len(self.mass)

    @cached_property
    def _positive(self) -> tuple[Floats, Floats]:
        """The positive losses and their untilted masses; others do not matter for ε ≥ 0."""
        first = min(max(0, math.floor(-self.start / self.step)), len(self.mass))
        losses = self.start + self.step * np.arange(first, len(self.mass), dtype=np.float64)
        tilt = np.minimum(self.log_moment - self.theta * losses, _LARGEST_POWER)
        return losses, self.mass[first:] * np.exp(tilt)


def lattice_distribution(sigma2: float, cells: int, theta: float) -> LossDistribution:
    """The loss (cells + 2S)/(2σ²), S a sum of ``cells`` discrete Gaussians: tilted, each is centred at θ."""
    if sigma2 < LEAST_SIGMA2:
        raise too_large("the noise is too small", f"sigma2 = {sigma2:.3g}")
    wobble = _log_wobble(sigma2)
    reach = math.sqrt(2 * (_LOG_TAIL + wobble) * sigma2) + 1
    radius = math.sqrt(2 * (_LOG_TAIL + cells * wobble) * sigma2 * cells) + 1
    size = _points(2 * max(radius, reach) + 4, f"sigma2 = {sigma2:.6g}, {cells} cells")
    single = np.arange(math.floor(theta - reach), math.ceil(theta + reach) + 1, dtype=np.float64)
    weights = np.exp(-((single - theta) ** 2) / (2 * sigma2))
    centred = np.exp(-((single - round(theta)) ** 2) / (2 * sigma2))
    total, untilted = float(np.sum(weights)), float(np.sum(centred))
    log_moment = cells * ((theta + theta * theta) / (2 * sigma2) + math.log(total) - math.log(untilted))
    mass = np.zeros(size)
    mass[: len(single)] = weights / total
    first = int(single[0])
    doubt = (2 * cells + 4) * 2 * math.exp(-_LOG_TAIL) + 32 * _UNIT * cells
    if cells > 1:
        doubt += cells * _transform_error(mass)
        mass = np.fft.irfft(_power(np.fft.rfft(mass), cells), size)
        doubt += _transform_error(mass) + 8 * cells * _UNIT * math.sqrt(size) * _norm(mass)
        points = math.floor(cells * theta - radius) - 1
        mass = np.roll(mass, (cells * first - points) % size)
        first = points
    start, step = (cells + 2 * first) / (2 * sigma2), 1 / sigma2
    return LossDistribution(start, step, mass, theta, log_moment, doubt, cells / sigma2, cells * wobble)


def sum_on_grid(distributions: Sequence[LossDistribution], step: float, *, up: bool) -> LossDistribution:
    """The sum of independent losses, each first rounded to a multiple of ``step``, upwards or downwards."""
    theta = distributions[0].theta
    variance, wobble = (
        sum(distribution.variance for distribution in distributions),
        sum(distribution.wobble for distribution in distributions),
    )
    radius = _radius(variance, wobble, len(distributions), step)
    size = circle(distributions, step)
    start = _first_point(variance, radius, theta, step)
    product, doubt = np.ones(size // 2 + 1, dtype=np.complex128), 8 * math.exp(-_LOG_TAIL)
    for distribution in distributions:
        losses = distribution.start + distribution.step * np.arange(len(distribution.mass), dtype=np.float64)
        # a millionth of a step is far more than the error of the division, so the direction is kept for certain
        steps = np.ceil(losses / step + 1e-6) if up else np.floor(losses / step - 1e-6)
        moved = distribution.mass * np.exp(theta * (steps * step - losses))
        placed = np.bincount(steps.astype(np.int64) % size, weights=moved, minlength=size).astype(np.float64)
        product *= np.fft.rfft(placed)
        doubt += distribution.doubt + _transform_error(placed)
    mass = np.fft.irfft(product, size)
    doubt += _transform_error(mass) + 8 * len(distributions) * _UNIT * math.sqrt(size) * _norm(mass)
    # rounding multiplies a tilted mass, and what is in doubt about it, by at most exp(±2θ·step) for each law
    doubt *= math.exp(2 * theta * step * len(distributions))
    moment = sum(distribution.log_moment for distribution in distributions)
    return LossDistribution(start * step, step, np.roll(mass, -start % size), theta, moment, doubt, variance, wobble)


@dataclass(frozen=True)
class GridSum:
    """A sum of independent losses on a circle of ``size`` grid points, each spread so that δ(ε) rises, as a spectrum.

    A loss between two grid points goes to both of them, with weights that keep its mass and its E[exp(−L)]. What is
    added up this way is far nearer to the truth than losses rounded up (``docs/proofs/accounting.md``, Lemma 8).
    """

    step: float
    size: int
    theta: float
    spectrum: npt.NDArray[np.complex128]
    terms: int
    log_moment: float
    doubt: float
    variance: float
    wobble: float

    def __add__(self, other: GridSum) -> GridSum:
        assert (self.step, self.size, self.theta) == (other.step, other.size, other.theta)
        return GridSum(
            self.step,
            self.size,
            self.theta,
            self.spectrum * other.spectrum,
            self.terms + other.terms,
            self.log_moment + other.log_moment,
            self.doubt + other.doubt,
            self.variance + other.variance,
            self.wobble + other.wobble,
        )

    def distribution(self) -> LossDistribution:
        """The law of the sum. The circle must be as large as :func:`circle` says."""
        step, size = self.step, self.size
        radius = _radius(self.variance, self.wobble, self.terms, step)
        assert 2 * radius / step + 4 <= size
        start = _first_point(self.variance, radius, self.theta, step)
        mass = np.fft.irfft(self.spectrum, size)
        doubt = self.doubt + 8 * math.exp(-_LOG_TAIL)
        doubt += _transform_error(mass) + 8 * self.terms * _UNIT * math.sqrt(size) * _norm(mass)
        doubt *= math.exp(2 * self.theta * step * self.terms)
        moved = np.roll(mass, -start % size)
        return LossDistribution(
            start * step, step, moved, self.theta, self.log_moment, doubt, self.variance, self.wobble
        )


def circle(distributions: Sequence[LossDistribution], step: float) -> int:
    """How many grid points the sum of ``laws`` needs."""
    variance, wobble = (
        sum(distribution.variance for distribution in distributions),
        sum(distribution.wobble for distribution in distributions),
    )
    return _points(2 * _radius(variance, wobble, len(distributions), step) / step + 4, f"interval = {step:.3g}")


def discretise(distribution: LossDistribution, step: float, size: int) -> GridSum:
    """One law on the circle, each loss divided between its two neighbours on the grid."""
    losses = distribution.start + distribution.step * np.arange(len(distribution.mass), dtype=np.float64)
    # a millionth of a step upwards, far more than the error of the division: so what is rounded is rounded up
    places = losses / step + 1e-6
    below = np.floor(places)
    upper = np.expm1(-(places - below) * step) / math.expm1(-step)
    placed = np.zeros(size)
    for points, weight in ((below, 1 - upper), (below + 1, upper)):
        moved = distribution.mass * weight * np.exp(distribution.theta * (points * step - losses))
        placed += np.bincount(points.astype(np.int64) % size, weights=moved, minlength=size)
    # the exponents are differences of losses, and off by their rounding errors
    largest = float(np.abs(losses[[0, -1]]).max()) + step
    doubt = distribution.doubt + _transform_error(placed) + 8 * _UNIT * (4 + distribution.theta * largest)
    spectrum = np.fft.rfft(placed)
    return GridSum(
        step,
        size,
        distribution.theta,
        spectrum,
        1,
        distribution.log_moment,
        doubt,
        distribution.variance,
        distribution.wobble,
    )


def _radius(variance: float, wobble: float, distributions: int, step: float) -> float:
    """How far from its mean a tilted sum on the grid lies at most, but for a tail; each law moves by up to a step."""
    return math.sqrt(2 * (_LOG_TAIL + wobble) * variance) + (distributions + 2) * step


def _first_point(variance: float, radius: float, theta: float, step: float) -> int:
    """The first grid point within the radius of the tilted mean."""
    start = math.floor((variance * (1 + 2 * theta) / 2 - radius) / step)
    if abs(start) > 1e9:
        raise too_large("the interval is too fine for losses of this size", f"interval = {step:.3g}")
    return start


def _power(spectrum: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """The elementwise power by repeated squaring; ``exponent`` ≥ 1."""
    result: npt.NDArray[np.complex128] | None = None
    while exponent:
        if exponent & 1:
            result = spectrum if result is None else result * spectrum
        spectrum, exponent = spectrum * spectrum, exponent >> 1
    assert result is not None
    return result


def _log_wobble(sigma2: float) -> float:
    """ln of the largest ratio of two values of Z(c) = Σ_y exp(−(y−c)²/2σ²): what the lattice adds to Gaussian tails."""
    if sigma2 >= 2:
        return 5 * math.exp(-2 * math.pi**2 * sigma2)  # Poisson summation
    y = np.arange(-20, 21)
    at_zero = float(np.sum(np.exp(-(y**2) / (2 * sigma2))))
    at_half = float(np.sum(np.exp((0.25 - (y - 0.5) ** 2) / (2 * sigma2))))
    return math.log(at_zero) - math.log(at_half) + 1 / (8 * sigma2)


def _transform_error(values: Floats) -> float:
    """A bound for the L1 effect of the rounding errors of one transform of ``values``."""
    return _FFT * _UNIT * math.log2(len(values)) * math.sqrt(len(values)) * _norm(values)


def _norm(values: Floats) -> float:
    return math.sqrt(float(np.dot(values, values)))


def _points(points: float, where: str) -> int:
    if not points <= MOST_POINTS:
        raise too_large(f"{points:.3g} points would be needed", where)
    return 1 << (math.ceil(points) - 1).bit_length()


def too_large(why: str, found: str) -> ParameterError:
    """The error for a law that would not fit into memory or into double precision."""
    return ParameterError("pld-too-large", found=found, why=why, most_points=MOST_POINTS, least_sigma2=LEAST_SIGMA2)


# The privacy loss distribution of composed discrete Gaussians: a bracket for ε at δ, and for δ at ε.
#
# A record that moves a count by one turns noise P = N_Z(0, σ²) into Q = P + 1. With y = −x the loss ln P(x)/Q(x) is
# (1 + 2y)/(2σ²), y ~ N_Z(0, σ²); the reflection x → 1 − x shows that Q against P has the same law, so one direction is
# both. Over independent cells losses add up to L, and the whole is (ε, δ(ε)) with
# δ(ε) = E[(1 − exp(ε − L))₊] and no less.
#
# Cells with the same σ² are summed on the integers, where nothing is rounded. Different σ² meet on a common grid of
# losses: rounded up for the pessimistic end of the bracket, down for the optimistic. Cut tails, wrap-around and
# floating point are bounded and widen the bracket (:mod:`confide.privacy.loss_distribution`;
# ``docs/proofs/accounting.md``, section 5).

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

    Returns:
        The two numbers: ``optimistic`` and ``pessimistic``.

    >>> bracket = epsilon_bracket([NoisyCells(2, cells=2)], "1e-6")
    >>> round(bracket.optimistic, 3), round(bracket.pessimistic, 3)
    (4.917, 4.917)
    """
    groups, d = _grouped(parts), as_delta(delta)
    if d < _LEAST_DELTA:
        raise too_large("delta is below what double precision can tell", f"delta = {str(delta)[:60]}")
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

    Returns:
        The two numbers: ``optimistic`` and ``pessimistic``.

    >>> f"{delta_bracket([NoisyCells(2, cells=2)], 4).pessimistic:.3g}"
    '3.2e-05'
    """
    groups, e = _grouped(parts), nonnegative(epsilon, "epsilon")
    rho = _rho(groups)
    low, high = _distributions(groups, max(0.0, (float(e) - rho) / (2 * rho)), interval)
    pessimistic = min(1.0, high.delta(float_down(e), 1) + float(_LEAST_DELTA))  # what underflows is not nothing
    return Bracket(max(0.0, low.delta(float_up(e), -1)), pessimistic)


def noisy_cells(event: accountant.Event, neighbours: Neighbours) -> list[NoisyCells]:
    """The cells that the worst neighbour changes in ``event``, for the functions above.

    A family (Parallel, BoundedDegree) has one worst neighbour for every ε only if its members are alike; others are
    refused (but see :mod:`confide.privacy.loss_distribution`), and so is noise that is not discrete Gaussian.

    Args:
        event: What was measured.
        neighbours: What the guarantee compares.

    Returns:
        A row for each kind of noise: its σ² and how many cells have it.

    >>> from confide.privacy import Measurement, Neighbours
    >>> from confide.privacy.definitions import Distribution
    >>> noisy_cells(Measurement(Distribution.DISCRETE_GAUSSIAN, 2), Neighbours.CHANGE_ONE)
    [NoisyCells(sigma2=Fraction(2, 1), cells=2, count=1)]
    """
    if isinstance(event, accountant.Measurement):
        if event.distribution is not Distribution.DISCRETE_GAUSSIAN:
            raise ParameterError("no-loss-distribution/discrete", found=event.distribution.value)
        return [NoisyCells(event.parameter, bounded_degree(event.degree, neighbours).l1, event.times)]
    if isinstance(event, accountant.TruncatedMeasurement):
        raise ParameterError("no-loss-distribution/bound", bound=event.bound)
    if isinstance(event, accountant.WeightedMeasurement):
        raise ParameterError("no-loss-distribution/weighted", l1=event.sensitivity.l1)
    if isinstance(event, accountant.Sequential):
        return [part for member in event.events for part in noisy_cells(member, neighbours)]
    members = {_signature(noisy_cells(member, neighbours)) for member in event.events}
    if len(members) > 1:
        raise ParameterError("no-loss-distribution/family", members=len(members))
    times = min(event.degree, sum(event.copies)) if isinstance(event, accountant.BoundedDegree) else 1
    assert isinstance(event, accountant.Parallel | accountant.BoundedDegree)
    return [NoisyCells(sigma2, cells, times) for member in members for sigma2, cells in member]


def _distributions(
    groups: dict[Fraction, int], theta: float, interval: Exact
) -> tuple[LossDistribution, LossDistribution]:
    step = float(positive(interval, "interval"))
    distributions = [lattice_distribution(float(sigma2), cells, theta) for sigma2, cells in groups.items()]
    if len(distributions) == 1:
        return distributions[0], distributions[0]
    return sum_on_grid(distributions, step, up=False), sum_on_grid(distributions, step, up=True)


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


def event_epsilon_bracket(
    event: accountant.Event, neighbours: Neighbours, delta: Exact, interval: Exact = "1e-3"
) -> Bracket:
    """The smallest ε for which ``event`` is (ε, δ), between two numbers; the second is a promise.

    Unlike :func:`noisy_cells` it takes a Parallel of unlike members, at the outermost place: the paths of a plan.
    ``interval`` is the grid of the upper end; that of the lower end is ten times finer.

    Args:
        event: What was measured.
        neighbours: What the guarantee compares.
        delta: δ, exact, strictly between 0 and 1.
        interval: The width of the grid of losses, exact: finer is narrower and slower.

    Returns:
        The two numbers: ``optimistic`` and ``pessimistic``.

    >>> from confide.privacy import Measurement, Neighbours
    >>> from confide.privacy.definitions import Distribution
    >>> event = Measurement(Distribution.DISCRETE_GAUSSIAN, 2)
    >>> round(event_epsilon_bracket(event, Neighbours.CHANGE_ONE, "1e-6").pessimistic, 2)
    4.92
    """
    grid = positive(interval, "interval")
    # As the only member of a family an event is the same event, and its upper end is computed more tightly.
    paths = list(_paths(event if isinstance(event, accountant.Parallel) else accountant.Parallel([event])))
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
        key: lattice_distribution(float(key[0]), key[1], theta)
        for key in {key for path in paths for key in path.items()}
    }
    size = max(circle([distributions[key] for path in move for key in paths[path].items()], step) for move in moves)
    on_grid = {key: discretise(distribution, step, size) for key, distribution in distributions.items()}
    sums: list[GridSum] = [reduce(add, (on_grid[key] for key in path.items())) for path in paths]
    chance = float_down(d)
    worst, epsilon = moves[0], 0.0
    for move in sorted(moves, key=lambda move: -sum(_rho_moves(paths[path]) for path in move)):
        distribution = reduce(add, (sums[path] for path in move)).distribution()
        if distribution.delta(epsilon, 1) > chance:
            worst, epsilon = move, distribution.epsilon_above(chance)
    return worst, epsilon


def _paths(event: accountant.Parallel) -> Iterator[Cells]:
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
