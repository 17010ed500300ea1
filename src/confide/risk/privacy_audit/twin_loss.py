"""The distribution of the loss of two files that differ in some counts, and the power that it allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from confide.arrays import Floats
from confide.errors import ParameterError
from confide.noise import ReleaseNoise, TruncatedDistribution, TwoSidedGeometric

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
            raise ParameterError(
                "audit-too-large",
                "the loss of this release is too large for an audit",
                found=f"a mean of {mean:.3g}",
                expected="a release from which something can be learned",
                remedy="audit a release with a smaller budget",
            )
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
