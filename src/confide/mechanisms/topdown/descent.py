"""The descent: the root is estimated, then level by level the children of every parent.

What a descent starts from is its :class:`Evidence`: measurements drawn as they are needed, from truth and noise
(``mechanism``), or measurements that somebody published and that are looked up (``postprocess``). Everything else is
the same code, so the same measurements give the same estimates, byte by byte.
"""

from __future__ import annotations

import json
import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from confide.arrays import Integers
from confide.confidential import Confidential
from confide.engines.protocol import GroupFunction, write_parquet
from confide.estimation import MeasuredQuery, SolveOutcome, UnsolvedError
from confide.estimation.active_set import GAP, InfeasibleError
from confide.estimation.rounding import RoundingInfeasibleError
from confide.estimation.rounding import RoundingOutcome as RoundingOutcome
from confide.file_system import private_folder, write_text
from confide.mechanisms.topdown.constraints import invariant_level, narrowed
from confide.mechanisms.topdown.from_below import LevelLaws, gather, with_limited_first
from confide.mechanisms.topdown.measure import Children, LevelQuery, TrueCounts, measure
from confide.mechanisms.topdown.node import EstimationNode, Limits, NodeRules, NodeTally, UnitLaws, estimate
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spine import TopDownLevel
from confide.mechanisms.topdown.strategy import LevelStrategy
from confide.messages import Messages, messages
from confide.releases import Check, Job, Workspace

# One level of the descent, as a function on groups of rows: what a process, or a cluster, maps over parents.
#
# A group is some consecutive parents with all their children. Its rows are of several kinds: the children (with their
# class of shares), their true counts, the frame's counts that bound them, invariant totals, and the estimates of the
# parents. What comes back are the estimates of the children; how they came about travels in the metadata of the
# table.


TALLY = b"confide.tally"


class RowKind(IntEnum):
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
    """cell, n and value: the query, the bits of its variance, and what was measured (``postprocess``)."""
    TOTAL_LAW = 7
    """cell and n: the bits of the precision and of the mean of the total, from the child and all below it."""
    LAW = 8
    """cell and value: the kind of the child's law, and the bits of its mean, from the child and all below it."""
    INFORMATION = 9
    """cell, n and value: a kind, the number of a pass, and the bits of the information in it; ``unit`` is none."""


@dataclass(frozen=True, eq=False)
class EstimateGroup(ABC):
    """Estimates the children of a group of parents from measurements, wherever these come from."""

    rules: NodeRules

    @abstractmethod
    def measured(self, rows: pa.Table, nodes: Sequence[NodeRows]) -> Iterable[tuple[MeasuredQuery, ...]]:
        """The measurements of the children of each node."""

    def __call__(self, _: int, rows: pa.Table) -> pa.Table:
        columns = {name: rows.column(name).to_numpy() for name in ("kind", "parent", "unit", "cell", "n")}
        # Engines give rows in any order; from here on it is parent, kind, unit, cell.
        order = np.lexsort([columns["cell"], columns["unit"], columns["kind"], columns["parent"]])
        columns = {name: values[order] for name, values in columns.items()}
        starts = np.flatnonzero(np.diff(columns["parent"], prepend=-1))
        ends = np.append(starts[1:], len(columns["parent"]))
        nodes = [
            NodeRows({name: values[start:end] for name, values in columns.items()})
            for start, end in zip(starts, ends, strict=True)
        ]
        # Only children and children of empty parents are copies; the others are measured together, then estimated.
        shared = [node for node in nodes if not node.copied]
        measured = iter(self.measured(rows, shared))
        laws = self._laws(rows)
        parts, tally = [np.empty((0, 3), np.int64)], NodeTally()
        for node in nodes:
            estimated, how = node.copy() if node.copied else self._estimate(node, next(measured), laws)
            parts.append(estimated)
            tally += how
        return estimates_table(np.concatenate(parts), tally)

    def _laws(self, rows: pa.Table) -> UnitLaws | None:
        """What the children and all below them tell, where the strategy has it so."""
        if self.rules.sectors is None:
            return None
        laws = UnitLaws(self.rules.sectors, self.rules.law_passes)

        def of_kind(kind: RowKind, *names: str) -> list[Any]:
            chosen = rows.filter(pc.equal(rows.column("kind"), int(kind))).combine_chunks()
            return [chosen.column(name).to_numpy() for name in names] + (
                [pa.concat_arrays(chosen.column("value").chunks)] if kind != RowKind.TOTAL_LAW else []
            )

        laws.read_totals(*of_kind(RowKind.TOTAL_LAW, "unit", "cell", "n"))
        if self.rules.law_passes:
            laws.read_laws(*of_kind(RowKind.LAW, "unit", "cell"))
            laws.read_matrices(*of_kind(RowKind.INFORMATION, "cell", "n"))
        return laws

    def _estimate(
        self, node: NodeRows, measured: tuple[MeasuredQuery, ...], laws: UnitLaws | None
    ) -> tuple[Integers, NodeTally]:
        """The non-zero estimates of one parent's children: unit, cell, count."""
        units, support = node.units, node.support
        part_of, totals = _invariant_totals(node.cell[RowKind.INVARIANT], node.n[RowKind.INVARIANT])
        limits = self._limits(node, len(units))
        problem = EstimationNode(support, node.parent, measured, limits, len(units), None, part_of, totals)
        if laws is not None:
            problem = replace(problem, laws=laws.of(units, support), total_law=laws.total(units, len(support)))
        counts, tally = estimate(problem, self.rules)
        cell, child = np.nonzero(counts)
        return np.stack([units[child], support[cell], counts[cell, child]], axis=1), tally

    def _limits(self, node: NodeRows, children: int) -> dict[str, Limits]:
        sizes = {name: int(groups.max()) + 1 for name, groups in self.rules.limited.items()}
        if not sizes:
            return {}
        shape = (children, sum(sizes.values()))
        least, largest = (node.n[kind].reshape(shape).T for kind in (RowKind.LEAST, RowKind.LARGEST))
        ends = np.cumsum(list(sizes.values())).tolist()
        slices = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        return {
            name: Limits(np.ascontiguousarray(least[part]), np.ascontiguousarray(largest[part]))
            for name, part in slices.items()
        }


