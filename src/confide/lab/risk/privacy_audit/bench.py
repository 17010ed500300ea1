"""The bench: made-up records, counted once, measured as often as it takes."""

from __future__ import annotations

import hashlib
import secrets
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.answers import OK, WRONG, AnswerPart, AuditPower, Said, ShownTable, Tone, TypedAnswer
from confide.arrays import Floats, Integers
from confide.engines import Advance, Engine, GroupFunction, Source
from confide.errors import ConfideError, Place, RunError
from confide.file_system import private_folder
from confide.lab.risk.privacy_audit.of_mechanisms import TrialAudit
from confide.lab.risk.privacy_audit.twin_loss import Key, Outcome, epsilon_of, same_outcome
from confide.noise import ReleaseKey, ReleaseNoise
from confide.privacy import Definition
from confide.releases import Job, LoadedSpec, Mechanism, NoiseSource, Plan, Progress, Residuals, Silent, Workspace
from confide.releases.abilities import AUDIT
from confide.releases.boards import without_records
from confide.releases.noise_audit import NoiseAudit, audit
from confide.releases.spec import find_sources

MOST_DRAWS = 50_000
"""So many draws of a measurement are held against its law, from one trial."""
ENOUGH_DRAWS, MOST_TRIALS = 4_000, 12
"""A made-up file is measured again until it has so many draws, but not more often than so."""
MOST_BLOCKS = 24
"""A longer block table is cut: noise is the same in all blocks, and a run has to be quick."""


def cut_blocks(loaded: LoadedSpec, folder: Path, most: int = MOST_BLOCKS) -> LoadedSpec | None:
    """The spec with the first and the last rows of a long block table; none where it is short, or cannot be cut."""
    source = find_sources(loaded)[0].get("blocks")
    if source is None:
        return None
    file, half = folder / source.path.name, most // 2
    if source.format == "parquet":
        blocks = pq.read_table(source.path)
        if blocks.num_rows <= most:
            return None
        ends = pa.concat_tables([blocks.slice(0, half), blocks.slice(blocks.num_rows - half)])
        pq.write_table(ends, file)
        return loaded.with_data(blocks=str(file))
    lines = source.path.read_bytes().splitlines(keepends=True)
    if len(lines) <= most + 1 or any(b'"' in line for line in lines):
        return None
    file.write_bytes(b"".join([lines[0], *lines[1 : half + 1], *lines[-half:]]))
    return loaded.with_data(blocks=str(file))


