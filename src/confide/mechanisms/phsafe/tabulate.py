"""True counts: persons joined with their units, households truncated, every cell of every table. Confidential.

    geography ─► units that are housing units ─► persons of these units ─► at most τ of a household ─► cells

**Truncation.** Of the persons of a household that a table counts, at most τ are kept: those whose *rank* is smallest,

    rank = H(H(H(RTYPE), H(MAFID), H(QAGE), H(CENHISP), H(CENRACE), H(RELSHIP), H(copy)))        H: SHA-256, hexadecimal

with whole numbers as binary digits and the parts joined by commas; ``copy`` numbers rows that are alike, from 1. So
which persons are kept depends on the rows of the household alone, and one person more changes the kept ones by at most
one in and one out (``docs/proofs/phsafe.md``, Lemma 1). It is the Census Bureau's rule. With ``truncation = "keyed"``
the rank is an HMAC with a key of the release, and persons of crowded households are counted when there is one.

The counts of a table have the columns ``state``, ``group`` (A to G), ``origin`` (H or I) and ``cell_K`` for each
interior cell K; both iterations are empty where a record is in none of that level.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.engines import Engine, Source, identifier, literal
from confide.mechanisms.phsafe import settings

PERSON_COLUMNS = ("RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
UNIT_COLUMNS = ("RTYPE", "MAFID", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT")
GEO_COLUMNS = ("RTYPE", "MAFID", "TABBLKST")
"""The columns that are used, in the order of the Census Bureau's files."""
INTEGERS = frozenset({"MAFID", "QAGE", "CENHISP", "FINAL_POP", "NPF", "HHSPAN"})
HOUSING_UNIT = "2"
"""The record type of a housing unit in the geographic file: what it says counts."""


@dataclass(frozen=True)
class HouseholdFiles:
    """The three files of a release."""

    persons: Source
    units: Source
    geo: Source


def value(source: Source, column: str, kinds: Mapping[str, str]) -> str:
    """SQL for the value of a column: a whole number, NULL where there is none, or a text."""
    name = source.theirs(column)
    quoted = identifier(name)
    if column not in INTEGERS or kinds[name] == "integer":
        return quoted
    digits = f"translate({quoted}, '0123456789', '') = '' AND length({quoted}) BETWEEN 1 AND 18"
    return f"CASE WHEN {digits} THEN TRY_CAST({quoted} AS BIGINT) END"


def selected(engine: Engine, source: Source, columns: Sequence[str], renamed: Mapping[str, str] | None = None) -> str:
    """SQL for some columns of a file, under our names."""
    kinds, names = engine.kinds(source), renamed or {}
    return ", ".join(f"{value(source, name, kinds)} AS {identifier(names.get(name, name))}" for name in columns)


def in_states(states: Sequence[str], column: str = "TABBLKST") -> str:
    """SQL that is true of the states of a release."""
    return f"{identifier(column)} IN ({', '.join(literal(state) for state in states)})"


def housing_units(engine: Engine, geo: Source, states: Sequence[str]) -> str:
    """SQL for the addresses that are housing units, with their states, over the view ``geo``."""
    columns = selected(engine, geo, GEO_COLUMNS, {"TABBLKST": "state"})
    return (
        f'SELECT "MAFID", state FROM (SELECT {columns} FROM geo) AS place '
        f'WHERE "RTYPE" = {literal(HOUSING_UNIT)} AND {in_states(states, "state")}'
    )


def write_units(engine: Engine, files: HouseholdFiles, states: Sequence[str], into: Path) -> None:
    """The housing units with their states; what is there twice is left out."""
    columns = selected(engine, files.units, UNIT_COLUMNS, {"RTYPE": settings.UNIT_RECORD_TYPE})
    text = (
        f"SELECT unit.*, place.state FROM (SELECT {columns} FROM units) AS unit "
        f'JOIN ({housing_units(engine, files.geo, states)}) AS place ON place."MAFID" = unit."MAFID" '
        f'JOIN (SELECT "MAFID" FROM (SELECT {selected(engine, files.units, ["MAFID"])} FROM units) AS one '
        'GROUP BY "MAFID" HAVING count(*) = 1) AS once ON once."MAFID" = unit."MAFID"'
    )
    engine.write(text, into, units=files.units, geo=files.geo)


