"""Whole releases on made-up people: from records to a release that is verified and evaluated."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from confide import api, official_safetab
from confide.engines import LocalEngine, Source
from confide.mechanisms.cellkey.keys import write_keyed
from confide.mechanisms.cellkey.spec import cellkey_spec
from confide.mechanisms.topdown.strategies.file import PRODUCTS, load_strategy, topdown_spec
from confide.noise.ptables import DECIMAL
from confide.population.eu import write_eu
from confide.population.eu_settings import Areas
from confide.releases.draft import LEDGER, SPEC, new_ledger, there_already, write_spec
from confide.releases.progress import Progress, Silent
from confide.releases.run import RunResult
from confide.releases.verify import Verification
from confide.report.dossier import Evaluated
from confide.report.risk_plots import region as draw_region
from confide.risk.bounded_noise.static_programme import load_programme
from confide.risk.bounded_noise.withstanding import ProtectedRegion, RegionQuestion

DATA_SET = "made-up state"
PROGRAMME = "eu-2021"
KEYED = "keyed.parquet"


@dataclass(frozen=True)
class Made:
    """One release of the demonstration, looked at by its reader and by its curator."""

    run: RunResult
    verification: Verification
    evaluated: Evaluated


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration made."""

    folder: Path
    persons: int
    releases: Mapping[str, Made]

    @property
    def ok(self) -> bool:
        """Whether every release is as it was sealed."""
        return all(made.verification.ok for made in self.releases.values())


def demo(folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None) -> Demonstration:
    """Made-up people, a ledger, and the persons and units of the redistricting data: released, verified, evaluated."""
    shown = progress or Silent()
    specs = {about: folder / f"{about}.toml" for about in PRODUCTS.values()}
    _only_new(folder)
    api.synthesize(folder, persons=persons, seed=seed, progress=shown)
    strategies = {about: load_strategy(product, root="state") for product, about in PRODUCTS.items()}
    for about, path in specs.items():
        title = f"Demonstration: {about} of a made-up state"
        write_spec(path, topdown_spec(strategies[about], path.name, name=about, title=title, facilities="yes"))
    budget = sum((strategy.budget for strategy in strategies.values()), Fraction(0))
    new_ledger(folder / LEDGER, DATA_SET, budget, "opened by confide demo for made-up people")
    releases = {}
    for about, path in specs.items():
        shown.note(f"The {about}:")
        releases[about] = _made(path, shown)
    return Demonstration(folder, persons, releases)


def demo_safetab(
    folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up people with detailed race and ethnicity codes, in the official layout: released, verified, evaluated."""
    shown = progress or Silent()
    _only_new(folder)
    official = api.synthesize_detailed(folder, persons=persons, seed=seed, progress=shown)
    spec = official_safetab.convert(official.parameters, official.data, folder)
    return Demonstration(folder, persons, {"detailed groups": _made(spec, shown)})


def demo_cellkey(
    folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up people with keys through the tables of the EU census programme: released, verified, evaluated; with the
    region of bounds and variances that the programme leaves."""
    shown = progress or Silent()
    _only_new(folder)
    areas = Areas()
    with shown.stage("Making up people", 2) as advance:
        files = write_eu(folder, persons, seed, areas)
        advance(1)
        with LocalEngine(folder / "scratch") as engine:
            source = Source(files.records, "parquet")
            write_keyed(engine, source, folder / KEYED, column="record_key", keys=DECIMAL)
        shutil.rmtree(folder / "scratch", ignore_errors=True)
        advance(1)
    question = RegionQuestion(load_programme(PROGRAMME), {name.upper(): n for name, n in areas._asdict().items()})
    region = ProtectedRegion(question).as_dict()
    chosen = region["recommended"] or {"D": 5, "V": 2}
    title = "Demonstration: the EU census programme for a made-up country"
    named = {
        "D": str(chosen["D"]),
        "V": str(chosen["V"]),
        "name": PROGRAMME,
        "title": title,
        "schema": files.schema.name,
    }
    spec = folder / SPEC
    write_spec(spec, cellkey_spec(SPEC, (), **named) + "\n" + files.tables.read_text(encoding="utf-8"), secret=True)
    made = _made(spec, shown)
    picture = draw_region(region["region"], largest_noise=question.largest_noise, recommended=region["recommended"])
    (folder / "region.svg").write_text(picture, encoding="utf-8")
    return Demonstration(folder, persons, {"tables": made})


def _made(spec: Path, shown: Progress) -> Made:
    """A release, verified and evaluated."""
    result = api.run(spec, progress=shown)
    return Made(result, api.verify(result.release), api.evaluate(spec, progress=shown))


def _only_new(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise there_already(folder, "something in the folder")
