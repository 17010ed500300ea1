"""``verify`` for the cell key method: what follows from the files of a release alone.

Every table is read in every format. Its cells must be those of the plan, each once and in order; its counts such as the
perturbation table and the threshold let through; the same cell must have the same figure in every table (SPSN); and a
cell must be as near to the sum of its parts as bounded noise allows: a true count lies within D of a published one, so
the intervals of a cell and of its parts, added up, have a whole number in common (``docs/proofs/cellkey.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.mechanisms.cellkey.output import Placed, Unlike, read_people, read_sdmx
from confide.mechanisms.cellkey.programme import Described, DescribedTable, describe
from confide.releases.mechanism import Check

Integers = npt.NDArray[np.int64]
DOCUMENT = "statement.html"


@dataclass
class Seen:
    """Figures of cross-classifications that more than one table has, as they were met first."""

    shared: frozenset[tuple[str, ...]]
    figures: dict[tuple[str, ...], Placed] = field(default_factory=dict)


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table by itself, then what tables have in common."""
    described = describe(manifest["plan"]["question"])
    files = {file["path"] for file in manifest["files"]}
    yield _nothing_else(described, files)
    yield _same_formats(described, files)
    times = Counter(margin for table in described.tables for margin in table.margins)
    seen = Seen(frozenset(margin for margin, number in times.items() if number > 1))
    for table in described.tables:
        yield from _table(folder, files, described, table, seen)


def _paths(table: DescribedTable, files: set[str]) -> dict[str, str]:
    """The files of a table by their format."""
    wanted = {format_: f"tables/{table.name}.{format_}" for format_ in ("parquet", "csv")}
    wanted["sdmx-csv"] = f"sdmx/{table.name}.csv"
    return {format_: path for format_, path in wanted.items() if path in files}


def _nothing_else(described: Described, files: set[str]) -> Check:
    known = {path for table in described.tables for path in _paths(table, files).values()} | {DOCUMENT}
    detail = ", ".join(sorted(files - known)) or "every file is a table of the plan, or the statement"
    return Check("no other files", files <= known, detail)


def _same_formats(described: Described, files: set[str]) -> Check:
    formats = {tuple(_paths(table, files)) for table in described.tables}
    detail = ", ".join(sorted(set().union(*formats))) or "no file of any table is in the release"
    return Check("every table in every format", len(formats) == 1 and () not in formats, detail)


def _table(folder: Path, files: set[str], described: Described, table: DescribedTable, seen: Seen) -> Iterator[Check]:
    rows: dict[str, Placed] = {}
    problem = ""
    for format_, path in _paths(table, files).items():
        read = read_sdmx if format_ == "sdmx-csv" else read_people
        try:
            rows[format_] = read(folder / path, table, weighted=described.weighted)
        except Unlike as error:
            problem = problem or f"{format_}: {error}"
    yield Check(f"{table.name}: columns and labels", not problem, problem or f"{table.cells:,} cells in all")
    if problem or not rows:
        return
    first, *others = rows.values()
    same = all(first.equals(other) for other in others)
    yield Check(f"{table.name}: the same in every format", same, ", ".join(rows))
    ordered = _in_order(first)
    yield Check(f"{table.name}: every cell once, in order", ordered, f"{len(first.cell):,} cells that are not zero")
    yield _counts(described, table, first)
    if not ordered:
        return
    figures = {margin: first.of_margin(number) for number, margin in enumerate(table.margins)}
    yield from _spsn(table, figures, seen)
    if len(table.margins) > 1:
        yield _near(described, table, figures)


def _in_order(rows: Placed) -> bool:
    """Margin by margin, and within a margin cell after cell."""
    further = np.diff(rows.margin)
    return bool(((further > 0) | ((further == 0) & (np.diff(rows.cell) > 0))).all())


def _counts(described: Described, table: DescribedTable, rows: Placed) -> Check:
    least = int(rows.count.min(initial=described.smallest))
    ok = least >= described.smallest and (rows.weighted is None or int(rows.weighted.min(initial=0)) >= 0)
    return Check(f"{table.name}: counts that may be published", ok, f"none below {described.smallest:,} but zeros")


def _spsn(table: DescribedTable, figures: dict[tuple[str, ...], Placed], seen: Seen) -> Iterator[Check]:
    """The same cross-classification has the same figures here as in the tables before."""
    again = [margin for margin in table.margins if margin in seen.figures]
    wrong = [margin for margin in again if not _same_figures(figures[margin], seen.figures[margin])]
    for margin in seen.shared & set(table.margins):
        seen.figures.setdefault(margin, figures[margin])
    if again:
        names = ", ".join("*".join(margin) or "total" for margin in wrong)
        detail = names or f"{len(again)} cross-classifications that tables before it have too"
        yield Check(f"{table.name}: the same members, the same noise", not wrong, detail)


def _same_figures(one: Placed, other: Placed) -> bool:
    weighted = (one.weighted is None and other.weighted is None) or (
        one.weighted is not None and other.weighted is not None and np.array_equal(one.weighted, other.weighted)
    )
    return weighted and np.array_equal(one.cell, other.cell) and np.array_equal(one.count, other.count)


def _near(described: Described, table: DescribedTable, figures: dict[tuple[str, ...], Placed]) -> Check:
    """Every cell against its parts by one variable more; variables that leave somebody out do not add up."""
    compared, wrong = 0, 0
    for margin in table.margins:
        for variable in table.variables:
            larger = tuple(each.name for each in table.variables if each.name in margin or each is variable)
            if variable.name in margin or not variable.complete or larger not in figures:
                continue
            number = table.size(margin)
            low, high = _range(described, figures[margin], figures[margin].cell, number, 1)
            group = _parent(table, larger, variable.name, figures[larger].cell)
            parts_low, parts_high = _range(described, figures[larger], group, number, len(variable.labels))
            wrong += int(((parts_low > high) | (low > parts_high)).sum())
            compared += number
    detail = f"{compared:,} cells against the sums of their parts"
    detail += f", of which {wrong:,} are too far" if wrong else f": nowhere further than noise of {_bound(described)}"
    return Check(f"{table.name}: noise within its bound", not wrong, detail)


def _bound(described: Described) -> int:
    return int(described.largest_noise)


def _range(described: Described, rows: Placed, group: Integers, groups: int, parts: int) -> tuple[Integers, Integers]:
    """For each group of cells the least and the largest that its true counts can come to together.

    A published count x comes from one between max(1, x - D) and x + D; one that is not listed from at most D, or D plus
    what the threshold hides.
    """
    bound = _bound(described)
    hidden = bound + max(0, described.threshold - 1)
    listed = np.bincount(group, minlength=groups)
    low, high = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(low, group, np.maximum(1, rows.count - bound))
    np.add.at(high, group, rows.count + bound)
    return low, high + (parts - listed) * hidden


def _parent(table: DescribedTable, larger: tuple[str, ...], gone: str, cells: Integers) -> Integers:
    """The cells without one variable that cells with it are parts of."""
    kept = table.kept(larger)
    shape = [len(variable.labels) for variable in kept]
    places = np.unravel_index(cells, shape)
    parent: Integers = np.zeros(len(cells), np.int64)
    for variable, place in zip(kept, places, strict=True):
        if variable.name != gone:
            parent = parent * len(variable.labels) + place
    return parent
