"""Messages on a tree: weights of counts as logarithms, joined by convolution, with an account of what was cut off.

Internal to :mod:`confide.risk.bayesian.tree`. A message is exp(scale + logs) for a range of counts, with the largest of
``logs`` at 0; its scale is common to all counts, so that it cancels from posteriors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import expm1, inf, log

import numpy as np

from confide.errors import Finding, ParameterError
from confide.risk.bayesian.counts import LARGEST_COUNT, FloatArray
from confide.risk.bayesian.log_convolution import is_concave, log_convolve
from confide.risk.bayesian.priors import CountPrior

_WIDEST = 1 << 24


@dataclass(frozen=True)
class Measured:
    """exp(−ρ(x*−n)²), or 1 if nothing was released."""

    rho: float = 0.0
    released: int = 0

    def logs(self, first: int, number: int) -> FloatArray:
        """For the counts from ``first`` on."""
        return -self.rho * (self.released - np.arange(first, first + number, dtype=np.float64)) ** 2


@dataclass(frozen=True)
class Message:
    """Weights of the counts from ``first`` on. ``weight`` is ln of the product of the total weights of its leaves."""

    first: int
    logs: FloatArray
    scale: float
    weight: float
    concave: bool

    def __len__(self) -> int:
        return len(self.logs)


@dataclass
class Passing:
    """One go, in which messages are cut where they fall below exp(−cut) of their peak.

    ``lost`` has, for every cut, ln of the weight cut off, divided by that of the leaves it belongs to.
    """

    cut: float
    lost: list[float] = field(default_factory=list)

    @property
    def log_lost(self) -> float:
        """ln of all that was cut off, over the weight of all leaves: no factor of an inner node exceeds 1."""
        return float(np.logaddexp.reduce([*self.lost, -inf]))

    def leaf(self, prior: CountPrior, measured: Measured) -> Message:
        """π(n)·exp(−ρ(x*−n)²): the whole of a given law, or what lies around the peak of a log-concave one."""
        centre = float(measured.released if measured.rho else prior.first)
        mode = prior.mode(np.array([centre]), measured.rho or 1e-12)
        middle, half = (prior.first, LARGEST_COUNT) if mode is None else (int(mode[0]), 64)
        while True:
            low = max(prior.first, middle - half)
            high = middle + half if prior.last is None else min(prior.last, middle + half)
            if high - low >= _WIDEST:
                raise _too_wide(high - low + 1)
            logs = prior.log_weight(np.arange(low, high + 1, dtype=np.int64)) + measured.logs(low, high - low + 1)
            ends = [(logs[0], logs[1])] if low > prior.first else []
            ends += [(logs[-1], logs[-2])] if high != prior.last else []
            if all(outer < inner and outer < logs.max() - self.cut for outer, inner in ends):
                break
            half *= 2
        # Beyond an open end the ratio of neighbours only falls, so that the tail is at most outer·r/(1−r).
        tails = [float(2 * outer - inner) - log(-expm1(float(outer - inner))) for outer, inner in ends]
        weight = float(np.logaddexp.reduce([*logs, *tails]))
        self.lost += [tail - weight for tail in tails]
        return self.trimmed(low, logs, 0.0, weight)

    def joined(self, messages: list[Message]) -> Message | None:
        """The law of a sum, by convolution in pairs, so that long messages meet late."""
        while len(messages) > 1:
            pairs = [self._pair(*messages[place : place + 2]) for place in range(0, len(messages) - 1, 2)]
            messages = pairs + messages[2 * len(pairs) :]
        return messages[0] if messages else None

    def times(self, message: Message, measured: Measured) -> Message:
        """A message with the factor of its node."""
        logs = message.logs + measured.logs(message.first, len(message))
        return self.trimmed(message.first, logs, message.scale, message.weight)

    def _pair(self, one: Message, other: Message) -> Message:
        logs = log_convolve(one.logs, other.logs, concave=one.concave and other.concave)
        return self.trimmed(one.first + other.first, logs, one.scale + other.scale, one.weight + other.weight)

    def trimmed(self, first: int, logs: FloatArray, scale: float, weight: float) -> Message:
        """A message without its ends, which are accounted for."""
        top = float(logs.max())
        kept = np.flatnonzero(logs >= top - self.cut)
        begin, end = int(kept[0]), int(kept[-1]) + 1
        gone = np.concatenate([logs[:begin], logs[end:]])
        if np.isfinite(gone).any():
            self.lost.append(float(np.logaddexp.reduce(gone)) + scale - weight)
        inside = logs[begin:end] - top
        return Message(first + begin, inside, scale + top, weight, is_concave(inside))


def _too_wide(counts: int) -> ParameterError:
    return ParameterError(
        Finding(
            code="too-many-counts",
            what="a leaf has too many possible counts",
            found=f"more than {counts:,}",
            expected=f"at most {_WIDEST:,} that matter",
            remedy="give its prior a smaller last count or mean, or the leaf a measurement",
        )
    )
