"""Published tables as anybody can read them: marginals of one histogram, for units of geolevels that nest.

A *table* is what an office publishes under one name; each of its queries is a :class:`PublishedMarginal` here. A
marginal is exact (its counts are those of the records) or noisy (each count has noise of a stated variance, perhaps
with a bound that it never passes). A cell can be unknown: left out, suppressed, blank. An unknown cell says nothing and
constrains nothing.

Releases of every mechanism are read back in this form, and :meth:`Published.from_tables` takes tables that are in
memory. Attacks and comparisons know nothing else of a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import isfinite, sqrt
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from confide.arrays import Floats, Integers
from confide.exact import Exact
from confide.noise import DiscreteGaussian, ReleaseNoise, TruncatedGaussian, TwoSidedGeometric
from confide.noise.ptables import PTable
from confide.schema import Code, Query, Schema

EVERYWHERE = "all"
"""The code of the only unit where tables have no geography."""


@dataclass(frozen=True)
class PublishedGeography:
    """Geolevels that nest, the finest first; each block with its unit on every level.

    The finest units are called blocks, whatever the office calls them.
    """

    levels: tuple[str, ...]
    units: tuple[tuple[str, ...], ...]
    """For each level the codes of its units."""
    unit_of_block: tuple[Integers, ...] = field(repr=False)
    """For each level the unit of each block; for the first level the block itself."""
    record_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """What records say of where a block is, by column; without it, its code and its unit on every other level."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """The codes of the blocks."""
        return self.units[0]

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """For each column of records that says where, what it has for each block."""
        if self.record_columns:
            return self.record_columns
        levels = {
            name: tuple(units[number] for number in of_block.tolist())
            for name, units, of_block in zip(self.levels[1:], self.units[1:], self.unit_of_block[1:], strict=True)
        }
        return {"geocode": self.blocks} | levels

    def depth(self, level: str) -> int:
        """The place of a level, 0 for the finest."""
        return self.levels.index(level)

    def blocks_of(self, depth: int) -> list[Integers]:
        """For each unit of a level its blocks."""
        order = np.argsort(self.unit_of_block[depth], kind="stable")
        ends = np.searchsorted(self.unit_of_block[depth][order], np.arange(len(self.units[depth]) + 1))
        return [order[first:last] for first, last in pairwise(ends.tolist())]


def one_unit() -> PublishedGeography:
    """The geography of tables that have none."""
    return PublishedGeography((EVERYWHERE,), ((EVERYWHERE,),), (np.zeros(1, np.int64),))


@dataclass(frozen=True)
class NoiseBound:
    """How far noise can take a count: no further than ``largest``, up or down.

    With ``zeros_kept``, nobody stays nobody, as in the cell key method: a figure above zero counts somebody.
    """

    largest: int
    zeros_kept: bool = False

    def lowest(self, figure: Floats) -> Floats:
        """For each figure the least that the true count can be."""
        return np.maximum(figure - self.largest, np.where(self.zeros_kept & (figure > 0), 1.0, 0.0))

    def highest(self, figure: Floats) -> Floats:
        """For each figure the most that the true count can be."""
        return figure + self.largest


@dataclass(frozen=True, eq=False)
class PublishedMarginal:
    """The answers to one query for all units of a level, sparse.

    The cells of unit u are ``cell[start[u]:start[u + 1]]`` with the counts ``value`` there; those that are not listed
    are zero, or unknown if ``absent_unknown``. A count of NaN is unknown.
    """

    table: str
    depth: int
    query: Query
    start: Integers = field(repr=False)
    cell: Integers = field(repr=False)
    value: Floats = field(repr=False)
    variance: Fraction | None = None
    absent_unknown: bool = False
    bound: NoiseBound | None = None
    """How far the noise can go, if it cannot go everywhere."""
    law: FigureLaw | None = field(default=None, repr=False)
    """The law of the noise, if more is known of it than variance and bound."""

    @property
    def exact(self) -> bool:
        """Whether the counts have no noise."""
        return self.variance is None

    @property
    def name(self) -> str:
        """The table, and the query if that says more."""
        return f"{self.table} ({self.query.name})"

    def counts(self, unit: int) -> Floats:
        """The counts of a unit, NaN where unknown."""
        result = np.full(self.query.cells, np.nan if self.absent_unknown else 0.0)
        listed = slice(self.start[unit], self.start[unit + 1])
        result[self.cell[listed]] = self.value[listed]
        return result

    @cached_property
    def totals(self) -> Floats | None:
        """For each unit the sum of all cells, if the query counts everybody and every cell is known."""
        if not self.query.is_complete:
            return None
        sums = np.zeros(len(self.start) - 1)
        np.add.at(sums, np.repeat(np.arange(len(sums)), np.diff(self.start)), self.value)
        if self.absent_unknown:
            sums[np.diff(self.start) < self.query.cells] = np.nan
        return sums


@dataclass(frozen=True)
class ImpossibleCells:
    """Combinations that no record can have: all with one of these codes for each attribute named."""

    where: Mapping[str, frozenset[Code]]


@dataclass(frozen=True, eq=False)
class Published:
    """Everything that is published: a schema, a geography, marginals, and what cannot be."""

    schema: Schema
    geography: PublishedGeography
    marginals: tuple[PublishedMarginal, ...]
    zeros: tuple[ImpossibleCells, ...] = ()
    source: str = "tables"
    notes: tuple[str, ...] = ()
    """What a reader of the result should know of the source."""
    together: str | None = None
    """The level whose units are solved as a whole unless somebody says otherwise; without it, as tables allow."""

    @classmethod
    def from_tables(
        cls,
        tables: Mapping[str, object],
        schema: Schema | str | Path,
        *,
        area: str | None = None,
        variance: Exact | None = None,
        bound: NoiseBound | None = None,
        absent: Literal["zero", "unknown"] = "zero",
        zeros: Sequence[ImpossibleCells] = (),
        source: str = "tables in memory",
    ) -> Published:
        """Published tables that are in memory: from pandas, polars, Arrow, or plain columns.

        A row is a published count: a column for each attribute of the query, with labels or codes of its variable, and
        a column ``count``, which is missing where the figure is unknown. Other columns are passed over.

        Args:
            tables: For each query, such as ``"sex"`` or ``"sex*age:five-year"``, a table: anything with the Arrow
                PyCapsule interface (pandas from 2.2 on, polars, DuckDB, Arrow), or a mapping of columns. ``"total"``
                is the query without attributes.
            schema: The attributes: a schema, the name of one that ships, such as ``"persons"``, or a file.
            area: The column with the code of the area, in every table. None: the tables are of one area.
            variance: The variance of the noise, exact (``"2"``, ``Fraction``). None: the counts are exact.
            bound: How far the noise can go, if it cannot go everywhere.
            absent: What a cell is whose row is not there: zero, or unknown.
            zeros: Combinations that no record can have.
            source: A name for reports.

        Returns:
            The tables, ready for :func:`confide.lab.attacks.reconstruct`.

        Raises:
            ConfideError: With a finding for each problem: the table, the row, what is wrong and what to do.

        >>> women_and_men = {"sex": ["male", "female"], "count": [2, 1]}
        >>> published = Published.from_tables({"sex": women_and_men}, "persons")
        >>> published.marginals[0].counts(0)
        array([2., 1.])
        """
        from confide.lab.published.published_rows import tables_in_memory

        return tables_in_memory(
            tables,
            schema,
            area=area,
            variance=variance,
            bound=bound,
            absent_unknown=absent == "unknown",
            zeros=tuple(zeros),
            source=source,
        )

    @property
    def exact(self) -> bool:
        """Whether every marginal is exact."""
        return all(marginal.exact for marginal in self.marginals)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables, each once."""
        return tuple(dict.fromkeys(marginal.table for marginal in self.marginals))


