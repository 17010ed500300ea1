"""One sealed release of each example, for all tests that only look at it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.contract.kit import NAMES, Project, lay_out
from tests.contract.sealed import moments_of, sealed_example
from tests.kits.made_once import MadeOnce


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the two ways to change records, which one hash finds alike, the second is tried on one mechanism at once and
    on the others by make test-all."""
    for item in items:
        if "one record is another" in item.name and "[tables" not in item.name:
            item.add_marker("slow")


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Every registered mechanism, one after the other."""
    return str(request.param)


@pytest.fixture
def project(name: str, tmp_path: Path) -> Project:
    """The example of a mechanism, ready to run, and nobody else's."""
    return lay_out(name, tmp_path / name)


@pytest.fixture(scope="session")
def seal(made_once: MadeOnce) -> Callable[[str], Project]:
    """Makes the release of an example when it is first asked for."""
    return partial(sealed_example, made_once=made_once)


@pytest.fixture
def sealed(name: str, seal: Callable[[str], Project]) -> Project:
    """The sealed release of an example, to look at and not to touch."""
    return seal(name)


@pytest.fixture
def moments(sealed: Project) -> list[str]:
    """Every beginning, step and end of a stage of a release that nobody disturbs, in order."""
    return moments_of(sealed)
