"""Model-based estimates from a release alone: whole counts of zero or more and possible averages, with 90 % intervals.

This is post-processing, and costs nothing. The files are those of the Census Bureau's programs after PHSafe: counts
``PH2``, ``PH3``, ``PH4``, ``PH6`` and ``PH7``, averages ``PH1``, ``PH5`` and ``PH8``, for the nation and for states.
See :mod:`confide.mechanisms.phsafe.models`.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from confide.answers import AnswerPart, TypedAnswer
from confide.errors import Place, ReleaseError, RunError
from confide.file_system import write_text
from confide.mechanisms.phsafe.layout import Counts, PlannedQuery, ReleaseLayout, matrix
from confide.mechanisms.phsafe.models import (
    NoisyValue,
    PosteriorRatio,
    posterior_of_sum,
    ratio_alone,
    ratio_of_part,
    ratio_of_sum,
    truncated,
)
from confide.mechanisms.phsafe.output import read_counts
from confide.mechanisms.phsafe.settings import NATION, STATE, AverageTable, CountTable, table
from confide.mechanisms.safetab.settings import PUERTO_RICO
from confide.releases import SealedRelease, no_room_is_an_error

COUNT_TABLES = ("PH2", "PH3", "PH4", "PH6", "PH7")
LEVEL_NAMES = {NATION: "nation", STATE: "state"}
MARGIN = 1.6449
"""Standard deviations of the margin of a noisy figure at 90 %."""
GROUP = ("GEOID", "REGION_TYPE", "ITERATION_CODE", "DATA_CELL")
COUNT_COLUMNS = (*GROUP, "COUNT_NOISY", "VARIANCE", "MOE_NOISY", "PRED", "PRED_LO", "PRED_HI")
NUMERATOR = ("COUNT_NOISY_NUM", "VARIANCE_NUM", "MOE_NOISY_NUM")
DENOMINATOR = ("COUNT_NOISY_DENOM", "VARIANCE_DENOM", "MOE_NOISY_DENOM")
RATIO_COLUMNS = (
    *GROUP, *NUMERATOR, *DENOMINATOR, "RATIO_NOISY", "RATIO_PRED", "PRED_NUM", "PRED_DENOM", "RATIO_PRED_LO",
    "RATIO_PRED_HI",
)  # fmt: skip
ALONE_COLUMNS = (*GROUP, *DENOMINATOR, *NUMERATOR, "RATIO_NOISY", "RATIO_PRED", "RATIO_PRED_LO", "RATIO_PRED_HI")
BY_TENURE = "PH8"
"""The averages whose cells are estimated one by one."""

Row = Sequence[Any]


@dataclass(frozen=True)
class HouseholdEstimates(TypedAnswer):
    """The files that were written."""

    folder: Path
    rows: Mapping[str, int]
    """By file the number of its rows."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"ok": True, "folder": str(self.folder), "rows": dict(self.rows)}

    def described(self) -> Iterator[AnswerPart]:
        for name, rows in self.rows.items():
            yield f"{name}  {rows:,} rows"
        yield f"estimates {self.folder}"


def estimate_release(release: Path, *, out: Path | None = None) -> HouseholdEstimates:
    """Estimates of the counts and averages of a release of PHSafe, made of nothing but the release.

    Args:
        release: The folder of the release, or of its run.
        out: A new folder for the estimates; default: beside the release, with ``-estimates`` after its name.

    Returns:
        The files, and how many rows each has.
    """
    sealed = SealedRelease.of(release)
    if sealed.manifest["mechanism"] != "phsafe":
        raise ReleaseError("not-households", where=Place(file=str(release)), found=str(sealed.manifest["mechanism"]))
    folder = out or sealed.folder.with_name(f"{sealed.folder.name}-estimates")
    if folder.exists():
        raise RunError("there-already/ours", where=Place(file=str(folder)))
    sealed.require_unchanged(*(f"{each.name}/" for each in ReleaseLayout.of(sealed.manifest["plan"]).shown))
    try:
        layout, counts = read_counts(sealed)
    except LookupError as error:
        raise ReleaseError("not-as-planned/tables", where=Place(file=str(error.args[0]))) from None
    rows = {}
    with no_room_is_an_error(folder):
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, columns, estimates in _files(layout, counts, "stamp" in sealed.manifest):
            lines = [_line(row) for row in estimates]
            write_text(partial / name, "\n".join([_line(columns), *lines]) + "\n", mode=0o644)
            rows[name] = len(lines)
        partial.replace(folder)
    return HouseholdEstimates(folder, rows)


