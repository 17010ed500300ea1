"""The attack on one protection: block tables to records, records to people, and what came of it.

Abowd and Hawes (2023), sections 3 to 6. Blocks where nobody lives are left out: nobody could be recognised there, so
that no rate depends on them. Who is at risk is decided once for all protections, by the true tables: *certain* blocks
are those whose true tables have exactly one solution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.attacks.reconstruction import Reconstruction, reconstruct
from confide.attacks.reidentification import (
    AttackerSettings,
    LinkageRates,
    Rates,
    make_attacker,
    reidentification_rates,
)
from confide.comparison.common_tables import AGE, CommonTables
from confide.comparison.compared_people import ComparedPopulation
from confide.comparison.comparison_spec import AttackPart
from confide.comparison.figures import AreaFigures, ComparedAreas, Integers
from confide.releases.progress import Progress
from confide.releases.published import Published, PublishedGeography, PublishedMarginal

ALL, UNIQUE, STANDS_OUT = "all", "unique", "unique&nonmodal"
EXPOSED = "unique&nonmodal&solvar0"
"""Those whom no statistic hides: alone of their sex and age, not of the block's modal group, in a certain block."""
UNIVERSES = (ALL, UNIQUE, STANDS_OUT, EXPOSED)
VARIABILITY = "solution_variability"


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
    reconstruction = reconstruct(
        published(figures, population.areas, population.programme, blocks),
        repeats=part.repeats,
        seed=seed,
        processes=part.processes or processes,
        time_limit=part.seconds,
        progress=progress,
    )
    records = with_ages(reconstruction.records(), population.programme)
    own = {
        reconstruction.published.geography.blocks[block]: value for block, value in _variability(reconstruction).items()
    }
    numbers = _reconstructed(reconstruction, population, blocks)
    attackers = {"perfect": AttackerSettings(seed=seed)}
    if part.settings != AttackerSettings():
        attackers["given"] = part.settings
    variability = own if certain is None else certain
    for name, settings in attackers.items():
        numbers[name] = _rates(population, records, settings, variability, own if complete else None, blocks, seed)
    return AttackResult(records, own, numbers)


def published(figures: AreaFigures, areas: ComparedAreas, programme: CommonTables, blocks: Integers) -> Published:
    """The block tables as the attacker reads them."""
    codes = tuple(areas.blocks[block] for block in blocks)
    geography = PublishedGeography(("block",), (codes,), (np.arange(len(codes)),))
    marginals = []
    for table in programme.tables:
        key = ("block", table.name)
        counts, there = figures.counts[key][blocks], figures.there(key)[blocks]
        listed = there if key in figures.variances or not there.all() else counts != 0
        unit, cell = np.nonzero(listed)
        start = np.searchsorted(unit, np.arange(len(codes) + 1)).astype(np.int64)
        value = counts[listed].astype(np.float64)
        marginals.append(
            PublishedMarginal(
                table.name,
                0,
                table.query,
                start,
                cell.astype(np.int64),
                value,
                figures.variances.get(key),
                absent_unknown=not bool(there.all()),
                bound=figures.bound,
            )
        )
    return Published(programme.schema, geography, tuple(marginals), source="comparison")


def with_ages(records: pa.Table, programme: CommonTables) -> pa.Table:
    """Age groups as years: from, to, and the year itself where the group has one."""
    starts = np.array(programme.ages.starts, np.int64)
    ends = np.append(starts[1:] - 1, 200)
    group = records.column(AGE).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    low, high = starts[group], ends[group]
    columns = {name: records.column(name) for name in records.column_names if name != AGE}
    return pa.table(
        columns
        | {
            "age": pa.array(low, mask=low != high),
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
    truth = population.truth.counts["block", "population"][blocks]
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
    settings: AttackerSettings,
    certain: Mapping[str, float | None],
    own: Mapping[str, float | None] | None,
    blocks: Integers,
    seed: int,
) -> dict[str, Any]:
    """The rates of one attacker, with the certain blocks of the true tables and, where they can be told from the
    published tables alone, with those of these."""
    codes = pa.array([population.areas.blocks[block] for block in blocks], pa.string())
    digits = population.digits
    attacker_file = make_attacker(population.people, settings, tract_digits=digits["tract"])
    attacker_file = attacker_file.filter(pc.is_in(attacker_file.column("geocode"), codes))
    inside = int(pc.sum(pc.is_in(population.people.column("geocode"), codes)).as_py())

    everywhere = _in_every_block(records, codes)

    def rates(variability: Mapping[str, float | None]) -> Rates:
        column = pa.array([variability.get(code) for code in everywhere.column("geocode").to_pylist()], pa.float64())
        marked = everywhere.append_column(VARIABILITY, column)
        return reidentification_rates(
            marked, attacker_file, population.people, block_group_digits=digits["block_group"], seed=seed
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


def _in_every_block(records: pa.Table, codes: pa.Array) -> pa.Table:
    """The records, with one of unknown age, which matches nobody, in blocks that have none: a block whose people a
    protection has moved away is still one, and its people are still at stake."""
    named = ["geocode", "sex", "cenrace", "hispanic", "age", "age_low", "age_high"]
    matched_columns = records.select(named)
    lacking = codes.filter(pc.invert(pc.is_in(codes, matched_columns.column("geocode").combine_chunks())))
    columns = {name: pa.nulls(len(lacking), matched_columns.schema.field(name).type) for name in named}
    columns["geocode"] = lacking
    for name in ("sex", "cenrace", "hispanic"):
        columns[name] = pa.array([1] * len(lacking), matched_columns.schema.field(name).type)
    return pa.concat_tables([matched_columns, pa.table(columns, schema=matched_columns.schema)])


def plain(row: LinkageRates) -> dict[str, Any]:
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
    }
