"""A table: its variables, margins and labels, from a query or from a plan; and its columns, with codes and labels."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.errors import ConfideError
from confide.schema import TOTAL, TOTAL_CODE, Attribute, CrossClassification, Query, Recode

# The columns of a table: for each variable its codes and its labels, and one that tells cells from totals.
#
# Mechanisms speak of the cells of a table by labels. Files have, in this order,
#
#     level, area, (area_name,) margin, VARIABLE, VARIABLE_label, ..., figures
#
# ``margin`` is ``cell`` in the cells of the table itself, ``total`` in those that sum over every variable, and
# otherwise ``by`` and the variables that are kept, such as ``by sex``. In the columns of a variable that a row sums
# over is ``_T``. :meth:`CodedColumns.coded` goes from labels to such rows, and :meth:`CodedColumns.labelled` back:
# it refuses rows in which code, label and margin do not agree, so that each of them can be relied on.


LEVEL, AREA, COUNT = "level", "area", "count"
LABEL_ENDING = "_label"
"""What the column of labels has after the name of the variable."""
AREA_NAME, MARGIN, STATUS = "area_name", "margin", "status"
PUBLISHED, SUPPRESSED = "published", "suppressed"
"""What the column ``status`` says, of tables from which figures are left out."""
CELL = "cell"
"""What is in the column ``margin`` for the cells of the table itself."""
OWN_COLUMNS = (LEVEL, AREA, AREA_NAME, MARGIN)
"""Columns that no variable can be called."""


class UnlikePlanError(ValueError):
    """A file is not as the plan describes it. The message names no value but those of the plan."""


def text_column(name: str, description: str) -> pa.Field:
    """A column of labels or codes."""
    return pa.field(name, pa.string(), nullable=False, metadata={"description": description})


def figure_column(name: str, description: str = "", kind: pa.DataType | None = None, *, gaps: bool = False) -> pa.Field:
    """A column of figures, whole numbers unless another kind is given; ``gaps``: with cells that have none."""
    return pa.field(name, kind or pa.int64(), nullable=gaps, metadata={"description": description})


@dataclass(frozen=True)
class CodedVariable:
    """A variable of a table: its name in queries, which its column has too, and the codes and labels of its groups.

    Where groups of several recodes stand in one column, ``groupings`` has the recode of each group, and ``finest``
    whether a cell of the table itself can have it.
    """

    name: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]
    title: str = ""
    groupings: tuple[str, ...] = ()
    finest: tuple[bool, ...] = ()
    keys: tuple[str, ...] = ()
    """What its mechanism calls the groups, where labels do not tell them apart; otherwise by their labels."""

    def __post_init__(self) -> None:
        if TOTAL_CODE in self.codes:
            raise ConfideError("reserved-code/marks", total_code=TOTAL_CODE, name=self.name)

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.labels)

    @property
    def label_column(self) -> str:
        """The column of the labels."""
        return self.name + LABEL_ENDING

    @property
    def known_by(self) -> tuple[str, ...]:
        """What tells the groups apart: labels, unless there are keys."""
        return self.keys or self.labels

    @cached_property
    def kinds(self) -> tuple[tuple[str, bool], ...]:
        """What a group can be: the name that margins give it, and whether it is one of the finest."""
        names = self.groupings or (self.name,) * len(self.codes)
        finest = self.finest or (True,) * len(self.codes)
        return tuple(dict.fromkeys(zip(names, finest, strict=True)))

    @cached_property
    def kind_of_place(self) -> Integers:
        """For the total (place 0) and each group (from 1 on) its number in :attr:`kinds`, from 1; 0 for the total."""
        names = self.groupings or (self.name,) * len(self.codes)
        finest = self.finest or (True,) * len(self.codes)
        return np.array([0, *(self.kinds.index(kind) + 1 for kind in zip(names, finest, strict=True))], np.int64)


@dataclass(frozen=True)
class AreaNames:
    """The names of areas: for each level the codes of its areas and their names, in the same order."""

    levels: Mapping[str, tuple[Sequence[str], Sequence[str]]]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of levels, codes and names, in the order of the levels' names."""
        digest = hashlib.sha256(b"confide/area-names/v1")
        for level in sorted(self.levels):
            for text in (level, *(text for pair in zip(*self.levels[level], strict=True) for text in pair)):
                digest.update(len(text.encode()).to_bytes(4, "big") + text.encode())
        return digest.hexdigest()

    def column(self, level: pa.Array, area: pa.Array) -> pa.Array:
        """The name for each row of a table."""
        result = pa.array([""] * len(level), pa.string())
        for name, (codes, names) in self.levels.items():
            here = pc.equal(level, name)
            if pc.any(here).as_py():
                place = pc.index_in(area, pa.array(codes, pa.string()))
                result = pc.if_else(here, pc.fill_null(pa.array(names, pa.string()).take(place), ""), result)
        return result


