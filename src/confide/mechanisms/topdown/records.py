"""What is looked at before a record is counted: the records against schema and frame, and all constraints together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.engines.protocol import Engine, Source, cell_index, identifier, literal, write_parquet
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.inputs.frame import column_text, missing_columns, wrong_code_types
from confide.inputs.records import check_records, column_expressions
from confide.mechanisms.topdown.constraints import NO_LIMIT, FrameBound, Side, StructuralZero, invariant_level
from confide.mechanisms.topdown.output.publish import units_table
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spec import CountedPart, TopDownSpec
from confide.mechanisms.topdown.strategy import Strategy
from confide.releases import Job, in_plural
from confide.schema import DETAILED

# Records that come counted: one row for each block, a column for each kind of record.
#
# Housing units are such records: the block table of an office says how many there are and how many are occupied, and no
# file has one row for each. The counts are as confidential as rows would be.


ROWS_NAMED = 5


def counted_histogram(engine: Engine, source: Source, spec: TopDownSpec, strategy: Strategy, into: Path) -> None:
    """The histogram of every block, as ``code``, ``cell`` and ``n``, where anything is counted."""
    attributes = strategy.schema.attributes
    shape = tuple(attribute.size for attribute in attributes)
    selects = []
    for part in spec.data.counted:
        index = tuple(attribute.index[part.where[attribute.name]] for attribute in attributes)
        cell, count = int(np.ravel_multi_index(index, shape)), _count(engine, source, part)
        block = _block(source, spec)
        selects.append(f"SELECT {block} AS code, CAST({cell} AS BIGINT) AS cell, {count} AS n FROM records")
    union = " UNION ALL ".join(selects)
    engine.write(f"SELECT code, cell, n FROM ({union}) AS counted WHERE n > 0 ORDER BY 1, 2", into, records=source)


def check_counted(engine: Engine, source: Source, spec: TopDownSpec, frame: Path) -> list[Finding]:
    """Every problem of counted records. ``frame`` is a Parquet file of ours with the column ``code`` of all blocks."""
    parts = spec.data.counted
    names = sorted({part.column for part in parts} | {part.less for part in parts if part.less is not None})
    block, smallest = spec.geography.block, spec.geography.smallest
    findings = missing_columns(engine, source, [block, *names], confidential=True)
    if findings:
        return findings
    findings = wrong_code_types(engine, source, [block]) + list(_wrong_types(engine, source, names))
    if findings:
        return findings
    read = _block(source, spec)
    in_frame = f"{read} IS NOT NULL AND {read} IN (SELECT code FROM frame)"
    twice = f"{read} IN (SELECT {read} FROM records GROUP BY 1 HAVING count(*) > 1)"
    rules = {
        f"NOT ({in_frame})": (f"counts are of a {smallest} that the block table lacks", block, f"a {smallest} of it"),
        twice: (f"a {smallest} has more than one row", block, f"one row for each {smallest}"),
    }
    for name in names:
        value = _whole(engine, source, name)
        rules[f"({value}) IS NULL OR ({value}) < 0"] = ("a count is no whole number of at least zero", name, "0, 1, 2")
    for part in parts:
        if part.less is not None:
            what = f"a count is less than {source.theirs(part.less)!r}, which is to be taken off it"
            rules[f"({_count(engine, source, part)}) < 0"] = (what, part.column, "a count that leaves zero or more")
    for condition, (what, column, expected) in rules.items():
        rows = engine.first_rows(source, condition, ROWS_NAMED, frame=frame, records=source)
        if rows:
            findings.append(
                Finding.of(
                    "bad-record/frame",
                    where=Place(file=source.file, column=source.theirs(column), row=rows[0]),
                    found=CONFIDENTIAL,
                    what=what,
                    row_list=", ".join(f"{row:,}" for row in rows),
                    expected=expected,
                )
            )
    return findings


def _block(source: Source, spec: TopDownSpec) -> str:
    return column_text(source, spec.geography.block)


def _whole(engine: Engine, source: Source, name: str) -> str:
    column = identifier(source.theirs(name))
    return (
        engine.integer_text(column)
        if engine.kinds(source)[source.theirs(name)] == "text"
        else f"CAST({column} AS BIGINT)"
    )


def _count(engine: Engine, source: Source, part: CountedPart) -> str:
    count = _whole(engine, source, part.column)
    return count if part.less is None else f"{count} - {_whole(engine, source, part.less)}"


def _wrong_types(engine: Engine, source: Source, names: list[str]) -> Iterator[Finding]:
    kinds = engine.kinds(source)
    for name in names:
        if kinds[source.theirs(name)] == "other":
            yield Finding.of("column-type/counts", where=Place(file=source.file, column=source.theirs(name)))


# Records that contradict what is publicly known: of a kind that their block cannot have, or that nobody can be.
#
# Constraints come from the frame and the strategy and hold in every estimate, so such records cannot be where they
# say. They are not refused, since a census has some; a warning lists them for the curator, by row.


def contradictions(problem: TopDownProblem, engine: Engine, units: Path) -> list[Finding]:
    """A warning for each constraint that some record breaks by itself. ``units`` has the frame's counts by block."""
    block = problem.spec.geography.block
    read = column_expressions(engine, problem.records, problem.strategy.schema.attributes, block)
    constraints = problem.strategy.constraints
    conditions = {zero.name: _impossible(zero, read) for zero in constraints.zeros}
    conditions |= {b.name: _without_units(b, read, block) for b in constraints.bounds if b.side is Side.UPPER}
    findings = []
    for name, condition in conditions.items():
        rows = engine.first_rows(problem.records, condition, ROWS_NAMED, units=units)
        if rows:
            findings.append(
                Finding.of(
                    "record-against-frame",
                    where=Place(file=problem.records.file, row=rows[0]),
                    found=CONFIDENTIAL,
                    severity="warning",
                    name=name,
                    row_list=", ".join(f"{row:,}" for row in rows),
                )
            )
    return findings


