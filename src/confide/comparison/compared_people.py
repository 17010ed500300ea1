"""The population of a comparison: one file of people and one of blocks, in a form that every protection takes.

``DIR/data`` has the people with their age groups and areas, the blocks, and the schemas. All of it is confidential and
for its owner alone, made up or not, so that nobody has to look twice.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.comparison.common_tables import AGE, CommonTables, common_tables, schema_text
from confide.comparison.comparison_spec import LoadedComparison
from confide.comparison.figures import AreaFigures, ComparedAreas, tabulate
from confide.documents import load_shipped, parse_schema
from confide.engines import Engine, LocalEngine, Source
from confide.engines.groups import private_folder, whole_file, write_text
from confide.engines.protocol import identifier
from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.geography import Spine
from confide.inputs.frame import LevelRule, missing_columns, read_counts, read_frame, wrong_code_types
from confide.inputs.records import ROWS_NAMED, blocks_table, check_columns, check_records, column_expressions
from confide.population import simulate
from confide.releases.progress import Progress
from confide.releases.spec import find_sources
from confide.schema import Attribute

# The people and the blocks of a comparison, read from Parquet or CSV and checked before anything is made of them.
#
# What is written from here on has our column names and whole numbers, whatever the files had. A finding about records
# gives the row and the rule, never a value.


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
        people = _people_reading(engine, records)
    if counts:
        _housed(people, listed, records)
    return people, listed


@cache
def _attributes() -> tuple[Attribute, ...]:
    by_name = {attribute.name: attribute for attribute in parse_schema(load_shipped("schemas", "persons")).attributes}
    return tuple(by_name[name] for name in CODED)


def _one_state(spine: Spine, blocks: Source) -> None:
    states = len(spine.levels[0].codes)
    if states > 1:
        raise InputError(
            "several-states",
            "the blocks are of more than one state",
            where=Place(file=blocks.file, column=blocks.theirs(BLOCK)),
            found=f"{states:,} states",
            expected="blocks of one state",
            remedy="make a comparison for each state; or correct [geography] state",
        )


def _blocks(engine: Engine, source: Source, *, counts: bool) -> pa.Table:
    present = engine.kinds(source)
    names = COUNTS if counts else [name for name in COUNTS if source.theirs(name) in present]
    housing_counts = read_counts(engine, source, names)
    text = f"SELECT CAST({identifier(source.theirs(BLOCK))} AS VARCHAR) AS {BLOCK} FROM blocks"
    codes = engine.sql(text, blocks=source).reveal("the block table is public knowledge").column(BLOCK)
    return pa.table({BLOCK: codes} | {name: pa.array(housing_counts[name]) for name in names})


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


def _people_reading(engine: Engine, source: Source) -> pa.Table:
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
            "no-units",
            "a record lies in a block without housing units and group quarters (the first such rows: "
            f"{', '.join(f'{row:,}' for row in rows)})",
            where=Place(file=source.file, column=source.theirs(BLOCK), row=int(rows[0])),
            found=CONFIDENTIAL,
            expected="a block where housing_units or one of gq1 to gq7 is above zero",
            remedy="correct the records or the block table; or leave topdown out",
        )


def _no_household(source: Source, rows: Sequence[int]) -> Finding:
    first_rows = ", ".join(f"{row:,}" for row in rows)
    return Finding(
        code="no-household",
        what=f"a person in a household (hhgq 0) has no household_id (the first such rows: {first_rows})",
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


FOLDER, PEOPLE, BLOCKS = "data", "people.parquet", "blocks.parquet"
SCHEMA, HOUSEHOLDS_SCHEMA, AREAS_SCHEMA = "schema.toml", "schema-households.toml", "schema-areas.toml"
QUESTION = "question.json"
AREAS = ("county", "tract", "block")


@dataclass(frozen=True, eq=False)
class ComparedPopulation:
    """People, where they live, and the true tables."""

    folder: Path
    people: pa.Table = field(repr=False)
    blocks: pa.Table = field(repr=False)
    areas: ComparedAreas = field(repr=False)
    truth: AreaFigures = field(repr=False)
    programme: CommonTables = field(repr=False)
    digits: Mapping[str, int]
    made_up: bool
    fingerprint: str

    @property
    def persons(self) -> int:
        """How many people there are."""
        return int(self.people.num_rows)

    @property
    def inhabited(self) -> Any:
        """The blocks, by number, where somebody lives."""
        return np.flatnonzero(self.truth.counts["block", "population"][:, 0] > 0)


def prepare(loaded: LoadedComparison, folder: Path, progress: Progress) -> ComparedPopulation:
    """The people of the spec: read, or made up, and written to ``folder/data`` unless they are there already. A folder
    of other people, blocks or levels is refused."""
    spec, data = loaded.spec, private_folder(folder / FOLDER)
    digits, made_up = spec.geography.digits, spec.comparison.made_up
    there = (data / PEOPLE).exists()
    question: list[Any] = ["made up", made_up, spec.comparison.seed]
    if made_up is None:
        people, blocks = _own(loaded, data)
        question = ["read", _mark(people), _mark(blocks)]
    elif not there:
        people, blocks = _made_up(made_up, spec.comparison.seed, data, digits, progress)
    question_text = json.dumps({"question": [*question, digits]}) + "\n"
    if there and not ((data / QUESTION).exists() and (data / QUESTION).read_text(encoding="utf-8") == question_text):
        raise _changed(data / PEOPLE)
    if not there:
        write_text(data / QUESTION, question_text)
        _write(data, people, blocks, digits)
    return _load(data, digits, made_up=made_up is not None)


def _own(loaded: LoadedComparison, data: Path) -> tuple[pa.Table, pa.Table]:
    # A spec of a comparison has the parts that the function looks at, and is no spec of a release.
    sources, findings = find_sources(cast("Any", loaded))
    if findings:
        raise InputError(findings)
    counts = any(part.counts_units for part in loaded.protections)
    return _read(sources["records"], sources["blocks"], loaded.spec.geography.digits, data, counts=counts)


def _made_up(
    persons: int, seed: int, data: Path, digits: Mapping[str, int], progress: Progress
) -> tuple[pa.Table, pa.Table]:
    try:
        files = simulate(data / "made-up", persons=persons, seed=seed, progress=progress).files
        return _read(Source(files.persons, "parquet"), Source(files.blocks, "parquet"), digits, data, counts=True)
    finally:
        shutil.rmtree(data / "made-up", ignore_errors=True)


def _read(
    records: Source, blocks: Source, digits: Mapping[str, int], data: Path, *, counts: bool
) -> tuple[pa.Table, pa.Table]:
    scratch = private_folder(data / "scratch")
    try:
        people, listed = read(records, blocks, digits, scratch, counts=counts)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _people(people, digits), listed


def _load(data: Path, digits: Mapping[str, int], *, made_up: bool) -> ComparedPopulation:
    people, blocks, programme = pq.read_table(data / PEOPLE), pq.read_table(data / BLOCKS), common_tables()
    areas = ComparedAreas.of(blocks.column("geocode").to_pylist(), digits)
    truth = tabulate(people, areas, programme)
    return ComparedPopulation(data, people, blocks, areas, truth, programme, digits, made_up, _mark(people))


def _write(data: Path, people: pa.Table, blocks: pa.Table, digits: Mapping[str, int]) -> None:
    """All files of the folder; the people last, so that they are there only when everything is."""
    programme = common_tables()
    areas = ComparedAreas.of(blocks.column("geocode").to_pylist(), digits)
    write_text(data / SCHEMA, schema_text(programme.document))
    persons = load_shipped("schemas", "persons")["attributes"]
    more = {name: persons[name] for name in ("hhgq", "age")}
    write_text(data / HOUSEHOLDS_SCHEMA, schema_text(_with(programme, more)))
    listed = {level: {"title": level, "levels": [[code, code] for code in areas.codes[level]]} for level in AREAS}
    write_text(data / AREAS_SCHEMA, schema_text(_with(programme, listed)))
    _write_file(blocks, data / BLOCKS)
    _write_file(people, data / PEOPLE)


def _with(programme: CommonTables, more: Mapping[str, Any]) -> dict[str, Any]:
    return programme.document | {"attributes": {**more, **programme.document["attributes"]}}


def _people(records: pa.Table, digits: Mapping[str, int]) -> pa.Table:
    """The columns that matter, with the age group, the areas and a person id."""
    block = records.column("geocode")
    columns: dict[str, Any] = {"person_id": pa.array(np.arange(1, records.num_rows + 1)), "geocode": block}
    columns |= {name: records.column(name) for name in (HOUSEHOLD, *CODED)}
    columns[AGE] = pa.array(common_tables().ages.of(records.column("age").to_numpy()))
    columns |= {level: pc.utf8_slice_codeunits(block, 0, digits[level]) for level in ("county", "tract")}
    return pa.table(columns | {"block": block})


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


def _changed(path: Path) -> InputError:
    return InputError(
        "other-people",
        "the folder holds a comparison of other records",
        where=Place(file=path.name),
        found="other people, blocks or levels than those of the spec",
        expected="those of the spec, or a new folder",
        remedy="name another folder with --out, or remove this one yourself",
    )
