"""``evaluate`` for cell suppression: what was lost, and what an attacker is left with, against the truth. Confidential.

Figures are read from the files of the release, as anybody has them; the truth is counted again from the records. For
every hidden cell the attacker's interval is worked out and held against the true figure: it must contain it, and for a
primary cell reach as far as its protection levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from confide.confidential import Confidential
from confide.engines import Engine
from confide.errors import Finding, Place, ReleaseError
from confide.inputs.records import records_fingerprint
from confide.runs.evaluating import require_sealed
from confide.runs.execute import changed
from confide.runs.progress import Progress
from confide.runs.workspace import Workspace
from confide.suppression.attacker import Intervals
from confide.suppression.counting import pose_problem
from confide.suppression.output import Unlike, read_table
from confide.suppression.pipeline import count
from confide.suppression.problem import Problem
from confide.suppression.programme import SuppressionQuestion, Table
from confide.suppression.structure import Flags

PRECISION = 1e-6
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def evaluate(
    question: SuppressionQuestion, workspace: Workspace, engine: Engine, progress: Progress
) -> Confidential[dict[str, Any]]:
    """Cells and figures lost by table, and the intervals of hidden cells against the truth."""
    require_sealed(workspace)
    begun = workspace.identity()
    if begun is None or begun.records_fingerprint != records_fingerprint(question.records.path):
        raise changed("the records are not those of the release", workspace)
    with progress.stage("Counting records", 1) as advance:
        problem = pose_problem(question, count(question, engine, workspace))
        advance(1)
    hidden = _released(question, workspace.release)
    with progress.stage("Attacking", 1) as advance:
        found = problem.attacker(hidden).intervals()
        advance(1)
    linked = question.programme.linked
    tables = [
        {"name": table.name, "title": table.title} | _lost(problem, hidden, np.unique(numbers[layout.listed_cells]))
        for table, layout, numbers in zip(question.programme.tables, linked.tables, linked.numbers, strict=True)
    ]
    return Confidential(
        {
            "units": "cells",
            "accuracy": [],
            "suppressed": tables,
            "programme": _lost(problem, hidden, np.flatnonzero(linked.listed)),
            "margins": list(_by_margin(question, problem, hidden)),
            "intervals": {
                "primary": _spread(problem, found, hidden & problem.levels.primary),
                "complementary": _spread(problem, found, hidden & linked.listed & ~problem.levels.primary),
            },
        }
    )


def _lost(problem: Problem, hidden: Flags, cells: np.ndarray[Any, Any]) -> dict[str, Any]:
    """How many cells, and how much of all that they count, are hidden."""
    value, gone = problem.value[cells], hidden[cells]
    primary = problem.levels.primary[cells]
    return {
        "cells": len(cells),
        "empty": int((value == 0).sum()),
        "hidden": int(gone.sum()),
        "primary": int(primary.sum()),
        "complementary": int((gone & ~primary).sum()),
        "hidden_share": float(gone.mean()),
        "value": int(value.sum()),
        "hidden_value": int(value[gone].sum()),
        "hidden_value_share": float(value[gone].sum() / max(1, value.sum())),
        "cost": float(problem.weight[cells][gone & ~primary].sum()),
    }


def _by_margin(question: SuppressionQuestion, problem: Problem, hidden: Flags) -> Iterator[dict[str, Any]]:
    """The same by table and by which groupings are crossed."""
    linked = question.programme.linked
    for table, numbers in zip(question.programme.tables, linked.numbers, strict=True):
        inner = table.layout.places > 0
        listed = table.layout.listed_cells
        for pattern in sorted(np.unique(inner, axis=0).tolist(), key=lambda each: (sum(each), each[::-1])):
            at = (inner == np.array(pattern, np.bool_)).all(axis=1) & listed
            names = [variable.name for variable, used in zip(table.variables, pattern, strict=True) if used]
            margin = " × ".join(names) or "total"
            yield {"table": table.name, "margin": margin} | _lost(problem, hidden, np.unique(numbers[at]))


def _spread(problem: Problem, found: Intervals, chosen: Flags) -> dict[str, Any]:
    """Intervals of some cells: whether they hold, and how wide they are."""
    cells = np.flatnonzero(chosen)
    value, low, high = problem.value[cells], found.low[cells], found.high[cells]
    levels = problem.levels.taken(cells)
    protected = (
        (low <= np.maximum(value - levels.lower, problem.low[cells]) + PRECISION)
        & (high >= value + levels.upper - PRECISION)
        & (high - low >= np.maximum(levels.sliding, 1) - PRECISION)
    )
    width = (high - low)[np.isfinite(high)]
    return {
        "cells": len(cells),
        "contain_the_truth": int(((low <= value + PRECISION) & (value <= high + PRECISION)).sum()),
        "known_exactly": int((high - low <= PRECISION).sum()),
        "protected": int(protected.sum()),
        "without_upper_end": int(np.isinf(high).sum()),
        "width": {f"{at:g}": float(np.quantile(width, at)) for at in QUANTILES} if len(width) else {},
    }


def _released(question: SuppressionQuestion, release: Path) -> Flags:
    """Which distinct cells are hidden, read from the files."""
    formats = question.spec.output.formats
    sdmx = formats[0] == "sdmx-csv"
    linked = question.programme.linked
    hidden = np.ones(linked.structure.cells, np.bool_)
    for table, numbers in zip(question.programme.tables, linked.numbers, strict=True):
        file = release / (f"sdmx/{table.name}.csv" if sdmx else f"tables/{table.name}.{formats[0]}")
        try:
            _, flags = read_table(file, table, magnitude=question.spec.data.value is not None, sdmx=sdmx)
        except (Unlike, OSError) as problem:
            raise ReleaseError(_unlike(table, file, problem)) from None
        own = table.layout.listed_cells
        hidden[numbers[own]] = flags[own]
    return hidden


def _unlike(table: Table, file: Path, problem: Exception) -> Finding:
    found = str(problem) if isinstance(problem, Unlike) else "a file that cannot be read"
    remedy = "verify the release with `confide verify`, and restore it"
    what = f"the released table {table.name!r} is not as the plan describes it"
    return Finding("release-unlike", what, Place(file=file.name), found, "the table as it was sealed", remedy)
