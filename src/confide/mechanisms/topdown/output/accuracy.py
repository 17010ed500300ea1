"""``accuracy.*`` and ``accuracy.html`` of a release: how far off its figures may be, from the plan alone.

The numbers are :func:`accuracy_table`, by :class:`~confide.mechanisms.topdown.figure_noise.TopDownNoise`. They are
written when a release is, made again from its public files when it is verified, and become a page for people who
decide. Figures are never below zero, which takes errors away where people are few. So for figures of a size the
expected error is that of max(0, n + E), E normal with the variance of the figure: ``docs/concepts/inference.md``.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, log10
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

from confide.arrays import Floats, Integers
from confide.errors import ConfideError
from confide.estimation.sectors import Grouping
from confide.mechanisms.topdown import figure_noise
from confide.mechanisms.topdown.figure_noise import SIZES, TopDownNoise, areas_there, size_names
from confide.mechanisms.topdown.output.settings import Output
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.released_problem import ACCURACY, SPINE, recodes_of, released_problem, released_table
from confide.messages import Messages
from confide.releases import Check, ReleaseWriter, SealedRelease, rehearsal_banner
from confide.releases.tabular import DescribedColumn, DescribedFile, figure_column
from confide.report.rendering import messages_of, render
from confide.schema import NO_GROUP, TOTAL

PAGE = "accuracy.html"
WORDS = {
    figure_noise.IN_SECTORS: "least_squares",
    figure_noise.MEANS_OF_QUERIES: "means_of_queries",
    figure_noise.ON_THE_TREE: "on_the_tree",
}
TITLE = "How far off a figure may be: expected errors from the plan alone"
TENTH = 0.1 / 0.7978845608028654
"""A figure whose standard deviation is this part of it is off by a tenth of itself on average."""
LOOSE = 1.0
"""An area with the noise of more single blocks than this was not measured as a whole: its margin is an upper one."""
GAPS = ("line", "label", "sd", "margin_90", "expected_error", "expected_percent")
"""Columns that have nothing in some rows: queries are no lines, and what nothing determines has no error."""
MOST_CARDS = 4
EXAMPLE = "20-99"
"""The class of figures that the page takes for its example."""


def expected_absolute_error(size: Floats | float, sd: Floats | float) -> Floats:
    """E|max(0, n + E) − n| for E ~ N(0, sd²): how far a figure that cannot be below zero is off on average.

    Args:
        size: The true figure n.
        sd: The standard deviation of its noise.

    >>> expected_absolute_error(np.array([0.0, 1000.0]), 2.0).round(3)
    array([0.798, 1.596])
    """
    n, s = np.broadcast_arrays(np.asarray(size, np.float64), np.asarray(sd, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(s > 0, n / s, np.inf)
    density = np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    # The upper half, the part down to zero, and everything below zero, which is off by n.
    upper, middle = s / np.sqrt(2 * np.pi), s * (1 / np.sqrt(2 * np.pi) - density)
    return np.asarray(upper + middle + np.where(s > 0, n * ndtr(-t), 0.0), np.float64)


MOST_ACCURACY_CELLS = 300
MARGIN = 1.6448536269514722
"""Half the width of a 90 % interval, in standard deviations."""
AT_ONCE = 1 << 16
"""Expected errors of so many areas and cells are worked out together."""
DIGITS = 4
"""To so many digits figures are written: the same on every machine, whatever the last bits of its arithmetic."""


@dataclass(frozen=True, eq=False)
class AccuracyLine:
    """What expected errors are given for: a query, with all its cells, or one line of a table of the product."""

    query: str
    groups: Grouping
    cells: int
    line: str = ""
    label: str = ""


def accuracy_lines(problem: TopDownProblem, output: Output | None = None) -> Iterator[AccuracyLine]:
    """The queries of at most 300 cells that are measured on some level, and the lines of the tables of the product."""
    strategy = problem.strategy
    for name in dict.fromkeys((TOTAL, *strategy.measured)):
        cells = strategy.query(name).cells
        if cells <= MOST_ACCURACY_CELLS:
            yield AccuracyLine(name, strategy.grouping(name), cells)
    for table in () if output is None else output.tables:
        for column, label, levels in zip(table.columns, table.labels, table.levels, strict=True):
            sets = enumerate(zip(levels, strategy.schema.attributes, strict=True))
            groups = {axis: _one_group(some, a.size) for axis, (some, a) in sets if len(some) < a.size}
            if all(len(some) for some in levels):
                yield AccuracyLine(table.name, groups, 1, column, label)


def _one_group(levels: Integers, size: int) -> Integers:
    groups = np.full(size, NO_GROUP, np.int64)
    groups[levels] = 0
    return groups


def accuracy_table(
    problem: TopDownProblem, output: Output | None = None, noise: TopDownNoise | None = None
) -> pa.Table:
    """Expected errors of released figures, by kind of area, query or line and size of the figure: from the plan alone.

    Args:
        problem: Strategy, frame and spine; no record is looked at.
        output: What is written: the tables of the product, whose lines have rows of their own.
        noise: That of the problem, where somebody has it.

    Returns:
        One row for each query or line, official level or kind of area, and class of figures, with the columns of
        :data:`ACCURACY_COLUMNS`.
    """
    noise, kinds = noise or TopDownNoise(problem), areas_there(problem.spine)
    # Of the smallest places, the noise of their own level is what an area has of single ones.
    loose = {name: float(noise.contributions(areas)[:, -1].mean()) for name, areas in kinds.items()}
    loose[problem.frame.spine.blocks.name] = 0.0
    columns: dict[str, list[Any]] = {name: [] for name in ACCURACY_COLUMNS.names}
    known: dict[tuple[str, bool, Hashable], dict[str, list[Any]]] = {}
    for asked in accuracy_lines(problem, output):
        alike = noise.alike(asked.groups)
        for name, areas in kinds.items():
            key = (name, not asked.groups, alike)
            if key not in known:
                variance, kind = noise.by_kind(asked.groups, areas)
                share = np.bincount(kind, minlength=len(variance))[:, None] / (areas.areas * variance.shape[1])
                known[key] = _expected(variance, np.broadcast_to(share, variance.shape))
            same: dict[str, Any] = {"geography": name, "areas": areas.areas, "loose_blocks": _written(loose[name])}
            same |= {"query": asked.query, "line": asked.line, "label": asked.label, "cells": asked.cells}
            for column, value in same.items():
                columns[column] += [value] * len(known[key]["size"])
            for column, values in known[key].items():
                columns[column] += values
    return pa.Table.from_pydict(columns, schema=ACCURACY_COLUMNS)


def size_classes() -> Iterator[tuple[str, float]]:
    """The names of the classes of figures, and the figure that stands for each."""
    for name, (low, high) in zip(size_names(), SIZES, strict=True):
        yield name, float(low) if high is None else float(np.sqrt(max(low, 1) * high)) if high else 0.0


def _expected(variance: Floats, weights: Floats) -> dict[str, list[Any]]:
    """What the table has of figures of each class, over areas and cells: root mean variance and expected errors."""
    mean = float((variance * weights).sum())
    sd = float(np.sqrt(mean))
    # Figures whose variances differ in no more than the last bits are alike.
    unit = 1e-10 * mean if mean > 0 else 1.0
    alike, place = np.unique(np.round(variance.ravel() / unit), return_inverse=True)
    each, share = np.sqrt(alike * unit), np.bincount(place.reshape(-1), weights.ravel())
    sizes, figures = zip(*size_classes(), strict=True)
    errors = np.zeros(len(sizes))
    for begin in range(0, len(each), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        errors += (expected_absolute_error(np.array(figures)[:, None], each[some]) * share[some]).sum(axis=1)
    columns: dict[str, list[Any]] = {}
    for size, figure, error in zip(sizes, figures, errors.tolist(), strict=True):
        row = {
            "size": size,
            "figure": _written(figure),
            "sd": _written(sd),
            "margin_90": _written(MARGIN * sd),
            "expected_error": _written(error),
            "expected_percent": _written(100 * error / figure) if figure else None,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns


def _written(value: float) -> float | None:
    """A figure to some digits; none where nothing determines it."""
    return None if np.isnan(value) else float(f"{value:.{DIGITS}g}")


described = partial(figure_column, gaps=True)
"""A column with what it is, which may have gaps."""
ACCURACY_COLUMNS = pa.schema(
    [
        described("geography", "level or kind of area", pa.string()),
        described("areas", "how many there are", pa.int64()),
        described(
            "loose_blocks", "of how many single smallest places an area has the own noise, on average", pa.float64()
        ),
        described("query", "what is counted: a query, or a table of the product", pa.string()),
        described("line", "line of that table; empty for all cells of a query", pa.string()),
        described("label", "whom the line counts", pa.string()),
        described("cells", "figures of an area", pa.int64()),
        described("size", "class of figures", pa.string()),
        described("figure", "the figure that stands for the class", pa.float64()),
        described("sd", "root of the mean variance of the noise alone", pa.float64()),
        described("margin_90", "90 per cent of such noise is within this of zero", pa.float64()),
        described("expected_error", "expected absolute error of a figure that cannot be below zero", pa.float64()),
        described("expected_percent", "the same in per cent of the figure", pa.float64()),
    ]
)
"""The columns of :func:`accuracy_table`."""


def accuracy_entry(problem: TopDownProblem) -> dict[str, Any]:
    """What a manifest says of the expected errors: how they are worked out, and the recodes of the schema, which the
    plan has by their fingerprint alone."""
    return {ACCURACY: {"method": TopDownNoise(problem).method, "recodes": recodes_of(problem.strategy.schema)}}


def accuracy_stated(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The same as a manifest has it: that it fits plan and files is for :func:`verify_accuracy`."""
    return {ACCURACY: manifest[ACCURACY]}


