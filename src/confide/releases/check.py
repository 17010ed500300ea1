"""``check``: every problem of a spec and its inputs at once, and the price. Nothing is spent, nothing is kept."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.engines.local import join_warnings
from confide.engines.protocol import Engine, Source
from confide.errors import CONFIDENTIAL, ConfideError, Finding, InputError, Place, RunError
from confide.exact import fraction_up
from confide.file_system import private_umask
from confide.inputs.frame import BLOCK, OffendingValues, reading_in_words
from confide.inputs.records import check_areas, count_rows
from confide.noise import TruncatedDistribution, check_width
from confide.privacy import Definition, Neighbours, PrivacyUnit
from confide.releases import Job, Mechanism, Progress, RunIdentity, Workspace
from confide.releases.companions.geoparquet import geometry_findings
from confide.releases.companions.programs import same_in_sdmx
from confide.releases.ledger import KEPT_IN, Account, Ledger, Sighting, read_witness
from confide.releases.loss_account import StatedPrice
from confide.releases.plan import Plan, Summary
from confide.releases.spec import LoadedSpec, find_source, find_sources
from confide.releases.verify import stamped_input
from confide.releases.workspace import memory_forecast, no_room_is_an_error, recall_key

KeyKind = Literal["system", "chosen"]
"""Where the key of a run comes from: the operating system, or somebody's choice for a trial."""


class Charge(NamedTuple):
    """What a ledger takes for a release: epsilon or rho and, where it is kept in approximate, a delta."""

    amount: Fraction
    delta: Fraction = Fraction(0)

    def __str__(self) -> str:
        return f"{number(self.amount)} with delta {number(self.delta)}" if self.delta else number(self.amount)


@dataclass(frozen=True)
class Checked(TypedAnswer):
    """What is known once a spec was checked: the problem, the plan, its price, and what is wrong."""

    problem: Any
    plan: Plan | None
    cost: Charge | None
    account: Account | None
    findings: tuple[Finding, ...]
    fingerprint: str = ""
    """Of the records, taken before they were looked at: a run is bound to the very records that were checked."""
    in_words: Callable[[], tuple[Summary | None, StatedPrice | None]] = lambda: (None, None)
    """Works out summary and price, which a run without a terminal does not ask for."""
    offending: tuple[OffendingValues, ...] = ()
    """Values of records that break a rule, confidential, where somebody asked for them."""

    @property
    def summary(self) -> Summary | None:
        """What the release would have and cost, for a terminal."""
        return self.in_words()[0]

    @property
    def price(self) -> StatedPrice | None:
        """The price in words, beside what others spent; none where a release has no loss."""
        return self.in_words()[1]

    def ready(self) -> Plan:
        """The plan, if nothing stands in the way of a run; raises with all findings otherwise."""
        if self.errors or self.plan is None or self.cost is None:
            raise RunError(self.findings)
        return self.plan

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stand in the way of a run."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def ok(self) -> bool:
        """Whether nothing stands in the way of a run."""
        return not self.errors

    @property
    def left_after(self) -> str:
        """What the budget has left once the release is charged, in words."""
        after = Fraction(0) if self.price is None or self.price.left_after is None else self.price.left_after
        return "nothing" if after <= 0 else _exact_or_less(after)

    def described(self) -> Iterator[AnswerPart]:
        """Every finding, what the release would have and cost, and what its ledger has left."""
        plan = self.plan
        yield from self.findings
        if plan is not None and "reading" in plan.question:
            yield "How the records are read (this is part of the plan):"
            yield from (f"  {line}" for line in reading_in_words(plan.question["reading"]))
        if self.summary is not None:
            yield from self.summary.described()
        if self.price is not None:
            yield from self.price.described()
        if self.account is not None and self.cost is not None:
            account = self.account
            delta = f" with delta {float(account.left_delta):g}" if account.delta else ""
            after = "" if self.price is None else f" and leave {self.left_after}"
            has = f"The ledger has {_exact_or_less(account.left)}{delta} of {account.budget} left."
            yield f"{has} This release would cost {self.cost}{after}."
            if plan is not None and account.unit not in ("record", plan.protects):
                yield KEPT_IN[account.unit]
        if self.ok:
            nothing = "" if plan is not None and not plan.has_loss else " Nothing was spent."
            yield Said("No problems found.", nothing, Tone.GOOD)

    def as_dict(self) -> dict[str, Any]:
        """What was found, and the price, as plain values for ``--json``."""
        plan, cost = self.plan, self.cost
        return {
            "ok": self.ok,
            "findings": [finding.as_dict() for finding in self.findings],
            "cost": None if cost is None or (plan and not plan.has_loss) else str(cost.amount),
            "delta": None if cost is None or not cost.delta else str(cost.delta),
            "left": None if self.account is None else str(self.account.left),
            "price": None if self.price is None else self.price.as_dict(),
            "plan": None if plan is None else plan.as_dict() | {"hash": plan.hash, "counts": plan.counts},
        }


