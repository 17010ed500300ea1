"""The spine of a top-down release: units, children, shares, and the way back to official geography.

Blocks with at least one housing unit or group quarters facility are on the spine; the others are empty by public
knowledge, and everything tabulated for them is zero. The levels are, from the root down, official levels of the frame
and, where asked for, two that are made: optimised block groups and tract groups
(:mod:`confide.mechanisms.topdown.spine.optimised`).
Where the blocks have an AIAN flag (:mod:`confide.mechanisms.topdown.spine.off_spine`) every unit below the root
holds blocks of one flag:
with the nation as root, the State-level units are (flag, State); with a State as root, the whole State is the root and
the county-level units are (flag, county). The root is never split, since its totals are what is known and fixed.

The units of a level are in the order of their ids, so that the children of a unit, and its blocks, are slices. The
shares of the budget follow from one share for each level by the one-child bypass
(:mod:`confide.mechanisms.topdown.spine.tree`).

Without flags and without made levels this is a plain spine, for any country and any levels.

Reference: Abowd and others, *The 2020 Census Disclosure Avoidance System TopDown Algorithm*, Harvard Data Science
Review, 2022; Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
arXiv:2203.16654.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from confide.errors import Finding, InputError, ParameterError
from confide.exact import Exact, exact
from confide.geography.spine import Geolevel, Spine
from confide.mechanisms.topdown.spine.off_spine import OffSpineEntities
from confide.mechanisms.topdown.spine.optimised import ENTITY_THRESHOLD, FANOUT, block_groups, tract_groups
from confide.mechanisms.topdown.spine.tree import TopDownLevel, TopDownSpine, bypass_only_children, check_path_sums


@dataclass(frozen=True)
class Optimisation:
    """Which levels are made rather than taken from the frame, and around which entities (of all blocks of the frame).

    ``block_groups`` names the level above the blocks, ``tract_groups`` the level two above that, if there is one.
    """

    entities: OffSpineEntities
    block_groups: str = "block_group"
    tract_groups: str | None = None
    fanout: int = FANOUT
    entity_threshold: int = ENTITY_THRESHOLD


def build_topdown_spine(
    frame: Spine,
    shares: Mapping[str, Exact],
    *,
    with_units: NDArray[np.bool_] | None = None,
    split: NDArray[np.bool_] | None = None,
    optimise: Optimisation | None = None,
) -> TopDownSpine:
    """The spine with the levels that ``shares`` names, root first and blocks last, each with its share of the budget.

    ``with_units`` (all, if not given), ``split`` and the entities of ``optimise`` are in the order of the frame's rows.
    The result does not depend on that order, except for ``rows``. Shares sum to exactly one, and so does every path.
    """
    exact_shares = _checked(frame, shares, optimise)
    blocks = len(frame.blocks.unit_of_block)
    entities = None if optimise is None else optimise.entities.string_of_block
    for name, values in (("with_units", with_units), ("split", split), ("optimise.entities", entities)):
        if values is not None and values.shape != (blocks,):
            raise ParameterError(
                _finding("bad-length", f"{name} does not fit the frame", str(values.shape), f"({blocks},)")
            )
    rows = np.arange(blocks) if with_units is None else np.flatnonzero(with_units)
    if not len(rows):
        raise InputError(
            "no-units",
            "no block has a housing unit or a group quarters facility",
            found=f"{blocks:,} blocks without any",
            expected="at least one block with units",
            remedy="check the columns of housing units and group quarters of the block table",
        )
    partitions = _nested(frame, list(shares), rows, split, optimise)
    order = np.argsort(partitions[-1], kind="stable")
    rows = rows[order]
    first_blocks = [np.searchsorted(units[order], np.arange(units.max() + 2)) for units in partitions]
    parents = [above[order][first[:-1]] for above, first in zip(partitions, first_blocks[1:], strict=False)]
    unit_shares = bypass_only_children(exact_shares, parents)
    check_path_sums(unit_shares, parents)
    levels = []
    for position, name in enumerate(shares):
        first = first_blocks[position]
        last = position == len(parents)
        levels.append(
            TopDownLevel(
                name,
                parent=parents[position - 1] if position else np.empty(0, np.int64),
                first_child=np.zeros(len(first), np.int64)
                if last
                else np.searchsorted(parents[position], np.arange(len(first))),
                first_block=first,
                shares=unit_shares[position],
                official=None if name in _made(optimise) else frame.level(name).unit_of_block[rows[first[:-1]]],
            )
        )
    return TopDownSpine(tuple(levels), frame, rows, None if split is None else split[rows])


def _nested(
    frame: Spine,
    names: list[str],
    rows: NDArray[np.int64],
    split: NDArray[np.bool_] | None,
    optimise: Optimisation | None,
) -> list[NDArray[np.int64]]:
    """For every level the unit of each row, numbered by parent and then by code: the order of the ids."""

    def taken(above: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        return _refined(above, frame.level(name).unit_of_block[rows])

    def made_block_groups(tract: NDArray[np.int64]) -> NDArray[np.int64]:
        assert optimise is not None
        string = optimise.entities.string_of_block[rows]
        number = block_groups(tract, string, frame.blocks.unit_of_block[rows], optimise.fanout)
        return _refined(tract, number)

    result = [np.zeros(len(rows), np.int64)]
    for position, name in enumerate(names[1:], start=1):
        # Next to the root, two units above: without and with the flag. All that lies below is nested in them.
        above = split[rows].astype(np.int64) if split is not None and position == 1 else result[-1]
        if optimise is not None and name == optimise.block_groups:
            result.append(made_block_groups(above))
        elif optimise is not None and name == optimise.tract_groups:
            tract = taken(above, names[position + 1])
            kinds = tuple(Geolevel(k.name, k.codes, k.unit_of_block[rows], k.on_spine) for k in optimise.entities.kinds)
            entities = OffSpineEntities(optimise.entities.strings, optimise.entities.string_of_block[rows], kinds)
            number = tract_groups(
                above,
                tract,
                made_block_groups(tract),
                entities,
                fanout=optimise.fanout,
                threshold=optimise.entity_threshold,
            )
            result.append(_refined(above, number))
        else:
            result.append(taken(above, name))
    return result


def _refined(above: NDArray[np.int64], code: NDArray[np.int64]) -> NDArray[np.int64]:
    """The units of pairs (unit above, code), numbered in order."""
    return np.unique(above * (code.max() + 1) + code, return_inverse=True)[1].astype(np.int64)


def _made(optimise: Optimisation | None) -> tuple[str, ...]:
    """The names of the levels that are not the frame's."""
    if optimise is None:
        return ()
    return (optimise.block_groups,) if optimise.tract_groups is None else (optimise.tract_groups, optimise.block_groups)


