"""What permutation swapping costs: ε for one exchange of places, subject to what the swap leaves as it is.

In a stratum of b households each is selected with probability p, independently; a selection of exactly one is drawn
again; the places of the selected are permuted by a derangement (a permutation that leaves nobody in place), all being
as likely. With o = p / (1 − p), and Dₘ derangements of m elements, a permutation that moves m households has a
probability in proportion to oᵐ / Dₘ. Two data sets that differ by one exchange of places lead to the same result by
permutations of which one is the other times a transposition, so that their m differ by at most two. Hence

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

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from confide.errors import ParameterError
from confide.exact import Exact, exact, integer
from confide.privacy.directed import Enclosure

EXACT_TO = 40
"""Up to strata of this size e^ε is exact; beyond, it is rounded up by less than a part in 10^40."""
_DIGITS = 60


def derangements(count: int) -> int:
    """How many permutations of ``count`` elements leave none in its place: Dₘ = m Dₘ₋₁ + (−1)ᵐ.

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
        raise ParameterError(
            "selection-probability",
            "a probability of zero or one hides nothing",
            found=str(p),
            expected='a probability above zero and below one, such as "0.1"',
            remedy="correct the probability",
        )
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