def sparse(unit: Integers, cell: Integers, value: Floats, units: int) -> tuple[Integers, Integers, Floats]:
    """Counts given one by one, as the arrays of a :class:`PublishedMarginal`.

    Args:
        unit: For each count the number of its unit, shape (counts,).
        cell: For each count its cell, shape (counts,).
        value: The counts, shape (counts,).
        units: How many units there are.

    Returns:
        ``start``, shape (units + 1,), and ``cell`` and ``value`` in the order of units and cells.

    >>> sparse(np.array([1, 0]), np.array([5, 2]), np.array([7.0, 8.0]), 2)
    (array([0, 1, 2]), array([2, 5]), array([8., 7.]))
    """
    order = np.lexsort((cell, unit))
    start = np.searchsorted(unit[order], np.arange(units + 1)).astype(np.int64)
    return start, cell[order], value[order]


# What a published figure says of the count that it comes from: the law of its noise, read backwards.
#
# The law of the noise says how likely a published figure is for each count that it can come from. An attacker knows
# the mechanism: laws and perturbation tables are in the plan, which is public. What a figure y says of its true count
# n is the likelihood P(y | n) as a function of n. A factor that does not depend on n says nothing, and is left out.
#
# - :class:`AdditiveLaw`: y = n + e, with e of a law of :mod:`confide.noise`, bounded or not: P(e = y − n).
# - :class:`PTableLaw`: the cell key method, P(noise = y − n | n) from the row of the perturbation table for n.
# - :class:`SpreadLaw`: no more is known than a variance, and perhaps a bound: a normal density, cut off at the bound.


LEAST_VARIANCE = 1e-9
"""Noise that is next to never there: densities want a variance above zero."""


class FigureLaw(Protocol):
    """What every law of a figure answers."""

    def log_likelihood(self, figure: float, counts: Integers) -> Floats:
        """For each count the logarithm of the probability of the figure, up to a constant; ``-inf``: it cannot be.

        Args:
            figure: The published figure.
            counts: True counts of zero or more, shape (counts,).
        """


