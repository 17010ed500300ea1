"""The spec of a SafeTab-H release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field

from confide.mechanisms.safetab.official import PARAMETERS
from confide.mechanisms.safetab.settings import ITERATION_LEVELS
from confide.mechanisms.safetab.spec import (
    LEVEL_NUMBERS,
    CodedData,
    GroupLevelPart,
    GroupOutput,
    GroupPassPart,
    Threshold,
    level_problems,
    pass_problems,
)
from confide.mechanisms.safetab_h.official import DATA
from confide.mechanisms.safetab_h.settings import (
    FAMILIES,
    MOST_THRESHOLDS,
    VARIABLES,
    FamilyName,
    HouseholdLevel,
    SafeTabHSettings,
    production_settings,
)
from confide.privacy import Definition
from confide.releases import spec
from confide.releases.draft import LEDGER, SPEC, Draft, no_product
from confide.report.rendering import render

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


class SafeTabHSpec(spec.Spec):
    """Household type and tenure by detailed race and ethnicity (SafeTab-H)."""

    names_smallest: ClassVar[bool] = False

    data: SafeTabHData
    privacy: HouseholdPrivacy
    safetab: GroupPassPart
    levels: list[SafeTabHLevel] = Field(min_length=1)
    output: GroupOutput = GroupOutput()

    @property
    def settings(self) -> SafeTabHSettings:
        """The settings of the algorithm as plain values."""
        part = self.safetab
        return SafeTabHSettings(
            definition=Definition(self.privacy.definition),
            levels=tuple(_level(level) for level in sorted(self.levels, key=lambda level: level.order)),
            max_race_codes=part.max_race_codes,
            negative_counts=part.negative_counts,
            states=tuple(sorted(part.states)),
            puerto_rico=part.puerto_rico,
        )

    def problems(self) -> list[spec.Problem]:
        problems = super().problems()
        if self.geography.model_fields_set:
            problems.append(spec.Problem.of(("geography",), "geography/safetab"))
        if self.privacy.neighbours != "add-remove":
            path: spec.KeyPath = ("privacy", "neighbours")
            problems.append(spec.Problem.of(path, "neighbours", found=repr(self.privacy.neighbours)))
        problems += pass_problems(self.safetab) + level_problems(self.levels, self.safetab)
        for position, level in enumerate(self.levels):
            problems += _tables(("levels", position), level)
        if not problems and self.privacy.budget != self.settings.total:
            total = self.settings.total
            path = ("privacy", "budget")
            problems.append(spec.Problem.of(path, "budget-sum", found=str(self.privacy.budget), total=total))
        return problems


def _level(level: SafeTabHLevel) -> HouseholdLevel:
    budgets, thresholds = level.budgets, level.thresholds
    return HouseholdLevel(
        level.region,
        LEVEL_NUMBERS[level.iterations],
        (budgets["t3"] or Fraction(0), budgets["t4"] or Fraction(0)),
        (thresholds["t3"], thresholds["t4"]),
    )


def _tables(where: spec.KeyPath, level: SafeTabHLevel) -> Iterator[spec.Problem]:
    """A level has a table at least, each table its thresholds, and thresholds their order."""
    budgets, thresholds = level.budgets, level.thresholds
    if not any(budgets.values()):
        yield spec.Problem.of(where, "no-table-of-level", region=level.region, iterations=level.iterations)
    for family in FAMILIES:
        key = "type_thresholds" if family == "t3" else "tenure_threshold"
        numbers = thresholds[family]
        if (budgets[family] is None) == bool(numbers):
            yield spec.Problem.of(
                (*where, key),
                "threshold-without-budget",
                found=", ".join(map(str, numbers)) or None,
                variable=VARIABLES[family],
                given=bool(numbers),
                number=MOST_THRESHOLDS[family],
            )
        if list(numbers) != sorted(numbers):
            yield spec.Problem.of((*where, key), "threshold-order", found=", ".join(map(str, numbers)))


def spec_text(
    settings: SafeTabHSettings, files: Mapping[str, str], *, name: str, title: str, ledger: str, file: str
) -> str:
    """The text of a spec of SafeTab-H.

    Args:
        settings: Levels, budgets and thresholds.
        files: The paths of the input files, by their key under ``[data]``.
        name: The name of the release.
        title: Its title.
        ledger: The path of the ledger.
        file: The name that the spec will have.

    Returns:
        A commented TOML file.
    """
    return render(
        "safetab-h.toml.j2",
        settings=settings,
        files=files,
        name=name,
        title=title,
        ledger=ledger,
        file=file,
        names=ITERATION_LEVELS,
    )


def draft_safetab_h(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec that ``confide new safetab-h`` writes."""
    no_product("safetab-h", product)
    settings = replace(production_settings(), puerto_rico=False)
    settings = replace(settings, levels=settings.passes["US"])
    files = {key: f"{stem}.txt" for key, stem in (PARAMETERS | DATA).items()}
    named = {"name": NAME, "title": TITLE} | dict(values)
    return Draft(spec_text(settings, files, **named, ledger=LEDGER, file=SPEC), settings.total, "add-remove")
