"""The noisy measurement file: everything that was planned, as it was used; and records made of nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits import own_strategy
from tests.kits.forged import rehash
from tests.kits.measurement_file import AREAS, LEVELS, again, table
from typer.testing import CliRunner

import confide
import confide.engines.protocol as groups
from confide import api
from confide.cli.main import app
from confide.confidential import Confidential
from confide.errors import ConfideError, RunError
from confide.mechanisms.topdown.from_below import planned_tree
from confide.mechanisms.topdown.measure import Children, LevelQuery, TrueCounts, measure, measure_fully
from confide.mechanisms.topdown.measurements.layout import FileLayout, level_folder, plain, query_layout, words_of
from confide.mechanisms.topdown.measurements.measured_tree import read_tree
from confide.mechanisms.topdown.released_problem import released_plan
from confide.mechanisms.topdown.strategy import groups_of, normal_name, resolve
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.noise import DiscreteGaussian, ReleaseKey, derive_stream
from confide.releases.folder import MANIFEST
from confide.releases.ledger import Ledger
from confide.releases.replay import compare
from confide.releases.run import RunResult

KEY = "3c" * 32
STATE = "90"
PERSONS = """
[release]
name = "measured"
mechanism = "topdown"
[data]
records = "persons.parquet"
blocks = "blocks.parquet"
[geography]
{levels}{areas}
[privacy]
ledger = "people.ledger"
budget = "{budget}"
[topdown]
strategy = "pl94-persons"
root = "{root}"
[output]
measurements = true
"""
CELL = "((CAST(hhgq AS BIGINT) * 2 + votingage) * 2 + hispanic) * 63 + cenrace"
STATE_BUDGET = "3212131612780/1929937650363"


def sql(text: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(text).fetchall()


@pytest.fixture(scope="module")
def few(people: Path) -> Path:
    return people


def lay_out(folder: Path, few: Path, text: str) -> Path:
    for name in ("persons.parquet", "blocks.parquet"):
        shutil.copy(few / name, folder / name)
    Ledger.open_new(
        folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=10**13
    )
    (folder / "spec.toml").write_text(text)
    return folder / "spec.toml"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, few: Path) -> RunResult:
    """A release with its measurements."""
    folder = tmp_path_factory.mktemp("measured")
    text = PERSONS.format(levels=LEVELS, areas=AREAS, budget=STATE_BUDGET, root="state")
    return api.run(lay_out(folder, few, text), insecure_key=KEY, processes=1)


def part(release: Path, level: str, kind: str) -> str:
    return f"read_parquet('{release}/measurements/{level_folder(level)}/{kind}/**/*.parquet')"


# --- what is written ---


def test_every_number_of_the_estimate_is_a_number_of_the_full_set() -> None:
    rng = np.random.default_rng(1)
    cells, units = 12, 7
    counts = rng.poisson(1.0, (units, cells))
    position, cell = np.nonzero(counts)
    truth = Confidential(TrueCounts(position, cell, counts[position, cell]))
    groups = {"total": np.zeros(cells, np.int64), "pairs": np.arange(cells) // 2, "detailed": np.arange(cells)}
    key = ReleaseKey.choose(KEY)
    asked = [
        LevelQuery(
            name,
            own,
            int(own.max()) + 1,
            derive_stream(key, records_fingerprint=b"r", plan_hash=b"p", mechanism="t", level="l", query=name),
            (DiscreteGaussian(9),),
        )
        for name, own in groups.items()
    ]
    of = Children(truth, np.arange(units) + 40, np.zeros(units, np.int64), np.array([1, 4, 5, 9]))
    full = measure_fully(asked, of)
    (lazy,) = measure(asked, [of])
    for query, everything in zip(lazy, full, strict=True):
        own = groups[query.name]
        used = np.unique(own[of.support])
        assert everything.shape == (units, int(own.max()) + 1)
        assert (query.measured == everything.T[used]).all()
    assert (full[2] != counts).any()


def test_the_columns_are_those_of_the_public_files(measured: RunResult) -> None:
    schema = pq.read_schema(next(measured.release.glob("measurements/County.parquet/DPQuery/*/*.parquet")))
    attributes = ["hhgq", "votingage", "hispanic", "cenrace"]
    assert schema.names == [
        *("geocode", "query_name"),
        *attributes,
        *("query_shape", "value", "variance", "sigma2", "plb"),
    ]
    assert schema.field("variance").type == pa.float32()
    assert schema.field("value").type == pa.list_(pa.int64())
    counties = part(measured.release, "county", "DPQuery")
    rows = sql(f"SELECT DISTINCT query_name, {', '.join(attributes)}, query_shape FROM {counties}")
    by_name = {name: rest for name, *rest in rows}
    assert by_name["total_dpq"] == ["*", "*", "*", "*", [1, 1, 1, 1]]
    assert by_name["hispanic * cenrace_dpq"] == ["*", "*", "hispanic", "cenrace", [1, 1, 2, 63]]
    assert by_name["hhinstlevels_dpq"] == ["hhinstlevels", "*", "*", "*", [3, 1, 1, 1]]
    assert by_name["detailed_dpq"] == ["detailed"] * 4 + [[8, 2, 2, 63]]
    assert len(by_name) == 11
    folders = (measured.release / "measurements/Block.parquet/DPQuery").iterdir()
    assert {folder.name for folder in folders} <= {f"State={flag}{STATE}" for flag in "01"}


def test_constraints_say_what_the_records_keep(measured: RunResult) -> None:
    root = sql(f"SELECT query_name, value, sign FROM {part(measured.release, 'state', 'Constraint')}")
    by_name = {name: (value, sign) for name, value, sign in root}
    assert by_name["total_con"] == ([12_000], "=")
    assert by_name["nurse_nva_0_con"] == ([0], "=")
    blocks = f"read_parquet('{measured.workspace.root.parent}/blocks.parquet')"
    ((units, *quarters),) = sql(
        f"SELECT sum(housing_units), {', '.join(f'sum(gq{k})' for k in range(1, 8))} FROM {blocks}"
    )
    assert by_name["hhgq_total_lb_con"] == ([0, *quarters], ">=")
    assert by_name["hhgq_total_ub_con"] == ([99_999 * n for n in (units, *quarters)], "<=")
    assert "total_con" not in {
        n for (n,) in sql(f"SELECT query_name FROM {part(measured.release, 'county', 'Constraint')}")
    }


def constrained_query(words: list[str], shape: list[int], values: list[int]) -> tuple[str, list[int]]:
    """What a program for the public files makes of an upper limit or a zero: the query whose name has the words that
    are not summed out, and those of its numbers that are zero. A word ``detailed`` is the query of that name."""
    kept = [word for word in words if word != "*"]
    name = "detailed" if "detailed" in kept else " * ".join(kept) or "total"
    assert len(values) == np.prod(shape)
    return name, [place for place, value in enumerate(values) if value == 0]


def test_a_program_for_the_public_files_takes_our_constraints_for_what_they_are(measured: RunResult) -> None:
    attributes = ", ".join(ATTRIBUTES)
    rows = sql(
        f"SELECT query_name, [{attributes}], query_shape, value FROM {part(measured.release, 'block', 'Constraint')} "
        "WHERE query_name IN ('hhgq_total_ub_con', 'nurse_nva_0_con')"
    )
    found = {}
    for name, words, shape, values in rows:
        found.setdefault(name, set()).add(constrained_query(words, shape, values)[0])
        if name == "hhgq_total_ub_con":
            assert len(values) == 8
    assert found == {"hhgq_total_ub_con": {"hhgq"}, "nurse_nva_0_con": {"gqNursingTotal * nonvoting"}}
    assert constrained_query(["detailed", "*", "*", "*"], [8, 1, 1, 1], [5, 0, 0, 0, 0, 0, 0, 0])[0] == "detailed"


def test_files_say_which_layout_they_have(measured: RunResult) -> None:
    for kind in ("DPQuery", "Constraint", "Unit"):
        file = next(measured.release.glob(f"measurements/Block.parquet/{kind}/**/*.parquet"))
        assert (pq.read_schema(file).metadata or {})[b"measurement_layout"] == b"2"
    question = json.loads((measured.release / "manifest.json").read_text())["plan"]["question"]
    assert question["measurements"] == {"layout": 2, "words": {"hhgq:residence": "hhinstlevels"}}


def test_the_noise_has_the_variance_that_stands_beside_it(measured: RunResult) -> None:
    rows = part(measured.release, "block", "DPQuery")
    truth = f"read_parquet('{measured.workspace.root.parent}/persons.parquet')"
    codes = f"SELECT geocode AS id, code FROM {part(measured.release, 'block', 'Unit')}"
    found = sql(
        f"WITH units AS ({codes}), "
        f"noisy AS (SELECT code, unnest(value) AS n, generate_subscripts(value, 1) - 1 AS cell, variance "
        f"FROM {rows} JOIN units ON geocode = id WHERE query_name = 'detailed_dpq'), "
        f"counted AS (SELECT geocode AS code, {CELL} AS cell, count(*) AS n FROM {truth} GROUP BY ALL) "
        "SELECT avg(power(noisy.n - coalesce(counted.n, 0), 2) / variance), avg((noisy.n - coalesce(counted.n, 0))), "
        "count(*) FROM noisy LEFT JOIN counted USING (code, cell)"
    )
    ((ratio, mean, number),) = found
    assert number > 100_000
    assert ratio == pytest.approx(1, abs=6 * (2 / number) ** 0.5)
    assert abs(mean) < 6 * (11 / number) ** 0.5


def test_units_without_a_share_are_units_but_not_measured(measured: RunResult) -> None:
    for level in ("tract", "block_group", "block"):
        planned = sum(m.units for m in measured.plan.measures if m.level == level and m.query == "detailed")
        rows = part(measured.release, level, "DPQuery")
        assert sql(f"SELECT count(DISTINCT geocode) FROM {rows}") == [(planned,)]
        units = sql(f"SELECT count(*) FROM {part(measured.release, level, 'Unit')}")
        assert units[0][0] > planned


def test_the_plan_binds_the_setting_and_costs_the_same(measured: RunResult, tmp_path: Path, few: Path) -> None:
    text = PERSONS.format(levels=LEVELS, areas=AREAS, budget=STATE_BUDGET, root="state")
    spec = lay_out(tmp_path, few, text.replace("measurements = true", "measurements = false"))
    other = api.check(spec, processes=1).plan
    assert other is not None
    assert other.hash != measured.plan.hash
    assert other.loss == measured.plan.loss
    assert [m.as_dict() for m in other.measures] == [m.as_dict() for m in measured.plan.measures]


def test_attributes_stand_in_the_order_of_the_schema_whatever_the_query_says() -> None:
    schema = load_strategy("pl94-persons").schema
    query = resolve(schema, "cenrace*hispanic")
    assert query.name == normal_name(schema, "cenrace*hispanic") == "hispanic*cenrace"
    assert query_layout(schema, query.name, query, FileLayout()).shape == (1, 1, 2, 63)
    assert plain("cenrace * hispanic_dpq") == "cenrace*hispanic"


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ("* REPLACE (variance * 2 AS variance)", "noise as planned"),
        ("* REPLACE ('3' AS sigma2)", "noise as planned"),
        ("* REPLACE (list_concat(value, [1::BIGINT]) AS value)", "whole numbers, shapes"),
        ("* REPLACE (list_transform(value, lambda x: x + 100000) AS value)", "near the records"),
        ("* REPLACE ('votingage_dpq' AS query_name)", "every query once"),
    ],
)
def test_verify_finds_measurements_that_are_not_the_plans(
    measured: RunResult, tmp_path: Path, change: str, check: str
) -> None:
    release = tmp_path / "release"
    shutil.copytree(measured.release, release)
    assert api.verify(release).ok
    (file,) = release.glob("measurements/State.parquet/DPQuery/*.parquet")
    sql(f"COPY (SELECT {change} FROM read_parquet('{file}')) TO '{tmp_path}/forged.parquet'")
    shutil.move(tmp_path / "forged.parquet", file)
    _seal_again(release)
    assert any(check in found.name for found in api.verify(release).checks if not found.ok)


def test_verify_finds_one_unit_that_has_another_shape(measured: RunResult, tmp_path: Path) -> None:
    """As many cells, and another number of groups of each attribute."""
    release = tmp_path / "release"
    shutil.copytree(measured.release, release)
    (file,) = release.glob("measurements/Tract.parquet/DPQuery/*/*.parquet")
    rows = f"read_parquet('{file}', hive_partitioning = false)"
    last = f"geocode = (SELECT max(geocode) FROM {rows})"
    other = f"CASE WHEN {last} THEN list_reverse(query_shape) ELSE query_shape END"
    sql(f"COPY (SELECT * REPLACE ({other} AS query_shape) FROM {rows}) TO '{tmp_path}/forged.parquet'")
    shutil.move(tmp_path / "forged.parquet", file)
    _seal_again(release)
    wrong = [check.name for check in api.verify(release).checks if not check.ok]
    assert "measurements of tract: whole numbers, shapes" in wrong


def _seal_again(release: Path) -> None:
    rehash(release)


# --- least squares on the whole tree, from the file ---


def test_least_squares_from_the_file_has_the_covariances_of_the_plan(measured: RunResult) -> None:
    """Read with the strategy, and as a bare folder in the public layout."""
    opened = released_plan(measured.release)
    planned = planned_tree(opened.strategy, opened.spine, opened.plan, opened.columns)
    tree = read_tree(measured.release / "measurements", words=words_of(opened.strategy))
    bare = read_tree(measured.release / "measurements")
    assert tree.names == bare.names == tuple(opened.spine.names)
    assert tree.constraints.used == ("hhgq_total_ub_con", "nurse_nva_0_con", "total_con")
    counts = [
        tree.sectors.count(levels)
        for levels in ({}, {1: np.array([0, 1])}, {0: np.eye(8)[3], 3: np.eye(63)[0]}, {2: np.eye(2)[1]})
    ]
    for position, (one, other) in enumerate(zip(planned.position, tree.position, strict=True)):
        expected = planned.covariances.variances(one, counts)
        for found in (tree, bare):
            assert np.abs(found.covariances.variances(other, counts) - expected).max() < 1e-8
        cells = tree.estimates.histogram(position)
        assert np.abs(bare.estimates.histogram(position) - cells).max() < 1e-9
    assert tree.estimates.histogram(0).sum() == pytest.approx(12_000)
    assert tree.fit().worst is None


# --- what is made of it ---


def test_records_from_measurements_are_the_records_of_the_release(
    measured: RunResult, tmp_path: Path, few: Path
) -> None:
    result = api.run(again(tmp_path, measured, blocks=few / "blocks.parquet"), processes=1)
    for file in sorted((measured.release / "tables").glob("*.csv")):
        assert (result.release / "tables" / file.name).read_bytes() == file.read_bytes(), file.name
    assert result.account is None
    assert not (tmp_path / "again" / "confidential" / "key").exists()
    verified = api.verify(result.release)
    assert verified.ok, verified.findings
    manifest = json.loads((result.release / MANIFEST).read_text())
    assert manifest["privacy"]["loss"] == {"definition": "zcdp", "rho": "0"}
    assert manifest["source"]["release"] == "measured"
    assert manifest["source"]["plan_hash"] == measured.plan.hash
    assert manifest["stamp"] == "NOT FOR RELEASE"
    page = (result.release / "certificate.html").read_text()
    assert "no promise of its own" in page
    assert manifest["source"]["sha256"] in page


def test_without_a_block_table_the_ids_are_enough(measured: RunResult, tmp_path: Path) -> None:
    spec = again(tmp_path, measured)
    checked = api.check(spec, processes=1)
    assert checked.findings == ()
    assert checked.cost == (0, 0)
    result = api.run(spec, processes=1)
    for name in ("records", "mdf"):
        assert table(result.release, name) == table(measured.release, name)
    assert api.verify(result.release).ok
    assert api.run(spec, processes=1).was_sealed_before


def test_the_command_line_charges_nobody(measured: RunResult, tmp_path: Path) -> None:
    spec = str(again(tmp_path, measured))
    runner = CliRunner()
    shown = runner.invoke(app, ["check", spec])
    assert shown.exit_code == 0
    assert "rho = 0" in shown.output
    made = json.loads(runner.invoke(app, ["run", spec, "--json", "--processes", "1"]).stdout)
    assert (made["ok"], made["left"], made["cost"]["rho"]) == (True, None, "0")
    assert runner.invoke(app, ["run", spec]).exit_code == 0
    verified = runner.invoke(app, ["verify", made["release"], "--json"])
    assert json.loads(verified.stdout)["ok"]


class StopHere(Exception):  # noqa: N818
    """Stands for a power cut."""


def stop_after(patch: pytest.MonkeyPatch, groups_done: int) -> None:
    """A power cut in the middle of a map over groups."""
    original, left = groups._map_one, [groups_done]

    def interrupted(*arguments: Any) -> None:
        if not left[0]:
            raise StopHere
        left[0] -= 1
        original(*arguments)

    patch.setattr(groups, "_map_one", interrupted)


def test_stopped_anywhere_it_goes_on_to_the_same_bytes(
    measured: RunResult, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("confide.mechanisms.topdown.descent.CHILDREN_PER_GROUP", 30)
    calm, cut = tmp_path_factory.mktemp("calm"), tmp_path_factory.mktemp("cut")
    expected = api.run(again(calm, measured), processes=1).release
    spec = again(cut, measured)
    for groups_done in (0, 2, 3, 2):
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, groups_done)
            with pytest.raises(StopHere):
                api.run(spec, processes=1)
    assert compare(expected, api.run(spec, processes=1).release).ok


def test_stopped_while_everything_is_measured_it_goes_on_to_the_same_bytes(
    measured: RunResult, tmp_path: Path, few: Path
) -> None:
    text = PERSONS.format(levels=LEVELS, areas=AREAS, budget=STATE_BUDGET, root="state")
    spec = lay_out(tmp_path, few, text)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 6)  # the descent is a group for each of four levels here
        with pytest.raises(StopHere):
            api.run(spec, insecure_key=KEY, processes=1)
    assert (tmp_path / "measured/confidential/measured/all-measurements/county/00000000.parquet").exists()
    assert compare(measured.release, api.run(spec, insecure_key=KEY, processes=1).release).ok


@pytest.mark.process
@pytest.mark.slow
def test_a_plain_spine_too(tmp_path: Path, few: Path) -> None:
    text = PERSONS.format(levels=LEVELS, areas=AREAS, budget=STATE_BUDGET, root="state")
    text = text.replace('root = "state"', 'root = "state"\nspine = "plain"')
    first = api.run(lay_out(tmp_path, few, text), insecure_key=KEY, processes=1)
    second = api.run(again(tmp_path, first), processes=2)
    assert table(second.release, "records") == table(first.release, "records")


@pytest.mark.slow
def test_a_nation_in_parts_keeps_its_states(tmp_path: Path, few: Path) -> None:
    """Two states with AIAN parts: totals are known of both parts of a state together."""
    text = PERSONS.format(
        levels=LEVELS.replace("levels = [", 'levels = [ { name = "us", digits = 0 },'),
        areas=AREAS,
        budget="293764/114921",
        root="us",
    )
    spec = lay_out(tmp_path, few, text)
    moved, area = "'91' || geocode[3:]", "CASE WHEN hash(geocode) % 4 = 0 THEN '0100' ELSE '9999' END"
    for name, changed, some in (
        ("persons", "", "WHERE hash(household_id) % 3 > 0"),
        ("blocks", f", {area} AS aiannh", ""),
    ):
        rows = f"read_parquet('{few}/{name}.parquet')"
        one = f"SELECT * REPLACE (geocode AS geocode{changed}) FROM {rows}"
        other = f"SELECT * REPLACE ({moved} AS geocode{changed}) FROM {rows} {some}"
        sql(f"COPY ({one} UNION ALL {other}) TO '{tmp_path}/{name}.parquet'")
    first = api.run(spec, insecure_key=KEY, processes=1)
    known = sql(
        f"SELECT geocode, value FROM {part(first.release, 'state', 'Constraint')} WHERE query_name = 'total_con'"
    )
    counted = sql(f"SELECT geocode[:2], count(*) FROM read_parquet('{tmp_path}/persons.parquet') GROUP BY 1 ORDER BY 1")
    assert sorted(known) == [(f"0{code}+1{code}", [n]) for code, n in counted]
    folders = {p.name for p in (first.release / "measurements/County.parquet/DPQuery").iterdir()}
    assert folders == {f"State={flag}{code}" for flag in "01" for code, _ in counted}
    levels = LEVELS.replace("levels = [", 'levels = [ { name = "us", digits = 0 },')
    second = api.run(again(tmp_path, first, root="us", levels=levels), processes=1)
    assert table(second.release, "records") == table(first.release, "records")
    assert api.verify(first.release).ok


def test_units_too(tmp_path: Path, few: Path) -> None:
    counted = (
        'records = "blocks.parquet"\nblocks = "blocks.parquet"\ncounted = [\n'
        '  { where = { h1 = 1 }, column = "occupied_units" },\n'
        '  { where = { h1 = 0 }, column = "housing_units", less = "occupied_units" },\n]\n'
    )
    text = PERSONS.format(levels=LEVELS, areas=AREAS, budget="1/20", root="state")
    text = text.replace('records = "persons.parquet"\nblocks = "blocks.parquet"\n', counted)
    first = api.run(lay_out(tmp_path, few, text.replace("pl94-persons", "pl94-units")), insecure_key=KEY, processes=1)
    assert api.verify(first.release).ok
    second = api.run(again(tmp_path, first, strategy="pl94-units"), processes=1)
    for name in ("records", "mdf"):
        assert table(second.release, name) == table(first.release, name)


# --- measurements that are not ours ---

QUERIES = {
    "cenrace": "cenrace",
    "hispanic": "hispanic",
    "votingage": "votingage",
    "hhgq:residence": "hhinstlevels",
    "hhgq": "hhgq",
    "hispanic*cenrace": "hispanic * cenrace",
    "votingage*cenrace": "votingage * cenrace",
    "votingage*hispanic": "votingage * hispanic",
    "votingage*hispanic*cenrace": "votingage * hispanic * cenrace",
    "detailed": "detailed",
}
ATTRIBUTES = ("hhgq", "votingage", "hispanic", "cenrace")
IDS = {
    "State": ("044", "050"),
    "County": ("044100011", "050100031"),
    "Tract": ("0441000110001", "0501000310001"),
    "Block_Group": ("044100011000101", "044100011000102", "050100031000101"),
}
BLOCKS = (
    ("044100011000101", "4400101010011001"),
    ("044100011000101", "4400101010011002"),
    ("044100011000102", "4400101010022001"),
    ("044100011000102", "4400101010022002"),
    ("050100031000101", "5000302010033001"),
    ("050100031000101", "5000302010033002"),
    ("050100031000101", "5000302010033003"),
)


def public_file(folder: Path, noise: float) -> np.ndarray[Any, Any]:
    """A measurement file as the Census Bureau lays it out, made by hand: two states with one county of one tract each.
    Counties and tracts are only children and are not measured. Returns the histograms of the blocks."""
    rng = np.random.default_rng(44)
    schema = load_strategy("pl94-persons").schema
    truth = np.zeros((len(BLOCKS), 2016), np.int64)
    for block in range(len(BLOCKS)):
        np.add.at(truth[block], rng.choice(252, 30), 1)
    truth[2, 3 * 252 + 126 : 3 * 252 + 130] = 2
    facilities = np.zeros((len(BLOCKS), 8), np.int64)
    facilities[:, 0] = 12
    facilities[2, 3] = 1
    blocks = [above + code for above, code in BLOCKS]
    levels = {"US": ("0",), **IDS, "Block": tuple(blocks)}
    for level, ids in levels.items():
        measured, constraints = [], []
        for id_ in ids:
            inside = [level == "US" or block.startswith(id_) for block in blocks]
            count, units = truth[inside].sum(axis=0), facilities[inside].sum(axis=0)
            queries = QUERIES if level == "US" else {"total": "total", **QUERIES}
            for name, public in queries.items() if level not in ("County", "Tract") else ():
                query = resolve(schema, name)
                values = np.bincount(groups_of(schema, query), count, query.cells)
                values = np.rint(values + noise * rng.standard_normal(query.cells)).astype(int)
                used = {variable.attribute.name: variable.size for variable in query.variables}
                measured.append(
                    {"geocode": id_, "query_name": f"{public}_dpq"}
                    | {a: "detailed" if a in used else "*" for a in ATTRIBUTES}
                    | {"query_shape": [used.get(a, 1) for a in ATTRIBUTES], "value": values.tolist()}
                    | {"variance": np.float32(max(noise**2, 1e-3)), "plb": "0.1"}
                )
            rows = {
                "hhgq_total_lb_con": ([0, *units[1:].tolist()], ">="),
                "hhgq_total_ub_con": ((99_999 * units).tolist(), "<="),
                "nurse_nva_0_con": ([0], "="),
            }
            if level == "US":
                rows["total_con"] = ([int(count.sum())], "=")
            constraints += [
                {"geocode": id_, "query_name": name, "value": value, "sign": sign}
                for name, (value, sign) in rows.items()
            ]
        for kind, listed in (("DPQuery", measured), ("Constraint", constraints)):
            for state in sorted({row["geocode"][:3] for row in listed}):
                place = folder / f"{level}.parquet" / kind / ("" if level == "US" else f"State={state}")
                place.mkdir(parents=True)
                rows_ = [row for row in listed if row["geocode"][:3] == state]
                pq.write_table(pa.Table.from_pylist(rows_), place / f"part-00000-{state}.snappy.parquet")
    return truth


PUBLIC = """
[release]
name = "public"
mechanism = "postprocess"
[data]
measurements = "nmf"
{totals}
[geography]
levels = [
  {{ name = "us", digits = 0 }}, {{ name = "state", digits = 2 }}, {{ name = "county", digits = 5 }},
  {{ name = "tract", digits = 11 }}, {{ name = "block_group", digits = 12 }},
]
[topdown]
strategy = "pl94-persons"
root = "us"
"""
TOTALS = '[data.totals]\n"44" = 128\n"50" = 90'


def records_of(release: Path) -> np.ndarray[Any, Any]:
    rows = f"read_parquet('{next((release / 'tables').glob('records*.parquet'))}')"
    found = np.zeros((len(BLOCKS), 2016), np.int64)
    codes = sorted(code[:11] + code[12:] for _, code in BLOCKS)
    for code, number, n in sql(f"SELECT geocode, {CELL}, count(*) FROM {rows} GROUP BY ALL"):
        found[codes.index(code), number] = n
    return found


def test_a_public_file_without_noise_gives_the_counts_it_was_made_from(tmp_path: Path) -> None:
    truth = public_file(tmp_path / "nmf", noise=0)
    (tmp_path / "public.toml").write_text(PUBLIC.format(totals=TOTALS))
    result = api.run(tmp_path / "public.toml", processes=1)
    assert (records_of(result.release) == truth).all()
    verified = api.verify(result.release)
    assert verified.ok, verified.findings
    assert verified.stamp is None


def test_a_public_file_with_noise_keeps_its_constraints(tmp_path: Path) -> None:
    truth = public_file(tmp_path / "nmf", noise=2.0)
    (tmp_path / "public.toml").write_text(PUBLIC.format(totals=TOTALS))
    found = records_of(api.run(tmp_path / "public.toml", processes=1).release)
    assert (found != truth).any()
    assert [found[:4].sum(), found[4:].sum()] == [128, 90]
    quarters = found.reshape(len(BLOCKS), 8, -1).sum(axis=2)
    assert (quarters[:, 1:] > 0).sum() == 1
    assert quarters[2, 3] >= 1
    assert found[:, 3 * 252 : 3 * 252 + 126].sum() == 0


def test_totals_that_nobody_tells_are_missed_by_name(tmp_path: Path) -> None:
    public_file(tmp_path / "nmf", noise=0)
    (tmp_path / "public.toml").write_text(PUBLIC.format(totals=""))
    checked = api.check(tmp_path / "public.toml", processes=1)
    assert [(found.code, found.severity) for found in checked.findings] == [("totals-not-known", "warning")]
    (tmp_path / "public.toml").write_text(PUBLIC.format(totals='[data.totals]\n"44" = 128'))
    checked = api.check(tmp_path / "public.toml", processes=1)
    assert [found.code for found in checked.errors] == ["no-total"]
    assert "'50'" in str(checked.errors[0])


def _rewrite(file: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    rows = [changed for row in pq.read_table(file, partitioning=None).to_pylist() if (changed := change(row))]
    pq.write_table(pa.Table.from_pylist(rows), file)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda row: row | {"value": [n + 0.5 for n in row["value"]]}, "whole numbers"),
        (lambda row: row | {"value": row["value"][:-1]}, "whole numbers"),
        (lambda row: row | {"query_shape": [2, 2, 2, 63]}, "another shape"),
        (lambda row: row | {"variance": 0.0}, "not a positive number"),
        (lambda row: None if row["query_name"] == "hhgq_dpq" else row, "missing or duplicated"),
        (lambda row: row | {"query_name": row["query_name"].replace("hhgq", "gq")}, "missing or duplicated"),
    ],
)
def test_measurements_that_cannot_be_are_refused_in_words(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None], expected: str
) -> None:
    public_file(tmp_path / "nmf", noise=1.0)
    (tmp_path / "public.toml").write_text(PUBLIC.format(totals=TOTALS))
    _rewrite(next((tmp_path / "nmf/Block.parquet/DPQuery/State=044").iterdir()), change)
    checked = api.check(tmp_path / "public.toml", processes=1)
    assert any(expected in str(found) for found in checked.errors), checked.findings
    with pytest.raises(ConfideError):
        api.run(tmp_path / "public.toml", processes=1)
    assert not (tmp_path / "public" / "release").exists()


def test_a_level_that_is_not_there_and_constraints_of_another_frame_are_refused(tmp_path: Path) -> None:
    public_file(tmp_path / "nmf", noise=1.0)
    (tmp_path / "public.toml").write_text(PUBLIC.format(totals=TOTALS))
    file = next((tmp_path / "nmf/Block.parquet/Constraint/State=044").iterdir())
    double = {"hhgq_total_lb_con": 2}
    _rewrite(file, lambda row: row | {"value": [n * double.get(row["query_name"], 1) for n in row["value"]]})
    assert "not what the strategy makes of the frame" in str(api.check(tmp_path / "public.toml").errors[0])
    for kind in ("DPQuery", "Constraint"):
        file = next((tmp_path / f"nmf/Block_Group.parquet/{kind}/State=044").iterdir())
        _rewrite(file, lambda row: None if row["geocode"].endswith("02") else row)
    assert "2 units have no parent" in str(api.check(tmp_path / "public.toml").errors[0])
    shutil.rmtree(tmp_path / "nmf/Tract.parquet")
    assert [found.code for found in api.check(tmp_path / "public.toml").errors] == ["no-level"]


def test_two_bounds_of_one_side_are_taken_from_the_block_table(tmp_path: Path) -> None:
    """The file has the tighter of both, block by block, which tells neither count."""
    people = [[4, 1], [2, 5], [7, 0], [1, 3]]
    columns = {"homes": [3, 9, 4, 1], "beds": [40, 8, 90, 30]}
    bounds = own_strategy.bound("homes", "upper", 3, {0: "homes"}) + own_strategy.bound("beds", "upper", 1, {0: "beds"})
    spec = own_strategy.lay_out(tmp_path, people, columns, bounds, budget="1")
    spec.write_text(spec.read_text() + "[output]\nmeasurements = true\n")
    first = own_strategy.seal(spec)
    made_again = tmp_path / "again.toml"
    made_again.write_text(f"""
