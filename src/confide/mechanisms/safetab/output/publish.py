"""The release: totals and tables of all levels, from measurements alone.

    measurements ─► negatives set to zero ─► coterminous areas ─► tabulation system ─► sums ─► files
                    (option)                 (option)             (option)

None of the steps looks at a record, so none costs anything (paper, Lemma 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.mechanisms.safetab import settings
from confide.mechanisms.safetab.codes import CodeLists
from confide.mechanisms.safetab.output import coded
from confide.mechanisms.safetab.problem import GroupLevel, SafeTabProblem
from confide.mechanisms.safetab.regions import CoterminousSet
from confide.releases import Job, ReleaseWriter, Workspace
from confide.releases.tabular import publish_areas

# Areas of the same extent get the same figures (paper, Algorithm 4).
#
# For every set of coterminous areas and every iteration the *donor* is the first area, in the order of summary
# levels, that has figures. The others get a copy of them, tables and total alike, and lose their own. An iteration
# that is suppressed in every area of the set stays absent. Doing it again changes nothing.
#
# The order is that of tabulation: states, counties, tracts, places, AIANNH areas. The Census Bureau's own is not
# public. An area takes part at the iteration levels that its type is tabulated for. A total-only iteration, which is
# measured in states alone, can thereby appear in a county that is a whole state.


def unify(
    counts: Mapping[str, coded.GroupCounts], sets: Sequence[CoterminousSet], iterations: int
) -> dict[str, coded.GroupCounts]:
    """The counts by region type, of one iteration level, with the figures of coterminous areas made equal.

    ``counts`` is in the order of summary levels; ``iterations`` is how many iterations there are.
    """
    members = {
        region: np.array(
            [(number, area) for number, areas in enumerate(sets) for type_, area in areas if type_ == region]
        )
        for region in counts
    }
    own, remaining = {}, dict(counts)
    for region, pairs in members.items():
        if len(pairs):
            inside = np.isin(counts[region].area, pairs[:, 1])
            own[region] = counts[region].take(np.flatnonzero(inside))
            remaining[region] = counts[region].take(np.flatnonzero(~inside))
    donors = _donors(own, members, iterations)
    for region, pairs in members.items():
        pieces = [remaining[region]]
        for donor_set, figures in donors:
            place, there = _look_up(pairs, donor_set)
            if there.any():
                pieces.append(figures.take(np.flatnonzero(there)).moved_to(place[there]))
        remaining[region] = coded.merge(pieces)
    return remaining


def _donors(
    own: Mapping[str, coded.GroupCounts], members: Mapping[str, Integers], iterations: int
) -> list[tuple[Integers, coded.GroupCounts]]:
    """For every set and iteration the figures of its donor: from each region type those it gives, with their sets."""
    given: list[tuple[Integers, coded.GroupCounts]] = []
    settled = np.zeros(0, np.int64)
    for region, counts in own.items():
        by_area = members[region][np.argsort(members[region][:, 1])]
        set_of = by_area[np.searchsorted(by_area[:, 1], counts.area), 0]
        key = set_of * iterations + counts.iteration
        first = np.flatnonzero(~np.isin(key, settled))
        given.append((set_of[first], counts.take(first)))
        settled = np.concatenate([settled, key[first]])
    return given


def _look_up(pairs: Integers, sets: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """For each set the area of a region type in it, and whether there is one."""
    if not len(pairs):
        return np.zeros_like(sets), np.zeros(len(sets), np.bool_)
    ordered = pairs[np.argsort(pairs[:, 0])]
    place = np.minimum(np.searchsorted(ordered[:, 0], sets), len(ordered) - 1)
    return ordered[place, 1], ordered[place, 0] == sets


# The suppressions of the tabulation system, after SafeTab-P, as an option (paper, section 5.3.4).
#
# The paper says that negative figures are removed, and groups "alone" whose noisy count exceeds that of the same
# group "alone or in any combination"; how exactly is not published. Here: a group whose total is negative loses
# everything; a group alone whose total exceeds its twin's in the same area loses everything, the twin keeps its
# figures; of the tables that are left, single figures below zero are left out: of ``t2`` as rows, of tables for
# people as empty fields.


def twins_of(lists: CodeLists, *, large: bool) -> Integers:
    """For each iteration of a race alone the number of the same race alone or in combination; -1 for all others.

    Within large regions, and within the others, there is at most one.
    """
    twins = np.full(len(lists.iterations), -1, np.int64)
    for alone, combined in lists.alone_pairs().tolist():
        if all(lists.iterations[number].tabulated(large=large) for number in (alone, combined)):
            twins[alone] = combined
    return twins


def suppress(counts: coded.GroupCounts, twins: Integers) -> coded.GroupCounts:
    """The groups of one region type and iteration level that the tabulation system shows."""
    if not len(counts):
        return counts
    totals = counts.totals
    key = counts.area * len(twins) + counts.iteration
    twin = twins[counts.iteration]
    twin_key = counts.area * len(twins) + twin
    place = np.minimum(np.searchsorted(key, twin_key), len(key) - 1)
    exceeds = (twin >= 0) & (key[place] == twin_key) & (totals > totals[place])
    return counts.take(np.flatnonzero((totals >= 0) & ~exceeds))


Counts = dict[tuple[str, int], coded.GroupCounts]
"""The counts of each level, by region type and iteration level."""


def measured_folder(workspace: Workspace, level: GroupLevel) -> Path:
    """Where the measurements of a level are, one file for each part."""
    return workspace.measured / level.name


def publish(problem: SafeTabProblem, job: Job, release: ReleaseWriter) -> None:
    """Writes ``t1`` and ``t2`` in the official layout, and the four tables for people."""
    formats = problem.spec.output.formats
    with job.progress.stage("Writing tables", 4 + len(coded.TITLES)) as advance:
        counts = post_process(problem, read_counts(problem, job.workspace))
        advance(2)
        negatives = not problem.spec.output.tabulation_suppression
        labels, by_region = _labels(problem), _by_region(counts)
        for name, schema, title in (("t1", coded.T1, "Totals"), ("t2", coded.T2, "Sex by age")):
            rows = [
                coded.t1_rows(both, labels[region])
                if name == "t1"
                else coded.t2_rows(both, labels[region], negatives=negatives)
                for region, both in by_region.items()
            ]
            release.text(f"{name}/{name}", schema, rows, f"{title} of population groups", "|")
            if "parquet" in formats:
                release.part(f"{name}/{name}", schema, rows, f"{title} of population groups")
            advance(1)
        _publish_for_people(problem, job, release, by_region)
        advance(len(coded.TITLES))


def _publish_for_people(
    problem: SafeTabProblem, job: Job, release: ReleaseWriter, by_region: Mapping[str, coded.GroupCounts]
) -> None:
    """The tables for people, and the areas."""
    layout, output, areas = coded.CodedLayout.of(job.plan.as_dict()), problem.spec.output, problem.regions.areas

    groups = [coded.CodedGroups.of(region, areas[region], counts) for region, counts in by_region.items()]
    for number in range(len(coded.TITLES)):
        rows = partial(layout.rows, number, groups)
        layout.described(number).publish(release, rows, output, problem.area_names)
    publish_areas(release, [(region, areas[region]) for region in layout.areas], problem.area_names)


def read_counts(problem: SafeTabProblem, workspace: Workspace) -> Counts:
    """The measurements of every level."""
    counts = {}
    for origin, level in enumerate(problem.levels):
        files = [measured_folder(workspace, level) / f"{part:08d}.parquet" for part in level.parts]
        key = level.settings.region_type, level.settings.iteration_level
        counts[key] = coded.read_level(files, level, origin)
    return counts


def post_process(problem: SafeTabProblem, counts: Counts) -> Counts:
    """Everything that is done to noisy counts before they are summed and shown."""
    if not problem.settings.negative_counts:
        counts = {key: group_counts.without_negatives() for key, group_counts in counts.items()}
    if problem.coterminous:
        counts = _coterminous(problem, counts)
    if problem.spec.output.tabulation_suppression:
        twins = {large: twins_of(problem.lists, large=large) for large in (True, False)}
        counts = {
            key: suppress(group_counts, twins[key[0] in settings.LARGE_REGIONS]) for key, group_counts in counts.items()
        }
    return counts


def _coterminous(problem: SafeTabProblem, counts: Counts) -> Counts:
    """Areas of the same extent made alike, for each pass and iteration level by itself."""
    result = dict(counts)
    for puerto_rico in (False, True):
        for number in settings.ITERATION_LEVELS:
            among = {
                region: counts[region, number]
                for region in settings.REGION_TYPES
                if (region, number) in counts and (region in settings.PR_REGIONS) == puerto_rico
            }
            alike = unify(among, problem.coterminous, len(problem.lists.iterations))
            result |= {(region, number): group_counts for region, group_counts in alike.items()}
    return result


def _labels(problem: SafeTabProblem) -> dict[str, coded.Labels]:
    return {
        region: coded.Labels(region, tuple(map(str, areas)), problem.lists)
        for region, areas in problem.regions.areas.items()
    }


def _by_region(counts: Counts) -> dict[str, coded.GroupCounts]:
    """Both iteration levels of each region type together, in the order of region and iteration."""
    result = {}
    for region in settings.REGION_TYPES:
        both = [counts[region, number] for number in settings.ITERATION_LEVELS if (region, number) in counts]
        if both:
            result[region] = coded.merge(both)
    return result
