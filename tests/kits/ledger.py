"""What the tests of the ledger share."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confide.releases.ledger import Ledger, Reservation

START = datetime(2020, 4, 1, 12, 0, tzinfo=UTC)
TRIGGERS = ("entries_are_not_changed", "entries_are_not_removed", "entries_follow")


class HandClock:
    """A clock that goes on by a second at each look, and can be set."""

    def __init__(self, now: datetime = START):
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


PLAN = sha("plan")
RECORDS = sha("records")
MANIFEST = sha("manifest")


def new_ledger(path: Path, budget: Any = "1", **changes: Any) -> Ledger:
    settings = {"data_set": "census-2030", "definition": "zcdp", "neighbours": "add-remove", "budget": budget}
    return Ledger.open_new(path, **(settings | {"clock": HandClock()} | changes))


def reserve(ledger: Ledger, run_id: str = "run-1", cost: Any = "1/4", **changes: Any) -> Reservation:
    settings = {"release": "persons", "plan_hash": PLAN, "records_fingerprint": RECORDS, "cost": cost}
    return ledger.reserve(run_id, **(settings | changes))


def tamper(path: Path, *statements: str, dropping: Iterable[str] = TRIGGERS) -> None:
    """Change a ledger as somebody would who has the file and knows SQLite: triggers off, change, triggers on again."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        for name in dropping:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for name in dropping:
            connection.execute(triggers[name])


def rows(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM entries ORDER BY sequence").fetchall()