@dataclass(frozen=True, eq=False)
class CodedColumns:
    """The columns of a table in its files."""

    variables: tuple[CodedVariable, ...]
    areas: bool
    """Whether there are levels and areas."""
    named: bool = False
    """Whether areas have names."""

    @property
    def keys(self) -> list[str]:
        """The columns that say which cell a row is, as mechanisms speak of them: with the labels of the variables."""
        return [*((LEVEL, AREA) if self.areas else ()), *(variable.name for variable in self.variables)]

    @property
    def names(self) -> list[str]:
        """All columns but the figures, in order."""
        geography = [LEVEL, AREA, *((AREA_NAME,) if self.named else ())] if self.areas else []
        pairs = [name for variable in self.variables for name in (variable.name, variable.label_column)]
        return [*geography, MARGIN, *pairs]

    def check(self, figures: Iterable[str]) -> None:
        """Refuses two columns of one name, whatever the case."""
        times = Counter(name.lower() for name in (*self.names, *figures))
        twice = [name for name in (*self.names, *figures) if times[name.lower()] > 1]
        if twice:
            raise ConfideError(
                "same-column/two",
                found=", ".join(sorted(set(twice))),
                label_ending=LABEL_ENDING,
                value=", ".join((*OWN_COLUMNS, *figures)),
            )

    def schema(self, figures: Iterable[pa.Field]) -> pa.Schema:
        """The columns for readers."""
        described = {
            LEVEL: "geolevel",
            AREA: "code of the geounit or area",
            AREA_NAME: "name of the geounit or area",
            MARGIN: f"{CELL}: a cell of the table itself; {TOTAL}, or 'by' and the variables that are kept: a sum",
        }
        for variable in self.variables:
            described[variable.name] = f"{variable.title or variable.name}: code; {TOTAL_CODE}: all together"
            described[variable.label_column] = f"{variable.title or variable.name}: label; {TOTAL_CODE}: all together"
        return pa.schema([*(text_column(name, described[name]) for name in self.names), *figures])

    def coded(self, rows: pa.RecordBatch, names: AreaNames | None, schema: pa.Schema) -> pa.RecordBatch:
        """Rows with labels as rows of a file; ``schema`` is what :meth:`schema` gives, or the same with texts in
        dictionaries."""
        places = [_places(rows.column(each.name), each.known_by, each.name) for each in self.variables]
        columns: dict[str, pa.Array] = {MARGIN: self._margins(places, rows.num_rows)}
        if self.named:
            assert names is not None
            columns[AREA_NAME] = names.column(rows.column(LEVEL), rows.column(AREA))
        for variable, place in zip(self.variables, places, strict=True):
            columns[variable.name] = in_dictionary([TOTAL_CODE, *variable.codes], place)
            columns[variable.label_column] = in_dictionary(_labels(variable), place)
        arrays = [columns[name] if name in columns else rows.column(name) for name in schema.names]
        return of_schema(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema)

    def labelled(self, rows: pa.Table) -> pa.Table:
        """Rows of a file as mechanisms speak of them: keys with labels, then figures.

        Raises:
            UnlikePlanError: Code and label, or a margin and the variables of a row, do not agree.
        """
        places = []
        for variable in self.variables:
            place = _places(rows.column(variable.name), variable.codes, variable.name)
            if not rows.column(variable.label_column).combine_chunks().equals(_labels(variable).take(pa.array(place))):
                raise UnlikePlanError(f"codes and labels of {variable.name} do not belong together")
            places.append(place)
        margins = of_type(self._margins(places, rows.num_rows), pa.string())
        if not rows.column(MARGIN).combine_chunks().equals(margins):
            raise UnlikePlanError("a margin is not that of its row")
        own = {
            variable.name: pa.array([TOTAL_CODE, *variable.known_by], pa.string()).take(pa.array(place))
            for variable, place in zip(self.variables, places, strict=True)
        }
        figures = [name for name in rows.column_names if name not in self.names]
        return pa.table({name: own.get(name, rows.column(name)) for name in (*self.keys, *figures)})

    def margin_texts(self) -> Iterator[tuple[tuple[int, ...], str]]:
        """For each combination of kinds of groups, 0 for the total, what the column ``margin`` says."""
        for kinds in product(*(range(len(variable.kinds) + 1) for variable in self.variables)):
            kept = [variable.kinds[kind - 1] for variable, kind in zip(self.variables, kinds, strict=True) if kind]
            if all(kinds) and all(finest for _, finest in kept):
                yield kinds, CELL
            else:
                yield kinds, f"by {'*'.join(name for name, _ in kept)}" if kept else TOTAL

    def _margins(self, places: Sequence[Integers], rows: int) -> pa.Array:
        number = np.zeros(rows, np.int64)
        for variable, place in zip(self.variables, places, strict=True):
            number = number * (len(variable.kinds) + 1) + variable.kind_of_place[place]
        return in_dictionary([text for _, text in self.margin_texts()], number)


