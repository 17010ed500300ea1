"""The people of the TopDown tests, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from confide.population import Population, write_population


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of 12,000 made-up persons."""
    folder = tmp_path_factory.mktemp("people")
    write_population(Population(12_000, 5), folder)
    return folder
