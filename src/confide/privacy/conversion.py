"""To ε: from ρ at a δ, three ways, each rounded up, and back, rounded down; and from the permutations of a swap.

* Bun & Steinke (2016), Proposition 1.3: ε = ρ + 2√(ρ ln(1/δ)). Simple, the loosest, and the one that also bounds the
  probability that the posterior odds move by more than exp(ε) (:mod:`confide.privacy.statements`).
* Canonne, Kamath & Steinke (2020), section 2.3: the infimum over α > 1 of αρ + ln(1/(αδ))/(α−1) + ln(1−1/α). Holds
  for every ρ-zCDP mechanism. Every α gives a valid ε, so an inexact minimiser costs tightness only.
* The Gaussian limit: the exact curve of the Gaussian mechanism with this ρ (Balle & Wang 2018, Theorem 8). A release of
  many discrete Gaussian measurements comes close to it, but it is **not** a bound for every ρ-zCDP mechanism: it is
  for comparison. For a bound of a given list of measurements see :mod:`confide.privacy.loss_distribution`.

Everything is evaluated in directed decimal arithmetic; a returned float is never below the real value of the formula
(``cks_rho``: the fraction is never above) and within one part in 10¹². Derivation: ``docs/proofs/accounting.md``, 4.

*Permutation swapping* costs ε for one exchange of places, subject to what the swap leaves as it is.
In a stratum of b households each is selected with probability p, independently; a selection of exactly one is drawn
again; the places of the selected are permuted by a derangement (a permutation that leaves nobody in place), all being
as likely. With o = p / (1 − p), and Dₘ derangements of m elements, a permutation that moves m households has a
probability in proportion to oᵐ / Dₘ. Two data sets that differ by one exchange of places lead to the same result by
permutations such that one is the other times a transposition, so that their m differ by at most two. Hence

    e^ε(b, p) = max { o^(m−k) · D_k / D_m :  m, k in {0, 2, 3, …, b}, |m − k| ≤ 2 }
              = 1                                          for b < 2,
              = max(o², 1/o²)                              for b = 2,
              = max(o², 1/o², 2/o)                         for b = 3,
              = max(o², (D_b / D_(b−2)) / o²)              for b > 3,

a rational number, which is reached where all households of a stratum, and all places, differ. It rises with b.

Proof, and full enumeration: ``docs/proofs/swapping.md``, section 7. Reference: J. Bailie, R. Gong and X.-L. Meng, *A
refreshment stirred, not shaken*, 2025 (arXiv 2501.08449, 2504.15246).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from confide.errors import ParameterError
from confide.exact import Exact, as_delta, exact, integer, nonnegative
from confide.privacy.definitions import ZCDP, ApproxDP, Enclosure, density, float_up, mills_ratio, tighten

_ROUGH = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SHORT = Context(prec=30, Emin=MIN_EMIN, Emax=MAX_EMAX)
_ZERO = Decimal(0)
_CLOSE = Decimal("1e-32")
_NEXT_TO_ZERO = Decimal("1e-60")  # an order α this close to 1 is as good as any closer


def bun_steinke_epsilon(rho: Exact, delta: Exact) -> float:
    """ρ + 2√(ρ ln(1/δ)), rounded up.

    Args:
        rho: The loss ρ, exact, zero or more.
        delta: δ, exact, strictly between 0 and 1.

    Returns:
        ε.

    >>> round(bun_steinke_epsilon("1/2", "1e-10"), 3)
    7.286
    """
    r, d = nonnegative(rho, "rho"), as_delta(delta)
    return float_up(tighten(lambda digits: r + 2 * (r * -Enclosure.of(d, digits).ln()).sqrt()).hi) if r else 0.0


def cks_epsilon(rho: Exact, delta: Exact) -> float:
    """The smallest ε that ρ-zCDP implies at δ by Canonne, Kamath & Steinke, rounded up.

    Args:
        rho: The loss ρ, exact, zero or more.
        delta: δ, exact, strictly between 0 and 1.

    Returns:
        ε.

    >>> round(cks_epsilon("1/2", "1e-10"), 3)
    6.839
    """
    r, d = nonnegative(rho, "rho"), as_delta(delta)
    return float_up(_cks_upper(r, d)) if r else 0.0


def cks_delta(rho: Exact, epsilon: Exact) -> float:
    """The smallest δ that ρ-zCDP implies at ε by Canonne, Kamath & Steinke, rounded up.

    exp((α−1)(αρ−ε)) (1−1/α)^α/(α−1) at the α with (2α−1)ρ − ε + ln(1−1/α) = 0.

    Args:
        rho: The loss ρ, exact, zero or more.
        epsilon: ε, exact, zero or more.

    Returns:
        δ.

    >>> f"{cks_delta('1/2', 6):.3g}"
    '1.63e-08'
    """
    r, e = nonnegative(rho, "rho"), nonnegative(epsilon, "epsilon")
    if not r:
        return 0.0
    rr, ee = _rough(r), _rough(e)
    with localcontext(_ROUGH):
        high = (ee - rr + ((ee - rr) ** 2 + 8 * rr).sqrt()) / (4 * rr)
        u = _root(lambda u: (2 * u + 1) * rr - ee + (u / (1 + u)).ln(), high)

    def formula(digits: int) -> Enclosure:
        order = Enclosure.of(u, digits)
        alpha = order + 1
        return (order * (alpha * r - e) + alpha * (order / alpha).ln() - order.ln()).exp()

    return min(1.0, float_up(tighten(formula).hi))


def cks_rho(epsilon: Exact, delta: Exact) -> Fraction:
    """The largest ρ whose :func:`cks_epsilon` at δ is at most ε, rounded down to 15 significant digits.

    For every α, ρ = (ε − ln(1/(αδ))/(α−1) − ln(1−1/α))/α will do; the best α is where that ρ has its minimum of
    :func:`cks_epsilon`.

    Args:
        epsilon: ε, exact, zero or more.
        delta: δ, exact, strictly between 0 and 1.

    Returns:
        ρ, exact.

    >>> float(round(cks_rho(1, "1e-10"), 6))
    0.013243
    """
    e, d = nonnegative(epsilon, "epsilon"), as_delta(delta)
    ee, dd = _rough(e), _rough(d)
    with localcontext(_ROUGH):
        u = _root(lambda u: ee + (dd * (1 + u)).ln() * (2 * u + 1) / u**2 - (u / (1 + u)).ln(), 1 / dd - 1)

    def formula(digits: int) -> Enclosure:
        order = Enclosure.of(u, digits)
        return (e - _moment_terms(order, d)) / (order + 1)

    digits15 = Context(prec=15, rounding=ROUND_FLOOR)
    rho = digits15.plus(tighten(formula).lo)
    while rho > 0 and _cks_upper(Fraction(rho), d) > e:
        rho = digits15.next_minus(rho)
    return Fraction(max(rho, _ZERO))


def gaussian_limit_epsilon(rho: Exact, delta: Exact) -> float:
    """The exact ε at δ of the Gaussian mechanism with this ρ, rounded up. For comparison: see the module.

    Args:
        rho: The loss ρ, exact, zero or more.
        delta: δ, exact, strictly between 0 and 1.

    Returns:
        ε.

    >>> round(gaussian_limit_epsilon("1/2", "1e-10"), 3)
    6.548
    """
    return _gaussian_limit(nonnegative(rho, "rho"), as_delta(delta))


@lru_cache(maxsize=1024)
def _gaussian_limit(r: Fraction, d: Fraction) -> float:
    if not r or _gaussian_delta(r, Fraction(0)).hi <= d:
        return 0.0
    candidate = float_up(_gaussian_search(r, _rough(d), Decimal(cks_epsilon(r, d))))
    while _gaussian_delta(r, Fraction(candidate)).hi > d:  # δ(ε) falls: this proves that the candidate is not too small
        candidate = math.nextafter(candidate, math.inf)
    return candidate


def gaussian_limit_delta(rho: Exact, epsilon: Exact) -> float:
    """The exact δ at ε of the Gaussian mechanism with this ρ, rounded up. For comparison: see the module.

    Args:
        rho: The loss ρ, exact, zero or more.
        epsilon: ε, exact, zero or more.

    Returns:
        δ.

    >>> f"{gaussian_limit_delta('1/2', 6):.3g}"
    '2.79e-09'
    """
    r, e = nonnegative(rho, "rho"), nonnegative(epsilon, "epsilon")
    return min(1.0, float_up(_gaussian_delta(r, e).hi)) if r else 0.0


def epsilons(rho: Exact, delta: Exact) -> dict[str, float]:
    """The ε of a zCDP loss at a δ in the three ways of this module, each rounded up, by the name of the way.

    Args:
        rho: The loss ρ, exact, zero or more.
        delta: δ, exact, strictly between 0 and 1.

    Returns:
        ``bun_steinke``, ``canonne_kamath_steinke`` and ``gaussian_limit``. The first two are bounds for every ρ-zCDP
        release; the last is for comparison.

    >>> {way: round(epsilon, 3) for way, epsilon in epsilons("1/2", "1e-10").items()}
    {'bun_steinke': 7.286, 'canonne_kamath_steinke': 6.839, 'gaussian_limit': 6.548}
    """
    return {
        "bun_steinke": bun_steinke_epsilon(rho, delta),
        "canonne_kamath_steinke": cks_epsilon(rho, delta),
        "gaussian_limit": gaussian_limit_epsilon(rho, delta),
    }


def to_approximate(loss: ZCDP, delta: Exact) -> ApproxDP:
    """The (ε, δ) guarantee that a zCDP guarantee implies, by Canonne, Kamath & Steinke.

    Args:
        loss: In zCDP.
        delta: δ, exact, strictly between 0 and 1.

    Returns:
        The guarantee, with ε as an exact number that is not below the true one.

    >>> float(to_approximate(ZCDP("1/2"), "1e-10").epsilon)
    6.839329413120849
    """
    return ApproxDP(Fraction(cks_epsilon(loss.rho, delta)), exact(delta, "delta"))


@lru_cache(maxsize=1024)
def _cks_upper(rho: Fraction, delta: Fraction) -> Decimal:
    """Canonne, Kamath & Steinke's ε, from above. The minimum over α = 1 + u is where ρu² + ln(1+u) = ln(1/δ)."""
    r, d = _rough(rho), _rough(delta)
    with localcontext(_ROUGH):
        u = _root(lambda u: r * u**2 + (d * (1 + u)).ln(), min((-d.ln() / r).sqrt(), 1 / d))

    def formula(digits: int) -> Enclosure:
        order = Enclosure.of(u, digits)
        return (order + 1) * rho + _moment_terms(order, delta)

    return max(_ZERO, tighten(formula).hi)


