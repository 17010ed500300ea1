"""``topdown``: protected records from noisy measurements, and the tables that these have."""

from __future__ import annotations

import pyarrow.parquet as pq

from confide.comparison.compared_people import BLOCKS, PEOPLE, SCHEMA
from confide.comparison.comparison_spec import TopDownProtection
from confide.comparison.figures import tabulate
from confide.comparison.programme import KIND, schema_text
from confide.comparison.protections.making import RUN, Made, Making, promised
from confide.documents import FOLDER
from confide.engines.atomic_files import private_folder, write_text

STRATEGY = "strategy.toml"


def make(part: TopDownProtection, making: Making) -> Made:
    """The strategy ``data/comparison/topdown.toml`` by the mechanism ``topdown``, with the budget of the spec."""
    folder, population = private_folder(making.folder), making.population
    write_text(folder / STRATEGY, (FOLDER / KIND / "topdown.toml").read_text(encoding="utf-8"))
    write_text(folder / SCHEMA, schema_text(population.programme.document))
    digits = population.digits
    spec = making.spec(
        {
            "release": {"name": RUN, "mechanism": "topdown", "title": part.name},
            "data": {"records": f"../data/{PEOPLE}", "blocks": f"../data/{BLOCKS}"},
            "geography": {
                "block": "geocode",
                "levels": [{"name": name, "digits": number} for name, number in digits.items()],
            },
            "privacy": {"ledger": making.ledger(part.budget), "budget": part.budget, "definition": "zcdp"},
            "topdown": {"strategy": STRATEGY, "root": "state", "spine": "plain", "split_aian": False},
            "output": {"formats": ["parquet"], "microdata": ["records"], "tables": []},
        }
    )
    records = pq.read_table(making.run(spec).table("records"))
    return Made(
        tabulate(records, population.areas, population.programme),
        part.title or f"TopDown, ρ = {float(part.budget):g}",
        f"{promised(part.budget)}; the state's population is exact.",
        {"budget": str(part.budget)},
    )
