"""Variables with their hierarchies, and what tables have of them.

All tables of a release share one dimension for each variable. A table goes down as far as its own finest grouping;
groupings in between that it does not list are part of what can be worked out from it, and so of the structure. A
variable comes from recodes of an attribute or levels of the spine (:mod:`~confide.mechanisms.suppression.programme`),
or from the codes of tables as given (:mod:`~confide.mechanisms.suppression.given.description`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from confide.arrays import Floats, Integers
from confide.mechanisms.suppression.flows import FREE, FeasibleFlow, whole_change
from confide.mechanisms.suppression.joint import whole_trees
from confide.mechanisms.suppression.problem import NOBODY, PatternProblem
from confide.mechanisms.suppression.structure import JOINT, NOT_HERE, ROOT, Dimension, Flags, LinkedTables, gather
from confide.releases.tabular import TOTAL_CODE, CodedVariable


@dataclass(frozen=True, eq=False)
class VariableGrouping:
    """One grouping of a variable: its labels, and for each the number of its code."""

    name: str
    labels: tuple[str, ...]
    codes: Integers


@dataclass(frozen=True)
class PublishedCodes:
    """How the codes of a variable stand in tables: each by a short code and a label, in the order
    of the hierarchy, the total first. Codes that no table lists have neither."""

    title: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For the plan."""
        return {"title": self.title, "codes": list(self.codes), "labels": list(self.labels)}


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of a release: its codes with their hierarchies, and its groupings from coarse to fine."""

    tree: Dimension
    groupings: tuple[VariableGrouping, ...]
    areas: bool = False
    total: str = TOTAL_CODE
    """What the total is called in the tables."""
    given: bool = False
    """Whether its groupings are the codes that tables list, of all depths, and no partitions."""
    summed: bool = True
    """Whether tables have its total."""
    bottoms: tuple[str, ...] = ()
    """The groupings that tables go down to, where some cross; they nest. None: any."""
    full: bool = False
    """Of a given variable: whether every table goes down to all codes, since tables list codes that cross."""
    published: PublishedCodes | None = None
    """None for areas, which are known by level and code."""

    @property
    def name(self) -> str:
        return self.tree.name

    def grouping(self, name: str) -> VariableGrouping:
        return next(each for each in self.groupings if each.name == name)

    @cached_property
    def above(self) -> tuple[frozenset[int], ...]:
        """For each code itself and everything that it is a part of, in any hierarchy."""
        ancestors: list[frozenset[int]] = []
        for at in range(self.tree.size):
            parents = {way[at] for way in self.tree.hierarchies if way[at] >= 0}
            ancestors.append(frozenset({at}).union(*(ancestors[parent] for parent in parents)))
        return tuple(ancestors)

    def finest(self, names: Sequence[str]) -> VariableGrouping:
        """The grouping that a table with these goes down to: the coarsest that all of them are made up of."""
        chosen = [self.grouping(name) for name in names]
        if len(chosen) == 1 and not self.bottoms:
            return chosen[0]
        fine = [
            each
            for each in self.groupings
            if each.name in (self.bottoms or (each.name,)) and all(self._refines(each, other) for other in chosen)
        ]
        return min(fine, key=lambda each: len(set(each.codes.tolist())))

    def _refines(self, fine: VariableGrouping, coarse: VariableGrouping) -> bool:
        groups = set(coarse.codes.tolist())
        return all(self.above[code] & groups for code in fine.codes.tolist())

    def kept(self, names: Sequence[str]) -> Integers:
        """The codes of a table that lists some groupings, in their order."""
        if self.given:
            if self.full or not any(self._within(way, names) for way in self.tree.hierarchies):
                return np.arange(self.tree.size)
            used = {ROOT}.union(*(self.above[code] for name in names for code in self.grouping(name).codes.tolist()))
            # Who knows a code knows its siblings by subtraction: a division is there as a whole or not at all.
            codes = used.union(*(parts for _, code, parts in self.tree.divisions if used & set(parts) and code in used))
            return np.array(sorted(codes), np.int64)
        finest = self.finest(names)
        codes = {ROOT}.union(*(each.codes.tolist() for each in self.groupings if self._refines(finest, each)))
        return np.array(sorted(codes), np.int64)

    def _within(self, way: Sequence[int], names: Sequence[str]) -> bool:
        """Whether a table lists codes of one hierarchy alone."""
        return all(way[code] != NOT_HERE for name in names for code in self.grouping(name).codes.tolist())

    def cut(self, names: Sequence[str]) -> Dimension:
        """The dimension of a table that lists some groupings: every division all of whose codes it has."""
        kept = self.kept(names).tolist()
        number = {old: new for new, old in enumerate(kept)}
        ways, called = [], []
        seen: set[tuple[int, ...]] = set()
        known = self.tree.called or tuple(map(str, range(len(self.tree.hierarchies))))
        for name, way in zip(known, self.tree.hierarchies, strict=True):
            hanging = _whole(way, set(kept))
            parent = tuple(-1 if at == ROOT else number[way[at]] if at in hanging else NOT_HERE for at in kept)
            if parent not in seen:
                seen.add(parent)
                ways.append(parent)
                called.append(name)
        order = sorted(range(len(ways)), key=lambda way: (-sum(above >= 0 for above in ways[way]), way))
        ways, called = [ways[way] for way in order], [called[way] for way in order]
        needed = [0, *(at for at in range(1, len(ways)) if _adds(ways[at], ways[:at]))]
        return Dimension(
            self.name,
            tuple(self.tree.codes[at] for at in kept),
            ways[0],
            tuple(ways[at] for at in needed[1:]),
            tuple(called[at] for at in needed) if len(self.tree.hierarchies) > 1 else (),
        )

    def entries(self, listed: Sequence[str]) -> list[tuple[str, str, int]]:
        """The lines of a table along this variable: grouping, label, code of its dimension. Areas of several levels
        have a line on each; groups that two recodes have in common have one."""
        number = {old: new for new, old in enumerate(self.kept(listed).tolist())}
        chosen = [grouping for grouping in self.groupings if grouping.name in listed]
        entries: list[tuple[str, str, int]] = []
        codes = set()
        if self.summed and not (self.areas and any(ROOT in grouping.codes for grouping in chosen)):
            entries.append((TOTAL_CODE, self.total if self.published is None else TOTAL_CODE, ROOT))
            codes.add(ROOT)
        for grouping in chosen:
            for label, code in zip(grouping.labels, grouping.codes.tolist(), strict=True):
                if self.areas or code not in codes:
                    text = label if self.published is None else self.tree.codes[code]
                    entries.append((grouping.name, text, number[code]))
                codes.add(code)
        return entries

    def coded(self, names: Sequence[str]) -> CodedVariable:
        """The variable in a table that lists some groupings. Its codes are those of all tables of
        the release, so that they are one code list; what differs is which of them are cells of this table."""
        assert self.published is not None
        written = [at for at in range(1, self.tree.size) if self.published.codes[at]]
        kinds = self._given_kinds(names) if self.given else self._kinds(names)
        return CodedVariable(
            self.name,
            tuple(self.published.codes[at] for at in written),
            tuple(self.published.labels[at] for at in written),
            self.published.title,
            tuple(kinds.get(at, (self.name, False))[0] for at in written),
            tuple(kinds.get(at, (self.name, False))[1] for at in written),
            tuple(self.tree.codes[at] for at in written),
        )

    def _kinds(self, names: Sequence[str]) -> dict[int, tuple[str, bool]]:
        """For each code the finest listed grouping that has it, and whether that is the last one, whose groups are the
        cells of the table: of groupings that cross, no other would leave everybody counted once."""
        chosen = [grouping for grouping in self.groupings if grouping.name in names]
        return {
            code: (grouping.name, grouping is chosen[-1] or code in chosen[-1].codes)
            for grouping in chosen
            for code in grouping.codes.tolist()
        }

    def _given_kinds(self, names: Sequence[str]) -> dict[int, tuple[str, bool]]:
        """The same for the codes of given tables: cells are the codes without parts in the first hierarchy, the others
        are named by their depth in the first hierarchy that has them."""
        kept, dimension = self.kept(names).tolist(), self.cut(names)
        kinds: dict[int, tuple[str, bool]] = {}
        for number, way in enumerate(dimension.hierarchies):
            called = f"{dimension.called[number]} " if number and dimension.called else ""
            depth: dict[int, int] = {ROOT: 0}
            for at, above in enumerate(way):
                if above < 0:
                    continue
                depth[at] = depth[above] + 1
                leaf = at not in way
                name = self.name if leaf and not number else f"{self.name}:{called}level {depth[at]}"
                kinds.setdefault(kept[at], (name, leaf and not number))
        return kinds

    def listed(self, names: Sequence[str]) -> Flags:
        """The codes of a table's dimension that are listed when it lists some groupings."""
        every = set(range(self.summed)).union(*(self.grouping(name).codes.tolist() for name in names))
        return np.array([code in every for code in self.kept(names).tolist()], np.bool_)

    def as_dict(self) -> dict[str, Any]:
        """For the plan."""
        plain: dict[str, Any] = {
            "codes": list(self.tree.codes),
            "parent": list(self.tree.parent),
            "areas": self.areas,
            "groupings": {
                grouping.name: {"labels": list(grouping.labels), "codes": grouping.codes.tolist()}
                for grouping in self.groupings
            },
        }
        if self.tree.others:
            plain |= {"others": [list(way) for way in self.tree.others], "called": list(self.tree.called)}
            plain |= {"full": self.full} if self.given else {"bottoms": list(self.bottoms)}
        if self.given:
            plain |= {"given": True, "total": self.total, "summed": self.summed}
        return plain | ({} if self.published is None else {"published": self.published.as_dict()})