class InProcess:
    """An engine that maps groups here and keeps the tables; files of counts are read once."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._rows: dict[tuple[Path, str, int], pa.Table] = {}
        self.mapped: dict[Path, list[pa.Table]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def map_groups(
        self,
        function: GroupFunction,
        rows: Path,
        key: str,
        groups: Sequence[int],
        into: Path,
        *,
        advance: Advance | None = None,  # noqa: ARG002 - nobody waits for a group of a trial
    ) -> list[Path]:
        for group in groups:
            if (rows, key, group) not in self._rows:
                self._rows[rows, key, group] = pq.read_table(rows, filters=[(key, "=", group)])
        self.mapped[into] = [function(group, self._rows[rows, key, group]) for group in groups]
        return []


@dataclass(frozen=True, eq=False)
class CountedFile:
    """A made-up file, counted by the mechanism: the job that measures it, and what is true of it."""

    problem: Any
    job: Job
    truth: Outcome


@dataclass(frozen=True, eq=False)
class Bench:
    """A mechanism with its problem on a small frame, ready to count made-up records."""

    mechanism: Mechanism[Any]
    loaded: LoadedSpec
    problem: Any
    plan: Plan
    engine: Engine
    folder: Path
    seed: str
    progress: Progress

    @classmethod
    def of(
        cls,
        loaded: LoadedSpec,
        mechanism: Mechanism[Any],
        engine: Engine,
        folder: Path,
        seed: int | None,
        progress: Progress,
        blocks: int = MOST_BLOCKS,
    ) -> Bench:
        here = without_records(loaded, folder)
        problem = mechanism.prepare(here, engine)
        plan = mechanism.plan(problem)
        cut = cut_blocks(here, private_folder(folder / "frame"), blocks)
        if cut is not None:
            try:
                small = mechanism.prepare(cut, engine)
                small_plan = mechanism.plan(small)
            except ConfideError:
                small_plan = plan
            else:
                if small_plan.loss == plan.loss:
                    problem, plan, here = small, small_plan, cut
        chosen = secrets.token_hex(16) if seed is None else str(seed)
        return cls(mechanism, here, problem, plan, engine, folder, chosen, progress)

    @cached_property
    def audit(self) -> TrialAudit[Any]:
        """What the mechanism is able to do for an audit from outside."""
        audit, name = AUDIT.of(self.mechanism), self.mechanism.name
        if audit is None:
            raise RunError("no-privacy-audit/releases", where=Place(path="release.mechanism"), mechanism=name)
        trials: TrialAudit[Any] = audit(self.mechanism)
        return trials

    @property
    def delta(self) -> Fraction:
        """The delta of the plan, or the one that the spec asks for."""
        return self.plan.delta or self.loaded.spec.privacy.delta

    def stated(self) -> dict[str, float]:
        """What the plan says is lost at most."""
        parameters = {name: float(value) for name, value in self.plan.loss.parameters().items()}
        if self.plan.definition is Definition.ZCDP:
            (rho,) = self.plan.loss.parameters().values()
            return {"rho": parameters["rho"], "epsilon": epsilon_of(rho, self.delta)}
        return {"epsilon": parameters["epsilon"]}

    def counted(self, table: pa.Table, name: str, side: str) -> CountedFile:
        """A made-up file, counted, and what is true of it by the mechanism's own silent measurements.

        Args:
            table: The records.
            name: The folder of its files.
            side: From which the keys of silent measurements follow.
        """
        workspace = Workspace(private_folder(self.folder / name))
        file = workspace.root / "made-up.parquet"
        pq.write_table(table, file)
        problem = self.audit.with_records(self.problem, Source(file, "parquet"))
        engine: Any = InProcess(self.engine)
        job = Job(self.loaded, self.plan, engine, workspace, Silent())
        self.mechanism.count(problem, job)
        silent_problem, silent_plan = self.audit.silenced(problem, self.plan)
        silent = replace(job, plan=silent_plan)
        outcomes = [self.trial(silent_problem, silent, self.key("silent", side, n)) for n in range(2)]
        if not same_outcome(*outcomes):
            raise RunError("not-as-planned/noise")
        return CountedFile(problem, job, outcomes[0])

    def laws(self, file: CountedFile) -> dict[Key, list[ReleaseNoise]]:
        """The stated law of each part of each measurement."""
        outcome = self.trial(file.problem, file.job, self.key())
        return {key: [law for _, _, law in parts] for key, parts in outcome.items()}

    def trial(self, problem: Any, job: Job, key: ReleaseKey) -> Outcome:
        """One set of measurements. What several tables show of one measurement is one count: their mean."""
        noise = NoiseSource(key, self.mechanism.fingerprint(problem), self.plan.hash, self.mechanism.name)
        engine: Any = job.engine
        outcome: Outcome = {}
        repeated: Counter[tuple[Key, ReleaseNoise]] = Counter()
        for part in self.audit.trial_counts(problem, job, noise, engine.mapped):
            key_of = (part.level, part.query)
            parts = outcome.setdefault(key_of, [])
            again = [
                place
                for place, (where, _, law) in enumerate(parts)
                if law == part.law and _same_places(where, part.coordinates)
            ]
            if again:
                repeated[key_of, part.law] += 1
                times = repeated[key_of, part.law]
                where, counts, law = parts[again[0]]
                parts[again[0]] = (where, (counts * times + part.values) / (times + 1), law)
            else:
                parts.append((part.coordinates, part.values.astype(np.float64), part.law))
        return outcome

    def noise_audit(self, **trials: tuple[CountedFile, Outcome]) -> NoiseAudit:
        """The draws of trials held against their laws and against each other: made-up records have no secret truth.

        A file whose trial has few draws is measured some times more, with other keys.
        """
        plan = Plan.without_loss(self.mechanism.name, {})
        return audit({name: (plan, self._draws(name, *trial)) for name, trial in trials.items()})

    def _draws(self, name: str, file: CountedFile, first: Outcome) -> list[Residuals]:
        """What trials added to what is true of a made-up file, measurement by measurement and law by law."""
        drawn: dict[tuple[str, str, int], list[Floats]] = {}
        laws: dict[tuple[str, str, int], ReleaseNoise] = {}
        total, outcome = 0, first
        for number in range(MOST_TRIALS):
            for (level, query), parts in outcome.items():
                for part, (places, counts, law) in enumerate(parts):
                    true_places, truth, _ = file.truth[level, query][part]
                    _, here, there = np.intersect1d(places, true_places, return_indices=True)
                    noise = counts[here][:MOST_DRAWS] - truth[there][:MOST_DRAWS]
                    if len(noise) and (noise == np.rint(noise)).all():  # a mean of several tables has another law
                        drawn.setdefault((level, query, part), []).append(noise)
                        laws[level, query, part] = law
                        total += len(noise)
            if total >= ENOUGH_DRAWS:
                break
            outcome = self.trial(file.problem, file.job, self.key("draws", name, number))
        return [
            Residuals(
                level,
                f"{query} ({part + 1})" if part else query,
                np.concatenate(noise).astype(np.int64)[:, None],
                (laws[level, query, part],),
                "made up",
            )
            for (level, query, part), noise in drawn.items()
        ]

    def key(self, *which: object) -> ReleaseKey:
        """A key that follows from the seed of the audit and from what it is for."""
        text = "/".join([self.seed, *map(str, which)])
        return ReleaseKey.choose(hashlib.sha256(text.encode()).hexdigest())


def _same_places(one: Integers, other: Integers) -> bool:
    return len(one) > 0 and np.array_equal(one, other)


# The answer of an audit by many runs.


CONFIDENCE = Fraction(19, 20)
"""Of all bounds of an audit together. Where each measurement is judged by itself, half of the rest is for these."""


@dataclass(frozen=True)
class MeasurementBound:
    """What the test of one measurement came to."""

    level: str
    query: str
    twins: int
    narrower_by: float
    """The noise is at least so many times narrower than the plan states; above 1 something is wrong."""


MOST_DESCRIBED = 25
"""So many measurements with narrower noise are described."""


@dataclass(frozen=True, kw_only=True)
class OutsideAudit(TypedAnswer):
    """What both audits have: bounds of the loss beside what is stated, the draws of a made-up run held against their
    laws, the power, and the verdict."""

    mechanism: str
    definition: Definition
    neighbours: str
    delta: Fraction
    touched: int
    """How many noisy counts the change of one record touches, as far as they can be seen."""
    stated: Mapping[str, float]
    """``rho`` (zCDP) and ``epsilon`` (at ``delta``, except for pure differential privacy)."""
    at_least: Mapping[str, float]
    """The same of the noise that was seen, at 95 %, in the form of the stated noise."""
    whatever_the_noise: Mapping[str, float]
    """The same without a word about the form of the noise."""
    narrower_by: float
    """The noise is at least so many times narrower than the plan states; above 1 something is wrong."""
    draws: NoiseAudit = field(repr=False, compare=False)
    """The draws of made-up runs, held against their laws and against each other."""
    power_of: Callable[[], AuditPower] = field(repr=False, compare=False)

    @property
    @abstractmethod
    def in_words(self) -> tuple[str, ...]:
        """What was found, in sentences."""

    @abstractmethod
    def tried(self) -> dict[str, Any]:
        """What was done, in plain values."""

    @property
    def exceeded(self) -> bool:
        """Whether the release gives away more than it states, or its draws are not as planned."""
        bounds = self.at_least, self.whatever_the_noise
        above = any(bound[name] > self.stated[name] for bound in bounds for name in self.stated)
        return above or self.narrower_by > 1 or not self.draws.as_planned

    @cached_property
    def power(self) -> AuditPower:
        """What this audit would have found, by made-up audits of noise that is too narrow."""
        return self.power_of()

    @property
    def verdict(self) -> str:
        """``ok``, ``wrong``, or ``no power`` where missing noise would not have been noticed."""
        return WRONG if self.exceeded else self.power.verdict(wrong=False)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, and missing noise would have been."""
        return self.verdict == OK

    def _verdict_in_words(self, bound: str) -> str:
        if not self.draws.as_planned:
            wrong = "; ".join(f"{check.name}: {check.detail}" for check in self.draws.checks if not check.ok)
            return f"The draws are not as planned ({wrong}): do not release anything with this code."
        return bound if self.exceeded or self.ok else f"No verdict. {self.power.words}"

    def as_dict(self) -> dict[str, Any]:
        head = {
            "ok": self.ok,
            "mechanism": self.mechanism,
            "definition": self.definition.value,
            "neighbours": self.neighbours,
            "delta": str(self.delta),
            "confidence": str(CONFIDENCE),
        }
        loss = [
            {"of": name, "stated": self.stated[name], "at_least": self.at_least[name]}
            | {"whatever_the_noise": self.whatever_the_noise[name]}
            for name in self.stated
        ]
        draws = {
            "seen": self.draws.draws,
            "checks": [{"name": c.name, "ok": c.ok, "detail": c.detail} for c in self.draws.checks],
        }
        least = {"touched_counts": self.touched, "loss": loss, "narrower_by": self.narrower_by}
        judged = {"in_words": list(self.in_words), "verdict": self.verdict, "power": self.power.as_dict()}
        return head | self.tried() | least | judged | {"draws": draws}

    def described(self) -> Iterator[AnswerPart]:
        plain = self.as_dict()
        shown = ("stated", "at_least", "whatever_the_noise")
        rows = [(row["of"], *(f"{row[key]:.4g}" for key in shown)) for row in plain["loss"]]
        yield ShownTable(["", "stated ", "at least (95 %) ", "whatever the noise "], rows)
        parts = self.too_narrow if isinstance(self, PrivacyAudit) else ()
        narrow = [(part.level, part.query, f"{part.narrower_by:.2f}") for part in parts]
        if narrow:
            yield ShownTable(["level", "query", "noise narrower by at least "], narrow[:MOST_DESCRIBED])
        tone = Tone.GOOD if self.ok else Tone.BAD
        for sentence in self.in_words:
            verdict = sentence.startswith(("The empirical bound", "The draws are not", "No verdict"))
            yield Said(sentence, tone=tone) if verdict else sentence


