"""The protections of a comparison: a mechanism run on a spec of its own, and its release read back in one form.

Each protection of the spec has a function here, in the order of the page. It writes the spec of a release of the
:mod:`.common_tables`, runs it, lets the mechanism read the release back, and says in
one sentence what is promised. Suppression alone is no release: see :mod:`confide.lab.comparison.suppressed_areas`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.documents import FOLDER as SHIPPED
from confide.documents import schema_text, shipped
from confide.engines import LocalEngine, Source
from confide.errors import Finding, Place, SpecError
from confide.exact import exact
from confide.file_system import private_folder, write_text
from confide.lab.attacks.reconstruction import read_release
from confide.lab.comparison import compared_people, comparison_spec
from confide.lab.comparison.common_tables import strategy_text
from confide.lab.comparison.figures import AreaFigures, counts_by_area, counts_of_areas_as_variables, level_codes
from confide.lab.comparison.programme_file import BLOCK, KIND
from confide.lab.comparison.suppressed_areas import suppress_areas
from confide.lab.published.marginals import AdditiveLaw, NoiseBound, PTableLaw, Published
from confide.mechanisms import MECHANISMS, SPECS
from confide.mechanisms.cellkey.keys import write_keyed
from confide.mechanisms.swapping import load_settings
from confide.mechanisms.swapping.spec import settings_values
from confide.noise import DiscreteGaussian, ReleaseKey
from confide.noise.ptables import DECIMAL, count_settings, generate
from confide.privacy.conversion import cks_epsilon
from confide.releases import Progress, load_spec
from confide.releases.ledger import Ledger
from confide.releases.run import DEFAULT_MEMORY, choose_engine, run

SPEC, LEDGER, RUN, STRATEGY = "spec.toml", "comparison.ledger", "run", "strategy.toml"
KEYED, KEY_COLUMN = "keyed.parquet", "record_key"
STRATEGIES = f"{KIND}/strategies"
TERRITORIES = ("country", "territory", "territory_of_the_comparison")
"""What the whole is called, where no level of the spec has one unit: the first that no level is called."""
DELTA = Fraction(1, 10**10)
NOTE = "Written by confide compare. What is made from it is for the comparison alone, NOT FOR RELEASE."


@dataclass(frozen=True, eq=False)
class ProtectedFigures:
    """What a protection publishes, and what it promises, in words."""

    figures: AreaFigures
    title: str
    guarantee: str
    """One sentence that an agency head can repeat."""
    settings: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class ProtectionJob:
    """What a protection is made from, and the folder where its files are kept."""

    population: compared_people.ComparedPopulation
    folder: Path
    seed: int
    processes: int | None
    progress: Progress
    blocks: int | None = None
    """How many blocks are protected where that takes long; None: all."""
    base: Path = Path()
    """The folder that paths of the spec are relative to."""

    def spec(self, parts: Mapping[str, Any]) -> Path:
        """The spec of the release, written unless it is there."""
        path = private_folder(self.folder) / SPEC
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
            Ledger.open_new(
                path,
                data_set=f"comparison: {self.folder.name}",
                definition="zcdp",
                neighbours="change-one",
                budget=budget,
                note="opened by confide compare",
            )
        return LEDGER

    def release(self, parts: Mapping[str, Any], schema: Path, *, keyed: bool = True) -> Published:
        """The release of a spec, sealed (if it is there already, nothing is done), as its mechanism reads it back."""
        key = self.key("release") if keyed else None
        loaded = load_spec(self.spec(parts), SPECS)
        mechanism = MECHANISMS[loaded.spec.release.mechanism]
        folder = run(
            loaded,
            mechanism,
            open_engine=choose_engine("local", mechanism, processes=self.processes, memory=DEFAULT_MEMORY),
            progress=self.progress,
            chosen_key=None if key is None else ReleaseKey.choose(key),
        ).release
        return read_release(folder, schema, areas=level_codes(self.population.blocks, self.population.rules))

    @property
    def spine(self) -> list[dict[str, Any]]:
        """All levels above the blocks as specs have them; the first has one unit, which is added if there is none."""
        population = self.population
        named = level_codes(population.blocks, population.rules)
        levels = [
            {"name": rule.name} | ({"digits": rule.digits} if rule.column is None else {"column": rule.column})
            for rule in population.rules
        ]
        if levels and len(set(named[str(levels[0]["name"])])) == 1:
            return levels
        return [{"name": next(name for name in TERRITORIES if name not in named), "digits": 0}, *levels]

    @property
    def levels(self) -> list[dict[str, Any]]:
        """The spine down to the finest level that tables are published for."""
        published = self.population.programme.part.levels
        places = [number for number, level in enumerate(self.spine, 1) if level["name"] in published]
        return self.spine[: max(places, default=1)]

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The common tables, as ``[[tables]]`` of a spec."""
        return [
            {
                "name": table.name,
                "title": table.title,
                "variables": table.variables,
                "levels": list(self.population.programme.levels),
                "margins": "none",
            }
            for table in self.population.programme.tables
        ]


