"""The tables of a release: every cell with its figure, or without one where it is suppressed; and what is said of them.

Every cell is listed, zeros too. A suppressed cell has no figure and the status ``suppressed``; why it is suppressed is
not said, and must not be: which cells are primary is part of what is protected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from confide.arrays import Floats, Integers
from confide.errors import ConfideError
from confide.mechanisms.suppression.attacker import TOLERANCE, Attacker
from confide.mechanisms.suppression.joint import joint_in_words
from confide.mechanisms.suppression.problem import step_of
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, described, unit_of
from confide.mechanisms.suppression.spec import figure_type, published_figures, units_of
from confide.mechanisms.suppression.structure import ROOT, Flags, Structure
from confide.mechanisms.suppression.variables import Variable
from confide.messages import Messages, messages
from confide.releases import Check, Draw, Explanation, Plan, SealedRelease, in_plural, rehearsal_banner, tabular
from confide.releases.tabular import PUBLISHED, SUPPRESSED, asked
from confide.report.rendering import messages_of, render

ONE = Fraction(1)
VALUE = "value"


def described_table(
    table: HierarchicalTable, *, magnitude: bool, unit: Fraction = ONE, hierarchies: bool = False
) -> tabular.DescribedTable:
    """The table as it is published; with the ``hierarchies`` of its codes for those who explain it."""
    what = "the sum of the records' values" if magnitude else "records"
    description = f"{what}; empty where suppressed"
    figures = (
        tabular.figure_column(VALUE if magnitude else tabular.COUNT, description, figure_type(unit), gaps=True),
        tabular.text_column(tabular.STATUS, f"{PUBLISHED} or {SUPPRESSED}"),
    )
    listed = hierarchies_of(table) if hierarchies else {}
    return tabular.DescribedTable(table.name, table.title, table.coded, figures, tuple(table.levels), listed)


def table_rows(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, *, magnitude: bool, unit: Fraction = ONE
) -> Iterator[pa.RecordBatch]:
    """The rows of a table; ``figures``, in units, and ``suppressed`` are those of its layout's cells."""
    labels, cells = table.lines
    columns = [tabular.text_column(name, "") for name in table.columns]
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
        raise tabular.UnlikePlanError("there are more rows, or fewer, than the table has cells")
    for at, name in enumerate(table.columns):
        if rows.column(name).to_pylist() != [label[at] for label in labels]:
            raise tabular.UnlikePlanError(f"{name} does not have the labels of the plan in their order")
    status = np.array(rows.column(tabular.STATUS).to_pylist(), object)
    if not np.isin(status, [PUBLISHED, SUPPRESSED]).all():
        raise tabular.UnlikePlanError("a status is none that a cell can have")
    column = rows.column(len(table.columns))
    figure = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    absent: Flags = np.asarray(figure.is_null().to_numpy(zero_copy_only=False), np.bool_)
    if not np.array_equal(absent, status == SUPPRESSED):
        raise tabular.UnlikePlanError("a cell is suppressed and has a figure, or is published and has none")
    values = units_of(figure, unit)
    if values is None:
        raise tabular.UnlikePlanError("a figure is no multiple of the unit")
    figures, suppressed = np.zeros(table.layout.cells, np.int64), np.ones(table.layout.cells, np.bool_)
    figures[cells], suppressed[cells] = values, absent
    # Areas may stand on two levels: both rows are one cell.
    if not (np.array_equal(figures[cells], values) and np.array_equal(suppressed[cells], absent)):
        raise tabular.UnlikePlanError("one cell that stands in two rows has two figures")
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


def codebook(question: Mapping[str, Any]) -> tabular.Codebook:
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
    return tabular.Codebook(tables, levels, formats, agency, PROTECTION, tuple(notes))


def hierarchies_of(table: HierarchicalTable) -> dict[str, tabular.CodeHierarchy]:
    """Of every column of a table the hierarchy that has most of the codes that the table lists."""
    return {
        variable.name: _hierarchy(variable, names)
        for variable, names in zip(table.variables, table.listed, strict=True)
    }


def _hierarchy(variable: Variable, names: Sequence[str]) -> tabular.CodeHierarchy:
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
        parent[text[at]] = text.get(above, tabular.TOTAL_CODE)
    return tabular.CodeHierarchy(
        {key: text[at] for key, at in keys if at in listed}, parent, text.get(ROOT, tabular.TOTAL_CODE)
    )


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
    return ExactFigures(tabular.COUNT if question["value"] is None else VALUE)


