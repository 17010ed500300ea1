"""``verify`` for the cell key method: what follows from the files of a release alone.

Every table is read in every format. Its cells must be those of the plan, each once and in order; its counts such as the
perturbation table and the threshold let through; the same cell must have the same figure in every table (SPSN); and a
cell must be as near to the sum of its parts as bounded noise allows: a true count lies within D of a published one, so
the intervals of a cell and of its parts, added up, have a whole number in common (``docs/proofs/cellkey.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.exact import exact_text
from confide.mechanisms.cellkey.output import WEIGHTED, columns_of, read_table, verify_given
from confide.mechanisms.cellkey.programme import PerturbedTables, counted_name, describe
from confide.mechanisms.cellkey.spec import WEIGHT_UNIT
from confide.releases import Check, SealedRelease, tabular
from confide.releases.tabular import Margin, Table, TableRows, projected


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


def verify(release: SealedRelease) -> Iterator[Check]:
    """Every table by itself, then what tables have in common."""
    folder, files, question = release.folder, set(release.files), release.facts
    described = describe(question)
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
    coded = [table.name for table in described.tables]
    yield from tabular.cells_and_areas(folder, coded, files, question["levels"], question["area_names"])
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
    read = partial(read_table, table=table, columns=columns_of(described))
    rows = yield from tabular.checked_rows(folder, table, files, read, described.cells(table))
    if rows is None:
        return
    yield _counts(described, table, rows)
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
    weighted = rows.figures.get(WEIGHTED, np.zeros(0, np.int64))
    coarse = not (weighted % int(described.weighted_step * WEIGHT_UNIT)).any()
    ok = least >= described.smallest and int(weighted.min(initial=0)) >= 0 and coarse
    detail = f"none below {described.smallest:,} but zeros"
    detail += "" if coarse else f"; a weighted figure is no multiple of {exact_text(described.weighted_step)}"
    return Check(f"{table.name}: counts that may be published", ok, detail)


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
