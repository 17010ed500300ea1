"""Pictures of what a whole TopDown release gives away. Need the extra ``plots``."""

from __future__ import annotations

from typing import Any

import numpy as np

from confide.report.plots import FONT, HEIGHT, INK, PALETTE, SOFT, WIDTH, styled, svg
from confide.risk.release_risk.report import expected_posterior

_POWERS = [10.0**power * step for power in range(-7, 4) for step in (1, 2, 5)]


def effective_by_level(found: dict[str, Any]) -> str:
    """Effective rho of the finest queries and of the total on each level: least, median and largest over units and
    cells, on a logarithmic scale, below the rho of someone who knows everybody else."""
    import altair as alt

    levels = [level["level"] for level in found["by_level"]]
    asked = [row["query"] for row in found["by_level"][0]["queries"]]
    names = ["detailed", *[name for name in reversed(asked) if name not in ("detailed", "total")][:2], "total"]
    rows = [
        {"level": level["level"], "query": row["query"]}
        | {key: row[f"rho_{key}"] for key in ("least", "median", "most")}
        for level in found["by_level"]
        for row in level["queries"]
        if row["query"] in names and row["rho_median"] is not None and row["rho_least"] > 0
    ]
    top = found["knows_everybody_else"]["cell"]
    colours = [PALETTE[place] for place in range(len(names))]
    lowest = min((row["least"] for row in rows), default=top / 10)
    scale = alt.Scale(type="log", domain=[lowest / 1.5, top * 2.5], nice=False)
    axis = alt.Axis(values=_POWERS, labelExpr="format(datum.value, '~r')", labelOverlap=True)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("level:N", sort=levels, title=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("query:N", sort=names),
        color=alt.Color(
            "query:N",
            sort=names,
            title=None,
            scale=alt.Scale(domain=names, range=colours),
            legend=alt.Legend(labelLimit=WIDTH),
        ),
    )
    y = alt.Y("least:Q", title="effective rho of a count", scale=scale, axis=axis)
    spans = base.mark_rule(strokeWidth=3).encode(y=y, y2="most:Q")
    marks = base.mark_point(filled=True, size=90, opacity=1).encode(y=alt.Y("median:Q", scale=scale, axis=axis))
    line = alt.Chart(alt.Data(values=[{"least": top}])).encode(y=y)
    rule = line.mark_rule(color=SOFT, strokeDash=[5, 4], strokeWidth=2)
    words = line.mark_text(
        align="right", x=WIDTH - 4, dy=-12, font=FONT, fontSize=12, color=SOFT, text="knows everybody else"
    )
    return svg(styled(spans + marks + rule + words, height=HEIGHT + 60))


def beliefs(found: dict[str, Any]) -> str:
    """The expected posterior by prior, for some adversaries about one cell of a block."""
    import altair as alt

    (block,) = (row for row in found["by_level"][-1]["queries"] if row["query"] == "detailed")
    unit = found["by_level"][-1]["level"]
    kinds = {
        f"others in the cell, median {unit}": block["rho_median"],
        f"others in the cell, least protected {unit}": block["rho_most"],
        "everybody else": found["knows_everybody_else"]["cell"],
    }
    told = {name: rho for name, rho in kinds.items() if rho is not None}
    priors = np.unique(np.concatenate([np.geomspace(1e-3, 0.5, 60), 1 - np.geomspace(1e-3, 0.5, 40)]))
    rows = [
        {"prior": float(prior), "posterior": float(expected_posterior(f"{prior:.9f}", rho)[0]), "knows": name}
        for name, rho in told.items()
        for prior in priors
    ]
    names = list(told)
    share = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".0%")
    x = alt.X("prior:Q", title="believed beforehand", scale=alt.Scale(domain=[0, 1]), axis=share)
    y = alt.Y("posterior:Q", title="believed afterwards, if it is true", scale=alt.Scale(domain=[0, 1]), axis=share)
    colour = alt.Color(
        "knows:N",
        sort=names,
        title="knows",
        scale=alt.Scale(domain=names, range=[PALETTE[0], PALETTE[1], PALETTE[3]][: len(names)]),
        legend=alt.Legend(labelLimit=WIDTH),
    )
    lines = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour)
    same = [{"prior": 0, "posterior": 0}, {"prior": 1, "posterior": 1}]
    nothing = alt.Chart(alt.Data(values=same)).mark_line(color=INK, strokeDash=[2, 4]).encode(x=x, y=y)
    return svg(styled(nothing + lines, width=HEIGHT + 220, height=HEIGHT + 120))
