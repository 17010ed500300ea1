"""The engine on Spark beside the local one: the same rows, types, order and bytes; errors that tell nothing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.cluster import documented_settings

from confide.engines import LocalEngine, Source, SparkEngine
from confide.engines.protocol import cell_index
from confide.engines.spark_session import has_spark
from confide.errors import Finding, InputError, RunError
from confide.schema import Attribute, Group, Level, Query, Recode, identity

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def local(tmp_path: Path) -> Any:
    with LocalEngine(tmp_path / "local-scratch", processes=2) as engine:
        yield engine


def parquet(folder: Path, table: pa.Table, name: str = "rows.parquet", **options: Any) -> Source:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, **options)
    return Source(folder / name, "parquet")


def types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """The columns, whether or not the file says that a value may be missing."""
    return [(field.name, field.type) for field in schema]


MIXED = pa.table(
    {
        "tiny": pa.array([1, None, -3, 4, 100], pa.int8()),
        "big": pa.array([5, 2**40, None, -1, 0], pa.int64()),
        "unsigned": pa.array([1, 2, 3, None, 2**32 - 1], pa.uint32()),
        "text": ["a", "B", None, "ü", ""],
        "listed": pa.array([["x", "y"], [], None, ["x"], ["z", "z"]], pa.list_(pa.string())),
    }
)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM rows",
        "SELECT tiny, text FROM rows WHERE big IS NOT NULL",
        "SELECT CAST(tiny AS BIGINT) * 63 AS n, CAST(big AS VARCHAR) AS t FROM rows ORDER BY 1, 2",
        "SELECT text, big FROM rows ORDER BY text",
        "SELECT text, big FROM rows ORDER BY big DESC, text",
        "SELECT coalesce(text IN (SELECT code FROM (VALUES ('a'), ('B')) AS listed(code)), FALSE) AS known FROM rows",
        "SELECT count(*) AS n, CAST(coalesce(sum(tiny), 0) AS BIGINT) AS s FROM rows WHERE text = 'nobody'",
        "SELECT CASE WHEN tiny BETWEEN 1 AND 4 THEN tiny - 1 END AS g FROM rows",
        "SELECT a.text AS one, b.big AS other FROM rows AS a JOIN rows AS b USING (big) ORDER BY 2",
        "SELECT text || '|' || text AS twice, length(text) AS size FROM rows",
    ],
)
def test_a_query_has_the_same_rows_in_the_same_order(
    spark: SparkEngine, local: LocalEngine, tmp_path: Path, text: str
) -> None:
    source = parquet(tmp_path, MIXED)
    here, there = (engine.sql(text, rows=source).reveal("test") for engine in (local, spark))
    assert there.to_pylist() == here.to_pylist()
    assert there.column_names == here.column_names


@pytest.mark.parametrize(
    "text",
    [
        "SELECT big, text, tiny, listed FROM rows WHERE big >= 0 ORDER BY big",
        "SELECT CAST(tiny AS BIGINT) AS part, count(*) AS n FROM rows GROUP BY 1 ORDER BY 1",
    ],
)
def test_a_written_file_has_the_same_rows_and_types(
    spark: SparkEngine, local: LocalEngine, tmp_path: Path, text: str
) -> None:
    source = parquet(tmp_path, MIXED)
    for name, engine in (("here", local), ("there", spark)):
        engine.write(text, tmp_path / f"{name}.parquet", rows_per_group=2, rows=source)
    here, there = (pq.ParquetFile(tmp_path / f"{name}.parquet") for name in ("here", "there"))
    assert there.read().to_pylist() == here.read().to_pylist()
    assert types(there.schema_arrow) == types(here.schema_arrow)
    assert there.metadata.num_row_groups == here.metadata.num_row_groups
    assert stat.S_IMODE((tmp_path / "there.parquet").stat().st_mode) == 0o600


def test_rows_keep_the_order_of_a_file_that_is_read_in_pieces(spark: SparkEngine, tmp_path: Path) -> None:
    """Row numbers, too, are those of the file, wherever it is cut."""
    numbers = np.random.default_rng(1).permutation(20_000)
    source = parquet(tmp_path, pa.table({"a": numbers}), row_group_size=700, compression="none", use_dictionary=False)
    with SparkEngine(tmp_path / "scratch", processes=2) as engine:
        engine._session.conf.set("spark.sql.files.maxPartitionBytes", "20000")
        engine._session.conf.set("spark.sql.files.openCostInBytes", "0")
        assert engine._read(source).rdd.getNumPartitions() > 4
        assert engine.sql("SELECT a FROM rows", rows=source).reveal("test").column("a").to_pylist() == numbers.tolist()
        low = engine.sql("SELECT a FROM rows WHERE a < 1000", rows=source).reveal("test").column("a").to_pylist()
        assert low == numbers[numbers < 1000].tolist()
        expected = (np.flatnonzero(numbers >= 19_000)[:7] + 1).tolist()
        assert engine.first_rows(source, "a >= 19000", 7) == expected
        engine.write("SELECT a FROM rows ORDER BY a DESC", tmp_path / "sorted.parquet", rows=source)
    assert pq.read_table(tmp_path / "sorted.parquet").column("a").to_pylist() == list(range(19_999, -1, -1))


NAMES = ["_hidden.parquet", ".dot.parquet", "a [1]*{b}?.parquet", "it's #1 100%20.parquet", "ü.parquet"]


@pytest.mark.parametrize("name", NAMES)
def test_files_and_columns_may_have_any_name(spark: SparkEngine, tmp_path: Path, name: str) -> None:
    columns = {'a "b`.c': [1, 2], "_metadata": ["x", "y"], "st": ["1", "2"]}
    source = parquet(tmp_path / "st=44" / "[x]", pa.table(columns), name)
    assert spark.sql("SELECT * FROM rows", rows=source).reveal("test").to_pydict() == columns
    assert spark.first_rows(source, '"a ""b`.c" = 2 AND _metadata = \'y\'', 5) == [2]


def test_decimals_are_read_as_by_the_local_engine(spark: SparkEngine, local: LocalEngine, tmp_path: Path) -> None:
    """Ties of floating-point numbers in the seventh place, and spellings of texts."""
    draw = np.random.default_rng(1)
    floats = [
        *(draw.integers(0, 10**10, 20_000) / 1e7),
        0.5e-6,
        1.5e-6,
        2.5e-6,
        999999999999.0,
        1e12,
        1e300,
        -1.0,
        -0.0,
    ]
    floats += [float("nan"), float("inf"), 0.1234565, 132.6962975]
    texts = [
        "1.0000005",
        "1e3",
        "1E-3",
        " 1.5 ",
        "\t1",
        "1_000",
        "1__0",
        "_1",
        "1_",
        ".5",
        "5.",
        ".",
        "+1",
        "-1",
        "NaN",
    ]
    texts += [
        "inf",
        "0x10",
        "",
        "1,5",
        "1d",
        "1f",
        "12345678901234",
        "999999999999.9999995",
        "1000000000000",
        "٣",
        "1 2",
    ]
    texts += [
        "1e",
        "1e400",
        "1e-400",
        "\u00a01",
        "1\x00",
        "1.e2",
        "1e+2",
        "1.5.2",
        "1e1.5",
        "\n1\r\f\x0b",
        "1" + "0" * 40,
    ]
    tables = {
        "float64": pa.table({"w": floats}),
        "float32": pa.table({"w": pa.array(np.array(floats[:2000], np.float32))}),
        "text": pa.table({"w": texts}),
        "decimal": pa.table({"w": pa.array([Decimal("1.23456785"), Decimal("-2.5"), None], pa.decimal128(20, 8))}),
        "integer": pa.table({"w": pa.array([1, 2**50, -3])}),
    }
    for name, table in tables.items():
        source = parquet(tmp_path, table, f"{name}.parquet")
        text = "SELECT w, TRY_CAST(w AS DECIMAL(18, 6)) AS d FROM rows"
        here, there = (engine.sql(text, rows=source).reveal("test") for engine in (local, spark))
        assert there.schema.field("d").type == here.schema.field("d").type
        pairs = zip(table.column("w").to_pylist(), *(t.column("d").to_pylist() for t in (here, there)), strict=True)
        assert [pair for pair in pairs if pair[1] != pair[2]] == [], name


def test_whole_numbers_in_texts_are_read_as_by_the_local_engine(
    spark: SparkEngine, local: LocalEngine, tmp_path: Path
) -> None:
    texts = [
        "7",
        "007",
        " 7 ",
        "+7",
        "-3",
        "\n7\r",
        "7\n\n",
        "1.5",
        "1e3",
        "",
        "x",
        "0x7",
        "9" * 18,
        "9" * 19,
        "٣",
        "7_0",
    ]
    texts += ["\x0b7", "7\x00", "--7", "7 7", "\u00a07"]
    source = parquet(tmp_path, pa.table({"a": texts}))
    here, there = (
        engine.sql(f"SELECT {engine.integer_text('a')} AS n FROM rows", rows=source)
        .reveal("test")
        .column("n")
        .to_pylist()
        for engine in (local, spark)
    )
    assert dict(zip(texts, there, strict=True)) == dict(zip(texts, here, strict=True))


AGE = Attribute("age", "Age", tuple(Level(code, str(code)) for code in range(5)))
KIND = Attribute("kind", "Kind", (Level("a'b", "quoted"), Level("c\\", "c"), Level("d", "d")))
BROAD = Recode("age:broad", AGE, (Group("old", (3, 4)), Group("young", (0, 1))))


def test_cells_are_those_of_the_local_engine(spark: SparkEngine, local: LocalEngine, tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    rows = pa.table(
        {"age": pa.array(draw.integers(0, 6, 500), pa.int8()), "kind": draw.choice(["a'b", "c\\", "d"], 500)}
    )
    source = parquet(tmp_path, rows)
    for variables in ((), (identity(AGE), identity(KIND)), (BROAD, identity(KIND))):
        keys = {"cell": cell_index(Query(variables), {"age": "age", "kind": "kind"})}
        found = []
        for name, engine in (("here", local), ("there", spark)):
            engine.count_by(source, keys, tmp_path / f"{name}.parquet", where="age < 5")
            table = pq.read_table(tmp_path / f"{name}.parquet")
            found.append((types(table.schema), {row["cell"]: row["n"] for row in table.to_pylist()}))
        assert found[0] == found[1]
    empty = parquet(tmp_path, rows.slice(0, 0), "empty.parquet")
    spark.count_by(empty, {"cell": "CAST(0 AS BIGINT)"}, tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def summed(group: int, rows: pa.Table) -> pa.Table:
    table = pa.table({"group": [group], "sum": [sum(rows.column("n").to_pylist())]})
    return table.replace_schema_metadata({"made of": str(rows.num_rows)})


def refuses(group: int, rows: pa.Table) -> pa.Table:
    if group == 3:
        raise RunError(Finding("no-three", "three is refused", found="a three"))
    return rows


def breaks(group: int, rows: pa.Table) -> pa.Table:
    raise ValueError


def test_groups_have_the_same_bytes(spark: SparkEngine, local: LocalEngine, tmp_path: Path) -> None:
    source = parquet(tmp_path, pa.table({"part": [0, 0, 4, 4, 9], "n": [1, 2, 3, 4, 5]}))
    done: list[int] = []
    here = local.map_groups(summed, source.path, "part", range(12), tmp_path / "here")
    there = spark.map_groups(summed, source.path, "part", range(12), tmp_path / "there", advance=done.append)
    assert [file.read_bytes() for file in there] == [file.read_bytes() for file in here]
    assert sum(done) == 12
    assert {stat.S_IMODE(file.stat().st_mode) for file in there} == {0o600}
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o700


def test_an_error_of_a_group_is_raised_as_it_was(spark: SparkEngine, tmp_path: Path) -> None:
    source = parquet(tmp_path, pa.table({"part": [3], "n": [1]}))
    with pytest.raises(RunError) as caught:
        spark.map_groups(refuses, source.path, "part", range(5), tmp_path / "out")
    assert caught.value.findings[0].code == "no-three"
    assert (tmp_path / "out" / "00000004.parquet").exists()
    with pytest.raises(ValueError):  # noqa: PT011 - any error travels
        spark.map_groups(breaks, source.path, "part", range(2), tmp_path / "out2")


def test_an_error_tells_nothing_of_the_rows(spark: SparkEngine, tmp_path: Path) -> None:
    source = parquet(tmp_path, pa.table({"a": ["CANARY"]}))
    with pytest.raises(InputError) as caught:
        spark.sql("SELECT CAST(a AS BIGINT) AS n FROM rows", rows=source)
    with pytest.raises(RunError) as unknown:
        spark.sql("SELECT nothing FROM rows", rows=source)
    assert unknown.value.findings[0].code == "spark-dialect"
    for error in (caught.value, unknown.value):
        assert "CANARY" not in str(error)
        assert error.__cause__ is None
        assert error.__context__ is None


def test_a_type_that_spark_lacks_is_said_to_be_one(spark: SparkEngine, tmp_path: Path) -> None:
    source = parquet(tmp_path, pa.table({"a": [1], "at": pa.array([1], pa.time64("us"))}))
    with pytest.raises(InputError) as caught:
        spark.sql("SELECT a FROM rows", rows=source)
    assert caught.value.findings[0].code == "spark-type"
    stamped = parquet(tmp_path, pa.table({"a": [1], "at": pa.array([1], pa.timestamp("ns"))}), "stamped.parquet")
    assert spark.sql("SELECT a FROM rows", rows=stamped).reveal("test").to_pylist() == [{"a": 1}]


def test_a_changed_text_is_read_again(spark: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    source = Source(path, "csv")
    for value in ("1", "22"):
        path.write_text(f"a\n{value}\n")
        assert spark.sql("SELECT a FROM rows", rows=source).reveal("test").to_pylist() == [{"a": value}]


def test_nothing_stays_behind_and_all_is_private(spark: SparkEngine, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    with SparkEngine(scratch, processes=2) as engine:
        source = parquet(tmp_path, pa.table({"a": [1, 2]}))
        engine.sql("SELECT a FROM rows", rows=source)
        (own,) = scratch.iterdir()
        assert stat.S_IMODE(own.stat().st_mode) == 0o700
        assert list(own.glob("answer-*")) == []
    assert list(scratch.iterdir()) == []
    assert engine.name == "spark"


def test_a_session_that_is_given_is_used_and_left_open(spark: SparkEngine, tmp_path: Path) -> None:
    source = parquet(tmp_path, pa.table({"a": [1, 2]}))
    with SparkEngine(tmp_path / "scratch", session=spark._session) as engine:
        assert engine.sql("SELECT a FROM rows", rows=source).reveal("test").num_rows == 2
    assert spark.sql("SELECT a FROM rows", rows=source).reveal("test").num_rows == 2


SCRIPT = """
import sys
from pathlib import Path
from pyspark import SparkContext
from confide.engines import Source, SparkEngine
from confide.errors import ConfideError
folder = Path(sys.argv[1])
source = Source(folder / "rows.parquet", "parquet")
for number in range(2):
    with SparkEngine(folder / f"scratch{number}", processes=1, memory="600MB") as engine:
        context = engine._session.sparkContext
        settings = dict(context.getConf().getAll())
        assert settings["spark.ui.enabled"] == "false" and context.uiWebUrl is None
        assert settings["spark.io.encryption.enabled"] == "true"
        assert settings["spark.local.dir"].startswith(str(folder / f"scratch{number}"))
        assert settings["spark.driver.host"] == "127.0.0.1"
        assert engine.sql("SELECT a FROM rows", rows=source).reveal("test").num_rows == 1
        try:
            engine.sql("SELECT CAST(a AS BIGINT) AS n FROM rows", rows=source)
        except ConfideError as error:
            print(error.findings[0].code)
    assert SparkContext._active_spark_context is None
