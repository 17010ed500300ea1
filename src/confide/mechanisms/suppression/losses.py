"""What cell suppression takes from tables: of the whole, by table, level, crossing, margin and group.

Everything is counted over distinct cells that are listed: a cell that several tables have is counted once in each part
that it belongs to. The truth goes in, so that what comes out is confidential.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from confide.mechanisms.suppression.problem import PatternProblem
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, Variable
from confide.mechanisms.suppression.structure import ROOT, Flags, Integers
from confide.releases.tabular import TOTAL_CODE

MOST_GROUPS = 10
"""Of each variable, so many groups are told: those that lose most."""


@dataclass(frozen=True, eq=False, repr=False)
class Losses:
    """A pattern on the tables of a programme. ``hidden`` has a flag for every distinct cell."""

    programme: SuppressionProgramme
    problem: PatternProblem
    suppressed: Flags

    def of(self, cells: Integers) -> dict[str, Any]:
        """How many of some distinct cells, and how much of all that they count, are hidden.

        ``empty`` cells are those whose figure is zero. They add nothing to a sum, and a published zero is easily had:
        shares that are to say what users lose are best taken over the others, as :func:`lost_share` does.
        """
        value, suppressed = self.problem.value[cells], self.suppressed[cells]
        primary = self.problem.levels.primary[cells]
        empty, total = value == 0, max(1, int(value.sum()))
        return {
            "cells": len(cells),
            "empty": int(empty.sum()),
            "hidden": int(suppressed.sum()),
            "primary": int(primary.sum()),
            "complementary": int((suppressed & ~primary).sum()),
            "hidden_share": float(suppressed.sum() / max(1, len(cells))),
            "primary_empty": int((primary & empty).sum()),
            "complementary_empty": int((suppressed & ~primary & empty).sum()),
            "value": int(value.sum()),
            "hidden_value": int(value[suppressed].sum()),
            "hidden_value_share": float(value[suppressed].sum() / total),
            "primary_value_share": float(value[primary].sum() / total),
            "complementary_value_share": float(value[suppressed & ~primary].sum() / total),
            "cost": float(self.problem.weight[cells][suppressed & ~primary].sum()),
        }

    def whole(self) -> dict[str, Any]:
        """Of all tables together."""
        return self.of(np.flatnonzero(self.programme.linked.listed))

    def by_table(self) -> Iterator[dict[str, Any]]:
        """Of each table with its margins."""
        for table, listed, _, numbers in self._tables:
            yield {"name": table.name, "title": table.title} | self.of(np.unique(numbers[listed]))

    def by_level(self) -> Iterator[dict[str, Any]]:
        """Of each geolevel, over all tables: nothing where no table has areas.

        A cell without an area speaks of all areas: it belongs to the level that has all in one unit, or where there is
        none to a line of its own, ``_T``.
        """
        area = next((variable for variable in self.programme.variables.values() if variable.areas), None)
        if area is None:
            return
        on_level: dict[str, list[Integers]] = {}
        for table, listed, places, numbers in self._tables:
            code = np.zeros(len(numbers), np.int64)
            # A table without areas speaks of all of them: as if it listed every level, at the total alone.
            names = {grouping.name for grouping in area.groupings}
            for axis, variable in enumerate(table.variables):
                if variable.areas:
                    code, names = places[:, axis], set(table.listed[axis])
            chosen = [grouping for grouping in area.groupings if grouping.name in names]
            for grouping in chosen:
                on_level.setdefault(grouping.name, []).append(numbers[listed & np.isin(code, grouping.codes)])
            if not any(ROOT in grouping.codes for grouping in chosen):
                on_level.setdefault(TOTAL_CODE, []).append(numbers[listed & (code == ROOT)])
        for name in (TOTAL_CODE, *(grouping.name for grouping in area.groupings)):
            cells = np.unique(np.concatenate(on_level.get(name, [np.zeros(0, np.int64)])))
            if len(cells):
                yield {"level": name} | self.of(cells)

    def by_crossing(self) -> Iterator[dict[str, Any]]:
        """By the number of variables that are crossed: 0 for the total of everything, and so on. Areas are one."""
        found: dict[int, list[Integers]] = {}
        for _, listed, places, numbers in self._tables:
            crossed = (places > ROOT).sum(axis=1)
            for number in np.unique(crossed[listed]).tolist():
                found.setdefault(number, []).append(numbers[listed & (crossed == number)])
        for number in sorted(found):
            yield {"crossed": number} | self.of(np.unique(np.concatenate(found[number])))

    def by_margin(self) -> Iterator[dict[str, Any]]:
        """By table and by which variables are crossed."""
        for table, listed, places, numbers in self._tables:
            inner = places > ROOT
            for pattern in sorted(np.unique(inner, axis=0).tolist(), key=lambda each: (sum(each), each[::-1])):
                at = (inner == np.array(pattern, np.bool_)).all(axis=1) & listed
                names = [variable.name for variable, used in zip(table.variables, pattern, strict=True) if used]
                margin = " × ".join(names) or "total"
                yield {"table": table.name, "margin": margin} | self.of(np.unique(numbers[at]))

    def by_group(self, most: int = MOST_GROUPS) -> Iterator[dict[str, Any]]:
        """For each variable, the groups, or areas, that lose the largest share of their cells, most first.

        ``size`` is the total of the group, where that is published; ``groups``, how many the variable has in all.
        """
        for variable in self.programme.variables.values():
            pairs, own = self._cells_of(variable)
            starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
            rows: list[dict[str, Any]] = []
            for part in np.split(pairs, starts[1:]) if len(pairs) else ():
                code = int(part[0, 0])
                total = own[code]
                size = None if self.suppressed[total] else int(self.problem.value[total])
                row = {"variable": variable.name, "group": variable.tree.codes[code], "areas": variable.areas}
                rows.append(row | {"groups": len(starts), "size": size} | self.of(part[:, 1]))
            rows.sort(key=lambda row: (-lost_share(row), -row["value"]))
            yield from (row for row in rows[:most] if row["hidden"])

    def _cells_of(self, variable: Variable) -> tuple[Integers, dict[int, int]]:
        """The code of a group and the number of a cell that speaks of it, once each and in order; and for every group
        the cell that is summed over everything else."""
        pairs = [np.zeros((0, 2), np.int64)]
        own: dict[int, int] = {}
        for table, listed, places, numbers in self._tables:
            for axis, each in enumerate(table.variables):
                if each.name != variable.name:
                    continue
                of_group = listed & (places[:, axis] > ROOT)
                pairs.append(np.column_stack([places[of_group, axis], numbers[of_group]]))
                alone = of_group & ((places > ROOT).sum(axis=1) == 1)
                own |= dict(zip(places[alone, axis].tolist(), numbers[alone].tolist(), strict=True))
        return np.unique(np.concatenate(pairs), axis=0), own

    @cached_property
    def _tables(self) -> list[tuple[HierarchicalTable, Flags, Integers, Integers]]:
        """Each table with its listed cells, the codes of its cells and their numbers."""
        linked = self.programme.linked
        return [
            (table, layout.listed_cells, layout.places, numbers)
            for table, layout, numbers in zip(self.programme.tables, linked.tables, linked.numbers, strict=True)
        ]


def lost_share(row: Mapping[str, Any]) -> float:
    """The share of cells that are not zero and are hidden, in a row of :class:`Losses`."""
    suppressed = row["hidden"] - row["primary_empty"] - row["complementary_empty"]
    return float(suppressed / max(1, row["cells"] - row["empty"]))
