"""How real made-up people are: a few figures that matter to disclosure, counted from the records themselves.

Tracts, blocks and households never cross units of work, so each unit is counted on its own and the counts are added:
the figures of any population in the memory of one unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.population.draw import Floats, Ints
from confide.population.generate import Population

HISPANIC, WHITE, BLACK, ASIAN, GROUPS = 0, 1, 2, 4, 7
"""Columns of the table of tracts: Hispanic, then the six single races and the rest among the others."""


def dissimilarity(one: Floats, other: Floats) -> float:
    """Index of dissimilarity, half the sum of abs(a_i / A - b_i / B): the share of a group that would have to move.

    Args:
        one: People of the one group by area, shape (areas,).
        other: Those of the other, shape (areas,).

    >>> dissimilarity(np.array([10.0, 0.0]), np.array([5.0, 5.0]))
    0.5
    """
    if not one.sum() or not other.sum():
        return float("nan")
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def count_unique(keys: NDArray[Any]) -> int:
    """How many elements occur exactly once."""
    _, counts = np.unique(keys, return_counts=True)
    return int((counts == 1).sum())


@dataclass
class _Counts:
    persons: int = 0
    by_hhgq: Ints = field(default_factory=lambda: np.zeros(8, dtype=np.int64))
    by_age: Ints = field(default_factory=lambda: np.zeros(116, dtype=np.int64))
    by_race: Ints = field(default_factory=lambda: np.zeros(63, dtype=np.int64))
    by_size: Ints = field(default_factory=lambda: np.zeros(9, dtype=np.int64))
    male: int = 0
    hispanic: int = 0
    unique: int = 0
    unique_with_race: int = 0
    in_places: int = 0
    in_aiannh: int = 0
    in_urban: int = 0
    housing_units: int = 0
    occupied_units: int = 0
    blocks_without_housing: int = 0
    tracts: list[Ints] = field(default_factory=list)
    block_persons: list[Ints] = field(default_factory=list)


def profile(population: Population) -> dict[str, float]:
    """Figures of a population by name: shares between 0 and 1, numbers of units, medians.

    >>> from confide.population import Population
    >>> profile(Population(persons=1_000, seed=7))["persons"]
    1000
    """
    counts = _Counts()
    for unit in population.units:
        _add(counts, *population.unit(unit))
    return _figures(counts)


def _add(counts: _Counts, blocks: pa.RecordBatch, persons: pa.RecordBatch) -> None:
    column = {name: persons.column(name).to_numpy(zero_copy_only=False) for name in persons.schema.names[1:]}
    block = persons.column("geocode").indices.to_numpy()
    frame = {name: blocks.column(name).to_numpy(zero_copy_only=False) for name in blocks.schema.names}
    counts.persons += len(block)
    counts.by_hhgq += np.bincount(column["hhgq"], minlength=8)
    counts.by_age += np.bincount(column["age"], minlength=116)
    counts.by_race += np.bincount(column["cenrace"], minlength=63)
    home = column["hhgq"] == 0
    _, sizes = np.unique(column["household_id"][home], return_counts=True)
    counts.by_size += np.bincount(np.minimum(sizes, 8), minlength=9)
    counts.male += int((column["sex"] == 1).sum())
    counts.hispanic += int(column["hispanic"].sum())
    key = (block.astype(np.int64) * 2 + column["sex"] - 1) * 116 + column["age"]
    counts.unique += count_unique(key)
    counts.unique_with_race += count_unique((key * 63 + column["cenrace"]) * 2 + column["hispanic"])

    of_block = np.bincount(block, minlength=blocks.num_rows)
    counts.block_persons.append(of_block)
    counts.in_places += int(of_block[frame["place"] != "99999"].sum())
    counts.in_aiannh += int(of_block[frame["aiannh"] != "9999"].sum())
    counts.in_urban += int(of_block[frame["urban"] == 1].sum())
    counts.housing_units += int(frame["housing_units"].sum())
    counts.occupied_units += int(frame["occupied_units"].sum())
    counts.blocks_without_housing += int((frame["housing_units"] == 0).sum())
    _, tract_of_block = np.unique(frame["tract"], return_inverse=True)
    tract = tract_of_block[block]
    tracts = int(tract_of_block.max()) + 1
    alone = np.where(column["hispanic"] == 1, HISPANIC, np.minimum(column["cenrace"].astype(np.int64) + 1, GROUPS))
    table = np.bincount(tract * (GROUPS + 1) + alone, minlength=(GROUPS + 1) * tracts).reshape(tracts, GROUPS + 1)
    counts.tracts.append(table)


def _figures(counts: _Counts) -> dict[str, float]:
    persons = counts.persons
    tract = np.concatenate(counts.tracts).astype(np.float64)
    block = np.concatenate(counts.block_persons)
    populated = block[block > 0]
    households = counts.by_size.sum()
    hispanic, white, black, asian = (tract[:, group] for group in (HISPANIC, WHITE, BLACK, ASIAN))
    return {
        "persons": persons,
        "households": int(households),
        "tracts": len(tract),
        "blocks": len(block),
        "share of blocks without housing units": counts.blocks_without_housing / len(block),
        "persons in the median populated block": float(np.median(populated)),
        "persons in the mean populated block": float(populated.mean()),
        "persons in the largest block": int(block.max()),
        "vacant housing units": 1 - counts.occupied_units / counts.housing_units,
        **{f"households of {size}": float(counts.by_size[size] / households) for size in range(1, 5)},
        "households of 5 and more": float(counts.by_size[5:].sum() / households),
        "persons per household": float(counts.by_hhgq[0] / households),
        "under 18": float(counts.by_age[:18].sum() / persons),
        "65 and over": float(counts.by_age[65:].sum() / persons),
        "male": counts.male / persons,
        "in group quarters": float(1 - counts.by_hhgq[0] / persons),
        "Hispanic": counts.hispanic / persons,
        "White alone": float(counts.by_race[0] / persons),
        "Black alone": float(counts.by_race[1] / persons),
        "AIAN alone": float(counts.by_race[2] / persons),
        "Asian alone": float(counts.by_race[3] / persons),
        "two or more races": float(counts.by_race[6:].sum() / persons),
        "races that occur": int((counts.by_race > 0).sum()),
        "in incorporated places": counts.in_places / persons,
        "in AIANNH areas": counts.in_aiannh / persons,
        "in urban blocks": counts.in_urban / persons,
        "unique on block, sex, age": counts.unique / persons,
        "unique on block, sex, age, race, ethnicity": counts.unique_with_race / persons,
        "dissimilarity, Black and White, by tract": dissimilarity(black, white),
        "dissimilarity, Hispanic and White, by tract": dissimilarity(hispanic, white),
        "dissimilarity, Asian and White, by tract": dissimilarity(asian, white),
    }
