"""Outlines of areas with their figures: what GeoParquet 1.1 asks for, and nothing that the tables do not say."""

from __future__ import annotations

import json
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import rehash
from tests.kits.messy_office import MUNICIPALITIES as OFFICE
from tests.kits.messy_office import messy_office
from tests.kits.own_country import DATA, KEY, LEVELS, MUNICIPALITIES, open_ledger, topdown_spec, write_country
from tests.kits.pages import explore_content
from tests.kits.times import mostly_slow

import confide
from confide.releases.companions.geoparquet import well_known_binary

TABLES = (
    '[release]\nname = "counted"\nmechanism = "tables"\n'
    f'{DATA}schema = "schema.toml"\n[geography]\nblock = "kommune"\nlevels = {LEVELS}\n'
    '[privacy]\nledger = "norland.ledger"\nbudget = "4"\n'
    '[[tables]]\nname = "faith"\ntitle = "Faith by sex"\nvariables = ["tro", "kjonn"]\n'
    'levels = ["region", "district", "block"]\n'
)


def ring(west: float, south: float, side: float) -> list[list[float]]:
    return [[west, south], [west + side, south], [west + side, south + side], [west, south + side], [west, south]]


def outlines() -> dict[str, list[Any]]:
    """Squares: the first municipality has two of them, the second a hole, and the last none at all."""
    shapes: dict[str, list[Any]] = {code: [[ring(at, 60, 0.5)]] for at, code in enumerate([*MUNICIPALITIES][:-1])}
    first, second, *_ = shapes
    shapes[first].append([ring(0.6, 61, 0.1)])
    shapes[second][0].append(ring(1.1, 60.1, 0.2))
    return shapes


def write_outlines(folder: Path) -> None:
    features = [
        {
            "type": "Feature",
            "properties": {"id": code},
            "geometry": {"type": "MultiPolygon", "coordinates": polygons}
            if len(polygons) > 1
            else {"type": "Polygon", "coordinates": polygons[0]},
        }
        for code, polygons in outlines().items()
    ]
    content = {"type": "FeatureCollection", "features": features}
    (folder / "kommuner.geojson").write_text(json.dumps(content), encoding="utf-8")


def project(folder: Path, mechanism: str) -> Path:
    write_country(folder)
    write_outlines(folder)
    open_ledger(folder)
    spec = topdown_spec(folder) if mechanism == "topdown" else folder / "tables.toml"
    text = spec.read_text(encoding="utf-8") if mechanism == "topdown" else TABLES
    named = 'block = "kommune"\nblock_names = "navn"\nblock_geometry = "kommuner.geojson"\n'
    spec.write_text(text.replace('block = "kommune"\n', named, 1), encoding="utf-8")
    return spec


