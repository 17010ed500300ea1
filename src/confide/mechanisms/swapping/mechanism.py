"""The mechanism ``swapping``, from top to bottom: tables and records after some households exchanged their places.

    records ─► people and households ─► swap (keyed) ─► the same people, elsewhere ─► exact counts, records

All protection is in the swap: what is published afterwards is counted without noise. It spends no budget. The variants
that pair households promise no differential privacy; ``permutation`` states an ε subject to what stays, which no ledger
could add up (:mod:`confide.mechanisms.swapping.problem`). The draws follow from a key of the run, kept in the
confidential zone, from the people and from the settings: run again, it gives the same bytes. For users:
``docs/concepts/swapping.md``; what stays and what does not: ``docs/proofs/swapping.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.engines import Engine, identifier, literal, write_parquet
from confide.errors import CONFIDENTIAL, Finding, Place, RunError
from confide.file_system import private_folder, write_text
from confide.inputs import records as inputs_records
from confide.inputs.frame import missing_columns, wrong_code_types
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.swapping import core
from confide.mechanisms.swapping import output as swapping_output
from confide.mechanisms.swapping import output as verification
from confide.mechanisms.swapping import problem as swapping_problem
from confide.mechanisms.swapping.core import swap_people
from confide.mechanisms.swapping.problem import prepare
from confide.mechanisms.swapping.spec import HOUSEHOLD, SwappingSpec, Variant
from confide.mechanisms.swapping.swap import People, Swap, arrange
from confide.releases.abilities import MadeUpRecords
from confide.releases.certificate import STATEMENT
from confide.releases.folder import ReleaseWriter, SealedRelease
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource
from confide.releases.plan import Plan
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import DescribedTable, QueryTable, publish_areas
from confide.releases.workspace import Workspace

# The records of a run: checked for households, and read as people in whole numbers.


def check_people(problem: swapping_problem.SwappingProblem, job: Job) -> list[Finding]:
    """Every problem of the records: codes, blocks, households without an id or in two blocks."""
    engine, records, block = job.engine, problem.records, problem.spec.geography.block
    household = problem.spec.data.household_number
    findings = missing_columns(engine, records, [household], confidential=True)
    if findings:
        return findings + inputs_records.check_columns(engine, records, problem.attributes, block)
    findings = wrong_code_types(engine, records, [household])
    frame = private_folder(job.workspace.scratch) / "frame.parquet"
    write_parquet(inputs_records.blocks_table(problem.spine), frame)
    findings += inputs_records.check_records(engine, records, problem.attributes, block, problem.spine, frame)
    findings = findings or _households(problem, engine) or _strata(problem, engine)
    return [swapping_problem.placed_in_spec(job.loaded, finding) for finding in findings] or _floor(problem, job)


def _strata(problem: swapping_problem.SwappingProblem, engine: Engine) -> list[Finding]:
    """Whether anybody can move at all, and whether the loss of a permutation is stated for strata as large as these.
    Of a permutation both follow from what stays as it is, and tell nothing else of the records."""
    people, settings = read_people(problem, engine), problem.settings
    values = core.looked_at(settings, *variables_of(problem, people))
    if settings.variant == "permutation":
        return core.strata_findings(people, settings, values)
    if people.households and core.anybody_can_move(people, settings, values):
        return []
    return [
        Finding.of(
            "nobody-moves/exchange",
            where=Place(path="swapping.profiles" if settings.variant == "targeted" else "swapping.levels"),
            found=CONFIDENTIAL,
        )
    ]


def _floor(problem: swapping_problem.SwappingProblem, job: Job) -> list[Finding]:
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


def _households(problem: swapping_problem.SwappingProblem, engine: Engine) -> list[Finding]:
    household = problem.spec.data.household_number
    records, column = problem.records, problem.records.theirs(household)
    read = inputs_records.column_expressions(engine, records, problem.attributes, problem.spec.geography.block)
    inside, name = _inside(problem, read), identifier(column)
    text = f"CAST({name} AS VARCHAR)"
    findings = []
    lacking = f"{inside} AND coalesce({text}, '') = ''"
    rows = engine.first_rows(records, lacking, inputs_records.ROWS_NAMED)
    if rows:
        findings.append(inputs_records.bad_record("no-household/record-id-first", problem.records, household, rows))
    torn = (
        f"{inside} AND {text} IN (SELECT {text} FROM records WHERE {inside} GROUP BY 1 "
        f"HAVING count(DISTINCT {read[problem.spec.geography.block]}) > 1)"
    )
    rows = [] if findings else engine.first_rows(records, torn, inputs_records.ROWS_NAMED, records=records)
    if rows:
        findings.append(inputs_records.bad_record("household-in-two-blocks/first", problem.records, household, rows))
    for carried in () if findings else problem.settings.carry:
        differs = (
            f"{inside} AND {text} IN (SELECT {text} FROM records WHERE {inside} GROUP BY 1 "
            f"HAVING count(DISTINCT {read[carried]}) > 1)"
        )
        rows = engine.first_rows(records, differs, inputs_records.ROWS_NAMED, records=records)
        if rows:
            findings.append(
                inputs_records.bad_record("carried-differs/first", problem.records, household, rows, carried=carried)
            )
    return findings


def read_people(problem: swapping_problem.SwappingProblem, engine: Engine) -> People:
    """Everybody, in whole numbers: of each attribute the position of its level."""
    records, block = problem.records, problem.spec.geography.block
    read = inputs_records.column_expressions(engine, records, problem.attributes, block)
    column = f"CAST({identifier(records.theirs(problem.spec.data.household_number))} AS VARCHAR)"
    # By position: an attribute may have any name, also one that we would give.
    attributes = "".join(
        f", {number} AS attribute_{position}"
        for position, number in enumerate(inputs_records.code_expressions(engine, records, problem.attributes).values())
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


def variables_of(
    problem: swapping_problem.SwappingProblem, people: People
) -> tuple[dict[str, Integers], Integers | None]:
    """The groups of every variable that the settings name, and ages where they say who is adult."""
    values = {
        name: recode.assignment[people.codes[recode.attribute.name]] for name, recode in problem.variables.items()
    }
    if not problem.settings.needs_age:
        return values, None
    named = {attribute.name: attribute for attribute in problem.attributes}[problem.spec.data.age]
    ages = np.array([int(level.code) for level in named.levels], np.int64)
    return values, ages[people.codes[named.name]]


def _inside(problem: swapping_problem.SwappingProblem, read: dict[str, str]) -> str:
    tests = [f"{read[name]} = {literal(code)}" for name, code in problem.spec.data.in_households.items()]
    return "(" + (" AND ".join(tests) or "TRUE") + ")"


# Made-up records of a swap: people who live together.


IN_HOUSEHOLDS = 0.95
"""The share of people in households, where no margin speaks of it."""
ALONE = 0.4
"""With this probability the next person of a block begins a household: it has 2.5 members in the mean."""


def in_households(problem: swapping_problem.SwappingProblem, people: MadeUpPeople) -> pa.Table:
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
    return people.table(theirs).append_column(theirs(problem.spec.data.household_number), column)


class SwappingRehearsal(MadeUpRecords[swapping_problem.SwappingProblem]):
    """Made-up records in households."""

    def record_form(self, problem: swapping_problem.SwappingProblem) -> RecordForm:
        return RecordForm.on_spine(
            problem.attributes, problem.schema.variables, problem.spec.geography.block, problem.spine
        )

    def made_up_people(self, problem: swapping_problem.SwappingProblem, people: MadeUpPeople) -> pa.Table:
        return in_households(problem, people)


BYTES_PER_RECORD_BYTE = 25
"""A generous guess of what a run takes on the disk for each byte of the records: these may be compressed."""


class Swapping(Mechanism[swapping_problem.SwappingProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "swapping"
    spec = SwappingSpec
    keyed = True
    explain = swapping_output.SwappingExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.swapping.spec:draft_swapping",
        "draft_from": "confide.mechanisms.swapping.spec:draft_swapping_from",
        "board": "confide.mechanisms.swapping.board:SwappingBoard",
        "evaluate": "confide.mechanisms.swapping.evaluate:evaluate_swapping",
        "published": "confide.lab.published.tabular:read_swapping",
        "residuals": "confide.mechanisms.swapping.evaluate:residuals",
        "rehearsal": "confide.mechanisms.swapping.mechanism:SwappingRehearsal",
    }
    memory_per_record = 450
    measures_counts = False
    methods = get_args(Variant)

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> swapping_problem.SwappingProblem:
        return prepare(loaded, engine)

    def plan(self, problem: swapping_problem.SwappingProblem) -> Plan:
        """No measurement and no loss; what may be a secret is not in it."""
        spine = tuple(level.name for level in problem.spine.levels)
        return Plan.without_loss(self.name, problem.facts(), spine)

    def fingerprint(self, problem: swapping_problem.SwappingProblem) -> str:
        return problem.fingerprint()

    def bytes_needed(self, problem: swapping_problem.SwappingProblem, plan: Plan) -> int:  # noqa: ARG002
        return BYTES_PER_RECORD_BYTE * sum(file.stat().st_size for file in problem.records.files)

    def check(self, problem: swapping_problem.SwappingProblem, job: Job) -> list[Finding]:
        return check_people(problem, job)

    def measure(self, problem: swapping_problem.SwappingProblem, job: Job, noise: NoiseSource | None) -> None:
        """Swaps. What is kept is where everybody is afterwards, and how the swap went."""
        assert noise is not None
        folder = private_folder(job.workspace.measured)
        if moved_file(job.workspace).exists():
            job.progress.note(how_many_moved(problem, recall_tally(job.workspace)))
            return
        with job.progress.stage("Reading records", 1) as advance:
            people = read_people(problem, job.engine)
            advance(1)
        with job.progress.stage("Swapping households", 1) as advance:
            values, age = variables_of(problem, people)
            swap = swap_people(people, problem.settings, values, age, noise.key, bytes.fromhex(noise.plan_hash))
            # Where a loss is stated, nobody may learn from a release that somebody moved: it is one outcome of many.
            if problem.settings.variant != "permutation" and not swap.moved.any():
                raise RunError("nobody-moved", households=people.households, asked=sum(swap.wanted.values()))
            tally = _tally(problem, people, swap, values, age) | _hashed_invariants(problem, people)
            write_text(folder / TALLY, json.dumps(tally) + "\n")
            write_parquet(pa.table({"partner": pa.array(swap.partner)}), moved_file(job.workspace))
            advance(1)
        job.progress.note(how_many_moved(problem, tally))

    def statistics(self, problem: swapping_problem.SwappingProblem, job: Job) -> Mapping[str, Any]:  # noqa: ARG002
        """Where the records of a permutation are published: its invariants, hashed before the swap."""
        tally = recall_tally(job.workspace)
        kept = swapping_problem.INVARIANTS
        return {kept: tally[kept]} if kept in tally else {}

    def guarantee(self, problem: swapping_problem.SwappingProblem, job: Job) -> Mapping[str, Any]:  # noqa: ARG002
        """How many households moved, and how many found no partner, is not said: it would tell the rate."""
        return self.restated(job.plan)

    def restated(self, plan: Plan, manifest: Mapping[str, Any] | None = None) -> Mapping[str, Any]:  # noqa: ARG002
        return {
            "privacy": swapping_problem.privacy_of(plan.question["swapping"], plan.spine[-1]),
            "noise": swapping_problem.noise_facts(),
        }

    def publish(self, problem: swapping_problem.SwappingProblem, job: Job, release: ReleaseWriter) -> None:
        people, block, codes = swapped(problem, job.workspace, job.engine)
        output = problem.spec.output
        formats = output.formats
        with job.progress.stage("Writing tables", len(problem.tables) + 1) as advance:
            for table in problem.tables:

                def batches(table: QueryTable = table) -> Iterator[pa.RecordBatch]:
                    for level, rows in swapping_output.count_table(people, block, codes, table):
                        yield from swapping_output.table_rows(problem, table, level, rows)

                DescribedTable.of(table.layout, swapping_output.FIGURES).publish(
                    release, batches, output, problem.area_names
                )
                advance(1)
            if problem.tables:
                publish_areas(release, problem.areas, problem.area_names)
            if problem.spec.output.microdata:
                schema, title = swapping_output.microdata_schema(problem), "Swapped records"
                if "parquet" in formats:
                    release.part(
                        swapping_output.MICRODATA,
                        schema,
                        swapping_output.microdata_rows(problem, people, block, codes),
                        title,
                    )
                if "csv" in formats:
                    rows = swapping_output.microdata_rows(problem, people, block, codes)
                    release.text(swapping_output.MICRODATA, schema, rows, title, ",", quoted=True)
                swapping_output.publish_labelled(
                    problem, release, lambda: swapping_output.microdata_rows(problem, people, block, codes)
                )
            advance(1)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return {STATEMENT: swapping_problem.swapping_statement(manifest)}

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        return verification.verify(release)


TALLY = "swap-confidential.json"


def how_many_moved(problem: swapping_problem.SwappingProblem, tally: Mapping[str, Any]) -> str:
    """What a run tells the curator, and nobody else: how many households moved, beside the rate that was asked for."""
    households, moved, rate = tally["households"], tally["moved"], problem.settings.rate
    share = f"{100 * moved / households:.2f} %" if households else "none"
    said = f"{moved:,} of {households:,} households moved ({share}); the rate asked for is {rate}."
    if problem.settings.variant == "permutation":
        said = f"{moved:,} of {households:,} households were selected ({share}), each with probability {rate}."
    elif problem.settings.variant == "targeted" and moved > households * rate:
        said += " The rate is a floor: more move where k_anonymity, or an odd number, makes them."
    return f"{said} Confidential: the release does not say it."


def moved_file(workspace: Workspace) -> Path:
    """Where it is kept which households exchanged places. Confidential."""
    return workspace.measured / "partners.parquet"


def swapped(
    question: swapping_problem.SwappingProblem, workspace: Workspace, engine: Engine
) -> tuple[People, Integers, dict[str, Integers]]:
    """People as they were, and block and codes of each as they are after the swap of a run."""
    people = read_people(question, engine)
    swap = swap_of(workspace)
    if recall_tally(workspace)["people"] != people.fingerprint.hex():
        raise RunError("run-changed/records-since", where=Place(file=str(workspace.root)), found=CONFIDENTIAL)
    codes = dict(people.codes) | {name: swap.carried(people, name) for name in question.settings.carry}
    return people, swap.block(people), codes


def swap_of(workspace: Workspace) -> Swap:
    """The swap of a run, as it was kept."""
    partner = pq.read_table(moved_file(workspace)).column("partner").to_numpy().astype(np.int64)
    tally = recall_tally(workspace)
    return Swap(partner, tally["wanted"], tally["without"], tally["by_stage"])


def recall_tally(workspace: Workspace) -> dict[str, Any]:
    """How the swap of a run went."""
    tally: dict[str, Any] = json.loads((workspace.measured / TALLY).read_text(encoding="utf-8"))
    return tally


def _hashed_invariants(problem: swapping_problem.SwappingProblem, people: People) -> dict[str, Any]:
    """The hashes of what a permutation leaves as it is, from the records before the swap, where they are published."""
    question = problem.facts()
    if problem.settings.variant != "permutation" or question["microdata"] is None:
        return {}
    before = pa.Table.from_batches(
        swapping_output.microdata_rows(problem, people, people.block, people.codes),
        swapping_output.microdata_schema(problem),
    )
    records = swapping_output.plain_records(before, question["microdata"])
    households = core.PublishedHouseholds.of(records, HOUSEHOLD, question["swapping"])
    return {swapping_problem.INVARIANTS: households.digests(question["microdata"]["attributes"])}


def _tally(
    question: swapping_problem.SwappingProblem,
    people: People,
    swap: Swap,
    values: Mapping[str, Integers],
    age: Integers | None,
) -> dict[str, Any]:
    named = core.looked_at(question.settings, values, age)
    return {
        "people": people.fingerprint.hex(),
        "households": people.households,
        "moved": int(swap.moved.sum()),
        "wanted": dict(swap.wanted),
        "without": dict(swap.without),
        "by_stage": dict(swap.by_stage),
        "kept": [kept.as_dict() for kept in core.counted_again(people, question.settings, swap, named)],
    }