class SuppressionExplained(Explanation):
    """What releases with suppressed cells say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> tabular.Codebook | None:
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
        totals=[tabular.TOTAL_CODE],
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


# ``verify`` for cell suppression: what follows from the files of a release alone.
#
# Every table is read in every format. Published cells must add up; the same cell must be published, or suppressed, in
# every table that has it; and then the attacker's programmes are solved again from the files: no suppressed cell may be
# known exactly, and none may be known to be a small count. Which cells are primary, and their true values, cannot be
# seen from the files; that each has its full protection is proved when the release is made
# (``docs/proofs/suppression.md``).


FURTHEST_BELOW = float(1 << 40)
"""Below this no figure of values that can be negative is looked for."""

OFF = 1e-3
"""By how much of a step a sum of very large figures may be off."""

TableContent = tuple[Integers, Flags]
"""The figures of a table's cells, and which of them are suppressed."""


def verify(release: SealedRelease) -> Iterator[Check]:
    """Every table by itself, then all together."""
    folder, files, question = release.folder, set(release.files), release.facts
    programme = described(question)
    names = [table.name for table in programme.tables]
    yield tabular.no_other_files(names, files)
    yield tabular.every_format(names, files)
    read: list[TableContent] = []
    for table in programme.tables:
        yield from _table(folder, files, table, read, question)
    levels = {level: len(codes) for level, codes in programme.areas}
    yield from tabular.cells_and_areas(folder, names, files, levels, question["area_names"])
    if len(read) == len(programme.tables):
        yield from _together(programme, read, question)


def _table(
    folder: Path, files: set[str], table: HierarchicalTable, read: list[TableContent], question: Mapping[str, Any]
) -> Iterator[Check]:
    if not tabular.table_files(table.name, files):
        return  # said of all tables together
    reading = partial(read_table, table=table, magnitude=question["value"] is not None, unit=unit_of(question))
    contents, problem = tabular.read_formats(folder, table.name, files, reading)
    yield Check(f"{table.name}: columns, labels and statuses", not problem, problem or f"{len(table.lines[0]):,} rows")
    yield tabular.unique_keys(table.name, table.columns, _keys(table))
    if not problem:
        yield tabular.same_formats(table.name, contents, _same_content)
        read.append(next(iter(contents.values())))


def _keys(table: HierarchicalTable) -> list[tuple[str, ...]]:
    """What tells the rows of a table apart: level, area and codes."""
    codes = {variable.name: dict(zip(variable.keys, variable.codes, strict=True)) for variable in table.coded.variables}
    return [
        tuple(codes.get(name, {}).get(text, text) for name, text in zip(table.columns, line, strict=True))
        for line in table.lines[0]
    ]


def _same_content(one: TableContent, other: TableContent) -> bool:
    return np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


def gathered(programme: SuppressionProgramme, read: list[TableContent]) -> tuple[Integers, Flags, bool]:
    """The figures of all distinct cells, in units, and which are suppressed, and whether tables agree about both."""
    linked = programme.linked
    value, suppressed = np.zeros(linked.structure.cells, np.int64), np.ones(linked.structure.cells, np.bool_)
    each = [
        (numbers[table.listed_cells], figures[table.listed_cells], flags[table.listed_cells])
        for table, numbers, (figures, flags) in zip(linked.tables, linked.numbers, read, strict=True)
    ]
    for at, figures, flags in each:
        value[at], suppressed[at] = figures, flags
    agree = all(bool((value[at] == figures).all() and (suppressed[at] == flags).all()) for at, figures, flags in each)
    return value, suppressed, agree


def bounds(programme: SuppressionProgramme, question: Mapping[str, Any]) -> Floats:
    """What everybody knows of a suppressed cell: not below zero, or not zero either where zeros are always published.
    Where values can be negative, how far depends on how many are in a cell, which is not published: as far as figures
    can be at all."""
    low = np.zeros(programme.linked.structure.cells)
    if question.get("below_zero") is not None:
        low -= FURTHEST_BELOW
    if question["suppression"]["zeros"] == "published":
        low[programme.linked.listed] = 1.0
    return low


