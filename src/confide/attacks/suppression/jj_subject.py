"""A problem in the exchange format of solvers (.jj) as something to audit: cells without variables, and their sums.

Cells that are unsafe (``u``) or hidden for others (``m``) are taken for suppressed, all others for published. The file
has every figure and level, so that each interval is judged by them: what comes out is confidential.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from confide.attacks.suppression.suppression_audit import Required, Suspect
from confide.errors import Finding, InputError, Place
from confide.inputs.argus import JJProblem, read_jj
from confide.mechanisms.suppression.structure import LinkedTables, Structure, TableDimensions, flat

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
