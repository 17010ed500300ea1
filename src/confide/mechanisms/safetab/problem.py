"""What is asked of the records: the universe of population groups, level by level, and the noise of each.

The universe of a level is every area of its type crossed with every characteristic iteration that is tabulated there,
whether anybody is in it or not. It comes from the geography and the code lists, never from the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.engines import Engine, Source, write_parquet
from confide.errors import Finding, SpecError
from confide.file_system import private_folder
from confide.mechanisms.safetab.code_files import CodeFiles, read_code_lists
from confide.mechanisms.safetab.codes import CodeLists, planned_iterations, stability
from confide.mechanisms.safetab.records import PERSONS, RecordLayout, check_persons
from confide.mechanisms.safetab.regions import (
    CoterminousSet,
    Regions,
    area_names_from_file,
    coterminous_from_file,
    read_regions,
)
from confide.mechanisms.safetab.settings import (
    AGE_23,
    CHOICE,
    ITERATION_LEVELS,
    NAMED_SETS,
    ON_LAND,
    TABLE,
    TOTAL_ONLY,
    GroupSettings,
    LevelName,
    LevelSettings,
    SafeTabSettings,
)
from confide.mechanisms.safetab.spec import CodedData, GroupOutput, GroupSpec, SafeTabSpec
from confide.noise import SPARSE_LAYOUT, NoiseDistribution, TwoStageRule, fits_table
from confide.privacy import Neighbours, PrivacyUnit, budget_of, calibrate
from confide.releases.mechanism import Job
from confide.releases.plan import PUBLIC_INPUTS, Family, Plan, PlannedMeasurement
from confide.releases.spec import LoadedSpec, find_sources
from confide.releases.tabular import AreaNames, noting

GROUPS_PER_PART = 1 << 22
"""How many groups are measured at a time: enough to be quick, few enough to be held."""


class AreasOfLevel:
    """The areas of a population group level, and the parts that they are measured in."""

    settings: LevelName
    areas: int
    iterations: npt.NDArray[np.int64]

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def region_type(self) -> str:
        """The type of its areas."""
        return self.settings.region_type

    @property
    def areas_per_part(self) -> int:
        """How many areas are measured at a time."""
        return max(1, GROUPS_PER_PART // len(self.iterations))

    @property
    def parts(self) -> range:
        """The parts in which the level is measured, by their first area."""
        return range(0, self.areas, self.areas_per_part)


@dataclass(frozen=True, eq=False)
class GroupLevel(AreasOfLevel):
    """A population group level: its universe, its noise, and what is published of it.

    Group ``area * len(iterations) + position`` is the area with this number and the iteration ``iterations[position]``.
    Every group of the level costs ``budget / stability``: a record is in at most ``stability`` of them (paper, Lemma 2
    and Theorem 1; ``docs/proofs/safetab.md``).
    """

    settings: LevelSettings
    areas: int
    iterations: npt.NDArray[np.int64]
    """The numbers of the iterations tabulated here, sorted."""
    total_only: npt.NDArray[np.bool_]
    """For each of them, whether it gets a total alone, with the whole budget of a group."""
    stability: int
    first: NoiseDistribution
    """Of the total that chooses the table, and is never published (stage 1)."""
    second: NoiseDistribution
    """Of the counts of the chosen table (stage 2)."""
    total: NoiseDistribution
    """Of the totals of total-only groups."""
    suppressed_up_to: int | None
    """A group that gets a total alone is published only if this is above the number; None: always."""

    @property
    def groups(self) -> int:
        """The number of groups, of both kinds."""
        return self.areas * len(self.iterations)

    @property
    def adaptive(self) -> int:
        """The number of groups whose table is chosen."""
        return self.areas * int(np.count_nonzero(~self.total_only))


@dataclass(frozen=True, eq=False)
class GroupProblem:
    """A spec with everything public that it refers to."""

    spec: GroupSpec
    settings: GroupSettings[Any]
    lists: CodeLists
    regions: Regions
    records: Source
    levels: tuple[Any, ...]
    area_names: AreaNames | None
    """What areas are called, where a file says it."""


@dataclass(frozen=True, eq=False)
class SafeTabProblem(GroupProblem):
    """The same of SafeTab-P."""

    spec: SafeTabSpec
    settings: SafeTabSettings
    levels: tuple[GroupLevel, ...]
    coterminous: tuple[CoterminousSet, ...] = ()
    """Sets of areas that get the same figures, if that was asked for."""


def group_level(
    level: LevelSettings, settings: SafeTabSettings, lists: CodeLists, regions: Regions
) -> GroupLevel | None:
    """The universe and the noise of a level; None if it has no area or no iteration: nothing is then measured."""
    iterations = lists.tabulated(level.iteration_level, large=level.is_large)
    areas = len(regions.areas[level.region_type])
    if not areas or not len(iterations):
        return None
    degree = stability(lists, level.iteration_level, large=level.is_large, max_race_codes=settings.max_race_codes)
    second = _law(settings, level.budget * (1 - settings.stage_1_fraction), degree)
    suppresses = settings.zero_suppression > 0 and not level.is_large
    return GroupLevel(
        settings=level,
        areas=areas,
        iterations=iterations,
        total_only=np.array([lists.iterations[number].total_only for number in iterations]),
        stability=degree,
        first=_law(settings, level.budget * settings.stage_1_fraction, degree),
        second=second,
        total=_law(settings, level.budget, degree),
        suppressed_up_to=second.quantile(settings.zero_suppression) if suppresses else None,
    )


def _law(settings: SafeTabSettings, budget: Fraction, degree: int) -> NoiseDistribution:
    """The noise of one group: each gets the same part of the budget, and a record is in at most ``degree`` groups."""
    return calibrate(budget_of(settings.definition, budget / degree), Neighbours.ADD_REMOVE)


# From a spec to its problem: code lists, geography and universe, with every problem of them at once.


def prepare(loaded: LoadedSpec, engine: Engine) -> SafeTabProblem:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, SafeTabSpec)

    def coterminous(_: list[Finding], __: CodeLists | None, regions: Regions | None) -> tuple[CoterminousSet, ...]:
        chosen = spec.output.coterminous
        return () if chosen is None or regions is None else coterminous_sets(chosen, loaded.resolve(chosen), regions)

    files, sets = read_inputs(loaded, engine, PERSONS, coterminous)
    levels = [group_level(level, spec.settings, files.lists, files.regions) for level in spec.settings.levels]
    present = tuple(level for level in levels if level is not None)
    if not present:
        raise SpecError("no-groups/level", where=loaded.place("levels"))
    return SafeTabProblem(spec, spec.settings, *files.of(present), coterminous=sets)


F = TypeVar("F")


@dataclass(frozen=True, eq=False)
class GroupInputs:
    """The public files of a release of groups, read, and where its records are."""

    lists: CodeLists
    regions: Regions
    records: Source
    names: Mapping[str, tuple[Sequence[str], Sequence[str]]] | None

    def of(self, levels: tuple[Any, ...]) -> tuple[CodeLists, Regions, Source, tuple[Any, ...], AreaNames | None]:
        """What a problem has of them, with names of the areas of its levels."""
        types, names = {level.region_type for level in levels}, self.names
        kinds = [kind for kind in self.regions.areas if kind in types]
        called = None if names is None else AreaNames({kind: names[kind] for kind in kinds})
        return self.lists, self.regions, self.records, levels, called


def read_inputs(
    loaded: LoadedSpec,
    engine: Engine,
    layout: RecordLayout,
    further: Callable[[list[Finding], CodeLists | None, Regions | None], F | None],
) -> tuple[GroupInputs, F]:
    """The files of a spec of groups. Raises a :class:`SpecError` with every problem of all of them, records too.

    Args:
        loaded: The spec.
        engine: Reads them.
        layout: That of the records.
        further: What else is read, from code lists and geography as far as these are right.

    Returns:
        The files, and what else was read.
    """
    spec = loaded.spec
    assert isinstance(spec, GroupSpec)
    settings, data = spec.settings, spec.data
    assert isinstance(data, CodedData)
    sources, findings = find_sources(loaded)
    sources = {key: replace(source, quoted=False) for key, source in sources.items()}
    files = CodeFiles(
        codes=loaded.resolve(data.codes),
        race_iterations=loaded.resolve(data.race_iterations),
        ethnicity_iterations=loaded.resolve(data.ethnicity_iterations),
        code_to_iteration=loaded.resolve(data.code_to_iteration),
    )
    lists = noting(findings, lambda: read_code_lists(files))
    regions = names = None
    if "blocks" in sources:
        blocks = sources["blocks"]
        regions = noting(findings, lambda: read_regions(engine, blocks, settings.states, settings.puerto_rico))
    if regions is not None and data.area_names is not None:
        file = loaded.resolve(data.area_names)
        names = noting(findings, lambda: area_names_from_file(file, regions))
    more = noting(findings, lambda: further(findings, lists, regions))
    if findings or lists is None or regions is None or more is None:
        if "records" in sources:
            codes = None if lists is None else lists.codes
            findings += check_persons(engine, sources["records"], codes, None, settings, layout)
        raise SpecError(findings)
    return GroupInputs(lists, regions, sources["records"], names), more


def check_records_of(problem: GroupProblem, job: Job, layout: RecordLayout = PERSONS) -> list[Finding]:
    """Every problem of the records, and what is odd about the geography."""
    blocks = private_folder(job.workspace.scratch) / "known-blocks.parquet"
    write_parquet(pa.table({"code": problem.regions.blocks.column("code")}), blocks)
    findings = check_persons(job.engine, problem.records, problem.lists.codes, blocks, problem.settings, layout)
    return [*problem.regions.warnings, *findings]


def coterminous_sets(chosen: str, path: Path, regions: Regions) -> tuple[CoterminousSet, ...]:
    """Sets of areas that are taken for the same: derived from the geography, or those of a file."""
    if chosen in NAMED_SETS:
        return tuple(regions.coterminous(on_land=chosen == ON_LAND))
    return tuple(coterminous_from_file(path, regions))


# The plan of a SafeTab-P release: generalised parallel composition, level by level.
#
# A level has two kinds of groups. Those with a total alone are measured once; the others twice, first for the choice of
# a table and then for the table. Either way a group costs ``budget / s``, and a record is in at most s groups of the
# level, so the level costs its budget (Lemma 2). Levels compose one after the other; no record is in both passes. Under
# changed records everything costs twice as much (Theorem 2). Proof: ``docs/proofs/safetab.md``.


# Empty groups: what happens to a group that nobody is in, and whether such groups are drawn one by one.
#
# Where suppression makes it rare that an empty group is published, only the published ones are drawn
# (:mod:`confide.noise.sparse`): the law is the same. Which way is taken follows from public settings alone, and
# is in the plan.


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


CODES = "race and ethnicity"
SPINES = {False: ("USA", "STATE", "COUNTY", "TRACT", "block"), True: ("PR-STATE", "PR-COUNTY", "PR-TRACT", "block")}


def query_key(level: GroupLevel, query: str) -> str:
    """The name of a measurement in the plan and in its noise stream, such as ``detailed: table``."""
    return f"{ITERATION_LEVELS[level.settings.iteration_level]}: {query}"


def plan_safetab(name: str, problem: SafeTabProblem) -> Plan:
    """Every measurement with its noise and its price."""
    measures: list[PlannedMeasurement] = []
    families: list[Family] = []
    paths: dict[bool, list[int]] = {}
    for level in problem.levels:
        added, family = _level(level, problem, len(measures))
        paths.setdefault(level.settings.of_puerto_rico, []).extend(range(len(measures), len(measures) + len(added)))
        measures += added
        families.append(family)
    free = ("noise_margin", "tabulation_suppression", "iterations", "area_names", "companions")
    return plan_of_groups(name, problem, measures, families, paths, _facts(problem), free)


def plan_of_groups(
    name: str,
    problem: GroupProblem,
    measures: Sequence[PlannedMeasurement],
    families: Sequence[Family],
    paths: Mapping[bool, Sequence[int]],
    question: Mapping[str, Any],
    free: tuple[str, ...],
    unit: PrivacyUnit = PrivacyUnit.RECORD,
) -> Plan:
    """The plan of measurements in families; ``paths`` are those of each pass, as no record is in both."""
    return Plan(
        mechanism=name,
        neighbours=Neighbours.ADD_REMOVE,
        definition=problem.settings.definition,
        measures=tuple(measures),
        spine=SPINES[next(iter(paths))] if len(paths) == 1 else (),
        question=dict(question),
        paths=tuple(tuple(path) for path in paths.values()) if len(paths) > 1 else (),
        families=tuple(families),
        unit=unit,
        free=free,
    )


ORDER_OF_FACTS = (
    *("record", "attributes", "codes", "geography", PUBLIC_INPUTS, "states", "puerto_rico", "max_race_codes"),
    *("stage_1_fraction", "zero_suppression", "negative_counts", "coterminous", "tabulation_suppression"),
    *("noise_margin", "levels", "iterations", "area_names", "companions"),
)
"""In this order manifests have what else decides the output."""


def facts_of_groups(problem: GroupProblem, own: Mapping[str, Any]) -> dict[str, Any]:
    """What else decides the output of a release of groups: what all have, and its own. All of it is public."""
    settings, output, names = problem.settings, problem.spec.output, problem.area_names
    assert isinstance(output, GroupOutput)
    facts = {
        "codes": problem.lists.fingerprint,
        "geography": problem.regions.fingerprint,
        "states": list(settings.states),
        "puerto_rico": settings.puerto_rico,
        "max_race_codes": settings.max_race_codes,
        "negative_counts": settings.negative_counts,
        "noise_margin": None if output.noise_margin is None else str(output.noise_margin),
        "iterations": planned_iterations(problem.lists.iterations),
        "area_names": None if names is None else names.fingerprint,
        "companions": output.explained,
        **own,
    }
    return {key: facts[key] for key in ORDER_OF_FACTS if key in facts}


def _level(level: GroupLevel, problem: SafeTabProblem, number: int) -> tuple[list[PlannedMeasurement], Family]:
    """The measurements of a level, the first of which gets ``number``, and how they share records."""
    definition, region = problem.settings.definition, level.settings.region_type
    budget, first = level.settings.budget, problem.settings.stage_1_fraction
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


def _facts(problem: SafeTabProblem) -> dict[str, Any]:
    """What else decides the output. All of it is public."""
    settings = problem.settings
    own = {
        "record": "person",
        "attributes": {CODES: "race and ethnicity codes"},
        "stage_1_fraction": str(settings.stage_1_fraction),
        "zero_suppression": str(settings.zero_suppression),
        "coterminous": [
            [[kind, problem.regions.areas[kind][number]] for kind, number in areas] for areas in problem.coterminous
        ],
        "tabulation_suppression": problem.spec.output.tabulation_suppression,
        "levels": {level.name: _level_facts(level) for level in problem.levels},
    }
    return facts_of_groups(problem, own)


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
