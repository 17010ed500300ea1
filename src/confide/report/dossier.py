"""The dossier: the curator's report on accuracy. It uses the truth, says so on every page, and must not leave.

Each mechanism has a dossier of its own; what they are given, what they give, and how it is written is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from confide.answers import AnswerPart, ShownTable
from confide.confidential import Confidential
from confide.engines import Engine
from confide.errors import Finding, ParameterError, Place
from confide.file_system import private_folder, write_text
from confide.releases import STAMP, Plan, Progress, Workspace
from confide.releases.folder import REHEARSAL
from confide.report.certificate import risk_pictures

BANNER = "CONFIDENTIAL: uses the truth; must not leave the office"
PAGE, NUMBERS, OVER_KEYS = "dossier-confidential.html", "accuracy-confidential.json", "over-keys-confidential.json"
PAGE_OVER_KEYS = "over-keys-confidential.html"
NOISE_AUDIT = "noise-audit-confidential"
T = TypeVar("T")


@dataclass(frozen=True)
class EvaluatedRun:
    """One of the runs that are evaluated."""

    name: str
    title: str
    workspace: Workspace


@dataclass(frozen=True)
class Evaluating:
    """What an evaluation is given: one or several runs of the same question on the same records."""

    question: Any
    plan: Plan
    runs: tuple[EvaluatedRun, ...]
    engine: Engine
    progress: Progress
    geometry: Mapping[str, Path] = field(default_factory=dict)
    """For each geography that is to be mapped, a GeoJSON file."""


@dataclass(frozen=True)
class Evaluated:
    """The accuracy of a run, or of several, as plain values; and the dossier that shows it. Confidential."""

    accuracy: Confidential[dict[str, Any]]
    dossier: Path


def only_run(asked: Evaluating, refusal: Finding) -> EvaluatedRun:
    """The run of an evaluation that takes one.

    Args:
        asked: What the evaluation is given.
        refusal: What is said to somebody who gives several runs.

    Raises:
        ParameterError: If there are several.
    """
    if len(asked.runs) > 1:
        found = f"{len(asked.runs)} runs"
        raise ParameterError(replace(refusal, where=Place(path="RUN"), found=found, expected="one run"))
    return asked.runs[0]


def reveal(accuracy: Confidential[T]) -> T:
    """The truth of an evaluation, for its dossier alone."""
    return accuracy.reveal("the dossier is the curator's own report on the truth")


def write_dossier(
    asked: Evaluating, accuracy: Confidential[dict[str, Any]], page: Callable[..., str], words: str
) -> Evaluated:
    """Writes the numbers of the only run and the page that shows them; what is returned is confidential again.

    Args:
        asked: What was asked for.
        accuracy: The numbers.
        page: Makes the page of the numbers, the title and the picture of figures of one record.
        words: What such a figure says of somebody.

    Returns:
        The numbers, and where the page is.
    """
    (run,), numbers = asked.runs, reveal(accuracy)
    risks = risk_pictures(numbers["risk_by_area"], asked.question.area_names, asked.geometry, words)
    text = page(numbers, title=run.title, risks=risks)
    return Evaluated(Confidential(numbers), write(run.workspace.dossier, numbers, text))


def write(folder: Path, numbers: Mapping[str, Any], page: str) -> Path:
    """Writes the dossier of a run and its numbers into a folder that only the curator can open."""
    private_folder(folder)
    write_numbers(folder / NUMBERS, numbers)
    write_text(folder / PAGE, page)
    return folder / PAGE


def write_page(folder: Path, name: str, numbers: Mapping[str, Any], page: str) -> Path:
    """Writes a further page of the curator's, ``NAME.html``, and its numbers beside it, ``NAME.json``."""
    private_folder(folder)
    write_numbers(folder / f"{name}.json", numbers)
    write_text(folder / f"{name}.html", page)
    return folder / f"{name}.html"


