"""What figures that are published without noise do to the promise of noisy ones (Ashmead et al. 2019)."""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
