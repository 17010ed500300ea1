"""Trials of ``tables`` and ``topdown``: their made-up neighbours, and what is measured of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.confidential import Confidential
from confide.engines import Source
from confide.lab.risk.privacy_audit.trials import (
    TrialAudit,
    TrialCounts,
    blocks_apart,
    twins_of,
)
from confide.mechanisms.tables import mechanism
from confide.mechanisms.tables.programme import TablesProblem
from confide.mechanisms.topdown.measure import Children, TrueCounts, measure_fully
from confide.mechanisms.topdown.mechanism import DrawnEvidence, counts_file
from confide.mechanisms.topdown.problem import TopDownProblem, with_plain_records
from confide.privacy import Neighbours
from confide.releases import Job, NoiseSource
from confide.releases.tabular import COUNT


class TablesAudit(TrialAudit[TablesProblem]):
    """Twins that differ in every table, and every measurement of the plan."""

    def made_up_records(self, problem: TablesProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        spine = problem.spine
        levels = {level.name: level for table in problem.tables for level in table.levels}
        order = spine.blocks.unit_of_block.argsort()
        first, second = blocks_apart([level.unit_of_block[order] for level in levels.values()])
        codes = [spine.blocks.codes[block] for block in (first, second)]
        people = []
        for code, place in zip(codes, (0, 1), strict=True):
            person: dict[str, Any] = {problem.spec.geography.block: code}
            for attribute in problem.attributes:
                recodes = [v for t in problem.tables for v in t.query.variables if v.attribute.name == attribute.name]
                groups = np.array([recode.assignment for recode in recodes])
                other = int((groups != groups[:, :1]).sum(axis=0).argmax())
                person[attribute.name] = attribute.levels[(0, other)[place]].code
            people.append(person)
        return twins_of(people, twins, Neighbours(problem.spec.privacy.neighbours))

    def trial_counts(
        self, problem: TablesProblem, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        self.mechanism.measure(problem, job, noise)
        for table in problem.tables:
            for level in table.levels:
                parts = mapped[mechanism.measured_folder(job.workspace, table, level)]
                counts = np.concatenate([part.column(COUNT).to_numpy() for part in parts]).reshape(level.units, -1)
                begin = 0
                for margin in table.margins:
                    planned = job.plan.measure(level.name, problem.query_key(table, margin))
                    values = counts[:, begin : begin + margin.cells].ravel()
                    yield TrialCounts(level.name, planned.query, planned.law, np.arange(len(values)), values)
                    begin += margin.cells


class TopDownAudit(TrialAudit[TopDownProblem]):
    """Twins in blocks that lie apart on every level."""

    def made_up_records(self, problem: TopDownProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        spine, attributes = problem.spine, problem.strategy.schema.attributes
        first, second = blocks_apart([spine.unit_of_block(level.name) for level in spine.levels if level.units > 1])
        people: list[dict[str, Any]] = [
            {attribute.name: attribute.levels[place].code for attribute in attributes}
            | {problem.spec.geography.block: str(spine.block_codes[block])}
            for block, place in ((first, 0), (second, -1))
        ]
        return twins_of(people, twins, problem.strategy.neighbours)

    def with_records(self, problem: TopDownProblem, records: Source) -> TopDownProblem:
        return with_plain_records(problem, records)

    def trial_counts(
        self,
        problem: TopDownProblem,
        job: Job,
        noise: NoiseSource,
        mapped: Mapping[Path, Sequence[pa.Table]],  # noqa: ARG002
    ) -> Iterator[TrialCounts]:
        """The full set of measurements of every unit that anybody is in, as it is published with
        ``output.measurements``. What a descent looks at is a part of it, drawn by the same function from the same
        streams and coordinates."""
        drawn = DrawnEvidence(problem, job.plan, noise, job.workspace)
        for level_strategy, level in problem.levels():
            rows = pq.read_table(counts_file(job.workspace, level))
            unit, cell, count = (rows.column(name).to_numpy() for name in ("unit", "cell", "n"))
            units = np.unique(unit)
            units = units[level.measured[units]]
            if not len(units):
                continue
            seen = np.isin(unit, units)
            truth = TrueCounts(np.searchsorted(units, unit[seen]), cell[seen], count[seen])
            classes = level.shares.index[units].astype(np.int64)
            asked = Children(Confidential(truth), units, classes, np.arange(problem.cells))
            measured = measure_fully(drawn.level_queries(level_strategy, level), asked)
            for query_share, values in zip(level_strategy.queries, measured, strict=True):
                cells = query_share.query.cells
                planned = iter(job.plan.laws(level.name, query_share.name))
                for share_class, share in enumerate(level.shares.table):
                    law = next(planned) if share else None
                    chosen = classes == share_class
                    if law is not None and chosen.any():
                        places = (units[chosen, None] * cells + np.arange(cells)).ravel()
                        yield TrialCounts(level.name, query_share.name, law, places, values[chosen].ravel())
