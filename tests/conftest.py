"""What many tests share: a small made-up population, and a spec over it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from confide.population import Population, write_population
from confide.releases.ledger import Ledger
from tests.kits.small import SPEC

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("confide", deadline=None)
settings.load_profile("confide")


def pytest_configure() -> None:
    """One process unless a test asks for more: the bytes are the same, and to begin a pool costs seconds."""
    os.cpu_count = lambda: 1


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
