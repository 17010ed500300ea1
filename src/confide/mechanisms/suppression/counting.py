"""True figures of every cell, out of the records, and the problem that they pose. Confidential.

The records are grouped once by block and by the levels of all attributes in use; for magnitudes, they are read one by
one, since a rule must know the largest contributions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from confide.engines import Engine
from confide.engines.protocol import identifier
from confide.errors import Finding, Place
from confide.inputs.records import (
    ROWS_NAMED,
    bad_record,
    check_codes,
    check_records,
    code_expressions,
    column_expressions,
    integer_expression,
)
from confide.mechanisms.suppression import problem as rules
from confide.mechanisms.suppression.problem import MOST, Contributions, Levels, PatternProblem
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProblem
from confide.mechanisms.suppression.structure import Flags, Integers
from confide.mechanisms.suppression.suppress import add_up, joined, pose
from confide.releases.tabular import AREA

BLOCK, NUMBER, VALUE = "block code", "n", "record value"
EVERYBODY = "everybody"
OF_ATTRIBUTE = "attribute "
LARGEST_VALUE = 1 << 32


@dataclass(frozen=True, eq=False)
class Truth:
    """What the records say of every distinct cell: the figure that would be published, and who is behind it."""

    value: Integers = field(repr=False)
    number: Integers = field(repr=False)
    who: Integers = field(repr=False)
    """The numbers of all contributors of a cell, added up: of one that is alone in it, its own."""
    contributions: Contributions | None = field(repr=False, default=None)


def check_figures(engine: Engine, problem: SuppressionProblem, frame: Path | None) -> list[Finding]:
    """Every problem of the records."""
    source, attributes = problem.records, problem.attributes
    if frame is not None and problem.frame is not None:
        block, spine = problem.spec.geography.block, problem.frame.spine
        findings = check_records(engine, source, attributes, block, spine, frame)
    else:
        findings = check_codes(engine, source, attributes)
    if not findings and problem.spec.data.value is not None:
        findings = _values(engine, problem)
    return findings


def write_grouped(engine: Engine, problem: SuppressionProblem, into: Path) -> None:
    """The records as numbers of levels, with their block: how many there are of each kind, or each with its value."""
    keys = _expressions(engine, problem)
    if problem.spec.data.value is None:
        engine.count_by(problem.records, keys or {EVERYBODY: "CAST(0 AS BIGINT)"}, into)
        return
    columns = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in keys.items())
    value = _value_expression(engine, problem)
    engine.write(
        f"SELECT {columns}{', ' if columns else ''}{value} AS {identifier(VALUE)} FROM records",
        into,
        records=problem.records,
    )


def read_truth(problem: SuppressionProblem, grouped: Path) -> Truth:
    """The figures of every cell of the linked structure."""
    rows = pq.read_table(grouped)
    columns = {name: rows.column(name) for name in rows.column_names}
    row = np.arange(rows.num_rows)
    programme = problem.programme
    value = columns[VALUE].to_numpy().astype(np.int64) if VALUE in columns else None
    number = np.ones(len(row), np.int64) if value is not None else columns[NUMBER].to_numpy().astype(np.int64)
    levels = {name: columns[OF_ATTRIBUTE + name].to_numpy() for name in programme.variables if name != AREA}
    units = _blocks(problem, columns[BLOCK].to_pylist()) if BLOCK in columns else None
    numbers, values, tops, sums = [], [], [], []
    top = max(2, problem.spec.suppression.dominance.n if problem.spec.suppression.dominance else 2)
    for table in programme.tables:
        leaf = _leaves(problem, table, levels, units, len(row))
        numbers.append(_added(table, leaf, number))
        sums.append(_added(table, leaf, number * row))
        if value is not None:
            values.append(_added(table, leaf, value))
            tops.append(_largest(table, leaf, value, top))
    linked = programme.linked
    count, who = joined(linked, numbers), joined(linked, sums)
    if value is None:
        return Truth(count, count, who)
    largest = np.zeros((linked.structure.cells, top), np.int64)
    for of_table, at in zip(tops, linked.numbers, strict=True):
        largest[at] = of_table
    return Truth(joined(linked, values), count, who, Contributions(count, largest))


def pose_problem(problem: SuppressionProblem, truth: Truth) -> PatternProblem:
    """Primary rules, bounds and weights, as the spec has them."""
    part = problem.spec.suppression
    linked = problem.programme.linked
    single: Flags = (truth.number == 1) if part.singletons else np.zeros(len(truth.value), np.bool_)
    levels = primary_levels(problem, truth)
    keep = problem.programme.kept(part.keep)
    return pose(
        linked,
        truth.value,
        levels,
        zeros=part.zeros,
        weight=part.weights,
        single=single,
        keep=keep,
        who=truth.who,
        inhabited=truth.number > 0,
    )


def primary_levels(problem: SuppressionProblem, truth: Truth) -> Levels:
    """The cells that are primary by any rule, with the largest protection levels."""
    part = problem.spec.suppression
    levels = Levels.none(len(truth.value))
    if part.threshold is not None:
        few = rules.threshold(truth.number, part.threshold, zeros=part.zeros == "primary", lower=part.lower)
        levels = levels.also(few if truth.contributions is None else _ranged(few, truth.value, part.range))
    if truth.contributions is None:
        return levels
    if part.dominance is not None:
        levels = levels.also(rules.dominance(truth.value, truth.contributions, part.dominance.n, part.dominance.k))
    if part.p is not None:
        levels = levels.also(rules.pq(truth.value, truth.contributions, part.p, part.q or MOST))
    return levels


def _ranged(few: Levels, value: Integers, percent: Fraction) -> Levels:
    """Cells of few contributors: their magnitude is kept that far away, up and down, and by one at least."""
    away = np.array([max(1, ceil(percent / MOST * int(x))) for x in value], np.int64)
    level = np.where(few.primary, away, 0)
    return Levels(few.primary, np.minimum(level, value), level, np.zeros_like(level))


def _leaves(
    problem: SuppressionProblem,
    table: HierarchicalTable,
    levels: dict[str, Integers],
    units: Integers | None,
    rows: int,
) -> list[Integers]:
    """For each variable of a table the finest code of every row."""
    leaves = []
    for variable, names in zip(table.variables, table.listed, strict=True):
        finest = variable.grouping(names[-1])
        if variable.areas:
            assert units is not None
            assert problem.frame is not None
            level = problem.frame.spine.level(names[-1])
            unit = np.empty(problem.frame.spine.blocks.units, np.int64)
            unit[problem.frame.spine.blocks.unit_of_block] = level.unit_of_block
            leaves.append(finest.codes[unit[units]])
        else:
            leaves.append(finest.codes[problem.schema.variable(names[-1]).assignment[levels[variable.name]]])
    return leaves or [np.zeros(rows, np.int64)]


def _added(table: HierarchicalTable, leaf: list[Integers], amount: Integers) -> Integers:
    totals = np.zeros(table.layout.shape or (1,), np.int64)
    np.add.at(totals, tuple(leaf), amount)
    # Codes with parts are sums: a record was counted at the finest one alone.
    return add_up(table.layout.dimensions, totals).reshape(-1)


def _largest(table: HierarchicalTable, leaf: list[Integers], value: Integers, top: int) -> Integers:
    """The largest contributions of every cell: each record contributes to all cells that its own is a part of."""
    largest = np.zeros((table.layout.cells, top), np.int64)
    if not table.variables:
        _, contributions = rules.contributions_of(np.zeros(len(value), np.int64), value, 1, top=top)
        return contributions.largest
    chains = [_chains(dimension.parent) for dimension in table.layout.dimensions]
    for steps in product(*(range(chain.shape[1]) for chain in chains)):
        at = [chain[codes, step] for chain, codes, step in zip(chains, leaf, steps, strict=True)]
        there = np.logical_and.reduce([codes_at >= 0 for codes_at in at])
        if not there.any():
            continue
        cell = np.ravel_multi_index(tuple(codes_at[there] for codes_at in at), table.layout.shape).astype(np.int64)
        _, contributions = rules.contributions_of(cell, value[there], table.layout.cells, top=top)
        # A cell may be met at different heights, if the tree is not of one depth: the largest of all meetings.
        both = np.concatenate([largest, contributions.largest], axis=1)
        largest = -np.sort(-both, axis=1)[:, :top]
    return largest


def _chains(parent: tuple[int, ...]) -> Integers:
    """For each code itself, what it is a part of, and so on; -1 beyond the total."""
    above = np.append(np.array(parent, np.int64), -1)
    columns = [np.arange(len(parent), dtype=np.int64)]
    while (columns[-1] >= 0).any():
        columns.append(above[columns[-1]])
    return np.column_stack(columns[:-1])


def _blocks(problem: SuppressionProblem, codes: list[str]) -> Integers:
    assert problem.frame is not None
    number = {code: at for at, code in enumerate(problem.frame.spine.blocks.codes)}
    return np.array([number[code] for code in codes], np.int64)


def _expressions(engine: Engine, problem: SuppressionProblem) -> dict[str, str]:
    source, block = problem.records, problem.spec.geography.block
    # An attribute may have any name, also that of a column of ours.
    keys = {OF_ATTRIBUTE + name: code for name, code in code_expressions(engine, source, problem.attributes).items()}
    return keys if problem.frame is None else keys | {BLOCK: column_expressions(engine, source, (), block)[block]}


def _value_expression(engine: Engine, problem: SuppressionProblem) -> str:
    value = integer_expression(engine, problem.records, str(problem.spec.data.value))
    return f"CASE WHEN {value} BETWEEN 0 AND {LARGEST_VALUE} THEN {value} END"


def _values(engine: Engine, problem: SuppressionProblem) -> list[Finding]:
    source, name = problem.records, str(problem.spec.data.value)
    kinds = engine.kinds(source)
    theirs = source.theirs(name)
    place = Place(file=source.file, column=theirs)
    if kinds.get(theirs) not in ("integer", "text"):
        what, expected = "there is no column of whole numbers to add up", "a column of whole numbers"
        found = "a column of another kind" if theirs in kinds else "no such column"
        remedy = (
            "name the column in [data] value; round its values, or take a smaller unit, if they are no whole numbers"
        )
        return [Finding("no-value", what, place, found, expected, remedy)]
    rows = engine.first_rows(source, f"({_value_expression(engine, problem)}) IS NULL", ROWS_NAMED)
    expected = f"a whole number from 0 to {LARGEST_VALUE:,}"
    remedy = "correct the records, or the schema if that is wrong"
    return [bad_record(source, name, "a value cannot be added up", expected, rows, remedy=remedy)] if rows else []
