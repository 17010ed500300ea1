"""Published figures, in the one form that every protection is brought to: a matrix for each level and table.

Rows are the units of the level, columns the cells of the table. A figure that is not published has no value; its place
in ``published`` is false. Noise has a variance, known from the mechanism and never from the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Floats, Integers
from confide.errors import InputError, Place
from confide.inputs.frame import WHOLE, LevelRule
from confide.lab.comparison.common_tables import CommonTables, characteristics
from confide.lab.comparison.programme_file import BLOCK, POPULATION
from confide.lab.published.marginals import FigureLaw, NoiseBound, Published, PublishedMarginal
from confide.schema import Query

Flags = npt.NDArray[np.bool_]
Key = tuple[str, str]
"""A level and the name of a table."""


@dataclass(frozen=True, eq=False)
class ComparedAreas:
    """The units of the levels, and for each block its unit on every level."""

    codes: Mapping[str, tuple[str, ...]]
    unit_of_block: Mapping[str, Integers] = field(repr=False)

    @property
    def blocks(self) -> tuple[str, ...]:
        """The codes of the blocks."""
        return self.codes[BLOCK]

    @classmethod
    def of(cls, blocks: pa.Table, rules: Sequence[LevelRule], published: Sequence[str]) -> ComparedAreas:
        """The areas of some blocks.

        Args:
            blocks: A row for each block: ``geocode``, and the columns that levels are given by.
            rules: The levels above the blocks.
            published: The levels that there are tables for, ``block`` the last.
        """
        names = blocks.column("geocode").to_pylist()
        order = sorted(range(len(names)), key=names.__getitem__)
        codes: dict[str, tuple[str, ...]] = {}
        units: dict[str, Integers] = {}
        for level, named in level_codes(blocks, rules).items():
            if level not in published:
                continue
            codes[level] = tuple(sorted(set(named)))
            place = {code: position for position, code in enumerate(codes[level])}
            units[level] = np.array([place[named[row]] for row in order], np.int64)
        return cls({level: codes[level] for level in published}, {level: units[level] for level in published})


def level_codes(blocks: pa.Table, rules: Sequence[LevelRule]) -> dict[str, list[str]]:
    """For each level, and for the blocks, the code of every row of the block table: its first characters, or a
    column."""
    names = blocks.column("geocode").to_pylist()
    codes = {
        rule.name: blocks.column(rule.column).to_pylist()
        if rule.column is not None
        else [name[: rule.digits] or WHOLE for name in names]
        for rule in rules
    }
    return codes | {BLOCK: names}


@dataclass(frozen=True, eq=False)
class AreaFigures:
    """What was published, or what is true."""

    counts: Mapping[Key, Integers] = field(repr=False)
    published: Mapping[Key, Flags] = field(default_factory=dict, repr=False)
    """Which figures there are, for tables with figures left out; others are there whole."""
    variances: Mapping[Key, Fraction] = field(default_factory=dict)
    """The variance of the noise, for tables that have noise."""
    bound: NoiseBound | None = None
    """How far noise can go, if it has a bound."""
    laws: Mapping[Key, FigureLaw] = field(default_factory=dict, repr=False)
    """The law of the noise, for tables that have noise."""
    covered: Mapping[str, Integers] = field(default_factory=dict, repr=False)
    """The units that were protected at all, for levels with a sample alone."""

    @property
    def exact(self) -> bool:
        """Whether the figures are those of some records, without noise."""
        return not self.variances

    def units(self, level: str, number: int) -> Integers:
        """The units of a level that there are figures for, of so many."""
        return self.covered[level] if level in self.covered else np.arange(number)

    def there(self, key: Key) -> Flags:
        """Which figures of a table are published."""
        if key in self.published:
            return self.published[key]
        return np.ones(self.counts[key].shape, np.bool_)


def tabulate(
    records: pa.Table, areas: ComparedAreas, programme: CommonTables, *, block: str = "geocode"
) -> AreaFigures:
    """The exact tables of records.

    Args:
        records: A row for each person: a block and the codes of the published attributes.
        areas: The units; a block that is none of theirs is a finding.
        programme: The tables.
        block: The column with the code of the block.

    Returns:
        For each level and table a matrix of counts, units by cells.

    >>> sorted(tabulate(six_people, areas, programme).counts)[0]
    ('block', 'age')
    """
    codes = pa.array(areas.blocks, pa.string())
    texts = records.column(block).combine_chunks().cast(pa.string())
    place = _index(pc.index_in(texts, codes), block)
    names = [attribute.name for attribute in programme.schema.attributes]
    index = {name: level_of_records(records, programme, name) for name in names}
    counts: dict[Key, Integers] = {}
    for table in programme.tables:
        cell = np.zeros(len(place), np.int64)
        for variable in table.query.variables:
            cell = cell * variable.size + variable.assignment[index[variable.attribute.name]]
        for level in programme.levels:
            unit = areas.unit_of_block[level][place]
            units = len(areas.codes[level])
            flat = np.bincount(unit * table.query.cells + cell, minlength=units * table.query.cells)
            counts[level, table.name] = flat.astype(np.int64).reshape(units, table.query.cells)
    return AreaFigures(counts)


def counts_by_area(published: Published, areas: ComparedAreas, programme: CommonTables) -> dict[Key, Integers]:
    """The counts of a release whose areas are its geography: of its tables, or of its records.

    Args:
        published: The release, as its mechanism reads it back.
        areas: The units that the matrices are about.
        programme: The tables.

    Returns:
        For each level and table a matrix, units by cells; a cell that is not listed is zero.
    """
    levels = published.geography.levels
    listed = {(levels[marginal.depth], marginal.table): marginal for marginal in published.marginals}
    counts: dict[Key, Integers] = {}
    for level in programme.levels:
        for table in programme.tables:
            marginal, of_level = listed.get((level, table.name)), level
            if marginal is None:  # records: one marginal with every attribute, which any table is a sum of
                marginal, of_level = published.marginals[0], levels[0]
            codes = pa.array(published.geography.units[marginal.depth], pa.string())
            place = _index(pc.index_in(codes, pa.array(areas.codes[of_level], pa.string())), "area")
            if of_level != level:
                place = areas.unit_of_block[level][place]
            unit = np.repeat(place, np.diff(marginal.start))
            cell = _project(marginal, table.query)
            counts[level, table.name] = _matrix(unit, cell, marginal.value, len(areas.codes[level]), table.query.cells)
    return counts


def counts_of_areas_as_variables(
    published: Published, areas: ComparedAreas, programme: CommonTables
) -> dict[Key, Integers]:
    """The counts of a release that has one unit, and the areas of a level as the first variable of a table: see
    :func:`counts_by_area`. Its tables are called by the level and the table."""
    listed = {marginal.table: marginal for marginal in published.marginals}
    counts: dict[Key, Integers] = {}
    for level in programme.levels:
        for table in programme.tables:
            marginal, cells = listed[f"{level}-{table.name}"], table.query.cells
            unit, cell = np.divmod(marginal.cell, cells)
            counts[level, table.name] = _matrix(unit, cell, marginal.value, len(areas.codes[level]), cells)
    return counts


def _project(marginal: PublishedMarginal, query: Query) -> Integers:
    """For each listed cell of a marginal the cell of a query that is the same, or coarser."""
    if [variable.name for variable in marginal.query.variables] == [variable.name for variable in query.variables]:
        return marginal.cell
    names = [variable.attribute.name for variable in marginal.query.variables]
    level_of = dict(zip(names, np.unravel_index(marginal.cell, marginal.query.shape), strict=True))
    cell = np.zeros(len(marginal.cell), np.int64)
    for variable in query.variables:
        cell = cell * variable.size + variable.assignment[level_of[variable.attribute.name]]
    return cell


def _matrix(unit: Integers, cell: Integers, value: Floats, units: int, cells: int) -> Integers:
    """Figures given one by one as a matrix; those of the same place are added up, the unknown are zero."""
    counts = np.zeros((units, cells), np.int64)
    np.add.at(counts, (unit, cell), np.rint(np.nan_to_num(value)).astype(np.int64))
    return counts


def level_of_records(records: pa.Table, programme: CommonTables, name: str) -> Integers:
    """For each record the number of its level of a published attribute."""
    attribute = next(each for each in programme.schema.attributes if each.name == name)
    kind = pa.int64() if attribute.is_integer else pa.string()
    codes = pa.array([level.code for level in attribute.levels], kind)
    return _index(pc.index_in(records.column(name).combine_chunks().cast(kind), codes), name)


def _index(index: pa.Array, column: str) -> Integers:
    if index.null_count:
        raise InputError("unknown-code/frame", where=Place(column=column), null_count=index.null_count)
    place: Integers = index.to_numpy(zero_copy_only=False).astype(np.int64)
    return place


# What a user loses: errors of the figures that people look at, what is not published, and what does not add up.
#
# After Abowd and Hawes (2023), Table 4: the mean over the areas of a level of |published − true|, for the population
# and the cells of judged tables (there, three age groups, the race groups and Hispanic origin). Figures that are not
# published have no error; how many there are is said beside.


def errors(figures: AreaFigures, truth: AreaFigures, programme: CommonTables) -> dict[str, dict[str, Any]]:
    """What a user loses on each level: the mean absolute error of every characteristic.

    Args:
        figures: What was published.
        truth: What is true.
        programme: The tables.

    Returns:
        For each level and characteristic ``mean_absolute_error`` (in persons, over the figures that are published),
        ``mean_true``, ``units`` and ``published``, the share of units with a figure.

    >>> lost = errors(truth, truth, programme)  # truth: the exact tables of six people
    >>> lost["tract"]["population"]["mean_absolute_error"]
    0.0
    """
    result: dict[str, dict[str, Any]] = {}
    for level in programme.levels:
        result[level] = {}
        for item in characteristics(programme.tables):
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


def cells_published(figures: AreaFigures, truth: AreaFigures, programme: CommonTables) -> dict[str, Any]:
    """On each level, and on all together: of the cells with somebody in them, the share that has a published figure.

    Where only a sample of a level's units was protected, its share stands for all of them: otherwise the fewer blocks
    are sampled, the less a share of everything would be about blocks.

    Args:
        figures: What was published.
        truth: What is true.
        programme: The tables.

    Returns:
        By level the share of cells, and that of all levels together.

    >>> cells_published(truth, truth, programme)["tract"]
    1.0
    """
    result: dict[str, Any] = {}
    kept_in_all, in_all = 0.0, 0
    for level in programme.levels:
        units = figures.units(level, len(truth.counts[level, POPULATION]))
        occupied = [truth.counts[level, table.name][units] > 0 for table in programme.tables]
        there = [figures.there((level, table.name))[units] for table in programme.tables]
        number = sum(int(each.sum()) for each in occupied)
        published_cells = sum(int((a & b).sum()) for a, b in zip(occupied, there, strict=True))
        result[level] = published_cells / number if number else None
        if number:
            occupied_in_all = sum(int((truth.counts[level, table.name] > 0).sum()) for table in programme.tables)
            kept_in_all, in_all = kept_in_all + occupied_in_all * (published_cells / number), in_all + occupied_in_all
    return {"all": kept_in_all / in_all if in_all else None} | result


def sums_agree(figures: AreaFigures, areas: ComparedAreas, programme: CommonTables) -> dict[str, Any]:
    """Of all sums that can be checked with published figures, the share that agrees: blocks that make up a tract or a
    county, and tables that make up the population of an area.

    Args:
        figures: What was published.
        areas: The units.
        programme: The tables.

    Returns:
        How many sums were checked, and the share of them that agrees.

    >>> sums_agree(truth, areas, programme)
    {'checked': 1929, 'share': 1.0, 'all': True}
    """
    checks = list(_between_levels(figures, areas, programme)) + list(_between_tables(figures, programme))
    number = sum(len(each) for each in checks)
    good = sum(int(each.sum()) for each in checks)
    return {"checked": number, "share": good / number if number else None, "all": number > 0 and good == number}


def _between_levels(figures: AreaFigures, areas: ComparedAreas, programme: CommonTables) -> Iterator[Flags]:
    for table in programme.tables:
        blocks = (BLOCK, table.name)
        known_below = figures.there(blocks)
        for level in programme.levels[:-1]:
            above = (level, table.name)
            units = areas.unit_of_block[level]
            sums = _summed(np.where(known_below, figures.counts[blocks], 0), units, len(areas.codes[level]))
            hidden = _summed((~known_below).astype(np.int64), units, len(areas.codes[level]))
            comparable = figures.there(above) & (hidden == 0)
            yield (sums == figures.counts[above])[comparable]


def _between_tables(figures: AreaFigures, programme: CommonTables) -> Iterator[Flags]:
    for level in programme.levels:
        total = (level, POPULATION)
        for table in programme.tables:
            if table.name == POPULATION:
                continue
            key = (level, table.name)
            comparable = figures.there(key).all(axis=1) & figures.there(total)[:, 0]
            yield (figures.counts[key].sum(axis=1) == figures.counts[total][:, 0])[comparable]


def _summed(values: Integers, unit: Integers, units: int) -> Integers:
    sums = np.zeros((units, values.shape[1]), np.int64)
    np.add.at(sums, unit, values)
    return sums
