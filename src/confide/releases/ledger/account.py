"""The state of a ledger: the budget, and what the ledger holds about each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer, plain_tables
from confide.errors import CONFIDENTIAL, BudgetExceededError, Finding, LedgerError, Place
from confide.releases.ledger import entries as ledger_entries

RunState: TypeAlias = Literal["reserved", "measured", "sealed", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation(TypedAnswer):
    """What the ledger holds about one run. ``reservation_hash`` is the hash of the entry that reserved it."""

    run_id: str
    release: str
    plan_hash: str
    records_fingerprint: str = field(repr=False)
    cost: Fraction
    delta: Fraction = Fraction(0)
    unit: ledger_entries.UnitName = "record"
    reservation_hash: str
    reserved_at: datetime
    changed_at: datetime
    state: RunState = "reserved"
    manifest_sha256: str | None = None
    void_reason: str | None = None
    key_destroyed: bool = False
    key_commitment: str | None = None
    """Which key the run draws with, from the moment it is measured; none of runs that were measured before it was
    written down."""

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
            "cost": ledger_entries.written(self.cost),
            "charged": ledger_entries.written(self.charged),
            "plan_hash": self.plan_hash,
            "reservation_hash": self.reservation_hash,
            "reserved_at": ledger_entries.stamp(self.reserved_at),
            "changed_at": ledger_entries.stamp(self.changed_at),
            "manifest_sha256": self.manifest_sha256,
            "void_reason": self.void_reason,
            "key_destroyed": self.key_destroyed,
            "key_commitment": self.key_commitment,
        } | _named(self.unit, self.delta)

    def described(self) -> Iterator[AnswerPart]:
        """What became of a run that was given up; of another one everything."""
        if self.state == "void":
            return iter(["The reservation is void. Its cost is available again."])
        return plain_tables(self.release, self.as_dict())


def _named(unit: ledger_entries.UnitName, delta: Fraction = Fraction(0)) -> dict[str, str]:
    """What is said only where it is there: the delta, and the unit."""
    return ({"delta": ledger_entries.written(delta)} if delta else {}) | ({"unit": unit} if unit != "record" else {})


KEPT_IN = {
    "record": "",
    "person": "The account is kept in persons. A release of households is charged what it costs one person, who may "
    "change one household's record into any other: twice what it costs a household that comes or goes, and where "
    "persons are compared who are changed, and may have moved, what two such records cost.",
    "household": "The account is kept in households. A release of persons has no price in it.",
}
"""What an account charges, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account(TypedAnswer):
    """The state of a ledger: the budget and every run, in the order in which they were reserved."""

    data_set: str
    definition: ledger_entries.Definition
    neighbours: ledger_entries.Neighbours
    budget: Fraction
    note: str
    opened_at: datetime
    runs: Mapping[str, Reservation]
    delta: Fraction = Fraction(0)
    """The delta of the budget, which deltas of runs are taken from; zero unless the definition is approximate."""
    unit: ledger_entries.UnitName = "record"
    """What it is kept in; records unless somebody named it."""

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

    def knows(self, records_fingerprint: str) -> bool:
        """Whether a run over these records is charged, or none over any: a ledger is one data set's."""
        seen = {run.records_fingerprint for run in self.runs.values() if run.state != "void"}
        return not seen or records_fingerprint in seen

    def run(self, run_id: str) -> Reservation:
        """The reservation of ``run_id``, or a LedgerError."""
        try:
            return self.runs[run_id]
        except KeyError:
            raise LedgerError("ledger-unknown-run", found=repr(run_id)) from None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``; numbers as exact fractions."""
        return (
            {
                "data_set": self.data_set,
                "definition": self.definition,
                "neighbours": self.neighbours,
                "note": self.note,
                "opened_at": ledger_entries.stamp(self.opened_at),
                "budget": ledger_entries.written(self.budget),
                "spent": ledger_entries.written(self.spent),
                "reserved": ledger_entries.written(self.reserved),
                "left": ledger_entries.written(self.left),
                "runs": [run.as_dict() for run in self.runs.values()],
            }
            | _named(self.unit)
            | self._deltas()
        )

    def _deltas(self) -> dict[str, str]:
        if not self.delta:
            return {}
        deltas = {"delta": self.delta, "spent_delta": self.spent_delta, "left_delta": self.left_delta}
        return {name: ledger_entries.written(delta) for name, delta in deltas.items()}

    def described(self) -> Iterator[AnswerPart]:
        """The budget, what is spent, and every release."""
        kept = "" if self.unit == "record" else f", in {self.unit}s"
        yield Said(self.data_set, f": {self.definition}, {self.neighbours}{kept}, opened {self.opened_at:%Y-%m-%d}")
        parts = (self.budget, self.spent, self.left)
        rows = [tuple(map(str, parts))]
        if any(part.denominator >= 1_000 for part in parts):
            rounded, *others = (f"{float(part):.6g}" for part in parts)
            rows.append((f"≈ {rounded}", *others))
        if self.delta:
            rows.append(tuple(f"delta {float(part):g}" for part in (self.delta, self.spent_delta, self.left_delta)))
        yield ShownTable(["budget ", "spent ", "left "], rows)
        runs = [
            (
                run.release,
                *([] if self.unit == "record" else [run.unit]),
                run.state,
                run.charged,
                f"{run.reserved_at:%Y-%m-%d %H:%M}",
                "destroyed" if run.key_destroyed else "kept",
            )
            for run in self.runs.values()
        ]
        if runs:
            yield ""
            protects = [] if self.unit == "record" else ["protects one"]
            yield ShownTable(["release", *protects, "state", "charged ", "reserved (UTC)", "key"], runs)
        if KEPT_IN[self.unit]:
            yield f"\n{KEPT_IN[self.unit]}"


# The rules of the ledger: which entry may follow, and the state as a pure fold over the entries.
#
# A run goes ``reserved -> measured -> sealed``; only ``reserved``, when nothing has been drawn yet, can become
# ``void``. With :math:`c_r` the cost of run :math:`r` and :math:`B` the budget, every state of the ledger satisfies
# exactly
#
# .. math:: \sum_{r \text{ reserved, measured or sealed}} c_r \le B,
#
# and the same for the deltas of an approximate ledger. Costs add up because the definitions the ledger knows compose
# by addition, also when a later release is chosen in the light of an earlier one: epsilon of pure differential
# privacy, and epsilon and delta of approximate (Dwork and Roth 2014, theorem 3.16), and rho of zCDP (Bun and Steinke
# 2016, lemma 1.7). That the costs themselves may be chosen on the way, as long as the budget was fixed beforehand, is
# the theorem of the privacy filter (Rogers et al. 2016; for zCDP, Feldman and Zrnic 2021).
#
# The same function :func:`apply` decides whether a new entry may be written and computes the state from written ones,
# so that a ledger whose entries break a rule, with hashes however correct, does not open.


def fold(entries: Iterable[ledger_entries.Entry]) -> Account:
    """The state after ``entries``; a LedgerError that names the first entry that breaks a rule."""
    account: Account | None = None
    for entry in entries:
        try:
            account = apply(account, entry)
        except LedgerError as error:
            raise LedgerError(
                "ledger-broken/breaks",
                where=Place(path=f"entry {entry.sequence}"),
                found=error.findings[0].found,
                sequence=entry.sequence,
                kind=entry.kind,
                problem=error.findings[0].what,
                expected=error.findings[0].expected,
            ) from None
    if account is None:
        raise LedgerError("ledger-broken/entries")
    return account


def apply(account: Account | None, entry: ledger_entries.Entry) -> Account:
    """The state after ``entry``, or a LedgerError that says why it cannot follow."""
    event = entry.event
    if account is None:
        if isinstance(event, ledger_entries.Opened):
            return _open(event, entry)
        raise LedgerError("ledger-order/open", found=event.kind)
    if isinstance(event, ledger_entries.Opened):
        raise LedgerError("ledger-order/budget", found=event.kind)
    changed = (
        _reserve(account, event, entry)
        if isinstance(event, ledger_entries.Reserved)
        else _advance(account, event, entry)
    )
    return replace(account, runs=MappingProxyType({**account.runs, changed.run_id: changed}))


def already(account: Account, event: ledger_entries.RunEvent) -> Reservation | None:
    """The run as it stands if ``event`` is recorded already: asking again costs nothing and writes nothing.

    A process that dies after its entry was written, and before it heard so, asks again when it is run again.
    """
    run = account.runs.get(event.run_id)
    if run is None:
        return None
    match event:
        case ledger_entries.Reserved():
            same = run.state != "void" and not _differences(run, event)
        case ledger_entries.Measured():
            same = run.state == "measured" and run.key_commitment in (None, event.key_commitment or None)
        case ledger_entries.Sealed():
            same = run.state == "sealed" and run.manifest_sha256 == event.manifest_sha256
        case ledger_entries.Voided():
            same = run.state == "void"
        case ledger_entries.KeyDestroyed():
            same = run.key_destroyed
    return run if same else None


def _open(event: ledger_entries.Opened, entry: ledger_entries.Entry) -> Account:
    return Account(
        data_set=event.data_set,
        definition=event.definition,
        neighbours=event.neighbours,
        budget=event.budget,
        note=event.note,
        delta=event.delta,
        unit=event.unit,
        opened_at=entry.time,
        runs=MappingProxyType({}),
    )


def _reserve(account: Account, event: ledger_entries.Reserved, entry: ledger_entries.Entry) -> Reservation:
    if (run := account.runs.get(event.run_id)) is not None:
        raise LedgerError(_taken(run, event))
    if not account.holds(event.cost, event.delta):
        raise BudgetExceededError(
            "budget-exceeded/fit",
            release=event.release,
            data_set=account.data_set,
            cost=_both(event.cost, event.delta),
            left=_both(account.left, account.left_delta),
            spent=_both(account.spent, account.spent_delta),
            budget=_both(account.budget, account.delta),
            definition=account.definition,
            neighbours=account.neighbours,
            left_expected=_both(account.left, account.left_delta) if account.left else None,
            account_left=account.left,
            reserved=ledger_entries.shown(account.reserved) if account.reserved else None,
            account_reserved=account.reserved,
        )
    return Reservation(
        run_id=event.run_id,
        release=event.release,
        plan_hash=event.plan_hash,
        records_fingerprint=event.records_fingerprint,
        cost=event.cost,
        delta=event.delta,
        unit=event.unit,
        reservation_hash=entry.hash,
        reserved_at=entry.time,
        changed_at=entry.time,
    )


def _advance(
    account: Account,
    event: ledger_entries.Measured | ledger_entries.Sealed | ledger_entries.Voided | ledger_entries.KeyDestroyed,
    entry: ledger_entries.Entry,
) -> Reservation:
    run = replace(account.run(event.run_id), changed_at=entry.time)
    match event:
        case ledger_entries.Measured():
            if run.key_commitment not in (None, event.key_commitment):
                raise LedgerError("ledger-other-key", found=CONFIDENTIAL, run_id=run.run_id)
            _require(run, ("reserved",), "a run is measured once; if this one is void, start a new run")
            return replace(run, state="measured", key_commitment=event.key_commitment or None)
        case ledger_entries.Sealed():
            _require(run, ("measured",), "a run is sealed once, after it was measured, with one manifest")
            return replace(run, state="sealed", manifest_sha256=event.manifest_sha256)
        case ledger_entries.Voided():
            _require(run, ("reserved",), "noise was drawn, so the run stays charged; finish it, at no further cost")
            return replace(run, state="void", void_reason=event.reason)
        case ledger_entries.KeyDestroyed():
            _require(run, ("sealed", "void"), "seal the run first: without its key it can never be finished")
            if run.key_destroyed:
                raise LedgerError("ledger-state/key")
            return replace(run, key_destroyed=True)


def _require(run: Reservation, states: tuple[RunState, ...], remedy: str) -> None:
    if run.state not in states:
        wanted = " or ".join(states)
        raise LedgerError(
            "ledger-state/run", found=run.state, run_id=run.run_id, state=run.state, wanted=wanted, remedy=remedy
        )


def _differences(run: Reservation, event: ledger_entries.Reserved) -> list[str]:
    pairs = {
        "release": (run.release, event.release),
        "plan": (run.plan_hash, event.plan_hash),
        "records": (run.records_fingerprint, event.records_fingerprint),
        "cost": ((run.cost, run.delta, run.unit), (event.cost, event.delta, event.unit)),
    }
    return [name for name, (held, asked) in pairs.items() if held != asked]


def _taken(run: Reservation, event: ledger_entries.Reserved) -> Finding:
    differences = _differences(run, event)
    return Finding.of(
        "ledger-run-differs" if differences else "ledger-run-exists",
        found=CONFIDENTIAL if differences == ["records"] else _described(event),
        run_id=run.run_id,
        differences=", ".join(differences) if differences else None,
        state=run.state,
        run=_described(run),
    )


def _described(what: Reservation | ledger_entries.Reserved) -> str:
    return f"release {what.release!r}, plan {what.plan_hash[:16]}…, cost {_both(what.cost, what.delta)}"


def _both(cost: Fraction, delta: Fraction) -> str:
    return (
        f"{ledger_entries.shown(cost)} with delta {ledger_entries.shown(delta)}"
        if delta
        else ledger_entries.shown(cost)
    )
