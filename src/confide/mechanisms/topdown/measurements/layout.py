"""The layout of the noisy measurement file: names, columns and shapes, as in the public files of the 2020 Census.

::

    measurements/
      Block.parquet/
        DPQuery/State=044/part-00000.parquet       what was measured, one row for each unit and query
        Constraint/State=044/part-00000.parquet    what every estimate keeps
        Unit/State=044/part-00000.parquet          all units, measured or not, with their official codes (ours)

A query has one column for each attribute, with the attribute's own name (kept), ``*`` (summed out) or the name of a
recode, and a shape with one number for each attribute, 1 where it is summed out; the query of the whole histogram has
``detailed`` in every column. Values are in C order of that shape. Files of the first layout have ``detailed`` for
every attribute that is kept (:mod:`~confide.mechanisms.topdown.measurements.words`). Reference: the 2020 Census
Redistricting Data Noisy Measurement File (Registry of Open Data on AWS).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.mechanisms.topdown.constraints import NO_LIMIT, Constraints, Invariant
from confide.mechanisms.topdown.measurements.words import FIRST, SUMMED_OUT, FileLayout
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spine import TopDownLevel
from confide.schema import Query, Schema

FOLDER = "measurements"
DP_QUERY, CONSTRAINT, UNIT = "DPQuery", "Constraint", "Unit"
MEASURED_SUFFIX, CONSTRAINT_SUFFIX = "_dpq", "_con"
TOGETHER = "+"
"""Between the ids of units of which only the sum is known."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class QueryLayout:
    """How a query stands in the file."""

    name: str
    """As the strategy calls it."""
    query_name: str
    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    order: Integers
    """For each value in the file its place among the cells of the query."""

    @property
    def cells(self) -> int:
        """How many values a unit has."""
        return prod(self.shape)


FIRST_LAYOUT = FileLayout(FIRST)


def query_layout(schema: Schema, name: str, query: Query, layout: FileLayout = FIRST_LAYOUT) -> QueryLayout:
    """The layout of a query. The file has attributes in the order of the schema, whatever the query's is."""
    position = {variable.attribute.name: number for number, variable in enumerate(query.variables)}
    attributes, shape = [], []
    for attribute in schema.attributes:
        if attribute.name not in position:
            attributes.append(SUMMED_OUT)
            shape.append(1)
            continue
        variable = query.variables[position[attribute.name]]
        attributes.append(layout.word(name, variable))
        shape.append(variable.size)
    sizes = [variable.size for variable in query.variables]
    axes = [position[attribute.name] for attribute in schema.attributes if attribute.name in position]
    order = np.arange(prod(sizes)).reshape(sizes).transpose(axes).ravel()
    return QueryLayout(name, layout.spelled(name) + MEASURED_SUFFIX, tuple(attributes), tuple(shape), order)


def plain(query_name: str, suffix: str = MEASURED_SUFFIX) -> str:
    """The other way: the name of a query without suffix and blanks."""
    return "*".join(part.strip() for part in query_name.removesuffix(suffix).split("*"))


def level_folder(level: str) -> str:
    """``block_group`` as ``Block_Group.parquet``, ``us`` as ``US.parquet``."""
    name = level.upper() if level == "us" else "_".join(part.capitalize() for part in level.split("_"))
    return f"{name}.parquet"


def _field(name: str, kind: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable, {"description": description})


def _common(schema: Schema, layout: FileLayout) -> list[pa.Field]:
    kept = "detailed (as it is)" if layout.number == FIRST else "its name (as it is; detailed in the histogram)"
    about = f"of the attribute: {kept}, * (summed out), or a recode"
    return [
        _field("geocode", pa.string(), "id of the unit; of several, with + between, where only their sum is known"),
        _field("query_name", pa.string(), "name of the query"),
        *(_field(attribute.name, pa.string(), about) for attribute in schema.attributes),
        _field("query_shape", pa.list_(pa.int32()), "groups of each attribute, 1 where it is summed out"),
    ]


def measured_schema(schema: Schema, layout: FileLayout) -> pa.Schema:
    """The columns of DPQuery."""
    return pa.schema(
        [
            *_common(schema, layout),
            _field("value", pa.list_(pa.int64()), "noisy counts, in C order of the shape"),
            _field("variance", pa.float32(), "variance of the noise in each of them"),
            _field("sigma2", pa.string(), "exact parameter of the discrete Gaussian law of the noise"),
            _field("plb", pa.string(), "exact privacy loss (rho) of the query in this unit"),
        ],
        layout.metadata,
    )


