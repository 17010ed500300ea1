"""What is said to the readers of a release of tables: what its columns hold, and the noise of each of its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confide.mechanisms.tables.programme import figure_columns
from confide.noise import ReleaseNoise
from confide.releases.companions import Codebook, DescribedTable, asked
from confide.releases.figure_noise import Draw
from confide.releases.plan import read_plan
from confide.releases.tabular import AREA, COUNT, LEVEL, SECOND, Margin, Table

PROTECTION = (
    "Every count has random noise of its own. The certificate states what this promises to everybody in the data."
)
NOTES = (
    "Counts may be below zero: that is noise, and it averages out when counts are added. Do not set them to zero.",
    "Totals, sub-totals and cells were measured one by one, each with noise of its own, so totals differ from the sums "
    "of their cells.",
    "variance is the variance of the noise of a count. The noise of a sum of different counts has the sum of their "
    "variances; its margin at 95 % is about 1.96 times the square root. Margins themselves must not be added.",
)
MARGIN_NOTE = "noise_margin: the noise is at most this far from zero, above or below, with a probability of {}."
POOLED_NOTE = (
    "A count that several tables have is one and the same measurement, with the same noise: do not add it up twice."
)


def codebook(question: Mapping[str, Any]) -> Codebook | None:
    """What the tables of a release hold; none in the first layout."""
    stated = asked(question)
    if stated is None:
        return None
    probability = question["noise_margin"]
    figures = figure_columns(probability, SECOND)
    tables = tuple(DescribedTable.of(Table.read(values), figures) for values in question["tables"])
    keys = [(level, key) for t in question["tables"] for key in Table.measurements(t).values() for level in t["levels"]]
    notes = [*NOTES, *([] if probability is None else [MARGIN_NOTE.format(probability)])]
    notes += [POOLED_NOTE] if len(set(keys)) < len(keys) else []
    formats, agency = stated
    return Codebook(tables, question["levels"], formats, agency, PROTECTION, tuple(notes))


@dataclass(frozen=True, eq=False)
class MeasuredNoise:
    """The noise of the counts of a release: which measurement a row shows, and its law."""

    tables: Mapping[str, tuple[Table, Mapping[str, str]]]
    """By name the table, and for each of its margins the measurement."""
    laws: Mapping[tuple[str, str], ReleaseNoise]
    """By level and measurement."""
    figure: str = COUNT

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> MeasuredNoise:
        """That of a release, from its plan."""
        plan = read_plan(manifest["plan"])
        tables = {
            values["name"]: (Table.read(values), Table.measurements(values)) for values in plan.question["tables"]
        }
        return cls(tables, {(measure.level, measure.query): measure.law for measure in plan.measures})

    def draw(self, table: str, row: Mapping[str, Any]) -> Draw:
        """One for each measurement, area and cell: tables that show the same measurement have the same draw."""
        layout, measurements = self.tables[table]
        kept = tuple(each for each in layout.variables if row[each.column] != layout.total_label)
        for variable in kept:
            if row[variable.column] not in (variable.codes or variable.labels):
                raise LookupError(variable.column)
        measurement = measurements[Margin(kept).name]
        cell = tuple(row[variable.column] for variable in kept)
        return Draw((row[LEVEL], measurement, row[AREA], cell), self.laws[row[LEVEL], measurement])

    def draws(self, table: str, row: Mapping[str, Any]) -> Sequence[Draw]:
        """That of the row: every count was measured by itself."""
        return [self.draw(table, row)]
