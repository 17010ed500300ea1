"""From measurements to estimates: the least squares of a node, and controlled rounding.

>>> import numpy as np
>>> from confide.estimation import MeasuredQuery, NodeProblem, Partition, RoundingProblem, round_counts, solve
>>> parent, free = np.array([10, 4]), np.ones((2, 2), bool)     # two cells to be shared among two children
>>> measured = MeasuredQuery("detailed", np.arange(2), np.array([[6.3, 4.1], [0.8, 2.6]]), np.ones(2))
>>> x, report = solve(NodeProblem(parent, free, (measured,)))
>>> x.round(2)
array([[6.1, 3.9],
       [1.1, 2.9]])
>>> total = Partition("total", np.zeros(2, np.int64))
>>> round_counts(RoundingProblem(x, parent, (total,))).counts
array([[6, 4],
       [1, 3]])

* :mod:`~confide.estimation.node_problem`: what a parent, or the root, asks; :mod:`~confide.estimation.least_squares`:
  the way in, and the methods for large problems; :mod:`~confide.estimation.active_set`: the method for most;
* :mod:`~confide.estimation.active_set`: how far a point can be from the optimum, and what clashes;
* :func:`~confide.estimation.least_squares.estimate_totals`: pass 0, the totals of the children alone;
* :mod:`~confide.estimation.rounding`: whole counts, by :mod:`~confide.estimation.network`;
* :mod:`~confide.estimation.tree_gls`: generalised least squares on a whole tree of units, in two passes, without
  constraints; :mod:`~confide.estimation.tree_covariances`: its covariances, of units and of any areas, without data;
  :mod:`~confide.estimation.sectors`: how large histograms become a few small problems;
* :mod:`~confide.estimation.unified_intervals`: intervals for counts with bounds, and for single measurements;
  :mod:`~confide.estimation.linear_statements`: shares, differences, medians, ranks, several statements at once.

Arrays in, arrays out: nothing here reads a file, knows the truth or draws noise. Names are loaded when they are first
used, as the solvers take a while to import.
Derivation: ``docs/proofs/estimation.md``. For users: ``docs/concepts/estimation.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
