"""``verify`` for the cell key method: what follows from the files of a release alone.

Every table is read in every format. Its cells must be those of the plan, each once and in order; its counts such as the
perturbation table and the threshold let through; the same cell must have the same figure in every table (SPSN); and a
cell must be as near to the sum of its parts as bounded noise allows: a true count lies within D of a published one, so
the intervals of a cell and of its parts, added up, have a whole number in common (``docs/proofs/cellkey.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.errors import ConfideError
from confide.mechanisms.cellkey.output import WEIGHTED, FigureColumns, read_table, verify_given
from confide.mechanisms.cellkey.programme import PerturbedTables, counted_name, describe
from confide.noise.ptables import count_settings, generate
from confide.releases import tabular
from confide.releases.figure_noise import FigureLaw, PTableLaw
from confide.releases.mechanism import Check
from confide.releases.published import NoiseBound, Published, PublishedMarginal, one_unit
from confide.releases.published_release import (
    BOUNDED,
    NOISE,
    AreaTables,
    KnownAreas,
    no_groups,
    not_attacked,
    release_rows,
    release_schema,
    release_title,
    under_attributes,
)
from confide.releases.published_rows import PublishedRows, impossible, marginals_of
from confide.releases.tabular import Margin, Table, TableRows, projected

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MarginRows:
    """The published cells of a margin, on a level by the number of the area among those that are listed."""

    cell: Integers
    """``area * cells + cell``, ascending."""
    rows: TableRows
    areas: pa.Array | None

    def same_as(self, other: MarginRows, order: Sequence[int], shape: Sequence[int]) -> bool:
        """Whether both have the same figures; ``order`` says which axes of this one are those of the other."""
        size = int(np.prod(shape, dtype=np.int64))
        within = _turned(self.cell % size, order, shape)
        at = np.lexsort((within, self.cell // size))
        return (
            np.array_equal(within[at], other.cell % size)
            and (self.rows.area is None or self.rows.area.take(pa.array(at)).equals(other.rows.area))
            and all(np.array_equal(values[at], other.rows.figures[name]) for name, values in self.rows.figures.items())
        )


Shared = dict[str, tuple[tuple[str, ...], MarginRows]]
"""The figures of cross-classifications that more than one table has, as they were met first: variables and cells."""


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table by itself, then what tables have in common."""
    described = describe(manifest["plan"]["question"])
    files = {file["path"] for file in manifest["files"]}
    names = [*(table.name for table in described.tables), *(table.name for table in described.given)]
    yield tabular.no_other_files(names, files)
    yield tabular.every_format(names, files)
    times = Counter(
        _shared_name(level, margin)
        for table in described.tables
        for level in table.levels or (None,)
        for margin in table.margins
    )
    repeated = frozenset(margin for margin, number in times.items() if number > 1)
    shared: Shared = {}
    for table in described.tables:
        yield from _table(folder, files, described, table, repeated, shared)
    question = manifest["plan"]["question"]
    if "companions" in question:
        yield from tabular.second_layout(
            folder, [table.name for table in described.tables], files, question["levels"], question["area_names"]
        )
    for given in described.given:
        if tabular.table_files(given.name, files):
            yield from verify_given(folder, files, described, given)


def _shared_name(level: str | None, margin: Margin) -> str:
    """The same for the same cross-classification, whatever order its variables have."""
    return counted_name(level, "*".join(sorted(variable.name for variable in margin.variables)))


def _table(
    folder: Path, files: set[str], described: PerturbedTables, table: Table, repeated: frozenset[str], shared: Shared
) -> Iterator[Check]:
    if not tabular.table_files(table.name, files):
        return  # said of all tables together
    decimals = None if described.magnitude is None else described.magnitude["decimals"]
    read = partial(read_table, table=table, columns=FigureColumns(described.weighted and decimals is None, decimals))
    contents, problem = tabular.read_formats(folder, table.name, files, read)
    yield Check(f"{table.name}: columns and labels", not problem, problem or f"{described.cells(table):,} cells in all")
    yield tabular.labels_tell_apart(table)
    if problem:
        return
    yield tabular.same_formats(table.name, contents, TableRows.equals)
    rows = next(iter(contents.values()))
    ordered = rows.in_order()
    yield Check(f"{table.name}: every cell once, in order", ordered, f"{len(rows.cell):,} cells that are not zero")
    yield _counts(described, table, rows)
    if not ordered:
        return
    figures = dict(_by_margin(table, rows))
    if table.levels:
        yield _areas(described, table, rows)
    yield from _spsn(table, figures, repeated, shared)
    if len(table.margins) > 1 and described.magnitude is None:
        yield _near(described, table, figures)


