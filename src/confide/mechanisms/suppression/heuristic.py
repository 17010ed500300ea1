"""A fast way to a safe pattern: for each primary cell the cheapest movement that protects it, one after the other.

What such a movement moves is suppressed, and the movement itself proves that the cell is protected. Later cells move
what is suppressed already at almost no price, so patterns overlap. Afterwards cells that turned out not to be needed
are published again, the most costly first. Everything is decided by values, weights and the order of cells: the same
tables always have the same pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from confide.arrays import Integers
from confide.mechanisms.suppression import flows
from confide.mechanisms.suppression import problem as suppression_problem
from confide.mechanisms.suppression.flows import cheapest
from confide.mechanisms.suppression.structure import UNION, Flags, Structure
from confide.mechanisms.suppression.variables import Lifting

Advance = Callable[[int], None]

NARROW = 2
"""Regions that are looked through when a cell might be published again: a wider search seldom pays."""


FURTHER = 1
"""Where movements have fractions alone, so many larger regions are looked through before whole people are moved."""

CAREFUL = 500
"""With more cells than this, movements of magnitudes are first looked for among those that serve most contributors."""


class Protection:
    """A pattern as it grows, with the movements that prove it safe."""

    def __init__(self, problem: suppression_problem.PatternProblem, suppressed: Flags | None = None):
        self.problem = problem
        self.suppressed: Flags = (problem.begun if suppressed is None else suppressed | problem.begun).copy()
        self.flows = flows.FeasibleFlows(problem)
        self.needs = {need.cell: need for need in problem.needs()}
        self.missed: set[int] = set()
        """Cells for which there are movements in fractions, and none in whole numbers was found."""
        self._totals: dict[int, set[int]] = {}
        self._regions = flows.FlowRegions(problem)
        self._lifting = Lifting(problem)
        # In large tables of magnitudes first what few contributors can rule out, since each of these would need another
        # movement: faster, and a little dearer.
        large = problem.insiders is not None and len(problem.value) > CAREFUL
        self._ways = (True, False) if large else (False,)
        self.unserved: list[tuple[int, int]] = []
        """Primary cells, each with somebody who could bound it too tightly, that no movement was found for."""

    def complete(self, *, new: bool = True, advance: Advance | None = None) -> int:
        """Protects every primary cell, suppressing more if need be and if ``new`` allows. Returns how many are not
        safe."""
        failed = 0
        # First every cell must be able to fall and rise as far as its levels say. Cells that are suppressed on the way
        # are free to move for those that come later.
        for need in self.needs.values():
            failed += not self._meet(need, new=new)
            if advance is not None:
                advance(1)
        if failed:
            return failed
        # Then nobody who is alone in a cell may know a primary cell from it: that needs other flows, not wider ones.
        return sum(not self._untie(cell, new=new) for cell in self.needs)

    def safe(self) -> bool:
        """Whether the movements prove it all, as whole numbers, without any programme being solved."""
        return self.flows.prove(self.suppressed) and all(self.proved(cell) for cell in self.needs)

    def proved(self, cell: int) -> bool:
        """Whether the movements prove a primary cell protected, from readers and from those who know cells of their
        own."""
        return self.needs[cell].met(*self.flows.reach(cell)) and not self._tied(cell)

    def carried(self, problem: suppression_problem.PatternProblem, cells: Integers, union: Integers) -> Protection:
        """The same pattern and its movements for a problem with more cells at the end: each is a union of these."""
        more = len(problem.value) - len(self.suppressed)
        protection = Protection(problem, np.append(self.suppressed, np.ones(more, np.bool_)))
        for flow in self.flows:
            moved = np.zeros(len(problem.value), np.int64)
            moved[flow.cells] = flow.by
            np.add.at(moved, len(self.suppressed) + union, moved[cells])
            at = np.flatnonzero(moved)
            protection.flows.keep(flows.FeasibleFlow(at, moved[at]))
        return protection

    def thin_out(self, advance: Advance | None = None, *, among: Flags | None = None) -> None:
        """Publishes again what is not needed, the most costly first; of some cells, or of all."""
        # The most costly first, and of equal cost by number: the same tables always have the same pattern.
        others = np.flatnonzero(self.suppressed & ~self.problem.begun & (True if among is None else among))
        order = others[np.lexsort((others, -self.problem.weight[others]))]
        for cell in order.tolist():
            if self._reveals_primary(cell):
                continue
            # Flows that do without the cell are looked for near by; with them, it is published and its flows forgotten.
            if self._dispensable(cell):
                self.flows.drop(cell)
            else:
                self.suppressed[cell] = True
            if advance is not None:
                advance(1)
        # What no movement moves any more is not part of any proof.
        for cell in np.flatnonzero(self.suppressed & ~self.problem.begun).tolist():
            if not any(True for _ in self.flows.moving(cell)):
                self.suppressed[cell] = False

    def _reveals_primary(self, cell: int) -> bool:
        """Whether, with a cell published, a primary one would follow equation by equation: then nothing else need be
        tried."""
        structure = self.problem.structure
        rows, cells = structure.by_cell, structure.matrix
        known, waiting = {cell}, [cell]
        while waiting:
            at = waiting.pop()
            for row in rows.indices[rows.indptr[at] : rows.indptr[at + 1]].tolist():
                of_row = cells.indices[cells.indptr[row] : cells.indptr[row + 1]]
                unknowns = [other for other in of_row[self.suppressed[of_row]].tolist() if other not in known]
                if len(unknowns) == 1:
                    if unknowns[0] in self.needs:
                        return True
                    known.add(unknowns[0])
                    waiting.append(unknowns[0])
        return False

    def _meet(
        self,
        need: suppression_problem.ProtectionNeed,
        *,
        new: bool,
        without: int | None = None,
        widest: int | None = None,
        known: int = suppression_problem.NOBODY,
    ) -> bool:
        """Lets a cell fall and rise as far as it must, for all that somebody knows."""
        cell = need.cell
        # Down, up, and then the width of both together: each step uses what the flows so far already reach.
        down, up = self.flows.reach(cell, without=without, known=known)
        if down < need.lower and not self._move(cell, -need.lower, known=known, new=new, widest=widest):
            return False
        if up < need.upper and not self._move(cell, need.upper, known=known, new=new, widest=widest):
            return False
        down, up = self.flows.reach(cell, without=without, known=known)
        if down + up >= need.sliding:
            return True
        further = need.sliding - down, up - need.sliding
        return any(self._move(cell, by, known=known, new=new, widest=widest) for by in further)

    def _untie(self, cell: int, *, new: bool, without: int | None = None, widest: int | None = None) -> bool:
        """Whoever knows the value of a cell, being its only contributor, must not know a primary cell from it.

        For a primary cell and such a person, a movement of the cell that leaves alone what they know is proof. Of
        magnitudes, whoever contributes to any cell must be kept as far from the primary one as everybody else.
        """
        if self.problem.insiders is not None:
            return self._keep_away(cell, new=new, without=without, widest=widest)
        for person in sorted(self._tied(cell, without=without)):
            if person not in self._tied(cell, without=without):
                continue  # a movement found for another one has served this one too
            if not any(self._move(cell, by, known=person, new=new, widest=widest) for by in (1, -1)):
                return False
        return True

    def _keep_away(self, cell: int, *, new: bool, without: int | None, widest: int | None) -> bool:
        served = True
        # A movement found for one contributor often serves the next: each is asked again when its turn comes.
        for person in sorted(self._tied(cell, without=without)):
            need = self.need_of(cell, person)
            if self.flows.serves(need, person, without=without):
                continue
            if not self._meet(need, new=new, without=without, widest=widest, known=person):
                if without is not None:
                    return False
                self.unserved.append((cell, person))
                served = False
        return served

    def need_of(self, cell: int, person: int) -> suppression_problem.ProtectionNeed:
        """What a cell must be able to do for all that a contributor knows: it cannot fall below what that one gave."""
        low = int(self.problem.low[cell])
        known = low if self.problem.insiders is None else max(low, self._known_of(cell, person))
        return self.needs[cell].within(int(self.problem.value[cell]) - known)

    def _known_of(self, cell: int, person: int) -> int:
        """What a contributor knows a cell not to be below. Tables as input tell who contributes to single cells; what
        was given to a part was given to every total of it, and to every union that has it."""
        own = self.flows.known_by(person)
        if cell in own:
            return own[cell]
        low, inside = self.problem.low, {cell, *self.problem.structure.union_parts(cell).tolist()}
        more = [
            floor - int(low[part])
            for part, floor in own.items()
            if part in inside or not inside.isdisjoint(self._totals_of(part))
        ]
        return int(low[cell]) + max(more, default=-suppression_problem.LARGEST)

    def _totals_of(self, part: int) -> set[int]:
        if part not in self._totals:
            self._totals[part] = self.problem.structure.totals_of(part)
        return self._totals[part]

    def _tied(self, cell: int, *, without: int | None = None) -> set[int]:
        # Somebody alone in a total knows that its other parts are empty, and nothing about anybody by that.
        known = self.problem.insiders is not None or self.problem.single.any()
        if not known or not self.problem.about_somebody[cell]:
            return set()
        if self.problem.insiders is None:
            return self.flows.tied(cell, without=without)
        return {
            person
            for person in self.flows.suspects(self.needs[cell], without=without)
            if not self.flows.serves(self.need_of(cell, person), person, without=without)
        }

    def _move(
        self,
        cell: int,
        by: int,
        *,
        known: int = suppression_problem.NOBODY,
        new: bool = True,
        widest: int | None = None,
    ) -> bool:
        # Regions grow from the cell outwards: a programme over all tables is seldom needed, and takes long.
        fractions = 0
        for number, region in enumerate(self._regions.near(cell, self.suppressed), 1):
            search = self._search(region, cell, by, known=known, new=new, near=widest is not None)
            if search.flow is not None:
                return self._take(search.flow)
            if number == widest:
                return False
        for number, region in enumerate(self._regions.around(cell)):
            if (widest is not None and number >= widest) or fractions > FURTHER:
                break
            search = self._search(region, cell, by, known=known, new=new, near=widest is not None)
            if search.flow is not None:
                return self._take(search.flow)
            fractions += search.possible
        if widest is not None:
            return False
        if self._lifting.any and not fractions:
            everything = self._lifting.together(cell)
            search = cheapest(self.problem, everything, cell, by, self.suppressed, known=known, new=new, joint=True)
            if search.flow is not None:
                return self._take(search.flow)
            fractions += search.possible
        if not fractions:
            return False
        # A movement there is, if in fractions: one of whole people, wherever it leads.
        flow = self._of_whole_people(cell, by, known=known, new=new)
        if flow is None:
            self.missed.add(cell)
            return False
        return self._take(flow)

    def _of_whole_people(self, cell: int, by: int, *, known: int, new: bool) -> flows.FeasibleFlow | None:
        """A movement of kinds of people. Of a union each kind is in one part at most: what moves that moves it."""
        kinds, structure = self.problem.kinds, self.problem.structure
        if kinds is None:
            return None
        for part in structure.union_parts(cell).tolist() or [cell]:
            flow = kinds.movement(self.problem, part, by, self.suppressed, known=known, new=new)
            if flow is not None:
                moved = np.zeros(structure.cells, np.int64)
                moved[flow.cells] = flow.by
                structure.move_unions(moved)
                at = np.flatnonzero(moved)
                return flows.FeasibleFlow(at, moved[at])
        return None

    def _take(self, flow: flows.FeasibleFlow) -> bool:
        self.suppressed[flow.cells] = True
        self.flows.add(flow)
        return True

    def _search(self, region: Integers, cell: int, by: int, *, known: int, new: bool, near: bool) -> flows.Search:
        """The cheapest movement in a region. With joint tables first one of the tables alone, which people may be able
        to follow; if not, one of tables and people together."""
        search = flows.NOTHING
        for careful in self._ways:
            search = cheapest(self.problem, region, cell, by, self.suppressed, known=known, new=new, careful=careful)
            if search.flow is not None:
                break
        if not self._lifting.any or not search.possible:
            return search
        if search.flow is not None:
            lifted = self._lifting.lifted(search.flow, known)
            if lifted is not None or near:
                return flows.Search(lifted, possible=True)
        wider = self._lifting.widened(region)
        return cheapest(self.problem, wider, cell, by, self.suppressed, known=known, new=new, joint=True)

    def _dispensable(self, cell: int) -> bool:
        """Whether all primary cells that were moved with this one can do without it, with what else is suppressed."""
        touched = {other for flow in self.flows.moving(cell) for other in flow.of_cell if other in self.needs}
        self.suppressed[cell] = False
        return all(
            self._meet(self.needs[other], new=False, without=cell, widest=NARROW)
            and self._untie(other, new=False, without=cell, widest=NARROW)
            for other in sorted(touched)
        )


def protect(
    problem: suppression_problem.PatternProblem, *, begin: Flags | None = None, advance: Advance | None = None
) -> Protection:
    """A safe pattern, begun with what is suppressed already, and the movements that prove it. Raises where a cell
    cannot be protected."""
    protection = Protection(problem, begin)
    failed = protection.complete(advance=advance)
    if failed:
        raise (
            suppression_problem.not_found(len(protection.missed))
            if protection.missed
            else suppression_problem.cannot_protect(failed)
        )
    protection.thin_out()
    return protection


def heuristic(
    problem: suppression_problem.PatternProblem, *, begin: Flags | None = None, advance: Advance | None = None
) -> suppression_problem.Pattern:
    """A safe pattern, primary cell by primary cell (:func:`protect`), without its proof.

    Args:
        problem: Values, protection levels and costs of all distinct cells.
        begin: Cells that are suppressed already.
        advance: Is told of every primary cell that is done.

    Raises:
        ParameterError: Some cells cannot be protected, whatever else is suppressed.
    """
    protection = protect(problem, begin=begin, advance=advance)
    return suppression_problem.Pattern(protection.suppressed, problem.cost(protection.suppressed), "heuristic")


# Unions of hidden cells in one sum: their figure follows from a published total and the published parts.
#
# Of a total T with published parts, what is hidden adds up to a known figure. If a rule calls the hidden cells together
# sensitive, as it does of two cells with one contributor each, that figure must not be known either. So such a union
# becomes a cell of its own, in no table, with an equation and with the protection levels of the rule,
#
#     y_U = sum of y_i over the hidden parts,
#
# and is protected as any primary cell is: the movements that prove it move what else is in the sum, which is hidden
# then. What is hidden together after that is a larger union, and is looked at again, until no known union is sensitive.
# Every round hides more in some sum, so rounds end. What is proved of unions is in ``docs/proofs/suppression.md``, 8.


THINNED = 5
"""After so many rounds nothing is published again: from then on each hides more, and they end."""


@dataclass(frozen=True, eq=False, repr=False)
class KnownUnions:
    """Unions of hidden cells that are sensitive and known: the cells of each, one after the other, with the levels that
    the rules demand."""

    cells: Integers
    union: Integers
    """For each cell the number of its union."""
    levels: suppression_problem.Levels
    merged: suppression_problem.Contributors

    def __len__(self) -> int:
        return len(self.levels.primary)


def known_unions(problem: suppression_problem.PatternProblem, suppressed: Flags) -> list[Integers]:
    """The hidden cells of every sum whose total is published, if some of its parts are published too.

    Sub-totals that no table lists are hidden, and add up to nothing by themselves: their own parts stand for them.
    Where all parts are hidden, they are the published total together, which no rule calls sensitive.
    """
    structure, hidden = problem.structure, suppressed
    rows = {
        (int(total), int(axis)): at
        for at, (total, axis) in enumerate(zip(structure.total, structure.axis, strict=True))
    }
    matrix = structure.matrix
    unions: dict[tuple[int, ...], Integers] = {}
    # Neither equations of unions nor those of the kinds of people behind tables.
    for row in np.flatnonzero(structure.axis >= 0).tolist():
        total, axis = int(structure.total[row]), int(structure.axis[row])
        if hidden[total]:
            continue
        parts = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        parts = parts[parts != total]
        if not hidden[parts].any():
            continue
        waiting, union, published = parts.tolist(), [], False
        while waiting:
            part = waiting.pop()
            below = rows.get((part, axis)) if problem.unlisted[part] else None
            if below is not None:
                own = matrix.indices[matrix.indptr[below] : matrix.indptr[below + 1]]
                waiting += own[own != part].tolist()
            elif hidden[part]:
                union.append(part)
            else:
                published = True
        if union and published:
            unions[tuple(sorted(union))] = np.array(sorted(union), np.int64)
    return list(unions.values())


def sensitive_unions(problem: suppression_problem.PatternProblem, suppressed: Flags) -> KnownUnions | None:
    """The known unions that the rules call sensitive; None where there is none, or no rule for unions."""
    rule = problem.union_rule
    if rule is None:
        return None
    unions = known_unions(problem, suppressed)
    if not unions:
        return None
    cells = np.concatenate(unions)
    union = np.repeat(np.arange(len(unions)), [len(each) for each in unions])
    merged = rule.contributors.merged(cells, union, len(unions), problem.low[cells])
    levels = rule.levels(merged)

    sensitive = np.flatnonzero(levels.primary)
    if not len(sensitive):
        return None
    at = np.isin(union, sensitive)
    return KnownUnions(
        cells[at], np.searchsorted(sensitive, union[at]), levels.taken(sensitive), merged.taken(sensitive)
    )


def with_unions(problem: suppression_problem.PatternProblem, unions: KnownUnions) -> suppression_problem.PatternProblem:
    """The problem with a primary cell for each union, which is in no table."""
    number, structure = len(unions), problem.structure
    entries = sparse.csr_array(
        (np.ones(len(unions.cells)), (unions.union, unions.cells)), shape=(number, structure.cells)
    )
    matrix = sparse.csr_array(sparse.block_array([[structure.matrix, None], [entries, -sparse.eye_array(number)]]))
    none = np.full(number, suppression_problem.NOBODY, np.int64)
    value, low = np.zeros(number, np.int64), np.zeros(number, np.int64)
    np.add.at(value, unions.union, problem.value[unions.cells])
    np.add.at(low, unions.union, problem.low[unions.cells])
    old, new = problem.levels, unions.levels
    levels = suppression_problem.Levels(*(np.concatenate([getattr(old, name), getattr(new, name)]) for name in LEVELS))
    no, yes = np.zeros(number, np.bool_), np.ones(number, np.bool_)
    return replace(
        problem,
        structure=Structure(
            matrix, np.append(structure.total, none), np.append(structure.axis, np.full(number, UNION, np.int64))
        ),
        value=np.append(problem.value, value),
        levels=levels,
        weight=np.append(problem.weight, np.ones(number)),
        low=np.append(problem.low, low),
        keep=np.append(problem.keep, no),
        unlisted=np.append(problem.unlisted, yes),
        single=np.append(problem.single, no),
        who=None if problem.who is None else np.append(problem.who, none),
        inhabited=np.append(problem.about_somebody, yes),
        contributors=None if problem.contributors is None else problem.contributors.followed_by(unions.merged),
        along=None if problem.along is None else (problem.along[0], np.append(problem.along[1], np.zeros_like(none))),
    )


LEVELS = ("primary", "lower", "upper", "sliding")


def open_unions(protection: Protection) -> Protection:
    """A pattern in which no known union is sensitive, from one that is safe cell by cell, with the movements that prove
    both. Cells of unions come after those of the problem.

    Raises:
        ParameterError: A union cannot be protected, whatever else is suppressed.
    """
    rounds = 0
    while (unions := sensitive_unions(protection.problem, protection.suppressed)) is not None:
        before = protection.suppressed
        problem = with_unions(protection.problem, unions)
        protection = protection.carried(problem, unions.cells, unions.union)
        failed = protection.complete()
        if failed:
            raise suppression_problem.cannot_protect(failed)
        rounds += 1
        if rounds <= THINNED:
            protection.thin_out(among=protection.suppressed & ~np.append(before, np.ones(len(unions), np.bool_)))
    return protection
