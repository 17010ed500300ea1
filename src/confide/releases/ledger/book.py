"""The verbs of the ledger.

A :class:`Ledger` is a handle: it holds a path and no open file. Each verb is one transaction that reads the whole
chain, verifies it, folds it into the state, and adds at most one entry (a ledger has a few entries for each run, so
this takes milliseconds). State is never kept between two calls; the last entry seen is, to notice an older copy put
back.
"""

from __future__ import annotations

import json
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import CONFIDENTIAL, Finding, LedgerError, Place, Severity
from confide.exact import Exact, exact
from confide.file_system import open_to_others, write_text
from confide.releases.ledger import entries
from confide.releases.ledger import entries as ledger_entries
from confide.releases.ledger.account import Account, Reservation, RunState, already, apply, fold

# The ledger compared with the run folders: what a hash chain cannot tell about itself.
#
# Somebody who may write the file can cut entries off its end, or put an older copy in its place, and the chain that
# is left is whole. But each run folder keeps the hash of the entry that reserved it. A folder whose reservation is
# not in the chain proves that the ledger has forgotten; a folder that is further on than the ledger proves it too.


_STEPS: dict[RunState, int] = {"void": 0, "reserved": 1, "measured": 2, "sealed": 3}
_IF_LOST: dict[RunState, str] = {
    "reserved": "look for the folder; if nothing was drawn and the run will not be made, void it to free its cost",
    "measured": "look for the folder: with it the run is finished at no further cost; without it the cost stays spent",
    "sealed": "if the folder was archived on purpose, nothing; otherwise restore it from a copy",
}


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run folder says about itself.

    ``state`` is how far the files in the folder show the run to be: ``measured`` as soon as anything noisy was kept,
    ``sealed`` once the release is complete; None if that was not looked at. ``manifest_sha256`` is computed from the
    manifest in the folder, if there is one.
    """

    run_id: str
    plan_hash: str
    reservation_hash: str
    folder: Path
    state: RunState | None = None
    manifest_sha256: str | None = None
    key_commitment: str | None = None
    """Of the key in the folder, if there is one that can be read."""


def compare(account: Account, records: Iterable[RunRecord]) -> tuple[Finding, ...]:
    """Everything in which the run folders and the ledger disagree; nothing if they agree."""
    findings: list[Finding] = []
    folders: dict[str, Path] = {}
    for record in records:
        if record.run_id in folders:
            findings.append(_finding("reconcile-twice", record, run_id=record.run_id, first=folders[record.run_id]))
        else:
            folders[record.run_id] = record.folder
        findings += _disagreements(record, account.runs.get(record.run_id))
    charged = (run for run in account.runs.values() if run.state != "void")
    return tuple(
        findings
        + [
            Finding.of(
                "reconcile-no-folder",
                where=Place(path=f"run {run.run_id}"),
                severity="warning",
                run_id=run.run_id,
                release=run.release,
                cost=ledger_entries.shown(run.cost),
                state=run.state,
                if_lost=_IF_LOST[run.state],
            )
            for run in charged
            if run.run_id not in folders
        ]
    )


def _disagreements(record: RunRecord, run: Reservation | None) -> Iterator[Finding]:
    if run is None:
        yield _finding("reconcile-not-in-ledger", record, run_id=record.run_id)
        return
    if record.reservation_hash != run.reservation_hash:
        yield _finding(
            "reconcile-other-reservation",
            record,
            reservation_hash=record.reservation_hash[:16],
            reservation_hash_expected=run.reservation_hash[:16],
        )
    if record.plan_hash != run.plan_hash:
        yield _finding(
            "reconcile-other-plan", record, plan_hash=record.plan_hash[:16], plan_hash_expected=run.plan_hash[:16]
        )
    if run.manifest_sha256 and record.manifest_sha256 and run.manifest_sha256 != record.manifest_sha256:
        yield _finding(
            "reconcile-other-manifest",
            record,
            manifest_sha256=record.manifest_sha256[:16],
            manifest_sha256_expected=run.manifest_sha256[:16],
        )
    if run.key_commitment and record.key_commitment and run.key_commitment != record.key_commitment:
        yield _finding("reconcile-other-key", record, found=CONFIDENTIAL)
    if record.state is not None and record.state != run.state:
        yield from _states(record, record.state, run.state)


def _states(record: RunRecord, folder: RunState, ledger: RunState) -> Iterator[Finding]:
    """A folder may be behind its ledger, where each step is recorded first; only a release is sealed first."""
    if (folder, ledger) == ("reserved", "void"):
        yield _finding("reconcile-void", record, "warning", folder=folder, ledger=ledger)
    elif (folder, ledger) == ("sealed", "measured"):
        yield _finding("reconcile-not-recorded", record, "warning", folder=folder, ledger=ledger)
    elif _STEPS[folder] > _STEPS[ledger]:
        yield _finding("reconcile-ahead", record, folder=folder, ledger=ledger)
    elif ledger == "sealed" or folder == "void":
        yield _finding("reconcile-behind", record, "warning", folder=folder, ledger=ledger)


def _finding(key: str, record: RunRecord, severity: Severity = "error", **facts: Any) -> Finding:
    place = Place(file=str(record.folder), path=f"run {record.run_id}")
    return Finding.of(key, where=place, severity=severity, **facts)


# Witnesses: what the folder of the records and other run folders say of the ledger of these records.
#
# A data set has one ledger, and its chain only grows. Whoever opens a second one, or puts an older copy in its place,
# has a whole budget again. So each run leaves a witness beside the records: which ledger it was charged to, and how far
# that ledger had come. It holds no value of a record.
WITNESS_FORMAT = "confide/witness/v1"
ACCEPT = "--accept-ledger"
OTHER_RECORDS = "ledger-other-records"


class History(tuple[ledger_entries.Entry, ...], TypedAnswer):
    """Every entry of a ledger, in order."""

    __slots__ = ()

    only = "entries"

    def as_dict(self) -> dict[str, Any]:
        """The entries as they are in the file, without what stands for the records: that stays in the ledger."""
        names = ("sequence", "time", "kind", "payload", "previous", "hash")
        rows = [dict(zip(names, entry.row(), strict=True)) for entry in self]
        return {"entries": [row | {"payload": _without_fingerprint(str(row["payload"]))} for row in rows]}

    def described(self) -> Iterator[AnswerPart]:
        """When each entry was written, and what kind it is."""
        rows = [(entry.sequence, f"{entry.time:%Y-%m-%d %H:%M:%S}", entry.kind, entry.hash[:16]) for entry in self]
        yield ShownTable(["", "time (UTC)", "kind", "hash"], rows)


def _without_fingerprint(payload: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(payload).items() if name != "records_fingerprint"}


class Disagreements(tuple[Finding, ...], TypedAnswer):
    """Everything in which a ledger and the folders of its runs disagree."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether none of it is an error."""
        return all(finding.severity != "error" for finding in self)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"ok": self.ok, "findings": [finding.as_dict() for finding in self]}

    def described(self) -> Iterator[AnswerPart]:
        """The findings, or that there are none."""
        yield from self or ("The ledger and the run folders agree.",)


