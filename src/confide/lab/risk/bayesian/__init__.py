"""What an adversary who updates beliefs learns from noisy counts (Kazan & Reiter 2024).

Z. Kazan and J. P. Reiter, *Assessing statistical disclosure risk for differentially private, hierarchical count data,
with application to the 2020 U.S. decennial census* (2024). Nothing here reads records.

* :mod:`~confide.lab.risk.bayesian.evidence`: what a released count says, for any noise with probabilities;
* :mod:`~confide.lab.risk.bayesian.one_level`: posteriors, risks and decisions from one count, and other questions with
  the same answer;
* :mod:`~confide.lab.risk.bayesian.sequential`: several counts of the same cell, at several levels or times;
* :mod:`~confide.lab.risk.bayesian.sibling_detail`: an adversary who looks at all cells;
* :mod:`~confide.lab.risk.bayesian.two_level`: an adversary who also sees the count one level up;
* :mod:`~confide.lab.risk.bayesian.decision_map`: how often that one decides rightly;
* :mod:`~confide.lab.risk.bayesian.tree`: an adversary who sees all counts of a hierarchy;
* :mod:`~confide.lab.risk.bayesian.sibling_detail`: one who looks at every sibling, with a sparse prior;
* :mod:`~confide.lab.risk.bayesian.two_level`: one who sees post-processed counts.

The questions of a user are :func:`confide.lab.risk.bayes` and :func:`confide.lab.risk.hierarchy`.

>>> from confide.lab.risk.bayesian import assess, evidence_of, gaussian_for
>>> count = evidence_of(gaussian_for("0.0992"))
>>> round(assess(count, ["1/2"])[0].risk, 4)
1.0473
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
