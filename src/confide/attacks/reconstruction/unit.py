"""The attack on one unit: a solution, what randomised repeats make of it, and how different others could be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from confide.attacks.reconstruction.fitting import fit
from confide.attacks.reconstruction.guesses import guessed
from confide.attacks.reconstruction.marginals import Floats, Integers, Published
from confide.attacks.reconstruction.programme import Flags, NoSolution, Programme, Structure, programme, structure
from confide.attacks.reconstruction.propagation import Reduced, reduce
from confide.attacks.reconstruction.solving import whole_solution
from confide.attacks.reconstruction.variability import UNIQUE, Variability, variability
from confide.errors import Finding, ParameterError

MOST_PEOPLE = 100_000_000
"""How many people a unit may have."""


@dataclass(frozen=True)
class Settings:
    """How an attack is made."""

    depth: int
    repeats: int
    seed: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Attacked:
    """What the attack on a unit found, one entry for each cell with people: block, cell, people and their confidence.

    The confidence of the j-th person of a cell, as block tables show it (ages in their groups), is the share of the
    repeats with at least j people there; 1 where every solution has them; NaN where nothing was repeated.
    """

    block: Integers = field(repr=False)
    cell: Integers = field(repr=False)
    confidence: Floats = field(repr=False)
    """One entry for each person."""
    certain: Flags = field(repr=False)
    """Whether a person is proven to be in every solution."""
    guessed: Integers = field(repr=False)
    """The attributes of a person that no figure tells, as bits."""
    variability: dict[int, Variability | None] = field(repr=False)
    """For each block with people; nothing is claimed for ``None``."""
    solved: bool = True
    deviation: float = 0.0


class Attack:
    """Everything that is the same for all units."""

    def __init__(self, published: Published, settings: Settings):
        self.published = published
        self.settings = settings

    @cached_property
    def plan(self) -> Structure:
        """The structure of the programmes."""
        return structure(self.published, self.settings.depth)

    @cached_property
    def block_plan(self) -> Structure:
        """The structure for the solution variability of one block, over the cells that block tables tell apart."""
        return self.plan if self.settings.depth == 0 else structure(self.published, 0, finest_only=True)

    @cached_property
    def to_block_cells(self) -> Integers:
        """For each cell the cell that block tables see."""
        return self.plan.space.to(self.block_plan.space)

    @cached_property
    def countable(self) -> bool:
        """Whether the number of people of a block is published: without it, variability has no denominator."""
        return any(item.depth == 0 and item.exact and item.totals is not None for item in self.published.marginals)

    def unit(self, number: int, blocks: Sequence[int]) -> Attacked:
        """The attack on a unit.

        :raises NoSolution: if no records have its tables.
        """
        made = programme(self.plan, blocks)
        left = reduce(made)
        noisy = made.noisy.matrix.shape[0] > 0
        seconds = self.settings.seconds
        deviation = 0.0
        values: Integers | None
        if noisy:
            found = fit(made, left, seconds)
            values, deviation = (None, 0.0) if found is None else (found.values, found.deviation)
        else:
            values = whole_solution(left, None, seconds)
        if values is None:
            nothing = np.zeros(0, np.int64)
            return Attacked(nothing, nothing, np.zeros(0), np.zeros(0, bool), nothing, {}, solved=False)
        check_figures(made, values)
        _check_number(int(values.sum()))
        blocks_there = np.unique(made.block[values > 0]).tolist()
        known: dict[int, Variability | None] = dict.fromkeys(blocks_there)
        person = np.repeat(np.arange(made.size), values)
        group, of_person = self._groups(made, person)
        lower = np.bincount(group, left.lower).astype(np.int64)
        if not noisy:
            for block in blocks_there:
                known[block] = self._variability(block, made, left, values, group, lower)
        copy = _rank(of_person)
        sure = [block for block, item in known.items() if item is not None and item.unique]
        certain = (copy <= lower[of_person]) | np.isin(made.block[person], sure)
        confidence = np.where(certain, 1.0, np.nan)
        if self.settings.repeats and not certain.all():
            shares = self._shares(number, made, left, group, of_person, copy, noisy=noisy)
            confidence = np.where(certain, 1.0, shares)
        told = guessed(made)[person]
        return Attacked(made.block[person], made.cell[person], confidence, certain, told, known, True, deviation)

    def _groups(self, made: Programme, person: Integers) -> tuple[Integers, Integers]:
        """Variables that block tables do not tell apart form a group: for each variable and each person its number."""
        key = made.block * self.block_plan.space.cells + self.to_block_cells[made.cell]
        group = np.unique(key, return_inverse=True)[1].astype(np.int64)
        return group, group[person]

    def _variability(
        self, block: int, made: Programme, left: Reduced, values: Integers, group: Integers, lower: Integers
    ) -> Variability | None:
        """The variability of one block. Raises ``lower`` where the tables of the block alone say more."""
        if not self.countable:
            return None
        if self.settings.depth == 0:
            return variability(values, left, self.settings.seconds)
        alone = programme(self.block_plan, [block])
        reduced = reduce(alone)
        here = np.flatnonzero(made.block == block)
        cells = self.to_block_cells[made.cell[here]]
        least = np.zeros(self.block_plan.space.cells, np.int64)
        least[alone.cell] = reduced.lower.astype(np.int64)
        lower[group[here]] = np.maximum(lower[group[here]], least[cells])
        if reduced.determined:
            return UNIQUE
        histogram = np.bincount(cells, values[here], self.block_plan.space.cells).astype(np.int64)
        return variability(histogram[alone.cell], reduced, self.settings.seconds)

    def _shares(
        self,
        number: int,
        made: Programme,
        left: Reduced,
        group: Integers,
        of_person: Integers,
        copy: Integers,
        *,
        noisy: bool,
    ) -> Floats:
        """For each person the share of repeats that have them: at least as many people of the group."""
        generator = np.random.default_rng([self.settings.seed, number])
        times, there = 0, np.zeros(len(of_person))
        for _ in range(self.settings.repeats):
            cost = generator.standard_normal(made.size)
            if noisy:
                found = fit(made, left, self.settings.seconds, cost)
                other = None if found is None else found.values
            else:
                other = whole_solution(left, cost, self.settings.seconds)
            if other is not None:
                times += 1
                there += np.bincount(group, other)[of_person] >= copy
        return there / times if times else np.full(len(of_person), np.nan)


def _rank(groups: Integers) -> Integers:
    """For each entry how many of its group there are up to it, from 1 on."""
    order = np.argsort(groups, kind="stable")
    first = np.flatnonzero(np.diff(groups[order], prepend=-1))
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(first, np.diff(np.append(first, len(groups)))) + 1
    return rank


def _check_number(people: int) -> None:
    """A record for each person has to be held, and a slip of the keyboard can make billions of them."""
    if people > MOST_PEOPLE:
        raise ParameterError(
            Finding(
                code="too-many-people",
                what="the tables of one unit count more people than records can be held of",
                found=f"{people:,}",
                expected=f"at most {MOST_PEOPLE:,}",
                remedy="correct the tables, or solve smaller units: --level",
            )
        )


def check_figures(made: Programme, values: Integers) -> None:
    """Every exact published figure against the solution, in whole numbers."""
    sums = made.exact.matrix.astype(np.int64) @ values
    count = made.exact.count.astype(np.int64)
    wrong = np.where(made.exact.at_most, sums > count, sums != count)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise NoSolution(
            "a published figure does not hold", [made.row_name(made.exact, row)], made.unit_name(made.exact, row)
        )
