"""An office's own files: Parquet or CSV, other names and types; and every problem a finding that shows no value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.kits.comparison import BLOCKS, PEOPLE, geography

from confide.engines import Source
from confide.errors import InputError
from confide.lab.comparison.common_tables import common_tables
from confide.lab.comparison.compared_people import BLOCK, HOUSEHOLD, read

SECRET = 77
CODED = ["hhgq", "sex", "age", "hispanic", "cenrace"]
COUNTS = common_tables().part.blocks_with


def people(**changes: list[Any]) -> pa.Table:
    block, sex, age, hispanic, race = (list(column) for column in zip(*PEOPLE, strict=True))
    columns: dict[str, list[Any]] = {
        BLOCK: [BLOCKS[each] for each in block],
        HOUSEHOLD: [10 + each for each in block],
        "hhgq": [0] * len(PEOPLE),
        "sex": sex,
        "age": age,
        "hispanic": hispanic,
        "cenrace": race,
    }
    return pa.table(columns | changes)


def blocks(codes: tuple[str, ...] = BLOCKS, units: int = 3) -> pa.Table:
    return pa.table({BLOCK: list(codes)} | {name: [units] * len(codes) for name in COUNTS})


def stored(table: pa.Table, file: Path) -> Source:
    if file.suffix == ".csv":
        pa_csv.write_csv(table, file)
        return Source(file, "csv")
    pq.write_table(table, file)
    return Source(file, "parquet")


def found(tmp_path: Path, records: pa.Table, land: pa.Table | None = None, *, ending: str = "parquet", **more: Any):
    land = blocks() if land is None else land
    sources = stored(records, tmp_path / f"p.{ending}"), stored(land, tmp_path / f"b.{ending}")
    land_of = geography(**more.pop("digits", {}))
    return read(*sources, common_tables(), land_of, tmp_path / "scratch", counts=more.pop("counts", True))


def wrong(tmp_path: Path, *arguments: Any, **named: Any):
    with pytest.raises(InputError) as caught:
        found(tmp_path, *arguments, **named)
    assert str(SECRET) not in str(caught.value)
    return [(each.code, each.where.column, each.where.row) for each in caught.value.findings]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("kind", [pa.int8(), pa.string(), pa.uint16()])
def test_the_same_people_whatever_the_file(tmp_path: Path, ending: str, kind: pa.DataType) -> None:
    given = people()
    for name in CODED:
        given = given.set_column(given.column_names.index(name), name, given.column(name).cast(kind))
    records, land = found(tmp_path, given, ending=ending)
    assert records.select(CODED).to_pydict() == people().select(CODED).to_pydict()
    assert all(records.schema.field(name).type == pa.int64() for name in CODED)
    assert records.column(BLOCK).to_pylist() == people().column(BLOCK).to_pylist()
    assert [int(each) for each in records.column(HOUSEHOLD).to_pylist()] == people().column(HOUSEHOLD).to_pylist()
    assert land.to_pydict() == blocks().to_pydict()


def test_columns_may_have_other_names_and_topdown_may_be_left_out(tmp_path: Path) -> None:
    given = people().rename_columns(["BLK", "HH", "GQ", "SEX", "AGEP", "HISP", "RACE"])
    names = dict(zip((BLOCK, HOUSEHOLD, *CODED), given.column_names, strict=True))
    records = stored(given, tmp_path / "p.csv")
    land = stored(blocks().select([BLOCK, "gq1"]), tmp_path / "b.csv")
    source = Source(records.path, "csv", names)
    made, listed = read(source, land, common_tables(), geography(), tmp_path / "scratch", counts=False)
    assert made.select(CODED).to_pydict() == people().select(CODED).to_pydict()
    assert listed.column_names == [BLOCK, "gq1"]


@pytest.mark.parametrize("name", [HOUSEHOLD, "age", BLOCK])
def test_a_missing_column_is_found_without_listing_the_others(tmp_path: Path, name: str) -> None:
    """In a CSV without a first line of names, the names would be a record."""
    with pytest.raises(InputError) as caught:
        found(tmp_path, people().drop_columns([name]))
    assert [(each.code, each.where.column) for each in caught.value.findings] == [("missing-column", name)]
    assert "cenrace" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "code", "row"),
    [
        ({"sex": [1, 2, SECRET, 1, 1, 2]}, "bad-record", 3),
        ({"cenrace": ["0", "0", "6", f"x{SECRET}", "5", "62"]}, "bad-record", 4),
        ({"age": [5, 33, 34, 70, 17, 100 + SECRET]}, "bad-record", 6),
        ({"age": [5, None, 34, 70, 17, 18]}, "bad-record", 2),
        ({"hhgq": [0, 0, 0, 0, SECRET, 0]}, "bad-record", 5),
        ({BLOCK: [f"9{SECRET}", *(BLOCKS[each[0]] for each in PEOPLE[1:])]}, "bad-record", 1),
        ({HOUSEHOLD: [10, None, 10, 11, 12, 12]}, "no-household", 2),
        ({HOUSEHOLD: [SECRET] * 6}, "household-in-two-blocks", None),
        ({HOUSEHOLD: [float(SECRET)] * 6}, "column-type", None),
    ],
)
def test_a_bad_record_is_found_by_its_row(tmp_path: Path, changes: dict[str, Any], code: str, row: int | None) -> None:
    assert wrong(tmp_path, people(**changes)) == [(code, next(iter(changes)), row)]


def test_people_outside_of_households_need_no_household(tmp_path: Path) -> None:
    records, _ = found(tmp_path, people(hhgq=[0, 0, 0, 1, 1, 1], household_id=[10, 10, 10, None, None, None]))
    assert records.num_rows == len(PEOPLE)


def test_blocks_are_of_one_state_and_listed_once(tmp_path: Path) -> None:
    assert wrong(tmp_path, people(), blocks((*BLOCKS, "910010001001000"))) == [("several-states", BLOCK, None)]
    assert len(wrong(tmp_path, people(), blocks((*BLOCKS, BLOCKS[0])))) == 1
    assert wrong(tmp_path, people(), digits={"block_group": 20})[0][0] == "short-code"
    assert wrong(tmp_path, people().slice(0, 0))[0][0] == "no-records"


def test_blocks_without_people_are_blocks(tmp_path: Path) -> None:
    assert found(tmp_path, people(), blocks((*BLOCKS, "900010003001000")))[1].num_rows == 4


def test_what_topdown_needs_is_asked_for_at_once(tmp_path: Path) -> None:
    missing = wrong(tmp_path, people(), blocks().select([BLOCK]))
    assert [column for _, column, _ in missing] == list(COUNTS)
    assert wrong(tmp_path, people(), blocks(units=0)) == [("no-units", BLOCK, 1)]
    assert found(tmp_path, people(), blocks(units=0), counts=False)[0].num_rows == len(PEOPLE)
