"""The programs SafeTab-P, SafeTab-H and PHSafe of the Census Bureau: what each takes, and the spec of ours made of it.

A program has a configuration and files; each becomes an :class:`OfficialInput`. What is run is an ordinary spec
(:mod:`confide.official_runs`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from confide.errors import Finding, InputError, ParameterError, Place
from confide.mechanisms.safetab.official import OfficialConfig, OfficialFolder, filter_of
from confide.mechanisms.safetab.settings import GroupSettings
from confide.privacy import Definition
from confide.releases import spec
from confide.releases.draft import LEDGER, SPEC, Draft, no_product
from confide.releases.ledger import Ledger, UnitName
from confide.report.rendering import render

KEPT = "-confidential"
"""What the name of the folder ends in that keeps what is confidential of a run, beside the folder of tables."""


class BudgetedSettings(Protocol):
    """What the settings of every program have."""

    @property
    def definition(self) -> Definition:
        """The definition that budgets are in."""

    @property
    def total(self) -> Fraction:
        """What a release costs when one record is added or removed."""


@dataclass(frozen=True)
class OfficialInput:
    """An input of one of the programs that was read: its files by their keys under ``[data]``, and what it asks."""

    program: OfficialProgram
    files: Mapping[str, Path]
    config: OfficialConfig[Any]
    data_set: str
    options: Mapping[str, str]

    def spec_in(self, folder: Path, ledger: Path | None) -> str:
        """The text of the spec that would be in ``folder``."""
        files = {key: os.path.relpath(path.resolve(), folder.resolve()) for key, path in self.files.items()}
        named = {
            "name": self.program.release,
            "title": self.program.about,
            "ledger": LEDGER if ledger is None else os.path.relpath(ledger.resolve(), folder.resolve()),
            "file": SPEC,
        }
        return self.program.text(self.config.settings, files, **named, options=self.options) + "\n"

    def open_ledger(self, path: Path) -> Path:
        """A ledger with exactly the budget of one release."""
        settings: BudgetedSettings = self.config.settings
        Ledger.open_new(
            path,
            data_set=self.data_set or "persons",
            definition="pure" if settings.definition is Definition.PURE else "zcdp",
            neighbours="add-remove",
            budget=settings.total,
            note=f"opened for one release of {self.program.title}, with its budget",
            unit=self.program.unit,
        )
        return path


class SummedSpec(spec.Spec):
    """A spec whose budget is stated, and is the sum of the budgets of its parts."""

    names_smallest: ClassVar[bool] = False
    in_passes: ClassVar[bool] = True
    """Whether its parts are levels in two passes, so that no record is in all of them."""

    privacy: spec.OneNumberPrivacy

    @property
    def settings(self) -> Any:
        """The settings of the algorithm as plain values."""
        raise NotImplementedError

    def problems_of_parts(self) -> Iterator[spec.Problem]:
        """What is wrong with the parts, although each value by itself is right."""
        raise NotImplementedError

    def problems(self) -> list[spec.Problem]:
        problems = super().problems()
        if self.geography.model_fields_set:
            problems.append(
                spec.Problem.of(("geography",), "geography/safetab" if self.in_passes else "geography/addresses")
            )
        if self.privacy.neighbours != "add-remove":
            path: spec.KeyPath = ("privacy", "neighbours")
            problems.append(spec.Problem.of(path, "neighbours", found=repr(self.privacy.neighbours)))
        problems += self.problems_of_parts()
        if not problems and self.privacy.budget != self.settings.total:
            total, path = self.settings.total, ("privacy", "budget")
            problems.append(
                spec.Problem.of(
                    path,
                    "budget-sum" if self.in_passes else "budget-sum/tables",
                    found=str(self.privacy.budget),
                    total=total,
                )
            )
        return problems


class OfficialProgram(ABC):
    """One of the programs: where its files are, how its configuration is read, and the text of the spec."""

    title: ClassVar[str]
    """What people call the program."""
    release: ClassVar[str]
    """The name of its releases."""
    about: ClassVar[str]
    """The title of its releases."""
    drafted: ClassVar[str]
    """The name of a release that is drafted."""
    stems: ClassVar[Mapping[str, str]]
    """What files are called in a draft, by their keys under ``[data]``."""
    unit: ClassVar[UnitName] = "record"
    """What a ledger of its own is kept in."""
    options: ClassVar[tuple[str, ...]] = ()
    """What can be asked for beside the configuration."""

    @abstractmethod
    def find(self, parameters: Path, data: Path) -> OfficialFolder:
        """Configuration and files. Raises an :class:`InputError` with all that is missing."""

    @abstractmethod
    def configured(self, path: Path, options: Mapping[str, str]) -> OfficialConfig[Any]:
        """What a configuration asks for. Raises an :class:`InputError` with all findings."""

    @abstractmethod
    def stand_in(self, path: Path) -> BudgetedSettings:
        """Settings in place of a wrong configuration, so that the files can be looked at all the same."""

    @abstractmethod
    def production(self) -> BudgetedSettings:
        """The settings of the 2020 Census, for a draft."""

    @abstractmethod
    def further(self, settings: Any, options: Mapping[str, str]) -> dict[str, Any]:
        """What the template of the spec needs beside the settings."""

    def text(
        self,
        settings: Any,
        files: Mapping[str, str],
        *,
        name: str,
        title: str,
        ledger: str,
        file: str,
        options: Mapping[str, str] | None = None,
    ) -> str:
        """The text of a spec, a commented TOML file.

        Args:
            settings: Budgets, and what else decides the release.
            files: The paths of the input files, by their key under ``[data]``.
            name: The name of the release.
            title: Its title.
            ledger: The path of the ledger.
            file: The name that the spec will have.
            options: What is asked for beside the configuration.
        """
        given = {"settings": settings, "files": files, "name": name, "title": title, "ledger": ledger, "file": file}
        return render(f"{self.release}.toml.j2", **given, **self.further(settings, options or {}))

    def draft(self, product: str | None, values: Mapping[str, str]) -> Draft:
        """The spec that ``confide new`` writes."""
        no_product(self.release, product)
        settings = self.production()
        named = {"name": self.drafted, "title": self.about, "ledger": LEDGER, "file": SPEC} | dict(values)
        files = {key: named.get(key, stem) for key, stem in self.stems.items()}
        own = {"name": named["name"], "title": named["title"], "ledger": named["ledger"], "file": named["file"]}
        text = self.text(settings, files, options=None, **own)
        return Draft(text, settings.total, "add-remove", unit=self.unit)

    def read(
        self,
        parameters: Path,
        data: Path,
        options: Mapping[str, str],
        check: Callable[[OfficialInput], tuple[Finding, ...]],
    ) -> OfficialInput:
        """The input. If its configuration is wrong, the files are checked all the same: all findings at once."""
        for name in (name for name in options if name not in self.options):
            raise ParameterError("bad-option/of-program", where=Place(path=f"--{name}"), program=self.title)
        folder = self.find(parameters, data)
        try:
            config = self.configured(folder.config, options)
        except InputError as error:
            settings = self.stand_in(folder.config)
            stand_in = OfficialInput(self, folder.files, OfficialConfig(settings, False, ()), data.name, options)
            try:
                findings = check(stand_in)
            except InputError as other:
                findings = tuple(other.findings)
            raise InputError([*error.findings, *findings]) from None
        return OfficialInput(self, folder.files, config, data.name, options)


G = TypeVar("G", bound=GroupSettings[Any])


def of_united_states(production: G) -> G:
    """The settings of the pass of the United States alone."""
    return replace(production, puerto_rico=False, levels=production.passes["US"])


def group_stand_in(production: G, path: Path) -> G:
    """The production settings for the states and passes that a wrong configuration asks for, as far as it tells."""
    states, puerto_rico = filter_of(path)
    settings = replace(production, states=states, puerto_rico=puerto_rico)
    passes = [name for name, runs in (("US", bool(states)), ("PR", puerto_rico)) if runs]
    return replace(settings, levels=tuple(level for name in passes for level in settings.passes[name]))