@dataclass(frozen=True, slots=True)
class Sighting:
    """How far a ledger had come when somebody saw it. Without a sequence, one of its entries is known by its hash."""

    ledger_id: str | None
    hash: str
    sequence: int | None = None
    data_set: str = ""
    where: Path = Path()


def witness_file(records: Path) -> Path:
    """Where the witness of a file of records lies: beside it, and as private."""
    return records.with_name(f".{records.name}.witness.json")


def read_witness(records: Path) -> tuple[Sighting, ...]:
    """Every ledger that runs over these records were charged to. Raises a LedgerError if somebody changed the file."""
    file = witness_file(records)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["format"] != WITNESS_FORMAT:
            raise ValueError
        return tuple(
            Sighting(str(one["ledger_id"]), str(one["hash"]), int(one["sequence"]), str(one["data_set"]), file)
            for one in content["ledgers"]
        )
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, LookupError, TypeError):
        raise LedgerError("ledger-witness", where=Place(file=str(file))) from None


def leave_witness(records: Path, sighting: Sighting) -> bool:
    """Notes beside the records how far their ledger has come. Says whether it could: a folder may be read-only."""
    try:
        others = [other for other in read_witness(records) if other.ledger_id != sighting.ledger_id]
        ledgers = [
            {"ledger_id": one.ledger_id, "data_set": one.data_set, "sequence": one.sequence, "hash": one.hash}
            for one in (*others, sighting)
        ]

        write_text(witness_file(records), json.dumps({"format": WITNESS_FORMAT, "ledgers": ledgers}, indent=1) + "\n")
    except (OSError, LedgerError):
        return False
    return True


def _contradicted(
    entries: tuple[ledger_entries.Entry, ...], path: Path, beside: Iterable[Sighting], in_folders: Iterable[Sighting]
) -> Iterator[Finding]:
    """What witnesses say against a ledger with these entries: that it was set back, or is not the first."""
    opened, chain = entries[0].event, [entry.hash for entry in entries]
    assert isinstance(opened, ledger_entries.Opened)
    witnesses = (*beside, *in_folders)
    accepted = {sighting.ledger_id for sighting in beside}
    for sighting in (one for one in witnesses if one.ledger_id == opened.ledger_id):
        known = chain if sighting.sequence is None else chain[sighting.sequence - 1 : sighting.sequence]
        if sighting.hash not in known:
            yield Finding.of(
                "ledger-set-back",
                where=Place(file=str(path), path=f"entry {len(chain)}"),
                chain=len(chain),
                place=sighting.where,
                accept=ACCEPT,
            )
            return
    for sighting in (one for one in witnesses if one.ledger_id != opened.ledger_id and one.hash not in chain):
        if {sighting.ledger_id, opened.ledger_id} <= accepted:
            continue
        yield Finding.of(
            "ledger-second", where=Place(file=str(path)), data_set=opened.data_set, place=sighting.where, accept=ACCEPT
        )
        return


