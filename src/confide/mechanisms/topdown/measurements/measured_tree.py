"""A measurement file, ours or public, as a tree of least squares: read as a stream, without sorting or joining.

Of each unit the estimates need its evidence h = SᵀWy and which queries it has with which variances. Evidence adds up in
any order, so the rows may be in any order, in any number of files, under any partitions:

    first    the ids of Constraint, Unit and DPQuery: units, levels by the width of their ids, parents by prefix
    then     Constraint: known totals; of the blocks what can only be zero; and the words of all queries
    last     every row of DPQuery, some at a time, into the evidence of its unit.

A row is taken by the words of its attributes and by its shape, not by its name. A shape that is not what the words say
is refused. Values are integers of any width. What a file says of published tables (``pl94_con``) is not the truth, and
is never used. Neither are equalities that are not known to be true, nor limits other than zero: least squares has no
use for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confide.arrays import Booleans, Floats, Integers
from confide.errors import InputError, Place
from confide.estimation import GoodnessOfFit, TreeEstimates
from confide.estimation.sectors import AxisGroups, CellVectors, SectorQuery, Sectors, Study, check_core
from confide.estimation.tree_covariances import TreeCovariances, TreeLevel, with_level_between
from confide.mechanisms.topdown.figure_noise import variance_of
from confide.mechanisms.topdown.measurements import layout
from confide.mechanisms.topdown.measurements.folder import (
    MeasurementFolder,
    UnitsOfLevel,
    add_given_totals,
    find_measurements,
    find_product,
    known_totals,
    levels_of_product,
    official_codes,
    parents_of,
    product_words,
    variances_in,
    whole_values,
)
from confide.noise import DiscreteGaussian

NUMBERS_AT_ONCE = 1 << 23
ROWS_AT_ONCE = 1 << 13
FURTHEST = 10.0
"""So many standard deviations noise alone does not move a sum of measured totals."""
SAME = 1e-6
"""A variance of 32 bits within this part of a planned one is that one."""
EQUAL, AT_MOST = "=", "<="


@dataclass(frozen=True, eq=False)
class ReadQuery:
    """A query of a file, as its words say it."""

    name: str
    words: tuple[str, ...]
    query: SectorQuery


@dataclass(frozen=True)
class UsedConstraints:
    """The constraints of a file, by name: what was made of them."""

    used: tuple[str, ...]
    not_used: Mapping[str, str]
    """With the reason."""


@dataclass(eq=False)
class MeasuredTree:
    """The measurements of a file on their tree. :func:`read_tree` makes one."""

    folder: MeasurementFolder
    words: layout.Words
    units: tuple[UnitsOfLevel, ...]
    """The units of each level of the file, the root first."""
    sectors: Sectors
    study: Study | None
    queries: Mapping[str, tuple[ReadQuery, ...]]
    """For each level what is measured there."""
    covariances: TreeCovariances
    position: tuple[int, ...]
    """For each level of the file its place among the levels of the tree."""
    totals: list[Floats]
    """For each level of the tree the known numbers of records; NaN where none is known."""
    constraints: UsedConstraints
    left_out: tuple[str, ...]
    """Queries of the file that were not asked for."""
    _reader: _Rows = field(repr=False)
    _evidence: list[CellVectors] | None = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The levels of the file, the root first."""
        return tuple(units.name for units in self.units)

    @cached_property
    def block_codes(self) -> NDArray[np.str_]:
        """The official code of each block."""
        return official_codes(self.units[-1])

    @cached_property
    def estimates(self) -> TreeEstimates:
        """The least-squares estimates. The evidence becomes them, so it is there once."""
        assert self._evidence is not None
        evidence, self._evidence = self._evidence, None
        return TreeEstimates(self.covariances, evidence, self.totals)

    def fit(self) -> GoodnessOfFit:
        """The measurements against the estimates: every row is read once more."""
        result = GoodnessOfFit(self.estimates)
        for position, units in zip(self.position, self.units, strict=True):
            if self.queries[units.name]:
                result.expect(position, {query.name: query.query for query in self.queries[units.name]})
            for query, unit, values, variance in self._reader.rows(units, self.queries[units.name]):
                result.add(position, query.name, unit, query.query, values, 1 / variance)
        return result


