"""(ε, δ) of a whole plan, out of parts that add up.

Noise with a bound has no pure loss and no ρ: some results are possible for one of two neighbouring counts alone. What a
list of measurements promises at a δ is found from five sums over the counts that a neighbour changes, each exact:

========== ================================================= ======================================
part       of                                                a count that changes by one adds
========== ================================================= ======================================
pure       geometric noise, truncated or not                 ε
pure_rho   the same noise, as ρ                              ε²/2
rho        discrete Gaussian noise, truncated or not         1/(2σ²)
outside    truncated noise                                   P[X = E], of the truncated law
beyond     truncated noise                                   P[|X| > E], of the law without a bound
========== ================================================= ======================================

With δ' = (δ − outside)(1 − beyond), each of these holds, and the smallest ε is taken:

* (pure, outside), if there is no Gaussian noise;
* (pure + ε_CKS(rho, δ'), δ) and (ε_CKS(rho + pure_rho, δ'), δ), if δ' > 0,

where ε_CKS is :func:`confide.privacy.conversion.cks_epsilon`; such an ε is rounded up to twelve digits.
Derivation: ``docs/proofs/accounting.md``, section 7.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from confide.errors import Finding, ParameterError
from confide.exact import Exact, rounded_up
from confide.privacy.calibration import Distribution, gaussian_loss, geometric_loss, geometric_zcdp_loss
from confide.privacy.conversion import cks_epsilon, probability
from confide.privacy.definitions import ApproxDP
from confide.privacy.events import Measurement, TruncatedMeasurement
from confide.privacy.sensitivity import Sensitivity


class Parts(NamedTuple):
    """The five sums."""

    pure: Fraction
    pure_rho: Fraction
    rho: Fraction
    outside: Fraction
    beyond: Fraction


def parts_of(event: Measurement | TruncatedMeasurement, sensitivity: Sensitivity) -> Parts:
    """What one measurement adds to the sums, each record being in a fixed number of its cells."""
    measurement = event if isinstance(event, Measurement) else event.measurement
    outside, beyond = (Fraction(0), Fraction(0)) if isinstance(event, Measurement) else (event.outside, event.beyond)
    times, changed = measurement.times, measurement.times * sensitivity.l1
    bounds = changed * outside, changed * beyond
    if measurement.distribution is Distribution.DISCRETE_GAUSSIAN:
        rho = times * gaussian_loss(measurement.parameter, sensitivity).rho
        return Parts(Fraction(0), Fraction(0), rho, *bounds)
    pure = times * geometric_loss(measurement.parameter, sensitivity).epsilon
    rho = times * geometric_zcdp_loss(measurement.parameter, sensitivity).rho
    return Parts(pure, rho, Fraction(0), *bounds)


def approximate_loss(parts: Parts, delta: Exact | None) -> ApproxDP:
    """The smallest ε that is known to hold with a δ of at most ``delta``, and that δ. Without one: Gaussian noise has
    no ε."""
    found = [] if parts.rho else [ApproxDP(parts.pure, parts.outside)]
    if delta is not None:
        limit = probability(delta)
        spare = (limit - parts.outside) * (1 - parts.beyond) if parts.beyond < 1 else Fraction(0)
        if spare > 0 and parts.rho + parts.pure_rho:
            mixed = parts.pure + Fraction(cks_epsilon(parts.rho, spare))
            alone = Fraction(cks_epsilon(parts.rho + parts.pure_rho, spare))
            found.append(ApproxDP(rounded_up(min(mixed, alone)), limit))
    if not found:
        raise ParameterError(_no_epsilon(parts, delta))
    return min(found, key=lambda loss: (loss.epsilon, loss.delta))


def _no_epsilon(parts: Parts, delta: Exact | None) -> Finding:
    if delta is None:
        return Finding(
            code="no-pure-loss",
            what="discrete Gaussian noise has an epsilon at a delta only",
            found="no delta",
            expected='a delta such as "1e-10"',
            remedy="name a delta, account in zcdp, or plan geometric noise",
        )
    return Finding(
        code="delta-too-small",
        what="the bound of the noise gives away more than delta allows, whatever epsilon is",
        found=f"delta = {delta}; results that only one of two neighbours can have: {float(parts.outside):.3g}",
        expected="results at the edge that are rarer than delta",
        remedy="take a larger bound, a larger delta, or noise without a bound",
    )