@dataclass(frozen=True, eq=False)
class EstimateChildren(EstimateGroup):
    """Measures the children and estimates them."""

    queries: tuple[LevelQuery, ...]

    def measured(self, rows: pa.Table, nodes: Sequence[NodeRows]) -> Iterable[tuple[MeasuredQuery, ...]]:  # noqa: ARG002
        return measure(self.queries, [node.to_measure() for node in nodes])


@dataclass(frozen=True, eq=False)
class EstimateFromLaws(EstimateGroup):
    """Estimates children from what they and all below them tell: nothing is measured any more."""

    def measured(self, rows: pa.Table, nodes: Sequence[NodeRows]) -> Iterable[tuple[MeasuredQuery, ...]]:  # noqa: ARG002
        return [() for _ in nodes]


class NodeRows:
    """The rows of one parent, by kind. They come in the order of kind, unit and cell."""

    def __init__(self, rows: dict[str, Integers]):
        ends = np.searchsorted(rows["kind"], [*RowKind], side="right").tolist()
        of = {kind: slice(begin, end) for kind, begin, end in zip(RowKind, [0, *ends], ends, strict=False)}
        self.cell = {kind: rows["cell"][part] for kind, part in of.items()}
        self.n = {kind: rows["n"][part] for kind, part in of.items()}
        self.units = rows["unit"][of[RowKind.CHILD]]
        self._unit_of_truth = rows["unit"][of[RowKind.TRUTH]]
        there = self.n[RowKind.PARENT] > 0
        self.support, self.parent = self.cell[RowKind.PARENT][there], self.n[RowKind.PARENT][there]

    @property
    def copied(self) -> bool:
        """Whether there is nothing to estimate: an only child, or an empty parent."""
        return len(self.units) == 1 or not len(self.support)

    def copy(self) -> tuple[Integers, NodeTally]:
        """The parent's counts as those of its first child."""
        copied = np.stack([np.full(len(self.support), self.units[0]), self.support, self.parent], axis=1)
        return copied, NodeTally(nodes=1, outcomes={"copied": 1})

    def to_measure(self) -> Children:
        """The children with their true counts."""
        position = np.searchsorted(self.units, self._unit_of_truth)
        truth = TrueCounts(position, self.cell[RowKind.TRUTH], self.n[RowKind.TRUTH])
        return Children(Confidential(truth), self.units, self.cell[RowKind.CHILD], self.support)


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


CHILDREN_PER_GROUP = 1_000
"""About how many children one group has: enough to be worth a task, few enough to spread."""