def write_persons(engine: Engine, files: HouseholdFiles, units: Path, into: Path) -> None:
    """The persons of these units, with what is known of the unit."""
    columns = selected(engine, files.persons, PERSON_COLUMNS)
    of_unit = ", ".join(f"unit.{identifier(name)}" for name in (settings.UNIT_RECORD_TYPE, *UNIT_COLUMNS[2:], "state"))
    text = (
        f"SELECT person.*, {of_unit} FROM (SELECT {columns} FROM persons) AS person "
        'JOIN units AS unit ON unit."MAFID" = person."MAFID"'
    )
    engine.write(text, into, persons=files.persons, units=units)


def rank_of(column: Mapping[str, str]) -> str:
    """SQL for the text by which persons of a household are ranked, over SQL for columns and for ``copy``."""
    texts = [f"bin({column[name]})" if name in INTEGERS else column[name] for name in PERSON_COLUMNS]
    hashes = ", ".join(f"sha256({text})" for text in (*texts, f"bin({column['copy']})"))
    return f"sha256(sha256(concat_ws(',', {hashes})))"


def kept(persons: str, tau: int) -> str:
    """SQL for the rows that truncation keeps of ``persons``, SQL for rows in which nobody is left to filter out.

    Ranks are computed in households that have too many alone: the others are kept whole.
    """
    columns = {name: identifier(name) for name in PERSON_COLUMNS} | {"copy": "copy"}
    alike = ", ".join(columns[name] for name in PERSON_COLUMNS)
    return (
        f"WITH taken AS ({persons}), "
        f'crowded AS (SELECT "MAFID" FROM taken GROUP BY "MAFID" HAVING count(*) > {tau}), '
        f"numbered AS (SELECT *, row_number() OVER (PARTITION BY {alike}) AS copy FROM taken "
        'WHERE "MAFID" IN (SELECT "MAFID" FROM crowded)), '
        f'ranked AS (SELECT *, row_number() OVER (PARTITION BY "MAFID" '
        f"ORDER BY {rank_of(columns)}, {alike}, copy) AS place FROM numbered) "
        'SELECT * FROM taken WHERE "MAFID" NOT IN (SELECT "MAFID" FROM crowded) '
        f"UNION ALL SELECT * EXCLUDE (copy, place) FROM ranked WHERE place <= {tau}"
    )


def crowded(persons: str, tau: int) -> str:
    """SQL for the rows of ``persons`` in households that have too many."""
    return f'SELECT * FROM ({persons}) AS taken QUALIFY count(*) OVER (PARTITION BY "MAFID") > {tau}'


def kept_by_key(rows: pa.Table, tau: int, key: bytes) -> pa.Table:
    """Of each household the rows whose rank is smallest, by HMAC-SHA256 of a secret key over the same content.

    Which they are depends on the rows of the household and on the key alone, so that Lemma 1 holds for every key.

    Args:
        rows: All rows of these households.
        tau: How many are kept of each.
        key: 32 bytes that nobody knows.

    Returns:
        The rows that count.
    """
    copies: Counter[tuple[Any, ...]] = Counter()
    ranked: dict[int, list[tuple[bytes, int]]] = {}
    contents = zip(*(rows.column(name).to_pylist() for name in PERSON_COLUMNS), strict=True)
    for place, content in enumerate(contents):
        copies[content] += 1
        text = "|".join(map(str, (*content, copies[content])))
        rank = hmac.digest(key, text.encode(), "sha256")
        ranked.setdefault(content[PERSON_COLUMNS.index("MAFID")], []).append((rank, place))
    places = sorted(place for of_household in ranked.values() for _, place in sorted(of_household)[:tau])
    return rows.take(pa.array(places, pa.int64()))


def taken(counted: settings.CountTable, tau: int | None) -> str:
    """SQL for the rows that a table counts, over the view ``rows``; ``tau`` is none where nobody is left out."""
    rows = f"SELECT * FROM rows WHERE {settings.sql_of(counted.universe)}"
    if not counted.of_persons or tau is None:
        return rows
    return kept(rows, tau)


def iteration_columns(counted: settings.CountTable) -> dict[str, str]:
    """SQL for the iteration of a record at the levels A-G and H,I; NULL where it is in none."""
    race, origin = ("HHRACE", "HHSPAN") if counted.race_of == "unit" else ("CENRACE", "CENHISP")
    *alone, several = (each.code for each in settings.iterations_of("A-G"))
    groups = " ".join(f"WHEN '{number:02d}' THEN '{code}'" for number, code in enumerate(alone, start=1))
    combined = f"CASE WHEN {identifier(race)} BETWEEN '07' AND '63' THEN '{several}' END"
    of_race = f"CASE {identifier(race)} {groups} ELSE {combined} END"
    of_origin = f"CASE WHEN {identifier(origin)} = 2 THEN 'H' WHEN {identifier(race)} = '01' THEN 'I' END"
    return {"group": of_race, "origin": of_origin}


