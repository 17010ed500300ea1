"""``confide rehearse``: a whole release on made-up records, before anything is spent.

The office's records are not opened and may be absent; its ledger is neither read nor charged; nothing is written but
the rehearsal's own folder. In it lie made-up records, a ledger to throw away, and a spec of its own that names both
and, for all that is public, the office's files. Everything that is made is stamped.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from confide import api
from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.engines import Advance, Engine, LocalEngine, Source, write_parquet
from confide.errors import ParameterError, Place, RunError
from confide.file_system import private_folder, write_text
from confide.inputs.made_up import RecordForm, block_sizes, draw
from confide.inputs.table_files import read_margins
from confide.mechanisms import MECHANISMS, SPECS
from confide.noise import ReleaseKey
from confide.privacy import price
from confide.releases import STAMP, Mechanism, Plan, Progress, Silent, Verification, abilities, no_room_is_an_error
from confide.releases import check as checking
from confide.releases import run as running
from confide.releases.boards import without_records
from confide.releases.dossier import Evaluated, headline, stamp_rehearsal
from confide.releases.draft import relocated_values, toml_text
from confide.releases.folder import REHEARSAL
from confide.releases.ledger import Ledger
from confide.releases.run import DEFAULT_MEMORY, RunResult
from confide.releases.spec import TWO_FILES, LoadedSpec, find_source, load_spec

# The rehearsal itself.


PERSONS = 100_000
"""How many records are made up, unless somebody says otherwise or there are fewer."""
MOST_PERSONS = 100_000_000
MADE_UP, LEDGER, SPEC, MARK = "made-up-{}.parquet", "throw-away.ledger", "spec.toml", "NOT-FOR-RELEASE.txt"
"""What lies in the folder of a rehearsal."""
RECORDS = MADE_UP.format("records")
WITH_RECORDS = ("Checking records", "Counting records", "Reading records", "Counting and perturbing", "Swapping")
"""How stages begin that take longer the more records there are; others depend on the tables asked for."""
EVALUATING = "Evaluating"


@dataclass(frozen=True)
class Rehearsal(TypedAnswer):
    """What a rehearsal made, how long it took, and how long the real run may take."""

    folder: Path
    run: RunResult
    verification: Verification
    evaluated: Evaluated
    records: int
    sizes: str
    """The column of the block table that people were drawn by; empty where all blocks were alike."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By stage; ``Evaluating`` is all of the dossier."""
    expected: int | None = None
    """How many records the office has, as far as public knowledge or the office says."""

    @property
    def run_seconds(self) -> float:
        """What the run itself took, without its dossier."""
        return sum(taken for stage, taken in self.seconds.items() if stage != EVALUATING)

    def estimate(self) -> tuple[float, float] | None:
        """The least and the most seconds of a run with all records: as if only the stages that read records grew with
        their number, and as if everything did."""
        if self.expected is None:
            return None
        times = self.expected / max(self.records, 1)
        reading = sum(taken for stage, taken in self.seconds.items() if stage.startswith(WITH_RECORDS))
        bounds = sorted((self.run_seconds + (times - 1) * reading, times * self.run_seconds))
        return bounds[0], bounds[1]

    @property
    def document(self) -> Path:
        """The certificate, or the statement."""
        return self.run.release / ("certificate.html" if self.run.plan.has_loss else "statement.html")

    @property
    def ok(self) -> bool:
        """Whether the release verifies."""
        return self.verification.ok

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        estimate = self.estimate()
        return {
            "ok": self.verification.ok,
            "stamp": f"{STAMP}: {REHEARSAL}",
            "folder": str(self.folder),
            "release": str(self.run.release),
            "document": str(self.document),
            "dossier": str(self.evaluated.dossier),
            "verified": self.verification.ok,
            "records": self.records,
            "sizes": self.sizes or None,
            "cost": self.run.plan.loss.as_dict() if self.run.plan.has_loss else None,
            "charged": None,
            "seconds": {stage: round(taken, 3) for stage, taken in self.seconds.items()},
            "estimate": None
            if estimate is None
            else {
                "records": self.expected,
                "seconds_at_least": round(estimate[0], 1),
                "seconds_at_most": round(estimate[1], 1),
            },
        }

    def described(self) -> Iterator[AnswerPart]:
        plan = self.run.plan
        by_size = f", in proportion to the column {self.sizes!r}" if self.sizes else ""
        yield (
            f"\nRehearsed with {self.records:,} made-up records{by_size}. Nothing was spent, and no record was read."
        )
        accuracy = self.evaluated.accuracy.reveal("the people of a rehearsal are made up")
        yield from headline(accuracy, "Made-up records: released compared with true")
        said = self.run.explain
        if plan.has_loss:
            yield f"A real run would have {said.contents(plan)} and cost {plan.loss} ({plan.neighbours.value})."
        else:
            yield f"A real run would have {said.contents(plan)}. {said.unaccounted(plan)}"
        yield ShownTable(["stage", "seconds "], [(stage, f"{taken:,.1f}") for stage, taken in self.seconds.items()])
        yield self.in_time
        verified = "verified" if self.verification.ok else "NOT AS SEALED"
        yield f"release      {self.run.release}  ({verified})"
        yield f"{self.document.stem:11}  {self.document}"
        yield f"dossier      {self.evaluated.dossier}"
        yield Said("NOT FOR RELEASE", ": a rehearsal on made-up records", Tone.BAD, aside=True)

    @property
    def in_time(self) -> str:
        """How long it took, and how long a run should take."""
        said = f"The run took {self.run_seconds:,.1f} s, the dossier {self.seconds[EVALUATING]:,.1f} s."
        bounds = self.estimate()
        if bounds is None:
            return f"{said} For an estimate with all your records: --expected N."
        least, most = (_duration(seconds) for seconds in bounds)
        return f"{said} With {self.expected:,} records a run should take from {least} to {most} on this machine."


