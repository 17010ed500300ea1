"""``config.json`` of the Census Bureau's PHSafe, accepted as it is.

Numbers are read as they are written. Tables, levels and their keys are exactly those of the layout; everything that is
wrong is reported at once. A key that is there twice is an error; one at the top that nobody knows is a warning.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, create_model

from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.documents import Part, Problem, read
from confide.engines import LocalEngine, Source, format_of
from confide.errors import Finding, InputError, ParameterError, Place, RunError
from confide.file_system import private_folder, write_text
from confide.mechanisms.phsafe.records import SHARED_RULES, check_files
from confide.mechanisms.phsafe.settings import (
    MOST_PERSONS,
    PHSafeSettings,
    Sensitivity,
    budget_keys,
    measured_tables,
    tables,
)
from confide.mechanisms.phsafe.tabulate import HouseholdFiles, exact_rows, write_persons, write_units
from confide.mechanisms.safetab.official import CONFIG_KIND, DEFINITIONS, INFINITE, Budget, OfficialConfig, compressed
from confide.mechanisms.safetab.settings import PUERTO_RICO, STATES
from confide.privacy import Definition
from confide.releases.workspace import no_room_is_an_error

FILES = {"records": "persons", "units": "units", "blocks": "geo"}
"""The files of the Census Bureau's layout, by their keys under ``[data]``."""
ENDINGS = (".csv", ".parquet")
BUDGETS, TAU = "privacy_budget", "tau"


def find_files(data: Path) -> dict[str, Path]:
    """The three files of a folder, by their keys under ``[data]``. Raises an :class:`InputError` with all missing."""
    if not data.is_dir():
        raise InputError("official-folder/nothing", where=Place(file=str(data)))
    files, findings = dict[str, Path](), list[Finding]()
    for key, stem in FILES.items():
        there = [path for ending in ENDINGS if (path := data / (stem + ending)).is_file()]
        where = Place(file=str(data / (stem + ENDINGS[0])))
        if len(there) == 1:
            files[key] = there[0]
        elif there:
            found = " and ".join(path.name for path in there)
            findings.append(Finding.of("official-folder/file", where=where, found=found))
        else:
            packed = compressed(data, stem)
            if packed:
                findings.append(Finding.of("official-folder/compressed", where=where, packed=packed, stem=stem))
            else:
                findings.append(Finding.of("official-folder/of-households", where=where, stem=stem))
    if findings:
        raise InputError(findings)
    return files


def _definition(value: Any) -> Definition:
    if not isinstance(value, str) or value not in DEFINITIONS:
        raise ParameterError("config-definition")
    return DEFINITIONS[value]


def _reader(value: Any) -> str:
    if value not in ("csv", "cef"):
        raise ParameterError("config-reader/unknown")
    return str(value)


