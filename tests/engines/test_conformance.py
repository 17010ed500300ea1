"""What every engine must do. A new engine is added to the fixture and passes the same tests."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.engines import Engine, LocalEngine, Source, SparkEngine
from confide.engines.protocol import GroupFunction, Workers, cell_index, group_index, map_groups
from confide.errors import InputError, RunError
from confide.schema import Attribute, Group, Level, Query, Recode, identity

pytestmark = pytest.mark.process

ENGINES = {
    "local": lambda scratch: LocalEngine(scratch, processes=2),
    "spark": lambda scratch: SparkEngine(scratch, processes=2),
}
# pyspark leaves it to the garbage collector to close its sockets.
SPARK = pytest.param(
    "spark", marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
)


@pytest.fixture(params=["local", SPARK])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "spark":
        request.getfixturevalue("spark")
    with ENGINES[request.param](tmp_path / "scratch") as opened:
        yield opened


def parquet(folder: Path, **columns: object) -> Source:
    path = folder / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return Source(path, "parquet")


def csv(folder: Path, text: str, **options: object) -> Source:
    path = folder / "rows.csv"
    path.write_text(text, encoding="utf-8")
    return Source(path, "csv", **options)


def test_kinds_are_those_of_the_file(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, a=pa.array([1], pa.int8()), b=["x"], c=[1.5])
    assert engine.kinds(source) == {"a": "integer", "b": "text", "c": "other"}


def test_csv_is_text_in_every_column(engine: Engine, tmp_path: Path) -> None:
    source = csv(tmp_path, "code,n\n007,1\n")
    assert engine.kinds(source) == {"code": "text", "n": "text"}
    assert engine.sql("SELECT code FROM rows", rows=source).reveal("test").to_pylist() == [{"code": "007"}]


def test_the_kinds_of_a_file_that_has_changed_are_those_that_it_has_now(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, a=[1, 2])
    assert engine.kinds(source) == {"a": "integer"}
    assert engine.kinds(source) == {"a": "integer"}
    parquet(tmp_path, a=["x", "y"], b=[1, 2])
    assert engine.kinds(source) == {"a": "text", "b": "integer"}


def test_csv_with_another_delimiter_and_a_byte_order_mark(engine: Engine, tmp_path: Path) -> None:
    source = csv(tmp_path, "\ufeffa|b\n1|2\n", delimiter="|")
    assert engine.sql("SELECT a, b FROM rows", rows=source).reveal("test").to_pylist() == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("007", 7),
        (" 7 ", 7),
        ("-3", -3),
        ("1.5", None),
        ("1e3", None),
        ("", None),
        ("x", None),
        ("0x7", None),
    ],
)
def test_integer_text_accepts_whole_numbers_only(engine: Engine, tmp_path: Path, text: str, number: int | None) -> None:
    source = parquet(tmp_path, a=[text])
    rows = engine.sql(f"SELECT {engine.integer_text('a')} AS n FROM rows", rows=source).reveal("test").to_pylist()
    assert rows == [{"n": number}]


def test_count_by_counts_each_combination(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, a=["x", "x", "y", "x"], b=[1, 1, 2, 2])
    engine.count_by(source, {"key": "a", "twice": "2 * b"}, tmp_path / "counts.parquet")
    rows = pq.read_table(tmp_path / "counts.parquet").to_pylist()
    assert {(row["key"], row["twice"]): row["n"] for row in rows} == {("x", 2): 2, ("y", 4): 1, ("x", 4): 1}


def test_explode_count_counts_once_for_each_element(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, sex=[1, 1, 2], codes=[["a", "b"], ["a"], []])
    engine.explode_count(source, "codes", {"code": "codes", "sex": "sex"}, tmp_path / "counts.parquet")
    rows = pq.read_table(tmp_path / "counts.parquet").to_pylist()
    assert {(row["code"], row["sex"]): row["n"] for row in rows} == {("a", 1): 2, ("b", 1): 1}


def test_first_rows_are_numbered_from_one(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, a=[5, 9, 5, 9, 9])
    assert engine.first_rows(source, "a = 9", 2) == [2, 4]
    assert engine.first_rows(csv(tmp_path, "a\n5\n9\n9\n"), "a = '9'", 5) == [2, 3]


def doubled(group: int, rows: pa.Table) -> pa.Table:
    return pa.table({"group": [group], "rows": [rows.num_rows], "sum": [sum(rows.column("n").to_pylist())]})


def test_map_groups_maps_empty_groups_too_and_keeps_the_order(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, part=[0, 0, 4], n=[1, 2, 3])
    files = engine.map_groups(doubled, source.path, "part", [4, 0, 2], tmp_path / "out")
    rows = [pq.read_table(file).to_pylist()[0] for file in files]
    assert [(row["group"], row["rows"], row["sum"]) for row in rows] == [(4, 1, 3), (0, 2, 3), (2, 0, 0)]


def test_map_groups_leaves_finished_groups_alone(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, part=[0, 1], n=[1, 2])
    (first, second) = engine.map_groups(doubled, source.path, "part", [0, 1], tmp_path / "out")
    before = first.stat().st_mtime_ns
    second.unlink()
    done: list[int] = []
    engine.map_groups(doubled, source.path, "part", [0, 1], tmp_path / "out", advance=done.append)
    assert first.stat().st_mtime_ns == before
    assert second.exists()
    assert sum(done) == 2


def who(group: int, rows: pa.Table) -> pa.Table:
    """The process that maps the group."""
    return pa.table({"process": [os.getpid()]})


def test_the_local_engine_keeps_its_workers_from_map_to_map_and_ends_them(tmp_path: Path) -> None:
    source = parquet(tmp_path, part=[0, 1, 2, 3])
    maps: list[set[int]] = []
    deadline = time.monotonic() + 60
    with LocalEngine(tmp_path / "scratch", processes=2) as engine:
        while sum(os.getpid() not in processes for processes in maps) < 3:
            assert time.monotonic() < deadline
            files = engine.map_groups(who, source.path, "part", range(4), tmp_path / f"out{len(maps)}")
            maps.append({process for file in files for process in pq.read_table(file).column("process").to_pylist()})
    # The process itself works while the first of them begins, and never again.
    own = [os.getpid() in processes for processes in maps]
    assert own == sorted(own, reverse=True)
    workers = set().union(*maps) - {os.getpid()}
    assert 1 <= len(workers) <= 2
    assert not any(_alive(worker) for worker in workers)


def test_each_group_is_mapped_once_while_workers_begin(tmp_path: Path) -> None:
    source = parquet(tmp_path, part=list(range(40)), n=list(range(40)))
    mapped: list[int] = []

    class AfterTen(Future[None]):
        """Done when ten groups are."""

        def done(self) -> bool:
            return sum(done) >= 10

    class Once(Workers):
        """Ready after some groups, and with a pool that writes down what it is given."""

        def begun(self, function: GroupFunction) -> Future[None]:
            begun = AfterTen()
            begun.set_result(None)
            return begun

        def pool(self) -> Any:
            pool = mock.Mock()
            pool.submit = submit
            return pool

    def submit(function: Callable[..., None], *arguments: Any) -> Future[None]:
        mapped.append(arguments[3])
        task = Future[None]()
        task.set_result(function(*arguments))
        return task

    done: list[int] = []
    files = map_groups(doubled, source.path, "part", range(40), tmp_path / "out", workers=Once(2), advance=done.append)
    assert mapped == list(range(10, 40))
    assert sum(done) == 40
    assert all(file.exists() for file in files)


def test_a_worker_that_dies_between_two_maps_is_noticed_and_the_next_begins_others(tmp_path: Path) -> None:
    source = parquet(tmp_path, part=[0, 1])
    before = {child.pid for child in multiprocessing.active_children()}
    workers = Workers(2)
    workers.begun(who).result()
    own = [child for child in multiprocessing.active_children() if child.pid not in before]
    assert len(own) == 2  # none is left to begin while the pool finds out that another has died
    for worker in own:
        worker.kill()
    with pytest.raises(RunError) as caught:
        map_groups(who, source.path, "part", [0, 1], tmp_path / "out", workers=workers)
    assert caught.value.findings[0].code == "worker-died"
    # And the one after that begins anew.
    files = map_groups(who, source.path, "part", [0, 1], tmp_path / "out", workers=workers)
    assert all(file.exists() for file in files)
    workers.close()


def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    source = parquet(tmp_path, part=list(range(6)), n=list(range(6)))
    outcomes = []
    for processes in (1, 3):
        with LocalEngine(tmp_path / f"s{processes}", processes=processes) as engine:
            files = engine.map_groups(doubled, source.path, "part", range(6), tmp_path / f"o{processes}")
            outcomes.append([file.read_bytes() for file in files])
    assert outcomes[0] == outcomes[1]


def test_a_truncated_file_is_an_error_without_its_content(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, secret=["CANARY-VALUE"] * 1000)
    whole = source.path.read_bytes()
    source.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError) as caught:
        engine.sql("SELECT * FROM rows", rows=source)
    assert "CANARY" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_row_with_too_many_fields_is_an_error_without_its_content(engine: Engine, tmp_path: Path) -> None:
    source = csv(tmp_path, "a,b\n1,2\n3,CANARY,5\n")
    with pytest.raises(InputError) as caught:
        engine.sql("SELECT * FROM rows", rows=source)
    assert "CANARY" not in str(caught.value)


def test_results_of_sql_do_not_show_in_a_repr(engine: Engine, tmp_path: Path) -> None:
    found = engine.sql("SELECT * FROM rows", rows=parquet(tmp_path, a=["CANARY"]))
    assert "CANARY" not in f"{found!r} {found} {[found]}"


AGE = Attribute("age", "Age", tuple(Level(code, str(code)) for code in range(5)))
SEX = Attribute("sex", "Sex", (Level(1, "male"), Level(2, "female")))
KIND = Attribute("kind", "Kind", (Level("a'b", "quoted"), Level("c", "c"), Level("d", "d")))
BROAD = Recode("age:broad", AGE, (Group("old", (3, 4)), Group("young", (0, 1))))
PAIRS = Recode("kind:pairs", KIND, (Group("first", ("a'b", "d")),))


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from(range(5)), st.sampled_from([1, 2]), st.sampled_from(["a'b", "c", "d"]))),
    chosen=st.lists(st.sampled_from([identity(AGE), BROAD, identity(SEX), identity(KIND), PAIRS]), unique=True),
)
def test_cell_index_is_the_cell_of_the_schema(
    rows: list[tuple[int, int, str]], chosen: list[Recode], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cells")
    query = Query(tuple({recode.attribute.name: recode for recode in chosen}.values()))
    values = {"age": [r[0] for r in rows], "sex": [r[1] for r in rows], "kind": [r[2] for r in rows]}
    types = {"age": pa.int8(), "sex": pa.int8(), "kind": pa.string()}
    source = parquet(folder, **{name: pa.array(column, types[name]) for name, column in values.items()})
    expected: Counter[int] = Counter()
    for position in range(len(rows)):
        groups = [
            int(variable.assignment[variable.attribute.index[values[variable.attribute.name][position]]])
            for variable in query.variables
        ]
        expected[-1 if -1 in groups else int(np.ravel_multi_index(groups, query.shape)) if groups else 0] += 1
    with LocalEngine(folder / "scratch", processes=1) as engine:
        engine.count_by(source, {"cell": cell_index(query, {n: n for n in types})}, folder / "counts.parquet")
    found = {row["cell"]: row["n"] for row in pq.read_table(folder / "counts.parquet").to_pylist()}
    assert found == dict(expected)


def test_narrow_integers_do_not_wrap(engine: Engine, tmp_path: Path) -> None:
    wide = Attribute("race", "Race", tuple(Level(code, str(code)) for code in range(63)))
    query = Query((identity(SEX), identity(wide)))
    source = parquet(tmp_path, sex=pa.array([2], pa.int8()), race=pa.array([62], pa.int8()))
    engine.count_by(source, {"cell": cell_index(query, {"sex": "sex", "race": "race"})}, tmp_path / "counts.parquet")
    assert pq.read_table(tmp_path / "counts.parquet").to_pylist() == [{"cell": 125, "n": 1}]


def test_an_unknown_code_has_no_group(engine: Engine, tmp_path: Path) -> None:
    source = parquet(tmp_path, sex=pa.array([3, None, 1], pa.int8()))
    rows = engine.sql(f"SELECT {group_index(identity(SEX), 'sex')} AS g FROM rows", rows=source).reveal("test")
    assert rows.column("g").to_pylist() == [None, None, 0]


WORKERS = """
import sys, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
sys.path.insert(0, sys.argv[2])
from slow_group import slow
from confide.engines import LocalEngine
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    pq.write_table(pa.table({"part": [0, 1]}), folder / "rows.parquet")
    with LocalEngine(folder / "scratch", processes=2) as engine:
        engine.map_groups(slow, folder / "rows.parquet", "part", range(200), folder / "out")
