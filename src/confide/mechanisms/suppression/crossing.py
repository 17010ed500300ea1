"""The variables of records: recodes of an attribute that nest or cross, and levels of the spine.

Groups of the same members are one code, in whatever grouping they are. Recodes that nest make one tree. Recodes that
cross (municipalities by county and by size) make several hierarchies of the same codes: every chain of recodes from
coarse to fine is one, down to the groups that all recodes of a table have in common (their *meet*). The meet need not
be listed; what two crossing recodes share is seen in it, so that whatever follows from both together follows in the
structure. Where recodes of different tables cross, these tables go down to their common meet, for the same reason
(``docs/proofs/suppression.md`` 1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from confide.arrays import Integers
from confide.errors import SpecError
from confide.geography import Geolevel
from confide.mechanisms.suppression.structure import NOT_HERE, ROOT, Dimension
from confide.mechanisms.suppression.variables import PublishedCodes, Variable, VariableGrouping
from confide.releases.tabular import AREA, TOTAL_CODE
from confide.schema import Recode, Schema

MEET = "*"
"""Between the names of the recodes that a meet is of: no name has it."""


def of_attribute(recodes: Sequence[Recode], tables: Sequence[Sequence[str]] = ()) -> Variable:
    """The variable of an attribute from the recodes that tables use.

    Args:
        recodes: The recodes, each once.
        tables: For each table the names of the recodes that it has; recodes of one table that cross need their meet.

    Returns:
        One tree where all recodes nest, several hierarchies where some cross.

    Raises:
        SpecError: A recode leaves codes out, or two call different groups the same.
    """
    ordered = sorted(recodes, key=lambda recode: recode.size)
    name = ordered[0].attribute.name
    for recode in ordered:
        if (recode.assignment < 0).any():
            raise SpecError("incomplete-recode/labels", found=recode.name, recode=recode.name)
    groupings: list[Grouping] = [(r.name, r.labels, r.assignment) for r in ordered]
    bottoms = _bottoms(groupings, tables)
    known = [each[0] for each in groupings]
    groupings += [each for each in bottoms if each[0] not in known]
    groupings.sort(key=lambda each: len(each[1]))
    variable = _variable(name, groupings, prefixed=False)
    return replace(variable, bottoms=tuple(each[0] for each in bottoms)) if variable.tree.others else variable


def published_codes(variable: Variable, recodes: Sequence[Recode]) -> PublishedCodes:
    """The codes and labels of the groups of an attribute in the second layout.

    A group that several recodes have takes those of the finest. Where groups of two recodes would have one code, which
    numbered groups have, the name of the recode goes before it, such as ``size-1``.

    Args:
        variable: The variable that :func:`of_attribute` made of the recodes.
        recodes: The recodes.
    """
    by_name = {recode.name: recode for recode in recodes}
    texts: dict[int, tuple[str, str, str]] = {}
    for grouping in variable.groupings:  # from coarse to fine
        if grouping.name in by_name:
            recode = by_name[grouping.name]
            short = grouping.name.partition(":")[2] or grouping.name
            for code, text, label in zip(grouping.codes.tolist(), recode.codes, recode.labels, strict=True):
                texts[code] = short, text, label
    texts.pop(ROOT, None)
    times = Counter(text for _, text, _ in texts.values())
    codes = {at: text if times[text] == 1 else f"{short}-{text}" for at, (short, text, _) in texts.items()}
    if len(set(codes.values())) < len(codes):
        codes = {at: f"{text}-{at}" for at, text in codes.items()}
    numbers = range(1, variable.tree.size)
    return PublishedCodes(
        recodes[0].attribute.title,
        (TOTAL_CODE, *(codes.get(at, "") for at in numbers)),
        (TOTAL_CODE, *(texts[at][2] if at in texts else "" for at in numbers)),
    )


def of_levels(levels: Sequence[Geolevel]) -> Variable:
    """The variable of geographic areas from levels of the spine, the root first."""
    return _variable(
        AREA, [(level.name, level.codes, level.unit_of_block) for level in levels], prefixed=True, areas=True
    )


def leaf_codes(variable: Variable, names: Sequence[str], schema: Schema) -> Integers:
    """For each level of an attribute the code, in the dimension of a table that lists some recodes, that it counts in.

    Args:
        variable: The variable of the attribute.
        names: The recodes that the table lists.
        schema: The schema of the records.

    Returns:
        One number for each level of the attribute.
    """
    finest = variable.finest(names)
    number = {old: new for new, old in enumerate(variable.kept(names).tolist())}
    groups = _stacked([schema.variable(name).assignment for name in finest.name.split(MEET)])
    return np.array([number[int(finest.codes[group])] for group in groups.tolist()], np.int64)


Grouping = tuple[str, Sequence[str], Integers]
"""A name, labels, and for every smallest code its group."""


def _variable(name: str, groupings: Sequence[Grouping], *, prefixed: bool, areas: bool = False) -> Variable:
    """The codes of groupings, coarse first, with a hierarchy for every chain of them that nests."""
    members: dict[tuple[int, ...], int] = {tuple(range(len(groupings[0][2]))): ROOT}
    codes, trees = [TOTAL_CODE], []
    for grouping, labels, group in groupings:
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(len(labels) + 1))
        of_group = np.empty(len(labels), np.int64)
        for at, label in enumerate(labels):
            who = tuple(order[starts[at] : starts[at + 1]].tolist())
            if who not in members:  # other members: another code
                members[who] = len(codes)
                codes.append(f"{grouping} {label}" if prefixed else label)
            of_group[at] = members[who]
        trees.append(VariableGrouping(grouping, tuple(labels), of_group))
    if len(set(codes)) < len(codes):
        twice = next(code for code, times in Counter(codes).items() if times > 1)
        raise SpecError("repeated-label/two", found=twice, name=name, twice=twice)
    chains = _chains([group for _, _, group in groupings])
    if len(chains) > 1:  # a group of one recode can lie in a group of another: what has more members comes first
        order_of_codes = sorted(members, key=lambda who: -len(who))
        number = np.empty(len(codes), np.int64)
        number[[members[who] for who in order_of_codes]] = np.arange(len(codes))
        codes = [codes[members[who]] for who in order_of_codes]
        trees = [VariableGrouping(each.name, each.labels, number[each.codes]) for each in trees]
    ways = [_parents([(trees[at], groupings[at][2]) for at in chain], len(codes)) for chain in chains]
    order_of_ways = sorted(range(len(ways)), key=lambda way: (-sum(above >= 0 for above in ways[way]), way))
    called = tuple(" > ".join(groupings[at][0] for at in chains[way]) for way in order_of_ways)
    first, *others = (ways[way] for way in order_of_ways)
    tree = Dimension(name, tuple(codes), first, tuple(others), called if others else ())
    return Variable(tree, tuple(trees), areas)


def _chains(groups: Sequence[Integers]) -> list[tuple[int, ...]]:
    """The chains of groupings, coarse to fine, that cannot be made longer."""
    size = len(groups)
    nests = [[_nests(coarse, fine) for fine in groups] for coarse in groups]
    finer = [
        [at != other and nests[at][other] and (at < other or not nests[other][at]) for other in range(size)]
        for at in range(size)
    ]
    next_finer = [
        [b for b in range(size) if finer[a][b] and not any(finer[a][c] and finer[c][b] for c in range(size))]
        for a in range(size)
    ]
    coarsest = [at for at in range(size) if not any(finer[other][at] for other in range(size))]
    chains: list[tuple[int, ...]] = []
    waiting: list[tuple[int, ...]] = [(at,) for at in reversed(coarsest)]
    while waiting:
        chain = waiting.pop()
        longer: list[tuple[int, ...]] = [(*chain, finer_one) for finer_one in reversed(next_finer[chain[-1]])]
        waiting += longer
        if not longer:
            chains.append(chain)
    return chains


def _parents(chain: Sequence[tuple[VariableGrouping, Integers]], size: int) -> tuple[int, ...]:
    """The parents of codes in one chain of groupings."""
    parent = [-1] + [NOT_HERE] * (size - 1)
    above = np.zeros(len(chain[0][1]), np.int64)
    for grouping, group in chain:
        of_member = grouping.codes[group]
        for code, over in zip(of_member.tolist(), above.tolist(), strict=True):
            if code != over and parent[code] == NOT_HERE:
                parent[code] = over
        above = of_member
    return tuple(parent)


def _bottoms(groupings: Sequence[Grouping], tables: Sequence[Sequence[str]]) -> list[Grouping]:
    """The groupings that tables go down to: for each the meet of its recodes. Where two of these cross, their meet is
    taken for both, until all nest. What tables have in common is then what the coarser of them has."""
    every = tables or [[name for name, _, _ in groupings]]
    bottoms = [_meet([each for each in groupings if each[0] in names], groupings) for names in every]
    while True:
        crossing = next(
            (
                (one, other)
                for at, one in enumerate(bottoms)
                for other in bottoms[:at]
                if not _nests(one[2], other[2]) and not _nests(other[2], one[2])
            ),
            None,
        )
        if crossing is None:
            return list({each[0]: each for each in bottoms}.values())
        meet = _meet(crossing, groupings)
        bottoms = [meet, *(each for each in bottoms if each[0] not in [other[0] for other in crossing])]


def _meet(crossed: Sequence[Grouping], groupings: Sequence[Grouping]) -> Grouping:
    """The coarsest grouping that is finer than some: one of those there are, or one of its own."""
    names = {name for each in crossed for name in each[0].split(MEET)}
    recodes = [each for each in groupings if each[0] in names]
    stacked = np.stack([group for _, _, group in recodes])
    known = next((each for each in groupings if _same(each[2], _stacked(list(stacked)))), None)
    if known is not None:
        return known
    _, first = np.unique(stacked, axis=1, return_index=True)
    labels = [" and ".join(labels[group[at]] for _, labels, group in recodes) for at in first.tolist()]
    return MEET.join(name for name, _, _ in recodes), labels, _stacked(list(stacked))


def _stacked(assignments: Sequence[Integers]) -> Integers:
    """For each smallest code the number of its combination of groups."""
    _, inverse = np.unique(np.stack(assignments), axis=1, return_inverse=True)
    combination: Integers = np.asarray(inverse, np.int64).reshape(-1)
    return combination if len(assignments) > 1 else np.asarray(assignments[0], np.int64)


def _same(one: Integers, other: Integers) -> bool:
    return _nests(one, other) and _nests(other, one)


def _nests(coarse: Integers, fine: Integers) -> bool:
    """Whether every group of the finer lies in one of the coarser."""
    of_fine = np.empty(int(fine.max()) + 1, np.int64)
    of_fine[fine] = coarse
    return bool((of_fine[fine] == coarse).all())