def _impossible(zero: StructuralZero, read: dict[str, str]) -> str:
    return " AND ".join(f"{read[name]} IN ({', '.join(map(literal, codes))})" for name, codes in zero.where.items())


def _without_units(bound: FrameBound, read: dict[str, str], block: str) -> str:
    """A record of a group in a block where the frame counts nothing that such a record could live in."""
    attribute = read[bound.variable.attribute.name]
    cases = []
    for group, column in bound.frame.items():
        codes = ", ".join(map(literal, bound.variable.groups[group].codes))
        nothing = f"SELECT {identifier(block)} FROM units WHERE {identifier(column)} = 0"
        cases.append(f"({attribute} IN ({codes}) AND {read[block]} IN ({nothing}))")
    return " OR ".join(cases)


# Whether anything can keep all constraints: looked at before a run, so that nothing is spent on settings that clash.
#
# Limits come from the frame, block by block, and add up; an invariant number of records comes from the records. They
# can be kept together if
#
# * in every block the least count of each group is at most the largest, which is zero where structural zeros leave
#   nobody in the group;
# * in every component with a known total (``invariant_totals``) that total lies between the sums.
#
# A parent keeps the sums of its children's limits, so below it there is always a solution; with totals known below the
# root, the descent takes limits that leave room for them (``docs/proofs/topdown.md``, section 5).


def clashes_in_blocks(problem: TopDownProblem) -> Iterator[Finding]:
    """Limits that no table of some block can keep. The frame is public, so its rows are named."""
    constraints = problem.strategy.constraints
    for name, (least, largest) in problem.limits(problem.spine.levels[-1]).items():
        wrong = np.flatnonzero((least > largest).any(axis=1))
        if len(wrong):
            asked = "a count that must be larger than it may be"
            yield _finding_feasible(problem, wrong, constraints.named(name), asked)
        forbidden = np.flatnonzero((least[:, problem.impossible(name)] > 0).any(axis=1))
        if len(forbidden):
            zeros = ", ".join(repr(zero.name) for zero in constraints.zeros)
            asked = f"records of a kind that structural zeros forbid: {zeros}"
            yield _finding_feasible(problem, forbidden, constraints.named(name), asked)


