"""Rhode Island 2010: without noise, our tables are the published ones, line by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.kits.descent import COLUMNS, ENDLESS, run, sql, table
from tests.kits.rhode_island import BLOCKS, FOLDER, PERSONS, lay_out_with_presence

from confide.documents import load_schema, load_shipped
from confide.lab.pl94.importer import PERSON_TABLES, tabulate
from confide.lab.pl94.segments import table_layout
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.output.settings import LayoutFile, MicrodataLayout
from confide.mechanisms.topdown.output.tabulation import axes_of
from confide.releases.verify import verify

PUBLISHED = FOLDER / "ri2010_pl94_all_levels.parquet"
PERRY = FOLDER.parent / "ppmf2010_perry_al" / "ppmf_20210428_eps12-2_perry_al.parquet"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not PUBLISHED.exists() or not PERRY.exists(), reason="../shared/data is not there"),
]

LEVELS = {
    "state": ("040", "STATE"),
    "county": ("050", "STATE || COUNTY"),
    "tract": ("140", "STATE || COUNTY || TRACT"),
    "block_group": ("150", "STATE || COUNTY || TRACT || BLKGRP"),
    "block": ("750", "STATE || COUNTY || TRACT || BLOCK"),
    "place": ("160", "PLACE"),
    "cousub": ("060", "COUSUB"),
}


@pytest.mark.process
def test_without_noise_the_tables_are_those_that_were_published(tmp_path: Path) -> None:
    result = run(lay_out_with_presence(tmp_path, ENDLESS), processes=2)
    verified = verify(result.release, lambda _: TopDown())
    assert verified.ok, verified.findings
    # The few persons of one block for whom its block table has no unit to live in are not in the records.
    left_out = "SELECT {0} FROM read_parquet('{1}') EXCEPT ALL SELECT {0} FROM read_parquet('{2}/persons.parquet')"
    persons = sql(left_out.format(COLUMNS, PERSONS, tmp_path))
    (block,) = {str(person[0]) for person in persons}
    counts = np.zeros((1, 2, 2, 63), np.int64)
    for _, _, votingage, hispanic, cenrace in persons:
        counts[0, votingage, hispanic, cenrace] += 1
    ((place, cousub),) = sql(f"SELECT PLACE, COUSUB FROM read_parquet('{BLOCKS}') WHERE geocode = '{block}'")
    compared = 0
    for name in PERSON_TABLES:
        layout = table_layout().tables[name]
        columns = [table_layout().cell_name(layout, line) for line in range(layout.lines)]
        summed = ", ".join(f"CAST(sum({column}) AS BIGINT)" for column in columns)
        for level, (sumlev, code) in LEVELS.items():
            published = sql(
                f"SELECT {code}, {summed} FROM read_parquet('{PUBLISHED}') WHERE SUMLEV = '{sumlev}' "
                "GROUP BY 1 ORDER BY 1"
            )
            rows = f"{table(result, name.lower())} WHERE level = '{level}'"
            ours = sql(f"SELECT geocode, {', '.join(columns)} FROM {rows} ORDER BY 1")
            assert [row[0] for row in ours] == [row[0] for row in published]
            around = {"place": place, "cousub": cousub}.get(level, block)
            inside = np.array([str(around).startswith(str(row[0])) for row in ours])
            difference = np.array([row[1:] for row in published]) - np.array([row[1:] for row in ours])
            assert (difference == inside[:, None] * tabulate(counts, layout)).all(), (name, level)
            compared += difference.size
    assert compared == 288 * (1 + 5 + 244 + 815 + 25_181 + 34 + 40)


def test_a_published_detail_file_fits_the_layout() -> None:
    axes = axes_of(load_schema("pl94-persons", Path()))
    layout = MicrodataLayout(LayoutFile.model_validate(load_shipped("layouts", "mdf-pl94-persons")), axes)
    rows = pq.read_table(PERRY)
    lines = layout.encode(rows, "geocode", 1)
    assert not any(column.null_count for column in lines.columns)
    assert lines.column("RTYPE").to_pylist().count("5") == 708
    assert {len(code) for code in lines.column("CENRACE").to_pylist()} == {2}
