"""Whole releases on made-up people: from records to a release that is verified and evaluated."""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from confide import api, drafting, official_safetab
from confide.answers import AnswerPart, TypedAnswer
from confide.engines import LocalEngine, Source
from confide.exact import fraction_up
from confide.lab.comparison.protections import toml_text
from confide.lab.population import EuAreas, Population, simulate, write_eu, write_official
from confide.lab.population.eu import SCHEMA
from confide.lab.population.generate import US_STATE
from confide.lab.risk.bounded_noise import ProtectedRegion, RegionQuestion, load_programme
from confide.mechanisms.cellkey.keys import write_keyed
from confide.mechanisms.cellkey.spec import ORDER, cellkey_spec, new_order
from confide.mechanisms.topdown.descent import descend, estimates_folder
from confide.mechanisms.topdown.evaluate import geographies
from confide.mechanisms.topdown.mechanism import DrawnEvidence, TopDown, write_counts
from confide.mechanisms.topdown.spec import PRODUCTS, topdown_spec, with_tree_evidence
from confide.mechanisms.topdown.strategy import OWN
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.noise.ptables import DECIMAL
from confide.releases import Job, NoiseSource, Progress, RunResult, Silent, Verification, Workspace
from confide.releases.draft import LEDGER, SPEC, keep_secrets, new_ledger, write_spec
from confide.releases.replay import begun
from confide.releases.workspace import recall_key
from confide.report import charts
from confide.report.dossier import Evaluated, headline

DATA_SET = "made-up state"
PROGRAMME = "eu-2021"
KEYED = "keyed.parquet"
PERSONS, FROM_BELOW = "persons", "persons-strategy.toml"
OWN_ALONE = "own alone"
"""What the table calls estimates from own measurements alone."""


@dataclass(frozen=True)
class DemoRelease(TypedAnswer):
    """One release of the demonstration, looked at by its reader and by its curator."""

    run: RunResult
    verification: Verification
    evaluated: Evaluated
    beside: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Mean absolute errors of the total by geography, for other estimates from the same noise, by their names."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "release": str(self.run.release),
            "dossier": str(self.evaluated.dossier),
            "cost": self.run.plan.loss.as_dict() if self.run.plan.has_loss else None,
            "verified": self.verification.ok,
        } | ({"beside": {name: dict(errors) for name, errors in self.beside.items()}} if self.beside else {})

    def described_as(self, about: str) -> Iterator[AnswerPart]:
        """How accurate it is, what it cost, and where its files are.

        Args:
            about: Of whom the release is.
        """
        run = self.run
        accuracy = self.evaluated.accuracy.reveal("the demonstration's people are made up")
        yield ""
        yield from headline(accuracy, f"{about.capitalize()}: released compared with true", self.beside)
        if run.plan.has_loss:
            (rho,) = run.plan.loss.parameters().values()
            yield f"cost         rho = {fraction_up(rho)} ({run.plan.neighbours.value})"
        yield f"release      {run.release}  ({'verified' if self.verification.ok else 'NOT AS SEALED'})"
        document = "certificate" if run.plan.has_loss else "statement"
        yield f"{document:11}  {run.release / f'{document}.html'}"
        yield f"dossier      {self.evaluated.dossier}  (confidential: for the curator only)"


@dataclass(frozen=True)
class Demonstration(TypedAnswer):
    """What the demonstration made."""

    folder: Path
    persons: int
    releases: Mapping[str, DemoRelease]
    look_at: tuple[str, ...] = ()
    """What a person might look at first, a sentence each."""

    @property
    def ok(self) -> bool:
        """Whether every release is as it was sealed."""
        return all(release.verification.ok for release in self.releases.values())

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        releases = {about: release.as_dict() for about, release in self.releases.items()}
        return {"ok": self.ok, "persons": self.persons, "releases": releases}

    def described(self) -> Iterator[AnswerPart]:
        """Every release, and what to look at first."""
        for about, release in self.releases.items():
            yield from release.described_as(about)
        yield "\nLook at:"
        yield from (f"  {sentence}" for sentence in self.look_at)
        last = list(self.releases.values())[-1].run
        spent = f"{last.plan.mechanism} has no privacy budget"
        if last.account is not None:
            account = last.account
            spent = f"the ledger has {fraction_up(account.spent)} spent of {fraction_up(account.budget)}"
        yield f"\n{self.persons:,} made-up persons; {spent}."
        yield f"In the browser: confide studio {self.folder}"


