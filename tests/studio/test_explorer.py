"""The release explorer: what it shows is what is published, whatever stands in the labels."""

from __future__ import annotations

import io
import shutil
import time
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.studio import ORIGIN, enlarged, entered, forged

import confide
from confide.errors import ConfideError
from confide.lazy_names import meaning
from confide.studio import table_view
from confide.studio.table_view import PAGE_ROWS, TableReader, View, ViewDimension, estimates, pandas_code, r_code

TABLE = "age-by-sex"
HERE = "two-states/release"
SCRIPT = "<script>alert('A & B')</script>"


@pytest.fixture(scope="module")
def release(seal: Any) -> confide.Release:
    return confide.open_release(seal("tables"))


@pytest.fixture(scope="module")
def reader(release: confide.Release) -> TableReader:
    return TableReader(release.tables[TABLE])


def chosen_by_hand(rows: pa.Table, **codes: list[str]) -> list[dict[str, Any]]:
    for column, values in codes.items():
        rows = rows.filter(pc.is_in(rows.column(column.replace("__", ":")), pa.array(values)))
    listed: list[dict[str, Any]] = rows.to_pylist()
    return listed


def plain(rows: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "#row"} for row in rows]


def test_a_view_has_the_rows_that_were_chosen_in_their_order(reader: TableReader) -> None:
    published = reader.table.arrow()
    view = View((("level", "county"), ("level", "state"), ("sex", "1")))
    by_hand = chosen_by_hand(published, level=["state", "county"], sex=["1"])
    page = reader.page(view)
    assert page.total == len(by_hand) > 10
    assert plain(page.rows) == by_hand
    assert reader.all_rows(view).to_pylist() == by_hand
    largest = reader.page(View(view.where, order="count", descending=True))
    assert [row["count"] for row in largest.rows] == sorted((row["count"] for row in by_hand), reverse=True)


