"""A static programme of cross-tabulations with independent noise. Start at ``mechanism``."""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