def read_tree(
    path: Path,
    *,
    words: layout.Words | None = None,
    levels: Sequence[str] | None = None,
    totals: Mapping[str, int] | None = None,
    study: Study | None = None,
    queries: Collection[str] | None = None,
    variances: Collection[float] = (),
    dtype: type[np.floating[Any]] = np.float64,
) -> MeasuredTree:
    """The measurements in a folder, read whole and checked.

    Args:
        path: The folder of a product: it has a folder for each level. Or the folder that such a one is in.
        words: The words of the file (:func:`~confide.mechanisms.topdown.measurements.layout.words_of` has those of a
            strategy); without them it must be a public product.
        levels: The levels that there must be, the root first; without them those of the product.
        totals: Known numbers of records by code: of a State, by the id of a unit or by its official code. The parts of
            a unit that the spine splits are known together.
        study: A coarser histogram, where that of the file is too large.
        queries: The queries that are read, by name; without them, all.
        variances: Planned variances: one of 32 bits that is the same is taken for the exact one.
        dtype: Of the evidence of blocks; 32 bits take half of the memory.

    Returns:
        The tree, with everything that estimates need. Raises an :class:`InputError` with findings.
    """
    product = find_product(path, Place(file=path.name))
    known = words or product_words(product.path, product.folders)
    names = tuple(levels) if levels is not None else levels_of_product(product.folders, known, product.path)
    folder = find_measurements(product.path, names, Place(file=path.name), known.attributes)
    units = tuple(folder.units(name) for name in names)
    several = len(units[0].ids) > 1
    if several and levels is not None:
        raise InputError("measurements/units", where=Place(file=layout.level_folder(names[0])), ids=len(units[0].ids))
    if not any(level.measured.any() for level in units):
        raise InputError(
            "measurements/noisy", where=Place(file=f"{product.path.name}/*/{layout.DP_QUERY}"), dp_query=layout.DP_QUERY
        )
    parents = [
        np.zeros(len(units[0].ids) if several else 0, np.int64),
        *(parents_of(above, below) for above, below in pairwise(units)),
    ]
    rows = _Rows(folder, known, study, sorted(variances))
    asked, left_out = rows.asked(units, queries)
    zeros, used, not_used = _zeros(folder, known, units[-1])
    told_apart = {axis for zero in zeros for axis in zero.axes}
    groupings = [rows.groups(words_) for listed in asked.values() for _, words_ in listed]
    sectors = Sectors.of(known.shape if study is None else study.shape, groupings, told_apart)
    check_core(sectors)
    read = {
        name: tuple(ReadQuery(query, said, sectors.query(rows.groups(said))) for query, said in listed)
        for name, listed in asked.items()
    }
    possible = _possible(zeros, sectors, study, known, len(units[-1].ids))
    tree_levels, evidence = [], []
    for number, level in enumerate(units):
        last = number == len(units) - 1
        vectors = CellVectors(sectors, possible, dtype) if last else CellVectors.dense(sectors, len(level.ids))
        tree_levels.append(_read_level(rows, level, parents[number], read[level.name], sectors, vectors))
        evidence.append(vectors)
    known_sums = [known_totals(folder, level) for level in units]
    if totals:
        add_given_totals(known_sums, units, totals)
    _check_root(rows, units, read, known_sums[0])
    names_used = [*used, *([layout.KNOWN_TOTAL] if any(known_sums) else [])]
    if several:  # States without their nation: a unit above them that nothing is measured of
        tree_levels.insert(0, TreeLevel(np.zeros(0, np.int64), np.full(1, -1), sectors.nothing))
        known_sums.insert(0, [])
    tree_levels, positions, sums = _with_totals(tree_levels, known_sums, sectors, not_used)
    positions = positions[1:] if several else positions
    _check_sums(tree_levels, sums, dict(zip(positions, units, strict=True)))
    for at in [at for at in range(len(tree_levels)) if at not in positions]:
        evidence.insert(at, CellVectors.dense(sectors, tree_levels[at].units))
    covariances = TreeCovariances(sectors, tree_levels, possible)
    return MeasuredTree(
        folder,
        known,
        units,
        sectors,
        study,
        read,
        covariances,
        positions,
        sums,
        UsedConstraints(tuple(dict.fromkeys(names_used)), not_used),
        left_out,
        rows,
        evidence,
    )


