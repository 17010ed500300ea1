"""Reconstruction: from published tables to records, one for each person (Abowd and Hawes 2023, section 3)."""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
