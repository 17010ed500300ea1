"""What is found by name and imported when it is asked for: so the faces show the laboratory without importing it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def named(place: str) -> Any:
    """The object at a place, ``module:object``.

    >>> named("confide.exact:positive").__name__
    'positive'
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


STUDIO_PAGES = ("confide.lab.studio.laboratory:router", "confide.lab.studio.comparisons:router")
"""The pages of the laboratory in the studio."""
STUDIO_JOBS = {
    "demonstrate": "confide.lab.demonstration:demonstrate_job",
    "compare": "confide.lab.studio.comparisons:compare_job",
}
"""What the studio does in the background for the laboratory: each takes a file, progress and what was given."""
COMPARISON_FILES = ("comparison.json", "asked.json")
"""What a folder of ``confide compare`` has in it, by which the studio knows it."""

DEMONSTRATION = "confide.lab.demonstration:demo_studio"
"""What ``confide studio demo`` shows."""
DRAFTS = {"comparison": "confide.lab.comparison.comparison_spec:comparison_draft"}
"""What ``confide new`` writes beside the specs of mechanisms."""
SHIELDS = {
    "LossClaim": "confide.lab.studio.shields_of_claims:shield_of_loss",
    "BoundedNoiseClaim": "confide.lab.studio.shields_of_claims:shield_of_bounded_noise",
}
"""What looks at a claim of a board, by its type: each takes the claim and a prior."""
REGION = "confide.lab.lab_commands:region"
"""``confide risk region``, which ``confide tune cellkey`` asks before there is a spec."""
