"""Values, weights and contributors of the records of a magnitude table: read exactly, and every problem of them.

A value is a whole multiple of ``unit``, a weight of ``weight_unit``; both are whole numbers of these inside. A record
counts weight times value: what follows is in numbers of ``unit`` times ``weight_unit``. Records of one contributor,
where a column says whose they are, are one contribution to each cell.

Made-up records, for rehearsals and audits, have values, weights and contributors where the spec names them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.engines import Engine, Source
from confide.engines.protocol import identifier
from confide.errors import CONFIDENTIAL, Finding, Place, RunError
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.inputs.records import ROWS_NAMED, bad_record, count_rows
from confide.mechanisms.suppression.given.tables import GivenTablesProblem
from confide.mechanisms.suppression.programme import SuppressionProblem
from confide.mechanisms.suppression.spec import MOST_DIGITS, SuppressionData, digits_of, published_figures
from confide.releases.abilities import MadeUpRecords

VALUE, WEIGHT, CONTRIBUTOR = "record value", "record weight", "record contributor"

LARGEST_TOTAL = 1 << 61
"""All values of the records together, in units, or as they are published: beyond, sums would leave 64 bits."""


def expressions(engine: Engine, source: Source, data: SuppressionData) -> dict[str, str]:
    """SQL for what a record adds: whole numbers of the last digit that the unit has, and whose record it is."""
    columns = {VALUE: _digits_expression(engine, source, str(data.value), data.unit)}
    if data.weight is not None:
        columns[WEIGHT] = _digits_expression(engine, source, data.weight, data.weight_unit)
    if data.contributor is not None:
        columns[CONTRIBUTOR] = _text(source, data.contributor)
    return columns


@dataclass(frozen=True, eq=False)
class RecordMagnitudes:
    """What every record adds to its cells, in numbers of the figures' unit; confidential."""

    added: Integers = field(repr=False)
    person: Integers = field(repr=False)
    """Whose it is, as a number."""
    lowest: Integers = field(repr=False)
    """What everybody knows that it does not add less than: zero, or below zero as far as the spec says."""


def read_magnitudes(rows: pa.Table, data: SuppressionData) -> RecordMagnitudes:
    """The columns of :func:`expressions` as numbers."""
    value = _whole_units(rows.column(VALUE), data.unit)
    weight = np.ones(len(value), np.int64)
    if data.weight is not None:
        weight = _whole_units(rows.column(WEIGHT), data.weight_unit)
    person = np.arange(len(value), dtype=np.int64)
    if data.contributor is not None:
        codes = rows.column(CONTRIBUTOR).combine_chunks().dictionary_encode()
        person = np.asarray(codes.indices.to_numpy(zero_copy_only=False), np.int64)
    below = int((data.below_zero or 0) / data.unit)
    return RecordMagnitudes(value * weight, person, -below * weight)


def _whole_units(column: pa.ChunkedArray, unit: Fraction) -> Integers:
    step = int(unit * 10 ** (digits_of(unit) or 0))
    numbers: Integers = np.asarray(column.to_numpy(), np.int64) // step
    return numbers


# Every problem of the records.


def check_magnitudes(engine: Engine, source: Source, data: SuppressionData) -> list[Finding]:
    """Every problem of values, weights and contributors; none of them is shown."""
    findings = _check_number(engine, source, str(data.value), data.unit, "value")
    if not findings:
        findings += _signs(engine, source, data)
    if data.weight is not None:
        of_weight = _check_number(engine, source, data.weight, data.weight_unit, "weight")
        if not of_weight:
            weight = _digits_expression(engine, source, data.weight, data.weight_unit)
            rows = engine.first_rows(source, f"({weight}) <= 0", ROWS_NAMED)
            of_weight = [bad_record("bad-record/weight", source, data.weight, rows)] if rows else []
        findings += of_weight
    if data.contributor is not None:
        findings += _check_contributor(engine, source, data.contributor)
    return findings or _check_total(engine, source, data)


def _check_number(engine: Engine, source: Source, name: str, unit: Fraction, key: str) -> list[Finding]:
    theirs, kinds = source.theirs(name), engine.kinds(source)
    if kinds.get(theirs) not in ("integer", "text") and not _is_decimal(source, theirs):
        what, expected = f"there is no column of exact numbers for [data] {key}", "whole numbers, decimals, or text"
        found = "a column of another kind" if theirs in kinds else "no such column"
        remedy = f"name the column in [data] {key}; write its values as decimals or as text: a float is not exact"
        return [Finding(f"no-{key}", what, Place(file=source.file, column=theirs), found, expected, remedy)]
    rows = _not_numbers(engine, source, name, unit)
    if not rows:
        return []
    word = "unit" if key == "value" else "weight_unit"
    # Which unit would do, if one of fewer digits than we read does.
    finer = (Fraction(1, 10**digits) for digits in range(1, MOST_DIGITS + 1))
    enough = next((each for each in finer if not _not_numbers(engine, source, name, each)), None)
    return [bad_record("bad-record/multiple", source, name, rows, key=key, unit=unit, word=word, enough=enough)]


def _not_numbers(engine: Engine, source: Source, name: str, unit: Fraction) -> list[int]:
    number = _digits_expression(engine, source, name, unit)
    step = int(unit * 10 ** (digits_of(unit) or 0))
    return engine.first_rows(source, f"({number}) IS NULL OR ({number}) % {step} <> 0", ROWS_NAMED)


