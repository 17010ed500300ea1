"""What readers of a release may conclude from it: how far off its figures may be, from public files alone.

* :mod:`~confide.inference.replicates`: a TopDown release made again and again from its own records, with fresh noise;
* :mod:`~confide.inference.pooled_errors`: what its figures are off by in these replicates, by kind of area, query and
  size, and margins that follow.

Intervals for estimates by least squares are in :mod:`confide.estimation.unified_intervals`. For users:
``docs/concepts/replicates.md``.
"""

from confide.inference.replicates import Replicates as Replicates
from confide.inference.replicates import replicate as replicate
