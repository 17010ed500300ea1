"""Geography that records carry in their own columns: how it is known, laid out, refused, and kept by the curator."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.kits.commands import run
from tests.kits.messy_office import MUNICIPALITIES, messy_office

import confide
from confide.engines import LocalEngine
from confide.errors import ConfideError
from confide.inputs import PlacesProposal, look_at_file, propose_record_places


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    with LocalEngine(tmp_path / "scratch", processes=1) as opened:
        yield opened


def records(folder: Path, names: Sequence[str], rows: Sequence[Sequence[object]], ending: str = "csv") -> Path:
    """A file of records: each row several times, with another sex and age each time."""
    path = folder / f"people.{ending}"
    columns = {name: [row[at] for row in rows for _ in range(12)] for at, name in enumerate(names)}
    columns |= {
        "sex": ["MF"[at % 2] for at in range(12 * len(rows))],
        "age": [7 * at % 90 for at in range(12 * len(rows))],
    }
    table = pa.table(columns)
    (pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table)(table, path)
    return path


def places_of(path: Path, engine: LocalEngine, **given: str) -> PlacesProposal:
    return propose_record_places(look_at_file(path, engine), engine, **given)


def table_of(places: PlacesProposal) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(places.table)))


COUNTRIES = {
    "france": (
        ["Code commune", "Libellé", "Département", "Région"],
        [
            ["01001", "Albon", "01", "Rhône"],
            ["01002", "Brion", "01", "Rhône"],
            ["07001", "Cruas", "07", "Rhône"],
            ["2A004", "Ajaccio", "2A", "Corse"],
            ["2B033", "Bastia", "2B", "Corse"],
        ],
        [None, "Région", "Département"],
        {"Code commune": "Libellé"},
    ),
    "germany": (
        ["AGS", "Gemeindename", "Kreis", "Kreisname", "Land"],
        [
            ["09162000", "München", "09162", "München, Stadt", "09"],
            ["09184112", "Aying", "09184", "München, Land", "09"],
            ["09184113", "Baierbrunn", "09184", "München, Land", "09"],
            ["08111000", "Stuttgart", "08111", "Stuttgart, Stadt", "08"],
            ["08115001", "Aidlingen", "08115", "Böblingen", "08"],
        ],
        [None, "Land", "Kreis"],
        {"AGS": "Gemeindename", "Kreis": "Kreisname"},
    ),
    "united states": (
        ["block", "tract", "county", "state", "zip"],
        [
            ["440010001001000", "44001000100", "44001", "44", "02806"],
            ["440010001001001", "44001000100", "44001", "44", "02809"],
            ["440010002001000", "44001000200", "44001", "44", "02806"],
            ["440030001001000", "44003000100", "44003", "44", "02809"],
            ["250010001001000", "25001000100", "25001", "25", "02809"],
        ],
        [None, "state", "county", "tract"],
        {},
    ),
    "japan": (
        ["prefecture", "city_code"],
        [["13", "13101"], ["13", "13102"], ["01", "01101"], ["01", "01102"]],
        [None, "prefecture"],
        {},
    ),
    "one level": (["kommune"], [["0301"], ["1103"], ["4601"]], [None], {}),
}


@pytest.mark.parametrize("country", COUNTRIES)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_levels_names_and_nesting_are_read_from_the_columns(
    tmp_path: Path, engine: LocalEngine, country: str, ending: str
) -> None:
    names, rows, levels, called = COUNTRIES[country]
    places = places_of(records(tmp_path, names, rows, ending), engine)
    assert [column for _, column in places.levels] == levels
    assert dict(places.called) == called
    assert [tuple(row[name] for name in names) for row in table_of(places)] == sorted(
        (tuple(map(str, row)) for row in rows), key=lambda row: row[names.index(places.block)]
    )
    assert set(places.left_out) == set(names) - {places.block}


def test_areas_that_cross_the_levels_are_offered_besides(tmp_path: Path, engine: LocalEngine) -> None:
    names, rows, *_ = COUNTRIES["united states"]
    places = places_of(records(tmp_path, names, rows), engine)
    assert (places.areas, places.smallest) == (("zip",), "block")


def test_grid_cells_have_their_larger_cells_above(tmp_path: Path, engine: LocalEngine) -> None:
    rows = [[f"1kmN{n}E{e}", f"10kmN{n // 10}E{e // 10}", n % 2] for n in range(2689, 2701) for e in (4337, 4348)]
    places = places_of(records(tmp_path, ["GRD_1KM", "GRD_10KM", "coast"], rows, "parquet"), engine)
    assert places.block == "GRD_1KM"
    assert [column for _, column in places.levels] == [None, "GRD_10KM"]
    assert places.areas == ("coast",)


def test_where_somebody_was_born_is_an_attribute(tmp_path: Path, engine: LocalEngine) -> None:
    rows = [[code, region, born] for code, region in (("1", "N"), ("2", "N"), ("3", "S")) for born in "NSX"]
    places = places_of(records(tmp_path, ["municipality", "region", "region of birth"], rows), engine)
    assert places.left_out == ("region",)


def test_few_records_in_a_place_make_no_attribute_a_part_of_it(tmp_path: Path, engine: LocalEngine) -> None:
    path = tmp_path / "people.csv"
    path.write_text("cell,sex\n" + "".join(f"c{at // 2},{'MF'[at // 2 % 2]}\n" for at in range(80)), encoding="utf-8")
    assert places_of(path, engine).left_out == ()


def test_a_code_in_two_upper_areas_is_one_finding_without_values(tmp_path: Path, engine: LocalEngine) -> None:
    names, rows, *_ = COUNTRIES["germany"]
    path = records(tmp_path, names, rows)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"09184","München, Land"', '"08111","Stuttgart, Stadt"', 2), encoding="utf-8")
    with pytest.raises(ConfideError) as refused:
        places_of(path, engine)
    (finding,) = refused.value.findings
    assert finding.code == "not-nested"
    assert "1 of 5 codes of 'AGS' occur with several codes of 'Kreis', and 2 rows disagree" in finding.found
    assert "09184" not in str(finding)


def test_codes_that_repeat_from_area_to_area_are_one_finding(tmp_path: Path, engine: LocalEngine) -> None:
    rows = [[state, f"{county:03d}"] for state in ("01", "02", "04") for county in range(1, 9)]
    path = records(tmp_path, ["state", "county"], rows)
    with pytest.raises(ConfideError) as refused:
        places_of(path, engine)
    (finding,) = refused.value.findings
    assert finding.code == "repeated-codes"
    assert "joins the codes of 'state' and 'county'" in (finding.remedy or "")


def test_a_column_of_another_name_has_to_be_named(tmp_path: Path, engine: LocalEngine) -> None:
    path = records(tmp_path, ["q7", "q8"], [["11", "1"], ["12", "1"], ["21", "2"], ["22", "2"], ["23", "2"]])
    with pytest.raises(ConfideError, match="no column of the records has the name of an area"):
        places_of(path, engine)
    places = places_of(path, engine, place="q7")
    assert (places.block, places.areas, places.proposed) == ("q7", ("q8",), 5)


@pytest.mark.parametrize("mechanism", ["tables", "topdown", "cellkey", "suppression", "swapping"])
def test_what_is_drafted_without_a_file_of_areas_passes_the_check(tmp_path: Path, mechanism: str) -> None:
    people, _ = messy_office(tmp_path, 240)
    drafted = confide.new(mechanism, tmp_path / "office", from_file=people, merged={"017": "018"})
    checked = confide.check(drafted.spec, processes=1)
    assert checked.errors == ()
    areas = tmp_path / "office" / "areas.csv"
    with areas.open(encoding="utf-8", newline="") as file:
        assert [row["kommun"] for row in csv.DictReader(file)] == sorted(MUNICIPALITIES)
    assert areas.stat().st_mode & 0o077 == 0
    assert "Keeping it\n# makes its codes and names public" in drafted.spec.read_text(encoding="utf-8")


def test_the_command_says_levels_and_that_the_file_has_to_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, rows, *_ = COUNTRIES["france"]
    records(tmp_path, names, [*rows, ["", "", "01", "Rhône"]])
    monkeypatch.chdir(tmp_path)
    printed = run("new", "tables", "office", "--from", "people.csv")
    assert (
        "areas: the smallest are in column 'Code commune'; levels: country > region > departement > code_commune"
        in printed
    )
    assert (
        "areas.csv: 5 areas, proposed from the records. Only you can read the file. It becomes public when you keep it"
        in printed
    )
    assert "records without a code in 'Code commune': 12" in printed
