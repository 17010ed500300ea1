"""The records of the official layouts, persons or households: checked in one scan, without showing a value, and read
by SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol

from confide.engines import Engine, Source, identifier, literal
from confide.errors import CONFIDENTIAL, Finding, InputError, Place
from confide.mechanisms.safetab.regions import BLOCK_COLUMNS, DIGITS
from confide.mechanisms.safetab.settings import AGE_23, MOST_RACE_CODES, OLDEST, PUERTO_RICO, SEXES

# What a person record must be, as SQL that is true of a record that is not.
#
# =========== ======================================== ============================== column allowed what it is
# =========== ======================================== ============================== QAGE 0 to 115, with or without
# leading zeros age in years QSEX ``1`` or ``2`` male, female HOUSEHOLDER ``True`` or ``False`` TABBLKST 2 digits
# state TABBLKCOU 3 digits county TABTRACTCE 6 digits census tract TABBLK 4 digits block CENRACE ``01`` to ``63``
# combination of the major races QRACE1 a code of the list first race code QRACE2 to 8 a code, or ``Null``; none after
# ``Null`` further race codes QSPAN a code of the list code of Hispanic origin ===========
# ======================================== ==============================


RACE_COLUMNS = tuple(f"QRACE{number}" for number in range(1, MOST_RACE_CODES + 1))
CODE_COLUMNS = (*RACE_COLUMNS, "QSPAN")
"""The columns of race codes, and that of Hispanic origin."""

PERSON_COLUMNS = ("QAGE", "QSEX", "HOUSEHOLDER", *BLOCK_COLUMNS, "CENRACE", *CODE_COLUMNS)
"""The columns of the official layout, in order."""

NULL = "Null"
"""What a race column holds that has no code."""

LAST_CENRACE = 63
_CORRECT = "correct the records"


@dataclass(frozen=True, slots=True)
class WholeColumn:
    """A column of whole numbers, with or without leading zeros, as text or as numbers."""

    name: str
    what: str
    first: int
    last: int

    @property
    def expected(self) -> str:
        """What a value may be."""
        return f"a whole number from {self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """One of the official layouts: what its columns hold apart from blocks and codes, which all of them have alike."""

    columns: tuple[str, ...]
    """In order."""
    race: str
    """The column with one of the 63 combinations of major races."""
    numbers: tuple[WholeColumn, ...]
    named: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Columns with a few values: the column, what it holds, and the values."""


PERSONS = RecordLayout(
    PERSON_COLUMNS,
    "CENRACE",
    (WholeColumn("QAGE", "an age", 0, OLDEST),),
    (("QSEX", "a sex", SEXES), ("HOUSEHOLDER", "a value", ("True", "False"))),
)


@dataclass(frozen=True, slots=True)
class RecordRule:
    """What must hold of every record. ``broken`` is SQL over the columns and the marks. ``asks`` says what has to
    be known for it: the code lists, the geography, or nothing."""

    column: str
    what: str
    expected: str
    broken: str
    remedy: str = _CORRECT
    asks: Literal["", "codes", "blocks"] = ""


class PassFilter(Protocol):
    """Which passes there are, and with them whose records are looked at."""

    @property
    def states(self) -> tuple[str, ...]:
        """The states of the US pass."""

    @property
    def puerto_rico(self) -> bool:
        """Whether there is a pass for Puerto Rico."""

    @property
    def all_states(self) -> tuple[str, ...]:
        """The states of both."""


def columns_of(source: Source, layout: RecordLayout = PERSONS) -> dict[str, str]:
    """SQL for each column, under the name that the file gives it."""
    return {name: identifier(source.theirs(name)) for name in layout.columns}


