"""``tables``: independent discrete Gaussian noise in every cell of every table."""

from __future__ import annotations

from fractions import Fraction

from confide.comparison.compared_people import BLOCKS, PEOPLE, SCHEMA
from confide.comparison.comparison_spec import TablesProtection
from confide.comparison.figures import Figures, Integers, Key, read_release
from confide.comparison.programme import LEVELS
from confide.comparison.protections.making import RUN, Made, Making, promised
from confide.exact import exact


def make(part: TablesProtection, making: Making) -> Made:
    """The programme by the mechanism ``tables``, its budget in equal parts for every table and level."""
    spec = making.spec(
        {
            "release": {"name": RUN, "mechanism": "tables", "title": part.name},
            "data": {"records": f"../data/{PEOPLE}", "blocks": f"../data/{BLOCKS}", "schema": f"../data/{SCHEMA}"},
            "geography": {"block": "geocode", "levels": making.levels},
            "privacy": {"ledger": making.ledger(part.budget), "budget": part.budget, "definition": "zcdp"},
            "tables": making.tables(margins="none"),
            "output": {"formats": ["parquet"]},
        }
    )
    release = making.run(spec)
    population = making.population
    counts: dict[Key, Integers] = {}
    variances: dict[Key, Fraction] = {}
    # Change-one: one record leaves a cell and enters another, so that noise of variance 1/rho costs rho.
    variance = 1 / exact(part.budget / (len(population.programme.tables) * len(LEVELS)), "rho")
    for table in population.programme.tables:
        found = read_release(release.table(table.name), table, population.areas)
        counts |= {(level, table.name): matrix for level, (matrix, _) in found.items()}
        variances |= {(level, table.name): variance for level in LEVELS}
    return Made(
        Figures(counts, variances=variances),
        part.title or f"Noise in every table, ρ = {float(part.budget):g}",
        f"{promised(part.budget)}.",
        {"budget": str(part.budget), "variance": str(variance)},
    )