def _exact_or_less(amount: Fraction) -> str:
    """A fraction as it is, and one with many digits as less than a short number."""
    return str(amount) if amount.denominator < 10**6 else f"less than {fraction_up(amount)}"


def check(
    loaded: LoadedSpec,
    mechanism: Mechanism[Any],
    engine: Engine,
    workspace: Workspace,
    progress: Progress,
    *,
    key: KeyKind | None = "system",
    accept_ledger: bool = False,
) -> Checked:
    """Looks at everything a run would look at before it spends: spec, frame, plan, ledger, room, records.

    Args:
        loaded: The spec.
        mechanism: The mechanism that it names.
        engine: What reads and counts.
        workspace: The folder of the run, with a place for spilled rows.
        progress: Receives the stage.
        key: The kind of key of the run that is to follow; none where nothing is spent and no run goes on. The ledger is
            compared with what lies beside the records and in other run folders, but for trials with a chosen key, whose
            ledgers are no data set's.
        accept_ledger: Whether a ledger that witnesses contradict, or that was charged for other records alone, is taken
            all the same, with a warning.

    Returns:
        The plan and its price, as far as they could be found, and every finding.
    """
    findings: list[Finding] = of_origin(mechanism) + memory_forecast(workspace.root)
    if any(finding.severity == "error" for finding in findings):
        return Checked(None, None, None, None, tuple(findings))
    account = _read_ledger(loaded, findings) if mechanism.accounted else None
    begun = _read_run(workspace, account, findings)
    findings += unusable_folder(loaded, workspace) or taken_folder(loaded, workspace, begun, account)
    findings += _spilled(loaded, workspace)
    try:
        problem = mechanism.prepare(loaded, engine)
        plan = mechanism.plan(problem)
    except ConfideError as error:
        findings += once_for_both_files(error.findings)
        return Checked(None, None, None, account, in_office_words(findings, loaded.spec.geography.smallest))
    findings += _too_wide(loaded, plan) + _unit_of_rows(loaded, mechanism, plan)
    for name, given in mechanism.public_inputs(problem).items():
        findings += stamped_input(loaded.place("data", name), given, trial=key == "chosen")
    if loaded.spec.geography.outlines:
        frame = problem.frame
        levels = () if frame is None else (*frame.spine.levels, *frame.spine.areas)
        codes = {level.name: level.codes for level in levels}
        findings += geometry_findings(loaded, mechanism.explain.codebook({"plan": plan.as_dict()}), codes)
    findings += _same_identifiers(loaded, mechanism, plan)
    cost = None if mechanism.accounted else Charge(Fraction(0))
    if account is not None:
        cost = _price(loaded, plan, account, begun, findings)
    job = Job(loaded, plan, engine, workspace, progress)
    try:
        fingerprint = mechanism.fingerprint(problem)
    except OSError as error:  # what cannot be read is found, and named, by the check of the records
        if error.errno == errno.ENOMEM:
            raise
        fingerprint = ""
    if begun is not None and key is not None:
        findings += _not_the_run(loaded, begun, plan, fingerprint, account, workspace, key)
    if account is not None and key == "system" and all(finding.code != NOT_IN_LEDGER for finding in findings):
        charged = begun is not None and begun.run_id in account.runs
        findings += _contradicted(loaded, workspace, fingerprint, charged=charged, accepted=accept_ledger)
    with progress.stage("Checking records", 1) as advance:
        try:
            of_records = mechanism.check(problem, job)
        except InputError as error:
            of_records = list(error.findings)
        advance(1)
    if not any(finding.severity == "error" for finding in of_records):
        of_records += _household_areas(loaded, engine) + _of_two_files(loaded, engine)
    findings += once_for_both_files(of_records)
    if not any(finding.code == "out-of-memory" for finding in findings):
        frame = getattr(problem, "frame", None)
        held = 0
        if mechanism.memory_per_record and not any(finding.severity == "error" for finding in of_records):
            held = mechanism.memory_per_record * count_rows(engine, problem.records, ())[0]
        findings += memory_forecast(workspace.root, 0 if frame is None else frame.spine.blocks.units, held)
    if begun is None:
        needed = mechanism.bytes_needed(problem, plan)
        if not any(finding.severity == "error" for finding in of_records):
            needed += mechanism.bytes_of_records(problem, job)
        findings += room(workspace, needed)
    if account is not None and key is not None and not {"run-folder", "disk-full"} & {each.code for each in findings}:
        findings += Ledger(ledger_path(loaded)).unwritable()  # said once, where both are in one folder

    @cache
    def in_words() -> tuple[Summary | None, StatedPrice | None]:
        spends = mechanism.accounted and plan.has_loss
        price = _stated_price(loaded, plan, cost, account, begun) if spends else None
        return mechanism.explain.summary(plan), price

    worded = in_office_words(findings, loaded.spec.geography.smallest)
    return Checked(problem, plan, cost, account, worded, fingerprint, in_words)


