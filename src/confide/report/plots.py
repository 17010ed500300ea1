"""Pictures, declared in Vega-Lite and drawn to SVG without a browser. Needs the extra ``plots``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

# Okabe and Ito (2008): colours that people with any kind of colour vision can tell apart.
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right"]
# Fonts of the same widths as the one that the text is measured with, so that labels are never cut off.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
WIDTH, HEIGHT = 740, 300
INK, SOFT, LINE = "#1b1f24", "#57606a", "#e4e8ec"
FEW, VERY_FEW = 30, 5
"""A mark over fewer counts than the first is hollow: it says little. Over fewer than the second there is none."""


def available() -> bool:
    """Whether the extra is installed."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def svg(chart: Any) -> str:
    """A chart as SVG text."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return drawn


def error_by_size(rows: list[dict[str, Any]], levels: list[str], sizes: list[str]) -> str:
    """Mean absolute error by the true size of the count, side by side for the geolevels, with two standard errors.

    The spread of absolute errors is the mean of squares less the square of the mean, so that both are in the rows.
    """
    import altair as alt

    spread = [row | _standard_error(row) for row in rows if row["cells"] >= VERY_FEW]
    notes = f"lines: two standard errors; hollow: fewer than {FEW} counts; none: fewer than {VERY_FEW}"
    base = alt.Chart(alt.Data(values=spread)).encode(
        **_by_size(levels, sizes, notes), xOffset=alt.XOffset("level:N", sort=levels)
    )
    title = "mean absolute error, persons"
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    height = alt.Y("mean_absolute_error:Q", title=title, scale=alt.Scale(zero=True))
    return svg(styled(bars + _marks(base.encode(y=height), levels)))


def relative_error_by_size(rows: list[dict[str, Any]], levels: list[str], sizes: list[str]) -> str:
    """Mean absolute error as a percentage of the mean true count, on a logarithmic scale."""
    import altair as alt

    shown = [row for row in rows if row["relative_number"] and row["cells"] >= VERY_FEW]
    powers = [10.0**power for power in range(-6, 7)]
    axis = alt.Axis(values=powers, labelExpr="format(datum.value, '~r') + ' %'")
    base = alt.Chart(alt.Data(values=shown)).encode(
        **_by_size(levels, sizes, f"hollow: fewer than {FEW} counts; none: fewer than {VERY_FEW}"),
        y=alt.Y(
            "relative_number:Q",
            title="mean absolute error, % of the mean count",
            scale=alt.Scale(type="log"),
            axis=axis,
        ),
    )
    return svg(styled(base.mark_line(strokeWidth=1.5) + _marks(base, levels)))


def share_within_margin(rows: list[dict[str, Any]]) -> str:
    """The share of counts within their noise margin for each table and geolevel, with what was promised.

    Where a row says over how many ``cells`` its share was taken, a band shows where it falls in 19 of 20 cases.
    """
    import altair as alt

    drawn = [row | _band(row) for row in rows]
    lowest = min(min(row["within"], row["low"]) for row in drawn)
    scale = alt.Scale(domain=[max(0.0, lowest - 0.01), 1.0], nice=False, zero=False)
    base = alt.Chart(alt.Data(values=drawn)).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=400, ticks=False, domain=False))
    )

    def share(name: str) -> Any:
        axis = alt.Axis(format=".0%", tickMinStep=0.01)
        return alt.X(f"{name}:Q", title="share of counts within the noise margin", scale=scale, axis=axis)

    band = base.mark_rule(strokeWidth=14, color="#d0d5da").encode(x=share("low"), x2="high:Q")
    promised = base.mark_tick(thickness=3, size=20, color=PALETTE[3], opacity=1).encode(x=share("promised"))
    found = base.mark_point(size=80, filled=True, color=PALETTE[0], opacity=1).encode(x=share("within"))
    return svg(styled(band + promised + found, width=WIDTH - 150, height=max(120, 26 * len(rows))))


def _by_size(levels: list[str], sizes: list[str], notes: str) -> dict[str, Any]:
    import altair as alt

    colours = [PALETTE[position % len(PALETTE)] for position in range(len(levels))]
    return {
        "x": alt.X("size:N", sort=sizes, title=f"true count, persons ({notes})", axis=alt.Axis(labelAngle=0)),
        "color": alt.Color("level:N", sort=levels, title="geolevel", scale=alt.Scale(domain=levels, range=colours)),
    }


def _marks(base: Any, levels: list[str]) -> Any:
    """A mark for each class, hollow where there are few counts in it."""
    import altair as alt

    shapes = [SHAPES[position % len(SHAPES)] for position in range(len(levels))]
    shape = alt.Shape("level:N", sort=levels, title="geolevel", scale=alt.Scale(domain=levels, range=shapes))
    shaped = base.encode(shape=shape)
    many = shaped.transform_filter(f"datum.cells >= {FEW}").mark_point(size=75, filled=True, opacity=1)
    few = shaped.transform_filter(f"datum.cells < {FEW}").mark_point(
        size=75, fill="#ffffff", strokeWidth=1.5, opacity=1
    )
    return many + few


def _standard_error(row: dict[str, Any]) -> dict[str, float]:
    mean, square, cells = row["mean_absolute_error"], row["root_mean_squared_error"] ** 2, row["cells"]
    error = (max(0.0, square - mean * mean) / cells) ** 0.5
    return {"low": max(0.0, mean - 2 * error), "high": mean + 2 * error}


def _band(row: dict[str, Any]) -> dict[str, float]:
    promised = row["promised"]
    width = 2 * (promised * (1 - promised) / row["cells"]) ** 0.5 if row.get("cells") else 0.0
    return {"low": promised - width, "high": min(1.0, promised + width)}


def styled(chart: Any, width: int = WIDTH, height: int = HEIGHT) -> Any:
    """A chart in the one look of all pictures."""
    return (
        chart.properties(width=width, height=height)
        .configure(font=FONT, background="#ffffff", padding=8)
        .configure_axis(
            labelFontSize=12,
            titleFontSize=13,
            titleFontWeight="normal",
            labelColor=INK,
            titleColor=SOFT,
            gridColor=LINE,
            domainColor=SOFT,
            tickColor=SOFT,
            titlePadding=8,
        )
        .configure_legend(
            labelFontSize=13,
            titleFontSize=13,
            titleFontWeight="normal",
            titleColor=SOFT,
            orient="top",
            titleOrient="left",
        )
        .configure_view(stroke=None)
    )