LISTED_ROWS = 1 << 14
"""Rows with lists of measured values that are read together: some ten megabytes."""

NARROWED = "narrowed"
"""The note of a run whose limits were narrowed, beside its estimates."""
_CLASHES = (InfeasibleError, UnsolvedError, RoundingInfeasibleError)
LevelLimits = Callable[[TopDownLevel], dict[str, tuple[Integers, Integers]]]
"""For each level the least and the largest counts of the queries that are limited."""

NO_VALUES = ", CAST(NULL AS BIGINT[]) AS value"


class Evidence(Protocol):
    """Where the measurements of a descent come from, and the totals that are known exactly."""

    @property
    def listed(self) -> bool:
        """Whether rows have a column ``value`` with measured values."""

    def root(self, level_strategy: LevelStrategy, root: TopDownLevel) -> tuple[tuple[MeasuredQuery, ...], int | None]:
        """The measurements of the root on all cells, and its number of records where that is known."""

    def rows(self, level: TopDownLevel) -> tuple[Mapping[str, Path], str]:
        """Files, and the rows (in SQL) that the function needs of them; ``children`` has part, parent and unit."""

    def totals(self, level: TopDownLevel) -> pa.Table | None:
        """For each unit that a known total is about: ``unit``, ``cell`` (what the total is of) and ``n``."""

    def function(self, level_strategy: LevelStrategy, level: TopDownLevel, rules: NodeRules) -> GroupFunction:
        """What estimates the children of a group of parents."""

    def in_full(
        self, job: Job, level_strategy: LevelStrategy, level: TopDownLevel
    ) -> Iterator[tuple[int, Integers, Integers, NDArray[np.float64]]]:
        """All measurements of the queries of a level: for some units at a time the number of a query, the units, what
        was measured (units x cells), and the inverse of the variance of each unit's noise."""


def descend(problem: TopDownProblem, job: Job, evidence: Evidence) -> None:
    """Estimates of every level into the folders of the run, whole files only; what is there already stays.

    Args:
        problem: Strategy, frame and spine of the release.
        job: Engine, workspace, plan and progress of the run. Estimates go to :func:`estimates_folder`: ``unit``,
            ``cell`` and ``n``, where n is not zero.
        evidence: Where measurements and known totals come from.
    """
    limits, narrow = problem.limits, job.workspace.measured / NARROWED
    if not _may_clash(problem):
        _descend(problem, job, evidence, limits)
        return
    if not narrow.exists():
        try:
            _descend(problem, job, evidence, limits)
            return
        except _CLASHES:
            # Known totals beside limits have left a parent whose counts no children add up to. It is found the same
            # way at every try, so that the note may come last.
            for level in problem.spine.levels:
                shutil.rmtree(estimates_folder(job.workspace, level), ignore_errors=True)
                (job.workspace.counts / f"{level.name}.nodes.parquet").unlink(missing_ok=True)
            write_text(narrow, "the limits of this descent leave room for known totals\n")
            job.progress.note("Known totals and limits clash: estimating again, with limits that leave room for both.")
    _descend(problem, job, evidence, _leaving_room(problem, evidence))


def _may_clash(problem: TopDownProblem) -> bool:
    """Whether totals are known below the root beside limits (``docs/proofs/topdown.md``, section 5)."""
    lowest = invariant_level(problem.strategy)
    return lowest not in (None, problem.spine.levels[0].name) and bool(problem.strategy.constraints.limited)


def _leaving_room(problem: TopDownProblem, evidence: Evidence) -> LevelLimits:
    """The limits of the levels above the known totals, such that units can share out whatever keeps them."""
    lowest = problem.spine.level(str(invariant_level(problem.strategy)))
    known = evidence.totals(lowest)
    assert known is not None, "there are totals on this level"
    _, first, together = np.unique(known.column("cell").to_numpy(), return_index=True, return_inverse=True)
    together = together.reshape(-1)
    totals = known.column("n").to_numpy()[first]
    boxes: dict[str, tuple[Integers, Integers]] = {}
    for name, (least, largest) in problem.limits(lowest).items():
        low, high = (np.zeros((len(totals), least.shape[1]), np.int64) for _ in range(2))
        np.add.at(low, together, least)
        # Nobody can have more than the total: sums stay far below the largest number.
        np.add.at(high, together, np.minimum(largest, totals[together][:, None]))
        high[:, problem.impossible(name)] = 0
        boxes[name] = narrowed(low, high, totals)
    blocks = lowest.first_block[:-1][first]

    def limits(level: TopDownLevel) -> dict[str, tuple[Integers, Integers]]:
        names = problem.spine.names
        if names.index(level.name) >= names.index(lowest.name):
            return problem.limits(level)
        unit = problem.spine.unit_of_block(level.name)[blocks]
        result = {}
        for name, sides in boxes.items():
            summed = [np.zeros((level.units, side.shape[1]), np.int64) for side in sides]
            for side, into in zip(sides, summed, strict=True):
                np.add.at(into, unit, side)
            result[name] = (summed[0], summed[1])
        return result

    return limits