def publish_accuracy(problem: TopDownProblem, release: ReleaseWriter, formats: Sequence[str]) -> None:
    """Writes the table, in the formats of records and tables."""
    table = accuracy_table(problem, problem.output)
    release.table(ACCURACY, ACCURACY_COLUMNS, table.to_batches(), formats, TITLE, folder="")


def described_files(manifest: Mapping[str, Any]) -> Iterator[DescribedFile]:
    """What the codebook says of the table, and of a spine that is beside it."""
    kinds = {pa.string(): "string", pa.int64(): "integer", pa.float64(): "number"}
    columns = tuple(
        DescribedColumn(column.name, kinds[column.type], "figure", gaps=column.name in GAPS)  # type: ignore[arg-type]
        for column in ACCURACY_COLUMNS
    )
    yield DescribedFile(ACCURACY, TITLE, columns, ("geography", "query", "line", "size"))
    if not manifest["plan"]["measures"]:
        block = str(manifest["plan"]["question"]["layout"]["block"])
        roles = (("level", "string"), ("unit", "string"), ("measured", "integer"), (block, "string"))
        units = tuple(DescribedColumn(name, kind, "figure", gaps=name == block) for name, kind in roles)  # type: ignore[arg-type]
        yield DescribedFile(SPINE, "The units that were measured: the spine, as the measurements have it", units)


