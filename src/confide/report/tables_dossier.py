"""The dossier of tables: released counts against true ones, beside what the noise promises."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from confide.confidential import Confidential
from confide.errors import ParameterError
from confide.report import plots
from confide.report.dossier import BANNER, OVER_KEYS, PAGE, Evaluated, Evaluating, no_maps, write, write_numbers
from confide.report.render import render
from confide.runs.plan import Plan
from confide.tables.evaluation import EvaluatedCells, evaluate
from confide.utility import SIZE_CLASSES, ErrorSums, combine

FIXED = frozenset({"cells", "noise_margin", "promised_share_within_margin", "promised_root_mean_squared_error"})
"""Names of what is the same for every key."""


def evaluate_tables(asked: Evaluating) -> Evaluated:
    """Each release against the truth, with a dossier of its own; and of several, means over their keys."""
    if findings := no_maps(asked, "tables", "tables"):
        raise ParameterError(findings)
    results = []
    with asked.progress.stage("Comparing with the truth", 2 * len(asked.runs)) as advance:
        for run in asked.runs:
            cells = evaluate(asked.question, asked.plan, run.workspace)
            advance(1)
            rows = cells.reveal("the dossier is the curator's own report on the truth")
            results.append({"cells": [row.as_dict() for row in rows]})
            write(run.workspace.dossier, results[-1], _page(rows, asked.plan, run.title))
            advance(1)
    page = asked.runs[0].workspace.dossier / PAGE
    if len(results) == 1:
        return Evaluated(Confidential(results[0]), page)
    # "cells" is the list here, and in each of its rows a number that every key shares.
    combined = combine([result["cells"] for result in results], FIXED)
    numbers = {"runs": [run.name for run in asked.runs], "cells": combined}
    write_numbers(asked.runs[0].workspace.dossier / OVER_KEYS, numbers, compact=True)
    return Evaluated(Confidential(numbers), page)


def _page(rows: Sequence[EvaluatedCells], plan: Plan, title: str) -> str:
    by_level = [
        _summary(part) | {"table": table, "level": level}
        for (table, level), part in _grouped(rows, lambda row: (row.table, row.level)).items()
    ]
    levels = list(dict.fromkeys(measure.level for measure in plan.measures))
    order = [label for label, _, _ in SIZE_CLASSES]
    by_size = [
        _summary(part) | {"level": level, "size": size}
        for (level, size), part in sorted(
            _grouped(rows, lambda row: (row.level, row.size_class)).items(),
            key=lambda item: (levels.index(item[0][0]), order.index(item[0][1])),
        )
    ]
    return render(
        "dossier.html.j2",
        title=title,
        banner=BANNER,
        overall=_summary(rows),
        levels=by_level,
        sizes=by_size,
        figures=_figures(by_level, by_size, levels, order) if plots.available() else [],
    )


def _figures(
    by_level: list[dict[str, Any]], by_size: list[dict[str, Any]], levels: list[str], order: list[str]
) -> list[dict[str, str]]:
    within = [
        {
            "name": f"{row['table']}, {row['level']}",
            "within": row["share_within_margin"],
            "promised": row["promised"],
            "cells": row["cells"],
        }
        for row in by_level
    ]
    return [
        {
            "svg": plots.error_by_size(by_size, levels, order),
            "caption": "Error by the true size of the count. It does not grow with the count.",
        },
        {
            "svg": plots.relative_error_by_size(by_size, levels, order),
            "caption": "The same error as a percentage of the count: small for large counts, large for small ones.",
        },
        {
            "svg": plots.share_within_margin(within),
            "caption": "Share of counts within their noise margin (dots) and what the noise promises (bars).",
        },
    ]


def _grouped(
    rows: Sequence[EvaluatedCells], key: Callable[[EvaluatedCells], Hashable]
) -> dict[Any, list[EvaluatedCells]]:
    groups: dict[Any, list[EvaluatedCells]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _summary(rows: Sequence[EvaluatedCells]) -> dict[str, Any]:
    sums = ErrorSums()
    for row in rows:
        sums = sums + row.sums
    relative = 100 * sums.mean_absolute_error / sums.mean_truth if sums.mean_truth else None
    return sums.as_dict() | {
        "promised": sum(row.promised_within * row.sums.cells for row in rows) / sums.cells,
        "promised_error": (sum(row.promised_error**2 * row.sums.cells for row in rows) / sums.cells) ** 0.5,
        "relative_number": relative,
        "relative": "–" if relative is None else f"{relative:,.1f} %",
    }
