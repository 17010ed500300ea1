"""The geographic reference file: areas of every region type, and every way in which the file can be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.safetab_geography import BLOCKS, GRFC, parquet, text

from confide.engines import Engine, LocalEngine, Source
from confide.errors import Finding, InputError
from confide.mechanisms.safetab.regions import Regions, area_column, read_regions
from confide.mechanisms.safetab.settings import PR_REGIONS, REGION_TYPES, US_REGIONS

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "safetab" / "safetab_p_toy"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with LocalEngine(tmp_path_factory.mktemp("scratch"), processes=2) as opened:
        yield opened


def read(
    engine: Engine, folder: Path, rows: Sequence[str] = BLOCKS, states: Sequence[str] = ("01", "02"), pr: bool = True
) -> Regions:
    return read_regions(engine, text(folder / "GRF-C.txt", GRFC, rows), states, pr)


def refused(engine: Engine, source: Source, states: Sequence[str] = ("01",), pr: bool = False) -> list[Finding]:
    with pytest.raises(InputError) as caught:
        read_regions(engine, source, states, pr)
    return list(caught.value.findings)


def test_the_areas_of_every_type(engine: Engine, tmp_path: Path) -> None:
    regions = read(engine, tmp_path)
    assert tuple(regions.areas) == REGION_TYPES
    assert regions.areas == {
        "USA": ("1",),
        "STATE": ("01", "02"),
        "COUNTY": ("01001", "01003", "02001"),
        "TRACT": ("01001000100", "01001000200", "01003000100", "02001000100"),
        "PLACE": ("0122800", "0222800"),
        "AIANNH": ("0010", "0020"),
        "PR-STATE": ("72",),
        "PR-COUNTY": ("72031",),
        "PR-TRACT": ("72031050901", "72031050902"),
        "PR-PLACE": ("7210001",),
    }
    assert regions.warnings == ()


def test_the_area_of_every_block(engine: Engine, tmp_path: Path) -> None:
    regions = read(engine, tmp_path, BLOCKS[::-1])
    assert regions.blocks.column("code").to_pylist() == ["".join(row.split("|")[:4]) for row in BLOCKS]
    assert {name: regions.numbers(name).tolist() for name in regions.areas} == {
        "USA": [0, 0, 0, 0, 0, -1, -1],
        "STATE": [0, 0, 0, 0, 1, -1, -1],
        "COUNTY": [0, 0, 0, 1, 2, -1, -1],
        "TRACT": [0, 0, 1, 2, 3, -1, -1],
        "PLACE": [0, 0, -1, -1, 1, -1, -1],
        "AIANNH": [0, -1, -1, 1, 1, -1, -1],
        "PR-STATE": [-1, -1, -1, -1, -1, 0, 0],
        "PR-COUNTY": [-1, -1, -1, -1, -1, 0, 0],
        "PR-TRACT": [-1, -1, -1, -1, -1, 0, 1],
        "PR-PLACE": [-1, -1, -1, -1, -1, -1, 0],
    }
    assert {str(regions.blocks.schema.field(area_column(name)).type) for name in regions.areas} == {"int64"}


def test_only_the_types_of_passes_that_run(engine: Engine, tmp_path: Path) -> None:
    assert tuple(read(engine, tmp_path, pr=False).areas) == US_REGIONS
    assert read(engine, tmp_path, pr=False).blocks.num_rows == 5
    assert tuple(read(engine, tmp_path, states=()).areas) == PR_REGIONS
    assert read(engine, tmp_path, states=()).blocks.num_rows == 2


def test_a_type_without_areas_is_there_and_empty(engine: Engine, tmp_path: Path) -> None:
    regions = read(engine, tmp_path, BLOCKS[2:3], ("01",), False)
    assert (regions.areas["PLACE"], regions.areas["AIANNH"]) == ((), ())
    assert regions.numbers("PLACE").tolist() == [-1]


def test_the_nation_is_the_states_of_the_filter(engine: Engine, tmp_path: Path) -> None:
    regions = read(engine, tmp_path, states=("02",), pr=False)
    assert regions.areas["USA"] == ("1",)
    assert regions.areas["AIANNH"] == ("0020",)
    assert regions.blocks.column("code").to_pylist() == ["020010001001000"]


def test_order_of_columns_others_rows_ends_and_format_do_not_matter(engine: Engine, tmp_path: Path) -> None:
    plain = read(engine, tmp_path)
    header = ("NAME", *GRFC[::-1], "MORE")
    rows = ["|".join(['"Saint, x"', *row.split("|")[::-1], ""]) for row in (BLOCKS[3], *BLOCKS[:3], *BLOCKS[4:])]
    other = read_regions(engine, text(tmp_path / "other.txt", header, [*rows, "", ""], "\r\n"), ("02", "01"), True)
    file = read_regions(engine, parquet(tmp_path / "grfc.parquet", GRFC, BLOCKS[::-1]), ("01", "02"), True)
    for regions in (other, file):
        assert regions.fingerprint == plain.fingerprint
        assert regions.areas == plain.areas
        assert regions.blocks.equals(plain.blocks)


@pytest.mark.parametrize("column", range(6))
def test_the_fingerprint_tells_any_other_code(engine: Engine, tmp_path: Path, column: int) -> None:
    values = BLOCKS[0].split("|")
    values[column] = "72" if column == 0 else "7" * len(values[column])
    before, after = (read(engine, tmp_path, [row, *BLOCKS[1:]]) for row in (BLOCKS[0], "|".join(values)))
    assert before.fingerprint != after.fingerprint


def test_rows_of_other_states_are_not_looked_at(engine: Engine, tmp_path: Path) -> None:
    regions = read(engine, tmp_path, [*BLOCKS, "99|x|||bad|", "02|x|||bad|"], ("01",), False)
    assert regions.areas["STATE"] == ("01",)
    assert regions.fingerprint == read(engine, tmp_path, BLOCKS, ("01",), False).fingerprint


def test_states_without_blocks_are_one_warning(engine: Engine, tmp_path: Path) -> None:
    (warning,) = read(engine, tmp_path, states=("01", "55", "56")).warnings
    assert warning.severity == "warning"
    assert warning.what == "the file has no block of 2 states of the filter: 55, 56"


def test_missing_columns_are_told_all(engine: Engine, tmp_path: Path) -> None:
    source = text(tmp_path / "GRF-C.txt", ("TABBLKST", "TABBLK", "PLACE", "TABTRACTCE", "AIANNHCE"), ["01|1|1|1|1"])
    found = refused(engine, source)
    assert [(finding.code, finding.where.column) for finding in found] == [
        ("missing-column", "TABBLKCOU"),
        ("missing-column", "PLACEFP"),
    ]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, "1"),
        (0, "1a"),
        (0, ""),
        (1, "01"),
        (1, "0001"),
        (2, "00010 "),
        (3, "100x"),
        (4, "Null"),
        (4, "２２８００"),
        (5, ""),
        (5, "-999"),
    ],
)
def test_a_value_of_another_form_is_told_with_row_and_value(
    engine: Engine, tmp_path: Path, column: int, value: str
) -> None:
    values = BLOCKS[1].split("|")
    values[column] = value
    (finding,) = refused(engine, text(tmp_path / "GRF-C.txt", GRFC, [BLOCKS[0], BLOCKS[5], "|".join(values)]))
    assert (finding.where.row, finding.where.column) == (3, GRFC[column])
    assert finding.found == f"row 3: {repr(value) if value else 'no value'}"
    assert finding.expected == f"{(2, 3, 6, 4, 5, 4)[column]} digits in every row"


def test_all_findings_come_at_once_and_many_rows_are_counted(engine: Engine, tmp_path: Path) -> None:
    rows = [f"01|1|000100|1{number:03d}|none|0010" for number in range(20)]
    found = refused(engine, text(tmp_path / "GRF-C.txt", GRFC, [*BLOCKS, "x1|001|000100|1000|22800|9999", *rows]))
    assert [finding.where.column for finding in found] == ["TABBLKST", "TABBLKCOU", "PLACEFP"]
    assert found[1].what == "20 values are not codes"
    assert found[1].found is not None
    assert found[1].found.startswith("row 9: '1'; row 10: '1';")
    assert found[1].found.endswith("row 13: '1', ...")


def test_a_pass_without_blocks_is_refused(engine: Engine, tmp_path: Path) -> None:
    united_states = text(tmp_path / "us.txt", GRFC, BLOCKS[:5])
    found = refused(engine, united_states, ("05", "06"), True)
    assert [finding.what for finding in found] == [
        "the file has no block for the US pass",
        "the file has no block for the Puerto Rico pass",
    ]
    (finding,) = refused(engine, united_states, ("01",), True)
    assert finding.expected == "a row with state 72"
    (finding,) = refused(engine, text(tmp_path / "empty.txt", GRFC, []))
    assert finding.code == "no-blocks"


def test_a_block_that_stands_twice_is_refused(engine: Engine, tmp_path: Path) -> None:
    again = BLOCKS[2].replace("99999", "22800")
    (finding,) = refused(engine, text(tmp_path / "GRF-C.txt", GRFC, [*BLOCKS, again, BLOCKS[0]]))
    assert finding.code == "duplicate-block"
    assert finding.what == "2 rows repeat a block of another row"
    assert finding.found == "rows 1 and 9: 010010001001000; rows 3 and 8: 010010002001000"
    assert finding.where.row == 8
    found = refused(engine, text(tmp_path / "GRF-C.txt", GRFC, [*BLOCKS, BLOCKS[3], BLOCKS[0].removesuffix("0010")]))
    assert [(finding.code, finding.where.row) for finding in found] == [("bad-geography", 9), ("duplicate-block", 8)]


def test_parquet_of_numbers_or_with_nulls_is_refused(engine: Engine, tmp_path: Path) -> None:
    columns = {name: [value] for name, value in zip(GRFC, BLOCKS[0].split("|"), strict=True)}
    pq.write_table(pa.table(columns | {"PLACEFP": [22800]}), tmp_path / "a.parquet")
    (finding,) = refused(engine, Source(tmp_path / "a.parquet", "parquet"))
    assert (finding.code, finding.where.column) == ("column-type", "PLACEFP")
    pq.write_table(pa.table(columns | {"AIANNHCE": pa.array([None], pa.string())}), tmp_path / "b.parquet")
    (finding,) = refused(engine, Source(tmp_path / "b.parquet", "parquet"))
    assert (finding.where.column, finding.found) == ("AIANNHCE", "row 1: no value")


def test_lines_of_another_length_are_refused_by_number(engine: Engine, tmp_path: Path) -> None:
    found = refused(engine, text(tmp_path / "GRF-C.txt", GRFC, [BLOCKS[0], "01|001", f"{BLOCKS[1]}|"]))
    assert [(finding.code, finding.where.line) for finding in found] == [("short-line", 3), ("long-line", 4)]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/data/safetab is not there")
def test_the_toy_file_of_the_census_bureau(engine: Engine) -> None:
    source = Source(SHARED / "GRF-C.txt", "csv", delimiter="|", quoted=False)
    regions = read_regions(engine, source, ("01", "02", "11"), True)
    counts = {name: len(areas) for name, areas in regions.areas.items()}
    assert list(counts.values()) == [1, 3, 5, 9, 2, 3, 1, 1, 2, 1]
    published = (SHARED.parent / "toy_us_pr_infinite" / "t1.csv").read_text().split("\n")[1:]
    named = {tuple(line.split("|")[1::-1]) for line in published if line}
    assert named == {(name, area) for name, areas in regions.areas.items() for area in areas}
