"""Pictures of a comparison of protections. Need the extra ``plots``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confide.report.plots import FEW, PALETTE, SHAPES, SOFT, WIDTH, styled, svg

Row = Mapping[str, Any]
ATTACK, MODAL, PROPORTIONAL = "the attack", "guessing the block's largest group", "guessing in proportion"
LABELS = 230
"""Room for the names of protections."""


def precision(rows: Sequence[Row]) -> str:
    """How often the attacker is right about those who stand out, beside what guessing about the same people gives.

    A row has a ``title``, ``matches``, and the shares ``precision``, ``modal`` and ``proportional``."""
    import altair as alt

    kinds = {ATTACK: "precision", MODAL: "modal", PROPORTIONAL: "proportional"}
    values = [
        {"title": row["title"], "kind": kind, "share": row[name], "few": row["matches"] < FEW}
        for row in rows
        for kind, name in kinds.items()
        if row[name] is not None
    ]
    names = [row["title"] for row in rows]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=_names(names),
        x=alt.X(
            "share:Q",
            title=f"matches that are right (hollow: fewer than {FEW} matches)",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%"),
        ),
        color=alt.Color(
            "kind:N",
            sort=list(kinds),
            title=None,
            scale=alt.Scale(domain=list(kinds), range=[PALETTE[3], PALETTE[0], PALETTE[2]]),
            legend=alt.Legend(symbolOpacity=1, labelLimit=320),
        ),
        shape=alt.Shape(
            "kind:N",
            sort=list(kinds),
            title=None,
            scale=alt.Scale(domain=list(kinds), range=["circle", "square", "diamond"]),
        ),
    )
    many = base.transform_filter("!datum.few").mark_point(size=120, filled=True, opacity=1)
    few = base.transform_filter("datum.few").mark_point(size=120, fill="#ffffff", strokeWidth=2, opacity=1)
    return svg(styled(many + few, width=WIDTH - LABELS, height=34 * len(rows)))


def errors(rows: Sequence[Row], names: Sequence[str], levels: Sequence[str]) -> str:
    """Mean absolute errors by protection and geolevel. A row has ``title``, ``level`` and ``error``."""
    import altair as alt

    values = [dict(row) for row in rows if row["error"] is not None]
    colours, shapes = list(PALETTE[: len(levels)]), SHAPES[: len(levels)]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_point(size=110, filled=True, opacity=1)
        .encode(
            y=_names(list(names)),
            x=_error_axis("error:Q", "mean absolute error, persons"),
            color=alt.Color(
                "level:N", sort=list(levels), title="in a", scale=alt.Scale(domain=list(levels), range=colours)
            ),
            shape=alt.Shape(
                "level:N", sort=list(levels), title="in a", scale=alt.Scale(domain=list(levels), range=shapes)
            ),
        )
    )
    return svg(styled(chart, width=WIDTH - LABELS, height=34 * len(names)))


def trade_off(rows: Sequence[Row], error_title: str) -> str:
    """Risk against error, a named mark for each protection. A row has ``title``, ``error`` and ``risk``."""
    import altair as alt

    values = [dict(row) for row in rows if row["error"] is not None and row["risk"] is not None]
    chart = alt.Chart(alt.Data(values=values)).encode(
        x=_error_axis("error:Q", error_title),
        y=alt.Y(
            "risk:Q",
            title="of those who stand out, recognised rightly",
            scale=alt.Scale(domain=[0, 1.05]),
            axis=alt.Axis(format=".0%", values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
        ),
    )
    marks = chart.mark_point(size=130, filled=True, opacity=1, color=PALETTE[0])
    text = chart.mark_text(align="left", dx=10, dy=-9, fontSize=12, color=SOFT).encode(text="title:N")
    return svg(styled(marks + text, width=WIDTH - 180, height=320))


def _error_axis(field: str, title: str) -> Any:
    """Errors from zero on, small and large alike."""
    import altair as alt

    ticks = [0, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]
    scale = alt.Scale(type="symlog", constant=0.5, domainMin=0)
    return alt.X(field, title=title, scale=scale, axis=alt.Axis(values=ticks, format=",.1~f"))


def _names(names: list[str]) -> Any:
    import altair as alt

    return alt.Y(
        "title:N",
        sort=names,
        title=None,
        scale=alt.Scale(domain=names),
        axis=alt.Axis(labelLimit=LABELS + 80, labelPadding=10, ticks=False, domain=False, grid=True),
    )