def demo(folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None) -> Demonstration:
    """Made-up people, a ledger, and the persons and units of the redistricting data: released, verified, evaluated.

    Args:
        folder: A new folder for everything that is made; if there is something in it, the next free one (``demo-2``).
        persons: How many made-up persons.
        seed: The same seed gives the same people; the noise is new every time.
        progress: Receives stages; none by default.

    Returns:
        The releases, each with its verification and its evaluation.
    """
    display = progress or Silent()
    folder = _free_folder(folder, display)
    specs = {about: folder / f"{about}.toml" for about in PRODUCTS.values()}
    simulate(folder, persons=persons, seed=seed, progress=display)
    strategies = {about: load_strategy(product, root="state") for product, about in PRODUCTS.items()}
    for about, path in specs.items():
        title = f"Demonstration: {about} of a made-up state"
        text = topdown_spec(strategies[about], path.name, name=about, title=title, facilities="yes")
        if about == PERSONS:
            text = text.replace(f'strategy = "{strategies[about].id}"', f'strategy = "{FROM_BELOW}"')
            (folder / FROM_BELOW).write_text(with_tree_evidence(strategies[about].id), encoding="utf-8")
        write_spec(path, text)
    budget = sum((strategy.budget for strategy in strategies.values()), Fraction(0))
    new_ledger(folder / LEDGER, DATA_SET, budget, "opened by confide demo for made-up people")
    releases: dict[str, DemoRelease] = {}
    for about, path in specs.items():
        display.note(f"The {about}:")
        # One ledger for both files: units are of the same made-up people, and are charged after the persons.
        releases[about] = _release(path, display, same_people=bool(releases))
        if about == PERSONS:
            errors = own_measurements_alone(path, releases[about].run)
            releases[about] = replace(releases[about], beside={OWN_ALONE: errors})
    look_at = (
        "certificate.html: what is promised, in words and numbers, and what is not covered.",
        "accuracy.html: how far off a figure may be, by kind of area and size, from the plan alone.",
        "tables/records.csv: one row for each protected person; the rows add up on every level.",
        "the dossier: the error of every count, next to the error that the noise alone would cause.",
    )
    return Demonstration(folder, persons, releases, look_at)


