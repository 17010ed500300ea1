"""The layout of the noisy measurement file: its words, names and shapes, as in the public files of the 2020 Census.

::

    measurements/
      Block.parquet/
        DPQuery/State=044/part-00000.parquet       what was measured, one row for each unit and query
        Constraint/State=044/part-00000.parquet    what every estimate keeps
        Unit/State=044/part-00000.parquet          all units, measured or not, with their official codes (ours)

A query has one column for each attribute and a shape with one number for each attribute. Values are in C order of that
shape. The column has ``*`` where the attribute is summed out (1 in the shape), the attribute's own name where a
marginal keeps it, the name of a recode, or ``detailed``, in every column of the one query that keeps everything. First
files of ours have ``detailed`` for every attribute that is kept, recodes by our names, and codes in the rows of
structural zeros. All of these are read; a word has one meaning in all of them.

The words of public products are files under ``data/measurements``. A product is known by its attributes. Reference:
the 2020 Census Redistricting Data Noisy Measurement File (Registry of Open Data on AWS).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.arrays import Integers
from confide.documents import load_shipped, shipped
from confide.mechanisms.topdown.constraints import NO_LIMIT, Constraints, Invariant, StructuralZero
from confide.mechanisms.topdown.spine import TopDownLevel
from confide.mechanisms.topdown.strategy import Strategy
from confide.releases.tabular import masked
from confide.schema import DETAILED, NO_GROUP, Query, Recode, Schema

if TYPE_CHECKING:
    from confide.mechanisms.topdown.problem import TopDownProblem


SUMMED_OUT = "*"
PUBLIC = "public-"
"""How the names of the files of public products begin."""


@dataclass(frozen=True, eq=False)
class Words:
    """The attributes of a product, and what each word means in their columns."""

    title: str
    attributes: Mapping[str, int]
    """Attributes in the order of a shape, with their number of levels."""
    groups: Mapping[str, Mapping[str, Integers]]
    """For each attribute and word the group of each level; −1: in none."""
    codes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each attribute the places of its codes, for words that list codes."""
    levels: tuple[str, ...] = ()
    """The geolevels of the product, the root first, where they are known. A file may begin below the first."""
    not_true: frozenset[str] = frozenset()
    """Constraints that hold in published tables and not in the confidential counts."""
    true: frozenset[frozenset[str]] = frozenset()
    """Equalities that are known to be true, by their variables: counts of the frame."""
    zeros: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Structural zeros by their public names: the word of each attribute."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The levels of each attribute."""
        return tuple(self.attributes.values())

    def meaning(self, attribute: str, word: str) -> Integers | None:
        """The group of each level, or None where the attribute is summed out. Raises KeyError for an unknown word."""
        if word == SUMMED_OUT:
            return None
        size = self.attributes[attribute]
        if word in (attribute, DETAILED):
            return np.arange(size)
        known = self.groups.get(attribute, {})
        if word in known:
            return known[word]
        listed = [self.codes.get(attribute, {}).get(code.strip(), -1) for code in word.split(",")]
        if min(listed) < 0:
            raise KeyError(word)
        result = np.full(size, NO_GROUP, np.int64)
        result[listed] = 0
        return result

    def query(self, words: Sequence[str]) -> dict[int, Integers]:
        """The query of a row, from the words of its attributes in order. Raises KeyError for an unknown word."""
        meanings = (self.meaning(name, word) for name, word in zip(self.attributes, words, strict=True))
        return {axis: groups for axis, groups in enumerate(meanings) if groups is not None}

    def word(self, recode: Recode) -> str | None:
        """The public word for a recode, if there is one."""
        own = recode.assignment
        for word, groups in self.groups.get(recode.attribute.name, {}).items():
            if np.array_equal(groups, own):
                return word
        return None


def words_of(strategy: Strategy, recodes: Mapping[str, str] | None = None) -> Words:
    """The words of the files of a strategy: our names for the recodes of its schema, and the public ones where its
    attributes are those of a public product.

    Args:
        strategy: What the measurements were made with.
        recodes: Other names of recodes: ours = theirs.
    """
    schema = strategy.schema
    attributes = {attribute.name: attribute.size for attribute in schema.attributes}
    public = public_words(attributes)
    groups: dict[str, dict[str, Integers]] = {name: {} for name in attributes}
    for name, recode in schema.variables.items():
        if name == recode.attribute.name:
            continue
        groups[recode.attribute.name][name] = recode.assignment.astype(np.int64)
        if recodes and name in recodes:
            groups[recode.attribute.name][recodes[name]] = recode.assignment.astype(np.int64)
    if public is not None:
        for name in attributes:
            groups[name] = {**public.groups.get(name, {}), **groups[name]}
    codes = {a.name: {str(code): place for code, place in a.index.items()} for a in schema.attributes}
    frame = [i.query for i in strategy.constraints.invariants if i.query is not None and i.frame]
    layout = FileLayout.of(strategy)
    true = frozenset(in_any_order(layout.spelled(query), "") for query in frame)
    not_true = frozenset() if public is None else public.not_true
    return Words(schema.id, attributes, groups, codes, strategy.level_names, not_true, true)


