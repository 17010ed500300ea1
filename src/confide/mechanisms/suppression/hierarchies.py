"""Variables with their hierarchies: recodes of an attribute that nest, and levels of the spine.

All tables of a release share one tree for each variable, from the coarsest grouping that any of them has to the finest.
A table goes down as far as its own finest grouping. Groupings in between that it does not list are part of what can be
worked out from it, and so of the structure. Groups of the same codes are one code, in whatever grouping they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from confide.errors import SpecError
from confide.geography import Geolevel
from confide.mechanisms.suppression.structure import ROOT, Dimension, Flags, Integers
from confide.releases.tabular import AREA, TOTAL_CODE
from confide.schema import Recode


@dataclass(frozen=True, eq=False)
class Grouping:
    """One grouping of a variable: its labels, and for each the number of its code in the tree."""

    name: str
    labels: tuple[str, ...]
    codes: Integers


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of a release: its tree, and its groupings from coarse to fine."""

    tree: Dimension
    groupings: tuple[Grouping, ...]
    areas: bool = False

    @property
    def name(self) -> str:
        return self.tree.name

    def grouping(self, name: str) -> Grouping:
        return next(each for each in self.groupings if each.name == name)

    def cut(self, finest: str) -> Dimension:
        """The tree down to one grouping. Codes are in the order of groupings, so these are the first ones."""
        names = [each.name for each in self.groupings]
        size = 1 + max(int(each.codes.max()) for each in self.groupings[: names.index(finest) + 1])
        return Dimension(self.name, self.tree.codes[:size], self.tree.parent[:size])

    def entries(self, listed: Sequence[str]) -> list[tuple[str, str, int]]:
        """The lines of a table along this variable: grouping, label, code. Areas of several levels have a line on each;
        groups that two recodes have in common have one."""
        chosen = [each for each in self.groupings if each.name in listed]
        found: list[tuple[str, str, int]] = []
        seen = set()
        if not (self.areas and any(ROOT in each.codes for each in chosen)):
            found.append((TOTAL_CODE, TOTAL_CODE, ROOT))
            seen.add(ROOT)
        for each in chosen:
            for label, code in zip(each.labels, each.codes.tolist(), strict=True):
                if self.areas or code not in seen:
                    found.append((each.name, label, code))
                seen.add(code)
        return found

    def listed(self, names: Sequence[str]) -> Flags:
        """The codes of a table that are listed when it lists some groupings."""
        chosen = [each for each in self.groupings if each.name in names]
        flags = np.zeros(self.cut(chosen[-1].name).size, np.bool_)
        flags[ROOT] = True
        for each in chosen:
            flags[each.codes] = True
        return flags

    def as_dict(self) -> dict[str, Any]:
        """For the plan."""
        return {
            "codes": list(self.tree.codes),
            "parent": list(self.tree.parent),
            "areas": self.areas,
            "groupings": {
                each.name: {"labels": list(each.labels), "codes": each.codes.tolist()} for each in self.groupings
            },
        }


def read_variable(name: str, plain: Mapping[str, Any]) -> Variable:
    """The variable of a plan."""
    groupings = tuple(
        Grouping(each, tuple(values["labels"]), np.array(values["codes"], np.int64))
        for each, values in plain["groupings"].items()
    )
    return Variable(Dimension(name, tuple(plain["codes"]), tuple(plain["parent"])), groupings, plain["areas"])


def of_attribute(recodes: Sequence[Recode]) -> Variable:
    """The variable of an attribute from the recodes that tables use. Raises where they leave codes out, do not nest, or
    call different groups the same."""
    ordered = sorted(recodes, key=lambda recode: recode.size)
    name = ordered[0].attribute.name
    for recode in ordered:
        if (recode.assignment < 0).any():
            raise _wrong("incomplete-recode", f"the recode {recode.name!r} leaves levels out", recode.name)
    for coarse, fine in pairwise(ordered):
        if not _nests(coarse.assignment, fine.assignment):
            what = f"the recodes {coarse.name!r} and {fine.name!r} do not nest: what follows from both cannot be seen"
            raise _wrong("not-nested", what, f"{coarse.name}, {fine.name}")
    return _variable(name, [(r.name, r.labels, r.assignment) for r in ordered], prefixed=False)


def of_levels(levels: Sequence[Geolevel]) -> Variable:
    """The variable of geographic areas from levels of the spine, the root first."""
    return _variable(
        AREA, [(level.name, level.codes, level.unit_of_block) for level in levels], prefixed=True, areas=True
    )


def _variable(
    name: str, groupings: Sequence[tuple[str, Sequence[str], Integers]], *, prefixed: bool, areas: bool = False
) -> Variable:
    """The tree of groupings that nest, coarse first; each says for every smallest code its group."""
    codes, parent = [TOTAL_CODE], [-1]
    above = np.zeros(len(groupings[0][2]), np.int64)
    made = []
    for grouping, labels, group in groupings:
        of_group = np.empty(len(labels), np.int64)
        number = np.bincount(group, minlength=len(labels))
        of_above = np.bincount(above, minlength=len(codes))
        some = np.zeros(len(labels), np.int64)
        some[group] = above
        for at, label in enumerate(labels):
            if number[at] == of_above[some[at]]:
                of_group[at] = some[at]  # the same members: the same code
                continue
            of_group[at] = len(codes)
            codes.append(f"{grouping} {label}" if prefixed else label)
            parent.append(int(some[at]))
        made.append(Grouping(grouping, tuple(labels), of_group))
        above = of_group[group]
    if len(set(codes)) < len(codes):
        twice = next(code for code, times in Counter(codes).items() if times > 1)
        raise _wrong("repeated-label", f"two groups of {name!r} have the label {twice!r}", twice)
    return Variable(Dimension(name, tuple(codes), tuple(parent)), tuple(made), areas)


def _nests(coarse: Integers, fine: Integers) -> bool:
    """Whether every group of the finer lies in one of the coarser."""
    of_fine = np.empty(int(fine.max()) + 1, np.int64)
    of_fine[fine] = coarse
    return bool((of_fine[fine] == coarse).all())


def _wrong(code: str, what: str, found: str) -> SpecError:
    expected = "recodes that put every level into a group, nest, and have labels of their own"
    return SpecError(code, what, found=found, expected=expected, remedy="change the schema file or the tables")
