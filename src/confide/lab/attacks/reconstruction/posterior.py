"""The attack on noisy figures of one unit: the likeliest whole people, and how likely each of them is.

Bayes' rule with everything that is public: the prior is that of the areas above
(:mod:`confide.lab.attacks.reconstruction.posterior`), the likelihood of each figure that of its law
(:mod:`confide.releases.figure_noise`), exact figures are kept exactly. A walk over whole people
(:mod:`confide.lab.attacks.reconstruction.random_walk`)

1. starts from a proportional fit and goes from a flattened posterior to the posterior itself;
2. takes the mean number of people as the size of the unit. The histogram of largest probability of all sizes would be
   too small: each kind of person is unlikely, and the fewer people, the fewer unlikely things;
3. looks, at that size, for the histogram of largest probability: the records;
4. goes on from there, and counts in how many draws each of these records is: its confidence.

Where the walk ends outside of what exact figures and bounds allow, an integer programme gives it another start.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from confide.arrays import Floats, Integers
from confide.lab.attacks.reconstruction import integer_program
from confide.lab.attacks.reconstruction.description import Layer, layer
from confide.lab.attacks.reconstruction.integer_program import ProgramStructure
from confide.lab.attacks.reconstruction.random_walk import ascend, proportional_fit, walk
from confide.lab.published.marginals import IMPOSSIBLE, FigureLaw, LikelihoodTable, PublishedMarginal, SpreadLaw
from confide.schema import NO_GROUP

if TYPE_CHECKING:
    from confide.lab.attacks.reconstruction.integer_program import ProgramStructure

# What an attacker expects of an area before looking at its own figures: from the areas that it lies in.
#
# Kinds: the figures of the coarsest area give a distribution of kinds of people, by a proportional fit that starts from
# all kinds alike; those of the next area below correct it, and so on down to the area above the one that is attacked.
# The figures of an area itself are never part of its prior: they are its likelihood. Where nothing is published above,
# the other areas of the same level together take that place.
#
# Sizes: the noisy totals of all areas of a level show how large these are: of all distributions of sizes, the one that
# makes the totals likeliest (Kiefer and Wolfowitz 1956), found by EM on a grid of sizes. It knows that many areas are
# empty, without which noise above zero would people all of them.


SWEEPS = 60
"""How often a proportional fit goes through all figures at most."""
FROM_NOTHING = 4
"""A fit that starts from all kinds alike is started so often, each time from the last: of that start nothing is left
where figures speak."""
EXACT_VARIANCE = 1e-3
"""What stands for the variance of an exact figure in a proportional fit."""
SMOOTHING = 1e-3
"""The share of a distribution of kinds that is taken from the area above, or from all kinds alike."""
KEPT = 64
"""How many areas' distributions a process remembers."""
GRID, EM_ROUNDS = 300, 60
FEWEST_AREAS = 20
"""With fewer areas nothing is learnt about sizes: all are equally likely."""


class AreaRows:
    """All figures of one level as rows over the cells of a space."""

    def __init__(self, layers: list[Layer]):
        self.layers = layers
        rows, columns, base = [], [], 0
        for item in layers:
            inside = np.flatnonzero(item.assignment != NO_GROUP)
            rows.append(base + item.assignment[inside])
            columns.append(inside)
            base += item.size
        row, column = np.concatenate(rows), np.concatenate(columns)
        order = np.argsort(row, kind="stable")
        self.column: Integers = column[order].astype(np.int64)
        self.start: Integers = np.searchsorted(row[order], np.arange(base + 1)).astype(np.int64)

    @cached_property
    def variance(self) -> Floats:
        """For each row the variance of its figure; where groups were joined, of the sum."""
        parts = []
        for item in self.layers:
            one = EXACT_VARIANCE if item.marginal.variance is None else float(item.marginal.variance)
            joined = (
                np.ones(item.size) if item.fold is None else np.bincount(item.fold[item.fold >= 0], None, item.size)
            )
            parts.append(np.maximum(one * np.maximum(joined, 1.0), EXACT_VARIANCE))
        return np.concatenate(parts)

    def figures(self, unit: int) -> Floats:
        """The figures of a unit, NaN where unknown."""
        return np.concatenate([item.counts(unit) for item in self.layers])

    def everybody(self, figures: Floats) -> float:
        """About how many people a unit has: the median of the sums of whole tables."""
        ends = np.cumsum([item.size for item in self.layers])
        parts = np.split(figures, ends[:-1])
        sums = [
            float(part.sum()) for item, part in zip(self.layers, parts, strict=True) if item.marginal.query.is_complete
        ]
        sums = [each for each in sums if np.isfinite(each)]
        return float(np.median(sums)) if sums else float(np.nansum(np.maximum(parts[-1], 0.0)))


