"""What is written: records, the same in another layout, tables of them, and what the frame says of every block.

Everything is made of the estimates of the blocks and of public knowledge. The rows are streamed; the largest thing held
is the sparse histogram of all blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines.protocol import Advance
from confide.geography import Geolevel, Spine
from confide.runs.mechanism import Job
from confide.runs.plan import Plan
from confide.runs.release import ReleaseWriter
from confide.topdown.measurements.writing import publish_measurements
from confide.topdown.output.layouts import Layout
from confide.topdown.output.microdata import microdata_batches, microdata_schema, units_table
from confide.topdown.output.settings import MDF, RECORDS, UNITS
from confide.topdown.output.tabulating import Tabulator, estimated, histograms, table_schema
from confide.topdown.question import Integers, Question


def publish(question: Question, plan: Plan, job: Job, release: ReleaseWriter) -> None:
    """Every table of the release."""
    files = sorted((job.workspace.measured / question.spine.names[-1]).glob("*.parquet"))
    formats, title = question.spec.output.formats, question.strategy.title
    with job.progress.stage("Writing records", len(files)) as advance:
        batches = _records(question, files, advance)
        release.table(RECORDS, microdata_schema(question), batches, formats, f"{title}: protected records")
    layout = question.output.microdata
    if layout is not None:
        with job.progress.stage(f"Writing {layout.file.id}", len(files)) as advance:
            lines = _in_layout(question, layout, _records(question, files, advance))
            release.table(MDF, layout.schema, lines, formats, layout.file.title)
    known = units_table(question)
    told = "What the frame says of every block: its units, its areas, and the counts that the records keep to"
    release.table(UNITS, known.schema, known.to_batches(), formats, told)
    if question.output.tabulation is not None:
        _publish_tables(question, files, job, release)
    if question.spec.output.measurements:
        publish_measurements(question, plan, job, release)


def _records(question: Question, files: list[Path], advance: Advance) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from microdata_batches(question, pq.read_table(file))
        advance(1)


def _in_layout(question: Question, layout: Layout, records: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    first = 1
    for batch in records:
        yield layout.encode(batch, question.spec.geography.block, first)
        first += batch.num_rows
    if layout.file.appended is not None:
        known = units_table(question)
        blocks = known.column(question.spec.geography.block).combine_chunks()
        times = np.sum([known.column(name).to_numpy() for name in layout.file.appended.frame], axis=0)
        yield from layout.appended(blocks, times, first)


def _publish_tables(question: Question, files: list[Path], job: Job, release: ReleaseWriter) -> None:
    output, spine = question.output, question.frame.spine
    tables = output.tables
    order = spine.blocks.unit_of_block[question.spine.rows]
    counts = histograms(spine.blocks.units, question.cells, estimated(files, order))
    tabulator = Tabulator(counts, tuple(by_code(spine, name) for name in output.levels))
    with job.progress.stage("Writing tables", len(tables)) as advance:
        for table in tables:
            batches = tabulator.batches(table)
            release.table(table.name, table_schema(table), batches, question.spec.output.formats, table.title)
            advance(1)


def by_code(spine: Spine, name: str) -> Geolevel:
    """A level or area with its blocks in the order of their codes, not of the rows of the block table."""
    level = spine.level(name)
    ordered: Integers = np.empty(spine.blocks.units, np.int64)
    ordered[spine.blocks.unit_of_block] = level.unit_of_block
    return replace(level, unit_of_block=ordered)
