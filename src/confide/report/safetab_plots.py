"""Pictures for the tuning of a SafeTab-P release. Needs the extra ``plots``."""

from __future__ import annotations

from typing import Any

from confide.report.plots import FONT, HEIGHT, PALETTE, SOFT, WIDTH, styled, svg

Rows = list[dict[str, Any]]
_DASHES = [[1, 0], [7, 4], [2, 3], [9, 3, 2, 3], [4, 2], [1, 5], [12, 4]]


def suppression_by_size(rows: Rows) -> str:
    """The probability that a group is suppressed, by its true size as a share of the threshold (paper, Figure 1)."""
    import altair as alt

    axis = alt.Axis(format=".0%")
    scale = alt.Scale(domain=[0, 1])
    y = alt.Y("suppressed:Q", title="probability of being suppressed", scale=scale, axis=axis)
    return svg(styled(_curves(rows, y), height=HEIGHT + 40))


def bias_by_size(rows: Rows) -> str:
    """By how much a released total is too high on average, as a share of the threshold (paper, Figure 2)."""
    import altair as alt

    y = alt.Y("bias_of_threshold:Q", title="mean excess of a released total, share of T", axis=alt.Axis(format=".1f"))
    return svg(styled(_curves(rows, y), height=HEIGHT + 40))


def margin_by_budget(rows: Rows, unit: str) -> str:
    """Noise margin and suppression threshold by the budget of a level, both on logarithmic scales.

    Marks are the budgets of the levels that were asked for.
    """
    import altair as alt

    kinds = list(dict.fromkeys(row["what"] for row in rows))
    powers = [10.0**power * step for power in range(-6, 7) for step in (1, 2, 5)]
    ticks = alt.Axis(values=powers, labelExpr="format(datum.value, ',~r')", labelOverlap=True)
    colours, shapes = [PALETTE[0], PALETTE[3]][: len(kinds)], ["circle", "diamond"][: len(kinds)]
    base = alt.Chart(alt.Data(values=[row for row in rows if row["persons"] > 0])).encode(
        x=alt.X("budget:Q", title=f"budget of a level ({unit})", scale=_log(alt, rows, "budget"), axis=ticks),
        y=alt.Y("persons:Q", title="persons", scale=alt.Scale(type="log", nice=False), axis=ticks),
        color=alt.Color("what:N", title=None, sort=kinds, scale=alt.Scale(domain=kinds, range=colours)),
    )
    lines = base.mark_line(strokeWidth=1.8, interpolate="step-before")
    shape = alt.Shape("what:N", title=None, sort=kinds, scale=alt.Scale(domain=kinds, range=shapes))
    own = base.transform_filter("datum.own")
    marks = own.encode(shape=shape).mark_point(size=90, filled=True, opacity=1)
    labels = own.mark_text(align="left", dx=8, dy=-9, fontSize=12, font=FONT).encode(text="persons:Q")
    return svg(styled(lines + marks + labels, height=HEIGHT + 60))


def _curves(rows: Rows, y: Any) -> Any:
    """One line for each budget over the true size as a share of the threshold, with a rule at the threshold itself."""
    import altair as alt

    named = [row | {"curve": f"{row['budget']} (T = {row['threshold']:,})"} for row in rows]
    order = list(dict.fromkeys(row["curve"] for row in named))
    places = range(len(order))
    colours = [PALETTE[place % len(PALETTE)] for place in places]
    dashes = [_DASHES[place % len(_DASHES)] for place in places]
    legend = alt.Legend(
        title=None, columns=4, symbolType="stroke", symbolSize=700, symbolStrokeWidth=2.5, labelLimit=WIDTH
    )

    def scale(values: list[Any]) -> Any:
        return alt.Scale(domain=order, range=values)

    base = alt.Chart(alt.Data(values=named)).encode(
        x=alt.X(
            "of_threshold:Q",
            title="true size of the group, share of the suppression threshold T",
            scale=alt.Scale(domain=[0, 2]),
            axis=alt.Axis(values=[0, 0.5, 1, 1.5, 2], format=".1f"),
        ),
        y=y,
        color=alt.Color("curve:N", sort=order, scale=scale(colours), legend=legend),
    )
    lines = base.mark_line(strokeWidth=2).encode(
        strokeDash=alt.StrokeDash("curve:N", sort=order, scale=scale(dashes), legend=legend)
    )
    # Few persons, few sizes: where a threshold is small its sizes are marked one by one.
    marks = base.transform_filter("datum.threshold <= 12").mark_circle(size=45, opacity=1)
    rule = alt.Chart(alt.Data(values=[{"x": 1}])).mark_rule(color=SOFT, strokeDash=[3, 3]).encode(x="x:Q")
    return rule + lines + marks


def _log(alt: Any, rows: Rows, name: str) -> Any:
    values = [row[name] for row in rows]
    return alt.Scale(type="log", domain=[min(values), max(values)], nice=False)
