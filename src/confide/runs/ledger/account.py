"""The state of a ledger: the budget, and what the ledger holds about each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from confide.errors import Finding, LedgerError
from confide.runs.ledger.chain import stamp
from confide.runs.ledger.events import Definition, Neighbours, written

RunState: TypeAlias = Literal["reserved", "measured", "sealed", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What the ledger holds about one run. ``reservation_hash`` is the hash of the entry that reserved it."""

    run_id: str
    release: str
    plan_hash: str
    records_fingerprint: str = field(repr=False)
    cost: Fraction
    delta: Fraction = Fraction(0)
    reservation_hash: str
    reserved_at: datetime
    changed_at: datetime
    state: RunState = "reserved"
    manifest_sha256: str | None = None
    void_reason: str | None = None
    key_destroyed: bool = False

    @property
    def charged(self) -> Fraction:
        """What counts against the budget: the whole cost, unless the run is void."""
        return Fraction(0) if self.state == "void" else self.cost

    @property
    def charged_delta(self) -> Fraction:
        """What counts against the delta of the budget."""
        return Fraction(0) if self.state == "void" else self.delta

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``. The fingerprint of the records is left out: it is confidential."""
        return {
            "run_id": self.run_id,
            "release": self.release,
            "state": self.state,
            "cost": written(self.cost),
            "charged": written(self.charged),
            "plan_hash": self.plan_hash,
            "reservation_hash": self.reservation_hash,
            "reserved_at": stamp(self.reserved_at),
            "changed_at": stamp(self.changed_at),
            "manifest_sha256": self.manifest_sha256,
            "void_reason": self.void_reason,
            "key_destroyed": self.key_destroyed,
        } | ({"delta": written(self.delta)} if self.delta else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The state of a ledger: the budget and every run, in the order in which they were reserved."""

    data_set: str
    definition: Definition
    neighbours: Neighbours
    budget: Fraction
    note: str
    opened_at: datetime
    runs: Mapping[str, Reservation]
    delta: Fraction = Fraction(0)
    """The delta of the budget, which deltas of runs are taken from; zero unless the definition is approximate."""

    @property
    def spent(self) -> Fraction:
        """What is charged: all runs that are reserved, measured or sealed."""
        return sum((run.charged for run in self.runs.values()), Fraction(0))

    @property
    def reserved(self) -> Fraction:
        """The part of :attr:`spent` that could still be voided."""
        return sum((run.cost for run in self.runs.values() if run.state == "reserved"), Fraction(0))

    @property
    def left(self) -> Fraction:
        return self.budget - self.spent

    @property
    def spent_delta(self) -> Fraction:
        return sum((run.charged_delta for run in self.runs.values()), Fraction(0))

    @property
    def left_delta(self) -> Fraction:
        return self.delta - self.spent_delta

    def holds(self, cost: Fraction, delta: Fraction) -> bool:
        """Whether a cost fits into what is left, in both of its parts."""
        return cost <= self.left and delta <= self.left_delta

    def run(self, run_id: str) -> Reservation:
        """The reservation of ``run_id``, or a LedgerError."""
        try:
            return self.runs[run_id]
        except KeyError:
            raise LedgerError(
                Finding(
                    code="ledger-unknown-run",
                    what="the ledger has no such run",
                    found=repr(run_id),
                    expected="a run that was reserved",
                    remedy="reserve it first; if it was, this ledger is an older copy or another data set's: reconcile",
                )
            ) from None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``; numbers as exact fractions."""
        return {
            "data_set": self.data_set,
            "definition": self.definition,
            "neighbours": self.neighbours,
            "note": self.note,
            "opened_at": stamp(self.opened_at),
            "budget": written(self.budget),
            "spent": written(self.spent),
            "reserved": written(self.reserved),
            "left": written(self.left),
            "runs": [run.as_dict() for run in self.runs.values()],
        } | self._deltas()

    def _deltas(self) -> dict[str, str]:
        if not self.delta:
            return {}
        deltas = {"delta": self.delta, "spent_delta": self.spent_delta, "left_delta": self.left_delta}
        return {name: written(delta) for name, delta in deltas.items()}
