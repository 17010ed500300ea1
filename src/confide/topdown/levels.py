"""One level of the descent, as a function on groups of rows: what a process, or a cluster, maps over parents.

A group is some consecutive parents with all their children. Its rows are of several kinds: the children (with their
class of shares), their true counts, the frame's counts that bound them, invariant totals, and the estimates of the
parents. What comes back are the estimates of the children; how they came about travels in the metadata of the table.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.confidential import Confidential
from confide.estimation.problem import MeasuredQuery
from confide.topdown.measuring import AskedQuery, Children, TrueCounts, measure
from confide.topdown.node import Limits, Node, NodeRules, NodeTally, estimate, kept_cells

Integers = NDArray[np.int64]
TALLY = b"confide.tally"


class Kind(IntEnum):
    """What a row says. ``unit`` is a child, except for PARENT."""

    CHILD = 0
    """cell: its class of shares."""
    TRUTH = 1
    """cell and n: a true count."""
    LEAST = 2
    """cell and n: the least count of a group of a limited query; groups are numbered through, query after query."""
    LARGEST = 3
    """cell and n: the largest count of such a group."""
    PARENT = 4
    """cell and n: an estimate of the parent."""
    INVARIANT = 5
    """cell and n: the official unit that the child is a part of, and the invariant total of that unit."""
    MEASURED = 6
    """cell, n and value: the query, the bits of its variance, and what was measured (``looking_up``)."""


@dataclass(frozen=True, eq=False)
class EstimateGroup(ABC):
    """Estimates the children of a group of parents from measurements, wherever these come from."""

    rules: NodeRules
    cells: int

    @abstractmethod
    def measured(self, rows: pa.Table, nodes: Sequence[NodeRows]) -> Iterable[tuple[MeasuredQuery, ...]]:
        """The measurements of the children of each node."""

    def __call__(self, _: int, rows: pa.Table) -> pa.Table:
        columns = {name: rows.column(name).to_numpy() for name in ("kind", "parent", "unit", "cell", "n")}
        order = np.lexsort([columns["cell"], columns["unit"], columns["kind"], columns["parent"]])
        columns = {name: values[order] for name, values in columns.items()}
        starts = np.flatnonzero(np.diff(columns["parent"], prepend=-1))
        ends = np.append(starts[1:], len(columns["parent"]))
        nodes = [
            NodeRows({name: values[start:end] for name, values in columns.items()}, self.cells)
            for start, end in zip(starts, ends, strict=True)
        ]
        shared = [node for node in nodes if not node.copied]
        measured = iter(self.measured(rows, shared))
        parts, tally = [np.empty((0, 3), np.int64)], NodeTally()
        for node in nodes:
            estimated, how = node.copy() if node.copied else self._estimate(node, next(measured))
            parts.append(estimated)
            tally += how
        return estimates_table(np.concatenate(parts), tally)

    def _estimate(self, node: NodeRows, measured: tuple[MeasuredQuery, ...]) -> tuple[Integers, NodeTally]:
        """The non-zero estimates of one parent's children: unit, cell, count."""
        units, kept = node.units, node.kept
        part_of, totals = _invariant_totals(node.cell[Kind.INVARIANT], node.n[Kind.INVARIANT])
        limits = self._limits(node, len(units))
        problem = Node(kept, node.parent, measured, limits, len(units), None, part_of, totals)
        counts, tally = estimate(problem, self.rules)
        cell, child = np.nonzero(counts)
        return np.stack([units[child], kept[cell], counts[cell, child]], axis=1), tally

    def _limits(self, node: NodeRows, children: int) -> dict[str, Limits]:
        sizes = {name: int(groups.max()) + 1 for name, groups in self.rules.limited.items()}
        if not sizes:
            return {}
        shape = (children, sum(sizes.values()))
        least, largest = (node.n[kind].reshape(shape).T for kind in (Kind.LEAST, Kind.LARGEST))
        ends = np.cumsum(list(sizes.values())).tolist()
        slices = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        return {
            name: Limits(np.ascontiguousarray(least[part]), np.ascontiguousarray(largest[part]))
            for name, part in slices.items()
        }


@dataclass(frozen=True, eq=False)
class EstimateChildren(EstimateGroup):
    """Measures the children and estimates them."""

    asked: tuple[AskedQuery, ...]

    def measured(self, rows: pa.Table, nodes: Sequence[NodeRows]) -> Iterable[tuple[MeasuredQuery, ...]]:  # noqa: ARG002
        return measure(self.asked, [node.to_measure() for node in nodes])


class NodeRows:
    """The rows of one parent, by kind. They come in the order of kind, unit and cell."""

    def __init__(self, rows: dict[str, Integers], cells: int):
        ends = np.searchsorted(rows["kind"], [*Kind], side="right").tolist()
        of = {kind: slice(begin, end) for kind, begin, end in zip(Kind, [0, *ends], ends, strict=False)}
        self.cell = {kind: rows["cell"][part] for kind, part in of.items()}
        self.n = {kind: rows["n"][part] for kind, part in of.items()}
        self.units = rows["unit"][of[Kind.CHILD]]
        self._unit_of_truth = rows["unit"][of[Kind.TRUTH]]
        parent = np.zeros(cells, np.int64)
        parent[self.cell[Kind.PARENT]] = self.n[Kind.PARENT]
        self.kept = kept_cells(parent)
        self.parent = parent[self.kept]

    @property
    def copied(self) -> bool:
        """Whether there is nothing to estimate: an only child, or an empty parent."""
        return len(self.units) == 1 or not len(self.kept)

    def copy(self) -> tuple[Integers, NodeTally]:
        """The parent's counts as those of its first child."""
        copied = np.stack([np.full(len(self.kept), self.units[0]), self.kept, self.parent], axis=1)
        return copied, NodeTally(nodes=1, outcomes={"copied": 1})

    def to_measure(self) -> Children:
        """The children with their true counts."""
        position = np.searchsorted(self.units, self._unit_of_truth)
        truth = TrueCounts(position, self.cell[Kind.TRUTH], self.n[Kind.TRUTH])
        return Children(Confidential(truth), self.units, self.cell[Kind.CHILD], self.kept)


def _invariant_totals(official: Integers, total: Integers) -> tuple[Integers | None, Integers | None]:
    """For each child the number of its official unit, and the total of each; None where no totals are invariant.

    Official units are numbered by their first child, whatever they are called.
    """
    if not len(official):
        return None, None
    _, first, number = np.unique(official, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[number.reshape(-1)].astype(np.int64), total[np.sort(first)]


def estimates_table(estimates: Integers, tally: NodeTally) -> pa.Table:
    """Estimates by unit and cell, with the tally in the metadata."""
    ordered = estimates[np.lexsort([estimates[:, 1], estimates[:, 0]])]
    table = pa.table({"unit": ordered[:, 0], "cell": ordered[:, 1], "n": ordered[:, 2]})
    return table.replace_schema_metadata({TALLY: json.dumps(tally.as_dict())})
