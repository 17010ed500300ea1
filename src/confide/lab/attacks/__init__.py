"""What someone does who wants the records back: reconstruction from published tables, re-identification, suppression.

- :func:`reconstruct`: records that have the published tables, and how much others with the same tables could differ.
  The tables come from a release, a folder, or memory: :meth:`Published.from_tables`.
- :func:`reconstruct_statistics`: everybody who fits counts, median and mean ages of a few people, step by step.
- :func:`reidentify`: whom somebody would recognise in reconstructed records, and how often rightly.
- :func:`audit_suppression`: what follows from tables about the cells that were left out.

>>> from confide.lab.attacks import Published, reconstruct
>>> tables = {"sex": {"sex": ["male", "female"], "count": [1, 1]}, "hispanic": {"hispanic": [0, 1], "count": [2, 0]}}
>>> reconstruct(Published.from_tables(tables, "persons"), processes=1).records().column("sex").to_pylist()
[1, 2]

Names are loaded when they are first used: the solvers take their time.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
