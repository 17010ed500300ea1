"""Trials of ``tables``, ``topdown`` and ``safetab``: their made-up neighbours, and what is measured of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from confide.confidential import Confidential
from confide.engines import Source
from confide.lab.risk.privacy_audit.trials import (
    SILENT,
    Canaries,
    TrialAudit,
    TrialCounts,
    blocks_apart,
    require_room,
    twins_of,
)
from confide.mechanisms.safetab.codes import iterations_of
from confide.mechanisms.safetab.output import publish as safetab
from confide.mechanisms.safetab.problem import SafeTabProblem, query_key
from confide.mechanisms.safetab.records import CODE_COLUMNS, NULL, PERSON_COLUMNS
from confide.mechanisms.safetab.regions import BLOCK_COLUMNS, DIGITS
from confide.mechanisms.safetab.settings import TABLE, TOTAL_ONLY
from confide.mechanisms.tables import mechanism
from confide.mechanisms.tables.programme import TablesProblem
from confide.mechanisms.topdown.measure import Children, TrueCounts, measure_fully
from confide.mechanisms.topdown.mechanism import DrawnEvidence, counts_file
from confide.mechanisms.topdown.problem import TopDownProblem, with_plain_records
from confide.privacy import Neighbours
from confide.releases import Job, NoiseSource, Plan
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


class SafeTabAudit(TrialAudit[SafeTabProblem]):
    """Persons who count in many groups, none of which is suppressed."""

    def made_up_records(self, problem: SafeTabProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        """Everybody is a boy below 5 in one block, with the same codes: so in every table that a group may get, the
        first cell has all that are in the group. There are so many of them that no group is suppressed."""
        person = BOY | _best_block(problem) | _best_codes(problem)
        base = _never_suppressed(problem)
        one = pa.table({name: [person[name]] for name in PERSON_COLUMNS})
        return one.take([0] * (base + twins)), one.take([0] * base)

    def made_up_canaries(self, problem: SafeTabProblem, number: int) -> Canaries:
        """The same boys in blocks of different areas, the first in the costliest one. So many are always there that no
        group of a canary is suppressed."""
        blocks, codes = _blocks_apart(problem), _codes_within(problem)
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
            rows = pa.concat_tables(mapped[safetab.measured_folder(job.workspace, level)])
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


def _block_costs(problem: SafeTabProblem) -> npt.NDArray[np.float64]:
    """For each block what the levels cost that it lies in an area of."""
    cost = np.zeros(problem.regions.blocks.num_rows)
    for level in problem.levels:
        cost += float(level.settings.budget) * (problem.regions.numbers(level.settings.region_type) >= 0)
    return cost


def _best_block(problem: SafeTabProblem) -> dict[str, str]:
    """The block that lies in areas of the costliest levels, as columns of a person record."""
    return _block_columns(problem, int(_block_costs(problem).argmax()))


def _blocks_apart(problem: SafeTabProblem) -> list[dict[str, str]]:
    """One block for each area of the level with most areas, from the block that lies in areas of the costliest levels
    on."""
    cost = _block_costs(problem)
    level = max(problem.levels, key=lambda level: level.areas)
    areas = problem.regions.numbers(level.settings.region_type)
    order = np.argsort(-cost, kind="stable")
    order = order[areas[order] >= 0]
    _, first = np.unique(areas[order], return_index=True)
    return [_block_columns(problem, int(block)) for block in order[np.sort(first)]]


def _codes_within(problem: SafeTabProblem) -> list[dict[str, str]]:
    """The race and ethnicity codes of the person who counts in many groups, and of those with another first code who
    count in no more of any level."""
    best, codes = _best_codes(problem), [str(code) for code in problem.lists.codes]
    tried = pa.table({name: [best[name]] * (len(codes) + 1) for name in CODE_COLUMNS})
    tried = tried.set_column(tried.column_names.index("QRACE1"), "QRACE1", pa.array([best["QRACE1"], *codes]))
    counted = iterations_of(problem.lists, tried, problem.settings.max_race_codes)
    pattern, iteration = (counted.column(name).to_numpy() for name in ("pattern", "iteration"))
    of_level = (pattern[np.isin(iteration, level.iterations)] for level in problem.levels)
    counts = np.stack([np.bincount(patterns, minlength=len(codes) + 1) for patterns in of_level])
    within = np.flatnonzero((counts <= counts[:, :1]).all(axis=0) & counts.any(axis=0))[1:]
    others = {codes[place - 1]: best | {"QRACE1": codes[place - 1]} for place in within.tolist()}
    return list(({best["QRACE1"]: best} | others).values())


def _block_columns(problem: SafeTabProblem, block: int) -> dict[str, str]:
    code, columns = str(problem.regions.blocks.column("code")[block]), {}
    for name in BLOCK_COLUMNS:
        columns[name], code = code[: DIGITS[name]], code[DIGITS[name] :]
    return columns


def _best_codes(problem: SafeTabProblem) -> dict[str, str]:
    """The race and ethnicity codes of a person who counts in many groups: one code after the other, each the best."""
    codes = np.array(problem.lists.codes)
    chosen = dict.fromkeys(CODE_COLUMNS, NULL) | {"QRACE1": str(codes[0]), "QSPAN": str(codes[0])}
    best = -1.0
    for column in ("QRACE1", "QSPAN", *CODE_COLUMNS[1 : problem.settings.max_race_codes]):
        tried = pa.table({name: pa.array([value] * len(codes)) for name, value in chosen.items()})
        tried = tried.set_column(tried.column_names.index(column), column, pa.array(codes.tolist()))
        counted = iterations_of(problem.lists, tried, problem.settings.max_race_codes)
        pattern, iteration = (counted.column(name).to_numpy() for name in ("pattern", "iteration"))
        cost = np.zeros(len(codes))
        for level in problem.levels:
            here = pattern[np.isin(iteration, level.iterations)]
            cost += float(level.settings.budget) / level.stability * np.bincount(here, minlength=len(codes))
        if cost.max() <= best:
            if column != "QSPAN":
                break
            continue
        best, chosen[column] = float(cost.max()), str(codes[int(cost.argmax())])
    return chosen