class _Rows:
    """The rows of DPQuery, by query."""

    def __init__(self, folder: MeasurementFolder, words: layout.Words, study: Study | None, variances: Sequence[float]):
        self._folder, self._words, self._study = folder, words, study
        self._variances = np.array(variances, np.float64)
        self._known: dict[tuple[str, ...], dict[int, Integers]] = {}
        self._noise: dict[Any, float] = {}

    def groups(self, words: tuple[str, ...]) -> Mapping[int, Integers | AxisGroups]:
        """What a query tells of the histogram, or of the study."""
        measured = self._known[words]
        return measured if self._study is None else self._study.query(measured)

    def asked(
        self, units: Sequence[UnitsOfLevel], queries: Collection[str] | None
    ) -> tuple[dict[str, list[tuple[str, tuple[str, ...]]]], tuple[str, ...]]:
        """For each level the names and words of its queries, and the names of those that are left out."""
        result: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        left_out: set[str] = set()
        wanted = None if queries is None else {layout.in_any_order(name) for name in queries}
        for level in units:
            listed: dict[tuple[str, ...], str] = {}
            for file, batch in self._folder.batches(level.name, layout.DP_QUERY, self._columns, 1 << 16):
                for row in pa.table(batch).group_by(self._columns).aggregate([]).to_pylist():
                    if not row["query_name"]:
                        raise InputError(
                            "measurements/name",
                            where=Place(file=f"{layout.level_folder(level.name)}/{layout.DP_QUERY}/…/{file.name}"),
                        )
                    name, said = layout.plain(row["query_name"]), tuple(row[a] for a in self._words.attributes)
                    if wanted is not None and layout.in_any_order(name) not in wanted:
                        left_out.add(name)
                        continue
                    self._learn(level.name, file, name, said)
                    listed.setdefault(said, name)
            result[level.name] = [(name, said) for said, name in sorted(listed.items(), key=lambda one: one[1])]
            if level.measured.any() and not listed:
                raise InputError(
                    "measurements/none",
                    where=Place(file=layout.level_folder(level.name)),
                    left_out=", ".join(sorted(left_out)),
                )
        return result, tuple(sorted(left_out))

    @property
    def _columns(self) -> list[str]:
        return ["query_name", *self._words.attributes]

    def _learn(self, level: str, file: Path, name: str, said: tuple[str, ...]) -> None:
        try:
            self._known[said] = self._words.query(said)
        except (KeyError, AttributeError):
            found = ", ".join(f"{a} {w!r}" for a, w in zip(self._words.attributes, said, strict=True))
            raise InputError(
                "measurements/query",
                where=Place(file=f"{layout.level_folder(level)}/{layout.DP_QUERY}/…/{file.name}"),
                found=found,
                name=name,
                title=self._words.title,
            ) from None

    def rows(
        self, level: UnitsOfLevel, queries: Sequence[ReadQuery]
    ) -> Iterator[tuple[ReadQuery, Integers, NDArray[Any], Floats]]:
        """The rows of a level, some at a time: query, units, values (units x cells) and variances."""
        if not queries:
            return
        largest = max(query.query.cells for query in queries)
        at_once = max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // largest))
        by_words = {query.words: query for query in queries}
        exact = self._folder.has_everywhere(level.name, layout.DP_QUERY, "sigma2")
        noise = "sigma2" if exact else "variance"
        attributes = list(self._words.attributes)
        columns = ["geocode", *attributes, "query_shape", "value", noise]
        for file, batch in self._folder.batches(level.name, layout.DP_QUERY, columns, at_once):
            key = np.zeros(batch.num_rows, np.int64)
            listed: list[list[str]] = []
            for name in attributes:
                coded = batch.column(name).dictionary_encode()
                listed.append(coded.dictionary.to_pylist())
                key = key * max(1, len(coded.dictionary)) + coded.indices.to_numpy(zero_copy_only=False)
            where = f"{layout.level_folder(level.name)}/{layout.DP_QUERY}/…/{file.name}"
            unit = level.numbers(batch.column("geocode"))
            for number in np.unique(key).tolist():
                places = np.unravel_index(number, [max(1, len(one)) for one in listed]) if listed else ()
                query = by_words.get(tuple(one[int(place)] for one, place in zip(listed, places, strict=True)))
                if query is None:
                    continue
                rows = np.flatnonzero(key == number)
                taken = pa.table(batch.select(["query_shape", "value", noise])).take(pa.array(rows)).combine_chunks()
                self._check_shape(query, taken.column("query_shape"), where)
                place = Place(file=where)
                values = whole_values(taken.column("value"), query.query.cells, query.name, place)
                of = self._exact if exact else self._planned
                yield query, unit[rows], values, variances_in(taken.column(noise), of, self._noise, place)

    def _check_shape(self, query: ReadQuery, shapes: pa.ChunkedArray, where: str) -> None:
        for shape in {tuple(one or ()) for one in shapes.to_pylist()}:
            if shape != query.query.shape:
                raise InputError(
                    "measurements/shape",
                    where=Place(file=where),
                    found=str(list(shape)),
                    query=query.name,
                    shape=list(query.query.shape),
                )

    def _exact(self, value: Any) -> float:
        return self._planned(variance_of(DiscreteGaussian(value)))

    def _planned(self, value: Any) -> float:
        """A variance, or the planned one that it is but for its 32 bits."""
        variance = float(value)
        near = np.flatnonzero(np.abs(self._variances - variance) <= SAME * variance)
        return float(self._variances[near[0]]) if len(near) else variance


