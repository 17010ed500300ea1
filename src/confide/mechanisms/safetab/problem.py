"""What is asked of the records: the universe of population groups, level by level, and the noise of each.

The universe of a level is every area of its type crossed with every characteristic iteration that is tabulated there,
whether anybody is in it or not. It comes from the geography and the code lists, never from the records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.engines import Engine, Source
from confide.engines.groups import private_folder, write_parquet
from confide.errors import ConfideError, Finding, SpecError
from confide.mechanisms.safetab.codes import CodeFiles, CodeLists, read_code_lists, stability
from confide.mechanisms.safetab.records import check_persons
from confide.mechanisms.safetab.regions import CoterminousSet, Regions, coterminous_from_file, read_regions
from confide.mechanisms.safetab.settings import LevelSettings, Settings
from confide.mechanisms.safetab.spec import SafeTabSpec
from confide.noise import NoiseDistribution
from confide.privacy import Neighbours, budget_of, calibrate
from confide.releases.mechanism import Job
from confide.releases.spec import LoadedSpec, find_sources

GROUPS_PER_PART = 1 << 22
"""How many groups are measured at a time: enough to be quick, few enough to be held."""


@dataclass(frozen=True, eq=False)
class GroupLevel:
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
    def name(self) -> str:
        return self.settings.name

    @property
    def groups(self) -> int:
        """The number of groups, of both kinds."""
        return self.areas * len(self.iterations)

    @property
    def areas_per_part(self) -> int:
        """How many areas are measured at a time."""
        return max(1, GROUPS_PER_PART // len(self.iterations))

    @property
    def parts(self) -> range:
        """The parts in which the level is measured, by their first area."""
        return range(0, self.areas, self.areas_per_part)

    @property
    def adaptive(self) -> int:
        """The number of groups whose table is chosen."""
        return self.areas * int(np.count_nonzero(~self.total_only))


@dataclass(frozen=True, eq=False)
class SafeTabQuestion:
    """A spec with everything public that it refers to."""

    spec: SafeTabSpec
    settings: Settings
    lists: CodeLists
    regions: Regions
    records: Source
    levels: tuple[GroupLevel, ...]
    coterminous: tuple[CoterminousSet, ...] = ()
    """Sets of areas that get the same figures, if that was asked for."""


def group_level(level: LevelSettings, settings: Settings, lists: CodeLists, regions: Regions) -> GroupLevel | None:
    """The universe and the noise of a level; None if it has no area or no iteration: nothing is then measured."""
    iterations = lists.kept(level.iteration_level, large=level.is_large)
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


def _law(settings: Settings, budget: Fraction, degree: int) -> NoiseDistribution:
    """The noise of one group: each gets the same part of the budget, and a record is in at most ``degree`` groups."""
    return calibrate(budget_of(settings.definition, budget / degree), Neighbours.ADD_REMOVE)


# From a spec to its question: code lists, geography and universe, with every problem of them at once.


DERIVED = "derived"
T = TypeVar("T")


def prepare(loaded: LoadedSpec, engine: Engine) -> SafeTabQuestion:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, SafeTabSpec)
    settings = spec.settings
    found, findings = find_sources(loaded)
    sources = {key: replace(source, quoted=False) for key, source in found.items()}
    files = CodeFiles(
        codes=loaded.resolve(spec.data.codes),
        race_iterations=loaded.resolve(spec.data.race_iterations),
        ethnicity_iterations=loaded.resolve(spec.data.ethnicity_iterations),
        code_to_iteration=loaded.resolve(spec.data.code_to_iteration),
    )
    lists = _noting(findings, lambda: read_code_lists(files))
    regions = None
    if "blocks" in sources:
        blocks = sources["blocks"]
        regions = _noting(findings, lambda: read_regions(engine, blocks, settings.states, settings.puerto_rico))
    sets = None if regions is None else _noting(findings, lambda: _coterminous(loaded, spec, regions))
    if findings or lists is None or regions is None or sets is None:
        if "records" in sources:
            codes = None if lists is None else lists.codes
            findings += check_persons(engine, sources["records"], codes, None, settings)
        raise SpecError(findings)
    return _question(loaded, settings, lists, regions, sources["records"], sets)


def check_persons_of(question: SafeTabQuestion, job: Job) -> list[Finding]:
    """Every problem of the person records, and what is odd about the geography."""
    blocks = private_folder(job.workspace.scratch) / "known-blocks.parquet"
    write_parquet(pa.table({"code": question.regions.blocks.column("code")}), blocks)
    findings = check_persons(job.engine, question.records, question.lists.codes, blocks, question.settings)
    return [*question.regions.warnings, *findings]


def _question(
    loaded: LoadedSpec,
    settings: Settings,
    lists: CodeLists,
    regions: Regions,
    records: Source,
    sets: tuple[CoterminousSet, ...],
) -> SafeTabQuestion:
    spec = loaded.spec
    assert isinstance(spec, SafeTabSpec)
    levels = [group_level(level, settings, lists, regions) for level in settings.levels]
    present = tuple(level for level in levels if level is not None)
    if not present:
        raise SpecError(
            "no-groups",
            "no level has both areas and iterations",
            where=loaded.place("levels"),
            found="levels without any population group",
            expected="a level with areas in the geography and iterations in the code lists",
            remedy="correct the levels, the geography or the code lists",
        )
    return SafeTabQuestion(spec, settings, lists, regions, records, present, sets)


def _coterminous(loaded: LoadedSpec, spec: SafeTabSpec, regions: Regions) -> tuple[CoterminousSet, ...]:
    chosen = spec.output.coterminous
    if chosen is None:
        return ()
    return tuple(regions.coterminous() if chosen == DERIVED else coterminous_from_file(loaded.resolve(chosen), regions))


def _noting(findings: list[Finding], read: Callable[[], T]) -> T | None:
    """What ``read`` gives, or None with its findings noted."""
    try:
        return read()
    except ConfideError as error:
        findings += error.findings
        return None