def _unseen(account: Account, path: Path) -> Finding:
    """These records beside others: of the same people, or of people whom somebody else's budget would pay for."""
    return Finding.of("ledger-other-records", where=Place(file=str(path)), data_set=account.data_set, accept=ACCEPT)


Clock = Callable[[], datetime]
LOCK_TIMEOUT = 60.0


def utc_now() -> datetime:
    return datetime.now(UTC)


class Ledger:
    """The ledger of one data set.

    ``lock_timeout`` is how many seconds to wait for another process; ``clock_tolerance`` how far the clock may be
    behind the last entry. Making the handle verifies the chain.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Clock = utc_now,
        lock_timeout: float = LOCK_TIMEOUT,
        clock_tolerance: timedelta = ledger_entries.CLOCK_TOLERANCE,
    ):
        self.path = Path(path)
        self._clock = clock
        self._timeout = lock_timeout
        self._tolerance = clock_tolerance
        self._seen: ledger_entries.Entry | None = None
        self._read()

    @classmethod
    def open_new(
        cls,
        path: Path | str,
        *,
        data_set: str,
        definition: ledger_entries.Definition,
        neighbours: ledger_entries.Neighbours,
        budget: Exact,
        delta: Exact = 0,
        note: str = "",
        unit: ledger_entries.UnitName = "record",
        clock: Clock = utc_now,
    ) -> Ledger:
        """Open the ledger of ``data_set`` with its whole budget, once. Refuses a path where anything is."""
        event = ledger_entries.Opened(
            ledger_id=secrets.token_hex(32),
            data_set=data_set,
            definition=definition,
            neighbours=neighbours,
            budget=exact(budget, "budget"),
            note=note,
            delta=exact(delta, "delta"),
            unit=unit,
        )
        entries.create(Path(path), ledger_entries.following(None, event, ledger_entries.moment_after(None, clock())))
        return cls(path, clock=clock)

    def reserve(
        self,
        run_id: str,
        *,
        release: str,
        plan_hash: str,
        records_fingerprint: str,
        cost: Exact,
        delta: Exact = 0,
        unit: ledger_entries.UnitName = "record",
        accept_records: bool = False,
    ) -> Reservation:
        """Take ``cost`` (and ``delta``, where the ledger has one) from the budget, or refuse and take nothing.

        Asked again for the same run, plan, records and cost it returns what is reserved and takes nothing: that is how
        a run goes on after a crash. Look at ``state``: a run that is ``sealed`` has nothing left to do.

        A ledger that was charged for other records, and never for these, refuses too: it may be another data set's.
        ``accept_records`` says that they are of the same people. ``unit`` is what the release protects, where the
        ledger is kept in a named unit.
        """
        return self._record(
            ledger_entries.Reserved(
                run_id=run_id,
                release=release,
                plan_hash=plan_hash,
                records_fingerprint=records_fingerprint,
                cost=exact(cost, "cost"),
                delta=exact(delta, "delta"),
                unit=unit,
            ),
            accept_records=accept_records,
        )

    def mark_measured(self, run_id: str, key_commitment: str = "") -> Reservation:
        """Record, before the first draw, that the run draws. From here on its cost cannot be given back.

        Args:
            run_id: The run, as its reservation names it.
            key_commitment: Which key it draws with (:attr:`confide.noise.ReleaseKey.commitment`). Asked again with
                another key, the ledger refuses: a copy of the folder would draw a second noise for one charge.

        Returns:
            The run as the ledger now has it.
        """
        return self._record(ledger_entries.Measured(run_id=run_id, key_commitment=key_commitment))

    def mark_sealed(self, run_id: str, manifest_sha256: str) -> Reservation:
        """Record that the release of the run is complete."""
        return self._record(ledger_entries.Sealed(run_id=run_id, manifest_sha256=manifest_sha256))

    def void(self, run_id: str, reason: str) -> Reservation:
        """Give up a run that has drawn nothing; its cost goes back to the budget.

        Args:
            run_id: The run, as its entry names it.
            reason: Why, for the record.

        Returns:
            The run as the ledger now has it.
        """
        return self._record(ledger_entries.Voided(run_id=run_id, reason=reason))

    def mark_key_destroyed(self, run_id: str) -> Reservation:
        """Record that the key of a sealed or void run is gone."""
        return self._record(ledger_entries.KeyDestroyed(run_id=run_id))

    def status(self, run_id: str) -> Reservation:
        """One run; a LedgerError if the ledger does not hold it."""
        return self.account().run(run_id)

    def account(self) -> Account:
        """The budget, what is spent and left, and every run."""
        return fold(self._read())

    def history(self) -> History:
        """Every entry, in order."""
        return History(self._read())

    def verify(self, noted: Iterable[str] = ()) -> ledger_entries.Entry:
        """Check the chain and the rules, and return the last entry.

        Its hash stands for the whole ledger up to here: note it where the file cannot reach (a certificate, a signed
        report). ``noted`` are hashes noted earlier; one that is no longer in the chain raises a LedgerError.
        """
        entries = self._read()
        known = {entry.hash for entry in entries}
        lost = [hash_ for hash_ in noted if hash_ not in known]
        if lost:
            raise LedgerError(
                "ledger-rolled-back/forgotten-entries-cut",
                where=Place(file=str(self.path), path=f"entry {entries[-1].sequence}"),
                lost=lost[0][:80],
            )
        return entries[-1]

    def sighting(self) -> Sighting:
        """How far the ledger has come: what is left beside the records as a witness."""
        entries = self._read()
        opened = entries[0].event
        assert isinstance(opened, ledger_entries.Opened)
        return Sighting(opened.ledger_id, entries[-1].hash, entries[-1].sequence, opened.data_set, self.path)

    def contradicted(self, beside: Iterable[Sighting], in_folders: Iterable[Sighting]) -> tuple[Finding, ...]:
        """Compare with witnesses; a finding if one of them shows that this ledger was set back, or is a second one.

        Args:
            beside: What lies beside the records. Two ledgers that are both noted there were accepted.
            in_folders: What run folders over the same records know.

        Returns:
            A finding, or none.
        """
        return tuple(_contradicted(self._read(), self.path, tuple(beside), tuple(in_folders)))

    def unwritable(self) -> tuple[Finding, ...]:
        """A finding if the ledger can be read, and nothing can be charged to it."""
        finding = entries.unwritable(self.path)
        return () if finding is None else (finding,)

    def unseen(self, records_fingerprint: str) -> tuple[Finding, ...]:
        """A finding if the ledger was charged for other records and never for these; :meth:`reserve` raises it."""
        account = self.account()
        return () if account.knows(records_fingerprint) else (_unseen(account, self.path),)

    def reconcile(self, records: Iterable[RunRecord]) -> Disagreements:
        """Compare with the run folders; every disagreement is a finding."""
        findings, mode = list(compare(self.account(), records)), stat.S_IMODE(self.path.stat().st_mode)
        if open_to_others(mode):
            where = Place(file=str(self.path))
            findings.append(Finding.of("ledger-exposed", where=where, severity="warning", mode=mode, at=self.path))
        return Disagreements(findings)

    def back_up(self, target: Path | str) -> None:
        """Copy the ledger, verified, to a file that does not exist yet; safe while runs use the ledger."""
        entries.copy(self.path, Path(target), self._timeout)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _read(self) -> tuple[ledger_entries.Entry, ...]:
        with entries.reading(self.path, self._timeout) as transaction:
            self._recognise(transaction.entries)
            fold(transaction.entries)
        return transaction.entries

    def _record(self, event: ledger_entries.RunEvent, *, accept_records: bool = False) -> Reservation:
        with entries.writing(self.path, self._timeout) as transaction:
            self._recognise(transaction.entries)
            account = fold(transaction.entries)
            if (standing := already(account, event)) is not None:
                return standing
            strange = isinstance(event, ledger_entries.Reserved) and not account.knows(event.records_fingerprint)
            if strange and event.run_id not in account.runs and not accept_records:
                raise LedgerError(_unseen(account, self.path))
            time = ledger_entries.moment_after(transaction.last, self._clock(), self._tolerance)
            entry = ledger_entries.following(transaction.last, event, time)
            after = apply(account, entry)
            transaction.append(entry)
        self._seen = entry
        return after.runs[event.run_id]

    def _recognise(self, entries: tuple[ledger_entries.Entry, ...]) -> None:
        """Check that the chain goes on from the last entry that this handle saw, and remember its end."""
        seen = self._seen
        if seen is not None and (len(entries) < seen.sequence or entries[seen.sequence - 1].hash != seen.hash):
            raise LedgerError(
                "ledger-rolled-back/longer",
                where=Place(file=str(self.path), path=f"entry {entries[-1].sequence}"),
                sequence=seen.sequence,
            )
        self._seen = entries[-1]