[release]
name = "again"
mechanism = "postprocess"
[data]
measurements = {json.dumps(str(first / "measurements"))}
blocks = "blocks.parquet"
[geography]
levels = [{{ name = "state", digits = 1 }}, {{ name = "county", digits = 2 }}]
[topdown]
strategy = "own.toml"
""")
    second = confide.run(made_again, processes=1).release
    assert own_strategy.released_by_block(second) == own_strategy.released_by_block(first)
    made_again.write_text(made_again.read_text().replace('blocks = "blocks.parquet"\n', ""))
    (finding,) = [one for one in confide.check(made_again, processes=1).findings if one.severity == "error"]
    assert (finding.code, finding.found) == ("no-constraints", "none for homes, beds")


def test_what_needs_truth_or_a_key_is_refused(measured: RunResult, tmp_path: Path) -> None:
    spec = again(tmp_path, measured)
    with pytest.raises(RunError, match="draws no noise"):
        api.run(spec, insecure_key=KEY)
    for verb in (api.evaluate, api.replay, api.destroy_key):
        with pytest.raises(RunError, match="no truth and no key"):
            verb(spec)  # type: ignore[operator]
    text = spec.read_text() + "[output]\nmeasurements = true\n"
    spec.write_text(text)
    with pytest.raises(ConfideError, match="there already"):
        api.check(spec)


def test_an_estimated_number_of_records_may_be_far_from_measured_sums(tmp_path: Path) -> None:
    """No count is negative: where noise is far larger than counts, and cells alone are measured, the sum of many
    estimates is far above the measured one, and the release is right all the same."""
    spec = own_strategy.lay_out(tmp_path, [[1] + [0] * 199] * 2, {}, "", budget="1/1000000")
    strategy = tmp_path / "own.toml"
    root, below = strategy.read_text().split("[estimation.below]")
    cells_alone = {
        '"total"    = ["1/2"': '"total"    = ["-"',
        '"detailed" = ["1/2"': '"detailed" = ["1"',
        '"total", ': "",
    }
    for both, alone in cells_alone.items():
        assert root.count(both) == 1
        root = root.replace(both, alone)
    strategy.write_text(f"{root}[estimation.below]{below}")
    spec.write_text(spec.read_text() + "[output]\nmeasurements = true\n")
    release = own_strategy.seal(spec)
    assert not [check for check in confide.verify(release).checks if "near the records" in check.name]


def test_a_damaged_file_of_any_kind_is_a_finding(measured: RunResult, tmp_path: Path) -> None:
    """Also one that no figure is taken from."""
    for number, file in enumerate(sorted((measured.release / "measurements").glob("*/*/*.parquet"))):
        folder = tmp_path / str(number)
        shutil.copytree(measured.release / "measurements", folder)
        (folder / file.relative_to(measured.release / "measurements")).write_bytes(b"no Parquet")
        spec = again(tmp_path, measured, measurements=str(folder))
        with pytest.raises(ConfideError) as refusal:
            api.check(spec, processes=1).ready()
        assert [finding.code for finding in refusal.value.findings] == ["measurements"], file.parent
