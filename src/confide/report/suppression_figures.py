"""What the pictures of the dossier of suppressed cells show, and what is said below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confide.report import suppression_plots
from confide.report.suppression_plots import Bar
from confide.suppression.hierarchies import TOTAL_LABEL
from confide.suppression.losses import lost_share

Row = Mapping[str, Any]
MOST_TABLES = 12
MOST_BARS = 24
"""Bars on the picture of groups, in all."""
FEWEST, MOST = 3, 8
"""And for each variable."""


def figures(numbers: Row, titles: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The pictures that there are numbers for, with their captions; none where nothing is hidden. ``titles`` are what
    attributes are called."""
    if not numbers["programme"]["hidden"]:
        return {}
    found = {"lost": _lost(numbers)}
    if numbers["groups"]:
        found["groups"] = _groups(numbers["groups"], titles)
    if numbers["intervals"]["drawn"]:
        found["intervals"] = _intervals(numbers["intervals"])
    return found


def bar(name: str, row: Row) -> Bar:
    """The shares of a row: of its cells that are not zero, and of all that they add up to."""
    cells = max(1, row["cells"] - row["empty"])
    primary = (row["primary"] - row["primary_empty"]) / cells
    complementary = (row["complementary"] - row["complementary_empty"]) / cells
    return Bar(name, ((primary, complementary), (row["primary_value_share"], row["complementary_value_share"])))


def _lost(numbers: Row) -> dict[str, str]:
    whole = numbers["programme"]
    levels = [bar("all areas" if row["level"] == TOTAL_LABEL else row["level"], row) for row in numbers["levels"]]
    crossings = [bar(_crossed(row["crossed"]), row) for row in numbers["crossings"]]
    tables = sorted(numbers["suppressed"], key=lost_share, reverse=True)
    shown = [bar(row["name"], row) for row in tables[:MOST_TABLES]]
    sections = [("All tables", [bar("together", whole)])]
    sections += [("By geolevel", levels)] if len(levels) > 1 else []
    sections += [("By detail", crossings)] if len(crossings) > 1 else []
    sections += [("By table", shown)] if len(shown) > 1 else []
    large = " Less of the sum is lost than of the cells: those that are hidden are mostly small."
    large = large if whole["hidden_value_share"] < lost_share(whole) else ""
    left = f" Of {len(tables)} tables, the {MOST_TABLES} that lose most." if len(tables) > MOST_TABLES else ""
    return {
        "svg": suppression_plots.shares(sections, ["of cells that are not zero", "of all that they add up to"]),
        "caption": "How much of the tables is gone. Left: of all cells that are not zero; right: of what these cells "
        "add up to. The figure beside a bar is the share that is hidden."
        f"{large}{left}",
    }


def _groups(rows: Sequence[Row], titles: Mapping[str, str]) -> dict[str, str]:
    variables = list(dict.fromkeys(row["variable"] for row in rows))
    most = max(FEWEST, min(MOST, MOST_BARS // len(variables)))
    sections = []
    for variable in variables:
        chosen = [row for row in rows if row["variable"] == variable][:most]
        words = "areas" if chosen[0]["areas"] else titles.get(variable, variable)
        title = f"{words[0].upper()}{words[1:]}: {_of(len(chosen), chosen[0]['groups'])}"
        sections.append((title, [bar(_sized(row), row) for row in chosen]))
    return {
        "svg": suppression_plots.shares(
            [(title, [Bar(each.name, each.shares[:1]) for each in bars]) for title, bars in sections],
            ["of the group's cells that are not zero"],
        ),
        "caption": "Who loses most: for each variable the groups, or areas, that lose the largest share of their "
        "cells, over all tables that speak of them. In brackets their size, where it is published.",
    }


def _intervals(found: Row) -> dict[str, str]:
    primary, drawn = found["primary"], found["drawn"]
    some = (
        f"{len(drawn)} of the {primary['cells']:,} primary cells, evenly spaced in the order of their width"
        if len(drawn) < primary["cells"]
        else "every primary cell"
    )
    times = primary["width_by_asked"].get("0.5")
    half = f" Half of the intervals are at least {times:,.1f} times as wide as asked for." if times else ""
    ends = " An arrow: the interval has no upper end." if any(row["high"] is None for row in drawn) else ""
    zero = " Cells of zero are not drawn." if found["relative"] and len(drawn) < primary["cells"] else ""
    return {
        "svg": suppression_plots.intervals(drawn, relative=found["relative"]),
        "caption": f"How well primary cells are hidden: {some}. A bar is what an attacker who has all tables cannot "
        f"rule out; it must reach the marks that the rules ask for. The longer, the better hidden.{half}{ends}{zero}",
    }


def _crossed(number: int) -> str:
    words = {0: "the total of all", 1: "one variable", 2: "two variables crossed", 3: "three variables crossed"}
    return words.get(number, f"{number} variables crossed")


def _of(shown: int, number: int) -> str:
    return f"all {number}" if shown == number else f"{shown} of {number:,}"


def _sized(row: Row) -> str:
    return row["group"] if row["size"] is None else f"{row['group']} ({row['size']:,})"