def _read_level(
    rows: _Rows,
    level: UnitsOfLevel,
    parent: Integers,
    queries: tuple[ReadQuery, ...],
    sectors: Sectors,
    into: CellVectors,
) -> TreeLevel:
    """Adds up the evidence of a level; raises unless every measured unit has every query once."""
    number = {query.words: place for place, query in enumerate(queries)}
    variance = np.full((len(level.ids), len(queries)), np.nan)
    for query, unit, values, noise in rows.rows(level, queries):
        place = number[query.words]
        if (unit < 0).any():
            raise InputError(
                "measurements/rows",
                where=Place(file=f"{layout.level_folder(level.name)}/{layout.DP_QUERY}"),
                less=int((unit < 0).sum()),
                query=query.name,
            )
        twice = ~np.isnan(variance[unit, place])
        if twice.any() or len(np.unique(unit)) < len(unit):
            again = unit[twice] if twice.any() else unit[np.flatnonzero(np.bincount(unit)[unit] > 1)]
            raise InputError(
                "measurements/unit",
                where=Place(file=f"{layout.level_folder(level.name)}/{layout.DP_QUERY}"),
                found=repr(str(level.ids[again[0]])),
                query=query.name,
            )
        variance[unit, place] = noise
        into.add(unit, query.query, values, 1 / noise)
    has = ~np.isnan(variance)
    wrong = np.flatnonzero(level.measured & ~has.all(axis=1))
    if len(wrong):
        place = int(np.flatnonzero(~has[wrong[0]])[0])
        raise InputError(
            "measurements/part",
            where=Place(file=f"{layout.level_folder(level.name)}/{layout.DP_QUERY}"),
            wrong=len(wrong),
            querie=queries[place].name,
            id=str(level.ids[wrong[0]]),
        )
    measured = np.full(len(level.ids), -1, np.int64)
    kinds, kind = np.unique(variance[level.measured], axis=0, return_inverse=True)
    measured[level.measured] = kind.reshape(-1)
    matrices = [
        sectors.information((query.query, 1 / one) for query, one in zip(queries, row, strict=True))
        for row in kinds.tolist()
    ]
    return TreeLevel(parent, measured, np.stack(matrices) if matrices else sectors.nothing)


# What Constraint says: cells that can only be zero, and known totals.


@dataclass(frozen=True, eq=False)
class _Zero:
    """Groups of a query that can only be zero in some blocks."""

    axes: tuple[int, ...]
    query: Mapping[int, Integers]
    zero: Booleans
    """Blocks x groups, in C order of the query's axes."""


