"""Pictures of the dossier of suppressed cells. Needs the extra ``plots``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confide.report.plots import INK, PALETTE, WIDTH, styled, svg

Row = Mapping[str, Any]
PRIMARY, COMPLEMENTARY, PUBLISHED = "hidden for its own sake (primary)", "hidden to protect others", "published"
KINDS = [PRIMARY, COMPLEMENTARY, PUBLISHED]
COLOURS = [PALETTE[3], "#f3bf7a", "#e9edf1"]
"""What is gone is warm, and the warmer for its own sake; what is there is pale."""
LABELS, ROW = 200, 25
"""Room for the name of a bar, and the height of one."""
BAND = "#9cc7e2"


@dataclass(frozen=True)
class Bar:
    """One bar: its name, and for each panel the shares that are primary and complementary."""

    name: str
    shares: tuple[tuple[float, float], ...]


def shares(sections: Sequence[tuple[str, Sequence[Bar]]], panels: Sequence[str]) -> str:
    """What is published and what is hidden, as bars in sections one below the other, in panels side by side."""
    import altair as alt

    width = (WIDTH - LABELS - 60 * len(panels)) // len(panels)
    drawn = []
    for place, (title, bars) in enumerate(sections):
        last = place == len(sections) - 1
        beside = [
            _section(bars, panel, width, title if not panel else "", panels[panel] if last else "")
            for panel in range(len(panels))
        ]
        drawn.append(alt.hconcat(*beside, spacing=58))
    whole = alt.vconcat(*drawn, spacing=16).resolve_scale(color="shared")
    # Several charts together have no size of their own; they take the look without it.
    whole.config = styled(alt.Chart(alt.Data(values=[])).mark_point()).config
    return svg(whole)


def _section(bars: Sequence[Bar], panel: int, width: int, title: str, below: str) -> Any:
    """The bars of one section in one panel. What is hidden starts at zero, so that it can be compared."""
    import altair as alt

    names = [bar.name for bar in bars]
    pieces, ends = [], []
    for bar in bars:
        primary, complementary = bar.shares[panel]
        steps = [0.0, primary, primary + complementary, 1.0]
        pieces += [
            {"name": bar.name, "kind": kind, "from": start, "to": end}
            for kind, start, end in zip(KINDS, steps[:-1], steps[1:], strict=True)
        ]
        ends.append({"name": bar.name, "text": percent(primary + complementary)})
    labels: dict[str, Any] = {"labelLimit": LABELS, "minExtent": LABELS, "maxExtent": LABELS}
    shown = {"labels": False, "minExtent": 0} if panel else labels
    y = alt.Y(
        "name:N",
        sort=names,
        title=None,
        scale=alt.Scale(domain=names, paddingInner=0.28, paddingOuter=0.14),
        axis=alt.Axis(ticks=False, domain=False, grid=False, labelPadding=8, **shown),
    )
    axis = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1], labels=bool(below), ticks=bool(below), domain=False)
    x = alt.X("from:Q", title=below or None, scale=alt.Scale(domain=[0, 1], nice=False), axis=axis)
    colour = alt.Color(
        "kind:N",
        sort=KINDS,
        title=None,
        scale=alt.Scale(domain=KINDS, range=COLOURS),
        legend=alt.Legend(symbolType="square", symbolSize=150, labelLimit=320, columnPadding=18),
    )
    base = alt.Chart(alt.Data(values=pieces)).mark_bar().encode(x=x, x2="to:Q", y=y, color=colour)
    # The share that is hidden stands to the right of the bar, where it is never over a colour.
    text = (
        alt.Chart(alt.Data(values=ends))
        .mark_text(align="left", dx=6, fontSize=12, color=INK)
        .encode(x=alt.datum(1), y=y, text="text:N")
    )
    heading = alt.TitleParams(title, anchor="start", frame="bounds", fontSize=13, fontWeight="bold", color=INK)
    chart = (base + text).properties(width=width, height=ROW * len(bars))
    return chart.properties(title=heading) if title else chart


def intervals(rows: Sequence[Row], *, relative: bool) -> str:
    """What an attacker can say of primary cells: for each a line from the least to the largest figure that cannot be
    ruled out, with the true figure, and the ends that were asked for. Rows as
    ``confide.mechanisms.suppression.evaluate.drawn``."""
    import altair as alt

    highest = max(max(row["high"] or 0, row["asked_high"]) for row in rows)
    endless = any(row["high"] is None for row in rows)
    # A line without an end goes to the top of the picture, and has an arrow there.
    top = highest * (2.0 if endless else 1.0)
    values = [dict(row) | {"top": top if row["high"] is None else row["high"]} for row in rows]
    scale = alt.Scale(type="symlog", constant=1, domain=[0, top], nice=False)
    number = "format(datum.value, ',~r')"
    axis = alt.Axis(values=_ticks(top, relative), labelExpr=f"{number} + ' ×'" if relative else number)
    title = "figure, as a multiple of the true one" if relative else "figure"

    def height(name: str) -> Any:
        return alt.Y(f"{name}:Q", title=title, scale=scale, axis=axis)

    x = alt.X(
        "place:Q",
        title="primary cells, from the narrowest interval to the widest",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format=".0%", grid=False, values=[0, 0.25, 0.5, 0.75, 1]),
    )
    kinds = ["what an attacker cannot rule out", "what the rules ask for", "true figure"]
    stroke = max(1.5, min(14.0, 0.62 * WIDTH / len(rows)))
    colour = alt.Color(
        "kind:N",
        title=None,
        scale=alt.Scale(domain=kinds, range=[BAND, PALETTE[3], INK]),
        legend=alt.Legend(symbolType="square", symbolSize=130, symbolOpacity=1, labelLimit=320, columnPadding=18),
    )
    base = alt.Chart(alt.Data(values=values)).encode(x=x)
    bar, mark, dot = (base.transform_calculate(kind=f"'{kind}'").encode(color=colour) for kind in kinds)
    tick: dict[str, Any] = {"thickness": 2.5, "size": stroke + 5, "opacity": 1, "orient": "horizontal"}
    found = bar.mark_rule(strokeWidth=stroke).encode(y=height("low"), y2="top:Q")
    above = mark.mark_tick(**tick).encode(y=height("asked_high"))
    below = mark.transform_filter("datum.asked_low < datum.truth").mark_tick(**tick).encode(y=height("asked_low"))
    truth = dot.mark_point(size=26, filled=True, opacity=1).encode(y=height("truth"))
    arrows = (
        base.transform_filter("datum.high === null")
        .mark_point(shape="triangle-up", size=60, filled=True, opacity=1, color=PALETTE[0])
        .encode(y=height("top"))
    )
    return svg(styled(alt.layer(found, above, below, truth, arrows), height=320))


def percent(share: float) -> str:
    """A share in as many digits as it is worth: nothing is 0 %, and a little is not."""
    if share <= 0:
        return "0 %"
    if share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def _ticks(top: float, relative: bool) -> list[float]:
    """Figures worth a line: small ones one by one, then 1, 2, 5 in every power of ten."""
    powers = [lead * 10.0**power for power in range(13) for lead in (1, 2, 5)]
    return [tick for tick in sorted({0.0, *((0.5, 1.5) if relative else (3.0, 4.0)), *powers}) if tick <= top]
