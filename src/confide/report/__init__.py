"""How pages look: certificates, dossiers and charts, from templates and data files."""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
