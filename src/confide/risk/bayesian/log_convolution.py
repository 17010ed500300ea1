"""Convolution of weights that are kept as logarithms: nothing underflows, and every term is as accurate as the largest.

The posterior of a tree can lie where single messages are exp(−1000) of their peak. A convolution by Fourier transforms
is accurate to 1e-16 of the *peak*, so that there it returns rounding noise, even negative weights; a direct one in
plain numbers underflows at exp(−745). Here each result is

  ln Σ_i exp(f_i + g_{n−i}) = m + ln Σ exp(f_i + g_{n−i} − m),   m the largest term,

with terms below exp(−46) of the largest left out: with N terms the result is low by at most N·1e-20, besides the
rounding of sums of positive numbers.

If f and g are concave, so is the term in i: its peak moves forward with n, and what matters is an interval around it.
Then the work is that of the intervals; otherwise all terms are looked at.
"""

from __future__ import annotations

import numpy as np

from confide.errors import Finding, ParameterError
from confide.risk.bayesian.counts import FloatArray

MOST_TERMS = 2e10
_CONCAVE = 1e-9
"""Second differences up to this are rounding: over 10^4 places they add up to 0.05, far below what is negligible."""


def is_concave(logs: FloatArray) -> bool:
    """Whether logarithms of weights are finite and concave, but for rounding."""
    return bool(np.isfinite(logs).all()) and bool((np.diff(logs, 2) <= _CONCAVE).all())


def log_convolve(one: FloatArray, other: FloatArray, *, concave: bool) -> FloatArray:
    """ln of the convolution of exp(one) and exp(other). ``concave`` says that both are, by :func:`is_concave`."""
    if len(one) * len(other) > MOST_TERMS:
        raise ParameterError(
            Finding(
                code="too-many-terms",
                what="the supports of two counts are too large to be combined",
                found=f"{len(one):,} and {len(other):,} possible counts",
                expected=f"a product of at most {MOST_TERMS:.0e}",
                remedy="give the priors smaller largest counts, or measurements to more of the nodes",
            )
        )
    # Here, because compiled code is slow to load and most commands do without.
    from confide.risk.bayesian.log_kernels import peaked, plain

    short, long = sorted((np.ascontiguousarray(one), np.ascontiguousarray(other)), key=len)
    summed: FloatArray = peaked(short, long) if concave else plain(short, long)
    return summed
