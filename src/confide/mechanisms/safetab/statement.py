"""What is said of a SafeTab-P release, from its plan alone: its levels, for the certificate and for ``check``; and, for
its readers, what its columns hold and the noise of each of its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from confide.exact import exact_text
from confide.mechanisms.safetab.codes import PlannedIteration
from confide.mechanisms.safetab.output import coded
from confide.mechanisms.safetab.output.coded import MEASURED
from confide.mechanisms.safetab.settings import GRIDS, ITERATION_LEVELS, TABLE, TOTAL_ONLY, TOTAL_TABLE
from confide.mechanisms.safetab.tallies import count_interval, excess_of_sum, margin_of_sum
from confide.noise import NoiseDistribution
from confide.privacy import Neighbours, price
from confide.releases.certificate import CERTIFICATE, CertificateWords, certificate
from confide.releases.figure_noise import Draw, SelectedFigure
from confide.releases.plan import Explanation, Plan, Summary, read_plan
from confide.releases.tabular import AREA, COUNT, LEVEL, TOTAL_CODE, Codebook, asked
from confide.report.rendering import messages_of

PROBABILITY = "0.95"
PASSES = {False: "United States", True: "Puerto Rico"}


def group_levels(plan: Plan) -> Iterator[dict[str, Any]]:
    """For each level what it has, what it costs and how much noise its published counts have."""
    # Counts below zero that were set to zero make a sum too high; then noise puts it off by more than its margin.
    largest_error = margin_of_sum if plan.question["negative_counts"] else excess_of_sum
    selected = plan.question["tabulation_suppression"]
    for facts in plan.question["levels"].values():
        region, number = facts["region_type"], facts["iteration_level"]
        laws = {query: plan.laws(region, f"{ITERATION_LEVELS[number]}: {query}") for query in (TABLE, TOTAL_ONLY)}
        counted, alone = (next(iter(laws[query]), None) for query in (TABLE, TOTAL_ONLY))
        yield {
            "region": region,
            "iterations": ITERATION_LEVELS[number],
            "areas": facts["areas"],
            "groups": facts["areas"] * facts["iterations"],
            "budget": exact_text(Fraction(facts["budget"])),
            "stability": facts["stability"],
            "margin": None if counted is None else counted.noise_margin(PROBABILITY),
            "margins_of_sums": []
            if counted is None
            else [largest_error(counted, grid.cells, Fraction(PROBABILITY)) for grid in GRIDS],
            "least": None if selected else _least(counted, facts["suppressed_up_to"]),
            "margin_total_only": None if alone is None else alone.noise_margin(PROBABILITY),
            "thresholds": facts["thresholds"],
            "suppressed_up_to": facts["suppressed_up_to"],
        }


def _least(law: NoiseDistribution | None, suppressed_up_to: int | None) -> dict[str, int] | None:
    """The smallest total that can stand alone, and what it means; none where nothing is left out."""
    if law is None or suppressed_up_to is None:
        return None
    low, high = count_interval(law, suppressed_up_to + 1, Fraction(PROBABILITY), suppressed_up_to)
    return {"figure": suppressed_up_to + 1, "low": low, "high": high}


def passes(budgets: Iterable[tuple[str, Fraction]]) -> list[dict[str, str]]:
    """The sum of the budgets of each pass, from the type of areas of each level and its budget."""
    sums: dict[bool, Fraction] = {}
    for region_type, budget in budgets:
        key = region_type.startswith("PR-")
        sums[key] = sums.get(key, Fraction(0)) + budget
    return [{"name": PASSES[key], "budget": exact_text(number)} for key, number in sums.items()]


def passes_of(plan: Plan) -> list[dict[str, str]]:
    """Those of a plan."""
    levels = plan.question["levels"].values()
    return passes((facts["region_type"], Fraction(facts["budget"])) for facts in levels)


def documents(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The certificate of a release, with its population group levels."""
    plan = read_plan(manifest["plan"])
    return certificate_of_groups(manifest, list(group_levels(plan)), passes_of(plan))


def certificate_of_groups(
    manifest: Mapping[str, Any], levels: list[dict[str, Any]], sums: list[dict[str, str]]
) -> dict[str, str]:
    """The certificate of a release of groups."""
    counts = messages_of(manifest).text("certificate.counts_safetab")
    return {CERTIFICATE: certificate(manifest, CertificateWords(counts, groups=levels, passes=sums))}


