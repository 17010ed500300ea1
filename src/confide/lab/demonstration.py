"""Whole releases on made-up people: from records to a release that is verified and evaluated."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from confide import api, drafting, official_runs
from confide.engines import LocalEngine, Source
from confide.errors import ParameterError
from confide.lab.comparison.protections import toml_text
from confide.lab.demonstrated_releases import Demonstration, DemoRelease, ProductAccount, free_folder, release_of_spec
from confide.lab.population import EuAreas, Population, simulate, write_eu, write_official
from confide.lab.population.eu import SCHEMA
from confide.lab.population.generate import EU_COUNTRY, US_STATE, write_population
from confide.lab.population.official import HOUSEHOLDS
from confide.lab.risk.bounded_noise import ProtectedRegion, RegionQuestion, load_programme
from confide.mechanisms.cellkey.keys import write_keyed
from confide.mechanisms.cellkey.spec import ORDER, cellkey_spec, new_order
from confide.mechanisms.phsafe.official import FILES as ADDRESS_FILES
from confide.mechanisms.phsafe.spec import PROGRAM as PHSAFE
from confide.mechanisms.phsafe.spec import production_settings as phsafe_production
from confide.mechanisms.safetab.official import PARAMETERS, find_folder, read_config
from confide.mechanisms.safetab.program import OfficialProgram
from confide.mechanisms.safetab.spec import PROGRAM as SAFETAB
from confide.mechanisms.safetab_h.settings import HouseholdLevel, SafeTabHSettings
from confide.mechanisms.safetab_h.settings import production_settings as safetab_h_production
from confide.mechanisms.safetab_h.spec import DATA as HOUSEHOLD_DATA
from confide.mechanisms.safetab_h.spec import PROGRAM as SAFETAB_H
from confide.mechanisms.safetab_h.spec import TITLE as HOUSEHOLD_GROUPS_TITLE
from confide.mechanisms.topdown.descent import descend, estimates_folder
from confide.mechanisms.topdown.evaluate import geographies
from confide.mechanisms.topdown.mechanism import DrawnEvidence, TopDown, write_counts
from confide.mechanisms.topdown.spec import topdown_spec, with_tree_evidence
from confide.mechanisms.topdown.strategy import OWN
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.noise.ptables import DECIMAL
from confide.releases import Job, NoiseSource, Progress, RunResult, Silent, Workspace
from confide.releases.draft import LEDGER, SPEC, keep_secrets, new_ledger, write_spec
from confide.releases.replay import begun
from confide.releases.workspace import recall_key
from confide.report import charts

DATA_SET = "made-up state"
PROGRAMME = "eu-2021"
KEYED = "keyed.parquet"
PERSONS, FROM_BELOW = "persons", "persons-strategy.toml"
PL94_PERSONS = "pl94-persons"
REDISTRICTED = {"persons": PL94_PERSONS, "units": "pl94-units"}
"""What the releases of the demonstration are about, and the strategy of each."""
REDISTRICTING, GROUPS, HOUSEHOLD_GROUPS, PEOPLE = (
    "PL94 persons (TopDown)",
    "detailed groups (SafeTab-P)",
    "household groups (SafeTab-H)",
    "people in households (PHSafe)",
)
"""What the products of one census are called."""
OWN_ALONE = "own alone"
"""What the table calls estimates from own measurements alone."""


def demo(folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None) -> Demonstration:
    """Made-up people, a ledger, and the persons and units of the redistricting data: released, verified, evaluated.

    Args:
        folder: A new folder for everything that is made; if there is something in it, the next free one (``demo-2``).
        persons: How many made-up persons.
        seed: The same seed gives the same people; the noise is new every time.
        progress: Receives stages; none by default.

    Returns:
        The releases, each with its verification and its evaluation.

    >>> import confide
    >>> made = confide.demo(tmp_path / "demo", persons=500)
    >>> sorted(made.releases), made.ok
    (['persons', 'units'], True)
    """
    display = progress or Silent()
    folder = free_folder(folder, display)
    specs = {about: folder / f"{about}.toml" for about in REDISTRICTED}
    simulate(folder, persons=persons, seed=seed, progress=display)
    strategies = {about: load_strategy(product, root="state") for about, product in REDISTRICTED.items()}
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
        releases[about] = release_of_spec(path, display, same_people=bool(releases))
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
    folder = free_folder(folder, display)
    official = write_official(Population(persons, seed), folder, progress=display)
    spec = official_runs.convert(official.parameters, official.data, folder)
    look_at = (
        "tables/T01001.csv: the totals of detailed groups, each with the range of true counts that it stands for.",
        "t1/t1.csv and t2/t2.csv: the same in the Census Bureau's layout, and sex by age for larger groups.",
        "the dossier: which groups were suppressed, and how much detail the others got.",
    )
    return Demonstration(folder, persons, {"detailed groups": release_of_spec(spec, display)}, look_at)


class _MadeUpState:
    """Persons and households of a made-up state in a folder, the specs of releases of them, and one ledger.

    Budgets are those of the 2020 Census; the thresholds of detailed groups are a tenth of them, because there are so
    many fewer people (``made-up.toml``).
    """

    def __init__(self, folder: Path, persons: int, seed: int, display: Progress):
        self.folder = free_folder(folder, display)
        self._persons, self._display = persons, display
        self.population = Population(persons, seed)
        official = write_official(self.population, self.folder, households=True, progress=display)
        layout = find_folder(*official)
        self._files = {key: os.path.relpath(path, self.folder) for key, path in layout.files.items()}
        self.groups = read_config(layout.config).settings
        self.people = replace(phsafe_production(), states=self.groups.states)

    @property
    def households(self) -> SafeTabHSettings:
        """The production settings of SafeTab-H for this state, with the thresholds of the settings of its persons."""
        thresholds = {level.name: level.thresholds for level in self.groups.levels}
        settings = safetab_h_production()
        levels = tuple(
            HouseholdLevel(level.region_type, level.iteration_level, level.budgets, (steps, steps[:1]))
            for level in settings.passes["US"]
            for steps in [thresholds[level.name]]
        )
        return replace(settings, levels=levels, states=self.groups.states, puerto_rico=False)

    def write_groups(self) -> Path:
        """The spec of SafeTab-P."""
        return self._write("detailed-groups", SAFETAB, self.groups, self._files, "Detailed groups")

    def write_households(self) -> Path:
        """The spec of SafeTab-H, which takes the sealed totals of SafeTab-P."""
        files = {key: self._files[key] for key in (*PARAMETERS, "blocks")}
        files["records"] = f"data/{HOUSEHOLD_DATA['records']}.txt"
        files["totals"] = "detailed-groups/release"
        return self._write("household-groups", SAFETAB_H, self.households, files, HOUSEHOLD_GROUPS_TITLE)

    def write_people(self) -> Path:
        """The spec of PHSafe."""
        files = {key: f"{HOUSEHOLDS}/{stem}.csv" for key, stem in ADDRESS_FILES.items()}
        title = "People in households, and households"
        return self._write("people-in-households", PHSAFE, self.people, files, title)

    def _write(self, name: str, program: OfficialProgram, settings: Any, files: Mapping[str, str], title: str) -> Path:
        path = self.folder / f"{name}.toml"
        titled = f"Demonstration: {title} of a made-up state"
        write_spec(path, program.text(settings, files, name=name, title=titled, ledger=LEDGER, file=path.name))
        return path

    def released(self, products: Mapping[str, Path], budget: Fraction, look_at: tuple[str, ...]) -> Demonstration:
        """Releases of specs, in their order, charged to a new ledger that is kept in persons."""
        note = "opened by confide demo for made-up people"
        new_ledger(self.folder / LEDGER, DATA_SET, budget, note, neighbours="add-remove", unit="person")
        releases: dict[str, DemoRelease] = {}
        for product, path in products.items():
            self._display.note(f"{product}:")
            releases[product] = release_of_spec(path, self._display, same_people=bool(releases))
        account = ProductAccount.of(releases)
        return Demonstration(self.folder, self._persons, releases, look_at, account)


def demo_safetab_h(
    folder: Path, *, persons: int = 20_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up households by the detailed race and ethnicity of the householder: the groups of persons are released
    first, because their published totals decide which tables a group gets."""
    state = _MadeUpState(folder, persons, seed, progress or Silent())
    products = {GROUPS: state.write_groups(), HOUSEHOLD_GROUPS: state.write_households()}
    look_at = (
        "household-groups/release/tables: type and tenure of the households of each group, with noise margins.",
        "household-groups/release/t3 and t4: the same in the Census Bureau's layout.",
        "household-groups/release/manifest.json: which release of persons its totals are from, by its hash.",
    )
    return state.released(products, state.groups.total + 2 * state.households.total, look_at)


