"""What is audited: a release of ours, files with or without a description, or a problem in the format of solvers (.jj).

A problem in that format has cells without variables, and their sums. Cells that are unsafe (``u``) or hidden for others
(``m``) are taken for suppressed, all others for published. The file has every figure and level, so that each interval
is judged by them: what comes out is confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from confide.attacks.suppression.audit_files import read_required, read_suspect
from confide.attacks.suppression.suppression_audit import Audit, Required, Suspect, audit
from confide.errors import Finding, InputError, ParameterError, Place, ReleaseError
from confide.inputs.argus import JJProblem, read_jj
from confide.mechanisms.suppression.given.assumed import assumed, read_plain
from confide.mechanisms.suppression.given.description import TableInput, describe
from confide.mechanisms.suppression.output import read_table
from confide.mechanisms.suppression.problem import SOLVABLE, step_of
from confide.mechanisms.suppression.programme import described, unit_of
from confide.mechanisms.suppression.structure import LinkedTables, Structure, TableDimensions, flat
from confide.mechanisms.suppression.verify import bounds, gathered
from confide.releases.folder import MANIFEST, read_manifest, release_of
from confide.releases.tabular import UnlikePlanError, table_files

HIDDEN = ("u", "m")


def read_jj_subject(path: Path) -> tuple[Suspect, Required]:
    """The cells of a problem as anybody would see them, and how far their intervals must reach. Confidential.

    Args:
        path: The .jj file.

    Returns:
        What is published, with the bounds of the file; and the true figures with their levels.

    Raises:
        InputError: The file cannot be read, or an audit of it would look at nothing.
    """
    problem = read_jj(path)
    findings = _empty(path, problem)
    if findings:
        raise InputError(findings)
    cells = problem.cells
    number = {cell.number: at + 1 for at, cell in enumerate(cells)}  # the first is a total of everything, in no sum
    row, column, times, total = [], [], [], []
    for at, each in enumerate(problem.sums):
        row += [at] * len(each.terms)
        column += [number[cell] for cell, _ in each.terms]
        times += [float(coefficient) for _, coefficient in each.terms]
        total.append(number[next((cell for cell, coefficient in each.terms if coefficient < 0), each.terms[0][0])])
    shape = (len(problem.sums), len(cells) + 1)
    matrix = sparse.csr_array((np.array(times), (np.array(row), np.array(column))), shape=shape)
    structure = Structure(matrix, np.array(total, np.int64), np.zeros(len(total), np.int64))
    table = TableDimensions(
        path.stem,
        (flat("cell", [str(cell.number) for cell in cells]),),
        (np.arange(len(cells) + 1) > 0,),
    )
    numbers = np.arange(len(cells) + 1, dtype=np.int64)
    linked = LinkedTables((table,), structure, (numbers,), numbers > 0)

    def column_of(name: str, first: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([first, *(float(getattr(cell, name)) for cell in cells)])

    value = column_of("value", 0.0)
    hidden = np.array([True, *(cell.status in HIDDEN for cell in cells)], np.bool_)
    whole_numbers = bool((value == np.rint(value)).all())
    suspect = Suspect(linked, value, hidden, column_of("low", 0.0), column_of("high", np.inf), whole_numbers)
    unsafe = np.array([False, *(cell.status == "u" for cell in cells)], np.bool_)
    levels = [np.where(unsafe, column_of(name, 0.0), 0.0) for name in ("lower", "upper", "sliding")]
    return suspect, Required(value, *levels)


def _empty(path: Path, problem: JJProblem) -> list[Finding]:
    """Problems of which an audit would look at nothing, and sums that it cannot use."""
    place, findings = Place(file=path.name), []
    if not problem.sums:
        what, expected = "nothing is added up", "sums between the cells"
        findings.append(Finding("nothing-added-up", what, place, "no sums", expected, "add them to the file"))
    if not any(cell.status in HIDDEN for cell in problem.cells):
        what, expected = "no cell is suppressed", "cells with the status u or m"
        remedy = "give the problem with its solution"
        findings.append(Finding("nothing-hidden", what, place, "none", expected, remedy))
    if any(each.right for each in problem.sums):
        what, expected = "a sum does not come to zero", "a total with a coefficient of its own in each sum"
        findings.append(Finding("argus-file", what, place, "another right side", expected, "write the total as a cell"))
    return findings


# A release of ours as a suppressed table to be audited, from its files alone.


# A release of ours, or files with or without a description.


def suspect_of_release(folder: Path, manifest: dict[str, Any]) -> Suspect:
    """The tables of a release and what its plan says that everybody knows."""
    question = manifest["plan"]["question"]
    if "suppression" not in question:
        raise ReleaseError(_not_one(folder, f"a release by the mechanism {manifest['mechanism']}"))
    programme = described(question)
    files = {file["path"] for file in manifest["files"]}
    read = []
    for table in programme.tables:
        format_, path = next(iter(table_files(table.name, files).items()), ("", ""))
        try:
            magnitude = question["value"] is not None
            read.append(read_table(folder / path, format_, table, magnitude=magnitude, unit=unit_of(question)))
        except (UnlikePlanError, OSError) as error:
            found = str(error) if isinstance(error, UnlikePlanError) else "no file"
            raise ReleaseError(_not_one(folder, found)) from None
    value, unknown, agree = gathered(programme, read)
    if not agree:
        raise ReleaseError(_not_one(folder, "tables that disagree about a cell"))
    if step_of(value) > 1:
        raise ReleaseError(_too_large(folder))
    high, unit = np.full(len(value), np.inf), unit_of(question)
    # Figures and intervals are told as they are published. Multiples of a part of one are no whole numbers.
    low = bounds(programme, question) * float(unit)
    figures = value.astype(np.float64) * float(unit)
    return Suspect(programme.linked, figures, unknown, low, high, integer=unit.denominator == 1)


def _too_large(folder: Path) -> Finding:
    what, remedy = "the figures have too many digits to be audited", "confide verify attacks them in larger steps"
    expected = f"figures up to {SOLVABLE:,} units"
    return Finding("figures-too-large", what, Place(file=str(folder)), "larger ones", expected, remedy)


def _not_one(folder: Path, found: str) -> Finding:
    what, remedy = "this is no release with suppressed cells", "verify it with `confide verify`"
    return Finding("not-suppressed", what, Place(file=str(folder)), found, "its tables, as they were sealed", remedy)


@dataclass(frozen=True, eq=False)
class AuditSubject:
    """Tables that are to be audited, as they were read."""

    suspect: Suspect
    required: Required | None = None
    taken_for: Mapping[str, str] = field(default_factory=dict)
    """For a table without a description what its columns were taken for."""

    def audit(self, *, sharpen: bool = False) -> Audit:
        """What an attacker can work out: see :func:`confide.attacks.suppression.suppression_audit.audit`."""
        return replace(audit(self.suspect, self.required, sharpen=sharpen), taken_for=self.taken_for)


def audit_suppression(tables: str | Path, truth: str | Path | None = None, *, sharpen: bool = False) -> Audit:
    """What follows from tables about their suppressed cells (``confide audit suppression``).

    Args:
        tables: A folder with a description (``table.toml``), a CSV or Parquet file with or without one, or a release.
        truth: CONFIDENTIAL: the true figures, in the same form, to judge each interval by them.
        sharpen: Use in every sum that figures are whole numbers; slow, small parts only.

    Returns:
        The smallest interval for each suppressed cell, by linear programming, and whether it is too narrow.
    """
    return read_subject(Path(tables), None if truth is None else Path(truth)).audit(sharpen=sharpen)


def read_subject(tables: Path, truth: Path | None = None, note: Callable[[str], None] = lambda _: None) -> AuditSubject:
    """The tables of a folder, a file or a release, ready to be audited.

    ``note`` is told at once what was read as the description says, and may not be what was meant.
    """
    tables = release_of(tables)
    if (tables / MANIFEST).is_file():
        if truth is not None:
            raise ParameterError(
                "no-truth",
                "a release of ours is held against the truth by `confide evaluate`",
                where=Place(path="--truth"),
                found="a release folder",
                expected="a described table",
                remedy="leave --truth out",
            )
        suspect = suspect_of_release(tables, read_manifest(tables))
        _note_doubts(suspect, note)
        return AuditSubject(suspect)
    if tables.suffix.lower() == ".jj" and tables.is_file():
        if truth is not None:
            raise ParameterError(
                "no-truth",
                "a problem in the exchange format has its true figures",
                where=Place(path="--truth"),
                found="a .jj file",
                expected="a described table",
                remedy="leave --truth out",
            )
        return AuditSubject(*read_jj_subject(tables))
    read = describe_or_assume(tables)
    columns = {name: what for of_file in read.taken_for.values() for name, what in of_file.items()}
    if columns:
        listed = "; ".join(f"{name}: {what}" for name, what in columns.items())
        note(f"no description, so taken for a table without hierarchies: {listed}.")
    suspect = read_suspect(read)
    if truth is None and (read.description.protection.threshold or read.description.protection.percent):
        note("threshold and percent are judged by true figures: give --truth")
    required = None if truth is None else read_required(read, suspect, truth)
    _note_doubts(suspect, note)
    return AuditSubject(suspect, required, columns)


def _note_doubts(suspect: Suspect, note: Callable[[str], None]) -> None:
    if suspect.without_totals:
        names = ", ".join(suspect.without_totals)
        remedy = "If it is called otherwise, write so as `total` in the description."
        note(f"no table has the total of {names}: nothing was added up to it. {remedy}")
    if suspect.beside:
        number = f"{suspect.beside:,} {'cell is' if suspect.beside == 1 else 'cells are'} marked as suppressed"
        note(f"{number} with a figure beside the mark: it was not looked at. Do not publish it.")


def describe_or_assume(path: Path) -> TableInput:
    """The description of a table; for a single file without one, what it is taken for."""
    described = path.suffix.lower() in (".toml", ".rda", ".tab") or path.with_suffix(".toml").is_file()
    return assumed(path, *read_plain(path), protect=False) if path.is_file() and not described else describe(path)
