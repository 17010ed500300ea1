"""What every estimate keeps: invariants, bounds and structural zeros, in a language of three words.

* an :class:`Invariant` is published without noise: the answer to a query on the records, or counts of the frame, or
  both, when the frame already tells the answer;
* a :class:`FrameBound` ties the count of a group to a count of the frame: at least, or at most, so many records per
  unit;
* a :class:`StructuralZero` is a combination of levels that no record can have.

All hold in every block and, added up, in every unit above; an invariant holds from its own level upwards. Bounds and
zeros are public knowledge: neither looks at the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.arrays import Integers
from confide.errors import Finding, Place
from confide.schema import TOTAL, Code, Recode, Schema

if TYPE_CHECKING:
    from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
    from confide.mechanisms.topdown.strategy import Strategy

NO_LIMIT = np.iinfo(np.int64).max
"""The upper limit of a group that has none."""


LARGEST_LIMIT = 10**15
"""What limits may add up to: solvers count in floating point, which is exact below nine times as much."""


class Side(StrEnum):
    """Which way a bound binds."""

    LOWER = "lower"
    UPPER = "upper"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A figure published without noise on ``level`` and, added up, on every level above.

    The units are those of the official level: where the spine splits one, its parts add up to the figure. ``query``
    without ``frame``: the true answer. ``frame`` without ``query``: columns of the block table, published as they are.
    Both: the answer is these columns, one for each cell of the query.
    """

    name: str
    level: str
    query: str | None = None
    frame: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "level": self.level, "query": self.query, "frame": list(self.frame)}


@dataclass(frozen=True)
class FrameBound:
    """For the groups of a variable: a count of at least, or at most, ``per_unit`` times a column of the block table."""

    name: str
    variable: Recode
    side: Side
    per_unit: int
    frame: Mapping[int, str]
    """From the index of a group to the column; a group that is not here is not bound."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "variable": self.variable.name,
            "side": self.side.value,
            "per_unit": self.per_unit,
            "frame": {str(index): column for index, column in sorted(self.frame.items())},
        }


@dataclass(frozen=True)
class StructuralZero:
    """The cells of the histogram with one of these codes in each of these attributes are zero."""

    name: str
    where: Mapping[str, tuple[Code, ...]]

    def cells(self, schema: Schema) -> NDArray[np.bool_]:
        """Which cells of the histogram these are, in C order."""
        mask = np.ones(tuple(attribute.size for attribute in schema.attributes), bool)
        for axis, attribute in enumerate(schema.attributes):
            if attribute.name in self.where:
                chosen = np.zeros(attribute.size, bool)
                chosen[[attribute.index[code] for code in self.where[attribute.name]]] = True
                mask &= chosen.reshape([-1 if other == axis else 1 for other in range(mask.ndim)])
        return mask.ravel()

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "where": {name: list(codes) for name, codes in self.where.items()}}


@dataclass(frozen=True)
class Constraints:
    """All constraints of a strategy."""

    invariants: tuple[Invariant, ...] = ()
    bounds: tuple[FrameBound, ...] = ()
    zeros: tuple[StructuralZero, ...] = ()

    @property
    def frame_columns(self) -> tuple[str, ...]:
        """The columns that the block table must have, each once."""
        of_invariants = (column for invariant in self.invariants for column in invariant.frame)
        of_bounds = (column for bound in self.bounds for column in bound.frame.values())
        return tuple(dict.fromkeys((*of_invariants, *of_bounds)))

    @property
    def limited(self) -> tuple[str, ...]:
        """The queries whose counts the frame limits, each once: bounded variables, and invariants that it tells."""
        of_invariants = (
            invariant.query for invariant in self.invariants if invariant.query is not None and invariant.frame
        )
        return tuple(dict.fromkeys((*(bound.variable.name for bound in self.bounds), *of_invariants)))

    def limits(
        self, query: str, groups: int, frame: Mapping[str, NDArray[np.int64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The least and the largest count of each group of a limited query in each unit (units x groups), from the
        columns of the frame for these units. Units are blocks: above them, add up the limits, not the columns.
        """
        units = len(next(iter(frame.values())))
        least = np.zeros((units, groups), np.int64)
        largest = np.full((units, groups), NO_LIMIT, np.int64)
        for side, group, limit in self._sides(query, frame):
            if side is not Side.UPPER:
                least[:, group] = np.maximum(least[:, group], limit)
            if side is not Side.LOWER:
                largest[:, group] = np.minimum(largest[:, group], limit)
        return least, largest

    def _sides(
        self, query: str, frame: Mapping[str, NDArray[np.int64]]
    ) -> Iterator[tuple[Side | None, int, NDArray[np.int64]]]:
        """What limits the groups of a query: a side (both for an invariant), the group, and the limit in each unit."""
        for bound in self.bounds:
            if bound.variable.name == query:
                for group, column in bound.frame.items():
                    yield bound.side, group, bound.per_unit * frame[column].astype(np.int64)
        for invariant in self.invariants:
            if invariant.query == query and invariant.frame:
                for group, column in enumerate(invariant.frame):
                    yield None, group, frame[column].astype(np.int64)

    def named(self, query: str) -> str:
        """The constraints that limit a query, by name, for messages."""
        names = [bound.name for bound in self.bounds if bound.variable.name == query]
        names += [invariant.name for invariant in self.invariants if invariant.query == query and invariant.frame]
        return ", ".join(repr(name) for name in names)

    def zero_cells(self, schema: Schema) -> NDArray[np.bool_]:
        """Which cells of the histogram, in C order, are zero whatever the records say."""
        mask = np.zeros(int(np.prod([attribute.size for attribute in schema.attributes])), bool)
        for zero in self.zeros:
            mask |= zero.cells(schema)
        return mask

    def clashes(self, schema: Schema) -> Iterator[Finding]:
        """Constraints that no table can keep together in a unit where the frame counts something."""
        zero = self.zero_cells(schema).reshape(tuple(attribute.size for attribute in schema.attributes))
        lower = [bound for bound in self.bounds if bound.side is Side.LOWER]
        upper = [bound for bound in self.bounds if bound.side is Side.UPPER]
        for least in lower:
            axis = [attribute.name for attribute in schema.attributes].index(least.variable.attribute.name)
            empty = np.asarray(np.moveaxis(zero, axis, 0).reshape(zero.shape[axis], -1).all(axis=1))
            for group, column in least.frame.items():
                label = least.variable.labels[group]
                if empty[least.variable.assignment == group].all():
                    names = ", ".join(repr(z.name) for z in self.zeros if least.variable.attribute.name in z.where)
                    yield Finding.of("constraints-clash/records", least=least.name, label=label, names=names)
                for most in upper:
                    same = most.variable.name == least.variable.name and most.frame.get(group) == column
                    if same and most.per_unit < least.per_unit:
                        yield Finding.of(
                            "constraints-clash/least",
                            least=least.name,
                            most=most.name,
                            label=label,
                            per_unit=least.per_unit,
                            most_per_unit=most.per_unit,
                            column=column,
                        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "invariants": [invariant.as_dict() for invariant in self.invariants],
            "bounds": [bound.as_dict() for bound in self.bounds],
            "zeros": [zero.as_dict() for zero in self.zeros],
        }

    @classmethod
    def read(cls, values: Mapping[str, Any], schema: Schema) -> Constraints:
        """The same from a plan."""
        return cls(
            tuple(Invariant(i["name"], i["level"], i["query"], tuple(i["frame"])) for i in values["invariants"]),
            tuple(
                FrameBound(
                    bound["name"],
                    schema.variable(bound["variable"]),
                    Side(bound["side"]),
                    bound["per_unit"],
                    {int(group): column for group, column in bound["frame"].items()},
                )
                for bound in values["bounds"]
            ),
            tuple(
                StructuralZero(zero["name"], {name: tuple(codes) for name, codes in zero["where"].items()})
                for zero in values["zeros"]
            ),
        )


