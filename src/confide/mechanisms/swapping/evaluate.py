"""``evaluate`` for swapped data: what is said to stay, how the swap went, and how far tables are off. Confidential.

The truth is not kept by a run: it follows from the records at any time. Published counts are read from the files of the
release, as anybody has them. Who moved is kept with the run until its key is destroyed; afterwards the tables can still
be compared with the truth, and what stays is looked at in them alone.

For the noise audit, what a swap drew is drawn again with the key and held against what the run kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import binom

from confide.arrays import Integers
from confide.confidential import Confidential
from confide.engines import Engine
from confide.errors import Finding, Place, RunError
from confide.mechanisms.swapping import core
from confide.mechanisms.swapping.mechanism import moved_file, read_people, swap_of, variables_of
from confide.mechanisms.swapping.output import FIGURES, AreaCounts, count_table
from confide.mechanisms.swapping.problem import SwappingProblem
from confide.mechanisms.swapping.spec import ADULTS, SIZE, SwapSettings
from confide.mechanisms.swapping.swap import HOUSEHOLDS, People, Streams, Swap, choices, exponentials, risk_levels
from confide.releases import Job, NoiseSource, OutcomeLaw, Progress, Residuals, Workspace, require_records
from confide.releases.dossier import BANNER, AreaSums, Evaluated, Evaluating, LoneFigures, only_run, write_dossier
from confide.releases.tabular import DescribedTable, QueryTable, TableRows, released
from confide.report import charts, render
from confide.report.charts import area_maps, require_levels
from confide.utility import tally

SCORE_CLASSES = 64
"""Scores are looked at in so many classes, all as likely."""
LARGEST_LOOKED_AT = 2_000
"""Strata with more households are looked at household by household alone: their laws have too many values."""


def residuals(problem: SwappingProblem, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:
    """What a swap drew, beside the laws that it promises, and whether the exchanges that were kept follow from it.

    Targeted: an exponential variable for each household and level, by which households of one risk are chosen evenly.
    Enhanced: how many households are taken, the noise of their keys, and their groups. Permutation: who was selected at
    first, how many moved in each stratum, whose place the first of them took, and the words that they were ordered by.
    Nothing is added to a count, so there is nothing else to be seen without the key.
    """
    fingerprint = problem.fingerprint()
    require_records(job.workspace, fingerprint, "records or settings are not those of the release")
    if noise is None or not moved_file(job.workspace).exists():
        raise RunError("no-measurements/swap", where=Place(file=str(job.workspace.root)))
    people, settings = read_people(problem, job.engine), problem.settings
    streams = Streams(noise.key, people.fingerprint, settings.fingerprint + bytes.fromhex(noise.plan_hash))
    values, age = variables_of(problem, people)
    if settings.variant == "targeted":
        yield from _targeted_draws(people, settings, streams)
    elif settings.variant == "enhanced":
        yield from _enhanced_draws(people, settings, streams)
    else:
        strata = core.strata_of(people, settings, core.looked_at(settings, values, age))
        yield from _permutation_draws(strata, settings, streams, swap_of(job.workspace))
    again = core.swap_people(people, settings, values, age, noise.key, bytes.fromhex(noise.plan_hash))
    stored = swap_of(job.workspace)
    if settings.variant == "enhanced":
        yield _taken(people, settings, stored)
    # A household whose partner is not the one that was drawn is one that the law does not have.
    other = (again.partner != stored.partner).astype(np.int64)
    yield Residuals("households", "partners as drawn", other[:, None], (OutcomeLaw((0,), (1.0,)),), "measured")


DRAWN_AGAIN = "drawn again"


def _targeted_draws(people: People, settings: SwapSettings, streams: Streams) -> Iterator[Residuals]:
    """The scores of households, by the level that they are for."""
    law = OutcomeLaw(tuple(range(SCORE_CLASSES)), (1 / SCORE_CLASSES,) * SCORE_CLASSES)
    for level in risk_levels(people, settings):
        share = -np.expm1(-exponentials(streams.of("score", level), people.households))
        classes = np.minimum(SCORE_CLASSES - 1, (SCORE_CLASSES * share).astype(np.int64))
        yield Residuals("households", f"score: {level}", classes[:, None], (law,), DRAWN_AGAIN)


def _enhanced_draws(people: People, settings: SwapSettings, streams: Streams) -> Iterator[Residuals]:
    """The noise of keys, and the groups."""
    for purpose, probabilities in (("key", settings.key_noise), ("group", settings.groups)):
        law = OutcomeLaw(tuple(range(len(probabilities))), tuple(float(p) for p in probabilities))
        drawn = choices(streams.of(purpose), people.households, probabilities)
        yield Residuals("households", purpose, drawn[:, None], (law,), DRAWN_AGAIN)


def _permutation_draws(strata: Integers, settings: SwapSettings, streams: Streams, swap: Swap) -> Iterator[Residuals]:
    """Selections and words as they are drawn, household by household; and, stratum by stratum, what came of them."""
    p = float(settings.rate)
    everybody = np.arange(len(strata))
    first = core.selections(streams, 0, everybody, settings).astype(np.int64)
    law = OutcomeLaw((0, 1), (1 - p, p))
    yield Residuals("households", "selected", first[:, None], (law,), DRAWN_AGAIN, family="selected")
    words = streams.of("order", "attempt 0").extension(everybody.astype(np.uint64), 0)
    classes = (words >> np.uint64(64 - SCORE_CLASSES.bit_length() + 1)).astype(np.int64)
    law = OutcomeLaw(tuple(range(SCORE_CLASSES)), (1 / SCORE_CLASSES,) * SCORE_CLASSES)
    yield Residuals("households", "order", classes[:, None], (law,), DRAWN_AGAIN, family="order")
    sizes = np.bincount(strata)
    moved = np.bincount(strata[swap.moved], minlength=len(sizes))
    looked = np.flatnonzero((sizes > 1) & (sizes <= LARGEST_LOOKED_AT))
    if len(looked):
        kinds, law_of = np.unique(sizes[looked], return_inverse=True)
        laws = tuple(_moved_law(int(b), p) for b in kinds)
        number = law_of[:, None].astype(np.int64)
        yield Residuals("strata", "moved", moved[looked][:, None], laws, "measured", law_of=number, family="moved")
    yield from _first_places(strata, swap, moved)


def _moved_law(b: int, p: float) -> OutcomeLaw:
    """How many households of a stratum move: binomial, but never one."""
    mass = binom.pmf(np.arange(b + 1), b, p)
    mass[1] = 0.0
    values = [m for m in range(b + 1) if m != 1 and mass[m] > 0]
    return OutcomeLaw(tuple(values), tuple((mass[values] / mass.sum()).tolist()))


def _first_places(strata: Integers, swap: Swap, moved: Integers) -> Iterator[Residuals]:
    """Of the first household that moved in a stratum, how many places farther on among the m that moved the one is
    whose place it took: every number from 1 to m − 1 is as likely. One for each stratum, so that they are independent.
    """
    of = np.flatnonzero(swap.moved)
    ordered = of[np.argsort(strata[of], kind="stable")]
    begins = np.flatnonzero(np.diff(strata[ordered], prepend=-1))
    number = moved[strata[ordered[begins]]]
    place = np.zeros(len(strata), np.int64)
    place[ordered] = np.arange(len(ordered)) - np.repeat(begins, number)
    steps = place[swap.partner[ordered[begins]]]
    looked = (number > 2) & (number <= LARGEST_LOOKED_AT)
    if looked.any():
        kinds, law_of = np.unique(number[looked], return_inverse=True)
        laws = tuple(OutcomeLaw(tuple(range(1, m)), (1 / (m - 1),) * (m - 1)) for m in kinds.tolist())
        which = law_of[:, None].astype(np.int64)
        yield Residuals("strata", "places", steps[looked][:, None], laws, "measured", law_of=which, family="places")


def _taken(people: People, settings: SwapSettings, swap: Swap) -> Residuals:
    """How many households were taken: one of the two numbers next to the share."""
    floor, fraction = divmod(people.households * settings.rate, 1)
    law = OutcomeLaw((0, 1), (float(1 - fraction), float(fraction)))
    number = np.array([[sum(swap.wanted.values()) - int(floor)]])
    return Residuals("households", "taken", number, (law,), "measured")


# The evaluation itself.


def evaluate(
    problem: SwappingProblem,
    workspace: Workspace,
    engine: Engine,
    progress: Progress,
    by_area: AreaSums | None = None,
    geometry: Mapping[str, Path] | None = None,
) -> Confidential[dict[str, Any]]:
    """Every released count against the true one, what stays counted again, and the swap itself; ``by_area`` receives
    how far the figures of each area are off. Of levels with geometry, all areas are listed."""
    require_records(workspace, problem.fingerprint(), "records or settings are not those of the release")
    with progress.stage("Reading records", 1) as advance:
        people = read_people(problem, engine)
        advance(1)
    swap = swap_of(workspace) if moved_file(workspace).exists() else None
    rows = []
    finest, lone = {table.query.name for table in problem.tables}, LoneFigures()
    with progress.stage("Comparing with the truth", max(1, len(problem.tables))) as advance:
        for table in problem.tables:
            rows += list(_compared(problem, people, table, workspace.release, by_area or AreaSums(), lone))
            advance(1)
    return Confidential(
        {
            "units": "cells",
            "accuracy": [_headline(row) for row in rows if row["query"] in finest],
            "tables": rows,
            "kept": _kept(problem, people, swap),
            "exact": [row for row in rows if row["said_to_stay"]],
            "swap": None if swap is None else _swap(problem, people, swap),
            "risk_by_area": lone.as_dict(geometry or {}),
        }
    )


def _compared(
    problem: SwappingProblem, people: People, table: QueryTable, release: Path, by_area: AreaSums, lone: LoneFigures
) -> Iterator[dict[str, Any]]:
    """For each level and cross-classification of a table: cells with somebody in them, truly or as published."""
    read = DescribedTable.of(table.layout, FIGURES).placed
    rows = released(release, table.name, problem.spec.output.formats, read)
    for place, (level, true) in enumerate(count_table(people, people.block, people.codes, table)):
        published = _of_level(problem, rows, level, place)
        for number, margin in enumerate(table.margins):
            unit, one, other = _both(true, published, number, margin.cells)
            codes = problem.spine.level(level).codes
            by_area.add(level, codes, unit, np.abs(one - other), margin.cells)
            if lone.takes(level, "*".join(sorted(variable.name for variable in margin.variables)), table.name):
                lone.add(level, codes, unit, one, other)
            if not len(one):
                continue
            said = _stays(problem, table, level, number)
            yield {
                "table": table.name,
                "level": level,
                "query": margin.name,
                "said_to_stay": said,
                "changed": int((one != other).sum()),
                **tally(one, other).as_dict(),
            }


def _stays(problem: SwappingProblem, table: QueryTable, level: str, number: int) -> bool:
    """Whether the release says that these counts are as they were."""
    variables = table.margins[number].variables
    carried = {variable.attribute.name for variable in variables} & set(problem.settings.carry)
    if level in core.exact_levels(problem.spine, problem.settings) and not carried:
        return True
    names = [variable.name for variable in variables]
    invariant = problem.settings.kept
    return names in [[name] for name in invariant] or (not names and SIZE in invariant)


def _both(true: AreaCounts, published: AreaCounts, number: int, cells: int) -> tuple[Integers, Integers, Integers]:
    """The areas of the cells of a margin that are not empty, and their true and published counts."""
    keys, counts = [], []
    for rows in (true, published):
        of = rows.margin == number
        keys.append(rows.unit[of] * cells + rows.cell[of])
        counts.append(rows.count[of])
    cells_present = np.union1d(*keys)
    dense = []
    for key, count in zip(keys, counts, strict=True):
        full: Integers = np.zeros(len(cells_present), np.int64)
        full[np.searchsorted(cells_present, key)] = count
        dense.append(full)
    return cells_present // cells, dense[0], dense[1]


def _of_level(problem: SwappingProblem, rows: TableRows, level: str, place: int) -> AreaCounts:
    codes = pa.array(problem.spine.level(level).codes, pa.string())
    on_level = rows.on_level(place)
    unit = pc.index_in(on_level.area, codes).to_numpy(zero_copy_only=False).astype(np.int64)
    return AreaCounts(unit, on_level.margin, on_level.cell, on_level.count)


def _kept(problem: SwappingProblem, people: People, swap: Swap | None) -> list[dict[str, Any]]:
    """What is said to stay in every block, from who moved and from the records."""
    if swap is None:
        return []
    values, age = variables_of(problem, people)
    named = core.looked_at(problem.settings, values, age)
    return [count.as_dict() for count in core.counted_again(people, problem.settings, swap, named)]


def _swap(problem: SwappingProblem, people: People, swap: Swap) -> dict[str, Any]:
    moved = swap.moved
    after = people.block_of[swap.partner]
    return {
        "households": people.households,
        "households_moved": int(moved.sum()),
        "share_moved": float(moved.mean()) if len(moved) else 0.0,
        "persons": len(people.block),
        "persons_moved": int(people.size[moved].sum()),
        "rate": str(problem.settings.rate),
        "wanted": dict(swap.wanted),
        "without_partner": dict(swap.without),
        "pairs_by_stage": dict(swap.by_stage),
        "left_unit": {
            level.name: int((people.unit_of(level.name)[people.block_of] != people.unit_of(level.name)[after]).sum())
            for level in problem.spine.levels
        },
        "settings": problem.settings.as_dict(),
    } | _largest_stratum(problem, people)


def _largest_stratum(problem: SwappingProblem, people: People) -> dict[str, Any]:
    """Of a permutation, how large its largest stratum is: with that as largest_stratum, epsilon would be smallest."""
    settings = problem.settings
    if settings.variant != "permutation" or not people.households:
        return {}
    largest = core.largest_of(
        core.strata_of(people, settings, core.looked_at(settings, *variables_of(problem, people)))
    )
    return {"largest_stratum": largest}


def _headline(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table on a level as a line on a terminal: its own cells, without margins."""
    return {
        "geography": f"{row['table']}, {row['level']}",
        "query": "cells",
        "cell": "table and level",
        "areas": row["areas"],
        "mean_truth": row["mean_truth"],
        "mean_absolute_error": row["mean_absolute_error"],
        "noise_alone": None,
    }


