"""The one reader of settings files: places, choices, warnings, and files of every wrong form."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from confide.documents import FileKind, Part, Problem, line_of, load, load_named, load_text, load_values
from confide.errors import ConfideError, Finding, InputError, Place, SpecError

PALETTE = FileKind("palette", code="bad-palette", own_codes=False)


class Round(Part):
    shape: Literal["round"]
    radius: int


class Square(Part):
    shape: Literal["square"]
    width: int
    corners: int = 4


class Pot(Part):
    colour: str
    litres: int | str = 1
    lid: Round | str = "none"


class Palette(Part):
    title: str = ""
    pots: dict[Annotated[str, Field(pattern="^[a-z]+$")], Pot] = Field(default_factory=dict)
    brushes: list[Annotated[Round | Square, Field(discriminator="shape")]] = Field(default_factory=list)
    mixed: list[Annotated[tuple[str, int], Field(strict=False)]] = Field(default_factory=list)


def refused(text: str, kind: FileKind = PALETTE, file: str = "own.toml") -> list[Finding]:
    with pytest.raises(ConfideError) as caught:
        load_text(text, file, Palette, kind=kind)
    assert isinstance(caught.value, kind.error)
    return list(caught.value.findings)


@pytest.mark.parametrize(
    ("text", "line", "path", "meant"),
    [
        ('title = "x"\ntitel = "y"', 2, "titel", "title"),
        ('[pots.red]\ncolour = "red"\nliters = 2', 3, "pots.red.liters", "litres"),
        ('brushes = [\n  { shape = "round", radius = 1 },\n  { shape = "square", width = 1, corner = 3 },\n]', 3,
         "brushes[1].corner", "corners"),
        ('[[brushes]]\nshape = "square"\nwidht = 1', 3, "brushes[0].widht", "width"),
        ('[pots.red]\ncolour = "red"\n[pots.red.lid]\nshape = "round"\nradius = 1\nraduis = 2', 6,
         "pots.red.lid.raduis", "radius"),
    ],
)  # fmt: skip
def test_a_misspelt_key_is_guessed_from_the_keys_of_its_own_table(text: str, line: int, path: str, meant: str) -> None:
    (finding,) = (each for each in refused(text) if "unknown key" in each.what)
    assert (finding.where, finding.remedy) == (Place("own.toml", line, path=path), f'did you mean "{meant}"?')


def test_a_key_like_no_other_is_to_be_removed() -> None:
    (finding,) = refused("weather = 1")
    assert finding.remedy == "remove it"
    assert finding.expected == "one of brushes, mixed, pots, title"


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('[pots.red]\ncolour = "red"\nlitres = 1.5', "pots.red.litres", "a whole number, or text in quotes"),
        ('[pots.red]\ncolour = "red"\nlid = 3', "pots.red.lid", "a table of keys with values, or text in quotes"),
        ('mixed = [["red"]]', "mixed[0][1]", "a list with one value more"),
        ('mixed = [["red", 1, 2]]', "mixed[0]", "at most 2 of them"),
        ('[pots.RED]\ncolour = "red"', "pots.RED", "string should match pattern '^[a-z]+$'"),
        ('[[brushes]]\nshape = "oval"', "brushes[0]", "'round', 'square'"),
    ],
)
def test_a_value_that_is_none_of_several_things_is_one_finding(text: str, path: str, expected: str) -> None:
    (finding,) = refused(text)
    assert (finding.code, finding.where.path, finding.expected) == ("bad-palette", path, expected)


def test_what_is_wrong_inside_a_choice_is_told_and_not_that_it_could_have_been_another() -> None:
    findings = refused('[pots.red]\ncolour = "red"\nlid = { shape = "round", radius = "1" }')
    assert [(each.where.path, each.expected) for each in findings] == [("pots.red.lid.radius", "a whole number")]


def test_codes_and_errors_are_those_of_the_kind() -> None:
    text = 'titel = "x"\n[pots.red]\n[[mixed]]'
    assert {each.code for each in refused(text)} == {"bad-palette"}
    plain = FileKind("palette", error=InputError)
    assert {each.code for each in refused(text, plain)} == {"unknown-key", "missing-key", "bad-value"}
    own = FileKind("palette", unknown_key="own-unknown", missing_key="own-missing")
    assert {each.code for each in refused(text, own)} == {"own-unknown", "own-missing", "bad-value"}


def test_unknown_keys_may_be_warnings_that_hide_no_error() -> None:
    kind = FileKind("palette", unknown_keys="warning", form="json")
    loaded = load_text('{"title": "x",\n "titel": "y"}', "own.json", Palette, kind=kind)
    assert loaded.value == Palette(title="x")
    (warning,) = loaded.warnings
    assert (warning.severity, warning.where.line, warning.remedy) == ("warning", 2, 'did you mean "title"?')
    findings = refused('{"title": 1,\n "titel": "y"}', kind, "own.json")
    assert sorted(each.severity for each in findings) == ["error", "warning"]
    with pytest.raises(SpecError) as caught:
        loaded.refuse([Problem(("title",), "dull", "the title is dull", "another")])
    assert [each.code for each in caught.value.findings] == ["dull", "unknown-key"]


def test_problems_have_their_lines_and_each_is_told_once() -> None:
    loaded = load_text('\n\ntitle = "x"', "own.toml", Palette, kind=PALETTE)
    dull = Problem(("title",), "dull", "the title is dull", "another")
    loaded.refuse([])
    with pytest.raises(SpecError) as caught:
        loaded.refuse([dull, dull])
    assert [each.where for each in caught.value.findings] == [Place("own.toml", 3, path="title")]


def test_values_that_were_parsed_before_have_no_lines() -> None:
    with pytest.raises(SpecError) as caught:
        load_values({"titel": 1}, "", Palette, kind=PALETTE)
    assert caught.value.findings[0].where == Place(path="titel")
    with pytest.raises(SpecError, match="this is no palette"):
        load_values([1], "", Palette, kind=PALETTE)


def test_very_many_mistakes_are_told_in_a_moment() -> None:
    text = "mixed = [" + ", ".join(["1"] * 50_000) + "]"
    start = time.process_time()
    findings = refused(text)
    assert time.process_time() - start < 10
    assert (len(findings), findings[-1].code) == (101, "more-findings")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def code(path: Path, kind: FileKind) -> tuple[str, str]:
        with pytest.raises(SpecError) as caught:
            load(path, Palette, kind=kind)
        (finding,) = caught.value.findings
        assert finding.found
        assert finding.expected
        assert finding.remedy
        return finding.code, finding.what

    kind = FileKind("palette", absent="a", unreadable="u", syntax="s", not_text="n", largest=10)
    path = tmp_path / "own.toml"
    assert code(path, kind) == ("a", "there is no such file")
    assert code(tmp_path, kind)[0] == "u"
    path.write_bytes(b"title = 1 # too long")
    assert code(path, kind) == ("u", "the file is too large for a palette")
    path.write_bytes(b"\xff")
    assert code(path, kind) == ("n", "the file is not text in UTF-8")
    path.write_bytes(b"title")
    assert code(path, kind) == ("s", "the file is not TOML")
    assert code(tmp_path / "none.toml", FileKind("palette"))[0] == "no-palette"
    assert code(tmp_path, FileKind("palette"))[0] == "bad-palette"


def test_a_name_that_does_not_ship_is_told_where_it_stands() -> None:
    kind = FileKind("schema", shipped="schemas")
    where = Place("spec.toml", 7, path="data.schema")
    with pytest.raises(SpecError) as caught:
        load_named("nobody", Path(), Palette, kind=kind, where=where)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("no-schema", where)
    assert "persons" in (finding.expected or "")


# Lines of JSON.


values = st.recursive(
    st.integers() | st.booleans() | st.none() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), st.booleans())
def test_the_line_of_a_value_in_json_is_where_it_was_written(document: dict[str, object], ascii_only: bool) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=ascii_only)
    lines = text.split("\n")
    for key in document:
        line = line_of(text, (key,), is_json=True)
        assert line is not None
        assert lines[line - 1].startswith(f" {json.dumps(key, ensure_ascii=ascii_only)}:")
        assert lines[line - 1][1] != " "  # a key of the outermost table


def test_lines_of_json() -> None:
    text = '{\n  "nodes" : [\n    {"name":\n "a"},\n    {"name": "b", "x": [1,\n 2]}\n  ]\n}'
    for path, line in ((("nodes",), 2), (("nodes", 0, "name"), 3), (("nodes", 1, "x"), 5), (("nodes", 1, "x", 1), 6)):
        assert line_of(text, path, is_json=True) == line
    assert line_of(text, ("nothing",), is_json=True) is None