context = SparkContext(master="local[1]", conf=None)
try:
    SparkEngine(folder / "scratch")
except ConfideError as error:
    print(error.findings[0].code)
context.stop()
"""


@pytest.mark.skipif(not has_spark(), reason="needs Java and the extra spark: pip install 'confide[spark]'")
def test_spark_says_nothing_and_can_be_begun_again(tmp_path: Path) -> None:
    """Neither output nor log, also of an error that quotes a value; one Java machine, several contexts in a row."""
    parquet(tmp_path, pa.table({"a": ["CANARY"]}))
    (tmp_path / "script.py").write_text(SCRIPT)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(elsewhere)}
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path)]
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == ["unreadable", "unreadable", "spark-busy"]
    assert done.returncode == 0
    assert [path for path in elsewhere.rglob("*") if path.is_file()] == []


CLUSTER = """
import sys
from pathlib import Path
from confide.engines import LocalEngine, Source, SparkEngine
from confide.errors import ConfideError
from cluster_groups import counted
folder = Path(sys.argv[1])
source = Source(folder / "rows.parquet", "parquet")
if __name__ == "__main__":
    files = {}
    with LocalEngine(folder / "local", processes=1) as engine:
        files["local"] = engine.map_groups(counted, source.path, "part", range(6), folder / "here")
    with SparkEngine(folder / "scratch", master="local-cluster[2,1,600]", memory="600MB") as engine:
        files["spark"] = engine.map_groups(counted, source.path, "part", range(6), folder / "there")
        engine.write("SELECT part, a FROM rows ORDER BY part DESC", folder / "sorted.parquet", rows=source)
        try:
            engine.sql("SELECT CAST(a AS BIGINT) AS n FROM rows", rows=source)
        except ConfideError as error:
            print(error.findings[0].code)
    same = [a.read_bytes() == b.read_bytes() for a, b in zip(files["local"], files["spark"], strict=True)]
    print(all(same), len(same))