def _tau(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_PERSONS:
        raise ParameterError("config-tau", name=info.field_name, most=MOST_PERSONS)
    return value


def _states(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ParameterError("config-states/list")
    if value == [PUERTO_RICO]:
        return value
    for position, code in enumerate(value):
        if code == PUERTO_RICO:
            raise ParameterError("config-states/puerto-alone")
        if not isinstance(code, str) or code not in STATES:
            raise ParameterError("config-states/code")
        if code in value[:position]:
            raise ParameterError("config-states/state")
    return value


def _model(name: str, kind: Any, keys: Any) -> Any:
    """A model with exactly these keys, which are no names of Python."""
    return create_model(name, __base__=Part, **dict.fromkeys(keys, (kind, ...)))  # type: ignore[call-overload]


BudgetsPart = create_model(  # type: ignore[call-overload]
    "BudgetsPart",
    __base__=Part,
    **{each.name: (_model(each.name, Budget, budget_keys(each)), ...) for each in measured_tables()},
)
TauPart = create_model(  # type: ignore[call-overload]
    "TauPart",
    __base__=Part,
    **{each.name: (Annotated[int, BeforeValidator(_tau)], ...) for each in measured_tables() if each.tau is not None},
)


class PHSafeConfig(Part):
    """``config.json``."""

    privacy_budget: BudgetsPart
    tau: TauPart
    state_filter: Annotated[list[str], BeforeValidator(_states)]
    reader: Annotated[str, BeforeValidator(_reader)]
    privacy_defn: Annotated[Definition, BeforeValidator(_definition)]

    @property
    def budgets(self) -> dict[tuple[str, str, str], Fraction]:
        """By table, geographic level and iteration level."""
        result = {}
        for each in measured_tables():
            part = getattr(self.privacy_budget, each.name)
            for key, levels in budget_keys(each).items():
                result[each.name, *levels] = getattr(part, key)
        return result

    def problems(self) -> Iterator[Problem]:
        """What is wrong although each value by itself is right."""
        if not any(self.budgets.values()):
            yield Problem.of((BUDGETS,), "config-no-budget/tables")


def read_config(path: Path, sensitivity: Sensitivity = "bureau") -> OfficialConfig[PHSafeSettings]:
    """The settings in a ``config.json``, which does not say the sensitivity. Raises an :class:`InputError` with all
    findings."""
    document = read(path, kind=CONFIG_KIND)
    findings = [
        Finding.of("config-key-twice/refused", where=replace(document.place(), path=key), found=key)
        for key in document.repeated
    ]
    try:
        loaded = document.check(PHSafeConfig)
        loaded.refuse(loaded.value.problems())
    except InputError as error:
        raise InputError([*findings, *(_as_errors(error.findings))]) from None
    every = [*findings, *_as_errors(loaded.warnings)]
    if any(finding.severity == "error" for finding in every):
        raise InputError(every)
    config = loaded.value
    budgets = config.budgets
    settings = PHSafeSettings(
        definition=config.privacy_defn,
        sensitivity=sensitivity,
        states=tuple(sorted(config.state_filter)),
        budgets={key: budget for key, budget in budgets.items() if budget},
        tau={each.name: getattr(config.tau, each.name) for each in measured_tables() if each.tau is not None},
    )
    if config.reader == "cef":
        every.append(Finding.of("config-reader/cef-households", where=document.place("reader"), severity="warning"))
    return OfficialConfig(settings, INFINITE in budgets.values(), tuple(every))


def config_of(settings: PHSafeSettings) -> dict[str, Any]:
    """The ``config.json`` that has these settings, which does not say the sensitivity."""
    names = {definition: name for name, definition in DEFINITIONS.items()}
    return {
        BUDGETS: {
            each.name: {
                key: settings.budgets.get((each.name, *level), Fraction(0)) for key, level in budget_keys(each).items()
            }
            for each in measured_tables()
        },
        TAU: {each.name: settings.tau[each.name] for each in measured_tables() if each.tau is not None},
        "state_filter": list(settings.states),
        "reader": "csv",
        "privacy_defn": names[settings.definition],
    }


def _as_errors(findings: Any) -> Iterator[Finding]:
    """Unknown keys inside of budgets and truncation are errors: the layout has exactly its own."""
    for finding in findings:
        inside = (finding.where.path or "").startswith((f"{BUDGETS}.", f"{TAU}."))
        yield replace(finding, severity="error") if inside else finding


def states_of(path: Path) -> tuple[str, ...]:
    """The states of a configuration, as far as a wrong one tells, or else all: to look at the files all the same."""
    try:
        listed = read(path, kind=CONFIG_KIND).values.get("state_filter")
    except InputError:
        listed = None
    codes = {code for code in listed if isinstance(code, str)} if isinstance(listed, list) else set()
    return (PUERTO_RICO,) if codes == {PUERTO_RICO} else tuple(sorted(codes & set(STATES))) or STATES


# The non-private mode.


@dataclass(frozen=True)
class ExactHouseholds(TypedAnswer):
    """Where exact tables are, and what is odd about the input. Confidential."""

    folder: Path
    tables: tuple[str, ...]
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        findings = [finding.as_dict() for finding in self.findings]
        return {"ok": True, "folder": str(self.folder), "tables": list(self.tables), "findings": findings}

    def described(self) -> Iterator[AnswerPart]:
        yield from self.findings
        yield Said("CONFIDENTIAL", ": these tables have no noise. They must not leave the office.", Tone.CAREFUL)
        yield f"tables    {self.folder}"


def exact_households(
    config: Path, data: Path, out: Path, *, processes: int | None = None, memory: str = "4GiB"
) -> ExactHouseholds:
    """All tables without noise and truncation, as the non-private mode of the Census Bureau's program has them.

    They are the truth, for the curator alone: nothing is charged, and nobody else can open the folder. Sums are counted
    by themselves, and groups with nobody in them have no row. What only noisy tables could not count is a warning here.

    Args:
        config: The Bureau's ``config.json``; its states count.
        data: The Bureau's folder of data: persons, units and geo.
        out: A new folder for the tables.
        processes: How many processes count; all cores without it.
        memory: How much memory to use, such as ``4GB``.

    Returns:
        The folder, and what is odd about the input.
    """
    states = read_config(config).settings.states
    paths = find_files(data)
    files = HouseholdFiles(*(Source(paths[key], format_of(paths[key]) or "csv") for key in FILES))
    if out.exists():
        raise RunError("there-already/ours", where=Place(file=str(out)))
    with no_room_is_an_error(out):
        partial = out.with_name(f"{out.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        scratch = private_folder(partial / "scratch")
        try:
            with LocalEngine(scratch, processes=processes, memory=memory) as engine:
                findings = _as_exact(check_files(engine, files, states, scratch / "known.parquet"))
                _write_exact(engine, files, states, scratch, partial)
            shutil.rmtree(scratch)
            partial.replace(out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return ExactHouseholds(out, tuple(each.name for each in tables()), findings)


def _as_exact(findings: list[Finding]) -> tuple[Finding, ...]:
    """Raises for files that cannot be counted; what exact tables take as it is, is a warning."""
    shared = {rule.what for rule in SHARED_RULES}
    softened = [
        replace(each, severity="warning") if any(each.what.startswith(what) for what in shared) else each
        for each in findings
    ]
    if any(finding.severity == "error" for finding in softened):
        raise InputError(softened)
    return tuple(softened)


def _write_exact(engine: LocalEngine, files: HouseholdFiles, states: Sequence[str], scratch: Path, into: Path) -> None:
    units, persons = scratch / "units.parquet", scratch / "persons.parquet"
    write_units(engine, files, states, units)
    write_persons(engine, files, units, persons)
    for counted in tables():
        iteration = ["ITERATION_CODE"] if counted.iterated else []
        lines = ["|".join(["REGION_ID", "REGION_TYPE", *iteration, counted.cell_column, "COUNT"])]
        for area, level, code, cell, number in exact_rows(engine, persons, units, states, counted):
            lines.append("|".join([area, level, *([code] if counted.iterated else []), str(cell), str(number)]))
        write_text(into / f"{counted.name}.CONFIDENTIAL.csv", "\n".join(lines) + "\n")
