"""The population of a comparison: one file of people and one of blocks, in a form that every protection takes.

``DIR/data`` has the people with their age groups and areas, the blocks, and the schemas. All of it is confidential and
for its owner alone, made up or not, so that nobody has to look twice.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide import api
from confide.comparison.figures import Areas, Figures, tabulate
from confide.comparison.programme import AGE, Programme, programme, schema_text
from confide.comparison.spec import LoadedComparison
from confide.engines.files import private_folder, whole_file, write_text
from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.inputs.shipped import load_shipped
from confide.runs.progress import Progress

FOLDER, PEOPLE, BLOCKS = "data", "people.parquet", "blocks.parquet"
SCHEMA, HOUSEHOLDS_SCHEMA, AREAS_SCHEMA = "schema.toml", "schema-households.toml", "schema-areas.toml"
NEEDED = ("geocode", "household_id", "hhgq", "sex", "age", "hispanic", "cenrace")
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
    """The people of the spec: read, or made up, and written to ``folder/data`` unless they are there already."""
    spec = loaded.spec
    data = private_folder(folder / FOLDER)
    if spec.comparison.made_up is not None:
        if not (data / PEOPLE).exists():
            files = api.synthesize(
                data / "made-up", persons=spec.comparison.made_up, seed=spec.comparison.seed, progress=progress
            )
            records, blocks = _read(files.persons, ()), _read(files.blocks, ())
    else:
        assert spec.data is not None
        records = _read(loaded.resolve(spec.data.records), NEEDED)
        blocks = _read(loaded.resolve(spec.data.blocks), ("geocode",))
    if not (data / PEOPLE).exists():
        _write(data, records, blocks, spec.geography.digits)
        shutil.rmtree(data / "made-up", ignore_errors=True)
    elif spec.data is not None and _mark(_people(records, spec.geography.digits)) != _mark(_read(data / PEOPLE, ())):
        raise _changed(data / PEOPLE)
    return _load(data, spec.geography.digits, made_up=spec.comparison.made_up is not None)


def _load(data: Path, digits: Mapping[str, int], *, made_up: bool) -> Population:
    people, blocks, made = _read(data / PEOPLE, ()), _read(data / BLOCKS, ()), programme()
    areas = Areas.of(blocks.column("geocode").to_pylist(), digits)
    return Population(data, people, blocks, areas, tabulate(people, areas, made), made, digits, made_up, _mark(people))


def _write(data: Path, records: pa.Table, blocks: pa.Table, digits: Mapping[str, int]) -> None:
    """All files of the folder; the people last, so that they are there only when everything is."""
    made = programme()
    codes = blocks.column("geocode").cast(pa.string())
    if codes.null_count or pc.count_distinct(codes).as_py() < len(codes):
        what, expected = "a block has no code, or is listed twice", "each block once"
        raise InputError(
            Finding("bad-blocks", what, Place(column="geocode"), None, expected, "correct the block table")
        )
    areas = Areas.of(codes.to_pylist(), digits)
    people = _people(records, digits)
    tabulate(people, areas, made)  # for its findings
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
    missing = [name for name in ("geocode", "sex", "age", "hispanic", "cenrace", "hhgq") if records[name].null_count]
    if missing:
        raise InputError(
            Finding("missing-value", "a record has no value", Place(column=name), CONFIDENTIAL, "a value in each row")
            for name in missing
        )
    try:
        years = records.column("age").cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        what, expected = "an age is not a whole number", "years, from 0 on"
        raise InputError(Finding("bad-age", what, Place(column="age"), CONFIDENTIAL, expected)) from None
    block = records.column("geocode").cast(pa.string())
    columns: dict[str, Any] = {"person_id": pa.array(np.arange(1, records.num_rows + 1)), "geocode": block}
    columns |= {name: records.column(name) for name in NEEDED[1:]}
    columns[AGE] = pa.array(programme().ages.of(years))
    columns |= {level: pc.utf8_slice_codeunits(block, 0, digits[level]) for level in ("county", "tract")}
    return pa.table(columns | {"block": block})


def _read(path: Path, needed: tuple[str, ...]) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        found = (error.strerror if isinstance(error, OSError) else None) or "another content"
        what, remedy = "the file cannot be read", "check the path; `confide synthesize` writes such files"
        raise InputError(Finding("no-file", what, Place(file=path.name), found, "a Parquet file", remedy)) from None
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        raise InputError(
            Finding(
                code="missing-column",
                what=f"there is no column {name!r}",
                where=Place(file=path.name, column=name),
                found=", ".join(table.column_names)[:200],
                expected=", ".join(needed),
                remedy="add it; `confide synthesize` writes such files",
            )
            for name in missing
        )
    return table


def _write_file(table: pa.Table, path: Path) -> None:
    with whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _mark(people: pa.Table) -> str:
    """SHA-256 of the people in their order."""
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
            found="other records than those of the spec",
            expected="the same records, or a new folder",
            remedy="name another folder with --out, or remove this one yourself",
        )
    )