def verify_accuracy(
    folder: Path, manifest: Mapping[str, Any], output: Output | None = None, units: pa.Table | None = None
) -> Generator[Check, None, TopDownProblem | None]:
    """The table made again from plan and public files, and compared in every format. Returns the problem that plan and
    files describe, if they do.

    Args:
        folder: The release.
        manifest: Its manifest.
        output: What its plan says is written, where that was read before.
        units: The table of blocks, likewise.
    """
    try:
        problem = released_problem(SealedRelease(folder, dict(manifest)), output, units)
    except (ConfideError, ValueError, LookupError, OSError):
        yield Check("accuracy: follows from the plan", False, "schema, frame or spine are not those of the plan")
        return None
    noise = TopDownNoise(problem)
    named = manifest[ACCURACY]["method"] == noise.method
    yield Check("accuracy: the method is named", named, noise.method)
    expected = accuracy_table(problem, problem.output, noise)
    files = [file["path"] for file in manifest["files"] if file["path"].startswith(f"{ACCURACY}.") and "rows" in file]
    wrong = [path for path in files if not accuracy_rows(folder, {"files": [{"path": path}]}).equals(expected)]
    if not files:
        wrong = ["the files are missing"]
    detail = ", ".join(wrong) or f"{expected.num_rows:,} rows, made again"
    yield Check("accuracy: follows from the plan", not wrong, detail)
    return problem


def accuracy_rows(folder: Path, manifest: Mapping[str, Any]) -> pa.Table:
    """The table as a release has it, in whichever format."""
    texts = [column.name for column in ACCURACY_COLUMNS if pa.types.is_string(column.type)]
    table = released_table(SealedRelease(folder, dict(manifest)), ACCURACY, texts)
    return table.select(ACCURACY_COLUMNS.names).cast(
        pa.schema([pa.field(column.name, column.type) for column in ACCURACY_COLUMNS])
    )


# The page.


def accuracy_page(folder: Path, manifest: Mapping[str, Any]) -> str:
    """The page of a release, from its table."""
    return page_of(accuracy_rows(folder, manifest), manifest, manifest[ACCURACY]["method"], in_release=True)


