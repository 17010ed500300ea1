"""True counts: how many persons of each sex and age group every population group has. Confidential.

A person's iterations depend on the codes alone, so they are found once for every combination of codes that occurs (a
*pattern*); a person's areas depend on the block alone, so they are found once for every combination of areas that
blocks lie in (a *zone*). The records are scanned once; persons are then counted by zone, iteration and cell, and from
that by area: tracts from zones, counties from tracts, and so on. Nothing is done person by person or group by group.

The counts of a level have the columns ``part`` (first area of the part), ``group``, ``cell`` (of sex by 23 ages) and
``n``, sorted; groups without anybody have no row.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Engine, Source, identifier, literal, write_parquet
from confide.file_system import private_folder
from confide.mechanisms.safetab.codes import CodeLists, iterations_of
from confide.mechanisms.safetab.records import (
    CODE_COLUMNS,
    NULL,
    RACE_COLUMNS,
    PassFilter,
    in_states,
    person_expressions,
)
from confide.mechanisms.safetab.regions import Regions, area_column
from confide.releases import Job, Workspace

# The race and ethnicity codes of a person as a few whole numbers: quicker to compare than nine texts.
#
# A code has four digits, the first not 0, so four codes are the digits of a number below 10**16; ``Null`` is 0000.
# Only the codes that count are packed: the first ``max_race_codes`` races and the ethnicity.


CODES_PER_KEY = 4
BASE = 10_000


def key_expressions(max_race_codes: int, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """SQL for each key, over the expressions of the code columns (their names, if they are not given)."""
    number = {
        name: f"CASE WHEN {text} = {literal(NULL)} THEN 0 ELSE CAST({text} AS BIGINT) END"
        for name, text in (columns or {name: name for name in CODE_COLUMNS}).items()
    }
    keys = {}
    for position, names in enumerate(_packed(max_race_codes)):
        scaled = [f"({number[name]}) * {BASE**place}" for place, name in enumerate(names)]
        keys[f"key_{position}"] = f"CAST({' + '.join(scaled)} AS BIGINT)"
    return keys


def unpack(keys: pa.Table, max_race_codes: int) -> pa.Table:
    """The columns of codes of rows of keys; columns that do not count are ``Null``."""
    texts = pa.array([NULL, *(f"{code:04d}" for code in range(1, BASE))])
    nothing = np.zeros(keys.num_rows, np.int64)
    codes = dict.fromkeys(CODE_COLUMNS, nothing)
    for position, names in enumerate(_packed(max_race_codes)):
        quotient = keys.column(f"key_{position}").to_numpy()
        for name in names:
            quotient, codes[name] = np.divmod(quotient, BASE)
    return pa.table(
        {
            name: pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), texts)
            for name, numbers in codes.items()
        }
    )


def _packed(max_race_codes: int) -> list[tuple[str, ...]]:
    """The columns that are packed into each key."""
    used = (CODE_COLUMNS[-1], *RACE_COLUMNS[:max_race_codes])
    return [used[begin : begin + CODES_PER_KEY] for begin in range(0, len(used), CODES_PER_KEY)]


ZONE = "zone"
PATTERNS_AT_ONCE = 1 << 20
NESTED = {
    "COUNTY": "TRACT",
    "STATE": "COUNTY",
    "USA": "STATE",
    "PR-COUNTY": "PR-TRACT",
    "PR-STATE": "PR-COUNTY",
}
"""Region types made of areas of another one, each of which lies in one of them."""


class CountedFilter(PassFilter, Protocol):
    """How many codes of a record count."""

    @property
    def max_race_codes(self) -> int: ...


class CountedLevel(Protocol):
    """A level whose groups are counted: areas of a type crossed with iterations."""

    @property
    def name(self) -> str: ...
    @property
    def region_type(self) -> str: ...
    @property
    def iterations(self) -> npt.NDArray[np.int64]: ...
    @property
    def areas_per_part(self) -> int: ...


class CountedProblem(Protocol):
    """What is counted, of persons or of households."""

    @property
    def settings(self) -> CountedFilter: ...
    @property
    def lists(self) -> CodeLists: ...
    @property
    def regions(self) -> Regions: ...
    @property
    def records(self) -> Source: ...
    @property
    def levels(self) -> Sequence[CountedLevel]: ...


Expressions = Callable[[Engine, Source], Mapping[str, str]]
"""SQL over records that passed the checks: the ``code`` of the block, the ``cell``, and the columns of codes."""


def counts_file(workspace: Workspace, level: CountedLevel) -> Path:
    """Where the true counts of a level are."""
    return workspace.counts / f"{level.name}.parquet"


def tabulate(problem: CountedProblem, job: Job, expressions: Expressions = person_expressions) -> None:
    """Counts the records for every level. What an earlier try has left whole is not counted again.

    Args:
        problem: Settings, code lists, geography and the file of records.
        job: Engine, workspace and progress of the run. The counts of a level go to :func:`counts_file`: one row for
            each group and cell (of persons sex by 23 ages) that anybody is in.
        expressions: What a record is: SQL for its block, its cell and its codes.
    """
    private_folder(job.workspace.counts)
    missing = [level for level in problem.levels if not counts_file(job.workspace, level).exists()]
    with job.progress.stage("Counting records", 3 + len(problem.levels)) as advance:
        advance(len(problem.levels) - len(missing))
        if not missing:
            advance(3)
            return
        folder = job.workspace.counts / "between"
        shutil.rmtree(folder, ignore_errors=True)
        private_folder(folder)
        # Zones: sets of blocks that lie in the same area of every type. Public, from the geography alone.
        blocks, zones = folder / "blocks.parquet", folder / "zones.parquet"
        write_zones(problem.regions, blocks, zones)
        # The records are scanned once: each person becomes a zone, a cell (sex by 23 ages) and packed codes.
        persons, patterns, members = folder / "persons.parquet", folder / "patterns.parquet", folder / "members"
        _read_persons(problem, job.engine, blocks, persons, expressions(job.engine, problem.records))
        advance(1)
        # Iterations depend on the codes alone, so they are found once for each combination that occurs.
        _find_patterns(problem, job.engine, persons, patterns, members)
        advance(1)
        # A person counts in every iteration of their codes: counts by zone, iteration and cell.
        groups = folder / "groups.parquet"
        keys = key_expressions(problem.settings.max_race_codes)
        job.engine.write(_by_iteration(keys), groups, persons=persons, patterns=patterns, members=members)
        persons.unlink()
        advance(1)
        by_area: dict[str, Path] = {}
        # The finer type comes first, as the coarser is made of it.
        for level in reversed(missing):
            region = level.region_type
            if region not in by_area:
                by_area[region] = folder / f"{region}.parquet"
                text, finer = _by_area(region, by_area)
                job.engine.write(text, by_area[region], finer=finer or groups, zones=zones)
            # Last the groups of the level: area times iteration, of the iterations tabulated there.
            iterations_file = folder / "kept.parquet"
            _write_kept(level, iterations_file)
            job.engine.write(
                _by_group(level), counts_file(job.workspace, level), counted=by_area[region], kept=iterations_file
            )
            advance(1)
        shutil.rmtree(folder)


def write_zones(regions: Regions, blocks: Path, zones: Path) -> None:
    """Two files: for every block its zone, and for every zone its area of each type. Both public."""
    numbers = {area_column(region): regions.numbers(region) for region in regions.areas}
    zone, first = np.zeros(regions.blocks.num_rows, np.int64), np.zeros(1, np.int64)
    for column in numbers.values():
        # The areas of a type are fewer than the blocks, so that the products stay far below 2**63.
        _, first, zone = np.unique(zone * (len(zone) + 2) + column + 1, return_index=True, return_inverse=True)
    code = regions.blocks.column("code")
    write_parquet(pa.table({"code": code, ZONE: pa.array(zone.astype(np.int32))}), blocks)
    areas = {name: column[first].astype(np.int32) for name, column in numbers.items()}
    write_parquet(pa.table({ZONE: np.arange(len(first), dtype=np.int32), **areas}), zones)


def _read_persons(
    problem: CountedProblem, engine: Engine, blocks: Path, into: Path, expressions: Mapping[str, str]
) -> None:
    """The one scan of the records: of each person the zone, the cell and the codes, packed into numbers."""
    keys = key_expressions(problem.settings.max_race_codes, expressions)
    selected = ", ".join(f"{expression} AS {name}" for name, expression in keys.items())
    text = (
        f"SELECT blocks.zone AS zone, person.cell AS cell, {', '.join(f'person.{name} AS {name}' for name in keys)} "
        f"FROM (SELECT {expressions['code']} AS code, "
        f"CAST({expressions['cell']} AS SMALLINT) AS cell, {selected} "
        f"FROM records WHERE {in_states(problem.settings, problem.records)}) AS person "
        "JOIN blocks ON blocks.code = person.code"
    )
    engine.write(text, into, records=problem.records, blocks=blocks)


def _find_patterns(problem: CountedProblem, engine: Engine, persons: Path, patterns: Path, members: Path) -> None:
    """Every combination of codes that occurs, numbered, and the iterations of each, in a folder of files."""
    most = problem.settings.max_race_codes
    names = ", ".join(key_expressions(most))
    distinct = engine.sql(f"SELECT DISTINCT {names} FROM persons", persons=persons).reveal(
        "to find iterations of codes"
    )
    numbers = np.arange(distinct.num_rows, dtype=np.int32)
    write_parquet(distinct.append_column("pattern", pa.array(numbers)), patterns)
    private_folder(members)
    for begin in range(0, max(distinct.num_rows, 1), PATTERNS_AT_ONCE):
        some = iterations_of(problem.lists, unpack(distinct.slice(begin, PATTERNS_AT_ONCE), most), most)
        pattern, iteration = (some.column(name).to_numpy() for name in ("pattern", "iteration"))
        columns = {"pattern": (pattern + begin).astype(np.int32), "iteration": iteration.astype(np.int32)}
        write_parquet(pa.table(columns), members / f"{begin:012d}.parquet")


def _by_iteration(keys: Mapping[str, str]) -> str:
    return (
        "SELECT persons.zone AS zone, members.iteration AS iteration, persons.cell AS cell, count(*) AS n "
        f"FROM persons JOIN patterns ON {_equal('persons', 'patterns', list(keys))} "
        "JOIN members ON members.pattern = patterns.pattern GROUP BY 1, 2, 3"
    )


def _equal(one: str, other: str, names: Sequence[str]) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in names)


def _by_area(region: str, files: Mapping[str, Path]) -> tuple[str, Path | None]:
    """SQL that counts by area, iteration and cell, over the counts of the areas that those of this type are made of,
    if there are such counts, and over the counts of zones (None) if not."""
    finer = NESTED.get(region)
    area = identifier(area_column(region))
    if finer is None or finer not in files:
        within, key = f"SELECT zone AS part_of, {area} AS area FROM zones WHERE {area} >= 0", "zone"
    else:
        part = identifier(area_column(finer))
        within, key = f"SELECT DISTINCT {part} AS part_of, {area} AS area FROM zones WHERE {part} >= 0", "area"
    text = (
        "SELECT within.area AS area, finer.iteration AS iteration, finer.cell AS cell, "
        f"CAST(sum(finer.n) AS BIGINT) AS n FROM finer JOIN ({within}) AS within ON within.part_of = finer.{key} "
        "GROUP BY 1, 2, 3"
    )
    return text, None if key == "zone" or finer is None else files[finer]


def _write_kept(level: CountedLevel, path: Path) -> None:
    """The iterations of a level with their places in it."""
    places = np.arange(len(level.iterations))
    pq.write_table(pa.table({"iteration": pa.array(level.iterations), "place": pa.array(places)}), path)


def _by_group(level: CountedLevel) -> str:
    area = "CAST(counted.area AS BIGINT)"
    return (
        f"SELECT {area} - {area} % {level.areas_per_part} AS part, "
        f'{area} * {len(level.iterations)} + kept.place AS "group", CAST(counted.cell AS BIGINT) AS cell, '
        "counted.n AS n FROM counted JOIN kept ON kept.iteration = counted.iteration ORDER BY 2, 3"
    )
