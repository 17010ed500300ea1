"""Whole releases on made-up people: from records to a release that is verified and evaluated."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide import api, official_safetab
from confide.answers import TypedAnswer
from confide.engines import LocalEngine, Source
from confide.mechanisms.cellkey.keys import write_keyed
from confide.mechanisms.cellkey.secret_order import ORDER, new_order
from confide.mechanisms.cellkey.spec import cellkey_spec
from confide.mechanisms.topdown.strategy_file import PRODUCTS, load_strategy, topdown_spec
from confide.noise.ptables import DECIMAL
from confide.population.eu import write_eu
from confide.population.eu_settings import EuAreas
from confide.releases.draft import LEDGER, SPEC, keep_secrets, new_ledger, write_spec
from confide.releases.progress import Progress, Silent
from confide.releases.run import RunResult
from confide.releases.verify import Verification
from confide.report import charts
from confide.report.dossier import Evaluated
from confide.risk.bounded_noise.static_programme import load_programme
from confide.risk.bounded_noise.withstanding import ProtectedRegion, RegionQuestion

DATA_SET = "made-up state"
PROGRAMME = "eu-2021"
KEYED = "keyed.parquet"


@dataclass(frozen=True)
class DemoRelease(TypedAnswer):
    """One release of the demonstration, looked at by its reader and by its curator."""

    run: RunResult
    verification: Verification
    evaluated: Evaluated

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "release": str(self.run.release),
            "dossier": str(self.evaluated.dossier),
            "cost": self.run.plan.loss.as_dict() if self.run.plan.has_loss else None,
            "verified": self.verification.ok,
        }


@dataclass(frozen=True)
class Demonstration(TypedAnswer):
    """What the demonstration made."""

    folder: Path
    persons: int
    releases: Mapping[str, DemoRelease]

    @property
    def ok(self) -> bool:
        """Whether every release is as it was sealed."""
        return all(release.verification.ok for release in self.releases.values())

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        releases = {about: release.as_dict() for about, release in self.releases.items()}
        return {"ok": self.ok, "persons": self.persons, "releases": releases}


def demo(folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None) -> Demonstration:
    """Made-up people, a ledger, and the persons and units of the redistricting data: released, verified, evaluated.

    Args:
        folder: A new folder for everything that is made; if there is something in it, the next free one (``demo-2``).
        persons: How many made-up persons.
        seed: The same seed gives the same people; the noise is new every time.
        progress: Is told of stages; nobody by default.

    Returns:
        The releases, each with its verification and its evaluation.
    """
    display = progress or Silent()
    folder = _free_folder(folder, display)
    specs = {about: folder / f"{about}.toml" for about in PRODUCTS.values()}
    api.synthesize(folder, persons=persons, seed=seed, progress=display)
    strategies = {about: load_strategy(product, root="state") for product, about in PRODUCTS.items()}
    for about, path in specs.items():
        title = f"Demonstration: {about} of a made-up state"
        write_spec(path, topdown_spec(strategies[about], path.name, name=about, title=title, facilities="yes"))
    budget = sum((strategy.budget for strategy in strategies.values()), Fraction(0))
    new_ledger(folder / LEDGER, DATA_SET, budget, "opened by confide demo for made-up people")
    releases = {}
    for about, path in specs.items():
        display.note(f"The {about}:")
        releases[about] = _release(path, display)
    return Demonstration(folder, persons, releases)


def demo_safetab(
    folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up people with detailed race and ethnicity codes, in the official layout: released, verified, evaluated."""
    display = progress or Silent()
    folder = _free_folder(folder, display)
    official = api.synthesize_detailed(folder, persons=persons, seed=seed, progress=display)
    spec = official_safetab.convert(official.parameters, official.data, folder)
    return Demonstration(folder, persons, {"detailed groups": _release(spec, display)})


def demo_cellkey(
    folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up people with keys through the tables of the EU census programme: released, verified, evaluated; with the
    region of bounds and variances that the programme leaves."""
    display = progress or Silent()
    folder = _free_folder(folder, display)
    areas = EuAreas()
    with display.stage("Making up people", 2) as advance:
        files = write_eu(folder, persons, seed, areas)
        advance(1)
        with LocalEngine(folder / "scratch") as engine:
            source = Source(files.records, "parquet")
            write_keyed(engine, source, folder / KEYED, column="record_key", keys=DECIMAL)
        shutil.rmtree(folder / "scratch", ignore_errors=True)
        advance(1)
    question = RegionQuestion(load_programme(PROGRAMME), {name.upper(): n for name, n in areas._asdict().items()})
    region = ProtectedRegion(question)
    chosen = region.as_dict()["recommended"] or {"D": 5, "V": 2}
    title = "Demonstration: the EU census programme for a made-up country"
    named = {
        "D": str(chosen["D"]),
        "V": str(chosen["V"]),
        "name": PROGRAMME,
        "title": title,
        "schema": files.schema.name,
    }
    spec = folder / SPEC
    write_spec(spec, cellkey_spec(SPEC, (), **named) + "\n" + files.tables.read_text(encoding="utf-8"))
    keep_secrets(folder, {ORDER: new_order()})
    release = _release(spec, display)
    if charts.available():
        (folder / "region.svg").write_text(region.chart().svg(), encoding="utf-8")
    return Demonstration(folder, persons, {"tables": release})


def _release(spec: Path, display: Progress) -> DemoRelease:
    """A release, verified and evaluated."""
    result = api.run(spec, progress=display)
    return DemoRelease(result, api.verify(result.release), api.evaluate(spec, progress=display))


def _free_folder(folder: Path, display: Progress) -> Path:
    """The folder, or the first of ``folder-2``, ``folder-3`` … where there is nothing yet: nothing is ever replaced."""
    free, number = folder, 1
    while free.exists() and not (free.is_dir() and not any(free.iterdir())):
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    if number > 1:
        display.note(f"There is something in {folder} already: this demonstration goes into {free}.")
    return free
