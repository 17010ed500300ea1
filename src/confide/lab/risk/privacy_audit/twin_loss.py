"""The loss of two files that differ in some counts: its distribution, the power that it allows, and lower bounds of it.

The counts in which two made-up files differ are *touched*. What a trial tells of them says which file was measured;
from how often a test is seen to be right follow lower bounds of the loss.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.stats import beta as beta_distribution

from confide.answers import AuditPower
from confide.arrays import Floats, Integers
from confide.errors import ParameterError, RunError
from confide.noise import ReleaseNoise, TruncatedDistribution, TwoSidedGeometric
from confide.privacy import Definition, epsilons
from confide.releases.noise_audit import NoiseAudit

LARGEST = 50.0  # a single loss, where one of both files could not have given the count
_STEP, FINE = 2.0**-7, 2.0**-15
_WIDE = 16.0  # from this variance on, discrete Gaussians add up to a Gaussian to 1/(24·16), a quarter of a per cent

Component = tuple[ReleaseNoise, int, float]
"""A count: its stated noise, by how much both files differ in it, and by which factor the noise is narrower."""


def log_weight(law: ReleaseNoise, factor: float, noise: Floats) -> Floats:
    """The logarithm of the probability of noise, up to a constant; the noise is narrower by a factor."""
    plain = law.untruncated if isinstance(law, TruncatedDistribution) else law
    parameter = float(plain.parameter)
    if isinstance(plain, TwoSidedGeometric):
        weight: Floats = -parameter * factor * np.abs(noise)
    else:
        weight = -((factor * noise) ** 2) / (2 * parameter)
    if isinstance(law, TruncatedDistribution):
        weight = np.where(np.abs(noise) <= _bound(law, factor), weight, -np.inf)
    return weight


def _bound(law: TruncatedDistribution, factor: float) -> int:
    """The bound of narrower noise stays; that of wider noise grows with it, or its edge would tell too much."""
    return law.bound if factor >= 1 else math.ceil(law.bound / factor)


@dataclass(frozen=True, eq=False)
class TwinLoss:
    """The loss ln P/Q under P, where P is one of two files and Q the other, on a grid; ``certain`` is the probability
    of what Q cannot give. Losses are spread to the grid so that no test gets weaker (mass and E[exp(−L)] are kept)."""

    losses: Floats
    mass: Floats
    certain: float

    @classmethod
    def of(cls, components: Mapping[Component, int], step: float = _STEP) -> TwinLoss:
        """Of counts with independent noise, each as often as its number says; no loss is off by more than a step."""
        parts, squares, log_possible = [], 0.0, 0.0
        for (law, difference, factor), number in components.items():
            plain = law.parameter
            if not isinstance(law, TruncatedDistribution | TwoSidedGeometric) and float(plain) >= _WIDE * factor**2:
                squares += number * (difference * factor) ** 2 / float(plain)
                continue
            losses, mass = _one_count(law, difference, factor)
            finite = np.isfinite(losses)
            inside = float(mass[finite].sum())
            log_possible += number * math.log(inside) if inside > 0 else -math.inf
            parts.append((losses[finite], mass[finite] / inside if inside > 0 else mass[finite], number))
        if squares > 0:
            deviation = np.linspace(-9, 9, 3601)
            density = np.exp(-(deviation**2) / 2)
            # The grid of a Gaussian keeps E[exp(−L)] = 1 to the last digits: the trapezoidal rule converges so fast.
            parts.append((squares / 2 + math.sqrt(squares) * deviation, density / density.sum(), 1))
        if not parts or log_possible == -math.inf:
            return cls(np.zeros(1), np.array([math.exp(log_possible)]), 1 - math.exp(log_possible))
        return cls._summed(parts, math.exp(log_possible), step)

    @classmethod
    def _summed(cls, parts: Sequence[tuple[Floats, Floats, int]], possible: float, step: float) -> TwinLoss:
        mean = sum(number * float(mass @ losses) for losses, mass, number in parts)
        variance = sum(
            number * (float(mass @ losses**2) - float(mass @ losses) ** 2 + step**2) for losses, mass, number in parts
        )
        reach = 12 * math.sqrt(variance) + 4
        low = min(mean - reach, 0.0) - 1
        width = max(mean + reach, 0.0) + 1 - low
        step = max(step, width / (1 << 21))
        size = 1 << max(10, math.ceil(math.log2(width / step)))
        if step > 1 / 16:
            raise ParameterError("audit-too-large", mean=mean)
        spectrum = np.ones(size // 2 + 1, np.complex128)
        for losses, mass, number in parts:
            places = losses / step
            below = np.floor(places)
            upper = np.expm1(-(places - below) * step) / math.expm1(-step)
            placed = np.zeros(size)
            for points, weight in ((below, 1 - upper), (below + 1, upper)):
                placed += np.bincount(points.astype(np.int64) % size, weights=mass * weight, minlength=size)
            spectrum *= np.fft.rfft(placed) ** number
        first = math.floor(low / step)
        summed = np.maximum(np.roll(np.fft.irfft(spectrum, size), -first % size), 0.0)
        losses_of_grid: Floats = step * (first + np.arange(size, dtype=np.float64))
        return cls(losses_of_grid, possible * summed, 1 - possible)

    def power(self, level: float) -> float:
        """R(α): the largest power of a test with this share of false alarms."""
        false, right = self.curve
        return float(np.interp(level, false, right))

    def error(self) -> float:
        """The level at which the test that is best errs equally often on both sides."""
        false, right = self.curve
        return float(np.interp(0.0, false + right - 1, false))

    def threshold(self) -> float:
        """The loss above which that test decides for P."""
        false, right = self.curve
        return float(np.interp(0.0, false + right - 1, np.append(np.inf, self.losses[::-1]).clip(max=self.losses[-1])))

    def epsilon(self, delta: float) -> float:
        """The smallest ε with δ(ε) ≤ δ; infinite where no ε is enough."""
        if self.certain > delta:
            return math.inf
        low, high = 0.0, max(float(self.losses[-1]), 0.0)
        for _ in range(60):
            middle = (low + high) / 2
            above = self.losses > middle
            loss = self.certain + float(self.mass[above] @ -np.expm1(middle - self.losses[above]))
            low, high = (low, middle) if loss <= delta else (middle, high)
        return low

    @property
    def curve(self) -> tuple[Floats, Floats]:
        """False alarms and power of every threshold, from none on."""
        mass, losses = self.mass[::-1], self.losses[::-1]
        false = np.append(0.0, np.cumsum(mass * np.exp(np.minimum(-losses, 700.0))))
        right = np.append(self.certain, self.certain + np.cumsum(mass))
        return np.minimum(false, 1.0), np.minimum(right, 1.0)


def _one_count(law: ReleaseNoise, difference: int, factor: float) -> tuple[Floats, Floats]:
    """The losses of one count, and their probabilities."""
    plain = law.untruncated if isinstance(law, TruncatedDistribution) else law
    scale = float(plain.parameter)
    reach = 40 / (scale * factor) if isinstance(plain, TwoSidedGeometric) else 9 * math.sqrt(scale) / factor
    if isinstance(law, TruncatedDistribution):
        reach = min(reach, _bound(law, factor))
    stride = max(1, math.floor(reach / 4000))
    steps = math.ceil(reach / stride)
    noise: Floats = stride * np.arange(-steps, steps + 1, dtype=np.float64)
    weight = log_weight(law, factor, noise)
    with np.errstate(invalid="ignore"):
        losses: Floats = np.subtract(weight, log_weight(law, factor, noise + difference))
    mass = np.exp(weight - weight.max())
    there = mass > 0
    return losses[there], mass[there] / mass.sum()


# The counts in which two made-up files differ, and what a trial shows of them.


Key = tuple[str, str]
"""The level and the query of a measurement."""
Outcome = dict[Key, list[tuple[Integers, Floats, ReleaseNoise]]]
"""What a trial gave of each measurement: coordinates, counts, and the stated law."""


@dataclass(frozen=True, eq=False)
class TouchedCounts:
    """The counts of one measurement and law in which both files differ: coordinates, and both true counts."""

    law: ReleaseNoise
    places: Integers
    with_twins: Floats
    without: Floats

    @property
    def components(self) -> Counter[tuple[ReleaseNoise, int]]:
        return Counter((self.law, abs(int(gap))) for gap in self.with_twins - self.without)

    def loss(self, coordinates: Integers, counts: Floats) -> float:
        """The logarithm of the likelihood ratio of what is seen of them; what is not seen adds nothing."""
        return float(self.losses(coordinates, counts).sum())

    def losses(self, coordinates: Integers, counts: Floats) -> Floats:
        """The same of each of them."""
        losses = np.zeros(len(self.places))
        place = np.searchsorted(coordinates, self.places)
        there = place < len(coordinates)
        there[there] = coordinates[place[there]] == self.places[there]
        seen = counts[place[there]]
        first, second = (log_weight(self.law, 1.0, seen - true[there]) for true in (self.with_twins, self.without))
        with np.errstate(invalid="ignore"):
            losses[there] = np.nan_to_num(first - second, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
        return losses


Touched = dict[Key, list[TouchedCounts]]


def components_of(parts: Iterable[TouchedCounts]) -> Counter[tuple[ReleaseNoise, int]]:
    total: Counter[tuple[ReleaseNoise, int]] = Counter()
    for part in parts:
        total.update(part.components)
    return total


def same_outcome(one: Outcome, other: Outcome) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])
        for key in one
        for first, second in zip(one[key], other[key], strict=True)
    )


def touched_counts(with_twins: Outcome, without: Outcome, laws: Mapping[Key, Sequence[ReleaseNoise]]) -> Touched:
    touched: Touched = {}
    for key, parts in with_twins.items():
        for (places, counts, _), (other_places, other_counts, _), law in zip(
            parts, without[key], laws[key], strict=True
        ):
            common, here, there = np.intersect1d(places, other_places, return_indices=True)
            apart = np.flatnonzero(counts[here] != other_counts[there])
            counts_apart = TouchedCounts(law, common[apart], counts[here][apart], other_counts[there][apart])
            touched.setdefault(key, []).append(counts_apart)
    return {key: parts for key, parts in touched.items() if any(len(part.places) for part in parts)}


def nothing_touched() -> RunError:
    """The finding that nothing published depends on a made-up record."""
    return RunError("nothing-touched")


def narrow_draws(law: ReleaseNoise, factor: float, shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Made-up draws of noise that is narrower by a factor, to see what an audit would notice; infinite: no noise.

    They protect nobody. A Gaussian or a Laplace variable is rounded, which is close to the discrete law of that scale.
    """
    plain = law.untruncated if isinstance(law, TruncatedDistribution) else law
    parameter = float(plain.parameter)
    if math.isinf(factor):
        return np.zeros(shape)
    if isinstance(plain, TwoSidedGeometric):
        drawn = random.laplace(0.0, 1 / (parameter * factor), shape)
    else:
        drawn = random.normal(0.0, math.sqrt(parameter) / factor, shape)
    drawn = np.rint(drawn)
    return np.clip(drawn, -law.bound, law.bound) if isinstance(law, TruncatedDistribution) else drawn


