"""The records of a run: checked for households, and read as people in whole numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.engines import Engine
from confide.engines.protocol import identifier, literal, private_folder, write_parquet
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.inputs.frame import missing_columns, wrong_code_types
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.inputs.records import (
    ROWS_NAMED,
    bad_record,
    blocks_table,
    check_columns,
    check_records,
    code_expressions,
    column_expressions,
)
from confide.mechanisms.swapping.core import anybody_can_move, looked_at
from confide.mechanisms.swapping.people import People, arrange
from confide.mechanisms.swapping.permutation import strata_findings
from confide.mechanisms.swapping.problem import SwappingProblem, placed_in_spec
from confide.releases.abilities import MadeUpRecords
from confide.releases.mechanism import Job


def check_people(problem: SwappingProblem, job: Job) -> list[Finding]:
    """Every problem of the records: codes, blocks, households without an id or in two blocks."""
    engine, records, block = job.engine, problem.records, problem.spec.geography.block
    household = problem.spec.data.household
    findings = missing_columns(engine, records, [household], confidential=True)
    if findings:
        return findings + check_columns(engine, records, problem.attributes, block)
    findings = wrong_code_types(engine, records, [household])
    frame = private_folder(job.workspace.scratch) / "frame.parquet"
    write_parquet(blocks_table(problem.spine), frame)
    findings += check_records(engine, records, problem.attributes, block, problem.spine, frame)
    findings = findings or _households(problem, engine) or _strata(problem, engine)
    return [placed_in_spec(job.loaded, finding) for finding in findings] or _floor(problem, job)


def _strata(problem: SwappingProblem, engine: Engine) -> list[Finding]:
    """Whether anybody can move at all, and whether the loss of a permutation is stated for strata as large as these.
    Of a permutation both follow from what stays as it is, and tell nothing else of the records."""
    people, settings = read_people(problem, engine), problem.settings
    values = looked_at(settings, *variables_of(problem, people))
    if settings.variant == "permutation":
        return strata_findings(people, settings, values)
    if people.households and anybody_can_move(people, settings, values):
        return []
    return [
        Finding.of(
            "nobody-moves/exchange",
            where=Place(path="swapping.profiles" if settings.variant == "targeted" else "swapping.levels"),
            found=CONFIDENTIAL,
        )
    ]


def _floor(problem: SwappingProblem, job: Job) -> list[Finding]:
    """That the rate is the least that moves, where somebody has to be swapped whatever the rate is."""
    settings = problem.settings
    if settings.variant != "targeted" or settings.k_anonymity < 2:
        return []
    return [
        Finding.of(
            "rate-is-a-floor",
            where=job.loaded.place("swapping", "k_anonymity"),
            severity="warning",
            k_anonymity=settings.k_anonymity,
            rate=settings.rate,
        )
    ]


def _households(problem: SwappingProblem, engine: Engine) -> list[Finding]:
    records, column = problem.records, problem.records.theirs(problem.spec.data.household)
    read = column_expressions(engine, records, problem.attributes, problem.spec.geography.block)
    inside, name = _inside(problem, read), identifier(column)
    text = f"CAST({name} AS VARCHAR)"
    findings = []
    lacking = f"{inside} AND coalesce({text}, '') = ''"
    rows = engine.first_rows(records, lacking, ROWS_NAMED)
    if rows:
        findings.append(bad_record("no-household/record-id-first", problem.records, problem.spec.data.household, rows))
    torn = (
        f"{inside} AND {text} IN (SELECT {text} FROM records WHERE {inside} GROUP BY 1 "
        f"HAVING count(DISTINCT {read[problem.spec.geography.block]}) > 1)"
    )
    rows = [] if findings else engine.first_rows(records, torn, ROWS_NAMED, records=records)
    if rows:
        findings.append(bad_record("household-in-two-blocks/first", problem.records, problem.spec.data.household, rows))
    for carried in () if findings else problem.settings.carry:
        differs = (
            f"{inside} AND {text} IN (SELECT {text} FROM records WHERE {inside} GROUP BY 1 "
            f"HAVING count(DISTINCT {read[carried]}) > 1)"
        )
        rows = engine.first_rows(records, differs, ROWS_NAMED, records=records)
        if rows:
            findings.append(
                bad_record("carried-differs/first", problem.records, problem.spec.data.household, rows, carried=carried)
            )
    return findings


def read_people(problem: SwappingProblem, engine: Engine) -> People:
    """Everybody, in whole numbers: of each attribute the position of its level."""
    records, block = problem.records, problem.spec.geography.block
    read = column_expressions(engine, records, problem.attributes, block)
    column = f"CAST({identifier(records.theirs(problem.spec.data.household))} AS VARCHAR)"
    # By position: an attribute may have any name, also one that we would give.
    attributes = "".join(
        f", {number} AS attribute_{position}"
        for position, number in enumerate(code_expressions(engine, records, problem.attributes).values())
    )
    text = (
        f"SELECT CASE WHEN {_inside(problem, read)} THEN {column} END AS id, {read[block]} AS block{attributes} "
        "FROM records"
    )
    table = engine.sql(text, records=records).reveal("to swap households and to count people")
    codes = {
        attribute.name: table.column(f"attribute_{position}").combine_chunks().to_numpy(zero_copy_only=False)
        for position, attribute in enumerate(problem.attributes)
    }
    codes_of_blocks = pa.array(problem.spine.blocks.codes, pa.string())
    place = pc.index_in(table.column("block").combine_chunks().cast(pa.string()), codes_of_blocks)
    people, _, _ = arrange(
        problem.spine,
        table.column("id").combine_chunks().cast(pa.string()),
        place.to_numpy(zero_copy_only=False).astype(np.int64),
        {name: column.astype(np.int64) for name, column in codes.items()},
    )
    return people


def variables_of(problem: SwappingProblem, people: People) -> tuple[dict[str, Integers], Integers | None]:
    """The groups of every variable that the settings name, and ages where adults are told by them."""
    values = {
        name: recode.assignment[people.codes[recode.attribute.name]] for name, recode in problem.variables.items()
    }
    if not problem.settings.needs_age:
        return values, None
    named = {attribute.name: attribute for attribute in problem.attributes}[problem.spec.data.age]
    ages = np.array([int(level.code) for level in named.levels], np.int64)
    return values, ages[people.codes[named.name]]


def _inside(problem: SwappingProblem, read: dict[str, str]) -> str:
    tests = [f"{read[name]} = {literal(code)}" for name, code in problem.spec.data.in_households.items()]
    return "(" + (" AND ".join(tests) or "TRUE") + ")"


# Made-up records of a swap: people who live together.


IN_HOUSEHOLDS = 0.95
"""The share of people in households, where no margin speaks of it."""
ALONE = 0.4
"""With this probability the next person of a block begins a household: it has 2.5 members in the mean."""


def in_households(problem: SwappingProblem, people: MadeUpPeople) -> pa.Table:
    """The records with ids of households: their members lie in one block, and share what belongs to the place.

    Args:
        problem: The prepared problem.
        people: The drawn people; who is in a household is changed.

    Returns:
        The table of records.
    """
    attributes = {attribute.name: attribute for attribute in people.form.attributes}
    inside = np.ones(people.number, np.bool_)
    housed = people.random.random(people.number) < IN_HOUSEHOLDS
    for name, code in problem.spec.data.in_households.items():
        level = attributes[name].index[code]
        if name not in people.from_margins:
            people.levels[name] = np.where(housed, level, people.levels[name])
        inside &= people.levels[name] == level
    assert people.block is not None
    members = np.flatnonzero(inside)
    members = members[np.argsort(people.block[members], kind="stable")]
    begins = people.random.random(len(members)) < ALONE
    begins |= np.diff(people.block[members], prepend=-1) != 0
    household = np.cumsum(begins) - 1
    first = members[begins]
    for name in problem.settings.carry:
        people.levels[name][members] = people.levels[name][first[household]]
    ids = np.full(people.number, -1, np.int64)
    ids[members] = household
    column = pa.array([None if number < 0 else f"H{number + 1}" for number in ids.tolist()], pa.string())
    theirs = problem.records.theirs
    return people.table(theirs).append_column(theirs(problem.spec.data.household), column)


class SwappingRehearsal(MadeUpRecords[SwappingProblem]):
    """Made-up records in households."""

    def record_form(self, problem: SwappingProblem) -> RecordForm:
        return RecordForm.on_spine(
            problem.attributes, problem.schema.variables, problem.spec.geography.block, problem.spine
        )

    def made_up_people(self, problem: SwappingProblem, people: MadeUpPeople) -> pa.Table:
        return in_households(problem, people)
