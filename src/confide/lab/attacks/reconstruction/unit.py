"""The attack on one unit: a solution, what randomised repeats make of it, and how different others could be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse

from confide.arrays import Floats, Integers
from confide.errors import ParameterError
from confide.lab.attacks.reconstruction import integer_program
from confide.lab.attacks.reconstruction.integer_program import deviation, minimise
from confide.lab.attacks.reconstruction.posterior import DRAWS, Likelihoods, NoisyUnit, Prior, WalkSettings
from confide.lab.published.marginals import Published

# What no figure of a unit tells: attributes of a record for which another value would do as well.
#
# Two cells of a block that are counted by the very same figures can be exchanged, person by person, and nothing that
# was published changes. Where such cells differ in an attribute, its value in a record is a guess. With whole tables
# there are none; where figures were left out, or a group has a total alone, there are.


_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def guessed(program: integer_program.IntegerProgram) -> Integers:
    """For each variable the attributes that are a guess, as bits: 1 for the first axis of the space, 2 for the next."""
    bits = np.zeros(program.size, np.int64)
    shape = program.structure.space.shape
    if not program.size or not shape:
        return bits
    kind = _kinds(program)
    kinds, first = np.unique(kind, return_index=True)
    if len(kinds) == program.size:
        return bits
    for axis, place in enumerate(np.unravel_index(program.cell, shape)):
        several = np.zeros(len(kinds), bool)
        of_kind = np.searchsorted(kinds, kind)
        several[of_kind[place != place[first][of_kind]]] = True
        bits |= several[of_kind].astype(np.int64) << axis
    return bits


def _kinds(program: integer_program.IntegerProgram) -> Integers:
    """A number for each variable, the same for those of a block that the same rows count.

    The rows of a variable are summed up as mixed 64-bit numbers; that two different sets of rows get the same sum has
    a chance of about 2^-64 for each pair.
    """
    rows = sparse.vstack([program.exact.matrix, program.noisy.matrix], format="csr").astype(np.uint64)
    mixed = np.arange(1, rows.shape[0] + 1, dtype=np.uint64) * _STEP
    mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX
    sums = rows.T @ (mixed ^ (mixed >> np.uint64(29)))
    sums[program.upper == 0] = 0
    _, kind = np.unique(np.stack([program.block.astype(np.uint64), sums]), axis=1, return_inverse=True)
    return np.asarray(kind, np.int64).reshape(-1)


# Solution variability: how different a block's records could be, given the same tables.
#
# For a solution x of a block of N people, with h its histogram over the cells that block tables tell apart,
#
#     solvar = 100 · max over solutions x' of ‖h(x) − h(x')‖₁ / (2 N) ,
#
# the largest share of people, in per cent, whom another solution has otherwise. **Zero means that the solution is the
# only one.** Both histograms have N people, so that ‖h − h'‖₁ = 2 (N − Σ min(h_i, h'_i)): Σ min is minimised, and
# only cells with h_i > 0 take part, at most N of them. With the upper bound u_i of a cell,
#
# - if u_i ≤ h_i, min(h_i, h'_i) is h'_i itself;
# - if h_i = 1, it is a binary z with h'_i ≤ u_i z;
# - otherwise it is m with m ≥ h_i z and m ≥ h'_i − u_i z.
#
# Derivation: ``docs/proofs/reconstruction.md``, 2. The measure is that of the Census Bureau's experiment (Abowd and
# others, 2025, supplement, section 4). As there, tables of coarser levels are kept as *at most*, which can only
# enlarge the variability: zero still proves uniqueness.


VariabilityStatus = Literal["proven", "time limit"]
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Variability:
    """The solution variability of a block in per cent.

    ``proven``: it is ``at_most``, and ``at_least`` the same. ``time limit``: it lies between the two.
    """

    status: VariabilityStatus
    at_least: float
    at_most: float

    @property
    def unique(self) -> bool:
        """Whether it is proven that there is no other solution."""
        return self.at_most == 0.0


UNIQUE = Variability("proven", 0.0, 0.0)


def variability(histogram: Integers, reduced: integer_program.ReducedProgram, seconds: float) -> Variability:
    """The solution variability of a block, by the formula above.

    Args:
        histogram: A solution: one count for each variable of the programme, shape (variables,).
        reduced: What the exact rows of the programme leave open.
        seconds: How long the solver may take.

    Returns:
        The variability in per cent, proven or between two bounds.
    """
    people = int(histogram.sum())
    if reduced.determined or not people:
        return UNIQUE
    # Determined cells are the same in every solution: only the free ones go into the programme.
    fixed = people - int(histogram[reduced.free].sum())
    answer = _least_in_common(histogram[reduced.free].astype(float), reduced, seconds)
    in_common = people if answer.values is None else fixed + round(answer.objective)
    # The fewest people that any two solutions have in common: the optimum, or a bound if the time was up.
    fewest = fixed + max(0, int(np.ceil(answer.bound - _TOLERANCE))) if np.isfinite(answer.bound) else fixed
    fewest = in_common if answer.status == "solved" else min(fewest, in_common)
    status: VariabilityStatus = "proven" if fewest == in_common else "time limit"
    return Variability(status, _share(people - in_common, people), _share(people - fewest, people))


def _share(different: int, people: int) -> float:
    return 100.0 * different / people


def _least_in_common(
    here: Floats, reduced: integer_program.ReducedProgram, seconds: float
) -> integer_program.SolverResult:
    """Minimises Σ min(h_i, h'_i) over the free variables, by the three cases above.

    ``here`` is h, one count for each free variable. The variables of the programme are h' (size), z of the cells with
    h_i = 1 (ones), z of those with more (many), and m of these (many).
    """
    size = len(reduced.free)
    low, high = reduced.lower[reduced.free], reduced.upper[reduced.free]
    # Which case each cell is: min is h' itself; a binary; or m. Cells with h_i = 0 have nothing in common.
    direct = (here > 0) & (high <= here)
    single = np.flatnonzero((here == 1) & ~direct)
    several = np.flatnonzero((here > 1) & ~direct)
    ones, many = len(single), len(several)
    # What is summed up, and between which bounds: h' as before, z in {0, 1}, m up to h.
    cost = np.concatenate([direct.astype(float), np.ones(ones), np.zeros(many), np.ones(many)])
    lower = np.concatenate([low, np.zeros(ones + many), np.minimum(low[several], here[several])])
    upper = np.concatenate([high, np.ones(ones + many), here[several]])
    integers = np.concatenate([np.ones(size + ones + many), np.zeros(many)])

    def pick(which: Integers, value: Any) -> Any:
        return sparse.csr_array(
            (np.broadcast_to(value, len(which)), (np.arange(len(which)), which)), (len(which), size)
        )

    def diagonal(values: Floats) -> Any:
        return sparse.diags_array(values, format="csr")

    def nothing(rows: int, columns: int) -> Any:
        return sparse.csr_array((rows, columns))

    # The rows: the published figures; h' - u z ≤ 0; h z - m ≤ 0; h' - u z - m ≤ 0.
    rows = reduced.matrix.shape[0]
    parts = [
        sparse.hstack([reduced.matrix, nothing(rows, ones + 2 * many)]),
        sparse.hstack([pick(single, 1.0), diagonal(-high[single]), nothing(ones, 2 * many)]),
        sparse.hstack([nothing(many, size + ones), diagonal(here[several]), diagonal(-np.ones(many))]),
        sparse.hstack([pick(several, 1.0), nothing(many, ones), diagonal(-high[several]), diagonal(-np.ones(many))]),
    ]
    matrix = sparse.vstack(parts, format="csc")
    extra = ones + 2 * many
    least = np.concatenate([reduced.least, np.full(extra, -np.inf)])
    most = np.concatenate([reduced.most, np.zeros(extra)])
    return minimise(cost, matrix, least, most, lower, upper, integers, seconds)


MOST_PEOPLE = 100_000_000
"""How many people a unit may have."""


@dataclass(frozen=True)
class AttackSettings:
    """How an attack is program."""

    depth: int
    repeats: int
    seed: int
    seconds: float


@dataclass(frozen=True, eq=False)
class UnitSolution:
    """What the attack on a unit found, one entry for each cell with people: block, cell, people and their confidence.

    The confidence of the j-th person of a cell, as block tables show it (ages in their groups), is the share of the
    repeats with at least j people there, or of draws from the posterior where figures have noise; 1 where every
    solution has them; NaN where nothing was repeated.
    """

    block: Integers = field(repr=False)
    cell: Integers = field(repr=False)
    confidence: Floats = field(repr=False)
    """One entry for each person."""
    certain: integer_program.Flags = field(repr=False)
    """Whether a person is proven to be in every solution."""
    guessed: Integers = field(repr=False)
    """The attributes of a person that no figure tells, as bits."""
    variability: dict[int, Variability | None] = field(repr=False)
    """For each block with people; nothing is claimed for ``None``."""
    solved: bool = True
    deviation: float = 0.0


class Attack:
    """Everything that is the same for all units."""

    def __init__(self, published: Published, settings: AttackSettings):
        self.published = published
        self.settings = settings

    @cached_property
    def plan(self) -> integer_program.ProgramStructure:
        """The structure of the programmes."""
        return integer_program.program_structure(self.published, self.settings.depth)

    @cached_property
    def block_plan(self) -> integer_program.ProgramStructure:
        """The structure for the solution variability of one block, over the cells that block tables tell apart."""
        return (
            self.plan
            if self.settings.depth == 0
            else integer_program.program_structure(self.published, 0, finest_only=True)
        )

    @cached_property
    def to_block_cells(self) -> Integers:
        """For each cell the cell that block tables see."""
        return self.plan.space.to(self.block_plan.space)

    @cached_property
    def countable(self) -> bool:
        """Whether the number of people of a block is published: without it, variability has no denominator."""
        return any(item.depth == 0 and item.exact and item.totals is not None for item in self.published.marginals)

    def unit(self, number: int, blocks: Sequence[int]) -> UnitSolution:
        """The attack on a unit.

        :raises NoSolution: if no records have its tables.
        """
        # The programme, and what its exact rows leave open.
        program = integer_program.integer_program(self.plan, blocks)
        reduced = integer_program.reduce(program)
        noisy = self._noisy(number, blocks, program, reduced) if program.noisy.matrix.shape[0] > 0 else None
        values: Integers | None
        values = (
            integer_program.integer_solution(reduced, None, self.settings.seconds) if noisy is None else noisy.settle()
        )
        if values is None:
            nothing = np.zeros(0, np.int64)
            return UnitSolution(nothing, nothing, np.zeros(0), np.zeros(0, bool), nothing, {}, solved=False)
        check_figures(program, values)
        _check_number(int(values.sum()))
        blocks_there = np.unique(program.block[values > 0]).tolist()
        variabilities: dict[int, Variability | None] = dict.fromkeys(blocks_there)
        # One person for each count; people of cells that block tables do not tell apart form a group.
        person = np.repeat(np.arange(program.size), values)
        group, of_person = self._groups(program, person)
        lower = np.bincount(group, reduced.lower).astype(np.int64)
        if noisy is None:
            for block in blocks_there:
                variabilities[block] = self._variability(block, program, reduced, values, group, lower)
        # The j-th person of a group is in every solution if each has at least j people there, or the block has one
        # solution alone.
        copy = _rank(of_person)
        sure = [block for block, item in variabilities.items() if item is not None and item.unique]
        certain = (copy <= lower[of_person]) | np.isin(program.block[person], sure)
        confidence = np.where(certain, 1.0, np.nan)
        if not certain.all() and noisy is not None:
            confidence = np.where(certain, 1.0, noisy.confidence(group, of_person, copy))
        elif not certain.all() and self.settings.repeats:
            confidence = np.where(certain, 1.0, self._shares(number, program, reduced, group, of_person, copy))
        return UnitSolution(
            program.block[person],
            program.cell[person],
            confidence,
            certain,
            guessed(program)[person],
            variabilities,
            deviation=0.0 if noisy is None else deviation(program, values),
        )

    def _noisy(
        self,
        number: int,
        blocks: Sequence[int],
        program: integer_program.IntegerProgram,
        reduced: integer_program.ReducedProgram,
    ) -> NoisyUnit:
        """What is known of a unit whose figures have noise, before its people are looked for."""
        settings = self.settings
        shares = self.prior.of_unit(number, int(min(blocks)))
        log_size = self.prior.log_size if len(blocks) == 1 else np.zeros(1)
        code = self.published.geography.units[settings.depth][number]
        chosen = WalkSettings(code, settings.seed, settings.repeats or DRAWS, settings.seconds)
        return NoisyUnit(program, reduced, self.likelihoods, shares, log_size, chosen)

    @cached_property
    def prior(self) -> Prior:
        """What is expected of units whose figures have noise."""
        return Prior(self.plan)

    @cached_property
    def likelihoods(self) -> Likelihoods:
        """The likelihoods of all figures with noise, each made when it is needed."""
        return Likelihoods(self.plan)

    def _groups(self, program: integer_program.IntegerProgram, person: Integers) -> tuple[Integers, Integers]:
        """Variables that block tables do not tell apart form a group: for each variable and each person its number."""
        key = program.block * self.block_plan.space.cells + self.to_block_cells[program.cell]
        group = np.unique(key, return_inverse=True)[1].astype(np.int64)
        return group, group[person]

    def _variability(
        self,
        block: int,
        program: integer_program.IntegerProgram,
        reduced: integer_program.ReducedProgram,
        values: Integers,
        group: Integers,
        lower: Integers,
    ) -> Variability | None:
        """The variability of one block. Raises ``lower`` where the tables of the block alone say more."""
        if not self.countable:
            return None
        if self.settings.depth == 0:
            return variability(values, reduced, self.settings.seconds)
        alone = integer_program.integer_program(self.block_plan, [block])
        alone_reduced = integer_program.reduce(alone)
        here = np.flatnonzero(program.block == block)
        cells = self.to_block_cells[program.cell[here]]
        least = np.zeros(self.block_plan.space.cells, np.int64)
        least[alone.cell] = alone_reduced.lower.astype(np.int64)
        lower[group[here]] = np.maximum(lower[group[here]], least[cells])
        if alone_reduced.determined:
            return UNIQUE
        histogram = np.bincount(cells, values[here], self.block_plan.space.cells).astype(np.int64)
        return variability(histogram[alone.cell], alone_reduced, self.settings.seconds)

    def _shares(
        self,
        number: int,
        program: integer_program.IntegerProgram,
        reduced: integer_program.ReducedProgram,
        group: Integers,
        of_person: Integers,
        copy: Integers,
    ) -> Floats:
        """For each person the share of repeats that have them: at least as many people of the group."""
        generator = np.random.default_rng([self.settings.seed, number])
        times, there = 0, np.zeros(len(of_person))
        for _ in range(self.settings.repeats):
            other = integer_program.integer_solution(
                reduced, generator.standard_normal(program.size), self.settings.seconds
            )
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
        raise ParameterError("too-many-people", people=people, most_people=MOST_PEOPLE)


def check_figures(program: integer_program.IntegerProgram, values: Integers) -> None:
    """Every exact published figure against the solution, in whole numbers."""
    sums = program.exact.matrix.astype(np.int64) @ values
    count = program.exact.count.astype(np.int64)
    wrong = np.where(program.exact.at_most, sums > count, sums != count)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise integer_program.NoSolution(
            "a published figure does not hold",
            [program.row_name(program.exact, row)],
            program.unit_name(program.exact, row),
        )
