"""The audit of suppressed tables, whoever made them: what an attacker can work out, and whether that is too much.

Start with :mod:`confide.lab.attacks.suppression.suppression_audit`. For users: ``docs/concepts/suppression.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