def test_pages_follow_each_other_and_miss_nothing(reader: TableReader) -> None:
    everything = View()
    pages = [reader.page(View(page=number)) for number in (1, 2, 3, 4)]
    assert pages[0].pages == 4 == -(-reader.table.arrow().num_rows // PAGE_ROWS)
    assert [row["#row"] for page in pages for row in page.rows] == list(range(pages[0].total))
    assert reader.page(View(page=10**9)).page == 4, "beyond the end is the last page"
    assert reader.page(everything).total == reader.table.listed_rows


def test_lines_go_over_ages_with_a_line_for_each_sex(seal: Any, reader: TableReader) -> None:
    drawn = table_view.lines(reader, View((("level", "state"), ("area", "90"))), "sex", "sex").as_dict()
    published = chosen_by_hand(reader.table.arrow(), level=["state"], area=["90"], sex=["1", "2", "_T"])
    expected = {
        (row["age:broad_label"], {"_T": "all together"}.get(row["sex"], row["sex_label"])): (
            row["count"], row["count"] - row["noise_margin"], row["count"] + row["noise_margin"]
        )
        for row in published if row["age:broad"] != "_T"
    }  # fmt: skip
    shown = {(row["name"], row["part"]): (row["value"], row["low"], row["high"]) for row in drawn["datasets"]["rows"]}
    assert shown == expected, "the variable without an order gives way to the one that has one"
    page = entered(seal("tables").parents[1]).get(
        "/explore/table", params={"release": HERE, "table": TABLE, "show": "lines"}
    )
    assert "Along the line" in page.text
    mixed = ViewDimension("room", "Rooms", "variable", (("a", "3 rooms"), ("b", "1 room"), ("c", "2 rooms")))
    assert table_view.ordered(mixed) == ()
    with pytest.raises(ConfideError) as error:
        table_view.lines(TableReader(confide.open_release(seal("tables")).tables["work-by-sex"]), View(), "", None)
    assert error.value.findings[0].code == "no-lines"


def test_a_search_finds_areas(reader: TableReader) -> None:
    found = reader.page(View((("level", "county"),), search=" 90001 "))
    assert {row["area"] for row in found.rows} == {"90001"}
    assert reader.page(View(search="'; DROP TABLE published; --")).total == 0
    assert reader.page(View()).total > 0


def test_a_cross_table_has_each_figure_at_its_place(reader: TableReader) -> None:
    crossed = reader.crossed(View((("level", "state"),)), "area", "sex")
    assert [code for code, _ in crossed.heads] == ["_T", "1", "2"]
    for code, _, cells in crossed.lines:
        for (head, _), cell in zip(crossed.heads, cells, strict=True):
            (row,) = chosen_by_hand(reader.table.arrow(), level=["state"], area=[code], sex=[head], age__broad=["_T"])
            assert cell is not None
            assert (cell.value, cell.margin) == (row["count"], row["noise_margin"])
    assert [(dimension.column, code) for dimension, code in crossed.fixed] == [("level", "state"), ("age:broad", "_T")]


def test_sums_differences_and_ratios_are_those_of_the_library(release: confide.Release, reader: TableReader) -> None:
    a, b = [1, 2], [0]
    answer = estimates(release, reader, a, b)
    assert answer is not None
    rows = [release.tables[TABLE].arrow().take(places) for places in (a, b)]
    assert answer.sum_a == release.sum(rows[0], table=TABLE)
    assert answer.difference == release.difference(*rows, table=TABLE)
    assert answer.ratio == release.ratio(*rows, table=TABLE)
    assert estimates(release, reader, [], b) is None
    for beyond in ([10**6], [-1]):
        with pytest.raises(ConfideError):
            estimates(release, reader, beyond, [])


def test_the_code_of_a_view_gives_the_view(reader: TableReader) -> None:
    view = View((("level", "county"), ("age:broad", "0-14"), ("age:broad", "15-29")))
    names: dict[str, Any] = {}
    exec(pandas_code(reader.table, view), names)
    assert names["view"].to_dict("records") == reader.all_rows(view).to_pylist()
    assert 'table[["age:broad"]] %in% c("0-14", "15-29")' in r_code(reader.table, view)


def test_a_view_can_be_taken_as_a_file(seal: Any, reader: TableReader) -> None:
    browser = entered(seal("tables").parents[1])
    asked = {"release": HERE, "table": TABLE, "where": ["level=county", "sex=2"]}
    expected = reader.all_rows(View((("level", "county"), ("sex", "2"))))
    got = {name: browser.get("/explore/file", params=asked | {"format": name}) for name in ("csv", "parquet", "xlsx")}
    assert {name: answer.status_code for name, answer in got.items()} == dict.fromkeys(got, 200)
    assert pq.read_table(io.BytesIO(got["parquet"].content)).to_pylist() == expected.to_pylist()
    texts = pyarrow.csv.ConvertOptions(column_types=expected.schema)
    assert (
        pyarrow.csv.read_csv(io.BytesIO(got["csv"].content), convert_options=texts).to_pylist() == expected.to_pylist()
    )
    sheet = openpyxl.load_workbook(io.BytesIO(got["xlsx"].content)).worksheets[0]
    rows = list(sheet.iter_rows(values_only=True))
    assert list(rows[0]) == expected.column_names
    assert [list(row) for row in rows[1:]] == [list(row.values()) for row in expected.to_pylist()]


def test_the_interface_answers_programs(seal: Any, reader: TableReader) -> None:
    browser = entered(seal("tables").parents[1])
    here = {"release": HERE}
    assert browser.get("/api/folder").json()["releases"] == [HERE]
    tables = {table["name"]: table for table in browser.get("/api/tables", params=here).json()}
    assert tables[TABLE]["dimensions"]["sex"] == {"_T": "all together", "1": "male", "2": "female"}
    rows = browser.get("/api/rows", params=here | {"table": TABLE, "where": ["level=state"]}).json()
    assert rows["rows"] == list(map(dict, reader.page(View((("level", "state"),))).rows))
    assert browser.get("/api/estimate", params=here | {"table": TABLE, "a": [1, 2], "b": 0}).json()["ratio"]["value"]
    assert browser.get("/api/verify", params=here).json()["ok"] is True
    described = browser.get("/api/openapi.json").json()["paths"]
    assert set(described) >= {"/api/folder", "/api/tables", "/api/rows", "/api/estimate", "/api/verify"}
    page = browser.get("/api").text
    assert all(path in page for path in described)


def test_the_interface_says_of_an_argument_what_its_function_says(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    described = browser.get("/api/openapi.json").json()["paths"]
    said = {each["name"]: each.get("description") for each in described["/api/doctor"]["get"]["parameters"]}
    said |= {each["name"]: each.get("description") for each in described["/api/board"]["get"]["parameters"]}
    assert said["household"] == meaning("confide.drafting:new", "household") == "The column that identifies households."
    assert said["lock"] == meaning("confide.trade_offs:tune", "locked")
    assert all(said[name] for name in ("place", "households", "at", "prior"))


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"table": "no-such"}, "no-table"),
        ({"table": TABLE, "where": "colour=red"}, "no-column"),
        ({"table": TABLE, "a": 10**6}, "no-rows"),
        ({"table": TABLE}, "nothing-chosen"),
    ],
)
def test_a_wrong_question_is_a_finding(seal: Any, asked: dict[str, Any], code: str) -> None:
    browser = entered(seal("tables").parents[1])
    answer = browser.get("/api/estimate", params={"release": HERE} | asked)
    assert (answer.status_code, answer.json()["findings"][0]["code"]) == (400, code)


