"""Constraints read back from a measurement file: counts of the frame in every block, and totals that are known.

Limits are multiples of counts of the frame (``constraints``), so the constraints of the blocks tell these counts; the
limits of every level follow from them as they do in a release from records. They are compared with the file.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confide.errors import Finding, InputError, Place
from confide.geography.topdown_tree import TopDownLevel, TopDownSpine
from confide.topdown.measurements.constraint_rows import KNOWN_TOTAL, frame_name, limit_names, told_name, told_queries
from confide.topdown.measurements.folder import MeasurementFolder, UnitsOfLevel
from confide.topdown.measurements.layout import CONSTRAINT, TOGETHER, level_folder, query_layout
from confide.topdown.records.invariant_totals import invariant_level, known_together
from confide.topdown.strategies.constraints import NO_LIMIT, Side
from confide.topdown.strategies.strategy import Strategy

ROWS_AT_ONCE = 1 << 16

Integers = NDArray[np.int64]
Columns = dict[str, Integers]


def frame_columns(folder: MeasurementFolder, strategy: Strategy, blocks: UnitsOfLevel) -> Columns:
    """The counts of the frame that the constraints of the blocks tell, in the order of the blocks."""
    constraints = strategy.constraints
    known: Columns = {}
    for invariant in constraints.invariants:
        if (
            invariant.frame
            and (rows := _values(folder, blocks, _name(invariant.query) or frame_name(invariant))) is not None
        ):
            order = np.arange(len(invariant.frame))
            if invariant.query is not None:
                order = query_layout(strategy.schema, invariant.query, strategy.query(invariant.query)).order
            known |= {invariant.frame[place]: rows[:, number] for number, place in enumerate(order.tolist())}
    for bound in sorted(constraints.bounds, key=lambda bound: bound.side is Side.LOWER):
        rows = _values(folder, blocks, limit_names(bound.variable.name)[bound.side is Side.UPPER])
        if rows is not None:
            for group, column in bound.frame.items():
                known.setdefault(column, rows[:, group] // bound.per_unit)
    return known


def check_limits(folder: MeasurementFolder, strategy: Strategy, blocks: UnitsOfLevel, columns: Columns) -> None:
    """Raises unless the limits that follow from these counts are those of the file."""
    constraints, findings = strategy.constraints, []
    for query in constraints.limited:
        asked = strategy.query(query)
        layout = query_layout(strategy.schema, query, asked)
        least, largest = constraints.limits(query, asked.cells, columns)
        names = {told_name(query): largest} if query in told_queries(constraints) else {}
        names = names or dict(zip(limit_names(query), (least, largest), strict=True))
        for name, expected in names.items():
            rows = _values(folder, blocks, name)
            if rows is None:
                continue
            wrong = np.flatnonzero((rows != expected[:, layout.order]).any(axis=1))
            if len(wrong):
                what = f"{name!r} is not what the strategy makes of the frame in {len(wrong):,} blocks"
                findings.append(_finding(blocks.name, what, f"the first {str(blocks.ids[wrong[0]])!r}"))
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
    if "total" in told_queries(strategy.constraints) or not strategy.total_is_invariant:
        return {}
    found = {}
    for units, level in zip(levels, spine.levels, strict=True):
        table = _given(strategy, spine, level, given) if given else _known(folder, units)
        if table is not None:
            found[level.name] = table
    return found


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
        Finding(
            code="no-total",
            what="the number of records is an invariant of the strategy, and nobody tells it",
            where=Place(file=f"{level_folder(root)}/{CONSTRAINT}"),
            found=f"no row {KNOWN_TOTAL!r}",
            expected="the number of records of the root",
            remedy="give it in the spec: [data.totals], a line CODE = NUMBER for each unit that it is an invariant of",
        )
    )


def _known(folder: MeasurementFolder, units: UnitsOfLevel) -> pa.Table | None:
    """The known totals of the file. A total is of one unit, or of several with ``+`` between their ids."""
    unit: list[int] = []
    cell: list[int] = []
    n: list[int] = []
    place: dict[str, int] = {}
    for _, batch in folder.batches(units.name, CONSTRAINT, ["geocode", "query_name", "value"], ROWS_AT_ONCE):
        rows = pa.table(batch).filter(pc.equal(batch.column("query_name"), KNOWN_TOTAL))
        if rows.num_rows and not place:
            place = {str(id_): number for number, id_ in enumerate(units.ids)}
        for geocode, value in zip(rows.column("geocode").to_pylist(), rows.column("value").to_pylist(), strict=True):
            members = [place.get(id_, -1) for id_ in geocode.split(TOGETHER)]
            if min(members) < 0 or len(value) != 1:
                raise InputError(_finding(units.name, "a total is of units that are not there", repr(geocode)))
            unit += members
            # What is known together has the number of its first unit: an order that no writer decides.
            cell += [min(members)] * len(members)
            n += [int(value[0])] * len(members)
    if not unit:
        return None
    order = np.argsort(unit)
    if not np.array_equal(np.array(unit)[order], np.arange(len(units.ids))):
        raise InputError(_finding(units.name, "some units have a known total, and others none or two", "some"))
    return pa.table({"unit": np.array(unit)[order], "cell": np.array(cell)[order], "n": np.array(n)[order]})


def _given(strategy: Strategy, spine: TopDownSpine, level: TopDownLevel, given: Mapping[str, int]) -> pa.Table | None:
    lowest = invariant_level(strategy)
    if lowest is None or spine.level(lowest).official is None:
        what = f"totals are given, and the frame has no level {lowest!r} that they are of"
        expected = f"a level {lowest!r} under [geography]"
        remedy = "declare the level, by its digits of the block code"
        raise InputError(Finding("no-total-level", what, Place(path="data.totals"), "no level", expected, remedy))
    codes = spine.frame.level(lowest).codes
    missing = [
        codes[number] for number in np.unique(spine.official_of_block(lowest)).tolist() if codes[number] not in given
    ]
    if missing:
        what, found = f"{len(missing):,} units of {lowest!r} have no total", f"none for {missing[0]!r}"
        raise InputError(Finding("no-total", what, Place(path="data.totals"), found, "a total for each", "add them"))
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


def _name(query: str | None) -> str | None:
    return None if query is None else told_name(query)


def _values(folder: MeasurementFolder, units: UnitsOfLevel, name: str) -> Integers | None:
    """The values of one constraint in every unit, or none if it is not in the file."""
    result: Integers | None = None
    seen = np.zeros(len(units.ids), np.int64)
    ids = pa.array(units.ids)
    for _, batch in folder.batches(units.name, CONSTRAINT, ["geocode", "query_name", "value"], ROWS_AT_ONCE):
        rows = pa.table(batch).filter(pc.equal(batch.column("query_name"), name)).combine_chunks()
        if not rows.num_rows:
            continue
        unit = pc.fill_null(pc.index_in(rows.column("geocode"), value_set=ids), -1).to_numpy()
        listed = rows.column("value").combine_chunks()
        widths = np.unique(pc.list_value_length(listed).to_numpy())
        if len(widths) != 1 or (unit < 0).any() or (result is not None and result.shape[1] != widths[0]):
            raise InputError(_finding(units.name, f"the rows {name!r} do not fit the units or each other", "others"))
        if result is None:
            result = np.zeros((len(units.ids), int(widths[0])), np.int64)
        values = pc.fill_null(listed.flatten().cast(pa.int64()), int(NO_LIMIT))
        result[unit] = values.to_numpy().reshape(len(unit), -1)
        np.add.at(seen, unit, 1)
    if result is not None and (seen != 1).any():
        raise InputError(
            _finding(units.name, f"{name!r} is not there once for every unit", f"{(seen != 1).sum():,} others")
        )
    return result


def _finding(level: str, what: str, found: str) -> Finding:
    return Finding(
        code="measurements",
        what=what,
        where=Place(file=f"{level_folder(level)}/{CONSTRAINT}"),
        found=found,
        expected="the constraints of the strategy, one row for each unit",
        remedy="give the measurements as they were published, or the strategy that they were made with",
    )