def _by_margin(table: Table, rows: TableRows) -> Iterator[tuple[tuple[str | None, str], MarginRows]]:
    """For each level and margin its cells."""
    for place, level in enumerate(table.levels or (None,)):
        here = rows if level is None else rows.on_level(place)
        areas, number = None, np.zeros(len(here.cell), np.int64)
        if here.area is not None and level is not None:
            coded = here.area.dictionary_encode()
            areas, number = coded.dictionary, coded.indices.to_numpy().astype(np.int64)
        for position, margin in enumerate(table.margins):
            of = np.flatnonzero(here.margin == position)
            chosen = here.where(here.margin == position)
            yield (level, margin.name), MarginRows(number[of] * margin.cells + here.cell[of], chosen, areas)


def _counts(described: PerturbedTables, table: Table, rows: TableRows) -> Check:
    if described.magnitude is not None:
        ok = not (rows.count == 0).any() and (described.magnitude["negative"] or not (rows.count < 0).any())
        return Check(f"{table.name}: values that may be published", ok, "no zero is listed, and no sign that cannot be")
    least = int(rows.count.min(initial=described.smallest))
    ok = least >= described.smallest and int(rows.figures.get(WEIGHTED, rows.count).min(initial=0)) >= 0
    return Check(f"{table.name}: counts that may be published", ok, f"none below {described.smallest:,} but zeros")


def _areas(described: PerturbedTables, table: Table, rows: TableRows) -> Check:
    """No level has more areas than the frame."""
    assert rows.area is not None
    numbers = {level: pc.count_distinct(rows.on_level(place).area).as_py() for place, level in enumerate(table.levels)}
    wrong = [level for level, number in numbers.items() if number > described.units[level]]
    detail = ", ".join(f"{level}: {number:,} of {described.units[level]:,}" for level, number in numbers.items())
    return Check(f"{table.name}: areas of the frame", not wrong, detail)


def _spsn(
    table: Table, figures: Mapping[tuple[str | None, str], MarginRows], repeated: frozenset[str], shared: Shared
) -> Iterator[Check]:
    """The same cross-classification has the same figures here as in the tables before."""
    again, wrong = [], []
    margins = {margin.name: margin for margin in table.margins}
    for (level, margin), cells in figures.items():
        name = _shared_name(level, margins[margin])
        own = tuple(variable.name for variable in margins[margin].variables)
        if name in shared:
            names, before = shared[name]
            again.append(name)
            order = [own.index(variable) for variable in names]
            if not cells.same_as(before, order, margins[margin].shape):
                wrong.append(name)
        elif name in repeated:
            shared[name] = own, cells
    if again:
        detail = ", ".join(wrong) or f"{len(again)} cross-classifications that tables before it have too"
        yield Check(f"{table.name}: the same members, the same noise", not wrong, detail)


def _turned(cell: Integers, order: Sequence[int], shape: Sequence[int]) -> Integers:
    """Numbers of cells with their variables in another order."""
    if list(order) == sorted(order):
        return cell
    places = np.unravel_index(cell, tuple(shape))
    turned = np.ravel_multi_index(tuple(places[at] for at in order), tuple(shape[at] for at in order))
    return np.asarray(turned, np.int64)


def _near(described: PerturbedTables, table: Table, figures: Mapping[tuple[str | None, str], MarginRows]) -> Check:
    """Every cell against its parts by one variable more; variables that leave somebody out do not add up."""
    comparisons, wrong = 0, 0
    for level in table.levels or (None,):
        for margin in table.margins:
            for variable in table.variables:
                larger = Margin(tuple(each for each in table.variables if each in margin.variables or each is variable))
                incomplete = variable.name in described.partial
                if variable in margin.variables or incomplete or (level, larger.name) not in figures:
                    continue
                margin_rows, parts = figures[level, margin.name], figures[level, larger.name]
                groups = margin.cells * (1 if margin_rows.areas is None else len(margin_rows.areas))
                low, high = _range(described, margin_rows.rows, margin_rows.cell, groups, 1)
                within = projected(larger, margin, parts.cell % larger.cells)
                group = parts.cell // larger.cells * margin.cells + within
                parts_low, parts_high = _range(described, parts.rows, group, groups, variable.size)
                wrong += int(((parts_low > high) | (low > parts_high)).sum())
                comparisons += groups
    bound = int(described.largest_noise)
    detail = f"{comparisons:,} cells against the sums of their parts"
    detail += f", of which {wrong:,} are too far" if wrong else f": nowhere further than noise of {bound}"
    return Check(f"{table.name}: noise within its bound", not wrong, detail)


