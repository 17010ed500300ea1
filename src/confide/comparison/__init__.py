"""One population, several protections: what each costs the user and leaves to the attacker, on one page.

Start with :mod:`confide.comparison.comparing`. For users: ``docs/concepts/comparison.md``.
"""

from confide.comparison.comparing import Comparison, compare
from confide.comparison.comparison_spec import ComparisonSpec, load_comparison

__all__ = ["Comparison", "ComparisonSpec", "compare", "load_comparison"]