def counting(counted: settings.CountTable, rows: str, cells: Mapping[int, str], number: str = "1") -> str:
    """SQL for the counts of a table: ``rows`` is SQL for what it counts, ``cells`` for what belongs to each cell."""
    keys = iteration_columns(counted)
    sums = ", ".join(
        f"CAST(sum(CASE WHEN {condition} THEN {number} ELSE 0 END) AS BIGINT) AS cell_{code}"
        for code, condition in cells.items()
    )
    grouped = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in keys.items())
    of_units = f" WHERE {settings.sql_of(counted.units)}" if counted.units else ""
    return f"SELECT state, {grouped}, {sums} FROM ({rows}) AS counted{of_units} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"


def count_table(
    engine: Engine,
    counted: settings.CountTable,
    tau: int | None,
    rows: Path,
    into: Path,
    *,
    uncrowded: int | None = None,
) -> None:
    """Writes the counts of a table; ``rows`` are the persons or the units. ``uncrowded``: of households that have no
    more than so many persons in the universe of the table."""
    cells = {cell.code: settings.any_of(cell.where) for cell in counted.interior}
    wanted = taken(counted, tau)
    if uncrowded is not None:
        wanted = f'SELECT * FROM ({wanted}) AS taken QUALIFY count(*) OVER (PARTITION BY "MAFID") <= {uncrowded}'
    engine.write(counting(counted, wanted, cells), into, rows=rows)


# Counts as arrays: areas, iterations and cells.


def dense(counts: pa.Table, level: str, iteration_level: str, states: Sequence[str], cells: Sequence[int]) -> Integers:
    """The counts of a geographic level and an iteration level: areas, iterations, cells; zero where there are none."""
    codes = [each.code for each in settings.iterations_of(iteration_level)]
    column = {"A-G": "group", "H,I": "origin"}.get(iteration_level)
    state = np.array([states.index(each) for each in counts.column("state").to_pylist()], np.int64)
    place = np.zeros(len(state), np.int64)
    if column is not None:
        place = np.array([codes.index(each) if each else -1 for each in counts.column(column).to_pylist()], np.int64)
    result: Integers = np.zeros((len(states), len(codes), len(cells)), np.int64)
    there = place >= 0
    for position, code in enumerate(cells):
        numbers = counts.column(f"cell_{code}").to_numpy()
        np.add.at(result[:, :, position], (state[there], place[there]), numbers[there])
    return result.sum(axis=0, keepdims=True) if level == settings.NATION else result


# Exact tables, as the Census Bureau's program makes them without noise: no truncation, and sums counted by themselves.


def exact_counting(counted: settings.CountTable, base: settings.CountTable) -> str:
    """SQL for the counts of all cells of an exact table, sums among them, over the view ``rows``."""
    special = counted.exact
    everything = {**base.universe, **special.where}
    cells = {cell.code: settings.any_of(cell.where) for cell in base.cells}
    cells |= dict.fromkeys(special.repeated, "TRUE")
    number = identifier(special.sums) if special.sums else "1"
    return counting(base, f"SELECT * FROM rows WHERE {settings.sql_of(everything)}", cells, number)


def exact_rows(
    engine: Engine, persons: Path, units: Path, states: Sequence[str], wanted: settings.CountTable
) -> Iterator[tuple[str, str, str, int, int]]:
    """The rows of an exact table: area, level, iteration, cell and count, for groups that anybody is in."""
    base = settings.table(wanted.exact.table) if wanted.exact.table else wanted
    rows = persons if base.counts == settings.PERSONS else units
    counts = engine.sql(exact_counting(wanted, base), rows=rows).reveal("for exact tables, which are confidential")
    cells = sorted(int(name.removeprefix("cell_")) for name in counts.column_names if name.startswith("cell_"))
    for level, codes in ((settings.NATION, ("1",)), (settings.STATE, tuple(states))):
        for iteration_level in wanted.iteration_levels:
            array = dense(counts, level, iteration_level, list(states), cells)
            for at, position, cell in np.argwhere(array > 0).tolist():
                code = settings.iterations_of(iteration_level)[position].code
                yield codes[at], level, code, cells[cell], int(array[at, position, cell])
