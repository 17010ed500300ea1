"""Perturbation tables: made, checked, written, read, looked up in.

>>> from confide.noise.ptables import count_settings, generate
>>> design = generate(count_settings(2, 1))              # noise of at most 2, a variance of at most 1
>>> [round(p, 4) for p in design.symmetric.p]            # what counts of 2 and more get: a truncated Gaussian
[0.0638, 0.2447, 0.383, 0.2447, 0.0638]
>>> table = design.table()
>>> table.lookup([0, 1, 50], [99_999_999] * 3)           # the noise of three counts with one cell key; zero stays
array([0, 2, 2])

* :mod:`~confide.noise.ptables.design`: D, V, js and further conditions; the problem of each row;
* :mod:`~confide.noise.ptables.design`: which variances are possible, exactly; all rows of maximum entropy
  (:mod:`confide.noise.max_entropy`);
* :mod:`~confide.noise.ptables.ptable`: the table in whole numbers, the lookup, what can be wrong with one, and the same
  distribution in another layout;
* :mod:`~confide.noise.ptables.formats`, :mod:`~confide.noise.ptables.formats`: text forms of other programs;
* :mod:`~confide.noise.ptables.ptable_answer`: two neighbouring counts, told apart.

Derivation: ``docs/proofs/ptables.md``. For users: ``docs/concepts/ptables.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
