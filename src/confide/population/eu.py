"""Writing made-up people for the 2021 EU census programme: records, their schema, and the list of tables.

    persons.parquet   one row for each person, one column of text for each variable at its finest
    schema.toml       the codes of these columns, and the recodes that the programme asks for
    tables.toml       the 103 tables of persons, as a spec lists tables

They are for trials of size and speed: no share in them says anything about a real country. What they are like:
``docs/concepts/made-up-people.md``.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from confide.engines.files import whole_file, write_text
from confide.errors import Finding, ParameterError
from confide.population.draw import GENERATOR as DRAWS
from confide.population.eu_people import GENERATOR, EuPeople
from confide.population.eu_settings import LEVELS, Areas, programme_tables, render_schema, render_tables
from confide.population.write import cannot_write

MOST_PERSONS = 400_000_000
MOST_AREAS = 100_000
LARGEST_SEED = 2**64 - 1
PUBLIC = 0o644


class EuFiles(NamedTuple):
    """Where the people, their schema and the tables were written."""

    records: Path
    schema: Path
    tables: Path


def write_eu(folder: str | Path, persons: int, seed: int, areas: Areas | None = None) -> EuFiles:
    """Writes the three files into ``folder``, which is made if it is not there; files of these names are replaced.

    The same persons, seed and areas give the same bytes with the same versions of numpy and pyarrow.
    """
    areas = Areas() if areas is None else areas
    _check(persons, seed, areas)
    folder = Path(folder)
    target = EuFiles(folder / "persons.parquet", folder / "schema.toml", folder / "tables.toml")
    people = EuPeople(persons, seed, areas)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_records(people, target.records)
        write_text(target.schema, render_schema(people.document), mode=PUBLIC)
        write_text(target.tables, render_tables(programme_tables(people.settings)), mode=PUBLIC)
    except OSError as error:
        raise cannot_write(folder, error, 10) from error
    return target


def _write_records(people: EuPeople, path: Path) -> None:
    # Readers get plain text, and not how Arrow held it here.
    with (
        whole_file(path, mode=PUBLIC) as temporary,
        pq.ParquetWriter(temporary, people.arrow_schema, compression="zstd", store_schema=False) as writer,
    ):
        for batch in people.batches():
            writer.write_batch(batch)
        writer.add_key_value_metadata({"confide.population": json.dumps(_identity(people), sort_keys=True)})


def _identity(people: EuPeople) -> dict[str, object]:
    """What decides every byte of the files."""
    return {
        "made_up": "nothing here comes from a real person or place",
        "persons": people.persons,
        "seed": people.seed,
        "areas": list(people.areas),
        "settings": people.settings.id,
        "settings_sha256": sha256(people.settings.model_dump_json().encode()).hexdigest(),
        "generator": [DRAWS, GENERATOR],
    }


def _check(persons: int, seed: int, areas: Areas) -> None:
    findings = []
    if not 1 <= persons <= MOST_PERSONS:
        expected = f"a whole number from 1 to {MOST_PERSONS:,}"
        findings.append(_wrong("persons", "this number of made-up persons cannot be made", str(persons), expected))
    if not 0 <= seed <= LARGEST_SEED:
        what = "the seed of the made-up people is not one"
        findings.append(_wrong("seed", what, str(seed), "a whole number from 0 to 2^64 - 1"))
    if not all(1 <= upper <= lower <= MOST_AREAS for upper, lower in pairwise((1, *areas))):
        found = ", ".join(f"{number:,} {level}" for level, number in zip(LEVELS, areas, strict=True))
        expected = f"of each kind at least as many as of the kind before, from 1 to {MOST_AREAS:,}"
        findings.append(_wrong("areas", "a country cannot have these numbers of areas", found, expected))
    if findings:
        raise ParameterError(findings)


def _wrong(name: str, what: str, found: str, expected: str) -> Finding:
    return Finding(code=f"{name}-out-of-range", what=what, found=found, expected=expected, remedy=f"give other {name}")
