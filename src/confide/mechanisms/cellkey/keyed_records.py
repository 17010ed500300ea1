"""The records of a cell key release: checked without showing one, written as numbers with their keys, and counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.engines import Engine, identifier, write_parquet
from confide.engines.texts import misread_header
from confide.errors import CONFIDENTIAL, Finding, Place, RunError
from confide.exact import exact_text
from confide.file_system import private_folder
from confide.geography import OUTSIDE
from confide.inputs import records as inputs_records
from confide.inputs.frame import gather
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.cellkey.keys import CellSums, Lookup, lower_parts, nobody, of_records, uneven
from confide.mechanisms.cellkey.magnitudes import MagnitudeNoise
from confide.mechanisms.cellkey.programme import CellKeyProblem, Counted
from confide.mechanisms.cellkey.spec import DERIVED, UNSHUFFLED, WEIGHT_UNIT, new_order
from confide.releases.abilities import MadeUpRecords
from confide.schema import NO_GROUP, Query

# True counts, cell keys, weights and values of every cross-classification of a programme. Confidential.
#
# The records are read once, as numbers of levels, a batch at a time. For every table that is in no other, each batch is
# counted into the occupied cells; all other cross-classifications are sums of these. Cell keys are sums of record keys
# modulo the number of keys, which may be taken part by part. On a geolevel a cell is one of a unit: an area's cell has
# the sum of the keys of its own records, whatever table, level or release it is in.
#
# A recode may leave levels out: cells of that recode then have nobody of them, while margins that sum over it have
# everybody. A cross-classification is therefore summed from a larger one only if that leaves out nobody else.


BATCH = 1 << 20
"""Records at a time: key sums of a batch stay below 2**53, where floating-point sums of whole numbers are exact."""

KEY, WEIGHT, VALUE, BLOCK = "record/key", "record/weight", "record/value", "record/block"
"""Columns of ours: no attribute has a name with such a sign."""


def count_cells(problem: CellKeyProblem, coded: Path) -> Iterator[tuple[Counted, CellSums]]:
    """The sums of every distinct cross-classification, larger ones first. ``coded`` is the file of coded records."""
    keys, top = problem.modulus, None if problem.magnitude is None else problem.magnitude.top
    order = list(problem.counted())
    direct = [counted for counted in order if counted.larger is None or not _same_people(counted.query, counted.larger)]
    weighted = problem.spec.data.weight is not None and problem.magnitude is None
    sums = {counted.name: nobody(weighted=weighted, top=top) for counted in direct}
    for batch in pq.ParquetFile(coded).iter_batches(batch_size=BATCH):
        columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
        for counted in direct:
            units = None if counted.level is None else problem.unit_of_block[counted.level.name][columns[BLOCK]]
            more = count_records(counted.query, columns, units, counted.cells, top or 0)
            sums[counted.name] = sums[counted.name].plus(more, keys)
    of_level: dict[tuple[str | None, str], CellSums] = {}
    for counted in order:
        level = None if counted.level is None else counted.level.name
        if counted.name not in sums:
            assert counted.larger is not None
            larger = of_level[level, counted.larger.name]
            sums[counted.name] = larger.summed(counted.larger, counted.query, keys)
        of_level[level, counted.query.name] = sums[counted.name]
        yield counted, sums[counted.name]


def _same_people(query: Query, larger: Query) -> bool:
    """Whether the variables that are summed over leave nobody out."""
    names = {variable.name for variable in query.variables}
    return all((v.assignment != NO_GROUP).all() for v in larger.variables if v.name not in names)


def count_records(
    query: Query, columns: Mapping[str, Integers], units: Integers | None, cells: int, top: int = 0
) -> CellSums:
    """The sums of a batch of records, by cell of a query and, with ``units``, by the unit that each record lies in."""
    index: Integers = np.zeros(len(columns[KEY]), np.int64) if units is None else units
    inside: npt.NDArray[np.bool_] | None = None if units is None else units != OUTSIDE
    for variable in query.variables:
        group = variable.assignment[columns[variable.attribute.name]]
        if (variable.assignment == NO_GROUP).any():
            inside = (group != NO_GROUP) if inside is None else inside & (group != NO_GROUP)
        index = index * variable.size + group
    at = slice(None) if inside is None else np.flatnonzero(inside)
    weight, value = (columns[name][at] if name in columns else None for name in (WEIGHT, VALUE))
    return of_records(index[at], columns[KEY][at], weight, value, cells, top)


# True counts to published ones: the noise that a cell's key finds in the perturbation table.
#
#     published = n + v(n, key),   nothing for n = 0,   0 below a threshold
#
# Counts are looked up unweighted. A weighted figure is the published count times the mean weight of the cell's
# members (n + v) · W / n, in multiples of a step that is coarse enough for every count within D of the published one
# (``spec.weighted_step``).


@dataclass(frozen=True, eq=False)
class PerturbedFigures:
    """What is published of a cross-classification: no true count, key or noise. Cells that are not listed are zero."""

    cell: Integers
    figure: Integers
    """Counts; of magnitude tables values, in whole numbers of their last decimal."""
    weighted: Integers | None = None
    """In millionths."""

    def listed(self) -> PerturbedFigures:
        """The cells whose figure is not zero."""
        at = np.flatnonzero(self.figure)
        return PerturbedFigures(self.cell[at], self.figure[at], None if self.weighted is None else self.weighted[at])


def perturb(sums: CellSums, lookup: Lookup, threshold: int | None, step: int) -> PerturbedFigures:
    """The published figures of every cell.

    Args:
        sums: Members, keys and weights of every cell of a cross-classification.
        lookup: The perturbation table.
        threshold: What comes out below this is published as zero; None: nothing is.
        step: Weighted figures are multiples of so many millionths.

    Returns:
        One figure for each cell, in the same order.
    """
    occupied = np.flatnonzero(sums.count)
    published = np.zeros_like(sums.count)
    members = sums.count[occupied]
    published[occupied] = members + lookup.lookup(members, sums.key[occupied])
    if threshold is not None:
        published[published < threshold] = 0
    if sums.weight is None:
        return PerturbedFigures(sums.cell, published)
    weighted = np.zeros_like(published)
    weighted[occupied] = in_steps(scaled(published[occupied], sums.weight[occupied], members), step)
    return PerturbedFigures(sums.cell, published, weighted)


def perturb_cells(problem: CellKeyProblem, sums: CellSums) -> PerturbedFigures:
    """The published figures of every cell of a problem: counts, or values."""
    if problem.magnitude is None:
        return perturb(sums, problem.lookup, problem.spec.cellkey.threshold, problem.weighted_step)
    return PerturbedFigures(sums.cell, problem.magnitude.perturb(sums, value_scale(problem, problem.magnitude)))


def in_steps(figures: Integers, step: int) -> Integers:
    """Figures to the nearest multiple of a step; halfway upwards.

    >>> in_steps(np.array([0, 2, 3, 7, 8]), 5).tolist()
    [0, 0, 5, 5, 10]
    """
    nearest: Integers = (2 * figures + step) // (2 * step) * step
    return nearest


def value_scale(problem: CellKeyProblem, magnitude: MagnitudeNoise) -> int:
    """How many units of the added values are one: decimals, and millionths where they are weighted."""
    return magnitude.unit * (WEIGHT_UNIT if problem.spec.data.weight is not None else 1)


def scaled(published: Integers, weight: Integers, members: Integers) -> Integers:
    """published · weight / members to the nearest whole number, without leaving whole numbers."""
    quotient, remainder = np.divmod(weight, members)
    halves = (2 * remainder * published + members) // (2 * members)
    result: Integers = published * quotient + halves
    return result


# The records of a cell key release: checked without showing one, and written as numbers of levels with their keys.


EXACT_MILLIONTHS = 1 << 53
"""Up to here weighted figures, which are published as decimals, are exact to their last digit."""
TEN = 10
LARGEST_SUM = 1 << 62
"""The sum of all values, without their signs, stays within 64 bits."""


def check_keyed_records(engine: Engine, problem: CellKeyProblem, scratch: Path) -> list[Finding]:
    """Every problem of the records: columns, codes, areas, keys, weights and values."""
    source, data = problem.source, problem.spec.data
    kinds = engine.kinds(source)
    wanted = [attribute.name for attribute in problem.attributes]
    wanted += [data.record_key, *(name for name in (data.weight, data.value) if name)]
    wanted += [problem.spec.geography.block] if problem.frame is not None else []
    missing = [name for name in wanted if source.theirs(name) not in kinds]
    misread = misread_header(source, [source.theirs(name) for name in wanted], kinds) if missing else None
    if misread is not None:
        return [misread]
    if missing:
        return [_no_column(problem, name) for name in missing]
    wrong = _wrong_types(problem, kinds) or _key_of_another_use(problem)
    if wrong:
        return wrong
    expressions = coded_expressions(engine, problem)
    broken = {name: f"({expression}) IS NULL" for name, expression in expressions.items()}
    frame: dict[str, Path] = {}
    if problem.frame is not None:
        frame = {"frame": write_frame(problem, scratch)}
        broken[BLOCK] = f"{expressions[BLOCK]} IS NULL OR {expressions[BLOCK]} NOT IN (SELECT code FROM frame)"
    weights = "0"
    if WEIGHT in expressions:
        weight, most = f"CAST({expressions[WEIGHT]} AS DECIMAL(38, 0))", _most_noise(problem)
        weights = f"sum({weight}) + {most} * max({weight}) + {problem.weighted_step}"
    heavy = f"coalesce({weights}, 0) > {EXACT_MILLIONTHS}"
    values = f"sum(abs(CAST({expressions[VALUE]} AS DECIMAL(38, 0))))" if VALUE in expressions else "0"
    large = f"coalesce({values}, 0) > {LARGEST_SUM}"
    below = [
        f"coalesce(sum(CASE WHEN {expressions[KEY]} < {problem.record_keys[0] + keys} THEN 1 ELSE 0 END), 0)"
        for keys in _parts(problem)
    ]
    sums = [heavy, large, *below]
    records, breaks, others = inputs_records.count_rows(engine, source, [*broken.values()], sums, **frame)
    too_heavy, too_large, *lower = others
    if not records:
        return [Finding.of("no-records/contains", where=Place(file=source.file))]
    findings = []
    for (name, condition), number in zip(broken.items(), breaks, strict=True):
        if number:
            rows = engine.first_rows(source, condition, inputs_records.ROWS_NAMED, **frame)
            gather(engine, source, _ours(problem, name), condition, **frame)
            findings.append(_bad_rows(problem, name, rows, number))
    if too_heavy:
        findings.append(
            Finding.of(
                "too-heavy",
                where=Place(file=problem.source.file, column=problem.source.theirs(str(problem.spec.data.weight))),
                found=CONFIDENTIAL,
                problem=_most_noise(problem),
                exact_millionths=EXACT_MILLIONTHS // WEIGHT_UNIT,
            )
        )
    if too_large:
        findings.append(_too_large(problem))
    if not findings and _far_apart(engine, problem, expressions):
        findings.append(
            Finding.of(
                "weight-gap/farther",
                where=Place(file=problem.source.file, column=problem.source.theirs(str(problem.spec.data.weight))),
                found=CONFIDENTIAL,
                weight_gap=exact_text(problem.spec.data.weight_gap),
            )
        )
    if not findings and _in_tens(engine, problem, expressions):
        findings.append(
            Finding.of(
                "values-in-tens",
                where=Place(file=problem.source.file, column=problem.source.theirs(str(problem.spec.data.value))),
                found=CONFIDENTIAL,
                decimals=problem.spec.data.decimals,
            )
        )
    if not findings and _uneven(problem, records, [int(number) for number in lower]):
        findings.append(_not_drawn(problem))
    return findings


def write_coded(
    engine: Engine, problem: CellKeyProblem, into: Path, scratch: Path, only: Sequence[tuple[str, list[int]]] = ()
) -> None:
    """The records as numbers: of the level of each attribute, of the block, of the key, of weight and value.

    Args:
        engine: What reads the records.
        problem: The prepared problem.
        into: The file of coded records.
        scratch: A private folder for the frame.
        only: Attributes, and the levels of each whose records are written alone.
    """
    expressions = coded_expressions(engine, problem)
    columns = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in expressions.items())
    where = " AND ".join(f"{identifier(name)} IN ({', '.join(map(str, levels)) or 'NULL'})" for name, levels in only)
    text = f"SELECT {columns} FROM records"
    if problem.frame is None:
        chosen = f"SELECT * FROM ({text}) AS coded WHERE {where}" if where else text
        engine.write(chosen, into, records=problem.source)
        return
    own = ", ".join(f"coded.{identifier(name)}" for name in expressions if name != BLOCK)
    joined = (
        f"SELECT {own}, frame.block AS {identifier(BLOCK)} FROM ({text}) AS coded "
        f"JOIN frame ON coded.{identifier(BLOCK)} = frame.code" + (f" WHERE {where}" if where else "")
    )
    engine.write(joined, into, records=problem.source, frame=write_frame(problem, scratch))


def write_frame(problem: CellKeyProblem, folder: Path) -> Path:
    """The blocks with their numbers, as a file for joins."""
    path = private_folder(folder) / "frame.parquet"
    write_parquet(inputs_records.blocks_table(problem.spine).select(["code", "block"]), path)
    return path


def coded_expressions(engine: Engine, problem: CellKeyProblem) -> dict[str, str]:
    """SQL for each coded column, NULL where a record does not fit; for the block its code."""
    source, data = problem.source, problem.spec.data
    result = inputs_records.code_expressions(engine, source, problem.attributes, listed=True)
    key, allowed = inputs_records.integer_expression(engine, source, data.record_key), problem.record_keys
    result[KEY] = f"CASE WHEN {key} BETWEEN {allowed[0]} AND {allowed[-1]} THEN {key} END"
    millionths = None
    if data.weight is not None:
        weight = f"TRY_CAST({identifier(source.theirs(data.weight))} AS DECIMAL(18, 6))"
        # A product of narrow decimals would overflow from a million on.
        millionths = f"CAST(CAST({weight} AS DECIMAL(38, 6)) * {WEIGHT_UNIT} AS BIGINT)"
        millionths = f"CASE WHEN {weight} >= 0 THEN {millionths} END"
        if problem.magnitude is None:
            result[WEIGHT] = millionths
    if problem.magnitude is not None and data.value is not None:
        unit, negative = problem.magnitude.unit, problem.magnitude.part.negative
        value = f"TRY_CAST({identifier(source.theirs(data.value))} AS DECIMAL(18, {data.decimals}))"
        units = f"CAST(CAST({value} AS DECIMAL(38, {data.decimals})) * {unit} AS BIGINT)"
        contribution = (
            units if millionths is None else f"TRY_CAST({units} * CAST({millionths} AS DECIMAL(20, 0)) AS BIGINT)"
        )
        result[VALUE] = contribution if negative else f"CASE WHEN {value} >= 0 THEN {contribution} END"
        if not problem.magnitude.part.zero_keys:
            result[KEY] = f"CASE WHEN {value} = 0 THEN 0 ELSE {result[KEY]} END"
    if problem.frame is not None:
        block = problem.spec.geography.block
        result[BLOCK] = inputs_records.column_expressions(engine, source, (), block)[block]
    return result


def _parts(problem: CellKeyProblem) -> list[int]:
    """How many of all keys are below a half, a quarter, an eighth: of drawn keys, as large a share is there."""
    return lower_parts(len(problem.record_keys))


def _uneven(problem: CellKeyProblem, records: int, lower: Sequence[int]) -> bool:
    if problem.magnitude is not None and not problem.magnitude.part.zero_keys:
        return False  # keys of records without a contribution are left out here
    return uneven(records, lower, len(problem.record_keys))


def _not_drawn(problem: CellKeyProblem) -> Finding:
    data = problem.spec.data
    return Finding.of(
        "keys-not-drawn/record-evenly-noise",
        where=Place(file=problem.source.file, column=problem.source.theirs(data.record_key)),
        found=CONFIDENTIAL,
        record_keys=len(problem.record_keys),
    )


def _key_of_another_use(problem: CellKeyProblem) -> list[Finding]:
    """A finding if the keys are what the records say of people: whoever knows that knows the noise."""
    source, data = problem.source, problem.spec.data
    attributes = () if problem.schema is None else problem.schema.attributes
    others = [*(attribute.name for attribute in attributes), *(name for name in (data.weight, data.value) if name)]
    others += [problem.spec.geography.block] if problem.frame is not None else []
    named = (name for name in others if source.theirs(name) == source.theirs(data.record_key))
    return [replace(_not_drawn(problem), found=f"the column of {name!r}") for name in named][:1]


def _no_column(problem: CellKeyProblem, name: str) -> Finding:
    data = problem.spec.data
    remedy = "name the column in [data] columns, or correct the file"
    expected = "a column with the codes of the schema"
    if name == data.record_key:
        expected = "a key for each record"
        remedy = (
            f"draw keys once and keep them with the records: confide cellkey keys {data.records} --out KEYED.parquet "
            f"--keys {len(problem.record_keys)}" + (" --from 1" if problem.record_keys[0] else "")
        )
    elif problem.frame is not None and name == problem.spec.geography.block:
        expected = "a column with the block that each record lies in"
    elif name in (data.weight, data.value):
        expected = "a column of numbers"
    return Finding.of(
        "no-column/records-column",
        where=Place(file=problem.source.file, column=problem.source.theirs(name)),
        name=problem.source.theirs(name),
        expected=expected,
        remedy=remedy,
    )


def _wrong_types(problem: CellKeyProblem, kinds: Mapping[str, str]) -> list[Finding]:
    """Columns whose type cannot hold codes or keys."""
    source, key = problem.source, problem.spec.data.record_key
    integers = {attribute.name: attribute.is_integer for attribute in problem.attributes} | {key: True}
    wrong = [
        inputs_records.wrong_type(
            source, name, kinds, "keys" if name == key else "the codes of the attribute", integer=integer
        )
        for name, integer in integers.items()
        if kinds[source.theirs(name)] == "other" or (not integer and kinds[source.theirs(name)] != "text")
    ]
    block = problem.spec.geography.block
    if problem.frame is not None and kinds[source.theirs(block)] == "other":
        wrong.append(inputs_records.wrong_type(source, block, kinds, "the codes of blocks", integer=False))
    return wrong


def _far_apart(engine: Engine, problem: CellKeyProblem, expressions: Mapping[str, str]) -> bool:
    """Whether two neighbouring weights are farther apart than the spec says."""
    if WEIGHT not in expressions:
        return False
    text = (
        f"SELECT coalesce(max(gap), 0) AS gap FROM (SELECT weight - lag(weight) OVER (ORDER BY weight) AS gap "
        f"FROM (SELECT DISTINCT {expressions[WEIGHT]} AS weight FROM records) AS weights) AS gaps"
    )
    largest = engine.sql(text, records=problem.source).reveal("to see whether weighted figures are coarse enough")
    return Fraction(int(largest.column("gap")[0].as_py()), WEIGHT_UNIT) > problem.spec.data.weight_gap


def _in_tens(engine: Engine, problem: CellKeyProblem, expressions: Mapping[str, str]) -> bool:
    """Whether all values are multiples of ten of the last decimal that is published."""
    if VALUE not in expressions or problem.spec.data.weight is not None:
        return False
    value = expressions[VALUE]
    finer = f"sum(CASE WHEN {value} % {TEN} <> 0 THEN 1 ELSE 0 END)"
    text = f"SELECT {finer} AS other, max(abs({value})) AS most FROM records"
    row = engine.sql(text, records=problem.source).reveal("to see whether values are rounded more than their sums")
    return not row.column("other")[0].as_py() and bool(row.column("most")[0].as_py())


def _most_noise(problem: CellKeyProblem) -> int:
    """The largest noise of a count, D. A weighted figure (n + v) W / n is then at most W + D times the largest weight,
    since W / n, the mean of the cell's weights, is no larger than that."""
    return 0 if problem.ptable is None else ceil(problem.ptable.largest_noise)


