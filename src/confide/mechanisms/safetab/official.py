"""``config.json`` of the Census Bureau's SafeTab-P, accepted as it is.

Numbers are read as they are written: 0.1 is one tenth. All keys are required but ``zero_suppression_chance``. Every
problem is reported at once. What the Bureau's program lets pass and then trips over is refused here: negative budgets,
more than three thresholds; a key that nobody knows is a warning, because it may be a slip of the pen.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema, create_model

from confide.documents import Document, FileKind, Loaded, Part, Problem, read
from confide.errors import Finding, InputError, ParameterError, Place
from confide.exact import exact_text
from confide.mechanisms.safetab.settings import (
    LARGEST_THRESHOLD,
    MOST_RACE_CODES,
    PR_REGIONS,
    PUERTO_RICO,
    REGION_TYPES,
    STATES,
    US_REGIONS,
    GroupSettings,
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
COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


@dataclass(frozen=True)
class OfficialFolder:
    """The files of a release in the Bureau's layout. The names of ``files`` are the keys of a spec's ``[data]``."""

    config: Path
    files: dict[str, Path]


def find_folder(parameters: Path, data: Path, stems: Mapping[str, str] = DATA) -> OfficialFolder:
    """The files in both folders, each as text or as Parquet. Raises an :class:`InputError` with all that is missing.

    ``stems`` are the names of the files of data, without their endings, by their keys under ``[data]``.
    """
    findings = [
        Finding.of("official-folder/nothing", where=Place(file=str(folder)))
        for folder in (parameters, data)
        if not folder.is_dir()
    ]
    if findings:
        raise InputError(findings)
    config = parameters / CONFIG
    if not config.is_file():
        findings.append(Finding.of("official-folder/configuration", where=Place(file=str(config)), expected=CONFIG))
    files = {}
    for folder, names in ((parameters, PARAMETERS), (data, stems)):
        for key, stem in names.items():
            there = [folder / (stem + ending) for ending in ENDINGS if (folder / (stem + ending)).is_file()]
            if len(there) == 1:
                files[key] = there[0]
            elif there:
                found = " and ".join(path.name for path in there)
                findings.append(Finding.of("official-folder/file", where=Place(file=str(folder / stem)), found=found))
            else:
                where, packed = Place(file=str(folder / f"{stem}.txt")), compressed(folder, stem)
                if packed:
                    findings.append(Finding.of("official-folder/compressed", where=where, packed=packed, stem=stem))
                else:
                    findings.append(Finding.of("official-folder/file-missing", where=where, stem=stem))
    if findings:
        raise InputError(findings)
    return OfficialFolder(config, files)


def compressed(folder: Path, stem: str) -> str | None:
    """The name of a file that is there compressed, if one is."""
    return next((path.name for path in sorted(folder.glob(f"{stem}.*")) if path.suffix in COMPRESSED), None)


# The configuration: its keys and the rules for their values.


CONFIG_KIND = FileKind(
    "configuration",
    absent="config-unreadable",
    unreadable="config-unreadable",
    unknown_key="config-unknown-key",
    missing_key="config-missing-key",
    error=InputError,
    form="json",
    decimals=True,
    unknown_keys="warning",
)
MOST_DIGITS = 100
INFINITE = Fraction(10**12)
"""What stands for an infinite budget. A cell is then off by one with probability below exp(-10**9): no noise at all, in
numbers that can be priced, planned and refused by a ledger like any other."""
LARGEST_NUMBER = 10**11
"""Beyond this a finite budget is a slip of the pen."""
THRESHOLDS = "thresholds_p"
BUDGETS = {
    (region, level): f"privacy_budget_p_level_{level}_{region.lower().replace('-', '_')}"
    for region in REGION_TYPES
    for level in (1, 2)
}
LEVELS = {f"({region}, {level})": (region, level) for region, level in BUDGETS}
"""The keys of the thresholds, such as ``(STATE, 2)``."""
DEFINITIONS = {"zcdp": Definition.ZCDP, "puredp": Definition.PURE}


# The rules for single values. A finding about one that breaks a rule has the code of the rule.


def _number(value: Any, key: str) -> Decimal:
    """A finite or infinite number of reasonable length."""
    number = Decimal("NaN") if isinstance(value, bool) or not isinstance(value, int | Decimal) else Decimal(value)
    if number.is_nan():
        raise ParameterError("config-number/correct-value-configuration", key=key)
    if number.is_finite() and (abs(number.adjusted()) > MOST_DIGITS or len(number.as_tuple().digits) > MOST_DIGITS):
        raise ParameterError("config-number/large", key=key)
    return number


def _budget(value: Any, info: ValidationInfo) -> Fraction:
    number = _number(value, str(info.field_name))
    if number < 0:
        raise ParameterError("config-budget/negative")
    if number.is_infinite():
        return INFINITE
    if number > LARGEST_NUMBER:
        raise ParameterError("config-budget/large", largest_number=LARGEST_NUMBER)
    return Fraction(number)


def _probability(value: Any, info: ValidationInfo) -> Fraction:
    key = str(info.field_name)
    number, zero = _number(value, key), key == "zero_suppression_chance"
    if not number.is_finite() or number >= 1 or number < 0 or (number == 0 and not zero):
        raise ParameterError("config-probability", key=key, zero=zero)
    return Fraction(number)


def _level(key: Any) -> Any:
    if key not in LEVELS:
        close = difflib.get_close_matches(str(key), LEVELS, 1)
        raise ParameterError(
            "config-thresholds/population-group-level",
            close=close[0] if close else None,
        )
    return key


def _thresholds(value: Any) -> tuple[int, ...]:
    return thresholds_of(value, 3)


def thresholds_of(value: Any, number: int) -> tuple[int, ...]:
    """So many thresholds in order, as the next whole numbers."""
    if not isinstance(value, list):
        raise ParameterError("config-thresholds/list")
    if len(value) != number:
        raise ParameterError(
            "config-thresholds/exactly-three-numbers" if number == 3 else "config-thresholds/exactly-one-number",
            value=len(value),
        )
    numbers = tuple(_whole(_number(number, "a threshold")) for number in value)
    if list(numbers) != sorted(numbers):
        raise ParameterError("config-thresholds/order")
    return numbers


def _whole(number: Decimal) -> int:
    """A noisy total is whole, so it reaches a threshold exactly if it reaches the next whole number."""
    if number.is_infinite() or abs(number) > LARGEST_THRESHOLD:
        return LARGEST_THRESHOLD if number > 0 else -LARGEST_THRESHOLD
    return ceil(number)


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ParameterError("config-thresholds/object")
    return value


def _definition(value: Any) -> Definition:
    if not isinstance(value, str) or value not in DEFINITIONS:
        raise ParameterError("config-definition")
    return DEFINITIONS[value]


def _switch(value: Any, info: ValidationInfo) -> bool:
    if not isinstance(value, bool):
        raise ParameterError("config-switch", field_name=info.field_name)
    return value


def _race_codes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RACE_CODES:
        raise ParameterError("config-race-codes", most_race_codes=MOST_RACE_CODES)
    return value


def _states(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ParameterError("config-states/list")
    for position, code in enumerate(value):
        if code == PUERTO_RICO:
            raise ParameterError("config-states/puerto")
        if not isinstance(code, str) or code not in STATES:
            raise ParameterError("config-states/code")
        if code in value[:position]:
            raise ParameterError("config-states/state")
    return value


def _reader(value: Any) -> str:
    if value not in ("csv", "cef"):
        raise ParameterError("config-reader/unknown")
    return str(value)


Budget = Annotated[
    Fraction, BeforeValidator(_budget), PlainSerializer(str), WithJsonSchema({"type": "number", "minimum": 0})
]
Probability = Annotated[
    Fraction, BeforeValidator(_probability), PlainSerializer(str), WithJsonSchema({"type": "number", "minimum": 0})
]
Switch = Annotated[bool, BeforeValidator(_switch)]
Level = Annotated[str, BeforeValidator(_level)]
Three = Annotated[tuple[int, int, int], BeforeValidator(_thresholds)]
level_keys, state_filter = BeforeValidator(_object), BeforeValidator(_states)
"""For thresholds by level, and for the states of the US pass."""


C = TypeVar("C", bound="PassConfig")


class PassConfig(Part):
    """What the configurations of SafeTab-P and SafeTab-H have in common."""

    privacy_defn: Annotated[Definition, BeforeValidator(_definition)]
    max_race_codes: Annotated[int, BeforeValidator(_race_codes)]
    allow_negative_counts: Switch
    run_us: Switch
    run_pr: Switch
    reader: Annotated[str, BeforeValidator(_reader)]
    state_filter_us: Any = None

    def runs(self, region: str) -> bool:
        """Whether a pass that has the regions of a type is asked for."""
        return (self.run_us and region in US_REGIONS) or (self.run_pr and region in PR_REGIONS)

    @property
    def states(self) -> tuple[str, ...]:
        """The states of the US pass."""
        return tuple(sorted(self.state_filter_us)) if self.run_us else ()

    @property
    def shared(self) -> dict[str, Any]:
        """The settings that do not depend on levels, for :class:`GroupSettings`."""
        return {
            "definition": self.privacy_defn,
            "max_race_codes": self.max_race_codes,
            "negative_counts": self.allow_negative_counts,
            "states": self.states,
            "puerto_rico": self.run_pr,
        }

    def problems(self) -> Iterator[Problem]:
        """What is wrong although each value by itself is right."""
        if not self.run_us and not self.run_pr:
            yield Problem.of(("run_us",), "config-no-pass")

    def missing_thresholds(self, key: str, given: Mapping[str, Any]) -> list[Problem]:
        """Levels of the passes that run, and have no thresholds."""
        missing = [name for name, (region, _) in LEVELS.items() if self.runs(region) and name not in given]
        return [Problem.of((key, name), "config-thresholds/key") for name in missing]


class ConfigPart(PassConfig):
    """``config.json`` of SafeTab-P without its budgets."""

    privacy_budget_p_stage_1_fraction: Probability
    zero_suppression_chance: Probability = Fraction(0)
    thresholds_p: Annotated[dict[Level, Three], level_keys]

    @property
    def levels(self) -> tuple[LevelSettings, ...]:
        """The levels of the passes that run and have a budget."""
        return tuple(
            LevelSettings(region, level, getattr(self, key), self.thresholds_p[f"({region}, {level})"])
            for (region, level), key in BUDGETS.items()
            if self.runs(region) and getattr(self, key)
        )

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        missing = self.missing_thresholds(THRESHOLDS, self.thresholds_p)
        yield from missing
        if (self.run_us or self.run_pr) and not missing and not self.levels:
            key = BUDGETS["USA", 1]
            yield Problem.of((key,), "config-no-budget", key=key)


ConfigFile: type[ConfigPart] = create_model(
    "ConfigFile", __base__=ConfigPart, **dict.fromkeys(BUDGETS.values(), (Budget, ...))
)  # type: ignore[call-overload]


class UsConfigFile(ConfigFile):
    """``config.json`` with a US pass, which needs its states."""

    state_filter_us: Annotated[list[str], state_filter]


S = TypeVar("S")


@dataclass(frozen=True)
class OfficialConfig(Generic[S]):
    """A ``config.json`` that was read."""

    settings: S
    infinite: bool
    """Whether a budget is infinite: the counts are then published without noise, and are not for release."""
    warnings: tuple[Finding, ...]


def read_config(path: Path) -> OfficialConfig[SafeTabSettings]:
    """The settings in a ``config.json``. Raises an :class:`InputError` with all findings."""
    loaded = load_config(path, ConfigFile, UsConfigFile)
    config = loaded.value
    settings = SafeTabSettings(
        levels=config.levels,
        stage_1_fraction=config.privacy_budget_p_stage_1_fraction,
        zero_suppression=config.zero_suppression_chance,
        **config.shared,
    )
    return OfficialConfig(settings, any(level.budget == INFINITE for level in settings.levels), loaded.warnings)


def load_config(
    path: Path, plain: type[C], united_states: type[C], warnings: Callable[[Document], Iterable[Finding]] = lambda _: ()
) -> Loaded[C]:
    """A configuration that is right, with its warnings. Raises an :class:`InputError` with all findings.

    Args:
        path: The file.
        plain: Its keys, without a US pass.
        united_states: The same with one, which needs its states.
        warnings: What else is odd, but harmless.

    Returns:
        The values, each checked by itself and with the others.
    """
    document = read(path, kind=CONFIG_KIND)
    twice = [
        Finding.of("config-key-twice", where=replace(document.place(), path=key), found=key)
        for key in document.repeated
    ]
    document = replace(document, warnings=(*_warnings(document), *warnings(document)))
    try:
        loaded = document.check(united_states if document.values.get("run_us") is True else plain)
        loaded.refuse(loaded.value.problems())
    except InputError as error:
        raise InputError([*twice, *error.findings]) from None
    if twice:
        raise InputError(twice)
    return loaded


def _warnings(document: Document) -> Iterator[Finding]:
    """What is odd, but harmless."""
    if document.values.get("reader") == "cef":
        yield Finding.of("config-reader/cef", where=document.place("reader"), severity="warning")


def config_of(settings: SafeTabSettings) -> dict[str, Any]:
    """The ``config.json`` that has these settings: what :func:`read_config` reads."""
    budgets = {(level.region_type, level.iteration_level): level.budget for level in settings.levels}
    steps = {(level.region_type, level.iteration_level): list(level.thresholds) for level in settings.levels}
    return {
        **config_of_passes(settings),
        "privacy_budget_p_stage_1_fraction": settings.stage_1_fraction,
        "zero_suppression_chance": settings.zero_suppression,
        **{key: budgets.get(level, Fraction(0)) for level, key in BUDGETS.items()},
        THRESHOLDS: {key: steps.get(level, [0, 0, 0]) for key, level in LEVELS.items()},
    }


def config_of_passes(settings: GroupSettings[Any]) -> dict[str, Any]:
    """What the configurations of SafeTab-P and SafeTab-H have in common."""
    names = {definition: name for name, definition in DEFINITIONS.items()}
    return {
        "privacy_defn": names[settings.definition],
        "max_race_codes": settings.max_race_codes,
        "allow_negative_counts": settings.negative_counts,
        "run_us": bool(settings.states),
        "run_pr": settings.puerto_rico,
        "reader": "csv",
        "state_filter_us": list(settings.states or STATES),
    }


def config_text(values: Mapping[str, Any]) -> str:
    """The text of a configuration, with every number as it is. Raises for numbers that have no last decimal."""
    written: dict[str, str] = {}

    def kept(value: Any) -> str:
        text = "Infinity" if value == INFINITE else exact_text(value)
        if "/" in text:
            raise ParameterError("config-number/no-decimal", found=text[:60])
        written[f'"{len(written)}\\u0000"'] = text
        return f"{len(written) - 1}\0"

    text = json.dumps(values, default=kept, indent=2)
    for mark, number in written.items():
        text = text.replace(mark, number, 1)
    return text + "\n"


def filter_of(path: Path) -> tuple[tuple[str, ...], bool]:
    """The states, and whether Puerto Rico is asked for, as far as a wrong configuration tells; or else all states.

    With it the other files can be looked at although the configuration has to be corrected.
    """
    try:
        values = read(path, kind=CONFIG_KIND).values
    except InputError:
        return STATES, False
    listed = values.get("state_filter_us")
    states = tuple(sorted({code for code in listed if code in STATES})) if isinstance(listed, list) else ()
    run_us = values.get("run_us") is not False
    run_pr = values.get("run_pr") is True
    return ((states or STATES) if run_us or not run_pr else ()), run_pr
