"""Pictures of the dossier of the cell key method. Needs the extra ``plots``."""

from __future__ import annotations

from typing import Any

from confide.report.plots import FEW, PALETTE, SHAPES, styled, svg

Rows = list[dict[str, Any]]


def relative_deviation_by_size(rows: Rows) -> str:
    """Mean relative deviation by the true count, on a logarithmic scale: as found, and as the noise leads to."""
    import altair as alt

    sizes = [row["true_size"] for row in rows]
    values = [
        {
            "size": row["true_size"],
            "cells": row["cells"],
            "found": 100 * row["mean_relative_deviation"] or None,
            "expected": 100 * row["expected_mean_relative_deviation"] or None,
        }
        for row in rows
    ]
    powers = [10.0**power for power in range(-6, 7)]
    axis = alt.Axis(values=powers, labelExpr="format(datum.value, '~r') + ' %'")
    title = "mean relative deviation, % of the count"

    def height(name: str) -> Any:
        return alt.Y(f"{name}:Q", title=title, scale=alt.Scale(type="log"), axis=axis)

    x = alt.X("size:N", sort=sizes, title=f"true count (hollow: fewer than {FEW} cells)", axis=alt.Axis(labelAngle=0))
    base = alt.Chart(alt.Data(values=values)).encode(x=x)
    expected = base.transform_filter("datum.expected > 0").mark_tick(thickness=3, size=30, color=PALETTE[3], opacity=1)
    found = base.transform_filter("datum.found > 0").encode(y=height("found"))
    many = found.transform_filter(f"datum.cells >= {FEW}").mark_point(size=80, filled=True, color=PALETTE[0], opacity=1)
    few = found.transform_filter(f"datum.cells < {FEW}").mark_point(
        size=80, fill="#ffffff", stroke=PALETTE[0], strokeWidth=1.5, opacity=1
    )
    return svg(styled(expected.encode(y=height("expected")) + many + few))


def share_within(rows: Rows) -> str:
    """For each table the share of cells whose relative deviation is at or below a point."""
    import altair as alt

    tables = list(dict.fromkeys(row["table"] for row in rows))
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(tables))]
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(tables))]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("at:Q", title="relative deviation at most", axis=alt.Axis(format=".0%")),
        y=alt.Y("share:Q", title="share of cells", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%")),
        color=alt.Color("table:N", sort=tables, title="table", scale=alt.Scale(domain=tables, range=colours)),
    )
    shape = alt.Shape("table:N", sort=tables, title="table", scale=alt.Scale(domain=tables, range=shapes))
    lines = base.mark_line(strokeWidth=1.5, interpolate="linear")
    return svg(styled(lines + base.encode(shape=shape).mark_point(size=70, filled=True, opacity=1)))
