"""Covariances of least squares on a whole tree of units: no data, only what is measured where.

Each unit u has a vector of cells x(u), the sum of those of its children. With M the information of its measurements,
P⁺ a pseudo-inverse, and V(u⁻) the covariance from u and all below it, in every sector (``sectors``)

    upward:    P(u) = Σ_c V(c⁻);   V(u⁻) = (I + P M)⁻¹ P, at the leaves M⁻¹ on the cells that can be
    a total:   V := V − aaᵀ/(1ᵀa),  a = V1, in the sector of all means, where the number of records is known
    downward:  A(c) = V(c⁻) P⁺;   V(c) = V(c⁻) − A(c)(P − V(u))A(c)ᵀ.

The covariances follow from the plan and the shape of the tree, so units that are alike are computed once. Upwards two
units are alike if they are measured alike and have as many children of each kind; downwards, if, in addition, their
parents are alike. Hundreds of thousands of blocks are a few kinds.

A unit that nothing tells, neither a measurement nor all of its children, is *open*. The open child of a unit without
others is the unit less its other children; an only child is its parent. Nothing is known of two open siblings but
their sum. Leaves whose measurements do not tell every cell also get a vague prior (``VAGUE``), so that what nothing
tells has a very large variance.

**Areas.** For any area, r(c) = g in its blocks and 0 outside; going up, r(u) = P⁺ Σ_c V(c⁻)r(c), and for two of them

    Cov = Σ_u [ Σ_c r(c)ᵀV(c⁻)r'(c) − (Σ_c V(c⁻)r(c))ᵀ P⁺ (Σ_c V(c⁻)r'(c)) ] + r(root)ᵀ V(root) r'(root).

Derivation: ``docs/proofs/whole-tree.md``. Reference: R. Cumings-Menon, *Full-information estimation for hierarchical
data*, arXiv:2404.13164 (2024).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError
from confide.estimation.sectors import SectorCount, Sectors, check_core, distinct_rows

TOLERANCE = 1e-13
"""Eigenvalues below this part of the largest are zero: directions in which a sum is known exactly."""
VAGUE = 1e-9
"""The precision of the vague prior, as a part of the largest precision there is."""
KNOWN = 1e-11
"""A variance of a total below this part of that of all cells is none: the total was known before."""
BYTES_AT_ONCE = 1 << 26
BYTES_OF_KINDS = 1 << 21
"""Matrices of so many kinds of units are worked on together: what is small stays where the processor has it."""

Evaluate = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class TreeLevel:
    """What is measured in the units of one level."""

    parent: Integers
    """For each unit its parent, one level up; empty for the root."""
    measured: Integers
    """For each unit the kind of its measurements: a row of ``information``, or −1 for none."""
    information: Floats
    """M of each kind: kinds x sectors x core x core."""
    total_known: Booleans | None = None
    """For each unit whether the number of its records is known; None: of none."""

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.measured)


def with_level_between(
    levels: Sequence[TreeLevel], at: int, together: Integers, sectors: Sectors, known: Booleans | None = None
) -> list[TreeLevel]:
    """The levels with one more above that at a place: groups of its units, not measured, whose totals are known.

    Args:
        levels: The levels of a tree, the root first.
        at: The level whose units are grouped; not the root.
        together: For each unit the number of its group, from 0, each in one parent.
        sectors: Core and free axes.
        known: For each group whether its total is known; without it, all are.
    """
    level, groups = levels[at], np.unique(together)
    assert np.array_equal(groups, np.arange(len(groups))), "groups are numbered from zero, without gaps"
    parent = np.empty(len(groups), np.int64)
    parent[together] = level.parent
    total_known = np.ones(len(groups), bool) if known is None else known
    between = TreeLevel(parent, np.full(len(groups), -1, np.int64), sectors.nothing, total_known)
    below = TreeLevel(together, level.measured, level.information, level.total_known)
    return [*levels[:at], between, below, *levels[at + 1 :]]


@dataclass(frozen=True, eq=False)
class LevelAnswers:
    """What was asked of the covariances of a level: kinds of units, and for each kind the answer."""

    kind: Integers
    """For each unit its kind."""
    values: Floats
    """kinds x whatever was evaluated; NaN where nothing tells the cells."""
    possible: Booleans
    """kinds x core: cells that are not zero by public knowledge."""

    @property
    def of_units(self) -> Floats:
        """For each unit the answer."""
        return np.asarray(self.values[self.kind], np.float64)


@dataclass(eq=False)
class Upward:
    """Kinds of units as seen from below."""

    kind: Integers
    """For each unit its kind; everything else has one entry for each kind."""
    measured: Integers
    covariance: Floats
    """V(u⁻): kinds x sectors x core x core."""
    before_total: Floats
    """The same in the first sector, before the total was known: kinds x core x core."""
    total_gain: Floats
    """a/(1ᵀa): what of a difference in the total each core cell takes; zero where no total is known."""
    below: Floats
    """P: the sum of V(c⁻) over the children that are not open."""
    open_children: Integers
    determined: Booleans
    """Whether the kind is not open."""
    possible: Booleans

    @cached_property
    def inverse(self) -> Floats:
        """P⁺."""
        result = np.zeros_like(self.below)
        for part in _chunks(len(result), self.below[:1].nbytes):
            result[part] = pseudo_inverse(self.below[part])
        return result


@dataclass(eq=False)
class Downward:
    """Kinds of units given everything: what they are from below, and the kind of their parents."""

    kind: Integers
    upward: Integers
    """For each kind the kind from below."""
    parent: Integers
    """For each kind that of its parents."""
    covariance: Floats | None
    """kinds x sectors x core x core; None on the last level, where it is made when it is asked for."""


@dataclass(eq=False)
class TreeCovariances:
    """The covariances of all units and areas.

    Args:
        sectors: Core and free axes of the histogram.
        levels: What is measured on each level, the root first.
        possible: (units of the last level, core): whether a core cell of a unit can be other than zero.

    >>> sectors = Sectors((2,), (0,))                     # one free axis: the core has a single cell
    >>> cell, total = sectors.query({0: np.arange(2)}), sectors.query({})
    >>> root = TreeLevel(np.zeros(0, int), np.zeros(1, int), sectors.information([(total, 1 / 2)])[None])
    >>> leaves = TreeLevel(np.zeros(2, int), np.zeros(2, int), sectors.information([(cell, 1.0)])[None])
    >>> tree = TreeCovariances(sectors, [root, leaves], np.ones((2, 1), bool))
    >>> everybody = sectors.count({})
    >>> tree.variances(0, [everybody]).round(3), tree.variances(1, [everybody]).round(3)
    (array([[1.333]]), array([[1.333],
           [1.333]]))
    """

    sectors: Sectors
    levels: Sequence[TreeLevel]
    possible: Booleans
    known: list[Booleans] = field(init=False)
    """For each level the units whose total is known, by themselves or as that of their only child."""
    upward: list[Upward] = field(init=False)

    def __post_init__(self) -> None:
        check_core(self.sectors)
        if self.levels[0].units != 1:
            raise ParameterError("not-a-tree/roots", units=self.levels[0].units)
        for above, level in zip(self.levels[:-1], self.levels[1:], strict=True):
            if len(level.parent) != level.units or len(np.unique(level.parent)) != above.units:
                raise ParameterError("not-a-tree/units")
        self.known = self._known_totals()
        self.upward = []
        for position in range(len(self.levels) - 1, -1, -1):
            self.upward.insert(0, self._up(position))
        if not self.upward[0].determined[0]:
            raise ParameterError("not-estimable/nothing")

    @property
    def parents(self) -> list[Integers]:
        """For each level the parent of each unit, the root first."""
        return [level.parent for level in self.levels]

    @cached_property
    def downward(self) -> list[Downward]:
        """Kinds of units given everything, level by level."""
        root = self.upward[0]
        nothing = np.zeros(0, np.int64)
        result = [Downward(root.kind, np.arange(len(root.measured)), nothing, root.covariance)]
        for position in range(1, len(self.levels)):
            result.append(self._down(position, result[-1]))
        return result

    def _known_totals(self) -> list[Booleans]:
        result: list[Booleans] = []
        for position in range(len(self.levels) - 1, -1, -1):
            level = self.levels[position]
            known = np.zeros(level.units, bool) if level.total_known is None else level.total_known.copy()
            if result:
                only = self.only_child(position)
                known[only >= 0] |= result[0][only[only >= 0]]
            result.insert(0, known)
        return result

    def only_child(self, position: int) -> Integers:
        """For each unit of a level its only child, or −1 where it has several."""
        parent, units = self.levels[position + 1].parent, self.levels[position].units
        result = np.full(units, -1, np.int64)
        result[parent] = np.arange(len(parent))
        result[np.bincount(parent, minlength=units) > 1] = -1
        return result

    # From below.

    def _up(self, position: int) -> Upward:
        level = self.levels[position]
        own = level.measured * 2 + self.known[position]
        if position == len(self.levels) - 1:
            patterns, pattern = distinct_rows(self.possible)
            rows, kind = np.unique(np.stack([own, pattern], axis=1), axis=0, return_inverse=True)
            keys, can = rows[:, 0], patterns[rows[:, 1]]
            sums = np.zeros((len(rows), *self._shape))
            open_children = np.ones(len(rows), np.int64)
        else:
            below = self.upward[0]
            kind, keys, listed = _kinds(own, self.levels[position + 1].parent, below.kind)
            sums = np.stack([np.tensordot(n, below.covariance[kinds], axes=1) for kinds, n in listed])
            open_children = np.array([int(n[~below.determined[kinds]].sum()) for kinds, n in listed], np.int64)
            can = np.stack([below.possible[kinds].any(axis=0) for kinds, _ in listed])
        measured, total = keys // 2, keys % 2 == 1
        covariance = np.zeros_like(sums)
        for part in _chunks(len(keys), sums[:1].nbytes):
            covariance[part] = self._combined(level, measured[part], sums[part], open_children[part], can[part])
        determined = (open_children == 0) | (measured >= 0)
        before, gain = covariance[:, 0].copy(), np.zeros((len(keys), self.sectors.size))
        across = before.sum(axis=2)
        variance = across.sum(axis=1)
        conditioned = total & (variance > KNOWN * np.einsum("kii->k", before) * self.sectors.size)
        gain[conditioned] = across[conditioned] / variance[conditioned, None]
        covariance[:, 0] -= gain[:, :, None] * across[:, None, :]
        covariance[:, 0] = (covariance[:, 0] + covariance[:, 0].swapaxes(-1, -2)) / 2
        return Upward(kind.reshape(-1), measured, covariance, before, gain, sums, open_children, determined, can)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return len(self.sectors.sectors), self.sectors.size, self.sectors.size

    def _combined(
        self, level: TreeLevel, measured: Integers, sums: Floats, open_children: Integers, possible: Booleans
    ) -> Floats:
        """V(u⁻) from what is measured in the unit and what is known from below, before totals."""
        result = np.where((open_children == 0)[:, None, None, None], sums, 0.0)
        both = (open_children == 0) & (measured >= 0)
        if both.any():
            inner = sums[both] @ level.information[measured[both]]
            result[both] = np.linalg.solve(np.eye(self.sectors.size) + inner, sums[both])
        for number in np.flatnonzero((open_children > 0) & (measured >= 0)).tolist():
            cells = np.flatnonzero(possible[number])
            cut = np.ix_(np.arange(sums.shape[1]), cells, cells)
            result[number][cut] = inverse_of(level.information[measured[number]][cut])
        return (result + result.swapaxes(-1, -2)) / 2

    def information_from_below(self, level: int) -> Floats:
        """What a unit and all below it tell of its cells, by kind from below: J = M + P⁺, on the cells that can be.

        It is the inverse of V(u⁻), before a total of the unit itself is known. In a direction in which all that is
        below is known exactly, as the total where those of all children are, J is that of the other directions: who
        uses J keeps what is known as well. A unit with an open child learns nothing from below.
        """
        own, here = self.upward[level], self.levels[level]
        result = np.zeros_like(own.covariance)
        has_evidence = (own.open_children == 0) & (level < len(self.levels) - 1)
        if has_evidence.any():
            result[has_evidence] = own.inverse[has_evidence]
        measured = own.measured >= 0
        result[measured] += here.information[own.measured[measured]]
        result *= (own.possible[:, :, None] & own.possible[:, None, :])[:, None]
        return (result + result.swapaxes(-1, -2)) / 2

    # From above.

    def _down(self, position: int, above: Downward) -> Downward:
        own, parent = self.upward[position], self.levels[position].parent
        width = len(own.measured)
        pairs, kind = np.unique(above.kind[parent] * width + own.kind, return_inverse=True)
        result = Downward(kind.reshape(-1), pairs % width, pairs // width, None)
        if position < len(self.levels) - 1:
            result.covariance = np.zeros((len(pairs), *self._shape))
            for part in _chunks(len(pairs), result.covariance[:1].nbytes):
                result.covariance[part] = self._given_everything(position, result, above, part)
        return result

    def _given_everything(self, position: int, kinds: Downward, parents: Downward, part: slice | Integers) -> Floats:
        """V of some kinds of units, from V(c⁻) and V of their parents."""
        own, above = self.upward[position], self.upward[position - 1]
        assert parents.covariance is not None
        kind, parent = kinds.upward[part], parents.covariance[kinds.parent[part]]
        above_kind = parents.upward[kinds.parent[part]]
        covariance, below = own.covariance[kind], above.below[above_kind]
        gain = covariance @ above.inverse[above_kind]
        conditioned = covariance - gain @ (below - parent) @ gain.swapaxes(-1, -2)
        openings = above.open_children[above_kind]
        beside = np.where((openings == 1)[:, None, None, None], parent + below, np.nan)
        unlike = (openings == 1) & (own.possible[kind] != above.possible[above_kind]).any(axis=1)
        beside[unlike] = np.nan  # zeros that its parent has not: they tell its siblings something, which is not used
        of_determined = np.where((openings == 0)[:, None, None, None], conditioned, covariance)
        result = np.where(own.determined[kind][:, None, None, None], of_determined, beside)
        return (result + result.swapaxes(-1, -2)) / 2

    # Answers.

    def evaluate(self, level: int, ask: Evaluate, units: Integers | None = None) -> LevelAnswers:
        """What is asked of the covariances of a level: from (kinds, sectors, core, core) to (kinds, …).

        Of some units alone, the kinds that these have are looked at, and no others.
        """
        kinds, own = self.downward[level], self.upward[level]
        used, kind = np.arange(len(kinds.upward)), kinds.kind
        if units is not None:
            used, kind = np.unique(kinds.kind[units], return_inverse=True)
        answers = [ask(covariance) for covariance in self._covariances(level, used)]
        return LevelAnswers(kind.reshape(-1), np.concatenate(answers), own.possible[kinds.upward[used]])

    def _covariances(self, level: int, used: Integers) -> Iterator[Floats]:
        """V of some kinds of a level, some at a time."""
        kinds = self.downward[level]
        stored, parents = kinds.covariance, self.downward[level - 1]
        for part in _chunks(len(used), 8 * int(np.prod(self._shape))):
            some = used[part]
            yield self._given_everything(level, kinds, parents, some) if stored is None else stored[some]

    def variances(self, level: int, counts: Sequence[SectorCount]) -> Floats:
        """The variance of some counts in every unit of a level: units x counts."""
        vectors = np.stack([count.core for count in counts])
        weights = np.stack([self.sectors.weights(count) for count in counts])

        def ask(covariance: Floats) -> Floats:
            forms = np.einsum("nc,kscd,nd->kns", vectors, covariance, vectors, optimize=True)
            return np.asarray(np.einsum("kns,ns->kn", forms, weights), np.float64)

        return self.evaluate(level, ask).of_units

    def unit_covariances(self, level: int, counts: Sequence[SectorCount], units: Integers | None = None) -> Floats:
        """The covariances of some counts in every unit of a level, or in some of them: units x counts x counts."""
        vectors, weights = np.stack([count.core for count in counts]), self._weights(counts)

        def ask(covariance: Floats) -> Floats:
            forms = np.einsum("nc,kscd,md->knms", vectors, covariance, vectors, optimize=True)
            return np.asarray(np.einsum("knms,nms->knm", forms, weights), np.float64)

        return self.evaluate(level, ask, units).of_units

    def area_covariances(
        self,
        block: Integers,
        area: Integers,
        areas: int,
        counts: Sequence[SectorCount],
        count: Integers | None = None,
    ) -> Floats:
        """The covariances of some counts in every area: areas x counts x counts.

        Args:
            block: Units of the last level.
            area: The area that each of these is in. A block may be listed for several areas.
            areas: How many areas there are.
            counts: What is counted.
            count: For each entry the number of the count that it is for; without it, all of them. So an "area" may be
                two, each with a count of its own, and their covariance is an entry beside the diagonal.
        """
        forms = self.area_forms(block, area, areas, np.stack([one.core for one in counts]), count)
        return np.asarray(np.einsum("asnm,nms->anm", forms, self._weights(counts), optimize=True), np.float64)

    def _weights(self, counts: Sequence[SectorCount]) -> Floats:
        return np.array([[self.sectors.weights(one, other) for other in counts] for one in counts])

    def area_forms(
        self, block: Integers, area: Integers, areas: int, vectors: Floats, vector: Integers | None = None
    ) -> Floats:
        """gᵀVg' of all pairs of core vectors, for every area and sector: areas x sectors x vectors x vectors.

        ``vector`` has, for each entry, the number of the only core vector that it is for. NaN where several open units
        are known by their sum alone, and the area has a part of them.
        """
        count, sectors, size = len(vectors), len(self.sectors.sectors), self.sectors.size
        result = np.zeros((areas, sectors, count, count))
        order = np.argsort(area, kind="stable")
        ends = np.searchsorted(area[order], np.arange(areas + 1))
        at_once = max(1, BYTES_AT_ONCE // (8 * count * sectors * size))
        first = 0
        while first < areas:
            last = first + 1
            while last < areas and ends[last + 1] - ends[first] <= at_once:
                last += 1
            rows = order[ends[first] : ends[last]]
            chosen = np.ones((len(rows), count), bool) if vector is None else vector[rows, None] == np.arange(count)
            placed = np.where(chosen[:, :, None], vectors[None], 0.0)
            start = np.repeat(placed[:, :, None, :], sectors, axis=2)
            result[first:last] = self._forms(block[rows], area[rows] - first, last - first, start)
            first = last
        return result

    def area_matrices(self, block: Integers, area: Integers, areas: int) -> Floats:
        """V of every area: areas x sectors x core x core; NaN as in :meth:`area_forms`.

        The blocks of an area are listed once. Units that lie in an area as a whole stand for their blocks: within them
        r is the same everywhere, so that they add nothing of their own.
        """
        size, sectors = self.sectors.size, len(self.sectors.sectors)
        pieces = self.pieces(block, area, areas)
        result = np.zeros((areas, sectors, size, size))
        basis = np.repeat(np.eye(size)[:, None, :], sectors, axis=1)
        at_once = max(1, BYTES_AT_ONCE // (8 * sectors * size * size))
        listed = np.bincount(np.concatenate([part[1] for part in pieces]), minlength=areas)
        ends = np.searchsorted(
            np.cumsum(listed), np.arange(at_once, int(listed.sum()) + at_once, at_once), side="right"
        )
        bounds = np.unique(np.concatenate([[0], np.maximum(ends, 1), [areas]]))
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            chosen = [
                (part[0][inside], part[1][inside] - first)
                for part in pieces
                for inside in [(part[1] >= first) & (part[1] < last)]
            ]
            unit, own = chosen[-1]
            start = np.repeat(basis[None], len(unit), axis=0)
            result[first:last] = self._forms(unit, own, last - first, start, chosen[:-1], basis)
        return result

    def pieces(self, block: Integers, area: Integers, areas: int) -> list[tuple[Integers, Integers]]:
        """For each level the largest units that lie in an area as a whole, with the area: what areas are made of."""
        result: list[tuple[Integers, Integers]] = []
        unit, own = block, area
        for position in range(len(self.levels) - 1, 0, -1):
            parent = self.levels[position].parent
            key, pair, times = np.unique(parent[unit] * areas + own, return_inverse=True, return_counts=True)
            uncut = times == np.bincount(parent, minlength=self.levels[position - 1].units)[key // areas]
            cut = ~uncut[pair.reshape(-1)]
            result.insert(0, (unit[cut], own[cut]))
            unit, own = key[uncut] // areas, key[uncut] % areas
        return [(unit, own), *result]

    def _forms(
        self,
        unit: Integers,
        area: Integers,
        areas: int,
        vectors: Floats,
        wholes: Sequence[tuple[Integers, Integers]] = (),
        basis: Floats | None = None,
    ) -> Floats:
        """The recursion of the module's head. ``vectors`` is entries x vectors x sectors x core. ``wholes`` has, for
        each level but the last, units that lie in an area as a whole, with the vectors ``basis``."""
        count, sectors = vectors.shape[1:3]
        result = np.zeros((areas, sectors, count, count))
        unit, area, vectors = _merged(unit, area, areas, vectors)
        for position in range(len(self.levels) - 1, 0, -1):
            own, above = self.upward[position], self.upward[position - 1]
            moved = applied_by_kind(own.covariance, own.kind[unit], vectors)
            products = np.einsum("ensc,emsc->esnm", moved, vectors, optimize=True)
            key, pair = np.unique(self.levels[position].parent[unit] * areas + area, return_inverse=True)
            parent, parent_area = np.divmod(key, areas)
            pair = pair.reshape(-1)
            sums, squares = _by_pair(moved, pair, len(key)), _by_pair(products, pair, len(key))
            kind = above.kind[parent]
            next_ = applied_by_kind(above.inverse, kind, sums)
            term = squares - np.einsum("ensc,emsc->esnm", sums, next_, optimize=True)
            openings = np.flatnonzero(above.open_children[kind])
            if len(openings):
                is_open = ~own.determined[own.kind[unit]]
                common = self._common(vectors, pair, len(key), is_open, above.open_children[kind])[openings]
                across = np.einsum("ensc,emsc->esnm", sums[openings], common, optimize=True)
                inner = applied_by_kind(above.below, kind[openings], common)
                own_part = np.einsum("ensc,emsc->esnm", inner, common, optimize=True)
                term[openings] = squares[openings] - across - across.swapaxes(-1, -2) + own_part
                next_[openings] = common
            np.add.at(result, parent_area, term)
            unit, area, vectors = parent, parent_area, next_
            if wholes and len(wholes[position - 1][0]):
                more, of_area = wholes[position - 1]
                assert basis is not None
                unit, area = np.concatenate([unit, more]), np.concatenate([area, of_area])
                vectors = np.concatenate([vectors, np.repeat(basis[None], len(more), axis=0)])
        moved = applied_by_kind(self.upward[0].covariance, self.upward[0].kind[unit], vectors)
        np.add.at(result, area, np.einsum("ensc,emsc->esnm", moved, vectors, optimize=True))
        return result

    def _common(
        self, vectors: Floats, pair: Integers, pairs: int, is_open: Booleans, open_children: Integers
    ) -> Floats:
        """The vector that all open children of a unit have in an area, NaN where they have different ones."""
        sums = _by_pair(vectors[is_open], pair[is_open], pairs)
        mean = sums / np.maximum(open_children, 1)[:, None, None, None]
        furthest = np.zeros((pairs, vectors.shape[1]))
        off = np.abs(vectors[is_open] - mean[pair[is_open]]).max(axis=(2, 3), initial=0.0)
        np.maximum.at(furthest, pair[is_open], off)
        missing = np.bincount(pair[is_open], minlength=pairs) < open_children
        furthest = np.where(missing[:, None], np.maximum(furthest, np.abs(mean).max(axis=(2, 3))), furthest)
        return np.where((furthest > TOLERANCE)[:, :, None, None], np.nan, mean)


def _merged(unit: Integers, area: Integers, areas: int, vectors: Floats) -> tuple[Integers, Integers, Floats]:
    """Entries of one unit and area added up."""
    key, pair = np.unique(unit * areas + area, return_inverse=True)
    if len(key) == len(unit):
        return unit, area, vectors
    return key // areas, key % areas, _by_pair(vectors, pair.reshape(-1), len(key))


def _by_pair(values: Floats, pair: Integers, pairs: int) -> Floats:
    """Sums of the entries of each pair."""
    result = np.zeros((pairs, *values.shape[1:]))
    order = np.argsort(pair, kind="stable")
    if len(order):
        starts = np.flatnonzero(np.append(True, np.diff(pair[order]) != 0))
        result[pair[order][starts]] = np.add.reduceat(values[order], starts, axis=0)
    return result


def applied_by_kind(matrices: Floats, kind: Integers, vectors: Floats) -> Floats:
    """Each entry's vectors times the symmetric matrix of its kind: entries x vectors x sectors x core."""
    result = np.empty_like(vectors)
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(kind[order]) != 0)) if len(order) else np.zeros(0, np.int64)
    for rows in np.split(order, starts[1:]):
        if len(rows):
            chosen = vectors[rows].transpose(2, 0, 1, 3)
            flat = chosen.reshape(chosen.shape[0], -1, chosen.shape[-1]) @ matrices[kind[rows[0]]]
            result[rows] = flat.reshape(chosen.shape).transpose(1, 2, 0, 3)
    return result


