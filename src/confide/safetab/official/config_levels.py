"""Budgets and thresholds in a ``config.json``: twenty keys, and lists under keys such as ``(STATE, 2)``."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from confide.safetab.official.config_reader import ConfigReader, shown_value
from confide.safetab.settings import LARGEST_THRESHOLD, PR_REGIONS, REGION_TYPES, US_REGIONS, LevelSettings

INFINITE = Fraction(10**12)
"""What stands for an infinite budget. A cell is then off by one with probability below exp(-10**9): no noise at all, in
numbers that can be priced, planned and refused by a ledger like any other."""

THRESHOLDS = "thresholds_p"
BUDGETS = {
    (region, level): f"privacy_budget_p_level_{level}_{region.lower().replace('-', '_')}"
    for region in REGION_TYPES
    for level in (1, 2)
}
LARGEST_NUMBER = 10**11
"""Beyond this a finite budget is a slip of the pen."""


def levels_of(reader: ConfigReader, values: dict[str, Any], run_us: bool, run_pr: bool) -> Iterator[LevelSettings]:
    """The levels of the passes that run and have a budget. Those of the other pass are looked at, too."""
    thresholds = values.get(THRESHOLDS, {})
    if not isinstance(thresholds, dict):
        reader.problem(
            THRESHOLDS, "config-thresholds", "the thresholds are no object", thresholds, "an object of lists"
        )
        thresholds = {}
    taken = {key: _thresholds(reader, key, value) for key, value in thresholds.items()}
    known = {f"({region}, {level})" for region, level in BUDGETS}
    for key in sorted(set(taken) - known):
        what, expected = "there is no such population group level", "a key such as (STATE, 2)"
        reader.problem(f"{THRESHOLDS}.{key}", "config-thresholds", what, key, expected)
    for (region, level), key in BUDGETS.items():
        budget = _budget(reader, key, values[key]) if key in values else Fraction(0)
        runs = (run_us and region in US_REGIONS) or (run_pr and region in PR_REGIONS)
        name = f"({region}, {level})"
        if runs and name not in taken and THRESHOLDS in values:
            what, remedy = (
                "a population group level has no thresholds",
                "add them; the level needs them also at budget 0",
            )
            reader.problem(f"{THRESHOLDS}.{name}", "config-thresholds", what, "no such key", "three numbers", remedy)
        if runs and budget and taken.get(name):
            yield LevelSettings(region, level, budget, taken[name])  # type: ignore[arg-type]


def _budget(reader: ConfigReader, key: str, value: Any) -> Fraction:
    number = reader.number(key, value)
    if number is None:
        return Fraction(0)
    if number < 0:
        reader.problem(key, "config-budget", "a budget is negative", str(number), "0 or more; 0: not tabulated")
        return Fraction(0)
    if number.is_infinite():
        return INFINITE
    if number > LARGEST_NUMBER:
        what, expected = "a budget this large promises nobody anything", f"at most {LARGEST_NUMBER:,}, or Infinity"
        reader.problem(key, "config-budget", what, str(number), expected)
    return Fraction(number)


def _thresholds(reader: ConfigReader, key: str, value: Any) -> tuple[int, int, int] | None:
    path, expected = f"{THRESHOLDS}.{key}", "exactly three numbers, none less than the one before"
    if not isinstance(value, list):
        reader.problem(path, "config-thresholds", "the thresholds are no list", value, expected)
        return None
    if len(value) != 3:
        what = f"there are {len(value)} thresholds"
        remedy = "give three: with a fourth, the largest groups would lose all their tables"
        reader.problem(path, "config-thresholds", what, shown_value(value), expected, remedy)
        return None
    numbers = [reader.number(path, number) for number in value]
    whole = [_whole(number) for number in numbers if number is not None]
    if len(whole) != 3:
        return None
    first, second, third = whole
    if not first <= second <= third:
        reader.problem(path, "config-thresholds", "the thresholds are not in order", shown_value(value), expected)
        return None
    return first, second, third


def _whole(number: Decimal) -> int:
    """A noisy total is whole, so it reaches a threshold exactly if it reaches the next whole number."""
    if number.is_infinite() or abs(number) > LARGEST_THRESHOLD:
        return LARGEST_THRESHOLD if number > 0 else -LARGEST_THRESHOLD
    return ceil(number)
