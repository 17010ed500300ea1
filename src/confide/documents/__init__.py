"""Settings files: read, checked against a model, refused with every problem at its line. Shipped ones, by name."""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
