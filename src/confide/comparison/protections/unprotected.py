"""``none``: the true tables."""

from __future__ import annotations

from confide.comparison.comparison_spec import NoProtection
from confide.comparison.protections.making import Made, Making


def make(part: NoProtection, making: Making) -> Made:
    """What the records say. It is what everything else is held against, and as confidential as they are."""
    title = part.title or "No protection"
    return Made(making.population.truth, title, "None: the true tables, as counted.", {})
