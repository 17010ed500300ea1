"""Rhode Island 2010 from ``../shared``, for the tests of a real state: skipped with a reason where it is absent."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.releases.ledger import Ledger
from tests.kits.descent import COLUMNS, SPEC, sql
from tests.kits.topdown import QUARTERS, write_spec

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "ri2010_pl94"
BLOCKS = FOLDER / "ri2010_blocks_geo_units_gq.parquet"
PERSONS = FOLDER / "ri2010_person.parquet"
KEYS = [f"{number:02x}" * 32 for number in range(0x11, 0x1B)]
RECORDS_ALONE = 'formats = ["parquet"]\ntables = []\nmicrodata = ["records"]'

NEEDED = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not PERSONS.exists(), reason="../shared/data/ri2010_pl94 is not there"),
]
"""The marks of a test of the real state."""


def lay_out_as_published(folder: Path, around: list[str] | None = None, output: str = RECORDS_ALONE) -> Path:
    """A spec over the files as they are: columns are mapped by name, persons in quarters stand for facilities."""
    names = {"housing_units": "hu_total", "place": "PLACE", "cousub": "COUSUB", "aiannh": "AIANHH"}
    names |= {name: f"{name}_imputed" for name in QUARTERS}
    columns = ", ".join(f'{ours} = "{theirs}"' for ours, theirs in names.items())
    presence = ", ".join(f'"{name}"' for name in QUARTERS)
    data = f"block_columns = {{ {columns} }}\npresence = [{presence}]"
    records = folder / PERSONS.name
    if not records.exists():
        records.symlink_to(PERSONS)  # a run leaves a witness beside its records: never in ../shared
    return write_spec(folder, records=str(records), blocks=str(BLOCKS), data=data, output=output, around=around)


def lay_out_with_presence(folder: Path, budget: object) -> Path:
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
