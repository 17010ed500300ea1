"""``evaluate`` for cell suppression: what was lost, and what an attacker is left with, against the truth. Confidential.

Figures are read from the files of the release, as anybody has them; the truth is counted again from the records. For
every suppressed cell the attacker's interval is worked out and held against the true figure: it must contain it, and
for a primary cell reach as far as its protection levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from confide.arrays import Floats, Integers
from confide.confidential import Confidential
from confide.engines import Engine
from confide.errors import Finding
from confide.mechanisms.suppression.attacker import Intervals
from confide.mechanisms.suppression.heuristic import Protection, sensitive_unions
from confide.mechanisms.suppression.mechanism import count, fingerprint_of, posed_by
from confide.mechanisms.suppression.output import ONE, read_table
from confide.mechanisms.suppression.problem import PatternProblem, in_steps, step_of
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProblem, SuppressionProgramme
from confide.mechanisms.suppression.spec import in_unit
from confide.mechanisms.suppression.structure import ROOT, Flags
from confide.mechanisms.suppression.variables import Variable
from confide.releases import Progress, Workspace, require_records
from confide.releases.dossier import BANNER, AreaSums, Evaluated, Evaluating, LoneFigures, only_run, write_dossier
from confide.releases.tabular import AREA, LEVEL, TOTAL_CODE, released
from confide.report import charts, render
from confide.report.charts import AreaMeasure, area_maps

# How well suppressed cells are protected: the attacker's intervals beside the truth and the protection that was asked
# for.
#
# For a primary cell with the figure X and protection levels ``lower``, ``upper`` and ``sliding``, the interval [lo,
# hi] must have lo <= X - lower, as far as bounds allow, hi >= X + upper, and hi - lo >= max(1, sliding). The width
# asked for is what meets all three at once,
#
#     w = max(1, sliding, lower + upper),
#
# and ``(hi - lo) / w`` says how many times as wide an interval is: at least 1 where the cell is protected.
# Confidential.


PRECISION = 1e-6
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)

MOST_DRAWN = 80
"""So many intervals can be told apart on a picture."""


def interval_statistics(
    problem: PatternProblem, intervals: Intervals, chosen: Flags, unit: Fraction = ONE
) -> dict[str, Any]:
    """Intervals of some cells: whether they hold, how wide they are, and how wide beside what was asked for. Figures
    are in units; widths are given as figures are published."""
    cells = np.flatnonzero(chosen)
    value, low, high = problem.value[cells], intervals.low[cells], intervals.high[cells]
    required_low, required_high, required = _required(problem, cells)
    protected = (
        (low <= required_low + PRECISION)
        & (high >= required_high - PRECISION)
        & (high - low >= np.maximum(problem.levels.sliding[cells], 1) - PRECISION)
    )
    ends = np.isfinite(high)
    some = ends & (value > 0)
    width = high - low
    return {
        "cells": len(cells),
        "contain_the_truth": int(((low <= value + PRECISION) & (value <= high + PRECISION)).sum()),
        "known_exactly": int((width <= PRECISION).sum()),
        "protected": int(protected.sum()),
        "without_upper_end": int(np.isinf(high).sum()),
        "width": _quantiles(width[ends] * float(unit)),
        "width_by_figure": _quantiles(width[some] / value[some]),
        "width_by_asked": _quantiles(width[ends] / required[ends]),
    }


def intervals_of(problem: PatternProblem, suppressed: Flags) -> Intervals:
    """The attacker's intervals; of very large figures from how far they can move, in steps that the solver knows."""
    step = step_of(problem.value)
    moves = in_steps(problem).attacker(suppressed).intervals()
    if step == 1:
        return moves
    value = problem.value.astype(np.float64)
    return Intervals(value + step * moves.low, value + step * moves.high, moves.programmes)