@dataclass(frozen=True, kw_only=True)
class PrivacyAudit(OutsideAudit):
    """A lower bound of what a release gives away, seen from outside, beside what its plan states."""

    runs: int
    twins: int
    batches: int
    measurements: tuple[MeasurementBound, ...]

    @property
    def too_narrow(self) -> tuple[MeasurementBound, ...]:
        """The measurements whose noise is narrower than the plan states."""
        return tuple(part for part in self.measurements if part.narrower_by > 1)

    @property
    def exceeded(self) -> bool:
        """Whether the release gives away more than it states, or one of its measurements does."""
        return super().exceeded or bool(self.too_narrow)

    @property
    def in_words(self) -> tuple[str, ...]:
        """What was done, what came of it, and what it shows."""
        name = next(iter(self.stated))
        bound = (
            "The empirical bound exceeds the stated loss, or the noise is narrower than planned: do not release "
            "anything with this code."
            if self.exceeded
            else "The empirical bound does not exceed the stated loss."
        )
        return (
            f"Made-up records were measured {2 * self.runs:,} times with fresh keys, {self.twins:,} of them alike in "
            f"one half of the runs, and a test had to tell the halves apart.",
            f"The noise that was seen allows {name} of at least {self.at_least[name]:.4g} (95 % confidence); "
            f"the plan states {self.stated[name]:.4g}.",
            self._verdict_in_words(bound),
            self.power.words,
            "Such an audit finds noise that is too small, or a record that counts too often. It proves nothing if it "
            "finds none: errors that show in rare events, in other records or in other settings stay hidden, and the "
            "guarantee rests on its proof.",
        )

    def tried(self) -> dict[str, Any]:
        judged = [
            {"level": part.level, "query": part.query, "twins": part.twins, "narrower_by": part.narrower_by}
            for part in self.measurements
        ]
        return {"runs": self.runs, "twins": self.twins, "batches": self.batches, "measurements": judged}


