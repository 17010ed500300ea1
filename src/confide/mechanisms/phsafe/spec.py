"""The spec of a PHSafe release."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from pydantic import Field

from confide.documents import load_shipped
from confide.mechanisms.phsafe.official import FILES
from confide.mechanisms.phsafe.settings import MOST_PERSONS, PHSafeSettings, Sensitivity, budget_keys
from confide.mechanisms.phsafe.tables import measured_tables, table
from confide.mechanisms.safetab.settings import PUERTO_RICO, STATES
from confide.privacy import Definition
from confide.releases import spec
from confide.releases.draft import LEDGER, SPEC, Draft, no_product
from confide.report.rendering import render

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


class PHSafeSpec(spec.Spec):
    """People in households, and households, for the nation and the states (PHSafe)."""

    names_smallest = False

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
        )

    def problems(self) -> list[spec.Problem]:
        problems = super().problems()
        if self.geography.model_fields_set:
            problems.append(spec.Problem.of(("geography",), "geography/addresses"))
        if self.privacy.neighbours != "add-remove":
            path: spec.KeyPath = ("privacy", "neighbours")
            problems.append(spec.Problem.of(path, "neighbours", found=repr(self.privacy.neighbours)))
        problems += self._states() + self._tables()
        if not problems and self.privacy.budget != self.settings.total:
            problems.append(
                spec.Problem.of(
                    ("privacy", "budget"),
                    "budget-sum/tables",
                    found=str(self.privacy.budget),
                    total=self.settings.total,
                )
            )
        return problems

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


def spec_text(
    settings: PHSafeSettings, files: Mapping[str, str], *, name: str, title: str, ledger: str, file: str
) -> str:
    """The text of a spec of PHSafe.

    Args:
        settings: Budgets, truncation, states and sensitivity.
        files: The paths of the input files, by their key under ``[data]``.
        name: The name of the release.
        title: Its title.
        ledger: The path of the ledger.
        file: The name that the spec will have.

    Returns:
        A commented TOML file.
    """
    asked: dict[str, dict[str, Fraction]] = {}
    keys = {(each.name, *levels): key for each in measured_tables() for key, levels in budget_keys(each).items()}
    for query in settings.queries:
        key = keys[query.table, query.level, query.iteration_level]
        asked.setdefault(query.table, {})[key] = query.budget
    return render(
        "phsafe.toml.j2",
        settings=settings,
        asked=asked,
        titles={each.name: each.title for each in measured_tables()},
        files=files,
        name=name,
        title=title,
        ledger=ledger,
        file=file,
    )


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


def draft_phsafe(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec that ``confide new phsafe`` writes."""
    no_product("phsafe", product)
    settings = production_settings()
    files = {key: f"{stem}.csv" for key, stem in FILES.items()}
    named = {"name": "households", "title": "People in households, and households"} | dict(values)
    text = spec_text(settings, files, **named, ledger=LEDGER, file=SPEC)
    return Draft(text, settings.total, "add-remove", unit="person")
