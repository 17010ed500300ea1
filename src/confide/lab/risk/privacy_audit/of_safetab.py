"""Trials of ``safetab`` and ``safetab-h``: neighbours who count in many groups, and what is measured of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from confide.arrays import Floats
from confide.lab.risk.privacy_audit.trials import SILENT, Canaries, TrialAudit, TrialCounts, require_room
from confide.mechanisms.safetab.made_up import (
    GroupWeights,
    best_codes,
    block_columns,
    block_costs,
    blocks_apart,
    codes_within,
)
from confide.mechanisms.safetab.output.publish import measured_folder
from confide.mechanisms.safetab.problem import SafeTabProblem, query_key
from confide.mechanisms.safetab.records import PERSON_COLUMNS
from confide.mechanisms.safetab.settings import TABLE, TOTAL_ONLY
from confide.mechanisms.safetab_h import measure as households_measured
from confide.mechanisms.safetab_h import problem as households_problem
from confide.mechanisms.safetab_h.problem import SafeTabHProblem
from confide.mechanisms.safetab_h.records import HOUSEHOLD_COLUMNS, TENURE, TYPE
from confide.mechanisms.safetab_h.settings import TABLES
from confide.releases import Job, NoiseSource, Plan


class SafeTabAudit(TrialAudit[SafeTabProblem]):
    """Persons who count in many groups, none of which is suppressed."""

    def made_up_records(self, problem: SafeTabProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        """Everybody is a boy below 5 in one block, with the same codes: so in every table that a group may get, the
        first cell has all that are in the group. There are so many of them that no group is suppressed."""
        block = block_columns(problem.regions, int(_block_costs(problem).argmax()))
        person = BOY | block | best_codes(problem.lists, problem.settings.max_race_codes, _weights(problem))
        base = _never_suppressed(problem)
        one = pa.table({name: [person[name]] for name in PERSON_COLUMNS})
        return one.take([0] * (base + twins)), one.take([0] * base)

    def made_up_canaries(self, problem: SafeTabProblem, number: int) -> Canaries:
        """The same boys in blocks of different areas, the first in the costliest one. So many are always there that no
        group of a canary is suppressed."""
        largest = max(problem.levels, key=lambda level: level.areas).region_type
        blocks = blocks_apart(problem.regions, largest, _block_costs(problem))
        codes = codes_within(problem.lists, problem.settings.max_race_codes, _weights(problem))
        require_room(number, len(blocks), len(codes))
        people = []
        for k in range(number):
            turn, block = divmod(k, len(blocks))
            people.append(BOY | blocks[block] | codes[(block + turn) % len(codes)])
        heads = pa.table({name: [person[name] for person in people] for name in PERSON_COLUMNS})
        return Canaries(heads.take(np.repeat(np.arange(number), _never_suppressed(problem))), heads, None)

    def silenced(self, problem: SafeTabProblem, plan: Plan) -> tuple[SafeTabProblem, Plan]:
        levels = tuple(replace(level, first=SILENT, second=SILENT, total=SILENT) for level in problem.levels)
        return replace(problem, levels=levels), super().silenced(problem, plan)[1]

    def trial_counts(
        self, problem: SafeTabProblem, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        """The counts of the second stage. The total that chooses a table is seen by nobody."""
        self.mechanism.measure(problem, job, noise)
        for level in problem.levels:
            rows = pa.concat_tables(mapped[measured_folder(job.workspace, level)])
            cell, group, count = (rows.column(name).to_numpy() for name in ("cell", "group", "count"))
            total_only = level.total_only[group % len(level.iterations)]
            for query, law, chosen in ((TABLE, level.second, ~total_only), (TOTAL_ONLY, level.total, total_only)):
                seen = np.flatnonzero(chosen & (cell == 0))
                region = level.settings.region_type
                yield TrialCounts(region, query_key(level, query), law, group[seen], count[seen])


BOY = {"QAGE": "0", "QSEX": "1", "HOUSEHOLDER": "False", "CENRACE": "01"}
"""A made-up person, but for block and codes."""


def _never_suppressed(problem: SafeTabProblem) -> int:
    """So many in a group, and it is published whatever the noise."""
    far = max(int(10 * level.second.variance() ** 0.5) for level in problem.levels)
    return far + max(level.suppressed_up_to or 0 for level in problem.levels) + 1


def _block_costs(problem: SafeTabProblem) -> Floats:
    """For each block what the levels cost that it lies in an area of."""
    budgets: dict[str, float] = {}
    for level in problem.levels:
        budgets[level.region_type] = budgets.get(level.region_type, 0.0) + float(level.settings.budget)
    return block_costs(problem.regions, budgets)


def _weights(problem: SafeTabProblem) -> GroupWeights:
    """For each level its iterations, and what a group of it costs."""
    return [(level.iterations, float(level.settings.budget) / level.stability) for level in problem.levels]


MARRIED = {"HHRACE": "01", TYPE: "1", TENURE: "1"}
"""A made-up household, but for block and codes: it is in the first cell of every table."""


class SafeTabHAudit(TrialAudit[SafeTabHProblem]):
    """Households that count in many groups."""

    def made_up_records(self, problem: SafeTabHProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        """Every household is a married couple that owns, in one block, with the same codes: so in every table that a
        group may have, the first cell has all that are in the group."""
        block = block_columns(problem.regions, int(block_costs(problem.regions, _h_budgets(problem)).argmax()))
        codes = best_codes(problem.lists, problem.settings.max_race_codes, _h_weights(problem))
        household = MARRIED | block | codes
        one = pa.table({name: [household[name]] for name in HOUSEHOLD_COLUMNS})
        return one.take([0] * (1 + twins)), one

    def made_up_canaries(self, problem: SafeTabHProblem, number: int) -> Canaries:
        """The same households in blocks of different areas, the first in the costliest one."""
        largest = max(problem.levels, key=lambda level: level.areas).region_type
        blocks = blocks_apart(problem.regions, largest, block_costs(problem.regions, _h_budgets(problem)))
        codes = codes_within(problem.lists, problem.settings.max_race_codes, _h_weights(problem))
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
            rows = pa.concat_tables(mapped[households_measured.measured_folder(job.workspace, level)])
            table, group, cell, count = (rows.column(each).to_numpy() for each in ("table", "group", "cell", "count"))
            for drawn, tables in level.measured():
                seen = np.flatnonzero((table == TABLES.index(drawn)) & (cell == 0))
                query = households_problem.query_key(level.settings, drawn)
                yield TrialCounts(level.region_type, query, tables.law, group[seen], count[seen])


def _h_budgets(problem: SafeTabHProblem) -> dict[str, float]:
    """What the levels of each type of area cost together."""
    budgets: dict[str, float] = {}
    for level in problem.levels:
        budgets[level.region_type] = budgets.get(level.region_type, 0.0) + float(sum(level.settings.budgets))
    return budgets


def _h_weights(problem: SafeTabHProblem) -> GroupWeights:
    """For each level its iterations, and what a group of it costs."""
    return [(level.iterations, float(sum(level.settings.budgets)) / level.stability) for level in problem.levels]
