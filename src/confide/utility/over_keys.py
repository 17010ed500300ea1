"""Several releases of the same question that differ in their key alone: means and intervals over keys.

For values x₁ … x_n of n keys with mean x̄ and standard deviation s (divisor n − 1), the interval is

    x̄ ± t · s / √n,   t the 97.5 per cent point of Student's t with n − 1 degrees of freedom:

in 19 of 20 sets of n keys, it covers the mean over all keys, as far as the values are normal. It says nothing about the
error of one release, nor about other records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

COVERAGE = 0.95


@dataclass(frozen=True)
class OverKeys:
    """The mean over keys, its interval (none for one key), and the value for each key."""

    mean: float
    low: float | None
    high: float | None
    values: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "values": list(self.values)}


def over_keys(values: Sequence[float]) -> OverKeys:
    """The mean over keys and its interval.

    Args:
        values: One for each key, at least one.

    >>> result = over_keys([1.0, 2.0, 3.0])
    >>> result.mean, round(result.low, 3), round(result.high, 3)
    (2.0, -0.484, 4.484)
    """
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return OverKeys(mean, None, None, tuple(values))
    deviation = (sum((value - mean) ** 2 for value in values) / (n - 1)) ** 0.5
    half = float(stdtrit(n - 1, (1 + COVERAGE) / 2)) * deviation / n**0.5
    return OverKeys(mean, mean - half, mean + half, tuple(values))


def combine(results: Sequence[Any], fixed: frozenset[str] = frozenset()) -> Any:
    """Several results of one form as one of the same form, with every number replaced by its mean and interval.

    Args:
        results: Plain values: dictionaries, lists, numbers, texts; at least one.
        fixed: Names of facts that every key shares (how many areas there are, what the truth is), which stay as they
        are;
            so does what is not a number.

    Raises:
        ValueError: The results are not of one form.
    """
    first = results[0]
    if isinstance(first, dict):
        if any(not isinstance(result, dict) or result.keys() != first.keys() for result in results):
            raise ValueError("results of different forms")
        return {
            name: first[name] if name in fixed else combine([result[name] for result in results], fixed)
            for name in first
        }
    if isinstance(first, list):
        if any(not isinstance(result, list) or len(result) != len(first) for result in results):
            raise ValueError("results of different forms")
        return [combine(parts, fixed) for parts in zip(*results, strict=True)]
    numbers = [float(value) for value in results if isinstance(value, int | float) and not isinstance(value, bool)]
    return over_keys(numbers).as_dict() if numbers else first
