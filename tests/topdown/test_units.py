"""Housing units: records that come counted by block, or one by one; and what the frame tells of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.kits.topdown import (
    COUNTED,
    ENDLESS,
    KEY,
    QUARTERS,
    charges,
    released,
    rows_of,
    same_rows,
    sql,
    write_small_state,
    write_spec,
)

from confide import api
from confide.engines import LocalEngine
from confide.mechanisms.topdown.output.publish import units_table

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "ri2010_pl94" / "ri2010_blocks_geo_units_gq.parquet"
UNITS = "SELECT geocode, CAST(unnest(range({number})) * 0 + {h1} AS BIGINT) AS h1 FROM {rows}"


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_state(tmp_path_factory.mktemp("state"), 3_000, 9)


def one_by_one(blocks: Path, occupied: str = "occupied_units", in_all: str = "housing_units") -> str:
    """The units of a block table as rows: block and occupancy."""
    rows = rows_of(blocks)
    kinds = {1: occupied, 0: f"{in_all} - {occupied}"}
    return " UNION ALL ".join(UNITS.format(number=number, h1=h1, rows=rows) for h1, number in kinds.items())


def lay_out(folder: Path, state: Path, form: str, *, budget: object = None, spine: str = "optimised") -> Path:
    """The units of the state in one of three forms: counted in the block table, counted in a CSV of text, rows."""
    shutil.copy(state / "blocks.parquet", folder / "blocks.parquet")
    blocks = folder / "blocks.parquet"
    if form == "rows":
        # In another order than the blocks', which must not matter.
        sql(f"COPY ({one_by_one(blocks)} ORDER BY hash(geocode)) TO '{folder}/units.parquet'")
        return write_spec(folder, product="pl94-units", records="units.parquet", budget=budget, spine=spine)
    if form == "counted":
        return write_spec(
            folder, product="pl94-units", records="blocks.parquet", data=COUNTED, budget=budget, spine=spine
        )
    sql(
        f"COPY (SELECT geocode AS block, housing_units AS units, occupied_units AS homes FROM {rows_of(blocks)} "
        f"ORDER BY 1 DESC) TO '{folder}/units.csv' (HEADER)"
    )
    mapped = 'columns = { geocode = "block", housing_units = "units", occupied_units = "homes" }\n'
    theirs = 'block_columns = { geocode = "geocode", housing_units = "housing_units" }\n'
    data = mapped + theirs + COUNTED
    return write_spec(folder, product="pl94-units", records="units.csv", data=data, budget=budget, spine=spine)


@pytest.mark.parametrize(
    ("form", "spine"), [("counted", "optimised"), ("counted", "plain"), ("csv", "optimised"), ("rows", "optimised")]
)
def test_with_an_endless_budget_the_units_come_out_as_they_went_in(
    tmp_path: Path, state: Path, form: str, spine: str
) -> None:
    spec = lay_out(tmp_path, state, form, budget=ENDLESS, spine=spine)
    result = api.run(spec, processes=1, insecure_key=KEY)
    assert same_rows(f"SELECT geocode, h1 FROM {released(result.release)}", one_by_one(tmp_path / "blocks.parquet"))


@pytest.mark.parametrize("form", ["counted", "rows"])
def test_vacant_and_occupied_add_up_to_the_units_of_every_block(tmp_path: Path, state: Path, form: str) -> None:
    result = api.run(lay_out(tmp_path, state, form), processes=1, insecure_key=KEY)
    assert api.verify(result.release).ok
    blocks, rows = rows_of(tmp_path / "blocks.parquet"), released(result.release)
    found = f"SELECT geocode, count(*) AS n FROM {rows} GROUP BY 1"
    assert same_rows(found, f"SELECT geocode, housing_units FROM {blocks} WHERE housing_units > 0")
    # What is occupied is noisy, and so it differs from the truth in many blocks.
    occupied = f"SELECT geocode, count(*) FILTER (WHERE h1 = 1) AS n FROM {rows} GROUP BY 1"
    ((blocks_in_all, other),) = sql(
        f"SELECT count(*), count(*) FILTER (WHERE n <> occupied_units) FROM ({occupied}) JOIN {blocks} USING (geocode)"
    )
    assert other > blocks_in_all / 4
    # Facilities and units are published as they are; the true number of occupied ones is nobody's bound.
    assert result.plan.question["frame_columns"] == ["housing_units", *QUARTERS]
    columns = ", ".join(["geocode", "housing_units", *QUARTERS])
    told = f"SELECT {columns} FROM {released(result.release, 'units')}"
    names = [name for name, *_ in sql(f"DESCRIBE FROM {released(result.release, 'units')}")]
    assert "occupied_units" not in names
    assert same_rows(told, f"SELECT {columns} FROM {blocks}")
    assert charges(tmp_path) == ["open", "reserve", "measured", "sealed"]


def test_presence_says_where_somebody_is_and_never_how_many(tmp_path: Path, state: Path) -> None:
    """Columns that count persons in group quarters are confidential; that there are any is not."""
    crowded = ", ".join(f"{name} * 37 AS {name}" for name in QUARTERS)
    sql(f"COPY (SELECT * REPLACE ({crowded}) FROM {rows_of(state / 'blocks.parquet')}) TO '{tmp_path}/blocks.parquet'")
    shutil.copy(state / "persons.parquet", tmp_path / "persons.parquet")
    named = ", ".join(f'"{name}"' for name in QUARTERS)
    loaded = api.load(write_spec(tmp_path, data=f"presence = [{named}]", spine="plain"))
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        problem = api.MECHANISMS["topdown"].prepare(loaded, engine)
    counts = {name: set(problem.columns[name].tolist()) for name in QUARTERS}
    assert set().union(*counts.values()) == {0, 1}
    assert any((units_table(problem).column(name).to_numpy() == 1).any() for name in QUARTERS)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/data/ri2010_pl94 is not there")
@pytest.mark.parametrize("budget", [ENDLESS, None])
def test_the_units_of_a_real_state(tmp_path: Path, budget: int | None) -> None:
    mapped = {"occupied_units": "hu_occupied", "housing_units": "hu_total", **{q: f"{q}_imputed" for q in QUARTERS}}
    mapped |= {"place": "PLACE", "cousub": "COUSUB", "aiannh": "AIANHH"}
    columns = ", ".join(f'{ours} = "{theirs}"' for ours, theirs in mapped.items())
    presence = ", ".join(f'"{name}"' for name in QUARTERS)
    data = f"columns = {{ {columns} }}\npresence = [{presence}]\n{COUNTED}"
    spec = write_spec(tmp_path, product="pl94-units", records=str(SHARED), blocks=str(SHARED), data=data, budget=budget)
    result = api.run(spec, processes=2, insecure_key=KEY)
    assert api.verify(result.release).ok
    rows = released(result.release)
    if budget is not None:
        truth = one_by_one(SHARED, "hu_occupied", "hu_total")
        assert same_rows(f"SELECT geocode, h1 FROM {rows}", truth)
    found = f"SELECT geocode, count(*) AS n FROM {rows} GROUP BY 1"
    assert same_rows(found, f"SELECT geocode, hu_total FROM {rows_of(SHARED)} WHERE hu_total > 0")
