"""From measurements to estimates: the least squares of a node, and controlled rounding.

* :mod:`~confide.estimation.node_problem`: what a parent, or the root, asks; :mod:`~confide.estimation.solve`: the
  way in;
* :mod:`~confide.estimation.totals`: pass 0, the totals of the children alone;
* :mod:`~confide.estimation.active_set`, :mod:`~confide.estimation.solve`,
  :mod:`~confide.estimation.solve`: the methods; :mod:`~confide.estimation.optimality`: what clashes;
* :mod:`~confide.estimation.optimality`: how far a point can be from the optimum;
* :mod:`~confide.estimation.hierarchical_blue`: generalised least squares on a whole tree, in two passes, without
  constraints; :mod:`~confide.estimation.exchangeable`, :mod:`~confide.estimation.spine_variances`: its variances alone,
  for large histograms on large spines.

Arrays in, arrays out: nothing here reads a file, knows the truth or draws noise.
Derivation: ``docs/proofs/estimation.md``.
For users: ``docs/concepts/estimation.md``.
"""