def insider_statistics(problem: PatternProblem, suppressed: Flags) -> dict[str, int]:
    """Magnitudes: how many primary cells no contributor can bound too tightly, by movements that are found once more,
    and how many sums that everybody knows are sensitive."""
    unions = sensitive_unions(problem, suppressed)
    proof = Protection(in_steps(problem), suppressed)
    proof.complete(new=False)
    return {
        "contributors": 0 if problem.insiders is None else len(problem.insiders.everybody),
        "cells": len(proof.needs),
        "kept_from_contributors": sum(proof.proved(cell) for cell in proof.needs),
        "sensitive_unions": 0 if unions is None else len(unions),
    }


def drawn(
    problem: PatternProblem, intervals: Intervals, chosen: Flags, *, relative: bool, most: int = MOST_DRAWN
) -> list[dict[str, Any]]:
    """Some of the intervals for a picture, from the narrowest to the widest, evenly spaced in that order.

    Each has its ``place`` in the order, from 0 to 1, the ``truth``, the ends ``low`` and ``high`` (None: there is none)
    and those asked for. ``relative`` divides all figures by the truth, which is then 1 and tells nothing; cells of zero
    are left out. Nothing says which cell it is.
    """
    cells = np.flatnonzero(chosen & (problem.value > 0) if relative else chosen)
    unit = problem.value[cells].astype(np.float64) if relative else np.ones(len(cells))
    order = np.lexsort((problem.value[cells], intervals.high[cells] / unit, intervals.width[cells] / unit))
    at = order[np.linspace(0, max(0, len(cells) - 1), min(most, len(cells))).round().astype(np.int64)]
    cells, unit = cells[at], unit[at]
    required_low, required_high, _ = _required(problem, cells)
    ends = (problem.value[cells], intervals.low[cells], intervals.high[cells], required_low, required_high)
    return [
        {
            "place": (rank + 0.5) / len(cells),
            "truth": truth,
            "low": low,
            "high": high if np.isfinite(high) else None,
            "asked_low": least,
            "asked_high": largest,
        }
        for rank, (truth, low, high, least, largest) in enumerate((np.column_stack(ends) / unit[:, None]).tolist())
    ]


def _required(problem: PatternProblem, cells: Integers) -> tuple[Floats, Floats, Floats]:
    """The ends and the width that intervals of cells must have at least."""
    value, levels = problem.value[cells], problem.levels.taken(cells)
    low, high = np.maximum(value - levels.lower, problem.low[cells]), value + levels.upper
    width = np.maximum(np.maximum(levels.sliding, 1), high - low)
    return low.astype(np.float64), high.astype(np.float64), width.astype(np.float64)


def _quantiles(values: Floats) -> dict[str, float]:
    return {f"{at:g}": float(np.quantile(values, at)) for at in QUANTILES} if len(values) else {}


def evaluate(
    problem: SuppressionProblem,
    workspace: Workspace,
    engine: Engine,
    progress: Progress,
    geometry: Mapping[str, Path] | None = None,
) -> Confidential[dict[str, Any]]:
    """Cells and figures lost by table, level, margin and group, and the intervals of suppressed cells against the
    truth. Of levels with geometry, the risk of all areas is listed."""
    fingerprint = fingerprint_of(problem)
    require_records(workspace, fingerprint, "the records are not those of the release")
    with progress.stage("Counting records", 1) as advance:
        pattern_problem = posed_by(problem, count(problem, engine, workspace))
        advance(1)
    suppressed = _released(problem, workspace.release)
    with progress.stage("Attacking", 1) as advance:
        intervals = intervals_of(pattern_problem, suppressed)
        advance(1)
    unit = problem.spec.data.figure_unit
    losses = Losses(problem.programme, pattern_problem, suppressed, unit)
    listed, primary = problem.programme.linked.listed, pattern_problem.levels.primary
    magnitude = problem.value is not None
    return Confidential(
        {
            "units": "cells",
            "accuracy": [],
            "suppressed": list(losses.by_table()),
            "programme": losses.of_programme(),
            "levels": list(losses.by_level()),
            "crossings": list(losses.by_crossing()),
            "margins": list(losses.by_margin()),
            "groups": list(losses.by_group()),
            "intervals": {
                "primary": interval_statistics(pattern_problem, intervals, suppressed & primary, unit),
                "complementary": interval_statistics(pattern_problem, intervals, suppressed & listed & ~primary, unit),
                "drawn": drawn(pattern_problem, intervals, suppressed & primary, relative=magnitude),
                "relative": magnitude,
            },
            "risk_by_area": _lone(problem, pattern_problem, suppressed, intervals).as_dict(geometry or {}),
        }
        | ({"insiders": insider_statistics(pattern_problem, suppressed)} if magnitude else {})
    )