def _duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is read most easily."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def rehearse(
    spec: str | Path,
    *,
    persons: int | None = None,
    margins: Sequence[str | Path] = (),
    sizes: str | None = None,
    expected: int | None = None,
    out: str | Path | None = None,
    seed: int = 7,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Rehearsal:
    """Makes up records for a spec, and runs, verifies and evaluates it on them. Nothing is spent.

    Args:
        spec: The spec file. Its records need not be there, and are not opened if they are; its ledger is not touched.
        persons: How many records; by default 100,000, or as many as sizes or margins add up to, if they are fewer.
        margins: CSV files of public counts from which people are drawn: see :mod:`confide.inputs.table_files`.
        sizes: A column of the block table by which people are spread over blocks; by default one that is named as a
            size, such as ``persons`` or ``population``.
        expected: How many records the office has, for the estimate of time; by default what sizes or margins add up to.
        out: The folder of the rehearsal; by default that of the run with ``-rehearsal`` after its name. An earlier
            rehearsal in it is replaced, and nothing else ever is.
        seed: The same seed gives the same people and the same noise.
        processes: How many processes to use; by default one for each core.
        memory: The most memory to use, such as ``4GiB``.
        progress: Receives stages and warnings; none by default.

    Returns:
        Where the stamped release and its dossier are, and how long everything took.

    >>> import confide
    >>> confide.rehearse(project / "spec.toml", persons=500).verification.ok
    True
    """
    loaded = api.load(spec)
    mechanism = MECHANISMS[loaded.spec.release.mechanism]
    for option, number in (("--persons", persons), ("--expected", expected)):
        if number is not None and not 1 <= number <= MOST_PERSONS:
            raise RunError("rehearsal-size", where=Place(path=option), number=number, most_persons=MOST_PERSONS)
    folder = Path(out) if out is not None else loaded.folder.with_name(f"{loaded.folder.name}-rehearsal")
    clock = _Clock(progress or Silent())
    with checking.throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        # The spec without its records, before anything is made or removed: a spec that is wrong is found now.
        blank = without_records(loaded, scratch.root)
        problem = mechanism.prepare(blank, engine)
        plan = mechanism.plan(problem)
        rehearsal = _of_mechanism(mechanism)
        form = rehearsal.record_form(problem)
        column, form = _sized(engine, blank, form, sizes)
        drawn_from = read_margins([Path(file) for file in margins], form)
        known = max([int(margin.counts.sum()) for margin in drawn_from], default=_total(column, form))
        number = form.fixed_number or persons or min(PERSONS, known or PERSONS)
        with clock.stage("Making up records", 1) as advance:
            people = draw(form, number, drawn_from, np.random.default_rng(seed))
            files = rehearsal.made_up_files(problem, people)
            advance(1)
    with no_room_is_an_error(folder):
        _clear(folder)
        write_text(private_folder(folder) / MARK, f"{STAMP}: {REHEARSAL}.\n")
        for name, table in files.items():
            write_parquet(table, folder / MADE_UP.format(name))
        write_text(folder / SPEC, _spec_text(loaded, rehearsal, folder, files))
    if mechanism.accounted:
        _open_ledger(folder / LEDGER, loaded, plan)
    own = load_spec(folder / SPEC, SPECS)
    key = ReleaseKey.choose(hashlib.sha256(f"confide/rehearsal/{seed}".encode()).hexdigest())
    result = running.run(
        own,
        mechanism,
        open_engine=running.choose_engine("local", mechanism, processes=processes, memory=memory),
        progress=clock,
        chosen_key=key if mechanism.keyed else None,
    )
    verification = api.verify(result.release)
    with clock.as_one(EVALUATING):
        evaluated = api.evaluate(own.path, processes=processes, memory=memory, progress=clock)
    stamp_rehearsal(evaluated.dossier.parent)
    return Rehearsal(
        folder,
        result,
        verification,
        evaluated,
        files["records"].num_rows,
        column,
        clock.seconds,
        expected or known or None,
    )