FACTORS = (1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, math.inf)
"""How many times too narrow noise is tried to be, where the least fault that an audit notices is looked for."""
TRIED, CHANCE = 40, 0.9
"""So many made-up audits are tried with each, and so often it must be noticed."""


def least_noticed(notices: Callable[[float, np.random.Generator], bool]) -> float | None:
    """The least factor by which noise must be too narrow to be noticed in nine of ten audits; none if it never is.

    Args:
        notices: Whether a made-up audit of noise that is narrower by a factor says that something is wrong.

    Returns:
        One of :data:`FACTORS`; infinite: only missing noise is noticed.
    """
    low, high = -1, len(FACTORS) - 1
    if not _often(notices, FACTORS[high]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _often(notices, FACTORS[middle]) else (middle, high)
    return FACTORS[high]


def _often(notices: Callable[[float, np.random.Generator], bool], factor: float) -> bool:
    random = np.random.default_rng(1)
    return sum(notices(factor, random) for _ in range(TRIED)) >= CHANCE * TRIED


def power_of(noticed: float | None, draws: NoiseAudit, what: str) -> AuditPower:
    """The power of an audit that has a test of its own and holds the same draws against their laws.

    Args:
        noticed: The least factor that the test notices, as :func:`least_noticed` has it.
        draws: The draws, held against their laws.
        what: What the test is, in words.
    """
    of_draws = draws.power
    by_test = (
        f"{what} would not have noticed even missing noise"
        if noticed is None
        else f"{what} would have noticed missing noise only"
        if math.isinf(noticed)
        else f"{what} would have noticed noise of less than {100 / noticed:.0f} % of the stated scale"
    )
    parts = [part for part in (of_draws.least, None if noticed is None else 1 - 1 / noticed) if part is not None]
    missing = noticed is not None or of_draws.missing
    words = f"{by_test} (in {100 * CHANCE:.0f} of 100 audits). The draws, held against their laws: {of_draws.words}"
    words += "" if missing else " So this audit has no power: it cannot say that all is well."
    return AuditPower(missing=missing, least=min(parts, default=None), chance=CHANCE, words=words)


# From what a test was seen to do to lower bounds of a loss.


def share_bounds(times: int, of: int, error: float) -> tuple[float, float]:
    """Clopper & Pearson: what a probability is at least and at most, each wrongly with a probability of ``error``.

    >>> least, most = share_bounds(0, 100, 0.025)
    >>> least, round(most, 4)
    (0.0, 0.0362)
    """
    least = 0.0 if times == 0 else float(beta_distribution.ppf(error, times, of - times + 1))
    most = 1.0 if times == of else float(beta_distribution.ppf(1 - error, times + 1, of - times))
    return least, most


def narrower_by(components: Mapping[tuple[ReleaseNoise, int], int], power: float, level: float) -> float:
    """The smallest c with R_c(α) ≥ β: the noise is at least so many times narrower than stated.

    Args:
        components: How many counts have this stated noise and differ by so much.
        power: A lower bound of β.
        level: An upper bound of α.

    Returns:
        Above 1 the noise is not what was stated; 0 where nothing is known.

    >>> from confide.noise import DiscreteGaussian
    >>> from statistics import NormalDist
    >>> normal = NormalDist()
    >>> mu = normal.inv_cdf(0.9) - normal.inv_cdf(0.1)
    >>> abs(narrower_by({(DiscreteGaussian(100), 20): 1}, 0.9, 0.1) * 20 / 10 - mu) < 1e-2
    True
    """
    if power <= level:
        return 0.0

    def reached(factor: float) -> float:
        return TwinLoss.of({(law, gap, factor): n for (law, gap), n in components.items()}).power(level)

    low, high = 0.0, 1.0
    while reached(high) < power:
        low, high = high, 2 * high
        if high > 64:
            return low
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < power else (low, middle)
    return low


def loss_of(
    definition: Definition,
    per_twin: Mapping[Key, Counter[tuple[ReleaseNoise, int]]],
    factors: Mapping[Key, float],
    delta: Fraction,
) -> dict[str, float]:
    """The loss of one record if the noise of every measurement is narrower by its factor."""
    counts = [
        (law, gap, factors[key], number)
        for key, components in per_twin.items()
        for (law, gap), number in components.items()
    ]
    if definition is Definition.ZCDP:
        rho = sum(n * (gap * factor) ** 2 / (2 * float(law.parameter)) for law, gap, factor, n in counts)
        return {"rho": rho, "epsilon": epsilon_of(rho, delta)}
    if definition is Definition.PURE:
        return {"epsilon": sum(n * gap * factor * float(law.parameter) for law, gap, factor, n in counts)}
    scaled: Counter[Component] = Counter()
    for law, gap, factor, number in counts:
        if factor > 0:
            scaled[law, gap, factor] += number
    return {"epsilon": TwinLoss.of(scaled, FINE).epsilon(float(delta)) if scaled else 0.0}


def epsilon_of(rho: Fraction | float, delta: Fraction) -> float:
    return epsilons(Fraction(rho), delta)["canonne_kamath_steinke"] if rho > 0 else 0.0


def whatever_the_noise(
    definition: Definition, points: Sequence[tuple[float, float]], twins: int, delta: Fraction
) -> dict[str, float]:
    """What group privacy says of the best of the tests, with no word about the form of the noise."""
    if definition is Definition.ZCDP:
        rho = max(_renyi(power, level) for power, level in points) / twins**2
        return {"rho": rho, "epsilon": epsilon_of(rho, delta)}
    allowed = float(delta) if definition is Definition.APPROXIMATE else 0.0
    return {"epsilon": max(_group_epsilon(power, level, twins, allowed) for power, level in points)}


def _renyi(power: float, level: float) -> float:
    """The smallest ρ with D_a(β ‖ α) ≤ aρ for all a > 1, the largest D_a / a."""
    if power <= level or level <= 0:
        return 0.0
    orders = 1 + np.geomspace(1e-6, 1e3, 400)
    logs = np.logaddexp(
        orders * math.log(power) + (1 - orders) * math.log(level),
        orders * math.log1p(-power) + (1 - orders) * math.log1p(-level) if power < 1 else -np.inf,
    )
    return max(0.0, float((logs / (orders - 1) / orders).max()))


def _group_epsilon(power: float, level: float, twins: int, delta: float) -> float:
    """The smallest ε with β ≤ e^{kε} α + δ (e^{kε} − 1)/(e^ε − 1)."""
    if power <= level:
        return 0.0
    low, high = 0.0, math.log(power / level) / twins
    for _ in range(60):
        middle = (low + high) / 2
        group = math.expm1(twins * middle) / math.expm1(middle) if middle > 0 else float(twins)
        enough = power <= math.exp(twins * middle) * level + delta * group
        low, high = (low, middle) if enough else (middle, high)
    return low
