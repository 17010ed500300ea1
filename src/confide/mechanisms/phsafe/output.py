"""The release: every table in the layout of the Census Bureau and for people, and the averages, from measurements.

What is said of it to its readers, and what ``verify`` asks of it, follows from the plan in its manifest: from the
counts in the Bureau's layout everything else is made anew and compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.exact import exact_text
from confide.mechanisms.phsafe.layout import EVERYBODY, ITERATION, Counts, ReleaseLayout, is_total
from confide.mechanisms.phsafe.measure import read_measured
from confide.mechanisms.phsafe.problem import PHSafeProblem
from confide.mechanisms.phsafe.settings import CountTable, ShellCell, averages, tables
from confide.releases import Check, Draw, Job, ReleaseWriter, SealedRelease, tabular
from confide.releases.certificate import CERTIFICATE, CertificateWords, certificate
from confide.releases.plan import Explanation, Plan, Summary, summary_of_levels
from confide.releases.tabular.checks import TableCopies, remade
from confide.releases.tabular.described import Rows
from confide.releases.tabular.table import in_dictionaries, same_rows
from confide.report.rendering import messages_of


def publish(problem: PHSafeProblem, job: Job, release: ReleaseWriter) -> None:
    """Writes every table in both layouts, the averages, and the areas."""
    layout, output = ReleaseLayout.of(job.plan.as_dict()), problem.spec.output
    counts = {
        (each.table, each.level, each.iteration_level): read_measured(problem, job.workspace, each)
        for each in problem.queries
    }
    with job.progress.stage("Writing tables", 2 * len(layout.shown) + len(layout.averages)) as advance:
        for counted in layout.shown:
            place, schema, rows = (
                f"{counted.name}/{counted.name}",
                layout.schema(counted),
                partial(layout.official_rows, counted, counts),
            )
            release.text(place, schema, rows(), counted.title, "|")
            if "parquet" in output.formats:
                release.part(place, schema, rows(), counted.title)
            advance(1)
        for described, labelled in people_tables(layout, counts):
            described.publish(release, labelled, output, None)
            advance(1)
    tabular.publish_areas(release, [(level, layout.areas(level)) for level in _levels(layout)], None)


def people_tables(layout: ReleaseLayout, counts: Counts) -> Iterator[tuple[tabular.DescribedTable, Rows]]:
    """The tables for people, with what makes their rows."""
    for counted in layout.shown:
        yield layout.described(counted), partial(layout.rows, counted, counts)
    for average in layout.averages:
        yield layout.described_average(average), partial(layout.average_rows, average, counts)


def _levels(layout: ReleaseLayout) -> list[str]:
    return list(dict.fromkeys(level for counted in layout.shown for level in layout.levels(counted)))


# What is said to the readers of a release.


PROTECTION = (
    "Every measured count has random noise of its own. The certificate states what this promises to everybody in the "
    "data."
)
NOTES = (
    "Counts may be below zero: that is noise, which averages out when counts are added. Do not set them to zero.",
    "A household counts with at most so many persons as the certificate says; of larger ones the others are missing in "
    "counts of persons. The variance does not cover this.",
    "Everybody, the groups A to G and the groups H and I were measured one by one: sums of groups differ from the "
    "figures for everybody, and so do sums of states from those of the nation.",
    "The noise of a sum of cells has the sum of their variances. Rows whose margin is not cell are such sums, or "
    "groups that overlap with others.",
    "Averages are counts of persons over counts of households or families, both with noise. Where the number of "
    "households may be zero, as far as its noise tells, their interval has no two ends.",
)
ADDING = (
    'Within one area, add rows whose margin is "cell" (or those of a file of the folder cells/). Areas of one '
    "level can be added.",
    "Never add the groups H or I to others, nor a total to its cells. Averages are never added.",
)


def codebook(plan: Mapping[str, Any]) -> tabular.Codebook:
    """What the tables of a release hold."""
    layout, (formats, agency) = ReleaseLayout.of(plan), tabular.asked(plan["question"])
    described = tuple(each for each, _ in people_tables(layout, {}))
    levels = {level: len(layout.areas(level)) for level in _levels(layout)}
    others = {f"{each.name}/": "the same measured cells in the Census Bureau's layout" for each in layout.shown}
    return tabular.Codebook(described, levels, formats, agency, PROTECTION, NOTES, adding=ADDING, others=others)


@dataclass(frozen=True, eq=False)
class PHSafeFigures:
    """The noise of the counts of a release: which measured counts a row shows, and their law."""

    layout: ReleaseLayout
    figure: str = tabular.COUNT

    def draws(self, name: str, row: Mapping[str, Any]) -> Sequence[Draw]:
        """Those of the measured cells that a row is the sum of: a table made of another one has its draws, and averages
        those of their numerators, which are their counts."""
        above = {each.name: each.numerator for each in averages()}
        counted = next((each for each in tables() if each.name == above.get(name, name)), None)
        if counted is None:
            raise LookupError(name)
        code = row.get(ITERATION, tabular.TOTAL_CODE)
        code = EVERYBODY if code == tabular.TOTAL_CODE else code
        queries = (
            each
            for each in self.layout.of_table(counted, row[tabular.LEVEL])
            if code in {one.code for one in each.iterations}
        )
        query = next(queries, None)
        if query is None:
            raise LookupError(code)
        parts = counted.measured_parts(_cell(counted, row.get(counted.variable, tabular.TOTAL_CODE)))
        return [Draw((*query.key, row[tabular.AREA], code, part), query.law) for part in parts]


def _cell(counted: CountTable, code: str) -> ShellCell:
    for cell in counted.cells:
        if code == (tabular.TOTAL_CODE if is_total(counted, cell) else str(cell.code)):
            return cell
    raise LookupError(code)


class PHSafeExplained(Explanation):
    """What releases of PHSafe say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> tabular.Codebook | None:
        return codebook(manifest["plan"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> PHSafeFigures:
        return PHSafeFigures(ReleaseLayout.of(manifest["plan"]))

    def summary(self, plan: Plan) -> Summary:
        return _summary(plan)


def _summary(plan: Plan) -> Summary:
    """Every table at every level with its price and its noise."""
    layout = ReleaseLayout.of(plan.as_dict())
    truncation = plan.question["truncation"]
    rows = [
        (
            each.table,
            each.level,
            each.iteration_level,
            str(truncation.get(each.table, "")),
            exact_text(Fraction(budget["budget"])),
            f"{each.variance(1):,.1f}",
            f"±{each.margin(1, layout.interval_probability):,}",
        )
        for each, budget in zip(layout.queries.values(), plan.question["queries"], strict=True)
    ]
    columns = ("table", "level", "groups", "persons at most ", "budget ", "variance ", "noise margin ")
    return Summary(summary_of_levels(plan, f"{plan.counts:,} counts").sentence, columns, tuple(rows))


def documents(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The certificate of a release, with what a person may change in it."""
    text, question = messages_of(manifest), manifest["plan"]["question"]
    most = ", ".join(f"{name}: {tau}" for name, tau in question["truncation"].items())
    promise = [text.text(f"certificate.sensitivity_{question['sensitivity']}")]
    promise += [text.text("certificate.truncation", most=most)] if most else []
    said = CertificateWords(text.text("certificate.counts_phsafe"), promise=promise)
    return {CERTIFICATE: certificate(manifest, said)}


# What ``verify`` asks.


def verify(release: SealedRelease) -> Iterator[Check]:
    """Every table: there, the same in every format, and in every row but its counts as the plan has it; tables that are
    made of others, tables for people and averages made anew from the counts."""
    layout = ReleaseLayout.of(release.manifest["plan"])
    names = [*(each.name for each in layout.shown), *(each.name for each in layout.averages)]
    yield _no_other_files(layout, names, release.files)
    copies = {each.name: _official(release, layout, each) for each in layout.shown}
    for name, each in copies.items():
        yield Check(f"{name}: columns of the layout", each.fits, each.formats or "no file of this table is there")
    if not all(each.fits for each in copies.values()):
        return
    rows = {name: _all_rows(each) for name, each in copies.items()}
    wrong = [counted.name for counted in layout.shown if rows[counted.name].num_rows != _number(layout, counted)]
    detail = f"{sum(each.num_rows for each in rows.values()):,} rows"
    yield Check("every area, group and cell once", not wrong, ", ".join(wrong) or detail)
    if wrong:
        return
    counts = _counts(layout, rows)
    for counted in layout.shown:
        expected = pa.Table.from_batches(layout.official_rows(counted, counts)).cast(layout.schema(counted))
        same = same_rows(_coded(expected), _coded(rows[counted.name]))
        yield Check(
            f"{counted.name}: the same in every format", copies[counted.name].same, copies[counted.name].formats
        )
        yield Check(f"{counted.name}: groups, cells and variances of the plan", same, f"{expected.num_rows:,} rows")
    for described, labelled in people_tables(layout, counts):
        yield from remade(release, described, labelled, None, "the counts and the plan")
    levels = {level: len(layout.areas(level)) for level in _levels(layout)}
    yield from tabular.cells_and_areas(release.folder, names, release.files, levels, None)


def _official(release: SealedRelease, layout: ReleaseLayout, counted: CountTable) -> TableCopies:
    return TableCopies.open(release, f"{counted.name}/{counted.name}", layout.schema(counted), "|")


def read_counts(release: SealedRelease) -> tuple[ReleaseLayout, Counts]:
    """The layout of a release, and its measured counts. Raises a :class:`LookupError` with the name of a table that is
    not there, or not as the plan says."""
    layout = ReleaseLayout.of(release.manifest["plan"])
    rows = {}
    for counted in layout.shown:
        copies = _official(release, layout, counted)
        if not copies.fits:
            raise LookupError(counted.name)
        rows[counted.name] = _all_rows(copies)
        if rows[counted.name].num_rows != _number(layout, counted):
            raise LookupError(counted.name)
    return layout, _counts(layout, rows)


def _no_other_files(layout: ReleaseLayout, names: Iterable[str], files: Sequence[str]) -> Check:
    places = {f"{each.name}/{each.name}" for each in layout.shown}
    official = [path for path in files if path.split(".")[0] in places and path.endswith((".parquet", ".csv"))]
    return tabular.no_other_files(names, files, [CERTIFICATE, *official])


def _all_rows(copies: TableCopies) -> pa.Table:
    return pa.concat_tables([*copies.batches()] or [copies.take(0)], promote_options="default")


def _coded(rows: pa.Table) -> pa.Table:
    """Rows with texts in dictionaries, to be compared."""
    return rows.replace_schema_metadata(None).cast(in_dictionaries(rows.schema)).combine_chunks()


def _groups(layout: ReleaseLayout, counted: CountTable, level: str) -> int:
    return sum(len(query.iterations) for query in layout.of_table(counted, level))


def _number(layout: ReleaseLayout, counted: CountTable) -> int:
    """How many rows a table has in the layout of the Census Bureau."""
    levels = layout.levels(counted)
    groups = sum(len(layout.areas(level)) * _groups(layout, counted, level) for level in levels)
    return groups * len(counted.interior)


def _counts(layout: ReleaseLayout, rows: Mapping[str, pa.Table]) -> dict[tuple[str, str, str], Integers]:
    """The measured counts in tables that have a row for each, in order."""
    counts: dict[tuple[str, str, str], Integers] = {}
    for counted in layout.shown:
        if not counted.measured:
            continue
        values, begin = np.asarray(rows[counted.name].column("COUNT").to_numpy(), np.int64), 0
        for level in layout.levels(counted):
            shape = len(layout.areas(level)), _groups(layout, counted, level), len(counted.interior)
            size = int(np.prod(shape))
            block, place = values[begin : begin + size].reshape(shape), 0
            begin += size
            for query in layout.of_table(counted, level):
                counts[query.key] = block[:, place : place + len(query.iterations)]
                place += len(query.iterations)
    return counts
