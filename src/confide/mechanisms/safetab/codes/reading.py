"""Reads the four official code files, checks every rule of them, and makes code lists.

======================================== =======================================================================
race-and-ethnicity-codes                 RACE_ETH_CODE, RACE_ETH_NAME
race-characteristic-iterations           ITERATION_CODE, ITERATION_NAME, LEVEL, ALONE, DETAILED_ONLY, COARSE_ONLY
ethnicity-characteristic-iterations      the same without ALONE
race-and-ethnicity-code-to-iteration     ITERATION_CODE, RACE_ETH_CODE
======================================== =======================================================================

All are ``|`` separated text, or Parquet with text columns (:mod:`~confide.mechanisms.safetab.codes.sheets`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confide.errors import Finding, InputError, Place
from confide.mechanisms.safetab.codes.lists import LEVELS, CodeLists, Iteration, IterationKind
from confide.mechanisms.safetab.codes.sheets import Sheet, read_sheet, shown

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
    CODE: (re.compile(r"[1-9][0-9]{3}"), "four digits, the first not 0"),
    ITERATION: (re.compile(r"[0-9]{4}"), "four digits, with leading zeros"),
    LEVEL: (re.compile(r"[0-2]"), "0 (major race), 1 (regional) or 2 (detailed)"),
    ALONE: (re.compile(r"True|False"), "True or False"),
    TOTAL_ONLY: (re.compile(r"True|False|Null"), "True, False, or Null for a major race"),
    COARSE_ONLY: (re.compile(r"True|False|Null"), "True, False, or Null for a major race"),
}
"""What the whole value of a column must match; names are free text."""

KIND_WORDS: dict[IterationKind, str] = {
    "race-alone": "of a race alone",
    "race-combination": "of a race alone or in any combination",
    "ethnicity": "of an ethnicity",
}


def check_values(sheet: Sheet) -> list[Finding]:
    """Every value has the form that its column asks for."""
    findings = []
    for name in sheet.columns:
        if name not in PATTERNS:
            continue
        pattern, words = PATTERNS[name]
        wrong = [(row, shown(value)) for row, value in enumerate(sheet.column(name)) if not pattern.fullmatch(value)]
        what = "a value is not of the right form"
        remedy = "correct the value; capitals count, and blanks too"
        findings += sheet.broken("bad-value", what, wrong, expected=words, remedy=remedy, column=name)
    return findings


def check_unique(sheet: Sheet, column: str) -> list[Finding]:
    """No code is listed twice."""
    first: dict[str, int] = {}
    again = []
    for row, value in enumerate(sheet.column(column)):
        if value in first:
            again.append((row, f"{shown(value)} (first in {sheet.unit} {sheet.numbers[first[value]]:,})"))
        first.setdefault(value, row)
    what, remedy = "a code is listed more than once", "leave one row for each code"
    return sheet.broken("duplicate-code", what, again, expected="every code once", remedy=remedy, column=column)


def check_flags(sheet: Sheet) -> list[Finding]:
    """Flags go together: not both True; and both Null for major races (level 0) and for nothing else."""
    codes = [shown(code) for code in sheet.column(ITERATION)]
    flags = list(zip(sheet.column(LEVEL), sheet.column(TOTAL_ONLY), sheet.column(COARSE_ONLY), strict=True))
    both = [(row, f"iteration {codes[row]}") for row, (_, *pair) in enumerate(flags) if pair == ["True", "True"]]
    uneven = [
        (row, f"iteration {codes[row]} with {shown(level)}, {shown(total)}, {shown(coarse)}")
        for row, (level, total, coarse) in enumerate(flags)
        if len({level == "0", total == "Null", coarse == "Null"}) > 1
    ]
    return sheet.broken(
        "both-flags",
        f"{TOTAL_ONLY} and {COARSE_ONLY} are both True",
        both,
        expected="at most one of the two: an iteration with both would be tabulated nowhere",
        remedy="set one of the two to False",
    ) + sheet.broken(
        "level-and-flags",
        f"{LEVEL}, {TOTAL_ONLY} and {COARSE_ONLY} do not go together",
        uneven,
        expected="level 0 with Null and Null, or level 1 or 2 with True or False",
        remedy="correct the level, or the flags",
    )


def check_disjoint(races: Sheet, ethnicities: Sheet) -> list[Finding]:
    """No iteration code is both one of races and one of ethnicities."""
    known = set(races.column(ITERATION))
    shared = [(row, shown(code)) for row, code in enumerate(ethnicities.column(ITERATION)) if code in known]
    return ethnicities.broken(
        "shared-code",
        f"an iteration code is also in {races.file}",
        shared,
        expected="codes of race iterations and of ethnicity iterations that differ",
        remedy="give one of the two iterations another code",
        column=ITERATION,
    )


def check_content(sheet: Sheet, what: str) -> list[Finding]:
    """The file has rows."""
    if sheet.rows or not sheet.whole:
        return []
    where = Place(file=sheet.file)
    return [Finding("codes.no-rows", "the file has no rows", where, "a header alone", what, "put in the rows")]


def check_iterations(sheets: Iterable[Sheet]) -> list[Finding]:
    """Some iteration is there to be tabulated."""
    files = list(sheets)
    if any(level != "0" for sheet in files for level in sheet.column(LEVEL)) or not all(sheet.whole for sheet in files):
        return []
    return [
        Finding(
            "codes.no-iterations",
            "there is no iteration to tabulate",
            Place(file=files[0].file, column=LEVEL),
            f"no iteration of level 1 or 2 in {' or '.join(sheet.file for sheet in files)}",
            "at least one regional or detailed iteration",
            "put in the iterations; major races (level 0) are never tabulated",
        )
    ]


def check_known(mapping: Sheet, column: str, known: Collection[str], files: str) -> list[Finding]:
    """Every code of the mapping is in the file that lists such codes. Values of a wrong form are not repeated."""
    pattern, _ = PATTERNS[column]
    unknown = [
        (row, shown(code))
        for row, code in enumerate(mapping.column(column))
        if code not in known and pattern.fullmatch(code)
    ]
    return mapping.broken(
        "unknown-code",
        f"a code is not in {files}",
        unknown,
        expected=f"codes that are listed in {files}",
        remedy=f"add the code to {files}, or take the row out",
        column=column,
    )


def check_rows_once(mapping: Sheet) -> list[Finding]:
    """No row of the mapping is there twice."""
    first: dict[tuple[str, ...], int] = {}
    again = []
    for row, values in enumerate(mapping.rows):
        if values in first:
            again.append((row, f"{shown('|'.join(values))} (as in {mapping.unit} {mapping.numbers[first[values]]:,})"))
        first.setdefault(values, row)
    what, remedy = "a row is there more than once", "leave each pair of codes once"
    return mapping.broken("duplicate-row", what, again, expected="every pair of codes once", remedy=remedy)


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
    for level, kind in ((level, kind) for level in LEVELS for kind in KIND_WORDS):
        findings += mapping.broken(
            "several-groups",
            f"a code counts in several iterations {KIND_WORDS[kind]} on level {level}",
            sorted(cases[level, kind]),
            expected="at most one that is tabulated in nation and states, and at most one below the states",
            remedy="take the code out of all but one, or correct the flags of the iterations",
            column=CODE,
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
        if any(name in values and not pattern.fullmatch(values[name]) for name, (pattern, _) in PATTERNS.items()):
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
    if races is not None and ethnicities is not None and races.whole and ethnicities.whole:
        known = {*races.column(ITERATION), *ethnicities.column(ITERATION)}
        files = f"{races.file} or {ethnicities.file}"
        findings += check_known(mapping, ITERATION, known, files)
    if codes is not None and codes.whole:
        findings += check_known(mapping, CODE, set(codes.column(CODE)), codes.file)
    return findings
