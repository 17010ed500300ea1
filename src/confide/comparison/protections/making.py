"""From a protection of the spec to what it publishes: which module makes it, and where its files are."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

from confide import api
from confide.comparison.compared_people import Population
from confide.comparison.figures import Figures
from confide.comparison.programme import LEVELS
from confide.engines.atomic_files import private_folder, write_text
from confide.privacy.conversion import cks_epsilon
from confide.releases.draft import new_ledger
from confide.releases.keys import STAMP
from confide.releases.progress import Progress

# Specs for mechanisms, written as TOML: a part for each name, values in one line each.


def toml_text(parts: Mapping[str, Any], note: str) -> str:
    """A TOML file of parts; lists of tables become ``[[name]]``."""
    lines = [f"# {note}"]
    for name, part in parts.items():
        for one in part if isinstance(part, list) else [part]:
            lines += ["", f"[[{name}]]" if isinstance(part, list) else f"[{name}]"]
            lines += [f"{key} = {_value(value)}" for key, value in one.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, Fraction):
        return json.dumps(str(value))
    return json.dumps(value, ensure_ascii=False)


SPEC, LEDGER, RUN = "spec.toml", "comparison.ledger", "run"
DELTA = Fraction(1, 10**10)
NOTE = "Written by confide compare. What is made from it is for the comparison alone, NOT FOR RELEASE."

MODULES = {
    "none": "unprotected",
    "swapping": "swapped",
    "suppression": "suppressed",
    "cellkey": "cellkeyed",
    "tables": "noised",
    "topdown": "estimated",
}


@dataclass(frozen=True)
class Released:
    """A sealed release."""

    folder: Path

    def table(self, name: str) -> Path:
        """The file of a table; with a chosen key its name has the stamp."""
        stamped = self.folder / "tables" / f"{name}.{STAMP.replace(' ', '-')}.parquet"
        return stamped if stamped.exists() else self.folder / "tables" / f"{name}.parquet"


@dataclass(frozen=True, eq=False)
class Making:
    """What a protection is made from."""

    population: Population
    folder: Path
    seed: int
    processes: int | None
    progress: Progress
    blocks: int | None = None
    """How many blocks are protected where that takes long; None: all."""
    base: Path = Path()
    """The folder that paths of the spec are relative to."""

    def spec(self, parts: Mapping[str, Any], name: str = SPEC) -> Path:
        """The spec of the release, written unless it is there."""
        path = private_folder(self.folder) / name
        if not path.exists():
            write_text(path, toml_text(parts, NOTE))
        return path

    def key(self, purpose: str) -> str:
        """A chosen key, which stamps everything NOT FOR RELEASE: a comparison can be made again."""
        text = f"confide/comparison/v1/{self.seed}/{self.folder.name}/{purpose}/{self.population.fingerprint}"
        return hashlib.sha256(text.encode()).hexdigest()

    def ledger(self, budget: Fraction) -> str:
        """An account of the comparison's own; not that of the data set."""
        path = private_folder(self.folder) / LEDGER
        if not path.exists():
            new_ledger(path, f"comparison: {self.folder.name}", budget, "opened by confide compare")
        return LEDGER

    def run(self, spec: Path, *, keyed: bool = True) -> Released:
        """The sealed release of a spec; if it is there already, nothing is done."""
        key = self.key("release") if keyed else None
        result = api.run(spec, processes=self.processes, insecure_key=key, progress=self.progress)
        return Released(result.release)

    @property
    def levels(self) -> list[dict[str, Any]]:
        """The spine down to the tracts, as specs have it."""
        digits = self.population.digits
        return [{"name": name, "digits": digits[name]} for name in ("state", "county", "tract")]

    def tables(self, **more: Any) -> list[dict[str, Any]]:
        """The programme, as ``[[tables]]`` of a spec."""
        return [
            {"name": table.name, "title": table.title, "variables": table.variables, "levels": list(LEVELS)} | more
            for table in self.population.programme.tables
        ]


@dataclass(frozen=True, eq=False)
class Made:
    """What was published, and what it promises, in words."""

    figures: Figures
    title: str
    guarantee: str
    """One sentence that an agency head can repeat."""
    settings: Mapping[str, Any]


def content(part: Any, base: Path) -> Any:
    """What a file says that a protection names, ``base`` being the folder of the spec; None if it names none."""
    module = _module(part)
    return module.content(part, base) if hasattr(module, "content") else None


def make(part: Any, making: Making) -> Made:
    """The protection, made or found as it was made before."""
    maker: Callable[[Any, Making], Made] = _module(part).make
    return maker(part, making)


def _module(part: Any) -> ModuleType:
    return importlib.import_module(f"confide.comparison.protections.{MODULES[part.mechanism]}")


def epsilon(rho: Fraction) -> float:
    """The epsilon at delta = 10⁻¹⁰ that goes with a rho."""
    return cks_epsilon(rho, DELTA)


def promised(rho: Fraction) -> str:
    """A budget in words."""
    return (
        f"Differential privacy with ρ = {float(rho):g} (ε = {epsilon(rho):.1f} at δ = 10⁻¹⁰): a proven bound on how "
        "much one person's record can show in what is published, whatever else is known"
    )
