"""The tables of a release: every cell with its figure, or without one where it is suppressed; and what is said of them.

Every cell is listed, zeros too. A suppressed cell has no figure and the status ``suppressed``; why it is suppressed is
not said, and must not be: which cells are primary is part of what is protected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.mechanisms.suppression.joint import joint_in_words
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, described, unit_of
from confide.mechanisms.suppression.spec import figure_type, published_figures, units_of
from confide.mechanisms.suppression.structure import ROOT, Flags
from confide.mechanisms.suppression.variables import Variable
from confide.messages import Messages, messages
from confide.releases.companions import Codebook, CodeHierarchy, DescribedTable, asked
from confide.releases.figure_noise import Draw
from confide.releases.folder import rehearsal_banner
from confide.releases.plan import Explanation, Plan, in_plural
from confide.releases.tabular import (
    COUNT,
    PUBLISHED,
    STATUS,
    SUPPRESSED,
    TOTAL_CODE,
    UnlikePlanError,
    figure_column,
    text_column,
)
from confide.report.certificate import messages_of
from confide.report.render import render

ONE = Fraction(1)
VALUE = "value"


def described_table(
    table: HierarchicalTable, *, magnitude: bool, unit: Fraction = ONE, hierarchies: bool = False
) -> DescribedTable:
    """The table as it is published; with the ``hierarchies`` of its codes for those who explain it."""
    what = "the sum of the records' values" if magnitude else "records"
    description = f"{what}; empty where suppressed"
    figures = (
        figure_column(VALUE if magnitude else COUNT, description, figure_type(unit), gaps=True),
        text_column(STATUS, f"{PUBLISHED} or {SUPPRESSED}"),
    )
    listed = hierarchies_of(table) if hierarchies else {}
    return DescribedTable(table.name, table.title, table.coded, figures, tuple(table.levels), listed)


def table_rows(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, *, magnitude: bool, unit: Fraction = ONE
) -> Iterator[pa.RecordBatch]:
    """The rows of a table; ``figures``, in units, and ``suppressed`` are those of its layout's cells."""
    labels, cells = table.lines
    columns = [text_column(name, "") for name in table.columns]
    schema = pa.schema([*columns, *described_table(table, magnitude=magnitude, unit=unit).figures])
    keys = [pa.array([label[at] for label in labels], pa.string()) for at in range(len(columns))]
    status = pa.array(np.where(suppressed[cells], SUPPRESSED, PUBLISHED).tolist(), pa.string())
    values = published_figures(figures[cells], unit, suppressed[cells])
    yield pa.RecordBatch.from_arrays([*keys, values, status], schema=schema)


def read_table(
    path: Path, format_: str, table: HierarchicalTable, *, magnitude: bool, unit: Fraction = ONE
) -> tuple[Integers, Flags]:
    """The figures, in units, and flags of a written table, for the cells of its structure; cells that are not listed
    are suppressed.

    Raises :class:`UnlikePlanError`.
    """
    rows = described_table(table, magnitude=magnitude, unit=unit).read(path, format_)
    labels, cells = table.lines
    if rows.num_rows != len(labels):
        raise UnlikePlanError("there are more rows, or fewer, than the table has cells")
    for at, name in enumerate(table.columns):
        if rows.column(name).to_pylist() != [label[at] for label in labels]:
            raise UnlikePlanError(f"{name} does not have the labels of the plan in their order")
    status = np.array(rows.column(STATUS).to_pylist(), object)
    if not np.isin(status, [PUBLISHED, SUPPRESSED]).all():
        raise UnlikePlanError("a status is none that a cell can have")
    column = rows.column(len(table.columns))
    figure = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    absent: Flags = np.asarray(figure.is_null().to_numpy(zero_copy_only=False), np.bool_)
    if not np.array_equal(absent, status == SUPPRESSED):
        raise UnlikePlanError("a cell is suppressed and has a figure, or is published and has none")
    values = units_of(figure, unit)
    if values is None:
        raise UnlikePlanError("a figure is no multiple of the unit")
    figures, suppressed = np.zeros(table.layout.cells, np.int64), np.ones(table.layout.cells, np.bool_)
    figures[cells], suppressed[cells] = values, absent
    # Areas may stand on two levels: both rows are one cell.
    if not (np.array_equal(figures[cells], values) and np.array_equal(suppressed[cells], absent)):
        raise UnlikePlanError("one cell that stands in two rows has two figures")
    return figures, suppressed