"""
COUNTED = """
import pyarrow as pa
def counted(group, rows):
    return pa.table({"group": [group], "rows": [rows.num_rows]})
"""


@pytest.mark.skipif(not has_spark(), reason="needs Java and the extra spark: pip install 'confide[spark]'")
def test_a_cluster_gives_the_same_bytes_and_keeps_no_log_of_values(tmp_path: Path) -> None:
    """Two executors with Java machines of their own; what they write for the operator is looked at, too."""
    import pyspark

    parquet(tmp_path, pa.table({"part": [0, 1, 1, 4], "a": ["CANARY"] * 4}))
    (tmp_path / "cluster.py").write_text(CLUSTER)
    (tmp_path / "cluster_groups.py").write_text(COUNTED)
    home = tmp_path / "home"  # executors write below the home of Spark
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    command = [sys.executable, str(tmp_path / "cluster.py"), str(tmp_path)]
    settings = tmp_path / "conf" / "spark-defaults.conf"
    settings.parent.mkdir()
    settings.write_text(documented_settings("5ec2e7" * 10))
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(settings.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == ["unreadable", "True", "6"]
    assert pq.read_table(tmp_path / "sorted.parquet").column("part").to_pylist() == [4, 1, 1, 0]
    logs = [path.read_text() for path in (home / "work").rglob("std*")]
    assert any("Spark Executor Command" in log for log in logs)
    assert not any("CANARY" in log or " INFO " in log for log in logs)
