"""From the constraints of a strategy file to constraints, with all that is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from confide.privacy import Neighbours
from confide.runs.spec import Path
from confide.schema import Recode
from confide.topdown.strategies.constraints import Bound, Constraints, Invariant, Side, StructuralZero
from confide.topdown.strategies.parts import BLOCK, Notes, StrategyFile


def make_constraints(values: StrategyFile, notes: Notes) -> Constraints:
    """The constraints of a file, and every problem with them."""
    before = len(notes.problems)
    for key, parts in (("invariants", values.invariants), ("bounds", values.bounds), ("zeros", values.zeros)):
        for name, times in Counter(part.name for part in parts).items():
            if times > 1:
                notes.wrong((key,), "repeated-name", f"two {key} have the name {name!r}", name, "names that differ")
    made = Constraints(tuple(_invariants(values, notes)), tuple(_bounds(values, notes)), tuple(_zeros(values, notes)))
    for finding in made.clashes(notes.schema) if len(notes.problems) == before else ():
        notes.wrong(
            ("bounds",), finding.code, finding.what, finding.found, finding.expected or "", finding.remedy or ""
        )
    return made


def _invariants(values: StrategyFile, notes: Notes) -> Iterator[Invariant]:
    for position, part in enumerate(values.invariants):
        at: Path = ("invariants", position)
        query = None if part.query is None else notes.query((*at, "query"), part.query)
        if part.query is None and not part.frame:
            notes.wrong(at, "empty-invariant", f"{part.name!r} says nothing", "neither", "a query, frame, or both")
        if query is not None and part.frame and len(part.frame) != query.cells:
            what = f"the invariant {part.name!r} has not one column for each cell of {part.query!r}"
            notes.wrong((*at, "frame"), "row-length", what, len(part.frame), str(query.cells))
        if query is not None and query.variables and not part.frame:
            what = f"the invariant {part.name!r} publishes an answer other than the number of records as it is"
            expected = '"total"; or the columns of the frame that tell the answer'
            notes.wrong((*at, "query"), "invariant-query", what, part.query, expected)
        if query is not None and part.frame and part.level != BLOCK:
            what = f"the invariant {part.name!r} is told by the frame, which tells it for every block"
            notes.wrong((*at, "level"), "invariant-level", what, part.level, BLOCK)
        if part.query is not None and values.neighbours != Neighbours.CHANGE_ONE.value:
            what = f"the invariant {part.name!r} gives away whether a record is there"
            expected = "neighbours = change-one, or no invariant counts of records"
            notes.wrong(("neighbours",), "invariant-neighbours", what, values.neighbours, expected)
        yield Invariant(part.name, part.level, None if query is None else part.query, tuple(part.frame))


def _bounds(values: StrategyFile, notes: Notes) -> Iterator[Bound]:
    for position, part in enumerate(values.bounds):
        at: Path = ("bounds", position)
        variable = notes.schema.variables.get(part.variable)
        if variable is None:
            what = f"the schema has no variable {part.variable!r}"
            notes.wrong((*at, "variable"), "unknown-variable", what, part.variable, notes.schema.variables)
            continue
        keys = _group_keys(variable)
        for key in (key for key in part.frame if key not in keys):
            what = f"{part.variable!r} has no group {key!r}"
            notes.wrong((*at, "frame", key), "unknown-group", what, key, keys)
        frame = {keys[key]: column for key, column in part.frame.items() if key in keys}
        yield Bound(part.name, variable, Side(part.side), part.per_unit, frame)


def _zeros(values: StrategyFile, notes: Notes) -> Iterator[StructuralZero]:
    attributes = {attribute.name: attribute for attribute in notes.schema.attributes}
    for position, part in enumerate(values.zeros):
        at: Path = ("zeros", position, "where")
        where: dict[str, Any] = {}
        for name, codes in part.where.items():
            if name not in attributes:
                what = f"the schema has no attribute {name!r}"
                notes.wrong((*at, name), "unknown-attribute", what, name, attributes)
                continue
            for code in (code for code in codes if code not in attributes[name].index):
                expected = attributes[name].describe_codes()
                notes.wrong((*at, name), "unknown-code", f"{name!r} has no code {code!r}", code, expected)
            where[name] = tuple(code for code in codes if code in attributes[name].index)
        yield StructuralZero(part.name, where)


def _group_keys(variable: Recode) -> dict[str, int]:
    """What a bound calls the groups of a variable: the code of an attribute's level, or the label of a recode's."""
    if variable.name == variable.attribute.name:
        return {str(level.code): index for index, level in enumerate(variable.attribute.levels)}
    return {label: index for index, label in enumerate(variable.labels)}