@dataclass(frozen=True)
class AdditiveLaw:
    """A count plus noise of a law; with ``floored``, what came out below zero is published as zero.

    >>> AdditiveLaw(DiscreteGaussian(2)).log_likelihood(3, np.array([1, 3, 5])).tolist()
    [-1.0, 0.0, -1.0]
    """

    noise: ReleaseNoise
    floored: bool = False

    def log_likelihood(self, figure: float, counts: Integers) -> Floats:
        if self.floored and figure <= 0:
            reach = int(counts.max(initial=0)) + self._tail
            weights = np.exp(self._log(np.arange(reach + 1, dtype=np.float64)))
            # P(e ≤ −n): what is summed from the far end on.
            sums = np.cumsum(weights[::-1])[::-1]
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(sums[counts] / sums[0]))
        return self._log(np.abs(figure - counts))

    @cached_property
    def _tail(self) -> int:
        """How far beyond a count the law has to be summed up."""
        deviation = sqrt(max(self.noise.variance(), LEAST_VARIANCE))
        return self.noise.bound if self.noise.bound is not None else int(40 * deviation) + 10

    def _log(self, distance: Floats) -> Floats:
        """The logarithm of the law at a distance from zero, up to a constant."""
        parameter = float(self.noise.parameter)
        if isinstance(self.noise, DiscreteGaussian | TruncatedGaussian):
            values = -(distance**2) / (2 * max(parameter, LEAST_VARIANCE))
        else:
            assert isinstance(self.noise, TwoSidedGeometric) or self.noise.bound is not None
            values = -parameter * distance
        if self.noise.bound is not None:
            values = np.where(distance <= self.noise.bound, values, -np.inf)
        return np.asarray(values, np.float64)


@dataclass(frozen=True)
class PTableLaw:
    """The cell key method with a perturbation table: nobody stays nobody, and every count has its own row."""

    table: PTable

    @cached_property
    def _rows(self) -> tuple[dict[int, float], ...]:
        """For each row the logarithms of its probabilities, by noise."""
        return tuple(
            {int(noise): float(np.log(float(p))) for noise, p in self.table.probabilities(place).items() if p > 0}
            for place in range(len(self.table.rows))
        )

    def log_likelihood(self, figure: float, counts: Integers) -> Floats:
        places = self.table.row_of(counts)
        noise = figure - counts
        return np.array(
            [
                self._rows[place].get(int(each), -np.inf) if each == int(each) else -np.inf
                for place, each in zip(places.tolist(), noise.tolist(), strict=True)
            ],
            np.float64,
        )


@dataclass(frozen=True)
class SpreadLaw:
    """Noise of a stated variance, no further than ``largest`` if that is given; with ``zeros_kept``, zero stays zero.

    >>> SpreadLaw(2.0, largest=1).log_likelihood(3, np.array([1, 2, 3])).tolist()
    [-inf, -0.25, 0.0]
    """

    variance: float
    largest: int | None = None
    zeros_kept: bool = False

    def log_likelihood(self, figure: float, counts: Integers) -> Floats:
        distance = np.abs(figure - counts)
        values = -(distance**2) / (2 * max(self.variance, LEAST_VARIANCE))
        if self.largest is not None:
            values = np.where(distance <= self.largest, values, -np.inf)
        if self.zeros_kept and figure > 0:
            values = np.where(counts > 0, values, -np.inf)
        return np.asarray(values, np.float64)


WIDEST = 2_000
SPREADS = 11
"""A table of a likelihood reaches so many standard deviations to both sides of the figure, or so many counts."""
IMPOSSIBLE = 40.0
"""What a count costs that cannot be, in logarithms; and each step beyond, so that a search finds its way back."""


@dataclass(frozen=True, eq=False)
class LikelihoodTable:
    """The likelihood of one figure for the counts ``low``, ``low + 1``, …; outside it falls by a slope on each side."""

    low: int
    values: Floats
    slopes: tuple[float, float]

    @classmethod
    def of(cls, law: FigureLaw, figure: float, variance: float, largest: int | None = None) -> LikelihoodTable:
        """The table of a figure: ``largest`` is how far the noise can go, if it cannot go everywhere."""
        deviation = SPREADS * sqrt(max(variance, LEAST_VARIANCE)) if isfinite(variance) else WIDEST
        width = largest + 1 if largest is not None else int(min(deviation, WIDEST)) + 3
        low = max(0, int(np.floor(figure)) - width)
        high = max(low + 3, int(np.ceil(figure)) + width)
        counts = np.arange(low, high + 1, dtype=np.int64)
        values = law.log_likelihood(figure, counts)
        possible = np.isfinite(values)
        if not possible.any():
            values = -IMPOSSIBLE * (1 + np.abs(counts - figure))
        elif not possible.all():
            distance = np.abs(np.subtract.outer(counts, counts[possible])).min(axis=1)
            worst = values[possible].min()
            values = np.where(possible, values, worst - IMPOSSIBLE * distance)
        falls = (float(values[1] - values[0]), float(values[-2] - values[-1]))
        return cls(low, values, (max(falls[0], 0.1), max(falls[1], 0.1)))