def _descend(problem: TopDownProblem, job: Job, evidence: Evidence, limits: LevelLimits) -> None:
    below_of: Mapping[str, LevelLaws] = {}
    if problem.evidence_levels:
        below_of = gather(problem, job, evidence)
    # The root has no parent: every cell may be positive, and its total may be an invariant.
    (asked_root, root), *below = problem.levels()
    if below_of:
        asked_root = with_limited_first(problem.strategy, asked_root)
    into = estimates_folder(job.workspace, root)
    with job.progress.stage(f"Estimating {root.name}", 1) as advance:
        if not (into / "00000000.parquet").exists():
            private_folder(into)
            estimated = _estimate_root(problem, evidence, asked_root, root, limits, below_of.get(root.name))
            write_parquet(estimated, into / "00000000.parquet")
        advance(1)
    above = root
    # Then level by level: the estimates above are final before anything below is measured.
    for level_strategy, level in below:
        rows, laws = job.workspace.counts / f"{level.name}.nodes.parquet", below_of.get(level.name)
        groups = _groups(above)
        if not rows.exists():
            _write_nodes(job, evidence, above, level, groups, limits, rows, laws)
        # One function for the level, mapped over groups of parents by whatever engine there is.
        rules = _rules(problem, level_strategy, laws)
        function: GroupFunction = EstimateFromLaws(rules)
        if laws is None or not laws.passes:
            function = evidence.function(level_strategy, level, rules)
        numbers = np.unique(groups).tolist()
        with job.progress.stage(f"Estimating {level.name}", len(numbers)) as advance:
            job.engine.map_groups(
                function, rows, "part", numbers, estimates_folder(job.workspace, level), advance=advance
            )
        above = level


def estimates_folder(workspace: Workspace, level: TopDownLevel) -> Path:
    """Where the estimates of a level are."""
    return workspace.measured / level.name


def _rules(problem: TopDownProblem, level_strategy: LevelStrategy, laws: LevelLaws | None = None) -> NodeRules:
    estimation = level_strategy.estimation
    names = {name for step in estimation.least_squares for name in (*step.queries, *step.constrain)}
    groups = {name: problem.cell_groups(name) for name in sorted(names | set(estimation.chain))}
    constraints = problem.strategy.constraints
    return NodeRules(
        estimation.least_squares,
        float(estimation.slack),
        estimation.rounding,
        groups,
        frozenset(name for name in estimation.chain if problem.strategy.query(name).cells == problem.cells),
        {name: problem.cell_groups(name) for name in constraints.limited},
        constraints.zero_cells(problem.strategy.schema),
        None if laws is None else laws.sectors,
        () if laws is None else laws.passes,
        bool(problem.evidence_levels) and level_strategy is problem.strategy.levels[-1],
        estimation.interleaved,
    )


def _estimate_root(
    problem: TopDownProblem,
    evidence: Evidence,
    level_strategy: LevelStrategy,
    root: TopDownLevel,
    limits_of: LevelLimits,
    below: LevelLaws | None,
) -> pa.Table:
    """The root: every cell may be positive, and the total is what the invariants say."""
    support = np.arange(problem.cells)
    measured, total = evidence.root(level_strategy, root)
    limits = {name: Limits(least.T, largest.T) for name, (least, largest) in limits_of(root).items()}
    node = EstimationNode(support, None, measured, limits, 1, total)
    if below is not None:
        laws, unit = below.of_root(), np.zeros(1, np.int64)
        node = replace(node, laws=laws.of(unit, support), total_law=laws.total(unit, len(support)))
    with threadpool_limits(1):
        counts, tally = estimate(node, _rules(problem, level_strategy))
    positive = np.flatnonzero(counts[:, 0])
    return estimates_table(np.stack([np.zeros(len(positive), np.int64), positive, counts[positive, 0]], axis=1), tally)


