"""The mechanism ``tables``, from top to bottom: a static programme of cross-tabulations with independent noise.

    d  ↦  ∪_I  T^I_{P(A_I)}                                             (Bach 2021, Eq. 6)

Every table I of the programme, with all its margins, each count with noise of its own: discrete Gaussian under zCDP,
two-sided geometric under pure differential privacy. Proof of the guarantee: ``docs/proofs/tables.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide import noise as noise_laws
from confide.engines import Engine, Source
from confide.engines.protocol import cell_index, write_parquet
from confide.errors import ConfideError, Finding, SpecError
from confide.file_system import private_folder
from confide.geography import Geolevel
from confide.inputs import records as inputs_records
from confide.mechanisms.tables import programme as tables_programme
from confide.noise import perturb
from confide.releases import tabular
from confide.releases.certificate import CERTIFICATE, CertificateWords, certificate
from confide.releases.figure_noise import Draw
from confide.releases.folder import ReleaseWriter, SealedRelease
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource
from confide.releases.plan import Explanation, Plan, read_plan
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import asked
from confide.releases.workspace import Workspace
from confide.report.rendering import messages_of
from confide.schema import Query, Schema

# A release of tables as others have it: what is said to its readers, and what ``verify`` looks at.
#
# The codebook tells readers what columns hold, and the noise of each figure. ``verify`` has the written files alone and
# goes over their rows once.


PROTECTION = (
    "Every count has random noise of its own. The certificate states what this promises to everybody in the data."
)
NOTES = (
    "Counts may be below zero: that is noise, and it averages out when counts are added. Do not set them to zero.",
    "Totals, sub-totals and cells were measured one by one, each with noise of its own, so totals differ from the sums "
    "of their cells.",
    "variance is the variance of the noise of a count. The noise of a sum of different counts has the sum of their "
    "variances; its margin at 95 % is about 1.96 times the square root. Margins themselves must not be added.",
)
MARGIN_NOTE = "noise_margin: the noise is at most this far from zero, above or below, with a probability of {}."
POOLED_NOTE = (
    "A count that several tables have is one and the same measurement, with the same noise: do not add it up twice."
)


def codebook(question: Mapping[str, Any]) -> tabular.Codebook:
    """What the tables of a release hold."""
    probability = question["noise_margin"]
    figures = tables_programme.figure_columns(probability)
    tables = tuple(tabular.DescribedTable.of(tabular.Table.read(values), figures) for values in question["tables"])
    keys = [
        (level, key)
        for t in question["tables"]
        for key in tabular.Table.measurements(t).values()
        for level in t["levels"]
    ]
    notes = [*NOTES, *([] if probability is None else [MARGIN_NOTE.format(probability)])]
    notes += [POOLED_NOTE] if len(set(keys)) < len(keys) else []
    formats, agency = asked(question)
    return tabular.Codebook(tables, question["levels"], formats, agency, PROTECTION, tuple(notes))


@dataclass(frozen=True, eq=False)
class MeasuredNoise:
    """The noise of the counts of a release: which measurement a row shows, and its law."""

    tables: Mapping[str, tuple[tabular.Table, Mapping[str, str]]]
    """By name the table, and for each of its margins the measurement."""
    laws: Mapping[tuple[str, str], noise_laws.ReleaseNoise]
    """By level and measurement."""
    figure: str = tabular.COUNT

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> MeasuredNoise:
        """That of a release, from its plan."""
        plan = read_plan(manifest["plan"])
        tables = {
            values["name"]: (tabular.Table.read(values), tabular.Table.measurements(values))
            for values in plan.question["tables"]
        }
        return cls(tables, {(measure.level, measure.query): measure.law for measure in plan.measures})

    def draw(self, table: str, row: Mapping[str, Any]) -> Draw:
        """One for each measurement, area and cell: tables that show the same measurement have the same draw."""
        layout, measurements = self.tables[table]
        kept = tuple(each for each in layout.variables if row[each.name] != tabular.TOTAL_CODE)
        for variable in kept:
            if row[variable.name] not in variable.codes:
                raise LookupError(variable.name)
        measurement = measurements[tabular.Margin(kept).name]
        cell = tuple(row[variable.name] for variable in kept)
        level = row[tabular.LEVEL]
        return Draw((level, measurement, row[tabular.AREA], cell), self.laws[level, measurement])

    def draws(self, table: str, row: Mapping[str, Any]) -> Sequence[Draw]:
        """That of the row: every count was measured by itself."""
        return [self.draw(table, row)]


# What ``verify`` looks at.


FALSE_ALARM = 1e-9
"""The probability, at most, with which a margin that has its noise is taken for one that has too little. A run is not
sealed then, so that it is small also for hundreds of margins."""

TOO_LOUD = 10
"""How many standard errors the squared disagreement of a margin with its cells may be above what is promised."""

ENOUGH = 50
"""With fewer differences than this nothing is said of too much noise."""

ROWS_AT_ONCE = 1 << 18


Laws = dict[tuple[str, str], noise_laws.ReleaseNoise]
"""The noise by level and margin."""


@dataclass(frozen=True)
class Disagreement:
    """The squared differences of a margin from its cells, each over its variance, added up.

    The n terms are independent, each with mean 1 and a second moment of at most the kurtosis k of the laws; a sum of
    laws has less. Non-negative terms make the lower tail light: P(sum <= n - t) <= exp(-t^2 / 2nk).
    """

    squares: float = 0.0
    number: int = 0
    kurtosis: float = 3.0

    @property
    def ratio(self) -> float:
        return self.squares / self.number

    @property
    def too_quiet(self) -> bool:
        short = max(0.0, self.number - self.squares)
        return math.exp(-(short**2) / (2 * self.number * self.kurtosis)) < FALSE_ALARM

    @property
    def too_loud(self) -> bool:
        above = self.squares - self.number
        return self.number >= ENOUGH and above > TOO_LOUD * ((self.kurtosis - 1) * self.number) ** 0.5


@dataclass
class TablePass:
    """What one pass over the rows of a table has come to so far."""

    rows: int = 0
    same: bool = True
    integers: bool = True
    problem: str | None = None
    disagreement: dict[str, Disagreement] = field(default_factory=dict)
    last_area: dict[str, str] = field(default_factory=dict)


def verify(release: SealedRelease) -> Iterator[Check]:
    """Every table: whole, in order, whole numbers, the same in every format, and as noisy as promised."""
    folder, files, question = release.folder, set(release.files), release.facts
    laws = {(measure.level, measure.query): measure.law for measure in release.plan.measures}
    units, probability = question["levels"], question["noise_margin"]
    names = [values["name"] for values in question["tables"]]
    yield tabular.no_other_files(names, files, [CERTIFICATE])
    for values in question["tables"]:
        table = tabular.Table.read(values)
        paths = tabular.table_files(table.name, files)
        if not paths:
            yield Check(f"{table.name}: there", False, "no file of this table is in the release")
            continue
        yield tabular.labels_tell_apart(table)
        measured = tabular.Table.measurements(values)
        noise = {(level, name): laws[level, key] for level in table.levels for name, key in measured.items()}
        promised = {level: tables_programme.figures_beside(table, level, noise, probability) for level in table.levels}
        try:
            rows = [
                tables_programme.NoisyRows(folder / path, table, format_, probability)
                for format_, path in paths.items()
            ]
            scan = _pass(table, noise, units, rows, promised)
        except tabular.UnlikePlanError as error:
            yield Check(f"{table.name}: columns and labels", False, str(error))
            continue
        yield Check(f"{table.name}: the same in every format", scan.same, ", ".join(paths))
        yield Check(f"{table.name}: whole numbers", scan.integers, f"{scan.rows:,} counts")
        yield Check(f"{table.name}: complete", scan.problem is None, scan.problem or f"{scan.rows:,} rows")
        if scan.disagreement and scan.problem is None:
            yield _noise_check(table.name, scan)
    yield from tabular.cells_and_areas(folder, names, files, units, question["area_names"])


def _pass(
    table: tabular.Table,
    laws: Laws,
    units: dict[str, int],
    files: Sequence[tables_programme.NoisyRows],
    promised: Mapping[str, Mapping[str, np.ndarray[Any, Any]]],
) -> TablePass:
    scan = TablePass()
    first, *others = files
    scan.same = all(other.names == first.names for other in others)
    for level in table.levels:
        remaining = units[level]
        while remaining and scan.problem is None:
            chunk = min(remaining, max(1, ROWS_AT_ONCE // table.cells))
            remaining -= chunk
            rows = first.take(chunk * table.cells)
            scan.rows += rows.num_rows
            copies = [other.take(chunk * table.cells) for other in others]
            scan.same = scan.same and all(rows.equals(copy) for copy in copies)
            scan.integers = scan.integers and all(_are_integers(part.column("count")) for part in (rows, *copies))
            scan.problem = _out_of_order(table, level, chunk, rows, scan)
            if scan.problem is None:
                scan.problem = _beside(level, rows, chunk, promised[level])
            if scan.problem is None and scan.integers:
                counts = rows.column("count").to_numpy().reshape(chunk, table.cells)
                _add_noise_check(table, level, laws, counts, scan)
    if scan.problem is None and any(file.take(1).num_rows for file in files):
        scan.problem = "there are more rows than the plan has"
    return scan


def _beside(level: str, rows: pa.Table, units: int, promised: Mapping[str, np.ndarray[Any, Any]]) -> str | None:
    """The noise margins and the variances are those of the laws in the plan."""
    expected = [name for name in (tables_programme.NOISE_MARGIN, tables_programme.VARIANCE) if name in promised]
    if expected != [
        name for name in (tables_programme.NOISE_MARGIN, tables_programme.VARIANCE) if name in rows.column_names
    ]:
        return "a column of noise margins or variances is there, or missing, against the plan"
    for name in expected:
        figures = rows.column(name).to_numpy().reshape(units, len(promised[name]))
        if (figures != promised[name]).any():
            return f"level {level}: {name.replace('_', ' ')}s are not those of the plan"
    return None


def _are_integers(counts: pa.ChunkedArray) -> bool:
    return bool(counts.type == pa.int64() and not counts.null_count)


def _out_of_order(table: tabular.Table, level: str, units: int, rows: pa.Table, scan: TablePass) -> str | None:
    """Every unit has the rows of every margin, each once, in the order of the layout; units in the order of codes."""
    per_unit = table.cells
    if rows.num_rows != units * per_unit:
        return f"level {level}: rows are missing"
    areas = rows.column("area").combine_chunks()
    heads = areas.take(pa.array(np.arange(units) * per_unit))
    if not areas.equals(heads.take(pa.array(np.repeat(np.arange(units), per_unit)))):
        return f"level {level}: the rows of an area are not together"
    codes = heads.to_pylist()
    before = scan.last_area.get(level)
    if codes != sorted(set(codes)) or (before is not None and codes[0] <= before):
        return f"level {level}: areas are repeated or out of order"
    scan.last_area[level] = codes[-1]
    if rows.column("level").unique().to_pylist() != [level]:
        return f"level {level}: rows of another level are among its rows"
    repeated = pa.array(np.tile(np.arange(per_unit), units))
    for variable, labels in zip(table.variables, table.labels(table.unit_places), strict=True):
        if not rows.column(variable.name).combine_chunks().equals(labels.take(repeated)):
            return f"level {level}: cells of {variable.name} are missing or out of order"
    return None


def _add_noise_check(
    table: tabular.Table, level: str, laws: Laws, counts: np.ndarray[Any, Any], scan: TablePass
) -> None:
    """A margin and the sum of its cells measure the same truth with independent noise, so their difference is noise
    alone: its variance is the margin's plus the cells', which the plan states. Nothing of the truth is needed."""
    *margins, own = table.margins
    if not margins:
        return
    ends = np.cumsum([margin.cells for margin in table.margins])
    inner = counts[:, ends[-2] :].reshape(len(counts), *own.shape)
    of_inner = laws[level, own.name].variance()
    for margin, end in zip(margins, ends[:-1], strict=True):
        axes = tuple(at for at, variable in enumerate(own.variables, start=1) if variable not in margin.variables)
        difference = counts[:, end - margin.cells : end] - inner.sum(axis=axes).reshape(len(counts), -1)
        law = laws[level, margin.name]
        variance = law.variance() + of_inner * (own.cells // margin.cells)
        if not variance and not difference.any():
            continue  # a budget so large that no noise is as good as certain
        variance = variance or math.ulp(0.0)
        before = scan.disagreement.get(margin.name, Disagreement())
        scan.disagreement[margin.name] = Disagreement(
            before.squares + float((difference.astype(float) ** 2).sum() / variance),
            before.number + difference.size,
            max(before.kurtosis, _kurtosis(law), _kurtosis(laws[level, own.name])),
        )


def _kurtosis(law: noise_laws.ReleaseNoise) -> float:
    """An upper bound: 3 for the discrete Gaussian and 6 + 1/variance for the two-sided geometric law, where the
    variance is at least 1; noise that is mostly zero can have any, and then nothing is said. That of noise with a
    bound is added up."""
    variance = law.variance()
    if variance < 1:
        return math.inf
    if isinstance(law, noise_laws.TruncatedDistribution):
        places, weights = range(-law.bound, law.bound + 1), [float(low) for low, _ in law.weights(64)]
        return 1.001 * sum(x**4 * w for x, w in zip(places, weights, strict=True)) / sum(weights) / variance**2
    return 3.001 if isinstance(law, noise_laws.DiscreteGaussian) else 6 + 1 / variance


def _noise_check(name: str, scan: TablePass) -> Check:
    margins = scan.disagreement.values()
    wrong = any(margin.too_quiet or margin.too_loud for margin in margins)
    low, high = min(margin.ratio for margin in margins), max(margin.ratio for margin in margins)
    number = sum(margin.number for margin in margins)
    detail = f"{number:,} margins differ from their cells by {low:.2f} to {high:.2f} of the promised variance"
    return Check(f"{name}: noise as promised", not wrong, detail)


class TablesExplained(Explanation):
    """What releases of tables say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> tabular.Codebook | None:
        return codebook(manifest["plan"]["question"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> MeasuredNoise:
        return MeasuredNoise.of(manifest)


# Truth plus noise: the one function of the mechanism in which true counts and noise meet.


@dataclass(frozen=True)
class MeasuredMargin:
    """One margin of a table on one level: the axes of the table it sums over, its noise and its stream."""

    summed_axes: tuple[int, ...]
    cells: int
    law: noise_laws.ReleaseNoise
    stream: noise_laws.NoiseStream


@dataclass(frozen=True)
class MeasurePart:
    """Measures a run of consecutive units of one level, all margins of one table.

    The counts come out by unit, by margin, by cell. The noise of unit u and cell c of a margin with m cells has the
    coordinate u*m + c of the margin's stream, so that any split into groups gives the same numbers.
    """

    shape: tuple[int, ...]
    units: int
    units_per_part: int
    margins: tuple[MeasuredMargin, ...]

    def __call__(self, first: int, rows: pa.Table) -> pa.Table:
        units = min(self.units_per_part, self.units - first)
        truth = dense_counts(rows, first, units, self.shape)
        measured = []
        for margin in self.margins:
            counts = margin_counts(truth, margin.summed_axes, units)
            noisy = perturb(counts, margin.law, margin.stream, start=first * margin.cells)
            measured.append(noisy.reshape(units, margin.cells))
        return pa.table({tabular.COUNT: np.concatenate(measured, axis=1).ravel()})


def summed_axes(query: Query, margin: Query) -> tuple[int, ...]:
    """The axes of a table's cells that a margin sums over; axis 0 is the unit."""
    return tuple(axis for axis, variable in enumerate(query.variables, start=1) if variable not in margin.variables)


def dense_counts(rows: pa.Table, first: int, units: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The true counts of ``units`` units from ``first`` on, zero where there is no row."""
    cells = int(np.prod(shape, dtype=np.int64))
    counts = np.zeros(units * cells, np.int64)
    unit = rows.column("unit").to_numpy().astype(np.int64) - first
    counts[unit * cells + rows.column("cell").to_numpy()] = rows.column("n").to_numpy()
    return counts.reshape(units, *shape)


def margin_counts(truth: NDArray[np.int64], axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
    """The counts of a margin, unit by unit, as a flat array of its own."""
    return np.array(truth.sum(axis=axes, dtype=np.int64)).reshape(units, -1).ravel()


BYTES_PER_COUNT = 100
"""A generous guess of what one published count takes on the disk, with its intermediate files, in both formats."""


class Tables(Mechanism[tables_programme.TablesProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "tables"
    spec = tables_programme.TablesSpec
    accounted = True
    keyed = True
    on_spark = True
    explain = TablesExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.tables.programme:draft_tables",
        "draft_from": "confide.mechanisms.tables.programme:draft_tables_from",
        "board": "confide.mechanisms.tables.tuning:TablesTuning",
        "targets": "confide.mechanisms.tables.tuning:tune_tables",
        "evaluate": "confide.mechanisms.tables.evaluate:evaluate_tables",
        "published": "confide.lab.published.tabular:read_tables",
        "residuals": "confide.mechanisms.tables.evaluate:residuals",
        "rehearsal": "confide.mechanisms.tables.evaluate:TablesRehearsal",
        "audit": "confide.lab.risk.privacy_audit.of_mechanisms:TablesAudit",
    }

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> tables_programme.TablesProblem:
        spec = loaded.spec
        assert isinstance(spec, tables_programme.TablesSpec)
        public = tabular.PublicFiles.of(loaded, engine)
        spine = None if public.frame is None else public.frame.spine
        tables = public.tables(loaded, partial(tables_programme.build_table, spec=spec, spine=spine))
        if public.findings and public.schema is not None and "records" in public.sources:
            public.findings.extend(_columns(engine, public.sources["records"], spec, public.schema))
        if public.findings or public.schema is None or public.frame is None:
            raise SpecError(public.findings)
        return tables_programme.TablesProblem(spec, public.schema, public.frame, public.sources["records"], tables)

    def plan(self, problem: tables_programme.TablesProblem) -> Plan:
        return tables_programme.plan_programme(problem)

    def bytes_needed(self, problem: tables_programme.TablesProblem, plan: Plan) -> int:  # noqa: ARG002
        return plan.counts * BYTES_PER_COUNT

    def fingerprint(self, problem: tables_programme.TablesProblem) -> str:
        return inputs_records.records_fingerprint(problem.records)

    def check(self, problem: tables_programme.TablesProblem, job: Job) -> list[Finding]:
        frame = _write_frame(problem, job.workspace.scratch)
        block = problem.spec.geography.block
        return inputs_records.check_records(
            job.engine, problem.records, problem.attributes, block, problem.spine, frame
        )

    def count(self, problem: tables_programme.TablesProblem, job: Job) -> None:
        """Counts the records once for each table at the blocks, then adds up along the geography."""
        frame = _write_frame(problem, job.workspace.counts)
        block = problem.spec.geography.block
        columns = inputs_records.column_expressions(job.engine, problem.records, problem.attributes, block)
        steps = sum(1 + len(table.levels) for table in problem.tables)
        with job.progress.stage("Counting records", steps) as advance:
            for table in problem.tables:
                detailed = job.workspace.counts / f"{table.name}.parquet"
                if not detailed.exists():
                    keys = {"code": columns[block], "cell": cell_index(table.query, columns)}
                    job.engine.count_by(problem.records, keys, detailed)
                advance(1)
                for level in table.levels:
                    into = counts_file(job.workspace, table, level)
                    if not into.exists():
                        is_block = level.name == problem.spine.blocks.name
                        job.engine.write(_roll_up(table, level, is_block=is_block), into, counts=detailed, frame=frame)
                    advance(1)

    def measure(self, problem: tables_programme.TablesProblem, job: Job, noise: NoiseSource | None) -> None:
        assert noise is not None
        job.plan.check_measured(
            (level.name, problem.query_key(table, margin))
            for table in problem.tables
            for level in table.levels
            for margin in table.margins
        )
        steps = sum(len(table.parts(level)) for table in problem.tables for level in table.levels)
        with job.progress.stage("Measuring with noise", steps) as advance:
            for table in problem.tables:
                for level in table.levels:
                    job.engine.map_groups(
                        _measure_part(problem, job.plan, noise, table, level),
                        counts_file(job.workspace, table, level),
                        "part",
                        table.parts(level),
                        measured_folder(job.workspace, table, level),
                        advance=advance,
                    )

    def publish(self, problem: tables_programme.TablesProblem, job: Job, release: ReleaseWriter) -> None:
        output, names = problem.spec.output, problem.area_names
        with job.progress.stage("Writing tables", len(problem.tables)) as advance:
            for table in problem.tables:
                layout = tables_programme.NoisyTable(problem, job.plan, table)

                def batches(
                    table: tables_programme.MeasuredTable = table, layout: tables_programme.NoisyTable = layout
                ) -> Iterator[pa.RecordBatch]:
                    for level in table.levels:
                        for first in table.parts(level):
                            counts = read_measured(job.workspace, table, level, first)
                            yield layout.batch(level, first, counts)

                tabular.DescribedTable.of(table.layout, layout.figures).publish(release, batches, output, names)
                advance(1)
            tabular.publish_areas(release, problem.areas, names)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        counts = messages_of(manifest).text("certificate.counts_tables")
        return {CERTIFICATE: certificate(manifest, CertificateWords(counts))}

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        return verify(release)


def counts_file(workspace: Workspace, table: tables_programme.MeasuredTable, level: Geolevel) -> Path:
    """Where the true counts of a table on a level are."""
    return workspace.counts / f"{table.name}.{level.name}.parquet"


def measured_folder(workspace: Workspace, table: tables_programme.MeasuredTable, level: Geolevel) -> Path:
    """Where the measurements of a table on a level are, one file for each part."""
    return workspace.measured / table.name / level.name


def read_measured(
    workspace: Workspace, table: tables_programme.MeasuredTable, level: Geolevel, first: int
) -> np.ndarray[Any, Any]:
    """The measurements of one part."""
    file = measured_folder(workspace, table, level) / f"{first:08d}.parquet"
    return np.asarray(pq.read_table(file).column(tabular.COUNT).to_numpy())


def _measure_part(
    programme: tables_programme.TablesProblem,
    plan: Plan,
    noise: NoiseSource,
    table: tables_programme.MeasuredTable,
    level: Geolevel,
) -> MeasurePart:
    margins = []
    for margin in table.margins:
        query = programme.query_key(table, margin)
        law = plan.measure(level.name, query).law
        margins.append(
            MeasuredMargin(summed_axes(table.query, margin), margin.cells, law, noise.stream(level.name, query))
        )
    return MeasurePart(table.query.shape, level.units, table.units_per_part, tuple(margins))


def _roll_up(table: tables_programme.MeasuredTable, level: Geolevel, *, is_block: bool) -> str:
    """The block counts added up to the units of a level. A part is known by its first unit."""
    unit = "frame.block" if is_block else f'frame."unit_{level.name}"'
    part = f"{unit} - {unit} % {table.units_per_part}"
    return (
        f"SELECT {part} AS part, {unit} AS unit, counts.cell AS cell, CAST(sum(counts.n) AS BIGINT) AS n "
        f"FROM counts JOIN frame ON counts.code = frame.code WHERE {unit} >= 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )


def _write_frame(question: tables_programme.TablesProblem, folder: Path) -> Path:
    path = private_folder(folder) / "frame.parquet"
    write_parquet(inputs_records.blocks_table(question.spine), path)
    return path


def _columns(engine: Engine, records: Source, spec: tables_programme.TablesSpec, schema: Schema) -> list[Finding]:
    """What is wrong with the columns of the records, for a spec that goes no further than its frame and its tables."""
    named = {name.split(":")[0] for table in spec.tables for name in table.variables}
    attributes = [attribute for attribute in schema.attributes if attribute.name in named]
    try:
        return inputs_records.check_columns(engine, records, attributes, spec.geography.block)
    except ConfideError as error:
        return list(error.findings)
