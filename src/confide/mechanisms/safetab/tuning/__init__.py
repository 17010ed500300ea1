"""Choosing the budgets of a SafeTab-P release before any record is read.

Budgets and noise margins determine each other; so do suppression, bias and the population that a table needs.
:func:`tune_safetab` asks; read :mod:`~confide.mechanisms.safetab.tuning.answer` first: :func:`tune` is a pure function
from a :class:`TuningQuestion` to a :class:`ReleaseTuning`. Reference: Haney et al., SafeTab-P (arXiv 2505.01472),
sections 5.3.2 and 6. For users: ``docs/concepts/safetab-tuning.md``.
"""

from confide.mechanisms.safetab.tuning.answer import LevelTuning, ReleaseTuning, tune
from confide.mechanisms.safetab.tuning.question import (
    PRODUCTION,
    BudgetRule,
    LevelQuestion,
    TuningQuestion,
    production_settings,
    production_tuning,
    question_of,
)
from confide.mechanisms.safetab.tuning.safetab_tuning import (
    NoiseCostComparison,
    SafeTabTuning,
    compare_noise_costs,
    tune_safetab,
)

__all__ = [
    "PRODUCTION",
    "BudgetRule",
    "LevelQuestion",
    "LevelTuning",
    "NoiseCostComparison",
    "ReleaseTuning",
    "SafeTabTuning",
    "TuningQuestion",
    "compare_noise_costs",
    "production_settings",
    "production_tuning",
    "question_of",
    "tune",
    "tune_safetab",
]
