"""The optimality certificate of a row: how far the conditions, the signs and the two values are from perfect.

The probabilities are binary floating-point numbers, hence rational; the conditions are evaluated on them exactly, and
the figures say by how much the printed law misses them. The gap is the dual value less the entropy: it bounds what any
other law could have more, whatever the numerical method did. Derivation: ``docs/proofs/ptables.md``, section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from confide.cellkey.ptables.settings import RowProblem

TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Multipliers:
    """The dual solution, in units of the noise of the problem; ``mono[k]`` belongs to ``p_k <= p_(k+1)``."""

    a: float
    b: float
    nu: float
    mono: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """``primal``: the largest amount by which a condition is missed; ``dual``: the largest by which a multiplier has
    the wrong sign; ``gap``: the entropy that another law could have more, at most, in bits."""

    primal: float
    dual: float
    gap: float

    @property
    def holds(self) -> bool:
        return self.primal <= TOLERANCE and self.dual <= TOLERANCE and abs(self.gap) <= 1e3 * TOLERANCE

    def as_dict(self) -> dict[str, float | bool]:
        return {"primal": self.primal, "dual": self.dual, "gap": self.gap, "holds": self.holds}


def violations(problem: RowProblem, p: tuple[float, ...], step: int = 1) -> dict[str, Fraction]:
    """By how much a law misses each condition, exactly; the variance in squared units of ``step`` units."""
    exact = [Fraction(value) for value in p]
    second = sum((q * v * v for q, v in zip(exact, problem.noise, strict=True)), Fraction(0))
    excess = (second - problem.variance) / step**2
    found = {
        "sum": abs(sum(exact, Fraction(0)) - 1),
        "mean": abs(sum((q * v for q, v in zip(exact, problem.noise, strict=True)), Fraction(0))) / step,
        "variance": abs(excess) if problem.equality else max(excess, Fraction(0)),
        "negative": max(-min(exact), Fraction(0)),
    }
    tied = problem.tied
    found["monotone"] = max((a - b for a, b in pairwise(exact[:tied])), default=Fraction(0))
    if problem.stay and problem.zero is not None:
        found["stay"] = problem.stay - exact[problem.zero]
    return {name: max(value, Fraction(0)) for name, value in found.items()}


def certify(problem: RowProblem, p: tuple[float, ...], multipliers: Multipliers | None) -> Certificate:
    """The certificate of a law with these multipliers; without any there is one law alone, and no gap."""
    primal = float(max(violations(problem, p).values()))
    if multipliers is None:
        return Certificate(primal, 0.0, 0.0)
    a, b, nu, mono = multipliers.a, multipliers.b, multipliers.nu, multipliers.mono
    signed = [nu, *mono] if problem.equality else [b, nu, *mono]
    dual = max(0.0, -min(signed))
    # The dual value is that of the rounded multipliers: log Z is formed again from them, not taken from the search.
    exponents = []
    for k, v in enumerate(problem.noise):
        own = -a * v - b * v * v + (nu if v == 0 else 0.0)
        own -= mono[k] if k < len(mono) else 0.0
        own += mono[k - 1] if 0 < k <= len(mono) else 0.0
        exponents.append(own)
    top = max(exponents)
    dual_value = top + math.log(math.fsum(math.exp(e - top) for e in exponents))
    dual_value += b * float(problem.variance) - nu * float(problem.stay)
    entropy = -math.fsum(q * math.log(q) for q in p if q > 0)
    return Certificate(primal, dual, (dual_value - entropy) / math.log(2))
