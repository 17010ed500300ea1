"""The spec of a SafeTab-P release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from confide.errors import SpecError
from confide.mechanisms.safetab import official
from confide.mechanisms.safetab.program import OfficialProgram, SummedSpec, group_stand_in, of_united_states
from confide.mechanisms.safetab.settings import (
    ITERATION_LEVELS,
    LARGEST_THRESHOLD,
    MOST_RACE_CODES,
    PR_REGIONS,
    REGION_TYPES,
    STATES,
    LevelSettings,
    SafeTabSettings,
)
from confide.mechanisms.safetab.tuning.question import production_settings
from confide.privacy import Definition
from confide.releases import spec

Region = Literal["USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH", "PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE"]
Threshold = Annotated[int, Field(ge=-LARGEST_THRESHOLD, le=LARGEST_THRESHOLD)]
LEVEL_NUMBERS = {name: number for number, name in ITERATION_LEVELS.items()}


class CodedData(spec.DataPart):
    """Where the records, the geography and the four code lists are, in the Census Bureau's layout."""

    blocks: spec.FilePath = Field(
        description="The geographic reference file (GRF-C): one row for each block. Public knowledge."
    )
    codes: spec.FilePath = Field(description="Race and ethnicity codes with their names.")
    race_iterations: spec.FilePath = Field(description="The characteristic iterations of race.")
    ethnicity_iterations: spec.FilePath = Field(description="The characteristic iterations of ethnicity.")
    code_to_iteration: spec.FilePath = Field(description="Which codes belong to which iteration.")
    area_names: spec.FilePath | None = Field(
        None, description="The names of areas: REGION_TYPE|REGION_ID|NAME; absent: areas have codes alone."
    )
    delimiter: str = Field("|", min_length=1, max_length=1, description="The delimiter of text files.")


class SafeTabData(CodedData):
    """The same of persons."""

    records: spec.FilePath = Field(
        description="The confidential person records: text with | between values, or Parquet."
    )


class GroupPassPart(spec.Part):
    """Which passes there are, and what counts of a record."""

    states: list[str] = Field(
        default_factory=list, description="The states of the US pass, by FIPS code; none: there is no such pass."
    )
    puerto_rico: bool = Field(False, description="Whether there is a pass for Puerto Rico, with its own areas.")
    max_race_codes: int = Field(
        MOST_RACE_CODES, ge=1, le=MOST_RACE_CODES, description="How many race codes of a person count: the first ones."
    )
    negative_counts: bool = Field(
        True, description="false: noisy counts below zero become zero, before they are summed."
    )


class SafeTabPart(GroupPassPart):
    """The algorithm."""

    stage_1_fraction: spec.ExactNumber = Field(
        Fraction(1, 10), description="The part of a level's budget that chooses the table of a group (gamma)."
    )
    zero_suppression: spec.ExactNumber | None = Field(
        None,
        description="The probability with which an empty group below the states is left out; absent: all are shown.",
    )


def threshold_order(where: spec.KeyPath, thresholds: Sequence[int]) -> Iterator[spec.Problem]:
    """Thresholds that are not in order."""
    if sorted(thresholds) != list(thresholds):
        yield spec.Problem.of(where, "threshold-order", found=", ".join(map(str, thresholds)))


class GroupLevelPart(spec.Part):
    """A population group level: all areas of a type crossed with all iterations of a level."""

    region: Region = Field(description="The type of area.")
    iterations: Literal["regional", "detailed"] = Field(description="The level of the characteristic iterations.")

    @property
    def order(self) -> tuple[int, int]:
        """Where it is among levels."""
        return REGION_TYPES.index(self.region), LEVEL_NUMBERS[self.iterations]


class SafeTabLevel(GroupLevelPart):
    """The same with its budget and thresholds."""

    budget: spec.ExactNumber = Field(
        description="The privacy loss of the level when one record is added or removed: rho, or epsilon for pure."
    )
    thresholds: list[Threshold] = Field(
        min_length=3,
        max_length=3,
        description="From which noisy totals on a group gets sex by 4, by 9 and by 23 ages. Three, in order.",
    )

    def problems(self, where: spec.KeyPath) -> Iterator[spec.Problem]:
        """Thresholds out of order."""
        yield from threshold_order((*where, "thresholds"), self.thresholds)