def public_words(attributes: Mapping[str, int] | Sequence[str]) -> Words | None:
    """The words of the public product with these attributes, in whatever order; None if there is no such product.

    >>> public_words(["cenrace", "hispanic", "votingage", "hhgq"]).meaning("hhgq", "hhinstlevels").tolist()
    [0, 1, 1, 1, 1, 2, 2, 2]
    """
    for name in shipped("measurements"):
        if name.startswith(PUBLIC):
            words = _shipped_words(name)
            sizes = attributes if isinstance(attributes, Mapping) else words.attributes
            if set(words.attributes) == set(attributes) and all(sizes[a] == n for a, n in words.attributes.items()):
                return words
    return None


@cache
def _shipped_words(name: str) -> Words:
    values: Mapping[str, Any] = load_shipped("measurements", name)
    attributes: dict[str, int] = values["attributes"]
    groups = {
        attribute: {word: _levels(attributes[attribute], listed) for word, listed in words.items()}
        for attribute, words in values.get("words", {}).items()
    }
    for ours, theirs in load_shipped("measurements", "recodes")["recodes"].items():
        for words in groups.values():
            words |= {ours: words[theirs]} if theirs in words else {}
    codes = {attribute: {str(place): place for place in range(size)} for attribute, size in attributes.items()}
    return Words(
        values["title"],
        attributes,
        groups,
        codes,
        tuple(values["levels"]),
        frozenset(values["not_true"]),
        zeros=values.get("zeros", {}),
    )


def _levels(size: int, listed: Sequence[str]) -> Integers:
    """Groups such as ``0-17`` and ``33,37-41`` as the group of each level."""
    result = np.full(size, NO_GROUP, np.int64)
    for number, text in enumerate(listed):
        for part in text.split(","):
            first, _, last = re.sub(r"\s", "", part).partition("-")
            result[int(first) : int(last or first) + 1] = number
    return result


# What our own files write.


LAYOUT = 2


@dataclass(frozen=True)
class FileLayout:
    """Which words a file of ours has: those of the public files, where there is such a product."""

    recodes: Mapping[str, str] = field(default_factory=dict)
    """Recodes by our names, with the public word for each that has one."""

    @classmethod
    def of(cls, strategy: Strategy) -> FileLayout:
        """The words for a strategy."""
        public = public_words({attribute.name: attribute.size for attribute in strategy.schema.attributes})
        if public is None:
            return cls()
        names = {v.name for level in strategy.levels for share in level.queries for v in share.query.variables}
        names |= {v.name for name in strategy.constraints.limited for v in strategy.query(name).variables}
        recodes = {n: r for n, r in strategy.schema.variables.items() if n in names and n != r.attribute.name}
        public_word = {name: public.word(recode) for name, recode in recodes.items()}
        return cls({name: word for name, word in sorted(public_word.items()) if word is not None})

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> FileLayout:
        """From what a plan says of its measurements."""
        return cls(value["words"])

    @property
    def as_question(self) -> dict[str, Any]:
        """What a plan says of measurements that are published."""
        return {"layout": LAYOUT, "words": dict(self.recodes)}

    def spelled(self, name: str) -> str:
        """``hispanic*cenrace`` as the public files write it: ``hispanic * cenrace``."""
        return " * ".join(self.recodes.get(part.strip(), part.strip()) for part in name.split("*"))

    def word(self, query: str, recode: Recode) -> str:
        """What is in the column of an attribute that a query keeps."""
        if recode.name != recode.attribute.name:
            return self.recodes.get(recode.name, recode.name)
        return DETAILED if query == DETAILED else recode.attribute.name

    def zero(self, zero: StructuralZero, schema: Schema) -> tuple[str, tuple[str, ...]]:
        """Name and words of a structural zero: the public ones if there are any, and codes otherwise."""
        names = [attribute.name for attribute in schema.attributes]
        public = public_words({attribute.name: attribute.size for attribute in schema.attributes})
        if public is not None:
            own = zero.cells(schema)
            for name, words in public.zeros.items():
                said = tuple(words.get(attribute, SUMMED_OUT) for attribute in names)
                if np.array_equal(_cells(public, said, names), own):
                    return name, said
        codes = {name: ",".join(str(code) for code in listed) for name, listed in zero.where.items()}
        return f"{zero.name.replace('-', '_')}_0_con", tuple(codes.get(name, SUMMED_OUT) for name in names)


def _cells(words: Words, said: Sequence[str], names: Sequence[str]) -> Any:
    """The cells of the histogram, in C order, that words of one group each are about."""
    mask = np.ones(tuple(words.attributes[name] for name in names), bool)
    for axis, (name, word) in enumerate(zip(names, said, strict=True)):
        groups = words.meaning(name, word)
        if groups is not None:
            mask &= (groups >= 0).reshape([-1 if other == axis else 1 for other in range(mask.ndim)])
    return mask.ravel()


