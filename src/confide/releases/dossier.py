"""The dossier: the curator's report on accuracy. It uses the truth, says so on every page, and must not leave.

Each mechanism has a dossier of its own; what they are given, what they give, and how it is written is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from confide.answers import AnswerPart, ShownTable
from confide.arrays import Floats, Integers
from confide.confidential import Confidential
from confide.engines import Engine
from confide.errors import Finding, ParameterError, Place
from confide.file_system import private_folder, write_text
from confide.releases import STAMP, Plan, Progress, Workspace
from confide.releases.folder import REHEARSAL
from confide.releases.tabular import AreaNames
from confide.report import charts, render
from confide.report.charts import MOST_TILES, AreaMeasure, area_maps
from confide.utility import SIZE_CLASSES, ErrorSums

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


_Whole = NDArray[np.int32] | Integers


LONE_SHARE = "share of the figures of one record that are shown as 1, in per cent"


ALIKE = (
    "The promise of the certificate is the same for every record of every area, apart from what is published exactly: "
    "a 1 that is right is so by chance, and the promise bounds what anybody can conclude from it about one record."
)
"""What is said of mechanisms whose privacy loss is certified."""


@dataclass(frozen=True, eq=False)
class _LoneCounts:
    """By area: figures of one record, those of them that are shown as 1, and all figures that are shown as 1."""

    codes: Sequence[str]
    lone: Integers
    shown: Integers
    ones: Integers

    def __repr__(self) -> str:
        return "<confidential>"

    def row(self, area: int | slice = slice(None)) -> dict[str, Any]:
        """The numbers of an area, or of all."""
        lone, shown, ones = (int(np.sum(each[area])) for each in (self.lone, self.shown, self.ones))
        percent = round(100 * shown / lone, 2) if lone else None
        return {"lone": lone, "shown": shown, "published_as_1": ones, "percent": percent}


class LoneFigures:
    """Figures of one record, area by area, and how many of them a release shows as they are. Confidential.

    A figure that counts one record tells everybody who knows that record what is crossed in it, and that nobody else is
    like it. For an area a let C(a) be its figures, each cross-classification once, with true counts t and published
    counts p. The risk of the area is

        R(a) = 100 · #{c in C(a): t_c = 1 and p_c = 1} / #{c in C(a): t_c = 1}.

    It is 100 where nothing is protected, and there is none where nobody is alone. Beside it is how many figures are
    published as 1 in all: #{t_c = p_c = 1} / #{p_c = 1} is how often somebody is right who takes a published 1 for one
    record. R looks at single figures; it is neither a bound nor a promise, and does not replace an attack on all
    figures together (``confide.lab.attacks``).

    Reference: A. Hundepool et al., Handbook on Statistical Disclosure Control, section 5.2, on small counts as unsafe
    cells.
    """

    def __init__(self) -> None:
        self._levels: dict[str, _LoneCounts] = {}
        self._owner: dict[tuple[str, str], str] = {}

    def takes(self, level: str, query: str, table: str) -> bool:
        """Whether figures are looked at here: those of a cross-classification come from the first table that has it."""
        return self._owner.setdefault((level, query), table) == table

    def add(self, level: str, codes: Sequence[str], area: _Whole, true: _Whole, published: _Whole) -> None:
        """Adds figures of areas of a level.

        Args:
            level: The level.
            codes: The codes of its areas.
            area: For each figure the place of its area among the codes.
            true: What the records say.
            published: What the release says; any other number than 1 where it says nothing.
        """
        if level not in self._levels:
            self._levels[level] = _LoneCounts(codes, *(np.zeros(len(codes), np.int64) for _ in range(3)))
        # In place: figures of millions of areas come in thousands of parts.
        counts, alone, one = self._levels[level], true == 1, published == 1
        np.add.at(counts.lone, area[alone], 1)
        np.add.at(counts.shown, area[alone & one], 1)
        np.add.at(counts.ones, area[one], 1)

    def as_dict(self, geometry: Mapping[str, Path]) -> dict[str, Any]:
        """Plain numbers: of each level, and of its areas where they are few, or have outlines to be drawn."""
        levels = []
        for level, counts in self._levels.items():
            each: list[dict[str, Any]] | None = None
            if len(counts.codes) <= MOST_TILES or level in geometry:
                each = [{"area": code} | counts.row(place) for place, code in enumerate(counts.codes)]
            levels.append({"level": level, "areas": len(counts.codes)} | counts.row() | {"by_area": each})
        return {"what": LONE_SHARE, "levels": levels}


def risk_pictures(
    risk: Mapping[str, Any],
    names: AreaNames | None,
    geometry: Mapping[str, Path],
    words: str,
    levels: Collection[str] | None = None,
) -> dict[str, Any]:
    """What the page shows of :class:`LoneFigures`: a line for each level, and a picture where there are few areas.

    Args:
        risk: Its numbers.
        names: What areas are called.
        geometry: By level a GeoJSON file.
        words: What the numbers mean for this mechanism.
        levels: Those that have pictures; by default all.
    """
    drawn = [row for row in risk["levels"] if row["by_area"] and (levels is None or row["level"] in levels)]
    listed = {row["level"]: {each["area"]: each for each in row["by_area"]} for row in drawn}
    shares = {level: {code: each["percent"] for code, each in areas.items()} for level, areas in listed.items()}
    called = {} if names is None else {level: dict(zip(*pair, strict=True)) for level, pair in names.levels.items()}
    outlines = {level: file for level, file in geometry.items() if level in shares}
    maps = area_maps(AreaMeasure(risk["what"], shares, called, (0.0, 100.0)), outlines)
    for each in maps:
        rows = list(listed[each["level"]].values())[: len(each["rows"])]
        each["more"] = [(row["lone"], row["shown"], row["published_as_1"]) for row in rows]
    return {"levels": risk["levels"], "maps": maps, "words": words}


class AreaSums:
    """Adds up numbers of areas, level by level, for a mean over the figures of each."""

    def __init__(self) -> None:
        self._levels: dict[str, tuple[Sequence[str], Floats, Floats]] = {}

    def add(
        self, level: str, codes: Sequence[str], area: Integers, numbers: Floats | Integers, figures: int | None = None
    ) -> None:
        """Adds numbers of areas of a level.

        Args:
            level: The level.
            codes: The codes of its areas.
            area: For each number the place of its area among the codes.
            numbers: What is added up.
            figures: Of how many figures each area has numbers here; by default as many as there are.
        """
        nothing = np.zeros(len(codes))
        _, sums, counts = self._levels.get(level, (codes, nothing, nothing))
        each = np.bincount(area, minlength=len(codes)) if figures is None else np.full(len(codes), figures)
        added: Floats = np.bincount(area, numbers, len(codes)).astype(np.float64)
        self._levels[level] = (codes, sums + added, counts + each)

    def measure(self, what: str, names: AreaNames | None) -> AreaMeasure:
        """The mean of each area; none where it has no figure."""
        levels = {}
        for level, (codes, sums, counts) in self._levels.items():
            pairs = zip(sums.tolist(), counts.tolist(), strict=True)
            means = [round(total / number, 2) if number else None for total, number in pairs]
            levels[level] = dict(zip(codes, means, strict=True))
        listed = {} if names is None else names.levels
        return AreaMeasure(what, levels, {level: dict(zip(*pair, strict=True)) for level, pair in listed.items()})


# Released counts beside true ones, and beside what their noise promises: a dossier for counts with noise of their own.
# Confidential.


DEFAULT_MARGIN = Fraction(19, 20)
FIXED = frozenset({"cells", "noise_margin", "promised_share_within_margin", "promised_root_mean_squared_error"})
"""Names of what is the same for every key."""


@dataclass(frozen=True)
class CellErrors:
    """The error of the cells of one margin of one table on one level, whose true counts are of one size class."""

    table: str
    level: str
    query: str
    size_class: str
    margin: int
    promised_within: float
    promised_error: float
    sums: ErrorSums

    def as_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "level": self.level,
            "query": self.query,
            "true_size": self.size_class,
            "noise_margin": self.margin,
            "promised_share_within_margin": self.promised_within,
            "promised_root_mean_squared_error": self.promised_error,
        } | self.sums.as_dict()


def page_of_cells(
    rows: Sequence[CellErrors],
    levels: Sequence[str],
    title: str,
    maps: list[dict[str, Any]],
    risks: dict[str, Any],
    unit: str = "persons",
) -> str:
    """The page of a dossier: the errors of all counts, by table and level, and by their true size.

    Args:
        rows: The errors.
        levels: The levels in order.
        title: What the release is called.
        maps: Pictures of areas.
        risks: The picture of figures of one record.
        unit: What is counted.
    """
    by_level = [
        _summary(part) | {"table": table, "level": level}
        for (table, level), part in _grouped(rows, lambda row: (row.table, row.level)).items()
    ]
    order = [label for label, _, _ in SIZE_CLASSES]
    by_size = [
        _summary(part) | {"level": level, "size": size}
        for (level, size), part in sorted(
            _grouped(rows, lambda row: (row.level, row.size_class)).items(),
            key=lambda item: (levels.index(item[0][0]), order.index(item[0][1])),
        )
    ]
    return render(
        "dossier.html.j2",
        title=title,
        banner=BANNER,
        overall=_summary(rows),
        levels=by_level,
        sizes=by_size,
        figures=_figures(by_level, by_size, list(levels), order) if charts.available() else [],
        maps=maps,
        risks=risks,
        unit=unit,
    )


def _figures(
    by_level: list[dict[str, Any]], by_size: list[dict[str, Any]], levels: list[str], order: list[str]
) -> list[dict[str, str]]:
    within = [_within(row) for row in by_level]
    lowest = min(min(row["within"], row["low"]) for row in within)
    shares = charts.chart(
        "tables-share-within-margin", within, lowest=max(0.0, lowest - 0.01), height=max(120, 26 * len(within))
    )
    return [
        {
            "svg": charts.chart("tables-error-by-size", by_size, levels=levels, sizes=order).svg(),
            "caption": "Error by the true count. It does not grow with the count.",
        },
        {
            "svg": charts.chart("tables-relative-error-by-size", by_size, levels=levels, sizes=order).svg(),
            "caption": "The same error as a percentage of the true count: small for large counts, large for small.",
        },
        {
            "svg": shares.svg(),
            "caption": "Share of counts within their noise margin (dots) and what the noise promises (bars).",
        },
    ]


def _within(row: dict[str, Any]) -> dict[str, Any]:
    """The share of a table on a level that is within the margin, and where it falls in 19 of 20 cases."""
    promised, cells = row["promised"], row["cells"]
    half = 2 * (promised * (1 - promised) / cells) ** 0.5 if cells else 0.0
    return {
        "name": f"{row['table']}, {row['level']}",
        "within": row["share_within_margin"],
        "promised": promised,
        "low": promised - half,
        "high": min(1.0, promised + half),
    }


def _grouped(rows: Sequence[CellErrors], key: Callable[[CellErrors], Hashable]) -> dict[Any, list[CellErrors]]:
    groups: dict[Any, list[CellErrors]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _summary(rows: Sequence[CellErrors]) -> dict[str, Any]:
    sums = ErrorSums()
    for row in rows:
        sums = sums + row.sums
    relative = 100 * sums.mean_absolute_error / sums.mean_truth if sums.mean_truth else None
    return sums.as_dict() | {
        "promised": sum(row.promised_within * row.sums.cells for row in rows) / sums.cells,
        "promised_error": (sum(row.promised_error**2 * row.sums.cells for row in rows) / sums.cells) ** 0.5,
        "relative_number": relative,
        "relative": "–" if relative is None else f"{relative:,.1f} %",
    }