def _moment_terms(u: Enclosure, delta: Fraction) -> Enclosure:
    """ln(1/(αδ))/(α−1) + ln(1−1/α) with α = 1 + u."""
    alpha = u + 1
    return (u / alpha).ln() - (alpha * delta).ln() / u


def _gaussian_delta(rho: Fraction, epsilon: Fraction) -> Enclosure:
    """δ(ε) = Φ(−a) − exp(ε)Φ(−b) = φ(a)(R(a) − R(b)) with μ = √(2ρ), a = ε/μ − μ/2, b = ε/μ + μ/2."""

    def formula(digits: int) -> Enclosure:
        mu = Enclosure.of(2 * rho, digits).sqrt()
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        if a.hi < 0:  # Φ(−a) is close to one: written as 1 − φ(a)R(−a)
            return 1 - density(a) * (mills_ratio(-a) + mills_ratio(b))
        return density(a) * (mills_ratio(a) - mills_ratio(b))

    return tighten(formula)


def _gaussian_search(rho: Fraction, delta: Decimal, high: Decimal) -> Decimal:
    """Where δ(ε) = δ, by Newton's method on ln δ(ε) between 0 and ``high``: where to look, not what to believe.

    The derivative of ln δ(ε) is −exp(ε)Φ(−b)/δ(ε) = −φ(a)R(b)/δ(ε).
    """
    low, guess = _ZERO, high
    with localcontext(_ROUGH):
        for _ in range(200):
            value = _gaussian_delta(rho, Fraction(guess)).hi
            mu = Enclosure.of(2 * rho, 50).sqrt()
            a, b = Fraction(guess) / mu - mu / 2, Fraction(guess) / mu + mu / 2
            low, high = (guess, high) if value > delta else (low, guess)
            following = guess + (value / delta).ln() * value / (density(a) * mills_ratio(b)).hi
            if not low <= following <= high:
                following = (low + high) / 2
            if abs(following - guess) <= following.scaleb(-22):
                break
            guess = following.normalize(_SHORT)
    return guess


