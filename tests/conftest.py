"""What many tests share: a small made-up population, and a spec over it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from confide.population import Population, write_population
from confide.releases.ledger import Ledger

SPEC = """
[release]
name = "small"
mechanism = "tables"
title = "A small release"

[data]
records = "persons.parquet"
blocks = "blocks.parquet"
schema = "persons"

[geography]
block = "geocode"
levels = [{ name = "state", digits = 2 }, { name = "county", digits = 5 }, { name = "tract", digits = 11 }]
areas = [{ name = "place", column = "place", none = "99999" }]

[privacy]
ledger = "people.ledger"
budget = "1/2"

[[tables]]
name = "age-by-sex"
variables = ["sex", "age:broad"]
levels = ["state", "tract", "place"]
weight = 2

[[tables]]
name = "sex"
variables = ["sex"]
levels = ["county", "block"]
"""

KEY = "0f" * 32

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("confide", deadline=None)
settings.load_profile("confide")


@pytest.fixture(scope="session")
def population_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of 3,000 made-up persons, made once."""
    folder = tmp_path_factory.mktemp("population")
    write_population(Population(3_000, 11), folder)
    return folder


@pytest.fixture
def project(population_folder: Path, tmp_path: Path) -> Path:
    """A folder with records, blocks, a spec and an open ledger with a budget of one."""
    for name in ("persons.parquet", "blocks.parquet"):
        shutil.copy(population_folder / name, tmp_path / name)
    (tmp_path / "spec.toml").write_text(SPEC)
    Ledger.open_new(tmp_path / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=1)
    return tmp_path
