"""Pictures of the curves behind a guarantee: power over level, epsilon over delta, parts. Needs the extra ``plots``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from confide.report.plots import FONT, HEIGHT, INK, PALETTE, SOFT, WIDTH, styled, svg
from confide.risk.testing.curve import LEVELS, EpsilonPoint, GuaranteePart, PowerPoint
from confide.risk.testing.level_power import pure_power

Rows = list[dict[str, Any]]
_ANY, _GAUSSIAN, _OWN = "any release with this ρ", "Gaussian noise with this ρ", "these measurements"
_DASHES = [[1, 0], [7, 4], [2, 3]]


def powers(points: Sequence[PowerPoint]) -> str:
    """The largest power over the level, on a logarithmic scale of levels; the diagonal is a guess."""
    rows: Rows = []
    for point in points:
        rows.append({"x": float(point.level), "y": point.zcdp, "way": _ANY})
        if point.exact is None:
            rows.append({"x": float(point.level), "y": point.gaussian, "way": _GAUSSIAN})
        else:
            rows.append({"x": float(point.level), "y": point.exact.pessimistic, "way": _OWN})
    return _levels(rows)


def pure_powers(epsilon: Fraction) -> str:
    """The same under pure differential privacy."""
    name = f"any release with ε = {float(epsilon):g}"
    return _levels([{"x": float(level), "y": pure_power(epsilon, level), "way": name} for level in LEVELS])


def epsilons(points: Sequence[EpsilonPoint]) -> str:
    """ε over δ, in three ways."""
    import altair as alt

    names = {
        "bun_steinke": "Bun and Steinke",
        "canonne_kamath_steinke": "Canonne, Kamath and Steinke",
        "gaussian_limit": "Gaussian noise (for comparison)",
    }
    rows = [
        {"x": float(point.delta), "y": point.ways[way], "way": name} for point in points for way, name in names.items()
    ]
    axis = alt.Axis(values=[10.0**-power for power in range(2, 16)], format=".0e", labelOverlap=True)
    scale = alt.Scale(type="log", reverse=True, nice=False)
    x = alt.X("x:Q", title="δ", scale=scale, axis=axis)
    return _lines(rows, x, alt.Y("y:Q", title="ε", scale=alt.Scale(zero=True)))


def parts(shown: Sequence[GuaranteePart], level: Fraction) -> str:
    """The largest power at one level, by what differs between the two hypotheses."""
    import altair as alt

    rows: Rows = []
    for part in shown:
        (point,) = part.powers([level])
        rows.append({"name": part.words, "x": point.zcdp, "way": _ANY})
        own = point.gaussian if point.exact is None else point.exact.pessimistic
        rows.append({"name": part.words, "x": own, "way": _OWN if point.exact is not None else _GAUSSIAN})
    names = [part.words for part in shown]
    ways = list(dict.fromkeys(row["way"] for row in rows))
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "name:N", sort=names, title="one record differs", axis=alt.Axis(labelLimit=400, ticks=False, domain=False)
        ),
    )
    title = f"largest power of a test at level {float(level):g}"
    x = alt.X("x:Q", title=title, scale=alt.Scale(domain=[0, 1], nice=False), axis=alt.Axis(format=".0%"))
    colour = alt.Color("way:N", sort=ways, title=None, scale=alt.Scale(domain=ways, range=[PALETTE[3], PALETTE[0]]))
    shape = alt.Shape("way:N", sort=ways, title=None, scale=alt.Scale(domain=ways, range=["diamond", "circle"]))
    marks = base.mark_point(size=90, filled=True, opacity=1).encode(x=x, color=colour, shape=shape)
    guess = alt.Chart(alt.Data(values=[{"x": float(level)}])).mark_rule(color=SOFT, strokeDash=[3, 3]).encode(x=x)
    return svg(styled(guess + marks, width=WIDTH - 200, height=28 * len(names)))


def _levels(rows: Rows) -> str:
    import altair as alt

    axis = alt.Axis(values=[10.0**-power for power in range(5)], format="~r")
    x = alt.X("x:Q", title="level of the test", scale=alt.Scale(type="log", nice=False), axis=axis)
    percent = alt.Axis(format=".0%")
    y = alt.Y("y:Q", title="largest power", scale=alt.Scale(domain=[0, 1], nice=False), axis=percent)
    guesses = [{"x": row["x"], "y": row["x"]} for row in rows]
    guess = alt.Chart(alt.Data(values=guesses)).mark_line(color=SOFT, strokeDash=[3, 3], strokeWidth=1.2)
    word = alt.Chart(alt.Data(values=[{"x": 0.2, "y": 0.2}])).mark_text(
        align="left", dx=8, dy=10, font=FONT, fontSize=12, color=SOFT
    )
    extra = guess.encode(x=x, y=y) + word.encode(x=x, y=y, text=alt.value("a guess"))
    return _lines(rows, x, y, extra)


def _lines(rows: Rows, x: Any, y: Any, extra: Any = None) -> str:
    import altair as alt

    ways = list(dict.fromkeys(row["way"] for row in rows))
    colours = [PALETTE[3], PALETTE[0], INK][: len(ways)]
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=700, labelLimit=WIDTH)
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.2)
        .encode(
            x=x,
            y=y,
            color=alt.Color("way:N", sort=ways, scale=alt.Scale(domain=ways, range=colours), legend=legend),
            strokeDash=alt.StrokeDash(
                "way:N", sort=ways, scale=alt.Scale(domain=ways, range=_DASHES[: len(ways)]), legend=legend
            ),
        )
    )
    return svg(styled(lines if extra is None else extra + lines, height=HEIGHT + 60))