def marks_of(
    source: Source,
    codes: str | None,
    settings: PassFilter,
    *,
    integers: Collection[str] = (),
    blocks: bool,
    layout: RecordLayout = PERSONS,
) -> dict[str, str]:
    """What is looked up once for each row: whether its state is ``within`` the filter, whether its block is in the view
    ``blocks``, and whether its whole numbers, race and codes are such as there are. The rules ask for the form of a
    value only where it was not found, because looking up is fast and forms are slow. What is not known is found for no
    row. ``codes`` is SQL for the race and ethnicity codes that there are; ``integers`` are the columns of numbers."""
    column = columns_of(source, layout)
    cenraces = [f"{number:02d}" for number in range(1, LAST_CENRACE + 1)]
    block = " || ".join(column[name] for name in BLOCK_COLUMNS)
    # The widths too: a code that is too short and one that is too long could make up a block between them.
    widths = " AND ".join(f"length({column[name]}) = {DIGITS[name]}" for name in BLOCK_COLUMNS)
    return {
        "within": _among(column["TABBLKST"], _rows_of(settings.all_states)),
        "in_block": f"coalesce({block} IN (SELECT code FROM blocks) AND {widths}, FALSE)" if blocks else "FALSE",
        **{
            f"is_{each.name.lower()}": "FALSE"
            if each.name in integers
            else _among(column[each.name], _rows_of(_texts(each)))
            for each in layout.numbers
        },
        f"is_{layout.race.lower()}": _among(column[layout.race], _rows_of(cenraces)),
        **{f"is_{name.lower()}": _among(column[name], codes) if codes else "FALSE" for name in CODE_COLUMNS},
    }


def _texts(numbers: WholeColumn) -> list[str]:
    """How its numbers may be written."""
    return sorted({f"{number:0{width}d}" for number in range(numbers.first, numbers.last + 1) for width in (1, 2, 3)})


def rules_of(
    source: Source, *, integers: Collection[str] = (), marks: Mapping[str, str], layout: RecordLayout = PERSONS
) -> list[RecordRule]:
    """Every rule, in the order of columns. ``marks`` gives SQL for each mark: its name, or all of it.

    Rows of states outside the filter are not looked at, but that a state has two digits is asked of every row.
    """
    column = columns_of(source, layout)
    form = {name: _digits(column[name], DIGITS[name]) for name in BLOCK_COLUMNS}
    within = marks["within"]
    rules = [
        *(_whole_rule(column, each, marks, integer=each.name in integers) for each in layout.numbers),
        *(
            RecordRule(name, f"{what} is wrong", " or ".join(allowed), _not(_is_one_of(column[name], allowed)))
            for name, what, allowed in layout.named
        ),
        *(
            RecordRule(
                name, "a code has another form", f"{DIGITS[name]} digits", _unless(marks["in_block"], _not(form[name]))
            )
            for name in BLOCK_COLUMNS[1:]
        ),
        RecordRule(
            BLOCK_COLUMNS[-1],
            "a record lies in a block that the geographic file lacks",
            "state, county, tract and block of a row of that file",
            _unless(marks["in_block"], " AND ".join(f"NOT {_not(form[name])}" for name in BLOCK_COLUMNS)),
            "correct the records, or add the block to the geographic file",
            "blocks",
        ),
        *_listed_rules(column, layout.race, marks[f"is_{layout.race.lower()}"]),
        *(rule for name in CODE_COLUMNS for rule in _listed_rules(column, name, marks[f"is_{name.lower()}"])),
        _after_null(column),
    ]
    everywhere = RecordRule(
        "TABBLKST",
        "a state has another form",
        "2 digits, also where the state is not in the filter",
        _unless(within, _not(form["TABBLKST"])),
    )
    # CASE and not AND: of a row that is not looked at, nothing is computed.
    looked_at = [replace(rule, broken=f"CASE WHEN {within} THEN {rule.broken} ELSE FALSE END") for rule in rules]
    return sorted([everywhere, *looked_at], key=lambda rule: layout.columns.index(rule.column))


def whole_expression(column: str, *, integer: bool) -> str:
    """SQL for a column of whole numbers, NULL where it holds none."""
    number = f"TRY_CAST({column} AS BIGINT)"
    # Only of digits: the cast alone would take 1.6 for 2.
    return number if integer else f"CASE WHEN {_all_digits(column)} THEN {number} END"


def _whole_rule(
    column: Mapping[str, str], numbers: WholeColumn, marks: Mapping[str, str], *, integer: bool
) -> RecordRule:
    number = whole_expression(column[numbers.name], integer=integer)
    broken = _unless(marks[f"is_{numbers.name.lower()}"], _not(f"{number} BETWEEN {numbers.first} AND {numbers.last}"))
    return RecordRule(numbers.name, f"{numbers.what} is wrong", numbers.expected, broken)


def _is_one_of(column: str, allowed: Sequence[str]) -> str:
    return f"{column} IN ({', '.join(literal(value) for value in allowed)})"


