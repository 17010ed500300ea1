"""Reads the four official code files, checks every rule of them, and makes code lists.

======================================== =======================================================================
race-and-ethnicity-codes                 RACE_ETH_CODE, RACE_ETH_NAME
race-characteristic-iterations           ITERATION_CODE, ITERATION_NAME, LEVEL, ALONE, DETAILED_ONLY, COARSE_ONLY
ethnicity-characteristic-iterations      the same without ALONE
race-and-ethnicity-code-to-iteration     ITERATION_CODE, RACE_ETH_CODE
======================================== =======================================================================

All are ``|`` separated text, or Parquet with text columns (:mod:`~confide.mechanisms.safetab.code_files`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines.protocol import format_of
from confide.errors import Finding, InputError, Place
from confide.mechanisms.safetab.codes import LEVELS, CodeLists, Iteration, IterationKind

# Sheets: small public files of text values with a fixed header, from ``|`` separated text or from Parquet.
#
# Text is UTF-8 with or without a byte order mark, lines end with LF or CRLF, blank lines at the end are no rows, and no
# character quotes or escapes another. In Parquet every column is text without nulls. A value is never interpreted:
# leading zeros stay, and ``Null`` is a text of four letters.


SHOWN = 10
"""How many rows that break the same rule a finding lists; all are counted."""

LONGEST = 60
"""How many characters of a value a finding shows."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The rows of one file. ``numbers`` are their lines in a text file, or their rows in Parquet.

    ``complete`` is false when a row was left out because it had too many or too few values.
    """

    file: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: Sequence[int]
    unit: str = "line"
    complete: bool = True

    def place(self, index: int, column: str | None = None) -> Place:
        """Where the row with this index is."""
        number = self.numbers[index]
        if self.unit == "line":
            return Place(file=self.file, line=number, column=column)
        return Place(file=self.file, row=number, column=column)

    def column(self, name: str) -> list[str]:
        """The values of a column."""
        position = self.columns.index(name)
        return [row[position] for row in self.rows]

    def broken(
        self, key: str, cases: Sequence[tuple[int, str]], column: str | None = None, **facts: Any
    ) -> list[Finding]:
        """One finding for all rows that break a rule, each given by its index and what it says; none if none does."""
        if not cases:
            return []
        return [Finding.of(key, where=self.place(cases[0][0], column), found=self.listed(cases), **facts)]

    def listed(self, cases: Sequence[tuple[int, str]]) -> str:
        """What rows say that break a rule, each given by its index: the first of them, and how many there are."""
        listed = [f"{text} in {self.unit} {self.numbers[index]:,}" for index, text in cases[:SHOWN]]
        if len(cases) == 1:
            return cases[0][1]
        if len(cases) > SHOWN:
            return f"{'; '.join(listed)}; and so on, {len(cases):,} rows in all"
        return "; ".join(listed)


def quoted(value: str) -> str:
    """A value as a finding shows it: quoted, and cut when it is long."""
    return repr(value) if len(value) <= LONGEST else f"{value[:LONGEST]!r}..."


def read_sheet(path: Path, columns: tuple[str, ...]) -> tuple[Sheet | None, list[Finding]]:
    """The sheet of a file that has these columns in this order, and what is wrong with its form.

    There is no sheet when the file cannot be read or its header is not the expected one.
    """
    try:
        there, is_file = path.exists(), path.is_file()
    except OSError as error:
        return None, [_forbidden(path, error)]
    if not there:
        return None, [Finding.of("codes.missing-file", where=Place(file=path.name), found=str(path))]
    if not is_file:
        return None, [Finding.of("codes.not-a-file", where=Place(file=path.name), found=str(path))]
    if format_of(path) == "parquet":
        return _read_parquet(path, columns)
    return _read_text(path, columns)


def _forbidden(path: Path, error: OSError) -> Finding:
    return Finding.of("codes.unreadable/file-read", where=Place(file=path.name), found=str(error))


def _read_text(path: Path, columns: tuple[str, ...]) -> tuple[Sheet | None, list[Finding]]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        return None, [_forbidden(path, error)]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = Place(file=path.name, line=raw.count(b"\n", 0, error.start) + 1)
        return None, [Finding.of("codes.encoding/file", where=where, raw=raw[error.start], start=error.start)]
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return None, [
            Finding.of("codes.empty-file", where=Place(file=path.name), raw=len(raw), columns="|".join(columns))
        ]
    findings = _header_findings(path.name, lines[0].split("|"), columns, line=1)
    if findings:
        return None, findings
    parts = [(number, tuple(line.split("|"))) for number, line in enumerate(lines[1:], start=2)]
    good = [(number, values) for number, values in parts if len(values) == len(columns)]
    numbers, rows = [number for number, _ in good], [values for _, values in good]
    uneven = Sheet(path.name, columns, [values for _, values in parts], [number for number, _ in parts])
    findings = uneven.broken(
        "codes.row-length",
        [(index, _counted(values)) for index, values in enumerate(uneven.rows) if len(values) != len(columns)],
        columns=len(columns),
    )
    return Sheet(path.name, columns, rows, numbers, complete=not findings), findings


def _counted(values: tuple[str, ...]) -> str:
    if values == ("",):
        return "a blank line"
    return "1 value" if len(values) == 1 else f"{len(values)} values"


def _read_parquet(path: Path, columns: tuple[str, ...]) -> tuple[Sheet | None, list[Finding]]:
    try:
        # not read_table: that would take folder names such as level=1 for columns
        with pq.ParquetFile(path) as opened:
            table = opened.read()
    except (pa.ArrowException, OSError) as error:
        return None, [
            Finding.of("codes.unreadable/parquet", where=Place(file=path.name), found=str(error).split("\n")[0])
        ]
    findings = _header_findings(path.name, table.schema.names, columns)
    if findings:
        return None, findings
    values = []
    for name in columns:
        column, wrong = _text_column(path.name, name, table.column(name))
        values.append(column)
        findings += wrong
    if findings:
        return None, findings
    rows = list(zip(*values, strict=True))
    return Sheet(path.name, columns, rows, range(1, len(rows) + 1), unit="row"), []


def _text_column(file: str, name: str, column: pa.ChunkedArray) -> tuple[list[str], list[Finding]]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    where = Place(file=file, column=name)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return [], [Finding.of("codes.column-type", where=where, type=column.type)]
    try:
        values: list[str | None] = column.to_pylist()
    except UnicodeDecodeError:
        return [], [Finding.of("codes.encoding/column", where=where)]
    empty = [row for row, value in enumerate(values, start=1) if value is None]
    if empty:
        where = Place(file=file, row=empty[0], column=name)
        return [], [Finding.of("codes.null", where=where, empty=len(empty), one=len(empty) == 1)]
    return [value for value in values if value is not None], []


def _header_findings(
    file: str, present: Sequence[str], wanted: tuple[str, ...], line: int | None = None
) -> list[Finding]:
    """What is wrong with a header: columns that are missing, unexpected or twice there; or their order."""
    where = Place(file=file, line=line)
    expected = ", ".join(wanted)
    missing = [name for name in wanted if name not in present]
    surplus = [name for place, name in enumerate(present) if name not in wanted or name in present[:place]]
    findings = []
    if missing:
        findings.append(
            Finding.of(
                "codes.missing-column",
                where=where,
                several=len(missing) > 1,
                missing=", ".join(missing),
                expected=expected,
            )
        )
    if surplus:
        listed = ", ".join(quoted(name) for name in surplus[:SHOWN])
        findings.append(
            Finding.of(
                "codes.unexpected-column",
                where=where,
                several=len(surplus) > 1,
                listed=listed,
                surplus=len(surplus),
                less=len(surplus) <= SHOWN,
                expected=expected,
            )
        )
    if not findings and tuple(present) != wanted:
        findings.append(Finding.of("codes.column-order", where=where, found=", ".join(present), expected=expected))
    return findings


# Rules of the four official code files. Each check gives findings; none raises.
#
# The rules are those of the Census Bureau's own validation (SafeTab-P 5.0.0), and some that it leaves out:
# duplicates, lists without content. The files are public, so findings show values.


CODE, CODE_NAME = "RACE_ETH_CODE", "RACE_ETH_NAME"
ITERATION, ITERATION_NAME, LEVEL, ALONE = "ITERATION_CODE", "ITERATION_NAME", "LEVEL", "ALONE"
TOTAL_ONLY, COARSE_ONLY = "DETAILED_ONLY", "COARSE_ONLY"

CODE_COLUMNS = (CODE, CODE_NAME)
RACE_COLUMNS = (ITERATION, ITERATION_NAME, LEVEL, ALONE, TOTAL_ONLY, COARSE_ONLY)
ETHNICITY_COLUMNS = (ITERATION, ITERATION_NAME, LEVEL, TOTAL_ONLY, COARSE_ONLY)
MAPPING_COLUMNS = (ITERATION, CODE)

PATTERNS = {
    CODE: re.compile(r"[1-9][0-9]{3}"),
    ITERATION: re.compile(r"[0-9]{4}"),
    LEVEL: re.compile(r"[0-2]"),
    ALONE: re.compile(r"True|False"),
    TOTAL_ONLY: re.compile(r"True|False|Null"),
    COARSE_ONLY: re.compile(r"True|False|Null"),
}
"""What the whole value of a column must match; names are free text."""

KINDS: tuple[IterationKind, ...] = ("race-alone", "race-combination", "ethnicity")


def check_values(sheet: Sheet) -> list[Finding]:
    """Every value has the form that its column asks for."""
    findings = []
    for name in sheet.columns:
        if name not in PATTERNS:
            continue
        pattern = PATTERNS[name]
        wrong = [(row, quoted(value)) for row, value in enumerate(sheet.column(name)) if not pattern.fullmatch(value)]
        findings += sheet.broken(
            "codes.bad-value",
            wrong,
            name,
            of_code=name == CODE,
            iteration=name == ITERATION,
            level=name == LEVEL,
            alone=name == ALONE,
        )
    return findings


def check_unique(sheet: Sheet, column: str) -> list[Finding]:
    """No code is listed twice."""
    first: dict[str, int] = {}
    again = []
    for row, value in enumerate(sheet.column(column)):
        if value in first:
            again.append((row, f"{quoted(value)} (first in {sheet.unit} {sheet.numbers[first[value]]:,})"))
        first.setdefault(value, row)
    return sheet.broken("codes.duplicate-code", again, column)


def check_flags(sheet: Sheet) -> list[Finding]:
    """Flags go together: not both True; and both Null for major races (level 0) and for nothing else."""
    codes = [quoted(code) for code in sheet.column(ITERATION)]
    flags = list(zip(sheet.column(LEVEL), sheet.column(TOTAL_ONLY), sheet.column(COARSE_ONLY), strict=True))
    both = [(row, f"iteration {codes[row]}") for row, (_, *pair) in enumerate(flags) if pair == ["True", "True"]]
    uneven = [
        (row, f"iteration {codes[row]} with {quoted(level)}, {quoted(total)}, {quoted(coarse)}")
        for row, (level, total, coarse) in enumerate(flags)
        if len({level == "0", total == "Null", coarse == "Null"}) > 1
    ]
    return sheet.broken("codes.both-flags", both, total_only=TOTAL_ONLY, coarse_only=COARSE_ONLY) + sheet.broken(
        "codes.level-and-flags", uneven, level=LEVEL, total_only=TOTAL_ONLY, coarse_only=COARSE_ONLY
    )


def check_disjoint(races: Sheet, ethnicities: Sheet) -> list[Finding]:
    """No iteration code is both one of races and one of ethnicities."""
    iterations = set(races.column(ITERATION))
    shared = [(row, quoted(code)) for row, code in enumerate(ethnicities.column(ITERATION)) if code in iterations]
    return ethnicities.broken("codes.shared-code", shared, ITERATION, races=races.file)


def check_content(sheet: Sheet, what: str) -> list[Finding]:
    """The file has rows."""
    if sheet.rows or not sheet.complete:
        return []
    where = Place(file=sheet.file)
    return [Finding.of("codes.no-rows", where=where, what=what)]


def check_iterations(sheets: Iterable[Sheet]) -> list[Finding]:
    """Some iteration is there to be tabulated."""
    files = list(sheets)
    if any(level != "0" for sheet in files for level in sheet.column(LEVEL)) or not all(
        sheet.complete for sheet in files
    ):
        return []
    return [
        Finding.of(
            "codes.no-iterations",
            where=Place(file=files[0].file, column=LEVEL),
            files=" or ".join(sheet.file for sheet in files),
        )
    ]


def check_known(mapping: Sheet, column: str, iterations: Collection[str], files: str) -> list[Finding]:
    """Every code of the mapping is in the file that lists such codes. Values of a wrong form are not repeated."""
    pattern = PATTERNS[column]
    unknown = [
        (row, quoted(code))
        for row, code in enumerate(mapping.column(column))
        if code not in iterations and pattern.fullmatch(code)
    ]
    return mapping.broken("codes.unknown-code/listed", unknown, column, files=files)


def check_rows_once(mapping: Sheet) -> list[Finding]:
    """No row of the mapping is there twice."""
    first: dict[tuple[str, ...], int] = {}
    again = []
    for row, values in enumerate(mapping.rows):
        if values in first:
            again.append((row, f"{quoted('|'.join(values))} (as in {mapping.unit} {mapping.numbers[first[values]]:,})"))
        first.setdefault(values, row)
    return mapping.broken("codes.duplicate-row", again)


def check_one_group(mapping: Sheet, iterations: Mapping[str, Iteration]) -> list[Finding]:
    """A code counts in at most one iteration of each kind and level, in large regions and in others.

    On this rests the bound on how many groups a person can be in.
    """
    rows: dict[tuple[str, str], int] = {}
    for row, (iteration_code, code) in enumerate(mapping.rows):
        rows.setdefault((iteration_code, code), row)
    members: dict[tuple[int, IterationKind, str], list[str]] = defaultdict(list)
    for iteration_code, code in rows:
        if iteration_code in iterations:
            iteration = iterations[iteration_code]
            members[iteration.level, iteration.kind, code].append(iteration_code)
    cases: dict[tuple[int, IterationKind], list[tuple[int, str]]] = defaultdict(list)
    for (level, kind, code), listed in members.items():
        together = {large: [c for c in listed if iterations[c].tabulated(large=large)] for large in (True, False)}
        for where, codes in _conflicts(together).items():
            cases[level, kind].append((rows[codes[1], code], f"{code} in {' and '.join(codes)} ({where})"))
    findings = []
    for level, kind in ((level, kind) for level in LEVELS for kind in KINDS):
        findings += mapping.broken(
            "codes.several-groups",
            sorted(cases[level, kind]),
            CODE,
            level=level,
            ethnicity=kind == "ethnicity",
            combination=kind == "race-combination",
        )
    return findings


def _conflicts(together: Mapping[bool, list[str]]) -> dict[str, list[str]]:
    """The regions, in words, in which a code has more than one iteration, and which these are."""
    large, others = together[True], together[False]
    if large == others and len(large) > 1:
        return {"in all regions": large}
    named = {"in nation and states": large, "below the states": others}
    return {words: codes for words, codes in named.items() if len(codes) > 1}


@dataclass(frozen=True)
class CodeFiles:
    """Where the four files are."""

    codes: Path
    race_iterations: Path
    ethnicity_iterations: Path
    code_to_iteration: Path


def read_code_lists(files: CodeFiles) -> CodeLists:
    """The code lists of the files. Every problem of all four is a finding of one :class:`InputError`."""
    findings: list[Finding] = []

    def read(path: Path, columns: tuple[str, ...]) -> Sheet | None:
        sheet, wrong = read_sheet(path, columns)
        findings.extend(wrong)
        if sheet is not None:
            findings.extend(check_values(sheet))
        return sheet

    codes = read(files.codes, CODE_COLUMNS)
    if codes is not None:
        findings += check_content(codes, "one row for each race and ethnicity code")
        findings += check_unique(codes, CODE)
    races = read(files.race_iterations, RACE_COLUMNS)
    ethnicities = read(files.ethnicity_iterations, ETHNICITY_COLUMNS)
    for sheet in (races, ethnicities):
        if sheet is not None:
            findings += check_unique(sheet, ITERATION) + check_flags(sheet)
    if races is not None and ethnicities is not None:
        findings += check_disjoint(races, ethnicities) + check_iterations((races, ethnicities))
    mapping = read(files.code_to_iteration, MAPPING_COLUMNS)
    iterations = {item.code: item for sheet in (races, ethnicities) if sheet is not None for item in _iterations(sheet)}
    if mapping is not None:
        findings += check_content(mapping, "one row for each code of an iteration")
        findings += check_rows_once(mapping)
        findings += _unknown_codes(mapping, codes, races, ethnicities)
        findings += check_one_group(mapping, iterations)
    if findings:
        raise InputError(findings)
    assert codes is not None
    assert mapping is not None
    pairs = ((iteration, code) for iteration, code in mapping.rows if iteration in iterations)
    return CodeLists.build(
        dict(zip(codes.column(CODE), codes.column(CODE_NAME), strict=True)), iterations.values(), pairs
    )


def _iterations(sheet: Sheet) -> Iterator[Iteration]:
    """The iterations of levels 1 and 2 that a sheet describes properly; the others have findings or are level 0."""
    for row in sheet.rows:
        values = dict(zip(sheet.columns, row, strict=True))
        if any(name in values and not pattern.fullmatch(values[name]) for name, pattern in PATTERNS.items()):
            continue
        flags = values[TOTAL_ONLY], values[COARSE_ONLY]
        alone = values.get(ALONE)
        if values[LEVEL] == "0" or "Null" in flags or flags == ("True", "True"):
            continue
        kind: IterationKind = "race-alone" if alone == "True" else "race-combination"
        yield Iteration(
            values[ITERATION],
            values[ITERATION_NAME],
            int(values[LEVEL]),
            "ethnicity" if alone is None else kind,
            flags[0] == "True",
            flags[1] == "True",
        )


def _unknown_codes(
    mapping: Sheet, codes: Sheet | None, races: Sheet | None, ethnicities: Sheet | None
) -> list[Finding]:
    """Codes of the mapping that their lists lack, as far as those lists could be read in full."""
    findings: list[Finding] = []
    if races is not None and ethnicities is not None and races.complete and ethnicities.complete:
        iterations = {*races.column(ITERATION), *ethnicities.column(ITERATION)}
        files = f"{races.file} or {ethnicities.file}"
        findings += check_known(mapping, ITERATION, iterations, files)
    if codes is not None and codes.complete:
        findings += check_known(mapping, CODE, set(codes.column(CODE)), codes.file)
    return findings
