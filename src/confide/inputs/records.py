"""The records: confidential rows. Checks that every one of them fits the schema and the frame, without showing one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from confide.engines import Engine, Source
from confide.engines.expressions import group_index, identifier
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.geography import Spine
from confide.inputs.frame import missing_columns, wrong_code_types
from confide.schema import Attribute, identity

ROWS_NAMED = 5
_CHUNK = 1 << 22


def column_expressions(engine: Engine, source: Source, attributes: Sequence[Attribute], block: str) -> dict[str, str]:
    """For each attribute, and for the block, the SQL that reads it from the source with the type of the schema."""
    kinds = engine.kinds(source)
    result = {block: f"CAST({identifier(source.theirs(block))} AS VARCHAR)"}
    for attribute in attributes:
        column = identifier(source.theirs(attribute.name))
        if not attribute.is_integer:
            result[attribute.name] = f"CAST({column} AS VARCHAR)"
        elif kinds[source.theirs(attribute.name)] == "text":
            result[attribute.name] = engine.integer_text(column)
        else:
            result[attribute.name] = f"CAST({column} AS BIGINT)"
    return result


def check_columns(engine: Engine, source: Source, attributes: Sequence[Attribute], block: str) -> list[Finding]:
    """Every problem of the records' columns. No record is read for it."""
    names = [block, *(attribute.name for attribute in attributes)]
    missing = missing_columns(engine, source, names, confidential=True)
    lacking = {finding.where.column for finding in missing}
    there = [attribute for attribute in attributes if source.theirs(attribute.name) not in lacking]
    wrong = [] if source.theirs(block) in lacking else wrong_code_types(engine, source, [block])
    return missing + wrong + _wrong_types(engine, source, there)


def check_records(
    engine: Engine, source: Source, attributes: Sequence[Attribute], block: str, spine: Spine, frame: Path
) -> list[Finding]:
    """Every problem of the records. ``frame`` is a Parquet file of ours with the column ``code`` of all blocks.

    One scan counts the rows that break each rule; only a broken rule is looked up row by row.
    """
    findings = check_columns(engine, source, attributes, block)
    if findings:
        return findings
    read = column_expressions(engine, source, attributes, block)
    broken = {
        attribute.name: f"({group_index(identity(attribute), read[attribute.name])}) IS NULL"
        for attribute in attributes
    }
    # By position: an attribute may have any name, also one that we would give.
    counted = "".join(
        f"coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) AS attribute_{position}, "
        for position, condition in enumerate(broken.values())
    )
    unknown = f"{read[block]} IS NULL OR {read[block]} NOT IN (SELECT code FROM frame)"
    text = (
        f"SELECT count(*) AS rows_in_all, {counted}"
        f"coalesce(sum(CASE WHEN {unknown} THEN 1 ELSE 0 END), 0) AS unknown_block FROM records"
    )
    counts = engine.sql(text, records=source, frame=frame).reveal("to count rows that break a rule").to_pylist()[0]
    if not counts["rows_in_all"]:
        return [_no_rows(source)]
    for position, attribute in enumerate(attributes):
        if counts[f"attribute_{position}"]:
            rows = engine.first_rows(source, broken[attribute.name], ROWS_NAMED)
            expected = attribute.describe_codes()
            findings.append(_bad_rows(source, attribute.name, "a code is not in the schema", expected, rows))
    if counts["unknown_block"]:
        rows = engine.first_rows(source, unknown, ROWS_NAMED, frame=frame)
        expected = f"one of the {spine.blocks.units:,} blocks of the frame"
        findings.append(_bad_rows(source, block, "a record lies in a block that the frame lacks", expected, rows))
    return findings


def records_fingerprint(path: Path) -> str:
    """SHA-256 of the file of records. Any change of it is a change of the data, and asks for new noise."""
    digest = hashlib.sha256(b"confide/records/v1")
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def blocks_table(spine: Spine) -> pa.Table:
    """The blocks and their unit on every level, as rows for joins: ``code``, ``block`` and one column per level."""
    order = spine.blocks.unit_of_block.argsort()
    columns = {"code": pa.array(spine.blocks.codes), "block": pa.array(range(spine.blocks.units), pa.int64())}
    for level in (*spine.levels[:-1], *spine.areas):
        columns[f"unit_{level.name}"] = pa.array(level.unit_of_block[order], pa.int64())
    return pa.table(columns)


def _wrong_types(engine: Engine, source: Source, attributes: Sequence[Attribute]) -> list[Finding]:
    kinds = engine.kinds(source)
    return [
        Finding(
            code="column-type",
            what="the column's type cannot hold the attribute's codes",
            where=Place(file=source.file, column=source.theirs(attribute.name)),
            found=f"a column of kind {kinds[source.theirs(attribute.name)]!r}",
            expected="whole numbers" if attribute.is_integer else "text",
            remedy="write the column with the right type; a code is never a floating-point number",
        )
        for attribute in attributes
        if kinds[source.theirs(attribute.name)] == "other"
        or (not attribute.is_integer and kinds[source.theirs(attribute.name)] != "text")
    ]


def _bad_rows(source: Source, name: str, what: str, expected: str, rows: Sequence[int]) -> Finding:
    shown = ", ".join(f"{row:,}" for row in rows)
    return Finding(
        code="bad-record",
        what=f"{what} (the first such rows: {shown})",
        where=Place(file=source.file, column=source.theirs(name), row=rows[0] if rows else None),
        found=CONFIDENTIAL,
        expected=expected,
        remedy="correct the records, or the schema and the frame if these are wrong",
    )


def _no_rows(source: Source) -> Finding:
    return Finding(
        code="no-records",
        what="the file has no records",
        where=Place(file=source.file),
        found="0 rows",
        expected="at least one record",
        remedy="give the file with the records",
    )
