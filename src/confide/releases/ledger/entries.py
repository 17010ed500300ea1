"""The six kinds of entries of a ledger, and how one is written down.

An event is a frozen value whose fields are checked when it is made, so that an event read back from a file is held to
the same rules as one that is about to be written. Its written form is canonical JSON: an object of strings, keys
sorted, no spaces, ASCII, and a number as ``"numerator/denominator"`` in lowest terms. One event has one written form;
any other text is refused on reading, which is what lets a hash over the text stand for the event. A delta of zero and
a commitment that is not there are not written, so that entries from before ledgers had them have the form they always
had.

There is no event that adds to a budget: a budget is for ever.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from confide.errors import CONFIDENTIAL, Finding, LedgerError, ParameterError, Place
from confide.exact import exact, positive
from confide.file_system import DISK_FULL, flush

Definition: TypeAlias = Literal["zcdp", "pure", "approximate"]
"""What the budget is a budget of: rho of zero-concentrated, epsilon of pure, or epsilon and delta of approximate
differential privacy."""

Neighbours: TypeAlias = Literal["add-remove", "change-one"]
"""Which two sets of records the guarantee compares: one record more or less, or one record replaced."""

UnitName: TypeAlias = Literal["record", "person", "household"]
"""What the account is kept in, and what a release protects: see :class:`confide.privacy.PrivacyUnit`."""

_LONGEST_NAME = 200
_LONGEST_TEXT = 4000
_MOST_DIGITS = 1000  # of a numerator or a denominator; far below the length at which Python refuses to print integers
_DELTA = "delta"
_LATER: dict[str, object] = {_DELTA: Fraction(0), "key_commitment": "", "unit": "record"}
"""Fields that entries did not always have, with what they meant by that: this is not written."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The first entry: whose budget this is, in which definition, and how much there will ever be."""

    kind: ClassVar[str] = "open"
    ledger_id: str
    data_set: str
    definition: Definition
    neighbours: Neighbours
    budget: Fraction
    note: str = ""
    delta: Fraction = Fraction(0)
    unit: UnitName = "record"

    def __post_init__(self) -> None:
        _choice(self.unit, "unit", get_args(UnitName))
        _sha256(self.ledger_id, "ledger_id")
        _name(self.data_set, "data_set")
        _choice(self.definition, "definition", get_args(Definition))
        _choice(self.neighbours, "neighbours", get_args(Neighbours))
        _amount(self.budget, "budget")
        _text(self.note, "note")
        _delta(self.delta)
        if (self.definition == "approximate") != (self.delta > 0):
            raise ParameterError("ledger-value/delta", found=written(self.delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A run takes its whole cost from the budget, for one plan over one set of records."""

    kind: ClassVar[str] = "reserve"
    run_id: str
    release: str
    plan_hash: str
    records_fingerprint: str = field(repr=False)
    cost: Fraction
    delta: Fraction = Fraction(0)
    unit: UnitName = "record"
    """What the release protects, in an account that is kept in a named unit: what its cost was made of."""

    def __post_init__(self) -> None:
        _choice(self.unit, "unit", get_args(UnitName))
        _name(self.run_id, "run_id")
        _name(self.release, "release")
        _sha256(self.plan_hash, "plan_hash")
        _sha256(self.records_fingerprint, "records_fingerprint", confidential=True)
        _amount(self.cost, "cost")
        _delta(self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The run is about to draw its first noise. Written before the draw: from here on the cost is spent."""

    kind: ClassVar[str] = "measured"
    run_id: str
    key_commitment: str = ""
    """Which key it draws with: :attr:`confide.noise.ReleaseKey.commitment`; none in entries of before."""

    def __post_init__(self) -> None:
        _name(self.run_id, "run_id")
        if self.key_commitment:
            _sha256(self.key_commitment, "key_commitment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The release of the run is complete; its manifest has this SHA-256."""

    kind: ClassVar[str] = "sealed"
    run_id: str
    manifest_sha256: str

    def __post_init__(self) -> None:
        _name(self.run_id, "run_id")
        _sha256(self.manifest_sha256, "manifest_sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """The run was given up before anything was drawn; its cost goes back to the budget."""

    kind: ClassVar[str] = "void"
    run_id: str
    reason: str

    def __post_init__(self) -> None:
        _name(self.run_id, "run_id")
        _text(self.reason, "reason")
        if not self.reason.strip():
            raise ParameterError("ledger-value/reason", found=repr(self.reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDestroyed:
    """The key of the run is gone: the release can no longer be replayed, and is final."""

    kind: ClassVar[str] = "key-destroyed"
    run_id: str

    def __post_init__(self) -> None:
        _name(self.run_id, "run_id")


RunEvent: TypeAlias = Reserved | Measured | Sealed | Voided | KeyDestroyed
Event: TypeAlias = Opened | RunEvent
_SHAPES: dict[str, type[Event]] = {shape.kind: shape for shape in get_args(Opened | RunEvent)}


def encode(event: Event) -> str:
    """The written form of an event: canonical JSON, without its kind."""
    values = {item.name: getattr(event, item.name) for item in fields(event)}
    values = {name: value for name, value in values.items() if name not in _LATER or value != _LATER[name]}
    plain = {name: written(value) if isinstance(value, Fraction) else value for name, value in values.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def decode(kind: str, text: str) -> Event:
    """The event that ``text`` is the one written form of; :class:`ValueError` when there is none."""
    shape = _SHAPES.get(kind)
    if shape is None:
        raise ValueError(f"no kind of entry is called {kind[:40]!r}")
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the payload is not JSON") from None
    names = {item.name for item in fields(shape)}
    if not isinstance(values, dict) or set(values) | (_LATER.keys() & names) != names:
        raise ValueError(f"the payload does not have the fields of an entry {kind!r}")
    if not all(isinstance(value, str) for value in values.values()):
        raise ValueError("a field of the payload is not text")
    amounts = {name: exact(values[name], name) for name in ("budget", "cost", _DELTA) if name in values}
    event = shape(**(values | amounts))
    if encode(event) != text:
        raise ValueError("the payload is not in canonical form")
    return event


def written(number: Fraction) -> str:
    """``number`` as it is written down: ``"numerator/denominator"``, always both.

    >>> written(Fraction(3))
    '3/1'
    """
    # Through Decimal, because a sum of many costs may be longer than the integers Python agrees to print.
    return f"{Decimal(number.numerator):f}/{Decimal(number.denominator):f}"


def shown(number: Fraction) -> str:
    """``number`` for a person: exact, and as a decimal where that is not the same; very long ones as decimals only.

    >>> shown(Fraction(1, 3))
    '1/3 (about 0.333333)'
    """
    context = Context(prec=6)
    decimal = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    about = f"{decimal.normalize(context):f}" if -7 < decimal.adjusted() < 15 else f"{decimal.normalize(context)}"
    if number.denominator == 1 and len(about) < 15:
        return written(number).removesuffix("/1")
    long = number.numerator.bit_length() > 400 or number.denominator.bit_length() > 400
    return f"about {about} (the exact fraction is in the history)" if long else f"{written(number)} (about {about})"


def _amount(value: Fraction, name: str) -> None:
    number = positive(value, name)
    if max(number.numerator, number.denominator) >= 10**_MOST_DIGITS:
        raise ParameterError("ledger-value/entry-hold", name=name, most_digits=_MOST_DIGITS)


def _delta(value: Fraction) -> None:
    if not 0 <= value < 1:
        raise ParameterError("ledger-value/probability", found=written(value), name=_DELTA)
    if value:
        _amount(value, _DELTA)


def _name(value: object, name: str) -> None:
    if not (isinstance(value, str) and value.strip() and len(value) <= _LONGEST_NAME and value.isprintable()):
        raise ParameterError(
            "ledger-value/printable-characters", found=repr(value)[:80], name=name, longest_name=_LONGEST_NAME
        )


def _text(value: object, name: str) -> None:
    printable = isinstance(value, str) and all(c.isprintable() or c in "\n\t" for c in value)
    if not printable or len(str(value)) > _LONGEST_TEXT:
        raise ParameterError("ledger-value/line", found=repr(value)[:80], name=name, longest_text=_LONGEST_TEXT)


def _sha256(value: object, name: str, *, confidential: bool = False) -> None:
    if not (isinstance(value, str) and _SHA256.fullmatch(value)):
        raise ParameterError(
            "ledger-value/hexadecimal", found=CONFIDENTIAL if confidential else repr(value)[:80], name=name
        )


def _choice(value: str, name: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(
            "ledger-value/correct",
            found=repr(value)[:80],
            name=name,
            expected=" or ".join(repr(one) for one in allowed),
        )


# The hash chain: each entry carries a hash over itself and over the hash of the entry before it,
#
#     h_i = SHA256(JSON["confide-ledger/1", i, t_i, kind_i, payload_i, h_(i-1)]),    h_0 = 64 zeros.
#
# The array is written as ASCII JSON without spaces, which no two different lists share, so a changed, missing, moved or
# re-dated entry changes its own hash or breaks the link of the next (S. Haber and W. S. Stornetta, How to time-stamp
# a digital document, Journal of Cryptology 3, 1991). The first entry holds a random ledger id, so the chains of two
# ledgers never share a hash.
#
# What a chain alone cannot show: the last entries cut off, or the whole chain computed anew by somebody who may write
# the file. For that the hashes have to be kept elsewhere too; see ``Ledger.reconcile`` and ``Ledger.verify``.
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
        """The entry as it is in the file."""
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
        raise LedgerError("ledger-broken/chain-entry-missing", where=Place(path=f"entry {1}"))
    return tuple(entries)


def _checked(last: Entry | None, row: tuple[Any, ...]) -> Entry:
    due = 1 if last is None else last.sequence + 1
    sequence, time, kind, payload, previous, own = row
    if type(sequence) is not int or not all(isinstance(value, str) for value in row[1:]):
        raise LedgerError("ledger-broken/chain-entry-unreadable", where=Place(path=f"entry {due}"), sequence=due)
    if sequence != due:
        raise LedgerError(
            "ledger-broken/entry", where=Place(path=f"entry {due}"), sequence=due, sequence_found=sequence
        )
    if previous != (GENESIS if last is None else last.hash):
        raise LedgerError(
            "ledger-broken/unlinked", where=Place(path=f"entry {due}"), sequence=due, previous=previous[:16]
        )
    computed = digest(sequence, time, kind, payload, previous)
    if own != computed:
        raise LedgerError(
            "ledger-broken/changed",
            where=Place(path=f"entry {due}"),
            sequence=due,
            own=own[:16],
            computed=computed[:16],
        )
    try:
        moment, event = _moment(time), decode(kind, payload)
    except ValueError as error:
        found = error.findings[0].what if isinstance(error, ParameterError) else str(error)
        raise LedgerError(
            "ledger-broken/canonical", where=Place(path=f"entry {due}"), found=found, sequence=due
        ) from None
    if last is not None and moment < last.time:
        raise LedgerError(
            "ledger-broken/out",
            where=Place(path=f"entry {due}"),
            found=stamp(moment),
            sequence=due,
            time=stamp(last.time),
        )
    return Entry(due, moment, event, previous, own)


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
        raise ParameterError("clock-without-zone")
    if last is None or now >= last.time:
        return now.astimezone(UTC)
    if last.time - now > tolerance:
        raise LedgerError(
            "ledger-clock",
            where=Place(path=f"entry {last.sequence}"),
            found=stamp(now),
            time=stamp(last.time),
            tolerance=tolerance,
        )
    return last.time


# The file of a ledger: SQLite, one table, entries that can only be added.
#
# - *Atomic.* A write holds SQLite's RESERVED lock (``BEGIN IMMEDIATE``) from before it reads until it is committed, so
#   what it decided on is what it adds to, however many processes try at once.
# - *Durable.* Rollback journal (the ledger stays one file) and ``synchronous=EXTRA``: when an append returns, the entry
#   has been synced to disk, and so has the removal of the journal, which is the moment of commit.
# - *Created whole.* A new ledger is written under another name, synced, and then linked to its own name, which fails if
#   that name is taken. Nobody ever sees half of one, and none is ever overwritten.
#
# A connection lives for one transaction. So nothing is left open, a handle can be shared between threads and forked
# processes, and every operation sees the file as it is now. No code may open the file other than through SQLite:
# closing any other handle would drop the locks that this process holds (POSIX advisory locks).

# What SQLite and the operating system report, as findings a person can act on.


_SAME_AS = {"LOCKED": "BUSY", "PERM": "READONLY", "AUTH": "READONLY", "PROTOCOL": "BUSY"}


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Inside, whatever goes wrong with the file at ``path`` comes out as a LedgerError that names it."""
    try:
        yield
    except LedgerError as error:
        raise type(error)(_placed(finding, path) for finding in error.findings) from error.__cause__
    except sqlite3.Error as error:
        raise LedgerError(of_sqlite(error, path)) from error
    except OSError as error:
        raise LedgerError(of_system(error, path)) from error


def of_sqlite(error: sqlite3.Error, path: Path) -> Finding:
    """The finding for an error of SQLite, by its result code (https://sqlite.org/rescode.html)."""
    name = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_")
    primary = name.split("_")[0]
    # Whatever is not listed (a missing table, text that is not UTF-8) is a file that is not as Confide wrote it.
    return _of_kind(_SAME_AS.get(primary, primary), path, f"{error} (SQLITE_{name})" if name else str(error))


def of_system(error: OSError, path: Path) -> Finding:
    """The finding for an error of the operating system."""
    if error.errno in DISK_FULL:
        kind = "FULL"
    elif error.errno == errno.EROFS:
        kind = "READONLY"
    else:
        kind = "IOERR" if error.errno == errno.EIO else "CANTOPEN"
    return _of_kind(kind, path, error.strerror or type(error).__name__)


def _of_kind(kind: str, path: Path, found: str) -> Finding:
    """The finding for a result code of SQLite."""
    match kind:
        case "BUSY":
            key = "ledger-locked"
        case "READONLY":
            key = "ledger-read-only"
        case "CANTOPEN":
            key = "ledger-cannot-open"
        case "FULL":
            key = "ledger-disk-full"
        case "NOTADB":
            key = "ledger-not-a-ledger/file"
        case "IOERR":
            key = "ledger-disk-error"
        case _:
            key = "ledger-damaged"
    return Finding.of(key, where=Place(file=str(path)), found=found)


ROOM = 1 << 18
"""Bytes that the entries of a run and the journal of the ledger take at most."""


def unwritable(path: Path) -> Finding | None:
    """What would go wrong if an entry were written now: the file, the folder that takes its journal, the disk."""
    for place in (path, path.parent):
        if not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return of_system(OSError(errno.EROFS, f"{place} may not be written"), path)
    if shutil.disk_usage(path.parent).free < ROOM:
        return of_system(OSError(errno.ENOSPC, f"fewer than {ROOM:,} bytes free"), path)
    return None


def _placed(finding: Finding, path: Path) -> Finding:
    return finding if finding.where.file else replace(finding, where=replace(finding.where, file=str(path)))


APPLICATION_ID = 0x436F4C65  # "CoLe", at byte 68 of the file: a Confide ledger
FORMAT = 1

_SCHEMA = {
    "entries": """CREATE TABLE entries (
  sequence INTEGER PRIMARY KEY,
  time TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL
)""",
    "entries_are_not_changed": """CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'an entry of a ledger cannot be changed'); END""",
    "entries_are_not_removed": """CREATE TRIGGER entries_are_not_removed BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'an entry of a ledger cannot be removed'); END""",
    # INSERT OR REPLACE removes rows without asking the trigger on DELETE; it is stopped here.
    "entries_follow": """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries)
BEGIN SELECT RAISE(ABORT, 'an entry of a ledger is added at its end'); END""",
}


class Transaction:
    """The entries of a ledger within one transaction."""

    def __init__(self, connection: sqlite3.Connection, entries: tuple[Entry, ...]):
        self._connection = connection
        self.entries = entries

    @property
    def last(self) -> Entry:
        return self.entries[-1]

    def append(self, entry: Entry) -> None:
        _insert(self._connection, entry)


@contextmanager
def reading(path: Path, timeout: float) -> Iterator[Transaction]:
    """The entries of the ledger at ``path``, its chain verified."""
    with _transaction(path, "BEGIN", timeout) as transaction:
        yield transaction


@contextmanager
def writing(path: Path, timeout: float) -> Iterator[Transaction]:
    """The same, holding the lock; what is appended is committed at the end, or not at all if anything is raised."""
    with _transaction(path, "BEGIN IMMEDIATE", timeout) as transaction:
        yield transaction


def create(path: Path, first: Entry) -> None:
    """Make the ledger at ``path`` with its first entry; refuse if anything is there."""
    _refuse_taken(path)
    with about(path), _new_file(path) as draft, closing(_connect(draft, timeout=0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.values():
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        _insert(connection, first)
        connection.execute("COMMIT")


def copy(path: Path, target: Path, timeout: float) -> None:
    """Copy the ledger at ``path``, verified, to the new file ``target``, also while others use it."""
    _refuse_taken(target)
    with about(target), _new_file(target) as draft, about(path), _opened(path, timeout) as source:
        source.execute("BEGIN")
        _verified(source, path)
        with closing(_connect(draft, timeout=0)) as connection:
            source.backup(connection)


@contextmanager
def _transaction(path: Path, begin: str, timeout: float) -> Iterator[Transaction]:
    with about(path), _opened(path, timeout) as connection:
        connection.execute(begin)
        try:
            yield Transaction(connection, _verified(connection, path))
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # after a full disk SQLite has rolled back by itself
                connection.execute("ROLLBACK")
            raise


@contextmanager
def _opened(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise LedgerError("ledger-missing", where=Place(file=str(path)), is_dir=path.is_dir())
    with closing(_connect(path, timeout)) as connection:
        yield connection


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    # mode=rw: never create; a file that may only be read is opened for reading.
    address = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        for pragma in ("synchronous = EXTRA", "fullfsync = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _verified(connection: sqlite3.Connection, path: Path) -> tuple[Entry, ...]:
    """The entries, after every check that needs nothing but the file: whose it is, the chain, the schema."""
    application, version = (_value(connection, f"PRAGMA {name}") for name in ("application_id", "user_version"))
    if application != APPLICATION_ID:
        raise LedgerError(
            "ledger-not-a-ledger/application",
            where=Place(file=str(path)),
            application=application,
            application_id=APPLICATION_ID,
        )
    if version != FORMAT:
        raise LedgerError("ledger-format", where=Place(file=str(path)), version=version, format=FORMAT)
    if (mode := _value(connection, "PRAGMA journal_mode")) != "delete":
        raise LedgerError("ledger-altered/set", where=Place(file=str(path)), found=str(mode))
    entries = read(
        connection.execute("SELECT sequence, time, kind, payload, previous, hash FROM entries ORDER BY sequence")
    )
    schema = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
    if schema != _SCHEMA:
        strange = sorted(name for name in schema.keys() | _SCHEMA.keys() if schema.get(name) != _SCHEMA.get(name))
        raise LedgerError("ledger-altered/somebody", where=Place(file=str(path)), found=", ".join(strange))
    return entries


def _value(connection: sqlite3.Connection, statement: str) -> object:
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]


def _insert(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute(
        "INSERT INTO entries (sequence, time, kind, payload, previous, hash) VALUES (?, ?, ?, ?, ?, ?)", entry.row()
    )


def _refuse_taken(path: Path) -> None:
    for taken in (path, path.with_name(f"{path.name}-journal"), path.with_name(f"{path.name}-wal")):
        if os.path.lexists(taken):
            # A journal without its database would be rolled back into whatever database takes the name.
            raise LedgerError("ledger-exists", where=Place(file=str(path)), found=str(taken))


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A file under another name, empty and private; afterwards it has the name ``path``, unless that is taken."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    draft.chmod(0o600)  # whatever the umask is
    try:
        yield draft
        flush(draft)
        try:
            os.link(draft, path)  # unlike a rename, a link never replaces what is there
        except FileExistsError:
            _refuse_taken(path)
            raise
        except OSError as error:
            raise LedgerError(
                "ledger-file-system", where=Place(file=str(path)), found=error.strerror or type(error).__name__
            ) from error
    finally:
        for rest in (draft, draft.with_name(f"{draft.name}-journal")):
            with suppress(OSError):
                rest.unlink()
    flush(path.parent)