def summary(plan: Plan) -> Summary:
    """The population group levels, and what they cost."""
    columns = (
        "areas",
        "iterations",
        "areas ",
        "groups ",
        "budget ",
        "noise margin (95 %) ",
        "totals of tables ",
        "tables from ",
        "left out to ",
        "the next means (95 %) ",
    )
    rows = tuple(
        (
            str(row["region"]),
            str(row["iterations"]),
            f"{row['areas']:,}",
            f"{row['groups']:,}",
            str(row["budget"]),
            "" if row["margin"] is None else f"±{row['margin']:,}",
            ", ".join(f"±{margin:,}" for margin in row["margins_of_sums"]),
            ", ".join(map(str, row["thresholds"])),
            "" if row["suppressed_up_to"] is None else f"{row['suppressed_up_to']:,}",
            "" if (least := row["least"]) is None else f"{least['figure']:,}: {least['low']:,} to {least['high']:,}",
        )
        for row in group_levels(plan)
    )
    notes = tuple(f"{row['name']}: the levels cost {row['budget']} together." for row in passes_of(plan))
    changed = price(plan.event, Neighbours.CHANGE_ONE, plan.definition)
    sentence = f"The release costs {plan.loss} (add-remove), {changed} for a changed record (change-one)."
    return Summary(sentence, columns, rows, notes)


# What is said to the readers of a release: what its columns hold, and the noise of each of its figures.


PROTECTION = (
    "Every measured count has random noise of its own. The certificate states what this promises to everybody in the "
    "data."
)
GROUPS = (
    "A group is an area crossed with a race or ethnicity group, whose code stands in the column iteration. Groups "
    "overlap: a person can be in several of them.",
    "T01001 has one total for each group. A group has at most one table of sex by age: T02001, T02002 or T02003. A "
    "first noisy total, which is not published, decided which.",
    "measured_as says whether a total was measured itself, or is the sum of the noisy cells of the group's table, "
    "which has more noise.",
)
INTERVAL = (
    "low and high: the true count is between them with a probability of at least {}, given that the figure was "
    "published. Totals that are left out when they are small are too high on average where they are published: for "
    "these, the interval reaches further down than up."
)
ALL_SHOWN = "Every group is there, also those with nobody in them."
LEFT_OUT = (
    "A group that is not there has no table, and its noisy total was too small to be published. That does not mean "
    "that nobody is in it. Totals are left out up to these numbers: {}. On other levels every group is there."
)
NEGATIVE = "Counts may be below zero: that is noise, which averages out when counts are added. Do not set them to zero."
CLAMPED = (
    "Counts below zero were set to zero before they were summed, so sums are too high on average; low and high allow "
    "for it."
)
SELECTED = (
    "Figures were also left out because of other figures: groups with a total below zero, cells below zero, and groups "
    "alone that exceed the same group alone or in combination. No interval holds for what is left then, and none is "
    "stated."
)
VARIANCE = (
    "variance is the variance of the noise of a figure. It is empty where a figure was published because it was large "
    "enough: no variance describes such a figure."
)
COPIED = (
    "Areas of the same extent have the same figures, those of one of them: measured_in is the type of area that they "
    "were measured for."
)
ADDING = (
    'Within one group of one area, add the rows of its table whose margin is "cell" (or those of a file of the folder '
    "cells/). Areas of one level can be added for the same group, as far as the group is there in all of them.",
    "Never add different groups, such as two races: a person can be in both. Never add totals and cells together.",
)

OFFICIAL = {
    "t1/": "the totals of all groups in the Census Bureau's layout, with | between values",
    "t2/": "sex by age in the same layout, of the groups that have a table",
}


def codebook(plan: Mapping[str, Any]) -> Codebook:
    """What the tables of a release hold."""
    layout, (formats, agency) = coded.CodedLayout.of(plan), asked(plan["question"])
    tables = tuple(layout.described(number) for number in range(len(coded.TITLES)))
    notes = tuple(_notes(layout))
    return Codebook(tables, layout.areas, formats, agency, PROTECTION, notes, adding=ADDING, others=OFFICIAL)