class Prior:
    """The prior of the units of an attack's level; see the module."""

    def __init__(self, structure: ProgramStructure):
        self.structure = structure
        self.published = structure.published
        self.kinds = lru_cache(maxsize=KEPT)(self._kinds)

    @cached_property
    def above(self) -> tuple[int, ...]:
        """The levels with figures above that of the attack, the finest first."""
        return tuple(sorted({item.depth for item in self.published.marginals if item.depth > self.structure.depth}))

    @cached_property
    def rows(self) -> dict[int, AreaRows]:
        """The figures of each level above, or of the attack's own where there is none."""
        depths = self.above or (self.structure.depth,)
        return {
            depth: AreaRows(
                [layer(self.structure.space, item) for item in self.published.marginals if item.depth == depth]
            )
            for depth in depths
        }

    @cached_property
    def alike(self) -> Floats:
        """All possible kinds, equally likely."""
        shares = np.zeros(self.structure.space.cells)
        shares[self.structure.allowed] = 1.0 / max(len(self.structure.allowed), 1)
        return shares

    def of_unit(self, unit: int, block: int) -> Floats | None:
        """The distribution of kinds in a unit of the attack's level, one of whose blocks is given.

        Returns:
            Shares, shape (cells,); None if nothing but the unit's own figures is published.
        """
        if self.above:
            depth = self.above[0]
            return self.kinds(depth, int(self.published.geography.unit_of_block[depth][block]), block)
        others = len(self.published.geography.units[self.structure.depth]) - 1
        if self.structure.depth or others < 1:
            return None
        rows = self.rows[0]
        return self._fitted(rows, self._sums[0] - rows.figures(unit), others, self.alike, FROM_NOTHING)

    def _kinds(self, depth: int, unit: int, block: int) -> Floats:
        place = self.above.index(depth)
        rows = self.rows[depth]
        if place + 1 == len(self.above):
            return self._fitted(rows, rows.figures(unit), 1, self.alike, FROM_NOTHING)
        higher = self.above[place + 1]
        # A block stands for its unit on every level, the first of the unit, so that the answer is kept once.
        over = self.kinds(higher, *self._first(higher, int(self.published.geography.unit_of_block[higher][block])))
        return self._fitted(rows, rows.figures(unit), 1, over, 1)

    def _first(self, depth: int, unit: int) -> tuple[int, int]:
        return unit, int(self._first_blocks[depth][unit])

    @cached_property
    def _first_blocks(self) -> dict[int, Integers]:
        geography = self.published.geography
        return {depth: np.unique(geography.unit_of_block[depth], return_index=True)[1] for depth in self.above}

    def _fitted(self, rows: AreaRows, figures: Floats, units: int, start: Floats, times: int) -> Floats:
        """Shares of kinds that fit the figures of so many units together, from a distribution to start with."""
        shares, people = start, max(rows.everybody(figures), 1.0)
        for _ in range(times):
            counts = proportional_fit(rows.start, rows.column, figures, rows.variance * units, shares * people, SWEEPS)
            if not counts.sum() > 0:
                return start
            shares = counts / counts.sum()
        mixed: Floats = (1 - SMOOTHING) * shares + SMOOTHING * start
        return mixed

    @cached_property
    def _sums(self) -> tuple[Floats]:
        """The figures of all units of the attack's level added up."""
        units = len(self.published.geography.units[self.structure.depth])
        rows = self.rows[self.structure.depth]
        total = rows.figures(0)
        for unit in range(1, units):
            total = total + rows.figures(unit)
        return (total,)

    @cached_property
    def log_size(self) -> Floats:
        """The logarithm of the probability of each size 0, 1, …, the last for all beyond; one zero: all alike."""
        flat = np.zeros(1)
        items = [item for item in self.published.marginals if item.depth == self.structure.depth]
        totals = [
            (item.totals, float(item.variance or 0) * item.query.cells) for item in items if item.totals is not None
        ]
        if self.structure.depth or not totals or any(variance == 0 for _, variance in totals):
            return flat
        weight = sum(1.0 / variance for _, variance in totals)
        figure = np.sum([np.asarray(total) / variance for total, variance in totals], axis=0) / weight
        figure = figure[np.isfinite(figure)]
        if len(figure) < FEWEST_AREAS:
            return flat
        return log_sizes(figure, 1.0 / weight)


