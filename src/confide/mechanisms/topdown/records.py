"""What is looked at before a record is counted: the records against schema and frame, and all constraints together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from confide.engines import Engine
from confide.engines.groups import write_parquet
from confide.engines.protocol import cell_index, identifier, literal
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.inputs.records import check_records, column_expressions
from confide.mechanisms.topdown.counted import check_counted, counted_histogram
from confide.mechanisms.topdown.invariant_totals import invariant_level
from confide.mechanisms.topdown.output.publish import units_table
from confide.mechanisms.topdown.problem import Question
from confide.mechanisms.topdown.strategies.constraints import NO_LIMIT, Bound, Side, StructuralZero
from confide.mechanisms.topdown.strategies.strategy import DETAILED
from confide.releases.mechanism import Job

# Records that contradict what is publicly known: of a kind that their block cannot have, or that nobody can be.
#
# Constraints come from the frame and the strategy and hold in every estimate, so such records cannot be where they
# say. They are not refused, since a census has some; the curator is told of them, by row.


ROWS_NAMED = 5


def contradictions(question: Question, engine: Engine, units: Path) -> list[Finding]:
    """A warning for each constraint that some record breaks by itself. ``units`` has the frame's counts by block."""
    block = question.spec.geography.block
    read = column_expressions(engine, question.records, question.strategy.schema.attributes, block)
    constraints = question.strategy.constraints
    asked = {zero.name: _impossible(zero, read) for zero in constraints.zeros}
    asked |= {b.name: _without_units(b, read, block) for b in constraints.bounds if b.side is Side.UPPER}
    findings = []
    for name, condition in asked.items():
        rows = engine.first_rows(question.records, condition, ROWS_NAMED, units=units)
        if rows:
            findings.append(_finding(question, name, rows))
    return findings


def _impossible(zero: StructuralZero, read: dict[str, str]) -> str:
    return " AND ".join(f"{read[name]} IN ({', '.join(map(literal, codes))})" for name, codes in zero.where.items())


def _without_units(bound: Bound, read: dict[str, str], block: str) -> str:
    """A record of a group in a block where the frame counts nothing that such a record could live in."""
    attribute = read[bound.variable.attribute.name]
    cases = []
    for group, column in bound.frame.items():
        codes = ", ".join(map(literal, bound.variable.groups[group].codes))
        nothing = f"SELECT {identifier(block)} FROM units WHERE {identifier(column)} = 0"
        cases.append(f"({attribute} IN ({codes}) AND {read[block]} IN ({nothing}))")
    return " OR ".join(cases)


def _finding(question: Question, name: str, rows: list[int]) -> Finding:
    shown = ", ".join(f"{row:,}" for row in rows)
    return Finding(
        code="record-against-frame",
        what=f"a record is of a kind that {name!r} rules out where it lies (the first such rows: {shown})",
        where=Place(file=question.records.file, row=rows[0]),
        found=CONFIDENTIAL,
        expected="records that keep the constraints of the strategy",
        remedy="correct the records or the block table; left as they are, such records count as others in the estimate",
        severity="warning",
    )


# Whether anything can keep all constraints: looked at before a run, so that nothing is spent on settings that clash.
#
# Limits come from the frame, block by block, and add up; an invariant number of records comes from the records. They
# can be kept together if
#
# * in every block the least count of each group is at most the largest;
# * in every component with a known total (``invariant_totals``) that total lies between the sums.
#
# A parent keeps the sums of its children's limits, so below it there is always a solution
# (``docs/proofs/topdown.md``, section 5).


Integers = NDArray[np.int64]


def clashes_in_blocks(question: Question) -> Iterator[Finding]:
    """Limits that no table of some block can keep. The frame is public, so its rows are named."""
    for name, (least, largest) in question.limits(question.spine.levels[-1]).items():
        wrong = np.flatnonzero((least > largest).any(axis=1))
        if len(wrong):
            yield _finding_feasible(question, wrong, question.strategy.constraints.named(name))


def clashes_with_totals(question: Question, totals: Integers) -> Iterator[Finding]:
    """Known numbers of records, by official unit of the invariant's level, that the limits leave no room for."""
    lowest = invariant_level(question.strategy)
    if lowest is None:
        return
    official = question.spine.official_of_block(lowest)
    names = ", ".join(
        repr(i.name) for i in question.strategy.constraints.invariants if i.level == lowest and not i.frame
    )
    for name, (least, largest) in question.limits(question.spine.levels[-1]).items():
        low, high = np.zeros(len(totals)), np.zeros(len(totals))
        np.add.at(low, official, least.sum(axis=1))
        np.add.at(high, official, np.where(largest == NO_LIMIT, np.inf, largest).sum(axis=1))
        wrong = int(((totals < low) | (totals > high)).sum())
        if wrong:
            yield Finding(
                code="constraints-clash",
                what=f"{names} and {question.strategy.constraints.named(name)} cannot be kept together",
                where=Place(file=question.records.file),
                found=f"{wrong:,} of {len(totals):,} units of {lowest!r} with fewer or more records than the limits of "
                f"their blocks allow: {CONFIDENTIAL}",
                expected="as many records as the frame has room for",
                remedy="correct the records or the block table, or loosen one of the constraints",
            )


def _finding_feasible(question: Question, blocks: Integers, names: str) -> Finding:
    rows = np.sort(question.spine.rows[blocks]) + 1
    shown = ", ".join(f"{row:,}" for row in rows[:ROWS_NAMED].tolist())
    return Finding(
        code="constraints-clash",
        what=f"{names} cannot be kept in {len(blocks):,} blocks (the first such rows: {shown})",
        where=Place(file=question.blocks_file, row=int(rows[0])),
        found="a count that must be larger than it may be",
        expected="constraints that some table keeps",
        remedy="correct the block table, or drop or loosen one of the constraints",
    )


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


# Before a record is counted: does it fit, and can all constraints be kept?
