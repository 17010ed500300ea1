"""The spec of a SafeTab-H release, and ``config.json`` of the Census Bureau's program, accepted as it is.

The rules for single values are those of SafeTab-P (:mod:`confide.mechanisms.safetab.official`). There are forty
budgets, three thresholds of household type and one of tenure for each level. Unlike in the Bureau's program, a key that
is there twice is an error; thresholds after the third, which it takes and never looks at, are a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, create_model

from confide.documents import Document, Problem
from confide.errors import Finding
from confide.mechanisms.safetab import official
from confide.mechanisms.safetab.program import OfficialProgram, group_stand_in, of_united_states
from confide.mechanisms.safetab.settings import ITERATION_LEVELS, REGION_TYPES
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


# The configuration of the Census Bureau.


DATA = {"records": "household-records", "blocks": "GRF-C", "totals": "pop-group-totals"}
BUDGETS = {
    (family, region, level): f"privacy_budget_h_{family}_level_{level}_{region.lower().replace('-', '_')}"
    for family in FAMILIES
    for region in REGION_TYPES
    for level in (1, 2)
}
THRESHOLDS: dict[FamilyName, str] = {family: f"thresholds_h_{family}" for family in FAMILIES}


def _of_type(value: Any) -> tuple[int, ...]:
    """Three numbers; of more, all in order, the first three."""
    most = MOST_THRESHOLDS["t3"]
    return official.thresholds_of(value, max(most, len(value)) if isinstance(value, list) else most)[:most]


def _of_tenure(value: Any) -> tuple[int, ...]:
    return official.thresholds_of(value, MOST_THRESHOLDS["t4"])


class HouseholdConfigPart(official.PassConfig):
    """``config.json`` without its budgets."""

    thresholds_h_t3: Annotated[
        dict[official.Level, Annotated[tuple[int, int, int], BeforeValidator(_of_type)]], official.level_keys
    ]
    thresholds_h_t4: Annotated[
        dict[official.Level, Annotated[tuple[int], BeforeValidator(_of_tenure)]], official.level_keys
    ]

    def thresholds(self, family: FamilyName, region: str, level: int) -> tuple[int, ...]:
        """Those of a level."""
        numbers: tuple[int, ...] = getattr(self, THRESHOLDS[family])[f"({region}, {level})"]
        return numbers

    @property
    def levels(self) -> tuple[HouseholdLevel, ...]:
        """The levels of the passes that run and have a budget."""
        result = []
        for region, level in dict.fromkeys((region, level) for _, region, level in BUDGETS):
            budgets = tuple(getattr(self, BUDGETS[family, region, level]) for family in FAMILIES)
            if self.runs(region) and any(budgets):
                of_tables = tuple(
                    self.thresholds(family, region, level) if budget else ()
                    for family, budget in zip(FAMILIES, budgets, strict=True)
                )
                result.append(HouseholdLevel(region, level, (budgets[0], budgets[1]), (of_tables[0], of_tables[1])))
        return tuple(result)

    def problems(self) -> Iterator[Problem]:
        """What is wrong although each value by itself is right."""
        yield from super().problems()
        missing = False
        for family in FAMILIES:
            for problem in self.missing_thresholds(THRESHOLDS[family], getattr(self, THRESHOLDS[family])):
                missing = True
                yield problem
        if (self.run_us or self.run_pr) and not missing and not self.levels:
            key = BUDGETS["t3", "USA", 1]
            yield Problem.of((key,), "config-no-budget", key=key)


HouseholdConfigFile: type[HouseholdConfigPart] = create_model(
    "HouseholdConfigFile", __base__=HouseholdConfigPart, **dict.fromkeys(BUDGETS.values(), (official.Budget, ...))
)  # type: ignore[call-overload]


class UsHouseholdConfigFile(HouseholdConfigFile):
    """``config.json`` with a US pass, which needs its states."""

    state_filter_us: Annotated[list[str], official.state_filter]


def read_config(path: Path) -> official.OfficialConfig[SafeTabHSettings]:
    """The settings in a ``config.json``. Raises an :class:`InputError` with all findings."""
    loaded = official.load_config(path, HouseholdConfigFile, UsHouseholdConfigFile, _ignored)
    config = loaded.value
    settings = SafeTabHSettings(levels=config.levels, **config.shared)
    infinite = any(budget == official.INFINITE for level in settings.levels for budget in level.budgets)
    return official.OfficialConfig(settings, infinite, loaded.warnings)


def config_of(settings: SafeTabHSettings) -> dict[str, Any]:
    """The ``config.json`` that has these settings: what :func:`read_config` reads."""
    by_level = {(level.region_type, level.iteration_level): level for level in settings.levels}

    def budget(family: FamilyName, level: tuple[str, int]) -> Fraction:
        return by_level[level].budget(family) if level in by_level else Fraction(0)

    def steps(family: FamilyName, level: tuple[str, int]) -> list[int]:
        own = by_level[level].thresholds_of(family) if level in by_level else ()
        return list(own) or [0] * MOST_THRESHOLDS[family]

    return {
        **official.config_of_passes(settings),
        **{key: budget(family, (region, level)) for (family, region, level), key in BUDGETS.items()},
        **{
            key: {name: steps(family, level) for name, level in official.LEVELS.items()}
            for family, key in THRESHOLDS.items()
        },
    }


def _ignored(document: Document) -> Iterator[Finding]:
    """Thresholds after the third, which the Bureau's program takes and never looks at."""
    key = THRESHOLDS["t3"]
    given = document.values.get(key)
    for level, numbers in given.items() if isinstance(given, dict) else ():
        if isinstance(numbers, list) and len(numbers) > MOST_THRESHOLDS["t3"]:
            where = document.place(key, level)
            yield Finding.of("config-thresholds/ignored", where=where, severity="warning", value=len(numbers))


# The spec.


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
    stems: ClassVar = {key: f"{stem}.txt" for key, stem in (official.PARAMETERS | DATA).items()}

    def find(self, parameters: Path, data: Path) -> official.OfficialFolder:
        return official.find_folder(parameters, data, DATA)

    def configured(self, path: Path, options: Mapping[str, str]) -> official.OfficialConfig[SafeTabHSettings]:  # noqa: ARG002
        return read_config(path)

    def stand_in(self, path: Path) -> SafeTabHSettings:
        return group_stand_in(production_settings(), path)

    def production(self) -> SafeTabHSettings:
        return of_united_states(production_settings())

    def further(self, settings: Any, options: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        return {"names": ITERATION_LEVELS}


PROGRAM = SafeTabHProgram()
draft_safetab_h = PROGRAM.draft
