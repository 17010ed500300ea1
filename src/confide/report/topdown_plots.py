"""Pictures of the accuracy of a TopDown release. Needs the extra ``plots``."""

from __future__ import annotations

from typing import Any

from confide.report.geometry import Geometry
from confide.report.plots import FEW, PALETTE, SHAPES, SOFT, WIDTH, styled, svg

MAP_HEIGHT = 520


def beside_noise(rows: list[dict[str, Any]], noun: str) -> str:
    """For each geography the realised root mean squared error, and that of the noise alone, on a logarithmic scale.

    Rows have ``name``, ``realised`` and ``noise``; zeros have no place on the scale and are left out by the caller.
    """
    import altair as alt

    long = [
        {"name": row["name"], "error": row[key], "what": label}
        for row in rows
        for key, label in (("realised", "realised"), ("noise", "noise alone"))
        if row[key]
    ]
    order = [row["name"] for row in rows]
    base = alt.Chart(alt.Data(values=long)).encode(
        y=alt.Y("name:N", sort=order, title=None, axis=alt.Axis(labelLimit=300, ticks=False, domain=False, grid=True)),
        x=alt.X("error:Q", title=f"root mean squared error, {noun}", scale=alt.Scale(type="log"), axis=_powers(alt)),
    )
    kinds = ["realised", "noise alone"]
    marks = base.mark_point(size=95, filled=True, opacity=1).encode(
        color=alt.Color("what:N", title=None, scale=alt.Scale(domain=kinds, range=[PALETTE[0], PALETTE[3]])),
        shape=alt.Shape("what:N", title=None, scale=alt.Scale(domain=kinds, range=["circle", "diamond"])),
    )
    return svg(styled(marks, width=WIDTH - 130, height=max(120, 30 * len(order))))


def realised_and_noise(rows: list[dict[str, Any]], geographies: list[str], noun: str) -> str:
    """Every characteristic of every geography: the realised error against that of the noise alone."""
    import altair as alt

    shown = [row for row in rows if row["realised"] and row["noise"]]
    values = [row[key] for row in shown for key in ("realised", "noise")]
    low, high = min(values) / 1.3, max(values) * 1.3
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    line = (
        alt.Chart(alt.Data(values=[{"x": low, "y": low}, {"x": high, "y": high}]))
        .mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.2)
        .encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=scale))
    )
    colour, shape = _by_geography(alt, geographies)
    marks = (
        alt.Chart(alt.Data(values=shown))
        .mark_point(size=48, filled=True, opacity=0.75)
        .encode(
            x=alt.X("noise:Q", title=f"noise alone, {noun}", scale=scale, axis=_powers(alt)),
            y=alt.Y("realised:Q", title=f"realised, {noun}", scale=scale, axis=_powers(alt)),
            color=colour,
            shape=shape,
        )
    )
    return svg(styled(line + marks, height=420))


def bias(rows: list[dict[str, Any]], geographies: list[str], sizes: list[str], noun: str) -> str:
    """The mean signed error by the true size of the count, over ``FEW`` counts or more: zero would be no bias."""
    import altair as alt

    colour, shape = _by_geography(alt, geographies)
    zero = alt.Chart(alt.Data(values=[{"y": 0}])).mark_rule(color=SOFT, strokeWidth=1.2).encode(y="y:Q")
    base = alt.Chart(alt.Data(values=[row for row in rows if row["areas"] >= FEW])).encode(
        x=alt.X("size:N", sort=sizes, title=f"true count, {noun}", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("mean_error:Q", title=f"mean error (released less true), {noun}"),
        color=colour,
    )
    lines = base.mark_line(strokeWidth=1.6)
    return svg(styled(zero + lines + base.encode(shape=shape).mark_point(size=70, filled=True, opacity=1)))


def error_map(geometry: Geometry, percent: dict[str, float | None]) -> str:
    """A map of areas, coloured by their signed error in per cent; grey where nobody lives."""
    import altair as alt

    known = sorted(abs(value) for value in percent.values() if value is not None)
    # One outlying area must not take the colour from all the others: the scale ends at the 95 per cent point.
    reach = (known[int(0.95 * (len(known) - 1))] if known else 0.0) or (known[-1] if known else 0.0) or 1.0
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "MultiPolygon", "coordinates": outline.polygons},
            "percent": percent.get(outline.code),
        }
        for outline in geometry.outlines
    ]
    data = alt.Data(values=features)
    colour = alt.Color(
        "percent:Q",
        title="error of the total, per cent",
        scale=alt.Scale(scheme="blueorange", domain=[-reach, reach], domainMid=0, clamp=True),
        legend=alt.Legend(orient="bottom", gradientLength=320, format="+.2~r", titleOrient="top"),
    )
    base = alt.Chart(data).project(type="identity", reflectY=True)
    empty = base.transform_filter("!isValid(datum.percent)").mark_geoshape(
        fill="#d9dde1", stroke="#ffffff", strokeWidth=0.5
    )
    shapes = base.transform_filter("isValid(datum.percent)").mark_geoshape(stroke="#5b6570", strokeWidth=0.35)
    return svg(styled(empty + shapes.encode(color=colour), height=MAP_HEIGHT))


def _by_geography(alt: Any, geographies: list[str]) -> tuple[Any, Any]:
    colours = [PALETTE[position % len(PALETTE)] for position in range(len(geographies))]
    shapes = [SHAPES[position % len(SHAPES)] for position in range(len(geographies))]
    legend = alt.Legend(columns=5, title=None)
    return (
        alt.Color("geography:N", scale=alt.Scale(domain=geographies, range=colours), legend=legend),
        alt.Shape("geography:N", scale=alt.Scale(domain=geographies, range=shapes), legend=legend),
    )


def _powers(alt: Any) -> Any:
    values = [10.0**power * step for power in range(-4, 8) for step in (1, 2, 5)]
    return alt.Axis(values=values, labelExpr="format(datum.value, ',~r')", labelOverlap=True)
