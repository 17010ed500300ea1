"""``evaluate`` for swapped data: what is said to stay, how the swap went, and how far tables are off. Confidential.

The truth is not kept by a run: it follows from the records at any time. Published counts are read from the files of the
release, as anybody has them. Who moved is kept with the run until its key is destroyed; afterwards the tables can still
be compared with the truth, and what stays is looked at in them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.confidential import Confidential
from confide.engines import Engine
from confide.errors import Finding, ParameterError, Place, ReleaseError
from confide.mechanisms.swapping.core import exact_levels, looked_at
from confide.mechanisms.swapping.mechanism import moved_file, swap_of
from confide.mechanisms.swapping.output import Described, ReadTable, Rows, Unlike, count_table, read_released
from confide.mechanisms.swapping.people import ADULTS, SIZE, People
from confide.mechanisms.swapping.problem import SwappingQuestion, Table
from confide.mechanisms.swapping.records import read_people, variables_of
from confide.mechanisms.swapping.swap import HOUSEHOLDS, Swap, kept_in_blocks
from confide.releases.evaluate import require_sealed
from confide.releases.progress import Progress
from confide.releases.run import changed
from confide.releases.workspace import Workspace
from confide.report import charts
from confide.report.dossier import BANNER, Evaluated, Evaluating, no_maps, write
from confide.report.render import render
from confide.utility import tally

Integers = npt.NDArray[np.int64]


def evaluate(
    question: SwappingQuestion, workspace: Workspace, engine: Engine, progress: Progress
) -> Confidential[dict[str, Any]]:
    """Every released count against the true one, what stays counted again, and the swap itself."""
    require_sealed(workspace)
    begun = workspace.identity()
    if begun is None or begun.records_fingerprint != question.fingerprint():
        raise changed("records or settings are not those of the release", workspace)
    with progress.stage("Reading records", 1) as advance:
        people = read_people(question, engine)
        advance(1)
    swap = swap_of(workspace) if moved_file(workspace).exists() else None
    rows = []
    finest = {table.query.name for table in question.tables}
    with progress.stage("Comparing with the truth", max(1, len(question.tables))) as advance:
        for table in question.tables:
            rows += list(_compared(question, people, table, workspace.release))
            advance(1)
    return Confidential(
        {
            "units": "cells",
            "accuracy": [_headline(row) for row in rows if row["query"] in finest],
            "tables": rows,
            "kept": _kept(question, people, swap),
            "exact": [row for row in rows if row["said_to_stay"]],
            "swap": None if swap is None else _swap(question, people, swap),
        }
    )


def _compared(question: SwappingQuestion, people: People, table: Table, release: Path) -> Iterator[dict[str, Any]]:
    """For each level and cross-classification of a table: cells with somebody in them, truly or as published."""
    released = _released(question, table, release)
    for place, (level, true) in enumerate(count_table(people, people.block, people.codes, table)):
        published = _rows(question, released, level, place)
        for number, margin in enumerate(table.margins):
            one, other = _both(true, published, number, margin.cells)
            if not len(one):
                continue
            said = _stays(question, table, level, number)
            yield {
                "table": table.name,
                "level": level,
                "query": margin.name,
                "said_to_stay": said,
                "changed": int((one != other).sum()),
                **tally(one, other).as_dict(),
            }


def _stays(question: SwappingQuestion, table: Table, level: str, number: int) -> bool:
    """Whether the release says that these counts are as they were."""
    variables = table.margins[number].variables
    carried = {variable.attribute.name for variable in variables} & set(question.settings.carry)
    if level in exact_levels(question.spine, question.settings) and not carried:
        return True
    names = [variable.name for variable in variables]
    kept = question.settings.kept
    return names in [[name] for name in kept] or (not names and SIZE in kept)


def _both(true: Rows, published: Rows, number: int, cells: int) -> tuple[Integers, Integers]:
    """True and published counts of the cells of a margin that either has."""
    keys, counts = [], []
    for rows in (true, published):
        of = rows.margin == number
        keys.append(rows.unit[of] * cells + rows.cell[of])
        counts.append(rows.count[of])
    known = np.union1d(*keys)
    found = []
    for key, count in zip(keys, counts, strict=True):
        full: Integers = np.zeros(len(known), np.int64)
        full[np.searchsorted(known, key)] = count
        found.append(full)
    return found[0], found[1]


def _released(question: SwappingQuestion, table: Table, release: Path) -> ReadTable:
    facts = next(values for values in question.facts()["tables"] if values["name"] == table.name)
    file = next(iter(sorted((release / "tables").glob(f"{table.name}.*parquet"))), None)
    file = file or next(iter(sorted((release / "tables").glob(f"{table.name}.*csv"))), None)
    try:
        if file is None:
            raise Unlike("no file")
        return read_released(file, Described.read(facts))
    except (Unlike, OSError, pa.ArrowException) as problem:
        found = str(problem) if isinstance(problem, Unlike) else "a file that cannot be read"
        remedy = "verify the release with `confide verify`, and restore it"
        what = "a released table is not as the plan describes it"
        place = Place(file=table.name)
        raise ReleaseError("release-unlike", what, place, found, "the table as it was sealed", remedy) from None


def _rows(question: SwappingQuestion, read: ReadTable, level: str, place: int) -> Rows:
    of = read.level == place
    codes = pa.array(question.spine.level(level).codes, pa.string())
    unit = pc.index_in(read.area.filter(pa.array(of)), codes).to_numpy(zero_copy_only=False).astype(np.int64)
    return Rows(unit, read.margin[of], read.cell[of], read.count[of])


def _kept(question: SwappingQuestion, people: People, swap: Swap | None) -> list[dict[str, Any]]:
    """What is said to stay in every block, from who moved and from the records."""
    if swap is None:
        return []
    values, age = variables_of(question, people)
    named = looked_at(question.settings, values, age)
    return [kept.as_dict() for kept in kept_in_blocks(people, question.settings, swap, named)]


def _swap(question: SwappingQuestion, people: People, swap: Swap) -> dict[str, Any]:
    moved = swap.moved
    after = people.block_of[swap.partner]
    return {
        "households": people.households,
        "households_moved": int(moved.sum()),
        "share_moved": float(moved.mean()) if len(moved) else 0.0,
        "persons": len(people.block),
        "persons_moved": int(people.size[moved].sum()),
        "rate": str(question.settings.rate),
        "wanted": dict(swap.wanted),
        "without_partner": dict(swap.without),
        "pairs_by_stage": dict(swap.by_stage),
        "left_unit": {
            level.name: int((people.unit_of(level.name)[people.block_of] != people.unit_of(level.name)[after]).sum())
            for level in question.spine.levels
        },
        "settings": question.settings.as_dict(),
    }


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
KEPT = {HOUSEHOLDS: "households", SIZE: "people", ADULTS: "adults"}


def evaluate_swapping(asked: Evaluating) -> Evaluated:
    """The release against the truth, and its dossier."""
    findings = no_maps(asked, "swapping", "swapped data")
    if len(asked.runs) > 1:
        what, found = "swapped data are evaluated one run at a time", f"{len(asked.runs)} runs"
        findings.append(Finding("one-run", what, Place(path="RUN"), found, "one run", "give one run"))
    if findings:
        raise ParameterError(findings)
    run = asked.runs[0]
    accuracy = evaluate(asked.question, run.workspace, asked.engine, asked.progress)
    numbers = accuracy.reveal("the dossier is the curator's own report on the truth")
    levels = [level.name for level in asked.question.spine.levels]
    page = write(run.workspace.dossier, numbers, _page(numbers, run.title, levels))
    return Evaluated(Confidential(numbers), page)


def _page(numbers: Row, title: str, levels: list[str]) -> str:
    swap = numbers["swap"]
    pictures = charts.available()
    return render(
        "swapping_dossier.html.j2",
        title=title,
        banner=BANNER,
        headlines=_headlines(numbers),
        swap=swap,
        kept=[row | {"words": KEPT.get(row["name"], f"people by {row['name']}")} for row in numbers["kept"]],
        wrong=[row for row in numbers["exact"] if row["changed"]],
        exact=numbers["exact"],
        tables=numbers["tables"],
        levels=levels,
        figures=_figures(numbers, levels) if pictures else [],
        pictures=pictures,
    )


def _headlines(numbers: Row) -> list[tuple[str, str]]:
    """What to know first."""
    swap, kept = numbers["swap"], numbers["kept"]
    changed = sum(row["changed"] for row in kept) + sum(row["changed"] for row in numbers["exact"])
    lines = []
    if swap is not None:
        lines += [
            (f"{swap['households_moved']:,}", f"of {swap['households']:,} households moved"),
            (f"{100 * swap['share_moved']:.2f} %", f"moved; the rate asked for is {swap['rate']}"),
            (f"{sum(swap['without_partner'].values()):,}", "found no partner and stayed"),
        ]
    return [*lines, (f"{changed:,}", "counts that are said to stay and did not")]


def _figures(numbers: Row, levels: list[str]) -> list[dict[str, str]]:
    rows = [row for row in numbers["tables"] if row["level"] in levels and row["mean_truth"]]
    if not any(row["changed"] for row in rows):
        return []
    return [
        {
            "svg": charts.chart("swapping-error-by-level", _largest(rows), levels=levels).svg(),
            "caption": "Mean absolute error as a share of the mean count, by level: the cells of each table. Figures "
            "without any error, such as those of levels that nobody left, are not drawn.",
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
