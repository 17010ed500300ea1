"""How rows are scanned, counted and mapped: one protocol, an engine for one machine and one for several."""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
