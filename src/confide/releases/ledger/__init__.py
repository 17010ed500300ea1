"""The ledger: what has been spent on a data set, for ever.

One SQLite file per data set, opened once with the data set's whole budget. It is one list of entries that only grows;
everything else is computed from that list. Read from the inside outwards:

- :mod:`.entries`: the six kinds of entries, how one is written down, and the hash chain that binds each to all before;
  the SQLite file, its locks and its durability;
- :mod:`.account`: the state, as a pure fold over the entries, and its rules;
- :mod:`.book`: the verbs, :class:`Ledger`, and the ledger compared with the run folders.

For curators: ``docs/concepts/ledger.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
