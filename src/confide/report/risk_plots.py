"""Pictures of what bounded noise risks (Bach 2020, Figures 1, 2, 4, 5, 6). Needs the extra ``plots``."""

from __future__ import annotations

from typing import Any

from confide.report.plots import FONT, HEIGHT, INK, PALETTE, SOFT, WIDTH, styled, svg

Rows = list[dict[str, Any]]
_BLUES = ["#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b"]
_POWERS = [10.0**power * step for power in range(-7, 8) for step in (1, 2, 5)]


def triples_needed(rows: Rows, available: int | None = None) -> str:
    """How many triples reveal the bound, over bound and variance; framed where there are not enough (Figure 1)."""
    import altair as alt

    shown = [row | {"exponent": min(row["log10_m"], 30.0), "label": _power(row["log10_m"])} for row in rows]
    if available is not None:
        shown = [row | {"safe": row["m"] is None or row["m"] > available} for row in shown]
    base = alt.Chart(alt.Data(values=shown)).encode(
        x=alt.X("V:O", title="variance V", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("D:O", title="largest noise D", sort="descending"),
    )
    scale = alt.Scale(range=_BLUES, domain=[0, 30])
    legend = alt.Legend(title="triples needed, power of ten", gradientLength=260)
    cells = base.mark_rect().encode(color=alt.Color("exponent:Q", scale=scale, legend=legend))
    dark = alt.condition("datum.exponent > 17", alt.value("#ffffff"), alt.value(INK))
    labels = base.mark_text(fontSize=10, font=FONT).encode(text="label:N", color=dark)
    layers = cells + labels
    if available is not None:
        frames = base.transform_filter("datum.safe").mark_rect(
            fillOpacity=0, stroke=PALETTE[3], strokeWidth=2, strokeOpacity=1
        )
        layers = layers + frames
    return svg(styled(layers, height=HEIGHT + 80))


def averaging_success(cells: Rows, lines: Rows, marks: Rows, quantity: str) -> str:
    """The probability of finding a count by averaging, over k/t² and a parameter of the noise (Figure 2).

    ``cells`` have ``x``, ``x2``, ``y``, ``y2``, ``alpha``; ``lines`` the contours of both models; ``marks`` the
    riskiest k/t².
    """
    import altair as alt

    axis = alt.Axis(values=_POWERS, labelExpr="format(datum.value, '~r')", labelOverlap=True, grid=False)
    lowest, highest = min(row["x"] for row in cells), max(row["x2"] for row in cells)
    bottom, top = min(row["y"] for row in cells), max(row["y2"] for row in cells)
    x_scale = alt.Scale(type="log", domain=[lowest, highest], nice=False)
    y_scale = alt.Scale(type="log", domain=[bottom, top], nice=False)
    x = alt.X("x:Q", title="k/t² of the statistic", scale=x_scale, axis=axis)
    y = alt.Y("y:Q", title=quantity, scale=y_scale, axis=axis)
    legend = alt.Legend(title="probability of finding the count", format=".0%", gradientLength=220)
    heat = (
        alt.Chart(alt.Data(values=cells))
        .mark_rect()
        .encode(
            x=x,
            x2="x2:Q",
            y=y,
            y2="y2:Q",
            color=alt.Color("alpha:Q", scale=alt.Scale(range=_BLUES, domain=[0, 1]), legend=legend),
        )
    )
    kinds = list(dict.fromkeys(row["model"] for row in lines))
    dash = alt.StrokeDash(
        "model:N",
        sort=kinds,
        scale=alt.Scale(domain=kinds, range=[[1, 0], [6, 4]][: len(kinds)]),
        legend=alt.Legend(title=None, symbolType="stroke", symbolSize=700, labelLimit=WIDTH),
    )
    within = [row for row in lines if bottom <= row["y"] <= top]
    contours = (
        alt.Chart(alt.Data(values=within))
        .mark_line(color=INK, strokeWidth=2.2, clip=True)
        .encode(x=x, y=y, strokeDash=dash)
    )
    rules = alt.Chart(alt.Data(values=marks)).mark_rule(color=PALETTE[3], strokeWidth=2).encode(x=x)
    # Names stand beside their lines, each at a height of its own.
    heights = [{**row, "y": top / (top / bottom) ** (0.08 + 0.07 * place)} for place, row in enumerate(marks)]
    words = alt.Chart(alt.Data(values=heights)).encode(x=x, y=y, text="name:N")
    look: dict[str, Any] = {"align": "left", "dx": 5, "fontSize": 12, "font": FONT, "fontWeight": "bold"}
    halo = words.mark_text(**look, stroke="#ffffff", strokeWidth=4, color="#ffffff")
    names = halo + words.mark_text(**look, color=PALETTE[3])
    return svg(styled(heat + contours + rules + names, height=HEIGHT + 80))


def distortions_by_size(rows: Rows) -> str:
    """How many counts are expected to be off by a relative error, by size, for one ε (Figure 4)."""
    import altair as alt

    shown = [
        row | {"size": f"{row['above']:,} to {row['to']:,}", "error": f"{row['relative_error']:.0%}"}
        for row in rows
        if row["to"] is not None and row["expected"] >= 0.01  # below, nothing is worth a bar
    ]
    sizes = list(dict.fromkeys(row["size"] for row in shown))
    errors = list(dict.fromkeys(row["error"] for row in shown))
    base = alt.Chart(alt.Data(values=[row | {"floor": 0.01} for row in shown])).encode(
        x=alt.X("size:N", sort=sizes, title="people in the area", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("error:N", sort=errors),
    )
    scale = alt.Scale(type="log", nice=False, domainMin=0.01)
    axis = alt.Axis(values=[10.0**power for power in range(-2, 7)], labelExpr="format(datum.value, ',~r')")
    colour = alt.Color(
        "error:N",
        sort=errors,
        title="off by at least",
        scale=alt.Scale(domain=errors, range=[PALETTE[5], PALETTE[1], PALETTE[3]][: len(errors)]),
    )
    bars = base.mark_bar().encode(
        y=alt.Y("expected:Q", title="areas expected", scale=scale, axis=axis), y2="floor:Q", color=colour
    )
    ticks = (
        base.transform_filter("datum.at_least >= 0.01").mark_tick(color=INK, thickness=2).encode(y=alt.Y("at_least:Q"))
    )
    return svg(styled(bars + ticks))


def epsilon_by_bound(rows: Rows, *, chosen: float) -> str:
    """The ε that keeps all areas within a bound, for several numbers of areas (Figure 5)."""
    import altair as alt

    names = list(dict.fromkeys(row["name"] for row in rows))
    axis = alt.Axis(values=_POWERS, labelExpr="format(datum.value, '~r')", labelOverlap=True)
    bounds = [row["bound"] for row in rows]
    x = alt.X(
        "bound:Q",
        title="largest noise on any area, E",
        axis=axis,
        scale=alt.Scale(type="log", domain=[min(bounds), max(bounds)], nice=False),
    )
    y = alt.Y("epsilon:Q", title="ε of a count", axis=axis, scale=alt.Scale(type="log", nice=False))
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(names))]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    lines = base.mark_line(strokeWidth=2).encode(
        color=alt.Color(
            "name:N",
            sort=names,
            title=None,
            scale=alt.Scale(domain=names, range=colours),
            legend=alt.Legend(labelLimit=WIDTH),
        )
    )
    rule = (
        alt.Chart(alt.Data(values=[{"bound": chosen}]))
        .mark_rule(color=SOFT, strokeDash=[3, 3])
        .encode(x=alt.X("bound:Q"))
    )
    return svg(styled(rule + lines))


