"""The Census Bureau's legacy PL 94-171 files, 2010 layout: reading, checking, and making person and block files.

See docs/concepts/pl94.md. Such a file is published: its values may be shown in findings.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
