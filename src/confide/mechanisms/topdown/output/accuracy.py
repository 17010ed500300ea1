"""``accuracy.*`` and ``accuracy.html`` of a release: how far off its figures may be, from the plan alone.

The numbers are :func:`~confide.mechanisms.topdown.expected_errors.accuracy_table`. They are written when a release is,
made again from its public files when it is verified, and become a page for people who decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, log10
from pathlib import Path
from typing import Any

import pyarrow as pa

from confide.errors import ConfideError
from confide.mechanisms.topdown.expected_errors import (
    ACCURACY as COLUMNS,
)
from confide.mechanisms.topdown.expected_errors import (
    IN_SECTORS,
    MEANS_OF_QUERIES,
    ON_THE_TREE,
    ReleasedNoise,
    accuracy_table,
    size_classes,
)
from confide.mechanisms.topdown.output.settings import Output
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.released_problem import (
    ACCURACY,
    SPINE,
    recodes_of,
    released_problem,
    released_table,
)
from confide.messages import Messages
from confide.releases.companions import DescribedColumn, DescribedFile
from confide.releases.folder import ReleaseWriter, rehearsal_banner
from confide.releases.mechanism import Check
from confide.report.certificate import messages_of
from confide.report.render import render
from confide.schema import TOTAL

PAGE = "accuracy.html"
WORDS = {IN_SECTORS: "least_squares", MEANS_OF_QUERIES: "means_of_queries", ON_THE_TREE: "on_the_tree"}
TITLE = "How far off a figure may be: expected errors from the plan alone"
TENTH = 0.1 / 0.7978845608028654
"""A figure of which this part is its standard deviation is off by a tenth of itself on average."""
LOOSE = 1.0
"""An area with the noise of more single blocks than this was not measured as a whole: its margin is an upper one."""
GAPS = ("line", "label", "sd", "margin_90", "expected_error", "expected_percent")
"""Columns that have nothing in some rows: queries are no lines, and what nothing determines has no error."""
MOST_CARDS = 4
EXAMPLE = "20-99"
"""The class of figures that the page takes for its example."""


def accuracy_entry(problem: TopDownProblem) -> dict[str, Any]:
    """What a manifest says of the expected errors: how they are worked out, and the recodes of the schema, which the
    plan has by their fingerprint alone."""
    return {ACCURACY: {"method": ReleasedNoise(problem).method, "recodes": recodes_of(problem.strategy.schema)}}


def accuracy_stated(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The same as a manifest has it, if it does: that it fits plan and files is for :func:`verify_accuracy`."""
    return {ACCURACY: manifest[ACCURACY]} if ACCURACY in manifest else {}


def publish_accuracy(problem: TopDownProblem, release: ReleaseWriter, formats: Sequence[str]) -> None:
    """Writes the table, in the formats of records and tables."""
    table = accuracy_table(problem, problem.output)
    release.table(ACCURACY, COLUMNS, table.to_batches(), formats, TITLE, folder="")


def described_files(manifest: Mapping[str, Any]) -> Iterator[DescribedFile]:
    """What the codebook says of the table, and of a spine that stands beside it."""
    if ACCURACY not in manifest:
        return
    kinds = {pa.string(): "string", pa.int64(): "integer", pa.float64(): "number"}
    columns = tuple(
        DescribedColumn(column.name, kinds[column.type], "figure", gaps=column.name in GAPS)  # type: ignore[arg-type]
        for column in COLUMNS
    )
    yield DescribedFile(ACCURACY, TITLE, columns, ("geography", "query", "line", "size"))
    if not manifest["plan"]["measures"]:
        block = str(manifest["plan"]["question"]["layout"]["block"])
        roles = (("level", "string"), ("unit", "string"), ("measured", "integer"), (block, "string"))
        units = tuple(DescribedColumn(name, kind, "figure", gaps=name == block) for name, kind in roles)  # type: ignore[arg-type]
        yield DescribedFile(SPINE, "The units that were measured: the spine, as the measurements have it", units)


def verify_accuracy(folder: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """The table made again from plan and public files, and compared in every format."""
    if ACCURACY not in manifest:
        return
    try:
        problem = released_problem(folder, manifest)
    except (ConfideError, ValueError, LookupError, OSError):
        yield Check("accuracy: follows from the plan", False, "schema, frame or spine are not those of the plan")
        return
    method = ReleasedNoise(problem).method
    yield Check("accuracy: the method is named", manifest[ACCURACY]["method"] == method, method)
    expected = accuracy_table(problem, problem.output)
    files = [file["path"] for file in manifest["files"] if file["path"].startswith(f"{ACCURACY}.") and "rows" in file]
    wrong = [path for path in files if not accuracy_rows(folder, {"files": [{"path": path}]}).equals(expected)]
    if not files:
        wrong = ["the files are missing"]
    detail = ", ".join(wrong) or f"{expected.num_rows:,} rows, made again"
    yield Check("accuracy: follows from the plan", not wrong, detail)


def accuracy_rows(folder: Path, manifest: Mapping[str, Any]) -> pa.Table:
    """The table as a release has it, in whichever format."""
    texts = [column.name for column in COLUMNS if pa.types.is_string(column.type)]
    table = released_table(folder, manifest, ACCURACY, texts)
    return table.select(COLUMNS.names).cast(pa.schema([pa.field(column.name, column.type) for column in COLUMNS]))


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
        in_release: Whether the page stands in the release, beside the table.
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