def demo_phsafe(
    folder: Path, *, persons: int = 20_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up persons with their households: tables about both, and averages."""
    state = _MadeUpState(folder, persons, seed, progress or Silent())
    look_at = (
        "people-in-households/release/tables: persons by household type, relationship and tenure, and averages with "
        "their intervals.",
        "certificate.html: how far one person can move a count, with households cut down to so many persons.",
        "the dossier: what noise and cutting down large households each cost.",
    )
    return state.released({PEOPLE: state.write_people()}, state.people.total, look_at)


def demo_census(
    folder: Path, *, persons: int = 20_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Four products of the 2020 Census of one made-up state, on one ledger that is kept in persons.

    The redistricting data of persons, detailed groups (Detailed DHC-A), household groups by the sealed totals of these
    (Detailed DHC-B), and people in households (Supplemental DHC).
    """
    display = progress or Silent()
    state = _MadeUpState(folder, persons, seed, display)
    write_population(state.population, state.folder, display)
    strategy = load_strategy(PL94_PERSONS, root="state")
    path = state.folder / f"{PERSONS}.toml"
    title = "Demonstration: persons of a made-up state"
    write_spec(path, topdown_spec(strategy, path.name, name=PERSONS, title=title, facilities="yes"))
    products = {
        REDISTRICTING: path,
        GROUPS: state.write_groups(),
        HOUSEHOLD_GROUPS: state.write_households(),
        PEOPLE: state.write_people(),
    }
    # Who comes or goes is in one cell of a table, who is changed in two: half of the budget of the strategy.
    costs = strategy.budget / 2 + state.groups.total + 2 * state.households.total + state.people.total
    look_at = (
        "the account below: what the four releases cost one person together.",
        "each certificate.html: what is promised to whom; that of the household groups says what they cost a person.",
        "confide ledger show data-set.ledger: the same account as the office keeps it, with every entry.",
    )
    return state.released(products, Fraction(math.ceil(costs)), look_at)


def demo_cellkey(
    folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up people with keys through the tables of the EU census programme: released, verified, evaluated; with the
    region of bounds and variances that the programme leaves."""
    display = progress or Silent()
    folder = free_folder(folder, display)
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
    release = release_of_spec(spec, display)
    if charts.available():
        (folder / "region.svg").write_text(region.chart().svg(), encoding="utf-8")
    look_at = (
        "tables/*.csv: the same people have the same noise in every table, so tables agree where they overlap.",
        "statement.html: how far a count can be off, and why this is not differential privacy.",
        "region.svg: which bounds and variances of the noise withstand the averaging attack on these tables.",
    )
    return Demonstration(folder, persons, {"tables": release}, look_at)


DEMONSTRATED = (US_STATE, EU_COUNTRY)
"""The layouts of made-up people that demonstrations of one release take."""
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
    if layout not in DEMONSTRATED:
        raise ParameterError("no-layout", found=layout, same=True, layouts=" or ".join(DEMONSTRATED))
    display = progress or Silent()
    folder = free_folder(folder, display)
    simulate(folder, persons=persons, seed=seed, layout=layout, progress=display)
    if layout == US_STATE:
        title = f"Demonstration: {mechanism} of a made-up state"
        spec = drafting.new(mechanism, folder, open_ledger=True, name=mechanism, title=title).spec
    else:
        spec = _country_spec(mechanism, folder)
    return Demonstration(folder, persons, {"tables": release_of_spec(spec, display)}, look_at)


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
    release = release_of_spec(folder / "census.toml", display)
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
        mechanism: topdown (the default), tables, safetab, safetab-h, phsafe, census-2020, cellkey, swapping or
            suppression.
        out: A new folder for the results; if it exists, demo-2 is used, and so on.
        persons: How many made-up persons; default: 200,000, for suppression 50,000, for households and census-2020
            20,000.
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
CENSUS = "census-2020"
"""The demonstration of several mechanisms, not of one."""
DEMONSTRATIONS: Mapping[str, Callable[..., Demonstration]] = {
    "topdown": demo,
    "tables": demo_tables,
    "safetab": demo_safetab,
    "safetab-h": demo_safetab_h,
    "phsafe": demo_phsafe,
    CENSUS: demo_census,
    "cellkey": demo_cellkey,
    "swapping": demo_swapping,
    "suppression": demo_suppression,
}
"""For each mechanism its demonstration, and that of a whole census."""


def own_measurements_alone(spec: Path, result: RunResult) -> dict[str, float]:
    """The error if each unit uses only its own measurements, as in 2020.

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