# Names, columns and shapes.


FOLDER = "measurements"
DP_QUERY, CONSTRAINT, UNIT = "DPQuery", "Constraint", "Unit"
MEASURED_SUFFIX, CONSTRAINT_SUFFIX = "_dpq", "_con"
TOGETHER = "+"
"""Between the ids of units where only their sum is known."""


@dataclass(frozen=True, eq=False)
class QueryLayout:
    """How the file has a query."""

    name: str
    """As the strategy calls it."""
    query_name: str
    attributes: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def cells(self) -> int:
        """How many values a unit has."""
        return prod(self.shape)


def query_layout(schema: Schema, name: str, query: Query, layout: FileLayout) -> QueryLayout:
    """The layout of a query. The file has attributes in the order of the schema, and so has every query."""
    variables = {variable.attribute.name: variable for variable in query.variables}
    assert list(variables) == [attribute.name for attribute in schema.attributes if attribute.name in variables]
    attributes, shape = [], []
    for attribute in schema.attributes:
        variable = variables.get(attribute.name)
        attributes.append(SUMMED_OUT if variable is None else layout.word(name, variable))
        shape.append(1 if variable is None else variable.size)
    return QueryLayout(name, layout.spelled(name) + MEASURED_SUFFIX, tuple(attributes), tuple(shape))


def plain(query_name: str, suffix: str = MEASURED_SUFFIX) -> str:
    """The other way: the name of a query without suffix and blanks."""
    return "*".join(part.strip() for part in query_name.removesuffix(suffix).split("*"))


def in_any_order(query_name: str, suffix: str = MEASURED_SUFFIX) -> frozenset[str]:
    """The variables that the name of a query or constraint has, in whatever order a file writes them."""
    return frozenset(plain(query_name, suffix).split("*"))


def level_folder(level: str) -> str:
    """``block_group`` as ``Block_Group.parquet``, ``us`` as ``US.parquet``."""
    name = level.upper() if level == "us" else "_".join(part.capitalize() for part in level.split("_"))
    return f"{name}.parquet"


def _field(name: str, kind: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable, {"description": description})


METADATA = {"measurement_layout": str(LAYOUT)}
"""What every file says of itself."""


def _common(schema: Schema) -> list[pa.Field]:
    about = "of the attribute: its name (as it is; detailed in the histogram), * (summed out), or a recode"
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
        ],
        METADATA,
    )


def constraint_schema(schema: Schema) -> pa.Schema:
    """The columns of Constraint."""
    return pa.schema(
        [
            *_common(schema),
            _field("value", pa.list_(pa.int64()), "right-hand sides, in C order of the shape; null: no limit"),
            _field("sign", pa.string(), "=, <= or >="),
        ],
        METADATA,
    )


def unit_schema() -> pa.Schema:
    """The columns of Unit."""
    return pa.schema(
        [
            _field("geocode", pa.string(), "id of the unit"),
            _field("code", pa.string(), "official code; null for a unit that was made", nullable=True),
        ],
        METADATA,
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
        self._schema = constraint_schema(problem.strategy.schema)
        self._ids = ids
        self._totals = totals
        self._attributes = len(problem.strategy.schema.attributes)
        self._kinds = list(_kinds(problem, level))

    def batches(self, units: slice) -> Iterator[pa.RecordBatch]:
        """The rows of some units: known totals, then one constraint after the other, some units at a time."""
        if self._totals is not None:
            yield from self._known(units)
        for kind in self._kinds:
            for begin in range(units.start, units.stop, UNITS_AT_ONCE):
                end = min(begin + UNITS_AT_ONCE, units.stop)
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
        listed = pa.ListArray.from_arrays(offsets, masked(flat, flat == NO_LIMIT))
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
            of_frame = told_name(name, problem.file_layout)
            yield _Kind(of_frame, layout.attributes, layout.shape, EQUAL, largest)
            continue
        lower, upper = limit_names(name, problem.file_layout)
        yield _Kind(lower, layout.attributes, layout.shape, AT_LEAST, least)
        yield _Kind(upper, layout.attributes, layout.shape, AT_MOST, largest)
    for zero in constraints.zeros:
        name, chosen = problem.file_layout.zero(zero, schema)
        shape = (1,) * len(chosen)
        yield _Kind(name, chosen, shape, EQUAL, np.zeros((level.units, prod(shape)), np.int64))
    for invariant in constraints.invariants:
        if invariant.query is None:
            summed = [problem.spine.roll_up(level.name, problem.columns[name]) for name in invariant.frame]
            none = (SUMMED_OUT,) * len(schema.attributes)
            yield _Kind(frame_name(invariant), none, (len(summed),), EQUAL, np.stack(summed, axis=1))
