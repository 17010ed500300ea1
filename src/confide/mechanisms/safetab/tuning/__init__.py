"""Choosing the budgets of a SafeTab-P release before any record is read.

Budgets and noise margins determine each other; so do suppression, bias and the population that a table needs. Read
:mod:`~confide.mechanisms.safetab.tuning.answer` first: :func:`tune` is a pure function from a :class:`Question` to an
:class:`Answer`. Reference: Haney et al., SafeTab-P (arXiv 2505.01472), sections 5.3.2 and 6. For users:
``docs/concepts/safetab-tuning.md``.
"""

from confide.mechanisms.safetab.tuning.answer import Answer, LevelAnswer, tune
from confide.mechanisms.safetab.tuning.comparison import Comparison, compare
from confide.mechanisms.safetab.tuning.question import (
    PRODUCTION,
    LevelQuestion,
    Question,
    Rule,
    production_question,
    production_settings,
    question_of,
)

__all__ = [
    "PRODUCTION",
    "Answer",
    "Comparison",
    "LevelAnswer",
    "LevelQuestion",
    "Question",
    "Rule",
    "compare",
    "production_question",
    "production_settings",
    "question_of",
    "tune",
]
