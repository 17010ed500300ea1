"""Pictures of a re-identification attack. Need the extra ``plots``."""

from __future__ import annotations

from typing import Any

from confide.attacks.reidentification import LinkageRates, Rates, size_labels
from confide.report.plots import FEW, PALETTE, WIDTH, styled, svg

UNIVERSES = {
    "all": "all",
    "unique": "population uniques",
    "unique&modal": "unique, modal group",
    "unique&nonmodal": "unique, other groups",
    "unique&nonmodal&solvar0": "unique, other groups, one reconstruction",
}
_ATTACK, _MODAL, _PROPORTIONAL = "attack", "modal guesser", "proportional guesser"


def agreement_by_size(rates: Rates) -> str:
    """How much of the truth the reconstruction has right, by the size of the block, and in all."""
    import altair as alt

    sizes = [label for label in size_labels() if rates.agreement_in(f"size:{label}").records]
    places = {"all": "all blocks"} | {f"size:{label}": label for label in sizes}
    kinds = {"year or group of age": "rate", "exact year of age": "exact_age_rate"}
    rows = [
        {"size": place, "kind": kind, "share": getattr(rates.agreement_in(name), field)}
        for name, place in places.items()
        for kind, field in kinds.items()
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("size:N", sort=list(places.values()), title="people in the block", axis=alt.Axis(labelAngle=0)),
        y=alt.Y(
            "share:Q",
            title="records that agree with the truth",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%"),
        ),
        color=_colour("kind", list(kinds)),
    )
    line = base.transform_filter("datum.size != 'all blocks'").mark_line(strokeWidth=2)
    return svg(styled(line + base.mark_point(size=80, filled=True, opacity=1)))


def precision(rates: Rates) -> str:
    """How often a match is right, beside what the guessers reach about the same people."""
    import altair as alt

    shown = _shown(rates)
    rows = [
        {"who": title, "kind": kind, "share": value, "few": row.putative < FEW}
        for title, row in shown.items()
        for kind, value in (
            (_ATTACK, row.precision),
            (_MODAL, row.modal_guesser_precision),
            (_PROPORTIONAL, row.proportional_guesser_precision),
        )
        if value is not None
    ]
    kinds = [_ATTACK, _MODAL, _PROPORTIONAL]
    note = f"matches that are right (hollow: of fewer than {FEW})"
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=_names(list(shown)),
        x=alt.X("share:Q", title=note, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%")),
    )
    marks = base.encode(
        yOffset=alt.YOffset("kind:N", sort=kinds, scale=alt.Scale(domain=kinds, paddingOuter=0.5)),
        color=_colour("kind", kinds),
        shape=alt.Shape(
            "kind:N",
            sort=kinds,
            title=None,
            scale=alt.Scale(domain=kinds, range=["circle", "square", "diamond"]),
            legend=alt.Legend(symbolOpacity=1),
        ),
    )
    many = marks.transform_filter("!datum.few").mark_point(size=110, filled=True, opacity=1)
    few = marks.transform_filter("datum.few").mark_point(size=110, fill="#ffffff", strokeWidth=2, opacity=1)
    return svg(styled(many + few, width=WIDTH - 240, height=52 * len(shown)))


def putative_and_confirmed(rates: Rates) -> str:
    """Of the people whom the attacker knows, how many are matched and how many of those rightly."""
    import altair as alt

    shown = _shown(rates)
    kinds = ["confirmed", "putative, not confirmed"]
    rows = [
        {"who": title, "kind": kind, "share": value, "order": order}
        for title, row in shown.items()
        for order, (kind, value) in enumerate(
            zip(kinds, (row.confirmed_rate, (row.putative_rate or 0.0) - (row.confirmed_rate or 0.0)), strict=True)
        )
        if value is not None
    ]
    over = "records of the attacker" if rates.divide_by == "attacker" else "persons of the truth"
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(height=20)
        .encode(
            y=_names(list(shown)),
            x=alt.X(
                "share:Q", title=f"share of the {over}", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%")
            ),
            color=alt.Color(
                "kind:N", sort=kinds, title=None, scale=alt.Scale(domain=kinds, range=[PALETTE[3], "#d0d5da"])
            ),
            order="order:Q",
        )
    )
    return svg(styled(chart, width=WIDTH - 240, height=40 * len(shown)))


def _shown(rates: Rates) -> dict[str, LinkageRates]:
    return {
        title: rates.universe(name)
        for name, title in UNIVERSES.items()
        if rates.has(name) and rates.universe(name).divided_by
    }


def _names(names: list[str]) -> Any:
    import altair as alt

    return alt.Y(
        "who:N",
        sort=names,
        title=None,
        axis=alt.Axis(labelLimit=300, labelPadding=10, ticks=False, domain=False, grid=True),
    )


def _colour(field: str, kinds: list[str]) -> Any:
    import altair as alt

    colours = [PALETTE[0], PALETTE[1], PALETTE[2]][: len(kinds)]
    return alt.Color(f"{field}:N", sort=kinds, title=None, scale=alt.Scale(domain=kinds, range=colours))
