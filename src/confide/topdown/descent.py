"""The descent: the root is estimated, then level by level the children of every parent.

What a descent starts from is its :class:`Evidence`: measurements drawn as they are needed, from truth and noise
(``pipeline``), or measurements that somebody published and that are looked up (``postprocess``). Everything else is the
same code, so the same measurements give the same estimates, byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from confide.engines.files import private_folder
from confide.engines.groups import write_parquet
from confide.engines.protocol import GroupFunction
from confide.estimation.problem import MeasuredQuery
from confide.geography.topdown_tree import TopDownLevel
from confide.runs.mechanism import Job
from confide.runs.workspace import Workspace
from confide.topdown.levels import Kind, estimates_table
from confide.topdown.node import Limits, Node, NodeRules, estimate
from confide.topdown.question import Question
from confide.topdown.strategies.strategy import LevelStrategy

CHILDREN_PER_GROUP = 1_000
"""About how many children one group has: enough to be worth a task, few enough to spread."""

LISTED_ROWS = 1 << 14
"""Rows with lists of measured values that are read together: some ten megabytes."""

NO_VALUES = ", CAST(NULL AS BIGINT[]) AS value"


class Evidence(Protocol):
    """Where the measurements of a descent come from, and the totals that are known exactly."""

    @property
    def listed(self) -> bool:
        """Whether rows have a column ``value`` with measured values."""

    def root(self, asked_level: LevelStrategy, root: TopDownLevel) -> tuple[tuple[MeasuredQuery, ...], int | None]:
        """The measurements of the root on all cells, and its number of records where that is known."""

    def rows(self, level: TopDownLevel) -> tuple[Mapping[str, Path], str]:
        """Files, and the rows (in SQL) that the function needs of them; ``children`` has part, parent and unit."""

    def totals(self, level: TopDownLevel) -> pa.Table | None:
        """For each unit that a known total is about: ``unit``, ``cell`` (what the total is of) and ``n``."""

    def function(self, asked_level: LevelStrategy, level: TopDownLevel, rules: NodeRules) -> GroupFunction:
        """What estimates the children of a group of parents."""


def descend(question: Question, job: Job, evidence: Evidence) -> None:
    """Estimates of every level into the folders of the run, whole files only; what is there already stays."""
    (asked_root, root), *below = question.levels()
    into = estimates_folder(job.workspace, root)
    with job.progress.stage(f"Estimating {root.name}", 1) as advance:
        if not (into / "00000000.parquet").exists():
            private_folder(into)
            write_parquet(_estimate_root(question, evidence, asked_root, root), into / "00000000.parquet")
        advance(1)
    above = root
    for asked_level, level in below:
        rows = job.workspace.counts / f"{level.name}.nodes.parquet"
        groups = _groups(above)
        if not rows.exists():
            _write_nodes(question, job, evidence, above, level, groups, rows)
        function = evidence.function(asked_level, level, _rules(question, asked_level))
        numbers = np.unique(groups).tolist()
        with job.progress.stage(f"Estimating {level.name}", len(numbers)) as advance:
            job.engine.map_groups(
                function, rows, "part", numbers, estimates_folder(job.workspace, level), advance=advance
            )
        above = level


def estimates_folder(workspace: Workspace, level: TopDownLevel) -> Path:
    """Where the estimates of a level are."""
    return workspace.measured / level.name


def _rules(question: Question, asked_level: LevelStrategy) -> NodeRules:
    estimation = asked_level.estimation
    names = {name for step in estimation.least_squares for name in (*step.queries, *step.constrain)}
    groups = {name: question.groups(name) for name in sorted(names | set(estimation.chain))}
    constraints = question.strategy.constraints
    return NodeRules(
        estimation.least_squares,
        float(estimation.slack),
        estimation.rounding,
        groups,
        frozenset(name for name in estimation.chain if question.strategy.query(name).cells == question.cells),
        {name: question.groups(name) for name in constraints.limited},
        constraints.zero_cells(question.strategy.schema),
    )


def _estimate_root(question: Question, evidence: Evidence, asked_level: LevelStrategy, root: TopDownLevel) -> pa.Table:
    """The root: every cell may be positive, and the total is what the invariants say."""
    kept = np.arange(question.cells)
    measured, total = evidence.root(asked_level, root)
    limits = {name: Limits(least.T, largest.T) for name, (least, largest) in question.limits(root).items()}
    node = Node(kept, None, measured, limits, 1, total)
    with threadpool_limits(1):
        counts, tally = estimate(node, _rules(question, asked_level))
    positive = np.flatnonzero(counts[:, 0])
    return estimates_table(np.stack([np.zeros(len(positive), np.int64), positive, counts[positive, 0]], axis=1), tally)


def _groups(parents: TopDownLevel) -> np.ndarray[Any, Any]:
    """For each parent the number of its group: consecutive parents with about so many children in all."""
    return parents.first_child[:-1] // CHILDREN_PER_GROUP


def _write_nodes(
    question: Question,
    job: Job,
    evidence: Evidence,
    above: TopDownLevel,
    level: TopDownLevel,
    groups: np.ndarray[Any, Any],
    into: Path,
) -> None:
    """The rows that the function of a level takes, for every parent."""
    children = private_folder(job.workspace.counts) / f"{level.name}.children.parquet"
    units = np.arange(level.units)
    columns = {"part": groups[level.parent], "parent": level.parent, "unit": units, "cell": level.shares.index}
    write_parquet(pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}), children)
    of_evidence, rows = evidence.rows(level)
    sources = {"children": children, "estimates": estimates_folder(job.workspace, above), **of_evidence}
    blank = NO_VALUES if evidence.listed else ""
    selects = [
        f"SELECT part, {Kind.CHILD:d} AS kind, parent, unit, cell, CAST(0 AS BIGINT) AS n{blank} FROM children",
        rows,
        f"SELECT part, {Kind.PARENT:d}, parent, estimates.unit, estimates.cell, n{blank} FROM estimates JOIN "
        "(SELECT DISTINCT part, parent FROM children) AS parents ON estimates.unit = parents.parent",
    ]

    def joined(name: str, kind: Kind, table: pa.Table) -> None:
        sources[name] = job.workspace.counts / f"{level.name}.{name}.parquet"
        write_parquet(table, sources[name])
        selects.append(
            f"SELECT part, {kind:d}, parent, {name}.unit, {name}.cell, n{blank} FROM {name} JOIN children USING (unit)"
        )

    limits = question.limits(level)
    for kind, side in ((Kind.LEAST, 0), (Kind.LARGEST, 1)) if limits else ():
        values = np.concatenate([sides[side] for sides in limits.values()], axis=1)
        flat = {
            "unit": np.repeat(units, values.shape[1]),
            "cell": np.tile(np.arange(values.shape[1]), level.units),
            "n": values.ravel(),
        }
        joined(kind.name.lower(), kind, pa.table(flat))
    totals = evidence.totals(level)
    if totals is not None:
        joined("invariant", Kind.INVARIANT, totals)
    size = LISTED_ROWS if evidence.listed else None
    job.engine.write(" UNION ALL ".join(selects) + " ORDER BY part", into, rows_per_group=size, **sources)
