"""The normal tail, enclosed: Mills' ratio R(x) = Q(x)/φ(x) with Q(x) = P[N(0,1) > x].

R turns the curve of the Gaussian mechanism into a difference without large powers (see
:mod:`confide.privacy.conversion`), and it is what the two classical expansions give directly:

* x ≥ 3: Laplace's continued fraction R(x) = 1/T₀ with T_k = x + (k+1)/T_{k+1}. Every tail has
  x ≤ T_n ≤ x + (n+1)/x; going back from that interval encloses R, and every step contracts it.
* 0 ≤ x < 3: R(x) = 1/(2φ(x)) − Σ x^{2k+1}/(1·3·5···(2k+1)), all terms positive; once x²/(2k+3) ≤ 1/2, the rest of the
  sum is at most the last term.
* x < 0: R(x) = 1/φ(x) − R(−x).

R falls, so an enclosure of x gives one of R(x) from its ends. Derivation: ``docs/proofs/accounting.md``, section 4.3.
"""

from __future__ import annotations

import math
from decimal import Decimal

from confide.privacy.directed import Enclosure, pi

_SWITCH = 3


def mills_ratio(x: Enclosure) -> Enclosure:
    """R(x), enclosed."""
    if x.lo == x.hi:
        return _at(x.lo, x.digits)
    return Enclosure(_at(x.hi, x.digits).lo, _at(x.lo, x.digits).hi, x.digits)


def density(x: Enclosure) -> Enclosure:
    """φ(x) = exp(−x²/2)/√(2π), enclosed."""
    return 1 / _inverse_density(x)


def _inverse_density(x: Enclosure) -> Enclosure:
    return (x * x / 2).exp() * (2 * pi(x.digits)).sqrt()


def _at(x: Decimal, digits: int) -> Enclosure:
    point = Enclosure(x, x, digits)
    if x < 0:
        return _inverse_density(point) - _at(x.copy_negate(), digits)
    return _by_fraction(point) if x >= _SWITCH else _by_series(point)


def _by_fraction(x: Enclosure) -> Enclosure:
    terms = _terms(float(x.lo), x.digits)
    low, high = x, x + (terms + 1) / x
    tail = Enclosure(low.lo, high.hi, x.digits)
    for k in range(terms, 0, -1):
        tail = x + k / tail
    return 1 / tail


def _terms(x: float, digits: int) -> int:
    """How many steps shrink the interval enough: step k by k/T_k², with T_k about x/2 + √(x²/4 + k).

    The number only decides how tight the enclosure is, not whether it holds.
    """
    wanted, k = 2.303 * digits + 5, 0
    while wanted > 0:
        k += 1
        wanted -= 2 * math.log(x / 2 + math.sqrt(x * x / 4 + k)) - math.log(k)
    return k


def _by_series(x: Enclosure) -> Enclosure:
    square, term, total, k = x * x, x, x, 0
    smallest = Decimal(1).scaleb(-x.digits - 5)
    while 2 * square.hi > 2 * k + 3 or term.hi > smallest:
        k += 1
        term = term * square / (2 * k + 1)
        total += term
    rest = Enclosure(Decimal(0), term.hi, x.digits)
    return _inverse_density(x) / 2 - (total + rest)
