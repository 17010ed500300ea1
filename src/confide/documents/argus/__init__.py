"""Files of tau-ARGUS and of sdcTable: tables (.tab with .rda), records (.asc with .rda), hierarchies (.hrc), labels
(.cdl), a-priori statuses (.hst), problems (.jj).

They are read as they are written by these programs and by their R interfaces (``createArgusInput``, ``writeJJFormat``,
``rtauargus``); a line that cannot be read is a finding with its number. For users: ``docs/concepts/suppression.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