class GroupOutput(spec.TabularOutput):
    """What is written."""

    # No files of tau-ARGUS: detailed groups overlap, so nothing in them adds up to a table that it could read.
    formats: list[Literal["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "registry"]] = Field(  # type: ignore[assignment]
        ["parquet", "csv"],
        min_length=1,
        description="The file formats of the tables: parquet, csv, sdmx-csv; and what is made of them for readers: "
        "xlsx (a workbook), csvw (metadata of the W3C), registry (a record for a registry of deployments).",
    )

    def problems(self, geography: spec.GeographyPart) -> list[spec.Problem]:
        problems = super().problems(geography)
        if not set(self.formats) & {"parquet", "csv"} and not any(each.code == "no-tables" for each in problems):
            found = ", ".join(self.formats)
            problems.append(spec.Problem.of(("output", "formats"), "no-tables/themselves", found=found))
        return problems


class SafeTabOutput(GroupOutput):
    """The same, and what is done to the noisy counts before."""

    coterminous: spec.FilePath | None = Field(
        None,
        description="Areas of the same extent get the same figures: derived (sets from the geography), "
        "derived-on-land (the same but for blocks of water), or a file with SET|REGION_TYPE|REGION_ID; absent: each "
        "area keeps its own.",
    )
    tabulation_suppression: bool = Field(
        False, description="Also leave out negative figures, and groups alone that exceed alone or in combination."
    )


class GroupSpec(SummedSpec):
    """What the specs of SafeTab-P and SafeTab-H have in common."""

    safetab: GroupPassPart
    levels: list[Any] = Field(min_length=1)

    @property
    def shared(self) -> dict[str, Any]:
        """The settings that do not depend on levels, for :class:`GroupSettings`."""
        part = self.safetab
        return {
            "definition": Definition(self.privacy.definition),
            "max_race_codes": part.max_race_codes,
            "negative_counts": part.negative_counts,
            "states": tuple(sorted(part.states)),
            "puerto_rico": part.puerto_rico,
        }

    def problems_of_parts(self) -> Iterator[spec.Problem]:
        yield from pass_problems(self.safetab)
        yield from level_problems(self.levels, self.safetab)
        for position, level in enumerate(self.levels):
            yield from level.problems(("levels", position))


class SafeTabSpec(GroupSpec):
    """Detailed race and ethnicity groups, adaptively tabulated (SafeTab-P; Haney et al. 2024)."""

    data: SafeTabData
    privacy: spec.OneNumberPrivacy
    safetab: SafeTabPart
    levels: list[SafeTabLevel] = Field(min_length=1)
    output: SafeTabOutput = SafeTabOutput()

    @property
    def settings(self) -> SafeTabSettings:
        """The settings of the algorithm as plain values."""
        part = self.safetab
        return SafeTabSettings(
            levels=tuple(
                LevelSettings(
                    level.region,
                    LEVEL_NUMBERS[level.iterations],
                    level.budget,
                    (level.thresholds[0], level.thresholds[1], level.thresholds[2]),
                )
                for level in sorted(self.levels, key=lambda level: level.order)
            ),
            stage_1_fraction=part.stage_1_fraction,
            zero_suppression=part.zero_suppression or Fraction(0),
            **self.shared,
        )

    def problems_of_parts(self) -> Iterator[spec.Problem]:
        yield from super().problems_of_parts()
        for name in ("stage_1_fraction", "zero_suppression"):
            number = getattr(self.safetab, name)
            if number is not None and number >= 1:
                yield spec.Problem.of(("safetab", name), "probability/number", found=str(number), name=name)


def pass_problems(part: GroupPassPart) -> list[spec.Problem]:
    """What is wrong with the passes that a spec asks for."""
    problems = []
    if not part.states and not part.puerto_rico:
        problems.append(spec.Problem.of(("safetab",), "no-pass/asked"))
    for position, code in enumerate(part.states):
        where: spec.KeyPath = ("safetab", "states", position)
        if code not in STATES:
            problems.append(spec.Problem.of(where, "state-code", found=repr(code)))
        elif code in part.states[:position]:
            problems.append(spec.Problem.of(where, "state-twice", found=repr(code)))
    return problems


def level_problems(levels: Sequence[GroupLevelPart], part: GroupPassPart) -> list[spec.Problem]:
    """Levels that are there twice, or are of a pass that is not asked for."""
    problems = []
    seen = set()
    for position, level in enumerate(levels):
        key = (level.region, level.iterations)
        where: spec.KeyPath = ("levels", position, "region")
        if key in seen:
            problems.append(
                spec.Problem.of(
                    where,
                    "duplicate-level/correct-spec",
                    found=repr(key),
                    region=level.region,
                    iterations=level.iterations,
                )
            )
        seen.add(key)
        if level.region in PR_REGIONS and not part.puerto_rico:
            problems.append(spec.Problem.of(where, "no-pass/puerto", found=repr(level.region)))
        if level.region not in PR_REGIONS and not part.states:
            problems.append(spec.Problem.of(where, "no-pass/united", found=repr(level.region)))
    return problems


def settings_of(path: Path) -> SafeTabSettings:
    """The settings in a spec of ours, or in a ``config.json``."""
    from confide.mechanisms import SPECS

    if path.suffix == ".json":
        return official.read_config(path).settings
    loaded = spec.load_spec(path, SPECS)
    if not isinstance(loaded.spec, SafeTabSpec):
        raise SpecError("not-safetab", where=loaded.place("release", "mechanism"), found=loaded.spec.release.mechanism)
    return loaded.spec.settings


class SafeTabProgram(OfficialProgram):
    """SafeTab-P."""

    title, release, drafted = "SafeTab-P", "safetab", "detailed-groups"
    about = "Detailed race and ethnicity groups"
    options = ("coterminous",)
    stems: ClassVar = {key: f"{stem}.txt" for key, stem in (official.PARAMETERS | official.DATA).items()}

    def find(self, parameters: Path, data: Path) -> official.OfficialFolder:
        return official.find_folder(parameters, data)

    def configured(self, path: Path, options: Mapping[str, str]) -> official.OfficialConfig[SafeTabSettings]:  # noqa: ARG002
        return official.read_config(path)

    def stand_in(self, path: Path) -> SafeTabSettings:
        return group_stand_in(production_settings(), path)

    def production(self) -> SafeTabSettings:
        return of_united_states(production_settings())

    def further(self, settings: Any, options: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        return {"names": ITERATION_LEVELS, "coterminous": options.get("coterminous")}


PROGRAM = SafeTabProgram()
draft_safetab = PROGRAM.draft
