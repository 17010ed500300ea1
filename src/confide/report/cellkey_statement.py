"""The statement that stands in for a certificate where counts have bounded noise that never changes: it certifies no
loss, and says what holds instead. Made from the manifest alone."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.cellkey.described import Described, DescribedTable, describe
from confide.cellkey.ptables import NOT_A_PROMISE
from confide.report.render import exact_text, render

LARGEST_ROUNDING = 1e-3
"""A larger mean of the noise is a bias of the table, not of its rounding to keys."""

LEAST_DECIMAL = 1e-4
"""Smaller numbers are written with a power of ten."""


def cellkey_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question = manifest["plan"]["question"]
    described, ptable = describe(question), question["ptable"]
    return render(
        "cellkey.html.j2",
        title=f"Statement: {manifest['title']}",
        banner="",
        manifest=manifest,
        words=manifest["privacy"]["in_words"],
        biased=manifest["noise"]["bias"] > LARGEST_ROUNDING,
        bias=_small(manifest["noise"]["bias"]),
        variance={name: f"{value:.4g}" for name, value in manifest["noise"]["variance"].items()},
        ptable=ptable,
        asked=exact_text(Fraction(ptable["V"])) if ptable["V"] is not None else None,
        stay=exact_text(Fraction(ptable["pstay"])) if ptable["pstay"] is not None else None,
        threshold=question["threshold"],
        weighted=question["weighted"],
        partial=question["partial"],
        reading=_reading(manifest["privacy"]["single_count"]),
        not_a_promise=NOT_A_PROMISE,
        sizes=sizes(described),
        tables=[_row(table) for table in described.tables],
    )


def sizes(described: Described) -> dict[str, int]:
    """How large a programme is: tables, cells in them, distinct cross-classifications, and cells in these."""
    return {
        "tables": len(described.tables),
        "cells": sum(table.cells for table in described.tables),
        "distinct": len(described.distinct),
        "distinct_cells": sum(described.distinct.values()),
    }


def _row(table: DescribedTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "variables": [f"{variable.name} ({len(variable.labels):,})" for variable in table.variables],
        "margins": len(table.margins),
        "cells": table.cells,
    }


def _reading(single: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if single is None:
        return None
    shown = {name: _small(single[name]) for name in ("epsilon", "delta", "delta_all_counts")}
    return {**shown, "worst_counts": single["worst_counts"]}


def _small(value: float) -> str:
    """A number with its leading digits; far below one with a power of ten."""
    if not value or abs(value) >= LEAST_DECIMAL:
        return f"{value:.4g}"
    digits, _, exponent = f"{value:.3g}".partition("e")
    return f"{digits} · 10⁻" + exponent.lstrip("-0").translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
