"""Choosing the budgets of a SafeTab-P release before any record is read.

Budgets and noise margins determine each other; so do suppression, bias and the population that a table needs. Read
:mod:`~confide.mechanisms.safetab.tuning.answer` first: :func:`tune` gives a :class:`TuningQuestion` its
:class:`TuningAnswer`, and depends on nothing else. Reference: Haney et al., SafeTab-P (arXiv 2505.01472), sections
5.3.2 and 6. For users: ``docs/concepts/safetab-tuning.md``.
"""

from confide.mechanisms.safetab.tuning.answer import LevelAnswer, TuningAnswer, tune
from confide.mechanisms.safetab.tuning.comparison import AccountingComparison, compare
from confide.mechanisms.safetab.tuning.question import (
    PRODUCTION,
    BudgetRule,
    LevelQuestion,
    TuningQuestion,
    production_settings,
    production_tuning,
    question_of,
)

__all__ = [
    "PRODUCTION",
    "AccountingComparison",
    "BudgetRule",
    "LevelAnswer",
    "LevelQuestion",
    "TuningAnswer",
    "TuningQuestion",
    "compare",
    "production_settings",
    "production_tuning",
    "question_of",
    "tune",
]
