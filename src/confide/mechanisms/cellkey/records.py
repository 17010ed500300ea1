"""The records of a cell key release: checked without showing one, and written as numbers of levels with their keys."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from confide.engines import Engine
from confide.engines.expressions import identifier
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
from confide.mechanisms.cellkey.counting import KEY, WEIGHT, WEIGHT_UNIT
from confide.mechanisms.cellkey.programme import CellKeyQuestion


def check_keyed_records(engine: Engine, question: CellKeyQuestion) -> list[Finding]:
    """Every problem of the records: columns, codes, keys and weights."""
    source, data = question.records, question.spec.data
    kinds = engine.kinds(source)
    wanted = [attribute.name for attribute in question.attributes]
    wanted += [data.record_key, *([data.weight] if data.weight else [])]
    missing = [name for name in wanted if source.theirs(name) not in kinds]
    if missing:
        return [_no_column(question, name) for name in missing]
    wrong = _wrong_types(question, kinds)
    if wrong:
        return wrong
    expressions = coded_expressions(engine, question)
    broken = {name: f"({expression}) IS NULL" for name, expression in expressions.items()}
    weights = f"sum(CAST({expressions[WEIGHT]} AS DECIMAL(38, 0)))" if data.weight else "0"
    heavy = f"coalesce({weights}, 0) > {_heaviest(question)}"
    lower = f"coalesce(sum(CASE WHEN {expressions[KEY]} < {_middle(question)} THEN 1 ELSE 0 END), 0)"
    records, breaks, (too_heavy, lower_half) = count_rows(engine, source, [*broken.values()], [heavy, lower])
    if not records:
        return [no_records(source)]
    findings = [
        _bad_rows(question, name, engine.first_rows(source, condition, ROWS_NAMED))
        for (name, condition), some in zip(broken.items(), breaks, strict=True)
        if some
    ]
    if too_heavy:
        findings.append(_too_heavy(question))
    if not findings and _uneven(question, records, int(lower_half)):
        findings.append(_not_drawn(question))
    return findings


def write_coded(engine: Engine, question: CellKeyQuestion, into: Path) -> None:
    """The records as numbers: of the level of each attribute, of the key, of millionths of the weight."""
    columns = ", ".join(
        f"{expression} AS {identifier(name)}" for name, expression in coded_expressions(engine, question).items()
    )
    engine.write(f"SELECT {columns} FROM records", into, records=question.records)


def coded_expressions(engine: Engine, question: CellKeyQuestion) -> dict[str, str]:
    """SQL for each coded column, NULL where a record does not fit."""
    source, data = question.records, question.spec.data
    result = code_expressions(engine, source, question.attributes, listed=True)
    key, allowed = integer_expression(engine, source, data.record_key), question.record_keys
    result[KEY] = f"CASE WHEN {key} BETWEEN {allowed[0]} AND {allowed[-1]} THEN {key} END"
    if data.weight is not None:
        weight = f"TRY_CAST({identifier(source.theirs(data.weight))} AS DECIMAL(18, 6))"
        # A product of narrow decimals would overflow from a million on.
        millionths = f"CAST(CAST({weight} AS DECIMAL(38, 6)) * {WEIGHT_UNIT} AS BIGINT)"
        result[WEIGHT] = f"CASE WHEN {weight} >= 0 THEN {millionths} END"
    return result


def _middle(question: CellKeyQuestion) -> int:
    keys = question.record_keys
    return keys[0] + len(keys) // 2


def _uneven(question: CellKeyQuestion, records: int, lower: int) -> bool:
    """Whether far too many keys, or too few, lie in the lower half: more than eight standard errors off."""
    keys = len(question.record_keys)
    share = Fraction(keys // 2, keys)
    off = abs(lower - records * share)
    return bool(off**2 > 64 * records * share * (1 - share))


def _not_drawn(question: CellKeyQuestion) -> Finding:
    data = question.spec.data
    return Finding(
        code="keys-not-drawn",
        what="the record keys were not drawn evenly: noise that they find would protect nobody",
        where=Place(file=question.records.file, column=question.records.theirs(data.record_key)),
        found=CONFIDENTIAL,
        expected=f"keys drawn from {len(question.record_keys):,} numbers, each as often as any other",
        remedy="name the column that `confide cellkey keys` made; [cellkey] keys must be the number it was given",
    )


def _no_column(question: CellKeyQuestion, name: str) -> Finding:
    data = question.spec.data
    remedy = "name the column in [data] columns, or correct the file"
    if name == data.record_key:
        remedy = (
            f"draw keys once and keep them with the records: confide cellkey keys {data.records} --out KEYED.parquet "
            f"--keys {len(question.record_keys)}" + (" --from 1" if question.record_keys[0] else "")
        )
    return Finding(
        code="no-column",
        what=f"the records have no column {question.records.theirs(name)!r}",
        where=Place(file=question.records.file, column=question.records.theirs(name)),
        found="no such column",
        expected="a key for each record" if name == data.record_key else "a column with the codes of the schema",
        remedy=remedy,
    )


def _wrong_types(question: CellKeyQuestion, kinds: Mapping[str, str]) -> list[Finding]:
    """Columns whose type cannot hold codes or keys."""
    source, key = question.records, question.spec.data.record_key
    integers = {attribute.name: attribute.is_integer for attribute in question.attributes} | {key: True}
    return [
        wrong_type(source, name, kinds, "keys" if name == key else "the attribute's codes", integer=integer)
        for name, integer in integers.items()
        if kinds[source.theirs(name)] == "other" or (not integer and kinds[source.theirs(name)] != "text")
    ]


def _heaviest(question: CellKeyQuestion) -> int:
    """The sum of weights, in millionths, up to which no weighted figure leaves 64 bits: (n + v) W / n <= (1 + D) W."""
    return (1 << 62) // (1 + int(question.ptable.largest_noise))


def _too_heavy(question: CellKeyQuestion) -> Finding:
    return Finding(
        code="too-heavy",
        what="the weights are too large to be added up exactly",
        where=Place(file=question.records.file, column=question.records.theirs(str(question.spec.data.weight))),
        found=CONFIDENTIAL,
        expected=f"weights with a sum of at most {_heaviest(question) // WEIGHT_UNIT:,}",
        remedy="give weights in a larger unit",
    )


def _bad_rows(question: CellKeyQuestion, name: str, rows: list[int]) -> Finding:
    source, data = question.records, question.spec.data
    ours = {KEY: data.record_key, WEIGHT: str(data.weight)}.get(name, name)
    if name == KEY:
        allowed = question.record_keys
        what, expected = "a record key is not one", f"a whole number from {allowed[0]} to {allowed[-1]:,}"
    elif name == WEIGHT:
        what, expected = "a weight is not one", "a number of at least zero; decimals beyond the sixth are rounded"
    else:
        attribute = next(each for each in question.attributes if each.name == name)
        what, expected = "a code is not in the schema", attribute.describe_codes()
    remedy = "correct the records, or the schema if that is wrong"
    return bad_record(source, ours, what, expected, rows, remedy=remedy)