def check_sizes(constraints: Constraints, columns: Mapping[str, NDArray[np.int64]], file: str) -> list[Finding]:
    """Counts of the frame whose limits, added up, are too large to be added up exactly in every estimate.

    Args:
        constraints: What the counts limit.
        columns: The counts of all blocks.
        file: The block table, for messages.
    """
    units = {column: bound.per_unit for bound in constraints.bounds for column in bound.frame.values()}
    for bound in constraints.bounds:
        units |= {column: max(units[column], bound.per_unit) for column in bound.frame.values()}
    sums = {column: units.get(column, 1) * sum(values.tolist()) for column, values in columns.items()}
    return [
        Finding.of(
            "bad-count/counts",
            where=Place(file=file, column=column),
            column=column,
            limit=limit,
            largest_limit=LARGEST_LIMIT,
        )
        for column, limit in sums.items()
        if limit > LARGEST_LIMIT
    ]


# Numbers of records that are published as they are, on the spine: which units they fix, alone or together.
#
# An invariant is about official units, and the spine may split these. On the level of the invariant, the parts of an
# official unit have a known sum; they must be children of one parent, or no single estimate could keep it. On a level
# above, each unit is made of whole official ones, and its total is known.


def invariant_level(strategy: Strategy) -> str | None:
    """The lowest level on which the number of records is an invariant taken from the records, if there is one."""
    levels = {i.level for i in strategy.constraints.invariants if i.query == TOTAL and not i.frame}
    return max(levels, key=strategy.level_names.index, default=None)


def known_levels(strategy: Strategy, spine: TopDownSpine) -> tuple[int, Integers | None]:
    """On how many levels, from the root down, the numbers of records are published as they are; and for each unit of
    the last of them the number of its group, where parts of official units are known together only."""
    if any(i.query == TOTAL and i.frame for i in strategy.constraints.invariants):
        return len(spine.levels), None
    lowest = invariant_level(strategy)
    last = 0 if lowest is None else spine.names.index(lowest) + 1
    official = spine.levels[last - 1].official if last > 1 else None
    if official is None or len(np.unique(official)) == len(official):
        return last, None
    return last, np.unique(official, return_inverse=True)[1].reshape(-1).astype(np.int64)