# What is said to the readers of a release.


PROTECTION = (
    "Some figures are left out, so that small ones cannot be worked out from the others. The statement says what this "
    "promises, and what it does not."
)
NOTES = (
    f"status is {PUBLISHED!r} or {SUPPRESSED!r}. A suppressed figure is left out: it is unknown, and it is not zero.",
    "Published figures are exact. Cells add up to their totals where all of them are published; where one is "
    "suppressed, take the total from the table.",
    "Whether a figure is suppressed for its own sake or to protect another one is not said.",
)
SHARED_NOTE = (
    "Where a column has groups of several groupings, margin names the finest that a group belongs to; a group that two "
    "groupings have in common is listed once, under the finer."
)
VALUE_NOTE = "value is the sum of what the records say, and not a number of records."
WEIGHT_NOTE = "Values are weighted: a record counts its weight times its value."


def codebook(question: Mapping[str, Any]) -> Codebook:
    """What the tables of a release hold."""
    programme, magnitude = described(question), question["value"] is not None
    unit = unit_of(question)
    tables = tuple(
        described_table(table, magnitude=magnitude, unit=unit, hierarchies=True) for table in programme.tables
    )
    notes = [*NOTES, *([VALUE_NOTE] if magnitude else []), *([WEIGHT_NOTE] if question.get("weight") else [])]
    if any(len(variable.kinds) > 1 for table in tables for variable in table.columns.variables):
        notes.append(SHARED_NOTE)
    formats, agency = asked(question)
    levels = {level: len(codes) for level, codes in programme.areas}
    return Codebook(tables, levels, formats, agency, PROTECTION, tuple(notes))


def hierarchies_of(table: HierarchicalTable) -> dict[str, CodeHierarchy]:
    """Of every column of a table the hierarchy that has most of the codes that the table lists."""
    return {
        variable.name: _hierarchy(variable, names)
        for variable, names in zip(table.variables, table.listed, strict=True)
    }


def _hierarchy(variable: Variable, names: Sequence[str]) -> CodeHierarchy:
    entries, kept = variable.entries(names), variable.kept(names).tolist()
    places = {at for _, _, at in entries}
    way = max(variable.cut(names).hierarchies, key=lambda each: sum(each[at] >= 0 for at in places))
    if variable.areas:
        times = Counter(label for label, _ in {(label, at) for _, label, at in entries})
        text = {at: label if times[label] == 1 else f"{level} {label}" for level, label, at in reversed(entries)}
        keys: list[tuple[tuple[str, ...], int]] = [((level, label), at) for level, label, at in entries]
    else:
        assert variable.published is not None
        codes = variable.published.codes
        text = {at: codes[kept[at]] for _, _, at in entries}
        keys = [((text[at],), at) for _, _, at in entries]
    listed = {at for at in text if at == ROOT or way[at] >= 0}
    parent = {}
    for at in sorted(listed - {ROOT}):
        above = way[at]
        while above != ROOT and above not in listed:
            above = way[above]
        parent[text[at]] = text.get(above, TOTAL_CODE)
    return CodeHierarchy({key: text[at] for key, at in keys if at in listed}, parent, text.get(ROOT, TOTAL_CODE))


@dataclass(frozen=True)
class ExactFigures:
    """That published figures have no noise: what a sum of them is off by is nothing."""

    figure: str
    note: str = "exact"

    def draws(self, table: str, row: Mapping[str, Any]) -> Sequence[Draw]:  # noqa: ARG002 - the same of every row
        """No noise."""
        return ()


def figure_noise(question: Mapping[str, Any]) -> ExactFigures:
    """What is known of the noise of figures: there is none."""
    return ExactFigures(COUNT if question["value"] is None else VALUE)