def _zeros(
    folder: MeasurementFolder, words: layout.Words, blocks: UnitsOfLevel
) -> tuple[list[_Zero], list[str], dict[str, str]]:
    """What can only be zero in the blocks; the names of the constraints that say so, and of those that are not used."""
    result: dict[tuple[str, tuple[str, ...]], _Zero] = {}
    not_used: dict[str, str] = {}
    attributes = list(words.attributes)
    keys = ["query_name", *attributes, "sign"]
    columns = ["geocode", "query_name", *attributes, "value"]
    for file, batch in folder.batches(blocks.name, layout.CONSTRAINT, columns, 1 << 15, "sign"):
        table = pa.table(batch)
        for key in table.select(keys).group_by(keys).aggregate([]).to_pylist():
            name, said = key["query_name"] or "", tuple(key[a] for a in attributes)
            sign = key["sign"] or _sign(name)
            if name == layout.KNOWN_TOTAL:
                continue
            reason = _reason(words, name, said, sign)
            if reason is not None:
                not_used[name] = reason
                continue
            same = [_is(table.column(column), value) for column, value in key.items()]
            rows = table.filter(pa.array(np.logical_and.reduce(same))).combine_chunks()
            query = words.query(said)
            cells = prod(int(groups.max()) + 1 for groups in query.values())
            listed = rows.column("value").combine_chunks()
            if not bool((pc.list_value_length(listed).to_numpy(zero_copy_only=False) == cells).all()):
                raise InputError(
                    "measurements/say",
                    where=Place(file=f"{layout.level_folder(blocks.name)}/{layout.CONSTRAINT}/…/{file.name}"),
                    name=name,
                    cells=cells,
                )
            unit = blocks.numbers(rows.column("geocode"))
            zero = pc.fill_null(pc.equal(listed.flatten(), 0), False).to_numpy(zero_copy_only=False)
            zero = zero.reshape(-1, cells)[unit >= 0]
            if (
                sign == EQUAL
                and not zero.all()
                and layout.in_any_order(name, layout.CONSTRAINT_SUFFIX) not in words.true
            ):
                not_used[name] = "an equality that is not known to be true of the confidential counts"
                continue
            one = result.setdefault((name, said), _Zero(tuple(query), query, np.zeros((len(blocks.ids), cells), bool)))
            one.zero[unit[unit >= 0]] |= zero
    for name, said in [key for key in result if key[0] in not_used]:
        del result[name, said]
    used = [zero for zero in result.values() if zero.zero.any()]
    return used, sorted({name for name, _ in result}), not_used


def _sign(name: str) -> str:
    """The sign of a constraint in a file that does not say it."""
    signs = {"_ub": AT_MOST, "_lb": ">=", "_0": EQUAL}
    return next((sign for end, sign in signs.items() if name.endswith(end + layout.CONSTRAINT_SUFFIX)), "")


def _is(column: pa.ChunkedArray, value: str | None) -> Booleans:
    """Which rows have a value, or none."""
    same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
    return np.asarray(same.to_numpy(), bool)


def _reason(words: layout.Words, name: str, said: tuple[str, ...], sign: str) -> str | None:
    """Why a constraint is not used, if it is not."""
    if name in words.not_true:
        return "it holds in published tables, which have noise of their own, and not in the confidential counts"
    if sign not in (EQUAL, AT_MOST):
        return "least squares has no use for a lower limit" if sign == ">=" else f"the sign {sign!r} is not known"
    try:
        query = words.query(said)
    except (KeyError, AttributeError):
        return "it has words that are not known"
    return None if query else "it counts something else than the records"


def _possible(
    zeros: Sequence[_Zero], sectors: Sectors, study: Study | None, words: layout.Words, blocks: int
) -> Booleans:
    """For each block and core cell, whether it can be other than zero."""
    if not zeros:
        return np.ones((blocks, sectors.size), bool)
    keys = np.concatenate([zero.zero for zero in zeros], axis=1)
    packed = np.packbits(keys, axis=1)
    _, first, kind = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    axes = tuple(axis for axis in sectors.core if any(axis in zero.axes for zero in zeros))
    shape = tuple(words.shape[axis] for axis in axes)
    patterns = []
    for block in first.tolist():
        can = np.ones(shape, bool)
        for zero in zeros:
            group, outside = np.zeros(shape, np.int64), np.zeros(shape, bool)
            for axis, groups in zero.query.items():
                assigned = groups.reshape([-1 if other == axis else 1 for other in axes])
                group = group * (int(groups.max()) + 1) + assigned
                outside |= assigned < 0
            can &= outside | ~zero.zero[block][np.where(outside, 0, group)]
        for place, axis in enumerate(axes):
            if study is not None:
                coarse = np.zeros((*can.shape[:place], study.shape[axis], *can.shape[place + 1 :]), bool)
                np.logical_or.at(np.moveaxis(coarse, place, 0), study.groups[axis], np.moveaxis(can, place, 0))
                can = coarse
        by_axis = can.reshape([sectors.shape[axis] if axis in axes else 1 for axis in sectors.core])
        patterns.append(np.broadcast_to(by_axis, sectors.core_shape).ravel())
    return np.asarray(np.array(patterns)[kind.reshape(-1)], bool)


