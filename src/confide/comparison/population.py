"""The population of a comparison: one file of people and one of blocks, in a form that every protection takes.

``DIR/data`` has the people with their age groups and areas, the blocks, and the schemas. All of it is confidential and
for its owner alone, made up or not, so that nobody has to look twice.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide import api
from confide.comparison.figures import Areas, Figures, tabulate
from confide.comparison.programme import AGE, Programme, programme, schema_text
from confide.comparison.reading import CODED, HOUSEHOLD, read
from confide.comparison.spec import LoadedComparison
from confide.engines import Source
from confide.engines.files import private_folder, whole_file, write_text
from confide.errors import Finding, InputError, Place
from confide.inputs.shipped import load_shipped
from confide.runs.progress import Progress
from confide.runs.sources import find_sources

FOLDER, PEOPLE, BLOCKS = "data", "people.parquet", "blocks.parquet"
SCHEMA, HOUSEHOLDS_SCHEMA, AREAS_SCHEMA = "schema.toml", "schema-households.toml", "schema-areas.toml"
QUESTION = "question.json"
AREAS = ("county", "tract", "block")


@dataclass(frozen=True, eq=False)
class Population:
    """People, where they live, and the true tables."""

    folder: Path
    people: pa.Table = field(repr=False)
    blocks: pa.Table = field(repr=False)
    areas: Areas = field(repr=False)
    truth: Figures = field(repr=False)
    programme: Programme = field(repr=False)
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


def prepare(loaded: LoadedComparison, folder: Path, progress: Progress) -> Population:
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
    asked = json.dumps({"question": [*question, digits]}) + "\n"
    if there and not ((data / QUESTION).exists() and (data / QUESTION).read_text(encoding="utf-8") == asked):
        raise _changed(data / PEOPLE)
    if not there:
        write_text(data / QUESTION, asked)
        _write(data, people, blocks, digits)
    return _load(data, digits, made_up=made_up is not None)


def _own(loaded: LoadedComparison, data: Path) -> tuple[pa.Table, pa.Table]:
    # A spec of a comparison has the parts that the function looks at, and is no spec of a release.
    sources, findings = find_sources(cast("Any", loaded))
    if findings:
        raise InputError(findings)
    estimated = any(part.mechanism == "topdown" for part in loaded.protections)
    return _read(sources["records"], sources["blocks"], loaded.spec.geography.digits, data, counts=estimated)


def _made_up(
    persons: int, seed: int, data: Path, digits: Mapping[str, int], progress: Progress
) -> tuple[pa.Table, pa.Table]:
    try:
        files = api.synthesize(data / "made-up", persons=persons, seed=seed, progress=progress)
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


def _load(data: Path, digits: Mapping[str, int], *, made_up: bool) -> Population:
    people, blocks, made = pq.read_table(data / PEOPLE), pq.read_table(data / BLOCKS), programme()
    areas = Areas.of(blocks.column("geocode").to_pylist(), digits)
    return Population(data, people, blocks, areas, tabulate(people, areas, made), made, digits, made_up, _mark(people))


def _write(data: Path, people: pa.Table, blocks: pa.Table, digits: Mapping[str, int]) -> None:
    """All files of the folder; the people last, so that they are there only when everything is."""
    made = programme()
    areas = Areas.of(blocks.column("geocode").to_pylist(), digits)
    write_text(data / SCHEMA, schema_text(made.document))
    persons = load_shipped("schemas", "persons")["attributes"]
    more = {name: persons[name] for name in ("hhgq", "age")}
    write_text(data / HOUSEHOLDS_SCHEMA, schema_text(_with(made, more)))
    listed = {level: {"title": level, "levels": [[code, code] for code in areas.codes[level]]} for level in AREAS}
    write_text(data / AREAS_SCHEMA, schema_text(_with(made, listed)))
    _write_file(blocks, data / BLOCKS)
    _write_file(people, data / PEOPLE)


def _with(made: Programme, more: Mapping[str, Any]) -> dict[str, Any]:
    return made.document | {"attributes": {**more, **made.document["attributes"]}}


def _people(records: pa.Table, digits: Mapping[str, int]) -> pa.Table:
    """The columns that matter, with the age group, the areas and a person id."""
    block = records.column("geocode")
    columns: dict[str, Any] = {"person_id": pa.array(np.arange(1, records.num_rows + 1)), "geocode": block}
    columns |= {name: records.column(name) for name in (HOUSEHOLD, *CODED)}
    columns[AGE] = pa.array(programme().ages.of(records.column("age").to_numpy()))
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
        Finding(
            code="other-people",
            what="the folder holds a comparison of other records",
            where=Place(file=path.name),
            found="other people, blocks or levels than those of the spec",
            expected="those of the spec, or a new folder",
            remedy="name another folder with --out, or remove this one yourself",
        )
    )