def _lone(
    problem: SuppressionProblem, pattern_problem: PatternProblem, suppressed: Flags, intervals: Intervals
) -> LoneFigures:
    """Figures of one record, each distinct cell once; a suppressed one is shown if its interval is one figure alone.
    Magnitudes count nothing, so that there are none."""
    lone = LoneFigures()
    if problem.value is not None:
        return lone
    known = ~suppressed | (intervals.high - intervals.low <= PRECISION)
    published = np.where(known, pattern_problem.value, HIDDEN)
    seen: dict[str, Flags] = {}
    for level, areas, area, place, cells in _area_cells(problem):
        numbers, first = np.unique(problem.programme.linked.numbers[place][cells], return_index=True)
        so_far = seen.setdefault(level, np.zeros(len(published), np.bool_))
        new = ~so_far[numbers]
        so_far[numbers] = True
        lone.add(level, areas, area[first[new]], pattern_problem.value[numbers[new]], published[numbers[new]])
    return lone


HIDDEN = -1
"""Stands for a count that nobody can work out."""


def _area_cells(problem: SuppressionProblem) -> Iterator[tuple[str, list[str], Integers, int, Integers]]:
    """For each table with areas and each of its levels: the level, the codes of its areas, and for each row of the
    table the place of its area, the table and the cell of its layout."""
    codes: dict[str, list[str]] = {}
    for place, table in enumerate(problem.programme.tables):
        if AREA not in table.columns:
            continue
        at, (labels, cells) = table.columns.index(LEVEL), table.lines
        for level in dict.fromkeys(label[at] for label in labels):
            rows = [number for number, label in enumerate(labels) if label[at] == level]
            areas = codes.setdefault(level, list(dict.fromkeys(labels[number][at + 1] for number in rows)))
            index = {area: number for number, area in enumerate(areas)}
            yield level, areas, np.array([index[labels[row][at + 1]] for row in rows], np.int64), place, cells[rows]


def _released(problem: SuppressionProblem, release: Path) -> Flags:
    """Which distinct cells are suppressed, read from the files."""
    linked = problem.programme.linked
    suppressed = np.ones(linked.structure.cells, np.bool_)
    for table, numbers in zip(problem.programme.tables, linked.numbers, strict=True):
        own = table.layout.listed_cells
        suppressed[numbers[own]] = _flags(problem, release, table)[own]
    return suppressed


def _flags(problem: SuppressionProblem, release: Path, table: HierarchicalTable) -> Flags:
    """Which cells of a table are suppressed, read from one of its files."""
    unit = problem.spec.data.figure_unit
    read = partial(read_table, table=table, magnitude=problem.value is not None, unit=unit)
    return released(release, table.name, problem.spec.output.formats, read)[1]


# What the pictures of the dossier of suppressed cells show, and what is said below them.


MOST_TABLES = 12
MOST_BARS = 24
"""Bars on the picture of groups, in all."""
FEWEST, MOST = 3, 8
"""And for each variable."""


PANELS_WIDTH = 540
"""Room for panels side by side, beside the names of bars."""