def told_totals(strategy: Strategy, columns: Mapping[str, Integers]) -> Integers | None:
    """The number of records of each block, where the frame tells it."""
    columns_of_totals = [i.frame[0] for i in strategy.constraints.invariants if i.query == TOTAL and i.frame]
    return columns[columns_of_totals[0]] if columns_of_totals else None


def known_together(strategy: Strategy, level: TopDownLevel) -> Integers | None:
    """For each unit of a level the number of the group of units whose total is known; None below the invariant."""
    lowest, names = invariant_level(strategy), strategy.level_names
    if lowest is None or names.index(level.name) > names.index(lowest):
        return None
    if level.name != lowest:
        return np.arange(level.units)
    assert level.official is not None, "checked before the run"
    return level.official.astype(np.int64)


def known_totals(together: Integers, unit: Integers, count: Integers) -> pa.Table:
    """For each unit its group and the records of that group, from the true counts by unit: no secret."""
    totals = np.zeros(int(together.max()) + 1, np.int64)
    np.add.at(totals, together[unit], count)
    return pa.table({"unit": np.arange(len(together)), "cell": together, "n": totals[together]})


def narrowed(least: Integers, largest: Integers, totals: Integers) -> tuple[Integers, Integers]:
    """Limits that can be added up beside known totals: whatever keeps their sums can be shared out to the units.

    A unit whose groups j have the limits l(j) <= m(j) <= u(j) and the total T can have m(J) <= min(u(J), T - l(J^c))
    records in the groups J, and sums of units can have the sums of these (g-polymatroids: Frank & Tardos 1988). Limits
    of single groups say as much as limits of all J if

    * there are at most three groups that are not fixed: J or its complement is then a single one. The limits are those
      that follow, l'(j) = max(l(j), T - u(others)) and u'(j) = min(u(j), T - l(others));
    * or the same side of the minimum is the smaller in every unit, for every J. So it is if one group f takes what the
      others leave, whatever that is: l(f) + u(others) <= T <= u(f) + l(others). Where the others could have more, they
      are given parts of the room in proportion; a unit in which f cannot take what is left gets fixed counts.

    Proof: ``docs/proofs/topdown.md``, section 5.

    Args:
        least: Units x groups.
        largest: The same; ``NO_LIMIT`` where there is none.
        totals: The number of records of each unit, between the sums of its limits.

    Returns:
        The least and the largest counts, within those given.

    >>> narrowed(np.array([[0, 0], [0, 0]]), np.array([[9, 0], [9, 4]]), np.array([5, 6]))
    (array([[5, 0],
           [2, 0]]), array([[5, 0],
           [6, 4]]))
    """
    largest = np.minimum(largest, totals[:, None])
    low = np.maximum(least, totals[:, None] - (largest.sum(axis=1, keepdims=True) - largest))
    high = np.minimum(largest, totals[:, None] - (least.sum(axis=1, keepdims=True) - least))
    if np.count_nonzero((low < high).any(axis=0)) <= 3:
        return low, high
    free = int((high - low).sum(axis=0).argmax())
    others = np.delete(np.arange(low.shape[1]), free)
    slack = (high - low)[:, others]
    room = totals - low.sum(axis=1)
    tight = high.copy()
    tight[:, others] = low[:, others] + _parts(slack, room)
    # Where the free group cannot have all that the others might leave: it has its largest count, the others the rest.
    for unit in np.flatnonzero(high[:, free] + low[:, others].sum(axis=1) < totals).tolist():
        counts = low[unit].copy()
        counts[free] = high[unit, free]
        remaining = totals[unit : unit + 1] - counts.sum()
        counts[others] += _parts(slack[unit : unit + 1], remaining)[0]
        for group in others:  # what rounding down has left over
            counts[group] += min(totals[unit] - counts.sum(), high[unit, group] - counts[group])
        low[unit] = tight[unit] = counts
    return low, tight


def _parts(slack: Integers, room: Integers) -> Integers:
    """What each group gets of the room of its unit: its slack, or in proportion to it, rounded down."""
    wanted = np.maximum(slack.sum(axis=1), 1)
    # Whole numbers of any size: both factors may be large.
    parts = slack.astype(object) * np.minimum(room, wanted).astype(object)[:, None] // wanted.astype(object)[:, None]
    return np.asarray(parts, np.int64)


def check_invariant_level(strategy: Strategy, spine: TopDownSpine, where: Place) -> list[Finding]:
    """What keeps the invariant number of records from being kept on this spine."""
    lowest = invariant_level(strategy)
    if lowest is None:
        return []
    level = spine.level(lowest)
    if level.official is None:
        found, remedy = "units that the spine makes anew", 'take spine = "plain"'
    elif len(level.parent) and len(np.unique(np.stack([level.official, level.parent]), axis=1).T) > len(
        np.unique(level.official)
    ):
        found, remedy = (
            "units whose parts in and outside of AIAN areas have different parents",
            "set split_aian = false",
        )
    else:
        return []
    return [Finding.of("invariant-level", where=where, found=found, lowest=lowest, remedy=remedy)]