def _check_root(
    rows: _Rows,
    units: Sequence[UnitsOfLevel],
    read: Mapping[str, tuple[ReadQuery, ...]],
    known: list[tuple[Integers, int]],
) -> None:
    """Refuses a root whose known total is not that of the units below, as they are measured: a nation with the files of
    some of its States alone would give these the people of the others."""
    (below,) = units[1:2] or (None,)
    if below is None or len(units[0].ids) > 1 or len(known) != 1 or not below.measured.all():
        return
    queries = [query for query in read[below.name] if set(query.words) == {layout.SUMMED_OUT}]
    summed, variance_below = 0.0, 0.0
    for _, _, values, variances in rows.rows(below, queries[:1]):
        summed, variance_below = summed + float(values.sum()), variance_below + float(variances.sum())
    if queries and abs(summed - known[0][1]) > FURTHEST * variance_below**0.5 + 1:
        raise InputError(
            "not-all-units",
            where=Place(file=layout.level_folder(units[0].name)),
            below=below.name,
            unit=units[0].name,
            known=known[0][1],
            summed=round(summed),
            ids=len(below.ids),
            unit_remedy=layout.level_folder(units[0].name),
        )


def _check_sums(levels: Sequence[TreeLevel], sums: Sequence[Floats], named: Mapping[int, UnitsOfLevel]) -> None:
    """Refuses known totals that contradict one another: that of a unit, and those of the units in it."""
    least, all_told = sums[-1], ~np.isnan(sums[-1])
    for position in range(len(levels) - 2, -1, -1):
        own, parent = sums[position], levels[position + 1].parent
        below = np.bincount(parent, np.nan_to_num(least), len(own))
        missing = np.bincount(parent, ~all_told, len(own)) > 0
        known = ~np.isnan(own)
        wrong = np.flatnonzero(known & ((below > own) | (~missing & (below != own))))
        if len(wrong):
            unit = int(wrong[0])
            level = named[position].name if position in named else named[position + 1].name
            raise InputError(
                "bad-total/contradict",
                where=Place(file=f"{layout.level_folder(level)}/{layout.CONSTRAINT}, or the totals that were given"),
                own=own[unit],
                id=str(named[position].ids[unit]) if position in named else None,
                position_known=position in named,
                below=below[unit],
            )
        least = np.where(known, own, below)
        all_told = known | ~missing


def _with_totals(
    levels: list[TreeLevel],
    known_sums: Sequence[list[tuple[Integers, int]]],
    sectors: Sectors,
    not_used: dict[str, str],
) -> tuple[list[TreeLevel], tuple[int, ...], list[Floats]]:
    """The levels with known totals, and with levels between them for what is known together only."""
    result: list[TreeLevel] = []
    positions: list[int] = []
    sums: list[Floats] = []
    for position, level in enumerate(levels):
        single = [(members, number) for members, number in known_sums[position] if len(members) == 1]
        several = [(members, number) for members, number in known_sums[position] if len(members) > 1]
        number_of = np.full(level.units, np.nan)
        for members, number in single:
            number_of[members] = number
        if several:
            together = np.full(level.units, -1, np.int64)
            groups: list[float] = []
            for members, number in several:
                if len(np.unique(level.parent[members])) > 1:
                    not_used[f"{layout.KNOWN_TOTAL} of several units"] = "they are not parts of one unit"
                    continue
                together[members] = len(groups)
                groups.append(float(number))
            alone = np.flatnonzero(together < 0)
            together[alone] = len(groups) + np.arange(len(alone))
            between = np.concatenate([groups, np.full(len(alone), np.nan)])
            upper, lower = with_level_between(
                [*levels[: position + 1]], position, together, sectors, ~np.isnan(between)
            )[position : position + 2]
            result.append(upper)
            sums.append(between)
            level = lower
        positions.append(len(result))
        result.append(TreeLevel(level.parent, level.measured, level.information, ~np.isnan(number_of)))
        sums.append(number_of)
    return result, tuple(positions), sums
