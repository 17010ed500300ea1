"""The release: totals and tables of all levels, from measurements alone.

    measurements ─► negatives set to zero ─► coterminous areas ─► tabulation system ─► sums ─► files
                    (option)                 (option)             (option)

None of the steps looks at a record, so none costs anything (paper, Lemma 4).
"""

from __future__ import annotations

from pathlib import Path

from confide.runs.mechanism import Job
from confide.runs.release import ReleaseWriter
from confide.runs.workspace import Workspace
from confide.safetab.grids import GRIDS, TOTAL_TABLE
from confide.safetab.output.coterminous import unify
from confide.safetab.output.group_counts import GroupCounts, merge, read_level
from confide.safetab.output.margins import Margins
from confide.safetab.output.rows import T1, T2, Labels, t1_rows, t2_rows, table_rows, table_schema
from confide.safetab.output.suppression import suppress, twins_of
from confide.safetab.question import GroupLevel, SafeTabQuestion
from confide.safetab.settings import ITERATION_LEVELS, LARGE_REGIONS, PR_REGIONS, REGION_TYPES

TITLES = {TOTAL_TABLE: "Total population"} | {grid.table: grid.title for grid in GRIDS}
Counts = dict[tuple[str, int], GroupCounts]
"""The counts of each level, by region type and iteration level."""


def measured_folder(workspace: Workspace, level: GroupLevel) -> Path:
    """Where the measurements of a level are, one file for each part."""
    return workspace.measured / level.name


def publish(question: SafeTabQuestion, job: Job, release: ReleaseWriter) -> None:
    """Writes ``t1`` and ``t2`` in the official layout, and the four tables for people."""
    formats = question.spec.output.formats
    with job.progress.stage("Writing tables", 4 + len(TITLES)) as advance:
        counts = post_process(question, read_counts(question, job.workspace))
        advance(2)
        negatives = not question.spec.output.tabulation_suppression
        labels, by_region = _labels(question), _by_region(counts)
        for name, schema, title in (("t1", T1, "Totals"), ("t2", T2, "Sex by age")):
            rows = [
                t1_rows(both, labels[region]) if name == "t1" else t2_rows(both, labels[region], negatives=negatives)
                for region, both in by_region.items()
            ]
            release.text(f"{name}/{name}", schema, rows, f"{title} of population groups", "|")
            if "parquet" in formats:
                release.part(f"{name}/{name}", schema, rows, f"{title} of population groups")
            advance(1)
        margin = question.spec.output.noise_margin
        margins = None if margin is None else Margins(margin, question.levels)
        for table, title in TITLES.items():
            batches = (
                table_rows(table, both, labels[region], margins, negatives=negatives)
                for region, both in by_region.items()
            )
            release.table(table, table_schema(table, margins=margins is not None), batches, formats, title)
            advance(1)


def read_counts(question: SafeTabQuestion, workspace: Workspace) -> Counts:
    """The measurements of every level."""
    counts = {}
    for origin, level in enumerate(question.levels):
        files = [measured_folder(workspace, level) / f"{part:08d}.parquet" for part in level.parts]
        key = level.settings.region_type, level.settings.iteration_level
        counts[key] = read_level(files, level, origin)
    return counts


def post_process(question: SafeTabQuestion, counts: Counts) -> Counts:
    """Everything that is done to noisy counts before they are summed and shown."""
    if not question.settings.negative_counts:
        counts = {key: each.without_negatives() for key, each in counts.items()}
    if question.coterminous:
        counts = _coterminous(question, counts)
    if question.spec.output.tabulation_suppression:
        twins = {large: twins_of(question.lists, large=large) for large in (True, False)}
        counts = {key: suppress(each, twins[key[0] in LARGE_REGIONS]) for key, each in counts.items()}
    return counts


def _coterminous(question: SafeTabQuestion, counts: Counts) -> Counts:
    """Areas of the same extent made alike, for each pass and iteration level by itself."""
    result = dict(counts)
    for puerto_rico in (False, True):
        for number in ITERATION_LEVELS:
            among = {
                region: counts[region, number]
                for region in REGION_TYPES
                if (region, number) in counts and (region in PR_REGIONS) == puerto_rico
            }
            alike = unify(among, question.coterminous, len(question.lists.iterations))
            result |= {(region, number): each for region, each in alike.items()}
    return result


def _labels(question: SafeTabQuestion) -> dict[str, Labels]:
    return {
        region: Labels(region, tuple(map(str, areas)), question.lists)
        for region, areas in question.regions.areas.items()
    }


def _by_region(counts: Counts) -> dict[str, GroupCounts]:
    """Both iteration levels of each region type together, in the order of region and iteration."""
    result = {}
    for region in REGION_TYPES:
        both = [counts[region, number] for number in ITERATION_LEVELS if (region, number) in counts]
        if both:
            result[region] = merge(both)
    return result