def _too_large(problem: CellKeyProblem) -> Finding:
    assert problem.magnitude is not None
    return Finding.of(
        "too-large",
        where=Place(file=problem.source.file, column=problem.source.theirs(str(problem.spec.data.value))),
        found=CONFIDENTIAL,
        largest_sum=LARGEST_SUM // value_scale(problem, problem.magnitude),
    )


def _ours(problem: CellKeyProblem, name: str) -> str:
    """The column that an expression reads."""
    data, block = problem.spec.data, problem.spec.geography.block
    return {KEY: data.record_key, WEIGHT: str(data.weight), VALUE: str(data.value), BLOCK: block}.get(name, name)


def _bad_rows(problem: CellKeyProblem, name: str, rows: list[int], number: int) -> Finding:
    source, data = problem.source, problem.spec.data
    remedy = "correct the records, or the schema if that is wrong"
    if name == KEY:
        allowed = problem.record_keys
        what, expected = "a record key is not one", f"a whole number from {allowed[0]} to {allowed[-1]:,}"
    elif name == WEIGHT:
        what, expected = "a weight is not one", "a number of at least zero; decimals beyond the sixth are rounded"
    elif name == VALUE:
        least = "" if problem.magnitude is not None and problem.magnitude.part.negative else " of at least zero"
        what = "a value cannot be added up"
        expected = f"a number{least} with {data.decimals} decimals, others are rounded; [magnitude] negative = true"
        expected = expected if least else expected.split(";")[0]
    elif name == BLOCK:
        what, expected = "a record lies in a block that the block table does not list", "one of its blocks"
        remedy = "correct the records or the block table; or say what the code is now: [geography] aliases, or trim"
    else:
        attribute = next(candidate for candidate in problem.attributes if candidate.name == name)
        what, expected = "a code is not in the schema", attribute.describe_codes()
    return inputs_records.bad_record(
        "bad-record/number-first-2",
        source,
        _ours(problem, name),
        rows,
        number=number,
        what=what,
        with_number=number is not None,
        expected=expected,
        remedy=remedy,
    )


