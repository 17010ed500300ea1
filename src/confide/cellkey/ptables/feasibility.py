"""Which variances a row can have at all: exactly, by a linear program with three rows.

The laws that keep the conditions of a row, the variance aside, are mixtures of a few building blocks: a point each, or
with monotonicity the uniform laws on ``v .. 0`` and the points above zero. So the extreme variances are those of

    min or max  sum c_g s_g   with   sum c_g = 1,   sum c_g m_g = 0,   sum c_g z_g - slack = p_stay,   c, slack >= 0

over the blocks ``g`` with mean ``m_g``, second moment ``s_g`` and probability ``z_g`` of zero. It is solved by the
simplex method in rational numbers with Bland's rule, which ends; that no reduced cost has the wrong sign is the
certificate. Derivation: ``docs/proofs/ptables.md``, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from confide.cellkey.ptables.settings import RowProblem

Column = tuple[Fraction, Fraction, Fraction]
_NONE = Fraction(0)


@dataclass(frozen=True, slots=True)
class VarianceRange:
    """The smallest and the largest variance, in squared units, of a law that keeps the other conditions of a row."""

    smallest: Fraction
    largest: Fraction


def variance_range(problem: RowProblem) -> VarianceRange | None:
    """The range of a row, or none if no law at all has mean zero on its values."""
    return _range(problem.noise, problem.stay, problem.tied)


@lru_cache(maxsize=4096)
def _range(noise: tuple[int, ...], stay: Fraction, tied: int) -> VarianceRange | None:
    if 0 not in noise and not noise[0] < 0 < noise[-1]:
        return None
    if all(value >= 0 for value in noise) or all(value <= 0 for value in noise):
        return VarianceRange(_NONE, _NONE)
    columns, costs = _blocks(noise, tied)
    columns.append((_NONE, _NONE, Fraction(-1)))
    costs.append(_NONE)
    start = _first_basis(columns, stay)
    smallest, largest = (sign * _simplex(columns, [sign * c for c in costs], start, stay) for sign in (1, -1))
    return VarianceRange(smallest, largest)


def _blocks(noise: tuple[int, ...], tied: int) -> tuple[list[Column], list[Fraction]]:
    """The columns (1, mean, probability of zero) and the second moments of the building blocks."""
    members = [noise[k:tied] for k in range(tied)] + [(value,) for value in noise[tied:]]
    columns = [(Fraction(1), Fraction(sum(m), len(m)), Fraction(m.count(0), len(m))) for m in members]
    return columns, [Fraction(sum(value**2 for value in m), len(m)) for m in members]


def _first_basis(columns: list[Column], stay: Fraction) -> list[int]:
    """Everything at zero, with room below; or, where zero is not a value, its two neighbours. The slack is basic."""
    means = [column[1] for column in columns[:-1]]
    slack = len(columns) - 1
    for place, column in enumerate(columns[:-1]):
        if column[1] == 0 and column[2] == 1:
            return [place, max(range(slack), key=lambda k: means[k]), slack]
    assert stay == 0, "where zero is not a value, nothing is asked of its probability"
    below = max((k for k in range(slack) if means[k] < 0), key=lambda k: means[k])
    above = min((k for k in range(slack) if means[k] > 0), key=lambda k: means[k])
    return [below, above, slack]


def _simplex(columns: list[Column], costs: list[Fraction], start: list[int], stay: Fraction) -> Fraction:
    """The least cost. Bland's rule: the first column that improves enters, the first that limits leaves."""
    right: Column = (Fraction(1), _NONE, stay)
    basis = list(start)
    while True:
        chosen = [columns[k] for k in basis]
        own = (costs[basis[0]], costs[basis[1]], costs[basis[2]])
        weights = _solve(chosen, right)
        prices = _solve([(c[0], c[1], c[2]) for c in zip(*chosen, strict=True)], own)
        enters = next((k for k, c in enumerate(columns) if costs[k] < _product(prices, c) and k not in basis), None)
        if enters is None:
            return _product(weights, own)
        moves = _solve(chosen, columns[enters])
        ratios = [(weights[r] / moves[r], basis[r], r) for r in range(3) if moves[r] > 0]
        assert ratios, "probabilities are bounded"
        basis[min(ratios)[2]] = enters


def _solve(columns: list[Column], right: Column) -> Column:
    """The solution of a 3 by 3 system given by its columns, by Cramer's rule."""
    whole = _determinant(columns)
    one, two, three = columns
    return (
        _determinant([right, two, three]) / whole,
        _determinant([one, right, three]) / whole,
        _determinant([one, two, right]) / whole,
    )


def _determinant(c: list[Column]) -> Fraction:
    return (
        c[0][0] * (c[1][1] * c[2][2] - c[2][1] * c[1][2])
        - c[1][0] * (c[0][1] * c[2][2] - c[2][1] * c[0][2])
        + c[2][0] * (c[0][1] * c[1][2] - c[1][1] * c[0][2])
    )


def _product(left: Column, right: Column) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), _NONE)
