"""What is asked of a source: queries and counts in the words of its schema, of its recodes, or of public files.

A query crosses variables, ``votingage*hispanic``. A variable is an attribute as it is, or one of its recodes, by the
name that the schema has for it or by the word of the public measurement files (``hhinstlevels``). A count is one number
of an area: ``total``, or levels of variables such as ``hispanic=1*votingage=1``, several with a bar between them.
Areas are official levels of a frame, areas beside them, units of the spine, or whatever a file with a block code and an
area code in each line says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from confide.arrays import Booleans, Floats, Integers
from confide.documents import load_named, load_schema, shipped
from confide.errors import ConfideError, Finding, InputError, ParameterError, Place
from confide.geography import AreaSet
from confide.mechanisms.topdown.measurements.layout import SUMMED_OUT, Words
from confide.mechanisms.topdown.output.settings import TABULATION
from confide.mechanisms.topdown.output.tabulation import TabulatedTable, TabulationFile, axes_of
from confide.schema import DETAILED, NO_GROUP, TOTAL, Schema

EVERYBODY = "all"
"""The label of an attribute that is summed out."""


@dataclass(frozen=True, eq=False)
class AskedVariable:
    """Groups of the levels of one attribute."""

    name: str
    attribute: str
    axis: int
    groups: Integers
    """For each level its group, or ``NO_GROUP``."""
    codes: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class AskedQuery:
    """A cross-classification, its variables in the order of the axes; cells in C order."""

    name: str
    variables: tuple[AskedVariable, ...]
    label: str = ""
    """Whom it counts, where it is a line of a table."""

    @property
    def cells(self) -> int:
        """How many figures an area has."""
        return prod(variable.size for variable in self.variables)

    @property
    def groups(self) -> dict[int, Integers]:
        """For each axis that is not summed out the group of each level."""
        return {variable.axis: variable.groups for variable in self.variables}

    def labels(self, attribute: str) -> list[str]:
        """For each cell the label of an attribute."""
        place = next((i for i, variable in enumerate(self.variables) if variable.attribute == attribute), None)
        if place is None:
            return [EVERYBODY] * self.cells
        shape = [variable.size for variable in self.variables]
        index = np.unravel_index(np.arange(self.cells), shape)[place]
        return [self.variables[place].labels[i] for i in index.tolist()]

    def in_words(self) -> list[str]:
        """For each cell its labels in one text; ``total`` for the only one of the total."""
        if self.label:
            return [self.label]
        listed = [self.labels(variable.attribute) for variable in self.variables]
        return [", ".join(words) for words in zip(*listed, strict=True)] if listed else [TOTAL]

    def counts(self) -> Iterator[dict[int, Floats]]:
        """The cells one by one, each as a count."""
        for cell in np.ndindex(*(variable.size for variable in self.variables)):
            yield {
                variable.axis: (variable.groups == place).astype(float)
                for variable, place in zip(self.variables, cell, strict=True)
            }

    def matrix(self, shape: Sequence[int]) -> csr_matrix:
        """Cells of the histogram x cells of the query."""
        index = np.indices(tuple(shape), sparse=True)
        cell, outside = np.zeros(tuple(shape), np.int64), np.zeros(tuple(shape), bool)
        for variable in self.variables:
            assigned = variable.groups[index[variable.axis]]
            cell = cell * variable.size + assigned
            outside = outside | (assigned == NO_GROUP)
        rows = np.flatnonzero(~outside.ravel())
        columns = cell.ravel()[rows]
        return csr_matrix((np.ones(len(rows), np.int64), (rows, columns)), shape=(cell.size, self.cells))


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The variables of a source."""

    title: str
    attributes: Mapping[str, int]
    """In the order of the axes, with their numbers of levels."""
    variables: Mapping[str, AskedVariable]

    @classmethod
    def of(cls, words: Words, schema: Schema | None) -> Vocabulary:
        """The words of a measurement file, with the labels of a schema where there is one."""
        known = schema or _shipped_schema(words.attributes)
        axes = {name: axis for axis, name in enumerate(words.attributes)}
        variables: dict[str, AskedVariable] = {}
        for attribute, size in words.attributes.items():
            own = None if known is None else known.variables[attribute]
            plain = tuple(str(level) for level in range(size))
            codes = plain if own is None else tuple(own.codes)
            labels = plain if own is None else tuple(own.labels)
            variables[attribute] = AskedVariable(attribute, attribute, axes[attribute], np.arange(size), codes, labels)
        for recode in () if known is None else known.recodes:
            attribute = recode.attribute.name
            groups = recode.assignment.astype(np.int64)
            variables[recode.name] = AskedVariable(
                recode.name, attribute, axes[attribute], groups, tuple(recode.codes), tuple(recode.labels)
            )
        for attribute, by_word in words.groups.items():
            for word, groups in by_word.items():
                if word not in variables:
                    variables[word] = _of_word(word, variables[attribute], groups)
        return cls(words.title, dict(words.attributes), variables)

    def coarser(self, words: Mapping[str, str]) -> tuple[Vocabulary, tuple[Integers, ...]]:
        """The vocabulary of a study, and the groups of each axis: for each attribute a variable, or ``*`` for none.

        Attributes that are not named are kept as they are. What can be asked are unions of the groups of the study.
        """
        variables: dict[str, AskedVariable] = {}
        groups: list[Integers] = []
        unknown = [name for name in words if name not in self.attributes]
        if unknown:
            raise ParameterError(
                "bad-query/attribute",
                where=Place(path="--study"),
                found=unknown[0],
                unknown=unknown[0],
                expected=", ".join(self.attributes),
            )
        for axis, attribute in enumerate(self.attributes):
            word = words.get(attribute, attribute)
            if word == SUMMED_OUT:
                groups.append(np.zeros(self.attributes[attribute], np.int64))
                one = np.zeros(1, np.int64)
                variables[attribute] = AskedVariable(attribute, attribute, axis, one, (SUMMED_OUT,), (EVERYBODY,))
                continue
            own = self._variable(word, word)
            if own.attribute != attribute or (own.groups == NO_GROUP).any():
                raise ParameterError(
                    "bad-query/put",
                    where=Place(path="--study"),
                    found=word,
                    word=word,
                    attribute=attribute,
                    summed_out=SUMMED_OUT,
                )
            groups.append(own.groups)
            first = np.array([int(np.flatnonzero(own.groups == group)[0]) for group in range(own.size)])
            for variable in [each for each in self.variables.values() if each.attribute == attribute]:
                if np.array_equal(variable.groups, variable.groups[first][own.groups]):
                    named = variable.groups[first]
                    variables[variable.name] = AskedVariable(
                        variable.name, attribute, axis, named, variable.codes, variable.labels
                    )
            variables[attribute] = AskedVariable(attribute, attribute, axis, np.arange(own.size), own.codes, own.labels)
        sizes = {attribute: int(groups[axis].max()) + 1 for axis, attribute in enumerate(self.attributes)}
        return Vocabulary(f"{self.title}, in coarser groups", sizes, variables), tuple(groups)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The levels of each axis."""
        return tuple(self.attributes.values())

    def knows(self, text: str) -> bool:
        """Whether a text names a query."""
        return text in (TOTAL, DETAILED) or all(part.strip() in self.variables for part in text.split("*"))

    def query(self, text: str) -> AskedQuery:
        """The query that a text names, with its variables in the order of the attributes, whatever order they are
        written in; raises with a finding if there is none."""
        name = "*".join(part.strip() for part in text.split("*"))
        if name == TOTAL:
            return AskedQuery(TOTAL, ())
        named = list(self.attributes) if name == DETAILED else name.split("*")
        variables = [self._variable(part, text) for part in named]
        if len({variable.axis for variable in variables}) < len(variables):
            raise ParameterError("bad-query/correct-text", where=Place(path="--query"), found=text, text=text)
        variables.sort(key=lambda variable: variable.axis)
        return AskedQuery(name if name == DETAILED else "*".join(each.name for each in variables), tuple(variables))

    def lines(self, table: TabulatedTable) -> tuple[AskedQuery, ...]:
        """The lines of a table, each a query of one cell; those that count nobody are left out."""
        return tuple(
            AskedQuery(name, tuple(self._parts(levels)), label)
            for name, label, levels in zip(table.columns, table.labels, table.levels, strict=True)
            if all(len(some) for some in levels)
        )

    def _parts(self, levels: Sequence[Integers]) -> Iterator[AskedVariable]:
        """The attributes that a line does not sum out, each with the only group that it counts."""
        for axis, ((attribute, size), some) in enumerate(zip(self.attributes.items(), levels, strict=True)):
            if len(some) < size:
                own = self.variables[attribute]
                groups = np.full(size, NO_GROUP, np.int64)
                groups[some] = 0
                code = "+".join(own.codes[i] for i in some.tolist())
                label = f"{len(some)} of {size} levels" if len(some) > 3 else "+".join(own.labels[i] for i in some)
                yield AskedVariable(attribute, attribute, axis, groups, (code,), (label,))

    def count(self, text: str) -> dict[int, Floats]:
        """One count: for each axis that it names, 1 for the levels that are counted and 0 for the others."""
        result: dict[int, Floats] = {}
        if text.strip() == TOTAL:
            return result
        for part in text.split("*"):
            name, sign, chosen = (piece.strip() for piece in part.partition("="))
            if not sign:
                raise ParameterError("bad-query/count", where=Place(path="--share"), found=part.strip(), text=text)
            variable = self._variable(name, text)
            if variable.axis in result:
                raise ParameterError("bad-query/count-attribute", where=Place(path="--share"), found=text, text=text)
            mask = np.zeros(len(variable.groups))
            for code in (piece.strip() for piece in chosen.split("|")):
                listed = [code in pair for pair in zip(variable.codes, variable.labels, strict=True)]
                if not any(listed):
                    shown = [f"{c} ({label})" for c, label in zip(variable.codes, variable.labels, strict=True)][:12]
                    raise ParameterError(
                        "bad-query/variable-level",
                        where=Place(path="--share"),
                        found=code,
                        name=name,
                        its_code=code,
                        expected=", ".join(shown),
                    )
                mask[variable.groups == listed.index(True)] = 1
            result[variable.axis] = mask
        return result

    def quantile(self, text: str) -> tuple[str, float]:
        """``age`` for the median, ``age=0.9`` for another quantile."""
        name, sign, share = (piece.strip() for piece in text.partition("="))
        try:
            number = float(share) if sign else 0.5
        except ValueError:
            number = float("nan")
        if not 0 < number < 1:
            raise ParameterError("bad-inference/age", where=Place(path="--quantile"), found=text)
        if len(self.query(name).variables) != 1:
            raise ParameterError("bad-inference/name", where=Place(path="--quantile"), found=text)
        return name, number

    def _variable(self, name: str, text: str) -> AskedVariable:
        if name not in self.variables:
            raise ParameterError(
                "bad-query/variable",
                where=Place(path="--query"),
                found=text,
                name=name,
                title=self.title,
                total=TOTAL,
                detailed=DETAILED,
                variables=", ".join(self.variables),
            )
        return self.variables[name]


def read_study(file: Path) -> dict[str, str]:
    """A study from a TOML file: for each attribute the word of its groups, such as ``age = "age_10_groups"``."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        found = type(error).__name__
        raise InputError("bad-study/read", where=Place(file=file.name), found=found) from None
    wrong = [name for name, word in values.items() if not isinstance(word, str)]
    if wrong:
        raise InputError("bad-study/groups", where=Place(file=file.name), found=repr(values[wrong[0]]), wrong=wrong[0])
    return values


