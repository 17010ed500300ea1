"""``config.json`` of the Census Bureau's SafeTab-P, accepted as it is.

Numbers are read as they are written: 0.1 is one tenth. All keys are required but ``zero_suppression_chance``. Every
problem is told at once. What the Bureau's program lets pass and then trips over is refused here: negative budgets, more
than three thresholds; a key that nobody knows is a warning, because it may be a slip of the pen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

from confide.errors import Finding, InputError, Place
from confide.mechanisms.safetab.settings import (
    LARGEST_THRESHOLD,
    MOST_RACE_CODES,
    PR_REGIONS,
    PUERTO_RICO,
    REGION_TYPES,
    STATES,
    US_REGIONS,
    LevelSettings,
    SafeTabSettings,
)
from confide.privacy import Definition

# Where the files of the Census Bureau's layout are: a folder of parameters and a folder of data.


CONFIG = "config.json"
PARAMETERS = {
    "codes": "race-and-ethnicity-codes",
    "race_iterations": "race-characteristic-iterations",
    "ethnicity_iterations": "ethnicity-characteristic-iterations",
    "code_to_iteration": "race-and-ethnicity-code-to-iteration",
}
DATA = {"records": "person-records", "blocks": "GRF-C"}
ENDINGS = (".txt", ".parquet")


@dataclass(frozen=True)
class OfficialFolder:
    """The files of a release in the Bureau's layout. The names of ``files`` are the keys of a spec's ``[data]``."""

    config: Path
    files: dict[str, Path]


def find_folder(parameters: Path, data: Path) -> OfficialFolder:
    """The files in both folders, each as text or as Parquet. Raises an :class:`InputError` with all that is missing."""
    findings = [
        _missing(folder, "there is no such folder", "a folder", "nothing of this name")
        for folder in (parameters, data)
        if not folder.is_dir()
    ]
    if findings:
        raise InputError(findings)
    config = parameters / CONFIG
    if not config.is_file():
        findings.append(_missing(config, "the configuration is missing", CONFIG, "no such file"))
    files = {}
    for folder, names in ((parameters, PARAMETERS), (data, DATA)):
        for key, stem in names.items():
            there = [folder / (stem + ending) for ending in ENDINGS if (folder / (stem + ending)).is_file()]
            if len(there) == 1:
                files[key] = there[0]
            elif there:
                found = " and ".join(path.name for path in there)
                findings.append(_missing(folder / stem, "a file is there twice", "one of the two", found))
            else:
                expected = f"{stem}.txt or {stem}.parquet"
                findings.append(_missing(folder / f"{stem}.txt", "a file is missing", expected, "no such file"))
    if findings:
        raise InputError(findings)
    return OfficialFolder(config, files)


def _missing(path: Path, what: str, expected: str, found: str) -> Finding:
    return Finding("official-folder", what, Place(file=str(path)), found, expected, "correct the path, or add the file")


# Takes values out of a ``config.json`` and notes what is wrong with them, instead of stopping at the first.


MOST_DIGITS = 100


@dataclass
class ConfigReader:
    """The values of a file, and the findings so far."""

    file: str
    values: dict[str, Any]
    findings: list[Finding] = field(default_factory=list)

    def problem(self, key: str, code: str, what: str, found: object, expected: str, remedy: str = "") -> None:
        found_text = found if isinstance(found, str) else shown_value(found)
        where = Place(file=self.file, path=key)
        self.findings.append(
            Finding(code, what, where, found_text, expected, remedy or f"correct {key} in {self.file}")
        )

    def number(self, key: str, value: Any) -> Decimal | None:
        """A finite or infinite number of reasonable length, or None with a finding."""
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            self.problem(key, "config-number", f"{key} is not a number", value, "a number")
            return None
        number = Decimal(value)
        if number.is_nan():
            self.problem(key, "config-number", f"{key} is not a number", "NaN", "a number")
            return None
        if number.is_finite() and (abs(number.adjusted()) > MOST_DIGITS or len(number.as_tuple().digits) > MOST_DIGITS):
            self.problem(
                key, "config-number", f"{key} is out of all proportion", "a number of very many digits", "a number"
            )
            return None
        return number


def shown_value(value: object) -> str:
    """A value of the file, which is public, cut short."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