class SuppressionExplained(Explanation):
    """What releases with suppressed cells say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:
        return codebook(manifest["plan"]["question"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> ExactFigures:
        return figure_noise(manifest["plan"]["question"])

    def contents(self, plan: Plan) -> str:
        extent = suppression_sizes(described(plan.question))
        return f"{in_plural(extent['tables'], 'table')} of {extent['cells']:,} distinct cells, without what discloses"


# What can be said of a release by cell suppression, in words.


def in_words(text: Messages | None = None) -> list[str]:
    """What is promised and what is not."""
    m = text or messages()
    return [m.text(f"suppression.words_{part}") for part in ("hidden", "no_dp", "secret")]


def rules_in_words(question: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """The primary rules of a plan, one sentence each."""
    m, part = text or messages(), question["suppression"]
    sentences = []
    if part["threshold"] is not None:
        key = "suppression.rule_threshold_contributors" if question["value"] else "suppression.rule_threshold"
        least = 0 if part["zeros"] == "primary" else 1
        sentences.append(m.text(key, least=least, threshold=part["threshold"]))
    if part["dominance"] is not None:
        sentences.append(m.counted("suppression.rule_dominance", part["dominance"]["n"], k=part["dominance"]["k"]))
    if part["p"] is not None and part["q"] is None:
        sentences.append(m.text("suppression.rule_p", p=part["p"]))
    if part["q"] is not None:
        sentences.append(m.text("suppression.rule_pq", p=part["p"], q=part["q"]))
    given = question.get("given", {})
    if given.get("statuses"):
        sentences.append(m.text("suppression.rule_given"))
    if given.get("levels"):
        sentences.append(m.text("suppression.rule_levels"))
    return sentences


def protection_in_words(question: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """How primary cells are protected, one sentence each."""
    m, part = text or messages(), question["suppression"]
    sentences = []
    if part["threshold"] is not None and not question["value"]:
        threshold = part["threshold"]
        sentences.append(m.text("suppression.protect_count", next=threshold + 1, threshold=threshold))
        if part["lower"]:
            sentences.append(m.text("suppression.protect_below", lower=part["lower"]))
    if question["value"]:
        sentences.append(m.text("suppression.protect_value"))
        if part["threshold"] is not None:
            sentences.append(m.text("suppression.protect_few", range=part["range"]))
        sentences += _of_values(question, m)
    sentences.append(m.text(f"suppression.zeros_{part['zeros']}"))
    if question.get("insiders"):
        sentences.append(m.text("suppression.insiders"))
    elif part["singletons"]:
        sentences.append(m.text("suppression.singletons"))
    if question.get("unions"):
        sentences.append(m.text("suppression.unions"))
    return sentences + joint_in_words(question.get("joint"), m)


def _of_values(question: Mapping[str, Any], m: Messages) -> list[str]:
    """What is declared of values, weights and contributors."""
    sentences = []
    if question.get("contributor"):
        sentences.append(m.text("suppression.contributor", column=question["contributor"]))
    if question.get("weight"):
        sentences.append(m.text("suppression.weight", column=question["weight"]))
    if question.get("below_zero"):
        sentences.append(m.text("suppression.below_zero", least=question["below_zero"]))
    if question.get("unit"):
        sentences.append(m.text("suppression.unit", unit=question["unit"]))
    return sentences


# The statement of a release from which cells are left out: it certifies no loss, and says what holds instead. Made
# from the manifest alone.


def suppression_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question, text = manifest["plan"]["question"], messages_of(manifest)
    programme = described(question)
    return render(
        "suppression.html.j2",
        text.language,
        title=text.text("page.title_statement", title=manifest["title"]),
        banner=rehearsal_banner(manifest),
        manifest=manifest,
        words=in_words(text),
        rules=rules_in_words(question, text),
        protection=protection_in_words(question, text),
        part=question["suppression"],
        magnitude=question["value"],
        insiders=question.get("insiders", False),
        sizes=suppression_sizes(programme),
        tables=[_row(table) for table in programme.tables],
        totals=[TOTAL_CODE],
    )


def suppression_sizes(programme: SuppressionProgramme) -> dict[str, int]:
    """How large the tables are: how many, their rows, and the distinct cells behind these."""
    return {
        "tables": len(programme.tables),
        "rows": sum(len(table.lines[0]) for table in programme.tables),
        "cells": int(programme.linked.listed.sum()),
        "sums": programme.linked.structure.rows,
    }


def _row(table: HierarchicalTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "variables": [
            f"{variable.name if variable.given else ' > '.join(names)} ({sum(variable.listed(names)):,})"
            for variable, names in zip(table.variables, table.listed, strict=True)
        ],
        "rows": len(table.lines[0]),
    }