def clashes_with_totals(problem: TopDownProblem, totals: Integers) -> Iterator[Finding]:
    """Known numbers of records, by official unit of the invariant's level, that the limits leave no room for."""
    lowest = invariant_level(problem.strategy)
    if lowest is None:
        return
    official = problem.spine.official_of_block(lowest)
    names = ", ".join(
        repr(i.name) for i in problem.strategy.constraints.invariants if i.level == lowest and not i.frame
    )
    for name, (least, largest) in problem.limits(problem.spine.levels[-1]).items():
        largest = np.where(problem.impossible(name), 0, largest)
        low, high = np.zeros(len(totals)), np.zeros(len(totals))
        np.add.at(low, official, least.sum(axis=1))
        np.add.at(high, official, np.where(largest == NO_LIMIT, np.inf, largest).sum(axis=1))
        wrong = int(((totals < low) | (totals > high)).sum())
        if wrong:
            yield Finding.of(
                "constraints-clash/together",
                where=Place(file=problem.records.file),
                names=names,
                name=problem.strategy.constraints.named(name),
                wrong=wrong,
                totals=len(totals),
                lowest=lowest,
                confidential=CONFIDENTIAL,
            )


def _finding_feasible(problem: TopDownProblem, blocks: Integers, names: str, asked: str) -> Finding:
    rows = np.sort(problem.spine.rows[blocks]) + 1
    row_list = ", ".join(f"{row:,}" for row in rows[:ROWS_NAMED].tolist())
    return Finding.of(
        "constraints-clash/first",
        where=Place(file=problem.blocks_file, row=int(rows[0])),
        found=asked,
        names=names,
        problem=_places(problem, len(blocks)),
        row_list=row_list,
    )


def _places(problem: TopDownProblem, number: int) -> str:
    """So many of the smallest places, in the office's word for them."""
    word = problem.spec.geography.smallest
    return in_plural(number, word) if word == "block" else f"{number:,} units of {word!r}"


HISTOGRAM = "histogram.parquet"


def unit_column(problem: TopDownProblem, level: str) -> str:
    """The column of the frame with the units of a level: the smallest places have ``unit_block``, whatever the office
    calls them."""
    return "unit_block" if level == problem.spine.names[-1] else f"unit_{level}"


def check_input(problem: TopDownProblem, job: Job, frame: Path) -> list[Finding]:
    """Every problem of the records. ``frame`` has all blocks with their units on the spine (-1: not on it)."""
    clashes = list(clashes_in_blocks(problem))
    (job.workspace.scratch / HISTOGRAM).unlink(missing_ok=True)  # of a check that died, and maybe of other records
    spec, engine = problem.spec, job.engine
    block, attributes = spec.geography.block, problem.strategy.schema.attributes
    if spec.data.counted:
        findings = check_counted(engine, problem.records, spec, frame)
    else:
        findings = check_records(engine, problem.records, attributes, block, problem.frame.spine, frame)
    if clashes or findings:
        return clashes + findings
    if not spec.data.counted:
        read = column_expressions(engine, problem.records, attributes, block)[block]
        outside = f"{read} IN (SELECT code FROM frame WHERE unit_block < 0)"
        rows = engine.first_rows(problem.records, outside, 5, frame=frame)
        if rows:
            return [
                Finding.of(
                    "bad-record/housing",
                    where=Place(
                        file=problem.records.file,
                        column=problem.records.theirs(problem.spec.geography.block),
                        row=rows[0],
                    ),
                    found=CONFIDENTIAL,
                    smallest=problem.spec.geography.smallest,
                    row_list=", ".join(f"{row:,}" for row in rows),
                )
            ]
        units = job.workspace.scratch / "units.parquet"
        write_parquet(units_table(problem), units)
        findings = contradictions(problem, engine, units)
    return findings + _against_counts(problem, job, frame) + frame_columns_that_tell(problem, job, frame)