def region(rows: Rows, *, largest_noise: int, recommended: dict[str, Any] | None) -> str:
    """Variances that withstand both attacks, for each bound; strict and relaxed (Figure 6, left)."""
    import altair as alt

    kinds = ["all limits", "relaxed limits"]
    bars = []
    for row in rows:
        for kind, ok, low, high in (
            (kinds[1], row["relaxed"], row["relaxed_V_low"], row["relaxed_V_high"]),
            (kinds[0], row["strict"], row["V_low"], row["V_high"]),
        ):
            if ok:
                bars.append({"D": row["D"] - 0.5, "D2": row["D"] + 0.5, "low": low, "high": high, "kind": kind})
    last = max(row["D"] for row in rows) + 0.5
    top = max([row["V_low"] for row in rows] + [bar["high"] for bar in bars if bar["kind"] == kinds[0]]) * 1.15
    x = alt.X("D:Q", title="largest noise D", scale=alt.Scale(domain=[0.5, last], nice=False), axis=_whole(alt))
    y = alt.Y("low:Q", title="variance V", scale=alt.Scale(domain=[0, top], nice=False))
    colour = alt.Color("kind:N", title=None, sort=kinds, scale=alt.Scale(domain=kinds, range=[PALETTE[5], "#f6d98a"]))
    areas = (
        alt.Chart(alt.Data(values=bars))
        .mark_rect(clip=True, opacity=1)
        .encode(x=x, x2="D2:Q", y=y, y2="high:Q", color=colour)
    )
    limits = ["revealing the bound", "averaging", "entropy"]
    curves = [
        {"D": row["D"], "low": row[key], "limit": name}
        for row in rows
        for name, key in zip(limits, ("V_high", "V_low", "V_uniform"), strict=True)
    ]
    dash = alt.StrokeDash(
        "limit:N",
        title=None,
        sort=limits,
        scale=alt.Scale(domain=limits, range=[[1, 0], [7, 4], [2, 3]]),
        legend=alt.Legend(symbolType="stroke", symbolSize=700),
    )
    lines = alt.Chart(alt.Data(values=curves)).mark_line(color=INK, clip=True).encode(x=x, y=y, strokeDash=dash)
    useful = alt.Chart(alt.Data(values=[{"D": largest_noise + 0.5}])).mark_rule(color=SOFT, strokeWidth=2).encode(x=x)
    beyond = alt.Chart(alt.Data(values=[{"D": largest_noise + 0.5, "low": top}])).mark_text(
        align="left", dx=6, dy=10, font=FONT, fontSize=12, color=SOFT
    )
    layers = areas + lines + useful + beyond.encode(x=x, y=y, text=alt.value("more noise than users accept"))
    if recommended is not None:
        here = [
            {"D": recommended["D"], "low": recommended["V"], "text": f"D {recommended['D']}, V {recommended['V']:g}"}
        ]
        point = alt.Chart(alt.Data(values=here)).encode(x=x, y=y)
        layers = layers + point.mark_point(size=110, filled=True, color=PALETTE[3], opacity=1)
        layers = layers + point.mark_text(
            align="left", dx=8, dy=16, font=FONT, fontSize=13, fontWeight="bold", color=PALETTE[3]
        ).encode(text="text:N")
    return svg(styled(layers, height=HEIGHT + 60))