def test_an_address_that_nobody_can_mean_is_a_page_for_people_and_a_list_for_programs(seal: Any) -> None:
    browser = entered(seal("tables").parents[1])
    wrong = {"release": HERE, "table": TABLE, "show": "<b>", "page": "0"}
    page = browser.get("/explore/table", params=wrong)
    assert (page.status_code, page.headers["content-type"]) == (400, "text/html; charset=utf-8")
    assert "page, show" in page.text
    answer = browser.get("/api/rows", params=wrong)
    assert answer.status_code == 422
    assert {each["loc"][-1] for each in answer.json()["detail"]} == {"page", "show"}


def test_script_in_labels_and_titles_is_text(seal: Any, tmp_path: Path) -> None:
    copy = shutil.copytree(seal("tables").parents[1], tmp_path / "copy")
    forged(copy / HERE, labels=SCRIPT, titles=SCRIPT)
    browser = entered(copy)
    here = {"release": HERE}
    shows = [{"table": TABLE, "show": show, "where": "level=state", "a": 1} for show in ("table", "cross", "bars")]
    pages = [browser.get("/"), browser.get("/explore", params=here)]
    pages += [browser.get("/explore/table", params=here | more) for more in shows]
    for page in pages:
        assert page.status_code == 200
        assert "alert(" in page.text, "the label is shown"
        assert SCRIPT not in page.text
    kept = browser.get("/explore/explore.html", params=here).text
    assert "alert(" in kept
    assert SCRIPT not in kept
    picture = browser.get("/explore/figure.svg", params=here | shows[2])
    assert SCRIPT not in picture.text
    assert "sandbox" in picture.headers["content-security-policy"]


def test_a_document_of_a_release_may_do_nothing(seal: Any, tmp_path: Path) -> None:
    copy = shutil.copytree(seal("tables").parents[1], tmp_path / "copy")
    (copy / HERE / "certificate.html").write_text("<script>alert(1)</script>")
    browser = entered(copy)
    here = {"release": HERE}
    page = browser.get("/explore/document", params=here | {"file": "certificate.html"})
    assert "sandbox" in page.headers["content-security-policy"]
    assert "script-src" not in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for file in ("tables/../../confidential/key", "../confidential/run.json", "nothing.html"):
        assert browser.get("/explore/document", params=here | {"file": file}).status_code == 400
    assert "not as sealed" in browser.get("/explore/seal", params=here).text.lower()


