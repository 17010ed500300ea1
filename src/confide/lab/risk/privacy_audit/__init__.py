"""An audit from outside: a mechanism runs many times on made-up neighbours, and a test tells which of them it saw.

Two made-up files of records are neighbours k times over: in one there are k *twins*, records that are all alike; in the
other they were changed into other records, or are not there. The mechanism counts both files, then measures each of
them n times with fresh keys by the code that a release runs. Nothing else of it is believed. What is seen is turned
into one number, the logarithm of the likelihood ratio of both files under the noise that the plan states, summed over
all counts that the twins touch: no test tells better (Neyman & Pearson). It says "twins" above a threshold that was
fixed beforehand. With α the share of false alarms and β the power, both bounded by Clopper & Pearson (1934):

* *whatever the noise is.* ε-DP gives β ≤ e^{kε} α, (ε, δ)-DP β ≤ e^{kε} α + δ (e^{kε} − 1)/(e^ε − 1), and ρ-zCDP bounds
  the Rényi divergence of both answers, D_a(β ‖ α) ≤ a k² ρ for all a > 1 (group privacy: Dwork & Roth 2014, Theorem
  2.2; Bun & Steinke 2016, Proposition 27). Each is solved for its parameter.
* *in the form of the noise (f-DP).* Let R_c(α) be the largest power at α if all noise were c times narrower than the
  plan states. If β exceeds R_c(α), the noise is narrower than that. For Gaussian noise R_c(α) = Φ(Φ⁻¹(α) + cμ), so that
  μ ≥ Φ⁻¹(β) − Φ⁻¹(α) (Nasr et al. 2023, in Gaussian DP: Dong, Roth & Su 2022); here R_c is computed from the very laws,
  on the integers, by the distribution of their loss. Mahloujifar et al. (2024) say why this form is the tight one.
  The smallest c that is left gives ρ, or ε at δ, of one record.

Why twins: noise for one record alone may be so wide that only a million runs would tell anything. With k twins the two
files are k times as far apart, and a scale that is wrong by a factor is wrong by the same factor. k is chosen so that
the stated noise would give about one wrong answer in eleven. Where a release tells more than that of one record, the
measurements are judged in batches, each by a test of its own, and losses of batches are added: that takes their noise
to be independent, which ``confide audit noise`` looks at. Where asked for, every measurement is judged by itself too.

The bounds are lower bounds at a confidence of 95 %, all together. Nothing is proved by a low one: an audit finds noise
that is too small or a record that counts too often, never their absence. References: Jagielski, Ullman & Oprea (2020);
Steinke, Nasr & Jagielski (2023), whose audit with canaries takes one run: :func:`audit_canaries`.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
