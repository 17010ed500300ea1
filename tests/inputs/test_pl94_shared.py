"""Rhode Island 2010, as published: the import against the file's own tables and an independent reading of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from confide.lab.pl94 import ImportSummary, Pl94File, import_pl94, read_pl94
from confide.lab.pl94.segments import table_layout

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "ri2010_pl94"
ZIP = FOLDER / "ri2010.pl.zip"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not ZIP.exists(), reason="../shared/data/ri2010_pl94/ri2010.pl.zip is not there"),
]


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> ImportSummary:
    return import_pl94(ZIP, tmp_path_factory.mktemp("ri"))


@pytest.fixture(scope="module")
def file() -> Pl94File:
    return read_pl94(ZIP)


def test_rhode_island(summary: ImportSummary) -> None:
    assert (summary.persons, summary.adults, summary.hispanic) == (1_052_567, 828_611, 130_655)
    assert (summary.blocks, summary.populated_blocks, summary.housing_units) == (25_181, 17_644, 463_388)
    assert all(item.ok and item.cells == 288 * item.areas for item in summary.comparisons)
    assert {item.level: item.areas for item in summary.comparisons} == {
        "state": 1,
        "county": 5,
        "tract": 244,
        "block_group": 815,
        "block": 25_181,
        "place": 34,
        "county_subdivision": 40,
    }


def test_persons_against_another_reading(summary: ImportSummary) -> None:
    columns = ["geocode", "votingage", "hispanic", "cenrace"]
    order = [(name, "ascending") for name in columns]
    ours = pq.read_table(summary.persons_file)
    other = pq.read_table(FOLDER / "ri2010_person.parquet", columns=columns).sort_by(order).cast(ours.schema)
    assert ours.schema.names == columns
    assert ours.equals(other)


def test_blocks_against_another_reading(summary: ImportSummary) -> None:
    names = {
        "geocode": "geocode",
        "place": "PLACE",
        "cousub": "COUSUB",
        "aiannh": "AIANHH",
        "upper_district": "SLDU",
        "lower_district": "SLDL",
        "land_area": "AREALAND",
        "water_area": "AREAWATR",
        "housing_units": "hu_total",
        "occupied_units": "hu_occupied",
    }
    ours = pq.read_table(summary.blocks_file)
    other = pq.read_table(FOLDER / "ri2010_blocks_geo_units_gq.parquet").sort_by("geocode")
    for our_name, other_name in names.items():
        assert ours[our_name].equals(other[other_name].cast(ours[our_name].type)), our_name
    for our_name, other_name in (("latitude", "INTPTLAT"), ("longitude", "INTPTLON")):
        assert ours[our_name].to_pylist() == [float(text) for text in other[other_name].to_pylist()]
    assert pc.all(pc.equal(pc.utf8_slice_codeunits(ours["geocode"], 0, 12), ours["block_group"])).as_py()


@pytest.mark.parametrize("level", ["state", "county", "tract", "block_group", "block", "place", "county_subdivision"])
def test_cells_against_another_reading(file: Pl94File, level: str) -> None:
    fields = {
        "state": ("040", ["STATE"]),
        "county": ("050", ["STATE", "COUNTY"]),
        "tract": ("140", ["STATE", "COUNTY", "TRACT"]),
        "block_group": ("150", ["STATE", "COUNTY", "TRACT", "BLKGRP"]),
        "block": ("750", ["STATE", "COUNTY", "TRACT", "BLOCK"]),
        "place": ("160", ["STATE", "PLACE"]),
        "county_subdivision": ("060", ["STATE", "COUNTY", "COUSUB"]),
    }
    sumlev, codes = fields[level]
    other = pq.read_table(FOLDER / "ri2010_pl94_all_levels.parquet", filters=[("SUMLEV", "=", sumlev)])
    geocode = pc.binary_join_element_wise(*(other[code].cast("string") for code in codes), "")
    other = other.append_column("code", geocode).sort_by("code")
    assert file.geocodes(level).to_pylist() == other["code"].to_pylist()
    layout = table_layout()
    for table in layout.tables.values():
        names = [layout.cell_name(table, column) for column in range(table.lines)]
        theirs = np.column_stack([other[name].to_numpy() for name in names])
        assert np.array_equal(file.cells(level, table.name), theirs), table.name