def _together(programme: SuppressionProgramme, read: list[TableContent], question: dict[str, Any]) -> Iterator[Check]:
    linked = programme.linked
    value, suppressed, agree = gathered(programme, read)
    yield Check("the same cell is the same in every table", agree, f"{int(linked.listed.sum()):,} distinct cells")
    complete = np.asarray(abs(linked.structure.matrix) @ suppressed.astype(np.float64)) == 0
    # Whole numbers, however large: in a float, two sums of sixteen digits could agree that do not.
    sums = (linked.structure.matrix.astype(np.int64) @ np.where(suppressed, 0, value))[complete]
    detail = f"{int(complete.sum()):,} sums of published cells alone"
    yield Check("published cells add up", not sums.any(), detail)
    threshold = question["suppression"]["threshold"]
    if threshold is not None and question["value"] is None and not _decided(question):
        small = linked.listed & ~suppressed & (value > 0) & (value <= threshold)
        yield Check("no small count is published", not small.any(), f"none from 1 to {threshold:,}")
    left_out = "; ".join(", ".join(names) for names in linked.beyond)
    if left_out:
        detail = f"too many kinds of people for {left_out}: what follows from their sums is looked at"
        yield Check("tables count the same people: looked at as far as the statement says", True, detail)
    if agree and not sums.any():
        yield from _attack(programme, value, suppressed, question)


def _decided(question: Mapping[str, Any]) -> bool:
    """Whether the office decided of single cells: a small count can be published then, or need not be hidden."""
    return bool(question.get("given", {}).get("statuses", False))


def _attack(
    programme: SuppressionProgramme, value: Integers, suppressed: Flags, question: dict[str, Any]
) -> Iterator[Check]:
    linked, part = programme.linked, question["suppression"]
    low = bounds(programme, question)
    try:
        attacker, single = _attacker(linked.structure, value, suppressed, low)
        few = part["threshold"] if question["value"] is None else None
        wanted = np.zeros(attacker.structure.cells, np.bool_)
        wanted[: len(value)] = suppressed & linked.listed
        intervals = attacker.intervals(wanted=wanted, enough=partial(_open, threshold=few))
    except ConfideError as error:
        yield Check("hidden cells can have figures", False, error.findings[0].what)
        return
    listed = suppressed & linked.listed
    exact = listed & (intervals.width[: len(value)] <= single)
    detail = f"{int(listed.sum()):,} hidden cells, {intervals.programmes:,} programmes solved"
    detail += f", of which {int(exact.sum()):,} are known exactly" if exact.any() else ": none is known exactly"
    yield Check("no hidden cell can be worked out", not exact.any(), detail)
    if part["threshold"] is not None and question["value"] is None and not _decided(question):
        small = listed & (intervals.low >= 1) & (intervals.high <= part["threshold"])
        how_many = f"{int(small.sum()):,} are" if small.any() else "none is"
        detail = f"{how_many} known to be from 1 to {part['threshold']:,}"
        yield Check("no hidden cell is known to be small", not small.any(), detail)


def _open(low: Floats, high: Floats, *, threshold: int | None) -> Flags:
    """Cells that can have two whole figures for certain, and with a threshold one that is not small."""
    least, most = np.ceil(low - TOLERANCE), np.floor(high + TOLERANCE)
    return (most > least) & (True if threshold is None else (least <= 0) | (most > threshold))


def _attacker(structure: Structure, value: Integers, suppressed: Flags, low: Floats) -> tuple[Attacker, float]:
    """Somebody who has the published figures, and how narrow an interval is a single figure.

    Where figures have too many digits for the solver, what is published leaves to the hidden cells of each sum is
    worked out in whole numbers first, and told in steps: 2^40 of them make the largest figure. Each sum may be off by a
    small part of a step, so that intervals are too wide by that, and one of half a step is a single figure.
    """
    high = np.full(len(value), np.inf)
    step = step_of(value)
    if step == 1:
        return Attacker(structure, value.astype(np.float64), suppressed, low, high, integer=True), 0.0
    remainder = structure.matrix.astype(np.int64) @ np.where(suppressed, 0, value)
    hidden = structure.matrix @ sp.diags_array(suppressed.astype(np.float64))
    one = sp.eye_array(structure.rows)
    reduced = Structure(sp.csr_array(sp.hstack([hidden, one, one])), structure.total, structure.axis)
    known, off = np.zeros(structure.rows, np.bool_), np.full(structure.rows, OFF)
    figures = np.concatenate([np.where(suppressed, 0, value) / step, remainder / step, 0.0 * off])
    attacker = Attacker(
        reduced,
        figures,
        np.concatenate([suppressed, known, ~known]),
        np.concatenate([low / step, 0.0 * off, -off]),
        np.concatenate([high, 0.0 * off, off]),
    )
    return attacker, 0.5
