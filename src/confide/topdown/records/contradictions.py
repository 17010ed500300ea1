"""Records that contradict what is publicly known: of a kind that their block cannot have, or that nobody can be.

Constraints come from the frame and the strategy and hold in every estimate, so such records cannot be where they say.
They are not refused, since a census has some; the curator is told of them, by row.
"""

from __future__ import annotations

from pathlib import Path

from confide.engines import Engine
from confide.engines.expressions import identifier, literal
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.inputs.records import column_expressions
from confide.topdown.question import Question
from confide.topdown.strategies.constraints import Bound, Side, StructuralZero

ROWS_NAMED = 5


def contradictions(question: Question, engine: Engine, units: Path) -> list[Finding]:
    """A warning for each constraint that some record breaks by itself. ``units`` has the frame's counts by block."""
    block = question.spec.geography.block
    read = column_expressions(engine, question.records, question.strategy.schema.attributes, block)
    constraints = question.strategy.constraints
    asked = {zero.name: _impossible(zero, read) for zero in constraints.zeros}
    asked |= {b.name: _without_units(b, read, block) for b in constraints.bounds if b.side is Side.UPPER}
    findings = []
    for name, condition in asked.items():
        rows = engine.first_rows(question.records, condition, ROWS_NAMED, units=units)
        if rows:
            findings.append(_finding(question, name, rows))
    return findings


def _impossible(zero: StructuralZero, read: dict[str, str]) -> str:
    return " AND ".join(f"{read[name]} IN ({', '.join(map(literal, codes))})" for name, codes in zero.where.items())


def _without_units(bound: Bound, read: dict[str, str], block: str) -> str:
    """A record of a group in a block where the frame counts nothing that such a record could live in."""
    attribute = read[bound.variable.attribute.name]
    cases = []
    for group, column in bound.frame.items():
        codes = ", ".join(map(literal, bound.variable.groups[group].codes))
        nothing = f"SELECT {identifier(block)} FROM units WHERE {identifier(column)} = 0"
        cases.append(f"({attribute} IN ({codes}) AND {read[block]} IN ({nothing}))")
    return " OR ".join(cases)


def _finding(question: Question, name: str, rows: list[int]) -> Finding:
    shown = ", ".join(f"{row:,}" for row in rows)
    return Finding(
        code="record-against-frame",
        what=f"a record is of a kind that {name!r} rules out where it lies (the first such rows: {shown})",
        where=Place(file=question.records.file, row=rows[0]),
        found=CONFIDENTIAL,
        expected="records that keep the constraints of the strategy",
        remedy="correct the records or the block table; left as they are, such records count as others in the estimate",
        severity="warning",
    )
