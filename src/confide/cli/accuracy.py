"""The accuracy of a release on a terminal, a line for each level and area: confidential, as it uses the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confide.cli.show import out, table

Numbers = Mapping[str, Any]
MOST_ROWS = 20
"""More rows than this are left to the dossier."""


def show_headline(accuracy: Numbers, title: str) -> None:
    """How far a count of an area is off, beside what the noise alone would do: everybody, or, where the number of all
    is known, the last kind of the first characteristic."""
    if "suppressed" in accuracy:
        _show_lost(accuracy["suppressed"], title)
        return
    named, chosen = _headline(accuracy.get("accuracy", []))
    rows = [
        (
            row["geography"],
            f"{row['areas']:,}",
            f"{_mean(row['mean_truth']):,.1f}",
            f"{_mean(row['mean_absolute_error']):,.2f}",
            f"{_mean(row['noise_alone']['mean_absolute_error']):,.2f}" if row.get("noise_alone") else "-",
        )
        for row in chosen
    ]
    if rows:
        units = f"{accuracy.get('units', 'areas')} "
        columns = [named, units, "mean count ", "mean absolute error ", "by noise alone "]
        table(columns, rows[:MOST_ROWS], title=title)
        if len(rows) > MOST_ROWS:
            out.print(f"… and {len(rows) - MOST_ROWS:,} more, which the dossier has.")


def _show_lost(tables: Sequence[Numbers], title: str) -> None:
    """What suppression took from each table."""
    rows = [
        (
            row["name"],
            f"{row['cells']:,}",
            f"{row['primary']:,}",
            f"{row['complementary']:,}",
            f"{100 * row['hidden_share']:.1f} %",
            f"{100 * row['hidden_value_share']:.1f} %",
        )
        for row in tables
    ]
    columns = ["table", "cells ", "primary ", "complementary ", "of cells hidden ", "of figures hidden "]
    table(columns, rows[:MOST_ROWS], title=title)
    if len(rows) > MOST_ROWS:
        out.print(f"… and {len(rows) - MOST_ROWS:,} more, which the dossier has.")


def _headline(rows: Sequence[Numbers]) -> tuple[str, list[Numbers]]:
    totals = [row for row in rows if row["query"] == "total"]
    others = [row for row in rows if row["query"] != "total"]
    if not others or any(_mean(row["mean_absolute_error"]) for row in totals):
        return "total", totals
    query = others[0]["query"]
    cell = [row["cell"] for row in others if row["query"] == query][-1]
    return cell, [row for row in others if (row["query"], row["cell"]) == (query, cell)]


def _mean(value: Any) -> float:
    """A number, or the mean of one over several keys."""
    return float(value["mean"] if isinstance(value, Mapping) else value)