def _notes(layout: coded.CodedLayout) -> Iterator[str]:
    yield from GROUPS
    limits = [
        f"{level.title}: {level.suppressed_up_to:,}" for level in layout.levels if level.suppressed_up_to is not None
    ]
    yield LEFT_OUT.format("; ".join(limits)) if limits else ALL_SHOWN
    if layout.selected:
        yield SELECTED
        return
    if layout.probability is not None:
        yield INTERVAL.format(layout.percent)
    yield CLAMPED if layout.clamped else NEGATIVE
    if not layout.clamped:
        yield VARIANCE
    if layout.copied:
        yield COPIED


UNKNOWN = "the release does not say how far its figures are off"
CLAMPED_SUMS = (
    "counts below zero were set to zero, so errors do not average out; low and high of each figure hold by themselves"
)
SELECTED_SUMS = "figures were left out because of other figures, and no margin holds for what is left"


@dataclass(frozen=True, eq=False)
class GroupFigures:
    """The noise of the figures of a release: which measured counts a row shows, and their law."""

    layout: coded.CodedLayout
    iterations: Mapping[str, PlannedIteration]
    levels: Mapping[tuple[str, int], coded.PlannedLevel]
    """By region type and iteration level."""
    sets: Mapping[tuple[str, str], int]
    """For areas that share their figures with others the number of the set."""
    figure: str = COUNT

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> GroupFigures | str:
        """That of a release, from its plan; or why it is not known."""
        if asked(plan["question"]) is None:
            return UNKNOWN
        layout = coded.CodedLayout.of(plan)
        if layout.selected or layout.clamped:
            return SELECTED_SUMS if layout.selected else CLAMPED_SUMS
        return cls(
            layout,
            {each.code: each for each in layout.iterations},
            {(level.region_type, level.iteration_level): level for level in layout.levels},
            {(kind, code): at for at, areas in enumerate(plan["question"]["coterminous"]) for kind, code in areas},
        )

    def draws(self, table: str, row: Mapping[str, Any]) -> Sequence[Draw]:
        """One for each measured count that the figure is made of: areas with the same figures have the same draws."""
        iteration = self.iterations[row[coded.ITERATION]]
        region = row[coded.MEASURED_IN] if self.layout.copied else row[LEVEL]
        level = self.levels[region, iteration.level]
        place = self.sets.get((row[LEVEL], row[AREA]), (row[LEVEL], row[AREA]))
        number = list(coded.TITLES).index(table)
        statistics = number or {word: each for each, word in MEASURED.items()}[row[coded.MEASURED_AS]]
        law = level.total_law if iteration.total_only else level.law
        if statistics == 0:
            above = coded.published_above(level, 0, alone=iteration.total_only)
            key = (place, iteration.code, TOTAL_TABLE)
            if above is None or law is None:
                return [Draw(key, law)]
            return [Draw(key, law, SelectedFigure(figure := int(row[COUNT]), partial(_interval, law, figure, above)))]
        return [Draw((place, iteration.code, *cell), law) for cell in self._cells(number, statistics, row)]

    def _cells(self, number: int, statistics: int, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The cells of the group's table that a row is the sum of."""
        sexes, ages = self.layout.variables[1], self.layout.variables[1 + statistics]
        wanted = (TOTAL_CODE, TOTAL_CODE) if number == 0 else (row[coded.SEX], row[ages.name])
        if wanted[0] not in (*sexes.codes, TOTAL_CODE) or wanted[1] not in (*ages.codes, TOTAL_CODE):
            raise LookupError(GRIDS[statistics - 1].table)
        for sex in sexes.codes:
            for age in ages.codes:
                if wanted[0] in (sex, TOTAL_CODE) and wanted[1] in (age, TOTAL_CODE):
                    yield sex, age


def _interval(law: NoiseDistribution, figure: int, above: int, probability: Fraction) -> tuple[int, int]:
    return count_interval(law, figure, probability, above)


class SafeTabExplained(Explanation):
    """What releases of SafeTab-P say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:
        return codebook(manifest["plan"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> GroupFigures | str:
        return GroupFigures.of(manifest["plan"])

    def summary(self, plan: Plan) -> Summary:
        return summary(plan)
