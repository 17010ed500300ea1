"""Tables that were counted elsewhere: cells with their true counts and cell keys, perturbed as those of records are.

An office that tabulates by itself brings its cells: labels, a count, and the sum of the record keys of the members. The
noise of a cell is what the perturbation table has for its count and key, so the same members have the same noise here
and in a release from records with the same keys. Margins are rows like others. Which cells there are is as public as in
any table by cell keys: those that are published above zero are listed, in the order of their labels, which says nothing
of the order of the file.

A cell key is a whole number from 0 to below the number of keys, or a decimal from 0 to below 1, as other programs write
them: ``floor(key · keys)`` finds the same interval, as bounds are whole numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.confidential import Confidential
from confide.engines import Engine, Source, format_of
from confide.engines.protocol import identifier
from confide.errors import CONFIDENTIAL, Finding, InputError, Place, SpecError
from confide.inputs.frame import missing_columns
from confide.inputs.records import ROWS_NAMED, bad_record, records_fingerprint, wrong_type
from confide.mechanisms.cellkey.spec import CellKeySpec
from confide.mechanisms.cellkey.sums import CellSums
from confide.releases.spec import LoadedSpec

Integers = npt.NDArray[np.int64]
COUNT, KEY, WEIGHT = "cell/count", "cell/key", "cell/weight"
"""Columns of ours: no column of labels has a name with such a sign."""
WEIGHT_UNIT = 10**6
MOST_COUNT = 1 << 52
ENOUGH = 1_000
"""With fewer keys nothing is said of how they were drawn."""


@dataclass(frozen=True)
class GivenTable:
    """A table of given cells: the columns of its labels, and its file."""

    name: str
    title: str
    variables: tuple[str, ...]
    source: Source | None = None
    """The file; none for a table that is read from a plan."""

    def as_dict(self) -> dict[str, Any]:
        """For the plan: no label is in it, because labels are those of a confidential file."""
        return {"name": self.name, "title": self.title, "variables": list(self.variables)}

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> GivenTable:
        """The table that a plan describes."""
        return cls(values["name"], values["title"], tuple(values["variables"]))


def find_given(loaded: LoadedSpec, spec: CellKeySpec) -> tuple[GivenTable, ...]:
    """The tables of a spec with their files. Raises a :class:`SpecError` for each that is not there."""
    findings, tables = [], []
    for position, part in enumerate(spec.tables):
        path, place = loaded.resolve(str(part.cells)), loaded.place("tables", position, "cells")
        form = format_of(path)
        if not path.is_file() or form is None:
            what, expected = "there is no such file of cells", "a file that ends in .parquet or .csv"
            remedy = "correct the path; it is relative to the folder of the spec"
            findings.append(Finding("no-such-file", what, place, str(part.cells), expected, remedy))
            continue
        findings += _bad_names(loaded, spec, position)
        columns = {name: spec.data.columns.get(name, name) for name in part.variables}
        figures = {COUNT: spec.data.count, KEY: spec.data.cell_key, WEIGHT: spec.data.weight}
        columns |= {ours: theirs for ours, theirs in figures.items() if theirs is not None}
        source = Source(path, form, columns, spec.data.delimiter)
        tables.append(GivenTable(part.name, part.title or part.name, tuple(part.variables), source))
    if findings:
        raise SpecError(findings)
    return tuple(tables)


def _bad_names(loaded: LoadedSpec, spec: CellKeySpec, position: int) -> Iterator[Finding]:
    """Columns of labels that could be taken for figures, or for one another."""
    names = spec.tables[position].variables
    reserved = {"count", "weighted", "dataflow", "obs_value", "obs_value_weighted"}
    wrong = [
        name
        for name in names
        if name.lower() in reserved or not name.strip() or [each.lower() for each in names].count(name.lower()) > 1
    ]
    if wrong or not names:
        what = "the columns of labels are not fit for a table"
        expected = "at least one name, each once, none of " + ", ".join(sorted(reserved))
        remedy = "rename the column in the file, or map another name to it in [data] columns"
        place = loaded.place("tables", position, "variables")
        yield Finding("reserved-name", what, place, ", ".join(wrong) or "no variables", expected, remedy)


def given_fingerprint(tables: Sequence[GivenTable]) -> str:
    """SHA-256 of all files of cells, in the order of the tables."""
    digest = hashlib.sha256(b"confide/cells/v1")
    for table in tables:
        assert table.source is not None
        digest.update(records_fingerprint(table.source.path).encode())
    return digest.hexdigest()


def check_given(engine: Engine, table: GivenTable, modulus: int) -> list[Finding]:
    """Every problem of a file of cells."""
    assert table.source is not None
    source = table.source
    wanted = [*table.variables, *(name for name in (COUNT, KEY, WEIGHT) if name in source.columns)]
    missing = missing_columns(engine, source, wanted, confidential=True)
    if missing:
        return missing
    kinds = engine.kinds(source)
    wrong = [
        wrong_type(source, name, kinds, "counts" if name == COUNT else "cell keys", integer=True)
        for name in (COUNT, KEY)
        if kinds[source.theirs(name)] == "other"
    ]
    if wrong:
        return wrong
    try:
        sums, _ = read_given(engine, table, modulus).reveal("to check cells")
    except InputError as error:
        return list(error.findings)
    return _not_drawn(table, sums, modulus)


def read_given(engine: Engine, table: GivenTable, modulus: int) -> Confidential[tuple[CellSums, pa.Table]]:
    """The cells of a file in the order of their labels: counts, keys and weights; and the labels."""
    assert table.source is not None
    source = table.source
    names = [*table.variables, *(name for name in (COUNT, KEY, WEIGHT) if name in source.columns)]
    columns = ", ".join(f"CAST({identifier(source.theirs(name))} AS VARCHAR) AS {identifier(name)}" for name in names)
    rows = engine.sql(f"SELECT {columns} FROM cells", cells=source).reveal("to perturb given cells")
    findings: list[Finding] = []
    count = _numbers(source, rows, COUNT, findings, "a whole number of at least zero", MOST_COUNT)
    key = _keys(source, rows, modulus, findings)
    weight = _weights(source, rows, findings) if WEIGHT in names else None
    labels = rows.select(list(table.variables))
    findings += _bad_labels(source, labels)
    if not rows.num_rows:
        findings.append(
            Finding("no-records", "the file has no cells", Place(file=source.file), "0 rows", "a row a cell")
        )
    if findings:
        raise InputError(findings)
    order = np.asarray(pc.sort_indices(labels, [(name, "ascending") for name in table.variables]).to_numpy(), np.int64)
    findings += _repeated(source, labels, order)
    if findings:
        raise InputError(findings)
    number: Integers = np.arange(len(order), dtype=np.int64)
    sums = CellSums(number, count[order], key[order], None if weight is None else weight[order])
    return Confidential((sums, labels.take(pa.array(order))))


def _numbers(source: Source, rows: pa.Table, name: str, findings: list[Finding], expected: str, below: int) -> Integers:
    text = rows.column(name).combine_chunks()
    digits = pc.fill_null(pc.match_substring_regex(pc.utf8_trim_whitespace(text), r"^\+?\d{1,18}$"), fill_value=False)
    numbers = pc.cast(pc.if_else(digits, pc.utf8_trim_whitespace(text), "0"), pa.int64()).to_numpy()
    wrong = np.flatnonzero(~digits.to_numpy(zero_copy_only=False) | (numbers >= below))
    if len(wrong):
        findings.append(_bad(source, name, f"a {name.removeprefix('cell/')} is not one", expected, wrong))
    return np.asarray(numbers, np.int64)


def _keys(source: Source, rows: pa.Table, modulus: int, findings: list[Finding]) -> Integers:
    """Whole numbers; or, if one of them has a point, decimals from 0 to below 1, all of them."""
    texts = [(text or "").strip() for text in rows.column(KEY).to_pylist()]
    if not any("." in text or "e" in text.lower() for text in texts):
        return _numbers(source, rows, KEY, findings, f"a whole number from 0 to {modulus - 1:,}", modulus)
    keys: Integers = np.zeros(len(texts), np.int64)
    wrong = []
    for row, text in enumerate(texts):
        try:
            decimal = Decimal(text)
        except InvalidOperation:
            decimal = Decimal(-1)
        if decimal.is_finite() and 0 <= decimal < 1:
            keys[row] = int(Fraction(decimal) * modulus)
        else:
            wrong.append(row)
    if wrong:
        expected = f"a decimal from 0 to below 1; or a whole number from 0 to {modulus - 1:,} in every row"
        findings.append(_bad(source, KEY, "a cell key is not one", expected, wrong))
    return keys


def _weights(source: Source, rows: pa.Table, findings: list[Finding]) -> Integers:
    weights: Integers = np.zeros(rows.num_rows, np.int64)
    wrong = []
    for row, text in enumerate(rows.column(WEIGHT).to_pylist()):
        try:
            millionths = Fraction((text or "").strip()) * WEIGHT_UNIT
        except (ValueError, ZeroDivisionError):
            millionths = Fraction(-1)
        if 0 <= millionths < MOST_COUNT:
            weights[row] = (2 * millionths.numerator + millionths.denominator) // (2 * millionths.denominator)
        else:
            wrong.append(row)
    if wrong:
        expected = f"a number of at least zero and below {MOST_COUNT // WEIGHT_UNIT:,}"
        findings.append(_bad(source, WEIGHT, "a weighted count is not one", expected, wrong))
    return weights


def _bad_labels(source: Source, labels: pa.Table) -> Iterator[Finding]:
    for name in labels.column_names:
        column = labels.column(name).combine_chunks()
        broken = pc.match_substring_regex(pc.fill_null(column, ""), r"^\s*$|[\x00-\x1f\x7f]")
        wrong = np.flatnonzero(broken.to_numpy(zero_copy_only=False))
        if len(wrong):
            yield _bad(source, name, "a cell has no label", "a label in every row, on one line", wrong)


def _repeated(source: Source, labels: pa.Table, order: Integers) -> Iterator[Finding]:
    """Two rows with the same labels would be two figures of one cell."""
    ordered = labels.take(pa.array(order))
    same = np.ones(max(0, len(order) - 1), np.bool_)
    for column in ordered.columns:
        values = column.combine_chunks()
        same &= pc.equal(values.slice(1), values.slice(0, max(0, len(values) - 1))).to_numpy(zero_copy_only=False)
    if same.any():
        rows = np.sort(order[1:][same])
        yield _bad(source, labels.column_names[0], "a cell stands twice", "each combination of labels once", rows)


def _bad(source: Source, name: str, what: str, expected: str, rows: Sequence[int] | Integers) -> Finding:
    named = [int(row) + 1 for row in list(rows)[:ROWS_NAMED]]
    return bad_record(source, name, what, expected, named, code="bad-cell", remedy="correct the file of cells")


def _not_drawn(table: GivenTable, sums: CellSums, modulus: int) -> list[Finding]:
    """A warning if far too many keys, or too few, lie in the lower half. Keys of different cells are independent in
    pairs, so the chance that a quarter of n of them is out of place is at most 4/n."""
    keys = np.unique(sums.key[sums.count > 0])
    lower = int((keys < modulus // 2).sum())
    occupied = int((sums.count > 0).sum())
    few = occupied >= ENOUGH and modulus > 8 * ENOUGH and len(keys) < ENOUGH // 2
    if not few and (len(keys) < ENOUGH or modulus < 8 * ENOUGH or abs(2 * lower - len(keys)) <= len(keys) / 2):
        return []
    assert table.source is not None
    return [
        Finding(
            "keys-not-drawn",
            "the cell keys are not sums of evenly drawn record keys, so their noise would protect nobody",
            Place(file=table.source.file, column=table.source.theirs(KEY)),
            CONFIDENTIAL,
            f"sums modulo {modulus:,} of record keys that are drawn once",
            "name the column with the cell keys, and correct [cellkey] keys",
            severity="warning",
        )
    ]
