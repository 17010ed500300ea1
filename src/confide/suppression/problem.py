"""What is to be solved: cells with their values, those that must be protected, and what it costs to hide each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from confide.errors import CONFIDENTIAL, NOWHERE, Finding, ParameterError
from confide.suppression.attacker import Attacker
from confide.suppression.rules import Levels
from confide.suppression.solving import Floats
from confide.suppression.structure import Flags, Integers, Structure

Weights = Literal["constant", "value", "log"]

PRECISION = 1e-9
NOBODY = -1

LARGEST = 1 << 40
"""Larger figures would leave the range in which the solver can be trusted."""


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """The cell suppression problem of a structure. All values are whole numbers of at least ``low``. Confidential."""

    structure: Structure
    value: Integers
    levels: Levels
    weight: Floats
    """What it costs to hide a cell that need not be hidden."""
    low: Integers
    """What an attacker knows of a hidden cell: it is not below this."""
    keep: Flags
    """Cells that must not be hidden."""
    unlisted: Flags
    """Cells that are in no published table: hidden from the beginning, at no cost."""
    single: Flags
    """Cells of one contributor, who knows the value; all False if this is not to be thought of."""
    who: Integers | None = None
    """Where a cell is single, a number for its contributor; None where the records are not at hand."""
    inhabited: Flags | None = None
    """Cells that somebody is in; None: those with a figure other than zero."""

    def __post_init__(self) -> None:
        if (self.value < self.low).any() or (np.abs(self.value) > LARGEST).any():
            raise ParameterError(
                Finding(
                    code="values",
                    what="figures are out of range",
                    found=CONFIDENTIAL,
                    expected=f"whole numbers from 0 to {LARGEST:,}, totals too",
                    remedy="take thousands or millions for larger ones; negative figures cannot be protected",
                )
            )
        if (self.structure.matrix @ self.value.astype(np.float64)).any():
            what, expected = "the figures do not add up", "tables that add up"
            raise ParameterError(
                Finding("not-additive", what, NOWHERE, CONFIDENTIAL, expected, "add the totals up again")
            )
        if (self.levels.primary & self.keep).any():
            what = "a cell that must be published is primary, and must be hidden"
            raise ParameterError(
                Finding(
                    code="kept-primary",
                    what=what,
                    found=CONFIDENTIAL,
                    expected="no primary cell among those that are always published",
                    remedy='keep fewer cells; choose zeros = "secondary", as a sum of zero can be that of one person',
                )
            )

    @property
    def begun(self) -> Flags:
        """What is hidden whatever else is decided."""
        return self.levels.primary | self.unlisted

    @property
    def high(self) -> Floats:
        return np.full(len(self.value), np.inf)

    @cached_property
    def persons(self) -> Integers:
        """For each cell of a single contributor who that is, as a number; -1 for others.

        Without the records, as far as the structure tells: a total of one and its part of one are the same person, who
        knows both.
        """
        if self.who is not None:
            return np.where(self.single, self.who, NOBODY)
        matrix = sparse.coo_array(self.structure.matrix)
        row, cell = matrix.coords
        total = self.structure.total[row]
        same = self.single[cell] & self.single[total]
        size = self.structure.cells
        graph = sparse.csr_array((np.ones(int(same.sum())), (cell[same], total[same])), shape=(size, size))
        _, labels = csgraph.connected_components(graph, directed=False)
        return np.where(self.single, labels.astype(np.int64), NOBODY)

    @property
    def about_somebody(self) -> Flags:
        """Cells whose figure says something of somebody. That nobody is in a cell says nothing about anybody; a sum of
        zero that somebody contributes to does."""
        return self.value != 0 if self.inhabited is None else self.inhabited

    def cost(self, hidden: Flags) -> float:
        """What is paid for hiding cells that are not primary."""
        return float(self.weight[hidden & ~self.begun].sum())

    def attacker(self, hidden: Flags) -> Attacker:
        """Somebody who has seen the tables without the hidden cells."""
        value = self.value.astype(np.float64)
        return Attacker(self.structure, value, hidden, self.low.astype(np.float64), self.high)

    def needs(self) -> list[Need]:
        """What every primary cell must be able to do, the highest totals and the largest distances first."""
        levels = self.levels
        parts = np.bincount(self.structure.total, minlength=self.structure.cells)
        found = []
        for cell in np.flatnonzero(levels.primary).tolist():
            lower = min(int(levels.lower[cell]), int(self.value[cell] - self.low[cell]))
            found.append(Need(cell, lower, int(levels.upper[cell]), max(1, int(levels.sliding[cell]))))
        return sorted(found, key=lambda need: (not parts[need.cell], -need.upper - need.lower, need.cell))


@dataclass(frozen=True, slots=True)
class Need:
    """A cell whose value must be able to fall by ``lower``, to rise by ``upper`` and to do both by ``sliding``, for all
    that an attacker knows."""

    cell: int
    lower: int
    upper: int
    sliding: int

    def met(self, down: float, up: float) -> bool:
        """Whether a cell that can fall and rise so far is protected."""
        return down >= self.lower and up >= self.upper and down + up >= self.sliding


def weights(value: Integers, kind: Weights) -> Floats:
    """What it costs to hide a cell: 1, its value, or log(1 + value). A zero costs as much as a one."""
    at_least_one = np.maximum(np.abs(value), 1).astype(np.float64)
    if kind == "constant":
        return np.ones(len(value))
    return at_least_one if kind == "value" else np.log1p(at_least_one)


@dataclass(frozen=True, eq=False, repr=False)
class Pattern:
    """Which cells are hidden, and how good that is known to be."""

    hidden: Flags
    cost: float
    method: str
    bound: float | None = None
    """No safe pattern costs less; None where that is not known."""

    @property
    def gap(self) -> float | None:
        """How much dearer than the best it may be, as a share; zero: proved to be the best."""
        if self.bound is None:
            return None
        gap = (self.cost - self.bound) / self.cost if self.cost > 0 else 0.0
        return gap if gap > PRECISION else 0.0


def cannot_protect(number: int) -> ParameterError:
    """Some cells cannot be protected, whatever is hidden. Which ones is confidential."""
    return ParameterError(
        Finding(
            code="cannot-protect",
            what="some primary cells cannot be protected, whatever else is hidden",
            found=f"{number:,} cells",
            expected="cells that can be hidden beside each primary one",
            remedy="let totals or zeros be hidden too, ask for smaller protection levels, or use coarser variables",
        )
    )
