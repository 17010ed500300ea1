"""What SQLite and the operating system report, as findings a person can act on."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from confide.errors import Finding, LedgerError, Place

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
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        kind = "FULL"
    elif error.errno == errno.EROFS:
        kind = "READONLY"
    else:
        kind = "IOERR" if error.errno == errno.EIO else "CANTOPEN"
    code, what, expected, remedy = _BY_SQLITE_CODE[kind]
    found = error.strerror or type(error).__name__
    return Finding(code, what, Place(file=str(path)), found=found, expected=expected, remedy=remedy)


def problem(path: Path, code: str, what: str, found: str, expected: str, remedy: str) -> LedgerError:
    """A LedgerError with one complete finding about the file at ``path``."""
    return LedgerError(Finding(code, what, Place(file=str(path)), found=found, expected=expected, remedy=remedy))


def _placed(finding: Finding, path: Path) -> Finding:
    return finding if finding.where.file else replace(finding, where=replace(finding.where, file=str(path)))
