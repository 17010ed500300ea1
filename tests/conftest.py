"""What many tests share: a small made-up population, and a spec over it."""

from __future__ import annotations

import atexit
import codecs
import os
import re
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import Phase, settings

import confide
from confide.lab.population import Population, write_population
from confide.releases.ledger import Ledger
from tests.kits.made_once import MadeOnce
from tests.kits.small import SPEC
from tests.kits.times import Stopwatch, left_out, mark_costly, name_of
from tests.planted.corpus import read_corpus

# No examples are in them, and folders of tests have one of the same name each.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]

CONTRACT, CORPUS, HOUSE = (Path(__file__).parent / room for room in ("contract", "planted", "docs"))
"""The folders of tests that ``make test`` has however long they take, but for some cases of the contract."""
THREAT_MODEL = Path(__file__).parents[1] / "docs" / "threat-model.md"
HOLDING = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
"""How the threat model names a test that holds a promise."""

USUAL = {
    "threads": 1,
    "memory_limit": "4GiB",
    "preserve_insertion_order": True,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""What an engine of one process asks DuckDB for."""

# How long an example takes says how busy the machine is, and nothing about the code.
# The examples of make test are the same every time, so that what it says of a change is the change's; new ones are for
# make test-all.
settings.register_profile("confide", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=200)  # make test-all
settings.load_profile("confide")
# For planted bugs (tests/planted): that a property fails is all that is asked, not its smallest example.
settings.register_profile("unshrunk", deadline=None, database=None, phases=[Phase.explicit, Phase.generate])


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--stopwatch``: write down which tests take long, for ``make quick``."""
    parser.addoption("--stopwatch", action="store_true", help="write tests/costly.txt from this run")


def pytest_configure(config: pytest.Config) -> None:
    """One process unless a test asks for more: the bytes are the same, and to begin a pool costs seconds.

    Nobody pulls the plug, so files need not reach the disk: a killed process loses nothing that it wrote. What the
    ledger does to the disk is watched from outside, in processes of their own.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it to what it starts in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.cpu_count = lambda: 1
    os.fsync = lambda _: None
    share_database()
    # Some tests give up the rights of root for a moment, and a codec that cannot be read then is remembered as unknown.
    codecs.lookup("ascii")
    if config.getoption("--stopwatch"):
        config.pluginmanager.register(Stopwatch(writes=not hasattr(config, "workerinput")))


def share_database() -> None:
    """The engines of a process have one database of DuckDB, and a connection each: to open one takes 30 ms.

    Engines leave nothing in it, which ``tests/engines`` sees to. Those that ask for other memory or more processes, and
    commands in processes of their own, have one of their own, as everybody has outside the tests.
    """
    connect, shared = duckdb.connect, {}

    def connect_to_shared(*arguments: Any, **settings: Any) -> duckdb.DuckDBPyConnection:
        config = settings.get("config", {})
        if arguments or (settings and {**USUAL, "temp_directory": config.get("temp_directory")} != config):
            return connect(*arguments, **settings)
        if os.getpid() not in shared:
            shared[os.getpid()] = connect(config={**USUAL, "enable_external_file_cache": False})
        connection = shared[os.getpid()].cursor()
        if settings:
            folder = str(config["temp_directory"]).replace("'", "''")
            connection.execute(f"SET temp_directory = '{folder}'")
        return connection

    duckdb.connect = connect_to_shared
    atexit.register(lambda: [connection.close() for connection in shared.values()])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of what takes long, ``make test`` has what a planted bug or the threat model names: a bug that ``make test`` lets
    pass is not held, and a promise without its test is none. And it has the contract, what is said of the house, and
    what says that the planted bugs still fit: of the contract all but the longest cases of a test, as far as no planted
    bug names them. All else is left to ``make test-all``. Whoever measures measures those cases as well."""
    mark_costly(items)
    too_long = frozenset() if config.getoption("--stopwatch") else left_out()
    killers = {node for bug in read_corpus() for node in bug.killed_by}
    held = killers | {"::".join(named) for named in HOLDING.findall(THREAT_MODEL.read_text(encoding="utf-8"))}
    for item in items:
        names, rooms = {item.nodeid, name_of(item.nodeid)}, {*item.path.parents}
        if rooms.isdisjoint({CONTRACT, CORPUS, HOUSE}):
            left = item.get_closest_marker("costly") and not names & held
        else:
            left = item.nodeid in too_long and not names & killers
        if left:
            item.add_marker("slow")
        if rooms & {CONTRACT, CORPUS}:
            item.add_marker("costly")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """Folders that are made once for all processes of the tests."""
    return MadeOnce(tmp_path_factory)


@pytest.fixture(scope="session")
def population_folder(made_once: MadeOnce) -> Path:
    """The files of 3,000 made-up persons, made once."""
    return made_once.folder("population", partial(write_population, Population(3_000, 11)))


@pytest.fixture
def project(population_folder: Path, tmp_path: Path) -> Path:
    """A folder with records, blocks, a spec and an open ledger with a budget of one."""
    return _lay_out(population_folder, tmp_path)


def _lay_out(population: Path, folder: Path) -> Path:
    for name in ("persons.parquet", "blocks.parquet"):
        shutil.copy(population / name, folder / name)
    (folder / "spec.toml").write_text(SPEC)
    Ledger.open_new(folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=1)
    return folder


@pytest.fixture(scope="session")
def sealed_project(population_folder: Path, made_once: MadeOnce) -> Path:
    """Such a folder after its run, made once: to look at and not to touch. The release is ``small/release``."""

    def run(folder: Path) -> None:
        folder.mkdir()
        confide.run(_lay_out(population_folder, folder) / "spec.toml")

    return made_once.folder("sealed-project", run)


@pytest.fixture
def sealed_copy(sealed_project: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return shutil.copytree(sealed_project, tmp_path / "copy")


@pytest.fixture(scope="session")
def seal(made_once: MadeOnce) -> Callable[[str], Path]:
    """Makes the release of a mechanism's example when it is first asked for: to look at and not to touch."""
    from tests.contract.sealed import sealed_example

    return lambda mechanism: sealed_example(mechanism, made_once).release
