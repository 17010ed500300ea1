"""Rhode Island 2010, a real state of a million people, at production settings and without noise."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.topdown.test_topdown import COLUMNS, ENDLESS, PRODUCTION, SPEC, released, run, sql

from confide.mechanisms.topdown.mechanism import TopDown
from confide.releases.ledger import Ledger
from confide.releases.verify import verify

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "ri2010_pl94"
BLOCKS = FOLDER / "ri2010_blocks_geo_units_gq.parquet"
PERSONS = FOLDER / "ri2010_person.parquet"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not PERSONS.exists(), reason="../shared/data/ri2010_pl94 is not there"),
]


def lay_out(folder: Path, budget: object) -> Path:
    """The state with its facilities as presence, and without the few persons that its block table has no room for."""
    blocks = pq.read_table(BLOCKS)
    columns = {"geocode": blocks.column("geocode"), "housing_units": blocks.column("hu_total")}
    for kind in range(1, 8):
        present = blocks.column(f"gq{kind}_imputed").to_numpy() > 0
        columns[f"gq{kind}"] = pa.array(present.astype("int64"))
    columns |= {"place": blocks.column("PLACE"), "cousub": blocks.column("COUSUB"), "aiannh": blocks.column("AIANHH")}
    pq.write_table(pa.table(columns), folder / "blocks.parquet")
    homeless = f"SELECT geocode FROM read_parquet('{BLOCKS}') WHERE hu_total = 0"
    sql(
        f"COPY (SELECT {COLUMNS} FROM read_parquet('{PERSONS}') WHERE NOT (hhgq = 0 AND geocode IN ({homeless}))) "
        f"TO '{folder}/persons.parquet'"
    )
    spec = folder / "spec.toml"
    spec.write_text(SPEC.format(budget=budget, spine="optimised"))
    Ledger.open_new(folder / "people.ledger", data_set="ri", definition="zcdp", neighbours="change-one", budget=10**13)
    return spec


def test_with_an_endless_budget_a_real_state_comes_out_as_it_went_in(tmp_path: Path) -> None:
    result = run(lay_out(tmp_path, ENDLESS), processes=2)
    truth = f"read_parquet('{tmp_path}/persons.parquet')"
    for one, other in ((truth, released(result)), (released(result), truth)):
        assert sql(f"SELECT {COLUMNS} FROM {one} EXCEPT ALL SELECT {COLUMNS} FROM {other}") == []


def test_a_real_state_at_production_settings(tmp_path: Path) -> None:
    result = run(lay_out(tmp_path, PRODUCTION), processes=2)
    assert verify(result.release, lambda _: TopDown()).ok
    truth, rows = f"read_parquet('{tmp_path}/persons.parquet')", released(result)
    blocks = f"read_parquet('{tmp_path}/blocks.parquet')"
    ((areas, error),) = sql(f"""
        WITH one AS (SELECT cousub, count(*) AS n FROM {truth} JOIN {blocks} USING (geocode) GROUP BY 1),
        other AS (SELECT cousub, count(*) AS n FROM {rows} JOIN {blocks} USING (geocode) GROUP BY 1)
        SELECT count(*), avg(abs(coalesce(one.n, 0) - coalesce(other.n, 0))) FROM one FULL JOIN other USING (cousub)
    """)
    assert areas == 39
    assert error < 10