# Budgets and thresholds in a ``config.json``: twenty keys, and lists under keys such as ``(STATE, 2)``.


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
    budget_keys = {f"({region}, {level})" for region, level in BUDGETS}
    for key in sorted(set(taken) - budget_keys):
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
    integers = [_whole(number) for number in numbers if number is not None]
    if len(integers) != 3:
        return None
    first, second, third = integers
    if not first <= second <= third:
        reader.problem(path, "config-thresholds", "the thresholds are not in order", shown_value(value), expected)
        return None
    return first, second, third


def _whole(number: Decimal) -> int:
    """A noisy total is whole, so it reaches a threshold exactly if it reaches the next whole number."""
    if number.is_infinite() or abs(number) > LARGEST_THRESHOLD:
        return LARGEST_THRESHOLD if number > 0 else -LARGEST_THRESHOLD
    return ceil(number)


DEFINITIONS = {"zcdp": Definition.ZCDP, "puredp": Definition.PURE}
SWITCHES = ("allow_negative_counts", "run_us", "run_pr")
FRACTION, SUPPRESSION = "privacy_budget_p_stage_1_fraction", "zero_suppression_chance"
REQUIRED = (
    "max_race_codes",
    *BUDGETS.values(),
    FRACTION,
    THRESHOLDS,
    *SWITCHES,
    "reader",
    "state_filter_us",
    "privacy_defn",
)


@dataclass(frozen=True)
class OfficialConfig:
    """A ``config.json`` that was read."""

    settings: SafeTabSettings
    infinite: bool
    """Whether a budget is infinite: the counts are then published without noise, and are not for release."""
    warnings: tuple[Finding, ...]


def read_config(path: Path) -> OfficialConfig:
    """The settings in a ``config.json``. Raises an :class:`InputError` with all findings."""
    values, repeated = _values(path)
    reader = ConfigReader(path.name, values)
    for key in repeated:
        where, remedy = Place(file=path.name, path=key), "leave it once; the last one counts"
        what = "a key is there more than once"
        reader.findings.append(Finding("config-key-twice", what, where, key, "each key once", remedy, "warning"))
    needed = set(REQUIRED) - (set() if reader.values.get("run_us") is True else {"state_filter_us"})
    missing = [key for key in REQUIRED if key in needed and key not in reader.values]
    for key in missing:
        what, remedy = "a required key is missing", "add it; there are no defaults"
        reader.problem(key, "config-missing-key", what, "no such key", f"a value for {key}", remedy)
    values = {key: value for key, value in reader.values.items() if key not in missing}
    definition = _definition(reader, values)
    switches = {key: _switch(reader, key, values.get(key)) for key in SWITCHES if key in values}
    passes = switches.get("run_us", False), switches.get("run_pr", False)
    if "run_us" in switches and "run_pr" in switches and not any(passes):
        reader.problem(
            "run_us", "config-no-pass", "neither pass is asked for", "run_us and run_pr are false", "one true"
        )
    states = _states(reader, values.get("state_filter_us")) if passes[0] and "state_filter_us" in values else ()
    race_codes = _race_codes(reader, values.get("max_race_codes", MOST_RACE_CODES))
    fraction = _probability(reader, FRACTION, values.get(FRACTION, Decimal("0.1")), zero=False)
    suppression = _probability(reader, SUPPRESSION, values.get(SUPPRESSION, 0), zero=True)
    levels = list(levels_of(reader, values, *passes))
    _check_reader(reader, values.get("reader", "csv"))
    if not levels and all(finding.severity == "warning" for finding in reader.findings):
        what = "no level of a pass that runs has a budget"
        reader.problem("privacy_budget_p_level_1_usa", "config-no-budget", what, "0 everywhere", "one above zero")
    errors = [finding for finding in reader.findings if finding.severity == "error"]
    if errors:
        raise InputError(reader.findings)
    settings = SafeTabSettings(
        definition=definition,
        levels=tuple(levels),
        stage_1_fraction=fraction,
        max_race_codes=race_codes,
        zero_suppression=suppression,
        negative_counts=switches["allow_negative_counts"],
        states=states,
        puerto_rico=passes[1],
    )
    infinite = any(level.budget == INFINITE for level in levels)
    return OfficialConfig(settings, infinite, (*reader.findings, *_unknown(reader)))