def _root(rising: Callable[[Decimal], Decimal], high: Decimal) -> Decimal:
    """The zero of a rising function on (0, high], to about 30 digits: where to evaluate, not what to believe."""
    low = high
    while rising(low) > 0 and low > _NEXT_TO_ZERO:
        high, low = low, low / 4
    if rising(low) > 0:
        return low  # the zero is closer to 0 than any order that is worth looking at
    # The Illinois method: where the straight line through both ends meets zero; an end that stays twice counts half.
    at_low, at_high, guess = rising(low), rising(high), high
    for _ in range(100):
        before = guess
        guess = (low + high) / 2 if at_high == at_low else high - at_high * (high - low) / (at_high - at_low)
        value = rising(guess)
        if value > 0:
            at_low = at_low / 2 if high == before else at_low
            high, at_high = guess, value
        else:
            at_high = at_high / 2 if low == before else at_high
            low, at_low = guess, value
        if abs(guess - before) <= guess * _CLOSE:
            return guess
    return high


def _rough(value: Fraction) -> Decimal:
    return _ROUGH.divide(Decimal(value.numerator), Decimal(value.denominator))


# What permutation swapping costs: ε for one exchange of places, subject to what the swap leaves as it is.


EXACT_TO = 40
"""Up to strata of this size e^ε is exact; beyond, it is rounded up by less than a part in 10^40."""
_DIGITS = 60


