"""``cellkey``: bounded noise that belongs to the members of a cell, the same wherever they are counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq

from confide.attacks.reconstruction import NoiseBound
from confide.comparison.compared_people import AREAS_SCHEMA, FOLDER, PEOPLE
from confide.comparison.comparison_spec import CellKeyProtection
from confide.comparison.figures import Figures, area_matrix
from confide.comparison.programme import LEVELS
from confide.comparison.protections.making import RUN, Made, Making
from confide.engines import LocalEngine, Source
from confide.engines.atomic_files import private_folder
from confide.mechanisms.cellkey.keys import write_keyed
from confide.noise import ReleaseKey
from confide.noise.ptables import DECIMAL

KEYED, COLUMN = "keyed.parquet", "record_key"


def make(part: CellKeyProtection, making: Making) -> Made:
    """The programme by the mechanism ``cellkey``, where areas are variables like others."""
    population = making.population
    _keys(making)
    tables = [
        {
            "name": f"{level}-{table.name}",
            "variables": [level, *table.variables],
            "margins": "none",
        }
        for table in population.programme.tables
        for level in LEVELS
    ]
    spec = making.spec(
        {
            "release": {"name": RUN, "mechanism": "cellkey", "title": part.name},
            "data": {"records": KEYED, "schema": f"../{FOLDER}/{AREAS_SCHEMA}", "record_key": COLUMN},
            "cellkey": {"D": part.D, "V": part.V, "keys": DECIMAL},
            "tables": tables,
            "output": {"formats": ["parquet"]},
        }
    )
    release = making.run(spec, keyed=False)
    counts, variances = {}, {}
    for table in population.programme.tables:
        for level in LEVELS:
            rows = pq.read_table(release.table(f"{level}-{table.name}"))
            counts[level, table.name], _ = area_matrix(rows, level, table, population.areas)
            variances[level, table.name] = part.V
    return Made(
        Figures(counts, variances=variances, bound=NoiseBound(part.D, zeros_kept=True)),
        part.title or f"Cell key method, noise up to ±{part.D}",
        f"No differential privacy: every count is off by at most {part.D}, always in the same way for the same people.",
        {"D": part.D, "V": str(part.V)},
    )


def _keys(making: Making) -> None:
    """The records with a key each, drawn once."""
    into = private_folder(making.folder) / KEYED
    if into.exists():
        return
    scratch = private_folder(making.folder / "scratch")
    with LocalEngine(scratch, processes=1) as engine:
        source = Source(Path(making.population.folder) / PEOPLE, "parquet")
        secret = ReleaseKey.choose(making.key("record keys"))
        write_keyed(engine, source, into, column=COLUMN, keys=DECIMAL, secret=secret)
    shutil.rmtree(scratch, ignore_errors=True)