def _checked(frame: Spine, shares: Mapping[str, Exact], optimise: Optimisation | None) -> list[Fraction]:
    """The shares as exact numbers; raises with every problem of levels and shares."""
    names = list(shares)
    made = _made(optimise)
    findings = []
    official = [level.name for level in frame.levels]
    taken = [name for name in names if name not in made]
    if [name for name in official if name in taken] != taken or not names or names[-1] != official[-1]:
        expected = f"levels of the frame in their order ({', '.join(official)}), the blocks last"
        findings.append(_finding("bad-levels", "the levels are not those of the frame", ", ".join(names), expected))
    elif names[0] in made or frame.level(names[0]).units != 1:
        found = f"{names[0]!r}" + ("" if names[0] in made else f" with {frame.level(names[0]).units:,} units")
        findings.append(_finding("no-root", "the first level is not a root", found, "a level of one unit"))
    if optimise is not None:
        places = [names[-2:-1] == [optimise.block_groups]]
        if optimise.tract_groups is not None:
            places.append(names[-4:-3] == [optimise.tract_groups])
        if not all(places):
            expected = "block groups next to the blocks, and tract groups, if any, two levels above them"
            findings.append(_finding("bad-levels", "a made level is out of place", ", ".join(names), expected))
    values = [exact(share, f"the share of {name}") for name, share in shares.items()]
    if any(value < 0 for value in values) or sum(values) != 1:
        found = " + ".join(map(str, values)) + f" = {sum(values)}"
        findings.append(
            _finding("bad-shares", "the shares of the levels are wrong", found, "not negative, sum exactly 1")
        )
    if findings:
        raise ParameterError(findings)
    return values


def _finding(code: str, what: str, found: str, expected: str) -> Finding:
    return Finding(code=code, what=what, found=found, expected=expected, remedy="correct the levels and their shares")
