"""What the examples of docstrings are run with: the folders that they name.

- ``project``: a folder with the files of made-up people, ``spec.toml`` and ``data-set.ledger``, as the commands
  ``confide import made-up`` and ``confide new tables`` make it;
- ``sealed``: the folder of a run of such a spec, with its release;
- ``topdown``: the same by the mechanism topdown;
- ``official``: the folders ``parameters`` and ``data`` of the Census Bureau's programs, for 300 made-up people;
- ``pl94_zip``: a made-up file of redistricting data;
- ``compared``: a folder with the spec of a comparison and, in ``made``, what was made of it;
- ``six_people``, ``truth``, ``areas``, ``programme``: six people in three blocks and their tables, in a comparison;
- ``tmp_path``: an empty folder.

Each example has copies of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import confide

ROOT = Path(__file__).parents[1]


def _project(folder: Path, mechanism: str = "tables") -> Path:
    confide.simulate(folder, persons=500, seed=7)
    confide.new(mechanism, folder)
    return folder


def _sealed(folder: Path) -> Path:
    return confide.run(_project(folder) / "spec.toml").workspace.root


def _topdown(folder: Path) -> Path:
    return confide.run(_project(folder, "topdown") / "spec.toml").workspace.root


def _official(folder: Path) -> Path:
    from confide.lab.population import Population, write_official

    write_official(Population(300, 7), folder)
    return folder


def _pl94_zip(folder: Path) -> Path:
    sys.path.insert(0, str(ROOT))
    from tests.kits.pl94 import made_up, zipped

    file = folder / "ri2010.pl.zip"
    file.write_bytes(zipped(made_up()))
    return file


def _compared(folder: Path) -> Path:
    spec = confide.new("comparison", folder, made_up="300").spec
    head, _, rest = spec.read_text(encoding="utf-8").partition("\n[[protections]]")
    protection = '[[protections]]\nname = "swap-light"\nmechanism = "swapping"\nsettings = "light"\n\n'
    spec.write_text(head + "\n" + protection + rest[rest.index("[attack]") :], encoding="utf-8")
    confide.compare(spec, folder / "made", processes=1)
    return folder


OBJECTS = ("six_people", "truth", "areas", "programme")


def _object(name: str) -> Any:
    sys.path.insert(0, str(ROOT))
    from tests.kits import comparison

    makers: dict[str, Callable[[], Any]] = {
        "six_people": comparison.people,
        "truth": comparison.truth,
        "areas": comparison.areas,
        "programme": comparison.common_tables,
    }
    return makers[name]()


FOLDERS: dict[str, Callable[[Path], Path]] = {
    "project": _project,
    "sealed": _sealed,
    "topdown": _topdown,
    "official": _official,
    "pl94_zip": _pl94_zip,
    "compared": _compared,
}


def pytest_configure() -> None:
    """One process: the bytes are the same, and to begin a pool costs seconds."""
    os.cpu_count = lambda: 1


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """Makes what an example names when it is first asked for: the folder, and what stands for it."""
    known: dict[str, tuple[Path, Path]] = {}

    def get(name: str) -> tuple[Path, Path]:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            known[name] = folder, FOLDERS[name](folder)
        return known[name]

    return get


@pytest.fixture(autouse=True)
def named_in_the_example(
    request: pytest.FixtureRequest,
    doctest_namespace: dict[str, Any],
    made: Callable[[str], tuple[Path, Path]],
    tmp_path: Path,
) -> Iterator[None]:
    """Gives an example the folders that it names."""
    text = "".join(each.source for each in getattr(request.node, "dtest").examples)  # noqa: B009
    for name in FOLDERS:
        if re.search(rf"\b{name}\b", text):
            folder, stands_for = made(name)
            copy = shutil.copytree(folder, tmp_path / f"of-{name}", copy_function=shutil.copy2)
            doctest_namespace[name] = copy / stands_for.relative_to(folder)
    for name in OBJECTS:
        if re.search(rf"(?<![\w.]){name}[,)]", text):
            doctest_namespace[name] = _object(name)
    if "tmp_path" in text:
        doctest_namespace["tmp_path"] = tmp_path
    yield
    doctest_namespace.clear()
