"""Records that come counted: one row for each block, a column for each kind of record.

Housing units are such records: the block table of an office says how many there are and how many are occupied, and no
file has one row for each. The counts are as confidential as rows would be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from confide.engines import Engine, Source
from confide.engines.protocol import identifier
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.inputs.frame import missing_columns, wrong_code_types
from confide.mechanisms.topdown.spec import CountedPart, TopDownSpec
from confide.mechanisms.topdown.strategies.strategy import Strategy
from confide.releases.spec import KeyPath, LoadedSpec

ROWS_NAMED = 5


def check_kinds(loaded: LoadedSpec, spec: TopDownSpec, strategy: Strategy) -> Iterator[Finding]:
    """What is wrong with the kinds of record that a spec says are counted."""
    attributes = {attribute.name: attribute for attribute in strategy.schema.attributes}
    seen: list[dict[str, int | str]] = []
    for position, part in enumerate(spec.data.counted):
        at: KeyPath = ("data", "counted", position, "where")
        wrong = [name for name, code in part.where.items() if code not in getattr(attributes.get(name), "index", {})]
        lacking = [name for name in attributes if name not in part.where]
        if wrong or lacking or part.where in seen:
            yield Finding(
                code="counted-kind",
                what="this is not one kind of record, or it is counted twice",
                where=loaded.place(*at),
                found=", ".join(f"{name} = {code!r}" for name, code in part.where.items()) or "nothing",
                expected="a code for each of " + ", ".join(attributes) + ", and each combination at most once",
                remedy="correct the kinds under [data] counted",
            )
        seen.append(part.where)


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
    block = spec.geography.block
    findings = missing_columns(engine, source, [block, *names], confidential=True)
    if findings:
        return findings
    findings = wrong_code_types(engine, source, [block]) + list(_wrong_types(engine, source, names))
    if findings:
        return findings
    read = _block(source, spec)
    known = f"{read} IS NOT NULL AND {read} IN (SELECT code FROM frame)"
    twice = f"{read} IN (SELECT {read} FROM records GROUP BY 1 HAVING count(*) > 1)"
    rules = {
        f"NOT ({known})": ("counts are of a block that the frame lacks", block, "a block of the frame"),
        twice: ("a block has more than one row", block, "one row for each block"),
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
            findings.append(_bad_rows(source, column, what, expected, rows))
    return findings


def _block(source: Source, spec: TopDownSpec) -> str:
    return f"CAST({identifier(source.theirs(spec.geography.block))} AS VARCHAR)"


def _whole(engine: Engine, source: Source, name: str) -> str:
    column = identifier(source.theirs(name))
    return (
        engine.integer_text(column)
        if engine.kinds(source)[source.theirs(name)] == "text"
        else f"CAST({column} AS BIGINT)"
    )


def _count(engine: Engine, source: Source, part: CountedPart) -> str:
    whole = _whole(engine, source, part.column)
    return whole if part.less is None else f"{whole} - {_whole(engine, source, part.less)}"


def _wrong_types(engine: Engine, source: Source, names: list[str]) -> Iterator[Finding]:
    kinds = engine.kinds(source)
    for name in names:
        if kinds[source.theirs(name)] == "other":
            yield Finding(
                code="column-type",
                what="the column's type cannot hold counts",
                where=Place(file=source.file, column=source.theirs(name)),
                found="a column of floating-point numbers or of another type that is no whole number",
                expected="whole numbers",
                remedy="write the column with the right type",
            )


def _bad_rows(source: Source, name: str, what: str, expected: str, rows: list[int]) -> Finding:
    shown = ", ".join(f"{row:,}" for row in rows)
    return Finding(
        code="bad-record",
        what=f"{what} (the first such rows: {shown})",
        where=Place(file=source.file, column=source.theirs(name), row=rows[0]),
        found=CONFIDENTIAL,
        expected=expected,
        remedy="correct the records, or the frame if that is wrong",
    )
