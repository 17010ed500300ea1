"""Questions about one law of noise: the answers of ``confide noise pmf``, ``quantile`` and ``margin``.

>>> from confide.noise.fitting import NoiseKind
>>> law = noise_law(NoiseKind.GAUSSIAN, sigma2=5)
>>> noise_margin(law, "0.95").noise_margin
4
>>> noise_quantile(law, "0.9").quantile
3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confide.answers import TypedAnswer
from confide.errors import ParameterError
from confide.exact import Exact
from confide.noise import CountNoise
from confide.noise.fitting import NoiseKind, make_noise


@dataclass(frozen=True)
class NoiseProbabilities(TypedAnswer):
    """The probability of values of the noise, and of values up to them."""

    law: CountNoise
    values: tuple[int, ...]
    pmf: tuple[float, ...]
    cdf: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        rows = [{"x": x, "pmf": pmf, "cdf": cdf} for x, pmf, cdf in zip(self.values, self.pmf, self.cdf, strict=True)]
        return {"law": self.law.as_dict(), "at": rows, "pmf": list(self.pmf)}


@dataclass(frozen=True)
class NoiseQuantile(TypedAnswer):
    """The smallest value that the noise stays at or below with a probability."""

    law: CountNoise
    probability: Exact
    quantile: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"law": self.law.as_dict(), "probability": str(self.probability), "quantile": self.quantile}


@dataclass(frozen=True)
class NoiseMargin(TypedAnswer):
    """The noise margin (margin of error, MOE, of the noise alone): it keeps within it with a probability."""

    law: CountNoise
    probability: Exact
    noise_margin: int

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        return self.law.variance()

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "law": self.law.as_dict(),
            "probability": str(self.probability),
            "noise_margin": self.noise_margin,
            "variance": self.variance,
        }


def noise_law(
    kind: NoiseKind, *, sigma2: Exact | None = None, epsilon: Exact | None = None, bound: int | None = None
) -> CountNoise:
    """The law of a kind with its parameter: ``epsilon`` for geometric laws, ``sigma2`` for Gaussian ones.

    Args:
        kind: The kind of noise.
        sigma2: The parameter of a discrete Gaussian, of the order of its variance.
        epsilon: The parameter of a two-sided geometric law.
        bound: The largest noise of a truncated law.

    Returns:
        The law.
    """
    parameter, other = (epsilon, sigma2) if kind.by_epsilon else (sigma2, epsilon)
    if parameter is None or other is not None:
        raise ParameterError(
            "no-such-noise",
            f"{kind.value} noise takes {'epsilon' if kind.by_epsilon else 'sigma2'}",
            found="none" if parameter is None else "both parameters",
            expected="the parameter of the kind, and no other",
            remedy="correct the parameter",
        )
    return make_noise(kind, parameter, bound)


def noise_probabilities(law: CountNoise, at: Sequence[int]) -> NoiseProbabilities:
    """The probability of values of the noise, and of values up to them.

    Args:
        law: The noise.
        at: Whole numbers.

    Returns:
        A probability, and a cumulative one, for each of them; correctly rounded.
    """
    values = tuple(at)
    return NoiseProbabilities(law, values, tuple(law.pmf(x) for x in values), tuple(law.cdf(x) for x in values))


def noise_quantile(law: CountNoise, probability: Exact) -> NoiseQuantile:
    """The smallest value that the noise stays at or below with a probability.

    Args:
        law: The noise.
        probability: An exact number between 0 and 1.

    Returns:
        The quantile, decided exactly.
    """
    return NoiseQuantile(law, probability, law.quantile(probability))


def noise_margin(law: CountNoise, probability: Exact = "0.95") -> NoiseMargin:
    """The smallest distance from zero that the noise keeps within with a probability.

    Args:
        law: The noise.
        probability: An exact number between 0 and 1.

    Returns:
        The margin, decided exactly, and the variance.
    """
    return NoiseMargin(law, probability, law.noise_margin(probability))