def epsilon_band(limits: dict[str, float | None], rows: Rows, *, bound: int) -> str:
    """Where the ε of unbounded noise would have to lie, between utility and averaging (Figure 6, right)."""
    import altair as alt

    axis = alt.Axis(values=_POWERS, labelExpr="format(datum.value, '~r')", labelOverlap=True)
    values = [row["epsilon"] for row in rows]
    domain = [min(values), max(values)]
    x = alt.X("epsilon:Q", title="ε of a count", axis=axis, scale=alt.Scale(type="log", domain=domain, nice=False))
    y = alt.Y("bound:Q", title="noise that no area exceeds, E", axis=axis, scale=alt.Scale(type="log", nice=False))
    curve = alt.Chart(alt.Data(values=rows)).mark_line(color=PALETTE[0], strokeWidth=2).encode(x=x, y=y)
    level = alt.Chart(alt.Data(values=[{"bound": bound}])).mark_rule(color=SOFT, strokeDash=[3, 3]).encode(y=y)
    titles = {
        "utility_at_least": "utility: at least",
        "averaging_at_most": "averaging: at most",
        "relaxed_averaging_at_most": "averaging, second statistic",
    }
    largest = max(row["bound"] for row in rows)
    marks = [
        {"epsilon": limits[key], "name": name, "bound": largest * 0.8**place}
        for place, (key, name) in enumerate(titles.items())
        if limits[key] is not None
    ]
    names = [mark["name"] for mark in marks]
    dash = alt.StrokeDash(
        "name:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, range=[[1, 0], [7, 4], [2, 3]][: len(names)]),
        legend=alt.Legend(symbolType="stroke", symbolSize=700, labelLimit=WIDTH),
    )
    rules = alt.Chart(alt.Data(values=marks)).mark_rule(color=PALETTE[3], strokeWidth=2).encode(x=x, strokeDash=dash)
    return svg(styled(level + curve + rules))


def _power(exponent: float) -> str:
    return f"{10**exponent:,.0f}" if exponent < 3 else f"1e{exponent:.0f}"


def _whole(alt: Any) -> Any:
    return alt.Axis(tickMinStep=1, format="d", grid=False)