def _of_word(word: str, attribute: AskedVariable, groups: Integers) -> AskedVariable:
    """A recode that has a word and no labels: its groups are called by their levels."""
    codes, labels = [], []
    for group in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == group).tolist()
        first, last = members[0], members[-1]
        run = len(members) > 1 and members == list(range(first, last + 1))
        listed = [attribute.codes[member] for member in members]
        codes.append(f"{listed[0]}-{listed[-1]}" if run else "+".join(listed))
        labels.append(attribute.labels[first] if len(members) == 1 else f"{attribute.attribute} {codes[-1]}")
    return AskedVariable(word, attribute.attribute, attribute.axis, groups, tuple(codes), tuple(labels))


def shipped_tables(attributes: Mapping[str, int]) -> tuple[TabulatedTable, ...]:
    """The tables that ship for records with these attributes."""
    schema = _shipped_schema(attributes)
    for name in TABULATION.names if schema is not None else ():
        assert schema is not None
        file = load_named(name, Path(), TabulationFile, kind=TABULATION).value.complete()
        axes = axes_of(schema)
        if not any(file.problems(axes)):
            return file.build(axes)
    return ()


def _shipped_schema(attributes: Mapping[str, int]) -> Schema | None:
    """The schema that ships and has these attributes, for its labels."""
    for name in shipped("schemas"):
        try:
            schema = load_schema(name, Path())
        except ConfideError:
            continue
        if {attribute.name: attribute.size for attribute in schema.attributes} == dict(attributes):
            return schema
    return None


