"""``verify`` for the cell key method: what follows from the files of a release alone.

Every table is read in every format. Its cells must be those of the plan, each once and in order; its counts such as the
perturbation table and the threshold let through; the same cell must have the same figure in every table (SPSN); and a
cell must be as near to the sum of its parts as bounded noise allows: a true count lies within D of a published one, so
the intervals of a cell and of its parts, added up, have a whole number in common (``docs/proofs/cellkey.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.arrays import Integers
from confide.errors import ConfideError
from confide.exact import exact_text
from confide.mechanisms.cellkey.keyed_records import scaled
from confide.mechanisms.cellkey.output import WEIGHTED, columns_of, read_cells, read_table, verify_given
from confide.mechanisms.cellkey.programme import PerturbedTables, counted_name, describe
from confide.mechanisms.cellkey.spec import WEIGHT_UNIT
from confide.noise.ptables import count_settings, generate
from confide.releases import published_rows, tabular
from confide.releases.figure_noise import FigureLaw, PTableLaw
from confide.releases.folder import SealedRelease
from confide.releases.mechanism import Check
from confide.releases.published import NoiseBound, Published, PublishedMarginal, one_unit
from confide.releases.published_rows import PublishedRows, marginals_of
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


# A release of ``cellkey`` read back: counts with noise of their members, within a bound that the manifest states.


ZEROS = "Nobody stays nobody: where a count is above zero, the records have somebody."


def read_published(asked: published_rows.ReadBack) -> Published:
    """Tables for all records or by area, each cell with its own noise; what is not listed is published as zero."""
    asked.no_groups()
    question = asked.release.facts
    described = describe(question)
    if described.magnitude is not None or described.given:
        raise published_rows.not_attacked("values" if described.magnitude is not None else "cells without a schema")
    attributes = asked.schema(question["schema"])
    bound = NoiseBound(int(Fraction(question["ptable"]["D"])), zeros_kept=True)
    variance, law = _law(question["ptable"], bound)
    unknown = bool(question["threshold"])
    marginals: dict[tuple[str | None, str], PublishedMarginal] = {}

    def add(level: str | None, rows_of: PublishedRows, of_table: Sequence[PublishedMarginal]) -> None:
        for marginal, name in zip(of_table, rows_of.queries, strict=True):
            # The same people have the same noise in every table.
            marginals.setdefault((level, _set_name(name)), replace(marginal, law=law))

    said = [
        (table, PublishedRows(table.name, table.queries[::-1], variance, bound, unknown, table.name))
        for table in described.tables
    ]
    spatial = [each for each in said if each[0].levels]
    geography = one_unit()
    left_out: tuple[str, ...] = ()
    if spatial:
        by_area = published_rows.AreaTables.read(asked, spatial, question["spine"])
        geography, left_out = by_area.geography, by_area.notes
        for rows_of, level, of_level in by_area.marginals(attributes):
            add(level, rows_of, of_level)
    for table, rows_of in said:
        if spatial and not table.levels:
            left_out = (*left_out, f"The table {table.name} has no areas, and is left out.")
        elif not table.levels:
            add(None, rows_of, marginals_of(rows_of, asked.rows(table), attributes, geography, 0, None))
    notes = (published_rows.NOISE, published_rows.BOUNDED.format(bound.largest), ZEROS, *left_out)
    return asked.published(attributes, geography, marginals.values(), *notes)


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


# The arithmetic attacker: what the published columns of one cell, taken together, leave of its true count.
#
# A published count p leaves every n of at least 1 within D of it. A weighted figure w beside it, in multiples of a step
# r, says p · W / n to within r / 2: a count n is excluded where no multiple of the unit of the weights lies between
# n · (w - r/2) / p and n · (w + r/2) / p. The attacker does not know the unit, and takes the coarsest power of ten that
# leaves no cell without a count. With the step of ``spec.weighted_step`` nothing is excluded, which
# ``docs/proofs/cellkey.md`` proves; the power of the attack is what it finds where figures have all their digits.

FINEST = Fraction(1, WEIGHT_UNIT)
MANY = 1 << 40
DIGITS_OF_POWER = 3
"""The power of the attack is told for weights of so many decimals."""


@dataclass(frozen=True)
class ArithmeticAttack(TypedAnswer):
    """How many true counts, or values, the published columns leave for each cell of a release."""

    release: Path
    figures: tuple[str, ...]
    """The columns that were used."""
    proved: int | None
    """So many are left at least, by the settings; None where nothing is proved."""
    unit: Fraction | None
    """The unit of the weights that the attacker takes; None without weights."""
    tables: tuple[tuple[str, int, int, float, int], ...]
    """For each table its name, cells, the least and the mean number of candidates, and cells with one alone."""
    power: tuple[int, int] | None
    """Of so many cells, as many would be found if weighted figures had all their digits; None without weights."""

    @property
    def known(self) -> int:
        """Cells with one candidate alone."""
        return sum(row[4] for row in self.tables)

    @property
    def least(self) -> int | None:
        """The fewest candidates of a cell."""
        return min((row[2] for row in self.tables), default=None)

    @property
    def ok(self) -> bool:
        """Whether every cell has at least two candidates, and as many as are proved."""
        least = self.least
        return self.known == 0 and (self.proved is None or least is None or least >= self.proved)

    @property
    def in_words(self) -> str:
        """What it comes to."""
        cells = sum(row[1] for row in self.tables)
        said = f"{self.known:,} of {cells:,} cells have one true figure alone that fits their published columns."
        if self.least is not None:
            said += f" At least {self.least:,} fit each" + (f"; proved: {self.proved:,}." if self.proved else ".")
        if self.power is None:
            return said + " No column stands beside the figures, so there is nothing to compute with: no power."
        return said + (
            f" Power: with six decimals, and weights of {DIGITS_OF_POWER} decimals, {self.power[0]:,} of "
            f"{self.power[1]:,} cells would be known."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "ok": self.ok,
            "release": str(self.release),
            "figures": list(self.figures),
            "cells": sum(row[1] for row in self.tables),
            "known": self.known,
            "least_candidates": self.least,
            "proved": self.proved,
            "unit_of_weights": None if self.unit is None else str(self.unit),
            "power": None if self.power is None else {"known": self.power[0], "cells": self.power[1]},
            "in_words": self.in_words,
            "tables": [
                {"table": name, "cells": cells, "least_candidates": least, "mean_candidates": mean, "known": known}
                for name, cells, least, mean, known in self.tables
            ],
        }

    def described(self) -> Iterator[AnswerPart]:
        """How many true counts are left, table by table."""
        rows = [
            (name, f"{cells:,}", f"{least:,}", f"{mean:,.2f}", f"{known:,}")
            for name, cells, least, mean, known in self.tables
        ]
        yield ShownTable(["table", "cells ", "true counts left, least ", "mean ", "one alone "], rows)
        yield Said(self.in_words, tone=Tone.GOOD if self.ok else Tone.BAD)


def attack_arithmetic(release: str | Path) -> ArithmeticAttack:
    """How many true counts the published columns of a release leave for each cell (``confide attack arithmetic``).

    Args:
        release: A release of the cell key method, or the folder of its run.

    Returns:
        For each table the least and the mean number of candidates, and what the attack would have found.

    Raises:
        ParameterError: The release is of another mechanism.
    """
    opened = SealedRelease.of(release)
    if opened.manifest["mechanism"] != "cellkey":
        raise published_rows.not_attacked("figures whose noise has no bound")
    folder, described = opened.folder, describe(opened.facts)
    figures = dict(_published_figures(folder, set(opened.files), described))
    if described.magnitude is not None:
        remaining = {name: _values_behind(described.magnitude, count) for name, (count, _) in figures.items()}
        return ArithmeticAttack(folder, ("value",), None, None, _by_table(remaining), None)
    bound, step = int(described.largest_noise), int(described.weighted_step * WEIGHT_UNIT)
    columns = (tabular.COUNT, *([WEIGHTED] if described.weighted else ()))
    unit = power = None
    if described.weighted:
        unit = unit_of_weights(figures.values(), bound, step, described.weight_gap)
        power = _power(figures.values(), bound)
    remaining = {
        name: candidates(count, weighted, bound, step, 0 if unit is None else int(unit * WEIGHT_UNIT)).sum(axis=1)
        for name, (count, weighted) in figures.items()
    }
    proved = opened.facts.get("candidates")
    return ArithmeticAttack(folder, columns, proved, unit, _by_table(remaining), power)


def candidates(count: Integers, weighted: Integers | None, bound: int, step: int, unit: int) -> npt.NDArray[np.bool_]:
    """Which true counts fit the published columns of cells: from ``count - bound`` to ``count + bound``.

    Args:
        count: Published counts, above zero.
        weighted: Weighted figures in millionths; None where there are none.
        bound: The largest noise of a count.
        step: Weighted figures are multiples of so many millionths.
        unit: Weights are multiples of so many millionths.

    Returns:
        A row for each cell, a column for each true count.

    >>> candidates(np.array([11]), np.array([16_855_300]), 2, 1, 1_000).tolist()
    [[False, True, False, False, False]]
    """
    true_counts = count[:, None] + np.arange(-bound, bound + 1)
    fits: npt.NDArray[np.bool_] = true_counts >= 1
    if weighted is None or not len(count):
        return fits
    # Figures were rounded to millionths first, then to the step; twice all of it, to stay in whole numbers.
    half = step if step == 1 else step + 1
    wide = 2 * (int(weighted.max()) + step) * (int(count.max()) + bound) >= 1 << 62
    kind = object if wide else np.int64
    numbers, figures = true_counts.astype(kind), weighted.astype(kind)[:, None]
    divisor = count.astype(kind)[:, None] * (2 * unit)
    first = -((half - 2 * figures) * numbers // divisor)
    return fits & np.asarray(first * divisor <= (2 * figures + half) * numbers, np.bool_)


def unit_of_weights(
    figures: Iterable[tuple[Integers, Integers | None]], bound: int, step: int, gap: Fraction
) -> Fraction:
    """The coarsest power of ten, no coarser than the stated gap, that leaves every cell a true count."""
    columns = [(count, weighted) for count, weighted in figures if weighted is not None]
    for digits in range(len(str(WEIGHT_UNIT))):
        unit = Fraction(1, 10**digits)
        millionth_units = int(unit * WEIGHT_UNIT)
        if unit <= gap and all(
            candidates(count, weighted, bound, step, millionth_units).any(axis=1).all() for count, weighted in columns
        ):
            return unit
    return FINEST


def _power(figures: Iterable[tuple[Integers, Integers | None]], bound: int) -> tuple[int, int]:
    """What the same attack finds where made-up members with weights of three decimals stand behind these figures, and
    weighted figures have all their digits."""
    generator, unit = np.random.default_rng(1), WEIGHT_UNIT // 10**DIGITS_OF_POWER
    cells = known = 0
    for count, weighted in figures:
        if weighted is None or not len(count):
            continue
        members = np.maximum(1, count + generator.integers(-bound, bound + 1, len(count)))
        mean = np.maximum(weighted // count, unit)
        weights = mean * members // unit * unit + generator.integers(0, 10**DIGITS_OF_POWER, len(count)) * unit
        fine = scaled(count, weights, members)
        known += int((candidates(count, fine, bound, 1, unit).sum(axis=1) == 1).sum())
        cells += len(count)
    return known, cells


def _values_behind(magnitude: Mapping[str, Any], figures: Integers) -> Integers:
    """How many values, in whole numbers of the last decimal, are within the largest noise of each figure. Without a
    stated bound there are as many as numbers can be told apart."""
    if magnitude["negative"] or magnitude["contributions"] == "range":
        return np.full(len(figures), MANY, np.int64)
    share = Fraction(magnitude["largest_share"])
    small = Fraction(magnitude["largest_small"]) * 10 ** magnitude["decimals"]
    numbers = []
    for figure in figures.tolist():
        low = min((figure - Fraction(1, 2)) / (1 + share), figure - Fraction(1, 2) - small)
        high = max((figure + Fraction(1, 2)) / (1 - share), figure + Fraction(1, 2) + small) if share < 1 else MANY
        numbers.append(min(MANY, floor(high) - max(1, ceil(low)) + 1))
    return np.array(numbers, np.int64)


def _published_figures(
    folder: Path, files: set[str], described: PerturbedTables
) -> Iterator[tuple[str, tuple[Integers, Integers | None]]]:
    """The figures of every table, as anybody reads them: counts or values, and weighted ones."""
    columns = columns_of(described)
    for table in described.tables:
        contents, problem = tabular.read_formats(
            folder, table.name, files, partial(read_table, table=table, columns=columns)
        )
        rows = None if problem else next(iter(contents.values()))
        if rows is not None:
            yield table.name, (rows.count, rows.figures.get(WEIGHTED))
    for given in described.given:
        read = partial(read_cells, table=given, columns=columns)
        cells, problem = tabular.read_formats(folder, given.name, files, read)
        if not problem:
            of_table = next(iter(cells.values()))
            weighted = of_table.column(WEIGHTED).to_numpy() if described.weighted else None
            yield given.name, (of_table.column(tabular.COUNT).to_numpy(), weighted)


def _by_table(numbers: Mapping[str, Integers]) -> tuple[tuple[str, int, int, float, int], ...]:
    """Of tables that have cells: how many, the least and the mean number of candidates, and cells with one alone."""
    return tuple(
        (name, len(each), int(each.min()), round(float(each.mean()), 2), int((each == 1).sum()))
        for name, each in numbers.items()
        if len(each)
    )
