"""The mechanism ``postprocess``: records from noisy measurements that were published, by us or by somebody else.

    measurements ─► spine, constraints ─► the root: estimate ─► every parent: estimate its children ─► records

It reads nothing confidential and draws no noise, so it has no key and no ledger and costs nothing: whatever is promised
of the measurements holds for everything that is made of them. The descent is that of ``topdown``; from the measurements
of a release, with its strategy, come the very records of that release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from confide.arrays import Floats, Integers
from confide.documents import load_shipped
from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, InputError, Place, SpecError
from confide.estimation.node_problem import MeasuredQuery
from confide.geography import Spine, build_spine
from confide.inputs.frame import WHOLE, Frame, fingerprint, read_counts
from confide.mechanisms.topdown import descent
from confide.mechanisms.topdown.constraints import check_sizes, invariant_level
from confide.mechanisms.topdown.measurements import reading
from confide.mechanisms.topdown.measurements.folder import (
    MeasurementFolder,
    find_measurements,
    official_codes,
    spine_of,
)
from confide.mechanisms.topdown.measurements.layout import FileLayout
from confide.mechanisms.topdown.measurements.reading import LevelReader
from confide.mechanisms.topdown.measurements.watchdog import require_near
from confide.mechanisms.topdown.node import NodeRules
from confide.mechanisms.topdown.output import verify as verification
from confide.mechanisms.topdown.output.accuracy import accuracy_entry, accuracy_stated
from confide.mechanisms.topdown.output.publish import TopDownExplained, publish
from confide.mechanisms.topdown.output.settings import prepare_output
from confide.mechanisms.topdown.problem import TopDownProblem, facts_of, read_topdown_frame
from confide.mechanisms.topdown.records import clashes_in_blocks
from confide.mechanisms.topdown.released_problem import SPINE, spine_table
from confide.mechanisms.topdown.spec import CountedPart, TopDownData, TopDownPart, TopDownSpec
from confide.mechanisms.topdown.spine import TopDownLevel
from confide.mechanisms.topdown.statement import evidence_words
from confide.mechanisms.topdown.strategy import GroupNumbers, LevelStrategy, Strategy
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.messages import Messages, messages
from confide.releases import STAMP, Check, Job, Mechanism, NoiseSource, Plan, ReleaseWriter, SealedRelease
from confide.releases.certificate import CERTIFICATE
from confide.releases.spec import LoadedSpec, PrivacyPart, Problem, find_source, is_path
from confide.report.rendering import messages_of, render

# From a spec for post-processing to its problem: strategy, measurements, and the spine and frame that they tell.

# The spec of a release that is made from published measurements: no records, no budget, no ledger.


NOTHING = "-"


class PostprocessData(TopDownData):
    """Where the measurements are."""

    measurements: str = Field(
        description="The noisy measurement file: a folder with LEVEL.parquet/DPQuery and LEVEL.parquet/Constraint."
    )
    blocks: str | None = Field(  # type: ignore[assignment]
        None, description="The block table: for areas, for levels by column, and for counts that no constraint tells."
    )
    recodes: dict[str, str] = Field(
        default_factory=dict, description="Our name of a recode = what the measurements call it, where they differ."
    )
    totals: dict[str, int] = Field(
        default_factory=dict,
        description="Known numbers of records, by code of the unit, where the constraints do not have them.",
    )
    records: ClassVar[str] = NOTHING  # type: ignore[misc]
    counted: ClassVar[list[CountedPart]] = []  # type: ignore[misc]
    presence: ClassVar[list[str]] = []  # type: ignore[misc]


class PostprocessPart(TopDownPart):
    """What was measured: the strategy says which queries there are and how they become estimates."""

    spine: ClassVar[Literal["plain"]] = "plain"  # type: ignore[misc]
    split_aian: ClassVar[bool] = False  # type: ignore[misc]
    around: ClassVar[None] = None  # type: ignore[misc]
    fanout: ClassVar[int] = 0  # type: ignore[misc]
    entity_threshold: ClassVar[int] = 0  # type: ignore[misc]


class PostprocessSpec(TopDownSpec):
    """Records from noisy measurements that were published. Nothing confidential is read and nothing is spent."""

    data: PostprocessData
    topdown: PostprocessPart
    privacy: ClassVar[PrivacyPart] = PrivacyPart(ledger=NOTHING, budget=Fraction(1))  # type: ignore[misc]

    def problems(self) -> list[Problem]:
        problems = super().problems()
        if self.output.measurements:
            problems.append(Problem.of(("output", "measurements"), "measured-before"))
        texts: dict[str, Any] = {"measurements": self.data.measurements}
        problems += [
            Problem.of(("data", key), "bad-path/folder", found=repr(text), key=key)
            for key, text in texts.items()
            if not is_path(text)
        ]
        problems += [
            Problem.of(("data", "totals", code), "bad-total/number", found=str(n))
            for code, n in self.data.totals.items()
            if n < 0
        ]
        if self.data.blocks is None and self.geography.has_names:
            problems.append(Problem.of(("geography",), "no-block-table/columns"))
        if self.data.blocks is None:
            problems += [
                Problem.of(("geography", "areas", position), "no-block-table/areas", area=area.name)
                for position, area in enumerate(self.geography.areas)
                if not area.optional
            ]
            problems += [
                Problem.of(("geography", "levels", position), "no-block-table/level", level=level.name)
                for position, level in enumerate(self.geography.levels)
                if level.column is not None
            ]
        return problems


@dataclass(frozen=True, kw_only=True)
class PostprocessProblem(TopDownProblem):
    """Everything that a release from measurements depends on."""

    folder: MeasurementFolder
    readers: tuple[reading.LevelReader, ...]
    totals: Mapping[str, pa.Table]
    """Known numbers of records, by level: unit, cell (what is known together) and n."""
    total: int | None
    """The number of records, where it is an invariant."""
    known: Mapping[str, int]
    """Totals that the spec gives."""
    source: Mapping[str, Any]
    """What the measurements are: fingerprint, and what they say of themselves."""
    place: Place
    """Where the spec names them."""


def prepare_measured(loaded: LoadedSpec, engine: Engine) -> PostprocessProblem:
    """The problem of a spec. Raises with all findings of a stage."""
    spec = loaded.spec
    assert isinstance(spec, PostprocessSpec)
    place = loaded.place("data", "measurements")
    strategy = _strategy(loaded, spec)
    sizes = {attribute.name: attribute.size for attribute in strategy.schema.attributes}
    folder = find_measurements(loaded.resolve(spec.data.measurements), strategy.level_names, place, sizes)
    try:
        levels = [folder.units(name) for name in strategy.level_names]
        recodes = load_shipped("measurements", "recodes")["recodes"]
        recodes |= dict(FileLayout.of(strategy).recodes) | spec.data.recodes
        readers = tuple(
            reading.level_reader(folder, units, strategy.level(units.name), strategy.schema, recodes)
            for units in levels
        )
        codes = official_codes(levels[-1])
        blocks = _blocks(loaded, spec)
        frame = _frame(spec, engine, blocks, codes)
        rows = _rows(frame.spine, codes, place)
        spine = spine_of(levels, strategy.shares, frame.spine, rows)
        columns = reading.frame_columns(folder, strategy, levels[-1])
        columns |= _counts(engine, blocks, [c for c in strategy.constraints.frame_columns if c not in columns], rows)
        if findings := check_sizes(strategy.constraints, columns, place.file or folder.path.name):
            raise InputError(findings)
        reading.check_limits(folder, strategy, levels[-1], columns)
        totals = reading.known_totals_of(folder, strategy, levels, spine, spec.data.totals)
        total = reading.root_total(strategy, totals, columns, strategy.level_names[0])
        source = {"sha256": folder.fingerprint(), "files": len(folder.all_files)} | folder.said()
    except (pa.ArrowException, KeyError) as error:
        raise InputError("measurements/read", where=place, name=type(error).__name__) from None
    return PostprocessProblem(
        spec,
        strategy,
        frame,
        spine,
        {name: columns[name] for name in strategy.constraints.frame_columns},
        Source(folder.path, "parquet"),
        folder.path.name,
        prepare_output(loaded, strategy, frame),
        folder=folder,
        readers=readers,
        totals=totals,
        total=total,
        known=spec.data.totals,
        source=source,
        place=place,
    )


def _strategy(loaded: LoadedSpec, spec: PostprocessSpec) -> Strategy:
    try:
        strategy = load_strategy(spec.topdown.strategy, loaded.path.parent, root=spec.topdown.root)
        return strategy.with_smallest(spec.geography.smallest)
    except ConfideError as error:
        place = loaded.place("topdown", "strategy")
        raise SpecError(replace(f, where=f.where if f.where.file else place) for f in error.findings) from None


def _blocks(loaded: LoadedSpec, spec: PostprocessSpec) -> Source | None:
    if spec.data.blocks is None:
        return None
    source = find_source(loaded, "blocks")
    if isinstance(source, Finding):
        raise SpecError(source)
    return source


def _frame(spec: PostprocessSpec, engine: Engine, blocks: Source | None, codes: NDArray[np.str_]) -> Frame:
    """The frame of the block table, or, without one, what the block codes tell."""
    if blocks is not None:
        return read_topdown_frame(engine, blocks, spec)
    listed, parts = codes.tolist(), spec.geography.levels
    levels = {part.name: [code[: part.digits] if part.digits else WHOLE for code in listed] for part in parts}
    spine = build_spine(levels | {spec.geography.smallest: listed})
    return Frame(spine, fingerprint(spine))


def _rows(frame: Spine, codes: NDArray[np.str_], place: Place) -> Integers:
    """For each block of the measurements its row in the frame."""
    frame_codes = np.array(frame.blocks.codes)
    position = np.minimum(np.searchsorted(frame_codes, codes), len(frame_codes) - 1)
    missing = np.flatnonzero(frame_codes[position] != codes)
    if len(missing):
        code = repr(str(codes[missing[0]]))
        raise InputError("unknown-block/blocks", where=place, found=code, missing=len(missing))
    row_of = np.empty(len(frame_codes), np.int64)
    row_of[frame.blocks.unit_of_block] = np.arange(len(frame_codes))
    return row_of[position]


def _counts(engine: Engine, blocks: Source | None, names: list[str], rows: Integers) -> dict[str, Integers]:
    """Counts of the frame that the constraints do not tell, from the block table."""
    if not names:
        return {}
    if blocks is None:
        raise InputError("no-constraints", where=Place(file="Constraint"), names=", ".join(names))
    return {name: values[rows] for name, values in read_counts(engine, blocks, names).items()}


# One level of the descent from measurements that are looked up: nothing is drawn, nothing is true.
#
# The lookup gives, for the cells that a parent keeps, the very arrays that measuring would give
# (:func:`confide.mechanisms.topdown.measure.measure`); what happens to them is the same code.


@dataclass(frozen=True, eq=False)
class LookedUpQuery:
    """A query of one geolevel and its groups of histogram cells."""

    name: str
    groups: GroupNumbers


@dataclass(frozen=True, eq=False)
class EstimateMeasured(descent.EstimateGroup):
    """Looks the measurements of the children up and estimates them."""

    queries: tuple[LookedUpQuery, ...]

    def measured(self, rows: pa.Table, nodes: Sequence[descent.NodeRows]) -> Iterable[tuple[MeasuredQuery, ...]]:
        chosen = rows.filter(pc.equal(rows.column("kind"), int(descent.RowKind.MEASURED)))
        lookup = MeasurementLookUp(self.queries, *(chosen.column(name) for name in ("unit", "cell", "n", "value")))
        return (lookup.of(node.units, node.support) for node in nodes)


class MeasurementLookUp:
    """Measured values by unit and query."""

    def __init__(
        self,
        queries: Sequence[LookedUpQuery],
        unit: pa.ChunkedArray,
        query: pa.ChunkedArray,
        bits: pa.ChunkedArray,
        values: pa.ChunkedArray,
    ):
        self._queries = queries
        keys = unit.to_numpy() * len(queries) + query.to_numpy()
        order = np.argsort(keys)
        listed = values.combine_chunks()
        sizes = pc.list_value_length(listed).to_numpy()
        self._keys = keys[order]
        self._start = (np.cumsum(sizes) - sizes)[order]
        self._weight = 1 / bits.to_numpy()[order].view(np.float64)
        self._flat = listed.flatten().to_numpy()

    def of(self, units: Integers, support: Integers) -> tuple[MeasuredQuery, ...]:
        """Every query in these units, on the cells kept; a unit that was not measured has weight zero."""
        return tuple(self._one(number, query, units, support) for number, query in enumerate(self._queries))

    def _one(self, number: int, query: LookedUpQuery, units: Integers, support: Integers) -> MeasuredQuery:
        measured, local = np.unique(query.groups[support], return_inverse=True)
        values, weights = np.zeros((len(measured), len(units))), np.zeros(len(units))
        keys = units * len(self._queries) + number
        place = np.searchsorted(self._keys, keys)
        there = np.flatnonzero(place < len(self._keys))
        there = there[self._keys[place[there]] == keys[there]]
        values[:, there] = self._flat[self._start[place[there]] + measured[:, None]]
        weights[there] = self._weight[place[there]]
        return MeasuredQuery(query.name, local.reshape(-1), values, weights)


BYTES_PER_MEASURED_BYTE = 6
"""A generous guess of what a run takes on the disk: the measurements again twice, and what is made of them."""


class PostprocessExplained(TopDownExplained):
    """What records from published measurements say to their readers."""

    def contents(self, plan: Plan) -> str:  # noqa: ARG002
        return "records estimated from published measurements"


class Postprocess(Mechanism[PostprocessProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "postprocess"
    spec = PostprocessSpec
    on_spark = True
    has_truth = False
    explain = PostprocessExplained()
    can: ClassVar = {
        "published": "confide.lab.published.tabular:read_records",
    }
    without_key = "this release was made from measurements: there is no truth and no key"

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> PostprocessProblem:
        return prepare_measured(loaded, engine)

    def plan(self, problem: PostprocessProblem) -> Plan:
        """No measurement, no cost; the problem binds the measurements that it starts from."""
        strategy = problem.strategy
        facts = facts_of(problem) | {"source": problem.source, "totals": problem.known}
        names = tuple(problem.spine.names)
        return Plan(self.name, strategy.neighbours, strategy.definition, (), names, facts)

    def fingerprint(self, problem: PostprocessProblem) -> str:
        return problem.folder.fingerprint()

    def guarantee(self, problem: PostprocessProblem, job: Job) -> Mapping[str, Any]:
        """A loss of zero for the run itself, and the measurements, whose promise it inherits, and whose stamp."""
        return self.restated(job.plan, accuracy_entry(problem))

    def restated(self, plan: Plan, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        source = plan.question["source"]
        stamped = source.get("stamp") == STAMP
        return {
            **({"stamp": STAMP} if stamped else {}),
            "source": dict(source),
            "privacy": {
                "neighbours": plan.neighbours.value,
                "loss": plan.loss.as_dict(),
                "in_words": in_words(source),
            },
            "noise": {"sampler": None, "key": "chosen" if stamped else "none"},
            **accuracy_stated(manifest),
        }

    def bytes_needed(self, problem: PostprocessProblem, plan: Plan) -> int:  # noqa: ARG002
        return sum(file.stat().st_size for file in problem.folder.all_files) * BYTES_PER_MEASURED_BYTE

    def check(self, problem: PostprocessProblem, job: Job) -> list[Finding]:  # noqa: ARG002
        """Measurements that are not whole, not complete or not the strategy's, and constraints that clash."""
        findings = list(clashes_in_blocks(problem))
        for reader in problem.readers:
            findings += reader.check()
            findings += _left_out(reader)
        return findings + _unknown_totals(problem)

    def count(self, problem: PostprocessProblem, job: Job) -> None:
        """The measurements in order: they are where other mechanisms have true counts."""
        with job.progress.stage("Reading measurements", len(problem.readers)) as advance:
            for reader in problem.readers:
                into = _measurements(job, reader.units.name)
                if not into.exists():
                    reader.write(into)
                advance(1)

    def measure(self, problem: PostprocessProblem, job: Job, noise: NoiseSource | None) -> None:  # noqa: ARG002
        """The descent; nothing is drawn."""
        evidence = LookedUpEvidence(problem, job)
        descent.descend(problem, job, evidence)
        require_near(problem, job, evidence)

    def statistics(self, problem: PostprocessProblem, job: Job) -> dict[str, Any]:
        """What the solvers did, level by level."""
        return descent.read_statistics(
            {level.name: descent.estimates_folder(job.workspace, level) for level in problem.spine.levels}
        )

    def publish(self, problem: PostprocessProblem, job: Job, release: ReleaseWriter) -> None:
        publish(problem, job.plan, job, release)
        block = problem.spec.geography.block
        units = spine_table([reader.units for reader in problem.readers], block, problem.spine.block_codes.tolist())
        formats = [format_ for format_ in problem.spec.output.formats if format_ in problem.spec.output.TABLES]
        release.table(SPINE, units.schema, units.to_batches(), formats, "The units that were measured", folder="")

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return {CERTIFICATE: statement(manifest)}

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        manifest, source, facts = release.manifest, release.manifest["source"], release.facts
        bound = source == facts["source"] and not manifest["plan"]["measures"]
        yield Check("post-processing", bound, f"of measurements with SHA-256 {source['sha256']}; nothing was measured")
        yield from verification.verify(release.folder, manifest)
        yield descent.solver_check(manifest["statistics"])