def test_a_release_whose_table_was_changed_is_not_shown(seal: Any, tmp_path: Path) -> None:
    copy = shutil.copytree(seal("tables").parents[1], tmp_path / "copy")
    for file in (copy / HERE / "tables").iterdir():
        file.write_bytes(file.read_bytes().replace(b"male", b"mole"))
    answer = entered(copy).get("/explore/table", params={"release": HERE, "table": TABLE})
    assert answer.status_code == 400
    assert "not the one that the manifest lists" in answer.text


def test_a_pyramid_a_map_and_tiles_are_drawn_from_published_figures(reader: TableReader, tmp_path: Path) -> None:
    view = View((("level", "state"),))
    rows = table_view.pyramid(reader, view).as_dict()["datasets"]["rows"]
    assert {row["sex"] for row in rows if row["value"] < 0} == {"male"}
    assert {row["age"] for row in rows} >= {"0 to 14", "67 and over"}
    assert all(row["low"] is not None for row in rows)
    tiles = table_view.area_map(reader, view, "margin", None).as_dict()["datasets"]["rows"]
    published = {row["area"]: row for row in chosen_by_hand(reader.table.arrow(), level=["state"], margin=["total"])}
    shares = {code: round(100 * row["noise_margin"] / row["count"], 1) for code, row in published.items()}
    assert {tile["name"]: tile["value"] for tile in tiles} == shares
    ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    features = ", ".join(
        f'{{"properties": {{"id": "{code}"}}, "geometry": {{"type": "Polygon", "coordinates": [{ring}]}}}}'
        for code in published
    )
    (tmp_path / "own.geojson").write_text(f'{{"features": [{features}]}}')
    shapes = table_view.area_map(reader, view, "value", tmp_path / "own.geojson").as_dict()["datasets"]["features"]
    assert {shape["name"]: shape["value"] for shape in shapes} == {c: row["count"] for c, row in published.items()}
    with pytest.raises(ConfideError):
        table_view.bars(reader, View((("level", "state"),), search="nowhere"), "area", None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["topdown", "safetab", "cellkey", "suppression", "swapping", "postprocess"])
def test_every_table_of_every_mechanism_can_be_looked_at(seal: Any, name: str) -> None:
    folder = seal(name).parents[1]
    browser = entered(folder)
    here = {"release": seal(name).relative_to(folder).as_posix()}
    opened = confide.open_release(seal(name))
    for table in opened.tables:
        for show in ("table", "cross", "bars", "pyramid", "map"):
            asked = here | {"table": table, "show": show, "a": 0}
            assert browser.get("/explore/table", params=asked).status_code == 200, (table, show)
    assert browser.put("/api/maps/x.geojson", headers=ORIGIN, content=b"{}").status_code == 400


def test_a_table_of_a_hundred_thousand_rows_comes_a_page_at_a_time(seal: Any, tmp_path: Path) -> None:
    """Every answer is small, and takes the server less than a second of processor time (about a tenth, measured)."""
    folder = shutil.copytree(seal("tables").parents[1], tmp_path / "copy")
    enlarged(folder / HERE, TABLE, 100_000)
    browser = entered(folder)
    asked = {"release": HERE, "table": TABLE, "chosen": "1"}
    first = browser.get("/api/rows", params=asked).json()
    assert (first["total"], first["pages"], len(first["rows"])) == (100_000, 1_000, PAGE_ROWS)
    views = [{"page": "1000"}, {"search": "00001"}, {"order": "count", "descending": "true"}, {"where": "sex=1"}]
    for view in views:
        begun = time.process_time()
        page = browser.get("/explore/table", params=asked | view)
        assert time.process_time() - begun < 1.0, view
        assert page.status_code == 200
        assert page.text.count("<tr") <= PAGE_ROWS + 2
        assert len(page.content) < 300_000