@dataclass(frozen=True, kw_only=True)
class CanaryAudit(OutsideAudit):
    """A lower bound of what a release gives away, from one run with canaries, beside what its plan states."""

    canaries: int
    """How many had a coin: those that have a count to themselves."""
    guesses: int
    """How many coins were guessed, of the two numbers that are tried: the one that shows more."""
    correct: int
    own: float
    """How many of the touched counts no other canary touches, on average: from these coins are guessed."""

    @property
    def in_words(self) -> tuple[str, ...]:
        """What was done, what came of it, and what it shows."""
        name = next(iter(self.stated))
        bound = (
            "The empirical bound exceeds the stated loss: do not release anything with this code."
            if self.exceeded
            else "The empirical bound does not exceed the stated loss."
        )
        return (
            f"A fair coin put each of {self.canaries:,} made-up canaries into one file or left it out, or chose which "
            f"of two records it is. The file was measured once; {self.correct:,} of {self.guesses:,} guesses of coins "
            f"were right.",
            f"So many right guesses take {name} of at least {self.at_least[name]:.4g} (95 % confidence); the plan "
            f"states {self.stated[name]:.4g}.",
            self._verdict_in_words(bound),
            self.power.words,
            "One run says much less than many: the bound holds even if all canaries stood or fell together, and lies "
            "far below the true loss. It shows gross mistakes only; audit with many runs where they can be afforded.",
        )

    def tried(self) -> dict[str, Any]:
        guessed = {"canaries": self.canaries, "guesses": self.guesses, "correct": self.correct}
        return guessed | {"own_counts": self.own}