"""
SLOW = """
import multiprocessing, os, time
from pathlib import Path
def slow(group, rows):
    if multiprocessing.parent_process() is None:
        time.sleep(0.1)
        return rows  # the process itself, while its workers begin
    Path(os.environ["PIDS"], str(os.getpid())).touch()
    time.sleep(60)
    return rows
"""


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(WORKERS)
    (tmp_path / "slow_group.py").write_text(SLOW)
    pids = tmp_path / "pids"
    pids.mkdir()
    environment = os.environ | {"PIDS": str(pids), "PYTHONPATH": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, tmp_path / "main.py", tmp_path, tmp_path], env=environment)
    deadline = time.monotonic() + 30
    while len(list(pids.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(file.name) for file in pids.iterdir()]
    assert len(workers) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while any(_alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_alive(worker) for worker in workers)


def _alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.split(") ")[1][0] not in "ZX"


def test_a_local_engine_leaves_nothing_in_its_database(tmp_path: Path) -> None:
    """The tests share one database among engines (``tests/conftest.py``): what one leaves there, others would see."""
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        source = parquet(tmp_path, kind=[1, 2, 2])
        engine.sql("SELECT count(*) AS n FROM source", source=source)
        engine.write("SELECT kind FROM source", tmp_path / "written.parquet", source=source)
        engine.count_by(source, {"kind": "kind"}, tmp_path / "counted.parquet")
        left = engine.sql("SELECT table_name AS name FROM information_schema.tables").reveal("a test")
        assert left.num_rows == 0