# Made-up records: with keys, and with weights and values where the spec names any.


def _hundredths(gap: Fraction) -> int:
    """Made-up weights are no farther apart than the spec says, however few people there are."""
    return max(1, min(200, int(100 * gap)))


def with_keys(problem: CellKeyProblem, people: MadeUpPeople) -> pa.Table:
    """The records with keys of their own. These protect nobody: nobody is there.

    Args:
        problem: The prepared problem.
        people: The drawn people.

    Returns:
        The table of records.
    """
    data, keys, theirs = problem.spec.data, problem.record_keys, problem.source.theirs
    drawn = people.random.integers(keys[0], keys[-1] + 1, size=people.number)
    table = people.table(theirs).append_column(theirs(data.record_key), pa.array(drawn))
    if data.weight is not None:
        hundredths = (100 + people.random.integers(0, _hundredths(data.weight_gap), size=people.number)).tolist()
        weights = [f"{number // 100}.{number % 100:02d}" for number in hundredths]
        table = table.append_column(theirs(data.weight), pa.array(weights))
    if data.value is not None and problem.magnitude is not None:
        largest = LARGEST_SUM // value_scale(problem, problem.magnitude) // (10 * people.number)
        size = np.minimum(np.exp(people.random.normal(8, 1.2, people.number)), max(largest, 1))
        values = [f"{number:.{data.decimals}f}" for number in size.tolist()]
        table = table.append_column(theirs(data.value), pa.array(values))
    return table


class CellKeyRehearsal(MadeUpRecords[CellKeyProblem]):
    """Made-up records with keys of their own."""

    def record_form(self, problem: CellKeyProblem) -> RecordForm:
        if problem.schema is None:
            raise RunError("no-rehearsal/tables", where=Place(path="release.mechanism"), mechanism=self.mechanism.name)
        variables, block = problem.schema.variables, problem.spec.geography.block
        if problem.frame is None:
            return RecordForm(tuple(problem.attributes), variables)
        return RecordForm.on_spine(problem.attributes, variables, block, problem.spine)

    def rehearsed(self, values: dict[str, Any]) -> None:
        """Another order of the table than the secret one, which is for real figures alone."""
        part = values["cellkey"]
        if part.pop("shuffle_file", None) is not None or part.get("shuffle") not in (None, DERIVED, UNSHUFFLED):
            part["shuffle"] = new_order().strip()

    def made_up_people(self, problem: CellKeyProblem, people: MadeUpPeople) -> pa.Table:
        return with_keys(problem, people)
