"""One population, several protections: what each costs the user and leaves to the attacker, on one page.

Start with :mod:`confide.comparison.comparing`. For users: ``docs/concepts/comparison.md``.
"""

from confide.comparison.comparing import ProtectionComparison, compare
from confide.comparison.comparison_spec import ComparisonSpec, load_comparison

__all__ = ["ComparisonSpec", "ProtectionComparison", "compare", "load_comparison"]