def _signs(engine: Engine, source: Source, data: SuppressionData) -> list[Finding]:
    name, value = str(data.value), _digits_expression(engine, source, str(data.value), data.unit)
    below = data.below_zero or Fraction(0)
    least = -int(below * 10 ** (digits_of(data.unit) or 0))
    rows = engine.first_rows(source, f"({value}) < {least}", ROWS_NAMED)
    return [bad_record("bad-record/negative", source, name, rows, below=below, least=-below)] if rows else []


def _check_contributor(engine: Engine, source: Source, name: str) -> list[Finding]:
    theirs, kinds = source.theirs(name), engine.kinds(source)
    if kinds.get(theirs) not in ("integer", "text"):
        place = Place(file=source.file, column=theirs)
        return [Finding.of("no-contributor", where=place, theirs_known=theirs in kinds)]
    rows = engine.first_rows(source, f"{identifier(theirs)} IS NULL OR trim({_text(source, name)}) = ''", ROWS_NAMED)
    return [bad_record("bad-record/no-contributor", source, name, rows)] if rows else []


def _check_total(engine: Engine, source: Source, data: SuppressionData) -> list[Finding]:
    """All values together must stay within 64 bits. An estimate is enough to tell: the bound is half of what fits."""
    of = expressions(engine, source, data)
    terms = [f"CAST(abs({of[VALUE]}) AS DOUBLE)", *([f"CAST({of[WEIGHT]} AS DOUBLE)"] if WEIGHT in of else [])]
    below = [f"{float((data.below_zero or 0) * 10 ** (digits_of(data.unit) or 0))}e0", *terms[1:]]
    sums = [f"coalesce(sum({' * '.join(factors)}), 0)" for factors in (terms, below)]
    _, _, totals = count_rows(engine, source, [], sums)
    in_digits = 10 ** (digits_of(data.figure_unit) or 0)
    if max(totals) < LARGEST_TOTAL // max(1, int(data.figure_unit * in_digits)):
        return []
    larger = data.unit * 1_000
    return [
        Finding.of(
            "values-too-large",
            where=Place(file=source.file, column=source.theirs(str(data.value))),
            found=CONFIDENTIAL,
            largest_total=LARGEST_TOTAL,
            figure_unit=data.figure_unit,
            larger=larger,
        )
    ]


def _digits_expression(engine: Engine, source: Source, name: str, unit: Fraction) -> str:
    """SQL for a number, times ten for each digit that multiples of the unit have; NULL where it has other digits."""
    digits = digits_of(unit) or 0
    text = f"trim({_text(source, name)})"
    before, rest = f"split_part({text}, '.', 1)", f"regexp_replace(split_part({text}, '.', 2), '0+$', '')"
    fits = f"length({rest}) <= {digits} AND split_part({text}, '.', 3) = '' AND {before} NOT IN ('', '+', '-')"
    shifted = f"concat({before}, rpad({rest}, {digits}, '0'))" if digits else before
    return engine.integer_text(f"(CASE WHEN {fits} THEN {shifted} END)")


def _text(source: Source, name: str) -> str:
    return f"CAST({identifier(source.theirs(name))} AS VARCHAR)"


def _is_decimal(source: Source, column: str) -> bool:
    if source.format != "parquet":
        return False
    schema = pq.read_schema(source.path)
    return column in schema.names and bool(pa.types.is_decimal(schema.field(column).type))


# Made-up records of a release by suppression: with values, weights and contributors where the spec names them.


RECORDS_OF_EACH = 1.5
"""How many records a contributor has in the mean, where a column says whose they are."""


def with_magnitudes(problem: SuppressionProblem, people: MadeUpPeople) -> pa.Table:
    """The records with a value each, most of them small and a few large, as turnover is.

    Args:
        problem: The prepared problem.
        people: The drawn people, or firms.

    Returns:
        The table of records.
    """
    data, theirs, number = problem.spec.data, problem.records.theirs, people.number
    table = people.table(theirs)
    if data.value is None:
        return table
    weight = np.ones(number, np.int64)
    if data.weight is not None:
        weight = people.random.integers(1, 4, size=number) * ceil(1 / data.weight_unit)
        table = table.append_column(theirs(data.weight), published_figures(weight, data.weight_unit))
    steps = int(data.unit * 10 ** (digits_of(data.unit) or 0)) * int(weight.max(initial=1))
    most = max(1, LARGEST_TOTAL // (100 * number * steps))
    size = np.minimum(np.exp(people.random.normal(6, 1.3, number)) / float(data.unit), most)
    table = table.append_column(theirs(data.value), published_figures(size.astype(np.int64), data.unit))
    if data.contributor is not None:
        whose = people.random.integers(max(1, int(number / RECORDS_OF_EACH)), size=number)
        table = table.append_column(theirs(data.contributor), pa.array([f"C{one}" for one in whose.tolist()]))
    return table


class SuppressionRehearsal(MadeUpRecords[SuppressionProblem]):
    """Made-up records, with values where the spec names them."""

    def record_form(self, problem: SuppressionProblem) -> RecordForm:
        if isinstance(problem, GivenTablesProblem):
            raise RunError("no-rehearsal/tables", where=Place(path="release.mechanism"), mechanism=self.mechanism.name)
        variables, block = problem.schema.variables, problem.spec.geography.block
        if problem.frame is None:
            return RecordForm(tuple(problem.attributes), variables)
        return RecordForm.on_spine(problem.attributes, variables, block, problem.frame.spine)

    def made_up_people(self, problem: SuppressionProblem, people: MadeUpPeople) -> pa.Table:
        return with_magnitudes(problem, people)
