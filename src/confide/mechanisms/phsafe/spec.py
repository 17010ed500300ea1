"""The spec of a PHSafe release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from confide.documents import load_shipped
from confide.errors import Finding, InputError
from confide.mechanisms.phsafe.official import FILES, find_files, read_config, states_of
from confide.mechanisms.phsafe.settings import (
    MOST_PERSONS,
    PHSafeSettings,
    Sensitivity,
    Truncation,
    budget_keys,
    measured_tables,
    table,
)
from confide.mechanisms.safetab.official import OfficialConfig, OfficialFolder
from confide.mechanisms.safetab.program import OfficialProgram, SummedSpec
from confide.mechanisms.safetab.settings import PUERTO_RICO, STATES
from confide.privacy import Definition
from confide.releases import spec
from confide.releases.tabular import noting

MeasuredName = Literal["PH1_num", "PH1_denom", "PH2", "PH3", "PH4", "PH5_denom", "PH6", "PH7", "PH8_denom"]


class PHSafeData(spec.DataPart):
    """Where persons, units and addresses are, in the Census Bureau's layout."""

    more_records = ("units",)

    records: spec.FilePath = Field(description="The confidential persons: CSV or Parquet.")
    units: spec.FilePath = Field(description="The confidential housing units and group quarters: CSV or Parquet.")
    blocks: spec.FilePath = Field(
        description="The addresses with their places: a row for each unit. It decides which are housing units."
    )


class PHSafePart(spec.Part):
    """What is published of whom, and what a person may change."""

    states: list[str] = Field(
        min_length=1, description="The states by FIPS code, which together are the nation; or 72 alone, Puerto Rico."
    )
    sensitivity: Sensitivity = Field(
        "bureau",
        description="How far a person can move a count. bureau: as the Census Bureau's program reckons, 2 tau + 2; "
        "household: whatever changes lies in one household, which needs half the variance or less.",
    )
    truncation: Truncation = Field(
        "bureau",
        description="Who counts of a household with more than tau persons. bureau: by a public rule, as in the Census "
        "Bureau's program, so that whoever knows a household knows who is left out; keyed: by the key of the release.",
    )


class PHSafeTable(spec.Part):
    """A table that is measured, with what it costs at each level."""

    name: MeasuredName = Field(description="The table, as PH1_num; PH5_num and PH8_num are made of PH4 and PH7.")
    tau: int | None = Field(
        None,
        ge=1,
        le=MOST_PERSONS,
        description="How many persons of a household count; default as in production. Tables of units have none.",
    )
    budgets: dict[str, spec.ExactNumber] = Field(
        min_length=1,
        description="The privacy loss of each level when one person is added or removed: usa_ or state_ with the "
        "iteration level, as state_A-G. Levels that are not there are not made.",
    )


class PHSafeSpec(SummedSpec):
    """People in households, and households, for the nation and the states (PHSafe)."""

    in_passes = False

    data: PHSafeData
    privacy: spec.OneNumberPrivacy
    phsafe: PHSafePart
    tables: list[PHSafeTable] = Field(min_length=1)
    output: spec.TabularOutput = spec.TabularOutput()

    @property
    def settings(self) -> PHSafeSettings:
        """The settings as plain values."""
        budgets = {
            (part.name, *budget_keys(table(part.name))[key]): budget
            for part in self.tables
            for key, budget in part.budgets.items()
        }
        tau = {each.name: each.tau for each in measured_tables() if each.tau is not None}
        tau |= {part.name: part.tau for part in self.tables if part.tau is not None}
        return PHSafeSettings(
            Definition(self.privacy.definition),
            self.phsafe.sensitivity,
            tuple(sorted(self.phsafe.states)),
            budgets,  # type: ignore[arg-type]
            tau,
            self.phsafe.truncation,
        )

    def problems_of_parts(self) -> Iterator[spec.Problem]:
        yield from self._states()
        yield from self._tables()

    def _states(self) -> list[spec.Problem]:
        problems, states = [], self.phsafe.states
        for position, code in enumerate(states):
            where: spec.KeyPath = ("phsafe", "states", position)
            if code == PUERTO_RICO and len(states) > 1:
                problems.append(spec.Problem.of(where, "config-states/puerto-alone", found=repr(code)))
            elif code not in (*STATES, PUERTO_RICO):
                problems.append(spec.Problem.of(where, "state-code", found=repr(code)))
            elif code in states[:position]:
                problems.append(spec.Problem.of(where, "state-twice", found=repr(code)))
        return problems

    def _tables(self) -> list[spec.Problem]:
        problems = []
        for position, part in enumerate(self.tables):
            counted, where = table(part.name), ("tables", position)
            if part.tau is not None and not counted.of_persons:
                problems.append(spec.Problem.of((*where, "tau"), "tau-of-units", found=str(part.tau), name=part.name))
            known = budget_keys(counted)
            problems += [
                spec.Problem.of(
                    (*where, "budgets", key), "unknown-budget", found=repr(key), name=part.name, known=", ".join(known)
                )
                for key in part.budgets
                if key not in known
            ]
        return problems


def production_settings() -> PHSafeSettings:
    """The settings of the 2020 Census, United States."""
    values = load_shipped("phsafe", "production-2020")
    budgets = {
        (each.name, *levels): Fraction(values["budgets"][each.name][key])
        for each in measured_tables()
        for key, levels in budget_keys(each).items()
    }
    tau = {each.name: each.tau for each in measured_tables() if each.tau is not None}
    return PHSafeSettings(Definition.ZCDP, "bureau", STATES, budgets, tau)


class PHSafeProgram(OfficialProgram):
    """PHSafe, whose first argument is the configuration itself."""

    title, release, drafted, unit = "PHSafe", "phsafe", "households", "person"
    about = "People in households, and households"
    options = ("sensitivity",)
    stems: ClassVar = {key: f"{stem}.csv" for key, stem in FILES.items()}

    def find(self, parameters: Path, data: Path) -> OfficialFolder:
        findings: list[Finding] = []
        files = noting(findings, lambda: find_files(data))
        if files is None:
            of_config: list[Finding] = []
            noting(of_config, lambda: read_config(parameters))
            raise InputError([*of_config, *findings])
        return OfficialFolder(parameters, files)

    def configured(self, path: Path, options: Mapping[str, str]) -> OfficialConfig[PHSafeSettings]:
        return read_config(path, options.get("sensitivity", "bureau"))  # type: ignore[arg-type]

    def stand_in(self, path: Path) -> PHSafeSettings:
        return replace(production_settings(), states=states_of(path))

    def production(self) -> PHSafeSettings:
        return production_settings()

    def further(self, settings: Any, options: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        asked: dict[str, dict[str, Fraction]] = {}
        keys = {(each.name, *levels): key for each in measured_tables() for key, levels in budget_keys(each).items()}
        for query in settings.queries:
            key = keys[query.table, query.level, query.iteration_level]
            asked.setdefault(query.table, {})[key] = query.budget
        return {"asked": asked, "titles": {each.name: each.title for each in measured_tables()}}


PROGRAM = PHSafeProgram()
draft_phsafe = PROGRAM.draft