def _listed_rules(column: Mapping[str, str], name: str, listed: str) -> Iterator[RecordRule]:
    """Two rules: the value has the form of a code, and there is such a code."""
    if name not in CODE_COLUMNS:
        form, expected, range_text = _digits(column[name], 2), "2 digits", f"01 to {LAST_CENRACE}"
    else:
        form = f"{_digits(column[name], 4)} AND substr({column[name]}, 1, 1) <> '0'"
        expected, range_text = "4 digits, the first of them not 0", "a code of the race and ethnicity code list"
        if name in RACE_COLUMNS[1:]:
            listed = f"({listed} OR coalesce({column[name]} = {literal(NULL)}, FALSE))"
            expected, range_text = f"{expected}, or {NULL}", f"{range_text}, or {NULL}"
    yield RecordRule(name, "a code has another form", expected, _unless(listed, _not(form)))
    remedy = "correct the records, or add the code to the lists" if name in CODE_COLUMNS else _CORRECT
    asks: Literal["", "codes"] = "codes" if name in CODE_COLUMNS else ""
    yield RecordRule(name, "there is no such code", range_text, _unless(listed, f"NOT {_not(form)}"), remedy, asks)


def _after_null(column: Mapping[str, str]) -> RecordRule:
    broken = " OR ".join(
        f"({column[a]} = {literal(NULL)} AND {column[b]} <> {literal(NULL)})" for a, b in pairwise(RACE_COLUMNS[1:])
    )
    expected = f"codes without a gap, and {NULL} in every column after the last of them"
    return RecordRule(RACE_COLUMNS[1], f"a race code follows a {NULL!r}", expected, f"({broken})")


def _rows_of(values: Sequence[str]) -> str:
    """SQL for ``values`` as rows, and not as a list: engines go through a list one by one."""
    rows = ", ".join(f"({literal(value)})" for value in values)
    return f"SELECT code FROM (VALUES {rows}) AS listed(code)"


def _among(column: str, rows: str) -> str:
    """Whether a value is among some rows."""
    return f"coalesce({column} IN ({rows}), FALSE)"


def _digits(column: str, number: int) -> str:
    return f"length({column}) = {number} AND {_all_digits(column)}"


def _all_digits(column: str) -> str:
    return f"translate({column}, '0123456789', '') = ''"


def _not(condition: str) -> str:
    """That a condition is not true: false, or unknown because a value is missing."""
    return f"(NOT coalesce({condition}, FALSE))"


def _unless(fine: str, broken: str) -> str:
    return f"CASE WHEN {fine} THEN FALSE ELSE {broken} END"


ROWS_NAMED = 5
_ORDER = "column-order"


def check_persons(
    engine: Engine,
    source: Source,
    codes: Sequence[str] | None,
    blocks: Path | None,
    settings: PassFilter,
    layout: RecordLayout = PERSONS,
) -> list[Finding]:
    """Every problem of the records, persons or what the layout says: row numbers and rules, never a value.

    ``codes`` are the race and ethnicity codes that there are; ``blocks`` is a Parquet file of ours with the column
    ``code`` of all blocks. Where one of them is not known, because its own file is wrong, all that can be asked without
    it is asked. One scan counts the rows that break each rule; only a broken rule is looked up row by row.
    """
    try:
        findings = check_person_columns(engine, source, layout)
        if all(finding.code == _ORDER for finding in findings):
            findings += _check_rows(engine, source, codes, blocks, settings, layout)
    except InputError as error:
        return list(error.findings)
    return findings


def check_person_columns(engine: Engine, source: Source, layout: RecordLayout = PERSONS) -> list[Finding]:
    """Every problem of the columns. No record is read for it.

    Text has the columns of the layout in their order; in Parquet any order will do. Names that are not in the layout
    are counted and not shown: in a file without a first line of names they are a record.
    """
    kinds = engine.kinds(source)
    names = [source.theirs(name) for name in layout.columns]
    findings = [
        Finding.of(
            "missing-column/none",
            where=Place(file=source.file, column=name),
            name=name,
            present=len(kinds),
            person_columns=", ".join(source.theirs(ours) for ours in layout.columns),
        )
        for name in names
        if name not in kinds
    ]
    extra = [position for position, name in enumerate(kinds, start=1) if name not in names]
    if extra:
        findings.append(
            Finding.of(
                "unexpected-column",
                where=Place(file=source.file),
                row_list=", ".join(f"{position:,}" for position in extra[:ROWS_NAMED]),
                positions=len(extra),
                person_columns=len(layout.columns),
            )
        )
    if not findings and source.format == "csv" and list(kinds) != names:
        findings.append(_out_of_order(source, list(kinds), names))
    with_numbers = {each.name for each in layout.numbers}
    for ours, name in zip(layout.columns, names, strict=True):
        if name in kinds and not (kinds[name] == "text" or (ours in with_numbers and kinds[name] == "integer")):
            findings.append(_wrong_type(source, name, kinds[name], numbers=ours in with_numbers))
    return findings


