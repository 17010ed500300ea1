"""A fast way to a safe pattern: for each primary cell the cheapest movement that protects it, one after the other.

What such a movement moves is suppressed, and the movement itself proves that the cell is protected. Later cells move
what is suppressed already at almost no price, so patterns overlap. Afterwards cells that turned out not to be needed
are published again, the most costly first. Everything is decided by values, weights and the order of cells: the same
tables always have the same pattern.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from confide.mechanisms.suppression.flows import FeasibleFlows, FlowRegions, cheapest
from confide.mechanisms.suppression.problem import NOBODY, Pattern, PatternProblem, ProtectionNeed, cannot_protect
from confide.mechanisms.suppression.structure import Flags

Advance = Callable[[int], None]

NARROW = 2
"""Regions that are looked through when a cell might be published again: a wider search seldom pays."""


class Protection:
    """A pattern as it grows, with the movements that prove it safe."""

    def __init__(self, problem: PatternProblem, suppressed: Flags | None = None):
        self.problem = problem
        self.suppressed: Flags = (problem.begun if suppressed is None else suppressed | problem.begun).copy()
        self.flows = FeasibleFlows(problem)
        self.needs = {need.cell: need for need in problem.needs()}
        self._regions = FlowRegions(problem)

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
        return self.flows.prove(self.suppressed) and all(
            need.met(*self.flows.reach(need.cell)) and not self._tied(need.cell) for need in self.needs.values()
        )

    def thin_out(self, advance: Advance | None = None) -> None:
        """Publishes again what is not needed, the most costly first."""
        # The most costly first, and of equal cost by number: the same tables always have the same pattern.
        others = np.flatnonzero(self.suppressed & ~self.problem.begun)
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

    def _meet(self, need: ProtectionNeed, *, new: bool, without: int | None = None, widest: int | None = None) -> bool:
        """Lets a cell fall and rise as far as it must."""
        cell = need.cell
        # Down, up, and then the width of both together: each step uses what the flows so far already reach.
        down, up = self.flows.reach(cell, without=without)
        if down < need.lower and not self._move(cell, -need.lower, new=new, widest=widest):
            return False
        if up < need.upper and not self._move(cell, need.upper, new=new, widest=widest):
            return False
        down, up = self.flows.reach(cell, without=without)
        if down + up >= need.sliding:
            return True
        further = need.sliding - down, up - need.sliding
        return any(self._move(cell, by, new=new, widest=widest) for by in further)

    def _untie(self, cell: int, *, new: bool, without: int | None = None, widest: int | None = None) -> bool:
        """Whoever knows the value of a cell, being its only contributor, must not know a primary cell from it.

        For a primary cell and such a person, a movement of the cell that leaves alone what they know is proof.
        """
        for person in sorted(self._tied(cell, without=without)):
            if person not in self._tied(cell, without=without):
                continue  # a movement found for another one has served this one too
            if not any(self._move(cell, by, known=person, new=new, widest=widest) for by in (1, -1)):
                return False
        return True

    def _tied(self, cell: int, *, without: int | None = None) -> set[int]:
        # Somebody alone in a total knows that its other parts are empty, and nothing about anybody by that.
        if not self.problem.single.any() or not self.problem.about_somebody[cell]:
            return set()
        return self.flows.tied(cell, without=without)

    def _move(self, cell: int, by: int, *, known: int = NOBODY, new: bool = True, widest: int | None = None) -> bool:
        # Regions grow from the cell outwards: a programme over all tables is seldom needed, and takes long.
        for number, region in enumerate(self._regions.around(cell)):
            if widest is not None and number >= widest:
                break
            flow = cheapest(self.problem, region, cell, by, self.suppressed, known=known, new=new)
            if flow is not None:
                self.suppressed[flow.cells] = True
                self.flows.add(flow)
                return True
        return False

    def _dispensable(self, cell: int) -> bool:
        """Whether all primary cells that were moved with this one can do without it, with what else is suppressed."""
        touched = {other for flow in self.flows.moving(cell) for other in flow.of_cell if other in self.needs}
        self.suppressed[cell] = False
        return all(
            self._meet(self.needs[other], new=False, without=cell, widest=NARROW)
            and self._untie(other, new=False, without=cell, widest=NARROW)
            for other in sorted(touched)
        )


def protect(problem: PatternProblem, *, begin: Flags | None = None, advance: Advance | None = None) -> Protection:
    """A safe pattern, begun with what is suppressed already, and the movements that prove it. Raises where a cell
    cannot be protected."""
    protection = Protection(problem, begin)
    failed = protection.complete(advance=advance)
    if failed:
        raise cannot_protect(failed)
    protection.thin_out()
    return protection


def heuristic(problem: PatternProblem, *, begin: Flags | None = None, advance: Advance | None = None) -> Pattern:
    """A safe pattern, primary cell by primary cell (:func:`protect`), without its proof.

    Args:
        problem: Values, protection levels and costs of all distinct cells.
        begin: Cells that are suppressed already.
        advance: Is told of every primary cell that is done.

    Raises:
        ParameterError: Some cells cannot be protected, whatever else is suppressed.
    """
    protection = protect(problem, begin=begin, advance=advance)
    return Pattern(protection.suppressed, problem.cost(protection.suppressed), "heuristic")