def strata(variable: Variable, names: Sequence[str]) -> dict[str, Integers]:
    """Sets of codes of a given variable that have nothing in common: for each hierarchy one for every depth.

    Args:
        variable: A variable whose groupings are the codes of tables.
        names: The groupings that a table lists.

    Returns:
        By a name that is the same in all tables of the release, the numbers of the codes.
    """
    listed = {code for name in names for code in variable.grouping(name).codes.tolist()}
    by_depth: dict[str, Integers] = {}
    seen: set[tuple[int, ...]] = set()
    for number, way in enumerate(variable.tree.hierarchies):
        depth = {ROOT: 0}
        for code, above in enumerate(way):
            if above >= 0:
                depth[code] = depth[above] + 1
        for level in range(1, max(depth.values()) + 1):
            codes = tuple(code for code in range(variable.tree.size) if depth.get(code) == level)
            if listed & set(codes) and codes not in seen:
                seen.add(codes)
                by_depth[f"hierarchy {number + 1} level {level}"] = np.array(codes, np.int64)
    return by_depth


def _whole(way: Sequence[int], kept: set[int]) -> set[int]:
    """The codes of one hierarchy whose siblings are all kept, as is what they are parts of, up to the total."""
    size: Counter[int] = Counter(above for above in way if above >= 0)
    here: Counter[int] = Counter(way[at] for at in kept if way[at] >= 0)
    hanging = {ROOT}
    for at in sorted(kept):
        above = way[at]
        if above >= 0 and above in hanging and size[above] == here[above]:
            hanging.add(at)
    return hanging


