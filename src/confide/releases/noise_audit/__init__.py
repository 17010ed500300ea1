"""The noise audit: whether what a run drew is what its plan says, each draw from its law and none of another's.

A curator knows the truth, so released minus true is the noise itself. Every number here follows from these *residuals*
and the laws of the plan, and from nothing else: the sampler, its keys and its coordinates are not asked.

Of a draw x with the law F the audit keeps P(X < x), P(X = x) and P(X > x), exact up to floats. From them come

* **evidence** against the law: for a density w on the unit interval, the mean of w over the interval that x stands for
  (P(X < x) to P(X ≤ x)) has the mean one under F, whatever F is. A product of such numbers over independent draws, or
  a mean of such products, exceeds 1/a with probability at most a (Markov; Vovk and Wang 2021). Densities that a scale
  3 % too small or too large would have, and Legendre polynomials for every other shape, are what w goes through;
* a **score** u = P(X < x) - P(X > x), the same for comonotone draws of different scales. It is the mean of a uniform
  variable on [-1, 1] given x, hence E exp(t u) ≤ exp(t² / 6) for every law. If u and v are independent,

      P(|Σ u_i v_i| ≥ c)  ≤  2 exp(-3 c² / (2 Σ v_i²)),

  without an approximation. Such sums are taken between all measurements and within each, at every shift (by one
  Fourier transform) and cell by cell within the same unit;
* **runs**: the same values, or the same signs, in as many consecutive draws as chance does not give.

All thresholds together give a false alarm in one audit of a million (:data:`ALARM`). What the audit can and cannot see:
``docs/concepts/noise-audit.md``.

Read from :mod:`~confide.releases.noise_audit.audit_of_noise`.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