def filter_of(path: Path) -> tuple[tuple[str, ...], bool]:
    """The states, and whether Puerto Rico is asked for, as far as a wrong configuration tells; or else all states.

    With it the other files can be looked at although the configuration has to be corrected.
    """
    try:
        values, _ = _values(path)
    except InputError:
        return STATES, False
    listed = values.get("state_filter_us")
    states = tuple(sorted({code for code in listed if code in STATES})) if isinstance(listed, list) else ()
    run_us = values.get("run_us") is not False
    run_pr = values.get("run_pr") is True
    return ((states or STATES) if run_us or not run_pr else ()), run_pr


def _values(path: Path) -> tuple[dict[str, Any], list[str]]:
    """What the file says, and the keys that it says it for more than once."""
    repeated: list[str] = []

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        repeated.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(pairs)

    try:
        values = json.loads(
            path.read_text(encoding="utf-8-sig"),
            parse_float=Decimal,
            parse_constant=Decimal,
            object_pairs_hook=read_object,
        )
    except OSError as error:
        raise _unreadable(path, error.strerror or type(error).__name__) from None
    except (ValueError, RecursionError) as error:
        found = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "no JSON text"
        raise _unreadable(path, found) from None
    if not isinstance(values, dict):
        raise _unreadable(path, "JSON that is no object")
    return values, repeated


def _unreadable(path: Path, found: str) -> InputError:
    what, expected = "the configuration cannot be read", "a JSON object in UTF-8"
    return InputError("config-unreadable", what, Place(file=path.name), found, expected, "write it again")


def _definition(reader: ConfigReader, values: dict[str, Any]) -> Definition:
    name = values.get("privacy_defn", "zcdp")
    if not isinstance(name, str) or name not in DEFINITIONS:
        reader.problem("privacy_defn", "config-definition", "unknown privacy definition", name, "zcdp or puredp")
        return Definition.ZCDP
    return DEFINITIONS[name]


def _switch(reader: ConfigReader, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        reader.problem(key, "config-switch", f"{key} is neither true nor false", value, "true or false")
        return False
    return value


def _race_codes(reader: ConfigReader, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RACE_CODES:
        what, expected = "max_race_codes is out of range", f"a whole number from 1 to {MOST_RACE_CODES}"
        reader.problem("max_race_codes", "config-race-codes", what, value, expected)
        return MOST_RACE_CODES
    return value


def _probability(reader: ConfigReader, key: str, value: Any, *, zero: bool) -> Fraction:
    number = reader.number(key, value)
    if number is None:
        return Fraction(1, 2)
    if not number.is_finite() or number >= 1 or number < 0 or (number == 0 and not zero):
        expected = "0 or more, and less than 1" if zero else "more than 0 and less than 1"
        reader.problem(key, "config-probability", f"{key} is out of range", str(number), expected)
        return Fraction(1, 2)
    return Fraction(number)


def _states(reader: ConfigReader, value: Any) -> tuple[str, ...]:
    key, expected = "state_filter_us", "a list of different two-digit codes of states, as text"
    if not isinstance(value, list) or not value:
        reader.problem(key, "config-states", "the state filter is no list of states", value, expected)
        return ()
    for position, code in enumerate(value):
        if code == PUERTO_RICO:
            remedy = "remove it: Puerto Rico has a pass of its own, run_pr"
            reader.problem(key, "config-states", "Puerto Rico is not a state of the US pass", code, expected, remedy)
        elif not isinstance(code, str) or code not in STATES:
            reader.problem(key, "config-states", "a code of the filter is not that of a state", code, expected)
        elif code in value[:position]:
            reader.problem(key, "config-states", "a state is named twice", code, expected)
    return tuple(sorted({code for code in value if isinstance(code, str)}))


def _check_reader(reader: ConfigReader, name: Any) -> None:
    if name == "cef":
        where = Place(file=reader.file, path="reader")
        what = "the reader cef reads the Census Edited File, which exists in the Census Bureau alone"
        remedy = "none needed, if the data folder has person-records and GRF-C: these are read, as by the reader csv"
        reader.findings.append(Finding("config-reader", what, where, "cef", "csv", remedy, severity="warning"))
    elif name != "csv":
        reader.problem("reader", "config-reader", "unknown reader", name, "csv")


def _unknown(reader: ConfigReader) -> Iterator[Finding]:
    for key in sorted(set(reader.values) - set(REQUIRED) - {SUPPRESSION}):
        where, expected = Place(file=reader.file, path=key), "a key that SafeTab-P knows"
        remedy = "remove it; if it is a misspelt key, correct it"
        yield Finding("config-unknown-key", "the key has no meaning", where, key, expected, remedy, severity="warning")