# The dossier of a release of swapped data: what stayed, who moved, and how far tables are off.


Row = Mapping[str, Any]
KEPT = {
    HOUSEHOLDS: "households",
    SIZE: "people",
    ADULTS: "adults",
    core.KINDS: "households by what their stratum shares",
}
"""What was counted again, in words; of everything else people are counted."""


def evaluate_swapping(asked: Evaluating) -> Evaluated:
    """The release against the truth, and its dossier."""
    run, problem = only_run(asked, Finding.of("one-run")), asked.question
    require_levels(asked.geometry, dict.fromkeys(level for table in problem.tables for level in table.levels))
    by_area = AreaSums()
    accuracy = evaluate(problem, run.workspace, asked.engine, asked.progress, by_area, asked.geometry)
    measure = by_area.measure("mean absolute error of the figures, in persons", problem.area_names)
    maps = area_maps(measure, asked.geometry)
    page = partial(_page, levels=[level.name for level in problem.spine.levels], maps=maps)
    return write_dossier(asked, accuracy, page, RISK_WORDS)


RISK_WORDS = (
    "A 1 may be somebody who was moved there; as long as rates and partners stay secret, nobody can tell. On levels "
    "that nobody left, and for what stays unchanged, every figure is shown as it is."
)


def _page(numbers: Row, *, title: str, levels: list[str], maps: list[dict[str, Any]], risks: dict[str, Any]) -> str:
    swap = numbers["swap"]
    pictures = charts.available()
    return render(
        "swapping_dossier.html.j2",
        title=title,
        banner=BANNER,
        headlines=_headlines(numbers),
        swap=swap,
        kept=[row | {"words": _words(row["name"])} for row in numbers["kept"]],
        wrong=[row for row in numbers["exact"] if row["changed"]],
        exact=numbers["exact"],
        tables=numbers["tables"],
        levels=levels,
        smallest=levels[-1],
        figures=_figures(numbers, levels) if pictures else [],
        maps=maps,
        risks=risks,
        pictures=pictures,
    )


