"""The people and the blocks of a comparison, read from Parquet or CSV and checked before anything is made of them.

What is written from here on has our column names and whole numbers, whatever the files had. A finding about records
gives the row and the rule, never a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.engines import Engine, LocalEngine, Source
from confide.engines.expressions import identifier
from confide.engines.files import whole_file
from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.geography import Spine
from confide.inputs.frame import LevelRule, missing_columns, read_counts, read_frame, wrong_code_types
from confide.inputs.records import ROWS_NAMED, blocks_table, check_columns, check_records, column_expressions
from confide.inputs.shipped import load_shipped
from confide.schema import Attribute, parse_schema

BLOCK, HOUSEHOLD = "geocode", "household_id"
CODED = ("hhgq", "sex", "age", "hispanic", "cenrace")
COUNTS = ("housing_units", *(f"gq{kind}" for kind in range(1, 8)))
"""What topdown knows of a block beforehand: where nothing of it is, nobody lives."""


def read(
    records: Source, blocks: Source, digits: Mapping[str, int], scratch: Path, *, counts: bool
) -> tuple[pa.Table, pa.Table]:
    """The people (block, household and codes) and the blocks, with their counts if these are there or are needed."""
    with LocalEngine(scratch, processes=1) as engine:
        spine = read_frame(engine, blocks, BLOCK, [LevelRule(level, n) for level, n in digits.items()], []).spine
        _one_state(spine, blocks)
        listed = _blocks(engine, blocks, counts=counts)
        frame = scratch / "frame.parquet"
        with whole_file(frame) as temporary:
            pq.write_table(blocks_table(spine), temporary)
        _check(engine, records, spine, frame)
        people = _people(engine, records)
    if counts:
        _housed(people, listed, records)
    return people, listed


@cache
def _attributes() -> tuple[Attribute, ...]:
    known = {attribute.name: attribute for attribute in parse_schema(load_shipped("schemas", "persons")).attributes}
    return tuple(known[name] for name in CODED)


def _one_state(spine: Spine, blocks: Source) -> None:
    states = len(spine.levels[0].codes)
    if states > 1:
        raise InputError(
            Finding(
                code="several-states",
                what="the blocks are of more than one state",
                where=Place(file=blocks.file, column=blocks.theirs(BLOCK)),
                found=f"{states:,} states",
                expected="blocks of one state",
                remedy="make a comparison for each state; or correct [geography] state",
            )
        )


def _blocks(engine: Engine, source: Source, *, counts: bool) -> pa.Table:
    present = engine.kinds(source)
    names = COUNTS if counts else [name for name in COUNTS if source.theirs(name) in present]
    known = read_counts(engine, source, names)
    text = f"SELECT CAST({identifier(source.theirs(BLOCK))} AS VARCHAR) AS {BLOCK} FROM blocks"
    codes = engine.sql(text, blocks=source).reveal("the block table is public knowledge").column(BLOCK)
    return pa.table({BLOCK: codes} | {name: pa.array(known[name]) for name in names})


def _check(engine: Engine, source: Source, spine: Spine, frame: Path) -> None:
    attributes = _attributes()
    findings = missing_columns(engine, source, [HOUSEHOLD], confidential=True)
    findings = findings or wrong_code_types(engine, source, [HOUSEHOLD])
    findings += check_columns(engine, source, attributes, BLOCK)
    if not findings:
        findings = check_records(engine, source, attributes, BLOCK, spine, frame)
    if not findings:
        household = f"CAST({identifier(source.theirs(HOUSEHOLD))} AS VARCHAR)"
        inside = f"{column_expressions(engine, source, attributes, BLOCK)['hhgq']} = 0"
        rows = engine.first_rows(source, f"{inside} AND coalesce({household}, '') = ''", ROWS_NAMED)
        findings = [_no_household(source, rows)] if rows else _scattered(engine, source, household, inside)
    if findings:
        raise InputError(findings)


def _people(engine: Engine, source: Source) -> pa.Table:
    read = column_expressions(engine, source, _attributes(), BLOCK) | {HOUSEHOLD: identifier(source.theirs(HOUSEHOLD))}
    listed = ", ".join(f"{read[name]} AS {identifier(name)}" for name in (BLOCK, HOUSEHOLD, *CODED))
    return engine.sql(f"SELECT {listed} FROM records", records=source).reveal("to protect and attack them")


def _housed(people: pa.Table, blocks: pa.Table, source: Source) -> None:
    """Topdown puts nobody where there is nothing to live in, and refuses records that say otherwise; better at once."""
    units = np.sum([blocks.column(name).to_numpy() for name in COUNTS], axis=0)
    empty = blocks.column(BLOCK).filter(pa.array(units == 0))
    rows = np.flatnonzero(pc.is_in(people.column(BLOCK), empty.combine_chunks()).to_numpy())[:ROWS_NAMED] + 1
    if len(rows):
        raise InputError(
            Finding(
                code="no-units",
                what="a record lies in a block without housing units and group quarters (the first such rows: "
                f"{', '.join(f'{row:,}' for row in rows)})",
                where=Place(file=source.file, column=source.theirs(BLOCK), row=int(rows[0])),
                found=CONFIDENTIAL,
                expected="a block where housing_units or one of gq1 to gq7 is above zero",
                remedy="correct the records or the block table; or leave topdown out",
            )
        )


def _no_household(source: Source, rows: Sequence[int]) -> Finding:
    shown = ", ".join(f"{row:,}" for row in rows)
    return Finding(
        code="no-household",
        what=f"a person in a household (hhgq 0) has no household_id (the first such rows: {shown})",
        where=Place(file=source.file, column=source.theirs(HOUSEHOLD), row=rows[0]),
        found=CONFIDENTIAL,
        expected="the same id for all people of a household, and for nobody else",
        remedy="fill in the ids: swapping moves whole households",
    )


def _scattered(engine: Engine, source: Source, household: str, inside: str) -> list[Finding]:
    """Households in several blocks: most often, ids that begin anew in every block."""
    block = f"CAST({identifier(source.theirs(BLOCK))} AS VARCHAR)"
    grouped = f"SELECT {household} FROM records WHERE {inside} GROUP BY 1 HAVING count(DISTINCT {block}) > 1 LIMIT 1"
    text = f"SELECT count(*) AS found FROM ({grouped}) AS scattered"
    if not engine.sql(text, records=source).reveal("to find households in several blocks").column("found")[0].as_py():
        return []
    return [
        Finding(
            code="household-in-two-blocks",
            what="members of one household lie in different blocks",
            where=Place(file=source.file, column=source.theirs(HOUSEHOLD)),
            found=CONFIDENTIAL,
            expected="an id that no household of another block has",
            remedy="put the code of the block before the id, if ids begin anew in every block",
        )
    ]
