"""What is written: records, the same in another layout, tables of them, and what the frame says of every block.

Everything is made of the estimates of the blocks and of public knowledge. The rows are streamed; the largest thing held
is the sparse histogram of all blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.engines.protocol import Advance
from confide.geography import OUTSIDE, Geolevel, Spine
from confide.mechanisms.topdown.measurements.writing import publish_measurements
from confide.mechanisms.topdown.output import tabulation
from confide.mechanisms.topdown.output.accuracy import PAGE, accuracy_page, described_files, publish_accuracy
from confide.mechanisms.topdown.output.settings import MDF, RECORDS, UNITS, MicrodataLayout, Output
from confide.mechanisms.topdown.problem import TopDownProblem, counts_by_code
from confide.releases import Explanation, Job, Plan, ReleaseWriter
from confide.releases.companions.programs import LABELLED, write_labelled
from confide.releases.tabular import Codebook, DescribedColumn, DescribedFile, DescribedTable, publish_areas
from confide.releases.tabular.table import of_schema

# Estimates of blocks as records: one line for each person or unit, with the codes of the schema.


ROWS_AT_ONCE = 1 << 18


def microdata_schema(problem: TopDownProblem) -> pa.Schema:
    """The columns: the block, then the attributes in the order of the schema."""
    columns = [
        pa.field(problem.spec.geography.block, pa.string(), False, {"description": _of_blocks(problem)}),
        *(
            pa.field(
                attribute.name,
                pa.int64() if attribute.is_integer else pa.string(),
                False,
                {"description": attribute.title},
            )
            for attribute in problem.strategy.schema.attributes
        ),
    ]
    return pa.schema(columns)


def _of_blocks(problem: TopDownProblem) -> str:
    return f"code of the {problem.spec.geography.smallest}"


def microdata_batches(problem: TopDownProblem, estimates: pa.Table) -> Iterator[pa.RecordBatch]:
    """The records of some blocks, by block and cell. Equal records are equal lines."""
    schema = microdata_schema(problem)
    attributes = problem.strategy.schema.attributes
    shape = tuple(attribute.size for attribute in attributes)
    unit, cell, count = (estimates.column(name).to_numpy() for name in ("unit", "cell", "n"))
    ends = np.cumsum(count)
    start = 0
    while start < len(count):
        reach = ends[start] - count[start] + ROWS_AT_ONCE
        end = max(start + 1, int(np.searchsorted(ends, reach, side="right")))
        times = count[start:end]
        blocks = pa.array(problem.spine.block_codes[unit[start:end]].tolist())
        indices = np.unravel_index(cell[start:end], shape)
        repeated = pa.array(np.repeat(np.arange(end - start), times))
        columns = [blocks.take(repeated)]
        for attribute, index in zip(attributes, indices, strict=True):
            codes = pa.array([level.code for level in attribute.levels])
            columns.append(codes.take(pa.array(index)).take(repeated))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        start = end


def units_table(problem: TopDownProblem) -> pa.Table:
    """What the frame says of every block: its units and areas, and the counts that constraints use.

    Public knowledge, published as it is. Blocks are in the order of their codes. An area is empty where a block lies in
    none.
    """
    frame = problem.frame.spine
    order = np.argsort(frame.blocks.unit_of_block)

    def column(name: str, kind: pa.DataType, description: str) -> pa.Field:
        return pa.field(name, kind, False, {"description": description})

    fields = [column(problem.spec.geography.block, pa.string(), _of_blocks(problem))]
    columns = [pa.array(frame.blocks.codes, pa.string())]
    for level in (*frame.levels[:-1], *frame.areas):
        kind = level.name if level.on_spine else f"{level.name}; empty: in none"
        fields.append(column(level.name, pa.string(), f"code of the {kind}"))
        units = level.unit_of_block[order]
        codes = pa.array([*level.codes, ""], pa.string())
        columns.append(codes.take(pa.array(np.where(units == OUTSIDE, level.units, units))))
    for name, counts in counts_by_code(problem).items():
        fields.append(column(name, pa.int64(), "count of the frame"))
        columns.append(pa.array(counts))
    return pa.table(columns, schema=pa.schema(fields))


def publish(problem: TopDownProblem, plan: Plan, job: Job, release: ReleaseWriter) -> None:
    """Every table of the release."""
    files = sorted((job.workspace.measured / problem.spine.names[-1]).glob("*.parquet"))
    formats, title = _readers(problem), problem.strategy.title
    with job.progress.stage("Writing records", len(files)) as advance:
        batches = _records(problem, files, advance)
        release.table(RECORDS, microdata_schema(problem), batches, formats, f"{title}: protected records")
    _publish_labelled(problem, files, job, release)
    layout = problem.output.microdata
    if layout is not None:
        with job.progress.stage(f"Writing {layout.file.id}", len(files)) as advance:
            lines = _in_layout(problem, layout, _records(problem, files, advance))
            release.table(MDF, layout.schema, lines, formats, layout.file.title)
    units = units_table(problem)
    description = (
        f"What the frame says of every {problem.spec.geography.smallest}: its units, its areas, and the counts that "
        "the records keep to"
    )
    release.table(UNITS, units.schema, units.to_batches(), formats, description)
    _publish_tables(problem, files, job, release)
    if problem.spec.output.measurements:
        publish_measurements(problem, plan, job, release)
    publish_accuracy(problem, release, formats)


def _publish_labelled(problem: TopDownProblem, files: list[Path], job: Job, release: ReleaseWriter) -> None:
    """The records for Stata and SPSS, where they are asked for. They are held as a whole."""
    explained = problem.output.explained
    formats = [format_ for format_ in LABELLED if format_ in explained.formats]
    if not formats:
        return
    schema = microdata_schema(problem)
    columns = {field.name: (field.metadata or {}).get(b"description", b"").decode() for field in schema}
    with job.progress.stage("Writing records with labels", len(files) + len(formats)) as advance:
        records = pa.Table.from_batches(_records(problem, files, advance), schema=schema)
        for format_ in formats:
            write = partial(
                write_labelled,
                records=records,
                variables=explained.by_name,
                title=problem.strategy.title,
                format_=format_,
            )
            release.foreign(f"{LABELLED[format_]}/{RECORDS}", format_, records.num_rows, columns, write)
            advance(1)


def _records(problem: TopDownProblem, files: list[Path], advance: Advance) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from microdata_batches(problem, pq.read_table(file))
        advance(1)


def _in_layout(
    problem: TopDownProblem, layout: MicrodataLayout, records: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    first = 1
    for batch in records:
        yield of_schema(layout.encode(batch, problem.spec.geography.block, first), layout.schema)
        first += batch.num_rows
    if layout.file.appended is not None:
        units = units_table(problem)
        blocks = units.column(problem.spec.geography.block).combine_chunks()
        times = np.sum([units.column(name).to_numpy() for name in layout.file.appended.frame], axis=0)
        yield from (of_schema(batch, layout.schema) for batch in layout.appended(blocks, times, first))


def _publish_tables(problem: TopDownProblem, files: list[Path], job: Job, release: ReleaseWriter) -> None:
    output, spine = problem.output, problem.frame.spine
    tables, choices = output.tables, problem.spec.output
    crossed = output.explained.crossed.tables
    order = spine.blocks.unit_of_block[problem.spine.rows]
    counts = tabulation.histograms(spine.blocks.units, problem.cells, tabulation.estimated(files, order))
    levels = {name: by_code(spine, name) for name in spine.names}
    tabulator = tabulation.Tabulator(counts, tuple(levels[name] for name in output.levels))
    everywhere = replace(tabulator, levels=tuple(levels.values()))
    with job.progress.stage("Writing tables", len(tables) + len(crossed)) as advance:
        for table in tables:
            release.table(
                table.name, tabulation.table_schema(table), tabulator.batches(table), _readers(problem), table.title
            )
            advance(1)
        for each in crossed:
            rows = partial(each.batches, everywhere, output.axes)
            DescribedTable.of(each.layout, tabulation.FIGURES).publish(release, rows, choices, problem.area_names)
            advance(1)
    publish_areas(release, [(level.name, level.codes) for level in levels.values()], problem.area_names)


def _readers(problem: TopDownProblem) -> list[str]:
    """The formats of records and tables of lines."""
    return [format_ for format_ in problem.spec.output.formats if format_ in problem.spec.output.TABLES]


def by_code(spine: Spine, name: str) -> Geolevel:
    """A level or area with its blocks in the order of their codes, not of the rows of the block table."""
    level = spine.level(name)
    ordered: Integers = np.empty(spine.blocks.units, np.int64)
    ordered[spine.blocks.unit_of_block] = level.unit_of_block
    return replace(level, unit_of_block=ordered)


# What is said to the readers of a release: what each file holds, what is left out, and what figures mean.


PROTECTION = (
    "Records and tables are estimates. They were made from counts with random noise, so that they agree with one "
    "another. The certificate states what this promises to everybody in the data."
)
NOTES = (
    "tables/records.* has a row for each protected record, with the codes of its attributes. codebook.html and "
    "datapackage.json have the labels of the codes.",
    "Everything adds up: totals are the sums of their cells, areas are the sums of their parts, and every table counts "
    "the rows of tables/records.*.",
)
ACCURACY_NOTE = (
    "How far a figure is from the true one is not published. How far it may be off is: accuracy.html and accuracy.* "
    "have the margin and the expected error by kind of area, table and size of the figure, from the public plan alone. "
    "Figures of large areas and totals are relatively closer to the truth than those of small areas and rare groups."
)
LINES_NOTE = (
    "Tables of lines ({}) have a column for each line, such as {}. Its description in codebook.html and "
    "datapackage.json says whom the line counts."
)
ZEROS_NOTE = (
    f"On a level where a table would have more than {tabulation.ROWS_WITH_ZEROS:,} rows, cells that are not listed are "
    "zero; totals of areas are always listed. That is so here: {}."
)
LEFT_OUT_NOTE = (
    "Left out, since a table would have too many rows there: {}. The figures can be counted from tables/records.*."
)
UNKNOWN = (
    "how far TopDown moved a figure is not published with a release; accuracy.html says how far figures are off on "
    "average, and `confide infer` gives margins"
)


def codebook(manifest: Mapping[str, Any]) -> Codebook:
    """What the files of a release hold."""
    facts = manifest["plan"]["question"]
    output = Output.from_dict(facts["output"])
    explained = output.explained
    tables = tuple(DescribedTable.of(table.layout, tabulation.FIGURES) for table in explained.crossed.tables)
    notes = [*NOTES, ACCURACY_NOTE]
    if output.tables:
        names = ", ".join(f"tables/{table.name}.*" for table in output.tables)
        notes.append(LINES_NOTE.format(names, output.tables[0].columns[0]))
    return Codebook(
        tables,
        explained.units,
        explained.formats,
        explained.companions["agency"],
        PROTECTION,
        (*notes, *_bounded(explained.crossed)),
        files=(*_files(facts, output), *described_files(manifest)),
        consistent=True,
        area_names=explained.area_names is not None,
        pages={PAGE: accuracy_page},
    )


def _bounded(crossed: tabulation.CrossedTables) -> Iterator[str]:
    """What is not listed, and what is left out."""
    sparse = [
        f"{table.layout.name} ({', '.join(levels)})"
        for table in crossed.tables
        if (levels := [level for level in table.layout.levels if level not in table.with_zeros])
    ]
    if sparse:
        yield ZEROS_NOTE.format("; ".join(sparse))
    if crossed.left_out:
        yield LEFT_OUT_NOTE.format("; ".join(f"{each.title} ({', '.join(each.levels)})" for each in crossed.left_out))


def _files(facts: Mapping[str, Any], output: Output) -> Iterator[DescribedFile]:
    """The files that have columns of their own."""
    block = str(facts["layout"]["block"])
    members = [
        DescribedColumn(
            variable.name,
            "integer" if isinstance(output.axes[variable.name][0], int) else "string",
            "member",
            variable,
        )
        for variable in output.explained.attributes
    ]
    place = DescribedColumn(block, "string", "area")
    yield DescribedFile(f"tables/{RECORDS}", "Protected records, one row each", (place, *members))
    if output.microdata is not None:
        lines = tuple(_plain(column) for column in output.microdata.schema)
        yield DescribedFile(f"tables/{MDF}", f"The same records: {output.microdata.file.title}", lines)
    areas: Sequence[str] = facts["areas"]
    places = [
        place,
        *(DescribedColumn(name, "string", "area", gaps=name in areas) for name in (*facts["levels"][:-1], *areas)),
        *(DescribedColumn(name, "integer", "figure") for name in facts["frame_columns"]),
    ]
    title = f"What the frame says of every {facts['levels'][-1]}: codes of its units and areas, and public counts"
    yield DescribedFile(f"tables/{UNITS}", title, tuple(places), (block,))
    for table in output.tables:
        first, second, *lines_of = tabulation.table_schema(table)
        columns = [
            DescribedColumn(first.name, "string", "level"),
            DescribedColumn(second.name, "string", "area"),
            *map(_plain, lines_of),
        ]
        yield DescribedFile(f"tables/{table.name}", table.title, tuple(columns), (first.name, second.name))


def _plain(column: pa.Field) -> DescribedColumn:
    return DescribedColumn(column.name, "integer" if pa.types.is_integer(column.type) else "string", "figure")


class TopDownExplained(Explanation):
    """What releases of records say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:
        return codebook(manifest)

    def figure_noise(self, manifest: Mapping[str, Any]) -> str:  # noqa: ARG002
        return UNKNOWN

    def contents(self, plan: Plan) -> str:
        return f"records estimated from at most {plan.counts:,} noisy counts"
