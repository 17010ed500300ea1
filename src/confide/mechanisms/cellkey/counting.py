"""True counts, cell keys and weights of every cross-classification of a programme. Confidential.

The records are read once, as numbers of levels, a batch at a time. For every table that is in no other, each batch is
counted into a dense array; all other cross-classifications are sums of these. Cell keys are sums of record keys modulo
the number of keys, which may be taken part by part.

A recode may leave levels out: cells of that recode then have nobody of them, while margins that sum over it have
everybody. A cross-classification is therefore summed from a larger one only if that leaves out nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from confide.engines import Engine
from confide.engines.protocol import identifier
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.inputs.records import (
    ROWS_NAMED,
    bad_record,
    code_expressions,
    count_rows,
    integer_expression,
    no_records,
    wrong_type,
)
from confide.mechanisms.cellkey.keys import added
from confide.mechanisms.cellkey.lookups import Lookup
from confide.mechanisms.cellkey.programme import CellKeyProblem
from confide.schema import NO_GROUP, Query

Integers = npt.NDArray[np.int64]

BATCH = 1 << 20
"""Records at a time: key sums of a batch stay below 2**53, where floating-point sums of whole numbers are exact."""

KEY, WEIGHT = "record/key", "record/weight"
"""Columns of ours: no attribute has a name with such a sign."""
WEIGHT_UNIT = 10**6
"""Weights are whole numbers of millionths."""


@dataclass(frozen=True, eq=False)
class CellSums:
    """The members of every cell of a cross-classification: how many, their keys summed, their weights summed."""

    count: Integers = field(repr=False)
    key: Integers = field(repr=False)
    weight: Integers | None = field(repr=False)

    def plus(self, other: CellSums, keys: int) -> CellSums:
        """The sums of two disjoint sets of records."""
        weight = None if self.weight is None or other.weight is None else self.weight + other.weight
        return CellSums(self.count + other.count, added(self.key, other.key, keys), weight)

    def summed(self, larger: Query, query: Query, keys: int) -> CellSums:
        """The sums of ``query`` out of those of a larger cross-classification."""
        names = {variable.name for variable in query.variables}
        axes = tuple(at for at, variable in enumerate(larger.variables) if variable.name not in names)
        parts = [
            None if sums is None else sums.reshape(larger.shape or (1,)).sum(axis=axes).reshape(-1)
            for sums in (self.count, self.key, self.weight)
        ]
        count, key, weight = parts
        assert count is not None
        assert key is not None
        return CellSums(count, key % keys, weight)


def count_cells(problem: CellKeyProblem, coded: Path) -> Iterator[tuple[Query, CellSums]]:
    """The sums of every distinct cross-classification, larger ones first. ``coded`` is the file of coded records."""
    keys = problem.lookup.modulus
    order = [(query, larger if larger and _same_people(query, larger) else None) for query, larger in problem.counted()]
    direct = [query for query, larger in order if larger is None]
    sums: dict[str, CellSums] = {
        query.name: _nobody(query, weighted=bool(problem.spec.data.weight)) for query in direct
    }
    for batch in pq.ParquetFile(coded).iter_batches(batch_size=BATCH):
        columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
        for query in direct:
            sums[query.name] = sums[query.name].plus(_count(query, columns), keys)
    for query, larger in order:
        if larger is not None:
            sums[query.name] = sums[larger.name].summed(larger, query, keys)
        yield query, sums[query.name]


def _same_people(query: Query, larger: Query) -> bool:
    """Whether the variables that are summed over leave nobody out."""
    names = {variable.name for variable in query.variables}
    return all((v.assignment != NO_GROUP).all() for v in larger.variables if v.name not in names)


def _nobody(query: Query, *, weighted: bool) -> CellSums:
    zeros = np.zeros(query.cells, np.int64)
    return CellSums(zeros, zeros, zeros if weighted else None)


def _count(query: Query, columns: Mapping[str, Integers]) -> CellSums:
    index: Integers = np.zeros(len(columns[KEY]), np.int64)
    inside: npt.NDArray[np.bool_] | None = None
    for variable in query.variables:
        group = variable.assignment[columns[variable.attribute.name]]
        if (variable.assignment == NO_GROUP).any():
            inside = (group != NO_GROUP) if inside is None else inside & (group != NO_GROUP)
        index = index * variable.size + group
    at = slice(None) if inside is None else np.flatnonzero(inside)
    index = index[at]
    count = np.bincount(index, minlength=query.cells)
    key = np.bincount(index, columns[KEY][at], query.cells).astype(np.int64)
    weight = None
    if WEIGHT in columns:
        weight = np.zeros(query.cells, np.int64)
        np.add.at(weight, index, columns[WEIGHT][at])
    return CellSums(count.astype(np.int64), key, weight)


# True counts to published ones: the noise that a cell's key finds in the perturbation table.
#
#     published = n + v(n, key),   nothing for n = 0,   0 below a threshold
#
# Counts are looked up unweighted. A weighted figure is the published count times the mean weight of the cell's
# members (n + v) · W / n, rounded to millionths.


@dataclass(frozen=True, eq=False)
class PerturbedFigures:
    """What is published of a cross-classification: no true count, key or noise."""

    count: Integers
    weighted: Integers | None
    """In millionths."""


def perturb(sums: CellSums, lookup: Lookup, threshold: int | None) -> PerturbedFigures:
    """The published figures of every cell.

    Args:
        sums: Members, keys and weights of every cell of a cross-classification.
        lookup: The perturbation table.
        threshold: What comes out below this is published as zero; None: nothing is.

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
        return PerturbedFigures(published, None)
    weighted = np.zeros_like(published)
    weighted[occupied] = _scaled(published[occupied], sums.weight[occupied], members)
    return PerturbedFigures(published, weighted)


