"""The arithmetic attacker: what the published columns of one cell, taken together, leave of its true count.

A published count p leaves every n of at least 1 within D of it. A weighted figure w beside it, in multiples of a step
r, says p · W / n to within r / 2: a count n is excluded where no multiple of the unit of the weights lies between
n · (w - r/2) / p and n · (w + r/2) / p. The attacker does not know the unit, and takes the coarsest power of ten that
leaves no cell without a count. With the step of ``spec.weighted_step`` nothing is excluded, which
``docs/proofs/cellkey.md`` proves; the power of the attack is what it finds where figures have all their digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.arrays import Integers
from confide.lab.published import published_rows as rows
from confide.mechanisms.cellkey.keyed_records import scaled
from confide.mechanisms.cellkey.output import WEIGHTED, columns_of, read_cells, read_table
from confide.mechanisms.cellkey.programme import PerturbedTables, describe
from confide.mechanisms.cellkey.spec import WEIGHT_UNIT
from confide.releases import SealedRelease, tabular

FINEST = Fraction(1, WEIGHT_UNIT)
MANY = 1 << 40
DIGITS_OF_POWER = 3
"""The power of the attack is computed for weights of so many decimals."""


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
            return said + " The figures have no other columns, so there is nothing to compute with: no power."
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

    >>> import confide
    >>> rows = ["age,count,cell_key", "young,120,5", "old,80,99999999"]
    >>> with (tmp_path / "ages.csv").open("w") as file:
    ...     print(*rows, sep=chr(10), file=file)
    >>> made = confide.perturb_cells(tmp_path / "ages.csv", tmp_path / "ages", D=5, V=2)
    >>> confide.attack_arithmetic(made.release).ok
    True
    """
    opened = SealedRelease.of(release)
    if "ptable" not in opened.facts:
        raise rows.not_attacked("figures whose noise has no bound")
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
