"""What readers of a release may conclude from it: how far off its figures may be, from public files alone.

* :mod:`~confide.inference.replicates`: a TopDown release made again and again from its own records, with fresh noise;
* :mod:`confide.mechanisms.topdown.made_up`: made-up people whose truth is known, for areas off the spine;
* :mod:`~confide.inference.pooled_errors`: what its figures are off by in these replicates, by kind of area, query and
  size, and margins that follow.

* :mod:`~confide.inference.opened_source`: a release or a folder of noisy measurements, opened for inference;
* :mod:`~confide.inference.inferring`: estimates with margins for any query and any area, by the rule of
  :mod:`~confide.inference.area_statements`; :mod:`~confide.inference.writing` has their files.

Intervals for estimates by least squares are in :mod:`confide.estimation.unified_intervals`. For users:
``docs/concepts/inference.md`` and
``docs/concepts/replicates.md``.

Names are loaded when they are first used: to tune a budget takes none of the readers of releases.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