def of_origin(mechanism: Mechanism[Any]) -> list[Finding]:
    """What whoever checks a spec has to know of where its mechanism comes from: nothing, if it is Confide's own and
    nobody else has taken its name."""
    warnings = [replace(each, severity="warning") for each in mechanism.refused_packages]
    if mechanism.package is not None:
        warnings.append(
            Finding.of(
                "foreign-mechanism/comes",
                where=Place(path="release.mechanism"),
                found=str(mechanism.package),
                severity="warning",
                mechanism=mechanism.name,
            )
        )
    return warnings


def _household_areas(loaded: LoadedSpec, engine: Engine) -> list[Finding]:
    """A finding if the block table of a spec lists the households of its records, where these are persons."""
    data = loaded.spec.data
    if not (data.records and data.blocks) or data.one_row_for_each_block or getattr(data, "value", None) is not None:
        return []
    sources, _ = find_sources(loaded)
    if len(sources) < 2:
        return []
    return check_areas(engine, sources["records"], sources["blocks"], loaded.spec.geography.block)


def _unit_of_rows(loaded: LoadedSpec, mechanism: Mechanism[Any], plan: Plan) -> list[Finding]:
    """A finding if a plan with a price protects persons where the rows of two files are households, or the other way
    round: an account would be charged half of what one person can change, and the certificate speak of another."""
    data = loaded.spec.data
    households = data.counts == "households"
    if not mechanism.accounted or data.households is None or households == (plan.protects is PrivacyUnit.HOUSEHOLD):
        return []
    return [
        Finding.of("two-files/unit", where=loaded.place("privacy"), households=households, unit=plan.protects.value)
    ]


def _of_two_files(loaded: LoadedSpec, engine: Engine) -> list[Finding]:
    """What is assumed of records in two files."""
    source = find_source(loaded, "records") if loaded.spec.data.households else None
    return (
        [] if not isinstance(source, Source) or source.joined is None else join_warnings(engine, source, source.joined)
    )


def _stated_price(
    loaded: LoadedSpec, plan: Plan, cost: Charge | None, account: Account | None, begun: RunIdentity | None
) -> StatedPrice:
    """The price in words, and what is left afterwards: of a run that was charged before, no less than now."""
    remaining = None
    if account is not None and cost is not None:
        charged = begun is not None and begun.run_id in account.runs
        remaining = account.left if charged else account.left - cost.amount
    return StatedPrice.of(plan, plan.delta or loaded.spec.privacy.delta, remaining)


