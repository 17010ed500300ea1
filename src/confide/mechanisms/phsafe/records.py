"""What persons, units and addresses must be: checked without showing a value, each file by itself and all together.

The columns are those of the Census Bureau's layout, in any order. Rows of states that the release does not have are
not looked at. A finding names the first rows and the rule, and no MAFID. What the Bureau's program trips over while it
tabulates is refused here, before anything is charged; what is odd, but can be tabulated, is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confide.engines import Engine, Source
from confide.engines.protocol import ROW_NUMBER, identifier, literal
from confide.errors import CONFIDENTIAL, Finding, InputError, Place, Severity
from confide.mechanisms.phsafe import tabulate

ADDRESS_COLUMNS = (
    *tabulate.GEO_COLUMNS, "TABBLKCOU", "TABTRACTCE", "TABBLK", "TABBLKGRPCE", "REGIONCE", "DIVISIONCE", "PLACEFP",
    "AIANNHCE",
)  # fmt: skip
COLUMNS = {"persons": tabulate.PERSON_COLUMNS, "units": tabulate.UNIT_COLUMNS, "geo": ADDRESS_COLUMNS}
DIGITS = {
    "TABBLKST": 2, "TABBLKCOU": 3, "TABTRACTCE": 6, "TABBLK": 4, "TABBLKGRPCE": 1, "DIVISIONCE": 1, "PLACEFP": 5,
    "AIANNHCE": 4,
}  # fmt: skip
"""How many digits the codes of places have."""
ROWS_NAMED = 5
CORRECT = "correct the records"
KNOWN_MAFID = "KNOWN_MAFID"
"""The address of a row of what is known of addresses: so that no column of a file is taken for it."""


@dataclass(frozen=True, slots=True)
class HouseholdRule:
    """What must hold of every row of a file that is looked at. ``broken`` is SQL over our names of its columns and, for
    rules about several files, over what is known of its address."""

    file: str
    column: str
    what: str
    expected: str
    broken: str
    severity: Severity = "error"


def _is(column: str, values: Sequence[str]) -> str:
    listed = ", ".join(literal(each) for each in values)
    return f"NOT coalesce({column} IN ({listed}), FALSE)"


def _numbers(first: int, last: int, width: int = 1) -> list[str]:
    return [f"{number:0{width}d}" for number in range(first, last + 1)]


def _between(column: str, first: int, last: int) -> str:
    return f"NOT coalesce({column} BETWEEN {first} AND {last}, FALSE)"


_MAFID = ("a number from 100000001 to 899999999", _between("MAFID", 100_000_001, 899_999_999))


def _value_rules() -> Iterator[HouseholdRule]:
    """The domain of every column by itself. Places are not used below the states: what is odd there is a warning."""
    codes: dict[tuple[str, str], tuple[str, list[str]]] = {
        ("persons", "RTYPE"): ("3 (in a housing unit) or 5 (in group quarters)", ["3", "5"]),
        ("persons", "CENRACE"): ("01 to 63", _numbers(1, 63, 2)),
        ("persons", "RELSHIP"): ("20 to 38", _numbers(20, 38)),
        ("units", "RTYPE"): ("2 (housing unit) or 4 (group quarters)", ["2", "4"]),
        ("units", "HHRACE"): ("00 to 63", _numbers(0, 63, 2)),
        ("units", "TEN"): ("0 to 4", _numbers(0, 4)),
        ("units", "HHT"): ("0 to 7", _numbers(0, 7)),
        ("units", "HHT2"): ("00 to 12", _numbers(0, 12, 2)),
        ("units", "CPLT"): ("0 to 5", _numbers(0, 5)),
        ("geo", "RTYPE"): ("2 (housing unit) or 4 (group quarters)", ["2", "4"]),
        ("geo", "REGIONCE"): ("1 to 4, or 9", ["1", "2", "3", "4", "9"]),
    }
    numbers = {
        ("persons", "QAGE"): (0, 115),
        ("persons", "CENHISP"): (1, 2),
        ("units", "FINAL_POP"): (0, 99_999),
        ("units", "HHSPAN"): (0, 2),
    }
    for file, columns in COLUMNS.items():
        for name in columns:
            unused: Severity = "warning" if file == "geo" and name not in tabulate.GEO_COLUMNS else "error"
            what, (expected, allowed) = f"{name} is out of range", codes.get((file, name), ("", []))
            if name == "MAFID":
                yield HouseholdRule(file, name, what, *_MAFID)
            elif name == "NPF":
                yield HouseholdRule(file, name, what, "0, or 2 to 97", f"{_between(name, 0, 97)} OR NPF = 1")
            elif (file, name) in numbers:
                first, last = numbers[file, name]
                yield HouseholdRule(file, name, what, f"{first} to {last:,}", _between(name, first, last))
            elif allowed:
                yield HouseholdRule(file, name, what, expected, _is(name, allowed), unused)
            else:
                form = f"length({name}) = {DIGITS[name]} AND translate({name}, '0123456789', '') = ''"
                what, expected = f"{name} has another form", f"{DIGITS[name]} digits"
                yield HouseholdRule(file, name, what, expected, f"NOT coalesce({form}, FALSE)", unused)


IN_UNIT = f"KNOWN_GEO = {literal(tabulate.HOUSING_UNIT)}"
"""That an address is a housing unit, and so tabulated."""
PEOPLE = f"{IN_UNIT} AND KNOWN_PEOPLE > 0"
"""That somebody is tabulated there."""
HOUSEHOLD = f"{IN_UNIT} AND RTYPE = '2' AND HHT <> '0'"
CHILD = "RELSHIP IN ('25', '26', '27') AND QAGE < 18"


def _shared_rules() -> Iterator[HouseholdRule]:
    """What must hold of the files together. In a housing unit every person must have a cell in every table."""
    absent = "MAFID IS NOT NULL AND coalesce({}, 0) = 0"
    of_units, of_places = "the MAFID of a row of the units", "the MAFID of a row of the geographic file"
    housed = "01 to 12 for a housing unit with people"
    couples = "(HHT2 IN ('01', '02') AND CPLT NOT IN ('1', '2')) OR (HHT2 IN ('03', '04') AND CPLT NOT IN ('3', '4'))"
    yield HouseholdRule(
        "persons", "MAFID", "a person has an address that the units lack", of_units, absent.format("KNOWN_UNITS")
    )
    yield HouseholdRule(
        "persons",
        "RELSHIP",
        "a child in a housing unit has a relationship of group quarters",
        "20 to 36 for RTYPE 3 under 18",
        f"{IN_UNIT} AND RTYPE = '3' AND QAGE < 18 AND RELSHIP IN ('37', '38')",
    )
    yield HouseholdRule(
        "persons",
        "RELSHIP",
        "an own child under 18 is in a household that has none",
        "HHT2 01, 03, 06 or 10 for the unit of the child",
        f"{IN_UNIT} AND {CHILD} AND KNOWN_HHT2 NOT IN ('01', '03', '06', '10')",
    )
    what = "a unit has an address that the geographic file lacks"
    yield HouseholdRule("units", "MAFID", what, of_places, absent.format("KNOWN_PLACES"))
    yield HouseholdRule("units", "MAFID", "a MAFID is there more than once", "each unit once", "KNOWN_UNITS > 1")
    yield HouseholdRule(
        "units", "HHT2", "a unit with people has no household type", housed, f"{PEOPLE} AND HHT2 = '00'"
    )
    yield HouseholdRule(
        "units",
        "CPLT",
        "the couple of a unit with people does not fit its household type",
        "CPLT 1 or 2 with HHT2 01 or 02, and 3 or 4 with 03 or 04",
        f"{PEOPLE} AND ({couples})",
    )
    yield HouseholdRule(
        "units",
        "TEN",
        "a unit with people has no tenure",
        "1 to 4 for a housing unit with people",
        f"(({PEOPLE}) OR ({HOUSEHOLD})) AND TEN = '0'",
    )
    yield HouseholdRule(
        "units", "HHRACE", "a household has no race", "01 to 63 for a household", f"{HOUSEHOLD} AND HHRACE = '00'"
    )
    yield HouseholdRule("geo", "MAFID", "a MAFID is there more than once", "each address once", "KNOWN_ROWS > 1")
    yield HouseholdRule("geo", "MAFID", "an address is not among the units", of_units, absent.format("KNOWN_UNITS"))


def _warning_rules() -> Iterator[HouseholdRule]:
    """What is odd, but can be tabulated."""
    single = "(HHT = '1') <> (HHT2 IN ('01', '02')) OR (HHT = '4') <> (HHT2 = '09') OR (HHT = '6') <> (HHT2 = '05')"
    rules: tuple[tuple[str, str, str, str, str], ...] = (
        (
            "persons",
            "RTYPE",
            "the record type of a person does not fit the address",
            "3 in a housing unit of the geographic file, 5 elsewhere",
            f"({IN_UNIT}) <> (RTYPE = '3')",
        ),
        (
            "units",
            "RTYPE",
            "the record type of a unit is not that of the geographic file",
            "the same in both files; that of the geographic file decides",
            "RTYPE <> KNOWN_GEO",
        ),
        (
            "units",
            "FINAL_POP",
            "the population of a unit is not the number of its persons",
            "as many as there are persons",
            f"{IN_UNIT} AND FINAL_POP <> coalesce(KNOWN_PEOPLE, 0)",
        ),
        (
            "units",
            "MAFID",
            "a unit with people has not exactly one householder",
            "one person with RELSHIP 20",
            f"{PEOPLE} AND KNOWN_HOLDERS <> 1",
        ),
        (
            "units",
            "HHRACE",
            "race or origin of a household are not those of its householder",
            "HHRACE and HHSPAN as CENRACE and CENHISP of RELSHIP 20",
            f"{PEOPLE} AND KNOWN_HOLDERS = 1 AND (HHRACE <> KNOWN_RACE OR HHSPAN <> KNOWN_ORIGIN)",
        ),
        (
            "units",
            "NPF",
            "the number of family members is not that of the householder and relatives",
            "0 without relatives, else all with RELSHIP 20, 21, 23, 25 to 33",
            f"{PEOPLE} AND NPF <> CASE WHEN KNOWN_FAMILY > 1 THEN KNOWN_FAMILY ELSE 0 END",
        ),
        (
            "units",
            "HHT",
            "HHT and HHT2 do not fit together",
            "HHT 1 with HHT2 01 or 02, 4 with 09, 6 with 05, and no others with these",
            f"{PEOPLE} AND ({single})",
        ),
    )
    return (HouseholdRule(*each, severity="warning") for each in rules)


RULES = tuple(_value_rules())
SHARED_RULES = (*_shared_rules(), *_warning_rules())


def write_known(engine: Engine, files: tabulate.HouseholdFiles, states: Sequence[str], into: Path) -> None:
    """What is known of every address: how often it is in each file, and what its persons are. Confidential."""
    geo = tabulate.selected(engine, files.geo, tabulate.GEO_COLUMNS)
    units = tabulate.selected(engine, files.units, ("MAFID", "HHT2"))
    persons = tabulate.selected(engine, files.persons, tabulate.PERSON_COLUMNS)
    here = tabulate.in_states(states)
    family = "RELSHIP IN ('20', '21', '23', '25', '26', '27', '28', '29', '30', '31', '32', '33')"
    place = (
        f"SELECT MAFID, count(*) AS KNOWN_PLACES, sum(CASE WHEN {here} THEN 1 ELSE 0 END) AS KNOWN_ROWS, "
        f"min(CASE WHEN {here} THEN RTYPE END) AS KNOWN_GEO FROM (SELECT {geo} FROM geo) AS one GROUP BY MAFID"
    )
    unit = (
        "SELECT MAFID, count(*) AS KNOWN_UNITS, min(HHT2) AS KNOWN_HHT2 "
        f"FROM (SELECT {units} FROM units) AS one GROUP BY MAFID"
    )
    people = (
        "SELECT MAFID, sum(CASE WHEN RTYPE = '3' THEN 1 ELSE 0 END) AS KNOWN_PEOPLE, "
        "sum(CASE WHEN RELSHIP = '20' THEN 1 ELSE 0 END) AS KNOWN_HOLDERS, "
        f"sum(CASE WHEN {family} THEN 1 ELSE 0 END) AS KNOWN_FAMILY, "
        "min(CASE WHEN RELSHIP = '20' THEN CENRACE END) AS KNOWN_RACE, "
        "min(CASE WHEN RELSHIP = '20' THEN CENHISP END) AS KNOWN_ORIGIN "
        f"FROM (SELECT {persons} FROM persons) AS one GROUP BY MAFID"
    )
    text = (
        f"SELECT coalesce(place.MAFID, unit.MAFID) AS {KNOWN_MAFID}, coalesce(KNOWN_PLACES, 0) AS KNOWN_PLACES, "
        "coalesce(KNOWN_ROWS, 0) AS KNOWN_ROWS, KNOWN_GEO, coalesce(KNOWN_UNITS, 0) AS KNOWN_UNITS, KNOWN_HHT2, "
        "KNOWN_PEOPLE, KNOWN_HOLDERS, KNOWN_FAMILY, KNOWN_RACE, KNOWN_ORIGIN "
        f"FROM ({place}) AS place FULL JOIN ({unit}) AS unit ON place.MAFID = unit.MAFID "
        f"LEFT JOIN ({people}) AS people ON people.MAFID = coalesce(place.MAFID, unit.MAFID)"
    )
    engine.write(text, into, persons=files.persons, units=files.units, geo=files.geo)


def check_columns(engine: Engine, source: Source, columns: Sequence[str]) -> list[Finding]:
    """Every problem of the columns of a file. No record is read for it, and no name that is not of the layout shown."""
    kinds, names = engine.kinds(source), [source.theirs(name) for name in columns]
    findings = [
        Finding.of(
            "missing-column/none",
            where=Place(file=source.file, column=name),
            name=name,
            present=len(kinds),
            person_columns=", ".join(names),
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
                person_columns=len(columns),
                severity="warning",
            )
        )
    for ours, name in zip(columns, names, strict=True):
        kind = kinds.get(name)
        if kind is not None and kind != "text" and not (kind == "integer" and ours in tabulate.INTEGERS):
            where = Place(file=source.file, column=name)
            findings.append(Finding.of("column-type/hold", where=where, kind=kind, same=ours in tabulate.INTEGERS))
    return findings


def check_files(engine: Engine, files: tabulate.HouseholdFiles, states: Sequence[str], known: Path) -> list[Finding]:
    """Every problem of the three files. Whatever can be asked of a file is asked although another one is wrong.

    Args:
        engine: Reads them.
        files: Persons, units and addresses.
        states: The states of the release.
        known: Where to write what is known of addresses.

    Returns:
        Errors and warnings.
    """
    sources = {"persons": files.persons, "units": files.units, "geo": files.geo}
    findings: list[Finding] = []
    readable: set[str] = set()
    for name, source in sources.items():
        try:
            of_columns = check_columns(engine, source, COLUMNS[name])
        except InputError as error:
            of_columns = list(error.findings)
        findings += of_columns
        readable |= set() if any(finding.severity == "error" for finding in of_columns) else {name}
    together = readable == set(sources)
    unreadable: list[Finding] = []
    try:
        if together:
            write_known(engine, files, states, known)
    except InputError as error:
        together, unreadable = False, list(error.findings)
    for name in (name for name in sources if name in readable):
        try:
            findings += _check_rows(engine, name, sources[name], states, known if together else None)
        except InputError as error:
            findings += error.findings
            unreadable = []  # it is this file that cannot be read
    return [*findings, *unreadable]


def _check_rows(
    engine: Engine, name: str, source: Source, states: Sequence[str], known: Path | None
) -> Iterator[Finding]:
    """The rules that rows of a file break, counted in one scan; rows are looked up only for those that are broken."""
    rules = [rule for rule in (*RULES, *(() if known is None else SHARED_RULES)) if rule.file == name]
    others = {} if known is None else {"known": known}
    numbered = (
        f"SELECT row_number() OVER () AS {identifier(ROW_NUMBER)}, {tabulate.selected(engine, source, COLUMNS[name])}"
    )
    join = "" if known is None else f" LEFT JOIN known ON {KNOWN_MAFID} = MAFID"
    looked_at = f"FROM ({numbered} FROM records) AS record{join} WHERE {_within(name, states, known)}"
    counted = "".join(
        f", coalesce(sum(CASE WHEN {rule.broken} THEN 1 ELSE 0 END), 0) AS rule_{at}" for at, rule in enumerate(rules)
    )
    table = engine.sql(f"SELECT count(*) AS n{counted} {looked_at}", records=source, **others)
    (numbers,) = table.reveal("to count rows that break a rule").to_pylist()
    for at, rule in enumerate(rules):
        if numbers[f"rule_{at}"]:
            first = (
                f"SELECT {identifier(ROW_NUMBER)} AS n {looked_at} AND ({rule.broken}) ORDER BY 1 LIMIT {ROWS_NAMED}"
            )
            rows = engine.sql(first, records=source, **others).reveal("to name rows that break a rule")
            yield _finding(rule, source, int(numbers[f"rule_{at}"]), rows.column("n").to_pylist())
    if not numbers["n"]:
        yield Finding.of("no-rows/states", where=Place(file=source.file))


def _within(name: str, states: Sequence[str], known: Path | None) -> str:
    """SQL that is true of rows that are looked at: those of a state of the release, and those of no state at all."""
    if name == "geo":
        return f"({tabulate.in_states(states)} OR NOT coalesce(length(TABBLKST) = 2, FALSE))"
    return "TRUE" if known is None else "(coalesce(KNOWN_ROWS, 1) > 0 OR coalesce(KNOWN_PLACES, 0) = 0)"


def _finding(rule: HouseholdRule, source: Source, number: int, rows: Sequence[int]) -> Finding:
    return Finding.of(
        "bad-record/first-rows",
        where=Place(file=source.file, row=rows[0] if rows else None, column=source.theirs(rule.column)),
        found=CONFIDENTIAL,
        severity=rule.severity,
        what=rule.what,
        number=number,
        one=number == 1,
        row_list=", ".join(f"{row:,}" for row in rows),
        expected=rule.expected,
        remedy=CORRECT,
    )
