"""A strategy of one's own: other levels, other queries, another spine."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.kits.descent import lay_out, released, run, sql

from confide import api
from confide.engines import LocalEngine
from confide.errors import RunError
from confide.mechanisms.topdown.problem import prepare

OWN = """
id = "own"
title = "Adults and minors"
provenance = "Made for a test."
definition = "zcdp"
neighbours = "change-one"
root = "state"
schema = "pl94-persons"
apart = ["gq5"]

[roots.state]
budget = "2"
levels     = ["state", "county", "tract_group", "tract", "block_group", "block"]
shares     = ["1/6", "1/6", "1/6", "1/6", "1/6", "1/6"]
estimation = ["root", "below", "below", "below", "below", "below"]
[roots.state.queries]
"total"     = ["-", "1/2", "1/2", "1/2", "1/2", "1/2"]
"votingage" = ["1/2", "1/4", "1/4", "1/4", "1/4", "1/4"]
"detailed"  = ["1/2", "1/4", "1/4", "1/4", "1/4", "1/4"]

[estimation.root]
least_squares = [{ queries = ["votingage", "detailed"] }]
rounding = [["hhgq", "detailed"]]
[estimation.below]
least_squares = [{ queries = ["total", "votingage", "detailed"] }]
rounding = [["total", "hhgq", "detailed"]]

[[invariants]]
name = "people-of-counties"
level = "county"
query = "total"

[[bounds]]
name = "quarters"
variable = "hhgq"
side = "upper"
per_unit = 5000
frame = { 1 = "gq1", 2 = "gq2", 3 = "gq3", 4 = "gq4", 5 = "gq5", 6 = "gq6", 7 = "gq7" }
"""


def lay_out_own(folder: Path, people: Path) -> Path:
    spec = lay_out(folder, people, budget="2")
    spec.write_text(spec.read_text().replace('strategy = "pl94-persons"', 'strategy = "own.toml"'))
    (folder / "own.toml").write_text(OWN)
    return spec


def test_tract_groups_are_made_where_the_strategy_has_them(tmp_path: Path, people: Path) -> None:
    result = run(lay_out_own(tmp_path, people))
    assert "tract_group" in result.plan.spine
    assert api.verify(result.release).ok


def test_an_invariant_of_counties_holds_in_every_county(tmp_path: Path, people: Path) -> None:
    result = run(lay_out_own(tmp_path, people))
    by_county = "SELECT geocode[:5], count(*) FROM {rows} GROUP BY 1 ORDER BY 1"
    truth = f"read_parquet('{tmp_path}/persons.parquet')"
    assert sql(by_county.format(rows=released(result))) == sql(by_county.format(rows=truth))


@pytest.mark.parametrize("split", [True, False])
def test_an_invariant_below_the_states_of_a_nation_is_kept_or_refused(
    tmp_path: Path, people: Path, split: bool
) -> None:
    """Parts of a county in and outside of AIAN areas have different parents; without the split there are no parts."""
    spec = lay_out_own(tmp_path, people)
    own = OWN.replace('"state", "county", "tract_group", "tract"', '"us", "state", "county", "tract"')
    (tmp_path / "own.toml").write_text(own.replace('root = "state"', 'root = "us"').replace("roots.state", "roots.us"))
    state = '{ name = "state", digits = 2 }'
    text = spec.read_text().replace(state, '{ name = "us", digits = 0 }, ' + state)
    spec.write_text(text.replace('root = "state"', f'root = "us"\nsplit_aian = {str(split).lower()}'))
    moved, area = "'91' || geocode[3:]", "CASE WHEN hash(geocode) % 4 = 0 THEN '0100' ELSE '9999' END"
    for name, changed in (("persons", ""), ("blocks", f", {area} AS aiannh")):
        rows = f"read_parquet('{people}/{name}.parquet')"
        one = f"SELECT * REPLACE (geocode AS geocode{changed}) FROM {rows}"
        other = f"SELECT * REPLACE ({moved} AS geocode{changed}) FROM {rows}"
        sql(f"COPY ({one} UNION ALL {other}) TO '{tmp_path}/{name}.parquet'")
    if split:
        with pytest.raises(RunError, match="split_aian = false"):
            run(spec)
        return
    result = run(spec)
    by_county = "SELECT geocode[:5], count(*) FROM {rows} GROUP BY 1 ORDER BY 1"
    truth = f"read_parquet('{tmp_path}/persons.parquet')"
    assert sql(by_county.format(rows=released(result))) == sql(by_county.format(rows=truth))
    assert api.verify(result.release).ok


def test_an_optimised_spine_without_states_is_refused_with_the_way_out(tmp_path: Path, people: Path) -> None:
    spec = lay_out_own(tmp_path, people)
    (tmp_path / "own.toml").write_text(
        OWN.replace('"state", "county", "tract_group"', '"land", "county", "tract_group"')
    )
    spec.write_text(spec.read_text().replace('{ name = "state", digits = 2 }', '{ name = "land", digits = 2 }'))
    with pytest.raises(RunError, match='spine = "plain"'):
        run(spec)


def test_the_counts_that_keep_blocks_apart_do_so(tmp_path: Path, people: Path) -> None:
    """No made block group has blocks of which some have college housing and some have none."""
    result = run(lay_out_own(tmp_path, people))
    assert result.plan.question["strategy"]["apart"] == ["gq5"]
    loaded = api.load(tmp_path / "spec.toml")
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        question = prepare(loaded, engine)
    blocks = pq.read_table(tmp_path / "blocks.parquet")
    present = dict(zip(blocks.column("geocode").to_pylist(), blocks.column("gq5").to_numpy() > 0, strict=True))
    level = question.spine.level("block_group")
    codes = question.spine.block_codes
    for unit in range(level.units):
        assert len({bool(present[code]) for code in codes[level.blocks(unit)]}) == 1
