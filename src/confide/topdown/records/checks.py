"""What is looked at before a record is counted: the records against schema and frame, and all constraints together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from confide.engines import Engine
from confide.engines.expressions import cell_index
from confide.engines.groups import write_parquet
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.inputs.records import check_records, column_expressions
from confide.runs.mechanism import Job
from confide.topdown.output.microdata import units_table
from confide.topdown.question import Question
from confide.topdown.records.contradictions import contradictions
from confide.topdown.records.counted import check_counted, counted_histogram
from confide.topdown.records.feasible import clashes_in_blocks, clashes_with_totals
from confide.topdown.records.invariant_totals import invariant_level
from confide.topdown.strategies.strategy import DETAILED


def check_input(question: Question, job: Job, frame: Path) -> list[Finding]:
    """Every problem of the records. ``frame`` has all blocks with their units on the spine (-1: not on it)."""
    clashes = list(clashes_in_blocks(question))
    spec, engine = question.spec, job.engine
    block, attributes = spec.geography.block, question.strategy.schema.attributes
    if spec.data.counted:
        findings = check_counted(engine, question.records, spec, frame)
    else:
        findings = check_records(engine, question.records, attributes, block, question.frame.spine, frame)
    if clashes or findings:
        return clashes + findings
    if not spec.data.counted:
        read = column_expressions(engine, question.records, attributes, block)[block]
        outside = f"{read} IN (SELECT code FROM frame WHERE unit_block < 0)"
        rows = engine.first_rows(question.records, outside, 5, frame=frame)
        if rows:
            return [_nowhere_to_live(question, rows)]
        units = job.workspace.scratch / "units.parquet"
        write_parquet(units_table(question), units)
        findings = contradictions(question, engine, units)
    return findings + _against_counts(question, job, frame)


def write_histogram(question: Question, engine: Engine, into: Path) -> None:
    """One histogram for each block: ``code``, ``cell`` and ``n``."""
    if question.spec.data.counted:
        counted_histogram(engine, question.records, question.spec, question.strategy, into)
        return
    block = question.spec.geography.block
    columns = column_expressions(engine, question.records, question.strategy.schema.attributes, block)
    keys = {"code": columns[block], "cell": cell_index(question.strategy.query(DETAILED), columns)}
    engine.count_by(question.records, keys, into)


def _against_counts(question: Question, job: Job, frame: Path) -> list[Finding]:
    """Constraints that need counts of records: invariants that the frame tells, and known totals against limits."""
    told = [i for i in question.strategy.constraints.invariants if i.query is not None and i.frame]
    lowest = invariant_level(question.strategy)
    if not told and lowest is None:
        return []
    histogram = job.workspace.scratch / "histogram.parquet"
    write_histogram(question, job.engine, histogram)
    findings = []
    for invariant in told:
        assert invariant.query is not None
        rows = job.engine.sql(
            "SELECT frame.unit_block AS unit, histogram.cell AS cell, histogram.n AS n "
            "FROM histogram JOIN frame ON histogram.code = frame.code",
            histogram=histogram,
            frame=frame,
        ).reveal("records against the frame")
        unit, cell, count = (rows.column(name).to_numpy() for name in ("unit", "cell", "n"))
        known = np.stack([question.columns[name] for name in invariant.frame], axis=1)
        found = np.zeros((len(known) + 1, known.shape[1]), np.int64)
        np.add.at(found, (unit, question.groups(invariant.query)[cell]), count)
        broken = int((found[:-1] != known).any(axis=1).sum()) + int(found[-1].any())
        if broken:
            findings.append(_broken_invariant(question, invariant.name, invariant.frame, broken))
    if lowest is not None:
        official = question.spine.official_of_block(lowest)
        totals = np.zeros(question.frame.spine.level(lowest).units, np.int64)
        by_block = job.engine.sql(
            "SELECT frame.unit_block AS unit, CAST(sum(histogram.n) AS BIGINT) AS n "
            "FROM histogram JOIN frame ON histogram.code = frame.code GROUP BY 1",
            histogram=histogram,
            frame=frame,
        ).reveal("an invariant is no secret")
        unit, count = (by_block.column(name).to_numpy() for name in ("unit", "n"))
        np.add.at(totals, official[unit[unit >= 0]], count[unit >= 0])
        findings += clashes_with_totals(question, totals)
    return findings


def _nowhere_to_live(question: Question, rows: list[int]) -> Finding:
    shown = ", ".join(f"{row:,}" for row in rows)
    block = question.spec.geography.block
    return Finding(
        code="bad-record",
        what=f"a record lies in a block where the frame has no unit to live in (the first such rows: {shown})",
        where=Place(file=question.records.file, column=question.records.theirs(block), row=rows[0]),
        found=CONFIDENTIAL,
        expected="a block of the spine: with a housing unit or a group quarters facility",
        remedy="correct the records, or the counts of units in the block table",
    )


def _broken_invariant(question: Question, name: str, columns: tuple[str, ...], blocks: int) -> Finding:
    return Finding(
        code="invariant-broken",
        what=f"{blocks:,} blocks do not have the records that {name!r} says they have",
        where=Place(file=question.records.file),
        found=CONFIDENTIAL,
        expected="as many records as the block table says: " + ", ".join(columns),
        remedy="correct the records or the block table",
    )