def _unprotected(part: comparison_spec.NoProtection, job: ProtectionJob) -> ProtectedFigures:
    """What the records say. It is what everything else is held against, and as confidential as they are."""
    title = part.title or "No protection"
    return ProtectedFigures(job.population.truth, title, "None: the true tables, as counted.", {})


def _swapping(part: comparison_spec.SwappingProtection, job: ProtectionJob) -> ProtectedFigures:
    """Tables of records after some households have exchanged places, with shipped settings or a file's."""
    name, population = _settings_name(part, job.base), job.population
    programme = population.programme.part
    release = job.release(
        {
            "release": {"name": RUN, "mechanism": "swapping", "title": part.name},
            "data": {
                "records": f"../{compared_people.FOLDER}/{compared_people.PEOPLE}",
                "blocks": f"../{compared_people.FOLDER}/{compared_people.BLOCKS}",
                "schema": f"../{compared_people.FOLDER}/{compared_people.HOUSEHOLDS_SCHEMA}",
                "household": compared_people.HOUSEHOLD,
                "in_households": programme.in_households,
            }
            | ({} if programme.age is None else {"age": programme.age.attribute}),
            "geography": {"block": "geocode", "levels": job.levels},
            "swapping": {"settings": name, "publish_rate": True} | _fewer_groups(name, job),
            "tables": job.tables,
            "output": {"formats": ["parquet"]},
        },
        population.folder / compared_people.HOUSEHOLDS_SCHEMA,
    )
    settings = load_settings(name, job.folder, **_fewer_groups(name, job))
    whose = "households" if programme.household is not None else "people"
    rate = f"{float(100 * settings.rate):g} %"
    unit, _ = population.geography.words
    invariant = f"; the population of every {unit} stays as it was" if "size" in settings.kept else ""
    return ProtectedFigures(
        AreaFigures(counts_by_area(release, population.areas, population.programme)),
        part.title or f"Swapping, {rate} of {whose}",
        f"No bound is stated: {rate} of {whose} exchanged places with another{invariant}.",
        settings.as_dict(),
    )


def _fewer_groups(name: str, job: ProtectionJob) -> dict[str, Any]:
    """Shipped swaps mix units up to three levels; where there are fewer, what would go beyond goes to the last."""
    groups = settings_values(name, job.base).get("groups")
    levels = len(job.levels)
    if groups is None or len(groups) <= levels or name not in shipped("swapping"):
        return {}
    return {"groups": [*groups[: levels - 1], sum(groups[levels - 1 :], Fraction(0))]}


def _settings_name(part: comparison_spec.SwappingProtection, base: Path) -> str:
    return part.settings if part.settings in shipped("swapping") else str((base / part.settings).resolve())


def _swapping_settings(part: comparison_spec.SwappingProtection, base: Path) -> dict[str, Any]:
    """The settings themselves: a file of that name may say something else tomorrow."""
    name = _settings_name(part, base)
    missing = [key for key in ("variant", "rate") if key not in settings_values(name, base)]
    if missing:
        raise SpecError(
            Finding.of(
                "missing-key/settings", where=Place(file=part.settings, path=f"swapping.{key}"), part=part.name, key=key
            )
            for key in missing
        )
    return load_settings(name, base).as_dict()


