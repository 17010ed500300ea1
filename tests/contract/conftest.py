"""One sealed release of each example, for all tests that only look at it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.contract.kit import NAMES, Project, lay_out
from tests.contract.moments import Watched


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


MOMENTS: dict[str, list[str]] = {}
"""The moments of the release of each example that :func:`seal` has made."""


@pytest.fixture(scope="session")
def seal(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    """Makes the release of an example when it is first asked for."""

    @cache
    def sealed(name: str) -> Project:
        project = lay_out(name, tmp_path_factory.mktemp("sealed") / name)
        MOMENTS[name] = []
        project.run(progress=Watched(MOMENTS[name].append))
        return project

    return sealed


@pytest.fixture
def sealed(name: str, seal: Callable[[str], Project]) -> Project:
    """The sealed release of an example, to look at and not to touch."""
    return seal(name)


@pytest.fixture
def moments(sealed: Project) -> list[str]:
    """Every beginning, step and end of a stage of a release that nobody disturbs, in order."""
    return MOMENTS[sealed.name]
