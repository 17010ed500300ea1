"""``evaluate`` for cell suppression: what was lost, and what an attacker is left with, against the truth. Confidential.

Figures are read from the files of the release, as anybody has them; the truth is counted again from the records. For
every hidden cell the attacker's interval is worked out and held against the true figure: it must contain it, and for a
primary cell reach as far as its protection levels.
"""

from __future__ import annotations

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
from confide.suppression.counting import pose_problem
from confide.suppression.hiding import drawn, spread
from confide.suppression.losses import Losses
from confide.suppression.output import Unlike, read_table
from confide.suppression.pipeline import count
from confide.suppression.programme import SuppressionQuestion, Table
from confide.suppression.structure import Flags


def evaluate(
    question: SuppressionQuestion, workspace: Workspace, engine: Engine, progress: Progress
) -> Confidential[dict[str, Any]]:
    """Cells and figures lost by table, level, margin and group, and the intervals of hidden cells against the truth."""
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
    losses = Losses(question.programme, problem, hidden)
    listed, primary = question.programme.linked.listed, problem.levels.primary
    magnitude = question.spec.data.value is not None
    return Confidential(
        {
            "units": "cells",
            "accuracy": [],
            "suppressed": list(losses.by_table()),
            "programme": losses.whole(),
            "levels": list(losses.by_level()),
            "crossings": list(losses.by_crossing()),
            "margins": list(losses.by_margin()),
            "groups": list(losses.by_group()),
            "intervals": {
                "primary": spread(problem, found, hidden & primary),
                "complementary": spread(problem, found, hidden & listed & ~primary),
                "drawn": drawn(problem, found, hidden & primary, relative=magnitude),
                "relative": magnitude,
            },
        }
    )


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
