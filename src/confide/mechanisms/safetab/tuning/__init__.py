"""Choosing the budgets of a SafeTab-P release before any record is read.

Budgets and noise margins determine each other; so do suppression, bias and the population that a table needs.
:func:`tune_safetab` asks; read :mod:`~confide.mechanisms.safetab.tuning.answer` first: :func:`tune` is a pure function
from a :class:`TuningQuestion` to a :class:`ReleaseTuning`. Reference: Haney et al., SafeTab-P (arXiv 2505.01472),
sections 5.3.2 and 6. For users: ``docs/concepts/safetab-tuning.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