def constraint_schema(schema: Schema, layout: FileLayout) -> pa.Schema:
    """The columns of Constraint."""
    return pa.schema(
        [
            *_common(schema, layout),
            _field("value", pa.list_(pa.int64()), "right-hand sides, in C order of the shape; null: no limit"),
            _field("sign", pa.string(), "=, <= or >="),
        ],
        layout.metadata,
    )


def unit_schema(layout: FileLayout) -> pa.Schema:
    """The columns of Unit."""
    return pa.schema(
        [
            _field("geocode", pa.string(), "id of the unit"),
            _field("code", pa.string(), "official code; null for a unit that was made", nullable=True),
        ],
        layout.metadata,
    )


# What every estimate keeps, as rows of the measurement file: known totals, limits, structural zeros, frame counts.
#
# Names are made from the strategy's: a limited query ``q`` gives ``q_total_lb_con`` and ``q_total_ub_con``, or
# ``q_con`` where the frame tells the count; a known number of records gives ``total_con``; a structural zero ``z``
# gives its public name, or ``z_0_con``; counts of the frame that bind no query give ``NAME_con``.


EQUAL, AT_LEAST, AT_MOST = "=", ">=", "<="
UNITS_AT_ONCE = 20_000
KNOWN_TOTAL = f"total{CONSTRAINT_SUFFIX}"


@dataclass(frozen=True, eq=False)
class _Kind:
    """One constraint in every unit of a level."""

    name: str
    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    sign: str
    values: Integers
    """units x values; ``NO_LIMIT`` where there is none."""


def limit_names(query: str, layout: FileLayout) -> tuple[str, str]:
    """The names of the least and the largest counts of a query."""
    name = layout.spelled(query)
    return f"{name}_total_lb{CONSTRAINT_SUFFIX}", f"{name}_total_ub{CONSTRAINT_SUFFIX}"


def told_name(query: str, layout: FileLayout) -> str:
    """The name of counts that the frame tells."""
    return f"{layout.spelled(query)}{CONSTRAINT_SUFFIX}"


def frame_name(invariant: Invariant) -> str:
    """The name of counts of the frame that bind no query."""
    return f"{invariant.name.replace('-', '_')}{CONSTRAINT_SUFFIX}"


def told_queries(constraints: Constraints) -> set[str]:
    """The queries whose counts the frame tells."""
    return {i.query for i in constraints.invariants if i.query is not None and i.frame}


class ConstraintRows:
    """The rows of Constraint of one level. ``totals`` has unit, cell and n: units with the same cell are known together
    (:mod:`confide.mechanisms.topdown.constraints`)."""

    def __init__(self, problem: TopDownProblem, level: TopDownLevel, ids: NDArray[np.str_], totals: pa.Table | None):
        self._schema = constraint_schema(problem.strategy.schema, problem.file_layout)
        self._ids = ids
        self._totals = totals
        self._attributes = len(problem.strategy.schema.attributes)
        self._kinds = list(_kinds(problem, level))

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


def _kinds(problem: TopDownProblem, level: TopDownLevel) -> Iterator[_Kind]:
    schema, constraints = problem.strategy.schema, problem.strategy.constraints
    frame_queries = told_queries(constraints)
    for name, (least, largest) in problem.limits(level).items():
        layout = query_layout(schema, name, problem.strategy.query(name), problem.file_layout)
        if name in frame_queries:
            told = told_name(name, problem.file_layout)
            yield _Kind(told, layout.attributes, layout.shape, EQUAL, largest[:, layout.order])
            continue
        lower, upper = limit_names(name, problem.file_layout)
        yield _Kind(lower, layout.attributes, layout.shape, AT_LEAST, least[:, layout.order])
        yield _Kind(upper, layout.attributes, layout.shape, AT_MOST, largest[:, layout.order])
    for zero in constraints.zeros:
        name, chosen = problem.file_layout.zero(zero, schema)
        shape = (1,) * len(chosen)
        yield _Kind(name, chosen, shape, EQUAL, np.zeros((level.units, prod(shape)), np.int64))
    for invariant in constraints.invariants:
        if invariant.query is None:
            summed = [problem.spine.roll_up(level.name, problem.columns[name]) for name in invariant.frame]
            none = (SUMMED_OUT,) * len(schema.attributes)
            yield _Kind(frame_name(invariant), none, (len(summed),), EQUAL, np.stack(summed, axis=1))