def _adds(way: tuple[int, ...], before: Sequence[tuple[int, ...]]) -> bool:
    """Whether a hierarchy divides a code as none before it does."""

    def divided(parents: tuple[int, ...]) -> set[tuple[int, frozenset[int]]]:
        parts: dict[int, set[int]] = {}
        for at, above in enumerate(parents):
            if above >= 0:
                parts.setdefault(above, set()).add(at)
        return {(code, frozenset(codes)) for code, codes in parts.items()}

    known = set().union(*(divided(other) for other in before))
    return bool(divided(way) - known)


def read_variable(name: str, plain: Mapping[str, Any]) -> Variable:
    """The variable of a plan."""
    groupings = tuple(
        VariableGrouping(each, tuple(values["labels"]), np.array(values["codes"], np.int64))
        for each, values in plain["groupings"].items()
    )
    others = tuple(tuple(way) for way in plain.get("others", ()))
    called = tuple(plain.get("called", ()))
    tree = Dimension(name, tuple(plain["codes"]), tuple(plain["parent"]), others, called)
    given = bool(plain.get("given", False))
    total, summed = plain.get("total", TOTAL_CODE), plain.get("summed", True)
    bottoms, full = tuple(plain.get("bottoms", ())), bool(plain.get("full", False))
    stated = plain.get("published")
    published = None if stated is None else PublishedCodes(stated["title"], *map(tuple, _texts(stated)))
    return Variable(tree, groupings, plain["areas"], total, given, summed, bottoms, full, published)


