"""``config.json`` of the Census Bureau's SafeTab-H, accepted as it is, and the files beside it.

The rules for single values are those of SafeTab-P (:mod:`confide.mechanisms.safetab.official`). There are forty
budgets, three thresholds of household type and one of tenure for each level. Unlike in the Bureau's program, a key that
is there twice is an error; thresholds after the third, which it takes and never looks at, are a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, create_model

from confide.documents import Document, Problem
from confide.errors import Finding
from confide.mechanisms.safetab.official import (
    INFINITE,
    Budget,
    Level,
    OfficialConfig,
    PassConfig,
    level_keys,
    load_config,
    state_filter,
    thresholds_of,
)
from confide.mechanisms.safetab.settings import REGION_TYPES
from confide.mechanisms.safetab_h.settings import (
    FAMILIES,
    MOST_THRESHOLDS,
    FamilyName,
    HouseholdLevel,
    SafeTabHSettings,
)

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
    return thresholds_of(value, max(most, len(value)) if isinstance(value, list) else most)[:most]


def _of_tenure(value: Any) -> tuple[int, ...]:
    return thresholds_of(value, MOST_THRESHOLDS["t4"])


class HouseholdConfigPart(PassConfig):
    """``config.json`` without its budgets."""

    thresholds_h_t3: Annotated[dict[Level, Annotated[tuple[int, int, int], BeforeValidator(_of_type)]], level_keys]
    thresholds_h_t4: Annotated[dict[Level, Annotated[tuple[int], BeforeValidator(_of_tenure)]], level_keys]

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
    "HouseholdConfigFile", __base__=HouseholdConfigPart, **dict.fromkeys(BUDGETS.values(), (Budget, ...))
)  # type: ignore[call-overload]


class UsHouseholdConfigFile(HouseholdConfigFile):
    """``config.json`` with a US pass, which needs its states."""

    state_filter_us: Annotated[list[str], state_filter]


def read_config(path: Path) -> OfficialConfig[SafeTabHSettings]:
    """The settings in a ``config.json``. Raises an :class:`InputError` with all findings."""
    loaded = load_config(path, HouseholdConfigFile, UsHouseholdConfigFile, _ignored)
    config = loaded.value
    settings = SafeTabHSettings(levels=config.levels, **config.shared)
    infinite = any(budget == INFINITE for level in settings.levels for budget in level.budgets)
    return OfficialConfig(settings, infinite, loaded.warnings)


def _ignored(document: Document) -> Iterator[Finding]:
    """Thresholds after the third, which the Bureau's program takes and never looks at."""
    key = THRESHOLDS["t3"]
    given = document.values.get(key)
    for level, numbers in given.items() if isinstance(given, dict) else ():
        if isinstance(numbers, list) and len(numbers) > MOST_THRESHOLDS["t3"]:
            where = document.place(key, level)
            yield Finding.of("config-thresholds/ignored", where=where, severity="warning", value=len(numbers))