def write_over_keys(asked: Evaluating, numbers: dict[str, Any], page: str | None = None) -> Evaluated:
    """Writes what several runs of one question come to together, into the dossier of the first; with a page of it, or
    beside the page of that run."""
    folder = asked.runs[0].workspace.dossier
    over_keys = {"runs": [run.name for run in asked.runs]} | numbers
    write_numbers(folder / OVER_KEYS, over_keys, compact=True)
    if page is not None:
        write_text(folder / PAGE_OVER_KEYS, page)
    return Evaluated(Confidential(over_keys), folder / (PAGE if page is None else PAGE_OVER_KEYS))


def stamp_rehearsal(folder: Path) -> None:
    """Says on every page and in all numbers of a dossier that the truth in it is made up."""
    for file in sorted(folder.iterdir()):
        if file.suffix in (".html", ".json"):
            text = file.read_text(encoding="utf-8")
            write_text(file, text.replace(BANNER, f"{STAMP}: {REHEARSAL}"))


def write_numbers(file: Path, numbers: Mapping[str, Any], *, compact: bool = False) -> None:
    """Numbers of an evaluation, under a warning; ``compact`` for the many of several runs."""
    indent, separators = (None, (",", ":")) if compact else (1, None)
    values = {"warning": BANNER} | dict(numbers)
    write_text(file, json.dumps(values, indent=indent, separators=separators, ensure_ascii=False) + "\n")


Numbers = Mapping[str, Any]
MOST_ROWS = 20
"""More rows than this are left to the dossier."""


def headline(
    accuracy: Numbers, title: str, beside: Mapping[str, Mapping[str, float]] | None = None
) -> Iterator[AnswerPart]:
    """How far a count of an area is off, beside what the noise alone would do: everybody, or, where the number of all
    is known, the last kind of the first characteristic. ``beside`` has further columns of errors, by geography."""
    if "suppressed" in accuracy:
        yield from _lost(accuracy["suppressed"], title)
        return
    named, chosen = _shown_rows(accuracy.get("accuracy", []))
    rows = [
        (
            row["geography"],
            f"{row['areas']:,}",
            f"{_mean(row['mean_truth']):,.1f}",
            f"{_mean(row['mean_absolute_error']):,.2f}",
            *(f"{errors[row['geography']]:,.2f}" for errors in (beside or {}).values()),
            f"{_mean(row['noise_alone']['mean_absolute_error']):,.2f}" if row.get("noise_alone") else "-",
        )
        for row in chosen
    ]
    if rows:
        units = f"{accuracy.get('units', 'areas')} "
        columns = [named, units, "mean count ", "mean absolute error ", "by noise alone "]
        if beside:
            columns[3:] = ["mean abs. error ", *(f"{name} " for name in beside), "noise alone "]
        yield ShownTable(columns, rows[:MOST_ROWS], title=title)
        if len(rows) > MOST_ROWS:
            yield f"… and {len(rows) - MOST_ROWS:,} more, which the dossier has."


def _lost(tables: Sequence[Numbers], title: str) -> Iterator[AnswerPart]:
    """What suppression took from each table."""
    rows = [
        (
            row["name"],
            f"{row['cells']:,}",
            f"{row['primary']:,}",
            f"{row['complementary']:,}",
            f"{100 * row['hidden_share']:.1f} %",
            f"{100 * row['hidden_value_share']:.1f} %",
        )
        for row in tables
    ]
    columns = ["table", "cells ", "primary ", "complementary ", "of cells hidden ", "of figures hidden "]
    yield ShownTable(columns, rows[:MOST_ROWS], title=title)
    if len(rows) > MOST_ROWS:
        yield f"… and {len(rows) - MOST_ROWS:,} more, which the dossier has."


def _shown_rows(rows: Sequence[Numbers]) -> tuple[str, list[Numbers]]:
    totals = [row for row in rows if row["query"] == "total"]
    others = [row for row in rows if row["query"] != "total"]
    if not others or any(_mean(row["mean_absolute_error"]) for row in totals):
        return "total", totals
    query = others[0]["query"]
    cell = [row["cell"] for row in others if row["query"] == query][-1]
    return cell, [row for row in others if (row["query"], row["cell"]) == (query, cell)]


def _mean(value: Any) -> float:
    """A number, or the mean of one over several keys."""
    return float(value["mean"] if isinstance(value, Mapping) else value)
