"""The person records of the official layout: checked in one scan, without showing a value, and read by SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from confide.engines import Engine, Source
from confide.engines.expressions import identifier, literal
from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.safetab.grids import AGE_23, SEXES
from confide.safetab.record_rules import CODE_COLUMNS, PERSON_COLUMNS, Rule, columns_of, marks_of, rules_of
from confide.safetab.regions import BLOCK_COLUMNS
from confide.safetab.settings import PUERTO_RICO, Settings

__all__ = ["CODE_COLUMNS", "PERSON_COLUMNS", "check_person_columns", "check_persons", "in_states", "person_expressions"]

ROWS_NAMED = 5
_ORDER = "column-order"


def check_persons(
    engine: Engine, source: Source, codes: Sequence[str] | None, blocks: Path | None, settings: Settings
) -> list[Finding]:
    """Every problem of the records: row numbers and rules, never a value.

    ``codes`` are the race and ethnicity codes that there are; ``blocks`` is a Parquet file of ours with the column
    ``code`` of all blocks. Where one of them is not known, because its own file is wrong, all that can be asked without
    it is asked. One scan counts the rows that break each rule; only a broken rule is looked up row by row.
    """
    try:
        findings = check_person_columns(engine, source)
        if all(finding.code == _ORDER for finding in findings):
            findings += _check_rows(engine, source, codes, blocks, settings)
    except InputError as error:
        return list(error.findings)
    return findings


def check_person_columns(engine: Engine, source: Source) -> list[Finding]:
    """Every problem of the columns. No record is read for it.

    Text has the columns of the layout in their order; in Parquet any order will do. Names that are not in the layout
    are counted and not shown: in a file without a first line of names they are a record.
    """
    kinds = engine.kinds(source)
    names = [source.theirs(name) for name in PERSON_COLUMNS]
    findings = [_missing(source, name, len(kinds)) for name in names if name not in kinds]
    extra = [position for position, name in enumerate(kinds, start=1) if name not in names]
    if extra:
        findings.append(_unexpected(source, extra))
    if not findings and source.format == "csv" and list(kinds) != names:
        findings.append(_out_of_order(source, list(kinds), names))
    for ours, name in zip(PERSON_COLUMNS, names, strict=True):
        if name in kinds and not _fits(ours, kinds[name]):
            findings.append(_wrong_type(source, name, kinds[name]))
    return findings


def person_expressions(engine: Engine, source: Source) -> dict[str, str]:
    """SQL over records that passed the checks: ``code`` of the block (15 digits), ``cell`` (0 to 45, of sex by 23
    ages, see :mod:`confide.safetab.grids`), and the columns of race and ethnicity codes."""
    column = columns_of(source)
    is_integer = engine.kinds(source)[source.theirs("QAGE")] == "integer"
    age = column["QAGE"] if is_integer else f"TRY_CAST({column['QAGE']} AS BIGINT)"
    sex = f"CASE WHEN {column['QSEX']} = {literal(SEXES[1])} THEN {AGE_23.ages} ELSE 0 END"
    group = " ".join(f"WHEN {age} < {cut} THEN {number}" for number, cut in enumerate(AGE_23.cuts))
    return {
        "code": " || ".join(column[name] for name in BLOCK_COLUMNS),
        "cell": f"CAST({sex} + CASE {group} ELSE {AGE_23.ages - 1} END AS BIGINT)",
        **{name: column[name] for name in CODE_COLUMNS},
    }


def in_states(settings: Settings, source: Source | None = None) -> str:
    """SQL that is true of records in a state of the filter, or in Puerto Rico if that pass runs."""
    column = "TABBLKST" if source is None else source.theirs("TABBLKST")
    return f"{identifier(column)} IN ({', '.join(literal(state) for state in settings.all_states)})"


def _check_rows(
    engine: Engine, source: Source, codes: Sequence[str] | None, blocks: Path | None, settings: Settings
) -> list[Finding]:
    integer_age = engine.kinds(source)[source.theirs("QAGE")] == "integer"
    marks = marks_of(source, codes, settings, integer_age=integer_age, blocks=blocks is not None)
    known: dict[str, Path] = {} if blocks is None else {"blocks": blocks}
    unknown = {"codes"} if codes is None else set()
    unknown |= {"blocks"} - set(known)

    def asked(marks: Mapping[str, str]) -> list[Rule]:
        every = rules_of(source, integer_age=integer_age, marks=marks)
        return [rule for rule in every if rule.asks not in unknown]

    rules = asked({name: name for name in marks})
    in_puerto_rico = f"{identifier(source.theirs('TABBLKST'))} = {literal(PUERTO_RICO)}"
    conditions = {f"rule_{position}": rule.broken for position, rule in enumerate(rules)}
    conditions |= {"us": f"within AND NOT {in_puerto_rico}", "pr": f"within AND {in_puerto_rico}"}
    counted = ", ".join(
        f"coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) AS {name}" for name, condition in conditions.items()
    )
    marked = ", ".join(f"{expression} AS {name}" for name, expression in marks.items())
    text = f"SELECT {counted} FROM (SELECT *, {marked} FROM records) AS marked"
    table = engine.sql(text, records=source, **known).reveal("to count rows that break a rule")
    counts = {name: int(number) for name, number in table.to_pylist()[0].items()}
    findings = []
    for position, rule in enumerate(asked(marks)):
        if counts[f"rule_{position}"]:
            rows = engine.first_rows(source, rule.broken, ROWS_NAMED, **known)
            findings.append(_bad_rows(source, rule, rows, counts[f"rule_{position}"]))
    if settings.states and not counts["us"]:
        listed = f"records in at least one of the {len(settings.states)} states of the filter"
        findings.append(_no_records(source, "the US pass", listed))
    if settings.puerto_rico and not counts["pr"]:
        findings.append(_no_records(source, "the Puerto Rico pass", f"records in state {PUERTO_RICO}"))
    return findings


def _fits(name: str, kind: str) -> bool:
    return kind == "text" or (name == "QAGE" and kind == "integer")


def _bad_rows(source: Source, rule: Rule, rows: Sequence[int], number: int) -> Finding:
    shown = ", ".join(f"{row:,}" for row in rows)
    records = "1 record" if number == 1 else f"{number:,} records"
    return Finding(
        code="bad-record",
        what=f"{rule.what} ({records}; the first such rows: {shown})",
        where=Place(file=source.file, row=rows[0] if rows else None, column=source.theirs(rule.column)),
        found=CONFIDENTIAL,
        expected=rule.expected,
        remedy=rule.remedy,
    )


def _no_records(source: Source, name: str, expected: str) -> Finding:
    return Finding(
        code="no-records",
        what=f"the file has no record for {name}",
        where=Place(file=source.file),
        found="no such row",
        expected=expected,
        remedy="give the file with these records, or do not run the pass",
    )


def _missing(source: Source, name: str, present: int) -> Finding:
    return Finding(
        code="missing-column",
        what=f"the file has no column {name!r}",
        where=Place(file=source.file, column=name),
        found=f"{present:,} columns, none of them of this name",
        expected="the columns " + ", ".join(source.theirs(ours) for ours in PERSON_COLUMNS),
        remedy="write the file with the columns of the layout, named in its first line",
    )


def _unexpected(source: Source, positions: Sequence[int]) -> Finding:
    shown = ", ".join(f"{position:,}" for position in positions[:ROWS_NAMED])
    return Finding(
        code="unexpected-column",
        what=f"the file has columns that the layout has not (the first of them at position {shown})",
        where=Place(file=source.file),
        found=f"{len(positions):,} such columns; their names are not shown, in case they are a record",
        expected=f"the {len(PERSON_COLUMNS)} columns of the layout and no other",
        remedy="leave the other columns out",
    )


def _out_of_order(source: Source, found: Sequence[str], names: Sequence[str]) -> Finding:
    position = next(at for at, (one, other) in enumerate(zip(found, names, strict=True)) if one != other)
    return Finding(
        code=_ORDER,
        what="the columns stand in another order than in the layout",
        where=Place(file=source.file, column=found[position]),
        found=f"{found[position]} at position {position + 1}",
        expected=f"{names[position]} there",
        remedy="write the columns in this order: " + ", ".join(names),
    )


def _wrong_type(source: Source, name: str, kind: str) -> Finding:
    return Finding(
        code="column-type",
        what="the column's type cannot hold the codes of the layout",
        where=Place(file=source.file, column=name),
        found=f"a column of kind {kind!r}",
        expected="text, or whole numbers" if name == source.theirs("QAGE") else "text",
        remedy="write the column as text, codes with their leading zeros",
    )