def in_words(source: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """What is promised, which is nothing of its own."""
    m = text or messages()
    named = "release" in source
    first = (
        m.text("postprocess.words_release", release=source["release"])
        if named
        else m.text("postprocess.words_published")
    )
    return [first, m.text("postprocess.words_inherits")]


def _measurements(job: Job, level: str) -> Path:
    return job.workspace.counts / f"{level}.measurements.parquet"


@dataclass(frozen=True)
class LookedUpEvidence:
    """Measurements that are looked up: see :class:`confide.mechanisms.topdown.descent.Evidence`."""

    problem: PostprocessProblem
    job: Job

    listed = True

    def root(self, level_strategy: LevelStrategy, root: TopDownLevel) -> tuple[tuple[MeasuredQuery, ...], int | None]:
        rows = pq.read_table(_measurements(self.job, root.name))
        lookup = MeasurementLookUp(
            self._queries(level_strategy), *(rows.column(name) for name in ("unit", "query", "n", "value"))
        )
        return lookup.of(np.zeros(1, np.int64), np.arange(self.problem.cells)), self.problem.total

    def rows(self, level: TopDownLevel) -> tuple[dict[str, Path], str]:
        rows = (
            f"SELECT part, {descent.RowKind.MEASURED:d}, parent, found.unit, found.query, found.n, found.value "
            "FROM found JOIN children USING (unit)"
        )
        return {"found": _measurements(self.job, level.name)}, rows

    def totals(self, level: TopDownLevel) -> pa.Table | None:
        return self.problem.totals.get(level.name)

    def function(self, level_strategy: LevelStrategy, level: TopDownLevel, rules: NodeRules) -> EstimateMeasured:  # noqa: ARG002
        return EstimateMeasured(rules, self._queries(level_strategy))

    def in_full(
        self,
        job: Job,  # noqa: ARG002
        level_strategy: LevelStrategy,
        level: TopDownLevel,
    ) -> Iterator[tuple[int, Integers, Integers, Floats]]:
        """Every query in every measured unit, as they were read."""
        asked = [share.name for share in level_strategy.queries]
        listed = [share.name for share in self.problem.strategy.level(level.name).queries]
        places = [asked.index(name) if name in asked else None for name in listed]
        with pq.ParquetFile(_measurements(self.job, level.name)) as file:
            for batch in file.iter_batches(descent.LISTED_ROWS):
                unit, query, bits = (batch.column(name).to_numpy() for name in ("unit", "query", "n"))
                listed = batch.column("value")
                flat, sizes = listed.flatten().to_numpy(), pc.list_value_length(listed).to_numpy()
                first = np.cumsum(sizes) - sizes
                for number in np.unique(query).tolist():
                    if (place := places[number]) is None:
                        continue
                    rows = np.flatnonzero(query == number)
                    values = flat[first[rows][:, None] + np.arange(int(sizes[rows[0]]))]
                    yield place, unit[rows], values, 1 / bits[rows].view(np.float64)

    def _queries(self, level_strategy: LevelStrategy) -> tuple[LookedUpQuery, ...]:
        return tuple(
            LookedUpQuery(query_share.name, self.problem.cell_groups(query_share.name))
            for query_share in level_strategy.queries
        )


def _left_out(reader: LevelReader) -> Iterator[Finding]:
    if reader.left_out:
        yield Finding.of("not-used", found=", ".join(reader.left_out), severity="warning", units=reader.units.name)


def _unknown_totals(problem: PostprocessProblem) -> list[Finding]:
    lowest = invariant_level(problem.strategy)
    if lowest is None or lowest in problem.totals:
        return []
    return [Finding.of("totals-not-known", where=problem.place, severity="warning", lowest=lowest)]


# The statement that stands in for a certificate where a release was made from measurements: no promise of its own.


def statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    text = messages_of(manifest)
    return render(
        "postprocess.html.j2",
        text.language,
        title=text.text("page.title_postprocess", title=manifest["title"]),
        banner=text.text("page.stamp_measurements", stamp=manifest["stamp"]) if "stamp" in manifest else "",
        manifest=manifest,
        source=manifest["source"],
        words=in_words(manifest["source"], text),
        strategy=manifest["plan"]["question"]["strategy"],
        solved="; ".join(
            part
            for part in (
                descent.solver_words(manifest["statistics"]["whole"], text),
                evidence_words(manifest["plan"]["question"].get("evidence", ()), text),
            )
            if part
        ),
    )
