"""What is proposed from an office's files: columns, places, layouts; and that nothing of it is taken without a look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from tests.kits.messy_office import messy_office

import confide
from confide.documents import load_schema
from confide.engines import LocalEngine
from confide.errors import ConfideError
from confide.inputs import ColumnProposal, look_at_file, propose_column, propose_places


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    with LocalEngine(tmp_path / "scratch", processes=1) as opened:
        yield opened


def proposed(name: str, *values: str, times: int = 40) -> ColumnProposal:
    return propose_column(name, dict.fromkeys(values, times))


def test_letters_words_and_case_are_one_level() -> None:
    column = proposed("sex", "M", "m", "Male", "F", "female", "", "n/a")
    assert column.levels == (("F", "female"), ("M", "male"))
    assert dict(column.aliases) == {"F": ("female",), "M": ("Male", "m")}
    assert (column.missing, column.missing_codes) == (True, ("n/a",))


def test_two_words_with_one_initial_stay_apart_from_the_letter() -> None:
    column = proposed("status", "m", "married", "maiden")
    assert [code for code, _ in column.levels] == ["m", "maiden", "married"]
    assert not column.aliases


def test_ages_are_a_range_with_an_open_end_and_codes_of_nothing() -> None:
    column = proposed("age", *map(str, range(0, 90, 3)), "85+", "999", "n/a", "old")
    assert column.bounds == (0, 87)
    assert dict(column.aliases) == {"85": ("85+",)}
    assert column.missing_codes == ("n/a", "old", "999")
    assert list(column.recodes) == ["five-year", "broad"]
    closed = proposed("Alter", *map(str, range(20)), "100+")
    assert (closed.bounds, closed.levels) == ((0, 100), ((100, "100 and over"),))
    assert proposed("age", "3", "4").bounds == (0, 100)


def test_codes_keep_their_zeros_and_numbers_are_codes_where_they_are_few() -> None:
    assert proposed("job", "01", "02", "1").levels == (("01", "01"), ("02", "02"), ("1", "1"))
    assert proposed("job", "1", "2", "3").levels == ((1, "1"), (2, "2"), (3, "3"))
    rooms = proposed("rooms", *map(str, range(1, 31)))
    assert (rooms.bounds, dict(rooms.recodes)["groups"][:2]) == ((1, 30), (1, 4))


@pytest.mark.parametrize(
    ("name", "values", "word"),
    [
        ("born", ["2031-01-02", "1990-12-31"], "dates"),
        ("born", ["02.01.2031", "31.12.1990"], "dates"),
        ("income", ["1234,50", "0,5", "7"], "decimals"),
        ("nothing", ["", "n/a"], "nothing is known"),
        ("empty", [""], "no values"),
    ],
)
def test_what_is_no_category_is_left_out_with_a_reason(name: str, values: list[str], word: str) -> None:
    assert word in proposed(name, *values).left_out


def test_identifiers_and_free_text_are_left_out() -> None:
    assert "almost every row" in proposed("pin", *map(str, range(500)), times=1).left_out
    assert proposed("remark", *(f"said {number} things" for number in range(300)), times=2).left_out


def test_labels_that_mark_totals_are_not_proposed() -> None:
    assert proposed("kind", "all", "some").levels == (("all", "all (code)"), ("some", "some"))


def areas(folder: Path, text: str) -> Path:
    path = folder / "areas.csv"
    path.write_text(text, encoding="utf-8")
    return path


PEOPLE = "mun,sex\n" + "".join(f"{code},M\n" for code in ["001", "014", "924A", "S07"] * 6)


def test_levels_are_the_columns_that_nest_and_names_are_none(tmp_path: Path, engine: LocalEngine) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    rows = [
        "001,Åby,N1,North,N,E",
        "014,Vik,N2,North,N,W",
        "924A,Höje,S1,South,S,E",
        "S07,Bro,S2,South,S,W",
        "S08,Tom,S2,South,S,W",
    ]
    file = areas(tmp_path, "code,name,district,region_name,region,side\n" + "\n".join(rows) + "\n")
    places = propose_places(look_at_file(tmp_path / "people.csv", engine), look_at_file(file, engine), engine)
    assert (places.block, places.block_column, places.smallest) == ("mun", "code", "mun")
    assert places.levels == (("country", None), ("region", "region"), ("district", "district"))
    assert places.areas == ("side",)
    assert dict(places.called) == {"code": "name", "region": "region_name"}
    assert places.table is None


def test_a_code_list_with_parents_of_any_depth_is_laid_out(tmp_path: Path, engine: LocalEngine) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    rows = ["X,,Land", "N,X,North", "S,X,South", "N1,N,Upper", "001,N1,Åby", "014,N1,Vik", "924A,S,Höje", "S07,S,Bro"]
    file = areas(tmp_path, "code,parent,name\n" + "\n".join(rows) + "\n")
    places = propose_places(look_at_file(tmp_path / "people.csv", engine), look_at_file(file, engine), engine)
    assert places.table is not None
    names = "code_name,level_1_name,level_2_name,level_3_name"
    assert places.table.splitlines()[:2] == [f"code,level_1,level_2,level_3,{names}", "001,X,N,N1,Åby,Land,North,Upper"]
    assert "924A,X,S,924A,Höje,Land,South,Höje" in places.table
    assert [column for _, column in places.levels] == [None, "level_2", "level_3"]
    assert dict(places.called) == {"code": "code_name", "level_2": "level_2_name", "level_3": "level_3_name"}
    assert places.smallest == "mun", "the records' word: code is none"


def test_codes_of_before_a_merger_are_found_in_the_areas_or_given(tmp_path: Path, engine: LocalEngine) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE + "017,F\n019,F\n", encoding="utf-8")
    file = areas(tmp_path, "code,formerly\n001,\n014,017\n924A,\nS07,\n")
    looks = look_at_file(tmp_path / "people.csv", engine), look_at_file(file, engine)
    places = propose_places(*looks, engine)
    assert (dict(places.aliases), places.unknown) == ({"014": ("017",)}, 1)
    places = propose_places(*looks, engine, {"019": "S07"})
    assert (dict(places.aliases), places.unknown) == ({"014": ("017",), "S07": ("019",)}, 0)
    with pytest.raises(ConfideError, match="is not in the file of areas"):
        propose_places(*looks, engine, {"019": "S09"})


def test_codes_of_before_a_merger_are_found_by_the_name_that_records_have(tmp_path: Path, engine: LocalEngine) -> None:
    people = [("001", "Åby"), ("014", "Vik"), ("017", "Vik"), ("S07", "Bro"), ("S09", "Bro"), ("S09", "Vik")] * 5
    (tmp_path / "people.csv").write_text(
        "mun,town,sex\n" + "".join(f"{code},{name},M\n" for code, name in people), encoding="utf-8"
    )
    file = areas(tmp_path, "code,name\n001,Åby\n014,Vik\nS07,Bro\n")
    looks = look_at_file(tmp_path / "people.csv", engine), look_at_file(file, engine)
    places = propose_places(*looks, engine)
    assert (dict(places.aliases), places.by_name, places.unknown) == ({"014": ("017",)}, 1, 1)
    given = propose_places(*looks, engine, {"017": "001", "S09": "S07"})
    assert (given.by_name, given.unknown, given.aliases["001"]) == (0, 0, ("017",))


def test_areas_of_another_country_are_a_finding(tmp_path: Path, engine: LocalEngine) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    file = areas(tmp_path, "code,region\nA,1\nB,2\n")
    with pytest.raises(ConfideError, match="do not occur in any column of the records"):
        propose_places(look_at_file(tmp_path / "people.csv", engine), look_at_file(file, engine), engine)


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(";", "latin-1"), ("\t", "utf-16"), (",", "utf-8-sig"), ("|", "utf-8")]
)
def test_delimiter_and_encoding_are_guessed(tmp_path: Path, engine: LocalEngine, delimiter: str, encoding: str) -> None:
    rows = [("kön", "ålder, år"), ("M", "1,5"), ("F", "2,5")]
    (tmp_path / "p.csv").write_bytes(
        "".join(delimiter.join(f'"{v}"' if delimiter == "," else v for v in row) + "\n" for row in rows).encode(
            encoding
        )
    )
    look = look_at_file(tmp_path / "p.csv", engine)
    assert look.columns == rows[0]
    assert look.source.delimiter == delimiter


def test_a_schema_from_a_workbook_can_be_read_and_is_not_printed(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in [("sex", "mun"), *[("M", 1), ("F", 2)] * 10]:
        book.active.append(row)
    for row in range(2, 22):
        book.active.cell(row, 2).number_format = "000"
    book.save(tmp_path / "people.xlsx")
    proposed_schema = confide.new_schema(tmp_path / "people.xlsx", tmp_path / "schema.toml")
    schema = load_schema(str(tmp_path / "schema.toml"), tmp_path)
    assert [level.code for level in schema.attributes[1].levels] == ["001", "002"]
    assert "001" not in repr(proposed_schema) + str(proposed_schema.as_dict())


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    people, file = messy_office(tmp_path, 60)
    (tmp_path / "schema.toml").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfideError, match="already"):
        confide.new_schema(people, tmp_path / "schema.toml")
    with pytest.raises(ConfideError, match="already"):
        confide.new("tables", tmp_path, from_file=people, geography=file)
    assert not (tmp_path / "spec.toml").exists()
    assert (tmp_path / "schema.toml").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("mechanism", ["tables", "topdown", "cellkey", "suppression", "swapping"])
def test_what_is_drafted_for_each_mechanism_passes_the_check(tmp_path: Path, mechanism: str) -> None:
    people, file = messy_office(tmp_path, 120)
    drafted = confide.new(mechanism, tmp_path / "office", from_file=people, geography=file, merged={"017": "018"})
    checked = confide.check(drafted.spec, processes=1)
    assert checked.errors == ()
    assert checked.plan is not None
    assert checked.plan.question["reading"]["places"] == {"trim": True, "aliases": {"018": ["017"]}}
    assert (drafted.ledger is not None) == (mechanism in ("tables", "topdown"))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"geography": "areas.csv", "household": "home"}, "missing-column"),
        ({"geography": "areas.csv", "place": "kommun"}, "two-geographies"),
        ({"place": "parish"}, "missing-column"),
        ({"merged": {"017": "0018"}}, "merged"),
    ],
)
def test_what_is_not_said_is_asked_for(tmp_path: Path, arguments: dict[str, Any], code: str) -> None:
    people, _ = messy_office(tmp_path, 60)
    given = {key: str(tmp_path / value) if key == "geography" else value for key, value in arguments.items()}
    with pytest.raises(ConfideError) as refused:
        confide.new("swapping", tmp_path / "office", from_file=people, **given)
    assert [finding.code for finding in refused.value.findings] == [code]


@pytest.mark.parametrize(
    ("people", "areas", "code"),
    [
        ("", None, "no-records"),
        ("", "mun,region\n001,N\n014,N\n", "no-records"),
        ("001,M\n014,F\n", "mun,region\n", "no-areas"),
        ("001,M\n014,F\nTotal,\n", None, "total-row"),
        ("001,M\n014,F\nInsgesamt,\n", "mun,region\n001,N\n014,N\n", "total-row"),
        ("001,M\n014,F\n014\n", None, "unreadable"),
    ],
)
def test_files_that_are_no_records_or_no_areas_are_one_finding(
    tmp_path: Path, people: str, areas: str | None, code: str
) -> None:
    (tmp_path / "people.csv").write_text("municipality,sex\n" + people, encoding="utf-8")
    geography = None if areas is None else tmp_path / "areas.csv"
    if geography is not None:
        geography.write_text(str(areas), encoding="utf-8")
    with pytest.raises(ConfideError) as refused:
        confide.new("tables", tmp_path / "office", from_file=tmp_path / "people.csv", geography=geography)
    assert [finding.code for finding in refused.value.findings] == [code]
    assert not (tmp_path / "office").exists()


def test_an_area_called_like_a_total_is_one_if_the_file_of_areas_has_it(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("municipality,sex\n001,M\nSuma,F\nSuma,M\n", encoding="utf-8")
    (tmp_path / "areas.csv").write_text("municipality,region\n001,N\nSuma,S\n", encoding="utf-8")
    files = {"from_file": tmp_path / "people.csv", "geography": tmp_path / "areas.csv"}
    assert confide.check(confide.new("tables", tmp_path / "office", **files).spec, processes=1).errors == ()


def test_records_with_a_ledger_get_no_second_one(tmp_path: Path) -> None:
    people, file = messy_office(tmp_path, 120)
    first = confide.new("tables", tmp_path / "first", from_file=people, geography=file, merged={"017": "018"})
    confide.run(first.spec, processes=1)
    with pytest.raises(ConfideError) as refused:
        confide.new("topdown", tmp_path / "second", from_file=people, geography=file)
    assert [finding.code for finding in refused.value.findings] == ["second-ledger"]
    named = confide.new("topdown", tmp_path / "named", from_file=people, geography=file, ledger_file=first.ledger)
    without = confide.new("topdown", tmp_path / "none", from_file=people, geography=file, open_ledger=False)
    spends_nothing = confide.new("suppression", tmp_path / "other", from_file=people, geography=file)
    assert [each.ledger for each in (named, without, spends_nothing)] == [None] * 3


def test_the_order_of_a_drafted_cell_key_table_is_secret_and_not_in_the_spec(tmp_path: Path) -> None:
    people, file = messy_office(tmp_path, 60)
    drafted = confide.new("cellkey", tmp_path / "office", from_file=people, geography=file)
    order = tmp_path / "office" / "order.secret"
    assert order.stat().st_mode & 0o777 == 0o600
    text = drafted.spec.read_text(encoding="utf-8")
    assert 'shuffle_file = "order.secret"' in text
    assert order.read_text(encoding="ascii").strip() not in text
    again = confide.new("cellkey", tmp_path / "again", from_file=people, geography=file).spec.parent / "order.secret"
    assert order.read_text(encoding="ascii") != again.read_text(encoding="ascii")


def test_whole_numbers_with_decimals_are_told_from_others() -> None:
    assert "whole numbers" in proposed("age", "1.0", "2.0", "45.0").left_out
    assert "whole numbers" not in proposed("age", "1.0", "2.5", "45.0").left_out


@pytest.mark.parametrize(
    ("lines", "remedy"),
    [
        (["Who;;Where;", "sex;age;commune;dep", "M;1;01001;01"], "line 2 looks like the column names"),
        (["Census 2031;;;", "", "sex;age;commune;dep", "M;1;01001;01"], "line 3 looks like the column names"),
        (["sex;;commune;dep", "M;1;01001;01", "F;2;01001;01"], "give each column its own name"),
        (["M;1;01001;01", "F;2;01001;01"], "above the first record"),
    ],
)
def test_a_file_with_its_names_elsewhere_is_one_finding(
    tmp_path: Path, engine: LocalEngine, lines: list[str], remedy: str
) -> None:
    (tmp_path / "p.csv").write_text("\n".join(lines) + "\n", encoding="cp1252")
    with pytest.raises(ConfideError) as refused:
        look_at_file(tmp_path / "p.csv", engine)
    (finding,) = refused.value.findings
    assert (finding.code, remedy in (finding.remedy or "")) == ("csv-header", True)
