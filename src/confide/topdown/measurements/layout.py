"""The layout of the noisy measurement file: names, columns and shapes, as in the public files of the 2020 Census.

::

    measurements/
      Block.parquet/
        DPQuery/State=044/part-00000.parquet       what was measured, one row for each unit and query
        Constraint/State=044/part-00000.parquet    what every estimate keeps
        Unit/State=044/part-00000.parquet          all units, measured or not, with their official codes (ours)

A query has one column for each attribute, with ``detailed`` (as it is), ``*`` (summed out) or the name of a recode, and
a shape with one number for each attribute, 1 where it is summed out. Values are in C order of that shape. Reference:
the 2020 Census Redistricting Data Noisy Measurement File (Registry of Open Data on AWS).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.schema import Query, Schema
from confide.topdown.strategies.strategy import DETAILED

FOLDER = "measurements"
DP_QUERY, CONSTRAINT, UNIT = "DPQuery", "Constraint", "Unit"
MEASURED_SUFFIX, CONSTRAINT_SUFFIX = "_dpq", "_con"
SUMMED_OUT = "*"
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


def query_layout(schema: Schema, name: str, query: Query, suffix: str = MEASURED_SUFFIX) -> QueryLayout:
    """The layout of a query. The file has attributes in the order of the schema, whatever the query's is."""
    position = {variable.attribute.name: number for number, variable in enumerate(query.variables)}
    attributes, shape = [], []
    for attribute in schema.attributes:
        if attribute.name not in position:
            attributes.append(SUMMED_OUT)
            shape.append(1)
            continue
        variable = query.variables[position[attribute.name]]
        attributes.append(DETAILED if variable.name == attribute.name else variable.name)
        shape.append(variable.size)
    sizes = [variable.size for variable in query.variables]
    axes = [position[attribute.name] for attribute in schema.attributes if attribute.name in position]
    order = np.arange(prod(sizes)).reshape(sizes).transpose(axes).ravel()
    return QueryLayout(name, spelled(name) + suffix, tuple(attributes), tuple(shape), order)


def spelled(name: str) -> str:
    """``hispanic*cenrace`` as the public files write it: ``hispanic * cenrace``."""
    return " * ".join(part.strip() for part in name.split("*"))


def plain(query_name: str, suffix: str = MEASURED_SUFFIX) -> str:
    """The other way: the name of a query without suffix and blanks."""
    return "*".join(part.strip() for part in query_name.removesuffix(suffix).split("*"))


def level_folder(level: str) -> str:
    """``block_group`` as ``Block_Group.parquet``, ``us`` as ``US.parquet``."""
    name = level.upper() if level == "us" else "_".join(part.capitalize() for part in level.split("_"))
    return f"{name}.parquet"


def _field(name: str, kind: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable, {"description": description})


def _common(schema: Schema) -> list[pa.Field]:
    about = "of the attribute: detailed (as it is), * (summed out), or a recode"
    return [
        _field("geocode", pa.string(), "id of the unit; of several, with + between, where only their sum is known"),
        _field("query_name", pa.string(), "name of the query"),
        *(_field(attribute.name, pa.string(), about) for attribute in schema.attributes),
        _field("query_shape", pa.list_(pa.int32()), "groups of each attribute, 1 where it is summed out"),
    ]


def measured_schema(schema: Schema) -> pa.Schema:
    """The columns of DPQuery."""
    return pa.schema(
        [
            *_common(schema),
            _field("value", pa.list_(pa.int64()), "noisy counts, in C order of the shape"),
            _field("variance", pa.float32(), "variance of the noise in each of them"),
            _field("sigma2", pa.string(), "exact parameter of the discrete Gaussian law of the noise"),
            _field("plb", pa.string(), "exact privacy loss (rho) of the query in this unit"),
        ]
    )


def constraint_schema(schema: Schema) -> pa.Schema:
    """The columns of Constraint."""
    return pa.schema(
        [
            *_common(schema),
            _field("value", pa.list_(pa.int64()), "right-hand sides, in C order of the shape; null: no limit"),
            _field("sign", pa.string(), "=, <= or >="),
        ]
    )


def unit_schema() -> pa.Schema:
    """The columns of Unit."""
    return pa.schema(
        [
            _field("geocode", pa.string(), "id of the unit"),
            _field("code", pa.string(), "official code; null for a unit that was made", nullable=True),
        ]
    )
