"""Released counts beside true ones, and beside what their noise promises: a dossier for counts with noise of their own.
Confidential."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.report import charts
from confide.report.certificate import render
from confide.report.dossier import BANNER
from confide.utility import SIZE_CLASSES, ErrorSums

DEFAULT_MARGIN = Fraction(19, 20)
FIXED = frozenset({"cells", "noise_margin", "promised_share_within_margin", "promised_root_mean_squared_error"})
"""Names of what is the same for every key."""


@dataclass(frozen=True)
class CellErrors:
    """The error of the cells of one margin of one table on one level, whose true counts are of one size class."""

    table: str
    level: str
    query: str
    size_class: str
    margin: int
    promised_within: float
    promised_error: float
    sums: ErrorSums

    def as_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "level": self.level,
            "query": self.query,
            "true_size": self.size_class,
            "noise_margin": self.margin,
            "promised_share_within_margin": self.promised_within,
            "promised_root_mean_squared_error": self.promised_error,
        } | self.sums.as_dict()


def page_of_cells(
    rows: Sequence[CellErrors],
    levels: Sequence[str],
    title: str,
    maps: list[dict[str, Any]],
    risks: dict[str, Any],
    unit: str = "persons",
) -> str:
    """The page of a dossier: the errors of all counts, by table and level, and by their true size.

    Args:
        rows: The errors.
        levels: The levels in order.
        title: What the release is called.
        maps: Pictures of areas.
        risks: The picture of figures of one record.
        unit: What is counted.
    """
    by_level = [
        _summary(part) | {"table": table, "level": level}
        for (table, level), part in _grouped(rows, lambda row: (row.table, row.level)).items()
    ]
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
        figures=_figures(by_level, by_size, list(levels), order) if charts.available() else [],
        maps=maps,
        risks=risks,
        unit=unit,
    )


def _figures(
    by_level: list[dict[str, Any]], by_size: list[dict[str, Any]], levels: list[str], order: list[str]
) -> list[dict[str, str]]:
    within = [_within(row) for row in by_level]
    lowest = min(min(row["within"], row["low"]) for row in within)
    shares = charts.chart(
        "tables-share-within-margin", within, lowest=max(0.0, lowest - 0.01), height=max(120, 26 * len(within))
    )
    return [
        {
            "svg": charts.chart("tables-error-by-size", by_size, levels=levels, sizes=order).svg(),
            "caption": "Error by the true count. It does not grow with the count.",
        },
        {
            "svg": charts.chart("tables-relative-error-by-size", by_size, levels=levels, sizes=order).svg(),
            "caption": "The same error as a percentage of the true count: small for large counts, large for small.",
        },
        {
            "svg": shares.svg(),
            "caption": "Share of counts within their noise margin (dots) and what the noise promises (bars).",
        },
    ]


def _within(row: dict[str, Any]) -> dict[str, Any]:
    """The share of a table on a level that is within the margin, and where it falls in 19 of 20 cases."""
    promised, cells = row["promised"], row["cells"]
    half = 2 * (promised * (1 - promised) / cells) ** 0.5 if cells else 0.0
    return {
        "name": f"{row['table']}, {row['level']}",
        "within": row["share_within_margin"],
        "promised": promised,
        "low": promised - half,
        "high": min(1.0, promised + half),
    }


def _grouped(rows: Sequence[CellErrors], key: Callable[[CellErrors], Hashable]) -> dict[Any, list[CellErrors]]:
    groups: dict[Any, list[CellErrors]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _summary(rows: Sequence[CellErrors]) -> dict[str, Any]:
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
