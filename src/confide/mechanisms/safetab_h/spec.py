"""The spec of a SafeTab-H release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from confide.mechanisms.safetab.official import PARAMETERS, OfficialConfig, OfficialFolder, find_folder
from confide.mechanisms.safetab.program import OfficialProgram, group_stand_in, of_united_states
from confide.mechanisms.safetab.settings import ITERATION_LEVELS
from confide.mechanisms.safetab.spec import (
    LEVEL_NUMBERS,
    CodedData,
    GroupLevelPart,
    GroupOutput,
    GroupPassPart,
    GroupSpec,
    Threshold,
    threshold_order,
)
from confide.mechanisms.safetab_h.official import DATA, read_config
from confide.mechanisms.safetab_h.settings import (
    FAMILIES,
    MOST_THRESHOLDS,
    VARIABLES,
    FamilyName,
    HouseholdLevel,
    SafeTabHSettings,
    production_settings,
)
from confide.releases import spec

NAME, TITLE = "household-groups", "Household type and tenure by detailed race and ethnicity"


class SafeTabHData(CodedData):
    """Where the household records are, and the published totals that decide which table a group gets."""

    records: spec.FilePath = Field(
        description="The confidential household records: one row for each occupied housing unit."
    )
    totals: spec.FilePath = Field(
        description="The published totals of groups: a sealed release of safetab, or its t1 as a file, which is then "
        "taken as public (REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT)."
    )


class HouseholdPrivacy(spec.OneNumberPrivacy):
    """What may be spent; the unit of privacy is the household."""

    unit: Literal["household"] = Field(
        "household",
        description="What comes and goes: a household. A ledger that is kept in persons is charged what one person "
        "can change, which is twice as much.",
    )


class SafeTabHLevel(GroupLevelPart):
    """A population group level with the budgets and thresholds of its two tables."""

    type_budget: spec.ExactNumber | None = Field(
        None, description="The privacy loss of household type when one household is added or removed; absent: no table."
    )
    type_thresholds: list[Threshold] | None = Field(
        None,
        min_length=3,
        max_length=3,
        description="From which published totals on a group gets 2, 4 and 5 household types. Three, in order.",
    )
    tenure_budget: spec.ExactNumber | None = Field(None, description="The same for tenure; absent: no table.")
    tenure_threshold: Threshold | None = Field(
        None, description="From which published total on a group gets 3 kinds of tenure."
    )

    @property
    def budgets(self) -> dict[FamilyName, Fraction | None]:
        """Of each table."""
        return {"t3": self.type_budget, "t4": self.tenure_budget}

    @property
    def thresholds(self) -> dict[FamilyName, tuple[int, ...]]:
        """Of each table; none where it is not made."""
        tenure = () if self.tenure_threshold is None else (self.tenure_threshold,)
        return {"t3": tuple(self.type_thresholds or ()), "t4": tenure}

    @property
    def settings(self) -> HouseholdLevel:
        """The level as plain values."""
        budgets, thresholds = self.budgets, self.thresholds
        return HouseholdLevel(
            self.region,
            LEVEL_NUMBERS[self.iterations],
            (budgets["t3"] or Fraction(0), budgets["t4"] or Fraction(0)),
            (thresholds["t3"], thresholds["t4"]),
        )

    def problems(self, where: spec.KeyPath) -> Iterator[spec.Problem]:
        """A level has a table at least, each table its thresholds, and thresholds their order."""
        if not any(self.budgets.values()):
            yield spec.Problem.of(where, "no-table-of-level", region=self.region, iterations=self.iterations)
        for family in FAMILIES:
            key = "type_thresholds" if family == "t3" else "tenure_threshold"
            numbers = self.thresholds[family]
            if (self.budgets[family] is None) == bool(numbers):
                yield spec.Problem.of(
                    (*where, key),
                    "threshold-without-budget",
                    found=", ".join(map(str, numbers)) or None,
                    variable=VARIABLES[family],
                    given=bool(numbers),
                    number=MOST_THRESHOLDS[family],
                )
            yield from threshold_order((*where, key), numbers)


class SafeTabHSpec(GroupSpec):
    """Household type and tenure by detailed race and ethnicity (SafeTab-H)."""

    data: SafeTabHData
    privacy: HouseholdPrivacy
    safetab: GroupPassPart
    levels: list[SafeTabHLevel] = Field(min_length=1)
    output: GroupOutput = GroupOutput()

    @property
    def settings(self) -> SafeTabHSettings:
        """The settings of the algorithm as plain values."""
        ordered = sorted(self.levels, key=lambda level: level.order)
        return SafeTabHSettings(levels=tuple(level.settings for level in ordered), **self.shared)


class SafeTabHProgram(OfficialProgram):
    """SafeTab-H."""

    title, release, drafted, about, unit = "SafeTab-H", "safetab-h", NAME, TITLE, "household"
    stems: ClassVar = {key: f"{stem}.txt" for key, stem in (PARAMETERS | DATA).items()}

    def find(self, parameters: Path, data: Path) -> OfficialFolder:
        return find_folder(parameters, data, DATA)

    def configured(self, path: Path, options: Mapping[str, str]) -> OfficialConfig[SafeTabHSettings]:  # noqa: ARG002
        return read_config(path)

    def stand_in(self, path: Path) -> SafeTabHSettings:
        return group_stand_in(production_settings(), path)

    def production(self) -> SafeTabHSettings:
        return of_united_states(production_settings())

    def further(self, settings: Any, options: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        return {"names": ITERATION_LEVELS}


PROGRAM = SafeTabHProgram()
draft_safetab_h = PROGRAM.draft
