"""Pictures of the dossier of a SafeTab-P release. Needs the extra ``plots``."""

from __future__ import annotations

from typing import Any

from confide.report.plots import FEW, PALETTE, SHAPES, VERY_FEW, WIDTH, styled, svg

Rows = list[dict[str, Any]]
_SHADES = ["#d0d5da", "#cfe3f1", "#7fb8d8", "#2f86b8", "#0b4f77"]
"""Nothing is grey; the more detail, the darker."""
_COLUMNS = 2
_MANY_COLOURS = [*PALETTE, "#8c6d31", "#7f7f7f", "#843c39", "#5254a3", "#637939", "#a55194"]
_MANY_SHAPES = [*SHAPES, "triangle-left", "wedge", "arrow"]
"""Ten region types, three of them also with a total alone: more than the palette has."""


def tables_by_size(rows: Rows, sizes: list[str], tables: list[str]) -> str:
    """The share of groups that got each table, by true size, as stacked bars."""
    import altair as alt

    order = {name: number for number, name in enumerate(tables)}
    values = [row | {"order": order[row["table"]]} for row in rows]
    chart = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=_sizes(alt, sizes, rows),
            y=alt.Y("share:Q", title="share of groups", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "table:N",
                sort=tables,
                title=None,
                scale=alt.Scale(domain=tables, range=_SHADES[: len(tables)]),
                legend=alt.Legend(columns=len(tables), symbolType="square"),
            ),
            order=alt.Order("order:Q"),
        )
    )
    return _panels(alt, chart, values)


def error_by_size(rows: Rows, sizes: list[str]) -> str:
    """What 95 % of the errors do not exceed, by true size of the group, beside the noise margin."""
    import altair as alt

    shown = [row for row in rows if row["counts"] >= VERY_FEW]
    regions = list(dict.fromkeys(row["region"] for row in rows))
    colours = [_MANY_COLOURS[number % len(_MANY_COLOURS)] for number in range(len(regions))]
    shapes = [_MANY_SHAPES[number % len(_MANY_SHAPES)] for number in range(len(regions))]
    legend = alt.Legend(columns=5, labelLimit=WIDTH)
    base = alt.Chart().encode(
        x=_sizes(alt, sizes, shown),
        xOffset=alt.XOffset("region:N", sort=regions),
        color=alt.Color(
            "region:N", sort=regions, title=None, scale=alt.Scale(domain=regions, range=colours), legend=legend
        ),
    )
    title = "95 % of errors, persons"
    promised = base.mark_tick(thickness=3, size=16, opacity=1).encode(y=alt.Y("margin:Q", title=title))
    height = alt.Y("found:Q", title=title, scale=alt.Scale(zero=True))
    shape = alt.Shape(
        "region:N", sort=regions, title=None, scale=alt.Scale(domain=regions, range=shapes), legend=legend
    )
    marks = base.encode(y=height, shape=shape)
    many = marks.transform_filter(f"datum.counts >= {FEW}").mark_point(size=55, filled=True, opacity=1)
    few = marks.transform_filter(f"datum.counts < {FEW}").mark_point(size=55, fill="#ffffff", opacity=1)
    return _panels(alt, alt.layer(promised, many, few), shown, independent=True)


def suppression(points: Rows) -> str:
    """The share of groups that are left out, by true size: marks as found, a line as theory has it."""
    import altair as alt

    curves = list(dict.fromkeys(point["curve"] for point in points))
    colours = [PALETTE[number % len(PALETTE)] for number in range(len(curves))]
    shapes = [SHAPES[number % len(SHAPES)] for number in range(len(curves))]
    legend = alt.Legend(columns=2, labelLimit=WIDTH, symbolOpacity=1)
    colour = alt.Color("curve:N", sort=curves, title=None, scale=alt.Scale(domain=curves, range=colours), legend=legend)
    x = alt.X("size:Q", title="true size of the group, persons", scale=alt.Scale(nice=False))
    axis, whole = alt.Axis(format=".0%"), alt.Scale(domain=[0, 1])
    line = [{"curve": point["curve"]} | each for point in points for each in point["line"]]
    lines = (
        alt.Chart(alt.Data(values=line))
        .mark_line(strokeWidth=1.8)
        .encode(x=x, y=alt.Y("expected:Q", title="share of groups left out", axis=axis, scale=whole), color=colour)
    )
    found = [_interval(point) for point in points if point["groups"] >= VERY_FEW]
    base = alt.Chart(alt.Data(values=found)).encode(x=x, color=colour)
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", scale=whole), y2="high:Q")
    shape = alt.Shape("curve:N", sort=curves, title=None, scale=alt.Scale(domain=curves, range=shapes), legend=legend)
    marks = base.encode(y=alt.Y("share:Q", scale=whole), shape=shape)
    many = marks.transform_filter(f"datum.groups >= {FEW}").mark_point(size=70, filled=True, opacity=1)
    few = marks.transform_filter(f"datum.groups < {FEW}").mark_point(size=70, fill="#ffffff", opacity=1)
    return svg(styled(lines + bars + many + few))


def _interval(point: dict[str, Any]) -> dict[str, Any]:
    """Two standard errors around the share, as theory has them."""
    half = 2 * (point["expected"] * (1 - point["expected"]) / point["groups"]) ** 0.5
    return {name: point[name] for name in ("curve", "size", "share", "groups")} | {
        "low": max(0.0, point["share"] - half),
        "high": min(1.0, point["share"] + half),
    }


def _sizes(alt: Any, sizes: list[str], rows: Rows) -> Any:
    used = {row["size"] for row in rows}
    domain = [size for size in sizes if size in used]
    title = "true size of the group, persons"
    axis = alt.Axis(labelAngle=-30, titleFontSize=11)
    return alt.X("size:N", sort=domain, scale=alt.Scale(domain=domain), title=title, axis=axis)


def _panels(alt: Any, chart: Any, rows: Rows, *, independent: bool = False) -> str:
    """The same chart for each panel, side by side."""
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    drawn = chart.properties(width=(WIDTH - 90) // _COLUMNS, height=190)
    header = alt.Header(title=None, labelFontSize=13, labelFontWeight=600)
    facet = alt.Facet("panel:N", sort=panels, header=header)
    whole = drawn.properties(data=alt.Data(values=rows)).facet(facet, columns=_COLUMNS)
    if independent:
        whole = whole.resolve_scale(y="independent")
    # A chart of several panels has no size of its own; it takes the look without it.
    whole.config = styled(chart).config
    return svg(whole)