def _scaled(published: Integers, weight: Integers, members: Integers) -> Integers:
    """published · weight / members to the nearest whole number, without leaving whole numbers."""
    quotient, remainder = np.divmod(weight, members)
    halves = (2 * remainder * published + members) // (2 * members)
    scaled: Integers = published * quotient + halves
    return scaled


# The records of a cell key release: checked without showing one, and written as numbers of levels with their keys.


def check_keyed_records(engine: Engine, problem: CellKeyProblem) -> list[Finding]:
    """Every problem of the records: columns, codes, keys and weights."""
    source, data = problem.records, problem.spec.data
    kinds = engine.kinds(source)
    wanted = [attribute.name for attribute in problem.attributes]
    wanted += [data.record_key, *([data.weight] if data.weight else [])]
    missing = [name for name in wanted if source.theirs(name) not in kinds]
    if missing:
        return [_no_column(problem, name) for name in missing]
    wrong = _wrong_types(problem, kinds)
    if wrong:
        return wrong
    expressions = coded_expressions(engine, problem)
    broken = {name: f"({expression}) IS NULL" for name, expression in expressions.items()}
    weights = f"sum(CAST({expressions[WEIGHT]} AS DECIMAL(38, 0)))" if data.weight else "0"
    heavy = f"coalesce({weights}, 0) > {_heaviest(problem)}"
    lower = f"coalesce(sum(CASE WHEN {expressions[KEY]} < {_middle(problem)} THEN 1 ELSE 0 END), 0)"
    records, breaks, (too_heavy, lower_half) = count_rows(engine, source, [*broken.values()], [heavy, lower])
    if not records:
        return [no_records(source)]
    findings = [
        _bad_rows(problem, name, engine.first_rows(source, condition, ROWS_NAMED))
        for (name, condition), some in zip(broken.items(), breaks, strict=True)
        if some
    ]
    if too_heavy:
        findings.append(_too_heavy(problem))
    if not findings and _uneven(problem, records, int(lower_half)):
        findings.append(_not_drawn(problem))
    return findings


def write_coded(engine: Engine, problem: CellKeyProblem, into: Path) -> None:
    """The records as numbers: of the level of each attribute, of the key, of millionths of the weight."""
    columns = ", ".join(
        f"{expression} AS {identifier(name)}" for name, expression in coded_expressions(engine, problem).items()
    )
    engine.write(f"SELECT {columns} FROM records", into, records=problem.records)


