"""Which linked tables need a joint table: their divisions as the vertices of a hypergraph, tables as its edges.

A table divides some codes of its variables into their parts. What only one table divides, and a table whose divisions
another one has too, add nothing to what follows from sums; where no more can be left out so, tables meet in a circle.
What is left falls into groups that no table separates. Proved in ``docs/proofs/suppression.md``, section 2.
Reference: Graham, "On the universal relation", University of Toronto (1979); Yu and Ozsoyoglu, "An algorithm for
tree-query membership of a distributed query", COMPSAC (1979).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from confide.mechanisms.suppression.structure import Dimension, TableDimensions

Division = tuple[str, str]
"""A variable and a code of it that is divided into its parts."""

TOTAL = "\0"
"""The total among divisions, which tables may call by different names."""


@dataclass(frozen=True)
class TableMargin:
    """A margin of a table: the divisions of it that matter."""

    table: int
    divisions: frozenset[Division]


def joint_groups(
    tables: Sequence[TableDimensions], most: int, together: int
) -> tuple[list[list[TableMargin]], tuple[tuple[str, ...], ...]]:
    """Margins that need a joint table, group by group, and the names of tables for which the whole is too large."""
    trees = whole_trees(tables)
    crossing = {name for name, tree in trees.items() if tree is None}
    beyond: list[tuple[str, ...]] = []
    every = [
        TableMargin(at, frozenset(division for d in table.dimensions for division in _divisions(d)))
        for at, table in enumerate(tables)
    ]
    usable = [m for m in every if not any(d.name in crossing for d in tables[m.table].dimensions)]
    if len(usable) < len(every) and _primes(every):
        beyond.append(tuple(table.name for table in tables))
    taken: list[list[TableMargin]] = []
    used = 0
    for group in sorted(_primes(usable), key=lambda group: _size(trees, group)[0]):
        parts = [group]
        if not _fits(trees, group, most - used, together):
            beyond.append(tuple(tables[at].name for at in sorted({margin.table for margin in group})))
            parts = list(_smaller(trees, group, most - used, together))
        for part in parts:
            known = any(set(part) <= set(other) for other in taken)
            if not known and _fits(trees, part, most - used, together):
                taken.append(part)
                used += _size(trees, part)[0]
    return taken, tuple(beyond)


def _divisions(dimension: Dimension) -> Iterator[Division]:
    """What a dimension divides; what further hierarchies of it divide, by their names."""
    first = set(dimension.inner)
    for way, code, parts in dimension.divisions:
        plain = code in first and parts == dimension.children[code]
        yield dimension.name, named(dimension, code) if plain else f"{way}{TOTAL}{named(dimension, code)}"


def _smaller(
    trees: dict[str, Dimension | None], group: list[TableMargin], most: int, together: int
) -> Iterator[list[TableMargin]]:
    """Joint tables that say less than that of a whole group, and are true all the same: those of three of its tables,
    and those of all with variables that are less divided."""
    triples = [part for three in combinations(group, 3) for part in _primes(three)] if len(group) > 3 else []
    for part in sorted(triples, key=lambda part: _size(trees, part)[0]):
        if _fits(trees, part, most, together):
            yield part
    coarse = list(group)
    while coarse and not _fits(trees, coarse, most, together):
        coarse = _coarser(trees, coarse)
    for part in _primes(coarse):
        if _fits(trees, part, most, together):
            yield part


def _coarser(trees: dict[str, Dimension | None], group: list[TableMargin]) -> list[TableMargin]:
    """The margins with the finest divisions of one variable left out: of the one with most codes that has levels."""
    divisions = frozenset().union(*(margin.divisions for margin in group))
    depths = {each: _depth(tree_of(trees, each[0]), each[1]) for each in divisions}
    deepest = {name: max(depth for (of, _), depth in depths.items() if of == name) for name, _ in divisions}
    counts = {dimension.name: dimension.size for dimension in divided_dimensions(trees, divisions)}
    levelled = [name for name, depth in deepest.items() if depth > 0]
    if not levelled:
        return []
    chosen = max(levelled, key=lambda name: (counts[name], name))
    gone = {each for each, depth in depths.items() if each[0] == chosen and depth == deepest[chosen]}
    return [TableMargin(margin.table, margin.divisions - gone) for margin in group]


def _primes(margins: Iterable[TableMargin]) -> list[list[TableMargin]]:
    """The groups of margins that no margin of theirs takes apart; none where tables do not meet in a circle."""
    reduced = _reduced(list(margins))
    if len(reduced) < 3:
        return []
    for separator in [frozenset[Division](), *(margin.divisions for margin in reduced)]:
        parts = _components(reduced, separator)
        if len(parts) > 1:
            own = next((margin for margin in reduced if margin.divisions == separator), None)
            groups = []
            for part in parts:
                shared = frozenset().union(*(margin.divisions for margin in part)) & separator
                with_own = part if own is None else [*part, TableMargin(own.table, shared)]
                groups += _primes(with_own)
            return groups
    return [reduced]


def _reduced(margins: list[TableMargin]) -> list[TableMargin]:
    """Without what only one margin divides, and without margins that another one has, again and again."""
    while True:
        number: dict[Division, int] = {}
        for margin in margins:
            for division in margin.divisions:
                number[division] = number.get(division, 0) + 1
        shared = frozenset(division for division, times in number.items() if times > 1)
        cut = [TableMargin(margin.table, margin.divisions & shared) for margin in margins]
        kept: list[TableMargin] = []
        for margin in sorted(cut, key=lambda margin: -len(margin.divisions)):
            if not any(margin.divisions <= other.divisions for other in kept):
                kept.append(margin)
        kept.sort(key=lambda margin: margin.table)
        if [margin.divisions for margin in kept] == [margin.divisions for margin in margins]:
            return kept
        margins = kept


def _components(margins: list[TableMargin], separator: frozenset[Division]) -> list[list[TableMargin]]:
    """The margins that reach each part of what is left without the separator."""
    parts: list[tuple[set[Division], list[TableMargin]]] = []
    for margin in margins:
        outside = set(margin.divisions - separator)
        if not outside:
            continue
        touching = [part for part in parts if part[0] & outside]
        for part in touching:
            outside |= part[0]
        joined = [each for part in touching for each in part[1]] + [margin]
        parts = [part for part in parts if not part[0] & outside] + [(outside, joined)]
    return [sorted(joined, key=lambda margin: margin.table) for _, joined in parts]


def _fits(trees: dict[str, Dimension | None], group: list[TableMargin], most: int, together: int) -> bool:
    cells, hanging = _size(trees, group)
    return cells <= most and hanging <= together


def _size(trees: dict[str, Dimension | None], group: list[TableMargin]) -> tuple[int, int]:
    """The cells of a group's joint table, and how many of them hang together: those that agree in all variables that
    every margin of the group divides alike."""
    divisions = frozenset().union(*(margin.divisions for margin in group))
    cells = hanging = 1
    for dimension in divided_dimensions(trees, divisions):
        leaves = sum(not parts for parts in dimension.children)
        cells *= leaves
        of_variable = frozenset(each for each in divisions if each[0] == dimension.name)
        if not all(of_variable <= margin.divisions for margin in group):
            hanging *= leaves
    return cells, hanging


# Trees of variables over all tables, as far as some divisions go.


def whole_trees(tables: Sequence[TableDimensions]) -> dict[str, Dimension | None]:
    """For each variable the tree of all tables together; None where tables divide a code into different parts."""
    parts: dict[str, dict[str, tuple[str, ...]]] = {}
    crossing: set[str] = set()
    for table in tables:
        for dimension in table.dimensions:
            known = parts.setdefault(dimension.name, {})
            if dimension.others:
                crossing.add(dimension.name)
            for at in dimension.inner:
                own = tuple(dimension.codes[part] for part in dimension.children[at])
                if sorted(known.setdefault(named(dimension, at), own)) != sorted(own):
                    crossing.add(dimension.name)
    totals = {d.name: d.codes[0] for table in reversed(tables) for d in table.dimensions}
    return {
        name: None if name in crossing else _from_parts(name, totals[name], divided) for name, divided in parts.items()
    }


def _from_parts(name: str, total: str, parts: dict[str, tuple[str, ...]]) -> Dimension:
    codes, parent, at = [total], [-1], 0
    while at < len(codes):
        for code in parts.get(codes[at] if at else TOTAL, ()):
            codes.append(code)
            parent.append(at)
        at += 1
    return Dimension(name, tuple(codes), tuple(parent))


def tree_of(trees: dict[str, Dimension | None], name: str) -> Dimension:
    tree = trees[name]
    assert tree is not None
    return tree


def divided_dimensions(trees: dict[str, Dimension | None], divisions: frozenset[Division]) -> tuple[Dimension, ...]:
    """The trees of the variables that are divided, as far as they are."""
    dimensions = []
    for name in trees:
        divided = {code for of, code in divisions if of == name}
        if not divided:
            continue
        tree = tree_of(trees, name)
        parts = {
            named(tree, at): tuple(tree.codes[part] for part in tree.children[at])
            for at in tree.inner
            if named(tree, at) in divided
        }
        dimensions.append(_from_parts(name, tree.codes[0], parts))
    return tuple(dimensions)


def named(dimension: Dimension, code: int) -> str:
    return dimension.codes[code] if code else TOTAL


def _depth(tree: Dimension, code: str) -> int:
    at, depth = 0 if code == TOTAL else tree.codes.index(code), 0
    while at:
        at, depth = tree.parent[at], depth + 1
    return depth