def log_sizes(totals: Floats, variance: float) -> Floats:
    """The distribution of sizes that makes noisy totals likeliest.

    Args:
        totals: One noisy total for each area, shape (areas,).
        variance: That of their noise, about normal.

    Returns:
        The logarithm of the probability of each size 0, 1, …, up to beyond the largest total.
    """
    deviation = variance**0.5
    largest = int(max(totals.max(), 0.0) + 4 * deviation) + 2
    grid = np.unique(np.rint(np.concatenate([np.arange(50), np.geomspace(1, largest + 1, GRID) - 1])).astype(np.int64))
    grid = grid[grid <= largest]
    likelihood = np.exp(-np.minimum((totals[:, None] - grid) ** 2 / (2 * variance), 300.0)) + 1e-300
    width = np.diff(np.append(grid, grid[-1] + max(1, int(grid[-1] - grid[-2]) if len(grid) > 1 else 1)))
    mass = width / width.sum()
    for _ in range(EM_ROUNDS):
        shares = likelihood * mass
        mass = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    # Between the points of the grid the same probability for each size; nothing is quite impossible.
    each = np.repeat(mass / width, width)[: largest + 1]
    return np.asarray(np.log(0.99 * each / each.sum() + 0.01 / len(each)))


DRAWS = 60
"""How many draws say how likely a record is, unless somebody asks for another number."""
STEPS, STEPS_BEYOND, MANY = 300, 20, 500
"""Steps of the walk in each part: for each of the first people, and for each beyond."""
LEAST_STEPS = 3_000
FLATTENED, COLD = 0.2, 8.0
"""The powers to which the posterior is raised at the beginning, and at the end of the search for its maximum."""
FROM_FIT = 0.8
"""Proposals are drawn from the proportional fit so often, else from the prior."""
ASCENT, MOST_ASCENT = 4, 20_000_000
"""Rounds of the ascent, and for how many people times kinds it is made at all."""
CAREFUL_PEOPLE, CAREFUL_VARIANCE = 3_000, 0.05
"""With more people, or noise so small, a walk does not find its way: it starts where an integer programme ends."""
LEAST_ALPHA = 1e-9


def law_of(marginal: PublishedMarginal) -> FigureLaw:
    """The law of a marginal's figures: its own, or what variance and bound say."""
    if marginal.law is not None:
        return marginal.law
    variance, bound = float(marginal.variance or 0), marginal.bound
    return SpreadLaw(variance) if bound is None else SpreadLaw(variance, bound.largest, bound.zeros_kept)


