"""What is read: records, the public frame, and an office's own files with the schema and geography that would fit them.

A proposal (``*_proposal.py``, ``office.py``) is read from records, so it is confidential until the curator has looked
at it and keeps the file: domains are public, and are never taken from records by themselves.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
