"""Pictures of adversaries with hierarchical information (Kazan and Reiter, Figures 4, 5, 6, 12). Extra ``plots``."""

from __future__ import annotations

from typing import Any

from confide.report.plots import INK, PALETTE, SOFT, WIDTH, styled, svg

Rows = list[dict[str, Any]]
_NAMES = {
    "stated": "joint law as stated",
    "unrestricted": "X1 step unrestricted, as printed",
    "without-hierarchy": "x1* alone",
}
_WORDS = ["not in", "changed to “not in”", "tie", "changed to “in”", "in"]
_COLOURS = ["#d8dde3", PALETTE[3], PALETTE[4], PALETTE[0], "#a9cfe4"]
_PANEL = 330


def decisions(rows: Rows) -> str:
    """What is decided for each x2* and y*, with x1* next to the edge, and where the hierarchy changes it (Figure 4)."""
    import altair as alt

    shown = [
        {
            "x2": row["x2"],
            "y": row["y"],
            "panel": f"x1* = {row['x1']}",
            "variant": _NAMES[row["variant"]],
            "word": row["decision"]
            if row["decision"] in (row["without"], "tie")
            else f"changed to “{row['decision']}”",
        }
        for row in rows
    ]
    occurring = {row["word"] for row in shown}
    words = {word: colour for word, colour in zip(_WORDS, _COLOURS, strict=True) if word in occurring}
    colour = alt.Color(
        "word:N",
        sort=list(words),
        title=None,
        scale=alt.Scale(domain=list(words), range=list(words.values())),
        legend=alt.Legend(labelLimit=WIDTH, columns=5),
    )
    ticks = sorted({row["y"] for row in shown if row["y"] % 10 == 0}, reverse=True)
    tiles = (
        alt.Chart(alt.Data(values=shown))
        .mark_rect(stroke="#ffffff", strokeWidth=0.4)
        .encode(
            x=alt.X("x2:O", title="released parent's count x2*", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("y:O", title="released siblings' sum y*", sort="descending", axis=alt.Axis(values=ticks)),
            color=colour,
        )
        .properties(width=_PANEL, height=300)
    )
    header = alt.Header(title=None, labelFontSize=13, labelColor=INK)
    chart = tiles.facet(
        column=alt.Facet("variant:N", sort=list(_NAMES.values()), header=header),
        row=alt.Facet("panel:N", header=header),
    )
    return svg(_dressed(chart))


def accuracy_by_parent(rows: Rows) -> str:
    """How often decisions are right by the parent's true count, for both ways to compute posteriors (Figure 5)."""
    import altair as alt

    kinds = {"correct_given_1": "in", "correct_given_0": "not in", "average_accuracy": "average"}
    shown = [
        {"x2": row["x2"], "variant": _NAMES[row["variant"]], "kind": word, "value": row[key]}
        for row in rows
        for key, word in kinds.items()
    ]
    without = _NAMES["without-hierarchy"]
    level = next((row["value"] for row in shown if row["variant"] == without and row["kind"] == "in"), None)
    panels = []
    for name in (_NAMES["stated"], _NAMES["unrestricted"]):
        base = alt.Chart(alt.Data(values=[row for row in shown if row["variant"] == name])).encode(
            x=alt.X("x2:Q", title="true parent's count x2, target included", axis=alt.Axis(tickMinStep=1, grid=False)),
            y=alt.Y("value:Q", title="P(correct)", scale=alt.Scale(zero=False), axis=alt.Axis(format=".1%")),
            color=_colours(alt, list(kinds.values()), "target"),
        )
        layers = base.mark_line(strokeWidth=2) + base.mark_point(size=30, filled=True, opacity=1)
        if level is not None:
            layers = layers + _rule(alt, "value", level)
        panels.append(layers.properties(width=_PANEL, height=300, title=name))
    return svg(_dressed(alt.hconcat(*panels).resolve_scale(y="independent")))


def accuracy_by_rho2(rows: Rows, *, without: float, chosen: float) -> str:
    """The probability of finding a target who is in, over the parent's ρ2 and for several true counts (Figure 6).

    Bars reach from all ties taken as “not in” to all taken as “in”.
    """
    import altair as alt

    counts = list(dict.fromkeys(str(row["x2"]) for row in rows))
    panels = []
    for variant in ("stated", "unrestricted"):
        shown = [
            {
                "rho2": row["rho2"],
                "value": row["correct_given_1"],
                "x2": str(row["x2"]),
                "low": row["ties_to_absent"],
                "high": row["ties_to_present"],
            }
            for row in rows
            if row["variant"] == variant
        ]
        axis = alt.Axis(values=[0.01, 0.1, 1, 10, 100], labelExpr="format(datum.value, '~r')", grid=False)
        x = alt.X("rho2:Q", title="ρ2 of the parent", scale=alt.Scale(type="log"), axis=axis)
        y = alt.Y("value:Q", title="P(correct) if in", scale=alt.Scale(zero=False), axis=alt.Axis(format=".1%"))
        base = alt.Chart(alt.Data(values=shown)).encode(x=x, y=y, color=_colours(alt, counts, "true x2"))
        mark = alt.Chart(alt.Data(values=[{"rho2": chosen}])).mark_rule(color=SOFT, strokeDash=[2, 3]).encode(x=x)
        layers = base.mark_line(strokeWidth=2) + base.mark_point(size=25, filled=True, opacity=1)
        layers = layers + base.mark_rule(strokeWidth=5, opacity=0.4).encode(y="low:Q", y2="high:Q")
        panels.append(
            (layers + _rule(alt, "value", without) + mark).properties(width=_PANEL, height=300, title=_NAMES[variant])
        )
    return svg(_dressed(alt.hconcat(*panels).resolve_scale(y="independent")))


def post_processing(by_parent: Rows, by_rho1: Rows, *, without: float, bound: float, chosen: float) -> str:
    """R of post-processed counts, by the parent's published count and by ρ1 (Figure 12)."""
    import altair as alt

    top = alt.Axis(format=".3f")
    base = alt.Chart(alt.Data(values=by_parent)).encode(
        x=alt.X("published:Q", title="published parent's count x̃2", axis=alt.Axis(grid=False)),
        y=alt.Y("risk:Q", title="R, target in", scale=alt.Scale(zero=False), axis=top),
    )
    words = [
        {"risk": without, "published": max(row["published"] for row in by_parent), "text": "x1* alone"},
        {"risk": bound, "published": max(row["published"] for row in by_parent), "text": "x1* and y*: the bound"},
    ]
    look: dict[str, Any] = {"align": "right", "color": SOFT, "fontSize": 12}
    sides: tuple[dict[str, Any], ...] = ({"baseline": "top", "dy": 4}, {"baseline": "bottom", "dy": -3})
    below, above = (
        alt.Chart(alt.Data(values=[word])).mark_text(**look, **side).encode(x="published:Q", y="risk:Q", text="text:N")
        for word, side in zip(words, sides, strict=True)
    )
    dots = base.mark_line(strokeWidth=2, color=PALETTE[0]) + base.mark_point(size=25, filled=True, color=PALETTE[0])
    left = dots + _rule(alt, "risk", without) + _rule(alt, "risk", bound) + below + above
    kinds = list(dict.fromkeys(row["kind"] for row in by_rho1))
    x = alt.X("rho1:Q", title="ρ1 of the block", axis=alt.Axis(grid=False))
    right = (
        alt.Chart(alt.Data(values=by_rho1))
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=alt.Y("risk:Q", title="R, target in", scale=alt.Scale(zero=False)),
            color=_colours(alt, kinds, None),
            strokeDash=alt.condition("indexof(datum.kind, 'x1*') == 0", alt.value([6, 3]), alt.value([1, 0])),
        )
    )
    mark = alt.Chart(alt.Data(values=[{"rho1": chosen}])).mark_rule(color=SOFT, strokeDash=[2, 3]).encode(x=x)
    panels = [part.properties(width=_PANEL, height=300) for part in (left, right + mark)]
    return svg(_dressed(alt.hconcat(*panels)))


def _colours(alt: Any, names: list[str], title: str | None) -> Any:
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(names))]
    return alt.Color(
        "kind:N" if title != "true x2" else "x2:N",
        sort=names,
        title=title,
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(labelLimit=WIDTH),
    )


def _rule(alt: Any, name: str, level: float) -> Any:
    data = alt.Data(values=[{name: level}])
    return alt.Chart(data).mark_rule(color=INK, strokeDash=[6, 4]).encode(y=alt.Y(f"{name}:Q"))


def _dressed(chart: Any) -> Any:
    """The look of all pictures, for several panels, whose sizes are their own."""
    return _Sized(chart).dressed()


class _Sized:
    """Lets :func:`styled` dress charts of several panels, which have no width of their own."""

    def __init__(self, chart: Any):
        self._chart = chart

    def properties(self, **_: int) -> Any:
        return self._chart

    def dressed(self) -> Any:
        return styled(self).configure_title(fontSize=13, fontWeight="normal", color=INK)
