"""Reads the four official code files, checks every rule of them, and makes code lists.

======================================== =======================================================================
race-and-ethnicity-codes                 RACE_ETH_CODE, RACE_ETH_NAME
race-characteristic-iterations           ITERATION_CODE, ITERATION_NAME, LEVEL, ALONE, DETAILED_ONLY, COARSE_ONLY
ethnicity-characteristic-iterations      the same without ALONE
race-and-ethnicity-code-to-iteration     ITERATION_CODE, RACE_ETH_CODE
======================================== =======================================================================

All are ``|`` separated text, or Parquet with text columns (:mod:`~confide.safetab.codes.sheets`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confide.errors import Finding, InputError
from confide.safetab.codes import checks
from confide.safetab.codes.lists import CodeLists, Iteration, IterationKind
from confide.safetab.codes.sheets import Sheet, read_sheet


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
            findings.extend(checks.check_values(sheet))
        return sheet

    codes = read(files.codes, checks.CODE_COLUMNS)
    if codes is not None:
        findings += checks.check_content(codes, "one row for each race and ethnicity code")
        findings += checks.check_unique(codes, checks.CODE)
    races = read(files.race_iterations, checks.RACE_COLUMNS)
    ethnicities = read(files.ethnicity_iterations, checks.ETHNICITY_COLUMNS)
    for sheet in (races, ethnicities):
        if sheet is not None:
            findings += checks.check_unique(sheet, checks.ITERATION) + checks.check_flags(sheet)
    if races is not None and ethnicities is not None:
        findings += checks.check_disjoint(races, ethnicities) + checks.check_iterations((races, ethnicities))
    mapping = read(files.code_to_iteration, checks.MAPPING_COLUMNS)
    iterations = {item.code: item for sheet in (races, ethnicities) if sheet is not None for item in _iterations(sheet)}
    if mapping is not None:
        findings += checks.check_content(mapping, "one row for each code of an iteration")
        findings += checks.check_rows_once(mapping)
        findings += _unknown_codes(mapping, codes, races, ethnicities)
        findings += checks.check_one_group(mapping, iterations)
    if findings:
        raise InputError(findings)
    assert codes is not None
    assert mapping is not None
    pairs = ((iteration, code) for iteration, code in mapping.rows if iteration in iterations)
    return CodeLists.build(
        dict(zip(codes.column(checks.CODE), codes.column(checks.CODE_NAME), strict=True)), iterations.values(), pairs
    )


def _iterations(sheet: Sheet) -> Iterator[Iteration]:
    """The iterations of levels 1 and 2 that a sheet describes properly; the others have findings or are level 0."""
    for row in sheet.rows:
        values = dict(zip(sheet.columns, row, strict=True))
        if any(
            name in values and not pattern.fullmatch(values[name]) for name, (pattern, _) in checks.PATTERNS.items()
        ):
            continue
        flags = values[checks.TOTAL_ONLY], values[checks.COARSE_ONLY]
        alone = values.get(checks.ALONE)
        if values[checks.LEVEL] == "0" or "Null" in flags or flags == ("True", "True"):
            continue
        kind: IterationKind = "race-alone" if alone == "True" else "race-combination"
        yield Iteration(
            values[checks.ITERATION],
            values[checks.ITERATION_NAME],
            int(values[checks.LEVEL]),
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
        known = {*races.column(checks.ITERATION), *ethnicities.column(checks.ITERATION)}
        files = f"{races.file} or {ethnicities.file}"
        findings += checks.check_known(mapping, checks.ITERATION, known, files)
    if codes is not None and codes.whole:
        findings += checks.check_known(mapping, checks.CODE, set(codes.column(checks.CODE)), codes.file)
    return findings
