"""Measurements read back, checked and put in order: one row for each unit and query.

Files of ours have the exact parameter of the noise, and the weight of a measurement is then the very number that the
release was estimated with. Public files have a variance of 32 bits, and the weight is one over that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.errors import Finding, InputError, Place
from confide.file_system import private_folder, whole_file
from confide.mechanisms.topdown.constraints import NO_LIMIT, Invariant, Side, invariant_level, known_together
from confide.mechanisms.topdown.measure import weighting_variance
from confide.mechanisms.topdown.measurements import layout
from confide.mechanisms.topdown.measurements.folder import MeasurementFolder, UnitsOfLevel, variances_in, whole_values
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import LevelStrategy, Strategy
from confide.noise import DiscreteGaussian
from confide.schema import DETAILED, Schema

ROWS_AT_ONCE = 1 << 13
SIGMA2, VARIANCE = "sigma2", "variance"
READ = pa.schema([("unit", pa.int64()), ("query", pa.int64()), ("n", pa.int64()), ("value", pa.list_(pa.int64()))])
"""Unit, number of the query on its level, the bits of the variance that weights it, and the measured counts."""


@dataclass(frozen=True, eq=False)
class LevelReader:
    """The measurements of one level, as the strategy asks for them."""

    folder: MeasurementFolder
    units: UnitsOfLevel
    layouts: tuple[layout.QueryLayout, ...]
    numbers: Mapping[str, int]
    """From a name in the file to the number of the query; names that the strategy does not measure are not here."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Queries of the file that the strategy does not measure on this level."""
        return tuple(sorted(_names(self.folder, self.units.name) - set(self.numbers)))

    def check(self) -> list[Finding]:
        """What is wrong with the measurements of the level; the first problem of them."""
        try:
            for _ in self._complete():
                pass
        except InputError as error:
            return list(error.findings)
        return []

    def write(self, into: Path) -> None:
        """Everything that is asked for, into one file."""
        private_folder(into.parent)
        with whole_file(into) as temporary, pq.ParquetWriter(temporary, READ, compression="zstd") as writer:
            for batch in self._complete():
                writer.write_batch(batch)

    def _complete(self) -> Iterator[pa.RecordBatch]:
        """The rows; raises unless every measured unit has every query once."""
        seen = np.zeros((len(self.units.ids), len(self.layouts)), np.int64)
        for batch in self._rows():
            np.add.at(seen, (batch.column("unit").to_numpy(), batch.column("query").to_numpy()), 1)
            yield batch
        wrong = seen != self.units.measured[:, None]
        if wrong.any():
            unit, query = (int(place[0]) for place in np.nonzero(wrong))
            raise InputError(
                "measurements/times",
                where=Place(file=f"{layout.level_folder(self.units.name)}/{layout.DP_QUERY}"),
                wrong=int(wrong.sum()),
                query_name=self.layouts[query].query_name,
                seen=int(seen[unit, query]),
                id=str(self.units.ids[unit]),
            )

    def _rows(self) -> Iterator[pa.RecordBatch]:
        names = pa.array(list(self.numbers))
        order = np.array(list(self.numbers.values()))
        exact = self.folder.has_everywhere(self.units.name, layout.DP_QUERY, SIGMA2)
        known: dict[Any, float] = {}

        def variance(said: Any) -> float:
            return weighting_variance(DiscreteGaussian(said)) if exact else float(said)

        columns = ["geocode", "query_name", "query_shape", "value", SIGMA2 if exact else VARIANCE]
        for file, batch in self.folder.batches(self.units.name, layout.DP_QUERY, columns, ROWS_AT_ONCE):
            table = pa.table(batch)
            table = table.filter(pc.is_in(table.column("query_name"), value_set=names)).combine_chunks()
            if not table.num_rows:
                continue
            unit = self.units.numbers(table.column("geocode"))
            query = order[pc.index_in(table.column("query_name"), value_set=names).to_numpy()]
            weights = variances_in(table.column(columns[-1]), variance, known, Place(file=file.name)).view(np.int64)
            for number in np.unique(query).tolist():
                rows = np.flatnonzero(query == number)
                values = self._values(table.take(pa.array(rows)), self.layouts[number], file)
                offsets = pa.array(np.arange(len(rows) + 1) * values.shape[1], pa.int32())
                listed = pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))
                yield pa.record_batch(
                    [pa.array(unit[rows]), pa.array(query[rows]), pa.array(weights[rows]), listed], schema=READ
                )

    def _values(self, table: pa.Table, form: layout.QueryLayout, file: Path) -> Integers:
        """The counts of some rows of one query: rows x cells."""
        for shape in _distinct(table.column("query_shape").combine_chunks()):
            if prod(shape) != form.cells or _sizes(shape) != _sizes(form.shape):
                raise InputError(
                    "measurements/measurement-another-shape",
                    where=Place(file=file.name),
                    found=str(list(shape)),
                    query_name=form.query_name,
                    shape=list(form.shape),
                )
        return whole_values(table.column("value"), form.cells, form.query_name, Place(file=file.name))


