"""The mechanism ``tables``: what it measures, what it costs, what it publishes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.small import KEY
from tests.kits.times import mostly_slow

import confide
from confide import api
from confide.engines import LocalEngine
from confide.errors import RunError
from confide.mechanisms.tables import Tables
from confide.mechanisms.tables import mechanism as measuring
from confide.mechanisms.tables.programme import TablesProblem
from confide.noise import DiscreteGaussian, NoiseStream, TwoSidedGeometric
from confide.privacy import ZCDP, Definition, Neighbours, PureDP, calibrate
from confide.releases.plan import Plan, PlannedMeasurement, loss_by_move


def prepared(folder: Path, spec: str = "spec.toml") -> tuple[TablesProblem, Plan]:
    loaded = api.load(folder / spec)
    with LocalEngine(folder / "scratch", processes=1) as engine:
        programme = api.MECHANISMS["tables"].prepare(loaded, engine)
    return programme, api.MECHANISMS["tables"].plan(programme)


def sql(text: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(text).fetchall()


def edit(folder: Path, *changes: tuple[str, str]) -> None:
    text = (folder / "spec.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "spec.toml").write_text(text)


def test_the_plan_costs_exactly_the_budget(project: Path) -> None:
    _, plan = prepared(project)
    assert plan.loss == ZCDP("1/2")
    assert sum(measure.loss.rho for measure in plan.measures) == Fraction(1, 2)


def test_shares_follow_tables_then_levels_then_margins(project: Path) -> None:
    _, plan = prepared(project)
    # Two thirds of the budget for the first table, a third of it for each level, a quarter for each of four margins.
    share = Fraction(1, 2) * Fraction(2, 3) * Fraction(1, 3) * Fraction(1, 4)
    measure = plan.measure("tract", "age-by-sex/sex*age:broad")
    assert measure.loss == ZCDP(share)
    assert measure.law == DiscreteGaussian(1 / share)
    assert (measure.cells, measure.attributes) == (6, ("sex", "age"))


@pytest.mark.parametrize(("neighbours", "factor"), [("change-one", 2), ("add-remove", 1)])
def test_pure_noise_has_the_scale_of_its_sensitivity(project: Path, neighbours: str, factor: int) -> None:
    edit(project, ('budget = "1/2"', f'budget = "1/2"\ndefinition = "pure"\nneighbours = "{neighbours}"'))
    _, plan = prepared(project)
    assert plan.loss == PureDP("1/2")
    measure = plan.measure("county", "sex/sex")
    assert measure.law == TwoSidedGeometric(measure.loss.epsilon / factor)


def test_level_weights_move_the_budget(project: Path) -> None:
    edit(project, ('budget = "1/2"', 'budget = "1/2"\n\n[programme]\nlevel_weights = { tract = 8 }'))
    _, plan = prepared(project)
    tract, state = (plan.measure(level, "age-by-sex/sex").loss.rho for level in ("tract", "state"))
    assert tract == 8 * state
    assert plan.loss == ZCDP("1/2")


def test_level_weights_of_a_table_win_over_those_of_the_programme(project: Path) -> None:
    edit(
        project,
        ('budget = "1/2"', 'budget = "1/2"\n\n[programme]\nlevel_weights = { tract = 8, place = 3, block = 5 }'),
        ('name = "age-by-sex"', 'name = "age-by-sex"\nlevel_weights = { tract = "1/2" }'),
    )
    _, plan = prepared(project)
    state, place, tract = (plan.measure(level, "age-by-sex/sex").loss.rho for level in ("state", "place", "tract"))
    assert (tract, place) == (state / 2, 3 * state)
    assert plan.measure("block", "sex/sex").loss.rho == 5 * plan.measure("county", "sex/sex").loss.rho
    assert plan.loss == ZCDP("1/2")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('variables = ["sex"]', 'variables = ["votingage"]'),
        ('budget = "1/2"', 'budget = "1/3"'),
        ('schema = "persons"', 'schema = "persons"\ncolumns = { sex = "votingage" }'),
        ('schema = "persons"', 'schema = "mine.toml"'),
        ('none = "99999"', 'none = "00000"'),
    ],
)
def test_another_question_has_another_hash(project: Path, old: str, new: str) -> None:
    """Whatever decides the counts is bound into the noise: the same noise never meets a changed question."""
    from confide.documents import FOLDER

    text = (FOLDER / "schemas" / "persons.toml").read_text()
    # The same labels for other groups: only the membership changes.
    groups = 'groups = { "0 to 17" = "0..16", "18 to 64" = "17..64", "65 and over" = "65..115" }'
    (project / "mine.toml").write_text(text.replace("starts = [0, 18, 65]", groups))
    _, before = prepared(project)
    edit(project, (old, new))
    _, after = prepared(project)
    assert before.hash != after.hash
    assert before.measured_hash != after.measured_hash, "it is no matter of what is made of the measurements"


def test_both_files_may_call_a_column_otherwise(project: Path) -> None:
    for file, name in (("persons", "GEOID"), ("blocks", "BLK")):
        table = pq.read_table(project / f"{file}.parquet")
        pq.write_table(table.rename_columns({"geocode": name}), project / f"{file}.parquet")
    columns = 'schema = "persons"\ncolumns = { geocode = "GEOID" }\nblock_columns = { geocode = "BLK" }'
    edit(project, ('schema = "persons"', columns))
    assert confide.check(project / "spec.toml").findings == ()


def test_pooled_tables_measure_a_shared_margin_once(project: Path) -> None:
    text = (project / "spec.toml").read_text()
    pooled = text.replace('levels = ["county", "block"]', 'levels = ["tract"]').replace(
        "[[tables]]", '[programme]\nrepeated = "pooled"\n\n[[tables]]', 1
    )
    (project / "spec.toml").write_text(pooled)
    _, plan = prepared(project)
    keys = [(measure.level, measure.query) for measure in plan.measures]
    assert len(keys) == len(set(keys)) == 4 * 3
    assert plan.loss == ZCDP("1/2")
    own, other = Fraction(1, 2) * Fraction(2, 9) / 4, Fraction(1, 2) * Fraction(1, 3) / 2
    assert plan.measure("tract", "sex").loss == ZCDP(own + other)
    result = confide.run(project / "spec.toml", insecure_key=KEY)
    first = counts(result.release, "age-by-sex", "level = 'tract' AND \"age:broad\" = '_T'")
    second = counts(result.release, "sex", "level = 'tract'")
    assert first == second


def counts(release: Path, table: str, where: str) -> dict[tuple[str, str], int]:
    file = next((release / "tables").glob(f"{table}.*parquet"))
    rows = sql(f"SELECT area, sex, count FROM read_parquet('{file}') WHERE {where}")
    return {(area, sex): count for area, sex, count in rows}


def test_independent_tables_measure_a_shared_margin_twice(project: Path) -> None:
    edit(project, ('levels = ["county", "block"]', 'levels = ["tract"]'))
    result = confide.run(project / "spec.toml", insecure_key=KEY)
    first = counts(result.release, "age-by-sex", "level = 'tract' AND \"age:broad\" = '_T'")
    second = counts(result.release, "sex", "level = 'tract'")
    assert first.keys() == second.keys()
    assert first != second


class NoNoise:
    """Stands in for the noise, to see the truth through the whole pipeline."""

    def __call__(self, values: np.ndarray, law: object, stream: object, start: int) -> np.ndarray:
        return values


def test_without_noise_every_published_count_is_the_true_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "perturb", NoNoise())
    result = confide.run(project / "spec.toml", insecure_key=KEY, processes=1)
    persons, blocks = project / "persons.parquet", project / "blocks.parquet"
    table = next((result.release / "tables").glob("age-by-sex.*parquet"))
    wrong = sql(f"""
        WITH people AS (
            SELECT p.geocode[:2] AS state, p.geocode[:11] AS tract, nullif(b.place, '99999') AS place,
                   CASE WHEN sex = 1 THEN 'male' ELSE 'female' END AS sex,
                   CASE WHEN age < 18 THEN '0 to 17' WHEN age < 65 THEN '18 to 64' ELSE '65 and over' END AS age
            FROM read_parquet('{persons}') p JOIN read_parquet('{blocks}') b USING (geocode)),
        placed AS (
            SELECT 'state' AS level, state AS area, sex, age FROM people UNION ALL
            SELECT 'tract', tract, sex, age FROM people UNION ALL
            SELECT 'place', place, sex, age FROM people WHERE place IS NOT NULL),
        truth AS (
            SELECT level, area, coalesce(sex, '_T') AS sex, coalesce(age, '_T') AS age, count(*) AS n
            FROM placed GROUP BY level, area, CUBE (sex, age)),
        released AS (
            SELECT level, area, sex_label AS sex, "age:broad_label" AS age, count FROM read_parquet('{table}'))
        SELECT count(*) FROM released FULL JOIN truth USING (level, area, sex, age)
        WHERE coalesce(released.count, 0) <> coalesce(truth.n, 0) OR released.count IS NULL
    """)
    assert wrong == [(0,)]


def test_every_unit_of_the_frame_is_published_whoever_lives_there(project: Path) -> None:
    result = confide.run(project / "spec.toml", insecure_key=KEY)
    table = pq.read_table(next((result.release / "tables").glob("sex.*parquet")))
    blocks = pq.read_table(project / "blocks.parquet").column("geocode").to_pylist()
    published = [row["area"] for row in table.to_pylist() if row["level"] == "block" and row["sex"] == "_T"]
    assert published == sorted(blocks)


def test_neighbouring_records_ask_the_same_question(project: Path) -> None:
    """Record and replay: for data that differ in one record, everything but the numbers is the same."""
    seen = []

    def spy(values: np.ndarray, law: object, stream: NoiseStream, start: int) -> np.ndarray:
        seen.append((values.shape, repr(law), start))
        return values

    outcomes = []
    persons = pq.read_table(project / "persons.parquet")
    neighbours = [
        persons,
        persons.slice(1),
        pa.concat_tables([persons, persons.slice(0, 1)]),
        persons.set_column(persons.column_names.index("sex"), "sex", pa.array([2] * len(persons), pa.int8())),
    ]
    for number, table in enumerate(neighbours):
        pq.write_table(table, project / "persons.parquet")
        edit(project, ('name = "small"' if number == 0 else f'name = "small{number - 1}"', f'name = "small{number}"'))
        seen.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measuring, "perturb", spy)
            result = (
                api.run(project / "spec.toml", insecure_key=KEY, processes=1) if number == 0 else _replayed(project)
            )
        programme, plan = prepared(project)
        outcomes.append((list(seen), plan.hash, [t.rows_per_unit for t in programme.tables], _shape(result)))
    assert all(outcome == outcomes[0] for outcome in outcomes[1:])
    assert len(outcomes[0][0]) > 10


def _replayed(project: Path) -> object:
    """A run on a ledger of its own, so that the budget does not end the comparison."""
    from confide.releases.ledger import Ledger

    (project / "people.ledger").unlink()
    Ledger.open_new(project / "people.ledger", data_set="p", definition="zcdp", neighbours="change-one", budget=1)
    return api.run(project / "spec.toml", insecure_key=KEY, processes=1)


def _shape(result: object) -> list[tuple[str, int, list[str]]]:
    shapes = []
    for file in sorted((result.release / "tables").glob("*.parquet")):  # type: ignore[attr-defined]
        table = pq.read_table(file).drop_columns(["count"])
        shapes.append((file.name, table.num_rows, [str(table.column(name).to_pylist()) for name in table.column_names]))
    return shapes


@pytest.mark.parametrize("definition", mostly_slow(["zcdp", "pure"], 1))
@pytest.mark.statistical
def test_the_noise_of_every_query_has_the_planned_variance(project: Path, definition: str) -> None:
    """1,000 keys; a variance ratio outside 0.8 to 1.25 has a probability below 1e-5 for the heaviest tail here."""
    from confide.noise import ReleaseKey, add_noise
    from confide.releases.mechanism import NoiseSource

    edit(project, ('budget = "1/2"', f'budget = "1/2"\ndefinition = "{definition}"'))
    _, plan = prepared(project)
    for measure in plan.measures:
        squares = 0
        for number in range(1_000):
            key = ReleaseKey(number.to_bytes(32, "big"), chosen=True)
            values = np.zeros(4, np.int64)
            stream = NoiseSource(key, "00" * 32, plan.hash, "tables").stream(measure.level, measure.query)
            add_noise(values, measure.law, stream, start=3)
            squares += int((values**2).sum())
        ratio = squares / 4_000 / measure.law.variance()
        assert 0.8 < ratio < 1.25


def test_neighbours_of_the_plan_are_priced_by_those_of_the_ledger(project: Path) -> None:
    """Noise made for add-remove costs twice as much on a ledger that counts changed records."""
    edit(project, ('budget = "1/2"', 'budget = "1/4"\nneighbours = "add-remove"'))
    checked = confide.check(project / "spec.toml")
    assert checked.plan is not None
    assert checked.plan.neighbours is Neighbours.ADD_REMOVE
    assert checked.plan.loss == ZCDP("1/4")
    assert checked.cost == (Fraction(1, 2), 0)


def test_a_csv_gives_the_same_release_as_a_parquet_of_the_same_rows(project: Path) -> None:
    """The fingerprint differs, so the noise does; without noise the counts are the same."""
    sql(f"COPY (FROM read_parquet('{project}/persons.parquet')) TO '{project}/persons.csv' (HEADER, DELIMITER ';')")
    sql(f"COPY (FROM read_parquet('{project}/blocks.parquet')) TO '{project}/blocks.csv' (HEADER, DELIMITER ';')")
    tables = []
    for name in ("parquet", "csv"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measuring, "perturb", NoNoise())
            if name == "csv":
                edit(
                    project,
                    ('name = "small"', 'name = "from-csv"'),
                    ('records = "persons.parquet"', 'records = "persons.csv"\ndelimiter = ";"'),
                    ('blocks = "blocks.parquet"', 'blocks = "blocks.csv"'),
                )
            result = confide.run(project / "spec.toml", insecure_key=KEY, processes=1, accept_ledger=name == "csv")
        tables.append(
            [pq.read_table(file).to_pylist() for file in sorted((result.release / "tables").glob("*.parquet"))]
        )
    assert tables[0] == tables[1]


def test_a_run_that_would_not_measure_what_was_paid_for_draws_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A programme that asks under other names than its plan: a mistake of ours, planted."""
    plan = Tables.plan
    drawn = []

    def one_short(self: Tables, question: TablesProblem) -> Plan:
        whole = plan(self, question)
        return replace(whole, measures=whole.measures[1:])

    monkeypatch.setattr(Tables, "plan", one_short)
    monkeypatch.setattr(measuring, "perturb", lambda *arguments, **named: drawn.append(arguments))
    with pytest.raises(RunError, match="not measure what was planned"):
        confide.run(project / "spec.toml", insecure_key=KEY, processes=1)
    assert drawn == []
    assert not (project / "small/release").exists()


def test_the_loss_of_a_move_is_that_of_the_levels_below_and_of_all_areas() -> None:
    """Who moves within a county is counted in the same county and nation, and perhaps in another place: places do not
    nest in counties. Every measurement here has a loss of its own, so that the sums tell which were taken."""
    losses = {"nation": "1", "county": "1/2", "tract": "1/4", "block": "1/8", "place": "1/16"}
    measures = tuple(
        PlannedMeasurement(level, "sex", 3, 2, calibrate(ZCDP(rho), Neighbours.CHANGE_ONE), ZCDP(rho), ("sex",))
        for level, rho in losses.items()
    )
    spine = ("nation", "county", "tract", "block")
    plan = Plan("tables", Neighbours.CHANGE_ONE, Definition.ZCDP, measures, spine, {})
    assert loss_by_move(plan) == {"nation": ZCDP("15/16"), "county": ZCDP("7/16"), "tract": ZCDP("3/16")}
