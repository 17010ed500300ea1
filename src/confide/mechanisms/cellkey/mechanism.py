"""The mechanism ``cellkey``, from top to bottom: tables whose counts are perturbed by the keys of their members.

    keyed records ─► counts and cell keys of every cross-classification ─► lookup in the perturbation table ─► tables

It is deterministic: all randomness is in the record keys, which are drawn once and kept with the records. The same
members have the same published count in every table, release and year (SPSN). It spends no budget: bounded noise that
never changes has no differential privacy to promise. ``confide risk`` computes what it risks (Bach 2021). For users:
``docs/concepts/cellkey.md``; what holds and what does not: ``docs/proofs/cellkey.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Engine, write_parquet
from confide.errors import Finding
from confide.exact import exact_text
from confide.file_system import private_folder
from confide.inputs.records import records_fingerprint
from confide.mechanisms.cellkey import keyed_records
from confide.mechanisms.cellkey import output as released
from confide.mechanisms.cellkey.given import GivenTable, check_given, given_fingerprint, read_given
from confide.mechanisms.cellkey.output import columns_of, figure_columns, plain_rows, publish_given
from confide.mechanisms.cellkey.programme import CellKeyProblem, PerturbedTables, describe, prepare
from confide.mechanisms.cellkey.spec import CellKeySpec
from confide.messages import Messages, messages
from confide.noise.ptables import NOT_A_GUARANTEE, PTable, epsilon_delta_reading
from confide.releases.certificate import STATEMENT
from confide.releases.figure_noise import FigureNoise
from confide.releases.folder import ReleaseWriter, SealedRelease, rehearsal_banner
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource
from confide.releases.plan import Explanation, Plan, in_plural
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import Codebook, DescribedTable, GivenColumns, Table, asked, publish_areas
from confide.releases.workspace import Workspace
from confide.report.rendering import messages_of, render

# What can be said of a release by the cell key method, in words and in figures of its perturbation table.
#
# Nothing here is a privacy loss. The figures compare two counts that differ by one in one cell
# (:mod:`confide.noise.ptables.ptable_answer`); they follow from the table alone, never from records.


def in_words(largest_noise: str, threshold: int | None, text: Messages | None = None) -> list[str]:
    """What is promised and what is not."""
    m = text or messages()
    first = m.text("cellkey.words_counts", D=largest_noise)
    if threshold is not None:
        first += f" {m.text('cellkey.words_threshold', threshold=threshold)}"
    return [first, m.text("cellkey.words_no_dp"), m.text("cellkey.words_secret")]


def magnitude_words(magnitude: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """The same for magnitude tables."""
    m = text or messages()
    share = exact_text(100 * Fraction(magnitude["largest_share"]))
    small = Fraction(magnitude["largest_small"])
    if magnitude["negative"] or magnitude["contributions"] == "range":
        bound = m.text("magnitude.bound_unknown")
    elif small:
        bound = m.text("magnitude.bound_share_small", share=share, small=exact_text(small))
    else:
        bound = m.text("magnitude.bound_share", share=share)
    first = f"{m.text('magnitude.words_values')} {bound} {m.text('magnitude.words_zero')}"
    return [first, m.text("magnitude.words_no_dp"), m.text("magnitude.words_secret")]


def magnitude_facts(magnitude: Mapping[str, Any]) -> dict[str, Any]:
    """The noise of a value: by what share of itself it can be off, and by how much where contributions are small."""
    return {
        "sampler": None,
        "key": "record keys",
        "largest_share": magnitude["largest_share"],
        "largest_small": magnitude["largest_small"],
    }


def single_count(ptable: PTable) -> dict[str, Any] | None:
    """How well two counts that differ by one can be reading apart from one cell; None where rows are used in turn."""
    if not ptable.for_counts or ptable.cycle != 1:
        return None
    reading = epsilon_delta_reading(ptable).as_dict()
    return {
        "epsilon": _short(reading["epsilon"]),
        "delta": _short(reading["delta"]),
        "delta_all_counts": _short(reading["delta_all_counts"]),
        "worst_counts": [reading["worst_pair"], reading["worst_pair"] + 1],  # type: ignore[operator]
        "note": NOT_A_GUARANTEE,
    }


def noise_facts(ptable: PTable) -> dict[str, Any]:
    """The noise of a count that is not zero: its bound, its largest bias, its variance from the smallest to the last
    row."""
    places = range(1, len(ptable.rows))
    variances = [ptable.variance(place) for place in places]
    return {
        "sampler": None,
        "key": "record keys",
        "largest": str(ptable.largest_noise),
        "bias": _short(max(abs(ptable.mean(place)) for place in places)),
        "variance": {"least": _short(min(variances)), "most": _short(max(variances)), "large": _short(variances[-1])},
    }


def _short(value: Any) -> float:
    """Four digits: the same on every machine, whatever the last bit of a logarithm is."""
    return float(f"{float(value):.4g}")


# The statement that stands in for a certificate where counts have bounded noise that never changes: it certifies no
# loss, and says what holds instead. Made from the manifest alone.


LARGEST_ROUNDING = 1e-3
"""A larger mean of the noise is a bias of the table, not of its rounding to keys."""

LEAST_DECIMAL = 1e-4
"""Smaller numbers are written with a power of ten."""


def cellkey_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question, text = manifest["plan"]["question"], messages_of(manifest)
    described, ptable = describe(question), question["ptable"]
    if described.magnitude is not None:
        return _magnitude_statement(manifest, described)
    return render(
        "cellkey.html.j2",
        text.language,
        title=text.text("page.title_statement", title=manifest["title"]),
        banner=rehearsal_banner(manifest),
        manifest=manifest,
        words=in_words(ptable["D"], question["threshold"], text),
        biased=manifest["noise"]["bias"] > LARGEST_ROUNDING,
        bias=_small(manifest["noise"]["bias"]),
        variance={name: f"{value:.4g}" for name, value in manifest["noise"]["variance"].items()},
        ptable=ptable,
        asked=exact_text(Fraction(ptable["V"])) if ptable["V"] is not None else None,
        stay=exact_text(Fraction(ptable["pstay"])) if ptable["pstay"] is not None else None,
        threshold=question["threshold"],
        weighted=question["weighted"],
        step=exact_text(described.weighted_step) if "weighted_step" in question else None,
        gap=exact_text(described.weight_gap),
        candidates=question.get("candidates"),
        partial=question["partial"],
        reading=_reading(manifest["privacy"]["single_count"]),
        sizes=sizes(described),
        tables=[*(_row(described, table) for table in described.tables), *map(_given_row, described.given)],
        order=question["order"],
        levels=[f"{name} ({units:,})" for name, units in described.units.items()],
        given=bool(described.given),
    )


def _magnitude_statement(manifest: Mapping[str, Any], described: PerturbedTables) -> str:
    magnitude, text = described.magnitude, messages_of(manifest)
    assert magnitude is not None
    return render(
        "cellkey_magnitude.html.j2",
        text.language,
        title=text.text("page.title_statement", title=manifest["title"]),
        banner=rehearsal_banner(manifest),
        manifest=manifest,
        words=magnitude_words(magnitude, text),
        magnitude=magnitude,
        share=exact_text(100 * Fraction(magnitude["largest_share"])),
        bounded=not magnitude["negative"] and magnitude["contributions"] != "range",
        partial=manifest["plan"]["question"]["partial"],
        order=manifest["plan"]["question"]["order"],
        sizes=sizes(described),
        tables=[_row(described, table) for table in described.tables],
        levels=[f"{name} ({units:,})" for name, units in described.units.items()],
    )


def sizes(described: PerturbedTables) -> dict[str, int]:
    """How large a programme is: tables, cells in them, distinct cross-classifications, and cells in these."""
    return {
        "tables": len(described.tables) + len(described.given),
        "cells": sum(described.cells(table) for table in described.tables),
        "distinct": len(described.distinct),
        "distinct_cells": sum(described.distinct.values()),
    }


def _row(described: PerturbedTables, table: Table) -> dict[str, Any]:
    levels = [f"{level} ({described.units[level]:,})" for level in table.levels]
    variables = [f"{variable.name} ({len(variable.labels):,})" for variable in table.variables]
    return {
        "name": table.name,
        "title": table.title,
        "variables": [*([" + ".join(levels)] if levels else []), *variables],
        "margins": len(table.margins),
        "cells": described.cells(table),
    }


def _given_row(table: GivenTable) -> dict[str, Any]:
    return {"name": table.name, "title": table.title, "variables": table.variables, "margins": None, "cells": None}


def _reading(single: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if single is None:
        return None
    shown = {name: _small(single[name]) for name in ("epsilon", "delta", "delta_all_counts")}
    return {**shown, "worst_counts": single["worst_counts"]}


def _small(value: float) -> str:
    """A number with its leading digits; far below one with a power of ten."""
    if not value or abs(value) >= LEAST_DECIMAL:
        return f"{value:.4g}"
    digits, _, exponent = f"{value:.3g}".partition("e")
    return f"{digits} · 10⁻" + exponent.lstrip("-0").translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


# What is said to the readers of a release: what its columns hold, and the noise of its figures.


PROTECTION = (
    "Each figure is perturbed by the cell key method, always by the same amount for the same members. The statement "
    "says what this promises, and what it does not."
)
NOTES = (
    "Cells that are not listed are published as zero.",
    "Figures do not add up: each has noise of its own, totals too. Take totals from the table; do not add cells up.",
)
GIVEN_NOTE = "The codes are those that the office counted by; totals are rows like others."
BOUND_NOTE = "No count is further than {} from the true one."
THRESHOLD_NOTE = "Counts that come out below {:,} are published as zero."


def codebook(question: Mapping[str, Any]) -> Codebook:
    """What the tables of a release hold."""
    described = describe(question)
    figures = columns_of(described).plain()
    tables = tuple(DescribedTable.of(table, figures) for table in described.tables)
    tables += tuple(
        DescribedTable(table.name, table.title, GivenColumns(table.variables), tuple(figures))
        for table in described.given
    )
    notes = [*NOTES, *([GIVEN_NOTE] if described.given else ())]
    if described.magnitude is None and not described.threshold:
        notes.append(BOUND_NOTE.format(described.largest_noise))
    elif described.threshold:
        notes.append(THRESHOLD_NOTE.format(described.threshold))
    formats, agency = asked(question)
    return Codebook(tables, described.units, formats, agency, PROTECTION, tuple(notes))


def figure_noise(manifest: Mapping[str, Any]) -> str:
    """Why a sum has no margin: which cells count the very same people, and so have the same noise, is not published."""
    question = manifest["plan"]["question"]
    if question.get("magnitude") is not None:
        return "the noise of values depends on their largest contributions, which are secret"
    largest = Fraction((question["ptable"] or {"D": "0"})["D"])
    if question["threshold"]:
        return "counts below the threshold are published as zero"
    return f"cells with the same members have the same noise; each figure is at most {largest} off"


class CellKeyExplained(Explanation):
    """What releases of cell keys say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:
        return codebook(manifest["plan"]["question"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> FigureNoise | str:
        return figure_noise(manifest)

    def contents(self, plan: Plan) -> str:
        size, least = sizes(describe(plan.question)), plan.question.get("candidates")
        return (
            f"{in_plural(size['tables'], 'table')} of {size['cells']:,} perturbed cells: "
            f"{in_plural(size['distinct'], 'distinct cross-classification')} with {size['distinct_cells']:,} cells"
            + (f"; at least {least:,} true counts fit each published one" if least else "")
        )


BYTES_PER_CELL = 60
MOST_CELLS_FORESEEN = 1 << 27
"""Of so many cells at most the disk must hold all: where areas are many, most of their cells are empty."""
LABEL = "label/"


class CellKey(Mechanism[CellKeyProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "cellkey"
    spec = CellKeySpec
    on_spark = True
    explain = CellKeyExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.cellkey.spec:draft_cellkey",
        "draft_from": "confide.mechanisms.cellkey.spec:draft_cellkey_from",
        "board": "confide.mechanisms.cellkey.board:CellKeyBoard",
        "evaluate": "confide.mechanisms.cellkey.evaluate:evaluate_cellkey",
        "published": "confide.lab.published.tabular:read_cellkey",
        "residuals": "confide.mechanisms.cellkey.evaluate:residuals",
        "rehearsal": "confide.mechanisms.cellkey.keyed_records:CellKeyRehearsal",
    }
    measures_counts = False

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> CellKeyProblem:
        return prepare(loaded, engine)

    def plan(self, problem: CellKeyProblem) -> Plan:
        """No measurement and no loss; the problem has everything else."""
        return Plan.without_loss(self.name, problem.facts())

    def fingerprint(self, problem: CellKeyProblem) -> str:
        return given_fingerprint(problem.given) if problem.given else records_fingerprint(problem.source)

    def bytes_needed(self, problem: CellKeyProblem, plan: Plan) -> int:
        if problem.given:
            return 2 * sum(table.source.path.stat().st_size for table in problem.given if table.source is not None)
        described = describe(plan.question)
        cells = sum(described.cells(table) for table in described.tables)
        return BYTES_PER_CELL * min(cells, MOST_CELLS_FORESEEN)

    def check(self, problem: CellKeyProblem, job: Job) -> list[Finding]:
        if problem.given:
            findings = [check_given(job.engine, table, problem.modulus) for table in problem.given]
            return [*problem.warnings, *(finding for of_table in findings for finding in of_table)]
        return [*problem.warnings, *keyed_records.check_keyed_records(job.engine, problem, job.workspace.scratch)]

    def measure(self, problem: CellKeyProblem, job: Job, noise: NoiseSource | None) -> None:  # noqa: ARG002
        """Counts every cross-classification and perturbs it. True counts and keys are not kept."""
        private_folder(job.workspace.measured)
        if problem.given:
            self._measure_given(problem, job)
            return
        distinct = [counted.name for counted in problem.counted()]
        if all(_file(job.workspace, name).exists() for name in distinct):
            return
        scratch = private_folder(job.workspace.scratch)
        with job.progress.stage("Reading records", 1) as advance:
            keyed_records.write_coded(job.engine, problem, scratch / "coded.parquet", scratch)
            advance(1)
        with job.progress.stage("Counting and perturbing", len(distinct)) as advance:
            for counted, sums in keyed_records.count_cells(problem, scratch / "coded.parquet"):
                _keep(_file(job.workspace, counted.name), keyed_records.perturb_cells(problem, sums))
                advance(1)

    def _measure_given(self, problem: CellKeyProblem, job: Job) -> None:
        """Perturbs the cells of every file, and keeps the labels of those that are published above zero."""
        with job.progress.stage("Perturbing cells", len(problem.given)) as advance:
            for table in problem.given:
                sums, labels = read_given(job.engine, table, problem.modulus).reveal("to perturb given cells")
                figures = keyed_records.perturb_cells(problem, sums).listed()
                _keep(_file(job.workspace, table.name), figures, labels.take(pa.array(figures.cell)))
                advance(1)

    def guarantee(self, problem: CellKeyProblem, job: Job) -> Mapping[str, Any]:
        if problem.magnitude is not None:
            return self.restated(job.plan, {})
        assert problem.ptable is not None
        table = problem.ptable
        words = in_words(str(table.largest_noise), problem.spec.cellkey.threshold)
        return {
            "privacy": {"loss": None, "in_words": words, "single_count": single_count(table)},
            "noise": noise_facts(table),
        }

    def publish(self, problem: CellKeyProblem, job: Job, release: ReleaseWriter) -> None:
        output, columns = problem.spec.output, figure_columns(problem)
        with job.progress.stage("Writing tables", len(problem.tables) + len(problem.given)) as advance:
            for table in problem.tables:
                names = [counted.name for counted in replace(problem, tables=(table,)).counted()]
                figures = {name: _recall(job.workspace, name) for name in names}
                rows_of = partial(plain_rows, problem, table, figures)
                described = DescribedTable.of(table.layout, columns.plain())
                described.publish(release, rows_of, output, problem.area_names)
                advance(1)
            if problem.areas:
                publish_areas(release, problem.areas, problem.area_names)
            for given in problem.given:
                labels, of_cells = _labels(job.workspace, given), _recall(job.workspace, given.name)
                publish_given(release, output.formats, output.agency, given, labels, of_cells, columns)
                advance(1)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return {STATEMENT: cellkey_statement(manifest)}

    def restated(self, plan: Plan, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Words and bound. What follows from the whole perturbation table, which stays secret, is taken as stated."""
        magnitude = plan.question.get("magnitude")
        if magnitude is not None:
            words = magnitude_words(magnitude)
            return {"privacy": {"loss": None, "in_words": words}, "noise": magnitude_facts(magnitude)}
        largest, stated = plan.question["ptable"]["D"], manifest["noise"]
        words = in_words(largest, plan.question["threshold"])
        noise = {"sampler": None, "key": "record keys", "largest": largest}
        return {
            "privacy": {"loss": None, "in_words": words, "single_count": manifest["privacy"]["single_count"]},
            "noise": noise | {name: stated[name] for name in ("bias", "variance")},
        }

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        return released.verify(release)


def _file(workspace: Workspace, query: str) -> Path:
    """Where the published figures of a cross-classification are kept until they are published."""
    return workspace.measured / f"{hashlib.sha256(query.encode()).hexdigest()}.parquet"


def _keep(file: Path, figures: keyed_records.PerturbedFigures, labels: pa.Table | None = None) -> None:
    listed = figures.listed()
    columns = {"cell": pa.array(listed.cell), "count": pa.array(listed.figure)}
    if listed.weighted is not None:
        columns["weighted"] = pa.array(listed.weighted)
    table = pa.table(columns)
    for number, name in enumerate(() if labels is None else labels.column_names):
        assert labels is not None
        table = table.append_column(f"{LABEL}{number}", labels.column(name))
    write_parquet(table, file)


def _recall(workspace: Workspace, name: str) -> keyed_records.PerturbedFigures:
    table = pq.read_table(_file(workspace, name))
    values = [table.column(each).to_numpy() for each in ("cell", "count")]
    weighted = table.column("weighted").to_numpy() if "weighted" in table.column_names else None
    return keyed_records.PerturbedFigures(values[0], values[1], weighted)


def _labels(workspace: Workspace, table: GivenTable) -> pa.Table:
    """The labels of the cells that are published."""
    kept = pq.read_table(_file(workspace, table.name))
    return kept.select([name for name in kept.column_names if name.startswith(LABEL)])