def share_of(text: str) -> tuple[str, str]:
    """Two counts with a line between them, such as ``hispanic=1/total``."""
    part, sign, base = (piece.strip() for piece in text.partition("/"))
    if not sign or not part or not base:
        raise ParameterError("bad-inference/share", where=Place(path="--share"), found=text)
    return part, base


# The areas that are asked for, and known totals of units.


MOST_PIECES = 9
"""An area of at most so many units is followed by the spine, unless the settings of the release say otherwise."""


@dataclass(frozen=True)
class Area:
    """Some blocks by their codes, under a name."""

    name: str
    blocks: tuple[str, ...]

    @classmethod
    def from_blocks(cls, blocks: Iterable[str], name: str = "area") -> Area:
        """An area of these blocks."""
        return cls(name, tuple(blocks))


def read_areas(file: Path, block_codes: NDArray[np.str_]) -> list[AreaSet]:
    """Kinds of area from a CSV or Parquet file: a column of block codes, and for each kind a column of area codes.

    A block that is not listed, or has an empty area, is outside. A block may be listed for several areas.

    Args:
        file: The file; of a CSV all columns are text, so that codes keep their leading zeros.
        block_codes: The codes of the blocks of the source.

    Returns:
        The kinds of area by the names of their columns. Raises an :class:`InputError` with findings.
    """
    table, place = _text_table(file), Place(file=file.name)
    names = table.column_names
    if table.num_columns < 2:
        found = f"one column, {names[0]!r}" if names else "no column"
        raise InputError("bad-areas/file", where=place, name=names[0] if names else None)
    again = [name for at, name in enumerate(names) if name in names[:at] or not name.strip()]
    if again:
        found = ", ".join(map(repr, names))
        raise InputError("bad-areas/columns", where=place, found=found)
    if np.isin(np.array([names[0]], np.str_), block_codes).any():
        found = f"the block {names[0]!r}"
        raise InputError("bad-areas/first", where=Place(file=file.name, row=1), name=names[0])
    codes = table.column(0).to_numpy(zero_copy_only=False).astype(str)
    number = numbers_of(codes, block_codes)
    unknown = np.flatnonzero(number < 0)
    if len(unknown):
        one, width = str(codes[unknown[0]]), int(np.strings.str_len(block_codes).max())
        lost = bool((numbers_of(np.strings.zfill(codes[unknown], width), block_codes) >= 0).all())
        where = Place(file=file.name, row=int(unknown[0]) + 2)
        raise InputError(
            "bad-areas/lines",
            where=where,
            unknown=len(unknown),
            one=one,
            name=names[0],
            block_code=str(block_codes[0]),
            lost=lost,
        )
    result = []
    for name in names[1:]:
        listed = table.column(name).to_numpy(zero_copy_only=False).astype(str)
        inside = np.flatnonzero(listed != "")
        areas, area = np.unique(listed[inside], return_inverse=True)
        if not len(areas):
            raise InputError("bad-areas/column", where=place, name=name)
        block, area = number[inside], area.reshape(-1)
        _, first = np.unique(block * len(areas) + area, return_index=True)
        twice = np.delete(inside, first)
        if len(twice):
            found = f"{str(codes[twice[0]])!r} for {listed[twice[0]]!s}"
            where = Place(file=file.name, row=int(twice[0]) + 2)
            raise InputError("bad-areas/listed", where=where, its_code=str(codes[twice[0]]), listed=listed[twice[0]])
        result.append(AreaSet(name, tuple(areas.tolist()), block, area))
    return result


