"""Record swapping: some households exchange their places before anything is tabulated."""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