def _words(name: str) -> str:
    return KEPT.get(name, name if name.startswith(HOUSEHOLDS) else f"people by {name}")


def _headlines(numbers: Row) -> list[tuple[str, str]]:
    """What to know first."""
    swap, kept = numbers["swap"], numbers["kept"]
    changed = sum(row["changed"] for row in kept) + sum(row["changed"] for row in numbers["exact"])
    lines = []
    if swap is not None:
        lines += [
            (f"{swap['households_moved']:,}", f"of {swap['households']:,} households moved"),
            (f"{100 * swap['share_moved']:.2f} %", f"moved; the requested rate is {swap['rate']}"),
            *(
                [(f"{swap['largest_stratum']:,}", "households in the largest stratum")]
                if "largest_stratum" in swap
                else [(f"{sum(swap['without_partner'].values()):,}", "found no partner and stayed")]
            ),
        ]
    return [*lines, (f"{changed:,}", "counts declared unchanged that did change")]


def _figures(numbers: Row, levels: list[str]) -> list[dict[str, str]]:
    rows = [row for row in numbers["tables"] if row["level"] in levels and row["mean_truth"]]
    if not any(row["changed"] for row in rows):
        return []
    return [
        {
            "svg": charts.chart("swapping-error-by-level", _largest(rows), levels=levels).svg(),
            "caption": "Mean absolute error as a share of the mean count, by level, for the cells of each table. "
            "Figures without error are not drawn, such as those of levels that nobody left.",
        }
    ]


def _largest(rows: list[Any]) -> list[dict[str, Any]]:
    """The table itself of each table: the cross-classification with most variables."""
    finest: dict[tuple[str, str], Any] = {}
    for row in rows:
        place = (row["table"], row["level"])
        if place not in finest or row["query"].count("*") >= finest[place]["query"].count("*"):
            finest[place] = row
    return [
        {
            "table": row["table"],
            "level": row["level"],
            "percent": 100 * row["mean_absolute_error"] / row["mean_truth"],
        }
        for row in finest.values()
        if row["mean_absolute_error"]
    ]
