"""The board of the cell key method: a bound D, a variance V, what they do to figures, and which attacks they withstand.

A row is a table on a level, or in the whole. All counts above the bound get the same noise, so one margin is in all
rows: the smallest m with P(|noise| ≤ m) ≥ 95 % for the row of maximum entropy with D and V. Typed, it gives the largest
V that has it. Which D and V withstand averaging and keep the bound to themselves depends on which tables there are; the
faces work it out (:class:`confide.releases.boards.BoundedNoiseClaim`; Bach 2021, Figure 6).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod
from typing import ClassVar, Self

from confide.errors import ParameterError, Place
from confide.exact import exact, exact_text, grouped
from confide.mechanisms.cellkey.programme import CellKeyProblem
from confide.mechanisms.cellkey.spec import CellKeySpec
from confide.noise.max_entropy import symmetric_row, uniform_variance
from confide.noise.ptables import count_settings, feasible
from confide.releases import LoadedSpec, Spec, boards

COVERAGE = 0.95
LARGEST_BOUND, LARGEST_VARIANCE = 15, 50
STEP = Fraction(1, 100)
MOST_PERSONS = 10**11
EVERYBODY = "all records"
D, V, JS, PSTAY, PERSONS, MARGIN = "D", "V", "js", "pstay", "persons", "margin"


@lru_cache(maxsize=4096)
def noise_margin(bound: int, variance: Fraction) -> int:
    """The smallest m that noise is within in 95 of 100 cases."""
    row = symmetric_row(bound, variance)
    reached = row.pmf(0)
    for margin in range(bound):
        if reached >= COVERAGE:
            return margin
        reached += 2 * row.pmf(margin + 1)
    return bound


@dataclass(frozen=True, eq=False, kw_only=True)
class CellKeyBoard(boards.Board):
    """Tables with a perturbation table that is made from a bound and a variance."""

    published: tuple[boards.LevelTable, ...]
    breakdowns: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]
    bound: int
    variance: Fraction
    js: int = 0
    pstay: Fraction | None = None
    persons: int | None = None

    row_head: ClassVar[str] = "Table and level"
    caption = (
        "In 95 of 100 cases the noise of a count above the bound is within its margin; smaller counts have less. A sum "
        "of published cells has the noise of each of them."
    )

    @classmethod
    def offered(cls, spec: Spec) -> bool:
        """None where cells are given, figures are magnitudes, or the table comes from a file."""
        assert isinstance(spec, CellKeySpec)
        by_parameters = spec.cellkey.D is not None and spec.cellkey.V is not None
        return by_parameters and not spec.given and spec.magnitude is None

    @classmethod
    def of(cls, problem: CellKeyProblem) -> CellKeyBoard:
        """As the spec has it: one of counts, whose noise follows from D and V."""
        part = problem.spec.cellkey
        assert part.D is not None
        assert part.V is not None
        published, breakdowns = [], []
        for table in problem.tables:
            cells = prod(variable.size for variable in table.query.variables)
            units = {level: problem.spine.level(level).units for level in table.levels}
            for level, areas in (units or {EVERYBODY: 1}).items():
                published.append(boards.LevelTable(table.name, table.title or table.name, level, areas, cells))
            area = ("areas", tuple(sorted(set(units.values())))) if units else None
            variables = table.query.variables
            own = [(each.name, _sizes(problem, each.attribute.name, each.size)) for each in variables]
            breakdowns.append((*([area] if area else []), *own))
        return cls(
            published=tuple(published),
            breakdowns=tuple(breakdowns),
            bound=part.D,
            variance=part.V,
            js=part.js,
            pstay=part.pstay,
        )

    @property
    def columns(self) -> tuple[boards.BoardColumn, ...]:  # type: ignore[override]
        typical = (boards.BoardColumn("share", "of a typical cell"),) if self.persons else ()
        margin = boards.BoardColumn(MARGIN, "Margin, ± persons", compared=True)
        return (boards.BoardColumn("areas", "Areas"), boards.BoardColumn("cells", "Cells of an area"), margin, *typical)

    @cached_property
    def rows(self) -> tuple[boards.BoardRow, ...]:
        margin, rows = noise_margin(self.bound, self.variance), []
        for each in self.published:
            name = f"{each.table}:{each.level}"
            entries: dict[str, boards.BoardEntry | str] = {
                "areas": grouped(each.areas),
                "cells": grouped(each.cells),
                MARGIN: boards.BoardEntry(
                    f"{MARGIN}:{name}", f"Margin in persons: {each.title}, {each.level}", str(margin), "whole"
                ),
            }
            if self.persons:
                typical = self.persons / (each.areas * each.cells)
                entries["share"] = f"{100 * margin / typical:.3g} % of {typical:,.4g}"
            rows.append(boards.BoardRow(name, each.title, each.level, entries, lockable=False))
        return tuple(rows)

    @property
    def settings(self) -> tuple[boards.BoardEntry, ...]:
        persons = "" if self.persons is None else str(self.persons)
        stay = "" if self.pstay is None else exact_text(self.pstay)
        return (
            boards.BoardEntry(PERSONS, "Persons in all, for shares of a typical cell", persons, "whole"),
            boards.BoardEntry(JS, "Small counts that are never published, from 1 to", str(self.js), "whole"),
            boards.BoardEntry(PSTAY, "Least probability that a count stays as it is", stay),
        )

    @property
    def dials(self) -> tuple[boards.BoardEntry, ...]:
        top = max(LARGEST_BOUND, self.bound)
        return (
            boards.BoardEntry(D, "Largest noise, D", str(self.bound), "whole", slider=("1", str(top), "1")),
            boards.BoardEntry(
                V, "Variance, V", exact_text(self.variance), slider=("0.1", str(LARGEST_VARIANCE), "0.1")
            ),
        )

    @property
    def claim(self) -> boards.BoundedNoiseClaim:
        words = (
            f"Noise is at most ±{self.bound} and depends on who is in a cell alone: the same members always get the "
            "same noise, so that asking again tells nothing.",
            "This is no differential privacy: no epsilon bounds what can be learnt. What is shown is how two known "
            "attacks fare against tables like these.",
        )
        names = tuple(each.table for each in self.published)
        return boards.BoundedNoiseClaim(self.bound, self.variance, self.breakdowns, names, words)

    def choices(self) -> dict[str, str]:
        return {
            D: str(self.bound),
            V: exact_text(self.variance),
            JS: str(self.js),
            PSTAY: "" if self.pstay is None else exact_text(self.pstay),
            PERSONS: "" if self.persons is None else str(self.persons),
        }

    def chosen(self, choices: boards.Choices) -> Self:
        board = self
        for name, text in choices.items():
            board = board._with(name, text.strip())
        _check(board.bound, board.variance, board.js, board.pstay)
        return board

    def moved(self, name: str, text: str, moving: boards.Moving) -> Self:  # noqa: ARG002 - nothing is shared
        if name.partition(":")[0] == MARGIN:
            margin = boards.typed_whole(text, name, 0, self.bound)
            return self.chosen({V: exact_text(self._largest_variance(margin, name, text))})
        return self.chosen({name: text})

    def _with(self, name: str, text: str) -> Self:
        if name == D:
            return replace(self, bound=boards.typed_whole(text, name, 1, 100))
        if name == V:
            return replace(self, variance=boards.typed_number(text, name, 0, LARGEST_VARIANCE))
        if name == JS:
            return replace(self, js=boards.typed_whole(text, name, 0, 99))
        if name == PSTAY:
            return replace(self, pstay=boards.typed_number(text, name, 0, 1) if text else None)
        if name == PERSONS:
            return replace(self, persons=boards.typed_whole(text, name, 1, MOST_PERSONS) if text else None)
        raise self.no_entry(name)

    def _largest_variance(self, margin: int, name: str, text: str) -> Fraction:
        """The largest variance, in hundredths, with which noise is within a margin."""
        low, high = 0, int(min(uniform_variance(self.bound), Fraction(LARGEST_VARIANCE)) / STEP)
        if noise_margin(self.bound, high * STEP) <= margin:
            return high * STEP
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if noise_margin(self.bound, middle * STEP) <= margin else (low, middle)
        if not low:
            raise ParameterError("entry-range/stand-here", where=Place(path=name), found=text[:40])
        return low * STEP

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:  # noqa: ARG002 - it needs no other file
        changed = copy.deepcopy(dict(loaded.values))
        part = changed["cellkey"]
        for name, text in self.choices().items():
            if name == PERSONS or (not text and name not in part) or (name == JS and not self.js and name not in part):
                continue
            if not text:
                part.pop(name)
            elif name not in part or exact(part[name], name) != exact(text, name):
                part[name] = int(text) if name in (D, JS) else text
        return boards.TunedValues(changed)


@lru_cache(maxsize=1024)
def _check(bound: int, variance: Fraction, js: int, pstay: Fraction | None) -> None:
    """Raises where no perturbation table has these settings."""
    feasible(count_settings(bound, variance, js, pstay=pstay))


def _sizes(problem: CellKeyProblem, attribute: str, size: int) -> tuple[int, ...]:
    """The sizes of a variable and of all coarser ones of its attribute in the programme: as if tables that have the
    finer one showed the coarser one too, which an attacker can nearly have."""
    sizes = {
        variable.size
        for table in problem.tables
        for variable in table.query.variables
        if variable.attribute.name == attribute and variable.size <= size
    }
    return tuple(sorted(sizes))
