"""Records as offices spell them: blanks, case, aliases and missing values, read into one code for each level."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.documents import parse_schema
from confide.engines import Engine, LocalEngine, Source, SparkEngine
from confide.errors import InputError, SpecError
from confide.inputs.frame import LevelRule, column_text, read_frame, reading_facts, reading_in_words
from confide.inputs.records import check_codes, check_records, code_expressions, column_expressions
from confide.schema import Schema, Spelling

SPARK = pytest.param(
    "spark",
    marks=[
        pytest.mark.slow,
        pytest.mark.process,
        pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    ],
)


def schema(**attributes: dict[str, Any]) -> Schema:
    return parse_schema({"id": "office", "provenance": "a test", "attributes": attributes})


SEX = {
    "levels": [["M", "male"], ["F", "female"]],
    "missing": "not stated",
    "aliases": {"M": ["m", "Male"], "F": "Female"},
    "trim": True,
}
AGE = {
    "range": [0, 100],
    "levels": [[100, "100 and over"]],
    "missing": {"label": "not stated", "codes": ["n/a", "NS", 998]},
    "aliases": {"100": "100+"},
    "trim": True,
    "recodes": {"broad": {"starts": [0, 15, 65]}},
}
OFFICE = schema(
    sex=SEX, age=AGE, town={"levels": [["Åby", "Åby"], ["924a", "Hill"]], "ignore_case": True, "trim": True}
)
ROWS = [
    ("M", "7", "Åby"),
    (" m ", " 100+\t", "åby"),
    ("Male", "n/a", "ÅBY "),
    ("F\u00a0", "100", "924A"),
    ("Female", "998", "924a"),
    ("", "", "åBy"),
    ("  ", " NS ", " 924A"),
    ("_U", "999", "Åby"),
]
MEANT = {
    "sex": ["M", "M", "M", "F", "F", "_U", "_U", "_U"],
    "age": [7, 100, 999, 100, 999, 999, 999, 999],
    "town": ["Åby", "Åby", "Åby", "924a", "924a", "Åby", "924a", "Åby"],
}


@pytest.fixture(params=["local", SPARK])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "spark":
        request.getfixturevalue("spark")
    kind = {"local": LocalEngine, "spark": SparkEngine}[request.param]
    with kind(tmp_path / "scratch", processes=1) as opened:
        yield opened


def file(folder: Path, ending: str = "csv") -> Source:
    path = folder / f"people.{ending}"
    if ending == "parquet":
        columns = zip(*ROWS, strict=True)
        values = [[value or None for value in column] for column in columns]
        pq.write_table(pa.table(dict(zip(("sex", "age", "town"), values, strict=True))), path)
        return Source(path, "parquet")
    with path.open("w", encoding="utf-8", newline="") as text:
        csv.writer(text).writerows([("sex", "age", "town"), *ROWS])
    return Source(path, "csv")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_spelling_is_read_as_the_code_that_it_means(engine: Engine, tmp_path: Path, ending: str) -> None:
    records = file(tmp_path, ending)
    read = column_expressions(engine, records, OFFICE.attributes, "town")
    numbers = code_expressions(engine, records, OFFICE.attributes, listed=True)
    text = ", ".join(f'{read[name]} AS "{name}", {numbers[name]} AS "{name}_n"' for name in MEANT)
    rows = engine.sql(f"SELECT {text} FROM records", records=records).reveal("a test").to_pydict()
    assert {name: rows[name] for name in MEANT} == MEANT
    for attribute in OFFICE.attributes:
        index = attribute.index
        assert rows[f"{attribute.name}_n"] == [index[code] for code in MEANT[attribute.name]]
    assert check_codes(engine, records, OFFICE.attributes) == []


def test_what_no_spelling_means_is_still_found(engine: Engine, tmp_path: Path) -> None:
    plain = schema(
        sex={"levels": [["M", "male"], ["F", "female"]]}, age={"range": [0, 100]}, town={"levels": [["a", "A"]]}
    )
    assert [finding.where.row for finding in check_codes(engine, file(tmp_path), plain.attributes)] == [2, 2, 1]
    narrow = schema(sex=SEX | {"aliases": {}}, age=AGE | {"missing": "not stated", "aliases": {}})
    sex, age = check_codes(engine, file(tmp_path), narrow.attributes)
    assert (sex.where.row, age.where.row) == (2, 2)


def test_levels_besides_a_range_are_groups_of_their_own() -> None:
    age = schema(age=AGE | {"levels": [[100, "100 and over"], [997, "refused"]]}).variable("age:broad")
    assert age.labels == ["0 to 14", "15 to 64", "65 and over", "refused", "not stated"]
    assert [group.codes[-1] for group in age.groups] == [14, 64, 100, 997, 999]
    assert age.attribute.levels[100].label == "100 and over"
    assert (
        age.attribute.describe_codes() == "a whole number from 0 to 100, or 997, or 999, or an alias of one, or nothing"
    )


def test_the_level_of_missing_values_has_a_code_of_its_own_or_a_declared_one() -> None:
    made = schema(
        a={"levels": [[1, "x"], [9, "y"]], "missing": "not stated"},
        b={"levels": [["1", "x"], ["9", "not stated"]], "missing": "not stated"},
        c={"levels": [[1, "x"]], "missing": {"label": "none", "code": -1}},
    )
    assert [(each.levels[-1].code, each.spelling.missing) for each in made.attributes] == [
        (99, 99),
        ("9", "9"),
        (-1, -1),
    ]


@pytest.mark.parametrize(
    ("attribute", "word"),
    [
        ({"levels": [["M", "m"], ["m", "other"]], "ignore_case": True}, "means two different levels"),
        ({"levels": [["M", "male"], ["F", "female"]], "aliases": {"M": "F"}}, "means two different levels"),
        ({"levels": [["M", "male"], ["F", "female"]], "aliases": {"X": "x"}}, "alias of a code that it lacks"),
        ({"levels": [[1, "a"], ["X", "b"]]}, "mixes integer and text codes"),
        ({"levels": [[1, "a"]], "missing": {"label": "a", "code": 2}}, "another code for 'a'"),
        ({"range": [0, 9], "levels": [[3, "a"], [3, "b"]]}, "more than once"),
        ({"levels": [["a", "x"], ["a ", "y"]], "trim": True}, "differ in blanks"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(attribute: dict[str, Any], word: str) -> None:
    with pytest.raises(SpecError, match=word):
        schema(a=attribute)


def test_a_schema_without_spellings_keeps_its_fingerprint_and_others_have_one_of_their_own() -> None:
    plain = {"levels": [["M", "male"], ["F", "female"]]}
    fingerprint = "cb6521b26229af75f9be071e3d5ac79d02c7891ba0e7d26841e5366aad718929"
    assert schema(sex=plain).fingerprint == fingerprint
    others = [plain, plain | {"trim": True}, plain | {"ignore_case": True}, plain | {"aliases": {"M": "1"}}]
    others += [
        plain | {"aliases": {"M": "2"}},
        plain | {"missing": "none"},
        plain | {"missing": {"label": "none", "codes": ["-"]}},
    ]
    assert len({schema(sex=each).fingerprint for each in others}) == len(others)


def test_the_plan_says_how_records_are_read() -> None:
    records = Source(Path("p.csv"), "csv", encoding="latin-1", spellings={"mun": Spelling(trim=True)})
    assert reading_facts(schema(sex={"levels": [["M", "male"]]}), Source(Path("p.csv"), "csv"), "mun") == {}
    reading = reading_facts(schema(sex=SEX), records, "mun")["reading"]
    assert reading == {
        "attributes": {"sex": {"trim": True, "aliases": {"M": ["m", "Male"], "F": ["Female"]}, "missing": "_U"}},
        "places": {"trim": True},
        "encoding": "latin-1",
    }
    assert reading_in_words(reading) == [
        "the encoding of the file is latin-1",
        "sex: blanks at either end are ignored; 'm', 'Male' mean 'M'; 'Female' means 'F'; an empty value means '_U'",
        "areas: blanks at either end are ignored",
    ]


def test_codes_of_places_are_trimmed_and_merged_as_the_spec_says(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "areas.csv").write_text("mun,region\n001 ,N\n 018,S \n924A,S\n", encoding="utf-8")
    (tmp_path / "people.csv").write_text("mun\n001\n017\n018 \n924A  \n", encoding="utf-8")
    trim, merged = Spelling(trim=True), Spelling(trim=True, aliases=(("017", "018"),))
    areas = Source(tmp_path / "areas.csv", "csv", spellings={"mun": merged, "region": trim})
    spine = read_frame(engine, areas, "mun", [LevelRule("region", column="region")], []).spine
    assert [list(level.codes) for level in spine.levels] == [["N", "S"], ["001", "018", "924A"]]
    records = Source(tmp_path / "people.csv", "csv", spellings={"mun": merged})
    text = f"SELECT {column_text(records, 'mun')} AS mun FROM records"
    assert engine.sql(text, records=records).reveal("a test").column("mun").to_pylist() == ["001", "018", "018", "924A"]
    pq.write_table(pa.table({"code": spine.blocks.codes}), tmp_path / "frame.parquet")
    assert check_records(engine, records, (), "mun", spine, tmp_path / "frame.parquet") == []
    for wrong in (("001", "018"), ("017", "019")):
        bad = Source(areas.path, "csv", spellings={"mun": Spelling(trim=True, aliases=(wrong,)), "region": trim})
        with pytest.raises(InputError) as refused:
            read_frame(engine, bad, "mun", [], [])
        assert [finding.code for finding in refused.value.findings] == ["block-alias"]
