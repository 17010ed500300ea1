"""Made-up records of a programme of tables, for rehearsals and for trials of an audit: from schema and frame alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.inputs.made_up import MeasuredCells, RecordForm
from confide.inputs.records import blocks_apart, twins_of
from confide.mechanisms.tables.mechanism import COUNT, measured_folder
from confide.mechanisms.tables.programme import TablesProblem
from confide.privacy import Neighbours
from confide.releases.abilities import MadeUpRecords, TrialAudit, TrialCounts
from confide.releases.mechanism import Job, NoiseSource


class TablesRehearsal(MadeUpRecords[TablesProblem]):
    """Records in the blocks of the frame, with the attributes of the schema."""

    def record_form(self, problem: TablesProblem) -> RecordForm:
        schema, block = problem.schema, problem.spec.geography.block
        form = RecordForm.on_spine(problem.attributes, schema.variables, block, problem.spine)
        order = problem.spine.blocks.unit_of_block.argsort()
        measured = [
            MeasuredCells(level.unit_of_block[order], table.query.variables)
            for table in problem.tables
            for level in table.levels
        ]
        return replace(form, measured=measured)


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
                parts = mapped[measured_folder(job.workspace, table, level)]
                counts = np.concatenate([part.column(COUNT).to_numpy() for part in parts]).reshape(level.units, -1)
                begin = 0
                for margin in table.margins:
                    planned = job.plan.measure(level.name, problem.query_key(table, margin))
                    values = counts[:, begin : begin + margin.cells].ravel()
                    yield TrialCounts(level.name, planned.query, planned.law, np.arange(len(values)), values)
                    begin += margin.cells