def write_histogram(problem: TopDownProblem, engine: Engine, into: Path) -> None:
    """One histogram for each block: ``code``, ``cell`` and ``n``."""
    if problem.spec.data.counted:
        counted_histogram(engine, problem.records, problem.spec, problem.strategy, into)
        return
    block = problem.spec.geography.block
    columns = column_expressions(engine, problem.records, problem.strategy.schema.attributes, block)
    keys = {"code": columns[block], "cell": cell_index(problem.strategy.query(DETAILED), columns)}
    engine.count_by(problem.records, keys, into)


def number_of_records(problem: TopDownProblem, engine: Engine) -> int:
    """How many records there are. A neighbour of the data has as many, so that this is protected by nothing."""
    parts = problem.spec.data.counted
    wide = "DECIMAL(38, 0)"  # numbers of this size do not overflow
    counts = (f"coalesce(sum(CAST({_count(engine, problem.records, part)} AS {wide})), 0)" for part in parts)
    number = " + ".join(counts) if parts else "count(*)"
    rows = engine.sql(f"SELECT {number} AS n FROM records", records=problem.records)
    return int(rows.reveal("to know whether the disk can hold the release").column("n")[0].as_py())


def _against_counts(problem: TopDownProblem, job: Job, frame: Path) -> list[Finding]:
    """Constraints that need counts of records: invariants that the frame tells, and known totals against limits."""
    frame_invariants = [i for i in problem.strategy.constraints.invariants if i.query is not None and i.frame]
    lowest = invariant_level(problem.strategy)
    if not frame_invariants and lowest is None:
        return []
    histogram = _histogram_of_check(problem, job)
    findings = []
    for invariant in frame_invariants:
        assert invariant.query is not None
        rows = job.engine.sql(
            "SELECT frame.unit_block AS unit, histogram.cell AS cell, histogram.n AS n "
            "FROM histogram JOIN frame ON histogram.code = frame.code",
            histogram=histogram,
            frame=frame,
        ).reveal("records against the frame")
        unit, cell, count = (rows.column(name).to_numpy() for name in ("unit", "cell", "n"))
        frame_counts = np.stack([problem.columns[name] for name in invariant.frame], axis=1)
        record_counts = np.zeros((len(frame_counts) + 1, frame_counts.shape[1]), np.int64)
        np.add.at(record_counts, (unit, problem.groups(invariant.query)[cell]), count)
        broken = int((record_counts[:-1] != frame_counts).any(axis=1).sum()) + int(record_counts[-1].any())
        if broken:
            findings.append(
                Finding.of(
                    "invariant-broken",
                    where=Place(file=problem.records.file),
                    found=CONFIDENTIAL,
                    problem=_places(problem, broken),
                    name=invariant.name,
                    columns=", ".join(invariant.frame),
                )
            )
    if lowest is not None:
        official = problem.spine.official_of_block(lowest)
        totals = np.zeros(problem.frame.spine.level(lowest).units, np.int64)
        by_block = job.engine.sql(
            "SELECT frame.unit_block AS unit, CAST(sum(histogram.n) AS BIGINT) AS n "
            "FROM histogram JOIN frame ON histogram.code = frame.code GROUP BY 1",
            histogram=histogram,
            frame=frame,
        ).reveal("an invariant is no secret")
        unit, count = (by_block.column(name).to_numpy() for name in ("unit", "n"))
        np.add.at(totals, official[unit[unit >= 0]], count[unit >= 0])
        findings += clashes_with_totals(problem, totals)
    return findings


def _histogram_of_check(problem: TopDownProblem, job: Job) -> Path:
    """The histogram of every block, written once for all that a check asks of it."""
    histogram = job.workspace.scratch / HISTOGRAM
    if not histogram.exists():
        write_histogram(problem, job.engine, histogram)
    return histogram


# Columns of the block table that are no public knowledge: they count the records.
#
# What the frame says of a block is published as it is, in the table ``units``, and bounds its estimates. Group quarters
# are public where facilities are counted, or beds. Where a column counts the persons of the census in them, publishing
# it would tell the truth block by block, whatever the noise. So every column is held against the number of records that
# it is tied to by a bound, and against that of all records, and refused if the two agree nearly everywhere.
#
# Most blocks have neither, and a column of zeros and ones tells presence alone: both say nothing, so the blocks that
# count are those where column or records reach :data:`LEAST_TELLING`. Equal small numbers may be chance, equal large
# ones are not: an agreement weighs 1, 2 or 3 from the sizes in :data:`WEIGHTS` on, and at least 3 are asked for.


