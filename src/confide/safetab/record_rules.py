"""What a person record must be, as SQL that is true of a record that is not.

=========== ======================================== ==============================
column      allowed                                  what it is
=========== ======================================== ==============================
QAGE        0 to 115, with or without leading zeros  age in years
QSEX        ``1`` or ``2``                           male, female
HOUSEHOLDER ``True`` or ``False``
TABBLKST    2 digits                                 state
TABBLKCOU   3 digits                                 county
TABTRACTCE  6 digits                                 census tract
TABBLK      4 digits                                 block
CENRACE     ``01`` to ``63``                         combination of the major races
QRACE1      a code of the list                       first race code
QRACE2 to 8 a code, or ``Null``; none after ``Null`` further race codes
QSPAN       a code of the list                       code of Hispanic origin
=========== ======================================== ==============================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from confide.engines import Source
from confide.engines.expressions import identifier, literal
from confide.safetab.grids import OLDEST, SEXES
from confide.safetab.regions import BLOCK_COLUMNS, DIGITS
from confide.safetab.settings import MOST_RACE_CODES, Settings

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
class Rule:
    """What must hold of every record. ``broken`` is SQL over the columns and the marks. ``asks`` says what has to
    be known for it: the code lists, the geography, or nothing."""

    column: str
    what: str
    expected: str
    broken: str
    remedy: str = _CORRECT
    asks: Literal["", "codes", "blocks"] = ""


def columns_of(source: Source) -> dict[str, str]:
    """SQL for each column, under the name that the file gives it."""
    return {name: identifier(source.theirs(name)) for name in PERSON_COLUMNS}


def marks_of(
    source: Source, codes: Sequence[str] | None, settings: Settings, *, integer_age: bool, blocks: bool
) -> dict[str, str]:
    """What is looked up once for each row: whether its state is ``within`` the filter, whether its block is in the view
    ``blocks``, and whether its age, CENRACE and codes are such as there are. The rules ask for the form of a value only
    where it was not found, because looking up is fast and forms are slow. What is not known is found for no row."""
    column = columns_of(source)
    ages = {f"{age:0{width}d}" for age in range(OLDEST + 1) for width in (1, 2, 3)}
    cenraces = [f"{number:02d}" for number in range(1, LAST_CENRACE + 1)]
    block = " || ".join(column[name] for name in BLOCK_COLUMNS)
    # The widths too: a code that is too short and one that is too long could make up a block between them.
    widths = " AND ".join(f"length({column[name]}) = {DIGITS[name]}" for name in BLOCK_COLUMNS)
    return {
        "within": _listed(column["TABBLKST"], settings.all_states),
        "in_block": f"coalesce({block} IN (SELECT code FROM blocks) AND {widths}, FALSE)" if blocks else "FALSE",
        "is_qage": "FALSE" if integer_age else _listed(column["QAGE"], sorted(ages)),
        "is_cenrace": _listed(column["CENRACE"], cenraces),
        **{f"is_{name.lower()}": _listed(column[name], codes) if codes else "FALSE" for name in CODE_COLUMNS},
    }


def rules_of(source: Source, *, integer_age: bool, marks: Mapping[str, str]) -> list[Rule]:
    """Every rule, in the order of columns. ``marks`` gives SQL for each mark: its name, or all of it.

    Rows of states outside the filter are not looked at, but that a state has two digits is asked of every row.
    """
    column = columns_of(source)
    form = {name: _digits(column[name], DIGITS[name]) for name in BLOCK_COLUMNS}
    within = marks["within"]
    rules = [
        *_plain_rules(column, marks["is_qage"], integer_age),
        *(
            Rule(
                name, "a code has another form", f"{DIGITS[name]} digits", _unless(marks["in_block"], _not(form[name]))
            )
            for name in BLOCK_COLUMNS[1:]
        ),
        Rule(
            BLOCK_COLUMNS[-1],
            "a record lies in a block that the geographic file lacks",
            "state, county, tract and block of a row of that file",
            _unless(marks["in_block"], " AND ".join(f"NOT {_not(form[name])}" for name in BLOCK_COLUMNS)),
            "correct the records, or add the block to the geographic file",
            "blocks",
        ),
        *_listed_rules(column, "CENRACE", marks["is_cenrace"]),
        *(rule for name in CODE_COLUMNS for rule in _listed_rules(column, name, marks[f"is_{name.lower()}"])),
        _after_null(column),
    ]
    everywhere = Rule(
        "TABBLKST",
        "a state has another form",
        "2 digits, also where the state is not in the filter",
        _unless(within, _not(form["TABBLKST"])),
    )
    # CASE and not AND: of a row that is not looked at, nothing is computed.
    looked_at = [replace(rule, broken=f"CASE WHEN {within} THEN {rule.broken} ELSE FALSE END") for rule in rules]
    return sorted([everywhere, *looked_at], key=lambda rule: PERSON_COLUMNS.index(rule.column))


def _plain_rules(column: Mapping[str, str], is_age: str, integer_age: bool) -> Iterator[Rule]:
    number = f"TRY_CAST({column['QAGE']} AS BIGINT)"
    # Only of digits: the cast alone would take 1.6 for 2.
    age = number if integer_age else f"CASE WHEN {_all_digits(column['QAGE'])} THEN {number} END"
    broken = _unless(is_age, _not(f"{age} BETWEEN 0 AND {OLDEST}"))
    yield Rule("QAGE", "an age is wrong", f"a whole number from 0 to {OLDEST}", broken)
    for name, what, allowed in (("QSEX", "a sex", SEXES), ("HOUSEHOLDER", "a value", ("True", "False"))):
        among = f"{column[name]} IN ({', '.join(literal(value) for value in allowed)})"
        yield Rule(name, f"{what} is wrong", " or ".join(allowed), _not(among))


def _listed_rules(column: Mapping[str, str], name: str, listed: str) -> Iterator[Rule]:
    """Two rules: the value has the form of a code, and there is such a code."""
    if name == "CENRACE":
        form, expected, known = _digits(column[name], 2), "2 digits", f"01 to {LAST_CENRACE}"
    else:
        form = f"{_digits(column[name], 4)} AND substr({column[name]}, 1, 1) <> '0'"
        expected, known = "4 digits, the first of them not 0", "a code of the race and ethnicity code list"
        if name in RACE_COLUMNS[1:]:
            listed = f"({listed} OR coalesce({column[name]} = {literal(NULL)}, FALSE))"
            expected, known = f"{expected}, or {NULL}", f"{known}, or {NULL}"
    yield Rule(name, "a code has another form", expected, _unless(listed, _not(form)))
    remedy = _CORRECT if name == "CENRACE" else "correct the records, or add the code to the lists"
    asks: Literal["", "codes"] = "" if name == "CENRACE" else "codes"
    yield Rule(name, "there is no such code", known, _unless(listed, f"NOT {_not(form)}"), remedy, asks)


def _after_null(column: Mapping[str, str]) -> Rule:
    broken = " OR ".join(
        f"({column[a]} = {literal(NULL)} AND {column[b]} <> {literal(NULL)})" for a, b in pairwise(RACE_COLUMNS[1:])
    )
    expected = f"codes without a gap, and {NULL} in every column after the last of them"
    return Rule(RACE_COLUMNS[1], f"a race code stands after a {NULL!r}", expected, f"({broken})")


def _listed(column: str, values: Sequence[str]) -> str:
    """Whether a value is among ``values``. As rows and not as a list: engines go through a list one by one."""
    rows = ", ".join(f"({literal(value)})" for value in values)
    return f"coalesce({column} IN (SELECT code FROM (VALUES {rows}) AS listed(code)), FALSE)"


def _digits(column: str, number: int) -> str:
    return f"length({column}) = {number} AND {_all_digits(column)}"


def _all_digits(column: str) -> str:
    return f"translate({column}, '0123456789', '') = ''"


def _not(condition: str) -> str:
    """That a condition is not true: false, or unknown because a value is missing."""
    return f"(NOT coalesce({condition}, FALSE))"


def _unless(fine: str, broken: str) -> str:
    return f"CASE WHEN {fine} THEN FALSE ELSE {broken} END"