def _kinds(
    own: Integers, parent: Integers, child_kind: Integers
) -> tuple[Integers, Integers, list[tuple[Integers, Floats]]]:
    """Units by how they are measured and how many children of each kind they have."""
    width = int(child_kind.max()) + 1
    pairs, times = np.unique(parent * width + child_kind, return_counts=True)
    starts = np.searchsorted(pairs // width, np.arange(len(own) + 1))
    kinds_of = pairs % width
    numbers: dict[tuple[int, bytes, bytes], int] = {}
    kind = np.empty(len(own), np.int64)
    listed: list[tuple[Integers, Floats]] = []
    keys: list[int] = []
    for unit in range(len(own)):
        part = slice(starts[unit], starts[unit + 1])
        key = (int(own[unit]), kinds_of[part].tobytes(), times[part].tobytes())
        if key not in numbers:
            numbers[key] = len(listed)
            listed.append((kinds_of[part], times[part].astype(float)))
            keys.append(key[0])
        kind[unit] = numbers[key]
    return kind, np.array(keys, np.int64), listed


def inverse_of(information: Floats) -> Floats:
    if not information.shape[-1]:
        return information
    values = np.linalg.eigvalsh(information)
    largest = values[..., -1].max()
    vague = np.where(values[..., 0] <= KNOWN * largest, VAGUE * largest, 0.0)
    prior = vague[..., None, None] * np.eye(information.shape[-1])
    return np.asarray(np.linalg.inv(information + prior), np.float64)


def pseudo_inverse(matrices: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrices)
    used = values > TOLERANCE * np.maximum(values[..., -1:], 0)
    used &= values > 0
    inverted = np.where(used, 1 / np.where(used, values, 1.0), 0.0)
    return np.asarray((vectors * inverted[..., None, :]) @ vectors.swapaxes(-1, -2), np.float64)


def _chunks(number: int, size: int) -> Iterator[slice]:
    at_once = max(1, BYTES_OF_KINDS // max(1, size))
    for first in range(0, number, at_once):
        yield slice(first, min(first + at_once, number))
