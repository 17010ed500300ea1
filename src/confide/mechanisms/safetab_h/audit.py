"""Audits of SafeTab-H: trials on made-up households; and made-up households for rehearsals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from confide.inputs.made_up import Canaries, MadeUpPeople, RecordForm, require_room
from confide.mechanisms.safetab.made_up import (
    BLOCK,
    GroupWeights,
    best_codes,
    block_columns,
    block_costs,
    blocks_apart,
    coded_columns,
    codes_within,
)
from confide.mechanisms.safetab.records import LAST_CENRACE
from confide.mechanisms.safetab_h.measure import measured_folder
from confide.mechanisms.safetab_h.problem import SafeTabHProblem, query_key
from confide.mechanisms.safetab_h.records import HOUSEHOLD_COLUMNS, TENURE, TYPE
from confide.mechanisms.safetab_h.settings import TABLES, TENURES, TYPES
from confide.releases.abilities import SILENT, MadeUpRecords, TrialAudit, TrialCounts
from confide.releases.mechanism import Job, NoiseSource
from confide.releases.plan import Plan
from confide.schema import Attribute, Level

MARRIED = {"HHRACE": "01", TYPE: "1", TENURE: "1"}
"""A made-up household, but for block and codes: it is in the first cell of every table."""


class SafeTabHRehearsal(MadeUpRecords[SafeTabHProblem]):
    """Households of every type, tenure and code, each alike."""

    def record_form(self, problem: SafeTabHProblem) -> RecordForm:
        """Types, tenures and codes of the lists, each alike; areas by the names of the region types."""
        regions, codes = problem.regions, problem.lists.codes
        columns: dict[str, Iterable[str]] = {
            "HHRACE": (f"{number:02d}" for number in range(1, LAST_CENRACE + 1)),
            TYPE: map(str, range(1, TYPES + 1)),
            TENURE: map(str, range(1, TENURES + 1)),
            "QRACE1": codes,
            "QSPAN": codes,
        }
        attributes = tuple(
            Attribute(name, name, tuple(Level(str(code), str(code)) for code in values))
            for name, values in columns.items()
        )
        areas = {name: (identifiers, regions.numbers(name)) for name, identifiers in regions.areas.items()}
        return RecordForm(attributes, {}, BLOCK, regions.blocks.column("code").to_pylist(), areas)

    def made_up_people(self, problem: SafeTabHProblem, people: MadeUpPeople) -> pa.Table:
        """Every column of the layout, all of it text; some householders have a second race code."""
        columns, theirs = coded_columns(problem.lists.codes, people), problem.records.theirs
        return pa.table({theirs(name): columns[name] for name in HOUSEHOLD_COLUMNS})


class SafeTabHAudit(TrialAudit[SafeTabHProblem]):
    """Households that count in many groups."""

    def made_up_records(self, problem: SafeTabHProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        """Every household is a married couple that owns, in one block, with the same codes: so in every table that a
        group may have, the first cell has all that are in the group."""
        block = block_columns(problem.regions, int(block_costs(problem.regions, _budgets(problem)).argmax()))
        codes = best_codes(problem.lists, problem.settings.max_race_codes, _weights(problem))
        household = MARRIED | block | codes
        one = pa.table({name: [household[name]] for name in HOUSEHOLD_COLUMNS})
        return one.take([0] * (1 + twins)), one

    def made_up_canaries(self, problem: SafeTabHProblem, number: int) -> Canaries:
        """The same households in blocks of different areas, the first in the costliest one."""
        largest = max(problem.levels, key=lambda level: level.areas).region_type
        blocks = blocks_apart(problem.regions, largest, block_costs(problem.regions, _budgets(problem)))
        codes = codes_within(problem.lists, problem.settings.max_race_codes, _weights(problem))
        require_room(number, len(blocks), len(codes))
        households = []
        for k in range(number):
            turn, block = divmod(k, len(blocks))
            households.append(MARRIED | blocks[block] | codes[(block + turn) % len(codes)])
        heads = pa.table({name: [each[name] for each in households] for name in HOUSEHOLD_COLUMNS})
        return Canaries(heads, heads, None)

    def silenced(self, problem: SafeTabHProblem, plan: Plan) -> tuple[SafeTabHProblem, Plan]:
        levels = tuple(
            replace(level, tables={name: replace(each, law=SILENT) for name, each in level.tables.items()})
            for level in problem.levels
        )
        return replace(problem, levels=levels), super().silenced(problem, plan)[1]

    def trial_counts(
        self, problem: SafeTabHProblem, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        """The first measured cell of each group, by table."""
        self.mechanism.measure(problem, job, noise)
        for level in problem.levels:
            rows = pa.concat_tables(mapped[measured_folder(job.workspace, level)])
            table, group, cell, count = (rows.column(each).to_numpy() for each in ("table", "group", "cell", "count"))
            for made, tables in level.measured():
                seen = np.flatnonzero((table == TABLES.index(made)) & (cell == 0))
                query = query_key(level.settings, made)
                yield TrialCounts(level.region_type, query, tables.law, group[seen], count[seen])


def _budgets(problem: SafeTabHProblem) -> dict[str, float]:
    """What the levels of each type of area cost together."""
    budgets: dict[str, float] = {}
    for level in problem.levels:
        budgets[level.region_type] = budgets.get(level.region_type, 0.0) + float(sum(level.settings.budgets))
    return budgets


def _weights(problem: SafeTabHProblem) -> GroupWeights:
    """For each level its iterations, and what a group of it costs."""
    return [(level.iterations, float(sum(level.settings.budgets)) / level.stability) for level in problem.levels]