def page_of(table: pa.Table, manifest: Mapping[str, Any], method: str, *, in_release: bool) -> str:
    """The page "How far off may a figure be?".

    Args:
        table: The expected errors.
        manifest: That of the release.
        method: How they were worked out.
        in_release: Whether the page is in the release, beside the table.
    """
    text = messages_of(manifest)
    chosen = text.text("page.stamp_noise", stamp=manifest["stamp"]) if "stamp" in manifest else ""
    names = _QueryNames(manifest, text)
    rows: list[dict[str, Any]] = table.to_pylist()
    queries = _by_query([row for row in rows if not row["line"]], names)
    finest = max(queries, key=lambda query: int(query["cells"]))
    return render(
        "accuracy.html.j2",
        text.language,
        title=text.text("accuracy.title", title=manifest["title"]),
        banner=rehearsal_banner(manifest) or chosen,
        manifest=manifest,
        sizes=[name for name, _ in size_classes()],
        cards=_cards(next(query for query in queries if query["name"] == TOTAL)),
        shown=[query for query in queries if query["name"] in (TOTAL, finest["name"])],
        example=_example(finest),
        loose=any(area["loose"] for area in finest["areas"]),
        queries=queries,
        tables=_by_table([row for row in rows if row["line"]], manifest),
        method_words=text.text(f"accuracy.method_{WORDS[method]}"),
        in_release=in_release,
    )


class _QueryNames:
    """Queries in the words of the schema."""

    def __init__(self, manifest: Mapping[str, Any], text: Messages):
        self._titles = manifest["plan"]["question"]["attributes"]
        self._text = text

    def title(self, query: str) -> str:
        """A query such as ``hispanic*cenrace`` by the titles of its attributes."""
        if query == TOTAL:
            return self._text.text("accuracy.total")
        parts = []
        for name in query.split("*"):
            attribute, _, recode = name.partition(":")
            title = self._titles.get(attribute) or attribute
            parts.append(f"{title} ({recode})" if recode else title)
        return " × ".join(parts)


def _by_query(rows: Sequence[Mapping[str, Any]], names: _QueryNames) -> list[dict[str, Any]]:
    """For each query its kinds of area, with margin and the expected error of each class of figures."""
    queries: dict[str, dict[str, Any]] = {}
    for row in rows:
        blank = {"name": row["query"], "title": names.title(row["query"]), "cells": row["cells"], "areas": {}}
        areas = queries.setdefault(row["query"], blank)["areas"]
        area = areas.setdefault(row["geography"], _area(row))
        area["sizes"][row["size"]] = {
            "error": _short(row["expected_error"]),
            "percent": "" if row["expected_percent"] is None else _short(row["expected_percent"]),
            "figure": _short(row["figure"]),
        }
    for query in queries.values():
        most = max((area["sd"] or 0.0 for area in query["areas"].values()), default=0.0)
        for area in query["areas"].values():
            area["bar"] = ceil(100 * (area["sd"] or 0.0) / most) if most else 0
        query["areas"] = list(query["areas"].values())
    return list(queries.values())


def _area(row: Mapping[str, Any]) -> dict[str, Any]:
    sd = row["sd"]
    return {
        "name": row["geography"].replace("_", " "),
        "number": row["areas"],
        "sd": sd,
        "margin": _short(row["margin_90"]),
        "exact": sd == 0,
        "loose": row["loose_blocks"] > LOOSE,
        "reliable": f"{_rounded_up(sd / TENTH):,}" if sd else "–",
        "sizes": {},
    }


def _by_table(rows: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each table of the product its lines, with the margin in each kind of area."""
    titles = {table.name: table.title for table in Output.from_dict(manifest["plan"]["question"]["output"]).tables}
    largest = [name for name, _ in size_classes()][-1]
    tables: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["size"] != largest:
            continue
        table = tables.setdefault(
            row["query"], {"name": row["query"], "title": titles.get(row["query"], ""), "areas": {}, "lines": {}}
        )
        table["areas"][row["geography"].replace("_", " ")] = True
        line = table["lines"].setdefault(row["line"], {"name": row["line"], "label": row["label"], "margins": []})
        line["margins"].append(_short(row["margin_90"]))
    return [table | {"areas": [*table["areas"]], "lines": list(table["lines"].values())} for table in tables.values()]


def _cards(totals: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The kinds of area whose totals the page begins with: the largest that have noise, or that have none."""
    areas: list[Mapping[str, Any]] = [area for area in totals["areas"] if not area["loose"]]
    return [area for area in areas if not area["exact"]][:MOST_CARDS] or areas[:MOST_CARDS]


def _example(query: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a figure of a middle size means in a middle kind of area, of those with noise."""
    areas = [area for area in query["areas"] if area["sd"] and not area["loose"]]
    if not areas:
        return None
    area = sorted(areas, key=lambda each: float(each["sd"]))[len(areas) // 2]
    return {"area": area["name"], "query": query["title"], "margin": area["margin"], **area["sizes"][EXAMPLE]}


def _short(value: float | None) -> str:
    """A figure for people: one decimal below a hundred; nothing where there is none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def _rounded_up(value: float) -> int:
    """A size to two digits, never below it."""
    if value <= 0:
        return 0
    unit = 10 ** max(0, int(log10(value)) - 1)
    return int(ceil(value / unit) * unit)
