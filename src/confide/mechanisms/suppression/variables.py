"""Variables with their hierarchies, and what tables have of them.

All tables of a release share one dimension for each variable. A table goes down as far as its own finest grouping;
groupings in between that it does not list are part of what can be worked out from it, and so of the structure. A
variable comes from recodes of an attribute or levels of the spine (:mod:`~confide.mechanisms.suppression.crossing`), or
from the codes of tables as given (:mod:`~confide.mechanisms.suppression.given.cell_rows`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from confide.mechanisms.suppression.structure import NOT_HERE, ROOT, Dimension, Flags, Integers
from confide.releases.tabular import TOTAL_CODE, CodedVariable


@dataclass(frozen=True, eq=False)
class VariableGrouping:
    """One grouping of a variable: its labels, and for each the number of its code."""

    name: str
    labels: tuple[str, ...]
    codes: Integers


@dataclass(frozen=True)
class PublishedCodes:
    """How the codes of a variable stand in tables of the second layout: each by a short code and a label, in the order
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
    """None: in the first layout, and for areas, which are known by level and code."""

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
        """The variable in a table of the second layout that lists some groupings. Its codes are those of all tables of
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