def person_expressions(engine: Engine, source: Source) -> dict[str, str]:
    """SQL over records that passed the checks: ``code`` of the block (15 digits), ``cell`` (0 to 45, of sex by 23
    ages, see :mod:`confide.mechanisms.safetab.settings`), and the columns of race and ethnicity codes."""
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


def in_states(settings: PassFilter, source: Source | None = None) -> str:
    """SQL that is true of records in a state of the filter, or in Puerto Rico if that pass runs."""
    column = "TABBLKST" if source is None else source.theirs("TABBLKST")
    return f"{identifier(column)} IN ({', '.join(literal(state) for state in settings.all_states)})"


def _check_rows(
    engine: Engine,
    source: Source,
    codes: Sequence[str] | None,
    blocks: Path | None,
    settings: PassFilter,
    layout: RecordLayout,
) -> list[Finding]:
    kinds = engine.kinds(source)
    integers = [each.name for each in layout.numbers if kinds[source.theirs(each.name)] == "integer"]
    known = _rows_of(codes) if codes else None
    marks, quick = (
        marks_of(source, listed, settings, integers=integers, blocks=blocks is not None, layout=layout)
        for listed in (known, known and "SELECT code FROM known_codes")
    )
    tables: dict[str, Path] = {} if blocks is None else {"blocks": blocks}
    unknown = {"codes"} if codes is None else set()
    unknown |= {"blocks"} - set(tables)

    def asked(marks: Mapping[str, str]) -> list[RecordRule]:
        every = rules_of(source, integers=integers, marks=marks, layout=layout)
        return [rule for rule in every if rule.asks not in unknown]

    rules = asked({name: name for name in marks})
    in_puerto_rico = f"{identifier(source.theirs('TABBLKST'))} = {literal(PUERTO_RICO)}"
    conditions = {f"rule_{position}": rule.broken for position, rule in enumerate(rules)}
    conditions |= {"us": f"within AND NOT {in_puerto_rico}", "pr": f"within AND {in_puerto_rico}"}
    counted = ", ".join(
        f"coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) AS {name}" for name, condition in conditions.items()
    )
    marked = ", ".join(f"{expression} AS {name}" for name, expression in quick.items())
    listed_once = f"WITH known_codes AS ({known}) " if known else ""  # thousands of codes, asked of nine columns
    text = f"SELECT {counted} FROM ({listed_once}SELECT *, {marked} FROM records) AS marked"
    table = engine.sql(text, records=source, **tables).reveal("to count rows that break a rule")
    counts = {name: int(number) for name, number in table.to_pylist()[0].items()}
    findings = []
    for position, rule in enumerate(asked(marks)):
        if counts[f"rule_{position}"]:
            rows = engine.first_rows(source, rule.broken, ROWS_NAMED, **tables)
            findings.append(
                Finding.of(
                    "bad-record/first-rows",
                    where=Place(file=source.file, row=rows[0] if rows else None, column=source.theirs(rule.column)),
                    found=CONFIDENTIAL,
                    what=rule.what,
                    number=counts[f"rule_{position}"],
                    one=counts[f"rule_{position}"] == 1,
                    row_list=", ".join(f"{row:,}" for row in rows),
                    expected=rule.expected,
                    remedy=rule.remedy,
                )
            )
    if settings.states and not counts["us"]:
        findings.append(Finding.of("no-records/us", where=Place(file=source.file), states=len(settings.states)))
    if settings.puerto_rico and not counts["pr"]:
        findings.append(Finding.of("no-records/puerto", where=Place(file=source.file), puerto_rico=PUERTO_RICO))
    return findings


def _out_of_order(source: Source, columns: Sequence[str], names: Sequence[str]) -> Finding:
    position = next(at for at, (one, other) in enumerate(zip(columns, names, strict=True)) if one != other)
    return Finding.of(
        "column-order",
        where=Place(file=source.file, column=columns[position]),
        column=columns[position],
        position=position + 1,
        name=names[position],
        names=", ".join(names),
    )


def _wrong_type(source: Source, name: str, kind: str, *, numbers: bool) -> Finding:
    return Finding.of("column-type/hold", where=Place(file=source.file, column=name), kind=kind, same=numbers)
