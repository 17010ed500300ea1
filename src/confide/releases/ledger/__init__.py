"""The ledger: what has been spent on a data set, for ever.

One SQLite file per data set, opened once with the data set's whole budget. It is one list of entries that only grows;
everything else is computed from that list. Read from the inside outwards:

- :mod:`.entries`: the six kinds of entries, how one is written down, and the hash chain that binds each to all before;
- :mod:`.account`: the state, as a pure fold over the entries, and its rules;
- :mod:`.store`: the SQLite file, its locks and its durability;
- :mod:`.book`: the verbs, :class:`Ledger`, and the ledger compared with the run folders.

For curators: ``docs/concepts/ledger.md``.
"""

from confide.releases.ledger.account import Account, Reservation, RunState
from confide.releases.ledger.book import OTHER_RECORDS, Ledger, RunRecord, Sighting, leave_witness, read_witness
from confide.releases.ledger.entries import Definition, Entry, Neighbours

__all__ = [
    "OTHER_RECORDS",
    "Account",
    "Definition",
    "Entry",
    "Ledger",
    "Neighbours",
    "Reservation",
    "RunRecord",
    "RunState",
    "Sighting",
    "leave_witness",
    "read_witness",
]
