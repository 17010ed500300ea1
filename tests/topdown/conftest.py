"""The people of the TopDown tests and their release, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kits.descent import lay_out, run

from confide.lab.population import Population, write_population
from confide.releases.run import RunResult


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of 12,000 made-up persons."""
    folder = tmp_path_factory.mktemp("people")
    write_population(Population(12_000, 5), folder)
    return folder


@pytest.fixture(scope="session")
def sealed(tmp_path_factory: pytest.TempPathFactory, people: Path) -> RunResult:
    """Their release at production settings, to look at and not to touch."""
    return run(lay_out(tmp_path_factory.mktemp("sealed"), people))