def _range(
    described: PerturbedTables, rows: TableRows, group: Integers, groups: int, parts: int
) -> tuple[Integers, Integers]:
    """For each group of cells the least and the largest that its true counts can come to together.

    A published count x comes from one between max(1, x - D) and x + D; one that is not listed from at most D, or D plus
    what the threshold hides.
    """
    bound = int(described.largest_noise)
    unlisted = bound + max(0, described.threshold - 1)
    listed = np.bincount(group, minlength=groups)
    low, high = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(low, group, np.maximum(1, rows.count - bound))
    np.add.at(high, group, rows.count + bound)
    return low, high + (parts - listed) * unlisted


# A release of ``cellkey`` read back: counts with noise of their members, within a bound that the manifest states.


ZEROS = "Nobody stays nobody: where a count is above zero, the records have somebody."


def read_published(
    folder: Path,
    manifest: Mapping[str, Any],
    schema: str | Path | None = None,
    groups: Sequence[str] = (),
    areas: KnownAreas | None = None,
) -> Published:
    """Tables for all records or by area, each cell with its own noise; what is not listed is published as zero."""
    no_groups(groups, manifest["mechanism"])
    question = manifest["plan"]["question"]
    described = describe(question)
    if described.magnitude is not None or described.given:
        raise not_attacked("values" if described.magnitude is not None else "cells without a schema")
    attributes = release_schema(question["schema"], schema)
    bound = NoiseBound(int(Fraction(question["ptable"]["D"])), zeros_kept=True)
    variance, law = _law(question["ptable"], bound)
    unknown = bool(question["threshold"])
    marginals: dict[tuple[str | None, str], PublishedMarginal] = {}
    said = {
        table.name: PublishedRows(
            table.name, tuple(margin.name for margin in reversed(table.margins)), variance, bound, unknown, table.name
        )
        for table in described.tables
    }
    columns = {table.name: table.attribute_columns for table in described.tables}
    spatial = {said[table.name]: table.levels for table in described.tables if table.levels}
    geography = one_unit()
    left_out: tuple[str, ...] = ()
    if spatial:
        by_area = AreaTables.read(folder, manifest, spatial, question["spine"], columns, areas)
        geography, left_out = by_area.geography, by_area.notes
        for rows_of, level, of_level in by_area.marginals(attributes):
            for marginal, name in zip(of_level, rows_of.queries, strict=True):
                marginals.setdefault((level, _set_name(name)), replace(marginal, law=law))
    for table in described.tables:
        if spatial and not table.levels:
            left_out = (*left_out, f"The table {table.name} has no areas, and is left out.")
        elif not table.levels:
            rows, of_table = release_rows(folder, manifest, table.name), said[table.name]
            rows = under_attributes(rows, columns[table.name])
            all_margins = marginals_of(of_table, rows, attributes, geography, 0, None)
            for marginal, name in zip(all_margins, of_table.queries, strict=True):
                # The same people have the same noise in every table.
                marginals.setdefault((None, _set_name(name)), replace(marginal, law=law))
    notes = (NOISE, BOUNDED.format(bound.largest), ZEROS, *left_out)
    title = release_title(folder, manifest)
    return Published(attributes, geography, tuple(marginals.values()), impossible(attributes), title, notes)


def _set_name(query: str) -> str:
    return "*".join(sorted(query.split("*")))


def _law(said: Mapping[str, Any], bound: NoiseBound) -> tuple[Fraction, FigureLaw | None]:
    """The variance of the noise, and the table that the stated parameters give.

    A table that was read from a file is not in the manifest: without its variance, half of the bound stands for the
    standard deviation, and nothing else is taken to be known.
    """
    if said["V"] is None:
        return Fraction(bound.largest**2, 4), None
    variance = Fraction(str(said["V"]))
    try:
        design = generate(count_settings(bound.largest, variance, int(said["js"]), pstay=said.get("pstay")))
    except ConfideError:
        return variance, None
    return variance, PTableLaw(design.table())