def numbers_of(codes: NDArray[np.str_], block_codes: NDArray[np.str_]) -> Integers:
    """For each code its place among those of the blocks, or −1."""
    order = np.argsort(block_codes)
    number = order[np.minimum(np.searchsorted(block_codes[order], codes), len(order) - 1)]
    return np.asarray(np.where(block_codes[number] == codes, number, -1), np.int64)


def _text_table(file: Path) -> pa.Table:
    try:
        if file.suffix == ".parquet":
            table = pq.read_table(file)
        else:
            names = pyarrow.csv.open_csv(file).schema.names
            types: dict[str, Any] = dict.fromkeys(names, pa.string())
            options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
            table = pyarrow.csv.read_csv(file, convert_options=options)
        columns = [pa.array(["" if v is None else str(v) for v in column.to_pylist()]) for column in table.columns]
    except (OSError, pa.ArrowException, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        raise InputError(
            "bad-areas/read",
            where=Place(file=file.name),
            partition=None if missing else str(error).partition("\n")[0][:120] or type(error).__name__,
            missing=missing,
        ) from None
    return pa.table(columns, names=table.column_names)


def chosen(areas: Sequence[AreaSet], kinds: Sequence[str]) -> list[AreaSet]:
    """The kinds of area that are asked for; raises with a finding if there is no such kind."""
    known = {one.kind: one for one in areas}
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        where = Place(path="--geography")
        raise InputError(
            "no-geography/correct", where=where, found=unknown[0], unknown=unknown[0], known=", ".join(known)
        )
    return [known[kind] for kind in kinds]


def outside(area: Area, block_codes: NDArray[np.str_]) -> Booleans:
    """Which blocks of an area the source does not have."""
    return np.asarray(~np.isin(np.array(area.blocks, np.str_), block_codes))


def read_totals(file: Path) -> dict[str, int]:
    """Known numbers of records from a CSV file: the code of a unit, and its number; the first line may name them.

    Raises an :class:`InputError` with a finding for each line that is not so.
    """
    place = Place(file=file.name)
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError("no-totals/read", where=place) from None
    result: dict[str, int] = {}
    findings = []
    for number, line in enumerate(lines, start=1):
        code, _, total = (part.strip().strip('"') for part in line.partition(","))
        if not line.strip() or (number == 1 and not any(letter.isdecimal() for letter in total)):
            continue  # the header, which may be missing
        if not total.isdecimal() or not code or code in result:
            where = Place(file=file.name, row=number)
            findings.append(Finding.of("bad-total/code", where=where, found=repr(line[:80]), code_known=code in result))
            continue
        result[code] = int(total)
    if findings or not result:
        empty = Finding.of("no-totals/file", where=place)
        raise InputError(findings or [empty])
    return result
