"""Rehearsals of specs whose records have more to them than codes: households, magnitudes, housing units, limits."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits import own_strategy
from tests.kits.office import lay_out
from tests.kits.swapping import SCHEMA as TOWN
from tests.kits.swapping import block_table
from tests.kits.topdown import write_spec

import confide
from confide.rehearsal import RECORDS
from confide.report import charts


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "available", lambda: False)


def rehearsed(spec: Path, **options: object) -> list[dict[str, object]]:
    """The made-up records of a rehearsal that went well."""
    answer = confide.rehearse(spec, **{"persons": 600, "processes": 1} | options)  # type: ignore[arg-type]
    assert answer.verification.ok
    return pq.read_table(answer.folder / RECORDS).to_pylist()


@pytest.mark.parametrize("variant", ["targeted", "enhanced", "permutation"])
def test_households_stay_together_and_share_what_they_carry(tmp_path: Path, variant: str) -> None:
    pq.write_table(block_table(), tmp_path / "blocks.parquet")
    (tmp_path / "schema.toml").write_text(TOWN)
    part = {
        "targeted": 'rate = "1/5"\nrisk = ["race"]\nprofiles = [["size"]]',
        "enhanced": 'rate = "2/5"',
        "permutation": 'rate = "1/5"\nwithin = "county"\nmatch = ["size"]\nlargest_stratum = 1000',
    }[variant]
    (tmp_path / "spec.toml").write_text(f"""
[release]
name = "swap"
mechanism = "swapping"
[data]
records = "absent.parquet"
blocks = "blocks.parquet"
schema = "schema.toml"
in_households = {{ hhgq = 0 }}
[geography]
levels = [{{ name = "state", digits = 1 }}, {{ name = "county", digits = 2 }}, {{ name = "tract", digits = 3 }}]
[swapping]
variant = "{variant}"
carry = ["tenure"]
{part}
[[tables]]
name = "people"
variables = ["sex", "race"]
levels = ["county", "block"]
""")
    rows = rehearsed(tmp_path / "spec.toml")
    households = defaultdict(set)
    for row in rows:
        assert (row["household_id"] is None) == (row["hhgq"] != 0)
        households[row["household_id"]].add((row["geocode"], row["tenure"]))
    households.pop(None)
    assert all(len(places) == 1 for places in households.values())
    assert 150 < len(households) < 350


def test_magnitudes_of_a_table_with_hidden_cells(tmp_path: Path) -> None:
    spec = lay_out(tmp_path)
    text = spec.read_text().replace('mechanism = "tables"', 'mechanism = "suppression"')
    start, end = text.index("[privacy]"), text.index("[[tables]]")
    text = text[:start] + "[suppression]\np = 10\nthreshold = 2\n" + text[end:].replace(', "block"]', "]")
    text = text.replace(
        'delimiter = ";"', 'delimiter = ";"\nvalue = "turnover"\nunit = "1/100"\nweight = "w"\ncontributor = "firm"'
    )
    spec.write_text(text)
    rows = rehearsed(spec)
    assert all(row["turnover"] >= 0 and row["w"] > 0 and row["firm"] for row in rows)
    assert len({row["firm"] for row in rows}) < len(rows)


def test_magnitudes_with_cell_keys(tmp_path: Path) -> None:
    spec = lay_out(tmp_path)
    text = spec.read_text().replace('mechanism = "tables"', 'mechanism = "cellkey"')
    start, end = text.index("[privacy]"), text.index("[[tables]]")
    part = '[cellkey]\nkeys = 100000\n[magnitude]\nnoise = { D = 2, V = 1 }\np_small = "0.1"\n'
    text = text[:start] + part + text[end:]
    spec.write_text(text.replace('delimiter = ";"', 'delimiter = ";"\nvalue = "turnover"\nweight = "w"'))
    rows = rehearsed(spec)
    assert len({row["record_key"] for row in rows}) > 500


def test_housing_units_are_those_of_the_frame_though_the_office_has_them_counted(
    tmp_path: Path, population_folder: Path
) -> None:
    shutil.copy(population_folder / "blocks.parquet", tmp_path)
    counted = '{ where = { h1 = 1 }, column = "occupied_units" }'
    rest = '{ where = { h1 = 0 }, column = "housing_units", less = "occupied_units" }'
    spec = write_spec(
        tmp_path, product="pl94-units", records="blocks.parquet", data=f"counted = [{counted}, {rest}]", areas=""
    )
    blocks = pq.read_table(tmp_path / "blocks.parquet")
    rows = rehearsed(spec)
    assert len(rows) == pa.compute.sum(blocks.column("housing_units")).as_py()


def test_limits_of_the_frame_are_kept_block_by_block(tmp_path: Path) -> None:
    people = [[3, 1, 0], [2, 0, 2], [0, 4, 0], [5, 1, 1], [2, 2, 2]]
    columns = {"homes": [4, 0, 3, 6, 5], "halls": [1, 0, 2, 0, 1]}
    bounds = own_strategy.bound("homes", "upper", 3, {0: "homes"}) + own_strategy.bound(
        "halls", "lower", 1, {1: "halls"}
    )
    spec = own_strategy.lay_out(tmp_path, people, columns, bounds)
    rows = rehearsed(spec, persons=60)
    counts = defaultdict(int)
    for row in rows:
        counts[row["geocode"], row["kind"]] += 1
    blocks = pq.read_table(tmp_path / "blocks.parquet").to_pylist()
    assert all(counts[block["geocode"], 0] <= 3 * block["homes"] for block in blocks)
    assert all(counts[block["geocode"], 1] >= block["halls"] for block in blocks)


def test_cells_that_were_counted_elsewhere_are_not_rehearsed(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text("sex,count,cell_key\nm,3,17\nf,5,4\n")
    (tmp_path / "spec.toml").write_text("""
[release]
name = "given"
mechanism = "cellkey"
[data]
[cellkey]
D = 2
V = 1
keys = 100
[[tables]]
name = "sex"
variables = ["sex"]
cells = "cells.csv"
""")
    with pytest.raises(confide.errors.RunError, match="counted elsewhere"):
        confide.rehearse(tmp_path / "spec.toml")