@pytest.fixture(scope="module", params=["topdown", "tables"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = project(tmp_path_factory.mktemp("geo") / "country", request.param)
    return confide.run(spec, insecure_key=KEY, processes=1).release


def file_of(release: Path) -> Path:
    return next((release / "geo").glob("block.*parquet"))


def points(content: bytes, at: int = 0) -> tuple[list[Any], int]:
    """WKB read again: polygons of rings of points."""
    order, kind, number = struct.unpack_from("<BII", content, at)
    assert order == 1
    at += 9
    if kind == 6:
        polygons = []
        for _ in range(number):
            inner, at = points(content, at)
            polygons += inner
        return polygons, at
    assert kind == 3
    rings = []
    for _ in range(number):
        (size,) = struct.unpack_from("<I", content, at)
        flat = struct.unpack_from(f"<{2 * size}d", content, at + 4)
        rings.append([list(pair) for pair in zip(flat[::2], flat[1::2], strict=True)])
        at += 4 + 16 * size
    return [rings], at


def test_the_metadata_is_what_the_standard_asks_for(release: Path) -> None:
    """https://geoparquet.org/releases/v1.1.0/: file metadata, column metadata, and the type of the column."""
    schema = pq.read_schema(file_of(release))
    stated = json.loads(schema.metadata[b"geo"])
    assert {"version", "primary_column", "columns"} == {*stated}
    assert stated["version"] == "1.1.0"
    assert schema.field(stated["primary_column"]).type == pa.binary()
    assert [*stated["columns"]] == [stated["primary_column"]]
    column = stated["columns"]["geometry"]
    assert column["encoding"] == "WKB"
    assert column["geometry_types"] == ["MultiPolygon", "Polygon"]
    assert column["bbox"] == [0, 60, 6.5, 61.1]
    assert "crs" not in column, "without it, longitude and latitude on WGS84 are meant"


def test_every_area_has_its_outline_and_its_figures(release: Path) -> None:
    rows = pq.read_table(file_of(release)).to_pylist()
    assert [row["area"] for row in rows] == sorted(MUNICIPALITIES)
    shapes = outlines()
    opened = confide.open_release(release)
    name, start = ("tro", "") if "tro" in opened.tables else ("faith", "faith: ")
    table = opened.tables[name].pandas()
    for row in rows:
        assert row["area_name"] == MUNICIPALITIES[row["area"]][2]
        if row["area"] not in shapes:
            assert row["geometry"] is None
            continue
        read, end = points(row["geometry"])
        assert end == len(row["geometry"])
        assert read == shapes[row["area"]]
        here = table[(table["level"] == "block") & (table["area"] == row["area"])]
        assert row[f"{start}total"] == here[here["margin"] == "total"]["count"].item()
        faith = here[here["margin"].isin(["cell"] if name == "tro" else ["by tro"])]
        for code, count in zip(faith["tro"], faith["count"], strict=True):
            assert row[f"{start}tro={code}"] == count
    assert confide.verify(release).ok
    drawn = explore_content((release / "explore.html").read_text(encoding="utf-8"))["outlines"]["block"]
    assert {code: [len(polygon) for polygon in polygons] for code, polygons in drawn} == {
        code: [len(polygon) for polygon in polygons] for code, polygons in shapes.items()
    }, "explore.html has the outlines, ring by ring"
    assert "GeoParquet" in (release / "README.txt").read_text(encoding="utf-8")


def test_figures_and_outlines_that_were_changed_are_found(release: Path, tmp_path: Path) -> None:
    table = pq.read_table(file_of(release))
    total = next(name for name in table.column_names if name.endswith("total"))
    at = table.column_names.index(total)
    more = table.set_column(at, table.schema.field(at), [pa.array([n + 1 for n in table.column(at).to_pylist()])])
    last = table.num_columns - 1
    cut = [None if each is None else each[:-1] for each in table.column(last).to_pylist()]
    broken = table.set_column(last, table.schema.field(last), [pa.array(cut, pa.binary())])
    for number, (changed, check) in enumerate([(more, "the figures of the tables"), (broken, "GeoParquet")]):
        copy = Path(shutil.copytree(release, tmp_path / str(number)))
        pq.write_table(changed, file_of(copy), compression="zstd")
        rehash(copy)
        wrong = [each.name for each in confide.verify(copy).checks if not each.ok]
        assert [each for each in wrong if each.startswith("geo/")] == [f"geo/block: {check}"]
        assert ("pages as the manifest has them" in wrong) == (changed is broken), "explore.html has the outlines"


@pytest.mark.parametrize("mechanism", mostly_slow(["swapping", "cellkey", "suppression"], in_make_test=1))
def test_every_mechanism_with_areas_has_outlines_under_the_words_of_the_office(tmp_path: Path, mechanism: str) -> None:
    """From an office's own files; of swapping with records too, which are counted again by that word."""
    people, file = messy_office(tmp_path, 800)
    codes = sorted(OFFICE)
    features = [
        {
            "type": "Feature",
            "properties": {"kommun": code},
            "geometry": {"type": "Polygon", "coordinates": [ring(at, 1, 1)]},
        }
        for at, code in enumerate(codes)
    ]
    outlines = json.dumps({"type": "FeatureCollection", "features": features})
    (tmp_path / "kommun.geojson").write_text(outlines, encoding="utf-8")
    spec = confide.new(mechanism, tmp_path / "a", from_file=people, geography=file, merged={"017": "018"}).spec
    text = spec.read_text(encoding="utf-8").replace("[geography]", '[geography]\nblock_geometry = "../kommun.geojson"')
    text = text.replace("[release]", '[release]\nlanguage = "de"').replace(', "sdmx-csv"', "")
    if mechanism == "swapping":
        text = text.replace("[output]", "[output]\nmicrodata = true")
    spec.write_text(text, encoding="utf-8")
    release = confide.run(spec, processes=1).release
    verified = confide.verify(release)
    assert [check.name for check in verified.checks if not check.ok] == []
    rows = pq.read_table(release / "geo" / "kommun.parquet").to_pylist()
    assert [(row["area"], row["area_name"]) for row in rows] == [(code, OFFICE[code][0]) for code in codes]
    assert all(points(row["geometry"])[0] == [[ring(at, 1, 1)]] for at, row in enumerate(rows))
    table = confide.open_release(release).tables["kon-by-age"].pandas()
    start = "" if mechanism == "swapping" else "kon-by-age: "
    totals = table[(table["level"] == "kommun") & (table["margin"] == "total")].set_index("area")["count"]
    assert {row["area"]: row[f"{start}total"] for row in rows} == totals.to_dict()
    page = (release / "statement.html").read_text(encoding="utf-8")
    assert not re.search(r"\bBlocks?\b", re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ('block_geometry = "nowhere.geojson"', "geometry"),
        ('block_geometry = "kommuner.csv"', "geometry"),
        ('block_geometry = "others.geojson"', "geometry-codes"),
    ],
)
def test_outlines_that_do_not_fit_are_found_before_anything_is_spent(tmp_path: Path, change: str, code: str) -> None:
    spec = project(tmp_path / "country", "tables")
    others = re.sub(r'"id": "[^"]*"', '"id": "?"', (spec.parent / "kommuner.geojson").read_text(encoding="utf-8"))
    (spec.parent / "others.geojson").write_text(others, encoding="utf-8")
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace('block_geometry = "kommuner.geojson"', change), encoding="utf-8")
    assert [finding.code for finding in confide.check(spec).findings] == [code]


def test_outlines_of_a_level_without_a_table_are_a_finding(tmp_path: Path) -> None:
    spec = project(tmp_path / "country", "tables")
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace(', "block"]', "]"), encoding="utf-8")
    assert [finding.code for finding in confide.check(spec).findings] == ["geometry-level"]


def test_an_area_without_polygons_has_no_outline() -> None:
    assert well_known_binary([]) is None
    assert well_known_binary([[]]) is None
