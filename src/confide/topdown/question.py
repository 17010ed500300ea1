"""The question of a TopDown release: strategy, frame and spine, and the plan that follows from them.

Units of one level can have different shares of the budget (the one-child bypass), so a query is one measurement for
each class of shares. A record lies on one path from the root to its block and takes part in the measurements of that
path alone; every path has the whole budget, exactly. Proof: ``docs/proofs/topdown.md``, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.engines import Source
from confide.geography.topdown_tree import TopDownLevel, TopDownSpine
from confide.inputs.frame import Frame
from confide.privacy import ZCDP
from confide.runs.plan import Measure, Plan
from confide.schema import Query
from confide.topdown.output.settings import Output
from confide.topdown.spec import TopDownSpec
from confide.topdown.strategies.accounting import law_of
from confide.topdown.strategies.constraints import Bound
from confide.topdown.strategies.strategy import LevelStrategy, Strategy, groups_of

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """Everything the release depends on but the records themselves."""

    spec: TopDownSpec
    strategy: Strategy
    frame: Frame
    spine: TopDownSpine
    columns: Mapping[str, Integers]
    """Columns of the block table that constraints use, in the order of the spine's blocks."""
    records: Source
    blocks_file: str
    """The name of the block table, for messages."""
    output: Output = field(default_factory=Output)
    """What the release contains besides the records."""

    @cached_property
    def cells(self) -> int:
        """The cells of the histogram."""
        return int(np.prod([attribute.size for attribute in self.strategy.schema.attributes], dtype=np.int64))

    def groups(self, query: str) -> Integers:
        """The groups of histogram cells of a query."""
        if query not in self._groups:
            self._groups[query] = groups_of(self.strategy.schema, self.strategy.query(query))
        return self._groups[query]

    @cached_property
    def _groups(self) -> dict[str, Integers]:
        return {}

    def limits(self, level: TopDownLevel) -> dict[str, tuple[Integers, Integers]]:
        """For each query that the frame limits, the least and the largest counts in each unit: units x groups."""
        constraints = self.strategy.constraints
        summed = {name: self.spine.roll_up(level.name, values) for name, values in self.columns.items()}
        return {name: constraints.limits(name, self.strategy.query(name).cells, summed) for name in constraints.limited}

    def levels(self) -> list[tuple[LevelStrategy, TopDownLevel]]:
        """Strategy and spine, level by level, the root first."""
        return [(self.strategy.level(level.name), level) for level in self.spine.levels]


def plan_question(question: Question) -> Plan:
    """Every measurement of the release and its price."""
    strategy = question.strategy
    measures: list[Measure] = []
    numbers: dict[tuple[str, int], list[int]] = {}
    for asked_level, level in question.levels():
        units = np.bincount(level.shares.index, minlength=len(level.shares.table))
        for share_class, share in enumerate(level.shares.table):
            numbers[level.name, share_class] = []
            if not share:
                continue
            for asked in asked_level.queries:
                numbers[level.name, share_class].append(len(measures))
                measures.append(
                    Measure(
                        level.name,
                        asked.name,
                        int(units[share_class]),
                        asked.query.cells,
                        law_of(strategy, asked_level, asked, share),
                        ZCDP(strategy.budget * share * asked.share),
                        tuple(variable.attribute.name for variable in asked.query.variables),
                    )
                )
    paths = tuple(
        tuple(number for name, share_class in kind for number in numbers[name, share_class])
        for kind in _kinds_of_path(question.spine)
    )
    spine = tuple(question.spine.names)
    facts = facts_of(question)
    return Plan("topdown", strategy.neighbours, strategy.definition, tuple(measures), spine, facts, paths)


def facts_of(question: Question) -> dict[str, Any]:
    """What decides a release besides its measurements, and what a reader needs to check it."""
    strategy = question.strategy
    return {
        "strategy": strategy.as_dict(),
        "record": strategy.record,
        "frame": question.frame.fingerprint,
        "spine": question.spine.fingerprint(),
        "spine_settings": question.spec.topdown.model_dump(exclude={"strategy", "root"}),
        "attributes": {attribute.name: attribute.title for attribute in strategy.schema.attributes},
        "bounds": [_stated(bound) for bound in strategy.constraints.bounds],
        "told": [
            _told(invariant.name, strategy.query(invariant.query), invariant.frame)
            for invariant in strategy.constraints.invariants
            if invariant.frame and invariant.query is not None
        ],
        "frame_columns": list(question.columns),
        "levels": [level.name for level in question.frame.spine.levels],
        "areas": [area.name for area in question.frame.spine.areas],
        "output": question.output.as_dict(),
        "measurements": question.spec.output.measurements,
        "layout": {
            "block": question.spec.geography.block,
            "columns": question.spec.data.columns,
            "block_columns": question.spec.data.block_columns,
            "delimiter": question.spec.data.delimiter,
            "counted": [part.model_dump() for part in question.spec.data.counted],
            "presence": question.spec.data.presence,
        },
    }


def _stated(bound: Bound) -> dict[str, Any]:
    """A bound in codes and columns, as a reader of the release needs it."""
    groups = bound.variable.groups
    listed = [{"codes": list(groups[index].codes), "column": column} for index, column in sorted(bound.frame.items())]
    return {
        "name": bound.name,
        "side": bound.side.value,
        "per_unit": bound.per_unit,
        "attribute": bound.variable.attribute.name,
        "groups": listed,
    }


def _told(name: str, query: Query, frame: Sequence[str]) -> dict[str, Any]:
    """An invariant that the frame tells: for each cell of the query its codes, and the column that is its count."""
    cells = []
    for groups, column in zip(product(*(variable.groups for variable in query.variables)), frame, strict=True):
        chosen = zip(query.variables, groups, strict=True)
        cells.append({"where": {v.attribute.name: list(group.codes) for v, group in chosen}, "column": column})
    return {"name": name, "cells": cells}


def _kinds_of_path(spine: TopDownSpine) -> list[list[tuple[str, int]]]:
    """The distinct sequences of share classes from the root to a block."""
    classes = [level.shares.index[spine.unit_of_block(level.name)] for level in spine.levels]
    # One number for each sequence sorts much faster than rows, in the same order.
    number = np.zeros(len(spine.rows), np.int64)
    for level, share_class in zip(spine.levels, classes, strict=True):
        number = np.unique(number * len(level.shares.table) + share_class, return_inverse=True)[1].reshape(-1)
    _, first = np.unique(number, return_index=True)
    return [
        [(name, int(share_class[block])) for name, share_class in zip(spine.names, classes, strict=True)]
        for block in first.tolist()
    ]