class Likelihoods:
    """The tables of all likelihoods that an attack needs, each made once."""

    def __init__(self, structure: ProgramStructure):
        self.structure = structure
        self._tables: dict[tuple[int, float], LikelihoodTable] = {}

    def of(self, layer: int, figure: float) -> LikelihoodTable:
        """The likelihood of a figure of a layer."""
        key = (layer, figure)
        if key not in self._tables:
            item = self.structure.layers[layer]
            marginal = item.marginal
            folded = 1 if item.fold is None else max(1, int(np.bincount(item.fold[item.fold >= 0]).max(initial=1)))
            variance = float(marginal.variance or 0) * folded
            law = law_of(marginal) if folded == 1 else SpreadLaw(variance)
            largest = None if marginal.bound is None or folded > 1 else marginal.bound.largest
            self._tables[key] = LikelihoodTable.of(law, figure, variance, largest)
        return self._tables[key]


def exact_table(figure: float, *, at_most: bool) -> LikelihoodTable:
    """An exact figure as a likelihood: it is so, or (for *at most*) no more than so."""
    if at_most:
        return LikelihoodTable(0, np.zeros(int(figure) + 1), (IMPOSSIBLE, IMPOSSIBLE))
    return LikelihoodTable(int(figure), np.zeros(1), (IMPOSSIBLE, IMPOSSIBLE))


@dataclass(frozen=True)
class WalkSettings:
    """The code of a unit, a seed, how many draws are made, and how long an integer programme may take."""

    code: str
    seed: int
    draws: int
    seconds: float

    @property
    def first_state(self) -> Any:
        """Where the generator begins. It follows from the code of the unit and not from its number: the same people,
        whichever other units are attacked beside it."""
        named = int.from_bytes(hashlib.sha256(self.code.encode()).digest()[:8], "big")
        return np.random.SeedSequence((self.seed, named)).generate_state(1, np.uint64)