LEAST_TELLING = 2
"""A smaller count is presence."""
NEARLY_EVERYWHERE = (4, 5)
"""So many of the blocks that count: 4 in 5."""
WEIGHTS = (2, 4, 8)
LEAST_WEIGHT = 3
"""Three blocks with a few, or one with eight or more."""


def agrees_nearly_everywhere(column: Integers, records: Integers) -> bool:
    """Whether a column of the block table is, but for a few blocks, the number of records of each block.

    Args:
        column: What the frame counts, block by block.
        records: What the records count there: confidential.

    >>> agrees_nearly_everywhere(np.array([0, 0, 250, 1]), np.array([0, 0, 250, 3]))
    False
    >>> agrees_nearly_everywhere(np.array([0, 0, 250, 1]), np.array([0, 0, 250, 1]))
    True
    """
    counting = np.maximum(column, records) >= LEAST_TELLING
    equal = counting & (column == records)
    part, of = NEARLY_EVERYWHERE
    weight = int(np.searchsorted(WEIGHTS, column[equal], side="right").sum())
    return weight >= LEAST_WEIGHT and int(equal.sum()) * of >= int(counting.sum()) * part


def frame_columns_that_tell(problem: TopDownProblem, job: Job, frame: Path) -> list[Finding]:
    """Columns of the block table that agree nearly everywhere with a number of records that is not public.

    Those of an invariant that the frame states are the number of records by intention. Columns whose presence alone
    is used are zeros and ones, which tell no more.
    """
    constraints = problem.strategy.constraints
    published = {column for i in constraints.invariants if i.query is not None for column in i.frame}
    columns = [name for name in problem.columns if name not in published]
    groups = {
        (bound.variable.name, group, column): bound.variable.labels[group]
        for bound in constraints.bounds
        for group, column in bound.frame.items()
    }
    if invariant_level(problem.strategy) != problem.spine.names[-1]:
        groups |= {("total", 0, column): "" for column in columns}
    findings: dict[str, Finding] = {}
    counted: dict[str, Integers] = {}
    for (query, group, column), label in groups.items():
        if column in columns and column not in findings:
            if query not in counted:
                counted[query] = _records_by_block(problem, job, frame, query)
            if agrees_nearly_everywhere(problem.columns[column], counted[query][:, group]):
                findings[column] = Finding.of(
                    "frame-tells-records",
                    where=Place(
                        file=problem.blocks_file,
                        column=(problem.spec.data.columns | problem.spec.data.block_columns).get(column, column),
                    ),
                    found=CONFIDENTIAL,
                    label=label,
                    smallest=problem.spec.geography.smallest,
                    column=column,
                )
    return list(findings.values())


def _records_by_block(problem: TopDownProblem, job: Job, frame: Path, query: str) -> Integers:
    """How many records each block has in each cell of a query: blocks x cells."""
    cells = problem.groups(query)
    assigned = job.workspace.scratch / "assigned.parquet"
    write_parquet(pa.table({"cell": np.arange(len(cells)), "number": cells}), assigned)
    rows = job.engine.sql(
        "SELECT frame.unit_block AS unit, assigned.number AS number, CAST(sum(histogram.n) AS BIGINT) AS n "
        "FROM histogram JOIN frame ON histogram.code = frame.code JOIN assigned ON histogram.cell = assigned.cell "
        "WHERE frame.unit_block >= 0 AND assigned.number >= 0 GROUP BY 1, 2",
        histogram=_histogram_of_check(problem, job),
        frame=frame,
        assigned=assigned,
    ).reveal("columns of the frame against the records")
    unit, number, count = (rows.column(name).to_numpy() for name in ("unit", "number", "n"))
    result = np.zeros((len(problem.spine.rows), problem.strategy.query(query).cells), np.int64)
    result[unit, number] = count
    return result