def level_reader(
    folder: MeasurementFolder,
    units: UnitsOfLevel,
    level_strategy: LevelStrategy,
    schema: Schema,
    recodes: Mapping[str, str],
) -> LevelReader:
    """The measurements of a level. Queries are known by their variables, in whatever order they are named."""
    layouts = tuple(
        layout.query_layout(schema, one.name, one.query, layout.FileLayout()) for one in level_strategy.queries
    )
    ours = {theirs: own for own, theirs in recodes.items()}
    everything = frozenset(attribute.name for attribute in schema.attributes)
    wanted = {_parts(form.name, {}, everything): number for number, form in enumerate(layouts)}
    numbers = {
        name: wanted[parts]
        for name in _names(folder, units.name)
        if (parts := _parts(layout.plain(name), ours, everything)) in wanted
    }
    missing = [layouts[number] for number in set(range(len(layouts))) - set(numbers.values())]
    if missing and units.measured.any():
        raise InputError(
            [
                Finding.of(
                    "measurements/measured",
                    where=Place(file=f"{layout.level_folder(units.name)}/{layout.DP_QUERY}"),
                    layout=form.name,
                    folder=", ".join(sorted(_names(folder, units.name))),
                    query_name=form.query_name,
                )
                for form in missing
            ]
        )
    return LevelReader(folder, units, layouts, numbers)


def _parts(name: str, ours: Mapping[str, str], everything: frozenset[str]) -> frozenset[str]:
    """The variables of a query by name; recodes by our names."""
    if name == DETAILED:
        return everything
    return frozenset(ours.get(part, part) for part in layout.in_any_order(name, ""))


def _names(folder: MeasurementFolder, level: str) -> set[str]:
    names: set[str] = set()
    for file in folder.files[level][layout.DP_QUERY]:
        column = pq.read_table(file, columns=["query_name"], partitioning=None).column(0)
        names |= set(pc.unique(column).to_pylist())
    return names


def _distinct(shapes: pa.ListArray) -> set[tuple[int, ...]]:
    return {tuple(shape or ()) for shape in shapes.to_pylist()}


def _sizes(shape: Sequence[int]) -> list[int]:
    """A shape without the attributes that are summed out."""
    return [size for size in shape if size != 1]


# Constraints read back from a measurement file: counts of the frame in every block, and totals that are known.
#
# Limits are multiples of counts of the frame (``constraints``), so the constraints of the blocks tell these counts;
# the limits of every level follow from them as they do in a release from records. They are compared with the file.


CONSTRAINT_ROWS_AT_ONCE = 1 << 16

Columns = dict[str, Integers]