def _labels(variable: CodedVariable) -> pa.Array:
    """The label of the total, and those of the groups."""
    return pa.array([TOTAL_CODE, *variable.labels], pa.string())


def _places(column: pa.Array | pa.ChunkedArray, texts: Sequence[str], name: str) -> Integers:
    """For each text its place among the groups, from 1, or 0 for the total."""
    listed = pa.array([TOTAL_CODE, *texts], pa.string())
    if isinstance(column, pa.DictionaryArray):
        place = pc.index_in(column.dictionary, listed).take(column.indices)
    else:
        place = pc.index_in(column, listed)
    if place.null_count:
        raise UnlikePlanError(f"{name} has a code or a label that the plan lacks")
    return np.asarray(
        place.to_numpy(zero_copy_only=False) if isinstance(place, pa.Array) else place.to_numpy(), np.int64
    )


def cells_alone(rows: Any) -> Any:
    """Of rows of a file, in a batch or a table, the cells of the table, without the column ``margin``."""
    return rows.filter(pc.equal(rows.column(MARGIN), CELL)).drop_columns([MARGIN])


# Texts in dictionaries: each text once, and in every row the number of its text. Few texts are in many rows. Rows that
# are compared rather than written have theirs in dictionaries, which is many times quicker to read and to compare.


DICTIONARY = pa.dictionary(pa.int32(), pa.string())


def in_dictionary(texts: Sequence[str] | pa.Array, place: Integers) -> pa.Array:
    """A column that has in each row the text at this place."""
    listed = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), listed)


def in_dictionaries(schema: pa.Schema) -> pa.Schema:
    """The names and types of columns alone, with texts in dictionaries."""
    types = ((each.name, DICTIONARY if pa.types.is_string(each.type) else each.type) for each in schema)
    return pa.schema(types)