def _of_mechanism(mechanism: Mechanism[Any]) -> abilities.MadeUpRecords[Any]:
    rehearsal = abilities.REHEARSAL.of(mechanism)
    if rehearsal is not None:
        return rehearsal(mechanism)
    why = "the mechanism does not say what its records are made of"
    if not mechanism.has_truth:
        why = "it reads measurements that are published, and no records; a run of it spends nothing"
    raise RunError(
        "no-rehearsal/spec-rehearsed-made", where=Place(path="release.mechanism"), why=why, mechanism=mechanism.name
    )


def _sized(engine: Engine, loaded: LoadedSpec, form: RecordForm, column: str | None) -> tuple[str, RecordForm]:
    """The form with the sizes of blocks, and the column that they come from."""
    source = find_source(loaded, "blocks")
    if form.block is None or not isinstance(source, Source):
        if column is not None:
            raise ParameterError("no-sizes", where=Place(path="--sizes"), found=column)
        return "", form
    named, by_code = block_sizes(engine, source, form, column)
    return (named, form.sized(by_code)) if named and sum(by_code.values()) else ("", form)


def _total(column: str, form: RecordForm) -> int:
    """How many people the sizes of blocks add up to, where they are sizes in people."""
    return int(form.sizes.sum()) if column and form.sizes is not None else 0


def _spec_text(
    loaded: LoadedSpec, rehearsal: abilities.MadeUpRecords[Any], folder: Path, files: Collection[str]
) -> str:
    """The spec of the rehearsal: the office's own, with made-up records, a ledger to throw away, and a stamp."""
    values = relocated_values(loaded, folder)
    release = loaded.spec.release
    values["release"] |= {
        "title": f"Rehearsal on made-up records: {release.title or release.name}"[:200],
        "rehearsal": True,
    }
    data = {name: value for name, value in values["data"].items() if name not in ("households", *TWO_FILES)}
    if loaded.spec.data.join is not None and "household" in type(loaded.spec.data).model_fields:
        data.setdefault("household", loaded.spec.data.join)  # made-up records are one file
    values["data"] = data | {key: MADE_UP.format(key) for key in files}
    if rehearsal.mechanism.accounted:
        values["privacy"]["ledger"] = LEDGER
    values["output"] = dict(values.get("output", {})) | {"folder": "run"}
    rehearsal.rehearsed(values)
    head = f"# {STAMP}: {REHEARSAL}.\n# Written by `confide rehearse`; the noise is that of a chosen key.\n\n"
    return head + toml_text(values)


def _open_ledger(path: Path, loaded: LoadedSpec, plan: Plan) -> None:
    """A ledger with just the budget of the plan."""
    loss = price(plan.event, plan.neighbours, plan.definition, plan.delta or loaded.spec.privacy.delta)
    charge = checking.Charge(*loss.parameters().values())
    Ledger.open_new(
        path,
        data_set="made-up records",
        definition=plan.definition.value,
        neighbours=plan.neighbours.value,
        budget=charge.amount,
        delta=charge.delta,
        note=f"{STAMP}: opened by confide rehearse, to be thrown away",
    )


def _clear(folder: Path) -> None:
    """Removes an earlier rehearsal; anything else in the place is somebody's, and stays."""
    if not folder.exists():
        return
    mark = folder / MARK
    if folder.is_symlink() or not mark.is_file() or REHEARSAL not in mark.read_text(encoding="utf-8", errors="replace"):
        raise RunError("there-already/folder", where=Place(file=str(folder)))
    shutil.rmtree(folder)


class _Clock:
    """Tells another display of stages, and how long each took."""

    def __init__(self, shown: Progress):
        self._shown = shown
        self._within = False
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, title: str, steps: int) -> Iterator[Advance]:
        begun = time.monotonic()
        with self._shown.stage(title, steps) as advance:
            yield advance
        if not self._within:
            self.seconds[title] = self.seconds.get(title, 0.0) + time.monotonic() - begun

    @contextmanager
    def as_one(self, title: str) -> Iterator[None]:
        """One stage for all that happens in it."""
        begun, self._within = time.monotonic(), True
        yield
        self.seconds[title], self._within = time.monotonic() - begun, False

    def note(self, text: str) -> None:
        self._shown.note(text)
