"""The file of a ledger: SQLite, one table, entries that can only be added.

- *Atomic.* A write holds SQLite's RESERVED lock (``BEGIN IMMEDIATE``) from before it reads until it is committed, so
  what it decided on is what it adds to, however many processes try at once.
- *Durable.* Rollback journal (the ledger stays one file) and ``synchronous=EXTRA``: when an append returns, the entry
  has been synced to disk, and so has the removal of the journal, which is the moment of commit.
- *Created whole.* A new ledger is written under another name, synced, and then linked to its own name, which fails if
  that name is taken. Nobody ever sees half of one, and none is ever overwritten.

A connection lives for one transaction. So nothing is left open, a handle can be shared between threads and forked
processes, and every operation sees the file as it is now. No code may open the file other than through SQLite: closing
any other handle would drop the locks that this process holds (POSIX advisory locks).
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from confide.errors import Finding, LedgerError, Place
from confide.file_system import DISK_FULL, flush
from confide.releases.ledger.entries import Entry, read

# What SQLite and the operating system report, as findings a person can act on.


_BY_SQLITE_CODE: dict[str, tuple[str, str, str, str]] = {
    "BUSY": (
        "ledger-locked",
        "the ledger is in use and its lock could not be had in time; nothing was written",
        "the lock within the waiting time",
        "wait for the other process to finish and run again; `fuser` names the process that holds the file",
    ),
    "READONLY": (
        "ledger-read-only",
        "the ledger cannot be written; nothing was written",
        "a file and a folder that this user may write",
        "give the curator's account write access to the file and to its folder, or use that account",
    ),
    "CANTOPEN": (
        "ledger-cannot-open",
        "the ledger, or the journal beside it, cannot be opened; nothing was written",
        "a file and a folder that this user may read and write",
        "check the path and the permissions of the file and of its folder (a journal is made there for each entry)",
    ),
    "FULL": (
        "ledger-disk-full",
        "there is no room for another entry of the ledger; nothing was written",
        "a few kilobytes of free space",
        "free some space on the disk of the ledger and run again",
    ),
    "NOTADB": (
        "ledger-not-a-ledger",
        "the file is not a ledger",
        "an SQLite database made by Confide",
        "check the path; if this was a ledger, the file is damaged: restore a copy and reconcile",
    ),
    "CORRUPT": (
        "ledger-damaged",
        "the file of the ledger is damaged",
        "an intact SQLite database",
        "release nothing from this data set; restore the newest intact copy, then reconcile it with the run folders",
    ),
    "IOERR": (
        "ledger-disk-error",
        "the disk of the ledger reported an error; it is not certain that the entry was kept",
        "a disk that reads and writes",
        "check the disk and its free space, then run again: what was written is found, what was not is written",
    ),
}
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
    code, what, expected, remedy = _BY_SQLITE_CODE.get(_SAME_AS.get(primary, primary), _BY_SQLITE_CODE["CORRUPT"])
    found = f"{error} (SQLITE_{name})" if name else str(error)
    return Finding(code, what, Place(file=str(path)), found=found, expected=expected, remedy=remedy)


def of_system(error: OSError, path: Path) -> Finding:
    """The finding for an error of the operating system."""
    if error.errno in DISK_FULL:
        kind = "FULL"
    elif error.errno == errno.EROFS:
        kind = "READONLY"
    else:
        kind = "IOERR" if error.errno == errno.EIO else "CANTOPEN"
    code, what, expected, remedy = _BY_SQLITE_CODE[kind]
    found = error.strerror or type(error).__name__
    return Finding(code, what, Place(file=str(path)), found=found, expected=expected, remedy=remedy)


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
            "ledger-not-a-ledger", where=Place(file=str(path)), application=application, application_id=APPLICATION_ID
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