def figures(numbers: Row, titles: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The pictures that there are numbers for, with their captions; none where nothing is suppressed. ``titles`` are
    what attributes are called."""
    if not numbers["programme"]["hidden"]:
        return {}
    pictures = {"lost": _lost(numbers)}
    if numbers["groups"]:
        pictures["groups"] = _groups(numbers["groups"], titles)
    if numbers["intervals"]["drawn"]:
        pictures["intervals"] = _intervals(numbers["intervals"])
    return pictures


@dataclass(frozen=True)
class Bar:
    """One bar: its name, and for each panel the shares that are primary and complementary."""

    name: str
    shares: tuple[tuple[float, float], ...]


def bar(name: str, row: Row) -> Bar:
    """The shares of a row: of its cells that are not zero, and of all that they add up to."""
    cells = max(1, row["cells"] - row["empty"])
    primary = (row["primary"] - row["primary_empty"]) / cells
    complementary = (row["complementary"] - row["complementary_empty"]) / cells
    return Bar(name, ((primary, complementary), (row["primary_value_share"], row["complementary_value_share"])))


def _lost(numbers: Row) -> dict[str, str]:
    programme = numbers["programme"]
    levels = [bar("all areas" if row["level"] == TOTAL_CODE else row["level"], row) for row in numbers["levels"]]
    crossings = [bar(_crossed(row["crossed"]), row) for row in numbers["crossings"]]
    tables = sorted(numbers["suppressed"], key=lost_share, reverse=True)
    bars = [bar(row["name"], row) for row in tables[:MOST_TABLES]]
    sections = [("All tables", [bar("together", programme)])]
    sections += [("By geolevel", levels)] if len(levels) > 1 else []
    sections += [("By detail", crossings)] if len(crossings) > 1 else []
    sections += [("By table", bars)] if len(bars) > 1 else []
    large = " The share of the sum is smaller than the share of cells: hidden cells are mostly small."
    large = large if programme["hidden_value_share"] < lost_share(programme) else ""
    only_some = f" Of {len(tables)} tables, the {MOST_TABLES} that lose most." if len(tables) > MOST_TABLES else ""
    return {
        "svg": shares_chart(sections, ["of cells that are not zero", "of the sum of these cells"]).svg(),
        "caption": "How much of the tables is hidden. Left: the share of cells that are not zero; right: the share of "
        "the sum of these cells. The number beside a bar is the hidden share."
        f"{large}{only_some}",
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
        "svg": shares_chart(
            [(title, [Bar(each.name, each.shares[:1]) for each in bars]) for title, bars in sections],
            ["of the group's cells that are not zero"],
        ).svg(),
        "caption": "Who loses most: for each variable, the groups or areas that lose the largest share of their "
        "cells, over all tables about them. Their size is in brackets, where it is published.",
    }


def _intervals(intervals: Row) -> dict[str, str]:
    primary, drawn = intervals["primary"], intervals["drawn"]
    some = (
        f"{len(drawn)} of the {primary['cells']:,} primary cells, evenly spaced in the order of their width"
        if len(drawn) < primary["cells"]
        else "every primary cell"
    )
    times = primary["width_by_asked"].get("0.5")
    half = f" Half of the intervals are at least {times:,.1f} times as wide as required." if times else ""
    ends = " An arrow means that the interval has no upper end." if any(row["high"] is None for row in drawn) else ""
    zero = " Cells of zero are not drawn." if intervals["relative"] and len(drawn) < primary["cells"] else ""
    return {
        "svg": intervals_chart(drawn, relative=intervals["relative"]).svg(),
        "caption": f"How well primary cells are hidden: {some}. A bar shows the values that an attacker with all "
        "tables cannot rule out; it must reach the marks that the rules require. Longer bars are better hidden."
        f"{half}{ends}{zero}",
    }


def shares_chart(sections: Sequence[tuple[str, Sequence[Bar]]], panels: Sequence[str]) -> charts.Chart:
    """What is published and what is suppressed: bars under the title of their section, in panels side by side.

    A line of the picture is the title of a section with, after a tab, the name of a bar; the title alone has no bar.
    """
    rows: list[Row] = []
    for place, panel in enumerate(panels):
        for title, bars in sections:
            rows.append({"panel": panel, "line": f"{title}\t", "primary": None, "complementary": None})
            for one in bars:
                primary, complementary = one.shares[place]
                line = f"{title}\t{one.name}"
                rows.append({"panel": panel, "line": line, "primary": primary, "complementary": complementary})
    room = PANELS_WIDTH // len(panels) - 60
    return charts.chart("suppression-shares", rows, panel_width=room)


def intervals_chart(rows: Sequence[Row], *, relative: bool) -> charts.Chart:
    """What an attacker can say of primary cells. Rows as :func:`drawn`.

    A line without an end goes to the top of the picture, and has an arrow there.
    """
    highest = max(max(row["high"] or 0, row["asked_high"]) for row in rows)
    top = float(highest * (2 if any(row["high"] is None for row in rows) else 1))
    stroke = max(1.5, min(14.0, 460 / len(rows)))
    # Figures worth a line: small ones one by one, then 1, 2, 5 in every power of ten.
    powers = [lead * 10.0**power for power in range(13) for lead in (1, 2, 5)]
    ticks = [tick for tick in sorted({0.0, *((0.5, 1.5) if relative else (3.0, 4.0)), *powers}) if tick <= top]
    return charts.chart(
        "suppression-intervals",
        rows,
        title="figure, as a multiple of the true one" if relative else "figure",
        sign=" ×" if relative else "",
        top=top,
        ticks=ticks,
        stroke=stroke,
        tick=stroke + 5,
    )


def _crossed(number: int) -> str:
    words = {0: "the total of all", 1: "one variable", 2: "two variables crossed", 3: "three variables crossed"}
    return words.get(number, f"{number} variables crossed")


def _of(shown: int, number: int) -> str:
    return f"all {number}" if shown == number else f"{shown} of {number:,}"


def _sized(row: Row) -> str:
    return row["group"] if row["size"] is None else f"{row['group']} ({row['size']:,})"


# The dossier of a release by cell suppression: what was lost, and what an attacker is left with.


Row = Mapping[str, Any]


def evaluate_suppression(asked: Evaluating) -> Evaluated:
    """The release against the truth, and its dossier. There is one run: nothing is drawn."""
    run = only_run(asked, Finding.of("same-pattern"))
    hidden = hidden_by_area(asked.question, run.workspace.release)
    maps = area_maps(hidden, asked.geometry)
    accuracy = evaluate(asked.question, run.workspace, asked.engine, asked.progress, asked.geometry)
    titles = {attribute.name: attribute.title for attribute in asked.question.attributes}
    return write_dossier(asked, accuracy, partial(_page, titles=titles, maps=maps), RISK_WORDS)


RISK_WORDS = (
    "A hidden figure counts as shown where an attacker can work it out from all that is published. A figure of one "
    "record is in view only where the rules and decisions of the office call it safe."
)


def hidden_by_area(problem: SuppressionProblem, release: Path) -> AreaMeasure:
    """Which share of the figures of each area is left out, in per cent, as the published tables show it."""
    sums, flags_of = AreaSums(), dict[int, Flags]()
    for level, areas, area, place, cells in _area_cells(problem):
        if place not in flags_of:
            flags_of[place] = _flags(problem, release, problem.programme.tables[place])
        sums.add(level, areas, area, 100 * flags_of[place][cells].astype(np.int64))
    return sums.measure("share of the figures that is left out, in per cent", problem.area_names)


def _page(
    numbers: Row, *, title: str, titles: Mapping[str, str], maps: list[dict[str, Any]], risks: dict[str, Any]
) -> str:
    pictures = charts.available()
    return render(
        "suppression_dossier.html.j2",
        title=title,
        banner=BANNER,
        headlines=_headlines(numbers),
        numbers=numbers,
        pictures=pictures,
        figures=figures(numbers, titles) if pictures else {},
        maps=maps,
        risks=risks,
        most=MOST_GROUPS,
    )


def _headlines(numbers: Row) -> list[tuple[str, str]]:
    """What to know first: what is gone, and whether what is left protects."""
    programme, primary = numbers["programme"], numbers["intervals"]["primary"]
    return [
        (f"{100 * programme['hidden_share']:.1f} %", f"of {programme['cells']:,} distinct cells are hidden"),
        (f"{programme['primary']:,}", f"of them are primary; {programme['complementary']:,} protect these"),
        (f"{100 * programme['hidden_value_share']:.1f} %", "of the sum of all cells is in hidden cells"),
        (
            f"{primary['protected']:,} of {primary['cells']:,}",
            "primary cells are fully protected against the attacker",
        ),
        *_insider_headline(numbers),
    ]


def _insider_headline(numbers: Row) -> list[tuple[str, str]]:
    if "insiders" not in numbers:
        return []
    kept = numbers["insiders"]
    words = "primary cells are also protected against every contributor, who knows what they gave"
    return [(f"{kept['kept_from_contributors']:,} of {kept['cells']:,}", words)] if kept["contributors"] else []


# What cell suppression takes from tables: of the whole, by table, level, crossing, margin and group.
#
# Everything is counted over distinct cells that are listed: a cell that several tables have is counted once in each
# part
# that it belongs to. The truth goes in, so that what comes out is confidential.


MOST_GROUPS = 10
"""So many groups of each variable are listed: those that lose most."""


@dataclass(frozen=True, eq=False, repr=False)
class Losses:
    """A pattern on the tables of a programme. ``suppressed`` has a flag for every distinct cell."""

    programme: SuppressionProgramme
    problem: PatternProblem
    suppressed: Flags
    unit: Fraction = ONE
    """What figures are multiples of."""

    def of(self, cells: Integers) -> dict[str, Any]:
        """How many of some distinct cells, and how much of all that they count, are suppressed.

        ``empty`` cells are those whose figure is zero. They add nothing to a sum, and a published zero is easily had:
        shares that are to say what users lose are best taken over the others, as :func:`lost_share` does.
        """
        value, suppressed = self.problem.value[cells], self.suppressed[cells]
        primary = self.problem.levels.primary[cells]
        # Sums of sums of large figures can be more than 64 bits hold; shares are of figures without their sign.
        size = np.abs(value).astype(np.float64)
        empty, total = value == 0, max(1.0, float(size.sum()))
        return {
            "cells": len(cells),
            "empty": int(empty.sum()),
            "hidden": int(suppressed.sum()),
            "primary": int(primary.sum()),
            "complementary": int((suppressed & ~primary).sum()),
            "hidden_share": float(suppressed.sum() / max(1, len(cells))),
            "primary_empty": int((primary & empty).sum()),
            "complementary_empty": int((suppressed & ~primary & empty).sum()),
            "value": in_unit(sum(value.tolist()), self.unit),
            "hidden_value": in_unit(sum(value[suppressed].tolist()), self.unit),
            "hidden_value_share": float(size[suppressed].sum() / total),
            "primary_value_share": float(size[primary].sum() / total),
            "complementary_value_share": float(size[suppressed & ~primary].sum() / total),
            "cost": float(self.problem.weight[cells][suppressed & ~primary].sum()),
        }

    def of_programme(self) -> dict[str, Any]:
        """Of all tables together."""
        return self.of(np.flatnonzero(self.programme.linked.listed))

    def by_table(self) -> Iterator[dict[str, Any]]:
        """Of each table with its margins."""
        for table, listed, _, numbers in self._tables:
            yield {"name": table.name, "title": table.title} | self.of(np.unique(numbers[listed]))

    def by_level(self) -> Iterator[dict[str, Any]]:
        """Of each geolevel, over all tables: nothing where no table has areas.

        A cell without an area speaks of all areas: it belongs to the level that has all in one unit, or where there is
        none to a line of its own, ``_T``.
        """
        area = next((variable for variable in self.programme.variables.values() if variable.areas), None)
        if area is None:
            return
        on_level: dict[str, list[Integers]] = {}
        for table, listed, places, numbers in self._tables:
            code = np.zeros(len(numbers), np.int64)
            # A table without areas speaks of all of them: as if it listed every level, at the total alone.
            names = {grouping.name for grouping in area.groupings}
            for axis, variable in enumerate(table.variables):
                if variable.areas:
                    code, names = places[:, axis], set(table.listed[axis])
            chosen = [grouping for grouping in area.groupings if grouping.name in names]
            for grouping in chosen:
                on_level.setdefault(grouping.name, []).append(numbers[listed & np.isin(code, grouping.codes)])
            if not any(ROOT in grouping.codes for grouping in chosen):
                on_level.setdefault(TOTAL_CODE, []).append(numbers[listed & (code == ROOT)])
        for name in (TOTAL_CODE, *(grouping.name for grouping in area.groupings)):
            cells = np.unique(np.concatenate(on_level.get(name, [np.zeros(0, np.int64)])))
            if len(cells):
                yield {"level": name} | self.of(cells)

    def by_crossing(self) -> Iterator[dict[str, Any]]:
        """By the number of variables that are crossed: 0 for the total of everything, and so on. Areas are one."""
        cells_by_number: dict[int, list[Integers]] = {}
        for _, listed, places, numbers in self._tables:
            crossed = (places > ROOT).sum(axis=1)
            for number in np.unique(crossed[listed]).tolist():
                cells_by_number.setdefault(number, []).append(numbers[listed & (crossed == number)])
        for number in sorted(cells_by_number):
            yield {"crossed": number} | self.of(np.unique(np.concatenate(cells_by_number[number])))

    def by_margin(self) -> Iterator[dict[str, Any]]:
        """By table and by which variables are crossed."""
        for table, listed, places, numbers in self._tables:
            inner = places > ROOT
            for pattern in sorted(np.unique(inner, axis=0).tolist(), key=lambda each: (sum(each), each[::-1])):
                at = (inner == np.array(pattern, np.bool_)).all(axis=1) & listed
                names = [variable.name for variable, used in zip(table.variables, pattern, strict=True) if used]
                margin = " × ".join(names) or "total"
                yield {"table": table.name, "margin": margin} | self.of(np.unique(numbers[at]))

    def by_group(self, most: int = MOST_GROUPS) -> Iterator[dict[str, Any]]:
        """For each variable, the groups, or areas, that lose the largest share of their cells, most first.

        ``size`` is the total of the group, where that is published; ``groups``, how many the variable has in all.
        """
        for variable in self.programme.variables.values():
            pairs, own = self._cells_of(variable)
            starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
            rows: list[dict[str, Any]] = []
            for part in np.split(pairs, starts[1:]) if len(pairs) else ():
                code = int(part[0, 0])
                total = own[code]
                size = None if self.suppressed[total] else in_unit(int(self.problem.value[total]), self.unit)
                row = {"variable": variable.name, "group": variable.tree.codes[code], "areas": variable.areas}
                rows.append(row | {"groups": len(starts), "size": size} | self.of(part[:, 1]))
            rows.sort(key=lambda row: (-lost_share(row), -row["value"]))
            yield from (row for row in rows[:most] if row["hidden"])

    def _cells_of(self, variable: Variable) -> tuple[Integers, dict[int, int]]:
        """The code of a group and the number of a cell that speaks of it, once each and in order; and for every group
        the cell that is summed over everything else."""
        pairs = [np.zeros((0, 2), np.int64)]
        own: dict[int, int] = {}
        for table, listed, places, numbers in self._tables:
            for axis, each in enumerate(table.variables):
                if each.name != variable.name:
                    continue
                of_group = listed & (places[:, axis] > ROOT)
                pairs.append(np.column_stack([places[of_group, axis], numbers[of_group]]))
                alone = of_group & ((places > ROOT).sum(axis=1) == 1)
                own |= dict(zip(places[alone, axis].tolist(), numbers[alone].tolist(), strict=True))
        return np.unique(np.concatenate(pairs), axis=0), own

    @cached_property
    def _tables(self) -> list[tuple[HierarchicalTable, Flags, Integers, Integers]]:
        """Each table with its listed cells, the codes of its cells and their numbers."""
        linked = self.programme.linked
        return [
            (table, layout.listed_cells, table.places, numbers)
            for table, layout, numbers in zip(self.programme.tables, linked.tables, linked.numbers, strict=True)
        ]


def lost_share(row: Mapping[str, Any]) -> float:
    """The share of cells that are not zero and are suppressed, in a row of :class:`Losses`."""
    suppressed = row["hidden"] - row["primary_empty"] - row["complementary_empty"]
    return float(suppressed / max(1, row["cells"] - row["empty"]))
