"""What a user loses: errors of the figures that people look at, what is not published, and what does not add up.

After Abowd and Hawes (2023), Table 4: the mean over the areas of a level of |published − true|, for the population,
three age groups, the race groups and Hispanic origin. Figures that are not published have no error; how many there are
is said beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.comparison.figures import Areas, Figures, Flags, Integers
from confide.comparison.programme import LEVELS, Programme

POPULATION = "population"


@dataclass(frozen=True)
class Characteristic:
    """One figure of every area: a cell of a summary table."""

    id: str
    title: str
    table: str
    cell: int


def characteristics(made: Programme) -> tuple[Characteristic, ...]:
    """The population, and every cell of the other summaries; of two complementary origins, Hispanic."""
    found = [Characteristic(POPULATION, "Population", POPULATION, 0)]
    for table in made.tables:
        if not table.summary or not table.query.variables:
            continue
        labels = table.query.variables[0].labels
        for cell, label in enumerate(labels):
            if len(labels) > 2 or cell:
                found.append(Characteristic(f"{table.name}: {label}", label, table.name, cell))
    return tuple(found)


def errors(figures: Figures, truth: Figures, made: Programme) -> dict[str, dict[str, Any]]:
    """For each level and characteristic the mean absolute error, and how many figures it is over."""
    result: dict[str, dict[str, Any]] = {}
    for level in LEVELS:
        result[level] = {}
        for item in characteristics(made):
            key = (level, item.table)
            units = figures.units(level, len(truth.counts[key]))
            there = figures.there(key)[units, item.cell]
            true = truth.counts[key][units, item.cell]
            off = np.abs(figures.counts[key][units, item.cell] - true)[there]
            result[level][item.id] = {
                "mean_absolute_error": float(off.mean()) if len(off) else None,
                "mean_true": float(true.mean()),
                "units": len(true),
                "published": float(there.mean()),
            }
    return result


def cells_published(figures: Figures, truth: Figures, made: Programme) -> dict[str, Any]:
    """On each level, and on all together: of the cells with somebody in them, the share that has a published figure.

    Where only a sample of a level's units was protected, its share stands for all of them: otherwise the fewer blocks
    are sampled, the less a share of everything would be about blocks.
    """
    result: dict[str, Any] = {}
    kept_in_all, in_all = 0.0, 0
    for level in LEVELS:
        units = figures.units(level, len(truth.counts[level, POPULATION]))
        occupied = [truth.counts[level, table.name][units] > 0 for table in made.tables]
        there = [figures.there((level, table.name))[units] for table in made.tables]
        number = sum(int(each.sum()) for each in occupied)
        kept = sum(int((a & b).sum()) for a, b in zip(occupied, there, strict=True))
        result[level] = kept / number if number else None
        if number:
            whole = sum(int((truth.counts[level, table.name] > 0).sum()) for table in made.tables)
            kept_in_all, in_all = kept_in_all + whole * (kept / number), in_all + whole
    return {"all": kept_in_all / in_all if in_all else None} | result


def sums_agree(figures: Figures, areas: Areas, made: Programme) -> dict[str, Any]:
    """Of all sums that can be checked with published figures, the share that agrees: blocks that make up a tract or a
    county, and tables that make up the population of an area."""
    checks = list(_between_levels(figures, areas, made)) + list(_between_tables(figures, made))
    number = sum(len(each) for each in checks)
    good = sum(int(each.sum()) for each in checks)
    return {"checked": number, "share": good / number if number else None, "all": number > 0 and good == number}


def _between_levels(figures: Figures, areas: Areas, made: Programme) -> Iterator[Flags]:
    for table in made.tables:
        blocks = ("block", table.name)
        known_below = figures.there(blocks)
        for level in LEVELS[:-1]:
            above = (level, table.name)
            units = areas.unit_of_block[level]
            sums = _summed(np.where(known_below, figures.counts[blocks], 0), units, len(areas.codes[level]))
            hidden = _summed((~known_below).astype(np.int64), units, len(areas.codes[level]))
            known = figures.there(above) & (hidden == 0)
            yield (sums == figures.counts[above])[known]


def _between_tables(figures: Figures, made: Programme) -> Iterator[Flags]:
    for level in LEVELS:
        total = (level, POPULATION)
        for table in made.tables:
            if table.name == POPULATION:
                continue
            key = (level, table.name)
            known = figures.there(key).all(axis=1) & figures.there(total)[:, 0]
            yield (figures.counts[key].sum(axis=1) == figures.counts[total][:, 0])[known]


def _summed(values: Integers, unit: Integers, units: int) -> Integers:
    sums = np.zeros((units, values.shape[1]), np.int64)
    np.add.at(sums, unit, values)
    return sums
