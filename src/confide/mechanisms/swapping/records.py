"""The records of a run: checked for households, and read as people in whole numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.engines import Engine
from confide.engines.atomic_files import private_folder
from confide.engines.expressions import identifier, literal
from confide.engines.groups import write_parquet
from confide.errors import Finding
from confide.inputs.frame import missing_columns, wrong_code_types
from confide.inputs.records import (
    ROWS_NAMED,
    bad_record,
    blocks_table,
    check_columns,
    check_records,
    code_expressions,
    column_expressions,
)
from confide.mechanisms.swapping.people import People, arrange
from confide.mechanisms.swapping.problem import SwappingQuestion
from confide.releases.mechanism import Job

Integers = npt.NDArray[np.int64]


def check_people(question: SwappingQuestion, job: Job) -> list[Finding]:
    """Every problem of the records: codes, blocks, households without an id or in two blocks."""
    engine, records, block = job.engine, question.records, question.spec.geography.block
    household = question.spec.data.household
    findings = missing_columns(engine, records, [household], confidential=True)
    if findings:
        return findings + check_columns(engine, records, question.attributes, block)
    findings = wrong_code_types(engine, records, [household])
    frame = private_folder(job.workspace.scratch) / "frame.parquet"
    write_parquet(blocks_table(question.spine), frame)
    findings += check_records(engine, records, question.attributes, block, question.spine, frame)
    return findings or _households(question, engine)


def _households(question: SwappingQuestion, engine: Engine) -> list[Finding]:
    records, column = question.records, question.records.theirs(question.spec.data.household)
    read = column_expressions(engine, records, question.attributes, question.spec.geography.block)
    inside, name = _inside(question, read), identifier(column)
    text = f"CAST({name} AS VARCHAR)"
    findings = []
    lacking = f"{inside} AND coalesce({text}, '') = ''"
    rows = engine.first_rows(records, lacking, ROWS_NAMED)
    if rows:
        what, expected = "a record of a household has no household id", "an id in every record of a household"
        findings.append(_bad(question, "no-household", what, expected, rows))
    torn = (
        f"{inside} AND {text} IN (SELECT {text} FROM records WHERE {inside} GROUP BY 1 "
        f"HAVING count(DISTINCT {read[question.spec.geography.block]}) > 1)"
    )
    rows = [] if findings else engine.first_rows(records, torn, ROWS_NAMED, records=records)
    if rows:
        what, expected = "members of one household lie in different blocks", "one block for all members of a household"
        findings.append(_bad(question, "household-in-two-blocks", what, expected, rows))
    for carried in () if findings else question.settings.carry:
        differs = (
            f"{inside} AND {text} IN (SELECT {text} FROM records WHERE {inside} GROUP BY 1 "
            f"HAVING count(DISTINCT {read[carried]}) > 1)"
        )
        rows = engine.first_rows(records, differs, ROWS_NAMED, records=records)
        if rows:
            what = f"members of one household differ in {carried!r}, which is to be exchanged with the place"
            expected = "one value for all members of a household"
            findings.append(_bad(question, "carried-differs", what, expected, rows))
    return findings


def read_people(question: SwappingQuestion, engine: Engine) -> People:
    """Everybody, in whole numbers: of each attribute the position of its level."""
    records, block = question.records, question.spec.geography.block
    read = column_expressions(engine, records, question.attributes, block)
    column = f"CAST({identifier(records.theirs(question.spec.data.household))} AS VARCHAR)"
    # By position: an attribute may have any name, also one that we would give.
    attributes = "".join(
        f", {number} AS attribute_{position}"
        for position, number in enumerate(code_expressions(engine, records, question.attributes).values())
    )
    text = (
        f"SELECT CASE WHEN {_inside(question, read)} THEN {column} END AS id, {read[block]} AS block{attributes} "
        "FROM records"
    )
    table = engine.sql(text, records=records).reveal("to swap households and to count people")
    codes = {
        attribute.name: table.column(f"attribute_{position}").combine_chunks().to_numpy(zero_copy_only=False)
        for position, attribute in enumerate(question.attributes)
    }
    known = pa.array(question.spine.blocks.codes, pa.string())
    place = pc.index_in(table.column("block").combine_chunks().cast(pa.string()), known)
    people, _, _ = arrange(
        question.spine,
        table.column("id").combine_chunks().cast(pa.string()),
        place.to_numpy(zero_copy_only=False).astype(np.int64),
        {name: column.astype(np.int64) for name, column in codes.items()},
    )
    return people


def variables_of(question: SwappingQuestion, people: People) -> tuple[dict[str, Integers], Integers | None]:
    """The groups of every variable that the settings name, and ages where adults are told by them."""
    values = {
        name: recode.assignment[people.codes[recode.attribute.name]] for name, recode in question.variables.items()
    }
    if not question.settings.needs_age:
        return values, None
    named = {attribute.name: attribute for attribute in question.attributes}[question.spec.data.age]
    ages = np.array([int(level.code) for level in named.levels], np.int64)
    return values, ages[people.codes[named.name]]


def _inside(question: SwappingQuestion, read: dict[str, str]) -> str:
    tests = [f"{read[name]} = {literal(code)}" for name, code in question.spec.data.in_households.items()]
    return "(" + (" AND ".join(tests) or "TRUE") + ")"


def _bad(question: SwappingQuestion, code: str, what: str, expected: str, rows: list[int]) -> Finding:
    remedy = "correct the records; who lives in no household is told by [data] in_households"
    household = question.spec.data.household
    return bad_record(question.records, household, what, expected, rows, code=code, remedy=remedy)