class NoisyUnit:
    """The people of one unit whose figures have noise; see the module."""

    def __init__(
        self,
        program: integer_program.IntegerProgram,
        reduced: integer_program.ReducedProgram,
        likelihoods: Likelihoods,
        shares: Floats | None,
        log_size: Floats,
        settings: WalkSettings,
    ):
        self.program, self.reduced, self.settings = program, reduced, settings
        self.likelihoods, self.log_size, self.shares = likelihoods, log_size, shares
        self.kinds: Integers = np.flatnonzero(reduced.upper > 0).astype(np.int64)
        self.seed = settings.first_state

    @cached_property
    def _matrix(self) -> Any:
        """All rows over the kinds that there can be: exact ones, then noisy ones."""
        stacked = sparse.vstack([self.program.exact.matrix, self.program.noisy.matrix], format="csr")
        return stacked[:, self.kinds] if len(self.kinds) < self.program.size else stacked

    @cached_property
    def _rows(self) -> Any:
        """The likelihood tables of all rows, one after the other."""
        exact, noisy = self.program.exact, self.program.noisy
        tables = [
            exact_table(figure, at_most=bool(at_most))
            for figure, at_most in zip(exact.count.tolist(), exact.at_most.tolist(), strict=True)
        ]
        tables += [
            self.likelihoods.of(layer, figure)
            for layer, figure in zip(noisy.layer.astype(np.int64).tolist(), noisy.count.tolist(), strict=True)
        ]
        length = np.array([len(table.values) for table in tables], np.int64)
        return (
            np.cumsum(length) - length,
            np.array([table.low for table in tables], np.int64),
            length,
            np.concatenate([table.values for table in tables]),
            np.array([table.slopes for table in tables], np.float64),
        )

    @cached_property
    def _cells(self) -> Any:
        """For each kind the rows that count it."""
        by_kind = self._matrix.tocsc()
        return by_kind.indptr.astype(np.int64), by_kind.indices.astype(np.int64)

    @cached_property
    def _expected(self) -> Floats:
        """The prior, as shares of the kinds that there can be; all alike if there is none."""
        if self.shares is None:
            return np.full(len(self.kinds), 1.0 / max(len(self.kinds), 1))
        shares = np.maximum(self.shares[self.program.cell[self.kinds]], LEAST_ALPHA / self._space_cells)
        return np.asarray(shares / shares.sum())

    @cached_property
    def _space_cells(self) -> int:
        return self.program.structure.space.cells

    @cached_property
    def _alpha(self) -> Floats:
        """The urn: as strong as one person for each cell of the histogram; of one for each kind without a prior."""
        if self.shares is None:
            return np.ones(len(self.kinds))
        return np.maximum(self._space_cells * self.shares[self.program.cell[self.kinds]], LEAST_ALPHA)

    @cached_property
    def _fitted(self) -> Floats:
        """The proportional fit of all figures, from the prior."""
        exact, noisy = self.program.exact, self.program.noisy
        figure = np.concatenate([np.where(exact.at_most, np.nan, exact.count), noisy.count])
        deviation = integer_program.standard_deviations(self.program)
        variance = np.concatenate([np.full(len(exact.count), EXACT_VARIANCE), np.maximum(deviation**2, EXACT_VARIANCE)])
        start, column = self._matrix.indptr.astype(np.int64), self._matrix.indices.astype(np.int64)
        sums = np.bincount(noisy.layer.astype(np.int64), noisy.count) if len(noisy.count) else np.ones(1)
        people = max(float(np.median(sums[sums != 0])) if (sums != 0).any() else 1.0, 1.0)
        counts = self._expected * people
        for _ in range(1 if self.shares is not None else FROM_NOTHING):
            counts = proportional_fit(start, column, figure, variance, counts, SWEEPS)
        return counts

    def _proposal(self) -> Any:
        fitted = self._fitted
        q = (1 - FROM_FIT) * self._expected
        q = q + (FROM_FIT * fitted / fitted.sum() if fitted.sum() > 0 else FROM_FIT * self._expected)
        q = np.maximum(q / q.sum(), 1e-15)
        keys, shape, stride = self._space
        ends = np.cumsum(shape)
        levels = [np.bincount(keys // stride[axis] % shape[axis], q, shape[axis]) for axis in range(len(shape))]
        return q, np.cumsum(q), np.concatenate(levels), np.asarray(ends - shape, np.int64)

    @cached_property
    def _space(self) -> Any:
        """The kinds as keys over block and attributes, ascending, with the sizes and strides of these."""
        blocks, place = np.unique(self.program.block[self.kinds], return_inverse=True)
        shape = np.array([max(len(blocks), 1), *self.program.structure.space.shape], np.int64)
        stride = np.append(np.cumprod(shape[::-1])[::-1][1:], 1).astype(np.int64)
        keys = place.astype(np.int64) * stride[0] + self.program.cell[self.kinds]
        return keys, shape, stride

    # The walk.

    def settle(self) -> Integers | None:
        """The likeliest whole people: a count for each variable of the programme; None if the time was up before any.

        :raises NoSolution: if exact figures and bounds exclude one another.
        """
        if not len(self.kinds):
            return np.zeros(self.program.size, np.int64)
        deviations = integer_program.standard_deviations(self.program)
        careful = self._fitted.sum() > CAREFUL_PEOPLE or deviations.min(initial=1.0) ** 2 < CAREFUL_VARIANCE
        if careful:
            return self._search(self._rounded(), 1.0)
        values = self._search(self._drawn_start(), FLATTENED)
        if values is None or not self._possible(values):
            values = self._search(self._rounded(), 1.0)
        return values

    def _drawn_start(self) -> Integers:
        """Whole people from the proportional fit, at even distances along its sums."""
        sums = np.cumsum(self._fitted)
        people = max(1, round(float(sums[-1])))
        places = np.searchsorted(sums, (np.arange(people) + 0.5) / people * sums[-1])
        return np.bincount(np.minimum(places, len(self.kinds) - 1), minlength=len(self.kinds)).astype(np.int64)

    def _rounded(self) -> Integers | None:
        """Whole people whose figures are closest to those of the proportional fit, and that may be."""
        every_kind = np.zeros(self.program.size)
        every_kind[self.kinds] = self._fitted
        closest = integer_program.fit(
            self.program, self.reduced, self.settings.seconds, self.program.noisy.matrix @ every_kind
        )
        return None if closest is None else closest.values[self.kinds]

    def _search(self, start: Integers | None, flattened: float) -> Integers | None:
        if start is None:
            return None
        self._x = start.astype(np.int64).copy()
        self._count = np.asarray(self._matrix.astype(np.int64) @ self._x, np.int64)
        people = int(self._x.sum())
        self._person = np.zeros(2 * people + 100, np.int64)
        self._person[:people] = np.repeat(np.arange(len(self.kinds)), self._x)
        self._people = people
        self._parts = (
            self._cells,
            self._rows,
            (self._alpha, float(self._alpha.sum()), self.log_size),
            self._proposal(),
            self._space,
        )
        # A flattened posterior has room for any number of people: their number is kept until it is the posterior.
        self._go(flattened, 1.0, fixed=True)
        self._go(1.0, 1.0, share=2)
        mean = self._go(1.0, 1.0)
        self._resize(round(mean))
        self._go(1.0, COLD, fixed=True)
        if self._people * len(self.kinds) <= MOST_ASCENT:
            ascend(self._person, self._people, self._x, self._count, self._cells, self._rows, self._alpha, ASCENT)
        values = np.zeros(self.program.size, np.int64)
        values[self.kinds] = self._x
        return values

    def _go(self, first: float, last: float, *, fixed: bool = False, share: int = 1) -> float:
        """A part of the walk; the mean number of people on it."""
        people = self._people
        steps = max(LEAST_STEPS, STEPS * min(people, MANY) + STEPS_BEYOND * max(people - MANY, 0)) // share
        coldness = np.array([first, last])
        state = (self._person, people, self._x, self._count)
        self._people, mean = walk(*state, *self._parts, self.seed, steps, coldness, fixed)
        return float(mean)

    def _resize(self, people: int) -> None:
        """So many people: the last go, or the likeliest kinds come, for the search to put right."""
        order = np.argsort(-self._fitted, kind="stable")
        start, row = self._cells
        while self._people != people:
            less = self._people > people
            at = self._people - 1 if less else self._people
            v = int(self._person[at]) if less else int(order[self._people % min(len(order), people)])
            by = -1 if less else 1
            self._person[at] = v
            self._x[v] += by
            self._count[row[start[v] : start[v + 1]]] += by
            self._people += by

    def _possible(self, values: Integers) -> bool:
        """Whether exact figures and bounds allow these people."""
        exact, noisy = self.program.exact, self.program.noisy
        sums = exact.matrix.astype(np.int64) @ values
        wrong = np.where(exact.at_most, sums > exact.count, sums != exact.count)
        above, below = integer_program.allowed(self.program)
        off = noisy.matrix @ values - noisy.count
        return not wrong.any() and not (off > above + 1e-9).any() and not (-off > below + 1e-9).any()

    def confidence(self, group: Integers, of_person: Integers, copy: Integers) -> Floats:
        """For each record the share of draws with at least as many people of its group.

        Args:
            group: For each variable of the programme its group, shape (variables,).
            of_person: For each record its group, shape (people,).
            copy: For each record how many of its group there are up to it, shape (people,).
        """
        there, groups = np.zeros(len(of_person)), int(group.max(initial=0)) + 1
        self._go(1.0, 1.0)
        for _ in range(self.settings.draws):
            self._go(1.0, 1.0, share=self.settings.draws)
            there += np.bincount(group[self.kinds], self._x, groups)[of_person] >= copy
        return np.asarray(there / self.settings.draws)
