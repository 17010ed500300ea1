"""What every estimate keeps, as rows of the measurement file: known totals, limits, structural zeros, frame counts.

Names are made from the strategy's: a limited query ``q`` gives ``q_total_lb_con`` and ``q_total_ub_con``, or ``q_con``
where the frame tells the count; a known number of records gives ``total_con``; a structural zero ``z`` gives
``z_0_con``; counts of the frame that bind no query give ``NAME_con``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.geography.topdown_tree import TopDownLevel
from confide.topdown.measurements.layout import (
    CONSTRAINT_SUFFIX,
    SUMMED_OUT,
    TOGETHER,
    constraint_schema,
    query_layout,
    spelled,
)
from confide.topdown.question import Question
from confide.topdown.strategies.constraints import NO_LIMIT, Constraints, Invariant, StructuralZero

EQUAL, AT_LEAST, AT_MOST = "=", ">=", "<="
UNITS_AT_ONCE = 20_000
KNOWN_TOTAL = f"total{CONSTRAINT_SUFFIX}"

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Kind:
    """One constraint in every unit of a level."""

    name: str
    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    sign: str
    values: Integers
    """units x values; ``NO_LIMIT`` where there is none."""


def limit_names(query: str) -> tuple[str, str]:
    """The names of the least and the largest counts of a query."""
    return f"{spelled(query)}_total_lb{CONSTRAINT_SUFFIX}", f"{spelled(query)}_total_ub{CONSTRAINT_SUFFIX}"


def told_name(query: str) -> str:
    """The name of counts that the frame tells."""
    return f"{spelled(query)}{CONSTRAINT_SUFFIX}"


def frame_name(invariant: Invariant) -> str:
    """The name of counts of the frame that bind no query."""
    return f"{invariant.name.replace('-', '_')}{CONSTRAINT_SUFFIX}"


def zero_name(zero: StructuralZero) -> str:
    """The name of a structural zero."""
    return f"{zero.name.replace('-', '_')}_0{CONSTRAINT_SUFFIX}"


def told_queries(constraints: Constraints) -> set[str]:
    """The queries whose counts the frame tells."""
    return {i.query for i in constraints.invariants if i.query is not None and i.frame}


class ConstraintRows:
    """The rows of Constraint of one level. ``totals`` has unit, cell and n: units with the same cell are known together
    (:mod:`confide.topdown.records.invariant_totals`)."""

    def __init__(self, question: Question, level: TopDownLevel, ids: NDArray[np.str_], totals: pa.Table | None):
        self._schema = constraint_schema(question.strategy.schema)
        self._ids = ids
        self._totals = totals
        self._attributes = len(question.strategy.schema.attributes)
        self._kinds = list(_kinds(question, level))

    def batches(self, units: slice) -> Iterator[pa.RecordBatch]:
        """The rows of some units: known totals, then slice by slice one constraint after the other."""
        if self._totals is not None:
            yield from self._known(units)
        for begin in range(units.start, units.stop, UNITS_AT_ONCE):
            end = min(begin + UNITS_AT_ONCE, units.stop)
            for kind in self._kinds:
                yield self._rows(self._ids[begin:end], kind, kind.values[begin:end])

    def _known(self, units: slice) -> Iterator[pa.RecordBatch]:
        """Each total once, with the first of its units."""
        assert self._totals is not None
        unit, together, n = (self._totals.column(name).to_numpy() for name in ("unit", "cell", "n"))
        order = np.argsort(together, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(together[order]) != 0))
        names, values = [], []
        for members in np.split(order, starts[1:]):
            if units.start <= unit[members[0]] < units.stop:
                names.append(TOGETHER.join(self._ids[unit[members]].tolist()))
                values.append(n[members[:1]])
        if names:
            none, one = (SUMMED_OUT,) * self._attributes, (1,) * self._attributes
            kind = _Kind(KNOWN_TOTAL, none, one, EQUAL, np.stack(values))
            yield self._rows(np.array(names), kind, kind.values)

    def _rows(self, ids: NDArray[np.str_], kind: _Kind, values: Integers) -> pa.RecordBatch:
        rows, width = values.shape
        offsets = pa.array(np.arange(rows + 1) * width, pa.int32())
        flat = values.ravel()
        listed = pa.ListArray.from_arrays(offsets, pa.array(flat, mask=flat == NO_LIMIT))
        shape = pa.ListArray.from_arrays(
            pa.array(np.arange(rows + 1) * len(kind.shape), pa.int32()), pa.array(np.tile(kind.shape, rows), pa.int32())
        )

        def same(text: str) -> pa.Array:
            return pa.repeat(text, rows)

        columns = [pa.array(ids), same(kind.name), *map(same, kind.attributes), shape, listed, same(kind.sign)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _kinds(question: Question, level: TopDownLevel) -> Iterator[_Kind]:
    schema, constraints = question.strategy.schema, question.strategy.constraints
    told = told_queries(constraints)
    for name, (least, largest) in question.limits(level).items():
        layout = query_layout(schema, name, question.strategy.query(name))
        if name in told:
            yield _Kind(told_name(name), layout.attributes, layout.shape, EQUAL, largest[:, layout.order])
            continue
        lower, upper = limit_names(name)
        yield _Kind(lower, layout.attributes, layout.shape, AT_LEAST, least[:, layout.order])
        yield _Kind(upper, layout.attributes, layout.shape, AT_MOST, largest[:, layout.order])
    for zero in constraints.zeros:
        chosen = tuple(_codes(zero, attribute.name) for attribute in schema.attributes)
        shape = (1,) * len(chosen)
        yield _Kind(zero_name(zero), chosen, shape, EQUAL, np.zeros((level.units, prod(shape)), np.int64))
    for invariant in constraints.invariants:
        if invariant.query is None:
            summed = [question.spine.roll_up(level.name, question.columns[name]) for name in invariant.frame]
            none = (SUMMED_OUT,) * len(schema.attributes)
            yield _Kind(frame_name(invariant), none, (len(summed),), EQUAL, np.stack(summed, axis=1))


def _codes(zero: StructuralZero, attribute: str) -> str:
    """The codes of an attribute that a structural zero is about."""
    return ",".join(str(code) for code in zero.where[attribute]) if attribute in zero.where else SUMMED_OUT
