"""One level of the descent, as a function on groups of rows: what a process, or a cluster, maps over parents.

A group is some consecutive parents with all their children. Its rows are of several kinds: the children (with their
class of shares), their true counts, the frame's counts that bound them, invariant totals, and the estimates of the
parents. What comes back are the estimates of the children; how they came about travels in the metadata of the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.confidential import Confidential
from confide.topdown.measuring import AskedQuery, TrueCounts, measure
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
    """cell and n: the least count of a bounded group."""
    LARGEST = 3
    """cell and n: the largest count of a bounded group."""
    PARENT = 4
    """cell and n: an estimate of the parent."""
    INVARIANT = 5
    """cell and n: the official unit that the child is a part of, and the invariant total of that unit."""


@dataclass(frozen=True, eq=False)
class EstimateChildren:
    """Measures and estimates the children of a group of parents."""

    asked: tuple[AskedQuery, ...]
    rules: NodeRules
    cells: int
    bounded_groups: int

    def __call__(self, _: int, rows: pa.Table) -> pa.Table:
        columns = {name: rows.column(name).to_numpy() for name in ("kind", "parent", "unit", "cell", "n")}
        order = np.lexsort([columns["cell"], columns["unit"], columns["kind"], columns["parent"]])
        columns = {name: values[order] for name, values in columns.items()}
        starts = np.flatnonzero(np.diff(columns["parent"], prepend=-1))
        ends = np.append(starts[1:], len(columns["parent"]))
        parts, tally = [], NodeTally()
        for start, end in zip(starts, ends, strict=True):
            node = {name: values[start:end] for name, values in columns.items()}
            estimated, how = self._node(node)
            parts.append(estimated)
            tally += how
        return estimates_table(np.concatenate(parts) if parts else np.empty((0, 3), np.int64), tally)

    def _node(self, rows: dict[str, Any]) -> tuple[Integers, NodeTally]:
        """The non-zero estimates of one parent's children: unit, cell, count."""
        of = {kind: rows["kind"] == kind for kind in Kind}
        units = rows["unit"][of[Kind.CHILD]]
        parent = np.zeros(self.cells, np.int64)
        parent[rows["cell"][of[Kind.PARENT]]] = rows["n"][of[Kind.PARENT]]
        kept = kept_cells(parent)
        if len(units) == 1 or not len(kept):
            copied = np.stack([np.full(len(kept), units[0]), kept, parent[kept]], axis=1)
            return copied, NodeTally(nodes=1, outcomes={"copied": 1})
        true = of[Kind.TRUTH]
        truth = TrueCounts(np.searchsorted(units, rows["unit"][true]), rows["cell"][true], rows["n"][true])
        classes = rows["cell"][of[Kind.CHILD]]
        measured = measure(Confidential(truth), self.asked, units, classes, kept)
        limits = self._limits(rows, of, len(units))
        part_of, totals = _invariant_totals(rows, of[Kind.INVARIANT])
        node = Node(kept, parent[kept], measured, limits, len(units), None, part_of, totals)
        counts, tally = estimate(node, self.rules)
        cell, child = np.nonzero(counts)
        return np.stack([units[child], kept[cell], counts[cell, child]], axis=1), tally

    def _limits(self, rows: dict[str, Any], of: dict[Kind, Any], children: int) -> Limits | None:
        if not self.bounded_groups:
            return None
        shape = (children, self.bounded_groups)
        least, largest = (rows["n"][of[kind]].reshape(shape).T for kind in (Kind.LEAST, Kind.LARGEST))
        return Limits(np.ascontiguousarray(least), np.ascontiguousarray(largest))


def _invariant_totals(rows: dict[str, Any], chosen: Any) -> tuple[Integers | None, Integers | None]:
    """For each child the number of its official unit, and the total of each; None where no totals are invariant."""
    if not chosen.any():
        return None, None
    _, first, number = np.unique(rows["cell"][chosen], return_index=True, return_inverse=True)
    return number.reshape(-1).astype(np.int64), rows["n"][chosen][first]


def estimates_table(estimates: Integers, tally: NodeTally) -> pa.Table:
    """Estimates by unit and cell, with the tally in the metadata."""
    ordered = estimates[np.lexsort([estimates[:, 1], estimates[:, 0]])]
    table = pa.table({"unit": ordered[:, 0], "cell": ordered[:, 1], "n": ordered[:, 2]})
    return table.replace_schema_metadata({TALLY: json.dumps(tally.as_dict())})
