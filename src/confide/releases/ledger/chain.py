"""The hash chain: each entry carries a hash over itself and over the hash of the entry before it.

.. math:: h_i = \\mathrm{SHA256}(\\mathrm{JSON}[\\text{"confide-ledger/1"}, i, t_i, kind_i, payload_i, h_{i-1}])

and :math:`h_0` is 64 zeros.

The array is written as ASCII JSON without spaces, which no two different lists share, so a changed, missing, moved or
re-dated entry changes its own hash or breaks the link of the next one (S. Haber and W. S. Stornetta, *How to time-stamp
a digital document*, Journal of Cryptology 3, 1991). The first entry holds a random ledger id, so the chains of two
ledgers never share a hash.

What a chain alone cannot show: the last entries cut off, or the whole chain computed anew by somebody who may write
the file. For that the hashes have to be kept elsewhere too; see :mod:`.reconcile` and ``Ledger.verify``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from confide.errors import LedgerError, ParameterError, Place
from confide.releases.ledger.entries import Event, decode, encode

GENESIS = "0" * 64
CLOCK_TOLERANCE = timedelta(minutes=1)
_DOMAIN = "confide-ledger/1"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a ledger: number, time (UTC), event, the hash of the entry before, its own hash."""

    sequence: int
    time: datetime
    event: Event
    previous: str = field(repr=False)
    hash: str

    @property
    def kind(self) -> str:
        return self.event.kind

    def row(self) -> tuple[int, str, str, str, str, str]:
        """The entry as it stands in the file."""
        return (self.sequence, stamp(self.time), self.kind, encode(self.event), self.previous, self.hash)


def digest(sequence: int, time: str, kind: str, payload: str, previous: str) -> str:
    """The hash of an entry (formula above), in lower-case hexadecimal."""
    text = json.dumps([_DOMAIN, sequence, time, kind, payload, previous], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def following(last: Entry | None, event: Event, time: datetime) -> Entry:
    """The entry that records ``event`` after ``last``."""
    sequence = 1 if last is None else last.sequence + 1
    previous = GENESIS if last is None else last.hash
    return Entry(sequence, time, event, previous, digest(sequence, stamp(time), event.kind, encode(event), previous))


def read(rows: Iterable[tuple[Any, ...]]) -> tuple[Entry, ...]:
    """The entries in ``rows`` (as :meth:`Entry.row` gives them), or a LedgerError naming the first bad one."""
    entries: list[Entry] = []
    for row in rows:
        entries.append(_checked(entries[-1] if entries else None, row))
    if not entries:
        raise _broken(1, "missing", "the ledger has no entries", "an entry that opens the ledger")
    return tuple(entries)


def _checked(last: Entry | None, row: tuple[Any, ...]) -> Entry:
    due = 1 if last is None else last.sequence + 1
    sequence, time, kind, payload, previous, own = row
    if type(sequence) is not int or not all(isinstance(value, str) for value in row[1:]):
        raise _broken(due, "unreadable", "a column of another type", "a number and five texts")
    if sequence != due:
        raise _broken(due, "missing", f"entry {sequence}", f"entry {due}")
    if previous != (GENESIS if last is None else last.hash):
        raise _broken(due, "unlinked", f"previous hash {previous[:16]}…", "the hash of the entry before it")
    computed = digest(sequence, time, kind, payload, previous)
    if own != computed:
        raise _broken(due, "changed", f"hash {own[:16]}…", f"hash {computed[:16]}…, computed from what the entry says")
    try:
        moment, event = _moment(time), decode(kind, payload)
    except ValueError as error:
        found = error.findings[0].what if isinstance(error, ParameterError) else str(error)
        raise _broken(due, "unreadable", found, "an entry in canonical form") from None
    if last is not None and moment < last.time:
        raise _broken(due, "out of time", stamp(moment), f"{stamp(last.time)} or later")
    return Entry(due, moment, event, previous, own)


def _broken(sequence: int, how: str, found: str, expected: str) -> LedgerError:
    return LedgerError(
        "ledger-broken",
        f"the chain of the ledger is broken: entry {sequence} is {how}",
        where=Place(path=f"entry {sequence}"),
        found=found,
        expected=expected,
        remedy="release nothing from this data set; keep the file as it is, find out who changed it, and restore "
        "the newest intact copy, then reconcile it with the run folders",
    )


def stamp(time: datetime) -> str:
    """A time as it is written down: UTC, with microseconds."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or stamp(moment) != text:
        raise ValueError("the time is not in canonical form")
    return moment


def moment_after(last: Entry | None, now: datetime, tolerance: timedelta = CLOCK_TOLERANCE) -> datetime:
    """The time to record for an entry made ``now`` after ``last``: never earlier than the last entry's.

    Clocks of two machines differ a little; a clock that is behind by more than ``tolerance`` was set back or belongs to
    a machine that should not write, and is refused.
    """
    if now.tzinfo is None:
        raise ParameterError(
            "clock-without-zone", "the clock gives a time without a time zone", expected="an aware datetime"
        )
    if last is None or now >= last.time:
        return now.astimezone(UTC)
    if last.time - now > tolerance:
        raise LedgerError(
            "ledger-clock",
            "the clock of this machine is behind the last entry of the ledger; nothing was written",
            where=Place(path=f"entry {last.sequence}"),
            found=stamp(now),
            expected=f"{stamp(last.time)} or later (up to {tolerance} earlier is tolerated)",
            remedy="set the clock right; if the last entry was written by a clock that ran ahead, open the ledger "
            "with a larger clock_tolerance: entries then carry the time of the last one until the clock is past it",
        )
    return last.time