def derangements(count: int) -> int:
    """How many permutations of ``count`` elements leave none in its place: Dₘ = m Dₘ₋₁ + (−1)ᵐ.

    Args:
        count: How many elements, zero or more.

    Returns:
        The number of permutations.

    >>> [derangements(m) for m in range(8)]
    [1, 0, 1, 2, 9, 44, 265, 1854]
    """
    number = 1
    for m in range(1, count + 1):
        number = m * number + (-1) ** m
    return number


def exchange_odds(largest_stratum: int, probability: Exact) -> Fraction:
    """e^ε: how much likelier a release is, at most, once two households of one stratum have exchanged their places.

    Args:
        largest_stratum: The number of households in the largest stratum, or a bound of it: b.
        probability: The probability that a household is selected, above zero and below one; exact, never a float.

    Returns:
        The exact number for strata of up to :data:`EXACT_TO` households, and a bound next to it for larger ones.

    Raises:
        ParameterError: With a probability of zero or one, the places would be published as they are, or everybody's
            would be known to be wrong.

    >>> exchange_odds(4, "1/2"), exchange_odds(4, "3/4"), exchange_odds(3, "1/20")
    (Fraction(9, 1), Fraction(9, 1), Fraction(361, 1))
    """
    b, p = integer(largest_stratum, "largest_stratum", 0), exact(probability, "probability")
    if not 0 < p < 1:
        raise ParameterError("selection-probability", found=str(p))
    odds = p / (1 - p)
    if b < 2:
        return Fraction(1)
    if b == 2:
        return max(odds**2, 1 / odds**2)
    if b == 3:
        return max(odds**2, 1 / odds**2, 2 / odds)
    return max(odds**2, _ratio(b) / odds**2)


def _ratio(b: int) -> Fraction:
    """D_b / D_(b−2) = (b − 1) (b − (−1)^b / D_(b−2)); or a number that is larger by almost nothing."""
    if b <= EXACT_TO:
        return Fraction(derangements(b), derangements(b - 2))
    return (b - 1) * (b + Fraction(1, derangements(EXACT_TO - 2)))


def exchange_epsilon(largest_stratum: int, probability: Exact, digits: int = 6) -> Fraction:
    """ε, the logarithm of :func:`exchange_odds`, rounded up.

    Args:
        largest_stratum: The number of households in the largest stratum, or a bound of it.
        probability: The probability that a household is selected; exact, never a float.
        digits: How many digits after the point.

    Returns:
        The least number with so many digits that is not below ε.

    >>> [float(exchange_epsilon(b, p, 2)) for b in (100, 1000) for p in ("1/20", "1/2")]
    [15.09, 9.21, 19.71, 13.82]
    """
    odds = exchange_odds(largest_stratum, probability)
    # One has the logarithm zero, and an enclosure of it would be rounded up.
    above = Decimal(0) if odds == 1 else Enclosure.of(odds, _DIGITS).ln().hi
    return Fraction(above.quantize(Decimal(1).scaleb(-digits), ROUND_CEILING, Context(prec=_DIGITS)))