def coded_expressions(engine: Engine, problem: CellKeyProblem) -> dict[str, str]:
    """SQL for each coded column, NULL where a record does not fit."""
    source, data = problem.records, problem.spec.data
    result = code_expressions(engine, source, problem.attributes, listed=True)
    key, allowed = integer_expression(engine, source, data.record_key), problem.record_keys
    result[KEY] = f"CASE WHEN {key} BETWEEN {allowed[0]} AND {allowed[-1]} THEN {key} END"
    if data.weight is not None:
        weight = f"TRY_CAST({identifier(source.theirs(data.weight))} AS DECIMAL(18, 6))"
        # A product of narrow decimals would overflow from a million on.
        millionths = f"CAST(CAST({weight} AS DECIMAL(38, 6)) * {WEIGHT_UNIT} AS BIGINT)"
        result[WEIGHT] = f"CASE WHEN {weight} >= 0 THEN {millionths} END"
    return result


def _middle(problem: CellKeyProblem) -> int:
    keys = problem.record_keys
    return keys[0] + len(keys) // 2


def _uneven(problem: CellKeyProblem, records: int, lower: int) -> bool:
    """Whether far too many keys, or too few, lie in the lower half: more than eight standard errors off."""
    keys = len(problem.record_keys)
    share = Fraction(keys // 2, keys)
    off = abs(lower - records * share)
    return bool(off**2 > 64 * records * share * (1 - share))


def _not_drawn(problem: CellKeyProblem) -> Finding:
    data = problem.spec.data
    return Finding(
        code="keys-not-drawn",
        what="the record keys were not drawn evenly: noise that they find would protect nobody",
        where=Place(file=problem.records.file, column=problem.records.theirs(data.record_key)),
        found=CONFIDENTIAL,
        expected=f"keys drawn from {len(problem.record_keys):,} numbers, each as often as any other",
        remedy="name the column that `confide cellkey keys` made; [cellkey] keys must be the number it was given",
    )


def _no_column(problem: CellKeyProblem, name: str) -> Finding:
    data = problem.spec.data
    remedy = "name the column in [data] columns, or correct the file"
    if name == data.record_key:
        remedy = (
            f"draw keys once and keep them with the records: confide cellkey keys {data.records} --out KEYED.parquet "
            f"--keys {len(problem.record_keys)}" + (" --from 1" if problem.record_keys[0] else "")
        )
    return Finding(
        code="no-column",
        what=f"the records have no column {problem.records.theirs(name)!r}",
        where=Place(file=problem.records.file, column=problem.records.theirs(name)),
        found="no such column",
        expected="a key for each record" if name == data.record_key else "a column with the codes of the schema",
        remedy=remedy,
    )


def _wrong_types(problem: CellKeyProblem, kinds: Mapping[str, str]) -> list[Finding]:
    """Columns whose type cannot hold codes or keys."""
    source, key = problem.records, problem.spec.data.record_key
    integers = {attribute.name: attribute.is_integer for attribute in problem.attributes} | {key: True}
    return [
        wrong_type(source, name, kinds, "keys" if name == key else "the attribute's codes", integer=integer)
        for name, integer in integers.items()
        if kinds[source.theirs(name)] == "other" or (not integer and kinds[source.theirs(name)] != "text")
    ]


def _heaviest(problem: CellKeyProblem) -> int:
    """The sum of weights, in millionths, up to which no weighted figure leaves 64 bits: (n + v) W / n <= (1 + D) W."""
    return (1 << 62) // (1 + int(problem.ptable.largest_noise))


def _too_heavy(problem: CellKeyProblem) -> Finding:
    return Finding(
        code="too-heavy",
        what="the weights are too large to be added up exactly",
        where=Place(file=problem.records.file, column=problem.records.theirs(str(problem.spec.data.weight))),
        found=CONFIDENTIAL,
        expected=f"weights with a sum of at most {_heaviest(problem) // WEIGHT_UNIT:,}",
        remedy="give weights in a larger unit",
    )


def _bad_rows(problem: CellKeyProblem, name: str, rows: list[int]) -> Finding:
    source, data = problem.records, problem.spec.data
    ours = {KEY: data.record_key, WEIGHT: str(data.weight)}.get(name, name)
    if name == KEY:
        allowed = problem.record_keys
        what, expected = "a record key is not one", f"a whole number from {allowed[0]} to {allowed[-1]:,}"
    elif name == WEIGHT:
        what, expected = "a weight is not one", "a number of at least zero; decimals beyond the sixth are rounded"
    else:
        attribute = next(candidate for candidate in problem.attributes if candidate.name == name)
        what, expected = "a code is not in the schema", attribute.describe_codes()
    remedy = "correct the records, or the schema if that is wrong"
    return bad_record(source, ours, what, expected, rows, remedy=remedy)
