"""The evaluation of the redistricting products: made-up states, and Rhode Island 2010 with maps."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.topdown import COUNTED, QUARTERS, sql, write_spec
from tests.kits.topdown_evaluation import KEYS, numbers, row

from confide import api
from confide.lab.population import Population, write_population
from confide.report import charts

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "ri2010_pl94"


def test_housing_units_have_exact_totals_and_noisy_occupancy(tmp_path: Path) -> None:
    write_population(Population(2_000, 9), tmp_path)
    spec = write_spec(tmp_path, product="pl94-units", records="blocks.parquet", data=COUNTED)
    api.run(spec, processes=1, insecure_key=KEYS[0])
    found = numbers(spec)
    assert found["noun"] == "housing units"
    for one in found["accuracy"]:
        if one["query"] == "total":
            assert one["mean_absolute_error"] == 0
            assert one["noise_alone"]["root_mean_squared_error"] == 0
    occupied, vacant = (row(found, "block", "h1", label) for label in ("occupied", "vacant"))
    assert occupied["mean_absolute_error"] == vacant["mean_absolute_error"] > 0
    assert occupied["mean_error"] == -vacant["mean_error"]
    assert occupied["noise_alone"] == pytest.approx(vacant["noise_alone"])
    page = (tmp_path / "descent" / "dossier-confidential" / "dossier-confidential.html").read_text()
    assert "How far off are the counts by Occupancy?" in page


@pytest.mark.process
@pytest.mark.slow
def test_persons_of_a_state_with_areas_that_split_its_units(tmp_path: Path) -> None:
    write_population(Population(12_000, 5), tmp_path)
    area = "CASE WHEN hash(geocode) % 4 = 0 THEN '0100' ELSE '9999' END"
    blocks = tmp_path / "blocks.parquet"
    sql(f"COPY (SELECT * REPLACE ({area} AS aiannh) FROM read_parquet('{blocks}')) TO '{tmp_path}/split.parquet'")
    (tmp_path / "split.parquet").rename(blocks)
    spec = write_spec(tmp_path)
    api.run(spec, processes=2, insecure_key=KEYS[0])
    found = numbers(spec)
    kinds = {one["name"]: one["kind"] for one in found["geographies"]}
    assert kinds["block_group (made)"] == "made"
    assert kinds["county (AIAN parts)"] == "part"
    assert {"state", "county", "tract", "block_group", "block", "place", "cousub", "aiannh"} <= set(kinds)
    assert list(kinds)[-1] == "block"
    queries = {one["name"]: one["number_of_cells"] for one in found["queries"]}
    assert queries["hispanic*cenrace:major"] == 14
    assert queries["cenrace"] == 63
    assert "detailed" not in queries
    assert "votingage*cenrace" not in queries, "126 cells are too many"
    assert {one["query"] for one in found["largest_group"]} == {"hispanic*cenrace:major", "hhgq"}
    assert row(found, "state", "total", "total")["mean_absolute_error"] == 0
    parts = row(found, "county (AIAN parts)", "total", "total")
    assert parts["areas"] > row(found, "county", "total", "total")["areas"]
    zeros = {part["true_size"]: part for part in row(found, "block", "hispanic*cenrace:major")["by_true_size"]}
    assert zeros["0"]["mean_error"] > 0, "a count of zero can only go up"


def lay_out_rhode_island(folder: Path) -> Path:
    """The state with its group quarters as presence, without the persons that its block table has no room for."""
    table = pq.read_table(SHARED / "ri2010_blocks_geo_units_gq.parquet")
    columns = {"geocode": table.column("geocode"), "housing_units": table.column("hu_total")}
    for name in QUARTERS:
        columns[name] = pa.array((table.column(f"{name}_imputed").to_numpy() > 0).astype("int64"))
    columns |= {"place": table.column("PLACE"), "cousub": table.column("COUSUB"), "aiannh": table.column("AIANHH")}
    pq.write_table(pa.table(columns), folder / "blocks.parquet")
    empty = f"SELECT geocode FROM read_parquet('{folder}/blocks.parquet') WHERE housing_units = 0"
    sql(
        f"COPY (SELECT * FROM read_parquet('{SHARED}/ri2010_person.parquet') "
        f"WHERE NOT (hhgq = 0 AND geocode IN ({empty}))) TO '{folder}/persons.parquet'"
    )
    return write_spec(folder)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/data/ri2010_pl94 is not there")
def test_rhode_island_with_maps_over_two_keys(tmp_path: Path) -> None:
    spec = lay_out_rhode_island(tmp_path)
    runs = []
    for key in (0, 1):
        path = tmp_path / f"key{key}.toml"
        path.write_text(spec.read_text().replace('name = "descent"', f'name = "key{key}"'))
        runs.append(api.run(path, processes=2, insecure_key=KEYS[key]).workspace.root)
    names = {"tract": "tract", "cousub": "county-subdivision", "place": "place"}
    geometry = {name: SHARED / "geo" / f"ri2010_{file}.geojson" for name, file in names.items()}
    evaluated = api.evaluate(*runs, geometry=geometry)
    found: dict[str, Any] = evaluated.accuracy.reveal("published data of 2010")
    mean = {
        name: row(found, name, "total", "total")["mean_absolute_error"]["mean"]
        for name in ("state", "tract", "cousub", "block_group (made)", "block")
    }
    assert mean["state"] == 0
    assert mean["cousub"] < 5
    assert mean["block_group (made)"] < 2
    assert mean["block"] > mean["block_group (made)"]
    # Own measurements learn nothing from below: what is realised is the noise of that estimator, within three standard
    # errors of 482 errors, and a quarter more than that of the best one.
    tract = row(found, "tract", "total", "total")
    realised, own, best = (
        tract["root_mean_squared_error"]["mean"],
        tract["noise_of_estimator"]["root_mean_squared_error"],
        tract["noise_alone"]["root_mean_squared_error"],
    )
    assert realised / own == pytest.approx(1, abs=3 / sqrt(2 * 482))
    assert own / best == pytest.approx(1.232, abs=0.001)
    kept = {
        one["geography"]: one["share_within"]["mean"]
        for one in found["largest_group"]
        if one["query"] == "hispanic*cenrace:major" and one["least_people"] and one["share_within"]
    }
    assert min(kept["place"], kept["cousub"], kept["block_group (made)"]) >= 0.95
    if charts.available():
        page = evaluated.dossier.read_text()
        assert page.count("<figcaption>The error of the total by") == 3
        assert "244 areas" in page
        assert "34 areas" in page