def _groups(parents: TopDownLevel) -> np.ndarray[Any, Any]:
    """For each parent the number of its group: consecutive parents with about so many children in all."""
    return parents.first_child[:-1] // CHILDREN_PER_GROUP


def _write_nodes(
    job: Job,
    evidence: Evidence,
    above: TopDownLevel,
    level: TopDownLevel,
    groups: np.ndarray[Any, Any],
    limits_of: LevelLimits,
    into: Path,
    laws: LevelLaws | None,
) -> None:
    """The rows that the function of a level takes, for every parent."""
    children = private_folder(job.workspace.counts) / f"{level.name}.children.parquet"
    units = np.arange(level.units)
    columns = {"part": groups[level.parent], "parent": level.parent, "unit": units, "cell": level.shares.index}
    write_parquet(pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}), children)
    # Where laws of cells are the objective of every pass, nothing else of the children is looked at.
    with_laws = laws is not None and bool(laws.passes)
    of_evidence, rows = ({}, "") if with_laws else evidence.rows(level)
    sources = {"children": children, "estimates": estimates_folder(job.workspace, above), **of_evidence}
    listed = evidence.listed or with_laws
    blank = NO_VALUES if listed else ""
    selects = [
        f"SELECT part, {RowKind.CHILD:d} AS kind, parent, unit, cell, CAST(0 AS BIGINT) AS n{blank} FROM children",
        *([rows] if rows else []),
        f"SELECT part, {RowKind.PARENT:d}, parent, estimates.unit, estimates.cell, n{blank} FROM estimates JOIN "
        "(SELECT DISTINCT part, parent FROM children) AS parents ON estimates.unit = parents.parent",
    ]

    def joined(name: str, kind: RowKind, table: pa.Table) -> None:
        sources[name] = job.workspace.counts / f"{level.name}.{name}.parquet"
        write_parquet(table, sources[name])
        selects.append(
            f"SELECT part, {kind:d}, parent, {name}.unit, {name}.cell, n{blank} FROM {name} JOIN children USING (unit)"
        )

    limits = limits_of(level)
    for kind, side in ((RowKind.LEAST, 0), (RowKind.LARGEST, 1)) if limits else ():
        values = np.concatenate([sides[side] for sides in limits.values()], axis=1)
        flat = {
            "unit": np.repeat(units, values.shape[1]),
            "cell": np.tile(np.arange(values.shape[1]), level.units),
            "n": values.ravel(),
        }
        joined(kind.name.lower(), kind, pa.table(flat))
    totals = evidence.totals(level)
    if totals is not None:
        joined("invariant", RowKind.INVARIANT, totals)
    if laws is not None:
        sources["total_law"] = laws.totals
        selects.append(
            f"SELECT part, {RowKind.TOTAL_LAW:d}, parent, total_law.unit, total_law.cell, n{blank} FROM total_law "
            "JOIN children USING (unit)"
        )
    if laws is not None and with_laws:
        sources |= {"laws": laws.laws, "matrices": laws.matrices}
        selects += [
            f"SELECT part, {RowKind.LAW:d}, parent, laws.unit, laws.cell, CAST(0 AS BIGINT), laws.value FROM laws "
            "JOIN children USING (unit)",
            f"SELECT part, {RowKind.INFORMATION:d}, parent, CAST(-1 AS BIGINT), matrices.kind, matrices.cell, "
            "matrices.value FROM matrices JOIN (SELECT part, laws.cell AS kind, min(parent) AS parent FROM laws "
            "JOIN children USING (unit) GROUP BY part, laws.cell) AS used USING (kind)",
        ]
    size = LISTED_ROWS if listed else None
    job.engine.write(" UNION ALL ".join(selects) + " ORDER BY part", into, rows_per_group=size, **sources)


# How the estimates came about, level by level, for the manifest: what the solvers did, and what they could not prove.
#
# The tallies travel with the estimates (``TALLY``). They follow from measurements, frame and strategy alone,
# as the estimates do, so publishing them is post-processing and costs nothing. Numbers are added and the largest of
# several is taken; so neither groups, nor processes, nor an interruption shows. The gap is given as a power of ten,
# because the last digits of a gap are rounding errors, which differ between machines.