def demo_safetab(
    folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up people with detailed race and ethnicity codes, in the official layout: released, verified, evaluated."""
    display = progress or Silent()
    folder = _free_folder(folder, display)
    official = write_official(Population(persons, seed), folder, progress=display)
    spec = official_safetab.convert(official.parameters, official.data, folder)
    look_at = (
        "tables/T01001.csv: the totals of detailed groups, each with the range of true counts that it stands for.",
        "t1/t1.csv and t2/t2.csv: the same in the Census Bureau's layout, and sex by age for larger groups.",
        "the dossier: which groups were suppressed, and how much detail the others got.",
    )
    return Demonstration(folder, persons, {"detailed groups": _release(spec, display)}, look_at)


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
    look_at = (
        "tables/*.csv: the same people have the same noise in every table, so tables agree where they overlap.",
        "statement.html: how far a count can be off, and why this is not differential privacy.",
        "region.svg: which bounds and variances of the noise withstand the averaging attack on these tables.",
    )
    return Demonstration(folder, persons, {"tables": release}, look_at)


EU_LEVELS = [{"name": "nuts2", "column": "nuts2"}, {"name": "nuts3", "column": "nuts3"}]
EU_TABLES = [
    {"name": "sex-by-age", "variables": ["sex", "age:broad"], "levels": ["nuts2", "nuts3", "block"]},
    {"name": "citizenship", "variables": ["coc:broad"], "levels": ["nuts2", "nuts3", "block"]},
]
EU_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "tables": {"privacy": {"ledger": LEDGER, "budget": "1"}},
    "swapping": {
        "data": {"household": "household"},
        "swapping": {
            "variant": "targeted",
            "rate": "0.05",
            "risk": ["coc:broad", "age:five-year"],
            "profiles": [["size"]],
            "within": "nuts2",
        },
    },
    "suppression": {"suppression": {"threshold": 3}},
}
"""What the specs for the European country have apart from data, geography and tables."""


def _one_release(
    mechanism: str,
    look_at: tuple[str, ...],
    folder: Path,
    persons: int,
    seed: int,
    layout: str,
    progress: Progress | None,
) -> Demonstration:
    """Made-up people through one release: of a state, by the spec that ``confide new`` writes, or of a country."""
    display = progress or Silent()
    folder = _free_folder(folder, display)
    simulate(folder, persons=persons, seed=seed, layout=layout, progress=display)
    if layout == US_STATE:
        title = f"Demonstration: {mechanism} of a made-up state"
        spec = drafting.new(mechanism, folder, open_ledger=True, name=mechanism, title=title).spec
    else:
        spec = _country_spec(mechanism, folder)
    return Demonstration(folder, persons, {"tables": _release(spec, display)}, look_at)


def _country_spec(mechanism: str, folder: Path) -> Path:
    """The spec of a release of the made-up European country, and its ledger where there is a budget."""
    settings = {name: dict(part) for name, part in EU_SETTINGS[mechanism].items()}
    more = settings.pop("data", {})
    parts = {
        "release": {"name": mechanism, "mechanism": mechanism, "title": f"Demonstration: {mechanism} of a country"},
        "data": {"records": "persons.parquet", "blocks": "areas.csv", "schema": SCHEMA} | more,
        "geography": {"block": "lau", "levels": EU_LEVELS},
        **settings,
        "tables": EU_TABLES,
    }
    write_spec(folder / SPEC, toml_text(parts, "Written by confide demo."))
    if "privacy" in parts:
        new_ledger(folder / LEDGER, "made-up country", Fraction(1), "opened by confide demo for made-up people")
    return folder / SPEC


def demo_tables(
    folder: Path, *, persons: int = 200_000, seed: int = 7, layout: str = US_STATE, progress: Progress | None = None
) -> Demonstration:
    """Tables of made-up people, each count with noise of its own and the margin beside it."""
    look_at = (
        "tables/*.csv: every count with its noise margin; some counts are below zero because of the noise, and stay "
        "so.",
        "certificate.html: what was spent, and what this promises, in words.",
        "the dossier: how often the true count lies within the margin, by size of the area.",
    )
    return _one_release("tables", look_at, folder, persons, seed, layout, progress)


def demo_swapping(
    folder: Path, *, persons: int = 200_000, seed: int = 7, layout: str = US_STATE, progress: Progress | None = None
) -> Demonstration:
    """Tables of made-up people of whom some households have exchanged their places."""
    look_at = (
        "statement.html: what stays unchanged; there is no budget, and the page does not say how many households "
        "moved.",
        "the dossier: how far counts are off on each level, and who was not moved.",
        "the counts of the largest areas: they are exact, because nobody leaves these areas.",
    )
    return _one_release("swapping", look_at, folder, persons, seed, layout, progress)


def demo_suppression(
    folder: Path, *, persons: int = 50_000, seed: int = 7, layout: str = US_STATE, progress: Progress | None = None
) -> Demonstration:
    """Tables of made-up people with small cells left out, and others so that they cannot be worked out."""
    look_at = (
        "tables/*.csv: an empty count is suppressed; every other count is exact.",
        "statement.html: the rule, how many small cells were left out, and how many others to protect them.",
        "the dossier: the interval in which an attacker can place every suppressed count.",
    )
    return _one_release("suppression", look_at, folder, persons, seed, layout, progress)


STUDIO_LEVELS = [
    {"name": "country", "digits": 0},
    {"name": "nuts2", "column": "nuts2", "names": "nuts2_name"},
    {"name": "nuts3", "column": "nuts3", "names": "nuts3_name"},
]
STUDIO_SPECS: Mapping[str, Mapping[str, Any]] = {
    "census": {
        "title": "A made-up country: population, activity, citizenship",
        "tables": [
            {
                "name": "age-and-sex",
                "title": "Persons by age and sex",
                "variables": ["sex", "age:five-year"],
                "levels": ["country", "nuts2", "nuts3"],
                "weight": 2,
            },
            {
                "name": "activity",
                "title": "Persons by activity and sex",
                "variables": ["sex", "cas:main"],
                "levels": ["country", "nuts2", "nuts3", "municipality"],
            },
            {
                "name": "citizenship",
                "title": "Persons by citizenship",
                "variables": ["coc:broad"],
                "levels": ["country", "nuts2", "nuts3", "municipality"],
            },
        ],
    },
    "education": {
        "title": "A made-up country: education",
        "tables": [
            {
                "name": "education",
                "title": "Persons by educational attainment and sex",
                "variables": ["sex", "edu"],
                "levels": ["country", "nuts2", "nuts3"],
            },
        ],
    },
}
"""What the demonstration of the studio has: a release that is sealed, and a spec that waits."""


def demonstrate_job(spec: Path, progress: Progress, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """The job of the studio that makes its demonstration in the folder of ``spec``."""
    return demo_studio(spec.parent, progress=progress).as_dict()


def demo_studio(
    folder: Path, *, persons: int = 30_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """A folder for the studio: a release of a made-up country, a spec that waits for its release, a ledger with room
    for it, and a map.

    Args:
        folder: A new folder.
        persons: How many made-up persons.
        seed: The same seed gives the same people; the noise is new every time.
        progress: Receives stages; none by default.

    Returns:
        The release that was made.
    """
    display = progress or Silent()
    simulate(folder, persons=persons, seed=seed, layout="eu-country", progress=display)
    geography = {"block": "lau", "block_names": "lau_name", "smallest": "municipality", "levels": STUDIO_LEVELS}
    for name, part in STUDIO_SPECS.items():
        parts = {
            "release": {"name": name, "mechanism": "tables", "title": part["title"]},
            "data": {"records": "persons.parquet", "blocks": "areas.csv", "schema": SCHEMA},
            "geography": geography,
            "privacy": {"ledger": LEDGER, "budget": "1/2"},
            "tables": part["tables"],
        }
        write_spec(folder / f"{name}.toml", toml_text(parts, "Written by confide studio demo."))
    new_ledger(folder / LEDGER, "made-up country", Fraction(1), "opened by confide studio demo for made-up people")
    (folder / "nuts3.geojson").write_text(json.dumps(_made_up_map(folder / "areas.csv", seed)), encoding="utf-8")
    release = _release(folder / "census.toml", display)
    return Demonstration(folder, persons, {"census": release}, ("the release in the studio: confide studio demo",))


def demonstrate(
    mechanism: str = "topdown",
    *,
    out: str | Path = Path("demo"),
    persons: int | None = None,
    seed: int = 7,
    layout: str | None = None,
    progress: Progress | None = None,
) -> Demonstration:
    """The demonstration of a mechanism: complete releases of made-up people.

    Args:
        mechanism: topdown (the default), tables, safetab, cellkey, swapping or suppression.
        out: A new folder for the results; if it exists, demo-2 is used, and so on.
        persons: How many made-up persons; default: 200,000, for suppression 50,000.
        seed: The same seed gives the same people; the noise is new every time.
        layout: For tables, swapping, suppression: us-state (the default) or eu-country.
        progress: Shows stages; none by default.

    Returns:
        The releases, each with its verification and its evaluation.
    """
    asked: dict[str, Any] = {} if persons is None else {"persons": persons}
    asked |= {} if layout is None else {"layout": layout}
    return DEMONSTRATIONS[mechanism](Path(out), **asked, seed=seed, progress=progress)


def _made_up_map(areas: Path, seed: int) -> dict[str, Any]:
    """Regions of a country that is a sheet of uneven fields, as GeoJSON: neighbours share their borders."""
    with areas.open(encoding="utf-8", newline="") as file:
        named = {row["nuts3"]: row["nuts3_name"] for row in csv.DictReader(file)}
    across = max(1, math.isqrt(len(named)))
    random = np.random.default_rng(seed)
    lines = -(-len(named) // across)
    corners = np.stack(np.meshgrid(np.arange(across + 1.0), np.arange(lines + 1.0), indexing="ij"), axis=-1)
    corners += random.uniform(-0.32, 0.32, corners.shape)
    degrees = (corners * [0.9, 0.6] + [5, 50]).round(4).tolist()
    features = []
    for place, (code, name) in enumerate(named.items()):
        x, y = place % across, place // across
        ring = [degrees[i][j] for i, j in ((x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1), (x, y))]
        shape = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": {"code": code, "name": name}, "geometry": shape})
    return {"type": "FeatureCollection", "features": features}


OF_A_COUNTRY = ("tables", "swapping", "suppression")
"""Demonstrations that can also be had of the made-up European country."""
DEMONSTRATIONS: Mapping[str, Callable[..., Demonstration]] = {
    "topdown": demo,
    "tables": demo_tables,
    "safetab": demo_safetab,
    "cellkey": demo_cellkey,
    "swapping": demo_swapping,
    "suppression": demo_suppression,
}
"""For each mechanism its demonstration."""


def _release(spec: Path, display: Progress, *, same_people: bool = False) -> DemoRelease:
    """A release, verified and evaluated.

    Args:
        spec: What to release.
        display: Shows its stages.
        same_people: Whether its ledger was charged before, for another file of the same people.

    Returns:
        The run, its verification and its evaluation.
    """
    result = api.run(spec, accept_ledger=same_people, progress=display)
    return DemoRelease(result, api.verify(result.release), api.evaluate(spec, progress=display))


def own_measurements_alone(spec: Path, result: RunResult) -> dict[str, float]:
    """What the same measurements come to if every unit is estimated from its own alone, as in 2020.

    Args:
        spec: The spec of a sealed TopDown release of made-up people.
        result: Its run, with its key.

    Returns:
        For each geography the mean absolute error of the total.
    """
    other = Workspace(result.workspace.scratch / "own-measurements")
    with LocalEngine(other.scratch) as engine:
        loaded = api.load(spec)
        problem = TopDown().prepare(loaded, engine)
        blocks, plan = problem.spine.levels[-1], result.plan
        truth = pq.read_table(result.workspace.counts / f"{blocks.name}.parquet")
        write_counts(problem, other, truth)
        identity, key = begun(result.workspace), recall_key(result.workspace.key_file)
        noise = NoiseSource(key, identity.records_fingerprint, identity.plan_hash, TopDown.name)
        alone = replace(problem, strategy=replace(problem.strategy, evidence=OWN))
        descend(alone, Job(loaded, plan, engine, other, Silent()), DrawnEvidence(alone, plan, noise, other))
    off = np.zeros(blocks.units)
    for sign, table in (
        (-1, truth),
        *((1, pq.read_table(f)) for f in estimates_folder(other, blocks).glob("*.parquet")),
    ):
        np.add.at(off, table.column("unit").to_numpy(), sign * table.column("n").to_numpy())
    shutil.rmtree(other.root, ignore_errors=True)
    errors = {}
    for geography in geographies(problem):
        area = geography.unit_of_block[problem.spine.rows]
        sums = np.bincount(area[area >= 0], off[area >= 0], minlength=geography.units)
        errors[geography.name] = float(np.abs(sums).mean())
    return errors


def _free_folder(folder: Path, display: Progress) -> Path:
    """The folder, or the first of ``folder-2``, ``folder-3`` … where there is nothing yet: nothing is ever replaced."""
    free, number = folder, 1
    while free.exists() and not (free.is_dir() and not any(free.iterdir())):
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    if number > 1:
        display.note(f"There is something in {folder} already: this demonstration goes into {free}.")
    return free