def _texts(stated: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    return stated["codes"], stated["labels"]


# Movements of tables carried over to the kinds of people behind them, and moving one kind alone as the last resort.
#
# A kind of person is a finest code of every variable. A movement d of the cells of linked tables is one that an
# attacker cannot rule out only if some kinds of people x can move with it: with J the equations of the joint tables,
#
#     sum of dx over the kinds in a cell = d(cell)  for every cell,    x + dx >= 0.
#
# Where tables have areas, areas do not have kinds of people in common, so that this is a small programme for each area
# that the movement touches. It is tried first with the kinds in the cells that move alone.
#
# Adding u people of one kind to every cell that contains them is a movement in whole numbers, whatever the tables:
# every sum has the kind in its total and in one of its parts, or in neither. So a cell can always be let rise, unless
# one of these cells must be published; and fall, by taking people away who are there. Such a movement goes up to the
# total of everybody and is dear, so it is taken only where no other one in whole numbers was found.


class Lifting:
    """The joint tables of a problem."""

    def __init__(self, problem: PatternProblem):
        self.problem = problem
        structure = problem.structure
        own = structure.axis == JOINT
        self.any = bool(own.any())
        self._total: Integers = structure.total[own]
        matrix = sparse.csr_array(structure.matrix[own])
        number = np.arange(matrix.shape[0])
        totals = sparse.csr_array((np.ones(len(number)), (number, self._total)), shape=matrix.shape)
        self._kinds = sparse.csr_array(matrix + totals)
        self._kinds.eliminate_zeros()
        self._rows_of_total = sparse.csc_array(totals)
        self._rows_of_kind = sparse.csc_array(self._kinds)

    def lifted(self, flow: FeasibleFlow, known: int = NOBODY) -> FeasibleFlow | None:
        """The movement with that of people who let it happen, whole as well; None if there are none. Nobody moves whom
        the person ``known`` knows of."""
        touched = self._of(self._rows_of_total, flow.cells)
        if not len(touched):
            return flow
        moved = np.zeros(self.problem.structure.cells, np.int64)
        moved[flow.cells] = flow.by
        near = np.unique(self._of(self._kinds, touched))
        far = np.flatnonzero(np.isin(self._part, np.unique(self._part[near])))
        for kinds in (near, far) if len(far) > len(near) else (near,):
            free = kinds[~self.problem.fixed_by(known)[kinds]]
            change = self._change(moved, touched, free, known)
            if change is not None:
                at = np.flatnonzero(change)
                return FeasibleFlow(np.append(flow.cells, free[at]), np.append(flow.by, change[at]))
        return None

    def _change(self, moved: Integers, touched: Integers, kinds: Integers, known: int) -> Integers | None:
        rows = np.union1d(touched, self._of(self._rows_of_kind, kinds))
        rhs = moved[self._total[rows]].astype(np.float64)
        matrix = sparse.csc_array(self._kinds[rows][:, kinds])
        if ((rhs != 0) & (np.diff(sparse.csr_array(matrix).indptr) == 0)).any():
            return None
        room = (self.problem.value - self.problem.low_for(known))[kinds]
        change, _ = whole_change(matrix, rhs, room, np.ones(len(kinds)))
        return change

    def widened(self, region: Integers) -> Integers:
        """A region with the kinds of people in its cells, and all cells that these are in."""
        kinds = np.unique(self._of(self._kinds, self._of(self._rows_of_total, region)))
        totals = self._total[np.unique(self._of(self._rows_of_kind, kinds))]
        return np.unique(np.concatenate([region, kinds, totals]))

    def together(self, cell: int) -> Integers:
        """Everything that hangs together with a cell, people with it."""
        labels = self._whole
        return np.flatnonzero(labels == labels[cell])

    @staticmethod
    def _of(matrix: sparse.csr_array | sparse.csc_array, which: Integers) -> Integers:
        return gather(matrix.indptr, matrix.indices, which)

    @cached_property
    def _part(self) -> Integers:
        """For each cell of a joint table the part of it, such as an area, that it belongs to."""
        size = self.problem.structure.cells
        return _labels(self._kinds, size)

    @cached_property
    def _whole(self) -> Integers:
        return _labels(self.problem.structure.matrix, self.problem.structure.cells)


def _labels(matrix: sparse.csr_array, cells: int) -> Integers:
    """Columns that have a row in common, not even through others, have the same number."""
    graph = sparse.csr_array(sparse.block_array([[None, abs(matrix)], [abs(matrix).T, None]]))
    _, labels = csgraph.connected_components(graph, directed=False)
    of_cells: Integers = labels[-cells:].astype(np.int64)
    return of_cells


# The last resort: one kind of person more, or less, in every cell that such people are in.


STEPS = 20_000
"""Kinds are looked for in at most so many steps."""

_Chosen = dict[str, tuple[str, ...]]
"""For each variable the finest code so far, after those that it is a part of, the total left out."""


class Kinds:
    """The kinds of people that linked tables tell apart."""

    def __init__(self, linked: LinkedTables):
        self._linked = linked
        self._known = all(tree is not None for tree in whole_trees(linked.tables).values())

    def movement(
        self, problem: PatternProblem, cell: int, by: int, suppressed: Flags, *, known: int = NOBODY, new: bool = True
    ) -> FeasibleFlow | None:
        """A cheap one that moves a cell by so much, and nothing that the person ``known`` knows; None if none is found.

        Args:
            problem: Values, bounds and prices of all cells.
            cell: The cell that is to move.
            by: How far: people more, or less.
            suppressed: What is suppressed already.
            known: A person who knows some cells.
            new: Whether further cells may be suppressed.
        """
        if not self._known:
            return None
        forbidden = problem.keep & ~suppressed if new else ~suppressed
        forbidden = forbidden | problem.fixed_by(known)
        least = float(problem.weight.min(initial=1.0))
        price = np.where(suppressed, FREE * least, problem.weight)
        moved = np.zeros(problem.structure.cells, np.int64)
        if by > 0:
            kind = self._kind(cell, forbidden, price)
            if kind is None:
                return None
            moved[kind] = by
        # What is taken away must be there: of one kind as much as it has, then of the next.
        low, wanted = problem.low_for(known), -by
        while wanted > 0:
            kind = self._kind(cell, forbidden | (problem.value + moved <= low), price)
            if kind is None:
                return None
            taken = min(wanted, int((problem.value + moved - low)[kind].min()))
            moved[kind] -= taken
            wanted -= taken
        at = np.flatnonzero(moved)
        return FeasibleFlow(at, moved[at])

    def _kind(self, cell: int, forbidden: Flags, price: Floats) -> Integers | None:
        """The cells of a kind that is in a cell and in none that is forbidden, cheap ones first."""
        given, order = self._beginning(cell)
        # For every cell of a table what it costs with all cells above it, and whether one of these is forbidden.
        tables = [self._linked.tables[at] for at in order]
        numbers = [
            self._linked.numbers[at].reshape(table.shape or (1,)) for at, table in zip(order, tables, strict=True)
        ]
        barred = [_downwards(t.dimensions, forbidden[own]) for t, own in zip(tables, numbers, strict=True)]
        costs = [_downwards(t.dimensions, price[own]) for t, own in zip(tables, numbers, strict=True)]
        steps = STEPS

        def search(number: int, chosen: _Chosen) -> Iterator[_Chosen]:
            nonlocal steps
            if number == len(tables):
                yield chosen
                return
            dimensions = tables[number].dimensions
            fitting = [_fitting(dimension, chosen.get(dimension.name, ())) for dimension in dimensions]
            within = np.ix_(*fitting) if fitting else (np.zeros(1, np.int64),)
            cost = np.where(barred[number][within], np.inf, costs[number][within])
            for place in np.argsort(cost, axis=None, kind="stable").tolist():
                steps -= 1
                at = np.unravel_index(place, cost.shape)
                if steps < 0 or np.isinf(cost[at]):
                    return
                codes = {
                    dimension.name: max(chosen.get(dimension.name, ()), _chain(dimension, of[int(number_)]), key=len)
                    for dimension, of, number_ in zip(dimensions, fitting, at, strict=False)
                }
                yield from search(number + 1, chosen | codes)

        for chosen in search(0, given):
            cells = self._cells(chosen)
            if not forbidden[cells].any():
                return cells
        return None

    def _beginning(self, cell: int) -> tuple[_Chosen, list[int]]:
        """The codes of a cell, and the tables, one that has it first."""
        for number, (table, own) in enumerate(zip(self._linked.tables, self._linked.numbers, strict=True)):
            at = np.flatnonzero(own == cell)
            if len(at):
                places = np.unravel_index(int(at[0]), table.shape) if table.shape else ()
                codes = {d.name: _chain(d, int(code)) for d, code in zip(table.dimensions, places, strict=True)}
                return codes, [number, *(other for other in range(len(self._linked.tables)) if other != number)]
        return {}, list(range(len(self._linked.tables)))

    def _cells(self, chosen: _Chosen) -> Integers:
        """All cells that a kind is in, those of joint tables with them."""
        numbers = []
        for table, own in zip(self._linked.tables, self._linked.numbers, strict=True):
            along = [[ROOT, *_places(dimension, chosen[dimension.name])] for dimension in table.dimensions]
            at = [np.ravel_multi_index(places, table.shape) if places else 0 for places in product(*along)]
            numbers.append(own[np.array(at, np.int64)])
        for joint in self._linked.joint:
            places = tuple(
                int(np.searchsorted(leaves, [ROOT, *_places(dimension, chosen[dimension.name])][-1]))
                for dimension, leaves in zip(joint.dimensions, joint.leaves, strict=True)
            )
            numbers.append(np.array([joint.first + int(np.ravel_multi_index(places, joint.shape))], np.int64))
        return np.unique(np.concatenate(numbers)).astype(np.int64)


def _chain(dimension: Dimension, code: int) -> tuple[str, ...]:
    """A code after those that it is a part of, the total left out."""
    chain: list[str] = []
    while code != ROOT:
        chain.append(dimension.codes[code])
        code = dimension.parent[code]
    return tuple(reversed(chain))


def _places(dimension: Dimension, chain: tuple[str, ...]) -> list[int]:
    """The numbers of codes of a chain, as far down as a dimension has them."""
    number = {code: at for at, code in enumerate(dimension.codes)}
    return [number[code] for code in chain if code in number]


def _fitting(dimension: Dimension, chain: tuple[str, ...]) -> list[int]:
    """The finest codes of a dimension that a person with these codes can have."""
    waiting = [[ROOT, *_places(dimension, chain)][-1]]
    leaves = []
    while waiting:
        at = waiting.pop()
        waiting += dimension.children[at]
        if not dimension.children[at]:
            leaves.append(at)
    return sorted(leaves)


def _downwards(dimensions: tuple[Dimension, ...], values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """For each cell the sum over itself and all cells above it; of flags, whether there is any."""
    table = values.copy()
    for axis, dimension in enumerate(dimensions):
        turned = np.moveaxis(table, axis, 0)
        for at in range(1, dimension.size):
            turned[at] += turned[dimension.parent[at]]
    return table