COPIED = "copied"
"""An only child, or the children of an empty parent: there was nothing to estimate."""
DUAL_NEWTON = SolveOutcome.DUAL_NEWTON.value
OUTCOMES = (COPIED, *(outcome.value for outcome in SolveOutcome))


def read_statistics(folders: Mapping[str, Path]) -> dict[str, Any]:
    """The tallies of every level from its folder of estimates, and their sum."""
    tallies = {name: [_tally(file) for file in sorted(folder.glob("*.parquet"))] for name, folder in folders.items()}
    everything = [tally for of_level in tallies.values() for tally in of_level]
    # The method for full tables is named where it was used.
    unused = () if any(DUAL_NEWTON in tally["least_squares"] for tally in everything) else (DUAL_NEWTON,)
    outcomes = [outcome for outcome in OUTCOMES if outcome not in unused]
    levels = {name: _added(of_level, outcomes) for name, of_level in tallies.items()}
    return {"levels": levels, "whole": _added(everything, outcomes)}


def solver_check(statistics: Mapping[str, Any]) -> Check:
    """Says how many least-squares problems were solved, and how many of them without a proof.

    An estimate whose optimality was not proved keeps every promise that is made exactly; it may be a little less
    accurate than it could be. So the manifest says it, and the release is what it says all the same.
    """
    levels, overall = statistics["levels"], statistics["whole"]
    parts = [
        {outcome: level["least_squares"][outcome] for outcome in overall["least_squares"]} | {"nodes": level["nodes"]}
        for level in (*levels.values(), overall)
    ]
    adds_up = all(sum(part[key] for part in parts[:-1]) == parts[-1][key] for key in parts[-1])
    return Check(
        "least squares", adds_up, solver_words(overall) if adds_up else "the levels do not add up to the whole"
    )


def solver_words(overall: Mapping[str, Any], text: Messages | None = None) -> str:
    """One line on the proofs of optimality, in English unless other messages are given."""
    m = text or messages()
    solved, inexact, gap = (
        problems(overall),
        overall["least_squares"][SolveOutcome.INEXACT.value],
        overall["relative_gap_at_most"],
    )
    gap_text = "" if gap is None else f"{gap:.0e}".replace("e-0", "e-").replace("e+0", "e+")
    if not inexact:
        return m.text("certificate.solved_all", number=solved, gap=gap_text)
    proved = m.text("certificate.solved_no_gap" if gap is None else "certificate.solved_gap", gap=gap_text)
    return m.text("certificate.solved_some", inexact=inexact, number=solved, proved=proved)


def problems(overall: Mapping[str, Any]) -> int:
    """How many least-squares problems there were."""
    return sum(int(number) for outcome, number in overall["least_squares"].items() if outcome != COPIED)


def _tally(file: Path) -> dict[str, Any]:
    tally: dict[str, Any] = json.loads(pq.read_schema(file).metadata[TALLY])
    return tally


def _added(tallies: Iterable[Mapping[str, Any]], outcomes: Sequence[str]) -> dict[str, Any]:
    parts = list(tallies)
    unknown = {outcome for tally in parts for outcome in tally["least_squares"]} - set(OUTCOMES)
    assert not unknown, f"outcomes that are not counted: {unknown}"
    roundings = [tally["rounding"] for tally in parts]
    return {
        "nodes": sum(tally["nodes"] for tally in parts),
        "least_squares": {o: sum(tally["least_squares"].get(o, 0) for tally in parts) for o in outcomes},
        "fallbacks": sum(tally["fallbacks"] for tally in parts),
        "relative_gap_at_most": power_of_ten(max((tally["largest_gap"] for tally in parts), default=0.0)),
        "rounding": {
            "outcomes": {
                o.value: sum(rounding["outcomes"][o.value] for rounding in roundings) for o in RoundingOutcome
            },
            **{key: sum(rounding[key] for rounding in roundings) for key in ("open_cells", "pivots", "distance")},
            "largest_gap": max((rounding["largest_gap"] for rounding in roundings), default=0.0),
        },
    }


def power_of_ten(gap: float) -> float | None:
    """The least power of ten that a gap does not exceed, never below what is accepted as proved; None for no bound."""
    if gap <= GAP:
        return GAP
    if not math.isfinite(gap):
        return None
    exponent = Decimal(gap).adjusted()
    power = float(f"1e{exponent}")
    return power if gap <= power else float(f"1e{exponent + 1}")
