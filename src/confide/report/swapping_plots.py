"""Pictures of the dossier of swapped data. Needs the extra ``plots``."""

from __future__ import annotations

from typing import Any

from confide.report.plots import PALETTE, SHAPES, styled, svg


def error_by_level(rows: list[dict[str, Any]], levels: list[str]) -> str:
    """The mean absolute error of each table in per cent of its mean count, level by level."""
    import altair as alt

    tables = list(dict.fromkeys(row["table"] for row in rows))
    shown = [level for level in levels if level in {row["level"] for row in rows}]
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(tables))]
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(tables))]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("level:N", sort=shown, title="level", axis=alt.Axis(labelAngle=0)),
        y=alt.Y(
            "percent:Q",
            title="mean absolute error, % of the mean count",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(labelExpr="format(datum.value, '~r') + ' %'"),
        ),
        color=alt.Color("table:N", sort=tables, title="table", scale=alt.Scale(domain=tables, range=colours)),
    )
    shape = alt.Shape("table:N", sort=tables, title="table", scale=alt.Scale(domain=tables, range=shapes))
    return svg(
        styled(base.mark_line(strokeWidth=1.5) + base.encode(shape=shape).mark_point(size=80, filled=True, opacity=1))
    )
