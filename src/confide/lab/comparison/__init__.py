"""One population, several protections: what each costs the user and leaves to the attacker, on one page.

- :func:`compare` runs a spec (:func:`load_comparison`, :class:`ComparisonSpec`) and returns a
  :class:`ProtectionComparison`: the page and its numbers; :func:`read_comparison` opens one that was made before.
- :func:`common_tables` are the tables that every protection publishes: :class:`CommonTables`.
- :class:`AreaFigures` are what one of them published, or what is true: a matrix for each level and table.
  :func:`errors`, :func:`cells_published` and :func:`sums_agree` hold the one against the other.

>>> common_tables().table("sex-by-age").query.shape
(2, 38)

Start with :mod:`confide.lab.comparison.comparing`. For users: ``docs/concepts/comparison.md``.
"""

from confide.lab.comparison.common_tables import CommonTable, CommonTables, common_tables
from confide.lab.comparison.comparing import ProtectionComparison, compare, read_comparison
from confide.lab.comparison.comparison_spec import ComparisonSpec, LoadedComparison, load_comparison
from confide.lab.comparison.figures import AreaFigures, ComparedAreas, cells_published, errors, sums_agree, tabulate

__all__ = [
    "AreaFigures",
    "CommonTable",
    "CommonTables",
    "ComparedAreas",
    "ComparisonSpec",
    "LoadedComparison",
    "ProtectionComparison",
    "cells_published",
    "common_tables",
    "compare",
    "errors",
    "load_comparison",
    "read_comparison",
    "sums_agree",
    "tabulate",
]
