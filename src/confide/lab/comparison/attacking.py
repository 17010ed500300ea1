"""The attack on one protection: block tables to records, records to people, and what came of it.

Abowd and Hawes (2023), sections 3 to 6. Blocks where nobody lives are left out: nobody could be recognised there, so
that no rate depends on them. Who is at risk is decided once for all protections, by the true tables: *certain* blocks
are those whose true tables have exactly one solution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.lab.attacks import Reconstruction, reconstruct, reidentification
from confide.lab.comparison.common_tables import CommonTable, CommonTables
from confide.lab.comparison.compared_people import ComparedPopulation
from confide.lab.comparison.comparison_spec import AttackPart
from confide.lab.comparison.figures import AreaFigures, ComparedAreas, level_of_records
from confide.lab.comparison.programme_file import AGE, BLOCK, POPULATION
from confide.lab.published.marginals import Published, PublishedGeography, PublishedMarginal, sparse
from confide.releases.tabular import masked
from confide.releases.workspace import Progress

ALL, UNIQUE, STANDS_OUT = "all", "unique", "unique&nonmodal"
EXPOSED = "unique&nonmodal&solvar0"
"""Those whom no statistic hides: alone of what the list knows of them (sex and age), not of the block's modal
group, in a certain block."""
UNIVERSES = (ALL, UNIQUE, STANDS_OUT, EXPOSED)
VARIABILITY = "solution_variability"
LIST = "list of people"


@dataclass(frozen=True, eq=False)
class AttackResult:
    """What an attack found: numbers, and the reconstructed records for whoever wants to look on."""

    records: pa.Table
    variability: Mapping[str, float | None]
    """For each block its solution variability; nothing where tables have noise."""
    numbers: Mapping[str, Any]


def sample(population: ComparedPopulation, number: int | None, seed: int) -> Integers:
    """Inhabited blocks, so many of them: a smaller sample is part of a larger one of the same seed."""
    inhabited: Integers = population.inhabited
    if number is None or number >= len(inhabited):
        return inhabited
    order = np.random.default_rng([seed, 1]).permutation(len(inhabited))
    return np.sort(inhabited[order[:number]])


def attack(
    population: ComparedPopulation,
    figures: AreaFigures,
    part: AttackPart,
    certain: Mapping[str, float | None] | None,
    *,
    seed: int,
    processes: int | None,
    progress: Progress,
) -> AttackResult:
    """The attack on the block tables of one protection.

    Args:
        population: The people.
        figures: What the protection publishes.
        part: What the attacker has, and how much of the work is done.
        certain: For each block the solution variability of the true tables; None: these are the true tables, and their
            own is taken.
        seed: Samples, ties and repeats follow from it.
        processes: How many processes, unless the part says so.
        progress: A display.

    Returns:
        The reconstructed records, the solution variability of these tables, and the numbers of the page.
    """
    complete = figures.exact and not figures.published
    number = part.sample(noisy=not figures.exact, suppressed=bool(figures.published))
    blocks = sample(population, number, seed)

    def solved(tables: Published) -> Reconstruction:
        return reconstruct(
            tables,
            repeats=part.repeats,
            seed=seed,
            processes=part.processes or processes,
            time_limit=part.seconds,
            progress=progress,
        )

    tables = published(figures, population.areas, population.programme, blocks)
    reconstruction = solved(tables)
    records = with_ages(reconstruction.records(), population.programme)
    own = {
        reconstruction.published.geography.blocks[block]: value for block, value in _variability(reconstruction).items()
    }
    numbers = _reconstructed(reconstruction, population, blocks)
    variability = own if certain is None else certain
    matched_records = records
    if not figures.exact:
        # Noise leaves open whether somebody of some sex and age is there at all; the list of people does not.
        with_list = solved(replace(tables, marginals=(*tables.marginals, listed(population, blocks))))
        matched_records = with_ages(with_list.records(), population.programme)
    numbers["perfect"] = _rates(
        population,
        matched_records,
        reidentification.AttackerSettings(seed=seed),
        variability,
        own if complete else None,
        blocks,
        seed,
    )
    numbers["ranking"] = _ranking(population, records, seed) if len(records) else []
    if part.settings != reidentification.AttackerSettings():
        numbers["given"] = _rates(
            population, records, part.settings, variability, own if complete else None, blocks, seed
        )
    return AttackResult(matched_records, own, numbers)


def published(figures: AreaFigures, areas: ComparedAreas, programme: CommonTables, blocks: Integers) -> Published:
    """The tables as the attacker reads them: those of blocks, and where these have noise those of the areas above."""
    codes = tuple(areas.blocks[block] for block in blocks)
    levels, units, unit_of_block = [BLOCK], [codes], [np.arange(len(codes))]
    rows = [blocks]
    for level in () if figures.exact else programme.levels[-2::-1]:
        here, of_block = np.unique(areas.unit_of_block[level][blocks], return_inverse=True)
        levels.append(level)
        units.append(tuple(areas.codes[level][unit] for unit in here))
        unit_of_block.append(np.asarray(of_block, np.int64).reshape(-1))
        rows.append(here)
    geography = PublishedGeography(tuple(levels), tuple(units), tuple(unit_of_block))
    marginals = [
        _marginal(figures, table, level, depth, rows[depth])
        for depth, level in enumerate(levels)
        for table in programme.tables
    ]
    return Published(programme.schema, geography, tuple(marginals), source="comparison")


def _marginal(figures: AreaFigures, table: CommonTable, level: str, depth: int, units: Integers) -> PublishedMarginal:
    """One table of some units of a level."""
    key = (level, table.name)
    counts, there = figures.counts[key][units], figures.there(key)[units]
    listed = there if key in figures.variances or not there.all() else counts != 0
    unit, cell = np.nonzero(listed)
    start = np.searchsorted(unit, np.arange(len(units) + 1)).astype(np.int64)
    value = counts[listed].astype(np.float64)
    return PublishedMarginal(
        table.name,
        depth,
        table.query,
        start,
        cell.astype(np.int64),
        value,
        figures.variances.get(key),
        absent_unknown=not bool(there.all()),
        bound=figures.bound,
        law=figures.laws.get(key),
    )


def listed(population: ComparedPopulation, blocks: Integers) -> PublishedMarginal:
    """What the best list of people says of a block: how many live there of each kind that it knows, such as each sex
    and age group."""
    people, programme = population.people, population.programme
    number = {population.areas.blocks[block]: place for place, block in enumerate(blocks.tolist())}
    unit = np.array([number.get(code, -1) for code in people.column("geocode").to_pylist()], np.int64)
    query = programme.schema.ordered_query(programme.known)
    cell = np.zeros(len(unit), np.int64)
    for variable in query.variables:
        level = level_of_records(people, programme, variable.attribute.name)
        cell = cell * variable.size + variable.assignment[level]
    key, count = np.unique((unit * query.cells + cell)[unit >= 0], return_counts=True)
    arrays = sparse(key // query.cells, key % query.cells, count.astype(np.float64), len(blocks))
    return PublishedMarginal(LIST, 0, query, *arrays)


def with_ages(records: pa.Table, programme: CommonTables) -> pa.Table:
    """Age groups as years: from, to, and the year itself where the group has one. Nothing, where no age is in years."""
    if programme.ages is None:
        return records
    starts = np.array(programme.ages.starts, np.int64)
    ends = np.append(starts[1:] - 1, 200)
    group = records.column(AGE).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    low, high = starts[group], ends[group]
    columns = {name: records.column(name) for name in records.column_names if name != AGE}
    return pa.table(
        columns
        | {
            "age": masked(low, low != high),
            "age_low": pa.array(low),
            "age_high": pa.array(high),
        }
    )


def _variability(reconstruction: Reconstruction) -> dict[int, float | None]:
    return {block: None if item is None else float(item.at_most) for block, item in reconstruction.variability.items()}


def _reconstructed(reconstruction: Reconstruction, population: ComparedPopulation, blocks: Integers) -> dict[str, Any]:
    everything = reconstruction.as_dict()
    names = ["exact", "persons", "unsolved", "deviation", "mean_solution_variability", "by_size", "seconds"]
    names += ["share_of_blocks_at_0", "share_of_persons_at_0"]
    truth = population.truth.counts[BLOCK, POPULATION][blocks]
    numbers = {name: everything[name] for name in names}
    return {
        "reconstruction": numbers
        | {
            "blocks_attacked": len(blocks),
            "inhabited_blocks": len(population.inhabited),
            "true_persons": int(truth.sum()),
        }
    }


def _rates(
    population: ComparedPopulation,
    records: pa.Table,
    settings: reidentification.AttackerSettings,
    certain: Mapping[str, float | None],
    own: Mapping[str, float | None] | None,
    blocks: Integers,
    seed: int,
) -> dict[str, Any]:
    """The rates of one attacker, with the certain blocks of the true tables and, where they can be told from the
    published tables alone, with those of these."""
    codes = pa.array([population.areas.blocks[block] for block in blocks], pa.string())
    people, linked = population.attacked, population.programme.linked
    attacker_file = reidentification.make_attacker(people, settings, linked=linked)
    attacker_file = attacker_file.filter(pc.is_in(attacker_file.column("geocode"), codes))
    inside = int(pc.sum(pc.is_in(people.column("geocode"), codes)).as_py())

    everywhere = _in_every_block(records, codes, linked)

    def rates(variability: Mapping[str, float | None]) -> reidentification.Rates:
        column = pa.array([variability.get(code) for code in everywhere.column("geocode").to_pylist()], pa.float64())
        marked = everywhere.append_column(VARIABILITY, column)
        return reidentification.reidentification_rates(
            marked, attacker_file, people, age_bins=population.programme.year_groups, seed=seed, linked=linked
        )

    with_certain = rates(certain)
    agreed = with_certain.agreement_in(ALL)
    universes: dict[str, Any] = {
        name: plain(with_certain.universe(name)) for name in UNIVERSES if with_certain.has(name)
    }
    if own is not None:
        mine = rates(own)
        universes["unique&nonmodal&own-solvar0"] = plain(mine.universe(EXPOSED)) if mine.has(EXPOSED) else None
    return {
        "attacker": settings.as_dict(),
        "attacker_records": with_certain.attacker_records,
        "agreement": agreed.agree / inside if inside else None,
        "population_unique_share": with_certain.population_unique_share,
        "universes": universes,
    }


def _ranking(population: ComparedPopulation, records: pa.Table, seed: int) -> list[dict[str, Any]]:
    """The match rates of the records that the attacker is surest of, beside those who know other blocks alone."""
    names = [name for name in records.column_names if name != VARIABILITY]
    programme = population.programme
    rates = reidentification.match_rates(
        records.select(names),
        population.attacked,
        age_bins=programme.year_groups,
        seed=seed,
        linked=programme.linked,
    )
    return [row.as_dict() for row in rates]


def _in_every_block(records: pa.Table, codes: pa.Array, linked: reidentification.LinkedAttributes) -> pa.Table:
    """The records, with one without any value, which matches nobody, in blocks that have none: a block whose people a
    protection has moved away is still one, and its people are still at stake."""
    ages = ("age", "age_low", "age_high") if linked.with_age else ()
    matched_columns = records.select(["geocode", *linked.codes, *ages])
    lacking = codes.filter(pc.invert(pc.is_in(codes, matched_columns.column("geocode").combine_chunks())))
    columns = {name: pa.nulls(len(lacking), matched_columns.schema.field(name).type) for name in linked.codes}
    columns |= {name: pa.nulls(len(lacking), matched_columns.schema.field(name).type) for name in ages}
    columns["geocode"] = lacking
    return pa.concat_tables([matched_columns, pa.table(columns, schema=matched_columns.schema)])


def plain(row: reidentification.LinkageRates) -> dict[str, Any]:
    """One universe as plain numbers, the guessers always beside."""
    return {
        "records": row.attacker_records,
        "putative": row.putative,
        "confirmed": row.confirmed,
        "putative_rate": row.putative_rate,
        "confirmed_rate": row.confirmed_rate,
        "precision": row.precision,
        "modal_guesser_precision": row.modal_guesser_precision,
        "proportional_guesser_precision": row.proportional_guesser_precision,
        "better_of_attack_and_guessers": row.better_of_attack_and_guessers,
        "no_better_than_a_guess": row.no_better_than_a_guess,
    }
