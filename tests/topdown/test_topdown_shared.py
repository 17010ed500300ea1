"""Rhode Island 2010, a real state of a million people, at production settings and without noise."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kits.descent import COLUMNS, ENDLESS, PRODUCTION, released, run, sql
from tests.kits.rhode_island import NEEDED, lay_out_with_presence

from confide.mechanisms.topdown.mechanism import TopDown
from confide.releases.verify import verify

pytestmark = [*NEEDED, pytest.mark.process]


def test_with_an_endless_budget_a_real_state_comes_out_as_it_went_in(tmp_path: Path) -> None:
    result = run(lay_out_with_presence(tmp_path, ENDLESS), processes=2)
    truth = f"read_parquet('{tmp_path}/persons.parquet')"
    for one, other in ((truth, released(result)), (released(result), truth)):
        assert sql(f"SELECT {COLUMNS} FROM {one} EXCEPT ALL SELECT {COLUMNS} FROM {other}") == []


def test_a_real_state_at_production_settings(tmp_path: Path) -> None:
    result = run(lay_out_with_presence(tmp_path, PRODUCTION), processes=2)
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
