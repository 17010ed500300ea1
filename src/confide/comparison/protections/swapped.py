"""``swapping``: tables of records of which some households have exchanged places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confide.comparison.compared_people import BLOCKS, HOUSEHOLDS_SCHEMA, PEOPLE
from confide.comparison.comparison_spec import SwappingProtection
from confide.comparison.figures import Figures, Integers, Key, read_release
from confide.comparison.protections.making import RUN, Made, Making
from confide.documents import shipped
from confide.errors import Finding, Place, SpecError
from confide.mechanisms.swapping import load_settings
from confide.mechanisms.swapping.settings import settings_values


def content(part: SwappingProtection, base: Path) -> dict[str, Any]:
    """The settings themselves: a file of that name may say something else tomorrow."""
    name = _name(part, base)
    missing = [key for key in ("variant", "rate") if key not in settings_values(name, base)]
    if missing:
        raise SpecError(
            Finding(
                code="missing-key",
                what=f"the settings of {part.name!r} have no {key}",
                where=Place(file=part.settings, path=f"swapping.{key}"),
                found="nothing",
                expected="a variant and a rate in the part [swapping]",
                remedy="add it",
            )
            for key in missing
        )
    return load_settings(name, base).as_dict()


def _name(part: SwappingProtection, base: Path) -> str:
    return part.settings if part.settings in shipped("swapping") else str((base / part.settings).resolve())


def make(part: SwappingProtection, making: Making) -> Made:
    """Swapped by the mechanism ``swapping``, with shipped settings or a file's."""
    name = _name(part, making.base)
    spec = making.spec(
        {
            "release": {"name": RUN, "mechanism": "swapping", "title": part.name},
            "data": {
                "records": f"../data/{PEOPLE}",
                "blocks": f"../data/{BLOCKS}",
                "schema": f"../data/{HOUSEHOLDS_SCHEMA}",
                "household": "household_id",
                "in_households": {"hhgq": 0},
                "age": "age",
            },
            "geography": {"block": "geocode", "levels": making.levels},
            "swapping": {"settings": name, "publish_rate": True},
            "tables": making.tables(margins="none"),
            "output": {"formats": ["parquet"]},
        }
    )
    release = making.run(spec)
    population = making.population
    counts: dict[Key, Integers] = {}
    for table in population.programme.tables:
        found = read_release(release.table(table.name), table, population.areas)
        counts |= {(level, table.name): matrix for level, (matrix, _) in found.items()}
    settings = load_settings(name, making.folder)
    rate = f"{float(100 * settings.rate):g} %"
    kept = "; the population of every block stays as it was" if "size" in settings.kept else ""
    return Made(
        Figures(counts),
        part.title or f"Swapping, {rate} of households",
        f"No bound is stated: {rate} of households exchanged places with another{kept}.",
        settings.as_dict(),
    )
