"""Pictures of what a Bayesian adversary learns from one count, or from several of the same cell.

After the figures of Kazan and Reiter (2024), from exact values. Rows come from :mod:`confide.risk.bayesian.sequential`.
"""

from __future__ import annotations

from typing import Any

from confide.report.plots import FONT, HEIGHT, INK, PALETTE, SHAPES, SOFT, styled, svg

Rows = list[dict[str, Any]]
_TICKS = [10.0**power * step for power in range(-9, 4) for step in (1, 2, 5)]


def posterior_by_released(rows: Rows) -> str:
    """The posterior at each released count (Figure 1, left)."""
    import altair as alt

    y = alt.Y("posterior:Q", title="posterior that the target is in the cell", scale=_probability(alt))
    return _over_released(rows, y)


def risk_by_released(rows: Rows) -> str:
    """``R'`` at each released count (Figure 1, right)."""
    import altair as alt

    y = alt.Y("risk_at:Q", title="risk R′: posterior over prior", scale=alt.Scale(type="log"), axis=_numbers(alt))
    return _over_released(rows, y, even=True)


def posterior_by_rho(rows: Rows, chosen: float | None = None) -> str:
    """The expected posterior over rho (Figure 2, left)."""
    import altair as alt

    scale = alt.Scale(type="log", domainMax=1, nice=False)
    y = alt.Y("posterior:Q", title="expected posterior, if it is true", scale=scale, axis=_numbers(alt))
    return _over_rho(rows, y, chosen)


def risk_by_rho(rows: Rows, chosen: float | None = None) -> str:
    """The risk over rho (Figure 2, right)."""
    import altair as alt

    y = alt.Y("risk:Q", title="risk R: expected posterior over prior", scale=alt.Scale(type="log"), axis=_numbers(alt))
    return _over_rho(rows, y, chosen)


def right_by_rho(rows: Rows, chosen: float | None = None) -> str:
    """The probability of a right decision over rho if the target is in the cell (Figure 3)."""
    import altair as alt

    y = alt.Y("given_1:Q", title="right decisions, if the target is in the cell", scale=_probability(alt))
    return _over_rho(rows, y, chosen)


def average_by_rho(rows: Rows, chosen: float | None = None) -> str:
    """The probability of a right decision over rho, in and not in weighted by the prior."""
    import altair as alt

    scale = alt.Scale(domain=[0.5, 1], nice=False)
    y = alt.Y("average:Q", title="right decisions on average", scale=scale, axis=alt.Axis(format=".0%"))
    return _over_rho(rows, y, chosen)


def posterior_by_levels(rows: Rows) -> str:
    """The expected posterior from the first 1, 2, ... noisy counts (Figure 7, left)."""
    import altair as alt

    scale = alt.Scale(type="log", domainMax=1, nice=False)
    return _over_levels(
        rows, alt.Y("posterior:Q", title="expected posterior, if it is true", scale=scale, axis=_numbers(alt))
    )


def risk_by_levels(rows: Rows) -> str:
    """The risk from the first 1, 2, ... noisy counts (Figure 7, right)."""
    import altair as alt

    return _over_levels(rows, alt.Y("risk:Q", title="risk R: expected posterior over prior", scale=_from_one(alt)))


def _over_released(rows: Rows, y: Any, *, even: bool = False) -> str:
    import altair as alt

    x = alt.X("released:Q", title="released count, less the known count", axis=alt.Axis(tickMinStep=1, grid=False))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=_colour(alt, rows))
    layers = base.mark_line(strokeWidth=1.5) + base.mark_point(size=45, filled=True, opacity=1).encode(
        shape=_shape(alt, rows)
    )
    if even:
        line = alt.Chart(alt.Data(values=[{"risk_at": 1.0}])).mark_rule(color=SOFT, strokeDash=[3, 3])
        layers = line.encode(y=alt.Y("risk_at:Q")) + layers
    return svg(styled(layers, height=HEIGHT + 40))


def _over_rho(rows: Rows, y: Any, chosen: float | None) -> str:
    import altair as alt

    values = [row["rho"] for row in rows]
    scale = alt.Scale(type="log", domain=[min(values), max(values)], nice=False)
    x = alt.X("rho:Q", title="ρ of a count", scale=scale, axis=_numbers(alt))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=_colour(alt, rows))
    layers = base.mark_line(strokeWidth=2, clip=True).encode(strokeDash=_dash(alt, rows))
    if chosen is not None and min(values) <= chosen <= max(values):
        mark = alt.Chart(alt.Data(values=[{"rho": chosen, "name": f"ρ {chosen:.3g}"}])).encode(x=x)
        layers = mark.mark_rule(color=SOFT, strokeDash=[3, 3]) + layers
        layers = layers + mark.mark_text(align="left", dx=5, dy=6, font=FONT, fontSize=12, color=SOFT).encode(
            y=alt.value(0), text="name:N"
        )
    return svg(styled(layers, height=HEIGHT + 40))


def _over_levels(rows: Rows, y: Any) -> str:
    import altair as alt

    x = alt.X(
        "levels:O",
        title="noisy counts that the adversary can add to each other",
        axis=alt.Axis(labelAngle=0, grid=False),
    )
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=_colour(alt, rows))
    points = base.mark_point(size=70, filled=True, opacity=1).encode(shape=_shape(alt, rows))
    return svg(styled(base.mark_line(strokeWidth=1.5) + points, height=HEIGHT + 40))


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["prior"] for row in rows))


def _colour(alt: Any, rows: Rows) -> Any:
    names = _names(rows)
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(names))]
    return alt.Color("prior:N", sort=names, title="prior", scale=alt.Scale(domain=names, range=colours))


def _shape(alt: Any, rows: Rows) -> Any:
    names = _names(rows)
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(names))]
    return alt.Shape("prior:N", sort=names, title="prior", scale=alt.Scale(domain=names, range=shapes))


def _dash(alt: Any, rows: Rows) -> Any:
    names = _names(rows)
    kinds = [[1, 0], [8, 3], [5, 2], [3, 2], [8, 2, 2, 2], [2, 2], [12, 3]]
    dashes = [kinds[place % len(kinds)] for place in range(len(names))]
    legend = alt.Legend(symbolType="stroke", symbolSize=500, symbolStrokeColor=INK)
    return alt.StrokeDash(
        "prior:N", sort=names, title="prior", scale=alt.Scale(domain=names, range=dashes), legend=legend
    )


def _numbers(alt: Any) -> Any:
    return alt.Axis(values=_TICKS, labelExpr="format(datum.value, '~r')", labelOverlap=True)


def _probability(alt: Any) -> Any:
    return alt.Scale(domain=[0, 1], nice=False)


def _from_one(alt: Any) -> Any:
    return alt.Scale(domainMin=1, nice=False, zero=False)