def once_for_both_files(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with one for both files where both have another layout than the spec says, for the same reason."""
    joined: dict[object, Finding] = {}
    for finding in findings:
        layout = finding.code in ("wrong-delimiter", "encoding")
        key = (finding.code, finding.remedy) if layout else finding
        first = joined.setdefault(key, finding)
        if layout and first.where.file != finding.where.file:
            where = replace(first.where, file=f"{first.where.file}, {finding.where.file}")
            joined[key] = replace(first, where=where)
    return list(joined.values())


_BLOCK = re.compile(
    r"""(?<![\w"'`\[.])(?<!\]\ )  # neither a value nor a key of a spec
    (?:(?P<an>an?)\ )?(?P<block>block(?P<table>\ table)?(?P<s>s?))
    (?![\w"'`\].]|\ =)""",
    re.VERBOSE,
)


def in_office_words(findings: Iterable[Finding], smallest: str) -> tuple[Finding, ...]:
    """Findings in the words of an office that calls its smallest places otherwise than blocks.

    >>> finding = Finding("household", "members of one household are in different blocks", remedy="[data] blocks = ...")
    >>> print(*in_office_words([finding], "municipality"))
    members of one household are in different municipality areas
      remedy: [data] blocks = ...
    """
    if smallest == BLOCK:
        return tuple(findings)

    def word(match: re.Match[str]) -> str:
        text = f"file{match['s']} of areas" if match["table"] else smallest + (" areas" if match["s"] else "")
        article = "" if match["an"] is None else ("an " if text[0] in "aeiou" else "a ")
        return article + text

    def worded(text: str | None) -> str | None:
        return None if text is None else _BLOCK.sub(word, text)

    return tuple(
        replace(
            finding,
            what=_BLOCK.sub(word, finding.what),
            found=worded(finding.found),
            expected=worded(finding.expected),
            remedy=worded(finding.remedy),
        )
        for finding in findings
    )


@contextmanager
def throwaway_workspace() -> Iterator[Workspace]:
    """A workspace for a check, gone afterwards."""
    with no_room_is_an_error(Path(tempfile.tempdir or os.environ.get("TMPDIR", os.curdir))):
        folder = Path(tempfile.mkdtemp(prefix="confide-check-"))
        try:
            with private_umask():
                yield Workspace(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def ledger_path(loaded: LoadedSpec) -> Path:
    """The ledger that a spec names."""
    return loaded.resolve(loaded.spec.privacy.ledger)


def _read_ledger(loaded: LoadedSpec, findings: list[Finding]) -> Account | None:
    if not ledger_path(loaded).exists():
        spec = loaded.spec.privacy
        findings.append(
            Finding.of(
                "no-ledger",
                where=loaded.place("privacy", "ledger"),
                found=spec.ledger,
                ledger=spec.ledger,
                definition=spec.definition,
                is_approximate=spec.definition == "approximate",
                neighbours=spec.neighbours,
            )
        )
        return None
    try:
        return Ledger(ledger_path(loaded)).account()
    except ConfideError as error:
        findings += error.findings
        return None


NOT_IN_LEDGER = "run-not-in-ledger"


def records_files(loaded: LoadedSpec) -> tuple[Path, ...]:
    """The confidential records that a spec names: a file, or several."""
    return tuple(loaded.resolve(name) for name in loaded.spec.data.record_files.values())


def _contradicted(
    loaded: LoadedSpec, workspace: Workspace, fingerprint: str, *, charged: bool, accepted: bool
) -> tuple[Finding, ...]:
    """What the witnesses beside the records, other runs over them, and the ledger itself say against charging it."""
    try:
        beside = [one for file in records_files(loaded) for one in read_witness(file)]
        ledger = Ledger(ledger_path(loaded))
        findings = ledger.contradicted(beside, _other_runs(workspace, fingerprint))
        if fingerprint and not charged:
            findings += ledger.unseen(fingerprint)
    except ConfideError as error:
        return tuple(error.findings)
    return tuple(replace(finding, severity="warning") for finding in findings) if accepted else findings


def _other_runs(workspace: Workspace, fingerprint: str) -> Iterator[Sighting]:
    """What the folders beside this one know of the ledger of the same records. Trials with a chosen key are none."""
    for folder in sorted(workspace.root.resolve().parent.glob("*/confidential")):
        try:
            run = Workspace(folder.parent).identity() if folder.parent != workspace.root.resolve() else None
        except ConfideError:
            continue  # somebody else's, or damaged: `reconcile` says so
        if run is None or run.reservation_hash is None or run.key_is_chosen or run.records_fingerprint != fingerprint:
            continue
        yield Sighting(run.ledger_id, run.reservation_hash, where=folder.parent)


def _price(
    loaded: LoadedSpec, plan: Plan, account: Account, begun: RunIdentity | None, findings: list[Finding]
) -> Charge | None:
    """What the ledger will charge: the plan priced by the ledger's own definition and neighbours."""
    delta = plan.delta or loaded.spec.privacy.delta
    if account.unit == "record" != plan.unit:
        where, unit = loaded.place("privacy", "ledger"), plan.unit.value
        findings.append(
            Finding.of("unit-of-account/unnamed", where=where, severity="warning", data_set=account.data_set, unit=unit)
        )
    kept_in, neighbours = PrivacyUnit(account.unit), Neighbours(account.neighbours)
    try:
        loss = plan.cost_to(kept_in, neighbours, Definition(account.definition), delta)
    except ConfideError as error:
        if error.findings[0].code == "unit-of-account":
            findings.append(replace(error.findings[0], where=loaded.place("privacy", "ledger")))
            return None
        asked = loaded.spec.privacy.definition
        findings += [
            Finding.of(
                "ledger-definition/plan",
                where=loaded.place("privacy", "definition"),
                data_set=account.data_set,
                definition=account.definition,
                asked=asked,
                what=finding.what,
            )
            for finding in error.findings[:1]
        ]
        return None
    cost = Charge(*loss.parameters().values())
    if not account.holds(*cost) and not (begun and begun.run_id in account.runs):
        findings.append(
            Finding.of(
                "budget-exceeded/costs",
                where=loaded.place("privacy", "budget"),
                data_set=account.data_set,
                cost=cost,
                spent=Charge(account.spent, account.spent_delta),
                budget=Charge(account.budget, account.delta),
                left=Charge(account.left, account.left_delta),
                definition=account.definition,
                neighbours=account.neighbours,
            )
        )
    return cost


def _read_run(workspace: Workspace, account: Account | None, findings: list[Finding]) -> RunIdentity | None:
    """The run that the folder holds, and whether the ledger goes on with it."""
    try:
        begun = workspace.identity()
    except ConfideError as error:
        findings += error.findings
        return None
    if begun is None or account is None:
        return begun
    where = Place(file=str(workspace.root))
    held = account.runs.get(begun.run_id)
    if held is None and begun.reservation_hash is not None:
        findings.append(Finding.of("run-not-in-ledger", where=where, data_set=account.data_set, run_id=begun.run_id))
    elif held is not None and held.state == "void":
        findings.append(Finding.of("run-void", where=where, void_reason=held.void_reason))
    return begun


def _not_the_run(
    loaded: LoadedSpec,
    begun: RunIdentity,
    plan: Plan,
    fingerprint: str,
    account: Account | None,
    workspace: Workspace,
    key: KeyKind,
) -> Iterator[Finding]:
    """Everything in which a run that was begun, and charged, is another than the one that would go on in its folder."""
    if never_charged(begun, account):
        return
    if begun.final_hash != plan.hash and not _may_change(begun, plan, account, workspace):
        yield Finding.of("run-changed/plan", where=Place(file=str(workspace.root)), hash=plan.hash[:16])
    if fingerprint and begun.records_fingerprint != fingerprint:
        yield Finding.of("run-changed/records", where=Place(file=str(workspace.root)), found=CONFIDENTIAL)
    if begun.key_is_chosen != (key == "chosen"):
        yield Finding.of("run-changed/kind", where=Place(file=str(workspace.root)), is_chosen=key == "chosen")
    if begun.release != loaded.spec.release.name:
        yield Finding.of(
            "run-changed/holds",
            where=Place(file=str(workspace.root)),
            release=begun.release,
            release_name=loaded.spec.release.name,
        )
    held = None if account is None else account.runs.get(begun.run_id)
    if begun.key_commitment is not None and held is not None and held.state == "measured":
        try:
            if recall_key(workspace.key_file).commitment != begun.key_commitment:
                yield Finding.of(
                    "run-changed/key-folder-started", where=Place(file=str(workspace.root)), found=CONFIDENTIAL
                )
        except ConfideError as error:
            yield from error.findings


def _may_change(known: RunIdentity, plan: Plan, account: Account | None, workspace: Workspace) -> bool:
    """Whether a run may go on with this plan: it measures what was charged, and nothing is published yet.

    Whatever is made of the same measurements is post-processing. The noise stays bound to the plan that the run was
    begun with, so that the measurements are the same to the last bit.
    """
    held = None if account is None else account.runs.get(known.run_id)
    published = workspace.release.exists() or (held is not None and held.state == "sealed")
    return known.measured_hash == plan.measured_hash and not published


def unusable_folder(loaded: LoadedSpec, workspace: Workspace) -> list[Finding]:
    """A finding if the folder of the run cannot be made or written."""
    existing = _existing(workspace.root)
    is_file = not existing.is_dir()
    if is_file or not os.access(existing, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return [Finding.of("run-folder/written", where=_folder_place(loaded), file=is_file, existing=existing)]
    return []


def taken_folder(
    loaded: LoadedSpec, workspace: Workspace, begun: RunIdentity | None, account: Account | None
) -> list[Finding]:
    """A finding if the folder holds anything of a run that is gone: it is not this run's, and not ours to remove."""
    left_over = workspace.left_over() if begun is None or never_charged(begun, account) else []
    if not left_over:
        return []
    where, found = _folder_place(loaded), ", ".join(sorted(left_over))
    return [Finding.of("run-folder/restore", where=where, found=found, release="release/" in left_over)]


def _spilled(loaded: LoadedSpec, workspace: Workspace) -> list[Finding]:
    """A warning of confidential rows that a run which was killed has left behind."""
    if not (spilled := workspace.spilled()):
        return []
    return [Finding.of("left-scratch", where=_folder_place(loaded), found=", ".join(spilled), severity="warning")]


def never_charged(begun: RunIdentity, account: Account | None) -> bool:
    """Whether the run in a folder died before it was charged: it has bound nobody to its inputs."""
    return account is not None and begun.reservation_hash is None and begun.run_id not in account.runs


def _folder_place(loaded: LoadedSpec) -> Place:
    return loaded.place("output", "folder") if loaded.spec.output.folder else loaded.place("release", "name")


def _existing(folder: Path) -> Path:
    """The folder itself, or the nearest around it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _too_wide(loaded: LoadedSpec, plan: Plan) -> list[Finding]:
    """The first measurement whose noise cannot be drawn. It has to be known before anything is spent."""
    for measure in plan.measures:
        try:
            if not isinstance(measure.law, TruncatedDistribution):
                check_width(measure.law)
        except ConfideError as error:
            what = f"the noise of {measure.query!r} on level {measure.level!r} would be too wide to be drawn"
            return [replace(finding, what=what, where=loaded.place("privacy", "budget")) for finding in error.findings]
    return []


def _same_identifiers(loaded: LoadedSpec, mechanism: Mechanism[Any], plan: Plan) -> list[Finding]:
    """A finding where two columns of SDMX-CSV would have one identifier: such a release could not be read."""
    codebook = mechanism.explain.codebook({"plan": plan.as_dict()})
    if codebook is None or "sdmx-csv" not in codebook.formats or (same := same_in_sdmx(codebook)) is None:
        return []
    return [Finding.of("same-column/identifier", where=loaded.place("output", "formats"), found=same)]


def room(workspace: Workspace, needed: int) -> list[Finding]:
    """A finding if the disk has not so many bytes."""
    free = shutil.disk_usage(_existing(workspace.root)).free
    if free >= needed:
        return []
    return [
        Finding.of(
            "disk-full/enough", where=Place(file=str(workspace.root)), free=free / 1000000.0, needed=needed / 1000000.0
        )
    ]


def number(value: Fraction) -> str:
    """A number for a finding: exact, and as a decimal where it is long."""
    return str(value) if value.denominator < 10**6 else f"{value} (about {float(value):.6g})"
