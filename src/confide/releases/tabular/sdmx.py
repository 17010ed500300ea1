"""Tables in SDMX-CSV 2.0, written and read.

The format has a row for each observation, under the codes of the code lists in ``sdmx/structure.json``:

    STRUCTURE, STRUCTURE_ID, ACTION, dimensions, OBS_VALUE, attributes

A dimension is the level, the area, or a variable. Heads and values of dimensions have identifier and name, such as
``01: North`` (the form ``labels=both`` of the standard): so no program takes ``01`` for a number. Identifiers are the
codes as far as SDMX takes them (letters, digits, ``_ @ $ -``), with ``_`` in place of what it does not take. The figure
of a table is the observation; what stands beside it (noise margin, variance) are its attributes. A status becomes two
attributes with the codes of SDMX: ``OBS_STATUS`` (``A`` normal, ``Q`` missing because it is suppressed) and
``CONF_STATUS`` (``F`` free, ``C`` confidential; for whose sake is not said). References: SDMX 3.0, section 3 (SDMX-CSV
2.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from confide.errors import ConfideError
from confide.releases.tabular import coded
from confide.releases.tabular.rows import OBSERVATION, read_columns, repeated
from confide.schema import TOTAL, TOTAL_CODE

STRUCTURE, STRUCTURE_ID, ACTION = "STRUCTURE", "STRUCTURE_ID", "ACTION"
BETWEEN = ": "
"""Stands between identifier and name."""
KIND = "datastructure"
"""What rows refer to: a table has a data structure of its own."""
INFORMATION = "I"
"""The action of rows that inform: whoever loads them decides whether they replace others."""
OBSERVATION_STATUS, CONFIDENTIALITY = "OBS_STATUS", "CONF_STATUS"
STATUS_CODES: Mapping[str, Mapping[str, str]] = {
    OBSERVATION_STATUS: {coded.PUBLISHED: "A", coded.SUPPRESSED: "Q"},
    CONFIDENTIALITY: {coded.PUBLISHED: "F", coded.SUPPRESSED: "C"},
}
"""For each attribute that a status becomes its codes."""
_NO_CODE, _NO_NAME = re.compile(r"[^A-Za-z0-9_@$-]"), re.compile(r"[^A-Za-z0-9_]")


def flow_name(name: str) -> str:
    """The identifier of a table in SDMX."""
    return name.upper().replace("-", "_")


@cache
def sdmx_codes(codes: tuple[str, ...]) -> tuple[str, ...]:
    """The identifiers of codes in SDMX: the codes themselves where they can be, numbers where two would be one.

    >>> sdmx_codes(("0-14", "65+")), sdmx_codes(("a+", "a-", "a "))
    (('0-14', '65_'), ('a_', 'a-', '3'))
    """
    names: list[str] = []
    for number, code in enumerate(codes, start=1):
        name = _NO_CODE.sub("_", code) or str(number)
        names.append(name if name not in (*names, TOTAL_CODE) else str(number))
    return tuple(names) if len(set(names)) == len(names) else tuple(str(at) for at in range(1, len(codes) + 1))


def sdmx_name(column: str) -> str:
    """The identifier of a column in SDMX: ``age:five-year`` is ``AGE_FIVE_YEAR``."""
    name = _NO_NAME.sub("_", column.upper())
    return name if name[:1].isalpha() else f"V_{name}"


def sdmx_columns(columns: coded.CodedColumns, figures: Sequence[pa.Field]) -> pa.Schema:
    """The columns of a table in SDMX-CSV 2.0. The first figure is the observation, the others are attributes."""
    titles = {variable.name: variable.title for variable in columns.variables}
    dimensions = [f"{sdmx_name(name)}{BETWEEN}{titles.get(name) or name}" for name in columns.keys]
    text = [STRUCTURE, STRUCTURE_ID, ACTION, *dimensions]
    first, *others = figures
    fields = [pa.field(OBSERVATION, first.type)]
    for each in others:
        fields += [pa.field(name, each.type) for name in sdmx_attributes(each.name)]
    return pa.schema([*(pa.field(name, pa.string(), nullable=False) for name in text), *fields])


def sdmx_attributes(figure: str) -> list[str]:
    """The attributes that a column of figures becomes: one of its name, or those of a status."""
    return [*STATUS_CODES] if figure == coded.STATUS else [sdmx_name(figure)]


def sdmx_batches(
    rows: Iterator[pa.RecordBatch],
    columns: coded.CodedColumns,
    schema: pa.Schema,
    agency: str,
    table: str,
    names: coded.AreaNames | None,
) -> Iterator[pa.RecordBatch]:
    """Rows with labels as observations."""
    for batch in rows:
        texts = [KIND, f"{agency}:{flow_name(table)}(1.0)", INFORMATION]
        arrays = [repeated(text, batch.num_rows) for text in texts]
        if columns.areas:
            level, area = (coded.of_type(batch.column(name), pa.string()) for name in (coded.LEVEL, coded.AREA))
            named = area if names is None else names.column(level, area)
            named = pc.if_else(pc.equal(named, ""), area, named)
            arrays += [_both(level, level), _both(area, named)]
        for variable in columns.variables:
            place = pc.index_in(batch.column(variable.name), pa.array([TOTAL_CODE, *variable.known_by], pa.string()))
            arrays.append(pa.array(_both_texts(variable), pa.string()).take(place))
        for name in [name for name in batch.schema.names if name not in columns.keys]:
            figures = batch.column(name)
            arrays += (
                [_translated(figures, codes) for codes in STATUS_CODES.values()] if name == coded.STATUS else [figures]
            )
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _both(codes: pa.Array, names: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(codes, names, BETWEEN)


def _translated(texts: pa.Array | pa.ChunkedArray, codes: Mapping[str, str]) -> pa.Array | pa.ChunkedArray:
    """Each text by its code; none for one that has no code."""
    return pc.take(pa.array(list(codes.values()), pa.string()), pc.index_in(texts, pa.array(list(codes), pa.string())))


def _both_texts(variable: coded.CodedVariable) -> list[str]:
    """For the total and each group its identifier and its name."""
    pairs = zip(sdmx_codes(variable.codes), variable.labels, strict=True)
    return [f"{TOTAL_CODE}{BETWEEN}{TOTAL}", *(f"{code}{BETWEEN}{label}" for code, label in pairs)]


def check_area_codes(codes: Iterable[str]) -> None:
    """Refuses codes of areas that could not be told from their names in SDMX-CSV."""
    wrong = next((code for code in codes if BETWEEN in code), None)
    if wrong is not None:
        raise ConfideError("sdmx-code", found=repr(wrong))


def read_observations(
    path: Path, table: str, columns: coded.CodedColumns, figures: Mapping[str, pa.DataType], *, gaps: bool = False
) -> pa.Table:
    """A file of observations, as rows with labels. Raises :class:`UnlikePlanError`."""
    fields = [pa.field(name, kind) for name, kind in figures.items()]
    schema = sdmx_columns(columns, fields)
    rows = read_columns(path, {field.name: field.type for field in schema}, gaps=gaps)
    check_flow(rows.column(STRUCTURE_ID), table)
    for name, text in ((STRUCTURE, KIND), (ACTION, INFORMATION)):
        if any(other != text for other in rows.column(name).unique().to_pylist()):
            raise coded.UnlikePlanError(f"{name} is not {text}")
    if coded.STATUS in figures:
        rows = _with_status(rows)
    rows = rows.select(range(3, len(rows.column_names))).rename_columns([*columns.keys, *figures])
    for name in (coded.LEVEL, coded.AREA) if columns.areas else ():
        codes = pc.list_element(pc.split_pattern(rows.column(name), BETWEEN, max_splits=1), 0)
        rows = rows.set_column(rows.column_names.index(name), name, codes)
    for variable in columns.variables:
        at = rows.column_names.index(variable.name)
        place = pc.index_in(rows.column(at), pa.array(_both_texts(variable), pa.string()))
        if place.null_count:
            raise coded.UnlikePlanError(f"{variable.name} has a code that the plan lacks")
        known_by = pa.array([TOTAL_CODE, *variable.known_by], pa.string())
        rows = rows.set_column(at, variable.name, pc.take(known_by, place))
    return rows


def check_flow(column: pa.ChunkedArray, table: str) -> None:
    """Raises unless all rows are of the data flow of a table."""
    flows = column.unique().to_pylist()
    known = rf"[A-Za-z][\w-]*:{re.escape(flow_name(table))}\(1\.0\)"
    if len(flows) > 1 or not all(re.fullmatch(known, flow) for flow in flows):
        raise coded.UnlikePlanError("the data flow is not that of the table")


def _with_status(rows: pa.Table) -> pa.Table:
    """Observations with one column of statuses in place of the attributes of SDMX, which must agree."""
    statuses = [
        _translated(rows.column(name), {code: status for status, code in codes.items()})
        for name, codes in STATUS_CODES.items()
    ]
    if any(status.null_count or not status.equals(statuses[0]) for status in statuses):
        raise coded.UnlikePlanError("a status is none that a cell can have, or the two of an observation do not agree")
    at = rows.column_names.index(OBSERVATION_STATUS)
    return rows.drop_columns([CONFIDENTIALITY]).set_column(at, coded.STATUS, statuses[0])
