"""The plan of a SafeTab-P release: generalised parallel composition, level by level.

A level has two kinds of groups. Those with a total alone are measured once; the others twice, first for the choice of a
table and then for the table. Either way a group costs ``budget / s``, and a record is in at most s groups of the level,
so the level costs its budget (Lemma 2). Levels compose one after the other; no record is in both passes. Under changed
records everything costs twice as much (Theorem 2). Proof: ``docs/proofs/safetab.md``.
"""

from __future__ import annotations

from typing import Any

from confide.mechanisms.safetab.problem import GroupLevel, SafeTabQuestion
from confide.mechanisms.safetab.settings import AGE_23, ITERATION_LEVELS
from confide.noise import SPARSE_LAYOUT, TwoStageRule, fits_table
from confide.privacy import Neighbours, budget_of
from confide.releases.plan import Family, Plan, PlannedMeasurement

# Empty groups: what happens to a group that nobody is in, and whether such groups are drawn one by one.
#
# Where suppression makes it rare that an empty group is published, only the published ones are drawn
# (:mod:`confide.noise.sparse`): the law is the same. Which way is taken follows from public settings alone, and
# stands in the plan.


MOST_SURVIVORS = 1 / 16
"""If an empty group is published more often than this, all groups are drawn one by one."""

ONE_BY_ONE = "one by one"


def empty_rule(level: GroupLevel) -> TwoStageRule:
    """What happens to a group of the level that has nobody in it."""
    assert level.suppressed_up_to is not None
    return TwoStageRule(level.first, level.settings.thresholds, level.second, level.suppressed_up_to)


def is_sparse(level: GroupLevel) -> bool:
    """Whether empty groups of the level are drawn by the sparse method: they are suppressed, and rarely published.

    Noise that is too wide for a table is drawn group by group.
    """
    if level.suppressed_up_to is None or level.total_only.any() or not fits_table(level.second):
        return False
    return empty_rule(level).survival() < MOST_SURVIVORS


def way(level: GroupLevel) -> str:
    """How the empty groups of a level are drawn, for the plan."""
    return SPARSE_LAYOUT if is_sparse(level) else ONE_BY_ONE


CHOICE, TABLE, TOTAL_ONLY = "choice of table", "table", "total-only groups"
"""The measurements of a level: stage 1, stage 2, and the total of groups that get nothing else."""

CODES = "race and ethnicity"
SPINES = {False: ("USA", "STATE", "COUNTY", "TRACT", "block"), True: ("PR-STATE", "PR-COUNTY", "PR-TRACT", "block")}


def query_key(level: GroupLevel, query: str) -> str:
    """The name of a measurement in the plan and in its noise stream, such as ``detailed: table``."""
    return f"{ITERATION_LEVELS[level.settings.iteration_level]}: {query}"


def plan_safetab(name: str, question: SafeTabQuestion) -> Plan:
    """Every measurement with its noise and its price."""
    measures: list[PlannedMeasurement] = []
    families: list[Family] = []
    paths: dict[bool, list[int]] = {}
    for level in question.levels:
        added, family = _level(level, question, len(measures))
        paths.setdefault(level.settings.of_puerto_rico, []).extend(range(len(measures), len(measures) + len(added)))
        measures += added
        families.append(family)
    return Plan(
        mechanism=name,
        neighbours=Neighbours.ADD_REMOVE,
        definition=question.settings.definition,
        measures=tuple(measures),
        spine=SPINES[next(iter(paths))] if len(paths) == 1 else (),
        question=_facts(question),
        paths=tuple(tuple(path) for path in paths.values()) if len(paths) > 1 else (),
        families=tuple(families),
    )


def _level(level: GroupLevel, question: SafeTabQuestion, number: int) -> tuple[list[PlannedMeasurement], Family]:
    """The measurements of a level, the first of which gets ``number``, and how they share records."""
    definition, region = question.settings.definition, level.settings.region_type
    budget, first = level.settings.budget, question.settings.stage_1_fraction
    adaptive, total_only = level.adaptive, level.groups - level.adaptive
    measures: list[PlannedMeasurement] = []
    members: list[tuple[int, ...]] = []
    copies: list[int] = []
    if adaptive:
        measures += [
            PlannedMeasurement(
                region,
                query_key(level, CHOICE),
                adaptive,
                1,
                level.first,
                budget_of(definition, budget * first),
                (CODES,),
            ),
            PlannedMeasurement(
                region,
                query_key(level, TABLE),
                adaptive,
                AGE_23.cells,
                level.second,
                budget_of(definition, budget * (1 - first)),
                ("age", "sex", CODES),
            ),
        ]
        members.append((number, number + 1))
        copies.append(adaptive)
    if total_only:
        key, loss = query_key(level, TOTAL_ONLY), budget_of(definition, budget)
        members.append((number + len(measures),))
        copies.append(total_only)
        measures.append(PlannedMeasurement(region, key, total_only, 1, level.total, loss, (CODES,)))
    return measures, Family(level.stability, tuple(members), tuple(copies))


def _facts(question: SafeTabQuestion) -> dict[str, Any]:
    """What else decides the output. All of it is public."""
    settings, output = question.settings, question.spec.output
    return {
        "record": "person",
        "attributes": {CODES: "race and ethnicity codes"},
        "codes": question.lists.fingerprint,
        "geography": question.regions.fingerprint,
        "states": list(settings.states),
        "puerto_rico": settings.puerto_rico,
        "max_race_codes": settings.max_race_codes,
        "stage_1_fraction": str(settings.stage_1_fraction),
        "zero_suppression": str(settings.zero_suppression),
        "negative_counts": settings.negative_counts,
        "coterminous": [
            [[kind, question.regions.areas[kind][number]] for kind, number in areas] for areas in question.coterminous
        ],
        "tabulation_suppression": output.tabulation_suppression,
        "noise_margin": None if output.noise_margin is None else str(output.noise_margin),
        "levels": {level.name: _level_facts(level) for level in question.levels},
    }


def _level_facts(level: GroupLevel) -> dict[str, Any]:
    return {
        "region_type": level.settings.region_type,
        "iteration_level": level.settings.iteration_level,
        "areas": level.areas,
        "iterations": len(level.iterations),
        "total_only_iterations": int(level.total_only.sum()),
        "budget": str(level.settings.budget),
        "stability": level.stability,
        "thresholds": list(level.settings.thresholds),
        "suppressed_up_to": level.suppressed_up_to,
        "empty_groups": way(level),
    }
