"""Whether released groups fit a plan: kinds of iterations that no figure of theirs speaks against.

The files do not say whether an iteration is regional or detailed, nor whether it is total-only; these are its *kind*.
But a kind forbids figures: a total at or below the suppression number of the level, a region type without the level, a
noise margin of another level. An iteration whose figures leave it no kind, or more iterations of one kind than the plan
has, is what no run of the plan gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.noise import Law
from confide.safetab.grids import CELLS_OF_LEVEL, GRIDS
from confide.safetab.output.margins import margin_of_sum
from confide.safetab.output.reading import CODES, code_of, region_of
from confide.safetab.output.released import TableForPeople
from confide.safetab.planning import TABLE, TOTAL_ONLY
from confide.safetab.settings import ITERATION_LEVELS, REGION_TYPES

Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

KINDS = tuple((level, total_only) for level in ITERATION_LEVELS for total_only in (False, True))
"""An iteration level, and whether a group gets a total alone."""


@dataclass(frozen=True)
class Planned:
    """A population group level as the plan in the manifest describes it."""

    region: int
    iteration_level: int
    areas: int
    iterations: int
    total_only: int
    suppressed_up_to: int | None
    law: Law | None
    total_law: Law | None

    def number(self, total_only: bool) -> int:
        """How many iterations of one kind there are."""
        return self.total_only if total_only else self.iterations - self.total_only

    def margins(self, probability: Fraction, statistics_level: int, *, total_only: bool = False) -> list[int]:
        """The noise margins of a group's total, and with a table of a sex and of a cell; none if there is none."""
        law = self.total_law if total_only else self.law
        if law is None or (total_only and statistics_level):
            return []
        grid = [] if statistics_level == 0 else [GRIDS[statistics_level - 1].ages, 1]
        sums = [CELLS_OF_LEVEL[statistics_level], *grid]
        return [margin_of_sum(law, cells, probability) for cells in sums]


def read_planned(plan: Mapping[str, Any]) -> list[Planned]:
    """The levels of a plan."""
    laws = {(measure["level"], measure["query"]): Law.from_dict(measure["law"]) for measure in plan["measures"]}
    return [
        Planned(
            REGION_TYPES.index(level["region_type"]),
            level["iteration_level"],
            level["areas"],
            level["iterations"],
            level["total_only_iterations"],
            level["suppressed_up_to"],
            *(
                laws.get((level["region_type"], f"{ITERATION_LEVELS[level['iteration_level']]}: {query}"))
                for query in (TABLE, TOTAL_ONLY)
            ),
        )
        for level in plan["question"]["levels"].values()
    ]


@dataclass
class Fits:
    """The kinds that are left to each iteration code, as more is asked of its figures.

    In region types of ``shared``, areas can have the figures of another area: there the kind of an iteration still
    holds, but suppression numbers and margins are those of any region type.
    """

    planned: list[Planned]
    shared: frozenset[int]
    tables: list[TableForPeople]
    left: Truths = field(init=False)

    def __post_init__(self) -> None:
        self.left = np.ones((len(KINDS), CODES), np.bool_)

    @cached_property
    def present(self) -> Truths:
        """Which codes occur."""
        result = np.zeros(CODES, np.bool_)
        result[code_of(self.tables[0].key)] = True
        return result

    @property
    def impossible(self) -> int:
        """How many iterations have no kind left."""
        return int((self.present & ~self.left.any(axis=0)).sum())

    def of_plan(self) -> None:
        """Only kinds that the plan has in the region type, and with a table no total-only ones."""
        for region, at in self._regions(self.tables[0]):
            codes, tabled = code_of(self.tables[0].key[at]), self.tables[0].level[at] > 0
            for number, (level, total_only) in enumerate(KINDS):
                there = any(each.number(total_only) for each in self._levels(region, level))
                self._forbid(number, codes, tabled if there and total_only else np.full(len(codes), not there))

    def of_suppression(self) -> None:
        """Only kinds by which every total alone would have been shown."""
        for region, at in self._regions(self.tables[0]):
            total, alone = self.tables[0].total[at], self.tables[0].level[at] == 0
            for number, (level, total_only) in enumerate(KINDS):
                numbers = [each.suppressed_up_to for each in self._levels(region, level)]
                if total_only or not numbers or None in numbers:
                    continue
                least = min(each for each in numbers if each is not None)
                self._forbid(number, code_of(self.tables[0].key[at]), alone & (total <= least))

    def of_margins(self, probability: Fraction) -> None:
        """Only kinds with the noise margins that are stated."""
        for table in self.tables:
            assert table.margins is not None
            for region, at in self._regions(table):
                for statistics_level in np.unique(table.level[at]).tolist():
                    rows = at[table.level[at] == statistics_level]
                    self._margins(table, rows, region, statistics_level, probability)

    def too_many(self) -> str | None:
        """Where more iterations must be of a kind than the plan has."""
        for region, at in self._regions(self.tables[0]):
            here = np.zeros(CODES, np.bool_)
            here[code_of(self.tables[0].key[at])] = True
            for number, (level, total_only) in enumerate(KINDS):
                forced = int((here & self.left[number] & (self.left.sum(axis=0) == 1)).sum())
                most = max((each.number(total_only) for each in self._levels(region, level)), default=0)
                if forced > most:
                    return f"{REGION_TYPES[region]}: {forced:,} iterations that the plan has {most:,} of"
        return None

    def _margins(
        self, table: TableForPeople, rows: Integers, region: int, statistics_level: int, probability: Fraction
    ) -> None:
        assert table.margins is not None
        found = table.margins[rows]
        for number, (level, total_only) in enumerate(KINDS):
            fitting = np.zeros(len(rows), np.bool_)
            for each in self._levels(region, level):
                expected = each.margins(probability, statistics_level, total_only=total_only)
                if expected:
                    fitting |= (found == np.array(expected[: found.shape[1]])).all(axis=1)
            self._forbid(number, code_of(table.key[rows]), ~fitting)

    def _levels(self, region: int, iteration_level: int) -> list[Planned]:
        """The levels that the figures of a region type can come from."""
        return [
            each
            for each in self.planned
            if each.iteration_level == iteration_level and (each.region == region or region in self.shared)
        ]

    def _forbid(self, kind: int, codes: Integers, where: Truths) -> None:
        self.left[kind, codes[where]] = False

    def _regions(self, table: TableForPeople) -> Iterator[tuple[int, Integers]]:
        """The rows of each region type; rows are in their order."""
        region = region_of(table.key)
        ends = np.searchsorted(region, np.arange(len(REGION_TYPES) + 1))
        for number in range(len(REGION_TYPES)):
            if ends[number] < ends[number + 1]:
                yield number, np.arange(ends[number], ends[number + 1])
