"""The (epsilon, delta) reading of a table: how well two counts that differ by one can be told apart from one result.

For neighbouring counts ``i`` and ``i + 1`` with results distributed as ``P`` and ``Q``,

    delta(epsilon) = max( sum_j max(0, P_j - e^epsilon Q_j),  sum_j max(0, Q_j - e^epsilon P_j) ),

a sum over finitely many results, so the curve is exact up to floating-point rounding. A law with bounded noise has
results that only one of the two counts can have: their probability is the delta that remains however large epsilon is.
For the last row, ``p_v ~ exp(-b v^2)``, this is ``delta = p(D)`` with ``epsilon = b (2 D - 1)``, the largest
log-ratio of the results that both can have (Bach 2020, section 2.3, on bounded noise in general).

This is a property of one cell with one key. It is no differential privacy of a release: :data:`NOT_A_GUARANTEE`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from confide.errors import ParameterError
from confide.noise.ptables.design import Design
from confide.noise.ptables.ptable import PTable

NOT_A_GUARANTEE = (
    "These figures compare two counts that differ by one, from one published cell with one key. They are not a privacy "
    "loss of a release: a person is in many cells whose noise is not independent, the same cell has the same noise "
    "every time, zero is never changed, and the keys stay the same from release to release. No accountant adds them up."
)

Probabilities = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class NeighbouringCounts:
    """Two neighbouring counts: the laws of their results."""

    i: int
    lower: Probabilities
    upper: Probabilities

    @property
    def remaining_delta(self) -> float:
        """The probability of results that only one of the two counts can have: delta at any epsilon."""
        ways = ((self.lower, self.upper), (self.upper, self.lower))
        return max(math.fsum(p for j, p in one.items() if j not in other) for one, other in ways)

    @property
    def epsilon(self) -> float:
        """The largest absolute log-ratio of the results that both counts can have."""
        common = self.lower.keys() & self.upper.keys()
        return max((abs(math.log(self.lower[j] / self.upper[j])) for j in common), default=0.0)

    def delta(self, epsilon: float) -> float:
        """The exact delta at an epsilon."""
        factor = math.exp(epsilon)
        ways = ((self.lower, self.upper), (self.upper, self.lower))
        return max(math.fsum(max(0.0, p - factor * other.get(j, 0.0)) for j, p in one.items()) for one, other in ways)


@dataclass(frozen=True)
class EpsilonDeltaReading:
    """The reading of a table for counts: every pair of neighbouring counts, the last two using the same row."""

    pairs: tuple[NeighbouringCounts, ...]

    @property
    def large_counts(self) -> NeighbouringCounts:
        """Two counts that both use the last row."""
        return self.pairs[-1]

    def delta(self, epsilon: float) -> float:
        """The largest delta at an epsilon over all pairs."""
        if not epsilon >= 0:
            raise ParameterError("bad-epsilon", "epsilon is negative", found=repr(epsilon), expected="zero or more")
        return max(pair.delta(epsilon) for pair in self.pairs)

    def curve(self, epsilons: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)) -> list[dict[str, float]]:
        """Epsilon and delta for large counts and for all pairs."""
        return [
            {"epsilon": e, "delta_large_counts": self.large_counts.delta(e), "delta_all_counts": self.delta(e)}
            for e in epsilons
        ]

    def as_dict(self) -> dict[str, object]:
        large = self.large_counts
        return {
            "epsilon": large.epsilon,
            "delta": large.remaining_delta,
            "worst_pair": max(self.pairs, key=lambda pair: pair.remaining_delta).i,
            "delta_all_counts": max(pair.remaining_delta for pair in self.pairs),
            "pairs": [
                {"i": pair.i, "epsilon": pair.epsilon, "delta": pair.remaining_delta, "delta_at_zero": pair.delta(0.0)}
                for pair in self.pairs
            ],
            "curve": self.curve(),
            "differential_privacy_of_a_release": False,
            "note": NOT_A_GUARANTEE,
        }


def epsilon_delta_reading(source: Design | PTable) -> EpsilonDeltaReading:
    """How well two neighbouring counts can be told apart from one result of a table.

    Args:
        source: A generated table, or one for lookups; it must be for counts.

    >>> from confide.noise.ptables import count_settings, generate
    >>> reading = epsilon_delta_reading(generate(count_settings(5, 2)))
    >>> round(reading.large_counts.epsilon, 3), round(reading.large_counts.remaining_delta, 6)
    (2.247, 0.000549)
    """
    if isinstance(source, PTable):
        rows = [{value: keys / source.modulus for value, keys in row.key_counts().items()} for row in source.rows]
        counts, integer_noise = [row.i for row in source.rows], source.step == 1 and source.cycle == 1
    else:
        rows = [{v: p for v, p in zip(row.units, row.p, strict=True) if p > 0} for row in source.rows]
        counts, integer_noise = [row.i for row in source.rows], source.settings.step == 1
    if not integer_noise or counts != list(range(len(counts))):
        raise ParameterError(
            "no-reading",
            "only a table with a row for every count has an (epsilon, delta) reading",
            expected="a table for counts",
            remedy="leave the reading out",
        )
    results = [{i + v: p for v, p in row.items()} for i, row in enumerate((*rows, rows[-1]))]
    pairs = [NeighbouringCounts(i, results[i], results[i + 1]) for i in range(len(results) - 1)]
    return EpsilonDeltaReading(tuple(pairs))
