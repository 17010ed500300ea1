"""The population of a comparison: one file of people and one of blocks, in a form that every protection takes.

``DIR/data`` has the people with their age groups and areas, the blocks, and the schemas. All of it is confidential and
for its owner alone, made up or not, so that nobody has to look twice.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.documents import attribute_document, schema_text
from confide.engines import Engine, LocalEngine, Source, identifier, literal
from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.file_system import private_folder, whole_file, write_text
from confide.geography import Spine
from confide.inputs import frame as inputs_frame
from confide.inputs.records import ROWS_NAMED, blocks_table, check_columns, check_records, column_expressions
from confide.lab.comparison.common_tables import (
    CommonTables,
    common_tables,
)
from confide.lab.comparison.comparison_spec import LoadedComparison
from confide.lab.comparison.figures import AreaFigures, ComparedAreas, level_codes, tabulate
from confide.lab.comparison.programme_file import AGE, POPULATION, ProgrammeGeographyPart
from confide.lab.comparison.programme_file import BLOCK as FINEST
from confide.lab.population import simulate
from confide.releases.spec import find_sources
from confide.releases.workspace import Progress
from confide.schema import Attribute, Recode

# The people and the blocks of a comparison, read from Parquet or CSV and checked before anything is made of them.
#
# What is written from here on has our column names and whole numbers, whatever the files had. A finding about records
# gives the row and the rule, never a value.


BLOCK, HOUSEHOLD = "geocode", "household_id"
"""The columns of the smallest area and of the household, in what is written here."""


def level_rules(areas: ProgrammeGeographyPart) -> tuple[inputs_frame.LevelRule, ...]:
    """The levels above the smallest areas, the largest areas first."""
    return tuple(inputs_frame.LevelRule(level.name, level.digits, level.column) for level in areas.levels)


def read(
    records: Source,
    blocks: Source,
    programme: CommonTables,
    areas: ProgrammeGeographyPart,
    scratch: Path,
    *,
    counts: bool,
) -> tuple[pa.Table, pa.Table]:
    """The people (block, household and codes) and the blocks, with their counts if these are there or are needed."""
    with LocalEngine(scratch, processes=1) as engine:
        spine = inputs_frame.read_frame(engine, blocks, areas.block, level_rules(areas), []).spine
        _one_unit(spine, blocks, areas)
        listed = _blocks(engine, blocks, programme, areas, counts=counts)
        frame = scratch / "frame.parquet"
        with whole_file(frame) as temporary:
            pq.write_table(blocks_table(spine), temporary)
        _check(engine, records, spine, frame, programme, areas.block)
        people = _people_reading(engine, records, programme, areas.block)
    if counts and programme.part.blocks_with:
        _housed(people, listed, records, programme)
    return people, listed


def _attributes(programme: CommonTables) -> tuple[Attribute, ...]:
    """The attributes of the records that are read: those of households first, then the published ones."""
    named = [name.partition(":")[0] for name in programme.part.attributes]
    names = dict.fromkeys((*programme.part.in_households, *named))
    return tuple(programme.records.variable(name).attribute for name in names)


def _one_unit(spine: Spine, blocks: Source, areas: ProgrammeGeographyPart) -> None:
    if areas.one is None:
        return
    units = len(next(level for level in spine.levels if level.name == areas.one).codes)
    if units > 1:
        raise InputError(
            "several-units",
            code=f"several-{areas.one}s",
            where=Place(file=blocks.file, column=blocks.theirs(areas.block)),
            found=f"{units:,} {areas.one}s",
            areas=areas.words[1],
            unit=areas.one,
        )


def _blocks(
    engine: Engine, source: Source, programme: CommonTables, areas: ProgrammeGeographyPart, *, counts: bool
) -> pa.Table:
    present = engine.kinds(source)
    wanted = programme.part.blocks_with
    names = wanted if counts else [name for name in wanted if source.theirs(name) in present]
    housing_counts = inputs_frame.read_counts(engine, source, names)
    columns = {BLOCK: areas.block} | {level.column: level.column for level in areas.levels if level.column is not None}
    own = replace(source, spellings={name: replace(source.spelled(name), aliases=()) for name in columns.values()})
    listed = ", ".join(
        f"{inputs_frame.column_text(own, theirs)} AS {identifier(ours)}" for ours, theirs in columns.items()
    )
    codes = engine.sql(f"SELECT {listed} FROM blocks", blocks=source).reveal("the block table is public knowledge")
    return pa.table(
        {name: codes.column(name) for name in columns} | {name: pa.array(housing_counts[name]) for name in names}
    )


def _check(engine: Engine, source: Source, spine: Spine, frame: Path, programme: CommonTables, block: str) -> None:
    attributes, household = _attributes(programme), programme.part.household
    findings: list[Finding] = []
    if household is not None:
        findings = inputs_frame.missing_columns(engine, source, [household], confidential=True)
        findings = findings or inputs_frame.wrong_code_types(engine, source, [household])
    findings += check_columns(engine, source, attributes, block)
    if not findings:
        findings = check_records(engine, source, attributes, block, spine, frame)
    if not findings and household is not None:
        id_ = f"CAST({identifier(source.theirs(household))} AS VARCHAR)"
        read = column_expressions(engine, source, attributes, block)
        lives = [f"{read[name]} = {literal(code)}" for name, code in programme.part.in_households.items()]
        inside = " AND ".join(lives) or "TRUE"
        rows = engine.first_rows(source, f"{inside} AND coalesce({id_}, '') = ''", ROWS_NAMED)
        findings = (
            [
                Finding.of(
                    "no-household/rows",
                    where=Place(file=source.file, column=source.theirs(str(programme.part.household)), row=rows[0]),
                    found=CONFIDENTIAL,
                    lives=", ".join((f"{name} {code}" for name, code in programme.part.in_households.items())),
                    household=programme.part.household,
                    first_rows=", ".join(f"{row:,}" for row in rows),
                )
            ]
            if rows
            else []
        )
        findings = findings or _scattered(engine, source, id_, inside, household, block)
    if findings:
        raise InputError(findings)


def _people_reading(engine: Engine, source: Source, programme: CommonTables, block: str) -> pa.Table:
    attributes, household = _attributes(programme), programme.part.household
    read = column_expressions(engine, source, attributes, block)
    expressions = {BLOCK: read[block]}
    if household is not None:
        expressions[HOUSEHOLD] = identifier(source.theirs(household))
    expressions |= {attribute.name: read[attribute.name] for attribute in attributes}
    listed = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in expressions.items())
    people = engine.sql(f"SELECT {listed} FROM records", records=source).reveal("to protect and attack them")
    if household is None:  # everybody lives alone
        people = people.append_column(HOUSEHOLD, pa.array(np.arange(1, people.num_rows + 1)))
    return people


def _housed(people: pa.Table, blocks: pa.Table, source: Source, programme: CommonTables) -> None:
    """Topdown puts nobody where there is nothing to live in, and refuses records that say otherwise; better at once."""
    names = programme.part.blocks_with
    units = np.sum([blocks.column(name).to_numpy() for name in names], axis=0)
    empty = blocks.column(BLOCK).filter(pa.array(units == 0))
    rows = np.flatnonzero(pc.is_in(people.column(BLOCK), empty.combine_chunks()).to_numpy())[:ROWS_NAMED] + 1
    if len(rows):
        raise InputError(
            "no-units/record",
            where=Place(file=source.file, column=source.theirs(BLOCK), row=int(rows[0])),
            found=CONFIDENTIAL,
            rows=", ".join(f"{row:,}" for row in rows),
            names=", ".join(names),
        )


def _scattered(engine: Engine, source: Source, id_: str, inside: str, household: str, area: str) -> list[Finding]:
    """Households in several blocks: most often, ids that begin anew in every block."""
    block = inputs_frame.column_text(source, area)
    grouped = f"SELECT {id_} FROM records WHERE {inside} GROUP BY 1 HAVING count(DISTINCT {block}) > 1 LIMIT 1"
    text = f"SELECT count(*) AS found FROM ({grouped}) AS scattered"
    if not engine.sql(text, records=source).reveal("to find households in several blocks").column("found")[0].as_py():
        return []
    return [
        Finding.of(
            "household-in-two-blocks/members-different",
            where=Place(file=source.file, column=source.theirs(household)),
            found=CONFIDENTIAL,
        )
    ]


FOLDER, PEOPLE, BLOCKS = "data", "people.parquet", "blocks.parquet"
SCHEMA, HOUSEHOLDS_SCHEMA, AREAS_SCHEMA = "schema.toml", "schema-households.toml", "schema-areas.toml"
QUESTION = "question.json"


@dataclass(frozen=True, eq=False)
class ComparedPopulation:
    """People, where they live, and the true tables."""

    folder: Path
    people: pa.Table = field(repr=False)
    blocks: pa.Table = field(repr=False)
    areas: ComparedAreas = field(repr=False)
    truth: AreaFigures = field(repr=False)
    programme: CommonTables = field(repr=False)
    geography: ProgrammeGeographyPart
    made_up: bool
    fingerprint: str

    @property
    def persons(self) -> int:
        """How many people there are."""
        return int(self.people.num_rows)

    @property
    def inhabited(self) -> Any:
        """The blocks, by number, where somebody lives."""
        return np.flatnonzero(self.truth.counts[FINEST, POPULATION][:, 0] > 0)

    @property
    def rules(self) -> tuple[inputs_frame.LevelRule, ...]:
        """The levels above the smallest areas, the largest areas first."""
        return level_rules(self.geography)

    @property
    def attacked(self) -> pa.Table:
        """The people as the truth of an attack: where they live, what is known, and what is to be learnt. The finest
        published level stands for the tract, the finest of all above the smallest areas for the block group."""
        programme, age = self.programme, self.programme.part.age
        named = {name: name for name in ("person_id", BLOCK, *programme.linked.codes)}
        columns = {ours: self.people.column(theirs) for ours, theirs in named.items()}
        if age is not None and programme.linked.with_age:
            columns["age"] = self.people.column(age.attribute)
        codes = level_codes(self.blocks, self.rules)
        wide = programme.part.levels[-1] if programme.part.levels else None
        nearest = self.rules[-1].name if self.rules else None
        for ours, level in (("tract", wide), ("block_group", nearest)):
            of_block = dict(
                zip(codes[FINEST], codes[level] if level else [inputs_frame.WHOLE] * len(self.blocks), strict=True)
            )
            columns[ours] = pa.array([of_block[code] for code in self.people.column(BLOCK).to_pylist()], pa.string())
        return pa.table(columns)


def prepare(loaded: LoadedComparison, folder: Path, progress: Progress) -> ComparedPopulation:
    """The people of the spec: read, or made up, and written to ``folder/data`` unless they are there already. A folder
    of other people, blocks or levels is refused."""
    spec, data = loaded.spec, private_folder(folder / FOLDER)
    made_up = spec.comparison.made_up
    there = (data / PEOPLE).exists()
    question: list[Any] = ["made up", made_up, spec.comparison.seed]
    if made_up is None:
        people, blocks = _own(loaded, data)
        question = ["read", _mark(people), _mark(blocks)]
    elif not there:
        people, blocks = _made_up(loaded, made_up, data, progress)
    question += [{rule.name: rule.digits or rule.column for rule in level_rules(loaded.areas)}]
    if loaded.tables.part.id != common_tables().part.id:
        question += [loaded.tables.part.model_dump(mode="json"), loaded.tables.records.fingerprint]
    question_text = json.dumps({"question": question}) + "\n"
    if there and not ((data / QUESTION).exists() and (data / QUESTION).read_text(encoding="utf-8") == question_text):
        raise InputError("other-people", where=Place(file=(data / PEOPLE).name))
    if not there:
        write_text(data / QUESTION, question_text)
        _write(loaded, data, people, blocks)
    return _load(loaded, data, made_up=made_up is not None)


def _own(loaded: LoadedComparison, data: Path) -> tuple[pa.Table, pa.Table]:
    # A spec of a comparison has the parts that the function looks at, and is no spec of a release.
    resolved = replace(loaded, value=loaded.spec.model_copy(update={"geography": loaded.areas}))
    sources, findings = find_sources(cast("Any", resolved))
    if findings:
        raise InputError(findings)
    counts = any(part.counts_units for part in loaded.protections)
    return _read(loaded, sources["records"], sources["blocks"], data, counts=counts)


def _made_up(loaded: LoadedComparison, persons: int, data: Path, progress: Progress) -> tuple[pa.Table, pa.Table]:
    seed, layout = loaded.spec.comparison.seed, str(loaded.tables.part.people)
    try:
        records, blocks = simulate(data / "made-up", persons=persons, seed=seed, layout=layout, progress=progress).files
        return _read(
            loaded,
            Source(records, "parquet"),
            Source(blocks, "csv" if blocks.suffix == ".csv" else "parquet"),
            data,
            counts=True,
        )
    finally:
        shutil.rmtree(data / "made-up", ignore_errors=True)


def _read(
    loaded: LoadedComparison, records: Source, blocks: Source, data: Path, *, counts: bool
) -> tuple[pa.Table, pa.Table]:
    scratch = private_folder(data / "scratch")
    try:
        people, listed = read(records, blocks, loaded.tables, loaded.areas, scratch, counts=counts)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _people(people, listed, loaded.tables, level_rules(loaded.areas)), listed


def _load(loaded: LoadedComparison, data: Path, *, made_up: bool) -> ComparedPopulation:
    people, blocks, programme = pq.read_table(data / PEOPLE), pq.read_table(data / BLOCKS), loaded.tables
    areas = ComparedAreas.of(blocks, level_rules(loaded.areas), programme.levels)
    truth = tabulate(people, areas, programme)
    return ComparedPopulation(data, people, blocks, areas, truth, programme, loaded.areas, made_up, _mark(people))


def _write(loaded: LoadedComparison, data: Path, people: pa.Table, blocks: pa.Table) -> None:
    """All files of the folder; the people last, so that they are there only when everything is."""
    programme = loaded.tables
    areas = ComparedAreas.of(blocks, level_rules(loaded.areas), programme.levels)
    write_text(data / SCHEMA, schema_text(programme.document))
    more = {name: attribute_document(attribute, recodes) for name, (attribute, recodes) in programme.more.items()}
    write_text(data / HOUSEHOLDS_SCHEMA, schema_text(_with(programme, more)))
    listed = {
        level: {"title": level, "levels": [[code, code] for code in areas.codes[level]]} for level in programme.levels
    }
    write_text(data / AREAS_SCHEMA, schema_text(_with(programme, listed)))
    _write_file(blocks, data / BLOCKS)
    _write_file(people, data / PEOPLE)


def _with(programme: CommonTables, more: Mapping[str, Any]) -> dict[str, Any]:
    return programme.document | {"attributes": {**more, **programme.document["attributes"]}}


def _people(
    records: pa.Table, blocks: pa.Table, programme: CommonTables, rules: Sequence[inputs_frame.LevelRule]
) -> pa.Table:
    """The columns that matter, at the detail that is published, with the age group, the areas and a person id."""
    block = records.column(BLOCK)
    columns: dict[str, Any] = {"person_id": pa.array(np.arange(1, records.num_rows + 1)), BLOCK: block}
    columns |= {name: records.column(name) for name in records.column_names if name != BLOCK}
    for name, recode in programme.detail.items():
        if recode.name != name:
            columns[name] = _groups(records.column(name), recode)
    if programme.ages is not None and programme.part.age is not None:
        columns[AGE] = pa.array(programme.ages.of(records.column(programme.part.age.attribute).to_numpy()))
    codes = level_codes(blocks, rules)
    for level in programme.levels:
        of_block = dict(zip(codes[FINEST], codes[level], strict=True))
        columns[level] = pa.array([of_block[code] for code in block.to_pylist()], pa.string())
    return pa.table(columns)


def _groups(column: pa.ChunkedArray, recode: Recode) -> pa.Array:
    """The number of the group of each code."""
    codes = pa.array([level.code for level in recode.attribute.levels], column.type)
    place = pc.index_in(column.combine_chunks(), value_set=codes).to_numpy(zero_copy_only=False)
    return pa.array(recode.assignment[place])


def _write_file(table: pa.Table, path: Path) -> None:
    with whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _mark(people: pa.Table) -> str:
    """SHA-256 of people, or blocks, in their order."""
    digest = hashlib.sha256(b"confide/comparison/people/v1")
    for name in sorted(people.column_names):
        for chunk in people.column(name).combine_chunks().cast(pa.string()).to_pylist():
            digest.update(f"{chunk}\n".encode())
    return digest.hexdigest()