def of_type(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A column with its texts in a dictionary, or written out, as the type says."""
    if column.type == kind:
        return column
    return column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)


def of_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in columns of these types."""
    columns = [of_type(column, each.type) for column, each in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def written_out(rows: pa.Table) -> pa.Table:
    """The same rows without dictionaries."""
    types = ((each.name, pa.string() if each.type == DICTIONARY else each.type) for each in rows.schema)
    return rows.cast(pa.schema(types))


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same columns and rows, whatever the order of the texts in their dictionaries.

    >>> texts = pa.table({"sex": in_dictionary(["m", "f"], np.array([0, 1]))})
    >>> same_rows(texts, pa.table({"sex": in_dictionary(["f", "m"], np.array([1, 0]))}))
    True
    """
    if one.num_rows != other.num_rows or not one.schema.equals(other.schema):
        return False
    return all(_same(*columns) for columns in zip(one.columns, other.columns, strict=True))


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if one.type == DICTIONARY:
        both = pa.chunked_array([*one.chunks, *other.chunks], DICTIONARY)
        # Of rows that are fewer than the texts, the texts themselves are quicker to compare than two dictionaries.
        few = len(one) <= max((len(chunk.dictionary) for chunk in both.chunks), default=0)
        both = both.cast(pa.string()) if few else both.unify_dictionaries()
        one, other = both.slice(0, len(one)), both.slice(len(one))
    return bool(one.equals(other))


# A table: its variables, margins and labels, from a query of the schema or from the plan of a release.


LAYOUT = 2
"""What plans say of how tables are laid out: codes and labels, in columns under the names of the variables in the spec
(:mod:`confide.releases.tabular.table`)."""


@dataclass(frozen=True)
class Margin(CrossClassification[CodedVariable]):
    """The cross-classification of some variables of a table."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table as its rows are laid out: margins in the order of writing, the total first and the table itself last.

    >>> sex = CodedVariable("sex", ("1", "2"), ("male", "female"))
    >>> table = Table("people", "People", (sex,), (Margin(()), Margin((sex,))))
    >>> [column.to_pylist() for column in table.labels(table.unit_places)]
    [['_T', 'male', 'female']]
    """

    name: str
    title: str
    variables: tuple[CodedVariable, ...]
    margins: tuple[Margin, ...]
    levels: tuple[str, ...] = ()
    """Geolevels and areas; none: a table without a geography."""
    named: bool = False
    """Whether areas have names."""

    @property
    def cells(self) -> int:
        """The number of cells with all margins, on tables of a geography for one area."""
        return sum(margin.cells for margin in self.margins)

    @cached_property
    def coded(self) -> CodedColumns:
        """The columns of its files."""
        return CodedColumns(self.variables, bool(self.levels), self.named)

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of its margins."""
        return tuple(margin.name for margin in self.margins)

    @property
    def inner(self) -> Margin:
        """The cross-classification of all variables."""
        return self.margins[-1]

    @property
    def columns(self) -> list[str]:
        """The columns that say which cell a row is."""
        return self.coded.keys

    @property
    def attribute_columns(self) -> dict[str, str]:
        """For each column with labels the attribute that it is of."""
        return {variable.name + LABEL_ENDING: variable.name.split(":")[0] for variable in self.variables}

    def places(self, margin: Margin, cells: Integers) -> list[Integers]:
        """The labels of cells of a margin as numbers, one array for each variable: 0 for the total label, then the
        groups from 1 on."""
        within = dict(zip(margin.variables, np.unravel_index(cells, margin.shape) if margin.shape else (), strict=True))
        return [
            within[variable].astype(np.int64) + 1 if variable in within else np.zeros(len(cells), np.int64)
            for variable in self.variables
        ]

    def mixed_places(self, margin: Integers, cell: Integers) -> list[Integers]:
        """The same for rows of several margins: the number of the margin and of the cell of each row."""
        columns = [np.zeros(len(cell), np.int64) for _ in self.variables]
        for number, of_rows in enumerate(self.margins):
            rows = np.flatnonzero(margin == number)
            for column, places in zip(columns, self.places(of_rows, cell[rows]), strict=True):
                column[rows] = places
        return columns

    @cached_property
    def unit_places(self) -> list[Integers]:
        """The same for every cell of every margin, in order: the rows of one area."""
        parts = [self.places(margin, np.arange(margin.cells)) for margin in self.margins]
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def label_texts(self, variable: CodedVariable) -> list[str]:
        """The total label, and those of the groups."""
        return [TOTAL_CODE, *variable.labels]

    def labels(self, places: Sequence[Integers]) -> list[pa.Array]:
        """Places as texts, one column for each variable."""
        return [
            pa.array(self.label_texts(variable), pa.string()).take(pa.array(place))
            for variable, place in zip(self.variables, places, strict=True)
        ]

    def projected(self, margin: Margin, cells: Integers) -> Integers:
        """The cells of a margin that cells of the table itself are parts of."""
        return projected(self.inner, margin, cells)

    def as_dict(self, measurements: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The table in a plan: margins, the total first, and beside them their measurements, where there are any."""
        margins = [margin.name for margin in self.margins]
        return {
            "name": self.name,
            "title": self.title,
            "layout": LAYOUT,
            "levels": list(self.levels),
            "area_names": self.named,
            "variables": [
                {
                    "name": variable.name,
                    "title": variable.title,
                    "codes": list(variable.codes),
                    "labels": list(variable.labels),
                }
                for variable in self.variables
            ],
            "margins": margins,
            **({} if measurements is None else {"measurements": [measurements[name] for name in margins]}),
        }

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Table:
        """The table that a plan describes, as :meth:`as_dict` has written it."""
        variables = {
            part["name"]: CodedVariable(part["name"], tuple(part["codes"]), tuple(part["labels"]), part["title"])
            for part in values["variables"]
        }
        margins = tuple(Margin(tuple(variables[part] for part in _names(name))) for name in values["margins"])
        levels, named = tuple(values["levels"]), bool(values["area_names"])
        return cls(values["name"], values["title"], tuple(variables.values()), margins, levels, named)

    @staticmethod
    def measurements(values: Mapping[str, Any]) -> dict[str, str]:
        """For each margin of a table in a plan the name of its measurement."""
        return dict(zip(values["margins"], values["measurements"], strict=True))


def _names(query: str) -> list[str]:
    """The variables that the name of a query has."""
    return [] if query == TOTAL else query.split("*")


def projected(larger: Margin | Query, margin: Margin | Query, cells: Integers) -> Integers:
    """The cells of a margin that cells of a larger cross-classification are parts of.

    Args:
        larger: The cross-classification that has all variables of the margin.
        margin: The margin.
        cells: Numbers of cells of ``larger``, one dimension.

    Returns:
        For each the number of the cell of ``margin``, in the same shape.
    """
    kept = {variable.name for variable in margin.variables}
    places = np.unravel_index(cells, larger.shape) if larger.shape else ()
    result: Integers = np.zeros(len(cells), np.int64)
    variables: Sequence[CodedVariable | Recode] = larger.variables
    for variable, place in zip(variables, places, strict=True):
        if variable.name in kept:
            result = result * variable.size + place
    return result


@dataclass(frozen=True, eq=False)
class QueryTable:
    """A table as a spec asks for it: the queries that count its margins, in the order of writing, and their layout."""

    name: str
    title: str
    query: Query
    margins: tuple[Query, ...]
    levels: tuple[str, ...] = ()
    named: bool = False
    """Whether areas have names."""

    @cached_property
    def layout(self) -> Table:
        """The table without what counts it: names, codes, labels and margins."""
        variables = {
            recode.name: CodedVariable(recode.name, tuple(recode.codes), tuple(recode.labels), recode.attribute.title)
            for recode in self.query.variables
        }
        margins = tuple(Margin(tuple(variables[recode.name] for recode in query.variables)) for query in self.margins)
        return Table(self.name, self.title, tuple(variables.values()), margins, self.levels, self.named)


def too_large(cells: int, most: int, *, area: bool = False, margins: bool = False) -> ConfideError:
    """The error for a table that crosses what should not be crossed."""
    return ConfideError("table-too-large/cells", area=area, cells=cells, margins=margins, most=most)


def check_column_names(attributes: Iterable[Attribute], columns: Iterable[str]) -> None:
    """Refuses an attribute that is called as a column of ours, whatever the case: SQL and SDMX-CSV know but one.

    Args:
        attributes: Those that have a column in some table.
        columns: The other columns that tables of the mechanism have, in any format.
    """
    reserved = {name.lower() for name in columns}
    for attribute in attributes:
        if attribute.name.lower() in reserved:
            raise ConfideError(
                "reserved-name/attribute",
                attribute=attribute.name,
                reserved=", ".join(sorted(reserved)),
            )


def masked(values: npt.ArrayLike, gone: npt.NDArray[np.bool_] | None, kind: pa.DataType | None = None) -> pa.Array:
    """A column without a value where ``gone``, and with zero in its memory there.

    Arrow takes numpy's memory as it is, also below a null: pickle, Feather and the Arrow file format would carry away
    every number that a null hides. So whatever leaves with gaps is made here.

    Args:
        values: The numbers, one for each row.
        gone: A flag for each row that has no value; None where all have one.
        kind: The type of the column; None for that of the numbers.

    Returns:
        The column, with memory of its own where it has gaps.

    >>> column = masked(np.array([17, 2, 9]), np.array([False, True, False]))
    >>> column.to_pylist(), np.frombuffer(column.buffers()[1], np.int64).tolist()
    ([17, None, 9], [17, 0, 9])
    """
    numbers = np.asarray(values)
    if gone is None:
        return pa.array(numbers, kind)
    return pa.array(np.where(gone, numbers.dtype.type(0), numbers), kind, mask=gone)