def _suppression(part: comparison_spec.SuppressionProtection, job: ProtectionJob) -> ProtectedFigures:
    """Counts of 1 to ``threshold`` are primary; zeros may be hidden beside them, as may totals."""
    figures = suppress_areas(
        job.population, job.folder, part.threshold, job.blocks, job.seed, job.processes, job.progress
    )
    few = f"1 to {part.threshold}" if part.threshold > 1 else "1"
    return ProtectedFigures(
        figures,
        part.title or f"Suppression of counts up to {part.threshold}",
        f"No bound on what follows about a person: counts of {few} are withheld, and others so that the tables of the "
        f"same area leave for each of them an interval {part.threshold} wide or wider; what is published is true.",
        {"threshold": part.threshold},
    )


def _cellkey(part: comparison_spec.CellKeyProtection, job: ProtectionJob) -> ProtectedFigures:
    """Bounded noise that belongs to the members of a cell. To this mechanism areas are variables like others."""
    population = job.population
    _write_record_keys(job)
    release = job.release(
        {
            "release": {"name": RUN, "mechanism": "cellkey", "title": part.name},
            "data": {
                "records": KEYED,
                "schema": f"../{compared_people.FOLDER}/{compared_people.AREAS_SCHEMA}",
                "record_key": KEY_COLUMN,
            },
            "cellkey": {"D": part.D, "V": part.V, "keys": DECIMAL},
            "tables": [
                {"name": f"{level}-{table.name}", "variables": [level, *table.variables], "margins": "none"}
                for table in population.programme.tables
                for level in population.programme.levels
            ],
            "output": {"formats": ["parquet"]},
        },
        population.folder / compared_people.AREAS_SCHEMA,
        keyed=False,
    )
    counts = counts_of_areas_as_variables(release, population.areas, population.programme)
    law = PTableLaw(generate(count_settings(part.D, part.V)).table())
    return ProtectedFigures(
        AreaFigures(
            counts,
            variances=dict.fromkeys(counts, part.V),
            bound=NoiseBound(part.D, zeros_kept=True),
            laws=dict.fromkeys(counts, law),
        ),
        part.title or f"Cell key method, noise up to ±{part.D}",
        f"No differential privacy: every count is off by at most {part.D}, always in the same way for the same people.",
        {"D": part.D, "V": str(part.V)},
    )


def _write_record_keys(job: ProtectionJob) -> None:
    """The records with a key each, drawn once."""
    into = private_folder(job.folder) / KEYED
    if into.exists():
        return
    scratch = private_folder(job.folder / "scratch")
    with LocalEngine(scratch, processes=1) as engine:
        source = Source(job.population.folder / compared_people.PEOPLE, "parquet")
        secret = ReleaseKey.choose(job.key("record keys"))
        write_keyed(engine, source, into, column=KEY_COLUMN, keys=DECIMAL, secret=secret)
    shutil.rmtree(scratch, ignore_errors=True)


def _tables(part: comparison_spec.TablesProtection, job: ProtectionJob) -> ProtectedFigures:
    """Independent discrete Gaussian noise in every cell; the budget in equal parts for every table and level."""
    population = job.population
    release = job.release(
        {
            "release": {"name": RUN, "mechanism": "tables", "title": part.name},
            "data": {
                "records": f"../{compared_people.FOLDER}/{compared_people.PEOPLE}",
                "blocks": f"../{compared_people.FOLDER}/{compared_people.BLOCKS}",
                "schema": f"../{compared_people.FOLDER}/{compared_people.SCHEMA}",
            },
            "geography": {"block": "geocode", "levels": job.levels},
            "privacy": {"ledger": job.ledger(part.budget), "budget": part.budget, "definition": "zcdp"},
            "tables": job.tables,
            "output": {"formats": ["parquet"]},
        },
        population.folder / compared_people.SCHEMA,
    )
    # Change-one: one record leaves a cell and enters another, so that noise of variance 1/rho costs rho.
    variance = 1 / exact(part.budget / (len(population.programme.tables) * len(population.programme.levels)), "rho")
    counts = counts_by_area(release, population.areas, population.programme)
    return ProtectedFigures(
        AreaFigures(
            counts,
            variances=dict.fromkeys(counts, variance),
            laws=dict.fromkeys(counts, AdditiveLaw(DiscreteGaussian(variance))),
        ),
        part.title or f"Noise in every table, ρ = {float(part.budget):g}",
        f"{zcdp_in_words(part.budget)}.",
        {"budget": str(part.budget), "variance": str(variance)},
    )