def frame_columns(folder: MeasurementFolder, strategy: Strategy, blocks: UnitsOfLevel) -> Columns:
    """The counts of the frame that the constraints of the blocks tell, in the order of the blocks.

    A limit is a multiple of its count. Where several bounds of one side limit a group, the file has the tightest of
    them in each block, which tells none of the counts.
    """
    constraints = strategy.constraints
    bounds_of = Counter(
        (bound.variable.name, bound.side, group) for bound in constraints.bounds for group in bound.frame
    )
    form = layout.FileLayout.of(strategy)
    columns: Columns = {}
    for invariant in constraints.invariants:
        if invariant.frame and (rows := _values(folder, blocks, _name_of(invariant, form))) is not None:
            columns |= {column: rows[:, number] for number, column in enumerate(invariant.frame)}
    for bound in sorted(constraints.bounds, key=lambda bound: bound.side is Side.LOWER):
        rows = _values(folder, blocks, layout.limit_names(bound.variable.name, form)[bound.side is Side.UPPER])
        if rows is not None:
            for group, column in bound.frame.items():
                if bounds_of[bound.variable.name, bound.side, group] == 1:
                    columns.setdefault(column, rows[:, group] // bound.per_unit)
    return columns


def check_limits(folder: MeasurementFolder, strategy: Strategy, blocks: UnitsOfLevel, columns: Columns) -> None:
    """Raises unless the limits that follow from these counts are those of the file."""
    constraints, form, findings = strategy.constraints, layout.FileLayout.of(strategy), []
    for query in constraints.limited:
        limited = strategy.query(query)
        least, largest = constraints.limits(query, limited.cells, columns)
        names = {layout.told_name(query, form): largest}
        if query not in layout.told_queries(constraints):
            names = dict(zip(layout.limit_names(query, form), (least, largest), strict=True))
        for name, expected in names.items():
            rows = _values(folder, blocks, name)
            if rows is None:
                continue
            wrong = np.flatnonzero((rows != expected).any(axis=1))
            if len(wrong):
                findings.append(
                    Finding.of(
                        "measurements/strategy",
                        where=Place(file=f"{layout.level_folder(blocks.name)}/{layout.CONSTRAINT}"),
                        name=name,
                        wrong=len(wrong),
                        id=str(blocks.ids[wrong[0]]),
                    )
                )
    if findings:
        raise InputError(findings)


def known_totals_of(
    folder: MeasurementFolder,
    strategy: Strategy,
    levels: list[UnitsOfLevel],
    spine: TopDownSpine,
    given: Mapping[str, int],
) -> dict[str, pa.Table]:
    """For each level with known numbers of records: unit, cell (what is known together) and n.

    ``given`` has totals by official code, on the level of the invariant, for files that do not have them.
    """
    if "total" in layout.told_queries(strategy.constraints) or not strategy.total_is_invariant:
        return {}
    totals = {}
    for units, level in zip(levels, spine.levels, strict=True):
        table = _given(strategy, spine, level, given) if given else _known(folder, units)
        if table is not None:
            totals[level.name] = table
    return totals


def root_total(strategy: Strategy, totals: Mapping[str, pa.Table], columns: Columns, root: str) -> int | None:
    """The number of records, where it is an invariant."""
    if not strategy.total_is_invariant:
        return None
    for invariant in strategy.constraints.invariants:
        if invariant.query == "total" and invariant.frame:
            return int(columns[invariant.frame[0]].sum())
    if root in totals:
        return int(totals[root].column("n")[0].as_py())
    raise InputError(
        "no-total/strategy",
        where=Place(file=f"{layout.level_folder(root)}/{layout.CONSTRAINT}"),
        known_total=layout.KNOWN_TOTAL,
    )


def _known(folder: MeasurementFolder, units: UnitsOfLevel) -> pa.Table | None:
    """The known totals of the file. A total is of one unit, or of several with ``+`` between their ids."""
    unit: list[int] = []
    cell: list[int] = []
    n: list[int] = []
    place: dict[str, int] = {}
    for _, batch in folder.batches(
        units.name, layout.CONSTRAINT, ["geocode", "query_name", "value"], CONSTRAINT_ROWS_AT_ONCE
    ):
        rows = pa.table(batch).filter(pc.equal(batch.column("query_name"), layout.KNOWN_TOTAL))
        if rows.num_rows and not place:
            place = {str(id_): number for number, id_ in enumerate(units.ids)}
        for geocode, value in zip(rows.column("geocode").to_pylist(), rows.column("value").to_pylist(), strict=True):
            members = [place.get(id_, -1) for id_ in geocode.split(layout.TOGETHER)]
            if min(members) < 0 or len(value) != 1:
                raise InputError(
                    "measurements/total-units",
                    where=Place(file=f"{layout.level_folder(units.name)}/{layout.CONSTRAINT}"),
                    found=repr(geocode),
                )
            unit += members
            # What is known together has the number of its first unit: an order that no writer decides.
            cell += [min(members)] * len(members)
            n += [int(value[0])] * len(members)
    if not unit:
        return None
    order = np.argsort(unit)
    if not np.array_equal(np.array(unit)[order], np.arange(len(units.ids))):
        raise InputError(
            "measurements/units-total-others",
            where=Place(file=f"{layout.level_folder(units.name)}/{layout.CONSTRAINT}"),
        )
    return pa.table({"unit": np.array(unit)[order], "cell": np.array(cell)[order], "n": np.array(n)[order]})


def _given(strategy: Strategy, spine: TopDownSpine, level: TopDownLevel, given: Mapping[str, int]) -> pa.Table | None:
    lowest = invariant_level(strategy)
    if lowest is None or spine.level(lowest).official is None:
        raise InputError("no-total-level", where=Place(path="data.totals"), lowest=lowest)
    codes = spine.frame.level(lowest).codes
    missing = [
        codes[number] for number in np.unique(spine.official_of_block(lowest)).tolist() if codes[number] not in given
    ]
    if missing:
        raise InputError(
            "no-total/units",
            where=Place(path="data.totals"),
            missing=len(missing),
            lowest=lowest,
            missing_found=missing[0],
        )
    together = known_together(strategy, level)
    if together is None:
        return None
    number = np.array([given.get(code, 0) for code in codes], np.int64)
    pairs = np.unique(
        np.stack([together[spine.unit_of_block(level.name)], spine.official_of_block(lowest)], axis=1), axis=0
    )
    n = np.zeros(int(together.max()) + 1, np.int64)
    np.add.at(n, pairs[:, 0], number[pairs[:, 1]])
    return pa.table({"unit": np.arange(level.units), "cell": together, "n": n[together]})


def _name_of(invariant: Invariant, form: layout.FileLayout) -> str:
    """The name that the counts of an invariant have."""
    return layout.frame_name(invariant) if invariant.query is None else layout.told_name(invariant.query, form)


def _values(folder: MeasurementFolder, units: UnitsOfLevel, name: str) -> Integers | None:
    """The values of one constraint in every unit, or none if it is not in the file."""
    result: Integers | None = None
    seen = np.zeros(len(units.ids), np.int64)
    for _, batch in folder.batches(
        units.name, layout.CONSTRAINT, ["geocode", "query_name", "value"], CONSTRAINT_ROWS_AT_ONCE
    ):
        column = batch.column("query_name")
        same = [text for text in pc.unique(column).to_pylist() if text and _same(text, name)]
        rows = pa.table(batch).filter(pc.is_in(column, value_set=pa.array(same, pa.string()))).combine_chunks()
        if not rows.num_rows:
            continue
        unit = units.numbers(rows.column("geocode"))
        listed = rows.column("value").combine_chunks()
        widths = np.unique(pc.list_value_length(listed).to_numpy())
        if len(widths) != 1 or (unit < 0).any() or (result is not None and result.shape[1] != widths[0]):
            raise InputError(
                "measurements/fit",
                where=Place(file=f"{layout.level_folder(units.name)}/{layout.CONSTRAINT}"),
                name=name,
            )
        if result is None:
            result = np.zeros((len(units.ids), int(widths[0])), np.int64)
        values = pc.fill_null(listed.flatten().cast(pa.int64()), int(NO_LIMIT))
        result[unit] = values.to_numpy().reshape(len(unit), -1)
        np.add.at(seen, unit, 1)
    if result is not None and (seen != 1).any():
        raise InputError(
            "measurements/constraints-strategy-row",
            where=Place(file=f"{layout.level_folder(units.name)}/{layout.CONSTRAINT}"),
            name=name,
            several=(seen != 1).sum(),
        )
    return result


def _same(one: str, other: str) -> bool:
    """Whether two names of constraints have the same variables, in whatever order."""
    return layout.in_any_order(one, layout.CONSTRAINT_SUFFIX) == layout.in_any_order(other, layout.CONSTRAINT_SUFFIX)