def _line(row: Row) -> str:
    return "|".join(f"{each:.10g}" if isinstance(each, float) else str(each) for each in row)


def _files(layout: ReleaseLayout, counts: Counts, stamped: bool) -> Iterator[tuple[str, Sequence[str], Iterator[Row]]]:
    """Name, columns and rows of every file."""
    island = "PR_" if layout.states == (PUERTO_RICO,) else ""
    stamp = ".NOT-FOR-RELEASE" if stamped else ""
    for level, word in LEVEL_NAMES.items():
        ending = f"_{island}{word}_trunc_normal{stamp}.csv"
        for counted in layout.shown:
            if counted.name in COUNT_TABLES and layout.of_table(counted, level):
                yield counted.name + ending, COUNT_COLUMNS, estimated_counts(layout, counted, level, counts)
        for average in layout.averages:
            if layout.pairs(average, level):
                columns = ALONE_COLUMNS if average.name == BY_TENURE else RATIO_COLUMNS
                yield average.name + ending, columns, estimated_averages(layout, average, level, counts)


def _groups(layout: ReleaseLayout, level: str, query: PlannedQuery) -> Iterator[tuple[int, int, Row]]:
    """Area and iteration by their places, and what a row says of them."""
    for at, area in enumerate(layout.areas(level)):
        for place, each in enumerate(query.iterations):
            yield at, place, (area.zfill(2), level, each.code)


def estimated_counts(layout: ReleaseLayout, counted: CountTable, level: str, counts: Counts) -> Iterator[Row]:
    """The rows of a table of counts: sums are sums of whole estimates, with intervals of their own."""
    sums = matrix(counted, counted.cells).astype(bool)
    for query in layout.of_table(counted, level):
        variance = query.variance(1)
        for at, place, group in _groups(layout, level, query):
            noisy = counts[query.key][at, place].astype(np.float64)
            rounded = np.array([round(mean) for mean in truncated(noisy, np.full(len(noisy), variance)).tolist()])
            for cell, chosen in zip(counted.cells, sums, strict=True):
                draws = int(chosen.sum())
                posterior = posterior_of_sum(noisy[chosen].tolist(), [variance] * draws)
                estimate = int(rounded[chosen].sum())
                ends = math.floor(posterior.low), math.ceil(posterior.high)
                yield (
                    *group,
                    cell.code,
                    *_noisy(NoisyValue(float(noisy[chosen].sum()), draws * variance)),
                    estimate,
                    *ends,
                )


def _noisy(value: NoisyValue) -> tuple[int, float, float]:
    """A noisy count, its variance and its margin."""
    return int(value.value), value.variance, MARGIN * value.variance**0.5


def estimated_averages(layout: ReleaseLayout, average: AverageTable, level: str, counts: Counts) -> Iterator[Row]:
    """The rows of a table of averages."""
    above, below = table(average.numerator), table(average.denominator)
    on_top, shown = matrix(above, above.cells), {cell.code: cell for cell in below.cells}
    under = matrix(below, [shown[average.denominator_cell(cell.code)] for cell in above.cells])
    for query, other in layout.pairs(average, level):
        for at, place, group in _groups(layout, level, query):
            people = _values(on_top, counts[query.key][at, place], query)
            units = _values(under, counts[other.key][at, place], other)
            for number, cell in enumerate(above.cells):
                one, below_it = people[number], units[number]
                noisy = one.value / below_it.value if below_it.value else math.nan
                if average.name == BY_TENURE:
                    alone = ratio_alone(one, below_it, average.least)
                    yield (*group, cell.code, *_noisy(below_it), *_noisy(one), noisy, alone.mean, alone.low, alone.high)
                    continue
                ratio = _with_parts(people, number, below_it, float(average.least))
                means = ratio.mean, ratio.numerator, ratio.denominator
                yield (*group, cell.code, *_noisy(one), *_noisy(below_it), noisy, *means, ratio.low, ratio.high)


def _with_parts(people: Sequence[NoisyValue], cell: int, units: NoisyValue, least: float) -> PosteriorRatio:
    """The average of all people, or of those of one of the two ages."""
    _, first, second = people
    if cell == 0:
        return ratio_of_sum((first, second), units, least)
    return ratio_of_part(people[cell], second if cell == 1 else first, units, least)


def _values(sums: Any, measured: Any, query: PlannedQuery) -> list[NoisyValue]:
    """The noisy cells of a group, with their variances."""
    draws = sums.sum(axis=1).tolist()
    return [NoisyValue(float(value), query.variance(each)) for value, each in zip(sums @ measured, draws, strict=True)]