def _topdown(part: comparison_spec.TopDownProtection, job: ProtectionJob) -> ProtectedFigures:
    """Protected records by the strategy of the programme, or one made from its tables, and the tables that these
    have."""
    folder, population = private_folder(job.folder), job.population
    root = str(job.spine[0]["name"])
    write_text(folder / STRATEGY, _strategy(job))
    write_text(folder / compared_people.SCHEMA, schema_text(population.programme.document))
    release = job.release(
        {
            "release": {"name": RUN, "mechanism": "topdown", "title": part.name},
            "data": {
                "records": f"../{compared_people.FOLDER}/{compared_people.PEOPLE}",
                "blocks": f"../{compared_people.FOLDER}/{compared_people.BLOCKS}",
            },
            "geography": {"block": "geocode", "levels": job.spine},
            "privacy": {"ledger": job.ledger(part.budget), "budget": part.budget, "definition": "zcdp"},
            "topdown": {"strategy": STRATEGY, "root": root, "spine": "plain", "split_aian": False},
            "output": {"formats": ["parquet"], "microdata": ["records"], "tables": []},
        },
        folder / compared_people.SCHEMA,
    )
    return ProtectedFigures(
        AreaFigures(counts_by_area(release, population.areas, population.programme)),
        part.title or f"TopDown, ρ = {float(part.budget):g}",
        f"{zcdp_in_words(part.budget)}; the population of the whole {root} is exact.",
        {"budget": str(part.budget)},
    )


def _strategy(job: ProtectionJob) -> str:
    """The text of the strategy: one that ships, that of a file, or one made from the tables."""
    programme, named = job.population.programme, job.population.programme.part.strategy
    if named in shipped(STRATEGIES):
        return (SHIPPED / STRATEGIES / f"{named}.toml").read_text(encoding="utf-8")
    if named is not None:
        return (job.base / named).read_text(encoding="utf-8")
    return strategy_text(programme, [*(str(level["name"]) for level in job.spine), BLOCK], compared_people.SCHEMA)


MAKERS: Mapping[type[comparison_spec.ProtectionPart], Callable[[Any, ProtectionJob], ProtectedFigures]] = {
    comparison_spec.NoProtection: _unprotected,
    comparison_spec.SwappingProtection: _swapping,
    comparison_spec.SuppressionProtection: _suppression,
    comparison_spec.CellKeyProtection: _cellkey,
    comparison_spec.TablesProtection: _tables,
    comparison_spec.TopDownProtection: _topdown,
}
"""For each kind of protection of the spec, how the comparison asks for it."""


def protect(part: comparison_spec.ProtectionPart, job: ProtectionJob) -> ProtectedFigures:
    """A protection of the spec: made, or read as it was made before."""
    return MAKERS[type(part)](part, job)


def settings_content(part: comparison_spec.ProtectionPart, base: Path) -> Any:
    """What a file says that a protection names, ``base`` being the folder of the spec; None if it names none."""
    return _swapping_settings(part, base) if isinstance(part, comparison_spec.SwappingProtection) else None


def zcdp_in_words(rho: Fraction) -> str:
    """A budget in words, with the epsilon at delta = 10⁻¹⁰ that goes with it."""
    return (
        f"Differential privacy with ρ = {float(rho):g} (ε = {cks_epsilon(rho, DELTA):.1f} at δ = 10⁻¹⁰): a proven "
        "bound on how much one person's record can show in what is published, whatever else is known"
    )


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
