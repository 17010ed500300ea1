"""What is said to the readers of a release by cell keys: what its columns hold, and the noise of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.mechanisms.cellkey.output import FigureColumns
from confide.mechanisms.cellkey.programme import describe
from confide.releases.companions import Codebook, DescribedTable, GivenColumns, asked

PROTECTION = (
    "Each figure is perturbed by the cell key method, always by the same amount for the same members. The statement "
    "says what this promises, and what it does not."
)
NOTES = (
    "Cells that are not listed are published as zero.",
    "Figures do not add up: each has noise of its own, totals too. Take totals from the table; do not add cells up.",
)
GIVEN_NOTE = "The codes are those that the office counted by; totals are rows like others."
BOUND_NOTE = "No count is further than {} from the true one."
THRESHOLD_NOTE = "Counts that come out below {:,} are published as zero."


def codebook(question: Mapping[str, Any]) -> Codebook | None:
    """What the tables of a release hold; none in the first layout."""
    stated = asked(question)
    if stated is None:
        return None
    described = describe(question)
    decimals = None if described.magnitude is None else described.magnitude["decimals"]
    figures = FigureColumns(described.weighted and decimals is None, decimals).plain()
    tables = tuple(DescribedTable.of(table, figures) for table in described.tables)
    tables += tuple(
        DescribedTable(table.name, table.title, GivenColumns(table.variables), tuple(figures))
        for table in described.given
    )
    notes = [*NOTES, *([GIVEN_NOTE] if described.given else ())]
    if described.magnitude is None and not described.threshold:
        notes.append(BOUND_NOTE.format(described.largest_noise))
    elif described.threshold:
        notes.append(THRESHOLD_NOTE.format(described.threshold))
    formats, agency = stated
    return Codebook(tables, described.units, formats, agency, PROTECTION, tuple(notes))


def figure_noise(manifest: Mapping[str, Any]) -> str:
    """Why a sum has no margin: which cells count the very same people, and so have the same noise, is not published."""
    question = manifest["plan"]["question"]
    if question.get("magnitude") is not None:
        return "the noise of values depends on their largest contributions, which are secret"
    largest = Fraction((question["ptable"] or {"D": "0"})["D"])
    if question["threshold"]:
        return "counts below the threshold are published as zero"
    return f"cells with the same members have the same noise; each figure is at most {largest} off"
